"""The outermost layer of the commands: no crash may look like a verdict (C1.1).

Whatever ends a command but its own answer ends in `explain`, which gives each kind of end a code of its own: 2 for the
command line, 4 for a refusal, 70 for everything that nobody expected. spec: C1.1, C1.7
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from typing import NoReturn

INTERNAL = 70
"""The exit code of what is no answer at all."""


def main() -> None:
    """Run verify-plan and exit with its code."""
    make_printable()
    leave(run())


def run(arguments: list[str] | None = None) -> int:
    """The exit code of one command line of verify-plan."""
    try:
        from proofs.command import command

        code = int(command.main(arguments, standalone_mode=False) or 0)
        print(end="", flush=True)
        return code
    except BaseException as error:  # everything else, keyboard interrupts included, is no verdict
        return explain(error)


def make_printable() -> None:
    """A name that the terminal cannot show is printed as an escape: it is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def leave(code: int) -> NoReturn:
    """Exit with `code`, also where nobody reads the output: Python itself would fail over the rest of it, with 120."""
    try:
        print(end="", flush=True)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    sys.exit(code)


def explain(error: BaseException) -> int:
    """One line for what the user can mend, all that is known for what he cannot; and the exit code."""
    try:
        import click

        from tmmu.errors import TmmuError

        if isinstance(error, click.exceptions.Exit):
            return error.exit_code
        if isinstance(error, click.UsageError):
            said = error.format_message()  # of several lines where it is the help text
            print(said if "\n" in said else f"error: {said} (--help lists the options)", file=sys.stderr)
            return 2
        if isinstance(error, TmmuError):
            print(f"error: {error}", file=sys.stderr)
            return 2 if error.code_id == "INVALID_BINDING" else 4
        if isinstance(error, (click.Abort, KeyboardInterrupt)):
            print("interrupted", file=sys.stderr)
            return INTERNAL
    except ImportError:
        pass
    if unheard(error):
        print("error: nobody reads the output", file=sys.stderr)
        return INTERNAL
    traceback.print_exception(error)
    print("internal error: this is a bug, and no verdict", file=sys.stderr)
    return INTERNAL


def unheard(error: BaseException) -> bool:
    """Has the reader of the output gone? (Click exits with 1 over a closed pipe, which would look like a verdict.)"""
    return isinstance(error, (BrokenPipeError, SystemExit))


if __name__ == "__main__":
    main()
