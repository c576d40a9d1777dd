"""MiCo's pools: what `tla/mico/Pools.tla` says, for any storages, sizes and lifetimes.

Storages join by size, the largest first; each the first pool in which it meets nobody, or a new one. Two witnesses
stand beside the state and are part of no program: `opener`, the storage that opened each pool, and `blocker`, for each
storage and each pool before its own, a storage there that it meets. spec: A9.1, V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_STATE = State(
    {
        "joined": (("Storage",), "Bool"), "pool": (("Storage",), "Int"), "bytes": (("Int",), "Int"),
        "opener": (("Int",), "Storage"), "blocker": (("Storage", "Int"), "Storage"),
    },
    ("opened",),
)  # fmt: skip
_SORTS = """
(declare-sort Storage 0)
(declare-fun birth (Storage) Int)(declare-fun death (Storage) Int)
(declare-fun size (Storage) Int)(declare-fun made (Storage) Int)
(define-fun overlap ((s Storage) (t Storage)) Bool (and (<= (birth s) (death t)) (<= (birth t) (death s))))
(define-fun before ((s Storage) (t Storage)) Bool
  (or (> (size s) (size t)) (and (= (size s) (size t)) (< (made s) (made t)))))
"""


def invariant(s: str) -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    return (
        # Who has joined is in a pool that was opened.
        f"(<= 0 opened{s})",
        f"(forall ((s Storage)) (=> (joined{s} s) (and (<= 0 (pool{s} s)) (< (pool{s} s) opened{s}))))",
        # InOrder: the larger storage was placed before.
        f"(forall ((s Storage) (t Storage)) (=> (and (joined{s} s) (not (joined{s} t))) (before s t)))",
        # PoolsFit: every storage fits its pool, and a pool is no larger than it must be.
        f"(forall ((s Storage)) (=> (joined{s} s) (<= (size s) (bytes{s} (pool{s} s)))))",
        f"(forall ((p Int)) (=> (and (<= 0 p) (< p opened{s})) (and (joined{s} (opener{s} p))"
        f" (= p (pool{s} (opener{s} p))) (= (bytes{s} p) (size (opener{s} p))))))",
        # PoolsDisjoint: storages of one pool never live at one step.
        f"(forall ((s Storage) (t Storage)) (=> (and (joined{s} s) (joined{s} t) (distinct s t)"
        f" (= (pool{s} s) (pool{s} t))) (not (overlap s t))))",
        # FirstFit: each joined the first pool in which it met nobody placed before.
        f"(forall ((s Storage) (p Int)) (=> (and (joined{s} s) (<= 0 p) (< p (pool{s} s)))"
        f" (and (joined{s} (blocker{s} s p)) (= p (pool{s} (blocker{s} s p))) (overlap s (blocker{s} s p))"
        f" (before (blocker{s} s p) s))))",
    )


_ONE = (
    _SORTS + _STATE.declared("0") + _STATE.declared("1") + "(declare-const x Storage)(declare-fun meets (Int) Storage)"
)
_JOIN = _ONE + "(declare-const k Int)"
_AFTER = all_of(invariant("1"))
_WORLD = World({"Storage": 3}, 0, 2)
_IS_NEXT = "(forall ((t Storage)) (=> (and (not (joined0 t)) (distinct t x)) (before x t)))"
_FITS = "(forall ((t Storage)) (=> (and (joined0 t) (= k (pool0 t))) (not (overlap x t))))"


def _none_fits(pools: str) -> str:
    """In each pool before `pools`, `meets` is a joined storage that x meets."""
    return (
        f"(forall ((p Int)) (=> (and (<= 0 p) (< p {pools})) (and (joined0 (meets p)) (= p (pool0 (meets p)))"
        " (overlap x (meets p)))))"
    )


_FIRST, _NOWHERE = _none_fits("k"), _none_fits("opened0")
_JOINS = _STATE.becomes("joined", ("x",), "true")
_REMEMBERS = "(forall ((s Storage) (p Int)) (= (blocker1 s p) (ite (= s x) (meets p) (blocker0 s p))))"
_OPENS = "(= opened1 (+ opened0 1))"
_OWN_SIZE = _STATE.becomes("bytes", ("opened0",), "(size x)")

STATEMENTS = (
    Statement(
        "pools_begin_right",
        "Before the first storage there is no pool, and the invariant holds.",
        _SORTS + _STATE.declared("1"),
        ("(forall ((s Storage)) (not (joined1 s)))", "(= opened1 0)"),
        _AFTER,
        (Mutant("a pool is opened for nothing", "(= opened1 0)", "(= opened1 1)"),),
        _WORLD,
    ),
    Statement(
        "joining_the_first_pool_that_fits_keeps_the_pools",
        "The largest storage that waits joins the first pool in which it meets nobody: the invariant is kept.",
        _JOIN,
        (*invariant("0"), "(not (joined0 x))", _IS_NEXT, "(<= 0 k)", "(< k opened0)", _FITS, _FIRST, _JOINS,
         _STATE.becomes("pool", ("x",), "k"), _REMEMBERS, *_STATE.same("bytes", "opener", "opened")),
        _AFTER,
        (Mutant("any order", assumed(_IS_NEXT), ""),
         Mutant("whoever is there", assumed(_FITS), ""),
         Mutant("any pool that fits", assumed(_FIRST), ""),
         Mutant("it had joined before", "(assume (not (joined0 x)))", "")),
        _WORLD,
    ),
    Statement(
        "opening_a_pool_keeps_the_pools",
        "Where it meets somebody in each pool, it opens one of its own size: the invariant is kept.",
        _ONE,
        (*invariant("0"), "(not (joined0 x))", _IS_NEXT, _NOWHERE, _JOINS,
         _STATE.becomes("pool", ("x",), "opened0"), _REMEMBERS, _OPENS, _OWN_SIZE,
         _STATE.becomes("opener", ("opened0",), "x")),
        _AFTER,
        (Mutant("opened needlessly", assumed(_NOWHERE), ""),
         Mutant("of no size", _OWN_SIZE, _STATE.becomes("bytes", ("opened0",), "0")),
         Mutant("not counted", _OPENS, "(= opened1 opened0)")),
        _WORLD,
    ),
    Statement(
        "a_pool_is_as_large_as_its_largest_storage",
        "By the invariant, each pool has a storage of exactly its size, and none that is larger.",
        _SORTS + _STATE.declared("1"), invariant("1"),
        "(forall ((p Int) (s Storage)) (=> (and (joined1 s) (= p (pool1 s))) (and (<= (size s) (size (opener1 p)))"
        " (joined1 (opener1 p)) (= p (pool1 (opener1 p))) (= (bytes1 p) (size (opener1 p))))))",
        (Mutant("larger than what opened it", "(= (bytes1 p) (size (opener1 p)))))))\n(assume",
                "(>= (bytes1 p) (size (opener1 p)))))))\n(assume"),
         Mutant("storages that do not fit", "(<= (size s) (bytes1 (pool1 s)))", "true")),
        _WORLD,
    ),
    Statement(
        "storages_that_meet_are_in_different_pools",
        "By the invariant, any two storages that live at one step are in different pools.",
        _SORTS + _STATE.declared("1"), invariant("1"),
        "(forall ((s Storage) (t Storage) (now Int)) (=> (and (joined1 s) (joined1 t) (distinct s t)"
        " (<= (birth s) now) (<= now (death s)) (<= (birth t) now) (<= now (death t)))"
        " (distinct (pool1 s) (pool1 t))))",
        (Mutant("lifetimes without their death", "(and (<= (birth s) (death t)) (<= (birth t) (death s)))",
                "(and (< (birth s) (death t)) (< (birth t) (death s)))"),),
        _WORLD,
    ),
)  # fmt: skip
