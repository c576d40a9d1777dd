"""A page in a browser: hover, zoom and search do what they say, and no error is printed.

spec: RP1.1, RP1.2, RP1.3, RP1.5, RP1.7, RP1.10, RP1.11, RP1.13, RP1.14
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.tools import require_browser
from tmmu import Graph
from tmmu import plan as planned
from tmmu.plans import metrics
from tmmu.plans.sections import Plan
from tmmu.report.arena_map import arena_maps, step_names
from tmmu.report.page import ROUND, page

CHROMIUM = require_browser()
playwright = pytest.importorskip("playwright.sync_api")  # which drives the browser

Shown = tuple[Any, list[str], list[str]]
HOSTILE = "<b onmouseover=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def made() -> Plan:
    """A plan with a storage of a hostile name in the middle, and a chain after it."""
    g = Graph("g")
    x = g.input("x", (1,))
    a = g.node("Make", x, g.tensor("first", (1000,)))
    b = g.node("Make", a, g.tensor(HOSTILE, (1000,)))
    for n in range(30):
        b = g.node("Make", b, g.tensor(f"late.{n}", (1000,)))
    g.output(b)
    found = planned(g).sections
    assert isinstance(found, Plan)
    return found


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Iterator[Shown]:
    """A page with the plan twice, what the console says, and what is fetched."""
    plan = made()
    both = [(name, arena_maps(plan), step_names(plan)) for name in ("map", "again")]
    path = tmp_path / "map.html"
    path.write_text(page("map", ["PROVED it", "  of it"], both))
    said: list[str] = []
    fetched: list[str] = []
    tab = browser.new_page(viewport={"width": 1200, "height": 900})
    tab.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: fetched.append(request.url))
    tab.goto(path.as_uri())
    tab.wait_for_function("window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].is_idle")
    yield tab, said, fetched
    assert said == []
    assert [url for url in fetched if not url.startswith(("file:", "data:", "blob:"))] == []
    tab.close()


MODEL = "[...Bokeh.documents[0]._all_models.values()].find(m => m.type == '{}' && {})"


def value(tab: Any, kind: str, which: str, what: str) -> Any:
    return tab.evaluate(f"() => {{ const m = {MODEL.format(kind, which)}; return {what}; }}")


def test_a_storage_is_found_by_name_and_hovered_over(shown: Shown) -> None:
    tab, _, _ = shown
    boxes, ranges = ("ColumnDataSource", "m.data.left"), ("Figure", "m.renderers.some(r => r.glyph?.type == 'Quad')")
    whole = value(tab, *ranges, "[m.x_range.start, m.x_range.end]")
    search = tab.get_by_placeholder("search a tensor").first
    search.fill(HOSTILE)
    search.press("Enter")
    tab.get_by_text("1 storage", exact=True).first.wait_for()
    (row,) = value(tab, *boxes, "m.selected.indices")
    left, right, low, high = value(tab, *boxes, f"['left', 'right', 'bottom', 'top'].map(k => m.data[k][{row}])")
    start, end, bottom, top = value(tab, *ranges, "[m.x_range.start, m.x_range.end, m.y_range.start, m.y_range.end]")
    assert start <= left < right <= end
    assert bottom <= low < high <= top
    assert end - start < (whole[1] - whole[0]) / 2
    search.fill("no such name")
    search.press("Enter")
    tab.get_by_text("0 storages", exact=True).first.wait_for()
    assert value(tab, *boxes, "m.selected.indices") == []
    search.fill(HOSTILE)
    search.press("Enter")
    tab.get_by_text("1 storage", exact=True).first.wait_for()
    area = tab.locator(".bk-Canvas").first.bounding_box()
    tab.mouse.move(area["x"] + area["width"] / 2, area["y"] + area["height"] / 2 - 20)
    tab.get_by_text("written by").first.wait_for()
    assert tab.get_by_text(HOSTILE).first.is_visible()  # as text, not as a tag
    width = "m.x_range.end - m.x_range.start"
    before = value(tab, *ranges, width)
    tab.mouse.wheel(0, -400)
    tab.wait_for_function(f"() => {{ const m = {MODEL.format(*ranges)}; return {width} < {before}; }}")


def test_the_verdict_and_the_peak_are_read_on_the_page(shown: Shown) -> None:
    tab, _, _ = shown
    assert tab.get_by_text("PROVED it").is_visible()
    assert tab.get_by_text("are live at step").first.is_visible()
    assert len(tab.screenshot()) > 10_000
    assert not tab.get_by_text("of it", exact=True).is_visible()
    tab.get_by_text("PROVED it").click()
    assert tab.get_by_text("of it", exact=True).is_visible()


def test_a_click_on_a_step_lists_what_the_plan_has_there(shown: Shown) -> None:
    """Steps by the pointer and by keys, with what `tmmu show --tensors` prints. spec: RP1.10, RP1.13"""
    tab, _, _ = shown
    rows = [row for row in metrics.tensor_records(made()) if row["arena"] == "activations"]
    figure = ("Figure", "m.renderers.some(r => r.glyph?.type == 'Quad')")

    def check(step: int) -> None:
        listing = ("Div", f"m.name == 'listing' && m.text.includes('live at step {step}<')")
        tab.wait_for_function(f"() => Boolean({MODEL.format(*listing)})")
        found = re.findall(r"<tr><td[^>]*>([^<]*)</td><td>(.*?)</td>", value(tab, *listing, "m.text"))
        live = [row for row in rows if row["birth"] <= step <= row["death"]]
        assert sorted(html.unescape(name) for _, name in found) == sorted(row["name"] for row in live)
        assert [size for size, _ in found] == sorted((size for size, _ in found), reverse=True)

    for step in (5, 21):
        at = f"Bokeh.index.find_one(m).frame.x_scale.compute({step} + 0.5)"
        place = value(tab, *figure, f"[{at}, Bokeh.index.find_one(m).canvas_view.el.getBoundingClientRect()]")
        tab.mouse.click(place[1]["x"] + place[0], place[1]["y"] + 200)
        check(step)
        tab.wait_for_timeout(500)  # two clicks at once are a double click, wherever they are
    tab.keyboard.press("ArrowRight")
    check(22)
    tab.keyboard.press("Escape")
    tab.wait_for_function(f"() => !{MODEL.format('Span', 'm.line_width == 2')}.visible")


def test_ticks_of_the_drawn_map_are_round(shown: Shown) -> None:
    """Of bytes at equal distances, which are round in their unit, and of steps at whole numbers. spec: RP1.2"""
    tab, _, _ = shown
    figure = ("Figure", "m.renderers.some(r => r.glyph?.type == 'Quad')")
    steps, places = value(
        tab, *figure, "[m.below, m.left].map((a, k) => [...Bokeh.index.find_one(a[0]).tick_coords.major[k]])"
    )
    assert len(places) >= 3
    (distance,) = {b - a for a, b in pairwise(places)}
    assert any(distance == number * 1024**unit for number in ROUND for unit in range(3))
    assert all(step == int(step) for step in steps)
    assert [place for place in places if place % distance] == []


def test_names_appear_and_both_plans_move(shown: Shown) -> None:
    """Zoomed to a tensor, its name is in its rectangle; the plan beside has the same axes. spec: RP1.11, RP1.14"""
    tab, _, _ = shown
    search = tab.get_by_placeholder("search a tensor").first
    search.fill("late.7")
    search.press("Enter")
    labels = ("ColumnDataSource", "m.data.ink")
    tab.wait_for_function(f"() => {MODEL.format(*labels)}.data.text.includes('late.7')")
    assert tab.evaluate(
        """() => { const all = [...Bokeh.documents[0]._all_models.values()].filter(m => m.type == 'Figure' &&
        m.renderers.some(r => r.glyph?.type == 'Quad') && m.left[0].axis_label == 'bytes of activations');
        return all.length == 2 && all[0].x_range === all[1].x_range && all[0].y_range === all[1].y_range; }"""
    )
    assert tab.evaluate(
        """() => { const all = [...Bokeh.documents[0]._all_models.values()].filter(m => m.type == 'Figure' &&
        m.left[0].axis_label == 'live bytes'); const of = new Map();
        for (const m of all) of.set(m.y_range, (of.get(m.y_range) ?? 0) + 1);
        return all.length > 1 && [...of.values()].every(plans => plans == 2); }"""
    )


@pytest.mark.parametrize(("scheme", "background"), [("dark", "#16181c"), ("light", "#ffffff")])
def test_the_page_follows_the_system(shown: Shown, scheme: str, background: str) -> None:
    """spec: RP1.13"""
    tab, _, _ = shown
    tab.emulate_media(color_scheme=scheme)
    tab.wait_for_function(f"() => {MODEL.format('Figure', 'true')}.background_fill_color == '{background}'")
