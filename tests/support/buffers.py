"""Buffers with lifetimes and sizes: boxes that are hard to pack, and the model in which buffers live as they should."""

from __future__ import annotations

import random

from tmmu.core.vocabulary import Body, Model, Node, Role, Tensor
from tmmu.planner.layouts.boxes import Boxes


def hard(seed: int, count: int = 60) -> Boxes:
    """Boxes of many sizes, of which few placements are as low as what is live."""
    rng = random.Random(seed)
    births = [rng.randrange(25) for _ in range(count)]
    sizes = [rng.randrange(1, 1000) for _ in range(count)]
    return Boxes(births, [b + rng.randrange(12) for b in births], sizes, [rng.choice((1, 8)) for _ in births], {})


def model_of(boxes: Boxes) -> Model:
    """A model with one step for each step of the boxes, that writes what is born and reads what dies."""
    tensors = tuple(Tensor(f"b{i}", (size,), "uint8", Role.ACTIVATION, size) for i, size in enumerate(boxes.size))
    nodes = tuple(
        Node(
            f"n{step}", "test::Step",
            tuple(i for i, (b, d) in enumerate(zip(boxes.birth, boxes.death, strict=True)) if b < d == step),
            tuple(i for i, b in enumerate(boxes.birth) if b == step),
        )
        for step in range(max(boxes.death) + 1)
    )  # fmt: skip
    return Model("buffers", tensors, nodes, (Body(-1, "", (), ()),))
