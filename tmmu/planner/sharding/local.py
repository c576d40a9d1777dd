"""The model that each rank plans: one for each pipeline stage, and each rank's part of every tensor.

All ranks of a stage have chunks of one size, so they have one model and one layout. Only the elements in the chunks
differ. spec: R7.1, R7.6, R7.8, R7.19, R7.20
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tmmu.core.columns import NONE, build_column, flatten_rows
from tmmu.core.dims.expressions import close_shape
from tmmu.core.vocabulary import Model
from tmmu.planner.sharding import stages
from tmmu.planner.sharding.rewrite import rewrite_for_ranks
from tmmu.planner.sharding.splits import Split
from tmmu.plans import sharding
from tmmu.plans.columns import Shards


@dataclass(frozen=True)
class Local:
    """The model of the ranks of one stage. `parts` are (row, the model's shape, split) of the model's own tensors."""

    model: Model
    parts: list[tuple[int, tuple[int, ...], Split]]


def build_local_models(model: Model, spec: dict[str, Any]) -> list[Local]:
    """Return the model of each stage, in order.

    `model` is valid and in execution order; an empty spec returns it unchanged.

    Raises INVALID_SHARDING as `rewrite` and `stages` do. O(stages x model).
    """
    if not spec:
        return [Local(model, [])]
    made = rewrite_for_ranks(model, spec)
    stage_of = stages.assign_stages(model, spec)
    rows = {tensor.name: t for t, tensor in enumerate(model.tensors)}
    found = []
    for stage in range(stages.count_stages(spec)):
        local = stages.cut_stage(made, stage_of, stage, spec["pipeline_axis"])
        parts = [
            (row, close_shape(model.tensors[t].shape), made.splits.of[t])
            for row, tensor in enumerate(local.tensors)
            if (t := rows.get(tensor.name)) is not None
        ]
        found.append(Local(local, parts))
    return found


def coordinates(rank: int, spec: dict[str, Any]) -> dict[str, int]:
    """Return the place of a rank on each axis; the last axis varies fastest.

    >>> coordinates(5, {"mesh": [["data", 2], ["tensor", 4]]})
    {'tensor': 1, 'data': 1}
    """
    place = {}
    for axis, size in reversed(sharding.mesh_axes(spec)):
        rank, place[axis] = divmod(rank, size)
    return place


def build_shards(local: Local, spec: dict[str, Any], rank: int) -> Shards:
    """Return the table of the elements of each tensor that `rank` holds. O(tensors)."""
    sizes, place = dict(sharding.mesh_axes(spec)), coordinates(rank, spec)
    number = {axis: a for a, axis in enumerate(sizes)}
    dims: list[tuple[int, int, int, int, int]] = []
    for _, shape, split in local.parts:
        for size, axis in zip(shape, split, strict=True):
            chunk = -(-size // sizes[axis]) if axis else size
            start = min(chunk * place[axis], size) if axis else 0
            dims.append((size, number[axis] if axis else NONE, start, min(chunk, size - start), chunk))
    bounds, _ = flatten_rows([shape for _, shape, _ in local.parts], np.uint64)
    columns = [[row[k] for row in dims] for k in range(5)]
    return Shards(
        build_column([row for row, _, _ in local.parts], np.uint32), bounds, build_column(columns[0], np.uint64),
        build_column(columns[1], np.uint32), *(build_column(values, np.uint64) for values in columns[2:]),
    )  # fmt: skip
