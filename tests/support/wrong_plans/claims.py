"""Plans whose claims of slots, footprint or peak do not hold, or whose storages do not keep to their slots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from proofs.definition.violations import Obligation
from tests.support.text_models import text_model
from tests.support.written import Written
from tests.support.wrong_plans.row import Change, arena, claim, group, planned, right, slot, storage, wrong
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, DeviceConfiguration, Memory, Role
from tmmu.examples.broken.editing import counted, in_layout
from tmmu.plans.columns import Slots
from tmmu.plans.sections import Claims, Plan, Usage, amend_plan

ALL = tuple(Role)
CHAIN_MODEL = text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y")
SKIP_MODEL = text_model("node relu Relu x -> a", "node add Add a x -> b", "node relu2 Relu b -> y")
WIDE_MODEL = text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y", sizes={"x": 256})
BYTES_MODEL = text_model("node matmul Matmul x -> y", sizes={"x": 1, "y": 1})
CHAIN = planned(CHAIN_MODEL, ArenaConfiguration("m", ALL))
"""`x` and `b`, `a` and `y` take turns in two slots of 64 bytes, which begin at 128 and 0; the footprint is 192."""
SKIP = planned(SKIP_MODEL, ArenaConfiguration("m", ALL))
"""Three storages are live at step 1, two at the other steps."""
WIDE = planned(WIDE_MODEL, ArenaConfiguration("m", ALL))
"""The slot of `x` and `b` has 256 bytes and comes first; the other begins behind it."""
KEPT = planned(
    text_model("node r1 Relu x -> a", "node r2 Relu a -> b", "node r3 Relu b -> c", "node r4 Relu c -> y"),
    ArenaConfiguration("m", ALL, reuse=False),
)
"""Five storages in five slots; `x`, `b` and `y` live one after the other."""
TWO_ARENAS = planned(CHAIN_MODEL, ArenaConfiguration("m", (Role.INPUT,)), ArenaConfiguration("k", ALL[1:]))
"""`x` is in the arena `m`, and the two slots of the others in `k`."""
APART = Written("a = MatMul x; b = MatMul a").plan
"""Three storages of 8 bytes at 0, 16 and 32, in three slots; two live at once."""
MANY = Written("; ".join(f"t{n + 1} = MatMul t{n}" for n in range(119))).plan
"""120 storages of 8 bytes."""
PAUSED = Written("= Wait; a = Make; = Wait").plan
NOTHING = Written("").plan


def layout(name: str) -> Change:
    """State another layout: in `packed` storages may be at any byte, in `hashed` addresses are scattered."""
    token = bytes(32) if name == "hashed" else None
    return lambda plan: amend_plan(in_layout(plan, name), address_token_digest=token)


def with_idle_slot(plan: Plan) -> Plan:
    """Add a slot of 64 bytes that holds no storage."""
    rows = {"arena": 0, "bytes": 64, "alignment": 16}
    columns = {name: getattr(plan.slots, name) for name in rows}
    more: dict[str, Any] = {name: np.append(column, column.dtype.type(rows[name])) for name, column in columns.items()}
    return amend_plan(plan, slots=Slots(**more, of=plan.slots.of))


def uncounted(plan: Plan) -> Plan:
    """Drop all claims but the table of slots."""
    return amend_plan(plan, usage=tuple(Usage() for _ in plan.usage))


def untabled(**claims: Any) -> Change:
    """Make these claims of the first arena, without a table of slots."""
    return lambda plan: replace(plan, provenance=None, claims=Claims((Usage(**claims),)))


def divided(capacity: int) -> Change:
    """Let all arenas divide a memory of this capacity."""

    def change(plan: Plan) -> Plan:
        uses = tuple(use._replace(device="npu", memory="dram") for use in plan.configuration.uses)
        policy = ArenaPolicy((DeviceConfiguration("npu", (Memory("dram", capacity),)),))
        return amend_plan(plan, configuration=plan.configuration._replace(uses=uses, policy=policy))

    return change


STORAGES_TAKE_TURNS = group(
    Obligation.NO_LIVE_OVERLAP,
    right("storages take turns in slots", CHAIN),
    right("packed storages of one slot at two offsets", CHAIN, layout("packed"), storage("b", offset=256), counted),
    right("slots that need no alignment, at any byte", planned(BYTES_MODEL, ArenaConfiguration("m", ALL, alignment=1))),
    wrong("born before its slot is free", CHAIN, "x b @0 bytes 128-191; x b @0 bytes 128-191 / x b; slots: the plan @0",
          storage("b", birth=0), counted),
    wrong("dies after its slot is taken", CHAIN, "x b @1; x b @1 / x b; slots: the plan @1", storage("x", death=1),
          counted),
    wrong("in the slot of another that lives", CHAIN, "x a @0; x a; a b @1; a b / x a", storage("a", slot=1),
          uncounted),
    wrong("at another offset than its slot", CHAIN, "x b", storage("b", offset=384), counted),
    wrong("a slot that reaches into the next", CHAIN,
          "a x bytes 128-128; slots: slots[0].bytes 129 for 64 / a x; slots: y", slot("a", bytes=129)),
    wrong("slots that overlap", WIDE, "x a @0 bytes 128-191; sharing: a x @0 bytes 128-191; x a bytes 128-255 / x a",
          storage("a", offset=128), storage("y", offset=128), counted),
    wrong("of no bytes, in the slot of another that lives", Written("a = MatMul x", a=0).plan,
          "x a @0 / x a; slots: the plan", storage("a", slot=0, offset=0), uncounted),
)  # fmt: skip

SLOTS_ARE_ALIGNED = group(
    Obligation.ALIGNMENT,
    wrong("a slot aligned to 192", CHAIN, "a; y; slots: slots[0].alignment 192 for 128 / the plan; slots: y",
          slot("a", alignment=192)),
    wrong("a slot aligned to 0", CHAIN,
          "slots: x; x; slots: b; b; slots: slots[1].alignment 0 for 128 / overlap: a x; the plan; slots: b",
          slot("x", alignment=0)),
    wrong("a slot at an odd offset", CHAIN, "x; b; slots: slots[1].alignment 256 for 128 / overlap: a x; x; slots: b",
          slot("x", alignment=256), kernel="it looks at the alignment of storages and arenas"),
    wrong("a storage that is aligned, and its slot is not", APART, "b; b / overlap: a b; b", storage("b", offset=40),
          counted),
    wrong("a packed storage that is aligned, and its arena is not", APART, "b", layout("packed"),
          storage("b", offset=40), counted),
)  # fmt: skip

SLOTS_FIT = group(
    Obligation.SLOT_COUNT,
    wrong("a slot that is too small", CHAIN, "a; y; slots[0].bytes 63 for 64 / overlap: a y; y", slot("a", bytes=63)),
    wrong("a slot of no bytes", CHAIN, "a; y; slots[0].bytes 0 for 64 / overlap: a y; y", slot("a", bytes=0)),
    wrong("a slot that is laxer than its storage", CHAIN,
          "alignment: x; x; slots[1].alignment 128 for 256 / overlap: x b; alignment: x", storage("x", alignment=256),
          arena(base_alignment=256)),
    wrong("a slot that is laxer than its arena", CHAIN, "x; b; slots[1].alignment 64 for 128 / alignment: x; b",
          slot("x", alignment=64)),
    wrong("a slot in another arena", TWO_ARENAS, "a; y; overlap: x a / overlap: a", slot("a", arena=0), uncounted),
    wrong("two packed storages in one slot at one step", Written("= Wait a b").plan, "a b @0; slots[1].bytes 8 for 1",
          layout("packed"), storage("b", slot=0), uncounted),
    wrong("two storages in one slot of an arena that does not reuse", KEPT,
          "x b; overlap: x b; slots[2].bytes 64 for 1 / overlap: x a; x a", storage("b", slot=1, offset=128),
          uncounted),
    wrong("three storages in one slot of an arena that does not reuse", KEPT,
          "x b; overlap: x b; overlap: b y; slots[2].bytes 64 for 1; slots[4].bytes 64 for 1 / overlap: x a; x a",
          storage("b", slot=1, offset=128), storage("y", slot=1, offset=128), uncounted),
    wrong("as few as can be are claimed, and fewer would do", APART, "minimal true for false / b @0",
          claim(minimal=True), but=claim(minimal=False)),
    wrong("at the step that is claimed fewer are live", SKIP, "max_live at max_live_step 3 for 2 / x @2",
          claim(max_live_step=2)),
)  # fmt: skip

SLOTS_ARE_COUNTED = group(
    Obligation.SLOT_COUNT,
    wrong("a slot with bytes to spare", CHAIN, "slots[1].bytes 65 for 64 / b", slot("x", bytes=65)),
    wrong("a slot that is stricter than its storages", CHAIN, "slots[0].alignment 256 for 128 / y",
          slot("a", alignment=256)),
    wrong("a slot that holds nothing", APART, "slots that hold a storage 4 for 3; slots[3].bytes 64 for 1",
          with_idle_slot, claim(slots=4)),
    wrong("a slot that holds nothing, scattered", APART, "slots that hold a storage 4 for 3; slots[3].bytes 64 for 1",
          layout("hashed"), with_idle_slot, claim(slots=4, footprint=24)),
    wrong("a slot that holds nothing in a plan of nothing", NOTHING,
          "slots that hold a storage 1 for 0; slots[0].bytes 64 for 1", with_idle_slot, claim(slots=1)),
    wrong("more slots than there are", CHAIN, "slots 3 for 2; slots that hold a storage 3 for 2 / the plan @0",
          claim(slots=3)),
    wrong("fewer slots than there are", CHAIN, "slots 1 for 2; slots that hold a storage 1 for 2 / the plan @0",
          claim(slots=1)),
    wrong("more slots than there are, not as the fewest", CHAIN,
          "slots 3 for 2; slots that hold a storage 3 for 2 / the plan @0", claim(slots=3, minimal=False)),
    wrong("fewer slots than there are, not as the fewest", CHAIN,
          "slots 1 for 2; slots that hold a storage 1 for 2 / the plan @0", claim(slots=1, minimal=False)),
    wrong("more live than are", CHAIN, "max_live 3 for 2; max_live at max_live_step 3 for 2 / the plan @0",
          claim(max_live=3)),
    wrong("fewer live than are", CHAIN, "max_live 1 for 2; max_live at max_live_step 1 for 2 / the plan @0",
          claim(max_live=1)),
    wrong("fewer live than are, not as the fewest", CHAIN,
          "max_live 1 for 2; max_live at max_live_step 1 for 2 / x a @0", claim(max_live=1, minimal=False)),
    wrong("at the step that is claimed fewer are live, not as the fewest", SKIP,
          "max_live at max_live_step 3 for 2 / the plan @2", claim(max_live_step=2, minimal=False)),
    wrong("more than storages, without a table", APART, "slots 4 for 2 to 3 / the plan @0", untabled(slots=4),
          but=untabled(slots=3)),
    wrong("fewer than are live, without a table", APART, "slots 1 for 2 to 3 / the plan @0", untabled(slots=1),
          but=untabled(slots=2)),
    wrong("more than the fewest, without a table", APART, "minimal true for false / the plan @0",
          untabled(slots=3, minimal=True), but=untabled(slots=2, minimal=True)),
    wrong("fewer than the fewest, without a table", APART, "minimal true for false; slots 1 for 2 to 3 / the plan @0",
          untabled(slots=1, minimal=True)),
    wrong("more live than are, without a table", APART, "max_live 3 for 2 / the plan @0", untabled(slots=2, max_live=3),
          but=untabled(slots=2, max_live=2)),
    wrong("fewer live than are, without a table", APART, "max_live 1 for 2 / x a @0", untabled(slots=2, max_live=1)),
    kernel="the plan is safe, and it does not look at this claim",
)  # fmt: skip

PEAK_HAS_A_STEP = group(
    Obligation.PEAK,
    wrong("a peak before anything lives", PAUSED, "peak_live_bytes at peak_step 8 for 0 / the plan @0",
          claim(peak_step=0)),
    wrong("a peak after everything is dead", PAUSED, "peak_live_bytes at peak_step 8 for 0 / the plan @2",
          claim(peak_step=2)),
)  # fmt: skip

PEAK = group(
    Obligation.PEAK,
    wrong("a lower peak", CHAIN, "peak_live_bytes 127 for 128; peak_live_bytes at peak_step 127 for 128 / x a @0",
          claim(peak_live_bytes=127)),
    wrong("a higher peak", CHAIN, "peak_live_bytes 129 for 128; peak_live_bytes at peak_step 129 for 128 / the plan @0",
          claim(peak_live_bytes=129)),
    wrong("a peak at another step", SKIP, "peak_live_bytes at peak_step 192 for 128 / the plan @0", claim(peak_step=0)),
    wrong("a peak of less than many that are born at one step",
          Written(" ".join(f"t{i}" for i in range(130)) + " = Split x").plan,
          "peak_live_bytes 1047 for 1048; peak_live_bytes at peak_step 1047 for 1048 "
          "/ t49 t50 t51 t52 t53 t54 t55 t56 @0",
          claim(peak_live_bytes=1047), but=claim(peak_live_bytes=1048)),
    kernel="the plan is safe, and it does not look at this claim",
)  # fmt: skip

CLAIMED_FOOTPRINT = group(
    Obligation.CAPACITY,
    wrong("a footprint below the end", APART, "b; footprint 39 for 40", claim(footprint=39), but=claim(footprint=40)),
    wrong("a footprint beyond the capacity", APART, "b bytes 32-39 / x", arena(capacity=39), but=arena(capacity=40)),
    wrong("a footprint below the end of what begins first",
          "buffer a 64 m 0 live 0 1; buffer b 8 m 16 live 2 3; claim footprint m 24",
          "a; footprint 24 for 64 / overlap: a; a"),
    wrong("a footprint beyond the capacity, and no storage is", APART, "b bytes 32-39; footprint 48 for 40 / x",
          claim(footprint=48), arena(capacity=47)),
)  # fmt: skip

CLAIMED_ROOM = group(
    Obligation.CAPACITY,
    wrong("a footprint of nothing", NOTHING, "footprint 1 for 0", claim(footprint=1), but=claim(footprint=0)),
    wrong("a footprint beyond the end", APART, "footprint 41 for 40 / b", claim(footprint=41)),
    wrong("a footprint beyond the end, packed", APART, "footprint 41 for 40 / b", layout("packed"),
          claim(footprint=41)),
    wrong("a footprint without the byte that no bytes take", Written("a = MatMul x", a=0).plan,
          "footprint 16 for 17 / a", layout("packed"), claim(footprint=16)),
    wrong("scattered, less than the sum of all", MANY, "footprint 959 for 960", layout("hashed"), claim(footprint=959)),
    wrong("scattered, the sum of fifty", MANY, "footprint 400 for 960", layout("hashed"), claim(footprint=400)),
    right("scattered, the sum of all", MANY, layout("hashed"), claim(footprint=960)),
    wrong("arenas that do not fit their memory", TWO_ARENAS, "b bytes 191-191 / a", divided(319), but=divided(320)),
    wrong("arenas that do not fit their memory, and claim no footprint", TWO_ARENAS, "b / a", divided(319),
          claim(footprint=None)),
    wrong("the second begins where its strictest storage asks", TWO_ARENAS, "b / a", storage("a", alignment=256),
          slot("a", alignment=256), arena(1, base_alignment=256), uncounted, divided(447)),
    kernel="the plan is safe, and it does not look at this claim",
)  # fmt: skip
