"""Plot measurements: hit rates over room, and latencies beside the document's. spec: MN3.7, MN6.13"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_import, require_package
from tmmu.mnemosyne.latency import LEVELS, TARGETS
from tmmu.mnemosyne.measured import MeasuredLine


def check_picture(path: Path) -> None:
    """Raise INVALID_SETTING for a file other than SVG, PNG or PDF, and MISSING_PACKAGE without matplotlib."""
    if path.suffix not in (".svg", ".png", ".pdf"):
        raise TmmuError(
            "INVALID_SETTING", f"cannot write a picture as {path.suffix or 'a file without suffix'}", file=str(path),
            fix="name a file that ends with .svg, .png or .pdf", setting="plot",
        )  # fmt: skip
    require_package("matplotlib", "a picture", "report")


def plot_latencies(lines: Sequence[MeasuredLine], path: Path) -> None:
    """Plot P50 and P99 of each line as bars over logarithmic nanoseconds, with the document's figures.

    Raises as `check_picture`.
    """
    figure, axes = _figure(path)
    names = [line.name for line in lines]
    axes.barh(names, [line.p50 for line in lines], alpha=0)  # fixes the order of the names
    both = [line for line in lines if line.p99 is not None]
    axes.barh([line.name for line in both], [line.p99 for line in both], color="#c6d8ea", label="P99")
    axes.barh(names, [line.p50 for line in lines], color="#2f6690", height=0.5, label="P50, or the mean of loads")
    for name, line in zip(names, lines, strict=True):
        at = LEVELS.get(line.name.split()[0], (None, None))[1]
        if at is not None:
            axes.plot([at], [name], "k|", markersize=14)
    for name, at in TARGETS.items():
        axes.axvline(at, color="#b33951", linewidth=1)
        axes.annotate(f"{name} {at // 1000} µs", (at, -0.45), color="#b33951", fontsize=7)
    axes.set_xscale("log")
    axes.set_xlabel("ns; | is the document's figure of a level, lines are its targets")
    axes.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    figure.savefig(path)


def plot_hit_rates(traces: Mapping[str, Mapping[str, Mapping[int, float]]], path: Path) -> None:
    """Plot each trace in its own picture, with a line for each policy: hit rate by the number of tiles with room."""
    figure, axes = _figure(path, len(traces))
    for at, (trace, policies) in zip(axes if len(traces) > 1 else [axes], traces.items(), strict=True):
        for policy, rates in policies.items():
            style = (
                {"marker": "o", "linewidth": 2} if policy.startswith("semantic") else {"marker": ".", "linewidth": 1}
            )
            at.plot(list(rates), list(rates.values()), label=policy, **style)
        at.set_xscale("log", base=2)
        at.set_title(trace, fontsize=9)
        at.set_xlabel("room in tiles")
        at.set_ylabel("hits an access")
        at.legend(fontsize=7)
    figure.savefig(path)


def _figure(path: Path, pictures: int = 1) -> tuple[Any, Any]:
    """Create a figure and its axes. Raises as `check_picture`."""
    check_picture(path)
    with require_import("matplotlib", "a picture", "report"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(8 if pictures == 1 else 5 * pictures, 4.5), layout="constrained")
    return figure, figure.subplots(1, pictures)
