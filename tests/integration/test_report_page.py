"""A page in a browser: hover, zoom and search do what they say, and no error is printed.

spec: RP1.1, RP1.2, RP1.3, RP1.5, RP1.7
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.tools import require_browser
from tmmu import Graph
from tmmu import plan as planned
from tmmu.report.arena_map import arena_maps, step_names
from tmmu.report.page import page

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


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Iterator[Shown]:
    """A page with one storage in the middle, what the console says, and what is fetched."""
    g = Graph("g")
    x = g.input("x", (1,))
    a = g.node("Make", x, g.tensor("first", (1000,)))
    b = g.node("Make", a, g.tensor(HOSTILE, (1000,)))
    for n in range(30):
        b = g.node("Make", b, g.tensor(f"late.{n}", (1000,)))
    g.output(b)
    plan = planned(g).sections
    path = tmp_path / "map.html"
    path.write_text(page("map", ["PROVED it"], [("map", arena_maps(plan), step_names(plan))]))
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
