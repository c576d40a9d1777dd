"""Vela: a model with an OfflineMemoryAllocation list keeps that list, which does not fit the model that is written."""

import subprocess
import sys
import tempfile
from pathlib import Path

import flatbuffers
import numpy as np
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as s

INT8 = s.TensorType.INT8


def model(plan: list[int]) -> bytes:
    scale = s.QuantizationParametersT(scale=[1.0], zeroPoint=[0])
    tensors = [s.TensorT(name=name, shape=[1, 4, 4, 8], type=INT8, quantization=scale) for name in ("x", "a", "y")]
    code = s.OperatorCodeT(deprecatedBuiltinCode=s.BuiltinOperator.ADD, builtinCode=s.BuiltinOperator.ADD, version=2)
    add = (s.BuiltinOptions.AddOptions, s.AddOptionsT())
    steps = [s.OperatorT(0, [0, 0], [1], *add), s.OperatorT(0, [1, 0], [2], *add)]
    graph = s.SubGraphT(tensors=tensors, inputs=[0], outputs=[2], operators=steps)
    listed = s.BufferT(data=list(np.array([1, 1, 3, *plan], np.int32).tobytes()))
    metadata = [s.MetadataT("OfflineMemoryAllocation", 1)] if plan else []
    whole = s.ModelT(3, [code], [graph], "", [s.BufferT(data=[]), listed], metadata=metadata)
    builder = flatbuffers.Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def lengths(plan: list[int]) -> list[tuple[int, int]]:
    """Return the entries of each list in Vela's output, beside the number of its tensors."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "m.tflite")
        source.write_bytes(model(plan))
        vela = [str(Path(sys.executable).with_name("vela")), "--output-dir", folder, str(source)]
        subprocess.run(vela, check=True, capture_output=True)
        made = s.ModelT.InitFromPackedBuf(Path(folder, "m_vela.tflite").read_bytes())
    tensors = sum(len(graph.tensors) for graph in made.subgraphs)
    lists = [each.buffer for each in made.metadata if each.name == b"OfflineMemoryAllocation"]
    return [(len(bytes(made.buffers[k].data)) // 4 - 3, tensors) for k in lists]


print("expected: entries of the plan, and tensors:", [(5, 5)])
print("counter-test (a model without a plan): entries of the plan, and tensors:", lengths([]))
print("actual: entries of the plan, and tensors:", lengths([0, 128, 256]), flush=True)
