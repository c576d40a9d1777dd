"""Small XLA dumps for tests: a scheduled module as text, and slices for its values, as the two files of a dump."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from proofs.readers.plans import formats, hlo, xla
from tmmu.core.source import Source
from tmmu.plans.gate import Stated

TITLE = "HloModule m, is_scheduled=true"
Slices = Mapping[str, tuple[int, int, int]]
"""The allocation, offset and bytes of each value, by its name in a dump: `x`, `t{}`, `t{0}`."""


def module(*computations: str, title: str = "") -> str:
    """A module of computations, each `NAME: INSTRUCTION; INSTRUCTION`, the entry last; a root begins with ROOT."""
    text = [TITLE + title, ""]
    for k, each in enumerate(computations):
        name, _, body = each.partition(":")
        entry = "ENTRY " if k == len(computations) - 1 else ""
        lines = [f"  {line.strip()}" for line in body.split(";") if line.strip()]
        text += [f"{entry}%{name.strip()} () -> () {{", *lines, "}", ""]
    return "\n".join(text)


def assignment(slices: Slices, kinds: Mapping[int, str], colors: Mapping[int, int] | None = None) -> str:
    """A buffer assignment: `kinds` are the attributes of each allocation; each is as large as what it holds."""
    colors = colors or {}
    lines = ["BufferAssignment:"]
    for number, kind in sorted(kinds.items()):
        held = {name: place for name, place in slices.items() if place[0] == number}
        size = max((offset + count for _, offset, count in held.values()), default=0)
        color = f", color {colors[number]}" if colors.get(number) else ""
        lines.append(f"allocation {number}: size {size}{color}{', ' + kind if kind else ''}:")
        for k, (name, (_, offset, count)) in enumerate(held.items()):
            lines.append(f" value: <{k} {name} @{colors.get(number, 0)}> (size={count},offset={offset}): u8[]")
    return "\n".join([*lines, "", "Total bytes used: 0 (0B)", ""])


def dump(folder: Path, text: str, assigned: str, name: str = "module_0000.m.cpu_after_optimizations") -> Path:
    """The two files in a folder; the path of the assignment."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(text)
    path = folder / f"{name}{xla.SUFFIX}"
    path.write_text(assigned)
    return path


def flat(text: str, assigned: str) -> Stated:
    """The plan of a dump that is in no file, through the gate."""
    plan = xla.flattened(Source("m.txt", text.encode()), xla.assigned(Source("m-buffers", assigned.encode())))
    found = formats.file.gated(*plan)
    assert isinstance(found, Stated)
    return found


def parsed(text: str) -> hlo.HloModule:
    """The module of a text."""
    return hlo.parse(Source("m.txt", text.encode()))
