"""All graphs of up to three nodes, with every execution order, view and in-place choice: slots are as few as can be.

And nothing can be objected to any of their plans, and every row of them is discharged. Four and five nodes are in
`tests/nightly`, six in the soak. spec: T6.4, T3.1, T4.1, V4.1, V4.2
"""

from __future__ import annotations

import pytest

from tests.support import exhaustive
from tests.support.effort import share
from tests.support.exhaustive import wrong_plans
from tmmu.planner import slots
from tmmu.testing.strategies.every_graph import choices, fewest_colours, graphs


def test_every_graph_is_there_once() -> None:
    """A node may read any of those before it, and ask for the bytes of any one that it reads, in either way."""
    plain = [len(list(graphs(nodes, ()))) for nodes in range(1, 6)]
    assert plain == [2 ** (nodes * (nodes - 1) // 2) for nodes in range(1, 6)]
    assert [len(choices(node, ("in place", "view"))) for node in range(4)] == [1, 4, 12, 32]
    every = list(graphs(4))
    assert len(set(every)) == len(every) == 1 * 4 * 12 * 32


@pytest.mark.parametrize("outputs", ["sinks", "last", "none"])
@pytest.mark.parametrize("nodes", [1, 2, 3][: share(20)])
def test_every_graph_of_up_to_three_nodes_is_planned_right(nodes: int, outputs: str) -> None:
    """spec: T6.4, T1.4, T1.6"""
    assert list(wrong_plans(graphs(nodes), outputs=outputs)) == []
    assert list(wrong_plans(graphs(nodes), outputs=outputs, layout="packed")) == []


def test_colours_are_counted_by_trying() -> None:
    assert fewest_colours([]) == 0
    assert fewest_colours([(0, 1), (2, 3)]) == 1
    assert fewest_colours([(0, 1), (1, 2), (2, 3)]) == 2
    assert fewest_colours([(0, 3), (0, 0), (1, 2), (2, 3)]) == 3


def test_a_slot_too_many_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_take", lambda *_: None)
    assert "slots where" in next(wrong_plans(graphs(3))).why


def test_a_row_that_is_not_discharged_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhaustive, "_rows", lambda plan, model: iter(["true", "(< 2 1)"]))
    assert [wrong.why for wrong in wrong_plans(graphs(2))] == ["the solver does not discharge (< 2 1)"]


def test_no_graph_is_an_error() -> None:
    with pytest.raises(ValueError, match="no graph"):
        list(wrong_plans([]))
