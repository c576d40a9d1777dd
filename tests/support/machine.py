"""Running the steps of a plan, byte by byte, with random kernels in the place of operators.

Every node is a kernel that mixes all bytes of its operands into every byte of its results, and writes these in random
order while it still reads the operands. An operator that works element by element takes byte i of each operand for byte
i of its results; so one that the plan puts in place may overwrite its operand on the way. Loops run up to three times
and hand values over through their copies; an If takes one of its branches. Every read is noted.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import NodePart
from tmmu.plans.columns import PARTS
from tmmu.plans.sections import Plan

MOST_BYTES = 1 << 12
"""Tensors beyond this are not run: a changed plan may state any size."""


class NotRunnable(Exception):
    """The steps of a (changed) plan make no program, so that nothing can be shown by running them."""


class Step(NamedTuple):
    """A step of a plan, with rows of its tensors."""

    node: str
    op: tuple[str, str]
    part: NodePart
    body: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    mutates: tuple[int, ...]


def steps_of(plan: Plan) -> list[Step]:
    """The steps of a plan."""
    lists = [plan.allocation.steps.listed(which) for which in plan.allocation.steps.LISTS]
    ops = [plan.allocation.ops[k] for k in plan.allocation.steps.op.tolist()]
    parts = [PARTS[k] for k in plan.allocation.steps.part.tolist()]
    return [
        Step(*row)
        for row in zip(plan.allocation.steps.node, ops, parts, plan.allocation.steps.body.tolist(), *lists, strict=True)
    ]


@dataclass(frozen=True)
class Meaning:
    """What a plan's steps mean, by name, so that another plan of the same model can be run with it.

    `views` gives base and first byte of each view, `overwritten` the operands that a node overwrites as it goes,
    `given` and `taken` what the caller writes before and reads after the run, `kept` what must then be unchanged.
    """

    views: dict[str, tuple[str, int]]
    overwritten: dict[str, set[str]]
    given: tuple[str, ...]
    taken: tuple[str, ...]
    kept: frozenset[str]


@dataclass
class Seen:
    """What was observed in a run: the bytes of every read in order, and what went wrong whatever the memory."""

    reads: list[tuple[str, bytes]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class Memory(Protocol):
    """Where the bytes of tensors lie."""

    def load(self, tensor: int) -> bytes:
        """All bytes of a tensor."""

    def store(self, tensor: int, place: int, value: int) -> None:
        """Write one byte of a tensor."""


class Arenas:
    """The memory that a plan describes: bytes by arena and address, dirty at first."""

    def __init__(self, plan: Plan) -> None:
        storage = plan.allocation.tensors.storage
        self.size = plan.allocation.tensors.bytes.tolist()
        self.arena = plan.allocation.storages.arena[storage].tolist()
        self.first = [
            int(offset) + int(window)
            for offset, window in zip(
                plan.allocation.storages.offset[storage], plan.allocation.tensors.window, strict=True
            )
        ]
        self.bytes: dict[tuple[int, int], int] = {}

    def load(self, tensor: int) -> bytes:
        arena, first = self.arena[tensor], self.first[tensor]
        return bytes(self.bytes.get((arena, first + k), (first + k) * 37 & 255) for k in range(self.size[tensor]))

    def store(self, tensor: int, place: int, value: int) -> None:
        self.bytes[self.arena[tensor], self.first[tensor] + place] = value


class Private:
    """Memory of its own for every tensor but for views, which show their bases; what is read unwritten is noted."""

    def __init__(self, plan: Plan, views: dict[int, tuple[int, int]], seen: Seen) -> None:
        self.size, self.names, self.seen = (
            plan.allocation.tensors.bytes.tolist(),
            plan.allocation.tensors.name.list(),
            seen,
        )
        self.at = [_root(t, views) for t in range(len(self.size))]
        self.bytes = [dict[int, int]() for _ in self.size]

    def load(self, tensor: int) -> bytes:
        root, first = self.at[tensor]
        found = [self.bytes[root].get(first + k) for k in range(self.size[tensor])]
        if None in found:
            self.seen.wrong.append(f"{self.names[tensor]} is read before it is written")
        return bytes(value or 0 for value in found)

    def store(self, tensor: int, place: int, value: int) -> None:
        root, first = self.at[tensor]
        self.bytes[root][first + place] = value


def _root(t: int, views: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """The tensor whose bytes a tensor shows, and the first of them."""
    first, passed = 0, set[int]()
    while t in views:
        if t in passed:
            raise NotRunnable("a view shows itself")
        passed.add(t)
        t, offset = views[t]
        first += offset
    return t, first


def observe(plan: Plan, meaning: Meaning, seed: int, *, private: bool) -> Seen:
    """Everything that is read when the plan's steps are run, in private memory or in the plan's arenas."""
    seen = Seen()
    rows = {name: row for row, name in enumerate(plan.allocation.tensors.name)}
    if any(size > MOST_BYTES for size in plan.allocation.tensors.bytes.tolist()):
        raise NotRunnable("a tensor is too large")
    views = {rows[name]: (rows[base], first) for name, (base, first) in meaning.views.items()}
    memory: Memory = Private(plan, views, seen) if private else Arenas(plan)
    Run(plan, meaning, memory, seen, seed).all()
    return seen


def _mix(key: int, operands: Iterable[bytes]) -> int:
    """A byte that depends on every byte of every operand."""
    for operand in operands:
        key = zlib.crc32(operand, key ^ len(operand))
    return (key * 0x9E3779B1 >> 24) & 255


class _Inner(NamedTuple):
    """A body of a node: its row, its steps, and what it returns, each with its copy if there is one."""

    body: int
    steps: list[int]
    returns: list[tuple[int, int | None]]

    def sources(self) -> list[int]:
        """Where the values that the body returns are taken from."""
        return [value if copy is None else copy for value, copy in self.returns]


class Run:
    """One run of a plan's steps in some memory. What is random follows from the seed, the node and how often it ran."""

    def __init__(self, plan: Plan, meaning: Meaning, memory: Memory, seen: Seen, seed: int) -> None:
        self.plan, self.meaning, self.memory, self.seen, self.seed = plan, meaning, memory, seen, seed
        self.steps, self.names, self.size = (
            steps_of(plan),
            plan.allocation.tensors.name.list(),
            plan.allocation.tensors.bytes.tolist(),
        )
        self.rows = {name: row for row, name in enumerate(self.names)}
        self.times: dict[str, int] = {}
        self.ran: set[str] = set()
        """The nodes that have run, within a body those of its last round."""
        self.bodies_at: dict[int, list[int]] = {}
        for b, enter in enumerate(plan.allocation.bodies.enter.tolist()):
            self.bodies_at.setdefault(enter, []).append(b)

    def all(self) -> None:
        """The caller's writes, every step, and the caller's reads."""
        contents = {}
        for name in self.meaning.given:
            row = self.rows[name]
            contents[name] = bytes(_mix(k, [f"{self.seed} {name}".encode()]) for k in range(self.size[row]))
            for k, value in enumerate(contents[name]):
                self.memory.store(row, k, value)
        self.sequence(list(range(len(self.steps))))
        self.look("the caller", [t for t in map(self.rows.__getitem__, self.meaning.taken) if self.written(t)])
        for name in self.meaning.taken:
            if name in self.meaning.kept and self.memory.load(self.rows[name]) != contents[name]:
                self.seen.wrong.append(f"{name} is changed, which the caller keeps")

    def written(self, t: int) -> bool:
        """Was a tensor written in this run? What is saved in a branch that is not taken is not."""
        writer = int(self.plan.allocation.tensors.writer[t])
        return writer == NONE or self.steps[writer].node in self.ran

    def is_view(self, t: int) -> bool:
        """Is a tensor a view, for which nothing is written?"""
        return self.names[t] in self.meaning.views

    def look(self, who: str, tensors: Iterable[int]) -> None:
        """Note what is read."""
        for t in dict.fromkeys(tensors):
            self.seen.reads.append((f"{who} reads {self.names[t]}", self.memory.load(t)))

    def sequence(self, numbers: list[int]) -> None:
        """Run steps one after the other; what lies between an enter and its leave is left to the enter."""
        at = 0
        while at < len(numbers):
            n = numbers[at]
            step = self.steps[n]
            self.times[step.node] = self.times.get(step.node, 0) + 1
            self.ran.add(step.node)
            chance = random.Random(f"{self.seed} {step.node} {self.times[step.node]}")
            if step.part is NodePart.WHOLE:
                self.kernel(step, chance)
                at += 1
                continue
            owned = self.bodies_at.get(n, [])
            leave = int(self.plan.allocation.bodies.leave[owned[0]]) if owned else -1
            if step.part is not NodePart.ENTER or leave not in numbers[at:]:
                raise NotRunnable(f"{step.node} is not entered and left")
            end = numbers.index(leave)
            self.holder(step, self.steps[leave], self.inside(numbers[at + 1 : end], owned, leave), chance)
            at = end + 1

    def inside(self, numbers: list[int], owned: list[int], leave: int) -> list[_Inner]:
        """The bodies of a node, from the steps between its enter and its leave and from what the leave reads."""
        parents = self.plan.allocation.bodies.parent.tolist()
        inner = {b: _Inner(b, [], []) for b in owned}
        for n in numbers:
            b = self.steps[n].body
            for _ in parents:
                b = b if b in inner or b == NONE else parents[b]
            if b not in inner:
                raise NotRunnable(f"{self.steps[n].node} stands in no body that is open")
            inner[b].steps.append(n)
        step = self.steps[leave]
        returned = [t for t in step.reads if t not in self.scratch(step)]
        for t, following in zip(returned, [*returned[1:], NONE], strict=False):
            if t not in step.writes:
                copied = following if following in step.writes else None
                inner[self.returned_by(t, copied, owned)].returns.append((t, copied))
        return list(inner.values())

    def returned_by(self, t: int, copied: int | None, owned: list[int]) -> int:
        """The body that returns a tensor: the one that a copy is named after, or in which the tensor is written."""
        writer = int(self.plan.allocation.tensors.writer[t])
        for b in owned:
            named = copied is not None and self.names[copied].startswith(f"{self.plan.allocation.bodies.name[b]}/")
            if named or (copied is None and writer != NONE and self.steps[writer].body == b):
                return b
        raise NotRunnable(f"no body returns {self.names[t]}")

    def scratch(self, step: Step) -> list[int]:
        """The scratch of a step: what it reads and writes without changing it; of a leave what its enter made so."""
        if step.part is not NodePart.LEAVE:
            return [t for t in step.reads if t in step.writes and t not in step.mutates]
        enters = [other for other in self.steps if other.node == step.node and other.part is NodePart.ENTER]
        return [t for enter in enters for t in self.scratch(enter) if t in step.reads]

    def write(
        self,
        step: Step,
        chance: random.Random,
        what: str,
        written: Sequence[int],
        read: Sequence[int],
        own: bool = False,
    ) -> None:
        """Mix the operands into every byte of `written`, in random order, reading them again for each byte."""
        places = [(k, t, place) for k, t in enumerate(written) for place in range(self.size[t])]
        chance.shuffle(places)
        for k, t, place in places:
            operands = [self.memory.load(r) for r in read]
            if own:
                operands.append(self.memory.load(t)[place : place + 1])
            self.memory.store(t, place, _mix(self.key(step, what, k, place), operands))

    @staticmethod
    def key(step: Step, what: str, k: int, place: int) -> int:
        return zlib.crc32(f"{step.op[1]} {step.node} {what} {k} {place}".encode())

    def kernel(self, step: Step, chance: random.Random) -> None:
        """A step without bodies."""
        scratch = self.scratch(step)
        operands = [t for t in step.reads if t not in scratch]
        self.look(step.node, operands)
        self.write(step, chance, "scratch", scratch, operands)
        results = [t for t in step.writes if t not in (*scratch, *step.mutates) and not self.is_view(t)]
        if step.node in self.meaning.overwritten:
            self.elementwise(step, chance, [*results, *step.mutates], operands, scratch)
            return
        self.write(step, chance, "result", results, [*operands, *scratch])
        self.write(step, chance, "change", step.mutates, [t for t in operands if t not in step.mutates], own=True)

    def elementwise(
        self, step: Step, chance: random.Random, written: Sequence[int], operands: Sequence[int], scratch: Sequence[int]
    ) -> None:
        """Byte i of every result from byte i of every operand, all results of one byte at once.

        Operands that are too short are repeated; not those that are overwritten, which no other byte depends on.
        """
        whole = [t for t in operands if self.size[t] and self.names[t] not in self.meaning.overwritten[step.node]]
        parts = [t for t in operands if self.names[t] in self.meaning.overwritten[step.node]]
        places = list(range(max((self.size[t] for t in written), default=0)))
        chance.shuffle(places)
        for place in places:
            column = [self.memory.load(t)[place % self.size[t] :][:1] for t in whole]
            column += [self.memory.load(t)[place : place + 1] for t in parts]
            column += [self.memory.load(t) for t in scratch]
            for k, t in enumerate(written):
                if place < self.size[t]:
                    self.memory.store(t, place, _mix(self.key(step, "element", k, place), column))

    def holder(self, enter: Step, leave: Step, bodies: list[_Inner], chance: random.Random) -> None:
        """A node with bodies: an If runs one of them; every other operator all of them, up to three times."""
        scratch = self.scratch(enter)
        operands = [t for t in enter.reads if t not in scratch]
        formals = [t for t in enter.writes if t not in scratch]
        copies = {copy for body in bodies for _, copy in body.returns}
        results = [t for t in leave.writes if t not in copies]
        self.look(enter.node, operands)
        self.write(enter, chance, "scratch", scratch, operands)
        if enter.op == ("", "If"):
            self.write(enter, chance, "formal", formals, [*operands, *scratch])
            taken = [chance.choice(bodies)]
            self.sequence(taken[0].steps)
            self.copy(leave, chance, taken)
            sources = taken[0].sources()
            self.look(leave.node, [*sources, *scratch])
            self.write(leave, chance, "result", results, [*sources, *scratch])
            return
        self.write(enter, chance, "formal", [*formals, *results], [*operands, *scratch])
        sources = []
        for _ in range(chance.randrange(4)):
            # What this round does not write, in a branch that it does not take, is no value of it.
            self.ran.difference_update(self.steps[n].node for body in bodies for n in body.steps)
            for body in bodies:
                self.sequence(body.steps)
            sources = [t for body in bodies for t in body.sources()]
            self.copy(leave, chance, bodies)
            self.write(leave, chance, "iteration", results, sources, own=True)
            self.hand_over(chance, sources, formals)
        self.look(leave.node, [*operands, *formals, *sources, *scratch, *results])
        self.write(leave, chance, "result", results, [*operands, *formals, *sources, *scratch], own=True)

    def copy(self, leave: Step, chance: random.Random, bodies: Sequence[_Inner]) -> None:
        """Bytes of their own for what the bodies return but did not make."""
        returned = [pair for body in bodies for pair in body.returns]
        self.look(leave.node, [value for value, _ in returned])
        self.move(chance, [(value, copy) for value, copy in returned if copy is not None])

    def hand_over(self, chance: random.Random, sources: Sequence[int], formals: Sequence[int]) -> None:
        """The formal inputs of the next iteration, from what this one returned."""
        if sources:
            self.move(chance, [(sources[k % len(sources)], formal) for k, formal in enumerate(formals)])

    def move(self, chance: random.Random, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy values byte by byte in random order, as many bytes as the target has."""
        places = [(source, target, k) for source, target in pairs for k in range(self.size[target])]
        chance.shuffle(places)
        for source, target, k in places:
            value = self.memory.load(source)
            self.memory.store(target, k, value[k % len(value)] if value else 0)
