"""The table of wrong plans: for each obligation, plans that violate it and right ones beside them.

Every row is run against the naive checker, the rows that Z3 evaluates and `verify-plan`
(`tests/unit/test_wrong_plans.py`), and against the kernel's program (`tests/integration/kernel/test_wrong_plans.py`).
"""

from __future__ import annotations

from tests.support.wrong_plans import accesses, bodies, claims, sharing, storages, streams
from tests.support.wrong_plans.row import Row

TABLE: list[Row] = [
    *storages.NO_LIVE_OVERLAP, *claims.STORAGES_TAKE_TURNS, *storages.ALIGNMENT, *claims.SLOTS_ARE_ALIGNED,
    *storages.CAPACITY, *claims.CLAIMED_FOOTPRINT, *claims.CLAIMED_ROOM, *storages.TENSORS_WITHIN_STORAGES,
    *storages.MUST_NOT_ALIAS, *accesses.LIFETIMES_COVER_ACCESSES, *accesses.WRITERS_HAVE_ROLES,
    *accesses.LOOPS_ARE_BRACKETS, *accesses.INPUTS_KEPT, *sharing.SHARING_IS_SOUND, *sharing.STATED_SHARING,
    *bodies.BODIES_NEST, *bodies.VALUES_STAY_INSIDE, *bodies.ROLES_HAVE_ARENAS, *claims.SLOTS_FIT,
    *claims.SLOTS_ARE_COUNTED, *claims.PEAK_HAS_A_STEP, *claims.PEAK, *streams.RACES,
]  # fmt: skip
