"""Threads that lock tiles: `tla/mnemosyne/WriteLocks.tla` for any threads, tiles, locks and queues.

A free lock may be taken by any thread in its queue. No clause requires that the first in the queue takes it; that
matters only to how long a thread waits. spec: V4.9, MN7.2
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

_HAS_ALL = "(forall ((a Int)) (=> (needs x a) (locks x a)))"
_MEET = "(or (and (w p) (or (reads t p) (writes t p))) (and (r p) (writes t p)))"
_KEPT_APART = (
    f"(forall ((t Thread) (p Tile)) (=> (and (distinct t x) {_MEET})"
    " (exists ((a Int)) (and (n a) (needs t a) (not (and readers (shared t)))))))"
)
_ENDS = """(set (reads x ?p) false) (set (writes x ?p) false) (set (active x) false)"""

MACHINE = Machine(
    "write_locks",
    "Sections that share a tile share a lock, held by one writer or by readers, and locks are taken in ascending"
    " order.",
    "(declare-sort Thread 0)(declare-sort Tile 0)",
    """
    (reads (Thread Tile) Bool) (writes (Thread Tile) Bool) (needs (Thread Int) Bool) (shared (Thread) Bool)
    (locks (Thread Int) Bool) (active (Thread) Bool) (queued (Thread Int) Bool)""",
    MachineRule(
        "Init",
        "No thread needs, holds, accesses or waits for anything.",
        """
        (forall ((t Thread) (p Tile)) (and (not (reads t p)) (not (writes t p))))
        (forall ((t Thread) (a Int)) (not (needs t a))) (forall ((t Thread) (a Int)) (not (locks t a)))
        (forall ((t Thread)) (not (active t))) (forall ((t Thread) (a Int)) (not (queued t a)))""",
        (Without("a lock is held at the start", "(not (locks t a))"),
         Without("a thread is active at the start", "(not (active t))")),
    ),
    """
    ; LocksExclude: a lock has one holder, or only readers.
    (forall ((s Thread) (t Thread) (a Int))
      (=> (and (distinct s t) (locks s a) (locks t a)) (and (shared s) (shared t))))
    ; A thread that waits for a lock or holds it needs it.
    (forall ((t Thread) (a Int)) (=> (or (locks t a) (queued t a)) (needs t a)))
    ; AccessesUnderLocks: a thread that accesses its tiles holds all the locks of its section.
    (forall ((t Thread) (a Int)) (=> (and (active t) (needs t a)) (locks t a)))
    ; It has tiles to access.
    (forall ((t Thread)) (=> (active t) (exists ((p Tile)) (or (reads t p) (writes t p)))))
    ; Inv_3, with readers: sections that meet at a tile which one of them writes share a lock, not both as readers.
    (forall ((s Thread) (t Thread) (p Tile)) (=> (and (distinct s t) (writes s p) (or (reads t p) (writes t p)))
      (exists ((a Int)) (and (needs s a) (needs t a) (not (and (shared s) (shared t)))))))
    ; A thread that waits lacks that lock, and none below it.
    (forall ((t Thread) (a Int)) (=> (queued t a) (not (locks t a))))
    (forall ((t Thread) (a Int) (b Int)) (=> (and (queued t a) (needs t b) (not (locks t b))) (<= a b)))
    ; Locks are held from below: each before every one that is lacking.
    (forall ((t Thread) (a Int) (b Int)) (=> (and (locks t a) (needs t b) (not (locks t b))) (< a b)))""",
    (
        MachineRule(
            "Begin",
            "A thread begins a section with any tiles, and locks that keep it apart from every section that shares a"
            " tile.",
            f"""(any x Thread) (any r (Tile) Bool) (any w (Tile) Bool) (any n (Int) Bool) (any readers Bool)
            (forall ((a Int)) (not (needs x a))) (forall ((p Tile)) (and (not (reads x p)) (not (writes x p))))
            {_KEPT_APART}
            (set (reads x ?p) (r ?p)) (set (writes x ?p) (w ?p)) (set (needs x ?a) (n ?a)) (set (shared x) readers)""",
            (Without("disjoint lock sets", _KEPT_APART),
             Mutant("write sets alone", _MEET, "(and (w p) (writes t p))"),
             Without("readers that write", "(not (and readers (shared t)))"),
             Without("a thread that needs others already", "(not (needs x a))")),
        ),
        MachineRule(
            "Request",
            "A thread waits for the lowest lock that it lacks.",
            """(any x Thread) (any lock Int) (needs x lock) (not (locks x lock))
            (forall ((a Int)) (=> (and (needs x a) (not (locks x a))) (<= lock a)))
            (set (queued x lock) true)""",
            (Without("any lock that it lacks", "(<= lock a)"), Without("one that it has", "(not (locks x lock))"),
             Without("one that it does not need", "(needs x lock)")),
        ),
        MachineRule(
            "Take",
            "A thread that waits for a lock takes it if it is free, or if it is held by readers and the thread reads"
            " too.",
            """(any x Thread) (any lock Int) (queued x lock)
            (forall ((t Thread)) (=> (locks t lock) (and (shared x) (shared t))))
            (set (queued x lock) false) (set (locks x lock) true)""",
            (Without("two holders", "(=> (locks t lock) (and (shared x) (shared t)))"),
             Mutant("readers beside a writer", "(=> (locks t lock) (and (shared x) (shared t)))",
                    "(=> (locks t lock) (shared x))"),
             Without("without waiting", "(queued x lock)"),
             Without("it stays in the queue", "(set (queued x lock) false)")),
        ),
        MachineRule(
            "Enter",
            "A thread that has all the locks of its section accesses its tiles.",
            f"(any x Thread) (exists ((p Tile)) (or (reads x p) (writes x p))) {_HAS_ALL} (set (active x) true)",
            (Without("without a tile", "(or (reads x p) (writes x p))"), Without("accesses unlocked", _HAS_ALL),
             Mutant("accesses with one lock", _HAS_ALL, "(exists ((a Int)) (locks x a))")),
        ),
        MachineRule(
            "Leave",
            "A thread has accessed its tiles.",
            f"(any x Thread) (active x) {_ENDS}",
            (Without("stays active", "(set (active x) false)"),),
        ),
        MachineRule(
            "Release",
            "A thread that has finished its accesses releases a lock, the last one also as a reader.",
            """(any x Thread) (any lock Int) (any stays Bool) (locks x lock)
            (forall ((p Tile)) (and (not (reads x p)) (not (writes x p))))
            (=> (exists ((a Int)) (and (distinct a lock) (needs x a))) (= stays (shared x)))
            (set (locks x lock) false) (set (needs x lock) false) (set (shared x) stays)""",
            (Without("releases too early", "(and (not (reads x p)) (not (writes x p)))"),
             Without("needs it still", "(set (needs x lock) false)"),
             Without("others are no longer held as a reader", "(= stays (shared x))")),
        ),
        MachineRule(
            "Kill",
            "A thread is killed, and everything that it holds or waits for is released.",
            f"""(any x Thread) {_ENDS} (set (needs x ?a) false) (set (locks x ?a) false) (set (queued x ?a) false)
            (set (shared x) false)""",
            (Without("waits still", "(set (queued x ?a) false)"),
             Without("holds its locks", "(set (locks x ?a) false)")),
        ),
    ),
    World({"Thread": 2, "Tile": 1}, 0, 2),
    promises=(
        MachineRule(
            "no_tile_is_written_while_another_thread_accesses_it",
            "No tile is written by one thread while another reads or writes it.",
            """(gives (forall ((s Thread) (t Thread) (p Tile))
              (=> (and (active s) (active t) (writes s p) (or (reads t p) (writes t p))) (= s t))))""",
            (Without("a lock with two holders", "(and (distinct s t) (locks s a) (locks t a))"),
             Without("an access without all locks", "(and (active t) (needs t a))"),
             Without("sections that share no lock", "(and (needs s a) (needs t a) (not (and (shared s) (shared t))))")),
        ),
        MachineRule(
            "locks_are_taken_in_ascending_order",
            "No thread waits for a lock below one that it holds, so that no circle of waiting threads can close.",
            "(gives (forall ((t Thread) (a Int) (b Int)) (=> (and (queued t a) (locks t b)) (< b a))))",
            (Without("locks taken in any order", "(< a b)"),),
        ),
    ),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
