"""Mapped regions: `tla/mnemosyne/MappedRegions.tla` for any regions, tiles, pages and limits.

A region has `size` tiles, 0 where it is not mapped, and `pages` pages from page `base` on, which is the tile `first`.
`used` is the tiles that the program counts; `working`, which follows each region's size, is the document's working set:
that it is their sum is what `totals` proves. Memory may shrink any number of times, from `memory_at_first` on. Evicting
and giving back differ in when they may happen, which matters to no clause. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.lemmas.engine.statements import Mutant, Statement, World

_FOLLOWS = "(set working (+ working (- (size' x) (size x))))"
_HAS_ROOM = "(<= (* 10 (+ used wanted)) (* 7 memory))"
_FREE = """(forall ((r Region)) (=> (< 0 (size r)) (or (<= (+ (base r) (pages r)) reserved)
(<= (+ reserved (* tile wanted) tile) (base r)))))"""
_ADMISSION = "(forall ((r Region)) (=> (< (size r) (size' r)) (<= (* 10 used') (* 7 memory'))))"

ARITHMETIC = (
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
)  # fmt: skip

MACHINE = Machine(
    "mapped_regions",
    "Regions are apart, begin at tiles and are counted; within the bound until memory shrinks, and nothing is admitted"
    " over it.",
    "(declare-sort Region 0)(declare-const tile Int)(declare-const max_region Int)(declare-const memory_at_first Int)",
    """
    (size (Region) Int) (pages (Region) Int) (base (Region) Int) (first (Region) Int) (pinned (Region) Bool)
    (used () Int) (working () Int) (memory () Int) (wanted () Int)""",
    MachineRule(
        "Init",
        "No region is mapped, and no tile counted.",
        """
        (<= 0 memory) (= memory memory_at_first) (<= 0 max_region)
        (forall ((r Region)) (and (= 0 (size r)) (= 0 (pages r)) (not (pinned r))))
        (= used 0) (= working 0) (= wanted 0)""",
        (Mutant("tiles are counted before there are any", "(= used 0)", "(= used 1)"),
         Mutant("a region is pinned that is not mapped", "(not (pinned r))", "(pinned r)")),
    ),
    """
    ; No region is larger than the largest: half of the document's Inv_1.
    (forall ((r Region)) (and (<= 0 (size r)) (<= (size r) max_region)))
    (and (<= 0 wanted) (<= wanted max_region))
    ; What is pinned is mapped.
    (forall ((r Region)) (=> (pinned r) (< 0 (size r))))
    ; A region is of whole tiles, and (Inv_2, the document's alignment) begins at one.
    (forall ((r Region)) (= (pages r) (* tile (size r))))
    (forall ((r Region)) (=> (< 0 (size r)) (= (base r) (* tile (first r)))))
    ; RegionsDisjoint: no page is of two regions.
    (forall ((r Region) (t Region)) (=> (and (distinct r t) (< 0 (size r)) (< 0 (size t)))
      (or (<= (+ (base r) (pages r)) (base t)) (<= (+ (base t) (pages t)) (base r)))))
    ; CountIsExact: what is counted is what is mapped.
    (= used working)
    ; The bound of Inv_1, 7/10 of memory, as long as memory has not shrunk.
    (<= memory memory_at_first)
    (=> (= memory memory_at_first) (<= (* 10 working) (* 7 memory)))""",
    (
        MachineRule(
            "Ask",
            "A region of any size up to the largest is asked for, or what was asked for is refused.",
            "(any wanted') (<= 0 wanted') (<= wanted' max_region)",
            (Without("larger than the largest", "(<= wanted' max_region)"),),
            module=("Ask", "Refuse"),
        ),
        MachineRule(
            "Map",
            "A region that stays within the bound is placed at a tile inside pages that are free.",
            f"""(any x Region) (any reserved Int) (any k Int) (<= 1 tile) (< 0 wanted) (= 0 (size x)) {_HAS_ROOM}
              {_FREE}
            (<= reserved (* tile k)) (< (* tile k) (+ reserved tile))
            (set (size x) wanted) (set (pages x) (* tile wanted)) (set (base x) (* tile k)) (set (first x) k)
            (set used (+ used wanted)) {_FOLLOWS} (set wanted 0)""",
            (Mutant("takes the hint", "(set (base x) (* tile k))", "(set (base x) reserved)"),
             Without("maps over others", "(or (<= (+ (base r) (pages r)) reserved)"), Without("admits all", _HAS_ROOM),
             Mutant("counts what is mapped alone", "(* 10 (+ used wanted))", "(* 10 used)"),
             Without("is not counted", "(set used (+ used wanted))"),
             Without("a region that is mapped moves", "(= 0 (size x))")),
        ),
        MachineRule(
            "Unmap",
            "A region that is not pinned is unmapped, to evict it or to give it back, and less is mapped.",
            f"""(any x Region) (< 0 (size x)) (not (pinned x)) (set (size x) 0) (set (pages x) 0) (set (base x) 0)
            (set (first x) 0) (set used (- used (size x))) {_FOLLOWS} (gives (< used' used))""",
            (Without("evicts what is pinned", "(not (pinned x))"),
             Mutant("does not count down", "(set used (- used (size x)))", "(set used (- used 1))"),
             Without("what is not mapped is unmapped", "(< 0 (size x))")),
            module=("Evict", "GiveBack"),
        ),
        MachineRule(
            "Pin",
            "A region that is mapped is pinned, or pinned no more.",
            "(any x Region) (any looks Bool) (< 0 (size x)) (set (pinned x) looks)",
            (Without("a region that is not mapped", "(< 0 (size x))"),),
            module=("Pin", "Unpin"),
        ),
        MachineRule(
            "Shrink",
            "Memory shrinks, also under what is mapped: the invariant then promises no bound.",
            "(any memory') (< memory' memory)",
            (Mutant("memory is as it was at first, with more mapped", "(< memory' memory)",
                    "(= memory' memory_at_first)"),),
        ),
    ),
    World({"Region": 2}, 0, 8),
    step=f"""
    ; AdmissionKeepsTheBound: where a region becomes larger, what is mapped is within the bound.
    {_ADMISSION}
    ; Over the bound nothing is admitted.
    (=> (and (= memory' memory) (> (* 10 used) (* 7 memory))) (<= used' used))
    ; PinnedStays: what is pinned stays where it is.
    (forall ((r Region)) (=> (pinned r) (and (= (size' r) (size r)) (= (base' r) (base r)))))""",
)  # fmt: skip
LEMMAS = (*ARITHMETIC, *MACHINE.lemmas())
