"""TVM Relax: a program as a script, planned by `StaticPlanBlockMemory` and run by Relax's virtual machine.

Conditionals are Ifs, callees functions of their own, loops functions that call themselves, scans are laid out in line.
What stands between them is a dataflow block or is not; some values are bound again, cast to what they are, or passed
through a tuple, as the variant says.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])  # in place of this folder, whose files have the names of compilers
import numpy as np
import programs as p
import serving
import tvm
from apart import apart
from tvm import relax
from tvm.relax import transform
from tvm.script import ir as I  # noqa: N812
from tvm.script import relax as R  # noqa: N812

CONTROL = ("cond", "while", "scan", "call")
VARIANTS = (
    "default", "plain", "dataflow", "inplace", "names", "default straight", "inplace straight", "names straight",
)  # fmt: skip
"""`straight`: without Ifs and functions that call themselves, as plans are wrong with them (finding 193)."""
SHARE = 0.1
"""The part of programs that are run as well: code is generated for these alone."""
FOLDED = 0.1
"""The part of those that are fused whose constants are folded before: TVM calls LLVM for each."""
ROUNDS = 5
"""A loop of these programs runs less often."""


def choice(*what: object) -> float:
    """A number from 0 to 1 that follows from what is chosen, so that a smaller program chooses the same."""
    return zlib.crc32(repr(what).encode()) / 2**32


def dtype_of(value: p.Value) -> str:
    """TVM's kernels have no narrower types."""
    return p.STORED.get(value.dtype, value.dtype)


def tensor(value: p.Value) -> str:
    return f'R.Tensor({value.shape}, "{dtype_of(value)}")'


def constant(value: p.Value, numbers: Any) -> str:
    return f'R.const({numbers}, "{dtype_of(value)}")'


class Script:
    """The text of a module."""

    def __init__(self, variant: str) -> None:
        self.variant, _, straight = variant.partition(" ")
        self.straight = bool(straight)
        self.functions: list[str] = []
        self.lines: list[str] = []
        self.count = 0
        self.values: dict[int, p.Value] = {}

    def module(self, program: p.Program) -> str:
        self.function("main", program.inputs, [program.values()[k] for k in program.outputs],
                      lambda given, depth: self.tuple(self.run(program, given, depth), depth))  # fmt: skip
        return "@I.ir_module\nclass Module:\n" + "\n".join(self.functions)

    def function(self, name: str, inputs: Sequence[p.Value], results: Sequence[p.Value], body: Any) -> None:
        given = [f"x{k}" for k in range(len(inputs))]
        outer, self.lines = self.lines, []
        result = body(given, 2)
        head = ", ".join(f"{x}: {tensor(value)}" for x, value in zip(given, inputs, strict=True))
        what = ", ".join(tensor(value) for value in results)
        text = [f"    @R.function\n    def {name}({head}) -> R.Tuple({what}):", *self.lines, f"        return {result}"]
        self.functions.append("\n".join(text))
        self.lines = outer

    def say(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def bind(self, depth: int, expression: str) -> str:
        name = self.name()
        self.say(depth, f"{name} = {expression}")
        return name

    def tuple(self, names: Sequence[str], depth: int) -> str:
        return self.bind(depth, "(" + "".join(f"{each}, " for each in names) + ")")

    def items(self, name: str, count: int, depth: int) -> list[str]:
        return [self.bind(depth, f"{name}[{k}]") for k in range(count)]

    def either(self, flag: str, first: Any, second: Any, depth: int) -> str:
        result = self.name()
        for head, arm in ((f"if {flag}:", first), ("else:", second)):
            self.say(depth, head)
            self.say(depth + 1, f"{result} = {arm(depth + 1)}")
        return result

    def run(self, program: p.Program, given: Sequence[str], depth: int) -> list[str]:
        """The names of the outputs."""
        at = dict(zip((value.id for value in program.inputs), given, strict=True))
        outer, self.values = self.values, program.values()
        start = 0
        while start < len(program.steps):
            end = start
            while end < len(program.steps) and program.steps[end].op not in CONTROL:
                end += 1
            part = program.steps[start:end]
            in_block = {"plain": 0.0, "dataflow": 1.0}.get(self.variant, 0.6)
            if part and choice("block", part[0].results[0]) < in_block:
                later = set(program.outputs) | {k for step in program.steps[end:] for k in step.operands}
                self.say(depth, "with R.dataflow():")
                for step in part:
                    self.emit(step, at, depth + 1)
                kept = dict.fromkeys(at[v.id] for step in part for v in step.results if v.id in later)
                kept = kept or {at[part[-1].results[0].id]: None}
                self.say(depth + 1, f"R.output({', '.join(kept)})")
            else:
                for step in part:
                    self.emit(step, at, depth)
            if end < len(program.steps):
                step = program.steps[end]
                made = self.control(step, [at[k] for k in step.operands], depth)
                at |= dict(zip((value.id for value in step.results), made, strict=True))
            start = end + 1
        self.values = outer
        return [at[k] for k in program.outputs]

    def emit(self, step: p.Step, at: dict[int, str], depth: int) -> None:
        """A step, its results under a further name now and then."""
        given = [at[k] for k in step.operands]
        if step.op == "split":
            cuts = np.cumsum(step.attributes["sizes"])[:-1].tolist()
            parts = self.bind(depth, f"R.split({given[0]}, {cuts}, axis={step.attributes['axis']})")
            made = self.items(parts, len(step.results), depth)
        else:
            made = [self.bind(depth, self.expression(step, given, depth))]
        for value, name in zip(step.results, made, strict=True):
            kind = choice("name", step.op, value) / {"names": 0.7, "plain": 0.05}.get(self.variant, 0.25)
            if kind < 0.3:
                name = self.bind(depth, f"R.match_cast({name}, {tensor(value)})")
            elif kind < 0.5:
                name = self.bind(depth, name)
            elif kind < 0.8:
                name = self.items(self.tuple([*given[:1], name], depth), len(given[:1]) + 1, depth)[-1]
            elif kind < 1 and value.size:
                flat = self.bind(depth, f"R.reshape({name}, ({value.size},))")
                name = self.bind(depth, f"R.reshape({flat}, {value.shape})")
            at[value.id] = name

    def control(self, step: p.Step, given: Sequence[str], depth: int) -> list[str]:
        """The results of a step that runs programs."""
        inner, count = step.programs, len(step.results)
        if step.op == "cond" and self.straight:
            made = [self.run(arm, given[1:], depth) for arm in inner]
            return [self.bind(depth, f"R.where({given[0]}, {a}, {b})") for a, b in zip(*made, strict=True)]
        if step.op == "while" and self.straight:
            carried = list(given)
            for _ in range(ROUNDS):
                (going,) = self.run(inner[0], carried, depth)
                pairs = zip(self.run(inner[1], carried, depth), carried, strict=True)
                carried = [self.bind(depth, f"R.where({going}, {new}, {old})") for new, old in pairs]
            return carried
        if step.op == "cond":
            arms = [lambda d, arm=arm: self.tuple(self.run(arm, given[1:], d), d) for arm in inner]
            return self.items(self.either(given[0], *arms, depth), count, depth)
        if step.op == "call":
            name = f"inner{len(self.functions)}_{self.name()}"
            self.function(name, inner[0].inputs, step.results, lambda x, d: self.tuple(self.run(inner[0], x, d), d))
            return self.items(self.bind(depth, f"Module.{name}({', '.join(given)})"), count, depth)
        if step.op == "while":
            name = f"loop{len(self.functions)}_{self.name()}"

            def body(x: list[str], d: int) -> str:
                def again(e: int) -> str:
                    return self.bind(e, f"Module.{name}({', '.join(self.run(inner[1], x, e))})")

                return self.either(self.run(inner[0], x, d)[0], again, lambda e: self.tuple(x, e), d)

            self.function(name, step.results, step.results, body)
            return self.items(self.bind(depth, f"Module.{name}({', '.join(given)})"), count, depth)
        carries = step.attributes["carries"]
        carried, over, rows = list(given[:carries]), given[carries:], list[list[str]]()
        for k in range(step.attributes["length"]):
            taken = [self.bind(depth, f'R.take({each}, R.const({k}, "int64"), axis=0, mode="clip")') for each in over]
            made = self.run(inner[0], [*carried, *taken], depth)
            carried = made[:carries]
            rows.append(made[carries:])
        stacked = [self.bind(depth, f"R.stack([{', '.join(column)}], axis=0)") for column in zip(*rows, strict=True)]
        return [*carried, *stacked]

    def expression(self, step: p.Step, given: Sequence[str], depth: int) -> str:
        """A step of one result."""
        a, value = step.attributes, step.results[0]
        shape, dtype = value.shape, dtype_of(value)
        x, y, z = (*given, "", "", "")[:3]
        binary = {"add": "add", "sub": "subtract", "mul": "multiply", "min": "minimum", "max": "maximum",
                  "greater": "greater", "and": "logical_and"}  # fmt: skip
        if step.op in binary:
            return f"R.{binary[step.op]}({x}, {y})"
        match step.op:
            case "neg":
                return f"R.negative({x})"
            case "abs":
                return f"R.abs({x})"
            case "not":
                return f"R.logical_not({x})"
            case "relu":
                return f"R.nn.relu({x})" if dtype == "float32" else f"R.maximum({x}, {constant(value, 0)})"
            case "copy":
                return f"R.add({x}, {constant(value, 0)})" if dtype != "bool" else f"R.logical_or({x}, {x})"
            case "cast":
                return f'R.astype({x}, "{dtype}")'
            case "add_value":
                return f"R.add({x}, {constant(value, a['value'])})"
            case "mul_value":
                return f"R.multiply({x}, {constant(value, a['value'])})"
            case "reshape":
                return f"R.reshape({x}, {shape})"
            case "transpose":
                return f"R.permute_dims({x}, {a['axes']})"
            case "slice":
                axes = list(range(len(shape)))
                return f"R.strided_slice({x}, {axes}, {a['starts']}, {a['stops']}, {a['strides']})"
            case "broadcast":
                return f"R.broadcast_to({x}, {shape})"
            case "concat":
                return f"R.concat([{', '.join(given)}], axis={a['axis']})"
            case "update":
                mask = np.zeros(shape, bool)
                window = p.windows(a["starts"], self.values[step.operands[1]].shape)
                mask[window] = True
                ends = [n for each, size in zip(window, shape, strict=True) for n in (each.start, size - each.stop)]
                padded = self.bind(depth, f"R.nn.pad({y}, {ends})")
                if not shape or 0 in shape:
                    return f"R.add({x}, {constant(value, 0)})"
                return f'R.where(R.const({mask.tolist()}, "bool"), {padded}, {x})'
            case "pad":
                ends = [n for pair in zip(a["before"], a["after"], strict=True) for n in pair]
                return f"R.nn.pad({x}, {ends})"
            case "take":
                return f'R.take({x}, R.const({a["indices"]}, "int64"), axis={a["axis"]}, mode="clip")'
            case "flip":
                return f"R.flip({x}, axis={a['axis']})"
            case "sum":
                return f"R.sum({x}, axis=[{a['axis']}], keepdims={a['keep']})"
            case "amax":
                return f"R.max({x}, axis=[{a['axis']}], keepdims={a['keep']})"
            case "where":
                return f"R.where({x}, {y}, {z})"
            case "clip":
                return f"R.clip({x}, {a['low']}, {a['high']})"
            case "matmul":
                return f"R.matmul({x}, {y})"
            case "full":
                return f'R.full({shape}, {constant(value, a["value"])}, "{dtype}")'
            case "constant":
                return f'R.const({np.array(a["values"]).reshape(shape).tolist()}, "{dtype}")'
            case "positive":
                total = self.bind(depth, f'R.sum(R.astype({x}, "int64"))')
                return f'R.greater({total}, R.const({a["value"]}, "int64"))'
        raise serving.Refused(f"no {step.op} is written")  # fmt: skip


BEFORE = (transform.RewriteDataflowReshape, transform.ToNonDataflow, transform.RemovePurityChecking,
          transform.CallTIRRewrite)  # fmt: skip
AFTER = (transform.LowerAllocTensor, transform.KillAfterLastUse, transform.LowerRuntimeBuiltin,
         transform.ComputePrimValue, transform.VMShapeLower, transform.AttachGlobalSymbol)  # fmt: skip


def passes(variant: str, folds: bool) -> list[Any]:
    """Those before the plan."""
    variant = variant.partition(" ")[0]
    made = [transform.DataflowUseInplaceCalls()] if variant == "inplace" else []
    made += [transform.LegalizeOps(), transform.AnnotateTIROpPattern()]
    if variant in ("default", "names"):
        made += [transform.FoldConstant()] if folds else []
        made += [transform.FuseOps(), transform.FuseTIR()]
    return made + [each() for each in BEFORE]


def executed(module: Any, inputs: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The outputs for each set of inputs. None at all where the program ends its process."""
    for each in AFTER:
        module = each()(module)
    binary = relax.build(module, target="llvm", relax_pipeline=None)

    def run() -> list[list[Any]]:
        machine = relax.VirtualMachine(binary, tvm.cpu())
        return [[made.numpy() for made in machine["main"](*(tvm.runtime.tensor(x) for x in one))] for one in inputs]

    return apart(run) or []


def compile_and_run(
    program: p.Program, inputs: Sequence[Sequence[Any]], variant: str, folder: Path, runs: bool
) -> serving.Compiled:
    text = Script(variant).module(program)
    (folder / "source.py").write_text(text)
    module = tvm.script.from_source(text, {"I": I, "R": R})
    with tvm.target.Target("llvm"):
        folds = choice("fold", program.inputs, len(program.steps)) < FOLDED
        try:
            lowered = tvm.transform.Sequential(passes(variant, folds))(module)
        except tvm.error.InternalError:  # FuseOps does not take each constant that is not folded
            lowered = tvm.transform.Sequential(passes(variant, folds=True))(module)
        planned = transform.StaticPlanBlockMemory()(lowered)
        plan = folder / "plan.relax"
        plan.write_text(planned.script() + "\n")
        plans = [plan] if "R.memory.alloc_storage" in plan.read_text() else []
        if not runs:
            return serving.Compiled(plans)
        outputs = executed(planned, inputs)
        wanted = [p.evaluate(program, one) for one in inputs]
        unplanned = None
        if serving.flat(outputs) != serving.flat(wanted):
            unplanned = executed(lowered, inputs)
    return serving.Compiled(plans, outputs, unplanned)


if __name__ == "__main__":
    serving.serve("TVM Relax", tvm.__version__, compile_and_run, variants=VARIANTS, share=SHARE)
