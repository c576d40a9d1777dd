"""Other producers' plan files, right ones and wrong ones, as `make/` wrote them: each has the verdict of its folder.

spec: FP1.1 to FP1.6
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proofs.readers.plans import formats
from proofs.verify import entry as verifier
from tmmu.core.flags import PLAN_SUFFIXES

CORPUS = Path(__file__).parent / "foreign"
FILES = [(folder, path) for folder in ("proved", "refuted") for path in sorted((CORPUS / folder).iterdir())]
MOST = 2 << 20
"""The bytes that a stored plan may have."""


def judged(capsys: pytest.CaptureFixture[str], path: Path) -> list[dict[str, Any]]:
    """The verdicts on a file, or on the files of a folder."""
    verifier.run([str(path), "--format", "json"])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["files"]
    return found


@pytest.mark.parametrize(("folder", "path"), FILES, ids=[f"{folder}/{path.name}" for folder, path in FILES])
def test_a_stored_plan_has_the_verdict_of_its_folder(
    folder: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each file of the folder is proved, or one at least is refuted; each states how it was read."""
    found = judged(capsys, path)
    verdicts = [verdict["verdict"] for verdict in found]
    if folder == "proved":
        assert set(verdicts) == {"PROVED"}, [(v["witness"], v["notes"]) for v in found]
    else:
        assert "REFUTED" in verdicts
        assert "UNKNOWN" not in verdicts
    for verdict in found:
        assert path.name.endswith(PLAN_SUFFIXES) or verdict["reading"]["format"]
        assert path.name.endswith(PLAN_SUFFIXES) or verdict["reading"]["extent"]
        if verdict["verdict"] == "PROVED":
            assert verdict["reading"]["outside"].items() <= verdict["not_looked_at"].items()


def test_each_format_has_a_plan_of_either_verdict_and_none_is_large() -> None:
    kinds: dict[str, set[str]] = {}
    for folder, path in FILES:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            assert file.stat().st_size <= MOST
            if file.is_file() and formats.is_plan(str(file)) and not file.name.endswith(PLAN_SUFFIXES):
                form = formats.recognise_format(str(file), file.read_bytes()[: formats.HEAD])
                assert form is not None
                kinds.setdefault(form.kind, set()).add(folder)
    assert kinds == {kind: {"proved", "refuted"} for kind in formats.BY_KIND}
