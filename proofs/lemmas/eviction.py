"""Eviction: what `tla/mnemosyne/Eviction.tla` says, for any pages, accesses, weights and room.

A page counts `unit * last access + resident pages * weight`: the document's λ is a unit of twice the largest weight,
and any other unit will do. `count` is how many pages are resident; that it is zero where none is, `totals` proves.
spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_STATE = State(
    {
        "last": (("Page",), "Int"), "weight": (("Page",), "Int"), "resident": (("Page",), "Bool"),
        "waits": (("Page",), "Bool"),
    },
    ("clock", "count"),
)  # fmt: skip
_SORTS = """
(declare-sort Page 0)(declare-fun number (Page) Int)
(declare-const room Int)(declare-const unit Int)(declare-const max_weight Int)
"""
_COUNTS = "(define-fun counts ((p Page)) Int (+ (* unit (last0 p)) (* count0 (weight0 p))))"
_BEFORE = "(or (< (counts {p}) (counts {q})) (and (= (counts {p}) (counts {q})) (<= (number {p}) (number {q}))))"
"""Page p goes rather than page q, if one of them must."""
_NUMBERED = "(forall ((p Page) (q Page)) (=> (= (number p) (number q)) (= p q)))"
_DOMINATES = (
    "(and (<= (last0 {q}) (last0 {p})) (<= (weight0 {q}) (weight0 {p}))"
    " (or (< (last0 {q}) (last0 {p})) (< (weight0 {q}) (weight0 {p}))))"
)


def counted(s: str) -> str:
    """The count is never negative, and zero exactly where no page is resident: what `totals` proves of counts."""
    return f"(and (<= 0 count{s}) (= (= count{s} 0) (forall ((p Page)) (not (resident{s} p)))))"


def invariant(s: str) -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    return (
        # KeepsToItsRoom.
        f"(<= count{s} room)",
        # Nobody was touched after now.
        f"(<= 0 clock{s})", f"(forall ((p Page)) (and (<= 0 (last{s} p)) (<= (last{s} p) clock{s})))",
        f"(forall ((p Page)) (and (<= 0 (weight{s} p)) (<= (weight{s} p) max_weight)))",
        # One page waits at most, and is not there.
        f"(forall ((p Page)) (=> (waits{s} p) (not (resident{s} p))))",
        f"(forall ((p Page) (q Page)) (=> (and (waits{s} p) (waits{s} q)) (= p q)))",
    )  # fmt: skip


_ONE = _SORTS + _STATE.declared("0") + _STATE.declared("1") + "(declare-const x Page)"
_AFTER = all_of(invariant("1"))
_WORLD = World({"Page": 2}, -1, 3)
_NOBODY_WAITS = "(forall ((p Page)) (not (waits0 p)))"
_TICKS = "(= clock1 (+ clock0 1))"
_TOUCHED = _STATE.becomes("last", ("x",), "clock1")
_COMES = "(= count1 (+ count0 1))"
_GOES = "(= count1 (- count0 1))"
_NO_MORE = _STATE.becomes("waits", ("x",), "false")
_HAS_ROOM, _IS_FULL = "(< count0 room)", "(= count0 room)"
_VICTIM = f"(forall ((q Page)) (=> (resident0 q) {_BEFORE.format(p='x', q='q')}))"
_TWO = _SORTS + _STATE.declared("0") + _COUNTS + "(declare-const x Page)(declare-const y Page)"

STATEMENTS = (
    Statement(
        "pages_begin_right",
        "Where no page is resident and none was touched, whatever attention they get, the invariant holds.",
        _SORTS + _STATE.declared("1"),
        ("(<= 0 room)", "(= clock1 0)", "(= count1 0)", "(forall ((p Page)) (and (= 0 (last1 p)) (not (resident1 p))"
         " (not (waits1 p)) (<= 0 (weight1 p)) (<= (weight1 p) max_weight)))"),
        _AFTER,
        (Mutant("a page that was touched before the first access", "(= 0 (last1 p))", "(= 1 (last1 p))"),),
        _WORLD,
    ),
    Statement(
        "touching_a_page_keeps_the_pages",
        "Touching a page that is resident keeps the invariant.",
        _ONE,
        (*invariant("0"), _NOBODY_WAITS, "(resident0 x)", _TICKS, _TOUCHED, *_STATE.others("clock", "last")),
        _AFTER,
        (Mutant("touched in the future", _TOUCHED, _STATE.becomes("last", ("x",), "(+ clock1 1)")),),
        _WORLD,
    ),
    Statement(
        "a_fault_keeps_the_pages",
        "A page that is touched and is not resident waits, and the invariant is kept.",
        _ONE,
        (*invariant("0"), _NOBODY_WAITS, "(not (resident0 x))", _TICKS, _STATE.becomes("waits", ("x",), "true"),
         *_STATE.others("clock", "waits")),
        _AFTER,
        (Mutant("a page that is there", assumed("(not (resident0 x))"), ""),
         Mutant("while another waits", assumed(_NOBODY_WAITS), "")),
        _WORLD,
    ),
    Statement(
        "bringing_a_page_in_keeps_the_pages",
        "The page that waits comes in where there is room, and the invariant is kept.",
        _ONE,
        (*invariant("0"), counted("0"), "(waits0 x)", _HAS_ROOM, _STATE.becomes("resident", ("x",), "true"), _COMES,
         _STATE.becomes("last", ("x",), "clock0"), _NO_MORE, *_STATE.same("weight", "clock")),
        _AFTER,
        (Mutant("brings in always", assumed(_HAS_ROOM), ""),
         Mutant("goes on waiting", _NO_MORE, _STATE.same("waits")[0])),
        _WORLD,
    ),
    Statement(
        "evicting_a_page_keeps_the_pages",
        "Where the room is full and a page waits, the page that counts least goes, and the invariant is kept: then"
        " there is room.",
        _ONE + _COUNTS,
        (*invariant("0"), counted("0"), "(exists ((p Page)) (waits0 p))", _IS_FULL, "(resident0 x)", _VICTIM,
         _STATE.becomes("resident", ("x",), "false"), _GOES, *_STATE.others("resident", "count")),
        all_of((*invariant("1"), "(< count1 room)", "(<= 0 count1)")),
        (Mutant("a page that is not there", assumed("(resident0 x)"), ""),
         Mutant("the count stands", _GOES, "(= count1 count0)")),
        _WORLD,
    ),
    Statement(
        "a_change_of_attention_keeps_the_pages",
        "Whatever attention a page gets, the invariant is kept.",
        _ONE + "(declare-const w Int)",
        (*invariant("0"), _NOBODY_WAITS, "(<= 0 w)", "(<= w max_weight)", _STATE.becomes("weight", ("x",), "w"),
         *_STATE.others("weight")),
        _AFTER,
        (Mutant("more than there is", "(assume (<= w max_weight))", ""),),
        _WORLD,
    ),
    Statement(
        "no_two_pages_are_to_be_evicted",
        "Two pages each of which goes rather than the other are one: of those that count alike, the lowest goes.",
        _TWO,
        (_NUMBERED, _BEFORE.format(p="x", q="y"), _BEFORE.format(p="y", q="x")),
        "(= x y)",
        (Mutant("ties go together", _BEFORE.format(p="x", q="y"), "(<= (counts x) (counts y))"),
         Mutant("two pages of one number", assumed(_NUMBERED), "")),
        World({"Page": 2}, 0, 2),
    ),
    Statement(
        "of_one_page_more_there_is_one_to_be_evicted",
        "If of some pages one goes rather than any other, there is such a page also with one page more: so there is one"
        " wherever a page is resident.",
        _TWO + "(declare-fun among (Page) Bool)",
        (f"(forall ((q Page)) (=> (among q) {_BEFORE.format(p='x', q='q')}))",),
        "(or (forall ((q Page)) (=> (or (among q) (= q y)) " + _BEFORE.format(p="x", q="q") + "))"
        " (forall ((q Page)) (=> (or (among q) (= q y)) " + _BEFORE.format(p="y", q="q") + ")))",
        (Mutant("that is not true of every page", "(assume (forall ((q Page)) (=> (among q)",
                "(assume (exists ((q Page)) (=> (among q)"),),
        World({"Page": 3}, 0, 2),
    ),
    Statement(
        "nobody_goes_before_a_page_that_it_dominates",
        "The page that is evicted is not at least as recent and at least as attended as one that stays, one of them"
        " strictly.",
        _TWO,
        ("(<= 1 unit)", counted("0"), "(resident0 x)", "(resident0 y)", _VICTIM),
        f"(not {_DOMINATES.format(p='x', q='y')})",
        (Mutant("minus sign", "(+ (* unit (last0 p))", "(- (* unit (last0 p))"),
         Mutant("most recent first", "(< (counts x) (counts q))", "(> (counts x) (counts q))"),
         Mutant("recency counts for nothing", "(assume (<= 1 unit))", ""),
         Mutant("attention counts for nothing", assumed(counted("0")), "")),
        World({"Page": 2}, 0, 2),
    ),
    Statement(
        "a_page_may_outlive_a_more_recent_one",
        "It is not always the least recent page that goes: where it is attended enough, another one does.",
        _TWO,
        ("(<= 1 unit)", "(<= 1 count0)", "(< (last0 x) (last0 y))",
         "(< (* unit (- (last0 y) (last0 x))) (* count0 (- (weight0 x) (weight0 y))))"),
        "(< (counts y) (counts x))",
        (Mutant("attention is not enough", "(< (* unit (- (last0 y)", "(< 0 1))\n(assume (<= (* unit (- (last0 y)"),),
        World({"Page": 2}, 0, 2),
    ),
)  # fmt: skip
