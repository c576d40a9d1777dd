"""The cache that grows: what `tla/foundry/CacheGrowth.tla` says, for any heads, blocks, budgets and lengths.

The place of a token of a head is `head * capacity + position`. The first statement says that no two tokens share a
place, whatever the capacity; by it a place has one head and one position, and the statements about the buffers speak of
`place`, `head_of` and `position_of` only: `old_…` of the cache, `new_…` of the buffer that is being filled.
spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_STATE = State(
    {"cache": (("Int",), "Token"), "next": (("Int",), "Token"), "filled": (("Int",), "Bool")},
    ("length",),
)


def _layout(name: str) -> str:
    return (
        f"(declare-fun {name}_place (Int Int) Int)(declare-fun {name}_head_of (Int) Int)"
        f"(declare-fun {name}_position_of (Int) Int)(declare-const {name}_capacity Int)"
    )


def _one_place_each(name: str) -> str:
    """Every token has a place of its own: what `tokens_have_places_of_their_own` says."""
    return (
        f"(forall ((h Int) (p Int)) (=> (and (<= 0 h) (< h heads) (<= 0 p) (< p {name}_capacity))"
        f" (and (= h ({name}_head_of ({name}_place h p))) (= p ({name}_position_of ({name}_place h p))))))"
    )


_SORTS = "(declare-sort Token 0)(declare-fun token (Int Int) Token)(declare-const heads Int)"
_LAYOUTS = _layout("old") + _layout("new")
_HYPOTHESES = (_one_place_each("old"), _one_place_each("new"), "(<= old_capacity new_capacity)")


def _rows(buffer: str, layout: str, length: str, which: str = "true") -> str:
    """The tokens up to `length` of the heads h for which `which` holds are where a reader looks for them."""
    return (
        f"(forall ((h Int) (p Int)) (=> (and (<= 0 h) (< h heads) {which} (<= 0 p) (< p {length}))"
        f" (= (token h p) ({buffer} ({layout}_place h p)))))"
    )


def invariant(s: str, layout: str = "old") -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    return (
        f"(<= 0 length{s})", f"(<= length{s} {layout}_capacity)",
        # NothingIsLost: every token of every head is where a reader looks for it.
        _rows(f"cache{s}", layout, f"length{s}"),
    )  # fmt: skip


def copied(s: str) -> str:
    """The heads that are filled have all their tokens in the new buffer, at the places that they have there."""
    return _rows(f"next{s}", "new", f"length{s}", f"(filled{s} h)")


_BOTH = _SORTS + _LAYOUTS + _STATE.declared("0") + _STATE.declared("1")
_WORLD = World({"Token": 2}, 0, 2)
_ROOM = "(<= (+ length0 pending) old_capacity)"
_STORES = (
    "(forall ((b Int)) (= (cache1 b) (ite (and (<= length0 (old_position_of b)) (< (old_position_of b) length1))"
    " (token (old_head_of b) (old_position_of b)) (cache0 b))))"
)
_COPIES = (
    "(forall ((b Int)) (= (next1 b) (ite (and (= x (new_head_of b)) (<= 0 (new_position_of b))"
    " (< (new_position_of b) length0)) (cache0 (old_place x (new_position_of b))) (next0 b))))"
)
_FILLED = _STATE.becomes("filled", ("x",), "true")
_ALL_FILLED = "(forall ((h Int)) (=> (and (<= 0 h) (< h heads)) (filled0 h)))"
_SWITCHES = "(forall ((b Int)) (= (cache1 b) (next0 b)))"

_SIZES = """
(declare-const strict Bool)(declare-const block Int)(declare-const budget Int)(declare-const capacity Int)
(declare-const required Int)(declare-const old_blocks Int)
(declare-const required_blocks Int)(declare-const maximum_blocks Int)
(declare-const budget_blocks Int)(declare-const rest_blocks Int)
(define-fun least ((a Int) (b Int)) Int (ite (< a b) a b))
(define-fun most ((a Int) (b Int)) Int (ite (> a b) a b))
(define-fun limit () Int (least (* block maximum_blocks) (* block budget_blocks)))
(define-fun reachable () Int (ite strict (least limit (* block rest_blocks)) limit))
(define-fun wanted () Int (least (most (* 2 capacity) (* block required_blocks)) reachable))
"""
_IN_BLOCKS = "(= capacity (* block old_blocks))"
_DOWN = ("(<= (* block budget_blocks) budget)", "(<= (* block rest_blocks) (- budget capacity))")
_UP = "(<= required (* block required_blocks))"
_ALLOWED = "(<= required wanted)"

STATEMENTS = (
    Statement(
        "tokens_have_places_of_their_own",
        "Two tokens with one place are of one head and at one position, whatever the capacity.",
        "(declare-const capacity Int)(declare-const g Int)(declare-const h Int)(declare-const p Int)"
        "(declare-const q Int)",
        ("(<= 0 p)", "(< p capacity)", "(<= 0 q)", "(< q capacity)",
         "(= (+ (* g capacity) p) (+ (* h capacity) q))"),
        "(and (= g h) (= p q))",
        (Mutant("a position beyond the row", "(assume (< q capacity))", ""),
         Mutant("rows of one token each", "(* h capacity)", "h")),
        World({}, 0, 3),
    ),
    Statement(
        "a_growing_cache_keeps_to_blocks_and_budget",
        "The capacity to which a cache grows is of whole blocks, larger than the old one, and within the"
        " budget; in strict mode it is so together with the old one.",
        _SIZES,
        ("(<= 1 block)", "(<= 1 capacity)", _IN_BLOCKS, "(<= capacity budget)", *_DOWN, "(< capacity required)",
         _ALLOWED),
        "(and (or (= wanted (* block (* 2 old_blocks))) (= wanted (* block required_blocks))"
        " (= wanted (* block maximum_blocks)) (= wanted (* block budget_blocks)) (= wanted (* block rest_blocks)))"
        " (< capacity wanted) (<= wanted budget)"
        " (<= (+ capacity wanted) (ite strict budget (* 2 budget))))",
        (Mutant("the budget is rounded up", assumed(_DOWN[0]), "(assume (<= budget (* block budget_blocks)))"),
         Mutant("strict is not", "(least limit (* block rest_blocks))", "limit"),
         Mutant("as required", "(* block required_blocks)) reachable", "required) reachable"),
         Mutant("the old capacity is not of blocks", assumed(_IN_BLOCKS), ""),
         Mutant("what the budget does not allow", assumed(_ALLOWED), "")),
        World({}, 0, 8),
    ),
    Statement(
        "a_cache_doubles_or_reaches_its_limit",
        "Outside strict mode a cache grows to twice its capacity at least, or to its limit.",
        _SIZES,
        (_UP, _ALLOWED, "(not strict)"),
        "(or (<= (* 2 capacity) wanted) (= wanted limit))",
        (Mutant("block by block", "(most (* 2 capacity) (* block required_blocks))", "(* block required_blocks)"),
         Mutant("in strict mode too", "(assume (not strict))", "")),
        World({}, 0, 8),
    ),
    Statement(
        "a_cache_begins_right",
        "A cache without tokens has lost none.",
        _SORTS + _layout("old") + _STATE.declared("1"),
        ("(= length1 0)", "(<= 1 old_capacity)"),
        all_of(invariant("1")),
        (Mutant("a token that nobody stored", "(= length1 0)", "(= length1 1)"),),
        _WORLD,
    ),
    Statement(
        "storing_loses_nothing",
        "Tokens that are stored where there is room, each in the row of its head, leave all others where they are.",
        _BOTH + "(declare-const pending Int)",
        (*_HYPOTHESES, *invariant("0"), "(<= 0 pending)", _ROOM, "(= length1 (+ length0 pending))", _STORES),
        all_of(invariant("1")),
        (Mutant("room is not asked for", assumed(_ROOM), ""),
         Mutant("over the last token", "(<= length0 (old_position_of b))", "(< length0 (old_position_of b))")),
        _WORLD,
    ),
    Statement(
        "growing_begins_with_nothing_copied",
        "A buffer of which no head is filled may hold anything: all heads that are filled are copied.",
        _BOTH,
        (*invariant("0"), "(forall ((h Int)) (not (filled1 h)))", *_STATE.same("cache", "length")),
        all_of((*invariant("1"), copied("1"))),
        (Mutant("a head counts as filled", "(not (filled1 h))", "(not (and (= h 1) (filled1 h)))"),),
        _WORLD,
    ),
    Statement(
        "copying_a_head_loses_nothing",
        "Copying the row of one head to where it begins now keeps the cache and the heads that were copied before.",
        _BOTH + "(declare-const x Int)",
        (*_HYPOTHESES, *invariant("0"), copied("0"), "(<= 0 x)", "(< x heads)", _COPIES, _FILLED,
         *_STATE.same("cache", "length")),
        all_of((*invariant("1"), copied("1"))),
        (Mutant("one copy, rows as they lay", "(cache0 (old_place x (new_position_of b)))", "(cache0 b)"),
         Mutant("the last token is left out", "(< (new_position_of b) length0)",
                "(< (+ 1 (new_position_of b)) length0)"),
         Mutant("the new buffer is smaller", assumed(_HYPOTHESES[2]), "")),
        _WORLD,
    ),
    Statement(
        "switching_loses_nothing",
        "When all heads are copied, the new buffer is a cache that has lost nothing, at its own capacity.",
        _BOTH,
        (*_HYPOTHESES, *invariant("0"), copied("0"), _ALL_FILLED, _SWITCHES, *_STATE.same("length")),
        all_of(invariant("1", "new")),
        (Mutant("switches early", assumed(_ALL_FILLED), ""),
         Mutant("the old buffer at the new capacity", _SWITCHES, _STATE.same("cache")[0]),
         Mutant("a smaller buffer", assumed(_HYPOTHESES[2]), "")),
        _WORLD,
    ),
    Statement(
        "failing_to_grow_loses_nothing",
        "Where memory cannot be had, before the copy or in the middle of it, the old cache stands as it was.",
        _BOTH,
        (*_HYPOTHESES, *invariant("0"), copied("0"), *_STATE.same("cache", "length")),
        all_of(invariant("1")),
        (Mutant("the old cache is given up first", _STATE.same("cache")[0], "true"),),
        _WORLD,
    ),
)  # fmt: skip
