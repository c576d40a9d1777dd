"""What all readers of programs are made of: cells in bounded memories, Python in bounded words. spec: FP2.1, FP2.4"""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from proofs.readers.plans import script
from proofs.readers.plans.cells import CellMemory, Pointer
from proofs.readers.plans.script import bits, extent, integer, integers, string
from tmmu.core import source
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.core.vocabulary import Role

END = 1 << 64


def memory() -> CellMemory:
    return CellMemory(Source("f", b""))


def test_memories_and_cells_end_within_64_bits() -> None:
    cells = memory()
    largest = cells.arena("a", END - 1)
    assert [arena.capacity for arena in cells.arenas] == [END - 1]
    for capacity in (-1, END):
        with pytest.raises(TmmuError, match="a memory of"):
            cells.arena("a", capacity)
    cells.cell("c", largest, 8, END - 9)
    for offset, size in ((8, END - 8), (-9, 8)):
        with pytest.raises(TmmuError, match="beyond 64 bits"):
            cells.cell("c", largest, offset, size)


def test_a_memory_of_no_bytes_has_room_for_nothing_and_a_byte_in_the_plan() -> None:
    cells = memory()
    empty = cells.arena("e", 0)
    assert (cells.arenas[0].capacity, cells.empty) == (1, {empty})
    cells.cell("c", empty, 0, 0)
    with pytest.raises(TmmuError, match="a memory of no bytes"):
        cells.cell("d", empty, 0, 1)


def test_arenas_cells_and_steps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_ROWS", 2)
    adding: list[Callable[[CellMemory], object]] = [
        lambda m: m.arena("a"), lambda m: m.cell("c", 0, 0, 1), lambda m: m.step("s", ("", "f"), (), ()),
    ]  # fmt: skip
    for add in adding:
        cells = memory()
        for _ in range(3):
            add(cells)
        with pytest.raises(TmmuError, match="more than 2"):
            add(cells)


def test_copies_of_long_names_are_counted() -> None:
    """Each node with arms copies the names of what one of them makes. spec: FP2.2"""
    work = []
    for length in (10, 100_000):
        cells = memory()
        cell = cells.cell("n" * length, cells.arena("a"), 0, 8)
        before = cells.source.work
        for _ in range(10):
            cells.begin("if", ("", "If"), ())
            cells.step("s", ("", "f"), (), [cell])
            cells.arm()
            cells.end([[], []])
        work.append(cells.source.work - before)
    assert work[1] > 20 * work[0]


def test_a_step_reads_what_holds_a_value_and_changes_what_it_writes_again() -> None:
    cells = memory()
    a = cells.arena("a")
    x = cells.cell("x", a, 0, 4, role=Role.INPUT)
    y, z, w = (cells.cell(name, a, offset, 4, before=x) for name, offset in (("y", 0), ("z", 4), ("w", 0)))
    lost = cells.cell("lost", a, 8, 4)
    assert [cells.held(cell) for cell in (x, y, lost)] == [x, x, None]
    cells.step("one", ("", "f"), [lost], [y], [z])

    def touched(step: int) -> list[list[int]]:
        return [[cell.number for cell in listed] for listed in cells.steps[step][2:5]]

    assert touched(0) == [[lost, x], [y, z], []]
    assert [cells.cells[cell].of for cell in (y, z)] == [None, None]  # y is no result in place, z lies elsewhere
    cells.step("two", ("", "f"), [y], [y])
    assert touched(1) == [[y], [y], [y]]
    cells.step("three", ("", "f"), [], [], [w])
    assert (touched(2), cells.cells[w].of) == ([[x], [w], []], cells.cells[x])
    again = cells.cell("again", a, 0, 4, before=x)
    cells.step("four", ("", "f"), [x], [], [again])
    assert cells.cells[again].of is None  # another operand reads it too
    cells.step("five", ("", "f"), [], [x])
    assert cells.donated() == ("x",)
    cells.returns([lost, w])
    assert [cell.name for cell in cells.cells if cell.returned] == ["w", "lost"]


def test_what_arms_hand_on_is_one_cell_for_each_range_of_bytes() -> None:
    """Neighbours are apart, what meets and what has no bytes at one place are together. spec: FP7.10"""
    cells = memory()
    arena = cells.arena("a")
    places = [(64, 4), (68, 4), (66, 1), (80, 1), (81, 0), (81, 0), (81, 8)]
    made = [cells.cell(f"c{k}", arena, offset, size) for k, (offset, size) in enumerate(places)]
    before = cells.cell("before", arena, 0, 4)
    shown = cells.cell("shown", arena, 65, 2, before=made[0])
    kept = cells.cell("kept", arena, 0, 2, before=before)
    cells.step("first", ("", "f"), [], [before])
    cells.begin("if", ("", "if"), [])
    cells.step("one", ("", "f"), [], made)
    cells.arm()
    one, other = cells.end([[Pointer(cell, 1) for cell in (*made, shown, kept)], [Pointer(made[0], 0)]])
    assert other == {}
    assert Pointer(kept, 1) not in one
    anew = {pointer.cell: to for pointer, to in one.items()}
    lies = [(cells.cells[to.cell].offset, cells.cells[to.cell].bytes, to.start) for to in anew.values()]
    assert lies == [
        (64, 4, 1), (68, 4, 1), (64, 4, 3), (80, 1, 1), (81, 8, 1), (81, 8, 1), (81, 8, 1), (64, 4, 2),
    ]  # fmt: skip
    assert cells.held(made[0]) is None
    assert [cells.cells[cells.own("o", size)].is_sized for size in (0, 1)] == [False, True]
    elsewhere = cells.own("elsewhere", 4)
    cells.cells[elsewhere].before = made[1]
    cells.begin("if", ("", "if"), [])
    cells.step("two", ("", "f"), [], [made[1]])
    cells.arm()
    (moved, _) = cells.end([[Pointer(elsewhere, 3)], []])
    assert [to.start for to in moved.values()] == [3]


def test_python_is_bounded_in_bytes_and_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"a = f(1)\n"
    words = len(script._TOKEN.findall(text.decode()))
    for name, limit in (("MAX_SCRIPT", len(text)), ("MAX_TOKENS", words)):
        monkeypatch.setattr(script, name, limit)
        of = Source("f", text)
        assert isinstance(script.parse_script(of), ast.Module)
        assert of.work == words
        monkeypatch.setattr(script, name, limit - 1)
        with pytest.raises(TmmuError, match=f"more than {limit - 1} "):
            script.parse_script(Source("f", text))
        monkeypatch.undo()


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def test_constants_are_read_from_expressions_and_nothing_else_is() -> None:
    assert [string(expression(text)) for text in ("'a'", "1", "a", "f'a'", "b'a'")] == ["a", None, None, None, None]
    assert [integer(expression(text)) for text in ("3", "-3", "T.int64(3)", "R.prim_value(T.int64(-3))", "--3")] == [
        3,
        -3,
        3,
        -3,
        3,
    ]
    for text in (
        "f(3)",
        "R.f(3)",
        "T.f(3)",
        "T.int64(3, a=1)",
        "T.int64(3, 4)",
        "True",
        "3.0",
        "a",
        "+3",
        f"{END}",
        "T.f()",
        "-a",
    ):
        assert integer(expression(text)) is None
    assert integer(expression(f"{END - 1}")) == END - 1
    assert [integers(expression(text)) for text in ("(1, -2)", "[3]", "()", "(a, 1)", "{1}")] == [
        (1, -2), (3,), (), None, None,
    ]  # fmt: skip
    assert [bits(name) for name in ("float8_e4m3fn", "bool", "uint4", "bfloat16", "float16x4", "int8x", "handle")] == [
        8, 8, 4, 16, 64, None, None,
    ]  # fmt: skip
    assert [extent((2, 3), (4, 1), 32), extent((0, 3), (1, 1), 32), extent((3,), None, 4)] == [28, 0, 2]
