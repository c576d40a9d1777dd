"""Pages of large plans in a browser: `python -m tests.benchmarks.report`, with Chromium and without a GPU.

A pan moves what is in sight by one hundredth, and ends with the second frame after it, when the canvas is painted. What
it takes of the processors is counted over all of the browser's processes, for five pans and the choice of what is in
sight that follows them; other work on the machine changes the one and not the other. Linux.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.synthetic import training_plan
from tmmu.report.arena_map import arena_maps, step_names
from tmmu.report.page import page

SIZES = (100_000, 1_000_000)
PANS = 5
FIGURE = """
    const all = [...Bokeh.documents[0]._all_models.values()].filter(m => m.type == 'Figure');
    const x = all.find(m => m.renderers.some(r => r.glyph?.type == 'Quad')).x_range;
"""
ZOOM = f"""part => {{ {FIGURE}
    const middle = (x.start + x.end) / 2, half = (x.end - x.start) * part / 2;
    x.setv({{start: middle - half, end: middle + half}});
}}"""
PAN = f"""async count => {{ {FIGURE}
    const frame = () => new Promise(done => requestAnimationFrame(done));
    const by = (x.end - x.start) / 100, times = [];
    for (let k = 0; k < count; k++) {{
        const start = performance.now(), to = k % 2 ? by : -by;
        x.setv({{start: x.start + to, end: x.end + to}});
        await frame(); await frame();
        times.push(performance.now() - start);
    }}
    return times;
}}"""


def main() -> None:
    """Print a row for each size: the page, how long it loads, pans of all steps and of a tenth of them."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("maps in a browser: not measured (pip install playwright)")
        return
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        print("maps in a browser: not measured (apt-get install chromium)")
        return
    print(
        "maps in a browser: ms a pan (median of five) and what it takes of the processors, of all steps and of a tenth"
    )
    print(f"{'tensors':>9} {'make s':>7} {'MB':>6} {'load s':>7} {'all':>6} {'cpu':>6} {'tenth':>6} {'cpu':>6}")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for size in SIZES:
            plan = training_plan(size, seed=1, in_place=0.3, views=0.3)
            path, start = Path(folder, f"{size}.html"), time.perf_counter()
            path.write_text(page("map", [], [("map", arena_maps(plan), step_names(plan))]))
            made = time.perf_counter() - start
            tab = browser.new_page(viewport={"width": 1400, "height": 1000})
            start = time.perf_counter()
            tab.goto(path.as_uri())
            drawn = "window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].is_idle"
            tab.wait_for_function(drawn, timeout=300_000)
            loaded = time.perf_counter() - start
            row = f"{size:>9} {made:>7.1f} {path.stat().st_size / 1e6:>6.1f} {loaded:>7.1f}"
            for part in (1, 0.1):
                tab.evaluate(ZOOM, part)
                row += "".join(f" {ms:>6.0f}" for ms in _pan(tab))
            print(row, flush=True)
            tab.close()
        browser.close()


def _pan(tab: Any) -> tuple[float, float]:
    """Milliseconds of a pan, and of the processors' time that one takes."""
    tab.wait_for_timeout(2000)
    before = sum(map(_seconds, _children(os.getpid())))
    times = tab.evaluate(PAN, PANS)
    tab.wait_for_timeout(2000)
    return statistics.median(times), (sum(map(_seconds, _children(os.getpid()))) - before) / PANS * 1000


def _children(process: int) -> Iterator[int]:
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, listed.read_text().split()):
            yield child
            yield from _children(child)


def _seconds(process: int) -> float:
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
