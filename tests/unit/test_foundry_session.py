"""The static execution graph: made once from a proved plan, all or nothing, and then no memory for a token."""

from __future__ import annotations

import gc
import os
import signal
import tracemalloc
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.model_kinds import KINDS, parts_of
from tests.support.plain_llama import PlainLlama
from tests.support.small_llama import SMALL, TIED, file_of, model_of, session_of, unproved
from tmmu.cli.session_report import facts
from tmmu.core.errors import TmmuError
from tmmu.examples.llama import SeededLlama
from tmmu.foundry.cpu import CpuDevice
from tmmu.foundry.device import Buffer
from tmmu.foundry.failures import OutOfMemory, PrivateAccess, UseAfterFree
from tmmu.foundry.forward import ARENAS, cache_names, document_buffers, session_arenas, session_policy
from tmmu.foundry.graph import arena_sizes
from tmmu.foundry.kernels import PassBatch
from tmmu.foundry.pool import MemoryPool
from tmmu.foundry.scoring import compute_log_probabilities
from tmmu.foundry.session import initialize_session
from tmmu.foundry.shapes import LlamaShape, open_llama
from tmmu.foundry.storage import StorageMode
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.plans.sets import SharedUse
from tmmu.tasks.language_session import (
    SessionOptions,
    compile_model,
    open_session,
    plan_session,
    prepare_session,
    prove,
    verdicts_on,
)

PROMPT = [1, 5, 7, 5, 7, 11, 260, 261, 299]


def bits(array: Any) -> bytes:
    """An array's bytes: equal arrays of another sign of zero, or of NaN, are not the same."""
    return bytes(np.ascontiguousarray(array).tobytes())


def test_the_documents_buffers_have_its_figures() -> None:
    """24 buffers of Qwen2.5-0.5B and of the document's test model, of 32 rows and 2,048 tokens. spec: FD6.9"""
    qwen = LlamaShape(151936, 896, 24, 14, 2, 64, 4864, 32768, (), 1e-6, 0.125)
    small = LlamaShape(100, 128, 2, 2, 1, 64, 256, 2048, (), 1e-5, 0.125)
    for shape, figure in ((qwen, 19_406_850), (small, 1_722_626)):
        buffers = document_buffers(shape, 32, 2048)
        assert (len(buffers), 2 * sum(buffers.values())) == (24, figure)


@pytest.mark.parametrize("file_type", ["f32", "f16", "q8_0", "q4_0"])
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_logits_are_those_of_a_plain_run_bit_for_bit(file_type: str, dtype: str) -> None:
    """spec: FD6.5, FD6.7"""
    for shape in (SMALL, TIED):
        path = file_of(shape, 3, file_type)
        plain = PlainLlama(open_llama(path), {"f16": np.float16, "f32": np.float32}[dtype], 512)
        session = session_of(model_of(path), SessionOptions(activations=dtype, initial=128))
        tokens = [token % shape.vocab for token in range(1, 2000, 13)]
        found = [bits(row) for rows in session.passes(tokens) for row in rows]
        assert session.cache.capacity > 128
        assert found == [bits(plain.step(token)) for token in tokens]


def test_neither_chunk_nor_batch_nor_layout_nor_capacity_nor_mode_changes_a_bit() -> None:
    """spec: FD6.5, FD6.6"""
    text = [token % 300 for token in range(5, 700, 3)]
    plain = PlainLlama(open_llama(file_of()), capacity=512)
    expected = [bits(plain.step(token)) for token in text]
    model = model_of()
    for chunk, batch, layout, initial, shared in (
        (1, 1, "compact", 128, ""), (32, 64, "expanded", 1024, ""), (512, 7, "compact", 256, "1"),
        (7, 256, "expanded", 128, "1"), (64, 3, "compact", 1, "1"),
    ):  # fmt: skip
        environment = {
            "METALLIC_PREFILL_CHUNK_SIZE": str(chunk), "METALLIC_FOUNDRY_DECODE_BATCH_SIZE": str(batch),
            "METALLIC_INTERMEDIATES_SHARED": shared, "METALLIC_KV_CACHE_SHARED": shared,
        }  # fmt: skip
        session = session_of(model, SessionOptions(layout=layout, initial=initial), environment)
        assert [bits(row) for rows in session.passes(text[:100]) for row in rows] == expected[:100]
        session.prefill(text[100:])
        assert bits(session.output[0]) == expected[-1]
        session.clear()
        session.prefill(text)
        assert bits(session.output[0]) == expected[-1]
        session.close()


def test_drafts_change_the_number_of_passes_and_no_token() -> None:
    """What was generated before is a right draft; with other tokens in it, one that is partly wrong. spec: FD6.8"""
    path = file_of()
    generated = PlainLlama(open_llama(path), capacity=512).greedy(PROMPT, 60)
    wrong = [token if k % 9 else 5 for k, token in enumerate(generated)]
    accepted: dict[tuple[int, int], int] = {}
    for number, prefix in enumerate(([], generated, wrong)):
        tokens = [*PROMPT, *prefix, *PROMPT[-3:], *prefix[:5]]
        expected = PlainLlama(open_llama(path), capacity=512).greedy(tokens, 60)
        for batch in (1, 2, 16, 64):
            session = session_of(environment={"METALLIC_FOUNDRY_DECODE_BATCH_SIZE": str(batch)})
            assert list(session.generate(tokens, 60)) == expected
            counts = session.counts
            assert counts.passes == -(-len(tokens) // 32) + 59 - counts.accepted
            assert counts.accepted <= counts.drafted <= (batch - 1) * counts.passes
            accepted[number, batch] = counts.accepted
            session.close()
    assert all(accepted[number, 1] == 0 for number in range(3))
    assert any(accepted[number, 64] > 5 for number in range(3)), accepted


def operation_peaks(path: Path, options: SessionOptions) -> dict[str, int]:
    """The most bytes that each kind of operation allocates, by Python and by NumPy, for its second row."""
    session = session_of(compile_model(path, options), options)
    session.prefill([1, 2, 3])
    found = {}
    batch = PassBatch(rows=2, first=3, outputs=1)
    gc.collect()
    gc.disable()
    try:
        for operation, kernel in zip(session.graph.operations, session.graph.kernels("decode"), strict=True):
            kernel(batch)
            tracemalloc.start()
            kernel(batch)
            found[operation.kind] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    finally:
        gc.enable()
    session.close()
    return found


def llama_of(width: int, file_type: str) -> Path:
    heads = width // 32
    return file_of(SeededLlama(f"d{width}", width, 1, heads, heads, width, vocab=width + 256), 1, file_type)


@pytest.mark.parametrize(
    ("dtype", "device", "file_type"), [("f16", "numpy", "f16"), ("f32", "numpy", "f16"), ("f16", "fast", "q8_0")]
)
def test_no_operation_makes_array_data(dtype: str, device: str, file_type: str) -> None:
    """A row of the wide model, of any kind, is an array of 1 KiB and more: it would be seen in the peak. spec: FD6.4"""
    options = SessionOptions(initial=128, activations=dtype, device=device)
    narrow, wide = (operation_peaks(llama_of(width, file_type), options) for width in (64, 512))
    assert len(narrow) == 8
    for kind, peak in wide.items():
        assert peak - narrow[kind] < 512, kind


@pytest.mark.parametrize("kind", ["gemma2", "gemma3", "llama-biases", "qwen2"])
def test_no_operation_of_other_models_makes_array_data(kind: str, tmp_path: Path) -> None:
    """spec: FD6.4"""
    found = []
    for width, heads in ((64, (2, 1, 32)), (512, (16, 8, 32))):
        path = tmp_path / f"{width}.gguf"
        path.write_bytes(parts_of(replace(KINDS[kind], width=width, heads=heads)).encoded())
        found.append(operation_peaks(path, SessionOptions(initial=128)))
    assert len(found[0]) == 8
    for name, peak in found[1].items():
        assert peak - found[0][name] < 512, name


def test_a_token_makes_no_buffers_and_objects_of_at_most_64_kib_whatever_the_length() -> None:
    """spec: FD6.4"""
    session = session_of(options=SessionOptions(initial=1024))
    made = session.model.device.buffers_made
    peaks = []
    for taken in (20, 880):
        session.prefill([token % 260 for token in range(taken)])
        going = session.generate([1, 2, 3], 20)
        for _ in range(5):
            next(going)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(10):
            next(going)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
        domain = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
        assert not tracemalloc.take_snapshot().filter_traces([domain]).traces
        tracemalloc.stop()
        going.close()
    assert session.model.device.buffers_made == made
    assert max(peaks) <= 64 << 10
    assert peaks[1] < peaks[0] + 2048


def test_buffers_keep_their_addresses_and_the_modes_of_the_table() -> None:
    """spec: FD1.3, FD1.4, FD6.1, FD6.10"""
    session = session_of()
    before = {name: (buffer.address, buffer.mode) for name, buffer in session.buffers.items()}
    list(session.generate(PROMPT, 200))
    assert session.cache.capacity > 128
    assert {name: (buffer.address, buffer.mode) for name, buffer in session.buffers.items()} == before
    modes = {name: mode.value for name, (_, mode) in before.items()}
    assert modes == {"intermediates": "Private", "inputs": "Shared", "outputs": "Shared", "text": "Shared"}
    assert all(w.region.buffer.mode is StorageMode.PRIVATE for w in session.model.materialize().values())
    with pytest.raises(PrivateAccess, match="METALLIC_INTERMEDIATES_SHARED"):
        session.buffers["intermediates"].contents()
    forced = session_of(environment={"METALLIC_INTERMEDIATES_SHARED": "1"})
    assert forced.buffers["intermediates"].contents().any() == False  # noqa: E712 all bytes are zero


def test_nothing_is_allocated_before_the_plan_is_proved() -> None:
    """spec: FD6.1"""
    model = model_of()
    session = prepare_session(model, environment={})

    def refuse(_plan: object, _forward: object) -> None:
        raise TmmuError("CONTRACT_VIOLATION", "it is not proved")

    with pytest.raises(TmmuError, match="it is not proved"):
        initialize_session(session, plan_session(session.forward), refuse)
    assert (model.device.buffers_made, session.is_initialized) == (0, False)


def test_the_plan_is_proved_by_the_verifier_and_a_wrong_one_is_refused_with_its_witness() -> None:
    """spec: FD6.1, FD6.2"""
    session = prepare_session(model_of(), environment={})
    plans = plan_session(session.forward)
    found = verdicts_on(plans, session.forward)
    assert [(one.file, one.verdict) for one in found] == [
        ("session/prefill.cbor", "PROVED"), ("session/decode.cbor", "PROVED"), ("session", "PROVED"),
    ]  # fmt: skip
    plan = plans.plans["decode"]
    storages = plan.allocation.storages
    moved = replace(storages, offset=np.zeros_like(storages.offset))
    wrong = plans._replace(
        plans={**plans.plans, "decode": replace(plan, allocation=replace(plan.allocation, storages=moved))}
    )
    with pytest.raises(TmmuError, match="REFUTED") as caught:
        initialize_session(session, wrong, prove)
    assert caught.value.code_id == "CONTRACT_VIOLATION"
    assert session.model.device.buffers_made == 0


def test_prefill_and_decode_are_a_plan_set_and_no_set_is_refused() -> None:
    """Keys and values are its state, alone in arenas that both have, at the address that is used. spec: FD6.17"""
    session = session_of()
    plans = plan_session(session.forward)
    shared = plans.plan_set.agreement.shared
    names = [name for layer in range(SMALL.n_layers) for name in cache_names(layer)]
    assert [(one.name, one.arena, one.offset, one.is_initial) for one in shared] == [(n, n, 0, True) for n in names]
    assert {use for one in shared for use in one.uses.values()} == {SharedUse(name, name) for name in names}
    needed = {arena.name: arena.bytes for arena in plans.plan_set.agreement.arenas}
    assert {name: needed[name] for name in arena_sizes(plans, session.forward)} == {
        name: buffer.size for name, buffer in session.buffers.items() if name != "text"
    }
    session.prefill([7] * session.context.limit)
    held = {name: buffer for layer in range(SMALL.n_layers) for name, buffer in session.cache.of_layer(layer).items()}
    assert {name: buffer.size for name, buffer in held.items()} == {name: needed[name] for name in names}
    alone = {
        name: plan_memory(model, session_arenas(2), PlanOptions(layout="packed"), policy=session_policy(2)).plan
        for name, model in session.forward.items()
    }
    assert [one.verdict for one in verdicts_on(plans._replace(plans=alone), session.forward)][-1] == "REFUTED"


def renamed(plan: Plan) -> Plan:
    """The plan with other names of its arenas."""
    arenas = tuple(replace(arena, name=f"other_{arena.name}") for arena in plan.allocation.arenas)
    return replace(plan, allocation=replace(plan.allocation, arenas=arenas))


def test_plans_of_other_passes_are_refused() -> None:
    """spec: FD6.2, FD6.17"""
    session = prepare_session(model_of(), environment={})
    other = prepare_session(model_of(), environment={"METALLIC_PREFILL_CHUNK_SIZE": "100"})
    plans = plan_session(session.forward)
    together = {name: plan_memory(model, ARENAS).plan for name, model in session.forward.items()}
    for wrong, named in (
        (plan_session(other.forward), "ids"), (plans._replace(plans={"prefill": plans.plans["prefill"]}), "'decode'"),
        (plans._replace(plans=together), "'cache.0.keys' is not alone"),
        (plans._replace(plans={name: renamed(plan) for name, plan in plans.plans.items()}), "its arenas are other_"),
    ):  # fmt: skip
        with pytest.raises(TmmuError, match=named) as caught:
            initialize_session(session, wrong, unproved)
        assert (caught.value.code_id, session.model.device.buffers_made) == ("INVALID_PLAN", 0)


def test_initializing_again_changes_nothing() -> None:
    """spec: FD6.14"""
    session = session_of()
    made, before = session.model.device.buffers_made, session.buffers

    def never(_plan: object, _forward: object) -> None:
        raise AssertionError("it is proved already")

    assert initialize_session(session, plan_session(session.forward), never) is session
    assert (session.model.device.buffers_made, session.buffers) == (made, before)


class Refusing(CpuDevice):
    """A device that refuses the n-th buffer."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.left = number

    def new_buffer(self, size: int, mode: StorageMode, label: str, forced_by: str = "") -> Buffer:
        """See `Device.new_buffer`."""
        self.left -= 1
        if not self.left:
            raise OutOfMemory("refused", label, size, "none")
        return super().new_buffer(size, mode, label, forced_by)


def test_all_buffers_are_made_or_none() -> None:
    """spec: FD6.1"""
    whole = session_of()
    needed, expected = whole.model.device.buffers_made, list(whole.generate(PROMPT, 3))
    for number in range(1, needed + 1):
        model = model_of(device=Refusing(number))
        session = prepare_session(model, environment={})
        with pytest.raises(OutOfMemory):
            initialize_session(session, plan_session(session.forward), unproved)
        assert (model.device.live_bytes, session.is_initialized, session.budget.held) == (0, False, 0)
        initialize_session(session, plan_session(session.forward), unproved)  # what could not be had is there now
        assert list(session.generate(PROMPT, 3)) == expected


def test_weights_are_materialized_once_for_all_sessions() -> None:
    """spec: FD6.3"""
    model = model_of()
    assert model.materialized == 0
    first = session_of(model)
    made = model.device.buffers_made
    stored = sum(model.file.tensors[name].blocks.nbytes for name in model.weights)
    assert model.materialized == stored
    second = session_of(model)
    assert model.device.buffers_made - made < made - len(model.weights)
    assert list(first.generate(PROMPT, 5)) == list(second.generate(PROMPT, 5))
    first.close()
    second.close()
    model.close()
    assert model.device.live_bytes == 0


@pytest.mark.parametrize(
    ("tokens", "code"),
    [
        ([], "INVALID_BINDING"), ([300], "INVALID_BINDING"), ([-1], "INVALID_BINDING"),
        ([1] * 1025, "CONTRACT_VIOLATION"), ([1.5], "INVALID_BINDING"),
    ],
)  # fmt: skip
def test_a_prompt_that_cannot_be_taken_leaves_the_text_as_it_was(tokens: list[Any], code: str) -> None:
    """spec: FD6.11"""
    session = session_of()
    session.prefill(PROMPT)
    with pytest.raises(TmmuError) as caught:
        session.prefill(tokens)
    assert caught.value.code_id == code
    assert list(session.generate([2], 5)) == PlainLlama(open_llama(file_of())).greedy([*PROMPT, 2], 5)


def test_a_cache_that_cannot_grow_leaves_the_text_as_it_was() -> None:
    """spec: FD6.11"""
    model = model_of(device=CpuDevice())
    session = session_of(model)
    session.prefill(PROMPT)
    device = model.device
    assert isinstance(device, CpuDevice)
    device.limit = device.live_bytes
    with pytest.raises(OutOfMemory):
        session.prefill([3] * 200)
    assert session.length == len(PROMPT)
    device.limit = None
    assert list(session.generate([2], 5)) == PlainLlama(open_llama(file_of())).greedy([*PROMPT, 2], 5)


def test_generation_ends_with_the_context_and_with_the_token_that_ends_a_text() -> None:
    """spec: FD8.1"""
    session = session_of(options=SessionOptions(context=128, initial=128))
    assert session.context.usable == 128
    out: list[int] = []
    with pytest.raises(TmmuError, match="context of 128"):
        out.extend(session.generate(PROMPT, 500))
    plain = PlainLlama(open_llama(file_of())).greedy(PROMPT, 500)
    assert out == plain[: len(out)]
    assert len(out) >= 128 - len(PROMPT)
    stop = plain[4]
    fresh = session_of()
    assert list(fresh.generate(PROMPT, 50, stop=[stop])) == plain[: plain.index(stop) + 1]
    assert stop not in list(session_of().generate(PROMPT, 50, banned=[stop]))
    with pytest.raises(TmmuError, match="300"):
        list(session_of().generate(PROMPT, 1, banned=[300]))
    assert list(session_of().generate(PROMPT, 0)) == []


def test_a_generation_that_is_given_up_can_be_continued() -> None:
    """spec: FD6.8, FD6.11"""
    plain = PlainLlama(open_llama(file_of()))
    session = session_of()
    text = list(PROMPT)
    session_tokens = session.generate(PROMPT, 30)
    text += [next(session_tokens) for _ in range(7)]
    session_tokens.close()
    assert list(session.generate([4], 5)) == plain.greedy([*text, 4], 5)


@pytest.mark.parametrize("at", [1, 2, 3, 4, 9, 20])
def test_an_interrupted_generation_ends_after_its_pass_and_the_session_goes_on(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGINT comes when a command is submitted, in prefill or decode; no pass is left half done. spec: FD11.9"""
    session = session_of(environment={"METALLIC_PREFILL_CHUNK_SIZE": "3"})
    device, submit, count = session.model.device, session.model.device.submit, 0

    def interrupting(*arguments: Any) -> int:
        nonlocal count
        count += 1
        number = submit(*arguments)
        if count == at:
            os.kill(os.getpid(), signal.SIGINT)
        return number

    monkeypatch.setattr(device, "submit", interrupting)
    found: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(session.generate(PROMPT, 60))
    assert (device.completed, count) == (device.submitted, max(count, at))
    text = session.text
    assert text == [*PROMPT, *PlainLlama(open_llama(file_of())).greedy(PROMPT, 60)][: len(text)]
    plain = PlainLlama(open_llama(file_of()))
    assert list(session.generate([4, 9], 5)) == plain.greedy([*text, 4, 9], 5)


def test_a_text_is_rewound_and_goes_on_as_if_the_rest_had_never_been_there() -> None:
    """spec: FD11.10, FD4.7"""
    session = session_of()
    list(session.generate(PROMPT, 20))
    for length in (26, 9, 6, 1, 0):
        session.rewind(length)
        assert len(session.text) == length >= session.length
        expected = PlainLlama(open_llama(file_of())).greedy([*session.text, 3, 4], 4)
        assert list(session.generate([3, 4], 4)) == expected
    with pytest.raises(ValueError, match="cannot rewind a text of 6 tokens to 7"):
        session.rewind(7)


def test_a_suspended_generation_does_not_go_on_in_another_text() -> None:
    """Within drafts too, whose rows are in the cache before they are checked. spec: FD6.15"""
    plain = PlainLlama(open_llama(file_of()), capacity=512).greedy(PROMPT, 60)
    prompt = [*PROMPT, *plain, *PROMPT]
    expected = PlainLlama(open_llama(file_of()), capacity=512).greedy(prompt, 40)
    for taken in (1, 2, 5, 13, 30):
        session = session_of(options=SessionOptions(initial=256))
        going = session.generate(prompt, 40)
        text = [*prompt, *islice(going, taken)]
        assert text[len(prompt) :] == expected[:taken]
        other = session.generate([7], 5)
        first = next(other)
        with pytest.raises(TmmuError, match="while this iterator was suspended"):
            list(going)
        assert [first, *other] == PlainLlama(open_llama(file_of()), capacity=512).greedy([*text, 7], 5)
        session.clear()
        assert list(session.generate([4], 3)) == PlainLlama(open_llama(file_of())).greedy([4], 3)
        rows = session.passes([5] * 70)
        next(rows)
        session.clear()
        with pytest.raises(TmmuError, match="while this iterator was suspended"):
            next(rows)
        session.close()


def test_a_closed_session_has_no_memory_and_refuses() -> None:
    """spec: FD6.12"""
    session = session_of()
    session.prefill(PROMPT)
    session.close()
    session.close()
    session.model.close()
    assert (session.model.device.live_bytes, session.budget.held) == (0, 0)
    for use in (
        lambda: session.prefill([1]),
        lambda: session.length,
        session.clear,
        lambda: list(session.generate([1], 1)),
    ):
        with pytest.raises(UseAfterFree):
            use()
    with pytest.raises(UseAfterFree):
        initialize_session(session, plan_session(session.forward), unproved)


def test_logits_that_are_no_numbers_are_an_error(tmp_path: Path) -> None:
    """spec: FD6.10"""
    content = bytearray(file_of().read_bytes())
    weight = open_llama(file_of()).tensors["output_norm.weight"].blocks
    at = bytes(content).find(weight.tobytes())
    content[at : at + 4] = np.array(np.nan, np.float32).tobytes()
    path = tmp_path / "nan.gguf"
    path.write_bytes(content)
    with pytest.raises(TmmuError, match=r"not finite.*activations f32"):
        list(session_of(model_of(path)).generate(PROMPT, 1))
    with pytest.raises(TmmuError, match=r"not finite.*the file's weights"):
        list(session_of(model_of(path), SessionOptions(activations="f32")).passes(PROMPT))


@pytest.mark.parametrize("mode", StorageMode)
def test_log_probabilities_are_those_of_the_definition_whatever_the_batch(mode: StorageMode) -> None:
    """In a pool that is reset after every pass, which the session does not notice. spec: FD6.5, FD6.13"""
    text = [token % 300 for token in range(5, 400, 7)]
    plain = PlainLlama(open_llama(file_of()))
    expected = []
    for token, following in pairwise(text):
        exact = plain.step(token).astype(np.float64)
        expected.append(exact[following] - np.log(np.exp(exact).sum()))
    plain.step(text[-1])
    continued = plain.greedy([9], 3)
    for batch in (1, 7, 64):
        session = session_of(environment={"METALLIC_FOUNDRY_DECODE_BATCH_SIZE": str(batch)})
        pool = MemoryPool(session.model.device, mode=mode, initial=1 << 20)
        found = list(compute_log_probabilities(session, text, pool))
        assert np.allclose(found, expected, rtol=0, atol=1e-5)
        assert pool.statistics.resets == -(-len(text) // batch)
        assert list(session.generate([9], 3)) == continued
        pool.close()
        session.close()
        session.model.close()
        assert session.model.device.live_bytes == 0
    assert list(compute_log_probabilities(session_of(), [1], MemoryPool(CpuDevice(), initial=1 << 20))) == []


def test_the_stated_peak_is_the_devices() -> None:
    """Of a cache that grows by doubling to its limit. spec: FD8.2"""
    for layout, context in (("compact", 1024), ("expanded", 512)):
        options = SessionOptions(initial=128, layout=layout, context=context)
        session = prepare_session(model_of(), options, environment={})
        plan = plan_session(session.forward)
        found = facts(session, plan)
        initialize_session(session, plan, unproved)
        for taken in range(100, context, 100):
            session.prefill([7] * (taken - session.length))
        session.prefill([7] * (context - session.length))
        host = sum(row["bytes"] for row in found["memory"] if row["mode"] == "host")
        assert session.cache.capacity == context
        assert session.model.device.live_bytes == found["steady_bytes"] - host
        assert session.model.device.peak_bytes == found["steady_bytes"] - host + found["growth_bytes"]
        assert host == sum(8 * len(table) for table in session.drafts.tables.values())


def test_a_session_in_one_call() -> None:
    """spec: FD6.1, FD7.1"""
    session = open_session(file_of(), SessionOptions(initial=128), environment={})
    assert list(session.generate(PROMPT, 5)) == PlainLlama(open_llama(file_of())).greedy(PROMPT, 5)


@pytest.mark.parametrize(
    "wrong", [{"layout": "x"}, {"activations": "bf16"}, {"context": 1.5}, {"budget": "1GiB"}, {"initial": True}]
)
def test_options_that_are_not_known_are_refused_by_name(wrong: dict[str, Any]) -> None:
    """spec: FD8.5"""
    with pytest.raises(TmmuError, match=next(iter(wrong))) as caught:
        SessionOptions(**wrong)
    assert caught.value.code_id == "INVALID_SETTING"
