"""Do the ranks meet: every collective has all of its ranks, and no two wait for each other for ever.

Each rank runs its steps in order. A collective takes place when all ranks of its group have come to it; a send and its
receive, when both have: nothing is assumed to wait in a buffer. Where that runs to the end for all ranks, no run can
end before it.
spec: R7.26
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from proofs.readers.operators import COLLECTIVES
from proofs.sharding.mesh import Mesh
from tmmu.plan.columns import Plan


class Meeting(NamedTuple):
    """One thing that ranks do together: what, and which ranks (a stated mesh may be huge: a range costs nothing).

    `step` is its name in this rank's plan.
    """

    what: tuple[str, ...]
    ranks: Sequence[int]
    step: str


def meetings(plan: Plan) -> list[Meeting]:
    """The meetings that a rank comes to, in the order of its steps. O(steps)."""
    mesh, rank, found = Mesh(plan.shard_spec), plan.rank, []
    names, reads, writes = plan.tensors.name, plan.steps.listed("reads"), plan.steps.listed("writes")
    for s, (node, row) in enumerate(zip(plan.steps.node, plan.steps.op.tolist(), strict=True)):
        domain, op = plan.ops[row]
        axis = domain.removeprefix(COLLECTIVES)
        if not domain.startswith(COLLECTIVES) or axis not in mesh.size:
            continue
        kind, _, detail = op.partition(".")
        here = mesh.at(rank, axis)
        if kind in ("AllReduce", "AllGather", "ReduceScatter"):
            first = rank - here * mesh.stride[axis]
            stride = mesh.stride[axis]
            group = range(first, first + mesh.size[axis] * stride, stride)
            found.append(Meeting((op, axis, node), group, node))
        elif kind in ("Send", "Recv") and detail.isdecimal() and len(detail) < 11:
            peer = rank + (int(detail) - here) * mesh.stride[axis]
            tensors = (reads if kind == "Send" else writes)[s]
            ends = (rank, peer) if kind == "Send" else (peer, rank)
            found.append(Meeting(("Send", axis, *(names[t] for t in tensors)), ends, node))
    return found


def waits(by_rank: Mapping[int, Sequence[Meeting]]) -> tuple[str, tuple[int, ...]] | None:
    """Run all ranks until none can go on: who waits then, in words and as ranks; None where all come to the end.

    O(meetings): each rank moves on at most once for each of its own.
    """
    next_of = dict.fromkeys(by_rank, 0)
    ready = list(by_rank)
    while ready:
        rank = ready.pop()
        while next_of[rank] < len(by_rank[rank]):
            meeting = by_rank[rank][next_of[rank]]
            there = [
                other in by_rank
                and next_of[other] < len(by_rank[other])
                and by_rank[other][next_of[other]][:2] == meeting[:2]
                for other in meeting.ranks
            ]
            if rank not in meeting.ranks or not all(there):
                break
            for other in meeting.ranks:
                next_of[other] += 1
            ready.extend(other for other in meeting.ranks if other != rank)
    stuck = [rank for rank in sorted(by_rank) if next_of[rank] < len(by_rank[rank])]
    if not stuck:
        return None
    at = by_rank[stuck[0]][next_of[stuck[0]]]
    # Whoever the first one waits for and is not there: that one is somewhere else, at the end, or no rank.
    others = [other for other in at.ranks if other != stuck[0] and not _is_at(by_rank, next_of, other, at)]
    other = others[0] if others else stuck[0]
    where = "is no rank of the mesh"
    if other in by_rank:
        left = by_rank[other][next_of[other] :]
        where = f"waits in {left[0].step}" if left else "has come to its end"
    return f"rank {stuck[0]} waits in {at.step} for rank {other}, which {where}", tuple(sorted({stuck[0], other}))


def _is_at(by_rank: Mapping[int, Sequence[Meeting]], next_of: Mapping[int, int], rank: int, meeting: Meeting) -> bool:
    if rank not in by_rank or next_of[rank] >= len(by_rank[rank]):
        return False
    return by_rank[rank][next_of[rank]][:2] == meeting[:2]
