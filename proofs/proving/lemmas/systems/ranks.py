"""Ranks that agree and gather: `tla/tmmu/Sharding.tla` for any mesh, any specs, any size that divides.

Under one spec, ranks are on rings of `parts` coordinates. Each has one rank `before` it, whose neighbour it is. A shard
is identified by its coordinate: `cover` shows that each element is on exactly one. `from_here` is the distance of a
coordinate behind a rank, round the ring: its own shard is at 0, and the k-th shard that arrives should be the one at k.
A rank has `sent` this number of shards to its neighbour, numbered from 1, and `got` this number of those of the rank
before it. It is `informed` of the specs of all. spec: V4.9
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World


def _begun(rank: str) -> str:
    return f"(or (= (phase {rank}) Agreed) (= (phase {rank}) Gathered))"


_COORDINATE = "(<= 0 c) (< c (parts (spec r)))"
_READ, _PLANNED, _AGREED = (f"(any x Rank) (= (phase x) {name})" for name in ("Read", "Planned", "Agreed"))
_DIVIDES, _SAME = "(divides (spec x))", "(forall ((b Rank)) (= (spec x) (spec b)))"
_LAST = "(- (parts (spec x)) 1)"
_NEXT = "(+ (got x) 1)"
_ARRIVED = f"(shard (before x) {_NEXT})"
_PASSES_ON = f"(set (sent x) (ite (< {_NEXT} {_LAST}) (+ (sent x) 1) (sent x)))"
_ON_ITS_WAY = "(< (got x) (sent (before x)))"
_NEIGHBOUR = """(=> (= (spec x) (spec (before x)))
  (= (at x) (ite (= (+ (at (before x)) 1) (parts (spec x))) 0 (+ (at (before x)) 1))))"""
"""The rank before x has the coordinate before that of x, if both have read one spec."""
_RING = World({"Rank": 3, "Spec": 1}, -1, 4)

MACHINE = Machine(
    "ranks",
    "No rank begins beside a rank with another spec, and each has sent and holds the shards that it should.",
    """
    (declare-datatypes ((Phase 0)) (((Read) (Planned) (Agreed) (Refused) (Gathered))))
    (declare-sort Rank 0)(declare-sort Spec 0)
    (declare-fun spec (Rank) Spec)(declare-fun divides (Spec) Bool)(declare-fun parts (Spec) Int)
    (declare-fun at (Rank) Int)(declare-fun before (Rank) Rank)
    (define-fun from_here ((r Rank) (c Int)) Int (ite (<= c (at r)) (- (at r) c) (+ (- (at r) c) (parts (spec r)))))
    (define-fun behind ((r Rank) (k Int)) Int (ite (<= k (at r)) (- (at r) k) (+ (- (at r) k) (parts (spec r)))))""",
    """
    (phase (Rank) Phase) (informed (Rank) Bool) (holds (Rank Int) Bool)
    (sent (Rank) Int) (shard (Rank Int) Int) (got (Rank) Int)""",
    MachineRule(
        "Init",
        "Every rank has read some spec and done no more.",
        "(forall ((r Rank)) (and (= (phase r) Read) (not (informed r)) (= 0 (sent r)) (= 0 (got r))))",
        (Mutant("a shard is sent before a rank has begun", "(= 0 (sent r))", "(= 1 (sent r))"),),
    ),
    f"""
    ; A rank that is informed has received the specs of all ranks, each after it had planned or refused.
    (forall ((a Rank) (b Rank)) (=> (informed a) (distinct Read (phase b))))
    ; A rank that planned could, and one that refused could not, or is informed of another spec.
    (forall ((a Rank)) (=> (or (= (phase a) Planned) {_begun("a")}) (divides (spec a))))
    (forall ((a Rank)) (=> (= (phase a) Refused) (or (not (divides (spec a)))
      (and (informed a) (exists ((b Rank)) (distinct (spec a) (spec b)))))))
    ; BeginsOnlyTogether: no rank begins beside one that has read another spec, or has refused.
    (forall ((a Rank) (b Rank)) (=> {_begun("a")}
      (and (informed a) (= (spec a) (spec b)) (distinct Refused (phase b)))))
    (forall ((r Rank)) (and (<= 0 (got r)) (< (got r) (parts (spec r)))))
    ; Before it has begun a rank sends nothing, and takes nothing.
    (forall ((r Rank)) (or {_begun("r")} (and (= 0 (got r)) (= 0 (sent r)))))
    ; It has sent its own shard and all that arrived, except the last.
    (forall ((r Rank)) (=> {_begun("r")} (= (sent r)
      (ite (< (+ (got r) 1) (parts (spec r))) (+ (got r) 1) (- (parts (spec r)) 1)))))
    (forall ((r Rank) (k Int)) (=> (and (<= 1 k) (<= k (sent r))) (= (shard r k) (behind r (- k 1)))))
    ; A rank that has planned has its own shard and those behind it that have arrived.
    (forall ((r Rank) (c Int)) (=> (and (or (= (phase r) Planned) {_begun("r")}) {_COORDINATE})
      (= (holds r c) (<= (from_here r c) (got r)))))
    ; GatheredIsWhole, and no rank gathers early.
    (forall ((r Rank)) (=> (= (phase r) Gathered) (= (got r) (- (parts (spec r)) 1))))""",
    (
        MachineRule(
            "Plan",
            "A rank whose spec divides the tensor plans the shard of its coordinate.",
            f"""{_READ} {_DIVIDES} (set (phase x) Planned)
            (set (holds x ?c) (and (<= 0 ?c) (< ?c (parts (spec x))) (= ?c (at x))))""",
            (Without("the remainder is dropped", _DIVIDES),
             Mutant("another rank's shard", "(= ?c (at x))", "(= ?c 0)")),
        ),
        MachineRule(
            "RefuseSize",
            "A rank whose spec does not divide the tensor refuses.",
            f"{_READ} (not {_DIVIDES}) (set (phase x) Refused)",
            (Without("one whose spec does", f"(not {_DIVIDES})"),),
        ),
        MachineRule(
            "Exchange",
            "A rank that has planned is informed of the specs of all, when all have read theirs.",
            f"{_PLANNED} (forall ((b Rank)) (distinct Read (phase b))) (set (informed x) true)",
            (Without("of some alone", "(forall ((b Rank)) (distinct Read (phase b)))"),),
        ),
        MachineRule(
            "Agree",
            "A rank that is informed of no other spec than its own begins, and sends its shard to its neighbour, if it"
            " has one.",
            f"""{_PLANNED} (informed x) {_SAME} (set (phase x) Agreed) (set (sent x) (ite (= 0 {_LAST}) 0 1))
            (set (shard x 1) (at x))""",
            (Without("without being informed", "(informed x)"), Without("beside another spec", _SAME),
             Mutant("sends another rank's shard", "(set (shard x 1) (at x))", "(set (shard x 1) 0)")),
            World({"Rank": 3, "Spec": 2}, -1, 3),
        ),
        MachineRule(
            "RefuseSpec",
            "A rank that is informed of another spec refuses.",
            f"{_PLANNED} (informed x) (not {_SAME}) (set (phase x) Refused)",
            (Without("though there is none", f"(not {_SAME})"),),
        ),
        MachineRule(
            "Receive",
            "A rank that has begun stores the next shard that arrives beside its own, and passes it on unless it is"
            " the last.",
            f"""{_AGREED} {_NEIGHBOUR} {_ON_ITS_WAY} (set (holds x {_ARRIVED}) true) (set (got x) {_NEXT}) {_PASSES_ON}
            (set (shard x (+ {_NEXT} 1)) {_ARRIVED})""",
            (Without("passes nothing on", _PASSES_ON),
             Mutant("passes on too much", f"(< {_NEXT} {_LAST})", f"(<= {_NEXT} {_LAST})"),
             Mutant("passes on its own", f"(set (shard x (+ {_NEXT} 1)) {_ARRIVED})",
                    f"(set (shard x (+ {_NEXT} 1)) (at x))"),
             Without("what is not there", _ON_ITS_WAY)),
            _RING,
        ),
        MachineRule(
            "End",
            "A rank has gathered when the number of shards that arrived is that of the other coordinates.",
            f"{_AGREED} (= (got x) {_LAST}) (set (phase x) Gathered)",
            (Mutant("one shard is enough", f"(= (got x) {_LAST})", "(<= 1 (got x))"),),
            _RING,
        ),
    ),
    World({"Rank": 2, "Spec": 2}, -1, 3),
    assumed="(forall ((r Rank)) (and (<= 1 (parts (spec r))) (<= 0 (at r)) (< (at r) (parts (spec r)))))",
    promises=(
        MachineRule(
            "what_was_gathered_is_the_whole_tensor",
            "A rank that has gathered has the shard of every coordinate.",
            f"(gives (forall ((r Rank) (c Int)) (=> (and (= (phase r) Gathered) {_COORDINATE}) (holds r c))))",
            (Mutant("gathered early", "(=> (= (phase r) Gathered) (= (got r) (- (parts (spec r)) 1)))",
                    "(=> (= (phase r) Gathered) (<= (got r) (- (parts (spec r)) 1)))"),),
        ),
        MachineRule(
            "no_shard_is_sent_to_a_rank_that_holds_it",
            "A shard on its way to a rank is not one that the rank holds.",
            f"""(any x Rank) {_NEIGHBOUR} (= (spec x) (spec (before x))) (or (= (phase x) Planned) {_begun("x")})
            (gives (forall ((k Int)) (=> (and (< (got x) k) (<= k (sent (before x)))) (not (holds x (shard (before x)
              k))))))""",
            (Mutant("shards arrive in any order", "(= (shard r k) (behind r (- k 1)))", "(<= 0 (shard r k))"),
             Mutant("all are sent on", "(ite (< (+ (got r) 1) (parts (spec r))) (+ (got r) 1) (- (parts (spec r)) 1))",
                    "(+ (got r) 1)")),
        ),
        MachineRule(
            "ranks_with_one_coordinate_hold_one_shard",
            "Ranks that have planned under one spec and have one coordinate hold the same shard.",
            f"""(any q Rank) (gives (forall ((r Rank) (c Int)) (=> (and (= (phase r) Planned) (= (phase q) Planned)
              (= (spec r) (spec q)) (= (at r) (at q)) {_COORDINATE}) (= (holds r c) (holds q c)))))""",
            (Mutant("at different coordinates", "(= (at r) (at q))", "true"),),
        ),
    ),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
