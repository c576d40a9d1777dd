"""Derive which dimensions of an operation's operands and results are one loop, from the operation's definition.

A place is one dimension of one operand or result. A loop is the set of places that one index runs over. Each listed
loop can be divided. An operation without known loops lists none, and so needs all of its operands whole. These rules
are the checker's own, written from the operators' definitions. spec: R7.9, R7.10, R7.11
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

Shape = tuple[int, ...]
Place = tuple[str, int, int]
"""("in" or "out", position, dimension)."""


@dataclass(frozen=True)
class Loops:
    """Disjoint sets of places that can be divided.

    If `adds`, a result outside of a loop is the sum over it. If `local`, padding has no effect on other elements.
    `untouched` are results that do not depend on divided dimensions. If `shape_only`, results are computed from an
    operand's shape, and so are right only if the runtime of a rank gives the shape of the whole tensor.
    """

    sets: tuple[frozenset[Place], ...] = ()
    adds: bool = False
    local: bool = False
    untouched: frozenset[int] = frozenset()
    shape_only: bool = False


NOTHING = Loops()

LoopRule = Callable[[Sequence[Shape], Sequence[Shape]], Loops]
"""The loops of an operation from the shapes of its operands and results. There is at least one of each."""


def _of_one_result(rule: LoopRule) -> LoopRule:
    """Restrict a rule to operations with one result. Further results are statistics, or places in an operand."""
    return lambda ins, outs: rule(ins, outs) if len(outs) == 1 else NOTHING


def _equated(*rows: tuple[str, int, Iterable[Hashable]]) -> tuple[frozenset[Place], ...]:
    """Return loops from an index for each dimension, in the order of the rows. None is not an index."""
    found: dict[Hashable, set[Place]] = defaultdict(set)
    for side, position, indices in rows:
        for d, index in enumerate(indices):
            if index is not None:
                found[index].add((side, position, d))
    return tuple(map(frozenset, found.values()))


def _broadcast(ins: Sequence[Shape], outs: Sequence[Shape]) -> tuple[frozenset[Place], ...]:
    """Match dimensions from the last one. An operand of size 1 is repeated and has no part in the loop."""
    result = outs[0]
    sets = []
    for back in range(1, len(result) + 1):
        places = {("out", q, len(s) - back) for q, s in enumerate(outs) if s == result}
        places |= {
            ("in", p, len(s) - back) for p, s in enumerate(ins) if len(s) >= back and s[-back] == result[-back]
        }  # fmt: skip
        sets.append(frozenset(places))
    return tuple(sets)


def by_element(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of an elementwise operator: each result element depends on operands at its place."""
    return Loops(_broadcast(ins, outs), local=True)


@_of_one_result
def broadcast_first(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of an operator that broadcasts operand 0 to a shape that the others state."""
    return Loops(_broadcast(ins[:1], outs), local=True)


@_of_one_result
def product(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of y[.., i, j] = the sum over k of a[.., i, k] b[.., k, j]."""
    if len(ins) != 2 or any(len(s) < 2 for s in ins) or len(outs[0]) != max(map(len, ins)):
        return NOTHING
    (a, b), y = ins, outs[0]
    if (a[-2], b[-1], a[-1]) != (y[-2], y[-1], b[-2]):
        return NOTHING

    def batch(s: Shape) -> list[Hashable]:
        return [back if s[-back] == y[-back] else None for back in range(len(s), 2, -1)]

    rows = ("out", 0, [*batch(y), "i", "j"]), ("in", 0, [*batch(a), "i", "k"]), ("in", 1, [*batch(b), "k", "j"])
    return Loops(_equated(*rows), adds=True)


@_of_one_result
def gemm(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of Gemm, unless a square operand may be transposed.

    With a bias, the sum over k is not divided.
    """
    if [len(s) for s in (*ins[:2], outs[0])] != [2, 2, 2] or any(len(s) > 2 for s in ins):
        return NOTHING
    a, b, y = ins[0], ins[1], outs[0]
    i, j = ("i" if a[0] != a[1] else None), ("j" if b[0] != b[1] else None)
    k = "k" if i and j and len(ins) == 2 else None
    rows: list[tuple[str, int, Iterable[Hashable]]] = [("out", 0, (i, j))]
    rows.append(("in", 0, (i, k) if a[0] == y[0] else (k, i)))
    rows.append(("in", 1, (k, j) if b[1] == y[1] else (j, k)))
    for p, c in enumerate(ins[2:], 2):
        pairs = list(zip(reversed(c), reversed(y), (j, i), strict=False))
        rows.append(("in", p, [index if n == m else None for n, m, index in reversed(pairs)]))
    return Loops(_equated(*rows), adds=True)


@_of_one_result
def convolution(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of a convolution: the examples and, with one group, the channels.

    The channels of the result are a loop. Without a bias those of the data, which are summed, are one too.
    """
    if len(ins) < 2 or len({len(s) for s in (*ins[:2], outs[0])}) > 1 or any(len(s) != 1 for s in ins[2:]):
        return NOTHING
    x, w = ins[0], ins[1]
    if len(x) < 2:
        return NOTHING
    one_group = x[1] == w[1]
    out, inner = ("m" if one_group else None), ("c" if one_group and len(ins) == 2 else None)
    rows = [("out", 0, ("n", out)), ("in", 0, ("n", inner)), ("in", 1, (out, inner))]
    return Loops(_equated(*rows, *(("in", p, (out,)) for p in range(2, len(ins)))), adds=True)


@_of_one_result
def each_channel(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops over examples and channels, each apart from the others.

    An operand may have one number for each channel.
    """
    x = ins[0]
    if len(x) < 2 or len(outs[0]) != len(x) or outs[0][:2] != x[:2]:
        return NOTHING
    vectors = [("in", p, ("c",)) for p, s in enumerate(ins) if s == x[1:2]]
    return Loops(_equated(("in", 0, ("n", "c")), ("out", 0, ("n", "c")), *vectors))


@_of_one_result
def same_elements(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return a loop for each pair of dimensions of two shapes that follow equal products.

    A chunk of the one is then the same run of elements as a chunk of the other.
    """
    a, b = ins[0], outs[0]
    if not prod(a) or prod(a) != prod(b):
        return NOTHING

    def after(shape: Shape) -> dict[int, int]:
        """Return each dimension by the product of those before it, without dimensions of size 1."""
        found, before = {}, 1
        for d, n in enumerate(shape):
            if n > 1:
                found[before] = d
            before *= n
        return found

    of_a, of_b = after(a), after(b)
    return Loops(tuple(frozenset({("in", 0, of_a[c]), ("out", 0, of_b[c])}) for c in sorted(of_a.keys() & of_b.keys())))


@_of_one_result
def permute_loops(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of a permutation.

    A dimension whose size occurs once can only have moved to the one of that size.
    """
    a, b = ins[0], outs[0]
    if len(ins) > 1 or sorted(a) != sorted(b):
        return NOTHING
    return Loops(tuple(frozenset({("in", 0, d), ("out", 0, b.index(n))}) for d, n in enumerate(a) if a.count(n) == 1))


@_of_one_result
def join_loops(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of operands that are joined side by side."""
    return _side_by_side([("in", p, s) for p, s in enumerate(ins)] + [("out", 0, outs[0])])


def cut(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of an operand that is cut into its results, side by side."""
    return _side_by_side([("in", 0, ins[0])] + [("out", q, s) for q, s in enumerate(outs)])


def _side_by_side(parts: Sequence[tuple[str, int, Shape]]) -> Loops:
    """Return the loops of parts of one tensor: all dimensions but the one that differs."""
    first = parts[0][2]
    if any(len(s) != len(first) for _, _, s in parts):
        return NOTHING
    same = [d for d in range(len(first)) if all(s[d] == first[d] for _, _, s in parts)]
    if len(same) == len(first):
        return NOTHING
    return Loops(tuple(frozenset((side, p, d) for side, p, _ in parts) for d in same))


@_of_one_result
def gather_loops(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of a gather: dimensions of the indices replace one of the data, if shapes determine which."""
    if len(ins) != 2:
        return NOTHING
    data, index, y = ins[0], ins[1], outs[0]
    fits = [d for d in range(len(data)) if data[:d] + index + data[d + 1 :] == y]
    if len(fits) != 1:
        return NOTHING
    at, width = fits[0], len(index)
    of_data = [d if d < at else None if d == at else d + width - 1 for d in range(len(data))]
    return Loops(
        _equated(("out", 0, range(len(y))), ("in", 0, of_data), ("in", 1, range(at, at + width)))
    )  # fmt: skip


@_of_one_result
def reduce_loops(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops over dimensions that stay unchanged. The shapes do not show which dimension is gone."""
    a, y = ins[0], outs[0]
    if len(a) != len(y):
        return NOTHING
    return Loops(tuple(frozenset({("in", 0, d), ("out", 0, d)}) for d in range(len(a)) if a[d] == y[d]))


@_of_one_result
def sum_loops(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of a reduction that can be made in parts: the dimension that is summed is a loop as well."""
    a, y = ins[0], outs[0]
    if len(a) != len(y):
        return NOTHING
    over = tuple(frozenset({("in", 0, d)}) for d in range(len(a)) if a[d] != y[d])
    return Loops(reduce_loops(ins, outs).sets + over, adds=True)


@_of_one_result
def shape_alone(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of an operator that reads no elements: it uses the model's shape, whatever part is there."""
    if len(ins) != 1:
        return NOTHING
    sets = tuple(frozenset({("in", 0, d)}) for d in range(len(ins[0])))
    return Loops(sets, untouched=frozenset(range(len(outs))), shape_only=True)
