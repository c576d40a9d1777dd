"""Check that the steps of a plan are on the streams of their nodes, in the model's order, and wait for the same nodes.

A model without streams states nothing of them: a plan of it may have streams of its own, which must have no race. Nodes
that a mode leaves out are waited for by none. spec: X5.9
"""

from __future__ import annotations

from collections.abc import Iterator

from proofs.definition.model.difference import Pairing, difference
from proofs.definition.violations import Violation
from proofs.readers.models.reference import ReferenceProgram
from tmmu.core.vocabulary import NodePart
from tmmu.plans.sections import Plan


def stream_differences(plan: Plan, reference: ReferenceProgram, pairs: Pairing) -> Iterator[Violation]:
    """Yield each step on another stream, with other waits, or before a step that it follows on its stream.

    O(steps + waits).
    """
    body = plan.allocation
    if not reference.streams:
        return
    if not body.streams:
        names = dict.fromkeys(order.stream for order in reference.streams.values())
        yield difference("stream", "", (), None, "", f"streams {', '.join(names)}")
        return
    place = {node: k for k, node in enumerate(reference.streams)}
    run = {node for node, _ in pairs.steps}
    reached: dict[str, str] = {}
    after = body.steps.listed("after")
    for at, (node, part) in enumerate(pairs.keys):
        order = reference.streams.get(node)
        if order is None or part is NodePart.LEAVE or pairs.positions[node, part] != at:
            continue
        stream = body.streams[body.steps.stream[at]]
        if stream != order.stream:
            yield difference("stream", node, (), at, stream, order.stream)
        stated, expected = {pairs.keys[other][0] for other in after[at]}, run.intersection(order.after)
        if stated != expected:
            yield difference("waits", node, (), at, ", ".join(sorted(stated)), ", ".join(sorted(expected)))
        before = reached.get(order.stream)
        if before is not None and place[before] > place[node]:
            yield difference("stream-order", node, (), at, f"behind {before}", f"before {before}")
        reached[order.stream] = node
