"""Lies about ranks: what one states that it holds, and plans of all ranks that do not fit together."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from proofs.readers.operators import COLLECTIVES
from tests.nightly.soak.lies.telling import Files, Lie
from tests.nightly.soak.scenes import Scene
from tmmu.core import canonical
from tmmu.core.columns import NONE, column
from tmmu.examples.broken.editing import changed
from tmmu.plan import file, sharding
from tmmu.plan.sections import Plan, amended
from tmmu.planner.sharding.local import coordinates


def _dimension(plan: Plan, d: int, **entries: int) -> Plan:
    """The plan with another word on one dimension of one part."""
    columns: dict[str, Any] = {}
    for name, value in entries.items():
        old = getattr(plan.shards, name)
        values = old.tolist()
        values[d] = value
        columns[name] = column(values, old.dtype.type)
    return amended(plan, shards=replace(plan.shards, **columns))


def _one(scene: Scene, chance: random.Random, tell: Callable[[Plan, random.Random], Plan | None]) -> Files | None:
    """One rank lies; its plan alone is given."""
    wrong = tell(chance.choice(scene.plans), chance)
    return None if wrong is None else Files((file.encode(wrong),))


def _files(scene: Scene, wrong: dict[int, Plan]) -> tuple[bytes, ...]:
    """The files of all ranks, with other plans of some."""
    return tuple(file.encode(wrong[k]) if k in wrong else right for k, right in enumerate(scene.plan_files))


def _together(scene: Scene, chance: random.Random, tell: Callable[[Plan, random.Random], Plan | None]) -> Files | None:
    """One rank lies; the plans of all are given."""
    which = chance.randrange(len(scene.plans))
    wrong = tell(scene.plans[which], chance)
    if wrong is None:
        return None
    return Files(_files(scene, {which: wrong}), which)


def other_part(plan: Plan, chance: random.Random) -> Plan | None:
    """A rank holds another stretch of a dimension than is its own."""
    s = plan.shards
    found = [d for d in range(len(s.size)) if s.held[d]]
    if not found:
        return None
    d = chance.choice(found)
    size, start, held = int(s.size[d]), int(s.start[d]), int(s.held[d])
    others = [
        (a, h) for a in range(size + 1) for h in range(min(size - a, int(s.chunk[d])) + 1) if (a, h) != (start, held)
    ]
    first, count = chance.choice(others)
    return _dimension(plan, d, start=first, held=count)


def part_of(plan: Plan, size: int, axis: int) -> tuple[int, int, int]:
    """First element, elements and places of a rank's part of a dimension: equal chunks, the last ones smaller."""
    if axis == NONE:
        return 0, size, size
    name, places = sharding.mesh(plan.origin.shard_spec)[axis]
    chunk = -(-size // places)
    start = min(size, chunk * coordinates(plan.origin.rank, plan.origin.shard_spec)[name])
    return start, min(size, start + chunk) - start, chunk


def other_axis(plan: Plan, chance: random.Random) -> Plan | None:
    """A dimension is said to be split by another axis, by which it would be another part."""
    s, axes = plan.shards, (*range(len(sharding.mesh(plan.origin.shard_spec))), NONE)
    found = [
        (d, a) for d in range(len(s.size)) for a in axes
        if part_of(plan, int(s.size[d]), a) != (int(s.start[d]), int(s.held[d]), int(s.chunk[d]))
    ]  # fmt: skip
    if not found:
        return None
    d, a = chance.choice(found)
    return _dimension(plan, d, axis=a)


def other_bytes(plan: Plan, chance: random.Random) -> Plan | None:
    """A part has not the bytes of its tensor."""
    rows = plan.shards.tensor.tolist()
    if not rows:
        return None
    r = chance.choice(rows)
    old = int(plan.allocation.tensors.bytes[r])
    return changed(plan, "tensors", r, bytes=chance.choice([n for n in range(old + 9) if n != old]))


def no_padding(scene: Scene, chance: random.Random) -> Files | None:
    """The spec is said to allow no padding, and some dimension does not divide."""
    wrong = chance.choice(scene.plans)
    s, mesh = wrong.shards, sharding.mesh(wrong.origin.shard_spec)
    split = [(int(n), int(a)) for n, a in zip(s.size.tolist(), s.axis.tolist(), strict=True) if a != NONE]
    if not any(size % mesh[axis][1] for size, axis in split):
        return None
    return Files((file.encode(amended(wrong, shard_spec={**wrong.origin.shard_spec, "pad": False})),))


def no_part(plan: Plan, chance: random.Random) -> Plan | None:
    """Of what the caller writes a rank says nothing."""
    s, t = plan.shards, plan.allocation.tensors
    found = [k for k, r in enumerate(s.tensor.tolist()) if t.writer[r] == NONE]
    if not found:
        return None
    gone, at = chance.choice(found), s.dims_at.tolist()
    lo, hi = at[gone], at[gone + 1]
    flat = {
        name: column([*getattr(s, name).tolist()[:lo], *getattr(s, name).tolist()[hi:]], getattr(s, name).dtype.type)
        for name in s.DIMENSIONS
    }
    rows = column([r for k, r in enumerate(s.tensor.tolist()) if k != gone], s.tensor.dtype.type)
    bounds = column([*at[: gone + 1], *(x - (hi - lo) for x in at[gone + 2 :])], s.dims_at.dtype.type)
    return amended(plan, shards=replace(s, tensor=rows, dims_at=bounds, **flat))


def other_spec(plan: Plan, chance: random.Random) -> Plan | None:
    """A plan is of another shard spec of the same mesh."""
    spec = {
        **plan.origin.shard_spec,
        "operators": [*plan.origin.shard_spec["operators"], {"op": f"Op{chance.randrange(1 << 30)}", "across": [-1]}],
    }
    return amended(plan, shard_spec=spec)


def repeated(scene: Scene, chance: random.Random) -> Files | None:
    """Two plans are of one rank: the same twice, made a second time from another seed, or that of another rank."""
    one, other = chance.sample(range(len(scene.plans)), 2)
    again, how = scene.plans[one], chance.randrange(5)
    if how:
        again = amended(
            scene.plans[chance.choice((one, other))], rank=again.origin.rank, replay_token=chance.randbytes(32)
        )
    return Files(_files(scene, {other: again}), other)


def other_layout(plan: Plan, chance: random.Random) -> Plan | None:
    """A rank's storages lie elsewhere than those of its peers: one is moved up, behind all others."""
    if not len(plan.allocation.storages):
        return None
    k = chance.randrange(len(plan.allocation.storages))
    a = int(plan.allocation.storages.arena[k])
    strict = max(int(plan.allocation.storages.alignment[k]), plan.allocation.arenas[a].alignment)
    end = -(-plan.usage[a].footprint // strict) * strict
    return changed(plan, "storages", k, offset=end + strict * chance.randrange(3))


def _peers(scene: Scene, which: int) -> int:
    """How many ranks are of the stage of one."""
    return sum(plan.allocation.steps == scene.plans[which].allocation.steps for plan in scene.plans)


def disagree(scene: Scene, chance: random.Random) -> Files | None:
    """One rank of a stage has another layout than its peers."""
    found = [k for k in range(len(scene.plans)) if _peers(scene, k) > 1]
    if not found:
        return None
    which = chance.choice(found)
    wrong = other_layout(scene.plans[which], chance)
    if wrong is None:
        return None
    return Files(_files(scene, {which: wrong}), which)


def _all_moved(scene: Scene, chance: random.Random, tell: Callable[[Plan], Plan]) -> Files:
    """Every rank tells the same lie, so that their layouts agree."""
    return Files(tuple(file.encode(tell(plan)) for plan in scene.plans), 0)


def uncovered(scene: Scene, chance: random.Random) -> Files | None:
    """Of one dimension of one tensor no rank holds the first element, or each holds less than its part."""
    s = scene.plan.shards
    found = [d for d in range(len(s.size)) if s.held[d] > 0]
    if not found:
        return None
    if any(not _same_shards(plan, scene.plan) for plan in scene.plans):
        return None  # of another stage
    d, cut = chance.choice(found), chance.randrange(2)

    def tell(plan: Plan) -> Plan:
        start, held = int(plan.shards.start[d]), int(plan.shards.held[d])
        if not held:
            return plan
        return _dimension(plan, d, start=start + (0 if cut else 1), held=held - 1)

    return _all_moved(scene, chance, tell)


def _same_shards(one: Plan, other: Plan) -> bool:
    return (
        one.allocation.tensors.name == other.allocation.tensors.name
        and one.shards.dims_at.tolist() == other.shards.dims_at.tolist()
    )


def held_otherwise(scene: Scene, chance: random.Random) -> Files | None:
    """One rank holds another stretch than is its own, of a tensor whose layout says nothing of it."""
    return _together(scene, chance, other_part)


def unmet(scene: Scene, chance: random.Random) -> Files | None:
    """One rank, or every rank of its stage, calls a collective otherwise than the ranks that it meets there."""
    found = [
        (k, row) for k, plan in enumerate(scene.plans) for row in sorted(set(plan.allocation.steps.op.tolist()))
        if plan.allocation.ops[row][0].startswith(COLLECTIVES) and not plan.allocation.ops[row][1].startswith("Shard")
    ]  # fmt: skip
    if not found:
        return None
    which, row = chance.choice(found)
    liar = scene.plans[which]
    domain, op = liar.allocation.ops[row]
    ranks = [which]
    if op.startswith(("Send", "Recv")):  # the other end is in another stage
        ranks = [k for k, plan in enumerate(scene.plans) if plan.allocation.steps == liar.allocation.steps]
    elif _peers(scene, which) < 2:
        return None
    others = [
        o
        for o in ("AllReduce", "AllGather", "ReduceScatter", f"Gossip{chance.randrange(100)}", "Send.9999999999")
        if o != op
    ]
    wrong = chance.choice([(domain, chance.choice(others)), (f"{COLLECTIVES}nowhere", op), ("com.example", op)])
    if wrong in liar.allocation.ops:
        return None
    ops = tuple(wrong if k == row else each for k, each in enumerate(liar.allocation.ops))
    return Files(_files(scene, {k: amended(scene.plans[k], ops=ops) for k in ranks}), which)


def refuted_rank(scene: Scene, chance: random.Random) -> Files | None:
    """The plan of one rank is refuted; that of all is then not proved."""
    which = chance.randrange(len(scene.plans))
    body = file.to_object(scene.plans[which])
    name = chance.choice(("plan_hash", "file_digest", "arena_config_hash", "execution_order_hash"))
    turned = bytearray(body[name])
    turned[chance.randrange(32)] ^= 1 << chance.randrange(8)
    data = list(scene.plan_files)
    data[which] = canonical.encode({**body, name: bytes(turned)})
    return Files(tuple(data), which)


def _alone(tell: Callable[[Plan, random.Random], Plan | None]) -> Callable[[Scene, random.Random], Files | None]:
    return lambda scene, chance: _one(scene, chance, tell)


LIES = (
    *(Lie("shards", tell.__name__, _alone(tell)) for tell in (other_part, other_axis, other_bytes, no_part)),
    Lie("shards", "no_padding", no_padding),
    Lie("shards", "no_padding_of_the_model", no_padding, with_model=True),
    Lie("one_shard_spec", "other_spec", lambda scene, chance: _together(scene, chance, other_spec)),
    Lie("every_rank_once", "repeated", repeated),
    Lie("layouts_agree", "disagree", disagree),
    Lie("shards_cover", "uncovered", uncovered),
    Lie("shards_cover", "held_otherwise", held_otherwise),
    Lie("ranks_meet", "unmet", unmet),
    Lie("each_plan", "refuted_rank", refuted_rank),
)
