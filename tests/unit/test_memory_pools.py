"""The document's pools: members, times, `tensor_to_pool`, and what its scripts print. spec: MC9.1 to MC9.4"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.pools import find_pools, tensor_lifetimes, tensor_to_pool
from tmmu.plans.sections import Plan, amend_plan
from tmmu.tasks import memory_pools as printed

CHAIN = (
    "node layer1 Gemm x -> layer1", "node relu1 Relu layer1 -> relu1", "node layer2 Gemm relu1 -> layer2",
    "node relu2 Relu layer2 -> relu2", "node last Concat relu2 -> y",
)  # fmt: skip


def pooled(*statements: str, layout: str = "pools", sizes: dict[str, int] | None = None, **roles: str) -> Plan:
    return plan_memory(text_model(*statements, sizes=sizes, **roles), options=PlanOptions(layout=layout)).plan


def test_the_lifetimes_of_the_documents_timeline() -> None:
    """004, Tensor Lifetime Analysis. spec: MC9.1"""
    found = tensor_lifetimes(pooled(*CHAIN))
    assert found == {
        "x": (0, 1), "layer1": (1, 2), "relu1": (2, 3), "layer2": (3, 4), "relu2": (4, 5), "y": (5, 5),
    }  # fmt: skip


def test_tensors_that_never_meet_share_a_pool_as_large_as_the_largest() -> None:
    """004, Why offset is always 0: A over times 0 and 1, B over 2 and 3, C over 4 and 5. spec: MC9.1, MC9.2"""
    plan = pooled(
        "node n1 Op A -> m1", "node n2 Op m1 -> B", "node n3 Op B -> m2", "node n4 Op m2 -> C", "node n5 Op C -> y",
        inputs="A", sizes={"A": 512, "B": 1024, "C": 256},
    )  # fmt: skip
    pools = find_pools(plan)
    shared = next(pool for pool in pools if pool.members[0].name == "A")
    assert (shared.bytes, shared.offset) == (1024, 0)
    assert [(m.name, m.bytes, m.lifetime) for m in shared.members] == [
        ("A", 512, (0, 1)), ("B", 1024, (2, 3)), ("C", 256, (4, 5)),
    ]  # fmt: skip
    found = tensor_to_pool(pools)
    assert {found[name] for name in "ABC"} == {(0, 0)}
    assert {found[name] for name in ("m1", "m2", "y")} == {(1, 0)}


def test_a_member_lives_as_long_as_what_shows_it() -> None:
    """spec: MC9.1"""
    plan = pooled("node flat Flatten x -> v", "node gemm Gemm v -> y", "tensor v u8 64 view x 0")
    assert tensor_lifetimes(plan)["x"] == (0, 1)
    (x,) = (m for pool in find_pools(plan) for m in pool.members if m.name == "x")
    assert x.lifetime == (0, 2)
    assert "v" not in tensor_to_pool(find_pools(plan))


def test_parameters_are_in_no_pool() -> None:
    plan = pooled("node gemm Gemm x w -> y", parameters="w")
    assert set(tensor_to_pool(find_pools(plan))) == {"x", "y"} == set(tensor_lifetimes(plan))


def test_a_plan_of_another_layout_has_no_memory_pools() -> None:
    """spec: MC9.3"""
    plan = pooled(*CHAIN, layout="packed")
    with pytest.raises(TmmuError, match="--layout pools"):
        find_pools(plan)
    assert list(printed.remarks(plan)) == list(printed.remarks(replace(plan, provenance=None))) == []


def test_members_that_live_at_once_are_named() -> None:
    """What `test_memory_optimization.py` looks for. spec: MC9.3"""
    right = pooled(*CHAIN)
    storages = right.allocation.storages
    wrong = amend_plan(
        right, allocation=replace(right.allocation, storages=replace(storages, offset=storages.offset * 0))
    )
    assert list(printed.MemoryStatistics.of(right).overlaps()) == []
    clashes = list(printed.MemoryStatistics.of(wrong).overlaps())
    assert (0, "x", "layer1") in clashes
    assert (0, "x", "relu1") not in clashes
    assert any("WARNING" in line for line in printed.format_statistics(printed.MemoryStatistics.of(wrong)))


def test_what_is_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = pooled(*CHAIN)
    monkeypatch.setattr(printed, "SHOWN", 2)
    lines = list(printed.remarks(plan))
    assert [line.strip() for line in lines if "more" in line] == [
        "and 1 more; --format json has all", "and 1 more; --format json has all",
        "tensor_to_pool: x (0, 0), relu1 (0, 0) and 4 more",
    ]  # fmt: skip
    assert list(printed.document(find_pools(plan))["tensor_to_pool"]) == [
        "x", "relu1", "relu2", "layer1", "layer2", "y",
    ]  # fmt: skip


def test_nothing_takes_nothing() -> None:
    plan = pooled(inputs="", outputs="")
    assert find_pools(plan) == []
    found = printed.MemoryStatistics.of(plan)
    assert (found.before, found.after, found.share) == (0, 0, 0.0)
