"""Threads that lock tiles: `tla/mnemosyne/WriteLocks.tla` for any threads, tiles and queues.

A free lock may be taken by any thread in its queue: that the first in the queue takes it matters to no clause, only to
how long a thread waits. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.lemmas.engine.statements import Mutant, World

_HAS_ALL = "(forall ((a Int)) (=> (needs x a) (locks x a)))"

MACHINE = Machine(
    "write_locks",
    "A tile is written under its lock, a lock has one holder, and locks are taken in ascending order.",
    "(declare-sort Thread 0)",
    "(needs (Thread Int) Bool) (locks (Thread Int) Bool) (writes (Thread Int) Bool) (queued (Thread Int) Bool)",
    MachineRule(
        "Init",
        "No thread needs, holds, writes or waits for anything.",
        """
        (forall ((t Thread) (a Int)) (not (needs t a))) (forall ((t Thread) (a Int)) (not (locks t a)))
        (forall ((t Thread) (a Int)) (not (writes t a))) (forall ((t Thread) (a Int)) (not (queued t a)))""",
        (Without("a lock is held at the start", "(locks t a)"),),
    ),
    """
    ; LocksExclude: a lock has one holder.
    (forall ((s Thread) (t Thread) (a Int)) (=> (and (locks s a) (locks t a)) (= s t)))
    ; A thread that waits for a lock or holds it needs its tile.
    (forall ((t Thread) (a Int)) (=> (or (locks t a) (queued t a)) (needs t a)))
    ; WritesUnderLock: what is written is locked, and a thread that writes lacks no lock.
    (forall ((t Thread) (a Int) (b Int)) (=> (and (writes t a) (needs t b)) (locks t b)))
    (forall ((t Thread) (a Int)) (=> (writes t a) (needs t a)))
    ; A thread that waits lacks that lock, and none below it.
    (forall ((t Thread) (a Int)) (=> (queued t a) (not (locks t a))))
    (forall ((t Thread) (a Int) (b Int)) (=> (and (queued t a) (needs t b) (not (locks t b))) (<= a b)))
    ; Locks are held from below: each before every one that is lacking.
    (forall ((t Thread) (a Int) (b Int)) (=> (and (locks t a) (needs t b) (not (locks t b))) (< a b)))""",
    (
        MachineRule(
            "Begin",
            "A thread that needs nothing yet asks for any set of tiles.",
            "(any x Thread) (any tiles (Int) Bool) (forall ((a Int)) (not (needs x a))) (set (needs x ?a) (tiles ?a))",
            (Without("a thread that needs others already", "(not (needs x a))"),),
        ),
        MachineRule(
            "Request",
            "A thread waits for the lowest lock that it lacks.",
            """(any x Thread) (any tile Int) (needs x tile) (not (locks x tile))
            (forall ((a Int)) (=> (and (needs x a) (not (locks x a))) (<= tile a)))
            (set (queued x tile) true)""",
            (Without("any lock that it lacks", "(<= tile a)"), Without("one that it has", "(not (locks x tile))"),
             Without("one that it does not need", "(needs x tile)")),
        ),
        MachineRule(
            "Take",
            "A thread that waits for a free lock takes it.",
            """(any x Thread) (any tile Int) (queued x tile) (forall ((t Thread)) (not (locks t tile)))
            (set (queued x tile) false) (set (locks x tile) true)""",
            (Without("two holders", "(not (locks t tile))"), Without("without waiting", "(queued x tile)"),
             Without("it stays in the queue", "(set (queued x tile) false)")),
        ),
        MachineRule(
            "Write",
            "A thread that has all the locks that it needs writes those tiles.",
            f"(any x Thread) {_HAS_ALL} (set (writes x ?a) (needs x ?a))",
            (Without("writes unlocked", _HAS_ALL),
             Mutant("writes with one lock", _HAS_ALL, "(exists ((a Int)) (locks x a))")),
        ),
        MachineRule(
            "End",
            "A thread that writes gives up its tiles and its locks.",
            """(any x Thread) (exists ((a Int)) (writes x a))
            (set (writes x ?a) false) (set (locks x ?a) false) (set (needs x ?a) false)""",
            (Without("goes on writing", "(set (writes x ?a) false)"),
             Without("a thread that still waits", "(exists ((a Int)) (writes x a))")),
        ),
    ),
    World({"Thread": 2}, 0, 2),
    promises=(
        MachineRule(
            "no_tile_is_written_by_two",
            "No two threads write one tile at a time.",
            "(gives (forall ((s Thread) (t Thread) (a Int)) (=> (and (writes s a) (writes t a)) (= s t))))",
            (Without("a lock with two holders", "(and (locks s a) (locks t a))"),
             Without("writing what is not locked", "(and (writes t a) (needs t b))")),
        ),
        MachineRule(
            "locks_are_taken_in_ascending_order",
            "No thread waits for a lock below one that it holds: no circle of waiting threads can close.",
            "(gives (forall ((t Thread) (a Int) (b Int)) (=> (and (queued t a) (locks t b)) (< b a))))",
            (Without("locks taken in any order", "(< a b)"),),
        ),
    ),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
