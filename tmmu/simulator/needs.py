"""The memory that a run takes, estimated before it starts. spec: SIM1.12"""

from __future__ import annotations

import numpy as np

from tmmu.core.errors import TmmuError
from tmmu.core.output import format_size
from tmmu.plans import metrics
from tmmu.simulator.memories import physical_memory
from tmmu.simulator.program import PlanProgram


def estimate_memory(program: PlanProgram) -> int:
    """Return about how many bytes a run takes: its arenas, and each tensor beside them while it lives. O(tensors).

    An arena takes no more than its storages together: a wrong plan with an address far beyond them is run for its
    witness. The memory of kernels while they compute is not counted.
    """
    storages, arenas = program.plan.allocation.storages, program.plan.allocation.arenas
    bytes_ = np.bincount(storages.arena, storages.bytes.astype(np.float64), len(arenas))
    together: list[int] = bytes_.astype(np.int64).tolist()
    tensors, last = program.plan.allocation.tensors, max(1, len(program.steps))
    change = np.zeros(last + 1)
    sizes = tensors.bytes.astype(np.float64)
    np.add.at(change, np.minimum(tensors.birth.astype(np.int64), last - 1), sizes)
    np.subtract.at(change, np.minimum(tensors.death.astype(np.int64), last - 1) + 1, sizes)
    beside = int(np.cumsum(change).max(initial=0))
    footprints = metrics.compute_footprints(program.plan.allocation)
    return sum(min(ends, held) for ends, held in zip(footprints, together, strict=True)) + beside


def check_memory(program: PlanProgram, limit: int | None = None) -> int:
    """Return the estimate. Raises TMMU_ALLOCATION_FAILURE if it exceeds the memory of this machine, or `limit`."""
    needed, most = estimate_memory(program), physical_memory() if limit is None else limit
    if needed > most:
        raise TmmuError(
            "TMMU_ALLOCATION_FAILURE",
            f"the run needs about {needed} bytes ({format_size(needed)}), in arenas and for the comparison beside "
            f"them; the machine has {most} ({format_size(most)})",
            fix="run at smaller shapes, or on a machine with more memory", operator="UML_OS.TMMU.ApplyPlan_v1",
            arena="all", peak_required_bytes=needed,
        )  # fmt: skip
    return needed
