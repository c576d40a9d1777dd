"""Mapped regions: what `tla/mnemosyne/MappedRegions.tla` says, for any regions, tiles, pages and limits.

A region has `size` tiles, 0 where it is not mapped, and `pages` pages from page `base` on, which is the tile `first`.
`used` is the tiles that the program counts; `working`, which follows each region's size, is the document's working set:
that it is their sum is what `totals` proves. Memory may shrink any number of times, from `memory_at_first` on. Evicting
and giving back differ in when they may happen, which matters to no clause. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_STATE = State(
    {
        "size": (("Region",), "Int"), "pages": (("Region",), "Int"), "base": (("Region",), "Int"),
        "first": (("Region",), "Int"), "pinned": (("Region",), "Bool"),
    },
    ("used", "working", "memory", "wanted"),
)  # fmt: skip
_SORTS = """
(declare-sort Region 0)
(declare-const tile Int)(declare-const max_region Int)(declare-const memory_at_first Int)
"""
_MAPPED = "(< 0 (size{s} {r}))"


def _within(tiles: str, s: str) -> str:
    """So many tiles are at most 7/10 of memory."""
    return f"(<= (* 10 {tiles}) (* 7 memory{s}))"


def invariant(s: str) -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    r, other = _MAPPED.format(s=s, r="r"), _MAPPED.format(s=s, r="t")
    return (
        # No region is larger than the largest: half of the document's Inv_1.
        f"(forall ((r Region)) (and (<= 0 (size{s} r)) (<= (size{s} r) max_region)))",
        f"(and (<= 0 wanted{s}) (<= wanted{s} max_region))",
        # What somebody looks at is there.
        f"(forall ((r Region)) (=> (pinned{s} r) {r}))",
        # A region is of whole tiles, and (Inv_2, the document's alignment) begins at one.
        f"(forall ((r Region)) (= (pages{s} r) (* tile (size{s} r))))",
        f"(forall ((r Region)) (=> {r} (= (base{s} r) (* tile (first{s} r)))))",
        # RegionsDisjoint: no page is of two regions.
        f"(forall ((r Region) (t Region)) (=> (and (distinct r t) {r} {other})"
        f" (or (<= (+ (base{s} r) (pages{s} r)) (base{s} t)) (<= (+ (base{s} t) (pages{s} t)) (base{s} r)))))",
        # CountIsExact: what is counted is what is mapped.
        f"(= used{s} working{s})",
        # The bound of Inv_1, as long as memory has not shrunk.
        f"(<= memory{s} memory_at_first)",
        f"(=> (= memory{s} memory_at_first) {_within(f'working{s}', s)})",
    )


ADMISSION = f"(forall ((r Region)) (=> (< (size0 r) (size1 r)) {_within('used1', '1')}))"
"""AdmissionKeepsTheBound: where a region becomes larger, what is mapped is within the bound."""
PINNED = "(forall ((r Region)) (=> (pinned0 r) (and (= (size1 r) (size0 r)) (= (base1 r) (base0 r)))))"
"""PinnedStays: what somebody looks at stays where it is."""

_ONE = _SORTS + _STATE.declared("0") + _STATE.declared("1") + "(declare-const x Region)"
_AFTER = all_of((*invariant("1"), ADMISSION, PINNED))
_WORLD = World({"Region": 2}, 0, 8)
_NOT_MAPPED, _IS_MAPPED = "(= 0 (size0 x))", _MAPPED.format(s="0", r="x")
_NOT_PINNED = "(not (pinned0 x))"
_HAS_ROOM = _within("(+ used0 wanted0)", "0")
_FREE = (
    f"(forall ((r Region)) (=> {_MAPPED.format(s='0', r='r')} (or (<= (+ (base0 r) (pages0 r)) reserved)"
    " (<= (+ reserved (* tile wanted0) tile) (base0 r)))))"
)
_COUNTS = "(= used1 (+ used0 wanted0))"
_COUNTS_OUT = "(= used1 (- used0 (size0 x)))"
_FOLLOWS = "(= working1 (+ working0 (- (size1 x) (size0 x))))"
_AT_A_TILE = "(and (<= reserved (* tile k)) (< (* tile k) (+ reserved tile)))"
_BEGINS = _STATE.becomes("base", ("x",), "(* tile k)")
_GONE = (
    _STATE.becomes("size", ("x",), "0"), _STATE.becomes("pages", ("x",), "0"), _STATE.becomes("base", ("x",), "0"),
    _STATE.becomes("first", ("x",), "0"),
)  # fmt: skip

STATEMENTS = (
    Statement(
        "regions_begin_right",
        "Where no region is mapped and nothing counted, the invariant holds.",
        _SORTS + _STATE.declared("1"),
        ("(<= 0 memory1)", "(= memory1 memory_at_first)", "(<= 0 max_region)",
         "(forall ((r Region)) (and (= 0 (size1 r)) (= 0 (pages1 r)) (not (pinned1 r))))",
         "(= used1 0)", "(= working1 0)", "(= wanted1 0)"),
        all_of(invariant("1")),
        (Mutant("tiles are counted before there are any", "(= used1 0)", "(= used1 1)"),
         Mutant("a region is pinned that is not there", "(not (pinned1 r))", "(pinned1 r)")),
        _WORLD,
    ),
    Statement(
        "asking_for_a_region_keeps_the_regions",
        "A region of any size up to the largest may be asked for, or what was asked for be refused: nothing else"
        " changes, and the invariant holds.",
        _ONE,
        (*invariant("0"), "(<= 0 wanted1)", "(<= wanted1 max_region)", *_STATE.others("wanted")),
        _AFTER,
        (Mutant("larger than the largest", "(assume (<= wanted1 max_region))", ""),),
        _WORLD,
    ),
    Statement(
        "a_region_begins_at_the_first_tile_of_what_was_reserved",
        "Rounded up to a tile, a range that is a tile longer than what is wanted holds all of it.",
        "(declare-const tile Int)(declare-const reserved Int)(declare-const wanted Int)(declare-const k Int)",
        ("(<= 1 tile)", "(= k (div (+ reserved tile (- 1)) tile))"),
        "(and (<= reserved (* tile k)) (< (* tile k) (+ reserved tile))"
        " (<= (+ (* tile k) (* tile wanted)) (+ reserved (* tile wanted) tile)))",
        (Mutant("rounded down", "(div (+ reserved tile (- 1)) tile)", "(div reserved tile)"),
         Mutant("no more is reserved than is wanted", "(+ reserved (* tile wanted) tile)))",
                "(+ reserved (* tile wanted))))")),
        World({}, 0, 4),
    ),
    Statement(
        "mapping_a_region_keeps_the_regions",
        "A region that stays within the bound, and is placed at a tile inside pages that are free, keeps the"
        " invariant.",
        _ONE + "(declare-const reserved Int)(declare-const k Int)",
        (*invariant("0"), "(<= 1 tile)", "(< 0 wanted0)", _NOT_MAPPED, _HAS_ROOM, _FREE, _AT_A_TILE,
         _STATE.becomes("size", ("x",), "wanted0"), _STATE.becomes("pages", ("x",), "(* tile wanted0)"),
         _BEGINS, _STATE.becomes("first", ("x",), "k"), _COUNTS, _FOLLOWS, "(= wanted1 0)",
         *_STATE.same("pinned", "memory")),
        _AFTER,
        (Mutant("takes the hint", _BEGINS, _STATE.becomes("base", ("x",), "reserved")),
         Mutant("maps over others", assumed(_FREE), ""),
         Mutant("admits all", assumed(_HAS_ROOM), ""),
         Mutant("counts what is there alone", assumed(_HAS_ROOM), assumed(_within("used0", "0"))),
         Mutant("is not counted", _COUNTS, "(= used1 used0)"),
         Mutant("a region that is mapped moves", assumed(_NOT_MAPPED), "")),
        _WORLD,
    ),
    Statement(
        "unmapping_a_region_keeps_the_regions",
        "Unmapping a region at whose bytes nobody looks, to evict it or to give it back, keeps the invariant and makes"
        " less of what is mapped: over the bound, so much less is to go.",
        _ONE,
        (*invariant("0"), _IS_MAPPED, _NOT_PINNED, *_GONE, _COUNTS_OUT, _FOLLOWS,
         *_STATE.same("pinned", "memory", "wanted")),
        all_of((*invariant("1"), ADMISSION, PINNED, "(< used1 used0)")),
        (Mutant("evicts what is pinned", assumed(_NOT_PINNED), ""),
         Mutant("forgets to count", _COUNTS_OUT, "(= used1 (- used0 1))"),
         Mutant("what is not mapped is unmapped", assumed(_IS_MAPPED), "")),
        _WORLD,
    ),
    Statement(
        "looking_at_a_region_keeps_the_regions",
        "Looking at the bytes of a region that is mapped, and looking away again, keep the invariant.",
        _ONE + "(declare-const looks Bool)",
        (*invariant("0"), _IS_MAPPED, _STATE.becomes("pinned", ("x",), "looks"), *_STATE.others("pinned")),
        _AFTER,
        (Mutant("a region that is not there", assumed(_IS_MAPPED), ""),),
        _WORLD,
    ),
    Statement(
        "shrinking_memory_keeps_the_regions",
        "Where memory shrinks, also under what is mapped, the invariant holds, which then promises no bound.",
        _ONE,
        (*invariant("0"), "(< memory1 memory0)", *_STATE.others("memory")),
        _AFTER,
        (Mutant("memory may also be as it was, with more mapped", "(assume (< memory1 memory0))",
                "(assume (= memory1 memory_at_first))"),),
        _WORLD,
    ),
    Statement(
        "over_the_bound_nothing_is_admitted",
        "By what every step keeps, nothing becomes larger over the bound: with the step that unmaps, what is mapped can"
        " then only become less.",
        _ONE,
        (*invariant("0"), ADMISSION, "(= memory1 memory0)", _FOLLOWS,
         "(forall ((r Region)) (or (= r x) (= (size1 r) (size0 r))))", *invariant("1"),
         f"(not {_within('used0', '0')})"),
        "(<= used1 used0)",
        (Mutant("admits all", assumed(ADMISSION), ""),
         Mutant("memory shrinks meanwhile", assumed(f"(not {_within('used0', '0')})"), "")),
        _WORLD,
    ),
)  # fmt: skip
