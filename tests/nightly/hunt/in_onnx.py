"""A program as an ONNX model, for workers whose runtime takes one.

One step becomes one operator where there is one, else a few. A cond is an If, a while a Loop, a scan a Scan, a call a
function of the model. What a program inside returns is a result of its own: ONNX has no other way to return what is
given, or one value twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import programs as p
from onnx import TensorProto, helper, numpy_helper
from serving import Refused

OPSET = 21
TYPES = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int8": TensorProto.INT8, "bool": TensorProto.BOOL}
SIMPLE = {
    "neg": "Neg", "abs": "Abs", "relu": "Relu", "copy": "Identity", "not": "Not", "add": "Add", "sub": "Sub",
    "mul": "Mul", "min": "Min", "max": "Max", "greater": "Greater", "and": "And", "where": "Where", "matmul": "MatMul",
}  # fmt: skip
FEATURES = p.FEATURES - {"subbyte"}


def model_of(program: p.Program, functions: bool = True, reads_slices: bool = False) -> onnx.ModelProto:
    """Return the model. Without `functions`, a call is a Refused.

    With `reads_slices`, each number that the body of a Scan makes is computed from the slices too, to the same value.
    """
    writer = _Writer(functions, reads_slices)
    graph = writer.graph(program, "main", [f"in{k}" for k in range(len(program.inputs))])
    opset = [helper.make_opsetid("", OPSET), helper.make_opsetid("hunt", 1)]
    return helper.make_model(graph, opset_imports=opset, functions=writer.functions, ir_version=10)


class _Writer:
    """Writes programs as graphs. Names are not used twice, whichever graph has them."""

    def __init__(self, functions: bool, reads_slices: bool) -> None:
        self.takes_functions, self.reads_slices = functions, reads_slices
        self.functions: list[onnx.FunctionProto] = []
        self._count = 0

    def fresh(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def graph(self, program: p.Program, name: str, inputs: Sequence[str], outer: Sequence[str] = ()) -> Any:
        """Return the graph of a program. Its inputs are `inputs`, or the values `outer` of the graph around it."""
        nodes, results = self.body(program, outer or inputs)
        known = program.values()
        given = [_typed(text, value) for text, value in zip(inputs, program.inputs, strict=not outer)]
        made = [_typed(text, known[k]) for text, k in zip(results, program.outputs, strict=True)]
        return helper.make_graph(nodes, name, given, made)

    def body(self, program: p.Program, inputs: Sequence[str]) -> tuple[list[Any], list[str]]:
        """Return the nodes of a program, and the name of each output: a name of its own, made by a node."""
        nodes: list[Any] = []
        at = {value.id: text for value, text in zip(program.inputs, inputs, strict=True)}
        for step in program.steps:
            made = [self.fresh() for _ in step.results]
            self.step(nodes, step, [at[k] for k in step.operands], made, program)
            at |= {value.id: text for value, text in zip(step.results, made, strict=True)}
        results, taken = [], set(inputs)
        for k in program.outputs:
            text = at[k]
            if text in taken:
                text = self.fresh()
                nodes.append(helper.make_node("Identity", [at[k]], [text], name=text))
            taken.add(text)
            results.append(text)
        return nodes, results

    def constant(self, nodes: list[Any], data: Any, dtype: str = "int64") -> str:
        name = self.fresh()
        value = numpy_helper.from_array(np.asarray(data).astype(dtype), name)
        nodes.append(helper.make_node("Constant", [], [name], name=name, value=value))
        return name

    def node(self, nodes: list[Any], operator: str, given: Sequence[str], made: str | None = None, **more: Any) -> str:
        """Add a node of one result, and return the result's name."""
        made = made or self.fresh()
        nodes.append(helper.make_node(operator, given, [made], name=made, **more))
        return made

    def step(self, nodes: list[Any], step: p.Step, given: list[str], made: list[str], program: p.Program) -> None:
        """Add the nodes of a step."""
        known = program.values()
        dtype = known[step.operands[0]].dtype if step.operands else step.results[0].dtype
        a, value, one = step.attributes, step.results[0], made[0]
        if any(each.dtype not in TYPES for each in step.results):
            raise Refused("no type of four bits")
        if step.op in SIMPLE:
            self.node(nodes, SIMPLE[step.op], given, one)
        elif step.op in ("add_value", "mul_value"):
            self.node(nodes, step.op[:3].title(), [*given, self.constant(nodes, a["value"], dtype)], one)
        elif step.op == "cast":
            self.node(nodes, "Cast", given, one, to=TYPES[value.dtype])
        elif step.op == "clip":
            self.node(nodes, "Clip", [*given, *(self.constant(nodes, a[k], dtype) for k in ("low", "high"))], one)
        elif step.op == "reshape":
            # A 0 in the shape is an axis of no elements.
            self.node(nodes, "Reshape", [*given, self.constant(nodes, value.shape)], one, allowzero=1)
        elif step.op == "broadcast":
            self.node(nodes, "Expand", [*given, self.constant(nodes, value.shape)], one)
        elif step.op == "transpose":
            self.node(nodes, "Transpose", given, one, perm=a["axes"])
        elif step.op == "slice":
            self.sliced(nodes, given, one, a["starts"], a["stops"], range(len(a["starts"])), a["strides"])
        elif step.op == "flip":
            self.sliced(nodes, given, one, [-1], [np.iinfo("int64").min], [a["axis"]], [-1])
        elif step.op == "update":
            self.updated(nodes, given, one, a["starts"], known[step.operands[1]].shape)
        elif step.op == "pad":
            widths = self.constant(nodes, [*a["before"], *a["after"]])
            self.node(nodes, "Pad", [*given, widths, self.constant(nodes, 0, dtype)], one)
        elif step.op == "concat":
            self.node(nodes, "Concat", given, one, axis=a["axis"])
        elif step.op == "take":
            self.node(nodes, "Gather", [*given, self.constant(nodes, a["indices"])], one, axis=a["axis"])
        elif step.op in ("sum", "amax"):
            operator = "ReduceSum" if step.op == "sum" else "ReduceMax"
            axes = self.constant(nodes, [a["axis"]])
            self.node(nodes, operator, [*given, axes], one, keepdims=int(a["keep"]))
        elif step.op == "full":
            filled = numpy_helper.from_array(np.full(1, a["value"]).astype(value.dtype))
            self.node(nodes, "ConstantOfShape", [self.constant(nodes, value.shape)], one, value=filled)
        elif step.op == "constant":
            self.node(nodes, "Identity", [self.constant(nodes, np.reshape(a["values"], value.shape), value.dtype)], one)
        elif step.op == "positive":
            wide = self.node(nodes, "Cast", given, to=TensorProto.INT64)
            total = self.node(nodes, "ReduceSum", [wide], keepdims=0)
            self.node(nodes, "Greater", [total, self.constant(nodes, a["value"])], one)
        elif step.op == "split":
            sizes = self.constant(nodes, a["sizes"])
            nodes.append(helper.make_node("Split", [*given, sizes], made, name=made[0], axis=a["axis"]))
        else:
            control = {"cond": self.branch, "call": self.call, "while": self.loop, "scan": self.scan}[step.op]
            control(nodes, step, given, made)

    def sliced(self, nodes: list[Any], given: list[str], made: str, *rows: Any) -> None:
        self.node(nodes, "Slice", [*given, *(self.constant(nodes, list(row)) for row in rows)], made)

    def updated(self, nodes: list[Any], given: list[str], made: str, starts: Sequence[int], shape: p.Shape) -> None:
        """Write a part into an array: by ScatterND, at the indices of each element."""
        if not shape:
            self.node(nodes, "Identity", given[1:], made)
            return
        ranges = [np.arange(start, start + size) for start, size in zip(starts, shape, strict=True)]
        at = np.stack(np.meshgrid(*ranges, indexing="ij"), -1)
        self.node(nodes, "ScatterND", [given[0], self.constant(nodes, at), given[1]], made)

    # Operators that run programs: the names of what they are given are those of the graph around them.

    def branch(self, nodes: list[Any], step: p.Step, given: list[str], made: list[str]) -> None:
        graphs = [self.graph(inner, self.fresh(), [], given[1:]) for inner in step.programs]
        nodes.append(
            helper.make_node("If", given[:1], made, name=made[0], then_branch=graphs[0], else_branch=graphs[1])
        )

    def call(self, nodes: list[Any], step: p.Step, given: list[str], made: list[str]) -> None:
        if not self.takes_functions:
            raise Refused("no operator for call")
        inner, name = step.programs[0], f"f{len(self.functions)}_{self.fresh()}"
        inputs = [self.fresh() for _ in given]
        body, results = self.body(inner, inputs)
        opset = [helper.make_opsetid("", OPSET), helper.make_opsetid("hunt", 1)]
        self.functions.append(helper.make_function("hunt", name, inputs, results, body, opset))
        nodes.append(helper.make_node(name, given, made, name=made[0], domain="hunt"))

    def loop(self, nodes: list[Any], step: p.Step, given: list[str], made: list[str]) -> None:
        first, going = self.body(step.programs[0], given)
        nodes.extend(first)
        nodes.append(helper.make_node("Loop", ["", going[0], *given], made, name=made[0], body=self.loop_graph(step)))

    def loop_graph(self, step: p.Step) -> Any:
        """Return the body of a Loop: the carried values of the next iteration, and whether there is one."""
        test, body = step.programs
        names = [self.fresh() for _ in body.inputs]
        nodes, carried = self.body(body, names)
        more, going = self.body(test, carried)
        known = body.values()
        given = [
            helper.make_tensor_value_info(self.fresh(), TensorProto.INT64, []),
            helper.make_tensor_value_info(self.fresh(), TensorProto.BOOL, []),
            *(_typed(text, value) for text, value in zip(names, body.inputs, strict=True)),
        ]
        made = [
            helper.make_tensor_value_info(going[0], TensorProto.BOOL, []),
            *(_typed(text, known[k]) for text, k in zip(carried, body.outputs, strict=True)),
        ]
        return helper.make_graph([*nodes, *more], self.fresh(), given, made)

    def scan(self, nodes: list[Any], step: p.Step, given: list[str], made: list[str]) -> None:
        carries, inner = step.attributes["carries"], step.programs[0]
        if step.attributes["length"] == 0 or len(given) == carries:
            raise Refused("a scan over nothing")
        graph = self.graph(inner, self.fresh(), [self.fresh() for _ in inner.inputs])
        if self.reads_slices:
            self.read(graph, [each.name for each in graph.input][carries:], inner)
        nodes.append(
            helper.make_node("Scan", given, made, name=made[0], body=graph, num_scan_inputs=len(given) - carries)
        )

    def read(self, graph: Any, slices: Sequence[str], program: p.Program) -> None:
        """Let each number that a graph returns depend on the slices."""
        known, nodes = program.values(), list[Any]()
        wide = [self.node(nodes, "Cast", [each], to=TensorProto.FLOAT) for each in slices]
        zeros = [self.node(nodes, "Mul", [each, self.constant(nodes, 0, "float32")]) for each in wide]
        zero = self.node(nodes, "Sum", [self.node(nodes, "ReduceSum", [each], keepdims=0) for each in zeros])
        for made, k in zip(graph.output, program.outputs, strict=True):
            if known[k].dtype in ("float32", "int32") and known[k].size:
                term = self.node(nodes, "Cast", [zero], to=TYPES[known[k].dtype])
                made.name = self.node(nodes, "Add", [made.name, term])
        graph.node.extend(nodes)


def _typed(name: str, value: p.Value) -> Any:
    if value.dtype not in TYPES:
        raise Refused(f"no type {value.dtype}")
    return helper.make_tensor_value_info(name, TYPES[value.dtype], value.shape)
