"""Represent a file of lemmas: their definitions, and the requests whose answers prove each.

spec: V4.3, V4.9, V4.18
"""

from __future__ import annotations

from typing import NamedTuple

from proofs.proving.lemmas.engine.induction import Lemma, NoInduction, find_used, proofs_of
from proofs.proving.lemmas.engine.machine import Inductive, check_inductive
from proofs.proving.lemmas.engine.statements import Statement

AnyLemma = Lemma | Statement | Inductive


class Family(NamedTuple):
    """The lemmas of one file, `folder/name`, or some of them.

    Lemmas about lists have `text`, the definitions that a solver reads first, and `context`. That is all lemmas about
    the text that may be used, these included, in the order of their proofs.
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
        """The path of the file in the repository."""
        return f"proofs/proving/lemmas/{self.file}.py"

    def requests(self) -> dict[str, list[str]]:
        """Return the requests that prove each lemma, by name, and each lemma that one of them uses.

        The answers of `proofs.proving.solvers` discharge each. Raises `Unfounded` if a definition may not end,
        `NoInduction` if a proof would not be an induction, and ValueError if two lemmas have one name, or one of them
        is not what it is called.
        """
        of_lists = proofs_of(self.context, self.text)
        known = {lemma.name: lemma for lemma in self.context}
        requests: dict[str, list[str]] = {}
        for lemma in self.lemmas:
            if lemma.name in requests:
                raise NoInduction(f"two lemmas have the name {lemma.name}")
            if isinstance(lemma, Lemma):
                _check_is(lemma, known.get(lemma.name))
                requests[lemma.name] = [query.refutation() for query in of_lists[lemma.name]]
            else:
                if isinstance(lemma, Inductive):
                    check_inductive(lemma)
                requests[lemma.name] = [
                    part.request() for statement in statements_of(lemma) for part in statement.parts()
                ]
        for name in [used for lemma in self.lemmas for used in self.used_by(lemma)]:
            requests.setdefault(name, [query.refutation() for query in of_lists[name]])
        return requests

    def used_by(self, lemma: AnyLemma) -> list[str]:
        """Return the names of the lemmas that a lemma uses, directly or not."""
        if not isinstance(lemma, Lemma):
            return []
        return find_used(lemma.name, {each.name: each for each in self.context})


def _check_is(lemma: Lemma, proved: Lemma | None) -> None:
    """Check that the lemma that is proved under a name is the lemma that is meant."""
    if proved != lemma:
        raise NoInduction(f"{lemma.name} is not the lemma of that name that others may use")


def statements_of(lemma: Statement | Inductive) -> tuple[Statement, ...]:
    """Return the statements that a lemma without lists consists of."""
    return lemma.cases if isinstance(lemma, Inductive) else (lemma,)


def mutants_of(lemma: AnyLemma) -> list[str]:
    """Return the names of the mutants of a lemma. Those of an inductive invariant follow the name of their action."""
    if isinstance(lemma, Inductive):
        return [f"{case.name}: {mutant.name}" for case in lemma.cases for mutant in case.mutants]
    return [mutant.name for mutant in lemma.mutants]
