"""An object detector as real exporters write it: its dimensions have no names, and a value decides a branch.

Shapes: `images` float32 [?, 3, ?, ?] and a scalar `rate` int64; `boxes` float32 [?, 300, 4], `scores` float32 [?, 300],
`labels` int64 [?, 300]. The camera scans lines of 640 pixels at 16,000 a second and of 320 at any other rate; the
branch for the latter does not fit 640 pixels, so the model can be planned only with the rate bound:
`--shape images=1x3x640x640 --value rate=16000`. Constants are nodes; Range and Expand compute the grid.
"""

from __future__ import annotations

import onnx

from tmmu.examples.graph import OnnxGraph

STRIDES, CHANNELS = (8, 16, 32), (128, 256, 512)
CLASSES, DETECTIONS, RATE, LINE = 80, 300, 16_000, 640
FIELDS = 4 + 1 + CLASSES
"""The numbers of a cell: a box, the confidence that there is an object, and the confidence of each class."""


def build() -> onnx.ModelProto:
    """Build the network as an ONNX model without weights."""
    graph = OnnxGraph("detector", constants_as_nodes=True)
    images = graph.input("images", ("?", 3, "?", "?"))
    rate = graph.input("rate", (), "int64")
    value = _full_lines(graph, images, rate)
    features = _neck(graph, _backbone(graph, value))
    rows = [_decode(graph, feature, scale) for scale, feature in enumerate(features)]
    _best(graph, graph.node("Concat", *rows, axis=1))
    graph.output("boxes", ("?", DETECTIONS, 4))
    graph.output("scores", ("?", DETECTIONS))
    graph.output("labels", ("?", DETECTIONS), "int64")
    return graph.model()


def _full_lines(graph: OnnxGraph, images: str, rate: str) -> str:
    """Add the scaling of images; at another rate than the full one, a matrix first widens each line of 320 pixels."""
    full = graph.inner("full")
    full.node("Div", images, full.constant(255.0, "float32"), result="scaled")
    full.output("scaled", ("?", 3, "?", "?"))
    half = graph.inner("half")
    widened = half.node("MatMul", images, "widen.weight")
    half.node("Div", widened, half.constant(255.0, "float32"), result="widened")
    half.output("widened", ("?", 3, "?", LINE))
    graph.weight("widen.weight", (LINE // 2, LINE))
    condition = graph.node("Equal", rate, graph.constant(RATE))
    return graph.node("If", condition, then_branch=full.body(), else_branch=half.body())


def _convolution(
    graph: OnnxGraph, value: str, channels: int, filters: int, name: str, *, kernel: int = 3, stride: int = 1
) -> str:
    """Add a convolution and x · sigmoid(x)."""
    weight = graph.weight(f"{name}.weight", (filters, channels, kernel, kernel))
    bias = graph.weight(f"{name}.bias", (filters,))
    with graph.scope(name):
        value = graph.node(
            "Conv", value, weight, bias, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4
        )
        return graph.node("Mul", value, graph.node("Sigmoid", value))


def _backbone(graph: OnnxGraph, value: str) -> list[str]:
    """Add the layers that compute features at an eighth, a sixteenth and a thirty-second of the size."""
    channels, features = 3, []
    for level, filters in enumerate((32, 64, *CHANNELS)):
        value = _convolution(graph, value, channels, filters, f"backbone.{level}.down", stride=2)
        inner = _convolution(graph, value, filters, filters // 2, f"backbone.{level}.narrow", kernel=1)
        inner = _convolution(graph, inner, filters // 2, filters, f"backbone.{level}.widen")
        value, channels = graph.node("Add", value, inner), filters
        features.append(value)
    return features[2:]


def _neck(graph: OnnxGraph, features: list[str]) -> list[str]:
    """Add the layers that join each scale to the one above it, from coarse to fine."""
    coarse = features[-1]
    joined = [coarse]
    for scale in (1, 0):
        filters, above = CHANNELS[scale], CHANNELS[scale + 1]
        weight, bias = graph.weight(f"neck.{scale}.up.weight", (above, filters, 2, 2)), f"neck.{scale}.up.bias"
        graph.weight(bias, (filters,))
        up = graph.node("ConvTranspose", coarse, weight, bias, kernel_shape=[2, 2], strides=[2, 2])
        both = graph.node("Concat", up, features[scale], axis=1)
        coarse = _convolution(graph, both, 2 * filters, filters, f"neck.{scale}.join")
        joined.insert(0, coarse)
    return joined


def _decode(graph: OnnxGraph, feature: str, scale: int) -> str:
    """Add the decoding to [?, cells, fields]: the box of each cell in pixels, and its confidences."""
    stride = graph.constant(float(STRIDES[scale]), "float32")
    with graph.scope(f"head.{scale}"):
        weight = graph.weight(f"head.{scale}.weight", (FIELDS, CHANNELS[scale], 1, 1))
        raw = graph.node("Conv", feature, weight, kernel_shape=[1, 1])
        cells = graph.node("Mul", graph.dim(raw, 2), graph.dim(raw, 3))
        flat = graph.node("Concat", graph.dim(raw, 0), graph.constant([FIELDS]), cells, axis=0)
        rows = graph.node("Transpose", graph.node("Reshape", raw, flat), perm=[0, 2, 1])
        parts = graph.constant([2, 2, 1 + CLASSES])
        centre, extent, sure = graph.nodes("Split", rows, parts, results=[None, None, None], axis=2)
        centre = graph.node("Mul", graph.node("Add", centre, _grid(graph, raw)), stride)
        extent = graph.node("Mul", graph.node("Exp", extent), stride)
        return graph.node("Concat", centre, extent, graph.node("Sigmoid", sure), axis=2)


def _grid(graph: OnnxGraph, raw: str) -> str:
    """Add the computation of [1, cells, 2]: column and row of each cell, row by row."""
    zero, one, last = graph.constant(0), graph.constant(1), graph.constant([-1])
    shape = graph.node("Concat", graph.dim(raw, 2), graph.dim(raw, 3), axis=0)
    columns = graph.node("Range", zero, graph.length(raw, 3), one)
    rows = graph.node("Unsqueeze", graph.node("Range", zero, graph.length(raw, 2), one), graph.constant([1]))
    pair = [graph.node("Unsqueeze", graph.node("Expand", each, shape), last) for each in (columns, rows)]
    grid = graph.node("Reshape", graph.node("Concat", *pair, axis=-1), graph.constant([1, -1, 2]))
    return graph.node("Cast", grid, to=onnx.TensorProto.FLOAT)


def _best(graph: OnnxGraph, rows: str) -> None:
    """Add the selection of the boxes with the highest scores, their scores and their classes."""
    parts = graph.constant([4, 1, CLASSES])
    box, there, classes = graph.nodes("Split", rows, parts, results=[None, None, None], axis=2)
    likely = graph.node("ReduceMax", classes, graph.constant([2]), keepdims=0)
    label = graph.node("ArgMax", classes, axis=2, keepdims=0)
    score = graph.node("Mul", likely, graph.node("Squeeze", there, graph.constant([2])))
    count = graph.constant([DETECTIONS])
    _, best = graph.nodes("TopK", score, count, results=["scores", None], axis=1)
    graph.node("GatherElements", label, best, result="labels", axis=1)
    corners = graph.node("Concat", graph.dim(box, 0), count, graph.constant([4]), axis=0)
    which = graph.node("Expand", graph.node("Unsqueeze", best, graph.constant([2])), corners)
    graph.node("GatherElements", box, which, result="boxes", axis=1)
