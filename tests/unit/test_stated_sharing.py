"""What a plan states of sharing is what its bytes and its operations are, or the violation says which is not.

spec: V1.15
"""

from __future__ import annotations

import pytest

from proofs.definition.checker.program import program
from proofs.definition.checker.sharing import false_sharing
from proofs.readers.sharing import permitted
from tmmu.plans import text
from tmmu.plans.sections import Plan

HEAD = """tmmu-plan-text 1
arena m 64
tensor x 8 m 0 input donated
tensor a 8 m 8
"""
RELU, CUT = "step s Relu x -> a\nstep t Relu a -> y\n", "step s Relu x -> a\nstep t Reshape a -> y\n"
LIES, PERMIT = "it is at other bytes", "its operation, its operands or the caller do not permit that"
READS = "step 1 (t), which writes it, does not read x"


@pytest.mark.parametrize(
    ("tensor", "steps", "expected"),
    [
        ("y 8 m 8 inplace a", RELU, None),
        ("y 8 m 8 view a 0", CUT, None),
        ("y 4 m 8 alias a", RELU, None),
        ("y 8 m 16", RELU, None),
        ("y 8 m 16 inplace a", RELU, ("in place of a", LIES, 16, 23)),
        ("y 4 m 8 inplace a", RELU, ("in place of a", PERMIT, 8, 11)),
        ("y 8 m 8 view a 0", RELU, ("a view of a", PERMIT, 8, 15)),
        ("y 8 m 16 view a 0", CUT, ("a view of a", LIES, 16, 23)),
        ("y 0 m 16 alias a", RELU, ("an alias of a", LIES, 16, 16)),
        ("y 8 m 0 view x 0", CUT, ("a view of x", READS, 0, 7)),
        ("y 8 m 0 inplace x", RELU, ("in place of x", READS, 0, 7)),
        ("y 4 m 12 view a 4", "step s Relu x -> a\nstep t com.example::Cut a -> y\n", None),
        ("y 4 m 8 view a 4", "step s Relu x -> a\nstep t com.example::Cut a -> y\n", ("a view of a", PERMIT, 8, 11)),
        ("y 8 m 8 input inplace a", "step s Relu x -> a\n", ("in place of a", PERMIT, 8, 15)),
    ],
)
def test_a_row_is_what_it_states_or_the_reason_is_named(
    tensor: str, steps: str, expected: tuple[str, str, int, int] | None
) -> None:
    plan = text.read(f"{HEAD}tensor {tensor}\n{steps}".encode(), "p.plan.txt")
    assert isinstance(plan, Plan)
    donated = frozenset("x")
    found = list(false_sharing(plan, program(plan, permitted(plan, None, donated), donated)))
    if expected is None:
        assert found == []
    else:
        [wrong] = found
        what, why, first, last = expected
        assert wrong.text == f"y is stated to be {what}, but {why}"
        step = plan.allocation.tensors.writer.tolist()[2]
        assert wrong.tensors == ("y", what[-1])
        assert (wrong.step, wrong.first_byte, wrong.last_byte) == (step if step < 2 else None, first, last)
