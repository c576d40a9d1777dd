"""`tmmu survey`: its rows are what the plans say, and it says PROVED only of what is. spec: I2.10, C2.3"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from proofs.verify import judge as verify_plan
from tmmu.cli import survey
from tmmu.cli.entry import run


def test_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["survey", "residual", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["arena"], row["slots"] == row["max_live"], row["verdict"]) for row in rows] == [
        ("parameters", True, "PROVED"), ("activations", True, "PROVED"), ("gradients", True, "PROVED"),
    ]  # fmt: skip
    assert all(row["peak_live_bytes"] <= row["packed_footprint"] <= row["slots_footprint"] for row in rows)


@pytest.mark.parametrize("bad", [0, 1])
def test_what_is_not_proved_is_not_said_to_be(
    bad: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = ["PROVED", "PROVED"]
    verdicts[bad] = "UNKNOWN"
    left = iter(verdicts)
    monkeypatch.setattr(verify_plan, "verify", lambda *_: SimpleNamespace(verdict=next(left)))
    assert run(["survey", "chain"]) == 3
    assert capsys.readouterr().out.splitlines()[1].endswith("UNKNOWN")


def test_every_network_is_an_example() -> None:
    from tmmu import examples

    assert {network.example for network in survey.NETWORKS.values()} <= set(examples.names())
