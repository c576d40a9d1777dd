"""The verifier's joint graph is the planner's, and so is what it leaves of a model in each mode.

Both are made from the model by code that shares nothing; the planner's is read back by the verifier's own reader.
spec: V3.5, M1.4, M1.6, M2.1 to M2.12
"""

from __future__ import annotations

from typing import Any

import pytest

from proofs.readers.models.ir import read_ir
from proofs.readers.models.reference import ReferenceProgram
from proofs.readers.models.training import in_mode, read_by_backward
from tests.support.small import small
from tests.support.trainable import FLOAT, MLP, OPTIMIZER, floating
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Phase
from tmmu.planner import DEFAULT
from tmmu.planner.modes import prepare


def made(shape: tuple[int, ...], dtype: str, bytes_: int) -> dict[str, Any]:
    return {"shape": shape, "dtype": dtype, "bytes": bytes_}


ROW, FLAT, TWO = made((4,), "float32", 16), made((16,), "float32", 64), made((2, 4, 4), "float32", 128)
HALF, DOUBLE = made((4, 4), "float16", 32), made((2, 4), "float64", 64)
EIGHT, SEVEN = made((8,), "float4e2m1", 4), made((7,), "float4e2m1", 4)
WHOLE, SCALAR, COUNT = made((4, 4), "int64", 128), made((), "float32", 4), made((4, 4), "int32", 64)
STEP: dict[str, Any] = {"parameters": "w", "donated": ("w",), "nodes": {"sgd0": {"phase": Phase.OPTIMIZER}}}
BACK = {"phase": Phase.BACKWARD}


def deep(*lines: str, **options: Any) -> Model:
    """What follows a product of an input and a parameter."""
    return floating("matmul0: x w -> a", *lines, **{"parameters": "w", **options})


FORWARD = {
    "a network": MLP,
    # Whose gradients are asked for: of the parameters that can have one, else of the inputs that can.
    "inputs alone": floating("mul0: x u -> y", inputs="x u"),
    "an input of integers": floating("gather0: x i -> y", inputs="x i", like={"i": WHOLE}),
    "a parameter of integers": floating("gather0: w i -> y", inputs="", parameters="w i", like={"i": WHOLE}),
    "a factor of integers": deep("mul0: a i -> y", parameters="w i", like={"i": WHOLE}),
    "a parameter without dimensions": deep("mul1: a s -> y", parameters="w s", like={"s": SCALAR}),
    "no other parameter": floating("mul0: x s -> y", parameters="s", like={"s": SCALAR}),
    # What is returned has a seed, besides what is made of it.
    "a result that is read again": deep("tanh0: a -> y", outputs="a y"),
    "a result that is read twice again": deep("tanh0: a -> b", "mul0: a b -> y", outputs="a y"),
    "an input that is returned": floating("tanh0: x -> y", outputs="y x"),
    "an input that is nothing but returned": floating("tanh0: u -> y", inputs="x u", outputs="y x"),
    "a parameter that is returned": floating("matmul0: x w -> y", parameters="w", outputs="y w"),
    # Gradients that show the bytes of others, and those that do not.
    "a dropout that drops nothing": deep("dropout0: a -> y", views={"y": ("a", 0)}),
    "a dropout that drops": deep("dropout0: a -> y m"),
    "a dropout that is wider": deep("dropout0: a -> y", like={"y": TWO}),
    "a dropout that shows a part": deep("dropout0: a -> y", views={"y": ("a", 0)}, like={"y": ROW}),
    "a reshape of seven elements in the bytes of eight": deep(
        "mul0: a s -> c", "reshape0: c -> y", like={"c": EIGHT, "y": SEVEN}, inputs="x s"
    ),
    "a reshape": deep("reshape0: a -> y", like={"y": FLAT}),
    "a reshape to more elements": deep("reshape0: a -> y", like={"y": TWO}),
    "an identity of less bytes": deep("identity0: a -> y", like={"y": HALF}),
    "a squeeze to less elements": deep("squeeze0: a -> y", like={"y": DOUBLE}),
    "a reshape of another domain": deep("reshape0: a -> y", nodes={"reshape0": {"domain": "c"}}),
    "a domain by its long name": deep("reshape0: a -> b", "relu0: b -> y", nodes={"relu0": {"domain": "ai.onnx"}}),
    "a sum with a row": deep("add0: a v -> y", parameters="w v", like={"v": ROW}),
    "a sum with other dimensions": deep("add0: a v -> y", parameters="w v", like={"v": made((1, 4, 4), "float32", 64)}),
    "a sum of another domain": deep("add0: a v -> y", parameters="w v", nodes={"add0": {"domain": "c"}}),
    # Gradients that may take the bytes of others, and those that may not.
    "a row by itself": floating("mul0: v x -> a", "add0: a v -> b", "div0: v b -> y", parameters="v", like={"v": ROW}),
    "a relu of another domain": deep("relu0: a -> y", nodes={"relu0": {"domain": "c"}}),
    "a relu of fewer bytes": deep("relu0: a -> y", like={"y": HALF}),
    "a cast": deep("cast0: a -> b", "relu0: b -> y", like={"b": HALF, "y": HALF}),
    # What is added up, and what is not reached.
    "a branch without an end": deep("tanh0: a -> b", "sin0: a -> y"),
    "four terms": deep("tanh0: a -> b", "sin0: a -> c", "sum0: a b c a -> y"),
    "two results": deep("split0: a -> b c", "add0: b c -> y"),
    # Gradients that an optimizer takes.
    "an optimizer": OPTIMIZER,
    "an optimizer of a parameter that is not reached": floating(
        "matmul0: x w -> y", "sgd0: v v.grad -> !v", inputs="x v.grad",
        **{**STEP, "parameters": "w v", "donated": ("v",)},
    ),
    "no step": small(inputs="x", outputs="x"),
}  # fmt: skip
REFUSED = {
    "no gradient": floating("floor0: x -> y"),
    "an alias group": deep("relu0: a -> b", "neg0: b -> y", like={"b": FLOAT | {"alias_group": "g"}}),
    "a change": floating("update0: a x -> !a", "neg0: a -> y", inputs="x a", donated=("a",)),
    "a gradient of this name that nobody takes": floating(
        "matmul0: x w -> y", "sgd0: w g -> !w", inputs="x g w.grad", **STEP
    ),
    "one of another shape": floating(
        "matmul0: x w -> y", "sgd0: w w.grad -> !w", inputs="x w.grad", like={"w.grad": ROW}, **STEP
    ),
    "one of fewer bytes": floating(
        "matmul0: x w -> y", "sgd0: w w.grad -> !w", inputs="x w.grad", like={"w.grad": HALF}, **STEP
    ),
    "one of integers": floating(
        "matmul0: x w -> y", "sgd0: w w.grad -> !w", inputs="x w.grad", like={"w.grad": COUNT}, **STEP
    ),
    "one that is made": floating("matmul0: x w -> y", "neg0: w -> w.grad", "sgd0: w w.grad -> !w", **STEP),
    "one that is a parameter": floating(
        "matmul0: x w -> y", "sgd0: w w.grad -> !w", **{**STEP, "parameters": "w w.grad"}
    ),
    "a seed of this name": deep("neg0: a -> y", inputs="x y.seed"),
    "a node of this name": deep("neg0: a -> y", "neg0.grad: x -> z"),
}
OWN = {
    "a backward half": small(
        "tanh: x -> b", "sin: b -> y", "g: s b -> z", inputs="x s", outputs="y z", nodes={"g": BACK}
    ),
    "a backward half with a body": small(
        "tanh: x -> b", "if: c -> g", "if/then: => e", "  neg: b -> e", inputs="x c", outputs="b g", nodes={"if": BACK}
    ),
    "a backward half with a body in a body": small(
        "tanh: x -> b", "if: c -> g", "if/then: => e", "  if2: c -> e", "  if2/then: => f", "    neg: b -> f",
        inputs="x c", outputs="b g", nodes={"if": BACK},
    ),
    "a forward half with a body": small(
        "if: c -> b", "if/then: => e", "  neg: x -> e", "tanh: b -> y", "g: b -> z", inputs="x c", outputs="y z",
        nodes={"g": BACK},
    ),
    "all that stays is kept apart": small(
        "tanh: x -> y", "g: y -> z", outputs="y z", nodes={"g": BACK}, must_not_alias=(("x", "y"),)
    ),
    "some of it is kept apart": small(
        "tanh: x -> a", "sin: a -> y", "g: y -> z", outputs="y z", nodes={"g": BACK},
        must_not_alias=(("x", "y"), ("y", "z")),
    ),
    "an input that shows another, which backward alone reads": small(
        "tanh: v -> y", "g: b u -> z", inputs="b u v", outputs="y z", views={"u": ("b", 0), "v": ("u", 0)},
        nodes={"g": BACK},
    ),
    "an input that nobody reads": small("tanh: x -> y", "g: b -> z", inputs="x b u", outputs="y z", nodes={"g": BACK}),
    "a parameter that both halves read": small(
        "mul: x w -> y", "g: y w -> z", parameters="w", outputs="y z", nodes={"g": BACK}
    ),
    "a backward half that changes what it reads": small(
        "tanh: x -> y", "g: y x -> z !x", outputs="y z", nodes={"g": BACK}, donated=("x",)
    ),
    "a change after the last read": small(
        "tanh: x -> y", "g: y -> z", "neg: x -> !x", outputs="y z", nodes={"g": BACK}, donated=("x",)
    ),
}  # fmt: skip
CHANGED = {
    "a change of what backward reads": small(
        "tanh: x -> y", "g: x -> z", "neg: y -> !x", outputs="y z", nodes={"g": BACK}, donated=("x",)
    ),
    "a change of what backward sees through a view": small(
        "reshape: x -> v", "g: v -> z", "neg: y -> !x", inputs="x y", outputs="y z", nodes={"g": BACK}, donated=("x",),
        views={"v": ("x", 0)},
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
        assert said(in_mode(read_ir(model), mode)) == said(read_ir(prepare(model, mode, DEFAULT))), name


def test_planner_and_verifier_refuse_the_same() -> None:
    """spec: M1.12, M2.12"""
    for modes, models in ((("backward", "forward"), REFUSED), (("forward",), CHANGED)):
        for mode in modes:
            for name, model in models.items():
                with pytest.raises(TmmuError) as by_the_verifier:
                    in_mode(read_ir(model), mode)
                assert by_the_verifier.value.code_id == "MODE_VIOLATION", name
                with pytest.raises(TmmuError) as by_the_planner:
                    prepare(model, mode, DEFAULT)
                assert by_the_planner.value.code_id in ("MODE_VIOLATION", "INVALID_IR"), name


def test_what_backward_makes_is_not_saved_though_forward_reads_it() -> None:
    """Of a joint graph whose halves take turns. spec: M2.7"""
    turns = small("tanh: x -> b", "g: b -> c", "neg: c -> y", "h: c -> z", outputs="y z", nodes={"g": BACK, "h": BACK})
    assert read_by_backward(read_ir(turns)) == {"b"}
