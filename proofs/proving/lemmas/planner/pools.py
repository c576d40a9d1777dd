"""MiCo's pools: `tla/mico/Pools.tla` for any storages, sizes and lifetimes.

Storages are assigned by size, the largest first. Each goes to the first pool whose storages it does not overlap in
time, or to a new one. By the invariant, each pool has the size of its largest storage, the one that opened it.
spec: A9.1, V4.9
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

_JOINS = """
(any x Storage) (any meets (Int) Storage) (not (joined x))
(forall ((t Storage)) (=> (and (not (joined t)) (distinct t x)) (before x t)))
(set (joined x) true) (set (blocker x ?p) (meets ?p))
"""


def _blocked(pools: str) -> str:
    """Return the formula that in each pool before `pools`, `meets` is a storage that overlaps x in time."""
    return f"""(forall ((p Int)) (=> (and (<= 0 p) (< p {pools}))
      (and (joined (meets p)) (= p (pool (meets p))) (overlap x (meets p)))))"""


MACHINE = Machine(
    "pools",
    "Storages of one pool are never live at one step, each joined the first pool that it fits, and no pool is larger"
    " than the storage that opened it.",
    """
    (declare-sort Storage 0)
    (declare-fun birth (Storage) Int)(declare-fun death (Storage) Int)
    (declare-fun size (Storage) Int)(declare-fun made (Storage) Int)
    (define-fun overlap ((s Storage) (t Storage)) Bool (and (<= (birth s) (death t)) (<= (birth t) (death s))))
    (define-fun before ((s Storage) (t Storage)) Bool
      (or (> (size s) (size t)) (and (= (size s) (size t)) (< (made s) (made t)))))""",
    """
    (joined (Storage) Bool) (pool (Storage) Int) (bytes (Int) Int) (opened () Int)
    ; the storage that opened each pool; for each storage and each pool before its own, a storage there that overlaps it
    (opener (Int) Storage) (blocker (Storage Int) Storage)""",
    MachineRule(
        "Init",
        "No storage has a pool, and no pool exists.",
        "(forall ((s Storage)) (not (joined s))) (= opened 0)",
        (Mutant("a pool is opened at the start", "(= opened 0)", "(= opened 1)"),),
    ),
    """
    (<= 0 opened)
    (forall ((s Storage)) (=> (joined s) (and (<= 0 (pool s)) (< (pool s) opened))))
    ; InOrder: the larger storage is placed before.
    (forall ((s Storage) (t Storage)) (=> (and (joined s) (not (joined t))) (before s t)))
    ; PoolsFit: every storage fits its pool, and a pool is no larger than it must be.
    (forall ((s Storage)) (=> (joined s) (<= (size s) (bytes (pool s)))))
    (forall ((p Int)) (=> (and (<= 0 p) (< p opened))
      (and (joined (opener p)) (= p (pool (opener p))) (= (bytes p) (size (opener p))))))
    ; PoolsDisjoint: storages of one pool never live at one step.
    (forall ((s Storage) (t Storage)) (=> (and (joined s) (joined t) (distinct s t) (= (pool s) (pool t)))
      (not (overlap s t))))
    ; FirstFit: in each pool before its own, a storage placed before overlaps it.
    (forall ((s Storage) (p Int)) (=> (and (joined s) (<= 0 p) (< p (pool s)))
      (and (joined (blocker s p)) (= p (pool (blocker s p))) (overlap s (blocker s p)) (before (blocker s p) s))))""",
    (
        MachineRule(
            "Join",
            "The largest storage without a pool joins the first pool whose storages it does not overlap in time.",
            f"""{_JOINS} (any k Int) (<= 0 k) (< k opened)
            (forall ((t Storage)) (=> (and (joined t) (= k (pool t))) (not (overlap x t))))
            {_blocked("k")} (set (pool x) k)""",
            (
                Without("any order", "(distinct t x)"),
                Without("whatever storages overlap", "(= k (pool t))"),
                Without("any pool that fits", "(< p k)"),
                Without("it had joined before", "(not (joined x))"),
            ),
        ),
        MachineRule(
            "Open",
            "If it overlaps a storage of each pool, it opens a pool of its size.",
            f"""{_JOINS} {_blocked("opened")} (set (pool x) opened) (set opened (+ opened 1))
            (set (bytes opened) (size x)) (set (opener opened) x)""",
            (
                Without("opened needlessly", "(< p opened)"),
                Mutant("of no size", "(set (bytes opened) (size x))", "(set (bytes opened) 0)"),
                Without("not counted", "(set opened (+ opened 1))"),
                Mutant("larger than what opens it", "(set (bytes opened) (size x))",
                       "(set (bytes opened) (+ 1 (size x)))"),
            ),
        ),
    ),
    World({"Storage": 3}, 0, 2),
    witnesses=("opener", "blocker"),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
