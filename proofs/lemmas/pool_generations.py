"""The pool with generations: what `tla/foundry/PoolGenerations.tla` says, for any chunks, handles and resets.

A handle has its chunk, first byte, number of bytes and generation for good; `given` says which were given out. Which of
the chunks with room a request takes matters to no clause. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_STATE = State(
    {"given": (("Handle",), "Bool"), "cursor": (("Int",), "Int"), "content": (("Int", "Int"), "Handle")},
    ("generation", "opened"),
)
_SORTS = """
(declare-sort Handle 0)(declare-const nobody Handle)
(declare-fun chunk (Handle) Int)(declare-fun first (Handle) Int)(declare-fun bytes (Handle) Int)
(declare-fun of (Handle) Int)(declare-fun room (Int) Int)
"""
_BYTE = "(<= (first {h}) {b}) (< {b} (+ (first {h}) (bytes {h})))"
"""The byte {b} of its chunk is one of the handle {h}."""


def _byte(handle: str, byte: str) -> str:
    return _BYTE.format(h=handle, b=byte)


def _current(handle: str, s: str) -> str:
    return f"(given{s} {handle}) (= (of {handle}) generation{s})"


def invariant(s: str) -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    return (
        # A handle that was given out is a handle, of a generation that has been.
        f"(forall ((h Handle)) (=> (given{s} h) (and (distinct h nobody) (<= (of h) generation{s}))))",
        # An open chunk is given out up to its cursor, and no further than it reaches.
        f"(forall ((c Int)) (=> (and (<= 0 c) (< c opened{s})) (and (<= 0 (cursor{s} c)) (<= (cursor{s} c)"
        " (room c)))))",
        # InBounds: a handle of now lies within what was given out of its chunk.
        f"(forall ((h Handle)) (=> (and {_current('h', s)}) (and (<= 0 (chunk h)) (< (chunk h) opened{s})"
        f" (<= 0 (first h)) (<= (+ (first h) (bytes h)) (cursor{s} (chunk h))))))",
        # CurrentAreDisjoint: handles of now share no byte.
        f"(forall ((g Handle) (h Handle)) (=> (and {_current('g', s)} {_current('h', s)} (distinct g h)"
        " (= (chunk g) (chunk h)))"
        " (or (<= (+ (first g) (bytes g)) (first h)) (<= (+ (first h) (bytes h)) (first g)))))",
        # A byte was written through a handle that was given out, or by nobody.
        f"(forall ((c Int) (b Int)) (or (= nobody (content{s} c b)) (given{s} (content{s} c b))))",
        # Where one byte of a handle of now is its own, all are.
        f"(forall ((h Handle) (a Int) (b Int)) (=> (and {_current('h', s)} {_byte('h', 'a')} {_byte('h', 'b')}"
        f" (= h (content{s} (chunk h) a))) (= h (content{s} (chunk h) b))))",
    )


_BOTH = _SORTS + _STATE.declared("0") + _STATE.declared("1")
_AFTER = all_of(invariant("1"))
_H = "(declare-const x Handle)"
_WORLD = World({"Handle": 3}, 0, 2)
_NEW = ("(not (given0 x))", "(distinct x nobody)", "(= (of x) generation0)", "(<= 0 (bytes x))")
_GIVES = _STATE.becomes("given", ("x",), "true")
_FITS = "(<= (+ (first x) (bytes x)) (room (chunk x)))"
_TAKES = _STATE.becomes("cursor", ("(chunk x)",), "(+ (first x) (bytes x))")
_RAISES = "(= generation1 (+ generation0 1))"
_WRITES = (
    f"(forall ((c Int) (b Int)) (= (content1 c b) (ite (and (= c (chunk x)) {_byte('x', 'b')}) x (content0 c b))))"
)
_IS_CURRENT = "(= generation0 (of x))"

STATEMENTS = (
    Statement(
        "a_pool_begins_right",
        "A pool with one chunk, of which nothing was given out and nothing written, fulfils the invariant.",
        _SORTS + _STATE.declared("1"),
        ("(forall ((h Handle)) (not (given1 h)))", "(= generation1 0)", "(= opened1 1)", "(= (cursor1 0) 0)",
         "(<= 0 (room 0))", "(forall ((c Int) (b Int)) (= nobody (content1 c b)))"),
        _AFTER,
        (Mutant("the cursor begins beyond the chunk", "(= (cursor1 0) 0)", "(= (cursor1 0) 1)"),),
        _WORLD,
    ),
    Statement(
        "taking_from_a_chunk_with_room_keeps_the_pool",
        "A handle that begins at the cursor of an open chunk with room for it keeps the invariant.",
        _BOTH + _H,
        (*invariant("0"), *_NEW, "(<= 0 (chunk x))", "(< (chunk x) opened0)", "(= (first x) (cursor0 (chunk x)))",
         _FITS, _GIVES, _TAKES, *_STATE.others("given", "cursor")),
        _AFTER,
        (Mutant("the cursor stays", _TAKES, _STATE.same("cursor")[0]),
         Mutant("room is not asked for", assumed(_FITS), ""),
         Mutant("the handle begins anywhere", "(= (first x) (cursor0 (chunk x)))", "(<= 0 (first x))")),
        _WORLD,
    ),
    Statement(
        "opening_a_chunk_keeps_the_pool",
        "A handle that begins a chunk which is opened for it, and which is large enough, keeps the invariant.",
        _BOTH + _H,
        (*invariant("0"), *_NEW, "(<= 0 opened0)", "(= (chunk x) opened0)", "(= (first x) 0)", _FITS, _GIVES, _TAKES,
         "(= opened1 (+ opened0 1))", *_STATE.others("given", "cursor", "opened")),
        _AFTER,
        (Mutant("a chunk that is too small", assumed(_FITS), ""),
         Mutant("the chunk is not counted", "(= opened1 (+ opened0 1))", "(= opened1 opened0)")),
        _WORLD,
    ),
    Statement(
        "a_reset_keeps_the_pool",
        "Emptying all chunks and raising the generation keeps the invariant, whatever handles are still held.",
        _BOTH,
        (*invariant("0"), _RAISES, "(forall ((c Int)) (=> (and (<= 0 c) (< c opened0)) (= (cursor1 c) 0)))",
         *_STATE.others("cursor", "generation")),
        _AFTER,
        (Mutant("the generation is not raised", _RAISES, "(= generation1 generation0)"),
         Mutant("the generation falls", _RAISES, "(= generation1 (- generation0 1))")),
        _WORLD,
    ),
    Statement(
        "a_write_through_a_handle_of_now_keeps_the_pool",
        "A write through a handle of now into its own bytes keeps the invariant.",
        _BOTH + _H,
        (*invariant("0"), "(given0 x)", _IS_CURRENT, _WRITES, *_STATE.others("content")),
        _AFTER,
        (Mutant("a stale handle writes", assumed(_IS_CURRENT), ""),),
        _WORLD,
    ),
    Statement(
        "a_write_leaves_the_bytes_of_other_handles",
        "By the invariant, a write through a handle of now changes no byte of another handle of now.",
        _BOTH + _H,
        (*invariant("0"), "(given0 x)", _IS_CURRENT, _WRITES),
        f"(forall ((h Handle) (b Int)) (=> (and {_current('h', '0')} (distinct h x) {_byte('h', 'b')})"
        " (= (content1 (chunk h) b) (content0 (chunk h) b))))",
        (Mutant("a stale handle writes", assumed(_IS_CURRENT), ""),),
        _WORLD,
    ),
    Statement(
        "a_read_that_is_granted_finds_its_own",
        "By the invariant, a handle of now through which a byte was written finds nothing but what was written through"
        " it.",
        _SORTS + _STATE.declared("0") + _H + "(declare-const a Int)",
        (*invariant("0"), "(given0 x)", _IS_CURRENT, f"(and {_byte('x', 'a')})",
         "(= x (content0 (chunk x) a))"),
        f"(forall ((b Int)) (=> (and {_byte('x', 'b')}) (= x (content0 (chunk x) b))))",
        (Mutant("a stale handle reads", assumed(_IS_CURRENT), ""),),
        _WORLD,
    ),
    Statement(
        "who_is_refused_is_from_before_a_reset",
        "By the invariant, a handle whose generation is not the pool's is of an earlier one.",
        _SORTS + _STATE.declared("0") + _H,
        (*invariant("0"), "(given0 x)", "(distinct generation0 (of x))"),
        "(< (of x) generation0)",
        (Mutant("a handle that nobody was given", "(assume (given0 x))", ""),),
        _WORLD,
    ),
)  # fmt: skip
