"""Check that every element of every tensor is in exactly one place of the axes that split it, naively and by a solver.

The naive side sorts the stated parts of all ranks and looks for the first gap or overlap. The solver proves, for all
sizes at once, that equal chunks hold each element exactly once, and evaluates that every stated part is such a chunk.
An axis splits at most one dimension of a tensor, so that a property of each dimension holds for their product.
spec: R7.24, R7.25
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from proofs.definition.violations import Obligation, Violation
from proofs.proving.lemmas.plan.cover import DEFINITIONS, STATEMENTS
from proofs.proving.solvers import Solver, refutation
from proofs.sharding.mesh import Mesh
from proofs.sharding.parts import Dimension

Parts = Mapping[str, tuple[Dimension, ...]]

ROWS = 2000
"""The number of stated parts that one query evaluates."""


def find_holes(mesh: Mesh, by_rank: Mapping[int, Parts], pipeline: str) -> Iterator[Violation]:
    """Yield elements that no rank holds, or that ranks in two places hold, and ranks that contradict each other.

    O(ranks x dimensions), for the plans of all ranks.
    """
    holders: dict[str, list[int]] = {}
    for rank in sorted(by_rank):
        for name in by_rank[rank]:
            holders.setdefault(name, []).append(rank)

    def stage(rank: int) -> int:
        return mesh.at(rank, pipeline) if pipeline else 0

    stages: dict[int, list[int]] = {}
    for rank in sorted(by_rank):
        stages.setdefault(stage(rank), []).append(rank)
    for name, ranks in holders.items():
        held = set(ranks)
        absent = [rank for k in sorted(set(map(stage, ranks))) for rank in stages[k] if rank not in held]
        if absent:
            peer = next(rank for rank in ranks if stage(rank) == stage(absent[0]))
            yield _hole(name, (absent[0], peer), f"rank {peer} holds a part of {name}, but rank {absent[0]} does not")
            continue
        shapes = {tuple((d.size, d.axis) for d in by_rank[rank][name]): rank for rank in reversed(ranks)}
        if len(shapes) > 1:
            pair = tuple(sorted(shapes.values())[:2])
            yield _hole(name, pair, f"ranks {pair[0]} and {pair[1]} state other sizes or axes of {name}")
            continue
        for d in range(len(by_rank[ranks[0]][name])):
            yield from _along(mesh, name, d, {rank: by_rank[rank][name] for rank in ranks})


def _hole(tensor: str, ranks: tuple[int, ...], text: str, element: tuple[int, ...] | None = None) -> Violation:
    return Violation(Obligation.SHARDS_COVER, text, (tensor,), ranks=ranks, element=element)


def _along(mesh: Mesh, name: str, d: int, dimensions: Mapping[int, tuple[Dimension, ...]]) -> Iterator[Violation]:
    """Check one dimension of one tensor: replicas are equal, and the parts at all places together cover it."""
    n, axis, _ = next(iter(dimensions.values()))[d]
    at: dict[int, int] = {}
    for rank, of in dimensions.items():
        first = at.setdefault(mesh.at(rank, axis) if axis else 0, rank)
        if of[d].part != dimensions[first][d].part:
            text = f"ranks {first} and {rank} hold different parts of dimension {d} of {name} and must hold the same"
            yield _hole(name, (first, rank), text)
            return
    reached, last = 0, -1
    for start, end, rank in sorted((dimensions[r][d].part.start, _end(dimensions[r][d]), r) for r in at.values()):
        if start == end:
            continue
        if start != reached:
            element = min(start, reached)
            others = (last, rank) if start < reached else ()
            yield _hole(name, others, _held(name, d, element, others), _element(dimensions[rank], d, element))
            return
        reached, last = end, rank
    if reached != n:
        yield _hole(name, (), _held(name, d, reached, ()), _element(next(iter(dimensions.values())), d, reached))


def _end(dimension: Dimension) -> int:
    return dimension.part.start + dimension.part.held


def _element(of: tuple[Dimension, ...], d: int, index: int) -> tuple[int, ...]:
    """Return an element with `index` in dimension `d` and, in each other dimension, a rank's first index."""
    return tuple(index if k == d else dimension.part.start for k, dimension in enumerate(of))


def _held(name: str, d: int, index: int, ranks: tuple[int, ...]) -> str:
    where = f"element {index} of dimension {d} of {name}"
    return f"{where} is held by ranks {ranks[0]} and {ranks[1]}" if ranks else f"no rank holds {where}"


def prove_cover(mesh: Mesh, by_rank: Mapping[int, Parts], solver: Solver, timeout_s: float) -> str | None:
    """Let a solver that has read `DEFINITIONS` prove its lemmas and evaluate every stated part.

    Returns None if all are proved, or the reason why one is not.
    """
    for lemma in STATEMENTS:
        answer = solver.evaluate(lemma.query(DEFINITIONS), timeout_s)
        if not answer.proof:
            return f"{lemma.name}: {answer.failure or f'the solver answers {answer.text[:200]!r}'}"
    rows: dict[str, None] = {}
    for rank, parts in by_rank.items():
        for dimensions in parts.values():
            for n, axis, (start, held, chunk) in dimensions:
                place, places = (mesh.at(rank, axis), mesh.size[axis]) if axis else (0, 1)
                rows[f"(is_chunk {n} {places} {chunk} {place} {start} {held})"] = None
    listed = list(rows)
    for k in range(0, len(listed), ROWS):
        answer = solver.evaluate(refutation("\n".join(listed[k : k + ROWS])), timeout_s)
        if not answer.proof:
            return answer.failure or f"the solver answers {answer.text[:200]!r} of the parts"
    return None
