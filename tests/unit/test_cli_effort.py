"""Efforts on the command line: looks, or seconds that are converted to looks once. spec: A8.12"""

from __future__ import annotations

import click
import pytest

from tmmu.cli.effort import LookCount
from tmmu.core.vocabulary import EFFORT_END
from tmmu.planner.layouts.compiled import compile_loop
from tmmu.tasks import calibration


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("0", 0), ("3000000", 3_000_000), ("1e9", 10**9), ("2.5e9", 2_500_000_000),
        (str(EFFORT_END - 1), EFFORT_END - 1),
        (7, 7), ("10s", 1230), ("0.5s", 61), ("1e1s", 1230), ("0s", 0),
    ],
)  # fmt: skip
def test_an_effort_is_looks_or_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, looks: int
) -> None:
    monkeypatch.setattr(calibration, "measure_rate", lambda: 123)
    assert LookCount().convert(text, None, None) == looks
    shown = f"--effort {text}: on this machine as many seconds are --effort {looks}\n"
    assert capsys.readouterr() == ("", shown if str(text).endswith("s") else "")


@pytest.mark.parametrize(
    "text", ["", "-1", "1.5", "1e", "s", "1e-3", "1 s", "1_000", "ten", str(EFFORT_END), "1e99", "1e99s"]
)
def test_anything_else_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(calibration, "measure_rate", lambda: 123)
    with pytest.raises(click.BadParameter, match="expected looks such as 1e9"):
        LookCount().convert(text, None, None)


def test_the_rate_is_measured_without_and_with_the_compiled_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two digits of it, so that the number that is printed is easy to type."""
    monkeypatch.setattr(calibration, "MEASURED_UNCOMPILED", 1 << 15)
    slow, fast = calibration.measure_rate(lambda _loop: None), calibration.measure_rate()
    assert 0 < slow < fast
    assert calibration._search(1 << 23, compile_loop) >= 1 << 23, "the search has not ended"
    assert all(len(str(rate).rstrip("0")) <= 2 for rate in (slow, fast))
