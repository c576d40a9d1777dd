"""How far `--order memory` lowers the peak of live bytes, and what it costs: `python -m tests.benchmarks.orders`.

Peaks are those of the arena `activations`, as the plans state them. The networks of the onnx wheel begin with the
nodes that make their weights: the given order keeps all of them alive from the first step on.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tmmu import examples
from tmmu.core.vocabulary import Bindings, Body, Model, Node, Role, Tensor
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.orders import REORDER
from tmmu.tasks.models import load

EXAMPLES: tuple[tuple[str, dict[str, int]], ...] = (
    ("gpt2", {"batch": 1, "seq": 1024}), ("resnet50", {"batch": 2}), ("unet", {"batch": 1}),
    ("llama-block", {"batch": 1, "seq": 4096}), ("mico-mlp", {}), ("mico-lenet", {}), ("mico-vgg", {}),
    ("mico-resnet8", {}),
)  # fmt: skip
LIGHT = ("densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet")
RANDOM = (100, 1_000, 10_000)


def orders() -> None:
    """A row for each model: the peak in both orders, the footprint of `memory`, and the seconds of ordering alone."""
    print("\n--order memory: bytes of the arena activations, layout packed")
    print(f"{'model':20} {'nodes':>6} {'peak, given':>13} {'memory':>13} {'ratio':>7} {'footprint':>13} {'seconds':>8}")
    for name, model in cases():
        start = time.perf_counter()
        REORDER["memory"](model, DEFAULT, "inference", True)
        seconds = time.perf_counter() - start
        given, lower = (
            plan_memory(model, options=PlanOptions(layout="packed", order=order)).plan for order in ("given", "memory")
        )
        before, after = (plan.usage[2].peak_live_bytes for plan in (given, lower))
        print(
            f"{name:20} {len(model.nodes):>6} {before:>13} {after:>13} {after / before:>7.4f} "
            f"{lower.usage[2].footprint:>13} {seconds:>8.2f}",
            flush=True,
        )


def cases() -> Iterator[tuple[str, Model]]:
    """The example models, the networks of the onnx wheel, and random graphs without structure."""
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        for name, dims in EXAMPLES:
            path = os.path.join(folder, f"{name}.onnx")
            examples.write(name, path)
            yield name, load(path, Bindings(dims))
    light = Path(onnx.__file__).parent / "backend/test/data/light"
    for name in LIGHT:
        yield f"light {name}", load(str(light / f"light_{name}.onnx"))
    for count in RANDOM:
        yield f"random {count}", random_graph(count)


def random_graph(count: int, reach: int = 50) -> Model:
    """`count` nodes that each read up to three of the `reach` results before them. Deterministic."""
    rng = random.Random(20260217)
    tensors = [Tensor("x", (64,), "uint8", Role.INPUT, 64)]
    nodes = []
    for n in range(count):
        reads = tuple(sorted({max(0, n - rng.randrange(reach)) for _ in range(rng.randrange(1, 4))}))
        size = rng.choice((64, 1024, 4096, 65536))
        tensors.append(Tensor(f"t{n}", (size,), "uint8", Role.ACTIVATION, size))
        nodes.append(Node(f"n{n}", "Concat", reads, (n + 1,)))
    return Model("random", tuple(tensors), tuple(nodes), (Body(-1, "", (0,), (count,)),))


if __name__ == "__main__":
    orders()
