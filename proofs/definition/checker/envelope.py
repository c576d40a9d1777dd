"""Check sizes over an envelope naively: find shapes that make a tensor larger than planned, or its sharing false.

A plan for an envelope plans each tensor once, at its largest size. That is sound if no shape in the envelope gives a
larger size, and if every tensor that takes another tensor's bytes has the other's size at every shape. A witness found
here is a shape with the sizes at it, computed only from the rows of the plan. The solver shows that none exists
(`obligations.sizes_over_envelope`). The offsets of a symbolic plan follow from the sizes at each shape if they do from
the planned ones. spec: R6.5, R6.6, R6.15
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from proofs.definition.violations import Obligation, Violation
from proofs.readers.envelope import find_difference, shape_at
from proofs.readers.operators import is_view
from tmmu.core.columns import NONE
from tmmu.core.dims.expressions import format_dim
from tmmu.core.dims.maxima import maximum, minimum
from tmmu.core.dims.table import Row, evaluate_rows
from tmmu.core.vocabulary import Shares
from tmmu.plans.columns import SHARES
from tmmu.plans.sections import Plan


def violations(plan: Plan) -> Iterator[Violation]:
    """Yield every tensor that is not as large as planned, lazily.

    Then yield tensors that share bytes at some shapes only, and of a symbolic plan storages whose offset does not
    follow from the slots.

    O(terms + tensors), and a search for each distinct size.
    """
    if plan.envelope is None:
        return
    yield from _sizes(plan, plan.envelope.terms.rows())
    yield from _sharing(plan, plan.envelope.terms.rows())
    if plan.envelope.symbolic:
        yield from _prefix_sums(plan)


def _prefix_sums(plan: Plan) -> Iterator[Violation]:
    """Yield each storage whose offset is not the prefix sum of the slots, or a field that contradicts the rule."""
    stated = {
        "layout": (plan.origin.layout, "slots"),
        "fixed": (", ".join(plan.origin.fixed), ""),
    }
    for field, (found, expected) in stated.items():
        if found != expected:
            what = f"offsets follow from sizes in the layout slots, without fixed ones; {field} is {found}"
            yield Violation(
                Obligation.SIZES_OVER_ENVELOPE, what, field=f"provenance.{field}", stated=found, recomputed=expected
            )
            return
    s, t, slots, end = plan.allocation.storages, plan.allocation.tensors, plan.slots, [0] * len(plan.allocation.arenas)
    offsets = []
    for a, size, alignment in zip(slots.arena.tolist(), slots.bytes.tolist(), slots.alignment.tolist(), strict=True):
        alignment = max(1, alignment)  # an alignment of 0 is a false claim on its slot, which is reported there
        offsets.append(-(-end[a] // alignment) * alignment)
        end[a] = offsets[-1] + size
    expected_offsets = np.array(offsets, object)[slots.of]
    for k in np.flatnonzero(s.offset.astype(object) != expected_offsets).tolist():
        name = t.name[int(np.flatnonzero(t.storage == k)[0])] if (t.storage == k).any() else f"storage {k}"
        found, expected = str(int(s.offset[k])), str(expected_offsets[k])
        what = f"{name} begins at byte {found}, and its slot at byte {expected}, behind the slots before it"
        yield Violation(
            Obligation.SIZES_OVER_ENVELOPE, what, (name,), field="storages.offset", stated=found, recomputed=expected
        )


def _sizes(plan: Plan, rows: list[Row]) -> Iterator[Violation]:
    assert plan.envelope is not None  # checked by the caller
    envelope, ranges = plan.envelope, plan.ranges
    columns = envelope.size.tolist(), plan.allocation.tensors.bytes.tolist(), envelope.largest_at.tolist(), plan.sizes()
    seen: set[tuple[int, int, int]] = set()
    for t, (row, planned, at, size) in enumerate(zip(*columns, strict=True)):
        if (row, planned, at) in seen:
            continue
        seen.add((row, planned, at))
        name = plan.allocation.tensors.name[t]
        for point, least in ((maximum(size), False), (minimum(size), True)):
            shape = shape_at(ranges, point.point) if point is not None else {}
            found = evaluate_rows(rows, list(shape.values()))[row] if shape else 0
            if shape and (found < 0 if least else found > planned):
                what = (
                    f"{name} has {found} bytes at {_at(shape)}, and {planned} are planned for it ({format_dim(size)})"
                )
                yield Violation(Obligation.SIZES_OVER_ENVELOPE, what, (name,), shape=shape, sizes=(found, planned))
        shape = dict(zip(ranges, envelope.point(t), strict=True))
        found = evaluate_rows(rows, list(shape.values()))[row]
        if found != planned:
            what = f"{name} is stated to need its {planned} bytes at {_at(shape)}, but has {found} ({format_dim(size)})"
            yield Violation(Obligation.SIZES_OVER_ENVELOPE, what, (name,), shape=shape, sizes=(found, planned))


def _sharing(plan: Plan, rows: list[Row]) -> Iterator[Violation]:
    """Yield what the plan declares in place or a view, but is not at some shape."""
    assert plan.envelope is not None  # checked by the caller
    t, sizes = plan.allocation.tensors, plan.sizes()
    place = plan.envelope.size.tolist()
    for row in np.flatnonzero(t.of != NONE).tolist():
        of, word = int(t.of[row]), SHARES[int(t.shares[row])]
        if word not in (Shares.IN_PLACE, Shares.VIEW) or sizes[row] == sizes[of]:
            continue
        step = int(t.writer[row])
        by_table = step != NONE and is_view(*plan.allocation.ops[int(plan.allocation.steps.op[step])])
        inside = word is Shares.VIEW and not by_table  # a window, which may be smaller than its base
        before = (int(t.window[row]) - int(t.window[of])) if inside else 0
        shape = find_difference(sizes[of] - sizes[row] - before, plan.ranges, inside)
        if shape is None:
            continue
        at = evaluate_rows(rows, list(shape.values()))
        one, other = t.name[row], t.name[of]
        what = "a view of" if word is Shares.VIEW else "in place of"
        found = at[place[row]], at[place[of]]
        text = f"{one} is planned {what} {other}, but at {_at(shape)} they have {found[0]} and {found[1]} bytes"
        yield Violation(Obligation.SIZES_OVER_ENVELOPE, text, (one, other), shape=shape, sizes=found)


def _at(shape: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in shape.items())
