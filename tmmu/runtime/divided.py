"""Which arenas lie in which mapping: those of a memory one behind the other, every other one alone.

Where a device's memory has several arenas, their addresses are parts of one range of real memory, as in a plan that
fits into the memory (M3.10). spec: U1.10, M3.10
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, ArenaPolicy
from tmmu.plans.memories import divide
from tmmu.plans.metrics import needed_bytes
from tmmu.plans.sections import ArenaUse, Plan
from tmmu.runtime.extents import OPERATOR, Extents

PAGE = 4096
"""The page size of an arena for which the plan states none."""


class Mapping(NamedTuple):
    """One range of real memory of `size` bytes, aligned to `alignment`, with the rows of its arenas and their places.

    `name` is an arena's, or `device/memory`. `page_size` is the largest of its arenas; `reserved` counts whole pages.
    """

    name: str
    is_memory: bool
    arenas: list[int]
    at: list[int]
    size: int
    alignment: int
    page_size: int

    @property
    def reserved(self) -> int:
        """The bytes of real memory that it takes."""
        return -(-self.size // self.page_size) * self.page_size

    @property
    def place(self) -> str:
        """How it is named to people."""
        return f"{'memory' if self.is_memory else 'arena'} {self.name!r}"


def mappings(plan: Plan, found: Sequence[Extents]) -> list[Mapping]:
    """The mappings of a plan whose extents are `found`, memories first. O(arenas)."""
    sizes, alignments = [extent.size for extent in found], [extent.alignment for extent in found]
    pages = [use.page_size for use in _uses(plan)]
    made = [
        Mapping(
            each.name, True, each.arenas, each.bases, each.end, max(alignments[a] for a in each.arenas),
            max(pages[a] for a in each.arenas),
        )
        for each in divide(_uses(plan), _policy(plan), sizes, alignments)
    ]  # fmt: skip
    shared = {a for each in made for a in each.arenas}
    for a, arena in enumerate(plan.allocation.arenas):
        if a not in shared:
            made.append(Mapping(arena.name, False, [a], [0], sizes[a], alignments[a], pages[a]))
    return made


def _uses(plan: Plan) -> tuple[ArenaUse, ...]:
    """Where each arena lies; a plan without a configuration has each in a memory of its own."""
    if plan.claims is None or plan.claims.configuration is None:
        return (ArenaUse((), PAGE, "", ""),) * len(plan.allocation.arenas)
    return plan.claims.configuration.uses


def _policy(plan: Plan) -> ArenaPolicy:
    return ANYWHERE if plan.claims is None or plan.claims.configuration is None else plan.configuration.policy


def check_memories(plan: Plan, found: Sequence[Extents]) -> None:
    """ARENA_TOO_SMALL where the footprints of a memory's arenas do not end within its capacity."""
    sizes, alignments = needed_bytes(plan), [extent.alignment for extent in found]
    for each in divide(_uses(plan), _policy(plan), sizes, alignments):
        if each.end > each.capacity:
            raise TmmuError(
                "ARENA_TOO_SMALL",
                f"its arenas end at {each.end}, its capacity is {each.capacity}",
                place=f"memory {each.name!r}",
                fix="plan again",
                operator=OPERATOR,
                arena=plan.allocation.arenas[each.arenas[-1]].name,
                capacity=each.capacity,
                required=each.end,
            )


def buffers(made: Sequence[Mapping], plan: Plan, names: Sequence[str]) -> dict[int, str]:
    """The name under which each mapping is given a buffer, by its number; INVALID_BINDING for any other name."""
    own: dict[str, int] = {}
    for number, each in enumerate(made):
        own.setdefault(each.name, number)
    inside = {plan.allocation.arenas[a].name: each.name for each in made if each.is_memory for a in each.arenas}
    found: dict[int, str] = {}
    for name in names:
        if name in own:
            found[own[name]] = name
            continue
        what = f"which lies in the memory {inside[name]!r}" if name in inside else "which is not an arena of the plan"
        raise TmmuError(
            "INVALID_BINDING",
            f"a buffer for {name!r}, {what}",
            fix=f"use one of {', '.join(own)}",
            operator=OPERATOR,
            binding=name,
        )
    return found
