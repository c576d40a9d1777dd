"""The tables of a `.pte` (`schema/program.fbs`) as plain data: methods with values, memories and instructions.

A table with a field that the schema does not have is refused. spec: FP1.15, FP2.4, FP5.1, FP5.2, FP5.13, FP5.14
"""

from __future__ import annotations

from typing import NamedTuple

from proofs.readers.plans.foreign_plan import elements_of
from tmmu.core.dtypes import nbytes
from tmmu.core.flatbuffer import Flatbuffer, TableAt
from tmmu.core.source import Source
from tmmu.core.vocabulary import UINT64_END

IDENTIFIER = b"ET12"
HEADER = 8
"""The place of the extended header: `eh00`, its own size, the bytes of the program, and the start of the segments."""
TENSOR, LISTS, BOOL = 5, (10, 11), 3
KINDS = range(1, 12)
"""The kinds of values that the schema has."""
UNBOUND = 2
"""The dynamism of a tensor whose size nothing bounds."""
PROGRAM, PLAN, CHAIN, INSTRUCTION, VALUE, DETAILS, EXTRA, CODE = 8, 9, 4, 2, 2, 3, 3, 2
FIELDS = 10
"""The number of fields of a tensor; above are those of the other tables of the schema."""
KERNEL, DELEGATE, MOVE, JUMP, FREE = 1, 2, 3, 4, 5
ARGUMENTS = {KERNEL: 1, DELEGATE: 1, MOVE: 0, JUMP: 0, FREE: 0}
"""The number of the field that holds an instruction's arguments, or the first of two."""
TYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 11: "bool",
    12: "int8", 13: "uint8", 14: "int32", 15: "bfloat16", 16: "uint8", 17: "uint8", 22: "uint16", 23: "float8e5m2",
    24: "float8e4m3fn", 25: "float8e5m2fnuz", 26: "float8e4m3fnuz", 27: "uint16", 28: "uint32", 29: "uint64",
}  # fmt: skip
"""The element types of the schema; quantized ones as the type that stores them."""


class PlacedBytes(NamedTuple):
    """The place of a tensor: its memory (0 for the memory with id 1), its first byte, and its number of bytes."""

    memory: int
    first: int
    bytes: int


class EValue(NamedTuple):
    """A value: `at` is the place of a planned tensor, and `items` are the values in a list.

    `title` is the name that state may have, and `is_kept` whether the file has such a name, or an initial value
    (`is_filled`). `is_false` is whether it is the constant False.
    """

    kind: int
    name: str
    at: PlacedBytes | None = None
    dtype: str = "uint8"
    items: tuple[int, ...] = ()
    title: str = ""
    is_filled: bool = False
    is_constant: bool = False
    is_false: bool = False

    @property
    def is_kept(self) -> bool:
        """Whether the runtime keeps it between calls: the file gives it a name or a first value."""
        return bool(self.title) or self.is_filled


class ProgramCall(NamedTuple):
    """An instruction: its kind, the operator or delegate, the values of its arguments, and the target of a jump."""

    kind: int
    op: str
    args: tuple[int, ...]
    to: int = 0


class Method(NamedTuple):
    """A method. `memories` are the bytes of each memory, from id 1 on."""

    name: str
    memories: list[int]
    values: list[EValue]
    inputs: list[int]
    outputs: list[int]
    chains: list[list[ProgramCall]]


def methods(source: Source) -> list[Method]:
    """Return the methods of a file. Raises INVALID_PLAN with the byte, value or instruction. O(file)."""
    if source.data[4:8] != IDENTIFIER:
        fix = "export the program again"
        raise source.refuse(f"expected the identifier {IDENTIFIER.decode()} of a program", "byte 4", fix)
    file = Flatbuffer(source)
    has_header = source.data[HEADER : HEADER + 4] == b"eh00"
    if has_header:
        _holds(source, file.number("u64", HEADER + 8))
    program = file.root()
    program.check_known(PROGRAM, "the program")
    if has_header:
        base = file.number("u64", HEADER + 16)
        ends = [part.number(0, "u64") + part.number(1, "u64") for part in program.tables(4)]
        _holds(source, base + max(ends) if ends else 0)
    return [_method(source, table) for table in program.tables(1)]


def _holds(source: Source, size: int) -> None:
    """Refuse a file that has fewer bytes than it states. spec: FP5.13"""
    if len(source.data) < size:
        raise source.truncated_error(f"it states {size} bytes and has {len(source.data)}")


def _method(source: Source, table: TableAt) -> Method:
    name = table.text(0)
    table.check_known(PLAN, name)
    memories = table.numbers(8, "i64")
    for k, size in enumerate(memories):
        if size < 0:
            raise source.refuse(f"memory {k} has {size} bytes", name)
    values = [_value(source, k, each, len(memories)) for k, each in enumerate(table.tables(2))]
    source.bound(len(values))
    for code in (*table.tables(6), *table.tables(7)):
        code.check_known(CODE + 1, name)
    for k, value in enumerate(values):
        for item in value.items:
            _known(source, item, values, f"value {k}")
    ops = [".".join(filter(None, (each.text(0), each.text(1)))) for each in table.tables(6)]
    delegates = [each.text(0) for each in table.tables(7)]
    chains, first = list[list[ProgramCall]](), 0
    for chain in table.tables(5):
        chain.check_known(CHAIN, name)
        found = chain.tables(2)
        calls = [_call(source, k, each, values, ops, delegates) for k, each in enumerate(found, first)]
        for k, call in enumerate(calls, first):
            if call.kind == JUMP and not 0 <= call.to <= len(calls):
                raise source.refuse("it leads out of its chain", f"instruction {k}", "export it again")
        # A jump leads to an instruction of the same chain.
        chains.append([call._replace(to=call.to + first) if call.kind == JUMP else call for call in calls])
        first += len(calls)
    source.bound(first)
    inputs, outputs = table.numbers(3, "i32"), table.numbers(4, "i32")
    for index in (*inputs, *outputs):
        _known(source, index, values, name)
    return Method(name, memories[1:], values, inputs, outputs, chains)


def _known(source: Source, index: int, values: list[EValue], place: str) -> int:
    if not 0 <= index < len(values):
        raise source.refuse(f"value {index} is none of {len(values)} values", place)
    return index


def _value(source: Source, k: int, table: TableAt, memories: int) -> EValue:
    kind, found, name = table.number(0, "u8"), table.table(1), f"value {k}"
    table.check_known(VALUE, name)
    if found is not None and kind not in KINDS:
        fix = "write the file by a version that is read"
        raise source.refuse(f"{kind} is not a kind of value", name, fix, construct=f"value {kind}")
    if found is not None and kind != TENSOR:
        found.check_known(1, name)
    if found is None or kind not in (TENSOR, *LISTS, BOOL):
        return EValue(kind, name)
    if kind == BOOL:
        return EValue(kind, name, is_false=found.number(0, "u8") == 0)
    if kind in LISTS:
        return EValue(kind, name, items=tuple(item for item in found.numbers(0, "i32") if item != -1))
    found.check_known(FIELDS, name)
    extra, allocation = found.table(9), found.table(6)
    if extra is not None:
        extra.check_known(EXTRA, name)
    title = extra.text(1) if extra is not None else ""
    name = f"{name} ({title})" if title else name
    data = found.number(5, "u32")
    if allocation is None:
        return EValue(kind, name, is_constant=data != 0)
    sizes, scalar = found.numbers(2, "i32"), found.number(0, "i8")
    allocation.check_known(DETAILS, name)
    order = found.numbers(3, "u8")
    if order and sorted(order) != list(range(len(sizes))):
        raise source.refuse(f"the order {order[:8]} is none of {len(sizes)} dimensions", name)
    if found.number(7, "i8") or found.number(8, "i8") == UNBOUND:
        raise source.refuse("it is sparse, or nothing bounds its size", name, "plan tensors that have a size")
    if scalar not in TYPES:
        fix = "use a type that ExecuTorch's schema has"
        raise source.refuse(f"{scalar} is not an element type", name, fix, construct=f"element type {scalar}")
    if min(sizes, default=0) < 0 or found.number(1, "i32"):
        raise source.refuse(f"a size of {sizes} is negative, or it does not begin at its storage's first byte", name)
    memory, first = allocation.number(0, "u32"), allocation.number(1, "u32") | allocation.number(2, "u32") << 32
    if not 0 < memory < memories:
        raise source.refuse(f"memory {memory} is none of 1 to {memories - 1}", name)
    size = nbytes((elements_of(sizes),), TYPES[scalar])
    if first + size >= UINT64_END:
        raise source.refuse("it ends beyond 64 bits", name)
    at = PlacedBytes(memory - 1, first, size)
    return EValue(kind, name, at, TYPES[scalar], title=title, is_filled=data != 0)


def _call(
    source: Source, k: int, table: TableAt, values: list[EValue], ops: list[str], delegates: list[str]
) -> ProgramCall:  # fmt: skip
    kind, found, place = table.number(0, "u8"), table.table(1), f"instruction {k}"
    if found is None or kind not in ARGUMENTS:
        construct = "" if found is None else f"instruction {kind}"
        raise source.refuse(f"{kind} is not a kind of instruction", place, construct=construct)
    table.check_known(INSTRUCTION, place)
    found.check_known(1 if kind == FREE else 2, place)
    if kind in (KERNEL, DELEGATE):
        names, index = (ops, delegates)[kind == DELEGATE], found.number(0, "i32")
        if not 0 <= index < len(names):
            raise source.refuse(f"operator or delegate {index} is none of {len(names)}", place)
        args = found.numbers(1, "i32")
        return ProgramCall(kind, names[index], tuple(_known(source, each, values, place) for each in args))
    first = _known(source, found.number(0, "i32"), values, place)
    second = found.number(1, "i32")
    if kind == MOVE:
        return ProgramCall(kind, "MoveCall", (first, _known(source, second, values, place)))
    return ProgramCall(kind, "JumpFalseCall" if kind == JUMP else "FreeCall", (first,), second if kind == JUMP else 0)
