"""Obligations and lemmas as SMT-LIB 2, for any solver that reads the standard.

A file holds definitions, each query in a scope of its own, and behind them a canary: an empty question, which a
context that answers `unsat` to everything answers wrongly. Calls on lists that are written out are unfolded, so that
the files of a plan need no recursive function; those of some lemmas do, and there a solver that finds no models for
recursive functions may answer the canary with `unknown`. Before each `check-sat` stands the status that it must have;
no option is set, so that no solver is preferred. spec: C4.3, V4.10
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from proofs import obligations
from proofs.lemmas import at_use, proving
from proofs.lemmas.families import LISTS
from proofs.lemmas.statements import Statement
from proofs.lemmas.unfold import Scope
from proofs.obligations import definition, sizes_over_envelope
from proofs.obligations.context import view_of
from proofs.obligations.rows import Batch, Unprovable, gathered
from proofs.readers.sharing import Permissions
from tmmu.core import canonical
from tmmu.core.errors import TmmuError
from tmmu.plan.columns import Plan

UNSAT = "(set-info :status unsat)\n(check-sat)\n"
CANARY = "(set-info :status sat)\n(check-sat)\n"


def script(scope: Scope, queries: Iterable[str]) -> Iterator[str]:
    """A file's text, piece by piece; each query is the commands before its `check-sat`, which must answer `unsat`.

    The queries of one file are taken together: they need the same definitions.
    """
    parts = [scope.unfolded(query) for query in queries]
    definitions = max((definitions for definitions, _ in parts), key=len)
    yield f"(set-logic ALL)\n{definitions.strip()}\n"
    for _, commands in parts:
        yield f"(push 1)\n{commands}\n{UNSAT}(pop 1)\n"
    yield CANARY


def write_lemmas(folder: Path, names: Iterable[str]) -> list[Path]:
    """A file for each named lemma, `NAME.smt2`, with every query of its proof; the paths.

    Raises TmmuError where a file cannot be written.
    """
    wanted = set(names)
    written = []
    for file, lemmas in proving.by_file().items():
        for lemma in lemmas:
            if lemma.name not in wanted:
                continue
            if isinstance(lemma, Statement):
                text = script(Scope(""), ["\n".join(lemma.refutation())])
            else:
                definitions, own, before = LISTS[file]
                queries = at_use.proofs_of((*before, *own), definitions)[lemma.name]
                text = script(Scope(definitions), [query.negation() for query in queries])
            written.append(_write(folder / f"{lemma.name}.smt2", lemma.sentence, text))
    return written


def clear(folder: Path) -> None:
    """Remove what an earlier run wrote of a plan into `folder`: it may speak of another plan than this run does.

    Raises TmmuError where a file of such a name cannot be removed. spec: C4.4
    """
    names = (*(obligation.NAME for obligation in obligations.OBLIGATIONS), sizes_over_envelope.NAME, definition.NAME)
    for name in names:
        canonical.remove(folder / f"{name}.smt2")


def write_plan(folder: Path, plan: Plan, permissions: Permissions, donated: frozenset[str], limit: int) -> list[Path]:
    """A file for each obligation of a plan, and up to `limit` storages one for the definition; the paths.

    For a plan whose every obligation was discharged: the status of each query is `unsat`. O(n log n) text.
    """
    view, scope = view_of(plan, permissions, donated), Scope(obligations.PRELUDE)
    written = []
    for obligation in obligations.OBLIGATIONS:
        queries = _queries(obligation.rows(view))
        path = folder / f"{obligation.NAME}.smt2"
        written.append(_write(path, obligation.SENTENCE, script(scope, queries)))
    if plan.envelope is not None:
        asked = (_with_statuses(query) for _, query in sizes_over_envelope.queries(plan))
        text = chain(["(set-logic ALL)\n"], asked)
        path = folder / f"{sizes_over_envelope.NAME}.smt2"
        written.append(_write(path, sizes_over_envelope.SENTENCE, text))
    rows = definition.table(plan)
    if 2 <= len(rows.storage) <= limit:
        of_pairs = script(Scope(""), [f"{definition.definitions(rows)}\n(assert collide)\n(assert (bvult i j))"])
        written.append(_write(folder / f"{definition.NAME}.smt2", definition.SENTENCE, of_pairs))
    return written


def _queries(batches: Iterator[Batch]) -> Iterator[str]:
    """The negation of the rows of each batch; `true` where nothing is asked."""
    empty = True
    try:
        for batch in gathered(batches):
            empty = False
            rows = "\n".join(batch.rows)
            yield f"(assert (not (and true\n{rows})))"
    except Unprovable:
        return
    if empty:
        yield "(assert (not true))"


def _with_statuses(query: str) -> str:
    """A query in scopes of its own, whose second `check-sat`, of what is given alone, is its canary."""
    commands, between, end = query.split("(check-sat)")
    return f"{commands}\n{UNSAT}{between}\n{CANARY}{end}\n"


def _write(path: Path, sentence: str, text: Iterable[str]) -> Path:
    comment = "".join(f"; {line}\n" for line in sentence.splitlines())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TmmuError(
            "TMMU_ALLOCATION_FAILURE", f"cannot be made ({error.strerror})", file=str(path.parent),
            fix="name another folder",
        ) from error  # fmt: skip
    canonical.write_atomically(path, (comment + "".join(text)).encode())
    return path


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
