"""Compiled products: their order of sums bit for bit, sessions on them, and what they do without numba.

spec: FD12.1 to FD12.4
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from gguf import quants
from gguf.constants import GGMLQuantizationType
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.plain_llama import PlainLlama, Stored
from tests.support.small_llama import file_of, session_of
from tmmu.core.errors import TmmuError
from tmmu.examples.llama import SeededLlama
from tmmu.foundry.context import Layout
from tmmu.foundry.packed_rows import PACKED, PACKED_TYPES, WIDTH, compile_product, pack_rows
from tmmu.foundry.shapes import open_llama
from tmmu.foundry.weights import BLOCKS, Weight, WeightType
from tmmu.tasks.language_session import SessionOptions, compile_model, plan_session, verdicts_on

EVEN = SeededLlama("even", 128, 2, 4, 2, 192, vocab=320, context_length=512, tied=False)
"""All rows of matrices are whole groups."""
PARTLY = SeededLlama("partly", 64, 1, 4, 2, 96, vocab=384, context_length=512)
"""Some are: those of the feed-forward network and of keys and values are not; the embedding is stored in two forms."""
PROMPT = [1, 5, 7, 5, 7, 11, 260, 261, 299]

Single = NDArray[np.float32]


def elements(weight_type: WeightType, blocks: NDArray[np.uint8]) -> tuple[Single, Single]:
    """Stored elements as float32, [rows, blocks, 32], and scales, [rows, blocks]."""
    stored = blocks.reshape(len(blocks), -1, BLOCKS[weight_type][1])
    scales = np.ascontiguousarray(stored[:, :, :2]).view(np.float16)[:, :, 0].astype(np.float32)
    if weight_type == "Q8_0":
        return stored[:, :, 2:].view(np.int8).astype(np.float32), scales
    low, high = stored[:, :, 2:] & 15, stored[:, :, 2:] >> 4
    return np.concatenate([low, high], axis=2).astype(np.float32) - np.float32(8), scales


def product(weight_type: WeightType, blocks: NDArray[np.uint8], x: Single) -> Single:
    """The product in the order that the page states."""
    stored, scales = elements(weight_type, blocks)
    total = np.zeros(len(blocks), np.float32)
    for block in range(stored.shape[1]):
        part = np.zeros(len(blocks), np.float32)
        for element in range(32):
            part = part + stored[:, block, element] * x[block * 32 + element]
        total = total + part * scales[:, block]
    return total


def packed_product(weight_type: WeightType, blocks: NDArray[np.uint8], x: Single) -> Single:
    """The product of the device."""
    size, groups = BLOCKS[weight_type][1], len(blocks) // WIDTH
    packed = np.empty((groups, blocks.shape[1] // size, size * WIDTH), np.uint8)
    pack_rows(weight_type, blocks, packed)
    assert packed.nbytes == blocks.nbytes
    out, part, scales = np.empty(len(blocks), np.float32), np.empty(WIDTH, np.float32), np.empty(WIDTH, np.float32)
    compile_product(weight_type)(packed.view(np.int8), x, out, scales.view(np.int32), scales, part)
    return out


@pytest.mark.parametrize("weight_type", PACKED_TYPES)
@given(data=st.data())
def test_a_product_is_the_sum_in_the_stated_order(weight_type: WeightType, data: st.DataObject) -> None:
    """Bit for bit, of any blocks: subnormal scales, infinite ones and NaN too. spec: FD12.3, FD12.2"""
    groups, count, seed = (data.draw(st.integers(*ends)) for ends in ((1, 3), (1, 4), (0, 2**32 - 1)))
    rng = np.random.default_rng(seed)
    size = BLOCKS[weight_type][1]
    blocks = rng.integers(0, 256, (groups * WIDTH, count * size), np.uint8)
    if data.draw(st.booleans()):
        scales = rng.normal(0, data.draw(st.sampled_from([1e-6, 1e-2, 1e3])), (groups * WIDTH, count))
        blocks.reshape(-1, count, size)[:, :, :2] = scales.astype(np.float16)[:, :, None].view(np.uint8)
    x = rng.normal(0, 1, 32 * count).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = product(weight_type, blocks, x)
    found = packed_product(weight_type, blocks, x)
    is_nan = np.isnan(expected)
    assert np.array_equal(is_nan, np.isnan(found))
    assert found[~is_nan].tobytes() == expected[~is_nan].tobytes()


@pytest.mark.parametrize("weight_type", PACKED_TYPES)
def test_a_product_is_close_to_that_of_gguf(weight_type: WeightType) -> None:
    rng = np.random.default_rng(1)
    kind = GGMLQuantizationType[weight_type]
    blocks = quants.quantize(rng.normal(0, 1, (2 * WIDTH, 96)).astype(np.float32), kind)
    x = rng.normal(0, 1, 96).astype(np.float32)
    wanted = quants.dequantize(blocks, kind).astype(np.float64) @ x
    assert np.abs(packed_product(weight_type, blocks, x) - wanted).max() < 1e-4


class PackedPlain(PlainLlama):
    """A plain run whose products have the order of the page, if the rows of the weight are whole groups."""

    def _product(self, weight: Weight, x: Stored, bias: Weight | None = None, limit: float = 0.0) -> Stored:
        if weight.type not in PACKED_TYPES or weight.rows % WIDTH:
            return super()._product(weight, x, bias, limit)
        found: Stored = product(weight.type, weight.blocks, x.astype(np.float32)).astype(self.activation)
        return found


@pytest.mark.parametrize("file_type", ["q8_0", "q4_0"])
@pytest.mark.parametrize("activation", ["f16", "f32"])
def test_a_session_is_the_plain_run_with_these_products(file_type: str, activation: str) -> None:
    """Bit for bit, for each chunk, batch and layout. spec: FD12.4, FD12.2"""
    layout: Layout
    for shape, layout, chunk, batch in ((EVEN, "compact", "4", "2"), (PARTLY, "expanded", "32", "16")):
        path = file_of(shape, 1, file_type)
        options = SessionOptions(initial=128, activations=activation, device="fast", layout=layout, budget=1 << 26)
        environment = {"METALLIC_PREFILL_CHUNK_SIZE": chunk, "METALLIC_FOUNDRY_DECODE_BATCH_SIZE": batch}
        model = compile_model(path, options)
        session = session_of(model, options, environment)
        plain = PackedPlain(open_llama(path), {"f16": np.float16, "f32": np.float32}[activation], 128)
        session.prefill(PROMPT)
        assert session.output[0].tobytes() == plain.run(PROMPT).tobytes()
        assert list(session.generate([3], 5)) == plain.greedy([3], 5)
        stored = {name: weight.form for name, weight in session.graph._weights.items()}
        assert any(stored.values())
        assert stored["token_embd.weight"] == ""
        assert (f"token_embd.weight ({PACKED})" in stored) == shape.tied
        session.close()


def test_weights_without_whole_groups_and_of_other_types_stay_as_they_are() -> None:
    """spec: FD12.1"""
    for shape, file_type in ((EVEN, "f32"), (SeededLlama("narrow", 96, 1, 3, 1, 32, vocab=300), "q8_0")):
        path = file_of(shape, 1, file_type)
        options = SessionOptions(initial=128, activations="f32", device="fast", budget=1 << 26)
        session = session_of(compile_model(path, options), options)
        session.prefill(PROMPT)
        assert session.output[0].tobytes() == PlainLlama(open_llama(path), np.float32, 128).run(PROMPT).tobytes()
        session.close()


def test_its_plans_are_proved() -> None:
    """They have less scratch: no tile is decompressed. spec: FD12.4"""
    sizes = []
    for device in ("numpy", "fast"):
        options = SessionOptions(initial=128, device=device, budget=1 << 26)
        session = session_of(compile_model(file_of(EVEN, 1, "q8_0"), options), options)
        plans = plan_session(session.forward)
        assert [verdict.verdict for verdict in verdicts_on(plans, session.forward)] == ["PROVED"] * 3
        sizes.append(session.buffers["intermediates"].size)
        session.close()
    assert sizes[1] < sizes[0]


def test_numba_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before the file is read. spec: FD12.1"""
    compile_product.cache_clear()
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(TmmuError, match="MISSING_PACKAGE"):
        compile_model(tmp_path / "absent", SessionOptions(device="fast"))
    compile_product.cache_clear()
