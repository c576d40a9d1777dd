"""Assign steps to pipeline stages, and derive the steps, tensors, sends and receives of a rank of one stage.

spec: R7.17, R7.18
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from proofs.readers.models.reference import ReferenceProgram, ReferenceStep
from proofs.readers.operators import COLLECTIVES
from proofs.readers.patterns import Patterns
from proofs.sharding.mesh import Mesh
from proofs.sharding.partitions import PartitionSpec, misfit
from proofs.sharding.rank_model import ShardedModel, shard_model
from tmmu.core.dims.expressions import close_shape
from tmmu.core.vocabulary import NodePart


@dataclass(frozen=True)
class RankModel:
    """The program of one rank, with the shape and partition spec of each of the model's own tensors that it holds."""

    reference: ReferenceProgram
    held: dict[str, tuple[tuple[int, ...], PartitionSpec]]
    assumed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DividedModel:
    """A model as all ranks of a mesh run it together, and the stage of each step; no stages without a pipeline."""

    model: ReferenceProgram
    spec: dict[str, Any]
    whole: ShardedModel
    stage_of: dict[str, int]


def divide_model(model: ReferenceProgram, spec: dict[str, Any]) -> DividedModel:
    """Divide a model under a shard spec. Raises INVALID_SHARDING if the spec does not fit. O(accesses x dimensions)."""
    stages = Mesh(spec).size.get(spec["pipeline_axis"], 1)
    whole = shard_model(model, spec)
    return DividedModel(model, spec, whole, assign_stages(model, spec, stages) if stages > 1 else {})


def derive_rank_model(model: ReferenceProgram, spec: dict[str, Any], rank: int) -> RankModel:
    """Return what a rank must run of a model.

    Raises INVALID_SHARDING if the spec does not fit. O(accesses x dimensions).
    """
    return rank_model_of(divide_model(model, spec), rank)


def rank_model_of(by: DividedModel, rank: int) -> RankModel:
    """Return what a rank must run of a divided model.

    Raises INVALID_SHARDING if a mutated tensor is used in two stages.
    """
    model, spec, whole = by.model, by.spec, by.whole
    axis, mesh = spec["pipeline_axis"], Mesh(spec)
    cut = whole.reference
    if by.stage_of:
        cut = _cut(model, whole, by.stage_of, mesh.at(rank, axis), axis)
    held = {
        name: (close_shape(model.shapes[name]), whole.partitions[name])
        for name in whole.partitions
        if name in cut.sizes
    }
    return RankModel(cut, held, frozenset(whole.assumed))


def assign_stages(model: ReferenceProgram, spec: dict[str, Any], stages: int) -> dict[str, int]:
    """Return the stage of each of the model's steps, by node."""
    maker = {name: step.node for step in model.steps for name in step.made}
    deep: dict[str, int] = {}
    for step in model.steps:
        before = [deep[maker[name]] for name in step.reads if maker.get(name, step.node) in deep]
        deep[step.node] = max(before, default=-1) + 1
    levels = max((deep[s.node] for s in model.steps if s.node not in model.phases), default=0) + 1
    listed = [Patterns(patterns) for patterns in spec["stages"]]
    result: dict[str, int] = {}
    used: dict[str, list[int]] = defaultdict(list)
    for step in model.steps:
        node = step.node
        if node not in model.phases and spec["stages"]:
            by_name = [k for k, named in enumerate(listed) if named.match(node)]
            if not by_name:
                raise misfit(node, "no stage names this step")
            result[node] = min(by_name)
        elif node not in model.phases:
            result[node] = deep[node] * stages // levels
        elif node.endswith(".grad") and node[:-5] in result:
            result[node] = result[node[:-5]]
        else:
            sources = [result[maker[name]] for name in step.reads if maker.get(name) in result]
            sources = sources or [stage for name in step.reads for stage in used[name]]
            result[node] = min(sources, default=0)
        for name in step.reads:
            used[name].append(result[node])
    return result


def _cut(
    model: ReferenceProgram, whole: ShardedModel, stage_of: dict[str, int], stage: int, axis: str
) -> ReferenceProgram:
    """Return the steps of one stage, with its sends and receives.

    The stage sends each of its results once to each other stage that reads it, and receives each result of another
    stage that it reads.
    """
    steps = whole.reference.steps
    users: dict[str, set[int]] = defaultdict(set)
    home: dict[str, int] = {}
    for step in steps:
        for name in (*step.reads, *step.mutates):
            users[name].add(stage_of[whole.owner[step.node]])
        for name in step.writes:
            if name not in step.mutates:
                home[name] = stage_of[whole.owner[step.node]]
    for step in model.steps:
        for name in step.mutates:
            if len(users[name] | ({home[name]} if name in home else set())) > 1:
                raise misfit(name, "it is changed, and used in two stages")
    kept: list[ReferenceStep] = []
    phases = dict(whole.reference.phases)
    views = dict(whole.reference.views)
    names = {step.node for step in steps}

    def exchange(step: ReferenceStep, node: str, op: str, reads: tuple[str, ...], writes: tuple[str, ...]) -> None:
        if node in names:
            raise misfit(node, "the model has a node of this name already")
        kept.append(ReferenceStep(node, f"{COLLECTIVES}{axis}", op, NodePart.WHOLE, "", reads, writes))
        if step.node in phases:
            phases[node] = phases[step.node]

    for step in steps:
        at = stage_of[whole.owner[step.node]]
        if at == stage:
            kept.append(step)
        for name in step.writes:  # buffers and mutated tensors are used in only one stage
            if at == stage:
                for other in sorted(users[name] - {at}):
                    exchange(step, f"{name}.Send.{other}", f"Send.{other}", (name,), ())
            elif stage in users[name]:
                exchange(step, f"{name}.Recv.{at}", f"Recv.{at}", (), (name,))
                views.pop(name, None)
    callers = {name: users[name] or {0} for name in whole.partitions if name not in home}
    here = {name for step in kept for name in (*step.reads, *step.writes)}
    here |= {name for name, stages in callers.items() if stage in stages}
    e = whole.reference
    return replace(
        e,
        steps=kept,
        sizes={name: size for name, size in e.sizes.items() if name in here},
        roles={name: role for name, role in e.roles.items() if name in here},
        inputs=tuple(name for name in e.inputs if name in here),
        outputs=tuple(n for n in e.outputs if (home[n] if n in home else min(callers[n])) == stage),
        saved=e.saved & here,
        views={name: view for name, view in views.items() if name in here},
        must_not_alias=frozenset(pair for pair in e.must_not_alias if pair <= here),
        phases=phases,
    )
