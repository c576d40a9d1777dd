"""Make what the kernel is asked about a plan with streams: the plan without them, and its streams and waits beside it.

The kernel's decoder reads plans without streams. So the file that it decodes is written from the plan, without streams
and without claims of slots, which it judges only for steps that run one after another. Which stream each step is on is
stated beside the file, and trusted as the gate read it. spec: X5.12, V6.25, V6.27, V6.28
"""

from __future__ import annotations

from dataclasses import replace

from proofs.proving.kernel.program import PlanFile
from proofs.proving.kernel.streams import StepStreams
from proofs.proving.obligations.context import Context, context_of
from tmmu.plans.columns import Steps
from tmmu.plans.sections import Claims, Plan, Usage


def state_streams(context: Context) -> tuple[Context, PlanFile, StepStreams]:
    """Return the plan without streams as obligations read it, its file, and its streams. O(plan x depth of bodies)."""
    allocation, claims = context.plan.allocation, context.claims
    steps = Steps(*(getattr(allocation.steps, name) for name in ("node", "op", "part", "body", *Steps.BOUNDED)))
    stated = None if claims is None else Claims(tuple(Usage(used.footprint) for used in claims.usage))
    plan = Plan(replace(allocation, steps=steps, streams=()), stated)
    donated = frozenset(name for name, given in zip(allocation.tensors.name, context.donated, strict=True) if given)
    waits: list[tuple[int, ...]] = [()] * len(steps)
    for step, follows in zip(context.clocks.steps, context.clocks.follows, strict=True):
        waits[step] = follows
    streams = StepStreams(allocation.steps.stream.astype("int64"), waits)
    return context_of(plan, context.permissions, donated), PlanFile.of(plan), streams
