"""Single models that several test files plan, each for what its docstring says."""

from __future__ import annotations

from tests.support.text_models import text_model
from tmmu.core.vocabulary import Body, Model, Node, Role, Tensor


def full() -> Model:
    """A model in which every table of the format has a row."""
    return text_model(
        f"source {bytes(32).hex()}", "dim m 1 64", "dim n 4", "shape x 4x16", "value rate 16000", "default k 3",
        "trusted shapes", "tensor x u8 64 donated", "tensor w u8 64 parameter", "tensor s u8 64 optimizer donated",
        "tensor sum u8 m saved", "tensor square u8 m view sum 0 strides 8x1", "tensor z f16 64 gradient",
        "node add Add x w -> sum inplace sum x scratch 8 align 8 scratch 16 align 16 arena activations",
        "node reshape Reshape sum -> square", "begin loop1 Loop square -> z", "arm body i -> o loop",
        "  node relu Relu i -> o", "end loop1", "node update com.example::Update z s -> y s changes s optimizer",
        "alias tied sum y", "apart x y", "unproduced mask",
    )  # fmt: skip


BRANCHES = text_model(
    "node split Split x -> a",
    "node up Up a -> b",
    "node up2 Up a -> c",
    "node down Down b -> d",
    "node down2 Down c -> e",
    "node join Join d e -> y",
    sizes={"b": 1000, "c": 1000, "d": 1, "e": 1, "x": 1, "a": 10, "y": 1},
)
"""Two branches, each with a large value inside: one after the other they need 1,011 bytes, side by side 2,010."""


def deep() -> Model:
    """A model with many ties, hints and conflicts, where an order taken from a set would show."""
    lines = [f"node add{k} Add a{k} a{k // 2} w -> a{k + 1} inplace a{k + 1} a{k}" for k in range(40)]
    lines += [f"apart a{k} a{k + 9}" for k in range(0, 30, 3)]
    return text_model(*lines, "tensor a0 u8 64 donated", inputs="a0", outputs="a40 a7 a8", parameters="w")


def large(count: int, size: int) -> Model:
    """`count` results of one step, each of `size` bytes."""
    tensors = tuple(Tensor(f"t{i}", (size,), "uint8", Role.ACTIVATION, size) for i in range(count))
    return Model("large", tensors, (Node("n", "Split", (), tuple(range(count))),), (Body(-1, "", (), ()),))
