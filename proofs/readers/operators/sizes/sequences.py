"""Compute sizes for recurrent networks and attention: operands and results with heads, directions and states."""

from __future__ import annotations

from proofs.readers.operators.sizes.call import (
    Call,
    Misfit,
    Shape,
    TensorSize,
    equal_part,
    format_shape,
    same,
    same_shape,
)
from tmmu.core.dims.expressions import Dim

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(call: Call) -> list[TensorSize]:
    """Return the sizes of RNN, GRU and LSTM: all steps, the last hidden state, and for LSTM the last cell.

    Layout 1 has the batch first.
    """
    gates, dtype = GATES[call.node.op_type], call.dtype(0)
    batch_first = call.since >= 14 and call.attribute("layout", 0)
    length, batch, features = call.shape(0, 3)
    if batch_first:
        length, batch = batch, length
    stated = call.attribute("direction", "forward")
    if stated not in ("forward", "reverse", "bidirectional"):
        raise Misfit(f"direction {stated!r}")
    directions = 2 if stated == "bidirectional" else 1
    hidden = call.shape(2, 3)[2]
    if call.attribute("hidden_size") is not None:
        same(hidden, call.attribute("hidden_size"), "hidden_size and the recurrent weights")
    same_shape(call.shape(1), (directions, hidden * gates, features), "weights")
    same_shape(call.shape(2), (directions, hidden * gates, hidden), "recurrent weights")
    state: Shape = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    expected: dict[int, Shape] = {3: (directions, hidden * (2 * gates)), 4: (batch,), 5: state}
    if call.node.op_type == "LSTM":
        expected |= {6: state, 7: (directions, hidden * 3)}
    for k, shape in expected.items():
        if call.has(k):
            same_shape(call.shape(k), shape, f"operand {k}")
    steps = (batch, length, directions, hidden) if batch_first else (length, directions, batch, hidden)
    return [TensorSize(steps, dtype), TensorSize(state, dtype), TensorSize(state, dtype)]


def attention(call: Call) -> list[TensorSize]:
    """Return the sizes of Attention: operands with heads packed or separate, and keys and values of the past."""
    packed = len(call.shape(0)) == 3
    q_heads, kv_heads = (call.attribute(f"{which}_num_heads") for which in ("q", "kv"))
    if packed and not (q_heads and kv_heads):
        raise Misfit("the numbers of heads are missing")
    batch, heads, rows, inner = _apart(call, 0, packed, q_heads)
    *_, kv, length, depth = _apart(call, 1, packed, kv_heads)
    other, kv_of_values, length_of_values, width = _apart(call, 2, packed, kv_heads)
    same_shape((batch, kv, length), (other, kv_of_values, length_of_values), "keys and values")
    same(inner, depth, "queries and keys")
    if isinstance(heads, int) and isinstance(kv, int) and (not kv or heads % kv):
        raise Misfit(f"{heads} heads of queries for {kv} of keys")
    past: Dim = 0
    if call.has(4) != call.has(5):
        raise Misfit("keys and values of the past come together")
    if call.has(4):
        past = call.shape(4, 4)[2]
        same_shape(call.shape(4), (batch, kv, past, depth), "past keys")
        same_shape(call.shape(5), (batch, kv, past, width), "past values")
    total = past + length
    y: Shape = (batch, rows, heads * width) if packed else (batch, heads, rows, width)
    keys: Shape = (batch, kv, total, depth)
    values: Shape = (batch, kv, total, width)
    return [
        TensorSize(y, call.dtype(0)), TensorSize(keys, call.dtype(1)), TensorSize(values, call.dtype(2)),
        TensorSize((batch, heads, rows, total), call.dtype(0)),
    ]  # fmt: skip


def _apart(call: Call, k: int, packed: bool, heads: int | None) -> tuple[Dim, Dim, Dim, Dim]:
    """Return batch, heads, length and width of queries, keys or values."""
    if not packed:
        batch, found, length, width = call.shape(k, 4)
        return batch, found, length, width
    batch, length, hidden = call.shape(k, 3)
    return batch, heads or 1, length, equal_part(hidden, heads or 1, " heads")


def flex_attention(call: Call) -> list[TensorSize]:
    """Return the sizes of FlexAttention: four dimensions each. Its bodies keep shapes."""
    batch, heads, rows, inner = call.shape(0, 4)
    same(inner, call.shape(1, 4)[3], "queries and keys")
    same_shape(call.shape(1)[:3], call.shape(2, 4)[:3], "keys and values")
    return [TensorSize((batch, heads, rows, call.shape(2)[3]), call.dtype(0))]


def linear_attention(call: Call) -> list[TensorSize]:
    """Return the sizes of LinearAttention: heads are packed, and the state has a matrix for each head of keys."""
    heads, kv = call.attribute("q_num_heads"), call.attribute("kv_num_heads")
    if not heads or not kv or heads % kv:
        raise Misfit(f"{heads} heads of queries for {kv} of keys")
    batch, length, hidden = call.shape(0, 3)
    key, value = call.shape(1, 3), call.shape(2, 3)
    inner, width = equal_part(key[2], kv, " heads"), equal_part(value[2], kv, " heads")
    same_shape((*key[:2], *value[:2]), (batch, length, batch, length), "queries, keys and values")
    same(equal_part(hidden, heads, " heads"), inner, "queries and keys")
    state: Shape = (batch, kv, inner, width)
    if call.has(3):
        same_shape(call.shape(3), state, "the past state")
    return [
        TensorSize((batch, length, width * heads), call.dtype(0)),
        TensorSize(state, call.dtype(3 if call.has(3) else 0)),
    ]


def rotary(call: Call) -> list[TensorSize]:
    """Return the size of RotaryEmbedding: like the operand, of three or four dimensions."""
    if len(call.shape(0)) not in (3, 4) or (len(call.shape(0)) == 3 and not call.attribute("num_heads", 0)):
        raise Misfit(f"{format_shape(call.shape(0))} without a number of heads")
    same_shape(call.shape(1), call.shape(2), "cosines and sines")
    return [call.size(0)]
