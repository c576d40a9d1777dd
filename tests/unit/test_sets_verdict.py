"""The verdict on a plan set: PROVED only as a whole, UNKNOWN without a part, REFUTED with what differs.

The kernel is asked for its answer where a test says so. spec: PS1.9, PS2.3, PS4.1, PS4.2, PS4.3, PS4.4, PS4.7, V6.1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proofs.definition.violations import Obligation
from proofs.readers.plans.formats import load_any
from proofs.sets import calls
from proofs.sets.agreed import agree_by_names
from proofs.sets.members import SetMember
from proofs.sets.rows import SetOutcome
from proofs.sets.violations import find_violations
from proofs.verify import entry, sets
from proofs.verify.checks import Subject
from proofs.verify.conclusion import claims_of
from proofs.verify.judge import judge
from proofs.verify.options import Disagreement, Options, SharedNames
from proofs.verify.sets import JudgedPlan
from proofs.verify.sources import RecordedSubject
from proofs.verify.verdict import OVERLAPPING, PROVED, REFUTED, UNKNOWN, Verdict, absent
from tests.support.set_models import cache_program, other_program, prepared
from tests.support.wrong_sets import ARENA, FILL, NEXT, OTHER, changed
from tmmu.core.vocabulary import Bindings
from tmmu.planner.sets.plan import PlannedSet, SetOptions, plan_programs
from tmmu.plans import file, text
from tmmu.plans import sets as files
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import Membership, Plan
from tmmu.plans.sets import PlanSet, SharedUse, plan_path

CORPUS = Path(__file__).parents[1] / "corpus/foreign/proved"
MADE = plan_programs(
    prepared(prefill=cache_program([64, 64]), decode=cache_program([8, 8])), SetOptions(("cache", "w")), "packed"
)


@pytest.fixture(autouse=True)
def _without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "ask_kernel", lambda *_: {"answer": "not installed"})


def judged(path: str, plan: Plan, verdict: str = PROVED) -> JudgedPlan:
    """A plan with a verdict that was given before."""
    stated = file.require_steps(file.decode(file.encode(plan)))
    assumed = sets.NOTHING_ASSUMED | {"donated": list(plan.bindings.donated)}
    return JudgedPlan(path, stated, Verdict(path, verdict, 0, "", assumptions=assumed, claims=claims_of(plan)))


def verdict_on(
    made: PlannedSet = MADE, plans: Mapping[str, Plan] | None = None, manifest: PlanSet | None = None, **given: Any
) -> Verdict:
    """The verdict on the set in a folder, in which some plans are others, or not there."""
    found = [judged(plan_path("session", name), plan, **given) for name, plan in (plans or made.plans).items()]
    manifests = {"session": manifest or made.plan_set}
    (verdict,) = sets.verdicts(found, manifests, SharedNames(), Options())
    return verdict


def said(verdict: Verdict) -> dict[str, str]:
    return {entry["name"]: entry["verdict"] for entry in verdict.obligations}


def test_a_whole_set_is_proved() -> None:
    verdict = verdict_on()
    assert (verdict.verdict, verdict.exit, verdict.line) == (
        PROVED, 0, "PROVED session as a set of 2 programs, called in any order",
    )  # fmt: skip
    assert set(said(verdict).values()) == {PROVED}
    assert verdict.proved == ["shared_at_one_place", "state_is_untouched", "state_is_returned"]
    assert verdict.compared == ["one_set", "every_program", "state_is_written_first", "each_program"]
    assert (verdict.assumptions["initial"], verdict.assumptions["called_before"]) == (["cache", "w"], {})
    assert verdict.assumptions["donated"] == ["cache"]


def test_without_a_plan_and_without_the_manifest_it_is_unknown() -> None:
    part = verdict_on(plans={"decode": MADE.plans["decode"]})
    assert (part.verdict, part.exit, part.notes) == (UNKNOWN, 3, ["every_program: no plan of prefill"])
    assert verdict_on(plans={}, made=replace(MADE, plans={})).verdict == UNKNOWN
    both = [judged(f"{name}.cbor", plan) for name, plan in MADE.plans.items()]
    (orphans,) = sets.verdicts(both, {}, SharedNames(), Options())
    assert (orphans.verdict, said(orphans)["one_set"]) == (UNKNOWN, UNKNOWN)
    assert list(sets.verdicts(both[:1], {}, SharedNames(), Options())) == []


def test_a_plan_that_is_not_proved_leaves_the_set_open() -> None:
    verdict = verdict_on(verdict=UNKNOWN)
    assert (verdict.verdict, said(verdict)["each_program"]) == (UNKNOWN, UNKNOWN)
    assert said(verdict)["state_is_untouched"] == PROVED
    assert verdict.not_looked_at["kernel"] == "session/prefill.cbor is UNKNOWN"


@pytest.mark.parametrize(
    ("answer", "verdict", "note"),
    [
        ({"answer": "accepted"}, PROVED, ""),
        (
            {"answer": "rejected", "reason": "arenas of program 0"},
            UNKNOWN,
            "CHECKERS DISAGREE: the kernel rejects it (a",
        ),
        (
            {"answer": "no_answer", "reason": "no answer within 1 s"},
            UNKNOWN,
            "the kernel gave no answer: no answer with",
        ),
        ({"answer": "not installed"}, PROVED, ""),
        ({"answer": "not asked", "reason": "because"}, PROVED, ""),
    ],
)
def test_a_kernel_that_is_asked_must_accept_the_set(
    answer: dict[str, str], verdict: str, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads each program from its file, in the order of the members. spec: V6.1, V6.24"""
    asked: list[tuple[str, bytes]] = []

    def ask(members: Any, state: Any, programs: Any, timeout_s: float) -> dict[str, str]:
        asked.extend((member.name, program.of.sha256) for member, program in zip(members, programs, strict=True))
        assert all(program.context.plan is member.plan for program, member in zip(programs, members, strict=True))
        return answer

    monkeypatch.setattr(sets, "ask_kernel", ask)
    found = verdict_on()
    assert [name for name, _ in asked] == list(MADE.plans)
    assert (found.verdict, found.kernel, [each[: len(note)] for each in found.notes]) == (
        verdict,
        answer,
        [note] * bool(note),
    )
    assert ("kernel" in found.proved) == (answer["answer"] == "accepted")
    assert found.not_looked_at.get("kernel") == {"not installed": "not installed", "not asked": "because"}.get(
        answer["answer"]
    )


@pytest.mark.parametrize("rows", [SetOutcome({}, {Obligation.STATE_IS_UNTOUCHED: "no answer"}), SetOutcome({})])
def test_what_a_solver_does_not_discharge_is_open_and_nothing_without_a_row_is_proved(
    rows: SetOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "prove_set", lambda *_: rows)
    verdict = verdict_on()
    assert verdict.verdict == (UNKNOWN if rows.open else PROVED)
    assert verdict.proved == []
    assert said(verdict)["state_is_untouched"] == (UNKNOWN if rows.open else PROVED)


def _smaller(manifest: PlanSet) -> PlanSet:
    arenas = tuple(arena._replace(bytes=1) for arena in manifest.agreement.arenas)
    return replace(manifest, agreement=replace(manifest.agreement, arenas=arenas, shared=()))


DECODE = MADE.plans["decode"]


@pytest.mark.parametrize(
    ("plan", "manifest", "field"),
    [
        (replace(DECODE, membership=None), MADE.plan_set, "set.digest"),
        (replace(DECODE, membership=Membership("decode", bytes(32))), MADE.plan_set, "set.digest"),
        (replace(DECODE, membership=MADE.plan_set.membership("prefill")), MADE.plan_set, "set.digest"),
        (DECODE, replace(MADE.plan_set, members={**MADE.plan_set.members, "decode": bytes(32)}), "file_digest"),
        (DECODE, _smaller(MADE.plan_set), "set.digest"),
    ],
)
def test_a_plan_of_another_set_is_refuted_with_both_values(plan: Plan, manifest: PlanSet, field: str) -> None:
    verdict = verdict_on(plans={**MADE.plans, "decode": plan}, manifest=manifest)
    assert verdict.witness is not None
    assert (verdict.verdict, verdict.witness["obligation"], verdict.witness["field"]) == (REFUTED, "one_set", field)
    assert verdict.witness["stated"] != verdict.witness["recomputed"]


def test_a_manifest_that_is_refused_is_the_error_and_not_a_donated_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its plans are programs, so that `PROGRAM:NAME` is of one of them. spec: PS2.4, PS4.9"""
    files.save(tmp_path, MADE.plan_set, {name: file.encode(plan) for name, plan in MADE.plans.items()})
    donated = ("--donate=prefill:cache", "--donate=decode:cache")
    assert entry.run([str(tmp_path), *donated, "-q"]) == 0
    manifest = tmp_path / "set.cbor"
    manifest.write_bytes(manifest.read_bytes()[:-1])
    capsys.readouterr()
    assert entry.run([str(tmp_path), *donated, "-q"]) == 4
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("UNKNOWN set of ")
    assert (str(manifest) in err, "--donate" in err) == (True, False)


def test_a_manifest_that_states_too_small_an_arena_is_refuted() -> None:
    small = _smaller(MADE.plan_set)
    plans = {name: replace(plan, membership=small.membership(name)) for name, plan in MADE.plans.items()}
    members = {name: file.compute_hashes(plan)["file_digest"] for name, plan in plans.items()}
    verdict = verdict_on(plans=plans, manifest=replace(small, members=members))
    assert verdict.witness is not None
    assert (verdict.verdict, verdict.witness["field"]) == (REFUTED, "arena parameters")


def test_an_activation_over_state_is_refuted_with_calls_and_bytes() -> None:
    """The same programs planned apart: what one of them computes is over what the other keeps."""
    alone = plan_programs(prepared(other=other_program([64, 64])), SetOptions(), "packed").plans["other"]
    plans = [judged("a.cbor", MADE.plans["prefill"]), judged("b.cbor", DECODE), judged("c.cbor", alone)]
    (verdict,) = sets.verdicts(plans, {}, SharedNames(("cache", "w"), ("cache",)), Options())
    assert verdict.witness is not None
    assert (verdict.verdict, verdict.witness["obligation"]) == (REFUTED, "state_is_untouched")
    assert verdict.witness["first_byte"] is not None
    assert "c" in verdict.witness["programs"]


def test_names_that_fit_nothing_and_plans_without_steps_are_errors_of_the_command_line() -> None:
    plans = [judged(f"{name}.cbor", plan) for name, plan in MADE.plans.items()]
    with pytest.raises(Disagreement, match="--shared kache"):
        list(sets.verdicts(plans, {}, SharedNames(("kache",)), Options()))
    lifetimes = file.pass_gate(text.read(b"tmmu-plan-text 1\narena a 8\nbuffer b 8 a 0 live 0 1\n", "b.plan.txt"))
    buffers = JudgedPlan("b.plan.txt", lifetimes, Verdict("b.plan.txt", PROVED, 0, ""))
    with pytest.raises(Disagreement, match="lifetimes and no steps"):
        list(sets.verdicts([*plans, buffers], {}, SharedNames(("cache",)), Options()))
    assert sets.misspelt(plans, ["cache", "kache"]) == ["kache"]


def test_a_training_step_of_xla_is_a_set_over_its_own_donated_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module names the result that is returned in the bytes of each donated parameter. spec: PS1.2"""
    monkeypatch.setattr(calls, "BUDGET", 2000)
    stated = load_any(str(CORPUS / "xla-train-step/step.cpu_after_optimizations-buffer-assignment.txt"))
    assert isinstance(stated, StatedPlan)
    assert stated.reading is not None
    assert stated.reading.exits.keys() <= set(stated.reading.donated)
    subject = Subject(stated, donated=frozenset(stated.reading.donated))
    both = [SetMember(name, name, stated.plan, subject.run, exits=stated.reading.exits) for name in ("one", "two")]
    agreement = agree_by_names(both, ["p__*", "m__*", "constant*", "t.1"], ["*"])
    state = [one for one in agreement.shared if not one.is_weight]
    assert len(state) == 36
    assert all(use.exit == stated.reading.exits[one.name] for one in state for use in one.uses.values())
    assert list(find_violations(both, agreement)) == []
    apart = [replace(both[0], exits={}), both[1]]  # otherwise the results are other tensors in the bytes of state
    assert list(find_violations(apart, agree_by_names(apart, ["p__*", "m__*", "constant*", "t.1"], ["*"])))


def test_state_that_a_program_mutates_is_its_entry_too() -> None:
    """A manifest that hides the entry says that the program needs no state. spec: PS1.13"""
    bodies = {
        "fill": "tensor s 4 m 0 output\nstep f my::F -> s\n",
        "step": "tensor s 4 m 0 optimizer\ntensor y 4 m 8 output\nstep g my::G s -> s y changes s\n",
    }
    members = []
    for name, body in bodies.items():
        stated = file.pass_gate(text.read(f"tmmu-plan-text 1\narena m 64\n{body}".encode(), name))
        assert isinstance(stated, StatedPlan)
        members.append(SetMember(name, name, stated.plan, Subject(stated, donated=frozenset("s")).run))
    right = agree_by_names(members, ("s",), ())
    (one,) = right.shared
    assert one.uses["step"] == SharedUse("s", "s")
    assert list(find_violations(members, right)) == []
    forged = replace(right, shared=(replace(one, uses={**one.uses, "step": SharedUse(None, "s")}),))
    (found,) = find_violations(members, forged)
    assert (found.obligation, found.programs) == (Obligation.SHARED_AT_ONE_PLACE, ("step",))
    assert "it is the entry too" in found.text


def test_what_was_proved_of_a_plan_is_what_the_set_is_made_of() -> None:
    """Against a model a plan may share what nothing shows without it."""
    plan = judged("decode.cbor", DECODE)
    subject = Subject(plan.stated, donated=frozenset(("cache",)))  # type: ignore[arg-type]
    assert replace(plan, subject=subject).member("decode").run is subject.run
    recorded = RecordedSubject()
    judge("decode.cbor", plan.stated, Options(bindings=Bindings(donated=("cache",)), in_set=True), sources=recorded)
    assert isinstance(recorded.subject, Subject)


def test_two_plans_of_one_name_are_two_programs() -> None:
    plans = [judged(f"{folder}/m.cbor", MADE.plans["prefill"]) for folder in "ab"]
    (verdict,) = sets.verdicts(plans, {}, SharedNames(("cache", "w"), ("cache",)), Options())
    assert (verdict.verdict, verdict.assumptions["programs"]) == (PROVED, ["m", "m-2"])


def test_a_plan_by_itself_says_that_its_set_was_not_looked_at() -> None:
    assert "program of a set" in absent(DECODE, Options())["set"]
    assert "set" not in absent(DECODE, Options(in_set=True))
    assert "set" not in absent(replace(DECODE, membership=None), Options())


@pytest.mark.parametrize(
    ("donated", "codes", "last"),
    [
        (("cache",), {0}, "PROVED"),
        (("fill:cache", "next:cache"), {0}, "PROVED"),
        (("fill:cache",), {1}, "REFUTED"),  # next takes the bytes of what its caller has not given up
        (("fill:c*", "next:*"), {0}, "PROVED"),
        (("fill:kache", "cache"), {2}, ""),
        (("nobody:cache", "cache"), {2}, ""),
    ],
)
def test_a_donated_name_is_of_all_programs_or_of_one(
    donated: tuple[str, ...], codes: set[int], last: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: PS4.9"""
    paths = []
    for name, body in (("fill", FILL), ("next", NEXT)):
        paths.append(str(tmp_path / f"{name}.plan.txt"))
        Path(paths[-1]).write_text(f"tmmu-plan-text 1\n{ARENA}\n{body}")
    flags = [f"--donate={each}" for each in donated]
    assert {entry.run([*paths, "--shared", "cache", "--shared", "w", "--initial", "cache", *flags, "-q"])} == codes
    out, err = capsys.readouterr()
    assert (f"--donate {donated[0]}: no program has" in err) == (codes == {2})
    assert codes == {2} or out.splitlines()[1].startswith(last)


STEPS = ("step f my::F a -> b", "step g my::G b -> c")
APART, OVER = changed(OTHER, "192", "256"), changed(OTHER, "192", "64")


@pytest.mark.parametrize(
    ("lines", "words", "alone", "together", "obligation"),
    [
        pytest.param(APART, ("on 1", "on 2 after f"), PROVED, PROVED, "", id="ordered"),
        pytest.param(APART, ("on 1", "on 2"), REFUTED, UNKNOWN, "each_program", id="race"),
        pytest.param(OVER, ("on 1", "on 2 after f"), PROVED, REFUTED, "state_is_untouched", id="over state"),
    ],
)
def test_calls_are_barriers_for_steps_that_overlap(
    lines: str, words: tuple[str, str], alone: str, together: str, obligation: str
) -> None:
    """Within a call they overlap. spec: PS4.7"""
    for step, word in zip(STEPS, words, strict=True):
        lines = changed(lines, step, f"{step} {word}")
    plans, options = [], Options(bindings=Bindings(donated=("cache",)), in_set=True)
    for name, body in {"fill": FILL, "other": lines, "next": NEXT}.items():
        path = f"{name}.plan.txt"
        stated = file.pass_gate(text.read(f"tmmu-plan-text 1\n{ARENA}\n{body}".encode(), path))
        plans.append(JudgedPlan(path, stated, judge(path, stated, options)))
    assert [plan.verdict.verdict for plan in plans] == [PROVED, alone, PROVED]
    (verdict,) = sets.verdicts(plans, {}, SharedNames(("cache", "w"), ("cache",)), Options())
    assert (verdict.verdict, verdict.assumptions["execution"]) == (together, f"{sets.OVERLAPPING_CALLS} {OVERLAPPING}")
    assert [name for name, answer in said(verdict).items() if answer == together != PROVED] == [obligation] * bool(
        obligation
    )
