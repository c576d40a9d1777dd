"""How many tokens a session may have, and bytes that several share. spec: FD3.1 to FD3.8"""

from __future__ import annotations

import logging

import pytest

from tmmu.foundry.context import MIB, Clamp, ContextConfig, KvBudget, KvShape, round_down, round_up
from tmmu.foundry.environment import Settings
from tmmu.foundry.failures import InvalidSetting, OutOfMemory

LLAMA_7B = KvShape(32, 32, 32, 128, "expanded")
SHAPES = {  # layers, heads, heads of keys, head_dim: bytes a token expanded and compact
    (4, 8, 2, 64): (8192, 2048),
    (28, 24, 8, 128): (344064, 114688),  # Llama-3.2-3B
    (24, 14, 2, 64): (86016, 12288),  # Qwen2.5-0.5B
    (32, 32, 32, 128): (524288, 524288),  # LLaMA-2-7B
}


@pytest.mark.parametrize("sizes", SHAPES)
def test_bytes_of_a_token(sizes):
    """spec: FD3.3"""
    assert (KvShape(*sizes, "expanded").bytes_per_token, KvShape(*sizes).bytes_per_token) == SHAPES[sizes]


def test_bytes_of_caches_and_tables():
    shape = KvShape(4, 8, 2, 64)
    assert 2048 * shape.bytes_per_token == 4_194_304
    assert 2048 * KvShape(4, 8, 2, 64, "expanded").bytes_per_token == 16_777_216
    assert shape.rope_bytes(2048) == 131_072


@pytest.mark.parametrize(
    "sizes", [(0, 8, 2, 64), (4, 8, 0, 64), (4, 8, 3, 64), (4, 8, 2, 63), (4, 8, 2, 0), (4, 8, 2, 64, "tight")]
)
def test_shapes_that_do_not_fit_are_refused(sizes):
    with pytest.raises(ValueError, match="KvShape"):
        KvShape(*sizes)


def test_rounding():
    assert [round_up(n) for n in (0, 1, 100, 127, 128, 129, 200, 3000)] == [128] * 5 + [256, 256, 3072]
    assert [round_down(n) for n in (0, 127, 128, 200, 4681)] == [0, 0, 128, 128, 4608]


def of(bytes_per_token: int = 2, working_set: int = 10**9, **given) -> ContextConfig:
    return ContextConfig.of(bytes_per_token, working_set, **given)


@pytest.mark.parametrize(
    ("given", "usable", "limit", "allocated"),
    [
        ({}, 2048, 2048, 2048),
        ({"requested": 100}, 100, 128, 128),
        ({"requested": 129}, 129, 256, 256),
        ({"requested": 3000}, 3000, 3072, 2048),
        ({"model_maximum": 5000}, 5000, 5120, 2048),
        ({"model_maximum": 5000, "settings": Settings(max_context=4000)}, 4000, 4096, 2048),
        ({"model_maximum": 5000, "settings": Settings(max_context=9000)}, 5000, 5120, 2048),
        ({"settings": Settings(max_context=9000)}, 9000, 9088, 2048),
        ({"model_maximum": 5000, "requested": 300, "settings": Settings(max_context=4000)}, 300, 384, 384),
        ({"model_maximum": 5000, "initial": 130}, 5000, 5120, 256),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_rounded_up(given, usable, limit, allocated, caplog):
    """spec: FD3.4, FD3.5"""
    config = of(**given)
    assert (config.usable, config.limit, config.allocated, config.clamps) == (usable, limit, allocated, ())
    assert caplog.records == []


@pytest.mark.parametrize(
    ("shape", "mib", "model", "tokens", "usable"),
    [
        (LLAMA_7B, 100, 4096, 200, 128),
        (LLAMA_7B, 1024, 4096, 2048, 2048),
        (KvShape(28, 24, 8, 128), 512, 131072, 4681, 4608),
    ],
)
def test_a_budget_is_rounded_down(shape, mib, model, tokens, usable, caplog):
    """spec: FD3.5, FD3.6"""
    for given in ({"budget": mib * MIB}, {"settings": Settings(kv_budget_mib=mib)}):
        caplog.clear()
        config = of(shape.bytes_per_token, 0, model_maximum=model, **given)
        assert (config.budget_tokens, config.usable, config.limit) == (tokens, usable, usable)
        assert config.limit * shape.bytes_per_token <= mib * MIB
        (clamp,) = config.clamps
        assert (clamp.asked, clamp.given) == (model, usable)
        (record,) = caplog.records
        assert (record.name, record.levelno) == ("tmmu.foundry", logging.WARNING)
        for number in (model, usable, mib * MIB, tokens, shape.bytes_per_token):
            assert str(number) in record.getMessage()


def test_auto_is_half_of_the_working_set_in_integers():
    """spec: FD3.2"""
    config = of(1, 1001, model_maximum=400)
    assert (config.budget, config.usable) == (500, 384)
    assert config.source.startswith("Auto")
    assert of(1, 0, settings=Settings(kv_budget_mib=1)).budget == MIB


def test_the_option_counts_in_place_of_the_variable():
    assert of(1, 0, budget=700, settings=Settings(kv_budget_mib=1)).budget == 700


def test_a_request_beyond_model_or_cap_is_clamped_with_a_warning(caplog):
    config = of(model_maximum=4096, requested=8000, settings=Settings(max_context=6000))
    assert config.usable == 4096
    assert config.clamps == (Clamp(8000, 4096, "the model's maximum is 4096"),)
    config = of(model_maximum=4096, requested=8000, settings=Settings(max_context=600))
    assert config.clamps == (Clamp(8000, 600, "METALLIC_MAX_CONTEXT_LEN is 600"),)
    assert [record.args[:2] for record in caplog.records] == [(8000, 4096), (8000, 600)]


def test_a_clamp_to_the_maximum_itself_is_none():
    assert of(1, 0, requested=384, budget=384).clamps == ()
    assert of(1, 0, requested=385, budget=511).clamps[0][:2] == (385, 384)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"budget": 255}, "--budget"),
        ({"budget": 0}, "--budget"),
        ({"settings": Settings(kv_budget_mib=1), "bytes_per_token": MIB}, "METALLIC_KV_MEMORY_BUDGET_MB"),
        ({"working_set": 510}, "Auto (half of the recommended working set)"),
        ({"requested": 0}, "--context"),
        ({"initial": 0}, "the initial capacity"),
    ],
)
def test_less_than_a_block_is_refused(given, place):
    """spec: FD3.7"""
    with pytest.raises(InvalidSetting) as refused:
        of(**given)
    assert refused.value.place == place


def test_a_block_is_enough():
    assert of(2, 0, budget=256).usable == 128


@pytest.mark.parametrize(
    ("tokens", "given", "limit", "clamped"),
    [
        (4608, {"requested": 8000}, 2304, [(8000, 4608), (4608, 2304)]),
        (4608, {"requested": 2300}, 2304, []),
        (4608, {"requested": 2305}, 2304, [(2305, 2304)]),
        (3000, {"requested": 8000}, 2048, [(8000, 2944), (2944, 2048)]),  # what it begins with is had at once
        (3000, {"requested": 8000, "initial": 128}, 1536, [(8000, 2944), (2944, 1536)]),
        (384, {"requested": 8000, "initial": 1}, 256, [(8000, 384), (384, 256)]),
    ],
)
def test_strict_leaves_what_every_growth_can_reach(tokens, given, limit, clamped):
    """spec: FD3.8"""
    config = of(1, 0, budget=tokens, strict=True, **given)
    assert config.limit == limit
    assert [clamp[:2] for clamp in config.clamps] == clamped


def test_a_budget_counts_what_stands_and_what_is_kept():
    """spec: FD4.9"""
    budget = KvBudget(1000)
    assert budget.reserve(0, 100, 300, 100, "a") == 300
    assert budget.reserve(0, 100, 300, 100, "b") == 300
    assert budget.reserve(300, 400, 800, 100, "a") == 700
    assert (budget.reserved, budget.transient, budget.held, budget.peak) == (1000, 300, 1300, 1300)
    with pytest.raises(OutOfMemory) as refused:
        budget.reserve(300, 400, 800, 100, "b")
    assert (refused.value.place, refused.value.diagnostics["requested"]) == ("b", 400)
    assert (budget.reserved, budget.transient, budget.peak) == (1000, 300, 1300)
    budget.settle(300)
    assert (budget.reserved, budget.transient, budget.peak) == (1000, 0, 1300)
    budget.free(700)
    assert budget.reserve(300, 400, 600, 100, "b") == 600
    budget.cancel(300, 600)
    assert (budget.reserved, budget.transient) == (300, 0)


def test_a_strict_budget_counts_old_and_new():
    """spec: FD4.9"""
    budget = KvBudget(1050, strict=True)
    assert budget.reserve(0, 100, 300, 100, "a") == 300
    assert budget.reserve(300, 400, 900, 100, "a") == 700
    assert (budget.held, budget.peak) == (1000, 1000)
    with pytest.raises(OutOfMemory):
        budget.reserve(0, 100, 100, 100, "b")
    budget.settle(300)
    assert budget.reserve(0, 100, 900, 100, "b") == 300
    assert budget.held <= budget.total
