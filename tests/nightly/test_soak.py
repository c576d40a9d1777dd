"""The soak sees something, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nightly.soak import simulator as soak


def test_the_soak_looks_at_right_wrong_and_real_models(tmp_path: Path) -> None:
    found = soak.Soak()
    for number in range(12):
        found.right(number)
        found.wrong(number)
    found.real(3, tmp_path)
    assert (found.counts["right plans"], found.counts["models of real operators"]) == (12, 1)
    assert found.counts["changed plans, refuted and corrupted"] > 0
    assert found.counts["disagreements"] == 0


def test_a_verifier_that_objects_to_nothing_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(soak, "objections", lambda *_: iter(()))
    found = soak.Soak()
    for number in range(12):
        found.wrong(number)
    assert found.counts["disagreements"] > 0
    assert capsys.readouterr().out.startswith("DISAGREEMENT changed plan of model ")


def test_a_planner_that_puts_everything_at_byte_0_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(soak.Soak, "runs", lambda *_: "corrupted")
    found = soak.Soak()
    found.right(1)
    assert found.counts["disagreements"] == 1
    assert capsys.readouterr().out.startswith("DISAGREEMENT right plan of model 1")


def test_a_simulator_that_sees_nothing_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: SIM7.2"""
    monkeypatch.setattr(soak.Soak, "runs", lambda *_: "identical")
    found = soak.Soak()
    for number in range(12):
        found.wrong(number)
    assert found.counts["disagreements"] == found.counts["changed plans that the executor calls corrupt"] > 0
    assert "that the executor calls corrupt" in capsys.readouterr().out
