"""Control flow in IREE's dumps: loops are laid out as a few numbers of iterations, alternatives as exclusive branches.

After branches a name denotes the value that either has handed on. Which executes have been awaited then depends on the
branches that were taken. spec: FP9.6
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from proofs.readers.plans.cells import Pointer
from proofs.readers.plans.iree_commands import FunctionCommands
from proofs.readers.plans.iree_slices import DOMAIN, DumpState
from proofs.readers.plans.iree_text import SSA
from proofs.readers.plans.iree_values import (
    ALWAYS,
    MOST_WAYS,
    NEVER,
    EndedExecutes,
    HostMoment,
    NamedValue,
    SliceReference,
    Ways,
    in_order,
)

GIVEN = re.compile(r"(%[\w$.-]++) = (%[\w$.#-]++)", re.ASCII)
BOUNDS = re.compile(r"= (%[\w$.#-]++) to (%[\w$.#-]++) step (%[\w$.#-]++)", re.ASCII)
ITERATIONS = range(2, 5)
"""The numbers of iterations that are laid out, until the body gets memory that it had before. It may also run less
often, or not at all. spec: FP9.6
"""
LOOPS = "two iterations of a loop represent all, or more while each gets other memory: one more finds what one found"


class _Loop(NamedTuple):
    """The names and lines of a loop's body and of the condition after it. A loop that counts has no condition."""

    names: list[str]
    body: tuple[int, int]
    condition: tuple[int, int]
    condition_names: list[str]


class FunctionControl(FunctionCommands, ABC):
    """A function's regions of control flow. Each hands on values."""

    def __init__(self, dump: DumpState, after: tuple[int, str], before: tuple[int, str] | None) -> None:
        super().__init__(dump, after, before)
        self.nodes = self.depth = 0
        self.handed: list[NamedValue] = []
        self.is_settled = False
        """Whether a further iteration would get the same memory as an earlier one."""

    @abstractmethod
    def block(self, at: int, end: int) -> None:
        """Run the lines from `at` up to `end`."""

    def control(self, op: str, at: int, body: str, old: str, results: list[str]) -> int:
        """Run a whole region of control flow, and return the number of the line after it. spec: FP9.6"""
        if op not in ("scf.for", "scf.while", "scf.if"):
            raise self.unknown(op, "control flow of scf.for, scf.while and scf.if is")
        first, last = self.ends[at], self.ends[at]
        second = (first, first)
        if self.pairs[first][0].text.endswith("{"):
            last = self.ends[first]
            second = first + 1, last
        if (op == "scf.while") != (second != (first, first)) and op != "scf.if":
            raise self.refuse(f"expected the regions of {op}")
        if op == "scf.if":
            self.arms(op, [partial(self.region, at + 1, first), partial(self.region, *second)], results)
            return last + 1
        inits = body.partition("iter_args" if op == "scf.for" else "scf.while")[2].partition(")")[0]
        given = GIVEN.findall(inits)
        self.argued([name for name, _ in GIVEN.findall(body.partition("->")[0])], self.constants, {})
        self.argued([name for name, _ in GIVEN.findall(old.partition("->")[0])], self.earlier, self.slices)
        names, values = [name for name, _ in given], [self.value(value) for _, value in given]
        if op == "scf.for":
            loop = _Loop(names, (at + 1, first), (first, first), [])
        else:
            values = self.pass_of(names, values, (at + 1, first))  # its condition is always run
            loop = _Loop(self.block_names(second[0]), (second[0] + 1, last), (at + 1, first), names)
        times = self.times_of(body) if op == "scf.for" else None
        if times is not None and times in range(ITERATIONS.stop):
            handed = self.run_iterations(loop, values, times)
            for k, result in enumerate(results):
                self.bind(result, handed[k] if k < len(handed) else NamedValue())
            return last + 1
        self.dump.assumed[LOOPS] = None
        self.arms(op, self.turns(loop, values, 0 if times is None else 1), results)
        return last + 1

    def turns(self, loop: _Loop, values: list[NamedValue], least: int) -> Iterator[Callable[[], list[NamedValue]]]:
        """Yield runs of `least` iterations, one, two, and more until one gets the memory that an earlier one had."""
        for count in range(least, ITERATIONS.stop):
            yield partial(self.run_iterations, loop, values, count)
            if count in ITERATIONS and self.is_settled:
                return
        raise self.refuse(f"a loop hands on memory in turns of more than {ITERATIONS[-1]} iterations")

    def times_of(self, body: str) -> int | None:
        """Return how often `scf.for %i = %lower to %upper step %step` runs, None if constants do not decide it."""
        found = BOUNDS.search(body)
        known = [self.constants.get(name) for name in found.groups()] if found is not None else [None]
        lower, upper, step = known if len(known) == 3 else (None, None, None)
        if lower is None or upper is None or step is None or step < 1:
            return None
        return max(0, -((lower - upper) // step))

    def run_iterations(self, loop: _Loop, values: list[NamedValue], count: int) -> list[NamedValue]:
        """Run `count` iterations, each with the values that the one before it has handed on. spec: FP9.6"""
        given = [self.memory_of(values)]
        for _ in range(count):
            values = self.pass_of(loop.names, values, loop.body)
            values = self.pass_of(loop.condition_names, values, loop.condition)
            given.append(self.memory_of(values))
        self.is_settled = given[-1] in given[:-1]
        return values

    def pass_of(self, names: list[str], values: list[NamedValue], lines: tuple[int, int]) -> list[NamedValue]:
        """Run a region once with some values, and return those that it hands on."""
        for k, name in enumerate(names):
            self.bind(name, values[k] if k < len(values) else NamedValue())
        return self.region(*lines) if lines[0] < lines[1] else values

    def region(self, at: int, end: int) -> list[NamedValue]:
        """Run a region of control flow, and return the values that it hands on."""
        self.handed, self.depth = [], self.depth + 1
        self.block(at, end)
        self.depth -= 1
        return self.handed

    def argued(self, names: list[str], constants: dict[str, int], slices: dict[str, str]) -> None:
        """Forget the constants of a region's arguments: a region beside it may have such names too. spec: FP9.1"""
        for name in names:
            self.forget(name, constants, slices)

    def block_names(self, at: int) -> list[str]:
        """Return the arguments in `^bb0(%arg3: …):` after `do {`: the names of the values from the condition."""
        line, old = self.pairs[at]
        if not line.text.startswith("^bb"):
            raise self.refuse("expected the arguments of a loop's body")
        self.argued(SSA.findall(line.text), self.constants, {})
        self.argued(SSA.findall(old.text), self.earlier, self.slices)
        return SSA.findall(line.text)

    def memory_of(self, values: list[NamedValue]) -> list[frozenset[SliceReference]]:
        """Return the memory that values are. An allocation in a loop is the same for all iterations."""
        return [
            frozenset(
                ref._replace(resource=ref.resource.partition(" of ")[0], choice=0, ways=ALWAYS)
                for ref in value.references
            )
            for value in values
        ]

    def hand_on(self, body: str) -> None:
        """Hand on the values of `scf.yield` or `scf.condition`, which are read there."""
        if not self.depth:
            raise self.refuse("a yield outside of control flow")
        head = body.partition(" : ")[0]
        self.handed = [
            self.value(name) for name in SSA.findall(head.partition(") ")[2] if "condition" in body else head)
        ]
        self.touch("yield", [ref for value in self.handed for ref in in_order(value.references)])

    def arms(self, kind: str, runs: Iterable[Callable[[], list[NamedValue]]], results: list[str]) -> None:
        """Run exclusive branches, each handing on values, and bind `results` after them. spec: FP9.6

        After them an execute counts as awaited if each branch has awaited it, or only another branch ran it.
        """
        self.memory.begin(kind, (DOMAIN, kind), ())
        self.nodes += 1
        node, before, apart, start = self.nodes, self.now, self.apart, self.executes
        handed, moments, own = list[list[NamedValue]](), list[HostMoment](), list[int]()
        for k, run in enumerate(runs):
            if k:
                self.memory.arm(apart=kind != "scf.if")
            self.now = HostMoment(before.host, before.freed, dict(before.globals))
            first = self.executes
            handed.append(run())
            moments.append(self.now)
            own.append((1 << self.executes) - (1 << first))
            self.apart |= own[-1]
            self.source.count_work(self.executes // 64)
        self.apart = apart
        anew = (1 << self.executes) - (1 << start)
        others = [anew & ~mine for mine in own]
        symbols = sorted({symbol for moment in moments for symbol in moment.globals})
        for values, moment in zip(handed, moments, strict=True):
            del values[len(results) :]
            values += [NamedValue()] * (len(results) - len(values))
            values += [NamedValue(moment.globals.get(symbol, self.initial[symbol])) for symbol in symbols]
        found = self.left(handed, node)
        for k, result in enumerate(results):
            given = [values[k] for values in handed]
            times = (
                self.behind([value.times for value in given], others, node) if any(v.times for v in given) else NEVER
            )
            self.bind(result, NamedValue(found[k], times, frozenset[str]().union(*(value.views for value in given))))
        host = self.behind([moment.host for moment in moments], others, node)
        freed = frozenset[str]().union(*(moment.freed for moment in moments))
        self.now = HostMoment(host, freed, dict(zip(symbols, found[len(results) :], strict=True)))

    def behind(self, ended: list[EndedExecutes], others: list[int], node: int) -> EndedExecutes:
        """Return the executes that have ended after exclusive branches.

        `ended` are those that have ended in each branch, and `others` those that only other branches ran.
        """
        always = -1
        for each, bits in zip(ended, others, strict=True):
            always &= each.always | bits
        first, *rest = ended
        when = {taken: bits for taken, bits in first.when.items() if all(e.when.get(taken) == bits for e in rest)}
        alike = set(when)
        for k, (each, bits) in enumerate(zip(ended, others, strict=True)):
            when[frozenset(((node, k),))] = each.always | bits
            when |= {taken | {(node, k)}: mask | bits for taken, mask in each.when.items() if taken not in alike}
        self.source.count_work(len(when) * (1 + self.executes // 64))
        return EndedExecutes(always, when if len(when) <= MOST_WAYS else {})

    def left(self, handed: list[list[NamedValue]], node: int) -> list[frozenset[SliceReference]]:
        """End control flow, and return the memory that each value denotes in any branch. spec: FP9.6"""
        cells = [{ref: self.cells_of(ref) for value in arm for ref in in_order(value.references)} for arm in handed]
        taken = [[Pointer(cell, 0) for of in arm.values() for cell in of.values()] for arm in cells]
        moved = self.memory.end(taken)
        results = []
        for k in range(len(handed[0])):
            found: dict[SliceReference, list[tuple[int, Ways]]] = {}
            for way, (arm, to, of) in enumerate(zip(handed, moved, cells, strict=True)):
                for ref in in_order(arm[k].references):
                    seen = self.joined(ref, of[ref], to)._replace(ways=ALWAYS)
                    found.setdefault(seen, []).append((way, ref.ways))
            results.append(
                frozenset(ref._replace(ways=self.either_way(node, len(handed), of)) for ref, of in found.items())
            )
        return [self.chosen(refs) for refs in results]

    def either_way(self, node: int, arms: int, given: list[tuple[int, Ways]]) -> Ways:
        """Return the alternatives that mean a memory after a node.

        `given` has the branches that hand it on, each with its own alternatives.
        """
        self.source.count_work(sum(len(taken) + 1 for _, ways in given for taken in ways))
        if len({ways for _, ways in given}) == 1 and len({way for way, _ in given}) == arms:
            return given[0][1]
        found = frozenset(taken | {(node, way)} for way, ways in given for taken in ways)
        return found if len(found) <= MOST_WAYS else ALWAYS
