"""What a lemma says of the planner's rules is what the planner does: both are run on random inputs, side by side.

`tests.support.ties` evaluates the lemma's own text beside the code. A change of one that is not made in the other
must show: `tests/nightly/test_ties.py` holds a copy of either side with one place changed against the other.
spec: V4.11
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.proving.lemmas import families
from proofs.proving.lemmas.planner import (
    align_up,
)
from tests.support import ties
from tests.support.ground import Ground, Unknown
from tests.support.tie_table import TIES, Tie, alignments
from tmmu.core import alignment
from tmmu.core.errors import TmmuError
from tmmu.planner import DEFAULT
from tmmu.planner import slots as planned_slots
from tmmu.planner.layouts import slots as slots_layout

ELSEWHERE = {"zeroing": "tests/property/test_zeroing_is_of_the_runtime.py", "pools": "tests/integration/models"}
"""Files of the planner's lemmas that another test ties: to the runtime, or to the steps of a module of `tla/`."""

BY_NAME = [pytest.param(tie, id=f"{tie.lemma}-{tie.code.__name__}") for tie in TIES]


@pytest.mark.parametrize("tie", BY_NAME)
@given(data=st.data())
def test_lemma_and_planner_agree(tie: Tie, data: st.DataObject) -> None:
    """spec: V4.11, A1.1, A1.2, T1.2, T6.2, T6.4, T8.3"""
    assert tie.disagreement(tie.texts, tie.code, data.draw(tie.examples)) is None


near_the_end = st.integers(0, 300).map(lambda k: (1 << 64) - k)


@given(st.one_of(near_the_end, st.integers(1, (1 << 64) - 1)), alignments, st.one_of(near_the_end, st.integers(1, 300)))
def test_an_overflow_is_told_where_the_lemma_says(offset: int, alignment: int, size: int) -> None:
    """A slot behind one of `offset` bytes: the planner refuses it exactly where a sum of 64 bits carries.

    spec: V4.11, A1.3
    """
    offset, size = min(offset, (1 << 64) - 1), min(size, (1 << 64) - 1)
    text = ties.texts_of(*align_up.LEMMAS)["an_end_overflows_exactly_where_a_sum_carries"]
    told = Ground(text, {"offset": offset, "alignment": alignment, "size": size}).value("reported")
    given = planned_slots.SlotAssignment([], [0, 0], [offset, size], [1, alignment])
    refusal = pytest.raises(TmmuError, match="beyond 64 bits") if told else contextlib.nullcontext()
    with refusal:
        slots_layout.slot_addresses(given, DEFAULT)


def test_every_file_of_lemmas_about_an_algorithm_is_tied_to_its_code() -> None:
    """Those of `plan` are evaluated on plans, those of `systems` on the steps of `tla/`. spec: V4.11"""
    tied = {tie.lemma for tie in TIES} - {"clique_bound"}
    files = [family.stem for family in families.FAMILIES.values() if family.folder == "planner"]
    assert sorted([*tied, *ELSEWHERE]) == sorted(files)


def test_ground_terms_have_the_values_of_smt_lib() -> None:
    ground = Ground("(define-fun double ((x Int)) Int (* 2 x))", {"c": 7}, {"Int": range(3)})
    values = {
        "(div (- 7) 2)": -4, "(mod (- 7) 2)": 1, "(div 7 (- 2))": -3, "(mod 7 (- 2))": 1, "(- 5)": -5,
        "(- 9 2 c)": 0, "(double (double 3))": 12, "(distinct 1 2 1)": False, "(< 1 2 3)": True, "(< 1 3 3)": False,
        "(=> true false)": False, "(forall ((x Int) (y Int)) (< (+ x y) 5))": True,
        "(exists ((x Int)) (= x 3))": False, "(bvnot (_ bv0 64))": (1 << 64) - 1,
        "(bvadd (bvnot (_ bv0 64)) (_ bv1 64))": 0,
    }  # fmt: skip
    assert {text: ground.value(text) for text in values} == values
    with pytest.raises(Unknown):
        ground.value("(f 1)")
    with pytest.raises(Unknown):
        ground.value("y")


def test_a_copy_is_changed_in_one_place_and_the_original_is_not() -> None:
    changed = ties.copied(alignment, "offset + alignment - 1", "offset")
    assert (changed.align_up(5, 4), alignment.align_up(5, 4)) == (4, 8)
    with pytest.raises(ValueError, match="occurs 0 times"):
        ties.copied(alignment, "no such text", "")
