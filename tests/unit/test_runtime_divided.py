"""Arenas that divide a memory lie one behind the other in one mapping. spec: U1.10, U2.2, U2.4, M3.10"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import ran
from tests.support.refusals import refused
from tests.support.text_models import text_model
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, DeviceConfiguration, Role
from tmmu.core.vocabulary import Memory as DeviceMemory
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan, amend_plan
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.memory import MappedMemory
from tmmu.runtime.records import trace as traces
from tmmu.simulator import Batches, HashKernels, PlanProgram

WEIGHTS = (Role.PARAMETER, Role.OPTIMIZER)
OTHERS = (Role.INPUT, Role.ACTIVATION, Role.GRADIENT, Role.SCRATCH)


def plan(capacity: int = 1 << 20, layout: str = "packed", **arena: Any) -> Plan:
    """Weights of 100 bytes and activations in one memory, the latter aligned to 256; scratch apart."""
    model = text_model(
        "node matmul Matmul x w -> a", "node matmul2 Matmul a -> b", "node matmul3 Matmul b -> y", parameters="w",
        sizes={"w": 100},
    )  # fmt: skip
    arenas = (
        ArenaConfiguration("weights", WEIGHTS, reuse=False, device="npu", memory="dram"),
        ArenaConfiguration("fast", (), device="npu", memory="sram"),
        ArenaConfiguration("work", OTHERS, device="npu", memory="dram", **{"alignment": 256, **arena}),
    )
    policy = ArenaPolicy((DeviceConfiguration("npu", (DeviceMemory("dram", capacity), DeviceMemory("sram", 1 << 16))),))
    token = bytes(64) if layout == "hashed" else None
    return plan_memory(model, arenas, PlanOptions(layout=layout, address_token=token), policy=policy).plan


@pytest.mark.parametrize("layout", ["packed", "slots", "pools", "hashed"])
def test_the_arenas_of_a_memory_lie_one_behind_the_other(layout: str) -> None:
    made = plan(layout=layout)
    with MappedMemory.map(made) as memory:
        weights, fast, work = memory.arenas
        dram, sram = memory.mappings
        assert (dram.name, dram.arenas, dram.at, sram.reserved) == ("npu/dram", [0, 2], [0, 256], 0)
        assert work.base == weights.base + 256
        assert work.base % 256 == 0
        assert (fast.extent.size, memory.bytes_allocated) == (0, 4096)
        for row in range(len(made.allocation.tensors)):
            assert weights.base <= memory.pointer(row) < weights.base + dram.size
            memory.tensor(row)[:] = row
        batches = Batches(PlanProgram(made), memory)
        assert batches.run(HashKernels(batches.program)).identical


def test_a_write_in_one_arena_reaches_no_other() -> None:
    with MappedMemory.map(plan()) as memory:
        memory.arena("weights").content[:] = 7
        assert not memory.arena("work").content.any()
        with refused("INVALID_ADDRESS", "not within its memory"):
            memory.bytes("weights", 0, 101)


def test_the_budget_counts_a_memory_once() -> None:
    """Two arenas of less than a page in one page. spec: U2.2"""
    with apply_plan(plan(), memory_bytes_budget=4096) as execution:
        assert execution.bytes_allocated == 4096
    with refused("CONTRACT_VIOLATION", "need 4096 bytes of memory"):
        apply_plan(plan(), memory_bytes_budget=4095)
    large = plan(page_size=1 << 21)
    with MappedMemory.map(large) as memory:
        assert memory.bytes_allocated == 1 << 21


def test_arenas_that_do_not_fit_into_their_memory_are_not_applied() -> None:
    """Though each fits by itself. spec: U2.4"""
    made = plan()
    end = 256 + made.usage[2].footprint
    for capacity in (end, end - 1):
        devices = (DeviceConfiguration("npu", (DeviceMemory("dram", capacity), DeviceMemory("sram", 1))),)
        tight = amend_plan(made, policy=ArenaPolicy(devices))
        if capacity == end:
            apply_plan(tight).close()
            continue
        with refused("ARENA_TOO_SMALL", f"its arenas end at {end}, but its capacity is {end - 1}", "memory 'npu/dram'"):
            apply_plan(tight)


def test_a_buffer_is_given_for_the_whole_memory() -> None:
    made = plan()
    size = 256 + made.usage[2].footprint
    whole = np.full(size + 512, 9, np.uint8)
    buffer = whole[-whole.ctypes.data % 256 :][:size]
    with apply_plan(made, base={"npu/dram": buffer}) as execution:
        assert execution.memory.arena("work").base == buffer.ctypes.data + 256
        assert (execution.memory.arena("weights").content == 9).all()
        assert not execution.memory.arena("work").content.any()
    with refused("INVALID_ADDRESS", f"got {size - 1}", "memory 'npu/dram'"):
        MappedMemory.map(made, base={"npu/dram": buffer[:-1]})
    with refused("ALIGNMENT_VIOLATION", "not a multiple of"):
        MappedMemory.map(made, base={"npu/dram": whole[-whole.ctypes.data % 256 + 1 :][:size]})
    with refused("INVALID_BINDING", "'work', which is in the memory 'npu/dram'; use one of npu/dram, npu/sram"):
        MappedMemory.map(made, base={"work": buffer})


def test_apply_says_which_arenas_lie_in_which_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file.save(plan(), "p.cbor")
    code, out, _ = ran(capsys, "apply", "p.cbor", "--budget", "4KiB")
    size = 256 + plan().usage[2].footprint
    assert (code, f"  memory npu/dram: {size} bytes " in out) == (0, True)
    document = json.loads(ran(capsys, "apply", "p.cbor", "--format", "json")[1])
    assert document["mappings"][0]["arenas"] == {"weights": 0, "work": 256}
    assert [arena["memory"] for arena in document["arenas"]] == ["npu/dram", "npu/sram", "npu/dram"]
    code, out, _ = ran(capsys, "run", "p.cbor", "--trace", "t", "--sanitize", "--batches", "2")
    assert (code, out.startswith("IDENTICAL")) == (0, True)
    assert traces.load("t")[-2]["kind"] == "commit"
