"""How `tmmu.plan` plans and how `tmmu.verify` proves, with the defaults of the commands.

Values that depend on the model and its caller are arguments of these functions. Options of the planner and the verifier
work is in one object for each. spec: LIB1.1, LIB2.1
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tmmu.core.vocabulary import FixedByte


@dataclass(frozen=True, kw_only=True)
class PlannerOptions:
    """How a model is planned.

    Attributes
    ----------
    layout, order, effort, fallback
        How addresses follow, which execution order is planned, how long lower placements are searched for, and the
        layout to use if the first does not fit, as the options of `tmmu plan` of these names.
    execution_order
        The names of all nodes in the order to run them; empty for the order of `order`.
    late_seeds
        Whether the caller writes the seed of a gradient directly before the step that first reads it.
    fixed
        The byte of its arena where each of these tensors must begin, or the name of an arena and a byte of it, as
        --fix.
    arenas
        The file of an arena configuration (TOML).
    preset, budget
        The tensors that are kept for backward steps and, with `preset="remat_enabled"`, the most live bytes.
    seed
        The seed of the replay token.
    address_token
        The secret token of the layout `hashed`, at least 64 bytes.
    keep_inputs
        Whether the caller finds its inputs unchanged after the last step, donated ones apart.
    replan_policy
        The policy for a shape outside the ranges of `dims`: "abort" or "replan_at_safepoint".
    symbolic
        Whether offsets follow from the sizes at each shape of `dims`, as --symbolic.
    """

    layout: str = "packed"
    order: str = "given"
    effort: int | None = None
    fallback: str | None = None
    fixed: Mapping[str, FixedByte] = field(default_factory=dict)
    arenas: str | os.PathLike[str] | None = None
    preset: str | None = None
    budget: int | None = None
    seed: int = 0
    address_token: bytes | None = None
    keep_inputs: bool = False
    replan_policy: str = "abort"
    symbolic: bool = False
    execution_order: Sequence[str] = ()
    late_seeds: bool = False


@dataclass(frozen=True, kw_only=True)
class VerifierOptions:
    """How a plan is proved, and where its tensors must be.

    Attributes
    ----------
    solver
        "z3", "cvc5" or "both": with both, each must prove every obligation.
    timeout
        Seconds that the solver may take for one query.
    workers
        Solver processes.
    fixed
        The byte of its arena where each of these tensors must begin, or the name of an arena and a byte of it, as
        --fix.
    arenas
        The file of the arena configuration (TOML) that the plan must have; else the plan's is assumed.
    """

    solver: str = "z3"
    timeout: float = 600.0
    workers: int = 2
    fixed: Mapping[str, FixedByte] = field(default_factory=dict)
    arenas: str | os.PathLike[str] | None = None
