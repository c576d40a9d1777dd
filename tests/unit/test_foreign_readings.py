"""Stored plans of other producers are read as they were, whole; a file is recognised by its name or its content.

spec: FP1.1, FP1.2, FP2.2
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from proofs.readers.plans import formats
from proofs.readers.plans.foreign_plan import FreshNames, elements_of
from proofs.readers.plans.script import extent
from tests.support.foreign_readings import CORPUS, KEPT, reading_of, stored
from tmmu.core import source
from tmmu.core.errors import TmmuError

KINDS = tuple(formats.BY_KIND)


@pytest.mark.parametrize("kind", KINDS)
def test_what_stored_plans_are_read_as_stays(kind: str) -> None:
    """Run `python -m tests.support.foreign_readings` where it should change, and say in the commit why."""
    kept = json.loads(KEPT.read_text())
    mine = {
        str(path.relative_to(CORPUS)): reading_of(path)
        for path in stored()
        if (form := formats.recognise_format(path.name, path.read_bytes()[: formats.HEAD])) and form.kind == kind
    }
    assert mine
    assert mine.items() <= kept.items()


@pytest.mark.parametrize("kind", KINDS)
def test_a_reading_has_the_title_of_its_format(kind: str) -> None:
    """So that a construct that is not decided is counted with the word for its format. spec: FP1.4, FP1.18"""
    stated = (formats.load_any(path) for path in stored() if formats.of_format(formats.BY_KIND[kind], [str(path)]))
    first = next(stated).reading
    assert first is not None
    assert formats.BY_TITLE[first.format].kind == kind


def test_a_reading_is_kept_of_each_stored_plan() -> None:
    assert list(json.loads(KEPT.read_text())) == [str(path.relative_to(CORPUS)) for path in stored()]


RECOGNISED = [
    (b"BufferAssignment:\n", "xla"), (b" BufferAssignment:", None),
    (b"id,size\n", "minimalloc"), (b" buffer_id , lower, size \n1,2,3\n", "minimalloc"),
    (b"size,buffer", "minimalloc"), (b"id,lower\n", None), (b"name,size\n", None), (b"id\nsize\n", None),
    (b"a\nid,size\n", None),
    (b"# from tvm.script import ir as I\n@I.ir_module\n", "relax"), (b"# tvm.script\n", None),
    (b"@I.ir_module\n", None),
    (b"# AOT ID: ['0']\nimport torch._inductor\n", "inductor"), (b"# AOT ID: ['0']\n", None),
    (b"import torch._inductor\n", None), (b"# # AOT ID: torch._inductor", None),
    (b"#\n" * 5000 + b"# AOT ID: torch._inductor", "inductor"),
    (b"// -----// IR Dump After LayoutSlices", "iree"), (b"// -----// IR Dump After Other", None),
    (b"LayoutSlices", None),
    (b"Arena\n  Start Time - End Time, Start Addr - End Addr\n0", "vela"), (b"Start Time - End\nStart Addr -", None),
    (b"Start Addr -, Start Time -", None), (b"Start Time -", None),
    (b"\0\0\0\0ET12", "executorch"), (b"\0\0\0\0TFL3", "tflite"), (b"ET12", None), (b"", None),
]  # fmt: skip


@pytest.mark.parametrize(("head", "kind"), RECOGNISED)
def test_content_is_recognised_in_any_file_but_one_with_a_name_of_ours(
    head: bytes, kind: str | None, tmp_path: Path
) -> None:
    """Of a name that is a format's alone the content is not asked; a folder's files of another name are no plans."""
    form = formats.recognise_format("p", head)
    assert (form and form.kind) == kind
    assert formats.recognise_format("p.plan.txt", head) is None
    assert formats.recognise_format("p.tflite", b"tmmu-plan-text 1\n" + head) is None
    named = formats.recognise_format("p.tflite", head)
    assert named is not None
    assert named.kind == "tflite"
    for shared in sorted({suffix for each in formats.FORMATS for suffix in each.shared}):
        (tmp_path / f"p{shared}").write_bytes(head)
        mine = form is not None and shared in form.shared
        assert formats.is_plan(str(tmp_path / f"p{shared}")) == mine
    (tmp_path / "p").write_bytes(head)
    assert not formats.is_plan(str(tmp_path / "p"))
    assert formats.is_plan("p.plan.txt")
    assert formats.is_plan("p.tflite")


class Counting(dict[str, int]):
    """A dict that counts how often it is asked."""

    asked = 0

    def __contains__(self, key: object) -> bool:
        self.asked += 1
        return super().__contains__(key)


def test_names_are_told_apart_by_the_next_number_that_is_free_and_in_linear_time() -> None:
    """spec: FP2.2"""
    names = FreshNames()
    names._next = asked = Counting()
    given = ["a", "a", "a #2", "a", "a #2", "a #2 #2", "", "\0", "_", "unnamed"]
    assert [names(name) for name in given] == [
        "a", "a #2", "a #2 #2", "a #3", "a #2 #3", "a #2 #2 #2", "unnamed", "_", "_ #2", "unnamed #2",
    ]  # fmt: skip
    for _ in range(100):
        names("many")
    assert names("many") == "many #101"
    assert asked.asked < 3 * 120


class Dimension(int):
    """A dimension that notes how long the numbers are that it is multiplied with."""

    bits = 0

    def __rmul__(self, other: int) -> int:
        Dimension.bits = max(Dimension.bits, other.bit_length())
        return int(self) * other


def test_a_shape_without_a_size_has_none_in_any_type_and_costs_no_more() -> None:
    """Of 2^64 elements of 4 bits more than 2^64 were 2^63 bytes; and products of a line's numbers grew with it."""
    assert [elements_of(shape) for shape in ((), (2, 3), (1 << 63, 0), (1 << 33, 1 << 33))] == [1, 6, 0, 1 << 66]
    assert elements_of([Dimension((1 << 64) - 1)] * 40) == 1 << 67
    assert Dimension.bits <= 68
    for width in (1, 2, 4, 8, 128):
        assert (elements_of((1 << 40, 1 << 40)) * width + 7) // 8 >= 1 << 64
        assert extent((1 << 40, 1 << 40), None, width) >= 1 << 64
        assert extent((1 << 32, 1 << 29), None, width) == (1 << 58) * width


def test_a_pipe_is_read_as_a_file_is_and_has_no_file_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: FP2.1"""
    data = (CORPUS / "proved/minimalloc-gaps.csv").read_bytes()
    (tmp_path / "p.csv").write_bytes(data)

    def piped(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    piped(data)
    stated = formats.load_any("-", 1 << 20)
    assert stated.hashes == formats.load_any(tmp_path / "p.csv", 1 << 20).hashes
    for size in (len(data), len(data) - 1):
        monkeypatch.setattr(source, "MAX_BYTES", size)
        piped(data)
        if size == len(data):
            assert source.Source.opened("-", 7) == source.Source("-", data, None, 7)
            with pytest.raises(TmmuError, match="from a pipe"):
                source.Source("-", data).beside("p.csv")
        else:
            with pytest.raises(TmmuError, match=f"more than {size} bytes"):
                source.Source.opened("-")


def test_the_files_that_a_plan_is_read_from_are_it_and_those_beside_it_that_are_there(tmp_path: Path) -> None:
    for name in ("m-buffer-assignment.txt", "m.txt", "alone-buffer-assignment.txt", "p.csv"):
        (tmp_path / name).write_text("")
    at = f"{tmp_path}/m"
    assert formats.read_with(f"{at}-buffer-assignment.txt") == (f"{at}-buffer-assignment.txt", f"{at}.txt")
    for name in ("alone-buffer-assignment.txt", "p.csv"):
        assert formats.read_with(str(tmp_path / name)) == (str(tmp_path / name),)


def test_a_capacity_is_given_only_of_formats_that_state_none(tmp_path: Path) -> None:
    """spec: FP1.7"""
    assert {form.kind for form in formats.FORMATS if not form.has_capacity} == {"minimalloc", "tflite", "vela"}
    for path in stored():
        form = formats.recognise_format(path.name, path.read_bytes()[: formats.HEAD])
        assert form is not None
        if form.has_capacity:
            with pytest.raises(ValueError, match=form.title):
                formats.load_any(path, 1 << 20)
    (tmp_path / "p.plan.txt").write_text("")
    with pytest.raises(ValueError, match="states its own"):
        formats.load_any(tmp_path / "p.plan.txt", 1 << 20)
