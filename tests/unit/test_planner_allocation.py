"""From storages to a layout that fits: what is counted, when packed is used instead, and what a refusal names.

spec: A8.4, A8.5, M3.13
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.buffers import hard, right
from tests.support.problems import problem
from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import (
    ANYWHERE,
    ArenaConfiguration,
    ArenaPolicy,
    DeviceConfiguration,
    Memory,
    Model,
    Role,
    Rule,
)
from tmmu.ir.program import build_program
from tmmu.planner import PlanOptions, allocation, plan_memory
from tmmu.planner.aliasing import form_storages
from tmmu.planner.allocation import allocate
from tmmu.planner.arenas.assignment import Solution
from tmmu.planner.arenas.capacity import Shortfall
from tmmu.planner.liveness import analyze
from tmmu.planner.problem import AllocationProblem
from tmmu.planner.slots import SlotAssignment

CHAIN = text_model(
    "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b a -> c", "node relu4 Relu c -> y"
)
ALL = ArenaConfiguration("all", tuple(Role), alignment=1)


def uses(arenas: tuple[ArenaConfiguration, ...], policy: ArenaPolicy) -> list[int]:
    run = build_program(CHAIN)
    return form_storages(run, analyze(run, "inference"), arenas, "inference", policy=policy).storages.uses


def test_reads_and_writes_are_counted_where_a_storage_has_a_choice_and_nowhere_else() -> None:
    """`x` is read once; `a` is written once and read twice. spec: M3.11"""
    arenas = (ALL, ArenaConfiguration("other", ()))
    assert uses(arenas, ArenaPolicy((), (Rule(("all", "other"), names=("a",)),))) == [1, 3, 2, 2, 1]
    assert uses(arenas, ArenaPolicy((), (Rule(("other",), names=("a",)),))) == []
    assert uses(arenas, ANYWHERE) == []


@pytest.mark.parametrize(
    ("layout", "fallback", "short", "used", "asked"),
    [
        ("slots", "packed", ("slots",), "packed", ["slots", "packed"]),
        ("slots", "packed", ("slots", "packed"), None, ["slots", "packed"]),
        ("slots", "packed", (), "slots", ["slots"]),
        ("slots", None, ("slots",), None, ["slots"]),
        ("pools", "packed", ("pools",), None, ["pools"]),
    ],
)
def test_packed_is_used_where_slots_do_not_fit_it_is_named_and_it_fits(
    monkeypatch: pytest.MonkeyPatch,
    layout: str,
    fallback: str | None,
    short: tuple[str, ...],
    used: str | None,
    asked: list[str],
) -> None:
    """spec: A8.5"""
    tried: list[str] = []

    def assign(problem: AllocationProblem, layout: str, *, recorded: bool = False) -> Solution:
        tried.append(layout)
        lacking = [Shortfall("arena 'activations'", [0], 2, 1, is_memory=False)] if layout in short else []
        return Solution([0], SlotAssignment([], [], [], []), [0], [2], lacking, [])

    monkeypatch.setattr(allocation, "assign_arenas", assign)
    monkeypatch.setattr(
        allocation,
        "too_small_error",
        lambda problem, found, layout: TmmuError("ARENA_TOO_SMALL", f"{layout}: too small"),
    )
    if used is None:
        with pytest.raises(TmmuError, match=f"{layout}: too small"):
            allocate(problem((0, 0, 1)), layout, fallback)
    else:
        assert allocate(problem((0, 0, 1)), layout, fallback)[0] == used
    assert tried == asked


def refusal(
    model: Model, arenas: tuple[ArenaConfiguration, ...], policy: ArenaPolicy = ANYWHERE, layout: str = "slots"
) -> str:
    with pytest.raises(TmmuError) as refused:
        plan_memory(model, arenas, PlanOptions(layout=layout), policy=policy)
    assert refused.value.code_id == "ARENA_TOO_SMALL"
    return str(refused.value)


@pytest.mark.parametrize(("full", "named", "more"), [(63, 4, "; and 1 more"), (64, 4, ""), (128, 4, "")])
def test_a_refusal_names_four_that_are_too_small_and_how_many_more(full: int, named: int, more: str) -> None:
    """An arena that is exactly full is not too small. spec: M3.13"""
    arenas = tuple(
        ArenaConfiguration(name, tuple(Role) if name == "x" else (), capacity=full if name == "y" else 10, alignment=1)
        for name in "xabcy"
    )
    said = refusal(CHAIN, arenas, ArenaPolicy((), tuple(Rule((name,), names=(name,)) for name in "abcy")))
    assert said.count("64 bytes are needed") == named
    assert ("more" in said.split("; raise")[0]) == bool(more)
    assert more in said
    assert "let a rule list further arenas" in said


def test_a_memory_that_is_exactly_full_is_not_too_small() -> None:
    """spec: M3.10"""
    arenas = (
        ArenaConfiguration("rest", tuple(Role), capacity=1, alignment=1),
        ArenaConfiguration("a", (), alignment=1, device="npu", memory="m"),
        ArenaConfiguration("b", (), alignment=1, device="npu", memory="m"),
    )  # fmt: skip
    rules = (Rule(("a",), names=("a",)), Rule(("b",), names=("b",)))
    for capacity, is_named in ((128, False), (127, True)):
        said = refusal(CHAIN, arenas, ArenaPolicy((DeviceConfiguration("npu", (Memory("m", capacity),)),), rules))
        needed = f"memory 'npu/m': its arenas need 128 bytes together ('a' 64, 'b' 64), its capacity is {capacity}"
        assert (needed in said) == ("memory 'npu/m'" in said) == is_named


def test_a_refusal_says_what_helps() -> None:
    """Of a packed plan that does not fit nothing tighter can be said, nor where packed leaves 64 bits. spec: A8.4"""
    tight = (ArenaConfiguration("all", tuple(Role), capacity=127, alignment=1),)
    assert "packed would need" not in refusal(CHAIN, tight, layout="packed")
    assert "packed would need 192, " in refusal(CHAIN, tight)
    assert "192 bytes are needed (192 live at step 2), its capacity is 127" in refusal(CHAIN, tight)
    apart = (*tight, ArenaConfiguration("other", (), alignment=1))
    without_a = refusal(
        CHAIN, (replace(tight[0], capacity=100), apart[1]), ArenaPolicy((), (Rule(("other",), names=("a",)),))
    )
    assert "128 bytes are needed (128 live at step 2), its capacity is 100" in without_a
    assert "; raise the capacity, or plan smaller shapes" in refusal(CHAIN, tight, layout="packed")


def test_a_search_moves_what_it_lowers() -> None:
    """Until nothing is left to be found, if nobody stops it. spec: A8.8"""
    given = hard(3)
    n = len(given)
    asked = AllocationProblem(
        (ALL, ArenaConfiguration("none", ())), [str(k) for k in range(n)], [*given.size], [*given.alignment],
        given.birth, given.death, [(0,)] * n, range(n),
    )  # fmt: skip
    plain, lowered = (allocate(asked, "packed", effort=effort)[1] for effort in (None, 30_000))
    _, stopped = allocate(asked, "packed", effort=30_000, stopped=lambda: True)
    assert list(plain.offset) == list(stopped.offset)
    assert right(given, list(lowered.offset))
    top = max(map(int.__add__, lowered.offset, given.size))
    assert (lowered.footprint, top < plain.footprint[0]) == ([top, 0], True)
    assert [(bound.bytes <= end, bound.by) for bound, end in zip(lowered.bounds, lowered.footprint, strict=True)] == [
        (True, "live"), (True, "live"),
    ]  # fmt: skip


def test_what_does_not_fit_is_known_once_a_search_has_shown_it() -> None:
    """Two that are live one after the other fit, but must lie apart. spec: A8.11"""
    model = text_model("node a MatMul x -> a", "node b MatMul a -> b", "node c MatMul b -> y", "apart x b")
    for capacity, effort, said in (
        (128, 0, "whether a placement fits is unknown after this effort"),
        (128, 1 << 20, "none is below 192 (a complete search"),
        (127, 0, "none is below 128 (live at one step"),
    ):  # fmt: skip
        arenas = (ArenaConfiguration("all", tuple(Role), capacity=capacity, alignment=1),)
        with pytest.raises(TmmuError) as refused:
            plan_memory(model, arenas, PlanOptions(layout="packed", effort=effort))
        assert said in str(refused.value)


@pytest.mark.parametrize(
    ("layout", "fix"), [("slots", "--layout packed, or --fallback packed"), ("pools", "which fits: --layout packed [")]
)
def test_a_layout_that_has_a_fallback_is_told_of_it(layout: str, fix: str) -> None:
    """Only slots have one. spec: A8.4, A8.5"""
    sizes = {"x": 64, "a": 8, "b": 8, "c": 64, "y": 8}
    lines = ("node m MatMul x -> a", "node n MatMul a -> b", "node o MatMul b -> c", "node p MatMul c -> y")
    model = text_model(*lines, sizes=sizes)
    tight = (ArenaConfiguration("all", tuple(Role), capacity=72, alignment=1),)
    assert plan_memory(model, tight, PlanOptions(layout="packed")).plan.usage[0].footprint == 72
    assert fix in refusal(model, tight, layout=layout)


def test_where_packed_leaves_64_bits_too_nothing_tighter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: A8.4"""
    tight = (ArenaConfiguration("all", tuple(Role), capacity=127, alignment=1),)
    whole = allocation.assign_arenas

    def assign(problem: AllocationProblem, layout: str, *, recorded: bool = False) -> Solution:
        if layout == "packed":
            raise TmmuError("ALLOCATION_OVERFLOW", layout)
        return whole(problem, layout)

    monkeypatch.setattr(allocation, "assign_arenas", assign)
    said = refusal(CHAIN, tight)
    assert ("packed" in said, "; raise the capacity" in said) == (False, True)
