"""Compute sizes for products of matrices and tensors: MatMul, Gemm, Einsum and their quantized forms."""

from __future__ import annotations

import re
from collections import Counter

from proofs.readers.operators.sizes.call import (
    Call,
    Misfit,
    Shape,
    TensorSize,
    broadcast,
    broadcast_dimensions,
    broadcast_to,
    format_shape,
    same,
)
from tmmu.core.dims.expressions import Dim


def matmul_shape(a: Shape, b: Shape) -> Shape:
    """Return the shape of numpy.matmul.

    Batch dimensions broadcast. A vector is a row on the left and a column on the right.
    """
    if not a or not b:
        raise Misfit("a scalar has no matrix product")
    left: Shape = (1, *a) if len(a) == 1 else a
    right: Shape = (*b, 1) if len(b) == 1 else b
    same(left[-1], right[-2], f"inner dimensions of {format_shape(a)} and {format_shape(b)}")
    rows: Shape = left[-2:-1] if len(a) > 1 else ()
    columns: Shape = right[-1:] if len(b) > 1 else ()
    return (*broadcast(left[:-2], right[:-2]), *rows, *columns)


def matmul(call: Call) -> list[TensorSize]:
    """Return the size of MatMul: operands of one type."""
    return [TensorSize(matmul_shape(call.shape(0), call.shape(1)), call.one_type(0, 1))]


def matmul_integer(call: Call) -> list[TensorSize]:
    """Return the size of MatMulInteger: 32-bit integers."""
    return [TensorSize(matmul_shape(call.shape(0), call.shape(1)), "int32")]


def qlinear_matmul(call: Call) -> list[TensorSize]:
    """Return the size of QLinearMatMul: operands with scales and zero points. The type is the result's zero point's."""
    return [TensorSize(matmul_shape(call.shape(0), call.shape(3)), call.dtype(7))]


def gemm(call: Call) -> list[TensorSize]:
    """Return the size of Gemm: two matrices, either transposed, and a summand that broadcasts to their product."""
    a, b = call.shape(0, 2), call.shape(1, 2)
    m, k = (a[1], a[0]) if call.attribute("transA", 0) else a
    inner, n = (b[1], b[0]) if call.attribute("transB", 0) else b
    same(k, inner, f"inner dimensions of {format_shape(a)} and {format_shape(b)}")
    if call.has(2):
        broadcast_to(call.shape(2), (m, n))
    elif call.since < 11:
        raise Misfit("operand 2 is missing")
    return [TensorSize((m, n), call.one_type())]


def einsum(call: Call) -> list[TensorSize]:
    """Return the size of Einsum: a letter is one dimension at all its places, 1 stretched; an ellipsis broadcasts."""
    equation = call.attribute("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(call.operands) or not all(map(_is_term, [*terms, right])):
        raise Misfit(f"equation {equation!r} for {len(call.operands)} operands")
    letters: dict[str, list[Dim]] = {}
    dots: list[Shape] = []
    for k, term in enumerate(terms):
        shape, (before, ellipsis, after) = call.shape(k), term.partition("...")
        count = len(before) + len(after)
        if len(shape) < count or (not ellipsis and len(shape) > count):
            raise Misfit(f"term {term!r} for {format_shape(shape)}")
        end = len(shape) - len(after)
        if ellipsis:
            dots.append(shape[len(before) : end])
        for letter, dim in zip(before + after, (*shape[: len(before)], *shape[end:]), strict=True):
            letters.setdefault(letter, []).append(dim)
    if len({len(each) for each in dots}) > 1:
        raise Misfit(f"ellipses of equation {equation!r} have different ranks")
    if not arrow:
        counts = Counter(left.replace("...", "").replace(",", ""))
        right = ("..." if dots else "") + "".join(sorted(each for each, times in counts.items() if times == 1))
    found = {letter: broadcast_dimensions(dims, [tuple(dims)]) for letter, dims in letters.items()}
    before, ellipsis, after = right.partition("...")
    if not set(before + after) <= found.keys() or len(set(before + after)) < len(before + after):
        raise Misfit(f"result {right!r} of equation {equation!r}")
    around = broadcast(*dots) if dots else ()
    middle: Shape = around if ellipsis else ()
    return [TensorSize((*(found[x] for x in before), *middle, *(found[x] for x in after)), call.one_type())]


def _is_term(term: str) -> bool:
    return re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", term) is not None
