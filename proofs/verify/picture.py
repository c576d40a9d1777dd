"""A refutation as a picture: when the tensors of the witness are live, and which bytes they have.

In a terminal two rulers, of steps and of bytes; as a page (`--report`) two rectangles over steps and bytes, with the
step and the bytes that the witness names. The page is one file that loads nothing. spec: C1.11, C1.12
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from proofs.verify.boxes import Box
from proofs.verify.verdict import PROVED, REFUTED, Verdict
from tmmu.core.output import count_noun, escape_line
from tmmu.plans.sections import BufferPlan, Plan

WIDTH = 48
"""The characters of a ruler."""
NAME = 24
"""The number of characters of a name that are printed beside a rectangle."""
BEHIND = 400
"""As many other storages are drawn behind the two."""


def in_text(witness: dict[str, Any]) -> Iterator[str]:
    """Two rulers for a terminal; nothing where the witness is not about tensors in one arena."""
    shown = [Box(**box) for box in witness.get("boxes", ())]
    if not shown or len({box.arena for box in shown}) > 1 or "arena" not in witness:
        return
    names = [escape_line(box.tensor) for box in shown]
    short = [name if len(name) <= NAME else f"{name[: NAME - 1]}…" for name in names]
    wide = max(len(name) for name in (*short, "steps", "bytes"))
    step = witness["steps"][0] if witness["steps"] else None
    whens = [(box.birth, box.death) for box in shown]
    yield from _ruler("steps", short, whens, wide, None if step is None else (step, f"step {step}"))
    wheres = [(box.first_byte, box.last_byte) for box in shown]
    yield from _ruler(f"bytes of {shown[0].arena}", short, wheres, wide, None)


def _ruler(
    what: str, names: Sequence[str], spans: Sequence[tuple[int, int]], wide: int, mark: tuple[int, str] | None
) -> Iterator[str]:
    spans = [(min(span), max(span)) for span in spans]  # a wrong plan may end a life before it begins
    low, high = min(a for a, _ in spans), max(b for _, b in spans)
    if mark is not None:
        low, high = min(low, mark[0]), max(high, mark[0])
    length = high - low + 1

    def place(at: int) -> int:
        return (at - low) * WIDTH // length

    yield f"{'':{wide}}  {low}{what:^{max(1, WIDTH - len(str(low)) - len(str(high)))}}{high}"
    for name, (first, last) in zip(names, spans, strict=True):
        begin, end = place(first), max(place(first) + 1, place(last + 1))
        yield f"{name:>{wide}}  {' ' * begin}{'=' * (end - begin)}"
    if mark is not None:
        yield f"{'':{wide}}  {' ' * place(mark[0])}^ {mark[1]}"


def page(verdicts: Sequence[tuple[Verdict, Sequence[str], Plan | BufferPlan | None]]) -> str:
    """The page for some files: each verdict with its lines of text, and of a refuted plan the picture. O(plans)."""
    return (
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>verify-plan</title><style>"
        ":root{color-scheme:light dark}body{font-family:sans-serif;margin:1em}"
        "pre{white-space:pre-wrap}</style></head><body>"
        f"{''.join(part(*one) for one in verdicts)}</body></html>\n"
    )


def part(verdict: Verdict, text: Sequence[str], plan: Plan | BufferPlan | None) -> str:
    """One verdict as a part of a page. spec: C1.12, LIB5.2"""
    colour = HEADS.get(verdict.verdict, "light-dark(#8a5a00,#e6b450)")
    lines = [html.escape(escape_line(line)) for line in text]
    drawing = "" if verdict.witness is None or plan is None else _drawing(verdict.witness, plan)
    return f"<h2 style='color:{colour}'>{lines[0]}</h2><pre>{chr(10).join(lines[1:])}</pre>{drawing}"


HEADS = {PROVED: "light-dark(#11734b,#57c795)", REFUTED: "light-dark(#b3261e,#ff8a80)"}
"""The colours of verdicts, on a light page and on a dark one."""
SIZE = 900, 420
COLOURS = ("#0b5cad", "#c05a00", "#5b3a9e", "#2d7d46")


def _drawing(witness: dict[str, Any], plan: Plan | BufferPlan) -> str:
    """The rectangles of the witness's tensors, other storages grey behind them, as SVG."""
    shown = [Box(**box) for box in witness.get("boxes", ())]
    if not shown or "arena" not in witness:
        return ""
    arena = witness["arena"] or shown[0].arena
    shown = [box for box in shown if box.arena == arena]
    if not shown:
        return ""
    left, right = min(min(box.birth, box.death) for box in shown), max(max(box.birth, box.death) for box in shown)
    low, high = min(box.first_byte for box in shown), max(box.last_byte for box in shown)
    for step in witness["steps"]:
        left, right = min(left, step), max(right, step)
    across, up = (right - left + 1) / 6, (high - low + 1) / 6
    x0, x1, y0, y1 = left - across, right + 1 + across, low - up, high + 1 + up
    width, height = SIZE

    def rectangle(first: float, last: float, bottom: float, top: float, style: str, title: str = "") -> str:
        ends = [min(max(end, x0), x1) for end in (first, last + 1)]
        sides = [min(max(side, y0), y1) for side in (bottom, top + 1)]
        x, w = (ends[0] - x0) / (x1 - x0) * width, (ends[1] - ends[0]) / (x1 - x0) * width
        y, h = (y1 - sides[1]) / (y1 - y0) * height, (sides[1] - sides[0]) / (y1 - y0) * height
        words = f"<title>{html.escape(title)}</title>" if title else ""
        return f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(w, 1):.1f}' height='{max(h, 1):.1f}' {style}>{words}</rect>"

    behind = "fill='#999999' fill-opacity='0.35' stroke='#888888'"
    others = list(_others(plan, arena, (x0, x1, y0, y1)))
    drawn = [rectangle(*other, behind) for other in others]
    for k, box in enumerate(shown):
        style = f"fill='{COLOURS[k % len(COLOURS)]}' fill-opacity='0.45' stroke='{COLOURS[k % len(COLOURS)]}'"
        title = f"{box.tensor}: steps {box.birth} to {box.death}, bytes {box.first_byte} to {box.last_byte}"
        drawn.append(rectangle(box.birth, box.death, box.first_byte, box.last_byte, style, title))
    if witness["first_byte"] is not None:
        style = "fill='#b3261e' fill-opacity='0.7'"
        for step, last in [(step, step) for step in witness["steps"]] or [(left, right)]:
            drawn.append(
                rectangle(step, last, witness["first_byte"], witness["last_byte"], style, "what the witness names")
            )
    legend = "".join(
        f"<div><span style='background:{COLOURS[k % len(COLOURS)]};padding:0 .6em;margin-right:.4em'></span>"
        f"{html.escape(escape_line(box.tensor))}: "
        f"steps {box.birth} to {box.death}, bytes {box.first_byte} to {box.last_byte} of "
        f"{html.escape(escape_line(box.arena))}</div>"
        for k, box in enumerate(shown)
    )
    which = "the steps" if len(witness["steps"]) > 1 else "the step"
    named = (
        f"<div><span style='background:#b3261e;padding:0 .6em;margin-right:.4em'></span>{which} and the bytes of the "
        "witness</div>"
    )
    axes = _write_axis(x0, x1, width, "step", is_upright=False)
    axes += _write_axis(y0, y1, height, f"bytes of {html.escape(escape_line(arena))}", is_upright=True)
    count = f"{BEHIND} largest storages" if len(others) == BEHIND else count_noun(len(others), "storage")
    return (
        f"<svg viewBox='{-MARGIN} 0 {width + MARGIN} {height + 40}' width='{width + MARGIN}' height='{height + 40}' "
        f"font-family='sans-serif' font-size='12' fill='currentColor'>"
        f"<svg width='{width}' height='{height}'>{''.join(drawn)}</svg>"
        f"<rect width='{width}' height='{height}' fill='none' stroke='#888888'/>{axes}</svg>{legend}{named}"
        f"<div>The {count_noun(len(shown), 'tensor')} of the witness, and in grey the {count} in view.</div>"
    )


MARGIN = 120
"""The room for the bytes beside a drawing, in pixels."""
TICKS = 8
"""The most ticks of an axis."""


def _write_axis(first: float, last: float, length: int, word: str, *, is_upright: bool) -> str:
    """Return an axis as SVG: ticks at whole numbers, of bytes at a round number of a power of two, and its name."""
    distance = 1
    while (last - first) / distance > TICKS:
        distance *= 2
    marks = []
    for at in range(max(0, -(-int(first) // distance)) * distance, int(last) + 1, distance):
        place = (at - first) / (last - first) * length
        if at < first or at > last:
            continue
        if is_upright:
            y = length - place
            line, text = f"M -5 {y:.1f} H 0", f"x='-8' y='{y + 4:.1f}' text-anchor='end'"
        else:
            line, text = f"M {place:.1f} {SIZE[1]} v 5", f"x='{place:.1f}' y='{SIZE[1] + 18}' text-anchor='middle'"
        marks.append(f"<path d='{line}' stroke='currentColor'/><text {text}>{at}</text>")
    if is_upright:
        where = f"transform='translate({12 - MARGIN} {length / 2:.0f}) rotate(-90)'"
    else:
        where = f"x='{length / 2:.0f}' y='{SIZE[1] + 36}'"
    name = f"<text {where} text-anchor='middle'>{word}</text>"
    return "".join(marks) + name


def _others(
    plan: Plan | BufferPlan, arena: str, window: tuple[float, float, float, float]
) -> Iterator[tuple[float, float, float, float]]:
    """The largest storages of the arena that are in sight."""
    x0, x1, y0, y1 = window
    storages, number = plan.placement.storages, [one.name for one in plan.placement.arenas].index(arena)
    low, size = storages.offset.astype(np.float64), storages.bytes.astype(np.float64)
    seen = (storages.arena == number) & (storages.birth < x1) & (storages.death >= x0) & (low < y1) & (low + size > y0)
    rows = np.flatnonzero(seen)
    for k in rows[np.argsort(-size[rows], kind="stable")][:BEHIND].tolist():
        yield float(storages.birth[k]), float(storages.death[k]), float(low[k]), float(low[k] + max(1.0, size[k]) - 1)
