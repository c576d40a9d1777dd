"""A plan as a program that can be run: steps with what they touch, bodies as lists of steps within their nodes.

Nothing here is believed of lifetimes, storages and slots: a run needs the steps, and where each tensor's bytes are.
Steps that make no program (a body that is entered and never left, a value that nobody returns) end the run.
spec: SIM1.2, SIM2.1, SIM2.2, T8.1, T8.9
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tmmu.plan.columns import IS_INPUT, IS_OUTPUT, IS_SAVED, NONE, PARTS, ROLES, SHARES, Plan
from tmmu.runtime.simulator.operators import iterates, known, shows
from tmmu.runtime.simulator.witness import malformed
from tmmu.vocabulary import MAIN, Part, Role, Shares

DEEPEST = 100
"""How deeply bodies may nest."""


class Step(NamedTuple):
    """A step: `operands` and `results` are what it reads and writes without its own `scratch`."""

    node: str
    op: tuple[str, str]
    part: Part
    body: int
    operands: tuple[int, ...]
    results: tuple[int, ...]
    mutates: tuple[int, ...]
    scratch: tuple[int, ...]


@dataclass(frozen=True)
class Inner:
    """A body: its row, its steps in order, and the values that it returns, each with its copy if there is one."""

    body: int
    items: list[int | Holder]
    returns: list[tuple[int, int | None]]

    @property
    def sources(self) -> list[int]:
        """The tensors from which what the body returns is taken."""
        return [value if copy is None else copy for value, copy in self.returns]


@dataclass(frozen=True)
class Holder:
    """A node with bodies, from its enter to its leave."""

    enter: int
    leave: int
    bodies: list[Inner]
    formals: tuple[int, ...]
    results: tuple[int, ...]
    iterates: bool


@dataclass
class Program:
    """A plan to be run. `views` and `in_place` are the plan's words on sharing that are tried (`spec/simulator.md`).

    `views` gives base and first byte, `in_place` the operand, `given` what the caller writes, `returned` what it reads
    in the end, `kept` what must then be as it was.
    """

    plan: Plan
    donated: frozenset[str] = frozenset()
    names: list[str] = field(init=False)
    sizes: list[int] = field(init=False)
    steps: list[Step] = field(init=False)
    items: list[int | Holder] = field(init=False)
    views: dict[int, tuple[int, int]] = field(init=False, default_factory=dict)
    in_place: dict[int, int] = field(init=False, default_factory=dict)
    given: list[int] = field(init=False)
    returned: list[int] = field(init=False)
    kept: frozenset[int] = field(init=False)
    tied: list[int] = field(init=False, default_factory=list)
    """What the caller writes as a view of something else that it writes, bases first."""

    def __post_init__(self) -> None:
        t = self.plan.tensors
        self.names, self.sizes = t.name.list(), t.bytes.tolist()
        self.writer, self.dtypes = t.writer.tolist(), [self.plan.dtypes[k] for k in t.dtype.tolist()]
        self.home: list[int] = t.storage.tolist()
        self.arena: list[int] = self.plan.storages.arena[t.storage].tolist()
        offsets = self.plan.storages.offset[t.storage].tolist()
        self.address = [offset + window for offset, window in zip(offsets, t.window.tolist(), strict=True)]
        self.steps = _steps(self.plan)
        persistent = {ROLES.index(Role.PARAMETER), ROLES.index(Role.OPTIMIZER)}
        callers = {*persistent, ROLES.index(Role.INPUT)}
        self.given = [
            i
            for i, (writer, role, flags) in enumerate(zip(self.writer, t.role.tolist(), t.flags.tolist(), strict=True))
            if writer == NONE and (role in callers or flags & IS_INPUT)
        ]
        read = IS_OUTPUT | (IS_SAVED if self.plan.mode == "forward" else 0)
        self.kept = frozenset(
            i for i in self.given if int(t.role[i]) in persistent and self.names[i] not in self.donated
        )
        self._share()
        self.returned = [i for i, flags in enumerate(t.flags.tolist()) if flags & read or i in self.kept]
        self._tie()
        self.items = _Tree(self).all()

    def is_over(self, step: Step, t: int) -> bool:
        """Is a result written over what its step reads: in place, or as the change of an operand?"""
        return t in self.in_place or (t in step.mutates and t in step.operands)

    def at(self, n: int | None) -> str:
        """How a step is named to people."""
        return f"step {n} ({self.steps[n].node})" if n is not None and n < len(self.steps) else "the caller"

    def _share(self) -> None:
        """Find the words on sharing that can be tried. spec: SIM2.1, SIM2.2"""
        t = self.plan.tensors
        for w, (word, of, n) in enumerate(zip(t.shares.tolist(), t.of.tolist(), self.writer, strict=True)):
            if of == NONE:
                continue
            if n == NONE:
                self._caller_view(w, of, SHARES[word])
                continue
            step = self.steps[n]
            if step.part is not Part.WHOLE or of not in step.operands or w not in step.results or w in step.mutates:
                continue
            if SHARES[word] is Shares.VIEW and (offset := self._shown(step, w, of)) is not None:
                self.views[w] = (of, offset)
            same = (self.arena[w], self.address[w], self.sizes[w]) == (self.arena[of], self.address[of], self.sizes[of])
            if SHARES[word] is Shares.IN_PLACE and same:
                self.in_place[w] = of

    def _shown(self, step: Step, w: int, of: int) -> int | None:
        """The byte of `of` at which its view `w` begins, or None where the operator is no view."""
        if known(step.op[0]):
            whole = self.sizes[w] == self.sizes[of] and step.operands[0] == of
            return 0 if whole and shows(*step.op, step.results.index(w)) else None
        return self._window(w, of)

    def _caller_view(self, w: int, of: int, word: Shares) -> None:
        """Tied weights: what the caller writes once under two names."""
        offset = self._window(w, of) if word is Shares.VIEW and {w, of} <= set(self.given) else None
        if offset is not None:
            self.views[w] = (of, offset)

    def _tie(self) -> None:
        """Put the caller's views in an order in which bases come first."""
        waiting = [t for t in self.given if t in self.views]
        ready = {t for t in self.given if t not in self.views}
        while waiting:
            now = [t for t in waiting if self.views[t][0] in ready]
            if not now:
                raise malformed(f"{self.names[waiting[0]]} is a view of itself", self.names[waiting[0]])
            self.tied += now
            ready.update(now)
            waiting = [t for t in waiting if t not in ready]

    def _window(self, w: int, of: int) -> int | None:
        t = self.plan.tensors
        offset = int(t.window[w]) - int(t.window[of])
        inside = 0 <= offset <= self.sizes[of] - self.sizes[w]
        return offset if inside and t.storage[w] == t.storage[of] else None


def _steps(plan: Plan) -> list[Step]:
    reads, writes, mutates = (plan.steps.listed(which) for which in plan.steps.LISTS)
    scratch = ROLES.index(Role.SCRATCH)
    role, writer = plan.tensors.role.tolist(), plan.tensors.writer.tolist()
    made = []
    for n, (op, part, body) in enumerate(
        zip(plan.steps.op.tolist(), plan.steps.part.tolist(), plan.steps.body.tolist(), strict=True)
    ):
        own = [
            t
            for t in dict.fromkeys(writes[n])
            if t in reads[n] and t not in mutates[n] and role[t] == scratch and writer[t] == n
        ]
        copies = PARTS[part] is Part.LEAVE
        made.append(
            Step(
                plan.steps.node[n], plan.ops[op], PARTS[part], body,
                tuple(t for t in reads[n] if copies or t not in own),
                tuple(t for t in writes[n] if copies or t not in own),
                mutates[n], () if copies else tuple(own),
            )
        )  # fmt: skip
    return made


class _Tree:
    """The steps of a plan as a tree of bodies."""

    def __init__(self, program: Program) -> None:
        self.program, self.steps, bodies = program, program.steps, program.plan.bodies
        self.owned: dict[int, list[int]] = {}
        self.leave: list[int] = bodies.leave.tolist()
        self.name = bodies.name.list()
        for b, enter in enumerate(bodies.enter.tolist()):
            if b != MAIN:
                self.owned.setdefault(enter, []).append(b)

    def all(self) -> list[int | Holder]:
        return self.sequence(0, len(self.steps), MAIN, 0)

    def sequence(self, lo: int, hi: int, body: int, depth: int) -> list[int | Holder]:
        """What is run of the steps [lo, hi), all of one body."""
        if depth > DEEPEST:
            raise malformed(f"bodies nest deeper than {DEEPEST}", step=lo)
        items: list[int | Holder] = []
        n = lo
        while n < hi:
            step = self.steps[n]
            if step.body != body or step.part is Part.LEAVE:
                raise malformed(f"{step.node} stands in no body that is open, or leaves what it did not enter", step=n)
            if step.part is Part.WHOLE:
                items.append(n)
            else:
                items.append(self.holder(n, hi, depth))
                n = items[-1].leave  # type: ignore[union-attr]  # a Holder, added in the line before
            n += 1
        return items

    def holder(self, enter: int, hi: int, depth: int) -> Holder:
        """A node with bodies. Its bodies stand one after the other between its enter and its leave."""
        step, owned = self.steps[enter], self.owned.get(enter, [])
        leaves = {self.leave[b] for b in owned}
        leave = leaves.pop() if len(leaves) == 1 else -1
        if not enter < leave < hi or self.steps[leave].part is not Part.LEAVE or self.steps[leave].node != step.node:
            raise malformed(f"{step.node} is entered and not left", step=enter)
        spans: dict[int, tuple[int, int]] = {}
        at = enter + 1
        for b in owned:
            first = at
            while at < leave and self.inside(self.steps[at].body, b):
                at += 1
            spans[b] = first, at
        if at != leave:
            raise malformed(f"{self.steps[at].node} stands in no body that is open", step=at)
        last = self.steps[leave]
        inner = {b: Inner(b, self.sequence(first, end, b, depth + 1), []) for b, (first, end) in spans.items()}
        for value, copy in self.returned(enter, leave):
            inner[self.returned_by(value, copy, owned, leave)].returns.append((value, copy))
        copies = {copy for body in inner.values() for _, copy in body.returns}
        results = tuple(t for t in last.results if t not in copies)
        return Holder(enter, leave, list(inner.values()), step.results, results, iterates(*step.op))

    def inside(self, body: int, around: int) -> bool:
        """Is a body another one, or within it?"""
        parents = self.program.plan.bodies.parent
        for _ in range(DEEPEST + 1):
            if body in (around, NONE):
                break
            body = int(parents[body])
        return body == around

    def returned(self, enter: int, leave: int) -> Iterator[tuple[int, int | None]]:
        """The values that a leave reads, each with the copy that follows it."""
        step = self.steps[leave]
        reads = [t for t in step.operands if t not in self.steps[enter].scratch]
        for t, following in zip(reads, [*reads[1:], NONE], strict=False):
            if t not in step.results:
                yield t, following if following in step.results else None

    def returned_by(self, value: int, copy: int | None, owned: list[int], leave: int) -> int:
        """The body that returns a value: that of its copy's name, or in which it is made, or the only one."""
        writer = self.program.writer[value]
        for b in owned:
            name = self.program.names[value if copy is None else copy]
            made = copy is None and writer != NONE and self.steps[writer].body == b
            if made or name.startswith(f"{self.name[b]}/"):
                return b
        if len(owned) == 1:
            return owned[0]
        raise malformed(f"no body returns {self.program.names[value]}", self.program.names[value], step=leave)
