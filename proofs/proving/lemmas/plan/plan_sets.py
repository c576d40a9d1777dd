"""Prove why facts about single programs suffice for every sequence of their calls.

The facts are rows: no two tensors of the state share a byte, and no program writes a byte of state for which it has no
exit. Then every byte of the state always holds what its tensor was given last: by the caller, or as the exit of a call.
That an exit has its value in its bytes when a call ends is what the plan of its program shows. Bytes of different
arenas are different bytes. A call may do anything to the bytes that its program touches.

Tests: `tests/property/test_plan_sets.py`.
spec: V4.3, PS1.4, PS1.5, PS1.6, PS1.7, PS1.8
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

_GIVEN = "(forall ((s State) (b Byte)) (=> (and (holds s) (inside s b)) (= (memory b) (given s b))))"
_APART = "(=> (and (distinct s t) (inside s b)) (not (inside t b)))"
_ALONE = "(=> (and (inside s b) (not (exits p s))) (not (touches p b)))"

MACHINE = Machine(
    "plan_set",
    "Every byte of the state that holds a value holds the one that it was given last, after any sequence of calls.",
    """
    (declare-sort State 0)(declare-sort Program 0)(declare-sort Byte 0)(declare-sort Value 0)
    (declare-fun inside (State Byte) Bool)(declare-fun initial (State) Bool)
    (declare-fun enters (Program State) Bool)(declare-fun exits (Program State) Bool)
    (declare-fun touches (Program Byte) Bool)""",
    "(memory (Byte) Value) (holds (State) Bool) (given (State Byte) Value)",
    MachineRule(
        "Init",
        "The caller has written the initial state, all of it.",
        """
        (forall ((s State)) (= (holds s) (initial s)))
        (forall ((s State) (b Byte)) (=> (and (initial s) (inside s b)) (= (memory b) (given s b))))""",
        (Mutant("the caller writes what is not initial", "(and (initial s) (inside s b))",
                "(and (not (initial s)) (inside s b))"),
         Mutant("all state counts as written", "(= (holds s) (initial s))", "(holds s)")),
    ),
    _GIVEN,
    (
        MachineRule(
            "Call",
            "A program that is ready finds what its entries were given last. It writes what it touches, and gives its"
            " exits.",
            """(any x Program) (forall ((s State)) (=> (enters x s) (holds s)))
            (any memory') (forall ((b Byte)) (=> (distinct (memory' b) (memory b)) (touches x b)))
            (any holds') (forall ((s State)) (= (holds' s) (or (holds s) (exits x s))))
            (any given') (forall ((s State) (b Byte))
              (= (given' s b) (ite (and (exits x s) (inside s b)) (memory' b) (given s b))))
            (gives (forall ((s State) (b Byte)) (=> (and (enters x s) (inside s b)) (= (memory b) (given s b)))))""",
            (Without("a program touches state of which it has no exit", _ALONE),
             Without("a program writes what it does not touch", "(touches x b)))"),
             Mutant("an exit gives nothing", "(and (exits x s) (inside s b))", "false"),
             Without("a program is called that is not ready", "(=> (enters x s) (holds s))")),
        ),
        MachineRule(
            "Write",
            "Between two calls the caller writes a tensor of the state, all of it.",
            """(any y State)
            (any memory') (forall ((b Byte)) (=> (distinct (memory' b) (memory b)) (inside y b)))
            (set (holds y) true)
            (any given') (forall ((s State) (b Byte)) (= (given' s b) (ite (= s y) (memory' b) (given s b))))""",
            (Without("two tensors of the state share a byte", _APART),
             Without("the caller writes beside the tensor", "(inside y b)))")),
        ),
    ),
    World({"State": 2, "Program": 1, "Byte": 2, "Value": 2}),
    assumed=f"""
    ; Rows: no two tensors of the state share a byte, and no program touches state of which it has no exit.
    (forall ((s State) (t State) (b Byte)) {_APART})
    (forall ((p Program) (s State) (b Byte)) {_ALONE})""",
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
