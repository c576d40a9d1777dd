"""Small XLA dumps for tests: a scheduled module as text, and slices for its values, as the two files of a dump."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from proofs.readers.plans import formats, hlo, xla
from proofs.readers.plans.hlo_module import HloModule
from tmmu.core.source import Source
from tmmu.plans.gate import StatedPlan

TITLE = "HloModule m, is_scheduled=true"
Slices = Mapping[str, tuple[int, int, int]]
"""The allocation, offset and bytes of each value, by its name in a dump: `x`, `t{}`, `t{0}`."""
LINE = re.compile(r"(ROOT )?%?([\w.\-]+) = (.+?) ([a-z][\w\-]*)\((\d*)")


def module(*computations: str, title: str = "") -> str:
    """A module of computations, each `NAME: INSTRUCTION; INSTRUCTION`, the entry last; a root begins with ROOT.

    The head of each is made from its instructions.
    """
    text = [TITLE + title, ""]
    for k, each in enumerate(computations):
        name, _, body = each.partition(":")
        entry = "ENTRY " if k == len(computations) - 1 else ""
        lines = [line.strip() for line in body.split(";") if line.strip()]
        found = [line for line in map(LINE.match, lines) if line]
        parameters = sorted((int(line[5]), line[2], line[3]) for line in found if line[4] == "parameter" and line[5])
        listed = ", ".join(f"{name}: {shape}" for _, name, shape in parameters)
        result = next((line[3] for line in found if line[1]), "()")
        text += [f"{entry}%{name.strip()} ({listed}) -> {result} {{", *(f"  {line}" for line in lines), "}", ""]
    return "\n".join(text)


def assignment(text: str, slices: Slices, kinds: Mapping[int, str], colors: Mapping[int, int] | None = None) -> str:
    """A buffer assignment for the module in `text`: `kinds` are the properties of each allocation, which is as large as
    the values in it. The shape of a value is that of its instruction.
    """
    colors = colors or {}
    shapes = {line[2]: line[3] for line in map(LINE.match, (line.strip() for line in text.split("\n"))) if line}
    lines = ["BufferAssignment:"]
    for number, kind in sorted(kinds.items()):
        held = {name: place for name, place in slices.items() if place[0] == number}
        size = max((offset + count for _, offset, count in held.values()), default=0)
        color = f", color {colors[number]}" if colors.get(number) else ""
        lines.append(f"allocation {number}: size {size}{color}{', ' + kind if kind else ''}:")
        for k, (name, (_, offset, count)) in enumerate(held.items()):
            shape = part(shapes.get(name.partition("{")[0], "u8[]"), name.partition("{")[2].rstrip("}"))
            lines.append(f" value: <{k} {name} @{colors.get(number, 0)}> (size={count},offset={offset}): {shape}")
    return "\n".join([*lines, "", "Total bytes used: 0 (0B)", ""])


def part(shape: str, index: str) -> str:
    """The text of a part of a tuple's shape."""
    for word in index.split(",") if index else ():
        parts, depth = [""], 0
        for letter in shape[1:-1]:
            depth += letter in "([{"
            depth -= letter in ")]}"
            if letter == "," and depth == 0:
                parts.append("")
            else:
                parts[-1] += letter
        shape = parts[int(word)].strip() if int(word) < len(parts) else "u8[]"
    return shape


def dump(folder: Path, text: str, assigned: str, name: str = "module_0000.m.cpu_after_optimizations") -> Path:
    """The two files in a folder; the path of the assignment."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(text)
    path = folder / f"{name}{xla.SUFFIX}"
    path.write_text(assigned)
    return path


def flat(text: str, assigned: str) -> StatedPlan:
    """The plan of a dump that is in no file, through the gate."""
    plan = xla.flatten(Source("m.txt", text.encode()), xla.read_assignment(Source("m-buffers", assigned.encode())))
    found = formats.file.pass_gate(*plan)
    assert isinstance(found, StatedPlan)
    return found


def parsed(text: str) -> HloModule:
    """The module of a text."""
    return hlo.parse(Source("m.txt", text.encode()))
