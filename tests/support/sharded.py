"""Small models with a shard spec, the plan of each rank, and the steps and shapes of one rank as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tmmu.core.dtypes import nbytes
from tmmu.core.vocabulary import Bindings, Body, Model, Node, Phase, Role, Tensor, View
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.sharding import Local, build_local_models, build_shards
from tmmu.planner.sharding.local import coordinates
from tmmu.planner.sharding.spec import resolve
from tmmu.plans import sharding
from tmmu.plans.sections import Plan, amend_plan


def model(lines: list[str], shapes: dict[str, tuple[int, ...]], outputs: str, **phases: Phase) -> Model:
    """A model of lines `node Op: reads -> writes`; `x…` are inputs, `w…` parameters, `m…` optimizer state."""
    rows = {name: t for t, name in enumerate(shapes)}
    roles = {"x": Role.INPUT, "w": Role.PARAMETER, "m": Role.OPTIMIZER}
    tensors = []
    for name, shape in shapes.items():
        role = Role.INPUT if name.endswith(".grad") else roles.get(name[0], Role.ACTIVATION)
        tensors.append(Tensor(name, shape, "float32", role, nbytes(shape, "float32"), 4))
    nodes = []
    for line in lines:
        head, _, accesses = line.partition(": ")
        name, op = head.split()
        domain, _, op = op.rpartition("::")
        reads, writes = ([rows[t] for t in side.split()] for side in accesses.split("->"))
        nodes.append(Node(name, op, tuple(reads), tuple(writes), domain, mutates=tuple(t for t in writes if t in reads),
                          phase=phases.get(name, Phase.FORWARD)))  # fmt: skip
    inputs = tuple(t for t, tensor in enumerate(tensors) if tensor.role is Role.INPUT)
    main = Body(-1, "", inputs, tuple(rows[name] for name in outputs.split()))
    donated = tuple(sorted({tensors[t].name for node in nodes for t in node.mutates}))
    return Model("small", tuple(tensors), tuple(nodes), (main,), bindings=Bindings(donated=donated))


def spec(mesh: dict[str, int], *rules: tuple[str, list[str]], **other: Any) -> dict[str, Any]:
    everything = [str(role) for role in Role]
    return resolve(
        {"mesh": mesh, "rules": [{"roles": everything, "names": [n], "split": split} for n, split in rules], **other}
    )


def run(local: Local) -> list[str]:
    """The steps of a rank, a line each."""
    names = [tensor.name for tensor in local.model.tensors]
    return [
        f"{node.op} {' '.join(names[t] for t in node.reads)} -> {' '.join(names[t] for t in node.writes)}"
        for node in local.model.nodes
    ]


def shape(local: Local, name: str) -> tuple[int, ...]:
    return next(tensor.shape for tensor in local.model.tensors if tensor.name == name)


LAYERS = model(
    ["up MatMul: x w1 -> a", "act Relu: a -> b", "down MatMul: b w2 -> y"],
    {"x": (4, 6), "w1": (6, 8), "a": (4, 8), "b": (4, 8), "w2": (8, 2), "y": (4, 2)},
    "y",
)

SPEC = spec(
    {"pipe": 2, "data": 2}, ("x", ["data"]), ("w1", ["", "data"]), pipeline={"axis": "pipe", "stages": [["up"], ["*"]]}
)

WORLD = 4


def plans(by: dict[str, Any] = SPEC, model: Model = LAYERS) -> list[Plan]:
    """The plan of each rank, in order."""
    locals_ = build_local_models(model, by)
    made = []
    for rank in range(sharding.count_ranks(by)):
        local = locals_[coordinates(rank, by).get(by["pipeline_axis"], 0)]
        plan = plan_memory(local.model, options=PlanOptions(layout="packed")).plan
        made.append(amend_plan(plan, rank=rank, world_size=sharding.count_ranks(by), shard_spec=by,
                            shards=build_shards(local, by, rank)))  # fmt: skip
    return made


def with_roles(net: Model, roles: dict[str, Role]) -> Model:
    """The model with other roles of some tensors."""
    tensors = tuple(replace(tensor, role=roles.get(tensor.name, tensor.role)) for tensor in net.tensors)
    inputs = tuple(t for t, tensor in enumerate(tensors) if tensor.role is Role.INPUT)
    return replace(net, tensors=tensors, bodies=(replace(net.bodies[0], inputs=inputs),))


def rule(split: list[str], *names: str, roles: tuple[Role, ...] = (Role.INPUT, Role.PARAMETER)) -> dict[str, Any]:
    return {"roles": [str(role) for role in roles], "names": list(names), "split": split}


def showing(net: Model, name: str, base: str, offset: int = 0, **changes: Any) -> Model:
    """The model with one tensor as a view of another."""
    rows = [tensor.name for tensor in net.tensors]
    tensors = list(net.tensors)
    tensor = replace(tensors[rows.index(name)], alignment=1, **changes)
    size = nbytes(tensor.shape, tensor.dtype)
    tensors[rows.index(name)] = replace(tensor, bytes=size, view=View(rows.index(base), offset, size))
    return replace(net, tensors=tuple(tensors))
