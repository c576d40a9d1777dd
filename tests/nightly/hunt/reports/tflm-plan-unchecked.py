"""TensorFlow Lite Micro: an OfflineMemoryAllocation with two live tensors in the same bytes runs without an error."""

import flatbuffers
import numpy as np
from tflite_micro import runtime
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as s

INT8 = s.TensorType.INT8


def result(plan: list[int]) -> list[int]:
    scale = s.QuantizationParametersT(scale=[1.0], zeroPoint=[0])
    tensors = [s.TensorT(name=name, shape=[1, 4], type=INT8, quantization=scale) for name in ("x", "a", "b", "y")]
    code = s.OperatorCodeT(deprecatedBuiltinCode=s.BuiltinOperator.ADD, builtinCode=s.BuiltinOperator.ADD, version=2)
    add = (s.BuiltinOptions.AddOptions, s.AddOptionsT())
    steps = [s.OperatorT(0, [0, 0], [1], *add), s.OperatorT(0, [1, 0], [2], *add), s.OperatorT(0, [1, 2], [3], *add)]
    graph = s.SubGraphT(tensors=tensors, inputs=[0], outputs=[3], operators=steps)
    listed = s.BufferT(data=list(np.array([1, 1, 4, *plan], np.int32).tobytes()))
    metadata = [s.MetadataT("OfflineMemoryAllocation", 1)]
    whole = s.ModelT(3, [code], [graph], "", [s.BufferT(data=[]), listed], metadata=metadata)
    builder = flatbuffers.Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    interpreter = runtime.Interpreter.from_bytes(bytes(builder.Output()))
    interpreter.set_input(np.array([[1, 2, 3, 4]], np.int8), 0)
    interpreter.invoke()
    return interpreter.get_output(0).ravel().tolist()


print("expected:", [5, 10, 15, 20])  # a = 2x, b = 3x, y = a + b
print("counter-test (each tensor at bytes of its own):", result([0, 16, 32, 48]))
print("actual:", result([0, 16, 16, 48]), flush=True)  # b is written over a, which the next step reads
