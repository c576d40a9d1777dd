"""The trace of MiniLM's attention: what it is, and the hit rates that the page states. spec: MN3.3, MN3.7"""

from __future__ import annotations

from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.replacement import TRACES, attention, rates, relative
from tests.support import minilm
from tests.support.replayed import apart
from tmmu.mnemosyne.hit_rates import count_semantic_hits
from tmmu.mnemosyne.replacement import ONE

PAGE = Path(__file__).resolve().parents[2] / "spec/mnemosyne.md"


def stated(page: str, trace: str) -> dict[str, float]:
    """The first column of a table of hit rates, which is that of a room of 8 tiles."""
    lines = page.split(f"\n{trace}: ")[1].split("\n\n")[0].splitlines()[2:]
    rows = (line.split("%")[0].rsplit(maxsplit=1) for line in lines if "%" in line)
    return {policy.strip(): float(rate) / 100 for policy, rate in rows}


def test_the_trace_is_of_tiles_that_follow_a_text() -> None:
    """Each token writes its own tiles and reads earlier ones; no tile is read before it was written."""
    found = minilm.stored()
    tiles, weights = found["tiles"].astype(int), found["weights"].astype(int)
    assert minilm.TRACE.stat().st_size < 1 << 20
    assert len(found["tokens"]) == minilm.TOKENS
    assert len(tiles) == len(weights)
    assert set(tiles.tolist()) == set(range(minilm.tiles_of(minilm.TOKENS - 1)[-1] + 1))
    newest = np.maximum.accumulate(tiles)
    assert (np.diff(newest) <= 1).all()
    assert (newest - tiles).max() <= minilm.WINDOW * minilm.TOKEN_BYTES // minilm.TILE + 1
    assert 0 < weights.min() <= weights.max() < ONE
    assert len(tiles) > 3 * minilm.TOKENS
    assert found["states"].shape == (minilm.WINDOW, minilm.WIDTH)


def test_at_the_documents_factor_real_attention_is_lru() -> None:
    """With other weights, or a larger λ, it is not: the trace can show a difference. spec: MN3.7"""
    trace, weights = attention()
    for room in (8, 64):
        lru = count_semantic_hits(trace, [0] * len(trace), room)
        assert abs(count_semantic_hits(trace, weights, room) - lru) < len(trace) / 1000
    assert count_semantic_hits(trace, relative(weights), 8, Fraction(16)) > count_semantic_hits(trace, weights, 8) * 1.3


@pytest.mark.skipif(find_spec("libcachesim") is None, reason="not installed")  # its wheels are for few platforms
@pytest.mark.parametrize("name", list(TRACES))
def test_the_page_states_the_rates_of_each_trace(name: str) -> None:
    """As the benchmark prints them, for a room of 8 tiles. spec: MN3.7"""
    trace, weights = TRACES[name]()
    found = apart(rates, trace, weights, 8)
    written = stated(PAGE.read_text(), name)
    assert written == pytest.approx(found, abs=0.0006)
    wrong = stated(PAGE.read_text().replace(".", "9."), name)
    assert wrong != pytest.approx(found, abs=0.0006)
