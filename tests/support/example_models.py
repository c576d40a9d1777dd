"""Single models that several test files plan, each for what its docstring says."""

from __future__ import annotations

from dataclasses import replace

from tests.support.small import small
from tmmu.core.dims.expressions import symbol
from tmmu.core.vocabulary import Bindings, Body, Model, Node, Phase, Role, Scratch, Tensor, View


def full() -> Model:
    """A model in which every table of the format has a row."""
    model = small(
        "add: x w -> sum(x)",
        "reshape: sum -> square",
        "loop: square -> z",
        "loop/body*: i => o",
        "  relu: i -> o",
        "update: z s -> y !s",
        inputs="x",
        parameters="w s",
        like={
            "sum": {"saved_for_backward": True, "shape": (symbol("m", 1, 64),), "alias_group": "tied"},
            "square": {"shape": (symbol("m", 1, 64),)},
            "z": {"dtype": "float16", "alignment": 2, "role": Role.GRADIENT},
            "y": {"alias_group": "tied"},
            "s": {"role": Role.OPTIMIZER},
        },
        nodes={
            "add": {"scratch": (Scratch(8, 8), Scratch(16, 16, "activations"))},
            "update": {"domain": "com.example", "phase": Phase.OPTIMIZER},
        },
        views={"square": ("sum", 0)},
        must_not_alias=[("x", "y")],
    )
    bindings = Bindings({"n": 4}, {"x": (4, 16)}, {"rate": "16000"}, {"k": "3"}, ("s", "x"), True, {"m": (1, 64)})
    strided = [replace(t, view=View(t.view.base, 0, 64, (8, 1))) if t.view else t for t in model.tensors]
    return replace(model, tensors=tuple(strided), unproduced=("mask",), bindings=bindings, source_digest=bytes(32))


BRANCHES = small(
    "split: x -> a",
    "up: a -> b",
    "up2: a -> c",
    "down: b -> d",
    "down2: c -> e",
    "join: d e -> y",
    sizes={"b": 1000, "c": 1000, "d": 1, "e": 1, "x": 1, "a": 10, "y": 1},
)
"""Two branches, each with a large value inside: one after the other they need 1,011 bytes, side by side 2,010."""


def deep() -> Model:
    """A model with many ties, hints and conflicts, where an order taken from a set would show."""
    lines = [f"add{k}: a{k} a{k // 2} w -> a{k + 1}(a{k})" for k in range(40)]
    pairs = [(f"a{k}", f"a{k + 9}") for k in range(0, 30, 3)]
    return small(*lines, inputs="a0", outputs="a40 a7 a8", parameters="w", must_not_alias=pairs, donated=["a0"])


def large(count: int, size: int) -> Model:
    """`count` results of one step, each of `size` bytes."""
    tensors = tuple(Tensor(f"t{i}", (size,), "uint8", Role.ACTIVATION, size) for i in range(count))
    return Model("large", tensors, (Node("n", "Split", (), tuple(range(count))),), (Body(-1, "", (), ()),))
