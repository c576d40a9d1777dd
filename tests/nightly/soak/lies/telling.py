"""What a lie is: a way to make a right plan wrong, with the code under which it must be refused.

What makes it wrong is worked out from the plan's columns, never by what is soaked. A lie has nothing to say of many
plans, and then says nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tests.nightly.soak.scenes import Scene
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Role, Shares
from tmmu.plan.columns import IS_OUTPUT, IS_SAVED, ROLES, SHARES
from tmmu.plan.sections import Plan, amended


class Files(NamedTuple):
    """What is given to the verifier, where it is more than one plan: files, and the number of the one that lies.

    `codes` are all that may be answered where what a damaged byte means follows from its place; `model` is the file
    to compare with, `donated` what the caller says that it gives up.
    """

    data: tuple[bytes, ...]
    lies: int = 0
    codes: tuple[str, ...] = ()
    model: bytes | None = None
    donated: frozenset[str] | None = None


Tell = Callable[[Scene, random.Random], Plan | Files | None]


class Lie(NamedTuple):
    """A way to lie: the code that it must be refused with, its name, and whether the model is given as well.

    `by_rows` says whether it is one that the solver's rows must not discharge either, where the code has rows.
    """

    code: str
    name: str
    tell: Tell
    with_model: bool = False
    by_rows: bool = True

    @property
    def title(self) -> str:
        """Code and name."""
        return f"{self.code}/{self.name}"


def of_plan(tell: Callable[[Plan, random.Random], Plan | None]) -> Tell:
    """A lie that needs no more than the plan."""
    return lambda scene, chance: tell(scene.plan, chance)


def used(plan: Plan, arena: int, **fields: int | bool) -> Plan:
    """The plan with other claims of one arena."""
    usage = list(plan.usage)
    usage[arena] = usage[arena]._replace(**fields)  # type: ignore[arg-type]  # fields of several types
    return amended(plan, usage=tuple(usage))


def configured(plan: Plan, arena: int, **fields: object) -> Plan:
    """The plan with one arena configured in another way."""
    arenas = list(plan.allocation.arenas)
    arenas[arena] = replace(arenas[arena], **fields)  # type: ignore[arg-type]  # fields of several types
    return amended(plan, arenas=tuple(arenas))


def arena_in_use(plan: Plan, chance: random.Random) -> int | None:
    """An arena that has storages."""
    found = sorted(set(plan.allocation.storages.arena.tolist()))
    return chance.choice(found) if found else None


def alignment_of(plan: Plan, storage: int) -> int:
    """What the address of a storage must be a multiple of."""
    s = plan.allocation.storages
    return max(int(s.alignment[storage]), plan.allocation.arenas[int(s.arena[storage])].alignment)


def is_view(plan: Plan, row: int) -> bool:
    """Does the plan call a tensor a view?"""
    return SHARES[int(plan.allocation.tensors.shares[row])] is Shares.VIEW


def is_plain(plan: Plan, row: int) -> bool:
    """Does a tensor have bytes of its own, as the plan says?"""
    return SHARES[int(plan.allocation.tensors.shares[row])] is Shares.NONE


def address(plan: Plan, row: int) -> int:
    """Where a tensor begins in its arena."""
    return int(plan.allocation.storages.offset[plan.allocation.tensors.storage[row]]) + int(
        plan.allocation.tensors.window[row]
    )


def meet(plan: Plan, one: int, other: int) -> bool:
    """Do two tensors have a byte in common?"""
    t, s = plan.allocation.tensors, plan.allocation.storages
    if s.arena[t.storage[one]] != s.arena[t.storage[other]]:
        return False
    first = max(address(plan, one), address(plan, other))
    return first < min(address(plan, one) + int(t.bytes[one]), address(plan, other) + int(t.bytes[other]))


def accesses(plan: Plan) -> dict[int, list[int]]:
    """The steps that read or write each tensor, in order."""
    found: dict[int, list[int]] = {}
    for n, (read, made) in enumerate(
        zip(plan.allocation.steps.listed("reads"), plan.allocation.steps.listed("writes"), strict=True)
    ):
        for r in dict.fromkeys((*read, *made)):
            found.setdefault(r, []).append(n)
    return found


def is_callers(plan: Plan, row: int) -> bool:
    """Does the caller write a tensor?"""
    return int(plan.allocation.tensors.writer[row]) == NONE


def is_kept(plan: Plan, row: int) -> bool:
    """Is a tensor a parameter or optimizer state, which the caller reads again after the last step?"""
    return ROLES[int(plan.allocation.tensors.role[row])] in (Role.PARAMETER, Role.OPTIMIZER)


def row_bounds(bounds: list[int], entry: int) -> tuple[int, int]:
    """The first entry of the row that an entry of a list column stands in, and its end."""
    return max(at for at in bounds if at <= entry), min(at for at in bounds if at > entry)


def returned(plan: Plan, row: int) -> bool:
    """Does the caller read a tensor after the last step, donations apart?"""
    flags = IS_OUTPUT | (IS_SAVED if plan.origin.mode == "forward" else 0)
    return bool(int(plan.allocation.tensors.flags[row]) & flags)
