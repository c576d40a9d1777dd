"""Golden traces: ten seeds, every legal pair, on the golden graphs (001 VII.C, VIII.C); two planners leave them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.support import effort, golden, second_planner, second_trace
from tests.support.second_planner import SecondPlan
from tmmu.core.vocabulary import PRESETS, Lifetime, Model
from tmmu.planner import DEFAULT, plan_memory
from tmmu.planner.modes import prepare_graph
from tmmu.runtime.records.compare import first_difference

SMALL = [name for name in golden.NAMES if name not in golden.LARGE]
RESIDUAL = "residual/backward/train_full"


def second(model: Model, mode: str, seeds: range) -> Iterator[list[dict[str, Any]]]:
    """The traces of the second planner's plan under each seed."""
    plan = SecondPlan(model, mode, DEFAULT)
    return (second_trace.trace(plan, second_trace.replay_token(seed)) for seed in seeds)


@pytest.mark.parametrize("name", golden.NAMES)
def test_two_planners_leave_every_record_of_the_golden_trace(name: str) -> None:
    """Each graph under ten seeds, the large ones under one but for the profile `full`. spec: R8.2, D1.1, A4.3"""
    seeds = range(1) if name in golden.LARGE and effort.share(10) < 10 else golden.SEEDS
    record, keys = golden.on_record(name), set()
    for key, mode, model, budget in golden.planned(name):
        entry = record[f"{key}/slots"]
        keys.add(f"{key}/slots")
        assert entry.get("budget") == budget
        for seed, theirs in zip(seeds, second(model, mode, seeds), strict=True):
            expected, ours = golden.unpacked(entry, seed), golden.first_trace(model, mode, seed)
            assert first_difference(expected, ours) is None, "our planner leaves the golden trace"
            assert first_difference(expected, theirs) is None, "the second planner leaves the golden trace"
    assert keys == set(record), "run `python -m tests.support.golden --write` to add what is new"


def test_every_digest_of_the_other_layouts_is_the_recorded_one() -> None:
    """spec: R8.2, D1.1"""
    record = {key: found for key, found in golden.recorded()["traces"].items() if not key.endswith("/slots")}
    made = {
        f"{key}/{layout}": golden.digests(model, mode, layout)
        for name in SMALL
        for key, mode, model, _ in golden.planned(name)
        for layout in golden.LAYOUTS
    }
    assert golden.differences(made, record) == []
    assert sorted(made) == sorted(record), "run `python -m tests.support.golden --write` to add what is new"


def test_the_record_holds_ten_seeds_of_every_legal_pair_and_layout_of_every_graph() -> None:
    """spec: R8.2, M1.5"""
    record = golden.recorded()["traces"]
    pairs = {(mode, preset) for preset, modes in PRESETS.items() for mode in modes}
    assert len(pairs) == 4
    assert {"gpt2", "llama-8b"} <= set(golden.NAMES)
    for name in golden.NAMES:
        legal = {pair for pair in pairs if name not in golden.FORWARD_ALONE or pair[0] == "inference"}
        layouts = ("slots",) if name in golden.LARGE else ("slots", "packed", "hashed")
        expected = {"/".join((name, *pair, layout)) for pair in legal for layout in layouts}
        assert {key for key in record if key.split("/")[0] == name} == expected
    for key, trace in record.items():
        if key.endswith("/slots"):
            assert [len(set(column)) for column in zip(*trace["seeds"], strict=True)] == [10] * 4, key
            continue
        assert len(set(trace["plan_hash"])) == 10, f"{key}: each token has a plan hash of its own"
        assert len(trace["layout_digest"]) == (10 if key.endswith("/hashed") else 1)


def test_recomputation_in_the_golden_traces_recomputes() -> None:
    """spec: M1.8"""
    budget = golden.on_record("residual")["residual/backward/remat_enabled/slots"]["budget"]
    fitted = prepare_graph(golden.residual(), "backward", DEFAULT, budget)
    assert any(".recompute" in node.name for node in fitted.nodes)


def test_the_planners_share_the_ir_and_nothing_else() -> None:
    """What the second one imports of the project is core and IR. spec: R8.2"""
    for module in (second_planner, second_trace):
        found = ast.walk(ast.parse(inspect.getsource(module)))
        imported = {node.module or "" for node in found if isinstance(node, ast.ImportFrom)}
        ours = {name for name in imported if name.split(".")[0] in ("tmmu", "proofs", "tests")}
        assert ours
        assert all(name.startswith(("tmmu.core", "tmmu.ir", "tests.support.second_planner")) for name in ours), ours


def fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of each number, text and truth value of an entry, however deep it stands."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path
        return
    for key, item in items:
        yield from fields(item, (*path, key))


def test_a_change_in_any_field_of_a_golden_file_is_another_trace() -> None:
    """spec: R8.2"""
    entry = golden.on_record("residual")["residual/inference/inference/slots"]
    traces = [golden.unpacked(entry, seed) for seed in golden.SEEDS]
    places = list(fields(entry))
    assert {place[0] for place in places} == {"header", "seeds", "tensors", "summary"}
    for *path, last in places:
        changed = deepcopy(entry)
        inner = changed
        for key in path:
            inner = inner[key]
        value = inner[last]
        inner[last] = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else f"{value}00"
        assert [golden.unpacked(changed, seed) for seed in golden.SEEDS] != traces, (*path, last)


def test_a_trace_that_a_golden_file_would_not_hold_whole_is_refused() -> None:
    """spec: R8.2"""
    one, other = (golden.first_trace(golden.residual(), "inference", seed) for seed in (0, 1))
    assert golden.unpacked(golden.packed([one, other]), 1) == other
    for number, record in enumerate(other):
        for key in {*record} - {*golden.VARYING, "trace_final_hash"}:
            changed = [*other[:number], record | {key: "changed"}, *other[number + 1 :]]
            with pytest.raises((ValueError, TypeError)):
                golden.packed([one, changed])


def born_one_step_late(plan: Any, mode: str) -> list[Lifetime]:
    return [Lifetime(min(birth + 1, death), death) for birth, death in second_planner_lifetimes(plan, mode)]


def dead_one_step_early(plan: Any, mode: str) -> list[Lifetime]:
    return [Lifetime(birth, max(birth, death - 1)) for birth, death in second_planner_lifetimes(plan, mode)]


second_planner_lifetimes = second_planner.lifetimes

FAULTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "births are one step late": (second_planner, "lifetimes", born_one_step_late),
    "deaths are one step early": (second_planner, "lifetimes", dead_one_step_early),
    "nothing is saved": (second_planner, "lifetimes", lambda plan, _: second_planner_lifetimes(plan, "inference")),
    "no result is in place": (SecondPlan, "_may_take", lambda *_: False),
    "outputs are taken in place": (SecondPlan, "_is_kept", lambda *_: False),
    "smaller storages come first": (SecondPlan, "_order", lambda plan, x: (x.birth, x.bytes, x.members[0])),
    "equal storages come by row": (SecondPlan, "_order", lambda plan, x: (x.birth, -x.bytes, x.members[0])),
    "a slot is free at its last step": (SecondPlan, "_is_free", lambda plan, row, x: row[-1].death <= x.birth),
    "no slot is used again": (SecondPlan, "_is_free", lambda *_: False),
    "offsets are not aligned": (second_planner, "align_up", lambda end, _: end),
    "slots have room between them": (second_planner, "align_up", lambda end, by: (end // by + 1) * by),
    "the token is that of another seed": (
        second_trace, "plan_hash", lambda plan, token, whole=second_trace.plan_hash: whole(plan, token[::-1])
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_second_planner_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: R8.2"""
    where, what, wrong = FAULTS[fault]
    monkeypatch.setattr(where, what, wrong)
    noticed = 0
    for name in ("residual", "chain", "mico-mlp"):
        record = golden.on_record(name)
        for key, mode, model, _ in golden.planned(name):
            expected = golden.unpacked(record[f"{key}/slots"], 0)
            noticed += expected != next(second(model, mode, range(1)))
    assert noticed


def test_a_changed_slot_address_or_lifetime_changes_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: R8.2"""
    graph = golden.residual()
    before = golden.digests(graph, "inference", "packed"), golden.first_trace(graph, "inference", 0)
    original = plan_memory

    def other_arenas(*arguments: Any, **options: Any) -> Any:
        return original(arguments[0], tuple(replace(a, alignment=256) for a in DEFAULT), **options)

    monkeypatch.setattr(golden, "plan_memory", other_arenas)
    after = golden.digests(graph, "inference", "packed"), golden.first_trace(graph, "inference", 0)
    assert golden.differences({"k": before[0]}, {"k": after[0]}) == ["k: layout_digest[0]"]
    assert first_difference(before[1], after[1]) is not None


def test_a_trace_on_record_changes_only_with_a_new_major_version() -> None:
    """spec: R8.2"""
    record = golden.recorded()
    for key, field, place in (
        ("chain/inference/inference/hashed", "plan_hash", 3),
        ("chain/inference/inference/slots", "tensors", 2),
        ("gpt2/backward/train_full/slots", "seeds", 9),
    ):
        changed = record["traces"] | {key: deepcopy(record["traces"][key])}
        changed[key][field][place] = "0" * 16
        with pytest.raises(ValueError, match=rf"{key}: {field}\[{place}\]"):
            golden.updated(record, changed, record["spec_version"])
        with pytest.raises(ValueError, match="no longer made"):
            golden.updated(record, {k: v for k, v in changed.items() if k != key}, record["spec_version"])
        added = record["traces"] | {"another/inference/inference/slots": record["traces"][key]}
        assert golden.updated(record, added, record["spec_version"])["traces"] == added
        major = str(int(record["spec_version"].split(".")[0]) + 1)
        assert golden.updated(record, changed, f"{major}.0")["traces"][key][field][place] == "0" * 16
