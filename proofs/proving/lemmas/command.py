"""Run prove-lemmas: prove every lemma, and refute its mutants. spec: C4.1, C4.2, C4.5, C4.6"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

from proofs.proving.lemmas import export, families
from proofs.proving.lemmas.engine import checked, proving
from proofs.proving.lemmas.engine.proving import PROVED, REFUTED, UNKNOWN, LemmaReport
from proofs.proving.solvers import smtinterpol
from proofs.proving.solvers.option import solver_option, timeout_option
from proofs.tools import maven
from tmmu.core import flags
from tmmu.core.errors import TmmuError
from tmmu.core.extras import MissingPackage
from tmmu.core.flags import Folder, OnceCommand, gather_options
from tmmu.core.output import count_noun, format_json, print_lines, print_text
from tmmu.core.progress import progress

EXITS = {PROVED: 0, REFUTED: 1, UNKNOWN: 3}


@dataclass(frozen=True)
class LemmaSolving:
    """By which solvers lemmas are proved, with how many random seeds, and in how many seconds for one query."""

    solvers: tuple[str, ...]
    seeds: int
    timeout: int


@click.command(
    cls=OnceCommand,
    context_settings=flags.SETTINGS,
    epilog=flags.format_examples(
        "prove-lemmas --list", "prove-lemmas zeroing --cases", "prove-lemmas zeroing --format json"
    ),
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--list", "listed", is_flag=True, help="Prove nothing; print the names, each with its file and its sentence."
)
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)
@solver_option("The solver that proves them; with both, each must.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="The number of random seeds of the solver that each lemma is proved with.",
)
@timeout_option(20)
@click.option("--cases", is_flag=True, help="Print the case of each vacuity check and of each mutant.")
@click.option("--smt2", type=Folder(), metavar="DIR", help="Write each lemma as SMT-LIB 2 into DIR.")
@click.option(
    "--proofs",
    type=Folder(),
    metavar="DIR",
    help="Write into DIR the proofs by SMTInterpol that its checker accepts.",
)
@click.version_option(package_name="tmmu")
@gather_options("solving", LemmaSolving)
def command(
    names: tuple[str, ...],
    listed: bool,
    style: str,
    solving: LemmaSolving,
    cases: bool,
    smt2: str | None,
    proofs: str | None,
) -> int:
    """Prove lemmas, each for all inputs. NAME is a lemma or a file of lemmas; without NAME, all are proved.

    Each lemma has a vacuity check, a case in which it holds, and mutants: altered lemmas, each false in some case.

    \b
    Exit codes: 0 all PROVED, 1 a mutant that is not refuted or a vacuity check that fails, 3 UNKNOWN, 2 command line,
    70 internal error.
    """
    try:
        if listed:
            for family in families.select_families(names):
                for lemma in family.lemmas:
                    print_lines(f"{lemma.name}  ({family.file})", f"    {lemma.sentence}")
            return 0
        asked = families.select_families(names)
        reports = []
        proved_by = proving.prove_all(
            asked, solvers=solving.solvers, seeds=solving.seeds, timeout_s=solving.timeout
        )  # fmt: skip
        count = sum(len(family.lemmas) for family in asked)
        with progress("lemmas") as doing:
            for report in proved_by if proofs is None else _with_proofs(proved_by, Path(proofs), solving.timeout):
                reports.append(report)
                doing("proving", len(reports), count)
                if style == "text":
                    print_lines(*_lines(report, cases))
        if smt2 is not None:
            export.write_lemmas(Path(smt2), [report.name for report in reports])
    except ValueError as error:
        raise click.UsageError(f"{error}; `prove-lemmas --list` prints the names") from error
    except (TmmuError, OSError) as error:  # it reads no files: writing failed
        flag = " or ".join(name for name, given in (("--smt2", smt2), ("--proofs", proofs)) if given is not None)
        raise click.BadParameter(str(error), param_hint=flag) from error
    worst = max((EXITS[report.verdict] for report in reports), key=(0, 3, 1).index)
    if style == "json":
        proved = {"verdicts": _count(reports, True), "algorithms_and_systems": _count(reports, False)}
        print_text(format_json({"proved": proved, "lemmas": [_object(report) for report in reports]}))
    else:
        mutants = sum(len(report.mutants_refuted) for report in reports)
        by = " and ".join(solving.solvers)
        for what, of_verdicts in (("verdicts rest on", True), ("algorithms and systems", False)):
            number, of = _count(reports, of_verdicts)
            print_lines(f"{what}: {number} of {count_noun(of, 'lemma')} proved by {by}")
        print_lines(f"{count_noun(mutants, 'mutant')} refuted")
        if proofs is not None:
            found = [report.proof.verdict for report in reports if report.proof is not None]
            count = found.count(checked.CHECKED)
            print_lines(f"{count} of {len(reports)} have a proof by SMTInterpol that its checker accepts")
    return worst


def _with_proofs(reports: Iterator[LemmaReport], folder: Path, timeout_s: float) -> Iterator[LemmaReport]:
    """Yield the reports, each with the result for its lemma's proof in the folder, two at a time. spec: V4.12, V4.13"""
    try:
        tool = smtinterpol.find_smtinterpol()
    except (MissingPackage, maven.Unfetchable) as error:
        raise click.BadParameter(str(error), param_hint="--proofs") from error
    known = families.by_name()

    def look(report: LemmaReport) -> LemmaReport:
        report.proof = checked.check_proofs(*known[report.name], tool, folder, timeout_s)
        if report.proof.verdict == checked.REFUSED:
            report.open.append(f"its proof by SMTInterpol is refused: {report.proof.detail}")
            report.verdict = UNKNOWN
        return report

    with ThreadPoolExecutor(max_workers=2) as pool:
        yield from pool.map(look, reports)


def _count(reports: Sequence[LemmaReport], of_verdicts: bool) -> tuple[int, int]:
    """Return how many lemmas are proved, and how many there are.

    Counts either the lemmas that verdicts rest on or the others.
    """
    mine = [report for report in reports if report.file.startswith(f"{families.VERDICTS}/") is of_verdicts]
    return sum(report.verdict == PROVED for report in mine), len(mine)


def _lines(report: LemmaReport, cases: bool) -> list[str]:
    answers = ", ".join(f"{name}: {verdict}" for name, verdict in report.solvers.items())
    lines = [
        f"{report.verdict} {report.name} ({report.file}): {count_noun(len(report.mutants_refuted), 'mutant')} refuted, "
        f"{answers}"
    ]
    if report.proof is not None:
        lines[0] += f", proof {report.proof.verdict}: {report.proof.detail}"
    lines += [f"    open: {what}" for what in report.open]
    if cases:
        lines += [f"    {report.sentence}", f"    holds for {report.twin}"]
        lines += [f"    mutant {name!r} is false for {case}" for name, case in report.mutants_refuted.items()]
    return lines


def _object(report: LemmaReport) -> dict[str, object]:
    return {
        "name": report.name,
        "file": f"proofs/proving/lemmas/{report.file}.py",
        "sentence": report.sentence,
        "verdict": report.verdict,
        "solvers": report.solvers,
        "seeds": report.seeds,
        "twin": report.twin,
        "mutants_refuted": [{"name": name, "case": case} for name, case in report.mutants_refuted.items()],
        "proof": None if report.proof is None else report.proof._asdict(),
        "open": report.open,
    }
