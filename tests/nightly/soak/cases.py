"""Right plans by number, of every sort that a fault can be injected into: what a soak draws from.

A case is the same on every machine: a kind, a number, and all that follows from them. Layouts, modes, orders, arenas
that share a memory, rules that say where tensors lie, bodies, envelopes, joint graphs and all ranks of a mesh occur.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.support.meshes import example, shard_spec, training
from tests.support.objections import is_narrow
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import (
    ANYWHERE,
    ArenaConfiguration,
    ArenaPolicy,
    DeviceConfiguration,
    Memory,
    Model,
    Role,
    Rule,
)
from tmmu.ir.validate import validate_model
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.modes import has_backward, prepare_graph
from tmmu.planner.sharding import build_local_models, build_shards
from tmmu.planner.sharding.local import coordinates
from tmmu.plans import sharding
from tmmu.plans.sections import Plan, amend_plan
from tmmu.testing.catalogue import Case
from tmmu.testing.strategies.models import numbered
from tmmu.testing.strategies.recipes import HOLDERS, KINDS, TRAITS

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
    try:
        prepared = prepare_graph(model, mode, arenas, policy=policy)
    except TmmuError:
        mode, prepared = "inference", prepare_graph(model, "inference", arenas, policy=policy)
    validate_model(prepared)  # a forward node may read what a backward node makes
    if mode == "forward" and any(tensor.alias_group is not None for tensor in prepared.tensors):
        # What is saved is needed to the end, and so at one time; `tmmu plan` says so once it has looked at the plan.
        mode, prepared = "inference", prepare_graph(model, "inference", arenas, policy=policy)
        validate_model(prepared)
    token = TOKEN if layout == "hashed" else None
    options = PlanOptions(mode, layout, order, address_token=token, is_stage=has_backward(model))
    plan = plan_memory(prepared, arenas, options, policy=policy).plan
    if is_narrow(plan):
        raise TmmuError("INVALID_PLAN", "it is right, but only the model shows it")
    return model, (plan,)


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
        devices = (DeviceConfiguration("npu", (Memory("ram", 1 << 40),), (), ("Mat*",)),)
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
    model, layout = training(chance, 4).model, chance.choice(LAYOUTS[:3])
    return model, (plan_memory(model, options=PlanOptions(mode="backward", layout=layout)).plan,)


def _ranks(number: int, chance: random.Random) -> Made:
    """The plans of all ranks of a mesh with two to four ranks."""
    model = example(chance, 3).model
    spec = shard_spec(chance, model, (1, 2))
    while not 2 <= sharding.count_ranks(spec) <= 4:
        spec = shard_spec(chance, model, (1, 2))
    locals_, plans = build_local_models(model, spec), []
    for rank in range(sharding.count_ranks(spec)):
        local = locals_[coordinates(rank, spec).get(spec["pipeline_axis"], 0)]
        made = plan_memory(local.model, options=PlanOptions(layout="packed", is_stage=True)).plan
        plans.append(amend_plan(made, rank=rank, world_size=sharding.count_ranks(spec), shard_spec=spec,
                             shards=build_shards(local, spec, rank)))  # fmt: skip
    return model, tuple(plans)


KINDS_OF_CASES = {
    "plain": _plain, "bodies": _bodies, "envelopes": _envelopes, "training": _training, "ranks": _ranks,
}  # fmt: skip
"""What makes the cases of each kind."""
