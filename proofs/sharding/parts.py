"""Check that a plan holds the parts of tensors that its rank must hold, by its own mesh and by the model.

spec: R7.6, R7.8, R7.19
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from proofs.definition.model.difference import difference
from proofs.definition.violations import Obligation, Violation, false_field
from proofs.sharding.mesh import Mesh, Part
from proofs.sharding.stages import RankModel
from tmmu.core.columns import NONE
from tmmu.core.dtypes import BITS
from tmmu.plans.sections import Plan


class Dimension(NamedTuple):
    """One dimension of a tensor of the model: its elements, the axis that splits it ("" for none), the rank's part."""

    size: int
    axis: str
    part: Part


def stated_parts(plan: Plan) -> dict[str, tuple[Dimension, ...]]:
    """Return the parts that a plan states for its rank, by the tensor's name. O(dimensions)."""
    if plan.shards is None:
        return {}
    axes, s = Mesh(plan.origin.shard_spec).axes, plan.shards
    columns = (s.size.tolist(), s.axis.tolist(), s.start.tolist(), s.held.tolist(), s.chunk.tolist())
    every = [
        Dimension(size, "" if axis == NONE else axes[axis], Part(start, held, chunk))
        for size, axis, start, held, chunk in zip(*columns, strict=True)
    ]
    at = s.dims_at.tolist()
    return {
        plan.allocation.tensors.name[row]: tuple(every[at[k] : at[k + 1]]) for k, row in enumerate(s.tensor.tolist())
    }  # fmt: skip


def find_false_parts(plan: Plan) -> Iterator[Violation]:
    """Yield each part that is not the rank's chunk of its dimension, or that differs from its tensor in bytes.

    O(dimensions).
    """
    mesh, spec = Mesh(plan.origin.shard_spec), plan.origin.shard_spec
    rows = {name: row for row, name in enumerate(plan.allocation.tensors.name)}
    stated = stated_parts(plan)
    for name, writer in zip(plan.allocation.tensors.name, plan.allocation.tensors.writer.tolist(), strict=True):
        if writer == NONE and name not in stated:  # steps write buffers, so that this is the model's tensor
            yield false_field(Obligation.SHARDS, f"part of {name}", "nothing", "a part of what the caller writes")
    for name, dimensions in stated.items():
        for d, (size, axis, part) in enumerate(dimensions):
            place = f"dimension {d} of {name}"
            right = mesh.part(size, axis, plan.origin.rank)
            if part != right:
                yield false_field(Obligation.SHARDS, place, _text(part), _text(right))
            if axis and size % mesh.size[axis] and not spec["pad"]:
                yield false_field(Obligation.SHARDS, place, f"{size} elements split by {axis}", "no padding is allowed")
            if axis and axis == spec["pipeline_axis"]:
                yield false_field(
                    Obligation.SHARDS, place, f"split by {axis}", "the axis of the pipeline splits no tensor"
                )
        axes = [dimension.axis for dimension in dimensions if dimension.axis]
        if len(set(axes)) < len(axes):
            yield false_field(Obligation.SHARDS, name, f"split by {', '.join(axes)}", "each axis at most once")
        row = rows[name]
        bits = BITS[plan.allocation.dtypes[int(plan.allocation.tensors.dtype[row])]]
        size = -(-prod(dimension.part.chunk for dimension in dimensions) * bits // 8)
        if size != int(plan.allocation.tensors.bytes[row]):
            yield false_field(
                Obligation.SHARDS, f"bytes of {name}", str(int(plan.allocation.tensors.bytes[row])), str(size)
            )


def part_differences(plan: Plan, rank_model: RankModel) -> Iterator[Violation]:
    """Yield each tensor of the model whose part in the plan's table is not that of the shard spec. O(dimensions)."""
    if plan.provenance is None:
        return
    mesh, stated = Mesh(plan.origin.shard_spec), stated_parts(plan)
    for name, (shape, partition) in rank_model.held.items():
        right = tuple(Dimension(n, a, mesh.part(n, a, plan.origin.rank)) for n, a in zip(shape, partition, strict=True))
        if name not in stated:
            yield difference("shard", "", (name,), None, "no part of it", _texts(right))
        elif stated[name] != right:
            yield difference("shard", "", (name,), None, _texts(stated[name]), _texts(right))
    for name in stated.keys() - rank_model.held.keys():
        yield difference("shard", "", (name,), None, _texts(stated[name]), "not a tensor of the model on this rank")


def _text(part: Part) -> str:
    return f"{part.held} elements from {part.start} on in {part.chunk} places"


def _texts(dimensions: tuple[Dimension, ...]) -> str:
    texts = (f"{_text(d.part)} of {d.size}{f' by {d.axis}' if d.axis else ''}" for d in dimensions)
    return "; ".join(texts) or "a scalar"
