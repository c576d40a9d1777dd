"""The base of an arena: what plans, text and verdicts state of it, and who checks the base that it is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proofs.verify import text as verdict_text
from proofs.verify.judge import judge, verify
from proofs.verify.options import Options
from tests.support.refusals import refused
from tests.support.small_llama import model_of, unproved
from tests.support.text_models import text_model
from tmmu.core.vocabulary import ANYWHERE
from tmmu.foundry.session import initialize_session
from tmmu.planner import plan_memory
from tmmu.plans import file, text, text_writer
from tmmu.plans.allocation import Arena
from tmmu.plans.configuration import DEFAULT
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.sections import amend_plan
from tmmu.runtime.memory import MappedMemory
from tmmu.tasks.language_session import plan_session, prepare_session

STRICT = text_model("node relu Relu x -> a", "node relu2 Relu a -> y", "tensor a u8 64 align 4096")
ARENAS = [
    ("", Arena("m", 64), 0),
    ("align 1", Arena("m", 64, base_alignment=1), 1),
    ("align 16", Arena("m", 64, 16), 16),
    ("align 16 base 64", Arena("m", 64, 16, base_alignment=64), 64),
    ("base 64", Arena("m", 64, base_alignment=64), 64),
    ("align 1 base 64", Arena("m", 64, base_alignment=64), 64),
    ("base 8 persistent", Arena("m", 64, reuse=False, base_alignment=8), 8),
]


@pytest.mark.parametrize(("words", "arena", "stated"), ARENAS, ids=[words for words, *_ in ARENAS])
def test_a_text_states_a_base_and_keeps_it(words: str, arena: Arena, stated: int) -> None:
    """So does a binary file, which says nothing where the arena's alignment is the base's. spec: X2.9, V1.17"""
    plan = text.read(f"tmmu-plan-text 1\narena m 64 {words}\nbuffer a 8 m 0 live 0 0\n".encode(), "p")
    assert (plan.placement.arenas, arena.stated_base) == ((arena,), stated)
    assert text.read(text_writer.write(plan).encode(), "p") == plan
    assert file.decode(file.encode(plan)).plan == plan
    written = file.to_object(plan)["buffers"]["arenas"][0]
    assert ("base_alignment" in written) == (arena.base_alignment > 0)


@pytest.mark.parametrize("words", ["base 3", "base 0", "base", "base 8 base 8"])
def test_what_is_no_base_is_refused(words: str) -> None:
    """spec: X2.9"""
    with refused("INVALID_PLAN"):
        text.read(f"tmmu-plan-text 1\narena m 64 {words}\n".encode(), "p")


@pytest.mark.parametrize("words", ["kept", "output kept", "parameter kept", "input kept donated"])
def test_only_inputs_that_are_not_donated_are_kept(words: str) -> None:
    """spec: X2.9"""
    with refused("INVALID_PLAN", "kept is about inputs"):
        text.read(f"tmmu-plan-text 1\narena m 64\ntensor x 8 m 0 {words}\n".encode(), "p")


def test_a_plan_states_the_base_that_its_strictest_tensor_needs(tmp_path: Path) -> None:
    """Without it the plan is refuted, and each verdict states what is needed. spec: A11.1, V1.17, V5.11"""
    plan = plan_memory(STRICT).plan
    bases = {arena.name: arena.base_alignment for arena in plan.allocation.arenas}
    assert bases == {"parameters": 0, "optimizer": 0, "activations": 4096, "gradients": 0}
    file.save(plan, tmp_path / "p.cbor")
    needed = dict.fromkeys(bases, 128) | {"activations": 4096}
    shown = "base alignments 128 (parameters, optimizer, gradients), 4096 (activations)"
    for options in (Options(), Options(arenas=Configuration(DEFAULT, ANYWHERE))):
        found = verify(str(tmp_path / "p.cbor"), options)
        assert (found.verdict, found.assumptions["bases"]) == ("PROVED", needed)
        assert shown in list(verdict_text.lines(found))[2]
    silent = amend_plan(plan, arenas=tuple(replace(arena, base_alignment=0) for arena in plan.allocation.arenas))
    found = judge("p.cbor", file.require_steps(file.decode(file.encode(silent))))
    assert found.witness is not None
    assert (found.verdict, found.witness["tensors"]) == ("REFUTED", ["a"])
    assert (found.witness["field"], found.witness["stated"], found.witness["recomputed"]) == (
        "base alignment of activations", "128", "4096",
    )  # fmt: skip


def aligned(size: int, to: int, beyond: int) -> np.ndarray[Any, Any]:
    """A buffer whose first byte is `beyond` bytes after a multiple of `to`."""
    whole = np.zeros(size + 2 * to, np.uint8)
    return whole[-whole.ctypes.data % to + beyond :][:size]


def test_a_base_that_is_less_aligned_than_stated_is_refused() -> None:
    """Also if no tensor needs it. spec: U1.2, U1.11"""
    plan = plan_memory(STRICT).plan
    more = tuple(replace(arena, base_alignment=8192) for arena in plan.allocation.arenas)
    for made, needed in ((plan, 4096), (amend_plan(plan, arenas=more), 8192)):
        size = made.usage[2].footprint or 0
        MappedMemory.map(made, base={"activations": aligned(size, needed, 0)}).close()
        with refused("ALIGNMENT_VIOLATION", f"not a multiple of {needed}"):
            MappedMemory.map(made, base={"activations": aligned(size, needed, needed // 2)})


def test_a_session_refuses_a_plan_that_needs_a_stricter_base_than_its_buffers_have() -> None:
    """spec: FD6.16"""
    session = prepare_session(model_of(), environment={})
    plans = plan_session(session.forward)
    plan = plans.plans["decode"]
    arenas = plan.allocation.arenas
    for changed in (arenas, [a for a in arenas if a.name.startswith("cache.")]):
        strict = [replace(a, base_alignment=1 << 60) if a in changed else a for a in arenas]
        wrong = plans._replace(plans={**plans.plans, "decode": amend_plan(plan, arenas=tuple(strict))})
        with refused("ALIGNMENT_VIOLATION", f"not at a multiple of {1 << 60}"):
            initialize_session(session, wrong, unproved)
    assert (session.model.device.live_bytes, session.is_initialized) == (0, False)
    initialize_session(session, plans, unproved)
