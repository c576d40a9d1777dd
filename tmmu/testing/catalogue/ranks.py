"""Faults in ranks: the shards that one states that it holds, and plans of all ranks that do not fit together."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tmmu.core import canonical
from tmmu.core.columns import NONE, build_column
from tmmu.examples.broken.editing import changed
from tmmu.planner.sharding.local import coordinates
from tmmu.planner.sharding.rewrite import MESH
from tmmu.plans import file, sharding
from tmmu.plans.sections import Plan, amend_plan, require_section
from tmmu.testing.catalogue.fault import Case, Inject, Injected, fault, in_case, require, some
from tmmu.testing.catalogue.reading import alignment_of, claim

Edit = Callable[[Plan, random.Random], Plan]


def _inject_into_one(edit: Edit) -> Inject:
    """Turn an edit into a fault of one rank, whose plan is given without the others."""
    return lambda case, chance: Injected((file.encode(edit(chance.choice(case.plans), chance)),))


def _inject_among_all(edit: Edit) -> Inject:
    """Turn an edit into a fault of one rank, whose plan is given with those of all ranks."""

    def inject(case: Case, chance: random.Random) -> Injected:
        which = chance.randrange(len(case.plans))
        return _files(case, which, {which: edit(case.plans[which], chance)})

    return inject


def _files(case: Case, which: int, wrong: dict[int, Plan]) -> Injected:
    """Return the files of all ranks, with other plans of some."""
    files = (file.encode(wrong[k]) if k in wrong else right for k, right in enumerate(case.plan_files))
    return Injected(tuple(files), which)


@fault("shards", _inject_into_one)
def other_part(plan: Plan, chance: random.Random) -> Plan:
    """A rank holds a stretch of a dimension that is not its own."""
    s = require_section(plan.shards, "shards")
    d = some(chance, [d for d in range(len(s.size)) if s.held[d]])
    size, now = int(s.size[d]), (int(s.start[d]), int(s.held[d]))
    first, count = chance.choice([
        (a, h) for a in range(size + 1) for h in range(min(size - a, int(s.chunk[d])) + 1) if (a, h) != now
    ])  # fmt: skip
    return changed(plan, "shards", d, start=first, held=count)


def part_of(plan: Plan, size: int, axis: int) -> tuple[int, int, int]:
    """Return first element, number of elements and chunk of a rank's part of a dimension.

    All chunks are equal, except that the last ones may be smaller.
    """
    if axis == NONE:
        return 0, size, size
    name, places = sharding.mesh_axes(plan.origin.shard_spec)[axis]
    chunk = -(-size // places)
    start = min(size, chunk * coordinates(plan.origin.rank, plan.origin.shard_spec)[name])
    return start, min(size, start + chunk) - start, chunk


@fault("shards", _inject_into_one)
def other_axis(plan: Plan, chance: random.Random) -> Plan:
    """A dimension is stated to be split by another axis, under which the rank would hold another part."""
    s = require_section(plan.shards, "shards")
    axes = (*range(len(sharding.mesh_axes(plan.origin.shard_spec))), NONE)
    d, a = some(chance, [
        (d, a) for d in range(len(s.size)) for a in axes
        if part_of(plan, int(s.size[d]), a) != (int(s.start[d]), int(s.held[d]), int(s.chunk[d]))
    ])  # fmt: skip
    return changed(plan, "shards", d, axis=a)


@fault("shards", _inject_into_one)
def other_bytes(plan: Plan, chance: random.Random) -> Plan:
    """The bytes of a tensor are not those of the part that the rank holds."""
    r = some(chance, require_section(plan.shards, "shards").tensor.tolist())
    old = int(plan.allocation.tensors.bytes[r])
    return changed(plan, "tensors", r, bytes=chance.choice([n for n in range(old + 9) if n != old]))


@fault("shards", _inject_into_one)
def no_part(plan: Plan, chance: random.Random) -> Plan:
    """The plan of a rank states no part of a tensor that the caller writes."""
    s, t = require_section(plan.shards, "shards"), plan.allocation.tensors
    gone = some(chance, [k for k, r in enumerate(s.tensor.tolist()) if t.writer[r] == NONE])
    at = s.dims_at.tolist()
    lo, hi = at[gone], at[gone + 1]
    flat = {name: build_column([*values[:lo], *values[hi:]], values.dtype.type)
            for name in s.DIMENSIONS for values in (getattr(s, name),)}  # fmt: skip
    rows = build_column([r for k, r in enumerate(s.tensor.tolist()) if k != gone], s.tensor.dtype.type)
    bounds = build_column([*at[: gone + 1], *(x - (hi - lo) for x in at[gone + 2 :])], s.dims_at.dtype.type)
    return amend_plan(plan, shards=replace(s, tensor=rows, dims_at=bounds, **flat))


def _no_padding(case: Case, chance: random.Random) -> Injected:
    """The spec is stated to allow no padding, and some dimension does not divide."""
    wrong = chance.choice(case.plans)
    s, mesh = require_section(wrong.shards, "shards"), sharding.mesh_axes(wrong.origin.shard_spec)
    split = [(n, a) for n, a in zip(s.size.tolist(), s.axis.tolist(), strict=True) if a != NONE]
    require(any(size % mesh[axis][1] for size, axis in split))
    return Injected((file.encode(amend_plan(wrong, shard_spec={**wrong.origin.shard_spec, "pad": False})),))


no_padding = fault("shards", in_case, name="no_padding")(_no_padding)
no_padding_of_the_model = fault("shards", in_case, name="no_padding_of_the_model", with_model=True)(_no_padding)


@fault("one_shard_spec", _inject_among_all)
def other_spec(plan: Plan, chance: random.Random) -> Plan:
    """A plan states another shard spec of the same mesh."""
    spec = plan.origin.shard_spec
    more = {"op": f"Op{chance.randrange(1 << 30)}", "across": [-1]}
    return amend_plan(plan, shard_spec={**spec, "operators": [*spec["operators"], more]})


@fault("every_rank_once", in_case)
def repeated(case: Case, chance: random.Random) -> Injected:
    """Two plans have one rank: the same plan twice, the plan of another seed, or the plan of another rank."""
    one, other = chance.sample(range(len(case.plans)), 2)
    again, how = case.plans[one], chance.randrange(5)
    if how:
        of = case.plans[chance.choice((one, other))]
        again = amend_plan(of, rank=again.origin.rank, replay_token=chance.randbytes(32))
    return _files(case, other, {other: again})


def _peers(case: Case, which: int) -> list[int]:
    """Return the ranks of the stage of one rank, including it."""
    steps = case.plans[which].allocation.steps
    return [k for k, plan in enumerate(case.plans) if plan.allocation.steps == steps]


@fault("layouts_agree", in_case)
def disagree(case: Case, chance: random.Random) -> Injected:
    """One rank of a stage has another layout than its peers: a storage is moved up, after all others."""
    which = some(chance, [k for k in range(len(case.plans)) if len(_peers(case, k)) > 1])
    plan = case.plans[which]
    k = some(chance, range(len(plan.allocation.storages)))
    strict = alignment_of(plan, k)
    end = -(-claim(plan, int(plan.allocation.storages.arena[k]), "footprint") // strict) * strict
    return _files(case, which, {which: changed(plan, "storages", k, offset=end + strict * chance.randrange(3))})


@fault("shards_cover", in_case)
def uncovered(case: Case, chance: random.Random) -> Injected:
    """No rank holds the first element of a dimension of one tensor, or each holds less than its part."""
    shards = [require_section(plan.shards, "shards") for plan in case.plans]
    found = [d for d in range(len(shards[0].size)) if shards[0].held[d] > 0]
    names = case.plan.allocation.tensors.name
    for plan, s in zip(case.plans, shards, strict=True):  # no plan is of another stage
        require(plan.allocation.tensors.name == names and s.dims_at.tolist() == shards[0].dims_at.tolist())
    d, cut = some(chance, found), chance.randrange(2)
    wrong = {
        k: changed(plan, "shards", d, start=int(s.start[d]) + (not cut), held=int(s.held[d]) - 1)
        for k, (plan, s) in enumerate(zip(case.plans, shards, strict=True)) if s.held[d]
    }  # fmt: skip
    return _files(case, 0, wrong)


held_otherwise = fault("shards_cover", _inject_among_all, name="held_otherwise")(other_part.edit)
"""One rank holds a stretch that is not its own, of a tensor whose layout does not depend on it."""


@fault("ranks_meet", in_case)
def unmet(case: Case, chance: random.Random) -> Injected:
    """One rank, or every rank of its stage, calls a collective differently from its partners."""
    which, row = some(chance, [
        (k, row) for k, plan in enumerate(case.plans) for row in sorted(set(plan.allocation.steps.op.tolist()))
        if plan.allocation.ops[row][0].startswith(f"{MESH}/")
        and not plan.allocation.ops[row][1].startswith("Shard")
    ])  # fmt: skip
    known = case.plans[which].allocation.ops
    domain, op = known[row]
    ranks = [which]
    if op.startswith(("Send", "Recv")):  # the other end is in another stage
        ranks = _peers(case, which)
    else:
        require(len(_peers(case, which)) > 1)
    names = ("AllReduce", "AllGather", "ReduceScatter", f"Gossip{chance.randrange(100)}", "Send.9999999999")
    other = chance.choice([name for name in names if name != op])
    wrong = chance.choice([(domain, other), (f"{MESH}/nowhere", op), ("com.example", op)])
    require(wrong not in known)
    ops = tuple(wrong if k == row else each for k, each in enumerate(known))
    return _files(case, which, {k: amend_plan(case.plans[k], ops=ops) for k in ranks})


@fault("each_plan", in_case)
def refuted_rank(case: Case, chance: random.Random) -> Injected:
    """The plan of one rank is refuted, so the plans of all ranks are not proved."""
    which = chance.randrange(len(case.plans))
    body = file.to_object(case.plans[which])
    name = chance.choice(("plan_hash", "file_digest", "arena_config_hash", "execution_order_hash"))
    where = body if name in body else body["provenance"]
    where[name] = turned(where[name], chance, 32)
    data = list(case.plan_files)
    data[which] = canonical.encode(body)
    return Injected(tuple(data), which)


def turned(data: bytes, chance: random.Random, end: int) -> bytes:
    """Return the bytes with one bit of the first `end` flipped."""
    found = bytearray(data)
    found[chance.randrange(end)] ^= 1 << chance.randrange(8)
    return bytes(found)
