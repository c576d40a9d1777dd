"""Wrong plans of sharded models: the shards or steps of one rank, and ranks that do not fit together.

The model is two layers, `h` = x·w and `y` = h·v, on a mesh of two ranks. If a kind has plans of other ranks, each of
them is right in itself, and the verdict on all ranks is REFUTED.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tmmu.core import folders
from tmmu.core.columns import build_column
from tmmu.core.vocabulary import ArenaConfiguration, Model
from tmmu.examples.broken.kinds import Wrong, wrong
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.sharding import build_local_models, build_shards
from tmmu.planner.sharding.local import coordinates
from tmmu.planner.sharding.spec import resolve
from tmmu.plans import sharding
from tmmu.plans.sections import Plan, amend_plan, require_section

ROWS, WIDTH = 8, 64
TENSOR = {"mesh": {"tensor": 2}, "rules": [{"names": ["w"], "split": ["", "tensor"]},
                                           {"names": ["v"], "split": ["tensor"]}]}  # fmt: skip
DATA = {"mesh": {"data": 2}, "rules": [{"names": ["x"], "split": ["data"]}]}
STAGES = {"mesh": {"stage": 2}, "pipeline": {"axis": "stage", "stages": [["make_h", "make_g"], ["*"]]}}


def _network() -> tuple[bytes, Model]:
    """Build `h` = x·w, `g` = tanh h and `y` = h·v + g·v; return the file and the model."""
    from tmmu.examples.graph import OnnxGraph

    graph = OnnxGraph("two-layers")
    x, w, v = graph.input("x", (ROWS, WIDTH)), graph.weight("w", (WIDTH, WIDTH)), graph.weight("v", (WIDTH, WIDTH))
    h = graph.node("MatMul", x, w, result="h")
    g = graph.node("Tanh", h, result="g")
    sums = [graph.node("MatMul", operand, v, result=name) for operand, name in ((h, "hv"), (g, "gv"))]
    graph.node("Add", *sums, result="y")
    graph.output("y", (ROWS, WIDTH))
    made = graph.model()
    for node in made.graph.node:
        node.name = f"make_{node.output[0]}"
    data: bytes = made.SerializeToString(deterministic=True)
    return data, _import(data)


def _import(data: bytes) -> Model:
    from tmmu.importers.onnx import import_onnx

    with tempfile.TemporaryDirectory(dir=folders.temporary_folder()) as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(data)
        return import_onnx(path)


def _normalization(trains: bool) -> tuple[bytes, Model]:
    """Build `y` = x normalized by statistics of its batch, or by stored ones; return the file and the model."""
    from onnx import TensorProto, helper

    node = helper.make_node(
        "BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "", ""], "make_y", training_mode=int(trains)
    )
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, WIDTH]) for name in "xy")
    stored = [helper.make_tensor(name, TensorProto.FLOAT, [WIDTH], [1.0] * WIDTH) for name in "sbmv"]
    graph = helper.make_graph([node], "normalization", [x], [y], stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    data: bytes = made.SerializeToString(deterministic=True)
    return data, _import(data)


def _ranks(
    document: dict[str, Any],
    ranks: Sequence[int] = (0, 1),
    arenas: tuple[ArenaConfiguration, ...] = DEFAULT,
    network: tuple[bytes, Model] | None = None,
) -> list[Plan]:
    """Return the right plans of some ranks under a shard spec."""
    data, model = network or _network()
    spec = resolve(document)
    locals_ = build_local_models(model, spec)
    plans = []
    for rank in ranks:
        local = locals_[coordinates(rank, spec).get(spec["pipeline_axis"], 0)]
        made = plan_memory(local.model, arenas, PlanOptions(layout="packed", is_stage=True)).plan
        plans.append(
            amend_plan(made, rank=rank, world_size=sharding.count_ranks(spec), shard_spec=spec,
                    shards=build_shards(local, spec, rank), source_digest=hashlib.sha256(data).digest())
        )  # fmt: skip
    return plans


def _holding(plan: Plan, tensor: str, d: int, **entries: int) -> Plan:
    """Return `plan` with other entries for the shard that it holds of one dimension of a tensor."""
    s = require_section(plan.shards, "shards")
    k = s.tensor.tolist().index(plan.allocation.tensors.name.list().index(tensor))
    place = int(s.dims_at[k]) + d
    changed = {}
    for name, value in entries.items():
        old = getattr(s, name)
        values = old.tolist()
        values[place] = value
        changed[name] = build_column(values, old.dtype.type)
    return amend_plan(plan, shards=replace(s, **changed))


def _without(plan: Plan, tensor: str) -> Plan:
    """Return `plan` without the shard that it states for a tensor."""
    s = require_section(plan.shards, "shards")
    k = s.tensor.tolist().index(plan.allocation.tensors.name.list().index(tensor))
    lo, hi = int(s.dims_at[k]), int(s.dims_at[k + 1])
    rows = s.tensor.tolist()
    bounds = [at if at <= lo else at - (hi - lo) for at in s.dims_at.tolist()]
    kept = {name: build_column([*getattr(s, name)[:lo], *getattr(s, name)[hi:]], getattr(s, name).dtype.type)
            for name in s.DIMENSIONS}  # fmt: skip
    fewer = replace(s, tensor=build_column(rows[:k] + rows[k + 1 :], s.tensor.dtype.type),
                    dims_at=build_column(bounds[: k + 1] + bounds[k + 2 :], s.dims_at.dtype.type), **kept)  # fmt: skip
    return amend_plan(plan, shards=fewer)


@wrong("shards", field="dimension 1 of w")
def shard_with_a_gap() -> Plan:
    """The second of two ranks holds one column of a weight fewer than remain, and no rank holds that column."""
    return _holding(_ranks(TENSOR, [1])[0], "w", 1, start=WIDTH // 2 + 1, held=WIDTH // 2 - 1)


@wrong("shards", field="dimension 1 of w")
def shard_held_twice() -> Plan:
    """The second of two ranks holds the first half of a weight, which the first rank already holds."""
    return _holding(_ranks(TENSOR, [1])[0], "w", 1, start=0)


@wrong("shards", field="shard")
def shard_of_another_dimension() -> Wrong:
    """The rank holds half of the rows of a weight, but the shard spec splits its columns; both have the same bytes."""
    plan = _ranks(TENSOR, [1])[0]
    held = require_section(plan.shards, "shards")
    axis = int(held.axis.max(initial=0, where=held.axis < 2))
    moved = _holding(plan, "w", 0, axis=axis, start=WIDTH // 2, held=WIDTH // 2, chunk=WIDTH // 2)
    whole = {"axis": 0xFFFFFFFF, "start": 0, "held": WIDTH, "chunk": WIDTH}
    return Wrong(_holding(moved, "w", 1, **whole), model=_network()[0])


@wrong("steps_are_the_model", field="bytes")
def rank_without_its_sharding() -> Wrong:
    """The plan states that a shard spec splits its batch, but its tensors are as large as on one machine."""
    whole = _ranks({**DATA, "rules": []}, [0])[0]
    return Wrong(amend_plan(whole, shard_spec=resolve(DATA)), model=_network()[0])


@wrong("steps_are_the_model", field="missing-step")
def rank_of_another_stage() -> Wrong:
    """The plan of the first pipeline stage states that it is that of the second stage."""
    return Wrong(amend_plan(_ranks(STAGES, [0])[0], rank=1), model=_network()[0])


@wrong("steps_are_the_model", field="missing-step")
def rank_that_normalizes_by_its_part() -> Wrong:
    """Each rank normalizes its part of the batch by the statistics of that part, but the model uses the whole batch."""
    data, model = _normalization(trains=True)
    blind = replace(model, nodes=tuple(replace(node, opaque=False) for node in model.nodes))
    return Wrong(_ranks(DATA, [0], network=(data, blind))[0], model=data)


@wrong("one_shard_spec", field="shard_spec_hash")
def rank_of_a_foreign_shard_spec() -> Wrong:
    """The plans of two ranks of one model state two shard specs."""
    return Wrong(_ranks(TENSOR, [0])[0], others=tuple(_ranks(DATA, [1])))


@wrong("every_rank_once")
def rank_planned_twice() -> Wrong:
    """There are two plans of one rank, and none of the other."""
    first = _ranks(TENSOR, [0])[0]
    return Wrong(first, others=(first,))


@wrong("layouts_agree", field="layout_digest")
def ranks_with_two_layouts() -> Wrong:
    """Two ranks of one stage align their arenas differently, so addresses differ although both run the same steps."""
    strict = tuple(replace(arena, alignment=4096) for arena in DEFAULT)
    return Wrong(_ranks(DATA, [0])[0], others=tuple(_ranks(DATA, [1], strict)))


@wrong("shards", field="part of w")
def weight_that_the_rank_leaves_out() -> Plan:
    """A rank has bytes for a weight and does not state which part of it they hold."""
    return _without(_ranks(TENSOR, [0])[0], "w")


@wrong("shards_cover", "h")
def shard_that_one_rank_omits() -> Wrong:
    """One of two ranks states no shard of a result that it has bytes for, so no rank holds its half."""
    first, second = _ranks(TENSOR)
    return Wrong(first, others=(_without(second, "h"),))


@wrong("ranks_meet")
def stages_that_wait_for_each_other() -> Wrong:
    """The first stage sends two results in one order, the second receives them in the other: both wait forever."""
    data, model = _network()
    spec = resolve(STAGES)
    first, second = build_local_models(model, spec)
    sends = [n for n, node in enumerate(first.model.nodes) if node.op.startswith("Send")]
    nodes = list(first.model.nodes)
    late = nodes.pop(sends[0])
    swapped = replace(first, model=replace(first.model, nodes=(*nodes, late)))
    plans = [
        amend_plan(plan_memory(local.model).plan, rank=rank, world_size=2, shard_spec=spec,
                shards=build_shards(local, spec, rank), source_digest=hashlib.sha256(data).digest())
        for rank, local in enumerate((swapped, second))
    ]  # fmt: skip
    return Wrong(plans[0], others=(plans[1],))
