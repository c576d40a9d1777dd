"""The steps of a plan as a tree: bodies as lists of steps within the nodes that own them.

A run ends with `Corrupted` if the steps do not form a program: a body is entered and never left, or a value is returned
by no body. spec: SIM1.6, T8.1, T8.9
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import MAIN, NodePart, Role
from tmmu.plans.columns import PARTS, ROLES
from tmmu.plans.sections import Plan
from tmmu.simulator.operators import has_body_rule, iterates
from tmmu.simulator.witness import malformed_program

DEEPEST = 100
"""The deepest nesting of bodies."""


class PlanStep(NamedTuple):
    """A step. `operands` and `results` are its reads and writes without its own `scratch`."""

    node: str
    op: tuple[str, str]
    part: NodePart
    body: int
    operands: tuple[int, ...]
    results: tuple[int, ...]
    mutates: tuple[int, ...]
    scratch: tuple[int, ...]


@dataclass(frozen=True)
class BodySteps:
    """A body: its row, its steps in order, and the values that it returns, each with its copy if there is one."""

    body: int
    items: list[int | Holder]
    returns: list[tuple[int, int | None]]

    @property
    def sources(self) -> list[int]:
        """The tensors that the returned values are taken from: the copies, or the values themselves."""
        return [value if copy is None else copy for value, copy in self.returns]


@dataclass(frozen=True)
class Holder:
    """A node with bodies, from its enter to its leave."""

    enter: int
    leave: int
    bodies: list[BodySteps]
    formals: tuple[int, ...]
    results: tuple[int, ...]
    iterates: bool
    exclusive: bool
    """Whether the plan declares that exactly one body runs. spec: X4.1"""


def build_steps(plan: Plan) -> list[PlanStep]:
    """Build the steps of a plan. A step's own scratch is separated from its operands and results."""
    reads, writes, mutates = (plan.allocation.steps.listed(which) for which in plan.allocation.steps.LISTS)
    scratch = ROLES.index(Role.SCRATCH)
    tensors = plan.allocation.tensors
    names, role, writer = tensors.name.list(), tensors.role.tolist(), tensors.writer.tolist()
    made: list[PlanStep] = []
    for n, (op, part, body) in enumerate(
        zip(
            plan.allocation.steps.op.tolist(),
            plan.allocation.steps.part.tolist(),
            plan.allocation.steps.body.tolist(),
            strict=True,
        )
    ):
        own = [
            t
            for t in dict.fromkeys(writes[n])
            if t in reads[n] and t not in mutates[n] and role[t] == scratch and writer[t] == n
        ]
        copies = PARTS[part] is NodePart.LEAVE
        made.append(
            PlanStep(
                plan.allocation.steps.node[n], plan.allocation.ops[op], PARTS[part], body,
                tuple(t for t in reads[n] if copies or t not in own),
                tuple(t for t in writes[n] if copies or t not in own),
                mutates[n], () if copies else tuple(own),
            )
        )  # fmt: skip
        _check_mutates(names, n, made[-1])
    return made


def _check_mutates(names: Sequence[str], n: int, step: PlanStep) -> None:
    """Raise `Corrupted` unless the tensors that a step changes are those that it both reads and writes; a leave copies.

    spec: SIM1.10
    """
    both = {*step.operands} & {*step.results}
    for t in sorted(set(step.mutates) - both):
        raise malformed_program(
            f"{step.node} mutates {names[t]}, which it does not both read and write", names[t], step=n
        )
    for t in sorted(both.difference(step.mutates)) if step.part is not NodePart.LEAVE else ():
        what = f"{step.node} reads and writes {names[t]}, which is neither its scratch nor declared as mutated"
        raise malformed_program(what, names[t], step=n)


class BodyTree:
    """Builds the tree of bodies from the steps of a plan."""

    def __init__(self, plan: Plan, steps: Sequence[PlanStep]) -> None:
        self.steps, bodies = steps, plan.allocation.bodies
        self.names = plan.allocation.tensors.name.list()
        self.parent: list[int] = bodies.parent.tolist()
        self.owned: dict[int, list[int]] = {}
        self.leave: list[int] = bodies.leave.tolist()
        self.exclusive: list[int] = bodies.exclusive.tolist()
        self.writers: dict[int, list[int]] = {}
        for n, step in enumerate(steps):
            for t in step.results:
                self.writers.setdefault(t, []).append(n)
        self.name = bodies.name.list()
        for b, enter in enumerate(bodies.enter.tolist()):
            if b != MAIN:
                self.owned.setdefault(enter, []).append(b)

    def all(self) -> list[int | Holder]:
        """Return the items of the main graph."""
        return self.sequence(0, len(self.steps), MAIN, 0)

    def sequence(self, lo: int, hi: int, body: int, depth: int) -> list[int | Holder]:
        """Return the items of the steps [lo, hi), which all belong to one body.

        Raises `Corrupted` for malformed steps.
        """
        if depth > DEEPEST:
            raise malformed_program(f"bodies nest deeper than {DEEPEST}", step=lo)
        items: list[int | Holder] = []
        n = lo
        while n < hi:
            step = self.steps[n]
            if step.body != body or step.part is NodePart.LEAVE:
                raise malformed_program(
                    f"{step.node} is in no open body, or leaves a node that was not entered", step=n
                )
            if step.part is NodePart.WHOLE:
                items.append(n)
            else:
                items.append(self.holder(n, hi, depth))
                n = items[-1].leave  # type: ignore[union-attr]  # a Holder, added in the line before
            n += 1
        return items

    def holder(self, enter: int, hi: int, depth: int) -> Holder:
        """Build a node with bodies. Its bodies follow one another between its enter and its leave."""
        step, owned = self.steps[enter], self.owned.get(enter, [])
        leaves = {self.leave[b] for b in owned}
        leave = leaves.pop() if len(leaves) == 1 else -1
        if (
            not enter < leave < hi
            or self.steps[leave].part is not NodePart.LEAVE
            or self.steps[leave].node != step.node
        ):
            raise malformed_program(f"{step.node} is entered and never left", step=enter)
        spans: dict[int, tuple[int, int]] = {}
        at = enter + 1
        for b in owned:
            first = at
            while at < leave and self.inside(self.steps[at].body, b):
                at += 1
            spans[b] = first, at
        if at != leave:
            raise malformed_program(f"{self.steps[at].node} is in no open body", step=at)
        last = self.steps[leave]
        inner = {b: BodySteps(b, self.sequence(first, end, b, depth + 1), []) for b, (first, end) in spans.items()}
        for value, copy in self.returned(enter, leave):
            for b in self.returned_by(value, copy, owned, leave):
                inner[b].returns.append((value, copy))
        copies = {copy for body in inner.values() for _, copy in body.returns}
        results = tuple(t for t in last.results if t not in copies)
        for t in sorted({*step.operands}.intersection(results).difference(last.mutates)):
            name = self.names[t]
            raise malformed_program(
                f"{step.node} reads {name}, which its leave is the first to write", name, step=enter
            )
        exclusive = bool(owned) and all(self.exclusive[b] for b in owned)
        again = iterates(*step.op) and not (exclusive and not has_body_rule(*step.op))
        return Holder(enter, leave, list(inner.values()), step.results, results, again, exclusive)

    def inside(self, body: int, around: int) -> bool:
        """Return whether a body is `around`, or is nested within it."""
        for _ in range(DEEPEST + 1):
            if body in (around, NONE):
                break
            body = self.parent[body]
        return body == around

    def returned(self, enter: int, leave: int) -> Iterator[tuple[int, int | None]]:
        """Yield the values that a leave reads, each with the copy that follows it, or None."""
        step = self.steps[leave]
        reads = [t for t in step.operands if t not in self.steps[enter].scratch]
        for t, following in zip(reads, [*reads[1:], NONE], strict=False):
            if t not in step.results:
                yield t, following if following in step.results else None

    def returned_by(self, value: int, copy: int | None, owned: list[int], leave: int) -> list[int]:
        """Return the bodies that return a value: those that make it, the one with its copy's name, or the only one."""
        made = [self.steps[n].body for n in self.writers.get(value, ())] if copy is None else []
        if makers := [b for b in owned if any(self.inside(body, b) for body in made)]:
            return makers
        name = self.names[value if copy is None else copy]
        for b in owned:
            if name.startswith(f"{self.name[b]}/"):
                return [b]
        if len(owned) == 1:
            return owned
        raise malformed_program(f"no body returns {self.names[value]}", self.names[value], step=leave)
