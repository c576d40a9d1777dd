"""The calls of an Inductor wrapper: allocations, kernels of the file, operators of libraries, methods of tensors.

A call that is none of these is refused. An operator reads its operands, writes what `out=` names, or its first operand
if its name ends with `_`, and returns memory of its own or a view; a collective does so until its result is waited for.
spec: FP8.4, FP8.6, FP8.11 to FP8.16
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.readers.plans.cells import Pointer
from proofs.readers.plans.inductor_access import KernelText
from proofs.readers.plans.inductor_kernels import KEPT, READ, WRITTEN, Parameter, PassedOperand, WrapperKernel
from proofs.readers.plans.inductor_memory import DOMAIN, FUNCTIONS, BufferMemory, width_of
from proofs.readers.plans.script import Names, ScriptValue, dotted_name
from tmmu.core.streams import Lanes

CHECKS = frozenset(("assert_size_stride", "assert_size_stride_grouped", "assert_alignment"))
"""Checks of shapes and addresses, which read and write nothing."""
OF_STREAMS = re.compile(r"torch\.\w+\.(?:synchronize|set_device)|get_raw_stream|start_graph|end_graph", re.ASCII)
"""Calls on streams, devices and profiles: steps run one after another."""
NUMBERS = frozenset(("int", "float", "bool", *FUNCTIONS))
LIBRARIES = frozenset((
    "aten", "prims", "inductor", "quantized", "quantized_decomposed", "extern_kernels", "torch", "rngprims", "mkldnn",
    "onednn", "mkl", "_quantized", "profiler", "torch_sparse", "_c10d_functional", "_dtensor",
))  # fmt: skip
"""Libraries whose operators change no operand but as `Calls.operator` reads."""
COLLECTIVES = "_c10d_functional"
SEVERAL = re.compile(r"_?(?:fused|foreach|amp)_\w+_", re.ASCII)
"""Operators in place that change all of their operands that are lists, and may change others."""
UNSTATED = frozenset((
    "native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update",
    "batch_norm", "set_", "resize_", "resize_as_", "resize_storage_bytes_", "swap_tensors", "record_stream", "rrelu",
    "rrelu_with_noise", "_cudnn_rnn", "instance_norm", "call_torchbind", "auto_functionalized",
))  # fmt: skip
"""Operators that may change other operands than their names state."""
VIEWS = frozenset((
    "view", "reshape", "slice", "select", "t", "transpose", "permute", "expand", "squeeze", "unsqueeze", "detach",
    "alias", "view_as", "view_as_real", "view_as_complex", "split", "split_with_sizes", "unbind", "chunk", "real",
    "imag", "diagonal", "unfold", "narrow", "_reshape_alias", "numpy_T", "swapaxes", "movedim", "flatten", "expand_as",
))  # fmt: skip
"""Operators and methods whose result is in their operand's bytes, or can be."""
SHAPES = frozenset(("size", "stride", "dim", "numel", "storage_offset", "element_size", "is_contiguous", "get_device"))
"""Methods that read a tensor's shape and not its elements."""
READERS = frozenset(("clone", "item", "any", "all", "isnan", "isinf", "tolist", "sum", "amax", "amin", "nonzero"))
"""Methods that read a tensor and return memory of their own."""
COPIES = frozenset(("contiguous", "to", "cpu", "cuda", "float", "double", "half", "bool", "int", "long"))
"""Methods that return a copy or their tensor."""
OF_EVENTS = frozenset(("record", "synchronize"))
WAYS = "use Inductor's kernels, operators of aten, and the methods that spec/foreign.md lists"


@dataclass
class _Touched:
    """What a call reads and writes."""

    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    keeps: list[int] = field(default_factory=list)


class _Started(NamedTuple):
    """A collective that was started: it reads `operands` and writes `results` until it is waited for.

    `step` is its number and `lane` its stream. The lane is "" inside of branches, where steps are on no stream.
    """

    label: str
    node: ast.Call
    operands: frozenset[int]
    results: frozenset[int]
    step: int
    lane: str


class Calls(BufferMemory):
    """Reads the calls of a wrapper. `kernels` are those of the file, `modules` the names that are bound outside of its
    functions.
    """

    kernels: dict[str, WrapperKernel]
    subgraphs: dict[str, ast.FunctionDef]
    modules: frozenset[str]
    started: list[_Started]
    lanes: Lanes

    def subgraph(self, node: ast.Call, callee: str, names: Names) -> ScriptValue:
        """Return what a function of the file returns."""
        raise NotImplementedError

    def cells(self, node: ast.expr, names: Names) -> list[int]:
        """Return the cells that an expression reads."""
        return [pointer.cell for pointer in self.value(node, names, "").every(self.source)]

    def step(self, what: str, touched: _Touched) -> None:
        """State a step."""
        self.check_collectives(what, touched)
        self.memory.step(what, (DOMAIN, what), touched.reads, touched.writes, touched.keeps)

    def check_collectives(self, what: str, touched: _Touched) -> None:
        """Leave a step undecided that accesses memory of a running collective that is on no stream. spec: FP8.15"""
        for each in self.started:
            if each.lane:
                continue
            self.source.count_work(len(touched.reads) + len(touched.writes) + len(touched.keeps))
            changed = {*touched.writes, *touched.keeps}
            if changed & (each.operands | each.results) or each.results.intersection(touched.reads):
                self.leave_undecided("collective", each.node, f"{what} uses memory of {each.label} that still runs")

    def memory_written(self, what: str, reads: list[int], keeps: list[int]) -> None:
        """State a step that writes a part of some cells."""
        self.step(what, _Touched(reads + one_of(keeps), [], keeps))

    def call(self, node: ast.Call, names: Names, name: str) -> ScriptValue:
        """Return what a call returns; it may be a step. Raises INVALID_PLAN for one that is not known. spec: FP8.16"""
        if any(isinstance(arg, ast.Starred) for arg in node.args) or any(key.arg is None for key in node.keywords):
            raise self.refuse(node, "a call with * or **, whose operands are not listed", "list the operands")
        callee = dotted_name(node.func)
        root = callee.split(".")[0]
        if callee == "args.clear" and not node.args and not node.keywords:
            return ScriptValue()
        if isinstance(node.func, ast.Subscript) and dotted_name(node.func.value) == "self.partitions":
            number = self.integer(node.func.slice, names)
            return self.subgraph(node, f"partition_{number}", names)
        if isinstance(node.func, ast.Attribute) and (not callee or root in names):
            return self.method(node, node.func, names, name)
        if not callee or root in names:
            raise self.refuse(node, f"a call of {callee or 'what an expression makes'}, which is not a function", WAYS)
        kernel = callee.removesuffix(".run")
        if kernel in self.kernels:
            return self.kernel_call(node, self.kernels[kernel], names)
        if callee in self.subgraphs:
            return self.subgraph(node, callee, names)
        return self.known(node, callee, names, name)

    def known(self, node: ast.Call, callee: str, names: Names, name: str) -> ScriptValue:
        """Return what a function returns that is not of the file."""
        if callee.startswith("empty_strided"):
            return self.pool(node, names, name)
        if callee == "alloc_from_pool":
            return self.buffer(node, names, name)
        if callee in ("reinterpret_tensor", "torch.as_strided", "aten.as_strided", "torch.ops.aten.as_strided.default"):
            base = self.value(node.args[0], names, name) if node.args else ScriptValue()
            return self.view(node, base, node.args[1:], names)
        if callee == "assert_tensor_metadata" and not node.keywords:
            self.state(node, names)
            return ScriptValue()
        if callee in CHECKS or OF_STREAMS.fullmatch(callee):
            for arg in (*node.args, *(keyword.value for keyword in node.keywords)):
                self.value(arg, names, "")
            return ScriptValue()
        if callee == "copy_if_misaligned" and len(node.args) == 1 and not node.keywords:
            self.assumed["copy_if_misaligned returns its operand"] = None
            return self.value(node.args[0], names, name)
        if callee in NUMBERS and not node.keywords:
            number = self.integer(node, names)
            if number is not None:
                return ScriptValue(number=number)
            return self.made(callee, [self.value(arg, names, "") for arg in node.args], name)
        parts = callee.split(".")
        if parts[0] == "inductor_ops":
            parts[0] = "inductor"
        if parts[:2] == ["torch", "ops"]:
            parts = parts[2:]
        if len(parts) < 2 or (parts[0] not in LIBRARIES and not callee.startswith("torch.ops.")):
            raise self.refuse(node, f"a call of {callee}, which is not known", WAYS, construct=f"call {callee}")
        return self.operator(node, callee, (parts[0], parts[1], ".".join(parts[2:])), names, name)

    def made(self, label: str, operands: list[ScriptValue], name: str) -> ScriptValue:
        """Return memory of its own that a step makes, which reads operands."""
        read = [p.cell for operand in operands for p in operand.every(self.source)]
        if not read:
            return ScriptValue()
        if not name:
            self.step(label, _Touched(read))
            return ScriptValue()
        found = self.own(name)
        self.step(label, _Touched(read, [found.pointers[0].cell]))
        return found

    # Kernels

    def kernel_call(self, node: ast.Call, kernel: WrapperKernel, names: Names) -> ScriptValue:
        """A call of a kernel of the file: a step. spec: FP8.4, FP8.11"""
        touched = _Touched()
        either: list[int] = []
        numbers: dict[str, int] = {}
        values: list[tuple[Parameter, ScriptValue]] = []
        for parameter, arg in self.passed(node, kernel, names):
            number = self.integer(arg, names)
            if number is not None and parameter.kind == READ:
                numbers[parameter.name] = number
            else:
                values.append((parameter, self.value(arg, names, "")))
        text = kernel.text(numbers)
        for unknown in text.unknown:
            self.leave_undecided(f"{kernel.language} kernel", node, f"of {kernel.name}, {unknown}")
        stored = {each.pointer for each in text.accesses if each.is_write}
        by_cell: dict[int, list[PassedOperand]] = {}
        for parameter, value in values:
            pointers = value.every(self.source)
            kind = KEPT if parameter.kind == READ and parameter.name in stored else parameter.kind
            if kind != READ and not pointers:
                raise self.refuse(node, f"{kernel.name} writes {parameter.name}, which is not a buffer", WAYS)
            cells = [pointer.cell for pointer in pointers]
            either += one_of(cells) if kind != READ else ()
            {READ: touched.reads, WRITTEN: touched.writes, KEPT: touched.keeps}[kind].extend(cells)
            bits = parameter.bits or value.width or (self.widths.get(cells[0], 0) if cells else 0)
            for pointer in pointers:
                passed = PassedOperand(parameter._replace(bits=bits), pointer.cell, pointer.start)
                by_cell.setdefault(pointer.cell, []).append(passed)
        needed = []
        for cell, operands in by_cell.items():
            of = {operand.parameter.name for operand in operands}
            self.source.count_work(len(text.accesses))
            first = next((each for each in text.accesses if each.pointer in of), None)
            if self.memory.held(cell) is None and first is not None and first.is_read:
                needed.append(cell)  # it reads what nothing has written
            self.judge(node, kernel, text, cell, operands, touched)
        # A kernel of several loops reads by one parameter what it has written by others.
        made = {cell for cell in touched.writes if self.memory.held(cell) is None} - set(needed)
        touched.reads = [cell for cell in touched.reads if cell not in made] + either + needed
        self.step(kernel.name, touched)
        return ScriptValue()

    def judge(
        self,
        node: ast.Call,
        kernel: WrapperKernel,
        text: KernelText,
        cell: int,
        operands: list[PassedOperand],
        touched: _Touched,
    ) -> None:
        """Deny that a kernel has a buffer in place, or leave it undecided, if its text does not show it."""
        denial = kernel.denial(self.source, text, operands)
        if denial is None:
            return
        held = self.memory.held(cell)
        if denial.is_certain and held not in (None, cell) and cell in touched.keeps:
            touched.keeps = [each for each in touched.keeps if each != cell]
            touched.reads.append(cell)
            touched.writes.append(cell)
            self.denied[self.memory.cells[cell].name] = f"{kernel.name} cannot have it in place: {denial.why}"
            return
        what = f"{kernel.name} has {self.memory.cells[cell].name} in place, and {denial.why}"
        self.leave_undecided(f"{kernel.language} kernel in place", node, what)

    def passed(self, node: ast.Call, kernel: WrapperKernel, names: Names) -> list[tuple[Parameter, ast.expr]]:
        """Return parameters with operands. Refuse operands that are too few or too many, or of no parameter."""
        parameters = {parameter.name: parameter for parameter in kernel.parameters}
        found = list(zip(kernel.parameters, node.args, strict=False))
        given = {parameter.name for parameter, _ in found}
        for extra in node.args[len(kernel.parameters) :]:
            value = self.value(extra, names, "")
            if kernel.language != "Triton" or value.every(self.source):
                count = len(kernel.parameters)
                raise self.refuse(node, f"{kernel.name} takes {count} operands, got {len(node.args)}", WAYS)
        for keyword in node.keywords:
            if keyword.arg in parameters and keyword.arg not in given:
                given.add(keyword.arg)
                found.append((parameters[keyword.arg], keyword.value))
            elif kernel.language == "Triton" and (keyword.arg == "stream" or keyword.arg in kernel.constants):
                if self.value(keyword.value, names, "").every(self.source):
                    raise self.refuse(node, f"{kernel.name} is given a buffer as {keyword.arg}", WAYS)
            else:
                raise self.refuse(node, f"{kernel.name} has no operand {keyword.arg}, or has it twice", WAYS)
        missing = [parameter.name for parameter in kernel.parameters if parameter.name not in given]
        if missing:
            count = len(kernel.parameters)
            raise self.refuse(node, f"{kernel.name} takes {count} operands, {', '.join(missing)} is not given", WAYS)
        return found

    # Other code

    def operator(self, node: ast.Call, label: str, of: tuple[str, str, str], names: Names, name: str) -> ScriptValue:
        """A call of an operator: of a library, by its name and overload. spec: FP8.6, FP8.15"""
        library, op, overload = of
        touched = _Touched()
        is_in_place = op.endswith("_") and not op.endswith("__")
        operands = [self.value(arg, names, "") for arg in node.args]
        for k, operand in enumerate(operands):
            cells = [p.cell for p in operand.every(self.source)]
            is_changed = is_in_place and (k == 0 or SEVERAL.fullmatch(op) is not None)
            (touched.keeps if is_changed else touched.reads).extend(cells)
            touched.reads += one_of(cells) if is_changed and not operand.items else ()
        for keyword in node.keywords:
            cells = self.cells(keyword.value, names)
            is_out = keyword.arg in ("out", "outs")
            is_changed = is_in_place and (not node.args or SEVERAL.fullmatch(op) is not None)
            (touched.writes if is_out else touched.keeps if is_changed else touched.reads).extend(cells)
            touched.reads += one_of(cells) if is_out else ()
        pointers = tuple(dict.fromkeys(p for operand in operands for p in operand.every(self.source)))
        if library not in LIBRARIES:
            self.leave_undecided("operator of another library", node, f"{label} may change its operands")
        if op in UNSTATED:
            self.leave_undecided("operator", node, f"{label} may change operands that its name does not state")
        if library == COLLECTIVES:
            return self.collective(node, label, op, touched, pointers, name)
        if not (pointers or touched.writes or touched.reads or touched.keeps):
            return ScriptValue()
        if op in VIEWS:
            self.assumed[f"{label} shows its operand's bytes"] = None
            width = width_of(node.args[1]) if overload == "dtype" and len(node.args) > 1 else None
            return ScriptValue(pointers, width=width or (operands[0].width if operands else None))
        self.assumed[
            f"{label} writes {'its first operand' if is_in_place else 'what out= names'} and returns memory of its own"
        ] = None
        if not name or is_in_place:
            self.step(label, touched)
            return ScriptValue(pointers[:1]) if is_in_place else ScriptValue()
        found = self.own(name)
        touched.writes.append(found.pointers[0].cell)
        self.step(label, touched)
        return found

    def collective(
        self, node: ast.Call, label: str, op: str, touched: _Touched, pointers: tuple[Pointer, ...], name: str
    ) -> ScriptValue:
        """A collective, which runs from its call to the wait for its result. spec: FP8.15"""
        if op == "wait_tensor":
            befores = {self.memory.cells[cell].before for cell in touched.reads}
            done = [each for each in self.started if each.results & {*touched.reads, *befores}]
            self.started = [each for each in self.started if each not in done]
            for each in done:
                if each.lane:
                    self.memory.wait(f"wait of {each.label}", (each.step,))
                    self.lanes.give_back(each.lane, "")
                    continue
                self.step(f"wait of {each.label}", _Touched(sorted(each.operands), [], sorted(each.results)))
            return ScriptValue(pointers)
        found = ScriptValue(tuple(Pointer(cell, 0) for cell in (*touched.writes, *touched.keeps)))
        if not found.pointers:
            found = self.own(name or "result")
            touched.writes.append(found.pointers[0].cell)
        for pointer in found.pointers:  # an access of no bytes races with none, and the file may not state its size
            self.memory.grow(pointer.cell, 1)
        results = frozenset(pointer.cell for pointer in found.pointers)
        self.assumed[f"{label} runs until its result is waited for"] = None
        lane = "" if self.memory.is_branching else self.lanes.take("")
        if lane:
            self.source.count_work(len(self.lanes.names))
            last = self.memory.last_on_main
            self.memory.lane, self.memory.after = lane, () if last is None else (last,)
        self.step(label, touched)
        self.memory.lane = ""
        number = len(self.memory.steps) - 1
        self.started.append(_Started(label, node, frozenset(touched.reads) - results, results, number, lane))
        return found

    def begin_branches(self, what: str, condition: list[int]) -> None:
        """State a node with branches, which reads its condition.

        A collective that still runs is on no stream from here on. In a plan with streams branches are barriers, and the
        program does not wait there. spec: FP8.15
        """
        self.started = [each._replace(lane="") for each in self.started]
        self.check_collectives(what, _Touched(condition))
        self.memory.begin(what, (DOMAIN, what), condition)

    def method(self, node: ast.Call, func: ast.Attribute, names: Names, name: str) -> ScriptValue:
        """A call of a tensor's method: its receiver is an operand. spec: FP8.16"""
        receiver, op = self.value(func.value, names, ""), func.attr
        cells = [p.cell for p in receiver.every(self.source)]
        label = f"Tensor.{op}"
        if not cells and op in OF_EVENTS and not node.args and not node.keywords:
            return ScriptValue()
        if op == "as_strided":
            return self.view(node, receiver, node.args, names)
        operands = [self.value(arg, names, "") for arg in (*node.args, *(key.value for key in node.keywords))]
        if op in SHAPES:
            return ScriptValue()
        if op in VIEWS:
            width = width_of(node.args[0]) if op == "view" and len(node.args) == 1 else 0
            return ScriptValue(receiver.pointers, width=width or receiver.width)
        if op in READERS:
            return self.made(label, [receiver, *operands], name)
        if op in COPIES:
            self.step(label, _Touched(cells))
            return receiver
        if op.endswith("_") and not op.endswith("__") and op not in UNSTATED and not SEVERAL.fullmatch(op):
            read = [p.cell for operand in operands for p in operand.every(self.source)]
            self.step(label, _Touched(read + one_of(cells), [], cells))
            return receiver
        raise self.refuse(node, f"the method {op} is not known", WAYS, construct=f"method {op}")


def one_of(cells: list[int]) -> list[int]:
    """Of several, one is written, and nothing states which: what was there before stays in part. spec: FP1.14"""
    return cells if len(cells) > 1 else []
