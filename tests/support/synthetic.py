"""Plans of any size without a planner: transformer-like training intervals, laid out in slots, as columns.

The forward half stashes two in five of its results for the mirrored step of the backward half; the rest lives for a
few steps. On request some steps work in place (`Relu`) and some are views (`Reshape`). The layout is a plain linear
scan over the storages and aligned prefix sums, written here again so that proofs are tested on plans that the planner
had no hand in. Every plan is right. Deterministic for its arguments.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from tests.support.assembled import assembled
from tmmu.core.columns import NONE, Names, build_column
from tmmu.core.vocabulary import ArenaConfiguration, NodePart, Role, Shares
from tmmu.plans.columns import (
    IS_INPUT,
    IS_OUTPUT,
    IS_RETURNED,
    PARTS,
    ROLES,
    SHARES,
    Bodies,
    Slots,
    Steps,
    Storages,
    Tensors,
)
from tmmu.plans.sections import Plan, Usage

WRITES, IN_PLACE, VIEWS = range(3)
"""What a step may do with its first operand; the indices of its operator in `OPS`."""
OPS = (("", "MatMul"), ("", "Relu"), ("", "Reshape"))


def training_plan(count: int, seed: int = 0, *, in_place: float = 0.0, views: float = 0.0, arenas: int = 1) -> Plan:
    """A right plan of `count` steps that read up to two tensors and write one.

    Parameters
    ----------
    count
        Steps, and tensors but for the input.
    seed
        Of the sizes and reads.
    in_place, views
        The share of steps that would work in place, and of steps that make a view. Fewer do: only where it is sound.
    arenas
        Arenas over which the storages are spread.
    """
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, count, p=[1 - in_place - views, in_place, views])
    kind[:1] = WRITES
    operand = np.arange(count)
    other = np.maximum(0, operand - rng.integers(1, 12, count))
    mirrored = (operand >= count // 2) & (operand % 5 < 2)
    other = np.where(mirrored, np.minimum(operand, count - operand), other)
    last_read = np.zeros(count + 1, np.int64)
    last_read[operand] = operand
    np.maximum.at(last_read, other[kind == WRITES], operand[kind == WRITES])
    last_read[count] = max(0, count - 1)
    sizes = rng.integers(0, 2048, count + 1) * rng.choice([1, 4, 16], count + 1)

    # Which storage each tensor lies in: its own, or its operand's where the step takes or shows those bytes.
    storage, shares, needed, bytes_ = [0], [Shares.NONE], [int(last_read[0])], [int(sizes[0])]
    for step, what in enumerate(kind.tolist()):
        home, end = storage[step], int(last_read[step + 1])
        if what == VIEWS or (what == IN_PLACE and home and needed[home] == step):
            storage.append(home)
            shares.append(Shares.VIEW if what == VIEWS else Shares.IN_PLACE)
            bytes_.append(bytes_[step])
            needed[home] = max(needed[home], end)
        else:
            storage.append(len(needed))
            shares.append(Shares.NONE)
            bytes_.append(int(sizes[step + 1]))
            needed.append(end)
    flags = np.zeros(count + 1, np.uint8)
    flags[0] |= IS_INPUT
    flags[count] |= IS_OUTPUT | IS_RETURNED
    writer = np.arange(count + 1) - 1
    reads = [
        (step,) if what != WRITES or step == o else (step, o)
        for step, (what, o) in enumerate(zip(kind.tolist(), other.tolist(), strict=True))
    ]
    shared = np.array([word is not Shares.NONE for word in shares])
    tensors = Tensors(
        name=Names.of(["input", *(f"t{i}" for i in range(count))]),
        dtype=build_column(np.zeros(count + 1), np.uint8),
        role=build_column([ROLES.index(Role.INPUT), *[ROLES.index(Role.ACTIVATION)] * count], np.uint8),
        flags=build_column(flags, np.uint8),
        bytes=build_column(bytes_, np.uint64),
        alignment=build_column(np.full(count + 1, 4), np.uint64),
        birth=build_column(np.maximum(writer, 0), np.uint32),
        death=build_column(last_read, np.uint32),
        storage=build_column(storage, np.uint32),
        window=build_column(np.zeros(count + 1), np.uint64),
        writer=build_column(np.where(writer < 0, NONE, writer), np.uint32),
        shares=build_column([SHARES.index(word) for word in shares], np.uint8),
        of=build_column(np.where(shared, writer, NONE), np.uint32),
    )
    steps = Steps(
        node=Names.of([f"n{i}" for i in range(count)]),
        op=build_column(kind, np.uint32),
        part=build_column(np.full(count, PARTS.index(NodePart.WHOLE)), np.uint8),
        body=build_column(np.zeros(count), np.uint32),
        reads_at=build_column(np.cumsum([0, *map(len, reads)]), np.uint32),
        reads=build_column([tensor for listed in reads for tensor in listed], np.uint32),
        writes_at=build_column(np.arange(count + 1), np.uint32),
        writes=build_column(np.arange(1, count + 1), np.uint32),
        mutates_at=build_column(np.zeros(count + 1), np.uint32),
        mutates=build_column([], np.uint32),
    )
    places = tuple(ArenaConfiguration(f"arena{a}", (Role.ACTIVATION,) if a == 0 else ()) for a in range(arenas))
    storages, slots, usage = _laid_out(tensors, len(needed), places, rng)
    absent = build_column([NONE], np.uint32)
    return assembled(
        places, usage, slots, model="synthetic", ops=OPS, dtypes=("float32",), tensors=tensors, storages=storages,
        steps=steps,
        bodies=Bodies(Names.of([""]), absent, absent, absent, *(build_column([0], np.uint8),) * 2),
    )  # fmt: skip


def _laid_out(
    tensors: Tensors, count: int, arenas: tuple[ArenaConfiguration, ...], rng: np.random.Generator
) -> tuple[Storages, Slots, tuple[Usage, ...]]:
    """Storages in slots: by birth, each into the lowest slot that is free; slots one behind the other."""
    birth, death, size = np.full(count, NONE), np.zeros(count, np.int64), np.zeros(count, np.int64)
    for target, ufunc, values in (
        (birth, np.minimum, tensors.birth),
        (death, np.maximum, tensors.death),
        (size, np.maximum, tensors.bytes),
    ):
        ufunc.at(target, tensors.storage, values.astype(np.int64))
    arena = rng.integers(0, len(arenas), count)
    slot, offset = np.zeros(count, np.int64), np.zeros(count, np.int64)
    slot_arena: list[int] = []
    slot_bytes: list[int] = []
    usage = []
    for a, described in enumerate(arenas):
        members = np.flatnonzero(arena == a)
        first = len(slot_arena)
        active: list[tuple[int, int]] = []
        free: list[int] = []
        for k in members[np.argsort(birth[members], kind="stable")].tolist():
            while active and active[0][0] < birth[k]:
                heapq.heappush(free, heapq.heappop(active)[1])
            if not free:
                free.append(len(slot_arena))
                slot_arena.append(a)
                slot_bytes.append(1)
            taken = heapq.heappop(free)
            slot[k] = taken
            slot_bytes[taken] = max(slot_bytes[taken], int(size[k]))
            heapq.heappush(active, (int(death[k]), taken))
        start = 0
        starts = {}
        for taken in range(first, len(slot_arena)):
            start = -(-start // described.alignment) * described.alignment
            starts[taken] = start
            start += slot_bytes[taken]
        offset[members] = [starts[taken] for taken in slot[members].tolist()]
        usage.append(_usage(birth[members], death[members], size[members], start, len(slot_arena) - first))
    alignment = np.full(count, 4)
    slot_alignment = [arenas[a].alignment for a in slot_arena]
    return (
        Storages(
            build_column(arena, np.uint32), build_column(size, np.uint64), build_column(alignment, np.uint64),
            build_column(birth, np.uint32),
            build_column(death, np.uint32), build_column(offset, np.uint64),
        ),
        Slots(
            build_column(slot_arena, np.uint32), build_column(slot_bytes, np.uint64),
            build_column(slot_alignment, np.uint64),
            build_column(slot, np.uint32),
        ),
        tuple(usage),
    )  # fmt: skip


def _usage(birth: Any, death: Any, size: Any, footprint: int, slots: int) -> Usage:
    """What is live at each step, in bytes and in storages, and the first steps at which each is most."""
    if not len(birth):
        return Usage(0, 0, 0, 0, 0, 0, True)
    totals = []
    for amount in (size, np.ones(len(size), np.int64)):
        change = np.zeros(int(death.max()) + 2, np.int64)
        np.add.at(change, birth, amount)
        np.subtract.at(change, death + 1, amount)
        totals.append(np.cumsum(change))
    live, most = totals
    return Usage(
        footprint,
        int(live.max()),
        int(live.argmax()),
        slots,
        int(most.max()),
        int(most.argmax()),
        bool(slots == most.max()),
    )
