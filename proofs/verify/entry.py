"""The entry of verify-plan: every error is reported by an exit code, errors of loading modules included. spec: C1.1"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tmmu.core import process

ASKS_NO_SOLVER = ("--help", "--jobs", "--cluster", "--resume")
"""The options with which this process asks none: it prints a text, or other processes judge the plans."""


def main() -> None:
    """Run verify-plan and exit with its code."""
    process.begin()
    process.exit_now(run())


def run(arguments: list[str] | None = None, name: str | None = None) -> int:
    """Return the exit code of one command line of verify-plan. `name` is the command's in its help."""
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        return process.run_command("proofs.verify.version", given, name)
    try:
        _start_solver(given)
    except BaseException as error:
        return process.explain(error)
    return process.run_command("proofs.verify.command", given, name)


def _start_solver(given: Sequence[str]) -> None:
    """Start the solver that this command line asks first: it is imported while the command's own modules are.

    This is a guess, as the command line is read later. A solver that is not asked ends with this process.
    """
    if given and not any(word.startswith(ASKS_NO_SOLVER) for word in given):
        from proofs.proving.solvers.kept import start_ahead

        start_ahead("cvc5" if {"cvc5", "--solver=cvc5"} & set(given) else "z3")


if __name__ == "__main__":
    main()
