"""Every row of the table of wrong models, against the planner's validation and the verifier's own reading.

spec: A1.3, I1.3, I1.4, I1.5, I1.9, I1.12, T2.5, T2.6, T8.6
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proofs.readers.models.ir import read_ir
from tests.support.wrong_models import NO_FILE, RIGHT, TABLE, UNORDERED, Accepted, Answer, WrongModel
from tmmu.core import canonical
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.ir import columns
from tmmu.ir.order import sort_topologically
from tmmu.ir.validate import validate_model


def refusal(of: Callable[[Model], object], model: Model) -> TmmuError | None:
    try:
        of(model)
    except TmmuError as error:
        return error
    return None


def named(error: TmmuError | None) -> str:
    """Return the place of a refusal, behind the code unless that is INVALID_IR."""
    return "accepted" if error is None else f"{error.code_id} {error.place}".removeprefix("INVALID_IR ")


def expected(answer: Answer) -> str:
    return "accepted" if isinstance(answer, Accepted) else answer


@pytest.mark.parametrize("row", [row for row in TABLE if row.planner is not NO_FILE], ids=str)
def test_the_planner_names_what_cannot_be_planned(row: WrongModel) -> None:
    error = refusal(validate_model, row.model)
    assert named(error) == expected(row.planner)
    assert error is None or (error.fix and error.operator == "UML_OS.Model.AnalyzeLiveness_v1")


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_the_verifier_names_what_it_cannot_read(row: WrongModel) -> None:
    assert named(refusal(read_ir, row.model)) == expected(row.verifier)


@pytest.mark.parametrize("row", [row for row in TABLE if row.planner is NO_FILE], ids=str)
def test_what_no_file_states_is_refused_as_one_is_written_or_read(row: WrongModel) -> None:
    with pytest.raises((TmmuError, OverflowError, IndexError)):
        columns.from_object(canonical.decode(canonical.encode(columns.to_object(row.model)), "IR"))


@pytest.mark.parametrize("row", [row for row in TABLE if row.planner is UNORDERED], ids=str)
def test_what_only_the_order_is_wrong_with_is_put_in_order_or_is_a_circle(row: WrongModel) -> None:
    error = refusal(lambda model: read_ir(sort_topologically(model)), row.model)
    assert error is None or error.code_id == "LIVENESS_CYCLE"


@pytest.mark.parametrize("model", RIGHT.values(), ids=RIGHT)
def test_right_models_are_accepted_by_both(model: Model) -> None:
    assert (refusal(validate_model, model), refusal(read_ir, model)) == (None, None)


def test_a_result_that_is_listed_twice_is_not_called_one_of_two_nodes() -> None:
    """Both have the same code and place."""
    model = {row.name: row.model for row in TABLE}
    twice, again = (refusal(validate_model, model[name]) for name in ("a result listed twice", "a result of two nodes"))
    assert twice is not None
    assert again is not None
    assert ("twice" in twice.what, "twice" in again.what) == (True, False)


def test_rows_have_names_of_their_own_and_something_is_refused_in_each() -> None:
    assert len({row.name for row in TABLE}) == len(TABLE)
    assert [row for row in TABLE if isinstance(row.planner, Accepted) and isinstance(row.verifier, Accepted)] == []
