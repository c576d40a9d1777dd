"""A loop in a program: `tla/tmmu/Bodies.tla` for any program around it, any body, any plan and any number of trips.

Steps `first` to `last` are the body's and run `trips` times. `enter` before them writes the formal inputs, and `leave`
after them reads the results of the body. `written` holds of a tensor whose slot should hold it: it was written in this
iteration if the body makes it, and otherwise before. `made` is the iteration of its last write. After the last step of
an iteration the outputs become the next one's formal inputs one by one, in any order (`carried`), each from its
`source`. A slot has one tensor at a time: its `tenant`, of the iteration `stamp`.
spec: T8.1, T8.2, T8.3, T8.5, T8.8, T8.9, V4.9
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

_APART = "(=> (and (distinct s t) (<= (birth s) (death t)) (<= (birth t) (death s))) (distinct (slot s) (slot t)))"
_OVER_THE_LOOP = "(and (<= (birth t) enter) (<= leave (death t)))"
_LOOPS = "(<= first now) (<= now last)"
_DONE = "(forall ((t Tensor)) (=> (= now (writer t)) (written t)))"
_PUTS = "(any when Int) (set (tenant (slot x)) x) (set (stamp (slot x)) when) (set (made x) when)"
_ALL_CARRIED = "(forall ((t Tensor)) (=> (formal t) (carried t)))"

MACHINE = Machine(
    "bodies",
    "Under any accepted plan, the slot of every tensor that is written and live holds it, in a loop with the value of"
    " this iteration.",
    """
    (declare-sort Tensor 0)(declare-sort Slot 0)
    (declare-fun slot (Tensor) Slot)(declare-fun writer (Tensor) Int)
    (declare-fun birth (Tensor) Int)(declare-fun death (Tensor) Int)
    (declare-fun formal (Tensor) Bool)(declare-fun source (Tensor) Tensor)
    (declare-const enter Int)(declare-const first Int)(declare-const last Int)(declare-const leave Int)
    (declare-const trips Int)
    (define-fun inside ((t Tensor)) Bool (and (<= first (writer t)) (<= (writer t) last)))""",
    """
    (tenant (Slot) Tensor) (stamp (Slot) Int) (written (Tensor) Bool) (made (Tensor) Int) (carried (Tensor) Bool)
    (carries () Bool) (now () Int) (trip () Int)""",
    MachineRule(
        "Init",
        "Before the first step nothing is written, whatever the slots hold.",
        """
        (= now 0) (= trip 0) (<= 0 enter) (forall ((t Tensor)) (<= 0 (writer t)))
        (forall ((t Tensor)) (not (written t))) (not carries) (forall ((t Tensor)) (not (carried t)))""",
        (Mutant("a tensor is there before it is written", "(not (written t))", "(written t)"),),
    ),
    f"""
    ; A tensor is written exactly if it was due.
    (forall ((t Tensor)) (=> (written t) (<= (writer t) now)))
    (forall ((t Tensor)) (=> (< (writer t) now) (written t)))
    ; Its slot holds what is written and lives, as it was last made.
    (forall ((t Tensor)) (=> (and (written t) (<= (birth t) now) (<= now (death t)))
      (and (= t (tenant (slot t))) (= (made t) (stamp (slot t))))))
    ; In the loop: tensors that the body makes or is given are of this iteration, or of the next once carried.
    (=> (and {_LOOPS}) (and (<= 1 trip) (<= trip trips)))
    (forall ((t Tensor)) (=> (and {_LOOPS} (inside t) (written t)) (= trip (made t))))
    (forall ((t Tensor)) (=> (and {_LOOPS} (formal t)) (= (made t) (ite (carried t) (+ trip 1) trip))))
    (forall ((t Tensor)) (=> (and (= now enter) (formal t) (written t)) (= 1 (made t))))
    ; Outputs are carried after the last step of an iteration, all of it done.
    (=> carries (and (= now last) {_DONE}))
    (forall ((t Tensor)) (=> (carried t) (and carries (formal t))))""",
    (
        MachineRule(
            "Write",
            "A step writes one of its results into its slot.",
            f"""(any x Tensor) (= now (writer x)) (not (written x)) (not carries)
            (= when (ite (= now enter) 1 trip)) {_PUTS} (set (written x) true)""",
            (Without("in the slot of one that lives", _APART),
             Mutant("as of another iteration", "(= when (ite (= now enter) 1 trip))", "(= when 0)"),
             Mutant("another step's result", "(= now (writer x))", "(<= now (writer x))")),
        ),
        MachineRule(
            "Proceed",
            "When a step has written all its results, the next one in the plan runs: into the loop, at the start of"
            " its first iteration, through it, and out of it after its last.",
            f"""{_DONE} (not carries) (set now (+ now 1)) (any trip') (=> (= now enter) (= trip' 1))
            (=> (and {_LOOPS}) (or (= now last) (= trip' trip)))""",
            (Without("before all is written", _DONE),
             Mutant("a step is left out", "(set now (+ now 1))", "(set now (+ now 2))"),
             Mutant("iterations are miscounted", "(=> (= now enter) (= trip' 1))",
                    "(=> (= now enter) (= trip' trips))")),
            World({"Tensor": 2, "Slot": 2}, 0, 4),
        ),
        MachineRule(
            "Carry",
            "When the last step of an iteration, other than the last iteration, is done, an output becomes a formal"
            " input of the next one. Its slot belongs to no other tensor during the loop.",
            f"""(any x Tensor) (= now last) {_DONE} (< trip trips) (formal x) (not (carried x)) (= when (+ trip 1))
            {_PUTS} (set (carried x) true) (set carries true)
            ; its source is what this iteration made
            (gives (and (= (source x) (tenant (slot (source x)))) (= trip (stamp (slot (source x))))))""",
            (Without("straight lifetimes: what is given to the body dies in it", _OVER_THE_LOOP),
             Without("before the last step is done", _DONE), Without("while the iteration runs", "(= now last)"),
             Mutant("as of this iteration", "(= when (+ trip 1))", "(= when trip)"),
             Mutant("no copy of what is given on", "(and (inside (source t)) (not (formal (source t)))",
                    "(and (or (formal (source t)) (inside (source t)))"),
             Mutant("an output that is dead before the loop is left", "(<= leave (death (source t)))", "true")),
        ),
        MachineRule(
            "GoRound",
            "When all formal inputs are carried over, the body runs again, and must make its tensors anew.",
            f"""(= carries true) {_ALL_CARRIED} (< trip trips) (set now first) (set trip (+ trip 1))
            (set (written ?t) (and (written ?t) (not (inside ?t)))) (set (carried ?t) false) (set carries false)""",
            (Without("straight lifetimes: what is captured dies in the body", _OVER_THE_LOOP),
             Without("one trip too many", "(< trip trips)"), Without("before all are carried over", _ALL_CARRIED),
             Without("what it made counts for this iteration", "(set (written ?t)")),
            module=("Proceed",),
        ),
    ),
    World({"Tensor": 3, "Slot": 2}, 0, 4),
    assumed=f"""
    (and (= (+ enter 1) first) (<= first last) (= (+ last 1) leave) (<= 1 trips))
    ; The plan is accepted: tensors that live at one step have different slots.
    (forall ((s Tensor) (t Tensor)) {_APART})
    (forall ((t Tensor)) (and (<= (birth t) (writer t)) (<= (writer t) (death t))))
    ; Captures and formal inputs of the body live until the loop is left. spec: T8.3
    (forall ((t Tensor)) (=> (or (formal t) (and (<= (writer t) enter) (<= first (death t)))) {_OVER_THE_LOOP}))
    (forall ((t Tensor)) (=> (formal t) (= enter (writer t))))
    ; What becomes a formal input is made in the body, has bytes of its own, and lives until the loop is left. spec:
    ; T8.5, T8.8
    (forall ((t Tensor)) (=> (formal t)
      (and (inside (source t)) (not (formal (source t))) (<= leave (death (source t))))))""",
    promises=(
        MachineRule(
            "a_read_finds_what_its_iteration_wrote",
            "A step that reads a tensor that was due before finds it in its slot. In the loop, tensors that the body"
            " makes or is given are of this iteration.",
            f"""(any x Tensor) (< (writer x) now) (<= now (death x)) (not carries)
            (gives (and (= x (tenant (slot x))) (= (made x) (stamp (slot x)))
              (=> (and {_LOOPS} (or (inside x) (formal x))) (= trip (stamp (slot x))))))""",
            (Without("what is dead", "(<= now (death x))"), Without("while outputs are carried over", "(not carries)")),
        ),
        MachineRule(
            "what_a_loop_captured_is_whole_in_each_iteration",
            "A tensor that was written before a loop and is read in it is in its slot at each of the loop's steps,"
            " even after its last reader.",
            f"""(any x Tensor) (<= (writer x) enter) (<= first (death x)) {_LOOPS} (gives (= x (tenant (slot x))))""",
            (Without("straight lifetimes: what is captured dies in the body", _OVER_THE_LOOP),),
        ),
    ),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
