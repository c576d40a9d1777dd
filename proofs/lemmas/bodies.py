"""A loop in a program: what `tla/tmmu/Bodies.tla` says, for any program around it, any body, any plan and any trips.

Steps `first` to `last` are the body's and run `trips` times; `enter` before them writes the formal inputs, `leave`
after them reads what the body gives. `written` says of a tensor that its slot should hold it: written in this iteration
if the body makes it, or before. `made` is the iteration of its last write. After the last step of an iteration the
outputs become the next one's formal inputs one by one, in any order (`carried`), each from its `source`. A slot has one
tensor at a time: its `tenant`, of the iteration `stamp`. spec: T8.1, T8.2, T8.3, T8.5, T8.8, T8.9, V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_STATE = State(
    {
        "tenant": (("Slot",), "Tensor"), "stamp": (("Slot",), "Int"), "written": (("Tensor",), "Bool"),
        "made": (("Tensor",), "Int"), "carried": (("Tensor",), "Bool"), "carries": ((), "Bool"),
    },
    ("now", "trip"),
)  # fmt: skip
_SORTS = """
(declare-sort Tensor 0)(declare-sort Slot 0)
(declare-fun slot (Tensor) Slot)(declare-fun writer (Tensor) Int)
(declare-fun birth (Tensor) Int)(declare-fun death (Tensor) Int)
(declare-fun formal (Tensor) Bool)(declare-fun source (Tensor) Tensor)
(declare-const enter Int)(declare-const first Int)(declare-const last Int)(declare-const leave Int)
(declare-const trips Int)
(define-fun inside ((t Tensor)) Bool (and (<= first (writer t)) (<= (writer t) last)))
"""
RANGE = "(and (= (+ enter 1) first) (<= first last) (= (+ last 1) leave))"
APART = (
    "(forall ((s Tensor) (t Tensor)) (=> (and (distinct s t) (<= (birth s) (death t)) (<= (birth t) (death s)))"
    " (distinct (slot s) (slot t))))"
)
"""What makes a plan an accepted one: who lives at one step with another has a slot of its own."""
LIVES = "(forall ((t Tensor)) (and (<= (birth t) (writer t)) (<= (writer t) (death t))))"
OVER_THE_LOOP = (
    "(forall ((t Tensor)) (=> (or (formal t) (and (<= (writer t) enter) (<= first (death t))))"
    " (and (<= (birth t) enter) (<= leave (death t)))))"
)
"""What the body captures or is given lives until the loop is left. spec: T8.3"""
FORMALS = "(forall ((t Tensor)) (=> (formal t) (= enter (writer t))))"
OUTPUTS = (
    "(forall ((t Tensor)) (=> (formal t) (and (inside (source t)) (not (formal (source t)))"
    " (<= leave (death (source t))))))"
)
"""What becomes a formal input is made in the body, has bytes of its own, and lives until the loop is left.
spec: T8.5, T8.8"""
_PROGRAM = (RANGE, APART, LIVES, OVER_THE_LOOP, FORMALS, OUTPUTS, "(<= 1 trips)")
_LIVE = "(<= (birth {t}) now{s}) (<= now{s} (death {t}))"


def invariant(s: str) -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    live = _LIVE.format(t="t", s=s)
    return (
        # What is written was due, and what was due is written.
        f"(forall ((t Tensor)) (=> (written{s} t) (<= (writer t) now{s})))",
        f"(forall ((t Tensor)) (=> (< (writer t) now{s}) (written{s} t)))",
        # Its slot holds what is written and lives, as it was last made.
        f"(forall ((t Tensor)) (=> (and (written{s} t) {live})"
        f" (and (= t (tenant{s} (slot t))) (= (made{s} t) (stamp{s} (slot t))))))",
        # In the loop: what the body makes is of this iteration, and what it is given too, or of the next once carried.
        f"(=> (and (<= first now{s}) (<= now{s} last)) (and (<= 1 trip{s}) (<= trip{s} trips)))",
        f"(forall ((t Tensor)) (=> (and (<= first now{s}) (<= now{s} last) (inside t) (written{s} t))"
        f" (= trip{s} (made{s} t))))",
        f"(forall ((t Tensor)) (=> (and (<= first now{s}) (<= now{s} last) (formal t))"
        f" (= (made{s} t) (ite (carried{s} t) (+ trip{s} 1) trip{s}))))",
        f"(forall ((t Tensor)) (=> (and (= now{s} enter) (formal t) (written{s} t)) (= 1 (made{s} t))))",
        # Outputs are carried after the last step of an iteration, all of it done.
        f"(=> carries{s} (and (= now{s} last) (forall ((t Tensor)) (=> (= now{s} (writer t)) (written{s} t)))))",
        f"(forall ((t Tensor)) (=> (carried{s} t) (and carries{s} (formal t))))",
    )


_BOTH = _SORTS + _STATE.declared("0") + _STATE.declared("1")
_X = "(declare-const x Tensor)"
_AFTER = all_of(invariant("1"))
_WORLD = World({"Tensor": 3, "Slot": 2}, 0, 4)
_DONE = "(forall ((t Tensor)) (=> (= now0 (writer t)) (written0 t)))"
_IS_DONE = all_of(("(= now0 last)", _DONE))
_NOT_CARRYING = "(not carries0)"
_PUTS = (_STATE.becomes("tenant", ("(slot x)",), "x"), _STATE.becomes("stamp", ("(slot x)",), "when"))
_MADE = _STATE.becomes("made", ("x",), "when")
_IN_LOOP = "(and (<= first now0) (<= now0 last))"
_WHEN = "(= when (ite (= now0 enter) 1 trip0))"
_ALL_CARRIED = "(forall ((t Tensor)) (=> (formal t) (carried0 t)))"
_NONE_CARRIED = "(forall ((t Tensor)) (not (carried1 t)))"
_AGAIN = "(forall ((t Tensor)) (= (written1 t) (and (written0 t) (not (inside t)))))"
_FRESH_OUTPUT = "(and (= (source x) (tenant0 (slot (source x)))) (= trip0 (stamp0 (slot (source x)))))"
_ON = "(= now1 (+ now0 1))"

STATEMENTS = (
    Statement(
        "a_program_begins_right",
        "Before the first step has written anything, the invariant holds, whatever the slots hold.",
        _SORTS + _STATE.declared("1"),
        (*_PROGRAM, "(= now1 0)", "(= trip1 0)", "(<= 0 enter)", "(forall ((t Tensor)) (<= 0 (writer t)))",
         "(forall ((t Tensor)) (not (written1 t)))", "(not carries1)", "(forall ((t Tensor)) (not (carried1 t)))"),
        _AFTER,
        (Mutant("something is there that nobody wrote", "(not (written1 t))", "(written1 t)"),),
        _WORLD,
    ),
    Statement(
        "writing_a_result_keeps_the_program",
        "A step that writes one of its results puts it into its slot, and spoils nothing that is to be read.",
        _BOTH + _X + "(declare-const when Int)",
        (*_PROGRAM, *invariant("0"), "(= now0 (writer x))", "(not (written0 x))", _NOT_CARRYING, _WHEN, *_PUTS,
         _MADE, _STATE.becomes("written", ("x",), "true"), *_STATE.same("carried", "carries", "now", "trip")),
        _AFTER,
        (Mutant("in the slot of one that lives", assumed(APART), ""),
         Mutant("as of another iteration", assumed(_WHEN), assumed("(= when 0)")),
         Mutant("another step's result", "(assume (= now0 (writer x)))", "(assume (<= now0 (writer x)))")),
        _WORLD,
    ),
    Statement(
        "going_on_keeps_the_program",
        "When a step has written all its results, the next one in the plan runs: into the loop, where its first"
        " iteration begins, through it, and out of it after its last.",
        _BOTH,
        (*_PROGRAM, *invariant("0"), _DONE, _NOT_CARRYING, _ON,
         "(=> (= now0 enter) (= trip1 1))", f"(=> {_IN_LOOP} (or (= now0 last) (= trip1 trip0)))",
         "(forall ((t Tensor)) (= (carried1 t) (carried0 t)))", "(not carries1)",
         *_STATE.same("tenant", "stamp", "written", "made")),
        _AFTER,
        (Mutant("before all is written", assumed(_DONE), ""),
         Mutant("a step is left out", _ON, "(= now1 (+ now0 2))"),
         Mutant("iterations are miscounted", "(=> (= now0 enter) (= trip1 1))", "(=> (= now0 enter) (= trip1 trips))")),
        World({"Tensor": 2, "Slot": 2}, 0, 4),
    ),
    Statement(
        "what_is_carried_over_is_what_this_iteration_gave",
        "By the invariant, when the last step of an iteration is done and while outputs are carried over, in any order,"
        " the slot of each source holds what this iteration made.",
        _SORTS + _STATE.declared("0") + _X,
        (*_PROGRAM, *invariant("0"), _IS_DONE, "(formal x)"),
        _FRESH_OUTPUT,
        (Mutant("no copy of what is given on", "(and (inside (source t)) (not (formal (source t)))",
                "(and (or (formal (source t)) (inside (source t)))"),
         Mutant("an output that is dead before the loop is left", "(<= leave (death (source t)))", "true")),
        World({"Tensor": 3, "Slot": 2}, 0, 4),
    ),
    Statement(
        "carrying_an_output_over_keeps_the_program",
        "When the last step of an iteration is done, and not the last iteration, an output that becomes a formal"
        " input of the next one keeps the invariant: the slot of a formal input is nobody else's as long as the loop"
        " lasts.",
        _BOTH + _X + "(declare-const when Int)",
        (*_PROGRAM, *invariant("0"), _IS_DONE, "(< trip0 trips)", "(formal x)", "(not (carried0 x))",
         "(= when (+ trip0 1))", *_PUTS, _MADE, _STATE.becomes("carried", ("x",), "true"),
         _STATE.becomes("carries", (), "true"), *_STATE.same("written", "now", "trip")),
        _AFTER,
        (Mutant("straight lifetimes: what is given to the body dies in it", assumed(OVER_THE_LOOP), ""),
         Mutant("before the last step is done", assumed(_IS_DONE), assumed("(= now0 last)")),
         Mutant("while the iteration runs", assumed(_IS_DONE), ""),
         Mutant("as of this iteration", "(= when (+ trip0 1))", "(= when trip0)")),
        _WORLD,
    ),
    Statement(
        "going_round_again_keeps_the_program",
        "When all formal inputs are carried over, the body runs again, and what it made is to be made anew.",
        _BOTH,
        (*_PROGRAM, *invariant("0"), "carries0", _ALL_CARRIED, "(< trip0 trips)", "(= now1 first)",
         "(= trip1 (+ trip0 1))", _AGAIN, _NONE_CARRIED, "(not carries1)", *_STATE.same("tenant", "stamp", "made")),
        _AFTER,
        (Mutant("straight lifetimes: what is captured dies in the body", assumed(OVER_THE_LOOP), ""),
         Mutant("one trip too many", "(assume (< trip0 trips))", ""),
         Mutant("before all are carried over", assumed(_ALL_CARRIED), ""),
         Mutant("what it made counts for this iteration", _AGAIN, _STATE.same("written")[0])),
        _WORLD,
    ),
    Statement(
        "a_read_finds_what_its_iteration_wrote",
        "By the invariant, whatever step reads a tensor that was due before it finds it in its slot; and in the loop,"
        " what the body makes or is given is of this very iteration.",
        _SORTS + _STATE.declared("1") + _X,
        (*_PROGRAM, *invariant("1"), "(< (writer x) now1)", "(<= now1 (death x))", "(not carries1)"),
        "(and (= x (tenant1 (slot x))) (= (made1 x) (stamp1 (slot x)))"
        " (=> (and (<= first now1) (<= now1 last) (or (inside x) (formal x))) (= trip1 (stamp1 (slot x)))))",
        (Mutant("what is dead", "(assume (<= now1 (death x)))", ""),
         Mutant("while outputs are carried over", "(assume (not carries1))", "")),
        _WORLD,
    ),
    Statement(
        "what_a_loop_captured_is_whole_in_each_iteration",
        "By the invariant, what was written before a loop and is read in it lies in its slot at each of its steps, also"
        " at those after its last reader.",
        _SORTS + _STATE.declared("1") + _X,
        (*_PROGRAM, *invariant("1"), "(<= (writer x) enter)", "(<= first (death x))", "(<= first now1)",
         "(<= now1 last)"),
        "(= x (tenant1 (slot x)))",
        (Mutant("straight lifetimes: what is captured dies in the body", assumed(OVER_THE_LOOP), ""),),
        _WORLD,
    ),
)  # fmt: skip
