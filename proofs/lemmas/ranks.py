"""Ranks that agree and gather: what `tla/tmmu/Sharding.tla` says, for any mesh, any specs, any size that divides.

Under one spec ranks stand on rings of `parts` coordinates, in which each has one `before` it, whose neighbour it is. A
shard is known by its coordinate: that each element lies on exactly one is in `sharding_cover`. `from_here` counts how
far round the ring a coordinate lies behind a rank: its own shard is at 0, and the k-th shard that comes to it should be
that at k. A rank has `sent` so many shards to its neighbour, numbered from 1, and `got` so many of those of the rank
before it. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_STATE = State(
    {
        "phase": (("Rank",), "Phase"), "heard": (("Rank",), "Bool"), "holds": (("Rank", "Int"), "Bool"),
        "sent": (("Rank",), "Int"), "shard": (("Rank", "Int"), "Int"), "got": (("Rank",), "Int"),
    },
)  # fmt: skip
_SORTS = """
(declare-datatypes ((Phase 0)) (((Read) (Planned) (Agreed) (Refused) (Gathered))))
(declare-sort Rank 0)(declare-sort Spec 0)
(declare-fun spec (Rank) Spec)(declare-fun divides (Spec) Bool)(declare-fun parts (Spec) Int)
(declare-fun at (Rank) Int)(declare-fun before (Rank) Rank)
(define-fun from_here ((r Rank) (c Int)) Int (ite (<= c (at r)) (- (at r) c) (+ (- (at r) c) (parts (spec r)))))
(define-fun behind ((r Rank) (k Int)) Int (ite (<= k (at r)) (- (at r) k) (+ (- (at r) k) (parts (spec r)))))
"""
ON_A_RING = "(forall ((r Rank)) (and (<= 1 (parts (spec r))) (<= 0 (at r)) (< (at r) (parts (spec r)))))"
AFTER_ANOTHER = (
    "(=> (= (spec x) (spec (before x)))"
    " (= (at x) (ite (= (+ (at (before x)) 1) (parts (spec x))) 0 (+ (at (before x)) 1))))"
)
"""The rank before x stands at the coordinate before that of x, if both have read one spec."""
_BEGUN = "(or (= (phase{s} {r}) Agreed) (= (phase{s} {r}) Gathered))"
_COORDINATE = "(<= 0 c) (< c (parts (spec r)))"


def agreement(s: str) -> tuple[str, ...]:
    """The clauses on who begins, of the state with suffix `s`, each with its meaning before it."""
    begun = _BEGUN.format(s=s, r="a")
    return (
        # Who has heard has heard of all, each of which had planned or refused.
        f"(forall ((a Rank) (b Rank)) (=> (heard{s} a) (distinct Read (phase{s} b))))",
        # Who planned could, and who refused could not, or has heard of another spec.
        f"(forall ((a Rank)) (=> (or (= (phase{s} a) Planned) {begun}) (divides (spec a))))",
        f"(forall ((a Rank)) (=> (= (phase{s} a) Refused) (or (not (divides (spec a)))"
        f" (and (heard{s} a) (exists ((b Rank)) (distinct (spec a) (spec b)))))))",
        # BeginsOnlyTogether: nobody begins beside a rank that has read another spec, or has refused.
        f"(forall ((a Rank) (b Rank)) (=> {begun} (and (heard{s} a) (= (spec a) (spec b))"
        f" (distinct Refused (phase{s} b)))))",
    )


def gathering(s: str) -> tuple[str, ...]:
    """The clauses on what ranks have and send."""
    begun = _BEGUN.format(s=s, r="r")
    return (
        f"(forall ((r Rank)) (and (<= 0 (got{s} r)) (< (got{s} r) (parts (spec r)))))",
        # Before it has begun a rank sends nothing, and takes nothing.
        f"(forall ((r Rank)) (or {begun} (and (= 0 (got{s} r)) (= 0 (sent{s} r)))))",
        # What it has sent: its own shard and all that came to it, but for the last.
        f"(forall ((r Rank)) (=> {begun} (= (sent{s} r) (ite (< (+ (got{s} r) 1) (parts (spec r))) (+ (got{s} r) 1)"
        " (- (parts (spec r)) 1)))))",
        f"(forall ((r Rank) (k Int)) (=> (and (<= 1 k) (<= k (sent{s} r))) (= (shard{s} r k) (behind r (- k 1)))))",
        # What a rank has that has planned: its own shard and as many behind it as have come.
        f"(forall ((r Rank) (c Int)) (=> (and (or (= (phase{s} r) Planned) {begun}) {_COORDINATE})"
        f" (= (holds{s} r c) (<= (from_here r c) (got{s} r)))))",
        # GatheredIsWhole, and nobody gathers early.
        f"(forall ((r Rank)) (=> (= (phase{s} r) Gathered) (= (got{s} r) (- (parts (spec r)) 1))))",
    )


def invariant(s: str) -> tuple[str, ...]:
    """All clauses that hold of the state with suffix `s`."""
    return (*agreement(s), *gathering(s))


_ONE = _SORTS + _STATE.declared("0") + _STATE.declared("1") + "(declare-const x Rank)"
_AFTER = all_of(invariant("1"))
_WORLD = World({"Rank": 2, "Spec": 2}, -1, 3)
_SAME = "(forall ((b Rank)) (= (spec x) (spec b)))"
_ALL_HAVE_READ = "(forall ((b Rank)) (distinct Read (phase0 b)))"
_LAST = "(- (parts (spec x)) 1)"
_PLANS = (
    "(forall ((r Rank) (c Int)) (= (holds1 r c) (ite (= r x) (and (<= 0 c) (< c (parts (spec r))) (= c (at r)))"
    " (holds0 r c))))"
)
_SENDS = _STATE.becomes("sent", ("x",), f"(ite (= 0 {_LAST}) 0 1)")
_SENDS_ITS_OWN = _STATE.becomes("shard", ("x", "1"), "(at x)")
_NEXT = "(+ (got0 x) 1)"
_ARRIVED = f"(shard0 (before x) {_NEXT})"
_KEEPS = _STATE.becomes("holds", ("x", _ARRIVED), "true")
_PASSES_ON = f"(< {_NEXT} {_LAST})"
_TELLS = _STATE.becomes("sent", ("x",), f"(ite {_PASSES_ON} (+ (sent0 x) 1) (sent0 x))")
_WHAT = _STATE.becomes("shard", ("x", f"(+ {_NEXT} 1)"), _ARRIVED)
_ON_ITS_WAY = "(< (got0 x) (sent0 (before x)))"


def _phase(name: str) -> str:
    return f"(= (phase0 x) {name})"


def _to(name: str) -> str:
    return _STATE.becomes("phase", ("x",), name)


STATEMENTS = (
    Statement(
        "ranks_begin_right",
        "Where every rank has read some spec and done no more, the invariant holds.",
        _SORTS + _STATE.declared("1"),
        (ON_A_RING, "(forall ((r Rank)) (and (= (phase1 r) Read) (not (heard1 r)) (= 0 (sent1 r)) (= 0 (got1 r))))"),
        _AFTER,
        (Mutant("something is sent before anybody has begun", "(= 0 (sent1 r)) (= 0 (got1 r))))",
                "(= 1 (sent1 r)) (= 0 (got1 r))))"),),
        _WORLD,
    ),
    Statement(
        "planning_a_shard_keeps_the_ranks",
        "A rank whose spec divides the tensor plans the shard of its coordinate.",
        _ONE,
        (*invariant("0"), ON_A_RING, _phase("Read"), "(divides (spec x))", _to("Planned"), _PLANS,
         *_STATE.others("phase", "holds")),
        _AFTER,
        (Mutant("the remainder is dropped", assumed("(divides (spec x))"), ""),
         Mutant("another's shard", "(= c (at r)))", "(= c 0))")),
        _WORLD,
    ),
    Statement(
        "refusing_a_size_keeps_the_ranks",
        "A rank whose spec does not divide the tensor refuses.",
        _ONE,
        (*invariant("0"), ON_A_RING, _phase("Read"), "(not (divides (spec x)))", _to("Refused"),
         *_STATE.others("phase")),
        _AFTER,
        (Mutant("one whose spec does", assumed("(not (divides (spec x)))"), ""),),
        _WORLD,
    ),
    Statement(
        "hearing_of_the_others_keeps_the_ranks",
        "A rank that has planned hears of the specs of all, when all have read theirs.",
        _ONE,
        (*invariant("0"), ON_A_RING, _phase("Planned"), _ALL_HAVE_READ, _STATE.becomes("heard", ("x",), "true"),
         *_STATE.others("heard")),
        _AFTER,
        (Mutant("of some alone", assumed(_ALL_HAVE_READ), ""),),
        _WORLD,
    ),
    Statement(
        "beginning_keeps_the_ranks",
        "A rank that has heard of its own spec alone begins, and sends its shard to its neighbour, unless it is alone.",
        _ONE,
        (*invariant("0"), ON_A_RING, _phase("Planned"), "(heard0 x)", _SAME, _to("Agreed"), _SENDS, _SENDS_ITS_OWN,
         *_STATE.same("heard", "holds", "got")),
        _AFTER,
        (Mutant("hears nothing", assumed("(heard0 x)"), ""),
         Mutant("beside another spec", assumed(_SAME), ""),
         Mutant("sends another's shard", _SENDS_ITS_OWN, _STATE.becomes("shard", ("x", "1"), "0"))),
        World({"Rank": 3, "Spec": 2}, -1, 3),
    ),
    Statement(
        "refusing_another_spec_keeps_the_ranks",
        "A rank that has heard of another spec refuses.",
        _ONE,
        (*invariant("0"), ON_A_RING, _phase("Planned"), "(heard0 x)", f"(not {_SAME})", _to("Refused"),
         *_STATE.others("phase")),
        _AFTER,
        (Mutant("though there is none", assumed(f"(not {_SAME})"), ""),),
        _WORLD,
    ),
    Statement(
        "receiving_a_shard_keeps_the_ranks",
        "A rank that has begun puts the next shard that comes beside its own, and passes it on but for the last.",
        _ONE,
        (*invariant("0"), ON_A_RING, AFTER_ANOTHER, _phase("Agreed"), _ON_ITS_WAY, _KEEPS,
         _STATE.becomes("got", ("x",), _NEXT), _TELLS, _WHAT, *_STATE.same("phase", "heard")),
        _AFTER,
        (Mutant("passes nothing on", _TELLS, _STATE.same("sent")[0]),
         Mutant("passes on too much", _PASSES_ON, f"(<= {_NEXT} {_LAST})"),
         Mutant("passes on its own", _WHAT,
                _STATE.becomes("shard", ("x", f"(+ {_NEXT} 1)"), "(at x)")),
         Mutant("what is not there", assumed(_ON_ITS_WAY), "")),
        World({"Rank": 3, "Spec": 1}, -1, 4),
    ),
    Statement(
        "ending_keeps_the_ranks",
        "A rank to which as many shards have come as there are others has gathered.",
        _ONE,
        (*invariant("0"), ON_A_RING, _phase("Agreed"), f"(= (got0 x) {_LAST})", _to("Gathered"),
         *_STATE.others("phase")),
        _AFTER,
        (Mutant("one shard is enough", assumed(f"(= (got0 x) {_LAST})"), assumed("(<= 1 (got0 x))")),),
        World({"Rank": 3, "Spec": 1}, -1, 4),
    ),
    Statement(
        "what_was_gathered_is_the_whole_tensor",
        "By the invariant, a rank that has gathered has the shard of every coordinate.",
        _SORTS + _STATE.declared("1"),
        (*invariant("1"), ON_A_RING),
        f"(forall ((r Rank) (c Int)) (=> (and (= (phase1 r) Gathered) {_COORDINATE}) (holds1 r c)))",
        (Mutant("gathered early", "(= (got1 r) (- (parts (spec r)) 1))", "(<= (got1 r) (- (parts (spec r)) 1))"),),
        _WORLD,
    ),
    Statement(
        "nothing_is_sent_to_a_rank_that_has_it",
        "By the invariant, what is on its way to a rank is no shard that the rank holds.",
        _SORTS + _STATE.declared("1") + "(declare-const x Rank)",
        (*invariant("1"), ON_A_RING, AFTER_ANOTHER, "(= (spec x) (spec (before x)))",
         f"(or (= (phase1 x) Planned) {_BEGUN.format(s='1', r='x')})"),
        "(forall ((k Int)) (=> (and (< (got1 x) k) (<= k (sent1 (before x)))) (not (holds1 x (shard1 (before x) k)))))",
        (Mutant("shards come in any order", "(= (shard1 r k) (behind r (- k 1)))", "(<= 0 (shard1 r k))"),
         Mutant("all are sent on", "(ite (< (+ (got1 r) 1) (parts (spec r))) (+ (got1 r) 1) (- (parts (spec r)) 1))",
                "(+ (got1 r) 1)")),
        _WORLD,
    ),
    Statement(
        "ranks_with_one_coordinate_hold_one_shard",
        "By the invariant, ranks that have planned under one spec and stand at one coordinate hold the same.",
        _SORTS + _STATE.declared("1"),
        (*invariant("1"), ON_A_RING),
        f"(forall ((r Rank) (q Rank) (c Int)) (=> (and (= (phase1 r) Planned) (= (phase1 q) Planned)"
        f" (= (spec r) (spec q)) (= (at r) (at q)) {_COORDINATE}) (= (holds1 r c) (holds1 q c))))",
        (Mutant("at different coordinates", "(= (at r) (at q))", "true"),),
        _WORLD,
    ),
)  # fmt: skip
