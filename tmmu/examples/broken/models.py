"""The right models from which most wrong plans are made; each has at most a dozen tensors.

A tensor has 256 bytes unless stated otherwise. Every operator is one of ai.onnx, whose sharing the checker decides from
its own tables.
"""

from __future__ import annotations

from tmmu.core.vocabulary import ArenaConfiguration, Model, Role
from tmmu.examples.broken.sketch import model

ONE_ARENA = (ArenaConfiguration("memory", tuple(Role)),)
"""A configuration in which parameters and activations share one arena."""


def skip() -> Model:
    """Build a skip connection: the next step reads `a`, and the last step reads it again.

    Steps: 0 makes `a` from the input `x`; 1, 2 and 3 make `b`, `c` and `d`, each from the one before; 4 makes the
    output `y` from `d` and `a`. The slots hold, from the begin of the arena: `a`; `x`, `b` and `d` in turn; `c` and `y`
    in turn.
    """
    return model("""
        tensor w f32 4096 parameter
        node a MatMul x w -> a
        node b MatMul a w -> b
        node c MatMul b w -> c
        node d MatMul c w -> d
        node y Add d a -> y
    """)


def twice_read(second: str = "Add") -> Model:
    """Build a model in which step 1 makes `r` of `a`, and step 2 makes the output `y` of `r` and `a`."""
    return model(f"""
        tensor w f32 4096 parameter
        node a MatMul x w -> a
        node r Relu a -> r
        node y {second} r a -> y
    """)


def once_read(op: str, result: str = "f32 64") -> Model:
    """Build a model in which only step 1, of `op`, reads `a` and makes `r`; step 2 makes the output `y` of `r`."""
    return model(f"""
        tensor w f32 4096 parameter
        tensor r {result}
        node a MatMul x w -> a
        node r {op} a -> r
        node y MatMul r w -> y
    """)


def first_reader(words: str) -> Model:
    """Build a model in which step 0 makes `r` of the caller's `given`, with these words, and step 1 `y` of `r`."""
    return model(f"""
        tensor given f32 64 {words}
        tensor w f32 4096 parameter
        node r Relu given -> r inplace r given
        node y MatMul r w -> y
    """)


def loop(*, swap: bool = False) -> Model:
    """Build a loop over `left` and `right` that captures `bias`; its body returns its right value and a new one.

    Steps: 0 makes `bias`; 1 enters; 2, 3 and 4 make `sum`, `mixed` and `next` inside; 5 leaves; 6 makes `y`. With
    `swap`, the body also returns its left value instead of the new one, so the two values change places.
    """
    return model(f"""
        tensor w f32 4096 parameter
        node bias MatMul right w -> bias
        begin repeat Loop left right -> out_left out_right
        arm body repeat/body/l repeat/body/r -> repeat/body/r repeat/body/{"l" if swap else "next"} loop
        node repeat/body/sum Add repeat/body/l bias -> repeat/body/sum
        node repeat/body/mixed MatMul repeat/body/sum w -> repeat/body/mixed
        node repeat/body/next MatMul repeat/body/mixed w -> repeat/body/next
        end repeat
        node y Add out_left out_right -> y
    """)
