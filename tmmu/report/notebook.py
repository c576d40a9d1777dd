"""A plan in a notebook: a table of its arenas and a small map of each that changes with time, as HTML.

The HTML loads nothing, runs nothing, and has a bounded size. spec: LIB5.1
"""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from tmmu.core.output import format_size
from tmmu.report.arena_map import ArenaMap

MOST = 300
"""The number of storages of an arena that are drawn: those with the most bytes for the longest time."""
WIDTH, HEIGHT = 640, 200
"""The size of a map, in pixels."""


def arena_table(name: str, maps: Sequence[ArenaMap]) -> str:
    """Write a row for each arena: its footprint, its peak and their ratio."""
    rows = "".join(
        f"<tr><td>{html.escape(one.name)}</td><td>{format_size(one.footprint)}</td><td>{format_size(one.peak)}</td>"
        f"<td>{one.footprint / one.peak if one.peak else 1:.3f}</td><td>{one.peak_step}</td>"
        f"<td>{len(one.names)}</td></tr>"
        for one in maps
    )
    head = "".join(
        f"<th style='text-align:left;padding-right:1em'>{word}</th>"
        for word in ("arena", "footprint", "peak live (lower bound)", "ratio", "peak at step", "storages")
    )
    return f"<b>{html.escape(name)}</b><table style='font-family:sans-serif'><tr>{head}</tr>{rows}</table>"


def plan_html(name: str, maps: Sequence[ArenaMap]) -> str:
    """Write the table, and a map of each arena that changes with time. O(storages)."""
    return arena_table(name, maps) + "".join(_draw_map(one) for one in maps if not one.is_constant)


def _draw_map(one: ArenaMap) -> str:
    """Draw the storages over steps and bytes; a browser shows the name, size and steps of the one under the pointer."""
    kept = np.argsort(-one.bytes * (one.death - one.birth + 1), kind="stable")[:MOST].tolist()
    across, up = WIDTH / (one.last_step + 1), HEIGHT / max(1, one.footprint)
    drawn = []
    for k in kept:
        x, w = one.birth[k] * across, (one.death[k] - one.birth[k] + 1) * across
        h = one.bytes[k] * up
        y = HEIGHT - one.offset[k] * up - h
        first, _, others = one.names[k].partition("\n")
        words = (
            f"{first}{' …' if others else ''}: {format_size(int(one.bytes[k]))}, steps {one.birth[k]} to {one.death[k]}"
        )
        drawn.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(w, 1):.1f}' height='{max(h, 1):.1f}' fill='#0b5cad' "
            f"fill-opacity='0.35' stroke='#0b5cad'><title>{html.escape(words)}</title></rect>"
        )
    left = len(one.names) - len(kept)
    more = f"; {left} smaller ones are not drawn" if left else ""
    return (
        f"<div>{html.escape(one.name)}: steps 0 to {one.last_step} to the right, "
        f"{format_size(one.footprint)} upwards{more}"
        "</div>"
        f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' style='border:1px solid #888'>"
        f"{''.join(drawn)}</svg>"
    )
