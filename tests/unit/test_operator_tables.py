"""Three tables of operators that share nothing, compared on every operator that any of them has.

The planner's table decides what is planned, the verifier's what is believed, the simulator's what a run computes. They
are written apart, so that a mistake in one is seen. Each difference is declared with its reason.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from proofs.readers import operators as verifier
from proofs.readers.operators import KnownOperator
from proofs.readers.operators import row as verifiers_row
from tests.support.operator_rows import differing, missing_rows, rule_of, with_row
from tmmu import operators as planner
from tmmu.core.vocabulary import Node
from tmmu.onnx import table as reading
from tmmu.onnx.table import ReadOperator
from tmmu.operators import PlannedOperator
from tmmu.operators import row as planners_row
from tmmu.planner.training import gradients
from tmmu.simulator import operators as simulator
from tmmu.simulator.operators import SimulatedOperator

ROOT = Path(__file__).resolve().parents[2]
OPERANDS = ("a", "b", "c")
TABLES = (verifier.OPERATORS, planner.OPERATORS, simulator.OPERATORS, reading.OPERATORS)
KNOWN = sorted({op for table in TABLES for domain, op in table if not domain})
GRADIENTS = [f"{op}Grad" for op in KNOWN]
MADE_UP = "MadeUp"
"""An operator that ai.onnx does not have."""

WITH_BODIES = [
    *((domain, op) for domain in ("", "ai.onnx") for op in ("If", "Loop", "Scan", "SequenceMap")),
    *(("jax.lax", op) for op in ("cond", "while", "scan", "If")),
    *((domain, op) for domain in ("com.example", "tmmu.grad") for op in ("If", "cond", "Switch")),
]

IN_PLACE: dict[str, str] = {
    **dict.fromkeys(
        ("BitCast", "Identity", "SwiGLU", "Trilu"),
        "the planner's side offers no operand: it makes a view of an Identity, and plans the others as ordinary writes",
    ),
    "Dropout": "the importer makes a view of it, which at inference it is; a Dropout that trains is an ordinary write",
}
"""Operators that the planner's side lets take fewer operands' bytes than the verifier allows, with the reason."""


def test_every_operator_has_a_row_on_each_side() -> None:
    """The message names the file that lacks a row."""
    found = missing_rows(verifier.OPERATORS, planner.OPERATORS, simulator.OPERATORS)
    assert not found, "\n".join(found)
    assert len(KNOWN) > 180


def test_the_file_that_lacks_a_row_is_named() -> None:
    """For a made-up operator in one table, whichever it is, and for an operator whose row is removed."""
    known, planned, simulated = verifier.OPERATORS, planner.OPERATORS, simulator.OPERATORS

    def missing(*tables: Any) -> list[str]:
        return [each for each in missing_rows(*tables) if each.startswith((MADE_UP, "Reshape"))]

    assert missing(with_row(known, KnownOperator(MADE_UP, in_place=(0,))), planned, simulated) == [
        f"{MADE_UP} has a row in proofs/readers/operators/elementwise.py and none in tmmu/operators/elementwise.py",
        f"{MADE_UP} has a row in proofs/readers/operators/elementwise.py and none in tmmu/simulator/operators.py",
    ]
    assert missing(known, with_row(planned, PlannedOperator(MADE_UP, view=True)), simulated) == [
        f"{MADE_UP} has a row in tmmu/operators/elementwise.py and none in proofs/readers/operators/elementwise.py",
    ]
    assert missing(known, planned, with_row(simulated, SimulatedOperator(MADE_UP, bytewise=(0,)))) == [
        f"{MADE_UP} has a row in tmmu/simulator/operators.py and none in proofs/readers/operators/elementwise.py",
        f"{MADE_UP} has a row in tmmu/simulator/operators.py and none in tmmu/operators/elementwise.py",
    ]
    without = {key: row for key, row in planned.items() if key != ("", "Reshape")}
    assert missing(known, without, simulated) == [
        "Reshape has a row in proofs/readers/operators/movement.py and none in tmmu/operators/movement.py"
    ]


def test_the_file_that_lacks_a_rule_for_a_version_is_named() -> None:
    message = "proofs/readers/operators/windows.py has no rule for the sizes of Conv of version 99"
    with pytest.raises(AssertionError, match=re.escape(message)):
        rule_of({}, "", "Conv", 99)


def test_a_row_permits_nothing_that_it_does_not_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forward row gives the gradient step no permission. spec: V2.6"""
    step = Node("n", MADE_UP, (0,), (1,))
    for of_verifier, of_planner, of_simulator in (
        (KnownOperator(MADE_UP), PlannedOperator(MADE_UP), SimulatedOperator(MADE_UP)),
        (KnownOperator(MADE_UP, in_place=(0,)), PlannedOperator(MADE_UP, takes=(0,)),
         SimulatedOperator(MADE_UP, bytewise=(0,))),
        (KnownOperator(MADE_UP, view=verifier.ViewTime.ALWAYS), PlannedOperator(MADE_UP, view=True),
         SimulatedOperator(MADE_UP, shows=True)),
    ):  # fmt: skip
        monkeypatch.setattr(verifier, "OPERATORS", with_row(verifier.OPERATORS, of_verifier))
        monkeypatch.setattr(planner, "OPERATORS", with_row(planner.OPERATORS, of_planner))
        monkeypatch.setattr(simulator, "OPERATORS", with_row(simulator.OPERATORS, of_simulator))
        forward = verifier.is_view("", MADE_UP), verifier.overwritable("", MADE_UP, "a")
        assert forward == (of_verifier.view is not None, tuple("a"[: len(of_verifier.in_place)]))
        assert planner.takeable(MADE_UP, ["a"]) == list(forward[1])
        assert (simulator.is_view_result("", MADE_UP, 0), len(simulator.elementwise_operands("", MADE_UP))) == (
            forward[0],
            len(forward[1]),
        )
        gradient = f"{MADE_UP}Grad"
        assert verifier.overwritable(verifier.GRADIENTS, gradient, "a") == ()
        assert not verifier.is_view(verifier.GRADIENTS, gradient)
        assert not verifier.shows_in_every_result(verifier.GRADIENTS, gradient)
        rule = gradients.gradient_rule(step)
        assert (rule.in_place, rule.passes, rule.reshapes) == (False, False, False)
        assert gradients.gradient_reads(step, 0) == (0, 1)
        assert simulator.elementwise_operands(simulator.DOMAIN, gradient) == ()
        assert not simulator.is_view_result(simulator.DOMAIN, gradient, 0)
        assert verifier.iterates("", MADE_UP)
        assert planner.iterates("", MADE_UP)
        assert simulator.iterates("", MADE_UP)


def test_a_gradient_shares_what_its_own_row_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forward operator gains nothing from it. spec: V2.6"""
    row = KnownOperator(MADE_UP, gradient=verifiers_row.Gradient(in_place=True))
    monkeypatch.setattr(verifier, "OPERATORS", with_row(verifier.OPERATORS, row))
    assert verifier.overwritable(verifier.GRADIENTS, f"{MADE_UP}Grad", "a") == ("a",)
    assert verifier.overwritable("", MADE_UP, "a") == verifier.overwritable("", f"{MADE_UP}Grad", "a") == ()


@pytest.mark.parametrize(
    ("collect", "row"),
    [
        (lambda rows: verifiers_row.merge_rows([rows]), KnownOperator(MADE_UP)),
        (lambda rows: planners_row.collect([rows]), PlannedOperator(MADE_UP)),
        (simulator.by_name, SimulatedOperator(MADE_UP)),
        (reading.by_operator, ReadOperator(MADE_UP)),
    ],
)
def test_an_operator_has_one_row(collect, row) -> None:  # type: ignore[no-untyped-def]
    """A second row is refused when the table is made."""
    assert dict(collect((row,))) == {("", MADE_UP): row}
    other = type(row)(MADE_UP, "com.example")
    assert len(collect((row, other))) == 2
    with pytest.raises(ValueError, match=MADE_UP):
        collect((row, other, type(row)(MADE_UP)))


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_all_tables_have_the_same_views(domain: str) -> None:
    """spec: T3.2, T3.3"""
    assert differing(KNOWN, lambda op: planner.row_of(domain, op).view, lambda op: verifier.is_view(domain, op)) == {}
    assert (
        differing(KNOWN, lambda op: simulator.is_view_result(domain, op, 0), lambda op: verifier.is_view(domain, op))
        == {}
    )
    assert differing(KNOWN, lambda op: simulator.is_view_result(domain, op, 1), lambda op: False) == {}


def test_planner_and_verifier_show_the_operands_of_the_same_operators_at_inference_alone() -> None:
    """spec: V2.5, M2.15"""

    def verified(op: str) -> bool:
        return verifier.row_of("", op).view is verifier.ViewTime.AT_INFERENCE

    assert differing(KNOWN, lambda op: planner.row_of("", op).only_at_inference, verified) == {}
    assert list(filter(verified, KNOWN)) == ["Dropout"]


def test_planner_and_verifier_reshape_the_gradients_of_the_same_views() -> None:
    """A Dropout that trains is none. spec: M2.5"""

    def planned(op: str) -> bool:
        found = planner.row_of("", op).gradient
        return found is not None and found.reshapes

    def verified(op: str) -> bool:
        found = verifier.row_of("", op).gradient
        return found is not None and found.reshapes

    assert differing(KNOWN, planned, verified) == {}
    assert {op for op in KNOWN if verified(op)} == {op for op in KNOWN if verifier.is_view("", op)} - {"Dropout"}
    assert {op for op in KNOWN if verified(op)} == {op for op in KNOWN if reading.row_of("", op).same_elements}


def test_gradients_that_show_the_gradient_of_the_result_are_the_same() -> None:
    """Every result of such a step shows it. spec: M2.5"""

    def planned(op: str) -> bool:
        return gradients.gradient_rule(Node("n", op.removesuffix("Grad"), (0,), (1,))).passes

    def verified(op: str) -> bool:
        return verifier.shows_in_every_result(verifier.GRADIENTS, op)

    assert differing(GRADIENTS, planned, verified) == {}
    for result in (0, 1):
        assert differing(GRADIENTS, lambda op, k=result: simulator.is_view_result("tmmu.grad", op, k), verified) == {}  # type: ignore[misc]
    assert gradients.DOMAIN == verifier.GRADIENTS == simulator.DOMAIN
    assert sum(map(verified, GRADIENTS)) == 2


def test_the_planners_side_offers_what_the_verifier_allows_but_where_declared() -> None:
    """For the same operands, also if one comes twice. spec: T3.2, T3.10"""
    for operands in (OPERANDS, ("a", "a", "b"), ("a", "b", "a"), ("a",)):

        def verified(op: str, given: tuple[str, ...] = operands) -> list[str]:
            return list(verifier.overwritable("", op, given))

        def planned(op: str, given: tuple[str, ...] = operands) -> list[str]:
            return planner.takeable(op, list(given))

        found = differing(KNOWN, planned, verified)
        assert found.keys() == IN_PLACE.keys()
        assert all(offered == [] for offered, _ in found.values())


def test_the_simulator_computes_element_by_element_what_the_verifier_allows() -> None:
    """What is proved never fails in a run for want of an entry. spec: SIM2.2, SIM7.1"""

    def run(op: str) -> tuple[str, ...]:
        return tuple(OPERANDS[k] for k in simulator.elementwise_operands("", op))

    assert differing(KNOWN, run, lambda op: verifier.overwritable("", op, OPERANDS)) == {}
    assert (
        simulator.elementwise_operands("com.example", "Add")
        == verifier.overwritable("com.example", "Add", OPERANDS)
        == ()
    )


def test_gradients_take_the_bytes_of_the_same_operand() -> None:
    """spec: M2.5, SIM2.2, V2.6"""

    def planned(op: str) -> bool:
        return gradients.gradient_rule(Node("n", op.removesuffix("Grad"), (0,), (1,))).in_place

    def verified(op: str) -> bool:
        return bool(verifier.overwritable(verifier.GRADIENTS, op, OPERANDS))

    def run(op: str) -> bool:
        return bool(simulator.elementwise_operands("tmmu.grad", op))

    assert differing(GRADIENTS, planned, verified) == {}
    assert differing(GRADIENTS, run, verified) == {}
    assert sum(map(verified, GRADIENTS)) > 40


@pytest.mark.parametrize(("domain", "op"), WITH_BODIES)
def test_all_tables_say_alike_whether_an_operator_iterates(domain: str, op: str) -> None:
    """spec: T8.3, T8.13, X4.2"""
    answers = {table.iterates(domain, op) for table in (planner, verifier, simulator)}  # type: ignore[attr-defined]
    assert answers == {(domain, op) not in (("", "If"), ("ai.onnx", "If"), ("jax.lax", "cond"))}
    assert verifier.has_known_bodies(domain, op) == simulator.has_body_rule(domain, op)


@pytest.mark.parametrize("position", range(4))
def test_planner_and_verifier_compute_gradients_from_the_same_tensors(position: int) -> None:
    """Of a node with five operands and three results. spec: M2.6, M2.7"""
    operands, results = tuple(range(5)), (5, 6, 7)

    def planned(op: str) -> frozenset[int] | None:
        read = gradients.gradient_reads(Node("n", op, operands, results), position)
        return None if read is None else frozenset(read)

    def verified(op: str) -> frozenset[int] | None:
        uses = verifier.derivative(op, position)
        if uses is None:
            return None
        chosen = [t for k, t in enumerate(operands) if k in uses.operands]
        return frozenset([*chosen, *(t for k, t in enumerate(results) if k in uses.results)])

    assert differing([*KNOWN, "NoSuchOperator"], planned, verified) == {}


def test_planner_and_verifier_run_the_same_operators_again() -> None:
    """Of what draws random numbers no value is computed again."""
    names = [*KNOWN, "RandomUniform", "Multinomial", "aten.rand_like", "threefry_random_bits", "poisson"]
    assert differing(names, planner.draws, verifier.draws) == {}
    assert sum(map(planner.draws, names)) > 5


def test_the_verifier_works_out_the_values_that_reading_computes() -> None:
    """spec: T10.3, T10.12"""

    def verified(op: str) -> bool:
        return verifier.row_of("", op).value is not None

    assert differing(KNOWN, lambda op: reading.row_of("", op).folded, verified) == {}
    assert sum(map(verified, KNOWN)) > 60


@pytest.mark.parametrize(
    ("of", "may"),
    [
        ("proofs/readers/operators", r"proofs\.readers\.operators|tmmu\.core\.(dims|dtypes)"),
        ("tmmu/operators", r"tmmu\.operators"),
        ("tmmu/simulator/operators.py", "$"),
    ],
)
def test_no_table_is_made_of_another(of: str, may: str) -> None:
    paths = [ROOT / of] if of.endswith(".py") else sorted((ROOT / of).rglob("*.py"))
    found = {
        node.module or ""
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
    }
    assert [module for module in found if re.match(r"tmmu\.|proofs\.|tmmu$|proofs$", module)
            and not re.match(may, module)] == []  # fmt: skip


def test_a_difference_is_found() -> None:
    assert differing(["Add", "Mul"], lambda op: op == "Add", lambda op: True) == {"Mul": (False, True)}
