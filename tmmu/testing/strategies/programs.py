"""Random models for authors of planners: the strategy `models` with what a planner may leave out. spec: TP1.4"""

from __future__ import annotations

from hypothesis import strategies as st

from tmmu.core.vocabulary import Model
from tmmu.testing.strategies import models as random_models
from tmmu.testing.strategies.recipes import HOLDERS, KINDS, TRAITS


def models(
    *,
    most: int = 14,
    bodies: bool = True,
    views: bool = True,
    mutation: bool = True,
    scratch: bool = True,
    envelopes: bool = False,
) -> st.SearchStrategy[Model]:
    """Return a strategy for valid models of up to `most` nodes, with in-place hints, right and wrong ones.

    Alias groups, pairs that must not alias, scratch, donated inputs and parameters, several results of one node, and
    tensors without bytes all occur. No tensor has more than 16 bytes, but for scratch. What a body copies on leaving
    (T8) need not be placed.

    Parameters
    ----------
    most
        The most nodes, without those in bodies that are closed at the end.
    bodies
        Whether there are If (of one branch or two), Loop and Scan, nested up to three deep.
    views
        Whether there are Reshape and windows, also of each other and of what is changed later.
    mutation
        Whether nodes change what an earlier node or the caller wrote.
    scratch
        Whether nodes need bytes while they run: the tensor `NODE.scratch0` and so on.
    envelopes
        Whether sizes may depend on an open dimension. A planner of these returns a plan, not offsets.
    """
    left_out = {*(() if bodies else (*HOLDERS, "end")), *(() if views else ("view", "window"))}
    left_out |= set() if mutation else {"update"}
    kinds = tuple(kind for kind in KINDS if kind not in left_out)
    traits = tuple(
        trait for trait in TRAITS if (envelopes or trait != "envelope") and (scratch or "scratch" not in trait)
    )
    return random_models.models(kinds=kinds, size=most, traits=traits)
