"""The text of C functions: templates, instantiated for the element types of a call, with the helpers that they use.

A template is written once for all types. In it, `$name` is the name of the function, `$T` the type in which elements of
the first type are computed, `$s` its suffix as in `load_$s`, `$f` that of functions of <math.h>, `$F` that of numbers;
`$T2`, `$s2` and so on are those of the second type. `$Conv` is the struct of that name. `load` and `store` read and
write elements; they are `memcpy` of a fixed size. Compilers make one instruction of each, and no rule on the effective
types of objects is broken, whatever the type and the content of a pool are. spec: MC3.6, MC4.2
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from string import Template

from tmmu.core.dtypes import SHORT
from tmmu.mico.kernels.node import KernelCall
from tmmu.mico.names import PLAIN, CNames

TEMPLATES: dict[str, str] = {}
"""Every function by its name without suffixes; the other modules of this package add them."""

STRUCTS: dict[str, str] = {}
"""The types of arguments, by name."""

COMPUTED = {"float32": "float", "float64": "double", "float16": "float", "bfloat16": "float", "bool": "bool"}
"""The C type in which elements of a type are computed; integers have the type of their name."""

HELPERS: dict[str, str] = {
    "product": """\
/* The number of elements of a tensor of this shape. */
static inline size_t product(size_t rank, const size_t *shape)
{
    size_t found = 1;
    for (size_t d = 0; d < rank; d++) {
        found *= shape[d];
    }
    return found;
}
""",
    "place": """\
/* Element number i of a tensor of this shape, in one whose neighbours along dimension d are steps[d] apart. */
static inline size_t place(size_t i, size_t rank, const size_t *shape, const size_t *steps)
{
    size_t found = 0;
    for (size_t d = rank; d-- > 0;) {
        found += i % shape[d] * steps[d];
        i /= shape[d];
    }
    return found;
}
""",
    "clamped": """\
/* An index that may count from the end, clamped to its dimension. */
static inline size_t clamped(int64_t index, size_t dim)
{
    if (index < 0) {
        index += (int64_t)dim;
    }
    return index < 0 ? 0 : (uint64_t)index >= dim ? dim - 1 : (size_t)index;
}
""",
    "first_tap": """\
/* Of a window that begins `at` elements into a padded row, the first tap that is not in the padding before the row. */
static inline size_t first_tap(size_t at, size_t pad, size_t dilation)
{
    return at >= pad ? 0 : (pad - at + dilation - 1) / dilation;
}
""",
    "end_tap": """\
/* One more than the last tap that is not in the padding after the row. */
static inline size_t end_tap(size_t at, size_t pad, size_t dilation, size_t size, size_t taps)
{
    size_t end = at >= pad + size ? 0 : (pad + size - at + dilation - 1) / dilation;
    return end < taps ? end : taps;
}
""",
    "madd": """\
/* a * b + c, rounded once if the processor multiplies and adds in one instruction. */
static inline double madd(double a, double b, double c)
{
#if defined(FP_FAST_FMA) && !defined(TMMU_SEPARATE_ROUNDING)
    return fma(a, b, c);
#else
    return a * b + c;
#endif
}
""",
    "maddf": """\
/* a * b + c, rounded once if the processor multiplies and adds in one instruction. */
static inline float maddf(float a, float b, float c)
{
#if defined(FP_FAST_FMAF) && !defined(TMMU_SEPARATE_ROUNDING)
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}
""",
    "power": """\
/* An integer power, which wraps around; for a negative exponent 0, except for the bases 1 and -1. */
static inline uint64_t power(uint64_t base, int64_t exponent)
{
    uint64_t found = 1;
    if (exponent < 0) {
        return base + 1 > 2 || base == 0 ? 0 : exponent % 2 != 0 ? base : 1;
    }
    for (; exponent > 0; exponent /= 2) {
        found *= exponent % 2 != 0 ? base : 1;
        base *= base;
    }
    return found;
}
""",
    "of_half": """\
/* The number that 16 bits represent. */
static inline float of_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (uint32_t)(h >> 10) & 31u, part = h & 1023u, bits;
    float value;
    if (exponent == 31) {
        bits = sign | 0x7F800000u | part << 13;
    } else if (exponent > 0) {
        bits = sign | (exponent + 112) << 23 | part << 13;
    } else {
        value = (float)part * 0x1p-24F;
        return sign ? -value : value;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}
""",
    "half_of": """\
/* The nearest number of 16 bits, ties to even. */
static inline uint16_t half_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u) {
        return (uint16_t)(sign | 0x7E00u);
    }
    if (rest >= 0x477FF000u) {
        return (uint16_t)(sign | 0x7C00u);
    }
    if (rest < 0x38800000u) {
        return (uint16_t)(sign | (uint32_t)lrintf((value < 0 ? -value : value) * 0x1p24F));
    }
    rest += 0xFFFu + (rest >> 13 & 1u);
    return (uint16_t)(sign | ((rest - 0x38000000u) >> 13));
}
""",
}
"""The helpers that functions call, in the order of their definitions."""


def suffix(dtype: str) -> str:
    """Return the suffix of functions for a type.

    >>> suffix("float32"), suffix("bool")
    ('f32', 'bool')
    """
    return SHORT[dtype]


def type_of_computation(dtype: str) -> str:
    """Return the C type in which elements are computed."""
    return COMPUTED.get(dtype, f"{dtype}_t")


def name_of(call: KernelCall, names: CNames = PLAIN) -> str:
    """Return the name of the C function of a call; one of the C library has no prefix.

    >>> name_of(KernelCall("cast", ("int64", "float32"), ())), name_of(KernelCall("memcpy", (), ()), CNames("a", "a"))
    ('cast_i64_f32', 'memcpy')
    """
    name = "_".join((call.function, *map(suffix, call.types)))
    return names.inner(name) if call.function in TEMPLATES else name


def _name_structs(names: CNames) -> dict[str, str]:
    """Return the C name of each struct."""
    return {name: names.inner(name) for name in STRUCTS}


def argument_of(text: str, names: CNames) -> str:
    """Return the C of an argument of a call, which may name a struct as templates do."""
    return Template(text).substitute(_name_structs(names))


def text_of(call: KernelCall, names: CNames = PLAIN) -> str:
    """Return the definition of the function of a call."""
    words = {"name": name_of(call, names), **_name_structs(names)}
    for k, dtype in enumerate(call.types):
        wide = dtype == "float64"
        number = str(k + 1) if k else ""
        words |= {
            f"T{number}": type_of_computation(dtype), f"s{number}": suffix(dtype),
            f"f{number}": "" if wide else "f", f"F{number}": "" if wide else "F",
        }  # fmt: skip
    return Template(TEMPLATES[call.function]).substitute(words)


def _define_load(dtype: str) -> str:
    stored = {"float16": "uint16_t", "bfloat16": "uint16_t", "bool": "uint8_t"}.get(dtype, type_of_computation(dtype))
    value = {
        "float16": "    return of_half(stored);",
        "bfloat16": "    uint32_t bits = (uint32_t)stored << 16;\n    float value;\n"
        "    memcpy(&value, &bits, sizeof value);\n    return value;",
        "bool": "    return stored != 0;",
    }.get(dtype, "    return stored;")
    return (
        f"static inline {type_of_computation(dtype)} load_{suffix(dtype)}(const uint8_t *x, size_t i)\n{{\n"
        f"    {stored} stored;\n"
        f"    memcpy(&stored, x + i * sizeof stored, sizeof stored);\n{value}\n}}\n"
    )


def _define_store(dtype: str) -> str:
    made = {
        "float16": "    uint16_t stored = half_of(value);",
        "bfloat16": "    uint32_t bits;\n    memcpy(&bits, &value, sizeof bits);\n"
        "    uint16_t stored = (uint16_t)(value != value ? 0x7FC0u : (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);",
        "bool": "    uint8_t stored = value;",
    }.get(dtype, f"    {type_of_computation(dtype)} stored = value;")
    return (
        f"static inline void store_{suffix(dtype)}(uint8_t *y, size_t i, {type_of_computation(dtype)} value)\n{{\n"
        f"{made}\n    memcpy(y + i * sizeof stored, &stored, sizeof stored);\n}}\n"
    )


def _uses(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def kernels(calls: Iterable[KernelCall], names: CNames = PLAIN) -> tuple[str, str]:
    """Return the declarations and the definitions of all functions that calls need, each once, by name. spec: MC4.1"""
    wanted = {name_of(call): call for call in calls if call.function in TEMPLATES}
    bodies = {name: text_of(wanted[name], names) for name in sorted(wanted)}
    text = "\n".join(bodies.values())
    access = "".join(
        make(dtype)
        for word, make in (("load", _define_load), ("store", _define_store))
        for dtype in SHORT
        if _uses(text, f"{word}_{suffix(dtype)}")
    )
    halves = [HELPERS[name] for name in ("of_half", "half_of") if _uses(access, name)]
    helpers = [*halves, access, *(HELPERS[name] for name in HELPERS if _uses(text, name))]
    named = _name_structs(names)
    structs = [Template(STRUCTS[name]).substitute(named) for name in STRUCTS if _uses(text, named[name])]
    prototypes = [_declare(body) for body in bodies.values()]
    return "\n".join([*structs, *prototypes]), "\n".join(filter(None, [*helpers, text]))


def _declare(body: str) -> str:
    """Return the declaration of a function, with the comment before it."""
    head, _, _ = body.partition("\n{\n")
    return f"{head};\n"
