"""The map of a plan as one page that loads nothing: steps to the right, bytes upwards, a rectangle for each storage.

It is drawn with Bokeh on a canvas. The `DRAWN` largest visible storages are drawn, anew whenever the visible part
changes, in front of a picture that shows how full each part of the arena is. For an arena with more than `MOST`
storages, the page contains the largest ones. Therefore a page stays small and fast. spec: RP1.1 to RP1.7
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.core.extras import require_import
from tmmu.core.output import count_noun, format_size
from tmmu.report.arena_map import ArenaMap
from tmmu.report.notebook import arena_table

with require_import("bokeh", "a map as a page", "report"):
    from bokeh.embed import file_html
    from bokeh.layouts import column, row
    from bokeh.models import (
        AdaptiveTicker,
        BoxZoomTool,
        CDSView,
        ColumnDataSource,
        CustomJS,
        CustomJSHover,
        CustomJSTickFormatter,
        Div,
        HoverTool,
        IndexFilter,
        LayoutDOM,
        PanTool,
        Range1d,
        ResetTool,
        Select,
        Span,
        TabPanel,
        Tabs,
        TextInput,
        WheelZoomTool,
    )
    from bokeh.palettes import Category20, Colorblind
    from bokeh.plotting import figure
    from bokeh.resources import INLINE

MOST = 120_000
"""The most storages of one arena in a page."""
DRAWN = 4000
"""The most storages that are drawn at a time."""
NAMED_STEPS = 200_000
"""Steps have names in a page if there are no more of them."""
SHOWN = 12
"""The number of storages that are listed of those that are live at a peak."""
GRID = 600, 1500
"""The rows and columns of the picture of a larger arena."""
GREYS = [f"#{grey:02x}{grey:02x}{grey:02x}" for grey in range(255, 159, -1)]
COLOURED = 18
"""The number of operators with a separate colour."""

BYTES = """
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']; let k = 0, v = value;
    while (v >= 1024 && k < 4) { v /= 1024; k += 1; }
    return (k ? v.toFixed(2) : v) + ' ' + units[k];
"""
TICKS = BYTES.replace("value", "tick").replace("v.toFixed(2)", "Number(v.toFixed(2))")
ROUND = [1, 2, 5, 10, 20, 50, 100, 200, 500]
"""Ticks are at multiples of these numbers of bytes, KiB, MiB and so on."""
STEP = "return value < 0 ? '–' : (value + (steps.data.name.length ? ' ' + steps.data.name[value] : ''));"
NAMES = """
    const all = names.data.all[value].split('\\n');
    return all.slice(0, 6).join(', ') + (all.length > 6 ? ' and ' + (all.length - 6) + ' more' : '');
"""
SEARCH = """
    const text = cb_obj.value.trim(), all = names.data.all, found = [];
    if (text) for (let k = 0; k < all.length; k++) if (all[k].includes(text)) found.push(k);
    const exact = found.filter(k => all[k].split('\\n').includes(text)), rows = exact.length ? exact : found;
    boxes.selected.indices = rows;
    matches.text = text ? rows.length + (rows.length == 1 ? ' storage' : ' storages') : '';
    if (rows.length) {
        const d = boxes.data, of = (key, f) => rows.map(k => d[key][k]).reduce((a, b) => f(a, b));
        const left = of('left', Math.min), right = of('right', Math.max);
        const low = of('bottom', Math.min), high = of('top', Math.max);
        const across = Math.max(2, (right - left) / 2), up = Math.max(1, (high - low) / 2);
        x.start = left - across; x.end = right + across; y.start = Math.max(0, low - up); y.end = high + up;
    }
"""
SIGHT = """
    if (cb_obj.waits) return;
    cb_obj.waits = setTimeout(() => {
        cb_obj.waits = null;
        const d = boxes.data, rows = [...boxes.selected.indices], taken = new Set(rows);
        for (let k = 0; k < d.left.length && rows.length < drawn; k++)
            if (d.right[k] > x.start && d.left[k] < x.end && d.top[k] > y.start && d.bottom[k] < y.end && !taken.has(k))
                rows.push(k);
        view.filter.indices = rows;
    }, 80);
"""
RECOLOUR = """
    quads.glyph.fill_color = {field: cb_obj.value}; quads.glyph.line_color = {field: cb_obj.value};
    legends[0].visible = cb_obj.value == 'by_role'; legends[1].visible = !legends[0].visible;
"""


def page(title: str, verdict: Sequence[str], maps: Sequence[tuple[str, Sequence[ArenaMap], list[str]]]) -> str:
    """Write the HTML of the page: for each (name, arena maps, names of steps) its arenas; two plans are side by side.

    `verdict` are lines of text, the first of which begins with PROVED, REFUTED or UNKNOWN; [] if nothing was proved.
    O(storages) time and bytes, up to `MOST` per arena.
    """
    drawn = [_draw_plan(*one, narrow=len(maps) > 1) for one in maps]
    body = drawn[0] if len(drawn) == 1 else row(*drawn, sizing_mode="stretch_width")
    whole = column(
        Div(text=_write_head(title, verdict), sizing_mode="stretch_width"), body, sizing_mode="stretch_width"
    )
    made: str = file_html(whole, INLINE, title=title)
    # Bokeh would fetch these to draw formulas, and the page has none.
    return re.sub(r'(src|href)="https?://[^"]*"', r'\1=""', made)


COLOURS = {"PROVED": "#11734b", "REFUTED": "#b3261e", "UNKNOWN": "#8a5a00"}


def _write_head(title: str, verdict: Sequence[str]) -> str:
    lines = [html.escape(line) for line in verdict]
    word = verdict[0].split(" ")[0] if verdict else ""
    shown = f"<h2 style='margin:0;font-family:sans-serif'>{html.escape(title)}</h2>"
    if lines:
        shown += (
            f"<div style='color:{COLOURS.get(word, '#333')};font-family:sans-serif'><b>{lines[0]}</b></div>"
            f"<pre style='margin:0;white-space:pre-wrap'>{chr(10).join(lines[1:])}</pre>"
        )
    return shown


def _draw_plan(name: str, maps: Sequence[ArenaMap], steps: list[str], *, narrow: bool) -> LayoutDOM:
    """Draw one plan: a table of its arenas, and a tab for each."""
    listed = ColumnDataSource({"name": steps if len(steps) <= NAMED_STEPS else []})
    panels = [TabPanel(child=_draw_arena(one, listed, narrow=narrow), title=one.name) for one in maps]
    return column(
        Div(text=arena_table(name, maps), sizing_mode="stretch_width"), Tabs(tabs=panels, sizing_mode="stretch_width"),
        sizing_mode="stretch_width",
    )  # fmt: skip


def _draw_arena(one: ArenaMap, steps: ColumnDataSource, *, narrow: bool) -> LayoutDOM:
    """Draw the map of one arena, with the search above it and the live bytes below it."""
    kept = np.argsort(-np.maximum(1, one.bytes) * (one.death - one.birth + 1), kind="stable")[:MOST]
    x, y = Range1d(-0.5, one.last_step + 1.5), Range1d(0, max(1, one.footprint) * 1.02)
    names = ColumnDataSource({"all": [one.names[k] for k in kept]})
    by_role, roles = _assign_colours([one.role[k] for k in kept], Colorblind[8])
    by_operator, operators = _assign_colours([one.operator[k] for k in kept], Category20[20])
    boxes = ColumnDataSource(
        {
            "left": one.birth[kept].astype(np.int32), "right": (one.death[kept] + 1).astype(np.int32),
            "bottom": one.offset[kept], "top": one.offset[kept] + np.maximum(one.bytes[kept], 1),
            "bytes": one.bytes[kept], "slot": one.slot[kept].astype(np.int32),
            "producer": one.producer[kept].astype(np.int32), "reader": one.reader[kept].astype(np.int32),
            "last": one.death[kept].astype(np.int32), "row": np.arange(len(kept), dtype=np.int32),
            "by_role": by_role, "by_operator": by_operator,
        }
    )  # fmt: skip
    plot = figure(
        height=520, sizing_mode="stretch_width", x_range=x, y_range=y, toolbar_location="right",
        x_axis_label="step", y_axis_label=f"bytes of {one.name}", tools=[],
    )  # fmt: skip
    if len(one.names) > DRAWN:
        picture, height = _compute_occupancy(one)
        plot.image(
            image=[picture], x=0, y=0, dw=one.last_step + 1, dh=height, palette=GREYS,
        )  # fmt: skip
    view = CDSView(filter=IndexFilter(indices=list(range(min(DRAWN, len(kept))))))
    quads = plot.quad(
        "left", "right", "top", "bottom", source=boxes, view=view, fill_color="by_role", line_color="by_role",
        fill_alpha=0.75, nonselection_fill_alpha=0.08, nonselection_line_alpha=0.1,
    )  # fmt: skip
    in_bytes = CustomJSHover(code=BYTES)
    at = CustomJSHover(code=STEP, args={"steps": steps})
    hover = HoverTool(
        renderers=[quads], point_policy="follow_mouse",
        tooltips=[
            ("tensors", "@row{custom}"), ("size", "@bytes{custom}"),
            ("bytes", "from @bottom{0} up to @top{0}"),
            ("live", "@left{custom} to @last{custom}"), ("slot", "@slot"), ("written by", "@producer{custom}"),
            ("last read by", "@reader{custom}"),
        ],
        formatters={
            "@row": CustomJSHover(code=NAMES, args={"names": names}), "@bytes": in_bytes, "@left": at, "@last": at,
            "@producer": at, "@reader": at,
        },
    )  # fmt: skip
    if len(kept) > DRAWN:
        seen = CustomJS(args={"boxes": boxes, "view": view, "x": x, "y": y, "drawn": DRAWN}, code=SIGHT)
        for each in (x, y):
            each.js_on_change("start", seen)
            each.js_on_change("end", seen)
        boxes.selected.js_on_change("indices", seen)
    wheel = WheelZoomTool()
    plot.add_tools(PanTool(), wheel, BoxZoomTool(), ResetTool(), hover)
    plot.toolbar.active_scroll, plot.toolbar.logo = wheel, None
    plot.yaxis.ticker, plot.yaxis.formatter = _byte_ticks()
    peak = Span(location=one.peak_step + 0.5, dimension="height", line_color="#b3261e", line_dash="dashed")
    plot.add_layout(peak)
    live = figure(
        height=150, sizing_mode="stretch_width", x_range=x, tools=[], toolbar_location=None, y_axis_label="live bytes",
        y_range=Range1d(0, max(1, one.footprint, one.peak) * 1.1),
    )  # fmt: skip
    live.yaxis.ticker, live.yaxis.formatter = _byte_ticks()
    steps_drawn = _choose_curve(one)
    live.step(steps_drawn + 0.0, one.live[steps_drawn], mode="after", line_color="#0b5cad")
    for height, colour in ((one.footprint, "#444444"), (one.peak, "#b3261e")):
        live.add_layout(Span(location=height, dimension="width", line_color=colour, line_dash="dotted"))
    legends = [Div(text=_write_legend(roles)), Div(text=_write_legend(operators), visible=False)]
    matches = Div(text="")
    search = TextInput(placeholder="search a tensor by name, or a part of it", width=280)
    search.js_on_change(
        "value", CustomJS(args={"boxes": boxes, "names": names, "matches": matches, "x": x, "y": y}, code=SEARCH)
    )
    colours = Select(value="by_role", options=[("by_role", "by role"), ("by_operator", "by operator")], width=120)
    colours.js_on_change("value", CustomJS(args={"quads": quads, "legends": legends}, code=RECOLOUR))
    parts: list[Any] = [
        row(search, colours, matches),
        *legends,
        plot,
        live,
        Div(text=_write_peak(one, steps.data["name"])),
    ]
    if len(one.names) > DRAWN:
        of = f"the {len(kept)} largest of " if len(kept) < len(one.names) else ""
        remark = (
            f"The {DRAWN} largest visible of {of}{count_noun(len(one.names), 'storage')} are "
            "drawn; grey shows how full a part is."
        )
        parts.insert(0, Div(text=remark))
    return column(*parts, sizing_mode="stretch_width" if not narrow else "scale_width")


def _byte_ticks() -> tuple[AdaptiveTicker, CustomJSTickFormatter]:
    """Return ticks of an axis of bytes: at 50, 100, 150 MiB, not at multiples of a power of ten."""
    ticker = AdaptiveTicker(base=1024, mantissas=ROUND, min_interval=1)
    return ticker, CustomJSTickFormatter(code=TICKS)


def _choose_curve(one: ArenaMap) -> NDArray[np.int64]:
    """Return the steps of the curve of live bytes: its changes and the end; of very many, the highest of each part."""
    steps = one.changes
    if len(steps) > 4 * DRAWN:
        steps = np.array([part[one.live[part].argmax()] for part in np.array_split(steps, 2 * DRAWN)])
    return np.append(steps, len(one.live) - 1)


def _assign_colours(words: list[str], palette: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a colour for each word, with separate ones for the most frequent words; and the legend."""
    values, counts = np.unique(np.array(words, dtype=str), return_counts=True)
    ranked = [str(value) for value in values[np.argsort(-counts, kind="stable")]]
    own = ranked[: min(COLOURED, len(palette))]
    table = {word: palette[k] for k, word in enumerate(own)}
    return [table.get(word, "#999999") for word in words], table | ({"others": "#999999"} if ranked[len(own) :] else {})


def _write_legend(table: dict[str, str]) -> str:
    return " ".join(
        f"<span style='background:{colour};padding:0 .6em'></span> {html.escape(word or 'buffer')} &nbsp;"
        for word, colour in table.items()
    )


def _write_peak(one: ArenaMap, steps: Sequence[str]) -> str:
    """Write the storages that are live at the peak, as a table."""
    step = one.peak_step
    rows = "".join(
        f"<tr><td style='text-align:right;padding-right:1em'>{format_size(int(one.bytes[k]))}</td>"
        f"<td>{html.escape(one.names[k].partition(chr(10))[0])}</td>"
        f"<td style='padding-left:1em'>steps {one.birth[k]} to {one.death[k]}</td></tr>"
        for k in one.at_peak(SHOWN)
    )
    at = f"step {step}" + (f" ({html.escape(steps[step])})" if step < len(steps) else "")
    count = int(((one.birth <= step) & (one.death >= step)).sum())
    return (
        f"<b>{format_size(one.peak)} are live at {at}</b>, {count_noun(count, 'storage')}; the "
        f"largest:<table>{rows}</table>"
    )


def _compute_occupancy(one: ArenaMap) -> tuple[NDArray[np.uint8], float]:
    """Return how full each part of an arena is, from 0 to 95, as a grid of bytes by steps; and the height in bytes."""
    rows, columns = GRID
    height = float(max(1, one.footprint))
    columns = min(columns, one.last_step + 1)
    # The four corners of each rectangle count its whole cells, by sums in both directions.
    total = np.zeros((rows + 1, columns + 1))
    left = one.birth * columns // (one.last_step + 1)
    right = np.minimum(one.death * columns // (one.last_step + 1), columns - 1) + 1
    low = np.minimum((one.offset / height * rows).astype(np.int64), rows - 1)
    high = np.minimum(((one.offset + one.bytes) / height * rows).astype(np.int64), rows - 1) + 1
    weight = np.minimum(1.0, np.maximum(1.0, one.bytes) / (height / rows)) * np.minimum(
        1.0, (one.death - one.birth + 1) * columns / (one.last_step + 1)
    )
    for r, c, sign in ((low, left, 1), (low, right, -1), (high, left, -1), (high, right, 1)):
        np.add.at(total, (r, c), sign * weight)
    full = np.minimum(1.0, np.maximum(0.0, total.cumsum(0).cumsum(1)[:rows, :columns]))
    return (full * 95).astype(np.uint8), height
