"""The two examples of MiCo's memory document that would corrupt tensors if they were run.

Tensors have the names of the document: the input `x`, results `layer1_output` to `layer7_output`, and the copy
`output`. An arena represents the pools, one after the other; a pool is a slot.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tmmu.core.columns import build_column
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.examples.broken.editing import counted, edit, right
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.sketch import model
from tmmu.plans.columns import Slots
from tmmu.plans.sections import Plan, amend_plan

Pools = Sequence[tuple[int, tuple[str, ...]]]

ARENAS = (
    ArenaConfiguration("pools", (Role.INPUT, Role.ACTIVATION), alignment=1),
    ArenaConfiguration("parameters", (Role.PARAMETER,), reuse=False),
)
"""MiCo does not align activations."""


@wrong("no_live_overlap", "x", "layer1_output")
def mico_pool_shared_with_the_input() -> Plan:
    """In the document's list of pools, `layer1_output` shares one with `x`, which layer 1 reads while it writes."""
    made = model("""
        tensor x f32 256 input
        tensor weight0 f32 16384 parameter
        tensor weight1 f32 4096 parameter
        tensor weight2 f32 4096 parameter
        tensor weight3 f32 640 parameter
        tensor layer7_output f32 10
        tensor "output" f32 10 output
        node layer1 Gemm x weight0 -> layer1_output
        node layer2 Relu layer1_output -> layer2_output
        node layer3 Gemm layer2_output weight1 -> layer3_output
        node layer4 Relu layer3_output -> layer4_output
        node layer5 Gemm layer4_output weight2 -> layer5_output
        node layer6 Relu layer5_output -> layer6_output
        node layer7 Gemm layer6_output weight3 -> layer7_output
        node "output" Concat layer7_output -> "output"
    """)
    plan = right(made, arenas=ARENAS)
    return _put_into_pools(
        plan,
        [
            (1024, ("x", "layer1_output", "layer3_output", "layer5_output", "layer7_output")),
            (256, ("layer2_output", "layer4_output", "layer6_output", "output")),
        ],
    )


@wrong("capacity", "layer2_output")
def mico_pool_too_small() -> Plan:
    """In the document's opening example, the second of three results of 1,024 bytes is in a pool of 256."""
    # The document does not state the place of its input, which is not in a pool.
    made = model(
        """
        tensor x f32 256 parameter
        node layer1 Relu x -> layer1_output
        node layer2 Relu layer1_output -> layer2_output
        node layer3 Relu layer2_output -> layer3_output
    """,
        like="f32 256",
    )
    pools = [(1024, ("layer1_output", "layer3_output")), (256, ("layer2_output",))]
    plan = _put_into_pools(right(made, arenas=ARENAS), pools)
    return edit(plan, usage={"pools": {"footprint": 1280}})


def _put_into_pools(plan: Plan, pools: Pools) -> Plan:
    """Return the plan with the tensors of the arena of pools in slots of the given sizes, one after the other."""
    before = plan.slots.arena.tolist().count(0)
    sizes = [size for size, _ in pools]
    slots = Slots(
        build_column([*([0] * len(pools)), *plan.slots.arena[before:].tolist()], np.uint32),
        build_column([*sizes, *plan.slots.bytes[before:].tolist()], np.uint64),
        build_column([*([1] * len(pools)), *plan.slots.alignment[before:].tolist()], np.uint64),
        build_column([max(0, slot - before + len(pools)) for slot in plan.slots.of.tolist()], np.uint32),
    )
    # Slots of later arenas move up or down; the entries below give those of the pools.
    plan = amend_plan(plan, slots=slots)
    place = {
        tensor: {"slot": pool, "offset": sum(sizes[:pool])}
        for pool, (_, tensors) in enumerate(pools)
        for tensor in tensors
    }
    return counted(edit(plan, storages=place))
