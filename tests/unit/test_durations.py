"""Suites choose tests by how long they took: `tests/support/durations.py`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import durations

ROOT = Path(__file__).resolve().parents[2]


def test_every_test_that_is_listed_exists() -> None:
    texts = {name: (ROOT / name).read_text() for name in {each.partition("::")[0] for each in durations.read()}}
    for name in durations.read():
        file, _, test = name.partition("::")
        function = re.split(r"::|\[", test)[0]
        assert re.search(rf"\b{function}\b", texts[file]), f"{name}: pytest --write-durations {file}"


def test_each_test_is_in_one_part(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    items = request.session.items
    names = [item.nodeid for item in items]
    monkeypatch.setattr(durations, "read", lambda: {name: float(number) for number, name in enumerate(names)})
    middle = len(items) // 2
    short, others = durations.divide(items, -1.0, float(middle))
    long, rest = durations.divide(items, float(middle), float("inf"))
    assert short == rest == items[: middle + 1]
    assert long == others == items[middle + 1 :]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_worker_begins_with_its_share_of_the_long_tests(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    items = request.session.items
    long = items[-4:]
    monkeypatch.setattr(durations, "read", lambda: {item.nodeid: 9.0 + n for n, item in enumerate(long)})
    ordered = durations.order(items, workers)
    assert sorted(map(id, ordered)) == sorted(map(id, items))
    assert ordered[0] is long[-1]


def test_tests_that_were_not_measured_keep_their_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "FILE", tmp_path / "durations.json")
    (tmp_path / "durations.json").write_text('{"a.py::old": 3.0, "b.py::kept": 2.0}')
    durations.write({"a.py::new": 1.23, "a.py::short": 0.01})
    assert durations.read() == {"a.py::new": 1.23, "b.py::kept": 2.0}
