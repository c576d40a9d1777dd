"""Let solvers prove a set: that its state is apart, left alone and handed on, whatever the sequence of calls.

Rows are ground facts of this set. The lemmas are about every set: state by address that passes `layout` shares no byte,
what is clear of a hull is clear of its parts, and under both every byte of the state holds what it was given last,
after any sequence of calls (`plan_set_is_inductive`). spec: V4.1, V4.3, PS1.3 to PS1.7, PS4.1
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proofs.definition.violations import Obligation
from proofs.proving.lemmas import at_use
from proofs.proving.lemmas.plan import chains, hulls
from proofs.proving.obligations.rows import Unprovable
from proofs.proving.obligations.sizes_over_envelope import query_equal
from proofs.proving.solvers import Solver, refutation
from proofs.proving.solvers.process import SOLVERS
from proofs.sets.members import SetMember
from proofs.sets.state import StateTensor, list_ends
from tmmu.plans.sets import Agreement

DEFINITIONS = f"""{chains.DEFINITIONS}{hulls.HULLS}
(define-fun same_place ((arena Int) (first Int) (bytes Int) (alignment Int) (type Int)
                        (arena_ Int) (first_ Int) (bytes_ Int) (alignment_ Int) (type_ Int)) Bool
  (and (= arena arena_) (= first first_) (= bytes bytes_) (= alignment alignment_) (= type type_)))
(define-fun to_the_end ((death Int) (last Int)) Bool (<= last death))
"""
LEMMAS = (
    "slots_are_apart_in_bytes", "layouts_join", "what_is_clear_of_a_hull_is_clear_of_its_parts",
    "plan_set_is_inductive",
)  # fmt: skip
"""The lemmas that the rows rest on."""
CELLS = 64
"""The tensors of the state in one row."""
ROWS = 500
"""The rows of one query."""
MANY = 1 << 16
"""The most pairs of hulls of one program in one arena."""

Range = tuple[int, int]
"""The first byte of a range, and the one behind its last."""


@dataclass(frozen=True)
class SetOutcome:
    """What a solver proved of a set: the rows of each obligation, and why one is open."""

    rows: dict[Obligation, int]
    open: dict[Obligation, str] = field(default_factory=dict)


def set_rows(
    members: Sequence[SetMember], agreement: Agreement, state: Sequence[StateTensor]
) -> Iterator[tuple[Obligation, str]]:
    """Yield the rows that a set must satisfy. O(n log n) for n tensors, and one row for each write and hull."""
    arenas = {name: k for k, name in enumerate(dict.fromkeys(_arena_names(members)))}
    types = {name: k for k, name in enumerate(dict.fromkeys(one.dtype for one in agreement.shared))}
    by_name = {member.name: member for member in members}
    for one in agreement.shared:
        agreed = (arenas[one.arena], one.offset, one.bytes, one.alignment, types[one.dtype])
        for program, use in one.uses.items():
            for tensor in use.names:
                member = by_name[program]
                row = member.rows[tensor]
                t = member.tensor(row)
                its = (
                    arenas[member.arena_of(row)], t.address, t.bytes, t.alignment, types.get(member.dtype_of(row), -1),
                )  # fmt: skip
                yield Obligation.SHARED_AT_ONE_PLACE, _call("same_place", *its, *agreed)
                if use.exit == tensor:
                    yield Obligation.STATE_IS_RETURNED, _call("to_the_end", t.death, member.run.last_step)
    for arena in arenas:
        for text in _apart([one for one in state if one.arena == arena and one.bytes]):
            yield Obligation.STATE_IS_UNTOUCHED, text
    for member in members:
        for arena in arenas:
            for text in dict.fromkeys(_left_alone(member, arena, state)):
                yield Obligation.STATE_IS_UNTOUCHED, text


def size_queries(members: Sequence[SetMember], state: Sequence[StateTensor]) -> Iterator[str]:
    """Yield the queries that state has its bytes at every shape of an envelope, one for each size. spec: PS1.11"""
    for member in members:
        envelope = member.plan.envelope
        if envelope is None:
            continue
        terms, ranges = envelope.terms.rows(), list(member.plan.ranges.values())
        for size, planned in dict.fromkeys(
            (int(envelope.size[row]), one.bytes) for one, row in list_ends(member, state)
        ):
            yield query_equal(terms, size, planned, ranges)


def _arena_names(members: Sequence[SetMember]) -> Iterator[str]:
    return (arena.name for member in members for arena in member.run.arenas)


def _call(function: str, *values: int) -> str:
    return f"({function} {' '.join(str(value) if value >= 0 else f'(- {-value})' for value in values)})"


def _apart(placed: Sequence[StateTensor]) -> Iterator[str]:
    """Yield calls of `layout` on the state of one arena by address, each from where the one before ended."""
    ordered = sorted(placed, key=lambda one: one.address)
    cursor = 0
    for k in range(0, len(ordered), CELLS):
        cells = ordered[k : k + CELLS]
        text = "no_slots"
        for one in reversed(cells):
            text = f"(slot {one.address} {one.bytes} 1 {text})"
        yield f"(layout {cursor} {cells[-1].end} {text})"
        cursor = cells[-1].end


def _left_alone(member: SetMember, arena: str, state: Sequence[StateTensor]) -> Iterator[str]:
    """Yield that the state of an arena that a program leaves alone, and its writes, are in hulls that are apart.

    State with no write between has one hull, and writes with no state between. A write that hits a tensor gives a
    false row.
    """
    entries = {one.uses[member.name].entry for one in state if member.name in one.uses}
    left = [one for one in state if one.arena == arena and one.bytes and one.is_left_alone_by(member.name)]
    callers = [row for row in member.callers if member.tensor(row).name not in entries]
    tensors = [member.tensor(row) for row in (*member.written, *callers) if member.arena_of(row) == arena]
    writes = sorted({(t.address, t.address + t.bytes) for t in tensors})
    kept = sorted((one.address, one.end) for one in left)
    hulls_of_writes, hulls_of_state = _hulls(writes, kept), _hulls(kept, writes)
    if len(hulls_of_writes) * len(hulls_of_state) > MANY:
        raise Unprovable(f"{member.name} writes between its state in so many places that there are over {MANY} rows")
    for ranges in (hulls_of_writes, hulls_of_state):
        for (low, high), parts in ranges.items():
            for first, end in parts:
                yield _call("in_hull", first, end - first, low, high)
    for low, high in hulls_of_writes:
        for first, end in hulls_of_state:
            yield _call("clear_of", first, end - first, low, high)


def _hulls(ranges: Sequence[Range], others: Sequence[Range]) -> dict[Range, list[Range]]:
    """Group ranges of bytes with no beginning of another one between them; return the hull of each group."""
    starts = [first for first, _ in others]
    groups: dict[int, list[Range]] = {}
    for each in ranges:
        groups.setdefault(bisect_left(starts, each[1]), []).append(each)
    return {(min(part[0] for part in parts), max(part[1] for part in parts)): parts for parts in groups.values()}


def prove_set(
    members: Sequence[SetMember],
    agreement: Agreement,
    state: Sequence[StateTensor],
    solver: str = "z3",
    timeout_s: float = 600.0,
) -> SetOutcome:
    """Let one solver prove the lemmas and evaluate every row. What it does not discharge is open, with the reason."""
    start = SOLVERS[solver]
    with start(DEFINITIONS, start_s=timeout_s) as process:
        unproved = at_use.prove_unrecorded(process.version, timeout_s, start=start)
        outcome = evaluate_rows(process, members, agreement, state, timeout_s)
    missing = [name for name in LEMMAS if name in unproved]
    if missing:
        reason = f"its lemma {missing[0]} is not proved: {unproved[missing[0]]}"
        outcome.open.setdefault(Obligation.STATE_IS_UNTOUCHED, reason)
    return outcome


def evaluate_rows(
    process: Solver, members: Sequence[SetMember], agreement: Agreement, state: Sequence[StateTensor], timeout_s: float
) -> SetOutcome:  # fmt: skip
    """Let a solver that has read `DEFINITIONS` evaluate every row."""
    found = SetOutcome({})
    by_obligation: dict[Obligation, list[str]] = {}
    try:
        for obligation, text in set_rows(members, agreement, state):
            by_obligation.setdefault(obligation, []).append(text)
    except Unprovable as reason:
        found.open[Obligation.STATE_IS_UNTOUCHED] = str(reason)
    queries = {
        obligation: [refutation("\n".join(texts[k : k + ROWS])) for k in range(0, len(texts), ROWS)]
        for obligation, texts in by_obligation.items()
    }
    of_sizes = list(size_queries(members, state))
    for obligation, texts in by_obligation.items():
        found.rows[obligation] = len(texts)
    if of_sizes:
        found.rows[Obligation.SHARED_AT_ONE_PLACE] += len(of_sizes)
        queries[Obligation.SHARED_AT_ONE_PLACE] += of_sizes
    for obligation, asked in queries.items():
        for text in asked:
            answer = process.evaluate(text, timeout_s)
            if not answer.proof:
                answered = answer.failure or f"the solver answers {answer.text[:200]!r} of the rows"
                found.open.setdefault(obligation, answered)
                break
    return found
