"""Mapped regions: `tla/mnemosyne/MappedRegions.tla` for any regions, tiles, pages, pins and limits.

A region has `size` tiles, or 0 if it is closed, and `pages` pages from page `base` on, which is the tile `first`;
`there` of them are mapped. `used` is the number of tiles that the program counts. `working`, which follows the mapped
tiles of each region, is the document's working set; `totals` proves that it is their sum. The same holds for `held`,
the tiles that are pinned, and `coming`, those that are wanted. `room` is the number of tiles within the bound, and
`most` the room of the most memory that there is. spec: V4.9
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, Statement, World

_FOLLOWS = "(set working (+ working (- (there' x) (there x))))"
_NONE_WANTED = "(forall ((r Region) (t Int)) (not (wanted r t)))"
_SOME_WANTED = "(exists ((r Region) (t Int)) (wanted r t))"
_GIVEN_UP = "(any wanted') (forall ((r Region) (t Int)) (not (wanted' r t))) (set coming 0)"
_FREE = """(forall ((r Region)) (=> (< 0 (size r)) (or (<= (+ (base r) (pages r)) reserved)
(<= (+ reserved (* tile coming) tile) (base r)))))"""
_FITS = "(<= (+ held coming) room)"
_RELEASES = f"""(set (mapped x j) false) (set used (- used 1)) (set (there x) (- (there x) 1))
            {_FOLLOWS}"""

ARITHMETIC = (
    Statement(
        "a_region_begins_at_the_first_tile_of_what_was_reserved",
        "A range that is one tile longer than the request holds all of it from the first tile boundary on.",
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
        "whole_tiles_within_the_bound",
        "The number of whole tiles that 7/10 of memory can hold is within the bound, and one more is not.",
        "(declare-const tile Int)(declare-const memory Int)(declare-const room Int)(declare-const tiles Int)",
        ("(<= 1 tile)", "(<= (* 10 tile room) (* 7 memory))", "(< (* 7 memory) (+ (* 10 tile room) (* 10 tile)))"),
        "(= (<= tiles room) (<= (* 10 tile tiles) (* 7 memory)))",
        (Mutant("rounded up", "(< (* 7 memory) (+ (* 10 tile room) (* 10 tile)))",
                "(< (* 7 memory) (+ (* 10 tile room) (* 20 tile)))"),
         Mutant("all of memory", "(<= (* 10 tile tiles) (* 7 memory))", "(<= (* 10 tile tiles) (* 10 memory))")),
        World({}, 0, 8),
    ),
)  # fmt: skip

MACHINE = Machine(
    "mapped_regions",
    "Regions are apart, begin at tiles and are counted. Mapped tiles stay within the bound until memory shrinks, none"
    " is admitted beyond it, and no tile is released for a request that is then refused.",
    "(declare-sort Region 0)(declare-const tile Int)(declare-const max_region Int)(declare-const most Int)",
    """
    (size (Region) Int) (pages (Region) Int) (base (Region) Int) (first (Region) Int) (there (Region) Int)
    (mapped (Region Int) Bool) (pins (Region Int) Int) (wanted (Region Int) Bool)
    (used () Int) (working () Int) (held () Int) (coming () Int) (room () Int) (gave_way () Bool) (refused () Bool)""",
    MachineRule(
        "Init",
        "No region is open, and no tile is mapped, counted, pinned or wanted.",
        f"""
        (<= 0 room) (<= room most) (<= 0 max_region)
        (forall ((r Region)) (and (= 0 (size r)) (= 0 (pages r)) (= 0 (there r))))
        (forall ((r Region) (t Int)) (and (not (mapped r t)) (= 0 (pins r t))))
        {_NONE_WANTED} (= 0 used working held coming) (not gave_way) (not refused)""",
        (Mutant("tiles are counted before there are any", "(= 0 used working held coming)",
                "(= 0 working held coming) (= used 1)"),
         Mutant("a tile is pinned that is not mapped", "(= 0 (pins r t))", "(= 1 (pins r t))")),
    ),
    """
    ; No region is larger than the largest: half of the document's Inv_1.
    (forall ((r Region)) (and (<= 0 (size r)) (<= (size r) max_region)))
    (<= 0 max_region) (<= coming max_region)
    ; Mapped tiles are of open regions, and pinned tiles are mapped.
    (forall ((r Region) (t Int)) (=> (mapped r t) (and (<= 1 t) (<= t (size r)))))
    (forall ((r Region) (t Int)) (and (<= 0 (pins r t)) (=> (< 0 (pins r t)) (mapped r t))))
    (forall ((r Region) (t Int)) (=> (wanted r t) (not (mapped r t))))
    ; A region is of whole tiles, and (Inv_2, the document's alignment) begins at one.
    (forall ((r Region)) (= (pages r) (* tile (size r))))
    (forall ((r Region)) (=> (< 0 (size r)) (= (base r) (* tile (first r)))))
    ; RegionsDisjoint: no page is of two regions.
    (forall ((r Region) (t Region)) (=> (and (distinct r t) (< 0 (size r)) (< 0 (size t)))
      (or (<= (+ (base r) (pages r)) (base t)) (<= (+ (base t) (pages t)) (base r)))))
    ; CountIsExact: exactly the mapped tiles are counted.
    (= used working)
    ; The bound of Inv_1, until memory shrinks.
    (<= room most)
    (<= working most)
    ; RefusedMovesNothing: what gives way does so for what fits beside what is pinned.
    (forall ((r Region) (t Int)) (=> (wanted r t) (and (not refused) (=> gave_way (<= (+ held coming) room)))))
    (=> refused (not gave_way))""",
    (
        MachineRule(
            "Want",
            "Unmapped tiles are requested, at most the number that a region has.",
            f"""(any wanted') (any coming') {_NONE_WANTED} (<= coming' max_region)
            (forall ((r Region) (t Int)) (=> (wanted' r t) (not (mapped r t)))) (set gave_way false)
            (set refused false)""",
            (Without("larger than the largest", "(<= coming' max_region)"),
             Without("tiles that are mapped", "(=> (wanted' r t) (not (mapped r t)))"),
             Without("they were refused before", "(set refused false)")),
            module=("AskRegion", "AskTiles"),
        ),
        MachineRule(
            "Refuse",
            "A request that does not fit beside the pinned tiles is refused.",
            f"{_SOME_WANTED} (< room (+ held coming)) {_GIVEN_UP} (set refused true)",
            (Without("what fits", "(< room (+ held coming))"),
             Mutant("what fits when others have gone", "(< room (+ held coming))", "(< room (+ used coming))")),
        ),
        MachineRule(
            "Fail",
            "The system refuses, whatever was released before.",
            _GIVEN_UP,
            (Mutant("as what does not fit", "(set coming 0)", "(set refused true)"),),
        ),
        MachineRule(
            "Place",
            "A wanted region is placed at a tile inside free pages.",
            f"""(any x Region) (any reserved Int) (any k Int) (<= 1 tile) (< 0 coming) (= 0 (size x)) {_FREE}
            (<= reserved (* tile k)) (< (* tile k) (+ reserved tile))
            (set (size x) coming) (set (pages x) (* tile coming)) (set (base x) (* tile k)) (set (first x) k)""",
            (Mutant("takes the hint", "(set (base x) (* tile k))", "(set (base x) reserved)"),
             Without("maps over others", "(or (<= (+ (base r) (pages r)) reserved)"),
             Without("a region that is mapped moves", "(= 0 (size x))")),
        ),
        MachineRule(
            "Map",
            "A wanted tile is mapped while there is room.",
            f"""(any x Region) (any j Int) (wanted x j) (<= 1 j) (<= j (size x)) (< used room) (set (mapped x j) true)
            (set (wanted x j) false) (set coming (- coming 1)) (set used (+ used 1)) (set (there x) (+ (there x) 1))
            {_FOLLOWS}""",
            (Without("admits all", "(< used room)"), Mutant("counts what is there", "(< used room)", "(<= used room)"),
             Without("is not counted", "(set used (+ used 1))"), Without("stays wanted", "(set (wanted x j) false)"),
             Without("a tile of no region", "(<= j (size x))")),
        ),
        MachineRule(
            "Evict",
            "For a request that fits beside the pinned tiles, an unpinned tile is released.",
            f"""(any x Region) (any j Int) (mapped x j) (= 0 (pins x j)) {_SOME_WANTED} {_FITS} (set gave_way true)
            {_RELEASES}""",
            (Without("evicts what is pinned", "(= 0 (pins x j))"), Without("before it refuses", _FITS),
             Without("does not count down", "(set used (- used 1))"),
             Without("for nothing", _SOME_WANTED)),
        ),
        MachineRule(
            "Relieve",
            "Over the bound an unpinned tile is released, and less is mapped.",
            f"""(any x Region) (any j Int) (mapped x j) (= 0 (pins x j)) (< room used) {_RELEASES}
            (gives (< used' used))""",
            (Without("of what is pinned", "(= 0 (pins x j))"), Without("does not count down", "(set used (- used 1))")),
        ),
        MachineRule(
            "Pin",
            "A mapped tile is pinned once more.",
            f"""(any x Region) (any j Int) {_NONE_WANTED} (mapped x j) (set (pins x j) (+ (pins x j) 1))
            (set held (+ held (ite (= 0 (pins x j)) 1 0)))""",
            (Without("a tile that is not mapped", "(mapped x j)"),),
        ),
        MachineRule(
            "Unpin",
            "A tile is pinned once less.",
            f"""(any x Region) (any j Int) {_NONE_WANTED} (< 0 (pins x j)) (set (pins x j) (- (pins x j) 1))
            (set held (- held (ite (= 1 (pins x j)) 1 0)))""",
            (Without("a tile that is not pinned", "(< 0 (pins x j))"),),
        ),
        MachineRule(
            "Close",
            "A region without pinned tiles is closed, and its tiles are unmapped.",
            f"""(any x Region) {_NONE_WANTED} (forall ((t Int)) (= 0 (pins x t))) (set (mapped x ?t) false)
            (set (size x) 0) (set (pages x) 0) (set (base x) 0) (set (first x) 0) (set used (- used (there x)))
            (set (there x) 0) {_FOLLOWS} (<= 0 (there x))""",
            (Without("what is pinned", "(= 0 (pins x t))"), Without("its tiles stay", "(set (mapped x ?t) false)"),
             Mutant("counts what was released", "(set used (- used (there x)))", "(set used (- used (size x)))")),
        ),
        MachineRule(
            "Limit",
            "Memory shrinks, even below what is mapped, or grows again.",
            f"(any room') {_NONE_WANTED} (<= room' most)",
            (Without("more than the most", "(<= room' most)"),),
        ),
    ),
    World({"Region": 2}, -1, 3),
    step="""
    ; WithinStaysWithin: unless memory shrinks.
    (=> (and (<= used room) (<= room room')) (<= used' room'))
    ; AdmissionKeepsTheBound: over the bound nothing is admitted.
    (=> (< used used') (<= used' room'))
    ; RefusedDoesNotFit.
    (=> (and refused' (not refused)) (< room (+ held coming)))
    ; PinnedStays: pinned tiles stay at their places.
    (forall ((r Region) (t Int)) (=> (< 0 (pins r t)) (and (mapped' r t) (= (base' r) (base r)))))""",
)  # fmt: skip
LEMMAS = (*ARITHMETIC, *MACHINE.lemmas())
