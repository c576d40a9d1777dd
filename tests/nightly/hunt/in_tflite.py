"""A program as a TensorFlow Lite model, for workers whose compiler or runtime takes one.

One step becomes one operator where there is one, else a few. A cond is an If, a while a While, a call a composite
(`STABLEHLO_COMPOSITE`), each with subgraphs. All numbers are as the program has them: nothing is quantized.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import flatbuffers
import numpy as np
import programs as p
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers
from serving import Refused

TYPES = {"float32": 0, "int32": 2, "int64": 4, "bool": 6, "int8": 9}
OP = schema.BuiltinOperator
SIMPLE = {
    "neg": "NEG", "abs": "ABS", "not": "LOGICAL_NOT", "add": "ADD", "sub": "SUB", "mul": "MUL", "min": "MINIMUM",
    "max": "MAXIMUM", "greater": "GREATER", "and": "LOGICAL_AND", "where": "SELECT_V2", "matmul": "BATCH_MATMUL",
    "cast": "CAST", "concat": "CONCATENATION",
}  # fmt: skip
OPTIONS = {
    "ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "BATCH_MATMUL": "BatchMatMulOptions",
    "CONCATENATION": "ConcatenationOptions", "STRIDED_SLICE": "StridedSliceOptions", "GATHER": "GatherOptions",
    "SUM": "ReducerOptions", "REDUCE_MAX": "ReducerOptions", "CAST": "CastOptions", "SPLIT_V": "SplitVOptions",
    "IF": "IfOptions", "WHILE": "WhileOptions", "RESHAPE": "ReshapeOptions",
}  # fmt: skip

NO_ATTRIBUTES = flexbuffers.Dumps({})
VERSIONS = {"BROADCAST_TO": 2}


class Writer:
    """A model of one or several subgraphs; the first one is the program. `copies_results`: where a subgraph inside
    returns a tensor twice, one that it is given, or a constant, it returns copies.
    """

    def __init__(self, program: p.Program, copies_results: bool = True) -> None:
        self.copies_results = copies_results
        self.model = schema.ModelT()
        self.model.version, self.model.description = 3, "hunt"
        self.model.buffers, self.model.operatorCodes = [schema.BufferT()], []
        self.model.subgraphs, self.model.metadata = [], []
        self.graph(program)

    def bytes(self) -> bytes:
        """The file."""
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def plan(self, offsets: Sequence[int]) -> None:
        """State where each tensor of all subgraphs lies, -1 where nothing is stated."""
        entry = schema.MetadataT()
        entry.name = "OfflineMemoryAllocation"
        words = np.array([1, len(self.model.subgraphs), len(offsets), *offsets], np.int32)
        entry.buffer = self._buffer(words.tobytes())
        self.model.metadata = [entry]

    def _buffer(self, data: bytes) -> int:
        made = schema.BufferT()
        made.data = np.frombuffer(data, np.uint8)
        self.model.buffers.append(made)
        return len(self.model.buffers) - 1

    def graph(self, program: p.Program) -> int:
        """Write a program as a subgraph; its number."""
        made = schema.SubGraphT()
        made.tensors, made.operators, made.inputs, made.outputs = [], [], [], []
        self.model.subgraphs.append(made)
        number = len(self.model.subgraphs) - 1
        at: dict[int, int] = {}
        for value in program.inputs:
            at[value.id] = self.tensor(made, value.dtype, value.shape)
        made.inputs = [at[value.id] for value in program.inputs]
        for step in program.steps:
            results = [self.tensor(made, value.dtype, value.shape) for value in step.results]
            self.step(made, step, [at[k] for k in step.operands], results, program)
            at |= {value.id: t for value, t in zip(step.results, results, strict=True)}
        made.outputs = [at[k] for k in program.outputs]
        if number and self.copies_results:
            fixed = (at[step.results[0].id] for step in program.steps if step.op in ("constant", "full"))
            seen, known = {*made.inputs, *fixed}, program.values()
            for place, k in enumerate(program.outputs):
                if at[k] in seen:
                    made.outputs[place] = self.tensor(made, known[k].dtype, known[k].shape)
                    name = "LOGICAL_OR" if known[k].dtype == "bool" else "MAXIMUM"
                    self.op(made, name, [at[k], at[k]], [made.outputs[place]])
                seen.add(at[k])
        return number

    def tensor(self, graph: Any, dtype: str, shape: Sequence[int], data: Any = None) -> int:
        """A tensor of a subgraph; a constant where `data` is given."""
        if dtype not in TYPES:
            raise Refused(f"no type {dtype}")
        made = schema.TensorT()
        made.name, made.shape, made.type = f"t{len(graph.tensors)}", [int(k) for k in shape], TYPES[dtype]
        made.buffer = 0 if data is None else self._buffer(np.asarray(data).astype(dtype).tobytes())
        graph.tensors.append(made)
        return len(graph.tensors) - 1

    def numbers(self, graph: Any, data: Iterable[int] | int, dtype: str = "int32") -> int:
        """A constant; a list of no numbers is a Refused, as it would not be constant."""
        held = np.asarray(data)
        if not held.size:
            raise Refused("a constant of no elements")
        return self.tensor(graph, dtype, held.shape, held)

    def op(self, graph: Any, operator: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any) -> None:
        """An operator."""
        code = getattr(OP, operator)
        index = next((k for k, each in enumerate(self.model.operatorCodes) if each.builtinCode == code), None)
        if index is None:
            known, index = schema.OperatorCodeT(), len(self.model.operatorCodes)
            known.builtinCode, known.deprecatedBuiltinCode, known.version = (
                code,
                min(code, 127),
                VERSIONS.get(operator, 1),
            )
            self.model.operatorCodes.append(known)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = index, list(inputs), list(outputs)
        if operator in OPTIONS:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, OPTIONS[operator])
            made.builtinOptions = getattr(schema, f"{OPTIONS[operator]}T")()
            for field, value in options.items():
                assert hasattr(made.builtinOptions, field)
                setattr(made.builtinOptions, field, value)
        elif options:
            made.builtinOptions2Type = schema.BuiltinOptions2.StableHLOCompositeOptions
            made.builtinOptions2 = schema.StableHLOCompositeOptionsT()
            for field, value in options.items():
                assert hasattr(made.builtinOptions2, field)
                setattr(made.builtinOptions2, field, value)
        graph.operators.append(made)

    def step(self, g: Any, step: p.Step, given: list[int], made: list[int], program: p.Program) -> None:
        """The operators of a step."""
        a, value = step.attributes, step.results[0]
        known = program.values()
        dtype = known[step.operands[0]].dtype if step.operands else value.dtype
        if step.op in SIMPLE:
            if step.op == "matmul" and dtype != "float32":
                self.product(g, given, made, program, step)
                return
            options = {"axis": a["axis"]} if step.op == "concat" else {}
            self.op(g, SIMPLE[step.op], given, made, **options)
        elif step.op in ("add_value", "mul_value"):
            self.op(g, step.op[:3].upper(), [*given, self.numbers(g, a["value"], dtype)], made)
        elif step.op == "copy":
            self.op(g, "ADD", [*given, self.numbers(g, 0, dtype)], made)
        elif step.op == "relu":
            if dtype == "float32":
                self.op(g, "RELU", given, made)
            else:
                self.op(g, "MAXIMUM", [*given, self.numbers(g, 0, dtype)], made)
        elif step.op == "clip":
            between = self.tensor(g, dtype, value.shape)
            self.op(g, "MAXIMUM", [*given, self.numbers(g, a["low"], dtype)], [between])
            self.op(g, "MINIMUM", [between, self.numbers(g, a["high"], dtype)], made)
        elif step.op == "reshape":
            self.shaped(g, "RESHAPE", given, made, value.shape)
        elif step.op == "broadcast":
            self.op(g, "BROADCAST_TO", [*given, self.numbers(g, value.shape)], made)
        elif step.op == "transpose":
            self.op(g, "TRANSPOSE", [*given, self.numbers(g, a["axes"])], made)
        elif step.op == "slice":
            rows = [self.numbers(g, a[each]) for each in ("starts", "stops", "strides")]
            self.op(g, "STRIDED_SLICE", [*given, *rows], made)
        elif step.op == "update":
            self.op(g, "DYNAMIC_UPDATE_SLICE", [*given, self.numbers(g, a["starts"])], made)
        elif step.op == "pad":
            pairs = list(zip(a["before"], a["after"], strict=True))
            self.op(g, "PAD", [*given, self.numbers(g, pairs)], made)
        elif step.op == "take":
            self.op(g, "GATHER", [*given, self.numbers(g, a["indices"])], made, axis=a["axis"])
        elif step.op == "flip":
            self.op(g, "REVERSE_V2", [*given, self.numbers(g, [a["axis"]])], made)
        elif step.op in ("sum", "amax"):
            name = "SUM" if step.op == "sum" else "REDUCE_MAX"
            self.op(g, name, [*given, self.numbers(g, [a["axis"]])], made, keepDims=a["keep"])
        elif step.op == "full":
            if value.shape:
                scalar = self.numbers(g, a["value"], value.dtype)
                self.op(g, "FILL", [self.numbers(g, value.shape), scalar], made)
            else:
                self.op(g, "ADD", [self.numbers(g, v, value.dtype) for v in (a["value"], 0)], made)
        elif step.op == "constant":
            held = self.numbers(g, a["values"], value.dtype)
            self.shaped(g, "RESHAPE", [held], made, value.shape)
        elif step.op == "positive":
            self.positive(g, given, made, a["value"], known[step.operands[0]])
        elif step.op == "split":
            axis = self.numbers(g, a["axis"])
            self.op(g, "SPLIT_V", [*given, self.numbers(g, a["sizes"]), axis], made, numSplits=len(made))
        else:
            self.control(g, step, given, made)

    def shaped(self, g: Any, name: str, given: list[int], made: list[int], shape: Sequence[int]) -> None:
        """A Reshape, to no axes by its option alone."""
        if shape:
            self.op(g, name, [*given, self.numbers(g, shape)], made, newShape=[int(k) for k in shape])
        else:
            self.op(g, name, given, made, newShape=[])

    def positive(self, g: Any, given: list[int], made: list[int], least: int, value: p.Value) -> None:
        """Whether the sum exceeds a number, in int64 as float32 does not hold every sum."""
        wide = self.tensor(g, "int64", value.shape)
        self.op(g, "CAST", given, [wide])
        if value.shape:
            total = self.tensor(g, "int64", ())
            self.op(g, "SUM", [wide, self.numbers(g, range(len(value.shape)))], [total], keepDims=False)
            wide = total
        self.op(g, "GREATER", [wide, self.numbers(g, least, "int64")], made)

    def product(self, g: Any, given: list[int], made: list[int], program: p.Program, step: p.Step) -> None:
        """A product of matrices of int32, in float32, which holds its numbers."""
        known, wide = program.values(), list[int]()
        for number, t in zip(step.operands, given, strict=True):
            wide.append(self.tensor(g, "float32", known[number].shape))
            self.op(g, "CAST", [t], [wide[-1]])
        wide.append(self.tensor(g, "float32", step.results[0].shape))
        self.op(g, "BATCH_MATMUL", wide[:2], wide[2:])
        self.op(g, "CAST", wide[2:], made)

    def control(self, g: Any, step: p.Step, given: list[int], made: list[int]) -> None:
        """An operator that runs subgraphs."""
        numbers = [self.graph(inner) for inner in step.programs]
        if step.op == "cond":
            self.op(g, "IF", given, made, thenSubgraphIndex=numbers[0], elseSubgraphIndex=numbers[1])
        elif step.op == "while":
            self.op(g, "WHILE", given, made, condSubgraphIndex=numbers[0], bodySubgraphIndex=numbers[1])
        elif step.op == "call":
            self.op(
                g,
                "STABLEHLO_COMPOSITE",
                given,
                made,
                name="hunt",
                decompositionSubgraphIndex=numbers[0],
                version=1,
                compositeAttributes=list(NO_ATTRIBUTES),
            )
        else:
            raise Refused(f"no operator for {step.op}")
