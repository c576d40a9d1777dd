"""The memory interface of a run, and the memory in which every tensor has separate bytes.

Both memories of a run, this one and the arenas (`placed`), perform the same operations at the same moments, so that
they can be compared at each. Bytes that are about to be written are first overwritten with a pattern. So a result that
overlaps bytes still needed shows at once. spec: SIM1.1, SIM1.3, SIM1.4, SIM1.8
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tmmu.core.errors import TmmuError
from tmmu.simulator.bodies import PlanStep
from tmmu.simulator.program import PlanProgram

Raw = NDArray[np.uint8]
"""The bytes of one tensor."""

Kernel = Callable[[Sequence[Raw]], list[Raw]]
"""Computes the bytes of all results from those of all operands."""

NOTHING: Raw = np.empty(0, np.uint8)

PATTERN = 0xA5
"""Fills bytes that are about to be written. As a float of any width it is tiny, negative, and not a NaN."""


class Store(Protocol):
    """A memory. `hold` returns the bytes of a tensor; the other methods write."""

    def hold(self, t: int) -> Raw:
        """Return the bytes of a tensor, for use after other tensors were prepared; empty if it was never written."""

    def begin(self, n: int) -> None:
        """Begin a step: zero the storages born there."""

    def prepare(self, tensors: Sequence[int]) -> None:
        """Fill the bytes of tensors that a step is about to write with the pattern."""

    def probe(self, tensors: Sequence[int]) -> None:
        """Do the same as `prepare`, until `unprobe` restores the bytes."""

    def unprobe(self) -> None:
        """End `probe`, once the operands were looked at: restore the bytes, so that kernels find zeros there."""

    def store(self, t: int, content: Raw) -> None:
        """Write all bytes of a tensor."""

    def patch(self, t: int, first: int, content: Raw) -> None:
        """Write some bytes of a tensor that was prepared."""

    def show(self, t: int) -> None:
        """Make a tensor a view of its base, which was written."""

    def compute(self, n: int, step: PlanStep, kernel: Kernel, operands: Sequence[Raw]) -> None:
        """Write the results of a step that was prepared, from operands that were held before."""

    def release(self, t: int) -> None:
        """Release a tensor that is no longer needed."""


def physical_memory() -> int:
    """Return the bytes of physical memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class PrivateMemory:
    """Memory in which every tensor, views included, has separate bytes: what the steps compute by definition.

    Raises TMMU_ALLOCATION_FAILURE before it would take more than `limit` bytes.
    """

    def __init__(self, program: PlanProgram, limit: int | None = None) -> None:
        self.program, self.limit = program, limit or physical_memory()
        self.content: dict[int, Raw] = {}
        self.taken = 0
        self.unwritten: set[int] = set()
        """Tensors that were prepared and never written."""
        self.changed: set[int] = set()
        """Tensors that the caller keeps but a step has written."""

    def _take(self, t: int) -> None:
        self.release(t)
        size = self.program.sizes[t]
        if self.taken + size > self.limit:
            raise TmmuError(
                "TMMU_ALLOCATION_FAILURE",
                f"{self.taken + size} bytes are needed outside of the arenas, the limit is {self.limit}",
                place=f"tensor {self.program.names[t]!r}",
                fix="run the plan of a smaller model",
                operator="UML_OS.TMMU.ApplyPlan_v1",
                arena="private memory",
                peak_required_bytes=self.taken + size,
            )
        self.taken += size

    def carry(self, content: dict[int, Raw]) -> None:
        """Take over the contents of tensors, in a memory in which nothing was written."""
        self.content, self.taken = content, sum(map(len, content.values()))

    def restart(self, carried: frozenset[int]) -> None:
        """Drop all tensors except those carried over into the next batch."""
        for t in [t for t in self.content if t not in carried]:
            self.release(t)
        self.unwritten.clear()

    def begin(self, n: int) -> None:
        """Do nothing: only `prepare` creates tensors here."""

    def hold(self, t: int) -> Raw:
        """Return the bytes of a tensor, which do not change when others are prepared."""
        return self.content.get(t, NOTHING)

    def prepare(self, tensors: Sequence[int]) -> None:
        """Give tensors separate bytes that hold the pattern."""
        self.unwritten.update(t for t in tensors if t not in self.content)
        for t in tensors:
            self._take(t)
            self.content[t] = np.full(self.program.sizes[t], PATTERN, np.uint8)

    def probe(self, tensors: Sequence[int]) -> None:
        """Give tensors separate bytes, which no other tensor shares."""
        self.prepare(tensors)

    def unprobe(self) -> None:
        """Do nothing: `unwritten` already forbids reads before the write."""

    def store(self, t: int, content: Raw) -> None:
        """Give a tensor new bytes."""
        if t in self.program.kept and t in self.content:
            self.changed.add(t)
        self._take(t)
        self.unwritten.discard(t)
        self.content[t] = np.array(content)

    def patch(self, t: int, first: int, content: Raw) -> None:
        """Write some bytes of a tensor that was prepared."""
        self.content[t][first : first + len(content)] = content

    def show(self, t: int) -> None:
        """Copy the bytes of its base that a view shows."""
        base, offset = self.program.views[t]
        self.store(t, self.hold(base)[offset : offset + self.program.sizes[t]])

    def compute(self, n: int, step: PlanStep, kernel: Kernel, operands: Sequence[Raw]) -> None:
        """Compute all results, views included, and store them."""
        made = kernel(operands)
        for t, content in zip(step.results, made, strict=True):
            self.store(t, content)

    def release(self, t: int) -> None:
        """Free the bytes of a tensor."""
        if self.content.pop(t, None) is not None:
            self.taken -= self.program.sizes[t]
