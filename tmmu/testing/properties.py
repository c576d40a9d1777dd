"""The properties of a planner, each examined on one problem. No Hypothesis here: a saved case is examined alone.

A planner is called with a copy of the problem; what it returns is judged by the verifier. spec: TP2.1, TP2.5 to TP2.9,
TP2.13 to TP2.15
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from proofs.definition.violations import Obligation, Violation
from tmmu.plans import file
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.testing.answers import BadAnswer, PlannerAnswer, Refusal, read_answer
from tmmu.testing.problems import UNLIMITED, PlannerProblem, PlanSizes, measure

PROPERTIES = {
    "answers": "each problem has an answer, with one offset for each tensor",
    "safe": "no two tensors that are needed at one step share a byte, and sharing is sound",
    "aligned": "each offset is a multiple of the alignment",
    "within_capacity": "what a plan needs is within the capacity",
    "footprint": "a stated footprint is no less than what the offsets need",
    "deterministic": "the same problem has the same answer",
    "unchanged": "the problem is not changed by the planner",
    "bounded": "no plan needs more than all tensors side by side",
    "refuses": "a capacity is refused if, and only if, nothing fits",
    "relabelled": "other names have the same offsets",
    "monotone": "without one of its tensors a problem needs no more memory",
    "growth": "time grows no faster than the square of the tensors",
}
"""Each property as a sentence."""
OF_ALLOCATORS = {
    "answers": "each request that fits an empty arena has an offset",
    "safe": "no two allocations that are held at one time share a byte",
    "aligned": "each offset is a multiple of the alignment",
    "within_capacity": "each allocation ends within the capacity",
    "deterministic": "the same requests have the same answers",
    "recovers": "after all is freed, the whole capacity can be allocated again",
}
"""The properties of an allocator, each as a sentence."""
PROMISES = ("relabelled", "monotone", "growth")
"""The properties that are examined only if they are asked for: a planner may be right without them."""
DEFAULT = tuple(name for name in PROPERTIES if name not in PROMISES)
OF_OBLIGATION = {
    Obligation.ALIGNMENT: "aligned",
    Obligation.CAPACITY: "within_capacity",
    Obligation.PEAK: "footprint",
    Obligation.SLOT_COUNT: "footprint",
}
"""The properties of obligations; all others are `safe`."""
REDUCED = 6
"""The most problems without a tensor that are planned for `monotone`."""


@dataclass
class Figures:
    """How often each property held, and the ratio of footprint to peak over the problems that have a peak."""

    held: Counter[str] = field(default_factory=Counter)
    examples: int = 0
    ratios: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """The mean of footprint ÷ peak."""
        return sum(self.ratios) / len(self.ratios) if self.ratios else 1.0

    @property
    def worst(self) -> float:
        """The largest footprint ÷ peak."""
        return max(self.ratios, default=1.0)


class PropertyFailure(NamedTuple):
    """A property that does not hold of a problem: a sentence, the plan if there is one, and what the verifier found."""

    name: str
    text: str
    problem: PlannerProblem
    plan: Plan | BufferPlan | None = None
    violation: Violation | None = None
    capacity: int | None = None
    cause: BaseException | None = None

    @property
    def obligation(self) -> str:
        """The obligation of the verifier that is violated, else the property."""
        return self.name if self.violation is None else str(self.violation.obligation.value)


Failures = Iterator[PropertyFailure]
Answered = tuple[PlannerAnswer, Plan | BufferPlan]


class Planner:
    """A function of a user, with a name for messages and saved cases.

    It takes a capacity if it has a parameter of that name.
    """

    def __init__(self, function: Callable[..., Any], name: str | None = None, *, takes_capacity: bool | None = None):
        if not callable(function):
            raise TypeError(f"expected a function of the problem as the planner, got {function!r}")
        self.function = function
        self.name = name or name_of(function)
        self.takes_capacity = _has_capacity(function) if takes_capacity is None else takes_capacity

    def ask(self, problem: PlannerProblem, capacity: int | None = None) -> PlannerAnswer:
        """Return its answer to a copy of the problem. Raises BadAnswer, and what the function raises."""
        return self._ask(problem, problem.copy(), capacity)

    @property
    def is_program(self) -> bool:
        """Whether it runs in another process, which reads the problem as text."""
        return hasattr(self.function, "command")

    def ask_with_other_hashes(self, problem: PlannerProblem, capacity: int | None = None) -> PlannerAnswer:
        """Return its answer as another process might have it: sets of names have another order.

        A name that is written as text and read again does not find one with another hash. So a function that fails on
        such names is asked with those of the problem. Raises as `ask` does.
        """
        if not self.is_program:
            with contextlib.suppress(Exception):
                return self._ask(problem, problem.rehash(), capacity)
        return self.ask(problem, capacity)

    def _ask(self, problem: PlannerProblem, given: Any, capacity: int | None) -> PlannerAnswer:
        try:
            value = self.function(given, capacity=capacity) if self.takes_capacity else self.function(given)
        except SystemExit as error:  # it would end the test as a success
            raise Refusal(f"it called sys.exit({error.code!r})") from error
        return read_answer(value, problem)._replace(is_changed=not problem.is_unchanged(given))


def name_of(function: Callable[..., Any]) -> str:
    """Return MODULE:NAME of a function, also of one with some arguments bound, or the type of another callable."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '') or '__main__'}:{name}"


def _has_capacity(function: Callable[..., Any]) -> bool:
    try:
        return "capacity" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a callable of another language
        return False


@dataclass(frozen=True)
class Examination:
    """What is examined: the properties, the capacity that a plan must fit into, and the unit that offsets have."""

    wanted: Collection[str] = DEFAULT
    capacity: int | None = None
    granularity: int = 1

    def failures(self, planner: Planner, problem: PlannerProblem, figures: Figures) -> Failures:
        """Yield the failures of a planner on a problem, and count what holds."""
        for failure in self._examined(planner, problem, figures):
            if failure.name in self.wanted:
                yield failure

    def _examined(self, planner: Planner, problem: PlannerProblem, figures: Figures) -> Failures:
        figures.examples += 1
        answered = self._answer(planner, problem)
        if isinstance(answered, PropertyFailure):
            yield answered
            return
        if answered is None:
            figures.held["refuses"] += 1
            return
        answer, plan = answered
        figures.held["answers"] += 1
        wrong = [self._violated(problem, plan, found) for found in problem.violations(plan)]
        yield from wrong
        for name in ("safe", "aligned", "within_capacity"):
            figures.held[name] += all(failure.name != name for failure in wrong)
        if wrong:
            return
        sizes = measure(plan, self.granularity)
        if sizes.peak and not any(arena.scattered for arena in plan.placement.arenas):
            figures.ratios.append(sizes.footprint / sizes.peak)
        for name, check in (
            ("footprint", self._stated), ("deterministic", self._again), ("unchanged", self._unchanged),
            ("bounded", self._bounded),
            ("refuses", self._refuses), ("relabelled", self._relabelled), ("monotone", self._monotone),
        ):  # fmt: skip
            if name in self.wanted and self._applies(name, planner, answer, plan):
                failures = list(check(planner, problem, answer, sizes))
                figures.held[name] += not failures
                yield from (failure._replace(plan=failure.plan or plan) for failure in failures)

    def _applies(self, name: str, planner: Planner, answer: PlannerAnswer, plan: Plan | BufferPlan) -> bool:
        """Whether a planner says anything that the property is about."""
        if name == "refuses":
            return planner.takes_capacity and self.capacity is None
        if name == "unchanged":
            return not planner.is_program  # which has its own copy
        return name != "footprint" or answer.footprint is not None or plan.claims is not None

    def _answer(self, planner: Planner, problem: PlannerProblem) -> Answered | PropertyFailure | None:
        """Return the answer and its plan, a failure, or None if the capacity is rightly refused."""
        try:
            answer = planner.ask(problem, self.capacity)
            return answer, self._plan(problem, answer, self.capacity)
        except BadAnswer as error:
            return PropertyFailure("answers", str(error), problem, capacity=self.capacity)
        except Exception as error:
            if self.capacity is not None and planner.takes_capacity:
                total = measure(problem.place(side_by_side(problem)), self.granularity).total + problem.reserved
                if total > self.capacity:
                    return None
            return PropertyFailure("answers", describe_error(error), problem, capacity=self.capacity, cause=error)

    def _plan(self, problem: PlannerProblem, answer: PlannerAnswer, capacity: int | None) -> Plan | BufferPlan:
        if answer.offsets is None:
            assert answer.plan is not None
            return answer.plan
        return problem.place(answer.offsets, UNLIMITED if capacity is None else capacity)

    def _violated(self, problem: PlannerProblem, plan: Plan | BufferPlan, found: Violation) -> PropertyFailure:
        name = OF_OBLIGATION.get(found.obligation, "safe")
        return PropertyFailure(name, found.text, problem, plan, found, self.capacity)

    def _stated(self, _: Planner, problem: PlannerProblem, answer: PlannerAnswer, sizes: PlanSizes) -> Failures:
        """A stated footprint is no less than what the offsets need."""
        if answer.footprint is not None and answer.footprint < sizes.footprint:
            what = f"it states a footprint of {answer.footprint} bytes; its offsets need {sizes.footprint}"
            yield PropertyFailure("footprint", what, problem)

    def _again(self, planner: Planner, problem: PlannerProblem, answer: PlannerAnswer, _: PlanSizes) -> Failures:
        """A second call has the same answer, whatever order sets of names have."""
        for ask in (planner.ask, planner.ask_with_other_hashes):
            try:
                again = ask(problem, self.capacity)
            except Exception as error:
                yield PropertyFailure("deterministic", f"called a second time, {describe_error(error)}", problem)
                return
            if difference := _difference(answer, again):
                yield PropertyFailure("deterministic", f"a second call has another answer: {difference}", problem)
                return

    def _unchanged(self, _: Planner, problem: PlannerProblem, answer: PlannerAnswer, __: PlanSizes) -> Failures:
        """What the planner was given is what it was."""
        if answer.is_changed:
            what = "it changes what it is given, which its caller may still need"
            yield PropertyFailure("unchanged", what, problem)

    def _bounded(self, _: Planner, problem: PlannerProblem, __: PlannerAnswer, sizes: PlanSizes) -> Failures:
        """No more than all tensors side by side."""
        most = sizes.total + problem.reserved
        if sizes.footprint > most:
            unit = f" in units of {self.granularity}"
            what = f"it needs {sizes.footprint} bytes; all tensors side by side{unit} need {most}"
            if self.granularity == 1:
                what += " (state the `granularity` of a planner that rounds sizes up to blocks)"
            yield PropertyFailure("bounded", what, problem)

    def _refuses(self, planner: Planner, problem: PlannerProblem, _: PlannerAnswer, sizes: PlanSizes) -> Failures:
        """A capacity is kept, what fits is not refused, and what cannot fit is."""
        for capacity in dict.fromkeys((sizes.extent, sizes.footprint - 1, problem.least - 1)):
            if capacity < 0:
                continue
            try:
                answer = planner.ask(problem, capacity)
            except BadAnswer as error:
                yield PropertyFailure("refuses", f"with a capacity of {capacity}: {error}", problem, capacity=capacity)
                return
            except Exception as error:
                if capacity >= sizes.extent:
                    what = (
                        f"it refuses a capacity of {capacity} bytes, which its own plan fits: {describe_error(error)}"
                    )
                    yield PropertyFailure("refuses", what[:500], problem, capacity=capacity)
                    return
                continue
            if not capacity and sizes.footprint:
                what = "it has an answer for a capacity of 0 bytes, and tensors with bytes"
                yield PropertyFailure("refuses", what, problem, capacity=capacity)
                return
            plan = self._plan(problem, answer, capacity)
            for found in problem.violations(plan):
                yield self._violated(problem, plan, found)._replace(name="refuses", capacity=capacity)
                return

    def _relabelled(self, planner: Planner, problem: PlannerProblem, answer: PlannerAnswer, _: PlanSizes) -> Failures:
        """Other names have the same offsets."""
        renamed, old = problem.rename()
        try:
            other = planner.ask(renamed, self.capacity)
        except Exception as error:
            yield PropertyFailure("relabelled", f"with other names, {describe_error(error)}", problem)
            return
        if other.offsets is not None:
            back = PlannerAnswer({old[name]: offset for name, offset in other.offsets.items()}, None)
            if difference := _difference(answer, back):
                yield PropertyFailure("relabelled", f"other names have other offsets: {difference}", problem)

    def _monotone(self, planner: Planner, problem: PlannerProblem, _: PlannerAnswer, sizes: PlanSizes) -> Failures:
        """Less to place needs no more memory."""
        for k, smaller in enumerate(problem.reduce()):
            if k == REDUCED:
                return
            try:
                needed = measure(self._plan(smaller, planner.ask(smaller, self.capacity), None)).footprint
            except Exception as error:
                yield PropertyFailure("monotone", describe_error(error), smaller)
                return
            if needed > sizes.footprint:
                gone = ", ".join(repr(name) for name in problem.names if name not in smaller.names) or "a view"
                what = f"without {gone} it needs {needed} bytes, and {sizes.footprint} with all"
                yield PropertyFailure("monotone", what, problem)
                return


def describe_error(error: Exception) -> str:
    """Return what a planner raised, as a part of a sentence."""
    if isinstance(error, (BadAnswer, Refusal)):
        return str(error)
    return f"it raised {type(error).__name__}{f': {error}' if str(error) else ''}"[:500]


def side_by_side(problem: PlannerProblem) -> dict[str, int]:
    """Return offset 0 for each tensor: for what depends on sizes and not on offsets."""
    return dict.fromkeys(problem.names, 0)


def _difference(one: PlannerAnswer, other: PlannerAnswer) -> str:
    """Describe the first difference of two answers; empty if there is none."""
    if one.offsets is None or other.offsets is None:
        plans = [None if answer.plan is None else _encoded(answer.plan) for answer in (one, other)]
        return "" if plans[0] == plans[1] else "the plans differ"
    for name, offset in one.offsets.items():
        if other.offsets.get(name, offset) != offset:
            return f"{name!r} is at {offset}, then at {other.offsets[name]}"
    return ""


def _encoded(plan: Plan | BufferPlan) -> bytes:
    return file.encode(plan)
