"""Prove that a chain of a few cells, unfolded without recursion, means the same as on the list.

Tests: `tests/unit/test_recursion.py`.
spec: V4.1, V4.3
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Mutant
from proofs.proving.lemmas.plan.chains import UNFOLDED, Unfolded
from proofs.proving.smt.expressions import text_of


def _lemma(of: Unfolded) -> Lemma:
    (first, _), (second, _), *_ = of.parameters
    begins = f"({of.name} {first} {second}"
    cells = "1 cell" if of.width == 1 else f"{of.width} cells"
    return Lemma(
        f"{of.name}_is_{of.chain}",
        f"The function `{of.name}` of {cells} equals `{of.chain}` of the list of these cells.",
        dict(of.parameters),
        f"(= ({of.name} {' '.join(name for name, _ in of.parameters)}) {text_of(of.call)})",
        mutants=(Mutant("two numbers change places", begins, f"({of.name} {second} {first}"),),
    )


LEMMAS = tuple(map(_lemma, UNFOLDED))
