"""The cache that grows: `tla/foundry/CacheGrowth.tla` for any heads, blocks, budgets and lengths.

The place of a token of a head is `head * capacity + position`. By the first statement no two tokens share a place,
whatever the capacity; so a place at a capacity has one head and one position, and the machine has functions of a
capacity for just that: `place`, `head_of` and `position_of`. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.lemmas.engine.statements import Mutant, Statement, World

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

ARITHMETIC = (
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
        (Mutant("the budget is rounded up", f"(assume {_DOWN[0]})", "(assume (<= budget (* block budget_blocks)))"),
         Mutant("strict is not", "(least limit (* block rest_blocks))", "limit"),
         Mutant("as required", "(* block required_blocks)) reachable", "required) reachable"),
         Mutant("the old capacity is not of blocks", f"(assume {_IN_BLOCKS})", ""),
         Mutant("what the budget does not allow", f"(assume {_ALLOWED})", "")),
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
)  # fmt: skip

_IN_NEW = """(set (next ?b) (ite (and (= x (head_of larger ?b)) (<= 0 (position_of larger ?b))
(< (position_of larger ?b) length)) (cache (place capacity x (position_of larger ?b))) (next ?b)))"""

MACHINE = Machine(
    "cache_growth",
    "Every token of every head is where a reader looks for it, while the cache grows too.",
    """
    (declare-sort Token 0)(declare-fun token (Int Int) Token)(declare-const heads Int)
    (declare-fun place (Int Int Int) Int)(declare-fun head_of (Int Int) Int)(declare-fun position_of (Int Int) Int)
    """,
    """
    (capacity () Int) (cache (Int) Token) (length () Int)
    ; the buffer that is being filled, its capacity, and the heads that are copied
    (growing () Bool) (larger () Int) (next (Int) Token) (filled (Int) Bool)""",
    MachineRule(
        "Init",
        "A cache without tokens.",
        "(= length 0) (<= 1 capacity) (not growing)",
        (Mutant("a token that was never stored", "(= length 0)", "(= length 1)"),),
    ),
    """
    (<= 0 length) (<= length capacity) (=> growing (< capacity larger))
    ; NothingIsLost: every token of every head is where a reader looks for it.
    (forall ((h Int) (p Int)) (=> (and (<= 0 h) (< h heads) (<= 0 p) (< p length))
      (= (token h p) (cache (place capacity h p)))))
    ; The heads that are filled have all their tokens in the new buffer, at the places that they have there.
    (forall ((h Int) (p Int)) (=> (and growing (filled h) (<= 0 h) (< h heads) (<= 0 p) (< p length))
      (= (token h p) (next (place larger h p)))))""",
    (
        MachineRule(
            "Store",
            "Tokens are stored where there is room, each in the row of its head.",
            """(any pending Int) (not growing) (<= 0 pending) (<= (+ length pending) capacity)
            (set length (+ length pending))
            (set (cache ?b) (ite (and (<= length (position_of capacity ?b)) (< (position_of capacity ?b) length'))
              (token (head_of capacity ?b) (position_of capacity ?b)) (cache ?b)))""",
            (Without("room is not asked for", "(<= (+ length pending) capacity)"),
             Mutant("over the last token", "(<= length (position_of capacity ?b))",
                    "(< length (position_of capacity ?b))"),
             Without("while it grows", "(not growing)")),
        ),
        MachineRule(
            "Grow",
            "A larger buffer of any content is made, with no head filled.",
            """(any next') (not growing) (any wanted Int) (< capacity wanted)
            (set growing true) (set larger wanted) (set (filled ?h) false)""",
            (Mutant("a head counts as filled", "(set (filled ?h) false)", "(set (filled ?h) (= ?h 0))"),
             Without("it is not larger", "(< capacity wanted)")),
        ),
        MachineRule(
            "Copy",
            "The row of one head is copied to where it begins in the larger buffer.",
            f"(any x Int) (= growing true) (<= 0 x) (< x heads) {_IN_NEW} (set (filled x) true)",
            (Mutant("one copy, rows as they lay", "(cache (place capacity x (position_of larger ?b)))", "(cache ?b)"),
             Mutant("the last token is left out", "(< (position_of larger ?b) length)",
                    "(< (+ 1 (position_of larger ?b)) length)")),
        ),
        MachineRule(
            "Switch",
            "When all heads are copied, the new buffer is the cache, at its own capacity.",
            """(= growing true) (forall ((h Int)) (=> (and (<= 0 h) (< h heads)) (filled h))) (any next') (any filled')
            (any larger') (set (cache ?b) (next ?b)) (set capacity larger) (set growing false)""",
            (Without("switches early", "(filled h)"),
             Without("the old buffer at the new capacity", "(set (cache ?b) (next ?b))"),
             Without("the new buffer at the old capacity", "(set capacity larger)")),
        ),
        MachineRule(
            "Fail",
            "Where memory cannot be had, before the copy or in the middle of it, the old cache stands as it was.",
            "(any next') (any filled') (any larger') (set growing false)",
            (Mutant("the old cache is given up first", "(set growing false)", "(set growing false) (any cache')"),
             Without("it counts as growing", "(set growing false)")),
        ),
    ),
    World({"Token": 2}, 0, 2),
    assumed="""
    ; Every token has a place of its own, at each capacity.
    (forall ((c Int) (h Int) (p Int)) (=> (and (<= 0 h) (< h heads) (<= 0 p) (< p c))
      (and (= h (head_of c (place c h p))) (= p (position_of c (place c h p))))))""",
)  # fmt: skip
LEMMAS = (*ARITHMETIC, *MACHINE.lemmas())
