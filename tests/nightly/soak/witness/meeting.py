"""Do all ranks come to the end, if each goes on only together with those that it meets? Tried out, one by one."""

from __future__ import annotations

from typing import NamedTuple

from tmmu.planner.sharding.local import coordinates
from tmmu.plans.sections import Plan

DOMAIN = "tmmu.mesh/"
TOGETHER = ("AllReduce", "AllGather", "ReduceScatter")


class Call(NamedTuple):
    """What a rank comes to: what it is called, by which ranks, and the bytes and types that are carried."""

    what: tuple[str, ...]
    ranks: frozenset[int]
    carries: tuple[tuple[int, str], ...]


def meet(plans: list[Plan]) -> bool:
    """Whether there is an order in which all ranks come to their end."""
    left = {plan.origin.rank: calls(plan, plans) for plan in plans}
    moved = True
    while moved:
        moved = False
        for rank, mine in left.items():
            if not mine or rank not in mine[0].ranks:
                continue
            heads = [left[other][:1] for other in mine[0].ranks if other in left]
            if len(heads) == len(mine[0].ranks) and all(head == [mine[0]] for head in heads):
                for other in list(mine[0].ranks):
                    left[other] = left[other][1:]
                moved = True
                break
    return not any(left.values())


def calls(plan: Plan, plans: list[Plan]) -> list[Call]:
    """Everything that a rank does together with others, in its order; what there is not is done with nobody."""
    t, spec = plan.allocation.tensors, plan.origin.shard_spec
    here = coordinates(plan.origin.rank, spec)
    where = {other.origin.rank: coordinates(other.origin.rank, spec) for other in plans}
    found = []
    lists = zip(
        plan.allocation.steps.node,
        plan.allocation.steps.op.tolist(),
        plan.allocation.steps.listed("reads"),
        plan.allocation.steps.listed("writes"),
        strict=True,
    )
    for node, row, reads, writes in lists:
        domain, op = plan.allocation.ops[row]
        kind, _, detail = op.partition(".")
        if not domain.startswith(DOMAIN) or kind == "Shard":
            continue
        axis = domain.removeprefix(DOMAIN)
        rows = writes if kind == "Recv" else reads
        carries = tuple((int(t.bytes[r]), plan.allocation.dtypes[int(t.dtype[r])]) for r in rows)
        alike = [r for r, at in where.items() if {**at, axis: 0} == {**here, axis: 0}] if axis in here else []
        if kind in TOGETHER:
            found.append(Call((op, axis, node), frozenset(alike), carries))
        elif kind in ("Send", "Recv"):
            peer = [r for r in alike if str(where[r][axis]) == detail]
            ends = (plan.origin.rank, *peer) if kind == "Send" else (*peer, plan.origin.rank)
            what = ("Send", axis, *map(str, ends), *(t.name[r] for r in rows))
            found.append(Call(what, frozenset(ends) if peer else frozenset(), carries))
        else:
            found.append(Call((op, axis, node), frozenset(), carries))
    return found
