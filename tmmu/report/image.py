"""The map of a plan as an image for a paper or a slide: PNG, SVG or PDF, drawn with Matplotlib. spec: RP2.1"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from tmmu.core.extras import require_import
from tmmu.core.output import format_size
from tmmu.report.arena_map import ArenaMap
from tmmu.report.colours import colour_storages

with require_import("matplotlib", "a map as an image", "report"):
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

MOST = 100_000
"""The number of rectangles, the largest ones, that are drawn for one arena."""


def image(title: str, maps: Sequence[ArenaMap], kind: str) -> bytes:
    """Draw a file of kind "png", "svg" or "pdf": a map and the live bytes of each arena whose live bytes change.

    The same plan gives the same bytes under one version of Matplotlib. O(storages), up to `MOST` per arena.
    """
    drawn = [one for one in maps if not one.is_constant] or list(maps[:1])
    figure = Figure(figsize=(11, 1 + 4.5 * max(1, len(drawn))), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    grid = figure.subplots(2 * max(1, len(drawn)), 1, squeeze=False, height_ratios=[3, 1] * max(1, len(drawn)))[:, 0]
    for one, boxes, live in zip(drawn, grid[::2], grid[1::2], strict=True):
        _draw_boxes(one, boxes)
        live.step(range(len(one.live)), one.live, where="post", linewidth=0.8)
        live.axhline(one.footprint, color="0.3", linestyle=":", linewidth=0.8)
        live.axhline(one.peak, color="tab:red", linestyle=":", linewidth=0.8)
        live.set_xlim(0, one.last_step + 1)
        live.set_ylim(0, max(1, one.footprint, one.peak) * 1.1)
        live.set_xlabel("step")
        live.set_ylabel("live bytes")
        for axes in (boxes, live):
            axes.yaxis.set_major_formatter(lambda value, _: format_size(int(value)) if value >= 0 else "")
    out = io.BytesIO()
    without_date = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with matplotlib.rc_context({"svg.hashsalt": "tmmu"}):
        figure.savefig(out, format=kind, dpi=150, metadata=without_date)
    return out.getvalue()


def _draw_boxes(one: ArenaMap, axes: Any) -> None:
    kept = np.sort(np.argsort(-one.bytes, kind="stable")[:MOST])
    left, right = one.birth[kept], one.death[kept] + 1
    low, high = one.offset[kept], one.offset[kept] + np.maximum(1.0, one.bytes[kept])
    corners = [np.stack(pair, 1) for pair in ((left, low), (right, low), (right, high), (left, high))]
    colouring = colour_storages(one)[0]
    every = colouring.colours
    colours = [every[k] for k in kept.tolist()]
    axes.add_collection(
        PolyCollection(list(np.stack(corners, 1)), facecolors=colours, edgecolors="white", linewidths=0.2)
    )
    axes.axvline(one.peak_step + 0.5, color="tab:red", linestyle="--", linewidth=0.8)
    axes.set_xlim(0, one.last_step + 1)
    axes.set_ylim(0, max(1, one.footprint) * 1.02)
    axes.set_ylabel(f"bytes of {one.name}")
    axes.set_title(
        f"footprint {format_size(one.footprint)}, peak {format_size(one.peak)} at step {one.peak_step}", fontsize=9
    )
    legend = [Patch(color=colour, label=word or "buffer") for word, colour in colouring.table.items()]
    axes.legend(handles=legend, fontsize=8, loc="upper center", ncols=min(6, len(legend)))
