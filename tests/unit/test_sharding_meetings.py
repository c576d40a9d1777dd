"""Whom a rank meets at each of its collectives, and what is said of ranks that wait for ever.

spec: R7.1, R7.18, R7.26
"""

from __future__ import annotations

from typing import Any

import pytest

from proofs.definition.violations import Obligation, Violation
from proofs.sharding.exchange import Communication, communications, find_deadlock
from tests.support.sharded import model, spec
from tmmu.planner import plan_memory
from tmmu.plans.sections import Plan, amend_plan

CUBE = spec({"a": 2, "b": 3, "c": 4})
SHAPES = {"x": (4, 2), "x2": (4,), "y": (4, 2), "z": (8, 2)}


def plan(rank: int, *lines: str) -> Plan:
    """The plan of a rank of the cube that runs these steps: `node axis::operator: reads -> writes`."""
    made = plan_memory(model([line.replace(" ", " tmmu.mesh/", 1) for line in lines], SHAPES, "y")).plan
    return amend_plan(made, rank=rank, shard_spec=CUBE)


X, X2, Y = (32, "float32"), (16, "float32"), (32, "float32")


@pytest.mark.parametrize(
    ("axis", "group"), [("a", [6, 18]), ("b", [14, 18, 22]), ("c", [16, 17, 18, 19])]
)  # fmt: skip
@pytest.mark.parametrize("op", ["AllReduce", "AllGather.0", "ReduceScatter.1"])
def test_a_collective_has_the_ranks_that_differ_along_its_axis_alone(op: str, axis: str, group: list[int]) -> None:
    """Rank 18 stands at (1, 1, 2) of (2, 3, 4). spec: R7.1"""
    (found,) = communications(plan(18, f"n {axis}::{op}: x -> y"))
    assert found == Communication((op, axis, "n"), found.ranks, "n", (X,))
    assert list(found.ranks) == group


def test_a_send_and_its_receive_are_one_meeting_of_both_ranks() -> None:
    """The receiver is named from where the sender stands, and what arrives by its tensor. spec: R7.18"""
    (sent,) = communications(plan(18, "y.Send.2 b::Send.2: x x2 -> y"))
    (received,) = communications(plan(22, "y.Recv.1 b::Recv.1: x2 -> y"))
    assert sent == Communication(("Send", "b", "x", "x2"), (18, 22), "y.Send.2", (X, X2))
    assert received == Communication(("Send", "b", "y"), (18, 22), "y.Recv.1", (Y,))
    assert communications(plan(18, "n b::Send.0: x -> y"))[0].ranks == (18, 14)
    assert communications(plan(14, "n b::Recv.2: x -> y"))[0].ranks == (22, 14)


def test_what_is_no_collective_or_waits_for_nobody_is_no_meeting() -> None:
    first = communications(plan(18, "cut a::Shard.0: x -> z", "n a::AllReduce: z -> y"))
    assert [(found.step, found.carries) for found in first] == [("n", ((64, "float32"),))]
    other = plan(18, "n a::AllReduce: x -> y")
    assert communications(amend_plan(other, ops=(("com.example/a", "AllReduce"),))) == []


@pytest.mark.parametrize(
    ("axis", "op"),
    [
        ("d", "AllReduce"), ("d", "Send.0"), ("a", "AllReduced"), ("a", "Send"), ("a", "Send.x"), ("a", "Recv.-1"),
        ("a", "Send.00000000000"), ("a", "Send.2"), ("b", "Recv.3"), ("a", "Send.1"), ("a", "Recv.1"),
    ],
)  # fmt: skip
def test_a_collective_that_the_mesh_does_not_have_meets_nobody(axis: str, op: str) -> None:
    """Of an axis or a name that there is not, with a place beyond the axis, or with the rank's own."""
    (found,) = communications(plan(18, f"n {axis}::{op}: x -> y"))
    assert (found.what, list(found.ranks), found.step) == ((op, axis, "n"), [], "n")
    waiting = find_deadlock({18: [found]})
    text = f"rank 18 reaches n: {op} over '{axis}' is not a collective of its mesh"
    assert waiting == Violation(Obligation.RANKS_MEET, text, ranks=(18,))


def meeting(what: str, *ranks: int, size: int = 4) -> Communication:
    return Communication((what,), ranks, f"{what}{size}", ((size, "int8"),))


@pytest.mark.parametrize(
    ("by_rank", "text"),
    [
        ({0: [meeting("a", 0, 1)], 1: []}, "rank 0 waits in a4 for rank 1, which has ended"),
        ({1: [meeting("a", 0, 1)], 0: []}, "rank 1 waits in a4 for rank 0, which has ended"),
        ({0: [meeting("a", 0, 7)]}, "rank 0 waits in a4 for rank 7, which is not a rank of the mesh"),
        (
            {0: [meeting("b", 0, 1), meeting("a", 0, 1)], 1: [meeting("b", 0, 1), meeting("c", 0, 1)]},
            "rank 0 waits in a4 for rank 1, which waits in c4",
        ),
        (
            {0: [meeting("a", 0, 1, 2)], 1: [meeting("a", 0, 1, 2)], 2: [meeting("a", 0, 2)]},
            "rank 0 waits in a4 for rank 2, which waits in a4",
        ),
        ({0: [meeting("a", 0, 1, 2)], 1: [], 2: []}, "rank 0 waits in a4 for rank 1, which has ended"),
        (
            {0: [Communication(("a",), (0, 1), "a")], 1: [meeting("a", 0, 1)]},
            "rank 1 reaches a4 with 4 bytes of int8, and rank 0 to a with nothing",
        ),
        (
            {0: [meeting("a", 0, 1)], 1: [meeting("a", 0, 1, size=8)]},
            "rank 1 reaches a8 with 8 bytes of int8, and rank 0 to a4 with 4 bytes of int8",
        ),
    ],
)
def test_who_waits_for_whom_and_where_is_said(by_rank: Any, text: str) -> None:
    found = find_deadlock(by_rank)
    assert found is not None
    assert found.text == text


def test_ranks_that_had_to_wait_go_on_when_both_are_there() -> None:
    """Ranks 1 and 2 each wait for rank 0 first, and meet last."""
    a, b, c = meeting("a", 0, 1), meeting("b", 0, 2), meeting("c", 1, 2)
    for rest in ({1: [a, c], 2: [b, c]}, {2: [b, c], 1: [a, c]}):
        assert find_deadlock({0: [a, b], **rest}) is None
        assert find_deadlock({**rest, 0: [a, b]}) is None
        assert find_deadlock({0: [a, b], **rest, 3: [meeting("d", 3)]}) is None


def test_who_sends_to_itself_does_not_pass_over_what_comes_next() -> None:
    """Rank 6 waits for rank 18 for ever, and so nothing is proved of either."""
    sender = plan(6, "n a::Send.0: x -> y", "m a::Send.1: x -> z")
    found = find_deadlock({6: communications(sender), 18: []})
    assert found is not None
    assert "Send.0 over 'a' " in found.text
