"""Figures of recomputation: the operations that it repeats, and the smallest arena that it can reach."""

from __future__ import annotations

import pytest

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.planner import DEFAULT
from tmmu.planner.remat import rematerialise
from tmmu.planner.remat.rewrite import build_joint


def repeated(joint: Model, again: Model) -> int:
    """The operations that a graph repeats, by the costs of the graph it was made from."""
    cost = dict(zip((node.name for node in joint.nodes), build_joint(joint).cost, strict=True))
    return sum(cost[node.name.partition(".recompute")[0]] for node in again.nodes if ".recompute" in node.name)


def least(joint: Model) -> int:
    """The bytes of the smallest arena that recomputation reaches, as the refusal of a smaller one states them."""
    with pytest.raises(TmmuError) as raised:
        rematerialise(joint, DEFAULT, 1)
    assert raised.value.code_id == "ARENA_TOO_SMALL"
    return int(raised.value.diagnostics["required"])
