"""IREE: a program as StableHLO, the dump of its slices, and its run on the CPU.

The compiler prints the module around the pass that places slices to standard error, which goes to a file for as long as
it compiles. It stops there for most programs; some are compiled further and run.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])  # in place of this folder, whose files have the names of compilers
import iree.runtime as runtime
import numpy as np
import programs as p
import serving
from iree.compiler import api, version
from iree.compiler.api import ctypes_dl

VARIANTS = (
    "default", "O3", "minimum", "debug",
    "default initializers", "O3 initializers", "minimum initializers", "debug initializers",
)  # fmt: skip
"""`initializers`: what is constant is computed when the module is loaded, as the compiler does not run it itself."""
PARTITIONS = {"minimum": "min-peak-memory", "debug": "debug"}
"""How commands are put together, where not for concurrency."""
PASS = "iree-stream-layout-slices"
SHARE = 0.05
"""The part of programs that are compiled to the end, and run."""
TYPES = {
    "float32": "f32", "int32": "i32", "int8": "i8", "uint8": "ui8", "bool": "i1", "int4": "i8", "uint4": "ui8",
    "int64": "i64",
}  # fmt: skip
BINARY = {"add": "add", "sub": "subtract", "mul": "multiply", "min": "minimum", "max": "maximum", "and": "and"}
SIGNED = ("int4", "uint4", "uint8")


def type_of(dtype: str, shape: Sequence[int]) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{TYPES[dtype]}>"


def of(value: p.Value) -> str:
    return type_of(value.dtype, value.shape)


class Text:
    """The text of a module."""

    def __init__(self, variant: str) -> None:
        self.how = PARTITIONS.get(variant.partition(" ")[0], "")
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.count = 0

    def module(self, program: p.Program) -> str:
        self.function("main", program, "public")
        how = f' attributes {{stream.partitioning = #stream.partitioning_config<"{self.how}">}}' if self.how else ""
        return f"module @m{how} {{\n" + "\n".join(self.functions) + "\n}\n"

    def function(self, name: str, program: p.Program, how: str = "private") -> None:
        outer, self.lines = self.lines, []
        given = [f"%x{k}" for k in range(len(program.inputs))]
        made = self.run(program, given)
        values = program.values()
        head = ", ".join(f"{x}: {of(value)}" for x, value in zip(given, program.inputs, strict=True))
        types = ", ".join(of(values[k]) for k in program.outputs)
        lines = "\n".join(self.lines)
        self.functions.append(
            f"func.func {how} @{name}({head}) -> ({types}) {{\n{lines}\nreturn {', '.join(made)} : {types}\n}}"
        )
        self.lines = outer

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def bind(self, expression: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {expression}")
        return name

    def constant(self, dtype: str, shape: Sequence[int], values: Any) -> str:
        """Values of a type; one value for all."""

        def word(each: Any) -> str:
            return (
                str(bool(each)).lower()
                if dtype == "bool"
                else f"{float(each)}"
                if dtype == "float32"
                else str(int(each))
            )

        def nested(each: Any) -> str:
            return f"[{', '.join(nested(part) for part in each)}]" if isinstance(each, list) else word(each)

        what = (
            nested(values) if isinstance(values, list) and values else "" if isinstance(values, list) else word(values)
        )
        return self.bind(f"stablehlo.constant dense<{what}> : {type_of(dtype, shape)}")

    def splat(self, value: p.Value, number: float) -> str:
        return self.constant(value.dtype, value.shape, number)

    def run(self, program: p.Program, given: Sequence[str]) -> list[str]:
        """The names of the outputs."""
        at = dict(zip((value.id for value in program.inputs), given, strict=True))
        values = program.values()
        for step in program.steps:
            operands = [values[k] for k in step.operands]
            made = self.step(step, [at[k] for k in step.operands], operands)
            at |= dict(zip((value.id for value in step.results), made, strict=True))
        return [at[k] for k in program.outputs]

    def region(self, program: p.Program, given: Sequence[str], ends: str = "stablehlo.return") -> str:
        """The body of an operation."""
        outer, self.lines = self.lines, []
        made = self.run(program, given)
        values = program.values()
        types = ", ".join(of(values[k]) for k in program.outputs)
        text = "\n".join([*self.lines, f"{ends} {', '.join(made)} : {types}"])
        self.lines = outer
        return text

    def several(self, expression: str, count: int) -> list[str]:
        """An operation of several results."""
        name = self.name()
        self.lines.append(f"{name}:{count} = {expression}")
        return [f"{name}#{k}" for k in range(count)]

    def step(self, step: p.Step, given: Sequence[str], operands: Sequence[p.Value]) -> list[str]:
        """The results of a step."""
        a, inner, results = step.attributes, step.programs, step.results
        types = ", ".join(of(value) for value in results)
        into = ", ".join(of(value) for value in operands)
        match step.op:
            case "split":
                starts = np.cumsum([0, *a["sizes"]])
                made = []
                for k, value in enumerate(results):
                    windows = [(0, n, 1) for n in operands[0].shape]
                    windows[a["axis"]] = int(starts[k]), int(starts[k + 1]), 1
                    made.append(self.slice(given[0], operands[0], windows, value))
                return made
            case "call":
                name = f"inner{len(self.functions)}_{self.name()[1:]}"
                self.function(name, inner[0])
                return self.several(f"func.call @{name}({', '.join(given)}) : ({into}) -> ({types})", len(results))
            case "cond":
                arms = [self.region(arm, given[1:]) for arm in inner]
                return self.several(
                    f'"stablehlo.if"({given[0]}) ({{\n{arms[0]}\n}}, {{\n{arms[1]}\n}}) : (tensor<i1>) -> ({types})',
                    len(results),
                )
            case "while":
                head = []
                for _ in range(2):
                    names = [self.name() for _ in results]
                    head.append((names, ", ".join(f"{x}: {of(v)}" for x, v in zip(names, results, strict=True))))
                test, body = (self.region(each, names) for each, (names, _) in zip(inner, head, strict=True))
                return self.several(
                    f'"stablehlo.while"({", ".join(given)}) ({{\n^bb0({head[0][1]}):\n{test}\n}}, '
                    f"{{\n^bb0({head[1][1]}):\n{body}\n}}) : ({into}) -> ({types})",
                    len(results),
                )
            case "scan":
                return self.scan(step, given, operands)
        return [self.simple(step, given, operands)]

    def scan(self, step: p.Step, given: Sequence[str], operands: Sequence[p.Value]) -> list[str]:
        """A loop with a counter; rows are read and written at it."""
        carries, length, body = step.attributes["carries"], step.attributes["length"], step.programs[0]
        counter = p.Value(-1, "int32", ())
        rows = step.results[carries:]
        start = [self.constant("int32", (), 0), *given, *(self.splat(value, 0) for value in rows)]
        values = [counter, *operands, *rows]
        heads = []
        for _ in range(2):
            names = [self.name() for _ in values]
            heads.append((names, ", ".join(f"{x}: {of(v)}" for x, v in zip(names, values, strict=True))))
        outer, self.lines = self.lines, []
        limit = self.constant("int32", (), length)
        going = self.bind(f"stablehlo.compare LT, {heads[0][0][0]}, {limit} : (tensor<i32>, tensor<i32>) -> tensor<i1>")
        test = "\n".join([*self.lines, f"stablehlo.return {going} : tensor<i1>"])
        self.lines = []
        names = heads[1][0]
        k, zero = names[0], self.constant("int32", (), 0)
        taken = list(names[1 : 1 + carries])
        for name, value in zip(names[1 + carries : 1 + len(operands)], operands[carries:], strict=True):
            at = ", ".join([k, *[zero] * (len(value.shape) - 1)])
            sizes = [1, *value.shape[1:]]
            row = type_of(value.dtype, sizes)
            cut = self.bind(f"stablehlo.dynamic_slice {name}, {at}, sizes = {sizes} : "
                            f"({of(value)}{', tensor<i32>' * len(sizes)}) -> {row}")  # fmt: skip
            taken.append(self.bind(f"stablehlo.reshape {cut} : ({row}) -> {type_of(value.dtype, sizes[1:])}"))
        made = self.run(body, taken)
        put = []
        for name, new, value in zip(names[1 + len(operands) :], made[carries:], rows, strict=True):
            sizes = [1, *value.shape[1:]]
            row = type_of(value.dtype, sizes)
            wide = self.bind(f"stablehlo.reshape {new} : ({type_of(value.dtype, sizes[1:])}) -> {row}")
            at = ", ".join([k, *[zero] * (len(value.shape) - 1)])
            put.append(self.bind(f"stablehlo.dynamic_update_slice {name}, {wide}, {at} : "
                                 f"({of(value)}, {row}{', tensor<i32>' * len(sizes)}) -> {of(value)}"))  # fmt: skip
        one = self.constant("int32", (), 1)
        following = self.bind(f"stablehlo.add {k}, {one} : tensor<i32>")
        out = [following, *made[:carries], *names[1 + carries : 1 + len(operands)], *put]
        types = ", ".join(of(value) for value in values)
        text = "\n".join([*self.lines, f"stablehlo.return {', '.join(out)} : {types}"])
        self.lines = outer
        found = self.several(
            f'"stablehlo.while"({", ".join(start)}) ({{\n^bb0({heads[0][1]}):\n{test}\n}}, '
            f"{{\n^bb0({heads[1][1]}):\n{text}\n}}) : ({types}) -> ({types})",
            len(values),
        )
        return [*found[1 : 1 + carries], *found[1 + len(operands) :]]

    def slice(self, x: str, base: p.Value, windows: Sequence[tuple[int, int, int]], value: p.Value) -> str:
        if not windows:
            return x
        parts = ", ".join(f"{start}:{stop}:{stride}" for start, stop, stride in windows)
        return self.bind(f"stablehlo.slice {x} [{parts}] : ({of(base)}) -> {of(value)}")

    def broadcast(self, x: str, dtype: str, shape: Sequence[int], dims: Sequence[int], to: Sequence[int]) -> str:
        return self.bind(
            f"stablehlo.broadcast_in_dim {x}, dims = {list(dims)} : ({type_of(dtype, shape)}) -> {type_of(dtype, to)}"
        )

    def reduced(self, x: str, dtype: str, shape: Sequence[int], axes: Sequence[int], op: str) -> str:
        """The sum or maximum over axes."""
        least = -(1 << 22) if dtype == "float32" else {"int8": -128, "uint8": 0}.get(dtype, -(1 << 30))
        start = self.constant(dtype, (), 0 if op == "add" else least)
        made = [n for k, n in enumerate(shape) if k not in axes]
        return self.bind(
            f"stablehlo.reduce({x} init: {start}) applies stablehlo.{op} across dimensions = {list(axes)} : "
            f"({type_of(dtype, shape)}, {type_of(dtype, ())}) -> {type_of(dtype, made)}"
        )

    def simple(self, step: p.Step, given: Sequence[str], operands: Sequence[p.Value]) -> str:
        """The result of a step that has one."""
        a, value = step.attributes, step.results[0]
        into, what = ", ".join(of(each) for each in operands), of(value)
        x, y, z = (*given, "", "", "")[:3]
        base = operands[0] if operands else value
        if step.op in BINARY:
            return self.bind(f"stablehlo.{BINARY[step.op]} {x}, {y} : {what}")
        match step.op:
            case "neg":
                return self.bind(f"stablehlo.negate {x} : {what}")
            case "abs":
                return self.bind(f"stablehlo.abs {x} : {what}")
            case "not":
                return self.bind(f"stablehlo.not {x} : {what}")
            case "relu":
                return self.bind(f"stablehlo.maximum {x}, {self.splat(value, 0)} : {what}")
            case "copy":
                return self.bind(f"stablehlo.optimization_barrier {x} : {what}")
            case "cast":
                return self.bind(f"stablehlo.convert {x} : ({into}) -> {what}") if into != what else x
            case "add_value":
                return self.bind(f"stablehlo.add {x}, {self.splat(value, a['value'])} : {what}")
            case "mul_value":
                return self.bind(f"stablehlo.multiply {x}, {self.splat(value, a['value'])} : {what}")
            case "reshape":
                return self.bind(f"stablehlo.reshape {x} : ({into}) -> {what}")
            case "transpose":
                return self.bind(f"stablehlo.transpose {x}, dims = {list(a['axes'])} : ({into}) -> {what}")
            case "slice":
                return self.slice(x, base, list(zip(a["starts"], a["stops"], a["strides"], strict=True)), value)
            case "broadcast":
                first = len(value.shape) - len(base.shape)
                return self.broadcast(x, base.dtype, base.shape, range(first, len(value.shape)), value.shape)
            case "concat":
                return self.bind(f"stablehlo.concatenate {', '.join(given)}, dim = {a['axis']} : ({into}) -> {what}")
            case "update":
                if not value.shape:
                    return y
                starts = [self.constant("int32", (), start) for start in a["starts"]]
                scalars = ", tensor<i32>" * len(starts)
                return self.bind(
                    f"stablehlo.dynamic_update_slice {x}, {y}, {', '.join(starts)} : ({into}{scalars}) -> {what}"
                )
            case "pad":
                zero = self.constant(value.dtype, (), 0)
                inside = [0] * len(value.shape)
                return self.bind(
                    f"stablehlo.pad {x}, {zero}, low = {list(a['before'])}, high = {list(a['after'])}, "
                    f"interior = {inside} : ({into}, {type_of(value.dtype, ())}) -> {what}"
                )
            case "take":
                parts = []
                for k in a["indices"]:
                    windows = [(0, n, 1) for n in base.shape]
                    windows[a["axis"]] = k, k + 1, 1
                    shape = tuple(1 if n == a["axis"] else size for n, size in enumerate(base.shape))
                    parts.append(
                        (self.slice(x, base, windows, p.Value(0, base.dtype, shape)), type_of(base.dtype, shape))
                    )
                types = ", ".join(each for _, each in parts)
                return self.bind(
                    f"stablehlo.concatenate {', '.join(n for n, _ in parts)}, dim = {a['axis']} : ({types}) -> {what}"
                )
            case "flip":
                return self.bind(f"stablehlo.reverse {x}, dims = [{a['axis']}] : {what}")
            case "sum" | "amax":
                made = self.reduced(x, base.dtype, base.shape, [a["axis"]], "add" if step.op == "sum" else "maximum")
                shape = [n for k, n in enumerate(base.shape) if k != a["axis"]]
                if not a["keep"]:
                    return made
                return self.bind(f"stablehlo.reshape {made} : ({type_of(base.dtype, shape)}) -> {what}")
            case "greater":
                return self.bind(f"stablehlo.compare GT, {x}, {y} : ({into}) -> {what}")
            case "where":
                return self.bind(f"stablehlo.select {x}, {y}, {z} : {type_of('bool', value.shape)}, {what}")
            case "clip":
                low = self.bind(f"stablehlo.maximum {x}, {self.splat(value, a['low'])} : {what}")
                return self.bind(f"stablehlo.minimum {low}, {self.splat(value, a['high'])} : {what}")
            case "matmul":
                return self.bind(f"stablehlo.dot_general {x}, {y}, contracting_dims = [1] x [0] : ({into}) -> {what}")
            case "full":
                return self.splat(value, a["value"])
            case "constant":
                return self.constant(value.dtype, value.shape, np.array(a["values"]).reshape(value.shape).tolist())
            case "positive":
                wide = self.bind(f"stablehlo.convert {x} : ({into}) -> {type_of('int32', base.shape)}")
                total = self.reduced(wide, "int32", base.shape, range(len(base.shape)), "add")
                least = self.constant("int32", (), a["value"])
                return self.bind(f"stablehlo.compare GT, {total}, {least} : (tensor<i32>, tensor<i32>) -> tensor<i1>")
        raise serving.Refused(f"no {step.op} is written")  # fmt: skip


def compiled(text: str, variant: str, runs: bool) -> tuple[str, bytes]:
    """What the compiler prints, and the program if it is to be run. Raises Refused with the first error."""
    session = SESSIONS.get(variant)
    if session is None:
        session = SESSIONS[variant] = api.Session()
        flags = (
            "--iree-hal-target-backends=llvm-cpu",
            "--iree-llvmcpu-target-cpu=generic",
            *(["--iree-opt-level=O3"] if variant.startswith("O3") else []),
            *(["--iree-opt-const-eval=false"] if variant.endswith("initializers") else []),
        )
        session.set_flags(*flags)
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    if not runs:
        ctypes_dl._dylib.ireeCompilerInvocationSetCompileToPhase(ctypes_dl.c_void_p(invocation._inv_p), b"stream")
    data = b""
    with tempfile.TemporaryFile() as printed:
        kept = os.dup(2)
        os.dup2(printed.fileno(), 2)
        try:
            source = api.Source.wrap_buffer(session, text.encode() + b"\0")
            is_right = invocation.parse_source(source) and invocation.execute()
            if is_right and runs:
                output = api.Output.open_membuffer()
                invocation.output_vm_bytecode(output)
                data = bytes(output.map_memory())
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        printed.seek(0)
        dump = printed.read().decode()
    if not is_right:
        lines = [line for line in dump.splitlines() if "error:" in line]
        raise serving.Refused(lines[0][:300] if lines else "no error is printed")
    return dump, data


SESSIONS: dict[str, api.Session] = {}


def executed(data: bytes, inputs: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The outputs for each set of inputs, and behind them the arguments that are others after the call."""
    config = runtime.Config("local-sync")
    module = runtime.VmModule.copy_buffer(config.vm_instance, data)
    main = runtime.load_vm_module(module, config).main
    found = []
    for one in inputs:
        given = [runtime.asdevicearray(config.device, np.array(each)) for each in one]
        made = main(*given)
        outputs = [np.asarray(each) for each in (made if isinstance(made, tuple | list) else [made])]
        after = [each.to_host() for each in given]
        changed = [new for new, old in zip(after, one, strict=True) if not np.array_equal(new, old)]
        found.append([*outputs, *changed])
    return found


def compile_and_run(
    program: p.Program, inputs: Sequence[Sequence[Any]], variant: str, folder: Path, runs: bool
) -> serving.Compiled:
    text = Text(variant).module(program)
    (folder / "source.mlir").write_text(text)
    dump, data = compiled(text, variant, runs)
    plan = folder / "plan.iree"
    plan.write_text(dump)
    plans = [plan] if "stream.cmd.execute" in dump else []
    return serving.Compiled(plans, executed(data, inputs) if runs else None)


if __name__ == "__main__":
    api._initializeGlobalCL(
        "hunt", f"--mlir-print-ir-before={PASS}", f"--mlir-print-ir-after={PASS}", "--mlir-disable-threading"
    )
    serving.serve("IREE", str(version.VERSION), compile_and_run, variants=VARIANTS, share=SHARE)
