"""`check_planner`: a user's planner on random problems. A failure is shrunk, printed and saved.

spec: TP2.1, TP3.1, TP3.5

>>> from tmmu import testing
>>> def offsets(buffers):  # one behind the other
...     ends = [sum(b.bytes for b in buffers[:k]) for k in range(len(buffers))]
...     return {b.name: end for b, end in zip(buffers, ends)}
>>> testing.check_planner(offsets, given=testing.buffers(), examples=20, folder="").examples
20
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NoReturn

from hypothesis.errors import Flaky, HypothesisException, Unsatisfiable
from hypothesis.strategies import SearchStrategy

from tmmu.core.output import suggest_names
from tmmu.testing.buffer import TimedBuffer
from tmmu.testing.cases import CaseOrigin, PlannerFailure, describe, save, saved_cases
from tmmu.testing.examples import run_examples
from tmmu.testing.problems import BufferProblem, PlannerProblem, problem_of
from tmmu.testing.profiles import ExampleRun, current_run
from tmmu.testing.properties import DEFAULT, PROPERTIES, Examination, Figures, Planner, PropertyFailure
from tmmu.testing.reducer import reduce_failure
from tmmu.testing.strategies.buffers import buffers

GROWTH = (200, 400, 800)
"""The numbers of buffers whose times are compared for `growth`."""
EXPONENT = 2.4
"""The largest exponent of time: a quadratic planner, and what a busy machine adds."""


def check_planner(
    plan: Callable[..., Any] | Planner,
    given: SearchStrategy[Any] | None = None,
    *,
    capacity: int | None = None,
    granularity: int = 1,
    also: Collection[str] = (),
    without: Collection[str] = (),
    examples: int | None = None,
    folder: str | Path | None = None,
) -> Figures:
    """Check a planner on random problems, and return how often each property held.

    Parameters
    ----------
    plan
        A function of what `given` draws. It returns offsets by name (a dict), offsets in order (a list or an array),
        a plan, or a file or a text with one; with a footprint as (offsets, footprint). If it has a parameter
        `capacity`, it must raise an exception when nothing fits.
    given
        A strategy: `buffers()` (the default), `dags()`, `graphs()` or `models()`, or any of such values.
    capacity
        The bytes that every plan must fit into. By default only what the planner itself needs is tried.
    granularity
        The unit of the planner's offsets, for the property `bounded`.
    also, without
        Properties of `tmmu.testing.PROPERTIES` that are examined as well, or not.
    examples, folder
        The number of problems, and where a failure is saved; by default those of the run (`tmmu.testing.ExampleRun`).

    Raises
    ------
    PlannerFailure
        An AssertionError with the smallest problem found, the plan, and a picture of what is wrong in it.
    """
    planner = plan if isinstance(plan, Planner) else Planner(plan)
    given = buffers() if given is None else given
    _check_count("capacity", capacity)
    _check_count("granularity", granularity)
    run = current_run(examples, folder)
    examination = Examination(_chosen(also, without), capacity, granularity)
    figures = Figures()
    origin = CaseOrigin(planner.name, repr(given), granularity)
    for case in saved_cases(origin, run.folder) if run.folder is not None else ():
        failure = case.examine(planner, examination.wanted)
        if failure is not None:
            message = describe(planner.name, failure, case.path, "the saved case fails; delete it to forget it")
            raise PlannerFailure(message, failure, case.path) from failure.cause
    found = find_failure(lambda problem: next(examination.failures(planner, problem, figures), None), given, run)
    if found is None and "growth" in examination.wanted:
        found = _measure_growth(planner)
        figures.held["growth"] += found is None
    if found is not None:
        report(origin, found, run)
    return figures


def _check_count(name: str, value: int | None) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"expected a positive number of bytes as `{name}`, got {value!r}")


def _chosen(also: Collection[str], without: Collection[str]) -> tuple[str, ...]:
    for argument, names in (("also", also), ("without", without)):
        if isinstance(names, str):
            raise TypeError(f"expected a list of properties, got {names!r}; write {argument}=[{names!r}]")
    for name in (*also, *without):
        if name not in PROPERTIES:
            raise ValueError(f"unknown property {name!r}; {suggest_names(name, PROPERTIES, ', '.join(PROPERTIES))}")
    return tuple(name for name in PROPERTIES if name in (*DEFAULT, *also) and name not in without)


def report(origin: CaseOrigin, failure: PropertyFailure, run: ExampleRun) -> NoReturn:
    """Save a failure and raise it."""
    saved, note = None, ""
    if run.folder is not None:
        try:
            saved = save(origin, failure, run.folder)
        except OSError as error:
            note = f"not saved: {error.filename}: {error.strerror}"
    raise PlannerFailure(describe(origin.planner, failure, saved, note), failure, saved) from failure.cause


class _Found(Exception):
    """Carries a failure through Hypothesis."""

    failure: PropertyFailure


def find_failure(
    examine: Callable[[PlannerProblem], PropertyFailure | None], given: Any, run: ExampleRun
) -> PropertyFailure | None:
    """Return a failure that is found in the examples of a run, with a small problem, or None.

    Hypothesis draws the examples; `reduce_failure` makes the one that fails smaller, in few calls. If an example fails
    and then does not, the failure is `deterministic`.
    """
    last: list[PropertyFailure] = []
    tried = itertools.count()

    def test(value: Any) -> None:
        run.report("problems", min(next(tried), run.examples), run.examples)
        failure = examine(problem_of(value))
        if failure is not None:
            last[:] = [failure]
            error = _Found()
            error.failure = failure
            raise error

    try:
        run_examples(test, given, run=run, shrinks=False)
    except _Found as error:
        return reduce_failure(examine, error.failure)
    except Flaky:
        return reduce_failure(lambda p: _unsteady(found) if (found := examine(p)) else None, _unsteady(last[0]))
    except Unsatisfiable as error:
        raise ValueError(f"`given` draws no example: {error}") from error
    except HypothesisException as error:
        raise ValueError(f"`given` cannot be drawn from: {error}") from error
    return None


def _unsteady(failure: PropertyFailure) -> PropertyFailure:
    """Return a failure as one of `deterministic`: the same problem failed once, and then did not."""
    if failure.name == "deterministic":
        return failure
    what = f"the same problem failed once, and then did not: {failure.text}"
    return failure._replace(name="deterministic", text=what, violation=None, cause=None)


def _measure_growth(planner: Planner) -> PropertyFailure | None:
    """Compare the times for more and more buffers."""
    taken = []
    for count in GROWTH:
        problem = BufferProblem([
            TimedBuffer(f"b{k}", k // 2, k // 2 + 1 + k * 7919 % 23, 1 + k * 104729 % 4096) for k in range(count)
        ])  # fmt: skip
        best = math.inf
        for _ in range(3):
            begun = time.perf_counter()
            planner.ask(problem)
            best = min(best, time.perf_counter() - begun)
        taken.append(best)
    exponent = math.log2(max(taken[-1], 1e-9) / max(taken[0], 1e-9)) / math.log2(GROWTH[-1] / GROWTH[0])
    if exponent <= EXPONENT:
        return None
    times = ", ".join(f"{count} in {seconds:.3f} s" for count, seconds in zip(GROWTH, taken, strict=True))
    return PropertyFailure("growth", f"time grows with the power {exponent:.1f} of the buffers: {times}", problem)
