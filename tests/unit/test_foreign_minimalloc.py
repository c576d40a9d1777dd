"""MiniMalloc's CSV, read and written. spec: FP3.1 to FP3.7"""

from __future__ import annotations

import pytest

from proofs.readers.plans import minimalloc
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.plans.sections import BufferPlan
from tmmu.report import minimalloc as writer

Row = tuple[str, int, int, int, int]


def buffers(text: str, capacity: int | None = None) -> BufferPlan:
    plan = minimalloc.read(Source("p.csv", text.encode(), capacity=capacity)).plan
    assert isinstance(plan, BufferPlan)
    return plan


def rows(text: str) -> list[Row]:
    """Name, first and last step, offset and bytes of each storage."""
    found = buffers(text).buffers
    s = found.storages
    columns = (s.birth, s.death, s.offset, s.bytes)
    return list(zip(found.name, *(c.tolist() for c in columns), strict=True))  # type: ignore[arg-type]


def test_lifetimes_are_half_open_and_an_end_is_included() -> None:
    """spec: FP3.1, FP3.2"""
    expected = [("a", 0, 2, 8, 4), ("b", 3, 4, 0, 2)]
    assert rows("id,lower,upper,size,offset\na,0,3,4,8\nb,3,5,2,0\n") == expected
    assert rows("offset,size, end ,start,buffer_id\r\n8,4,2,0,a\r\n0,2,4,3,b") == expected


def test_a_buffer_with_gaps_is_a_storage_for_each_part() -> None:
    """spec: FP3.3"""
    text = "id,lower,upper,size,gaps,offset\na,0,9,16,2-4 6-7@8:16,32\n"
    parts = [("a", 0, 1, 32, 16), ("a part 1", 4, 5, 32, 16), ("a part 2", 6, 6, 40, 8), ("a part 3", 7, 8, 32, 16)]
    assert rows(text) == parts
    with_ends = "id,lower,end,size,gaps,offset\na,0,8,16,2-3 6-6@8:16,32\n"
    assert rows(with_ends) == parts


@pytest.mark.parametrize("gap", ["2-2", "8-3", "9-9@0:4"])
def test_a_gap_without_a_step_is_none_and_listed(gap: str) -> None:
    """spec: FP3.4"""
    text = f"id,lower,upper,size,gaps,offset\na,0,10,4,{gap},0\n"
    assert rows(text) == [("a", 0, 9, 0, 4)]
    (assumption,) = minimalloc.read(Source("p.csv", text.encode())).reading.assumptions
    assert assumption.endswith(f"{gap} of a")


def test_gaps_may_meet_each_other_and_the_ends_and_a_window_is_aligned_as_it_lies() -> None:
    """spec: FP3.3"""
    text = f"{HEAD}\na,0,9,16,8,0-2 4-6@8:16 6-9,8\nb,0,4294967294,16,16,1-2@8:8,18446744073709551584\n"
    end = 18446744073709551584
    assert rows(text) == [
        ("a", 2, 3, 8, 16), ("a part 1", 4, 5, 16, 8), ("b", 0, 0, end, 16), ("b part 1", 2, 4294967293, end, 16),
    ]  # fmt: skip
    assert buffers(text).buffers.storages.alignment.tolist() == [8, 1, 16, 16]


@pytest.mark.parametrize(("count", "shown"), [(8, 8), (9, 8)])
def test_of_many_gaps_without_a_step_some_are_listed(count: int, shown: int) -> None:
    gaps = " ".join(f"{k}-{k}" for k in range(count))
    text = f"id,lower,upper,size,gaps,offset\na,0,10,4,{gaps},0\n"
    (assumption,) = minimalloc.read(Source("p.csv", text.encode())).reading.assumptions
    assert (assumption.count(" of a"), assumption.endswith(", …")) == (shown, count > shown)


HEAD = "id,lower,upper,size,alignment,gaps,offset"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1), ("id,lower,upper,size\na,0,1,4", 1), ("id,id,lower,upper,size,offset", 1),
        ("id,lower,upper,size,offset,colour", 1), ("id,lower,end,upper,size,offset", 1),
        (f"{HEAD}\n\na,0,1,4,1,,0", 2), (f"{HEAD}\na,0,1,4,1,,0\n \nb,0,1,4,1,,4", 3),
        (f"{HEAD}\na,0,1,4,1,,0\na,0,1,4,1,,8", 3), (f"{HEAD}\n,0,1,4,1,,0", 2), (f"{HEAD}\na,0,1,4,1,", 2),
        (f"{HEAD}\na,1,1,4,1,,0", 2), (f"{HEAD}\na,3,1,4,1,,0", 2), (f"{HEAD}\na,0,1,-4,1,,0", 2),
        (f"{HEAD}\na,0,4294967295,4,1,,0", 2), (f"{HEAD}\na,0,1,4,0,,0", 2), (f"{HEAD}\na,0,1,4,12,,0", 2),
        (f"{HEAD}\na,0,1,18446744073709551616,1,,0", 2), (f"{HEAD}\na,0,1,4,1,,18446744073709551612", 2),
        (f"{HEAD}\na,0,1,{'9' * 5000},1,,0", 2), (f"{HEAD}\na,0,9,4,1,3,0", 2), (f"{HEAD}\na,0,9,4,1,3-5@1,0", 2),
        (f"{HEAD}\na,0,9,4,1,3-5@1:5,0", 2), (f"{HEAD}\na,0,9,4,1,3-5@3:1,0", 2), (f"{HEAD}\na,0,9,4,1,3-6 5-8,0", 2),
        (f"{HEAD}\na,2,9,4,1,1-4,0", 2), (f"{HEAD}\na,0,9,4,1,5-10,0", 2), (f"{HEAD}\na,0,1_0,4,1,,0", 2),
        (f"{HEAD}\na,0,9,4,1,2-4,0\na part 1,0,9,4,1,,8", 3),
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused_with_its_line(text: str, line: int) -> None:
    """spec: FP2.4, FP3.1, FP3.5, FP3.6"""
    with pytest.raises(TmmuError) as error:
        buffers(text)
    assert (error.value.code_id, error.value.file, error.value.place) == ("INVALID_PLAN", "p.csv", f"line {line}")


def test_the_capacity_is_the_users() -> None:
    """spec: FP1.7"""
    text = "id,lower,upper,size,offset\na,0,3,4,8\n"
    assert buffers(text, 12).buffers.arenas[0].capacity == 12
    reading = minimalloc.read(Source("p.csv", text.encode())).reading
    assert list(reading.outside) == ["capacity of the memory"]


def test_what_is_written_reads_as_the_same_buffers() -> None:
    """spec: FP3.7"""
    text = "id,lower,upper,size,alignment,offset\na,0,3,4,4,8\nb,3,5,2,1,0\n"
    plan = buffers(text)
    assert writer.write(plan.placement) == text
    assert buffers(writer.write(plan.placement)) == plan
    with pytest.raises(TmmuError, match="INVALID_PLAN"):
        writer.write(plan.placement, "another")
    with pytest.raises(TmmuError, match="INVALID_PLAN"):
        writer.write(buffers("id,lower,upper,size,offset\na b,0,3,4,8\na_b,3,5,2,0\n").placement)


@pytest.mark.parametrize("cells", ['"a",0,1,4,,0', "a\v,0,1,4,,0", "a,0,1,4,novel,0", "a,0,\u00a01,4,,0"])
def test_cells_of_other_characters_are_refused(cells: str) -> None:
    """spec: FP3.12"""
    head = "id,lower,upper,size,hint,offset\n"
    buffers(f"{head}a,0, 1,4\t,-1,0\r\n")
    with pytest.raises(TmmuError) as error:
        buffers(f"{head}{cells}\nb,0,1,4,,4\n")
    assert error.value.place == "line 2"
