"""The verdict on a plan set: its programs, each with its own verdict, in one memory, after every sequence of calls.

A set is the folder of a manifest, or the plans of a command line in which names are shared. A contradiction is REFUTED
with what differs, or with calls, step and bytes; a plan that is missing or not proved, and a row that a solver does not
discharge, is UNKNOWN. spec: PS4.1 to PS4.7, PS4.10
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from proofs.definition.violations import Discharge, Obligation, obligations_discharged
from proofs.proving.kernel.answer import NOT_ASKED, NOT_INSTALLED
from proofs.proving.kernel.program import PlanFile
from proofs.proving.kernel.sets import JudgedProgram
from proofs.readers.donation import unmatched_patterns
from proofs.sets.agreed import agree_by_names
from proofs.sets.contents import ComparedContents, compare_contents
from proofs.sets.kernel import ask_kernel
from proofs.sets.members import SetMember
from proofs.sets.rows import SetOutcome, prove_set
from proofs.sets.state import find_never_ready, find_state
from proofs.sets.violations import find_violations
from proofs.verify.checks import BufferSubject, Subject
from proofs.verify.conclusion import record_kernel_result
from proofs.verify.options import Disagreement, Options, SharedNames
from proofs.verify.verdict import EXECUTION, EXITS, NO_ROWS, PROVED, UNKNOWN, Verdict, refute, state_execution
from tmmu.core.flags import stem_of_plan
from tmmu.core.output import count_noun, list_names
from tmmu.plans import sets
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.sets import Agreement, PlanSet

OBLIGATIONS = obligations_discharged(Discharge.OF_SET)
"""The obligations that the verdict on a set lists."""
COMPARED = (
    Obligation.ONE_SET, Obligation.EVERY_PROGRAM, Obligation.STATE_IS_WRITTEN_FIRST,
    Obligation.CONTENTS_OF_SHARED_WEIGHTS, Obligation.EACH_PROGRAM,
)  # fmt: skip
"""Those that are compared, and not evaluated by a solver."""
ONE_AT_A_TIME = "programs run one at a time, and their steps one after another"
"""How the programs of a set are taken to run."""
OVERLAPPING_CALLS = "programs run one at a time, each call after all steps of the last, and in a call"
"""How the programs of a set are taken to run if steps of a plan may overlap. spec: PS4.7"""
NOTHING_ASSUMED: dict[str, Any] = {
    "execution": ONE_AT_A_TIME,
    **{key: {} for key in ("dims", "ranges", "steps", "shapes", "values", "defaults", "overwritten_inputs", "bases")},
    **{key: [] for key in ("donated", "believed_operators", "arenas", "devices", "rules")},
    "trusted_shapes": False, "stated_sizes": {}, "assumed_sizes": {},
}  # fmt: skip
"""The assumptions of a verdict that rests on no plan."""
AT_MOST = 20
"""Violations that are looked for."""


@dataclass(frozen=True)
class JudgedPlan:
    """A plan that may belong to a set: its file, what was read, and its verdict."""

    path: str
    stated: StatedPlan | StatedBuffers
    verdict: Verdict
    subject: Subject | BufferSubject | None = None
    """What was proved of it: with a model, the sharing that the model shows."""
    program_name: str = ""
    """Its name as a program, if that is not the stem of its file."""

    @property
    def program(self) -> str:
        """Its name in a set, if no other plan has it."""
        return self.program_name or stem_of_plan(self.path)

    @property
    def of_steps(self) -> Subject:
        """What was proved, or else the plan without a model. Raises `Disagreement` for lifetimes without accesses."""
        if isinstance(self.stated, StatedBuffers):
            raise Disagreement(f"{self.path}: the plan states lifetimes and no steps, and so no calls")
        if isinstance(self.subject, Subject):
            return self.subject
        return Subject(self.stated, donated=frozenset(self.verdict.assumptions["donated"]))

    def member(self, name: str) -> SetMember:
        """Return the plan as a program of a set. Raises `Disagreement` for lifetimes without accesses."""
        subject = self.of_steps
        stated = subject.stated
        digest, reading = stated.hashes["file_digest"], stated.reading
        exits, state = ({}, {}) if reading is None else (reading.exits, reading.state)
        return SetMember(name, self.path, stated.plan, subject.run, digest, exits, state)

    def judged_program(self) -> JudgedProgram:
        """Return what the kernel reads of the plan. Raises `Disagreement` for lifetimes without accesses."""
        subject = self.of_steps
        return JudgedProgram(subject.context, PlanFile.as_read(subject.stated))


def verdicts(
    plans: Sequence[JudgedPlan], manifests: Mapping[str, PlanSet], names: SharedNames, options: Options
) -> Iterator[Verdict]:
    """Yield the verdict on each set: that of each folder with a manifest, and that of all plans if names are shared.

    Plans of one agreement whose manifest is not given have a verdict as well, which is UNKNOWN: they are no set.
    """
    by_path = {plan.path: plan for plan in plans}
    covered = set[str]()
    for folder, manifest in manifests.items():
        paths = {name: sets.plan_path(folder, name) for name in manifest.agreement.programs}
        found = {name: by_path[path] for name, path in paths.items() if path in by_path}
        covered.update(paths.values())
        yield _of_manifest(folder, manifest, found, options)
    if names.shared:
        yield _of_names(plans, names, options)
        return
    orphans: dict[bytes, list[JudgedPlan]] = {}
    for plan in plans:
        stated = plan.stated.plan.membership if isinstance(plan.stated, StatedPlan) else None
        if stated is not None and plan.path not in covered:
            orphans.setdefault(stated.digest, []).append(plan)
    for group in orphans.values():
        if len(group) > 1:
            verdict = _empty(f"set of {list_names([plan.path for plan in group])}", group, {})
            _leave_open(verdict, {Obligation.ONE_SET: f"no {sets.MANIFEST} is given: give the folder of the set"})
            yield verdict


def misspelt(plans: Sequence[JudgedPlan], patterns: Sequence[str]) -> list[str]:
    """Return donated names, of a program `PROGRAM:NAME`, that are in none of the plans. spec: C1.6, PS4.9"""
    named = [(plan.program, name) for plan in plans for name in plan.verdict.assumptions.get("donated", ())]
    donated = {name for _, name in named} | {f"{program}:{name}" for program, name in named}
    return unmatched_patterns(patterns, donated) if plans else []


def _of_manifest(folder: str, manifest: PlanSet, found: Mapping[str, JudgedPlan], options: Options) -> Verdict:
    """Return the verdict on the set of a folder. spec: PS4.1, PS4.2"""
    verdict = _empty(folder, list(found.values()), _facts(manifest.agreement))
    missing = [name for name in manifest.agreement.programs if name not in found]
    if missing:
        _leave_open(verdict, {Obligation.EVERY_PROGRAM: f"no plan of {list_names(missing)}"})
        return verdict
    members = [plan.member(name) for name, plan in found.items()]
    _decide(verdict, members, manifest.agreement, manifest, list(found.values()), options)
    return verdict


def _of_names(plans: Sequence[JudgedPlan], names: SharedNames, options: Options) -> Verdict:
    """Return the verdict on plans in which names are shared. Raises `Disagreement`. spec: PS4.4"""
    programs: dict[str, JudgedPlan] = {}
    for plan in plans:
        stem = plan.program
        number = 2
        name = stem
        while name in programs:
            name, number = f"{stem}-{number}", number + 1
        programs[name] = plan
    members = [plan.member(name) for name, plan in programs.items()]
    try:
        agreement = agree_by_names(members, names.shared, names.initial)
    except ValueError as error:
        raise Disagreement(str(error)) from None
    verdict = _empty(f"set of {', '.join(plan.path for plan in plans)}", plans, _facts(agreement))
    _decide(verdict, members, agreement, None, plans, options)
    return verdict


def _facts(agreement: Agreement) -> dict[str, Any]:
    """Return the assumptions about the set itself: programs, shared and initial tensors, and the order of calls."""
    return {
        "programs": list(agreement.programs),
        "shared": [
            {
                "name": one.name, "arena": one.arena, "offset": one.offset, "bytes": one.bytes, "dtype": one.dtype,
                "initial": one.is_initial, "uses": {program: use._asdict() for program, use in one.uses.items()},
            }
            for one in agreement.shared
        ],
        "initial": [one.name for one in agreement.shared if one.is_initial],
        "called_before": {},
    }  # fmt: skip


def _empty(name: str, plans: Sequence[JudgedPlan], facts: dict[str, Any]) -> Verdict:
    """Return a verdict that is open, with the assumptions of all its plans."""
    first: dict[str, Any] = dict(NOTHING_ASSUMED)
    for plan in plans:
        for key, value in plan.verdict.assumptions.items():
            mine = first.get(key)
            if isinstance(value, dict) and isinstance(mine, dict) and key != "overwritten_inputs":
                first[key] = mine | value
            elif isinstance(value, list) and isinstance(mine, list):
                first[key] = mine + [each for each in value if each not in mine]
        first["trusted_shapes"] |= plan.verdict.assumptions["trusted_shapes"]
    stated = [state_execution(plan.stated.plan) for plan in plans if isinstance(plan.stated, StatedPlan)]
    execution = max(stated, key=len, default=EXECUTION)  # a longer one assumes more
    if execution != EXECUTION:
        first["execution"] = f"{OVERLAPPING_CALLS} {execution}"
    scope = f"as a set of {count_noun(len(facts.get('programs', plans)), 'program')}, called in any order"
    return Verdict(name, UNKNOWN, EXITS[UNKNOWN], scope, assumptions=first | facts)


def _leave_open(verdict: Verdict, reasons: Mapping[Obligation, str]) -> None:
    """Leave obligations open, and with them all others."""
    verdict.obligations = [
        {"name": name, "verdict": UNKNOWN, "detail": reasons.get(name, "not reached")} for name in OBLIGATIONS
    ]
    verdict.notes = [f"{name}: {text}" for name, text in reasons.items()]


def _decide(
    verdict: Verdict,
    members: Sequence[SetMember],
    agreement: Agreement,
    manifest: PlanSet | None,
    plans: Sequence[JudgedPlan],
    options: Options,
) -> None:
    """Refute the set if anything false is found; else let solvers prove it, and conclude."""
    found = list(islice(find_violations(members, agreement, manifest), AT_MOST))
    contents = ComparedContents([])
    if not found:
        models = {member.name: plan.verdict.model for member, plan in zip(members, plans, strict=True)}
        contents = compare_contents(members, agreement, models)
        found = [difference.violation() for difference in contents.differing[:AT_MOST]]
    if found:
        refute(verdict, found, OBLIGATIONS)
        return
    state = find_state(members, agreement)
    _, before = find_never_ready(state, [member.name for member in members])
    verdict.assumptions["called_before"] = before
    outcomes = {
        solver: prove_set(members, agreement, state, solver, options.solving.timeout)
        for solver in options.solving.solvers
    }
    reasons: dict[Obligation, str] = {}
    for solver, outcome in outcomes.items():
        for name, reason in outcome.open.items():
            reasons.setdefault(name, f"{solver}: {reason}")
    envelopes = [member.plan.envelope for member in members if member.plan.envelope is not None]
    if any(envelope.symbolic for envelope in envelopes):
        reasons[Obligation.SHARED_AT_ONE_PLACE] = "the offsets of a symbolic plan follow from the shape"
    unproved = [plan for plan in plans if plan.verdict.verdict != PROVED]
    if unproved:
        reasons[Obligation.EACH_PROGRAM] = f"{unproved[0].path} is {unproved[0].verdict.verdict}"
        verdict.kernel = {"answer": NOT_ASKED, "reason": reasons[Obligation.EACH_PROGRAM]}
    else:
        verdict.kernel = ask_kernel(members, state, [plan.judged_program() for plan in plans], options.solving.timeout)
    skipped: dict[Obligation, str] = {}
    if contents.unknown or not contents.agreeing:
        skipped[Obligation.CONTENTS_OF_SHARED_WEIGHTS] = contents.unknown or NO_ROWS
    _conclude(verdict, outcomes, reasons, skipped)


def _conclude(
    verdict: Verdict, outcomes: Mapping[str, SetOutcome], reasons: Mapping[Obligation, str],
    skipped: Mapping[Obligation, str],
) -> None:  # fmt: skip
    """List each obligation with its rows; PROVED if none is open. Nothing without a row is called proved.

    If the kernel is installed, it must accept the set. Obligations in `skipped` were not looked at, for the reason that
    it has. spec: V6.1, V6.24, PS4.10
    """
    first = next(iter(outcomes.values()))
    for name in (name for name in OBLIGATIONS if name not in skipped):
        answer = UNKNOWN if name in reasons else PROVED
        entry: dict[str, Any] = {"name": name, "verdict": answer, "detail": reasons.get(name, "")}
        if name in COMPARED:
            entry["detail"] = entry["detail"] or "by comparison"
        else:
            entry["rows"] = first.rows.get(name, 0)
            entry["solvers"] = {solver: UNKNOWN if name in one.open else PROVED for solver, one in outcomes.items()}
        verdict.obligations.append(entry)
    holding = [entry for entry in verdict.obligations if entry["verdict"] == PROVED]
    verdict.compared = [entry["name"] for entry in holding if entry["name"] in COMPARED]
    verdict.proved = [entry["name"] for entry in holding if entry.get("rows")]
    verdict.not_looked_at = {entry["name"]: NO_ROWS for entry in holding if entry.get("rows") == 0}
    verdict.not_looked_at.update((name.value, why) for name, why in skipped.items())
    verdict.notes = [f"{name}: {text}" for name, text in reasons.items()]
    agrees = record_kernel_result(verdict)
    if verdict.kernel["answer"] == "accepted":
        verdict.proved.append("kernel")
    elif verdict.kernel["answer"] in (NOT_INSTALLED, NOT_ASKED):
        verdict.not_looked_at["kernel"] = verdict.kernel.get("reason", verdict.kernel["answer"])
    if agrees and not reasons:
        verdict.verdict, verdict.exit = PROVED, EXITS[PROVED]
