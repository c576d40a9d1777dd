"""Check that the ranks can communicate: every collective has all of its ranks, and no two wait for each other forever.

Each rank runs its steps in order. A collective takes place when all ranks of its group have reached it, each with the
same bytes. A send and its receive take place when both ranks have reached them: no buffering is assumed. If this run
reaches the end for all ranks, no run can stop before it. spec: R7.26
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from proofs.definition.violations import Obligation, Violation
from proofs.readers.operators import COLLECTIVES
from proofs.sharding.mesh import Mesh
from tmmu.plans.sections import Plan

NONE = -1
"""No place along an axis, because the mesh does not have the axis."""


class Communication(NamedTuple):
    """A communication step: its kind and the ranks that take part.

    (A stated mesh may be huge, but a range costs nothing.)

    Empty `ranks` represent a collective that this mesh does not have. `step` is its name in this rank's plan. `carries`
    are the bytes and the element type of each tensor that this rank sends or, in a receive, takes.
    """

    what: tuple[str, ...]
    ranks: Sequence[int]
    step: str
    carries: tuple[tuple[int, str], ...] = ()


def communications(plan: Plan) -> list[Communication]:
    """Return the communication steps of a rank, in the order of its plan. O(steps)."""
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
            found.append(Communication((op, axis, node), (), node))
        elif kind in ("AllReduce", "AllGather", "ReduceScatter"):
            first = rank - here * mesh.stride[axis]
            stride = mesh.stride[axis]
            group = range(first, first + mesh.size[axis] * stride, stride)
            found.append(Communication((op, axis, node), group, node, carries))
        elif kind in ("Send", "Recv") and (there := _place(detail, mesh.size[axis])) not in (NONE, here):
            peer = rank + (there - here) * mesh.stride[axis]
            ends = (rank, peer) if kind == "Send" else (peer, rank)
            found.append(Communication(("Send", axis, *(names[t] for t in tensors)), ends, node, carries))
        elif kind != "Shard":  # each rank cuts its part out of a tensor that it has, without the others
            found.append(Communication((op, axis, node), (), node))
    return found


def _place(detail: str, places: int) -> int:
    """Return the place along an axis that the name of a send or receive ends with, or NONE if it does not exist."""
    place = int(detail) if detail.isdecimal() and len(detail) < 11 else NONE
    return place if place < places else NONE


def find_deadlock(by_rank: Mapping[int, Sequence[Communication]]) -> Violation | None:
    """Run all ranks until none can continue.

    Return a violation with ranks that wait for each other, or None at the end.

    No collective takes place if ranks reach it with different sizes or element types, or if the mesh does not have it.

    O(communication steps): each rank advances at most once for each of its own.
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
                        f"rank {rank} reaches {meeting.step} with {_load(meeting)}, "
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
        text = f"rank {stuck[0]} reaches {at.step}: {at.what[0]} over {at.what[1]!r} is not a collective of its mesh"
        return _unmet(text, stuck[0])
    # The first rank that it waits for and that is not there: it is at another step, at the end, or not in the mesh.
    other = next((other for other in at.ranks if not _is_at(by_rank, next_of, other, at)), stuck[0])
    where = "is not a rank of the mesh"
    if other in by_rank:
        left = by_rank[other][next_of[other] :]
        where = f"waits in {left[0].step}" if left else "has ended"
    return _unmet(f"rank {stuck[0]} waits in {at.step} for rank {other}, which {where}", stuck[0], other)


def _unmet(text: str, *ranks: int) -> Violation:
    return Violation(Obligation.RANKS_MEET, text, ranks=tuple(sorted(set(ranks))))


def _load(meeting: Communication) -> str:
    return ", ".join(f"{size} bytes of {kind}" for size, kind in meeting.carries) or "nothing"


def _is_at(
    by_rank: Mapping[int, Sequence[Communication]], next_of: Mapping[int, int], rank: int, meeting: Communication
) -> bool:
    if rank not in by_rank or next_of[rank] >= len(by_rank[rank]):
        return False
    return by_rank[rank][next_of[rank]][:2] == meeting[:2]
