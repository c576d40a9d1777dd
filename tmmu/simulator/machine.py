"""Run the steps of a program in a memory, and yield when each tensor must hold its value.

`run` is a generator of looks: after each read or write of a step, it yields the tensor. So a run in private memory and
one in arenas advance together. Their bytes are compared at every look, before anything is computed from them.
spec: SIM1.1, SIM1.2, T8.1, T8.2, T8.9, V1.10
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from tmmu.core.columns import NONE
from tmmu.simulator.bodies import BodySteps, Holder
from tmmu.simulator.memories import PATTERN, Raw, Store
from tmmu.simulator.program import PlanProgram
from tmmu.simulator.witness import Corrupted, Corruption


class Rounds(Protocol):
    """One execution of a node with bodies: the bodies that run, their inputs, and their contribution to the results."""

    def choose(self, sources: Sequence[Raw]) -> list[int]:
        """Return the bodies, by position in the node, that run next; empty if the node is to be left."""

    def formals(self, operands: Sequence[Raw], sources: Sequence[Raw]) -> list[Raw | None]:
        """Return the next values of all formal inputs; None leaves one unchanged."""

    def collected(self, sources: Sequence[Raw]) -> list[tuple[int, int, Raw]]:
        """Return the parts of the node's results known after a round: position of the result, first byte, bytes."""

    def results(self, operands: Sequence[Raw], sources: Sequence[Raw], own: Sequence[Raw]) -> list[Raw]:
        """Return the node's results, from the values that the last round returned and the parts that were collected."""


class Kernels(Protocol):
    """What operators compute, from bytes to bytes. Equal operands always give equal results."""

    def given(self, t: int) -> Raw:
        """Return the caller's value of a tensor."""

    def scratch(self, t: int) -> Raw:
        """Return the bytes that a step leaves in its scratch."""

    def compute(self, n: int, operands: Sequence[Raw]) -> list[Raw]:
        """Compute the results of a step without bodies."""

    def rounds(self, holder: Holder, operands: Sequence[Raw]) -> Rounds:
        """Begin to execute a node with bodies."""


class Look(NamedTuple):
    """A moment at which a tensor must hold its value: at a step, or before the first or after the last step (None).

    If `written`, the step or the caller has just written it; otherwise it is about to be read. If it is `carried`, the
    caller wrote it before an earlier batch, or another program of a set left it.
    """

    step: int | None
    tensor: int
    written: bool = False
    carried: bool = False

    @property
    def verb(self) -> str:
        """The verb for messages: how the tensor is accessed."""
        if self.carried:
            return "has kept"
        if not self.written:
            return "reads"
        return "has written" if self.step is None else "writes"


def run(
    program: PlanProgram,
    memory: Store,
    kernels: Kernels,
    given: Callable[[int], Raw] | None = None,
    carried: frozenset[int] = frozenset(),
) -> Iterator[Look]:
    """Run a program: the caller's writes, every step, the caller's reads.

    The caller's values are looked at once all of them are written: since the order of the writes is open, no two values
    may overlap. spec: SIM1.9

    `given` returns the caller's values (default: the kernels'). Tensors that are `carried` over from the batch before
    are not written again. Raises `Corrupted` if a step cannot be executed at all. O(accesses) plus the cost of the
    kernels.
    """
    given = given or kernels.given
    for t in program.given:
        if t not in program.views and t not in carried:
            memory.store(t, given(t))
    for t in program.tied:
        memory.show(t)
    for t in program.given:
        yield Look(None, t, written=True, carried=t in carried)
    yield from _Machine(program, memory, kernels).all()


class _Machine:
    """One run of a program."""

    def __init__(self, program: PlanProgram, memory: Store, kernels: Kernels) -> None:
        self.program, self.memory, self.kernels = program, memory, kernels
        self.executed: set[int] = set()
        self.missing: set[int] = set()
        """Copies that no body has returned in the last round of its node."""
        self.dies = _last_uses(program)
        self.writers: dict[int, set[int]] = {}
        for n, step in enumerate(program.steps):
            for t in step.results:
                self.writers.setdefault(t, set()).add(n)

    def all(self) -> Iterator[Look]:
        for item in self.program.items:
            yield from self.item(item)
            for t in self.dies.get(item.leave if isinstance(item, Holder) else item, ()):
                self.memory.release(t)
        writer = self.program.writer
        for t in self.program.returned:
            # A tensor that is saved in a branch not taken is neither written nor looked at; nor is a copy of it.
            if t in self.missing:
                continue
            if writer[t] == NONE or not self.executed.isdisjoint(self.writers.get(t, (writer[t],))):
                yield Look(None, t)

    def item(self, item: int | Holder) -> Iterator[Look]:
        if isinstance(item, Holder):
            yield from self.holder(item)
        else:
            yield from self.step(item)

    def step(self, n: int) -> Iterator[Look]:
        """Run a step without bodies."""
        step, program = self.program.steps[n], self.program
        self.executed.add(n)
        self.memory.begin(n)
        fresh = [
            t
            for t in step.results
            if t not in program.views and t not in program.in_place and not (t in step.mutates and t in step.operands)
        ]
        held = self.hold(step.operands)
        self.memory.prepare(step.scratch)
        self.memory.probe(fresh)
        for t in step.scratch:
            self.memory.store(t, self.kernels.scratch(t))
        yield from self.looks(n, step.operands)
        self.memory.unprobe()
        self.memory.compute(n, step, partial(self.kernels.compute, n), held)
        yield from self.looks(n, step.results, written=True)
        yield from self.looks(n, step.scratch)

    def looks(self, n: int, tensors: Sequence[int], *, written: bool = False) -> Iterator[Look]:
        for t in dict.fromkeys(tensors):
            yield Look(n, t, written)

    def hold(self, tensors: Sequence[int]) -> list[Raw]:
        """Return the bytes of tensors, before other tensors are prepared.

        In private memory they do not change afterwards. In an arena they are views, which show later changes of the
        bytes.
        """
        return [self.memory.hold(t) for t in tensors]

    def holder(self, holder: Holder) -> Iterator[Look]:
        """Run a node with bodies: enter, its rounds, leave."""
        n, memory = holder.enter, self.memory
        step = self.program.steps[n]
        self.executed |= {n, holder.leave}
        copies = {copy for inner in holder.bodies for _, copy in inner.returns if copy is not None}
        self.missing |= copies
        memory.begin(n)
        held = self.hold(step.operands)
        memory.prepare([*step.scratch, *holder.formals])
        growing = holder.results if holder.iterates else ()
        for t in growing:  # they own their bytes from the enter on, whenever they are written. spec: T8.3, SIM1.11
            memory.store(t, np.full(self.program.sizes[t], PATTERN, np.uint8))
        for t in step.scratch:
            memory.store(t, self.kernels.scratch(t))
        yield from self.looks(n, step.operands)
        rounds = self.kernels.rounds(holder, held)
        contents = rounds.formals(held, ())
        self.hand(holder, contents)
        # A scan over an empty input has no element to pass.
        formals = [t for t, content in zip(holder.formals, contents, strict=True) if content is not None]
        sources: list[int] = []
        returned: list[Raw] = []
        again = False
        while chosen := rounds.choose(returned):
            if again:
                held = self.hold(step.operands)  # the bodies may have changed them
                memory.prepare(holder.formals)
                yield from self.looks(holder.leave, (*(t for t in sources if t not in holder.formals), *step.operands))
                self.hand(holder, rounds.formals(held, returned))
            again = True
            # A value that the last round does not write, in a branch not taken, does not count as a value of that
            # round.
            self.executed.difference_update(range(holder.enter + 1, holder.leave))
            self.missing |= copies
            bodies = [holder.bodies[k] for k in chosen]
            for inner in bodies:
                for item in inner.items:
                    yield from self.item(item)
            memory.begin(holder.leave)
            yield from self.copy(holder.leave, bodies)
            sources = [t for inner in bodies for t in inner.sources]
            yield from self.looks(holder.leave, sources)
            returned = self.hold(sources)
            for k, first, content in rounds.collected(returned):
                memory.patch(holder.results[k], first, content)
        if not again:
            memory.begin(holder.leave)
        held, own = self.hold(step.operands), self.hold(holder.results)
        if not holder.iterates:
            memory.prepare(self.beside(holder, sources))
        needed = (*step.operands, *formals, *growing) if holder.iterates else ()
        yield from self.looks(holder.leave, (*sources, *needed, *step.scratch))
        made = rounds.results(held, returned, own)
        for t, content in zip(holder.results, made, strict=True):
            memory.store(t, content)
        yield from self.looks(holder.leave, holder.results, written=True)

    def beside(self, holder: Holder, sources: Sequence[int]) -> list[int]:
        """Return the results without those placed on the value returned for them (exclusive branches). spec: X4.6"""
        program = self.program
        if not holder.exclusive or len(sources) != len(holder.results):
            return list(holder.results)

        def place(t: int) -> tuple[int, int, int]:
            return program.arena[t], program.address[t], program.sizes[t]

        return [t for t, source in zip(holder.results, sources, strict=True) if place(t) != place(source)]

    def hand(self, holder: Holder, contents: Sequence[Raw | None]) -> None:
        """Write the values of the formal inputs."""
        for t, content in zip(holder.formals, contents, strict=True):
            if content is not None:
                self.memory.store(t, content)

    def copy(self, n: int, bodies: Sequence[BodySteps]) -> Iterator[Look]:
        """Copy the values that bodies return but did not make."""
        pairs = [(value, copy) for inner in bodies for value, copy in inner.returns if copy is not None]
        held = self.hold([value for value, _ in pairs])
        self.memory.prepare([copy for _, copy in pairs])
        yield from self.looks(n, [value for inner in bodies for value, _ in inner.returns])
        for (value, copy), content in zip(pairs, held, strict=True):
            if self.program.sizes[value] != self.program.sizes[copy]:
                names = self.program.names[value], self.program.names[copy]
                raise Corrupted(Corruption(f"{names[1]} is not a copy of {names[0]}: their sizes differ", names, n))
            self.memory.store(copy, content)
            self.missing.discard(copy)


def _last_uses(program: PlanProgram) -> dict[int, list[int]]:
    """Return the tensors last used by each step of the main graph; a node's bodies use theirs until its leave."""
    last: dict[int, int] = {}
    for n, step in enumerate(program.steps):
        for t in (*step.operands, *step.results, *step.scratch):
            last[t] = n
    outer = list(range(len(program.steps)))
    for item in program.items:
        if isinstance(item, Holder):
            outer[item.enter : item.leave + 1] = [item.leave] * (item.leave + 1 - item.enter)
    kept = {*program.returned, *program.given}
    found: dict[int, list[int]] = {}
    for t, n in last.items():
        if t not in kept:
            found.setdefault(outer[n], []).append(t)
    return found
