"""Zeroing: a storage of an arena with reuse holds zeros when it is born, in the first and in every later execution.

An arena is *fresh* from the moment when all of it was zeroed until the first of its storages has died, or until steps
run again. A storage that is born in an arena that is not fresh is zeroed at its birth. In a fresh arena no zeroing is
needed: every storage ever born there still lives, so that it shares no byte with the new one, and no other byte was
ever written. `owner` maps each written byte of a fresh arena to its storage. A test runs these rules beside the
runtime; `tla/tmmu/Zeroing.tla` has them for small bounds.

Tests: `tests/property/test_zeroing_is_of_the_runtime.py`.
spec: U2.8, U2.9, U2.10, V4.9, V4.11
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

STALE = "(or again (< (death x) now))"
"""The condition for a storage x to end its arena's freshness at the step `now`: it has died, or a step runs again."""
ZEROED = "(and (not fresh) (<= (offset x) byte) (< byte (+ (offset x) (bytes x))))"
"""A byte that is zeroed when the storage x is born."""
_STALE_NEXT = STALE.replace("now", "now'")
_OWNED = "(and (born (owner byte)) (within byte (owner byte)))"

MACHINE = Machine(
    "zeroing",
    "In a fresh arena each byte is zero or belongs to a storage that was born, and every storage that was born lives.",
    """
    (declare-sort Storage 0)(declare-sort Value 0)(declare-const zero Value)
    (declare-fun birth (Storage) Int)(declare-fun death (Storage) Int)
    (declare-fun offset (Storage) Int)(declare-fun bytes (Storage) Int)(declare-fun owner (Int) Storage)
    (define-fun within ((byte Int) (y Storage)) Bool (and (<= (offset y) byte) (< byte (+ (offset y) (bytes y)))))""",
    "(born (Storage) Bool) (fresh () Bool) (memory (Int) Value) (now () Int)",
    MachineRule(
        "Init",
        "The arena is zeroed whole, and no storage is born.",
        "(forall ((y Storage)) (not (born y))) (forall ((byte Int)) (= zero (memory byte)))",
        (Mutant("a byte is left out", "(= zero (memory byte))", "(or (= 0 byte) (= zero (memory byte)))"),),
    ),
    f"""
    (forall ((byte Int)) (=> fresh (or {_OWNED} (= zero (memory byte)))))
    (forall ((y Storage)) (=> (and fresh (born y)) (and (<= (birth y) now) (<= now (death y)))))""",
    (
        MachineRule(
            "Birth",
            "At its birth every byte of a storage is zero: its arena is fresh, or the byte is zeroed at that moment.",
            f"""(any x Storage) (=> fresh (not (born x))) (= (birth x) now) (<= now (death x))
            (any memory') (forall ((byte Int)) (= (memory' byte) (ite {ZEROED} zero (memory byte)))) (set (born x) true)
            (gives (forall ((byte Int)) (=> (within byte x) (= zero (memory' byte)))))""",
            (Mutant("only fresh arenas are zeroed", "(and (not fresh)", "(and fresh"),
             Mutant("the last byte is left out", "(< byte (+ (offset x) (bytes x)))",
                    "(< (+ byte 1) (+ (offset x) (bytes x)))"),
             Without("what is born is not live", "(<= now (death x))"),
             Without("storages that meet share bytes", "(<= (birth z) (death y))"),
             Without("a storage has died, and the arena counts as fresh", "(and fresh (born y))")),
        ),
        MachineRule(
            "Write",
            "Any values are written into storages that were born.",
            f"""(any memory') (forall ((byte Int)) (=> (distinct (memory' byte) (memory byte)) {_OWNED}))""",
            (Without("writes go anywhere", "(distinct (memory' byte) (memory byte))"),),
        ),
        MachineRule(
            "Advance",
            "A later step begins, or a step that runs again. An arena that still counts as fresh has lost no storage.",
            f"""(any again Bool) (any now') (any fresh') (or again (<= now now')) (=> fresh' fresh)
            (forall ((x Storage)) (=> (and (born x) {_STALE_NEXT}) (not fresh')))
            (gives (=> (and again (exists ((x Storage)) (born x))) (not fresh')))""",
            (Without("a death is not looked at", _STALE_NEXT),
             Without("an arena becomes fresh again", "(=> fresh' fresh)"),
             Mutant("a step early", _STALE_NEXT, "(or again (< (+ (death x) 1) now'))"),
             Mutant("a second execution finds the arena fresh", _STALE_NEXT, "(< (death x) now')")),
        ),
    ),
    World({"Storage": 2, "Value": 2}, 0, 3),
    assumed="""
    (forall ((y Storage) (z Storage)) (=> (and (distinct y z) (<= (birth y) (death z)) (<= (birth z) (death y)))
      (or (<= (+ (offset y) (bytes y)) (offset z)) (<= (+ (offset z) (bytes z)) (offset y)))))""",
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
