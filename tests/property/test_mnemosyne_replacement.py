"""Page replacement against its definition, whatever is done with it in whatever order. spec: MN3.1, MN3.2, MN3.5"""

from __future__ import annotations

from fractions import Fraction
from importlib.util import find_spec
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.plain_replacement import PlainReplacement
from tests.support.replayed import apart
from tmmu.mnemosyne.hit_rates import count_hits_by_policy
from tmmu.mnemosyne.replacement import ONE, SemanticReplacement

WEIGHTS = st.sampled_from([0, 1, ONE // 3, ONE // 2, ONE - 1, ONE]) | st.integers(0, ONE)


class ReplacementMachine(RuleBasedStateMachine):
    """All that a store does with tiles, and the victim after each of it."""

    @initialize(factor=st.sampled_from([Fraction(1, 2), Fraction(3), Fraction(2, 7)]))
    def make(self, factor: Fraction) -> None:
        self.ours, self.plain = SemanticReplacement(factor), PlainReplacement(factor=factor)

    @rule(tile=st.integers(0, 40), weight=WEIGHTS)
    def insert(self, tile: int, weight: int) -> None:
        if tile not in self.plain:
            self.ours.insert(tile, weight)
            self.plain.insert(tile, weight)

    @precondition(lambda self: len(self.plain))
    @rule(
        data=st.data(),
        action=st.sampled_from(["access", "remove", "hold", "free", "attend"]),
        is_compared=st.booleans(),
    )
    def change(self, data: st.DataObject, action: str, is_compared: bool) -> None:
        tile = data.draw(st.sampled_from(sorted(self.plain.last)))
        if action == "attend":
            weight = data.draw(WEIGHTS)
            self.ours.attend(tile, weight)
            self.plain.attend(tile, weight)
        else:
            getattr(self.ours, action)(tile)
            if action in ("hold", "free"):
                getattr(self.plain.held, "add" if action == "hold" else "discard")(tile)
            else:
                getattr(self.plain, action)(tile)
        if is_compared:
            assert self.ours.victim() == self.plain.victim()

    @precondition(lambda self: len(self.plain))
    @rule(times=st.integers(1, 12))
    def evict(self, times: int) -> None:
        """As many as go for a large region: the number of residents falls with each."""
        for _ in range(times):
            victim = self.plain.victim()
            assert self.ours.victim() == victim
            if victim is None:
                return
            self.dominates_none(victim)
            self.ours.remove(victim)
            self.plain.remove(victim)

    @rule()
    def compare(self) -> None:
        assert (len(self.ours), self.ours.held) == (len(self.plain), len(self.plain.held))
        assert self.ours.victim() == self.plain.victim()
        order = sorted(self.plain.last, key=lambda tile: (self.plain.weight[tile], self.plain.last[tile]))
        assert list(self.ours.by_weight()) == [(tile, tile in self.plain.held) for tile in order]

    def dominates_none(self, victim: int) -> None:
        last, weight = self.plain.last, self.plain.weight
        for tile in last.keys() - self.plain.held - {victim}:
            assert last[victim] < last[tile] or weight[victim] < weight[tile]


TestReplacement = ReplacementMachine.TestCase
TestReplacement.settings = settings(max_examples=80, stateful_step_count=60)


def most_hits(trace: list[int], room: int) -> int:
    """The most hits that any choice of tiles gives: all sets of resident tiles, access by access."""
    states: dict[frozenset[int], int] = {frozenset(): 0}
    for tile in trace:
        after: dict[frozenset[int], int] = {}
        for resident, hits in states.items():
            if tile in resident:
                followers = [(resident, hits + 1)]
            elif len(resident) < room:
                followers = [(resident | {tile}, hits)]
            else:
                followers = [(frozenset(kept) | {tile}, hits) for kept in combinations(resident, room - 1)]
            for key, value in followers:
                after[key] = max(after.get(key, 0), value)
        states = after
    return max(states.values())


@pytest.mark.skipif(find_spec("libcachesim") is None, reason="not installed")  # its wheels are for few platforms
@given(st.lists(st.integers(0, 6), min_size=1, max_size=25), st.integers(1, 4), st.data())
def test_beladys_hits_are_the_most_there_can_be_and_without_weights_ours_are_those_of_lru(
    trace: list[int], room: int, data: st.DataObject
) -> None:
    """spec: MN3.7"""
    weights = data.draw(st.lists(WEIGHTS, min_size=len(trace), max_size=len(trace)))
    hits = apart(count_hits_by_policy, trace, weights, room)
    assert hits["Belady"] == most_hits(trace, room)
    assert max(hits.values()) == hits["Belady"]
    assert apart(count_hits_by_policy, trace, [0] * len(trace), room)["semantic"] == hits["LRU"]
