"""The map of a plan as one page that loads nothing: steps to the right, bytes upwards, a rectangle for each storage.

It is drawn with Bokeh on a canvas. The `DRAWN` largest visible storages are drawn, anew whenever the visible part
changes, in front of a picture that shows how full each part of the arena is. For an arena with more than `MOST`
storages, the page contains the largest ones. Therefore a page stays small and fast.

spec: RP1.1 to RP1.7, RP1.9 to RP1.16
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.core.extras import require_import
from tmmu.core.output import count_noun, format_size
from tmmu.report import page_scripts as scripts
from tmmu.report.arena_map import ArenaMap
from tmmu.report.colours import Colouring, colour_storages, compute_live, write_over
from tmmu.report.lanes import StreamLanes
from tmmu.report.notebook import arena_table

with require_import("bokeh", "a map as a page", "report"):
    from bokeh.document import Document
    from bokeh.embed import file_html
    from bokeh.events import DocumentReady, Tap
    from bokeh.layouts import column, row
    from bokeh.models import (
        AdaptiveTicker,
        BasicTicker,
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
        SaveTool,
        Select,
        Span,
        TabPanel,
        Tabs,
        TextInput,
        WheelZoomTool,
    )
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
DARKS = [f"#{grey:02x}{grey:02x}{grey:02x}" for grey in range(24, 120)]
GREYS = [f"#{grey:02x}{grey:02x}{grey:02x}" for grey in range(255, 159, -1)]
ROUND = [1, 2, 5, 10, 20, 50, 100, 256, 512]
"""Ticks are at multiples of these numbers of bytes, KiB, MiB and so on; large ones divide the next unit."""
CURVE = 1500
"""The most steps at which the live bytes of each category are drawn."""
STYLE = """<style>
    :root { color-scheme: light dark; }
    body { background: light-dark(#ffffff, #16181c); color: light-dark(#222222, #e6e6e6); font-family: sans-serif; }
</style>"""
"""Follows the colours of the system; `page_scripts.READY` does the same for what is drawn on a canvas."""
INPUT = ".bk-input { background-color: light-dark(#ffffff, #24282e); color: inherit; }"
TAB = ".bk-tab.bk-active { background: light-dark(#ffffff, #24282e); color: inherit; }"
"""The same for the parts that Bokeh keeps from the style of the page."""


@dataclass
class Drawing:
    """The parts of a page that its scripts reach: of each arena the figures, the held step and the ranges."""

    plots: list[Any] = field(default_factory=list)
    pictures: list[Any] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    ranges: list[Range1d] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    tabs: list[Tabs] = field(default_factory=list)
    axes: dict[tuple[str, str], Range1d] = field(default_factory=dict)
    """The axes that arenas of one name share, by name and direction."""


def page(
    title: str,
    verdict: Sequence[str],
    maps: Sequence[tuple[str, Sequence[ArenaMap], list[str]]],
    *,
    is_set: bool = False,
    lanes: Sequence[StreamLanes | None] = (),
) -> str:
    """Write the HTML of the page: for each (name, arena maps, names of steps) its arenas; two plans are side by side.

    `verdict` are lines of text, the first of which begins with PROVED, REFUTED or UNKNOWN; [] if nothing was proved.
    Arenas of one name share the axes of bytes and of live bytes, and unless they are of the programs of a set, that of
    steps. `lanes` are those of each plan, if any has streams.
    O(storages) time and bytes, up to `MOST` per arena.
    """
    made = Drawing()
    ends: dict[tuple[str, str], float] = {}
    for one in (one for _, of, _ in maps for one in of):
        for which, end in _find_ends(one):
            ends[one.name, which] = max(ends.get((one.name, which), 0), end)
    shared = ("bytes", "live") if is_set else ("steps", "bytes", "live")
    made.axes = {key: _make_range(key[1], end) for key, end in ends.items() if len(maps) > 1 and key[1] in shared}
    every = [*lanes, *[None] * (len(maps) - len(lanes))]
    drawn = [_draw_plan(*one, made, of, narrow=len(maps) > 1) for one, of in zip(maps, every, strict=True)]
    body = drawn[0] if len(drawn) == 1 else row(*drawn, sizing_mode="stretch_width")
    head = Div(text=_write_head(title, verdict), sizing_mode="stretch_width")
    document = Document(title=title)
    document.add_root(column(head, body, sizing_mode="stretch_width"))
    args = {
        "plots": made.plots, "pictures": made.pictures, "spans": made.spans, "ranges": made.ranges,
        "lasts": made.lasts, "peaks": made.peaks, "tabs": made.tabs[0], "greys": GREYS, "darks": DARKS,
    }  # fmt: skip
    document.js_on_event(DocumentReady, CustomJS(args=args, code=scripts.READY))
    html_text: str = file_html(document, INLINE, title=title)
    # Bokeh would fetch these to draw formulas, and the page has none.
    html_text = re.sub(r'(src|href)="https?://[^"]*"', r'\1=""', html_text)
    return html_text.replace("<head>", f"<head>{STYLE}", 1)


def _find_ends(one: ArenaMap) -> tuple[tuple[str, float], ...]:
    """Return the end of each axis of an arena: steps, bytes of the map, and live bytes of the curve below it."""
    live = max(1, one.footprint, one.peak) * 1.1
    return ("steps", one.last_step + 1.5), ("bytes", max(1, one.footprint) * 1.02), ("live", live)


def _make_range(which: str, end: float) -> Range1d:
    begin = -0.5 if which == "steps" else 0
    return Range1d(begin, end, reset_start=begin, reset_end=end)


COLOURS = {
    "PROVED": "light-dark(#11734b, #57c795)", "REFUTED": "light-dark(#b3261e, #ff8a80)",
    "UNKNOWN": "light-dark(#8a5a00, #e6b450)",
}  # fmt: skip


def _write_head(title: str, verdict: Sequence[str]) -> str:
    """Write the title and the verdict: one line, whose details unfold."""
    lines = [html.escape(line) for line in verdict]
    word = verdict[0].split(" ")[0] if verdict else ""
    shown = f"<h2 style='margin:0;font-family:sans-serif'>{html.escape(title)}</h2>"
    if lines:
        first = f"<b style='color:{COLOURS.get(word, 'inherit')};font-family:sans-serif'>{lines[0]}</b>"
        details = f"<pre style='margin:0;white-space:pre-wrap'>{chr(10).join(lines[1:])}</pre>"
        shown += f"<details><summary>{first}</summary>{details}</details>" if lines[1:] else f"<div>{first}</div>"
    return f"{shown}<div style='font-family:sans-serif'>{KEYS}</div>"


KEYS = (
    "A click on a step lists what is live there. Keys: arrows move the step, Escape returns to the peak, + and - zoom, "
    "0 shows all steps. The icon with an arrow down saves the current view as PNG."
)
"""How a page is used, in words."""


def _draw_plan(
    name: str, maps: Sequence[ArenaMap], steps: list[str], made: Drawing, lanes: StreamLanes | None, *, narrow: bool
) -> LayoutDOM:
    """Draw one plan: a table of its arenas, and a tab for each."""
    listed = ColumnDataSource({"name": steps if len(steps) <= NAMED_STEPS else []})
    panels = [TabPanel(child=_draw_arena(one, listed, made, lanes, narrow=narrow), title=one.name) for one in maps]
    made.tabs.append(Tabs(tabs=panels, sizing_mode="stretch_width", stylesheets=[TAB]))
    return column(
        Div(text=arena_table(name, maps), sizing_mode="stretch_width"), made.tabs[-1], sizing_mode="stretch_width"
    )


def _draw_arena(
    one: ArenaMap, steps: ColumnDataSource, made: Drawing, lanes: StreamLanes | None, *, narrow: bool
) -> LayoutDOM:
    """Draw the map of one arena, with the search above it and the live bytes below it."""
    kept = np.argsort(-np.maximum(1, one.bytes) * (one.death - one.birth + 1), kind="stable")[:MOST]
    x, y, upward = (made.axes.get((one.name, key)) or _make_range(key, end) for key, end in _find_ends(one))
    names = ColumnDataSource({"all": [one.names[k] for k in kept]})
    colourings = colour_storages(one)
    first = colourings[0].key
    boxes = ColumnDataSource(
        {
            "left": one.birth[kept].astype(np.int32), "right": (one.death[kept] + 1).astype(np.int32),
            "bottom": one.offset[kept], "top": one.offset[kept] + np.maximum(one.bytes[kept], 1),
            "bytes": one.bytes[kept], "slot": one.slot[kept].astype(np.int32),
            "producer": one.producer[kept].astype(np.int32), "reader": one.reader[kept].astype(np.int32),
            "last": one.death[kept].astype(np.int32), "row": np.arange(len(kept), dtype=np.int32),
        }
    )  # fmt: skip
    for each in colourings:
        colours = each.colours
        boxes.data[f"by_{each.key}"] = [colours[k] for k in kept]
        boxes.data[f"ink_{each.key}"] = [write_over(colours[k]) for k in kept]
    plot = figure(
        height=520, sizing_mode="stretch_width", x_range=x, y_range=y, toolbar_location="right",
        x_axis_label="step", y_axis_label=f"bytes of {one.name}", tools=[],
    )  # fmt: skip
    if len(one.names) > DRAWN:
        picture, height = _compute_occupancy(one)
        made.pictures.append(plot.image(image=[picture], x=0, y=0, dw=one.last_step + 1, dh=height, palette=GREYS))
    view = CDSView(filter=IndexFilter(indices=list(range(min(DRAWN, len(kept))))))
    quads = plot.quad(
        "left", "right", "top", "bottom", source=boxes, view=view, fill_color=f"by_{first}", line_color=f"by_{first}",
        fill_alpha=0.85, nonselection_fill_alpha=0.15, nonselection_line_alpha=0.2,
    )  # fmt: skip
    labels = ColumnDataSource({"x": [], "y": [], "text": [], "row": [], "ink": []})
    plot.text(
        "x", "y", "text", source=labels, text_color="ink", text_align="center", text_baseline="middle",
        text_font_size="11px",
    )  # fmt: skip
    wheel = WheelZoomTool()
    plot.add_tools(PanTool(), wheel, BoxZoomTool(), ResetTool(), SaveTool(), _make_hover(quads, names, steps))
    plot.toolbar.active_scroll, plot.toolbar.logo = wheel, None
    plot.yaxis.ticker, plot.yaxis.formatter = _byte_ticks()
    plot.xaxis.ticker = _step_ticks()
    peak, held = (
        Span(location=one.peak_step + 0.5, dimension="height", line_color=colour, line_dash=dash)
        for colour, dash in (("#d0500a", "dashed"), ("#7a55c7", "solid"))
    )
    held.visible, held.line_width = False, 2
    plot.add_layout(peak)
    plot.add_layout(held)
    live, areas = _draw_live(one, x, upward, colourings)
    figures, notes = [plot, live], []
    if lanes is not None:
        figures.append(_draw_lanes(lanes, x, steps, held))
        notes.append(Div(text=html.escape(lanes.describe())))
    legends = [Div(text=_write_legend(each.table), name=each.key, visible=each.key == first) for each in colourings]
    options = [(each.key, f"by {each.key}") for each in colourings]
    chosen = Select(value=first, options=options, width=120, name="colours", stylesheets=[INPUT])
    search = TextInput(placeholder="search a tensor by name, or a part of it", width=280, stylesheets=[INPUT])
    matches = Div(text="")
    found = {"boxes": boxes, "names": names, "matches": matches, "x": x, "y": y}
    search.js_on_change("value", CustomJS(args=found, code=scripts.SEARCH))
    seen = CustomJS(
        args={
            "boxes": boxes, "names": names, "view": view, "x": x, "y": y, "drawn": DRAWN, "labels": labels,
            "plot": plot, "colours": chosen,
        },
        code=scripts.SIGHT,
    )  # fmt: skip
    for each_range in (x, y):
        each_range.js_on_change("start", seen)
        each_range.js_on_change("end", seen)
    boxes.selected.js_on_change("indices", seen)
    for size in ("inner_width", "inner_height"):
        plot.js_on_change(size, seen)
    recoloured = {"quads": quads, "legends": legends, "areas": areas, "labels": labels, "boxes": boxes}
    chosen.js_on_change("value", CustomJS(args=recoloured, code=scripts.RECOLOUR))
    at_peak = _write_peak(one, steps.data["name"])
    listing = Div(text=at_peak, name="listing", sizing_mode="stretch_width")
    held.js_on_change(
        "location",
        CustomJS(
            args={
                "held": held, "peak": one.peak_step, "boxes": boxes, "names": names, "steps": steps,
                "listing": listing, "at_peak": at_peak, "left_out": len(kept) < len(one.names),
            },
            code=scripts.LIST,
        ),
    )  # fmt: skip
    for clicked in figures:
        clicked.js_on_event(Tap, CustomJS(args={"held": held, "last": one.last_step}, code=scripts.TAP))
    made.plots += figures
    made.spans.append(held)
    made.ranges.append(x)
    made.lasts.append(one.last_step)
    made.peaks.append(one.peak_step)
    parts = [Div(text=_describe_drawn(one, len(kept))), row(search, chosen, matches), *legends]
    parts += [*figures[:2], *notes, *figures[2:], listing]
    return column(*parts, sizing_mode="stretch_width" if not narrow else "scale_width")


def _describe_drawn(one: ArenaMap, kept: int) -> str:
    """Describe what of an arena is drawn, and what is left out."""
    count = count_noun(len(one.names), "storage")
    if len(one.names) <= DRAWN:
        return f"Drawing {'the' if len(one.names) == 1 else 'all'} {count}."
    of = f"the {kept} largest of " if kept < len(one.names) else ""
    left = f" {len(one.names) - kept} smaller ones are not in this page." if of else ""
    return (
        f"The {DRAWN} largest visible of {of}{count} are drawn; zoom in to see smaller ones. Grey shows how full a "
        f"part is.{left}"
    )


def _make_hover(quads: Any, names: ColumnDataSource, steps: ColumnDataSource) -> HoverTool:
    """Return what is shown of the storage under the pointer."""
    in_bytes = CustomJSHover(code=scripts.BYTES)
    at = CustomJSHover(code=scripts.STEP, args={"steps": steps})
    return HoverTool(
        renderers=[quads], point_policy="follow_mouse",
        tooltips=[
            ("tensors", "@row{custom}"), ("size", "@bytes{custom}"),
            ("bytes", "from @bottom{0} up to @top{0}"),
            ("live", "@left{custom} to @last{custom}"), ("slot", "@slot"), ("written by", "@producer{custom}"),
            ("last read by", "@reader{custom}"),
        ],
        formatters={
            "@row": CustomJSHover(code=scripts.NAMES, args={"names": names}), "@bytes": in_bytes, "@left": at,
            "@last": at, "@producer": at, "@reader": at,
        },
    )  # fmt: skip


def _draw_live(one: ArenaMap, x: Range1d, y: Range1d, colourings: Sequence[Colouring]) -> tuple[Any, list[Any]]:
    """Draw the live bytes over steps, stacked by category; and return the areas, named by their colouring."""
    live = figure(
        height=150, sizing_mode="stretch_width", x_range=x, y_range=y, tools=[], toolbar_location=None,
        y_axis_label="live bytes",
    )  # fmt: skip
    live.yaxis.ticker, live.yaxis.formatter = _byte_ticks()
    live.xaxis.ticker = _step_ticks()
    at, areas = _choose_curve(one, CURVE), []
    ends = np.append(at, len(one.live)) + 0.0
    for k, each in enumerate(colourings):
        low = np.zeros(len(at))
        for word, found in compute_live(one, each, at.tolist()).items():
            if found.any():
                area = live.varea_step(
                    ends, _repeat_last(low), _repeat_last(low + found), step_mode="after", fill_color=each.table[word],
                    fill_alpha=0.7,
                )  # fmt: skip
                area.name, area.visible = each.key, k == 0
                areas.append(area)
            low = low + found
    curve = _choose_curve(one, 4 * DRAWN)
    live.step(np.append(curve, len(one.live)) + 0.0, _repeat_last(one.live[curve]), mode="after", line_color="#0072b2")
    for height, colour in ((one.footprint, "#7d7d7d"), (one.peak, "#d0500a")):
        live.add_layout(Span(location=height, dimension="width", line_color=colour, line_dash="dotted"))
    return live, areas


def _draw_lanes(lanes: StreamLanes, x: Range1d, steps: ColumnDataSource, held: Span) -> Any:
    """Draw the steps of each stream in a lane of its own, the first on top, and a line for each wait."""
    count = len(lanes.names)
    drawn = figure(
        height=min(400, 50 + 24 * count), sizing_mode="stretch_width", x_range=x, y_range=Range1d(count - 0.5, -0.5),
        tools=[], toolbar_location=None, y_axis_label="stream",
    )  # fmt: skip
    drawn.xaxis.ticker = drawn.yaxis.ticker = _step_ticks()
    named = CustomJSTickFormatter(code="return names[tick] ?? '';", args={"names": list(lanes.names)})
    drawn.yaxis.formatter = named
    bars = ColumnDataSource(
        {
            "left": lanes.first + 0.0, "right": lanes.last + 1.0, "top": lanes.lane - 0.4, "bottom": lanes.lane + 0.4,
            "first": lanes.first.astype(np.int32), "last": lanes.last.astype(np.int32),
            "stream": [lanes.names[k] for k in lanes.lane.tolist()],
        }
    )  # fmt: skip
    quads = drawn.quad(
        "left", "right", "top", "bottom", source=bars, fill_color=LANE, line_color="#ffffff", line_width=0.5
    )
    begin, end = lanes.stream[lanes.awaited], lanes.stream[lanes.waiting]
    drawn.segment(lanes.awaited + 1.0, begin, lanes.waiting + 0.0, end, line_color=WAIT, line_width=1.5)
    drawn.scatter(lanes.waiting + 0.0, end, color=WAIT, size=6)
    at = CustomJSHover(code=scripts.STEP, args={"steps": steps})
    tips = [("stream", "@stream"), ("first step", "@first{custom}"), ("last step", "@last{custom}")]
    tips = tips if lanes.width > 1 else [("stream", "@stream"), ("step", "@first{custom}")]
    drawn.add_tools(HoverTool(renderers=[quads], tooltips=tips, formatters={"@first": at, "@last": at}))
    mark = Span(dimension="height", line_color=held.line_color, line_width=2, visible=False)
    for what in ("location", "visible"):
        held.js_link(what, mark, what)
    drawn.add_layout(mark)
    return drawn


LANE, WAIT = "#5f7f9a", "#d0500a"
"""The colours of steps and of waits."""


def _repeat_last(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values with the last one twice: the last step has a width too."""
    return np.append(values, values[-1:])


def _step_ticks() -> BasicTicker:
    """Return ticks of an axis of whole numbers."""
    return BasicTicker(min_interval=1, num_minor_ticks=0)


def _byte_ticks() -> tuple[AdaptiveTicker, CustomJSTickFormatter]:
    """Return ticks of an axis of bytes: at 50, 100, 150 MiB, not at multiples of a power of ten."""
    ticker = AdaptiveTicker(base=1024, mantissas=ROUND, min_interval=1)
    return ticker, CustomJSTickFormatter(code=scripts.TICKS)


def _choose_curve(one: ArenaMap, most: int) -> NDArray[np.int64]:
    """Return the steps of the curve of live bytes: its changes and the end; of very many, the highest of each part."""
    steps = one.changes
    if len(steps) > most:
        steps = np.array([part[one.live[part].argmax()] for part in np.array_split(steps, most // 2)])
    return np.append(steps, len(one.live) - 1)


def _write_legend(table: dict[str, str]) -> str:
    return " ".join(
        f"<span style='background:{colour};padding:0 .6em;margin-right:.4em'></span>"
        f"{html.escape(word or 'buffer')} &nbsp;"
        for word, colour in table.items()
    )


def _write_peak(one: ArenaMap, steps: Sequence[str]) -> str:
    """Write the storages that are live at the peak, as a table."""
    step = one.peak_step
    rows = "".join(
        f"<tr><td style='text-align:right;padding-right:1em'>{format_size(int(one.bytes[k]))}</td>"
        f"<td>{html.escape(one.names[k].partition(chr(10))[0])}</td>"
        f"<td style='padding-left:1em'>steps {one.birth[k]} to {one.death[k]}</td>"
        f"<td style='padding-left:1em'>written by {_name_writer(int(one.producer[k]), steps)}</td></tr>"
        for k in one.at_peak(SHOWN)
    )
    at = f"step {step}" + (f" ({html.escape(steps[step])})" if step < len(steps) else "")
    count = int(((one.birth <= step) & (one.death >= step)).sum())
    return (
        f"<b>{format_size(one.peak)} are live at {at}</b>, {count_noun(count, 'storage')}; the "
        f"largest:<table>{rows}</table>"
    )


def _name_writer(step: int, steps: Sequence[str]) -> str:
    """Return the node that writes a storage, as HTML."""
    if step < 0:
        return "the caller"
    return html.escape(steps[step]) if step < len(steps) else f"step {step}"


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
