"""The options of `tmmu run` about what computes. spec: SIM6.1, SIM6.3"""

from __future__ import annotations

from dataclasses import dataclass

import click

from tmmu.cli import options
from tmmu.core.flags import existing

BATCHES = {"onnx": 1, "hash": 4}
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


compute_options = options.gathered(
    "computing",
    RunOptions,
    click.option(
        "--kernels",
        type=click.Choice(["onnx", "hash"]),
        help="What computes: onnx's reference evaluator, or stand-ins for any plan [onnx with a model, else hash].",
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
        help="How often to run, in the same arenas, with seeds from --seed on [onnx 1; hash 4, which reach every "
        "branch]. A batch of hash takes half a minute for a GPT-2; 1 is enough without branches.",
    ),
    click.option("--inputs", type=existing, help="Arrays for the model's inputs (.npz)."),
)
