"""Tables, vectors and numbers of a FlatBuffer lie in the file, or are refused with the byte. spec: FP2.2, FP2.4"""

from __future__ import annotations

import struct

import pytest

from tmmu.core.errors import TmmuError
from tmmu.core.flatbuffer import NUMBER_VISITS, TABLE_VISITS, Flatbuffer, Vector
from tmmu.core.source import Source


def buffer(data: bytes, start: int = 0) -> Flatbuffer:
    return Flatbuffer(Source("f", data), start)


def place_of(buffer: Flatbuffer, what: str, *arguments: object) -> str | None:
    """Where a part is refused."""
    with pytest.raises(TmmuError, match="cut off or damaged") as error:
        getattr(buffer, what)(*arguments)
    return error.value.place


@pytest.mark.parametrize(("length", "width"), [(3, 1), (2, 4), (1, 8), (0, 4)])
def test_a_vector_ends_in_the_file(length: int, width: int) -> None:
    data = struct.pack("<I", length) + bytes(length * width)
    of = buffer(data)
    assert of.vector(0, width) == Vector(4, length)
    assert of.source.work == length + 2  # its elements, its length, its extent
    assert place_of(buffer(data[:-1]), "vector", 0, width) == ("byte 4" if length else "byte 0")


def test_nothing_is_read_before_the_start_or_behind_the_end() -> None:
    of = buffer(bytes(16), 8)
    assert [of.number(kind, at) for kind, at in (("u8", 8), ("u8", 15), ("u32", 12), ("i64", 8))] == [0, 0, 0, 0]
    for kind, at in (("u8", 7), ("u8", 16), ("u32", 13), ("i64", 9)):
        assert place_of(of, "number", kind, at) == f"byte {at}"


VTABLE = struct.pack("<5H", 10, 16, 4, 0, 8)
"""Of a table of 16 bytes with a number, nothing, and a reference."""
TABLE = struct.pack("<iIII", 12, 7, 4, 0)
WHOLE = VTABLE + bytes(2) + TABLE


def test_fields_are_those_of_the_vtable() -> None:
    of = buffer(WHOLE + struct.pack("<II", 2, 4))
    table = of.table(12)
    assert (table.fields, table.number(0, "u32"), table.number(1, "u32", 5), table.number(3, "u32", 6)) == (3, 7, 5, 6)
    assert (table.table(1), table.numbers(1, "u32"), table.text(3)) == (None, [], "")
    assert table.content(1) == Vector(0, 0)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (WHOLE[:-1], "byte 12"),  # the table's end
        (WHOLE[:12] + struct.pack("<i", -16) + WHOLE[16:] + VTABLE[:8], "byte 28"),  # the vtable's end
        (struct.pack("<H", 30) + WHOLE[2:], "byte 0"),  # the vtable's end
    ],
)
def test_a_table_and_its_vtable_end_in_the_file(data: bytes, place: str) -> None:
    assert buffer(WHOLE).table(12).at == 12
    assert place_of(buffer(data), "table", 12) == place


def test_elements_count_as_the_visits_that_they_take() -> None:
    of = buffer(WHOLE[:20] + struct.pack("<5I", 8, 0, 2, 8, 9))
    table = of.table(12)
    spent = of.source.work
    assert table.numbers(2, "u32") == [8, 9]
    vector = of.source.work - spent - 2 * NUMBER_VISITS
    spent = of.source.work
    assert table.content(2) == Vector(32, 2)
    assert of.source.work - spent == vector
    spent = of.source.work
    with pytest.raises(TmmuError):
        table.tables(2)
    assert of.source.work - spent >= vector + 2 * TABLE_VISITS
