"""Compare a plan's statements about sharing with its bytes and operations.

A runtime that follows the columns `shares` and `of` skips the kernel of a view and calls a kernel that works in place
if they state so. Each row must therefore be true. A view or a result in place must be one by the permissions, and must
be at the bytes that it shows or takes. An alias begins at the first byte of the tensor that it names. The converse is
no error: a tensor that could share bytes, but states no sharing, has its own bytes and is written like any result.
spec: V1.15
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofs.definition.checker.program import Program
from proofs.definition.violations import Obligation, Violation
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Shares
from tmmu.plans.columns import SHARES
from tmmu.plans.sections import Plan

STATED = {Shares.VIEW: "a view of", Shares.IN_PLACE: "in place of", Shares.ALIAS: "an alias of"}
"""The words for each kind of sharing in messages."""


def find_false_sharing(plan: Plan, run: Program) -> Iterator[Violation]:
    """Yield a violation for every row whose sharing is not as stated. O(tensors + accesses)."""
    t = plan.allocation.tensors
    stated = np.flatnonzero((t.shares != SHARES.index(Shares.NONE)) & (t.of != NONE)).tolist()
    reads = plan.allocation.steps.listed("reads") if stated else []
    for row in stated:
        of, shares = int(t.of[row]), SHARES[int(t.shares[row])]
        tensor, other = run.tensors[row], run.tensors[of]
        if why := _why(run, row, of, shares, reads[tensor.writer] if tensor.writer is not None else []):
            text = f"{tensor.name} is stated to be {STATED[shares]} {other.name}, but {why}"
            last = tensor.address + max(0, tensor.bytes - 1)
            where = run.arenas[tensor.arena].name, tensor.address, last
            yield Violation(Obligation.SHARING_IS_SOUND, text, (tensor.name, other.name), tensor.writer, *where)


def _why(run: Program, row: int, of: int, shares: Shares, reads: tuple[int, ...] | list[int]) -> str:
    """Return why a tensor does not share with another as stated, or "" if it does."""
    tensor, other, offset = run.tensors[row], run.tensors[of], 0
    if shares is not Shares.ALIAS:
        granted = run.views.get(row) if shares is Shares.VIEW else (run.in_place.get(row), 0)
        if granted is None or granted[0] != of:
            if tensor.writer is not None and of not in reads:
                return f"{run.at(tensor.writer)}, which writes it, does not read {other.name}"
            return "its operation, its operands or the caller do not permit that"
        offset = granted[1]
    if (tensor.storage, tensor.window) != (other.storage, other.window + offset):
        return "it is at other bytes"
    return ""
