"""The kernel's program on every row of the table of wrong plans. spec: V6.1, V6.6, V6.7"""

from __future__ import annotations

import pytest

from proofs.proving.kernel.answer import kernel_answer
from proofs.proving.kernel.program import PlanFile
from tests.support.wrong_plans import TABLE
from tests.support.wrong_plans.answers import context
from tests.support.wrong_plans.row import Row


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_it_rejects_what_is_wrong_unless_the_row_says_why_not(row: Row) -> None:
    """A right plan it accepts, unless the row says why not. It judges plans with streams, as they are. spec: X5.12"""
    rejects = bool(row.places) != bool(row.kernel)
    assert kernel_answer(context(row), PlanFile.of(row.plan()), 60)["answer"] == ("rejected" if rejects else "accepted")
