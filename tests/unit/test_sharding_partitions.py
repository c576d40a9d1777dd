"""How each tensor of a model is partitioned over the mesh; planner and verifier agree on it.

spec: R7.5 to R7.8, R7.12
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.both_ranks import agreed
from tests.support.sharded import model, rule, with_roles
from tmmu.core.dtypes import nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Role, Scratch
from tmmu.planner.sharding.spec import resolve

INPUT, PARAMETER, OPTIMIZER, GRADIENT = Role.INPUT, Role.PARAMETER, Role.OPTIMIZER, Role.GRADIENT
SQUARE = (4, 6)


def partitions(net: Model, **document: Any) -> dict[str, str]:
    """The axes of each tensor's dimensions: a point for none, `1` for a tensor without dimensions."""
    (local,) = agreed(net, resolve(document))
    return {
        local.model.tensors[row].name: "".join(axis or "." for axis in split) or "1" for row, _, split in local.parts
    }


def test_the_first_rule_that_has_the_role_and_one_of_the_names_holds() -> None:
    """An axis of one rank splits nothing, nor is a dimension split that a rule does not mention. spec: R7.5"""
    net = model(["n Sum: x x2 w w2 v -> y"], dict.fromkeys(("x", "x2", "w", "w2", "v", "y"), SQUARE), "y")
    rules = [
        rule(["a"], "x*", "w2", roles=(PARAMETER,)), rule(["", "b"], "w*", "x2"),
        rule(["c", "a"], "*", roles=(INPUT,)),
    ]  # fmt: skip
    found = partitions(with_roles(net, {"v": INPUT}), mesh={"a": 2, "b": 2, "c": 1}, rules=rules)
    del found["y"]
    assert found == {"x": ".a", "x2": ".b", "w": ".b", "w2": "a.", "v": ".a"}


NAMES = (
    "y.grad", "y.grad.part0", "y.grad.sum12", "y.grad.part0.sum1", "y.grad.partial", "y.grad.part", "ygrad", "z.grad",
    ".grad", "y.grad.part٣", "y.grad.part1\n",
)  # fmt: skip


def test_a_gradient_and_its_parts_lie_as_their_tensor() -> None:
    """What is only called so, has another shape, or is of no tensor, does not. spec: R7.7"""
    net = model(["n Relu: x -> y"], {"x": SQUARE, "y": SQUARE, "z": SQUARE}, "y z")
    made = [replace(net.tensors[0], name=name, role=GRADIENT) for name in NAMES]
    made[7] = replace(made[7], role=Role.ACTIVATION)
    made += [replace(net.tensors[0], name="x.grad", role=GRADIENT, shape=(4,), bytes=16)]
    makers = [
        replace(net.nodes[0], name=f"n{k}", op="Make", domain="com.example", reads=(), writes=(3 + k,))
        for k in range(len(made))
    ]
    # Of what is written later nothing is known yet.
    made += [
        replace(net.tensors[0], name=name, role=role) for name, role in (("v.grad", GRADIENT), ("v", Role.ACTIVATION))
    ]
    makers += [replace(makers[0], name=f"v{k}", writes=(3 + k,)) for k in range(len(makers), len(made))]
    net = replace(net, tensors=(*net.tensors, *made), nodes=(*net.nodes, *makers))
    split = [rule(["a", "b"], "x", "z"), rule(["", "a"], "v", roles=(Role.ACTIVATION,))]
    found = partitions(with_roles(net, {"z": INPUT}), mesh={"a": 2, "b": 3}, rules=split)
    assert (found["v.grad"], found["v"]) == ("..", ".a")
    assert {name for name, split_by in found.items() if split_by == "ab"} == {
        "x", "y", "z", "y.grad", "y.grad.part0", "y.grad.sum12",
    }  # fmt: skip


def test_a_seed_lies_as_its_tensor_and_follows_rules_for_gradients() -> None:
    """Other inputs follow those for inputs, whatever they are called. spec: R7.7"""
    names = ("x", "x.seed", "xAseed", "x2", "x2.seed", "n.scratch0.seed", "x3.seed", "y", "y.seed")
    net = model(["n Relu: x -> y", "k com.example::Make: x -> y.seed"], dict.fromkeys(names, (8,)) | {"x3": (4,)}, "y")
    net = with_roles(net, {"n.scratch0.seed": INPUT})
    net = replace(net, nodes=(replace(net.nodes[0], scratch=(Scratch(8, 1),)), *net.nodes[1:]))
    rules = [rule(["a"], "x"), rule(["a"], "x2*", roles=(GRADIENT,)), rule(["b"], "*", roles=(INPUT,))]
    assert partitions(net, mesh={"a": 2, "b": 4}, rules=rules) == {
        "x": "a", "x.seed": "a", "xAseed": "b", "x2": "b", "x2.seed": "a", "x3": "b", "x3.seed": "b",
        "n.scratch0.seed": "b", "y": "a", "y.seed": ".",
    }  # fmt: skip


def joint(shape: tuple[int, ...]) -> Model:
    """A parameter, optimizer state, an input, the gradients of the first and of the last, and what is called a seed."""
    lines = ["n com.example::Make: x w m -> y wg xg", "k com.example::Step: wg -> z"]
    names = ("x", "w", "m", "y", "w.grad", "x.grad", "z", "w.seed")
    lines = [line.replace("wg", "w.grad").replace("xg", "x.grad") for line in lines]
    roles = {"w.grad": GRADIENT, "x.grad": GRADIENT, "w.seed": INPUT}
    return with_roles(model(lines, dict.fromkeys(names, shape), "y"), roles)


@pytest.mark.parametrize(("stage", "split"), [(1, {"m"}), (2, {"m", "w.grad"}), (3, {"m", "w.grad", "w"})])
def test_zero_splits_the_state_then_gradients_of_parameters_then_parameters(stage: int, split: set[str]) -> None:
    """spec: R7.12"""
    found = partitions(joint(SQUARE), mesh={"a": 2, "b": 2}, zero={"axis": "a", "stage": stage})
    assert found == {name: "a." if name in split else ".." for name in found}


@pytest.mark.parametrize(
    ("shape", "split", "document", "split_by"),
    [
        ((4, 6), [], {}, "a."), ((3, 6), [], {}, ".a"), ((4, 6), ["b"], {}, "ba"), ((4, 6), ["a"], {}, "a."),
        ((4, 6), ["", "a"], {}, ".a"), ((4, 6), ["a", "b"], {}, "ab"), ((6,), ["b"], {}, "b"), ((), [], {}, "1"),
        ((3, 5), [], {"pad": True}, "a."), ((3, 5), ["b"], {"pad": True}, "ba"),
        ((4, 6), [], {"mesh": {"a": 1, "b": 2}}, ".."),
    ],
)  # fmt: skip
def test_zero_takes_the_first_dimension_that_is_free_and_divides(
    shape: tuple[int, ...], split: list[str], document: dict[str, Any], split_by: str
) -> None:
    """spec: R7.12"""
    rules = [rule(split, "m", roles=(OPTIMIZER,))] if split else []
    zero = {"axis": "a", "stage": 1}
    assert (
        partitions(joint(shape), **{"mesh": {"a": 2, "b": 2}, "zero": zero, "rules": rules, **document})["m"]
        == split_by
    )


def test_zero_leaves_what_is_not_floating() -> None:
    net = joint(SQUARE)
    for dtype, split_by in (("int32", ".."), ("bfloat16", "a."), ("float16", "a.")):
        tensors = [replace(t, dtype=dtype, bytes=nbytes(t.shape, dtype)) for t in net.tensors]
        found = partitions(replace(net, tensors=tuple(tensors)), mesh={"a": 2}, zero={"axis": "a", "stage": 3})
        assert (found["m"], found["w"]) == (split_by, split_by)


@pytest.mark.parametrize(("roles", "names"), [((INPUT,), ["x"]), ((OPTIMIZER,), ["*"])])
def test_a_dimension_that_does_not_divide_is_refused_without_padding(roles: tuple[Role, ...], names: list[str]) -> None:
    """spec: R7.8"""
    by = {"mesh": {"a": 4, "b": 2}, "rules": [rule(["b", "a"], *names, roles=roles)]}
    with pytest.raises(TmmuError, match=r"dimension 1 of 6 .*'a' of 4"):
        partitions(joint(SQUARE), **by)
    assert partitions(joint(SQUARE), pad=True, **by)["x" if names == ["x"] else "m"] == "ba"
