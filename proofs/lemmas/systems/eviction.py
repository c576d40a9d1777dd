"""Eviction: `tla/mnemosyne/Eviction.tla` for any pages, accesses, weights and room.

A page has the score `unit * last access + resident pages * weight`: the document's λ is a unit of twice the largest
weight, and any other unit will do. The witnesses number the resident pages from 1 to `count`, so that it is their
number. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.lemmas.engine.statements import Mutant, World

_NONE_WAITS = "(forall ((p Page)) (not (waits p)))"
_TICKS = "(set clock (+ clock 1))"
_VICTIM = "(forall ((q Page)) (=> (resident q) (goes_before x q)))"
_LAST = "(page count)"

MACHINE = Machine(
    "eviction",
    "No more pages are resident than there is room for, and one page at most waits.",
    """
    (declare-sort Page 0)(declare-fun number (Page) Int)
    (declare-const room Int)(declare-const unit Int)(declare-const max_weight Int)""",
    """
    (last (Page) Int) (weight (Page) Int) (resident (Page) Bool) (waits (Page) Bool) (clock () Int) (count () Int)
    (place (Page) Int) (page (Int) Page)""",
    MachineRule(
        "Init",
        "No page is resident and none was touched, whatever attention they get.",
        """
        (<= 0 room) (= clock 0) (= count 0) (forall ((p Page)) (and (= 0 (last p)) (not (resident p))
          (not (waits p)) (<= 0 (weight p)) (<= (weight p) max_weight)))""",
        (Mutant("a page that was touched before the first access", "(= 0 (last p))", "(= 1 (last p))"),),
    ),
    """
    ; The resident pages are numbered from 1 to their count.
    (<= 0 count)
    (forall ((p Page)) (=> (resident p) (and (<= 1 (place p)) (<= (place p) count) (= p (page (place p))))))
    (forall ((k Int)) (=> (and (<= 1 k) (<= k count)) (and (resident (page k)) (= k (place (page k))))))
    ; KeepsToItsRoom.
    (<= count room)
    ; No page was touched after now.
    (<= 0 clock) (forall ((p Page)) (and (<= 0 (last p)) (<= (last p) clock)))
    (forall ((p Page)) (and (<= 0 (weight p)) (<= (weight p) max_weight)))
    ; One page waits at most, and is not resident.
    (forall ((p Page)) (=> (waits p) (not (resident p))))
    (forall ((p Page) (q Page)) (=> (and (waits p) (waits q)) (= p q)))""",
    (
        MachineRule(
            "Touch",
            "A page that is resident is touched.",
            f"(any x Page) {_NONE_WAITS} (resident x) {_TICKS} (set (last x) (+ clock 1))",
            (Mutant("touched in the future", "(set (last x) (+ clock 1))", "(set (last x) (+ clock 2))"),),
        ),
        MachineRule(
            "Fault",
            "A page that is touched and is not resident waits.",
            f"(any x Page) {_NONE_WAITS} (not (resident x)) {_TICKS} (set (waits x) true)",
            (Without("a page that is resident", "(not (resident x))"), Without("while another waits", _NONE_WAITS)),
        ),
        MachineRule(
            "Bring",
            "The page that waits becomes resident where there is room.",
            """(any x Page) (waits x) (< count room) (set (resident x) true) (set count (+ count 1))
            (set (last x) clock) (set (waits x) false) (set (place x) (+ count 1)) (set (page (+ count 1)) x)""",
            (Without("brings in always", "(< count room)"), Without("goes on waiting", "(set (waits x) false)"),
             Without("is not counted", "(set count (+ count 1))")),
        ),
        MachineRule(
            "Evict",
            "Where the room is full and a page waits, the page with the least score is evicted: then there is room.",
            f"""(any x Page) (exists ((p Page)) (waits p)) (= count room) (resident x) {_VICTIM}
            (set (resident x) false) (set count (- count 1)) (set (place {_LAST}) (place x)) (set (page (place x))
              {_LAST})
            (gives (< count' room))""",
            (Without("a page that is not resident", "(resident x)"),
             Without("the count stays", "(set count (- count 1))")),
        ),
        MachineRule(
            "Attend",
            "A page gets any attention up to the largest.",
            f"(any x Page) (any w Int) {_NONE_WAITS} (<= 0 w) (<= w max_weight) (set (weight x) w)",
            (Without("more than there is", "(<= w max_weight)"),),
        ),
    ),
    World({"Page": 2}, -1, 3),
    definitions="""
    (define-fun score ((p Page)) Int (+ (* unit (last p)) (* count (weight p))))
    ; Page p is evicted rather than page q, if one of them must be.
    (define-fun goes_before ((p Page) (q Page)) Bool
      (or (< (score p) (score q)) (and (= (score p) (score q)) (<= (number p) (number q)))))""",
    promises=(
        MachineRule(
            "no_two_pages_are_to_be_evicted",
            "Two pages each of which goes before the other are one: of those with one score, the lowest goes.",
            """(any x Page) (any y Page) (forall ((p Page) (q Page)) (=> (= (number p) (number q)) (= p q)))
            (goes_before x y) (goes_before y x) (gives (= x y))""",
            (Mutant("ties go together", "(goes_before x y)", "(<= (score x) (score y))"),
             Without("two pages of one number", "(= (number p) (number q))")),
            World({"Page": 2}, 0, 2),
        ),
        MachineRule(
            "of_one_page_more_there_is_one_to_be_evicted",
            "If of some pages one goes before any other, there is such a page also with one page more: so there is one"
            " wherever a page is resident.",
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
            "The page that is evicted is not at least as recent and at least as attended as one that stays, one of them"
            " strictly.",
            f"""(any x Page) (any y Page) (<= 1 unit) (resident x) (resident y) {_VICTIM}
            (gives (not (and (<= (last y) (last x)) (<= (weight y) (weight x))
              (or (< (last y) (last x)) (< (weight y) (weight x))))))""",
            (Mutant("minus sign", "(+ (* unit (last p))", "(- (* unit (last p))"),
             Mutant("most recent first", "(or (< (score p) (score q))", "(or (> (score p) (score q))"),
             Without("recency counts for nothing", "(<= 1 unit)"),
             Mutant("attention counts for nothing", "(* count (weight p))", "0")),
            World({"Page": 2}, 0, 2),
        ),
        MachineRule(
            "a_page_may_outlive_a_more_recent_one",
            "It is not always the least recent page that goes: where it is attended enough, another one does.",
            """(any x Page) (any y Page) (<= 1 unit) (<= 1 count) (< (last x) (last y))
            (< (* unit (- (last y) (last x))) (* count (- (weight x) (weight y))))
            (gives (< (score y) (score x)))""",
            (Mutant("attention is not enough", "(< (* unit (- (last y) (last x)))",
                    "(<= (* unit (- (last y) (last x)))"),),
            World({"Page": 2}, 0, 2),
        ),
    ),
    witnesses=("place", "page"),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
