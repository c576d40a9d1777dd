"""The cache that grows: `tla/foundry/CacheGrowth.tla` for any heads, blocks, budgets and lengths.

The place of a token of a head is `head * capacity + position`. By the first statement no two tokens share a place,
whatever the capacity. A place at a capacity therefore has one head and one position, and the machine has functions of a
capacity for exactly these: `place`, `head_of` and `position_of`. The machine is the cache of one session. The budget of
several caches is a separate statement; sums over sessions are those of `totals`.
spec: V4.9, FD4.3, FD4.8, FD4.9, FD4.11
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, Statement, World

_SIZES = """
(declare-const strict Bool)(declare-const block Int)(declare-const budget Int)(declare-const capacity Int)
(declare-const required Int)(declare-const old_blocks Int)
(declare-const required_blocks Int)(declare-const maximum_blocks Int)(declare-const room_blocks Int)
; what other caches have, and what of them is kept beside new buffers
(declare-const others Int)(declare-const kept Int)
(define-fun least ((a Int) (b Int)) Int (ite (< a b) a b))
(define-fun most ((a Int) (b Int)) Int (ite (> a b) a b))
(define-fun room () Int (- budget (ite strict (+ others kept capacity) others)))
(define-fun limit () Int (least (* block maximum_blocks) (* block room_blocks)))
(define-fun wanted () Int (least (most (* 2 capacity) (* block required_blocks)) limit))
"""
_IN_BLOCKS = "(= capacity (* block old_blocks))"
_DOWN = "(<= (* block room_blocks) room)"
_UP = "(<= required (* block required_blocks))"
_ALLOWED = "(<= (* block required_blocks) wanted)"

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
        "A cache grows to whole blocks of bytes, more than before, and is within the budget together with the other"
        " caches. With all buffers that are kept, they are within the budget in strict mode, and within twice the"
        " budget otherwise.",
        _SIZES,
        ("(<= 1 block)", "(<= 0 capacity)", _IN_BLOCKS, "(<= 0 kept)", "(<= kept others)", _DOWN,
         "(< capacity required)", _UP, _ALLOWED),
        "(and (or (= wanted (* block (* 2 old_blocks))) (= wanted (* block required_blocks))"
        " (= wanted (* block maximum_blocks)) (= wanted (* block room_blocks)))"
        " (< capacity wanted) (<= (+ others wanted) budget)"
        " (<= (+ others kept capacity wanted) (ite strict budget (* 2 budget))))",
        (Mutant("the budget is rounded up", f"(assume {_DOWN})", "(assume (<= room (* block room_blocks)))"),
         Mutant("strict is not", "(ite strict (+ others kept capacity) others)", "others"),
         Mutant("each for itself", "(ite strict (+ others kept capacity) others)", "(ite strict (+ kept capacity) 0)"),
         Mutant("the old capacity is not of blocks", f"(assume {_IN_BLOCKS})", ""),
         Mutant("more is kept than there is", "(assume (<= kept others))", ""),
         Mutant("what the budget does not allow", f"(assume {_ALLOWED})", "")),
        World({}, 0, 8),
    ),
    Statement(
        "a_cache_doubles_or_reaches_its_limit",
        "A cache grows to twice its capacity at least, or to the limit that its maximum and the budget set.",
        _SIZES,
        (),
        "(or (<= (* 2 capacity) wanted) (= wanted limit))",
        (Mutant("block by block", "(most (* 2 capacity) (* block required_blocks))", "(* block required_blocks)"),),
        World({}, 0, 8),
    ),
)  # fmt: skip

_IN_NEW = """(set (next ?b) (ite (and (= x (head_of larger ?b)) (<= 0 (position_of larger ?b))
(< (position_of larger ?b) length)) (cache (place capacity x (position_of larger ?b))) (next ?b)))"""
_STILL = "(forall ((c Command)) (=> (< 0 (in_flight c)) (= 0 (count c))))"
_UNREAD = "(forall ((c Command)) (=> (< 0 (in_flight c)) (distinct (of c) kept_capacity)))"

_ONE_HEAD = (
    "(define-fun heads () Int 1)(define-fun place ((c Int) (h Int) (p Int)) Int p)"
    "(define-fun head_of ((c Int) (b Int)) Int 0)(define-fun position_of ((c Int) (b Int)) Int b)"
)
"""A case with one head, whose tokens are stored by their positions."""

MACHINE = Machine(
    "cache_growth",
    "Every token of every head is where a reader looks for it once its pass has ended, even while the cache grows. A"
    " pass in flight finds what it reads, and a copy in flight has a buffer to write to.",
    """
    (declare-sort Token 0)(declare-fun token (Int Int) Token)(declare-const heads Int)
    (declare-fun place (Int Int Int) Int)(declare-fun head_of (Int Int) Int)(declare-fun position_of (Int Int) Int)
    ; a pass: the capacity of the buffer that it reads, and the tokens that it writes
    (declare-sort Command 0)(declare-fun of (Command) Int)(declare-fun first (Command) Int)
    (declare-fun count (Command) Int)
    """,
    """
    (capacity () Int) (cache (Int) Token) (length () Int)
    ; the buffer that is being filled, its capacity, the heads that are copied, and those whose copy is in flight
    (growing () Bool) (larger () Int) (next (Int) Token) (filled (Int) Bool) (copying (Int) Bool)
    ; the buffer that was replaced; how many of each pass are in flight, and one that may be to write a position
    (kept () Bool) (kept_capacity () Int) (in_flight (Command) Int) (writer (Int) Command)""",
    MachineRule(
        "Init",
        "No cache.",
        "(= 0 capacity length) (not growing) (not kept) (forall ((c Command)) (= 0 (in_flight c)))"
        " (forall ((h Int)) (not (copying h)))",
        (Mutant("a token that was never stored", "(= 0 capacity length)", "(= 1 capacity length)"),),
    ),
    """
    (<= 0 length) (<= length capacity) (=> growing (< capacity larger)) (=> growing (not kept))
    (=> kept (and (< 0 kept_capacity) (< kept_capacity capacity)))
    (forall ((c Command)) (<= 0 (in_flight c)))
    ; ReadsFindTheirBuffer: what a pass in flight reads has not been given back.
    (forall ((c Command)) (=> (< 0 (in_flight c))
      (and (< 0 (of c)) (or (= (of c) capacity) (and kept (= (of c) kept_capacity))))))
    ; WritesGoToTheCache, and none is in flight once a head is copied.
    (forall ((c Command)) (=> (and (< 0 (in_flight c)) (< 0 (count c))) (= (of c) capacity)))
    (forall ((c Command) (h Int)) (=> (and growing (filled h) (< 0 (in_flight c))) (<= (count c) 0)))
    ; CopiesHaveATarget.
    (forall ((h Int)) (=> (copying h) (and growing (< 0 length) (not (filled h)) (<= 0 h) (< h heads))))
    ; NothingIsLost: every token of every head is where a reader looks for it, but for those still to be written.
    (forall ((h Int) (p Int)) (=> (and (<= 0 h) (< h heads) (<= 0 p) (< p length)) (or
      (and (< 0 (in_flight (writer p))) (<= (first (writer p)) p) (< p (+ (first (writer p)) (count (writer p)))))
      (= (token h p) (cache (place capacity h p))))))
    ; The heads that are filled have all their tokens in the new buffer, at the places that they have there.
    (forall ((h Int) (p Int)) (=> (and growing (filled h) (<= 0 h) (< h heads) (<= 0 p) (< p length))
      (= (token h p) (next (place larger h p)))))""",
    (
        MachineRule(
            "Grow",
            "A larger buffer of any content is made, with no head filled.",
            """(any next') (not growing) (not kept) (any wanted Int) (< capacity wanted)
            (set growing true) (set larger wanted) (set (filled ?h) false)""",
            (Mutant("a head counts as filled", "(set (filled ?h) false)", "(set (filled ?h) (= ?h 0))"),
             Without("it is not larger", "(< capacity wanted)")),
        ),
        MachineRule(
            "Blit",
            "The copy of a head is submitted, if there is something to copy.",
            "(any x Int) (= growing true) (< 0 length) (<= 0 x) (< x heads) (not (filled x)) (set (copying x) true)",
            (Without("without a buffer to write to", "(= growing true)"),
             Without("of a head that is copied", "(not (filled x))")),
        ),
        MachineRule(
            "Copy",
            "The row of one head is copied to its new place in the larger buffer, after all passes that write.",
            f"(any x Int) (copying x) {_STILL} {_IN_NEW} (set (filled x) true) (set (copying x) false)",
            (Mutant("one copy, rows as they lay", "(cache (place capacity x (position_of larger ?b)))", "(cache ?b)"),
             Mutant("the last token is left out", "(< (position_of larger ?b) length)",
                    "(< (+ 1 (position_of larger ?b)) length)"),
             Without("before a pass that writes", _STILL)),
        ),
        MachineRule(
            "Break",
            "A copy fails.",
            "(any x Int) (copying x) (set (copying x) false)",
            (Mutant("its head counts as filled", "(set (copying x) false)",
                    "(set (copying x) false) (set (filled x) true)"),),
        ),
        MachineRule(
            "Switch",
            "When all heads are copied, the new buffer becomes the cache, with its capacity, and the old one is kept.",
            f"""(= growing true) (or (= length 0) (forall ((h Int)) (=> (and (<= 0 h) (< h heads)) (filled h))))
            {_STILL} (any next') (any filled') (any larger') (set (cache ?b) (next ?b)) (set kept (< 0 capacity))
            (set kept_capacity capacity) (set capacity larger) (set growing false)""",
            (Mutant("switches early", "(filled h)", "(or (filled h) (= h 0))"),
             Without("the old buffer at the new capacity", "(set (cache ?b) (next ?b))"),
             Without("the new buffer at the old capacity", "(set capacity larger)"),
             Without("before a pass that writes", _STILL),
             Mutant("the old one is given back at once", "(set kept (< 0 capacity))", "(set kept false)")),
        ),
        MachineRule(
            "GiveBack",
            "The old buffer is released when no pass in flight reads it.",
            f"(= kept true) {_UNREAD} (set kept false) (any kept_capacity')",
            (Without("while it is read", _UNREAD),),
        ),
        MachineRule(
            "Fail",
            "If memory or a copy is unavailable, the old cache remains unchanged, once no copy is in flight.",
            "(= growing true) (forall ((h Int)) (not (copying h))) (any next') (any filled') (any larger')"
            " (set growing false)",
            (Mutant("the old cache is given up first", "(set growing false)", "(set growing false) (any cache')"),
             Without("while a copy is in flight", "(forall ((h Int)) (not (copying h)))"),
             Without("it counts as growing", "(set growing false)")),
        ),
        MachineRule(
            "Pass",
            "A pass is submitted, which appends tokens, or no tokens while the cache grows.",
            """(any x Command) (< 0 capacity) (= (of x) capacity) (= (first x) length) (<= 0 (count x))
            (<= (+ length (count x)) capacity) (=> growing (= 0 (count x)))
            (set (in_flight x) (+ (in_flight x) 1)) (set length (+ length (count x)))
            (set (writer ?p) (ite (and (<= length ?p) (< ?p length')) x (writer ?p)))""",
            (Without("room is not asked for", "(<= (+ length (count x)) capacity)"),
             Without("it writes while the cache grows", "(=> growing (= 0 (count x)))"),
             Mutant("of any buffer", "(= (of x) capacity)", "(< 0 (of x))"),
             Mutant("tokens that it does not write", "(= (first x) length)", "(< length (first x))")),
        ),
        MachineRule(
            "End",
            "A pass ends. Its tokens are there, each in the row of its head.",
            """(any x Command) (< 0 (in_flight x)) (set (in_flight x) (- (in_flight x) 1))
            (set (cache ?b) (ite (and (<= (first x) (position_of capacity ?b))
              (< (position_of capacity ?b) (+ (first x) (count x))) (< (head_of capacity ?b) heads))
              (token (head_of capacity ?b) (position_of capacity ?b)) (cache ?b)))""",
            (Mutant("without the first token", "(<= (first x) (position_of capacity ?b))",
                    "(< (first x) (position_of capacity ?b))"),
             Mutant("without the last token", "(< (position_of capacity ?b) (+ (first x) (count x)))",
                    "(< (+ 1 (position_of capacity ?b)) (+ (first x) (count x)))")),
        ),
        MachineRule(
            "Truncate",
            "Tokens are removed from the end.",
            "(any rest Int) (not growing) (<= 0 rest) (< rest length) (set length rest)",
            (Without("more than there are", "(< rest length)"), Without("while it grows", "(not growing)")),
        ),
        MachineRule(
            "Close",
            "The cache is released, when nothing is in flight.",
            """(not growing) (not kept) (forall ((c Command)) (= 0 (in_flight c))) (set capacity 0) (set length 0)
            (any cache')""",
            (Without("while it is read", "(forall ((c Command)) (= 0 (in_flight c)))"),
             Without("its tokens are forgotten", "(set length 0)")),
        ),
    ),
    World({"Token": 2, "Command": 2}, 0, 2, _ONE_HEAD),
    assumed="""
    ; No two tokens have one place, at any capacity.
    (forall ((c Int) (h Int) (p Int)) (=> (and (<= 0 h) (< h heads) (<= 0 p) (< p c))
      (and (= h (head_of c (place c h p))) (= p (position_of c (place c h p))))))""",
    witnesses=("writer",),
)  # fmt: skip
LEMMAS = (*ARITHMETIC, *MACHINE.lemmas())
