"""Write the TensorFlow Lite files and Vela's table of the corpus: `python tests/corpus/foreign/make/tflite_models.py`,
where ai-edge-litert, tflite-micro and ethos-u-vela are installed.

The network is an int8 CNN. `cnn` has the addresses that LiteRT's planner gave its tensors, read from the interpreter;
`cnn-vela` is what Vela made of it, with the table that it printed; the rest are models whose plan is written by hand,
right ones and wrong ones.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tflite_micro.python.tflite_micro import runtime

CORPUS = Path(__file__).resolve().parents[1]
INT8, INT32, UINT8, BOOL = 9, 2, 3, 6
OP = schema.BuiltinOperator


class Writer:
    """A model of one or several subgraphs, and its offline plan."""

    def __init__(self) -> None:
        self.model = schema.ModelT()
        self.model.version, self.model.description = 3, "made for tests"
        self.model.buffers, self.model.operatorCodes = [schema.BufferT()], []
        self.model.subgraphs, self.model.metadata = [], []
        self.graph: schema.SubGraphT | None = None

    def subgraph(self, inputs: list[int], outputs: list[int]) -> None:
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = inputs, outputs
        self.model.subgraphs.append(self.graph)

    def buffer(self, data: bytes) -> int:
        made = schema.BufferT()
        made.data = np.frombuffer(data, np.uint8)
        self.model.buffers.append(made)
        return len(self.model.buffers) - 1

    def tensor(self, name: str, shape: list[int], kind: int = INT8, data: np.ndarray | None = None, scale: float = 0.05,
               variable: bool = False) -> int:  # fmt: skip
        made = schema.TensorT()
        made.name, made.shape, made.type, made.isVariable = name, shape, kind, variable
        made.buffer = 0 if data is None else self.buffer(data.tobytes())
        if kind in (INT8, INT32, UINT8):
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale, made.quantization.zeroPoint = [scale], [0]
        self.graph.tensors.append(made)
        return len(self.graph.tensors) - 1

    def op(self, code: int, inputs: list[int], outputs: list[int], kind: int = 0, options: object = None) -> None:
        index = next((k for k, each in enumerate(self.model.operatorCodes) if each.builtinCode == code), None)
        if index is None:
            known, index = schema.OperatorCodeT(), len(self.model.operatorCodes)
            known.builtinCode, known.deprecatedBuiltinCode = code, min(code, 127)
            known.version = 3 if code in (OP.CONV_2D, OP.DEPTHWISE_CONV_2D) else 1
            self.model.operatorCodes.append(known)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = index, inputs, outputs
        made.builtinOptionsType, made.builtinOptions = kind, options
        self.graph.operators.append(made)

    def plan(self, offsets: list[int]) -> None:
        entry = schema.MetadataT()
        entry.name = "OfflineMemoryAllocation"
        entry.buffer = self.buffer(np.array([1, len(self.model.subgraphs), len(offsets), *offsets], np.int32).tobytes())
        self.model.metadata.append(entry)

    def bytes(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def options(kind: str, **fields: object) -> tuple[int, object]:
    made = getattr(schema, f"{kind}T")()
    for name, value in fields.items():
        assert hasattr(made, name)
        setattr(made, name, value)
    return getattr(schema.BuiltinOptions, kind), made


def cnn() -> Writer:
    """Three convolutions with a residual connection, a depthwise one, pooling and a layer of ten."""
    rng, w = np.random.default_rng(0), Writer()
    w.subgraph([0], [])

    def weights(name: str, *shape: int) -> int:
        return w.tensor(name, list(shape), INT8, rng.integers(-100, 100, shape).astype(np.int8), 0.01)

    def bias(name: str, n: int) -> int:
        return w.tensor(name, [n], INT32, rng.integers(-100, 100, n).astype(np.int32), 0.0005)

    def conv(x: int, name: str, inner: int, outer: int, size: int) -> int:
        y = w.tensor(name, [1, size, size, outer])
        inputs = [x, weights(f"{name}/w", outer, 3, 3, inner), bias(f"{name}/b", outer)]
        w.op(OP.CONV_2D, inputs, [y], *options("Conv2DOptions", padding=0, strideW=1, strideH=1))
        return y

    x = w.tensor("x", [1, 16, 16, 3])
    a = conv(x, "a", 3, 8, 16)
    b = conv(a, "b", 8, 8, 16)
    c = w.tensor("c", [1, 16, 16, 8])
    w.op(OP.ADD, [a, b], [c], *options("AddOptions"))
    d = w.tensor("d", [1, 8, 8, 8])
    inputs = [c, weights("d/w", 1, 3, 3, 8), bias("d/b", 8)]
    w.op(OP.DEPTHWISE_CONV_2D, inputs, [d], *options("DepthwiseConv2DOptions", strideW=2, strideH=2, depthMultiplier=1))
    e = conv(d, "e", 8, 16, 8)
    f = w.tensor("f", [1, 4, 4, 16])
    pool = options("Pool2DOptions", strideW=2, strideH=2, filterWidth=2, filterHeight=2)
    w.op(OP.MAX_POOL_2D, [e], [f], *pool)
    g = w.tensor("g", [1, 256])
    shape = w.tensor("shape", [2], INT32, np.array([1, 256], np.int32))
    w.op(OP.RESHAPE, [f, shape], [g], *options("ReshapeOptions", newShape=[1, 256]))
    h = w.tensor("h", [1, 10])
    w.op(OP.FULLY_CONNECTED, [g, weights("h/w", 10, 256), bias("h/b", 10)], [h], *options("FullyConnectedOptions"))
    y = w.tensor("y", [1, 10], scale=1 / 256)
    w.graph.tensors[y].quantization.zeroPoint = [-128]
    w.op(OP.SOFTMAX, [h], [y], *options("SoftmaxOptions", beta=1.0))
    w.graph.outputs = [y]
    return w


def planned_by_litert(w: Writer) -> list[int]:
    """The addresses that LiteRT's own planner gives, -1 for constants."""
    it = Interpreter(
        model_content=w.bytes(),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    it.allocate_tensors()
    at = {}
    for t, tensor in enumerate(w.graph.tensors):
        if not tensor.buffer:
            at[t] = it.tensor(t)().__array_interface__["data"][0]
    low = min(at.values())
    return [at[t] - low if t in at else -1 for t in range(len(w.graph.tensors))]


def run(model: bytes) -> np.ndarray:
    """What TensorFlow Lite Micro computes of a fixed input, with the model's own plan where it has one."""
    it = runtime.Interpreter.from_bytes(model)
    x = np.random.default_rng(1).integers(-128, 128, (1, 16, 16, 3)).astype(np.int8)
    it.set_input(x, 0)
    it.invoke()
    return it.get_output(0)


def overlap() -> Writer:
    """b is written over a, which ADD still reads."""
    w = cnn()
    found = planned_by_litert(w)
    names = [tensor.name for tensor in w.graph.tensors]
    found[names.index("b")] = found[names.index("a")] + 64
    w.plan(found)
    return w


def chain(kind: int, second: int) -> Writer:
    """Two tensors of 64 elements that live together, `second` bytes from one another."""
    w = Writer()
    w.subgraph([0], [2])
    for name in ("x", "a", "y"):
        w.tensor(name, [1, 64], kind)
    w.op(OP.RELU, [0], [1])
    w.op(OP.ADD, [0, 1], [2], *options("AddOptions"))
    w.plan([0, second, 128])
    return w


def control(kind: str, wrong: bool = False) -> Writer:
    """x * 2 by an If or a While, with the body's tensors on the bytes of each other's arms, or on the operand."""
    w = Writer()
    w.subgraph([0, 1], [3])
    flag, x, y, z = w.tensor("flag", [1], BOOL), *(w.tensor(name, [1, 64]) for name in "xyz")
    if kind == "if":
        w.op(OP.IF, [flag, x], [y], *options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2))
    else:
        w.op(OP.WHILE, [x], [y], *options("WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2))
    w.op(OP.ADD, [x, y], [z], *options("AddOptions"))
    main = [0, 64, 128, 192]
    for g in range(2):
        w.subgraph([0], [1])
        p = w.tensor(f"p{g}", [1, 64])
        is_test = kind == "while" and g == 0
        q = w.tensor(f"q{g}", [1] if is_test else [1, 64], BOOL if is_test else INT8)
        w.op(OP.LESS if is_test else OP.RELU, [p, p] if is_test else [p], [q])
    at = 64 if wrong else 256
    w.plan([*main, at, 320, at, 320])
    return w


def entries(scratch: int) -> Writer:
    """Three entries over one cache: one fills it, one changes a row of it, and one that knows nothing of it has an
    intermediate result at `scratch`."""
    w = Writer()
    w.subgraph([0], [2])
    for name in ("x", "h", "cache"):
        w.tensor(name, [8, 4])
    w.op(OP.RELU, [0], [1])
    w.op(OP.RELU, [1], [2])
    w.subgraph([0, 1, 2], [3, 4])
    w.tensor("row", [1, 4])
    w.tensor("at", [2], INT32)
    for name in ("cache", "changed", "y"):
        w.tensor(name, [8, 4])
    w.op(OP.DYNAMIC_UPDATE_SLICE, [2, 0, 1], [3])
    w.op(OP.RELU, [3], [4])
    w.subgraph([0], [2])
    for name in ("image", "inner", "label"):
        w.tensor(name, [8, 4])
    w.op(OP.RELU, [0], [1])
    w.op(OP.TANH, [1], [2])
    w.model.signatureDefs = []
    for g, name in enumerate(("prefill", "decode", "classify")):
        signature = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = name, g
        w.model.signatureDefs.append(signature)
    w.plan([32, 64, 0, 32, 40, 0, 0, 64, 32, scratch, 96])
    return w


def store(folder: str, name: str, data: bytes) -> Path:
    path = CORPUS / folder / name
    path.write_bytes(data)
    return path


def main() -> None:
    model = cnn()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "cnn.tflite")
        path.write_bytes(model.bytes())
        vela = Path(sys.executable).with_name("vela")
        command = [vela, path, "--verbose-allocation", "--output-dir", place, "--accelerator-config", "ethos-u55-64"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        store("proved", "tflite-cnn-vela.tflite", Path(place, "cnn_vela.tflite").read_bytes())
        table = printed[printed.index("#" * 80) :]
        store("proved", "vela-cnn.txt", table.encode())
        # d is moved onto b, which the step that writes d still reads.
        store("refuted", "vela-cnn-overlap.txt", table.replace("0x0 -      0x400:", "0x1000 -     0x1400:").encode())
    model.plan(planned_by_litert(model))
    assert (run(model.bytes()) == run(cnn().bytes())).all()
    assert (run(overlap().bytes()) != run(cnn().bytes())).any()
    store("proved", "tflite-cnn.tflite", model.bytes())
    store("refuted", "tflite-overlap.tflite", overlap().bytes())
    store("refuted", "tflite-uint8-as-uint4.tflite", chain(UINT8, 32).bytes())
    store("proved", "tflite-entries.tflite", entries(64).bytes())
    store("proved", "tflite-entries-over-cache.tflite", entries(0).bytes())  # right by itself, and wrong as a set
    for kind in ("if", "while"):
        store("proved", f"tflite-{kind}.tflite", control(kind).bytes())
        store("refuted", f"tflite-{kind}-over-operand.tflite", control(kind, wrong=True).bytes())


if __name__ == "__main__":
    main()
