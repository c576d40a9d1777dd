"""Screenshots of what people look at: a map, a refutation and a notebook, as Chromium draws them.

Chromium finds no fonts but those of Matplotlib, so that text is as wide on every machine. The pictures are stored in
`tests/corpus/screenshots`; `python -m tests.support.screenshots --write` takes them again, to be looked at before they
are committed.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proofs.verify.judge import verify
from proofs.verify.picture import page as refutation_page
from proofs.verify.text import lines
from tests.support.synthetic import training_plan
from tmmu.plans import file
from tmmu.report.arena_map import arena_maps, step_names
from tmmu.report.notebook import plan_html

STORED = Path(__file__).parents[1] / "corpus" / "screenshots"
SIZE = {"width": 1100, "height": 1000}
NEAR = 48
"""Two colours differ if one of red, green and blue differs by more; versions of Chromium smooth edges differently."""
FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias></fontconfig>"""
RACE = """tmmu-plan-text 1
arena act 1280 align 64
tensor x 256 act 0 input
tensor a 256 act 256
tensor b 256 act 512
tensor c 256 act 256
tensor y 256 act 768 output
step s1 Gemm x -> a on compute
step s2 Gemm a -> b on compute
step s3 Gemm x -> c on copies after s1
step s4 Add b c -> y on compute after s3
"""
"""Two streams, of which one writes what the other still reads."""


def write_pages(folder: Path, race: str = RACE, seed: int = 3) -> dict[str, str]:
    """The HTML of each page by name."""
    from tmmu.report.lanes import find_lanes
    from tmmu.report.page import page

    path = folder / "race.plan.txt"
    path.write_text(race)
    plan, verdict = file.load_any(path).plan, verify(str(path))
    text = [line.replace(str(path), path.name) for line in lines(verdict)]
    drawn = [(path.name, arena_maps(plan), step_names(plan))]
    other = training_plan(60, seed=seed, in_place=0.3, views=0.3, arenas=2)
    return {
        "map": page(path.name, text, drawn, lanes=[find_lanes(plan)]),
        "refutation": refutation_page([(verdict, text, plan)]),
        "notebook": f"<!DOCTYPE html><body style='font-family:sans-serif'>{plan_html('training', arena_maps(other))}",
    }


@contextlib.contextmanager
def start_browser(chromium: str, folder: Path) -> Iterator[Any]:
    """A Chromium that has only the fonts of Matplotlib."""
    import matplotlib
    from playwright.sync_api import sync_playwright

    fonts = folder / "fonts.conf"
    fonts.write_text(FONTS.format(fonts=Path(matplotlib.get_data_path()) / "fonts" / "ttf", cache=folder / "cache"))
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=chromium, env={**os.environ, "FONTCONFIG_FILE": str(fonts)},
            args=["--no-sandbox", "--disable-lcd-text", "--font-render-hinting=none", "--force-device-scale-factor=1"],
        )  # fmt: skip
        yield browser
        browser.close()


def take(browser: Any, html: str, folder: Path) -> bytes:
    """A page as PNG, once it is drawn."""
    path = folder / "page.html"
    path.write_text(html)
    tab = browser.new_page(viewport=SIZE, color_scheme="light")
    tab.goto(path.as_uri())
    if "Bokeh" in html:
        tab.wait_for_function("window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].is_idle")
        tab.wait_for_timeout(1000)  # the names in rectangles are written when the size of the page is known
    png: bytes = tab.screenshot()
    tab.close()
    return png


def compare(one: bytes, other: bytes) -> float:
    """The part of the pixels that differ, from 0 to 1; pictures of different sizes differ in all."""
    a, b = _read(one), _read(other)
    return float((np.abs(a - b).max(axis=2) > NEAR).mean()) if a.shape == b.shape else 1.0


def _read(png: bytes) -> NDArray[np.int16]:
    from PIL import Image  # which Matplotlib installs

    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(np.int16)


def main() -> None:
    """Take the pictures, and with --write store them."""
    from tests.support.tools import require_browser

    STORED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, start_browser(require_browser(), Path(name)) as browser:
        for page, html in write_pages(Path(name)).items():
            png, stored = take(browser, html, Path(name)), STORED / f"{page}.png"
            print(f"{page}: {compare(png, stored.read_bytes()):.2%} of pixels differ" if stored.exists() else page)
            if "--write" in sys.argv:
                stored.write_bytes(png)


if __name__ == "__main__":
    main()
