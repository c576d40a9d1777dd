"""All graphs of four nodes, and of five with every order and every in-place choice or every view: minutes, not seconds.

Both ways mixed, and six nodes, are in the soak: `python -m tests.nightly.soak.graphs`. spec: T6.4, V4.1, V4.2
"""

from __future__ import annotations

import pytest

from tests.support.exhaustive import wrong_plans
from tmmu.testing.strategies.every_graph import A_VIEW, IN_PLACE, graphs


def test_every_graph_of_four_nodes_is_planned_right() -> None:
    """spec: T6.4, V4.1, V4.2"""
    assert list(wrong_plans(graphs(4))) == []


@pytest.mark.parametrize("way", [IN_PLACE, A_VIEW])
def test_every_graph_of_five_nodes_is_planned_right(way: str) -> None:
    """spec: T6.4, V4.1, V4.2"""
    every = list(graphs(5, (way,)))
    assert len(every) == 1 * 3 * 8 * 20 * 48
    assert list(wrong_plans(every)) == []
