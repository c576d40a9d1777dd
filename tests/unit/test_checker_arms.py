"""What running exclusive arms from one state, and one state after all of them, shows that a walk over steps would not.

Each plan is right but for what is listed; lifetimes, which are intervals of steps, are looked at elsewhere.
spec: X4.3, X4.4, X4.5, X4.7
"""

from __future__ import annotations

import pytest

from proofs.definition.checker.execute import check_execution
from proofs.definition.checker.program import build_program
from proofs.definition.checker.structure import violations
from proofs.readers.sharing import decide_permissions
from tmmu.plans import text
from tmmu.plans.sections import Plan

NAMES = "c 0 input, x 8 input donated, y 16, t 24, a 32, b 40, d 48, e 56, f 64, p 8, q 24, v 40 view b, z 72 output"
"""Tensors of 8 bytes with their addresses, `view b` and roles; a case may move some."""

TURNS = ("s0 c>t", "s1 t>a", "|", "s2 c>b", "|", "s3 c>t", "s4 t>d", "end abd>z")
"""The first and the last of three arms write `t` and read it; the leave takes a result of each."""
SHARING, LIFETIMES = "sharing_is_sound", "lifetimes_cover_accesses"


def plan_of(steps: tuple[str, ...], moved: dict[str, int]) -> Plan:
    """Steps are "name reads>writes", `!` for what is changed, `|` for the next arm, `(c` and `end` for a node; the
    first node encloses all up to the first `end`."""
    lines = ["arena m 128"]
    used = set("c".join(step.partition(" ")[2] for step in steps))
    for stated in NAMES.split(", "):
        name, address, *role = stated.split()
        if name not in used:
            continue
        lines.append(f"tensor {name} 8 m {moved.get(name, int(address))} {' '.join(role)}{' 0' * ('view' in role)}")
    lines.append("begin n0 If c -> exclusive")
    opened = ["n0"]
    for step in steps:
        if step == "|":
            lines.append("arm")
            continue
        name, _, rest = step.partition(" ")
        reads, _, writes = rest.partition(">")
        if name == "(":
            opened.append("inner")
            lines.append(f"begin inner If {' '.join(reads)} -> exclusive")
        elif name == "end":
            lines.append(f"end {opened.pop()} {' '.join(reads)} -> {' '.join(writes)}")
        else:
            changes = " changes " + " ".join(writes.partition("!")[2]) if "!" in writes else ""
            operator = "Reshape" if "v" in writes else "A"
            lines.append(f"step {name} {operator} {' '.join(reads)} -> {' '.join(writes.replace('!', ''))}{changes}")
    plan = text.read("\n".join(["tmmu-plan-text 1", *lines, ""]).encode(), "p.plan.txt")
    assert isinstance(plan, Plan)
    return plan


CASES: list[tuple[str, tuple[str, ...], dict[str, int], list[tuple[str, tuple[str, ...], str]]]] = [
    ("arms that take turns", TURNS, {}, []),
    (
        "what an earlier arm wrote, and is still there, is not written in this one",
        (*TURNS[:5], "s4 t>d", "end abd>z"), {},
        [(LIFETIMES, ("t",), "s4")],
    ),
    ("the arm between keeps what the others write", TURNS, {"b": 24}, [(SHARING, ("t", "b"), "s2")]),
    (
        "an arm does before it writes itself",
        (*TURNS[:5], "s c>e", *TURNS[5:]), {"e": 24},
        [(SHARING, ("t", "e"), "s3")],
    ),
    (
        "what an arm wrote and wrote over is read, not held for another",
        (*TURNS[:6], "s c>e", "u t>!t", *TURNS[6:]), {"e": 24},
        [(SHARING, ("t", "e"), "u")],
    ),
    (
        "an inner arm keeps what an outer one wrote",
        ("s0 c>t", "s1 t>a", "|", "( c", "s2 c>e", "s3 c>t", "s4 t>b", "|", "s5 c>t", "s6 t>d", "end bd>f", "end af>z"),
        {"e": 24}, [(SHARING, ("t", "e"), "s3")],
    ),
    ("what each arm changes is another value behind them", ("s0 x>!x", "|", "s1 x>!x", "end >", "s2 x>z"), {}, []),
    ("one result that each arm writes", ("s0 c>pyq", "s1 q>a", "|", "s2 c>y", "end >", "s3 y>z"), {}, []),
    (
        "but not with what lies over it in one arm",
        ("s0 c>y", "s1 c>p", "|", "s2 c>y", "end >", "s3 y>z"), {"p": 16},
        [(SHARING, ("y", "p"), "s1"), (SHARING, ("y", "p"), "s3")],
    ),
    (
        "a view that another arm made has no bytes of its own",
        ("s0 c>b", "s1 b>v", "s2 v>a", "|", "s3 c>b", "s4 v>d", "end ad>z"), {},
        [(LIFETIMES, ("v",), "s4")],
    ),
    ("one arm alone", ("s0 c>b", "s1 b>v", "end >", "s2 v>z"), {}, []),
    (
        "what one arm has written is not written again",
        ("s0 c>y", "|", "s1 c>a", "end >", "s2 c>y", "s3 y>z"), {},
        [(SHARING, ("y",), "s2")],
    ),
    (
        "what one arm has written is not read behind them",
        ("s0 c>y", "|", "s1 c>a", "end >", "s2 y>z"), {},
        [(LIFETIMES, ("y",), "s2")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "moved", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_arms_run_from_one_state_and_leave_one(
    steps: tuple[str, ...], moved: dict[str, int], expected: list[tuple[str, tuple[str, ...], str]]
) -> None:
    plan = plan_of(steps, moved)
    donated = frozenset("x")
    run = build_program(plan, decide_permissions(plan, None, donated), donated)
    found = [(v.obligation, v.tensors, "" if v.step is None else run.nodes[v.step]) for v in check_execution(run)]
    assert found == expected


NESTED = ("( c", "s0 c>y", "|", "s1 c>y", "end >")
NEST = "bodies_nest"
SCOPES: list[tuple[str, tuple[str, ...], list[tuple[str, tuple[str, ...], str]]]] = [
    ("all inner and the outer arm", (*NESTED, "|", "s2 c>y", "end >", "s3 y>z"), []),
    ("an arm twice and the other never", (*NESTED, "s4 c>y", "|", "s2 c>a", "end >", "s3 y>z"), [(NEST, ("y",), "s3")]),
    ("the leave of an inner node alone", (*NESTED[:-1], "|", "s2 c>a", "end ya>b", "end b>z"), []),
    ("two steps in no arm", ("s0 c>a", "end >", "s1 c>y", "s2 c>y"), [(NEST, ("y",), "s1")]),
    ("a change is no further write", ("s0 c>a", "end >", "s1 c>y", "s2 y>!y", "s3 y>z"), []),
    (
        "what the caller writes is written by no step, however many do",
        ("s0 c>a", "end >", "s1 c>x", "s2 c>x"), [(LIFETIMES, ("x",), "s1"), (LIFETIMES, ("x",), "s2")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "expected"), [case[1:] for case in SCOPES], ids=[case[0] for case in SCOPES])
def test_what_arms_write_is_read_where_each_way_has_written_it(
    steps: tuple[str, ...], expected: list[tuple[str, tuple[str, ...], str]]
) -> None:
    """spec: X4.3, X4.4, T8.9"""
    plan = plan_of(steps, {})
    run = build_program(plan, decide_permissions(plan, None, frozenset()))
    found = [(v.obligation, v.tensors, "" if v.step is None else run.nodes[v.step]) for v in violations(plan, run)]
    assert found == expected


def test_nothing_between_two_storages_hides_that_they_share_bytes_for_good() -> None:
    """spec: P2.4"""
    lines = (
        "arena k 32 persistent",
        "tensor p 8 k 0 parameter",
        "tensor n 0 k 4 parameter",
        "tensor q 8 k 4 parameter",
    )
    plan = text.read("\n".join(["tmmu-plan-text 1", *lines, ""]).encode(), "p.plan.txt")
    assert isinstance(plan, Plan)
    [found] = violations(plan, build_program(plan, decide_permissions(plan, None, frozenset())))
    assert (found.obligation, found.tensors, found.first_byte, found.last_byte) == ("no_live_overlap", ("p", "q"), 4, 7)


def test_a_node_that_makes_one_value_as_it_is_entered_has_arms_too() -> None:
    """Its first step is like any that reads and writes, but for what it opens. spec: X4.3"""
    lines = [
        "arena m 64", "tensor c 8 m 0 input", "tensor f 8 m 8", "tensor y 8 m 16", "tensor z 8 m 24 output",
        "begin n If c -> f exclusive", "step s A f -> y", "arm", "step t A f -> y", "end n y -> z",
    ]  # fmt: skip
    plan = text.read("\n".join(["tmmu-plan-text 1", *lines, ""]).encode(), "p.plan.txt")
    assert isinstance(plan, Plan)
    assert list(check_execution(build_program(plan, decide_permissions(plan, None, frozenset())))) == []
