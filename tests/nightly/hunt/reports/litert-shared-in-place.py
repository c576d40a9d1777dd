"""LiteRT: the arena planner works in place in a buffer that is still read, two aliases further on."""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

INT32 = schema.TensorType.INT32
NAMES = ["x", "a", "b", "c", "d", "y", "z", "one", "shape"]
SHAPES = [[4], [4], [4], [2, 2], [2, 2], [4], [2, 2], [], [2]]
CONSTANTS = [np.int32(1000), np.array([2, 2], np.int32)]
OPERATORS = [  # y = b = |x| + 1000, and z = d = b + 1000 in another shape
    ("ABS", [0], 1), ("ADD", [1, 7], 2), ("RESHAPE", [2, 8], 3), ("ADD", [3, 7], 4), ("ABS", [2], 5), ("ABS", [4], 6)
]  # fmt: skip


def model() -> bytes:
    buffers = [schema.BufferT(data=[]), *(schema.BufferT(data=list(each.tobytes())) for each in CONSTANTS)]
    tensors = [schema.TensorT(name=name, shape=shape, type=INT32, buffer=max(0, number - 6))
               for number, (name, shape) in enumerate(zip(NAMES, SHAPES))]  # fmt: skip
    codes = [getattr(schema.BuiltinOperator, name) for name, _, _ in OPERATORS]
    used = [schema.OperatorCodeT(deprecatedBuiltinCode=code, builtinCode=code, version=1) for code in codes]
    steps = [schema.OperatorT(opcodeIndex=k, inputs=ins, outputs=[out]) for k, (_, ins, out) in enumerate(OPERATORS)]
    graph = schema.SubGraphT(tensors=tensors, inputs=[0], outputs=[5, 6], operators=steps)
    builder = flatbuffers.Builder(1024)
    whole = schema.ModelT(version=3, operatorCodes=used, subgraphs=[graph], buffers=buffers)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def results(keeps_all: bool) -> list[list[int]]:
    interpreter = Interpreter(model_content=model(), experimental_preserve_all_tensors=keeps_all)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.array([1, 2, 3, 4], np.int32))
    interpreter.invoke()
    return [interpreter.get_tensor(k).ravel().tolist() for k in (5, 6)]


print("expected:", [[1001, 1002, 1003, 1004], [2001, 2002, 2003, 2004]])
print("counter-test (experimental_preserve_all_tensors):", results(True))
print("actual:", results(False), flush=True)
