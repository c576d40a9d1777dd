"""Inductor's wrappers with `memory_planning=True`: pools, buffers in them, and calls of kernels.

A pool is an arena, a buffer a cell; `b = a  # reuse` is a new buffer in the bytes of `a`, which until it is written
holds what `a` holds, and `# alloc` one that holds nothing yet. What a kernel of the file reads and writes follows from
its signature; what another one writes, from `out=` and from names that end in `_`. spec: FP8.1 to FP8.10
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from proofs.readers.plans.cells import WHOLE, CellMemory, Pointer
from proofs.readers.plans.foreign_plan import ForeignPlan, kept_of_arms
from proofs.readers.plans.script import (
    Names,
    ScriptValue,
    bits,
    dotted,
    extent,
    integer,
    is_used_behind,
    last_uses,
    leave_arms,
    line_of,
    parsed,
    string,
)
from tmmu.core.output import list_names
from tmmu.core.source import Source
from tmmu.core.vocabulary import UINT64_END, Role
from tmmu.plans.reading import ACCESSES_WORKED_OUT, Reading

DOMAIN = "inductor"
FUNCTION = re.compile(r"call|partition_\d+", re.ASCII)
"""The functions of a wrapper that run kernels."""
C_KERNEL = re.compile(r'extern\s+"C"\s+(?:[\w:]+\s+){0,3}?void\s+\w+\s*\(([^()]*)\)', re.ASCII)
TRITON_KERNEL = re.compile(r"^def \w+\(([^()]*)\):", re.ASCII | re.MULTILINE)
IGNORED = re.compile(r"assert_\w+|args\.clear|print|.*\.(?:synchronize|set_device)|get_raw_stream|_check\w*", re.ASCII)
VIEWS = frozenset((
    "view", "as_strided", "reshape", "slice", "select", "t", "transpose", "permute", "expand", "squeeze", "unsqueeze",
    "detach", "alias", "view_as", "view_as_real", "view_as_complex", "split", "split_with_sizes", "unbind", "chunk",
    "real", "imag", "diagonal", "unfold", "narrow", "_reshape_alias", "dtype",
))  # fmt: skip
"""Operators of ATen whose result is in their operand's bytes, or can be."""
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
READ, WRITTEN, KEPT = "read", "written", "kept"
"""What a kernel does with a parameter: `KEPT` is one that it reads and writes."""


def read(source: Source) -> ForeignPlan:
    """The plan of a wrapper. Raises INVALID_PLAN with FILE and line. O(bytes)."""
    return _Wrapper(source).plan()


@dataclass
class _Touched:
    """What a call reads and writes."""

    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    keeps: list[int] = field(default_factory=list)


class _Wrapper:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.lines = source.text().split("\n")
        self.memory = CellMemory(source)
        self.kernels: dict[str, list[str]] = {}
        self.globals: set[str] = {"self", "args"}
        self.subgraphs: dict[str, ast.FunctionDef] = {}
        self.depth = 0
        self.control = 0
        self.loops = 0
        self.last: dict[str, int] = {}
        self.approximations: dict[str, None] = {}
        self.sizes: dict[str, tuple[int, int]] = {}
        self.numbers: dict[str, int] = {}
        self.symbols: dict[str, int] = {}
        self.widths: dict[int, int] = {}
        self.unsized: set[int] = set()
        self.items: dict[tuple[int, int], ScriptValue] = {}
        self.has_plan = False
        self.assumed: dict[str, None] = {WHOLE: None}
        self.outside: dict[str, str] = {}
        self.prefix = ""

    def plan(self) -> ForeignPlan:
        functions: dict[str, ast.FunctionDef] = {}
        for top in parsed(self.source).body:
            self.define(top)
            for node in top.body if isinstance(top, ast.ClassDef) else (top,):
                if isinstance(node, ast.FunctionDef) and FUNCTION.fullmatch(node.name):
                    if node.name in functions:
                        raise self.refuse(node, f"a second function {node.name}")
                    functions[node.name] = node
                elif isinstance(node, ast.FunctionDef) and node.name in ("get_args", "benchmark_compiled_module"):
                    self.measure(node)
                elif isinstance(node, ast.FunctionDef) and [each.arg for each in node.args.args] == ["args"]:
                    self.subgraphs[node.name] = node
        if "call" not in functions:
            raise self.source.refuse(
                "no function call(args) is in it", None, "use what Inductor writes as output_code.py"
            )
        for name, function in functions.items():
            self.prefix = f"{name}." if len(functions) > 1 else ""
            made = self.body(function, {})
            self.memory.returns(p.cell for p in made.every(self.source))
        if not self.has_plan:
            fix = "compile with torch._inductor.config.memory_planning = True"
            raise self.source.refuse("no buffer lies in a pool or in another's bytes: nothing is planned", None, fix)
        if len(functions) > 1:
            self.outside["calls between partitions"] = "each is a run of its own"
        if self.symbols:
            stated = list_names([f"{name} = {number}" for name, number in self.symbols.items()])
            self.assumed[f"sizes are those that get_args states: {stated}"] = None
        given = self.memory.donated()
        if given:
            self.assumed["what the wrapper writes of its arguments is meant to change"] = None
        if self.memory.joined:
            self.approximations[kept_of_arms(self.memory.joined)] = None
        reading = Reading(
            "Inductor wrapper",
            ACCESSES_WORKED_OUT,
            tuple(self.assumed),
            self.outside,
            tuple(self.approximations),
            given,
        )
        return ForeignPlan(self.memory.plan(), reading)

    def define(self, node: ast.stmt) -> None:
        """A name of the module: a kernel with its signature, or anything else."""
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            what = dotted(node.value.func)
            text: str | None = next((t for arg in reversed(node.value.args) if (t := string(arg)) is not None), None)
            named = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
            if what.startswith("async_compile.") and text is not None and named:
                self.kernels[named] = self.signature(node, text)
        for found in ast.walk(node) if isinstance(node, ast.Import | ast.ImportFrom | ast.Assign) else ():
            self.source.count_work(1)
            if isinstance(found, ast.alias):
                self.globals.add((found.asname or found.name).partition(".")[0])
            elif isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store):
                self.globals.add(found.id)

    def signature(self, node: ast.stmt, text: str) -> list[str]:
        """What a kernel does with each of its parameters. spec: FP8.4"""
        self.source.count_work(len(text) // 8)
        in_c = C_KERNEL.search(text)
        found = in_c or TRITON_KERNEL.search(text)
        if found is None:
            raise self.refuse(node, "a kernel without a signature in C or Triton")
        kinds = []
        for parameter in found[1].split(",") if found[1].strip() else ():
            words = parameter.replace("*", " * ").replace(":", " : ").split()
            name = words[-1] if in_c and words else words[0] if words else ""
            if name.startswith("in_out_ptr"):
                kinds.append(KEPT)
            elif in_c:
                kinds.append(WRITTEN if "*" in words and "const" not in words else READ)
            elif "constexpr" not in parameter:  # those are of the configuration that is launched
                kinds.append(WRITTEN if name.startswith(("out_ptr", "ws_ptr")) else READ)
        return kinds

    def measure(self, node: ast.FunctionDef) -> None:
        """The sizes of arguments: `arg1_1 = rand_strided((64, ), (1, ), device='cpu', dtype=torch.float32)`, or of a
        symbol that is one: `arg0_1 = 64`.
        """
        if not isinstance(node.body[-1], ast.Return):
            raise self.source.truncated_error(f"{node.name} ends without a return", line_of(node.body[-1]))
        for line in node.body:
            if not isinstance(line, ast.Assign) or not isinstance(line.targets[0], ast.Name):
                continue
            name, call, number = line.targets[0].id, line.value, integer(line.value)
            if number is not None:
                self.numbers[name] = number
            elif isinstance(call, ast.Call) and dotted(call.func) == "rand_strided" and len(call.args) == 2:
                dtype = next((k.value for k in call.keywords if k.arg == "dtype"), None)
                size = self.bytes(call.args[0], call.args[1], dtype, {})
                if size is not None:
                    self.sizes[name] = size, _width(dtype)

    def bytes(self, shape: ast.expr, strides: ast.expr, dtype: ast.expr | None, names: Names) -> int | None:
        """The bytes of a shape with strides; None where one is no number."""
        dims, steps, width = self.integers(shape, names), self.integers(strides, names), _width(dtype)
        if dims is None or width == 0 or steps is None or len(steps) != len(dims):
            return None
        return extent(dims, steps, width) if min((*dims, *steps), default=0) >= 0 else None

    def integers(self, node: ast.expr, names: Names) -> tuple[int, ...] | None:
        """The integers of a tuple; None where one is none."""
        if not isinstance(node, ast.Tuple | ast.List):
            return None
        found = [self.integer(item, names) for item in node.elts]
        return tuple(x for x in found if x is not None) if None not in found else None

    def integer(self, node: ast.expr, names: Names) -> int | None:
        """An integer, also of names that stand for one, as of symbolic sizes; None of any other. spec: FP8.10"""
        self.source.count_work(1)
        found: int | None = integer(node)
        match node:
            case ast.Name(id=name) if name in names:
                found = names[name].number
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                both = self.integer(left, names), self.integer(right, names)
                if both[0] is not None and both[1] is not None:
                    found = ARITHMETIC[type(op)](both[0], both[1])
            case ast.Call(func=ast.Name(id=callee), args=[first, *others]) if callee in FUNCTIONS:
                numbers = [number for each in (first, *others) if (number := self.integer(each, names)) is not None]
                found = FUNCTIONS[callee](numbers) if len(numbers) == 1 + len(others) else None
        return found if found is not None and abs(found) < UINT64_END else None

    def body(self, function: ast.FunctionDef, names: Names) -> ScriptValue:
        """The steps of a function; what it returns. spec: FP1.12"""
        outer = self.last, self.control, self.loops
        self.last, self.control, self.loops = last_uses(self.source, function), 0, 0
        made = self.block(function.body, names)
        self.last, self.control, self.loops = outer
        if made is None:
            raise self.source.truncated_error(f"{function.name} ends without a return", line_of(function.body[-1]))
        return made

    def block(self, body: list[ast.stmt], names: Names) -> ScriptValue | None:
        """The steps of a block; what it returns, None where it does not."""
        for k, node in enumerate(body):
            self.source.count_work(1)
            following = body[k + 1] if k + 1 < len(body) else None
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    names[name] = self.assigned(node, name, value, names)
                case ast.Assign(targets=[ast.Subscript() as item], value=value):
                    self.put(node, item, self.value(value, names, "item"), names)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                    self.unpack(node, targets, value, names)
                case ast.Expr(value=ast.Call() as call):
                    self.call(call, names, "")
                case ast.Delete(targets=targets):
                    for target in targets:
                        if not isinstance(target, ast.Name) or names.pop(target.id, None) is None:
                            raise self.refuse(node, "del of what is no buffer, or deleted already")
                case ast.Return(value=ast.expr() as value) if not self.control:
                    return self.value(value, names, "result")
                case ast.With():
                    made = self.block(node.body, names)
                    if made is not None:
                        return made
                case ast.If(orelse=[]) if isinstance(following, ast.While) and _is_otherwise(node.test, following.test):
                    self.loop(following, names, node.body)
                case ast.While() if k and _is_guard(body[k - 1], node):
                    pass
                case ast.While(orelse=[]):
                    self.loop(node, names, [])
                case ast.If():
                    self.arms(node, names)
                case ast.Return(value=None) if not self.control:
                    return ScriptValue()
                case ast.Raise() | ast.Pass() | ast.Expr(value=ast.Constant()) | ast.Global():
                    pass
                case _:
                    fix = "of control flow in a wrapper, conds, loops and calls of subgraphs are read"
                    word = type(node).__name__
                    what = f"an assignment, a call or a del was expected, got {word}"
                    raise self.refuse(node, what, fix, construct=f"statement {word}")
        return None

    def arms(self, node: ast.If, names: Names) -> None:
        """A cond: two exclusive arms; a name that both bind stands for what either made. spec: FP8.8"""
        self.begin("if", node.test, names)
        found = [dict(names), dict(names)]
        self.block(node.body, found[0])
        self.memory.arm()
        self.block(node.orelse, found[1])
        self.end(node, names, found)

    def loop(self, node: ast.While, names: Names, instead: list[ast.stmt]) -> None:
        """A loop: its condition and two iterations, or what stands in its stead where it does not run. spec: FP8.9"""
        self.assumed["iterations of a loop beyond the second are like the second"] = None
        if self.is_filled(instead, names):
            self.assumed["a loop that is given memory which nothing has written runs"] = None
            self.iterate(node, names)
            return
        self.begin("while", node.test, names)
        found = [dict(names), dict(names)]
        self.block(instead, found[0])
        self.memory.arm()
        self.iterate(node, found[1])
        self.end(node, names, found)

    def is_filled(self, instead: list[ast.stmt], names: Names) -> bool:
        """Whether what stands in a loop's stead would use memory that nothing has written."""
        for part in (part for statement in instead for part in ast.walk(statement)):
            self.source.count_work(1)
            found = names.get(part.id, ScriptValue()) if isinstance(part, ast.Name) else ScriptValue()
            cells = [pointer.cell for pointer in found.every(self.source)]
            if any(self.memory.held(cell) is None and self.memory.cells[cell].bytes for cell in cells):
                return True
        return False

    def iterate(self, node: ast.While, names: Names) -> None:
        """Two iterations, each with the condition that is read behind it. spec: FP8.9"""
        self.source.check_depth(self.depth)
        self.depth += 1
        self.control += 1
        self.loops += 1
        for _ in range(2):
            self.block(node.body, names)
            self.memory.step("while", (DOMAIN, "while"), self.cells(node.test, names), ())
        self.depth -= 1
        self.control -= 1
        self.loops -= 1

    def begin(self, what: str, test: ast.expr, names: Names) -> None:
        """Control flow in two arms, and the first of them."""
        self.source.check_depth(self.depth)
        self.memory.begin(what, (DOMAIN, what), self.cells(test, names))
        self.source.count_work(2 * len(names))
        self.depth += 1
        self.control += 1

    def end(self, node: ast.If | ast.While, names: Names, found: list[Names]) -> None:
        """The end of both arms. What they make is kept for names that are used behind them, or in another iteration."""
        self.depth -= 1
        self.control -= 1
        in_loop = self.loops > 0
        joined = leave_arms(self.memory, names, found, lambda name: in_loop or is_used_behind(node, name, self.last))
        for made, cells in joined.items():
            widths = {self.widths.get(cell, 0) for cell in cells}
            self.widths[made] = widths.pop() if len(widths) == 1 else 0
            if not self.unsized.isdisjoint(cells):
                self.unsized.add(made)

    def cells(self, node: ast.expr, names: Names) -> list[int]:
        """The cells that an expression reads."""
        return [pointer.cell for pointer in self.value(node, names, "").every(self.source)]

    def put(self, node: ast.AST, target: ast.Subscript, value: ScriptValue, names: Names) -> None:
        """`buf3[1] = …`: an item of a list, which is another list from here on."""
        at = integer(target.slice)
        if not isinstance(target.value, ast.Name) or at is None or target.value.id not in names:
            raise self.refuse(node, "expected an item of a list")
        old = names[target.value.id]
        self.source.count_work(len(old.items))
        names[target.value.id] = ScriptValue(old.pointers, old.items | {at: value})

    def subgraph(self, node: ast.Call, callee: str, names: Names) -> ScriptValue:
        """A call of a subgraph: its steps, with what it is given as `args`. spec: FP8.8"""
        self.source.check_depth(self.depth)
        if len(node.args) != 1:
            raise self.refuse(node, f"{callee} takes one list")
        self.depth += 1
        made = self.body(self.subgraphs[callee], {"args": self.value(node.args[0], names, callee)})
        self.depth -= 1
        return made

    def unpack(self, node: ast.Assign, targets: list[ast.expr], value: ast.expr, names: Names) -> None:
        """`arg0_1, arg1_1 = args`, or the items of what other code returns."""
        given = isinstance(value, ast.Name) and value.id not in names
        found = ScriptValue() if given else self.value(value, names, "result")
        for k, target in enumerate(targets):
            if isinstance(target, ast.Subscript) and not given:
                self.put(node, target, self.item(found, k, "item"), names)
                continue
            if not isinstance(target, ast.Name):
                raise self.refuse(node, "expected names")
            name = target.id
            if not given:
                names[name] = self.item(found, k, name)
                continue
            if name in self.numbers:
                names[name] = ScriptValue(number=self.numbers[name])
                self.symbols[name] = self.numbers[name]
                continue
            size, self.widths[len(self.memory.cells)] = self.sizes.get(name, (0, 0))
            cell = self.memory.own(self.prefix + name, size, role=Role.INPUT)
            if name not in self.sizes:
                self.unsized.add(cell)
                self.outside["sizes of arguments"] = "the file states no numbers"
            names[name] = ScriptValue((Pointer(cell, 0),))

    def assigned(self, node: ast.Assign, name: str, value: ast.expr, names: Names) -> ScriptValue:
        """A name for a value, or for a further buffer in its bytes where the line ends so. spec: FP8.2, FP8.3"""
        found = self.value(value, names, name)
        number = self.integer(value, names)
        if number is not None:
            if isinstance(value, ast.Name) and value.id in self.symbols:  # `s0 = arg0_1`
                self.symbols[name] = self.symbols.pop(value.id)
            return ScriptValue(number=number)
        comment = self.lines[(node.end_lineno or 1) - 1].rstrip()
        is_name = isinstance(value, ast.Name)
        is_view = isinstance(value, ast.Call) and dotted(value.func) in ("reinterpret_tensor", "torch.as_strided")
        is_reuse = is_view and comment.endswith("# reuse")
        if not (is_name or is_reuse) or len(found.pointers) != 1:
            return found
        (pointer,) = found.pointers
        old = self.memory.cells[pointer.cell]
        size = max(0, old.bytes - pointer.start)
        if isinstance(value, ast.Call) and pointer.cell not in self.unsized:
            start, end = self.viewed(value, self.widths[pointer.cell], names)
            size = end - start
        before = None if comment.endswith("# alloc") else pointer.cell
        offset = old.offset + pointer.start
        self.has_plan = True
        cell = self.memory.cell(self.prefix + name, old.arena, offset, size, before=before, place=line_of(node))
        self.widths[cell] = self.widths.get(pointer.cell, 0)
        if pointer.cell in self.unsized:
            self.unsized.add(cell)
        return ScriptValue((Pointer(cell, 0),))

    def value(self, node: ast.expr, names: Names, name: str) -> ScriptValue:
        """What an expression stands for; a call in it may be a step."""
        self.source.count_work(1)
        match node:
            case ast.Name(id=used):
                if used in names:
                    return names[used]
                if used not in self.globals:
                    raise self.refuse(node, f"no {used} is there: not assigned before, or deleted")
                return ScriptValue()
            case ast.Call():
                return self.call(node, names, name)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return ScriptValue(items={k: self.value(item, names, name) for k, item in enumerate(items)})
            case ast.Subscript(value=base, slice=at):
                k = integer(at)
                found = self.value(base, names, name)
                return found if k is None else self.item(found, k, name)
        parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return ScriptValue(tuple(p for part in parts for p in self.value(part, names, name).every(self.source)))

    def item(self, value: ScriptValue, k: int, name: str) -> ScriptValue:
        """An item of a tuple; of what other code returns, memory of its own that holds what the call has made."""
        if k in value.items:
            return value.items[k]
        if not value.pointers:
            return ScriptValue()
        key = value.pointers[0].cell, k
        if key not in self.items:
            cell = self.memory.own(self.prefix + name, 0)
            self.memory.cells[cell].before = key[0]
            self.unsized.add(cell)
            self.items[key] = ScriptValue((Pointer(cell, 0),))
        return self.items[key]

    def call(self, node: ast.Call, names: Names, name: str) -> ScriptValue:
        callee = dotted(node.func)
        if callee.startswith("empty_strided"):
            return self.pool(node, names, name)
        if callee == "alloc_from_pool":
            return self.buffer(node, names, name)
        if callee in ("reinterpret_tensor", "torch.as_strided"):
            return self.view(node, names, name)
        if callee == "assert_tensor_metadata":
            self.state(node, names)
            return ScriptValue()
        if IGNORED.fullmatch(callee):
            return ScriptValue()
        if callee in self.subgraphs:
            return self.subgraph(node, callee, names)
        kernel = callee.removesuffix(".run")
        if kernel in self.kernels:
            self.kernel_call(node, kernel, names)
            return ScriptValue()
        return self.other(node, callee, names, name)

    def state(self, node: ast.Call, names: Names) -> None:
        """`assert_tensor_metadata(buf2, shape, strides, dtype, …)`: the size of what other code has returned."""
        size = self.bytes(node.args[1], node.args[2], node.args[3], names) if len(node.args) > 3 else None
        for pointer in self.value(node.args[0], names, "").every(self.source) if size is not None else ():
            if pointer.cell in self.unsized:
                self.unsized.discard(pointer.cell)
                self.widths[pointer.cell] = _width(node.args[3])
                self.memory.grow(pointer.cell, pointer.start + (size or 0), line_of(node))

    def pool(self, node: ast.Call, names: Names, name: str) -> ScriptValue:
        """`empty_strided_cpu(shape, strides, dtype)`: memory of its own, a pool or a buffer."""
        options = {k.arg: k.value for k in node.keywords}
        dtype = node.args[2] if len(node.args) > 2 else options.get("dtype")
        size = self.bytes(node.args[0], node.args[1], dtype, names) if len(node.args) > 1 else None
        if size is None:
            raise self.refuse(node, "expected a shape and strides in numbers", DYNAMIC)
        label = self.prefix + name
        cell = self.memory.cell(label, self.memory.arena(label, size), 0, size, place=line_of(node))
        self.widths[cell] = _width(dtype)
        return ScriptValue((Pointer(cell, 0),))

    def buffer(self, node: ast.Call, names: Names, name: str) -> ScriptValue:
        """`alloc_from_pool(pool, offset, dtype, shape, strides)`; the offset is in bytes. spec: FP8.1"""
        base = self.value(node.args[0], names, name).pointers if len(node.args) == 5 else ()
        offset = self.integer(node.args[1], names) if base else None
        size = self.bytes(node.args[3], node.args[4], node.args[2], names) if base else None
        if len(base) != 1 or offset is None or offset < 0 or size is None:
            raise self.refuse(node, "expected a pool, an offset, a type, a shape and strides in numbers", DYNAMIC)
        self.has_plan = True
        pool = self.memory.cells[base[0].cell]
        at = pool.offset + base[0].start + offset
        cell = self.memory.cell(self.prefix + name, pool.arena, at, size, place=line_of(node))
        self.widths[cell] = _width(node.args[2])
        return ScriptValue((Pointer(cell, 0),))

    def view(self, node: ast.Call, names: Names, name: str) -> ScriptValue:
        """`reinterpret_tensor(buffer, shape, strides, offset)`; the offset is in elements. spec: FP8.5"""
        base = self.value(node.args[0], names, name) if node.args else ScriptValue()
        is_known = len(node.args) < 4 or self.integer(node.args[3], names) is not None
        if not is_known:
            self.value(node.args[3], names, "")  # refused where it names what is not there
            self.approximations["a view at an offset that is not a number counts as all of its buffer"] = None
            self.outside["ends of views at offsets that are no numbers"] = "they follow from what the program computes"
        found = []
        for pointer in base.every(self.source):
            if pointer.cell in self.unsized or not is_known:
                found.append(pointer)
                continue
            start, end = self.viewed(node, self.widths[pointer.cell], names)
            self.memory.grow(pointer.cell, pointer.start + end, line_of(node))
            found.append(Pointer(pointer.cell, pointer.start + start))
        return ScriptValue(tuple(found))

    def viewed(self, node: ast.Call, width: int, names: Names) -> tuple[int, int]:
        """The bytes of its operand at which a view begins and ends."""
        shape, strides = (self.integers(arg, names) for arg in node.args[1:3]) if len(node.args) > 2 else (None, None)
        offset = self.integer(node.args[3], names) if len(node.args) > 3 else 0
        if shape is None or strides is None or offset is None or len(shape) != len(strides):
            raise self.refuse(node, "expected a shape, strides and an offset in numbers", DYNAMIC)
        if min((*shape, *strides, offset)) < 0:
            raise self.refuse(node, "a shape, stride or offset below 0")
        start = offset * width // 8
        return start, start + extent(shape, strides, width)

    def kernel_call(self, node: ast.Call, kernel: str, names: Names) -> None:
        """A call of a kernel of the file: a step. spec: FP8.4"""
        kinds, touched = self.kernels[kernel], _Touched()
        if len(node.args) < len(kinds) and not any(k.arg for k in node.keywords):
            raise self.refuse(node, f"{kernel} takes {len(kinds)} operands, got {len(node.args)}")
        either: list[int] = []
        for k, arg in enumerate(node.args):
            cells = self.cells(arg, names)
            kind = kinds[k] if k < len(kinds) else READ
            either += _one_of(cells) if kind != READ else ()
            {READ: touched.reads, WRITTEN: touched.writes, KEPT: touched.keeps}[kind].extend(cells)
        # A kernel of several loops reads by one parameter what it has written by others.
        made = {cell for cell in touched.writes if self.memory.held(cell) is None}
        touched.reads = [cell for cell in touched.reads if cell not in made] + either
        self.step(kernel, touched)

    def other(self, node: ast.Call, callee: str, names: Names, name: str) -> ScriptValue:
        """A call of other code: it reads its operands, writes `out=`, and changes the first where its name says so.
        spec: FP8.6
        """
        touched = _Touched()
        parts = callee.split(".")
        op = next((part for part in reversed(parts) if part not in ("default", "Tensor", "out")), callee)
        inplace = op.endswith("_") and not op.endswith("__")
        receiver = names.get(parts[0]) if len(parts) > 1 else None
        operands = [self.value(arg, names, "") for arg in node.args]
        operands = ([receiver] if receiver is not None else []) + operands
        for k, operand in enumerate(operands):
            cells = [p.cell for p in operand.every(self.source)]
            (touched.keeps if inplace and k == 0 else touched.reads).extend(cells)
            touched.reads += _one_of(cells) if inplace and k == 0 else ()
        for keyword in node.keywords:
            cells = self.cells(keyword.value, names)
            (touched.writes if keyword.arg == "out" or keyword.arg == "outs" else touched.reads).extend(cells)
            touched.reads += _one_of(cells) if keyword.arg == "out" else ()
        pointers = tuple(dict.fromkeys(p for operand in operands for p in operand.every(self.source)))
        if not pointers and not touched.writes and not touched.reads:
            return ScriptValue()
        label = callee or "a call"
        if op in VIEWS:
            self.assumed[f"{label} shows its operand's bytes"] = None
            return ScriptValue(pointers)
        self.assumed[
            f"{label} writes {'its first operand' if inplace else 'what out= names'} and returns memory of its own"
        ] = None
        if not name or inplace:
            self.step(label, touched)
            return ScriptValue(pointers[:1]) if inplace else ScriptValue()
        cell = self.memory.own(self.prefix + name, 0)
        self.unsized.add(cell)
        touched.writes.append(cell)
        self.step(label, touched)
        return ScriptValue((Pointer(cell, 0),))

    def step(self, what: str, touched: _Touched) -> None:
        self.memory.step(what, (DOMAIN, what), touched.reads, touched.writes, touched.keeps)

    def refuse(self, node: ast.AST, what: str, fix: str | None = None, *, construct: str = "") -> Exception:
        return self.source.refuse(what, line_of(node), fix, construct=construct)


def _one_of(cells: list[int]) -> list[int]:
    """Of several, one is written, and nothing says which: what was there before stays in part. spec: FP1.14"""
    return cells if len(cells) > 1 else []


def _is_otherwise(test: ast.expr, other: ast.expr) -> bool:
    """Whether a test is `not` of another one, which is a name."""
    return (
        isinstance(test, ast.UnaryOp)
        and isinstance(test.op, ast.Not)
        and isinstance(other, ast.Name)
        and isinstance(test.operand, ast.Name)
        and test.operand.id == other.id
    )


def _is_guard(node: ast.stmt, loop: ast.While) -> bool:
    """Whether a statement states what holds where the loop behind it does not run."""
    return isinstance(node, ast.If) and not node.orelse and _is_otherwise(node.test, loop.test)


def _width(dtype: ast.expr | None) -> int:
    """The bits of `torch.float32`; 0 where they are not known."""
    return 0 if dtype is None else bits(dotted(dtype).removeprefix("torch.")) or 0
