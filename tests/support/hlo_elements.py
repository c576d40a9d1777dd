"""What one element of an HLO value is, worked out from elements of others when it is asked for.

An element is a number. Operations that move elements move them; any other makes a number of the operation and of the
numbers that it is computed from, so that two results agree exactly if they are computed from the same. Where a program
lets data choose an element, the numbers of the data choose one. Nothing here is shared with the reader of XLA's plans.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import product

from tests.support.hlo_reading import Array, Program, Row

Index = tuple[int, ...]
Get = Callable[[int, Index, Index], int]
"""The element of an operand, by its number, the place of the array in it, and the index."""
SAME = {
    "abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan", "atan2", "atanh", "bitcast-convert", "cbrt", "ceil",
    "clamp", "compare", "complex", "convert", "cosine", "cosh", "count-leading-zeros", "divide", "erf", "exponential",
    "exponential-minus-one", "floor", "imag", "is-finite", "log", "log-plus-one", "logistic", "map", "maximum",
    "minimum", "mulhi", "multiply", "negate", "not", "or", "popcnt", "power", "real", "reduce-precision", "remainder",
    "round-nearest-afz", "round-nearest-even", "rsqrt", "shift-left", "shift-right-arithmetic", "shift-right-logical",
    "sign", "sine", "sinh", "sqrt", "stochastic-convert", "subtract", "tan", "tanh", "xor",
}  # fmt: skip


def token(*parts: object) -> int:
    """A number made of some things."""
    return zlib.crc32(repr(parts).encode()) | 1 << 40


def indices(dims: Sequence[int]) -> list[Index]:
    """All indices of an array, in row-major order."""
    return list(product(*map(range, dims)))


def number(array: Array, index: Index) -> int:
    """The number of an element in memory."""
    found, stride = 0, 1
    for d in array.minor:
        found += index[d] * stride
        stride *= array.dims[d]
    return found


def index_of(array: Array, at: int, minor: Sequence[int] | None = None) -> Index:
    """The index of the element of a number; row-major if the order given is so."""
    found = [0] * len(array.dims)
    for d in array.minor if minor is None else minor:
        found[d] = at % array.dims[d]
        at //= array.dims[d]
    return tuple(found)


def ints(tokens: Sequence[str]) -> list[int]:
    return [int(each) for each in tokens if each.lstrip("-").isdigit()]


class Elements:
    """Elements of the values of one instruction, its fused computation included; `get` reads its operands."""

    def __init__(self, program: Program, rows: dict[str, Row], row: Row, get: Get) -> None:
        self.program, self.rows, self.row, self.get = program, rows, row, get
        self.memo: dict[object, int] = {}

    def of(self, part: Index, index: Index) -> int:
        """An element of the result. Operands are read now."""
        self.memo.clear()
        return self.element(((), self.row), part, index)

    def element(self, node: tuple[tuple[object, ...], Row], part: Index, index: Index) -> int:
        """An element of a value. A node is an instruction, behind those whose computations it is in."""
        path, row = node
        key = (tuple(id(each) for each in path), row.name, part, index)
        if key not in self.memo:
            self.memo[key] = self.made(node, part, index)
        return self.memo[key]

    def operand(self, node: tuple[tuple[object, ...], Row], k: int, part: Index, index: Index) -> int:
        path, row = node
        if not path:
            return self.get(k, part, index)
        return self.element((path, self.inside(path)[row.operands[k]]), part, index)

    def inside(self, path: tuple[object, ...]) -> dict[str, Row]:
        caller = path[-1]
        assert isinstance(caller, Row)
        name = (caller.attributes.get("calls") or caller.attributes["to_apply"])[0].lstrip("%")
        return {each.name: each for each in self.program.computations[name]}

    def array(self, node: tuple[tuple[object, ...], Row], k: int, part: Index = ()) -> Array:
        path, row = node
        found = (self.inside(path) if path else self.rows)[row.operands[k]].shape[part]
        assert found is not None
        return found

    def start(self, node: tuple[tuple[object, ...], Row], k: int, most: int) -> int:
        """Where a window begins, by operand k."""
        path, row = node
        of = (self.inside(path) if path else self.rows)[row.operands[k]]
        if of.op == "constant":
            return min(max(ints(of.literal)[0], 0), most)
        return self.operand(node, k, (), ()) % (most + 1) if most > 0 else 0

    def made(self, node: tuple[tuple[object, ...], Row], part: Index, index: Index) -> int:
        path, row = node
        op, a = row.op, row.attributes

        def of(k: int, at: Index = index, within: Index = ()) -> int:
            return self.operand(node, k, within, at)

        if op in ("fusion", "call"):
            inner = self.inside((*path, row))
            root = next(each for each in inner.values() if each.is_root)
            return self.element(((*path, row), root), part, index)
        if op == "parameter" and path:
            caller = path[-1]
            assert isinstance(caller, Row)
            return self.operand((path[:-1], caller), ints(row.literal)[0], part, index)
        if op == "tuple":
            return of(part[0], index, part[1:])
        if op == "get-tuple-element":
            return of(0, index, (ints(a["index"])[0], *part))
        if op in ("opt-barrier", "domain", "add-dependency"):
            return of(0, index, part)
        result = row.shape[part]
        assert result is not None
        if op == "constant":
            return token("constant", row.literal, result.dtype, index if result.dims else ())
        if op in ("iota", "partition-id", "replica-id", "rng-get-and-update-state"):
            return token(op, a, index)
        if op == "copy":
            return of(0)
        if op in SAME or op.startswith("all-reduce"):
            which = part if part else range(len(row.operands))
            return token(op, a, [of(k, index if self.array(node, k).dims else ()) for k in which])
        if op == "select":
            pick = of(0, index if self.array(node, 0).dims else ()) % 2
            return of(1 + pick)
        if op == "bitcast":
            return of(0, index_of(self.array(node, 0), number(result, index)))
        if op == "reshape":
            at, major = 0, self.array(node, 0)
            for d, i in enumerate(index):
                at = at * result.dims[d] + i
            return of(0, index_of(major, at, tuple(reversed(range(len(major.dims))))))
        if op == "broadcast":
            return of(0, tuple(index[d] for d in ints(a.get("dimensions", []))))
        if op == "transpose":
            order = ints(a["dimensions"])
            return of(0, tuple(index[order.index(d)] for d in range(len(order))))
        if op == "slice":
            ranges = " ".join(a["slice"]).replace("{", "").replace("}", "").split("]")[:-1]
            bounds = [ints(each.replace("[", " ").replace(",", " ").replace(":", " ").split()) for each in ranges]
            return of(0, tuple(b[0] + i * (b[2] if len(b) > 2 else 1) for b, i in zip(bounds, index, strict=True)))
        if op == "reverse":
            which = ints(a["dimensions"])
            return of(0, tuple(result.dims[d] - 1 - i if d in which else i for d, i in enumerate(index)))
        if op == "concatenate":
            (d,), offset = ints(a["dimensions"]), 0
            for k in range(len(row.operands)):
                size = self.array(node, k).dims[d]
                if index[d] < offset + size:
                    return of(k, (*index[:d], index[d] - offset, *index[d + 1 :]))
                offset += size
        if op == "pad":
            found = []
            pairs = [tuple(int(n) for n in each.split("_")) for each in "".join(a["padding"]).split("x")]
            for i, (low, _, *step), size in zip(index, pairs, self.array(node, 0).dims, strict=True):
                apart = 1 + (step[0] if step else 0)
                if (i - low) % apart or not 0 <= (i - low) // apart < size:
                    return of(1, ())
                found.append((i - low) // apart)
            return of(0, tuple(found))
        if op in ("dynamic-slice", "dynamic-update-slice"):
            first = 1 if op == "dynamic-slice" else 2
            window = result.dims if first == 1 else self.array(node, 1).dims
            outer = self.array(node, 0).dims
            starts = [self.start(node, first + d, n - w) for d, (n, w) in enumerate(zip(outer, window, strict=True))]
            if first == 1:
                return of(0, tuple(s + i for s, i in zip(starts, index, strict=True)))
            inner_index = tuple(i - s for s, i in zip(starts, index, strict=True))
            is_in = all(0 <= i < w for i, w in zip(inner_index, window, strict=True))
            return of(1, inner_index) if is_in else of(0)
        if op == "reduce":
            over, count = ints(a["dimensions"]), len(row.operands) // 2
            dims = self.array(node, 0).dims
            kept = iter(index)
            ranges_ = [range(n) if d in over else (next(kept),) for d, n in enumerate(dims)]
            parts = [of(k, at) for at in product(*ranges_) for k in range(count)]
            return token(op, part, parts, [of(count + k, ()) for k in range(count)])
        if op == "dot":
            return token(op, self.contracted(node, index))
        if op == "gather":
            chosen = token("gather", index, [of(1, at) for at in indices(self.array(node, 1).dims)])
            where = indices(self.array(node, 0).dims)
            return of(0, where[chosen % len(where)])
        if op == "scatter":
            count = len(row.operands) // 2
            k = part[0] if part else 0
            others = [of(j, at) for j in range(count, len(row.operands)) for at in indices(self.array(node, j).dims)]
            changes = token(index, others) % 2
            return token(op, of(k), others) if changes else of(k)
        # All elements of all operands.
        every = []
        for k, name in enumerate(row.operands):
            shape = (self.inside(path) if path else self.rows)[name].shape
            every += [of(k, at, p) for p, leaf in shape.items() if leaf and leaf.bits for at in indices(leaf.dims)]
        return token(op, row.name if not every else "", a, part, index, every)

    def contracted(self, node: tuple[tuple[object, ...], Row], index: Index) -> list[int]:
        a = node[1].attributes
        batch = [ints(a.get(f"{side}_batch_dims", [])) for side in ("lhs", "rhs")]
        over = [ints(a.get(f"{side}_contracting_dims", [])) for side in ("lhs", "rhs")]
        dims = [self.array(node, k).dims for k in (0, 1)]
        found = []
        for sums in product(*(range(dims[0][d]) for d in over[0])):
            at = len(batch[0])
            for k in (0, 1):
                where = dict(zip(batch[k], index, strict=False)) | dict(zip(over[k], sums, strict=True))
                for d in range(len(dims[k])):
                    if d not in where:
                        where[d], at = index[at], at + 1
                found.append(self.operand(node, k, (), tuple(where[d] for d in range(len(dims[k])))))
        return found
