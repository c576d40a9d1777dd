"""The verifier's joint graph is the planner's, and so is what it leaves of a model in each mode.

Both are made from the model by code that shares nothing; the planner's is read back by the verifier's own reader.
spec: V3.5, M1.4, M1.6, M2.1 to M2.12
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proofs.readers.models.ir import read_ir
from proofs.readers.models.reference import ReferenceProgram
from proofs.readers.models.training import reference_in_mode, saved_for_backward
from tests.support.text_models import text_model
from tests.support.trainable import MLP, OPTIMIZER, floating
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.planner import DEFAULT
from tmmu.planner.modes import prepare_graph

SGD = ("node sgd0 Sgd w w.grad -> w changes w optimizer", "tensor w f32 4x4 donated")


def deep(*lines: str, **options: Any) -> Model:
    """What follows a product of an input and a parameter."""
    return floating("node matmul0 MatMul x w -> a", *lines, **{"parameters": "w", **options})


FORWARD = {
    "a network": MLP,
    # Whose gradients are asked for: of the parameters that can have one, else of the inputs that can.
    "inputs alone": floating("node mul0 Mul x u -> y", inputs="x u"),
    "an input of integers": floating("node gather0 Gather x i -> y", "tensor i i64 4x4", inputs="x i"),
    "a parameter of integers": floating(
        "node gather0 Gather w i -> y", "tensor i i64 4x4", inputs="", parameters="w i",
    ),
    "a factor of integers": deep("node mul0 Mul a i -> y", "tensor i i64 4x4", parameters="w i"),
    "a parameter without dimensions": deep("node mul1 Mul a s -> y", "tensor s f32 scalar", parameters="w s"),
    "no other parameter": floating("node mul0 Mul x s -> y", "tensor s f32 scalar", parameters="s"),
    # What is returned has a seed, besides what is made of it.
    "a result that is read again": deep("node tanh0 Tanh a -> y", outputs="a y"),
    "a result that is read twice again": deep("node tanh0 Tanh a -> b", "node mul0 Mul a b -> y", outputs="a y"),
    "an input that is returned": floating("node tanh0 Tanh x -> y", outputs="y x"),
    "an input that is nothing but returned": floating("node tanh0 Tanh u -> y", inputs="x u", outputs="y x"),
    "a parameter that is returned": floating("node matmul0 MatMul x w -> y", parameters="w", outputs="y w"),
    # Gradients that show the bytes of others, and those that do not.
    "a dropout that drops nothing": deep("node dropout0 Dropout a -> y", "tensor y f32 4x4 view a 0"),
    "a dropout that drops": deep("node dropout0 Dropout a -> y m"),
    "a dropout that is wider": deep("node dropout0 Dropout a -> y m", "tensor y f32 2x4x4"),
    "a dropout that shows a part": deep("node dropout0 Dropout a -> y m", "tensor y f32 4 view a 0"),
    "a reshape of seven elements in the bytes of eight": deep(
        "node mul0 Mul a s -> c", "node reshape0 Reshape c -> y", "tensor c float4e2m1 8", "tensor y float4e2m1 7",
        inputs="x s",
    ),
    "a reshape": deep("node reshape0 Reshape a -> y", "tensor y f32 16"),
    "a reshape to more elements": deep("node reshape0 Reshape a -> y", "tensor y f32 2x4x4"),
    "an identity of less bytes": deep("node identity0 Identity a -> y", "tensor y f16 4x4"),
    "a squeeze to less elements": deep("node squeeze0 Squeeze a -> y", "tensor y f64 2x4"),
    "a reshape of another domain": deep("node reshape0 c::Reshape a -> y"),
    "a domain by its long name": deep("node reshape0 Reshape a -> b", "node relu0 ai.onnx::Relu b -> y"),
    "a sum with a row": deep("node add0 Add a v -> y", "tensor v f32 4", parameters="w v"),
    "a sum with other dimensions": deep("node add0 Add a v -> y", "tensor v f32 1x4x4", parameters="w v"),
    "a sum of another domain": deep("node add0 c::Add a v -> y", parameters="w v"),
    # Gradients that may take the bytes of others, and those that may not.
    "a row by itself": floating(
        "node mul0 Mul v x -> a", "node add0 Add a v -> b", "node div0 Div v b -> y", "tensor v f32 4", parameters="v",
    ),
    "a relu of another domain": deep("node relu0 c::Relu a -> y"),
    "a relu of fewer bytes": deep("node relu0 Relu a -> y", "tensor y f16 4x4"),
    "a cast": deep("node cast0 Cast a -> b", "node relu0 Relu b -> y", "tensor b f16 4x4", "tensor y f16 4x4"),
    # What is added up, and what is not reached.
    "a branch without an end": deep("node tanh0 Tanh a -> b", "node sin0 Sin a -> y"),
    "four terms": deep("node tanh0 Tanh a -> b", "node sin0 Sin a -> c", "node sum0 Sum a b c a -> y"),
    "two results": deep("node split0 Split a -> b c", "node add0 Add b c -> y"),
    # Gradients that an optimizer takes.
    "an optimizer": OPTIMIZER,
    "an optimizer of a parameter that is not reached": floating(
        "node matmul0 MatMul x w -> y", "node sgd0 Sgd v v.grad -> v changes v optimizer", "tensor v f32 4x4 donated",
        inputs="x v.grad", parameters="w v",
    ),
    "no step": text_model(inputs="x", outputs="x"),
}  # fmt: skip
REFUSED = {
    "no gradient": floating("node floor0 Floor x -> y"),
    "a dropout without a mask": deep("node dropout0 Dropout a -> y"),
    "an alias group": deep("node relu0 Relu a -> b", "node neg0 Neg b -> y", "tensor b f32 4x4", "alias g b y"),
    "a change": floating(
        "node update0 Update a x -> a changes a", "node neg0 Neg a -> y", "tensor a f32 4x4 donated", inputs="x a"
    ),
    "a gradient of this name that nobody takes": floating(
        "node matmul0 MatMul x w -> y", SGD[0].replace("w.grad", "g"), SGD[1], inputs="x g w.grad", parameters="w"
    ),
    "one of another shape": floating(
        "node matmul0 MatMul x w -> y", *SGD, "tensor w.grad f32 4", inputs="x w.grad", parameters="w"
    ),
    "one of fewer bytes": floating(
        "node matmul0 MatMul x w -> y", *SGD, "tensor w.grad f16 4x4", inputs="x w.grad", parameters="w"
    ),
    "one of integers": floating(
        "node matmul0 MatMul x w -> y", *SGD, "tensor w.grad i32 4x4", inputs="x w.grad", parameters="w"
    ),
    "one that is made": floating("node matmul0 MatMul x w -> y", "node neg0 Neg w -> w.grad", *SGD, parameters="w"),
    "one that is a parameter": floating("node matmul0 MatMul x w -> y", *SGD, parameters="w w.grad"),
    "a seed of this name": deep("node neg0 Neg a -> y", inputs="x y.seed"),
    "a node of this name": deep("node neg0 Neg a -> y", "node neg0.grad Neg0.grad x -> z"),
}
OWN = {
    "a backward half": text_model(
        "node tanh Tanh x -> b", "node sin Sin b -> y", "node g G s b -> z backward", inputs="x s", outputs="y z",
    ),
    "a backward half with a body": text_model(
        "node tanh Tanh x -> b", "begin if If c -> g backward", "arm then -> e", "  node neg Neg b -> e", "end if",
        inputs="x c", outputs="b g",
    ),
    "a backward half with a body in a body": text_model(
        "node tanh Tanh x -> b", "begin if If c -> g backward", "arm then -> e", "  begin if2 If c -> e",
        "  arm then -> f", "    node neg Neg b -> f", "  end if2", "end if", inputs="x c", outputs="b g",
    ),
    "a forward half with a body": text_model(
        "begin if If c -> b", "arm then -> e", "  node neg Neg x -> e", "end if", "node tanh Tanh b -> y",
        "node g G b -> z backward", inputs="x c", outputs="y z",
    ),
    "all that stays is kept apart": text_model(
        "node tanh Tanh x -> y", "node g G y -> z backward", "apart x y", outputs="y z",
    ),
    "some of it is kept apart": text_model(
        "node tanh Tanh x -> a", "node sin Sin a -> y", "node g G y -> z backward", "apart x y", "apart y z",
        outputs="y z",
    ),
    "an input that shows another, which backward alone reads": text_model(
        "node tanh Tanh v -> y", "node g G b u -> z backward", "tensor u u8 64 view b 0", "tensor v u8 64 view u 0",
        inputs="b u v", outputs="y z",
    ),
    "an input that nobody reads": text_model(
        "node tanh Tanh x -> y", "node g G b -> z backward", inputs="x b u", outputs="y z",
    ),
    "a parameter that both halves read": text_model(
        "node mul Mul x w -> y", "node g G y w -> z backward", parameters="w", outputs="y z",
    ),
    "a backward half that changes what it reads": text_model(
        "node tanh Tanh x -> y", "node g G y x -> z x changes x backward", "tensor x u8 64 donated", outputs="y z",
    ),
    "a change after the last read": text_model(
        "node tanh Tanh x -> y", "node g G y -> z backward", "node neg Neg x -> x changes x", "tensor x u8 64 donated",
        outputs="y z",
    ),
}  # fmt: skip
CHANGED = {
    "a change of what backward reads": text_model(
        "node tanh Tanh x -> y", "node g G x -> z backward", "node neg Neg y -> x changes x", "tensor x u8 64 donated",
        outputs="y z",
    ),
    "a change of what backward sees through a view": text_model(
        "node reshape Reshape x -> v", "node g G v -> z backward", "node neg Neg y -> x changes x",
        "tensor v u8 64 view x 0", "tensor x u8 64 donated", inputs="x y", outputs="y z",
    ),
}  # fmt: skip


def said(model: ReferenceProgram) -> dict[str, object]:
    """What a plan is compared with, of the tensors that the model still has."""
    there = model.sizes.keys()
    tables = {
        name: {tensor: value for tensor, value in getattr(model, name).items() if tensor in there}
        for name in ("sizes", "shapes", "alignments", "roles", "views")
    }
    kept = ("steps", "bodies", "inputs", "outputs", "saved", "must_not_alias", "phases")
    return {
        **tables, **{name: getattr(model, name) for name in kept},
        "in_place": {pair for pair in model.in_place if there >= set(pair)}, "floating": model.floating & there,
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["backward", "forward", "inference"])
def test_planner_and_verifier_leave_and_add_the_same(mode: str) -> None:
    for name, model in (FORWARD | OWN).items():
        assert said(reference_in_mode(read_ir(model), mode)) == said(read_ir(prepare_graph(model, mode, DEFAULT))), name


def test_planner_and_verifier_refuse_the_same() -> None:
    """spec: M1.12, M2.12, M2.15"""
    for modes, models in ((("backward", "forward"), REFUSED), (("forward",), CHANGED)):
        for mode in modes:
            for name, model in models.items():
                with pytest.raises(TmmuError) as by_the_verifier:
                    reference_in_mode(read_ir(model), mode)
                assert by_the_verifier.value.code_id == "MODE_VIOLATION", name
                with pytest.raises(TmmuError) as by_the_planner:
                    prepare_graph(model, mode, DEFAULT)
                assert by_the_planner.value.code_id in ("MODE_VIOLATION", "INVALID_IR"), name


def test_what_backward_makes_is_not_saved_though_forward_reads_it() -> None:
    """Of a joint graph whose halves take turns. spec: M2.7"""
    turns = text_model(
        "node tanh Tanh x -> b", "node g G b -> c backward", "node neg Neg c -> y", "node h H c -> z backward",
        outputs="y z",
    )  # fmt: skip
    assert saved_for_backward(read_ir(turns)) == {"b"}


class CountedName(str):
    """A name that counts how often it is compared with another."""

    compared = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)


def compared(parameters: int) -> int:
    """How often the names of a model's inputs are compared, when its joint graph is made with a step for each
    parameter.
    """
    lines, names = [], [f"w{k}" for k in range(parameters)]
    between = ["x", *(f"a{k}" for k in range(1, parameters)), "y"]
    for k, w in enumerate(names):
        lines.append(f"node matmul{k} MatMul {between[k]} {w} -> {between[k + 1]}")
        lines += [f"node sgd{k} Sgd {w} {w}.grad -> {w} changes {w} optimizer", f"tensor {w} f32 4x4 donated"]
    given = " ".join(["x", *(f"{w}.grad" for w in names)])
    reference = read_ir(floating(*lines, inputs=given, parameters=" ".join(names)))
    CountedName.compared = 0
    made = reference_in_mode(replace(reference, inputs=tuple(map(CountedName, reference.inputs))), "backward")
    assert not any(name.endswith(".grad") for name in made.inputs)
    return CountedName.compared


def test_gradients_that_optimizers_take_are_looked_up_and_not_searched_for() -> None:
    """Twice the parameters, twice the comparisons of names. spec: M2.10"""
    few, many = compared(40), compared(80)
    assert few > 0
    assert many <= 2.2 * few
