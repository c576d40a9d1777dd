"""Check what a plan with streams claims of its slots: their storages take turns, and an antichain needs as many.

A storage is *before* another one if every access of it happens before every access of the other. The caller accesses
first what it writes, and last what it reads; it also accesses a storage that no step accesses. Storages of which none
is before the other need different slots, so that no plan has fewer slots than an antichain has storages. An antichain
need not be live at any one step.
spec: X5.10, X5.11
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from proofs.definition.checker.program import Program
from proofs.definition.violations import Obligation, Violation
from proofs.streams.happens_before import HappensBefore, find_order
from tmmu.plans.allocation import Allocation
from tmmu.plans.sections import Claims


def find_false_slots(allocation: Allocation, claims: Claims, run: Program) -> Iterator[Violation]:
    """Yield a violation for each two storages of a slot that are not ordered, and for each antichain that is none.

    O(accesses + storages x streams^2), and the square of each antichain without what is always live.
    """
    if not allocation.streams or claims.slots is None:
        return
    lives = StorageOrder(allocation, run, find_order(allocation))
    of = claims.slots.of.tolist()
    last: dict[int, int] = {}
    for k in sorted(range(len(of)), key=lives.first.__getitem__):
        if of[k] in last and not lives.is_before(last[of[k]], k):
            names = run.storage_names[last[of[k]]], run.storage_names[k]
            text = f"{names[0]} and {names[1]} have one slot, and accesses of theirs may overlap in time"
            yield Violation(Obligation.SLOT_COUNT, text, names)
        last[of[k]] = k
    for a, usage in enumerate(claims.usage):
        for k in usage.antichain or ():
            if run.storages[k].arena != a:
                text = f"the antichain of {run.arenas[a].name} lists {run.storage_names[k]}, which is in another arena"
                yield Violation(Obligation.SLOT_COUNT, text, (run.storage_names[k],))
        for one, other in combinations([k for k in usage.antichain or () if not lives.is_always_live(k)], 2):
            if lives.is_before(one, other) or lives.is_before(other, one):
                names = run.storage_names[one], run.storage_names[other]
                text = f"the antichain of {run.arenas[a].name} lists {names[0]} and {names[1]}, which are ordered"
                yield Violation(Obligation.SLOT_COUNT, text, names)


class StorageOrder:
    """The order of the storages of a plan, by their first and last access on each stream.

    `first` is the first step that accesses each storage, or -1 if the caller does before all steps.
    """

    def __init__(self, allocation: Allocation, run: Program, before: HappensBefore) -> None:
        stream = allocation.steps.stream.tolist()
        self._before = before
        self._first: list[dict[int, int]] = [{} for _ in run.storages]
        self._last: list[dict[int, int]] = [{} for _ in run.storages]
        for s, step in enumerate(run.steps):
            for t in (*step.reads, *step.writes):
                storage = run.tensors[t].storage
                self._first[storage].setdefault(stream[s], s)
                self._last[storage][stream[s]] = s
        self._given = [not accessed for accessed in self._first]
        self._returned = [False] * len(run.storages)
        for tensor in run.tensors:
            self._given[tensor.storage] |= tensor.writer is None
        for t in run.returned:
            self._returned[run.tensors[t].storage] = True
        starts = zip(self._given, self._first, strict=True)
        self.first = [-1 if given else min(first.values()) for given, first in starts]

    def is_always_live(self, storage: int) -> bool:
        """Return whether the caller accesses a storage first and last. It is then before none, and none before it."""
        return self._given[storage] and self._returned[storage]

    def is_before(self, one: int, other: int) -> bool:
        """Return whether every access of a storage happens before every access of another. O(streams^2)."""
        if self._returned[one] or self._given[other]:
            return False
        return all(self._before(a, b) for a in self._last[one].values() for b in self._first[other].values())
