"""Reference counts of aliases: what `tla/tmmu/AliasReferences.tla` says, for any tensors, storages and lifetimes.

The static lifetime of a storage, from the first birth to the last death of its members, covers every moment at which a
count is not zero. That a count is the number of living members is kept by what `totals` proves of counts; of it
these statements use that it is never negative, zero exactly where no member lives, and two at least where two live.
spec: T2.1, T3.4, T3.6, V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_STATE = State(
    {"alive": (("Tensor",), "Bool"), "count": (("Storage",), "Int"), "changed": (("Tensor",), "Bool")}, ("now",)
)
_SORTS = """
(declare-sort Tensor 0)(declare-sort Storage 0)(declare-const nobody Storage)
(declare-fun birth (Tensor) Int)(declare-fun death (Tensor) Int)
(declare-fun home (Tensor) Storage)(declare-fun saved (Tensor) Bool)
"""
_HOMES = "(forall ((t Tensor)) (distinct nobody (home t)))"


def _declared(s: str) -> str:
    return f"{_STATE.declared(s)}(declare-const holder{s} Storage)"


def counted(s: str) -> tuple[str, ...]:
    """CountsMembers: what follows of counts that are the numbers of living members, by the statements of `totals`."""
    return (
        f"(forall ((s Storage)) (<= 0 (count{s} s)))",
        f"(forall ((t Tensor)) (=> (alive{s} t) (<= 1 (count{s} (home t)))))",
        f"(forall ((s Storage)) (=> (distinct 0 (count{s} s)) (exists ((t Tensor)) (and (alive{s} t)"
        " (= s (home t))))))",
        f"(forall ((t Tensor) (u Tensor)) (=> (and (alive{s} t) (alive{s} u) (distinct t u) (= (home t) (home u)))"
        f" (<= 2 (count{s} (home t)))))",
    )


def invariant(s: str) -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    return (
        # FreeAtZero: the bytes belong to nobody exactly where nobody counts.
        f"(= (= nobody holder{s}) (forall ((s Storage)) (= 0 (count{s} s))))",
        # AliveIsKept: who is alive finds its own storage's bytes.
        f"(forall ((t Tensor)) (=> (alive{s} t) (= holder{s} (home t))))",
        # StaticCovers: who is alive was born by now, and dies no later than one step ago.
        f"(forall ((t Tensor)) (=> (alive{s} t) (and (<= (birth t) now{s}) (<= now{s} (+ (death t) 1)))))",
        # SavedIsKept: what backward reads was not written over,
        f"(forall ((t Tensor)) (=> (changed{s} t) (not (saved t))))",
        # SharedIsKept: nor what another member shows later.
        f"(forall ((t Tensor) (u Tensor)) (=> (and (changed{s} t) (= (home t) (home u))) (<= (death u) (death t))))",
    )


_ONE = _SORTS + _declared("0") + _declared("1") + "(declare-const x Tensor)"
_BEFORE = (_HOMES, *counted("0"), *invariant("0"))
_AFTER = all_of(invariant("1"))
_WORLD = World({"Tensor": 3, "Storage": 3}, 0, 3)
_SAME_HOLDER = "(= holder1 holder0)"
_ALL_LIVE = "(forall ((t Tensor)) (=> (alive0 t) (<= now0 (death t))))"
_FREE = "(or (= nobody holder0) (= holder0 (home x)))"
_COUNTS_UP = _STATE.becomes("count", ("(home x)",), "(+ (count0 (home x)) 1)")
_COUNTS_DOWN = _STATE.becomes("count", ("(home x)",), "(- (count0 (home x)) 1)")
_FREED = "(= holder1 (ite (= 1 (count0 (home x))) nobody holder0))"
_NONE_LATER = "(forall ((t Tensor)) (=> (= (home t) (home x)) (<= (death t) now0)))"
_LIVES = "(forall ((t Tensor)) (<= (birth t) (death t)))"
_APART = (
    "(forall ((t Tensor) (u Tensor) (v Tensor) (w Tensor)) (=> (and (= (home t) (home u)) (= (home v) (home w))"
    " (distinct (home t) (home v)) (<= (birth t) now0) (<= now0 (death u)) (<= (birth v) now0)) (< (death w) now0)))"
)
"""Accepted, at the step that runs: of two storages with the same bytes only one lives statically."""

_MAKES = (_FREE, "(= now0 (birth x))", "(not (alive0 x))", "(= holder1 (home x))",
          _STATE.becomes("alive", ("x",), "true"), _COUNTS_UP, *_STATE.others("alive", "count"))  # fmt: skip
_DIES = ("(alive0 x)", "(< (death x) now0)", _FREED, _STATE.becomes("alive", ("x",), "false"), _COUNTS_DOWN,
         *_STATE.others("alive", "count"))  # fmt: skip

STATEMENTS = (
    Statement(
        "counting_begins_right",
        "Where nobody is alive and nothing counted, the bytes belong to nobody and the invariant holds.",
        _SORTS + _declared("1"),
        ("(= holder1 nobody)", "(forall ((t Tensor)) (and (not (alive1 t)) (not (changed1 t))))",
         "(forall ((s Storage)) (= 0 (count1 s)))"),
        _AFTER,
        (Mutant("a count begins at one", "(= 0 (count1 s))))\n(prove", "(= 1 (count1 s))))\n(prove"),),
        _WORLD,
    ),
    Statement(
        "making_a_member_keeps_the_counts",
        "A member that is made where the bytes are its storage's or nobody's keeps the invariant.",
        _ONE, (*_BEFORE, _LIVES, *_MAKES),
        all_of((*counted("1"), *invariant("1"))),
        (Mutant("whoever holds the bytes", assumed(_FREE), ""),
         Mutant("views uncounted", _COUNTS_UP, _STATE.same("count")[0])),
        _WORLD,
    ),
    Statement(
        "a_death_keeps_the_counts",
        "A member that dies is counted down, and the bytes are freed with the last: the invariant is kept.",
        _ONE, (*_BEFORE, *counted("1"), *_DIES),
        _AFTER,
        (Mutant("freed with the first", _FREED, "(= holder1 nobody)"),
         Mutant("never freed", _FREED, _SAME_HOLDER)),
        _WORLD,
    ),
    Statement(
        "writing_over_the_last_member_keeps_what_is_read",
        "A result that is written over a member which is not saved, where no member is read later, keeps the"
        " invariant.",
        _ONE,
        (*_BEFORE, "(alive0 x)", "(= now0 (death x))", "(not (saved x))", _NONE_LATER, _SAME_HOLDER,
         _STATE.becomes("changed", ("x",), "true"), *_STATE.others("changed")),
        _AFTER,
        (Mutant("writes over the saved", "(assume (not (saved x)))", ""),
         Mutant("a count of one will do", assumed(_NONE_LATER), "(assume (= 1 (count0 (home x))))")),
        _WORLD,
    ),
    Statement(
        "proceeding_keeps_the_counts",
        "Going on to the next step, where whoever died before this one is gone, keeps the invariant.",
        _ONE, (*_BEFORE, _ALL_LIVE, "(= now1 (+ now0 1))", _SAME_HOLDER, *_STATE.others("now")),
        _AFTER,
        (Mutant("the dead are still counted", assumed(_ALL_LIVE), ""),),
        _WORLD,
    ),
    Statement(
        "whoever_is_made_finds_the_bytes_free",
        "By the invariant, once the dead are gone, a member that is made at its birth finds the bytes free or its"
        " storage's, under every plan that is accepted: a plan needs no counts.",
        _SORTS + _declared("0") + "(declare-const x Tensor)",
        (*_BEFORE, _LIVES, _ALL_LIVE, _APART, "(= now0 (birth x))"),
        _FREE,
        (Mutant("the dead are still counted", assumed(_ALL_LIVE), ""),
         Mutant("storages that live at one step", assumed(_APART), ""),
         Mutant("a storage dies with its first member", "(<= now0 (death u))", "(< now0 (death t))")),
        _WORLD,
    ),
    Statement(
        "a_count_that_is_not_zero_is_covered",
        "By the invariant, where a count is not zero and the dead are gone, the step lies between the birth of one"
        " member and the death of one.",
        _SORTS + _declared("0") + "(declare-const s Storage)",
        (*_BEFORE, _ALL_LIVE, "(distinct 0 (count0 s))"),
        "(exists ((t Tensor) (u Tensor)) (and (= s (home t)) (= s (home u)) (<= (birth t) now0) (<= now0 (death u))))",
        (Mutant("the dead are still counted", assumed(_ALL_LIVE), ""),
         Mutant("the last step of a member is no more its own", "(<= now0 (death u))", "(< now0 (death u))")),
        _WORLD,
    ),
    Statement(
        "bytes_change_hands_through_nobody",
        "By the invariant, whichever member is made or dies, the bytes stay where they are, or were nobody's, or become"
        " nobody's.",
        _ONE,
        (*_BEFORE, f"(or {all_of(_MAKES)} {all_of(_DIES)})"),
        "(or (= holder1 holder0) (= nobody holder0) (= nobody holder1))",
        (Mutant("whoever holds the bytes", f"(and {_FREE}", "(and true"),),
        _WORLD,
    ),
)  # fmt: skip
