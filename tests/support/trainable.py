"""Small models that can be trained, and their steps as lines of text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.small import small
from tmmu.core.vocabulary import Model, Phase

FLOAT: dict[str, Any] = {"shape": (4, 4), "dtype": "float32", "bytes": 64}


def floating(*lines: str, **options: Any) -> Model:
    """A small model whose every tensor is 4 by 4 of float32, unless `like` says otherwise."""
    plain = small(*lines, **options)
    like = options.get("like", {})
    tensors = tuple(
        tensor if tensor.name in like else replace(tensor, **FLOAT, alignment=4) for tensor in plain.tensors
    )
    named = {"Matmul": "MatMul", "Globalmaxpool": "GlobalMaxPool"}
    nodes = tuple(replace(node, op=named.get(node.op, node.op)) for node in plain.nodes)
    return replace(plain, tensors=tensors, nodes=nodes)


def lines(model: Model, phase: Phase = Phase.BACKWARD) -> list[str]:
    """The steps of a phase as `name: op reads -> writes`."""
    names = [tensor.name for tensor in model.tensors]
    return [
        f"{node.name}: {node.op} {' '.join(names[t] for t in node.reads)} -> {' '.join(names[t] for t in node.writes)}"
        for node in model.nodes
        if node.phase is phase
    ]


def names(model: Model, rows: tuple[int, ...]) -> list[str]:
    return [model.tensors[t].name for t in rows]


MLP = floating("matmul0: x w -> a", "relu0: a -> b", "matmul1: b v -> c", "add0: c a -> y", parameters="w v")

OPTIMIZER = floating(
    "matmul0: x w -> y", "sgd0: w w.grad -> !w", inputs="x w.grad", parameters="w", donated=("w",),
    nodes={"sgd0": {"phase": Phase.OPTIMIZER}},
)  # fmt: skip
