"""Joint graphs compute the gradients, whatever is kept or computed again, and their plans are proved. spec: M2.1"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from proofs.verify.judge import verify
from proofs.verify.options import Options
from proofs.verify.verdict import PROVED
from tests.support.differentiation import Run, loss
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Body, Model, Node, Role, Tensor, View
from tmmu.ir import files
from tmmu.ir.validate import validate_model
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.modes import prepare_graph
from tmmu.planner.remat.choose import measure_peak
from tmmu.planner.remat.rewrite import Policy, build_joint, rewrite
from tmmu.planner.remat.strategies import Classes
from tmmu.planner.training.expand import expand_to_joint
from tmmu.plans import file

SIDE = 3
BINARY = ("Add", "Sub", "Mul", "MatMul", "Div")
UNARY = ("Relu", "Tanh", "Sin", "Exp", "Neg", "Softmax", "Reshape", "Identity")

Recipe = tuple[int, int, int]


def forward_model(recipes: Sequence[Recipe], outputs: int) -> Model:
    """A graph of 3 by 3 matrices and one row, which is broadcast: each recipe is an operator and two operands."""
    square, row = (SIDE, SIDE), (SIDE,)
    tensors = [
        Tensor(name, shape, "float64", role, 8 * int(np.prod(shape)), 8)
        for name, shape, role in (
            ("x", square, Role.INPUT),
            ("w", square, Role.PARAMETER),
            ("b", row, Role.PARAMETER),
            ("v", square, Role.PARAMETER),
        )
    ]
    nodes = []
    for k, (kind, one, other) in enumerate(recipes):
        op = (*BINARY, *UNARY)[kind % (len(BINARY) + len(UNARY))]
        first = one % len(tensors)
        if tensors[first].shape != square:
            first = 1
        second = other % len(tensors)
        if op == "Div" or (op == "MatMul" and tensors[second].shape != square):
            second = 3  # never zero
        reads = (first, second) if op in BINARY else (first,)
        view = View(reads[0], 0, 72) if op in ("Reshape", "Identity") else None
        hints = () if view else tuple((len(tensors), t) for t in reads[:1] if op != "MatMul" and op != "Softmax")
        tensors.append(Tensor(f"t{k}", square, "float64", Role.ACTIVATION, 72, 8, view))
        nodes.append(Node(f"n{k}", op, reads, (len(tensors) - 1,), in_place=hints))
    results = tuple(range(len(tensors) - 1, max(3, len(tensors) - 1 - outputs), -1))
    return Model("random", tuple(tensors), tuple(nodes), (Body(-1, "", (0,), results),))


_recipes = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9)
_models = st.builds(forward_model, _recipes, st.integers(1, 2))


def values(model: Model) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What the caller gives a model's joint graph, and the seed of each output."""
    chance = np.random.default_rng(7)
    given_values = {
        tensor.name: chance.uniform(0.5, 1.5, tensor.shape)
        for tensor in model.tensors
        if tensor.role is not Role.ACTIVATION
    }
    seeds = {model.tensors[t].name: chance.uniform(-1, 1, model.tensors[t].shape) for t in model.outputs}
    return given_values, seeds


def joint_or_reject(model: Model) -> Model:
    try:
        return expand_to_joint(model)
    except TmmuError as error:
        if error.code_id != "MODE_VIOLATION":
            raise
        reject()


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(_models)
def test_the_joint_graph_computes_what_finite_differences_say(model: Model) -> None:
    validate_model(model)
    joint = joint_or_reject(model)
    given_values, seeds = values(model)
    plain = loss(model, given_values, seeds)
    assume(np.isfinite(plain) and abs(plain) < 1e4)
    named = {f"{name}.seed": seed for name, seed in seeds.items()}
    run = Run(joint, given_values | named)
    for t in joint.outputs:
        name = joint.tensors[t].name
        weight = name.removesuffix(".grad")
        if weight == name:
            continue
        for place in ((0,) * len(given_values[weight].shape), (SIDE - 1,) * len(given_values[weight].shape)):

            def slope(step: float, weight: str = weight, place: tuple[int, ...] = place) -> float:
                ends = []
                for sign in (-1, 1):
                    moved = given_values[weight].copy()
                    moved[place] += sign * step
                    ends.append(loss(model, given_values | {weight: moved}, seeds))
                return float(ends[1] - ends[0]) / (2 * step)

            coarse, fine = slope(2e-6), slope(1e-6)
            scale = 1 + abs(fine) + abs(plain)
            # Where the slope itself depends on the step, the difference is as wrong as the two differ.
            assert abs(run[name][place] - fine) < 1e-3 * scale + 4 * abs(coarse - fine), name


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(_models, st.integers(0, 2**20), st.integers(0, 2**20))
def test_what_is_computed_again_has_the_same_values_to_the_bit(model: Model, kept: int, held: int) -> None:
    joint = joint_or_reject(model)
    source = build_joint(joint)
    roots = Classes(source).roots
    policy = Policy(*(frozenset(r for k, r in enumerate(roots) if bits >> k & 1) for bits in (kept, held)))
    again = rewrite(source, policy).model
    validate_model(again)
    given_values, seeds = values(model)
    everything = given_values | {f"{name}.seed": seed for name, seed in seeds.items()}
    with np.errstate(all="ignore"):
        once, twice = Run(joint, everything), Run(again, everything)
    for t in joint.outputs:
        name = joint.tensors[t].name
        assert np.array_equal(once[name], twice[name], equal_nan=True)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(_models, st.sampled_from(("forward", "backward", "remat")))
def test_a_plan_of_every_mode_is_proved_against_the_forward_model(model: Model, mode: str) -> None:
    """spec: V3.5, V3.6, M1.11"""
    joint = joint_or_reject(model)
    budget = None
    if mode == "remat":
        try:
            prepare_graph(model, "backward", DEFAULT, 1)
        except TmmuError as error:
            budget = int(error.diagnostics["required"])
        assert budget is not None
        assert budget <= measure_peak(joint, DEFAULT)
    graph = prepare_graph(model, "backward" if mode == "remat" else mode, DEFAULT, budget)
    if budget is not None:
        assert measure_peak(graph, DEFAULT) <= budget
    made = plan_memory(
        graph, options=PlanOptions(mode="forward" if mode == "forward" else "backward", layout="slots")
    ).plan
    with TemporaryDirectory() as folder:
        files.save(model, Path(folder, "m.ir.cbor"))
        file.save(made, Path(folder, "p.cbor"))
        verdict = verify(str(Path(folder, "p.cbor")), Options(model=str(Path(folder, "m.ir.cbor"))))
    assert verdict.verdict == PROVED, verdict.witness or verdict.notes


@given(_models)
def test_a_forward_half_is_the_model_that_it_was_made_from(model: Model) -> None:
    joint = joint_or_reject(model)
    half = prepare_graph(joint, "inference", DEFAULT)
    unmarked = replace(half, tensors=tuple(replace(tensor, saved_for_backward=False) for tensor in half.tensors))
    assert unmarked == model
