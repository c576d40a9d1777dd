"""No false lemma is proved, in whatever way it is stated; and each check of the engine is needed for that.

spec: V4.9, V4.16, V4.18, V4.19, V4.20
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.proving.lemmas.engine import statements
from proofs.proving.lemmas.engine.family import Family
from proofs.proving.lemmas.engine.proving import PROVED, prove_all
from tests.support.false_lemmas import ATTACKS

NUMBERS = st.integers(-9, 9)


def is_proved(family: Family) -> bool:
    """Whether the lemma `false` of a family is proved."""
    return any(report.verdict == PROVED for report in prove_all([family]) if report.name == "false")


@given(attack=st.sampled_from(sorted(ATTACKS)), a=NUMBERS, b=NUMBERS)
def test_no_false_lemma_is_proved(attack: str, a: int, b: int) -> None:
    assert not is_proved(ATTACKS[attack].make(a, b))


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_false_lemma_is_proved_if_the_check_that_refuses_it_is_left_out(
    attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attack is one, and none of the checks could be dropped unnoticed."""
    make, (owner, name), without = ATTACKS[attack]
    monkeypatch.setattr(owner, name, without)
    try:
        assert is_proved(make(3, -2))
    finally:
        statements._read_given.cache_clear()  # it has accepted what it would refuse
