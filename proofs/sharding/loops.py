"""Find the loops of an operation that can be divided among ranks: those of its operator's row or of a shard spec.

spec: R7.9, R7.10, R7.11
"""

from __future__ import annotations

from collections.abc import Sequence

from proofs.readers.operators import row_of
from proofs.readers.operators.loops import NOTHING, Loops, Shape


def loops(domain: str, op: str, ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of an operator of ai.onnx that shapes determine. Any other operator has none.

    >>> [sorted(s) for s in loops("", "MatMul", [(8, 4), (4, 6)], [(8, 6)]).sets]
    [[('in', 0, 0), ('out', 0, 0)], [('in', 1, 1), ('out', 0, 1)], [('in', 0, 1), ('in', 1, 0)]]
    """
    if domain or not ins or not outs:
        return NOTHING
    rule = row_of("", op).loops
    return rule(ins, outs) if rule is not None else NOTHING


def stated_loops(across: Sequence[int], ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of an operator that works across the dimensions that the shard spec states.

    `across` counts dimensions from the last.
    """
    if not ins or not outs:
        return NOTHING
    main = ins[0]
    sets = []
    for d in range(len(main)):
        if d - len(main) in across:
            continue
        places = [("in", p, d) for p, s in enumerate(ins) if s == main]
        places += [("out", q, d) for q, s in enumerate(outs) if len(s) == len(main) and s[d] == main[d]]
        sets.append(frozenset(places))
    return Loops(tuple(sets))


def update_loops(like: Shape, ins: Sequence[Shape], outs: Sequence[Shape]) -> Loops:
    """Return the loops of an optimizer step, which walks all tensors of its parameter's shape together."""
    every = [("in", p, s) for p, s in enumerate(ins)] + [("out", q, s) for q, s in enumerate(outs)]
    sets = tuple(frozenset((side, p, d) for side, p, s in every if s == like) for d in range(len(like)))
    return Loops(sets, local=True, untouched=frozenset(q for q, s in enumerate(outs) if s != like))
