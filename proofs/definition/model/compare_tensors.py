"""Check that a plan has exactly the model's tensors, each with the model's size, type, role and use."""

from __future__ import annotations

from collections.abc import Iterator

from proofs.definition.model.difference import Key, Pairing, difference
from proofs.definition.violations import Violation
from proofs.readers.envelope import find_shape_apart
from proofs.readers.models.reference import ReferenceProgram
from tmmu.core.columns import NONE
from tmmu.core.dims.expressions import Dim, evaluate
from tmmu.core.vocabulary import Role
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_SAVED, ROLES
from tmmu.plans.sections import Plan

_PERSISTENT = frozenset({Role.PARAMETER, Role.OPTIMIZER})


_FACTS = ("type", "role", "input", "output", "saved", "writer")
"""The facts, in addition to its size, that plan and model must agree on for each tensor."""


def tensor_differences(plan: Plan, reference: ReferenceProgram, pairs: Pairing) -> Iterator[Violation]:
    """Yield tensors that are missing or extra, or that differ from the model's.

    Size, element type, role, use, alignment and fixed offset are compared. An alignment may be stricter than the
    model's, by a whole factor. O(tensors). spec: V3.2, A10.6
    """
    t, keys, writers = plan.allocation.tensors, pairs.keys, pairs.writers
    stated_names = set(t.name)
    for name, (size, _) in reference.sizes.items():
        if name not in stated_names:
            node = writers[name][0] if name in writers else ""
            yield difference("missing-tensor", node, (name,), None, "no such tensor", f"{size} bytes")
    inputs, outputs = set(reference.inputs), set(reference.outputs)
    dtypes = plan.allocation.dtypes
    begins = plan.allocation.addresses() if reference.fixed else t.bytes
    columns = (begins.tolist(), plan.sizes(), t.dtype.tolist(), t.role.tolist(), t.flags.tolist(), t.writer.tolist())
    rows = zip(t.name, t.alignment.tolist(), *columns, strict=True)
    for name, alignment, offset, size, dtype, role, flags, writer in rows:
        at, key = (None, None) if writer == NONE else (writer, keys[writer])
        node = key[0] if key is not None else ""
        if name not in reference.sizes:
            yield difference("extra-tensor", node, (name,), at, f"{size} bytes", "no such tensor")
            continue
        (model_size, model_type), model_role, is_input = reference.sizes[name], reference.roles[name], name in inputs
        if size != model_size:
            yield difference("bytes", node, (name,), at, *_sizes(size, model_size, plan, reference))
        # The roles parameter and optimizer state already imply that the caller writes the tensor, whatever the flag.
        stated_input = is_input if model_role in _PERSISTENT else flags & IS_INPUT != 0
        stated = (dtypes[dtype], ROLES[role], stated_input, flags & IS_OUTPUT != 0, flags & IS_SAVED != 0, key)
        recomputed = (model_type, model_role, is_input, name in outputs, name in reference.saved, writers.get(name))
        if stated != recomputed:
            for fact, ours, theirs in zip(_FACTS, stated, recomputed, strict=True):
                if ours != theirs:
                    yield difference(fact, node, (name,), at, _text(ours), _text(theirs))
        least = reference.alignments[name]
        if alignment < least or alignment % least:
            yield difference("alignment", node, (name,), at, str(alignment), f"a multiple of {least}")
        if reference.fixed.get(name, offset) != offset:
            yield difference("offset", node, (name,), at, str(offset), str(reference.fixed[name]))


def _sizes(stated: Dim, recomputed: Dim, plan: Plan, reference: ReferenceProgram) -> tuple[str, str]:
    """Return two sizes for messages; over an envelope, also their values at a shape that makes them differ."""
    texts = str(stated), str(recomputed)
    if isinstance(stated, int) and isinstance(recomputed, int):
        return texts
    if plan.ranges != reference.bindings.ranges:  # no shape is in both envelopes
        return f"{texts[0]} of the plan's dimensions", f"{texts[1]} of the model's"
    shape = find_shape_apart(stated, recomputed, plan.ranges)
    if shape is None:
        return texts
    where = ", ".join(f"{name}={size}" for name, size in shape.items())
    found = evaluate(stated, shape), evaluate(recomputed, shape)
    return f"{texts[0]} ({found[0]} at {where})", f"{texts[1]} ({found[1]} at {where})"


Fact = int | str | Key | None


def _text(fact: Fact) -> str:
    """Return a fact for messages: a writer as its node and part, or the caller."""
    if fact is None:
        return "the caller"
    return f"{fact[0]} ({fact[1]})" if isinstance(fact, tuple) else str(fact)
