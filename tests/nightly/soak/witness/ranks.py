"""Witnesses about ranks: a part that is not the rank's own, and plans of all ranks that contradict each other.

spec: R7.6, R7.24
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from math import prod
from typing import Any

from tests.nightly.soak.witness.meeting import meet
from tmmu.core.columns import NONE
from tmmu.core.dtypes import BITS
from tmmu.planner.sharding.local import coordinates
from tmmu.plans import sharding
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import Plan
from tmmu.testing.catalogue.ranks import part_of

Witness = Mapping[str, Any]


def shows_part(plan: Plan, w: Witness) -> bool:
    """The part that a rank states is not its own, or has not the bytes of its tensor."""
    s, t, field = plan.shards, plan.allocation.tensors, w["field"]
    if field == "sharding":  # the model itself cannot be divided so: here, because some dimension does not divide
        return not plan.origin.shard_spec["pad"] and any(map(_uneven(plan), range(len(s.size))))
    at, rows = s.dims_at.tolist(), s.tensor.tolist()
    kind, _, name = field.partition(" of ") if " of " in field else ("", "", field)
    if kind == "part":
        return name in t.name.list() and t.name.list().index(name) not in rows
    k = next(k for k, r in enumerate(rows) if t.name[r] == name)
    dims = range(at[k], at[k + 1])
    if kind == "bytes":
        bits = BITS[plan.allocation.dtypes[int(t.dtype[rows[k]])]]
        size = -(-prod(int(s.chunk[d]) for d in dims) * bits // 8)
        return (w["stated"], w["recomputed"]) == (str(int(t.bytes[rows[k]])), str(size)) and size != int(
            t.bytes[rows[k]]
        )
    axes = [int(s.axis[d]) for d in dims]
    if kind.startswith("dimension"):
        d = at[k] + int(kind.split()[1])
        if "no padding" in w["recomputed"]:
            return not plan.origin.shard_spec["pad"] and _uneven(plan)(d)
        if "pipeline" in w["recomputed"]:
            return (
                axes[d - at[k]] != NONE
                and sharding.mesh_axes(plan.origin.shard_spec)[axes[d - at[k]]][0]
                == plan.origin.shard_spec["pipeline_axis"]
            )
        stated = int(s.start[d]), int(s.held[d]), int(s.chunk[d])
        own = part_of(plan, int(s.size[d]), int(s.axis[d]))
        return (w["stated"], w["recomputed"]) == (_text(stated), _text(own)) and stated != own
    split = [axis for axis in axes if axis != NONE]
    return len(set(split)) < len(split)


def _uneven(plan: Plan) -> Callable[[int], bool]:
    """Of a dimension: is it split by an axis that does not divide it?"""
    s, mesh = plan.shards, sharding.mesh_axes(plan.origin.shard_spec)
    return lambda d: s.axis[d] != NONE and int(s.size[d]) % mesh[int(s.axis[d])][1] > 0


def _text(part: tuple[int, int, int]) -> str:
    return f"{part[1]} elements from {part[0]} on in {part[2]} places"


def shows_ranks(stated: list[StatedPlan], w: Witness) -> bool:
    """Whether the plans of all ranks contradict each other as a witness says."""
    plans, name = [each.plan for each in stated], w["obligation"]
    if name == "one_shard_spec":
        return len({repr(plan.origin.shard_spec) for plan in plans}) > 1
    if name == "every_rank_once":
        return [plan.origin.rank for plan in plans].count(w["ranks"][0]) > 1
    two = [k for k, plan in enumerate(plans) if plan.origin.rank in w["ranks"]]
    if name == "layouts_agree":
        return len({stated[k].hashes["layout_digest"] for k in two}) > 1 and len({_stage(plans[k]) for k in two}) == 1
    if name == "shards_cover":
        return any(count != 1 for count in _holders(plans, w["tensors"][0]).values()) or not _alike(
            plans, w["tensors"][0]
        )
    return name == "ranks_meet" and not meet(plans)


def _stage(plan: Plan) -> int:
    return coordinates(plan.origin.rank, plan.origin.shard_spec).get(plan.origin.shard_spec["pipeline_axis"], 0)


def _holders(plans: list[Plan], name: str) -> dict[tuple[int, ...], int]:
    """For each element of a tensor the number of different stretches, of those that ranks state, that hold it."""
    shape: tuple[int, ...] = ()
    held = set()
    for plan in plans:
        s = plan.shards
        for k, r in enumerate(s.tensor.tolist()):
            if plan.allocation.tensors.name[r] == name:
                dims = range(int(s.dims_at[k]), int(s.dims_at[k + 1]))
                shape = tuple(int(s.size[d]) for d in dims)
                held.add(tuple((int(s.start[d]), int(s.start[d]) + int(s.held[d])) for d in dims))
    return {
        element: sum(all(lo <= x < hi for x, (lo, hi) in zip(element, box, strict=True)) for box in held)
        for element in product(*map(range, shape))
    }


def _alike(plans: list[Plan], name: str) -> bool:
    """Of each dimension, do ranks in one place of the axis that splits it hold the same stretch?"""
    found: dict[tuple[int, int | None], set[tuple[int, int]]] = {}
    for plan in plans:
        s, axes, place = (
            plan.shards,
            sharding.mesh_axes(plan.origin.shard_spec),
            coordinates(plan.origin.rank, plan.origin.shard_spec),
        )
        for k, r in enumerate(s.tensor.tolist()):
            if plan.allocation.tensors.name[r] == name:
                for d in range(int(s.dims_at[k]), int(s.dims_at[k + 1])):
                    at = place[axes[int(s.axis[d])][0]] if s.axis[d] != NONE else None
                    stretch = int(s.start[d]), int(s.held[d])
                    found.setdefault((d - int(s.dims_at[k]), at), set()).add(stretch)
    return all(len(each) == 1 for each in found.values())
