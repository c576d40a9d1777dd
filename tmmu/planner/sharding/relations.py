"""Find the dimensions of an operation's tensors that form one loop, which can be divided among ranks.

Each dimension of each operand and result has a label or None. Dimensions with one label are iterated together: a rank
that has the same part of all of them can compute its part independently. None is a dimension that the operation needs
whole. A result that lacks a label is a sum over it if the operation sums; otherwise the label cannot be divided. Node
attributes are inferred from the shapes if these leave no choice; otherwise the dimension is whole.
spec: R7.9, R7.10, R7.11
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

Shape = tuple[int, ...]
Labels = tuple[int | None, ...]


@dataclass(frozen=True)
class Relation:
    """The labels of every operand and result; if `sums`, results that lack a label are sums over it.

    `pointwise`: an element depends only on the elements at its own place, so that padding does no harm. `apart`: a
    result that lacks a label depends on none of the elements that it labels.
    """

    reads: tuple[Labels, ...]
    writes: tuple[Labels, ...]
    sums: bool = False
    pointwise: bool = False
    apart: bool = False


_POINTWISE = """
Abs Acos Acosh Add And Asin Asinh Atan Atanh BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Ceil Celu
Clip Cos Cosh Div Dropout Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN
LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid
Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor
"""
POINTWISE = frozenset(_POINTWISE.split())
REDUCTIONS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"})
POOLS = frozenset({"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "MaxPool"})
RESHAPES = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})


def whole(reads: Sequence[Shape], writes: Sequence[Shape]) -> Relation:
    """Return the relation of an unknown operation: every dimension whole."""
    return Relation(tuple((None,) * len(s) for s in reads), tuple((None,) * len(s) for s in writes))


def relation(domain: str, op: str, reads: Sequence[Shape], writes: Sequence[Shape]) -> Relation:
    """Return the relation of a forward operation, from its operator and the shapes of its operands and results.

    >>> relation("", "MatMul", [(8, 4), (4, 6)], [(8, 6)])
    Relation(reads=((0, 2), (2, 1)), writes=((0, 1),), sums=True, pointwise=False, apart=False)
    """
    family = None if domain not in ("", "ai.onnx") or not reads or not writes else _FAMILIES.get(op)
    if len(writes) > 1 and family not in (_pointwise, _split):  # further results are statistics, or places in operands
        family = None
    found = None if family is None else family(list(reads), list(writes))
    if found is None:
        return whole(reads, writes)
    if op == "ReduceSum":
        return _label_sum(found, reads[0])
    return found


def across(dims: Sequence[int], reads: Sequence[Shape], writes: Sequence[Shape]) -> Relation:
    """Return the relation of an operation that couples `dims` (counted from the last) and no other dimensions."""
    if not reads or not writes:
        return whole(reads, writes)
    first = reads[0]

    def labels(shape: Shape) -> Labels:
        if len(shape) != len(first):
            return (None,) * len(shape)
        return tuple(
            d if d - len(first) not in dims and size == first[d] else None for d, size in enumerate(shape)
        )  # fmt: skip

    return Relation(
        tuple(labels(s) if s == first else (None,) * len(s) for s in reads), tuple(labels(s) for s in writes)
    )


def elementwise(like: Shape, reads: Sequence[Shape], writes: Sequence[Shape]) -> Relation:
    """Return the relation of an optimizer step: tensors of the shape `like` are iterated together, others are whole."""
    labels = tuple(range(len(like)))
    rows = [tuple(labels if s == like else (None,) * len(s) for s in shapes) for shapes in (reads, writes)]
    return Relation(rows[0], rows[1], pointwise=True, apart=True)


def _metadata(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Return the relation of an operation that reads only the operand's shape, which is the model's on every rank."""
    if len(reads) != 1:
        return None
    return Relation(tuple(tuple(range(len(s))) for s in reads), tuple((None,) * len(s) for s in writes), apart=True)


def _aligned(shape: Shape, like: Shape) -> Labels:
    shift = len(like) - len(shape)
    return tuple(
        d + shift if d + shift >= 0 and size == like[d + shift] else None for d, size in enumerate(shape)
    )  # fmt: skip


def _pointwise(reads: list[Shape], writes: list[Shape]) -> Relation:
    like = writes[0]
    out = tuple(tuple(range(len(like))) if s == like else (None,) * len(s) for s in writes)
    return Relation(tuple(_aligned(s, like) for s in reads), out, pointwise=True)


def _expand(reads: list[Shape], writes: list[Shape]) -> Relation:
    shown = _pointwise(reads[:1], writes)
    return replace(shown, reads=(*shown.reads, *((None,) * len(s) for s in reads[1:])))


def _matmul(reads: list[Shape], writes: list[Shape]) -> Relation | None:
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


def _gemm(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Relate a Gemm. Shapes show which operand is transposed, unless it is square.

    A bias is added once: no sum over ranks.
    """
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


def _conv(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Relate a convolution: batch; with one group output channels, and without a bias input channels as a sum."""
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


def _channels(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Relate batch and channels, each independent; further operands are one value a channel."""
    x = reads[0]
    if len(x) < 2 or writes[0][:2] != x[:2] or len(writes[0]) != len(x):
        return None
    labels = (0, 1, *(None,) * (len(x) - 2))
    return Relation((labels, *((1,) if s == (x[1],) else (None,) * len(s) for s in reads[1:])), (labels,))


def _reshape(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Relate runs of dimensions with equal products on both sides: the first dimensions other than 1 share a label."""
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
        if left > 1:  # otherwise neither side has anything to divide
            for labels, s, lo, hi in ((of[0], a, start[0], i), (of[1], b, start[1], j)):
                labels[next(d for d in range(lo, hi) if s[d] != 1)] = start[0]
    return Relation((tuple(of[0]), *((None,) * len(s) for s in reads[1:])), (tuple(of[1]),))


def _transpose(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    a, b = reads[0], writes[0]
    if sorted(a) != sorted(b) or len(reads) != 1:
        return None
    return Relation(
        (tuple(d if a.count(size) == 1 else None for d, size in enumerate(a)),),
        (tuple(a.index(size) if a.count(size) == 1 else None for size in b),),
    )


def _alike(shapes: list[Shape]) -> Labels | None:
    """Return labels for the dimensions that all shapes share; None if they share all or differ in rank."""
    if len({len(s) for s in shapes}) != 1:
        return None
    labels = tuple(d if len({s[d] for s in shapes}) == 1 else None for d in range(len(shapes[0])))
    return labels if None in labels else None


def _concat(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    labels = _alike([*reads, *writes])
    return None if labels is None else Relation((labels,) * len(reads), (labels,))


def _split(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    labels = _alike([reads[0], *writes])
    rest = tuple((None,) * len(s) for s in reads[1:])
    return None if labels is None else Relation((labels, *rest), (labels,) * len(writes))


def _gather(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    if len(reads) != 2:
        return None
    data, at, y = reads[0], reads[1], writes[0]
    places = [a for a in range(len(data)) if y == (*data[:a], *at, *data[a + 1 :])]
    if len(places) != 1:
        return None
    a = places[0]
    out = tuple(range(len(y)))
    return Relation(((*out[:a], None, *out[a + len(at) :]), out[a : a + len(at)]), (out,))


def _reduction(reads: list[Shape], writes: list[Shape]) -> Relation | None:
    """Relate a reduction whose dimensions have become 1; if they were removed, shapes do not show which they were."""
    a, y = reads[0], writes[0]
    if len(a) != len(y):
        return None
    labels = tuple(d if a[d] == y[d] else None for d in range(len(a)))
    return Relation((labels, *((None,) * len(s) for s in reads[1:])), (labels,))


def _label_sum(found: Relation, a: Shape) -> Relation:
    """Label the summed dimensions as well: a sum can be computed in parts."""
    return replace(found, reads=(tuple(range(len(a))), *found.reads[1:]), sums=True)


_FAMILIES: dict[str, Callable[[list[Shape], list[Shape]], Relation | None]] = {
    **dict.fromkeys(POINTWISE, _pointwise), **dict.fromkeys(REDUCTIONS, _reduction), **dict.fromkeys(POOLS, _channels),
    **dict.fromkeys(RESHAPES, _reshape), "BatchNormalization": _channels, "Concat": _concat, "Conv": _conv,
    "Expand": _expand, "Gather": _gather, "Gemm": _gemm, "InstanceNormalization": _channels, "MatMul": _matmul,
    "Shape": _metadata, "Size": _metadata, "Split": _split, "Transpose": _transpose,
}  # fmt: skip
