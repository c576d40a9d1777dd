"""Buffers in CSV get offsets: the stated ones are kept, gaps make room, and what is written is right.

spec: FP3.8, FP3.9, FP3.10, FP3.11
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from proofs.readers.plans.formats import BY_KIND, read_through_gate
from proofs.verify.checks import BufferSubject, buffer_violations
from tests.support.buffers import least
from tests.support.effort import share
from tmmu.cli.export import export
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.exporters import minimalloc
from tmmu.exporters.minimalloc import PlacedBuffers
from tmmu.planner.layouts.boxes import Boxes
from tmmu.plans.gate import StatedBuffers

HEAD = "id,lower,upper,size,gaps,alignment,offset"


def placed(text: str, effort: int | None = None, capacity: int | None = None) -> PlacedBuffers:
    return minimalloc.place_buffers(Source("b.csv", text.encode()), effort=effort, capacity=capacity)


def offsets(found: PlacedBuffers) -> dict[str, int]:
    """The last column, by the first."""
    rows = [line.split(",") for line in found.data.decode().splitlines()[1:]]
    return {row[0]: int(row[-1]) for row in rows}


def is_right(found: PlacedBuffers) -> bool:
    """By the verifier's own reader and checker."""
    stated = read_through_gate(BY_KIND["minimalloc"], Source("o.csv", found.data, capacity=found.footprint))
    assert isinstance(stated, StatedBuffers)
    return not list(buffer_violations(BufferSubject(stated, asked=found.fixed)))


def test_in_a_gap_the_bytes_of_a_buffer_are_free_for_others_and_a_stated_offset_is_kept() -> None:
    found = placed(f"{HEAD}\na,0,10,8,3-7,1,\nb, 3,7,8,,4,-1\nc,2,5,4,,1,12\n")
    assert found.data.decode() == f"{HEAD}\na,0,10,8,3-7,1,0\nb, 3,7,8,,4,0\nc,2,5,4,,1,12\n"
    assert (found.footprint, found.peak, found.fixed, is_right(found)) == (16, 12, {"c": 12}, True)
    without = placed(f"{HEAD}\na,0,10,8,,1,\nb,3,7,8,,4,-1\nc,2,5,4,,1,12\n")
    assert without.footprint == 24
    window = placed(f"{HEAD}\na,0,10,8,3-7@0:4,1,\nb,3,7,8,,4,-1\n")
    assert (window.footprint, window.windows, is_right(window)) == (16, 1, True)
    assert "1 gaps with a window were ignored" in window.shown


def test_fixed_buffers_may_have_common_bytes_in_a_gap_and_nowhere_else() -> None:
    found = placed(f"{HEAD}\na,0,10,8,3-7,1,0\nb,3,7,8,,4,4\nc,0,10,4,,1,\n")
    assert (offsets(found), is_right(found)) == ({"a": 0, "b": 4, "c": 12}, True)
    with pytest.raises(TmmuError, match=r"'a' is fixed at bytes 0 to 7 .*'b' is fixed at bytes 4 to 11.*ADDRESS_COLL"):
        placed(f"{HEAD}\na,0,10,8,3-7,1,0\nb,3,8,8,,4,4\n")
    with pytest.raises(TmmuError, match=r"ALIGNMENT_VIOLATION"):
        placed(f"{HEAD}\nb,3,8,8,,4,2\n")


def drawn(seed: int) -> tuple[str, Boxes]:
    """A file of few buffers with gaps, one of them fixed, and the same as boxes."""
    rng = random.Random(seed)
    n = 5
    births = [rng.randrange(5) for _ in range(n)]
    deaths = [b + rng.randrange(6) for b in births]
    sizes = [rng.choice((1, 2, 3, 4, 6, 9)) for _ in range(n)]
    gaps = {i: [(births[i] + 1, deaths[i] - 1)] for i in range(n) if deaths[i] - births[i] > 1 and rng.randrange(3)}
    fixed = {rng.randrange(n): 4 * rng.randrange(3)}
    lines = [
        f"{i},{births[i]},{deaths[i] + 1},{sizes[i]},"
        f"{' '.join(f'{low}-{high + 1}' for low, high in gaps.get(i, ()))},1,{fixed.get(i, '')}"
        for i in range(n)
    ]
    return "\n".join((HEAD, *lines)), Boxes(births, deaths, sizes, [1] * n, {}, fixed, gaps)


def test_a_search_over_buffers_with_gaps_ends_at_the_optimum_that_brute_force_finds() -> None:
    gained = 0
    for seed in range(share(40)):
        text, boxes = drawn(seed)
        plain, found = placed(text), placed(text, effort=1 << 20)
        assert is_right(plain)
        assert is_right(found)
        assert found.bound is not None
        assert plain.footprint >= found.footprint == least(boxes) == found.bound.bytes, seed
        gained += found.footprint < (least(replace(boxes, gaps={})) or 0)
    assert gained


def test_what_does_not_fit_is_refused_with_what_shows_it() -> None:
    text = f"{HEAD}\na,0,4,8,,1,4\nb,2,6,8,,1,\n"
    with pytest.raises(TmmuError, match=r"whether|20 bytes are needed"):
        placed(text, capacity=19)
    with pytest.raises(TmmuError, match=r"no placement fits: none is below 20 \(a complete search found none\)"):
        placed(text, effort=10_000, capacity=19)
    assert placed(text, effort=10_000, capacity=20).footprint == 20


@pytest.mark.parametrize(
    "text",
    [
        "id,lower,upper\na,0,1", "id,lower,upper,size,colour\na,0,1,1,red", "id,lower,upper,size\na,0,1",
        "id,lower,upper,size\n,0,1,1", "id,lower,upper,size\na,0,1,1\na,0,1,1", "id,lower,upper,size\na,1,1,1",
        "id,lower,upper,size\na,0,1,x", "id,lower,upper,size\n\na,0,1,1", "id,lower,upper,size,alignment\na,0,1,1,3",
        "id,lower,upper,size,gaps\na,0,9,1,2", "id,lower,upper,size,gaps\na,0,9,1,2-10",
        "id,lower,upper,size,gaps\na,0,9,1,2-3@1", "id,lower,upper,size,gaps\na,0,9,1,0-4 4-9",
        "id,lower,upper,size,id\na,0,9,1,b",
    ],
)  # fmt: skip
def test_what_is_no_set_of_buffers_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(TmmuError, match=r"b\.csv.*line \d.*INVALID_PLAN"):
        placed(text)


def test_an_end_includes_the_last_step_and_gaps_at_the_ends_are_no_part_of_a_life() -> None:
    found = placed("buffer,start,end,size,gaps\na,0,9,8,0-1 8-9\nb,0,1,8,\nc,8,9,8,\nd,2,7,4,\n")
    assert (found.footprint, offsets(found)["d"] in (8,)) == (12, True)
    assert is_right(found)


def test_the_command_writes_what_it_has_checked_and_no_wrong_flag_goes_with_it(tmp_path: Path) -> None:
    source, out = tmp_path / "b.csv", tmp_path / "o.csv"
    source.write_text(f"{HEAD}\na,0,4,8,,1,4\nb,2,6,8,,1,\n")
    done = CliRunner().invoke(
        export, ["minimalloc", str(source), "-o", str(out), "--effort", "1000"], standalone_mode=False
    )
    assert done.exception is None
    assert "2 buffers in 20 bytes, 16 of them live at the peak; no placement is below 20" in done.output
    assert out.read_text() == f"{HEAD}\na,0,4,8,,1,4\nb,2,6,8,,1,12\n"
    wrong = CliRunner().invoke(export, ["tflite", str(source), "-o", str(out), "--capacity", "9"])
    assert wrong.exit_code == 2
