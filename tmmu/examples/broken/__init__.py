"""The corpus of wrong plans: each kind is a right plan with one thing changed, whose file states the right hashes.

`tmmu example broken/<kind>` writes one; `verify-plan` must refute every one of them with a witness. spec: C2.5
"""

from __future__ import annotations

from tmmu.examples.broken import (
    arenas,
    bodies,
    claims,
    envelopes,
    exclusive,
    hashes,
    layouts,
    lifetimes,
    mico,
    orders,
    other_model,
    placement,
    sharding,
    sharing,
    steps,
    training,
)
from tmmu.examples.broken.kinds import Broken, Wrong

__all__ = ["KINDS", "Broken", "Wrong"]

_MODULES = (
    arenas, bodies, claims, envelopes, exclusive, hashes, layouts, lifetimes, mico, orders, other_model, placement,
    sharding, sharing, steps, training,
)  # fmt: skip

KINDS: dict[str, Broken] = {
    kind.name: kind
    for kind in sorted(
        (kind for module in _MODULES for kind in vars(module).values() if isinstance(kind, Broken)),
        key=lambda kind: kind.name,
    )
}
"""Every kind by its name, in alphabetical order."""
