"""Random programs that belong to no compiler, what they compute in NumPy, and smaller ones for a wrong one.

A program takes arrays and returns arrays; its steps make values, each value once. Programs inside of it (the arms of a
cond, condition and body of a while, the body of a scan, a callee) see their own inputs alone. All values are whole
numbers below 2^20, so that int32 and float32 compute the same and results are compared without tolerance.

Workers read this file in environments of their own: it imports the standard library and NumPy alone.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Shape = tuple[int, ...]

FEATURES = frozenset({
    "cond", "while", "scan", "call", "views", "inplace", "windows", "zero", "subbyte", "twice", "unused", "returned",
    "outputs", "matmul", "reduce", "gather", "int8", "bool", "float32", "int32",
})  # fmt: skip
"""What `generate` can be asked for. `twice`: an output more than once; `unused`: results that nothing reads;
`returned`: inputs as outputs; `outputs`: steps with several results; the last two are types of most values, one at
least is needed.
"""
OPERATIONS = {
    "unary": ("neg", "abs", "relu", "copy"),
    "binary": ("add", "sub", "mul", "min", "max"),
    "scalar": ("add_value", "mul_value"),
    "views": ("reshape", "transpose", "slice", "broadcast"),
    "windows": ("concat", "update", "pad"),
    "gather": ("take", "flip"),
    "reduce": ("sum", "amax"),
    "bool": ("greater", "and", "where", "not"),
    "other": ("cast", "clip", "full", "constant", "split", "matmul", "positive"),
    "control": ("cond", "while", "scan", "call"),
}
"""Every operation; `evaluate` says what each one computes."""
RANGES = {"int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "uint8": (0, 255), "bool": (0, 1)}
"""Types that hold less than 2^20."""
STORED = {"int4": "int8", "uint4": "uint8"}
"""NumPy has no such type: the values stand in the next larger one."""
LARGEST = 1 << 20
EXACT = 1 << 24
"""float32 holds every whole number up to this one."""
CARRIED = 1000
"""What is carried by a loop is below this, before and after each iteration."""


@dataclass(frozen=True)
class Value:
    """What a step makes or a caller gives: a number of its own in its program, its type and shape."""

    id: int
    dtype: str
    shape: Shape

    @property
    def spec(self) -> tuple[str, Shape]:
        """Type and shape."""
        return self.dtype, self.shape

    @property
    def size(self) -> int:
        """How many elements it has."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class Step:
    """An operation on values, its results, its attributes (JSON), and the programs that it runs."""

    op: str
    operands: tuple[int, ...]
    results: tuple[Value, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    programs: tuple[Program, ...] = ()


@dataclass(frozen=True)
class Program:
    """Inputs, steps in order, and the numbers of the values that are returned."""

    inputs: tuple[Value, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    def values(self) -> dict[int, Value]:
        """Every value by its number."""
        found = {value.id: value for value in self.inputs}
        return found | {value.id: value for step in self.steps for value in step.results}


def to_json(program: Program) -> dict[str, Any]:
    """A program as JSON; `from_json` reads it."""
    return {
        "inputs": [[value.id, value.dtype, list(value.shape)] for value in program.inputs],
        "steps": [
            {
                "op": step.op,
                "operands": list(step.operands),
                "results": [[value.id, value.dtype, list(value.shape)] for value in step.results],
                "attributes": dict(step.attributes),
                "programs": [to_json(each) for each in step.programs],
            }
            for step in program.steps
        ],
        "outputs": list(program.outputs),
    }


def from_json(stored: Mapping[str, Any]) -> Program:
    """The program that `to_json` stored. Raises KeyError, TypeError or ValueError for anything else."""

    def values(rows: Sequence[Any]) -> tuple[Value, ...]:
        return tuple(Value(number, dtype, tuple(shape)) for number, dtype, shape in rows)

    steps = tuple(
        Step(each["op"], tuple(each["operands"]), values(each["results"]), each["attributes"],
             tuple(from_json(inner) for inner in each["programs"]))
        for each in stored["steps"]
    )  # fmt: skip
    return Program(values(stored["inputs"]), steps, tuple(stored["outputs"]))


def operations(program: Program) -> Iterator[str]:
    """The operation of every step, those of programs inside included."""
    for step in program.steps:
        yield step.op
        for inner in step.programs:
            yield from operations(inner)


def text(program: Program, margin: str = "") -> Iterator[str]:
    """A program for people, a step a line."""

    def named(values: Sequence[Value]) -> str:
        return ", ".join(f"v{value.id}: {value.dtype}{list(value.shape)}" for value in values)

    yield f"{margin}given {named(program.inputs)}"
    for step in program.steps:
        attributes = "".join(f" {name}={value}" for name, value in step.attributes.items())
        yield f"{margin}{named(step.results)} = {step.op}({', '.join(f'v{k}' for k in step.operands)}){attributes}"
        for inner in step.programs:
            yield from text(inner, margin + "    ")
    yield f"{margin}return {', '.join(f'v{k}' for k in program.outputs)}"


# What a program computes


def stored_dtype(dtype: str) -> np.dtype[Any]:
    """NumPy's type for the elements of a value."""
    return np.dtype(STORED.get(dtype, dtype))


def evaluate(program: Program, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a program. Raises AssertionError where a step's result has another shape than the program states,
    or a number that its type does not hold exactly.
    """
    at: dict[int, Array] = {}
    for value, given in zip(program.inputs, inputs, strict=True):
        assert given.shape == value.shape
        at[value.id] = given.astype(stored_dtype(value.dtype))
    for step in program.steps:
        found = compute(step, [at[number] for number in step.operands])
        for value, made in zip(step.results, found, strict=True):
            low, high = RANGES.get(value.dtype, (-EXACT, EXACT))
            assert made.shape == value.shape, (step, made.shape)
            assert made.size == 0 or (low <= made.min() and made.max() <= high), (step, made)
            at[value.id] = made.astype(stored_dtype(value.dtype))
    return [at[number] for number in program.outputs]


def compute(step: Step, given: list[Array]) -> list[Array]:
    one = SIMPLE.get(step.op)
    if one is not None:
        return [np.asarray(one(step, *given))]
    if step.op == "split":
        return np.split(given[0], np.cumsum(step.attributes["sizes"])[:-1].tolist(), step.attributes["axis"])
    if step.op == "call":
        return evaluate(step.programs[0], given)
    if step.op == "cond":
        return evaluate(step.programs[0 if given[0] else 1], given[1:])
    if step.op == "while":
        while evaluate(step.programs[0], given)[0]:
            given = evaluate(step.programs[1], given)
        return given
    assert step.op == "scan"
    carries = step.attributes["carries"]
    carried, over, rows = given[:carries], given[carries:], list[list[Array]]()
    for k in range(step.attributes["length"]):
        made = evaluate(step.programs[0], [*carried, *(each[k] for each in over)])
        carried = made[:carries]
        rows.append(made[carries:])
    stacked = [np.stack(column) if column else np.zeros(value.shape, stored_dtype(value.dtype)) for value, column in
               zip(step.results[carries:], zip(*rows, strict=True) if rows else [()] * 99, strict=False)]  # fmt: skip
    return [*carried, *stacked]


def windows(starts: Sequence[int], shape: Shape) -> tuple[slice, ...]:
    """The part of an array that begins at `starts` and has a shape."""
    return tuple(slice(start, start + size) for start, size in zip(starts, shape, strict=True))


def _updated(step: Step, base: Array, part: Array) -> Array:
    made = base.copy()
    made[windows(step.attributes["starts"], part.shape)] = part
    return made


def _strided(step: Step, base: Array) -> Array:
    a = step.attributes
    return base[tuple(slice(*each) for each in zip(a["starts"], a["stops"], a["strides"], strict=True))]


SIMPLE: dict[str, Callable[..., Array]] = {
    "neg": lambda step, a: -a,
    "abs": lambda step, a: np.abs(a),
    "relu": lambda step, a: np.maximum(a, 0),
    "copy": lambda step, a: a,
    "not": lambda step, a: np.logical_not(a),
    "add": lambda step, a, b: a + b,
    "sub": lambda step, a, b: a - b,
    "mul": lambda step, a, b: a * b,
    "min": lambda step, a, b: np.minimum(a, b),
    "max": lambda step, a, b: np.maximum(a, b),
    "add_value": lambda step, a: a + step.attributes["value"],
    "mul_value": lambda step, a: a * step.attributes["value"],
    "reshape": lambda step, a: a.reshape(step.results[0].shape),
    "transpose": lambda step, a: a.transpose(step.attributes["axes"]),
    "slice": _strided,
    "broadcast": lambda step, a: np.broadcast_to(a, step.results[0].shape),
    "concat": lambda step, *given: np.concatenate(given, step.attributes["axis"]),
    "update": _updated,
    "pad": lambda step, a: np.pad(a, list(zip(step.attributes["before"], step.attributes["after"], strict=True))),
    "take": lambda step, a: np.take(a, step.attributes["indices"], step.attributes["axis"]),
    "flip": lambda step, a: np.flip(a, step.attributes["axis"]),
    "sum": lambda step, a: a.sum(axis=step.attributes["axis"], keepdims=step.attributes["keep"]),
    "amax": lambda step, a: a.max(axis=step.attributes["axis"], keepdims=step.attributes["keep"]),
    "greater": lambda step, a, b: a > b,
    "and": lambda step, a, b: np.logical_and(a, b),
    "where": lambda step, a, b, c: np.where(a, b, c),
    "cast": lambda step, a: a,
    "clip": lambda step, a: np.clip(a, step.attributes["low"], step.attributes["high"]),
    "full": lambda step: np.full(step.results[0].shape, step.attributes["value"]),
    "constant": lambda step: np.array(step.attributes["values"]).reshape(step.results[0].shape),
    "matmul": lambda step, a, b: a @ b,
    "positive": lambda step, a: a.sum(dtype=np.int64) > step.attributes["value"],
}
"""Every operation of one result that runs no program. `positive`: whether the sum of all elements exceeds a value;
`greater`, `and`, `not`, `positive` make bool; `where` takes a bool first; a cast is of numbers that its type holds.
"""


def random_inputs(program: Program, rng: random.Random) -> list[Array]:
    """Inputs with whole numbers from -8 to 7, or those that the type holds."""
    found = []
    for value in program.inputs:
        low, high = RANGES.get(value.dtype, (-8, 7))
        drawn = [rng.randint(max(low, -8), min(high, 7)) for _ in range(value.size)]
        found.append(np.array(drawn, np.int64).reshape(value.shape).astype(stored_dtype(value.dtype)))
    return found


# Random programs


CONTROL = frozenset({"cond", "while", "scan", "call"})
LENGTHS = (12, 12, 12, 25, 60)
"""The most steps that a program may have at its top, drawn for each. The longest ones have no control flow: an error in
a planner's bookkeeping of aliases shows after dozens of steps, one in its control flow after a few.
"""
SHARES = (0.3, 1.0, 1.0, 3.0)
"""How often a family of operations is taken, drawn for each family and program."""
REACHES: tuple[tuple[float, slice], ...] = ((0.95, slice(-2, None)), (0.5, slice(-4, None)), (0.6, slice(0, 4)))
"""Which operands a program prefers, and how often: the latest two, so that few values are live at once, the latest
four, or the first four, which stay live. Drawn for each program.
"""


def generate(
    rng: random.Random, features: frozenset[str] | set[str] = FEATURES, lengths: Sequence[int] = LENGTHS
) -> Program:
    """Return a program with some of the features. Its length, its width and the share of each construct are drawn."""
    steps = rng.choice(lengths)
    least = 2 if steps < max(LENGTHS) else steps - 20
    features = features if steps < max(LENGTHS) else features - CONTROL
    main = rng.choice(sorted({"float32", "int32"} & set(features)))
    maker = _Maker(rng, frozenset(features), main, 2)
    for _ in range(rng.randint(1, 3)):
        maker.input(main, maker.shape())
    if "bool" in features and rng.random() < 0.6:
        maker.input("bool", ())
    if "bool" in features and rng.random() < 0.2:
        maker.input("bool", ())
    if "int8" in features and rng.random() < 0.2:
        maker.input("int8", maker.shape())
    inputs = list(maker.values)
    maker.grow(rng.randint(least, steps))
    while len(maker.values) == len(inputs):
        maker.unary()
    made = maker.values[len(inputs) :]
    outputs = [value.id for value in rng.sample(made, min(len(made), rng.randint(1, 4)))]
    if made[-1].id not in outputs:
        outputs.append(made[-1].id)
    if "twice" in features and rng.random() < 0.15:
        outputs.append(rng.choice(outputs))
    if "returned" in features and rng.random() < 0.15:
        outputs.append(rng.choice(inputs).id)
    program = Program(tuple(inputs), tuple(maker.steps), tuple(outputs))
    return program if "unused" in features and rng.random() < 0.5 else without_unused(program)


class _Maker:
    """A program that grows. `bound` has the largest magnitude of each value."""

    def __init__(self, rng: random.Random, features: frozenset[str], main: str, depth: int) -> None:
        self.rng, self.features, self.main, self.depth = rng, features, main, depth
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.bound: dict[int, int] = {}
        self.sizes = [rng.choice((1, 2, 3, 4, 6, 8)) for _ in range(3)]
        self.shares: dict[str, float] = {}
        self.reach = rng.choice(REACHES)

    def shape(self) -> Shape:
        rank = self.rng.choice((1, 1, 2, 2, 2, 3))
        if "zero" in self.features and self.rng.random() < 0.03:
            return (0, *(self.rng.choice(self.sizes) for _ in range(rank - 1)))
        return tuple(self.rng.choice(self.sizes) for _ in range(rank))

    def input(self, dtype: str, shape: Shape, bound: int = 8) -> Value:
        value = Value(len(self.values), dtype, shape)
        self.values.append(value)
        self.bound[value.id] = bound
        return value

    def step(
        self, op: str, operands: Sequence[Value], dtype: str, shape: Shape, bound: int, **attributes: Any
    ) -> Value:
        """State a step of one result, and clip the result where it may be too large."""
        value = self.input(dtype, shape, bound)
        self.steps.append(Step(op, tuple(each.id for each in operands), (value,), attributes))
        if dtype not in RANGES and bound > LARGEST:
            return self.step("clip", [value], dtype, shape, 100, low=-100, high=100)
        return value

    def pick(self, dtype: str | None = None, shape: Shape | None = None, rank: int = 0) -> Value | None:
        """A random value of a type and shape, of those that the program prefers or of all."""
        found = [
            value for value in self.values
            if value.dtype == (dtype or self.main) and (shape is None or value.shape == shape)
            and len(value.shape) >= rank
        ]  # fmt: skip
        if not found:
            return None
        share, preferred = self.reach
        return self.rng.choice(found[preferred] if self.rng.random() < share else found)

    def number(self) -> Value:
        """A value of the main type, made where there is none."""
        return self.pick() or self.step("full", [], self.main, self.shape(), 3, value=self.rng.randint(-3, 3))

    def within(self, value: Value, bound: int) -> Value:
        """The value, clipped where it may exceed a bound."""
        if self.bound[value.id] <= bound:
            return value
        return self.step("clip", [value], value.dtype, value.shape, bound, low=-bound, high=bound)

    def want(self, dtype: str, shape: Shape) -> Value:
        """A value of a type and shape: one that is there, or one made of one that is there."""
        found = self.pick(dtype, shape)
        if found is not None:
            return found
        if dtype == "bool":
            if shape == ():
                return self.flag()
            pair = self.want(self.main, shape), self.want(self.main, shape)
            return self.step("greater", pair, "bool", shape, 1)
        if dtype != self.main:
            low, high = RANGES.get(dtype, (-100, 100))
            base = self.want(self.main, shape)
            clipped = self.step(
                "clip", [base], self.main, shape, min(high, 100), low=max(low, -100), high=min(high, 100)
            )
            return self.step("cast", [clipped], dtype, shape, min(high, 100))
        size = int(np.prod(shape, dtype=np.int64))
        same = [value for value in self.values if value.dtype == dtype and value.size == size and value.shape]
        if same and shape and "views" in self.features:
            base = self.rng.choice(same)
            return self.step("reshape", [base], dtype, shape, self.bound[base.id])
        if size <= 64 and self.rng.random() < 0.4:
            values = [self.rng.randint(-3, 3) for _ in range(size)]
            return self.step("constant", [], dtype, shape, 3, values=values)
        return self.step("full", [], dtype, shape, 3, value=self.rng.randint(-3, 3))

    def flag(self) -> Value:
        """A bool without axes."""
        there = self.pick("bool", ())
        if there is not None and self.rng.random() < 0.7:
            return there
        base = self.number()
        return self.step("positive", [base], "bool", (), 1, value=self.rng.randint(-4, 4))

    def grow(self, count: int) -> None:
        """Add about so many steps."""
        families = [self.unary, self.binary, self.binary, self.scalar]
        families += [self.views] * 3 if "views" in self.features else []
        families += [self.windows] * 2 if "windows" in self.features else []
        families += [self.gather] if "gather" in self.features else []
        families += [self.reduce] if "reduce" in self.features else []
        families += [self.matmul] if "matmul" in self.features else []
        families += [self.split] if "outputs" in self.features else []
        families += [self.select] if "bool" in self.features else []
        families += [self.narrow] if {"int8", "subbyte"} & self.features else []
        if self.depth:
            families += [self.cond] * 2 if "cond" in self.features else []
            families += [self.loop] if "while" in self.features else []
            families += [self.scan] if "scan" in self.features else []
            families += [self.call] if "call" in self.features else []
        shares = [self.shares.setdefault(family.__name__, self.rng.choice(SHARES)) for family in families]
        for family in self.rng.choices(families, shares, k=count):
            family()

    def unary(self) -> None:
        a = self.number()
        self.step(self.rng.choice(OPERATIONS["unary"]), [a], a.dtype, a.shape, self.bound[a.id], **self.may_overwrite())

    def may_overwrite(self) -> dict[str, bool]:
        """An attribute for workers: the first operand's bytes may be used, if nothing needs it any longer."""
        return {"inplace": True} if "inplace" in self.features and self.rng.random() < 0.4 else {}

    def binary(self) -> None:
        a, b = self.mirrored() or (self.number(), None)
        b = b or self.want(a.dtype, a.shape)
        op = self.rng.choice(OPERATIONS["binary"])
        if op == "mul":
            a, b = self.within(a, CARRIED), self.within(b, CARRIED)
        bounds = self.bound[a.id], self.bound[b.id]
        bound = {"add": sum(bounds), "sub": sum(bounds), "mul": bounds[0] * bounds[1]}.get(op, max(bounds))
        self.step(op, [a, b], a.dtype, a.shape, bound, **self.may_overwrite())

    def mirrored(self) -> tuple[Value, Value] | None:
        """Now and then a new value, and a view of it with the same shape and other places."""
        if "views" not in self.features or self.rng.random() >= 0.12:
            return None
        size = self.rng.choice([each for each in self.sizes if each > 1] or [2])
        base = self.want(self.main, (size, size))
        a = self.step("neg", [base], base.dtype, base.shape, self.bound[base.id])
        return a, self.step("transpose", [a], a.dtype, a.shape, self.bound[a.id], axes=[1, 0])

    def scalar(self) -> None:
        a, value = self.number(), self.rng.choice((-3, -2, -1, 1, 2, 3, 5))
        op = self.rng.choice(OPERATIONS["scalar"])
        bound = self.bound[a.id] + abs(value) if op == "add_value" else self.bound[a.id] * abs(value)
        self.step(op, [a], a.dtype, a.shape, bound, value=value, **self.may_overwrite())

    def views(self) -> None:
        """One view, or a view of a view."""
        a = self.number()
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            a = self.view(a)

    def view(self, a: Value) -> Value:
        bound, shape, rank = self.bound[a.id], a.shape, len(a.shape)
        op = self.rng.choice(("reshape", "transpose", "slice", "slice", "broadcast"))
        if op == "transpose" and rank > 1:
            axes = self.rng.sample(range(rank), rank)
            return self.step("transpose", [a], a.dtype, tuple(shape[k] for k in axes), bound, axes=axes)
        if op == "slice" and rank:
            starts = [self.rng.randint(0, max(0, size - 1)) for size in shape]
            stops = [self.rng.randint(min(start + 1, size), size) for start, size in zip(starts, shape, strict=True)]
            strides = [self.rng.choice((1, 1, 1, 2)) for _ in shape]
            made = tuple(len(range(*each)) for each in zip(starts, stops, strides, strict=True))
            return self.step("slice", [a], a.dtype, made, bound, starts=starts, stops=stops, strides=strides)
        if op == "broadcast" and a.size <= 16:
            return self.step("broadcast", [a], a.dtype, (self.rng.choice((1, 2, 3)), *shape), bound)
        return self.step("reshape", [a], a.dtype, self.reshaped(a), bound)

    def reshaped(self, a: Value) -> Shape:
        """Another shape with as many elements."""
        if a.size == 0:
            return self.rng.choice(((0,), (0, 2), a.shape))
        found: list[int] = []
        left = a.size
        for _ in range(self.rng.randint(0, 2)):
            divisor = self.rng.choice([k for k in range(1, left + 1) if left % k == 0])
            found.append(divisor)
            left //= divisor
        return (*found, left)

    def windows(self) -> None:
        a = self.number()
        if not a.shape:
            a = self.step("reshape", [a], a.dtype, (1,), self.bound[a.id])
        rank, op = len(a.shape), self.rng.choice(OPERATIONS["windows"])
        if op == "concat":
            axis = self.rng.randrange(rank)
            others = [value for value in self.values if value.dtype == a.dtype and len(value.shape) == rank
                      and all(value.shape[k] == a.shape[k] for k in range(rank) if k != axis)]  # fmt: skip
            given = [a, *(self.rng.choice(others) for _ in range(self.rng.randint(1, 2)))]
            made = list(a.shape)
            made[axis] = sum(each.shape[axis] for each in given)
            bound = max(self.bound[each.id] for each in given)
            if made[axis] <= 64:
                self.step("concat", given, a.dtype, tuple(made), bound, axis=axis)
        elif op == "update":
            part = tuple(self.rng.randint(min(1, size), size) for size in a.shape)
            starts = [self.rng.randint(0, size - each) for size, each in zip(a.shape, part, strict=True)]
            b = self.want(a.dtype, part)
            bound = max(self.bound[a.id], self.bound[b.id])
            stops = [sum(each) for each in zip(starts, part, strict=True)]
            attributes = {"starts": starts, "stops": stops, **self.may_overwrite()}
            self.step("update", [a, b], a.dtype, a.shape, bound, **attributes)
        else:
            before, after = ([self.rng.choice((0, 0, 1, 2)) for _ in a.shape] for _ in range(2))
            made = [sum(each) for each in zip(a.shape, before, after, strict=True)]
            if np.prod(made) <= 512:
                self.step("pad", [a], a.dtype, tuple(made), self.bound[a.id], before=before, after=after)

    def gather(self) -> None:
        a = self.pick(rank=1)
        if a is None or not a.size:
            return
        axis = self.rng.randrange(len(a.shape))
        if self.rng.random() < 0.5:
            self.step("flip", [a], a.dtype, a.shape, self.bound[a.id], axis=axis)
            return
        indices = [self.rng.randrange(a.shape[axis]) for _ in range(self.rng.randint(1, 4))]
        made = (*a.shape[:axis], len(indices), *a.shape[axis + 1 :])
        self.step("take", [a], a.dtype, made, self.bound[a.id], axis=axis, indices=indices)

    def reduce(self) -> None:
        a = self.pick(rank=1)
        if a is None or not a.size:
            return
        axis, keep = self.rng.randrange(len(a.shape)), self.rng.random() < 0.5
        made = (*a.shape[:axis], *((1,) if keep else ()), *a.shape[axis + 1 :])
        op = self.rng.choice(OPERATIONS["reduce"])
        a = self.within(a, CARRIED)
        bound = self.bound[a.id] * (a.shape[axis] if op == "sum" else 1)
        self.step(op, [a], a.dtype, made, bound, axis=axis, keep=keep)

    def matmul(self) -> None:
        a = self.number()
        if len(a.shape) != 2 or not a.size:
            return
        columns = self.rng.choice(self.sizes)
        b = self.within(self.want(a.dtype, (a.shape[1], columns)), 100)
        a = self.within(a, 100)
        self.step("matmul", [a, b], a.dtype, (a.shape[0], columns), 10000 * a.shape[1])

    def split(self) -> None:
        """A step of several results, which are windows of its operand."""
        a = self.pick(rank=1)
        if a is None:
            return
        axis = self.rng.randrange(len(a.shape))
        if a.shape[axis] < 2:
            return
        first = self.rng.randint(1, a.shape[axis] - 1)
        sizes = [first, a.shape[axis] - first]
        made = [(*a.shape[:axis], size, *a.shape[axis + 1 :]) for size in sizes]
        results = tuple(self.input(a.dtype, shape, self.bound[a.id]) for shape in made)
        self.steps.append(Step("split", (a.id,), results, {"axis": axis, "sizes": sizes}))

    def select(self) -> None:
        a = self.number()
        b = self.want(a.dtype, a.shape)
        test = self.step("greater", [a, b], "bool", a.shape, 1)
        if self.rng.random() < 0.3:
            test = self.step("not", [test], "bool", a.shape, 1)
        bound = max(self.bound[a.id], self.bound[b.id])
        self.step("where", [test, *self.rng.sample([a, b], 2)], a.dtype, a.shape, bound)

    def narrow(self) -> None:
        """Through a narrow type and back, with views on the way."""
        dtypes = (["int8"] if "int8" in self.features else []) + (
            ["int4", "uint4"] if "subbyte" in self.features else []
        )
        dtype = self.rng.choice(dtypes)
        small = self.want(dtype, self.number().shape)
        if "views" in self.features and self.rng.random() < 0.5:
            small = self.step("reshape", [small], dtype, self.reshaped(small), self.bound[small.id])
        if "windows" in self.features and small.shape and self.rng.random() < 0.3:
            made = (2 * small.shape[0], *small.shape[1:])
            small = self.step("concat", [small, small], dtype, made, self.bound[small.id], axis=0)
        self.step("cast", [small], self.main, small.shape, self.bound[small.id])

    # Programs inside of programs

    def inner(self, specs: Sequence[tuple[str, Shape]], bounds: Sequence[int]) -> _Maker:
        made = _Maker(self.rng, self.features, self.main, self.depth - 1)
        made.sizes = self.sizes
        for (dtype, shape), bound in zip(specs, bounds, strict=True):
            made.input(dtype, shape, bound)
        return made

    def operands(self, least: int = 1) -> list[Value]:
        """Values for a program inside, one of them twice now and then."""
        return [self.number() for _ in range(self.rng.randint(least, 3))]

    def finish(self, maker: _Maker, outputs: Sequence[Value], bound: int | None = None) -> Program:
        """The program that a maker made, with outputs clipped to a bound."""
        if bound is not None:
            outputs = [each if each.dtype in RANGES else maker.within(each, bound) for each in outputs]
        inputs = maker.values[: len(maker.values) - sum(len(step.results) for step in maker.steps)]
        program = Program(tuple(inputs), tuple(maker.steps), tuple(each.id for each in outputs))
        return program if "unused" in self.features and self.rng.random() < 0.3 else without_unused(program)

    def several(self, op: str, operands: Sequence[Value], specs: Sequence[tuple[str, Shape]], bounds: Sequence[int],
                programs: tuple[Program, ...], **attributes: Any) -> None:  # fmt: skip
        results = tuple(self.input(dtype, shape, bound) for (dtype, shape), bound in zip(specs, bounds, strict=True))
        self.steps.append(Step(op, tuple(each.id for each in operands), results, attributes, programs))

    def some(self, maker: _Maker, count: int) -> list[Value]:
        """Values that a program inside may return: mostly what it made, now and then what it was given."""
        numbers = [value for value in maker.values if value.dtype == self.main]
        late = numbers[-3:]
        return [self.rng.choice(late if self.rng.random() < 0.8 else numbers) for _ in range(count)]

    def cond(self) -> None:
        flag, operands = self.flag(), self.operands()
        specs = [value.spec for value in operands]
        bounds = [self.bound[value.id] for value in operands]
        arms = [self.inner(specs, bounds) for _ in range(2)]
        for arm in arms:
            arm.grow(self.rng.randint(1, 4))
        first = self.some(arms[0], self.rng.choice((1, 1, 2)))
        second = [arms[1].want(*value.spec) for value in first]
        made = [max(arms[0].bound[a.id], arms[1].bound[b.id]) for a, b in zip(first, second, strict=True)]
        programs = self.finish(arms[0], first), self.finish(arms[1], second)
        self.several("cond", [flag, *operands], [value.spec for value in first], made, programs)

    def call(self) -> None:
        operands = self.operands()
        callee = self.inner([value.spec for value in operands], [self.bound[value.id] for value in operands])
        callee.grow(self.rng.randint(1, 4))
        made = self.some(callee, self.rng.choice((1, 1, 2)))
        bounds = [callee.bound[value.id] for value in made]
        self.several("call", operands, [value.spec for value in made], bounds, (self.finish(callee, made),))

    def loop(self) -> None:
        """A counter and what is carried; the condition looks at the counter, and now and then at the rest."""
        carried = [self.within(value, CARRIED) for value in self.operands()]
        counter = self.step("full", [], "int32", (), 100, value=0)
        specs = [counter.spec, *(value.spec for value in carried)]
        bounds = [100, *(CARRIED for _ in carried)]
        test = self.inner(specs, bounds)
        limit = test.step("full", [], "int32", (), 8, value=self.rng.randint(0, 4))
        going = test.step("greater", [limit, test.values[0]], "bool", (), 1)
        if self.rng.random() < 0.3:
            small = test.step("positive", [test.values[1]], "bool", (), 1, value=self.rng.randint(-50, 0))
            going = test.step("and", [going, small], "bool", (), 1)
        body = self.inner(specs, bounds)
        following = body.step("add_value", [body.values[0]], "int32", (), 100, value=1)
        body.grow(self.rng.randint(1, 4))
        made = [following, *(body.want(*value.spec) for value in carried)]
        programs = self.finish(test, [going]), self.finish(body, made, CARRIED)
        self.several("while", [counter, *carried], specs, bounds, programs)

    def scan(self) -> None:
        """What is carried, and rows that are read and made one by one."""
        carried = [self.within(value, CARRIED) for value in self.operands()]
        length = self.rng.choice((1, 2, 3, 4))
        over = [self.within(self.want(self.main, (length, *self.shape()[:2])), CARRIED)
                for _ in range(self.rng.choice((1, 1, 2)))]  # fmt: skip
        inside = [*(value.spec for value in carried), *((value.dtype, value.shape[1:]) for value in over)]
        body = self.inner(inside, [CARRIED] * len(inside))
        body.grow(self.rng.randint(1, 4))
        rows = self.some(body, self.rng.choice((0, 1, 1, 2)))
        made = [*(body.want(*value.spec) for value in carried), *rows]
        specs = [*(value.spec for value in carried), *((value.dtype, (length, *value.shape)) for value in rows)]
        program = self.finish(body, made, CARRIED)
        self.several(
            "scan", [*carried, *over], specs, [CARRIED] * len(specs), (program,), carries=len(carried), length=length
        )


# Smaller programs


def without_unused(program: Program, kept: Set[int] = frozenset()) -> Program:
    """The program without steps whose results nothing reads, except those that make a value of `kept`."""
    needed, steps = set(program.outputs) | kept, list[Step]()
    for step in reversed(program.steps):
        if any(value.id in needed for value in step.results):
            needed.update(step.operands)
            steps.append(step)
    return replace(program, steps=tuple(reversed(steps)))


def _instead(program: Program, other: Mapping[int, int]) -> Program:
    """The program with some values read in place of others."""
    steps = tuple(replace(step, operands=tuple(other.get(k, k) for k in step.operands)) for step in program.steps)
    return replace(program, steps=steps, outputs=tuple(other.get(k, k) for k in program.outputs))


def _inlined(program: Program, at: int, inner: Program, operands: Sequence[int]) -> Program:
    """The program with the steps of a program inside in place of the step that runs it."""
    step, fresh = program.steps[at], max(program.values()) + 1
    names = dict(zip((value.id for value in inner.inputs), operands, strict=True))
    steps = []
    for each in inner.steps:
        read = tuple(names[k] for k in each.operands)
        results = []
        for value in each.results:
            names[value.id] = fresh
            results.append(replace(value, id=fresh))
            fresh += 1
        steps.append(replace(each, operands=read, results=tuple(results)))
    made = replace(program, steps=program.steps[:at] + tuple(steps) + program.steps[at + 1 :])
    return _instead(made, {value.id: names[k] for value, k in zip(step.results, inner.outputs, strict=True)})


def smaller(program: Program) -> Iterator[Program]:
    """Programs with a little less in each, large cuts first. All end; `evaluate` raises where numbers are large."""
    read = {k for step in program.steps for k in step.operands} | set(program.outputs)
    unread = {value.id for step in program.steps for value in step.results} - read
    for made in itertools.chain(_cuts(program), _cuts(program, kept=unread) if unread else ()):
        used = {k for step in made.steps for k in step.operands} | set(made.outputs)
        kept = tuple(value for value in made.inputs if value.id in used) or made.inputs[:1]
        yield replace(made, inputs=kept)


def _cuts(program: Program, inside: bool = False, kept: Set[int] = frozenset()) -> Iterator[Program]:
    """What `smaller` yields, with the same inputs; inside of another program with as many outputs as well.

    Steps that make what is `kept` stay, though nothing reads it, unless they are the ones that are cut.
    """

    def pruned(made: Program, without: Set[int] = frozenset()) -> Program:
        return without_unused(made, kept - without)

    for each in [set(kept), *({number} for number in kept if len(kept) > 1)]:
        if (made := pruned(program, each)) != program:
            yield made
    makers = {value.id: step for step in program.steps for value in step.results}
    if not inside:
        for k, number in enumerate(program.outputs):
            before, behind = program.outputs[:k], program.outputs[k + 1 :]
            if before or behind:
                yield pruned(replace(program, outputs=before + behind))
            for operand in makers[number].operands if number in makers else ():
                yield pruned(replace(program, outputs=(*before, operand, *behind)))
    known = program.values()
    for at in range(len(program.steps) - 1, -1, -1):
        step = program.steps[at]
        earlier = [*step.operands, *(value.id for value in program.inputs)]
        other = {}
        for value in step.results:
            same = next((k for k in earlier if known[k].spec == value.spec), None)
            if same is not None:
                other[value.id] = same
        if len(other) == len(step.results):
            yield pruned(_instead(program, other), set(other))
        elif not inside:
            given = tuple(value for value in step.results if value.id not in other)
            steps = program.steps[:at] + program.steps[at + 1 :]
            yield pruned(_instead(replace(program, inputs=program.inputs + given, steps=steps), other))
        if step.op == "call":
            yield pruned(_inlined(program, at, step.programs[0], step.operands))
        if step.op == "cond":
            for arm in step.programs:
                yield pruned(_inlined(program, at, arm, step.operands[1:]))
        if step.op == "while":
            yield pruned(_inlined(program, at, step.programs[1], step.operands))
        for k, inner in enumerate(step.programs):
            for cut in _cuts(inner, inside=True):
                made = replace(step, programs=(*step.programs[:k], cut, *step.programs[k + 1 :]))
                if step.op != "while" or _ends(made):
                    yield replace(program, steps=(*program.steps[:at], made, *program.steps[at + 1 :]))
        for cut in _less_passed(step, {k for each in program.steps for k in each.operands} | set(program.outputs)):
            yield pruned(replace(program, steps=(*program.steps[:at], cut, *program.steps[at + 1 :])))
        if step.attributes.get("inplace"):
            plain = replace(step, attributes={k: v for k, v in step.attributes.items() if k != "inplace"})
            yield replace(program, steps=(*program.steps[:at], plain, *program.steps[at + 1 :]))


def _ends(step: Step) -> bool:
    """Whether a while still counts, and its condition still looks at the counter."""
    test, body = step.programs
    counts = any(
        each.op == "add_value" and each.results[0].id == body.outputs[0] and each.operands[0] == body.inputs[0].id
        for each in body.steps
    )
    made = {value.id: each for each in test.steps for value in each.results}
    last = made.get(test.outputs[0])
    looks = [last, *(made.get(k) for k in last.operands)] if last is not None and last.op == "and" else [last]
    return counts and any(
        each is not None and each.op == "greater" and each.operands[1] == test.inputs[0].id for each in looks
    )


def _less_passed(step: Step, read: set[int]) -> Iterator[Step]:
    """A step with a program inside that is given less, or returns less."""
    if step.op in ("cond", "call"):
        first = 1 if step.op == "cond" else 0
        for k in range(len(step.operands) - first):
            if all(not _uses(inner, inner.inputs[k].id) for inner in step.programs) and len(step.operands) > first + 1:
                programs = tuple(replace(each, inputs=each.inputs[:k] + each.inputs[k + 1 :]) for each in step.programs)
                operands = step.operands[: first + k] + step.operands[first + k + 1 :]
                yield replace(step, operands=operands, programs=programs)
    if step.op == "scan":
        kept = range(step.attributes["carries"], len(step.results))
    else:
        kept = range(len(step.results) if step.op in ("cond", "call") else 0)
    for k in kept:
        if step.results[k].id not in read and len(step.results) > 1:
            programs = tuple(
                without_unused(replace(each, outputs=each.outputs[:k] + each.outputs[k + 1 :]))
                for each in step.programs
            )
            yield replace(step, results=step.results[:k] + step.results[k + 1 :], programs=programs)


def _uses(program: Program, number: int) -> bool:
    return number in program.outputs or any(number in step.operands for step in program.steps)
