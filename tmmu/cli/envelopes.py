"""What `tmmu plan` and `tmmu show` print of an envelope: its ranges, its policy, what is largest where. spec: R6.11"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tmmu.core.bindings import convert_units, format_ranges
from tmmu.core.dims.expressions import format_dim
from tmmu.core.output import count_noun
from tmmu.plans.metrics import needed_bytes
from tmmu.plans.sections import Plan
from tmmu.plans.shapes import at_shape

SHOWN = 3
"""How many tensors are named for each shape where some are largest."""


def ranges(plan: Plan) -> str:
    """The open dimensions with their ranges, for people."""
    return ", ".join(f"{name}={ends}" for name, ends in sorted(format_ranges(plan.bindings).items()))


def describe_envelope(plan: Plan) -> Iterator[str]:
    """Yield the envelope and, for each shape where tensors are largest, their number and the largest of them."""
    if plan.envelope is None:
        return
    yield f"  envelope: {ranges(plan)}; a shape outside: {plan.envelope.policy}"
    if plan.envelope.symbolic:
        least, most = (sum(needed_bytes(at_shape(plan, shape))) for shape in _ends(plan))
        yield f"  symbolic: offsets follow from the shape; {least} bytes at the least sizes, {most} at the largest"
    for group in find_largest(plan):
        at = ", ".join(f"{name}={size}" for name, size in group["shape"].items())
        named = ", ".join(f"{x['name']} ({x['bytes']} bytes, {x['size']})" for x in group["largest"])
        yield f"  largest at {at}: {count_noun(group['tensors'], 'tensor')}; {named}"


def _ends(plan: Plan) -> tuple[dict[str, int], dict[str, int]]:
    """Return the shapes of the least and of the largest sizes."""
    least = {name: low for name, (low, _) in plan.ranges.items()}
    return least, {name: high for name, (_, high) in plan.ranges.items()}


def find_largest(plan: Plan) -> list[dict[str, Any]]:
    """Return, for each shape where tensors of open size are largest, their number and the largest."""
    if plan.envelope is None:
        return []
    names = list(plan.ranges)
    planned, sizes_, at = plan.allocation.tensors.bytes.tolist(), plan.sizes(), plan.envelope.largest_at.tolist()
    groups: dict[int, list[int]] = {}
    for t, size in enumerate(sizes_):
        if not isinstance(size, int):
            groups.setdefault(at[t], []).append(t)
    found = []
    for rows in sorted(groups.values(), key=lambda rows: (-len(rows), rows)):
        first = sorted(rows, key=lambda t: (-planned[t], t))[:SHOWN]
        tensors = [
            {"name": plan.allocation.tensors.name[t], "bytes": planned[t], "size": format_dim(sizes_[t])} for t in first
        ]
        shape = convert_units(plan.bindings, dict(zip(names, plan.envelope.point(rows[0]), strict=True)))
        found.append({"shape": shape, "tensors": len(rows), "largest": tensors})
    return found


def encode_envelope(plan: Plan) -> dict[str, Any]:
    """Return the same for JSON, with the replan key."""
    from tmmu.plans.replan import replan_key

    if plan.envelope is None:
        return {"envelope": None, "replan_key": replan_key(plan).hex()}
    held = {name: list(ends) for name, ends in plan.ranges.items()}
    known = {
        "ranges": held, "policy": plan.envelope.policy, "symbolic": plan.envelope.symbolic,
        "largest": find_largest(plan),
    }  # fmt: skip
    return {"envelope": known, "replan_key": replan_key(plan).hex()}
