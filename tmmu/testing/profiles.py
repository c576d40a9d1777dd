"""How many examples are drawn, and from which seed: the profiles of the suite. spec: TP3.4, TP4.3"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tmmu.core.progress import Doing, report_nothing

PROFILES = {"fast": 60, "ci": 600, "nightly": 10_000}
"""The examples of each property. Of a planner that takes no time, `fast` is done in 10 s and `ci` in 2 min."""
FOLDER = "plan-regressions"
"""The folder of saved cases, in the current one: to be committed beside the tests."""


@dataclass(frozen=True)
class ExampleRun:
    """The examples of each check, the seed that they follow from, and the folder of saved cases; None: not saved."""

    examples: int = 100
    seed: int = 0
    folder: Path | None = Path(FOLDER)
    report: Doing = report_nothing
    """Notified of each problem."""


_runs = [ExampleRun()]


def current_run(examples: int | None = None, folder: str | Path | None = None) -> ExampleRun:
    """Return the run in force, with what a call states itself. An empty folder: nothing is saved."""
    run = _runs[-1]
    if examples is not None:
        if isinstance(examples, bool) or not isinstance(examples, int) or examples < 1:
            raise ValueError(f"expected a positive number of examples, got {examples!r}")
        run = replace(run, examples=examples)
    if folder is not None:
        run = replace(run, folder=Path(folder) if str(folder) else None)
    return run


@contextmanager
def running(run: ExampleRun) -> Iterator[None]:
    """Put a run in force."""
    _runs.append(run)
    try:
        yield
    finally:
        _runs.remove(run)
