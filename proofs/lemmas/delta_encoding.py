"""Vectors stored as differences: what `tla/mnemosyne/DeltaEncoding.tla` says, for any number of vectors and any width.

`back` is what a reader makes of the lossless records, `near` what it makes of the lossy ones: of the first record the
vector itself, then the one before and the record together. That differences of patterns wrap and give back what they
were taken of, and that a rounded difference is within half a step, are statements by themselves; those about the
records know of `difference`, `sum` and `nearest` no more than these say. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_STATE = State(
    dict.fromkeys(("vector", "exact", "rounded", "back", "near"), (("Int",), "Int")),
    ("length", "synced"),
)
_RECORDS = ("vector", "exact", "rounded", "back", "near")
_SORTS = """
(declare-const modulus Int)(declare-const step Int)
(declare-fun difference (Int Int) Int)(declare-fun sum (Int Int) Int)(declare-fun nearest (Int) Int)
"""
INVERSE = (
    "(forall ((v Int) (a Int)) (=> (and (<= 0 v) (< v modulus) (<= 0 a) (< a modulus))"
    " (and (<= 0 (difference v a)) (< (difference v a) modulus) (= v (sum a (difference v a))))))"
)
"""What the second statement proves, of all patterns."""
HALF_A_STEP = (
    "(forall ((y Int)) (and (<= (* 2 (- (nearest y) y)) step) (<= (* 2 (- y (nearest y))) step)))"
)  # fmt: skip
"""What the third statement proves, of all differences."""


_STORED = "(and (<= 1 i) (<= i length{s}))"
_NEXT_TO = "(and (<= 1 i) (= j (+ i 1)) (<= j length{s}))"


def lossless(s: str) -> tuple[str, ...]:
    """The clauses on the lossless records of the state with suffix `s`, each with its meaning before it."""
    stored, next_to = _STORED.format(s=s), _NEXT_TO.format(s=s)
    return (
        f"(and (<= 0 synced{s}) (<= synced{s} length{s}))",
        # Vectors are patterns, and so are the records.
        f"(forall ((i Int)) (=> {stored} (and (<= 0 (vector{s} i)) (< (vector{s} i) modulus)"
        f" (<= 0 (exact{s} i)) (< (exact{s} i) modulus))))",
        # A reader begins with the first record, and goes on from what it has.
        f"(=> (<= 1 length{s}) (= (back{s} 1) (exact{s} 1)))",
        f"(forall ((i Int) (j Int)) (=> {next_to} (= (back{s} j) (sum (back{s} i) (exact{s} j)))))",
        # Inv_4, the document's invertibility.
        f"(forall ((i Int)) (=> {stored} (= (vector{s} i) (back{s} i))))",
    )


def lossy(s: str) -> tuple[str, ...]:
    """The clauses on the rounded records of the state with suffix `s`."""
    stored, next_to = _STORED.format(s=s), _NEXT_TO.format(s=s)
    return (
        f"(=> (<= 1 length{s}) (= (near{s} 1) (rounded{s} 1)))",
        f"(forall ((i Int) (j Int)) (=> {next_to} (= (near{s} j) (+ (near{s} i) (rounded{s} j)))))",
        # ErrorIsBounded: half a step, however many vectors there are.
        f"(forall ((i Int)) (=> {stored} (and (<= (* 2 (- (near{s} i) (vector{s} i))) step)"
        f" (<= (* 2 (- (vector{s} i) (near{s} i))) step))))",
    )


def invariant(s: str) -> tuple[str, ...]:
    """All clauses that hold of the state with suffix `s`."""
    return (*lossless(s), *lossy(s))


KEPT = (
    "(and (<= synced0 length1) (forall ((i Int)) (=> (and (<= 1 i) (<= i synced0))"
    " (and (= (exact1 i) (exact0 i)) (= (rounded1 i) (rounded0 i)) (= (vector1 i) (vector0 i))))))"
)
"""SyncedIsKept: what is safe stays as it is."""

_ONE = _SORTS + _STATE.declared("0") + _STATE.declared("1") + "(declare-const v Int)"
_AFTER = all_of((*invariant("1"), KEPT))
_WORLD = World({}, 0, 3)
_IS_PATTERN = "(and (<= 0 v) (< v modulus))"
_NEXT = "(+ length0 1)"
_LONGER = f"(= length1 {_NEXT})"
_DIFFERENCE = _STATE.becomes("exact", (_NEXT,), "(difference v (vector0 length0))")
_CLOSED_LOOP = _STATE.becomes("rounded", (_NEXT,), "(nearest (- v (near0 length0)))")
_READS_ON = (
    _STATE.becomes("back", (_NEXT,), f"(sum (back0 length0) (exact1 {_NEXT}))"),
    _STATE.becomes("near", (_NEXT,), f"(+ (near0 length0) (rounded1 {_NEXT}))"),
)
_CUT = "(= length1 synced0)"
_STAYS = tuple(
    f"(forall ((i Int)) (=> (and (<= 1 i) (<= i synced0)) (= ({name}1 i) ({name}0 i))))" for name in _RECORDS
)

STATEMENTS = (
    Statement(
        "a_difference_is_a_pattern",
        "The difference of two patterns modulo their number is their difference as integers, or that and their number:"
        " a pattern in any case.",
        "(declare-const modulus Int)(declare-const v Int)(declare-const a Int)",
        ("(<= 0 v)", "(< v modulus)", "(<= 0 a)", "(< a modulus)"),
        "(and (<= 0 (mod (- v a) modulus)) (< (mod (- v a) modulus) modulus)"
        " (= (mod (- v a) modulus) (ite (<= a v) (- v a) (+ (- v a) modulus))))",
        (Mutant("what is subtracted is no pattern", "(assume (< a modulus))", ""),
         Mutant("it does not wrap", "(+ (- v a) modulus)", "(- v a)")),
        World({}, 0, 5),
    ),
    Statement(
        "a_difference_gives_its_vector_back",
        "Added to what it was taken of, modulo the number of patterns, a difference gives back what it was taken from.",
        "(declare-const modulus Int)(declare-const v Int)(declare-const a Int)(declare-const d Int)",
        ("(<= 0 v)", "(< v modulus)", "(<= 0 a)", "(< a modulus)",
         "(= d (ite (<= a v) (- v a) (+ (- v a) modulus)))"),
        "(= v (mod (+ a d) modulus))",
        (Mutant("the sum does not wrap", "(= v (mod (+ a d) modulus))", "(= v (+ a d))"),
         Mutant("the difference does not wrap", "(ite (<= a v) (- v a) (+ (- v a) modulus))",
                "(ite (<= a v) (- v a) (- a v))"),
         Mutant("a vector that is no pattern", "(assume (< v modulus))", "")),
        World({}, 0, 5),
    ),
    Statement(
        "a_rounded_difference_is_within_half_a_step",
        "The nearest multiple of the step is within half a step.",
        "(declare-const step Int)(declare-const y Int)(declare-const q Int)",
        ("(<= 1 step)", "(= q (div (+ (* 2 y) step) (* 2 step)))"),
        "(and (<= (* 2 (- (* step q) y)) step) (<= (* 2 (- y (* step q))) step))",
        (Mutant("rounded down", "(+ (* 2 y) step)", "(* 2 y)"),
         Mutant("a quarter of a step", "(<= (* 2 (- y (* step q))) step)", "(<= (* 4 (- y (* step q))) step)")),
        World({}, 0, 6),
    ),
    Statement(
        "records_of_no_vectors_are_right",
        "Where nothing is stored, the invariant holds.",
        _SORTS + _STATE.declared("1"),
        ("(= length1 0)", "(= synced1 0)"),
        all_of(invariant("1")),
        (Mutant("something is stored that nobody gave", "(= length1 0)", "(= length1 1)"),),
        _WORLD,
    ),
    Statement(
        "the_first_vector_is_stored_as_it_is",
        "A first vector, stored as it is in both modes, keeps the invariant.",
        _ONE,
        (*invariant("0"), _IS_PATTERN, "(<= 0 step)", "(= length0 0)", "(= length1 1)",
         *(_STATE.becomes(name, ("1",), "v") for name in _RECORDS), *_STATE.same("synced")),
        _AFTER,
        (Mutant("no pattern", assumed(_IS_PATTERN), ""),
         Mutant("in place of another", "(assume (= length0 0))", ""),
         Mutant("rounded", _STATE.becomes("rounded", ("1",), "v"), _STATE.becomes("rounded", ("1",), "(nearest v)"))),
        _WORLD,
    ),
    Statement(
        "a_next_vector_keeps_the_records",
        "A vector stored as its difference from the one before keeps the invariant of the lossless records.",
        _ONE,
        (*lossless("0"), INVERSE, _IS_PATTERN, "(<= 1 length0)", _LONGER, _STATE.becomes("vector", (_NEXT,), "v"),
         _DIFFERENCE, _READS_ON[0], *_STATE.same("synced")),
        all_of((*lossless("1"), "(<= synced0 length1)",
                "(forall ((i Int)) (=> (and (<= 1 i) (<= i synced0)) (= (exact1 i) (exact0 i))))")),
        (Mutant("from the first", _DIFFERENCE, _STATE.becomes("exact", (_NEXT,), "(difference v (vector0 1))")),
         Mutant("does not wrap", assumed(INVERSE), "")),
        _WORLD,
    ),
    Statement(
        "a_next_vector_keeps_the_rounded_records",
        "A vector stored as the rounded difference from what a reader makes of the one before keeps the invariant of"
        " the rounded records.",
        _ONE,
        (*lossy("0"), HALF_A_STEP, "(<= 1 length0)", "(<= synced0 length0)", _LONGER,
         _STATE.becomes("vector", (_NEXT,), "v"), _CLOSED_LOOP, _READS_ON[1], *_STATE.same("synced")),
        all_of((*lossy("1"), "(forall ((i Int)) (=> (and (<= 1 i) (<= i synced0)) (= (rounded1 i) (rounded0 i))))")),
        (Mutant("open loop", _CLOSED_LOOP, _STATE.becomes("rounded", (_NEXT,), "(nearest (- v (vector0 length0)))")),
         Mutant("rounded more coarsely", assumed(HALF_A_STEP), "")),
        _WORLD,
    ),
    Statement(
        "syncing_a_record_keeps_the_records",
        "Syncing the next record keeps the invariant.",
        _ONE,
        (*invariant("0"), "(< synced0 length0)", "(= synced1 (+ synced0 1))", *_STATE.others("synced")),
        _AFTER,
        (Mutant("one that is not there", "(assume (< synced0 length0))", ""),),
        _WORLD,
    ),
    Statement(
        "a_crash_keeps_what_is_synced",
        "A crash that cuts off the records that were not synced keeps the invariant, and all that was.",
        _ONE,
        (*invariant("0"), _CUT, *_STAYS, *_STATE.same("synced")),
        _AFTER,
        (Mutant("crash takes more", _CUT, "(= length1 (- synced0 1))"),
         Mutant("crash takes the records and leaves their number", assumed(_STAYS[1]), "")),
        _WORLD,
    ),
)  # fmt: skip
