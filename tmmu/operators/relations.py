"""Which dimensions of an operation's tensors are one loop: the loops that can be divided among ranks.

Each dimension of each operand and result has a label or None. Dimensions of one label are walked together: a rank that
has the same part of all of them can do its part alone. None is a dimension that the operation needs whole. A result
that lacks a label is a sum over it where the operation is one, and otherwise the label cannot be divided. What a
node's attributes decide is taken from the shapes alone where they leave no choice; else the dimension is whole.
spec: R7.9, R7.10, R7.11
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

Shape = tuple[int, ...]
Labels = tuple[int | None, ...]


@dataclass(frozen=True)
class Relation:
    """The labels of every operand and result; `sums`: results that lack a label are sums over it.

    `pointwise`: an element depends on the elements at its own place alone, so that padding does no harm. `apart`: a
    result that lacks a label depends on none of the elements that it labels.
    """

    reads: tuple[Labels, ...]
    writes: tuple[Labels, ...]
    sums: bool = False
    pointwise: bool = False
    apart: bool = False


SplitRule = Callable[[list[Shape], list[Shape]], Relation | None]
"""The relation of an operation from the shapes of its operands and results; None if they leave a choice."""


def _of_one_result(rule: SplitRule) -> SplitRule:
    """Restrict a rule to operations with one result. Further results are statistics, or places in operands."""
    return lambda reads, writes: rule(reads, writes) if len(writes) == 1 else None


@_of_one_result
def metadata(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Only the shape of the operand is read, which is the model's on every rank."""
    if len(reads) != 1:
        return None
    return Relation(tuple(tuple(range(len(s))) for s in reads), tuple((None,) * len(s) for s in writes), apart=True)


def _aligned(shape: Shape, like: Shape) -> Labels:
    shift = len(like) - len(shape)
    return tuple(
        d + shift if d + shift >= 0 and size == like[d + shift] else None for d, size in enumerate(shape)
    )  # fmt: skip


def pointwise(reads: list[Shape], writes: list[Shape]) -> Relation:
    """Divide every dimension of the result. Operands broadcast."""
    like = writes[0]
    out = tuple(tuple(range(len(like))) if s == like else (None,) * len(s) for s in writes)
    return Relation(tuple(_aligned(s, like) for s in reads), out, pointwise=True)


@_of_one_result
def expand(reads: list[Shape], writes: list[Shape]) -> Relation:
    """Divide as operand 0 broadcasts. The other operands state a shape."""
    shown = pointwise(reads[:1], writes)
    return replace(shown, reads=(*shown.reads, *((None,) * len(s) for s in reads[1:])))


@_of_one_result
def matmul(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Divide rows of the first matrix, columns of the second, and the dimension that is summed over."""
    if len(reads) != 2 or min(map(len, reads)) < 2 or len(writes[0]) != max(map(len, reads)):
        return None
    a, b, y = reads[0], reads[1], writes[0]
    if y[-2:] != (a[-2], b[-1]) or a[-1] != b[-2]:
        return None
    batch = len(y) - 2
    m, n, k = batch, batch + 1, batch + 2
    return Relation(
        ((*_aligned(a[:-2], y[:-2]), m, k), (*_aligned(b[:-2], y[:-2]), k, n)), (tuple(range(batch + 2)),), sums=True
    )


@_of_one_result
def gemm(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """The shapes show which operand is transposed, but for square ones. A bias is added once: no sum over ranks."""
    if len(reads) < 2 or not len(reads[0]) == len(reads[1]) == len(writes[0]) == max(map(len, reads)) == 2:
        return None
    a, b, y = reads[0], reads[1], writes[0]
    known_a, known_b, summed = a[0] != a[1], b[0] != b[1], len(reads) == 2
    m, n = (0 if known_a else None), (1 if known_b else None)
    k = 2 if known_a and known_b and summed else None
    of_a: Labels = (m, k) if a[0] == y[0] else (k, m)
    of_b: Labels = (k, n) if b[1] == y[1] else (n, k)
    of_c = [tuple(n if label == 1 else m if label == 0 else None for label in _aligned(s, y)) for s in reads[2:]]
    return Relation((of_a, of_b, *of_c), ((m, n),), sums=True)


@_of_one_result
def conv(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Batch; with one group output channels, and without a bias input channels as a sum."""
    if (
        len(reads) < 2
        or not 2 <= len(reads[0]) == len(reads[1]) == len(writes[0])
        or any(len(s) != 1 for s in reads[2:])
    ):
        return None
    x, w = reads[0], reads[1]
    grouped = w[1] != x[1]
    m, c = (None if grouped else 1), (2 if not grouped and len(reads) == 2 else None)
    rest = (None,) * (len(x) - 2)
    return Relation(((0, c, *rest), (m, c, *rest), *((m,) for _ in reads[2:])), ((0, m, *rest),), sums=True)


@_of_one_result
def channels(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Batch and channels, each place of them alone; further operands are one value a channel."""
    x = reads[0]
    if len(x) < 2 or writes[0][:2] != x[:2] or len(writes[0]) != len(x):
        return None
    labels = (0, 1, *(None,) * (len(x) - 2))
    return Relation((labels, *((1,) if s == (x[1],) else (None,) * len(s) for s in reads[1:])), (labels,))


@_of_one_result
def reshape(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Runs of dimensions with one product on both sides: the first that is not 1 of each side are one label."""
    a, b = reads[0], writes[0]
    if math.prod(a) != math.prod(b) or math.prod(a) == 0:
        return None
    of: tuple[list[int | None], list[int | None]] = ([None] * len(a), [None] * len(b))
    i = j = 0
    while i < len(a) and j < len(b):
        start, left, right = (i, j), a[i], b[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * a[i], i + 1
            else:
                right, j = right * b[j], j + 1
        if left > 1:  # else neither side has anything to divide
            for labels, s, lo, hi in ((of[0], a, start[0], i), (of[1], b, start[1], j)):
                labels[next(d for d in range(lo, hi) if s[d] != 1)] = start[0]
    return Relation((tuple(of[0]), *((None,) * len(s) for s in reads[1:])), (tuple(of[1]),))


@_of_one_result
def transpose(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Divide a dimension whose size occurs once: it can only have moved to the place with that size."""
    a, b = reads[0], writes[0]
    if sorted(a) != sorted(b) or len(reads) != 1:
        return None
    return Relation(
        (tuple(d if a.count(size) == 1 else None for d, size in enumerate(a)),),
        (tuple(a.index(size) if a.count(size) == 1 else None for size in b),),
    )


def _alike(shapes: list[Shape]) -> Labels | None:
    """A label for each dimension in which all agree; None where they agree in all or differ in rank."""
    if len({len(s) for s in shapes}) != 1:
        return None
    labels = tuple(d if len({s[d] for s in shapes}) == 1 else None for d in range(len(shapes[0])))
    return labels if None in labels else None


@_of_one_result
def concat(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Divide every dimension that is equal in all operands and the result."""
    labels = _alike([*reads, *writes])
    return None if labels is None else Relation((labels,) * len(reads), (labels,))


def split(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Divide every dimension that is equal in the operand and all results."""
    labels = _alike([reads[0], *writes])
    rest = tuple((None,) * len(s) for s in reads[1:])
    return None if labels is None else Relation((labels, *rest), (labels,) * len(writes))


@_of_one_result
def gather(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Replace the dimension that is picked from by those of the indices, if the shapes show which one it is."""
    if len(reads) != 2:
        return None
    data, at, y = reads[0], reads[1], writes[0]
    places = [a for a in range(len(data)) if y == (*data[:a], *at, *data[a + 1 :])]
    if len(places) != 1:
        return None
    a = places[0]
    out = tuple(range(len(y)))
    return Relation(((*out[:a], None, *out[a + len(at) :]), out[a : a + len(at)]), (out,))


@_of_one_result
def reduction(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """What is reduced has become 1; where the dimension is gone the shapes do not show which it was."""
    a, y = reads[0], writes[0]
    if len(a) != len(y):
        return None
    labels = tuple(d if a[d] == y[d] else None for d in range(len(a)))
    return Relation((labels, *((None,) * len(s) for s in reads[1:])), (labels,))


@_of_one_result
def summed_reduction(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Divide a sum also over the summed dimensions, because partial sums can be added."""
    found = reduction(reads, writes)
    if found is None:
        return None
    return replace(found, reads=(tuple(range(len(reads[0]))), *found.reads[1:]), sums=True)
