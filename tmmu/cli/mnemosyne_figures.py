"""`tmmu mnemosyne check`: this machine beside the minimum of document 002, line by line, and what it takes.

spec: MN6.1, MN6.6, MN6.10
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from tmmu.core.output import aligned, json_text, print_lines, print_text, progress

FORMAT = click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="How it is printed.",
)  # fmt: skip


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("--measure", is_flag=True, help="Measure memory, disk and reads of vectors too: half a minute, 256 MiB.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --measure: draw the table (.svg, .png or .pdf).",
)
@FORMAT
def check(folder: Path, measure: bool, plot: Path | None, style: str) -> int:
    """Check this machine against the document's minimum.

    FOLDER is where vectors are kept. What falls short is a warning, and the exit code is 0.
    """
    from tmmu.mnemosyne import hardware, measured

    if plot is not None and not measure:
        raise click.UsageError("--plot draws what --measure has measured")
    found = None
    if measure:
        progress(str(folder))("measuring")
        found = measured.measure(folder)
        progress(str(folder))("")
    lines = hardware.check(folder, read_speed=found.read_speed if found is not None else None)
    if plot is not None and found is not None:
        from tmmu.mnemosyne.plots import plot_latencies

        plot_latencies(found.lines, plot)
    if style == "json":
        stated = [asdict(line) for line in found.lines] if found is not None else None
        print_text(json_text({"checks": [asdict(line) for line in lines], "measured": stated}))
    else:
        print_lines(*aligned([HEAD, *([line.verdict, line.name, line.found, line.required] for line in lines)]))
        if found is not None:
            rows = [[line.name, _time(line.p50), _time(line.p99), line.document] for line in found.lines]
            print_lines("", *aligned([["what", "P50", "P99", "document"], *rows]))
            print_lines(f"read-ahead of the disk: {hardware.read_ahead(folder) or 'not shown'}")
    for line in lines:
        if line.verdict == hardware.SHORTFALL:
            print_lines(f"warning: {line.name}: {line.found}; the minimum is {line.required}", err=True)
    return 0


def _time(nanoseconds: float | None) -> str:
    """A time to three digits, in the unit that suits.

    >>> _time(97.024), _time(20_000), _time(None)
    ('97 ns', '20 µs', '')
    """
    if nanoseconds is None:
        return ""
    scale, unit = next((each for each in ((1e6, "ms"), (1e3, "µs")) if nanoseconds >= each[0]), (1, "ns"))
    return f"{nanoseconds / scale:.3g} {unit}"


HEAD = ["", "what", "found", "minimum"]

COMMANDS = (check,)
"""What `tmmu mnemosyne` adds."""
