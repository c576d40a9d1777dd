"""Check that a plan runs each step of the model once, as the model has it, in an order that the model allows.

The order is free if every read comes after its write, overwritten bytes are found in the state that they have in the
model, and the steps of a body stay together between its owner's `enter` and `leave`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from proofs.definition.model.difference import Key, Pairing, difference
from proofs.definition.violations import Violation
from proofs.readers.models.reference import ReferenceProgram, ReferenceStep
from proofs.readers.operators import plain, qualify_name
from tmmu.core.vocabulary import NodePart
from tmmu.plans.sections import Plan


def step_differences(plan: Plan, reference: ReferenceProgram, pairs: Pairing) -> Iterator[Violation]:
    """Yield steps that are missing, extra or repeated, that are not the model's, or that are out of order or place.

    Implements spec: V3.1, T8.10, T8.11 and I1.6. O(steps + accesses).
    """
    for key, step in pairs.steps.items():
        if key not in pairs.positions:
            yield difference("missing-step", step.node, (), None, "no such step", f"{step.part} of {step.op}")
    yield from _contents(plan, pairs)
    # Missing and repeated steps were reported above. From here on only the first occurrence of a step is compared.
    yield from _reads_after_writes(pairs)
    yield from _states_differ(reference, pairs)
    yield from _nesting(reference, pairs)


def _contents(plan: Plan, pairs: Pairing) -> Iterator[Violation]:
    """Check that each step of the plan is one of the model's, with its operator, body and accesses."""
    names, bodies = plan.allocation.tensors.name.list(), plan.allocation.bodies.name.list()
    columns = (
        plan.allocation.steps.op.tolist(),
        plan.allocation.steps.body.tolist(),
        *map(plan.allocation.steps.listed, plan.allocation.steps.LISTS),
    )
    for at, (key, op, body, *accesses) in enumerate(zip(pairs.keys, *columns, strict=True)):
        (node, part), step = key, pairs.steps.get(key)
        domain, operator = plan.allocation.ops[op]
        if step is None:
            yield difference("extra-step", node, (), at, f"{part} of {operator}", "no such step")
            continue
        if pairs.positions[key] != at:
            yield difference("repeated-step", node, (), at, f"steps {pairs.positions[key]} and {at}", "one step")
            continue
        if (plain(domain), operator) != (step.domain, step.op):
            yield difference(
                "operator", node, (), at, qualify_name(domain, operator), qualify_name(step.domain, step.op)
            )
        if bodies[body] != step.body:
            yield difference("body", node, (), at, bodies[body], step.body)
        for which, rows, recomputed in zip(
            plan.allocation.steps.LISTS, accesses, (step.reads, step.writes, step.mutates), strict=True
        ):
            stated = tuple([names[row] for row in rows])
            same = stated == recomputed if which != "mutates" else set(stated) == set(recomputed)
            if not same:
                unlike = _unlike(stated, recomputed)
                yield difference(which, node, unlike, at, ", ".join(stated), ", ".join(recomputed))


def _unlike(stated: tuple[str, ...], recomputed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tensors that only one of two lists has. If only the order or the number differs, return all."""
    unlike = set(stated) ^ set(recomputed)
    return tuple(dict.fromkeys(name for name in stated + recomputed if not unlike or name in unlike))


def _reads_after_writes(pairs: Pairing) -> Iterator[Violation]:
    """Check that no tensor is read or overwritten at a step before the one that makes it."""
    positions = pairs.positions
    written = {name: positions[key] for name, key in pairs.writers.items() if key in positions}
    for key, step in pairs.steps.items():
        at = positions.get(key, len(pairs.keys))
        for name in dict.fromkeys((*step.reads, *step.mutates)):
            if written.get(name, -1) > at:
                stated = f"read at step {at}, written at step {written[name]}"
                yield difference("order", step.node, (name,), at, stated, "written before it is read")


def _states_differ(reference: ReferenceProgram, pairs: Pairing) -> Iterator[Violation]:
    """Check that each access to overwritten bytes finds what the same step left as in the model.

    A tensor and its views are the same bytes: a change through one of them is read through the others. spec: V3.4
    """
    bases = _bases(reference)
    mutated = {bases[name] for step in pairs.steps.values() for name in step.mutates}
    if not mutated:
        return
    as_listed = _states(pairs.steps.items(), bases, mutated)
    order = sorted(pairs.steps.keys() & pairs.positions.keys(), key=pairs.positions.__getitem__)
    as_run = _states([(key, pairs.steps[key]) for key in order], bases, mutated)
    for (key, name), state in as_run.items():
        if state != as_listed[key, name]:
            at, stated = pairs.positions[key], f"{name} as {state} leaves it"
            yield difference("order", key[0], (name,), at, stated, f"{name} as {as_listed[key, name]} leaves it")


def _bases(reference: ReferenceProgram) -> dict[str, str]:
    """Return, for each name, the tensor whose bytes it shows, through views of views.

    If views form a circle, the result is any of them.
    """
    found: dict[str, str] = {}
    for step in reference.steps:
        for name in (*step.reads, *step.writes):
            chain: dict[str, None] = {}
            while name not in found and name not in chain and name in reference.views:
                chain[name] = None
                name = reference.views[name][0]
            base = found.setdefault(name, name)
            found.update(dict.fromkeys(chain, base))
    return found


def _states(
    steps: Iterable[tuple[Key, ReferenceStep]], bases: Mapping[str, str], mutated: set[str]
) -> dict[tuple[Key, str], str]:
    """Return, for each access to bytes that some step overwrites, the node that last wrote them."""
    last: dict[str, str] = {}
    states: dict[tuple[Key, str], str] = {}
    for key, step in steps:
        for name in dict.fromkeys((*step.reads, *step.mutates)):
            if bases[name] in mutated:
                states[key, name] = last.get(bases[name], "the caller")
        for name in step.writes:
            # A step that makes a view writes nothing.
            if bases[name] == name or name in step.mutates:
                last[bases[name]] = step.node
    return states


def _nesting(reference: ReferenceProgram, pairs: Pairing) -> Iterator[Violation]:
    """Check that the steps of a body are together between its owner's enter and leave, one body after the other.

    Only the first violation is yielded, because every later step would be out of place as well.
    """
    rank = {body: index for index, body in enumerate(reference.bodies)}
    main = "the main graph"
    frames = [(main, 0)]
    for at, key in enumerate(pairs.keys):
        step = pairs.steps.get(key)
        if step is None or pairs.positions[key] != at:
            continue
        around, reached = frames[-1]
        owner = reference.bodies[step.body].owner if step.body else main
        if step.part is NodePart.LEAVE:
            owner = step.node
        if owner != around:
            yield difference("nesting", step.node, (), at, f"inside {around}", f"inside {owner}")
            return
        if step.part is NodePart.LEAVE:
            frames.pop()
            continue
        if step.body:
            if rank[step.body] < reached:
                yield difference("nesting", step.node, (), at, f"{step.body} resumed", "bodies do not interleave")
                return
            frames[-1] = (around, rank[step.body])
        if step.part is NodePart.ENTER:
            frames.append((step.node, 0))
