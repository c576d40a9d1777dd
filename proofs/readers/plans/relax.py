"""TVM Relax scripts after `StaticPlanBlockMemory`: storages, tensors at their offsets, and calls of kernels.

A storage is an arena, a tensor in it a cell; what a call writes is found in the kernel's own body, which the script
has. Bindings, tuples, reshapes and casts are pointers to the same cell. The arms of an If are exclusive: what the name
that it binds stands for in either arm is kept. spec: FP7.1 to FP7.12
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
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
    integers,
    is_used_behind,
    last_uses,
    leave_arms,
    line_of,
    parsed,
    string,
)
from tmmu.core.source import Source
from tmmu.core.vocabulary import Role
from tmmu.plans.reading import ACCESSES_WORKED_OUT, Reading

TITLE = "TVM Relax script"
DOMAIN = "tvm"
SAME = frozenset(("R.match_cast", "R.reshape", "R.memory.view", "R.memory.ensure_zero_offset", "R.vm.match_shape"))
"""Calls whose result is their first operand's bytes."""
SAME_PACKED = frozenset(("vm.builtin.reshape", "vm.builtin.ensure_zero_offset", "runtime.TVMTensorCreateView"))
KILLS = frozenset(("R.memory.kill_tensor", "R.memory.kill_storage", "R.vm.kill_object"))
IGNORED = frozenset(("R.func_attr", "R.output", "R.assert_op", "R.print", "R.vm.check_tensor_info"))
UNPLANNED = frozenset(("R.call_tir", "R.call_dps_packed"))
"""Calls that make a tensor of their own, which no plan places."""
OF_TYPES = frozenset(("ty_args", "sinfo_args", "out_sinfo", "out_ty", "dtype", "ndim", "vdevice"))
"""Keywords of calls that state types: no operand is given by one."""
SCOPES = frozenset(("R.dataflow", "R.prim_func", "I.vdevice"))
"""The calls that open a block."""
NO_ACCESS = frozenset(("T.match_buffer", "T.reads", "T.writes"))
"""Calls in a kernel that name buffers and hand none to other code."""


@dataclass
class _Kernel:
    """What a PrimFunc does with its parameters: those it stores into, those it hands to other code, and their bytes."""

    writes: set[int] = field(default_factory=set)
    passes: set[int] = field(default_factory=set)
    bytes: dict[int, int] = field(default_factory=dict)


def read(source: Source) -> ForeignPlan:
    """The plan of a script: all its Relax functions. Raises INVALID_PLAN with FILE and line. O(bytes)."""
    return _Module(source).plan()


class _Module:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.memory = CellMemory(source)
        self.kernels: dict[str, _Kernel] = {}
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

    def plan(self) -> ForeignPlan:
        for top in parsed(self.source).body:
            for node in top.body if isinstance(top, ast.ClassDef) else (top,):
                if isinstance(node, ast.FunctionDef):
                    kinds = {dotted(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}
                    if node.name in self.kernels or node.name in self.functions:
                        raise self.refuse(node, f"a second function {node.name}")
                    if "R.function" in kinds:
                        self.functions[node.name] = node
                    elif "T.prim_func" in kinds:
                        self.kernels[node.name] = self.kernel(node)
        if not self.functions:
            raise self.source.refuse("no Relax function is in it", None, "print the whole module: mod.script()")
        for name, function in self.functions.items():
            self.prefix = f"{name}." if len(self.functions) > 1 else ""
            self.function(function)
        if not self.storages:
            fix = "print the module after StaticPlanBlockMemory"
            raise self.source.refuse("no storage is allocated: nothing is planned", None, fix)
        if len(self.functions) > 1:
            self.outside["calls between functions"] = "each function is a run of its own"
        if self.memory.joined:
            self.approximations[kept_of_arms(self.memory.joined)] = None
        reading = Reading(
            TITLE, ACCESSES_WORKED_OUT, tuple(self.assumed), self.outside, tuple(self.approximations),
            self.memory.donated(),
        )  # fmt: skip
        return ForeignPlan(self.memory.plan(), reading)

    def kernel(self, node: ast.FunctionDef) -> _Kernel:
        """What a PrimFunc stores into. Its buffers are parameters, or matched to, or declared over, them."""
        found = _Kernel()
        of = {arg.arg: k for k, arg in enumerate(node.args.args)}
        for k, arg in enumerate(node.args.args):
            self.buffer(found, k, arg.annotation)
        for part in ast.walk(node):
            self.source.count_work(1)
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Call):
                self.aliased(found, of, part.targets[0], part.value)
        for part in ast.walk(node):
            self.source.count_work(1)
            for target in _targets(part):
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                    found.writes |= {of[target.value.id]} if target.value.id in of else set()
            if isinstance(part, ast.Call):
                callee = dotted(part.func)
                if callee == "T.writes":
                    for item in part.args:
                        base = item.value if isinstance(item, ast.Subscript) else item
                        found.writes |= {of[base.id]} if isinstance(base, ast.Name) and base.id in of else set()
                elif callee.endswith(".vstore") and isinstance(part.func, ast.Attribute):
                    base = part.func.value
                    found.writes |= {of[base.id]} if isinstance(base, ast.Name) and base.id in of else set()
                elif callee not in NO_ACCESS:
                    handed = [*part.args, *(keyword.value for keyword in part.keywords)]
                    found.passes |= {of[each.id] for each in handed if isinstance(each, ast.Name) and each.id in of}
                if callee == "T.address_of":
                    for item in part.args:
                        base = item.value if isinstance(item, ast.Subscript) else item
                        found.passes |= {of[base.id]} if isinstance(base, ast.Name) and base.id in of else set()
            elif isinstance(part, ast.Attribute) and part.attr in ("data", "access_ptr"):
                base = part.value
                found.passes |= {of[base.id]} if isinstance(base, ast.Name) and base.id in of else set()
        return found

    def aliased(self, kernel: _Kernel, of: dict[str, int], target: ast.expr, call: ast.Call) -> None:
        """`A = T.match_buffer(var_A, …)` and `B = T.Buffer(…, data=A.data)`: other names of a parameter's buffer."""
        if not isinstance(target, ast.Name):
            return
        name = dotted(call.func)
        first = call.args[0] if call.args else None
        if name == "T.match_buffer":
            base = first.value if isinstance(first, ast.Subscript) else first
            if isinstance(base, ast.Name) and base.id in of:
                of[target.id] = of[base.id]
                if base is first:
                    self.buffer(kernel, of[base.id], ast.Call(call.func, call.args[1:], call.keywords))
        elif name in ("T.Buffer", "T.decl_buffer"):
            data = {keyword.arg: keyword.value for keyword in call.keywords}.get("data")
            base = data.value if isinstance(data, ast.Attribute) else None
            of |= {target.id: of[base.id]} if isinstance(base, ast.Name) and base.id in of else {}

    def buffer(self, kernel: _Kernel, k: int, declared: ast.expr | None) -> None:
        """The bytes that a parameter's declaration states, where they are known."""
        if not isinstance(declared, ast.Call) or not declared.args:
            return
        options = {keyword.arg: keyword.value for keyword in declared.keywords}
        if not {"strides", "elem_offset"}.isdisjoint(options):
            return
        dtype = declared.args[1] if len(declared.args) > 1 else options.get("dtype", ast.Constant("float32"))
        shape, width = integers(declared.args[0]), bits(string(dtype) or "")
        if shape is not None and width is not None:
            kernel.bytes[k] = max(kernel.bytes.get(k, 0), extent(shape, None, width))

    def function(self, node: ast.FunctionDef) -> None:
        names: Names = {}
        self.killed, self.in_arms, self.last = {}, {}, last_uses(self.source, node)
        for arg in node.args.args:
            names[arg.arg] = self.parameter(arg.arg, arg.annotation)
        self.block(node.body, names, 0)
        if not isinstance(node.body[-1], ast.Return):
            raise self.source.truncated_error(f"{node.name} ends without a return", line_of(node.body[-1]))

    def parameter(self, name: str, annotation: ast.expr | None) -> ScriptValue:
        """What the caller gives and finds as it was: tensors in memory of their own, also of a tuple. spec: FP7.11"""
        size = _tensor_bytes(annotation)
        if isinstance(annotation, ast.Call) and dotted(annotation.func) == "R.Tuple":
            parts = annotation.args[0].elts if len(annotation.args) == 1 and isinstance(
                annotation.args[0], ast.Tuple | ast.List) else annotation.args  # fmt: skip
            return ScriptValue(items={k: self.parameter(f"{name}[{k}]", part) for k, part in enumerate(parts)})
        if size is None:
            self.outside["sizes of parameters"] = "they have symbols, or are no tensors"
        cell = self.memory.own(self.prefix + name, size or 0, role=Role.INPUT)
        self.memory.keeps([cell])
        return ScriptValue((Pointer(cell, 0),))

    def constant(self, node: ast.expr) -> ScriptValue:
        """A constant of the module: in memory of its own, in which later calls find it as it was. spec: FP7.12"""
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
            case ast.AnnAssign(target=ast.Name(), value=None):
                pass  # a name that is bound further in, which the printer declares outside
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                names[name] = self.value(value, names, name, node.annotation)
                self.killed.pop(name, None)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name != "cls":
                    names[name] = self.value(value, names, name, None)
                    self.killed.pop(name, None)
            case ast.Expr(value=ast.Call() as call):
                self.value(call, names, "", None)
            case ast.Return(value=ast.expr() as value):
                found = self.value(value, names, "the result", None)
                self.memory.returns(p.cell for p in found.every(self.source))
            case ast.If():
                self.arms(node, names, depth)
            case ast.With(items=items):
                for item in items:
                    opened = dotted(item.context_expr.func) if isinstance(item.context_expr, ast.Call) else ""
                    if opened not in SCOPES or item.optional_vars is not None:
                        raise self.refuse(node, f"expected a block of {', '.join(sorted(SCOPES))}")
                self.block(node.body, names, depth + 1)
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                word = type(node).__name__
                raise self.refuse(node, f"a statement of Relax was expected, got {word}", construct=f"statement {word}")

    def arms(self, node: ast.If, names: Names, depth: int) -> None:
        """An If: two exclusive arms; a name that both bind stands for what either made. spec: FP7.5, FP7.10"""
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
        """What an expression stands for; a call in it is a step."""
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
            case ast.Subscript(value=ast.Subscript(value=ast.Name(id="metadata"))):
                return self.constant(node)
            case ast.Constant():
                return ScriptValue()
            case ast.Subscript(value=base, slice=at):
                found, k = self.value(base, names, name, None), integer(at)
                return found.items[k] if k in found.items else ScriptValue(found.every(self.source))
            case ast.Call():
                return self.call(node, names, name, annotation)
            case ast.Attribute() | ast.BinOp() | ast.UnaryOp() | ast.Compare():
                return ScriptValue()
        word = type(node).__name__
        raise self.refuse(node, f"an expression of Relax was expected, got {word}", construct=f"expression {word}")

    def unbound(self, name: str) -> ScriptValue:
        """What an arm has bound that need not have run: a step reads what nothing has written. spec: FP7.9"""
        line, found = self.in_arms[name]
        label = f"{name} where the arm of line {line} that binds it did not run"
        self.memory.step("use of an arm's own", (DOMAIN, "if"), [self.memory.own(self.prefix + label, 1)], ())
        return found

    def call(self, node: ast.Call, names: Names, name: str, annotation: ast.expr | None) -> ScriptValue:
        callee = dotted(node.func)
        if callee in IGNORED:
            return ScriptValue()
        for keyword in node.keywords:
            given = (part.id for part in ast.walk(keyword.value) if isinstance(part, ast.Name))
            if keyword.arg not in OF_TYPES or any(names[each].every(self.source) for each in given if each in names):
                what = "operands by **" if keyword.arg is None else f"the keyword {keyword.arg}"
                raise self.refuse(node, f"{callee or 'a call'} has {what}, which is not read", "give operands in order")
        if callee in KILLS:
            for arg in node.args:
                if not isinstance(arg, ast.Name) or arg.id not in names or arg.id in self.killed:
                    raise self.refuse(node, f"{callee} of what is bound to no name, or killed already")
                self.killed[arg.id] = node.lineno
            return ScriptValue()
        if callee in ("R.memory.alloc_storage", "R.vm.alloc_storage"):
            return self.storage(node, name)
        if callee in ("R.memory.alloc_tensor", "R.vm.alloc_tensor"):
            return self.tensor(node, names, name)
        if callee in ("R.tuple", "R.TupleGetItem"):
            return ScriptValue(items={k: self.value(item, names, name, None) for k, item in enumerate(node.args)})
        if callee == "R.const":
            return self.constant(node)
        if callee in ("R.shape", "R.prim_value", "R.dtype", "R.str", "R.Tensor", "R.null_value"):
            return ScriptValue()
        if callee == "R.builtin.alloc_tensor":
            size = _shaped(node.args)
            if size is None:
                self.outside["sizes of tensors in memory of their own"] = "they have symbols"
            return ScriptValue((Pointer(self.memory.own(self.prefix + name, size or 0), 0),))
        packed = string(node.args[0]) if node.args else None
        operands = [self.value(arg, names, "", None) for arg in (node.args[1:] if packed is not None else node.args)]
        if callee in SAME or packed in SAME_PACKED:
            return self.same(node, operands, callee, packed, annotation)
        local = callee.partition(".")[2] if callee.startswith(("cls.", "Module.")) else ""
        if local in self.kernels:
            self.kernel_call(node, local, operands)
            return ScriptValue()
        if local and local not in self.functions:
            raise self.refuse(node, f"{callee} is no function of this module", "print the whole module: mod.script()")
        if callee in UNPLANNED:
            cell = self.memory.own(self.prefix + (name or callee), _tensor_bytes(annotation) or 0)
            self.touch(callee, operands, [cell])
            return ScriptValue((Pointer(cell, 0),))
        # Anything else may hand on its operands, and writes what nothing has written yet.
        what = packed or callee or "a call"
        fresh = [p.cell for v in operands for p in v.every(self.source) if self.memory.held(p.cell) is None]
        found = tuple(dict.fromkeys(p for v in operands for p in v.every(self.source)))
        if found:
            self.assumed[f"{what} writes no operand but those that nothing has written before it"] = None
        self.touch(what, operands, fresh)
        if name and found:
            self.approximations["the result of a call of other code keeps all its operands"] = None
        return ScriptValue(found)

    def storage(self, node: ast.Call, name: str) -> ScriptValue:
        """`R.memory.alloc_storage(R.shape([bytes]), …)`: an arena, which a name points to as a cell of no bytes."""
        size = _listed(node.args[0]) if node.args else None
        if size is None or len(size) != 1 or size[0] < 0:
            fix = "bound the symbols: tir_var_upper_bound"
            raise self.refuse(node, "expected the bytes of a storage as R.shape([N])", fix)
        arena = self.memory.arena(self.prefix + name, size[0])
        cell = self.memory.cell(self.prefix + name, arena, 0, 0)
        self.storages[cell] = arena
        return ScriptValue((Pointer(cell, 0),))

    def tensor(self, node: ast.Call, names: Names, name: str) -> ScriptValue:
        """`R.memory.alloc_tensor(storage, offset, R.shape([…]), R.dtype("…"), …)`: a cell."""
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
        return ScriptValue((Pointer(cell, 0),))

    def same(
        self, node: ast.Call, operands: list[ScriptValue], callee: str, packed: str | None, annotation: ast.expr | None
    ) -> ScriptValue:
        """A result in its operand's bytes; a cast states how many of them are used."""
        if not operands:
            raise self.refuse(node, f"{callee} without an operand")
        declared = node.args[1] if callee == "R.match_cast" and len(node.args) > 1 else annotation
        size = _tensor_bytes(declared)
        self.assumed[f"{packed or callee} shows its operand's bytes"] = None
        for pointer in operands[0].every(self.source) if callee != "R.memory.view" else ():
            self.memory.grow(pointer.cell, pointer.start + (size or 0), line_of(node))
        return operands[0]

    def kernel_call(self, node: ast.Call, name: str, operands: list[ScriptValue]) -> None:
        """`cls.kernel(x, alloc)`: a step. What the kernel declares of a buffer counts as used. spec: FP7.3, FP7.4"""
        kernel = self.kernels[name]
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
                reads += cells  # one of them is written, and nothing says which. spec: FP1.14
        self.memory.step(name, (DOMAIN, name), reads, writes)

    def touch(self, what: str, operands: Iterable[ScriptValue], writes: Sequence[int] = ()) -> None:
        reads = [p.cell for v in operands for p in v.every(self.source) if p.cell not in writes]
        if reads or writes:
            self.memory.step(what, (DOMAIN, what), reads, writes)

    def refuse(self, node: ast.AST, what: str, fix: str | None = None, *, construct: str = "") -> Exception:
        return self.source.refuse(what, line_of(node), fix, construct=construct)


def _targets(node: ast.AST) -> list[ast.expr]:
    """What a statement assigns to."""
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


def _listed(node: ast.expr | None) -> tuple[int, ...] | None:
    """The integers of `R.shape([…])`, None where it has symbols."""
    return integers(node.args[0]) if isinstance(node, ast.Call) and node.args else None


def _shaped(args: list[ast.expr]) -> int | None:
    """The bytes of `R.shape([…]), R.dtype("…")`."""
    shape = _listed(args[0]) if args else None
    dtype = args[1] if len(args) > 1 else None
    width = bits(string(dtype.args[0]) or "") if isinstance(dtype, ast.Call) and dtype.args else None
    return None if shape is None or width is None or min(shape, default=0) < 0 else extent(shape, None, width)


def _tensor_bytes(node: ast.expr | None) -> int | None:
    """The bytes of `R.Tensor((…), dtype="…")`."""
    if not isinstance(node, ast.Call) or dotted(node.func) != "R.Tensor" or not node.args:
        return None
    dtype = next((string(k.value) for k in node.keywords if k.arg == "dtype"), None)
    shape, width = integers(node.args[0]), bits(dtype or "")
    return None if shape is None or width is None or min(shape, default=0) < 0 else extent(shape, None, width)
