"""A small planner that runs programs in the memory that it plans, with errors that are planted: what a search can find.

`python -m tests.nightly.hunt --power 1000` prints, for each kind of error, in how many of 1,000 programs the results
differ from NumPy's, and how often the planner without errors reuses bytes, works in place and leaves copies out. An
error that no program shows is one that the generator cannot find in any compiler.

The planner knows for each value the step that reads it last, views of it included. A result takes the bytes of its
first operand if that one is not read any more; else the first free bytes that are large enough. Reshapes, transposes,
slices and broadcasts are views. Programs inside are given references, and take bytes from the same memory.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.nightly.hunt import programs as p

KINDS = {
    "last reader": "bytes are free before the step that reads them last",
    "view": "bytes are free while a view of them is read",
    "returned": "bytes of what is returned are free once no step reads them",
    "in place": "a result takes the bytes of an operand that is read later",
    "update": "an update is made in an array that is read later",
    "argument": "a result takes the bytes of what the caller gave",
    "constant": "a result takes the bytes of a constant, which the next run reads",
    "flip": "elements are moved one by one in the bytes that they come from",
    "concat": "a part lies in the whole although it changes later",
    "carry": "what a loop carries is stored one after another, while the rest still reads the old ones",
    "branch": "a program inside works in the bytes that it is given, which are read behind it",
    "inner": "a program inside takes bytes of values that it is not given",
    "operand twice": "a result takes the bytes of its first operand although the second one is a view of them",
}
"""Each error in words."""
VIEWS = frozenset(p.OPERATIONS["views"])
IN_PLACE = frozenset({*p.OPERATIONS["unary"], *p.OPERATIONS["binary"], *p.OPERATIONS["scalar"], "clip"})
SIZE = 1 << 22
"""Bytes of the memory of a program, more than any one needs."""
MOST = 64
"""Iterations of a loop, more than any one has: a planted error may change its counter."""


@dataclass
class Memory:
    """Bytes with the ranges that are taken, and what was counted."""

    error: str = ""
    bytes: p.Array = field(default_factory=lambda: np.zeros(SIZE, np.uint8))
    taken: dict[int, int] = field(default_factory=dict)
    constants: dict[tuple[int, int], p.Array] = field(default_factory=dict)
    """The arrays of each constant, which stay from run to run: by its program and its number."""
    counted: Counter[str] = field(default_factory=Counter)
    _used: int = 0

    def allocate(self, size: int) -> int:
        """Return the first offset at which so many bytes are free."""
        size, at = max(16, -(-size // 16) * 16), 0
        for start, length in sorted(self.taken.items()):
            if at + size <= start:
                break
            at = max(at, start + length)
        self.counted["reuses bytes"] += at < self._used
        self._used = max(self._used, at + size)
        self.taken[at] = size
        return at

    def at(self, offset: int, value: p.Value) -> p.Array:
        """Return the array of a value at an offset."""
        dtype = p.stored_dtype(value.dtype)
        return self.bytes[offset : offset + value.size * dtype.itemsize].view(dtype).reshape(value.shape)


class _Run:
    """A program that runs in a memory; `depth` is 0 for the one that the caller runs."""

    def __init__(self, memory: Memory, program: p.Program, given: Sequence[p.Array], depth: int) -> None:
        self.memory, self.program, self.depth, self.error = memory, program, depth, memory.error
        self.known = program.values()
        self.arrays = {value.id: array for value, array in zip(program.inputs, given, strict=True)}
        self.root = _roots(program)
        self.offset: dict[int, int] = {}
        self.last = self._read_last()

    def _read_last(self) -> dict[int, int]:
        """Return the step that reads each root, or a view of it, last; behind the last step if it is returned."""
        end, readers = len(self.program.steps), dict[int, list[int]]()
        for n, step in enumerate(self.program.steps):
            for value in step.results:
                readers.setdefault(self.root[value.id], []).append(n)
            for k in step.operands:
                seen = k if self.error == "view" else self.root[k]
                readers.setdefault(seen, []).append(n)
        if self.error == "last reader":
            readers = {k: sorted(set(rows))[:-1] or rows for k, rows in readers.items()}
        found = {k: max(rows) for k, rows in readers.items()}
        if self.error != "returned":
            found |= dict.fromkeys((self.root[k] for k in self.program.outputs), end)
        return found

    def run(self) -> list[p.Array]:
        """Run all steps. The arrays that are returned lie in the memory, which keeps their bytes."""
        for n, step in enumerate(self.program.steps):
            made = [None] if step.op in VIEWS else self._compute(step)
            for value, array in zip(step.results, made, strict=True):
                self._place(step, n, value, array)
            for root, end in self.last.items():
                if end <= n and root in self.offset:
                    self.memory.taken.pop(self.offset.pop(root), None)
        return [self.arrays[k] for k in self.program.outputs]

    def release(self) -> None:
        """Free what is still taken."""
        for offset in self.offset.values():
            self.memory.taken.pop(offset, None)

    def _place(self, step: p.Step, n: int, value: p.Value, made: p.Array | None) -> None:
        """Give a result its bytes, and store it there."""
        if made is None:
            shown = _shown(step, self.arrays[step.operands[0]])
            if np.shares_memory(shown, self.arrays[step.operands[0]]) or not shown.size:
                self.arrays[value.id] = shown
                self.memory.counted["leaves a copy out"] += 1
                return
            made = shown
        if step.op == "constant":
            key = id(self.program), value.id
            self.arrays[value.id] = self.memory.constants.setdefault(key, made.astype(p.stored_dtype(value.dtype)))
            return
        target = self._in_place(step, n, value)
        if target is None:
            offset = self.memory.allocate(value.size * p.stored_dtype(value.dtype).itemsize)
            self.offset[value.id] = offset
            target = self.memory.at(offset, value)
        if step.op == "concat" and self.error == "concat":
            self._elide(step, target)
        if self.error == "flip" and step.op == "flip":
            _move(step, self.arrays[step.operands[0]], target)
        elif self.error == "operand twice" and step.op in IN_PLACE and value.shape:
            _compute_by_rows(step, [self.arrays[k] for k in step.operands], target)
        else:
            target[...] = made
        self.arrays[value.id] = target

    def _in_place(self, step: p.Step, n: int, value: p.Value) -> p.Array | None:
        """Return the array of the first operand if the result may take its bytes. Its storage is then the result's."""
        may = step.op in IN_PLACE or step.op == "update" or (step.op == "flip" and self.error == "flip")
        if not may or not step.operands:
            return None
        first = step.operands[0]
        root, array = self.root[first], self.arrays[first]
        is_whole = root == first and self.known[first].spec == value.spec and array.flags.c_contiguous
        if not is_whole or not array.size or not array.flags.writeable:
            return None
        others = [k for k in step.operands[1:] if self.root[k] == root]
        if others and not (self.error == "operand twice" and step.op in IN_PLACE):
            return None
        is_late = self.last.get(root, -1) > n
        if is_late and self.error != ("in place" if step.op in IN_PLACE else step.op):
            return None
        if root not in self.offset:
            is_given = first in {each.id for each in self.program.inputs}
            is_constant = any(np.shares_memory(array, held) for held in self.memory.constants.values())
            if is_constant:
                return array if self.error == "constant" else None
            errors = {"argument"} if self.depth == 0 else {"branch"}
            return array if is_given and self.error in errors else None
        if not is_late:
            self.offset[value.id] = self.offset.pop(root)
        self.memory.counted["works in place"] += 1
        return array

    def _elide(self, step: p.Step, target: p.Array) -> None:
        """Let parts lie in the whole from now on: whoever changes one in place changes the whole."""
        start, axis = 0, step.attributes["axis"]
        for k in step.operands:
            size = self.known[k].shape[axis]
            part = target[(*[slice(None)] * axis, slice(start, start + size))]
            start += size
            if k in self.offset and part.flags.c_contiguous and part.size:
                part[...] = self.arrays[k]
                self.arrays[k] = part

    def _compute(self, step: p.Step) -> list[p.Array]:
        given = [self.arrays[k] for k in step.operands]
        if step.op not in p.CONTROL:
            return p.compute(step, given)
        if step.op == "cond":
            return self._inside(step.programs[0 if given[0] else 1], given[1:])
        if step.op == "call":
            return self._inside(step.programs[0], given)
        carries = step.attributes.get("carries", len(given))
        carried = [array.copy() for array in given[:carries]]
        if step.op == "while":
            for _ in range(MOST):
                if not self._inside(step.programs[0], carried)[0]:
                    break
                self._carry(step.programs[1], carried, [])
            return carried
        rows: list[list[p.Array]] = []
        for k in range(step.attributes["length"]):
            rows.append(self._carry(step.programs[0], carried, [each[k] for each in given[carries:]]))
        stacked = [
            np.stack([row[k] for row in rows]) if rows else np.zeros(value.shape, p.stored_dtype(value.dtype))
            for k, value in enumerate(step.results[carries:])
        ]
        return [*carried, *stacked]

    def _carry(self, body: p.Program, carried: list[p.Array], rest: list[p.Array]) -> list[p.Array]:
        """Run a body once, and store what it carries on."""
        made = self._inside(body, [*carried, *rest], keeps=self.error == "carry")
        for target, array in zip(carried, made, strict=False):
            target[...] = array
        return made[len(carried) :]

    def _inside(self, program: p.Program, given: Sequence[p.Array], keeps: bool = False) -> list[p.Array]:
        """Run a program inside. Its results are copies, unless it `keeps` references."""
        taken = dict(self.memory.taken)
        if self.error == "inner":
            addresses = {array.__array_interface__["data"][0] for array in given}
            start = self.memory.bytes.__array_interface__["data"][0]
            self.memory.taken = {k: size for k, size in taken.items() if start + k in addresses}
        inner = _Run(self.memory, program, given, self.depth + 1)
        made = [array if keeps else array.copy() for array in inner.run()]
        inner.release()
        self.memory.taken = taken
        self.memory.counted["runs a program inside"] += 1
        return made


def _roots(program: p.Program) -> dict[int, int]:
    """Return the value whose bytes each value shows, or may show."""
    found = {value.id: value.id for value in program.inputs}
    for step in program.steps:
        for value in step.results:
            found[value.id] = found[step.operands[0]] if step.op in VIEWS else value.id
    return found


def _shown(step: p.Step, array: p.Array) -> p.Array:
    return np.asarray(p.SIMPLE[step.op](step, array))


def _move(step: p.Step, source: p.Array, target: p.Array) -> None:
    """Move the rows of an axis one by one, as a kernel does whose two operands are apart."""
    axis = step.attributes["axis"]
    into, come = np.moveaxis(target, axis, 0), np.moveaxis(source, axis, 0)
    for k in range(into.shape[0]):
        into[k] = come[into.shape[0] - 1 - k]


def _compute_by_rows(step: p.Step, given: Sequence[p.Array], target: p.Array) -> None:
    """Compute and store one row after another."""
    for k in range(target.shape[0]):
        target[k] = p.compute(step, [array[k] for array in given])[0]


def run(program: p.Program, inputs: Sequence[Sequence[p.Array]], memory: Memory) -> Iterator[list[p.Array]]:
    """Run a program once for each set of inputs, in one memory, as a caller does who keeps the inputs."""
    for one in inputs:
        given = [value.astype(each.dtype) for value, each in zip(one, one, strict=True)]
        made = _Run(memory, program, given, 0)
        yield [array.copy() for array in made.run()]
        made.release()
        if any(not np.array_equal(mine, theirs) for mine, theirs in zip(given, one, strict=True)):
            yield []  # the caller's arrays were changed


def shows(error: str, program: p.Program, inputs: Sequence[Sequence[p.Array]]) -> tuple[bool, Mapping[str, int]]:
    """Return whether some results differ from NumPy's, and how often each feature of the planner was used."""
    memory = Memory(error)
    found = list(run(program, inputs, memory))
    expected = [p.evaluate(program, one) for one in inputs]
    differs = len(found) != len(expected) or any(
        not np.array_equal(mine, theirs)
        for one, other in zip(found, expected, strict=True)
        for mine, theirs in zip(one, other, strict=True)
    )
    return differs, memory.counted


def measure_power(count: int, kinds: Sequence[str] = tuple(KINDS), first: int = 0) -> tuple[Counter[str], Counter[str]]:
    """Return in how many of `count` programs each planted error shows, and how many use each feature of the planner."""
    found, used = Counter[str](), Counter[str]()
    for seed in range(first, first + count):
        rng = random.Random(seed)
        features = {each for each in sorted(p.FEATURES) if rng.random() < 0.75} | {"float32"}
        program = p.generate(rng, frozenset(features))
        inputs = [p.random_inputs(program, rng) for _ in range(2)]
        differs, counted = shows("", program, inputs)
        found["none"] += differs
        used.update(name for name, times in counted.items() if times)
        found.update(kind for kind in kinds if shows(kind, program, inputs)[0])
    return found, used


def print_power(count: int) -> None:
    """Print the two tables."""
    found, used = measure_power(count)
    print(f"| planted error | programs of {count:,} that show it |\n|---|---|")
    for kind, words in {"none": "the planner as it is", **KINDS}.items():
        print(f"| {kind}: {words} | {found[kind]:,} |")
    print(f"\n| the planner | programs of {count:,} |\n|---|---|")
    for name, times in sorted(used.items()):
        print(f"| {name} | {times:,} |")
