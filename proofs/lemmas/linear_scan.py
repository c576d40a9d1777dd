"""The linear scan that gives out slots: what holds after each of its moves, for any storages and any slots.

A scan has done some storages and is at a step. Of what it has done, some are active; some slots are free. Its moves:
go on to the step at which the next storage is born; expire one active storage that died before; allocate a free slot to
the next storage; open a new slot for it, where none is free. The invariant says that active storages hold slots of
their own, that any two done storages that meet hold different slots, and that slots were only opened where one storage
in each of them was live at one step: so that slots opened are the most storages live.

"The lowest free slot" matters to no clause: it decides which plan is made, not whether it is right. Two witnesses stand
beside the state and are part of no program: `tenant`, an active storage in each slot that is not free, and `clique`, a
storage in each opened slot that was live at `crowded`, the step at which the last slot was opened.
For small bounds `tla/tmmu/LinearScan.tla` says the same.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: T6.2, T6.4, V4.9, V4.11
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

EXPIRES = "(< (death x) now)"
"""An active storage x whose slot is given back at the step `now`."""
ALLOCATES = "(= (birth x) now)"
"""When a storage is given its slot. Both conditions are evaluated beside the planner by a test."""

SCAN = State(
    {
        "active": (("Storage",), "Bool"), "done": (("Storage",), "Bool"), "slot": (("Storage",), "Int"),
        "free": (("Int",), "Bool"), "tenant": (("Int",), "Storage"), "clique": (("Int",), "Storage"),
    },
    ("opened", "now", "crowded"),
)  # fmt: skip

_SORTS = """
(declare-sort Storage 0)
(declare-fun birth (Storage) Int)(declare-fun death (Storage) Int)
"""
_LIVES = "(forall ((x Storage)) (<= (birth x) (death x)))"


def invariant(s: str) -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    return (
        # Slots are numbered from 0.
        f"(<= 0 opened{s})",
        # What is active is done, and what is done was born by now.
        f"(forall ((x Storage)) (=> (active{s} x) (done{s} x)))",
        f"(forall ((x Storage)) (=> (done{s} x) (<= (birth x) now{s})))",
        # What is no longer active has died.
        f"(forall ((x Storage)) (=> (and (done{s} x) (not (active{s} x))) (< (death x) now{s})))",
        # Every done storage has one of the opened slots; active ones have different ones.
        f"(forall ((x Storage)) (=> (done{s} x) (and (<= 0 (slot{s} x)) (< (slot{s} x) opened{s}))))",
        f"(forall ((x Storage) (y Storage)) (=> (and (active{s} x) (active{s} y) (distinct x y))"
        f" (distinct (slot{s} x) (slot{s} y))))",
        # Free slots are opened ones in which nothing is active; in every other opened slot something is.
        f"(forall ((k Int)) (=> (free{s} k) (and (<= 0 k) (< k opened{s}))))",
        f"(forall ((x Storage)) (=> (active{s} x) (not (free{s} (slot{s} x)))))",
        f"(forall ((k Int)) (=> (and (<= 0 k) (< k opened{s}) (not (free{s} k)))"
        f" (and (active{s} (tenant{s} k)) (= k (slot{s} (tenant{s} k))))))",
        # Two done storages in one slot never meet.
        f"(forall ((x Storage) (y Storage)) (=> (and (done{s} x) (done{s} y) (distinct x y) (= (slot{s} x)"
        f" (slot{s} y)))"
        " (or (< (death x) (birth y)) (< (death y) (birth x)))))",
        # As many storages as slots were opened were live at one step.
        f"(forall ((k Int)) (=> (and (<= 0 k) (< k opened{s})) (and (done{s} (clique{s} k))"
        f" (<= (birth (clique{s} k)) crowded{s}) (<= crowded{s} (death (clique{s} k))))))",
        f"(forall ((k Int) (l Int)) (=> (and (<= 0 k) (< k l) (< l opened{s}))"
        f" (distinct (clique{s} k) (clique{s} l))))",
    )


def _live_now(s: str) -> str:
    """Nothing active has died: what holds once everything that can expire has."""
    return f"(forall ((x Storage)) (=> (active{s} x) (<= now{s} (death x))))"


_BOTH = _SORTS + SCAN.declared("0") + SCAN.declared("1")
_AFTER = all_of(invariant("1"))
_AFTER_EXPIRY = all_of((*invariant("1"), _live_now("1")))
_NEW = ("(not (done0 x))", ALLOCATES.replace("now", "now0"))
_X = "(declare-const x Storage)"
_WORLD = World({"Storage": 3})

_GIVES_BACK = SCAN.becomes("free", ("(slot0 x)",), "true")
_TAKES = SCAN.becomes("free", ("k",), "false")
_OPENS = "(= opened1 (+ opened0 1))"
_NONE_FREE = "(forall ((k Int)) (not (free0 k)))"


STATEMENTS = (
    Statement(
        "a_scan_begins_right",
        "Before the first storage the invariant holds: nothing is done, no slot is opened.",
        _SORTS + SCAN.declared("1"),
        ("(forall ((z Storage)) (and (not (active1 z)) (not (done1 z))))", "(forall ((k Int)) (not (free1 k)))",
         "(= opened1 0)"),
        _AFTER,
        (Mutant("a slot is opened for nothing", "(= opened1 0)", "(= opened1 1)"),),
        _WORLD,
    ),
    Statement(
        "going_on_keeps_the_invariant",
        "Going on to a later step, at which the next storage is born, keeps the invariant.",
        _BOTH,
        (*invariant("0"), _LIVES, "(<= now0 now1)",
         *SCAN.same("active", "done", "slot", "free", "tenant", "clique", "opened", "crowded")),
        _AFTER,
        (Mutant("storages out of order: back to an earlier step", "(assume (<= now0 now1))", ""),),
        _WORLD,
    ),
    Statement(
        "expiry_keeps_the_invariant",
        "Giving back the slot of an active storage that died before this step keeps the invariant.",
        _BOTH + _X,
        (*invariant("0"), _LIVES, "(active0 x)", EXPIRES.replace("now", "now0"),
         SCAN.becomes("active", ("x",), "false"), _GIVES_BACK,
         *SCAN.same("done", "slot", "tenant", "clique", "opened", "now", "crowded")),
        _AFTER,
        (Mutant("a step early", "(assume (< (death x) now0))", "(assume (<= (death x) now0))"),
         Mutant("the slot is not given back", _GIVES_BACK, SCAN.same("free")[0]),
         Mutant("what is not active is given back", "(assume (active0 x))", "(assume (done0 x))")),
        _WORLD,
    ),
    Statement(
        "when_nothing_more_expires_all_active_are_live",
        "Once no active storage died before this step, every active storage is live at it.",
        _SORTS + SCAN.declared("1") + _X,
        (*invariant("1"), f"(forall ((x Storage)) (=> (active1 x) (not {EXPIRES.replace('now', 'now1')})))"),
        _AFTER_EXPIRY,
        (Mutant("expiry stops too soon", "(not (< (death x) now1))", "(not (< (+ (death x) 1) now1))"),),
        _WORLD,
    ),
    Statement(
        "taking_a_free_slot_keeps_the_invariant",
        "Giving a free slot to a storage that is born at this step keeps the invariant.",
        _BOTH + _X + "(declare-const k Int)",
        (*invariant("0"), _live_now("0"), _LIVES, *_NEW, "(free0 k)",
         SCAN.becomes("active", ("x",), "true"), SCAN.becomes("done", ("x",), "true"),
         SCAN.becomes("slot", ("x",), "k"), _TAKES,
         SCAN.becomes("tenant", ("k",), "x"), *SCAN.same("clique", "opened", "now", "crowded")),
        _AFTER_EXPIRY,
        (Mutant("any slot", assumed("(free0 k)"), assumed("(and (<= 0 k) (< k opened0))")),
         Mutant("the slot stays free", _TAKES, SCAN.same("free")[0]),
         Mutant("the storage is born later", assumed(_NEW[1]), assumed("(<= now0 (birth x))")),
         Mutant("the storage had a slot already", assumed(_NEW[0]), "")),
        _WORLD,
    ),
    Statement(
        "opening_a_slot_keeps_the_invariant",
        "Opening a new slot for a storage that is born at this step, where no slot is free, keeps the invariant: every"
        " opened slot then holds a storage that is live at this step.",
        _BOTH + _X,
        (*invariant("0"), _live_now("0"), _LIVES, *_NEW, _NONE_FREE,
         SCAN.becomes("active", ("x",), "true"), SCAN.becomes("done", ("x",), "true"),
         SCAN.becomes("slot", ("x",), "opened0"),
         SCAN.becomes("tenant", ("opened0",), "x"), _OPENS,
         "(forall ((k Int)) (= (clique1 k) (ite (= k opened0) x (tenant0 k))))",
         "(= crowded1 now0)", *SCAN.same("free", "now")),
        _AFTER_EXPIRY,
        (Mutant("a slot is opened though one is free", assumed(_NONE_FREE), ""),
         Mutant("the new slot is not counted", _OPENS, "(= opened1 opened0)"),
         Mutant("nothing is expired before", assumed(_live_now("0")), "")),
        _WORLD,
    ),
    Statement(
        "storages_that_meet_hold_different_slots",
        "By the invariant, any two storages that are live at one step hold different slots.",
        _SORTS + SCAN.declared("1"), invariant("1"),
        "(forall ((x Storage) (y Storage)) (=> (and (done1 x) (done1 y) (distinct x y) (<= (birth x) (death y))"
        " (<= (birth y) (death x))) (distinct (slot1 x) (slot1 y))))",
        (Mutant("lifetimes without their death", "(or (< (death x) (birth y)) (< (death y) (birth x)))",
                "(or (<= (death x) (birth y)) (<= (death y) (birth x)))"),),
        _WORLD,
    ),
    Statement(
        "as_many_storages_as_slots_are_live_at_one_step",
        "By the invariant, there is a step and for each opened slot a storage of its own that is live at it: with the"
        " clique bound, no assignment has fewer slots.",
        _SORTS + SCAN.declared("1"), invariant("1"),
        "(forall ((k Int) (l Int)) (=> (and (<= 0 k) (< k opened1) (<= 0 l) (< l opened1) (distinct k l))"
        " (and (distinct (clique1 k) (clique1 l)) (<= (birth (clique1 k)) crowded1)"
        " (<= crowded1 (death (clique1 k))))))",
        (Mutant("one storage counts for two slots", "(distinct (clique1 k) (clique1 l)))))\n(prove",
                "true)))\n(prove"),),
        _WORLD,
    ),
)  # fmt: skip
