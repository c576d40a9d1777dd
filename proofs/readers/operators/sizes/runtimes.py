"""Compute sizes for operators of onnxruntime (`com.microsoft`), by their documentation. Open results have no rule."""

from __future__ import annotations

from proofs.readers.operators.sizes.call import (
    Call,
    Misfit,
    NotKnown,
    Shape,
    TensorSize,
    broadcast,
    equal_part,
    format_shape,
)
from proofs.readers.operators.sizes.products import matmul_shape
from tmmu.core.dims.operations import maximum_of


def _alone(call: Call, found: TensorSize, at_most: int = 1) -> list[TensorSize]:
    """Return the first result, if no other is requested."""
    if call.results > at_most and any(call.node.output[at_most:]):
        raise NotKnown("its further results have no rule")
    return [found]


def like(call: Call) -> list[TensorSize]:
    """Return the size of Gelu and its kin: like the operand."""
    return [call.size(0)]


def norm(call: Call) -> list[TensorSize]:
    """Return the size of SimplifiedLayerNormalization: like the operand. Results for training have no rule."""
    return _alone(call, call.size(0))


def skip_norm(call: Call) -> list[TensorSize]:
    """Return the sizes of SkipLayerNormalization: like the operand, and the same for the sum, the fourth result."""
    if any(call.node.output[1:3]):
        raise NotKnown("mean and deviation have no rule")
    return [call.size(0)] * call.results


def fused_product(call: Call) -> list[TensorSize]:
    """Return the size of FusedMatMul: a product of matrices, each turned as four attributes state.

    With transBatch the first dimension becomes the rows, behind the batches; trans then swaps rows and columns.
    """
    sides = [call.shape(0), call.shape(1)]
    for k, side in enumerate("AB"):
        if len(sides[k]) > 1 and call.attribute(f"transBatch{side}", 0):
            first, *batches, columns = sides[k]
            sides[k] = (*batches, first, columns)
        if len(sides[k]) > 1 and call.attribute(f"trans{side}", 0):
            *batches, rows, columns = sides[k]
            sides[k] = (*batches, columns, rows)
    return [TensorSize(_product(sides[0], sides[1]), call.dtype(0))]


def quantized_product(call: Call) -> list[TensorSize]:
    """Return the size of DynamicQuantizeMatMul and MatMulIntegerToFloat: a product of matrices, as floats."""
    return [TensorSize(_product(call.shape(0), call.shape(1)), "float32")]


def _product(a: Shape, b: Shape) -> Shape:
    if len(a) < 2 or len(b) < 2:
        raise Misfit(f"{format_shape(a)} and {format_shape(b)} are not matrices")
    return matmul_shape(a, b)


def packed_product(call: Call) -> list[TensorSize]:
    """Return the size of MatMulNBits: the last dimension becomes N."""
    count = call.attribute("N")
    if type(count) is not int or count < 1 or not call.shape(0):
        raise Misfit("it has no N")
    return [TensorSize((*call.shape(0)[:-1], count), call.dtype(0))]


def both(call: Call) -> list[TensorSize]:
    """Return the size of QLinearAdd and QLinearMul: operands 0 and 3 broadcast."""
    return [TensorSize(broadcast(call.shape(0), call.shape(3)), call.dtype(0))]


def attention(call: Call) -> list[TensorSize]:
    """Return the size of Attention: as wide as the values, by default a third of the weights."""
    batch, length, _ = call.shape(0, 3)
    sizes = call.attribute("qkv_hidden_sizes", [])
    width = sizes[2] if len(sizes) == 3 else equal_part(call.shape(1, 2)[1], 3)
    return _alone(call, TensorSize((batch, length, width), call.dtype(0)))


def many_heads(call: Call) -> list[TensorSize]:
    """Return the size of MultiHeadAttention: the length of the queries and the width of the values."""
    if len(call.shape(0)) != 3 or not call.has(2) or len(call.shape(2)) != 3:
        raise NotKnown("its operands are packed")
    batch, length, _ = call.shape(0)
    return _alone(call, TensorSize((batch, length, call.shape(2)[2]), call.dtype(0)))


def grouped_heads(call: Call) -> list[TensorSize]:
    """Return the sizes of GroupQueryAttention: like the queries, and caches as long as the past ones or all tokens.

    Queries that hold keys and values too have `num_heads + 2 * kv_num_heads` heads.
    """
    heads, groups = call.attribute("num_heads"), call.attribute("kv_num_heads")
    if any(type(count) is not int or count < 1 for count in (heads, groups)):
        raise Misfit("it has no num_heads or no kv_num_heads")
    batch, length, width = call.shape(0, 3)
    wide = equal_part(width, heads if call.has(1) else heads + 2 * groups)
    found = [TensorSize((batch, length, wide * heads), call.dtype(0))]
    if not any(call.node.output[1:]):
        return found
    if any(call.node.output[3:]):
        raise NotKnown("its fourth result has no rule")
    if not call.has(3):
        return [*found, *[TensorSize((batch, groups, length, wide), call.dtype(0))] * 2]
    all_tokens, caches = call.number(6), [(call.shape(k, 4), call.dtype(k)) for k in (3, 4)]
    return found + [
        TensorSize((past[0], past[1], maximum_of(past[2], all_tokens), past[3]), kind) for past, kind in caches
    ]


def embedding(call: Call) -> list[TensorSize]:
    """Return the sizes of EmbedLayerNormalization.

    They are a row of the word table for each token, a number for each text, and the sum.
    """
    batch, length = call.shape(0, 2)
    own = TensorSize((batch, length, call.shape(2, 2)[1]), call.dtype(2))
    return [own, TensorSize((batch,), "int32"), own]


def lstm(call: Call) -> list[TensorSize]:
    """Return the sizes of DynamicQuantizeLSTM: as LSTM, of one layout."""
    steps, batch, _ = call.shape(0, 3)
    width, ways = call.attribute("hidden_size"), 1 + (call.attribute("direction", "forward") == "bidirectional")
    if type(width) is not int or width < 1:
        raise Misfit("it has no hidden_size")
    last = TensorSize((ways, batch, width), call.dtype(0))
    return [TensorSize((steps, ways, batch, width), call.dtype(0)), last, last]


def quantize(call: Call) -> list[TensorSize]:
    """Return the size of QuantizeLinear: the zero point's type."""
    return [TensorSize(call.shape(0), call.dtype(2) if call.has(2) else "uint8")]


def dequantize(call: Call) -> list[TensorSize]:
    """Return the size of DequantizeLinear: the scale's type."""
    return [TensorSize(call.shape(0), call.dtype(1))]
