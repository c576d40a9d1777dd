"""Plans whose steps are on streams: steps that access a common byte are ordered, or two of them are not."""

from __future__ import annotations

from proofs.definition.violations import Obligation
from tests.support.wrong_plans.row import group, right, wrong

TENSORS = "tensor x 8 m 0 input; tensor a 8 m 8; tensor b 8 m 24; tensor c 8 m {}; tensor y 8 m 32 output"
"""Tensor c may be at the bytes of a, which is read by step q."""


def fork(c: int, of_r: str = "", of_s: str = " after r") -> str:
    """Return two branches on two streams: a, then b, beside c; step s joins them."""
    steps = f"step p Gemm x -> a on 1; step q Gemm a -> b on 1; step r Gemm x -> c on 2{of_r}"
    return f"{TENSORS.format(c)}; {steps}; step s Add b c -> y on 1{of_s}"


def copy(after: str, b: int = 8, wait: str = "wait w k on 1; ") -> str:
    """Return an asynchronous copy of a to h while b is made in the bytes of a; `after` is what follows the wait."""
    head = f"tensor x 8 m 0 input; tensor a 8 m 8; tensor h 8 m 16; tensor b 8 m {b}; tensor y 8 m 32 output"
    return f"{head}; step p Gemm x -> a on 1; start k my::Copy a -> h on 1; {after}; {wait}step z Add b h -> y on 1"


def node(inner: str, before: str, behind: str) -> str:
    """Return a node with a body on stream 1, with steps on stream 2 before and behind it."""
    head = "tensor x 8 m 0 input; tensor a 8 m 8; tensor f 8 m 16; tensor b 8 m 24; tensor y 8 m 40 output"
    steps = f"step p Gemm x -> a on 2; {before}; begin n If x -> f on 1; step i Gemm {inner} -> b; end n b -> y"
    return f"{head}; tensor t 8 m 8; tensor u 8 m 48; {steps}; {behind}"


CHAINED = "tensor x 8 m 0 input; tensor a 8 m 8; tensor b 8 m 16; tensor y 8 m {} output"
LAST = "step s Gemm b -> y on 3 after r"
RACES = group(
    Obligation.RACES,
    wrong("bytes that another stream still reads", fork(8), "a c @1 bytes 8-15; a c @0", right=fork(40)),
    wrong("an event too early", fork(8, " after p"), "a c @1", right=fork(8, " after q")),
    wrong("no event for a result", fork(40, of_s=""), "c @2 bytes 40-47", right=fork(40)),
    wrong("one byte of another stream's", fork(15), "a c @1 bytes 15-15; a c @0"),
    wrong("a copy's operand used again before its wait", copy("step q Gemm x -> b on 1"), "a b @1",
          right=copy("step q Gemm x -> b on 1", b=24)),
    wrong("a copy's result read before its wait",
          copy("step q Gemm h -> b on 1", b=24), "h @1", right=copy("wait v k on 1; step q Gemm h -> b on 1", 24, "")),
    right("a copy's operand used again behind its wait", copy("wait v k on 1; step q Gemm x -> b on 1", wait="")),
    right("events that follow one another over three streams",
          f"{CHAINED.format(8)}; step p Gemm x -> a on 1; step q Gemm a -> on 2 after p; step r Gemm x -> b on 3 after"
          f" q; {LAST}"),
    wrong("a chain of events with one missing",
          f"{CHAINED.format(8)}; step p Gemm x -> a on 1; step q Gemm a -> on 2 after p; step r Gemm x -> b on 3;"
          f" {LAST}", "a y @1; a y @0"),
    wrong("the last read of each of two streams", f"{CHAINED.format(8)}; step p Gemm x -> a on 1;"
          " step q Gemm a -> on 2 after p; step r Gemm a -> b on 1; step s Gemm b -> y on 1", "a y @1"),
    right("two reads at the same time", f"{CHAINED.format(24)}; step p Gemm x -> a on 1; step q Gemm a -> on 2 after p;"
          " step r Gemm a -> b on 1; step s Gemm b -> y on 1"),
    wrong("an input that another stream still reads", "tensor x 8 m 0 input; tensor y 8 m 0 output;"
          " step p Gemm x -> on 1; step q Gemm -> y on 2", "x y @0",
          right="tensor x 8 m 0 input; tensor y 8 m 0 output; step p Gemm x -> on 1; step q Gemm -> y on 2 after p"),
    right("a view is no write", "tensor x 8 m 0 input; tensor a 8 m 8; tensor v 8 m 8 view a 0; tensor y 8 m 16 output;"
          " step p Gemm x -> a on 1; step q Reshape a -> v on 1; step r Gemm a -> on 2 after p;"
          " step s Gemm v -> y on 1"),
    wrong("a view that is read by another stream", "tensor x 8 m 0 input; tensor a 8 m 8; tensor v 8 m 8 view a 0;"
          " tensor b 8 m 8; tensor y 8 m 16 output; step p Gemm x -> a on 1; step q Reshape a -> v on 1;"
          " step r Gemm v -> y on 2 after q; step s Gemm x -> b on 1", "v b @2"),
    right("a result in place of an operand that only its own stream reads",
          "tensor x 8 m 0 input; tensor a 8 m 8; tensor b 8 m 8 inplace a; tensor y 8 m 16 output;"
          " step p Gemm x -> a on 1; step q Relu a -> b on 1; step r Gemm b -> y on 2 after q"),
    right("no bytes, no race", "tensor x 8 m 0 input; tensor a 0 m 8; tensor b 0 m 8; step p Gemm x -> a on 1;"
          " step q Gemm x -> b on 2"),
    wrong("a view that another stream reads before it is made", "tensor x 8 m 0 input; tensor v 4 m 4 view x 4;"
          " tensor y 8 m 8 output; step p my::Cut x -> v on 1; step q Gemm v -> y on 2", "v @0 bytes 4-7",
          right="tensor x 8 m 0 input; tensor v 4 m 4 view x 4; tensor y 8 m 8 output; step p my::Cut x -> v on 1;"
          " step q Gemm v -> y on 2 after p"),
    wrong("a tensor without bytes that another stream reads before it is made", "tensor x 8 m 0 input; tensor e 0 m 8;"
          " tensor y 8 m 8 output; step p Gemm x -> e on 1; step q Gemm x e -> y on 2", "e @0",
          right="tensor x 8 m 0 input; tensor e 0 m 8; tensor y 8 m 8 output; step p Gemm x -> e on 1;"
          " step q Gemm x e -> y on 2 after p"),
    right("a node with bodies is a barrier", node("f", "step q Gemm a -> on 2", "step z Gemm y -> t u on 2")),
    wrong("two steps behind a barrier", node("f", "step q Gemm a -> on 2",
          "step z Gemm y -> t on 2; step v Gemm y -> u on 3; step w Gemm t -> on 3"), "t @5"),
)  # fmt: skip
