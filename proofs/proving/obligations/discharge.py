"""Hand batches of rows to solvers as fast as they take them, and narrow a false batch down to one row.

One thread for each solver draws the next batch, formats it and waits, so that only the text under evaluation exists. A
batch counts as discharged only by the exact answer of a refutation with its vacuity check. After the first batch that
is not, the rest of its obligation is left undone, because nothing can make it proved any more. spec: V4.1, V4.6
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from proofs.proving.obligations.rows import Batch, Place, Unprovable, combine_small_batches
from proofs.proving.solvers import Answer, Solver, refutation

ROWS = 200
"""The number of rows, or of cells of chains, in one query.

With more, the solver's data leaves the processor's cache: in queries of 4,000, a row costs up to twice as much. The
queries of a batch are one text, because each round trip costs a tenth of a millisecond.
"""
NOTHING = Batch(["true"], lambda _: Place(), 0)
"""The batch of an obligation that has no rows. A solver that cannot answer this proves nothing."""


@dataclass
class Result:
    """The progress of an obligation: rows, solver seconds, and a false row with its place or the reason why it is open.

    Of several false rows it has the one that was drawn first, whichever solver was faster. `batch` is the number of its
    batch.
    """

    rows: int = 0
    seconds: float = 0.0
    refuted: tuple[str, Place] | None = None
    failure: str | None = None
    batch: int = 0

    @property
    def proved(self) -> bool:
        """Whether every row drawn so far is discharged."""
        return self.refuted is None and self.failure is None


def discharge(
    tasks: Sequence[Iterator[Batch]],
    solvers: Sequence[Solver],
    timeout_s: float,
    begin: Callable[[int], None] = lambda _: None,
) -> list[Result]:
    """Evaluate all batches of all tasks, in order, on all solvers at once. Return one result for each task.

    `begin` is called with the number of each task when its first batch is drawn. An exception raised while a batch is
    drawn is raised again, except `Unprovable`, which leaves its task open.
    """
    results = [Result() for _ in tasks]
    lock = threading.Lock()
    source = _draw(tasks, results, begin)
    raised: list[BaseException] = []

    def work(solver: Solver) -> None:
        try:
            while True:
                with lock:
                    drawn = None if raised else next(source, None)
                if drawn is None:
                    return
                result, number, batch = drawn
                answer, rows = _ask(batch, solver, timeout_s)
                refuted = narrow_to_false_row(batch, solver, timeout_s, rows) if answer.counterexample else None
                with lock:
                    _note(result, number, batch, answer, refuted)
        except BaseException as error:  # handed to the caller: only its thread may raise it
            with lock:
                raised.append(error)

    threads = [threading.Thread(target=work, args=(solver,), daemon=True) for solver in solvers[1:]]
    for thread in threads:
        thread.start()
    work(solvers[0])
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
    return results


def _draw(
    tasks: Sequence[Iterator[Batch]], results: Sequence[Result], begin: Callable[[int], None]
) -> Iterator[tuple[Result, int, Batch]]:
    for k, (task, result) in enumerate(zip(tasks, results, strict=True)):
        begin(k)
        empty = True
        try:
            for number, batch in enumerate(combine_small_batches(task)):
                empty = False
                yield result, number, batch
                if not result.proved:
                    break
            if empty:
                yield result, 0, NOTHING
        except Unprovable as reason:
            result.failure = str(reason)


def _note(result: Result, number: int, batch: Batch, answer: Answer, refuted: tuple[str, Place] | None) -> None:
    result.rows += batch.weight
    result.seconds += answer.seconds
    if refuted is not None:
        if result.refuted is None or number < result.batch:
            result.refuted, result.batch = refuted, number
    elif not answer.proof:
        result.failure = result.failure or answer.failure or f"the solver answers {answer.text[:200]!r}"


def _ask(batch: Batch, solver: Solver, timeout_s: float) -> tuple[Answer, range]:
    """Return the answer to the first query of a batch that is not discharged, or to the last query, with its rows."""
    size = max(1, ROWS * len(batch.rows) // max(batch.weight, len(batch.rows)))
    queries = [range(len(batch.rows))[k : k + size] for k in range(0, len(batch.rows), size)]
    text = "".join(refutation("\n".join(batch.rows[rows.start : rows.stop])) for rows in queries)
    answers = solver.evaluate(text, timeout_s).of_each(len(queries))
    which = next((k for k, answer in enumerate(answers) if not answer.proof), -1)
    return answers[which], queries[which]


def narrow_to_false_row(batch: Batch, solver: Solver, timeout_s: float, rows: range) -> tuple[str, Place] | None:
    """Find a false row of a batch by halves, given that one of these rows is false.

    Returns None if the solver does not answer so again.
    """
    low, high = rows.start, rows.stop
    while high - low > 1:
        middle = (low + high) // 2
        if solver.evaluate(refutation("\n".join(batch.rows[low:middle])), timeout_s).counterexample:
            high = middle
        else:
            low = middle
    if not solver.evaluate(refutation(batch.rows[low]), timeout_s).counterexample:
        return None
    return batch.rows[low], batch.place(low)
