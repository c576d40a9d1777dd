"""The catalogue of faults, by the code with which the verifier must answer, for any right plan.

A code is the name of an obligation if the plan is refuted, and a failure code if the plan or the model is invalid. The
kinds of `tmmu.examples.broken` are single wrong plans; a fault yields one wrong plan for each place in a right plan.
"""

from __future__ import annotations

from tmmu.testing.catalogue import (
    arenas,
    bodies,
    counts,
    envelopes,
    files,
    lifetimes,
    model,
    model_files,
    placement,
    ranks,
    sharing,
)
from tmmu.testing.catalogue.fault import Case, Fault, Injected

__all__ = ["CODES", "FAULTS", "NOT_PRINTED", "Case", "Fault", "Injected"]

_MODULES = (placement, arenas, counts, lifetimes, sharing, bodies, model, envelopes, ranks, files, model_files)

FAULTS: dict[str, Fault] = {
    each.title: each for module in _MODULES for each in vars(module).values() if isinstance(each, Fault)
}
"""All faults by title."""

NOT_PRINTED = {
    "INVALID_ARENA_CONFIG": "of a configuration file; the configuration in a plan is part of its format: INVALID_PLAN",
    "INVALID_BINDING": "a model that the plan's bindings do not fit is REFUTED; a flag that they do not fit is exit 2",
    "INVALID_SHARDING": "a model that the plan's shard spec does not fit is REFUTED: `shards`",
    "TMMU_ALLOCATION_FAILURE": "of a file that cannot be read, or a folder that cannot be written",
    "ARENA_TOO_SMALL": "of planning; a plan whose arena is too small is REFUTED: `capacity`",
    "ADDRESS_COLLISION": "of planning; a plan whose slots touch is REFUTED: `no_live_overlap`",
    "INVALID_ADDRESS": "of mapping a plan; one whose addresses are outside is REFUTED: `capacity`",
    "INVALID_RECORD": "of traces, journals, ledgers and checkpoints",
    "CONTRACT_VIOLATION": "of runs",
    "INVALID_SETTING": "of sessions",
    "MISSING_PACKAGE": "of commands whose packages are not installed",
    "INVALID_WEIGHTS": "of sessions",
    "USE_AFTER_FREE": "of sessions",
    "OUT_OF_MEMORY": "of sessions",
    "PRIVATE_ACCESS": "of sessions",
    "IN_USE": "of sessions",
    "INVALID_VECTORS": "of vectors in files",
    "INVALID_KEY": "of sealed logs",
    "INVALID_LOG": "of sealed logs",
    "NOT_AUTHENTIC": "of sealed logs",
    "ROLLED_BACK": "of sealed logs",
    "WRONG_KEY": "of sealed logs",
    "LOG_TRUNCATED": "of sealed logs",
    "REGION_REFUSED": "of mapped files",
    "REGION_LOST": "of mapped files",
    "MEMORY_BOUND": "of mapped files",
    "DATA_RACE": "of threads",
    "REPLAY_DIVERGENCE": "of runs; a plan whose hashes do not recompute is REFUTED: `hashes`",
}
"""The failure codes that `verify-plan` cannot print about a plan and a model, each with the reason."""

CODES = tuple(dict.fromkeys(each.code for each in FAULTS.values()))
"""Every code that a fault in a plan can reach."""
