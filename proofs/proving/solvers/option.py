"""Define `--solver` and `--timeout` for the commands that ask a solver. spec: C1.1, V4.10"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from proofs.proving.solvers.process import SOLVERS, require_solvers


def timeout_option(default: int) -> Callable[[Any], Any]:
    """Return the option `--timeout SECONDS`, the limit of one query."""
    return click.option(
        "--timeout", type=click.IntRange(1, 1_000_000), default=default, show_default=True,
        help="Seconds that the solver may take for one query.",
    )  # fmt: skip


def solver_option(text: str) -> Callable[[Any], Any]:
    """Return the option `--solver z3|cvc5|both`, which gives a command the names of the `solvers`.

    A solver that is not installed is refused as the command line is read. spec: C1.1, V4.10, R5.4
    """

    def named(_context: object, _parameter: object, given: str) -> tuple[str, ...]:
        names = tuple(SOLVERS) if given == "both" else (given,)
        require_solvers(names, f"--solver {given}")
        return names

    return click.option(
        "--solver", "solvers", type=click.Choice([*SOLVERS, "both"]), callback=named, default="z3", show_default=True,
        help=text,
    )  # fmt: skip
