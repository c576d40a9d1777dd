"""The tmmu command's outermost layer: one clear line for what is wrong, and a code that says what kind it is."""

from __future__ import annotations

import io
import sys
import traceback


def main() -> None:
    """Run the command; exit 2 for the command line (bindings too), 4 for a refusal, 70 for anything unexpected."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no reason to fail
    sys.exit(run())


def run(arguments: list[str] | None = None) -> int:
    """The exit code of one command line."""
    import click

    from tmmu.cli.commands import tmmu
    from tmmu.errors import TmmuError

    try:
        return int(tmmu.main(arguments, standalone_mode=False) or 0)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        said = error.format_message()  # of several lines where it is the help text
        print(said if "\n" in said else f"error: {said} (--help lists the options)", file=sys.stderr)
        return 2
    except TmmuError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if error.code_id == "INVALID_BINDING" else 4
    except BrokenPipeError:
        return 0
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return 70
    except Exception as error:
        traceback.print_exception(error)
        print("internal error: this is a bug", file=sys.stderr)
        return 70


if __name__ == "__main__":
    main()
