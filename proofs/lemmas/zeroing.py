"""Zeroing: a storage of an arena that reuses holds zeros when it is born, in the first execution and in every other.

An arena is *fresh* from the time at which it was zeroed whole until something is written into it. A storage that is
born in an arena that is not fresh is zeroed then. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World

_ARENA = """
(declare-sort Value 0)(declare-const zero Value)
(declare-fun before (Int) Value)(declare-fun zeroed (Int) Value)(declare-fun after (Int) Value)
(declare-const fresh0 Bool)(declare-const fresh1 Bool)
(declare-const offset Int)(declare-const bytes Int)
"""
_FRESH_IS_ZERO = "(=> fresh0 (forall ((byte Int)) (= zero (before byte))))"
_ZEROED_AT_BIRTH = (
    "(forall ((byte Int)) (= (zeroed byte)"
    " (ite (and (not fresh0) (<= offset byte) (< byte (+ offset bytes))) zero (before byte))))"
)
_WORLD = World({"Value": 2}, 0, 3)

STATEMENTS = (
    Statement(
        "a_storage_is_born_with_zeros",
        "At its birth every byte of a storage is zero: the arena is fresh, or the storage was zeroed just now.",
        _ARENA, (_FRESH_IS_ZERO, _ZEROED_AT_BIRTH),
        "(forall ((byte Int)) (=> (and (<= offset byte) (< byte (+ offset bytes))) (= zero (zeroed byte))))",
        (Mutant("only fresh arenas are zeroed", "(and (not fresh0)", "(and fresh0"),
         Mutant("the last byte is left out", "(< byte (+ offset bytes))) zero",
                "(< (+ byte 1) (+ offset bytes))) zero")),
        _WORLD,
    ),
    Statement(
        "an_arena_that_was_written_is_not_fresh",
        "After a write an arena counts as fresh no more, so that what is called fresh holds zeros.",
        _ARENA,
        (_FRESH_IS_ZERO, "(=> (exists ((byte Int)) (distinct (after byte) (before byte))) (not fresh1))",
         "(=> fresh1 fresh0)"),
        "(=> fresh1 (forall ((byte Int)) (= zero (after byte))))",
        (Mutant("a second execution finds the arena fresh", "(assume (=> fresh1 fresh0))", ""),
         Mutant("a write is forgotten", "(not fresh1))", "true)")),
        _WORLD,
    ),
)  # fmt: skip
