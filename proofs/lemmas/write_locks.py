"""Threads that lock tiles: what `tla/mnemosyne/WriteLocks.tla` says, for any threads, tiles and queues.

Who may take a free lock is anybody in its queue: that the first in the queue takes it matters to no clause, only to who
waits how long. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_OF_TILES = (("Thread", "Int"), "Bool")
_STATE = State({"wants": _OF_TILES, "locks": _OF_TILES, "writes": _OF_TILES, "queued": _OF_TILES})
_SORTS = "(declare-sort Thread 0)"


def invariant(s: str) -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    return (
        # LocksExclude: a lock has one holder.
        f"(forall ((s Thread) (t Thread) (a Int)) (=> (and (locks{s} s a) (locks{s} t a)) (= s t)))",
        # Who waits for a lock or holds it wants its tile.
        f"(forall ((t Thread) (a Int)) (=> (or (locks{s} t a) (queued{s} t a)) (wants{s} t a)))",
        # WritesUnderLock: what is written is locked, and who writes lacks no lock.
        f"(forall ((t Thread) (a Int) (b Int)) (=> (and (writes{s} t a) (wants{s} t b)) (locks{s} t b)))",
        f"(forall ((t Thread) (a Int)) (=> (writes{s} t a) (wants{s} t a)))",
        # Who waits lacks that lock, and none below it.
        f"(forall ((t Thread) (a Int)) (=> (queued{s} t a) (not (locks{s} t a))))",
        f"(forall ((t Thread) (a Int) (b Int)) (=> (and (queued{s} t a) (wants{s} t b) (not (locks{s} t b)))"
        " (<= a b)))",
        # Locks are held from below: each before every one that is lacking.
        f"(forall ((t Thread) (a Int) (b Int)) (=> (and (locks{s} t a) (wants{s} t b) (not (locks{s} t b))) (< a b)))",
    )


_ONE = _SORTS + _STATE.declared("0") + _STATE.declared("1") + "(declare-const x Thread)"
_TILE = _ONE + "(declare-const tile Int)"
_AFTER = all_of(invariant("1"))
_WORLD = World({"Thread": 2}, 0, 2)


def _all_become(name: str, value: str) -> str:
    """The tiles of thread x become those for which `value` holds."""
    return f"(forall ((t Thread) (a Int)) (= ({name}1 t a) (ite (= t x) {value} ({name}0 t a))))"


_IDLE = "(forall ((a Int)) (not (wants0 x a)))"
_LACKS = ("(wants0 x tile)", "(not (locks0 x tile))")
_LOWEST = "(forall ((a Int)) (=> (and (wants0 x a) (not (locks0 x a))) (<= tile a)))"
_FREE = "(forall ((t Thread)) (not (locks0 t tile)))"
_WAITS_NO_MORE = _STATE.becomes("queued", ("x", "tile"), "false")
_HAS_ALL = "(forall ((a Int)) (=> (wants0 x a) (locks0 x a)))"
_GIVES_BACK = _all_become("locks", "false")
_STOPS = _all_become("writes", "false")

STATEMENTS = (
    Statement(
        "threads_begin_right",
        "Where nobody wants, holds, writes or waits for anything, the invariant holds.",
        _SORTS + _STATE.declared("1"),
        tuple(f"(forall ((t Thread) (a Int)) (not ({name}1 t a)))" for name in _STATE.functions),
        _AFTER,
        (Mutant("a lock is held at the start", assumed("(forall ((t Thread) (a Int)) (not (locks1 t a)))"), ""),),
        _WORLD,
    ),
    Statement(
        "coming_keeps_the_locks",
        "A thread that wants nothing yet and comes with any set of tiles keeps the invariant.",
        _ONE + "(declare-fun tiles (Int) Bool)",
        (*invariant("0"), _IDLE, _all_become("wants", "(tiles a)"), *_STATE.others("wants")),
        _AFTER,
        (Mutant("a thread that wants others already", assumed(_IDLE), ""),),
        _WORLD,
    ),
    Statement(
        "asking_for_the_lowest_lock_keeps_the_locks",
        "A thread that waits for the lowest lock that it lacks keeps the invariant.",
        _TILE,
        (*invariant("0"), *_LACKS, _LOWEST, _STATE.becomes("queued", ("x", "tile"), "true"),
         *_STATE.others("queued")),
        _AFTER,
        (Mutant("any lock that it lacks", assumed(_LOWEST), ""),
         Mutant("one that it has", assumed(_LACKS[1]), ""),
         Mutant("one that it does not want", assumed(_LACKS[0]), "")),
        _WORLD,
    ),
    Statement(
        "taking_a_free_lock_keeps_the_locks",
        "A thread that waits for a lock which nobody holds, and takes it, keeps the invariant.",
        _TILE,
        (*invariant("0"), "(queued0 x tile)", _FREE, _WAITS_NO_MORE, _STATE.becomes("locks", ("x", "tile"), "true"),
         *_STATE.others("queued", "locks")),
        _AFTER,
        (Mutant("two holders", assumed(_FREE), ""),
         Mutant("without asking", "(assume (queued0 x tile))", ""),
         Mutant("it stays in the queue", _WAITS_NO_MORE, _STATE.same("queued")[0])),
        _WORLD,
    ),
    Statement(
        "writing_with_all_locks_keeps_the_locks",
        "A thread that has all the locks that it wants, and writes those tiles, keeps the invariant.",
        _ONE,
        (*invariant("0"), _HAS_ALL, _all_become("writes", "(wants0 t a)"), *_STATE.others("writes")),
        _AFTER,
        (Mutant("writes unlocked", assumed(_HAS_ALL), ""),
         Mutant("writes with one lock", assumed(_HAS_ALL), "(assume (exists ((a Int)) (locks0 x a)))")),
        _WORLD,
    ),
    Statement(
        "ending_keeps_the_locks",
        "A thread that writes, and gives up its tiles and its locks, keeps the invariant.",
        _ONE,
        (*invariant("0"), "(exists ((a Int)) (writes0 x a))", _STOPS, _GIVES_BACK, _all_become("wants", "false"),
         *_STATE.same("queued")),
        _AFTER,
        (Mutant("goes on writing", _STOPS, _STATE.same("writes")[0]),
         Mutant("a thread that still waits", "(assume (exists ((a Int)) (writes0 x a)))", "")),
        _WORLD,
    ),
    Statement(
        "no_tile_is_written_by_two",
        "By the invariant, no two threads write one tile at a time.",
        _SORTS + _STATE.declared("1"), invariant("1"),
        "(forall ((s Thread) (t Thread) (a Int)) (=> (and (writes1 s a) (writes1 t a)) (= s t)))",
        (Mutant("a lock with two holders", "(=> (and (locks1 s a) (locks1 t a)) (= s t))", "true"),
         Mutant("writing what is not locked", "(=> (and (writes1 t a) (wants1 t b)) (locks1 t b))", "true")),
        _WORLD,
    ),
    Statement(
        "locks_are_taken_in_ascending_order",
        "By the invariant, nobody waits for a lock below one that it holds: no circle of waiting can close.",
        _SORTS + _STATE.declared("1"), invariant("1"),
        "(forall ((t Thread) (a Int) (b Int)) (=> (and (queued1 t a) (locks1 t b)) (< b a)))",
        (Mutant("locks taken in any order", "(=> (and (locks1 t a) (wants1 t b) (not (locks1 t b))) (< a b))",
                "true"),),
        _WORLD,
    ),
)  # fmt: skip
