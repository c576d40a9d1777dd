"""Which dimensions of an operation's operands and results are one loop, worked out from what the operation computes.

A place is one dimension of one operand or result; a loop is the set of places that one index runs over. The loops that
are given can each be divided: an operation of which they are not known has none, and so needs everything whole. These
rules are the checker's own, written from the operators' definitions.
spec: R7.9, R7.10, R7.11
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
    """Disjoint sets of places; `adds`: a result outside of a loop is the sum over it; `local`: padding does no harm.

    `untouched` are results that depend on nothing that is divided; `shape_only`: they are computed from
    an operand's shape, and so right only where the runtime of a rank gives that of the whole tensor.
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
    """Loops from an index for each dimension; None is no index. The loops come in the order of the rows."""
    found: dict[Hashable, set[Place]] = defaultdict(set)
    for side, position, indices in rows:
        for d, index in enumerate(indices):
            if index is not None:
                found[index].add((side, position, d))
    return tuple(map(frozenset, found.values()))


def _broadcast(ins: Sequence[Shape], outs: Sequence[Shape]) -> tuple[frozenset[Place], ...]:
    """Dimensions are matched from the last one; an operand of size 1 is repeated and has no part in the loop."""
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
    """An element of a result depends on the operands at its own place, which broadcast."""
    return Loops(_broadcast(ins, outs), local=True)


@_of_one_result
def broadcast_first(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Operand 0 broadcasts to a shape that the others state."""
    return Loops(_broadcast(ins[:1], outs), local=True)


@_of_one_result
def product(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """y[.., i, j] is the sum over k of a[.., i, k] b[.., k, j]."""
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
    """Of a square operand it is not known whether it is transposed; with a bias the sum over k is not made in parts."""
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
    """Examples; with one group the channels of the result and, without a bias, those of the data, which are summed."""
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
    """Examples and channels, each apart from the others; an operand may have one number for each channel."""
    x = ins[0]
    if len(x) < 2 or len(outs[0]) != len(x) or outs[0][:2] != x[:2]:
        return NOTHING
    vectors = [("in", p, ("c",)) for p, s in enumerate(ins) if s == x[1:2]]
    return Loops(_equated(("in", 0, ("n", "c")), ("out", 0, ("n", "c")), *vectors))


@_of_one_result
def same_elements(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """A dimension of each shape is one loop where the products of what is before them are equal.

    A chunk of the one is then the same stretch of elements as a chunk of the other.
    """
    a, b = ins[0], outs[0]
    if not prod(a) or prod(a) != prod(b):
        return NOTHING

    def after(shape: Shape) -> dict[int, int]:
        """Each dimension by the product of what is before it, those of size 1 passed over."""
        found, before = {}, 1
        for d, n in enumerate(shape):
            if n > 1:
                found[before] = d
            before *= n
        return found

    of_a, of_b = after(a), after(b)
    return Loops(tuple(frozenset({("in", 0, of_a[c]), ("out", 0, of_b[c])}) for c in sorted(of_a.keys() & of_b.keys())))


@_of_one_result
def permuted(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """A dimension whose size occurs once can only have gone to the one of that size."""
    a, b = ins[0], outs[0]
    if len(ins) > 1 or sorted(a) != sorted(b):
        return NOTHING
    return Loops(tuple(frozenset({("in", 0, d), ("out", 0, b.index(n))}) for d, n in enumerate(a) if a.count(n) == 1))


@_of_one_result
def joined(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """The operands side by side."""
    return _side_by_side([("in", p, s) for p, s in enumerate(ins)] + [("out", 0, outs[0])])


def cut(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Operand 0 is its results side by side."""
    return _side_by_side([("in", 0, ins[0])] + [("out", q, s) for q, s in enumerate(outs)])


def _side_by_side(parts: Sequence[tuple[str, int, Shape]]) -> Loops:
    """Parts of one tensor: all dimensions but the one in which they differ."""
    first = parts[0][2]
    if any(len(s) != len(first) for _, _, s in parts):
        return NOTHING
    same = [d for d in range(len(first)) if all(s[d] == first[d] for _, _, s in parts)]
    if len(same) == len(first):
        return NOTHING
    return Loops(tuple(frozenset((side, p, d) for side, p, _ in parts) for d in same))


@_of_one_result
def picked(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """A dimension of the data is replaced by those of the indices; which one must follow from the shapes."""
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
def reduced(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Every dimension that stays as it is; of one that is gone the shapes do not show which it was."""
    a, y = ins[0], outs[0]
    if len(a) != len(y):
        return NOTHING
    return Loops(tuple(frozenset({("in", 0, d), ("out", 0, d)}) for d in range(len(a)) if a[d] == y[d]))


@_of_one_result
def summed(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """A reduction that can be made in parts: what is summed over is a loop as well."""
    a, y = ins[0], outs[0]
    if len(a) != len(y):
        return NOTHING
    over = tuple(frozenset({("in", 0, d)}) for d in range(len(a)) if a[d] != y[d])
    return Loops(reduced(ins, outs).sets + over, adds=True)


@_of_one_result
def shape_alone(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Elements are not read: the shape is the model's, whatever part of the operand is there."""
    if len(ins) != 1:
        return NOTHING
    sets = tuple(frozenset({("in", 0, d)}) for d in range(len(ins[0])))
    return Loops(sets, untouched=frozenset(range(len(outs))), shape_only=True)
