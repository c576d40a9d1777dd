"""Which arrays the C has, and where each tensor lies in them. spec: MC3.1 to MC3.4"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.text_models import text_model
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.mico.blocks import MemoryBlock, blocks_of
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import metrics
from tmmu.plans.sections import Plan

CHAIN = ("node one Gemm x w -> a", "node two Relu a -> b", "node three Gemm b w -> y")
SIZES = {"x": 100, "w": 300, "a": 200, "b": 200, "y": 50}


def planned(layout: str, *arenas: ArenaConfiguration) -> tuple[Plan, set[int]]:
    """The plan of a chain, and the rows of its weights."""
    model = text_model(*CHAIN, parameters="w", sizes=SIZES)
    options = PlanOptions(layout=layout)
    plan = (plan_memory(model, arenas, options) if arenas else plan_memory(model, options=options)).plan
    return plan, {plan.allocation.tensors.name.list().index("w")}


@pytest.mark.parametrize("layout", ["packed", "slots"])
def test_an_arena_is_one_array_up_to_its_footprint(layout: str) -> None:
    plan, weights = planned(layout)
    blocks, places = blocks_of(plan, weights)
    arenas = [arena.name for arena in plan.allocation.arenas]
    needed = metrics.compute_footprints(plan.allocation)[arenas.index("activations")]
    assert blocks == [MemoryBlock("activations", 0, needed, 128)]
    addresses = plan.allocation.addresses().tolist()
    assert {t: place.offset for t, place in places.items()} == {
        t: address for t, address in enumerate(addresses) if t not in weights
    }


def test_a_pool_is_an_array_as_large_as_its_largest_member() -> None:
    plan, weights = planned("pools")
    blocks, places = blocks_of(plan, weights)
    assert [block.bytes for block in blocks] == [200, 200]
    names = plan.allocation.tensors.name.list()
    assert {names[t]: place.block for t, place in places.items()} == {"x": 1, "a": 0, "b": 1, "y": 0}
    assert all(place.offset == 0 for place in places.values())


def test_a_slot_of_scattered_addresses_is_an_array() -> None:
    model = text_model(*CHAIN, parameters="w", sizes=SIZES)
    plan = plan_memory(model, options=PlanOptions(layout="hashed", address_token=bytes(range(64)))).plan
    blocks, _ = blocks_of(plan, {plan.allocation.tensors.name.list().index("w")})
    assert max(block.first for block in blocks) > 1 << 40
    assert [block.bytes for block in blocks] == [200, 200]


def test_storages_that_touch_are_in_one_array() -> None:
    """An offset that is changed so that a pool reaches into the next is not hidden by arrays of their own."""
    plan, weights = planned("pools")
    s = plan.allocation.storages
    offset = s.offset.copy()
    b = int(plan.allocation.tensors.storage[plan.allocation.tensors.name.list().index("b")])
    offset[b] = 100
    moved = replace(plan, allocation=replace(plan.allocation, storages=replace(s, offset=offset)))
    blocks, places = blocks_of(moved, weights)
    assert [(block.first, block.bytes) for block in blocks] == [(0, 356)]
    assert {places[t].offset for t in places} == {0, 100, 256}


def test_weights_beside_results_are_left_out_of_the_array() -> None:
    """One arena for all: what is allocated begins at the first result and ends with the last."""
    everything = ArenaConfiguration("all", tuple(Role), alignment=64)
    plan, weights = planned("packed", everything)
    blocks, places = blocks_of(plan, weights)
    assert len(blocks) == 1
    s = plan.allocation.storages
    own = [k for k in range(len(s)) if k != int(plan.allocation.tensors.storage[min(weights)])]
    lowest = min(int(s.offset[k]) for k in own)
    assert (blocks[0].first, blocks[0].first % blocks[0].alignment) == (lowest, 0)
    assert blocks[0].bytes == max(int(s.offset[k] + s.bytes[k]) for k in own) - lowest
    assert all(0 <= place.offset < blocks[0].bytes for place in places.values())
    assert len(places) == 4


def test_a_tensor_without_bytes_has_an_address() -> None:
    model = text_model("node one Relu x -> y", sizes={"x": 0, "y": 0})
    blocks, places = blocks_of(plan_memory(model).plan, set())
    assert sum(block.bytes for block in blocks) >= 1
    assert len(places) == 2
    assert np.all([place.offset < blocks[place.block].bytes for place in places.values()])
