"""Compute sizes for elementwise operators: unary ones and those that broadcast."""

from __future__ import annotations

from proofs.readers.operators.sizes.call import (
    Call,
    Misfit,
    Shape,
    TensorSize,
    broadcast,
    broadcast_to,
    element_type,
    same_shape,
)
from tmmu.core.dtypes import BITS


def unary(call: Call) -> list[TensorSize]:
    """Return one result like operand 0."""
    return [call.size(0)]


def predicate(call: Call) -> list[TensorSize]:
    """Return one result of booleans, with the shape of operand 0."""
    return [TensorSize(call.shape(0), "bool")]


def together(call: Call) -> list[TensorSize]:
    """Return the size of operands of one type, broadcast together."""
    return [TensorSize(broadcast(*_shapes(call)), call.one_type())]


def two(call: Call) -> list[TensorSize]:
    """Return the size of two operands of one type, broadcast together."""
    _count(call, 2)
    return together(call)


def logical(call: Call) -> list[TensorSize]:
    """Return the size of two operands of booleans, broadcast together."""
    _count(call, 2)
    if call.one_type() != "bool":
        raise Misfit(f"its operands are {call.dtype(0)} and must be bool")
    return together(call)


def alike(call: Call) -> list[TensorSize]:
    """Return the size of operands of one type and shape: Max, Mean, Min and Sum before they broadcast."""
    shape = _shapes(call)[0]
    for other in call.present()[1:]:
        shape = same_shape(shape, other.shape, "operands")
    return [TensorSize(shape, call.one_type())]


def of_many(call: Call) -> list[TensorSize]:
    """Return the size of Max, Mean, Min and Sum: any number of operands, which broadcast since version 8."""
    return together(call) if call.since >= 8 else alike(call)


def comparison(call: Call) -> list[TensorSize]:
    """Return the size, as booleans, of two operands of one type, broadcast together."""
    return [TensorSize(two(call)[0].shape, "bool")]


def power(call: Call) -> list[TensorSize]:
    """Return the size of Pow: the result has the base's type. Before version 12 the exponent has the same type."""
    _count(call, 2)
    if call.since < 12:
        call.one_type()
    return [TensorSize(broadcast(call.shape(0), call.shape(1)), call.dtype(0))]


def slope(call: Call) -> list[TensorSize]:
    """Return the size of PRelu: the slope broadcasts to the operand and never stretches it."""
    call.one_type(0, 1)
    return [TensorSize(broadcast_to(call.shape(1), call.shape(0)), call.dtype(0))]


def swiglu(call: Call) -> list[TensorSize]:
    """Return the size of SwiGLU: two operands of one shape."""
    return [TensorSize(same_shape(call.shape(0), call.shape(1), "gate and value"), call.one_type(0, 1))]


def where(call: Call) -> list[TensorSize]:
    """Return the size of Where: a condition of booleans and two operands of one type, all broadcast together."""
    _count(call, 3)
    if call.dtype(0) != "bool":
        raise Misfit(f"its condition is {call.dtype(0)} and must be bool")
    return [TensorSize(broadcast(*_shapes(call)), call.one_type(1, 2))]


def cast(call: Call) -> list[TensorSize]:
    """Return the size of Cast: the type is an attribute."""
    to = call.attribute("to")
    if to is None:
        raise Misfit("it has no attribute 'to'")
    return [TensorSize(call.shape(0), element_type(to))]


def bit_cast(call: Call) -> list[TensorSize]:
    """Return the size of BitCast: another type of the same width."""
    found = cast(call)[0]
    if BITS[found.dtype] != BITS[call.dtype(0)]:
        raise Misfit(f"{found.dtype} has another width than {call.dtype(0)}")
    return [found]


def cast_like(call: Call) -> list[TensorSize]:
    """Return the size of CastLike: the type is operand 1's."""
    return [TensorSize(call.shape(0), call.dtype(1))]


def clip(call: Call) -> list[TensorSize]:
    """Return the size of Clip: bounds are scalars of the operand's type."""
    for k in (1, 2):
        if call.has(k):
            call.one_type(0, k)
            if call.shape(k) not in ((), (1,)):  # runtimes take a list of one as well
                raise Misfit(f"bound {k} is not a scalar")
    return [call.size(0)]


def dropout(call: Call) -> list[TensorSize]:
    """Return the sizes of Dropout: the mask has the operand's type before version 10, and booleans since."""
    return [call.size(0), TensorSize(call.shape(0), call.dtype(0) if call.since < 10 else "bool")]


def bernoulli(call: Call) -> list[TensorSize]:
    """Return the size of Bernoulli, RandomNormalLike, RandomUniformLike and EyeLike.

    They have the operand's type unless an attribute names one.
    """
    to = call.attribute("dtype")
    if call.node.op_type == "EyeLike":
        call.shape(0, 2)
    return [TensorSize(call.shape(0), call.dtype(0) if to is None else element_type(to))]


def has_element(call: Call) -> list[TensorSize]:
    """Return the size of OptionalHasElement: one boolean, even without an operand."""
    if len(call.operands) > 1:
        raise Misfit(f"it has {len(call.operands)} operands and takes one")
    return [TensorSize((), "bool")]


def _shapes(call: Call) -> list[Shape]:
    if not call.operands or None in call.operands:
        raise Misfit("an operand is missing")
    return [size.shape for size in call.present()]


def _count(call: Call, count: int) -> None:
    if len(call.operands) != count:
        raise Misfit(f"it has {len(call.operands)} operands and takes {count}")
