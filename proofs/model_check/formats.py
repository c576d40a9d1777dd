"""Print results as a table, as JSON and as JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from xml.etree import ElementTree as Xml

from proofs.model_check.judge import RunResult
from proofs.model_check.manifest import SUCCESS, Run

HEAD = ("name", "kind", "expected", "ended", "states", "depth", "seconds")


class ResultTable:
    """A table that is printed row by row. Its columns are as wide as the runs' names need."""

    def __init__(self, runs: Sequence[Run]) -> None:
        name = max((len(run.name) for run in runs), default=0)
        expected = max((len(run.expected) for run in runs), default=0)
        self._widths = [max(name, len(HEAD[0])), 11, max(expected, 8), max(expected, 8)]

    def head(self) -> str:
        """Return the line above the rows."""
        return self._line(HEAD)

    def row(self, result: RunResult) -> str:
        """Return the line of one run."""
        ended = result.violated or (SUCCESS if result.as_expected else "NOT SO")
        counts = ["" if n is None else str(n) for n in (result.distinct_states, result.depth)]
        return self._line((result.name, result.kind, result.expected, ended, *counts, f"{result.seconds:.1f}"))

    def _line(self, cells: Sequence[str]) -> str:
        left = (f"{cell:<{width}}" for cell, width in zip(cells, self._widths, strict=False))
        return "  ".join([*left, *(f"{cell:>8}" for cell in cells[4:])])


def format_unexpected(result: RunResult) -> Iterator[str]:
    """Yield why a run is not as expected, and its counterexample."""
    yield f"{result.name} ({result.kind} of {result.module}) did not end as the manifest expects:"
    yield from (f"  {objection}" for objection in result.objections)
    yield from (f"    {line}" for line in result.trace)


def format_validated(result: RunResult) -> Iterator[str]:
    """Yield a path of a validated event log: its name, its number of lines, and the first line that is not a step."""
    if result.as_expected:
        yield f"ACCEPTED {result.name}: {(result.distinct_states or 1) - 1} lines"
    else:
        yield f"{'REJECTED' if result.violated else 'UNKNOWN'} {result.name}"
        yield from (f"  {objection}" for objection in result.objections)


def format_list(runs: Iterable[Run]) -> Iterator[str]:
    """Yield the lines of `--list`: a run a line."""
    for run in runs:
        what = f"{run.expected} must be violated" if run.expected != SUCCESS else ", ".join(run.checks)
        yield f"{run.name}  ({run.kind}, {run.module}, {run.size})  {what}"


def as_json(results: Sequence[RunResult], tool: dict[str, str]) -> str:
    """Return `{"tool": {...}, "models": [...]}`, with one object a run."""
    return json.dumps({"tool": tool, "models": [asdict(result) for result in results]}, indent=1)


def as_junit(results: Sequence[RunResult]) -> str:
    """Return one test suite a module, with one test case a run."""
    suites = Xml.Element("testsuites", name="check-models")
    for module in dict.fromkeys(result.module for result in results):
        cases = [result for result in results if result.module == module]
        failures = sum(not case.as_expected for case in cases)
        suite = Xml.SubElement(suites, "testsuite", name=module, tests=str(len(cases)), failures=str(failures))
        for case in cases:
            element = Xml.SubElement(
                suite, "testcase", classname=f"{module}.{case.kind}", name=case.name, time=f"{case.seconds:.2f}"
            )
            if not case.as_expected:
                failure = Xml.SubElement(element, "failure", message="; ".join(case.objections))
                failure.text = "\n".join(case.trace)
    Xml.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(suites, encoding="unicode")
