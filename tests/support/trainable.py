"""Small models that can be trained, and their steps as lines of text."""

from __future__ import annotations

from typing import Any

from tests.support.text_models import text_model
from tmmu.core.vocabulary import Model, Phase


def floating(*lines: str, **options: Any) -> Model:
    """A small model whose every tensor is 4 by 4 of float32, unless a line declares it."""
    return text_model(*lines, **options, each="f32 4x4")


def lines(model: Model, phase: Phase = Phase.BACKWARD) -> list[str]:
    """The steps of a phase as lines of text."""
    names = [tensor.name for tensor in model.tensors]
    return [
        f"node {node.name} {node.op} {' '.join(names[t] for t in node.reads)}"
        f" -> {' '.join(names[t] for t in node.writes)}"
        for node in model.nodes
        if node.phase is phase
    ]


def names(model: Model, rows: tuple[int, ...]) -> list[str]:
    return [model.tensors[t].name for t in rows]


MLP = floating(
    "node matmul0 MatMul x w -> a", "node relu0 Relu a -> b", "node matmul1 MatMul b v -> c", "node add0 Add c a -> y",
    parameters="w v",
)  # fmt: skip

OPTIMIZER = floating(
    "node matmul0 MatMul x w -> y", "node sgd0 Sgd w w.grad -> w changes w optimizer", "tensor w f32 4x4 donated",
    inputs="x w.grad", parameters="w",
)  # fmt: skip
