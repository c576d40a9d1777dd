"""Execution orders: reorder the nodes of a model before anything else is planned.

`given` is the order of the model. `memory` lowers the peak of live bytes. The graph is split at nodes that separate all
before them from all after them; each part is searched exactly within a bounded number of states, and published
heuristics cover the rest. The results are measured by the planner's own liveness and storages. An order is a new model
with the same tensors, and the later stages are the same for both. spec: O1.1
"""

from __future__ import annotations

from collections.abc import Callable

from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, ArenaPolicy, Model
from tmmu.planner.orders.portfolio import memory

__all__ = ["REORDER"]


def keep_order(
    model: Model, arenas: tuple[ArenaConfiguration, ...], mode: str, in_place: bool, policy: ArenaPolicy = ANYWHERE
) -> Model:
    """Return the model unchanged."""
    return model


REORDER: dict[str, Callable[[Model, tuple[ArenaConfiguration, ...], str, bool, ArenaPolicy], Model]] = {
    "given": keep_order,
    "memory": memory,
}
"""The function of every order, by its name in `tmmu.core.vocabulary.ORDERS`.

Its arguments are the model, arenas and mode, whether the layout puts results in place, and the arena policy.
"""
