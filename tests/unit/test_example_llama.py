"""Llamas with seeded weights: their bytes follow from the seed, by the sentences. spec: FD5.11, FD5.12, FD5.13"""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from gguf import quants
from gguf.constants import GGMLQuantizationType

from tests.support.gguf_parts import TINY, tiny
from tests.support.plain_llama import PlainLlama
from tests.support.seeded import element, philox
from tmmu import examples
from tmmu.cli.entry import run
from tmmu.examples import llama
from tmmu.foundry.shapes import open_llama
from tmmu.foundry.weights import BLOCKS

V = {
    "token_embd": Fraction(4), "output": Fraction(4), "ffn_gate": Fraction(2), "ffn_up": Fraction(2),
    "attn_v": Fraction(1), "attn_q": Fraction(1, 2), "attn_k": Fraction(1, 2), "attn_output": Fraction(1, 8),
    "ffn_down": Fraction(1, 8),
}  # fmt: skip

DIGESTS = {
    "f32": "9a54924b81fc5fc9", "f16": "4d581ba10b7252d2", "q8_0": "135e80c02732847f", "q4_0": "4ade6d0785233d36",
}  # fmt: skip


@pytest.mark.parametrize("file_type", ["f32", "f16"])
def test_each_element_is_what_the_sentences_say(file_type: str, tmp_path: Path) -> None:
    """spec: FD5.12"""
    shape = llama.SeededLlama("own", 64, 1, 2, 1, 96, vocab=300, tied=False)
    file = open_llama(tiny(tmp_path, file_type, shape, 2**64 - 1))
    assert len(file.tensors) == 12
    for k, (name, weight) in enumerate(file.tensors.items()):
        is_norm = weight.rows == 1
        assert weight.type == ("F32" if is_norm else file_type.upper())
        square = Fraction(1, 16) if is_norm else 3 * V[name.split(".")[-2]] / weight.columns
        bits = 11 if weight.type == "F16" else 16
        found = weight.blocks.reshape(-1).view("<f4" if weight.type == "F32" else "<f2")[:32].astype(np.float64)
        wanted = [float(element(u, square, bits, int(is_norm))) for u in philox(2**64 - 1, k)]
        assert found.tolist() == wanted, name


@pytest.mark.parametrize("file_type", ["q8_0", "q4_0"])
def test_a_quantised_file_has_the_blocks_of_the_same_values(file_type: str, tmp_path: Path) -> None:
    """spec: FD5.13"""
    plain, stored = open_llama(tiny(tmp_path)), open_llama(tiny(tmp_path, file_type))
    kind = GGMLQuantizationType[file_type.upper()]
    for name, weight in plain.tensors.items():
        values = weight.blocks.view(np.float32)
        found = stored.tensors[name]
        wanted = values.view(np.uint8) if weight.rows == 1 else quants.quantize(values, kind)
        assert found.blocks.tobytes() == wanted.tobytes()
        assert BLOCKS[found.type] == (BLOCKS["F32"] if weight.rows == 1 else llama.TYPES[file_type][2:])


@pytest.mark.parametrize("file_type", llama.TYPES)
def test_the_bytes_of_a_seed_are_the_same_everywhere(file_type: str, tmp_path: Path) -> None:
    """Digests of a small file; pieces may end anywhere. spec: FD5.11"""
    found = hashlib.sha256(tiny(tmp_path, file_type).read_bytes()).hexdigest()
    assert found[:16] == DIGESTS[file_type]
    assert tiny(tmp_path, file_type, TINY, 2).read_bytes() != b"".join(llama.file_pieces(TINY, 1, file_type))


def test_the_examples_have_the_shapes_of_their_names() -> None:
    for shape, millions in ((llama.LLAMA_15M, 14), (llama.LLAMA_110M, 100)):
        assert sum(max(rows, 1) * columns for _, rows, columns in shape.tensors()) // 10**6 == millions
        assert (shape.vocab, shape.context_length, shape.n_heads // shape.n_kv_heads) == (32000, 8192, 3)


def test_pieces_are_all_different_and_fill_the_vocabulary() -> None:
    pieces = list(llama._iterate_vocabulary())
    assert len(set(pieces)) == len(pieces) >= 32000
    assert pieces.index("<0x00>") == llama.BYTES_FROM
    assert pieces.index("▁") == llama.PIECES_FROM


@pytest.mark.parametrize("vocab", [0, 259, 40000])
def test_a_vocabulary_that_cannot_be_filled_is_refused(vocab: int) -> None:
    with pytest.raises(ValueError, match=f"{vocab}"):
        llama.file_pieces(llama.SeededLlama("m", 64, 1, 2, 1, 96, vocab=vocab), 1)


@pytest.mark.parametrize("activation", [np.float32, np.float16])
def test_the_network_neither_vanishes_nor_grows(activation: type, tmp_path: Path) -> None:
    """Logits of a few units, another token at almost every step, margins that rounding does not close."""
    model = PlainLlama(open_llama(tiny(tmp_path)), activation, 128)
    logits = model.run([1, 260, 270, 280])
    margins, tokens = [], []
    for _ in range(60):
        second, first = np.sort(logits.astype(np.float64))[-2:]
        margins.append(first - second)
        tokens.append(int(np.argmax(logits)))
        assert 1 < float(logits.astype(np.float64).std()) < 4
        logits = model.step(tokens[-1])
    assert float(np.median(margins)) > 0.3
    assert len(set(tokens)) > 20
    assert math.isfinite(float(logits.max()))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("llama-15m", []),
        ("llama-15m", ["--weights", "-1"]),
        ("llama-15m", ["--weights", "1", "--type", "q4_k"]),
        ("mico-mlp", ["--weights", "1", "--type", "f16"]),
        ("text-plan", ["--type", "f16"]),
    ],
)
def test_what_means_nothing_is_refused(
    name: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: FD5.11"""
    assert run(["example", name, "-o", str(tmp_path / "m"), *options]) == 2
    assert capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_command_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.gguf"
    assert run(["example", "llama-15m", "--weights", "1", "--type", "q4_0", "-o", str(path)]) == 0
    assert capsys.readouterr().out == f"wrote {path}\n"
    found = open_llama(path).shape
    assert (found.d_model, found.n_layers, found.n_heads, found.n_kv_heads, found.d_ff) == (288, 6, 6, 2, 768)
    with pytest.raises(ValueError, match="f64"):
        examples.write("llama-15m", path, 1, "f64")
