"""A model as the steps that execute it: bodies between enter and leave, copies, scratch.

spec: T8.1, T8.2, T8.8, T8.9, T8.10, T8.11, T8.12, I1.10
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Role
from tmmu.ir.program import ModelProgram, Range, build_program, find_defining_bodies


def steps(run: ModelProgram) -> list[str]:
    """Each step as text: node, part, body, reads and writes."""
    names = [tensor.name for tensor in run.tensors]

    def text(tensors: tuple[int, ...]) -> str:
        return " ".join(names[t] for t in tensors)

    return [f"{run.model.nodes[s.node].name} {s.part} {s.body}: {text(s.reads)} -> {text(s.writes)}" for s in run.steps]


def test_a_plain_model_has_one_step_a_node() -> None:
    run = build_program(text_model("node relu Relu x -> a", "node add Add a x -> y"))
    assert steps(run) == ["relu whole 0: x -> a", "add whole 0: a x -> y"]
    assert (run.ranges, run.body_names, run.parents) == ((Range(-1, -1),), ("",), (0,))


def nested() -> Model:
    return text_model(
        "begin if If c x -> y", "arm then -> r", "  begin loop1 Loop x -> r", "  arm body i -> o loop",
        "    node relu Relu i -> o", "  end loop1", "arm else -> x s s", "  node relu2 Relu x -> s", "end if",
        "node relu3 Relu y -> z", inputs="c x", outputs="z",
    )  # fmt: skip


def test_a_node_with_bodies_encloses_their_steps_in_order() -> None:
    run = build_program(nested())
    assert steps(run) == [
        "if enter 0: c x -> ",
        "loop1 enter 1: x -> i",
        "relu whole 2: i -> o",
        "loop1 leave 1: o -> r",
        "relu2 whole 3: x -> s",
        "if leave 0: r x if/else/x.copy0 s s if/else/s.copy2 -> if/else/x.copy0 if/else/s.copy2 y",
        "relu3 whole 0: y -> z",
    ]
    assert run.ranges == (Range(-1, -1), Range(0, 5), Range(1, 3), Range(0, 5))
    assert run.body_names == ("", "if/then", "loop1/body", "if/else")
    assert run.parents == (0, 0, 1, 0)


def test_what_a_body_hands_out_without_making_it_is_copied_first() -> None:
    """A loop that swaps its two values hands out its formal inputs."""
    run = build_program(
        text_model("begin loop1 Loop x x -> y z", "arm body a b -> b a loop", "end loop1", outputs="y z")
    )
    copies = "loop1/body/b.copy0", "loop1/body/a.copy1"
    assert steps(run)[-1] == "loop1 leave 0: b {0} a {1} -> {0} {1} y z".format(*copies)
    assert [(t.name, t.bytes, t.role, t.view, t.alias_group) for t in run.tensors[-2:]] == [
        (name, 64, Role.SCRATCH, None, None) for name in copies
    ]


def test_a_copy_is_named_within_its_body_once() -> None:
    run = build_program(
        text_model("begin loop1 Loop x -> y", "arm body loop1/body/i -> loop1/body/i loop", "end loop1")
    )
    assert run.tensors[-1].name == "loop1/body/i.copy0"


def test_scratch_is_written_and_read_by_its_nodes_steps() -> None:
    run = build_program(text_model("node relu Relu x -> y scratch 8 align 16 scratch 0 arena gradients"))
    assert steps(run) == ["relu whole 0: x relu.scratch0 relu.scratch1 -> y relu.scratch0 relu.scratch1"]
    assert [(t.bytes, t.alignment, t.role, t.dtype) for t in run.tensors[2:]] == [
        (8, 16, Role.SCRATCH, "uint8"),
        (0, 1, Role.SCRATCH, "uint8"),
    ]
    assert run.scratch_arena == {3: "gradients"}


def test_scratch_of_a_node_with_bodies_lives_from_its_enter_to_its_leave() -> None:
    model = text_model("begin loop1 Loop x -> y scratch 8", "arm body i -> o", "  node relu Relu i -> o", "end loop1")
    assert steps(build_program(model)) == [
        "loop1 enter 0: x loop1.scratch0 -> i loop1.scratch0",
        "relu whole 1: i -> o",
        "loop1 leave 0: o loop1.scratch0 -> y",
    ]


def test_a_mutation_belongs_to_the_step_that_writes() -> None:
    run = build_program(
        text_model(
            "node change Change x -> x y changes x", "begin if If x -> x changes x", "arm then -> a",
            "  node relu Relu x -> a", "end if",
        )
    )  # fmt: skip
    assert [step.mutates for step in run.steps] == [(0,), (), (), (0,)]


def test_a_tensor_is_defined_where_it_is_made() -> None:
    model = nested()
    names = [t.name for t in model.tensors]
    found = dict(zip(names, find_defining_bodies(model), strict=True))
    assert found == {"c": 0, "x": 0, "y": 0, "r": 1, "i": 2, "o": 2, "s": 3, "z": 0}
    assert find_defining_bodies(
        text_model(
            "node relu Relu x -> y", "begin if If x -> z", "arm then -> x", "  node change Change y -> y changes y",
            "end if",
        )
    ) == [0, 0, 0]  # fmt: skip


def test_a_name_that_a_scratch_or_a_copy_needs_is_refused() -> None:
    """A plan's names are unique: two tensors of one name would make it no plan. spec: I1.3"""
    scratch = text_model("node relu Relu x -> relu.scratch0 scratch 8", outputs="relu.scratch0")
    copy = text_model("node relu Relu x -> if/then/x.copy0", "begin if If x -> y", "arm then -> x", "end if")
    twice = text_model("begin if If x -> y", "arm then -> x if/then/x", "  node relu Relu x -> if/then/x", "end if")
    for model, name in ((scratch, "relu.scratch0"), (copy, "if/then/x.copy0")):
        with pytest.raises(TmmuError, match="rename the tensor") as refused:
            build_program(model)
        assert (refused.value.code_id, refused.value.diagnostics["node_id"]) == ("INVALID_IR", name)
    assert build_program(twice)  # the copies of one body differ by their number
    renamed = replace(scratch, nodes=(replace(scratch.nodes[0], name="other"),))
    assert build_program(renamed).tensors[-1].name == "other.scratch0"
