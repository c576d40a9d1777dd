"""Define a safe plan naively, by a few loops over its steps.

All other checks of this package mean what these loops mean.

*Run* the plan byte by byte. Each byte of an arena holds the tensor that was last written there. Before step 0 the
caller writes inputs, parameters and optimizer state. Then every step reads and writes. After the last step the caller
reads outputs, saved tensors, parameters and optimizer state. Every byte of every read must hold the tensor that is read
(for a view: the tensor that it shows), and every access must fall into its tensor's lifetime. In addition, no two
storages that live at one step may have a byte in common, and every address is aligned and in bounds.

The checker's own tables (`proofs.readers.sharing`) decide before the run which tensors are views and which results may
take an operand's bytes. A write that they do not permit to share is an ordinary write here.
spec: V1.1, V1.2, V1.3, V1.4, V1.5, V1.6, V1.16, X4.8
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from proofs.definition.checker.program import (
    CALLER,
    Column,
    PlacedArena,
    PlacedStorage,
    PlacedStorages,
    PlacedTensor,
    Program,
    RunStep,
    StorageColumns,
)
from proofs.definition.checker.states import State, ValueNumbers, Written, initial_state
from proofs.definition.checker.visits import Visits
from proofs.definition.violations import Obligation, Violation

Mask = NDArray[np.bool_]
FEW_PAIRS = 16
"""If a step has at most this many pairs of operand and result, each pair is compared."""


def violations(run: Program) -> Iterator[Violation]:
    """Yield everything that is false in a plan, lazily.

    O(n log n) for n accesses and storages, except for dense aliasing.
    """
    yield from check_placement(run)
    yield from check_live_overlaps(run)
    yield from check_execution(run)


def check_placement(run: Program) -> Iterator[Violation]:
    """Check that storages and tensors are aligned, in bounds and within the steps, and tensors within storages."""
    yield from check_storages(run)
    yield from check_tensors_within_storages(run)


def check_storages(run: PlacedStorages) -> Iterator[Violation]:
    """Check the alignment, bounds and capacity of every storage, and the alignment of every arena, even if it is empty.

    The base of an arena is checked as well: what it holds is aligned in memory only if its base is. A footprint beyond
    the capacity is reported at the storage that ends last.
    """
    holding = frozenset(run.columns.arena.tolist())
    for a, arena in enumerate(run.arenas):
        if a not in holding and not is_power_of_two(arena.alignment):
            text = f"the arena {arena.name} has the alignment {arena.alignment}: {NO_POWER}"
            yield Violation(Obligation.ALIGNMENT, text, arena=arena.name)
    yield from _check_bases(run)
    columns, required, capacity = run.columns, run.of_arenas("alignment"), run.of_arenas("capacity")
    outlives = ~((columns.birth <= columns.death) & (columns.death <= run.last_step))
    beyond = columns.offset + columns.bytes > run.of_arenas("limit")
    beyond |= (columns.offset + np.maximum(1, columns.bytes) > capacity) & (run.of_arenas("scattered") == 0)
    no_power = ~powers_of_two(required)
    askew = ~_aligned(columns.offset, columns.alignment) | ~_aligned(columns.offset, required)
    for k in np.flatnonzero(outlives | beyond | askew).tolist():
        s, of = run.storages[k], run.storage_names[k]
        arena = run.arenas[s.arena]
        where = ((of,), None, arena.name, s.offset, s.offset + max(0, s.bytes - 1))
        if outlives[k]:
            text = f"{of} lives over [{s.birth}, {s.death}] of steps 0 to {run.last_step}"
            yield Violation(Obligation.TENSORS_WITHIN_STORAGES, text, *where)
        if beyond[k]:
            text = f"{of} ends at {s.offset + s.bytes}; footprint {arena.footprint}, capacity {arena.capacity}"
            yield Violation(Obligation.CAPACITY, text, *where)
        if no_power[k]:
            text = f"the arena of {of} has the alignment {arena.alignment}: {NO_POWER}"
            yield Violation(Obligation.ALIGNMENT, text, *where)
        elif askew[k]:
            text = _misaligned(f"{of} at {s.offset}", s.alignment, max(s.alignment, arena.alignment))
            yield Violation(Obligation.ALIGNMENT, text, *where)
    over = np.flatnonzero(run.of_arenas("footprint") > run.of_arenas("capacity")).tolist()
    last = {run.storages[k].arena: k for k in sorted(over, key=lambda k: _end(run.storages[k]))}
    for a, k in last.items():
        arena, s, of = run.arenas[a], run.storages[k], run.storage_names[k]
        if arena.scattered or _end(s) <= arena.capacity:  # otherwise that storage is already a witness
            text = f"the footprint of {arena.name} is {arena.footprint}, its capacity {arena.capacity}; {of} ends last"
            yield Violation(Obligation.CAPACITY, text, (of,), None, arena.name, s.offset, _end(s) - 1)


def _check_bases(run: PlacedStorages) -> Iterator[Violation]:
    """Check that the base of an arena is stated to be as aligned as the strictest of its storages requires.

    The witness is the first storage that requires the most, by its tensor that does. spec: V1.17
    """
    columns, stated = run.columns, run.of_arenas("base")
    for arena in run.arenas:
        if arena.base not in (0, arena.alignment) and not is_power_of_two(arena.base):
            text = f"the base of {arena.name} has the alignment {arena.base}: {NO_POWER}"
            yield Violation(Obligation.ALIGNMENT, text, arena=arena.name)
        elif 0 < arena.base < arena.alignment and is_power_of_two(arena.alignment):
            yield _make_base_violation(arena, arena.alignment, f"the arena {arena.name}", ())
    low = np.flatnonzero((stated > 0) & (columns.alignment > stated) & powers_of_two(columns.alignment)).tolist()
    worst: dict[int, int] = {}
    for k in sorted(low, key=lambda k: -run.storages[k].alignment):  # stable: the first of equal ones
        worst.setdefault(run.storages[k].arena, k)
    for a, k in sorted(worst.items()):
        needed, name = run.storages[k].alignment, run.storage_names[k]
        if isinstance(run, Program):
            name = next((t.name for t in run.tensors if t.storage == k and t.alignment == needed), name)
        yield _make_base_violation(run.arenas[a], needed, name, (name,))


def _make_base_violation(arena: PlacedArena, needed: int, of: str, tensors: tuple[str, ...]) -> Violation:
    text = f"{of} requires a base of {arena.name} that is aligned to {needed}; it is stated as aligned to {arena.base}"
    field = f"base alignment of {arena.name}"
    return Violation(
        Obligation.ALIGNMENT, text, tensors, arena=arena.name, field=field, stated=str(arena.base),
        recomputed=str(needed),
    )  # fmt: skip


def _aligned(address: Column, alignment: Column) -> Mask:
    """Return which addresses are multiples of alignments that are powers of two."""
    found: Mask = powers_of_two(alignment) & (address % np.maximum(1, alignment) == 0)
    return found


def powers_of_two(values: Column) -> Mask:
    """Return which alignments are powers of two."""
    found: Mask = (values > 0) & (values & (values - 1) == 0)
    return found


def _end(s: PlacedStorage) -> int:
    """Return the end of a storage. A storage of zero bytes counts as one byte, as in footprints (T7)."""
    return s.offset + max(1, s.bytes)


def check_tensors_within_storages(run: Program) -> Iterator[Violation]:
    """Check that every tensor is within its storage, in bytes and in steps, and is aligned."""
    tensors, of = run.tensor_columns, StorageColumns(*(c[run.tensor_columns.storage] for c in run.columns))
    beyond = (tensors.window + tensors.bytes > of.bytes) | (tensors.birth > tensors.death)
    beyond |= (tensors.birth < of.birth) | (of.death < tensors.death)
    askew = ~_aligned(tensors.address, tensors.alignment)
    stricter = (tensors.alignment > of.alignment) & powers_of_two(of.alignment) & ~askew
    for i in np.flatnonzero(beyond | askew | stricter).tolist():
        t = run.tensors[i]
        s, arena = run.storages[t.storage], run.arenas[run.storages[t.storage].arena]
        where = ((t.name,), None, arena.name, t.address, t.address + max(0, t.bytes - 1))
        if beyond[i]:
            text = f"{t.name} reaches beyond its storage in bytes or steps"
            yield Violation(Obligation.TENSORS_WITHIN_STORAGES, text, *where)
        if askew[i]:
            text = _misaligned(f"{t.name} at {t.address}", t.alignment, t.alignment)
            yield Violation(Obligation.ALIGNMENT, text, *where)
        if stricter[i]:
            text = f"{t.name} requires {t.alignment}, its storage only {s.alignment}"
            yield Violation(Obligation.ALIGNMENT, text, *where)


NO_POWER = "not a power of two"


def _misaligned(what: str, alignment: int, strictest: int) -> str:
    """Describe a misaligned address, or an alignment that is not a power of two."""
    if not is_power_of_two(alignment):
        return f"{what} has the alignment {alignment}: {NO_POWER}"
    return f"{what} is not aligned to {strictest}"


def is_power_of_two(value: int) -> bool:
    """Whether an alignment is a power of two."""
    return value.bit_count() == 1


def check_live_overlaps(run: PlacedStorages) -> Iterator[Violation]:
    """Check that no byte of an arena belongs to two storages that live at one step.

    The check is a sweep over births and deaths that compares each storage, at its birth, with its live neighbours.
    """
    s = run.columns
    rows = np.flatnonzero((s.bytes != 0) & (s.birth <= s.death))
    rows = rows[np.lexsort(((s.offset + s.bytes)[rows], s.offset[rows]))]  # a box is its position here
    boxes = rows.tolist()
    arena, first, end = ([column[k] for k in boxes] for column in _lists(s.arena, s.offset, s.offset + s.bytes))
    is_birth = np.arange(2 * len(rows)) < len(rows)
    events = np.lexsort((np.tile(rows, 2), is_birth, np.concatenate([s.birth[rows], s.death[rows] + 1])))
    live: list[list[int]] = [[] for _ in run.arenas]  # boxes, sorted
    for event in events.tolist():
        box = event % len(boxes)
        here = live[arena[box]]
        i = bisect_left(here, box)
        if event >= len(boxes):
            del here[i]
            continue
        for other in here[max(0, i - 1) : i + 1]:
            if first[other] < end[box] and first[box] < end[other]:
                names, step = (run.storage_names[boxes[other]], run.storage_names[boxes[box]]), int(s.birth[boxes[box]])
                text = f"{names[0]} and {names[1]} are both live at step {step}"
                where = run.arenas[arena[box]].name, max(first[other], first[box]), min(end[other], end[box]) - 1
                yield Violation(Obligation.NO_LIVE_OVERLAP, text, names, step, *where)
        here.insert(i, box)


def _lists(*columns: Column) -> Iterator[list[int]]:
    """Yield columns as lists of Python integers."""
    return (column.tolist() for column in columns)


def check_execution(run: Program) -> Iterator[Violation]:
    """Run the plan: every access is within its lifetime, every read finds its tensor, no write destroys an operand.

    Each of several exclusive branches runs once, from the state before them; no combination of them runs. O(k log k)
    for k accesses. Within branches, this cost recurs for each branch of the enclosing nodes.
    """
    values, state, here = ValueNumbers(len(run.tensors)), initial_state(run), partial(_at, run)
    visits = Visits(run, values, state)
    yield from _by_the_caller(run)
    runs_plainly = _plain(run, state)
    for n, step in enumerate(run.steps):
        if not visits.open and n not in visits.nodes and runs_plainly(n, step):
            continue
        taken = visits.before(n)
        for r in (*step.reads, *step.again):
            if r not in taken and not _finds(run, state, n, r):
                yield from _read(run, state, values, n, r)
        for r in dict.fromkeys(step.reads):
            if state.of[r].begun:
                yield here(
                    n, Obligation.LIFETIMES_COVER_ACCESSES, r, f"reads {run.tensors[r].name} before it is written"
                )
        overwritten = _overwritten(run, step)
        for w in step.writes:
            t, base = run.tensors[w], run.views.get(w)
            if not t.birth <= n <= t.death:
                text = f"writes {t.name}, which lives over [{t.birth}, {t.death}]"
                yield here(n, Obligation.LIFETIMES_COVER_ACCESSES, w, text)
            if state.of[w].perhaps and not (w in step.mutates or (step.completes and state.of[w].begun)):
                yield here(n, Obligation.SHARING_IS_SOUND, w, f"writes {t.name}, which was written before")
            if visits.holds(w):
                yield from _whole(run, state, values, n, w, f"writes {t.name}, which an earlier branch has written")
            if w in step.mutates and t.writer is None and w not in run.donated:
                yield here(
                    n,
                    Obligation.SHARING_IS_SOUND,
                    w,
                    f"changes {t.name}, which the caller has not donated (--donate {t.name})",
                )
            if w in step.mutates and base is not None:
                yield here(n, Obligation.SHARING_IS_SOUND, w, f"changes {t.name}, a view, and with it what it shows")
            if base is None:
                for r in overwritten.get(w, ()):
                    name, why = run.tensors[r].name, f"; {run.refused[w]}" if w in run.refused else ""
                    text = f"writes {t.name} over {name}, which it reads{why}"
                    yield here(n, Obligation.SHARING_IS_SOUND, w, text, name)
                continue
            b, offset = run.tensors[base[0]], base[1]
            state.set_tensor(w, state.of[w]._replace(value=state.of[base[0]].value))
            there = (b.arena, b.storage, b.address + offset)
            if (t.arena, t.storage, t.address) != there or offset + t.bytes > b.bytes:
                text = f"makes {t.name} a view, but not of the bytes of {b.name}"
                yield here(n, Obligation.SHARING_IS_SOUND, w, text, b.name)
        if len(step.writes) > 1:
            yield from _over_each_other(run, step, n)
        for w in step.writes:
            t = run.tensors[w]
            was = state.of[w]
            # A mutation makes a new value, which a view of the old value does not show.
            value = values.new(w) if w in step.mutates else was.value
            is_begun = w in step.begins or (was.begun and not step.completes)
            state.set_tensor(w, Written(value, surely=True, perhaps=True, begun=is_begun))
            if w not in run.views:
                state.write(t.arena, t.address, t.address + t.bytes, value)
        for kept in visits.after(n):
            if kept.is_taken:
                yield from _read(run, state, values, n, kept.tensor)
            else:
                name = run.tensors[kept.tensor].name
                yield from _whole(run, state, values, n, kept.tensor, f"ends a branch before another accesses {name}")
    for r in run.returned:
        if not _finds(run, state, len(run.steps), r):
            yield from _read(run, state, values, len(run.steps), r)


def _plain(run: Program, state: State) -> Callable[[int, RunStep], bool]:
    """Return a function that runs a step that reads tensors and writes one result in bytes apart from theirs.

    The step must be outside of branches. For any other step, and for one that violates anything, the function changes
    nothing and returns False.
    """
    tensors, views, of, memory = run.tensors, run.views, state.of, state.memory

    def runs(n: int, step: RunStep) -> bool:
        reads, writes, mutates, again, _, begins = step  # what a step completes was written before
        if len(writes) != 1 or mutates or again or begins:
            return False
        w = writes[0]
        _, _, _, size, _, birth, death, _, arena, address = tensors[w]
        value, _, was_written, _ = of[w]
        if was_written or w in views or not birth <= n <= death:
            return False
        end = address + size
        for r in reads:
            _, _, _, size, _, birth, death, _, there, first = tensors[r]
            shown, surely, _, begun = of[r]
            if not surely or begun or not birth <= n <= death or not memory[there].is_run(first, first + size, shown):
                return False
            if first < end and address < first + size and there == arena:
                return False
        state.set_tensor(w, Written(value, surely=True, perhaps=True))
        state.write(arena, address, end, value)
        return True

    return runs


def _by_the_caller(run: Program) -> Iterator[Violation]:
    """Check that the caller can write its tensors before step 0, all and in any order: only views share bytes. V1.13"""
    given = [i for i, t in enumerate(run.tensors) if t.writer is None and t.bytes and i not in run.views]
    given.sort(key=lambda i: (run.tensors[i].arena, run.tensors[i].address))
    for a, b in pairwise(given):
        if _meet(run, a, b):
            first, second = run.tensors[a].name, run.tensors[b].name
            yield _at(run, 0, Obligation.SHARING_IS_SOUND, b, f"finds {first} and {second} in the same bytes", first)


def _finds(run: Program, state: State, n: int, r: int) -> bool:
    """Whether a read at step n is within the tensor's lifetime and finds in every byte the value that it shows."""
    t, known = run.tensors[r], state.of[r]
    return (
        known.surely
        and t.birth <= min(n, run.last_step) <= t.death
        and state.memory[t.arena].is_run(t.address, t.address + t.bytes, known.value)
    )


def _read(run: Program, state: State, values: ValueNumbers, n: int, r: int) -> Iterator[Violation]:
    t = run.tensors[r]
    if not t.birth <= min(n, run.last_step) <= t.death:
        text = f"reads {t.name}, which lives over [{t.birth}, {t.death}]"
        yield _at(run, n, Obligation.LIFETIMES_COVER_ACCESSES, r, text)
    if not state.of[r].surely:
        yield _at(run, n, Obligation.LIFETIMES_COVER_ACCESSES, r, f"reads {t.name} before it is written")
    else:
        yield from _whole(run, state, values, n, r, f"reads {t.name}")


def _whole(run: Program, state: State, values: ValueNumbers, n: int, r: int, does: str) -> Iterator[Violation]:
    """Check that every byte of a tensor holds the value that the tensor shows.

    The first that does not is the witness.
    """
    t = run.tensors[r]
    for first, end, value in state.memory[t.arena].read(t.address, t.address + t.bytes):
        if value != state.of[r].value:
            owner = values.other_than(r, value)
            other = run.tensors[owner].name if owner != CALLER else "nothing"
            text = f"{run.at(n)} {does}, whose bytes hold {other}"
            where = run.arenas[t.arena].name, first, end - 1
            yield Violation(Obligation.SHARING_IS_SOUND, text, (t.name, other), n, *where)
            return


def _overwritten(run: Program, step: RunStep) -> dict[int, list[int]]:
    """Return, for each result, the operands that it wrongly overwrites, in the order of the reads.

    A result takes bytes that its step reads only as T3 allows: the identical slice of its one permitted operand. A
    result of the leave of exclusive branches may share bytes with the outputs that become it (X4.6). If there are few
    pairs, each operand is compared with each result. Otherwise a sweep over their addresses takes O(k log k) for k
    operands and results; if more pairs are wrong than k, it finds only some of them.
    """
    operands = dict.fromkeys((*step.reads, *step.again))
    results = dict.fromkeys(w for w in step.writes if w not in run.views) if run.views else dict.fromkeys(step.writes)
    found: dict[int, list[int]] = {}
    if len(operands) * len(results) <= FEW_PAIRS:
        for w in results:
            b = run.tensors[w]
            for r in operands:
                if _share_bytes(run.tensors[r], b) and not _may_overwrite(run, step, r, w):
                    found.setdefault(w, []).append(r)
        return found
    starts = sorted(
        (run.tensors[i].arena, run.tensors[i].address, is_result, i)
        for is_result, rows in ((False, operands), (True, results))
        for i in rows
        if run.tensors[i].bytes
    )
    still_allowed = len(starts)
    reaching: defaultdict[tuple[int, bool], list[tuple[int, int]]] = defaultdict(list)  # the ends of earlier ranges
    for arena, address, is_result, i in starts:
        mine, others = reaching[arena, is_result], reaching[arena, not is_result]
        for heap in (mine, others):
            while heap and heap[0][0] <= address:
                heappop(heap)
        for _, j in others:
            r, w = (j, i) if is_result else (i, j)
            if not _may_overwrite(run, step, r, w):
                found.setdefault(w, []).append(r)
                still_allowed -= 1
            if still_allowed < 0:
                break
        heappush(mine, (address + run.tensors[i].bytes, i))
    place = {r: k for k, r in enumerate(operands)}
    return {w: sorted(rows, key=place.__getitem__) for w, rows in found.items()}


def _may_overwrite(run: Program, step: RunStep, r: int, w: int) -> bool:
    """Whether a result may take the bytes of an operand that it overlaps."""
    if r == w and (w in step.mutates or step.completes):
        return True
    a, b = run.tensors[r], run.tensors[w]
    is_permitted = run.in_place.get(w) == r or r in run.become.get(w, ())
    return is_permitted and (a.address, a.bytes) == (b.address, b.bytes)


def _over_each_other(run: Program, step: RunStep, n: int) -> Iterator[Violation]:
    """Check that two results of one step share no byte, unless one is a view."""
    results = [w for w in dict.fromkeys(step.writes) if w not in run.views and run.tensors[w].bytes]
    results.sort(key=lambda w: (run.tensors[w].arena, run.tensors[w].address))
    for a, b in pairwise(results):
        if _meet(run, a, b):
            first, second = run.tensors[a].name, run.tensors[b].name
            yield _at(run, n, Obligation.SHARING_IS_SOUND, b, f"writes {first} and {second} to the same bytes", first)


def _meet(run: Program, i: int, j: int) -> bool:
    return _share_bytes(run.tensors[i], run.tensors[j])


def _share_bytes(a: PlacedTensor, b: PlacedTensor) -> bool:
    return (
        a.address < b.address + b.bytes
        and b.address < a.address + a.bytes
        and a.arena == b.arena
        and a.bytes > 0 < b.bytes
    )


def _at(run: Program, n: int, obligation: Obligation, i: int, text: str, *others: str) -> Violation:
    """Return a violation at one step, at the bytes of one tensor."""
    t = run.tensors[i]
    last = t.address + max(0, t.bytes - 1)
    return Violation(obligation, f"{run.at(n)} {text}", (t.name, *others), n, run.arenas[t.arena].name, t.address, last)
