"""Storages of several tensors: the union of lifetimes, the largest end and the strictest alignment serve every member.

Members join one by one. A storage starts as its first member; each further one moves its birth back, its death on, its
end out and its alignment up, by as much as it needs and no more: a witness stands beside each of the three that says
which member needs it. Alignments are powers of two, here words of 64 bits. The lemma of `execution` on windows
assumes what is concluded here.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: T2.1, T2.2, T2.10, T2.11, V4.9, V4.11
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World

BIRTH = "(ite (< (born x) birth0) (born x) birth0)"
DEATH = "(ite (< death0 (dies x)) (dies x) death0)"
BYTES = "(ite (< bytes0 (+ (window x) (length x))) (+ (window x) (length x)) bytes0)"
"""A storage's birth, death and bytes once a member x has joined: the planner's rule, evaluated beside it by a test."""

_MEMBERS = """
(declare-sort Tensor 0)
(declare-fun born (Tensor) Int)(declare-fun dies (Tensor) Int)
(declare-fun window (Tensor) Int)(declare-fun length (Tensor) Int)
(declare-fun member0 (Tensor) Bool)(declare-fun member1 (Tensor) Bool)(declare-const x Tensor)
(declare-const birth0 Int)(declare-const death0 Int)(declare-const bytes0 Int)
(declare-const birth1 Int)(declare-const death1 Int)(declare-const bytes1 Int)
(declare-const first0 Tensor)(declare-const last0 Tensor)(declare-const widest0 Tensor)
(declare-const first1 Tensor)(declare-const last1 Tensor)(declare-const widest1 Tensor)
"""


def _serves(s: str) -> str:
    """Every member lies in the storage, in steps and in bytes."""
    return (
        f"(forall ((t Tensor)) (=> (member{s} t) (and (<= birth{s} (born t)) (<= (dies t) death{s})"
        f" (<= (+ (window t) (length t)) bytes{s}))))"
    )


def _needed(s: str) -> str:
    """Each end is that of a member: the storage is no larger than it must be."""
    return (
        f"(and (member{s} first{s}) (= birth{s} (born first{s})) (member{s} last{s}) (= death{s} (dies last{s}))"
        f" (member{s} widest{s}) (= bytes{s} (+ (window widest{s}) (length widest{s}))))"
    )


_STARTS = (
    "(forall ((t Tensor)) (= (member1 t) (= t x)))", "(= birth1 (born x))", "(= death1 (dies x))",
    "(= bytes1 (+ (window x) (length x)))", "(= first1 x)", "(= last1 x)", "(= widest1 x)",
)  # fmt: skip
_JOINS = (
    "(forall ((t Tensor)) (= (member1 t) (or (member0 t) (= t x))))",
    f"(= birth1 {BIRTH})", f"(= death1 {DEATH})", f"(= bytes1 {BYTES})",
    "(= first1 (ite (= birth1 birth0) first0 x))", "(= last1 (ite (= death1 death0) last0 x))",
    "(= widest1 (ite (= bytes1 bytes0) widest0 x))",
)  # fmt: skip
_WORLD = World({"Tensor": 2}, -1, 3)

_ALIGNED = """
(declare-const strictest (_ BitVec 64))(declare-const alignment (_ BitVec 64))
(declare-const offset (_ BitVec 64))(declare-const window (_ BitVec 64))
(define-fun power_of_two ((word (_ BitVec 64))) Bool
  (and (distinct word (_ bv0 64)) (= (bvand word (bvsub word (_ bv1 64))) (_ bv0 64))))
(define-fun aligned ((byte (_ BitVec 64)) (to (_ BitVec 64))) Bool
  (= (bvand byte (bvsub to (_ bv1 64))) (_ bv0 64)))
"""

STATEMENTS = (
    Statement(
        "a_storage_of_one_member_is_that_member",
        "A storage that starts with a member has that member's lifetime and ends where it ends.",
        _MEMBERS, _STARTS, f"(and {_serves('1')} {_needed('1')})",
        (Mutant("the window is forgotten", "(= bytes1 (+ (window x) (length x)))", "(= bytes1 (length x))"),),
        _WORLD,
    ),
    Statement(
        "a_storage_serves_whoever_joins",
        "A storage that serves its members and takes one more by the first birth, the last death and the largest"
        " end serves them all, and is no larger than they need.",
        _MEMBERS, (_serves("0"), _needed("0"), *_JOINS), f"(and {_serves('1')} {_needed('1')})",
        (Mutant("the first member's death is kept", f"(= death1 {DEATH})", "(= death1 death0)"),
         Mutant("the last birth", BIRTH, "(ite (< birth0 (born x)) (born x) birth0)"),
         Mutant("the window is forgotten", BYTES, "(ite (< bytes0 (length x)) (length x) bytes0)"),
         Mutant("the end of the last who joined", f"(= bytes1 {BYTES})", "(= bytes1 (+ (window x) (length x)))"),
         Mutant("room for both", f"(= bytes1 {BYTES})", "(= bytes1 (+ bytes0 (length x)))")),
        _WORLD,
    ),
    Statement(
        "what_is_aligned_to_the_strictest_is_aligned_to_all",
        "At an offset that is aligned to the strictest alignment, a member whose window is aligned to its own is"
        " aligned.",
        _ALIGNED,
        ("(power_of_two strictest)", "(power_of_two alignment)", "(bvule alignment strictest)",
         "(aligned offset strictest)", "(aligned window alignment)"),
        "(aligned (bvadd offset window) alignment)",
        (Mutant("the laxest alignment", "(bvule alignment strictest)", "(bvule strictest alignment)"),
         Mutant("any alignments", "(assume (power_of_two strictest))", ""),
         Mutant("any window", "(assume (aligned window alignment))", "")),
    ),
)  # fmt: skip
