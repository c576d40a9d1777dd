"""A plan is held against the configuration that the user gives, each field that it states and what it leaves open.

spec: V3.11
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proofs.definition.checker import structure
from proofs.definition.checker.configuration import differences
from proofs.definition.checker.program import build_program, place_storages
from proofs.definition.violations import Obligation
from proofs.readers.sharing import Permissions
from proofs.verify.checks import Subject, violations
from tests.support.text_models import text_model
from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, ArenaPolicy, DeviceConfiguration, Memory, Role, Rule
from tmmu.planner import plan_memory
from tmmu.plans import file, text
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import BufferPlan, Plan

KEPT = ArenaConfiguration("kept", (Role.PARAMETER, Role.OPTIMIZER), reuse=False)
REST = ArenaConfiguration("rest", tuple(role for role in Role if role not in KEPT.roles), memory="m", device="npu")
POLICY = ArenaPolicy((DeviceConfiguration("npu", (Memory("m", 1 << 20),)),), (Rule(("rest",), names=("a",)),))
PLAN = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y", parameters="w"), (KEPT, REST),
                   policy=POLICY).plan  # fmt: skip


def found(plan: Plan | BufferPlan, *arenas: ArenaConfiguration, policy: ArenaPolicy = POLICY) -> list[tuple[str, ...]]:
    """What differs: the field and both values, or the obligation, the tensor and the arena."""
    run = build_program(plan, Permissions()) if isinstance(plan, Plan) else place_storages(plan.buffers, plan.claims)
    return [
        (item.field, item.stated, item.recomputed) if item.field else (item.obligation, *item.tensors, item.arena)
        for item in differences(plan, run, Configuration(arenas, policy))
    ]


OTHERS: list[tuple[dict[str, Any], list[tuple[str, str, str]]]] = [
    ({}, []),
    ({"capacity": 9}, [("capacity", str(REST.capacity), "9")]),
    ({"alignment": 64}, [("alignment", "128", "64")]),
    ({"reuse": False}, [("reuse", "True", "False")]),
    ({"page_size": 1}, [("page_size", "4096", "1")]),
    ({"device": "cpu", "memory": ""}, [("device", "npu", "cpu"), ("memory", "m", "nothing")]),
    ({"roles": REST.roles[::-1]}, []),
    ({"roles": ()}, [("roles", ", ".join(REST.roles), "nothing")]),
]


@pytest.mark.parametrize(("fields", "expected"), OTHERS)
def test_each_field_that_a_plan_states_is_the_files(
    fields: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    """In whatever order roles are listed; a plan that claims no configuration states the first three alone."""
    assert found(PLAN, KEPT, replace(REST, **fields)) == [
        (f"arenas[rest].{name}", *values) for name, *values in expected
    ]
    alone = [row[0] for row in found(Plan(PLAN.allocation), KEPT, replace(REST, **fields))]
    stated = [f"arenas[rest].{name}" for name, *_ in expected if name in ("capacity", "alignment", "reuse")]
    assert [field for field in alone if field.startswith("arenas[")] == stated


def test_other_arenas_are_named_and_nothing_else_is_looked_at() -> None:
    assert found(PLAN, REST, replace(KEPT, capacity=1)) == [("arenas", "kept, rest", "rest, kept")]
    assert found(PLAN) == [("arenas", "kept, rest", "nothing")]


def test_what_a_plan_leaves_empty_is_stated_as_nothing() -> None:
    other = replace(KEPT, device="npu", memory="m")
    assert found(PLAN, other, REST) == [
        ("arenas[kept].device", "default", "npu"),
        ("arenas[kept].memory", "nothing", "m"),
    ]


def test_devices_and_rules_are_the_files() -> None:
    other = ArenaPolicy(POLICY.devices, ())
    assert found(PLAN, KEPT, REST, policy=other) == [("rules", repr(POLICY.rules), "()")]
    assert [field for field, *_ in found(PLAN, KEPT, REST, policy=ANYWHERE)] == ["devices", "rules"]


def test_a_given_configuration_is_among_what_is_checked_and_claims_are_held_to_their_own() -> None:
    stated = file.decode(file.encode(PLAN))
    assert isinstance(stated, StatedPlan)
    given = Configuration((KEPT, replace(REST, page_size=1)), POLICY)
    assert [item.field for item in violations(Subject(stated, arenas=given))] == ["arenas[rest].page_size"]
    assert [*violations(Subject(stated))] == []
    run, claims = build_program(PLAN, Permissions()), PLAN.claims
    assert claims is not None
    assert claims.configuration is not None
    full = claims.configuration._replace(policy=ArenaPolicy((DeviceConfiguration("npu", (Memory("m", 1),)),), ()))
    for configuration, expected in ((full, [Obligation.CAPACITY]), (None, [])):
        plan = replace(PLAN, claims=replace(claims, configuration=configuration))
        assert [item.obligation for item in structure.violations(plan, run)] == expected


def test_what_a_plan_does_not_claim_the_files_roles_rules_and_memories_are_applied_to() -> None:
    """To lifetimes alone the memories are."""
    alone = Plan(PLAN.allocation)
    full = ArenaPolicy((DeviceConfiguration("npu", (Memory("m", 1),)),), (Rule(("kept",), names=("a",)),))
    assert found(alone, KEPT, REST) == []
    assert found(alone, KEPT, replace(REST, roles=()), policy=full) == [
        (Obligation.CAPACITY, "x", "rest"), (Obligation.ROLES_HAVE_ARENAS, "x", "rest"),
        (Obligation.ROLES_HAVE_ARENAS, "a", "rest"), (Obligation.ROLES_HAVE_ARENAS, "y", "rest"),
    ]  # fmt: skip
    lives = f"arena kept {KEPT.capacity} align 128 persistent\narena rest {REST.capacity} align 128\n"
    buffers = text.read(f"tmmu-plan-text 1\n{lives}buffer p 4 rest 0 live 0 1\n".encode(), "p.plan.txt")
    assert isinstance(buffers, BufferPlan)
    assert found(buffers, KEPT, replace(REST, roles=())) == []
    assert found(buffers, KEPT, REST, policy=full) == [(Obligation.CAPACITY, "p", "rest")]
