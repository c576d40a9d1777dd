"""What is outside of the functions of an Inductor wrapper that run kernels: each statement is known, or is refused.

These are imports, names for operators, kernels, constants, the class `Runner`, functions that run kernels or state the
sizes of arguments, and the lines that run a benchmark. A name that the reader gives a meaning to must have that
meaning: `alloc_from_pool` is `torch.ops.inductor._alloc_from_pool`. spec: FP8.10, FP8.16
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from proofs.readers.plans.inductor_kernels import WrapperKernel, kernel_in
from proofs.readers.plans.script import dotted_name, line_of
from tmmu.core.source import Source

FUNCTION = re.compile(r"call|partition_\d+", re.ASCII)
"""The functions of a wrapper that run kernels."""
IMPORTED = frozenset((
    "__future__", "atexit", "cmath", "ctypes", "math", "numpy", "os", "pickle", "random", "sys", "tempfile", "torch",
    "triton", "sympy",
))  # fmt: skip
"""The packages that a wrapper imports from."""
GUARDS = r"torch\._C\._dynamo\.guards\."
MEANINGS = {
    name: re.compile(meaning, re.ASCII)
    for name, meaning in (
        ("torch", "torch"), ("aten", r"torch\.ops\.aten"), ("inductor_ops", r"torch\.ops\.inductor"),
        ("_quantized", r"torch\.ops\._quantized"), ("reinterpret_tensor", GUARDS + "_reinterpret_tensor"),
        ("alloc_from_pool", r"torch\.ops\.inductor\._alloc_from_pool"),
        ("align", r"torch\._inductor\.codegen\.memory_planning\._align"),
        ("extern_kernels", r"torch\._inductor\.(?:select_algorithm|kernel\.\w+)\.extern_kernels"),
        ("assert_size_stride", GUARDS + "assert_size_stride"),
        ("assert_size_stride_grouped", GUARDS + "assert_size_stride_grouped"),
        ("assert_alignment", GUARDS + "assert_alignment"), ("copy_if_misaligned", GUARDS + "copy_if_misaligned"),
        ("assert_tensor_metadata", r"torch\._inductor\.runtime\.runtime_utils\.assert_tensor_metadata"),
        ("empty_strided", r"torch\.empty_strided"),
        ("async_compile", r"torch\._inductor\.async_compile\.AsyncCompile\(\)"),
        ("runner", r"Runner"), ("call", r"runner\.call"),
        ("recursively_apply_fns", r"runner\.recursively_apply_fns"),
        *((name, name) for name in ("int", "float", "bool", "max", "min", "self", "args", "Runner", "rand_strided")),
    )
}  # fmt: skip
"""Names to which the reader gives a meaning, with the only value that each may be bound to."""
EMPTY = re.compile(
    GUARDS + r"_empty_strided_\w+|torch\._C\._distributed_c10d\._SymmetricMemory\.empty_strided_p2p", re.ASCII
)
RUNNER = {
    "__init__": "def __init__(self, partitions):\n    self.partitions = partitions",
    "recursively_apply_fns": (
        "def recursively_apply_fns(self, fns):\n    new_callables = []\n    for fn, c in zip(fns, self.partitions):\n"
        "        new_callables.append(fn(c))\n    self.partitions = new_callables"
    ),
}
"""The methods of the class beside `call`, as Inductor writes them."""
KNOWN = {"get_raw_stream": "def get_raw_stream(_):\n    return 0"}
SIZED = ("get_args", "benchmark_compiled_module")
"""The functions that state the sizes of arguments; nothing else of them is read."""
FIX = "use what Inductor writes as output_code.py"


@dataclass
class InductorModule:
    """A wrapper's file: its kernels, the functions that run them, those that state sizes, and the names it binds."""

    source: Source
    tree: ast.Module
    kernels: dict[str, WrapperKernel] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    subgraphs: dict[str, ast.FunctionDef] = field(default_factory=dict)
    sized: list[ast.FunctionDef] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """What names are bound to that are no functions: a dotted name, or "" for a constant."""
    partitions: list[str] = field(default_factory=list)

    def read(self) -> None:
        """Read every statement. Raises INVALID_PLAN with the line of one that is not known. O(nodes)."""
        for node in self.tree.body:
            self.source.count_work(1)
            self.statement(node)
        if "call" not in self.functions:
            raise self.source.refuse("no function call(args) is in it", None, FIX)

    def refuse(self, node: ast.AST, what: str) -> Exception:
        """Return an error with the line of a node."""
        return self.source.refuse(what, line_of(node), FIX, construct=f"statement {type(node).__name__}")

    def statement(self, node: ast.stmt) -> None:
        """Read a statement of the module."""
        match node:
            case ast.Import(names=names):
                for each in names:
                    top = each.name.split(".")[0]
                    self.bind(node, each.asname or top, each.name if each.asname else top, top)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for each in names:
                    self.bind(node, each.asname or each.name, f"{module}.{each.name}", module.split(".")[0])
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.assigned(node, name, value)
            case ast.FunctionDef():
                self.function(node)
            case ast.ClassDef(name="Runner", bases=[], keywords=[], decorator_list=[]):
                self.names["Runner"] = "Runner"
                for method in node.body:
                    if not isinstance(method, ast.FunctionDef):
                        raise self.refuse(method, "a statement in Runner that is not known")
                    self.function(method, of_class=True)
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Expr(value=ast.Call() as call) if ast.unparse(call) == "async_compile.wait(globals())":
                pass
            case ast.Delete(targets=[ast.Name(id="async_compile")]):
                pass
            case ast.If(test=test, orelse=[]) if ast.unparse(test) == "__name__ == '__main__'":
                pass  # the lines that run a benchmark
            case _:
                raise self.refuse(node, f"a statement that is not known: {ast.unparse(node)[:60]}")

    def bind(self, node: ast.stmt, name: str, meaning: str, package: str) -> None:
        """Bind a name to what is imported."""
        if package not in IMPORTED or name == "*":
            raise self.refuse(node, f"an import of {package}.{name}, which is not known")
        self.mean(node, name, meaning)

    def mean(self, node: ast.stmt, name: str, meaning: str) -> None:
        """Bind a name. A name in `MEANINGS` has one meaning, and no function or kernel loses its name."""
        wanted = EMPTY if name.startswith("empty_strided_") else MEANINGS.get(name)
        if wanted is not None and not wanted.fullmatch(meaning):
            raise self.refuse(node, f"{name} is bound to {meaning or 'a constant'}, which is not known")
        if name in self.kernels or name in self.subgraphs or (name in self.functions and name != "call"):
            raise self.refuse(node, f"a second {name}")
        self.names[name] = meaning

    def assigned(self, node: ast.Assign, name: str, value: ast.expr) -> None:
        """A kernel, a name for another one, or a constant."""
        if isinstance(value, ast.Call):
            callee = dotted_name(value.func)
            if callee.startswith("async_compile."):
                self.mean(node, name, callee)
                self.kernels[name] = kernel_in(self.source, name, value)
                return
            text = ast.unparse(value)
            if text == "AsyncCompile()":
                self.mean(node, name, f"{self.names.get('AsyncCompile', '')}()")
                return
            if callee == "Runner" and not value.args and [key.arg for key in value.keywords] == ["partitions"]:
                listed = value.keywords[0].value
                if isinstance(listed, ast.List) and all(isinstance(each, ast.Name) for each in listed.elts):
                    self.partitions = [ast.unparse(each) for each in listed.elts]
                    self.mean(node, name, "Runner")
                    return
            raise self.refuse(node, f"a call that is not known: {text[:60]}")
        called = dotted_name(value)
        if called:
            root, dot, rest = called.partition(".")
            if root not in self.names:
                raise self.refuse(node, f"no {root} is there")
            is_own = root in ("runner", "torch")
            self.mean(node, name, called if is_own else f"{self.names[root]}{dot}{rest}")
            return
        for each in ast.walk(value):
            self.source.count_work(1)
            if not isinstance(each, ast.Constant | ast.Dict | ast.List | ast.Tuple | ast.UnaryOp | ast.USub | ast.Load):
                raise self.refuse(node, f"a value that is not a constant: {ast.unparse(value)[:60]}")
        self.mean(node, name, "")

    def function(self, node: ast.FunctionDef, *, of_class: bool = False) -> None:
        """A function: one that runs kernels, states sizes, or is known as a whole."""
        given = node.args
        parameters = [each.arg for each in given.args]
        is_plain = not (given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs)
        if node.decorator_list or not is_plain:
            raise self.refuse(node, f"{node.name} has decorators or parameters that are not known")
        whole = (RUNNER if of_class else KNOWN).get(node.name)
        if whole is not None:
            if ast.unparse(node) != whole:
                raise self.refuse(node, f"{node.name} is another one than Inductor writes")
            self.names[node.name] = ""
            return
        if FUNCTION.fullmatch(node.name) and parameters == (["self"] if of_class else []) + ["args"]:
            self.once(node, self.functions)
        elif node.name in SIZED and not of_class:
            self.sized.append(node)
        elif parameters == ["args"] and not given.defaults and not of_class:
            self.once(node, self.subgraphs)
        else:
            raise self.refuse(node, f"a function {node.name}({', '.join(parameters)}) that is not known")

    def once(self, node: ast.FunctionDef, functions: dict[str, ast.FunctionDef]) -> None:
        """Add a function whose name nothing else has."""
        if node.args.defaults:
            raise self.refuse(node, f"{node.name} has defaults")
        if node.name in {**self.functions, **self.subgraphs, **self.kernels} or node.name in MEANINGS.keys() - {"call"}:
            raise self.refuse(node, f"a second function {node.name}")
        functions[node.name] = node
