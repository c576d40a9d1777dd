"""From storages to addresses: arenas are chosen, slots given, a layout places; or the refusal says what would fit.

Where slots do not fit, `packed` is used if it was named as the fallback and fits; where it was not, the refusal says
that it would. spec: A3.2, A8.4, A8.5, M3.13
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Arena, ArenaPolicy, Usage
from tmmu.ir.program import Program
from tmmu.planner import slots
from tmmu.planner.choosing import Candidate, choose
from tmmu.planner.layouts import hashed, packed, pools
from tmmu.planner.layouts import slots as slots_layout
from tmmu.planner.layouts.request import Request
from tmmu.planner.liveness import Liveness
from tmmu.planner.memories import divide, strictest
from tmmu.planner.placed import Placed
from tmmu.planner.storages import Sharing

LAYOUTS: dict[str, ModuleType] = {"slots": slots_layout, "packed": packed, "pools": pools, "hashed": hashed}
"""Every layout by name; adding one is adding a file with `IN_PLACE` and `place`."""

NAMED = 4
"""How many arenas and memories one refusal names."""


@dataclass(frozen=True)
class Storing:
    """What has to be placed: the storages of a program, and where they may lie. `apart` are conflicts (T5)."""

    run: Program
    live: Liveness
    sharing: Sharing
    arenas: tuple[Arena, ...]
    policy: ArenaPolicy
    apart: dict[int, set[int]]
    address_token: bytes | None

    def laid_out(self, layout: str) -> Candidate:
        """The storages in arenas and at addresses of `layout`; what does not fit is in the candidate's `over`."""
        names = [self.run.tensors[t].name for t in self.sharing.root]
        made = [self.live.writer[t] for t in self.sharing.root]
        place = LAYOUTS[layout].place

        def lay(sharing: Sharing) -> tuple[Request, Placed]:
            given = slots.assign(sharing, names, self.arenas, self.apart)
            request = Request(sharing, given, self.arenas, self.apart, made, self.address_token)
            return request, place(request)

        return choose(self.sharing, names, self._uses(), self.arenas, self.policy, lay)

    def _uses(self) -> list[int]:
        """How often steps read or write each storage; nothing is counted where nothing is chosen."""
        uses = [0] * len(self.sharing.root)
        if any(len(choices) > 1 for choices in self.sharing.choices):
            for step in self.run.steps:
                for t in (*step.reads, *step.writes):
                    uses[self.sharing.storage[t]] += 1
        return uses


def fitted(storing: Storing, layout: str, fallback: str | None) -> tuple[str, Candidate]:
    """The layout that is used, and what it placed: where slots do not fit, packed if asked for. spec: A8.5"""
    found = storing.laid_out(layout)
    if found.over and layout == "slots" and fallback == "packed":
        tighter = storing.laid_out("packed")
        if not tighter.over:
            return "packed", tighter
    return layout, found


def too_small(storing: Storing, found: Candidate, layout: str, usage: Sequence[Usage]) -> TmmuError:
    """ARENA_TOO_SMALL: what is too small and by how much, and what packed would need there. spec: A3.2, A8.4, M3.13"""
    arenas = storing.arenas
    short: list[tuple[str, str, int, int, list[int]]] = []  # place, what, capacity, required, rows of its arenas
    for a, (arena, used) in enumerate(zip(arenas, usage, strict=True)):
        if used.footprint > arena.capacity:
            what = (
                f"{used.footprint} bytes are needed ({used.peak_live_bytes} live at step {used.peak_step}), "
                f"its capacity is {arena.capacity}"
            )
            short.append((f"arena {arena.name!r}", what, arena.capacity, used.footprint, [a]))
    footprint = [used.footprint for used in usage]
    for memory in divide(arenas, storing.policy, footprint, strictest(arenas, found.request.slots)):
        if memory.end > memory.capacity:
            filled = [a for a in memory.arenas if footprint[a]]
            parts = ", ".join(f"{arenas[a].name!r} {footprint[a]}" for a in filled)
            what = f"its arenas need {memory.end} bytes together ({parts}), its capacity is {memory.capacity}"
            short.append((f"memory {memory.name!r}", what, memory.capacity, memory.end, filled))
    place, what, capacity, required, rows = short[0]
    others = [f"{place}: {what}" for place, what, *_ in short[1:NAMED]]
    others += [f"and {len(short) - NAMED} more"] if len(short) > NAMED else []
    return TmmuError(
        "ARENA_TOO_SMALL",
        "; ".join([what, *others]),
        place=place,
        fix=_fix(storing, layout, rows),
        arena=arenas[rows[0]].name,
        capacity=capacity,
        required=required,
    )


def _fix(storing: Storing, layout: str, rows: list[int]) -> str:
    """What packed would need in the arenas `rows`, and what helps besides."""
    more = "raise the capacity, or plan smaller shapes"
    if storing.policy.rules:
        more = "raise the capacity, let a rule list further arenas, or plan smaller shapes"
    if layout == "packed":
        return more
    try:
        tighter = storing.laid_out("packed")
    except TmmuError:  # it does not fit 64 bits either
        return more
    needed = sum(tighter.placed.footprint[a] for a in rows)
    if tighter.over:
        return f"packed would need {needed}, which does not fit either: {more}"
    instead = "--layout packed, or --fallback packed" if layout == "slots" else "--layout packed"
    return f"packed needs {needed}, which fits: {instead}"
