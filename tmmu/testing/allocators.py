"""`check_allocator`: a user's dynamic allocator under random requests, as a rule-based state machine. spec: TP2.10

What the allocator answered becomes buffers with live ranges, which the verifier judges as it judges a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from hypothesis import seed
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tmmu.core.alignment import align_up
from tmmu.core.output import suggest_names
from tmmu.testing.answers import BadAnswer, read_answer
from tmmu.testing.buffer import TimedBuffer
from tmmu.testing.cases import CaseOrigin
from tmmu.testing.examples import settings_of
from tmmu.testing.planners import report
from tmmu.testing.problems import BufferProblem
from tmmu.testing.profiles import current_run
from tmmu.testing.properties import OF_ALLOCATORS, OF_OBLIGATION, Figures, PropertyFailure, name_of
from tmmu.testing.strategies.traces import SIZES, Allocate, Free, live_ranges

STEPS = 50
"""The most requests of one example."""


def check_allocator(
    make: Callable[[], Any],
    *,
    capacity: int,
    alignment: int = 1,
    largest: int | None = None,
    without: Collection[str] = (),
    examples: int | None = None,
    folder: str | Path | None = None,
) -> Figures:
    """Check an allocator under random requests, and return how often each property held.

    Parameters
    ----------
    make
        A function that returns a new, empty allocator with the methods `allocate(bytes)`, which returns an offset, and
        `free(offset)`. A request that it cannot serve raises an exception or returns None.
    capacity, alignment
        The bytes of its arena, and what each offset is a multiple of.
    largest
        The largest request, by default the capacity.
    without
        Properties of `tmmu.testing.properties.OF_ALLOCATORS` that it need not have: `recovers` if the allocator keeps
        bytes for itself or never joins what was freed.
    examples, folder
        The number of examples of up to 50 requests, and where a failure is saved.

    Raises
    ------
    PlannerFailure
        An AssertionError with the shortest sequence found, its buffers, and a picture of the two that overlap.
    """
    for name in without:
        if name not in OF_ALLOCATORS:
            raise ValueError(
                f"unknown property {name!r}; {suggest_names(name, OF_ALLOCATORS, ', '.join(OF_ALLOCATORS))}"
            )
    if capacity < 1 or alignment < 1 or alignment & (alignment - 1):
        raise ValueError("expected a capacity of a byte or more, and an alignment that is a power of two")
    run, figures = current_run(examples, folder), Figures()
    most = capacity if largest is None else largest
    sizes = tuple(size for size in dict.fromkeys((*SIZES, capacity // 2, capacity)) if size <= most) or (most,)
    last: list[PropertyFailure] = []

    class Requests(RuleBasedStateMachine):
        """An allocator, and what it was asked and answered."""

        def __init__(self) -> None:
            super().__init__()
            self.allocator = make()
            self.trace: list[Allocate | Free] = []
            self.answers: list[int | None] = []
            self.held: dict[str, tuple[int, int]] = {}
            self.is_failed = False
            figures.examples += 1

        @rule(size=st.sampled_from(sizes))
        def allocate(self, size: int) -> None:
            """Request some bytes."""
            self._request(size, must_fit=not self.held and not self.trace)

        @precondition(lambda self: self.held)
        @rule(which=st.integers(0, 7))
        def free(self, which: int) -> None:
            """Give one of the allocations back."""
            self._free(list(self.held)[which % len(self.held)])

        @precondition(lambda self: self.trace)
        @rule()
        def free_all(self) -> None:
            """Give everything back, and ask for all bytes at once."""
            for name in list(self.held):
                self._free(name)
            if "recovers" not in without and most >= capacity:
                self._request(capacity // alignment * alignment, must_fit=True, name="recovers")
                figures.held["recovers"] += 1

        def teardown(self) -> None:
            """Judge everything together, and repeat all requests with a new allocator."""
            if self.is_failed:
                return
            self._judge()
            if "deterministic" not in without:
                self._repeat()
                figures.held["deterministic"] += 1

        def _repeat(self) -> None:
            again, held = make(), dict[str, int]()
            answers = iter(self.answers)
            for event in self.trace:
                if isinstance(event, Free):
                    if event.name in held:
                        again.free(held.pop(event.name))
                    continue
                before, now = next(answers), _answer(again, event.bytes)
                if now != before:
                    shown = ["a refusal" if one is None else str(one) for one in (before, now)]
                    what = f"the request {event.name!r} is answered with {shown[0]}, then with {shown[1]}"
                    self._fail("deterministic", what)
                if now is not None:
                    held[event.name] = now

        def _request(self, size: int, *, must_fit: bool, name: str = "answers") -> None:
            event = Allocate(f"m{sum(isinstance(each, Allocate) for each in self.trace)}", size)
            self.trace.append(event)
            try:
                offset = _answer(self.allocator, size)
            except BadAnswer as error:
                self.answers.append(None)
                self._fail("answers", str(error))
                return
            self.answers.append(offset)
            if offset is None:
                if must_fit and 0 < align_up(size, alignment) <= capacity and name not in without:
                    self._fail(name, f"{size} bytes are refused, of {capacity} that are free")
                return
            if not self._is_plainly_right(offset, size):
                self._judge()
            self.held[event.name] = offset, size
            figures.held["answers"] += 1

        def _free(self, name: str) -> None:
            offset, _ = self.held.pop(name)
            self.trace.append(Free(name))
            try:
                self.allocator.free(offset)
            except Exception as error:
                self._fail("answers", f"free({offset}) of {name!r} raised {type(error).__name__}: {error}"[:500])

        def _is_plainly_right(self, offset: int, size: int) -> bool:
            """Whether an answer is right at a glance; the verifier looks at all of them at the end."""
            apart = all(at + other <= offset or offset + size <= at for at, other in self.held.values() if other)
            return (not size or apart) and offset % alignment == 0 and offset + size <= capacity

        def _judge(self) -> None:
            """Let the verifier judge all that was allocated so far."""
            problem, plan = self._plan()
            for found in problem.violations(plan):
                name = OF_OBLIGATION.get(found.obligation, "safe")
                if name not in without:
                    self.is_failed = True
                    last[:] = [PropertyFailure(name, found.text, problem, plan, found, capacity)]
                    raise _error(name, last[0])
            figures.held.update(("safe", "aligned", "within_capacity"))

        def _plan(self) -> tuple[BufferProblem, Any]:
            served = [
                TimedBuffer(b.name, b.first, b.last, b.bytes, alignment) for b in live_ranges(self.trace)
                if self._offset_of(b.name) is not None
            ]  # fmt: skip
            problem = BufferProblem(served)
            return problem, problem.place({b.name: self._offset_of(b.name) or 0 for b in served}, capacity)

        def _offset_of(self, name: str) -> int | None:
            requests = [event.name for event in self.trace if isinstance(event, Allocate)]
            return self.answers[requests.index(name)]

        def _fail(self, name: str, what: str) -> None:
            if name in without:
                return
            self.is_failed = True
            problem, plan = self._plan()
            shown = ", ".join(
                f"allocate({each.bytes})" if isinstance(each, Allocate) else f"free({each.name})" for each in self.trace
            )
            last[:] = [PropertyFailure(name, f"{what}; after {shown}", problem, plan, None, capacity)]
            raise _error(name, last[0])

    origin = CaseOrigin(name_of(make), "traces()")
    try:
        run_state_machine_as_test(seed(run.seed)(Requests), settings=settings_of(run, steps=STEPS))
    except _Wrong as error:
        report(origin, error.failure, run)
    except Flaky:
        what = f"the same requests failed once, and then did not: {last[0].text}"
        report(origin, last[0]._replace(name="deterministic", text=what, violation=None), run)
    return figures


class _Wrong(Exception):
    failure: PropertyFailure


_kinds: dict[str, type[_Wrong]] = {}


def _error(name: str, failure: PropertyFailure) -> _Wrong:
    """Return the exception of a property: each has a class, so that a failure shrinks to one of its own kind."""
    found = _kinds.setdefault(name, type("Wrong", (_Wrong,), {}))()
    found.failure = failure
    return found


def _answer(allocator: Any, size: int) -> int | None:
    """Return the offset of a request, or None if it is refused. Raises BadAnswer for what is no offset."""
    try:
        offset = allocator.allocate(size)
    except Exception:
        return None
    if offset is None:
        return None
    read = read_answer({"it": offset}, BufferProblem([TimedBuffer("it", 0, 0, size)])).offsets
    assert read is not None
    return read["it"]
