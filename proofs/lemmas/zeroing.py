"""Zeroing: a storage of an arena that reuses holds zeros when it is born, in the first execution and in every other.

An arena is *fresh* from the time at which it was zeroed whole until the first of its storages has died, or until steps
run again. A storage that is born in an arena that is not fresh is zeroed then. In a fresh arena nothing need be done:
all that was ever born there still lives, so that it shares no byte with what is born now, and no other byte was ever
written. A test runs these rules beside the runtime; `tla/tmmu/Zeroing.tla` has them in small.

Tests: `tests/property/test_zeroing_is_of_the_runtime.py`.
spec: U2.8, U2.9, U2.10, V4.9, V4.11
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World

STALE = "(or again (< (death x) now))"
"""A storage x after whose death, or after a step that runs again, its arena is fresh no more at the step `now`."""
ZEROED = "(and (not fresh0) (<= (offset x) byte) (< byte (+ (offset x) (bytes x))))"
"""A byte that is zeroed when the storage x is born."""

_STORAGES = """
(declare-sort Storage 0)(declare-sort Value 0)(declare-const zero Value)
(declare-fun birth (Storage) Int)(declare-fun death (Storage) Int)
(declare-fun offset (Storage) Int)(declare-fun bytes (Storage) Int)
(declare-const now Int)(declare-const later Int)(declare-const x Storage)
(declare-const fresh0 Bool)(declare-const fresh1 Bool)(declare-const again Bool)
(declare-fun born0 (Storage) Bool)(declare-fun born1 (Storage) Bool)
(declare-fun owner (Int) Storage)
(declare-fun before (Int) Value)(declare-fun zeroed (Int) Value)(declare-fun after (Int) Value)
"""


def _within(storage: str) -> str:
    """The byte is one of the storage's."""
    return f"(<= (offset {storage}) byte) (< byte (+ (offset {storage}) (bytes {storage})))"


def _clean(born: str, fresh: str, memory: str) -> str:
    """In a fresh arena each byte is zero, or belongs to a storage that was born: `owner` says to which."""
    owned = f"(and ({born} (owner byte)) {_within('(owner byte)')})"
    return f"(forall ((byte Int)) (=> {fresh} (or {owned} (= zero ({memory} byte)))))"


def _live(born: str, fresh: str, step: str) -> str:
    """In a fresh arena all that was born is live."""
    return f"(forall ((y Storage)) (=> (and {fresh} ({born} y)) (and (<= (birth y) {step}) (<= {step} (death y)))))"


_APART = (
    "(forall ((y Storage) (z Storage)) (=> (and (distinct y z) (<= (birth y) (death z)) (<= (birth z) (death y)))"
    " (or (<= (+ (offset y) (bytes y)) (offset z)) (<= (+ (offset z) (bytes z)) (offset y)))))"
)
_NEW = "(not (born0 x))"
_BORN_NOW = "(= (birth x) now)"
_LIVES = "(<= now (death x))"
_ZEROED_AT_BIRTH = f"(forall ((byte Int)) (= (zeroed byte) (ite {ZEROED} zero (before byte))))"
_BIRTH = "(forall ((y Storage)) (= (born1 y) (or (born0 y) (= y x))))"
_WRITTEN = (
    "(forall ((byte Int)) (=> (distinct (after byte) (before byte))"
    f" (and (born0 (owner byte)) {_within('(owner byte)')})))"
)
_GOES_STALE = f"(forall ((x Storage)) (=> (and (born0 x) {STALE}) (not fresh1)))"
_WORLD = World({"Storage": 2, "Value": 2}, 0, 3)

STATEMENTS = (
    Statement(
        "a_storage_is_born_with_zeros",
        "At its birth every byte of a storage is zero: its arena is fresh, so that nothing has written there, or it was"
        " zeroed just now.",
        _STORAGES,
        (_clean("born0", "fresh0", "before"), _live("born0", "fresh0", "now"), _APART, _NEW, _BORN_NOW, _LIVES,
         _ZEROED_AT_BIRTH),
        f"(forall ((byte Int)) (=> (and {_within('x')}) (= zero (zeroed byte))))",
        (Mutant("only fresh arenas are zeroed", "(and (not fresh0)", "(and fresh0"),
         Mutant("the last byte is left out", "(< byte (+ (offset x) (bytes x)))) zero",
                "(< (+ byte 1) (+ (offset x) (bytes x)))) zero"),
         Mutant("a storage has died, and the arena counts as fresh",
                f"(assume {_live('born0', 'fresh0', 'now')})", ""),
         Mutant("storages that meet share bytes", f"(assume {_APART})", "")),
        _WORLD,
    ),
    Statement(
        "a_birth_leaves_a_fresh_arena_clean",
        "After a birth what is fresh holds zeros wherever nothing was born, and all that was born in it is live.",
        _STORAGES,
        (_clean("born0", "fresh0", "before"), _live("born0", "fresh0", "now"), _BORN_NOW, _LIVES, _ZEROED_AT_BIRTH,
         _BIRTH),
        f"(and {_clean('born1', 'fresh0', 'zeroed')} {_live('born1', 'fresh0', 'now')})",
        (Mutant("what is born is not live", f"(assume {_LIVES})", ""),),
        _WORLD,
    ),
    Statement(
        "writes_leave_a_fresh_arena_clean",
        "Whatever is written into storages that were born, a fresh arena holds zeros elsewhere.",
        _STORAGES, (_clean("born0", "fresh0", "before"), _WRITTEN), _clean("born0", "fresh0", "after"),
        (Mutant("writes go anywhere", f"(assume {_WRITTEN})", ""),),
        _WORLD,
    ),
    Statement(
        "an_arena_in_which_a_storage_has_died_is_not_fresh",
        "Going on to a later step, an arena that still counts as fresh has lost no storage.",
        _STORAGES,
        (_live("born0", "fresh0", "later"), "(<= later now)", "(=> fresh1 fresh0)", _GOES_STALE),
        _live("born0", "fresh1", "now"),
        (Mutant("a death is not looked at", f"(assume {_GOES_STALE})", ""),
         Mutant("an arena becomes fresh again", "(assume (=> fresh1 fresh0))", ""),
         Mutant("a step early", STALE, "(or again (< (+ (death x) 1) now))")),
        _WORLD,
    ),
    Statement(
        "in_a_step_that_runs_again_nothing_is_fresh",
        "A step that runs again, in a loop or in a second execution, finds no arena fresh in which anything was born:"
        " what is born once more is zeroed.",
        _STORAGES, (_GOES_STALE, "again", "(born0 x)"), "(not fresh1)",
        (Mutant("a second execution finds the arena fresh", "(assume again)", ""),),
        _WORLD,
    ),
)  # fmt: skip
