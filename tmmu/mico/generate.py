"""From a proved plan and its model to a folder of C files, written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tmmu.core.vocabulary import Bindings
from tmmu.plan.sections import Plan


class PlanVerdict(Protocol):
    """What a verifier answers: `verdict` is PROVED or another word, `line` the line that says of what."""

    @property
    def verdict(self) -> str: ...
    @property
    def line(self) -> str: ...


Prove = Callable[[Plan, str], PlanVerdict]
"""Judges a plan against the model at a path. `tmmu.mico` has no verifier: its caller gives it one."""


class NotProved(Exception):
    """The plan is not PROVED: nothing was written."""

    def __init__(self, answer: PlanVerdict) -> None:
        self.answer = answer
        super().__init__(answer.line)


def generate(
    plan: Plan,
    model: str,
    folder: str,
    *,
    prove: Prove | None = None,
    weights: str = "embed",
    static: bool = False,
    name: str = "model",
    bindings: Bindings | None = None,
) -> list[str]:
    """Write the C of `model` under `plan` to `folder`, and return the paths that were written.

    Parameters
    ----------
    plan
        A plan of any layout, of the whole model (no rank's), at one size, for inference.
    model
        The path of the ONNX model, whose weights are read as onnx reads them.
    folder
        A folder that is not there, or is empty.
    prove
        Judges the plan against the model; without it nothing is written.
    weights
        `embed` (C literals up to 1 MiB, else as `file`) or `file` (`weights.bin`, which the assembler takes in).
    static
        Arrays in place of malloc.
    name
        What the header, the source and the program are called.
    bindings
        What the shapes of the model are bound with [the plan's own].

    Raises
    ------
    NotProved
        Where the answer of `prove` is not PROVED.
    TmmuError
        CONTRACT_VIOLATION without `prove`; REPLAY_DIVERGENCE for a plan of another model; INVALID_IR for an operator
        that has no kernel or weights that are not there; MODE_VIOLATION for a plan that is no inference.
    """
    raise NotImplementedError
