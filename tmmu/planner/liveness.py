"""Compute the lifetime of each tensor in one pass over the steps (001 AnalyzeLiveness_v1).

A tensor is born at the step that writes it and dies at the last step that reads it, both included. Tensors that the
caller accesses, or that a loop may access again in its next iteration, live longer; each such extension is one
paragraph below. spec: T1.1, T1.2, T1.3, T1.4, T1.5, T1.6, T1.7, T1.8, T1.9, T8.3, T8.4, T8.5, M1.1
"""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence
from dataclasses import dataclass

from tmmu.core.columns import pack_integers
from tmmu.core.vocabulary import MAIN, Role
from tmmu.ir.arrivals import list_late_inputs
from tmmu.ir.program import ModelProgram
from tmmu.ir.validate import CALLERS

NO_STEP = -1


@dataclass(frozen=True)
class Liveness:
    """The birth and death of each tensor of a program, and the step that writes it (NO_STEP: the caller)."""

    birth: MutableSequence[int]
    death: MutableSequence[int]
    writer: MutableSequence[int]


def analyze(program: ModelProgram, mode: str) -> Liveness:
    """Compute the lifetimes of all tensors. `mode` is "inference", "forward" or "backward". O(steps + accesses).

    Memory is three integers a tensor. In a program without steps every tensor has the lifetime [0, 0].
    """
    tensors, steps, late = program.tensors, program.steps, list_late_inputs(program.model)
    last = max(0, len(steps) - 1)
    writer, death = pack_integers([NO_STEP], "i") * len(tensors), pack_integers([NO_STEP], "i") * len(tensors)
    for s, (reads, writes) in enumerate(zip(steps.reads, steps.writes, strict=True)):
        for t in writes:
            if writer[t] == NO_STEP and (t in late or tensors[t].role not in CALLERS):
                writer[t] = s
            death[t] = s
        for t in reads:
            death[t] = s
    # A tensor is born when written; the caller's are there before step 0, unless they arrive late.
    birth = pack_integers((0 if w == NO_STEP else w for w in writer), "i")
    _extend_over_loops(program, writer, birth, death)
    # The caller reads these after the last step.
    for t in (*program.model.outputs, *program.model.kept_inputs):
        death[t] = last
    persistent, retains = (Role.PARAMETER, Role.OPTIMIZER), mode == "forward"
    for t, tensor in enumerate(tensors):
        if tensor.role in persistent or (retains and tensor.saved_for_backward):
            death[t] = last
        elif death[t] == NO_STEP:
            death[t] = birth[t]
    return Liveness(birth, death, writer)


def _extend_over_loops(program: ModelProgram, writer: array[int], birth: array[int], death: array[int]) -> None:
    """Extend tensors that an iterating node receives, captures or returns to live from its enter to its leave (T8)."""
    model, steps = program.model, program.steps
    for b, body in enumerate(model.bodies):
        if not body.iterates:
            continue
        enter, leave = program.ranges[b]
        for t in (*steps[enter].reads, *steps[enter].writes):
            death[t] = max(death[t], leave)
        for t in model.nodes[body.owner].writes:
            birth[t] = min(birth[t], enter)
    # For each body, the iterating bodies around it (itself included), outermost first.
    around: list[tuple[int, ...]] = []
    for b, body in enumerate(model.bodies):
        outer = () if b == MAIN else around[program.parents[b]]
        around.append((*outer, b) if body.iterates else outer)
    for step in steps if any(around) else ():
        for b in around[step.body]:
            enter, leave = program.ranges[b]
            for t in step.reads:
                if writer[t] < enter:
                    death[t] = max(death[t], leave)
