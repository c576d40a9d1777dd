"""Running a plan: a step overwrites no byte that is still to be read, in whatever order it writes.

Memory gives each byte a value; `content` is the intended value of byte k of a storage. A step may write its results'
bytes in any order and several times while it reads. Between its first and its last write, memory may therefore be
anything that differs only in bytes of storages born at that step. With closed lifetimes this destroys no operand. With
half-open ones, an operand and a result may share bytes at one step, and it does. In-place results are the exception:
their kernel must compute each element from its own place. `tla/tmmu/ArenaExecution.tla` has the same for small plans,
with one read or write an action.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: T1.1, T3.1, T3.2, T2.10, T2.11, V1.1, V1.5, V4.9, V4.11
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.statements import Mutant, Statement, World

_MEMORY = """
(declare-sort Storage 0)(declare-sort Value 0)
(declare-fun birth (Storage) Int)(declare-fun death (Storage) Int)
(declare-fun offset (Storage) Int)(declare-fun bytes (Storage) Int)(declare-fun content (Storage Int) Value)
(declare-fun before (Int) Value)(declare-fun after (Int) Value)(declare-fun writer (Int) Storage)
(declare-const now Int)
"""
_MEET = "(<= (birth x) (death y)) (<= (birth y) (death x))"
_APART_WHERE_THEY_MEET = (
    f"(forall ((x Storage) (y Storage)) (=> (and (distinct x y) {_MEET})"
    " (or (<= (+ (offset x) (bytes x)) (offset y)) (<= (+ (offset y) (bytes y)) (offset x)))))"
)
_LIVES = "(forall ((x Storage)) (<= (birth x) (death x)))"
_HELD_BEFORE = (
    "(forall ((x Storage) (k Int)) (=> (and (< (birth x) now) (<= now (death x)) (<= 0 k) (< k (bytes x)))"
    " (= (before (+ (offset x) k)) (content x k))))"
)
_WRITES_ITS_OWN = (
    "(forall ((byte Int)) (=> (distinct (after byte) (before byte)) (and (= now (birth (writer byte)))"
    " (<= (offset (writer byte)) byte) (< byte (+ (offset (writer byte)) (bytes (writer byte)))))))"
)
_RESULTS = (
    "(forall ((x Storage) (k Int)) (=> (and (= now (birth x)) (<= 0 k) (< k (bytes x)))"
    " (= (after (+ (offset x) k)) (content x k))))"
)
_HALF_OPEN = Mutant("lifetimes without their death", _MEET, _MEET.replace("<=", "<"))
_ANYWHERE = Mutant("the step writes anywhere", f"(assume {_WRITES_ITS_OWN})", "")
_WORLD = World({"Storage": 2, "Value": 2}, 0, 3)

_WINDOWS = """
(declare-sort Storage 0)(declare-sort Tensor 0)
(declare-fun birth (Storage) Int)(declare-fun death (Storage) Int)
(declare-fun offset (Storage) Int)(declare-fun bytes (Storage) Int)
(declare-fun storage (Tensor) Storage)(declare-fun born (Tensor) Int)(declare-fun dies (Tensor) Int)
(declare-fun window (Tensor) Int)(declare-fun length (Tensor) Int)
(declare-const a Tensor)(declare-const b Tensor)(declare-const step Int)(declare-const byte Int)
"""
_WITHIN_STEPS = "(<= (birth (storage t)) (born t)) (<= (dies t) (death (storage t)))"
_WITHIN_BYTES = "(<= 0 (window t)) (<= (+ (window t) (length t)) (bytes (storage t)))"


def _at(tensor: str) -> str:
    """Return the formula that the tensor is live at the step and that the byte is one of its bytes."""
    start = f"(+ (offset (storage {tensor})) (window {tensor}))"
    return (
        f"(and (<= (born {tensor}) step) (<= step (dies {tensor}))"
        f" (<= {start} byte) (< byte (+ {start} (length {tensor}))))"
    )


_TAKEN = """
(declare-sort Tensor 0)(declare-sort Value 0)
(declare-fun born (Tensor) Int)(declare-fun dies (Tensor) Int)
(declare-fun start (Tensor) Int)(declare-fun length (Tensor) Int)(declare-fun content (Tensor Int) Value)
(declare-fun before (Int) Value)(declare-fun after (Int) Value)
(declare-const operand Tensor)(declare-const result Tensor)(declare-const now Int)
"""
_ALL_BUT_THE_PAIR_ARE_APART = (
    "(forall ((x Tensor) (y Tensor)) (=> (and (distinct x y) (<= (born x) now) (<= now (dies x)) (<= (born y) now)"
    " (<= now (dies y)) (not (and (= x operand) (= y result))) (not (and (= x result) (= y operand))))"
    " (or (<= (+ (start x) (length x)) (start y)) (<= (+ (start y) (length y)) (start x)))))"
)
_HELD = (
    "(forall ((x Tensor) (k Int)) (=> (and (< (born x) now) (<= now (dies x)) (<= 0 k) (< k (length x)))"
    " (= (before (+ (start x) k)) (content x k))))"
)
_WRITES_THE_RESULT = (
    "(forall ((byte Int)) (=> (distinct (after byte) (before byte))"
    " (and (<= (start result) byte) (< byte (+ (start result) (length result))))))"
)
_READ_LATER = "(< now (dies x))"

_SLICE = """
(declare-sort Value 0)
(declare-fun operand (Int) Value)(declare-fun element (Int Value) Value)
(declare-fun before (Int) Value)(declare-fun after (Int) Value)
(declare-fun done (Int) Bool)(declare-const i Int)
"""
_AS_FAR = "(forall ((k Int)) (= (before k) (ite (done k) (element k (operand k)) (operand k))))"
_COMPUTES = "(forall ((k Int)) (= (after k) (ite (= k i) (element i (before i)) (before k))))"

LEMMAS = (
    Statement(
        "operands_stay_whole_during_a_step",
        "While a step writes its results, in any order and any number of times, every byte that was written before and"
        " is still to be read keeps its value.",
        _MEMORY, (_APART_WHERE_THEY_MEET, _LIVES, _HELD_BEFORE, _WRITES_ITS_OWN),
        _HELD_BEFORE.replace("(before ", "(after "),
        (_HALF_OPEN, _ANYWHERE), _WORLD,
    ),
    Statement(
        "what_is_read_is_what_was_written",
        "If memory holds, before a step, every value that is written and still to be read, it does so after the step,"
        " its results included. By induction, each read finds the value that was written.",
        _MEMORY, (_APART_WHERE_THEY_MEET, _LIVES, _HELD_BEFORE, _WRITES_ITS_OWN, _RESULTS),
        _HELD_BEFORE.replace("(before ", "(after ").replace("(< (birth x) now) (<= now (death x))",
                                                            "(<= (birth x) now) (<= now (death x))"),
        (_HALF_OPEN, _ANYWHERE, Mutant("the results are not finished", f"(assume {_RESULTS})", "")), _WORLD,
    ),
    Statement(
        "tensors_of_storages_that_are_apart_are_apart",
        "Tensors within their storages, in steps and in bytes, share no byte at a step of both if the storages share"
        " none.",
        _WINDOWS,
        (f"(forall ((x Storage) (y Storage)) (=> (and (distinct x y) {_MEET})"
         " (or (<= (+ (offset x) (bytes x)) (offset y)) (<= (+ (offset y) (bytes y)) (offset x)))))",
         f"(forall ((t Tensor)) (and {_WITHIN_STEPS} {_WITHIN_BYTES}))",
         "(distinct (storage a) (storage b))"),
        f"(not (and {_at('a')} {_at('b')}))",
        (Mutant("a tensor outlives its storage", "(<= (dies t) (death (storage t)))", "true"),
         Mutant("a window reaches beyond its storage", "(<= (+ (window t) (length t)) (bytes (storage t)))", "true"),
         Mutant("a window starts before its storage", "(<= 0 (window t))", "true")),
        World({"Storage": 2, "Tensor": 2}, -1, 4),
    ),
    Statement(
        "a_view_shows_its_window_of_the_base",
        "If memory holds the base, a view finds at each of its bytes the byte of the base at its window.",
        """
        (declare-sort Value 0)(declare-fun memory (Int) Value)(declare-fun content (Int) Value)
        (declare-const offset Int)(declare-const bytes Int)(declare-const window Int)(declare-const length Int)
        """,
        ("(forall ((k Int)) (=> (and (<= 0 k) (< k bytes)) (= (memory (+ offset k)) (content k))))",
         "(<= 0 window)", "(<= (+ window length) bytes)"),
        "(forall ((k Int)) (=> (and (<= 0 k) (< k length)) (= (memory (+ offset window k)) (content (+ window k)))))",
        (Mutant("a window beyond its base", "(assume (<= (+ window length) bytes))", ""),),
        World({"Value": 2}, 0, 3),
    ),
    Statement(
        "an_in_place_result_spoils_nothing_but_its_operand",
        "If no other two tensors share bytes, a result that takes those of an operand which dies at this step changes,"
        " while it is written, no other operand and no tensor that is read later.",
        _TAKEN,
        (_ALL_BUT_THE_PAIR_ARE_APART, "(= (born result) now)", "(<= now (dies result))", "(< (born operand) now)",
         "(= (dies operand) now)", "(= (start result) (start operand))", "(= (length result) (length operand))", _HELD,
         _WRITES_THE_RESULT),
        "(forall ((x Tensor) (k Int)) (=> (and (< (born x) now) (<= now (dies x))"
        f" (or (distinct x operand) {_READ_LATER}) (<= 0 k) (< k (length x)))"
        " (= (after (+ (start x) k)) (content x k))))",
        (Mutant("the operand is read later", "(assume (= (dies operand) now))", "(assume (<= now (dies operand)))"),
         Mutant("another operand shares bytes with it", "(not (and (= x result) (= y operand)))",
                "(distinct x result)"),
         Mutant("the step writes beyond its result", "(< byte (+ (start result) (length result)))",
                "(<= byte (+ (start result) (length result)))"),
         Mutant("the result begins a step later", "(assume (= (born result) now))", "")),
        World({"Tensor": 3, "Value": 2}, 0, 3),
    ),
    Statement(
        "in_place_any_order_of_elements_is_right",
        "A kernel that computes each element from its own place, once each and in any order, turns the operand into"
        " the result: elements done hold the result, the others the operand.",
        _SLICE, (_AS_FAR, _COMPUTES, "(not (done i))"),
        "(forall ((k Int)) (= (after k) (ite (or (done k) (= k i)) (element k (operand k)) (operand k))))",
        (Mutant("it reads the place beside", "(element i (before i))", "(element i (before (+ i 1)))"),
         Mutant("an element is computed twice", "(assume (not (done i)))", "")),
        World({"Value": 3}, 0, 3),
    ),
)  # fmt: skip
