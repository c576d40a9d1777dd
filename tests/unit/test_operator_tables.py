"""Three tables of operators that share nothing, asked about every operator that any of them knows.

The importers' and the planner's table decides what is planned, the verifier's what is believed, the simulator's what
a run computes. They are written apart, so that a mistake in one is seen; each difference is declared with its reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from proofs.readers import operators as verifier
from proofs.readers.models import derivatives, recomputation, training
from tmmu.core.vocabulary import Node
from tmmu.importers import operators as importer
from tmmu.planner.remat import rewrite
from tmmu.planner.training import gradients
from tmmu.simulator import operators as simulator

ROOT = Path(__file__).resolve().parents[2]
OPERANDS = ("a", "b", "c")

KNOWN = sorted(
    {*verifier.VIEWS, *verifier.IN_PLACE, *importer.VIEWS, *importer.ELEMENTWISE, *simulator.VIEWS, *simulator.BYTEWISE}
    | {*simulator.PASSING, *gradients._rules(), *rewrite.PRODUCTS, *derivatives.FORMULAS, *derivatives.CONSTANT}
    | {*derivatives.LINEAR_IN_ALL, *derivatives.LINEAR_IN_FIRST, *derivatives.LINEAR_GIVEN_SETTINGS}
    | {*derivatives.OF_RESULT, *derivatives.OF_OPERAND, *derivatives.REDUCTIONS, "If", "Loop", "Scan", "SequenceMap"}
)
GRADIENTS = [f"{op}Grad" for op in KNOWN]
WITH_BODIES = [
    *((domain, op) for domain in ("", "ai.onnx") for op in ("If", "Loop", "Scan", "SequenceMap")),
    *(("jax.lax", op) for op in ("cond", "while", "scan", "If")),
    *((domain, op) for domain in ("com.example", "tmmu.grad") for op in ("If", "cond", "Switch")),
]

IN_PLACE: dict[str, str] = {
    **dict.fromkeys(
        ("BitCast", "Identity", "SwiGLU", "Trilu"),
        "the importers offer no operand: they make a view of an Identity, and plan the others as ordinary writes",
    ),
    "Dropout": "the importers make a view of it, which at inference it is; a Dropout that trains is an ordinary write",
}
"""Operators that the importers let take fewer operands' bytes than the verifier allows, with the reason."""

NO_STEP = "there is no gradient through it, so that no such step is ever planned"
PLANNED_GRADIENT: dict[str, str] = {
    **dict.fromkeys(("BitCast", "BitwiseNot", "Ceil", "Floor", "IsInf", "IsNaN", "Not", "Round", "Sign"), NO_STEP),
    "Identity": "the planner plans a Reshape of the gradient, which is a view",
}
"""Operators whose gradients the planner lets take no bytes, and the verifier does, with the reason."""

COMPUTED_GRADIENT: dict[str, str] = {
    **dict.fromkeys(
        ("And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater", "GreaterOrEqual", "Less",
         "LessOrEqual", "Mod", "Or", "SwiGLU", "Xor"),
        "no such step is planned, and the verifier allows it nothing; the simulator goes by the operator itself",
    ),
    **dict.fromkeys(("Add", "Sum"), "it shows the gradient of the result, or adds up what was broadcast"),
    **dict.fromkeys(("Cast", "CastLike"), "its result has another type: no bytes to take"),
    "Trilu": "planner and verifier take it for a step that works row by row",
}  # fmt: skip
"""Operators whose gradients the simulator computes element by element, and the verifier lets take no bytes."""


def differing(
    operators: Iterable[str], one: Callable[[str], object], other: Callable[[str], object]
) -> dict[str, tuple[object, object]]:
    """The operators of which two tables differ, each with both answers."""
    return {op: (one(op), other(op)) for op in operators if one(op) != other(op)}


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_all_tables_have_the_same_views(domain: str) -> None:
    """spec: T3.2, T3.3"""
    assert differing(KNOWN, lambda op: op in importer.VIEWS, lambda op: verifier.is_view(domain, op)) == {}
    assert differing(KNOWN, lambda op: simulator.shows(domain, op, 0), lambda op: verifier.is_view(domain, op)) == {}
    assert differing(KNOWN, lambda op: simulator.shows(domain, op, 1), lambda op: False) == {}


def test_planner_and_verifier_reshape_the_gradients_of_the_same_views() -> None:
    """A Dropout that trains is none. spec: M2.5"""
    reshaped = {op for op in (*KNOWN, *gradients.VIEWS, *training.SAME_ELEMENTS) if verifier.is_view("", op)}
    assert gradients.VIEWS == training.SAME_ELEMENTS == reshaped - {"Dropout"}


def test_gradients_that_show_the_gradient_of_the_result_are_the_same() -> None:
    """Every result of such a step shows it. spec: M2.5"""

    def planned(op: str) -> bool:
        return op.removesuffix("Grad") in gradients.PASSING

    def verified(op: str) -> bool:
        return verifier.shows_in_every_result(verifier.GRADIENTS, op)

    assert differing(GRADIENTS, planned, verified) == {}
    for result in (0, 1):
        assert differing(GRADIENTS, lambda op, k=result: simulator.shows("tmmu.grad", op, k), verified) == {}  # type: ignore[misc]
    assert gradients.DOMAIN == verifier.GRADIENTS == simulator.DOMAIN


def test_importers_offer_what_the_verifier_allows_but_where_declared() -> None:
    """Of the same operands, also where one comes twice. spec: T3.2, T3.10"""
    for operands in (OPERANDS, ("a", "a", "b"), ("a", "b", "a"), ("a",)):

        def verified(op: str, given: tuple[str, ...] = operands) -> list[str]:
            return list(verifier.overwritable("", op, given))

        def imported(op: str, given: tuple[str, ...] = operands) -> list[str]:
            return importer.takeable(op, list(given))

        found = differing(KNOWN, imported, verified)
        assert found.keys() == IN_PLACE.keys()
        assert all(offered == [] for offered, _ in found.values())


def test_the_simulator_computes_element_by_element_what_the_verifier_allows() -> None:
    """What is proved never fails in a run for want of an entry. spec: SIM2.2, SIM7.1"""

    def run(op: str) -> tuple[str, ...]:
        return tuple(OPERANDS[k] for k in simulator.bytewise("", op))

    assert differing(KNOWN, run, lambda op: verifier.overwritable("", op, OPERANDS)) == {}
    assert simulator.bytewise("com.example", "Add") == verifier.overwritable("com.example", "Add", OPERANDS) == ()


def test_gradients_take_the_bytes_of_the_same_operand() -> None:
    """spec: M2.5, SIM2.2"""

    def planned(op: str) -> bool:
        return op.removesuffix("Grad") in gradients.ELEMENTWISE

    def verified(op: str) -> bool:
        return bool(verifier.overwritable(verifier.GRADIENTS, op, OPERANDS))

    def run(op: str) -> bool:
        return bool(simulator.bytewise("tmmu.grad", op))

    assert differing(GRADIENTS, planned, verified) == {f"{op}Grad": (False, True) for op in PLANNED_GRADIENT}
    assert differing(GRADIENTS, run, verified) == {f"{op}Grad": (True, False) for op in COMPUTED_GRADIENT}


@pytest.mark.parametrize(("domain", "op"), WITH_BODIES)
def test_all_tables_say_alike_whether_an_operator_iterates(domain: str, op: str) -> None:
    """spec: T8.3, T8.13, X4.2"""
    answers = {table.iterates(domain, op) for table in (importer, verifier, simulator)}  # type: ignore[attr-defined]
    assert answers == {(domain, op) not in (("", "If"), ("ai.onnx", "If"), ("jax.lax", "cond"))}
    assert verifier.has_known_bodies(domain, op) == simulator.has_body_rule(domain, op)


@pytest.mark.parametrize("position", range(4))
def test_planner_and_verifier_compute_gradients_from_the_same_tensors(position: int) -> None:
    """Of a node with five operands and three results. spec: M2.6, M2.7"""
    operands, results = tuple(range(5)), (5, 6, 7)

    def planned(op: str) -> frozenset[int] | None:
        read = gradients.reads(Node("n", op, operands, results), position)
        return None if read is None else frozenset(read)

    def verified(op: str) -> frozenset[int] | None:
        uses = derivatives.derivative(op, position)
        if uses is None:
            return None
        chosen = [t for k, t in enumerate(operands) if k in uses.operands]
        return frozenset([*chosen, *(t for k, t in enumerate(results) if k in uses.results)])

    assert differing([*KNOWN, "NoSuchOperator"], planned, verified) == {}


def test_planner_and_verifier_run_the_same_operators_again() -> None:
    """Of what draws random numbers no value is computed again."""
    names = [*KNOWN, "RandomUniform", "Multinomial", "aten.rand_like", "threefry_random_bits", "poisson"]

    def planned(op: str) -> bool:
        return any(part in op.lower() for part in rewrite.RANDOM)

    assert differing(names, planned, lambda op: bool(recomputation._DRAWS.search(op))) == {}
    assert sum(map(planned, names)) > 5


@pytest.mark.parametrize("package", ["tmmu/importers", "proofs/readers", "tmmu/simulator"])
def test_no_table_is_made_of_another(package: str) -> None:
    tree = ast.parse((ROOT / package / "operators.py").read_text())
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert [module for module in modules if re.match(r"tmmu\.|proofs\.", module)] == []


def test_a_difference_is_found() -> None:
    assert differing(["Add", "Mul"], lambda op: op == "Add", lambda op: True) == {"Mul": (False, True)}
