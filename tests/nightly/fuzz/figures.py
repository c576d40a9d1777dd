"""The figures of each reader: executions, seconds, coverage, and the causes of findings, added up over all runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

RESULTS = Path(__file__).with_name("fuzz_results.json")
MARK = "<!-- written by python -m tests.nightly.fuzz --page -->"
DONE = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
STATUS = re.compile(r"^#(\d+)\s.*?cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)


@dataclass
class ReaderFigures:
    """What was tried on one reader. `coverage` is libFuzzer's number of edges of our code, the largest of all runs."""

    executions: int = 0
    seconds: int = 0
    coverage: int = 0
    inputs: int = 0
    """The inputs of the corpus, each of which reaches something that no other does."""
    findings: list[str] = field(default_factory=list)
    """The names of the causes that were found."""


def load(path: Path = RESULTS) -> dict[str, ReaderFigures]:
    """Return the figures in a file; none if it does not exist."""
    stated = json.loads(path.read_text()) if path.exists() else {}
    return {name: ReaderFigures(**each) for name, each in stated.items()}


def save(figures: Mapping[str, ReaderFigures], path: Path = RESULTS) -> None:
    """Write the figures."""
    path.write_text(json.dumps({name: asdict(figures[name]) for name in sorted(figures)}, indent=1) + "\n")


def add_run(of: ReaderFigures, log: str, seconds: int, findings: list[str]) -> None:
    """Add a run of the fuzzer by what it has printed. A run that was killed states executions in its last line."""
    status = STATUS.findall(log)
    done = DONE.search(log)
    of.executions += int(done[1]) if done else int(status[-1][0]) if status else 0
    of.seconds += seconds
    if status:
        of.coverage = max(of.coverage, *(int(each[1]) for each in status))
        of.inputs = int(status[-1][3])
    of.findings = sorted({*of.findings, *findings})


def table(figures: Mapping[str, ReaderFigures]) -> str:
    """Return the table of the page, with a line for all readers."""
    rows = ["| reader | executions | minutes | edges covered | inputs kept | findings |", "|---|---|---|---|---|---|"]
    for name, each in sorted(figures.items()):
        rows.append(
            f"| {name} | {each.executions:,} | {each.seconds / 60:.0f} | {each.coverage:,} | {each.inputs:,} | "
            f"{len(each.findings)} |"
        )
    total = sum(each.executions for each in figures.values())
    minutes, found = sum(each.seconds for each in figures.values()) / 60, sum(len(f.findings) for f in figures.values())
    return "\n".join([*rows, f"| all {len(figures)} | {total:,} | {minutes:.0f} | | | {found} |"])


def write_page(figures: Mapping[str, ReaderFigures], page: Path) -> None:
    """Put the table into a page, from the line with the mark to the end of the table that follows it."""
    before, mark, after = page.read_text().partition(MARK)
    if not mark:
        raise ValueError(f"{page} has no line {MARK}")
    rest = re.sub(r"\A\s*(?:\|.*\n)*", "", after)
    page.write_text(f"{before}{MARK}\n\n{table(figures)}\n" + (f"\n{rest.lstrip()}" if rest.strip() else ""))
