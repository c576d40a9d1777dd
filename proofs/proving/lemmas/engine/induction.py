"""Derive from a lemma the two queries that prove it by induction over a list, and check that they are an induction.

A solver refutes any query that it is given, and treats the induction hypothesis like any other hypothesis. A wrong one
makes a false lemma seem proved. Therefore the queries are generated. The base is the lemma at the empty list. The step
is the lemma at a cell, under instances of the lemma itself *at the rest of that cell*, and of lemmas that were proved
before. `check_induction` accepts nothing else as a proof. Claims are well sorted, and so is each term of an instance:
it has the sort of the variable that it replaces. No two lemmas about a text have one name.
spec: V4.3, V4.8, V4.16, V4.17, V4.18
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from proofs.proving.lemmas.engine.statements import Mutant
from proofs.proving.smt import descent, totality
from proofs.proving.smt.descent import SORTS, Definitions, ListType
from proofs.proving.smt.expressions import BINDERS, Expression, parse_one, substitute, text_of, walk
from proofs.proving.smt.sorts import BOOL, IllSorted, check_sort_of

SYMBOL = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
REST = "rest_of_list"
"""The constant that represents the rest of the cell in a step."""


class Lemma(NamedTuple):
    """A statement about all values of its variables, proved by induction over the list variable `over`.

    `sentence` is the same in English. `variables` gives the sorts of all variables, the list included. `hypotheses` are
    instances of the lemma itself, at the rest of the list, that the step may use. Each gives terms for other variables;
    the variables that it does not name stay. `using` are lemmas proved before, each with terms for its variables. Terms
    may use the variables, the cell's fields as `its_<field>`, and `rest_of_list`. Without `over` no induction is used.
    `mutants` change one place of the definitions or of the claim, `(prove claim)`, and make it false.
    """

    name: str
    sentence: str
    variables: Mapping[str, str]
    claim: str
    over: str | None = None
    hypotheses: tuple[Mapping[str, str], ...] = ({},)
    using: tuple[tuple[str, Mapping[str, str]], ...] = ()
    mutants: tuple[Mutant, ...] = ()


class Query(NamedTuple):
    """One case of a proof: constants, hypotheses, and the goal that must follow.

    It is proved if its negation is refuted.
    """

    constants: Mapping[str, str]
    hypotheses: tuple[Expression, ...]
    goal: Expression

    def refutation(self) -> str:
        """Return the query whose answer must be `unsat`, then `sat` for the vacuity check."""
        return self._asserting(["not", self.goal])

    def vacuity(self) -> str:
        """Return the query whose answers must be `sat`.

        The hypotheses and the goal, premises included, can hold at once.
        """
        match self.goal:
            case ["=>", premise, conclusion]:
                return self._asserting(["and", premise, conclusion])
            case _:
                return self._asserting(self.goal)

    def negation(self) -> str:
        """Return the commands that must have no model: constants, hypotheses, and the negated goal."""
        return self._with(["not", self.goal])

    def _asserting(self, last: Expression) -> str:
        return f"(push){self._with(last)}(check-sat)(pop)(check-sat)"

    def _with(self, last: Expression) -> str:
        declared = "".join(f"(declare-const {name} {sort})" for name, sort in self.constants.items())
        asserted = "".join(f"(assert {text_of(e)})" for e in (*self.hypotheses, last))
        return declared + asserted


class NoInduction(ValueError):
    """The lemma's hypotheses are not those of an induction over its list."""


def queries(lemma: Lemma, known: Definitions, earlier: Mapping[str, Lemma]) -> list[Query]:
    """Return the queries that prove a lemma: base and step, or only the claim if it needs no induction.

    Raises
    ------
    NoInduction
        A hypothesis at anything but the rest of the list, a lemma used before it is proved, an unbound variable, one
        whose name or sort has another meaning, a claim or a term of another sort than its place requires, or one
        whose value depends on a division by 0 or on a selector of the empty list.
    """
    claim = parse_one(lemma.claim)
    if any(item in BINDERS for item in walk(claim) if isinstance(item, str)):
        raise NoInduction(f"{lemma.name} binds names")
    _check_variables(lemma, known)
    _check_claim(lemma, claim, known)
    if lemma.over is None:
        proof = [Query(dict(lemma.variables), _instances(lemma, earlier), claim)]
    else:
        made = known.lists[lemma.variables[lemma.over]]
        others = {name: sort for name, sort in lemma.variables.items() if name != lemma.over}
        fields = {f"its_{name}": sort for name, sort in made.fields}
        cell: Expression = [made.cell, *fields, REST]
        own = tuple(substitute(claim, {**_terms(lemma, terms), lemma.over: REST}) for terms in lemma.hypotheses)
        proof = [
            Query(others, (), substitute(claim, {lemma.over: made.empty})),
            Query(
                {**others, **fields, REST: made.name},
                (*own, *_instances(lemma, earlier)),
                substitute(claim, {lemma.over: cell}),
            ),
        ]
    check_induction(lemma, proof, known, earlier)
    return proof


def proofs_of(lemmas: Sequence[Lemma], text: str) -> dict[str, list[Query]]:
    """Return the queries that prove each lemma about a text of definitions, by name, in order.

    Raises `Unfounded` if a definition may not end or has no single meaning, and `NoInduction` if a proof would not be
    an induction, or two lemmas have one name.
    """
    known = descent.check_definitions(text)
    totality.check_total(known)
    earlier: dict[str, Lemma] = {}
    result: dict[str, list[Query]] = {}
    for lemma in lemmas:
        _check_name(lemma, earlier)
        result[lemma.name] = queries(lemma, known, earlier)
        earlier[lemma.name] = lemma
    return result


def _check_name(lemma: Lemma, earlier: Mapping[str, Lemma]) -> None:
    """Check that no lemma proved before has this name, so that a lemma uses the one that was proved."""
    if lemma.name in earlier:
        raise NoInduction(f"two lemmas have the name {lemma.name}")


def find_used(name: str, lemmas: Mapping[str, Lemma]) -> list[str]:
    """Return the names of the lemmas that a lemma uses, directly or not, each once. Those are proved before it."""
    found: list[str] = []
    work = [used for used, _ in lemmas[name].using]
    while work:
        used = work.pop()
        if used not in found:
            found.append(used)
            work += [each for each, _ in lemmas[used].using]
    return found


def _terms(lemma: Lemma, values: Mapping[str, str]) -> dict[str, Expression]:
    """Return the terms that replace variables of a lemma. Raises `NoInduction` for the name of anything else."""
    if unknown := values.keys() - lemma.variables.keys():
        raise NoInduction(f"{lemma.name} has no variable {min(unknown)[:60]!r}")
    return {name: parse_one(term) for name, term in values.items()}


def _instances(lemma: Lemma, earlier: Mapping[str, Lemma]) -> tuple[Expression, ...]:
    for name, _ in lemma.using:
        if name not in earlier:
            raise NoInduction(f"{lemma.name} uses {name}, which is not proved before it")
    return tuple(
        substitute(parse_one(earlier[name].claim), _terms(earlier[name], values)) for name, values in lemma.using
    )


def check_induction(lemma: Lemma, proof: Sequence[Query], known: Definitions, earlier: Mapping[str, Lemma]) -> None:
    """Accept queries as a proof of the lemma by induction. Raises `NoInduction` otherwise.

    Examines only the queries, not how they were made. Base and step are the claim at the empty list and at a cell of
    fresh constants. Every hypothesis is an instance of the claim with the list at the rest of that cell, or an instance
    of a lemma proved before. The terms of an instance have the sorts of the variables that they replace.
    """
    claim = parse_one(lemma.claim)
    if lemma.over is None:
        goals, made = [claim], None
    else:
        made = known.lists[lemma.variables[lemma.over]]
        cell: Expression = [made.cell, *(f"its_{name}" for name, _ in made.fields), REST]
        goals = [substitute(claim, {lemma.over: made.empty}), substitute(claim, {lemma.over: cell})]
    if [query.goal for query in proof] != goals:
        raise NoInduction(f"{lemma.name}: the goals are not the claim at the empty list and at a cell")
    for position, query in enumerate(proof):
        _check_constants(lemma, query, made if position else None)
        for hypothesis in query.hypotheses:
            found = [(lemma, _match(hypothesis, lemma, claim, {str(lemma.over): REST}))] if position == 1 else []
            found += [(each, _match(hypothesis, each, _read(each.claim), {})) for each in earlier.values()]
            wrong = [_find_wrong_term(each, terms, query, known) for each, terms in found if terms is not None]
            if "" not in wrong:
                reason = f": {wrong[0]}" if wrong else ""
                raise NoInduction(f"{lemma.name}: {text_of(hypothesis)[:80]!r} may not be assumed{reason}")


def _check_variables(lemma: Lemma, known: Definitions) -> None:
    """Check that each variable is a plain symbol without another meaning, of a known sort."""
    taken = known.names()
    for name, sort in lemma.variables.items():
        if SYMBOL.fullmatch(name) is None:
            raise NoInduction(f"{lemma.name}: {name[:60]!r} is not the name of a variable")
        if name in taken:
            raise NoInduction(f"{lemma.name}: the variable {name} has the name of something else")
        if sort not in SORTS and sort not in known.lists:
            raise NoInduction(f"{lemma.name}: the variable {name} has the unknown sort {sort[:60]!r}")
    if lemma.over is not None:
        if lemma.variables.get(lemma.over) not in known.lists:
            raise NoInduction(f"{lemma.name}: {lemma.over[:60]!r} is not a list")
        made = known.lists[lemma.variables[lemma.over]]
        if clash := taken & {REST, *(f"its_{name}" for name, _ in made.fields)}:
            raise NoInduction(f"{lemma.name}: a part of the cell has the name of {min(clash)}, which is defined")


def _check_claim(lemma: Lemma, claim: Expression, known: Definitions) -> None:
    """Check that a claim is true or false, whatever its variables are."""
    try:
        check_sort_of(claim, BOOL, known.signature, lemma.variables)
        totality.check_defined(claim, known, lemma.name)
    except (IllSorted, totality.Open) as error:
        raise NoInduction(f"{lemma.name}: {error}") from error


def _find_wrong_term(lemma: Lemma, terms: Mapping[str, Expression], query: Query, known: Definitions) -> str:
    """Return why the terms of an instance cannot replace the variables of its lemma, or "" if they can."""
    try:
        for name, term in terms.items():
            check_sort_of(term, lemma.variables[name], known.signature, query.constants)
            totality.check_defined(term, known, f"the term for {name}")
    except (IllSorted, totality.Open) as error:
        return str(error)
    return ""


def _check_constants(lemma: Lemma, query: Query, made: ListType | None) -> None:
    """Check that the constants of a query are the lemma's variables and, in a step, the parts of its cell."""
    allowed = dict(lemma.variables)
    if made is not None:
        fresh = {**{f"its_{name}": sort for name, sort in made.fields}, REST: made.name}
        if fresh.keys() & allowed.keys():
            raise NoInduction(f"{lemma.name}: a variable has the name of a part of the cell")
        allowed |= fresh
    if any(allowed.get(name) != sort for name, sort in query.constants.items()):
        raise NoInduction(f"{lemma.name}: a constant is neither a variable nor a part of the cell")


@cache
def _read(claim: str) -> Expression:
    """Parse the claim of a lemma, once, because each later lemma may use it. The result must not be changed."""
    return parse_one(claim)


def _match(
    found: Expression, lemma: Lemma, claim: Expression, fixed: Mapping[str, Expression]
) -> dict[str, Expression] | None:
    """Return the term for each variable of `claim` that makes it `found`, or None if there are none.

    The terms of `fixed` are given. A variable that does not occur has no term.
    """
    bound: dict[str, Expression] = dict(fixed)
    work = [(claim, found)]
    while work:
        pattern, item = work.pop()
        if isinstance(pattern, str) and pattern in lemma.variables:
            if bound.setdefault(pattern, item) != item:
                return None
        elif isinstance(pattern, str) or isinstance(item, str):
            if pattern != item:
                return None
        else:
            if len(pattern) != len(item):
                return None
            work.extend(zip(pattern, item, strict=True))
    return bound
