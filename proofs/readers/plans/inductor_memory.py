"""The pools and buffers of an Inductor wrapper as cells, with the sizes that its numbers give. spec: FP8.1, FP8.5"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

from proofs.readers.plans.cells import WHOLE, CellMemory, Pointer
from proofs.readers.plans.script import Names, ScriptValue, bits, dotted_name, extent, integer, line_of
from tmmu.core.source import Source
from tmmu.core.vocabulary import UINT64_END
from tmmu.plans.reading import UndecidedConstruct

DOMAIN = "inductor"
ALIGNED = 64
"""What Inductor's `align` rounds bytes up to."""
ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int | None]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: lambda a, b: a // b if b else None, ast.Mod: lambda a, b: a % b if b else None,
    ast.Pow: lambda a, b: a**b if b in range(64) else None,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[[list[int]], int]] = {
    "align": lambda numbers: -(-numbers[0] // ALIGNED) * ALIGNED, "max": max, "min": min,
}  # fmt: skip
DYNAMIC = "state symbols as numbers in get_args, as Inductor does, or compile with dynamic=False"


class BufferMemory:
    """What is known of memory while the steps of a wrapper are read, and how a buffer is made in it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.memory = CellMemory(source)
        self.widths: dict[int, int] = {}
        """The bits of the elements of each cell; 0 if they are not known."""
        self.unsized: set[int] = set()
        """The cells whose size the file does not state."""
        self.has_plan = False
        self.assumed: dict[str, None] = {WHOLE: None}
        self.outside: dict[str, str] = {}
        self.approximations: dict[str, None] = {}
        self.denied: dict[str, str] = {}
        self.undecided: dict[UndecidedConstruct, None] = {}
        self.prefix = ""

    def value(self, node: ast.expr, names: Names, name: str) -> ScriptValue:
        """Return what an expression is."""
        raise NotImplementedError

    def refuse(self, node: ast.AST, what: str, fix: str | None = None, *, construct: str = "") -> Exception:
        """Return an error with the line of a node, and the kind of construct that is not known."""
        return self.source.refuse(what, line_of(node), fix, construct=construct)

    def leave_undecided(self, kind: str, node: ast.AST, what: str) -> None:
        """State a construct that keeps the plan from being proved."""
        self.undecided[UndecidedConstruct(kind, f"{what} ({line_of(node)})")] = None

    # Numbers

    def bytes(self, shape: ast.expr, strides: ast.expr, dtype: ast.expr | None, names: Names) -> int | None:
        """Return the bytes of a shape with strides; None if one is not a number."""
        dims, steps, width = self.integers(shape, names), self.integers(strides, names), width_of(dtype)
        if dims is None or width == 0 or steps is None or len(steps) != len(dims):
            return None
        return extent(dims, steps, width) if min((*dims, *steps), default=0) >= 0 else None

    def integers(self, node: ast.expr, names: Names) -> tuple[int, ...] | None:
        """Return the integers of a tuple; None if one is none."""
        if not isinstance(node, ast.Tuple | ast.List):
            return None
        found = [self.integer(item, names) for item in node.elts]
        return tuple(x for x in found if x is not None) if None not in found else None

    def integer(self, node: ast.expr, names: Names) -> int | None:
        """Return an integer, also of names that stand for one, as of symbolic sizes; None of any other. spec: FP8.10"""
        self.source.count_work(1)
        found: int | None = integer(node)
        match node:
            case ast.Name(id=name) if name in names:
                found = names[name].number
            case ast.UnaryOp(op=ast.USub(), operand=operand) if found is None:
                number = self.integer(operand, names)
                found = None if number is None else -number
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                both = self.integer(left, names), self.integer(right, names)
                if both[0] is not None and both[1] is not None:
                    found = ARITHMETIC[type(op)](both[0], both[1])
            case ast.Call(func=ast.Name(id=callee), args=[first, *others], keywords=[]) if callee in FUNCTIONS:
                numbers = [number for each in (first, *others) if (number := self.integer(each, names)) is not None]
                found = FUNCTIONS[callee](numbers) if len(numbers) == 1 + len(others) else None
        return found if found is not None and abs(found) < UINT64_END else None

    # Memory

    def own(self, name: str, *, before: int | None = None) -> ScriptValue:
        """Return memory of its own, of a size that the file does not state."""
        cell = self.memory.own(self.prefix + name, 0)
        self.memory.cells[cell].before = before
        self.unsized.add(cell)
        return ScriptValue((Pointer(cell, 0),))

    def state(self, node: ast.Call, names: Names) -> None:
        """`assert_tensor_metadata(buf2, shape, strides, dtype, …)`: the size of what other code has returned."""
        size = self.bytes(node.args[1], node.args[2], node.args[3], names) if len(node.args) > 3 else None
        for pointer in self.value(node.args[0], names, "").every(self.source) if size is not None else ():
            if pointer.cell in self.unsized:
                self.unsized.discard(pointer.cell)
                self.widths[pointer.cell] = width_of(node.args[3])
                self.memory.grow(pointer.cell, pointer.start + (size or 0), line_of(node))

    def pool(self, node: ast.Call, names: Names, name: str) -> ScriptValue:
        """`empty_strided_cpu(shape, strides, dtype)`: memory of its own, a pool or a buffer."""
        options = {k.arg: k.value for k in node.keywords}
        if not options.keys() <= {"dtype", "device"} or len(node.args) > 3:
            raise self.refuse(node, "expected a shape, strides, a type and a device", "use what Inductor writes")
        dtype = node.args[2] if len(node.args) > 2 else options.get("dtype")
        size = self.bytes(node.args[0], node.args[1], dtype, names) if len(node.args) > 1 else None
        if size is None:
            raise self.refuse(node, "expected a shape and strides in numbers", DYNAMIC)
        label = self.prefix + name
        cell = self.memory.cell(label, self.memory.arena(label, size), 0, size, place=line_of(node))
        self.widths[cell] = width_of(dtype)
        return ScriptValue((Pointer(cell, 0),))

    def buffer(self, node: ast.Call, names: Names, name: str) -> ScriptValue:
        """`alloc_from_pool(pool, offset, dtype, shape, strides)`; the offset is in bytes. spec: FP8.1"""
        is_whole = len(node.args) == 5 and not node.keywords
        base = self.value(node.args[0], names, name).pointers if is_whole else ()
        offset = self.integer(node.args[1], names) if base else None
        size = self.bytes(node.args[3], node.args[4], node.args[2], names) if base else None
        if len(base) != 1 or offset is None or offset < 0 or size is None:
            raise self.refuse(node, "expected a pool, an offset, a type, a shape and strides in numbers", DYNAMIC)
        self.has_plan = True
        pool = self.memory.cells[base[0].cell]
        at = pool.offset + base[0].start + offset
        cell = self.memory.cell(self.prefix + name, pool.arena, at, size, place=line_of(node))
        self.widths[cell] = width_of(node.args[2])
        return ScriptValue((Pointer(cell, 0),))

    def view(self, node: ast.Call, base: ScriptValue, operands: list[ast.expr], names: Names) -> ScriptValue:
        """`reinterpret_tensor(buffer, shape, strides, offset)`; the offset is in elements. spec: FP8.5"""
        if node.keywords or len(operands) > 3:
            raise self.refuse(node, "expected a buffer, a shape, strides and an offset", "use what Inductor writes")
        is_known = len(operands) < 3 or self.integer(operands[2], names) is not None
        if not is_known:
            self.value(operands[2], names, "")  # refused if it names what is not there
            self.approximations["a view at an offset that is not a number counts as all of its buffer"] = None
            self.outside["ends of views at offsets that are no numbers"] = "they follow from what the program computes"
        found = []
        for pointer in base.every(self.source):
            width = self.widths.get(pointer.cell, 0) if base.width is None else base.width
            if pointer.cell in self.unsized or not is_known:
                found.append(pointer)
                continue
            start, end = self.view_bytes(node, operands, width, names)
            self.memory.grow(pointer.cell, pointer.start + end, line_of(node))
            found.append(Pointer(pointer.cell, pointer.start + start))
        return ScriptValue(tuple(found), width=base.width)

    def view_bytes(self, node: ast.Call, operands: list[ast.expr], width: int, names: Names) -> tuple[int, int]:
        """Return the bytes of its operand at which a view begins and ends."""
        shape, strides = (self.integers(arg, names) for arg in operands[:2]) if len(operands) > 1 else (None, None)
        offset = self.integer(operands[2], names) if len(operands) > 2 else 0
        if shape is None or strides is None or offset is None or len(shape) != len(strides):
            raise self.refuse(node, "expected a shape, strides and an offset in numbers", DYNAMIC)
        if min((*shape, *strides, offset)) < 0:
            raise self.refuse(node, "a shape, stride or offset below 0")
        start = offset * width // 8
        return start, start + extent(shape, strides, width)


def width_of(dtype: ast.expr | None) -> int:
    """Return the bits of `torch.float32`; 0 if they are not known."""
    return 0 if dtype is None else bits(dotted_name(dtype).removeprefix("torch.")) or 0
