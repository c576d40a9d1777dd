"""Storages of several tensors: the union of lifetimes, the largest end and the strictest alignment serve every member.

Members join one by one. A storage starts as its first member. Each further one moves the birth, death, end and
alignment by exactly the amount that it needs: the witnesses are members that need each of the three ends. Alignments
are powers of two, here words of 64 bits. The lemma of `execution` about windows assumes the conclusion of this file.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: T2.1, T2.2, T2.10, T2.11, V4.9, V4.11
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule
from proofs.proving.lemmas.engine.statements import Mutant, Statement, World

BIRTH = "(ite (< (born x) birth) (born x) birth)"
DEATH = "(ite (< death (dies x)) (dies x) death)"
BYTES = "(ite (< bytes (+ (window x) (length x))) (+ (window x) (length x)) bytes)"
"""A storage's birth, death and bytes after a member x has joined: the planner's rule, which a test evaluates too."""

UNION = Machine(
    "unions",
    "A storage serves all its members, in steps and in bytes, and is no larger than they need.",
    """
    (declare-sort Tensor 0)(declare-fun born (Tensor) Int)(declare-fun dies (Tensor) Int)
    (declare-fun window (Tensor) Int)(declare-fun length (Tensor) Int)""",
    """
    (member (Tensor) Bool) (birth () Int) (death () Int) (bytes () Int)
    (first () Tensor) (last () Tensor) (widest () Tensor)""",
    MachineRule(
        "Init",
        "A storage starts as its first member.",
        """(any x Tensor) (forall ((t Tensor)) (= (member t) (= t x))) (= birth (born x)) (= death (dies x))
        (= bytes (+ (window x) (length x))) (= x first last widest)""",
        (Mutant("the window is forgotten", "(= bytes (+ (window x) (length x)))", "(= bytes (length x))"),),
    ),
    """
    ; Every member is in the storage, in steps and in bytes.
    (forall ((t Tensor)) (=> (member t)
      (and (<= birth (born t)) (<= (dies t) death) (<= (+ (window t) (length t)) bytes))))
    ; Each end is that of a member.
    (and (member first) (= birth (born first)) (member last) (= death (dies last))
      (member widest) (= bytes (+ (window widest) (length widest))))""",
    (
        MachineRule(
            "Join",
            "A member joins by the first birth, the last death and the largest end.",
            f"""(any x Tensor) (set (member x) true) (set birth {BIRTH}) (set death {DEATH}) (set bytes {BYTES})
            (set first (ite (= birth' birth) first x)) (set last (ite (= death' death) last x))
            (set widest (ite (= bytes' bytes) widest x))""",
            (Mutant("the first member's death is kept", f"(set death {DEATH})", "(set death death)"),
             Mutant("the last birth", BIRTH, "(ite (< birth (born x)) (born x) birth)"),
             Mutant("the window is forgotten", BYTES, "(ite (< bytes (length x)) (length x) bytes)"),
             Mutant("the end of the last that joined", f"(set bytes {BYTES})", "(set bytes (+ (window x) (length x)))"),
             Mutant("room for both", f"(set bytes {BYTES})", "(set bytes (+ bytes (length x)))")),
        ),
    ),
    World({"Tensor": 2}, -1, 3),
    witnesses=("first", "last", "widest"),
)  # fmt: skip

_ALIGNED = """
(declare-const strictest (_ BitVec 64))(declare-const alignment (_ BitVec 64))
(declare-const offset (_ BitVec 64))(declare-const window (_ BitVec 64))
(define-fun power_of_two ((word (_ BitVec 64))) Bool
  (and (distinct word (_ bv0 64)) (= (bvand word (bvsub word (_ bv1 64))) (_ bv0 64))))
(define-fun aligned ((byte (_ BitVec 64)) (to (_ BitVec 64))) Bool
  (= (bvand byte (bvsub to (_ bv1 64))) (_ bv0 64)))
"""

ALIGNMENT = (
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
LEMMAS = (*UNION.lemmas(), *ALIGNMENT)
