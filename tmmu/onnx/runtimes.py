"""Rules for operators whose sizes ONNX's inference does not give: classical machine learning, and onnxruntime.

Each rule computes the sizes of the results that its docstring states, from the sizes of the operands and from
attributes; a size that it leaves open is None. Operands that do not fit raise `Unfit`. spec: T10.15
"""

from __future__ import annotations

from collections.abc import Callable

from tmmu.core.dims.expressions import Dim
from tmmu.core.dims.operations import divide_exactly, maximum_of
from tmmu.onnx.rules import NodeFacts, Shape, Unfit, broadcast
from tmmu.onnx.sizes import Size

Found = list[Size | None]
SizeRule = Callable[[NodeFacts], Found]
"""A rule that returns the sizes of the outputs in order, None for one that it leaves open."""


def dtype_of(facts: NodeFacts, k: int) -> str:
    """Return the element type of an operand."""
    return facts.sizes[facts.node.input[k]][1]


def like(facts: NodeFacts) -> Found:
    """Return the size of the first operand."""
    return [(facts.shape(0), dtype_of(facts, 0))]


def floats(facts: NodeFacts) -> Found:
    """Return the shape of the first operand, with elements of float32."""
    return [(facts.shape(0), "float32")]


def require_rank(facts: NodeFacts, k: int, rank: int) -> Shape:
    """Return the shape of an operand of this rank. Raises `Unfit` for another."""
    shape = facts.shape(k)
    if len(shape) != rank:
        raise Unfit(f"expected {rank} dimensions of operand {k}, got {len(shape)}")
    return shape


def targets(facts: NodeFacts) -> Found:
    """Return the size of a number for each target and row."""
    name = "targets" if facts.node.op_type == "LinearRegressor" else "n_targets"
    kept = facts.node.op_type == "TreeEnsemble"
    return [((require_rank(facts, 0, 2)[0], facts.attribute(name, 1)), dtype_of(facts, 0) if kept else "float32")]


def classes(facts: NodeFacts) -> Found:
    """Return the sizes of a label and of a score for each class; only trees always score each class."""
    rows = require_rank(facts, 0, 2)[0]
    numbers, texts = facts.attribute("classlabels_int64s", []), facts.attribute("classlabels_strings", [])
    if bool(numbers) == bool(texts):
        return [None, None]
    return [((rows,), "int64") if numbers else None, ((rows, len(numbers or texts)), "float32")]


def array_feature_extractor(facts: NodeFacts) -> Found:
    """Return the size of the features of each row that the indices name."""
    count: Dim = 1
    for dim in facts.shape(1):
        count = count * dim
    if not facts.shape(0):
        raise Unfit("a scalar has no features")
    return [((*(facts.shape(0)[:-1] or (1,)), count), dtype_of(facts, 0))]  # a vector is a matrix of one row


def feature_vectorizer(facts: NodeFacts) -> Found:
    """Return the size of matrices side by side."""
    shapes: list[Shape] = [shape if len(shape) == 2 else (1, *shape) for shape in facts.shapes()]
    if not shapes or any(len(shape) != 2 or shape[0] != shapes[0][0] for shape in shapes):
        raise Unfit("its operands are not matrices with the same number of rows")
    width: Dim = 0
    for shape in shapes:
        width = width + shape[1]
    return [((shapes[0][0], width), "float32")]


def skip_normalization(facts: NodeFacts) -> Found:
    """Return the size of a normalized sum, with that of the sum of the operands as the last of four results.

    The second and the third result, mean and deviation of each row, are only for training.
    """
    own: Size = (facts.shape(0), dtype_of(facts, 0))
    return [own, None, None, own]


def _multiply_shapes(a: Shape, b: Shape) -> Shape:
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise Unfit(f"{list(a)} and {list(b)} have no product")
    return (*broadcast(a[:-2], b[:-2]), a[-2], b[-1])


def fused_product(facts: NodeFacts) -> Found:
    """Return the size of a product of matrices, each of which attributes may turn.

    The first dimension of one with `transBatch` goes behind its batches; the last two of one with `trans` are swapped.
    """
    turned: list[Shape] = []
    for k, name in enumerate("AB"):
        shape = facts.shape(k)
        if facts.attribute(f"transBatch{name}", 0):
            shape = (*shape[1:-1], shape[0], shape[-1])
        turned.append((*shape[:-2], shape[-1], shape[-2]) if facts.attribute(f"trans{name}", 0) else shape)
    return [(_multiply_shapes(turned[0], turned[1]), dtype_of(facts, 0))]


def quantized_product(facts: NodeFacts) -> Found:
    """Return the size of a product of matrices, as floats."""
    return [(_multiply_shapes(facts.shape(0), facts.shape(1)), "float32")]


def packed_product(facts: NodeFacts) -> Found:
    """Return the size of a product with packed weights of N columns."""
    return [((*facts.shape(0)[:-1], facts.attribute("N")), dtype_of(facts, 0))]


def both(facts: NodeFacts) -> Found:
    """Return the size of operands 0 and 3 broadcast together."""
    return [(broadcast(facts.shape(0), facts.shape(3)), dtype_of(facts, 0))]


def attention(facts: NodeFacts) -> Found:
    """Return the size of attention, whose width is that of the values: a third of the weights unless stated."""
    batch, length, _ = require_rank(facts, 0, 3)
    sizes = facts.attribute("qkv_hidden_sizes", [])
    width = sizes[2] if len(sizes) == 3 else divide_exactly(require_rank(facts, 1, 2)[1], 3)
    return [None if width is None else ((batch, length, width), dtype_of(facts, 0)), None]


def attention_of_many(facts: NodeFacts) -> Found:
    """Return the size of attention, with the length of the queries and the width of the values."""
    if not facts.has(2) or len(facts.shape(0)) != 3 or len(facts.shape(2)) != 3:
        return [None, None, None]
    batch, length, _ = facts.shape(0)
    return [((batch, length, facts.shape(2)[2]), dtype_of(facts, 0)), None, None]


def attention_of_groups(facts: NodeFacts) -> Found:
    """Return the size of the queries, and of caches of the past ones or of all tokens, the longer of the two.

    Without operand 1 the queries hold keys and values too. If the number of tokens is not known, the caches are open.
    """
    heads, groups = facts.attribute("num_heads"), facts.attribute("kv_num_heads")
    if type(heads) is not int or type(groups) is not int or min(heads, groups) < 1:
        raise Unfit("it has no num_heads or no kv_num_heads")
    batch, length, width = require_rank(facts, 0, 3)
    wide = divide_exactly(width, heads if facts.has(1) else heads + 2 * groups)
    if wide is None:
        return [None] * len(facts.node.output)
    found: Found = [((batch, length, wide * heads), dtype_of(facts, 0))]
    if not facts.has(3):
        own: Size = ((batch, groups, length, wide), dtype_of(facts, 0))
        return [*found, own, own, None]
    tokens = facts.numbers(6)
    for k in (3, 4):
        past = require_rank(facts, k, 4)
        longest = (*past[:2], maximum_of(past[2], tokens[0]), past[3]) if tokens and len(tokens) == 1 else None
        found.append(None if longest is None else (longest, dtype_of(facts, k)))
    return [*found, None]


def embedding(facts: NodeFacts) -> Found:
    """Return the sizes of a row of the table for each token, of a number for each text, and of the sum."""
    batch, length = require_rank(facts, 0, 2)
    own: Size = ((batch, length, require_rank(facts, 2, 2)[1]), dtype_of(facts, 2))
    return [own, ((batch,), "int32"), own]


def recurrent(facts: NodeFacts) -> Found:
    """Return the sizes of all steps, of the last hidden state and of the last cell."""
    steps, batch, _ = require_rank(facts, 0, 3)
    ways = 2 if facts.attribute("direction", b"forward") == b"bidirectional" else 1
    width, kind = facts.attribute("hidden_size"), dtype_of(facts, 0)
    if type(width) is not int or width < 1:
        raise Unfit("it has no hidden_size")
    last: Size = ((ways, batch, width), kind)
    return [((steps, ways, batch, width), kind), last, last]


def quantize_like(facts: NodeFacts) -> Found:
    """Return the shape of the first operand, with the type of the zero point."""
    return [(facts.shape(0), dtype_of(facts, 2) if facts.has(2) else "uint8")]


def dequantize_like(facts: NodeFacts) -> Found:
    """Return the shape of the first operand, with the type of the scale."""
    return [(facts.shape(0), dtype_of(facts, 1))]
