"""Training steps with an optimizer, as text: two layers, a loss, and the update of each parameter in place.

The gradients that the updates read are inputs named after their parameters: mode `backward` replaces them by the steps
that compute them. Parameters and optimizer state are donated, because a step mutates them. A shard spec trains them on
four ranks in data parallel with ZeRO.
"""

from __future__ import annotations

from collections.abc import Iterator

SIZES = {"w1": "784x256", "b1": "256", "w2": "256x10", "b2": "10"}
"""The shape of each parameter."""


def _iterate_lines(operator: str, states: tuple[str, ...], scalars: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a training step; its operator reads a parameter, its gradient, `scalars` and `states`."""
    yield from ("tmmu-ir-text 1", "tensor x f32 64x784 input", "tensor label i64 64 input")
    yield "tensor rate f32 scalar input        # of learning, which a schedule may change"
    yield "tensor step i64 scalar input        # the number of this step, from 1"
    for name, size in SIZES.items():
        yield f"tensor {name} f32 {size} parameter donated"
        yield f"tensor {name}.grad f32 {size} input"
        yield from (f"tensor {name}.{state} f32 {size} optimizer donated" for state in states)
    for name, shape in (("h", "64x256"), ("a", "64x256"), ("y", "64x10"), ("loss", "scalar output")):
        yield f"tensor {name} f32 {shape}"
    yield "node layer1 Gemm x w1 b1 -> h"
    yield "node active Relu h -> a inplace a h"
    yield "node layer2 Gemm a w2 b2 -> y"
    yield "node error  SoftmaxCrossEntropyLoss y label -> loss"
    for name in SIZES:
        kept = " ".join([name, *(f"{name}.{state}" for state in states)])
        read = " ".join([*scalars, name, f"{name}.grad", *(f"{name}.{state}" for state in states)])
        yield f"node {name}.update ai.onnx.preview.training::{operator} {read} -> {kept} changes {kept} optimizer"


SGD = "\n".join(_iterate_lines("Momentum", ("momentum",), ("rate", "step"))) + "\n"
"""Stochastic gradient descent with momentum: one state for each parameter."""

ADAM = "\n".join(_iterate_lines("Adam", ("mean", "square"), ("rate", "step"))) + "\n"
"""Adam: two states for each parameter."""

ZERO = """\
pad = true                         # b2 has 10 elements, which four ranks do not divide

[mesh]
data = 4

[zero]                             # 1: optimizer state, 2: gradients of parameters too, 3: parameters too
axis = "data"
stage = 3

[[rules]]                          # the batch
roles = ["input"]
names = ["x", "label"]
split = ["data"]
"""
"""A shard spec for both: data parallel on four ranks, with ZeRO stage 3."""
