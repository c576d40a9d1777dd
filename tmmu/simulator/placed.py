"""The arenas of a plan as the memory of a run, with a record of the owner of each byte.

An in-place result is written piece by piece while its operand is read, from both ends. A view is not written. Storages
are zeroed at their births, by the plan's lifetimes.
spec: SIM1.4, SIM1.5, SIM2.1, SIM2.2, SIM2.3, SIM3.1, SIM3.2, SIM8.1, SIM8.2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError
from tmmu.runtime.births import Births
from tmmu.runtime.memory import MappedMemory
from tmmu.simulator.bodies import PlanStep
from tmmu.simulator.machine import Look
from tmmu.simulator.memories import PATTERN, Kernel, Raw
from tmmu.simulator.owners import NO_OWNER, Owners
from tmmu.simulator.program import PlanProgram
from tmmu.simulator.witness import Corrupted, Corruption

ONE_BY_ONE = 32
"""In-place results of at most this many elements are computed one by one, larger ones in five unequal pieces."""


Shown = tuple[int, int]
"""The value that a tensor shows, by its number, and the first byte of the value that it shows."""


@dataclass
class Ownership:
    """The owner of each byte of some arenas, and the tensor of each value that was written there.

    The programs of a plan set share it, so that the sanitizer notices what one program wrote over another's tensors.
    `names` has the tensor of each value; None stands for the zeros of a birth.
    """

    owners: list[Owners]
    names: list[str | None] = field(default_factory=list)


class PlacedMemory:
    """The arenas of a plan. Reads and writes are views of mapped memory; no copy is kept.

    Parameters
    ----------
    program, memory
        A plan as a program, and its arenas in memory.
    sanitize
        Record the owner of each byte, for `check`, and let kernels find the pattern in bytes that they are to write.
    careful
        Compute in-place results piece by piece in both directions. Otherwise each is computed once and written whole.
    births, begun
        Zeroes storages at their births, and is called when a step begins. Without them nothing is zeroed.
    held
        Tensors whose bytes are already there.
    ownership
        The record of owners to continue [a new one].
    """

    def __init__(
        self,
        program: PlanProgram,
        memory: MappedMemory,
        *,
        sanitize: bool = False,
        careful: bool = True,
        births: Births | None = None,
        begun: Callable[[int], object] | None = None,
        held: Iterable[int] = (),
        ownership: Ownership | None = None,
    ) -> None:
        self.program, self.memory, self.careful = program, memory, careful
        self.births, self.begun = births, begun
        recorded = ownership or Ownership([Owners() for _ in program.plan.allocation.arenas])
        self.owners, self.values = (recorded.owners if sanitize else []), recorded.names
        self.shown: dict[int, Shown] = {}
        self._view: dict[int, Raw] = {}
        self._probed: list[tuple[Raw, Raw]] = []
        for t in held:
            self._own(t)

    def begin(self, n: int) -> None:
        """Zero the storages born at a step. Raises `Corrupted` if a storage is outside of its arena."""
        if self.births is not None and self.begun is not None:
            try:
                self.begun(n)
            except TmmuError as error:
                if error.code_id != "INVALID_ADDRESS":
                    raise
                text = f"{self.program.at(n)} zeroes a storage that is outside of its arena ({error.what})"
                raise Corrupted(Corruption(text, (), n)) from error
            self.disown_zeroed()

    def disown_zeroed(self) -> None:
        """Record that the bytes of zeroed storages belong to no tensor."""
        if self.owners and self.births is not None:
            s = self.program.plan.allocation.storages
            for k in self.births.overwritten:
                first = int(s.offset[k])
                self.owners[int(s.arena[k])].write(first, first + int(s.bytes[k]), len(self.values))
                self.values.append(None)

    def hold(self, t: int) -> Raw:
        """Return the bytes of a tensor as a view of its arena. Raises `Corrupted` if they are outside of the arena."""
        view = self._view.get(t)
        if view is None:
            try:
                place = self.program.arena[t], self.program.address[t], self.program.sizes[t]
                view = self._view[t] = self.memory.bytes(*place)
            except TmmuError as error:
                raise self.program.outside(t) from error
        return view

    def prepare(self, tensors: Sequence[int]) -> None:
        """Fill the bytes of tensors with the pattern."""
        for t in tensors:
            self.hold(t)[:] = PATTERN
            self._own(t)

    def probe(self, tensors: Sequence[int]) -> None:
        """Fill the bytes of tensors with the pattern. Without the sanitizer, `unprobe` can restore them."""
        if not self.owners:
            self._probed = [(view, np.array(view)) for view in map(self.hold, tensors)]
        self.prepare(tensors)

    def unprobe(self) -> None:
        """Restore the probed bytes, the last first."""
        while self._probed:
            view, before = self._probed.pop()
            view[:] = before

    def store(self, t: int, content: Raw) -> None:
        """Write all bytes of a tensor."""
        self.hold(t)[:] = content
        self._own(t)

    def patch(self, t: int, first: int, content: Raw) -> None:
        """Write some bytes of a tensor that was prepared."""
        self.hold(t)[first : first + len(content)] = content

    def release(self, t: int) -> None:
        """Do nothing: the plan determines which tensor takes the bytes next."""

    def compute(self, n: int, step: PlanStep, kernel: Kernel, operands: Sequence[Raw]) -> None:
        """Compute and write the results; in-place ones come last, because their kernels read the operand to the end."""
        made = kernel(operands)
        over = [k for k, t in enumerate(step.results) if self.program.is_over(step, t)]
        for k, t in enumerate(step.results):
            if k in over:
                continue
            if t in self.program.views:
                self.show(t)
            else:
                self.store(t, made[k])
        if over and self.careful:
            self._piecewise(n, step, kernel, operands, made, over)
        else:
            for k in over:
                self.hold(step.results[k])[:] = made[k]
        for k in over:
            self._own(step.results[k])

    def _piecewise(
        self, n: int, step: PlanStep, kernel: Kernel, operands: Sequence[Raw], first: list[Raw], over: list[int]
    ) -> None:
        """Write results over their operands from both ends, reading operands again before each piece. spec: SIM2.3"""
        targets = [self.hold(step.results[k]) for k in over]
        before = [np.array(target) for target in targets]
        cut = self._cuts([step.results[k] for k in over])
        ends = []
        for order in (range(len(cut) - 1), reversed(range(len(cut) - 1))):
            for target, content in zip(targets, before, strict=True):
                target[:] = content
            made = first
            for position, piece in enumerate(order):
                made = made if position == 0 else self._recompute(n, step, kernel, operands)
                for k, target in zip(over, targets, strict=True):
                    target[cut[piece] : cut[piece + 1]] = made[k][cut[piece] : cut[piece + 1]]
            ends.append([np.array(target) for target in targets])
        for k, one, other in zip(over, *ends, strict=True):
            if not np.array_equal(one, other):
                raise self._in_place(n, step, k, int(np.argmax(one != other)))

    def _recompute(self, n: int, step: PlanStep, kernel: Kernel, operands: Sequence[Raw]) -> list[Raw]:
        """Run a kernel on operands that are partly overwritten by results.

        An error of the kernel counts as corruption.
        """
        try:
            return kernel(operands)
        except TmmuError as error:
            k = next(k for k, t in enumerate(step.results) if self.program.is_over(step, t))
            raise self._in_place(n, step, k, 0) from error

    def _cuts(self, results: list[int]) -> list[int]:
        """Return the boundaries of the pieces in bytes, each a whole number of elements of the widest result."""
        size = max(self.program.sizes[t] for t in results)
        width = max(1, *(BITS[self.program.dtypes[t]] // 8 for t in results))
        count = -(-size // width)
        at = set(range(count)) if count <= ONE_BY_ONE else {0, 1, count // 3, count // 2 + 1, count - 1}
        return [*(k * width for k in sorted(at)), size] if size else [0]

    def show(self, t: int) -> None:
        """Make a tensor a view of its base's current value; nothing is written."""
        base, offset = self.program.views[t]
        if base in self.shown:
            value, first = self.shown[base]
            self.shown[t] = value, first + offset

    def _own(self, t: int) -> None:
        """Record that the bytes of a tensor hold a new value of it."""
        if self.owners:
            address = self.program.address[t]
            self.shown[t] = len(self.values), 0
            self.owners[self.program.arena[t]].write(address, address + self.program.sizes[t], len(self.values))
            self.values.append(self.program.names[t])

    def check(self, look: Look) -> None:
        """Raise `Corrupted` if a byte of a tensor belongs to another value, even an equal one. spec: SIM3.1"""
        n, t = look.step, look.tensor
        name, arena, address = self.program.names[t], self.program.arena[t], self.program.address[t]
        value, first_byte = self.shown.get(t, (NO_OWNER, 0))
        for run in self.owners[arena].read(address, address + self.program.sizes[t]):
            if (run.value, run.first - run.origin) == (value, run.first - address + first_byte) and value != NO_OWNER:
                continue
            other = self._owner_name(run.value)
            what = "an earlier value of it" if other == name else other
            text = f"{self.program.at(n)} {look.verb} {name}, whose bytes hold {what}"
            raise self.program.corruption_at(text, (name, other), n, t, run.first - address, run.end - 1 - address)

    def _owner_name(self, value: int) -> str:
        if value == NO_OWNER:
            return "nothing"
        return self.values[value] or "the zeros of a birth"

    def _in_place(self, n: int, step: PlanStep, k: int, at: int) -> Corrupted:
        t = step.results[k]
        names = [self.program.names[t]]
        if t in self.program.in_place:
            names.append(self.program.names[self.program.in_place[t]])
        text = f"{self.program.at(n)} computes {names[0]} over {names[-1]}, but reads its elements again"
        return self.program.corruption_at(text, tuple(names), n, t, at, at)
