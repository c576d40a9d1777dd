"""The two examples of MiCo's memory document that would corrupt tensors if they were run.

Tensors are named as there: the input `x`, results `layer1_output` to `layer7_output`, and the copy `output`. An arena
stands for the pools, one behind the other; a pool is a slot.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tmmu.core.columns import column
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.examples.broken.editing import counted, edit, right
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.sketch import Sketch
from tmmu.plan.columns import Slots
from tmmu.plan.sections import Plan, amended

Pools = Sequence[tuple[int, tuple[str, ...]]]

ARENAS = (
    ArenaConfiguration("pools", (Role.INPUT, Role.ACTIVATION), alignment=1),
    ArenaConfiguration("parameters", (Role.PARAMETER,), reuse=False),
)
"""MiCo does not align activations."""


@wrong("no_live_overlap", "x", "layer1_output")
def mico_pool_shared_with_the_input() -> Plan:
    """The document's list of pools: `layer1_output` shares one with `x`, which layer 1 reads while it writes."""
    m = Sketch("mico-mlp")
    value = m.input("x", 256)
    for layer, (inputs, outputs) in enumerate(((256, 64), (64, 64), (64, 64), (64, 10))):
        weight = m.weight(f"weight{layer}", inputs * outputs)
        value = m.node("Gemm", value, weight, result=f"layer{2 * layer + 1}_output", elements=outputs)
        if outputs == 64:
            value = m.node("Relu", value, result=f"layer{2 * layer + 2}_output")
    plan = right(m.model(m.node("Concat", value, result="output", elements=10)), arenas=ARENAS)
    return _pooled(
        plan,
        [
            (1024, ("x", "layer1_output", "layer3_output", "layer5_output", "layer7_output")),
            (256, ("layer2_output", "layer4_output", "layer6_output", "output")),
        ],
    )


@wrong("capacity", "layer2_output")
def mico_pool_too_small() -> Plan:
    """The document's opening example: of three results of 1,024 bytes, the second lies in a pool of 256."""
    m = Sketch("mico-snippet")
    value = m.weight("x", 256)  # the document does not say where its input lies: not in a pool
    for layer in (1, 2, 3):
        value = m.node("Relu", value, result=f"layer{layer}_output", elements=256)
    plan = _pooled(
        right(m.model(value), arenas=ARENAS), [(1024, ("layer1_output", "layer3_output")), (256, ("layer2_output",))]
    )
    return edit(plan, usage={"pools": {"footprint": 1280}})


def _pooled(plan: Plan, pools: Pools) -> Plan:
    """The plan with the tensors of the arena of pools in slots of the given sizes, one behind the other."""
    before = plan.slots.arena.tolist().count(0)
    sizes = [size for size, _ in pools]
    slots = Slots(
        column([*([0] * len(pools)), *plan.slots.arena[before:].tolist()], np.uint32),
        column([*sizes, *plan.slots.bytes[before:].tolist()], np.uint64),
        column([*([1] * len(pools)), *plan.slots.alignment[before:].tolist()], np.uint64),
        column([max(0, slot - before + len(pools)) for slot in plan.slots.of.tolist()], np.uint32),
    )
    # Slots of later arenas move up or down; those of the pools are given below.
    plan = amended(plan, slots=slots)
    place = {
        tensor: {"slot": pool, "offset": sum(sizes[:pool])}
        for pool, (_, tensors) in enumerate(pools)
        for tensor in tensors
    }
    return counted(edit(plan, storages=place))
