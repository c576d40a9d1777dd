"""Define a race, and find races: two accesses of a common byte, one of them a write, that no order keeps apart.

Of a plan with few accesses, all pairs of accesses are compared: this is the definition. In a larger plan the accesses
are walked in the order of the list. Each byte keeps its last write and, of each stream, its last read since. An access
that is ordered after these is ordered after all, because the order is transitive and a stream is ordered.

The caller is a step before all others and another after all, so that its accesses race with none. A step that makes a
view stores no byte, and counts as a read. That a view, or a tensor without bytes, is there before a step reads it shows
in no byte, and is looked at by itself.
spec: X5.3, X5.4, X5.13
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from proofs.definition.checker.memory import Divided
from proofs.definition.checker.program import Program
from proofs.definition.checker.states import PART
from proofs.definition.violations import Obligation, Violation
from proofs.streams.happens_before import HappensBefore, find_order
from tmmu.plans.allocation import Allocation

FEW = 1024
"""Up to this number of accesses, each two are compared."""
UNTOUCHED = -1


class StepAccess(NamedTuple):
    """An access of a step to the bytes [first, end) of an arena."""

    step: int
    tensor: int
    arena: int
    first: int
    end: int
    writes: bool


def list_accesses(run: Program) -> list[StepAccess]:
    """Return what steps access, in the order of the list; accesses without bytes are left out. O(accesses)."""
    found = []
    for s, step in enumerate(run.steps):
        stored = [w for w in step.writes if w not in run.views]
        read = dict.fromkeys((*step.reads, *(w for w in step.writes if w in run.views)))
        for writes, tensors in ((False, read), (True, dict.fromkeys(stored))):
            for t in tensors:
                placed = run.tensors[t]
                if placed.bytes:
                    end = placed.address + placed.bytes
                    found.append(StepAccess(s, t, placed.arena, placed.address, end, writes))
    return found


def find_races(allocation: Allocation, run: Program) -> Iterator[Violation]:
    """Yield a violation for each two steps and tensors that race. Without streams there is no race.

    O(accesses^2) for few accesses, otherwise O(accesses log accesses) times the streams, except for dense aliasing.
    """
    if not allocation.streams:
        return
    before, accesses = find_order(allocation), list_accesses(run)
    pairs = _compare_all(accesses, before) if len(accesses) <= FEW else _walk(accesses, before, allocation, run)
    seen = set()
    for one, other in pairs:
        key = (one.step, one.tensor, other.step, other.tensor)
        if key not in seen:
            seen.add(key)
            yield _describe(run, one, other)
    yield from find_early_reads(run, before)


def find_early_reads(run: Program, before: HappensBefore) -> Iterator[Violation]:
    """Yield a violation for each view or tensor without bytes that a step may read before it is made. O(reads).

    spec: X5.13
    """
    for s, step in enumerate(run.steps):
        for t in dict.fromkeys(step.reads):
            tensor = run.tensors[t]
            maker = tensor.writer
            if maker is None or maker >= s or (tensor.bytes and t not in run.views) or before(maker, s):
                continue
            text = f"{run.at(maker)} makes {tensor.name} and {run.at(s)} reads it, and neither happens before the other"
            found = Violation(Obligation.RACES, text, (tensor.name,), maker, other_step=s)
            if tensor.bytes:
                arena, last = run.arenas[tensor.arena].name, tensor.address + tensor.bytes - 1
                found = found._replace(arena=arena, first_byte=tensor.address, last_byte=last)
            yield found


def _compare_all(accesses: list[StepAccess], before: HappensBefore) -> Iterator[tuple[StepAccess, StepAccess]]:
    """Yield each race, by the definition: by its later access in the list, and of these the nearest first."""
    for k, other in enumerate(accesses):
        for one in reversed(accesses[:k]):
            is_common = one.arena == other.arena and one.first < other.end and other.first < one.end
            conflicts = is_common and one.step != other.step and (one.writes or other.writes)
            if conflicts and not before(one.step, other.step):
                yield one, other


class _Last(NamedTuple):
    """The last accesses of some bytes: their last write, or None if the caller made it, and reads since by stream."""

    write: StepAccess | None
    reads: tuple[StepAccess, ...]


def _walk(
    accesses: list[StepAccess], before: HappensBefore, allocation: Allocation, run: Program
) -> Iterator[tuple[StepAccess, StepAccess]]:  # fmt: skip
    """Yield a race for each access that races with the last accesses of its bytes."""
    stream = allocation.steps.stream.tolist()
    offsets: list[set[int]] = [set() for _ in run.arenas]
    for storage in run.storages:
        offsets[storage.arena].add(storage.offset)
    memory = [Divided(UNTOUCHED, sorted(found)[PART::PART]) for found in offsets]
    known: list[_Last] = []
    for access in accesses:
        here = memory[access.arena]
        ranges = list(here.read(access.first, access.end))
        of: dict[int, int] = {}
        for _, _, state in ranges:
            last = _Last(None, ()) if state == UNTOUCHED else known[state]
            for other in (*last.reads, last.write) if access.writes else (last.write,):
                if other is not None and other.step != access.step and not before(other.step, access.step):
                    yield other, access
            if not access.writes and state not in of:
                kept = [read for read in last.reads if stream[read.step] != stream[access.step]]
                of[state] = len(known)
                known.append(_Last(last.write, (*kept, access)))
        if access.writes:
            known.append(_Last(access, ()))
            here.write(access.first, access.end, len(known) - 1)
            continue
        for first, end, state in ranges:
            here.write(first, end, of[state])


def _describe(run: Program, one: StepAccess, other: StepAccess) -> Violation:
    """Return the violation, with both steps, both tensors and their common bytes."""

    def words(access: StepAccess) -> str:
        verb = "writes" if access.writes else "reads"
        return f"step {access.step} ({run.nodes[access.step]}) {verb} {run.tensors[access.tensor].name}"

    first, end = max(one.first, other.first), min(one.end, other.end)
    arena, tensors = run.arenas[one.arena].name, (run.tensors[one.tensor].name, run.tensors[other.tensor].name)
    text = f"{words(one)} and {words(other)} in byte {first} of {arena}, and neither happens before the other"
    return Violation(
        Obligation.RACES, text, tuple(dict.fromkeys(tensors)), one.step, arena, first, end - 1, other_step=other.step
    )
