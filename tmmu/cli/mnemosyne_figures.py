"""`tmmu mnemosyne check` and `delta`: a machine and vectors beside the figures of document 002.

spec: MN4.13, MN6.1, MN6.6, MN6.10
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tmmu.core.errors import TmmuError
from tmmu.core.flags import OnceCommand, format_examples
from tmmu.core.output import align_rows, format_json, print_lines, print_text
from tmmu.core.progress import progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tmmu.mnemosyne.delta_report import DeltaReport, ModeReport

FORMAT = click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="How it is printed.",
)  # fmt: skip


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu mnemosyne check",
        "tmmu mnemosyne check store --measure",
    ),
)
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
    """Check this machine against the minimum for stores of vectors.

    FOLDER is where vectors are kept. What falls short is a warning, and the exit code is 0.
    """
    from tmmu.mnemosyne import hardware, measured

    if plot is not None and not measure:
        raise click.UsageError("--plot draws what --measure has measured")
    found = None
    if plot is not None:
        from tmmu.mnemosyne.plots import check_picture

        check_picture(plot)
    if measure:
        with progress(str(folder)) as doing:
            doing("measuring")
            found = measured.measure(folder)
    lines = hardware.check_hardware(folder, read_speed=found.read_speed if found is not None else None)
    if plot is not None and found is not None:
        from tmmu.mnemosyne.plots import plot_latencies

        plot_latencies(found.lines, plot)
    if style == "json":
        stated = [asdict(line) for line in found.lines] if found is not None else None
        print_text(format_json({"checks": [asdict(line) for line in lines], "measured": stated}))
    else:
        print_lines(*align_rows([HEAD, *([line.verdict, line.name, line.found, line.required] for line in lines)]))
        if found is not None:
            rows = [[line.name, _time(line.p50), _time(line.p99), line.document] for line in found.lines]
            print_lines("", *align_rows([["what", "P50", "P99", "document"], *rows]))
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


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu mnemosyne delta v.npy",
        "tmmu mnemosyne delta v.npy --report",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--report", "is_full", is_flag=True, help="Correlation and entropy too, with expected values.")
@click.option("--block", type=click.IntRange(1), default=64, show_default=True, help="Vectors of a block.")
@FORMAT
def delta(file: Path, is_full: bool, block: int, style: str) -> int:
    """Report what differences make of vectors.

    FILE is a matrix in NumPy's format .npy, a vector a row. Nothing is written.
    """
    from tmmu.mnemosyne import delta_report

    try:
        found = delta_report.report(load_vectors(file), block)
    except TmmuError as refusal:
        raise refusal.in_file(str(file)) from None
    if style == "json":
        answer = delta_report.replace_nonfinite(asdict(found))
        print_text(format_json(answer if is_full else {key: answer[key] for key in answer if key in SHORT}))
        return 0
    print_lines(f"{found.vectors} vectors of {found.elements} {found.dtype} in blocks of {found.block}")
    print_lines(*align_rows([MODES, *(mode_row(mode) for mode in found.modes)]))
    print_lines(*(f"{mode.mode} refused: {mode.refused}" for mode in found.modes if mode.refused is not None))
    if is_full:
        print_lines("", *correlation_lines(found))
    return 0


SHORT = ("vectors", "elements", "dtype", "block", "modes")
MODES = ("mode", "bytes", "saved of FP16", "with zstd", "saved of FP16", "error", "bound", "elements changed")


def load_vectors(file: Path) -> NDArray[Any]:
    """Return the array of a .npy file, mapped. Raises `InvalidVectors` for another file, and for objects."""
    from tmmu.core.npy import NotAnArray, map_array
    from tmmu.mnemosyne.failures import InvalidVectors

    try:
        return map_array(file)
    except (OSError, NotAnArray) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise InvalidVectors(f"not an array in NumPy's format ({what})", "file", "save it with numpy.save") from None


def mode_row(mode: ModeReport) -> list[str]:
    """A mode as a row of the table."""
    if mode.refused is not None:
        return [mode.mode, "refused", "", "", "", "", "", ""]
    squeezed = ["", ""] if mode.zstd_bytes is None else [str(mode.zstd_bytes), f"{mode.zstd_saving:.1%}"]
    exact = mode.bound == 0
    error = ["exact" if mode.changed == 0 else "WRONG", ""] if exact else [f"{mode.error:.2g}", f"{mode.bound:.2g}"]
    return [mode.mode, str(mode.bytes), f"{mode.saving:.1%}", *squeezed, *error, f"{mode.changed:.1%}"]


def correlation_lines(found: DeltaReport) -> Iterator[str]:
    """Correlation and entropy beside what the document states of them."""
    from tmmu.mnemosyne.delta_figures import entropy_change

    rho = found.correlation
    if rho is None:
        yield "no correlation: in each pair of neighbours one does not vary"
    else:
        yield (
            f"correlation of neighbours: mean {rho.mean:.3f}, median {rho.median:.3f}, from {rho.least:.3f} to "
            f"{rho.most:.3f}; {rho.undefined} undefined"
        )
        yield (
            f"  above 0.5, where entropy falls: {rho.above_threshold:.1%}; "
            f"from 0.955 on, for 10.88 %: {rho.above_estimate:.1%}"
        )
        yield (
            f"entropy of differences: {rho.formula:+.3f} bits an element by Theorem 5.1 at the mean; "
            f"{rho.variance:+.3f} by their variance"
        )
    points = ", ".join(f"{at} {entropy_change(at):+.3f}" for at in (0.5, 0.7, 0.85, 0.9, 0.95))
    yield f"  Theorem 5.1 by correlation: {points}"
    savings = ", ".join(f"{100 * part:.1f} % of {count}" for count, part in found.int8_savings.items())
    yield f"INT8 in one block of {found.elements} elements saves of FP16: {savings} vectors"


COMMANDS = (check, delta)
"""What `tmmu mnemosyne` adds."""
