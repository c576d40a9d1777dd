"""Random small HLO modules, with slices for their values that are right but for a few places."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from itertools import count

from tests.support import hlo

SIZES = (4, 4, 4, 8)


@dataclass
class _Program:
    """A module in the making. Values in one set of `sets` must lie at one place; a root maps to its size."""

    rng: random.Random
    names: count[int] = field(default_factory=count)
    computations: list[str] = field(default_factory=list)
    parent: dict[str, str] = field(default_factory=dict)
    size: dict[str, int] = field(default_factory=dict)
    callers: set[str] = field(default_factory=set)
    """Values that the caller or the executable writes."""
    tables: dict[str, list[tuple[str, list[tuple[str, int]]]]] = field(default_factory=dict)
    """Of each computation, by its first line: tuples whose table has a slice, and what is in them."""

    def new(self, prefix: str) -> str:
        return f"{prefix}.{next(self.names)}"

    def value(self, key: str, size: int) -> None:
        self.parent.setdefault(key, key)
        self.size[key] = size

    def find(self, key: str) -> str:
        while self.parent[key] != key:
            key = self.parent[key]
        return key

    def join(self, *keys: str) -> None:
        for key in keys[1:]:
            self.parent[self.find(key)] = self.find(keys[0])


def _array(size: int) -> str:
    return f"u8[{size}]{{0}}"


def _tuple(sizes: list[int]) -> str:
    return f"({', '.join(map(_array, sizes))})"


def _copied(p: _Program, lines: list[str], value: tuple[str, int]) -> tuple[str, int]:
    name = p.new("copy")
    lines.append(f"%{name} = {_array(value[1])} copy(%{value[0]})")
    p.value(name, value[1])
    return name, value[1]


def _body(p: _Program, values: list[tuple[str, int]], lines: list[str], depth: int) -> list[tuple[str, int]]:
    """Instructions after what there is: (name, bytes) of arrays."""
    for _ in range(p.rng.randint(1, 4)):
        kind = p.rng.random()
        if depth and kind < 0.25:
            values += _loop(p, values, lines, depth)
        elif depth and kind < 0.5:
            values += _conditional(p, values, lines, depth)
        elif kind < 0.55:
            name, (operand, size) = p.new("bitcast"), p.rng.choice(values)
            lines.append(f"%{name} = {_array(size)} bitcast(%{operand})")
            values.append((name, size))
        else:
            operands = p.rng.sample(values, min(len(values), p.rng.randint(1, 2)))
            name, size = p.new("op"), p.rng.choice((*SIZES, operands[0][1]))
            lines.append(f"%{name} = {_array(size)} custom({', '.join(f'%{o}' for o, _ in operands)})")
            p.value(name, size)
            values.append((name, size))
    return values


def _inner(
    p: _Program, sizes: list[int], name: str, depth: int, out: list[int] | None, given: str = ""
) -> tuple[str, list[str]]:
    """A computation of a tuple that returns copies of sizes `out`, or a single byte; its parameter and its results.

    Inside, a tuple of all elements of `given` has the same table.
    """
    parameter, lines = p.new("param"), list[str]()
    lines.append(f"%{parameter} = {_tuple(sizes)} parameter(0)")
    values = []
    for k, size in enumerate(sizes):
        element = p.new("gte")
        lines.append(f"%{element} = {_array(size)} get-tuple-element(%{parameter}), index={k}")
        values.append((element, size))
    if f"{given}{{}}" in p.parent:
        p.tables[lines[0]] = [(given, list(values))]
    values = _body(p, values, lines, depth)
    results = []
    for size in out or [1]:
        fitting = [value for value in values if value[1] == size]
        result = _copied(p, lines, p.rng.choice(fitting)) if fitting and out else None
        if result is None:
            fresh = p.new("op")
            lines.append(f"%{fresh} = {_array(size)} custom(%{values[-1][0]})")
            p.value(fresh, size)
            result = fresh, size
        results.append(result[0])
    if out is None:
        lines[-1] = f"ROOT {lines[-1]}"
    else:
        root = p.new("root")
        lines.append(f"ROOT %{root} = {_tuple(out)} tuple({', '.join(f'%{r}' for r in results)})")
    p.computations.append(f"{name}: {'; '.join(lines)}")
    return parameter, results


def _given(p: _Program, values: list[tuple[str, int]], lines: list[str]) -> tuple[str, list[tuple[str, int]]]:
    """A tuple of copies of some values."""
    parts = [_copied(p, lines, p.rng.choice(values)) for _ in range(p.rng.randint(1, 3))]
    name = p.new("tuple")
    lines.append(f"%{name} = {_tuple([s for _, s in parts])} tuple({', '.join(f'%{n}' for n, _ in parts)})")
    return name, parts


def _with_table(p: _Program, values: list[tuple[str, int]], lines: list[str]) -> tuple[str, list[tuple[str, int]]]:
    """A tuple of which the table may have a slice, sometimes that of one beside it, which often holds the same."""
    beside = p.tables.setdefault(lines[0], [])
    if beside and p.rng.random() < 0.5:
        parts = p.rng.choice(beside)[1]
        name = p.new("tuple")
        lines.append(f"%{name} = {_tuple([s for _, s in parts])} tuple({', '.join(f'%{n}' for n, _ in parts)})")
    else:
        name, parts = _given(p, values, lines)
    if p.rng.random() < 0.6:
        p.value(f"{name}{{}}", 8 * len(parts))
        fitting = [(other, held) for other, held in beside if len(held) == len(parts)]
        other, held = p.rng.choice(fitting) if fitting else ("", [])
        if p.rng.random() < (0.7 if held == parts else 0.3 if held else 0):
            p.join(f"{other}{{}}", f"{name}{{}}")
        beside.append((name, parts))
    return name, parts


def _elements(p: _Program, name: str, sizes: list[int], lines: list[str]) -> list[tuple[str, int]]:
    found = []
    for k, size in enumerate(sizes):
        element = p.new("gte")
        lines.append(f"%{element} = {_array(size)} get-tuple-element(%{name}), index={k}")
        found.append((element, size))
    return found


def _loop(p: _Program, values: list[tuple[str, int]], lines: list[str], depth: int) -> list[tuple[str, int]]:
    given, parts = _given(p, values, lines)
    sizes = [size for _, size in parts]
    name, body, condition = p.new("while"), p.new("body"), p.new("cond")
    of_body, left = _inner(p, sizes, body, depth - 1, sizes)
    of_condition, _ = _inner(p, sizes, condition, 0, None)
    lines.append(f"%{name} = {_tuple(sizes)} while(%{given}), condition=%{condition}, body=%{body}")
    for k, ((part, size), result) in enumerate(zip(parts, left, strict=True)):
        keys = [f"{one}{{{k}}}" for one in (name, of_body, of_condition)]
        for key in keys:
            p.value(key, size)
        p.join(part, result, *keys)
    return _elements(p, name, sizes, lines)


def _conditional(p: _Program, values: list[tuple[str, int]], lines: list[str], depth: int) -> list[tuple[str, int]]:
    out = [p.rng.choice(SIZES) for _ in range(p.rng.randint(1, 2))]
    name, arms, operands, results = p.new("conditional"), list[str](), list[str](), list[list[str]]()
    for _ in range(p.rng.randint(1, 3)):
        given, parts = _with_table(p, values, lines)
        arms.append(p.new("arm"))
        operands.append(given)
        results.append(_inner(p, [size for _, size in parts], arms[-1], depth - 1, out, given)[1])
    which = p.rng.choice(values)[0]
    listed = ", ".join(f"%{each}" for each in (which, *operands))
    lines.append(
        f"%{name} = {_tuple(out)} conditional({listed}), branch_computations={{{', '.join(f'%{a}' for a in arms)}}}"
    )
    for k, size in enumerate(out):
        key = f"{name}{{{k}}}"
        p.value(key, size)
        p.join(key, *(result[k] for result in results))
    return _elements(p, name, out, lines)


def program(rng: random.Random) -> tuple[str, str]:
    """A module and an assignment: each set of values has bytes of its own, but for a few that are moved somewhere else
    or on the bytes of others.
    """
    p, lines = _Program(rng), list[str]()
    values, donated = [], []
    for number in range(rng.randint(1, 3)):
        name, size = p.new("parameter"), rng.choice(SIZES)
        lines.append(f"%{name} = {_array(size)} parameter({number})")
        p.value(name, size)
        p.callers.add(name)
        values.append((name, size))
        if rng.random() < 0.3:
            donated.append(number)
    values = _body(p, values, lines, rng.randint(0, 3))
    result, size = rng.choice(values)
    lines.append(f"ROOT %last = {_array(size)} copy(%{result})")
    p.value("last", size)
    p.computations.append(f"main: {'; '.join(lines)}")
    places: dict[str, tuple[int, int]] = {}
    end = 0
    for key in p.parent:
        root = p.find(key)
        if root not in places:
            kept = key in p.callers or key == "last"
            places[root] = (len(places) + 1, 0) if kept else (0, end)
            end += 0 if kept else p.size[key]
    where = {key: places[p.find(key)] for key in p.parent}
    temporary = sorted({p.find(key) for key in p.parent if where[key][0] == 0})
    for _ in range(rng.choice((0, 1, 1, 2, 3, 6)) if temporary else 0):
        moved, onto = rng.choice(temporary), rng.choice(temporary)
        shift = rng.choice((0, 0, 0, 2))
        together = rng.random() < 0.8
        for key in p.parent if together else [rng.choice(list(p.parent))]:
            if where[key][0] == 0 and (p.find(key) == moved or not together):
                where[key] = 0, places[onto][1] + shift
    kinds = {0: "preallocated-temp"} | {
        arena: "maybe-live-out" if key == p.find("last") else "parameter 0, shape |u8[]| at ShapeIndex {}"
        for key, (arena, _) in places.items()
        if arena
    }
    slices = {key: (*where[key], p.size[key]) for key in p.parent}
    title = f", buffer_donor={{ {', '.join(f'({n}, {{}})' for n in donated)} }}" if donated else ""
    return hlo.module(*p.computations, title=title), hlo.assignment(slices, kinds)


def edited(rng: random.Random, dump: tuple[str, str]) -> tuple[str, str]:
    """A dump with an edit or two: a line lost, repeated or moved, or a name or a number that is another's."""
    texts = list(dump)
    for _ in range(rng.randint(1, 2)):
        which, kind = rng.randrange(2), rng.random()
        lines = texts[which].split("\n")
        k, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        if kind < 0.25:
            del lines[k]
        elif kind < 0.4:
            lines.insert(other, lines[k])
        elif kind < 0.55:
            lines[k], lines[other] = lines[other], lines[k]
        else:
            word = re.compile(r"\d+" if which else r"%[\w.]+")
            if found := list(word.finditer(lines[k])):
                place = rng.choice(found)
                lines[k] = lines[k][: place.start()] + rng.choice(word.findall(texts[which])) + lines[k][place.end() :]
        texts[which] = "\n".join(lines)
    return texts[0], texts[1]
