"""A plan from its making to its end: `tla/tmmu/PlanLifecycle.tla` for any plans, shapes, crashes and damage.

`hash` is any function, and a file may state any hash. Nothing assumes that plans with one hash are one plan. `fits`
holds of the shapes that a plan was made for. `former` is the plan that stands by while a new one is applied. An
existing file (`aside`, `kept`) has a plan, a stated hash, a number of iterations, and whether it is whole.
spec: P1.4, V1.8, V4.9
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

_PARTS = ("", "_plan", "_hash", "_whole", "_iteration")
_SORTS = ("Bool", "Plan", "Hash", "Bool", "Int")
_FILES = " ".join(f"({f}{p} () {s})" for f in ("aside", "kept") for p, s in zip(_PARTS, _SORTS, strict=True))
_IN_FORCE = "(or (= phase Applied) (= phase Safepoint) (= phase Running))"
_DOWN, _PLANNED, _APPLIED, _SAFEPOINT, _RUNNING = (
    f"(= phase {name})" for name in ("Down", "Planned", "Applied", "Safepoint", "Running")
)
_RECOMPUTES = "(= (hash loaded) stated)"
_MISFIT = "(and (= phase Safepoint) asks (not (fits loaded asked)))"
_NONE_STANDS_BY = "(set stands_by false) (any former') (any former_hash')"
_ASKS_NO_MORE = "(set asks false) (any asked')"
_NOTHING_ASIDE = "(set aside false) (any aside_plan') (any aside_hash') (any aside_whole') (any aside_iteration')"
_NEW = "(or (< committed iteration) (not kept) (distinct kept_hash stated))"
_OF_P = "(any p Plan) (set loaded p) (set stated (hash p)) (set phase Planned) (set traced (hash p))"

MACHINE = Machine(
    "plan_lifecycle",
    "No plan is in force whose hash differs or that does not fit its shape, and everything that is acknowledged as"
    " safe is in a whole checkpoint.",
    """
    (declare-datatypes ((Phase 0)) (((Down) (Planned) (Applied) (Safepoint) (Running) (Refused))))
    (declare-sort Plan 0)(declare-sort Shape 0)(declare-sort Hash 0)
    (declare-fun hash (Plan) Hash)(declare-fun fits (Plan Shape) Bool)""",
    f"""
    (phase () Phase) (loaded () Plan) (stated () Hash) (traced () Hash) (stands_by () Bool) (former () Plan)
    (former_hash () Hash) (asks () Bool) (asked () Shape) (damaged () Bool) (iteration () Int) (committed () Int)
    {_FILES}""",
    MachineRule(
        "Init",
        "Nothing is planned, and there is no checkpoint.",
        """
        (= phase Down) (= false stands_by asks aside kept damaged) (= 0 iteration committed)""",
        (Mutant("more is promised than there is", "(= 0 iteration committed)", "(= 0 iteration (- committed 1))"),),
    ),
    f"""
    ; HashIsChecked: no plan is in force whose hash does not recompute.
    (=> {_IN_FORCE} {_RECOMPUTES})
    ; FitsItsShape: an iteration runs only under a plan that fits its shape.
    (=> (= phase Running) (and asks (fits loaded asked)))
    ; TraceIsCurrent: the trace names the plan that is in force, or is to be.
    (=> (or {_IN_FORCE} (= phase Planned)) (= traced stated))
    ; FormerIsGood: the plan that stands by while a new one is applied could be in force.
    (=> stands_by (and (or (= phase Planned) (= phase Applied)) (= (hash former) former_hash)))
    (=> (and stands_by (= phase Planned)) {_RECOMPUTES})
    ; CheckpointIsWhole.
    (=> kept kept_whole)
    ; An undamaged file states the hash of the plan in it; a damaged file exists.
    (=> (and kept (not damaged)) (= (hash kept_plan) kept_hash))
    (=> damaged kept)
    ; CommittedIsDurable: what was acknowledged is in the checkpoint.
    (<= 0 committed) (<= 0 iteration) (=> kept (<= committed kept_iteration)) (=> (not kept) (= 0 committed))
    ; No iteration is acknowledged that has not run.
    (=> (distinct phase Down) (<= committed iteration))
    ; A checkpoint being written is of the plan in force, and new: a later iteration than the last, or another plan.
    (=> aside (and (or (= phase Safepoint) (= phase Refused)) (= aside_plan loaded) (= aside_hash stated)
      (<= committed aside_iteration) (<= aside_iteration iteration)
      (or (< committed aside_iteration) (not kept) (distinct kept_hash aside_hash))))
    ; Nothing is asked for, or written, before memory is applied.
    (=> (= phase Down) (and (not asks) (not aside)))""",
    (
        MachineRule(
            "Plan",
            "If there is no checkpoint, a plan is made and traced with its hash.",
            f"{_DOWN} (= kept false) {_OF_P}",
            (Without("over a run that is not down", _DOWN), Without("untraced", "(set traced (hash p))")),
        ),
        MachineRule(
            "Restore",
            "If there is a checkpoint, its plan, the hash that it states and its iteration are adopted.",
            f"""{_DOWN} (= kept true) (<= 0 kept_iteration) (set loaded kept_plan) (set stated kept_hash)
            (set iteration kept_iteration) (set phase Planned) (set traced kept_hash)""",
            (Mutant("as if it were applied", "(set phase Planned)", "(set phase Applied)"),),
        ),
        MachineRule(
            "Apply",
            "A plan is applied whose hash recomputes.",
            f"{_PLANNED} {_RECOMPUTES} (set phase Applied)",
            (Without("a file's hash is taken over", _RECOMPUTES),),
        ),
        MachineRule(
            "RefuseDamaged",
            "A plan whose hash does not recompute is refused.",
            f"{_PLANNED} (distinct (hash loaded) stated) (set phase Refused)",
            (Mutant("it runs all the same", "(set phase Refused)", "(set phase Running)"),),
        ),
        MachineRule(
            "Zero",
            "Mapped memory is zeroed before anything runs.",
            f"{_APPLIED} (set phase Safepoint) {_NONE_STANDS_BY}",
            (Mutant("runs on dirty memory", _APPLIED, f"(or {_PLANNED} {_APPLIED})"),
             Without("drops the plan that stands by", "(set stands_by false)")),
        ),
        MachineRule(
            "Ask",
            "At a safepoint the caller asks for an iteration, with its shape.",
            f"(any a Shape) {_SAFEPOINT} (not asks) (set asks true) (set asked a)",
            (Mutant("of a run that is down", _SAFEPOINT, _DOWN),),
        ),
        MachineRule(
            "Begin",
            "An iteration whose shape the plan fits runs, while no checkpoint is being written.",
            f"{_SAFEPOINT} (= asks true) (fits loaded asked) (not aside) (set phase Running)",
            (Without("runs any shape", "(fits loaded asked)"), Without("while a checkpoint is written", "(not aside)")),
        ),
        MachineRule(
            "Replan",
            "A shape that the plan does not fit leads to a new plan, before its iteration runs. The trace names the"
            " new plan.",
            f"""{_MISFIT} (not aside) {_OF_P} (fits p asked) (set stands_by true) (set former loaded)
            (set former_hash stated)""",
            (Without("silent replan", "(set traced (hash p))"), Mutant("replans while it runs", _MISFIT, _RUNNING),
             Without("saves across a replan", "(not aside)")),
        ),
        MachineRule(
            "StandBy",
            "If the new plan's memory is unavailable, the old plan is in force again, the trace states it, and the"
            " request is refused.",
            f"""(or {_PLANNED} {_APPLIED}) (= stands_by true) (set loaded former) (set stated former_hash)
            (set phase Safepoint) (set traced former_hash) {_ASKS_NO_MORE} {_NONE_STANDS_BY}""",
            (Without("stands by without a record", "(set traced former_hash)"),
             Without("to a plan that never ran", "(= stands_by true)")),
        ),
        MachineRule(
            "RefuseShape",
            "Alternatively the run is refused, and nothing changes.",
            f"{_MISFIT} (set phase Refused)",
            (Mutant("it runs all the same", "(set phase Refused)", "(set phase Running)"),),
        ),
        MachineRule(
            "Finish",
            "An iteration ends at the next safepoint.",
            f"{_RUNNING} (set phase Safepoint) (set iteration (+ iteration 1)) {_ASKS_NO_MORE}",
            (Mutant("counts backwards", "(+ iteration 1)", "(- iteration 1)"),),
        ),
        MachineRule(
            "WriteAside",
            "At a safepoint a checkpoint of the new state is written, under another name.",
            f"""{_SAFEPOINT} (not aside) {_NEW} (set aside true) (set aside_plan loaded)
            (set aside_hash (hash loaded)) (set aside_whole false) (set aside_iteration iteration)""",
            (Without("of nothing new", _NEW), Mutant("in an iteration", _SAFEPOINT, _RUNNING),
             Mutant("promises early", "(set aside_whole false)", "(set aside_whole false) (set committed iteration)")),
        ),
        MachineRule(
            "Sync",
            "The written file is synced.",
            f"{_SAFEPOINT} (= aside true) (not aside_whole) (set aside_whole true)",
            (Mutant("synced into the checkpoint's name", "(set aside_whole true)", "(set kept_hash aside_hash)"),),
        ),
        MachineRule(
            "Rename",
            "The whole file takes the checkpoint's name, and only then is it acknowledged.",
            f"""{_SAFEPOINT} (= aside true) (= aside_whole true)
            {" ".join(f"(set kept{part} aside{part})" for part in _PARTS)} (set damaged false) {_NOTHING_ASIDE}
            (set committed aside_iteration)""",
            (Without("renames unsynced", "(= aside_whole true)"), Without("nothing was written", "(= aside true)"),
             Mutant("acknowledges more than there is", "(set committed aside_iteration)",
                    "(set committed (+ 1 iteration))")),
        ),
        MachineRule(
            "Crash",
            "A crash at any moment leaves only the checkpoint.",
            f"""(distinct phase Down) (distinct phase Refused) (set phase Down) (any loaded') (any stated') (any
              traced')
            (set iteration 0) {_ASKS_NO_MORE} {_NOTHING_ASIDE} {_NONE_STANDS_BY}""",
            (Mutant("it takes the checkpoint too", "(set iteration 0)", "(set iteration 0) (set kept false)"),),
        ),
        MachineRule(
            "Damage",
            "A checkpoint's plan is changed under the hash that it states: it will be refused.",
            f"(any p Plan) {_DOWN} (= kept true) (distinct p kept_plan) (set kept_plan p) (set damaged true)",
            (Without("it is not known to be damaged", "(set damaged true)"),),
        ),
    ),
    World({"Plan": 2, "Shape": 2, "Hash": 2}, -1, 3),
    step="""
    ; ChangesAtSafepoint: a plan takes another's place, or gives it back, only between iterations.
    (=> (or (distinct loaded loaded') (distinct stated stated')) (or (= phase Down) (= phase Safepoint) (= phase' Down)
      (and stands_by (= loaded' former) (= stated' former_hash))))
    ; ZeroedBeforeUse: only what was applied, and then zeroed, runs; so was the plan that stood by.
    (=> (or (= phase' Safepoint) (= phase' Running))
      (or (= phase Applied) (= phase Safepoint) (= phase Running) (and stands_by (= loaded' former))))
    ; CheckpointsTheCurrentPlan.
    (=> (and kept' (not damaged') (or (distinct kept_hash kept_hash') (distinct kept_plan kept_plan')
      (distinct kept_iteration kept_iteration') (not kept))) (= kept_hash' stated))
    ; Acknowledged iterations stay acknowledged.
    (<= committed committed')""",
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
