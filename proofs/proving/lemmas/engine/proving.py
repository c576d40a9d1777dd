"""Prove each lemma under several seeds, run its vacuity check, and find the case that refutes each mutant.

PROVED: every query of the proof is discharged under every seed, and so are those of the lemmas that it uses. The
vacuity check has a model, and every mutant is false in a case that is shown. REFUTED: a mutant is not false, or the
vacuity check has no model, so that the lemma may be vacuous. Anything else is UNKNOWN. spec: V4.3, V4.8, V4.9, V4.18
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from proofs.proving.lemmas.engine import record
from proofs.proving.lemmas.engine.checked import Evidence
from proofs.proving.lemmas.engine.countermodel import NoAnswer, find_countermodel, find_first_case, values_of
from proofs.proving.lemmas.engine.family import AnyLemma, Family, statements_of
from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.machine import Inductive
from proofs.proving.smt.descent import SORTS
from proofs.proving.smt.expressions import Expression, called_function, parse, parse_one, text_of
from proofs.proving.solvers import Solver
from proofs.proving.solvers.process import SOLVERS, Z3

PROVED, REFUTED, UNKNOWN = "PROVED", "REFUTED", "UNKNOWN"


@dataclass
class LemmaReport:
    """The result for one lemma: its file, and each solver's answer to its proof under this number of seeds.

    `twin` is the case of the vacuity check: hypotheses and goal hold in it. `mutants_refuted` has, for each mutant, a
    case that makes it false. `open` lists what is missing. `proof` is the result of a written proof, if one was
    requested.
    """

    name: str
    file: str
    sentence: str
    seeds: int
    verdict: str = UNKNOWN
    solvers: dict[str, str] = field(default_factory=dict)
    twin: str = ""
    mutants_refuted: dict[str, str] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    proof: Evidence | None = None


def prove_all(
    families: Sequence[Family], *, solvers: Sequence[str] = ("z3",), seeds: int = 1, timeout_s: float = 20.0
) -> Iterator[LemmaReport]:
    """Prove the lemmas of some files, two files at a time. Yield a report for each, in their order.

    Parameters
    ----------
    families
        The files, each with the requested lemmas.
    solvers
        Names of `SOLVERS`. A lemma is PROVED if each of them proves it.
    seeds
        The number of random seeds that each proof must hold under.
    timeout_s
        Seconds for each query.

    Notes
    -----
    A few milliseconds for each query, and a tenth of a second for each process: a minute for everything.

    Raises ValueError if two of these lemmas have one name. If the lemmas of a file make no proof, because one is not
    well formed or its induction is none, all of that file are UNKNOWN, with the reason.
    """
    names = [lemma.name for family in families for lemma in family.lemmas]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two lemmas have the name {min(twice)}")
    tasks: list[Callable[[], list[LemmaReport]]] = [
        partial(_family, family, solvers, seeds, timeout_s) for family in families
    ]
    with ThreadPoolExecutor(max_workers=2) as pool:
        for reports in pool.map(lambda task: task(), tasks):
            yield from reports


def _family(family: Family, solvers: Sequence[str], seeds: int, timeout_s: float) -> list[LemmaReport]:
    """Return the reports of one file."""
    reports = {lemma.name: LemmaReport(lemma.name, family.file, lemma.sentence, seeds) for lemma in family.lemmas}
    try:
        family.requests()
    except ValueError as error:
        for report in reports.values():
            report.open.append(f"there is no proof: {error}")
        return list(reports.values())
    for solver in solvers:
        for seed in range(seeds):
            failed = _failed(family, solver, seed, timeout_s)
            for name, report in reports.items():
                if report.solvers.get(solver, PROVED) != PROVED:
                    continue  # the first seed that fails is reported
                report.solvers[solver] = failed.get(name, PROVED)
                if name in failed:
                    report.open.append(f"{solver}, seed {seed}: {failed[name]}")
    for lemma in family.lemmas:
        if all(reports[lemma.name].solvers.get(solver) == PROVED for solver in solvers):
            reports[lemma.name].verdict = PROVED
        _twin_and_mutants(family.text, lemma, reports[lemma.name], timeout_s)
    return list(reports.values())


def _failed(family: Family, solver: str, seed: int, timeout_s: float) -> dict[str, str]:
    """Return the lemmas that one solver does not prove under one seed, each with the reason.

    A lemma that uses one of these is not proved either.
    """
    requests = family.requests()
    with SOLVERS[solver](seed_option(solver, seed)) as process:
        failed = record.prove(requests, process, timeout_s, family.text)
    resting = {}
    for lemma in family.lemmas:
        for used in family.used_by(lemma):
            if lemma.name not in failed and used in failed:
                resting[lemma.name] = f"{used}, which it uses, is not proved: {failed[used]}"
    return failed | resting


def seed_option(solver: str, seed: int) -> str:
    """Return the commands that give a solver its random seed.

    >>> seed_option("cvc5", 3)
    '(set-option :seed 3)'
    """
    if solver == "cvc5":
        return f"(set-option :seed {seed})"
    return f"(set-option :smt.random_seed {seed})(set-option :sat.random_seed {seed})"


def _twin_and_mutants(text: str, lemma: AnyLemma, report: LemmaReport, timeout_s: float) -> None:
    """Ask Z3, which finds models for formulas with quantifiers, for the case of the vacuity check and of each mutant.

    If the solver does not answer, the lemma is UNKNOWN, unless another of its cases is known not to exist.
    """
    asked = []
    for name, twin, mutants in _questions(text, lemma, timeout_s):
        try:
            case = twin()
            if case is None:
                asked.append((REFUTED, f"{name}its hypotheses and its goal have no model: it may be vacuous"))
            else:
                report.twin += f"{'; ' if report.twin else ''}{name}{case}"
        except NoAnswer as error:
            asked.append((UNKNOWN, f"{name}its twin: {error}"))
        if not mutants:
            asked.append((REFUTED, f"{name}it has no mutant"))
        for mutant, question in mutants.items():
            try:
                case = question()
                if case is None:
                    asked.append((REFUTED, f"the mutant {mutant!r} is not false in any case that was found"))
                else:
                    report.mutants_refuted[mutant] = case
            except NoAnswer as error:
                asked.append((UNKNOWN, f"the mutant {mutant!r}: {error}"))
    report.open += [what for _, what in asked]
    if asked:
        report.verdict = REFUTED if any(verdict == REFUTED for verdict, _ in asked) else UNKNOWN


Question = Callable[[], str | None]
"""Asks for a case and returns its values, or None if there is none. Raises `NoAnswer`."""


def _questions(text: str, lemma: AnyLemma, timeout_s: float) -> Iterator[tuple[str, Question, dict[str, Question]]]:
    """Yield a prefix for messages, the vacuity check, and the mutants by name.

    There is one entry for each statement of a lemma, or one for a lemma about lists.
    """
    if isinstance(lemma, Lemma):
        of_lists: dict[str, Question] = {
            m.name: partial(find_countermodel, lemma, m, text, Z3(), timeout_s) for m in lemma.mutants
        }
        yield "", partial(_holds, lemma, text, Z3(), timeout_s), of_lists
        return
    for statement in statements_of(lemma):
        name = f"{statement.name}: " if isinstance(lemma, Inductive) else ""
        mutants: dict[str, Question] = {
            f"{name}{m.name}": partial(_model, statement.mutant(m), Z3(), timeout_s) for m in statement.mutants
        }
        yield name, partial(_model, statement.twin(), Z3(), timeout_s), mutants


def _model(commands: list[str], solver: Solver, timeout_s: float) -> str | None:
    """Return the values of constants, and of functions that are tables, in a model of some commands.

    Returns None without a model. Raises `NoAnswer` if the solver does not decide.
    """
    declared = [form for command in commands for form in parse(command)]
    constants = [str(form[1]) for form in declared if called_function(form) == "declare-const"]
    tables = [term for form in declared for term in _entries(form, declared)]
    try:
        answer = solver.evaluate(f"(set-option :produce-models true){''.join(commands)}(check-sat)", timeout_s)
        if answer.failure is not None or answer.text not in ("sat", "unsat"):
            raise NoAnswer(answer.failure or f"the solver answers {answer.text[:60]!r}")
        return None if answer.text == "unsat" else values_of([*constants, *tables], solver, timeout_s)
    finally:
        solver.close()


def _entries(form: Expression, declared: list[Expression]) -> list[str]:
    """Return the applications of a function to each element of a finite sort, if it takes one such argument."""
    match form:
        case ["declare-fun", str(name), [str(sort)], _]:
            return [f"({name} {element})" for other in declared for element in _elements(other, sort)]
        case _:
            return []


def _elements(form: Expression, sort: str) -> list[str]:
    """Return the elements of a finite sort, if this form declares it."""
    match form:
        case ["declare-datatypes", [[name, "0"]], [list(elements)]] if name == sort:
            return [text_of(element[0]) for element in elements]
        case _:
            return []


def _holds(lemma: Lemma, definitions: str, solver: Solver, timeout_s: float) -> str | None:
    """Return a case that satisfies premise and conclusion.

    Every list has a cell in it, unless only shorter cases do.
    """
    claim = parse_one(lemma.claim)
    match claim:
        case ["=>", premise, conclusion]:
            wanted: Expression = ["and", premise, conclusion]
        case _:
            wanted = claim
    lists = [name for name, sort in lemma.variables.items() if sort not in SORTS]

    def is_thin(constants: list[tuple[str, str]]) -> bool:
        return not all(any(name.startswith(f"{each}_0_") for name, _ in constants) for each in lists)

    return find_first_case(lemma, wanted, definitions, solver, timeout_s, is_thin)
