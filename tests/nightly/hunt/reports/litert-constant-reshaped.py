"""LiteRT: an IF whose branches return a RESHAPE of a constant ends the process."""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter

INT32 = s.TensorType.INT32
CONSTANT, SHAPE = np.arange(4, dtype=np.int32), np.array([4], np.int32)


def tensor(kind: int, shape: list[int], buffer: int = 0) -> s.TensorT:
    return s.TensorT(name=f"b{buffer}", shape=shape, type=kind, buffer=buffer)


def model() -> bytes:
    codes = [s.OperatorCodeT(deprecatedBuiltinCode=code, builtinCode=code, version=1)
             for code in (s.BuiltinOperator.IF, s.BuiltinOperator.RESHAPE)]  # fmt: skip
    branches = s.IfOptionsT(thenSubgraphIndex=1, elseSubgraphIndex=2)
    chosen = s.OperatorT(0, [0, 1], [2], s.BuiltinOptions.IfOptions, branches)
    flag = tensor(s.TensorType.BOOL, [])
    main = s.SubGraphT([flag, tensor(INT32, [4]), tensor(INT32, [4])], [0, 1], [2], [chosen])
    inner = [tensor(INT32, [4]), tensor(INT32, [4], 1), tensor(INT32, [1], 2), tensor(INT32, [4])]
    branch = s.SubGraphT(inner, [0], [3], [s.OperatorT(1, [1, 2], [3])])
    buffers = [s.BufferT(data=list(data)) for data in (b"", CONSTANT.tobytes(), SHAPE.tobytes())]
    builder = flatbuffers.Builder(1024)
    whole = s.ModelT(version=3, operatorCodes=codes, subgraphs=[main, branch, branch], buffers=buffers)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def results(keeps_all: bool) -> list[list[int]]:
    interpreter = Interpreter(model_content=model(), experimental_preserve_all_tensors=keeps_all)
    interpreter.allocate_tensors()
    found = []
    for flag in (True, True):
        interpreter.set_tensor(0, np.array(flag))
        interpreter.set_tensor(1, np.array([5, 6, 7, 8], np.int32))
        interpreter.invoke()
        found.append(interpreter.get_tensor(2).tolist())
    return found


print("expected:", [[0, 1, 2, 3]] * 2)
print("counter-test (experimental_preserve_all_tensors):", results(True), flush=True)
print("actual:", results(False), flush=True)
