"""From a plan file to a verdict: gate, hashes, model, naive checker, solver, kernel; and what their answers mean.

A confirmed witness is REFUTED whatever the solver answers. PROVED needs everything at once: every hash recomputes, the
steps are the model's if one is given, the naive checker finds nothing, and every obligation is discharged by the
solver with its vacuity check, and, if the kernel is installed, its checker accepts the plan. Anything in between is
UNKNOWN. spec: V4.1, V4.2, V4.4, V4.5, V4.6, V5.2, V5.3, V5.4, V5.5, V6.1, A2.6
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proofs.definition.checker.inputs import InputFate
from proofs.definition.violations import Obligation, Violation
from proofs.proving import obligations
from proofs.proving.kernel import installed
from proofs.proving.kernel.answer import NOT_ASKED
from proofs.proving.obligations import Outcome
from proofs.readers import arms, donation
from proofs.readers.plans import formats as plan_formats
from proofs.verify.checks import BufferSubject, Subject, buffer_violations, violations
from proofs.verify.conclusion import claims_of, conclude
from proofs.verify.forked import Forked
from proofs.verify.options import (
    DEFAULTS,
    Disagreement,
    Options,
    bindings_for,
    check_agreement,
    check_buffers,
    mode_of,
    ranges_text,
)
from proofs.verify.sources import ANEW, Answers, ModelInMemory, Sources
from proofs.verify.verdict import (
    COMPUTED,
    EXITS,
    NOTHING_KNOWN,
    PROVED,
    UNKNOWN,
    Verdict,
    obligations_of,
    refute,
    state_execution,
)
from tmmu.core.bindings import bindings_object
from tmmu.core.errors import TmmuError
from tmmu.core.process import note_unexpected
from tmmu.core.progress import Doing, report_nothing
from tmmu.core.vocabulary import Bindings, Model, RuntimeGraph
from tmmu.plans.claims import claims_object
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.sections import BufferPlan, Plan

if TYPE_CHECKING:  # a plan that is judged without a model needs none of it
    from proofs.sharding.stages import RankModel

AT_MOST = 100
"""Violations that are looked for."""


def verify(path: str, options: Options = DEFAULTS, progress: Doing = report_nothing) -> Verdict:
    """The verdict on one plan file; the file is read once.

    Raises TmmuError if the bytes are not a plan or the model cannot be read (exit 4), `Disagreement` for a binding
    that is not the plan's (exit 2). The solver runs in a child process: its death is UNKNOWN.
    """
    progress("reading")
    return judge(path, open_plan(path, options), options, progress)


def open_plan(path: str, options: Options = DEFAULTS) -> StatedPlan | StatedBuffers:
    """Read a plan file, ours or another producer's, once. What an earlier run has written of a file of this name is
    removed first, as it may be of other bytes. Raises `TmmuError` and `OSError` if it is not a plan or cannot be read,
    `Disagreement` for a capacity that the file states itself.
    """
    _clear_folders(path, options)
    try:
        return plan_formats.load_any(path, options.capacity, options.bindings.dims)
    except ValueError as error:
        raise Disagreement(str(error)) from error


def open_programs(path: str, options: Options = DEFAULTS) -> Mapping[str, StatedPlan | StatedBuffers]:
    """Read the programs of a file, by the names that their verdicts have: `path` if it has one, else `path:PROGRAM`.

    Raises as `open_plan`, and `Disagreement` for `--coq` with several programs. spec: FP1.19
    """
    _clear_folders(path, options)
    try:
        programs = plan_formats.load_programs(path, options.capacity, options.bindings.dims)
    except ValueError as error:
        raise Disagreement(str(error)) from error
    if len(programs) > 1 and options.folders.coq is not None:
        raise Disagreement("--coq: give a file with one program: its file is DIR/Plan.v")
    found = {name_of_program(path, name): stated for name, stated in programs.items()}
    for name in found:
        _clear_folders(name, options)
    return found


def name_of_program(path: str, program: str) -> str:
    """Return the name of a program of a file in verdicts.

    >>> name_of_program("m.pte", "decode"), name_of_program("m.pte", "")
    ('m.pte:decode', 'm.pte')
    """
    return f"{path}:{program}" if program else path


def _clear_folders(name: str, options: Options) -> None:
    """Remove what an earlier run has written of a plan of this name."""
    if options.folders.smt2 is not None:
        from proofs.verify import export as smtlib

        smtlib.clear(smtlib.folder_of(options.folders.smt2, name))
    if options.folders.coq is not None:
        from proofs.proving.kernel import coq_file

        coq_file.remove_coq_file(options.folders.coq)


def judge(
    path: str,
    stated: StatedPlan | StatedBuffers,
    options: Options = DEFAULTS,
    progress: Doing = report_nothing,
    sources: Sources = ANEW,
) -> Verdict:
    """Return the verdict on a plan that was read from `path`, which is not opened again. Raises as `verify` does.

    `sources` give what other verdicts need as well, and the model that is in no file (`judge_against`).
    """
    if isinstance(stated, StatedBuffers):
        return _judge_buffers(path, stated, options, progress, sources)
    plan = stated.plan
    check_agreement(plan, options)
    scope = "against the model" if options.model is not None else "for the steps it states"
    result = Verdict(path, UNKNOWN, EXITS[UNKNOWN], scope, model=options.model, reading=_reading(stated))
    # From here on names, those that this plan has: a rank has what its stage touches.
    # Tensors that the file states as donated count as well (spec: FP1.10), by name: it has no patterns.
    stated_donated = frozenset(() if stated.reading is None else stated.reading.donated)
    donated = donation.donated_names(plan, options.bindings.donated) | stated_donated
    asked = replace(options.bindings, donated=tuple(sorted(donated)))
    mode, origin = mode_of(plan, options.mode), plan.provenance
    result.assumptions = _assumptions(plan, bindings_for(plan, asked), asked, options.arenas)
    result.claims = claims_of(plan)
    if options.model is not None:
        result.assumptions["mode"] = mode
    if options.workspace is not None:
        needs = (*options.workspace.operators, *options.workspace.nodes)
        result.assumptions["workspace"] = {name: list(need) for name, need in needs}
    if plan.envelope is not None and plan.envelope.symbolic:
        result.assumptions["symbolic"] = True
    if origin is not None and origin.shard_spec:
        result.assumptions["rank"], result.assumptions["world_size"] = origin.rank, origin.world_size
    try:
        model = None if options.model is None else _model(plan, options, asked, mode, sources)
    except TmmuError as error:
        refute(result, [_not_of_model(plan, error)], obligations_of(plan, options), plan)
        return result
    subject = Subject(stated, model, donated, mode, options.arenas, options.fixed)
    names = plan.allocation.tensors.name
    result.assumptions["overwritten_inputs"] = {names[x]: names[by] for x, by in subject.fate.overwritten.items()}
    result.assumptions["believed_operators"] = _assumed_operators(subject)
    result.assumptions["stated_sizes"] = {} if model is None else dict(model.reference.bindings.stated)
    result.assumptions["assumed_sizes"] = {} if model is None else model.reference.assumed_sizes
    _decide(result, subject, violations(subject), options, progress, sources)
    return result


def judge_against(name: str, stated: StatedPlan | StatedBuffers, model: Model, options: Options) -> Verdict:
    """Return what `verify-plan` answers of a plan against a model that is in memory, and in no file.

    The model is read like that of an IR file, and the verdict names it by its name. Raises as `judge`.
    """
    return judge(name, stated, replace(options, model=f"{model.name}.ir.cbor"), sources=ModelInMemory(model))


def _judge_buffers(path: str, stated: StatedBuffers, options: Options, progress: Doing, sources: Sources) -> Verdict:
    """Return the verdict on lifetimes without accesses: only storages are checked. spec: P2.6"""
    check_buffers(stated.plan, options)
    scope = "for the lifetimes it states"
    result = Verdict(path, UNKNOWN, EXITS[UNKNOWN], scope, reading=_reading(stated))
    result.assumptions = _assumptions(stated.plan, Bindings(), options.bindings, options.arenas)
    result.claims = claims_of(stated.plan)
    subject = BufferSubject(stated, options.arenas, options.fixed)
    _decide(result, subject, buffer_violations(subject), options, progress, sources)
    return result


def _reading(stated: StatedPlan | StatedBuffers) -> dict[str, Any] | None:
    """Return how the plan of another producer was read, in the fields of the JSON output. spec: FP1.4"""
    return None if stated.reading is None else asdict(stated.reading)


def _decide(
    result: Verdict, subject: Subject | BufferSubject, found: Iterator[Violation], options: Options, progress: Doing,
    sources: Sources,
) -> None:  # fmt: skip
    """Refute the plan where anything false is found; else ask solvers and kernel, and conclude.

    Of a large plan solvers are asked meanwhile. What they answer, or raise, of a plan that is refuted counts nothing.
    """
    stated = subject.stated
    progress("checking")
    with Forked(lambda: list(islice(found, AT_MOST)), is_forked=obligations.is_large(stated.plan.placement)) as checked:

        def go_on() -> None:
            if checked.is_known and checked.result():
                raise _Refuted

        def doing(phase: str, done: int = 0, total: int = 0) -> None:
            go_on()
            progress(phase, done, total)

        try:
            go_on()
            answers = sources.answers(subject, options.solving, doing)
        except Exception as error:
            if not checked.result():
                raise
            if not isinstance(error, (_Refuted, TmmuError, OSError)):
                note_unexpected(error)
        if first := checked.result():
            refute(result, first, obligations_of(stated.plan, options, _fate(subject)), stated.plan)
            return
    _conclude(result, subject, answers, options)


def _fate(subject: Subject | BufferSubject) -> InputFate:
    """Return what becomes of the inputs; lifetimes without accesses state no inputs."""
    return subject.fate if isinstance(subject, Subject) else NOTHING_KNOWN


class _Refuted(Exception):
    """There is a witness, so that solvers need not be asked any further."""


def _conclude(result: Verdict, subject: Subject | BufferSubject, answers: Answers, options: Options) -> None:
    """Conclude from what solvers and kernel have answered, and write the files that are asked for."""
    stated, digest = subject.stated, subject.stated.hashes["file_digest"]
    result.kernel, outcomes = dict(answers.kernel), answers.outcomes
    if isinstance(subject, Subject) and subject.plan.envelope is not None and result.kernel["answer"] == "accepted":
        is_fixed = subject.model is not None or not _has_windows(subject)
        result.kernel["every_shape"] = is_fixed and not subject.plan.allocation.streams
    conclude(result, stated.plan, outcomes, options, _fate(subject))
    if stated.is_text or stated.reading is not None:
        _of_text(result, isinstance(stated, StatedPlan))
    if stated.reading is not None:
        result.not_looked_at |= stated.reading.outside
    if isinstance(subject, BufferSubject):
        return
    if (into := options.folders.smt2) is not None:
        _export(result, subject, outcomes, into, options.solving.definition_limit)
    into = options.folders.coq
    if into is not None and subject.plan.allocation.streams:
        result.notes.append(f"{into} is not written: its theorem is about steps that run one after another")
    elif into is not None and result.kernel["answer"] != NOT_ASKED:
        from proofs.proving.kernel import coq_file

        theory = installed.find_theory()
        if theory is not None:
            is_translated = stated.is_text or stated.reading is not None
            coq_file.write_coq_file(into, result.file, subject.context, digest, theory, is_translated=is_translated)


def _has_windows(subject: Subject) -> bool:
    """Return whether a view shows a part of its base at some shape. A model states the byte at which it begins.

    spec: V6.13, V6.14
    """
    size = subject.plan.sizes()
    return any(shift or size[view] != size[base] for view, (base, shift) in subject.permissions.views.items())


def _of_text(result: Verdict, has_steps: bool) -> None:
    """Mark values that a text does not state as not compared, with the values computed instead. spec: X1.6"""
    result.obligations = [entry for entry in result.obligations if entry["name"] != Obligation.HASHES]
    result.compared = [name for name in result.compared if name != Obligation.HASHES]
    result.not_looked_at[Obligation.HASHES] = "a text states none" if result.reading is None else "the file states none"
    if has_steps:
        result.notes.append(COMPUTED)


def _export(result: Verdict, subject: Subject, outcomes: Sequence[Outcome], into: str, definition_limit: int) -> None:
    """Write what was discharged as SMT-LIB `into` a folder. A status is stated only if a solver has confirmed it.

    spec: C4.3
    """
    from proofs.proving.lemmas import export
    from proofs.proving.lemmas import plan as rests_on
    from proofs.proving.lemmas.plan import bases, cover, hulls, merged, shrinking
    from proofs.verify import export as smtlib

    if any(outcome.verdict != PROVED for outcome in outcomes):
        result.notes.append(f"nothing is written to {into}: not every obligation is discharged")
        return
    folder = smtlib.folder_of(into, result.file)
    smtlib.write_plan(folder, subject.context, definition_limit)
    of_sizes = shrinking.STATEMENTS if subject.plan.envelope is not None else ()
    of_ranks = cover.STATEMENTS if subject.plan.shards is not None else ()
    of_all = (*merged.STATEMENTS, *bases.STATEMENTS, *hulls.STATEMENTS)
    names = [lemma.name for lemma in (*rests_on.LISTS, *of_all, *of_sizes, *of_ranks)]
    export.write_lemmas(Path(into) / smtlib.LEMMAS, names)


def _model(plan: Plan, options: Options, asked: Bindings, mode: str, sources: Sources) -> RankModel:
    """Return what the plan's rank must run of the model; of a plan without a shard spec that is the model.

    The model is bound like the plan, except for the values that only the user states.
    """
    from proofs.readers.models.recomputation import add_recomputation
    from proofs.readers.models.workspace import add_workspace
    from proofs.sharding.stages import RankModel

    bound, origin, path = bindings_for(plan, asked), plan.provenance, options.model
    assert path is not None  # the caller has checked this
    trusted = replace(
        bound, shapes={**bound.shapes, **asked.shapes}, defaults={}, donated=(), trust_shapes=asked.trust_shapes,
        stated=asked.stated,
    )  # fmt: skip
    try:
        whole = add_recomputation(sources.model(path, trusted, mode), plan, mode)
        if options.workspace is not None:
            whole = add_workspace(whole, options.workspace)
        if origin is None or not origin.shard_spec:
            return RankModel(whole, {})
        return sources.of_rank(whole, origin.shard_spec, origin.rank)
    except TmmuError as error:
        error.in_file(path)
        raise


def _not_of_model(plan: Plan, error: TmmuError) -> Violation:
    """Return how a plan with provenance differs from a model that its bindings, or shard spec, do not fit.

    Raises the error itself if it concerns only the model.
    """
    from proofs.definition.model.difference import difference

    origin = plan.provenance
    if origin is not None and error.code_id == "INVALID_SHARDING":
        stated = f"rank {origin.rank} of {origin.world_size}"
        return difference("sharding", "", (), None, stated, f"{error.place}: {error.what}")
    if origin is not None and error.code_id == "INVALID_BINDING":
        bound = {**origin.bindings.dims, **ranges_text(plan), **origin.bindings.shapes, **origin.bindings.values}
        stated = ", ".join(f"{name}={value}" for name, value in bound.items())
        return difference("binding", "", (), None, stated, f"other inputs: {error.what}")
    raise error


def _assumptions(
    plan: Plan | BufferPlan, bound: Bindings, asked: Bindings, arenas: Configuration | None
) -> dict[str, Any]:
    """Return what a verdict assumes: bindings, what the user gives up, whether stated shapes are used, and arenas."""
    bindings = bindings_object(bound)
    return {
        **{key: bindings.get(key, {}) for key in ("dims", "ranges", "steps", "shapes", "values", "defaults")},
        "execution": state_execution(plan),
        "donated": sorted(asked.donated),
        "trusted_shapes": asked.trust_shapes,
        "believed_operators": [],
        "stated_sizes": {},
        "assumed_sizes": {},
        "overwritten_inputs": {},
        "bases": plan.placement.needed_base_alignments(),
        **({} if bound.runtime is None else {"runtime": _runtime(plan, bound.runtime)}),
        **(_configuration(plan) if arenas is None else {"arenas": [], "devices": [], "rules": []}),
    }


def _runtime(plan: Plan | BufferPlan, made: RuntimeGraph) -> dict[str, Any]:
    """Return the graph of a runtime that a plan is of, with the digest of the model's own file. spec: V3.13"""
    origin = plan.provenance if isinstance(plan, Plan) else None
    source = None if origin is None or origin.source_digest is None else origin.source_digest.hex()
    return {**asdict(made), "source_digest": source}


def _configuration(plan: Plan | BufferPlan) -> dict[str, Any]:
    """Return a plan's statements on arenas, devices and rules, without a configuration to compare. spec: V5.3"""
    arenas = [asdict(arena) for arena in plan.placement.arenas]
    claimed = claims_object(plan.claims).get("configuration") if plan.claims is not None else None
    if claimed is None:
        return {"arenas": arenas, "devices": [], "rules": []}
    arenas = [arena | use for arena, use in zip(arenas, claimed["arenas"], strict=True)]
    return {"arenas": arenas, "devices": claimed["devices"], "rules": claimed["rules"]}


def _assumed_operators(subject: Subject) -> list[str]:
    """Return the assumptions on operators that the checker's tables do not have. spec: V2.2"""
    model = subject.model
    repeated = sorted(f"{op} gives the same values again" for op in (() if model is None else model.reference.repeated))
    sharded = () if model is None else sorted(model.assumed)
    return [*subject.permissions.assumed, *repeated, *arms.exclusivity_assumptions(subject.plan.allocation), *sharded]
