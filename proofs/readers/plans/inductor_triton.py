"""Read the accesses of a kernel in Triton, in the grammar of what Inductor writes.

The text is imports, helper functions, and the kernel under its decorators. A kernel is assignments, calls, and loops
over blocks of a reduction. Its index is a block of a program, `tl.program_id(0)*XBLOCK + tl.arange(0, XBLOCK)`, a block
of a loop, or a block alone, and definitions of these are substituted. Memory is touched by `tl.load`, `tl.store` and
`tl.atomic_…` of `pointer + (index)`. What gets no pointer touches none, so that arithmetic on values is not followed;
but each name in it is defined before or of a known module. Any other construct is returned as unknown, with its line.

spec: FP8.13
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from proofs.readers.plans.hlo_index import IndexVariable, Linear, as_linear
from proofs.readers.plans.inductor_access import (
    ANY,
    KernelAccess,
    KernelLoop,
    KernelText,
    UnreadError,
    floor_divided,
    multiply,
    unknown_number,
)
from proofs.readers.plans.script import dotted_name, integer
from tmmu.core.source import Source

MODULES = frozenset(("tl", "triton", "triton_helpers", "libdevice", "tl_math", "math", "tlx"))
BUILTINS = frozenset(("float", "int", "bool", "len", "max", "min", "abs", "True", "False", "None"))
IMPORTED = ("triton", "torch", "math")
OF_TWO_AXES = "tl.program_id(1) + tl.program_id(2) * tl.num_programs(1)"
"""How Inductor numbers the programs of an axis that is longer than a grid can be."""
SAME = frozenset(("broadcast_to", "to", "reshape", "view"))
"""Methods and functions that change the shape or type of an index and not its value."""


class _Pointer:
    """A parameter with an index."""

    def __init__(self, name: str, index: Linear) -> None:
        self.name, self.index = name, index


@dataclass(frozen=True)
class _Block:
    """A part of an index: the number of a program (`axis`) or of an iteration (`loop`), as blocks of `by` elements, or
    the lanes of a block. A number of a program that is not yet multiplied has no `by`.
    """

    by: str = ""
    axis: int = -1
    loop: KernelLoop | None = None
    is_lanes: bool = False


_Value = Linear | _Pointer | _Block | None


def kernel_of(source: Source, text: str, name: str) -> tuple[ast.Module, ast.FunctionDef] | None:
    """Return the syntax tree of a text in Triton and its kernel; None if there is none of that name."""
    source.count_work(4 + len(text) // 2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return (tree, found[0]) if len(found) == 1 else None


def read_triton(source: Source, tree: ast.Module, kernel: ast.FunctionDef, numbers: Mapping[str, int]) -> KernelText:
    """Return the accesses of a kernel whose parameters that are no pointers have `numbers`. O(nodes)."""
    found = KernelText(is_in_order=False)
    try:
        _Kernel(source, tree, kernel, numbers, found).read()
    except UnreadError as error:
        found.unknown.append(f"line {error.line} of it has {error.what}")
    return found


class _Kernel:
    """A reader of one kernel."""

    def __init__(
        self, source: Source, tree: ast.Module, kernel: ast.FunctionDef, numbers: Mapping[str, int], found: KernelText
    ) -> None:
        self.source, self.tree, self.kernel, self.numbers, self.found = source, tree, kernel, numbers, found
        self.names: dict[str, _Value] = dict.fromkeys((*MODULES, *BUILTINS))
        self.programs: dict[int, KernelLoop] = {}
        self.lanes: dict[str, KernelLoop] = {}
        self.loops: tuple[KernelLoop, ...] = ()
        self.counters = self.block = 0
        self.is_any_program = False

    def read(self) -> None:
        """Read the module and its kernel."""
        for node in self.tree.body:
            self.source.count_work(1)
            match node:
                case ast.Import(names=names):
                    self.take_imports(node, [each.name for each in names], names)
                case ast.ImportFrom(module=str(module), names=names, level=0):
                    self.take_imports(node, [module], names)
                case ast.FunctionDef() if node is not self.kernel:
                    self.helper(node)
                case ast.FunctionDef():
                    self.decorators(node)
                case ast.Expr(value=ast.Constant()):
                    pass
                case ast.Expr(value=ast.Call(func=func, args=[], keywords=[])) if re.fullmatch(
                    r"triton_helpers\.set_driver_to_\w+", dotted_name(func)
                ):
                    pass
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant())
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant())
                ):
                    self.names[name] = self.constant(node)
                case _:
                    raise UnreadError(f"{type(node).__name__} outside of the kernel", line_number(node))
        for parameter in (*self.kernel.args.posonlyargs, *self.kernel.args.args, *self.kernel.args.kwonlyargs):
            name = parameter.arg
            number = self.numbers.get(name)
            if parameter.annotation is not None or name not in self.pointer_names():
                self.names[name] = unknown_number(name) if number is None else Linear(number)
            else:
                self.names[name] = _Pointer(name, Linear(0))
        self.statements(self.kernel.body)
        if self.is_any_program:
            self.programs[-1] = KernelLoop(self.counter(ANY))
        programs = tuple(self.programs[axis] for axis in sorted(self.programs))
        self.found.accesses[:] = [each._replace(loops=programs + each.loops) for each in self.found.accesses]

    def pointer_names(self) -> frozenset[str]:
        """Return the parameters that no number was given for, and that no annotation makes a number."""
        given = self.kernel.args
        return frozenset(
            each.arg
            for each in (*given.posonlyargs, *given.args)
            if each.annotation is None and each.arg not in self.numbers
        )

    def take_imports(self, node: ast.stmt, modules: list[str], names: list[ast.alias]) -> None:
        if not all(module.split(".")[0] in IMPORTED for module in modules):
            raise UnreadError(f"an import of {', '.join(modules)[:60]}", line_number(node))
        self.names |= dict.fromkeys((each.asname or each.name).split(".")[0] for each in names)

    def decorators(self, node: ast.FunctionDef) -> None:
        for each in node.decorator_list:
            name = dotted_name(each.func if isinstance(each, ast.Call) else each)
            if not name.startswith(("triton.", "triton_heuristics.")):
                raise UnreadError(f"the decorator {name[:40]}", line_number(each))

    def helper(self, node: ast.FunctionDef) -> None:
        """A function that combines values: it names nothing but them."""
        self.decorators(node)
        known = self.names.keys() | {each.arg for each in node.args.args}
        for each in ast.walk(node):
            self.source.count_work(1)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                known |= {each.id}
        for each in (part for statement in node.body for part in ast.walk(statement)):
            if isinstance(each, ast.Name) and each.id not in known:
                raise UnreadError(f"the name {each.id[:40]} in {node.name}", line_number(each))
            if (isinstance(each, ast.Attribute) and each.attr in ("load", "store")) or (
                isinstance(each, ast.Attribute) and each.attr.startswith("atomic")
            ):
                raise UnreadError(f"an access in {node.name}", line_number(each))
        self.names[node.name] = None

    def constant(self, node: ast.Assign | ast.AnnAssign) -> _Value:
        number = integer(node.value)
        return unknown_number(node.lineno) if number is None else Linear(number)

    def statements(self, body: list[ast.stmt]) -> None:
        """Read a list of statements, which is a block of its own."""
        outer, self.block = self.block, self.counters
        self.counters += 1
        for node in body:
            self.source.count_work(1)
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.names[name] = self.defined(name, value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.names[name] = self.defined(name, value)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                    self.value(value)
                    for target in targets:
                        if not isinstance(target, ast.Name):
                            raise UnreadError("an assignment to something other than a name", line_number(node))
                        self.names[target.id] = unknown_number((target.id, node.lineno))
                case ast.Expr(value=ast.Call() as call):
                    self.value(call)
                case ast.Expr(value=ast.Constant()) | ast.Pass():
                    pass
                case ast.For(target=ast.Name(id=name), iter=ast.Call() as call, orelse=[]):
                    self.loop(node, name, call)
                case _:
                    raise UnreadError(f"the statement {type(node).__name__}", line_number(node))
        self.block = outer

    def loop(self, node: ast.For, name: str, call: ast.Call) -> None:
        """`for r0_offset in tl.range(0, r0_numel, R0_BLOCK):`, whose steps are blocks."""
        if dotted_name(call.func) not in ("range", "tl.range", "tl.static_range") or not 1 <= len(call.args) <= 3:
            raise UnreadError("a loop over no range", line_number(node))
        for arg in (*call.args, *(keyword.value for keyword in call.keywords)):
            self.value(arg)
        by = call.args[2] if len(call.args) == 3 else None
        end = self.value(call.args[1 if len(call.args) > 1 else 0])
        size = end.constant if isinstance(end, Linear) and not end.terms else ANY
        loop = KernelLoop(self.counter(max(1, size)))
        outer = self.loops
        self.loops = (*outer, loop)
        if isinstance(by, ast.Name) and integer(call.args[0]) == 0:
            self.names[name] = _Block(by.id, loop=loop)
        else:
            self.names[name] = unknown_number((name, node.lineno))
        self.forget(node)
        self.statements(node.body)
        self.forget(node)
        self.loops = outer

    def forget(self, node: ast.For) -> None:
        """Forget what a loop's body assigns: before it is of another iteration, behind it of the last one."""
        for each in ast.walk(node):
            self.source.count_work(1)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each is not node.target:
                self.names[each.id] = unknown_number((each.id, node.lineno, len(self.found.accesses)))

    def counter(self, size: int) -> IndexVariable:
        self.counters += 1
        return IndexVariable(self.counters, size)

    def defined(self, name: str, value: ast.expr) -> _Value:
        """Return what a name is given: an index, or a value with the name as key."""
        found = self.value(value, name)
        return unknown_number((name, value.lineno)) if found is None else found

    def value(self, node: ast.expr, name: str = "") -> _Value:
        """Return what an expression is; None for a value of which only its name is known."""
        self.source.count_work(2)
        match node:
            case ast.Name(id=used):
                if used not in self.names:
                    raise UnreadError(f"the name {used[:40]}", line_number(node))
                return self.names[used]
            case ast.Constant():
                number = integer(node)
                return None if number is None else Linear(number)
            case ast.Subscript(value=base, slice=at):
                self.value(at)
                return self.value(base)
            case ast.BinOp(left=ast.Call() as left) if _program(left) == 1 and ast.unparse(node) == OF_TWO_AXES:
                return _Block(axis=1)
            case ast.BinOp(left=left, op=op, right=right):
                return self.compute_value(node, self.value(left), op, self.value(right), name)
            case ast.UnaryOp(op=op, operand=operand):
                found = self.no_pointer(node, self.value(operand))
                return found.times(-1) if isinstance(op, ast.USub) and isinstance(found, Linear) else None
            case ast.Call():
                return self.call(node)
            case ast.Attribute(value=base):
                self.no_pointer(node, self.value(base))
                return None
            case ast.Slice() | ast.Compare() | ast.Tuple() | ast.List() | ast.BoolOp() | ast.IfExp():
                for each in ast.iter_child_nodes(node):
                    if isinstance(each, ast.expr):
                        self.no_pointer(node, self.value(each))
                return None
        raise UnreadError(f"the expression {type(node).__name__}", line_number(node))

    @staticmethod
    def no_pointer(node: ast.AST, found: _Value) -> _Value:
        if isinstance(found, _Pointer):
            raise UnreadError(f"{found.name} in a form that is not known", line_number(node))
        return found

    def compute_value(self, node: ast.expr, one: _Value, op: ast.operator, other: _Value, name: str) -> _Value:
        """Return what an operator gives."""
        if isinstance(one, _Block) and one.axis >= 0 and not one.by and isinstance(op, ast.Mult):
            assert isinstance(node, ast.BinOp)
            if isinstance(node.right, ast.Name):
                return _Block(node.right.id, axis=one.axis)
        if isinstance(one, _Pointer) and isinstance(op, ast.Add):
            index = self.as_index(node, other, "")
            return _Pointer(one.name, one.index + (unknown_number(id(node)) if index is None else index))
        self.no_pointer(node, one)
        self.no_pointer(node, other)
        if isinstance(one, _Block) and isinstance(other, _Block) and isinstance(op, ast.Add):
            if one.by == other.by and not one.is_lanes and other.is_lanes:
                return self.whole(one, name)
            return None
        left, right = self.as_index(node, one, name), self.as_index(node, other, name)
        if left is None or right is None:
            return None
        match op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return multiply(left, right)
            case ast.FloorDiv() | ast.Mod() if left.bounds()[0] >= 0:  # Triton rounds towards 0
                found = floor_divided(left, right)
                if found is not None and isinstance(op, ast.Mod):
                    return left.plus(found, -right.constant)
                return found
        return None

    def whole(self, block: _Block, name: str) -> Linear:
        """Return the index that a block of a program or of a loop and its lanes are."""
        if block.loop is not None:
            return as_linear(block.loop.variable)
        if block.axis not in self.programs:
            self.programs[block.axis] = KernelLoop(self.counter(self.size(name)))
        return as_linear(self.programs[block.axis].variable)

    def size(self, name: str) -> int:
        """Return the elements of an index by its name: `xnumel` of `xindex`."""
        found = self.names.get(name.removesuffix("index") + "numel") if name.endswith("index") else None
        return max(1, found.constant) if isinstance(found, Linear) and not found.terms else ANY

    def as_index(self, node: ast.expr, found: _Value, name: str) -> Linear | None:
        """Return a value as an index: lanes of a block alone count its elements."""
        self.no_pointer(node, found)
        if not isinstance(found, _Block):
            return found if isinstance(found, Linear) else None
        if not found.is_lanes:
            self.is_any_program |= found.axis >= 0
            return unknown_number((found.by, found.axis, id(found.loop)))
        if found.by not in self.lanes:
            prefix = found.by.removesuffix("BLOCK").lower()
            size = self.names.get(f"{prefix}numel")
            most = max(1, size.constant) if isinstance(size, Linear) and not size.terms else ANY
            self.lanes[found.by] = KernelLoop(self.counter(most))
        return as_linear(self.lanes[found.by].variable)

    def call(self, node: ast.Call) -> _Value:
        """Return what a call gives. A load or a store is an access."""
        callee = dotted_name(node.func)
        if _program(node) is not None:
            return _Block(axis=_program(node) or 0)
        operands = [*node.args, *(keyword.value for keyword in node.keywords)]
        if callee == "tl.arange" and len(node.args) == 2 and integer(node.args[0]) == 0 and not node.keywords:
            by = node.args[1]
            return _Block(by.id, is_lanes=True) if isinstance(by, ast.Name) else None
        if callee in ("tl.load", "tl.store") or callee.startswith("tl.atomic_"):
            values = [self.value(each) for each in operands]
            if not node.args or not isinstance(values[0], _Pointer):
                raise UnreadError(f"{callee} of something other than a parameter", line_number(node))
            for each in values[1:]:
                self.no_pointer(node, each)
            is_atomic = callee.startswith("tl.atomic_")
            self.access(node, values[0], is_read=is_atomic or callee == "tl.load", is_write=callee != "tl.load")
            return None
        if isinstance(node.func, ast.Attribute) and callee.split(".")[0] not in MODULES:
            found = self.no_pointer(node, self.value(node.func.value))  # a method of a value
        elif callee.split(".")[0] in self.names:
            found = None
        else:
            raise UnreadError(f"a call of {callee[:40] or 'an expression'}", line_number(node))
        values = [self.no_pointer(node, self.value(each)) for each in operands]
        attribute = callee.rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        if attribute in SAME:
            same = values[0] if found is None and callee.startswith("tl.") and values else found
            return same if isinstance(same, _Block) and not same.by else self.as_index(node, same, "")
        if callee == "tl.full" and len(node.args) == 3 and isinstance(values[1], _Block):
            is_alone = values[1].axis >= 0 and self.names.get(values[1].by) == Linear(1)
            return self.whole(values[1], "xindex") if is_alone else None
        if callee == "tl.full" and len(node.args) == 3:
            return values[1] if isinstance(values[1], Linear) and "int" in ast.unparse(node.args[2]) else None
        return None

    def access(self, node: ast.Call, pointer: _Pointer, *, is_read: bool, is_write: bool) -> None:
        """Add an access: of a program's elements, and of those of a block that its index is of."""
        used = set(pointer.index.variables())
        loops = (*self.loops, *(loop for loop in self.lanes.values() if loop.variable in used))
        self.found.add(
            KernelAccess(pointer.name, pointer.index, 1, is_read, is_write, loops, self.block, {}, node.lineno)
        )


def _program(node: ast.Call) -> int | None:
    """Return the axis of `tl.program_id(axis)`, None of any other call."""
    arg = node.args[0] if node.args else next((each.value for each in node.keywords if each.arg == "axis"), None)
    return integer(arg) if dotted_name(node.func) == "tl.program_id" else None


def line_number(node: ast.AST) -> int:
    """Return the line of a node in the text."""
    return int(getattr(node, "lineno", 1))
