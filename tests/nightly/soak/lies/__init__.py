"""Every way to lie, by the code that the verifier must answer with.

Codes are the names of obligations, for what is refuted, and failure codes, for what is no plan or no model. A lie is
wrong by construction: what makes it wrong is worked out from the plan's columns, and nothing of the verifier is asked.
"""

from __future__ import annotations

from tests.nightly.soak.lies import (
    bodies,
    counts,
    envelopes,
    formats,
    homes,
    lifetimes,
    model_files,
    models,
    places,
    ranks,
    sharing,
)
from tests.nightly.soak.lies.telling import Files, Lie

__all__ = ["CODES", "ELSEWHERE", "LIES", "Files", "Lie"]

LIES: dict[str, Lie] = {
    lie.title: lie
    for part in (places, homes, counts, lifetimes, sharing, bodies, models, envelopes, ranks, formats, model_files)
    for lie in part.LIES
}
"""All lies by title."""

ELSEWHERE = {
    "INVALID_ARENA_CONFIG": "of a configuration file; the configuration in a plan is part of its format: INVALID_PLAN",
    "INVALID_BINDING": "a model that the plan's bindings do not fit is REFUTED; a flag that they do not fit is exit 2",
    "INVALID_SHARDING": "a model that the plan's shard spec does not fit is REFUTED: `shards`",
    "TMMU_ALLOCATION_FAILURE": "of a file that cannot be read, or a folder that cannot be written",
    "ARENA_TOO_SMALL": "of planning; a plan whose arena is too small is REFUTED: `capacity`",
    "ADDRESS_COLLISION": "of planning; a plan whose slots touch is REFUTED: `no_live_overlap`",
    "INVALID_ADDRESS": "of mapping a plan; one whose addresses are outside is REFUTED: `capacity`",
    "INVALID_RECORD": "of traces, journals, ledgers and checkpoints",
    "CONTRACT_VIOLATION": "of runs",
    "REPLAY_DIVERGENCE": "of runs; a plan whose hashes do not recompute is REFUTED: `hashes`",
}
"""The failure codes that `verify-plan` cannot print of a plan and a model, and why."""

CODES = tuple(dict.fromkeys(lie.code for lie in LIES.values()))
"""Every code that a lie about a plan can reach."""
