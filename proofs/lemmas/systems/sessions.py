"""A session: `tla/foundry/Sessions.tla` for any buffers, weights, steps and refusals.

Weights are numbered from 1, and 0 is none: `staging` is the weight in the buffer that the processor can write,
`copying` the one that the device is copying, `stored` the weight at the place of each. `logits`, `output` and `sampled`
are the steps of which these are. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.lemmas.engine.statements import Mutant, World

_ALL_MADE, _NONE_MADE = "(forall ((b Buffer)) (made b))", "(forall ((b Buffer)) (not (made b)))"
_PROVISIONING, _FAILING, _RUNNING = (f"(= phase {name})" for name in ("Provisioning", "Failing", "Running"))

MACHINE = Machine(
    "sessions",
    "A session runs with all its buffers and weights or has none, and each sample is of its own step.",
    """
    (declare-datatypes ((Phase 0)) (((None) (Provisioning) (Failing) (Running) (Closed))))
    (declare-sort Buffer 0)(declare-const weights Int)(declare-const steps Int)""",
    """
    (phase () Phase) (made (Buffer) Bool) (stored (Int) Int) (staging () Int) (copying () Int)
    (step () Int) (logits () Int) (output () Int) (sampled () Int)""",
    MachineRule(
        "Init",
        "No session is open, no buffer made and no weight staged.",
        f"""
        (<= 0 weights) (<= 0 steps) (= phase None) {_NONE_MADE} (forall ((w Int)) (= 0 (stored w)))
        (= 0 staging copying step logits output sampled)""",
        (Without("a buffer is there before it is made", _NONE_MADE),),
    ),
    f"""
    ; AllOrNone: a session runs with all its buffers; one that failed or is closed has none.
    (=> (= phase Running) {_ALL_MADE})
    (=> (or (= phase None) (= phase Closed)) {_NONE_MADE})
    ; StagingIsStill: the staging buffer holds what the device is copying.
    (or (= 0 copying) (= copying staging))
    (and (<= 0 copying) (<= 0 staging) (<= staging weights))
    ; WeightsArrive: at the place of each weight is that weight, or none.
    (forall ((w Int)) (or (= 0 (stored w)) (= w (stored w))))
    ; A session that runs has all its weights.
    (=> (= phase Running) (forall ((w Int)) (=> (and (<= 1 w) (<= w weights)) (= w (stored w)))))
    ; SamplesItsStep: a sample is taken from the logits of its own step.
    (and (<= 0 sampled) (<= sampled output) (<= output logits) (<= logits step))
    (<= step (+ 1 sampled)) (and (<= 0 steps) (<= step steps))
    ; Before it runs, no step is under way.
    (=> (and (distinct phase Running) (distinct phase Closed)) (= 0 step))""",
    (
        MachineRule(
            "Open",
            "A session is asked for.",
            "(= phase None) (set phase Provisioning)",
            (Mutant("of one that runs", "(= phase None)", "(= phase Running)"),),
        ),
        MachineRule(
            "Make",
            "A buffer is made.",
            f"(any x Buffer) {_PROVISIONING} (set (made x) true)",
            (Mutant("for a session that is not open", _PROVISIONING, "(= phase None)"),),
        ),
        MachineRule(
            "CannotMake",
            "Where a buffer cannot be had, the session goes over to giving the others back.",
            f"{_PROVISIONING} (not {_ALL_MADE}) (set phase Failing)",
            (Mutant("it is closed at once, with buffers made", "(set phase Failing)", "(set phase Closed)"),),
        ),
        MachineRule(
            "GiveBack",
            "A session that fails gives a buffer back.",
            f"(any x Buffer) {_FAILING} (set (made x) false)",
            (Mutant("frees in a step", _FAILING, _RUNNING),),
        ),
        MachineRule(
            "Failed",
            "When all are given back, the session has failed.",
            f"{_FAILING} {_NONE_MADE} (set phase None)",
            (Without("leaks on failure", _NONE_MADE),),
        ),
        MachineRule(
            "Stage",
            "With all buffers made, and while the device copies nothing, the processor stages a weight.",
            f"""(any w Int) {_PROVISIONING} {_ALL_MADE} (= 0 copying) (<= 1 w) (<= w weights) (= 0 (stored w))
            (set staging w)""",
            (Without("over a copy", "(= 0 copying)"), Without("a weight that there is not", "(<= w weights)")),
        ),
        MachineRule(
            "BeginCopy",
            "The device begins to copy what is staged.",
            "(distinct 0 staging) (= 0 copying) (= 0 (stored staging)) (set copying staging)",
            (Mutant("another weight is copied", "(set copying staging)", "(set copying (+ 1 staging))"),),
        ),
        MachineRule(
            "EndCopy",
            "The device ends its copy: what is staged then is at the place of the weight that it copied.",
            "(distinct 0 copying) (set (stored copying) staging) (set copying 0)",
            (Mutant("to another place", "(stored copying)", "(stored (+ 1 copying))"),),
        ),
        MachineRule(
            "Start",
            "With all buffers and all weights in place the session runs.",
            f"""{_PROVISIONING} {_ALL_MADE} (forall ((w Int)) (=> (and (<= 1 w) (<= w weights)) (distinct 0 (stored
              w))))
            (<= 1 steps) (set phase Running) (set step 1)""",
            (Without("starts incomplete", _ALL_MADE), Without("starts without its weights", "(distinct 0 (stored w))")),
        ),
        MachineRule(
            "Compute",
            "The device computes the logits of this step.",
            f"{_RUNNING} (< logits step) (set logits step)",
            (Mutant("those of the next", "(set logits step)", "(set logits (+ 1 step))"),),
        ),
        MachineRule(
            "CopyOut",
            "The device copies them to where the processor can read.",
            f"{_RUNNING} (= logits step) (< output step) (set output step)",
            (Without("copies early", "(= logits step)"),),
        ),
        MachineRule(
            "Sample",
            "The processor samples.",
            f"{_RUNNING} (= output step) (< sampled step) (set sampled step)",
            (Without("samples early", "(= output step)"),),
        ),
        MachineRule(
            "NextStep",
            "The next step begins when this one's sample is taken.",
            f"{_RUNNING} (= sampled step) (< step steps) (set step (+ step 1))",
            (Without("before it is", "(= sampled step)"), Mutant("one step more", "(< step steps)", "(<= step steps)")),
        ),
        MachineRule(
            "Close",
            "A session that has sampled all its steps is closed and gives everything back.",
            f"{_RUNNING} (= sampled steps) (set phase Closed) (set (made ?b) false)",
            (Without("keeps its buffers", "(set (made ?b) false)"),),
        ),
    ),
    World({"Buffer": 2}, 0, 2),
    step="""
    ; NothingIsMadeInSteps.
    (=> (and (= phase Running) (= phase' Running)) (forall ((b Buffer)) (= (made b) (made' b))))""",
    promises=(
        MachineRule(
            "each_sample_is_of_its_own_step",
            "What the processor samples is of the step that runs, and every weight is at its place.",
            f"""{_RUNNING} (= output step) (gives (and (= logits step) {_ALL_MADE}
              (forall ((w Int)) (=> (and (<= 1 w) (<= w weights)) (= w (stored w))))))""",
            (Mutant("logits are copied before they are computed", "(<= output logits)", "true"),
             Without("a session that does not run", _RUNNING)),
        ),
    ),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
