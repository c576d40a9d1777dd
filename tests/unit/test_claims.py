"""What a plan claims of its arenas is computed again, and a false claim is named with both values.

spec: V5.1, T5.2, T5.3, T6.4, A3.1, A3.3
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proofs.definition.checker.claims import find_false_claims
from proofs.definition.checker.program import build_program
from proofs.definition.violations import Violation, false_field
from proofs.readers.sharing import Permissions
from tests.support.text_models import text_model
from tmmu.core.columns import build_column
from tmmu.core.vocabulary import ArenaConfiguration, Model, Role
from tmmu.examples.broken.editing import changed
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.columns import Slots
from tmmu.plans.sections import Claims, Plan, Usage, amend_plan


def false(plan: Plan) -> list[Violation]:
    assert plan.claims is not None
    return list(find_false_claims(plan.claims, build_program(plan, Permissions())))


def claiming(plan: Plan, **claims: int | bool) -> Plan:
    """The plan with other claims of the arena `activations`."""
    at = [arena.name for arena in plan.allocation.arenas].index("activations")
    usage = list(plan.usage)
    usage[at] = usage[at]._replace(**claims)  # type: ignore[arg-type]  # the claims of a test have the right types
    return amend_plan(plan, usage=tuple(usage))


def chain() -> Plan:
    """128 bytes and 2 storages are live at steps 0 and 2, and 192 and 3 at step 1."""
    return plan_memory(text_model("node relu Relu x -> a", "node add Add a x -> b", "node relu2 Relu b -> y")).plan


def test_what_the_planner_claims_holds() -> None:
    models = [
        text_model("node relu Relu x -> a", "node add Add a x -> b", "node relu2 Relu b -> y"),
        text_model("node relu Relu x -> a", "node relu2 Relu a -> y", sizes={"a": 0}),
        text_model(
            "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y", "apart x b", parameters="w"
        ),
        text_model(outputs="x"),
        text_model(inputs="", outputs=""),
    ]
    kept = (ArenaConfiguration("all", tuple(Role), reuse=False),)
    for model in models:
        assert false(plan_memory(model).plan) == []
        assert false(plan_memory(model, kept).plan) == []


SLOTS, HELD, AT_STEP = "slots", "slots that hold a storage", "max_live at max_live_step"
CLAIMS: list[tuple[dict[str, int | bool], list[tuple[str, str, str, str]]]] = [
    ({"footprint": 319}, [("capacity", "footprint", "319", "320")]),
    ({"footprint": 321}, [("capacity", "footprint", "321", "320")]),
    *(({"peak_live_bytes": peak}, [("peak", "peak_live_bytes", str(peak), "192"),
                                   ("peak", "peak_live_bytes at peak_step", str(peak), "192")]) for peak in (191, 193)),
    ({"peak_step": 0}, [("peak", "peak_live_bytes at peak_step", "192", "128")]),
    ({"max_live": 2}, [("slot_count", "max_live", "2", "3"), ("slot_count", AT_STEP, "2", "3")]),
    ({"max_live_step": 2}, [("slot_count", AT_STEP, "3", "2")]),
    *(({"slots": 2, **more}, [("slot_count", SLOTS, "2", "3"), ("slot_count", HELD, "2", "3")])
      for more in ({}, {"minimal": False})),
]  # fmt: skip


@pytest.mark.parametrize(("claims", "expected"), CLAIMS)
def test_a_false_claim_is_found(claims: dict[str, int | bool], expected: list[tuple[str, str, str, str]]) -> None:
    found = [(item.obligation, item.field, item.stated, item.recomputed) for item in false(claiming(chain(), **claims))]
    assert found == [(name, f"usage[activations].{field}", *values) for name, field, *values in expected]


def test_a_minimum_that_is_not_claimed_is_no_false_claim() -> None:
    assert false(claiming(chain(), minimal=False)) == []


def test_a_claimed_minimum_is_false_where_slots_outnumber_what_lives() -> None:
    """Four storages one after the other, in an arena that never reuses."""
    kept = (ArenaConfiguration("activations", tuple(Role), reuse=False),)
    plan = plan_memory(
        text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y"), kept
    ).plan
    why = "false: 4 slots where 2 storages are live at once"
    assert false(claiming(plan, minimal=True)) == [false_field("slot_count", "usage[activations].minimal", "true", why)]


def conflicting(*pairs: tuple[str, str]) -> Model:
    return text_model(
        "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y",
        *(f"apart {a} {b}" for a, b in pairs),
    )  # fmt: skip


def test_a_claimed_minimum_is_false_where_must_not_alias_joins_storages() -> None:
    plan = claiming(plan_memory(conflicting(("x", "b"))).plan, minimal=True, slots=3, max_live=3)
    joined = false_field("slot_count", "usage[activations].minimal", "true", "false: must_not_alias joins storages")
    assert joined in false(plan)
    assert joined in false(claiming(plan_memory(conflicting(("b", "x"))).plan, minimal=True))


def test_a_pair_that_lives_together_or_in_two_arenas_joins_nothing() -> None:
    for pair in (("x", "a"), ("a", "x"), ("a", "b"), ("b", "a")):
        assert false(plan_memory(conflicting(pair)).plan) == []
    apart = text_model(
        "node relu Relu x -> g", "node relu2 Relu g -> a", "node relu3 Relu a -> y", "tensor g u8 64 gradient",
        "apart g y", "apart y g",
    )  # fmt: skip
    assert [used.minimal for used in plan_memory(apart).plan.usage] == [True] * 4
    assert false(plan_memory(apart).plan) == []


def test_a_slot_that_holds_nothing_is_found() -> None:
    plan = chain()
    arena = int(plan.slots.arena[0])
    more = Slots(
        build_column([*plan.slots.arena.tolist(), arena, arena], np.uint32),
        build_column([*plan.slots.bytes.tolist(), 1, 1], np.uint64),
        build_column([*plan.slots.alignment.tolist(), 128, 128], np.uint64),
        plan.slots.of,
    )
    found = false(claiming(amend_plan(plan, slots=more), slots=5, minimal=False))
    assert found == [false_field("slot_count", "usage[activations].slots that hold a storage", "5", "3")]


@pytest.mark.parametrize("layout", ["slots", "packed", "pools"])
@pytest.mark.parametrize(("entries", "stated", "holds"), [
    ({"bytes": 65}, "65", "64"), ({"bytes": 63}, "63", "64"), ({"bytes": 0}, "0", "64"),
    ({"alignment": 256}, "256", "128"), ({"alignment": 64}, "64", "128"), ({"alignment": 0}, "0", "128"),
])  # fmt: skip
def test_a_slot_is_just_as_large_and_as_strict_as_what_it_holds_asks_for(
    layout: str, entries: dict[str, int], stated: str, holds: str
) -> None:
    """spec: T6.3, V5.1"""
    model = text_model("node relu Relu x -> a", "node add Add a x -> b", "node relu2 Relu b -> y")
    plan = changed(plan_memory(model, options=PlanOptions(layout=layout)).plan, "slots", 1, **entries)
    assert false_field("slot_count", f"slots[1].{next(iter(entries))}", stated, holds) in false(plan)


def test_a_slot_is_as_strict_as_its_strictest_storage_where_the_arena_is_laxer() -> None:
    lax = (ArenaConfiguration("all", tuple(Role), alignment=1),)
    plan = plan_memory(
        text_model("node relu Relu x -> a", "node relu2 Relu a -> y", "tensor a u8 64 align 256"), lax
    ).plan
    assert sorted(plan.slots.alignment.tolist()) == [1, 256]
    assert false(plan) == []


def test_a_storage_of_no_bytes_takes_its_slot() -> None:
    """spec: T7.2, T7.1"""
    plan = plan_memory(
        text_model("node relu Relu x -> a", "node relu2 Relu a -> y", sizes={"a": 0, "y": 0, "x": 0})
    ).plan
    assert plan.usage[2].footprint == 129
    assert false(plan) == []
    assert false(claiming(plan, footprint=128)) != []


def footprints(plan: Plan) -> list[tuple[str, str]]:
    return [(claim.stated, claim.recomputed) for claim in false(plan) if claim.field.endswith("].footprint")]


def test_scattered_addresses_are_backed_by_the_largest_storage_at_each() -> None:
    """spec: A2.4"""
    arenas = tuple(replace(arena, scattered=True) for arena in chain().allocation.arenas)
    assert footprints(amend_plan(chain(), arenas=arenas)) == [("320", "192")]


def test_what_is_not_claimed_is_not_looked_at() -> None:
    """A claim stands alone; a number of slots without their table suffices, and each can hold a storage. spec: P2.5"""
    silent = Claims((Usage(),) * 4)
    assert false(replace(chain(), claims=silent)) == []
    nothing_held = Usage(minimal=True)
    assert false(replace(chain(), claims=Claims((nothing_held, *silent.usage[1:])))) == []
    for claimed, wrong in (
        (Usage(footprint=320), 0), (Usage(footprint=319), 1), (Usage(peak_live_bytes=192), 0),
        (Usage(peak_live_bytes=193), 1), (Usage(max_live=3), 0), (Usage(max_live=2), 1), (Usage(slots=4), 0),
        (Usage(slots=3, minimal=True), 0), (Usage(slots=4, minimal=True), 1), (Usage(slots=2), 1),
        (Usage(slots=5), 1), (Usage(slots=2**64 - 1), 1),
    ):  # fmt: skip
        claims = Claims((*silent.usage[:2], claimed, silent.usage[3]))
        assert len(false(replace(chain(), claims=claims))) == wrong, claimed


def test_a_packed_storage_of_no_bytes_takes_one() -> None:
    """spec: T7.1"""
    plan = plan_memory(
        text_model("node relu Relu x -> a", "node relu2 Relu a -> y", sizes={"a": 0, "y": 0, "x": 0})
    ).plan
    assert footprints(plan) == []
    assert footprints(claiming(plan, footprint=130)) == [("130", "129")]


def test_a_claim_about_a_step_without_anything_live_is_false() -> None:
    plan = changed(chain(), "storages", 0, birth=1, death=2)
    plan = changed(plan, "storages", 1, birth=1)
    assert false_field("peak", "usage[activations].peak_live_bytes at peak_step", "192", "0") in false(
        claiming(plan, peak_step=0)
    )
