"""The loops of an operation as text, from the planner's table and from the verifier's: `ik kj -> ij`.

A letter is a loop that can be divided, a point a dimension that is needed whole, `1` a tensor without dimensions. What
a result lacks is summed over. `+` at the end: a loop that does not divide evenly may be padded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from proofs.readers.operators.loops import Loops, Place
from tmmu.operators.relations import Relation

Shapes = Sequence[tuple[int, ...]]


def of_verifier(found: Loops, ins: Shapes, outs: Shapes) -> str:
    """What the verifier lets ranks divide."""
    reached = [{q for side, q, _ in places if side == "out"} | found.untouched for places in found.sets]
    divided = [
        places for places, of in zip(found.sets, reached, strict=True) if found.adds or of.issuperset(range(len(outs)))
    ]
    return _text(divided, ins, outs, found.local)


def of_planner(found: Relation, ins: Shapes, outs: Shapes) -> str:
    """What the planner lets ranks divide."""
    assert [len(of) for of in (*found.reads, *found.writes)] == [len(s) for s in (*ins, *outs)]
    divided = []
    for label in sorted({k for of in (*found.reads, *found.writes) for k in of if k is not None}):
        rows = (("in", found.reads), ("out", found.writes))
        places = {
            (side, p, d) for side, all_ in rows for p, of in enumerate(all_) for d, k in enumerate(of) if k == label
        }
        if found.sums or found.apart or all(label in of for of in found.writes):
            divided.append(places)
    return _text(divided, ins, outs, found.pointwise)


def _text(divided: Iterable[Iterable[Place]], ins: Shapes, outs: Shapes, padded: bool) -> str:
    loop_at = {place: k for k, places in enumerate(divided) for place in places}
    letters: dict[int, str] = {}

    def word(side: str, p: int, shape: tuple[int, ...]) -> str:
        found = [loop_at.get((side, p, d)) for d in range(len(shape))]
        return "".join("." if k is None else letters.setdefault(k, "ijklmnop"[len(letters)]) for k in found) or "1"

    sides = [[word(side, p, s) for p, s in enumerate(shapes)] for side, shapes in (("in", ins), ("out", outs))]
    return f"{' '.join(sides[0])} -> {' '.join(sides[1])}{'+' * (padded and bool(letters))}"
