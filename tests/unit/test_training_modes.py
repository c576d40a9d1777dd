"""Modes and presets: which pairs there are, what each leaves of a model, and what the command says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from proofs.readers.models.ir import read_ir
from proofs.readers.models.training import reference_in_mode
from tests.support.text_models import text_model
from tests.support.trainable import MLP, OPTIMIZER, names
from tmmu import examples
from tmmu.cli import entry
from tmmu.cli.commands import tmmu
from tmmu.cli.units import memory
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.modes import choose_mode, prepare_graph
from tmmu.planner.training.expand import expand_to_joint


def run(*arguments: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of the command and what it said in all."""
    code = entry.run(list(arguments))
    out, err = capfd.readouterr()
    return code, out + err


@pytest.fixture
def mlp(tmp_path: Path) -> str:
    path = tmp_path / "mlp.onnx"
    examples.write("mico-mlp", path)
    return str(path)


def test_every_legal_pair_of_mode_and_preset_and_no_other() -> None:
    """spec: M1.5, M1.7"""
    legal = {
        ("inference", "inference"),
        ("forward", "train_full"),
        ("backward", "train_full"),
        ("backward", "remat_enabled"),
    }
    for mode in ("inference", "forward", "backward"):
        for preset in ("inference", "train_full", "remat_enabled"):
            budget = 1 if preset == "remat_enabled" else None
            if (mode, preset) in legal:
                assert choose_mode(mode, preset, budget) == (mode, preset)
            else:
                with pytest.raises(TmmuError, match="does not go with") as raised:
                    choose_mode(mode, preset, budget)
                assert raised.value.code_id == "MODE_VIOLATION"
    assert choose_mode("forward", None, None) == ("forward", "train_full")
    assert choose_mode(None, "train_full", None) == ("backward", "train_full")
    assert choose_mode(None, "inference", None) == ("inference", "inference")


def test_a_budget_belongs_to_rematerialisation_and_it_to_a_budget() -> None:
    """spec: M1.7"""
    for preset, budget in (("train_full", 1), ("remat_enabled", None), ("inference", 1)):
        with pytest.raises(TmmuError, match="belong together"):
            choose_mode(None, preset, budget)
    with pytest.raises(TmmuError, match="unknown preset 'fast'"):
        choose_mode(None, "fast", None)


def test_the_forward_half_of_a_joint_graph_is_what_it_was_made_from() -> None:
    """spec: M1.4"""
    joint = expand_to_joint(MLP)
    half = prepare_graph(joint, "inference", DEFAULT)
    assert replace(half, tensors=MLP.tensors) == MLP
    assert [t.name for t in half.tensors] == [t.name for t in MLP.tensors]
    assert prepare_graph(MLP, "inference", DEFAULT) is MLP


def test_the_forward_half_is_the_model_written_without_the_nodes_of_other_phases() -> None:
    """Bodies, views, hints, changes and rules of what is left have other numbers, and nothing else. spec: M1.4"""
    lines = [
        "node neg Neg x -> y", "~node back Back y -> p backward", "~begin while While p -> q backward",
        "~arm body o idle -> l loop", "~  node back1 Back o -> l", "~end while", "node view1 View y -> v",
        "node relu Relu v y -> r", "node relu2 Relu r -> s inplace s r", "node change Change s -> s changes s",
        "begin loop1 Loop s -> z", "arm body f unread -> g loop", "  node neg1 Neg f -> h", "  begin if If h -> g",
        "  arm then -> k", "    node neg2 Neg h -> k", "  end if", "end loop1", "~node more More q -> m backward",
        "~begin else Else m -> n backward", "~arm then -> i", "~  node more1 More m -> i", "~end else",
        "node neg3 Neg z -> u", "~node sgd Sgd n w -> w changes w optimizer", "tensor v u8 64 view y 0",
        "tensor x u8 64 donated", "~tensor q u8 64 donated", "~tensor w u8 64 donated", "apart x z", "~apart m z",
        "~apart z m", "apart u y", "~apart p q",
    ]  # fmt: skip
    model = text_model(*(line.replace("~", "") for line in lines), inputs="x w lonely", outputs="u w")
    plain = text_model(*(line for line in lines if "~" not in line), inputs="x lonely", outputs="u")
    assert prepare_graph(model, "inference", DEFAULT) == plain
    assert prepare_graph(plain, "inference", DEFAULT) is plain


def test_a_view_keeps_what_it_shows_though_no_forward_node_touches_it() -> None:
    """spec: M1.4"""
    model = text_model(
        "node neg Neg x -> y", "node view1 View y -> v1 backward", "node view2 View v1 -> v2 backward",
        "node view3 View y -> v3", "node view4 View v2 -> v4 backward", "tensor v1 u8 64 view y 0",
        "tensor v2 u8 64 view v1 0", "tensor v3 u8 64 view v2 0", "tensor v4 u8 64 view v2 0", outputs="v3",
    )  # fmt: skip
    half = prepare_graph(model, "inference", DEFAULT)
    assert [tensor.name for tensor in half.tensors] == ["x", "y", "v1", "v2", "v3"]
    assert [tensor.view.base for tensor in half.tensors if tensor.view] == [1, 2, 3]


def test_without_its_optimizer_a_model_has_neither_its_nodes_nor_what_they_alone_touch() -> None:
    """spec: M1.4"""
    half = prepare_graph(OPTIMIZER, "inference", DEFAULT)
    assert [node.name for node in half.nodes] == ["matmul0"]
    assert names(half, half.inputs) == ["x"]
    assert {tensor.name for tensor in half.tensors} == {"x", "w", "y"}
    assert half.bindings.donated == ("w",)


def test_bodies_of_dropped_nodes_go_with_them_and_what_a_view_shows_stays() -> None:
    """spec: M1.4"""
    model = text_model(
        "node neg0 Neg x -> y", "begin loop0 Loop y -> z backward", "arm body f -> g loop", "  node neg1 Neg f -> g",
        "end loop0", "begin if0 If y -> u", "arm then -> k", "  node neg2 Neg y -> k", "end if0", outputs="y u",
    )  # fmt: skip
    half = prepare_graph(model, "inference", DEFAULT)
    assert [node.name for node in half.nodes] == ["neg0", "if0", "neg2"]
    assert [body.attribute for body in half.bodies] == ["", "then"]
    assert half.nodes[half.bodies[1].owner].name == "if0"
    assert half.nodes[2].body == 1
    expected = reference_in_mode(read_ir(model), "inference")
    assert [step.node for step in expected.steps] == ["neg0", "if0", "neg2", "if0"]
    assert set(expected.bodies) == {"if0/then"}
    assert set(expected.sizes) == {tensor.name for tensor in half.tensors}


def test_mode_forward_saves_what_backward_would_read_unless_the_model_says_what_is_saved() -> None:
    """spec: M1.6"""

    def saved(model: Model) -> set[str]:
        return {tensor.name for tensor in prepare_graph(model, "forward", DEFAULT).tensors if tensor.saved_for_backward}

    assert saved(MLP) == {"x", "b"}
    declared = replace(MLP, tensors=tuple(replace(t, saved_for_backward=t.name == "c") for t in MLP.tensors))
    assert saved(declared) == {"c"}
    assert saved(expand_to_joint(MLP)) == {"x", "b"}
    own = expand_to_joint(declared)
    kept = replace(own, tensors=tuple(replace(t, saved_for_backward=t.name == "c") for t in own.tensors))
    assert saved(kept) == {"x", "b", "c"}
    for model in (MLP, declared, expand_to_joint(MLP), kept):
        assert reference_in_mode(read_ir(model), "forward").saved == saved(model)


def test_mode_forward_refuses_a_change_of_what_backward_reads_before_it() -> None:
    """spec: M1.12, I1.11"""
    lines = (
        "node relu Relu x -> a", "node view1 View a -> v", "node grad Grad {read} -> g backward",
        "node change Change a -> a changes a {phase}", "node tanh Tanh a -> y",
    )  # fmt: skip

    def model(read: str, order: tuple[int, ...] = (0, 1, 2, 3, 4), phase: str = "") -> Model:
        return text_model(*(lines[n].format(read=read, phase=phase) for n in order), "tensor v u8 64 view a 0")

    for read in ("a", "v"):
        with pytest.raises(TmmuError, match=f"'a', .* '{read}'") as refused:
            prepare_graph(model(read), "forward", DEFAULT)
        assert (refused.value.code_id, refused.value.place) == ("MODE_VIOLATION", "node 'change'")
        with pytest.raises(TmmuError, match="'a'") as refused:
            reference_in_mode(read_ir(model(read)), "forward")
        assert (refused.value.code_id, refused.value.place) == ("MODE_VIOLATION", "change")
    # A change by an optimizer node is none of the forward half, and what is changed before it is read is saved so.
    assert len(prepare_graph(model("a", phase="optimizer"), "forward", DEFAULT).nodes) == 3
    assert "a" in reference_in_mode(read_ir(model("a", phase="optimizer")), "forward").saved
    after = (0, 1, 3, 2, 4)
    plan_memory(
        prepare_graph(model("a", after), "forward", DEFAULT), options=PlanOptions(mode="forward", is_stage=True)
    )
    reference_in_mode(read_ir(model("a", after)), "forward")


def test_what_the_nodes_of_backward_read_is_saved_wherever_they_stand() -> None:
    """Inside a backward node all is backward's, inside a forward one what says so of itself. spec: M1.6"""
    model = text_model(
        "node neg Neg x -> captured", "node neg2 Neg x -> returned", "node neg3 Neg x -> inner",
        "node neg4 Neg x -> unread", "node neg5 Neg x -> y", "begin until Until x -> q",
        "arm body given passed -> r made loop", "  node neg6 Neg passed -> r",
        "  node back Back given -> made backward", "  node back2 Back made -> s backward", "end until",
        "begin loop1 Loop y -> z backward", "arm body f -> g loop", "  node mul Mul f captured -> g",
        "  begin if If f -> k", "  arm then -> returned", "  arm else -> h", "    node neg7 Neg inner -> h", "  end if",
        "end loop1", outputs="y z q unread",
    )  # fmt: skip
    saved = {tensor.name for tensor in prepare_graph(model, "forward", DEFAULT).tensors if tensor.saved_for_backward}
    assert saved == {"captured", "returned", "inner", "y", "given"}
    assert reference_in_mode(read_ir(model), "forward").saved == saved


def test_what_backward_changes_in_place_is_saved_for_it() -> None:
    """A gradient that is added up where it lies is what forward left there at first. spec: M1.6, M2.7"""
    model = text_model(
        "node neg Neg x -> sum", "node read Read sum -> y", "node back Back x -> part backward",
        "node back2 Back sum part -> sum changes sum backward", "node back3 Back sum -> g backward",
    )  # fmt: skip
    half = prepare_graph(model, "forward", DEFAULT)
    assert {tensor.name for tensor in half.tensors if tensor.saved_for_backward} == {"x", "sum"}
    assert reference_in_mode(read_ir(model), "forward").saved == {"x", "sum"}
    plan = plan_memory(half, options=PlanOptions(mode="forward")).plan
    death = dict(zip(plan.allocation.tensors.name, plan.allocation.tensors.death.tolist(), strict=True))
    assert death == {"x": 1, "sum": 1, "y": 1}


def test_a_size_with_a_unit_is_a_number_of_bytes() -> None:
    """spec: C2.7"""
    for text, size in (("0", 0), ("17B", 17), ("3KiB", 3072), ("2mib", 2 << 20), ("1GiB", 1 << 30), ("1TiB", 1 << 40)):
        assert memory(None, None, text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1.5GiB", "1GB", "99999999999999999999", "20000000TiB"])
def test_a_budget_that_is_no_number_of_bytes_is_an_error_of_the_command_line(text: str, mlp: str) -> None:
    """spec: C2.7, C2.6"""
    result = CliRunner().invoke(tmmu, ["plan", mlp, "--preset", "remat_enabled", "--budget", text])
    assert result.exit_code == 2
    assert "expected a number of bytes such as 24GiB" in result.output
    assert not Path("mlp.plan.cbor").exists()


def test_a_layout_that_needs_more_than_the_budget_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """spec: M1.11"""
    path = tmp_path / "chain.onnx"
    examples.write("chain", path)
    flags = ("plan", str(path), "-o", str(tmp_path / "p.cbor"), "--preset", "remat_enabled", "--budget", "1536KiB")
    assert run(*flags, "--layout", "slots", capfd=capfd)[0] == 0
    status, text = run(*flags, "--layout", "pools", capfd=capfd)
    assert status == 4
    assert " 1572864;" in text
