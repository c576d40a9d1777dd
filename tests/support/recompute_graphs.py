"""Forward graphs on which recomputation is compared with its optimum: chains, skips and blocks of a few dozen nodes.

Values have different sizes and nodes different costs, so that what is cheap to repeat is not always what frees most.
Operators are of no known domain: a gradient step reads all that its node read and wrote.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tmmu.core.vocabulary import Body, Model, Node, Role, Tensor


def _model(name: str, widths: Sequence[int], edges: Sequence[tuple[int, ...]]) -> Model:
    """Value 0 is the input; node `i` reads the values `edges[i]` and writes value i + 1, the last is returned."""
    rows = [Tensor(f"v{i}", (w,), "float32", Role.ACTIVATION, 4 * w, 4) for i, w in enumerate(widths)]
    rows[0] = Tensor("x", (widths[0],), "float32", Role.INPUT, 4 * widths[0], 4)
    nodes = tuple(Node(f"n{i}", "Stage", reads, (i + 1,), "test") for i, reads in enumerate(edges))
    return Model(name, tuple(rows), nodes, (Body(-1, "", (0,), (len(rows) - 1,)),))


def chain(widths: Sequence[int]) -> Model:
    """A chain of values of these many elements."""
    return _model("chain", widths, [(i,) for i in range(len(widths) - 1)])


def varied_chain(length: int, seed: int) -> Model:
    """A chain whose values have 1 to 8 times 16 elements."""
    chance = random.Random(seed)
    widths = [16 * chance.randrange(1, 9) for _ in range(length + 1)]
    return _model(f"chain-{length}-{seed}", widths, [(i,) for i in range(length)])


def hourglass(depth: int) -> Model:
    """Down and up again as in a U-Net: each node on the way up also reads the value of its height on the way down."""
    widths = [64 * (1 << depth)]
    edges: list[tuple[int, ...]] = []
    for level in range(depth):
        widths += [64 << (depth - level), 32 << (depth - level)]
        edges += [(len(edges),), (len(edges) + 1,)]
    for level in range(depth):
        skip = 2 * (depth - level) - 1
        widths += [64 << (level + 1), 64 << (level + 1)]
        edges += [(len(edges), skip), (len(edges) + 1,)]
    return _model(f"hourglass-{depth}", widths, edges)


def residual(blocks: int) -> Model:
    """Blocks of three nodes, the last of which also reads what the block was given."""
    widths, edges = [64], list[tuple[int, ...]]()
    for _ in range(blocks):
        start = len(edges)
        widths += [256, 64, 64]
        edges += [(start,), (start + 1,), (start + 2, start)]
    return _model(f"residual-{blocks}", widths, edges)


OPTIMA = {
    ("chain-8-5", 90): 96, ("chain-8-5", 80): 160, ("chain-10-6", 90): 96, ("chain-10-6", 80): 192,
    ("chain-10-6", 70): 352, ("chain-12-1", 90): 128, ("chain-12-1", 80): 240, ("chain-12-1", 70): 368,
    ("chain-12-1", 60): 608, ("chain-14-7", 90): 112, ("chain-14-7", 80): 224, ("chain-14-7", 70): 336,
    ("chain-14-7", 60): 432, ("chain-16-2", 90): 128, ("chain-16-2", 50): 656, ("hourglass-2", 90): 256,
    ("hourglass-2", 80): 512, ("hourglass-3", 90): 512, ("hourglass-3", 80): 1024, ("hourglass-4", 90): 1088,
    ("residual-3", 90): 192, ("residual-3", 80): 320, ("residual-3", 70): 512, ("residual-3", 60): 640,
    ("residual-4", 90): 256, ("residual-4", 80): 448, ("residual-4", 70): 640, ("residual-4", 60): 832,
    ("residual-4", 50): 1280, ("residual-5", 90): 256,
}  # fmt: skip
"""The fewest operations repeated, by graph and by the budget in percent of the peak without recomputation."""


def graph(name: str) -> Model:
    """The graph that a name of `OPTIMA` stands for."""
    kind, *numbers = name.split("-")
    if kind == "chain":
        return varied_chain(int(numbers[0]), int(numbers[1]))
    return {"hourglass": hourglass, "residual": residual}[kind](int(numbers[0]))
