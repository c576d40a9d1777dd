"""The outermost layer of check-models: whatever else happens, it is no success."""

from __future__ import annotations

from proofs.entry import explain, leave, make_printable


def main() -> None:
    """Run check-models and exit with its code."""
    make_printable()
    leave(run())


def run(arguments: list[str] | None = None) -> int:
    """The exit code of one command line of check-models."""
    try:
        from proofs.model_check.command import command

        code = int(command.main(arguments, standalone_mode=False) or 0)
        print(end="", flush=True)
        return code
    except BaseException as error:  # everything else, keyboard interrupts included, is no success
        return explain(error)


if __name__ == "__main__":
    main()
