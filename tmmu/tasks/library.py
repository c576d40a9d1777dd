"""The library in four words: `plan` a model, `load` a plan, look into it, `verify` it.

Commands use the same functions, with the same defaults.
spec: LIB1.1 to LIB1.4, LIB2.1 to LIB2.4, LIB5.1, LIB5.2
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import index
from typing import Any

from proofs.proving.solvers.process import SOLVERS, require_solvers
from proofs.readers.plans import formats as plan_formats
from proofs.verify import judge as verify_plan
from proofs.verify import picture
from proofs.verify import text as verdict_text
from proofs.verify.options import REQUIRABLE, Disagreement, Options, Solving
from proofs.verify.verdict import PROVED, REFUTED, Verdict
from tmmu.core import canonical
from tmmu.core.bindings import step_range
from tmmu.core.columns import NONE
from tmmu.core.errors import TmmuError
from tmmu.core.output import escape_line, suggest_names
from tmmu.core.vocabulary import ANYWHERE, Bindings, Model, SteppedDim
from tmmu.ir.graph import Graph
from tmmu.planner import DEFAULT, PlanOptions, replay_token
from tmmu.planner.fixed import check_found
from tmmu.plans import configuration_file, file, metrics
from tmmu.plans.columns import ROLES, SHARES
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.places import TensorPlaces, tensor_places
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.tasks.arguments import naming_arguments
from tmmu.tasks.library_options import PlannerOptions, VerifierOptions
from tmmu.tasks.planning import task
from tmmu.tasks.training import TrainingOptions

FilePath = str | os.PathLike[str]
Size = int | tuple[int, int] | tuple[int, int, int]
"""A dimension: its size, or the smallest and the largest that it may have, with the step between its sizes if not 1."""

PLAN_NAME = "plan.cbor"
"""The name, in a verdict, of a plan that is not in a file."""
PLANNER_DEFAULTS, VERIFIER_DEFAULTS = PlannerOptions(), VerifierOptions()


@dataclass(frozen=True)
class PlannedTensor:
    """Where a tensor lies, in bytes of its arena, and when it is live, in steps, both included.

    `shares` is the word for how it shares the bytes of `of`, another tensor, or None if it has separate bytes.
    """

    name: str
    arena: str
    offset: int
    bytes: int
    birth: int
    death: int
    dtype: str | None = None
    role: str | None = None
    shares: str | None = None
    of: str | None = None

    @property
    def end(self) -> int:
        """The byte after its last one."""
        return self.offset + self.bytes


@dataclass(frozen=True)
class PlannedArena:
    """One contiguous part of memory: the bytes it needs, the most that are live in it at one step, and its limits."""

    name: str
    footprint: int
    peak: int | None
    """Return the most live bytes, or None if the plan does not claim it."""
    peak_step: int | None
    capacity: int
    alignment: int


class MemoryPlan:
    """A plan of memory: tensors by name, arenas, and its bytes as a file has them.

    `plan[name]` is a `PlannedTensor` (KeyError for a name that the plan does not have); a plan is iterated by names, in
    the order of its rows. `plan.sections` is the record that the package's own functions take.
    """

    def __init__(self, stated: StatedPlan | StatedBuffers, name: str = PLAN_NAME) -> None:
        self.stated, self.name = stated, name

    @property
    def sections(self) -> Any:
        """The plan's record: `tmmu.plans.sections.Plan`, or `BufferPlan` if only lifetimes are known."""
        return self.stated.plan

    @property
    def arenas(self) -> tuple[PlannedArena, ...]:
        """The plan's arenas, those that hold nothing included. O(storages)."""
        plan, placement = self.stated.plan, self.stated.plan.placement
        usage = [None] * len(placement.arenas) if plan.claims is None else plan.claims.usage
        return tuple(
            PlannedArena(
                arena.name, least if used is None or used.footprint is None else used.footprint,
                used and used.peak_live_bytes, used and used.peak_step, arena.capacity, arena.alignment,
            )
            for arena, least, used in zip(placement.arenas, metrics.compute_footprints(placement), usage, strict=True)
        )  # fmt: skip

    @property
    def footprint(self) -> int:
        """The bytes of all arenas together."""
        return sum(arena.footprint for arena in self.arenas)

    @cached_property
    def _places(self) -> TensorPlaces:
        return tensor_places(self.stated.plan)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self._places.name)}

    def __getitem__(self, name: str) -> PlannedTensor:
        """Where a tensor lies; O(1) after the first."""
        if name not in self._rows:
            raise KeyError(f"{name}: {suggest_names(name, self._rows, 'the plan has no such tensor')}")
        row, of, plan = self._rows[name], self._places, self.stated.plan
        found = PlannedTensor(
            name, plan.placement.arenas[int(of.arena[row])].name, int(of.offset[row]), int(of.bytes[row]),
            int(of.birth[row]), int(of.death[row]),
        )  # fmt: skip
        if not isinstance(plan, Plan):
            return found
        tensors, shared = plan.allocation.tensors, int(plan.allocation.tensors.of[row])
        found = replace(
            found, dtype=plan.allocation.dtypes[int(tensors.dtype[row])], role=str(ROLES[int(tensors.role[row])])
        )
        if shared == NONE:
            return found
        return replace(found, shares=str(SHARES[int(tensors.shares[row])]), of=tensors.name[shared])

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        held = ", ".join(f"{arena.name} {arena.footprint}" for arena in self.arenas if arena.footprint)
        return f"<MemoryPlan {self.name}: {len(self)} tensors; bytes: {held or 'none'}>"

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook: a table of the arenas, and a map of each over time. spec: LIB5.1"""
        from tmmu.report.arena_map import arena_maps
        from tmmu.report.notebook import plan_html

        return plan_html(self.name, arena_maps(self.stated.plan))

    def encoded(self) -> bytes:
        """The bytes of the plan as a file has them."""
        return file.encode(self.stated.plan, self.stated.hashes)

    def save(self, path: FilePath) -> None:
        """Write the plan to `path` as CBOR, whole or not at all; `tmmu plan` writes the same bytes."""
        canonical.write_atomically(path, self.encoded())


class NotProved(Exception):
    """A plan is refuted, or not proved; `result` says which, and why."""

    def __init__(self, result: VerificationResult) -> None:
        super().__init__(str(result))
        self.result = result


@dataclass(frozen=True)
class VerificationResult:
    """What `verify-plan` answers: printed, it is the command's text; `verdict` has the fields of its JSON output.

    As a truth value it is `proved`: a plan that is refuted, or not proved, is false.
    """

    verdict: Verdict
    plan: Plan | BufferPlan | None = field(default=None, repr=False, compare=False)
    """The plan that was judged, which a notebook draws."""

    def __bool__(self) -> bool:
        return self.proved

    @property
    def proved(self) -> bool:
        """Whether the plan is PROVED: with everything that was asked for, and nothing left open."""
        return self.verdict.verdict == PROVED

    @property
    def refuted(self) -> bool:
        """Whether something was found that is wrong; a plan can also be neither proved nor refuted."""
        return self.verdict.verdict == REFUTED

    @property
    def witness(self) -> dict[str, Any] | None:
        """Return the fault in the form of C1.5: obligation, text, tensors, steps, arena and bytes; None without one."""
        return self.verdict.witness

    def raise_unless_proved(self) -> None:
        """Raise `NotProved` unless the plan is PROVED."""
        if not self.proved:
            raise NotProved(self)

    def __str__(self) -> str:
        return "\n".join(verdict_text.lines(self.verdict))

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook: the text, and the picture of a refutation. spec: LIB5.2"""
        return picture.part(self.verdict, list(map(escape_line, verdict_text.lines(self.verdict))), self.plan)


@naming_arguments()
def plan(
    model: FilePath | Graph,
    dims: Mapping[str, Size] | None = None,
    *,
    shapes: Mapping[str, Sequence[int] | str] | None = None,
    values: Mapping[str, object] | None = None,
    donate: Sequence[str] = (),
    trust_shapes: bool = False,
    mode: str | None = None,
    options: PlannerOptions = PLANNER_DEFAULTS,
) -> MemoryPlan:
    """Plan the memory of a model, and check the plan by the verifier's own function, as `tmmu plan` does.

    Parameters
    ----------
    model
        A file (ONNX, or IR as .ir.cbor or .ir.txt) or a `Graph`.
    dims
        The size of each symbolic dimension, or its smallest and largest, with the step between its sizes if not 1.
    shapes, values
        The shape of an input, or the size to assume of a tensor whose size the model does not state (`"float32:1x10"`,
        `"bytes:40"`); the value of an input that decides a shape or a branch.
    donate
        Inputs and parameters whose bytes results may take; `*` is any text.
    trust_shapes
        Use the shapes that an ONNX file states if none can be inferred.
    mode
        The part of the model to plan: "inference", "forward" or "backward"; by default inference, or the preset's.
    options
        How it is planned: layout, order, arenas, preset and budget, and so on.

    Raises
    ------
    TmmuError
        INVALID_IR, INVALID_IR_SHAPES, INVALID_BINDING, LIVENESS_CYCLE, MODE_VIOLATION, INVALID_ARENA_CONFIG,
        ARENA_TOO_SMALL, ALIGNMENT_VIOLATION, ALLOCATION_OVERFLOW, ADDRESS_COLLISION; CONTRACT_VIOLATION for a plan that
        would be wrong.

    Notes
    -----
    O(n log n) for n tensors and nodes, beside what onnx's inference takes. For ranks of a shard spec use the command.
    """
    sizes, ranges, steps = _dims(dims or {})
    bound = Bindings(
        sizes,
        {name: tuple(shape) for name, shape in (shapes or {}).items() if not isinstance(shape, str)},
        {name: str(value) for name, value in (values or {}).items()},
        donated=tuple(donate), trust_shapes=trust_shapes,
        ranges=ranges, steps=steps,
        stated={name: shape for name, shape in (shapes or {}).items() if isinstance(shape, str)},
        keep_inputs=options.keep_inputs,
    )  # fmt: skip
    wanted = PlanOptions(
        layout=options.layout, order=options.order, replay_token=replay_token(options.seed),
        address_token=options.address_token, fallback=options.fallback,
        replan_policy=options.replan_policy.upper(), effort=options.effort, symbolic=options.symbolic,
        fixed=dict(options.fixed), listed=tuple(options.execution_order),
        late_seeds=options.late_seeds,
    )  # fmt: skip
    training = TrainingOptions(mode, options.preset, options.budget)
    configuration = (
        (DEFAULT, ANYWHERE) if options.arenas is None else configuration_file.load(os.fspath(options.arenas))
    )
    given = _model(model)
    try:
        asked = task(given, bound, training, wanted, configuration)
        made = asked.planned(asked.graph).plan
        check_found(wanted.fixed, [made])
        asked.check(made)
    except TmmuError as error:
        if isinstance(given, str):
            error.in_file(given)
        raise
    return MemoryPlan(file.decode(file.encode(made)))


def _model(model: FilePath | Graph) -> str | Model:
    """The path of a file, or the model of a graph; INVALID_IR for anything else."""
    if isinstance(model, Graph):
        return model.model()
    if not isinstance(model, str | os.PathLike):
        what = f"a {type(model).__name__} is neither a file nor a tmmu.Graph"
        raise TmmuError("INVALID_IR", what, place="model", fix="give the path of a file; save a model of onnx first")
    return os.fspath(model)


def _dims(
    given: Mapping[str, Size],
) -> tuple[dict[str, int], dict[str, tuple[int, int]], dict[str, SteppedDim]]:
    """Sort the values of dimensions as `Bindings` do: sizes, ranges, and those with a step."""
    sizes: dict[str, int] = {}
    ranges: dict[str, tuple[int, int]] = {}
    steps: dict[str, SteppedDim] = {}
    for name, size in given.items():
        try:
            if not isinstance(size, tuple | list):
                sizes[name] = index(size)
            elif len(size) == 2:
                ranges[name] = index(size[0]), index(size[1])
            else:
                of, ends = step_range(name, *map(index, size))
                steps |= {} if of is None else {name: of}
                ranges[name if of is None else of.unit] = ends
        except (TypeError, ValueError) as error:
            what = str(error) if isinstance(error, ValueError) else f"{size!r} is not a size"
            fix = "give a size, (smallest, largest), or (smallest, largest, step)"
            raise TmmuError("INVALID_BINDING", what, place=f"dims[{name!r}]", fix=fix, binding=name) from None
    return sizes, ranges, steps


def load(path: FilePath) -> MemoryPlan:
    """The plan at `path`, CBOR or text, or of another compiler (`spec/foreign.md`); INVALID_PLAN naming file and place
    where it is none or cannot be read. O(bytes).
    """
    try:
        return MemoryPlan(plan_formats.load_any(path), os.fspath(path))
    except OSError as error:
        what = f"it cannot be read ({error.strerror})"
        raise TmmuError("INVALID_PLAN", what, file=os.fspath(path), fix="check the path") from error


def save(plan: MemoryPlan, path: FilePath) -> None:
    """Write a plan to `path`, whole or not at all."""
    plan.save(path)


@naming_arguments()
def verify(
    plan: MemoryPlan | FilePath,
    model: FilePath | Graph | None = None,
    *,
    require: Sequence[str] = (),
    donate: Sequence[str] = (),
    shapes: Mapping[str, str] | None = None,
    trust_shapes: bool = False,
    mode: str | None = None,
    options: VerifierOptions = VERIFIER_DEFAULTS,
) -> VerificationResult:
    """Prove that running a plan in its arenas computes what private memory would; or find the witness.

    Parameters
    ----------
    plan
        A plan, or the file of one.
    model
        The model that the plan must be of; without one the verdict is for the steps that the plan states.
    require
        Answer UNKNOWN if one of these is missing, as the option of `verify-plan` of this name.
    donate, shapes, trust_shapes
        What the caller gives up, and what is to be assumed of sizes that nothing gives, as for `plan`: what the plan
        states of it does not count.
    mode
        The part of the model that the plan runs, if the plan does not state it.
    options
        How it is proved, and where its tensors must be: solver, time, arenas, fixed offsets.

    Raises
    ------
    TmmuError
        INVALID_PLAN or INVALID_IR if a file is no plan or no model; INVALID_BINDING if what is given here is not what
        the plan was made with; INVALID_SETTING for an unknown option,
        MISSING_PACKAGE for a solver that is not installed.

    Notes
    -----
    The cost of `verify-plan`: O(n log n) rows for n tensors and accesses, most of it the solver's.
    """
    wanted = (require,) if isinstance(require, str) else tuple(require)
    _check_options(wanted, options)
    solvers = tuple(SOLVERS) if options.solver == "both" else (options.solver,)
    require_solvers(solvers, f"solver={options.solver!r}")
    found = plan if isinstance(plan, MemoryPlan) else load(plan)
    asked = Options(
        bindings=Bindings(donated=tuple(donate), trust_shapes=trust_shapes, stated=dict(shapes or {})),
        require=wanted, mode=mode, fixed=dict(options.fixed),
        arenas=None if options.arenas is None else configuration_file.load(os.fspath(options.arenas)),
        solving=Solving(
            solvers=solvers,
            timeout=options.timeout, workers=options.workers,
        ),
    )  # fmt: skip
    try:
        given = None if model is None else _model(model)
        if isinstance(given, Model):
            judged = verify_plan.judge_against(found.name, found.stated, given, asked)
        else:
            judged = verify_plan.judge(found.name, found.stated, replace(asked, model=given))
        return VerificationResult(judged, found.sections)
    except Disagreement as error:
        raise TmmuError(
            "INVALID_BINDING", str(error), file=found.name, fix="give what the plan was made with", binding=""
        ) from error
    except OSError as error:
        what = f"it cannot be read ({error.strerror})"
        raise TmmuError("INVALID_IR", what, file=str(error.filename), fix="check the path") from error


def _check_options(require: tuple[str, ...], options: VerifierOptions) -> None:
    """Raise INVALID_SETTING for a requirement or a solver that is not known, and for no time or no process."""
    for what, value, known in (
        ("require", require, REQUIRABLE), ("solver", (options.solver,), ("z3", "cvc5", "both")),
    ):  # fmt: skip
        for word in set(value).difference(known):
            fix = f"give one of {', '.join(known)}"
            raise TmmuError("INVALID_SETTING", f"{word!r} is not known", place=what, fix=fix)
    for what, number in (("timeout", options.timeout), ("workers", options.workers)):
        if number <= 0:
            raise TmmuError("INVALID_SETTING", f"{number} is not above 0", place=what, fix="give more")
