"""A plan from its making to its end: what `tla/tmmu/PlanLifecycle.tla` says, for any plans, shapes, crashes and damage.

`hash` is any function, and a file may state any: that plans with one hash are one plan is asked for nowhere. `fits`
says for which shapes a plan was made. Of a file that is there (`aside`, `kept`) the plan, the hash that it states, the
number of iterations and whether it is whole are known. spec: P1.4, V1.8, V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_FILE = {"": "Bool", "_plan": "Plan", "_hash": "Hash", "_whole": "Bool"}
_STATE = State(
    {
        "phase": ((), "Phase"), "loaded": ((), "Plan"), "stated": ((), "Hash"), "traced": ((), "Hash"),
        "stands_by": ((), "Bool"), "former": ((), "Plan"), "former_hash": ((), "Hash"),
        "asks": ((), "Bool"), "asked": ((), "Shape"), "damaged": ((), "Bool"),
        **{f"{name}{part}": ((), sort) for name in ("aside", "kept") for part, sort in _FILE.items()},
    },
    ("iteration", "aside_iteration", "kept_iteration", "committed"),
)  # fmt: skip
_SORTS = """
(declare-datatypes ((Phase 0)) (((Down) (Planned) (Applied) (Safepoint) (Running) (Refused))))
(declare-sort Plan 0)(declare-sort Shape 0)(declare-sort Hash 0)
(declare-fun hash (Plan) Hash)(declare-fun fits (Plan Shape) Bool)
"""
_IN_FORCE = "(or (= phase{s} Applied) (= phase{s} Safepoint) (= phase{s} Running))"


def invariant(s: str) -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    in_force = _IN_FORCE.format(s=s)
    return (
        # HashIsChecked: no plan is in force whose hash does not recompute.
        f"(=> {in_force} (= (hash loaded{s}) stated{s}))",
        # FitsItsShape: an iteration runs only under a plan that fits its shape.
        f"(=> (= phase{s} Running) (and asks{s} (fits loaded{s} asked{s})))",
        # TraceIsCurrent: the trace names the plan that is in force, or is to be.
        f"(=> (or {in_force} (= phase{s} Planned)) (= traced{s} stated{s}))",
        # FormerIsGood: the plan that stands by while a new one is applied could be in force.
        f"(=> stands_by{s} (and (or (= phase{s} Planned) (= phase{s} Applied)) (= (hash former{s}) former_hash{s})))",
        f"(=> (and stands_by{s} (= phase{s} Planned)) (= (hash loaded{s}) stated{s}))",
        # CheckpointIsWhole.
        f"(=> kept{s} kept_whole{s})",
        # What is not damaged states the hash of its own plan; what is damaged is there.
        f"(=> (and kept{s} (not damaged{s})) (= (hash kept_plan{s}) kept_hash{s}))",
        f"(=> damaged{s} kept{s})",
        # CommittedIsDurable: what the caller was told is safe is in the checkpoint.
        f"(<= 0 committed{s})", f"(<= 0 iteration{s})", f"(=> kept{s} (<= committed{s} kept_iteration{s}))",
        f"(=> (not kept{s}) (= 0 committed{s}))",
        # What is being written is of the plan in force, and new.
        f"(=> aside{s} (and (or (= phase{s} Safepoint) (= phase{s} Refused))"
        f" (= aside_plan{s} loaded{s}) (= aside_hash{s} stated{s})"
        f" (< committed{s} aside_iteration{s}) (<= aside_iteration{s} iteration{s})))",
        # Nobody has asked for what runs before memory is applied, but who still waits for a new plan.
        f"(=> (= phase{s} Down) (and (not asks{s}) (not aside{s})))",
    )  # fmt: skip


CHANGES = (
    "(=> (or (distinct loaded0 loaded1) (distinct stated0 stated1))"
    " (or (= phase0 Down) (= phase0 Safepoint) (= phase1 Down)"
    " (and stands_by0 (= loaded1 former0) (= stated1 former_hash0))))"
)
"""ChangesAtSafepoint: a plan takes another's place between iterations alone, or gives it back."""
ZEROED = (
    "(=> (or (= phase1 Safepoint) (= phase1 Running))"
    " (or (= phase0 Applied) (= phase0 Safepoint) (= phase0 Running) (and stands_by0 (= loaded1 former0))))"
)
"""ZeroedBeforeUse: only what was applied, and then zeroed, runs; so was the plan that stood by."""
CURRENT = (
    "(=> (and kept1 (not damaged1) (or (distinct kept_hash0 kept_hash1) (distinct kept_plan0 kept_plan1)"
    " (distinct kept_iteration0 kept_iteration1) (not kept0))) (= kept_hash1 stated0))"
)
"""CheckpointsTheCurrentPlan."""
SAFE = "(<= committed0 committed1)"
"""What the caller was told is safe stays so."""

_BOTH = _SORTS + _STATE.declared("0") + _STATE.declared("1")
_WORLD = World({"Plan": 2, "Shape": 2, "Hash": 2}, -1, 3)
_AFTER = all_of((*invariant("1"), CHANGES, ZEROED, CURRENT, SAFE))


def _phase(name: str) -> str:
    return f"(= phase0 {name})"


def _to(name: str) -> str:
    return assumed(_STATE.becomes("phase", (), name))


def _step(
    name: str, sentence: str, guards: tuple[str, ...], effects: dict[str, str], *mutants: Mutant, more: str = ""
) -> Statement:
    """An action: what must hold before it, and the new value of each part that it changes."""
    changed = tuple(_STATE.becomes(part, (), value) for part, value in effects.items())
    hypotheses = (*invariant("0"), *guards, *changed, *_STATE.others(*effects))
    return Statement(name, sentence, _BOTH + more, hypotheses, _AFTER, mutants, _WORLD)


_PLAN, _SHAPE, _HASH = "(declare-const p Plan)", "(declare-const a Shape)", "(declare-const q Hash)"
_NONE_STANDS_BY = {"stands_by": "false", "former": "p", "former_hash": "q"}
_RECOMPUTES = "(= (hash loaded0) stated0)"
_ASKED, _FITS = "asks0", "(fits loaded0 asked0)"
_OUTSIDE = all_of((_phase("Safepoint"), _ASKED, f"(not {_FITS})"))
_NOTHING_ASIDE = "(not aside0)"
_WHOLE = "aside_whole0"
_GONE = {"aside": "false", "aside_plan": "p", "aside_hash": "q", "aside_whole": "b", "aside_iteration": "n"}
_ANY = _PLAN + _HASH + "(declare-const b Bool)(declare-const n Int)"
"""Of a file that is not there anything may be said."""
_RENAMED = {f"kept{part}": f"aside{part}0" for part in (*_FILE, "_iteration")}

STATEMENTS = (
    Statement(
        "a_run_begins_right",
        "Before anything is planned, with no checkpoint, the invariant holds.",
        _SORTS + _STATE.declared("1"),
        ("(= phase1 Down)", "(not stands_by1)", "(not asks1)", "(not aside1)", "(not kept1)", "(not damaged1)",
         "(= iteration1 0)", "(= committed1 0)"),
        all_of(invariant("1")),
        (Mutant("more is promised than there is", "(= committed1 0)", "(= committed1 1)"),),
        _WORLD,
    ),
    _step(
        "planning_keeps_the_run",
        "Where there is no checkpoint, a plan is made and traced with its hash.",
        (_phase("Down"), "(not kept0)"),
        {"loaded": "p", "stated": "(hash p)", "phase": "Planned", "traced": "(hash p)"},
        Mutant("over a run that is not down", assumed(_phase("Down")), ""),
        Mutant("untraced", _STATE.becomes("traced", (), "(hash p)"), _STATE.same("traced")[0]),
        more=_PLAN,
    ),
    _step(
        "restoring_keeps_the_run",
        "Where there is a checkpoint, its plan, the hash that it states and its iteration are taken over.",
        (_phase("Down"), "kept0", "(<= 0 kept_iteration0)"),
        {"loaded": "kept_plan0", "stated": "kept_hash0", "iteration": "kept_iteration0", "phase": "Planned",
         "traced": "kept_hash0"},
        Mutant("as if it were applied", _to("Planned"), _to("Applied")),
    ),
    _step(
        "applying_a_plan_whose_hash_recomputes_keeps_the_run",
        "A plan is applied whose hash recomputes.",
        (_phase("Planned"), _RECOMPUTES),
        {"phase": "Applied"},
        Mutant("believes files", assumed(_RECOMPUTES), ""),
    ),
    _step(
        "refusing_a_plan_whose_hash_differs_keeps_the_run",
        "A plan whose hash does not recompute is refused.",
        (_phase("Planned"), "(distinct (hash loaded0) stated0)"),
        {"phase": "Refused"},
        Mutant("it runs all the same", _to("Refused"), _to("Running")),
    ),
    _step(
        "zeroing_keeps_the_run",
        "What was mapped is zeroed before anything runs.",
        (_phase("Applied"),),
        {"phase": "Safepoint", **_NONE_STANDS_BY},
        Mutant("runs on dirty memory", assumed(_phase("Applied")),
               assumed("(or (= phase0 Planned) (= phase0 Applied))")),
        Mutant("forgets what stands by", _STATE.becomes("stands_by", (), "false"), _STATE.same("stands_by")[0]),
        more=_PLAN + _HASH,
    ),
    _step(
        "asking_for_an_iteration_keeps_the_run",
        "At a safepoint the caller asks for an iteration, with its shape.",
        (_phase("Safepoint"), "(not asks0)"),
        {"asks": "true", "asked": "a"},
        Mutant("of a run that is down", assumed(_phase("Safepoint")), assumed(_phase("Down"))),
        more=_SHAPE,
    ),
    _step(
        "beginning_an_iteration_keeps_the_run",
        "An iteration whose shape the plan fits runs, while no checkpoint is being written.",
        (_phase("Safepoint"), _ASKED, _FITS, _NOTHING_ASIDE),
        {"phase": "Running"},
        Mutant("runs any shape", assumed(_FITS), ""),
        Mutant("while a checkpoint is written", assumed(_NOTHING_ASIDE), ""),
    ),
    _step(
        "replanning_at_a_safepoint_keeps_the_run",
        "A shape that the plan does not fit is answered by a new plan, before its iteration runs, which the trace"
        " names.",
        (_OUTSIDE, _NOTHING_ASIDE, "(fits p asked0)"),
        {"loaded": "p", "stated": "(hash p)", "phase": "Planned", "traced": "(hash p)", "stands_by": "true",
         "former": "loaded0", "former_hash": "stated0"},
        Mutant("silent replan", _STATE.becomes("traced", (), "(hash p)"), _STATE.same("traced")[0]),
        Mutant("replans while it runs", assumed(_OUTSIDE), assumed(_phase("Running"))),
        Mutant("saves across a replan", assumed(_NOTHING_ASIDE), ""),
        more=_PLAN,
    ),
    _step(
        "going_back_to_the_former_plan_keeps_the_run",
        "Where the new plan's memory cannot be had, the old plan is in force again, the trace says so, and who asked is"
        " told.",
        ("(or (= phase0 Planned) (= phase0 Applied))", "stands_by0"),
        {"loaded": "former0", "stated": "former_hash0", "phase": "Safepoint", "traced": "former_hash0", "asks": "false",
         "asked": "a", **_NONE_STANDS_BY},
        Mutant("stands by in silence", _STATE.becomes("traced", (), "former_hash0"), _STATE.same("traced")[0]),
        Mutant("to a plan that nobody ran", assumed("stands_by0"), ""),
        more=_PLAN + _SHAPE + _HASH,
    ),
    _step(
        "refusing_a_shape_keeps_the_run",
        "Or the run is refused, and nothing has changed.",
        (_OUTSIDE,),
        {"phase": "Refused"},
        Mutant("it runs all the same", _to("Refused"), _to("Running")),
    ),
    _step(
        "ending_an_iteration_keeps_the_run",
        "An iteration ends at the next safepoint.",
        (_phase("Running"),),
        {"phase": "Safepoint", "iteration": "(+ iteration0 1)", "asks": "false", "asked": "a"},
        Mutant("counts backwards", "(+ iteration0 1)", "(- iteration0 1)"),
        more=_SHAPE,
    ),
    _step(
        "writing_a_checkpoint_aside_keeps_the_run",
        "At a safepoint a checkpoint of what is new is written, under another name.",
        (_phase("Safepoint"), _NOTHING_ASIDE, "(< committed0 iteration0)"),
        {"aside": "true", "aside_plan": "loaded0", "aside_hash": "(hash loaded0)", "aside_whole": "false",
         "aside_iteration": "iteration0"},
        Mutant("of nothing new", assumed("(< committed0 iteration0)"), ""),
        Mutant("in an iteration", assumed(_phase("Safepoint")), assumed(_phase("Running"))),
        Mutant("promises early", _STATE.same("committed")[0], _STATE.becomes("committed", (), "iteration0")),
    ),
    _step(
        "syncing_a_checkpoint_keeps_the_run",
        "What was written is synced.",
        (_phase("Safepoint"), "aside0", f"(not {_WHOLE})"),
        {"aside_whole": "true"},
        Mutant("synced into the checkpoint's name", _STATE.same("kept_hash")[0],
               _STATE.becomes("kept_hash", (), "aside_hash0")),
    ),
    _step(
        "renaming_a_checkpoint_keeps_the_run",
        "What is whole takes the checkpoint's name, and then alone the caller is told.",
        (_phase("Safepoint"), "aside0", _WHOLE),
        {**_RENAMED, "damaged": "false", **_GONE, "committed": "aside_iteration0"},
        Mutant("renames unsynced", assumed(_WHOLE), ""),
        Mutant("tells of more than there is", _STATE.becomes("committed", (), "aside_iteration0"),
               _STATE.becomes("committed", (), "(+ 1 iteration0)")),
        Mutant("nothing was written", assumed("aside0"), ""),
        more=_ANY,
    ),
    _step(
        "a_crash_keeps_the_run",
        "A crash at any moment leaves the checkpoint, and nothing else.",
        ("(distinct phase0 Down)", "(distinct phase0 Refused)"),
        {"phase": "Down", "loaded": "p", "stated": "q", "asks": "false", "asked": "a", "iteration": "0", "traced": "q",
         **_GONE, **_NONE_STANDS_BY},
        Mutant("it takes the checkpoint too", _STATE.same("kept")[0], _STATE.becomes("kept", (), "false")),
        more=_ANY + _SHAPE,
    ),
    _step(
        "damage_keeps_the_run",
        "A checkpoint whose plan is changed under the hash that it states keeps the invariant: it will be refused.",
        (_phase("Down"), "kept0", "(distinct p kept_plan0)"),
        {"kept_plan": "p", "damaged": "true"},
        Mutant("it is not known to be damaged", _STATE.becomes("damaged", (), "true"), _STATE.same("damaged")[0]),
        more=_PLAN,
    ),
)  # fmt: skip
