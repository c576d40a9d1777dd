"""The options of a verification, and how they combine with a plan's provenance.

spec: C1.6, V5.3, V5.5, P2.5
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from proofs.definition.checker.fixed import find_arenas
from proofs.readers import donation
from tmmu.core.bindings import describe_runtime
from tmmu.core.bindings import format_ranges as written
from tmmu.core.columns import Names
from tmmu.core.output import suggest_names
from tmmu.core.vocabulary import Bindings, FixedByte
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.plans.workspace_file import Workspace

REQUIRABLE = (
    "model",
    "slot-count",
    "ranks",
    "kernel",
    "provenance",
    "claims",
    "accesses",
    "inputs-kept",
    "sizes",
    "arenas",
    "optimum",
    "set",
)
"""What `--require` may name."""


@dataclass(frozen=True, kw_only=True)
class Solving:
    """The solvers that prove obligations, their time and the number of processes."""

    solvers: tuple[str, ...] = ("z3",)
    timeout: float = 600.0
    """Seconds for one query."""
    workers: int = 2
    definition_limit: int = 500
    """Plans of at most so many storages are also proved straight from the definition."""


@dataclass(frozen=True, kw_only=True)
class ProofFolders:
    """The folders that proofs are written into; None for proofs that are not requested."""

    smt2: str | None = None
    """Obligations and lemmas as SMT-LIB 2."""
    coq: str | None = None
    """The folder of a proof of the plan that Coq checks."""
    optimum: str | None = None
    """Proofs that footprints are the least."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a verification."""

    model: str | None = None
    bindings: Bindings = field(default_factory=Bindings)
    """The bindings that the model is read with. They must agree with the plan's (C1.6).

    `donated` are names and patterns of donated inputs. `donated`, `stated` and `trust_shapes` are the user's
    word alone: what the plan states of them does not count.
    """
    require: tuple[str, ...] = ()
    mode: str | None = None
    """The mode of the model, for a plan whose provenance does not state it."""
    arenas: Configuration | None = None
    """The arena configuration that plans must have."""
    fixed: Mapping[str, FixedByte] = field(default_factory=dict)
    """Where tensors must begin, whatever a plan states of it."""
    workspace: Workspace | None = None
    """What steps of the model need as scratch, which the plan must state so."""
    capacity: int | None = None
    """The bytes of the memory, of formats that state none."""
    solving: Solving = field(default_factory=Solving)
    folders: ProofFolders = field(default_factory=ProofFolders)
    in_set: bool = False
    """Whether the plan is verified as a program of a set, which has a verdict of its own."""


DEFAULTS = Options()


@dataclass(frozen=True)
class SharedNames:
    """The options about plans without a manifest: the names that they share, and the initial ones among them."""

    shared: tuple[str, ...] = ()
    initial: tuple[str, ...] = ()


class Disagreement(Exception):
    """A binding given on the command line is not the plan's: an error of the command line, exit 2."""


def check_agreement(plan: Plan, options: Options) -> None:
    """Check that each binding given on the command line is the plan's own, and that the caller writes what is donated.

    Raises `Disagreement`.
    """
    origin, asked = plan.provenance, options.bindings
    if options.workspace is not None and options.model is None:
        raise Disagreement("--workspace goes with --model: it is about the nodes of a model")
    is_one_of_many = options.in_set or (origin is not None and bool(origin.shard_spec))
    if not is_one_of_many:  # of a rank's or a program's plan, all plans that are given must be asked
        for name in donation.unmatched_patterns(asked.donated, donation.donated_names(plan, asked.donated)):
            near = suggest_names(
                name, sorted(donation.caller_tensors(plan)), "tmmu show lists its tensors with --tensors"
            )
            raise Disagreement(f"--donate {name}: the plan has no graph input or parameter of this name; {near}")
        _check_fixed(plan.allocation.tensors.name, options.fixed)
    _check_arenas(plan, options)
    if origin is None:
        return
    others = origin.bindings.stated
    bindings, stated_mode = origin.bindings, [("--mode", "", options.mode, origin.mode)] if options.mode else []
    given: list[tuple[str, str, Any, Any]] = [
        *(
            ("--dim", f" {name}", value, bindings.dims.get(name, ranges_text(plan).get(name)))
            for name, value in asked.dims.items()
        ),
        *(
            ("--dim", f" {name}", text, ranges_text(plan).get(name))
            for name, text in written(Bindings(ranges=asked.ranges, steps=asked.steps)).items()
        ),
        *(
            ("--shape", f" {name}", value, bindings.shapes.get(name))
            for name, value in asked.shapes.items()
            if name not in others
        ),
        *(
            ("--shape", f" {name}", size, bindings.stated.get(name, size))
            for name, size in stated_sizes(asked).items()
            if name in others
        ),
        *(("--value", f" {name}", value, bindings.values.get(name)) for name, value in asked.values.items()),
        *_runtime_flags(asked, bindings, options.model),
        *stated_mode,
    ]
    for flag, name, value, planned in given:
        if value != planned:
            raise Disagreement(
                f"{flag}{name}={value}: the plan was made with {'nothing' if planned is None else planned}"
            )


def _runtime_flags(asked: Bindings, stated: Bindings, model: str | None) -> list[tuple[str, str, Any, Any]]:
    """Return what --as and --ort-level ask for beside what the plan states. spec: C1.19

    Raises `Disagreement` if a plan of the graph of a runtime is given with the model alone.
    """
    if asked.runtime is None:
        if stated.runtime is not None and model is not None:
            of = describe_runtime(stated.runtime)
            raise Disagreement(f"the plan is of another graph than the model's, {of}: add --as {stated.runtime.name}")
        return []
    name, level = (None, None) if stated.runtime is None else (stated.runtime.name, stated.runtime.level)
    return [("--as", "", asked.runtime.name, name), ("--ort-level", "", asked.runtime.level or level, level)]


def check_buffers(plan: BufferPlan, options: Options) -> None:
    """Check that nothing about steps is asked of lifetimes without accesses. Raises `Disagreement`. spec: P2.6"""
    donated = options.bindings.donated
    workspace = options.workspace
    for flag, given in (
        ("--model", options.model), ("--donate", donated), ("--mode", options.mode), ("--workspace", workspace),
    ):  # fmt: skip
        if given:
            raise Disagreement(f"{flag}: the plan states lifetimes and no steps, which this is about")
    _check_fixed(plan.buffers.name, options.fixed)
    _check_arenas(plan, options)


def _check_fixed(names: Names, fixed: Mapping[str, FixedByte]) -> None:
    if missing := fixed.keys() - set(names) if fixed else set():
        near = suggest_names(name := min(missing), names, "tmmu show lists its tensors with --tensors")
        raise Disagreement(f"--fix {name}: the plan has no tensor of this name; {near}")


def _check_arenas(plan: Plan | BufferPlan, options: Options) -> None:
    """Check that each byte of --fix is of an existing arena, which is named if several may hold the tensor."""
    try:
        find_arenas(plan, options.fixed, options.arenas)
    except ValueError as error:
        raise Disagreement(f"--fix {error}") from None


def ranges_text(plan: Plan) -> dict[str, str]:
    """Return the ranges of a plan's envelope as they are written on a command line."""
    return written(plan.bindings)


def mode_of(plan: Plan, asked: str | None) -> str:
    """Return what is run of the model: what the plan's provenance states, else what the user asks for."""
    return plan.provenance.mode if plan.provenance is not None else asked or "inference"


def stated_sizes(given: Bindings) -> dict[str, str]:
    """Return the sizes that the user states of tensors, as texts."""
    return {**{name: "x".join(map(str, shape)) or "scalar" for name, shape in given.shapes.items()}, **given.stated}


def bindings_for(plan: Plan, given: Bindings) -> Bindings:
    """Return what shapes are bound with: the bindings of the plan's provenance, else those that the user gives."""
    if plan.provenance is not None:
        return plan.bindings
    return replace(given, defaults={}, donated=(), ranges=plan.ranges or given.ranges)
