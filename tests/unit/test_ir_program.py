"""A model as the steps that execute it: bodies between enter and leave, copies, scratch.

spec: T8.1, T8.2, T8.8, T8.9, T8.10, T8.11, T8.12, I1.10
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.small import small
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Role, Scratch
from tmmu.ir.program import ModelProgram, Range, defining_body, program


def steps(run: ModelProgram) -> list[str]:
    """Each step as text: node, part, body, reads and writes."""
    names = [tensor.name for tensor in run.tensors]

    def text(tensors: tuple[int, ...]) -> str:
        return " ".join(names[t] for t in tensors)

    return [f"{run.model.nodes[s.node].name} {s.part} {s.body}: {text(s.reads)} -> {text(s.writes)}" for s in run.steps]


def test_a_plain_model_has_one_step_a_node() -> None:
    run = program(small("relu: x -> a", "add: a x -> y"))
    assert steps(run) == ["relu whole 0: x -> a", "add whole 0: a x -> y"]
    assert (run.ranges, run.body_names, run.parents) == ((Range(-1, -1),), ("",), (0,))


def nested() -> Model:
    return small(
        "if: c x -> y",
        "if/then: => r",
        "  loop: x -> r",
        "  loop/body*: i => o",
        "    relu: i -> o",
        "if/else: => x s s",
        "  relu2: x -> s",
        "relu3: y -> z",
        inputs="c x",
        outputs="z",
    )


def test_a_node_with_bodies_encloses_their_steps_in_order() -> None:
    run = program(nested())
    assert steps(run) == [
        "if enter 0: c x -> ",
        "loop enter 1: x -> i",
        "relu whole 2: i -> o",
        "loop leave 1: o -> r",
        "relu2 whole 3: x -> s",
        "if leave 0: r x if/else/x.copy0 s s if/else/s.copy2 -> if/else/x.copy0 if/else/s.copy2 y",
        "relu3 whole 0: y -> z",
    ]
    assert run.ranges == (Range(-1, -1), Range(0, 5), Range(1, 3), Range(0, 5))
    assert run.body_names == ("", "if/then", "loop/body", "if/else")
    assert run.parents == (0, 0, 1, 0)


def test_what_a_body_hands_out_without_making_it_is_copied_first() -> None:
    """A loop that swaps its two values hands out its formal inputs."""
    run = program(small("loop: x x -> y z", "loop/body*: a b => b a", outputs="y z"))
    copies = "loop/body/b.copy0", "loop/body/a.copy1"
    assert steps(run)[-1] == "loop leave 0: b {0} a {1} -> {0} {1} y z".format(*copies)
    assert [(t.name, t.bytes, t.role, t.view, t.alias_group) for t in run.tensors[-2:]] == [
        (name, 64, Role.SCRATCH, None, None) for name in copies
    ]


def test_a_copy_is_named_within_its_body_once() -> None:
    run = program(small("loop: x -> y", "loop/body*: loop/body/i => loop/body/i"))
    assert run.tensors[-1].name == "loop/body/i.copy0"


def test_scratch_is_written_and_read_by_its_nodes_steps() -> None:
    requests = (Scratch(8, 16), Scratch(0, 1, "gradients"))
    run = program(small("relu: x -> y", nodes={"relu": {"scratch": requests}}))
    assert steps(run) == ["relu whole 0: x relu.scratch0 relu.scratch1 -> y relu.scratch0 relu.scratch1"]
    assert [(t.bytes, t.alignment, t.role, t.dtype) for t in run.tensors[2:]] == [
        (8, 16, Role.SCRATCH, "uint8"),
        (0, 1, Role.SCRATCH, "uint8"),
    ]
    assert run.scratch_arena == {3: "gradients"}


def test_scratch_of_a_node_with_bodies_lives_from_its_enter_to_its_leave() -> None:
    model = small("loop: x -> y", "loop/body: i => o", "  relu: i -> o", nodes={"loop": {"scratch": (Scratch(8, 1),)}})
    assert steps(program(model)) == [
        "loop enter 0: x loop.scratch0 -> i loop.scratch0",
        "relu whole 1: i -> o",
        "loop leave 0: o loop.scratch0 -> y",
    ]


def test_a_mutation_belongs_to_the_step_that_writes() -> None:
    run = program(small("change: x -> !x y", "if: x -> !x", "if/then: => a", "  relu: x -> a"))
    assert [step.mutates for step in run.steps] == [(0,), (), (), (0,)]


def test_a_tensor_is_defined_where_it_is_made() -> None:
    model = nested()
    names = [t.name for t in model.tensors]
    found = dict(zip(names, defining_body(model), strict=True))
    assert found == {"c": 0, "x": 0, "y": 0, "r": 1, "i": 2, "o": 2, "s": 3, "z": 0}
    assert defining_body(small("relu: x -> y", "if: x -> z", "if/then: => x", "  change: y -> !y")) == [0, 0, 0]


def test_a_name_that_a_scratch_or_a_copy_needs_is_refused() -> None:
    """A plan's names are unique: two tensors of one name would make it no plan. spec: I1.3"""
    scratch = small("relu: x -> relu.scratch0", outputs="relu.scratch0", nodes={"relu": {"scratch": (Scratch(8, 1),)}})
    copy = small("relu: x -> if/then/x.copy0", "if: x -> y", "if/then: => x")
    twice = small("if: x -> y", "if/then: => x if/then/x", "  relu: x -> if/then/x")
    for model, name in ((scratch, "relu.scratch0"), (copy, "if/then/x.copy0")):
        with pytest.raises(TmmuError, match="rename the tensor") as refused:
            program(model)
        assert (refused.value.code_id, refused.value.diagnostics["node_id"]) == ("INVALID_IR", name)
    assert program(twice)  # the copies of one body differ by their number
    renamed = replace(scratch, nodes=(replace(scratch.nodes[0], name="other"),))
    assert program(renamed).tensors[-1].name == "other.scratch0"
