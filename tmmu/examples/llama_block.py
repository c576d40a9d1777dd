"""One decoder layer of Llama 3 8B in bfloat16, with its key and value cache as outputs.

Shapes: `hidden` bfloat16 [batch, seq, 4096], `position_ids` int64 [batch, seq]; `output` like `hidden`, `present.key`
and `present.value` bfloat16 [batch, 8, seq, 128]. 32 query heads share 8 key and value heads of 128; rotary
positions, RMS normalization in float32, a gated feed-forward network of 14,336; 218,112,000 bfloat16 parameters.
"""

from __future__ import annotations

import onnx

from tmmu.examples.graph import OnnxGraph

WIDTH, INNER, HEADS, SHARED_HEADS, HEAD, ROTARY_BASE = 4096, 14336, 32, 8, 128, 500_000.0
DTYPE = "bfloat16"
BFLOAT16, FLOAT32 = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT


def build() -> onnx.ModelProto:
    """Build the layer as an ONNX model without weights."""
    return network().model()


def network() -> OnnxGraph:
    """Build the layer as a graph, which counts its `parameters`."""
    graph = OnnxGraph("llama-block")
    hidden = graph.input("hidden", ("batch", "seq", WIDTH), DTYPE)
    positions = graph.input("position_ids", ("batch", "seq"), "int64")
    with graph.scope("rotary_emb"):
        cosine, sine = _rotary(graph, positions)
    mask = _causal_mask(graph, hidden)
    with graph.scope("input_layernorm"):
        normalized = _normalize(graph, hidden, "input_layernorm")
    with graph.scope("self_attn"):
        attended = _attention(graph, normalized, mask, cosine, sine)
    hidden = graph.node("Add", hidden, attended)
    with graph.scope("post_attention_layernorm"):
        normalized = _normalize(graph, hidden, "post_attention_layernorm")
    with graph.scope("mlp"):
        fed = _feed_forward(graph, normalized)
    graph.node("Add", hidden, fed, result="output")
    graph.output("output", ("batch", "seq", WIDTH), DTYPE)
    for name in ("present.key", "present.value"):
        graph.output(name, ("batch", SHARED_HEADS, "seq", HEAD), DTYPE)
    return graph


def _rotary(graph: OnnxGraph, positions: str) -> tuple[str, str]:
    """Add cosine and sine of position times frequency, as [batch, 1, seq, 128]; computed in float32."""
    frequencies = [ROTARY_BASE ** (-2 * pair / HEAD) for pair in range(HEAD // 2)]
    places = graph.node("Cast", graph.node("Unsqueeze", positions, graph.constant([1])), to=FLOAT32)
    angles = graph.node("MatMul", graph.constant(frequencies, "float32", (1, HEAD // 2, 1)), places)
    angles = graph.node("Transpose", angles, perm=[0, 2, 1])
    angles = graph.node("Concat", angles, angles, axis=-1)
    cosine, sine = (
        graph.node("Unsqueeze", graph.node("Cast", graph.node(op, angles), to=BFLOAT16), graph.constant([1]))
        for op in ("Cos", "Sin")
    )
    return cosine, sine


def _causal_mask(graph: OnnxGraph, hidden: str) -> str:
    """Add the mask [seq, seq]: minus infinity above the diagonal, 0 elsewhere."""
    shape = graph.node("Concat", graph.dim(hidden, 1), graph.dim(hidden, 1), axis=0)
    minus_infinity = onnx.helper.make_tensor("minus_infinity", FLOAT32, [1], [float("-inf")])
    mask = graph.node("ConstantOfShape", shape, value=minus_infinity)
    return graph.node("Cast", graph.node("Trilu", mask, graph.constant(1), upper=1), to=BFLOAT16)


def _attention(graph: OnnxGraph, hidden: str, mask: str, cosine: str, sine: str) -> str:
    """Add grouped-query attention; the key and the value before their repetition are the cache."""
    batch, length = graph.dim(hidden, 0), graph.dim(hidden, 1)

    def heads(name: str, count: int, result: str | None = None) -> str:
        shape = graph.node("Concat", batch, length, graph.constant([count]), graph.constant([HEAD]), axis=0)
        flat = _project(graph, hidden, WIDTH, count * HEAD, f"self_attn.{name}")
        return graph.node("Transpose", graph.node("Reshape", flat, shape), perm=[0, 2, 1, 3], result=result)

    query = _rotate(graph, heads("q_proj", HEADS), cosine, sine)
    key = _rotate(graph, heads("k_proj", SHARED_HEADS), cosine, sine, result="present.key")
    value = heads("v_proj", SHARED_HEADS, result="present.value")
    key, value = (_repeat(graph, shared, batch, length) for shared in (key, value))
    scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=[0, 1, 3, 2]))
    scores = graph.node("Mul", scores, graph.constant(HEAD**-0.5, DTYPE))
    scores = graph.node("Cast", graph.node("Add", scores, mask), to=FLOAT32)
    weights = graph.node("Cast", graph.node("Softmax", scores, axis=-1), to=BFLOAT16)
    mixed = graph.node("Transpose", graph.node("MatMul", weights, value), perm=[0, 2, 1, 3])
    shape = graph.node("Concat", batch, length, graph.constant([-1]), axis=0)
    return _project(graph, graph.node("Reshape", mixed, shape), WIDTH, WIDTH, "self_attn.o_proj")


def _rotate(graph: OnnxGraph, value: str, cosine: str, sine: str, result: str | None = None) -> str:
    """Add a rotation of each pair of elements that are half a head apart by its angle."""
    last, one = graph.constant([3]), graph.constant([1])
    middle, end = graph.constant([HEAD // 2]), graph.constant([(1 << 63) - 1])
    first_half = graph.node("Slice", value, graph.constant([0]), middle, last, one)
    second_half = graph.node("Slice", value, middle, end, last, one)
    turned = graph.node("Concat", graph.node("Neg", second_half), first_half, axis=-1)
    straight = graph.node("Mul", value, cosine)
    return graph.node("Add", straight, graph.node("Mul", turned, sine), result=result)


def _repeat(graph: OnnxGraph, shared: str, batch: str, length: str) -> str:
    """Add four repetitions of each shared head, so that each query head has a separate one."""
    times = HEADS // SHARED_HEADS
    sizes = [graph.constant([number]) for number in (SHARED_HEADS, times, HEADS, HEAD)]
    expanded = graph.node("Concat", batch, sizes[0], sizes[1], length, sizes[3], axis=0)
    repeated = graph.node("Expand", graph.node("Unsqueeze", shared, graph.constant([2])), expanded)
    joined = graph.node("Concat", batch, sizes[2], length, sizes[3], axis=0)
    return graph.node("Reshape", repeated, joined)


def _feed_forward(graph: OnnxGraph, hidden: str) -> str:
    """Add down(silu(gate(x)) · up(x))."""
    gate = _project(graph, hidden, WIDTH, INNER, "mlp.gate_proj")
    gate = graph.node("Mul", gate, graph.node("Sigmoid", gate))
    up = _project(graph, hidden, WIDTH, INNER, "mlp.up_proj")
    return _project(graph, graph.node("Mul", gate, up), INNER, WIDTH, "mlp.down_proj")


def _project(graph: OnnxGraph, value: str, inputs: int, outputs: int, name: str) -> str:
    with graph.scope(name.rsplit(".", 1)[-1]):
        return graph.node("MatMul", value, graph.weight(f"{name}.weight", (inputs, outputs), DTYPE))


def _normalize(graph: OnnxGraph, hidden: str, name: str) -> str:
    """Add the division by the root of the mean square, in float32, and the scaling."""
    wide = graph.node("Cast", hidden, to=FLOAT32)
    square = graph.node("Pow", wide, graph.constant(2.0, "float32"))
    mean = graph.node("ReduceMean", square, graph.constant([-1]), keepdims=1)
    root = graph.node("Sqrt", graph.node("Add", mean, graph.constant(1e-5, "float32")))
    scaled = graph.node("Mul", wide, graph.node("Reciprocal", root))
    narrow = graph.node("Cast", scaled, to=BFLOAT16)
    return graph.node("Mul", graph.weight(f"{name}.weight", (WIDTH,), DTYPE), narrow)
