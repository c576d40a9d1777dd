"""What solvers and lemmas say of a plan becomes one outcome for each obligation, and no other.

No solver runs here: what they would say is given. spec: V4.3, V4.6, V4.7
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from proofs.definition import promises
from proofs.definition.promises import Finding
from proofs.definition.violations import Obligation
from proofs.proving import obligations
from proofs.proving.lemmas import at_use
from proofs.proving.obligations import MODULES, OF_STORAGES, PROVED, UNKNOWN, VIOLATED, Outcome, sizes_over_envelope
from proofs.proving.obligations.context import context_of, storage_context
from proofs.proving.obligations.discharge import Result
from proofs.proving.obligations.rows import Place
from proofs.proving.obligations.sizes_over_envelope import Shown
from proofs.proving.solvers import Answer
from proofs.readers.sharing import Permissions
from tests.support.text_models import text_model
from tmmu.planner import plan_memory
from tmmu.plans import text
from tmmu.plans.sections import BufferPlan, Plan

NAMES = list(MODULES)


def chain(links: int = 12) -> Plan:
    """Steps that read what the one before wrote: one tensor more than steps, each in its storage."""
    return plan_memory(
        text_model(*(f"node relu{n} Relu t{n} -> t{n + 1}" for n in range(links)), inputs="t0", outputs=f"t{links}")
    ).plan


class Silent:
    """A solver that is never asked anything."""

    version = "none"

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None: ...


class Given:
    """What discharging, lemmas and the definition are made to say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.results: dict[str, Result] = {}
        self.unproved: dict[str, str] = {}
        self.definition: tuple[Answer, Finding | None] = (Answer("unsat\nsat", None, 0.0), None)
        self.solvers: list[int] = []
        monkeypatch.setitem(obligations.SOLVERS, "z3", Silent)  # type: ignore[arg-type]
        monkeypatch.setattr(obligations, "SolverProcess", Silent)
        monkeypatch.setattr(obligations, "discharge", self._discharge)
        monkeypatch.setattr(at_use, "prove_unrecorded", lambda *_, **__: self.unproved)
        monkeypatch.setattr(obligations, "ask", lambda *_: self.definition)

    def _discharge(
        self, tasks: Sequence[object], solvers: Sequence[object], timeout_s: float, _begin: object
    ) -> list[Result]:
        self.solvers.append(len(solvers))
        return [self.results.get(name, Result(rows=1)) for name in NAMES]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    return Given(monkeypatch)


def outcomes(plan: Plan, **options: Any) -> dict[str, Outcome]:
    return {outcome.name: outcome for outcome in obligations.prove(context_of(plan, Permissions()), **options)}


def test_every_obligation_is_proved_by_all_of_its_rows_and_lemmas(given: Given) -> None:
    assert {name: outcome.verdict for name, outcome in outcomes(chain()).items()} == dict.fromkeys(
        [*NAMES, "lemmas", "definition"], PROVED
    )


def test_a_false_row_a_failure_and_a_missing_lemma_are_no_proof(given: Given) -> None:
    plan = chain()
    given.results = {
        "alignment": Result(rows=1, refuted=("(a row)", Place((1,), step=0))),
        "capacity": Result(rows=1, failure="it died"),
    }
    given.unproved = {"level_reaches_its_end": "too late"}
    found = outcomes(plan)
    assert (found["alignment"].verdict, found["alignment"].hint) == (VIOLATED, "t1 at step 0: (a row)")
    assert (found["capacity"].verdict, found["capacity"].note) == (UNKNOWN, "it died")
    rests = "its lemma level_reaches_its_end is not proved: too late"
    assert (found["peak"].verdict, found["peak"].note) == (UNKNOWN, rests)
    others = set(NAMES) - {"alignment", "capacity", "peak", "slot_count"}
    assert {found[name].verdict for name in others} == {PROVED}


def test_three_lemmas_that_are_not_proved_are_named(given: Given) -> None:
    given.unproved = dict.fromkeys("abcd", "late")
    lemmas = outcomes(chain())["lemmas"]
    assert (lemmas.verdict, lemmas.note) == (UNKNOWN, "a: late; b: late; c: late")


def test_a_storage_goes_by_its_first_tensor_and_eight_are_named(given: Given) -> None:
    given.results = {"alignment": Result(rows=1, refuted=("row", Place(storages=range(13))))}
    assert outcomes(chain())["alignment"].hint == "t0, t1, t2, t3, t4, t5, t6, t7: row"
    viewed = plan_memory(
        text_model("node reshape Reshape x -> v", "node relu Relu v -> y", "tensor v u8 64 view x 0")
    ).plan
    given.results = {"alignment": Result(rows=1, refuted=("row", Place(storages=(0,))))}
    assert outcomes(viewed)["alignment"].hint == "x: row"


def test_a_pair_that_the_definition_cannot_name_is_a_pair_all_the_same(given: Given) -> None:
    given.definition = Answer("sat\nsat", None, 0.0), Finding("a and b are both live")
    found = outcomes(chain())["definition"]
    assert (found.verdict, found.hint) == (VIOLATED, "a and b are both live")
    given.definition = Answer("sat\nsat", None, 0.0), None
    found = outcomes(chain())["definition"]
    assert (found.verdict, found.hint) == (VIOLATED, "")


def test_the_definition_is_asked_up_to_the_limit_and_not_beyond(given: Given) -> None:
    """spec: V4.7"""
    plan = chain()
    count = len(plan.allocation.storages)
    assert "definition" in outcomes(plan, definition_limit=count)
    assert "definition" not in outcomes(plan, definition_limit=count - 1)


def test_a_plan_of_many_rows_is_shared_among_the_workers(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    """Storages, reads and writes are counted; one solver there is always."""
    plan = chain()
    size = len(plan.allocation.storages) + len(plan.allocation.steps.reads) + len(plan.allocation.steps.writes)
    for many, workers, solvers in ((size, 3, 1), (size - 1, 3, 3), (size - 1, 0, 1)):
        monkeypatch.setattr(obligations, "MANY", many)
        given.solvers.clear()
        outcomes(plan, workers=workers)
        assert given.solvers == [solvers]


def test_of_several_solvers_each_has_to_prove_an_obligation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who said what is in the note. spec: V4.6, V4.10"""
    said = {
        "z3": [Outcome("alignment", PROVED, 3, 1.0), Outcome("capacity", VIOLATED, 2, 1.0, hint="a: row")],
        "cvc5": [Outcome("alignment", PROVED, 3, 2.0), Outcome("capacity", PROVED, 2, 2.0)],
    }
    monkeypatch.setattr(obligations, "prove", lambda *_, solver, **__: said[solver])
    both = obligations.prove_with(("z3", "cvc5"), context_of(chain(), Permissions()))
    note = "the solvers disagree: z3 answers VIOLATED: a: row; cvc5 answers PROVED"
    assert both == [
        Outcome("alignment", PROVED, 3, 3.0, solvers={"z3": PROVED, "cvc5": PROVED}),
        Outcome("capacity", UNKNOWN, 2, 3.0, note=note, solvers={"z3": VIOLATED, "cvc5": PROVED}),
    ]


@pytest.mark.parametrize(
    ("verdict", "seconds", "timeout", "given"),
    [(PROVED, 0.1, 600.0, 60.0), (PROVED, 2.0, 600.0, 200.0), (PROVED, 0.1, 20.0, 20.0), (UNKNOWN, 0.1, 600.0, 600.0)],
)
def test_a_solver_has_less_time_for_what_another_has_proved(
    monkeypatch: pytest.MonkeyPatch, verdict: str, seconds: float, timeout: float, given: float
) -> None:
    """The first has all of it, and so has another after one that left something open. spec: V4.15"""
    times: list[float] = []

    def prove(_context: object, *, timeout_s: float, **_: object) -> list[Outcome]:
        times.append(timeout_s)
        return [Outcome("alignment", PROVED, 3, 0.1), Outcome("capacity", verdict, 3, seconds)]

    monkeypatch.setattr(obligations, "prove", prove)
    obligations.prove_with(("z3", "cvc5"), context_of(chain(), Permissions()), timeout_s=timeout)
    assert times == [timeout, given]


@pytest.mark.parametrize(
    ("verdict", "seconds", "timeout", "given"),
    [(PROVED, 0.1, 600.0, 10.0), (PROVED, 2.0, 600.0, 40.0), (PROVED, 0.1, 7.0, 7.0), (UNKNOWN, 0.1, 600.0, 600.0)],
)
def test_a_solver_has_less_time_for_the_definition_that_another_has_proved(
    monkeypatch: pytest.MonkeyPatch, verdict: str, seconds: float, timeout: float, given: float
) -> None:
    """And what it took for anything else is no measure of it. spec: V4.15"""
    times: list[float] = []

    def prove(_context: object, *, definition_timeout_s: float, **_: object) -> list[Outcome]:
        times.append(definition_timeout_s)
        return [Outcome(promises.NAME, verdict, 3, seconds), Outcome("capacity", PROVED, 3, 1.0)]

    monkeypatch.setattr(obligations, "prove", prove)
    obligations.prove_with(("z3", "cvc5"), context_of(chain(), Permissions()), timeout_s=timeout)
    assert times == [timeout, given]


@pytest.mark.parametrize(
    ("name", "said", "verdict", "note"),
    [
        (promises.NAME, (PROVED, UNKNOWN), PROVED, "no answer of cvc5"),
        (promises.NAME, (UNKNOWN, PROVED), PROVED, "no answer of z3"),
        (promises.NAME, (PROVED, VIOLATED), UNKNOWN, "the solvers disagree"),
        ("capacity", (PROVED, UNKNOWN), UNKNOWN, "not every solver proves it"),
    ],
)
def test_the_definition_alone_is_proved_where_one_solver_has_no_answer(
    monkeypatch: pytest.MonkeyPatch, name: str, said: tuple[str, str], verdict: str, note: str
) -> None:
    """What it says is proved by each of them from rows. spec: V4.10, V4.15"""
    answers = dict(zip(("z3", "cvc5"), said, strict=True))
    monkeypatch.setattr(obligations, "prove", lambda *_, solver, **__: [Outcome(name, answers[solver], 3, 1.0)])
    (found,) = obligations.prove_with(("z3", "cvc5"), context_of(chain(), Permissions()))
    assert found.note.partition(":")[0] == note
    assert found == Outcome(name, verdict, 3, 2.0, note=found.note, solvers=answers)


def test_the_definition_has_the_time_that_it_is_given_or_that_of_rows(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: V4.7"""
    times: list[float] = []

    def ask(_placement: object, _claims: object, _solver: object, timeout_s: float) -> tuple[Answer, None]:
        times.append(timeout_s)
        return Answer("unsat\nsat", None, 0.0), None

    monkeypatch.setattr(obligations, "ask", ask)
    outcomes(chain(), timeout_s=5.0)
    outcomes(chain(), timeout_s=5.0, definition_timeout_s=3.0)
    assert times == [5.0, 3.0]


def test_of_lifetimes_alone_what_is_about_storages_is_asked(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are. spec: P1.1, V4.6"""
    monkeypatch.setattr(obligations, "discharge", lambda tasks, *_: [Result(rows=1) for _ in tasks])
    buffers = text.read(
        b"tmmu-plan-text 1\narena a 64\nbuffer p 8 a 0 live 0 3\nbuffer q 8 a 8 live 2 4\n", "p.plan.txt"
    )
    assert isinstance(buffers, BufferPlan)
    for many in (0, 10):
        monkeypatch.setattr(obligations, "MANY", many)
        found = obligations.prove(storage_context(buffers))
        assert [one.name for one in found] == [*map(str, OF_STORAGES), "lemmas", promises.NAME]


def test_that_the_definition_is_still_asked_is_said(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where it is asked."""
    said: list[str] = []
    heard = threading.Event()

    def ask(*_: object) -> tuple[Answer, None]:
        assert heard.wait(30)
        return Answer("unsat\nsat", None, 0.0), None

    def hear(phase: str, *_: int) -> None:
        said.append(phase)
        heard.set()

    monkeypatch.setattr(obligations, "ask", ask)
    outcomes(chain(), definition_limit=0, progress=hear)
    assert said == []
    outcomes(chain(), progress=hear)
    assert said == ["proving the definition with z3"]


def test_sizes_over_an_envelope_are_proved_false_or_open(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is false or open is the first tensor's, or the reason why the largest sizes suffice. spec: R6.5"""
    cases = {
        Shown(4, 1.0): (PROVED, 4, "", ""),
        Shown(2, 1.0, "a", "the solver answers 'sat'", counterexample=True): (VIOLATED, 2, "", "a"),
        Shown(2, 1.0, "a", "it died"): (UNKNOWN, 2, "a: it died", ""),
        Shown(0, 1.0, failure="it died"): (UNKNOWN, 0, "it died", ""),
    }
    for shown, (verdict, rows, note, hint) in cases.items():
        monkeypatch.setattr(sizes_over_envelope, "ask", lambda *_, shown=shown: shown)
        assert obligations.prove_over_envelope(chain(), 1.0) == Outcome(
            Obligation.SIZES_OVER_ENVELOPE, verdict, rows, 1.0, note=note, hint=hint
        )
