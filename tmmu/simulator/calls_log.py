"""Log the calls of a plan set, access by access, for `tla/tmmu/PlanSet.tla`.

The log states first the accesses that every program makes, by the plans, and where its tensors are stored. Then it has
a line for each access that a run makes. A read states in which call the bytes that it found were written, by the
sanitizer's owners; 0 stands for what the caller wrote before the first call that takes it. A view is logged as its
base, and a second read of a tensor directly after the first is not logged. spec: U5.23
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tmmu.core.errors import TmmuError
from tmmu.plans import metrics
from tmmu.runtime.events import EventLog
from tmmu.simulator.calls import CalledProgram, SetCalls
from tmmu.simulator.machine import Look
from tmmu.simulator.program import PlanProgram

Access = tuple[bool, int]
"""Whether the tensor is written, and its row in the program."""


@dataclass
class CallsLog:
    """The log of the calls of one set. `calls` must run with the sanitizer.

    Raises INVALID_PLAN for a program with loops or branches, whose accesses are not the same in every call.
    """

    calls: SetCalls
    events: EventLog
    number: dict[tuple[str, int], int] = field(init=False, default_factory=dict)
    """The number of each tensor in the log, by program and row."""
    began: list[int] = field(init=False, default_factory=list)
    """The number of values before each call."""
    loaded: set[int] = field(init=False, default_factory=set)
    """The values that the caller wrote before they were taken for the first time."""
    last: Access | None = field(init=False, default=None)
    """The last access of the call, if it was a read."""

    def __post_init__(self) -> None:
        programs = self.calls.programs
        self.index = {name: k for k, name in enumerate(programs)}
        base = _bases(programs)
        regions: dict[str, int] = {}
        weights, states, tensors, accesses = set[int](), set[int](), list[list[int]](), list[list[int]]()
        left = {kept for each in programs.values() for kept, t in each.leaves.items() if each.takes.get(kept) != t}
        for name, each in programs.items():
            program = each.program
            if len(program.plan.allocation.bodies) > 1:
                raise TmmuError(
                    "INVALID_PLAN", f"the program {name} has loops or branches, whose accesses are not logged",
                    fix="leave out --events",
                )  # fmt: skip
            held = {t: kept for kept, t in (*each.takes.items(), *each.leaves.items())}
            made = list(_accesses(each))
            written = {t for writes, t in made if writes}
            for t in sorted({t for _, t in made}):
                self.number[name, t] = len(tensors)
                kept = held.get(_root(program, t))
                home = regions.setdefault(kept if kept is not None else f"{name}\n{t}", len(regions))
                if kept is not None and t in written:
                    left.add(kept)
                arena = program.plan.allocation.arenas[program.arena[t]].name
                tensors.append([self.index[name], base[arena] + program.address[t], program.sizes[t], home])
            accesses += [[self.index[name], int(writes), self.number[name, t]] for writes, t in made]
        for kept in {kept for each in programs.values() for kept in (*each.takes, *each.leaves)} & regions.keys():
            (states if kept in left else weights).add(regions[kept])
        initial = {regions[kept] for kept in self.calls.initial if kept in regions}
        self.regions = regions
        self.events(
            "set opened", programs=list(programs), tensors=tensors, accesses=accesses, weights=sorted(weights),
            states=sorted(states), provided=sorted(initial | weights),
        )  # fmt: skip

    def begin(self, name: str) -> None:
        """Log what the caller writes for this call, and the call."""
        missing = self.calls.find_missing(name)
        for kept in missing:
            if kept in self.regions:
                self.events("set load", home=self.regions[kept])
        self.first = {self.calls.programs[name].takes[kept] for kept in missing}
        self.name = name
        self.last = None
        self.began.append(len(self.calls.values))
        self.events("set call", program=self.index[name], call=len(self.began))

    def observe(self, look: Look) -> None:
        """Log an access of the program that runs."""
        each = self.calls.programs[self.name]
        program = each.program
        t = _root(program, look.tensor)
        shown = self.calls.batches[self.name].placed.shown
        if look.step is None and look.written and t in each.takes.values():
            if t in self.first:
                self.loaded.add(shown[t][0])
            return
        access = _access_of(program, look)
        if access is None or access == self.last:
            return
        self.last = None if access[0] else access
        number = self.number[self.name, access[1]]
        if access[0]:
            self.events("set write", tensor=number)
        else:
            self.events("set read", tensor=number, call=self._found(program, access[1]))

    def end(self) -> None:
        """Log that the program has returned."""
        self.events("set return", program=self.index[self.name])

    def _found(self, program: PlanProgram, t: int) -> int:
        """Return the call that wrote the bytes of a tensor, by the owner of its first byte."""
        first = program.address[t]
        owners = self.calls.batches[self.name].placed.owners[program.arena[t]]
        for run in owners.read(first, first + min(1, program.sizes[t])):
            if run.value in self.loaded:
                return 0
            return sum(run.value >= begun for begun in self.began)
        return len(self.began)


def _access_of(program: PlanProgram, look: Look) -> Access | None:
    """Return the access that a look is, None for a view that is shown."""
    scratch = look.step is not None and look.tensor in program.steps[look.step].scratch
    if look.written or scratch:
        return None if look.tensor in program.views else (True, look.tensor)
    return False, _root(program, look.tensor)


def _accesses(each: CalledProgram) -> Iterator[Access]:
    """Yield the accesses of a call by the plan, as `CallsLog.observe` logs them."""
    program = each.program
    looks = [Look(None, t, written=True) for t in program.given if t not in each.takes.values()]
    for n, step in enumerate(program.steps):
        looks += [Look(n, t) for t in dict.fromkeys(step.operands)]
        looks += [Look(n, t, written=True) for t in dict.fromkeys(step.results)]
        looks += [Look(n, t) for t in dict.fromkeys(step.scratch)]
    looks += [Look(None, t) for t in program.returned]
    last: Access | None = None
    for look in looks:
        access = _access_of(program, look)
        if access is not None and access != last:
            yield access
            last = None if access[0] else access


def _root(program: PlanProgram, t: int) -> int:
    """Return the tensor whose bytes a view shows in the end."""
    while t in program.views:
        t = program.views[t][0]
    return t


def _bases(programs: Mapping[str, CalledProgram]) -> dict[str, int]:
    """Return an address for each arena of the set, by name, so that no two overlap."""
    sizes: dict[str, int] = {}
    for each in programs.values():
        plan = each.program.plan
        for arena, size in zip(plan.allocation.arenas, metrics.needed_bytes(plan), strict=True):
            sizes[arena.name] = max(size, sizes.get(arena.name, 0))
    base, found = 0, dict[str, int]()
    for name, size in sizes.items():
        found[name], base = base, base + size
    return found
