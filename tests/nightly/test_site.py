"""The site of `make site`: strict about links, and whole in a browser that has no network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tmmu
from tests.support.tools import require_browser

pytest.importorskip("mkdocs")  # which builds it: pip install '.[site]'
CHROMIUM = require_browser()
ROOT = Path(__file__).resolve().parents[2]
LEFT = shutil.ignore_patterns(".venv", ".git", "site", "demo", "dist", "__pycache__", ".hypothesis", ".*_cache")


def built(root: Path, sources: str = "") -> str:
    """What the build of the site of a checkout prints; empty where it succeeded."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(root / ".github/site/mkdocs.yml")]
    environment = {**os.environ, "SOURCES_URL": sources, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(root)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return done.stdout + done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with its site."""
    root = tmp_path_factory.mktemp("checkout") / "tmmu"
    shutil.copytree(ROOT, root, ignore=LEFT)
    shutil.copytree(ROOT / ".github/site", root / ".github/site", dirs_exist_ok=True)
    assert built(root) == ""
    return root


def test_every_link_of_the_site_leads_to_a_page_or_a_source(checkout: Path) -> None:
    pages = [page for page in (checkout / "site").rglob("*.html") if page.name != "404.html"]
    assert len(pages) > 30
    for page in pages:
        for link in re.findall(r'(?:src|href)="([^"#?:]+)["#?]', page.read_text()):
            assert (page.parent / link).exists(), f"{link} in {page}"


def test_the_reference_has_each_public_name_and_the_types_of_the_signatures(checkout: Path) -> None:
    page = (checkout / "site/api.html").read_text()
    for name in tmmu.__all__:
        assert name == "__version__" or re.search(rf'<h2 id="[\w.]+\.{name}"', page), name
    text = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    assert "address_token bytes | None" in text  # described together with `layout`, which is a text
    assert "PlannedTensor (" in text


def test_the_site_is_searched_from_a_folder_and_fetches_nothing(checkout: Path) -> None:
    from playwright.sync_api import sync_playwright

    fetched: list[str] = []
    errors: list[str] = []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.on("request", lambda request: fetched.append(request.url))
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto((checkout / "site/tmmu.html").as_uri())
        field = tab.locator(".md-search__input").first
        field.click()
        field.press_sequentially("counterexample", delay=20)
        tab.locator(".md-search-result__item a").first.click()
        tab.wait_for_url("**/tutorials/counterexample.html*")
        browser.close()
    assert [url for url in fetched if not url.startswith(("file:", "data:"))] == []
    assert errors == []


def test_no_link_leaves_the_site_but_those_that_a_page_states(checkout: Path) -> None:
    """The theme adds none; what is left are reports in other projects, which are sources of ours."""
    stated = "".join(page.read_text() for page in checkout.rglob("*.md"))
    for page in (checkout / "site").rglob("*.html"):
        for link in re.findall(r'(?:src|href)="(https?:[^"]+)"', page.read_text()):
            assert f"]({link})" in stated, f"{link} in {page}"


@pytest.mark.parametrize(("words", "page"), [("operator", "operator"), ("planner", "your-planner"),
                                             ("lifetimes", "plan-by-hand")])  # fmt: skip
def test_a_search_finds_the_how_to_before_the_reference(words: str, page: str, checkout: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto((checkout / "site/tmmu.html").as_uri())
        field = tab.locator(".md-search__input").first
        field.click()
        field.press_sequentially(words, delay=20)
        link = tab.locator(".md-search-result__item a").first.get_attribute("href")
        browser.close()
    assert f"tutorials/{page}.html" in link


def test_a_link_that_leads_nowhere_fails_the_build(checkout: Path) -> None:
    page = checkout / "spec/changes.md"
    text = page.read_text()
    page.write_text(f"{text}\n[a](nothing.md) [b](../nothing.py) [c](tour.md#nothing) [d](../tmmu/tasks/library.py)\n")
    (checkout / "spec/unlisted.md").write_text("# No entry of the navigation\n")
    printed = built(checkout, "https://example.org/blob/main")
    page.write_text(text)
    (checkout / "spec/unlisted.md").unlink()
    for name in ("'nothing.md'", "'../nothing.py'", "'tour.md#nothing'", "unlisted.md"):
        assert name in printed
    assert "library.py" not in printed
    assert "Aborted with 4 warnings" in printed


def test_links_to_sources_lead_to_the_host_that_is_named(checkout: Path) -> None:
    assert built(checkout, "https://example.org/blob/main") == ""
    page = (checkout / "site/guarantees.html").read_text()
    assert 'href="https://example.org/blob/main/proofs/proving/obligations/' in page
    assert 'href="../proofs/' not in page
