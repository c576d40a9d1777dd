"""The entry of verify-plan: every error is reported by an exit code, errors of loading modules included. spec: C1.1"""

from __future__ import annotations

import sys

from tmmu.core import process


def main() -> None:
    """Run verify-plan and exit with its code."""
    process.begin()
    process.exit_now(run())


def run(arguments: list[str] | None = None) -> int:
    """The exit code of one command line of verify-plan."""
    is_version = (sys.argv[1:] if arguments is None else arguments) == ["--version"]
    return process.run_command(f"proofs.verify.{'version' if is_version else 'command'}", arguments)


if __name__ == "__main__":
    main()
