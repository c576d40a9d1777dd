"""A transformer-like training graph of any size, as a model: the input of the scale benchmarks.

The forward half stashes its results; the backward half reads them in reverse, so lifetimes nest as in training.
Short-lived results, residual reads and sizes that vary over three orders of magnitude come with it. Deterministic.
"""

from __future__ import annotations

import random

from tmmu.core.dtypes import nbytes
from tmmu.core.vocabulary import Body, Model, Node, Role, Tensor


def training_model(tensors: int) -> Model:
    """A model of about `tensors` tensors and as many nodes, each reading two."""
    rng = random.Random(20260217)
    half = tensors // 2
    made = [Tensor("input", (64,), "float32", Role.INPUT, 256, 4)]
    nodes = []
    row = list(range(tensors + 1))  # as in a model that is read from a file, where numbers of tensors are made once
    for i in range(tensors):
        shape = (rng.choice((1, 4, 16, 64)), rng.randrange(1, 512))
        made.append(Tensor(f"t{i}", shape, "float32", Role.ACTIVATION, nbytes(shape, "float32"), 4))
        residual = max(0, i - rng.randrange(1, 12))
        # Two in five of the forward results are stashed and read again by the mirrored backward step.
        other = tensors - i if i >= half and i % 5 < 2 else residual
        nodes.append(Node(f"n{i}", "MatMul", (row[i], row[other]), (row[i + 1],)))
    return Model("training", tuple(made), tuple(nodes), (Body(-1, "", (0,), (tensors,)),))
