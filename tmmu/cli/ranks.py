"""How `tmmu plan` plans for many ranks: --shard and --rank, and one file for each rank. spec: R7.22, R7.23"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tmmu.cli.options import ShardOptions
from tmmu.core.flags import PLAN_SUFFIXES
from tmmu.core.output import count_noun
from tmmu.core.vocabulary import Model
from tmmu.planner.plan import Planned
from tmmu.planner.sharding.local import Local
from tmmu.plans import sharding
from tmmu.plans.sections import Plan, amend_plan

MOST_FILES = 1 << 16
"""Of a larger mesh single ranks are planned: the plans of all would fill memory and disk first."""


def load(given: ShardOptions, budget: int | None, order: str) -> dict[str, Any] | None:
    """Return the shard spec, which must have the rank, or None without one. Raises UsageError for flags in conflict."""
    from tmmu.planner.sharding.spec import load, sharding_error
    from tmmu.planner.sharding.stages import count_stages

    path, rank = given.shard, given.rank
    if path is None:
        if rank is not None:
            raise click.UsageError("--rank goes with --shard")
        return None
    if budget is not None:
        raise click.UsageError("--budget is one rank's; what is computed again is not sharded yet")
    spec = load(path)
    if rank is not None and rank >= sharding.count_ranks(spec):
        raise click.BadParameter(f"the mesh has {sharding.count_ranks(spec)} ranks, from 0 on", param_hint="--rank")
    if rank is None and sharding.count_ranks(spec) > MOST_FILES:
        what = (
            f"the mesh has {sharding.count_ranks(spec)} ranks, and a file for each of more than {MOST_FILES} "
            f"is not written"
        )
        raise sharding_error(what, "plan single ranks with --rank").in_file(path)
    if order != "given" and count_stages(spec) > 1:
        what = "an order for each stage could make two of them wait for each other"
        raise sharding_error(what, "use --order given with a pipeline").in_file(path)
    return spec


@dataclass(frozen=True)
class RankPlans(Sequence[Plan]):
    """The plan of a stage as it is for each of its ranks, made when it is asked for: there may be thousands."""

    local: Local
    planned: Plan
    spec: dict[str, Any]
    ranks: list[int]

    def __len__(self) -> int:
        return len(self.ranks)

    def __getitem__(self, k: Any) -> Any:
        """The plan of the `k`-th rank. O(tensors)."""
        from tmmu.planner.sharding import build_shards

        rank, world = self.ranks[k], sharding.count_ranks(self.spec)
        shards = build_shards(self.local, self.spec, rank)
        return amend_plan(self.planned, rank=rank, world_size=world, shard_spec=self.spec, shards=shards)


def plans(
    model: Model, spec: dict[str, Any] | None, rank: int | None, plan: Callable[[Model], Planned]
) -> Iterator[tuple[Model, Planned, Sequence[Plan]]]:
    """For each stage its model, its plan, and that plan as it is for each rank; without a spec the one plan."""
    from tmmu.planner.sharding import build_local_models
    from tmmu.planner.sharding.local import coordinates

    if spec is None:
        planned = plan(model)
        yield model, planned, [planned.plan]
        return
    wanted = range(sharding.count_ranks(spec)) if rank is None else (rank,)
    by_stage: dict[int, list[int]] = {}
    for r in wanted:
        by_stage.setdefault(coordinates(r, spec).get(spec["pipeline_axis"], 0), []).append(r)
    locals_ = build_local_models(model, spec)
    for stage, ranks in by_stage.items():
        local = locals_[stage]
        planned = plan(local.model)
        yield local.model, planned, RankPlans(local, planned.plan, spec, ranks)


def target(path: str, plan: Plan) -> str:
    """The file of a plan: `path` itself without a shard spec."""
    return rank_file(path, plan.origin.rank) if plan.origin.shard_spec else path


def rank_file(path: str, rank: int) -> str:
    """The file of one rank: for `m.plan.cbor` that is `m.rank0.plan.cbor` and so on, so that a folder of them is known
    as one of plans, and for `p.cbor` it is `p.rank0.cbor`.
    """
    whole = Path(path)
    suffix = next((known for known in PLAN_SUFFIXES if whole.name.endswith(known)), whole.suffix)
    return str(whole.with_name(f"{whole.name.removesuffix(suffix)}.rank{rank}{suffix}"))


def summary(spec: dict[str, Any], model: Model, planned: Plan) -> Iterator[str]:
    """The common values of the ranks of one stage."""
    moved = sum(node.domain.startswith("tmmu.mesh/") for node in model.nodes)
    mesh = ", ".join(f"{axis}={size}" for axis, size in sharding.mesh_axes(spec))
    yield f"  mesh: {mesh}; {count_noun(len(planned.allocation.steps), 'step')}, {moved} of them collectives"
