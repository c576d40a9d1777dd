"""The linear scan that assigns slots: an invariant of its moves, for any storages and any slots.

By the invariant, storages that are live at one step hold different slots. A slot was opened only at a step with one
live storage in each slot, so that the number of slots is the most storages live. (With `clique_bound`, no assignment
has fewer.) No clause requires that the lowest free slot is taken: that decides which plan is made, not whether it is
right. `tla/tmmu/LinearScan.tla` has the same for small bounds.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: T6.2, T6.4, V4.9, V4.11
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

EXPIRES = "(< (death x) now)"
"""An active storage x whose slot is freed at the step `now`."""
ALLOCATES = "(= (birth x) now)"
"""The condition for a storage to get its slot. A test evaluates both conditions beside the planner."""
_NEXT = f"""
(any x Storage) (not (done x)) {ALLOCATES}
(forall ((y Storage)) (=> (active y) (<= now (death y)))) ; all that can expire has
(set (active x) true) (set (done x) true)"""

MACHINE = Machine(
    "linear_scan",
    "Storages that are live at one step hold different slots, and for all slots that are opened there was a step with"
    " one live storage for each.",
    """
    (declare-sort Storage 0)
    (declare-fun birth (Storage) Int)(declare-fun death (Storage) Int)""",
    """
    (active (Storage) Bool) (done (Storage) Bool) (slot (Storage) Int) (free (Int) Bool) (opened () Int) (now () Int)
    ; an active storage in each slot that is not free
    (tenant (Int) Storage)
    ; a storage of each opened slot that was live at the step `crowded`, when the last slot was opened
    (clique (Int) Storage) (crowded () Int)""",
    MachineRule(
        "Init",
        "No storage has a slot, and no slot is opened.",
        "(forall ((z Storage)) (and (not (active z)) (not (done z)))) (forall ((k Int)) (not (free k))) (= opened 0)",
        (Mutant("a slot is opened at the start", "(= opened 0)", "(= opened 1)"),),
    ),
    """
    ; Slots are numbered from 0.
    (<= 0 opened)
    ; Active storages are done, done storages were born by now, and those that are no longer active have died.
    (forall ((s Storage)) (=> (active s) (done s)))
    (forall ((s Storage)) (=> (done s) (<= (birth s) now)))
    (forall ((s Storage)) (=> (and (done s) (not (active s))) (< (death s) now)))
    ; Every done storage has one of the opened slots; active ones have different ones.
    (forall ((s Storage)) (=> (done s) (and (<= 0 (slot s)) (< (slot s) opened))))
    (forall ((s Storage) (t Storage)) (=> (and (active s) (active t) (distinct s t)) (distinct (slot s) (slot t))))
    ; Free slots are opened slots without an active storage; every other opened slot has one.
    (forall ((i Int)) (=> (free i) (and (<= 0 i) (< i opened))))
    (forall ((s Storage)) (=> (active s) (not (free (slot s)))))
    (forall ((i Int)) (=> (and (<= 0 i) (< i opened) (not (free i)))
      (and (active (tenant i)) (= i (slot (tenant i))))))
    ; Two done storages in one slot are never live at one step.
    (forall ((s Storage) (t Storage)) (=> (and (done s) (done t) (distinct s t) (= (slot s) (slot t)))
      (or (< (death s) (birth t)) (< (death t) (birth s)))))
    ; As many storages as slots were opened were live at one step.
    (forall ((i Int)) (=> (and (<= 0 i) (< i opened))
      (and (done (clique i)) (<= (birth (clique i)) crowded) (<= crowded (death (clique i))))))
    (forall ((i Int) (j Int)) (=> (and (<= 0 i) (< i j) (< j opened)) (distinct (clique i) (clique j))))""",
    (
        MachineRule(
            "Advance",
            "The scan continues at a later step, the birth of the next storage.",
            "(any now') (<= now now')",
            (Without("back to an earlier step", "(<= now now')"),),
        ),
        MachineRule(
            "Expire",
            "The slot of an active storage that died before this step is freed.",
            f"(any x Storage) (active x) {EXPIRES} (set (active x) false) (set (free (slot x)) true)",
            (
                Mutant("a step early", EXPIRES, "(<= (death x) now)"),
                Without("the slot is not given back", "(set (free (slot x)) true)"),
                Mutant("of a storage that is not active", "(active x)", "(done x)"),
            ),
        ),
        MachineRule(
            "Reuse",
            "A storage that is born at this step takes a free slot.",
            f"{_NEXT} (any k Int) (free k) (set (slot x) k) (set (free k) false) (set (tenant k) x)",
            (
                Mutant("any slot", "(free k)", "(and (<= 0 k) (< k opened))"),
                Without("the slot stays free", "(set (free k) false)"),
                Mutant("the storage is born later", ALLOCATES, "(<= now (birth x))"),
                Without("the storage had a slot already", "(not (done x))"),
            ),
        ),
        MachineRule(
            "Open",
            "A storage that is born at this step opens a slot, if none is free.",
            f"""{_NEXT} (forall ((k Int)) (not (free k)))
            (set (slot x) opened) (set (tenant opened) x) (set opened (+ opened 1))
            (set (clique ?k) (ite (= ?k opened) x (tenant ?k))) (set crowded now)""",
            (
                Without("a slot is opened though one is free", "(not (free k))"),
                Without("the new slot is not counted", "(set opened (+ opened 1))"),
                Without("no storage expired before", "(<= now (death y))"),
            ),
        ),
    ),
    World({"Storage": 3}),
    assumed="(forall ((s Storage)) (<= (birth s) (death s)))",
    witnesses=("tenant", "clique", "crowded"),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
