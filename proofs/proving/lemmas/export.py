"""Write lemmas as SMT-LIB 2, a file each, for any solver that reads the standard. spec: C4.3, V4.10"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from proofs.proving.lemmas import families
from proofs.proving.lemmas.engine.family import statements_of
from proofs.proving.lemmas.engine.induction import Lemma, proofs_of
from proofs.proving.smt.script import write, write_queries
from proofs.proving.smt.unfold import Scope


def write_lemmas(folder: Path, names: Iterable[str]) -> list[Path]:
    """Write a file for each named lemma, `NAME.smt2`, with every query of its proof. Return the paths.

    Raises TmmuError if a file cannot be written.
    """
    wanted = set(names)
    written = []
    for family in families.FAMILIES.values():
        chosen = [lemma for lemma in family.lemmas if lemma.name in wanted]
        proofs = proofs_of(family.context, family.text) if any(isinstance(lemma, Lemma) for lemma in chosen) else {}
        for lemma in chosen:
            if isinstance(lemma, Lemma):
                queries = [query.negation() for query in proofs[lemma.name]]
            else:
                queries = ["\n".join(statement.refutation()) for statement in statements_of(lemma)]
            text = write_queries(Scope(family.text), queries)
            written.append(write(folder / f"{lemma.name}.smt2", lemma.sentence, text))
    return written
