"""Find where a plan differs from the model: its steps and their order, its tensors, its bodies, and its records.

The order of the steps is free within what the model allows (`compare_steps`); everything else must agree exactly.
Differences are yielded one by one, coarse ones first, so that a caller who needs one witness can stop early.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from proofs.definition.model.compare_steps import step_differences
from proofs.definition.model.compare_streams import stream_differences
from proofs.definition.model.compare_tensors import tensor_differences
from proofs.definition.model.difference import Pairing, difference, pair_steps
from proofs.definition.violations import Violation
from proofs.readers.arrivals import list_late_inputs
from proofs.readers.models.reference import ReferenceProgram
from proofs.readers.models.training import delay_seeds
from tmmu.core.bindings import describe_runtime
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import MAIN, NodePart, Role, Shares
from tmmu.plans.columns import IS_RETURNED, SHARES
from tmmu.plans.sections import Plan


def differences(
    plan: Plan, reference: ReferenceProgram, donated: frozenset[str], mode: str = "inference"
) -> Iterator[Violation]:
    """Yield every difference between a plan and the model (spec: V3.1 to V3.3).

    Parameters
    ----------
    plan
        A plan that passed the gate: indices in range, names unique.
    reference
        The part of the model that must be run.
    donated
        The names that the user donated. They, and those that the plan states as donated, must be the caller's.
    mode
        `inference`, `forward` or `backward`.

    Yields
    ------
    Violation
        None at all means that the plan runs this model and no other.

    Notes
    -----
    O(steps + accesses + tensors), a few dictionary look-ups each.
    """
    if mode == "backward":
        reference = delay_seeds(reference, list_late_inputs(plan.allocation))
    pairs = pair_steps(plan, reference)
    yield from _bindings(plan, reference)
    yield from _sizes(reference, pairs)
    yield from step_differences(plan, reference, pairs)
    yield from stream_differences(plan, reference, pairs)
    yield from tensor_differences(plan, reference, pairs)
    yield from _sharing(plan, reference, pairs)
    yield from _bodies(plan, reference, pairs)
    yield from _records(plan, reference)
    yield from _donations(plan, reference, donated, pairs)
    yield from _returned(plan, reference, mode, pairs)


def _sharing(plan: Plan, reference: ReferenceProgram, pairs: Pairing) -> Iterator[Violation]:
    """Check that a view of the plan is one in the model, of the same base, and an alias in the group of the other.

    The converse is not a difference: a plan may give a tensor its own bytes, if its step writes them.
    """
    t, groups = plan.allocation.tensors, reference.alias_groups
    for row in np.flatnonzero(np.isin(t.shares, (SHARES.index(Shares.VIEW), SHARES.index(Shares.ALIAS)))).tolist():
        shares, writer = SHARES[int(t.shares[row])], int(t.writer[row])
        name, of = t.name[row], t.name[int(t.of[row])]
        if shares is Shares.VIEW:
            recomputed = f"a view of {reference.views[name][0]}" if name in reference.views else "no view"
        else:
            recomputed = (
                f"an alias of {of}" if name in groups and groups[name] == groups.get(of) else f"no alias of {of}"
            )
        if (stated := f"{'a view' if shares is Shares.VIEW else 'an alias'} of {of}") != recomputed:
            at, node = (None, "") if writer == NONE else (writer, pairs.keys[writer][0])
            yield difference(str(shares), node, (name,), at, stated, recomputed)


def _bodies(plan: Plan, reference: ReferenceProgram, pairs: Pairing) -> Iterator[Violation]:
    """Check that each body of the model occurs once, in its place. Row 0, the main graph, belongs to the plan."""
    b = plan.allocation.bodies
    names = b.name.list()
    rows = {name: row for row, name in reversed(list(enumerate(names))) if row != MAIN}
    for name, body in reference.bodies.items():
        if name not in rows:
            yield difference("missing-body", body.owner, (), None, "no such body", name)
    for row, name in enumerate(names):
        if row == MAIN:
            continue
        model = reference.bodies.get(name)
        if model is None or rows[name] != row:
            yield difference("extra-body", "", (), None, f"{name}, row {row}", "no such body")
            continue
        parent, stated = int(b.parent[row]), (int(b.enter[row]), int(b.leave[row]))
        held_by = names[parent] if parent != NONE else "nothing"
        if held_by != model.parent:
            yield difference("body-parent", model.owner, (), None, held_by, model.parent)
        recomputed = tuple(pairs.positions.get((model.owner, part), NONE) for part in (NodePart.ENTER, NodePart.LEAVE))
        if stated != recomputed:
            yield difference("body-steps", model.owner, (), stated[0], f"{name} at {stated}", f"{name} at {recomputed}")
        if bool(b.iterates[row]) != model.iterates:
            yield difference("body-iterates", model.owner, (), None, str(bool(b.iterates[row])), str(model.iterates))


def _records(plan: Plan, reference: ReferenceProgram) -> Iterator[Violation]:
    """Compare the plan's records of its model that are not steps or tensors."""
    stated, recomputed = set(plan.allocation.unproduced), reference.unproduced
    for name in sorted(stated ^ recomputed):
        yield difference("unproduced", "", (name,), None, *_presence(name in stated, "unproduced"))
    names = plan.allocation.tensors.name
    pairs = {frozenset((names[one], names[other])) for one, other in plan.allocation.must_not_alias}
    for pair in sorted(pairs ^ reference.must_not_alias, key=sorted):
        yield difference("must-not-alias", "", tuple(sorted(pair)), None, *_presence(pair in pairs, "must not alias"))
    if plan.provenance is None:
        return
    digests = plan.provenance.source_digest, reference.source_digest
    if digests[0] != digests[1]:
        yield difference("source-digest", "", (), None, *("" if digest is None else digest.hex() for digest in digests))


def _bindings(plan: Plan, reference: ReferenceProgram) -> Iterator[Violation]:
    """Check that the plan is bound as the model is. These differences come first, because sizes depend on bindings.

    Whether the file's shapes are trusted is not compared. The user decides that, and the sizes must agree anyway.
    """
    if plan.provenance is None:  # the bindings are the user's
        return
    for kind in ("dims", "ranges", "steps", "shapes", "values", "defaults"):
        ours, theirs = _texts(getattr(plan.bindings, kind)), _texts(getattr(reference.bindings, kind))
        for name in sorted(ours.keys() | theirs.keys()):
            if ours.get(name) != theirs.get(name):
                stated, recomputed = (f"{name}={texts.get(name, 'nothing')}" for texts in (ours, theirs))
                yield difference("binding", "", (), None, stated, recomputed)
    runtimes = plan.bindings.runtime, reference.bindings.runtime
    if runtimes[0] != runtimes[1]:
        yield difference(
            "runtime", "", (), None, *("none" if one is None else describe_runtime(one) for one in runtimes)
        )


def _sizes(reference: ReferenceProgram, pairs: Pairing) -> Iterator[Violation]:
    """Check that shape inference, which plans rest on, gives every size that the verifier computes itself.

    spec: V3.8
    """
    for found in reference.size_differences:
        at = pairs.positions.get(pairs.writers[found.tensor]) if found.tensor in pairs.writers else None
        tensors = (found.tensor,) if found.tensor else ()
        yield difference(found.what, found.node, tensors, at, found.inferred, found.found)


def _donations(plan: Plan, reference: ReferenceProgram, donated: frozenset[str], pairs: Pairing) -> Iterator[Violation]:
    """Check that donated tensors are the caller's, whether the user or the plan declares them."""
    stated, late = () if plan.provenance is None else plan.provenance.bindings.donated, reference.late
    for name in sorted({*donated, *stated}):
        if name not in reference.roles or (name in pairs.writers and name not in late):
            yield difference("donated", "", (name,), None, "donated by the caller", "not the caller's to donate")


def _returned(plan: Plan, reference: ReferenceProgram, mode: str, pairs: Pairing) -> Iterator[Violation]:
    """Check that the caller reads the model's outputs and, in mode `forward`, what is saved. spec: P2.3, Z1.2

    Parameters and optimizer state are left out: those that the user has not donated are read, whatever the plan states.
    A plan may keep inputs, about which a model states nothing.
    """
    read = {*reference.outputs, *(reference.saved if mode == "forward" else ())}
    kept, late = (Role.PARAMETER, Role.OPTIMIZER), reference.late
    flags = (plan.allocation.tensors.flags & IS_RETURNED != 0).tolist()
    for name, stated in zip(plan.allocation.tensors.name, flags, strict=True):
        role = reference.roles.get(name)
        if role is Role.INPUT and stated and (name not in pairs.writers or name in late):
            continue
        if role is not None and role not in kept and stated != (name in read):
            yield difference("returned", "", (name,), None, *_presence(stated, "read by the caller at the end"))


def _presence(stated: bool, what: str) -> tuple[str, str]:
    return (what, "nothing of the kind") if stated else ("nothing of the kind", what)


def _texts(bindings: Mapping[str, object]) -> dict[str, str]:
    return {name: str(tuple(value) if isinstance(value, list) else value) for name, value in bindings.items()}
