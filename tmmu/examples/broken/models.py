"""The right models from which most wrong plans are made; each is a dozen tensors at most.

Unless it says otherwise a tensor has 256 bytes. Every operator is one of ai.onnx, whose sharing the checker decides
from its own tables.
"""

from __future__ import annotations

from tmmu.core.vocabulary import ArenaConfiguration, Model, Role
from tmmu.examples.broken.sketch import Sketch

ONE_ARENA = (ArenaConfiguration("memory", tuple(Role)),)
"""A configuration in which parameters and activations lie together and take turns."""


def skip() -> Model:
    """A skip connection: `a` is read by the step after it and again by the last one.

    Steps: 0 makes `a` from the input `x`; 1, 2 and 3 make `b`, `c` and `d`, each from the one before; 4 makes the
    output `y` from `d` and `a`. The slots hold, from the
    beginning of the arena: `a`; `x`, `b` and `d` in turn; `c` and `y` in turn.
    """
    m = Sketch("skip")
    x, w = m.input("x"), m.weight("w", 4096)
    a = m.node("MatMul", x, w, result="a")
    b = m.node("MatMul", a, w, result="b")
    c = m.node("MatMul", b, w, result="c")
    d = m.node("MatMul", c, w, result="d")
    return m.model(m.node("Add", d, a, result="y"))


def twice_read(second: str = "Add") -> Model:
    """`a` is read by step 1, which makes `r` of it, and by step 2, which makes the output `y` of `r` and `a`."""
    m = Sketch("twice-read")
    a = m.node("MatMul", m.input("x"), m.weight("w", 4096), result="a")
    r = m.node("Relu", a, result="r")
    return m.model(m.node(second, r, a, result="y"))


def once_read(op: str, *, elements: int = 64, dtype: str = "float32") -> Model:
    """`a` is read by step 1 alone, where `op` makes `r` of it; step 2 makes the output `y` of `r`."""
    m = Sketch("once-read")
    w = m.weight("w", 4096)
    a = m.node("MatMul", m.input("x"), w, result="a")
    r = m.node(op, a, result="r", elements=elements, dtype=dtype)
    return m.model(m.node("MatMul", r, w, result="y"))


def first_reader(role: Role, *, donated: bool = False) -> Model:
    """Step 0 makes `r` of `given`, which the caller writes and which has the given role; step 1 makes `y` of `r`."""
    m = Sketch("first-reader")
    given = m.input("given", role=role)
    r = m.node("Relu", given, result="r", in_place=given if donated else None)
    y = m.node("MatMul", r, m.weight("w", 4096), result="y")
    return m.model(y, donated=("given",) if donated else ())


def loop(*, swap: bool = False) -> Model:
    """A loop over `left` and `right` that captures `bias`; its body returns its right value and a new one.

    Steps: 0 makes `bias`; 1 enters; 2, 3 and 4 make `sum`, `mixed` and `next` inside; 5 leaves; 6 makes `y`. With
    `swap` the body also returns its left value instead of the new one, so that the two change places.
    """
    m = Sketch("loop")
    left, right, w = m.input("left"), m.input("right"), m.weight("w", 4096)
    bias = m.node("MatMul", right, w, result="bias")
    results = m.nodes("Loop", left, right, results=("out_left", "out_right"))
    with m.body(results[0], "body", ("l", "r")) as (first, second):
        total = m.node("Add", first, bias, result="sum")
        mixed = m.node("MatMul", total, w, result="mixed")
        fresh = m.node("MatMul", mixed, w, result="next")
        m.returns(second, first if swap else fresh)
    return m.model(m.node("Add", *results, result="y"))
