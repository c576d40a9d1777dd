"""Type the README and the tutorials into a shell: the programs that are installed do what the pages state.

`make wheel-test` runs this on the installed wheel, where the sources are out of reach. The integration tests run the
same pages in their own process, which is faster and leaves out the entry points, the files of the wheel and its kernel.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import tmmu
from tests.support.tutorials import PAGES, ROOT, copy_checkout, objections, typed

README = ROOT / "README.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, where Python finds only what is installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which a tutorial's own pytest does not need
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_the_installed_programs_do_what_a_page_states(page: Path, folder: Path) -> None:
    if page == README:
        (folder / "tests").symlink_to(ROOT / "tests")
    if page.stem == "operator":
        copy_checkout(folder, Path(tmmu.__file__).parents[1])
    assert list(objections(page.read_text("utf-8"), typed)) == []


def test_what_is_typed_is_what_is_installed_beside_this_python(folder: Path) -> None:
    """A program that is missing, one that ends otherwise and a text that is another are noticed."""
    for program in ("tmmu", "verify-plan", "prove-lemmas", "check-models"):
        assert shutil.which(program, path=str(Path(sys.executable).parent)), program
    right = "```sh\ntmmu example mico-mlp -o m.onnx\n```\n```text\nwrote m.onnx\n```\n"
    assert list(objections(right, typed)) == []
    for old, new in (("tmmu example", "tmmu-example"), ("mico-mlp", "mico-pml"), ("wrote", "written")):
        assert list(objections(right.replace(old, new), typed)) != [], new
