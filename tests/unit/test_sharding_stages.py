"""Which stage of a pipeline runs, holds, sends and receives what; the planner and the verifier say the same of it.

spec: R7.17, R7.18, R7.30
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.both_ranks import agreed
from tests.support.sharded import model, run, showing, with_roles
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Phase, Role
from tmmu.planner.sharding import Local
from tmmu.planner.sharding.spec import resolve


def net(lines: list[str], outputs: str, *, inputs: str = "x", **phases: Phase) -> Model:
    """A model of tensors of one shape; those whose names begin with `x`, `w` or `m` are the caller's."""
    names = dict.fromkeys(word for line in lines for word in line.partition(": ")[2].split() if word != "->")
    made = model(lines, dict.fromkeys([*inputs.split(), *names], (4,)), outputs)
    nodes = tuple(replace(node, phase=phases.get(node.name.replace(".", "_"), Phase.FORWARD)) for node in made.nodes)
    donated = tuple(name for name in made.bindings.donated if name[0] in "xwm")
    made = replace(made, nodes=nodes, bindings=replace(made.bindings, donated=donated))
    return with_roles(made, {name: Role.GRADIENT for name in names if name.endswith(".grad")})


def staged(made: Model, stages: list[list[str]] | int) -> list[Local]:
    count = stages if isinstance(stages, int) else len(stages)
    names = {} if isinstance(stages, int) else {"stages": stages}
    return agreed(made, resolve({"mesh": {"a": 1, "p": count}, "pipeline": {"axis": "p", **names}}))


def own(local: Local) -> str:
    """The names of the nodes of a stage, collectives apart."""
    return " ".join(node.name for node in local.model.nodes if not node.domain.startswith("tmmu.mesh/"))


def held(local: Local) -> str:
    return " ".join(tensor.name for tensor in local.model.tensors)


CHAIN = ["a Neg: x -> s", "b Neg: s -> t", "c Neg: t -> u", "d Neg: u -> v", "e Neg: v -> y"]


@pytest.mark.parametrize(
    ("stages", "nodes"),
    [(2, "a b c | d e"), (3, "a b | c d | e"), (5, "a | b | c | d | e"), (6, "a | b | c | d | e | ")],
)
def test_without_patterns_depths_are_spread_evenly(stages: int, nodes: str) -> None:
    """spec: R7.17"""
    assert " | ".join(own(local) for local in staged(net(CHAIN, "y"), stages)) == nodes


def test_a_depth_is_the_longest_way_from_the_callers_tensors() -> None:
    """Of forward nodes: how deep what follows them lies changes nothing. spec: R7.17"""
    wide = [*CHAIN[:3], "near Neg: x -> n", "far Add: n u -> y", "loose Neg: x2 -> z"]
    assert [own(local) for local in staged(net(wide, "y z"), 4)] == ["a near loose", "b", "c", "far"]
    trained = [*CHAIN[:2], "u1 com.example::S: t -> v", "u2 com.example::S: v -> w1", "c Neg: t -> y"]
    made = net(trained, "y", u1=Phase.OPTIMIZER, u2=Phase.OPTIMIZER)
    made = with_roles(made, {"w1": Role.ACTIVATION})
    assert [own(local) for local in staged(made, 3)] == ["a", "b u1 u2", "c"]


def test_the_first_stage_with_a_pattern_takes_a_node() -> None:
    found = staged(net(CHAIN, "y"), [["a", "c*"], ["c", "b"], ["*"]])
    assert [own(local) for local in found] == ["a c", "b", "d e"]
    assert [run(local)[-1] for local in found] == ["Send.2 u -> ", "Send.0 t -> ", "Neg v -> y"]


def test_what_two_stages_read_is_sent_to_each_as_soon_as_it_is_there() -> None:
    """spec: R7.18"""
    lines = ["a Neg: x -> s", "b Neg: s -> t", "c Add: s t -> u", "d Add: s u -> y"]
    first, second, third = staged(net(lines, "s y"), [["a"], ["b", "c"], ["d"]])
    assert run(first) == ["Neg x -> s", "Send.1 s -> ", "Send.2 s -> "]
    assert run(second) == ["Recv.0  -> s", "Neg s -> t", "Add s t -> u", "Send.2 u -> "]
    assert run(third) == ["Recv.0  -> s", "Recv.1  -> u", "Add s u -> y"]
    assert [[held(local), local.model.outputs] for local in (first, second, third)] == [
        ["x s", (1,)], ["s t u", ()], ["s u y", (2,)],
    ]  # fmt: skip


def test_a_gradient_step_is_on_its_forward_nodes_stage_and_others_where_what_they_read_is_made() -> None:
    """Or, where nothing that they read is made by a step, where it is read before, or on the first. spec: R7.17"""
    lines = [
        "a Neg: x -> s", "b Neg: s -> t", "b.grad tmmu.grad::NegGrad: x2 -> t.grad", "b2grad com.example::S: s -> o1",
        "c.grad tmmu.grad::NegGrad: t.grad s -> o2", "u com.example::S: w -> o3", "v com.example::S: t w -> o4",
        "r com.example::S: w t -> o5", "k com.example::S: x2 -> o6", "l com.example::S: x3 -> o7",
        "m com.example::S: o4 t -> o8",
    ]  # fmt: skip
    late = dict.fromkeys(("b_grad", "c_grad"), Phase.BACKWARD)
    other = dict.fromkeys(("b2grad", "u", "v", "r", "k", "l", "m"), Phase.OPTIMIZER)
    found = staged(net(lines, "t", **late, **other), [["a"], ["b"]])
    assert [own(local) for local in found] == ["a b2grad c.grad u l", "b b.grad v r k m"]


def test_of_the_stages_that_read_a_tensor_the_first_counts() -> None:
    """Not the one whose step comes first. spec: R7.17"""
    lines = ["b Neg: x -> s", "k com.example::S: x -> o1", "a Neg: x -> t", "l com.example::S: x -> o2"]
    made = net(lines, "s t", k=Phase.OPTIMIZER, l=Phase.OPTIMIZER)
    assert [own(local) for local in staged(made, [["a"], ["b"]])] == ["a l", "b k"]
    assert [own(local) for local in staged(made, [["b"], ["a"]])] == ["b k l", "a"]


def test_a_pipeline_of_one_stage_runs_everything() -> None:
    """Whatever its patterns name."""
    assert [own(local) for local in staged(net(CHAIN, "y"), [["a"]])] == ["a b c d e"]


def test_what_no_step_reads_is_on_the_first_stage_and_an_output_on_the_first_that_has_it() -> None:
    """spec: R7.18"""
    lines = ["a Neg: x -> s", "b Add: s x2 -> t", "c Add: t x2 -> y"]
    made = net(lines, "y x2 x3 s", inputs="x x3")
    found = staged(made, [["a"], ["b"], ["c"]])
    assert [held(local) for local in found] == ["x x3 s", "s x2 t", "x2 t y"]
    outputs = [[local.model.tensors[t].name for t in local.model.outputs] for local in found]
    assert outputs == [["x3", "s"], ["x2"], ["y"]]


def test_what_one_stage_changes_is_its_own() -> None:
    """spec: R7.30"""
    lines = ["a Neg: x -> s", "b Neg: s -> t", "u com.example::S: w t -> w", "k com.example::S: t -> t"]
    found = staged(net(lines, "w"), [["a"], ["*"]])
    assert [own(local) for local in found] == ["a", "b u k"]
    assert held(found[1]) == "s t w"
    for where in (["a", "u"], ["k", "a"]):
        with pytest.raises(TmmuError, match="it is mutated, and used in two stages"):
            staged(net(lines, "w"), [where, ["*"]])
    read_before = ["a Neg: w -> s", "u com.example::S: s w2 -> t", "b com.example::S: t w -> w"]
    with pytest.raises(TmmuError, match="it is mutated, and used in two stages"):
        staged(net(read_before, "t"), [["a"], ["*"]])


def test_what_is_received_is_no_view_and_conflicts_are_those_of_what_is_here() -> None:
    lines = ["a Neg: x -> s", "b Identity: s -> t", "c Neg: t -> y", "d Identity: y -> z", "e Neg: z -> v"]
    made = showing(showing(net(lines, "v"), "t", "s"), "z", "y")
    rows = {tensor.name: t for t, tensor in enumerate(made.tensors)}
    made = replace(made, must_not_alias=tuple((rows[a], rows[b]) for a, b in ("xs", "sy", "ty", "zv")))
    first, second, third = staged(made, [["a", "b"], ["c", "d"], ["e"]])
    assert [tensor.name for tensor in first.model.tensors if tensor.view] == ["t"]
    assert [tensor.name for tensor in second.model.tensors if tensor.view] == ["z"]
    assert [[held(local), local.model.must_not_alias] for local in (first, second, third)] == [
        ["x s t", ((0, 1),)], ["t y z", ((0, 1),)], ["z v", ((0, 1),)],
    ]  # fmt: skip


def test_a_stage_keeps_what_is_saved_of_its_own() -> None:
    made = net(CHAIN, "y")
    saved = tuple(replace(tensor, saved_for_backward=tensor.name in ("s", "v")) for tensor in made.tensors)
    first, second = staged(replace(made, tensors=saved), 2)
    for local, name in ((first, "s"), (second, "v")):
        assert [tensor.name for tensor in local.model.tensors if tensor.saved_for_backward] == [name]


@pytest.mark.parametrize("name", ["s.Send.1", "s.Recv.0"])
def test_a_name_of_the_model_is_not_taken_by_an_exchange(name: str) -> None:
    """Nor where it is another stage that has the node of this name."""
    lines = ["a Neg: x -> s", f"{name} Neg: s -> y"]
    with pytest.raises(TmmuError, match="a collective needs this name"):
        staged(net(lines, "y"), [["a"], ["*"]])


def test_collectives_of_a_later_phase_have_it() -> None:
    """What is exchanged for a gradient belongs to the backward pass, as do the collectives around its step."""
    lines = ["a Neg: x -> s", "b Neg: s -> y", "b.grad tmmu.grad::NegGrad: y.seed -> s.grad",
             "a.grad tmmu.grad::NegGrad: s.grad -> o"]  # fmt: skip
    made = with_roles(net(lines, "y", b_grad=Phase.BACKWARD, a_grad=Phase.BACKWARD), {"y.seed": Role.INPUT})
    first, second = staged(made, [["a"], ["b"]])
    phases: Any = [[(node.name, str(node.phase)) for node in local.model.nodes] for local in (first, second)]
    assert phases == [
        [("a", "forward"), ("s.Send.1", "forward"), ("s.grad.Recv.1", "backward"), ("a.grad", "backward")],
        [("s.Recv.0", "forward"), ("b", "forward"), ("b.grad", "backward"), ("s.grad.Send.0", "backward")],
    ]
