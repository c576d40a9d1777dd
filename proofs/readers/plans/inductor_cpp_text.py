"""The words of kernels in C++ as Inductor writes them: tokens, known names, brackets, and index expressions.

spec: FP8.13
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from proofs.readers.plans.hlo_index import Linear
from proofs.readers.plans.inductor_access import UnreadError, floor_divided, multiply, unknown_number

KERNEL = re.compile(r'extern\s+"C"\s+(?:__declspec\(dllexport\)\s+|TORCH_API\s+)?void\s+(\w+)\s*\(([^()]*)\)\s*', re.A)
TOKEN = re.compile(
    r"""(?P<name>[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)*)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*)"""
    r"""|(?P<text>"[^"\n]*")|(?P<line>\n)|(?P<sign>::|<<=|>>=|\+\+|--|->|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])""",
    re.ASCII,
)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
DIRECTIVE = re.compile(
    r'#\s*(?:include\s*[<"][\w./+-]+[>"]|pragma\s+GCC\s+(?:ivdep|unroll\s+\d+)|pragma\s+unroll(?:\s*\(?\d+\)?)?'
    r"|pragma\s+omp\s+(?:parallel\s+num_threads\(\d+\)|for(?:\s+collapse\(\d+\)|\s+schedule\(static\)|\s+ordered)*"
    r"|simd(?:\s+simdlen\(\d+\))?|single|barrier))\s*",
    re.ASCII,
)
KEYWORDS = frozenset((
    "auto", "const", "float", "double", "int", "long", "bool", "char", "short", "unsigned", "signed", "return", "if",
    "else", "for", "static", "template", "true", "false", "nullptr", "sizeof", "decltype", "static_cast", "constexpr",
    "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "half", "bfloat16",
    "typename", "__at_align__", "alignas", "alignof", "reinterpret_cast", "continue", "size_t", "thread_local",
))  # fmt: skip
FUNCTIONS = frozenset((
    "C10_LIKELY", "C10_UNLIKELY", "TORCH_CHECK", "TORCH_CHECK_MSG", "AOTI_TORCH_CHECK", "Welford", "WelfordHelper",
    "IndexValue", "IndexValueVec", "INFINITY", "NAN", "calc_igamma", "calc_igammac", "calc_polygamma", "calc_erfcx",
    "omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads", "inductor_cpu_integer_div_error",
    "randn_cpu", "normalized_rand_cpu", "randint64_cpu", "uint32_to_uniform_float", "int_div", "div_floor_integer",
    "CascadeSumHelper", "cascade_sum_combine", "cascade_sum_final", "zeta", "trigamma", "inductor_vec_mask_cast",
    "inductor_cpu_integer_div_error_flag", "inductor_cpu_throw_if_integer_div_error", "atomic_add", "atomic_add_vec",
    "transpose_mxn", "prod_masked_reduce", "xor_sum_masked_reduce", "any_masked_reduce",
))  # fmt: skip
"""Functions and types of Inductor's own header. Those of reductions have names in a form."""
OF_REDUCTIONS = re.compile(r"(?:\w+_)?(?:propagate_nan|masked_reduce|combine|combine_vec|reduce_all|vec_reduce_all)\w*")
STANDARD = re.compile(
    r"std::(?:numeric_limits|atomic|array|vector|unique_ptr|make_unique|make_unsigned_t|size_t|memory_order_relaxed|tuple"
    r"|make_tuple|get|pair|complex|conj|real|imag|min|max|isnan|isinf|isfinite|signbit|copysign|nextafter|frexp|ldexp"
    r"|u?int\d+_t|is_same_v|true_type|false_type|fmod|fmax|fmin|fabs|abs|a?(?:sin|cos|tan)h?|atan2|exp2?|expm1|log(?:2|10|1p)?"
    r"|sqrt|cbrt|pow|erfc?|[lt]gamma|hypot|trunc|ceil|floor|l?l?rint|nearbyint|round|modf|remainder)",
    re.ASCII,
)
"""The functions and types of the standard library that read their operands alone."""
NAMESPACES = ("std::", "at::", "c10::", "torch::")
CONVERSIONS = frozenset(("static_cast", "float", "double", "int64_t", "int32_t", "c10::convert", "bool", "int"))
CHANGES = frozenset(("++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))
BEFORE_VALUES = frozenset(("=", "(", "+", "-", "*", "/", "<", ">", "?", ":", "return"))
BEHIND_VALUES = frozenset(("", ")", "+", "-", "*", "/", "<", ">", "?", ":", ">=", "<=", "=="))
"""What is around an element that is read: a sign of arithmetic, so that no reference to it is taken."""
OPEN = {"(": ")", "[": "]", "{": "}"}
MAX_DEPTH = 200
"""The deepest nesting of statements and of expressions."""


class Token(NamedTuple):
    """A word or a sign, with its line and its kind: name, number, text, sign or end."""

    text: str
    line: int
    kind: str


def closing_of(tokens: Sequence[Token], k: int) -> int:
    """Return the place of the bracket that closes one."""
    depth = 0
    for end in range(k, len(tokens)):
        depth += (tokens[end].text in OPEN) - (tokens[end].text in (")", "]", "}"))
        if depth == 0:
            return end
    raise UnreadError(f"no end of {tokens[k].text}", tokens[k].line)


def argument_end_of(tokens: Sequence[Token], k: int) -> int:
    """Return the place behind an argument."""
    depth = 0
    for end in range(k, len(tokens)):
        text = tokens[end].text
        if depth == 0 and text in (",", ")"):
            return end
        depth += (text in OPEN) - (text in (")", "]", "}"))
    return len(tokens)


def opening_of(texts: Sequence[str], k: int) -> int:
    """Return the place of the bracket around a token, -1 if there is none."""
    depth = 0
    for start in range(k - 1, -1, -1):
        depth += (texts[start] in (")", "]", "}")) - (texts[start] in OPEN)
        if depth < 0:
            return start
    return -1


def callee_of(texts: Sequence[str], opening: int) -> str:
    """Return the name before a bracket, without template arguments."""
    k = opening - 1
    if k >= 0 and texts[k] == ">":
        depth = 0
        while k >= 0:
            depth += (texts[k] == ">") - (texts[k] == "<")
            k -= 1
            if depth == 0:
                break
    return texts[k].removeprefix("::") if k >= 0 else ""


def number_of_tokens(tokens: Sequence[Token], values: Mapping[str, Linear]) -> Linear:
    """Return an expression of integers; a number of which nothing is known for any other."""
    key = (tokens[0].line, tokens[0].text, id(tokens[0])) if tokens else ()
    try:
        found, end = _sum(tokens, 0, values, 0)
    except (_NoNumberError, IndexError):
        return unknown_number(key)
    return found if end == len(tokens) else unknown_number(key)


def _sum(tokens: Sequence[Token], k: int, values: Mapping[str, Linear], depth: int) -> tuple[Linear, int]:
    found, k = _product(tokens, k, values, depth)
    while k < len(tokens) and tokens[k].text in ("+", "-"):
        other, end = _product(tokens, k + 1, values, depth)
        found = found.plus(other, 1 if tokens[k].text == "+" else -1)
        k = end
    return found, k


def _product(tokens: Sequence[Token], k: int, values: Mapping[str, Linear], depth: int) -> tuple[Linear, int]:
    found, k = _factor(tokens, k, values, depth)
    while k < len(tokens) and tokens[k].text in ("*", "/", "%"):
        other, end = _factor(tokens, k + 1, values, depth)
        found, k = _computed(tokens[k].text, found, other), end
    return found, k


def _factor(tokens: Sequence[Token], k: int, values: Mapping[str, Linear], depth: int) -> tuple[Linear, int]:
    """A number, a name, a conversion, a division, or an expression in brackets."""
    if depth > MAX_DEPTH:
        raise _NoNumberError
    token = tokens[k]
    if token.text == "-":
        found, k = _factor(tokens, k + 1, values, depth + 1)
        return found.times(-1), k
    if token.text == "(":
        found, k = _sum(tokens, k + 1, values, depth + 1)
        return found, _passed(tokens, k, ")")
    if token.kind == "number" and re.fullmatch(r"\d{1,18}[uUlL]*", token.text):
        return Linear(int(re.sub(r"\D", "", token.text))), k + 1
    if token.text in ("static_cast", "c10::convert"):
        k = _passed(tokens, _passed(tokens, _passed(tokens, k + 1, "<") + 1, ">"), "(")
        found, k = _sum(tokens, k, values, depth + 1)
        return found, _passed(tokens, k, ")")
    if token.text in ("c10::div_floor_integer", "std::max", "std::min"):
        found, k = _sum(tokens, _passed(tokens, k + 1, "("), values, depth + 1)
        other, k = _sum(tokens, _passed(tokens, k, ","), values, depth + 1)
        return _computed(token.text, found, other), _passed(tokens, k, ")")
    if token.kind == "name" and token.text in values:
        return values[token.text], k + 1
    raise _NoNumberError


def _passed(tokens: Sequence[Token], k: int, text: str) -> int:
    if tokens[k].text != text:
        raise _NoNumberError
    return k + 1


class _NoNumberError(Exception):
    """An expression that is not an integer of the grammar."""


def _computed(sign: str, one: Linear, other: Linear) -> Linear:
    """Return what an operator gives, if that is an index expression."""
    found: Linear | None = None
    if sign == "*":
        found = multiply(one, other)
    elif not one.terms and not other.terms and sign.startswith("std::"):
        found = Linear((max if sign == "std::max" else min)(one.constant, other.constant))
    elif one.bounds()[0] >= 0 or sign == "c10::div_floor_integer":  # C++ rounds towards 0
        found = floor_divided(one, other)
        if found is not None and sign == "%":
            found = one.plus(found, -other.constant)
    if found is None:
        raise _NoNumberError
    return found
