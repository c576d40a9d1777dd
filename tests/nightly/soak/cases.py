"""Right plans by number, of every sort that a fault can be injected into: what a soak draws from.

A case is the same on every machine: a kind, a number, and all that follows from them. Layouts, modes, orders, arenas
that share a memory, rules that say where tensors lie, bodies, envelopes, joint graphs and all ranks of a mesh occur.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from tests.support.meshes import Builder, momentum_steps
from tests.support.models import numbered
from tests.support.recipes import HOLDERS, KINDS, TRAITS
from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import (
    ANYWHERE,
    ArenaConfiguration,
    ArenaPolicy,
    Bindings,
    Body,
    Device,
    Memory,
    Model,
    Role,
    Rule,
    Shares,
)
from tmmu.examples.broken.faults import Case
from tmmu.ir.validate import validate
from tmmu.plan import sharding
from tmmu.plan.columns import ROLES, SHARES
from tmmu.plan.sections import Plan, amended
from tmmu.planner import DEFAULT, plan_memory
from tmmu.planner.modes import has_backward, prepare
from tmmu.planner.sharding import local_models, shards_of
from tmmu.planner.sharding.local import coordinates
from tmmu.planner.sharding.spec import resolve
from tmmu.planner.training.expand import expand

LAYOUTS = ("slots", "packed", "pools", "hashed")
TOKEN = bytes(range(64))
"""What hashed addresses derive from."""


def case(kind: str, number: int) -> Case | None:
    """The case of a kind and a number; None where the planner refuses what was chosen, which it rightly may."""
    chance = random.Random(f"{kind} {number}")
    try:
        model, plans = KINDS_OF_CASES[kind](number, chance)
    except TmmuError:
        return None
    return Case(f"{kind}:{number}", model, plans)


Made = tuple[Model, tuple[Plan, ...]]


LARGE = 12
"""Nodes from which on a model is large: to judge a fault in it takes half again as long, and one in 16 is taken."""


def _plain(number: int, chance: random.Random) -> Made:
    model = numbered(number)
    if len(model.nodes) >= LARGE and number % 16:
        raise TmmuError("INVALID_PLAN", "it is large")
    return _planned(model, chance)


def _bodies(number: int, chance: random.Random) -> Made:
    """One node in three holds a body, and some end one."""
    return _planned(numbered(number, kinds=(*KINDS, *HOLDERS * 2, "end", "end")), chance)


def _envelopes(number: int, chance: random.Random) -> Made:
    """Most sizes depend on an open dimension."""
    return _planned(numbered(number, traits=("envelope", "envelope", "envelope", *TRAITS)), chance)


def _planned(model: Model, chance: random.Random) -> Made:
    layout, order = chance.choice(LAYOUTS), chance.choice(("given", "given", "memory"))
    mode = chance.choice(("inference", "inference", "forward"))
    arenas, policy = _arenas(chance)
    extra: dict[str, Any] = {"address_token": TOKEN} if layout == "hashed" else {}
    try:
        prepared = prepare(model, mode, arenas, policy=policy)
    except TmmuError:
        mode, prepared = "inference", prepare(model, "inference", arenas, policy=policy)
    validate(prepared)  # a forward node may read what a backward node makes
    if mode == "forward" and any(tensor.alias_group is not None for tensor in prepared.tensors):
        # What is saved is needed to the end, and so at one time; `tmmu plan` says so once it has looked at the plan.
        mode, prepared = "inference", prepare(model, "inference", arenas, policy=policy)
        validate(prepared)
    extra["is_stage"] = has_backward(model)
    plan = plan_memory(prepared, arenas, mode=mode, layout=layout, order=order, policy=policy, **extra).plan
    if _is_narrow(plan):
        raise TmmuError("INVALID_PLAN", "it is right, but only the model shows it")
    return model, (plan,)


def _is_narrow(plan: Plan) -> bool:
    """Does a result of elements below a byte lie in place of one of several operands? (`spec/soundness.md`: what a
    verdict without a model does not say.)
    """
    t, reads = plan.allocation.tensors, plan.allocation.steps.listed("reads")
    return any(
        SHARES[int(t.shares[r])] is Shares.IN_PLACE and BITS[plan.allocation.dtypes[int(t.dtype[r])]] < 8
        and sum(ROLES[int(t.role[k])] is not Role.SCRATCH for k in reads[int(t.writer[r])]) > 1
        for r in range(len(t))
    )  # fmt: skip


def _arenas(chance: random.Random) -> tuple[tuple[ArenaConfiguration, ...], ArenaPolicy]:
    """The default arenas, or others: in another order, of other alignments, in one memory, with rules."""
    if chance.random() < 0.4:
        return DEFAULT, ANYWHERE
    arenas = [
        replace(
            arena, alignment=chance.choice((128, 1, 2, 8, 512)), capacity=chance.choice((arena.capacity, 1 << 32)),
            reuse=chance.choice((arena.reuse, arena.reuse, not arena.reuse)),
        )
        for arena in chance.sample(DEFAULT, len(DEFAULT))
    ]  # fmt: skip
    if chance.random() < 0.5:
        arenas = [replace(arena, device="npu", memory="ram" if chance.random() < 0.7 else "") for arena in arenas]
        devices = (Device("npu", (Memory("ram", 1 << 40),), (), ("Mat*",)),)
    else:
        devices = ()
    rules = []
    for reuse in {arena.reuse for arena in arenas} if chance.random() < 0.5 else ():
        alike = [arena.name for arena in arenas if arena.reuse is reuse]
        listed = tuple(chance.sample(alike, chance.randrange(1, len(alike) + 1)))
        rules.append(Rule(listed, (chance.choice((Role.INPUT, Role.ACTIVATION)),), ("t*",)))
    return tuple(arenas), ArenaPolicy(devices, tuple(rules))


def _training(number: int, chance: random.Random) -> Made:
    """A joint graph of dense layers, each plan in mode `backward`."""
    model, layout = trained(chance), chance.choice(LAYOUTS[:3])
    return model, (plan_memory(model, mode="backward", layout=layout).plan,)


def trained(chance: random.Random) -> Model:
    """Dense layers with skips, their gradients, and a momentum step for each of some weights."""
    build = Builder()
    shape = [chance.choice((2, 3, 4)), chance.choice((2, 4))]
    pool, weights = [build.given("x", shape, Role.INPUT)], []
    for k in range(chance.randrange(1, 5)):
        t = chance.choice(pool)
        shape = list(build.shape(t))
        op = chance.choice(("MatMul", "MatMul", "Add", "Relu", "Tanh", "Reshape"))
        if op in ("MatMul", "Add"):
            other = [shape[-1], chance.choice((2, 4))] if op == "MatMul" else [shape[-1]]
            weights.append(build.given(f"w{k}", other, Role.PARAMETER))
            pool += build.node(op, (t, weights[-1]), [(shape[0], other[-1])])
        else:
            pool += build.node(op, (t,), [shape[::-1] if op == "Reshape" else shape])
    shape = list(build.shape(pool[-1]))
    weights.append(build.given("w", [shape[-1], 2], Role.PARAMETER))  # the output depends on one at least
    pool += build.node("MatMul", (pool[-1], weights[-1]), [(shape[0], 2)])
    donated, gradients = momentum_steps(build, [w for w in weights if chance.random() >= 0.5])
    main = Body(-1, "", (0, *gradients), (pool[-1],))
    model = Model("trained", tuple(build.tensors), tuple(build.nodes), (main,),
                  bindings=Bindings(donated=tuple(sorted(donated))))  # fmt: skip
    return expand(model)


def _ranks(number: int, chance: random.Random) -> Made:
    """The plans of all ranks of a mesh with two to four ranks."""
    model = layers(chance)
    spec = _spec(model, chance)
    locals_, plans = local_models(model, spec), []
    for rank in range(sharding.ranks(spec)):
        local = locals_[coordinates(rank, spec).get(spec["pipeline_axis"], 0)]
        made = plan_memory(local.model, layout="packed", is_stage=True).plan
        plans.append(amended(made, rank=rank, world_size=sharding.ranks(spec), shard_spec=spec,
                             shards=shards_of(local, spec, rank)))  # fmt: skip
    return model, tuple(plans)


def layers(chance: random.Random) -> Model:
    """A few dense layers: what can be divided in every way."""
    build = Builder()
    pool = [build.given("x", [chance.choice((2, 4, 6)), chance.choice((2, 4))], Role.INPUT)]
    for k in range(chance.randrange(2, 5)):
        t = chance.choice(pool[-2:])
        shape = build.shape(t)
        op = chance.choice(("MatMul", "Add", "Relu", "Softmax"))
        if op == "MatMul":
            other = [shape[-1], chance.choice((2, 4))]
            pool += build.node(op, (t, build.given(f"w{k}", other, Role.PARAMETER)), [(shape[0], other[-1])])
        elif op == "Add":
            pool += build.node(op, (t, build.given(f"w{k}", [shape[-1]], Role.PARAMETER)), [shape])
        else:
            pool += build.node(op, (t,), [shape])
    return Model("layers", tuple(build.tensors), tuple(build.nodes), (Body(-1, "", (0,), (pool[-1],)),))


def _spec(model: Model, chance: random.Random) -> dict[str, Any]:
    """A mesh of two to four ranks, one of whose axes may be a pipeline, with some tensors split."""
    mesh: dict[str, int] = chance.choice((*[{"data": 2}] * 10, {"data": 3}, {"data": 2, "tensor": 2}))
    document: dict[str, Any] = {"pad": True, "operators": [{"op": "Softmax", "across": [-1]}], "rules": []}
    if len(mesh) == 1 and chance.random() < 0.4:
        mesh = {"pipeline": 2, **mesh}
        document["pipeline"] = {"axis": "pipeline"}
    document["mesh"] = mesh
    if chance.random() < 0.3:
        document["zero"] = {"axis": "data", "stage": 3}
    axes = [axis for axis in mesh if axis != "pipeline"]
    for tensor in model.tensors:
        if chance.random() < 0.6:
            free, split = ["", *axes], []
            for _ in tensor.shape:
                split.append(chance.choice(free))
                free = [axis for axis in free if not axis or axis != split[-1]]
            document["rules"].append({"roles": [str(tensor.role)], "names": [tensor.name], "split": split})
    return resolve(document)


KINDS_OF_CASES = {
    "plain": _plain, "bodies": _bodies, "envelopes": _envelopes, "training": _training, "ranks": _ranks,
}  # fmt: skip
"""What makes the cases of each kind."""
