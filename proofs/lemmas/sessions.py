"""A session: what `tla/foundry/Sessions.tla` says, for any buffers, weights, steps and refusals.

Weights are numbered from 1, and 0 is none: `staging` is the weight in the buffer that the processor can write,
`copying` the one that the device is copying, `lies` what lies where each weight should be. `logits`, `output` and
`sampled` are the steps of which these are. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_STATE = State(
    {"phase": ((), "Phase"), "made": (("Buffer",), "Bool"), "lies": (("Int",), "Int")},
    ("staging", "copying", "step", "logits", "output", "sampled"),
)
_SORTS = """
(declare-datatypes ((Phase 0)) (((None) (Provisioning) (Failing) (Running) (Closed))))
(declare-sort Buffer 0)(declare-const weights Int)(declare-const steps Int)
"""
_ALL = "(forall ((b Buffer)) (made{s} b))"
_NONE = "(forall ((b Buffer)) (not (made{s} b)))"


def invariant(s: str) -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    return (
        # AllOrNone: a session runs with all its buffers; one that failed or is closed has none.
        f"(=> (= phase{s} Running) {_ALL.format(s=s)})",
        f"(=> (or (= phase{s} None) (= phase{s} Closed)) {_NONE.format(s=s)})",
        # StagingIsStill: the staging buffer holds what the device is copying.
        f"(or (= 0 copying{s}) (= copying{s} staging{s}))",
        f"(and (<= 0 copying{s}) (<= 0 staging{s}) (<= staging{s} weights))",
        # WeightsArrive: each weight lies where it should, or nothing does.
        f"(forall ((w Int)) (or (= 0 (lies{s} w)) (= w (lies{s} w))))",
        # A session that runs has all its weights.
        f"(=> (= phase{s} Running) (forall ((w Int)) (=> (and (<= 1 w) (<= w weights)) (= w (lies{s} w)))))",
        # SamplesItsStep: a sample is taken from the logits of its own step.
        f"(and (<= 0 sampled{s}) (<= sampled{s} output{s}) (<= output{s} logits{s}) (<= logits{s} step{s}))",
        f"(<= step{s} (+ 1 sampled{s}))", f"(and (<= 0 steps) (<= step{s} steps))",
        # Before it runs, and once it is closed, no step is under way.
        f"(=> (and (distinct phase{s} Running) (distinct phase{s} Closed)) (= 0 step{s}))",
    )  # fmt: skip


STANDS = "(=> (and (= phase0 Running) (= phase1 Running)) (forall ((b Buffer)) (= (made0 b) (made1 b))))"
"""NothingIsMadeInSteps."""

_BOTH = _SORTS + _STATE.declared("0") + _STATE.declared("1")
_AFTER = all_of((*invariant("1"), STANDS))
_WORLD = World({"Buffer": 2}, 0, 2)
_HAS_ALL, _HAS_NONE = _ALL.format(s="0"), _NONE.format(s="0")
_ALL_LIE = "(forall ((w Int)) (=> (and (<= 1 w) (<= w weights)) (distinct 0 (lies0 w))))"
_IDLE = "(= 0 copying0)"


def _phase(name: str) -> str:
    return f"(= phase0 {name})"


def _step(
    name: str,
    sentence: str,
    guards: tuple[str, ...],
    effects: tuple[tuple[str, tuple[str, ...], str], ...],
    *mutants: Mutant,
    more: str = "",
) -> Statement:
    """An action: what must hold before it, and what it changes: a part, where, and its new value there."""
    changed = tuple(_STATE.becomes(*effect) for effect in effects)
    unchanged = _STATE.others(*(part for part, _, _ in effects))
    return Statement(name, sentence, _BOTH + more, (*invariant("0"), *guards, *changed, *unchanged), _AFTER, mutants,
                     _WORLD)  # fmt: skip


def _to(name: str) -> tuple[str, tuple[str, ...], str]:
    return "phase", (), name


def _becomes(part: str, value: str) -> str:
    return assumed(_STATE.becomes(part, (), value))


_BUFFER, _WEIGHT = "(declare-const x Buffer)", "(declare-const w Int)"

STATEMENTS = (
    Statement(
        "a_session_begins_right",
        "Where no session is open, nothing made and nothing staged, the invariant holds.",
        _SORTS + _STATE.declared("1"),
        ("(<= 0 weights)", "(<= 0 steps)", "(= phase1 None)", "(forall ((b Buffer)) (not (made1 b)))",
         "(forall ((w Int)) (= 0 (lies1 w)))", *(f"(= {name}1 0)" for name in _STATE.numbers)),
        all_of(invariant("1")),
        (Mutant("a buffer is there that nobody made", assumed("(forall ((b Buffer)) (not (made1 b)))"), ""),),
        _WORLD,
    ),
    _step(
        "opening_keeps_the_session",
        "A session is asked for.",
        (_phase("None"),), (_to("Provisioning"),),
        Mutant("of one that runs", assumed(_phase("None")), assumed(_phase("Running"))),
    ),
    _step(
        "making_a_buffer_keeps_the_session",
        "A buffer is made.",
        (_phase("Provisioning"),), (("made", ("x",), "true"),),
        Mutant("for a session that nobody opened", assumed(_phase("Provisioning")), assumed(_phase("None"))),
        more=_BUFFER,
    ),
    _step(
        "a_buffer_that_cannot_be_had_keeps_the_session",
        "Where a buffer cannot be had, the session goes over to giving the others back.",
        (_phase("Provisioning"), f"(not {_HAS_ALL})"), (_to("Failing"),),
        Mutant("it is closed at once, with buffers made", _becomes("phase", "Failing"), _becomes("phase", "Closed")),
    ),
    _step(
        "giving_a_buffer_back_keeps_the_session",
        "A session that fails gives a buffer back.",
        (_phase("Failing"),), (("made", ("x",), "false"),),
        Mutant("frees in a step", assumed(_phase("Failing")), assumed(_phase("Running"))),
        more=_BUFFER,
    ),
    _step(
        "failing_keeps_the_session",
        "When all are given back, the session has failed.",
        (_phase("Failing"), _HAS_NONE), (_to("None"),),
        Mutant("leaks on failure", assumed(_HAS_NONE), ""),
    ),
    _step(
        "staging_a_weight_keeps_the_session",
        "With all buffers made, and while the device copies nothing, the processor stages a weight.",
        (_phase("Provisioning"), _HAS_ALL, _IDLE, "(<= 1 w)", "(<= w weights)", "(= 0 (lies0 w))"),
        (("staging", (), "w"),),
        Mutant("over a copy", assumed(_IDLE), ""),
        Mutant("a weight that there is not", "(assume (<= w weights))", ""),
        more=_WEIGHT,
    ),
    _step(
        "beginning_a_copy_keeps_the_session",
        "The device is told to copy what is staged.",
        ("(distinct 0 staging0)", _IDLE, "(= 0 (lies0 staging0))"),
        (("copying", (), "staging0"),),
        Mutant("another weight is copied", _becomes("copying", "staging0"), _becomes("copying", "(+ 1 staging0)")),
    ),
    _step(
        "ending_a_copy_keeps_the_session",
        "The device ends its copy: what is staged then lies where the weight that it copied should.",
        ("(distinct 0 copying0)",), (("lies", ("copying0",), "staging0"), ("copying", (), "0")),
        Mutant("to another place", "(= z0 copying0)", "(= z0 (+ 1 copying0))"),
    ),
    _step(
        "starting_keeps_the_session",
        "With all buffers and all weights in place the session runs.",
        (_phase("Provisioning"), _HAS_ALL, _ALL_LIE, "(<= 1 steps)"), (_to("Running"), ("step", (), "1")),
        Mutant("starts incomplete", assumed(_HAS_ALL), ""),
        Mutant("starts without its weights", assumed(_ALL_LIE), ""),
    ),
    _step(
        "computing_keeps_the_session",
        "The device computes the logits of this step.",
        (_phase("Running"), "(< logits0 step0)"), (("logits", (), "step0"),),
        Mutant("those of the next", _becomes("logits", "step0"), _becomes("logits", "(+ 1 step0)")),
    ),
    _step(
        "copying_out_keeps_the_session",
        "The device copies them to where the processor can read.",
        (_phase("Running"), "(= logits0 step0)", "(< output0 step0)"), (("output", (), "logits0"),),
        Mutant("copies early", "(assume (= logits0 step0))" + "\n" + "(assume (< output0 step0))\n"
               + _becomes("output", "logits0"), _becomes("output", "step0")),
    ),
    _step(
        "sampling_keeps_the_session",
        "The processor samples.",
        (_phase("Running"), "(= output0 step0)", "(< sampled0 step0)"), (("sampled", (), "output0"),),
        Mutant("samples early", "(assume (= output0 step0))\n(assume (< sampled0 step0))\n"
               + _becomes("sampled", "output0"), _becomes("sampled", "step0")),
    ),
    _step(
        "going_on_to_the_next_step_keeps_the_session",
        "The next step begins when this one's sample is taken.",
        (_phase("Running"), "(= sampled0 step0)", "(< step0 steps)"), (("step", (), "(+ step0 1)"),),
        Mutant("before it is", "(assume (= sampled0 step0))", ""),
        Mutant("one step more", "(assume (< step0 steps))", "(assume (<= step0 steps))"),
    ),
    Statement(
        "closing_keeps_the_session",
        "A session that has sampled all its steps and is closed gives everything back.",
        _BOTH,
        (*invariant("0"), _phase("Running"), "(= sampled0 steps)", _STATE.becomes("phase", (), "Closed"),
         "(forall ((b Buffer)) (not (made1 b)))", *_STATE.others("phase", "made")),
        _AFTER,
        (Mutant("keeps its buffers", assumed("(forall ((b Buffer)) (not (made1 b)))"),
                assumed(_STATE.same("made")[0])),),
        _WORLD,
    ),
    Statement(
        "each_sample_is_of_its_own_step",
        "By the invariant, what the processor samples is of the step that runs, and every weight lies where it should.",
        _SORTS + _STATE.declared("1"),
        (*invariant("1"), "(= phase1 Running)", "(= output1 step1)"),
        "(and (= logits1 step1) (forall ((b Buffer)) (made1 b))"
        " (forall ((w Int)) (=> (and (<= 1 w) (<= w weights)) (= w (lies1 w)))))",
        (Mutant("logits are copied before they are computed", "(<= output1 logits1)", "true"),
         Mutant("a session that does not run", "(assume (= phase1 Running))", "")),
        _WORLD,
    ),
)  # fmt: skip
