"""One query straight from the definition, for plans that are small enough: are there two storages that collide?

Two unknown rows, two tables that give their columns as bit-vectors, and the definition itself: same arena, both live
at one step, a byte in common. No certificate, no chain, no lemma; the model names the pair. The canary asks the same
of a storage and itself, which do collide. spec: V4.7, V1.1, T7.2
"""

from __future__ import annotations

from typing import NamedTuple

from proofs.smt.expressions import parse_one
from proofs.solvers import DISCHARGED, Answer, Solver
from tmmu.plan.columns import Plan

NAME = "definition"
SENTENCE = "Asked of the definition itself: there are no two storages with a byte in common at a step of both."


class Table(NamedTuple):
    """The storages that have bytes: their row in the plan, and columns; `end` is the byte behind the last, exact."""

    storage: list[int]
    arena: list[int]
    birth: list[int]
    death: list[int]
    offset: list[int]
    end: list[int]


def table(plan: Plan) -> Table:
    """The table of a plan, by arena, slot and birth: the order is of no consequence, but lets a solver share terms."""
    s = plan.storages
    columns = zip(*(c.tolist() for c in (s.arena, s.slot, s.birth, s.death, s.offset, s.bytes)), strict=True)
    rows = sorted((a, slot, b, d, o, z, k) for k, (a, slot, b, d, o, z) in enumerate(columns) if z)
    return Table(
        [k for *_, k in rows],
        [a for a, *_ in rows],
        [b for _, _, b, *_ in rows],
        [d for _, _, _, d, *_ in rows],
        [o for *_, o, _, _ in rows],
        [o + z for *_, o, z, _ in rows],
    )


def definitions(rows: Table) -> str:
    """SMT-LIB: unknown rows i and j, each column at both, and what it is to collide. O(rows) text."""
    count = len(rows.storage)
    bits = max(1, (count - 1).bit_length())
    highest = {
        "arena": max(rows.arena),
        **dict.fromkeys(("birth", "death"), max(rows.birth + rows.death)),
        **dict.fromkeys(("offset", "end"), max(rows.offset + rows.end)),
    }
    lines = [f"(declare-const {row} (_ BitVec {bits}))" for row in "ij"]
    for name, top in highest.items():
        width = max(1, top.bit_length())
        leaves = [f"(_ bv{value} {width})" for value in getattr(rows, name)]
        lines += [f"(define-fun {name}_{row} () (_ BitVec {width}) {_select(row, bits, leaves)})" for row in "ij"]
    lines.append(
        f"(define-fun rows () Bool (and (bvule i (_ bv{count - 1} {bits})) (bvule j (_ bv{count - 1} {bits}))))"
    )
    lines.append("(define-fun live_at_one_step () Bool (and (bvule birth_i death_j) (bvule birth_j death_i)))")
    lines.append("(define-fun common_byte () Bool (and (bvult offset_i end_j) (bvult offset_j end_i)))")
    lines.append("(define-fun collide () Bool (and rows (= arena_i arena_j) live_at_one_step common_byte))")
    return "\n".join(lines)


def _select(row: str, bits: int, leaves: list[str]) -> str:
    """The leaf whose number the bits of `row` spell; beyond the last leaf, one of the last."""
    for bit in range(bits):
        odd = f"(= ((_ extract {bit} {bit}) {row}) #b1)"
        leaves = [
            f"(ite {odd} {leaves[k + 1]} {leaves[k]})" if k + 1 < len(leaves) else leaves[k]
            for k in range(0, len(leaves), 2)
        ]
    return leaves[0]


def ask(plan: Plan, solver: Solver, timeout_s: float) -> tuple[Answer, tuple[int, int] | None]:
    """Ask a solver that has read nothing; its answer, and the pair of storages that collide where it says so.

    The answer is a proof if the definition has no model with i < j, and its canary one with i = j. Fewer than two
    storages with bytes are not asked about: they cannot collide.
    """
    rows = table(plan)
    if len(rows.storage) < 2:
        return Answer(DISCHARGED, None, 0.0), None
    text = f"(set-option :produce-models true)\n{definitions(rows)}\n(assert collide)(assert (bvult i j))(check-sat)"
    first = solver.evaluate(text, timeout_s)
    if first.failure is not None:
        return first, None
    if first.text == "sat":
        return Answer("sat\nsat", None, first.seconds), _pair(solver.evaluate("(get-value (i j))", timeout_s), rows)
    again = solver.evaluate(f"(reset)\n{definitions(rows)}\n(assert collide)(assert (= i j))(check-sat)", timeout_s)
    return Answer(f"{first.text}\n{again.text}", again.failure, first.seconds + again.seconds), None


def _pair(answer: Answer, rows: Table) -> tuple[int, int] | None:
    """The storages that `((i #b01) (j #b10))` names."""
    match parse_one(answer.text) if answer.failure is None else None:
        case [["i", str(i)], ["j", str(j)]] if i.startswith("#") and j.startswith("#"):
            first, second = (int(f"0{literal[1:]}", 0) for literal in (i, j))
            return rows.storage[first], rows.storage[second]
        case _:
            return None
