"""Show that no shape of the envelope gives a tensor more bytes than planned, or ends sharing: queries over integers.

A size is taken from the plan's own rows, as an SMT term over constants that represent dimensions. One query for each
size asks for a shape inside the envelope that makes it negative or larger than planned, or a divisor less than one. A
second answer, about the envelope only, shows that the ranges are not empty. One more query shows why the largest sizes
suffice: storages that are disjoint, aligned and in bounds stay so when they shrink. Of a symbolic plan another shows
that they stay so when they are prefix sums of smaller slots.

If two tensors that share bytes have different expressions as sizes, a query asks for a shape at which a result in place
has not the size of its operand, or a view ends behind its base. Together these are the facts that the kernel's theorem
about every shape needs (`Shrinks` in `proofs/proving/kernel/Shapes.v`). spec: R6.5, R6.6, R6.15
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proofs.proving.lemmas.plan.shrinking import SMALLER_PARTS, SMALLER_SUMS
from proofs.proving.solvers import Solver
from proofs.readers.sharing import Permissions
from tmmu.core.dims.table import OPS, Row
from tmmu.plans.sections import Plan

SENTENCE = (
    "For every shape inside the envelope, every tensor has at most the bytes that are planned for it, a result in place"
    " has the size of its operand, and a view is inside of its base."
)


NOTHING_SHARED = Permissions()


@dataclass(frozen=True)
class Shown:
    """The result of all queries: how many were discharged, the seconds, and why one was not, with the tensor's name."""

    queries: int
    seconds: float
    tensor: str = ""
    failure: str = ""
    counterexample: bool = False


def query(rows: list[Row], row: int, most: int, ranges: list[tuple[int, int]]) -> str:
    """Return the query that is discharged if `row` is from 0 to `most` for every shape of these ranges.

    >>> print(query([Row(1, 0, 0, 0), Row(0, 0, 0, 4), Row(4, 1, 0, 0)], 2, 32, [(1, 8)]))
    (push 1)(declare-const d0 Int)(assert (and (<= 1 d0)(<= d0 8)))
    (push 1)(assert (not (let ((t0 d0))(let ((t1 4))(let ((t2 (* t1 t0)))
    (and true (<= 0 t2)(<= t2 32)))))))(check-sat)(pop 1)(check-sat)(pop 1)
    """
    return _query(rows, [row], f"(<= 0 t{row})(<= t{row} {most})", ranges)


def query_equal(rows: list[Row], row: int, size: int, ranges: list[tuple[int, int]]) -> str:
    """Return the query that is discharged if the row is `size` for every shape of these ranges. spec: PS1.11"""
    return _query(rows, [row], f"(= t{row} {size})", ranges)


def query_in_place(rows: list[Row], result: int, operand: int, ranges: list[tuple[int, int]]) -> str:
    """Return the query that is discharged if the two rows are equal for every shape of these ranges."""
    return _query(rows, [result, operand], f"(= t{result} t{operand})", ranges)


def query_view(rows: list[Row], view: int, base: int, shift: int, ranges: list[tuple[int, int]]) -> str:
    """Return the query that is discharged if the view, from byte `shift` of its base on, never ends behind the base."""
    return _query(rows, [view, base], f"(<= (+ {shift} t{view}) t{base})", ranges)


def _query(rows: list[Row], about: list[int], claim: str, ranges: list[tuple[int, int]]) -> str:
    needed = _needed(rows, about)
    lines = "".join(
        f"(declare-const d{k} Int)(assert (and (<= {a} d{k})(<= d{k} {b})))" for k, (a, b) in enumerate(ranges)
    )
    terms = "".join(f"(let ((t{k} {_term(rows[k])}))" for k in needed)
    divisors = "".join(f"(<= 1 t{rows[k].right})" for k in needed if OPS[rows[k].op] == "div")
    closing = ")" * len(needed)
    return (
        f"(push 1){lines}\n(push 1)(assert (not {terms}\n(and true {divisors}{claim}){closing}))"
        "(check-sat)(pop 1)(check-sat)(pop 1)"
    )


def _needed(rows: list[Row], about: list[int]) -> list[int]:
    """Return the rows that these rows are made of, themselves included, in order."""
    found, work = set[int](), [*about]
    while work:
        k = work.pop()
        if k not in found:
            found.add(k)
            if OPS[rows[k].op] not in ("number", "dim"):
                work += [rows[k].left, rows[k].right]
    return sorted(found)


def _term(row: Row) -> str:
    op, left, right, value = row
    if OPS[op] == "number":
        return str(value)
    if OPS[op] == "dim":
        return f"d{value}"
    a, b = f"t{left}", f"t{right}"
    if OPS[op] in ("min", "max"):
        return f"(ite ({'<=' if OPS[op] == 'min' else '>='} {a} {b}) {a} {b})"
    return f"({ {'add': '+', 'sub': '-', 'mul': '*', 'div': 'div'}[OPS[op]] } {a} {b})"


def queries(plan: Plan, sharing: Permissions = NOTHING_SHARED) -> Iterator[tuple[int | None, str]]:
    """Yield the queries that shrinking is safe, one for each distinct size and planned bytes, and those of `sharing`.

    Each query comes with the first tensor that it is about, those about shrinking with None. Tensors of one row have
    the same size at every shape, so that nothing is asked about them. O(sizes + sharing)
    """
    assert plan.envelope is not None  # checked by the caller
    rows, ranges = plan.envelope.terms.rows(), list(plan.ranges.values())
    yield None, SMALLER_PARTS.query()
    if plan.envelope.symbolic:
        yield None, SMALLER_SUMS.query()
    asked: set[tuple[int, int]] = set()
    for t, claim in enumerate(zip(plan.envelope.size.tolist(), plan.allocation.tensors.bytes.tolist(), strict=True)):
        if claim not in asked:
            asked.add(claim)
            yield t, query(rows, *claim, ranges)
    size = plan.envelope.size.tolist()
    in_place = {(size[w], size[o]): w for w, o in reversed(sharing.in_place.items()) if size[w] != size[o]}
    for (result, operand), t in in_place.items():
        yield t, query_in_place(rows, result, operand, ranges)
    views = {
        (size[v], size[b], shift): v
        for v, (b, shift) in reversed(sharing.views.items())
        if shift != 0 or size[v] != size[b]
    }
    for (view, base, shift), t in views.items():
        yield t, query_view(rows, view, base, shift, ranges)


def ask(plan: Plan, solver: Solver, timeout_s: float, sharing: Permissions = NOTHING_SHARED) -> Shown:
    """Ask every query. Stops at the first that is not discharged."""
    count, seconds = 0, 0.0
    for t, text in queries(plan, sharing):
        answer = solver.evaluate(text, timeout_s)
        seconds += answer.seconds
        if not answer.proof:
            why = answer.failure or f"the solver answers {answer.text[:200]!r}"
            if t is None:
                return Shown(0, seconds, failure=why)
            return Shown(count + 1, seconds, plan.allocation.tensors.name[t], why, answer.counterexample)
        count += 1
    return Shown(count, seconds)
