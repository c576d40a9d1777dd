"""The offsets of a symbolic plan as C: a header that computes sizes and offsets from the dimensions of a shape.

A program asks for a shape once, and then for each tensor. It needs no library, and no memory but a struct. spec: R6.17
"""

from __future__ import annotations

from collections.abc import Iterator

from tmmu.core.dims.expressions import Dim, bounds_of
from tmmu.core.dims.table import OPS, Row, read
from tmmu.core.errors import TmmuError
from tmmu.mico.identifiers import Identifiers, comment
from tmmu.plans import file
from tmmu.plans.sections import Envelope, Plan

LARGEST = 1 << 62
"""No part of an expression may reach it, so that int64_t holds all sums."""
OPERATORS = {"add": "+", "sub": "-", "mul": "*"}


def write_offsets(plan: Plan, name: str, verdict: str) -> str:
    """Return the header `NAME.h` of a symbolic plan. O(terms + tensors).

    Raises MODE_VIOLATION if a part of an expression exceeds 62 bits.
    """
    envelope = plan.envelope
    assert envelope is not None  # the plan is symbolic
    rows = envelope.terms.rows()
    _check_terms(rows, envelope, plan.origin.model)
    names = Identifiers()
    dims = [f"dim_{names.of(dim)}" for dim in envelope.ranges]
    upper, slots, arenas = name.upper(), plan.slots, plan.allocation.arenas
    lines = [
        "/*", f" * {comment(verdict)}", f" * plan hash {file.compute_hashes(plan)['plan_hash'].hex()}", " *",
        f" * Call {name}_at with the sizes of a shape. A tensor is then {name}_offset bytes behind the begin of its",
        f" * arena, which needs the footprint in {name}_plan. Another shape has other offsets.", " */",
        f"#ifndef {upper}_H", f"#define {upper}_H", "", "#include <stdbool.h>", "#include <stdint.h>", "",
        f"#define {upper}_ARENAS {len(arenas)}",
        f"#define {upper}_SLOTS {len(slots)}",
        f"#define {upper}_TENSORS {len(plan.allocation.tensors)}", "",
        "typedef struct {",
        f"    uint64_t slot[{max(1, len(slots))}]; /* the offset of each slot in its arena */",
        f"    uint64_t bytes[{max(1, len(plan.allocation.tensors))}]; /* the size of each tensor */",
        f"    uint64_t footprint[{max(1, len(arenas))}]; /* the bytes that each arena needs */",
        f"}} {name}_plan;", "",
        *_tables(plan, name), *_functions(plan, name, rows, dims),
        f"#endif /* {upper}_H */", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _check_terms(rows: list[Row], envelope: Envelope, model: str) -> None:
    """Raise MODE_VIOLATION for a part that int64_t may not hold."""
    parts: list[Dim] = [*read(rows, envelope.ranges), *(high for _, high in envelope.ranges.values())]
    for found in parts:
        least, most = bounds_of(found)
        if least <= -LARGEST or most >= LARGEST:
            raise TmmuError(
                "MODE_VIOLATION", f"{found} may exceed 62 bits", place=f"model {model!r}",
                fix="plan for smaller ranges", mode="inference",
            )  # fmt: skip


def _tables(plan: Plan, name: str) -> Iterator[str]:
    """Yield the arenas by name, and the arena, the slot and the place of each tensor."""
    t, s, slots = plan.allocation.tensors, plan.allocation.storages, plan.slots.of
    yield f"static const char *const {name}_arena_names[] = {{"
    yield from (f'    "{comment(arena.name)}",' for arena in plan.allocation.arenas)
    yield from ("};", "", "static const struct {", "    const char *name;", "    uint32_t arena, slot;",
                "    uint64_t window; /* its first byte in the slot */", f"}} {name}_tensors[] = {{")  # fmt: skip
    for tensor, storage, window in zip(t.name, t.storage.tolist(), t.window.tolist(), strict=True):
        text = comment(tensor).replace('"', "_")
        yield f'    {{"{text}", {int(s.arena[storage])}, {int(slots[storage])}, UINT64_C({window})}},'
    if not len(t):
        yield '    {"", 0, 0, 0},'
    yield from ("};", "")


def _functions(plan: Plan, name: str, rows: list[Row], dims: list[str]) -> Iterator[str]:
    """Yield the function that computes a shape, and the one that gives an offset."""
    envelope, t, slots = plan.envelope, plan.allocation.tensors, plan.slots
    assert envelope is not None  # the plan is symbolic
    yield f"static inline int64_t {name}_div(int64_t a, int64_t b) {{ /* rounded down */"
    yield from ("    return a / b - (a % b != 0 && (a < 0) != (b < 0));", "}", "")
    yield "/* False for a shape outside: nothing is computed then. */"
    stepped = {unit: (size, first, step) for size, (unit, first, step) in plan.bindings.steps.items()}
    arguments = [f"size_{dim}" if unit in stepped else dim for unit, dim in zip(envelope.ranges, dims, strict=True)]
    yield f"static inline bool {name}_at({', '.join(f'int64_t {each}' for each in arguments)}, {name}_plan *plan) {{"
    for (unit, (low, high)), dim, size in zip(envelope.ranges.items(), dims, arguments, strict=True):
        if unit in stepped:
            _, first, step = stepped[unit]
            beyond = f"({size} - INT64_C({first}))"
            yield f"    if ({size} < INT64_C({first}) || {beyond} % INT64_C({step}) != 0) return false;"
            yield f"    const int64_t {dim} = {beyond} / INT64_C({step});"
        yield f"    if ({dim} < INT64_C({low}) || {dim} > INT64_C({high})) return false;"
    for k, row in enumerate(rows):
        yield f"    const int64_t v{k} = {_term(row, name, dims)};"
    for k, row_ in enumerate(envelope.size.tolist()):
        yield f"    plan->bytes[{k}] = (uint64_t)v{row_};"
    yield f"    uint64_t needed[{max(1, len(slots))}], end[{max(1, len(plan.allocation.arenas))}] = {{0}};"
    yield f"    for (int k = 0; k < {len(slots)}; k++) needed[k] = 1;"
    yield f"    for (int k = 0; k < {len(t)}; k++) {{"
    yield f"        const uint64_t bytes = {name}_tensors[k].window + plan->bytes[k];"
    yield f"        if (bytes > needed[{name}_tensors[k].slot]) needed[{name}_tensors[k].slot] = bytes;"
    yield "    }"
    for k, (a, alignment) in enumerate(zip(slots.arena.tolist(), slots.alignment.tolist(), strict=True)):
        rounded = f"(end[{a}] + UINT64_C({alignment - 1})) / UINT64_C({alignment}) * UINT64_C({alignment})"
        yield f"    plan->slot[{k}] = {rounded};"
        yield f"    end[{a}] = plan->slot[{k}] + needed[{k}];"
    yield f"    for (int k = 0; k < {len(plan.allocation.arenas)}; k++) plan->footprint[k] = end[k];"
    yield from ("    (void)needed;", "    return true;", "}", "")
    yield "/* The first byte of a tensor in its arena, at the shape that was asked for. */"
    yield f"static inline uint64_t {name}_offset(const {name}_plan *plan, int tensor) {{"
    yield f"    return plan->slot[{name}_tensors[tensor].slot] + {name}_tensors[tensor].window;"
    yield from ("}", "")


def _term(row: Row, name: str, dims: list[str]) -> str:
    """Return a row as a C expression over the rows before it."""
    op, left, right = OPS[row.op], f"v{row.left}", f"v{row.right}"
    if op == "number":
        return f"INT64_C({row.value})"
    if op == "dim":
        return dims[row.value]
    if op == "div":
        return f"{name}_div({left}, {right})"
    if op in ("min", "max"):
        return f"{left} {'<' if op == 'min' else '>'} {right} ? {left} : {right}"
    return f"{left} {OPERATORS[op]} {right}"
