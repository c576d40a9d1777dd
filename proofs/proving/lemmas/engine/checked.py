"""Write proofs of lemmas and have them read again by a checker.

A second solver may be wrong like the first, but the checker only checks proofs. Its input is the lemma's own queries,
in files beside the proofs. The goal of a statement is given in parts, which together are the goal. A lemma about lists
comes with its definitions at the calls that it makes. A lemma without such a proof is no less proved than before; a
proof that the checker refuses makes it UNKNOWN. spec: V4.12
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from proofs.proving.lemmas.engine.family import AnyLemma, Family, statements_of
from proofs.proving.lemmas.engine.induction import Lemma, proofs_of
from proofs.proving.lemmas.engine.instances import without_recursion
from proofs.proving.smt.expressions import Expression, parse_one, text_of
from proofs.proving.solvers.smtinterpol import SMTInterpol
from tmmu.core import canonical
from tmmu.core.errors import TmmuError

CHECKED, NONE, REFUSED = "CHECKED", "NONE", "REFUSED"


class Evidence(NamedTuple):
    """Whether a lemma has a checked proof: the steps of the proof, or why there is none."""

    verdict: str
    detail: str


def proof_script(family: Family, lemma: AnyLemma) -> tuple[str, int]:
    """Return the queries of a lemma's proof as SMT-LIB that asks for a proof of each, and their number."""
    declarations, queries = "", []
    if isinstance(lemma, Lemma):
        plain = [
            without_recursion(family.text, q.negation()) for q in proofs_of(family.context, family.text)[lemma.name]
        ]
        (declarations,) = {query.declarations for query in plain}
        queries = [query.commands for query in plain]
    else:
        for statement in statements_of(lemma):
            *before, last = statement.refutation()
            queries += ["\n".join((*before, f"(assert (not {text_of(part)}))")) for part in _parts(last)]
    asked = "".join(f"(push 1)\n{query}\n(check-sat)\n(get-proof)\n(pop 1)\n" for query in queries)
    head = f"; {lemma.sentence}\n(set-option :produce-proofs true)\n(set-logic ALL)\n"
    return f"{head}{declarations}\n{asked}", len(queries)


def _parts(negated_goal: str) -> list[Expression]:
    """Return the conjuncts of the goal of `(assert (not goal))`, which are proved one by one."""
    match parse_one(negated_goal):
        case ["assert", ["not", ["and", *parts]]]:
            return parts
        case ["assert", ["not", goal]]:
            return [goal]
        case _:
            raise AssertionError(f"{negated_goal[:60]!r} is not a negated goal")


def check_proofs(family: Family, lemma: AnyLemma, tool: SMTInterpol, folder: Path, timeout_s: float) -> Evidence:
    """Look for proofs of a lemma's queries, `timeout_s` seconds for each, and have them checked.

    Writes `NAME.smt2` and `NAME.proof` into the folder; the latter is removed if nothing was checked. Raises TmmuError
    if the folder cannot be written.
    """
    text, queries = proof_script(family, lemma)
    asked, kept, scratch = (folder / f"{lemma.name}{suffix}" for suffix in (".smt2", ".proof", ".unchecked"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            kept.unlink()
        canonical.write_atomically(asked, text.encode())
        if reason := tool.prove(asked, queries, scratch, timeout_s):
            return Evidence(NONE, reason)
        answer = tool.check(asked, queries, scratch)
        if answer.failure:
            return Evidence(REFUSED if answer.wrong else NONE, answer.failure)
        os.replace(scratch, kept)
        return Evidence(CHECKED, f"{answer.steps} steps")
    except OSError as error:
        raise TmmuError(
            "TMMU_ALLOCATION_FAILURE", f"cannot be written ({error.strerror})", file=str(folder),
            fix="name another folder",
        ) from error  # fmt: skip
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink()
