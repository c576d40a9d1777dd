"""Operators that compute each element from the elements at the same place: functions, arithmetic, comparisons, casts.

Each reads an element of every operand before it writes the element of the result at that place, and never reads it
again, so a result may take the bytes of an operand if the plan permits it (T3). spec: MC4.3, MC4.6
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tmmu.core.dtypes import BITS
from tmmu.mico.kernels.functions import TEMPLATES
from tmmu.mico.kernels.node import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    SIGNED,
    UNSIGNED,
    WORDS,
    KernelCall,
    NodeCall,
    NoKernel,
    broadcast,
    number,
)

Rule = Callable[[NodeCall], list[KernelCall]]

UNARY: dict[str, tuple[str, tuple[tuple[str, float], ...]]] = {
    "Abs": ("fabs$f(x)", ()),
    "Acos": ("acos$f(x)", ()),
    "Acosh": ("acosh$f(x)", ()),
    "Asin": ("asin$f(x)", ()),
    "Asinh": ("asinh$f(x)", ()),
    "Atan": ("atan$f(x)", ()),
    "Atanh": ("atanh$f(x)", ()),
    "Ceil": ("ceil$f(x)", ()),
    "Celu": ("x > 0 ? x : alpha * expm1$f(x / alpha)", (("alpha", 1.0),)),
    "Cos": ("cos$f(x)", ()),
    "Cosh": ("cosh$f(x)", ()),
    "Elu": ("x > 0 ? x : alpha * expm1$f(x)", (("alpha", 1.0),)),
    "Erf": ("erf$f(x)", ()),
    "Exp": ("exp$f(x)", ()),
    "Floor": ("floor$f(x)", ()),
    "HardSigmoid": ("fmax$f(0, fmin$f(1, alpha * x + beta))", (("alpha", 0.2), ("beta", 0.5))),
    "HardSwish": ("x * fmax$f(0, fmin$f(1, x / 6 + 0.5$F))", ()),
    "LeakyRelu": ("x < 0 ? alpha * x : x", (("alpha", 0.01),)),
    "Log": ("log$f(x)", ()),
    "Mish": ("x * tanh$f(log1p$f(exp$f(-fabs$f(x))) + fmax$f(x, 0))", ()),
    "Neg": ("-x", ()),
    "Reciprocal": ("1 / x", ()),
    "Relu": ("x < 0 ? 0 : x", ()),
    "Round": ("rint$f(x)", ()),
    "Selu": (
        "gamma * (x > 0 ? x : alpha * expm1$f(x))",
        (("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)),
    ),
    "Shrink": ("x < -lambd ? x + bias : x > lambd ? x - bias : 0", (("bias", 0.0), ("lambd", 0.5))),
    "Sigmoid": ("1 / (1 + exp$f(-x))", ()),
    "Sign": ("x > 0 ? 1 : x < 0 ? -1 : x", ()),
    "Sin": ("sin$f(x)", ()),
    "Sinh": ("sinh$f(x)", ()),
    "Softplus": ("log1p$f(exp$f(-fabs$f(x))) + fmax$f(x, 0)", ()),
    "Softsign": ("x / (1 + fabs$f(x))", ()),
    "Sqrt": ("sqrt$f(x)", ()),
    "Swish": ("x / (1 + exp$f(-alpha * x))", (("alpha", 1.0),)),
    "Tan": ("tan$f(x)", ()),
    "Tanh": ("tanh$f(x)", ()),
    "ThresholdedRelu": ("x > alpha ? x : 0", (("alpha", 1.0),)),
}
"""Functions of floating-point elements, with their parameters and the defaults of these."""

GELU = {
    "gelu": "0.5$F * x * (1 + erf$f(x * 0.70710678118654752$F))",
    "gelu_tanh": "0.5$F * x * (1 + tanh$f(0.79788456080286536$F * (x + 0.044715$F * x * x * x)))",
}

UNARY_OF_INTEGERS = {
    "Abs": "x < 0 ? (uint64_t)0 - (uint64_t)x : (uint64_t)x",
    "Neg": "(uint64_t)0 - (uint64_t)x",
    "Relu": "x < 0 ? 0 : x",
    "Sign": "(x > 0) - (x < 0)",
}
"""Functions of signed integers, which wrap around."""

BINARY = {
    "Add": "a + b",
    "Div": "a / b",
    "Max": "a > b || a != a ? a : b",
    "Min": "a < b || a != a ? a : b",
    "Mul": "a * b",
    "PRelu": "a < 0 ? b * a : a",
    "Sub": "a - b",
}
"""Functions of two floating-point elements."""

BINARY_OF_INTEGERS = {
    "Add": "(uint64_t)a + (uint64_t)b",
    "BitwiseAnd": "a & b",
    "BitwiseOr": "a | b",
    "BitwiseXor": "a ^ b",
    "Max": "a > b ? a : b",
    "Min": "a < b ? a : b",
    "Mul": "(uint64_t)a * (uint64_t)b",
    "Sub": "(uint64_t)a - (uint64_t)b",
}
"""Functions of two integers, which wrap around; division by zero gives no trap."""

COMPARISONS = {
    "Equal": "a == b",
    "Greater": "a > b",
    "GreaterOrEqual": "a >= b",
    "Less": "a < b",
    "LessOrEqual": "a <= b",
}
LOGICAL = {"And": "a && b", "Or": "a || b", "Xor": "a != b"}


def snake(op: str) -> str:
    """Convert the name of an operator to that of a C function.

    >>> snake("GlobalAveragePool"), snake("PRelu"), snake("LRN")
    ('global_average_pool', 'prelu', 'lrn')
    """
    text = ""
    for k, letter in enumerate(op):
        if letter.isupper() and k > 1 and (op[k - 1].islower() or op[k + 1 : k + 2].islower()):
            text += "_"
        text += letter.lower()
    return text


def _define_unary(name: str, expression: str, parameters: tuple[str, ...] = (), result: str = "") -> None:
    """Define a function of one operand; `result` is empty if its type is that of the operand."""
    given = "".join(f", $T {each}" for each in parameters)
    target, made = (f"$s{result}", f"($T{result})({expression})") if not result else ("bool", expression)
    TEMPLATES[name] = f"""\
void $name(uint8_t *y, const uint8_t *operand, size_t count{given})
{{
    for (size_t i = 0; i < count; i++) {{
        $T x = load_$s(operand, i);
        store_{target}(y, i, {made});
    }}
}}
"""


def _define_binary(name: str, expression: str, result: str = "$s", b: str = "") -> None:
    """Define a function of two operands that are broadcast; `b` numbers the type of the second."""
    made = expression if result == "bool" else f"($T)({expression})"
    TEMPLATES[name] = f"""\
void $name(uint8_t *y, const uint8_t *left, const uint8_t *right, size_t rank, const size_t *shape,
    const size_t *left_steps, const size_t *right_steps)
{{
    size_t rows = product(rank - 1, shape), width = shape[rank - 1];
    for (size_t row = 0; row < rows; row++) {{
        size_t at_left = place(row, rank - 1, shape, left_steps);
        size_t at_right = place(row, rank - 1, shape, right_steps);
        for (size_t k = 0; k < width; k++) {{
            $T a = load_$s(left, at_left + k * left_steps[rank - 1]);
            $T{b} b = load_$s{b}(right, at_right + k * right_steps[rank - 1]);
            store_{result}(y, row * width + k, {made});
        }}
    }}
}}
"""


for _op, (_expression, _parameters) in UNARY.items():
    _define_unary(snake(_op), _expression, tuple(name for name, _ in _parameters))
for _name, _expression in GELU.items():
    _define_unary(_name, _expression)
for _op, _expression in UNARY_OF_INTEGERS.items():
    _define_unary(f"{snake(_op)}_integer", _expression)
_define_unary("bitwise_not", "~x")
_define_unary("not", "!x")
_define_unary("is_nan", "x != x", result="bool")
TEMPLATES["is_inf"] = """\
void $name(uint8_t *y, const uint8_t *operand, size_t count, bool negative, bool positive)
{
    for (size_t i = 0; i < count; i++) {
        $T x = load_$s(operand, i);
        store_bool(y, i, isinf(x) && (x < 0 ? negative : positive));
    }
}
"""
for _op, _expression in BINARY.items():
    _define_binary(snake(_op), _expression)
for _op, _expression in BINARY_OF_INTEGERS.items():
    _define_binary(f"{snake(_op)}_integer", _expression)
_define_binary("div_integer", "b == 0 ? 0 : b < 0 && b + 1 == 0 ? (uint64_t)0 - (uint64_t)a : (uint64_t)(a / b)")
_define_binary("prelu_integer", "a < 0 ? (uint64_t)a * (uint64_t)b : (uint64_t)a")
_define_binary("div_unsigned", "b == 0 ? 0 : a / b")
_define_binary("mod", "fmod$f(a, b)")
_define_binary("mod_integer", "b == 0 || (b < 0 && b + 1 == 0) ? 0 : a % b")
_define_binary(
    "mod_floor", "b == 0 || (b < 0 && b + 1 == 0) ? 0 : a % b != 0 && (a < 0) != (b < 0) ? a % b + b : a % b"
)
_define_binary("mod_unsigned", "b == 0 ? 0 : a % b")
_define_binary("pow", "pow$f(a, ($T)b)", b="2")
_define_binary("pow_integer", "power((uint64_t)a, (int64_t)b)", b="2")
_define_binary("bit_shift_left", "b < 8 * sizeof a ? (uint64_t)a << b : 0")
_define_binary("bit_shift_right", "b < 8 * sizeof a ? a >> b : 0")
for _op, _expression in (COMPARISONS | LOGICAL).items():
    _define_binary(snake(_op), _expression, "bool")
TEMPLATES["mean_of"] = """\
void $name(uint8_t *y, size_t count, size_t summands)
{
    for (size_t i = 0; i < count; i++) {
        store_$s(y, i, load_$s(y, i) / ($T)summands);
    }
}
"""
TEMPLATES["clip"] = """\
/* A limit that is NULL is absent. */
void $name(uint8_t *y, const uint8_t *operand, size_t count, const uint8_t *low, const uint8_t *high)
{
    for (size_t i = 0; i < count; i++) {
        $T x = load_$s(operand, i);
        x = low != NULL && x < load_$s(low, 0) ? load_$s(low, 0) : x;
        x = high != NULL && x > load_$s(high, 0) ? load_$s(high, 0) : x;
        store_$s(y, i, x);
    }
}
"""
TEMPLATES["where"] = """\
void $name(uint8_t *y, const uint8_t *condition, const uint8_t *yes, const uint8_t *no, size_t rank,
    const size_t *shape, const size_t *condition_steps, const size_t *yes_steps, const size_t *no_steps)
{
    size_t count = product(rank, shape);
    for (size_t i = 0; i < count; i++) {
        bool chosen = load_bool(condition, place(i, rank, shape, condition_steps));
        size_t at = place(i, rank, shape, chosen ? yes_steps : no_steps);
        store_$s(y, i, load_$s(chosen ? yes : no, at));
    }
}
"""
TEMPLATES["cast"] = """\
void $name(uint8_t *y, const uint8_t *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        store_$s2(y, i, ($T2)load_$s(x, i));
    }
}
"""
TEMPLATES["cast_to_integer"] = """\
/* A value out of range becomes the nearest integer in range, and NaN becomes 0. */
void $name(uint8_t *y, const uint8_t *x, size_t count, double low, double high, $T2 least, $T2 most)
{
    for (size_t i = 0; i < count; i++) {
        double value = (double)load_$s(x, i);
        store_$s2(y, i, value <= low ? least : value >= high ? most : value == value ? ($T2)value : 0);
    }
}
"""


def _count(node: NodeCall) -> str:
    return str(node.y.count)


def unary(node: NodeCall) -> list[KernelCall]:
    """Return the call of a function of each element."""
    x, name = node.x, snake(node.op)
    if x.dtype in SIGNED and node.op in UNARY_OF_INTEGERS:
        return [KernelCall(f"{name}_integer", (x.dtype,), (node.y.code, x.code, _count(node)))]
    if node.op == "Abs" and x.dtype in INTEGERS:
        return call_copy(node)
    parameters = (number(node.get(each, default), x.dtype) for each, default in UNARY[node.op][1])
    types = (node.of_type(x, FLOATS),)
    return [KernelCall(name, types, (node.y.code, x.code, _count(node), *parameters))]


def call_copy(node: NodeCall, operand: int = 0, result: int = 0) -> list[KernelCall]:
    """Return the copy of the bytes of an operand to a result; none if the plan places both at one place. spec: MC3.5"""
    x, y = node.needed(operand), node.result(result)
    if y is None or x.code == y.code:
        return []
    return [KernelCall("memcpy", (), (y.code, x.code, str((x.count * BITS[x.dtype] + 7) // 8)))]


def gelu(node: NodeCall) -> list[KernelCall]:
    """Return the call of Gelu, exact or by tanh."""
    name = "gelu_tanh" if node.get("approximate", "none") == "tanh" else "gelu"
    return [KernelCall(name, (node.of_type(node.x, FLOATS),), (node.y.code, node.x.code, _count(node)))]


def bits_inverted(node: NodeCall) -> list[KernelCall]:
    """Return the call of BitwiseNot or Not."""
    types = ("bool",) if node.op == "Not" else INTEGERS
    return [KernelCall(snake(node.op), (node.of_type(node.x, types),), (node.y.code, node.x.code, _count(node)))]


def is_nan(node: NodeCall) -> list[KernelCall]:
    """Return the call of IsNaN."""
    return [KernelCall("is_nan", (node.of_type(node.x, FLOATS),), (node.y.code, node.x.code, _count(node)))]


def is_inf(node: NodeCall) -> list[KernelCall]:
    """Return the call of IsInf, of either sign or one."""
    signs = (str(node.get(f"detect_{sign}", 1)) for sign in ("negative", "positive"))
    return [KernelCall("is_inf", (node.of_type(node.x, FLOATS),), (node.y.code, node.x.code, _count(node), *signs))]


def binary(node: NodeCall) -> list[KernelCall]:
    """Return the call of an operator of two elements, whose operands are broadcast."""
    a, b = node.x, node.needed(1)
    return [
        KernelCall(_binary_name(node, a.dtype), (node.of_type(a, NUMBERS),), _binary_arguments(node, a.code, b.code))
    ]


def _binary_arguments(node: NodeCall, a: str, b: str) -> tuple[str, ...]:
    return (node.y.code, a, b, *broadcast(node.y.shape, node.x, node.needed(1)))


def _binary_name(node: NodeCall, dtype: str) -> str:
    name = snake(node.op)
    if dtype in FLOATS:
        return name
    if dtype in UNSIGNED:
        if node.op == "PRelu":
            node.of_type(node.x, SIGNED)
        return f"{name}_unsigned" if node.op in ("Div", "Mod") else f"{name}_integer"
    return f"{name}_floor" if node.op == "Mod" and not node.get("fmod", 0) else f"{name}_integer"


def bitwise(node: NodeCall) -> list[KernelCall]:
    """Return the call of an operator of the bits of two integers."""
    node.of_type(node.x, INTEGERS)
    return binary(node)


def call_shift(node: NodeCall) -> list[KernelCall]:
    """Return the call of BitShift."""
    name = f"bit_shift_{str(node.get('direction')).lower()}"
    types = (node.of_type(node.x, UNSIGNED),)
    return [KernelCall(name, types, _binary_arguments(node, node.x.code, node.needed(1).code))]


def power(node: NodeCall) -> list[KernelCall]:
    """Return the call of Pow, whose exponents may have another type."""
    types = node.of_type(node.x, NUMBERS), node.of_type(node.needed(1), NUMBERS)
    if node.x.dtype in FLOATS:
        name = "pow"
    else:
        name = "pow_integer"
        node.of_type(node.needed(1), INTEGERS)
    return [KernelCall(name, types, _binary_arguments(node, node.x.code, node.needed(1).code))]


def call_comparison(node: NodeCall) -> list[KernelCall]:
    """Return the call of a comparison or a logical operator."""
    types = ("bool",) if node.op in LOGICAL else (*NUMBERS, "bool")
    arguments = _binary_arguments(node, node.x.code, node.needed(1).code)
    return [KernelCall(snake(node.op), (node.of_type(node.x, types),), arguments)]


def call_fold(node: NodeCall) -> list[KernelCall]:
    """Return the calls of Max, Min, Sum or Mean, which fold the operands into the result one after the other."""
    y, op = node.y, {"Sum": "Add", "Mean": "Add"}.get(node.op, node.op)
    operands = [node.needed(k) for k in range(len(node.operands))]
    types = (node.of_type(y, FLOATS if node.op == "Mean" else NUMBERS),)
    if len(operands) == 1:
        return call_copy(node)
    name = snake(op) if y.dtype in FLOATS else f"{snake(op)}_integer"
    calls, before = [], operands[0]
    for operand in operands[1:]:
        if before is not operands[0] and operand.code == y.code:
            raise NoKernel("its result takes the bytes of an operand that is read after the first write")
        arguments = (y.code, before.code, operand.code, *broadcast(y.shape, before, operand))
        calls.append(KernelCall(name, types, arguments))
        before = y
    if node.op == "Mean":
        calls.append(KernelCall("mean_of", types, (y.code, str(y.count), str(len(operands)))))
    return calls


def clip(node: NodeCall) -> list[KernelCall]:
    """Return the call of Clip, whose limits are operands or (before opset 11) attributes."""
    x = node.x
    types = (node.of_type(x, NUMBERS),)
    limits = []
    for k, name in ((1, "min"), (2, "max")):
        operand, stated = node.operand(k), node.get(name)
        if operand is not None:
            limits.append(operand.code)
        elif stated is not None:
            node.of_type(x, ("float32",))
            limits.append(node.literal(np.array([stated], np.float32)))
        else:
            limits.append("NULL")
    return [KernelCall("clip", types, (node.y.code, x.code, _count(node), *limits))]


def where(node: NodeCall) -> list[KernelCall]:
    """Return the call of Where, which moves elements as words of their width."""
    operands = [node.needed(k) for k in range(3)]
    return [
        KernelCall(
            "where", (word(node.y.dtype),),
            (node.y.code, *(each.code for each in operands), *broadcast(node.y.shape, *operands)),
        )
    ]  # fmt: skip


def word(dtype: str) -> str:
    """Return the type as which elements are moved. Raises NoKernel if there is none of their width."""
    if BITS[dtype] not in WORDS:
        raise NoKernel(f"it has no kernel for {dtype}")
    return WORDS[BITS[dtype]]


def cast(node: NodeCall) -> list[KernelCall]:
    """Return the call of Cast or CastLike."""
    x, y = node.x, node.y
    types = (node.of_type(x, (*NUMBERS, "bool")), node.of_type(y, (*NUMBERS, "bool")))
    if x.dtype == y.dtype:
        return call_copy(node)
    if x.dtype in FLOATS and y.dtype in INTEGERS:
        bits, signed = BITS[y.dtype], y.dtype in SIGNED
        low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
        least = f"INT{bits}_MIN" if signed else "0"
        most = f"{'' if signed else 'U'}INT{bits}_MAX"
        arguments = (y.code, x.code, str(y.count), repr(low), repr(high), least, most)
        return [KernelCall("cast_to_integer", types, arguments)]
    return [KernelCall("cast", types, (y.code, x.code, str(y.count)))]


def dropout(node: NodeCall) -> list[KernelCall]:
    """Return the calls of Dropout at inference: a view or a copy, and a mask that is true everywhere."""
    training = node.operand(2)
    if training is not None:
        value = training.value()
        if value is None or bool(np.asarray(value).any()):
            raise NoKernel("it may drop elements")
    mask = node.result(1)
    calls = call_copy(node)
    return [*calls, KernelCall("memset", (), (mask.code, "1", str(mask.count)))] if mask is not None else calls


RULES: dict[str, Rule] = {
    **dict.fromkeys(UNARY, unary),
    "Gelu": gelu,
    "BitwiseNot": bits_inverted,
    "Not": bits_inverted,
    "IsNaN": is_nan,
    "IsInf": is_inf,
    **dict.fromkeys(("Add", "Div", "Mod", "Mul", "PRelu", "Sub"), binary),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), bitwise),
    "BitShift": call_shift,
    "Pow": power,
    **dict.fromkeys((*COMPARISONS, *LOGICAL), call_comparison),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), call_fold),
    "Clip": clip,
    "Where": where,
    "Cast": cast,
    "CastLike": cast,
    "Dropout": dropout,
    **dict.fromkeys(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"), call_copy),
}
