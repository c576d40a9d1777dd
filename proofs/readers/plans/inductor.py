"""Inductor's wrappers with `memory_planning=True`: pools, buffers in them, and calls of kernels.

A pool is an arena, a buffer a cell; `b = a  # reuse` is a new buffer in the bytes of `a`, which until it is written
holds what `a` holds, and `# alloc` one that holds nothing yet. `inductor_module` reads what is outside of functions,
`inductor_calls` the calls, `inductor_kernels` what a kernel of the file reads and writes; here are the statements of
functions. A statement or an expression that is not known is refused. spec: FP8.1 to FP8.16
"""

from __future__ import annotations

import ast
import re

from proofs.readers.plans.cells import Pointer
from proofs.readers.plans.foreign_plan import ForeignPlan, describe_branch_names
from proofs.readers.plans.inductor_calls import Calls
from proofs.readers.plans.inductor_memory import DOMAIN, width_of
from proofs.readers.plans.inductor_module import InductorModule
from proofs.readers.plans.script import (
    Names,
    ScriptValue,
    dotted_name,
    integer,
    is_used_behind,
    last_uses,
    leave_arms,
    line_of,
    parse_script,
)
from tmmu.core.output import list_names
from tmmu.core.source import Source
from tmmu.core.streams import Lanes
from tmmu.core.vocabulary import Role
from tmmu.plans.reading import ACCESSES_WORKED_OUT, Reading

REUSE = re.compile(r"#\s*reuse\Z")
ALLOC = re.compile(r"#\s*alloc\Z")
CONTEXTS = re.compile(r"torch\.\w+\._?(?:DeviceGuard|device)\(\d+\)|record_function\('[^'\\]*'\)", re.ASCII)
"""What a block may be run in: a device, or a name for a profile. One with streams is refused."""
SHAPES = frozenset(("shape", "dtype", "device", "layout", "ndim"))
SAME = frozenset(("data", "T", "mT"))
"""Attributes of a tensor that state its shape, and those that are the tensor in its bytes."""
FIX = "of control flow in a wrapper, conds, loops and calls of subgraphs are read"


def read(source: Source) -> ForeignPlan:
    """The plan of a wrapper. Raises INVALID_PLAN with FILE and line. O(bytes)."""
    return _Wrapper(source).plan()


class _Wrapper(Calls):
    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.lines = source.text().split("\n")
        self.module = InductorModule(source, parse_script(source))
        self.depth = 0
        self.control = 0
        self.loops = 0
        self.last: dict[str, int] = {}
        self.sizes: dict[str, tuple[int, int]] = {}
        self.numbers: dict[str, int] = {}
        self.symbols: dict[str, int] = {}
        self.items: dict[tuple[int, int], ScriptValue] = {}
        self.run: set[str] = set()

    def plan(self) -> ForeignPlan:
        module = self.module
        module.read()
        self.kernels, self.started, self.lanes = module.kernels, [], Lanes()
        self.subgraphs = module.subgraphs | {
            f"partition_{k}": module.functions[name]
            for k, name in enumerate(module.partitions)
            if name in module.functions
        }
        self.modules = frozenset((*module.names, *module.kernels, "self", "args"))
        for node in module.sized:
            self.measure(node)
        # Inductor's `call` runs the partitions that it has; any other is a run of its own.
        self.run_alone("call")
        for name in module.functions.keys() - self.run:
            self.run_alone(name)
        if not self.has_plan:
            fix = "compile with torch._inductor.config.memory_planning = True"
            raise self.source.refuse("no buffer lies in a pool or in another's bytes: nothing is planned", None, fix)
        for each in self.started:
            self.leave_undecided("collective", each.node, f"{each.label} is not waited for")
        if self.symbols:
            stated = list_names([f"{name} = {number}" for name, number in self.symbols.items()])
            self.assumed[f"sizes are those that get_args states: {stated}"] = None
        given = self.memory.donated()
        if given:
            self.assumed["what the wrapper writes of its arguments is meant to change"] = None
        if self.memory.joined:
            self.approximations[describe_branch_names(self.memory.joined)] = None
        reading = Reading(
            "Inductor wrapper",
            ACCESSES_WORKED_OUT,
            tuple(self.assumed),
            self.outside,
            tuple(self.approximations),
            given,
            self.denied,
            tuple(self.undecided),
        )
        return ForeignPlan(self.memory.plan(), reading)

    def run_alone(self, name: str) -> None:
        """The steps of a function that the caller runs."""
        functions = self.module.functions
        if name != "call":
            self.outside["calls between partitions"] = "each is a run of its own"
        self.prefix = f"{name}." if len(functions) > 1 else ""
        self.run.add(name)
        made = self.body(functions[name], {})
        self.memory.returns(p.cell for p in made.every(self.source))

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
            elif isinstance(call, ast.Call) and dotted_name(call.func) == "rand_strided" and len(call.args) == 2:
                dtype = next((k.value for k in call.keywords if k.arg == "dtype"), None)
                size = self.bytes(call.args[0], call.args[1], dtype, {})
                if size is not None:
                    self.sizes[name] = size, width_of(dtype)

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
        """The steps of a block; what it returns, None where it does not. spec: FP8.16"""
        for k, node in enumerate(body):
            self.source.count_work(1)
            following = body[k + 1] if k + 1 < len(body) else None
            made = None
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.is_alone(node, body, k)
                    names[name] = self.assigned(node, name, value, names)
                case ast.Assign(targets=[ast.Subscript() as item], value=value):
                    self.put(node, item, self.value(value, names, "item"), names)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                    self.unpack(node, targets, value, names)
                case ast.Expr(value=ast.Call() as call):
                    self.call(call, names, "")
                case ast.Expr(value=ast.Constant()) | ast.Pass():
                    pass
                case ast.Delete(targets=targets):
                    for target in targets:
                        if not isinstance(target, ast.Name) or names.pop(target.id, None) is None:
                            raise self.refuse(node, "del of what is not a buffer, or deleted already")
                case ast.Return(value=value) if not self.control:
                    made = self.value(value, names, "result") if value is not None else ScriptValue()
                case ast.With(items=items) if all(
                    each.optional_vars is None and CONTEXTS.fullmatch(ast.unparse(each.context_expr)) for each in items
                ):
                    made = self.block(node.body, names)
                case ast.If(orelse=[]) if isinstance(following, ast.While) and _is_otherwise(node.test, following.test):
                    self.loop(following, names, node.body)
                case ast.While() if k and _is_guard(body[k - 1], node):
                    pass
                case ast.While(orelse=[]):
                    self.loop(node, names, [])
                case ast.If():
                    self.arms(node, names)
                case _:
                    word = type(node).__name__
                    what = f"an assignment, a call or a del was expected, got {word}"
                    raise self.refuse(node, what, FIX, construct=f"statement {word}")
            if made is not None:
                if following is not None:
                    raise self.refuse(following, "a statement behind a return", FIX)
                return made
        return None

    def is_alone(self, node: ast.Assign, body: list[ast.stmt], k: int) -> None:
        """Check that a line has one assignment: `b = a; del a  # reuse` has one, with what the comment is on."""
        for other in body[max(0, k - 1) : k + 2]:
            is_there = other.lineno <= (node.end_lineno or 0) and (other.end_lineno or 0) >= node.lineno
            if other is not node and is_there and not isinstance(other, ast.Delete):
                raise self.refuse(node, "two statements on a line", "write each on its own line")

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
            self.memory.step("while", (DOMAIN, "while"), self.read_condition(node.test, names), ())
        self.depth -= 1
        self.control -= 1
        self.loops -= 1

    def begin(self, what: str, test: ast.expr, names: Names) -> None:
        """Control flow in two arms, and the first of them."""
        self.source.check_depth(self.depth)
        self.begin_branches(what, self.read_condition(test, names))
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

    def read_condition(self, node: ast.expr, names: Names) -> list[int]:
        """The cells that a condition reads: names, numbers, comparisons and what combines them."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.read_condition(operand, names)
            case ast.Compare(left=left, comparators=others) | ast.BoolOp(values=[left, *others]):
                return [cell for each in (left, *others) for cell in self.read_condition(each, names)]
        return self.cells(node, names)

    def put(self, node: ast.AST, target: ast.Subscript, value: ScriptValue, names: Names) -> None:
        """`buf3[1] = …`: an item of a list, which is another list from here on, or an assignment into a tensor."""
        at = integer(target.slice)
        if not isinstance(target.value, ast.Name) or target.value.id not in names:
            raise self.refuse(node, "expected an item of a list")
        old = names[target.value.id]
        if old.pointers:
            read = [p.cell for p in value.every(self.source)] + self.cells(target.slice, names)
            self.memory_written("item assignment", read, [p.cell for p in old.pointers])
            return
        if at is None:
            raise self.refuse(node, "expected an item of a list")
        self.source.count_work(len(old.items))
        names[target.value.id] = ScriptValue(old.pointers, old.items | {at: value})

    def subgraph(self, node: ast.Call, callee: str, names: Names) -> ScriptValue:
        """A call of a subgraph: its steps, with what it is given as `args`. spec: FP8.8"""
        self.source.check_depth(self.depth)
        if callee not in self.subgraphs or len(node.args) != 1 or node.keywords:
            raise self.refuse(node, f"{callee} is not a function that takes one list")
        function = self.subgraphs[callee]
        self.run.add(function.name)
        self.depth += 1
        made = self.body(function, {"args": self.value(node.args[0], names, callee)})
        self.depth -= 1
        return made

    def unpack(self, node: ast.Assign, targets: list[ast.expr], value: ast.expr, names: Names) -> None:
        """`arg0_1, arg1_1 = args`, or the items of what other code returns."""
        given = isinstance(value, ast.Name) and value.id == "args" and "args" not in names
        found = ScriptValue() if given else self.value(value, names, "result")
        for k, target in enumerate(targets):
            if isinstance(target, ast.Subscript) and not given:
                self.put(node, target, self.item(node, found, k, "item"), names)
                continue
            if not isinstance(target, ast.Name):
                raise self.refuse(node, "expected names")
            name = target.id
            if not given:
                names[name] = self.item(node, found, k, name)
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
        is_view = isinstance(value, ast.Call) and dotted_name(value.func) in ("reinterpret_tensor", "torch.as_strided")
        is_reuse = is_view and REUSE.search(comment) is not None
        if not (is_name or is_reuse) or len(found.pointers) != 1:
            return found
        (pointer,) = found.pointers
        old = self.memory.cells[pointer.cell]
        size = max(0, old.bytes - pointer.start)
        width = self.widths.get(pointer.cell, 0) if found.width is None else found.width
        if isinstance(value, ast.Call) and pointer.cell not in self.unsized:
            start, end = self.view_bytes(value, value.args[1:], width, names)
            size = end - start
        before = None if ALLOC.search(comment) else pointer.cell
        offset = old.offset + pointer.start
        self.has_plan = True
        cell = self.memory.cell(self.prefix + name, old.arena, offset, size, before=before, place=line_of(node))
        self.widths[cell] = width
        if pointer.cell in self.unsized:
            self.unsized.add(cell)
        return ScriptValue((Pointer(cell, 0),))

    def value(self, node: ast.expr, names: Names, name: str) -> ScriptValue:
        """What an expression stands for; a call in it may be a step. Refused if it is not known. spec: FP8.16"""
        self.source.count_work(1)
        match node:
            case ast.Name(id=used):
                if used in names:
                    return names[used]
                if used not in self.modules and used not in self.subgraphs:
                    raise self.refuse(node, f"no {used} is there: not assigned before, or deleted")
                return ScriptValue()
            case ast.Constant():
                return ScriptValue(number=integer(node))
            case ast.Call():
                return self.call(node, names, name)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return ScriptValue(items={k: self.value(item, names, name) for k, item in enumerate(items)})
            case ast.Subscript(value=base, slice=at) if (k := integer(at)) is not None:
                return self.item(node, self.value(base, names, name), k, name)
            case ast.Attribute(value=base, attr=attribute):
                return self.attribute(node, self.value(base, names, name), attribute)
            case ast.BinOp(left=ast.List(elts=[ast.Constant(value=None)]), op=ast.Mult(), right=ast.Constant()):
                return ScriptValue()  # `[None] * 2`
            case ast.BinOp(left=left, right=right):
                number = self.integer(node, names)
                if number is not None:
                    return ScriptValue(number=number)
                return self.made("arithmetic", [self.value(each, names, "") for each in (left, right)], name)
            case ast.UnaryOp(operand=operand):
                number = self.integer(node, names)
                if number is not None:
                    return ScriptValue(number=number)
                return self.made("arithmetic", [self.value(operand, names, "")], name)
            case ast.Compare() | ast.BoolOp() | ast.IfExp():
                parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
                return self.made("arithmetic", [self.value(each, names, "") for each in parts], name)
        what = f"an expression that is not known: {ast.unparse(node)[:60]}"
        raise self.refuse(node, what, FIX, construct=f"expression {type(node).__name__}")

    def attribute(self, node: ast.Attribute, base: ScriptValue, attribute: str) -> ScriptValue:
        """An attribute of a module, or of a tensor: its shape, or itself."""
        if (not base.pointers and not base.items) or attribute in SHAPES:
            return ScriptValue()
        if attribute not in SAME:
            what = f"the attribute {attribute} is not known"
            raise self.refuse(node, what, "use what Inductor writes", construct=f"attribute {attribute}")
        return base

    def item(self, node: ast.AST, value: ScriptValue, k: int, name: str) -> ScriptValue:
        """An item of a tuple; of what other code returns, memory of its own that holds what the call has made."""
        if k in value.items:
            return value.items[k]
        if value.items and k < 0:
            raise self.refuse(node, "an item that is counted from the end", "use what Inductor writes")
        if not value.pointers:
            return ScriptValue()
        if any(pointer.cell not in self.unsized for pointer in value.pointers):
            return ScriptValue(value.pointers, width=value.width)  # a part of a tensor
        key = value.pointers[0].cell, k
        if key not in self.items:
            self.items[key] = self.own(name, before=key[0])
        return self.items[key]


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
