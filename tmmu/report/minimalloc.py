"""The storages of one arena as MiniMalloc's CSV, which MiniMalloc and idealloc read: half-open lifetimes and offsets.

spec: FP3.7
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tmmu.core.errors import TmmuError
from tmmu.plans.allocation import Placement

HEADER = "id,lower,upper,size,alignment,offset"
APART = re.compile(r"[,\s\x00]")
"""The characters that no id can contain, because the format has no quotation marks."""


def write(placement: Placement, arena: str | None = None) -> str:
    """Write the CSV of the storages in `arena`, by default of the only arena with storages. O(storages).

    Raises INVALID_PLAN if several arenas have storages and none is named, if no arena has the name, and if two storages
    would have one id.
    """
    s, names = placement.storages, placement.storage_names()
    used = sorted(set(s.arena.tolist()))
    rows = [k for k, one in enumerate(placement.arenas) if one.name == arena] if arena is not None else used
    if len(rows) != 1:
        shown = ", ".join(placement.arenas[k].name for k in used)
        what = "it has storages in several arenas" if arena is None else f"it has no arena {arena!r}"
        raise TmmuError("INVALID_PLAN", f"{what}, but the CSV describes one", fix=f"name one by --arena: {shown}")
    if placement.arenas[rows[0]].scattered:
        raise TmmuError("INVALID_PLAN", "its addresses are spread over 64 bits", fix="plan it in another layout")
    return "".join(f"{line}\n" for line in (HEADER, *_write_rows(placement, rows[0], names)))


def _write_rows(placement: Placement, arena: int, names: list[str]) -> Iterator[str]:
    s, alignment = placement.storages, placement.arenas[arena].alignment
    columns = (s.arena, s.birth, s.death, s.bytes, s.alignment, s.offset)
    seen: set[str] = set()
    for name, (at, birth, death, size, aligned, offset) in zip(
        names, zip(*(column.tolist() for column in columns), strict=True), strict=True
    ):
        if at != arena:
            continue
        plain = APART.sub("_", name)
        if plain in seen:
            raise TmmuError("INVALID_PLAN", f"two storages would have the id {plain!r}", fix="rename a tensor")
        seen.add(plain)
        yield f"{plain},{birth},{death + 1},{size},{max(aligned, alignment)},{offset}"
