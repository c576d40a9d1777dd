"""Do the ranks meet: every collective has all of its ranks, and no two wait for each other for ever.

Each rank runs its steps in order. A collective takes place when all ranks of its group have come to it with as many
bytes each; a send and its receive, when both have: nothing is assumed to wait in a buffer. Where that runs to the end
for all ranks, no run can end before it.
spec: R7.26
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from proofs.definition.violations import Obligation, Violation
from proofs.readers.operators import COLLECTIVES
from proofs.sharding.mesh import Mesh
from tmmu.plans.sections import Plan

NONE = -1
"""No place along an axis: the mesh does not have it."""


class Meeting(NamedTuple):
    """One thing that ranks do together: what, and which ranks (a stated mesh may be huge: a range costs nothing).

    No ranks at all stand for a collective that this mesh does not have. `step` is its name in this rank's plan, and
    `carries` are the bytes and the element type of each tensor that this rank gives or, of a receive, takes.
    """

    what: tuple[str, ...]
    ranks: Sequence[int]
    step: str
    carries: tuple[tuple[int, str], ...] = ()


def meetings(plan: Plan) -> list[Meeting]:
    """The meetings that a rank comes to, in the order of its steps. O(steps)."""
    mesh, rank, found = Mesh(plan.origin.shard_spec), plan.origin.rank, []
    names, reads, writes = (
        plan.allocation.tensors.name,
        plan.allocation.steps.listed("reads"),
        plan.allocation.steps.listed("writes"),
    )
    sizes, types = (
        plan.allocation.tensors.bytes.tolist(),
        [plan.allocation.dtypes[row] for row in plan.allocation.tensors.dtype.tolist()],
    )
    for s, (node, row) in enumerate(zip(plan.allocation.steps.node, plan.allocation.steps.op.tolist(), strict=True)):
        domain, op = plan.allocation.ops[row]
        axis = domain.removeprefix(COLLECTIVES)
        if not domain.startswith(COLLECTIVES):
            continue
        kind, _, detail = op.partition(".")
        here = mesh.at(rank, axis) if axis in mesh.size else NONE
        tensors = (writes if kind == "Recv" else reads)[s]
        carries = tuple([(sizes[t], types[t]) for t in tensors])
        if here == NONE:
            found.append(Meeting((op, axis, node), (), node))
        elif kind in ("AllReduce", "AllGather", "ReduceScatter"):
            first = rank - here * mesh.stride[axis]
            stride = mesh.stride[axis]
            group = range(first, first + mesh.size[axis] * stride, stride)
            found.append(Meeting((op, axis, node), group, node, carries))
        elif kind in ("Send", "Recv") and (there := _place(detail, mesh.size[axis])) not in (NONE, here):
            peer = rank + (there - here) * mesh.stride[axis]
            ends = (rank, peer) if kind == "Send" else (peer, rank)
            found.append(Meeting(("Send", axis, *(names[t] for t in tensors)), ends, node, carries))
        elif kind != "Shard":  # each rank cuts its own part out of what it has, and waits for no other
            found.append(Meeting((op, axis, node), (), node))
    return found


def _place(detail: str, places: int) -> int:
    """The place along an axis that the name of a send or receive ends with; NONE where the axis has no such place."""
    place = int(detail) if detail.isdecimal() and len(detail) < 11 else NONE
    return place if place < places else NONE


def waits(by_rank: Mapping[int, Sequence[Meeting]]) -> Violation | None:
    """Run all ranks until none can go on: which of them wait for each other; None where all come to the end.

    No collective takes place where ranks come with other sizes or element types, or to one that the mesh has not.

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
                its = by_rank[other][next_of[other]]
                if its.carries != meeting.carries:
                    text = (
                        f"rank {rank} comes to {meeting.step} with {_load(meeting)}, "
                        f"and rank {other} to {its.step} with {_load(its)}"
                    )
                    return _unmet(text, rank, other)
            for other in meeting.ranks:
                next_of[other] += 1
            ready.extend(other for other in meeting.ranks if other != rank)
    stuck = [rank for rank in sorted(by_rank) if next_of[rank] < len(by_rank[rank])]
    if not stuck:
        return None
    at = by_rank[stuck[0]][next_of[stuck[0]]]
    if not at.ranks:
        text = f"rank {stuck[0]} comes to {at.step}: {at.what[0]} over {at.what[1]!r} is no collective of its mesh"
        return _unmet(text, stuck[0])
    # The first rank that it waits for and that is not there: it is somewhere else, at the end, or no rank.
    other = next((other for other in at.ranks if not _is_at(by_rank, next_of, other, at)), stuck[0])
    where = "is no rank of the mesh"
    if other in by_rank:
        left = by_rank[other][next_of[other] :]
        where = f"waits in {left[0].step}" if left else "has come to its end"
    return _unmet(f"rank {stuck[0]} waits in {at.step} for rank {other}, which {where}", stuck[0], other)


def _unmet(text: str, *ranks: int) -> Violation:
    return Violation(Obligation.RANKS_MEET, text, ranks=tuple(sorted(set(ranks))))


def _load(meeting: Meeting) -> str:
    return ", ".join(f"{size} bytes of {kind}" for size, kind in meeting.carries) or "nothing"


def _is_at(by_rank: Mapping[int, Sequence[Meeting]], next_of: Mapping[int, int], rank: int, meeting: Meeting) -> bool:
    if rank not in by_rank or next_of[rank] >= len(by_rank[rank]):
        return False
    return by_rank[rank][next_of[rank]][:2] == meeting[:2]
