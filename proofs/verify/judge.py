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
from proofs.checker.program import Program, placed_storages, program
from proofs.kernel import coq_file, installed
from proofs.kernel.opinion import NOT_ASKED, NOT_INSTALLED, opinion
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
    OBLIGATIONS,
    OF_SHARDED,
    PROVED,
    UNKNOWN,
    Verdict,
    Wrong,
    absent,
    entry_of,
    listed,
    refute,
)
from tmmu.core import kind
from tmmu.core.bindings import bindings_object
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings
from tmmu.plan import file
from tmmu.plan.gate import Stated, StatedBuffers
from tmmu.plan.sections import BufferPlan, Plan, Usage

REQUIRABLE = ("model", "slot-count", "ranks", "kernel", "provenance", "claims", "accesses")
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


def opened(path: str, options: Options = Options()) -> Stated | StatedBuffers:
    """Read a plan file, once. What an earlier run has written of a file of this name is removed first: it is no word on
    the file as it is now. Raises `TmmuError` and `OSError` where it is no plan or cannot be read.
    """
    if options.smt2 is not None:
        from proofs.verify import export as smtlib

        smtlib.clear(smtlib.folder_of(options.smt2, path))
    if options.coq is not None:
        coq_file.clear(options.coq)
    return file.load_any(path)


def judge(
    path: str,
    stated: Stated | StatedBuffers,
    options: Options = Options(),
    progress: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """The verdict on a plan that was read from `path`, which is not opened again. Raises as `verify` does."""
    if isinstance(stated, StatedBuffers):
        return _judge_buffers(path, stated, options, progress)
    plan = stated.plan
    _agree(plan, options)
    scope = "against the model" if options.model is not None else "for the steps it states"
    result = Verdict(path, UNKNOWN, EXITS[UNKNOWN], scope, model=options.model)
    # From here on names, those that this plan has: a rank has what its stage touches.
    options = replace(options, donated=donation.given_up(plan, options.donated))
    origin = plan.provenance
    result.assumptions = _assumptions(_bound(plan, options), options)
    result.claims = _claims(plan)
    if origin is not None and origin.shard_spec:
        result.assumptions["rank"], result.assumptions["world_size"] = origin.rank, origin.world_size
    try:
        sharded = _expected(plan, options)
        expected = None if sharded is None else sharded.expected
    except TmmuError as error:
        if error.code_id == "INVALID_SHARDING" and origin is not None:
            stated_as = f"rank {origin.rank} of {origin.world_size}"
            place = f"{error.place}: {error.what}"
            refute(result, plan, [compare.Difference("sharding", "", (), None, stated_as, place)])
            return result
        if error.code_id != "INVALID_BINDING" or origin is None:
            raise
        # The bindings are the plan's own: a model that they do not fit is not the one that was planned.
        bound = {**origin.bindings.dims, **_ranges(plan), **origin.bindings.shapes, **origin.bindings.values}
        stated_as = ", ".join(f"{name}={value}" for name, value in bound.items())
        refute(result, plan, [compare.Difference("binding", "", (), None, stated_as, error.what)])
        return result
    permissions = permitted(plan, expected, options.donated)
    run = program(plan, permissions, options.donated)
    repeated = sorted(f"{op} gives the same values again" for op in (expected.repeated if expected is not None else ()))
    result.assumptions["believed_operators"] = [*permissions.believed, *repeated, *arms.assumed(plan.allocation)]
    if sharded is not None:
        result.assumptions["believed_operators"] += sorted(sharded.believed)
    progress("checking")
    found = list(islice(_false(stated, plan, run, sharded, options), 100))
    if found:
        refute(result, plan, found)
        return result
    outcomes = _proved(result, stated, permissions, options, progress)
    if options.smt2 is not None:
        _export(result, plan, permissions, outcomes, options)
    theory = installed.theory()
    if options.coq is not None and theory is not None and result.kernel["answer"] != NOT_ASKED:
        digest = stated.hashes["file_digest"]
        coq_file.write(options.coq, path, plan, permissions, options.donated, digest, theory)
    return result


def _judge_buffers(path: str, stated: StatedBuffers, options: Options, progress: Callable[[str], None]) -> Verdict:
    """The verdict on lifetimes without accesses: storages alone are looked at. spec: P2.6"""
    for flag, given in (("--model", options.model), ("--donate", options.donated), ("--mode", options.mode)):
        if given:
            raise Disagreement(f"{flag}: the plan states lifetimes and no steps, which this speaks of")
    plan = stated.plan
    result = Verdict(path, UNKNOWN, EXITS[UNKNOWN], "for the lifetimes it states")
    result.assumptions, result.claims = _assumptions(Bindings(), options), _claims(plan)
    progress("checking")
    found = list(islice(_false_of_buffers(stated), 100))
    if found:
        refute(result, plan, found)
    else:
        _proved(result, stated, None, options, progress)
    return result


def _proved(
    result: Verdict,
    stated: Stated | StatedBuffers,
    permissions: Permissions | None,
    options: Options,
    progress: Callable[[str], None],
) -> Sequence[obligations.Outcome]:
    """Ask solvers and kernel, and conclude."""
    progress("proving")
    outcomes = obligations.prove_with(
        options.solvers,
        stated.plan,
        permissions,
        timeout_s=options.timeout,
        workers=options.workers,
        definition_limit=options.definition_limit,
        donated=options.donated,
    )
    progress("asking the kernel")
    result.kernel = opinion(stated, permissions, options.donated, options.timeout)
    _conclude(result, stated.plan, outcomes, options)
    if stated.is_text:
        _of_text(result, isinstance(stated, Stated))
    return outcomes


def _of_text(result: Verdict, has_steps: bool) -> None:
    """What a text does not state is not compared, and the verdict says what was worked out instead. spec: X1.6"""
    result.obligations = [entry for entry in result.obligations if entry["name"] != "hashes"]
    result.compared = [name for name in result.compared if name != "hashes"]
    result.not_looked_at["hashes"] = "a text states none"
    if has_steps:
        result.notes.append("lifetimes and storages were computed from the steps and from what shares with what")


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
    of_ranks = cover.STATEMENTS if plan.shards is not None else ()
    names = [lemma.name for lemma in (*rests_on.LISTS, *of_sizes, *of_ranks)]
    export.write_lemmas(Path(options.smt2) / smtlib.LEMMAS, names)


def _expected(plan: Plan, options: Options) -> RankModel | None:
    """What the plan's rank must run of the model; of a plan without a shard spec that is the model."""
    if options.model is None:
        return None
    bindings, origin = _bound(plan, options), plan.provenance
    given = bindings.dims, bindings.shapes, bindings.values
    trusted = Bindings(*given, {}, (), options.trust_shapes, bindings.ranges)
    try:
        mode = _mode(plan, options)
        whole = with_recomputation(in_mode(read_model(options.model, trusted), mode), plan, mode)
        if origin is None or not origin.shard_spec:
            return RankModel(whole, {})
        return of_rank(whole, origin.shard_spec, origin.rank)
    except TmmuError as error:
        error.in_file(options.model)
        raise


def _mode(plan: Plan, options: Options) -> str:
    """What is run of the model: by the plan's provenance, else by the user."""
    return plan.provenance.mode if plan.provenance is not None else options.mode or "inference"


def _bound(plan: Plan, options: Options) -> Bindings:
    """What shapes are bound with: by the plan's provenance, else by the user."""
    if plan.provenance is not None:
        return plan.bindings
    return Bindings(
        options.dims, options.shapes, options.values, {}, (), options.trust_shapes, plan.ranges or options.ranges
    )


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
    origin = plan.provenance
    if origin is None or not origin.shard_spec:  # of a rank's plan, all plans that are given must be asked
        for name in donation.unfit(options.donated, donation.given_up(plan, options.donated)):
            raise Disagreement(f"--donate {name}: the plan has no graph input or parameter of this name")
    if origin is None:
        return
    bindings, stated_mode = origin.bindings, [("--mode", "", options.mode, origin.mode)] if options.mode else []
    given: list[tuple[str, str, Any, Any]] = [
        *(
            ("--dim", f" {name}", value, bindings.dims.get(name, _ranges(plan).get(name)))
            for name, value in options.dims.items()
        ),
        *(("--dim", f" {name}", _range(ends), _ranges(plan).get(name)) for name, ends in options.ranges.items()),
        *(("--shape", f" {name}", value, bindings.shapes.get(name)) for name, value in options.shapes.items()),
        *(("--value", f" {name}", value, bindings.values.get(name)) for name, value in options.values.items()),
        *stated_mode,
    ]
    for flag, name, value, planned in given:
        if value != planned:
            raise Disagreement(
                f"{flag}{name}={value}: the plan was made with {'nothing' if planned is None else planned}"
            )


def _ranges(plan: Plan) -> dict[str, str]:
    return {name: _range(ends) for name, ends in plan.ranges.items()}


def _range(ends: tuple[int, int]) -> str:
    return f"{ends[0]}..{ends[1]}"


def _assumptions(bound: Bindings, options: Options) -> dict[str, Any]:
    bindings = bindings_object(bound)
    return {
        **{key: bindings.get(key, {}) for key in ("dims", "ranges", "shapes", "values", "defaults")},
        "donated": sorted(options.donated),
        "trusted_shapes": options.trust_shapes,
        "believed_operators": [],
    }


def _claims(plan: Plan | BufferPlan) -> dict[str, Any]:
    """What is claimed of each arena of which anything is claimed, but for those that claim to be empty."""
    return {
        name: {
            **usage._asdict(),
            "slot_count": "minimal" if usage.minimal else "not claimed",
            "footprint_is_optimal": "not proved",
        }
        for name, usage in _usage(plan)
    }


def _usage(plan: Plan | BufferPlan) -> list[tuple[str, Usage]]:
    """The claims of each arena that is not claimed to be empty, with its name."""
    placement = plan.buffers if isinstance(plan, BufferPlan) else plan.allocation
    usage = () if plan.claims is None else zip(placement.arenas, plan.claims.usage, strict=True)
    return [(arena.name, used) for arena, used in usage if used.slots != 0 and used != Usage()]


def _false(stated: Stated, plan: Plan, run: Program, sharded: RankModel | None, options: Options) -> Iterator[Wrong]:
    """Everything false that the naive side finds, most telling first, lazily."""
    if sharded is not None:
        yield from compare.differences(plan, sharded.expected, options.donated, _mode(plan, options))
        yield from part_differences(plan, sharded)
    yield from envelope.problems(plan)
    yield from checker.problems(run)
    yield from structure.problems(plan, run)
    if plan.claims is not None:
        yield from claims.false_claims(plan.claims, run)
    if plan.shards is not None:
        yield from false_parts(plan)
    yield from _false_hashes(stated)


def _false_of_buffers(stated: StatedBuffers) -> Iterator[Wrong]:
    """The same of lifetimes without accesses."""
    plan = stated.plan
    run = placed_storages(plan.buffers, plan.claims)
    yield from checker.stored(run)
    yield from checker.overlapping(run)
    yield from structure.kept_apart(run)
    if plan.claims is not None:
        yield from structure.claimed(plan.claims, run, addressed=False)
        yield from claims.false_claims(plan.claims, run)
    yield from structure.never_reused(run)
    yield from _false_hashes(stated)


def _false_hashes(stated: Stated | StatedBuffers) -> Iterator[FalseField]:
    for name, old, new in file.false_hashes(stated):
        yield FalseField("hashes", name, old.hex(), new.hex())


def _conclude(
    result: Verdict, plan: Plan | BufferPlan, outcomes: Sequence[obligations.Outcome], options: Options
) -> None:
    """PROVED if the solver discharged everything and nothing required is missing; else UNKNOWN with the reason."""
    by_name = {outcome.name: outcome for outcome in outcomes}
    names = listed(plan, options.model is not None)
    unasked = [name for name in names if name not in (*by_name, *BY_COMPARISON, *OF_SHARDED)]
    for name in names:
        outcome = by_name.pop(name, None)
        if name in unasked:
            result.obligations.append({"name": name, "verdict": UNKNOWN, "detail": "the solver was not asked"})
        elif outcome is None:
            result.obligations.append({"name": name, "verdict": PROVED, "detail": "by comparison"})
        else:
            result.obligations.append(entry_of(outcome))
    # The lemmas, and the query straight from the definition; what has no occasion has no row.
    result.obligations += [entry_of(o) for o in by_name.values() if o.verdict != PROVED or o.name not in OBLIGATIONS]
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
    _sort(result, plan, options)
    _optimal(result, {outcome.name for outcome in outcomes if outcome.verdict == PROVED})
    result.notes += _remarks(plan)


def _sort(result: Verdict, plan: Plan | BufferPlan, options: Options) -> None:
    """Which obligations were proved, which compared, and what was not looked at. spec: P2.5"""
    holding = [entry for entry in result.obligations if entry["verdict"] == PROVED]
    compared = (*BY_COMPARISON, *OF_SHARDED)
    result.compared = [entry["name"] for entry in holding if entry["name"] in compared]
    result.proved = [entry["name"] for entry in holding if entry["name"] not in compared and entry.get("rows") != 0]
    result.not_looked_at = absent(plan, options.model is not None)
    result.not_looked_at |= {e["name"]: "it has no rows" for e in holding if e.get("rows") == 0}
    if isinstance(plan, BufferPlan) or plan.provenance is None:
        result.not_looked_at["provenance"] = "the plan states none"
    if plan.claims is None:
        result.not_looked_at["claims"] = "the plan states none"
    if result.kernel["answer"] in (NOT_INSTALLED, NOT_ASKED):
        result.not_looked_at["kernel"] = result.kernel.get("reason", result.kernel["answer"])


def _remarks(plan: Plan | BufferPlan) -> Iterator[str]:
    """What a reader of the verdict should know of the plan."""
    if isinstance(plan, Plan) and plan.provenance is not None:
        origin = plan.provenance
        if origin.world_size > 1:
            yield f"rank {origin.rank} of {origin.world_size}: whether ranks fit together, all plans at once show"
        if origin.layout in SCATTERED:
            yield f"layout {origin.layout}: addresses are no offsets, so the plan does not conform to 001 II.F"
    for name, usage in _usage(plan):
        if not usage.minimal:
            yield f"slot count == max live is not claimed for arena {name}"


def _record_kernel_result(result: Verdict) -> bool:
    """Whether the kernel, where it was asked, accepts the plan; its answer and reason go into the verdict."""
    answer, reason = result.kernel["answer"], result.kernel.get("reason", "")
    if answer in (NOT_INSTALLED, NOT_ASKED):
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


def _optimal(result: Verdict, proved: set[str]) -> None:
    """No placement needs fewer bytes than are live at one step: a footprint of just these is the least. spec: V5.6"""
    if not {"capacity", "peak"} <= proved:
        return
    for claimed in result.claims.values():
        if claimed["footprint"] is not None and claimed["footprint"] == claimed["peak_live_bytes"]:
            claimed["footprint_is_optimal"] = "proved"


def _holds(requirement: str, plan: Plan | BufferPlan, options: Options, result: Verdict) -> bool:
    if requirement == "slot-count":
        return _minimal(plan)
    has_steps = isinstance(plan, Plan)
    origin = plan.provenance if isinstance(plan, Plan) else None
    return {
        "model": options.model is not None,
        "ranks": origin is not None and bool(origin.shard_spec),  # the verdict on them together says if all are there
        "kernel": bool(result.kernel["answer"] == "accepted"),
        "provenance": origin is not None,
        "claims": plan.claims is not None,
        "accesses": has_steps,
    }[requirement]


def _minimal(plan: Plan | BufferPlan) -> bool:
    """Whether of every arena that holds a storage it is claimed that no fewer slots would do."""
    placement = plan.buffers if isinstance(plan, BufferPlan) else plan.allocation
    used = set(placement.storages.arena.tolist())
    return plan.claims is not None and all(plan.claims.usage[a].minimal for a in used)
