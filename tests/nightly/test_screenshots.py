"""The map, the refutation and the notebook look as they are stored in `tests/corpus/screenshots`.

`python -m tests.support.screenshots --write` takes them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.screenshots import RACE, STORED, compare, start_browser, take, write_pages
from tests.support.tools import require_browser

CHROMIUM = require_browser()
pytest.importorskip("playwright.sync_api")  # which drives the browser
MOST = 0.01
"""The part of the pixels that may differ."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with start_browser(CHROMIUM, tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.mark.parametrize("page", ["map", "refutation", "notebook"])
def test_a_page_looks_as_its_stored_picture_and_another_plan_does_not(page: str, browser: Any, tmp_path: Path) -> None:
    stored = (STORED / f"{page}.png").read_bytes()
    assert compare(take(browser, write_pages(tmp_path)[page], tmp_path), stored) <= MOST
    # `c` is stored behind `b`, and another training step: one rectangle has moved at least.
    others = write_pages(tmp_path, RACE.replace("tensor c 256 act 256", "tensor c 192 act 256"), seed=4)
    assert compare(take(browser, others[page], tmp_path), stored) > MOST


def test_a_page_that_looks_other_is_noticed(browser: Any, tmp_path: Path) -> None:
    """A dark page and one without its axes are not the stored ones; the picture itself is."""
    stored = (STORED / "refutation.png").read_bytes()
    html = write_pages(tmp_path)["refutation"]
    hidden = "<svg style='display:none' "
    for old, new in (("color-scheme:light dark", "color-scheme:dark"), ("<svg ", hidden), ("REFUTED", "")):
        assert old in html
        found = compare(take(browser, html.replace(old, new), tmp_path), stored)
        assert found > (MOST if old != "REFUTED" else 0), old
    assert compare(stored, stored) == 0
    assert compare(stored, (STORED / "map.png").read_bytes()) > MOST
