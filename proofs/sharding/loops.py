"""Which dimensions of an operation's operands and results are one loop, worked out from what the operation computes.

A place is one dimension of one operand or result; a loop is the set of places that one index runs over. The loops that
are given can each be divided: an operation of which they are not known has none, and so needs everything whole. These
tables are the checker's own, written from the operators' definitions.
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

_BY_ELEMENT = frozenset({
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitCast", "BitShift", "BitwiseAnd",
    "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Dropout", "Elu",
    "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity",
    "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg",
    "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor",
})  # fmt: skip


def loops(domain: str, op: str, ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """The loops of an operator of ai.onnx, as far as shapes show them; none for any other.

    >>> [sorted(s) for s in loops("", "MatMul", [(8, 4), (4, 6)], [(8, 6)]).sets]
    [[('in', 0, 0), ('out', 0, 0)], [('in', 1, 1), ('out', 0, 1)], [('in', 0, 1), ('in', 1, 0)]]
    """
    if domain or not ins or not outs:
        return NOTHING
    if op in _BY_ELEMENT:
        return Loops(_broadcast(ins, outs), local=True)
    table = _TABLE.get(op) if len(outs) == 1 or op == "Split" else None
    return table(ins, outs) if table is not None else NOTHING


def stated(across: Sequence[int], ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """The loops of an operator whose spec says across which dimensions, from the last, it works."""
    if not ins or not outs:
        return NOTHING
    main = ins[0]
    sets = []
    for d in range(len(main)):
        if d - len(main) in across:
            continue
        places = [("in", p, d) for p, s in enumerate(ins) if s == main]
        places += [("out", q, d) for q, s in enumerate(outs) if len(s) == len(main) and s[d] == main[d]]
        sets.append(frozenset(places))
    return Loops(tuple(sets))


def of_update(like: Shape, ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """The loops of an optimizer step: it walks everything of its parameter's shape together."""
    every = [("in", p, s) for p, s in enumerate(ins)] + [("out", q, s) for q, s in enumerate(outs)]
    sets = tuple(frozenset((side, p, d) for side, p, s in every if s == like) for d in range(len(like)))
    return Loops(sets, local=True, untouched=frozenset(q for q, s in enumerate(outs) if s != like))


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


def _product(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
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


def _gemm(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
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


def _convolution(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    if len(ins) < 2 or len({len(s) for s in (*ins[:2], outs[0])}) > 1 or any(len(s) != 1 for s in ins[2:]):
        return NOTHING
    x, w = ins[0], ins[1]
    if len(x) < 2:
        return NOTHING
    one_group = x[1] == w[1]
    out, inner = ("m" if one_group else None), ("c" if one_group and len(ins) == 2 else None)
    rows = [("out", 0, ("n", out)), ("in", 0, ("n", inner)), ("in", 1, (out, inner))]
    return Loops(_equated(*rows, *(("in", p, (out,)) for p in range(2, len(ins)))), adds=True)


def _each_channel(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    x = ins[0]
    if len(x) < 2 or len(outs[0]) != len(x) or outs[0][:2] != x[:2]:
        return NOTHING
    vectors = [("in", p, ("c",)) for p, s in enumerate(ins) if s == x[1:2]]
    return Loops(_equated(("in", 0, ("n", "c")), ("out", 0, ("n", "c")), *vectors))


def _same_elements(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
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


def _permuted(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """A dimension whose size occurs once can only have gone to the one of that size."""
    a, b = ins[0], outs[0]
    if len(ins) > 1 or sorted(a) != sorted(b):
        return NOTHING
    return Loops(tuple(frozenset({("in", 0, d), ("out", 0, b.index(n))}) for d, n in enumerate(a) if a.count(n) == 1))


def _joined(ins: Sequence[Shape], outs: Sequence[Shape], split: bool = False) -> Loops:
    """Parts of one tensor side by side: all dimensions but the one in which they differ."""
    parts = [("in", p, s) for p, s in enumerate(ins[:1] if split else ins)] + [
        ("out", q, s) for q, s in enumerate(outs)
    ]
    rank = len(ins[0])
    if any(len(s) != rank for _, _, s in parts):
        return NOTHING
    same = [d for d in range(rank) if all(s[d] == ins[0][d] for _, _, s in parts)]
    if len(same) == rank:
        return NOTHING
    return Loops(tuple(frozenset((side, p, d) for side, p, _ in parts) for d in same))


def _picked(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
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


def _reduced(ins: Sequence[Shape], outs: Sequence[Shape], adds: bool = False) -> Loops:
    a, y = ins[0], outs[0]
    if len(a) != len(y):
        return NOTHING
    kept = tuple(frozenset({("in", 0, d), ("out", 0, d)}) for d in range(len(a)) if a[d] == y[d])
    summed = tuple(frozenset({("in", 0, d)}) for d in range(len(a)) if a[d] != y[d]) if adds else ()
    return Loops(kept + summed, adds=adds)


def _shape_alone(ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Elements are not read: the shape is the model's, whatever part of the operand is there."""
    if len(ins) != 1:
        return NOTHING
    sets = tuple(frozenset({("in", 0, d)}) for d in range(len(ins[0])))
    return Loops(sets, untouched=frozenset(range(len(outs))), shape_only=True)


_TABLE: dict[str, Callable[[Sequence[Shape], Sequence[Shape]], Loops]] = {
    "MatMul": _product, "Gemm": _gemm, "Conv": _convolution, "Transpose": _permuted, "Concat": _joined,
    "Split": lambda ins, outs: _joined(ins, outs, split=True), "Gather": _picked,
    "Expand": lambda ins, outs: Loops(_broadcast(ins[:1], outs), local=True),
    "ReduceSum": lambda ins, outs: _reduced(ins, outs, adds=True),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin"), _reduced),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _same_elements),
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "MaxPool"), _each_channel),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _each_channel),
    **dict.fromkeys(("Shape", "Size"), _shape_alone),
}  # fmt: skip
