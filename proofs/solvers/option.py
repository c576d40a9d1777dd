"""`--solver` and `--timeout`, for the commands that ask one. spec: C1.1, V4.10"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import click

from proofs.solvers.process import SOLVERS
from tmmu.core.extras import install


def timeout_option(default: int) -> Callable[[Any], Any]:
    """`--timeout SECONDS`, of one query."""
    return click.option(
        "--timeout", type=click.IntRange(1, 1_000_000), default=default, show_default=True,
        help="Seconds that the solver may take for one query.",
    )  # fmt: skip


def solver_option(text: str) -> Callable[[Any], Any]:
    """`--solver z3|cvc5|both`, which gives a command the names of the `solvers`, each installed. spec: C1.1, V4.10"""

    def named(_context: object, _parameter: object, given: str) -> tuple[str, ...]:
        chosen = tuple(SOLVERS) if given == "both" else (given,)
        for name in chosen:
            if importlib.util.find_spec(name) is None:
                raise click.BadParameter(f"{name} is not installed; {install(name)}", param_hint="--solver")
        return chosen

    return click.option(
        "--solver", "solvers", type=click.Choice([*SOLVERS, "both"]), callback=named, default="z3", show_default=True,
        help=text,
    )  # fmt: skip
