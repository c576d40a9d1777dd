"""Every lemma is proved by both solvers, by Z3 under ten seeds, and says something: what `prove-lemmas` would print.

A lemma that holds under one seed and not under another is luck; `unknown` is a failure. spec: V4.3, V4.9, V4.10
"""

from __future__ import annotations

import pytest

from proofs.proving.lemmas import families
from proofs.proving.lemmas.engine import proving
from proofs.proving.lemmas.engine.proving import PROVED

SEEDS = 10
"""For Z3; cvc5, which starts slowly, is asked under one."""


@pytest.mark.parametrize("file", families.FAMILIES)
def test_every_lemma_of_a_file_is_proved_under_ten_seeds_and_by_the_second_solver(file: str) -> None:
    """spec: V4.3, V4.9, V4.10"""
    by_z3 = list(proving.prove_all([families.FAMILIES[file]], solvers=("z3",), seeds=SEEDS))
    by_cvc5 = list(proving.prove_all([families.FAMILIES[file]], solvers=("cvc5",)))
    for report in (*by_z3, *by_cvc5):
        assert (report.verdict, report.open) == (PROVED, []), report.name
        assert report.twin
        assert report.mutants_refuted
    names = [lemma.name for lemma in families.FAMILIES[file].lemmas]
    assert [report.name for report in by_z3] == [report.name for report in by_cvc5] == names
    assert {report.seeds for report in by_z3} == {SEEDS}
