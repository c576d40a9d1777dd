"""Plans whose bodies do not nest, whose values leave a body other than by its leave, or whose roles have no arena."""

from __future__ import annotations

from dataclasses import replace

from proofs.definition.violations import Obligation
from tests.support.text_models import text_model
from tests.support.wrong_plans.row import Change, body, group, listed, planned, right, step, tensor, wrong
from tmmu.core.columns import NONE, Names
from tmmu.core.vocabulary import NodePart, Role, Shares
from tmmu.examples.broken import editing
from tmmu.plans.columns import PARTS, ROLES
from tmmu.plans.sections import Plan, amend_plan

WHOLE, ENTER, LEAVE = (PARTS.index(part) for part in (NodePart.WHOLE, NodePart.ENTER, NodePart.LEAVE))
COPY_J, COPY_I = "loop1/body/j.copy0", "loop1/body/i.copy1"

NESTED = planned(text_model(
    "begin if If c x -> y", "arm then -> r", "  begin loop1 Loop x -> r", "  arm body i -> o loop",
    "    node relu Relu i -> o", "  end loop1", "arm else -> s", "  node relu2 Relu x -> s", "end if",
    "node relu3 Relu y -> z", inputs="c x", outputs="z",
))  # fmt: skip
"""Steps: 0 enter if, 1 enter loop1, 2 relu, 3 leave loop1, 4 relu2, 5 leave if, 6 relu3. Bodies: 1 if/then,
2 loop1/body, 3 if/else."""
ARMS = planned(text_model(
    "begin if If x -> y", "arm then -> b", "  node relu Relu x -> a", "  node relu2 Relu a -> b", "arm else -> d",
    "  node relu3 Relu x -> c", "  node relu4 Relu c -> d", "end if",
))  # fmt: skip
"""Two steps in each arm: 1 and 2, 3 and 4."""
TWICE = planned(text_model(
    "begin if If x -> y", "arm then -> x", "end if", "begin if2 If y -> z", "arm then -> y", "end if2", outputs="z"
))  # fmt: skip
"""Steps: 0 enter if, 1 leave if, 2 enter if2, 3 leave if2."""
CAPTURED = planned(text_model(
    "node relu Relu x -> a", "begin loop1 Loop x -> y scratch 8", "arm body i -> o loop", "  node add Add i a -> o",
    "end loop1",
))  # fmt: skip
LOOP = planned(text_model(
    "begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i -> o", "end loop1", "node relu2 Relu y -> z",
    outputs="z",
))  # fmt: skip
SWAP = planned(text_model(
    "node relu Relu x -> a", "begin loop1 Loop x x -> y z", "arm body i j -> j i loop", "end loop1", outputs="y z"
))  # fmt: skip
"""A loop that swaps its two values. Steps: 0 relu, 1 enter, 2 leave, which copies both."""
HANDED_ON = planned(text_model(
    "node relu Relu u -> a", "begin loop1 Loop x -> y", "arm body i -> a loop", "end loop1", "node relu2 Relu y -> q",
    inputs="x u", outputs="q",
))  # fmt: skip
SCRATCH = planned(text_model(
    "node matmul MatMul x -> v scratch 8", "begin loop1 Loop v -> y scratch 8", "arm body i -> o loop",
    "  node relu Relu i -> o", "end loop1",
))  # fmt: skip
COPIES_AND_SCRATCH = planned(text_model(
    "begin loop1 Loop x x -> y z scratch 8", "arm body i j -> j i loop", "end loop1", outputs="y z"
))  # fmt: skip


def hidden() -> Plan:
    """Plan `d` as an alias of `a`, a gradient, in the arena of gradients. spec: M3.16"""
    plan = planned(text_model(
        "node matmul Matmul x -> a", "node matmul2 Matmul a -> b", "node matmul3 Matmul b -> d",
        "tensor a u8 64 gradient", outputs="d",
    ))()  # fmt: skip
    return editing.shared(plan, "d", "a", Shares.ALIAS)


def called(number: int, name: str) -> Change:
    """Give a body another name."""

    def change(plan: Plan) -> Plan:
        bodies = plan.allocation.bodies
        names = [name if k == number else old for k, old in enumerate(bodies.name)]
        return amend_plan(plan, bodies=replace(bodies, name=Names.of(names)))

    return change


BODIES_NEST = group(
    Obligation.BODIES_NEST,
    right("branches, one with a loop", NESTED),
    right("a loop that captures", CAPTURED),
    right("two nodes that hand on what they are given", TWICE),
    right("a body that reads and returns nothing",
          planned(text_model("begin if If -> y", "arm then ->", "end if", inputs=""))),
    wrong("a body without an enter", NESTED, "the plan / lifetimes: the plan @6", body(2, enter=NONE)),
    wrong("a body without a leave", NESTED, "i x @1 / lifetimes: the plan @1", body(2, leave=NONE)),
    wrong("a body that ends before it begins", NESTED, "r o @3; x @1 / lifetimes: the plan @3",
          body(2, enter=3, leave=1)),
    wrong("a leave before its enter", NESTED, "r o @3; x @1 / lifetimes: the plan @1", step(1, part=LEAVE),
          step(3, part=ENTER), body(2, enter=3, leave=1)),
    wrong("a body that begins at a whole step", NESTED, "o i @2; o @3 / lifetimes: the plan @2", body(2, enter=2)),
    wrong("a body that ends at a whole step", NESTED, "c @0; x @4 / lifetimes: the plan @0", body(3, leave=4)),
    wrong("a body that ends at the leave of another node", NESTED, "c @0 / lifetimes: the plan @0", body(1, leave=3)),
    wrong("a body over two nodes of one operator", TWICE, "x @0 / lifetimes: the plan @0", body(1, leave=3)),
    wrong("an enter that is a whole step", NESTED, "i x @1 / lifetimes: the plan @3", step(1, part=WHOLE)),
    wrong("a leave of another operator", NESTED, "i x @1 / lifetimes: the plan @3", step(3, op=0)),
    wrong("a body without a parent", NESTED, "i x @1", body(2, parent=NONE)),
    wrong("a body in another body than its node", NESTED, "i x @1", body(2, parent=0)),
    wrong("an enter in another body", NESTED, "i x @1", step(1, body=0)),
    wrong("a leave in another body", NESTED, "i x @1", step(3, body=0)),
    wrong("a body inside of itself", NESTED, "c @0", body(1, parent=1), step(0, body=1), step(5, body=1)),
    wrong("a body that is not named after its node", NESTED, "i x @1", called(2, "other/body")),
    wrong("a step in a body that is not open", NESTED, "z y @6", step(6, body=1)),
    wrong("a step of the main graph inside of a body", NESTED, "o i @2", step(2, body=0)),
    wrong("steps of two arms that interleave", ARMS, "c x @3", step(2, body=2), step(3, body=1)),
    wrong("an enter of no body", NESTED, "o i @2 / lifetimes: the plan @3", step(2, part=ENTER)),
    wrong("a leave where nothing was entered", NESTED, "z y @6 / lifetimes: the plan @6", step(6, part=LEAVE)),
    wrong("a leave of another node", NESTED, "o i @2 / lifetimes: the plan @2", step(2, part=LEAVE)),
    wrong("a leave of an enter without formal inputs", NESTED, "c @0", step(5, body=1)),
    wrong("a leave in a plan without bodies",
          planned(text_model("node concat Concat x w -> a b", parameters="w", outputs="a b")),
          "a x @0 / lifetimes: the plan @0", step(0, part=LEAVE)),
    wrong("a loop that is declared to run once", NESTED, "i x @1", body(2, iterates=0)),
    wrong("a branch that is declared to run again", NESTED, "c @0", body(3, iterates=1)),
    wrong("a value of one arm, read in the other", NESTED, "r @4", listed("reads", 4, "r")),
    kernel="it does not look at the brackets of bodies",
)  # fmt: skip

VALUES_STAY_INSIDE = group(
    Obligation.BODIES_NEST,
    right("a value from around", NESTED, listed("reads", 2, "i", "x")),
    wrong("a value of a body, read after it", NESTED, "lifetimes: r @6; r @6", listed("reads", 6, "r")),
    wrong("a formal input, read after its body", LOOP, "lifetimes: i @3; sharing: z i @3; i @3 / lifetimes: i @3",
          listed("reads", 3, "i")),
    wrong("a formal input, read in another body", NESTED, "lifetimes: i @4; sharing: s i @4; i @4 / lifetimes: i @4",
          listed("reads", 4, "i")),
    wrong("a value of an inner body, read by the outer leave", NESTED, "lifetimes: o @5; o @5",
          listed("reads", 5, "o", "s")),
    wrong("a copy that a leave made, read after it", HANDED_ON,
          "lifetimes: loop1/body/a.copy0 @3; loop1/body/a.copy0 @3", listed("reads", 3, "y", "loop1/body/a.copy0")),
    right("a leave reads the scratch of its enter", SCRATCH),
    wrong("a leave reads the scratch of another step", SCRATCH,
          "lifetimes: matmul.scratch0 @3; sharing: matmul.scratch0 y @3; sharing: y matmul.scratch0 @3; "
          "matmul.scratch0 @3 / lifetimes: matmul.scratch0 @3",
          listed("reads", 3, "o", "loop1.scratch0", "matmul.scratch0")),
    # A body copies a value that it hands on and did not make.
    right("copies of both values", SWAP),
    right("copies, and scratch behind them", COPIES_AND_SCRATCH),
    wrong("the first value is handed on without a copy", SWAP, "lifetimes: loop1/body/j.copy0 @2; j @2",
          listed("reads", 2, "j", "i", COPY_I), listed("writes", 2, COPY_I, "y", "z")),
    wrong("the last value is handed on without a copy", SWAP, "lifetimes: loop1/body/i.copy1 @2; i @2",
          listed("reads", 2, "j", COPY_J, "i"), listed("writes", 2, COPY_J, "y", "z")),
    wrong("a captured value is handed on without a copy", SWAP,
          "lifetimes: a @2; sharing: a i @2; lifetimes: loop1/body/j.copy0 @2; a @2 / lifetimes: a @2",
          listed("reads", 2, "a", "i", COPY_I), listed("writes", 2, COPY_I, "y", "z")),
    wrong("a tensor of the caller is handed on without a copy", SWAP, "lifetimes: loop1/body/j.copy0 @2; x @2",
          listed("reads", 2, "x", "i", COPY_I), listed("writes", 2, COPY_I, "y", "z")),
    wrong("a value is handed on with a copy of another", SWAP, "lifetimes: loop1/body/j.copy0 @1; j @2",
          listed("reads", 2, "j", "i", COPY_I), listed("writes", 2, COPY_I, COPY_J, "y", "z")),
)  # fmt: skip

ROLES_HAVE_ARENAS = group(
    Obligation.ROLES_HAVE_ARENAS,
    wrong("a gradient among activations", planned(text_model("node relu Relu x -> y")), "y bytes 128-191",
          tensor("y", role=ROLES.index(Role.GRADIENT)), kernel="it does not look at roles"),
    right("a view of a parameter, beside it",
          planned(text_model("node reshape Reshape w -> v", "node add Add v x -> y", "tensor v u8 64 view w 0",
                             parameters="w"))),
    right("scratch, in any arena", planned(text_model("node relu Relu x -> y scratch 8 arena gradients"))),
    wrong("a gradient behind the word alias", hidden, "d", kernel="it does not look at roles"),
)  # fmt: skip
