"""The obligations of a plan as SMT-LIB 2, as `proofs.proving.smt.script` has it. spec: C4.3, V4.10"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from proofs.definition import promises
from proofs.definition.violations import Obligation
from proofs.proving import obligations
from proofs.proving.obligations import sizes_over_envelope
from proofs.proving.obligations.context import Context
from proofs.proving.obligations.rows import Batch, Place, Unprovable, combine_small_batches
from proofs.proving.smt.script import CANARY, UNSAT, write, write_queries
from proofs.proving.smt.unfold import Scope
from tmmu.core import canonical
from tmmu.core.output import escape_line


def clear(folder: Path) -> None:
    """Remove what an earlier run wrote of a plan into `folder`: it may be of another plan.

    Raises TmmuError where a file of such a name cannot be removed. spec: C4.4
    """
    for name in (*obligations.MODULES, *obligations.OF_STREAMS, Obligation.SIZES_OVER_ENVELOPE, promises.NAME):
        canonical.remove(folder / f"{name}.smt2")


def write_plan(folder: Path, context: Context, limit: int) -> list[Path]:
    """A file for each obligation of a plan, and up to `limit` storages one for the definition; the paths.

    For a plan whose every obligation was discharged: the status of each query is `unsat`. O(n log n) text.
    """
    plan, scope = context.plan, Scope(obligations.PRELUDE)
    written, named = [], obligations.name_places(plan.allocation)
    for name, module in obligations.modules_of(plan).items():
        queries = _queries(module.rows(context), named)
        written.append(write(folder / f"{name}.smt2", module.SENTENCE, write_queries(scope, queries)))
    if plan.envelope is not None:
        asked = (_with_statuses(query) for _, query in sizes_over_envelope.queries(plan, context.permissions))
        text = chain(["(set-logic ALL)\n"], asked)
        path = folder / f"{Obligation.SIZES_OVER_ENVELOPE}.smt2"
        written.append(write(path, sizes_over_envelope.SENTENCE, text))
    if len(plan.allocation.storages) <= limit:
        parts = [
            f"; {one.promise}\n(push 1)\n{one.tables}\n(push 1)\n{one.breaks}\n{UNSAT}(pop 1)\n"
            f"{one.canary}\n{CANARY}(pop 1)\n"
            for one in promises.questions(plan.allocation, plan.claims)
        ]
        path = folder / f"{promises.NAME}.smt2"
        written.append(write(path, promises.SENTENCE, ["(set-logic QF_BV)\n", *parts]))
    return written


def _queries(batches: Iterator[Batch], named: Callable[[Place], str]) -> Iterator[str]:
    """The negation of the rows of each batch, with what each is about before it; `true` where nothing is asked."""
    empty = True
    try:
        for batch in combine_small_batches(batches):
            empty = False
            rows = "\n".join(batch.rows)
            about = "\n".join(f"; row {k}: {escape_line(named(batch.place(k)))}" for k in range(len(batch.rows)))
            yield f"{about}\n(assert (not (and true\n{rows})))"
    except Unprovable:
        return
    if empty:
        yield "(assert (not true))"


def _with_statuses(query: str) -> str:
    """Format a query in separate scopes; its second `check-sat`, of the premises, is the vacuity check."""
    commands, between, end = query.split("(check-sat)")
    return f"{commands}\n{UNSAT}{between}\n{CANARY}{end}\n"


LEMMAS = "lemmas"
"""The folder of the lemmas, which every plan has in common."""


def folder_of(base: str, plan: str) -> Path:
    """Where the files of one plan go: a folder of `base` with the name of the plan's file, without its suffix.

    The suffix stays where without it the name would be the folder of the lemmas, or `base` or what holds it.

    >>> folder_of("out", "a/chain.plan.cbor").as_posix(), folder_of("out", "lemmas.cbor").as_posix()
    ('out/chain', 'out/lemmas.cbor')
    """
    name = os.path.basename(plan)
    short = name.removesuffix(".cbor").removesuffix(".plan")
    return Path(base) / (name if short in ("", ".", "..", LEMMAS) else short)
