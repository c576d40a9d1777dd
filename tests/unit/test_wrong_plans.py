"""Every row of the table of wrong plans, against naive checker, solver and `verify-plan`.

The kernel's program is asked in `tests/integration/kernel/test_wrong_plans.py`.

spec: T1.1, T1.3, T1.4, T1.6, T2.1, T2.2, T2.3, T2.9, T2.10, T2.11, T3.1, T5.1, T6.3, T6.4, T7.1, T7.2, T8.1, T8.2
spec: T8.3, T8.8, T8.9, T8.10, T8.11, T8.12, T8.13, T8.14, V1.1, V1.2, V1.3, V1.4, V1.5, V1.6, V1.7, V1.9, V1.10
spec: V1.11, V1.13, V1.15, V2.3, V5.1, A1.1, A1.2, A1.3, A2.4, A3.1, A7.1, I1.9, M1.1, M3.1, M3.4, M3.10, M3.16, P1.1
spec: P2.3, P2.4, P2.5, C1.5
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proofs.definition.checker import execute
from proofs.definition.violations import Obligation
from proofs.proving.obligations import MODULES, OF_STREAMS, PRELUDE
from proofs.proving.solvers.process import Z3
from proofs.verify.judge import judge
from proofs.verify.options import Options
from tests.support.wrong_plans import TABLE
from tests.support.wrong_plans.answers import found, places_found, places_refuted
from tests.support.wrong_plans.row import Row, prefix
from tmmu.core.vocabulary import Bindings
from tmmu.plans import file

SOLVER = Z3(PRELUDE)
ROWS = MODULES | OF_STREAMS
WRONG = [row for row in TABLE if row.places]
OF_BYTES = [row for row in TABLE if row.obligation is Obligation.SHARING_IS_SOUND]


@pytest.fixture(scope="module", autouse=True)
def _closing() -> Iterator[None]:
    yield
    SOLVER.close()


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_the_checker_finds_what_is_wrong_and_nothing_else(row: Row) -> None:
    assert "; ".join(places_found(row)) == row.places.partition(" / ")[0]


@pytest.mark.parametrize("row", OF_BYTES, ids=str)
def test_a_sweep_over_operands_and_results_finds_the_same(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made of many; few are compared each with each."""
    monkeypatch.setattr(execute, "FEW_PAIRS", 0)
    assert "; ".join(places_found(row)) == row.places.partition(" / ")[0]


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_rows_of_the_same_obligations_are_false(row: Row) -> None:
    """Those that the solver is asked about. They name the same tensors, unless the row says what else."""
    refuted = places_refuted(row, SOLVER)
    _, _, expected = row.places.partition(" / ")
    if expected:
        assert "; ".join(" ".join([*prefix(o, row.obligation), place]) for o, place in refuted.items()) == expected
        return
    violations = [violation for violation in found(row) if violation.obligation in ROWS]
    assert refuted.keys() == {violation.obligation for violation in violations}
    for obligation, place in refuted.items():
        names, _, step = place.partition("@")
        same = [violation for violation in violations if violation.obligation == obligation]
        assert set(names.replace("the plan", "").split()) == {name for violation in same for name in violation.tensors}
        assert not step or int(step) in {violation.step for violation in same}


@pytest.mark.parametrize("row", WRONG, ids=str)
def test_verify_plan_refutes_its_file_with_the_first_violation_as_the_witness(row: Row) -> None:
    """It is a plan: what is wrong with it is not for the gate to find. spec: V4.4"""
    options = Options(bindings=Bindings(donated=tuple(row.donated)))
    verdict = judge("row", file.decode(file.encode(row.plan())), options)
    first, *_ = violations = found(row)
    assert verdict.witness is not None
    assert (verdict.verdict, verdict.exit) == ("REFUTED", 1)
    assert {**verdict.witness, **first.witness()} == verdict.witness
    refuted = {entry["name"] for entry in verdict.obligations if entry["verdict"] == "REFUTED"}
    assert refuted == {violation.obligation for violation in violations}


def test_every_obligation_that_steps_and_storages_have_is_violated() -> None:
    """And each has right plans beside the wrong ones."""
    compared = {Obligation.BODIES_NEST, Obligation.ROLES_HAVE_ARENAS}
    for rows in (WRONG, [row for row in TABLE if not row.places]):
        assert {row.obligation for row in rows} == {*ROWS, *compared}
    assert len({str(row) for row in TABLE}) == len(TABLE)
