"""Buffers with lifetimes and sizes: boxes that are hard to pack, which placements are right and how low any can be, and
the model in which buffers live as they should."""

from __future__ import annotations

import random
from itertools import permutations

from tmmu.core.alignment import align_up
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


def live(boxes: Boxes, i: int) -> set[int]:
    """The steps at which a box is live."""
    return {s for k, b, d in boxes.pieces() if k == i for s in range(b, d + 1)}


def right(boxes: Boxes, offsets: list[int]) -> bool:
    """The definition: aligned, where it is fixed, and apart from what is live at one of its steps or bound to be."""
    n = len(boxes)
    return all(
        at % boxes.alignment[i] == 0 and boxes.fixed.get(i, at) == at >= 0 for i, at in enumerate(offsets)
    ) and all(
        offsets[i] + boxes.size[i] <= offsets[j] or offsets[j] + boxes.size[j] <= offsets[i]
        for i in range(n)
        for j in range(i)
        if live(boxes, i) & live(boxes, j) or j in boxes.apart.get(i, ())
    )


def least(boxes: Boxes) -> int | None:
    """The lowest end of any placement: each box, in every order, at the lowest offset that is right there."""
    n, best = len(boxes), None
    bound = [
        {j for j in range(n) if j != i and (live(boxes, i) & live(boxes, j) or j in boxes.apart.get(i, ()))}
        for i in range(n)
    ]
    for order in permutations(range(n)):
        offsets: dict[int, int] = {}
        for i in order:
            at = boxes.fixed.get(i, 0)
            blocks = sorted((offsets[j], offsets[j] + boxes.size[j]) for j in bound[i] if j in offsets)
            for low, end in blocks:
                if low < at + boxes.size[i] and at < end:
                    at = align_up(end, boxes.alignment[i])
            offsets[i] = at
            if boxes.fixed.get(i, at) != at:
                break
        else:
            height = max(offsets[i] + boxes.size[i] for i in range(n))
            best = height if best is None else min(best, height)
    return best
