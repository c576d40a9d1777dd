"""Choose the relation of each operation, by the row of its operator, by the shard spec or as an optimizer step.

spec: R7.9, R7.10, R7.11
"""

from __future__ import annotations

from collections.abc import Sequence

from tmmu.operators import row_of
from tmmu.operators.relations import Labels, Relation, Shape


def whole_relation(reads: Sequence[Shape], writes: Sequence[Shape]) -> Relation:
    """Return the relation of an unknown operation: every dimension whole."""
    return Relation(tuple((None,) * len(s) for s in reads), tuple((None,) * len(s) for s in writes))


def relation(domain: str, op: str, reads: Sequence[Shape], writes: Sequence[Shape]) -> Relation:
    """Return the relation of a forward operation, from its operator and the shapes of its operands and results.

    >>> relation("", "MatMul", [(8, 4), (4, 6)], [(8, 6)])
    Relation(reads=((0, 2), (2, 1)), writes=((0, 1),), sums=True, pointwise=False, apart=False)
    """
    rule = row_of(domain, op).split if reads and writes else None
    return (None if rule is None else rule(list(reads), list(writes))) or whole_relation(reads, writes)


def relation_across(dims: Sequence[int], reads: Sequence[Shape], writes: Sequence[Shape]) -> Relation:
    """Return the relation of an operation that couples `dims` (counted from the last) and no other dimensions."""
    if not reads or not writes:
        return whole_relation(reads, writes)
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


def elementwise_relation(like: Shape, reads: Sequence[Shape], writes: Sequence[Shape]) -> Relation:
    """Return the relation of an optimizer step: tensors of the shape `like` are iterated together, others are whole."""
    labels = tuple(range(len(like)))
    rows = [tuple(labels if s == like else (None,) * len(s) for s in shapes) for shapes in (reads, writes)]
    return Relation(rows[0], rows[1], pointwise=True, apart=True)
