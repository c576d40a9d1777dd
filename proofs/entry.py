"""The verify-plan command's outermost layer: no crash may look like a verdict (C1.1)."""

from __future__ import annotations

import io
import sys
import traceback


def main() -> None:
    """Run the command and exit with its code; 70 for any exception that it did not expect."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no reason to fail
    try:
        from proofs.command import command

        sys.exit(command.main(standalone_mode=False) or 0)
    except SystemExit:
        raise
    except BaseException as error:  # everything else, keyboard interrupts included, is no verdict
        sys.exit(_explain(error))


def _explain(error: BaseException) -> int:
    try:
        import click

        if isinstance(error, click.exceptions.Exit):
            return error.exit_code
        if isinstance(error, click.UsageError):
            said = error.format_message()  # of several lines where it is the help text
            print(said if "\n" in said else f"error: {said} (--help lists the options)", file=sys.stderr)
            return 2
        if isinstance(error, (click.Abort, KeyboardInterrupt)):
            print("interrupted", file=sys.stderr)
            return 70
    except ImportError:
        pass
    traceback.print_exception(error)
    print("internal error: this is a bug, and no verdict", file=sys.stderr)
    return 70


if __name__ == "__main__":
    main()
