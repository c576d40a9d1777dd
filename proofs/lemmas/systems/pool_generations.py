"""The pool with generations: `tla/foundry/PoolGenerations.tla` for any chunks, handles and resets.

A handle has its chunk, first byte, number of bytes and generation for good; `given` holds of those given out. Which of
the chunks with room a request takes matters to no clause. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.lemmas.engine.statements import Mutant, World


def _byte(handle: str, byte: str) -> str:
    """The byte of its chunk is one of the handle."""
    return f"(<= (first {handle}) {byte}) (< {byte} (+ (first {handle}) (bytes {handle})))"


def _current(handle: str) -> str:
    """The handle was given out in the current generation."""
    return f"(given {handle}) (= (of {handle}) generation)"


_NEW = """(any x Handle) (not (given x)) (distinct x none) (= (of x) generation) (<= 0 (bytes x))
(<= (+ (first x) (bytes x)) (room (chunk x)))
(set (given x) true) (set (cursor (chunk x)) (+ (first x) (bytes x)))"""
_CURRENT = "(any x Handle) (given x) (= generation (of x))"

MACHINE = Machine(
    "pool_generations",
    "Handles of the current generation share no byte and lie in bounds.",
    """
    (declare-sort Handle 0)(declare-const none Handle)
    (declare-fun chunk (Handle) Int)(declare-fun first (Handle) Int)(declare-fun bytes (Handle) Int)
    (declare-fun of (Handle) Int)(declare-fun room (Int) Int)""",
    "(given (Handle) Bool) (cursor (Int) Int) (content (Int Int) Handle) (generation () Int) (opened () Int)",
    MachineRule(
        "Init",
        "One chunk is open, of which nothing was given out and nothing written.",
        """
        (forall ((h Handle)) (not (given h))) (= generation 0) (= opened 1) (= (cursor 0) 0) (<= 0 (room 0))
        (forall ((c Int) (b Int)) (= none (content c b)))""",
        (Mutant("the cursor begins beyond the chunk", "(= (cursor 0) 0)", "(= (cursor 0) 1)"),),
    ),
    f"""
    ; A handle that was given out is of a generation that has been.
    (forall ((h Handle)) (=> (given h) (and (distinct h none) (<= (of h) generation))))
    ; An open chunk is given out up to its cursor, and no further than it reaches.
    (forall ((c Int)) (=> (and (<= 0 c) (< c opened)) (and (<= 0 (cursor c)) (<= (cursor c) (room c)))))
    ; InBounds: a current handle lies within what was given out of its chunk.
    (forall ((h Handle)) (=> (and {_current('h')}) (and (<= 0 (chunk h)) (< (chunk h) opened) (<= 0 (first h))
      (<= (+ (first h) (bytes h)) (cursor (chunk h))))))
    ; CurrentAreDisjoint: current handles share no byte.
    (forall ((g Handle) (h Handle)) (=> (and {_current('g')} {_current('h')} (distinct g h) (= (chunk g) (chunk h)))
      (or (<= (+ (first g) (bytes g)) (first h)) (<= (+ (first h) (bytes h)) (first g)))))
    ; A byte was written through a handle that was given out, or never.
    (forall ((c Int) (b Int)) (or (= none (content c b)) (given (content c b))))
    ; Where one byte of a current handle was written through it, all were.
    (forall ((h Handle) (a Int) (b Int)) (=> (and {_current('h')} {_byte("h", "a")} {_byte("h", "b")}
      (= h (content (chunk h) a))) (= h (content (chunk h) b))))""",
    (
        MachineRule(
            "Take",
            "A handle begins at the cursor of an open chunk with room for it.",
            f"{_NEW} (<= 0 (chunk x)) (< (chunk x) opened) (= (first x) (cursor (chunk x)))",
            (Without("the cursor stays", "(set (cursor"), Without("room is not asked for", "(room (chunk x))"),
             Mutant("the handle begins anywhere", "(= (first x) (cursor (chunk x)))", "(<= 0 (first x))")),
        ),
        MachineRule(
            "Grow",
            "A handle begins a chunk that is opened for it and is large enough.",
            f"{_NEW} (<= 0 opened) (= (chunk x) opened) (= (first x) 0) (set opened (+ opened 1))",
            (Without("a chunk that is too small", "(room (chunk x))"),
             Without("the chunk is not counted", "(set opened (+ opened 1))")),
        ),
        MachineRule(
            "Reset",
            "All chunks are emptied and the generation is raised, whatever handles are still held.",
            """(any cursor') (forall ((c Int)) (=> (and (<= 0 c) (< c opened)) (= (cursor' c) 0)))
            (set generation (+ generation 1))""",
            (Without("the generation is not raised", "(set generation"),
             Mutant("the generation falls", "(+ generation 1)", "(- generation 1)")),
        ),
        MachineRule(
            "Write",
            "A write through a current handle into its own bytes changes no byte of another current handle.",
            f"""{_CURRENT} (set (content ?c ?b) (ite (and (= ?c (chunk x)) {_byte("x", "?b")}) x (content ?c ?b)))
            (gives (forall ((h Handle) (b Int)) (=> (and {_current("h")} (distinct h x) {_byte("h", "b")})
              (= (content' (chunk h) b) (content (chunk h) b)))))""",
            (Without("a stale handle writes", "(= generation (of x))"),
             Mutant("beyond its bytes", f"(and (= ?c (chunk x)) {_byte('x', '?b')})", "(= ?c (chunk x))")),
        ),
    ),
    World({"Handle": 3}, 0, 2),
    promises=(
        MachineRule(
            "a_read_finds_what_was_written_through_its_handle",
            "A current handle through which a byte was written finds nothing but what was written through it.",
            f"""{_CURRENT} (any a Int) (and {_byte("x", "a")}) (= x (content (chunk x) a))
            (gives (forall ((b Int)) (=> (and {_byte("x", "b")}) (= x (content (chunk x) b)))))""",
            (Without("a stale handle reads", "(= generation (of x))"),),
        ),
        MachineRule(
            "a_refused_handle_is_of_an_earlier_generation",
            "A handle whose generation is not the pool's is of an earlier one.",
            "(any x Handle) (given x) (distinct generation (of x)) (gives (< (of x) generation))",
            (Without("a handle that was never given out", "(given x)"),),
        ),
    ),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
