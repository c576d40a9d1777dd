"""When each tensor lives: one test a rule.

spec: T1.1, T1.2, T1.3, T1.4, T1.5, T1.6, T8.3, T8.4, T8.5, M1.1, M1.2
"""

from __future__ import annotations

import pytest

from tests.support.text_models import text_model
from tmmu.core.vocabulary import Model
from tmmu.ir.program import build_program
from tmmu.planner.liveness import NO_STEP, analyze


def lifetimes(model: Model, mode: str = "inference") -> dict[str, tuple[int, int]]:
    run = build_program(model)
    live = analyze(run, mode)
    return {t.name: (birth, death) for t, birth, death in zip(run.tensors, live.birth, live.death, strict=True)}


def writers(model: Model) -> dict[str, int]:
    run = build_program(model)
    return {t.name: writer for t, writer in zip(run.tensors, analyze(run, "inference").writer, strict=True)}


CHAIN = ("node relu Relu x -> a", "node relu2 Relu a -> b", "node add Add b a -> c", "node relu3 Relu c -> y")


def test_a_tensor_lives_from_its_write_to_its_last_read_both_included() -> None:
    assert lifetimes(text_model(*CHAIN)) == {"x": (0, 0), "a": (0, 2), "b": (1, 2), "c": (2, 3), "y": (3, 3)}
    assert writers(text_model(*CHAIN)) == {"x": NO_STEP, "a": 0, "b": 1, "c": 2, "y": 3}


def test_a_graph_input_is_born_at_0_and_dies_at_its_last_reader() -> None:
    model = text_model("node relu Relu x -> a", "node add Add a w -> y", inputs="x w unread")
    found = lifetimes(model)
    assert (found["x"], found["w"], found["unread"]) == ((0, 0), (0, 1), (0, 0))


def test_a_graph_output_lives_to_the_last_step() -> None:
    found = lifetimes(text_model("node relu Relu x -> a", "node relu2 Relu a -> y", outputs="a x y"))
    assert found == {"x": (0, 1), "a": (0, 1), "y": (1, 1)}


def test_a_tensor_that_nobody_reads_lives_for_the_step_that_writes_it() -> None:
    found = lifetimes(
        text_model("node relu Relu x -> a", "node split Split a -> y unread", "node relu2 Relu y -> z", outputs="z")
    )
    assert found["unread"] == (1, 1)


def test_parameters_and_optimizer_state_live_throughout() -> None:
    model = text_model("tensor s u8 64 optimizer", *CHAIN, parameters="w")
    assert (lifetimes(model)["w"], lifetimes(model)["s"]) == ((0, 3), (0, 3))


@pytest.mark.parametrize(("mode", "death"), [("inference", 1), ("forward", 2), ("backward", 1)])
def test_what_is_saved_is_kept_in_mode_forward_alone(mode: str, death: int) -> None:
    model = text_model(
        "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y", "tensor a u8 64 saved"
    )
    assert lifetimes(model, mode)["a"] == (0, death)
    assert lifetimes(model, mode)["b"] == (1, 2)
    assert lifetimes(model, mode)["x"] == (0, 0)


def test_a_saved_tensor_that_nobody_reads_is_kept() -> None:
    model = text_model("node relu Relu x -> a", "node relu2 Relu x -> y", "tensor a u8 64 saved")
    assert lifetimes(model, "forward")["a"] == (0, 1)
    assert lifetimes(model)["a"] == (0, 0)


def test_a_mutation_is_an_access_and_no_birth() -> None:
    model = text_model(
        "node relu Relu x -> a", "node change Change a -> a changes a", "node change2 Change p -> p changes p",
        "node relu2 Relu x -> y", parameters="p",
    )  # fmt: skip
    assert lifetimes(model)["a"] == (0, 1)
    assert (writers(model)["a"], writers(model)["p"]) == (0, NO_STEP)


def test_a_model_without_steps_gives_every_tensor_step_0() -> None:
    """spec: M3.6"""
    assert lifetimes(text_model(inputs="x", parameters="w", outputs="x")) == {"x": (0, 0), "w": (0, 0)}
    assert lifetimes(text_model(inputs="", outputs="")) == {}


def test_scratch_lives_while_its_node_runs() -> None:
    """spec: I1.10"""
    model = text_model(
        "node relu Relu x -> a scratch 8",
        "begin loop1 Loop a -> y scratch 8",
        "arm body i -> o loop",
        "  node relu2 Relu i -> o",
        "end loop1",
    )
    found = lifetimes(model)
    assert (found["relu.scratch0"], found["loop1.scratch0"]) == ((0, 0), (1, 3))


def body(iterates: bool) -> Model:
    """Steps: 0 relu, 1 enter, 2 add (captures `a`), 3 relu2, 4 leave, 5 relu3."""
    return text_model(
        "node relu Relu x -> a", "begin loop1 Loop x g -> y z", f"arm body i -> o{' loop' * iterates}",
        "  node add Add i a -> k", "  node relu2 Relu k -> o", "end loop1", "node relu3 Relu y -> w", inputs="x g",
        outputs="w",
    )  # fmt: skip


def test_what_an_iterating_body_is_given_captures_or_returns_lives_from_enter_to_leave() -> None:
    found = lifetimes(body(True))
    assert {name: found[name] for name in "agixyz"} == {
        "a": (0, 4), "g": (0, 4), "i": (1, 4), "x": (0, 4), "y": (1, 5), "z": (1, 4),
    }  # fmt: skip
    assert (found["k"], found["o"]) == ((2, 3), (3, 4))


def test_a_body_that_runs_once_extends_nothing() -> None:
    found = lifetimes(body(False))
    assert {name: found[name] for name in "agixyz"} == {
        "a": (0, 2), "g": (0, 1), "i": (1, 2), "x": (0, 1), "y": (4, 5), "z": (4, 4),
    }  # fmt: skip
    assert found["o"] == (3, 4)


def test_a_capture_counts_for_every_iterating_body_around_it_up_to_where_it_is_defined() -> None:
    """Steps: 0 enter outer, 1 relu, 2 enter if, 3 enter inner, 4 add, 5 leave inner, 6 leave if, 7 relu3, 8 leave."""
    model = text_model(
        "begin outer Outer x -> y", "arm body i -> o loop", "  node relu Relu i -> a", "  begin if If i -> b",
        "  arm then -> c", "    begin inner Inner i -> c", "    arm body j -> p loop", "      node add Add j a w -> p",
        "    end inner", "  end if", "  node relu3 Relu b -> o", "end outer", inputs="x w",
    )  # fmt: skip
    found = lifetimes(model)
    assert found["w"] == (0, 8)  # captured by both loops
    assert found["a"] == (1, 5)  # made in each iteration of the outer one, captured by the inner one alone
    assert found["i"] == (0, 8)
    assert found["j"] == (3, 5)


def test_a_captured_value_that_an_iterating_body_returns_lives_to_its_leave() -> None:
    """spec: T8.8"""
    model = text_model(
        "node relu Relu x -> a", "begin loop1 Loop x -> y", "arm body i -> a i loop", "end loop1",
        "node relu2 Relu y -> z", outputs="z",
    )  # fmt: skip
    found = lifetimes(model)
    assert (found["a"], found["loop1/body/a.copy0"], found["loop1/body/i.copy1"]) == ((0, 2), (2, 2), (2, 2))
