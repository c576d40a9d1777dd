"""The layout `hashed`: 000's addresses, their bounds, and their collisions. spec: A2.1 to A2.5, A7.2"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace

import pytest
from blake3 import blake3

from tests.support.example_models import large
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Body, Model, Role, Tensor
from tmmu.examples.broken.models import skip
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.arenas import DEFAULT
from tmmu.plans import file
from tmmu.plans.gate import from_object

TOKEN = bytes(range(64))


def failure(model: Model, **options: bytes) -> TmmuError:
    with pytest.raises(TmmuError) as raised:
        plan_memory(model, options=PlanOptions(layout="hashed", **options))
    return raised.value


def test_the_address_of_a_slot_is_that_of_the_document() -> None:
    """Written down here once more, from the formula. spec: A2.1"""
    plan = plan_memory(skip(), options=PlanOptions(layout="hashed", address_token=TOKEN)).plan
    assert [arena.scattered for arena in plan.allocation.arenas] == [arena.reuse for arena in DEFAULT]
    first = {0: 0, 1: 0, 2: 0, 3: 0} | {int(a): k for k, a in reversed(list(enumerate(plan.slots.arena.tolist())))}
    for k in range(len(plan.allocation.storages)):
        a = int(plan.allocation.storages.arena[k])
        if not plan.allocation.arenas[a].reuse:
            continue
        name, number = plan.allocation.arenas[a].name.encode(), int(plan.slots.of[k]) - first[a]
        digest = blake3(TOKEN + b"tmmu_va" + name + number.to_bytes(8, "little")).digest()
        assert int(plan.allocation.storages.offset[k]) == int.from_bytes(digest[:8], "little") // 128 * 128


def test_another_token_gives_other_addresses_and_the_same_slots() -> None:
    one, other = (
        plan_memory(skip(), options=PlanOptions(layout="hashed", address_token=bytes([n]) * 64)).plan for n in (1, 2)
    )
    assert one.allocation.storages.offset.tolist() != other.allocation.storages.offset.tolist()
    assert one.slots == other.slots


def test_parameters_lie_in_sequence_and_the_footprint_is_the_sum_of_the_slots() -> None:
    plan = plan_memory(skip(), options=PlanOptions(layout="hashed", address_token=TOKEN)).plan
    slots = plan_memory(skip(), options=PlanOptions(layout="slots")).plan
    persistent = plan.allocation.storages.arena == 0
    assert plan.allocation.storages.offset[persistent].tolist() == slots.allocation.storages.offset[persistent].tolist()
    assert plan.usage[2].footprint == int(plan.slots.bytes[plan.slots.arena == 2].sum()) == 768
    small = (
        *DEFAULT[:2],
        replace(DEFAULT[2], capacity=768),
        DEFAULT[3],
    )
    assert plan_memory(skip(), small, PlanOptions(layout="hashed", address_token=TOKEN)).plan.usage == plan.usage


def test_the_plan_records_the_digest_of_the_token_and_not_the_token() -> None:
    plan = plan_memory(skip(), options=PlanOptions(layout="hashed", address_token=TOKEN)).plan
    assert plan.origin.address_token_digest == hashlib.sha256(TOKEN).digest()
    assert TOKEN not in file.encode(plan)
    assert file.decode(file.encode(plan)).plan == plan


@pytest.mark.parametrize(("layout", "digest"), [("hashed", None), ("slots", bytes(32)), ("packed", bytes(32))])
def test_the_gate_wants_the_digest_for_this_layout_and_no_other(layout: str, digest: bytes | None) -> None:
    value = file.to_object(plan_memory(skip(), options=PlanOptions(layout="slots")).plan)
    with pytest.raises(TmmuError, match="address_token_digest"):
        from_object({**value, "provenance": value["provenance"] | {"layout": layout, "address_token_digest": digest}})


def test_two_slots_that_meet_are_a_collision_and_one_that_ends_too_high_an_overflow() -> None:
    """Slots of an eighth of the address space: the tokens were found by trying. spec: A2.2, A2.3"""
    third = large(3, 1 << 61)
    assert [failure_code(third, n) for n in (0, 2, 3)] == ["ADDRESS_COLLISION", "ALLOCATION_OVERFLOW", ""]
    colliding, beyond = (failure(third, address_token=bytes([n]) * 64) for n in (0, 2))
    assert set(colliding.diagnostics) == {"arena", "logical_slot"}
    assert "overlap from byte" in str(colliding)
    assert beyond.diagnostics["size"] == 1 << 61


def failure_code(model: Model, n: int) -> str:
    try:
        plan_memory(model, options=PlanOptions(layout="hashed", address_token=bytes([n]) * 64))
    except TmmuError as error:
        return error.code_id
    return ""


def test_slots_that_no_memory_could_back_are_refused() -> None:
    """The sum of the slots is beyond 64 bits, wherever they lie."""
    assert failure_code(large(40, 1 << 60), 0) == "ALLOCATION_OVERFLOW"
    parameters = Model(
        "weights",
        tuple(Tensor(f"w{i}", (1 << 63,), "uint8", Role.PARAMETER, 1 << 63) for i in range(2)),
        (),
        (Body(-1, "", (), ()),),
    )
    assert failure_code(parameters, 0) == "ALLOCATION_OVERFLOW"


@pytest.mark.parametrize(("options", "said"), [({}, "no address token"), ({"address_token": bytes(63)}, "63 bytes")])
def test_a_missing_or_short_token_is_refused(options: dict[str, bytes], said: str) -> None:
    error = failure(skip(), **options)
    assert (error.code_id, error.diagnostics) == ("INVALID_BINDING", {"binding": "address_token"})
    assert said in str(error)


def test_a_token_for_another_layout_is_refused() -> None:
    with pytest.raises(TmmuError, match="the layout packed takes no address token"):
        plan_memory(skip(), options=PlanOptions(layout="packed", address_token=TOKEN))


def test_without_blake3_the_refusal_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "blake3", None)
    error = failure(skip(), address_token=TOKEN)
    assert (error.code_id, "pip install 'blake3>=" in str(error)) == ("MISSING_PACKAGE", True)
