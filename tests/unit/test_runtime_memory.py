"""Arenas as real memory: aligned, apart, and nobody gets a byte outside. spec: U1.1 to U1.9"""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.support.refusals import refused
from tests.support.text_models import text_model
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.examples.broken.editing import changed
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan, amend_plan
from tmmu.runtime import memory as module
from tmmu.runtime.backing import HUGE_PAGE
from tmmu.runtime.memory import MappedMemory

LAYOUTS = ("packed", "slots", "pools", "hashed")


def plan(layout: str = "packed", **more: Any) -> Plan:
    """Two parameters' bytes, and five activations of which two are live at a time."""
    model = text_model(
        "node add Add x w -> a", "node relu Relu a -> b", "node relu2 Relu b -> c", "node relu3 Relu c -> y",
        parameters="w", sizes={"a": 100, "w": 7},
    )  # fmt: skip
    token = bytes(range(64)) if layout == "hashed" else None
    return plan_memory(model, options=PlanOptions(layout=layout, address_token=token, **more)).plan


def address(view: np.ndarray[Any, Any]) -> int:
    return int(view.__array_interface__["data"][0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_view_lies_within_the_mapping_of_its_arena(layout: str) -> None:
    """No traced tensor owns memory outside of its arena."""
    made = plan(layout)
    with MappedMemory.map(made) as memory:
        for row in range(len(made.allocation.tensors)):
            view = memory.tensor(row)
            arena = memory.arenas[int(made.allocation.storages.arena[made.allocation.tensors.storage[row]])]
            assert arena.base <= address(view)
            assert address(view) + len(view) <= arena.base + arena.extent.size
            assert len(view) == made.allocation.tensors.bytes[row]
            assert address(view) == memory.pointer(row)
            assert address(view) % made.allocation.tensors.alignment[row] == 0


@pytest.mark.parametrize("layout", ["packed", "slots", "pools"])
def test_an_offset_is_a_distance_from_the_base(layout: str) -> None:
    made = plan(layout)
    with MappedMemory.map(made) as memory:
        for row, offset in enumerate(made.allocation.addresses().tolist()):
            arena = int(made.allocation.storages.arena[made.allocation.tensors.storage[row]])
            assert memory.pointer(row) == memory.arenas[arena].base + offset


def test_hashed_slots_have_bytes_of_their_own_in_the_order_of_their_first_storages() -> None:
    made = plan("hashed")
    extent = MappedMemory.map(made).arenas[2].extent
    slots = {
        int(s): int(o) for s, o in zip(made.slots.of, made.allocation.storages.offset, strict=True) if int(o) > 1 << 32
    }
    assert [extent.locate(offset, 1)[1] for offset in slots.values()] == sorted(extent.at)
    assert len(slots) == len(extent.start) > 1
    places = sorted(zip(extent.at, (e - s for s, e in zip(extent.start, extent.end, strict=True)), strict=True))
    assert all(at + size <= after for (at, size), (after, _) in pairwise(places))
    assert all(at % extent.alignment == 0 for at in extent.at)


def test_what_tensors_hold_is_kept_apart_where_they_live_together() -> None:
    for layout in LAYOUTS:
        made = plan(layout)
        with MappedMemory.map(made) as memory:
            for step in range(len(made.allocation.steps)):
                t = made.allocation.tensors
                live = [row for row in range(len(t)) if t.birth[row] <= step <= t.death[row]]
                for row in live:
                    memory.tensor(row)[:] = row + 1
                assert all((memory.tensor(row) == row + 1).all() for row in live)


def test_fresh_memory_is_zero_and_the_bases_are_aligned() -> None:
    arenas = (ArenaConfiguration("all", tuple(Role), alignment=1 << 16),)
    with MappedMemory.map(plan_memory(text_model("node relu Relu x -> y"), arenas).plan) as memory:
        assert memory.arenas[0].base % (1 << 16) == 0
        assert not memory.arenas[0].content.any()


def test_the_high_water_mark_is_the_footprint_once_every_tensor_was_used() -> None:
    for layout in LAYOUTS:
        made = plan(layout)
        with MappedMemory.map(made) as memory:
            assert [memory.high_water(arena.name) for arena in made.allocation.arenas] == [0, 0, 0, 0]
            for row in range(len(made.allocation.tensors)):
                memory.tensor(row)
            assert [memory.high_water(a) for a in range(4)] == [usage.footprint for usage in made.usage]


def test_zero_bytes_count_as_one() -> None:
    made = plan_memory(text_model("node relu Relu x -> y", sizes={"x": 0, "y": 0})).plan
    with MappedMemory.map(made) as memory:
        assert [len(memory.tensor(row)) for row in range(2)] == [0, 0]
        assert memory.high_water("activations") == made.usage[2].footprint == 129


def test_a_view_of_no_bytes_at_the_end_of_its_base_reaches_no_further() -> None:
    made = plan_memory(
        text_model("node view1 View x -> v", "node relu Relu v -> y", "tensor v u8 0 view x 64", sizes={"y": 0})
    ).plan
    with MappedMemory.map(made) as memory:
        for row in range(len(made.allocation.tensors)):
            memory.tensor(row)
        assert memory.high_water("activations") == made.usage[2].footprint


def test_a_plan_of_nothing_maps_nothing() -> None:
    made = plan_memory(text_model(inputs="", outputs="")).plan
    with MappedMemory.map(made) as memory:
        assert [(arena.base, len(arena.content)) for arena in memory.arenas] == [(0, 0)] * 4


def test_an_address_outside_is_refused() -> None:
    with MappedMemory.map(plan()) as memory:
        end = memory.arenas[2].extent.size
        assert len(memory.bytes("activations", end - 1, 1)) == 1
        for offset, size in ((end, 1), (0, end + 1), (-1, 1), (0, -1), (1 << 70, 1)):
            with refused("INVALID_ADDRESS", "arena 'activations'"):
                memory.bytes("activations", offset, size)
        for arena in ("heap", 4, -1):
            with refused("INVALID_ADDRESS", "there is no arena"):
                memory.bytes(arena, 0, 1)


def test_an_address_between_hashed_slots_is_refused() -> None:
    with MappedMemory.map(plan("hashed")) as memory:
        extent = memory.arenas[2].extent
        assert len(memory.bytes(2, extent.start[0], extent.end[0] - extent.start[0]))
        for address_, size in ((extent.end[0], 1), (extent.start[0], extent.end[0] - extent.start[0] + 1), (0, 1)):
            with refused("INVALID_ADDRESS"):
                memory.bytes(2, address_, size)


def test_hashed_slots_that_touch_are_refused() -> None:
    made = plan("hashed")
    mine = np.flatnonzero(made.allocation.storages.arena == 2)
    slots = made.slots.of[mine].tolist()
    other = next(int(k) for k, slot in zip(mine, slots, strict=True) if slot != slots[0])
    touching = changed(made, "storages", other, offset=int(made.allocation.storages.offset[mine[0]]) + 1)
    with refused("ADDRESS_COLLISION", "bytes in common"):
        MappedMemory.map(touching)


@pytest.mark.parametrize(
    "make",
    [
        lambda size: np.zeros(size, np.uint8),
        lambda size: np.zeros((size + 7) // 8, np.float64),
        lambda size: (ctypes.c_char * size)(),
        lambda size: mmap.mmap(-1, size),
    ],
    ids=["numpy", "doubles", "ctypes", "mmap"],
)
def test_a_buffer_of_the_callers_is_used_as_it_is(make: Any) -> None:
    made = amend_plan(plan(), arenas=tuple(replace(arena, alignment=1) for arena in plan().allocation.arenas))
    made = amend_plan(made, slots=replace(made.slots, alignment=np.ones_like(made.slots.alignment)))
    made = amend_plan(
        made, storages=replace(made.allocation.storages, alignment=np.ones_like(made.allocation.storages.alignment))
    )
    buffer = make(made.usage[2].footprint)
    memory = MappedMemory.map(made, base={"activations": buffer})
    memory.tensor(0)[:] = 7
    at = int(made.allocation.addresses()[0])
    assert bytes(memoryview(buffer).cast("B"))[at : at + 64] == b"\7" * 64
    assert memory.arenas[2].base == address(np.frombuffer(buffer, np.uint8))


def aligned(size: int, extra: int = 0) -> np.ndarray[Any, Any]:
    whole = np.zeros(size + 256, np.uint8)
    return whole[-address(whole) % 128 + extra :][:size]


def test_a_buffer_that_cannot_hold_the_arena_is_refused() -> None:
    made = plan()
    size = made.usage[2].footprint
    MappedMemory.map(made, base={"activations": aligned(size)}).close()
    with refused("ALIGNMENT_VIOLATION", "not a multiple of 128"):
        MappedMemory.map(made, base={"activations": aligned(size, 64)})
    with refused("INVALID_ADDRESS", f"got {size - 1}"):
        MappedMemory.map(made, base={"activations": aligned(size - 1)})
    read_only = aligned(size)
    read_only.flags.writeable = False
    with refused("INVALID_ADDRESS", "read-only"):
        MappedMemory.map(made, base={"activations": read_only})
    for wrong in (np.zeros((size, 2), np.uint8)[:, 0], bytes(size), "text", 7, np.zeros(0, np.uint8)):
        with refused("INVALID_ADDRESS", "cannot hold it"):
            MappedMemory.map(made, base={"activations": wrong})
    with refused("INVALID_BINDING", "'heap', which is not an arena"):
        MappedMemory.map(made, base={"heap": aligned(size)})


def test_two_arenas_share_no_byte_of_memory() -> None:
    made = plan()
    both = aligned(made.usage[2].footprint + 128)
    apart = {"parameters": both[:128], "activations": both[128:]}
    MappedMemory.map(made, base=apart).close()
    with refused("INVALID_ADDRESS", "in common with that of"):
        MappedMemory.map(made, base={"parameters": both[:128], "activations": both})


def test_all_alignments_must_be_powers_of_two() -> None:
    made = plan()
    for wrong in (0, 3):
        with refused("ALIGNMENT_VIOLATION", "not a power of two"):
            MappedMemory.map(changed(made, "storages", 0, alignment=wrong))
    arenas = (replace(made.allocation.arenas[0], alignment=192), *made.allocation.arenas[1:])
    with refused("ALIGNMENT_VIOLATION", "192"):
        MappedMemory.map(amend_plan(made, arenas=arenas))


@pytest.mark.parametrize("footprint", [1 << 50, 1 << 62, (1 << 64) - 1])
def test_memory_that_cannot_be_had_is_a_refusal_and_nothing_stays_mapped(
    footprint: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan()
    closed: list[str] = []
    close = module.ArenaMemory.close
    monkeypatch.setattr(module.ArenaMemory, "close", lambda self: (closed.append(self.arena.name), close(self))[1])
    usage = (*made.usage[:2], made.usage[2]._replace(footprint=footprint), made.usage[3])
    with refused("TMMU_ALLOCATION_FAILURE", "cannot be allocated", "arena 'activations'"):
        MappedMemory.map(amend_plan(made, usage=usage))
    assert sorted(closed) == ["optimizer", "parameters"]


def test_memory_is_rounded_to_the_arenas_pages() -> None:
    with MappedMemory.map(plan()) as memory:
        parameters, _, activations, empty = memory.mappings
        assert (activations.reserved, activations._replace(page_size=1 << 21).reserved) == (4096, 1 << 21)
        assert (parameters.size, parameters.reserved, empty.reserved) == (7, 4096, 0)
        assert memory.bytes_allocated == 8192


def test_huge_pages_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with MappedMemory.map(plan(), huge_pages=True) as memory:
        start = memory.arenas[2].base
        assert start % HUGE_PAGE == 0
        flags = flags_of(start)
    assert "hg" in flags
    with MappedMemory.map(plan()) as memory:
        assert "hg" not in flags_of(memory.arenas[2].base)
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE")
    with refused("TMMU_ALLOCATION_FAILURE", "no huge pages"):
        MappedMemory.map(plan(), huge_pages=True)


def flags_of(at: int) -> list[str]:
    """What the kernel says of the mapping that holds an address."""
    inside = False
    with open("/proc/self/smaps") as file:
        for line in file:
            head = line.split()[0]
            if "-" in head and not head.endswith(":"):
                first, end = (int(part, 16) for part in head.split("-"))
                inside = first <= at < end
            elif inside and head == "VmFlags:":
                return line.split()[1:]
    raise AssertionError("no such mapping")


def test_closed_memory_is_refused_and_views_that_are_held_stay_valid() -> None:
    memory = MappedMemory.map(plan())
    view = memory.tensor(0)
    view[:] = 5
    memory.close()
    memory.close()
    with refused("CONTRACT_VIOLATION", "closed"):
        memory.tensor(0)
    assert (view == 5).all()
