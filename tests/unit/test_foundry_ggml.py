"""Sessions on the kernels of ggml, where ggml-python is installed (extra `ggml`).

Each tensor is at an address of the plan, no batch changes a bit, and logits are close to those of the plain run.
"""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import ran
from tests.support.gguf_parts import Parts, Tensor, numbers, texts, value
from tests.support.plain_llama import PlainLlama
from tests.support.small_llama import SMALL, TIED, file_of, session_of
from tmmu.core.errors import TmmuError
from tmmu.examples.llama import SeededLlama
from tmmu.foundry.context import Layout
from tmmu.foundry.forward import THREADS, WORK
from tmmu.foundry.ggml_kernels import GraphShape, _packed_buffer
from tmmu.foundry.kernels import DeviceWeight, PassBatch
from tmmu.foundry.session import ModelSession, initialize_session
from tmmu.foundry.shapes import open_llama
from tmmu.foundry.weights import WeightType
from tmmu.plans.allocation import Allocation
from tmmu.tasks.language_session import (
    SessionOptions,
    compile_model,
    plan_session,
    prepare_session,
    prove,
    verdicts_on,
)

HERE = importlib.util.find_spec("ggml") is not None
pytestmark = pytest.mark.skipif(not HERE, reason="ggml-python is not installed")  # CI does without: it compiles C

PROMPT = [1, 5, 7, 5, 7, 11, 260, 261, 299]
TEXT = [token % 300 for token in range(5, 700, 3)]
ON_GGML = SessionOptions(initial=128, device="ggml", threads=2, budget=1 << 26)
WIDE = SeededLlama("wide", 256, 1, 4, 2, 512, vocab=300, context_length=512, tied=False)
"""Rows of whole blocks of the K types."""
BOUNDS = {"f32": 5e-2, "f16": 5e-2, "q8_0": 0.3, "q4_0": 0.3, "BF16": 0.1, "Q4_K": 0.3, "Q5_K": 0.3, "Q6_K": 0.3}
"""How far logits may be from the plain run, whose activations are float32; their deviation is 2. spec: FD10.7"""


def opened(path: Path, environment: dict[str, str] | None = None, options: SessionOptions = ON_GGML) -> ModelSession:
    """A session that is ready, whose plans nobody proved."""
    return session_of(compile_model(path, options), options, environment)


def of_type(kind: WeightType, folder: Path) -> tuple[Path, Path]:
    """A file whose matrices ggml has quantised, and the same values as float32."""
    from ggml import ggml

    source = open_llama(file_of(WIDE))
    number = getattr(ggml, f"GGML_TYPE_{kind}")
    keys = {
        name: value(found)
        for name, found in source.metadata.items()
        if name.startswith(("general.", "llama.")) and isinstance(found, bool | int | float | str)
    }
    pieces = [f"piece {k}" for k in range(WIDE.vocab)]
    keys |= {"tokenizer.ggml.model": value("llama"), "tokenizer.ggml.tokens": texts(pieces),
             "tokenizer.ggml.scores": numbers(6, "f", [0.0] * WIDE.vocab)}  # fmt: skip
    quantised, plain = dict[str, Tensor](), dict[str, Tensor]()
    for weight in source.tensors.values():
        dims = (weight.columns, weight.rows)[: 1 + (weight.rows > 1)]
        values = np.ascontiguousarray(weight.blocks).view(np.float32)
        if weight.rows == 1:
            quantised[weight.name] = plain[weight.name] = Tensor(dims, data=values.tobytes())
            continue
        size = ggml.ggml_row_size(number, weight.columns) * weight.rows
        stored, again = np.empty(size, np.uint8), np.empty_like(values)
        floats = ctypes.POINTER(ctypes.c_float)
        ggml.ggml_quantize_chunk(
            number, values.ctypes.data_as(floats), stored.ctypes.data, 0, weight.rows, weight.columns, None
        )
        ggml.ggml_get_type_traits(number).contents.to_float(
            stored.ctypes.data, again.ctypes.data_as(floats), values.size
        )
        quantised[weight.name] = Tensor(dims, number, data=stored.tobytes())
        plain[weight.name] = Tensor(dims, data=again.tobytes())
    paths = folder / "quantised.gguf", folder / "plain.gguf"
    for path, tensors in zip(paths, (quantised, plain), strict=True):
        path.write_bytes(Parts(keys, tensors).encoded())
    return paths


def furthest(session: ModelSession, plain: PlainLlama, tokens: list[int]) -> float:
    """The largest difference of a logit."""
    rows = [row.copy() for part in session.passes(tokens) for row in part]
    return max(float(np.abs(row - plain.step(token)).max()) for row, token in zip(rows, tokens, strict=True))


@pytest.mark.parametrize("file_type", ["f32", "f16", "q8_0", "q4_0"])
def test_logits_are_close_to_those_of_a_plain_run(file_type: str) -> None:
    """Over a growth of the cache, and in both layouts. spec: FD10.7"""
    layout: Layout
    for shape, layout in ((SMALL, "expanded"), (TIED, "compact")):
        path = file_of(shape, 3, file_type)
        session = opened(path, options=replace(ON_GGML, layout=layout))
        tokens = [token % shape.vocab for token in range(1, 2000, 13)]
        difference = furthest(session, PlainLlama(open_llama(path), np.float32, 512), tokens)
        assert session.cache.capacity > 128
        assert 0 < difference <= BOUNDS[file_type]


@pytest.mark.parametrize("kind", ["BF16", "Q4_K", "Q5_K", "Q6_K"])
def test_types_that_numpy_does_not_multiply(kind: WeightType, tmp_path: Path) -> None:
    """The device numpy refuses them, and names the device that does not. spec: FD10.3, FD5.3"""
    quantised, plain = of_type(kind, tmp_path)
    with pytest.raises(TmmuError, match="--device ggml") as refused:
        compile_model(quantised)
    assert refused.value.code_id == "INVALID_WEIGHTS"
    found = furthest(opened(quantised), PlainLlama(open_llama(plain), np.float32, 256), PROMPT)
    assert 0 < found <= BOUNDS[kind]


def bits(session: ModelSession, tokens: list[int]) -> list[bytes]:
    """The logits of each token."""
    return [row.tobytes() for rows in session.passes(tokens) for row in rows]


@pytest.mark.parametrize("file_type", ["f32", "f16", "q8_0", "q4_0"])
def test_neither_chunk_nor_batch_nor_threads_nor_layout_changes_a_bit(file_type: str) -> None:
    """spec: FD10.5"""
    path, expected = file_of(SMALL, 1, file_type), list[bytes]()
    layout: Layout
    for chunk, batch, layout, threads in ((1, 1, "compact", 1), (32, 64, "expanded", 2), (512, 7, "compact", 3)):
        environment = {"METALLIC_PREFILL_CHUNK_SIZE": str(chunk), "METALLIC_FOUNDRY_DECODE_BATCH_SIZE": str(batch)}
        session = opened(path, environment, replace(ON_GGML, layout=layout, threads=threads))
        found = bits(session, TEXT[:100])
        session.prefill(TEXT[100:])
        found.append(session.output[0].tobytes())
        session.close()
        expected = expected or found
        assert found == expected


def regions(session: ModelSession, name: str) -> list[tuple[int, int]]:
    """The first byte and the end of each tensor of the plan of a pass, and of each buffer that no plan has."""
    bound = session.graph._bound[name]
    cache = [buffer for layer in range(2) for buffer in session.cache.of_layer(layer).values()]
    weights = [weight.region.buffer for weight in session.graph._weights.values()]
    own = [(r.buffer.address + r.offset, r.buffer.address + r.offset + r.size) for r in bound.regions.values()]
    return own + [(buffer.address, buffer.address + buffer.size) for buffer in (*cache, *weights)]


def outside(session: ModelSession, name: str) -> list[Any]:
    """The tensors of ggml that are in no region."""
    known = regions(session, name)
    return [
        each
        for kernel in session.graph.kernels(name)
        for each in kernel.tensors()  # type: ignore[attr-defined]
        if not any(first <= each.address and each.address + each.bytes <= end for first, end in known)
    ]


def test_every_tensor_and_the_work_buffer_are_at_an_address_of_the_plan() -> None:
    """Of the last graphs of both passes; a tensor that is moved out of its arena is noticed. spec: FD10.2, FD10.4"""
    session = opened(file_of(SMALL, 1, "q4_0"))
    list(session.passes(TEXT[:150]))
    session.prefill(PROMPT)
    for name in ("prefill", "decode"):
        found = [each for kernel in session.graph.kernels(name) for each in kernel.tensors()]  # type: ignore[attr-defined]
        assert len(found) > 100
        assert {"NONE", "MUL_MAT", "FLASH_ATTN_EXT", "ROPE", "SET_ROWS", "CPY", "WORK"} <= {each.op for each in found}
        assert outside(session, name) == []
        kernel = session.graph.kernels(name)[0]
        graph, _ = kernel.slots[0]  # type: ignore[attr-defined]
        node = kernel.ggml.ggml_graph_node(graph.nodes, 3)  # type: ignore[attr-defined]
        node.contents.data += 1 << 40
        assert len(outside(session, name)) >= 1
    session.close()


def test_a_pass_makes_no_buffer_and_ggml_allocates_no_tensor() -> None:
    """Its contexts hold descriptions only, its own plan of a pass fits into `WORK`, and a shape is built once.

    spec: FD10.2, FD10.4, FD10.8
    """
    session = opened(file_of(SMALL, 1, "q8_0"))
    made = session.model.device.buffers_made
    assert len(list(session.generate(PROMPT, 30))) == 30
    assert session.model.device.buffers_made == made
    for name in ("prefill", "decode"):
        for kernel in session.graph.kernels(name):
            for graph, plan in kernel.slots:  # type: ignore[attr-defined]
                assert kernel.ggml.ggml_get_no_alloc(graph.context)  # type: ignore[attr-defined]
                assert plan[0].work_size <= kernel.spare  # type: ignore[attr-defined]
    kernel = session.graph.kernels("decode")[0]
    graph, _ = kernel.prepare(GraphShape(1, 128, 1))  # type: ignore[attr-defined]
    nodes = ctypes.addressof(graph.nodes.contents)
    assert kernel.prepare(GraphShape(1, 128, 1))[0] is graph  # type: ignore[attr-defined]
    assert ctypes.addressof(graph.nodes.contents) == nodes
    session.close()


def test_a_work_buffer_that_the_plan_has_not_is_refused() -> None:
    """More threads than the plan binds need more bytes. spec: FD10.4"""
    session = opened(file_of())
    kernel = session.graph.kernels("decode")[0]
    kernel.spare = 64  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="needs a work buffer of"):
        kernel(PassBatch(rows=2, first=0, outputs=1))
    session.close()


def test_the_plan_binds_the_threads_and_is_proved() -> None:
    """spec: FD10.1, FD10.4"""
    sizes = []
    for threads in (1, 3):
        options = replace(ON_GGML, threads=threads)
        session = prepare_session(compile_model(file_of(), options), options, environment={})
        plans = plan_session(session.forward)
        work = next(tensor for tensor in session.forward["decode"].tensors if tensor.name == WORK)
        sizes.append(work.bytes)
        for verdict in verdicts_on(plans, session.forward)[:2]:
            assert verdict.verdict == "PROVED"
            assert verdict.assumptions["dims"] == {THREADS: threads}
    assert sizes[0] < sizes[1]


def moved(allocation: Allocation, tensor: str, offset: int) -> Allocation:
    """The same with one storage elsewhere."""
    t, s = allocation.tensors, allocation.storages
    row = int(t.storage[t.name.list().index(tensor)])
    changed = s.offset.copy()
    changed[row] = offset
    return replace(allocation, storages=replace(s, offset=changed))


def test_one_moved_offset_is_refuted_and_changes_the_result() -> None:
    """spec: FD10.2"""
    session = prepare_session(compile_model(file_of(), ON_GGML), ON_GGML, environment={})
    plans = plan_session(session.forward)
    plan = plans.plans["decode"]
    at = dict(zip(plan.allocation.tensors.name.list(), plan.allocation.addresses().tolist(), strict=True))
    wrong = replace(plan, allocation=moved(plan.allocation, "layer0.k_rot", at["layer0.q_rot"]))
    changed = plans._replace(plans={**plans.plans, "decode": wrong})
    with pytest.raises(TmmuError, match="REFUTED"):
        prove(changed, session.forward)
    right = bits(opened(file_of()), PROMPT)
    initialize_session(session, changed, lambda plans, models: None)
    assert bits(session, PROMPT) != right


def test_float16_activations_are_refused_and_threads_are_of_ggml_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FD10.3, FD10.4"""
    for flags, word in (
        (["--device", "ggml", "--activations", "f16"], "activations"), (["--threads", "2"], "threads"),
        (["--device", "ggml", "--threads", "0"], "threads"),
    ):  # fmt: skip
        code, _, err = ran(capsys, "session", "run", str(file_of()), "--prompt-tokens", "1,2", *flags)
        assert code == 2
        assert word in err
        assert "INVALID_SETTING" in err


@pytest.mark.parametrize(("columns", "rows", "form"), [(64, 96, "repacked"), (64, 100, "")])
def test_rows_are_repacked_in_whole_groups(columns: int, rows: int, form: str) -> None:
    """A matrix whose rows are no multiple of 8 keeps the order of the file. spec: FD10.6"""
    session = opened(file_of(SMALL, 1, "q4_0"))
    kernels, operations = session.model.kernels, session.graph.operations
    weight = DeviceWeight("Q4_0", rows, columns, None)  # type: ignore[arg-type]
    product = next(each for each in operations if each.kind == "Project")

    assert kernels.choose_form(product, weight) == (form if _packed_buffer() else "")
    assert kernels.choose_form(operations[0], weight) == ""
    assert kernels.choose_form(product, weight._replace(type="Q8_0")) == ""
    session.close()
