"""The mappings of arenas: the arenas of one memory are consecutive in one mapping, every other arena has its own.

If a memory of a device has several arenas, their addresses are parts of one range of real memory, as in a plan that
fits into the memory (M3.10). spec: U1.10, M3.10
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, ArenaPolicy
from tmmu.plans.memories import divide_memories
from tmmu.plans.metrics import needed_bytes
from tmmu.plans.sections import ArenaUse, Plan
from tmmu.runtime.extents import OPERATOR, Extents

PAGE = 4096
"""The page size of an arena whose plan states none."""


class Mapping(NamedTuple):
    """One range of real memory of `size` bytes, aligned to `alignment`, with the rows of its arenas and their places.

    `name` is that of an arena, or `device/memory`. `page_size` is the largest of its arenas; `reserved` counts whole
    pages.
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
        """The name of the mapping in messages."""
        return f"{'memory' if self.is_memory else 'arena'} {self.name!r}"


def mappings(plan: Plan, found: Sequence[Extents]) -> list[Mapping]:
    """Return the mappings of a plan whose extents are `found`, memories first. O(arenas)."""
    sizes, alignments = [extent.size for extent in found], [extent.alignment for extent in found]
    pages = [use.page_size for use in _get_uses(plan)]
    made = [
        Mapping(
            each.name, True, each.arenas, each.bases, each.end, max(alignments[a] for a in each.arenas),
            max(pages[a] for a in each.arenas),
        )
        for each in divide_memories(_get_uses(plan), _get_policy(plan), sizes, alignments)
    ]  # fmt: skip
    shared = {a for each in made for a in each.arenas}
    for a, arena in enumerate(plan.allocation.arenas):
        if a not in shared:
            made.append(Mapping(arena.name, False, [a], [0], sizes[a], alignments[a], pages[a]))
    return made


def _get_uses(plan: Plan) -> tuple[ArenaUse, ...]:
    """Return the use of each arena; without a configuration, each arena is in a separate memory."""
    if plan.claims is None or plan.claims.configuration is None:
        return (ArenaUse((), PAGE, "", ""),) * len(plan.allocation.arenas)
    return plan.claims.configuration.uses


def _get_policy(plan: Plan) -> ArenaPolicy:
    return ANYWHERE if plan.claims is None or plan.claims.configuration is None else plan.configuration.policy


def check_memories(plan: Plan, found: Sequence[Extents]) -> None:
    """Raise ARENA_TOO_SMALL if the footprints of the arenas of a memory exceed its capacity."""
    sizes, alignments = needed_bytes(plan), [extent.alignment for extent in found]
    for each in divide_memories(_get_uses(plan), _get_policy(plan), sizes, alignments):
        if each.end > each.capacity:
            raise TmmuError(
                "ARENA_TOO_SMALL",
                f"its arenas end at {each.end}, but its capacity is {each.capacity}",
                place=f"memory {each.name!r}",
                fix="plan again",
                operator=OPERATOR,
                arena=plan.allocation.arenas[each.arenas[-1]].name,
                capacity=each.capacity,
                required=each.end,
            )


def buffers(made: Sequence[Mapping], plan: Plan, names: Sequence[str]) -> dict[int, str]:
    """Return the name of the buffer for each mapping, by its number. Raises INVALID_BINDING for any other name."""
    own: dict[str, int] = {}
    for number, each in enumerate(made):
        own.setdefault(each.name, number)
    inside = {plan.allocation.arenas[a].name: each.name for each in made if each.is_memory for a in each.arenas}
    found: dict[int, str] = {}
    for name in names:
        if name in own:
            found[own[name]] = name
            continue
        what = f"which is in the memory {inside[name]!r}" if name in inside else "which is not an arena of the plan"
        raise TmmuError(
            "INVALID_BINDING",
            f"a buffer for {name!r}, {what}",
            fix=f"use one of {', '.join(own)}",
            operator=OPERATOR,
            binding=name,
        )
    return found
