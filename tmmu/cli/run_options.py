"""The options of `tmmu run` about what computes. spec: SIM6.1, SIM6.3"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from tmmu.cli import options
from tmmu.core.extras import require_import
from tmmu.core.flags import existing, gather_options

if TYPE_CHECKING:
    from tmmu.plans.sections import Plan
    from tmmu.simulator.onnx_node import NodeKernel

KERNELS = ("onnx", "onnxruntime", "hash")
"""What may compute."""
BATCHES = 4
"""Return seeds that reach every branch and number of rounds with stand-in kernels; one without branches."""


def _models(_context: object, _parameter: object, texts: tuple[str, ...]) -> dict[str, str]:
    """Return the model of each program that is named."""
    found: dict[str, str] = {}
    for text in texts:
        name, is_given, path = text.rpartition("=")
        if not is_given or not os.path.isfile(path) or name in found:
            raise click.BadParameter(f"{text!r} is not PROGRAM=FILE, for each program once", param_hint="--model")
        found[name] = path
    return found


@dataclass(frozen=True)
class RunOptions:
    """The kernels, their seed and arrays, how often they run, and whether stale reads are searched for.

    Of a plan set also its calls, as text, and the model of each program, where models compute.
    """

    kernels: str | None
    sanitize: bool
    seed: int
    batches: int | None
    inputs: str | None
    random_weights: bool = False
    calls: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    schedules: int | None = None
    threads: bool = False
    borrows: bool = False
    """Whether onnxruntime, if installed, computes what onnx has no kernel for. spec: SIM5.12"""

    @property
    def is_overlapping(self) -> bool:
        """Whether steps of several streams overlap, instead of running in the order of the list."""
        return self.schedules is not None or self.threads

    @property
    def count(self) -> int:
        """How many batches are run."""
        return self.batches or 1

    def for_plan(self, plan: Plan) -> RunOptions:
        """The options with the number of batches that `plan` is run for where none is given. spec: SIM6.10"""
        has_bodies = len(plan.allocation.bodies) > 1
        return replace(self, batches=self.batches or (BATCHES if self.kernels == "hash" and has_bodies else 1))

    def node_kernel(self) -> Callable[..., NodeKernel]:
        """Return the kernels for nodes of an ONNX model. Raises MISSING_PACKAGE if they are not installed."""
        from tmmu.simulator.onnx_node import NodeKernel

        if self.kernels == "onnx":
            if self.borrows and find_spec("onnxruntime") is not None:
                from tmmu.simulator.borrowed import BorrowingKernels

                return BorrowingKernels()
            return NodeKernel
        with require_import("onnxruntime", "--kernels onnxruntime", "judges"):
            from tmmu.simulator.onnxruntime_node import SessionKernel
        return partial(SessionKernel, sessions={})


compute_options = gather_options(
    "computing",
    RunOptions,
    click.option(
        "--kernels",
        type=click.Choice(KERNELS),
        help="What computes: onnx's reference evaluator, onnxruntime, or stand-ins for any plan [with a model onnx, "
        "and onnxruntime for nodes that it has no kernel for; else hash].",
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
        help="How often to run, in the same arenas, with seeds from --seed on [1; 4 with hash of a plan with "
        "branches or loops, which reach every branch].",
    ),
    click.option("--inputs", type=existing, help="Arrays for the model's inputs (.npz)."),
    click.option(
        "--random-weights", is_flag=True, help="Draw weights from --seed where the file of their data is missing."
    ),
    click.option(
        "--calls",
        metavar="CALLS",
        help="Of a plan set: the programs to call, in order, as in prefill,decode*3 [each once].",
    ),
    click.option(
        "--model",
        "models",
        multiple=True,
        callback=_models,
        metavar="PROGRAM=FILE",
        help="Of a plan set: the ONNX model of a program, whose kernels then compute.",
    ),
    click.option(
        "--schedules",
        type=click.IntRange(1, 1 << 20),
        metavar="N",
        help="Run N interleavings of the steps of several streams, drawn from the seeds from --seed on.",
    ),
    click.option("--threads", is_flag=True, help="Run each stream in a thread: once, or --schedules times."),
)
