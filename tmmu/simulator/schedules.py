"""Run the steps of several streams in the arenas of a plan, in interleavings that a seeded scheduler draws.

A step may begin when the steps before it on its stream, and those that it waits for, have ended. A running step reads
and writes its tensors a piece at a time, in an order that the scheduler draws, so that steps which nothing orders
overlap byte by byte. The bytes that a step will write hold a pattern from its beginning on. Each piece that is read is
compared with what the steps compute one after another in private memory. As long as all pieces agree, the kernels'
results are those of private memory, and these are written. `run_threads` has a real thread for each stream instead.

With `sanitize`, two running steps must not access a common byte, at least one of them writing, even if every byte is
right. Only the waits of the plan are used: no clocks, no lifetimes and no storages. With an event log each access is of
a whole tensor, and has a line. spec: SIM10.1 to SIM10.5
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tmmu.core.columns import NONE
from tmmu.core.errors import TmmuError
from tmmu.plans import metrics
from tmmu.plans.sections import Plan
from tmmu.runtime.events import EventLog
from tmmu.runtime.memory import MappedMemory
from tmmu.simulator.machine import Kernels, run
from tmmu.simulator.memories import PATTERN, PrivateMemory, Raw
from tmmu.simulator.overlap_log import OverlapLog
from tmmu.simulator.owners import Owners
from tmmu.simulator.program import PlanProgram
from tmmu.simulator.simulate import SimulationReport, unwritten_corruption
from tmmu.simulator.witness import Corrupted, Corruption

PIECES = 4
"""The most pieces in which a tensor is accessed."""


SPEEDS = 7
"""How many speeds there are: a step is chosen up to 64 times as often as another one."""
JOIN_S = 0.05
"""How long a thread waits for a step before it looks whether another thread has failed, in seconds."""


class AccessPiece(NamedTuple):
    """A range of bytes of a tensor that a step reads or writes."""

    tensor: int
    first: int
    end: int
    is_write: bool


@dataclass(frozen=True)
class Reference:
    """What each step reads and writes if the steps run one after another in private memory.

    `reads` and `writes` map (step, tensor) to bytes, None for the caller's step. `owner` maps a read to the write that
    it must find: the step, or None, and the tensor.
    """

    reads: dict[tuple[int | None, int], Raw]
    writes: dict[tuple[int | None, int], Raw]
    owner: dict[tuple[int | None, int], tuple[int | None, int]]


def run_privately(program: PlanProgram, kernels: Kernels) -> Reference:
    """Run the steps one after another in private memory, and keep all that they read and write.

    Raises `Corrupted` if they are not a program, and TMMU_ALLOCATION_FAILURE if private memory does not suffice.
    """
    found = Reference({}, {}, {})
    private = PrivateMemory(program)
    latest: dict[int, tuple[int | None, int]] = {}
    for look in run(program, private, kernels):
        t = look.tensor
        if t not in private.content or t in private.unwritten:
            raise Corrupted(unwritten_corruption(program, look))
        key, root = (look.step, t), _root(program, t)
        is_scratch = look.step is not None and t in program.steps[look.step].scratch
        if look.written or is_scratch:
            found.writes[key] = private.hold(t)
            if t not in program.views:
                latest[t] = key
        else:
            found.reads[key] = private.hold(t)
            found.owner[key] = latest.get(root, key)
    return found


def _root(program: PlanProgram, t: int) -> int:
    while t in program.views:
        t = program.views[t][0]
    return t


@dataclass
class ScheduleReport:
    """The result of one interleaving: as that of a run, with the most steps that ran at a time, and the log.

    `log` lists ("begin" or "end", step) in the order in which they happened.
    """

    report: SimulationReport
    seed: int
    widest: int = 0
    log: list[tuple[str, int]] = field(default_factory=list)

    @classmethod
    def of_corruption(cls, plan: Plan, corruption: Corruption, seed: int) -> ScheduleReport:
        """Return the report on a plan that is not a program."""
        needed = metrics.needed_bytes(plan)
        return cls(SimulationReport(corruption, 0, [0] * len(needed), needed), seed)


def check_runnable(program: PlanProgram) -> None:
    """Raise INVALID_PLAN unless the plan has streams, and no bodies."""
    allocation = program.plan.allocation
    if not allocation.streams:
        what = "its steps have no streams, so that there is only one schedule"
        fix = "run it without --schedules and --threads"
    elif len(allocation.bodies) > 1:
        what = "steps inside of bodies have no schedules of their own"
        fix = "run it without --schedules and --threads: its steps then run in the order of the list"
    else:
        return
    raise TmmuError("INVALID_PLAN", what, fix=fix)


class Schedules:
    """Runs a plan with streams in interleavings, each in its arenas, which are mapped once.

    Raises the errors of `check_runnable`, and those of `MappedMemory.map`.
    """

    def __init__(self, program: PlanProgram, *, sanitize: bool = False, events: EventLog | None = None) -> None:
        check_runnable(program)
        self.program, self.sanitize, self.events = program, sanitize, events
        self.pieces = PIECES if events is None else 1
        steps = program.plan.allocation.steps
        self.stream: list[int] = steps.stream.tolist()
        last: dict[int, int] = {}
        self.after: list[tuple[int, ...]] = []
        for n, (stream, waits) in enumerate(zip(self.stream, steps.listed("after"), strict=True)):
            self.after.append((*waits, last[stream]) if stream in last else waits)
            last[stream] = n

    def run(self, kernels: Kernels, seed: int) -> ScheduleReport:
        """Run one interleaving, drawn from `seed`. O(accesses) for each step, times the steps that run at a time."""
        looks = 0
        with MappedMemory.map(self.program.plan) as memory:
            arena = PlannedBytes(self.program, memory)
            found = ScheduleReport(SimulationReport(None, 0, [], metrics.needed_bytes(self.program.plan)), seed)
            try:
                check_bounds(self.program)
                reference = run_privately(self.program, kernels)
                arena.write_given(reference)
                arena.log = self._open_log(reference)
                for access, n in self._interleave(arena, found, seed):
                    looks += not access.is_write
                    arena.perform(reference, n, access, sanitize=self.sanitize)
                looks += arena.check_returned(reference, sanitize=self.sanitize)
                found.report.outputs = {t: reference.reads[None, t] for t in self.program.returned}
            except Corrupted as error:
                found.report.corruption = error.corruption
            found.report.looks = looks
            found.report.touched = [each.high_water for each in memory.arenas]
        return found

    def run_threads(self, kernels: Kernels, seed: int) -> ScheduleReport:
        """Run once, with a thread for each stream; `seed` determines the order of accesses within each step.

        Threads wait for each other only where the plan states it. An access is one piece of a tensor, under a lock.
        """
        found = ScheduleReport(SimulationReport(None, 0, [], metrics.needed_bytes(self.program.plan)), seed)
        with MappedMemory.map(self.program.plan) as memory:
            arena = PlannedBytes(self.program, memory)
            try:
                check_bounds(self.program)
                reference = run_privately(self.program, kernels)
                arena.write_given(reference)
                arena.log = self._open_log(reference)
                _Threads(self, arena, reference, found).run()
                found.report.looks += arena.check_returned(reference, sanitize=self.sanitize)
                found.report.outputs = {t: reference.reads[None, t] for t in self.program.returned}
            except Corrupted as error:
                found.report.corruption = error.corruption
            found.report.touched = [each.high_water for each in memory.arenas]
        return found

    def check_apart(self, n: int, running: Iterable[int]) -> None:
        """Raise `Corrupted` if a step that begins accesses bytes that another running step accesses, one writing."""
        mine = list(all_accesses(self.program, n))
        for other in running:
            if other == n:
                continue
            for theirs in all_accesses(self.program, other):
                for access in mine:
                    if (access.is_write or theirs.is_write) and (at := _common(self.program, access, theirs)):
                        raise self._race(n, access, other, theirs, at)

    def _open_log(self, reference: Reference) -> OverlapLog | None:
        return None if self.events is None else OverlapLog(self.program, reference.owner, self.events)

    def _interleave(
        self, arena: PlannedBytes, found: ScheduleReport, seed: int
    ) -> Iterator[tuple[AccessPiece, int]]:  # fmt: skip
        """Yield the accesses of all steps in an order that the seed determines, and log when steps begin and end."""
        draw = random.Random(seed)
        choose = _mixed(draw, len(self.after)) if seed % 2 == 0 else _delaying(draw, self.stream)
        waiting, ended = set(range(len(self.after))), set[int]()
        running: dict[int, list[AccessPiece]] = {}
        while waiting or running:
            ready = sorted(n for n in waiting if ended.issuperset(self.after[n]))
            n = choose([*running, *ready])
            if n not in running:
                waiting.remove(n)
                running[n] = list(plan_accesses(self.program, n, draw, self.pieces))[::-1]
                arena.begin(n, found)
                found.widest = max(found.widest, len(running))
                if self.sanitize:
                    self.check_apart(n, running)
            elif running[n]:
                yield running[n].pop(), n
            else:
                del running[n]
                ended.add(n)
                arena.end(n, found)

    def _race(self, n: int, mine: AccessPiece, other: int, theirs: AccessPiece, at: tuple[int, int]) -> Corrupted:
        program = self.program
        names = program.names[mine.tensor], program.names[theirs.tensor]
        verb, their_verb = ("writes" if access.is_write else "reads" for access in (mine, theirs))
        text = f"{program.at(n)} {verb} {names[0]} while {program.at(other)} {their_verb} {names[1]} in the same bytes"
        base = program.address[mine.tensor]
        return program.corruption_at(text, names, n, mine.tensor, at[0] - base, at[1] - 1 - base)


class _Threads:
    """One run with a thread for each stream. `lock` guards the bytes, the log and the first failure."""

    def __init__(
        self, schedules: Schedules, arena: PlannedBytes, reference: Reference, found: ScheduleReport
    ) -> None:  # fmt: skip
        self.schedules, self.arena, self.reference, self.found = schedules, arena, reference, found
        self.ended = [threading.Event() for _ in schedules.after]
        self.lock = threading.Lock()
        self.running: set[int] = set()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Run all streams to their end, and raise the first failure."""
        streams = sorted(set(self.schedules.stream))
        threads = [threading.Thread(target=self._run_stream, args=(t,), daemon=True) for t in streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failure is not None:
            raise self.failure

    def _run_stream(self, stream: int) -> None:
        for n, on in enumerate(self.schedules.stream):
            if on != stream:
                continue
            try:
                for earlier in self.schedules.after[n]:
                    while not self.ended[earlier].wait(JOIN_S):
                        if self.failure is not None:
                            return
                self._run_step(n)
            except BaseException as error:
                self.failure = self.failure or error
                return

    def _run_step(self, n: int) -> None:
        schedules, found = self.schedules, self.found
        with self.lock:
            self.running.add(n)
            self.arena.begin(n, found)
            found.widest = max(found.widest, len(self.running))
            if schedules.sanitize:
                schedules.check_apart(n, self.running)
        draw = random.Random(f"{found.seed} {n}")
        for access in plan_accesses(schedules.program, n, draw, schedules.pieces):
            time.sleep(0)  # lets another thread make its access
            with self.lock:
                found.report.looks += not access.is_write
                self.arena.perform(self.reference, n, access, sanitize=schedules.sanitize)
        with self.lock:
            self.running.remove(n)
            self.arena.end(n, found)
        self.ended[n].set()


def _mixed(draw: random.Random, steps: int) -> Callable[[Sequence[int]], int]:
    """Return a choice among the steps that can go on, in which some are much more likely than others."""
    speed = [1 << draw.randrange(SPEEDS) for _ in range(steps)]
    return lambda able: draw.choices(able, [speed[n] for n in able])[0]


def _delaying(draw: random.Random, stream: Sequence[int]) -> Callable[[Sequence[int]], int]:
    """Return a choice that prefers some streams to others, and holds one step back for as long as possible.

    The step is held back before it begins, or after some of its accesses, which it makes as early as it can.
    """
    order = list(range(max(stream, default=0) + 1))
    draw.shuffle(order)
    rank = {t: k for k, t in enumerate(order)}
    held, left = draw.randrange(max(1, len(stream))), draw.randrange(2 * PIECES)

    def choose(able: Sequence[int]) -> int:
        nonlocal left
        if held in able and left:
            left -= 1
            return held
        return min(able, key=lambda n: (n == held, rank[stream[n]], n))

    return choose


def all_accesses(program: PlanProgram, n: int) -> Iterator[AccessPiece]:
    """Yield the accesses of a step, each of a whole tensor. A view that it makes is only read, as its base."""
    step = program.steps[n]
    for t in dict.fromkeys(step.operands):
        yield AccessPiece(t, 0, program.sizes[t], is_write=False)
    for t in dict.fromkeys((*step.results, *step.scratch)):
        if t not in program.views:
            yield AccessPiece(t, 0, program.sizes[t], is_write=True)


def plan_accesses(program: PlanProgram, n: int, draw: random.Random, most: int = PIECES) -> Iterator[AccessPiece]:
    """Yield the accesses of a step in pieces: reads in a drawn order, then writes in another."""
    for is_write in (False, True):
        pieces = [
            access._replace(first=first, end=end)
            for access in all_accesses(program, n)
            if access.is_write == is_write
            for first, end in _cut(access.end, draw, most)
        ]
        draw.shuffle(pieces)
        yield from pieces


def _cut(size: int, draw: random.Random, most: int) -> Iterator[tuple[int, int]]:
    """Yield at most `most` ranges that cover `size` bytes."""
    cuts = sorted({draw.randrange(size) for _ in range(most - 1)} if size else ())
    yield from pairwise(dict.fromkeys((0, *cuts, size)))


def _common(program: PlanProgram, a: AccessPiece, b: AccessPiece) -> tuple[int, int] | None:
    """Return the addresses, first and end, that two accesses have in common; None if there are none."""
    if program.arena[a.tensor] != program.arena[b.tensor]:
        return None
    of_a, of_b = program.address[a.tensor], program.address[b.tensor]
    low, high = max(of_a + a.first, of_b + b.first), min(of_a + a.end, of_b + b.end)
    return (low, high) if low < high else None


class PlannedBytes:
    """The arenas of a run, and the owner of each byte: the step that wrote it, and the tensor.

    `log`, if there is one, gets a line for each begin, access and end.
    """

    log: OverlapLog | None = None

    def __init__(self, program: PlanProgram, memory: MappedMemory) -> None:
        self.program, self.memory = program, memory
        self.owners = [Owners() for _ in memory.arenas]
        self.values: list[tuple[int | None, int]] = []
        self.number: dict[tuple[int | None, int], int] = {}
        self.begun: set[int] = set()
        self.ended: set[int] = set()

    def write_given(self, reference: Reference) -> None:
        """Write the caller's tensors."""
        for t in self.program.given:
            if t not in self.program.views:
                self._write(None, t, 0, reference.writes[None, t])

    def begin(self, n: int, found: ScheduleReport) -> None:
        """Log that a step begins. Raises `Corrupted` if a tensor that it reads is not made yet. spec: SIM10.6"""
        found.log.append(("begin", n))
        if self.log is not None:
            self.log.begin(n)
        program = self.program
        for t in program.steps[n].operands:
            maker = program.writer[t]
            if maker not in (NONE, n) and maker not in self.ended:
                text = f"{program.at(n)} reads {program.names[t]} before {program.at(maker)} has made it"
                raise program.corruption_at(text, (program.names[t],), n, t, 0, max(0, program.sizes[t] - 1))

    def end(self, n: int, found: ScheduleReport) -> None:
        """Log that a step has ended."""
        found.log.append(("end", n))
        self.ended.add(n)
        if self.log is not None:
            self.log.end(n)

    def perform(self, reference: Reference, n: int, access: AccessPiece, *, sanitize: bool) -> None:
        """Perform an access of a step: compare what it reads, or write what it computes."""
        program = self.program
        if n not in self.begun:
            self.begun.add(n)
            step = program.steps[n]
            for t in (*step.results, *step.scratch):
                if t not in program.views and not program.is_over(step, t):
                    self._write(n, t, 0, np.full(program.sizes[t], PATTERN, np.uint8))
        t, first, end = access.tensor, access.first, access.end
        if access.is_write:
            self._write(n, t, first, reference.writes[n, t][first:end])
            if self.log is not None:
                self.log.write(n, t)
        else:
            self._read(reference, n, t, first, end, sanitize)

    def check_returned(self, reference: Reference, *, sanitize: bool) -> int:
        """Compare the tensors that the caller reads at the end, and return how many there are."""
        for t in self.program.returned:
            self._read(reference, None, t, 0, self.program.sizes[t], sanitize)
        if self.log is not None:
            self.log.close()
        return len(self.program.returned)

    def _write(self, n: int | None, t: int, first: int, content: Raw) -> None:
        at = self.program.address[t] + first
        a = self.program.arena[t]
        if len(content):
            self.memory.arenas[a].bytes(at, len(content))[:] = content
            value = self.number.setdefault((n, t), len(self.number))
            if value == len(self.values):
                self.values.append((n, t))
            self.owners[a].write(at, at + len(content), value)

    def _read(self, reference: Reference, n: int | None, t: int, first: int, end: int, sanitize: bool) -> None:
        """Raise `Corrupted` if bytes of a tensor are not those that were written for it."""
        if first == end:
            return
        program, a, at = self.program, self.program.arena[t], self.program.address[t]
        expected, found = reference.reads[n, t][first:end], self.memory.arenas[a].look(at + first, end - first)
        wrong = np.flatnonzero(expected != found)
        owner = self.number.get(reference.owner[n, t], -1)
        if self.log is not None:
            held = [run_.value for run_ in self.owners[a].read(at + first, at + end)]
            self.log.read(n, t, [self.values[value] if value >= 0 else None for value in held])
        for run_ in self.owners[a].read(at + first, at + end):
            is_wrong = len(wrong) and run_.first <= at + first + int(wrong[0]) < run_.end
            if is_wrong or (sanitize and run_.value != owner):
                k = first + int(wrong[0]) if is_wrong else run_.first - at
                other, tensor = self.values[run_.value] if run_.value >= 0 else (None, t)
                by = (
                    f"{program.at(other)} has written {program.names[tensor]} there" if run_.value >= 0 else "unwritten"
                )
                byte = f"byte {k} is {found[k - first]:#04x}, expected {expected[k - first]:#04x}"
                text = f"{program.at(n)} reads {program.names[t]}, whose {byte}: {by}"
                names = (program.names[t], *((program.names[tensor],) if tensor != t else ()))
                raise program.corruption_at(text, names, n, t, k, k)


def check_bounds(program: PlanProgram) -> None:
    """Raise `Corrupted` if a tensor ends beyond its arena."""
    needed = metrics.needed_bytes(program.plan)
    for t, size in enumerate(program.sizes):
        if program.address[t] + size > needed[program.arena[t]]:
            raise program.outside(t)
