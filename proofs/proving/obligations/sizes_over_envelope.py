"""Show that no shape of the envelope gives a tensor more bytes than planned: one query for each size, over integers.

The size is taken from the plan's own rows, as an SMT term over constants that represent dimensions. The query asks for
a shape inside the envelope that makes the size negative or larger than planned, or a divisor less than one. A second
answer, about the envelope only, shows that the ranges are not empty. One more query shows why the largest sizes
suffice: storages that are disjoint, aligned and in bounds stay so when they shrink. Of a symbolic plan another shows
that they stay so when they are prefix sums of smaller slots. spec: R6.5, R6.15
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proofs.proving.lemmas.plan.shrinking import SMALLER_PARTS, SMALLER_SUMS
from proofs.proving.solvers import Solver
from tmmu.core.dims.table import OPS, Row
from tmmu.plans.sections import Plan

SENTENCE = "For every shape inside the envelope, every tensor has at most the bytes that are planned for it."


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
    needed = _needed(rows, row)
    lines = "".join(
        f"(declare-const d{k} Int)(assert (and (<= {a} d{k})(<= d{k} {b})))" for k, (a, b) in enumerate(ranges)
    )
    terms = "".join(f"(let ((t{k} {_term(rows[k])}))" for k in needed)
    divisors = "".join(f"(<= 1 t{rows[k].right})" for k in needed if OPS[rows[k].op] == "div")
    claim = f"(and true {divisors}(<= 0 t{row})(<= t{row} {most}))"
    closing = ")" * len(needed)
    return f"(push 1){lines}\n(push 1)(assert (not {terms}\n{claim}{closing}))(check-sat)(pop 1)(check-sat)(pop 1)"


def _needed(rows: list[Row], row: int) -> list[int]:
    """Return the rows that a row is made of, itself included, in order."""
    found, work = set[int](), [row]
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


def queries(plan: Plan) -> Iterator[tuple[int | None, str]]:
    """Yield the queries that shrinking is safe, then one for each distinct size and planned bytes.

    Each query comes with the first tensor of that size, those about shrinking with None.
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


def ask(plan: Plan, solver: Solver, timeout_s: float) -> Shown:
    """Ask every query. Stops at the first that is not discharged."""
    count, seconds = 0, 0.0
    for t, text in queries(plan):
        answer = solver.evaluate(text, timeout_s)
        seconds += answer.seconds
        if not answer.proof:
            why = answer.failure or f"the solver answers {answer.text[:200]!r}"
            if t is None:
                return Shown(0, seconds, failure=why)
            return Shown(count + 1, seconds, plan.allocation.tensors.name[t], why, answer.counterexample)
        count += 1
    return Shown(count, seconds)
