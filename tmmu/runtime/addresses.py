"""The check that a plan can be put into memory: its addresses, sizes and lifetimes, before anything is mapped.

spec: U2.4
"""

from __future__ import annotations

from tmmu.core.errors import TmmuError
from tmmu.plans.metrics import needed_bytes
from tmmu.plans.sections import Plan
from tmmu.runtime import extents
from tmmu.runtime.divided import check_memories
from tmmu.runtime.extents import OPERATOR as APPLY


def check_addresses(plan: Plan) -> None:
    """Check that every storage is aligned and in its arena, every tensor in its storage, every lifetime in the run.

    Raises INVALID_ADDRESS, ALIGNMENT_VIOLATION, ARENA_TOO_SMALL, CONTRACT_VIOLATION for lifetimes, and the exceptions
    of `extents.of_plan`. It does not check for overlap, which `verify-plan` proves absent. O(plan).
    """
    s, t = plan.allocation.storages, plan.allocation.tensors
    found = extents.of_plan(plan)
    needed = needed_bytes(plan)
    for arena, footprint in zip(plan.allocation.arenas, needed, strict=True):
        if footprint > arena.capacity:
            raise TmmuError(
                "ARENA_TOO_SMALL",
                f"its footprint of {footprint} bytes exceeds its capacity of {arena.capacity}",
                place=f"arena {arena.name!r}",
                fix="plan again",
                operator=APPLY,
                arena=arena.name,
                capacity=arena.capacity,
                required=footprint,
            )
    check_memories(plan, found)
    last = plan.allocation.last_step
    claimed = None if plan.claims is None else plan.claims.slots
    rows = zip(
        s.arena.tolist(), s.offset.tolist(), s.bytes.tolist(), s.alignment.tolist(), s.birth.tolist(), s.death.tolist(),
        strict=True,
    )  # fmt: skip
    for k, (a, offset, size, alignment, birth, death) in enumerate(rows):
        extent, at = found[a].locate(offset, size)
        del extent
        if offset % max(alignment, plan.allocation.arenas[a].alignment) or at % alignment:
            raise TmmuError(
                "ALIGNMENT_VIOLATION",
                f"storage {k} is at {offset}, which is not a multiple of "
                f"{max(alignment, plan.allocation.arenas[a].alignment)}",
                place=f"arena {plan.allocation.arenas[a].name!r}",
                fix="plan again",
                operator=APPLY,
                arena=plan.allocation.arenas[a].name,
                logical_slot=k if claimed is None else int(claimed.of[k]),
            )
        if not birth <= death <= last:
            raise _make_invalid_lifetime(f"storage {k}", birth, death, last)
    backing = s.bytes.tolist()
    for row, (birth, death) in enumerate(zip(t.birth.tolist(), t.death.tolist(), strict=True)):
        if not birth <= death <= last:
            raise _make_invalid_lifetime(f"tensor {t.name[row]!r}", birth, death, last)
    for row, (k, window, size) in enumerate(zip(t.storage.tolist(), t.window.tolist(), t.bytes.tolist(), strict=True)):
        if window + size > backing[k]:
            a, what = int(s.arena[k]), f"tensor {t.name[row]!r} ends beyond its storage of {backing[k]} bytes"
            raise _make_invalid_address(plan, a, int(s.offset[k]), what)


def _make_invalid_address(plan: Plan, arena: int, offset: int, what: str) -> TmmuError:
    return TmmuError(
        "INVALID_ADDRESS",
        what,
        place=f"arena {plan.allocation.arenas[arena].name!r}",
        fix="plan again",
        operator=APPLY,
        arena=plan.allocation.arenas[arena].name,
        offset=offset,
    )


def _make_invalid_lifetime(what: str, birth: int, death: int, last: int) -> TmmuError:
    return TmmuError(
        "CONTRACT_VIOLATION",
        f"{what} lives from step {birth} to {death} of a run that ends with {last}",
        fix="plan again, and let verify-plan prove the plan",
        operator=APPLY,
        failure_operator=APPLY,
    )
