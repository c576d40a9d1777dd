"""The verifier works out the backward half by itself, and lets values be computed again only if they are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from proofs.definition.model import compare
from proofs.readers.models.ir import read_ir
from proofs.readers.models.recomputation import add_recomputation
from proofs.readers.models.reference import ReferenceProgram
from proofs.readers.models.training import reference_in_mode
from proofs.readers.operators import derivative, is_floating, is_view, overwritable
from proofs.verify.judge import verify
from proofs.verify.options import Options
from proofs.verify.verdict import PROVED, REFUTED
from tests.support.trainable import MLP, OPTIMIZER, floating
from tmmu import examples
from tmmu.core import dtypes
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, Model, Node, Phase, Tensor
from tmmu.ir import files
from tmmu.operators import OPERATORS
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.modes import prepare_graph
from tmmu.planner.remat.rewrite import Policy, build_joint, rewrite
from tmmu.planner.training import gradients
from tmmu.planner.training.expand import expand_to_joint
from tmmu.plans import file
from tmmu.plans.sections import Plan, amend_plan
from tmmu.tasks.models import load

NETWORKS = ("chain", "mico-mlp", "mico-lenet", "mico-vgg", "mico-resnet8")


def planned(model: Model, mode: str = "backward") -> Plan:
    return plan_memory(model, options=PlanOptions(mode=mode, layout="slots")).plan


def differences(plan: Plan, model: Model) -> list[str]:
    """What differs between a plan and the model, by the verifier's reading of the model."""
    expected = add_recomputation(reference_in_mode(read_ir(model), plan.origin.mode), plan, plan.origin.mode)
    donated = frozenset(model.bindings.donated)
    return [f"{d.field}: {d.node}" for d in compare.differences(plan, expected, donated, plan.origin.mode)]


def everything_again(model: Model, kept: tuple[str, ...] = (), held: tuple[str, ...] | None = None) -> Model:
    """The joint graph of a model with all but the classes named `kept` computed again."""
    source = build_joint(expand_to_joint(model))
    rows = {tensor.name: t for t, tensor in enumerate(source.model.tensors)}
    policy = Policy(
        frozenset(rows[name] for name in kept), None if held is None else frozenset(rows[name] for name in held)
    )
    return rewrite(source, policy).model


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_plans_of_networks_are_proved_against_their_onnx_files(name: str, mode: str, tmp_path: Path) -> None:
    """spec: V3.5"""
    examples.write(name, tmp_path / "m.onnx")
    model = prepare_graph(load(str(tmp_path / "m.onnx")), mode, DEFAULT)
    file.save(planned(model, mode), tmp_path / "p.cbor")
    verdict = verify(str(tmp_path / "p.cbor"), Options(model=str(tmp_path / "m.onnx")))
    assert verdict.verdict == PROVED, verdict.witness or verdict.notes
    assert verdict.assumptions["believed_operators"] == []
    alone = verify(str(tmp_path / "p.cbor"))
    assert alone.verdict == PROVED, alone.witness or alone.notes
    assert alone.assumptions["believed_operators"] == []


@pytest.mark.parametrize("model", [MLP, OPTIMIZER], ids=["mlp", "optimizer"])
def test_both_halves_are_worked_out_alike_by_planner_and_verifier(model: Model) -> None:
    """spec: V3.5, M2.10"""
    assert differences(planned(expand_to_joint(model)), model) == []
    for mode in ("inference", "forward"):
        assert differences(planned(prepare_graph(model, mode, DEFAULT), mode), model) == []


def test_the_two_tables_say_the_same_of_every_operator_of_onnx() -> None:
    """spec: M2.5, V3.5"""
    import onnx

    ops = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    ops |= {op for domain, op in OPERATORS if not domain}
    assert len(ops) > 150
    for op in sorted(ops):
        node = Node("n", op, tuple(range(6)), (10, 11, 12))
        for position in range(6):
            uses, reads = derivative(op, position), gradients.gradient_reads(node, position)
            assert (uses is None) == (reads is None), (op, position)
            if uses is not None and reads is not None:
                found = {p for p in range(6) if p in uses.operands} | {10 + p for p in range(3) if p in uses.results}
                assert set(reads) == found, (op, position)
        rule = gradients.gradient_rule(node)
        assert rule.in_place == bool(overwritable("tmmu.grad", f"{op}Grad", "a")), op
        assert rule.passes == is_view("tmmu.grad", f"{op}Grad"), op


def test_the_gradient_domain_is_no_other_domain() -> None:
    assert overwritable("tmmu.grad", "ReluGrad", "a") == ("a",)
    assert overwritable("tmmu.grad", "MatMulGrad", "a") == overwritable("tmmu.grad", "SoftmaxGrad", "a") == ()
    assert overwritable("", "ReluGrad", "a") == overwritable("tmmu.grad", "Relu", "a") == ()
    assert not is_view("tmmu.grad", "Reshape")
    assert not is_view("", "AddGrad")
    for dtype in dtypes.BITS:
        assert is_floating(dtype) == gradients.is_floating(Tensor("t", (), dtype, MLP.tensors[0].role, 0))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda m: _node(m, "a.grad.add1", reads=m.nodes[7].reads[::-1]), "reads: a.grad.add1"),
        (lambda m: _node(m, "relu0.grad", op="TanhGrad"), "operator: relu0.grad"),
        (lambda m: _node(m, "relu0.grad", domain=""), "operator: relu0.grad"),
        (lambda m: _node(m, "matmul0.grad", reads=m.nodes[8].reads[:1]), "reads: matmul0.grad"),
        (lambda m: _node(m, "matmul1.grad", reads=(*m.nodes[5].reads, 0)), "reads: matmul1.grad"),
        (lambda m: replace(m, tensors=tuple(replace(t, saved_for_backward=False) for t in m.tensors)), "saved: "),
        (lambda m: replace(m, bodies=(replace(m.bodies[0], outputs=m.outputs[:-1]),)), "output: matmul1.grad"),
    ],
)
def test_a_joint_graph_that_is_another_is_refuted(change: Callable[[Model], Model], found: str) -> None:
    assert found in differences(planned(change(expand_to_joint(MLP))), MLP)


def _node(model: Model, name: str, **fields: object) -> Model:
    nodes = (replace(node, **fields) if node.name == name else node for node in model.nodes)  # type: ignore[arg-type]
    return replace(model, nodes=tuple(nodes))


DEEP = floating(
    "node matmul0 MatMul x w -> a", "node tanh0 Tanh a -> b", "node reshape0 Reshape b -> c",
    "node matmul1 MatMul c v -> d", "node sin0 Sin d -> e", "node mul0 Mul e d -> y", "tensor c f32 4x4 view b 0",
    parameters="w v",
)  # fmt: skip


@pytest.mark.parametrize("held", [None, (), ("b",)])
@pytest.mark.parametrize("kept", [(), ("b",), ("a", "d")])
def test_values_computed_again_from_the_same_values_are_accepted(
    kept: tuple[str, ...], held: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """spec: V3.6, M1.8, M1.9"""
    again = everything_again(DEEP, kept, held)
    assert any(node.name.endswith(".recompute0") for node in again.nodes)
    plan = planned(again)
    assert differences(plan, DEEP) == []
    files.save(DEEP, tmp_path / "m.ir.cbor")
    file.save(plan, tmp_path / "p.cbor")
    verdict = verify(str(tmp_path / "p.cbor"), Options(model=str(tmp_path / "m.ir.cbor")))
    assert verdict.verdict == PROVED, verdict.witness or verdict.notes


def test_names_of_what_is_computed_again_count_from_zero() -> None:
    """spec: M1.9"""
    again = everything_again(DEEP, held=())
    clones = [node.name for node in again.nodes if ".recompute" in node.name]
    assert [n for n in clones if n.startswith("matmul0.")] == [f"matmul0.recompute{k}" for k in range(4)]
    names = [tensor.name for tensor in again.tensors]
    assert {"a.recompute0", "a.recompute1"} <= set(names)
    assert all(node.phase is Phase.BACKWARD for node in again.nodes if ".recompute" in node.name)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda m: _node(m, "tanh0.recompute0", op="Sin"), "operator: tanh0.recompute0"),
        (lambda m: _node(m, "tanh0.recompute0", reads=(_row(m, "x"),)), "extra-step: tanh0.recompute0"),
        (lambda m: _called(m, "tanh0.recompute0", "tanh0.again"), "extra-step: tanh0.again"),
        (lambda m: _renamed(m, "b.recompute0", "b.recompute7"), "extra-step: tanh0.recompute0"),
        (lambda m: _node(m, "sin0.grad", reads=(*_reads(m, "sin0.grad")[:1], _row(m, "a"))), "reads: sin0.grad"),
        (lambda m: _called(m, "sin0", "sin1"), "missing-step: sin0"),
    ],
)  # fmt: skip
def test_anything_else_that_is_run_again_is_refuted(change: Callable[[Model], Model], found: str) -> None:
    """spec: V3.6, M1.8"""
    assert found in differences(planned(change(everything_again(DEEP))), DEEP)


def _row(model: Model, name: str) -> int:
    return next(t for t, tensor in enumerate(model.tensors) if tensor.name == name)


def _reads(model: Model, name: str) -> tuple[int, ...]:
    return next(node.reads for node in model.nodes if node.name == name)


def _called(model: Model, old: str, new: str) -> Model:
    return replace(model, nodes=tuple(replace(n, name=new) if n.name == old else n for n in model.nodes))


def _renamed(model: Model, old: str, new: str) -> Model:
    tensors = (replace(tensor, name=new) if tensor.name == old else tensor for tensor in model.tensors)
    return replace(model, tensors=tuple(tensors))


def test_a_draw_of_random_numbers_is_not_run_again() -> None:
    """spec: V3.6"""
    model = floating(
        "node matmul0 MatMul x w -> a", "node sin0 Sin a -> b", "node randomnormallike0 Randomnormallike b -> m",
        "node mul0 Mul b m -> y", parameters="w",
    )  # fmt: skip
    model = _node(model, "randomnormallike0", op="RandomNormalLike")
    again = everything_again(model)
    assert "randomnormallike0.recompute0" not in [node.name for node in again.nodes]
    assert differences(planned(again), model) == []
    forged = everything_again(_node(model, "randomnormallike0", op="Tanh"))
    forged = _node(forged, "randomnormallike0", op="RandomNormalLike")
    forged = _node(forged, "randomnormallike0.recompute0", op="RandomNormalLike")
    joint = expand_to_joint(model)
    rest = {node.name for node in joint.nodes}
    assert {node.name for node in forged.nodes} >= rest - {"randomnormallike0.grad"}
    assert "extra-step: randomnormallike0.recompute0" in differences(planned(forged), model)


def test_operators_of_unknown_domains_are_assumed_to_repeat_and_listed(tmp_path: Path) -> None:
    """spec: V3.6"""
    model = floating(
        "node matmul0 MatMul x w -> a", "node fused0 c::Fused a -> b", "node sin0 Sin b -> y", parameters="w"
    )
    plan = planned(everything_again(model))
    files.save(model, tmp_path / "m.ir.cbor")
    file.save(plan, tmp_path / "p.cbor")
    verdict = verify(str(tmp_path / "p.cbor"), Options(model=str(tmp_path / "m.ir.cbor")))
    assert verdict.verdict == PROVED, verdict.witness or verdict.notes
    assert verdict.assumptions["believed_operators"] == ["c::Fused gives the same values again"]


def test_scratch_is_no_operand_and_is_had_again_with_its_step() -> None:
    again = "node tanh0 Tanh a -> b scratch 64 align 4"
    model = floating("node matmul0 MatMul x w -> a", again, "node sin0 Sin b -> y", parameters="w")
    joint = expand_to_joint(model)
    assert differences(planned(joint), model) == []
    again = everything_again(model)
    assert "tanh0.recompute0" in [node.name for node in again.nodes]
    assert differences(planned(again), model) == []


def test_a_plan_of_mode_inference_is_none_of_the_joint_graph(tmp_path: Path) -> None:
    files.save(MLP, tmp_path / "m.ir.cbor")
    file.save(amend_plan(planned(expand_to_joint(MLP)), mode="inference"), tmp_path / "p.cbor")
    verdict = verify(str(tmp_path / "p.cbor"), Options(model=str(tmp_path / "m.ir.cbor")))
    assert verdict.verdict == REFUTED
    assert verdict.witness is not None
    assert verdict.witness["field"] == "extra-step"


def _refusal(model: Model) -> str:
    with pytest.raises(TmmuError) as raised:
        reference_in_mode(read_ir(model), "backward")
    assert raised.value.code_id == "MODE_VIOLATION"
    return str(raised.value)


def test_the_verifier_too_refuses_what_has_no_gradient() -> None:
    """spec: M2.12"""
    assert "bodies and mutations" in _refusal(
        floating("begin if0 If x -> y", "arm then -> a", "  node neg0 Neg x -> a", "end if0")
    )
    changes = floating(
        "node update0 Update a x -> a changes a", "node neg0 Neg a -> y", "tensor a f32 4x4 donated", inputs="x a"
    )
    assert "bodies and mutations" in _refusal(changes)
    grouped = floating(
        "node matmul0 MatMul x w -> a", "node relu0 Relu a -> b", "node neg0 Neg b -> y", "tensor b f32 4x4",
        "alias g b y", parameters="w",
    )  # fmt: skip
    assert "alias group" in _refusal(grouped)
    assert "no output depends" in _refusal(floating("node floor0 Floor x -> y"))
    taken = floating("node matmul0 MatMul x w -> y", parameters="w w.grad")
    assert "a tensor of this name" in _refusal(taken)
    node = floating("node matmul0 MatMul x w -> y", "node matmul0.grad Matmul0.grad x -> z", parameters="w")
    assert "a node of this name" in _refusal(node)


def test_an_empty_model_has_no_backward_half() -> None:
    empty = ReferenceProgram(bindings=Bindings())
    assert reference_in_mode(empty, "backward") is empty
