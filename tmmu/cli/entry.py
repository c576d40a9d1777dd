"""The tmmu command's outermost layer: one clear line for an error, and an exit code for its kind."""

from __future__ import annotations

import sys

from tmmu.core.process import begin, exit_now, explain, is_closed_output


def main() -> None:
    """Run the command; exit 2 for the command line (bindings too), 4 for a refusal, 70 for anything unexpected."""
    begin()
    exit_now(run())


def run(arguments: list[str] | None = None) -> int:
    """The exit code of one command line.

    That of `tmmu verify` is always verify-plan's: output that is closed is no verdict there. spec: C1.1
    """
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["verify"]:
        from proofs.verify import entry as verifier  # other commands do without

        return verifier.run(given[1:], "tmmu verify")
    try:
        from tmmu.cli.commands import tmmu

        code = int(tmmu.main(arguments, standalone_mode=False) or 0)
        print(end="", flush=True)
        return code
    except BaseException as error:
        return 0 if is_closed_output(error) else explain(error)  # as `| head` does once it has its lines


if __name__ == "__main__":
    main()
