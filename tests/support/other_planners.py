"""Planners of other projects on buffers, a line of JSON each, in the form of `tmmu check-planner --batch`:

    PYTHON tests/support/other_planners.py NAME

The Python is one of an environment that has the project. Nothing of this project is imported.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Buffers = list[dict[str, Any]]
Plan = Callable[[Buffers], Any]


def events(buffers: Buffers) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield each buffer as it begins and, after all that begin at the same step, as it ends."""
    begun = [(b["first"], 0, k) for k, b in enumerate(buffers)]
    for _, ends, k in sorted(begun + [(b["last"], 1, k) for k, b in enumerate(buffers)]):
        yield buffers[k], bool(ends)


def tinygrad_rewrite(copies: bool = False) -> Plan:
    """tinygrad's `memory_plan_rewrite`: each buffer is used by calls in its first and in its last step.

    With `copies` every other step is a copy. What copies use has an arena of its own and is held longer; here the
    second arena is behind the first.
    """
    from tinygrad.dtype import dtypes
    from tinygrad.schedule.memory import memory_plan_rewrite
    from tinygrad.uop.ops import Ops, UOp

    def plan(buffers: Buffers) -> Any:
        made = {b["name"]: UOp.new_buffer("CPU", max(1, b["bytes"]), dtypes.uint8) for b in buffers}
        steps = sorted({step for b in buffers for step in (b["first"], b["last"])})
        calls = []
        for k, step in enumerate(steps):
            used = [made[b["name"]] for b in buffers if step in (b["first"], b["last"])]
            program = UOp(Ops.COPY if copies and k % 2 else Ops.NOOP, dtypes.void)
            calls.append(UOp(Ops.CALL, dtypes.void, (program, *used)))
        planned = memory_plan_rewrite(UOp(Ops.LINEAR, dtypes.void, tuple(calls)), set())
        placed: dict[str, tuple[Any, int]] = {}
        for before, after in zip(calls, planned.src, strict=True):
            for buffer, view in zip(before.src[1:], after.src[1:], strict=True):
                [name] = (name for name, one in made.items() if one is buffer)
                placed[name] = place(view)
        arenas = list(dict.fromkeys(arena for arena, _ in placed.values()))
        base = {arena: sum(each.max_numel() for each in arenas[:k]) for k, arena in enumerate(arenas)}
        return {name: base[arena] + offset for name, (arena, offset) in placed.items()}

    def place(view: Any) -> tuple[Any, int]:
        """Return the arena of a view of it, and the byte at which it begins."""
        found = 0
        while view.op is not Ops.BUFFER:
            found += int(view.marg[0][0]) if view.op is Ops.SHRINK else 0
            view = view.src[0]
        return view, found

    return plan


def tinygrad_copies() -> Plan:
    """The same with copies."""
    return tinygrad_rewrite(copies=True)


def tinygrad_tlsf() -> Plan:
    """tinygrad's TLSF allocator, asked and freed in the order of the steps."""
    from tinygrad.runtime.support.memory import TLSFAllocator

    def plan(buffers: Buffers) -> Any:
        allocator, offsets = TLSFAllocator(1 << 40), dict[str, int]()
        for b, ends in events(buffers):
            if ends:
                allocator.free(offsets[b["name"]])
            else:
                offsets[b["name"]] = allocator.alloc(max(1, b["bytes"]))
        return offsets

    return plan


def executorch(algorithm: str) -> Plan:
    """ExecuTorch's memory planning of `TensorSpec` with lifetimes, in blocks of 16 bytes."""
    import torch
    from executorch.exir import memory_planning
    from executorch.exir.tensor import TensorSpec

    suite = memory_planning.MemoryPlanningAlgorithmSuite([getattr(memory_planning, algorithm)])
    graph = torch.fx.GraphModule({}, torch.fx.Graph())

    def plan(buffers: Buffers) -> Any:
        specs = {b["name"]: TensorSpec(torch.uint8, torch.Size([b["bytes"]])) for b in buffers}
        for b in buffers:
            specs[b["name"]].lifetime = [b["first"], b["last"]]
        sizes = suite(16, dict.fromkeys(specs.values()), graph, None, 0)
        return {"offsets": {name: spec.mem_offset for name, spec in specs.items()}, "footprint": sum(sizes)}

    return plan


def executorch_greedy() -> Plan:
    """`greedy`, which is the default."""
    return executorch("greedy")


def executorch_naive() -> Plan:
    """`naive`, which puts one behind the other."""
    return executorch("naive")


def tflm_greedy() -> Plan:
    """TensorFlow Lite Micro's `GreedyMemoryPlanner`, in the library that its Python interpreter is.

    Its caller, `MicroAllocator`, rounds sizes up to 16 bytes. Both are functions of C++ with the object first.
    """
    import tflite_micro

    [path] = Path(next(iter(tflite_micro.__path__))).rglob("_runtime*.so")
    library, cls = ctypes.CDLL(str(path)), "_ZN6tflite5micro19GreedyMemoryPlanner"

    def call(method: str, *arguments: Any) -> int:
        return int(getattr(library, cls + method)(*arguments))

    def plan(buffers: Buffers) -> Any:
        planner = ctypes.create_string_buffer(1 << 10)  # an object of fewer bytes
        scratch = ctypes.create_string_buffer(1 << 16)
        call("C1Ev", planner)
        status = call("4InitEPhi", planner, scratch, len(scratch))
        for b in buffers:
            status |= call("9AddBufferEiii", planner, -(-b["bytes"] // 16) * 16, b["first"], b["last"])
        footprint, offsets = call("20GetMaximumMemorySizeEv", planner), {}
        for k, b in enumerate(buffers):
            offset = ctypes.c_int(-1)
            status |= call("18GetOffsetForBufferEiPi", planner, k, ctypes.byref(offset))
            offsets[b["name"]] = offset.value
        if status:
            raise RuntimeError("the planner returned kTfLiteError")
        return {"offsets": offsets, "footprint": footprint}

    return plan


def litert() -> Plan:
    """LiteRT's arena planner, by a model: a PAD makes each buffer of a constant, and a SHAPE is its last reader.

    The offsets are distances from the lowest address. The result of SHAPE is outside of the arena.
    """
    import flatbuffers
    import numpy as np
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    int8, int32, codes = 9, 2, (schema.BuiltinOperator.PAD, schema.BuiltinOperator.SHAPE)

    def code(builtin: int) -> Any:
        made = schema.OperatorCodeT()
        made.builtinCode = made.deprecatedBuiltinCode = builtin
        return made

    def plan(buffers: Buffers) -> Any:
        model, graph = schema.ModelT(), schema.SubGraphT()
        model.version, model.buffers, model.subgraphs = 3, [schema.BufferT()], [graph]
        model.operatorCodes = [code(builtin) for builtin in codes]
        graph.tensors, graph.operators, graph.inputs, graph.outputs = [], [], [], []

        def tensor(kind: int, shape: list[int], data: Any = None) -> int:
            made = schema.TensorT()
            made.name, made.type, made.shape, made.buffer = f"t{len(graph.tensors)}".encode(), kind, shape, 0
            if data is not None:
                stored = schema.BufferT()
                stored.data = np.frombuffer(data.tobytes(), np.uint8)
                model.buffers.append(stored)
                made.buffer = len(model.buffers) - 1
            graph.tensors.append(made)
            return len(graph.tensors) - 1

        def step(which: int, inputs: list[int], output: int) -> None:
            made = schema.OperatorT()
            made.opcodeIndex, made.inputs, made.outputs = which, inputs, [output]
            if which:
                made.builtinOptionsType, made.builtinOptions = (
                    schema.BuiltinOptions.ShapeOptions,
                    schema.ShapeOptionsT(),
                )
                made.builtinOptions.outType = int32
            graph.operators.append(made)

        one, made = tensor(int8, [1], np.zeros(1, np.int8)), dict[str, int]()
        for b, ends in events(buffers):
            if ends:
                step(1, [made[b["name"]]], tensor(int32, [1]))
            else:
                size = max(1, b["bytes"])
                made[b["name"]] = tensor(int8, [size])
                step(0, [one, tensor(int32, [1, 2], np.array([0, size - 1], np.int32))], made[b["name"]])
        if not buffers:
            return {}
        graph.outputs = [graph.operators[-1].outputs[0]]
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        interpreter = Interpreter(
            model_content=bytes(builder.Output()), num_threads=1,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )  # fmt: skip
        interpreter.allocate_tensors()
        at = {name: interpreter.tensor(t)().__array_interface__["data"][0] for name, t in made.items()}
        return {name: address - min(at.values()) for name, address in at.items()}

    return plan


def ggml() -> Plan:
    """ggml's graph allocator: a node without operands makes each buffer, and one without bytes is its last reader."""
    import libggml

    [path] = Path(next(iter(libggml.__path__))).rglob("libggml-base.so")
    library, pointer = ctypes.CDLL(str(path)), ctypes.c_void_p
    int8 = 24

    class Parameters(ctypes.Structure):
        _fields_ = (("size", ctypes.c_size_t), ("memory", pointer), ("no_alloc", ctypes.c_bool))

    for name in (
        "init", "new_graph_custom", "custom_4d", "gallocr_new", "backend_cpu_buffer_type", "get_data", "free",
        "gallocr_free", "graph_add_node", "gallocr_alloc_graph", "gallocr_get_buffer_size",
    ):  # fmt: skip
        getattr(library, f"ggml_{name}").restype = pointer
    library.ggml_gallocr_alloc_graph.restype = ctypes.c_bool
    library.ggml_gallocr_get_buffer_size.restype = ctypes.c_size_t
    room = 1 << 20  # for the descriptions of tensors

    def node(context: Any, size: int, *reads: Any) -> Any:
        dimensions = [ctypes.c_int64(each) for each in (size, 1, 1, 1)]
        operands = (pointer * max(1, len(reads)))(*reads)
        made = library.ggml_custom_4d(context, int8, *dimensions, operands, len(reads), pointer(1), 1, pointer())
        return pointer(made)

    def plan(buffers: Buffers) -> Any:
        context = pointer(library.ggml_init(Parameters(room, None, True)))
        graph = pointer(library.ggml_new_graph_custom(context, ctypes.c_size_t(2 * len(buffers) + 1), False))
        made: dict[str, Any] = {}
        for b, ends in events(buffers):
            if not ends:
                made[b["name"]] = node(context, b["bytes"])
            library.ggml_graph_add_node(graph, node(context, 0, made[b["name"]]) if ends else made[b["name"]])
        allocator = pointer(library.ggml_gallocr_new(pointer(library.ggml_backend_cpu_buffer_type())))
        if not library.ggml_gallocr_alloc_graph(allocator, graph):
            raise RuntimeError("ggml_gallocr_alloc_graph returned false")
        at = {name: library.ggml_get_data(tensor) or 0 for name, tensor in made.items()}
        footprint = library.ggml_gallocr_get_buffer_size(allocator, 0)
        library.ggml_gallocr_free(allocator)
        library.ggml_free(context)
        lowest = min(at.values(), default=0)
        return {"offsets": {name: address - lowest for name, address in at.items()}, "footprint": footprint}

    return plan


PLANNERS = {
    "tinygrad-rewrite": tinygrad_rewrite, "tinygrad-copies": tinygrad_copies, "tinygrad-tlsf": tinygrad_tlsf,
    "executorch-greedy": executorch_greedy, "executorch-naive": executorch_naive, "tflm-greedy": tflm_greedy,
    "litert": litert, "ggml": ggml,
}  # fmt: skip


def main(name: str) -> None:
    """Answer each line."""
    plan = PLANNERS[name]()
    for line in sys.stdin:
        try:
            print(json.dumps(plan(json.loads(line)["buffers"])), flush=True)
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
