"""From a plan file to a verdict: gate, hashes, model, naive checker, solver; and what the answer means.

A confirmed witness is REFUTED whatever the solver says. PROVED needs everything at once: every hash recomputes, the
steps are the model's where one is given, the naive checker finds nothing, and every obligation is discharged by the
solver with its canary, and, where the kernel is installed, its checker accepts the plan. Anything in between is
UNKNOWN. spec: V4.1, V4.2, V4.4, V4.5, V4.6, V5.2, V5.3, V5.4, V5.5, V6.1, A2.6
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from proofs import obligations
from proofs.checker import claims, envelope, structure
from proofs.checker import execute as checker
from proofs.checker.claims import FalseField
from proofs.checker.layouts import SCATTERED
from proofs.checker.program import Program, program
from proofs.kernel import coq_file, installed
from proofs.kernel.opinion import NOT_INSTALLED, opinion
from proofs.readers import arms, donation
from proofs.readers.models import compare
from proofs.readers.models.recomputation import with_recomputation
from proofs.readers.models.reference import Expected
from proofs.readers.models.training import in_mode
from proofs.readers.sharing import Permissions, permitted
from proofs.sharding.parts import false_parts, part_differences
from proofs.sharding.stages import RankModel, of_rank
from proofs.verify.verdict import (
    BY_COMPARISON,
    EXITS,
    OF_SHARDED,
    PROVED,
    UNKNOWN,
    Verdict,
    Wrong,
    entry_of,
    listed,
    refute,
)
from tmmu.core import kind
from tmmu.core.bindings import bindings_object
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings
from tmmu.plan import file
from tmmu.plan.columns import Plan
from tmmu.plan.gate import Stated

REQUIRABLE = ("model", "slot-count", "ranks", "kernel")
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
    coq: str | None = None
    """The folder for a file in which Coq itself proves the plan."""


class Disagreement(Exception):
    """A binding given on the command line is not the plan's: an error of the command line, exit 2."""


def verify(path: str, options: Options = Options(), progress: Callable[[str], None] = lambda _: None) -> Verdict:
    """The verdict on one plan file; the file is read once.

    Raises TmmuError where the bytes are no plan or the model cannot be read (exit 4), `Disagreement` for a binding
    that is not the plan's (exit 2). The solver runs in a child process: its death is UNKNOWN.
    """
    progress("reading")
    return judge(path, opened(path, options), options, progress)


def opened(path: str, options: Options = Options()) -> Stated:
    """Read a plan file, once. What an earlier run has written of a file of this name is removed first: it is no word on
    the file as it is now. Raises `TmmuError` and `OSError` where it is no plan or cannot be read.
    """
    if options.smt2 is not None:
        from proofs.verify import export as smtlib

        smtlib.clear(smtlib.folder_of(options.smt2, path))
    if options.coq is not None:
        coq_file.clear(options.coq)
    return file.load(path)


def judge(
    path: str, stated: Stated, options: Options = Options(), progress: Callable[[str], None] = lambda _: None
) -> Verdict:
    """The verdict on a plan that was read from `path`, which is not opened again. Raises as `verify` does."""
    plan = stated.plan
    _agree(plan, options)
    result = Verdict(path, UNKNOWN, EXITS[UNKNOWN], _scope(options), model=options.model)
    # From here on names, those that this plan has: a rank has what its stage touches.
    options = replace(options, donated=donation.given_up(plan, options.donated))
    result.assumptions = _assumptions(plan, options)
    result.claims = _claims(plan)
    if plan.shard_spec:
        result.assumptions["rank"], result.assumptions["world_size"] = plan.rank, plan.world_size
    try:
        sharded = _expected(plan, options)
        expected = None if sharded is None else sharded.expected
    except TmmuError as error:
        if error.code_id == "INVALID_SHARDING":
            stated_as = f"rank {plan.rank} of {plan.world_size}"
            place = f"{error.place}: {error.what}"
            refute(result, plan, [compare.Difference("sharding", "", (), None, stated_as, place)])
            return result
        if error.code_id != "INVALID_BINDING":
            raise
        # The bindings are the plan's own: a model that they do not fit is not the one that was planned.
        bound = {**plan.bindings.dims, **_ranges(plan), **plan.bindings.shapes, **plan.bindings.values}
        stated_as = ", ".join(f"{name}={value}" for name, value in bound.items())
        refute(result, plan, [compare.Difference("binding", "", (), None, stated_as, error.what)])
        return result
    permissions = permitted(plan, expected, options.donated)
    run = program(plan, permissions, options.donated)
    repeated = sorted(f"{op} gives the same values again" for op in (expected.repeated if expected is not None else ()))
    result.assumptions["believed_operators"] = [*permissions.believed, *repeated, *arms.assumed(plan)]
    if sharded is not None:
        result.assumptions["believed_operators"] += sorted(sharded.believed)
    progress("checking")
    found = list(islice(_false(stated, plan, run, sharded, options), 100))
    if found:
        refute(result, plan, found)
        return result
    progress("proving")
    outcomes = obligations.prove_with(
        options.solvers,
        plan,
        permissions,
        timeout_s=options.timeout,
        workers=options.workers,
        definition_limit=options.definition_limit,
        donated=options.donated,
    )
    progress("asking the kernel")
    result.kernel = opinion(stated, permissions, options.donated, options.timeout)
    _conclude(result, plan, outcomes, options)
    if options.smt2 is not None:
        _export(result, plan, permissions, outcomes, options)
    theory = installed.theory()
    if options.coq is not None and theory is not None:
        digest = stated.hashes["file_digest"]
        coq_file.write(options.coq, path, plan, permissions, options.donated, digest, theory)
    return result


def _export(
    result: Verdict, plan: Plan, permissions: Permissions, outcomes: Sequence[obligations.Outcome], options: Options
) -> None:
    """Write what was discharged as SMT-LIB; a status is stated only where a solver has confirmed it. spec: C4.3"""
    from proofs.lemmas import export
    from proofs.lemmas import plan as rests_on
    from proofs.lemmas.plan import cover, shrinking
    from proofs.verify import export as smtlib

    assert options.smt2 is not None
    if any(outcome.verdict != PROVED for outcome in outcomes):
        result.notes.append(f"nothing is written to {options.smt2}: not every obligation is discharged")
        return
    folder = smtlib.folder_of(options.smt2, result.file)
    smtlib.write_plan(folder, plan, permissions, options.donated, options.definition_limit)
    of_sizes = shrinking.STATEMENTS if plan.envelope is not None else ()
    of_ranks = cover.STATEMENTS if plan.shard_spec else ()
    names = [lemma.name for lemma in (*rests_on.LISTS, *of_sizes, *of_ranks)]
    export.write_lemmas(Path(options.smt2) / smtlib.LEMMAS, names)


def _expected(plan: Plan, options: Options) -> RankModel | None:
    """What the plan's rank must run of the model; of a plan without a shard spec that is the model."""
    if options.model is None:
        return None
    bindings = plan.bindings
    given = bindings.dims, bindings.shapes, bindings.values
    trusted = Bindings(*given, {}, (), options.trust_shapes, bindings.ranges)
    try:
        whole = with_recomputation(in_mode(read_model(options.model, trusted), plan.mode), plan)
        return of_rank(whole, plan.shard_spec, plan.rank) if plan.shard_spec else RankModel(whole, {})
    except TmmuError as error:
        error.in_file(options.model)
        raise


def read_model(path: str, bindings: Bindings) -> Expected:
    """What the model at `path` says must be run: an IR file, or an ONNX file."""
    if kind.is_ir(path):
        from proofs.readers.models.ir import read_ir
        from tmmu.ir import files

        return read_ir(files.load(path))
    try:
        from proofs.readers.models.onnx import read_onnx
    except ImportError as error:
        raise TmmuError("INVALID_IR", "reading ONNX needs the package onnx", fix="pip install 'tmmu[onnx]'") from error
    return read_onnx(path, bindings)


def _agree(plan: Plan, options: Options) -> None:
    """A binding given on the command line must be the plan's own, and what is donated be what the caller writes."""
    bindings = plan.bindings
    if not plan.shard_spec:  # of a rank's plan, all plans that are given must be asked
        for name in donation.unfit(options.donated, donation.given_up(plan, options.donated)):
            raise Disagreement(f"--donate {name}: the plan has no graph input or parameter of this name")
    given: list[tuple[str, str, Any, Any]] = [
        *(
            ("--dim", name, value, bindings.dims.get(name, _ranges(plan).get(name)))
            for name, value in options.dims.items()
        ),
        *(("--dim", name, _range(ends), _ranges(plan).get(name)) for name, ends in options.ranges.items()),
        *(("--shape", name, value, bindings.shapes.get(name)) for name, value in options.shapes.items()),
        *(("--value", name, value, bindings.values.get(name)) for name, value in options.values.items()),
    ]
    for flag, name, value, planned in given:
        if value != planned:
            raise Disagreement(
                f"{flag} {name}={value}: the plan was made with {'nothing' if planned is None else planned}"
            )


def _ranges(plan: Plan) -> dict[str, str]:
    return {name: _range(ends) for name, ends in plan.bindings.ranges.items()}


def _range(ends: tuple[int, int]) -> str:
    return f"{ends[0]}..{ends[1]}"


def _scope(options: Options) -> str:
    return "against the model" if options.model is not None else "for the steps it states"


def _assumptions(plan: Plan, options: Options) -> dict[str, Any]:
    bindings = bindings_object(plan.bindings)
    return {
        **{key: bindings.get(key, {}) for key in ("dims", "ranges", "shapes", "values", "defaults")},
        "donated": sorted(options.donated),
        "trusted_shapes": options.trust_shapes,
        "believed_operators": [],
    }


def _claims(plan: Plan) -> dict[str, Any]:
    return {
        arena.name: {
            **usage._asdict(),
            "slot_count": "minimal" if usage.minimal else "not claimed",
            "footprint_is_optimal": "not proved",
        }
        for arena, usage in zip(plan.arenas, plan.usage, strict=True)
        if usage.slots
    }


def _false(stated: Stated, plan: Plan, run: Program, sharded: RankModel | None, options: Options) -> Iterator[Wrong]:
    """Everything false that the naive side finds, most telling first, lazily."""
    if sharded is not None:
        yield from compare.differences(plan, sharded.expected, options.donated)
        yield from part_differences(plan, sharded)
    yield from envelope.problems(plan)
    yield from checker.problems(run)
    yield from structure.problems(plan, run)
    yield from claims.false_claims(plan, run)
    if plan.shard_spec:
        yield from false_parts(plan)
    for name, old, new in file.false_hashes(stated):
        yield FalseField("hashes", name, old.hex(), new.hex())


def _conclude(result: Verdict, plan: Plan, outcomes: Sequence[obligations.Outcome], options: Options) -> None:
    """PROVED if the solver discharged everything and nothing required is missing; else UNKNOWN with the reason."""
    by_name = {outcome.name: outcome for outcome in outcomes}
    names = listed(plan)
    unasked = [name for name in names if name not in (*by_name, *BY_COMPARISON, *OF_SHARDED)]
    for name in names:
        outcome = by_name.pop(name, None)
        if outcome is None:
            if name in unasked:
                result.obligations.append({"name": name, "verdict": UNKNOWN, "detail": "the solver was not asked"})
            elif name != "steps_are_the_model" or options.model is not None:
                result.obligations.append({"name": name, "verdict": PROVED, "detail": "by comparison"})
            continue
        result.obligations.append(entry_of(outcome))
    # The lemmas, and the query straight from the definition.
    result.obligations += [entry_of(outcome) for outcome in by_name.values()]
    agrees = _record_kernel_result(result)
    unproved = [o for o in outcomes if o.verdict != PROVED]
    missing = [name for name in options.require if not _holds(name, plan, options, result)]
    for outcome in unproved:
        said = "says no where the naive checker finds nothing" if outcome.verdict == "VIOLATED" else "gave no answer"
        result.notes.append(f"{outcome.name}: the solver {said} ({outcome.note or outcome.hint})")
    result.notes += [f"{name}: the solver was not asked" for name in unasked]
    result.notes += [f"required but missing: {name}" for name in missing]
    if agrees and not (unproved or unasked or missing):
        result.verdict, result.exit = PROVED, EXITS[PROVED]
    _optimal(result, plan, {outcome.name for outcome in outcomes if outcome.verdict == PROVED})
    if plan.world_size > 1:
        result.notes.append(
            f"rank {plan.rank} of {plan.world_size}: whether ranks fit together, all plans at once show"
        )
    if plan.layout in SCATTERED:
        result.notes.append(f"layout {plan.layout}: addresses are no offsets, so the plan does not conform to 001 II.F")
    result.notes += [
        f"slot count == max live is not claimed for arena {arena.name}"
        for arena, usage in zip(plan.arenas, plan.usage, strict=True)
        if usage.slots and not usage.minimal
    ]


def _record_kernel_result(result: Verdict) -> bool:
    """Whether the kernel, where it is installed, accepts the plan; its answer and reason go into the verdict."""
    answer, reason = result.kernel["answer"], result.kernel.get("reason", "")
    if answer == NOT_INSTALLED:
        return True
    accepted = bool(answer == "accepted")
    result.obligations.append({"name": "kernel", "verdict": PROVED if accepted else UNKNOWN, "detail": reason})
    if answer == "rejected":
        result.notes.append(
            f"CHECKERS DISAGREE: the kernel rejects it ({reason}) where the naive checker finds nothing"
        )
    elif not accepted:
        result.notes.append(f"the kernel gave no answer: {reason}")
    return accepted


def _optimal(result: Verdict, plan: Plan, proved: set[str]) -> None:
    """No placement needs fewer bytes than are live at one step: a footprint of just these is the least. spec: V5.6"""
    if not {"capacity", "peak"} <= proved:
        return
    for arena, usage in zip(plan.arenas, plan.usage, strict=True):
        if usage.slots and usage.footprint == usage.peak_live_bytes:
            result.claims[arena.name]["footprint_is_optimal"] = "proved"


def _holds(requirement: str, plan: Plan, options: Options, result: Verdict) -> bool:
    if requirement == "model":
        return options.model is not None
    if requirement == "ranks":  # whether all of them are there says the verdict on them together
        return bool(plan.shard_spec)
    if requirement == "kernel":
        return bool(result.kernel["answer"] == "accepted")
    return all(usage.minimal for usage in plan.usage if usage.slots)
