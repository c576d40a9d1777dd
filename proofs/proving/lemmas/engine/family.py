"""A file of lemmas: their definitions, and the requests whose answers prove each. spec: V4.3, V4.9"""

from __future__ import annotations

from typing import NamedTuple

from proofs.proving.lemmas.engine.induction import Lemma, proofs_of
from proofs.proving.lemmas.engine.machine import Inductive
from proofs.proving.lemmas.engine.statements import Statement

AnyLemma = Lemma | Statement | Inductive


class Family(NamedTuple):
    """The lemmas of one file, `folder/name`, or some of them.

    Those about lists have `text`, the definitions that a solver reads before, and `context`: all lemmas about that text
    that may be used, these included, in the order in which they are proved.
    """

    file: str
    lemmas: tuple[AnyLemma, ...]
    text: str = ""
    context: tuple[Lemma, ...] = ()

    @property
    def folder(self) -> str:
        """The folder of the file."""
        return self.file.partition("/")[0]

    @property
    def stem(self) -> str:
        """The name of the file without its folder."""
        return self.file.rpartition("/")[2]

    @property
    def path(self) -> str:
        """Where the file is in the repository."""
        return f"proofs/proving/lemmas/{self.file}.py"

    def requests(self) -> dict[str, list[str]]:
        """The requests that prove each lemma, by name; each is discharged by the answers of `proofs.proving.solvers`.

        Raises `Unfounded` where a definition may not end, `NoInduction` where a proof would be no induction.
        """
        of_lists = proofs_of(self.context, self.text)
        return {
            lemma.name: [query.refutation() for query in of_lists[lemma.name]]
            if isinstance(lemma, Lemma)
            else [part.request() for statement in statements_of(lemma) for part in statement.parts()]
            for lemma in self.lemmas
        }


def statements_of(lemma: Statement | Inductive) -> tuple[Statement, ...]:
    """The statements that a lemma without lists consists of."""
    return lemma.cases if isinstance(lemma, Inductive) else (lemma,)


def mutants_of(lemma: AnyLemma) -> list[str]:
    """The names of the mutants of a lemma, of an inductive invariant each behind the name of its action."""
    if isinstance(lemma, Inductive):
        return [f"{case.name}: {mutant.name}" for case in lemma.cases for mutant in case.mutants]
    return [mutant.name for mutant in lemma.mutants]
