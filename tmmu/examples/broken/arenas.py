"""Wrong plans of several arenas and memories: a tensor in a forbidden arena, or a memory that is overfull."""

from __future__ import annotations

from dataclasses import replace

from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, DeviceConfiguration, Memory, Role, Rule, Shares
from tmmu.examples.broken.editing import counted, edit, laid_out, row
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.models import skip
from tmmu.planner import plan_memory
from tmmu.plans.columns import SHARES
from tmmu.plans.metrics import compute_footprints
from tmmu.plans.sections import Plan, amend_plan

FAST, SLOW = 0, 1
ARENAS = (
    ArenaConfiguration("fast", (), capacity=4096, device="npu", memory="sram"),
    ArenaConfiguration("slow", (Role.INPUT, Role.ACTIVATION, Role.SCRATCH), device="npu", memory="dram"),
    ArenaConfiguration("kept", (Role.PARAMETER,), reuse=False, device="npu", memory="dram"),
)
DEVICE = DeviceConfiguration("npu", (Memory("sram", 1 << 20), Memory("dram", 1 << 30)), ops=("MatMul",))


def _plan_under(*rules: Rule, device: DeviceConfiguration = DEVICE) -> Plan:
    """Return the right plan of `skip` under these rules."""
    return plan_memory(skip(), ARENAS, policy=ArenaPolicy((device,), rules)).plan


def _state_rules(plan: Plan, *rules: Rule) -> Plan:
    """Return the plan with other rules stated than those it was made under."""
    return amend_plan(plan, policy=plan.configuration.policy._replace(rules=rules))


@wrong("roles_have_arenas", "b")
def tensor_in_an_arena_that_its_rule_forbids() -> Plan:
    """`b` is pinned to the arena `slow` but is in `fast`, where it overlaps nothing."""
    plan = _plan_under(Rule(("fast",), (Role.ACTIVATION,)))
    return _state_rules(plan, Rule(("slow",), names=("b",)), Rule(("fast",), (Role.ACTIVATION,)))


@wrong("roles_have_arenas", "c")
def tensor_where_only_a_later_rule_permits_it() -> Plan:
    """The second rule lists the arena of `c`, but the first rule that matches `c` does not."""
    plan = _plan_under(Rule(("fast",), names=("c",)))
    return _state_rules(plan, Rule(("slow",), (Role.ACTIVATION,)), Rule(("fast", "slow"), names=("c",)))


@wrong("roles_have_arenas", "d")
def tensor_in_an_arena_of_another_role() -> Plan:
    """No rule matches `d`, an activation, and it is in `fast`, which holds no role."""
    plan = _plan_under(Rule(("fast",), names=("d",)))
    return _state_rules(plan, Rule(("fast",), names=("d*d",)))


@wrong("roles_have_arenas", "w")
def parameter_where_its_device_forbids_it() -> Plan:
    """A rule pins operands of nodes on `npu` to `kept`, but a parameter that such a node reads is in `slow`."""
    plan = _plan_under(Rule(("slow",), (Role.PARAMETER,)))
    return _state_rules(plan, Rule(("kept",), (Role.PARAMETER,), devices=("npu",)), Rule(("slow",), (Role.PARAMETER,)))


@wrong("roles_have_arenas", "d")
def forbidden_arena_hidden_behind_an_alias() -> Plan:
    """`d` may only be in `slow`; it is in `fast`, in the storage of `a`, and is declared an alias of it."""
    plan = _plan_under(Rule(("fast",), names=("a",)))
    at = int(plan.allocation.tensors.storage[row(plan, "a")])
    entry = {"storage": at, "shares": SHARES.index(Shares.ALIAS), "of": row(plan, "a")}
    return laid_out(edit(plan, tensors={"d": entry}))


@wrong("capacity", "w")
def memory_overfull_though_each_arena_fits() -> Plan:
    """`slow` and `kept` are within their capacities, but the memory that they divide ends before the end of `kept`."""
    plan = _plan_under()
    needed = sum(compute_footprints(plan.allocation))
    small = DEVICE._replace(memories=(DEVICE.memories[0], Memory("dram", needed - 1)))
    return amend_plan(plan, policy=ArenaPolicy((small,), ()))


@wrong("capacity")
def memory_overfull_by_alignment() -> Plan:
    """The bytes of `slow` and `kept` fit into their memory, but `kept` begins at the next multiple of 4,096."""
    arenas = (*ARENAS[:2], replace(ARENAS[2], alignment=4096))
    plan = plan_memory(skip(), arenas, policy=ArenaPolicy((DEVICE,), ())).plan
    needed = sum(compute_footprints(plan.allocation))
    small = DEVICE._replace(memories=(DEVICE.memories[0], Memory("dram", needed)))
    return counted(amend_plan(plan, policy=ArenaPolicy((small,), ())))
