"""`check_verifier`: a user's own checker of plans, on right plans and on plans made wrong. spec: TP2.11"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tmmu.core.output import align_rows
from tmmu.plans import file, text_writer
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.testing.examples import run_examples
from tmmu.testing.profiles import ExampleRun, current_run
from tmmu.testing.strategies.plans import WrongPlan, plans, spoil

FORMS = ("text", "bytes", "plan")
"""What a checker is given: a plan as text (`spec/text-plan.md`), as the bytes of a plan file, or as the object."""


@dataclass
class Score:
    """How many right plans a checker accepted, and how many wrong ones it refused, by obligation."""

    accepted: int = 0
    right: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        rows = [["right plans accepted", f"{self.accepted} of {self.right}"]]
        rows += [[f"{code} refused", f"{self.refused[code]} of {self.wrong[code]}"] for code in sorted(self.wrong)]
        return "\n".join(align_rows(rows))


class VerifierFailure(AssertionError):
    """A checker refuses a right plan, or accepts a wrong one. `score` has how often."""

    def __init__(self, message: str, score: Score) -> None:
        super().__init__(message)
        self.score = score


class _Wrong(Exception):
    pass


def check_verifier(
    verify: Callable[[Any], object],
    given_plans: st.SearchStrategy[Plan | BufferPlan] | None = None,
    *,
    form: str = "text",
    obligations: Collection[str] | None = None,
    examples: int | None = None,
) -> Score:
    """Check a checker: it accepts each right plan and refuses each wrong one. Return its score by obligation.

    Parameters
    ----------
    verify
        A function of a plan. It refuses by returning False or by raising an exception, and accepts with any other
        value that is true.
    given_plans
        Right plans, by default `plans()`.
    form
        "text", "bytes" (of a plan file) or "plan".
    obligations
        Those that the checker is about, by default all: `no_live_overlap`, `alignment`, `capacity`, …
    examples
        The number of plans.

    Raises
    ------
    VerifierFailure
        An AssertionError with the score, and for each mistake the smallest plan found.
    """
    if form not in FORMS:
        raise ValueError(f"form: expected one of {', '.join(FORMS)}, got {form!r}")
    run, score = current_run(examples), Score()
    known = None if obligations is None else tuple(map(str, obligations))
    mistakes: dict[str, str] = {}
    drawn = plans() if given_plans is None else given_plans

    def accepts(plan: Plan | BufferPlan) -> tuple[bool, str]:
        shown = text_writer.write(plan)
        value = {"text": shown, "bytes": b"" if form != "bytes" else file.encode(plan), "plan": plan}[form]
        try:
            return bool(verify(value)), ""
        except Exception as error:
            return False, f" ({type(error).__name__}: {error})"[:300]

    def judge(plan: Plan | BufferPlan, number: int) -> dict[str, str]:
        found = {}
        answered, why = accepts(plan)
        score.right += 1
        score.accepted += answered
        if not answered:
            found["right"] = f"a right plan is refused{why}:\n{text_writer.write(plan)}"
        wrong = spoil(plan, number, known)
        if wrong is not None:
            refused = not accepts(wrong.plan)[0]
            score.wrong[wrong.obligation] += 1
            score.refused[wrong.obligation] += refused
            if not refused:
                found[wrong.obligation] = _accepted(wrong)
        return found

    def survey(plan: Plan | BufferPlan, number: int) -> None:
        for kind, text in judge(plan, number).items():
            mistakes.setdefault(kind, text)

    numbers = st.integers(0, 10_000)
    run_examples(survey, drawn, numbers, run=run, shrinks=False)
    final = Score(score.accepted, score.right, score.refused.copy(), score.wrong.copy())
    for kind in list(mistakes):
        mistakes[kind] = _smallest(kind, judge, drawn, numbers, run) or mistakes[kind]
    if mistakes:
        raise VerifierFailure("\n".join([str(final), *mistakes.values()]), final)
    return final


def _accepted(wrong: WrongPlan) -> str:
    return f"a wrong plan is accepted: {wrong.obligation} ({wrong.fault}):\n{wrong.text}"


def _smallest(
    kind: str, judge: Callable[[Plan | BufferPlan, int], dict[str, str]], drawn: Any, numbers: Any, run: ExampleRun
) -> str:
    """Return the mistake of a kind in the smallest plan that is found; empty if it is not found again."""
    last = [""]

    def test(plan: Plan | BufferPlan, number: int) -> None:
        if text := judge(plan, number).get(kind):
            last[0] = text
            raise _Wrong

    try:
        run_examples(test, drawn, numbers, run=run)
    except Exception:  # `_Wrong`, or that of a checker that answers differently the second time
        return last[0]
    return ""
