"""Enter check-models: any fault is reported and never counts as success."""

from __future__ import annotations

from tmmu.core.process import begin, exit_now, run_command


def main() -> None:
    """Run check-models and exit with its code."""
    begin()
    exit_now(run())


def run(arguments: list[str] | None = None) -> int:
    """Return the exit code of one command line of check-models."""
    return run_command("proofs.model_check.command", arguments)


if __name__ == "__main__":
    main()
