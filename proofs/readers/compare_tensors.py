"""Whether a plan has the model's tensors, no more and no fewer, each of the model's size, role and use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from proofs.readers.difference import Difference, Key, plan_keys, writers_of
from proofs.readers.expected import Expected
from tmmu.ir.dtypes import BITS
from tmmu.plan.columns import IS_INPUT, IS_OUTPUT, IS_SAVED, NONE, ROLES, Plan
from tmmu.vocabulary import Role

_PERSISTENT = frozenset({Role.PARAMETER, Role.OPTIMIZER})


class _Facts(NamedTuple):
    """What plan and model must agree on of one tensor; `writer` is None for what the caller writes before step 0."""

    bytes: int
    element_bits: int
    role: Role
    input: bool
    output: bool
    saved: bool
    writer: Key | None


def tensor_differences(plan: Plan, expected: Expected) -> Iterator[Difference]:
    """Tensors missing, extra, or not of the model's size, role, use or alignment.

    An alignment may be stricter than the model's, by a whole factor. O(tensors + accesses). spec: V3.2
    """
    t, keys, writers = plan.tensors, list(plan_keys(plan)), writers_of(expected.steps)
    known = set(t.name)
    for name, (size, _) in expected.sizes.items():
        if name not in known:
            node = writers[name].node if name in writers else ""
            yield Difference("missing-tensor", node, (name,), None, "no such tensor", f"{size} bytes")
    inputs, outputs = set(expected.inputs), set(expected.outputs)
    bits = [BITS[dtype] for dtype in plan.dtypes]
    columns = (t.bytes.tolist(), t.dtype.tolist(), t.role.tolist(), t.flags.tolist(), t.writer.tolist())
    for name, alignment, size, dtype, role, flags, writer in zip(t.name, t.alignment.tolist(), *columns, strict=True):
        at, key = (None, None) if writer == NONE else (writer, keys[writer])
        node = key.node if key is not None else ""
        if name not in expected.sizes:
            yield Difference("extra-tensor", node, (name,), at, f"{size} bytes", "no such tensor")
            continue
        model_role = expected.roles[name]
        # Of parameters and optimizer state the role already says that the caller writes them, whatever the flag.
        is_input = name in inputs if model_role in _PERSISTENT else bool(flags & IS_INPUT)
        output, saved = bool(flags & IS_OUTPUT), bool(flags & IS_SAVED)
        stated = _Facts(size, bits[dtype], ROLES[role], is_input, output, saved, key)
        recomputed = _Facts(
            *expected.sizes[name],
            model_role,
            name in inputs,
            name in outputs,
            name in expected.saved,
            writers.get(name),
        )
        if stated != recomputed:
            for fact, said, says in zip(_Facts._fields, stated, recomputed, strict=True):
                if said != says:
                    texts = ("the caller" if value is None else str(value) for value in (said, says))
                    yield Difference(fact.replace("_", "-"), node, (name,), at, *texts)
        least = expected.alignments[name]
        if alignment < least or alignment % least:
            yield Difference("alignment", node, (name,), at, str(alignment), f"a multiple of {least}")
