"""Random small HLO modules, with slices for their values that are right but for a few places."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from itertools import count

from tests.support import hlo
from tests.support.hlo_fusions import SHAPES, Fused, dims_of

SIZES = (*SHAPES[:3], *SHAPES)
Value = tuple[str, str]
"""A name and the shape of an array."""
SUM = "sum: %sum.a = s32[] parameter(0); %sum.b = s32[] parameter(1); ROOT %sum.c = s32[] add(%sum.a, %sum.b)"

LESS = (
    "less: %less.a = s32[] parameter(0); %less.b = s32[] parameter(1); "
    "ROOT %less.c = pred[] compare(%less.a, %less.b), direction=LT"
)


def bytes_of(shape: str) -> int:
    found = 4
    for n in dims_of(shape):
        found *= n
    return found


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
    tables: dict[str, list[tuple[str, list[Value]]]] = field(default_factory=dict)
    """Of each computation, by its first line: tuples whose table has a slice, and what is in them."""

    def new(self, prefix: str) -> str:
        return f"{prefix}.{next(self.names)}"

    def value(self, key: str, size: str | int) -> None:
        self.parent.setdefault(key, key)
        self.size[key] = size if isinstance(size, int) else bytes_of(size)

    def find(self, key: str) -> str:
        while self.parent[key] != key:
            key = self.parent[key]
        return key

    def join(self, *keys: str) -> None:
        for key in keys[1:]:
            self.parent[self.find(key)] = self.find(keys[0])


def _tuple(sizes: list[str]) -> str:
    return f"({', '.join(sizes)})"


def _copied(p: _Program, lines: list[str], value: Value) -> Value:
    name = p.new("copy")
    lines.append(f"%{name} = {value[1]} copy(%{value[0]})")
    p.value(name, value[1])
    return name, value[1]


def _body(p: _Program, values: list[Value], lines: list[str], depth: int) -> list[Value]:
    """Instructions after what there is: (name, bytes) of arrays."""
    for _ in range(p.rng.randint(1, 4)):
        kind = p.rng.random()
        if depth and kind < 0.25:
            values += _loop(p, values, lines, depth)
        elif depth and kind < 0.5:
            values += _conditional(p, values, lines, depth)
        elif kind < 0.55:
            name, (operand, size) = p.new("bitcast"), p.rng.choice(values)
            fitting = [each for each in SHAPES if bytes_of(each) == bytes_of(size)]
            lines.append(f"%{name} = {(onto := p.rng.choice(fitting))} bitcast(%{operand})")
            values.append((name, onto))
        elif kind < 0.85:
            values += _fusion(p, values, lines)
        else:
            values.append(_plain(p, values, lines))
    return values


def _in_place(p: _Program, name: str, size: str, operands: list[Value]) -> None:
    """Sometimes, give a result the bytes of an operand."""
    fitting = [each for each, of in operands if bytes_of(of) == bytes_of(size) and each in p.parent]
    fitting = [each for each in fitting if p.find(each) not in {p.find(caller) for caller in p.callers}]
    if fitting and p.rng.random() < 0.6:
        p.join(p.rng.choice(fitting), name)


def _plain(p: _Program, values: list[Value], lines: list[str]) -> Value:
    """An instruction that is no fusion."""
    operands = p.rng.sample(values, min(len(values), p.rng.randint(1, 2)))
    name, size = p.new("op"), p.rng.choice((p.rng.choice(SIZES), operands[0][1]))
    listed = ", ".join(f"%{each}" for each, _ in operands)
    first, shape = f"%{operands[0][0]}", operands[0][1]
    kind = p.rng.random()
    if kind < 0.35:
        lines.append(f'%{name} = {size} custom-call({listed}), custom_call_target="f"')
        operands = operands if p.rng.random() < 0.2 else []
    elif kind < 0.45 and bytes_of(size) == bytes_of(shape):
        lines.append(
            f'%{name} = {size} custom-call({listed}), custom_call_target="f", output_to_operand_aliasing={{{{}}: (0, '
            "{})}"
        )
    elif kind < 0.55:
        size, d = shape, p.rng.randrange(max(1, len(dims_of(shape))))
        lines.append(f"%{name} = {size} reverse({first}), dimensions={{{d}}}")
    elif kind < 0.65:
        size, axis = shape, len(dims_of(shape)) - 1
        lines.append(f"%{name} = {size} sort({first}), dimensions={{{axis}}}, to_apply=%less")
    elif kind < 0.75:
        size = SHAPES[2] if shape == SHAPES[1] else shape
        lines.append(f"%{name} = {size} copy({first})")
    else:
        size = shape
        lines.append(f"%{name} = {size} multiply({first}, {first})")
    p.value(name, size)
    _in_place(p, name, size, operands)
    return name, size


def _fusion(p: _Program, values: list[Value], lines: list[str]) -> list[Value]:
    """A fusion, now and then of several results."""
    operands = p.rng.sample(values, min(len(values), p.rng.randint(1, 3)))
    sizes = [p.rng.choice((p.rng.choice(SIZES), operands[0][1])) for _ in range(p.rng.choice((1, 1, 1, 2)))]
    computation, name = p.new("fused"), p.new("fusion")
    text = Fused(p.rng, p.names, [size for _, size in operands]).text(sizes)
    p.computations.append(f"{computation}: {text}")
    listed = ", ".join(f"%{each}" for each, _ in operands)
    shape = sizes[0] if len(sizes) == 1 else _tuple(sizes)
    lines.append(f"%{name} = {shape} fusion({listed}), kind=kLoop, calls=%{computation}")
    if len(sizes) == 1:
        p.value(name, sizes[0])
        _in_place(p, name, sizes[0], operands)
        return [(name, sizes[0])]
    p.value(f"{name}{{}}", 8 * len(sizes))
    for k, size in enumerate(sizes):
        p.value(f"{name}{{{k}}}", size)
        _in_place(p, f"{name}{{{k}}}", size, operands)
    return _elements(p, name, sizes, lines)


def _inner(
    p: _Program, sizes: list[str], name: str, depth: int, out: list[str] | None, given: str = ""
) -> tuple[str, list[str]]:
    """A computation of a tuple that returns copies of sizes `out`, or a single byte; its parameter and its results.

    Inside, a tuple of all elements of `given` has the same table.
    """
    parameter, lines = p.new("param"), list[str]()
    lines.append(f"%{parameter} = {_tuple(sizes)} parameter(0)")
    values = []
    for k, size in enumerate(sizes):
        element = p.new("gte")
        lines.append(f"%{element} = {size} get-tuple-element(%{parameter}), index={k}")
        values.append((element, size))
    if f"{given}{{}}" in p.parent:
        p.tables[lines[0]] = [(given, list(values))]
    values = _body(p, values, lines, depth)
    results = []
    for size in out or ["pred[]"]:
        fitting = [value for value in values if value[1] == size]
        result = _copied(p, lines, p.rng.choice(fitting)) if fitting and out else None
        if result is None:
            fresh = p.new("op")
            lines.append(f'%{fresh} = {size} custom-call(%{values[-1][0]}), custom_call_target="f"')
            p.value(fresh, size if out else 1)
            result = fresh, size
        results.append(result[0])
    if out is None:
        lines[-1] = f"ROOT {lines[-1]}"
    else:
        root = p.new("root")
        lines.append(f"ROOT %{root} = {_tuple(out)} tuple({', '.join(f'%{r}' for r in results)})")
    p.computations.append(f"{name}: {'; '.join(lines)}")
    return parameter, results


def _given(p: _Program, values: list[Value], lines: list[str]) -> tuple[str, list[Value]]:
    """A tuple of copies of some values."""
    parts = [_copied(p, lines, p.rng.choice(values)) for _ in range(p.rng.randint(1, 3))]
    name = p.new("tuple")
    lines.append(f"%{name} = {_tuple([s for _, s in parts])} tuple({', '.join(f'%{n}' for n, _ in parts)})")
    return name, parts


def _with_table(p: _Program, values: list[Value], lines: list[str]) -> tuple[str, list[Value]]:
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


def _elements(p: _Program, name: str, sizes: list[str], lines: list[str]) -> list[Value]:
    found = []
    for k, size in enumerate(sizes):
        element = p.new("gte")
        lines.append(f"%{element} = {size} get-tuple-element(%{name}), index={k}")
        found.append((element, size))
    return found


def _loop(p: _Program, values: list[Value], lines: list[str], depth: int) -> list[Value]:
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


def _conditional(p: _Program, values: list[Value], lines: list[str], depth: int) -> list[Value]:
    out = [p.rng.choice(SIZES) for _ in range(p.rng.randint(1, 2))]
    name, arms, operands, results = p.new("conditional"), list[str](), list[str](), list[list[str]]()
    for _ in range(p.rng.randint(1, 3)):
        given, parts = _with_table(p, values, lines)
        arms.append(p.new("arm"))
        operands.append(given)
        results.append(_inner(p, [size for _, size in parts], arms[-1], depth - 1, out, given)[1])
    which = p.new("op")
    lines.append(f'%{which} = s32[] custom-call(%{p.rng.choice(values)[0]}), custom_call_target="f"')
    p.value(which, 4)
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
    p, lines = _Program(rng, computations=[SUM, LESS]), list[str]()
    values, donated = [], []
    for number in range(rng.randint(1, 3)):
        name, size = p.new("parameter"), rng.choice(SIZES)
        lines.append(f"%{name} = {size} parameter({number})")
        p.value(name, size)
        p.callers.add(name)
        values.append((name, size))
        if rng.random() < 0.3:
            donated.append(number)
    values = _body(p, values, lines, rng.randint(0, 3))
    result, size = rng.choice(values)
    lines.append(f"ROOT %last = {size} copy(%{result})")
    p.value("last", size)
    p.computations.append(f"main: {'; '.join(lines)}")
    places: dict[str, tuple[int, int]] = {}
    end = 0
    for key in p.parent:
        root = p.find(key)
        if root not in places:
            kept = key in p.callers or key == "last"
            places[root] = (len(places) + 1, 0) if kept else (0, end)
            end += 0 if kept else -(-p.size[key] // 4) * 4
    where = {key: places[p.find(key)] for key in p.parent}
    temporary = sorted({p.find(key) for key in p.parent if where[key][0] == 0})
    for _ in range(rng.choice((0, 1, 1, 2, 3, 6)) if temporary else 0):
        moved, onto = rng.choice(temporary), rng.choice(temporary)
        shift = rng.choice((0, 0, 0, 4))
        together = rng.random() < 0.8
        for key in p.parent if together else [rng.choice(list(p.parent))]:
            if where[key][0] == 0 and (p.find(key) == moved or not together):
                where[key] = 0, places[onto][1] + shift
    kinds = {0: "preallocated-temp"} | {
        arena: "maybe-live-out" if key == p.find("last") else "parameter 0, shape |s32[]| at ShapeIndex {}"
        for key, (arena, _) in places.items()
        if arena
    }
    slices = {key: (*where[key], p.size[key]) for key in p.parent}
    title = f", buffer_donor={{ {', '.join(f'({n}, {{}})' for n in donated)} }}" if donated else ""
    text = hlo.module(*p.computations, title=title)
    return text, hlo.assignment(text, slices, kinds)


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
