"""LiteRT: of a branch that returns one tensor twice, the first result of the IF is not written."""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter

FLOAT, BOOL = s.TensorType.FLOAT32, s.TensorType.BOOL


def tensors(**kinds: int) -> list[s.TensorT]:
    return [s.TensorT(name=name, shape=[] if kind == BOOL else [4], type=kind) for name, kind in kinds.items()]


def model(returned: list[int]) -> bytes:
    codes = [s.OperatorCodeT(deprecatedBuiltinCode=code, builtinCode=code, version=1)
             for code in (s.BuiltinOperator.IF, s.BuiltinOperator.NEG)]  # fmt: skip
    branches = s.IfOptionsT(thenSubgraphIndex=1, elseSubgraphIndex=2)
    chosen = s.OperatorT(0, [0, 1], [2, 3], s.BuiltinOptions.IfOptions, branches)
    main = s.SubGraphT(tensors(flag=BOOL, x=FLOAT, a=FLOAT, b=FLOAT), [0, 1], [2, 3], [chosen])
    negated = [s.OperatorT(1, [0], [1]), s.OperatorT(1, [0], [2])]
    branch = s.SubGraphT(tensors(x=FLOAT, y=FLOAT, z=FLOAT), [0], returned, negated)
    builder = flatbuffers.Builder(1024)
    whole = s.ModelT(version=3, operatorCodes=codes, subgraphs=[main, branch, branch], buffers=[s.BufferT(data=[])])
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def results(returned: list[int]) -> list[list[float]]:
    interpreter = Interpreter(model_content=model(returned))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.array(True))
    interpreter.set_tensor(1, np.array([1, 2, 3, 4], np.float32))
    interpreter.invoke()
    return [interpreter.get_tensor(k).tolist() for k in (2, 3)]


print("expected:", [[-1.0, -2.0, -3.0, -4.0]] * 2)
print("counter-test (the branch computes the value twice, and returns both):", results([1, 2]))
print("actual:", results([1, 1]), flush=True)
