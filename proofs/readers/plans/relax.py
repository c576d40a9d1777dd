"""TVM Relax scripts after `StaticPlanBlockMemory`: storages, tensors at their offsets, and calls of kernels.

A storage is an arena, and a tensor in it a cell. The operands that a call writes are found in the body of the kernel,
which the script has. Bindings, tuples, reshapes and casts are pointers to the same cell. The branches of an If are
exclusive; the values that a name has in either branch are kept. Statements, expressions and calls are of a closed list.
spec: FP1.15, FP1.16, FP7.1 to FP7.14
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from proofs.readers.plans.cells import WHOLE, CellMemory, Pointer
from proofs.readers.plans.foreign_plan import ForeignPlan, describe_branch_names
from proofs.readers.plans.relax_kernels import Kernel, check_signature, read_kernel
from proofs.readers.plans.script import (
    Names,
    ScriptValue,
    bits,
    dotted_name,
    extent,
    integer,
    integers,
    is_used_behind,
    last_uses,
    leave_arms,
    line_of,
    parse_script,
    string,
)
from tmmu.core.source import Source
from tmmu.core.vocabulary import Role
from tmmu.plans.reading import ACCESSES_WORKED_OUT, Reading, UndecidedConstruct

TITLE = "TVM Relax script"
DOMAIN = "tvm"
SAME = frozenset(("R.match_cast", "R.reshape", "R.memory.view", "R.memory.ensure_zero_offset", "R.vm.match_shape"))
"""Calls whose result is in their first operand's bytes."""
VIEW, VIEW_OFFSET = "runtime.TVMTensorCreateView", 3
"""A view by its packed name, and the number of its operand, and of `R.memory.view`'s, that is the offset in bytes."""
SAME_PACKED = frozenset(("vm.builtin.reshape", "vm.builtin.ensure_zero_offset", VIEW))
KILLS = frozenset(("R.memory.kill_tensor", "R.memory.kill_storage", "R.vm.kill_object"))
SHOWN = frozenset(("R.assert_op", "R.print"))
"""Calls that read their operands and do nothing else."""
UNPLANNED = frozenset(("R.call_tir", "R.call_dps_packed"))
"""Calls that make a new tensor, which no plan places."""
OTHER_CODE = frozenset((
    "R.call_packed", "R.call_pure_packed", "R.call_builtin_with_ctx", "R.make_closure", "R.invoke_closure",
    "R.invoke_pure_closure", "R.vm.call_tir_dyn", "R.shape_of", "R.tensor_to_shape", "R.shape_to_tensor",
    "R.to_vdevice", "R.hint_on_device",
))  # fmt: skip
"""Calls of code that is not in the module."""
PACKED = frozenset(("R.call_packed", "R.call_pure_packed", "R.call_builtin_with_ctx", "R.call_dps_packed"))
"""Calls whose first operand is the name of the code that they call."""
OF_TYPES = frozenset(("ty_args", "sinfo_args", "out_sinfo", "out_ty", "dtype", "ndim", "vdevice"))
"""Keywords of calls that state types, and never operands."""
TYPES = frozenset((
    "R.shape", "R.prim_value", "R.dtype", "R.str", "R.Tensor", "R.Tuple", "R.Shape", "R.Prim", "R.Object", "R.Any",
    "R.Callable", "R.null_value",
))  # fmt: skip
"""Calls that state types, shapes and numbers."""
SCALAR = re.compile(
    r"T\.(?:u?int\d+|b?float\d+(?:_?e\d+m\d+\w*)?|bool|max|min|abs|ceildiv|floordiv|floormod|truncdiv|truncmod|[Cc]ast|Select"
    r"|if_then_else|Not|And|Or|shift_left|shift_right|bitwise_\w+)", re.ASCII,
)  # fmt: skip
"""Calls that compute a number."""
SCALARS = (
    ast.Constant, ast.Name, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple,
    ast.List, ast.Dict, ast.Call, ast.keyword, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip
"""The parts of expressions without memory."""
OF_MODULES = frozenset(("I.module_attrs", "I.module_global_infos"))
OF_FILES = frozenset(("TypeVar", "T.Var", "tvm.ir.load_json"))
"""Calls whose results a file may assign to names."""
FLAGS = frozenset(("private", "pure", "s_tir", "check_well_formed"))
"""The keywords of decorators."""
IMPORTED = ("tvm", "typing", "__future__")


def read(source: Source) -> ForeignPlan:
    """Return the plan of all Relax functions of a script. Raises INVALID_PLAN with FILE and line. O(bytes)."""
    return _Module(source).plan()


class _Module:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.memory = CellMemory(source)
        self.kernels: dict[str, Kernel] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        self.prefix = ""
        self.approximations: dict[str, None] = {}
        self.assumed: dict[str, None] = {WHOLE: None}
        self.outside: dict[str, str] = {}
        self.storages: dict[int, int] = {}
        self.killed: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.in_arms: dict[str, tuple[int, ScriptValue]] = {}
        self.constants: dict[str, ScriptValue] = {}
        self.undecided: dict[UndecidedConstruct, None] = {}
        self.title = "cls"
        self.symbols: set[str] = set()

    def plan(self) -> ForeignPlan:
        for top in parse_script(self.source).body:
            if isinstance(top, ast.ClassDef):
                if (
                    self.title != "cls"
                    or [*map(_decorator, top.decorator_list)] != ["I.ir_module"]
                    or top.bases
                    or top.keywords
                ):
                    raise self.refuse(top, "expected one class, decorated with I.ir_module")
                self.title = top.name
                for node in top.body:
                    self.member(node)
            else:
                self.member(top)
        if not self.functions:
            raise self.source.refuse("no Relax function is in it", None, "print the whole module: mod.script()")
        for name, function in self.functions.items():
            self.prefix = f"{name}." if len(self.functions) > 1 else ""
            self.function(function)
        if not self.storages:
            fix = "print the module after StaticPlanBlockMemory"
            raise self.source.refuse("no storage is allocated: nothing is planned", None, fix)
        if len(self.functions) > 1:
            self.outside["calls between functions"] = "each function is a separate run"
        if self.memory.joined:
            self.approximations[describe_branch_names(self.memory.joined)] = None
        reading = Reading(
            TITLE, ACCESSES_WORKED_OUT, tuple(self.assumed), self.outside, tuple(self.approximations),
            self.memory.donated(), undecided=tuple(self.undecided),
        )  # fmt: skip
        return ForeignPlan(self.memory.plan(), reading)

    def member(self, node: ast.stmt) -> None:
        """Read a statement of the file or of the module's class: a function, or one without memory."""
        match node:
            case ast.FunctionDef():
                kinds = [*map(_decorator, node.decorator_list)]
                if node.name in self.kernels or node.name in self.functions:
                    raise self.refuse(node, f"a second function {node.name}")
                if kinds == ["R.function"]:
                    check_signature(self.source, node)
                    self.functions[node.name] = node
                elif kinds == ["T.prim_func"]:
                    self.kernels[node.name] = read_kernel(self.source, node, frozenset(self.symbols))
                else:
                    raise self.refuse(node, f"{node.name} is neither an R.function nor a T.prim_func")
            case ast.Import(names=names) if all(name.name.split(".")[0] in IMPORTED for name in names):
                pass
            case ast.ImportFrom(module=str(module), level=0) if module.split(".")[0] in IMPORTED:
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(keywords=[]) as call) if (
                dotted_name(call.func) in OF_FILES
            ):
                self.check_scalar(call, {}, OF_FILES)
                self.symbols.add(name)
            case ast.Expr(value=ast.Call(keywords=[]) as call) if dotted_name(call.func) in OF_MODULES:
                self.check_scalar(call, {}, OF_MODULES | frozenset(("I.vdevice", "I.dummy_global_info")))
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                word = type(node).__name__
                what = f"a function of a module was expected, got {word}"
                raise self.refuse(node, what, construct=f"statement {word}")

    def function(self, node: ast.FunctionDef) -> None:
        names: Names = {}
        self.killed, self.in_arms, self.last = {}, {}, last_uses(self.source, node)
        for arg in node.args.args:
            if arg.annotation is None:
                raise self.refuse(arg, f"{arg.arg} has no type")
            self.check_type(arg.annotation)
            names[arg.arg] = self.parameter(arg.arg, arg.annotation)
        self.check_type(node.returns)
        last = node.body[-1]
        self.block(node.body[:-1], names, 0)
        if not isinstance(last, ast.Return) or last.value is None:
            self.statement(last, names, 0)
            raise self.source.truncated_error(f"{node.name} ends without a return", line_of(last))
        found = self.value(last.value, names, "the result", None)
        self.memory.returns(p.cell for p in found.every(self.source))

    def check_type(self, node: ast.expr | None) -> None:
        """Check that an annotation is a type."""
        if node is not None:
            self.check_scalar(node, {})

    def check_scalar(self, node: ast.AST, names: Names, calls: frozenset[str] = TYPES) -> None:
        """Check that an expression states numbers, strings, types and shapes, and nothing of memory. spec: FP7.14"""
        for part in ast.walk(node):
            self.source.count_work(1)
            if isinstance(part, ast.Name) and part.id in names and names[part.id].every(self.source):
                raise self.refuse(node, f"{part.id} is used in an expression that is not read")
            callee = dotted_name(part.func) if isinstance(part, ast.Call) else ""
            is_known = not isinstance(part, ast.Call) or callee in calls or callee in TYPES or SCALAR.fullmatch(callee)
            if not isinstance(part, SCALARS) or not is_known or (isinstance(part, ast.keyword) and part.arg is None):
                what = f"a call of {callee or 'an expression'}" if isinstance(part, ast.Call) else type(part).__name__
                raise self.refuse(node, f"an expression of Relax was expected, got {what}")
            named = dotted_name(part) if isinstance(part, ast.Attribute) else ""
            if named.startswith(("cls.", f"{self.title}.")):
                self.local(part)
            elif (
                named and not SCALAR.fullmatch(named) and not any(f"{each}.".startswith(f"{named}.") for each in calls)
            ):
                raise self.refuse(node, f"{named} is neither a type nor a size")
            if callee in ("R.Tensor", "R.dtype"):
                self.check_dtype(part)

    def check_dtype(self, call: ast.AST) -> None:
        """Check that the type of an element is one whose width is known."""
        assert isinstance(call, ast.Call)
        given = [keyword.value for keyword in call.keywords if keyword.arg == "dtype"]
        for dtype in (*given, *(call.args if dotted_name(call.func) == "R.dtype" else ())):
            if bits(string(dtype) or "") is None:
                raise self.refuse(call, f"{ast.unparse(dtype)[:40]} is not an element type")

    def local(self, node: ast.AST) -> str:
        """Return the name of the function of the module that an expression such as `cls.name` denotes."""
        root, _, name = dotted_name(node).partition(".")
        if root not in ("cls", self.title) or (name not in self.kernels and name not in self.functions):
            what = f"{ast.unparse(node)[:40]} is not a function of this module"
            raise self.refuse(node, what, "print the whole module: mod.script()")
        return name

    def parameter(self, name: str, annotation: ast.expr | None) -> ScriptValue:
        """State a parameter: tensors in separate memory, also those of a tuple, which stay unchanged. spec: FP7.11"""
        size = _tensor_bytes(annotation)
        if isinstance(annotation, ast.Call) and dotted_name(annotation.func) == "R.Tuple":
            parts = annotation.args[0].elts if len(annotation.args) == 1 and isinstance(
                annotation.args[0], ast.Tuple | ast.List) else annotation.args  # fmt: skip
            return ScriptValue(items={k: self.parameter(f"{name}[{k}]", part) for k, part in enumerate(parts)})
        if size is None:
            self.outside["sizes of parameters"] = "they have symbols, or are not tensors"
        cell = self.memory.own(self.prefix + name, size or 0, role=Role.INPUT)
        self.memory.keeps([cell])
        return ScriptValue((Pointer(cell, 0),), is_tensor=_is_tensor(annotation))

    def constant(self, node: ast.expr) -> ScriptValue:
        """Return a constant of the module, in separate memory that stays unchanged for later calls. spec: FP7.12"""
        text = ast.unparse(node)
        self.source.count_work(1 + len(text) // 16)
        if text not in self.constants:
            cell = self.memory.own(f"constant {len(self.constants)}", 0, role=Role.INPUT)
            self.memory.keeps([cell])
            self.constants[text] = ScriptValue((Pointer(cell, 0),))
        return self.constants[text]

    def block(self, body: list[ast.stmt], names: Names, depth: int) -> None:
        self.source.check_depth(depth)
        for node in body:
            self.source.count_work(1)
            self.statement(node, names, depth)

    def statement(self, node: ast.stmt, names: Names, depth: int) -> None:
        match node:
            case ast.AnnAssign(target=ast.Name(), value=None, annotation=annotation):
                self.check_type(annotation)  # a name that is bound further in, which the printer declares outside
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value, annotation=annotation):
                self.check_type(annotation)
                if isinstance(value, ast.Tuple | ast.List) and _is_tensor(annotation):
                    raise self.refuse(node, f"{name} has the type of a tensor, and is bound to a tuple")
                names[name] = self.value(value, names, name, annotation)
                self.killed.pop(name, None)
            case ast.Assign(targets=[ast.Name(id="cls")], value=ast.Name(id=title)) if title == self.title:
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name != "cls":
                names[name] = self.value(value, names, name, None)
                self.killed.pop(name, None)
            case ast.Expr(value=ast.Call() as call):
                self.value(call, names, "", None)
            case ast.If():
                self.arms(node, names, depth)
            case ast.With(items=items):
                for item in items:
                    opened = item.context_expr
                    if not isinstance(opened, ast.Call) or dotted_name(opened.func) != "R.dataflow" or (
                        opened.args or opened.keywords or item.optional_vars
                    ):  # fmt: skip
                        raise self.refuse(node, "expected a block of R.dataflow()")
                self.block(node.body, names, depth + 1)
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                word = type(node).__name__
                raise self.refuse(node, f"a statement of Relax was expected, got {word}", construct=f"statement {word}")

    def arms(self, node: ast.If, names: Names, depth: int) -> None:
        """State an If: two exclusive branches. A name that both bind has either value after it. spec: FP7.5, FP7.10"""
        test = self.value(node.test, names, "", None)
        self.memory.begin("if", (DOMAIN, "if"), (p.cell for p in test.every(self.source)))
        found, killed, after = [], self.killed, dict[str, int]()
        for k, body in enumerate((node.body, node.orelse)):
            if k:
                self.memory.arm()
            inner, self.killed = dict(names), dict(killed)
            self.source.count_work(len(names) + len(killed))
            self.block(body, inner, depth + 1)
            found.append(inner)
            for name in inner.keys() - names.keys():
                self.in_arms[name] = node.lineno, inner[name]
            after |= self.killed
        self.killed = after
        leave_arms(self.memory, names, found, lambda name: is_used_behind(node, name, self.last))

    def value(self, node: ast.expr, names: Names, name: str, annotation: ast.expr | None) -> ScriptValue:
        """Return the value of an expression, and state its calls as steps."""
        self.source.count_work(1)
        match node:
            case ast.Name(id=used):
                if used in self.killed:
                    raise self.refuse(node, f"{used} is used after line {self.killed[used]} killed it")
                if used not in names and used in self.in_arms:
                    return self.unbound(used)
                if used not in names:
                    raise self.refuse(node, f"no binding of {used} before")
                return names[used]
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return ScriptValue(
                    items={k: self.value(item, names, f"{name}[{k}]", None) for k, item in enumerate(items)}
                )
            case ast.Subscript(
                value=ast.Subscript(value=ast.Name(id="metadata"), slice=ast.Constant()), slice=ast.Constant()
            ) if "metadata" not in names:
                return self.constant(node)
            case ast.Constant():
                return ScriptValue()
            case ast.Subscript(value=base, slice=at):
                found, k = self.value(base, names, name, None), integer(at)
                if k is None or found.is_tensor or (found.items and k not in found.items):
                    raise self.refuse(node, "expected the number of an item of a tuple")
                return found.items[k] if k in found.items else ScriptValue(found.every(self.source))
            case ast.Call():
                return self.call(node, names, name, annotation)
            case ast.Attribute() | ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.BoolOp() | ast.IfExp():
                self.check_scalar(node, names)
                return ScriptValue()
        word = type(node).__name__
        raise self.refuse(node, f"an expression of Relax was expected, got {word}", construct=f"expression {word}")

    def unbound(self, name: str) -> ScriptValue:
        """Return a value that only a branch has bound, and state a read of an unwritten cell. spec: FP7.9"""
        line, found = self.in_arms[name]
        label = f"{name} where the arm of line {line} that binds it did not run"
        self.memory.step("use of an arm's own", (DOMAIN, "if"), [self.memory.own(self.prefix + label, 1)], ())
        return found

    def call(self, node: ast.Call, names: Names, name: str, annotation: ast.expr | None) -> ScriptValue:
        callee = dotted_name(node.func)
        if callee == "R.func_attr" or callee in TYPES or SCALAR.fullmatch(callee):
            self.check_scalar(node, names, TYPES | {"R.func_attr"})
            return ScriptValue()
        if callee in SHOWN:
            shown = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in ("format", None))]
            self.touch(callee, [self.value(each, names, "", None) for each in shown])
            node = ast.copy_location(ast.Call(node.func, [], [k for k in node.keywords if k.arg != "format"]), node)
        for keyword in node.keywords:
            given = (part.id for part in ast.walk(keyword.value) if isinstance(part, ast.Name))
            if keyword.arg not in OF_TYPES or any(names[each].every(self.source) for each in given if each in names):
                what = "operands by **" if keyword.arg is None else f"the keyword {keyword.arg}"
                raise self.refuse(node, f"{callee or 'a call'} has {what}, which is not read", "give operands in order")
            self.check_scalar(keyword.value, names)
        if callee in SHOWN:
            return ScriptValue()
        if callee in ("R.output", "R.vm.check_tensor_info"):
            for arg in node.args:
                self.value(arg, names, "", None)
            return ScriptValue()
        if callee in KILLS:
            for arg in node.args:
                if not isinstance(arg, ast.Name) or arg.id not in names or arg.id in self.killed:
                    raise self.refuse(node, f"{callee} of an operand that is not a bound name, or killed already")
                self.killed[arg.id] = node.lineno
            return ScriptValue()
        if callee in ("R.memory.alloc_storage", "R.vm.alloc_storage"):
            return self.storage(node, name)
        if callee in ("R.memory.alloc_tensor", "R.vm.alloc_tensor"):
            return self.tensor(node, names, name)
        if callee == "R.tuple":
            return ScriptValue(items={k: self.value(item, names, name, None) for k, item in enumerate(node.args)})
        if callee == "R.const":
            for arg in node.args:
                self.check_scalar(arg, names)
            return self.constant(node)
        if callee == "R.builtin.alloc_tensor":
            self.check_stated(node, names, 0, 4)
            size = _shaped(node.args)
            if size is None:
                self.outside["sizes of tensors in memory of their own"] = "they have symbols"
            return ScriptValue((Pointer(self.memory.own(self.prefix + name, size or 0), 0),), is_tensor=True)
        packed = string(node.args[0]) if node.args and callee in PACKED else None
        root = callee.partition(".")[0]
        if (packed is None and callee in PACKED) or root not in ("R", "cls", self.title):
            what = f"{callee or 'a call of an expression'} is not a call of Relax"
            raise self.refuse(node, what, construct=f"call {callee[:60]}")
        operands = [self.value(arg, names, "", None) for arg in (node.args[1:] if packed is not None else node.args)]
        if callee in SAME or packed in SAME_PACKED:
            return self.same(node, operands, callee, packed, annotation)
        local = self.local(node.func) if root != "R" else ""
        if local in self.kernels:
            self.kernel_call(node, local, operands)
            return ScriptValue()
        if callee in UNPLANNED:
            cell = self.memory.own(self.prefix + (name or callee), _tensor_bytes(annotation) or 0)
            self.touch(callee, operands, [cell])
            return ScriptValue((Pointer(cell, 0),))
        what = packed or callee
        if not local and callee not in OTHER_CODE:
            text = f"{callee} is not a call of a kernel, and may change what it is given (line {node.lineno})"
            self.undecided[UndecidedConstruct("operation of Relax", text)] = None
        # Other code may hand on its operands, and writes those that are not written yet.
        fresh = [p.cell for v in operands for p in v.every(self.source) if self.memory.held(p.cell) is None]
        found = tuple(dict.fromkeys(p for v in operands for p in v.every(self.source)))
        if found:
            self.assumed[f"{what} writes no operand but those that nothing has written before it"] = None
        self.touch(what, operands, fresh)
        if name and found:
            self.approximations["the result of a call of other code keeps all its operands"] = None
        return ScriptValue(found)

    def storage(self, node: ast.Call, name: str) -> ScriptValue:
        """State `R.memory.alloc_storage(R.shape([bytes]), …)`: an arena, and a cell without bytes for its name."""
        self.check_stated(node, {}, 0, 4)
        size = _listed(node.args[0]) if node.args else None
        if size is None or len(size) != 1 or size[0] < 0:
            fix = "bound the symbols: tir_var_upper_bound"
            raise self.refuse(node, "expected the bytes of a storage as R.shape([N])", fix)
        arena = self.memory.arena(self.prefix + name, size[0])
        cell = self.memory.cell(self.prefix + name, arena, 0, 0)
        self.storages[cell] = arena
        return ScriptValue((Pointer(cell, 0),), is_tensor=True)

    def tensor(self, node: ast.Call, names: Names, name: str) -> ScriptValue:
        """State `R.memory.alloc_tensor(storage, offset, R.shape([…]), R.dtype("…"), …)`: a cell."""
        self.check_stated(node, names, 1, 5)
        base = self.value(node.args[0], names, name, None) if node.args else ScriptValue()
        storage = [self.storages[p.cell] for p in base.pointers if p.cell in self.storages]
        offset = integer(node.args[1]) if len(node.args) > 2 else None
        if len(storage) != 1 or offset is None or offset < 0:
            raise self.refuse(node, "expected a storage and an offset in it")
        if _listed(node.args[2]) is None:
            self.approximations["a tensor of symbolic shape counts as all the bytes of its storage behind it"] = None
            size = max(0, self.memory.arenas[storage[0]].capacity - offset)
        else:
            found = _shaped(node.args[2:])
            if found is None:
                raise self.refuse(node, "expected a shape and an element type of known width")
            size = found
        cell = self.memory.cell(self.prefix + name, storage[0], offset, size, place=line_of(node))
        return ScriptValue((Pointer(cell, 0),), is_tensor=True)

    def check_stated(self, node: ast.Call, names: Names, first: int, most: int) -> None:
        """Check that an allocation has at most `most` operands, and those from `first` on no memory."""
        if len(node.args) > most:
            raise self.refuse(node, f"{dotted_name(node.func)} has more than {most} operands")
        for arg in node.args[first:]:
            self.check_scalar(arg, names)

    def same(
        self, node: ast.Call, operands: list[ScriptValue], callee: str, packed: str | None, annotation: ast.expr | None
    ) -> ScriptValue:
        """Return a result in its operand's bytes. A cast states how many of them are used."""
        if not operands:
            raise self.refuse(node, f"{callee} without an operand")
        if any(operand.every(self.source) for operand in operands[1:]):
            raise self.refuse(node, f"{callee} has a further operand, which is not read")
        declared = node.args[1] if callee == "R.match_cast" and len(node.args) > 1 else annotation
        size = _tensor_bytes(declared)
        self.assumed[f"{packed or callee} shows its operand's bytes"] = None
        at = node.args[VIEW_OFFSET + (packed is not None) :] if packed == VIEW or callee == "R.memory.view" else []
        shift = 0 if not at or ast.unparse(at[0]) == "R.null_value()" else integer(at[0])
        if shift is None or shift < 0 or len(at) > 1:
            raise self.refuse(node, f"{packed or callee} at an offset that is not a number")
        for pointer in operands[0].every(self.source) if callee != "R.memory.view" else ():
            self.memory.grow(pointer.cell, pointer.start + shift + (size or 0), line_of(node))
        if shift:
            return ScriptValue(tuple(Pointer(p.cell, p.start + shift) for p in operands[0].every(self.source)))
        return operands[0]

    def kernel_call(self, node: ast.Call, name: str, operands: list[ScriptValue]) -> None:
        """State `cls.kernel(x, alloc)`: a step. All declared bytes of a buffer count as used. spec: FP7.3, FP7.4"""
        kernel = self.kernels[name]
        if len(operands) != kernel.parameters:
            raise self.refuse(node, f"{name} has {kernel.parameters} parameters, and is given {len(operands)}")
        reads: list[int] = []
        writes: list[int] = []
        for k, operand in enumerate(operands):
            pointers = operand.every(self.source)
            for pointer in pointers:
                self.memory.grow(pointer.cell, pointer.start + kernel.bytes.get(k, 0), line_of(node))
            cells = [p.cell for p in pointers]
            is_written = k in kernel.writes
            if k in kernel.passes and not is_written:
                self.assumed[f"{name} hands buffers to other code, which writes those that nothing has written"] = None
                is_written = all(self.memory.held(cell) is None for cell in cells)
            (writes if is_written else reads).extend(cells)
            if is_written and len(cells) > 1:
                reads += cells  # one of them is written, not known which. spec: FP1.14
        self.memory.step(name, (DOMAIN, name), reads, writes)

    def touch(self, what: str, operands: Iterable[ScriptValue], writes: Sequence[int] = ()) -> None:
        reads = [p.cell for v in operands for p in v.every(self.source) if p.cell not in writes]
        if reads or writes:
            self.memory.step(what, (DOMAIN, what), reads, writes)

    def refuse(self, node: ast.AST, what: str, fix: str | None = None, *, construct: str = "") -> Exception:
        return self.source.refuse(what, line_of(node), fix, construct=construct)


def _decorator(node: ast.expr) -> str:
    """Return the name of a decorator that has no arguments or only flags, else the beginning of its text."""
    if isinstance(node, ast.Call) and not node.args and all(
        keyword.arg in FLAGS and isinstance(keyword.value, ast.Constant) for keyword in node.keywords
    ):  # fmt: skip
        return dotted_name(node.func)
    return dotted_name(node) or ast.unparse(node)[:40]


def _is_tensor(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Call) and dotted_name(node.func) == "R.Tensor"


def _listed(node: ast.expr | None) -> tuple[int, ...] | None:
    """Return the integers of `R.shape([…])`, None if it has symbols."""
    is_shape = isinstance(node, ast.Call) and dotted_name(node.func) == "R.shape" and len(node.args) == 1
    return integers(node.args[0]) if isinstance(node, ast.Call) and is_shape else None


def _shaped(args: list[ast.expr]) -> int | None:
    """Return the bytes of `R.shape([…]), R.dtype("…")`."""
    shape = _listed(args[0]) if args else None
    dtype = args[1] if len(args) > 1 else None
    width = bits(string(dtype.args[0]) or "") if isinstance(dtype, ast.Call) and dtype.args else None
    return None if shape is None or width is None or min(shape, default=0) < 0 else extent(shape, None, width)


def _tensor_bytes(node: ast.expr | None) -> int | None:
    """Return the bytes of `R.Tensor((…), dtype="…")`."""
    if not isinstance(node, ast.Call) or dotted_name(node.func) != "R.Tensor" or not node.args:
        return None
    dtype = next((string(k.value) for k in node.keywords if k.arg == "dtype"), None)
    shape, width = integers(node.args[0]), bits(dtype or "")
    return None if shape is None or width is None or min(shape, default=0) < 0 else extent(shape, None, width)
