"""The options of `tmmu run` about what computes. spec: SIM6.1, SIM6.3"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from tmmu.cli import options
from tmmu.core.extras import needed
from tmmu.core.flags import existing

if TYPE_CHECKING:
    from tmmu.simulator.onnx_node import NodeKernel

BATCHES = {"onnx": 1, "onnxruntime": 1, "hash": 4}
"""How often a plan is run without --batches: four seeds reach every branch and number of rounds."""


@dataclass(frozen=True)
class RunOptions:
    """What computes, from which seed and arrays, how often, and whether stale reads are looked for."""

    kernels: str | None
    sanitize: bool
    seed: int
    batches: int | None
    inputs: str | None

    @property
    def count(self) -> int:
        """How many batches are run."""
        return self.batches or BATCHES[self.kernels or "hash"]

    def node_kernel(self) -> Callable[..., NodeKernel]:
        """What computes a node of an ONNX model; INVALID_IR where it is not installed."""
        from tmmu.simulator.onnx_node import NodeKernel

        if self.kernels == "onnx":
            return NodeKernel
        with needed("onnxruntime", "--kernels onnxruntime", extra="judges"):
            from tmmu.simulator.onnxruntime_node import SessionKernel
        return partial(SessionKernel, sessions={})


compute_options = options.gathered(
    "computing",
    RunOptions,
    click.option(
        "--kernels",
        type=click.Choice(list(BATCHES)),
        help="What computes: onnx's reference evaluator, onnxruntime, or stand-ins for any plan [onnx with a model, "
        "else hash].",
    ),
    click.option("--sanitize", is_flag=True, help="Report reads of bytes that another tensor has written since."),
    click.option(
        "--seed",
        type=options.uint64,
        default=0,
        help="The seed of all inputs and weights that no file gives.",
        show_default=True,
    ),
    click.option(
        "--batches",
        type=click.IntRange(1, 1 << 20),
        help="How often to run, in the same arenas, with seeds from --seed on [1; with hash 4, which reach every "
        "branch]. A batch of hash takes half a minute for a GPT-2; 1 is enough without branches.",
    ),
    click.option("--inputs", type=existing, help="Arrays for the model's inputs (.npz)."),
)
