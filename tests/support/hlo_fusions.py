"""Random fused computations: what moves elements, what computes, and what does both, on small arrays."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

SHAPES = ("s32[4]{0}", "s32[2,2]{1,0}", "s32[2,2]{0,1}", "s32[8]{0}", "s32[1,4]{1,0}")
"""The arrays of random programs. All but one have 16 bytes."""
Dims = tuple[int, ...]


def dims_of(shape: str) -> Dims:
    inside = shape[shape.index("[") + 1 : shape.index("]")]
    return tuple(int(n) for n in inside.split(",") if n)


def shape_of(dims: Dims, minor: str = "") -> str:
    return f"s32[{','.join(map(str, dims))}]{minor or plain(dims)}"


def plain(dims: Dims) -> str:
    """The layout in which the last dimension is the fastest."""
    return "{" + ",".join(map(str, reversed(range(len(dims))))) + "}" if dims else ""


class Fused:
    """A computation in the making, of parameters of some shapes."""

    def __init__(self, rng: random.Random, names: count[int], parameters: list[str]) -> None:
        self.rng, self.names, self.lines = rng, names, list[str]()
        self.values: list[tuple[str, str]] = []
        for k, shape in enumerate(parameters):
            self.add(shape, f"parameter({k})")

    def add(self, shape: str, text: str) -> tuple[str, str]:
        """An instruction; its name and shape."""
        name = f"f.{next(self.names)}"
        self.lines.append(f"%{name} = {shape} {text}")
        self.values.append((name, shape))
        return name, shape

    def number(self) -> str:
        """A scalar: a constant, or one of the elements there are."""
        if self.rng.random() < 0.6:
            return self.add("s32[]", f"constant({self.rng.randrange(-1, 4)})")[0]
        name, shape = self.rng.choice(self.values)
        while dims := dims_of(shape):
            ranges = ", ".join(f"[{(at := self.rng.randrange(n))}:{at + 1}]" for n in dims)
            cut = self.add(shape_of((1,) * len(dims)), f"slice(%{name}), slice={{{ranges}}}")[0]
            name, shape = self.add("s32[]", f"reshape(%{cut})")
        return name

    def fitted(self, value: tuple[str, str], wanted: str) -> str:
        """A value of a shape that is made of another value."""
        name, shape = value
        dims, onto = dims_of(shape), dims_of(wanted)
        if shape == wanted:
            return name
        size, target = _product(dims), _product(onto)
        if not dims:
            return self.add(wanted, f"broadcast(%{name}), dimensions={{}}")[0]
        if size != target:
            flat = self.add(shape_of((size,)), f"reshape(%{name})")[0]
            if size > target:
                start = self.rng.randrange(size - target + 1)
                flat = self.add(shape_of((target,)), f"slice(%{flat}), slice={{[{start}:{start + target}]}}")[0]
            else:
                zero = self.add("s32[]", "constant(0)")[0]
                low = self.rng.randrange(target - size + 1)
                padding = f"padding={low}_{target - size - low}"
                flat = self.add(shape_of((target,)), f"pad(%{flat}, %{zero}), {padding}")[0]
            name, shape = flat, shape_of((target,))
        how = self.rng.choice(("reshape", "bitcast")) if dims_of(shape) != onto else "copy"
        return self.add(wanted, f"{how}(%{name})")[0]

    def step(self) -> None:
        """One more value."""
        name, shape = self.rng.choice(self.values)
        dims = dims_of(shape)
        kinds: list[Callable[[str, str, Dims], object]] = [self.unary, self.binary, self.binary, self.reshaped]
        if dims and _product(dims) > 1:
            kinds += [
                self.reversed,
                self.rolled,
                self.updated,
                self.updated,
                self.reduced,
                self.transposed,
                self.window,
            ]
            kinds += [self.padded, self.chosen, self.gathered] if self.rng.random() < 0.3 else []
        self.rng.choice(kinds)(name, shape, dims)

    def unary(self, name: str, shape: str, dims: Dims) -> None:
        self.add(shape, f"{self.rng.choice(('negate', 'not', 'copy', 'sign'))}(%{name})")

    def binary(self, name: str, shape: str, dims: Dims) -> None:
        other = self.fitted(self.rng.choice(self.values), shape)
        self.add(shape, f"{self.rng.choice(('add', 'multiply', 'subtract'))}(%{name}, %{other})")

    def reshaped(self, name: str, shape: str, dims: Dims) -> None:
        fitting = [each for each in SHAPES if _product(dims_of(each)) == _product(dims)]
        if fitting:
            self.add(self.rng.choice(fitting), f"{self.rng.choice(('reshape', 'bitcast'))}(%{name})")

    def reversed(self, name: str, shape: str, dims: Dims) -> None:
        self.add(shape, f"reverse(%{name}), dimensions={{{self.rng.randrange(len(dims))}}}")

    def rolled(self, name: str, shape: str, dims: Dims) -> None:
        d = self.rng.randrange(len(dims))
        if dims[d] < 2:
            return
        cut = self.rng.randrange(1, dims[d])
        parts = []
        for start, end in ((cut, dims[d]), (0, cut)) if self.rng.random() < 0.7 else ((0, cut), (cut, dims[d])):
            ranges = ", ".join(f"[{start}:{end}]" if k == d else f"[0:{n}]" for k, n in enumerate(dims))
            part = (*dims[:d], end - start, *dims[d + 1 :])
            parts.append(self.add(shape_of(part), f"slice(%{name}), slice={{{ranges}}}")[0])
        self.add(shape, f"concatenate({', '.join(f'%{each}' for each in parts)}), dimensions={{{d}}}")

    def updated(self, name: str, shape: str, dims: Dims) -> None:
        """A window of a value, or of another one, written back, often where it was."""
        window = tuple(self.rng.randint(1, n) for n in dims)
        starts = [self.number() for _ in dims]
        sizes = ",".join(map(str, window))
        of = name if self.rng.random() < 0.7 else self.fitted(self.rng.choice(self.values), shape)
        at = starts if self.rng.random() < 0.6 else [self.number() for _ in dims]
        listed = "".join(f", %{each}" for each in at)
        part = self.add(shape_of(window), f"dynamic-slice(%{of}{listed}), dynamic_slice_sizes={{{sizes}}}")[0]
        changed = self.add(shape_of(window), f"negate(%{part})")[0]
        if self.rng.random() < 0.3:
            changed = self.fitted((changed, shape_of(window)), shape_of((_product(window),)))
            changed = self.fitted((changed, shape_of((_product(window),))), shape_of(window))
        listed = "".join(f", %{each}" for each in starts)
        self.add(shape, f"dynamic-update-slice(%{name}, %{changed}{listed})")

    def window(self, name: str, shape: str, dims: Dims) -> None:
        lows = [self.rng.randrange(n) for n in dims]
        ranges = [(low, self.rng.randint(low + 1, n)) for low, n in zip(lows, dims, strict=True)]
        part = tuple(high - low for low, high in ranges)
        listed = ", ".join(f"[{low}:{high}]" for low, high in ranges)
        self.add(shape_of(part), f"slice(%{name}), slice={{{listed}}}")

    def reduced(self, name: str, shape: str, dims: Dims) -> None:
        d = self.rng.randrange(len(dims))
        zero = self.add("s32[]", "constant(0)")[0]
        left = (*dims[:d], *dims[d + 1 :])
        self.add(shape_of(left), f"reduce(%{name}, %{zero}), dimensions={{{d}}}, to_apply=%sum")

    def transposed(self, name: str, shape: str, dims: Dims) -> None:
        order = self.rng.sample(range(len(dims)), len(dims))
        onto = tuple(dims[d] for d in order)
        self.add(shape_of(onto), f"transpose(%{name}), dimensions={{{','.join(map(str, order))}}}")

    def padded(self, name: str, shape: str, dims: Dims) -> None:
        zero = self.add("s32[]", "constant(0)")[0]
        pads = [(self.rng.randrange(2), self.rng.randrange(2), self.rng.randrange(2)) for _ in dims]
        onto = tuple(low + high + n + (n - 1) * step for (low, high, step), n in zip(pads, dims, strict=True))
        config = "x".join(f"{low}_{high}_{step}" for low, high, step in pads)
        self.add(shape_of(onto), f"pad(%{name}, %{zero}), padding={config}")

    def chosen(self, name: str, shape: str, dims: Dims) -> None:
        other, third = (self.fitted(self.rng.choice(self.values), shape) for _ in "ab")
        pick = self.add(shape.replace("s32", "pred"), f"compare(%{name}, %{other}), direction=LT")[0]
        self.values.pop()
        self.add(shape, f"select(%{pick}, %{other}, %{third})")

    def gathered(self, name: str, shape: str, dims: Dims) -> None:
        if len(dims) != 1:
            return
        which = self.fitted(self.rng.choice(self.values), shape_of((dims[0], 1)))
        if self.rng.random() < 0.5:
            self.add(
                shape, f"gather(%{name}, %{which}), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}"
                ", index_vector_dim=1, slice_sizes={1}",
            )  # fmt: skip
        else:
            updates = self.fitted(self.rng.choice(self.values), shape_of((dims[0],)))
            self.add(
                shape, f"scatter(%{name}, %{which}, %{updates}), update_window_dims={{}}, inserted_window_dims={{0}}, "
                "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum",
            )  # fmt: skip

    def text(self, results: list[str]) -> str:
        """The instructions, with a root of some shapes, one or a tuple."""
        for _ in range(self.rng.randint(0, 4)):
            self.step()
        made = []
        for shape in results:
            of = self.rng.choice(self.values[-3:] if self.rng.random() < 0.7 else self.values)
            made.append(self.fitted(of, shape))
        if len(made) > 1:
            listed = ", ".join(f"%{each}" for each in made)
            self.lines.append(f"ROOT %f.{next(self.names)} = ({', '.join(results)}) tuple({listed})")
        else:
            k = next(k for k, line in enumerate(self.lines) if line.startswith(f"%{made[0]} = "))
            self.lines[k] = f"ROOT {self.lines[k]}"
        return "; ".join(self.lines)


def _product(dims: Dims) -> int:
    found = 1
    for n in dims:
        found *= n
    return found
