"""Execution order: how the nodes of a model are put in order before anything else is planned.

`given` is the order of the model. `memory` lowers the peak of live bytes: the graph falls apart where one node
separates all before it from all after it, each part is searched exactly as far as a bounded number of states goes,
published heuristics do the rest, and what comes out is measured by the planner's own liveness and storages. An order
is a new model with the same tensors, and the stages that follow are the same for both. spec: O1.1
"""

from __future__ import annotations

from collections.abc import Callable

from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, ArenaPolicy, Model
from tmmu.planner.orders.portfolio import memory

__all__ = ["REORDER"]


def given(
    model: Model, arenas: tuple[ArenaConfiguration, ...], mode: str, in_place: bool, policy: ArenaPolicy = ANYWHERE
) -> Model:
    """The model as it is."""
    return model


REORDER: dict[str, Callable[[Model, tuple[ArenaConfiguration, ...], str, bool, ArenaPolicy], Model]] = {
    "given": given,
    "memory": memory,
}
"""The function of every order, by its name in `tmmu.core.vocabulary.ORDERS`: of model, arenas and mode, whether the
layout puts results in place, and which arenas a tensor may use."""
