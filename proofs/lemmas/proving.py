"""Each lemma with all that is asked of it: its proof under several seeds, its twin, and its mutants with their cases.

PROVED: every query of the proof is discharged under every seed, the twin has a model, and every mutant is false in a
case that is shown. REFUTED: a mutant is not false, or a twin has no model, which says that the lemma says nothing.
Anything else is UNKNOWN. spec: V4.3, V4.8, V4.9
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from proofs.lemmas import at_use
from proofs.lemmas.checked import Evidence
from proofs.lemmas.countermodel import Silent, countermodel, first_case, values_of
from proofs.lemmas.descent import SORTS
from proofs.lemmas.expressions import Expression, called, parse, parse_one, text_of
from proofs.lemmas.families import LISTS, STATEMENTS
from proofs.lemmas.induction import Lemma
from proofs.lemmas.statements import Statement
from proofs.solvers import Solver
from proofs.solvers.process import SOLVERS, Z3

PROVED, REFUTED, UNKNOWN = "PROVED", "REFUTED", "UNKNOWN"


@dataclass
class Report:
    """What came of one lemma: in which file it stands, and what each solver said of its proof under so many seeds.

    `twin` is a case in which hypotheses and goal hold, `mutants_refuted` a case for each mutant in which it is false,
    `open` what is not as it must be; `proof` whether a proof was written down and checked, where that was asked for.
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


def names() -> list[str]:
    """The names of all lemmas, file by file."""
    return [lemma.name for lemmas in by_file().values() for lemma in lemmas]


def by_file() -> dict[str, Sequence[Lemma | Statement]]:
    """Every lemma, by the file in which it stands."""
    return {**{file: lemmas for file, (_, lemmas, _) in LISTS.items()}, **STATEMENTS}


def chosen(wanted: Sequence[str]) -> dict[str, Sequence[Lemma | Statement]]:
    """The lemmas of these names or of these files, by file, in the order of `names`; all of them where none is named.

    A file is named by its stem, its name or its path in the repository. ValueError for what is neither.

    >>> list(chosen(["proofs/lemmas/tenancy.py", "zeroing"]))
    ['tenancy', 'zeroing']
    """
    called = {file: {file, f"{file}.py", path_of(file)} for file in by_file()}
    known = set(names()).union(*called.values())
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"there is no lemma {unknown[0]!r}")
    asked = set(wanted)
    found = {
        file: [lemma for lemma in lemmas if not asked or lemma.name in asked or called[file] & asked]
        for file, lemmas in by_file().items()
    }
    return {file: lemmas for file, lemmas in found.items() if lemmas}


def path_of(file: str) -> str:
    """Where a file of lemmas stands in the repository.

    >>> path_of("tenancy")
    'proofs/lemmas/tenancy.py'
    """
    return f"proofs/lemmas/{file}.py"


def prove_all(
    wanted: Sequence[str] = (), *, solvers: Sequence[str] = ("z3",), seeds: int = 1, timeout_s: float = 20.0
) -> Iterator[Report]:
    """Prove lemmas, two files at a time; a report for each, in the order of `names`.

    Parameters
    ----------
    wanted
        Names of lemmas or of files, as `chosen` has them. ValueError for one that is neither.
    solvers
        Names of `SOLVERS`; a lemma is PROVED where each of them proves it.
    seeds
        How many random seeds each proof must hold under.
    timeout_s
        Seconds for each query.

    Notes
    -----
    A few milliseconds for each query, and a tenth of a second for each process: under a minute for everything.
    """
    tasks: list[Callable[[], list[Report]]] = [
        partial(_family, file, {lemma.name for lemma in lemmas}, solvers, seeds, timeout_s)
        for file, lemmas in chosen(wanted).items()
    ]
    with ThreadPoolExecutor(max_workers=2) as pool:
        for reports in pool.map(lambda task: task(), tasks):
            yield from reports


def _family(file: str, asked: set[str], solvers: Sequence[str], seeds: int, timeout_s: float) -> list[Report]:
    """The reports of one file."""
    lemmas = {lemma.name: lemma for lemma in by_file()[file] if lemma.name in asked}
    reports = {name: Report(name, file, lemma.sentence, seeds) for name, lemma in lemmas.items()}
    for solver in solvers:
        for seed in range(seeds):
            for name, said in _proofs(file, lemmas, solver, seed, timeout_s):
                report = reports[name]
                if report.solvers.get(solver, PROVED) != PROVED:
                    continue  # of the seeds under which it is not proved the first is told
                report.solvers[solver] = said
                if said != PROVED:
                    report.open.append(f"{solver}, seed {seed}: {said}")
    for name, lemma in lemmas.items():
        if all(reports[name].solvers.get(solver) == PROVED for solver in solvers):
            reports[name].verdict = PROVED
        _twin_and_mutants(file, lemma, reports[name], timeout_s)
    return list(reports.values())


def seed_option(solver: str, seed: int) -> str:
    """The commands that give a solver its random seed.

    >>> seed_option("cvc5", 3)
    '(set-option :seed 3)'
    """
    if solver == "cvc5":
        return f"(set-option :seed {seed})"
    return f"(set-option :smt.random_seed {seed})(set-option :sat.random_seed {seed})"


def _proofs(
    file: str, lemmas: dict[str, Lemma | Statement], solver: str, seed: int, timeout_s: float
) -> Iterator[tuple[str, str]]:
    """What one solver says of each proof under one seed: PROVED, or why not."""
    with SOLVERS[solver](seed_option(solver, seed)) as process:
        if file in STATEMENTS:
            for name, statement in lemmas.items():
                assert isinstance(statement, Statement)
                query = f"(push){''.join(statement.refutation())}(check-sat)(pop)(check-sat)"
                answer = process.evaluate(query, timeout_s)
                yield name, PROVED if answer.proof else answer.failure or f"the solver answers {answer.text[:60]!r}"
            return
        text, own, before = LISTS[file]
        proofs = {k: q for k, q in at_use.proofs_of((*before, *own), text).items() if k in lemmas}
        failed = at_use.prove(proofs, process, timeout_s, text)
        for name in proofs:
            yield name, failed.get(name, PROVED)


def _twin_and_mutants(file: str, lemma: Lemma | Statement, report: Report, timeout_s: float) -> None:
    """Ask for the case of the twin and of each mutant, by Z3, which finds models where there are quantifiers.

    A solver that does not say leaves the lemma UNKNOWN, unless another of its cases is known not to be there.
    """
    definitions = "" if isinstance(lemma, Statement) else LISTS[file][0]
    asked = []
    try:
        if isinstance(lemma, Statement):
            twin = _model(lemma.twin(), Z3(), timeout_s)
        else:
            twin = _holds(lemma, definitions, Z3(), timeout_s)
        if twin is None:
            asked.append((REFUTED, "its hypotheses and its goal have no model: it may say nothing"))
        else:
            report.twin = twin
    except Silent as error:
        asked.append((UNKNOWN, f"its twin: {error}"))
    if not lemma.mutants:
        asked.append((REFUTED, "it has no mutant"))
    for mutant in lemma.mutants:
        try:
            if isinstance(lemma, Statement):
                case = _model(lemma.mutant(mutant), Z3(), timeout_s)
            else:
                case = countermodel(lemma, mutant, definitions, Z3(), timeout_s)
            if case is None:
                asked.append((REFUTED, f"the mutant {mutant.name!r} is not false in any case that was found"))
            else:
                report.mutants_refuted[mutant.name] = case
        except Silent as error:
            asked.append((UNKNOWN, f"the mutant {mutant.name!r}: {error}"))
    report.open += [what for _, what in asked]
    if asked:
        report.verdict = REFUTED if any(verdict == REFUTED for verdict, _ in asked) else UNKNOWN


def _model(commands: list[str], solver: Solver, timeout_s: float) -> str | None:
    """The values of the constants in a model of some commands, and of the functions that are tables; None for none.

    Raises `Silent` where the solver does not say.
    """
    declared = [form for command in commands for form in parse(command)]
    constants = [str(form[1]) for form in declared if called(form) == "declare-const"]
    tables = [term for form in declared for term in _entries(form, declared)]
    try:
        answer = solver.evaluate(f"(set-option :produce-models true){''.join(commands)}(check-sat)", timeout_s)
        if answer.failure is not None or answer.text not in ("sat", "unsat"):
            raise Silent(answer.failure or f"the solver answers {answer.text[:60]!r}")
        return None if answer.text == "unsat" else values_of([*constants, *tables], solver, timeout_s)
    finally:
        solver.close()


def _entries(form: Expression, declared: list[Expression]) -> list[str]:
    """The applications of a function to each element of a finite sort, where it takes one such argument."""
    match form:
        case ["declare-fun", str(name), [str(sort)], _]:
            return [f"({name} {element})" for other in declared for element in _elements(other, sort)]
        case _:
            return []


def _elements(form: Expression, sort: str) -> list[str]:
    """The elements of a finite sort, where this declares it."""
    match form:
        case ["declare-datatypes", [[name, "0"]], [list(elements)]] if name == sort:
            return [text_of(element[0]) for element in elements]
        case _:
            return []


def _holds(lemma: Lemma, definitions: str, solver: Solver, timeout_s: float) -> str | None:
    """A case in which premise and conclusion hold: one in which every list has a cell, or else a shorter one."""
    claim = parse_one(lemma.claim)
    match claim:
        case ["=>", premise, conclusion]:
            wanted: Expression = ["and", premise, conclusion]
        case _:
            wanted = claim
    lists = [name for name, sort in lemma.variables.items() if sort not in SORTS]

    def is_thin(constants: list[tuple[str, str]]) -> bool:
        return not all(any(name.startswith(f"{each}_0_") for name, _ in constants) for each in lists)

    return first_case(lemma, wanted, definitions, solver, timeout_s, is_thin)
