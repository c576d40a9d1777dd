"""One memory for the programs of a plan set: each arena is mapped once, for all programs that have it.

An arena is as large as the program needs that needs most of it. The programs see it from its first byte on, so that
equal addresses in two plans are the same bytes. spec: U9.1 to U9.3
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Self

from tmmu.core.errors import TmmuError
from tmmu.plans.sections import Plan
from tmmu.runtime import divided, extents
from tmmu.runtime.backing import Bytes, map_bytes
from tmmu.runtime.extents import OPERATOR
from tmmu.runtime.memory import MappedMemory


class SetMemory:
    """The memory of a plan set. `of` has the arenas of each program, `mappings` the ranges that contain them.

    It is a context manager, which releases the memory at its end.
    """

    def __init__(self, of: dict[str, MappedMemory], mappings: list[divided.Mapping], content: dict[str, Bytes]) -> None:
        self.of, self.mappings, self.content = of, mappings, content

    @classmethod
    def map(
        cls, plans: Mapping[str, Plan], *, memory_bytes_budget: int | None = None, huge_pages: bool = False
    ) -> Self:
        """Map every arena of the programs once, or none.

        Raises INVALID_PLAN if an arena has hashed addresses or is elsewhere in its memory in another program,
        CONTRACT_VIOLATION beyond the budget, and as `MappedMemory.map` does.
        """
        common = _merge_mappings(plans)
        needed = sum(each.reserved for each in common.values())
        if memory_bytes_budget is not None and needed > memory_bytes_budget:
            raise TmmuError(
                "CONTRACT_VIOLATION",
                f"the arenas of the set need {needed} bytes of memory, but the budget is {memory_bytes_budget}",
                fix="raise the budget, or plan smaller shapes", operator=OPERATOR, failure_operator=OPERATOR,
                memory_bytes_budget=memory_bytes_budget, required=needed,
            )  # fmt: skip
        content = {name: map_bytes(each, huge_pages) for name, each in common.items()}
        of: dict[str, MappedMemory] = {}
        with ExitStack() as undo:
            for name, plan in plans.items():
                own = [each.name for each in divided.mappings(plan, extents.of_plan(plan))]
                of[name] = undo.enter_context(MappedMemory.map(plan, base={each: content[each] for each in own}))
            undo.pop_all()
        return cls(of, list(common.values()), content)

    @property
    def bytes_allocated(self) -> int:
        """The bytes of real memory that the arenas take, in whole pages."""
        return sum(each.reserved for each in self.mappings)

    def close(self) -> None:
        """Release all arenas; a second call does nothing."""
        for memory in self.of.values():
            memory.close()
        self.content.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _merge_mappings(plans: Mapping[str, Plan]) -> dict[str, divided.Mapping]:
    """Return the mappings of the set by name: the largest size, alignment and page size of any program."""
    common: dict[str, divided.Mapping] = {}
    at: dict[tuple[str, str], int] = {}
    for program, plan in plans.items():
        arenas = plan.allocation.arenas
        for arena in arenas:
            if arena.scattered:
                raise _make_refusal(program, arena.name, "has hashed addresses, which programs cannot share")
        for each in divided.mappings(plan, extents.of_plan(plan)):
            for a, first in zip(each.arenas, each.at, strict=True):
                if at.setdefault((each.name, arenas[a].name), first) != first:
                    raise _make_refusal(program, arenas[a].name, f"begins at byte {first} of {each.name} only here")
            other = common.get(each.name, each)
            common[each.name] = _widen(other, each)
    return common


def _widen(one: divided.Mapping, other: divided.Mapping) -> divided.Mapping:
    """Return the first mapping, as large and as aligned as both."""
    return one._replace(
        size=max(one.size, other.size), alignment=max(one.alignment, other.alignment),
        page_size=max(one.page_size, other.page_size),
    )  # fmt: skip


def _make_refusal(program: str, arena: str, what: str) -> TmmuError:
    return TmmuError(
        "INVALID_PLAN", f"the arena {what}", place=f"arena {arena!r} of the program {program!r}",
        fix="plan the set again", operator=OPERATOR,
    )  # fmt: skip
