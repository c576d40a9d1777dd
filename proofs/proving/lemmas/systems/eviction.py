"""Eviction: `tla/mnemosyne/Eviction.tla` for any pages, accesses, weights, room and pins.

A page has the score `unit * last access + share * resident pages * weight`. The document's λ is a unit of twice the
largest weight and a share of 1; any other positive values work too. The witnesses number the resident pages from 1 to
`count`, so that it is their number. Room is `most` unless it has shrunk. spec: V4.9
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

_NONE_WAITS = "(forall ((p Page)) (not (waits p)))"
_TICKS = "(set clock (+ clock 1))"
_FREE = "(resident x) (not (pinned x))"
_VICTIM = "(forall ((q Page)) (=> (and (resident q) (not (pinned q))) (goes_before x q)))"
_LEAST_ATTENDED = """(forall ((q Page)) (=> (and (resident q) (not (pinned q))) (or (< (weight x) (weight q))
  (and (= (weight x) (weight q)) (<= (last x) (last q))))))"""
_LAST = "(page count)"
_GOES = f"""(set (resident x) false) (set count (- count 1)) (set (place {_LAST}) (place x))
            (set (page (place x)) {_LAST})"""
_IS_NOT_MORE = """(gives (not (and (<= (last y) (last x)) (<= (weight y) (weight x))
              (or (< (last y) (last x)) (< (weight y) (weight x))))))"""

MACHINE = Machine(
    "eviction",
    "The number of resident pages exceeds the room only after room shrinks, no page comes in beyond it, and no pinned"
    " page goes.",
    """
    (declare-sort Page 0)(declare-fun number (Page) Int)
    (declare-const most Int)(declare-const unit Int)(declare-const share Int)(declare-const max_weight Int)""",
    """
    (last (Page) Int) (weight (Page) Int) (resident (Page) Bool) (pinned (Page) Bool) (waits (Page) Bool)
    (clock () Int) (count () Int) (room () Int) (place (Page) Int) (page (Int) Page)""",
    MachineRule(
        "Init",
        "No page is resident or was touched, whatever attention they get.",
        """
        (<= 0 room) (<= room most) (= clock 0) (= count 0) (forall ((p Page)) (and (= 0 (last p)) (not (resident p))
          (not (pinned p)) (not (waits p)) (<= 0 (weight p)) (<= (weight p) max_weight)))""",
        (Mutant("a page that was touched before the first access", "(= 0 (last p))", "(= 1 (last p))"),
         Without("less than no room", "(<= 0 room)")),
    ),
    """
    ; The resident pages are numbered from 1 to their count.
    (<= 0 count)
    (forall ((p Page)) (=> (resident p) (and (<= 1 (place p)) (<= (place p) count) (= p (page (place p))))))
    (forall ((k Int)) (=> (and (<= 1 k) (<= k count)) (and (resident (page k)) (= k (place (page k))))))
    ; KeepsToItsRoom: while the room is the most.
    (<= room most)
    (<= count most)
    ; Pinned pages are resident.
    (forall ((p Page)) (=> (pinned p) (resident p)))
    ; No page was touched after now.
    (<= 0 clock) (forall ((p Page)) (and (<= 0 (last p)) (<= (last p) clock)))
    (forall ((p Page)) (and (<= 0 (weight p)) (<= (weight p) max_weight)))
    ; No page waits that is resident.
    (forall ((p Page)) (=> (waits p) (not (resident p))))""",
    (
        MachineRule(
            "Touch",
            "A page that is resident is touched.",
            f"(any x Page) {_NONE_WAITS} (resident x) {_TICKS} (set (last x) (+ clock 1))",
            (Mutant("touched in the future", "(set (last x) (+ clock 1))", "(set (last x) (+ clock 2))"),),
        ),
        MachineRule(
            "Fault",
            "Pages that are not resident begin to wait, or stop waiting.",
            "(any waits') (forall ((p Page)) (=> (waits' p) (not (resident p))))",
            (Without("pages that are resident", "(=> (waits' p) (not (resident p)))"),),
            module=("Fault", "Refuse", "Fail"),
        ),
        MachineRule(
            "Bring",
            "A page that waits becomes resident, if there is room.",
            f"""(any x Page) (waits x) (< count room) (set (resident x) true) (set count (+ count 1)) {_TICKS}
            (set (last x) (+ clock 1)) (set (waits x) false) (set (place x) (+ count 1))
            (set (page (+ count 1)) x)""",
            (Without("brings in always", "(< count room)"), Without("goes on waiting", "(set (waits x) false)"),
             Mutant("one too many", "(< count room)", "(<= count room)"),
             Without("is not counted", "(set count (+ count 1))")),
        ),
        MachineRule(
            "Evict",
            "If pages wait and the room is full, the unpinned page with the least score goes.",
            f"(any x Page) (exists ((p Page)) (waits p)) (<= count room) {_FREE} {_VICTIM} {_GOES}",
            (Without("a page that is not resident", "(resident x)"),
             Without("a page that is pinned", "(not (pinned x))"),
             Without("the count stays", "(set count (- count 1))")),
        ),
        MachineRule(
            "Relieve",
            "If room has shrunk, the least attended unpinned page goes, and fewer are resident.",
            f"(any x Page) (< room count) {_FREE} {_LEAST_ATTENDED} {_GOES} (gives (< count' count))",
            (Without("a page that is pinned", "(not (pinned x))"),
             Without("the count stays", "(set count (- count 1))")),
        ),
        MachineRule(
            "Drop",
            "An unpinned page is dropped and its history discarded.",
            f"(any x Page) {_NONE_WAITS} {_FREE} {_GOES} (set (last x) 0) (set (weight x) 0)",
            (Without("a page that is pinned", "(not (pinned x))"),
             Mutant("touched in the future", "(set (last x) 0)", "(set (last x) (+ clock 1))")),
        ),
        MachineRule(
            "Pin",
            "A resident page becomes pinned, or unpinned.",
            f"(any x Page) (any looks Bool) {_NONE_WAITS} (resident x) (set (pinned x) looks)",
            (Without("a page that is not resident", "(resident x)"),),
            module=("Pin", "Unpin"),
        ),
        MachineRule(
            "Attend",
            "A page gets any attention up to the largest, resident or not.",
            f"(any x Page) (any w Int) {_NONE_WAITS} (<= 0 w) (<= w max_weight) (set (weight x) w)",
            (Without("more than there is", "(<= w max_weight)"),),
        ),
        MachineRule(
            "Limit",
            "The room grows or shrinks, up to the most.",
            "(any room') (<= room' most)",
            (Without("more than the most", "(<= room' most)"),),
        ),
    ),
    World({"Page": 2}, -1, 3),
    definitions="""
    (define-fun score ((p Page)) Int (+ (* unit (last p)) (* share count (weight p))))
    ; Page p is evicted rather than page q, if one of them must be.
    (define-fun goes_before ((p Page) (q Page)) Bool
      (or (< (score p) (score q)) (and (= (score p) (score q)) (<= (number p) (number q)))))""",
    promises=(
        MachineRule(
            "no_two_pages_are_to_be_evicted",
            "If each of two pages goes before the other, they are one page: of those with one score, the lowest goes.",
            """(any x Page) (any y Page) (forall ((p Page) (q Page)) (=> (= (number p) (number q)) (= p q)))
            (goes_before x y) (goes_before y x) (gives (= x y))""",
            (Mutant("ties go together", "(goes_before x y)", "(<= (score x) (score y))"),
             Without("two pages of one number", "(= (number p) (number q))")),
            World({"Page": 2}, 0, 2),
        ),
        MachineRule(
            "of_one_page_more_there_is_one_to_be_evicted",
            "If some pages include one that goes before all others, so do these pages with one more. Therefore one"
            " exists whenever a page is resident.",
            """(any x Page) (any y Page) (any among (Page) Bool)
            (forall ((q Page)) (=> (among q) (goes_before x q)))
            (gives (or (forall ((q Page)) (=> (or (among q) (= q y)) (goes_before x q)))
                       (forall ((q Page)) (=> (or (among q) (= q y)) (goes_before y q)))))""",
            (Mutant("that is not true of every page", "(forall ((q Page)) (=> (among q) (goes_before x q)))",
                    "(exists ((q Page)) (=> (among q) (goes_before x q)))"),),
            World({"Page": 3}, 0, 2),
        ),
        MachineRule(
            "no_page_is_evicted_before_one_that_it_dominates",
            "An evicted page is never at least as recent and at least as attended as a page that stays, with one of"
            " them strict.",
            f"""(any x Page) (any y Page) (<= 1 unit) (<= 1 share) {_FREE} (resident y) (not (pinned y)) {_VICTIM}
            {_IS_NOT_MORE}""",
            (Mutant("minus sign", "(+ (* unit (last p))", "(- (* unit (last p))"),
             Mutant("most recent first", "(or (< (score p) (score q))", "(or (> (score p) (score q))"),
             Without("recency counts for nothing", "(<= 1 unit)"),
             Mutant("attention counts for nothing", "(* share count (weight p))", "0")),
            World({"Page": 2}, 0, 2),
        ),
        MachineRule(
            "no_page_is_given_back_before_one_that_it_dominates",
            "The same holds for a page that goes because room has shrunk.",
            f"""(any x Page) (any y Page) {_FREE} (resident y) (not (pinned y)) {_LEAST_ATTENDED}
            {_IS_NOT_MORE}""",
            (Mutant("the most attended", "(< (weight x) (weight q))", "(> (weight x) (weight q))"),
             Without("by weight alone", "(<= (last x) (last q))")),
            World({"Page": 2}, 0, 2),
        ),
        MachineRule(
            "a_page_may_outlive_a_more_recent_one",
            "The least recent page does not always go: if it is attended enough, another one does.",
            """(any x Page) (any y Page) (<= 1 unit) (<= 1 count) (< (last x) (last y))
            (< (* unit (- (last y) (last x))) (* share count (- (weight x) (weight y))))
            (gives (< (score y) (score x)))""",
            (Mutant("attention is not enough", "(< (* unit (- (last y) (last x)))",
                    "(<= (* unit (- (last y) (last x)))"),),
            World({"Page": 2}, 0, 2),
        ),
    ),
    step="""
    ; WithinStaysWithin: unless room shrinks.
    (=> (and (<= count room) (<= room room')) (<= count' room'))
    ; NothingComesInBeyond the room.
    (=> (exists ((p Page)) (and (resident' p) (not (resident p)))) (<= count' room'))
    ; Pinned pages stay.
    (forall ((p Page)) (=> (pinned p) (resident' p)))""",
    witnesses=("place", "page"),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
