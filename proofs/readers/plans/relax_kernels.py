"""The kernels of a Relax script: which buffers each PrimFunc stores into or hands to other code, and their bytes.

A body is of a closed list of statements and expressions. The name of a parameter's buffer may be in a few places of
them only, and each place states how the buffer is used. Anything else is refused with its line.
spec: FP1.15, FP7.3, FP7.4, FP7.13
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from proofs.readers.plans.script import bits, dotted_name, extent, integers, line_of, string
from tmmu.core.source import Source

STATEMENTS = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.For, ast.While, ast.If, ast.With, ast.Assert, ast.Pass,
)  # fmt: skip
EXPRESSIONS = (
    ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant, ast.Tuple, ast.List, ast.Dict,
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda,
)  # fmt: skip
PARTS = (
    ast.keyword, ast.arguments, ast.arg, ast.withitem, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
    ast.expr_context,
)  # fmt: skip
"""The parts of these that are neither."""
STATED = frozenset(("T.match_buffer", "T.reads", "T.writes"))
"""Calls that name buffers and hand none to other code."""
BUFFERS = frozenset(("T.Buffer", "T.decl_buffer", "T.match_buffer"))
OF_PARAMETERS = frozenset((
    "strides", "elem_offset", "scope", "align", "offset_factor", "buffer_type", "axis_separators", "dtype", "layout",
))  # fmt: skip
OF_BUFFERS = OF_PARAMETERS | {"data", "shape", "allocated_addr"}
"""Keywords of the declaration of a buffer."""
OF_CALLS = OF_BUFFERS | {"annotations", "thread", "predicate", "body", "buffer"}
_VALUES = """
bool boolean void handle Ptr ptr Var var broadcast ramp fabs fma isfinite
abs acos acosh asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor cast Cast ceil ceildiv clz
comm_reducer copysign cos cosh div erf exp exp10 exp2 floor floordiv floormod fmod hypot if_then_else infinity isfinite
isinf isnan isnullptr ldexp let Let likely log log10 log1p log2 max max_value min min_value nearbyint nextafter popcount
pow q_multiply_shift Ramp Broadcast reinterpret round rsqrt Select Shuffle shift_left shift_right sigmoid sin sinh sqrt
tan tanh trunc truncdiv truncmod undef And Or Not StringImm type_annotation
"""
_STRUCTURE = """
func_attr sblock block sblock_attr block_attr alloc_buffer sblock_alloc_buffer axis.spatial axis.reduce axis.scan
axis.opaque axis.remap axis.S axis.R serial parallel vectorized unroll thread_binding grid Assert allocate
allocate_const attr launch_thread env_thread evaluate Buffer decl_buffer match_buffer reads writes init where realize
assume iter_var
"""
_CODE = """
address_of call_extern call_packed call_cpacked call_intrin call_llvm_intrin call_llvm_pure_intrin call_pure_extern
tvm_access_ptr tvm_call_packed tvm_stack_alloca tvm_stack_make_array tvm_stack_make_shape tvm_thread_allreduce
tvm_struct_get tvm_struct_set tvm_storage_sync tvm_tuple call_spirv_pure_glsl450 store ret
"""
INTRINSICS = frozenset(f"T.{name}" for name in (_VALUES + _STRUCTURE + _CODE).split())
TYPES = re.compile(r"T\.(?:u?int|b?float)\d+(?:_?e\d+m\d+\w*)?(?:x\d+)?", re.ASCII)
"""The calls of kernels, types among them. A buffer that is handed to any of them but those in `STATED` is handed to
other code.
"""
FACTS = frozenset(("shape", "strides", "dtype", "elem_offset", "ndim"))
"""Attributes of a buffer that are none of its bytes."""
METHODS = frozenset(("vload", "vstore", "access_ptr"))
ADDRESSES = frozenset(("data", "access_ptr"))
SCALARS = ("T.int", "T.uint", "T.float", "T.bfloat", "T.bool")
"""The beginnings of types of parameters that are not buffers."""


@dataclass
class Kernel:
    """The uses of a PrimFunc's parameters: those it stores into, those it hands to other code, and their bytes."""

    parameters: int
    writes: set[int] = field(default_factory=set)
    passes: set[int] = field(default_factory=set)
    bytes: dict[int, int] = field(default_factory=dict)


def check_signature(source: Source, node: ast.FunctionDef) -> None:
    """Refuse parameters other than plain ones, and other parts of a head that the printer does not write."""
    args = node.args
    if args.posonlyargs or args.kwonlyargs or args.vararg or args.kwarg or args.defaults:
        raise source.refuse(f"expected plain parameters of {node.name}", line_of(node))
    if getattr(node, "type_params", None):
        raise source.refuse(f"{node.name} has parameters of types", line_of(node))


def read_kernel(source: Source, node: ast.FunctionDef, symbols: frozenset[str]) -> Kernel:
    """Return how a PrimFunc uses its parameters. Its buffers are parameters, or matched to, or declared over, them.
    `symbols` are sizes that the file names.
    """
    return _KernelReading(source, node, symbols).kernel


class _KernelReading:
    def __init__(self, source: Source, node: ast.FunctionDef, symbols: frozenset[str]) -> None:
        self.source = source
        self.node = node
        check_signature(source, node)
        self.kernel = Kernel(len(node.args.args))
        self.of: dict[str, int] = {}
        """The parameter whose bytes a name denotes."""
        self.made: set[str] = set()
        """Names of the kernel's own buffers, and of whatever else a call gives."""
        self.parents: dict[int, ast.AST] = {}
        self.named: set[int] = set()
        """The names that an assignment defines as another name of a buffer, and those in its value."""
        for k, arg in enumerate(node.args.args):
            declared = [part for part in ast.walk(arg) if not isinstance(part, ast.arg)]
            self.check_names(declared, symbols)
            for part in declared:
                if isinstance(part, ast.Call):
                    self.check_call(part)
            if not dotted_name(arg.annotation or node).startswith(SCALARS):
                self.of[arg.arg] = k
                self.declare(k, arg.annotation)
        parts = [part for statement in node.body for part in ast.walk(statement)]
        for part in parts:
            self.source.count_work(1)
            if not isinstance(part, (*STATEMENTS, *EXPRESSIONS, *PARTS)):
                at = part if hasattr(part, "lineno") else node
                word = type(part).__name__
                raise self.refuse(at, f"a part of a kernel was expected, got {word}", construct=f"part {word}")
            self.parents |= {id(child): part for child in ast.iter_child_nodes(part)}
        stored = {part.id for part in parts if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}
        stored |= {part.arg for part in parts if isinstance(part, ast.arg)} | {arg.arg for arg in node.args.args}
        if not stored.isdisjoint(("T", "range")):
            raise self.refuse(node, f"{node.name} binds T or range")
        self.check_names(parts, symbols | stored)
        bound = (part for part in parts if isinstance(part, ast.Assign | ast.AnnAssign | ast.withitem))
        for each in sorted(bound, key=_position):
            self.bind(each)
        for part in parts:
            if isinstance(part, ast.Call):
                self.check_call(part)
            elif isinstance(part, ast.Subscript) and not isinstance(part.value, ast.Name):
                raise self.refuse(part, f"an item of {ast.unparse(part.value)[:40]} is not read")
            elif isinstance(part, ast.stmt):
                self.check_statement(part)
            elif isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Load):
                self.store(part)
            elif isinstance(part, ast.Name) and part.id == "T" and not self.is_callee(part):
                raise self.refuse(part, "T is used as a value")
            elif isinstance(part, ast.Name) and part.id in self.of and id(part) not in self.named:
                self.use(part, self.of[part.id])

    def bind(self, node: ast.AST) -> None:
        """Note other names of a parameter's buffer: `A = T.match_buffer(var_A, …)`, `B = T.Buffer(…, data=A.data)`."""
        target, value = (
            (node.optional_vars, node.context_expr) if isinstance(node, ast.withitem)
            else (node.target, node.value) if isinstance(node, ast.AnnAssign)
            else (node.targets[0], node.value) if isinstance(node, ast.Assign) and len(node.targets) == 1
            else (None, None)
        )  # fmt: skip
        if not isinstance(target, ast.Name) or value is None:
            return
        if isinstance(value, ast.Call):
            self.made.add(target.id)
        inside = [part for part in ast.walk(value) if isinstance(part, ast.Name) and part.id in self.of]
        self.source.count_work(1 + len(inside))
        whole = [part for part in inside if self.is_whole(part)]
        parameters = {self.of[part.id] for part in whole}
        if len(parameters) > 1 or (parameters and self.of.get(target.id, *parameters) not in parameters):
            raise self.refuse(value, f"{target.id} names several buffers")
        for k in parameters:
            if target.id not in self.of and isinstance(value, ast.Call) and dotted_name(value.func) not in BUFFERS:
                self.kernel.passes.add(k)
            self.of[target.id] = k
            self.named |= {id(target), *map(id, whole)}
            first = value.args[0] if isinstance(value, ast.Call) and value.args else None
            if (
                isinstance(value, ast.Call)
                and dotted_name(value.func) == "T.match_buffer"
                and isinstance(first, ast.Name)
            ):
                declared = ast.Call(value.func, value.args[1:], value.keywords)
                self.declare(k, ast.copy_location(declared, value))

    def is_callee(self, name: ast.Name) -> bool:
        """Decide whether a name begins a callee or a type."""
        part: ast.AST = name
        while isinstance(above := self.parents.get(id(part)), ast.Attribute):
            part = above
        return (isinstance(above, ast.Call) and above.func is part) or (
            isinstance(above, ast.AnnAssign) and above.annotation is part
        )

    def is_whole(self, part: ast.Name) -> bool:
        """Decide whether a name is used for the buffer, and not for an element that is read or a fact."""
        above = self.parents[id(part)]
        if isinstance(above, ast.Attribute):
            return above.attr in ADDRESSES
        if isinstance(above, ast.Subscript) and above.value is part:
            call = self.parents[id(above)]
            return isinstance(call, ast.Call) and dotted_name(call.func) in ("T.match_buffer", "T.address_of")
        return True

    def store(self, target: ast.Subscript) -> None:
        """Note that an element is assigned to, of a parameter's buffer or of one that the kernel has made."""
        base = target.value
        if not isinstance(base, ast.Name) or (base.id not in self.of and base.id not in self.made):
            raise self.refuse(target, f"{ast.unparse(base)[:40]} is stored into and is not a buffer")
        self.kernel.writes |= {self.of[base.id]} if base.id in self.of else set()

    def check_names(self, parts: list[ast.AST], bound: frozenset[str]) -> None:
        """Refuse names that nothing binds, and attributes of anything but a name."""
        for part in parts:
            self.source.count_work(1)
            if isinstance(part, ast.Name) and part.id not in bound and part.id not in ("T", "range"):
                raise self.refuse(part, f"no binding of {part.id}")
            if isinstance(part, ast.Attribute):
                root, _, fact = dotted_name(part).partition(".")
                if root != "T" and fact not in FACTS | ADDRESSES | METHODS:
                    raise self.refuse(part, f"{ast.unparse(part)[:40]} is not read")

    def check_statement(self, node: ast.stmt) -> None:
        """Refuse a statement that the printer does not write, of a kind that it does."""
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Subscript()], value=value) if not isinstance(value, ast.Tuple):
                pass
            case (
                ast.Assign(targets=[ast.Tuple() | ast.List()], value=ast.Call()) | ast.AugAssign(target=ast.Subscript())
            ):
                pass
            case ast.AnnAssign(target=ast.Name()) | ast.For(iter=ast.Call(), orelse=[]) | ast.While(orelse=[]):
                pass
            case ast.With(items=[*items]) if all(isinstance(item.context_expr, ast.Call) for item in items):
                pass
            case ast.Expr(value=ast.Call() | ast.Constant()) | ast.If() | ast.Assert() | ast.Pass():
                pass
            case _:
                raise self.refuse(node, f"a statement of a kernel was expected, got {ast.unparse(node)[:40]}")

    def check_call(self, call: ast.Call) -> None:
        """Refuse a call of anything but an intrinsic, and keywords that none has."""
        callee = dotted_name(call.func)
        root, _, method = callee.rpartition(".")
        is_known = callee in INTRINSICS or callee == "range" or TYPES.fullmatch(callee)
        if not is_known and (root in ("", "T") or method not in METHODS):
            what = f"{callee or 'an expression'} is not an intrinsic of a kernel"
            raise self.refuse(call, what, construct=f"intrinsic {callee[:60]}")
        keywords = {keyword.arg for keyword in call.keywords}
        if not keywords <= (OF_BUFFERS if callee in BUFFERS else OF_CALLS):
            raise self.refuse(call, f"{callee} has a keyword that is not read")

    def use(self, part: ast.Name, k: int) -> None:
        """Record how a buffer is used at one place of its name."""
        above = self.parents.get(id(part))
        if isinstance(above, ast.Subscript) and above.value is part:
            call = self.parents[id(above)]
            callee = dotted_name(call.func) if isinstance(call, ast.Call) else ""
            if isinstance(call, ast.Attribute) or (isinstance(call, ast.Subscript) and call.value is above):
                raise self.refuse(part, f"an element of {part.id} has parts that are not read")
            self.kernel.writes |= {k} if callee == "T.writes" else set()
            self.kernel.passes |= {k} if callee == "T.address_of" else set()
        elif isinstance(above, ast.Attribute):
            outer = self.parents.get(id(above))
            is_called = isinstance(outer, ast.Call) and outer.func is above
            if above.attr == "vstore" and is_called:
                self.kernel.writes.add(k)
            elif above.attr in ADDRESSES:
                self.kernel.passes.add(k)
            elif not (above.attr in FACTS and not is_called) and not (above.attr == "vload" and is_called):
                raise self.refuse(part, f"{part.id}.{above.attr} is not read")
        elif isinstance(above, ast.Call | ast.keyword):
            callee = dotted_name(above.func) if isinstance(above, ast.Call) else ""
            self.kernel.writes |= {k} if callee == "T.writes" else set()
            self.kernel.passes |= {k} if callee not in STATED else set()
        else:
            raise self.refuse(part, f"the buffer {part.id} is used as a value")

    def declare(self, k: int, declared: ast.expr | None) -> None:
        """Note the bytes that a parameter's declaration states, if they are known."""
        if declared is not None and dotted_name(declared) == "T.handle":
            return
        callee = dotted_name(declared.func) if isinstance(declared, ast.Call) else ""
        if not isinstance(declared, ast.Call) or (callee not in BUFFERS and callee != "T.handle"):
            raise self.refuse(declared or self.node, "a parameter has no type that is read")
        options = {keyword.arg: keyword.value for keyword in declared.keywords}
        if callee == "T.handle":
            return
        if not 1 <= len(declared.args) <= 2 or not options.keys() <= OF_PARAMETERS:
            raise self.refuse(declared, "the declaration of a buffer has a part that is not read")
        dtype = string(declared.args[1] if len(declared.args) > 1 else options.get("dtype", ast.Constant("float32")))
        width = bits(dtype or "")
        if width is None and dtype != "handle":
            raise self.refuse(declared, f"{dtype} is not an element type")
        shape = integers(declared.args[0])
        if shape is not None and width is not None and {"strides", "elem_offset"}.isdisjoint(options):
            self.kernel.bytes[k] = max(self.kernel.bytes.get(k, 0), extent(shape, None, width))

    def refuse(self, node: ast.AST, what: str, *, construct: str = "") -> Exception:
        return self.source.refuse(what, line_of(node), construct=construct)


def _position(node: ast.AST) -> tuple[int, int]:
    at = node.context_expr if isinstance(node, ast.withitem) else node
    return getattr(at, "lineno", 0), getattr(at, "col_offset", 0)
