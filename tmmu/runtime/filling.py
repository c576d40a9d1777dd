"""ZeroTensor and DebugFillTensor: the bytes at an address before the first write there.

spec: U3.1 to U3.5
"""

from __future__ import annotations

from typing import Any

from tmmu.core import canonical
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import EXECUTION_MODES
from tmmu.plans.sections import Plan
from tmmu.runtime import philox
from tmmu.runtime.memory import MappedMemory

"""The execution modes of a plan; the mode is only an input of ApplyPlan (M4)."""

UNFILLED = ("confidential", "regulated")
"""The execution modes in which no debug pattern may be written, and no bytes of a tensor to a file."""

ZERO, FILL = "UML_OS.TMMU.ZeroTensor_v1", "UML_OS.TMMU.DebugFillTensor_v1"
LogicalAddress = tuple[str, int]
"""The name of an arena and an address in it: an offset, or a hashed address."""


def zero_tensor(memory: MappedMemory, logical_address: LogicalAddress, size_bytes: int) -> None:
    """Write zeros to `size_bytes` bytes at an address. Raises INVALID_ADDRESS, and writes nothing then. O(size)."""
    try:
        memory.arena(logical_address[0]).view_unused(logical_address[1], size_bytes)[:] = 0
    except TmmuError as error:
        error.operator = ZERO
        raise


def debug_fill_tensor(
    memory: MappedMemory, logical_address: LogicalAddress, size_bytes: int, pattern_seed: int, execution_mode: str
) -> None:
    """Write the Philox4x32-10 pattern of a seed to `size_bytes` bytes at an address, for diagnostics only. O(size).

    Raises MODE_VIOLATION in the execution modes confidential and regulated, INVALID_BINDING for a seed beyond 128 bits,
    INVALID_ADDRESS outside of the arena. Then nothing is written.
    """
    check_fill(execution_mode, pattern_seed)
    try:
        view = memory.arena(logical_address[0]).view_unused(logical_address[1], size_bytes)
    except TmmuError as error:
        error.operator = FILL
        raise
    at = 0
    for piece in philox.pattern(pattern_seed, size_bytes):
        view[at : at + len(piece)] = piece
        at += len(piece)


def storage_seed(plan: Plan, seed: int, storage: int) -> int:
    """Return the pattern seed of one storage: 16 bytes of a commitment, little-endian."""
    value: list[Any] = [plan.origin.replay_token, seed.to_bytes(16, "little"), storage]
    return int.from_bytes(canonical.commitment("tmmu_debug_fill_v1", value)[:16], "little")


def fill_storage(plan: Plan, memory: MappedMemory, seed: int, storage: int, execution_mode: str) -> None:
    """Write the pattern of one storage to it."""
    s = plan.allocation.storages
    address = plan.allocation.arenas[int(s.arena[storage])].name, int(s.offset[storage])
    seed = storage_seed(plan, seed, storage)
    debug_fill_tensor(memory, address, int(s.bytes[storage]), seed, execution_mode)


def debug_fill(plan: Plan, memory: MappedMemory, seed: int, execution_mode: str) -> None:
    """Fill the storages of all reused arenas, in the order of the tensor map, each once."""
    storage, names = plan.allocation.tensors.storage.tolist(), plan.allocation.tensors.name.list()
    order = dict.fromkeys(storage[row] for row in sorted(range(len(names)), key=lambda row: names[row].encode()))
    for k in order:
        if plan.allocation.arenas[int(plan.allocation.storages.arena[k])].reuse:
            fill_storage(plan, memory, seed, k, execution_mode)


def check_mode(execution_mode: str, operator: str) -> None:
    """Raise MODE_VIOLATION for an unknown execution mode."""
    if execution_mode not in EXECUTION_MODES:
        raise TmmuError(
            "MODE_VIOLATION",
            f"unknown execution mode {execution_mode!r}",
            fix=f"use one of {', '.join(EXECUTION_MODES)}",
            operator=operator,
            mode=execution_mode,
        )


def check_fill(execution_mode: str, pattern_seed: int) -> None:
    """Raise MODE_VIOLATION if no debug pattern may be written, INVALID_BINDING for a seed beyond 128 bits."""
    check_mode(execution_mode, FILL)
    if execution_mode in UNFILLED:
        raise TmmuError(
            "MODE_VIOLATION",
            f"no debug pattern may be written in execution mode {execution_mode!r}",
            fix="fill in local or managed mode, or not at all",
            operator=FILL,
            mode=execution_mode,
        )
    if not 0 <= pattern_seed < philox.SEED_END:
        raise TmmuError(
            "INVALID_BINDING",
            f"expected a pattern seed of at most 128 bits, got one of {pattern_seed.bit_length()} bits",
            fix="give one from 0 to 2**128 - 1",
            operator=FILL,
            binding="pattern_seed",
        )
