"""How the checks of this package run Hypothesis: quietly, from a seed, without a database. spec: TP3.4"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.strategies import SearchStrategy

from tmmu.testing.profiles import ExampleRun


def settings_of(run: ExampleRun, *, shrinks: bool = True, steps: int = 50) -> settings:
    """Return the settings of a run. The seed alone decides the examples, and a slow machine is no error."""
    return settings(
        max_examples=run.examples, stateful_step_count=steps, database=None, deadline=None,
        phases=[Phase.generate, Phase.shrink] if shrinks else [Phase.generate], report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck), verbosity=Verbosity.quiet, print_blob=False, derandomize=False,
    )  # fmt: skip


def run_examples(test: Callable[..., None], *drawn: SearchStrategy[Any], run: ExampleRun, shrinks: bool = True) -> None:
    """Run a test on the examples of a run. Raises what it raises, for the smallest example if it `shrinks`."""
    decorated: Any = settings_of(run, shrinks=shrinks)(given(*drawn)(test))
    seed(run.seed)(decorated)()
