"""Plans with an access outside of its tensor's lifetime, or with a read that comes before the write."""

from __future__ import annotations

from proofs.definition.violations import Obligation
from tests.support.written import Written
from tests.support.wrong_plans.row import body, group, listed, right, tensor, wrong
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Role
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED, IS_SAVED, ROLES

CHAIN = "a = MatMul x; b = MatMul a; y = MatMul b"
KEEPS = "tensor x 8 m 0 input kept; tensor a 8 m 8; tensor y 8 m {} output; step s MatMul x -> a; step t MatMul a -> y"
"""A kept input, dead after the first step, and a result of the second step."""
LOOP = "a = MatMul x; f = enter/Loop a; b = MatMul f c; d = Relu b; r = leave/Loop d; y = MatMul r"
INPUT, PARAMETER, ACTIVATION, SCRATCH = map(ROLES.index, (Role.INPUT, Role.PARAMETER, Role.ACTIVATION, Role.SCRATCH))

LIFETIMES_COVER_ACCESSES = group(
    Obligation.LIFETIMES_COVER_ACCESSES,
    # Births and deaths.
    right("a chain", CHAIN),
    wrong("a read after the death", CHAIN, "a @1", tensor("a", death=0)),
    wrong("a read before the birth", "= Wait y; y = MatMul x", "y @0; y @0", tensor("y", birth=1)),
    wrong("a write before the birth", CHAIN, "a @0", tensor("a", birth=1)),
    wrong("an output that dies before the end", CHAIN, "a @3 / a @2", tensor("a", flags=IS_OUTPUT)),
    wrong("what is saved and returned dies before the end", CHAIN, "a @3 / a @2",
          tensor("a", flags=IS_SAVED + IS_RETURNED), but=tensor("a", flags=IS_SAVED)),
    wrong("a parameter that dies before the end", CHAIN, "x @3; inputs: x / x @2; inputs: x",
          tensor("x", role=PARAMETER, flags=0)),
    # The writer of a tensor.
    wrong("a read before the write", "a = MatMul b; b = MatMul x", "b @0; b @0"),
    wrong("a read by the step that writes", "a = MatMul x a", "a @0; sharing: a a @0 / a @0"),
    wrong("no step writes it", CHAIN, "b @2; b @1", listed("writes", 1)),
    wrong("no step writes an output", Written("y = MatMul x", outputs="y"), "y @1; y @0", listed("writes", 0)),
    wrong("a step writes what none is stated to write", CHAIN, "sharing: b @1; b @1; b; b @0 / b @1",
          tensor("b", writer=NONE)),
    wrong("a step writes what the caller wrote", Written("x = MatMul x", given={"x": "input"}),
          "sharing: x @0; sharing: x x @0; x @0 / x @0"),
    wrong("the caller's is born later", "= Wait; = Wait x", "x @0", tensor("x", birth=1)),
    wrong("an earlier step is stated to write it", CHAIN, "b @0 / b @1", tensor("b", writer=0)),
    wrong("a later step is stated to write it", CHAIN, "a @1", tensor("a", writer=1)),
    wrong("a later step is stated to write it, at its birth", "a = MatMul x; = Wait; = Wait a", "a @0; a @1",
          tensor("a", writer=1, birth=1)),
    wrong("two steps write it", Written("a = MatMul x; a = MatMul x", outputs="a"), "sharing: a @1 / a @1"),
    wrong("two steps write it, and the second is stated to", Written("a = MatMul x; a = MatMul x", outputs="a"),
          "sharing: a @1; a @1 / a @0", tensor("a", writer=1)),
    # Mutations.
    wrong("a mutation that is not read", "a = MatMul x; !a = Update x; y = MatMul a", "a @1",
          right="a = MatMul x; !a = Update x a; y = MatMul a"),
    wrong("a mutation that is not written", CHAIN, "b @2 / the plan", listed("mutates", 2, "b")),
    wrong("a mutation before the write", "!a = Update a; a = MatMul x", "a @0; sharing: a @1 / a @0"),
    wrong("a mutation of the caller's that is not read",
          Written("!s = Update; y = Relu s", given={"s": "state"}, donated="s"), "s @0"),
    wrong("a mutation of the caller's that is not written", Written("= Update s", given={"s": "state"}, donated="s"),
          "s @0 / the plan", listed("mutates", 0, "s")),
    # Scratch.
    wrong("a step reads its own result, not scratch", "a s = MatMul x s", "s @0; sharing: s s @0 / s @0"),
    right("a step reads its scratch", "a s = MatMul x s", tensor("s", role=SCRATCH)),
    wrong("a later step reads scratch", "a s = MatMul x s; b = MatMul a s", "s @1", tensor("s", role=SCRATCH, death=0)),
    # Loops.
    right("a loop", LOOP),
    wrong("a loop's operand dies before it is left", LOOP, "a @4 / a @1", tensor("a", death=1)),
    wrong("a formal input dies before the loop is left", LOOP, "f @4 / f @1", tensor("f", death=2)),
    wrong("a captured tensor dies with its reader", LOOP, "c @4 / c @1", tensor("c", death=2)),
    wrong("a captured tensor dies a step too early", LOOP, "c @4 / c @1", tensor("c", death=3)),
    wrong("a loop's result is born as it is left", LOOP, "r @1", tensor("r", birth=4)),
    wrong("a loop's result is born a step too late", LOOP, "r @1", tensor("r", birth=2)),
    wrong("a loop's result is read while it runs", LOOP, "r @3", listed("reads", 3, "b", "r")),
    wrong("no leave writes a loop's result", LOOP, "r @5; r @4", listed("writes", 4)),
    right("a leave's scratch lives there alone", LOOP.replace("r = leave/Loop d", "r k = leave/Loop d k"),
          tensor("k", role=SCRATCH)),
    right("a branch keeps only values that are read again", LOOP.replace("Loop", "If")),
)  # fmt: skip

WRITERS_HAVE_ROLES = group(
    Obligation.LIFETIMES_COVER_ACCESSES,
    wrong("no step writes an activation, and none is stated to", CHAIN, "x / x @0",
          tensor("x", role=ACTIVATION, flags=0)),
    wrong("an activation that is flagged as an input", CHAIN, "x / x @0", tensor("x", role=ACTIVATION)),
    wrong("a step writes an input", CHAIN, "a @0", tensor("a", role=INPUT)),
    wrong("a step writes what is flagged as an input", CHAIN, "a @0", tensor("a", flags=IS_INPUT)),
    wrong("a step writes a parameter", CHAIN, "y @2 / y @0", tensor("y", role=PARAMETER)),
    kernel="of a role it only uses whether the caller reads the tensor at the end",
)  # fmt: skip

LOOPS_ARE_BRACKETS = group(
    Obligation.LIFETIMES_COVER_ACCESSES,
    wrong("a loop that is never left", "f = enter/Loop x; b = MatMul f", "bodies: f x @0 / the plan @0"),
    wrong("a loop that is never entered", "b = MatMul x; r = leave/Loop b", "bodies: r b @1 / the plan @1"),
    wrong("a loop that is left as another operator", "f = enter/Loop x; r = leave/Scan f",
          "bodies: f x @0; bodies: f @1 / the plan @1"),
    wrong("a body that is not between enter and leave", LOOP, "y @1; a @5; f @5; c @5; bodies: f a @1 / the plan @1",
          body(1, enter=1, leave=5)),
    wrong("a body that is nowhere", LOOP, "bodies: the plan / the plan @5", body(1, enter=NONE, leave=NONE)),
    kernel="it does not look at the brackets of bodies",
)  # fmt: skip

INPUTS_KEPT = group(
    Obligation.INPUTS_KEPT,
    wrong("a kept input that dies before the end", CHAIN, "lifetimes: x @3; x / lifetimes: x @2; x",
          tensor("x", flags=IS_INPUT + IS_RETURNED)),
    wrong("a result in the bytes of a kept input", KEEPS.format(0),
          "overlap: x y @1; sharing: x y @2; x y @1 / overlap: x a y", right=KEEPS.format(16)),
    right("a result in the bytes of an input that is not kept", KEEPS.replace(" kept", "").format(0)),
    right("results below, between and above inputs that are not kept",
          "tensor x 8 m 8 input; tensor z 8 m 24 input; tensor a 8 m 0; tensor b 8 m 16; tensor y 8 m 32 output;"
          "step s MatMul x z -> a; step t MatMul a -> b; step u MatMul b -> y"),
    right("a view of an input that is not kept",
          "tensor x 8 m 0 input; tensor v 8 m 0 view x 0; tensor y 8 m 8 output;"
          "step s Identity x -> v; step t MatMul v -> y"),
)  # fmt: skip
