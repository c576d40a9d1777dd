"""Sessions on one device: `tla/foundry/Sessions.tla` for any sessions, buffers, weights, steps and commands.

Buffers and weights are numbered from 1. A command has a number. `kind`, `owner` and `of` describe a command that has
not ended, and mark every other number as no session's. `passed` is the number of a session's last pass: a witness,
which no session has. spec: V4.9, FD9.6
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

_X = "(any x Session)"
_PROVISIONING, _FAILING, _RUNNING = (f"(= (phase x) {name})" for name in ("Provisioning", "Failing", "Running"))
_ENDED = "(<= (last x) completed)"
_ALL_MADE = "(= (made x) (buffers x))"
_WAITED = f"(=> (= (asked x) (step x)) {_ENDED})"
_WEIGHTS = "(forall ((w Int)) (=> (and (<= 1 w) (<= w (weights {s}))) (= w (stored {s} w))))"
_SOURCE = f"(=> (distinct x (source x)) {_WEIGHTS.format(s='(source x)')})"


def _submit(kind: str, of: str) -> str:
    """Return the effect that a session submits the command with the number n, and keeps it."""
    return f"""(any n Int) (= n (+ 1 submitted)) (set submitted n) (set (last x) n) (set (kind n) {kind})
    (set (owner n) x) (set (of n) {of})"""


def _execute(kind: str) -> str:
    """Return the effect that the device executes the first command, with the number n, which then ceases to exist."""
    return f"""(any n Int) (= n (+ 1 completed)) (<= n submitted) (= {kind} (kind n)) (set completed n)
    (set (kind n) Other) (set (owner n) unowned) (set (of n) 0)"""


_OF_X = f"{_X} (= x (owner n))"

_NOTHING_STORED = (
    "(define-fun kind ((t Int)) Kind Other)(define-fun stored ((s Session) (w Int)) Int 0)"
    "(define-fun of ((t Int)) Int 0)"
)
"""A case in which no weight is stored and no session has a command in flight."""

MACHINE = Machine(
    "sessions",
    "Sessions keep their buffers until their commands have ended, run with all weights, and sample their own steps.",
    """
    (declare-datatypes ((Phase 0)) (((None) (Provisioning) (Failing) (Running) (Closed))))
    (declare-datatypes ((Kind 0)) (((Weight) (Pass) (Logits) (Other))))
    (declare-sort Session 0)(declare-const unowned Session)
    (declare-fun buffers (Session) Int)(declare-fun weights (Session) Int)(declare-fun source (Session) Session)
    (declare-const steps Int)""",
    """
    (phase (Session) Phase) (made (Session) Int) (staging (Session) Int) (copies (Session) Int)
    (stored (Session Int) Int) (step (Session) Int) (hidden (Session) Int) (asked (Session) Int)
    (output (Session) Int) (sampled (Session) Int) (last (Session) Int)
    (submitted () Int) (completed () Int) (kind (Int) Kind) (owner (Int) Session) (of (Int) Int)
    (passed (Session) Int)""",
    MachineRule(
        "Init",
        "No session is open, and no session has submitted a command.",
        """
        (<= 0 completed) (= completed submitted) (forall ((t Int)) (= Other (kind t)))
        (forall ((s Session)) (and (= (phase s) None) (= 0 (made s) (staging s) (copies s) (step s) (hidden s) (asked s)
          (output s) (sampled s) (last s) (passed s))))
        (forall ((s Session) (w Int)) (= 0 (stored s w)))""",
        (Mutant("a command of before is one of a session", "(= Other (kind t))", "(= Pass (kind t))"),),
    ),
    """
    ; AllOrNone: a session runs with all its buffers; one that failed or is closed has none.
    (forall ((s Session)) (=> (= (phase s) Running) (= (made s) (buffers s))))
    (forall ((s Session)) (=> (or (= (phase s) None) (= (phase s) Closed)) (= 0 (made s))))
    (forall ((s Session)) (and (<= 0 (made s)) (<= (made s) (buffers s))))
    ; CommandsFindTheirBuffers: what has not ended is of a session with all buffers.
    (and (<= 0 completed) (<= completed submitted))
    (forall ((t Int)) (=> (distinct Other (kind t)) (and (< completed t) (<= t submitted))))
    (forall ((s Session) (t Int)) (=> (and (distinct Other (kind t)) (= s (owner t)))
      (and (= (made s) (buffers s)) (<= t (last s)))))
    (forall ((s Session)) (<= (last s) submitted))
    (forall ((s Session)) (=> (< completed (last s)) (and (distinct Other (kind (last s))) (= s (owner (last s))))))
    ; StagingIsStill: a copy is of the staged weight, and no command of its session comes after it.
    (forall ((s Session) (t Int)) (=> (and (= Weight (kind t)) (= s (owner t))) (and (= t (last s))
      (= (of t) (staging s)) (= (of t) (copies s)) (or (= Provisioning (phase s)) (= Failing (phase s))))))
    (forall ((s Session)) (and (<= 0 (copies s)) (<= (copies s) (staging s)) (<= (staging s) (+ 1 (copies s)))
      (<= (staging s) (weights s))))
    ; WeightsArrive: at the place of each weight is that weight or none; it is there if its copy has ended.
    (forall ((s Session) (w Int)) (or (= 0 (stored s w)) (= w (stored s w))))
    (forall ((s Session) (w Int)) (=> (and (<= 1 w) (<= w (copies s))) (or (= w (stored s w))
      (and (= w (copies s)) (< completed (last s)) (= Weight (kind (last s)))))))
    (forall ((s Session) (r Session) (w Int)) (=> (and (= (phase s) Running) (= r (source s)) (<= 1 w)
      (<= w (weights r))) (= w (stored r w))))
    ; Passes are computed in the order of their steps; the last one is of the last step.
    (forall ((s Session) (t Int)) (=> (and (= Pass (kind t)) (= s (owner t))) (and (= Running (phase s))
      (< (hidden s) (of t)) (<= (of t) (step s)) (<= t (passed s)))))
    (forall ((t Int) (u Int)) (=> (and (= Pass (kind t)) (= Pass (kind u)) (= (owner t) (owner u)) (< t u))
      (< (of t) (of u))))
    (forall ((s Session)) (or (= (hidden s) (step s)) (< completed (passed s))))
    (forall ((s Session)) (=> (< completed (passed s))
      (and (= Pass (kind (passed s))) (= s (owner (passed s))) (= (step s) (of (passed s))))))
    (forall ((s Session)) (<= (passed s) (last s)))
    ; Logits are of the last pass, and no command of their session comes after them.
    (forall ((s Session) (t Int)) (=> (and (= Logits (kind t)) (= s (owner t))) (and (= Running (phase s))
      (= t (last s)) (< (passed s) t) (= (asked s) (step s)))))
    ; OutputIsThere: where no logits are to be written, the output is of the step that was requested last.
    (forall ((s Session)) (or (= (output s) (asked s)) (and (< completed (last s)) (= Logits (kind (last s))))))
    ; SamplesItsStep.
    (forall ((s Session)) (and (<= 0 (sampled s)) (<= (sampled s) (output s)) (<= (output s) (hidden s))
      (<= (hidden s) (step s)) (<= (asked s) (step s)) (<= 0 (step s)) (<= (step s) steps)))""",
    (
        MachineRule(
            "Open", "A session is requested.", f"{_X} (= (phase x) None) (set (phase x) Provisioning)",
            (Mutant("it runs at once", "(set (phase x) Provisioning)", "(set (phase x) Running)"),),
        ),
        MachineRule(
            "Make", "The next buffer is made.",
            f"{_X} {_PROVISIONING} (< (made x) (buffers x)) (set (made x) (+ 1 (made x)))",
            (Mutant("for a session that is not open", _PROVISIONING, "(= (phase x) None)"),),
        ),
        MachineRule(
            "CannotMake", "If a buffer is unavailable, the session starts to release the others.",
            f"{_X} {_PROVISIONING} (< (made x) (buffers x)) (set (phase x) Failing)",
            (Mutant("it is closed at once, with buffers made", "(set (phase x) Failing)", "(set (phase x) Closed)"),),
        ),
        MachineRule(
            "GiveBack", "A session that fails releases a buffer when its commands have ended.",
            f"{_X} {_FAILING} (< 0 (made x)) {_ENDED} (set (made x) (- (made x) 1))",
            (Without("while the device copies", _ENDED), Mutant("frees in a step", _FAILING, _RUNNING)),
        ),
        MachineRule(
            "Failed", "When all buffers are released, the session has failed. Weights remain if all of them are there.",
            f"{_X} {_FAILING} (= 0 (made x)) {_WEIGHTS.format(s='x')} (set (phase x) None)",
            (Without("leaks on failure", "(= 0 (made x))"),),
        ),
        MachineRule(
            "FailedIncomplete", "A session that fails before all its weights are there releases those that are.",
            f"""{_X} {_FAILING} (= 0 (made x)) (not {_WEIGHTS.format(s="x")}) (set (phase x) None) (set (staging x) 0)
            (set (copies x) 0) (set (stored x ?w) 0)""",
            (Without("though another session uses them", f"(not {_WEIGHTS.format(s='x')})"),),
            World({"Session": 2}, 0, 3, _NOTHING_STORED), ("Failed",),
        ),
        MachineRule(
            "Stage", "When all buffers are made and the copy before has ended, the processor stages the next weight.",
            f"""{_X} {_PROVISIONING} {_ALL_MADE} (< (staging x) (weights x)) (= (copies x) (staging x)) {_ENDED}
            (set (staging x) (+ 1 (staging x)))""",
            (Without("over a copy", _ENDED), Without("a weight that there is not", "(< (staging x) (weights x))")),
        ),
        MachineRule(
            "CannotLoad", "If the weights are unavailable, the session starts to release its buffers.",
            f"{_X} {_PROVISIONING} {_ALL_MADE} (set (phase x) Failing)",
            (Mutant("it has failed at once", "(set (phase x) Failing)", "(set (phase x) None)"),),
        ),
        MachineRule(
            "SubmitCopy", "The copy of the staged weight is submitted.",
            f"""{_X} {_PROVISIONING} {_ALL_MADE} {_ENDED} (< (copies x) (staging x))
            (set (copies x) (staging x)) {_submit("Weight", "(staging x)")}""",
            (Mutant("of another weight", "(set (of n) (staging x))", "(set (of n) (+ 1 (staging x)))"),
             Without("its number is not kept", "(set (last x) n)")),
        ),
        MachineRule(
            "Start", "When all buffers and all weights are in place, its own or another session's, the session runs.",
            f"{_X} {_PROVISIONING} {_ALL_MADE} (= (copies x) (weights x)) {_ENDED} {_SOURCE} (set (phase x) Running)",
            (Without("starts incomplete", _ALL_MADE), Without("while the device copies", _ENDED),
             Without("without the other's weights", _SOURCE)),
        ),
        MachineRule(
            "SubmitPass", "The pass of the next step is submitted.",
            f"""{_X} {_RUNNING} (< (step x) steps) {_WAITED} (set (step x) (+ 1 (step x))) (set (passed x) n)
            {_submit("Pass", "(+ 1 (step x))")}""",
            (Mutant("one step more", "(< (step x) steps)", "(<= (step x) steps)"),
             Mutant("of the step before", "(set (of n) (+ 1 (step x)))", "(set (of n) (step x))")),
        ),
        MachineRule(
            "SubmitLogits", "The logits of the last step are requested.",
            f"""{_X} {_RUNNING} (< (asked x) (step x)) (set (asked x) (step x))
            {_submit("Logits", "(step x)")}""",
            (Mutant("of the next step", "(set (asked x) (step x))", "(set (asked x) (+ 1 (step x)))"),),
        ),
        MachineRule(
            "Sample", "The processor samples when everything that the session submitted has ended.",
            f"{_X} {_RUNNING} (< 0 (step x)) (= (asked x) (step x)) {_ENDED} (set (sampled x) (output x))",
            (Mutant("from the next step", "(set (sampled x) (output x))", "(set (sampled x) (+ 1 (output x)))"),),
        ),
        MachineRule(
            "EndSession", "A session that is closed releases everything, when its commands have ended.",
            f"{_X} {_RUNNING} {_ENDED} (set (phase x) Closed) (set (made x) 0)",
            (Without("keeps its buffers", "(set (made x) 0)"), Without("while the device computes", _ENDED)),
        ),
        MachineRule(
            "Copied", "The device copies the staged bytes to the place of the weight.",
            f"{_execute('Weight')} (set (stored x (of n)) (staging x)) {_OF_X}",
            (Mutant("to another place", "(stored x (of n))", "(stored x (+ 1 (of n)))"),),
        ),
        MachineRule(
            "Computed", "The device computes a step.",
            f"{_execute('Pass')} (set (hidden x) (of n)) {_OF_X}",
            (Without("nothing", "(set (hidden x) (of n))"),),
        ),
        MachineRule(
            "Written", "The device writes the logits of the step that it computed last.",
            f"{_execute('Logits')} (set (output x) (hidden x)) {_OF_X}",
            (Mutant("of the step before", "(set (output x) (hidden x))", "(set (output x) (- (hidden x) 1))"),),
        ),
        MachineRule(
            "SubmitOther", "Others submit a command.", "(set submitted (+ 1 submitted))",
            (Mutant("none", "(+ 1 submitted)", "(- completed 1)"),),
        ),
        MachineRule(
            "OtherEnded", "A command of others has ended.", _execute("Other"),
            (Without("one of a session's in its place", "(= Other (kind n))"),),
        ),
    ),
    World({"Session": 2}, 0, 3),
    assumed="""
    (forall ((s Session)) (and (<= 1 (buffers s)) (<= 0 (weights s)))) (<= 0 steps)""",
    step="""
    ; NothingIsMadeInSteps.
    (forall ((s Session)) (=> (and (= (phase s) Running) (= (phase' s) Running)) (= (made s) (made' s))))""",
    promises=(
        MachineRule(
            "each_sample_is_of_its_own_step",
            "When everything that a session submitted has ended, the output is of the step that it requested last.",
            f"""{_X} {_RUNNING} {_ENDED} (gives (and (= (output x) (asked x)) {_ALL_MADE}
              {_WEIGHTS.format(s='(source x)')}))""",
            (Without("while the device computes", _ENDED), Without("a session that does not run", _RUNNING)),
        ),
    ),
    witnesses=("passed",), is_apart=True,
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
