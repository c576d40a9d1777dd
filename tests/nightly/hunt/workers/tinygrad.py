"""tinygrad: a program as a `TinyJit`, the plan of its captured kernels as text, and what its replays return.

Kernels are captured with buffers of their own, `memory_plan_rewrite` puts some of them into arenas, and a kernel's
program states which of its buffers it reads and writes. Conditionals, loops and scans are laid out in line.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])  # in place of this folder, whose files have the names of compilers
os.environ |= {"DEV": "CPU", "PARALLEL": "0", "THREADS": "0"}
import numpy as np
import programs
import serving
import tinygrad.engine.jit as jit
from tinygrad import Tensor, TinyJit, dtypes
from tinygrad.schedule.memory import memory_plan_rewrite
from tinygrad.uop.ops import Ops, UOp

DTYPES = {
    "float32": dtypes.float32, "int32": dtypes.int32, "int8": dtypes.int8, "uint8": dtypes.uint8, "bool": dtypes.bool,
    "int4": dtypes.int8, "uint4": dtypes.uint8,
}  # fmt: skip
VARIANTS = ("lazy", "contiguous", "realized", "devices")
VIEWS = ("reshape", "pad", "transpose", "slice", "broadcast", "copy", "cast", "flip", "split", "take")
SHARE = 0.08
"""The part of programs that are compiled and run."""
ROUNDS = 5
"""A loop of these programs runs less often."""


def choice(*what: object) -> float:
    """A number from 0 to 1 that follows from what is chosen, so that a smaller program chooses the same."""
    return zlib.crc32(repr(what).encode()) / 2**32


class Lowered:
    """A program on tensors; the variant says what is made contiguous, what is realized, and what another device has."""

    def __init__(self, variant: str) -> None:
        self.contiguous = {"lazy": 0.1, "contiguous": 0.7}.get(variant, 0.35)
        self.realized = {"realized": 0.35, "devices": 0.2}.get(variant, 0.0)
        self.shown: set[int] = set()
        self.elsewhere = {"devices": 0.15}.get(variant, 0.0)

    def run(self, program: programs.Program, given: Sequence[Tensor], inside: bool = False) -> list[Tensor]:
        """The outputs."""
        at = dict(zip((value.id for value in program.inputs), given, strict=True))
        root = {value.id: -1 for value in program.inputs}
        for step in program.steps:
            shown = root[step.operands[0]] if step.op in VIEWS else None
            root |= {value.id: -1 if step.programs else value.id if shown is None else shown for value in step.results}
        if not inside:
            self.shown = {k for k, base in root.items() if base == -1}
        last = {root[k]: n for n, step in enumerate(program.steps) for k in step.operands}
        last |= {root[k]: len(program.steps) for k in program.outputs}
        own: set[int] = set()
        for n, step in enumerate(program.steps):
            operands = [at[k] for k in step.operands]
            first = step.operands[0] if step.operands else -1
            is_last = step.attributes.get("inplace") and first in own and root[first] == first and last[first] == n
            apart = first not in {root[k] for k in step.operands[1:]}
            if is_last and apart and not inside and at[first].shape:
                at[step.results[0].id] = self.in_place(step, operands)
                continue
            for value, made in zip(step.results, self.step(step, operands), strict=True):
                if tuple(made.shape) != value.shape:
                    raise AssertionError((step.op, made.shape, value.shape))
                made = made.cast(DTYPES[value.dtype])
                if value.size and choice("contiguous", step.op, value) < self.contiguous:
                    made = made.contiguous()
                    own.add(value.id)
                if value.size and not inside and choice("elsewhere", step.op, value) < self.elsewhere:
                    made = made.to("CPU:1").contiguous().to("CPU")
                if value.size and not inside and choice("realized", step.op, value) < self.realized:
                    made = made.realize()
                at[value.id] = made
        return [at[k] for k in program.outputs]

    def in_place(self, step: programs.Step, operands: Sequence[Tensor]) -> Tensor:
        """The first operand, which is changed."""
        base = operands[0]
        if step.op == "update":
            base[programs.windows(step.attributes["starts"], operands[1].shape)] = operands[1]
            return base
        (made,) = self.step(step, operands)
        return base.assign(made.cast(base.dtype))

    def step(self, step: programs.Step, given: Sequence[Tensor]) -> list[Tensor]:
        """The results of a step."""
        a, inner = step.attributes, step.programs
        x = given[0] if given else None
        match step.op:
            case "call":
                return self.run(inner[0], given, True)
            case "cond":
                arms = [self.run(arm, given[1:], True) for arm in inner]
                return [x.where(first, second) for first, second in zip(*arms, strict=True)]
            case "while":
                for _ in range(ROUNDS):
                    (going,) = self.run(inner[0], given, True)
                    given = [going.where(new, old) for new, old in
                             zip(self.run(inner[1], given, True), given, strict=True)]  # fmt: skip
                return list(given)
            case "scan":
                count = a["carries"]
                carried, over, rows = list(given[:count]), given[count:], []
                for k in range(a["length"]):
                    made = self.run(inner[0], [*carried, *(each[k] for each in over)], True)
                    carried = made[:count]
                    rows.append(made[count:])
                return [*carried, *(Tensor.stack(*column) for column in zip(*rows, strict=True))]
            case "split":
                return list(x.split(a["sizes"], a["axis"]))
            case "constant" | "full":
                value = step.results[0]
                if step.op == "full":
                    return [Tensor.full(value.shape, a["value"], dtype=DTYPES[value.dtype])]
                return [Tensor(np.array(a["values"]).reshape(value.shape).astype(programs.stored_dtype(value.dtype)))]
        return [self.simple(step, given)]

    def simple(self, step: programs.Step, given: Sequence[Tensor]) -> Tensor:
        """The result of a step that has one."""
        a, shape = step.attributes, step.results[0].shape
        x, y, z = (*given, None, None, None)[:3]
        match step.op:
            case "neg":
                return -x
            case "abs":
                return x.abs()
            case "relu":
                return x.maximum(0)
            case "copy":
                return x.contiguous()
            case "cast":
                return x
            case "not":
                return x.logical_not()
            case "and":
                return x.logical_and(y) if hasattr(x, "logical_and") else x * y
            case "add":
                return x + y
            case "sub":
                return x - y
            case "mul":
                return x * y
            case "min":
                return x.minimum(y)
            case "max":
                return x.maximum(y)
            case "add_value":
                return x + a["value"]
            case "mul_value":
                return x * a["value"]
            case "reshape":
                return x.reshape(shape)
            case "transpose":
                return x.permute(a["axes"])
            case "slice":
                return x[tuple(slice(*each) for each in zip(a["starts"], a["stops"], a["strides"], strict=True))]
            case "broadcast":
                return x.expand(shape)
            case "concat":
                return given[0].cat(*given[1:], dim=a["axis"])
            case "update":
                window = programs.windows(a["starts"], y.shape)
                ends = [(each.start, size - each.stop) for each, size in zip(window, shape, strict=True)]
                return Tensor.ones_like(y).cast(dtypes.bool).pad(ends).where(y.pad(ends), x)
            case "pad":
                return x.pad(list(zip(a["before"], a["after"], strict=True)))
            case "take":
                return Tensor.stack(
                    *(
                        x.select(a["axis"], k) if hasattr(x, "select") else x[(slice(None),) * a["axis"] + (k,)]
                        for k in a["indices"]
                    ),
                    dim=a["axis"],
                )
            case "flip":
                return x.flip(a["axis"])
            case "sum":
                return x.sum(a["axis"], keepdim=a["keep"])
            case "amax":
                return x.max(a["axis"], keepdim=a["keep"])
            case "greater":
                return x > y
            case "where":
                return x.where(y, z)
            case "clip":
                return x.maximum(a["low"]).minimum(a["high"])
            case "matmul":
                return x @ y
            case "positive":
                return x.cast(dtypes.int64).sum() > a["value"]
        raise NotImplementedError(step.op)  # fmt: skip


class Capture:
    """The kernels of a capture before and after they are planned."""

    def __init__(self) -> None:
        self.before: UOp | None = None
        self.after: UOp | None = None

    def plan(self, linear: UOp, held: set[UOp] | None = None) -> UOp:
        self.before, self.after = linear, memory_plan_rewrite(linear, held)
        return self.after


def touched(call: UOp) -> tuple[set[int], set[int]]:
    """The operands that a kernel writes, and those that it reads. Raises NotImplementedError."""
    body = call.src[0]
    if body.op is Ops.COPY:
        return {0}, {1}
    if body.op is not Ops.SINK:
        raise NotImplementedError(f"a kernel is {body.op}")
    nodes = body.toposort()
    targets = {each.src[0] for each in nodes if each.op is Ops.STORE}
    read = {s for each in nodes for k, s in enumerate(each.src) if not (each.op is Ops.STORE and k == 0)}

    def slots(found: set[UOp]) -> set[int]:
        indexed = (each for each in found if each.op in (Ops.INDEX, Ops.SHRINK))
        return {each.src[0].buf_uop.arg.slot for each in indexed if each.src[0].buf_uop.op is Ops.PARAM}

    return slots(targets), slots(read)


def place(uop: UOp) -> tuple[UOp, int, int]:
    """The buffer in which something lies, its first byte there and its bytes. Raises NotImplementedError."""
    if uop.op in (Ops.BUFFER, Ops.PARAM):
        return uop, 0, uop.max_numel() * uop.dtype.itemsize
    if uop.op in (Ops.BITCAST, Ops.RESHAPE):
        return place(uop.src[0])
    if uop.op is Ops.SHRINK and len(uop.src[0].shape) == 1:
        base, start, _ = place(uop.src[0])
        first, size = (each.arg if each.op is Ops.CONST else None for each in uop.src[1:])
        if first is not None and size is not None:
            return base, start + first * uop.dtype.itemsize, size * uop.dtype.itemsize
    raise NotImplementedError(f"a kernel's operand is {uop.op}")


def plan_text(capture: Capture, results: Sequence[Tensor]) -> str:
    """The plan as `verify-plan` reads it: buffers as they were captured, at the places that they were given."""
    assert capture.before is not None
    assert capture.after is not None
    names: dict[UOp, str] = {}
    arenas: dict[UOp, int] = {}
    tensors: dict[str, tuple[int, UOp, int]] = {}
    written: set[str] = set()
    inputs: set[str] = set()
    steps = []

    def known(before: UOp, after: UOp) -> str:
        root, start, _ = place(before)
        base, at, _ = place(after)
        if root not in names:
            arenas.setdefault(base, base.max_numel() * base.dtype.itemsize)
            names[root] = name = f"{'arg' if root.op is Ops.PARAM else 'buf'}{len(names)}"
            tensors[name] = root.max_numel() * root.dtype.itemsize, base, at - start
        return names[root]

    for before, after in zip(capture.before.src, capture.after.src, strict=True):
        first, second = jit.get_call_arg_uops(before), jit.get_call_arg_uops(after)
        operands = [known(*pair) for pair in zip(first, second, strict=True)]
        outs, ins = touched(before)
        whole = {
            operands[k] for k in outs if first[k].op is Ops.BUFFER or place(first[k])[2] == tensors[operands[k]][0]
        }
        reads = {operands[k] for k in ins}
        changes = {operands[k] for k in outs} & (reads | written | inputs)
        inputs |= (reads | {operands[k] for k in outs} - whole) - written
        writes = {operands[k] for k in outs}
        # What was there before may stay in part.
        steps.append((after.src[0].op.name, sorted(reads | changes), sorted(writes), sorted(changes)))
        written |= writes
    returned = {uop for made in results for uop in made.uop.toposort() if uop.op is Ops.BUFFER}
    outputs = {names[uop] for uop in returned & names.keys()}
    planned = {uop for uop in names if uop.op is Ops.BUFFER and uop not in arenas}
    lines = ["tmmu-plan-text 1"]
    arena = {uop: f"memory{k}" for k, uop in enumerate(arenas)}
    lines += [f"arena {arena[uop]} {max(1, size)} align 16" for uop, size in arenas.items()]
    for root, name in names.items():
        size, base, offset = tensors[name]
        # A buffer that is read before it is written, and that is no argument, is one that was there before.
        is_input = root.op is Ops.PARAM or (name in inputs and root not in planned)
        words = (" input donated" if is_input else "") + (" output" if name in outputs else "")
        lines.append(f"tensor {name} {size} {arena[base]} {offset}{words} align {root.dtype.itemsize}")
    for k, (op, reads, writes, changes) in enumerate(steps):
        words = f" changes {' '.join(changes)}" if changes else ""
        lines.append(f"step {k}.{op} tinygrad::{op} {' '.join(reads)} -> {' '.join(writes)}{words}")
    return "\n".join(lines) + "\n"


class Planned(Exception):
    """The plan is there, and nothing is to be run."""


def compile_and_run(
    program: programs.Program, inputs: Sequence[Sequence[Any]], variant: str, folder: Path, runs: bool
) -> serving.Compiled:
    capture = Capture()
    results: list[Tensor] = []

    def body(*given: Tensor) -> list[Tensor]:
        nonlocal results
        # A replay returns the very tensors of the capture: what shows an argument would show that one's.
        bases = {each.uop.base for each in given}
        lowered = Lowered(variant)
        made = zip(program.outputs, lowered.run(program, given), strict=True)
        results = [each.clone() if each.uop.base in bases or k in lowered.shown else each for k, each in made]
        return results

    def stop(linear: UOp, **options: Any) -> UOp:
        raise Planned

    def called(function: Any, one: Sequence[Any]) -> list[Any]:
        # A number alone is a constant to tinygrad, and not an argument.
        arguments = (Tensor(np.ascontiguousarray(x)).reshape(x.shape).realize() for x in one)
        return [each.numpy() for each in function(*arguments)]

    def replays() -> list[list[Any]]:
        """What is captured with the first inputs, replayed with each."""
        function = TinyJit(body)
        function.cnt = 1  # captured when it is first called
        called(function, inputs[0])
        return [called(function, one) for one in inputs]

    original = jit.compile_linear
    outputs = unplanned = None
    jit.memory_plan_rewrite, jit.compile_linear = capture.plan, original if runs else stop
    try:
        try:
            outputs = replays()
        except Planned:
            pass
        except jit.JitError as error:
            raise serving.Refused(f"JitError: {error}") from error
        (folder / "plan.plan.txt").write_text(plan_text(capture, results))
        wanted = [programs.evaluate(program, one) for one in inputs]
        if outputs is not None and serving.flat(outputs) != serving.flat(wanted):
            jit.memory_plan_rewrite = lambda linear, held=None: linear
            unplanned = replays()
    except NotImplementedError as error:
        raise serving.Refused(f"{error}") from error
    finally:
        jit.memory_plan_rewrite, jit.compile_linear = memory_plan_rewrite, original
    return serving.Compiled([folder / "plan.plan.txt"], outputs, unplanned)


if __name__ == "__main__":
    serving.serve("tinygrad", metadata.version("tinygrad"), compile_and_run, variants=VARIANTS, share=SHARE)
