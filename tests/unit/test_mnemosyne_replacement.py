"""Which tile goes, against the definition; traces where it differs from LRU and from the document's sign.

spec: MN3.1 to MN3.4
"""

from __future__ import annotations

import sys
from fractions import Fraction
from importlib.util import find_spec
from random import Random

import numpy as np
import pytest

from tests.support.plain_replacement import PlainReplacement
from tests.support.replayed import apart
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne.hit_rates import count_hits_by_policy, count_semantic_hits
from tmmu.mnemosyne.replacement import ONE, SemanticReplacement, tile_weights


def evicted(replacement: SemanticReplacement | PlainReplacement, trace: list[tuple[int, int]], room: int) -> list[int]:
    """The tiles that go, in order, when (tile, weight) are accessed one after the other."""
    gone = []
    for tile, weight in trace:
        if tile in replacement:
            replacement.access(tile)
            continue
        if len(replacement) == room:
            victim = replacement.victim()
            assert victim is not None
            replacement.remove(victim)
            gone.append(victim)
        replacement.insert(tile, weight)
    return gone


needs_libcachesim = pytest.mark.skipif(  # its wheels are for few platforms, and it is built nowhere else
    find_spec("libcachesim") is None, reason="libcachesim is not installed"
)

ATTENDED_FIRST = [(1, ONE), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)]


def test_an_attended_tile_outlives_more_recent_ones_and_lru_and_the_documents_sign_differ() -> None:
    """spec: MN3.1"""
    assert evicted(SemanticReplacement(), ATTENDED_FIRST, 4) == [2, 1]
    unweighted = [(tile, 0) for tile, _ in ATTENDED_FIRST]
    assert evicted(SemanticReplacement(), unweighted, 4) == [1, 2]  # LRU
    attended_last = [(1, 0), (2, 0), (3, 0), (4, ONE), (5, 0)]
    assert evicted(SemanticReplacement(), attended_last, 4) == [1]
    assert evicted(PlainReplacement(sign=-1, factor=Fraction(1)), attended_last, 4) == [4]  # the most attended


def test_the_documents_half_without_the_number_of_residents_is_plain_lru_for_either_sign() -> None:
    random = Random(5)
    trace = [(tile, tile * 7919 % (ONE + 1)) for tile in (random.randrange(12) for _ in range(300))]
    lru = evicted(SemanticReplacement(), [(tile, 0) for tile, _ in trace], 5)
    for sign in (1, -1):
        assert evicted(PlainReplacement(sign=sign, unit=1), trace, 5) == lru
    assert evicted(SemanticReplacement(), trace, 5) != lru


def test_of_tiles_that_count_the_same_the_lowest_goes() -> None:
    """spec: MN3.1"""
    for first, second in ((7, 3), (3, 7)):
        replacement = SemanticReplacement()
        replacement.insert(first, ONE)  # 1 + 2/2 · 1
        replacement.insert(second, 0)  # 2
        assert replacement.victim() == 3


def test_a_tile_counts_by_how_many_are_resident_at_the_choice() -> None:
    """One attended tile goes before others while few are resident, and outlives them when there are many."""
    replacement = SemanticReplacement()
    replacement.insert(0, ONE)
    for tile in range(1, 4):
        replacement.insert(tile)
    assert replacement.victim() == 1  # 1 + 4/2 against 2
    replacement.remove(1)
    replacement.remove(2)
    assert replacement.victim() == 0  # 1 + 2/2 against 4
    replacement.insert(5)
    replacement.insert(6)
    for tile in range(7, 13):
        replacement.insert(tile)
    assert replacement.victim() == 3  # 1 + 10/2 against 4


def test_a_match_is_played_again_where_fewer_are_resident_than_it_holds_for() -> None:
    """Tile 3 goes before tile 0 where at least 6 are resident; all others have left other matches."""
    replacement = SemanticReplacement()
    for tile in range(10):
        replacement.insert(tile, 0 if tile in (1, 2, 3) else ONE)
    replacement.remove(1)
    replacement.remove(2)
    assert replacement.victim() == 3  # 4 against 1 + 8/2
    for tile in range(4, 10):
        replacement.remove(tile)
    assert replacement.victim() == 0  # 1 + 2/2 against 4


def test_held_tiles_are_no_candidates_and_count_as_resident() -> None:
    """spec: MN3.5"""
    replacement = SemanticReplacement()
    for tile in range(3):
        replacement.insert(tile)
        replacement.hold(tile)
    assert (replacement.victim(), replacement.held) == (None, 3)
    replacement.free(2)
    assert (replacement.victim(), replacement.held) == (2, 2)
    replacement.remove(0)
    replacement.insert(0)
    assert (replacement.victim(), replacement.held) == (2, 1)


@pytest.mark.parametrize("factor", [Fraction(0), Fraction(-1, 2)])
def test_a_factor_that_evicts_what_is_attended_is_refused(factor: Fraction) -> None:
    with pytest.raises(ValueError, match="positive"):
        SemanticReplacement(factor)


def matches_of_an_access(room: int) -> int:
    """The most matches that one access takes, a miss included, in a full store of some room."""
    random, replacement, most = Random(room), SemanticReplacement(), 0
    for tile in range(room):
        replacement.insert(tile, random.randrange(ONE + 1))
    replacement.victim()
    resident = set(range(room))
    for turn in range(400):
        before = replacement.matches
        if turn % 2:
            replacement.access(random.choice(sorted(resident)[:50]))
        else:
            victim = replacement.victim()
            assert victim is not None
            replacement.remove(victim)
            replacement.insert(room + turn, random.randrange(ONE + 1))
            resident ^= {victim, room + turn}
        most = max(most, replacement.matches - before)
    return most


@pytest.mark.parametrize("power", [3, 6, 9, 12, 15])
def test_an_access_takes_a_number_of_matches_that_grows_with_the_logarithm(power: int) -> None:
    """Two changes of one leaf of 2^power: as many matches as there are above them. spec: MN3.4"""
    assert matches_of_an_access(1 << power) <= 2 * power


def test_a_weight_is_the_mean_attention_of_the_tokens_that_have_a_byte_in_the_tile() -> None:
    """spec: MN3.3"""
    assert tile_weights(np.array([1, 0, 0.5, 0.25]), 8, 16) == [ONE // 2, round(0.375 * ONE)]
    assert tile_weights(np.array([1, 0, 1]), 12, 16) == [
        ONE // 2,
        ONE // 2,
        ONE,
    ]  # each of two tokens lies in two tiles
    assert tile_weights(np.array([0.5, 1]), 64, 16) == [ONE // 2] * 4 + [ONE] * 4
    assert tile_weights(np.array([1, 0.5]), 16, 16, offset=16) == [0, ONE, ONE // 2]
    assert tile_weights(np.array([1, 0.5]), 16, 16, offset=40) == [0, 0, ONE, round(0.75 * ONE), ONE // 2]
    assert tile_weights(np.array([]), 16, 16) == []
    for wrong in (np.array([1.01]), np.array([-0.1]), np.array([np.nan]), np.ones((2, 2))):
        with pytest.raises(ValueError, match="one number"):
            tile_weights(wrong, 16, 16)
    for sizes in ((0, 16, 0), (16, 0, 0), (16, 16, -1)):
        with pytest.raises(ValueError, match="positive"):
            tile_weights(np.array([1.0]), *sizes)


def test_without_libcachesim_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: MN3.7"""
    monkeypatch.setitem(sys.modules, "libcachesim", None)
    with pytest.raises(TmmuError, match=r"pip install .*'libcachesim>=.*\[MISSING_PACKAGE\]"):
        count_hits_by_policy([1, 2], [0, 0], 1)


@needs_libcachesim
def test_hits_are_counted_over_one_trace_and_room_for_all_policies() -> None:
    """Bélády's own example, where FIFO has more faults with more room. spec: MN3.7"""
    trace = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5]
    assert apart(count_hits_by_policy, trace, [0] * 12, 3) == {"semantic": 2, "LRU": 2, "LFU": 2, "ARC": 2, "Belady": 5}
    assert apart(count_hits_by_policy, trace, [0] * 12, 4) == {"semantic": 4, "LRU": 4, "LFU": 4, "ARC": 5, "Belady": 6}


@needs_libcachesim
def test_the_attention_that_repeats_helps_and_the_attention_that_misleads_harms() -> None:
    """A scan runs through a store in which two tiles are asked for again and again. spec: MN3.7"""
    trace = [tile for turn in range(60) for tile in (1000, 1001, *range(9 * turn, 9 * turn + 9))]
    helpful = [ONE if tile >= 1000 else 0 for tile in trace]
    misleading = [0 if tile >= 1000 else ONE for tile in trace]
    hits = apart(count_hits_by_policy, trace, helpful, 8)
    assert (hits["LRU"], hits["Belady"]) == (0, 118)
    assert hits["semantic"] > hits["LRU"]
    assert count_semantic_hits(trace, misleading, 8) <= count_semantic_hits(trace, helpful, 8)
