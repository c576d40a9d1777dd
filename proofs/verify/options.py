"""What the user asks of a verification, and how that and what a plan's provenance states go together.

spec: C1.6, V5.3, V5.5, P2.5
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from proofs.readers import donation
from tmmu.core.bindings import ranges_text as written
from tmmu.core.columns import Names
from tmmu.core.output import did_you_mean
from tmmu.core.vocabulary import Bindings, SteppedDim
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.sections import BufferPlan, Plan

REQUIRABLE = (
    "model",
    "slot-count",
    "ranks",
    "kernel",
    "provenance",
    "claims",
    "accesses",
    "sizes",
    "arenas",
    "optimum",
)
"""What `--require` may name."""


@dataclass(frozen=True)
class Options:
    """What the user asks of a verification; bindings given here must agree with the plan's (C1.6)."""

    model: str | None = None
    dims: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    donated: frozenset[str] = frozenset()
    """Names and patterns of what the user gives up; what they fit is worked out for each plan."""
    trust_shapes: bool = False
    require: tuple[str, ...] = ()
    timeout: float = 600.0
    definition_limit: int = 500
    workers: int = 2
    solvers: tuple[str, ...] = ("z3",)
    smt2: str | None = None
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    mode: str | None = None
    """What is run of the model, for a plan whose provenance does not say it."""
    arenas: Configuration | None = None
    """The arena configuration that plans must have."""
    capacity: int | None = None
    """The bytes of the memory, of formats that state none."""
    coq: str | None = None
    """The folder for a file in which Coq itself proves the plan."""
    stated: dict[str, str] = field(default_factory=dict)
    """Sizes of tensors that the user states; what the plan states of them does not count."""
    steps: dict[str, SteppedDim] = field(default_factory=dict)
    """Of which multiples of their units dimensions are; `ranges` holds the units."""
    optimum: str | None = None
    """The folder for proofs that footprints are the least."""
    fixed: dict[str, int] = field(default_factory=dict)
    """The bytes of their arenas at which tensors must begin, whatever a plan states of it."""


DEFAULTS = Options()


class Disagreement(Exception):
    """A binding given on the command line is not the plan's: an error of the command line, exit 2."""


def check_agreement(plan: Plan, options: Options) -> None:
    """A binding given on the command line must be the plan's own, and what is donated be what the caller writes.

    Raises `Disagreement`.
    """
    origin = plan.provenance
    if origin is None or not origin.shard_spec:  # of a rank's plan, all plans that are given must be asked
        for name in donation.unfit(options.donated, donation.given_up(plan, options.donated)):
            near = did_you_mean(name, sorted(donation.callers(plan)), "tmmu show lists its tensors with --tensors")
            raise Disagreement(f"--donate {name}: the plan has no graph input or parameter of this name; {near}")
        _check_fixed(plan.allocation.tensors.name, options)
    if origin is None:
        return
    others = origin.bindings.stated
    bindings, stated_mode = origin.bindings, [("--mode", "", options.mode, origin.mode)] if options.mode else []
    given: list[tuple[str, str, Any, Any]] = [
        *(
            ("--dim", f" {name}", value, bindings.dims.get(name, ranges_text(plan).get(name)))
            for name, value in options.dims.items()
        ),
        *(
            ("--dim", f" {name}", text, ranges_text(plan).get(name))
            for name, text in written(Bindings(ranges=options.ranges, steps=options.steps)).items()
        ),
        *(
            ("--shape", f" {name}", value, bindings.shapes.get(name))
            for name, value in options.shapes.items()
            if name not in others
        ),
        *(
            ("--shape", f" {name}", size, bindings.stated.get(name, size))
            for name, size in stated_by(options).items()
            if name in others
        ),
        *(("--value", f" {name}", value, bindings.values.get(name)) for name, value in options.values.items()),
        *stated_mode,
    ]
    for flag, name, value, planned in given:
        if value != planned:
            raise Disagreement(
                f"{flag}{name}={value}: the plan was made with {'nothing' if planned is None else planned}"
            )


def check_buffers(plan: BufferPlan, options: Options) -> None:
    """Of lifetimes without accesses nothing is asked that is about steps. Raises `Disagreement`. spec: P2.6"""
    for flag, given in (("--model", options.model), ("--donate", options.donated), ("--mode", options.mode)):
        if given:
            raise Disagreement(f"{flag}: the plan states lifetimes and no steps, which this is about")
    _check_fixed(plan.buffers.name, options)


def _check_fixed(names: Names, options: Options) -> None:
    if missing := options.fixed.keys() - set(names) if options.fixed else set():
        near = did_you_mean(name := min(missing), names, "tmmu show lists its tensors with --tensors")
        raise Disagreement(f"--fix {name}: the plan has no tensor of this name; {near}")


def ranges_text(plan: Plan) -> dict[str, str]:
    """The ranges of a plan's envelope, as they are written on a command line."""
    return written(plan.bindings)


def mode_of(plan: Plan, options: Options) -> str:
    """What is run of the model: by the plan's provenance, else by the user."""
    return plan.provenance.mode if plan.provenance is not None else options.mode or "inference"


def stated_by(options: Options) -> dict[str, str]:
    """What the user states of tensors, as texts."""
    return {**{name: "x".join(map(str, shape)) or "scalar" for name, shape in options.shapes.items()}, **options.stated}


def bound_by(plan: Plan, options: Options) -> Bindings:
    """What shapes are bound with: by the plan's provenance, else by the user."""
    if plan.provenance is not None:
        return plan.bindings
    return Bindings(
        options.dims,
        options.shapes,
        options.values,
        {},
        (),
        options.trust_shapes,
        plan.ranges or options.ranges,
        options.stated,
        options.steps,
    )
