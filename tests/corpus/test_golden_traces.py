"""Golden traces: ten seeds, every legal pair, three layouts, on the golden graphs (001 VII.C, VIII.C)."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.support import golden
from tmmu.core.vocabulary import PRESETS
from tmmu.planner import DEFAULT, plan_memory
from tmmu.planner.modes import prepare


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return {key: found for name, model in golden.graphs().items() for key, found in golden.traces(name, model)}


def test_every_golden_trace_is_the_recorded_one(made: dict[str, Any]) -> None:
    """spec: R8.2, D1.1"""
    record = golden.recorded()["traces"]
    assert golden.differences(record, made) == []
    assert sorted(made) == sorted(record), "run `python -m tests.support.golden --write` to add what is new"


def test_the_record_holds_ten_seeds_of_every_legal_pair_and_layout_of_every_graph() -> None:
    """spec: R8.2, M1.5"""
    record = golden.recorded()["traces"]
    pairs = {(mode, preset) for preset, modes in PRESETS.items() for mode in modes}
    assert len(pairs) == 4
    for name in ("residual", *golden.EXAMPLES):
        legal = {pair for pair in pairs if name not in golden.FORWARD_ALONE or pair[0] == "inference"}
        expected = {"/".join((name, *pair, layout)) for pair in legal for layout in ("slots", "packed", "hashed")}
        assert {key for key in record if key.split("/")[0] == name} == expected
    for key, trace in record.items():
        assert len(set(trace["plan_hash"])) == 10, f"{key}: each token has a plan hash of its own"
        assert len(trace["layout_digest"]) == (10 if key.endswith("/hashed") else 1)


def test_recomputation_in_the_golden_traces_recomputes() -> None:
    """spec: M1.8"""
    budget = golden.recorded()["traces"]["residual/backward/remat_enabled/slots"]["budget"]
    fitted = prepare(golden.residual(), "backward", DEFAULT, budget)
    assert any(".recompute" in node.name for node in fitted.nodes)


def test_a_changed_slot_address_or_lifetime_changes_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: R8.2"""
    graph = golden.residual()
    before = golden.trace(graph, "inference", "slots")
    original = plan_memory

    def other_arenas(*arguments: Any, **options: Any) -> Any:
        return original(arguments[0], tuple(replace(a, alignment=256) for a in DEFAULT), **options)

    monkeypatch.setattr(golden, "plan_memory", other_arenas)
    after = golden.trace(graph, "inference", "slots")
    assert golden.differences({"k": before}, {"k": after}) == ["k: layout_digest under seed 0"]


def test_a_trace_on_record_changes_only_with_a_new_major_version() -> None:
    """spec: R8.2"""
    record = golden.recorded()
    key = next(iter(record["traces"]))
    changed = deepcopy(record["traces"])
    changed[key]["plan_hash"][3] = "0" * 16
    with pytest.raises(ValueError, match=f"{key}: plan_hash under seed 3"):
        golden.updated(record, changed, record["spec_version"])
    with pytest.raises(ValueError, match="no longer made"):
        golden.updated(record, {k: v for k, v in changed.items() if k != key}, record["spec_version"])
    added = record["traces"] | {"another/inference/inference/slots": record["traces"][key]}
    assert golden.updated(record, added, record["spec_version"])["traces"] == added
    major = str(int(record["spec_version"].split(".")[0]) + 1)
    assert golden.updated(record, changed, f"{major}.0")["traces"][key]["plan_hash"][3] == "0" * 16
