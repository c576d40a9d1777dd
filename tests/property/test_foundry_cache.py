"""Context, budget and cache of a session against plain models. spec: FD3.4 to FD3.8, FD4.2 to FD4.10"""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.failing_device import PLACES, FailingDevice, Injected, check, context_of, write
from tmmu.foundry.context import ContextConfig, KvBudget, KvShape
from tmmu.foundry.environment import Settings
from tmmu.foundry.failures import InvalidSetting, OutOfMemory
from tmmu.foundry.kv_cache import KvCache
from tmmu.runtime.events import EventLog

TOKENS = st.integers(1, 1500)


@given(
    token=st.integers(1, 9), budget=st.integers(1, 12000), model=st.one_of(st.just(0), TOKENS),
    requested=st.none() | TOKENS, cap=st.none() | TOKENS, initial=st.integers(1, 700), strict=st.booleans(),
)  # fmt: skip
def test_a_context_is_the_longest_that_all_allow(token, budget, model, requested, cap, initial, strict):
    """Against a search over all capacities: multiples of 128 that the budget holds, and every way of growing."""
    stated = [n for n in (model, requested, cap) if n]
    maximum = min(stated, default=2048)
    capacities = [n for n in range(128, 128 * 100, 128) if n * token <= budget]

    def make():
        return ContextConfig.of(
            token, 0, model_maximum=model, requested=requested, budget=budget, initial=initial, strict=strict,
            settings=Settings(max_context=cap),
        )  # fmt: skip

    if not capacities:
        with pytest.raises(InvalidSetting):
            make()
        return
    config = make()
    assert config.maximum == maximum
    enough = [n for n in capacities if n >= min(initial, maximum)]
    assert config.allocated == (enough[0] if enough else capacities[-1])
    if not strict:
        enough = [n for n in capacities if n >= maximum]
        assert config.limit == (enough[0] if enough else capacities[-1])
    else:
        # from any capacity on the way there is a growth that reaches the limit, old and new within the budget
        for between in (n for n in capacities if config.allocated <= n < config.limit):
            assert (between + config.limit) * token <= budget
        larger = config.limit + 128
        stuck = (config.allocated + 128 * k for k in range(100))
        assert larger >= maximum + 128 or any(
            n * token <= budget and n < larger and (n + larger) * token > budget for n in stuck
        )
    assert config.usable == min(maximum, config.limit)
    assert bool(config.clamps) == (config.usable < (maximum if requested is None else requested))


@settings(max_examples=60)
@given(
    longest=st.integers(1, 4096), initial=st.integers(1, 4096), held=st.integers(128, 9000), strict=st.booleans(),
    steps=st.lists(st.integers(1, 4096), max_size=6),
)  # fmt: skip
def test_what_a_cache_asks_for_is_what_the_model_allows(longest, initial, held, strict, steps):
    """Every line of a session's log is `Ask`, `Grow` or `Refuse` of CacheGrowth, whatever the context. spec: RE3.9"""
    shape, log, device = KvShape(1, 1, 1, 2), EventLog(), FailingDevice()
    token = shape.bytes_per_token
    context = context_of(shape, longest, initial, held * token, strict=strict)
    with suppress(OutOfMemory):
        cache = KvCache(device, shape, context, KvBudget(held * token, strict), events=log)
        for step in steps:
            with suppress(OutOfMemory):
                cache.ensure(min(cache.written + step, longest))
                cache.count_written(min(step, cache.maximum - cache.written))
        cache.close()
    device.close()
    capacity = length = asked = 0
    maximum = context.usable
    for event in map(json.loads, log.lines):
        kind = event["event"]
        room = (held - (capacity if strict else 0)) // 128 * 128
        up = -(-asked // 128) * 128
        wanted = min(max(2 * capacity, up), -(-maximum // 128) * 128, room)
        if kind == "cache ask":
            asked = event["required"]
            assert capacity < asked <= min(length + maximum, maximum), event
        elif kind == "cache grow":
            assert asked > 0
            assert up <= wanted
            assert wanted == event["capacity"], event
        elif kind == "cache refuse":
            assert asked > 0
            assert up > wanted, event
        elif kind == "cache switch":
            capacity = event["capacity"]
        elif kind == "cache pass":
            assert length + event["count"] <= min(capacity, maximum), event
            length += event["count"]


class Budgets(RuleBasedStateMachine):
    """A budget of 40 against lists of what caches have and of what is kept beside it."""

    @initialize(strict=st.booleans())
    def begin(self, strict):
        self.budget = KvBudget(40, strict)
        self.caches: dict[int, list[int]] = {n: [] for n in range(3)}  # [] none, [has], [old, new]
        self.peak = 0

    def steady(self):
        return sum(sizes[-1] for sizes in self.caches.values() if sizes)

    def held(self):
        return sum(map(sum, self.caches.values()))

    @rule(n=st.integers(0, 2), least=st.integers(1, 8), more=st.integers(0, 8))
    def reserve(self, n, least, more):
        sizes = self.caches[n]
        if len(sizes) == 2:
            return
        old = sizes[-1] if sizes else 0
        least, most = old + 4 * least, old + 4 * (least + more)
        fit = [new for new in range(least, most + 1, 4)
               if (self.held() + new if self.budget.strict else self.steady() - old + new) <= 40]  # fmt: skip
        if fit:
            assert self.budget.reserve(old, least, most, 4, "") == fit[-1]
            sizes.append(fit[-1])
        else:
            with pytest.raises(OutOfMemory):
                self.budget.reserve(old, least, most, 4, "")
        if len(sizes) == 1 and not old:
            self.budget.settle(0)
        self.peak = max(self.peak, self.held())

    @rule(n=st.integers(0, 2), succeeds=st.booleans())
    def end(self, n, succeeds):
        sizes = self.caches[n]
        if len(sizes) == 2:
            if succeeds:
                self.budget.settle(sizes.pop(0))
            else:
                self.budget.cancel(sizes[0], sizes.pop())

    @rule(n=st.integers(0, 2))
    def free(self, n):
        if len(self.caches[n]) == 1:
            self.budget.free(self.caches[n].pop())

    @invariant()
    def the_sums_are_those_of_the_caches(self):
        assert (self.budget.reserved, self.budget.held, self.budget.peak) == (self.steady(), self.held(), self.peak)
        assert self.budget.reserved <= 40
        assert self.budget.held <= (40 if self.budget.strict else 80)


class Caches(RuleBasedStateMachine):
    """Two sessions of other layouts on one budget, against a list of versions: which write each position has."""

    SHAPES = (KvShape(1, 2, 1, 4), KvShape(2, 4, 2, 2, "expanded"))

    def __init__(self):
        super().__init__()
        self.device = FailingDevice()
        self.version = 0

    @initialize(strict=st.booleans(), tokens=st.integers(600, 2500))
    def begin(self, strict, tokens):
        self.budget = KvBudget(tokens * self.SHAPES[1].bytes_per_token, strict)
        self.caches: list[KvCache | None] = [None, None]
        self.written: list[list[int]] = [[], []]

    def teardown(self):
        for cache in getattr(self, "caches", ()):
            if cache is not None:
                cache.close()
        assert self.device.live_bytes == 0
        self.device.close()

    @rule(n=st.integers(0, 1), maximum=st.integers(1, 1400), initial=st.integers(1, 300))
    def open_or_close(self, n, maximum, initial):
        cache = self.caches[n]
        if cache is not None:
            cache.close()
            self.caches[n], self.written[n] = None, []
            return
        shape = self.SHAPES[n]
        context = context_of(shape, maximum, initial)
        room = self.budget.total - self.budget.reserved
        fits = context.allocated * shape.bytes_per_token <= room
        try:
            self.caches[n] = KvCache(self.device, shape, context, self.budget, session=n)
        except OutOfMemory:
            assert not fits
        else:
            assert fits

    @rule(n=st.integers(0, 1), required=st.integers(0, 1500), place=st.sampled_from(PLACES), at=st.integers(0, 12))
    def ensure(self, n, required, place, at):
        cache = self.caches[n]
        if cache is None:
            return
        before = cache.capacity, cache.epoch
        token, others = cache.shape.bytes_per_token, self.budget.reserved - cache.size
        self.device.arm(place, at)
        try:
            cache.ensure(required)
        except (OutOfMemory, Injected):
            assert (cache.capacity, cache.epoch) == before
            kept = cache.size if self.budget.strict else 0
            least = -(-required // 128) * 128
            assert required > cache.maximum or at or others + kept + least * token > self.budget.total
        else:
            assert required <= cache.maximum
            assert cache.capacity >= required
            assert cache.epoch == before[1] + (cache.capacity > before[0])
            doubled = cache.capacity >= 2 * before[0] or cache.capacity >= cache.maximum
            kept = before[0] * token if self.budget.strict else 0
            full = others + kept + (cache.capacity + 128) * token > self.budget.total
            assert cache.capacity == before[0] or doubled or full
        finally:
            self.device.arm(place, 0)

    @rule(n=st.integers(0, 1), count=st.integers(0, 300))
    def write(self, n, count):
        cache = self.caches[n]
        if cache is not None:
            self.version += 1
            count = min(count, min(cache.capacity, cache.maximum) - cache.written)
            write(cache, count, self.version)
            self.written[n] += [self.version] * count

    @rule(n=st.integers(0, 1), part=st.floats(0, 1))
    def truncate(self, n, part):
        cache = self.caches[n]
        if cache is not None:
            length = int(part * cache.written)
            cache.truncate(length)
            del self.written[n][length:]

    @rule(n=st.integers(0, 1))
    def tables(self, n):
        cache = self.caches[n]
        if cache is not None:
            pairs = cache.shape.head_dim // 2
            rows = cache.rotations[0].compute_rows(0, cache.capacity, cache.shape.head_dim)
            for buffer, table in zip(cache.tables_of(0), rows, strict=True):
                held = self.device.view(buffer, 0, table.dtype, (cache.capacity, pairs))
                assert (held == table).all()

    @invariant()
    def nothing_is_lost_and_nothing_leaks(self):
        if not hasattr(self, "caches"):
            return
        standing = [cache for cache in self.caches if cache is not None]
        for cache, versions in zip(self.caches, self.written, strict=True):
            if cache is not None:
                assert (cache.written, cache.capacity % 128) == (len(versions), 0)
                check(cache, versions)
        assert self.budget.reserved == sum(cache.size for cache in standing) <= self.budget.total
        assert self.budget.transient == 0
        assert self.budget.peak <= self.budget.total * (1 if self.budget.strict else 2)
        tables = sum(2 * cache.shape.rope_bytes(cache.capacity) for cache in standing)
        assert self.device.live_bytes == self.budget.reserved + tables


TestBudgets = Budgets.TestCase
TestCaches = Caches.TestCase
TestCaches.settings = settings(stateful_step_count=20)
