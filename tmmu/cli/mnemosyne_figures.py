"""`tmmu mnemosyne check`: this machine beside the minimum of document 002, line by line. spec: MN6.1, MN6.6"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from tmmu.core.output import aligned, json_text, print_lines, print_text

FORMAT = click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="How it is printed.",
)  # fmt: skip


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@FORMAT
def check(folder: Path, style: str) -> int:
    """Check this machine against the document's minimum.

    FOLDER is where vectors are kept. What falls short is a warning, and the exit code is 0.
    """
    from tmmu.mnemosyne import hardware

    lines = hardware.check(folder)
    if style == "json":
        print_text(json_text([asdict(line) for line in lines]))
    else:
        print_lines(*aligned([HEAD, *([line.verdict, line.name, line.found, line.required] for line in lines)]))
    for line in lines:
        if line.verdict == hardware.SHORTFALL:
            print_lines(f"warning: {line.name}: {line.found}; the minimum is {line.required}", err=True)
    return 0


HEAD = ["", "what", "found", "minimum"]

COMMANDS = (check,)
"""What `tmmu mnemosyne` adds."""
