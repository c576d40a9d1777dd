"""Which dimensions of an operation ranks can divide: the planner's table and the verifier's say what is written here.

`tests/support/loop_notation.py` explains the notation. spec: R7.9, R7.11, R7.14
"""

from __future__ import annotations

import pytest

from proofs.sharding.loops import loops, stated_loops, update_loops
from tests.support.loop_notation import Shapes, of_planner, of_verifier
from tmmu.planner.sharding.relations import elementwise_relation, relation, relation_across

CASES: list[tuple[str, Shapes, Shapes, str]] = [
    # Element by element; an operand of size 1 is repeated.
    ("Relu", [(4, 6)], [(4, 6)], "ij -> ij+"),
    ("Relu", [()], [()], "1 -> 1"),
    ("Add", [(4, 6), (6,)], [(4, 6)], "ij j -> ij+"),
    ("Add", [(4, 1), (6,)], [(4, 6)], "i. j -> ij+"),
    ("Add", [(6,), (4, 6)], [(4, 6)], "i ji -> ji+"),
    ("Add", [(2, 4, 6), (4, 6)], [(2, 4, 6)], "ijk jk -> ijk+"),
    ("Add", [(2, 4, 6), (1, 1), ()], [(2, 4, 6)], "ijk .. 1 -> ijk+"),
    ("Dropout", [(4, 6)], [(4, 6), (4, 6)], "ij -> ij ij+"),
    ("Dropout", [(4, 6)], [(4, 6), (4,)], ".. -> .. ."),
    ("Expand", [(4, 1), (2,)], [(4, 6)], "i. . -> ij+"),
    ("Expand", [(4, 1), (2,)], [(4, 2)], "i. . -> ij+"),
    ("Expand", [(6,), (2,)], [(4, 6)], "i . -> ji+"),
    # Products.
    ("MatMul", [(4, 6), (6, 8)], [(4, 8)], "ij jk -> ik"),
    ("MatMul", [(2, 4, 6), (6, 8)], [(2, 4, 8)], "ijk kl -> ijl"),
    ("MatMul", [(2, 4, 6), (2, 6, 8)], [(2, 4, 8)], "ijk ikl -> ijl"),
    ("MatMul", [(2, 4, 6), (1, 6, 8)], [(2, 4, 8)], "ijk .kl -> ijl"),
    ("MatMul", [(3, 1, 4, 6), (2, 6, 8)], [(3, 2, 4, 8)], "i.jk lkm -> iljm"),
    ("MatMul", [(4, 4), (4, 4)], [(4, 4)], "ij jk -> ik"),
    ("MatMul", [(4, 6), (8, 6)], [(4, 8)], ".. .. -> .."),
    ("MatMul", [(4, 6), (6, 8)], [(5, 8)], ".. .. -> .."),
    ("MatMul", [(4, 6), (6, 8)], [(4, 9)], ".. .. -> .."),
    ("MatMul", [(4, 6), (6, 8), (8,)], [(4, 8)], ".. .. . -> .."),
    ("MatMul", [(6,), (6, 8)], [(8,)], ". .. -> ."),
    ("MatMul", [(6,), (6, 8)], [(1, 8)], ". .. -> .."),
    ("MatMul", [(4, 6), (6,)], [(4,)], ".. . -> ."),
    ("Gemm", [(4, 6), (6, 8)], [(4, 8)], "ij jk -> ik"),
    ("Gemm", [(6, 4), (6, 8)], [(4, 8)], "ij ik -> jk"),
    ("Gemm", [(4, 6), (8, 6)], [(4, 8)], "ij kj -> ik"),
    ("Gemm", [(4, 4), (4, 8)], [(4, 8)], ".. .i -> .i"),
    ("Gemm", [(4, 8), (8, 8)], [(4, 8)], "i. .. -> i."),
    ("Gemm", [(4, 6), (6, 8), (8,)], [(4, 8)], "i. .j j -> ij"),
    ("Gemm", [(4, 6), (6, 8), (4, 1)], [(4, 8)], "i. .j i. -> ij"),
    ("Gemm", [(4, 6), (6, 8), (4, 8)], [(4, 8)], "i. .j ij -> ij"),
    ("Gemm", [(4, 6), (6, 8), (1,)], [(4, 8)], "i. .j . -> ij"),
    ("Gemm", [(4, 6), (6, 8), ()], [(4, 8)], "i. .j 1 -> ij"),
    ("Gemm", [(4, 6)], [(4, 8)], ".. -> .."),
    ("Gemm", [(4, 6, 1), (6, 8)], [(4, 8)], "... .. -> .."),
    ("Gemm", [(4, 6), (6, 8)], [(4, 8, 1)], ".. .. -> ..."),
    # Convolutions, pools, normalizations.
    ("Conv", [(2, 3, 9), (4, 3, 5)], [(2, 4, 5)], "ij. kj. -> ik."),
    ("Conv", [(2, 3, 9), (4, 3, 5), (4,)], [(2, 4, 5)], "i.. j.. j -> ij."),
    ("Conv", [(2, 6, 9), (4, 3, 5)], [(2, 4, 5)], "i.. ... -> i.."),
    ("Conv", [(2, 6, 9), (4, 3, 5), (4,)], [(2, 4, 5)], "i.. ... . -> i.."),
    ("Conv", [(2, 3, 9), (4, 3, 5), (4, 1)], [(2, 4, 5)], "... ... .. -> ..."),
    ("Conv", [(2, 3), (4, 3)], [(2, 4)], "ij kj -> ik"),
    ("Conv", [(2,), (4,)], [(4,)], ". . -> ."),
    ("Conv", [(2, 3, 9), (4, 3, 5)], [(2, 4)], "... ... -> .."),
    ("Conv", [(2, 3, 9)], [(2, 4, 5)], "... -> ..."),
    ("MaxPool", [(2, 3, 8)], [(2, 3, 4)], "ij. -> ij."),
    ("MaxPool", [(2, 3, 8)], [(2, 3, 4)] * 2, "... -> ... ..."),
    ("MaxPool", [(2, 3, 8)], [(2, 4, 4)], "... -> ..."),
    ("MaxPool", [(2, 3, 8)], [(2, 3)], "... -> .."),
    ("MaxPool", [(3,)], [(3,)], ". -> ."),
    ("GlobalAveragePool", [(2, 3)], [(2, 3)], "ij -> ij"),
    ("BatchNormalization", [(2, 3, 8), (3,), (3,)], [(2, 3, 8)], "ij. j j -> ij."),
    ("BatchNormalization", [(2, 3, 8), (3,), (1,)], [(2, 3, 8)], "ij. j . -> ij."),
    ("BatchNormalization", [(3, 3, 8), (3,)], [(3, 3, 8)], "ij. j -> ij."),
    # The same elements in another shape.
    ("Reshape", [(4, 6), (1,)], [(24,)], "i. . -> i"),
    ("Reshape", [(24,)], [(4, 6)], "i -> i."),
    ("Reshape", [(4, 6)], [(4, 2, 3)], "ij -> ij."),
    ("Reshape", [(4, 6, 5)], [(8, 3, 5)], "i.j -> i.j"),
    ("Reshape", [(2, 3, 4)], [(6, 4)], "i.j -> ij"),
    ("Reshape", [(1, 4, 1, 6)], [(4, 6, 1)], ".i.j -> ij."),
    ("Reshape", [(4, 6)], [(3, 8)], "i. -> i."),
    ("Reshape", [(2, 1, 6)], [(2, 2, 3)], "i.j -> ij."),
    ("Reshape", [(4, 6)], [(4, 5)], ".. -> .."),
    ("Reshape", [(4, 6, 1)], [(24, 1)], "i.. -> i."),
    ("Reshape", [(4, 0)], [(4, 0, 2)], ".. -> ..."),
    ("Reshape", [(1,)], [()], ". -> 1"),
    ("Flatten", [(2, 3, 4)], [(2, 12)], "ij. -> ij"),
    ("Squeeze", [(4, 1, 6)], [(4, 6)], "i.j -> ij"),
    ("Unsqueeze", [(4, 6)], [(1, 4, 6)], "ij -> .ij"),
    ("Transpose", [(4, 6, 8)], [(8, 4, 6)], "ijk -> kij"),
    ("Transpose", [(4, 6, 4)], [(6, 4, 4)], ".i. -> i.."),
    ("Transpose", [(4, 6)], [(6, 5)], ".. -> .."),
    ("Transpose", [(4, 6), (2,)], [(6, 4)], ".. . -> .."),
    # Side by side, picked, reduced, and what reads a shape alone.
    ("Concat", [(4, 6), (4, 2)], [(4, 8)], "i. i. -> i."),
    ("Concat", [(4, 6), (4, 6)], [(8, 6)], ".i .i -> .i"),
    ("Concat", [(4, 6)], [(4, 6)], ".. -> .."),
    ("Concat", [(4, 6), (4,)], [(4, 6)], ".. . -> .."),
    ("Concat", [(4, 6), (4, 6)], [(8, 6, 1)], ".. .. -> ..."),
    ("Split", [(4, 6), (2,)], [(4, 2), (4, 4)], "i. . -> i. i."),
    ("Split", [(4, 6)], [(4, 6)], ".. -> .."),
    ("Split", [(4, 6)], [(4, 2), (2, 4)], ".. -> .. .."),
    ("Gather", [(9, 6), (4,)], [(4, 6)], ".i j -> ji"),
    ("Gather", [(9, 6), (4, 5)], [(4, 5, 6)], ".i jk -> jki"),
    ("Gather", [(9, 6), (4, 5)], [(9, 4, 5)], "i. jk -> ijk"),
    ("Gather", [(9, 6), ()], [(6,)], ".i 1 -> i"),
    ("Gather", [(2, 9, 6), (4,)], [(2, 4, 6)], "i.j k -> ikj"),
    ("Gather", [(6, 6), (6,)], [(6, 6)], ".. . -> .."),
    ("Gather", [(9, 6), (4,)], [(5, 6)], ".. . -> .."),
    ("Gather", [(9, 6)], [(4, 6)], ".. -> .."),
    ("ReduceMax", [(4, 6)], [(4, 1)], "i. -> i."),
    ("ReduceMax", [(4, 6), (1,)], [(1, 6)], ".i . -> .i"),
    ("ReduceMax", [(4, 6)], [(4,)], ".. -> ."),
    ("ReduceSum", [(4, 6)], [(4, 1)], "ij -> i."),
    ("ReduceSum", [(4, 6), (1,)], [(1, 1)], "ij . -> .."),
    ("ReduceSum", [(4, 6)], [(6,)], ".. -> ."),
    ("Shape", [(4, 6)], [(2,)], "ij -> ."),
    ("Size", [(4,)], [()], "i -> 1"),
    ("Shape", [(4,), (4,)], [(1,)], ". . -> ."),
    # Shapes that the operator cannot have, which a model may state all the same.
    ("Add", [(6, 4, 6), (2, 6)], [(4, 6)], ".ij .j -> ij+"),
    ("MatMul", [(4, 6), (6, 8), (4, 6)], [(4, 8)], ".. .. .. -> .."),
    ("MatMul", [(4, 6), (5, 8)], [(4, 8)], ".. .. -> .."),
    ("Gemm", [(6,), (6, 8)], [(4, 8)], ". .. -> .."),
    ("Conv", [(2, 3), (4, 3, 5)], [(2, 4, 5)], ".. ... -> ..."),
    ("MatMul", [(4, 6), (6, 8)], [(8,)], ".. .. -> ."),
    ("MatMul", [(2, 4, 6), (6, 8)], [(4, 8)], "... .. -> .."),
    ("MatMul", [(4, 6), (6, 8)], [(4, 8), (4, 8)], ".. .. -> .. .."),
    ("Gemm", [(4, 6), (6, 8), (1, 4, 8)], [(4, 8)], ".. .. ... -> .."),
    ("ReduceMax", [(4, 6)], [(4, 1), (4, 1)], ".. -> .. .."),
    # Whatever is not known needs everything whole.
    ("Softmax", [(4, 6)], [(4, 6)], ".. -> .."),
    ("Relu", [], [(4, 6)], " -> .."),
    ("Relu", [(4, 6)], [], ".. -> "),
    ("Split", [(4, 6)], [], ".. -> "),
]


@pytest.mark.parametrize(("op", "ins", "outs", "divided"), CASES)
def test_what_of_an_operation_can_be_divided(op: str, ins: Shapes, outs: Shapes, divided: str) -> None:
    assert of_planner(relation("", op, ins, outs), ins, outs) == divided
    assert of_verifier(loops("", op, ins, outs), ins, outs) == divided


def test_an_operator_of_another_domain_is_not_known() -> None:
    ins = outs = [(4, 6)]
    assert of_planner(relation("com.example", "Relu", ins, outs), ins, outs) == ".. -> .."
    assert of_verifier(loops("com.example", "Relu", ins, outs), ins, outs) == ".. -> .."
    assert of_planner(relation("ai.onnx", "Relu", ins, outs), ins, outs) == "ij -> ij+"


@pytest.mark.parametrize(
    ("dims", "ins", "outs", "divided"),
    [
        ([-1], [(4, 6)], [(4, 6)], "i. -> i."),
        ([-2], [(4, 6), (4, 6)], [(4, 6)], ".i .i -> .i"),
        ([], [(4, 6), (6,)], [(4, 6)], "ij . -> ij"),
        ([-1], [(2, 4, 6)], [(2, 4, 1), (2, 4, 6)], "ij. -> ij. ij."),
        ([-1], [(4, 6)], [(4, 6), (5, 6)], ".. -> .. .."),
        ([-1], [(4, 6)], [(4,)], ".. -> ."),
        ([-1, -2], [(4, 6)], [(4, 6)], ".. -> .."),
        ([-1], [], [(4,)], " -> ."),
        ([-1], [(4, 6)], [], ".. -> "),
    ],
)
def test_what_a_spec_says_of_an_operator_leaves_the_other_dimensions(
    dims: list[int], ins: Shapes, outs: Shapes, divided: str
) -> None:
    assert of_planner(relation_across(dims, ins, outs), ins, outs) == divided
    assert of_verifier(stated_loops(dims, ins, outs), ins, outs) == divided


@pytest.mark.parametrize(
    ("like", "ins", "outs", "divided"),
    [
        ((4, 6), [(4, 6), (4, 6), ()], [(4, 6)], "ij ij 1 -> ij+"),
        ((4, 6), [(4, 6), (6,)], [(4, 6), (6,), ()], "ij . -> ij . 1+"),
        ((4, 6), [(4, 6), (6, 4)], [(4, 6)], "ij .. -> ij+"),
        ((), [(), (4,)], [()], "1 . -> 1"),
    ],
)
def test_an_update_walks_what_has_its_parameters_shape(
    like: tuple[int, ...], ins: Shapes, outs: Shapes, divided: str
) -> None:
    """spec: R7.14"""
    assert of_planner(elementwise_relation(like, ins, outs), ins, outs) == divided
    assert of_verifier(update_loops(like, ins, outs), ins, outs) == divided
