"""The plain run, to which sessions are equal bit for bit, beside llama.cpp, and tokenizers too. spec: FD5.8, FD5.14

llama.cpp is the package xllamacpp (extra `oracle`). It loads the same file, with a cache of float16 and without flash
attention, which adds up values in float16.
"""

from __future__ import annotations

import importlib.util
import json
import random
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.gguf_parts import Parts, Tensor, numbers, texts, tiny, value
from tests.support.model_kinds import KINDS, LONG, RECORDED, write_kind
from tests.support.plain_llama import PlainLlama
from tmmu import examples
from tmmu.core.output import format_json
from tmmu.examples.llama import SeededLlama
from tmmu.foundry.shapes import LlamaFile, open_llama
from tmmu.foundry.tokenizer import WHOLE_PIECES, PromptTokenizer
from tmmu.tasks.language_session import SessionOptions, open_session

xllamacpp = pytest.importorskip("xllamacpp")  # what sessions are compared with: extra oracle

PROMPTS = {
    "one": [1],
    "text": [1, 20230, 28922, 713, 271, 1642, 290],
    "run": [1, *range(300, 421)],
    "blocks": [1, *range(31999, 31850, -1)],
}
TOKENS = 30
TOLERANCES = {"f32": {"float32": 5e-3, "float16": 5e-2}, "f16": {"float32": 5e-2, "float16": 5e-2},
              "q8_0": {"float32": 0.5, "float16": 0.5}, "q4_0": {"float32": 0.5, "float16": 0.5}}  # fmt: skip


class LlamaCpp:
    """llama.cpp with a file."""

    def __init__(self, path: Path) -> None:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(path)
        parameters.n_ctx, parameters.n_parallel = 2048, 1
        parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.server = xllamacpp.Server(parameters)

    def ask(self, place: str, **question: Any) -> Any:
        request = urllib.request.Request(
            self.server.listening_address + place, json.dumps(question).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    def greedy(self, prompt: list[int], count: int, *, no_bytes: bool = False) -> list[dict[str, Any]]:
        """For each token its id, and the log-probabilities of the 20 most probable.

        A byte that is no whole character has no entry; with `no_bytes` none is chosen.
        """
        banned = [[token, False] for token in range(3, 259)] if no_bytes else []
        answer = self.ask(
            "/completion", prompt=prompt, n_predict=count, temperature=0, ignore_eos=True, n_probs=20,
            post_sampling_probs=False, cache_prompt=False, logit_bias=banned,
        )  # fmt: skip
        found: list[dict[str, Any]] = answer["completion_probabilities"]
        return found


@pytest.fixture(scope="module", params=TOLERANCES)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, LlamaFile, LlamaCpp]:
    path = tmp_path_factory.mktemp("llama") / "m.gguf"
    examples.write("llama-15m", path, 1, request.param)
    return request.param, open_llama(path), LlamaCpp(path)


def log_probabilities(logits: NDArray[Any]) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    found: NDArray[np.float64] = wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())
    return found


@pytest.mark.parametrize("activation", ["float32", "float16"])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_log_probabilities_are_those_of_llama_cpp(
    loaded: tuple[str, LlamaFile, LlamaCpp], prompt: str, activation: str
) -> None:
    """Token by token along llama.cpp's own greedy run; where the two differ, the margin was smaller. spec: FD5.14"""
    file_type, file, judge = loaded
    tolerance = TOLERANCES[file_type][activation]
    model = PlainLlama(file, np.dtype(activation).type, 512)
    logits = model.run(PROMPTS[prompt])
    for step in judge.greedy(PROMPTS[prompt], TOKENS):
        found = log_probabilities(logits)
        for candidate in step["top_logprobs"]:
            assert abs(found[candidate["id"]] - candidate["logprob"]) <= tolerance
        if int(np.argmax(logits)) != step["id"]:
            assert found.max() - found[step["id"]] <= tolerance
        logits = model.step(step["id"])


GGML_TOLERANCES = {"f32": 5e-2, "f16": 5e-2, "q8_0": 0.5, "q4_0": 0.5}


@pytest.mark.parametrize("prompt", ["text", "run"])
def test_sessions_on_ggml_are_as_close(loaded: tuple[str, LlamaFile, LlamaCpp], prompt: str) -> None:
    """As above, and beside the plain run too; attention of ggml adds up values in float16. spec: FD10.7"""
    pytest.importorskip("ggml")  # the device that is compared: extra ggml
    file_type, file, judge = loaded
    bound = GGML_TOLERANCES[file_type]
    session = open_session(
        file.path, SessionOptions(context=512, device="ggml", threads=1, budget=1 << 28), environment={}
    )
    plain = PlainLlama(file, np.float32, 512)
    expected = log_probabilities(plain.run(PROMPTS[prompt]))
    session.prefill(PROMPTS[prompt])
    found = log_probabilities(session.output[0])
    for step in judge.greedy(PROMPTS[prompt], TOKENS):
        assert np.abs(found - expected)[expected > expected.max() - 10].max() <= bound
        for candidate in step["top_logprobs"]:
            assert abs(found[candidate["id"]] - candidate["logprob"]) <= bound
        (row,) = session.passes([step["id"]])
        found, expected = log_probabilities(row[0]), log_probabilities(plain.step(step["id"]))
    session.close()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_model_is_that_of_llama_cpp(kind: str, tmp_path: Path) -> None:
    """On both devices, along llama.cpp's own greedy run. spec: FD5.14, FD5.15, FD10.7"""
    path = write_kind(tmp_path, kind)
    judge = LlamaCpp(path)
    plain = PlainLlama(open_llama(path), np.float32, 512)
    found = [log_probabilities(plain.run(LONG))]
    session = None
    if importlib.util.find_spec("ggml") is not None:
        session = open_session(path, SessionOptions(device="ggml", threads=1, budget=1 << 28), environment={})
        session.prefill(LONG)
        found.append(log_probabilities(session.output[0]))
    for step in judge.greedy(LONG, 12, no_bytes=True):
        for number, each in enumerate(found):
            bound = 5e-2 if number else 1e-2
            for candidate in step["top_logprobs"]:
                assert abs(each[candidate["id"]] - candidate["logprob"]) <= bound
        found = [log_probabilities(plain.step(step["id"]))]
        if session is not None:
            (row,) = session.passes([step["id"]])
            found.append(log_probabilities(row[0]))


def test_what_is_recorded_of_llama_cpp_is_what_it_gives(tmp_path: Path) -> None:
    """To record it again, delete the file and run this test. spec: FD5.15"""
    found = {}
    for kind in KINDS:
        step = LlamaCpp(write_kind(tmp_path, kind)).greedy(LONG, 1, no_bytes=True)[0]
        found[kind] = [[each["id"], round(each["logprob"], 5)] for each in step["top_logprobs"][:8]]
    if not RECORDED.exists():
        RECORDED.write_text(format_json(found, None) + "\n")
    recorded = json.loads(RECORDED.read_text())
    assert recorded.keys() == found.keys()
    for kind, rows in recorded.items():
        assert [token for token, _ in rows] == [token for token, _ in found[kind]]
        assert np.abs(np.array(rows) - np.array(found[kind])).max() <= 1e-2


def test_a_model_that_differs_is_noticed(loaded: tuple[str, LlamaFile, LlamaCpp]) -> None:
    """Without the rotation by RoPE log-probabilities are far from these."""
    file_type, file, judge = loaded
    step = judge.greedy(PROMPTS["run"], 1)[0]
    right, unrotated = PlainLlama(file, np.float32, 512), PlainLlama(file, np.float32, 512)
    unrotated.tables[0][0][:], unrotated.tables[0][1][:] = 1, 0
    differences = []
    for model in (right, unrotated):
        found = log_probabilities(model.run(PROMPTS["run"]))
        differences.append(max(abs(found[c["id"]] - c["logprob"]) for c in step["top_logprobs"]))
    assert differences[0] <= TOLERANCES[file_type]["float32"]
    assert differences[1] > 2 * differences[0]


def samples(seed: int, pieces: list[str]) -> Iterator[str]:
    """Texts of letters, of any characters, of pieces, of runs and of what looks like control tokens."""
    chosen = random.Random(seed)
    specials = [
        "  ",
        "\n\n",
        " a",
        "<s>",
        "</s> x",
        "<0x41>",
        "aaaaaaa",
        "don't",
        " 12345",
        "\t\r\n",
        "é",
        "日本",
        "😀",
    ]
    for k in range(1000):
        count = chosen.randint(0, 30)
        if k % 4 == 0:
            yield "".join(chosen.choice("etaoin shrd") for _ in range(count))
        elif k % 4 == 1:
            ranges = [(1, 300), (0x370, 0x700), (0x3000, 0x9000), (0x1F300, 0x1F700), (32, 127)]
            yield "".join(chr(chosen.randint(*chosen.choice(ranges))) for _ in range(count))
        elif k % 4 == 2:
            yield "".join(chosen.choice(pieces).replace("▁", " ") for _ in range(count))
        else:
            yield "".join(chosen.choice(specials) for _ in range(chosen.randint(1, 8)))


def test_prompts_become_the_tokens_of_llama_cpp(tmp_path: Path) -> None:
    """spec: FD5.8, FD5.9"""
    path = tmp_path / "m.gguf"
    examples.write("llama-15m", path, 1, "q4_0")
    judge, tokenizer = LlamaCpp(path), PromptTokenizer(open_llama(path))
    for text in samples(1, tokenizer.pieces[259:]):
        tokens = tokenizer.encode(text)
        assert tokens == judge.ask("/tokenize", content=text, add_special=True, parse_special=False)["tokens"], text
        assert tokenizer.decode(tokens) == text


def byte_level(folder: Path, pieces: list[str], merges: list[str], pre: str) -> Path:
    """A file with a vocabulary of the kind `gpt2`, whose weights are drawn."""
    file = open_llama(tiny(folder, shape=SeededLlama("drawn", 64, 1, 2, 1, 96, vocab=len(pieces))))
    keys = {name: value(found) for name, found in file.metadata.items() if name.startswith(("general.", "llama."))}
    keys |= {
        "tokenizer.ggml.model": value("gpt2"), "tokenizer.ggml.pre": value(pre),
        "tokenizer.ggml.tokens": texts(pieces), "tokenizer.ggml.merges": texts(merges),
        "tokenizer.ggml.token_type": numbers(5, "i", [1] * len(pieces)),
        "tokenizer.ggml.bos_token_id": value(0), "tokenizer.ggml.eos_token_id": value(0),
    }  # fmt: skip
    tensors = {
        weight.name: Tensor((weight.columns, weight.rows)[: 1 + (weight.rows > 1)], data=weight.blocks.tobytes())
        for weight in file.tensors.values()
    }
    path = folder / "bytes.gguf"
    path.write_bytes(Parts(keys, tensors).encoded())
    return path


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "llama-bpe", "qwen2", "tekken"])
def test_prompts_become_the_tokens_of_llama_cpp_by_bytes(pre: str, tmp_path: Path) -> None:
    """A vocabulary that `tokenizers` trained on this project's pages. spec: FD5.8"""
    import tokenizers

    pages = sorted((Path(__file__).resolve().parents[2] / "spec").glob("*.md"))
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train([str(page) for page in pages], vocab_size=2000, show_progress=False)
    model = json.loads(trained.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    assert len(pieces) == 2000
    path = byte_level(tmp_path, pieces, [" ".join(pair) for pair in model["merges"]], pre)
    judge, tokenizer = LlamaCpp(path), PromptTokenizer(open_llama(path))
    for text in samples(2, [piece for piece in pieces if piece.isascii()]):
        tokens = tokenizer.encode(text)
        assert tokens == judge.ask("/tokenize", content=text, add_special=True, parse_special=False)["tokens"], text
        assert tokenizer.decode(tokens[tokens[:1] == [0] and pre in WHOLE_PIECES :]) == text
