"""Ask the installed kernel about a plan, and put its answer into the fields of the JSON output.

spec: V6.1, V6.2, V6.7, V6.11, V6.27, RE2.6
"""

from __future__ import annotations

from typing import Any

from proofs.proving.kernel import installed, program
from proofs.proving.kernel.arms import NotExpressed
from proofs.proving.kernel.evidence import storage_memory
from proofs.proving.kernel.program import KernelAnswer, PlanFile
from proofs.proving.kernel.stated_streams import state_streams
from proofs.proving.kernel.streams import StepStreams
from proofs.proving.obligations.context import Context, StorageContext
from proofs.readers.arrivals import find_late_inputs

NOT_INSTALLED = "not installed"
NOT_ASKED = "not asked"
"""The kernel would reject a plan that may be right, because its theorem does not cover it. `reason` names the place."""
WITH_STREAMS = "the theorem about steps on streams has no loops and no exclusive branches"
"""The reason why the kernel is not asked about such a plan. spec: X5.12"""
PER_ARENA = ("fewest_slots", "least_footprint")


def kernel_answer(
    context: Context | StorageContext, of: PlanFile, timeout_s: float, streams: StepStreams | None = None
) -> dict[str, Any]:
    """Return the kernel's answer about a plan that passed the gate, for the steps or the lifetimes that it states.

    With `streams`, the steps of the plan run on these, and without them on those that the plan states. A plan that then
    has loops or exclusive branches may be right, and the kernel is not asked. Raises as `stream_columns` does.

    `answer` is accepted, rejected, no_answer, `NOT_ASKED` or `NOT_INSTALLED`. `reason` is given for rejected, no_answer
    and not asked, and if a program is there and refused. `sources` is the digest of the theory. `fewest_slots` and
    `least_footprint` name the arenas for which the kernel has shown that no fewer slots, and no fewer bytes, suffice.
    `inputs_kept` is whether it has shown that the plan keeps all inputs that are not donated, and `symbolic` that the
    offsets of a symbolic plan follow from its slots. A plan with a claim that the kernel cannot show is rejected.
    spec: V6.21
    """
    found: dict[str, Any] = {"answer": NOT_INSTALLED, "sources": installed.digest()}
    path, placement, claims = installed.find_program(), context.placement, context.claims
    if path is None:
        refused = installed.refusal()
        return found if refused is None else {**found, "reason": f"{NOT_INSTALLED}: {refused}"}
    if streams is None and isinstance(context, Context) and context.plan.allocation.streams:
        context, of, streams = state_streams(context)
        claims = context.claims
    try:
        if isinstance(context, Context) and streams is not None:
            if context.loops or context.branches:
                raise NotExpressed(WITH_STREAMS)
            answer = program.ask_streams(path, context, streams, of, timeout_s)
        elif isinstance(context, Context):
            answer = program.ask(path, context, of, timeout_s)
        else:
            answer = program.ask_lifetimes(path, storage_memory(context), of, timeout_s)
    except NotExpressed as error:
        return {**found, "answer": NOT_ASKED, "reason": str(error)}
    usages = [None] * len(placement.arenas) if claims is None else claims.usage
    names = [arena.name if usage and usage.slots else "" for arena, usage in zip(placement.arenas, usages, strict=True)]
    if answer.accepted and len(answer.fewest_slots) != len(names):
        answer = KernelAnswer(failure="its claims are about other arenas")
    reason = answer.part or answer.failure
    if answer.accepted:
        # Its sentence is about inputs that the caller writes before step 0.
        late = isinstance(context, Context) and find_late_inputs(context.plan.allocation).any()
        found["inputs_kept"] = answer.inputs is True and not late
        if answer.symbolic:
            found["symbolic"] = True
        for what in PER_ARENA:
            found[what] = [name for name, holds in zip(names, getattr(answer, what), strict=True) if name and holds]
        reason = _false_claim(answer, names)
    found["answer"] = "no_answer" if answer.failure else "rejected" if reason else "accepted"
    return {**found, **({"reason": reason} if reason else {})}


def _false_claim(answer: KernelAnswer, names: list[str]) -> str:
    """Return the first claim about a nonempty arena that the kernel cannot show, or ""."""
    for what in ("slots", "footprints", "symbolic"):
        if getattr(answer, what) is False:
            return what
    for what in PER_ARENA:
        for name, holds in zip(names, getattr(answer, what), strict=True):
            if name and holds is False:
                return f"{what} of {name}"
    return ""
