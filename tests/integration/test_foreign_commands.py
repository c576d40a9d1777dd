"""Other producers' plans by the commands: recognised, read from pipes and folders, imported, and bounded.

spec: FP1.1 to FP1.13, FP2.1 to FP2.4
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

import tmmu.exporters.tflite
from proofs.readers.plans import formats
from proofs.verify import entry as verifier
from tests.support.commands import ran
from tests.support.flatbuffer_files import model, node, stored, subgraph
from tmmu import examples
from tmmu.core import source
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.planner.layouts.boxes import Packing
from tmmu.plans import file

RIGHT = "id,lower,upper,size,hint,offset\na,0,3,4,-1,0\nb,3,5,4,2,0\n"
WRONG = RIGHT.replace("b,3", "b,2")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code of verify-plan, its output and its errors."""
    code = verifier.run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("name", ["p.csv", "p", "p.txt"])
def test_a_file_is_recognised_by_its_content_whatever_its_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP1.1, FP1.4"""
    Path(name).write_text(RIGHT)
    code, out, _ = verified(capsys, name, "-v")
    assert (code, out.splitlines()[0]) == (0, f"PROVED {name} for the lifetimes it states")
    assert "  read as: MiniMalloc CSV, lifetimes as stated in the file" in out.splitlines()
    assert "hint (it places nothing)" in out
    Path(name).write_text(WRONG)
    code, out, _ = verified(capsys, name, "-v")
    assert (code, "\n  outside of the plan: " in out) == (1, True)


def test_a_pipe_has_the_plan_of_any_format(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: FP1.1, C1.13"""
    examples.write("text-plan", "p.plan.txt")
    file.save(file.load("p.plan.txt").plan, "p.cbor")
    text, binary = Path("p.plan.txt").read_bytes(), Path("p.cbor").read_bytes()
    for data, expected in ((RIGHT.encode(), 0), (WRONG.encode(), 1), (text, 0), (binary, 0), (b"", 4), (b"\0" * 9, 4)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert verified(capsys, "-")[0] == expected, data[:20]
    monkeypatch.setattr(source, "MAX_BYTES", 8)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RIGHT.encode())))
    code, _, err = verified(capsys, "-")
    assert (code, "-: more than 8 bytes" in err) == (4, True)


def test_a_folder_stands_for_the_plans_of_all_formats(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a name that others have as well, the content decides. spec: FP1.2"""
    examples.write("text-plan", "c.plan.txt")
    Path("a.csv").write_text(RIGHT)
    Path("b.csv").write_text("colour,weight\nred,3\n")
    Path("notes.txt").write_text(RIGHT)
    Path("d.csv").mkdir()
    code, out, _ = verified(capsys, ".", "--format", "json")
    assert (code, [v["file"] for v in json.loads(out)["files"]]) == (0, ["./a.csv", "./c.plan.txt"])
    assert verified(capsys, "d.csv")[0] == 2


def test_a_capacity_is_for_formats_that_state_none(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP1.7"""
    Path("p.csv").write_text(RIGHT)
    examples.write("text-plan", "p.plan.txt")
    assert [verified(capsys, "p.csv", "--capacity", size)[0] for size in ("4", "1KiB", "3", "0", "x")] == [
        0,
        0,
        1,
        2,
        2,
    ]
    assert verified(capsys, "p.plan.txt", "--capacity", "4")[0] == 2


@pytest.mark.parametrize("name", ["p.plan.txt", "p.cbor"])
def test_what_is_imported_has_the_verdict_of_its_source(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP1.8, FP1.9"""
    for text, expected in ((RIGHT, 0), (WRONG, 1)):
        Path("p.csv").write_text(text)
        code, out, _ = ran(capsys, "import", "minimalloc", "p.csv", "--capacity", "8", "-o", name)
        assert (code, out.splitlines()[-1]) == (0, f"verify it: verify-plan {name}")
        assert Path(name).read_bytes().startswith(b"tmmu-plan-text") == name.endswith(".txt")
        assert verified(capsys, name)[0] == verified(capsys, "p.csv")[0] == expected
        assert ran(capsys, "show", name, "--as", "minimalloc")[1].splitlines()[1] == "a,0,3,4,1,0"


def test_what_cannot_be_imported_is_refused_and_nothing_written(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP2.4, C2.6"""
    Path("p.csv").write_text("id,size\n")
    Path("q.csv").write_text(RIGHT)
    for kind, source_, expected in (
        ("minimalloc", "p.csv", 4), ("minimalloc", ".", 2), ("nonsense", "q.csv", 2), ("minimalloc", "no.csv", 2),
    ):  # fmt: skip
        assert ran(capsys, "import", kind, source_, "-o", "p.cbor")[0] == expected
    assert not Path("p.cbor").exists()
    Path("p.csv").unlink()
    assert ran(capsys, "import", "minimalloc", ".", "-o", "p.cbor")[0] == 0
    assert ran(capsys, "show", "p.cbor", "--arena", "memory")[0] == 2


def test_of_a_folder_what_is_imported_is_what_is_verified(capsys: pytest.CaptureFixture[str]) -> None:
    """Other files of a shared name are left out; where several are left, they are named. spec: FP1.13"""
    Path("d").mkdir()
    Path("d/p.csv").write_text(RIGHT)
    Path("d/q.csv").write_text("no plan\n")
    Path("d/r.txt").write_text(RIGHT)
    assert verified(capsys, "d")[0] == 0
    assert ran(capsys, "import", "minimalloc", "d", "-o", "p.cbor")[0] == 0
    code, _, err = ran(capsys, "import", "xla", "d", "-o", "p.cbor")
    assert (code, "SRC has no file of XLA buffer assignment" in err) == (2, True)
    Path("d/q.csv").write_text(RIGHT)
    code, _, err = ran(capsys, "import", "minimalloc", "d", "-o", "p.cbor")
    assert (code, "2 files of MiniMalloc CSV, d/p.csv, d/q.csv: name one" in err) == (2, True)


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [("p", b"", "the file is empty"), ("p.cbor", b"", "the file is empty"), ("p.pte", b"", "the file is empty"),
     ("p", b"Dear all,\n", "neither as a plan of ours nor as XLA.* MiniMalloc CSV"), ("p.csv", b"\0" * 99, "neither"),
     ("p.plan.txt", b"Dear all,\n", "tmmu-plan-text"), ("p.cbor", b"Dear all,\n", "not in canonical form"),
     ("p", b"\xa5fclaims\xa0", "not a canonical CBOR plan"),
     ("p.relax", b"a = 1\nb = (", "line 2: the file is not whole"), ("p.relax", b"a = (\nb\n", "line 1: .* not whole"),
     ("p.relax", b"a = '''\nb\n\n", "line 1: .* not whole"), ("p.relax", b"a b\nb\n", "line 1: expected Python")],
)  # fmt: skip
def test_what_is_no_plan_at_all_and_what_is_cut_off_is_refused_as_that(
    name: str, data: bytes, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a pipe as well. spec: FP1.11, FP1.12"""
    Path(name).write_bytes(data)
    code, _, err = verified(capsys, name)
    assert code == 4
    assert re.search(what, err)
    if name == "p":
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert verified(capsys, "-")[2] == err.replace(" p: ", " -: ")


def test_an_arena_of_a_plan_is_written_as_csv_and_judged_again(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP3.7"""
    Path("p.plan.txt").write_text(
        "tmmu-plan-text 1\narena x 64\narena y 64 align 32\nbuffer a 16 x 0 live 0 2\nbuffer b 8 y 32 live 1 1\n"
    )
    code, _, err = ran(capsys, "show", "p.plan.txt", "--as", "minimalloc")
    assert (code, "--arena: x, y" in err) == (4, True)
    for arena, row in (("x", "a,0,3,16,1,0"), ("y", "b,1,2,8,32,32")):
        code, out, _ = ran(capsys, "show", "p.plan.txt", "--as", "minimalloc", "--arena", arena)
        Path("p.csv").write_text(out)
        assert (code, out.splitlines()[1:], verified(capsys, "p.csv")[0]) == (0, [row], 0)


def test_every_reader_is_bounded_in_one_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """spec: FP2.1, FP2.2, FP2.3"""
    (tmp_path / "p.csv").write_text(RIGHT)
    found = Source.opened(tmp_path / "p.csv")
    assert (source.MAX_BYTES, source.MAX_ROWS, source.MAX_WORK) == (256 << 20, 1 << 20, 1 << 24)
    found.count_work(source.MAX_WORK)
    found.bound(source.MAX_ROWS)
    found.check_depth(source.MAX_DEPTH)
    for more, value in (
        (found.count_work, 1),
        (found.bound, source.MAX_ROWS + 1),
        (found.check_depth, source.MAX_DEPTH + 1),
    ):
        with pytest.raises(TmmuError) as error:
            more(value, "here")
        assert (error.value.file, error.value.place) == (found.name, "here")
    for name, limit in (("MAX_BYTES", len(RIGHT) - 1), ("MAX_ROWS", 2)):
        monkeypatch.setattr(source, name, limit)
        with pytest.raises(TmmuError, match="INVALID_PLAN"):
            formats.load_any(tmp_path / "p.csv")


def test_a_file_beside_another_is_read_within_the_bounds(tmp_path: Path) -> None:
    """spec: FP2.4"""
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"\xff")
    found = Source.opened(tmp_path / "a")
    assert found.beside("b").data == b"\xff"
    for refused in (lambda: found.beside("c"), lambda: Source("-", b"").beside("b"), found.beside("b").text):
        with pytest.raises(TmmuError, match="INVALID_PLAN"):
            refused()


def test_a_model_is_written_with_a_plan_that_is_proved(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: FP11.7"""
    tensors = [stored(size, name) for size, name in ((16, "x"), (48, "a"), (16, "y"))]
    graph = subgraph(tensors, [node(0, [0], [1]), node(0, [1], [2])], [0], [2])
    Path("m.tflite").write_bytes(model([graph], None, [3]))
    code, out, _ = ran(capsys, "export", "tflite", "m.tflite", "-o", "p.tflite")
    assert (code, "3 of 3 tensors in 64 bytes, 64 of them live at the peak" in out) == (0, True)
    assert verified(capsys, "p.tflite", "--capacity", "64")[0] == 0
    assert verified(capsys, "p.tflite", "--capacity", "63")[0] == 1
    for more, expected in (
        (("xla", "m.tflite", "-o", "q"), 2), (("tflite", "n.tflite", "-o", "q"), 2),
        (("tflite", "m.tflite", "-o", "q", "--alignment", "3"), 2), (("tflite", "m.tflite"), 2),
    ):  # fmt: skip
        assert ran(capsys, "export", *more)[0] == expected
    Path("n.tflite").write_bytes(b"nothing")
    assert ran(capsys, "export", "tflite", "n.tflite", "-o", "q")[0] == 4
    monkeypatch.setattr(tmmu.exporters.tflite, "pack_buffers", lambda buffers, effort: Packing([0] * len(buffers), 64))
    code, _, err = ran(capsys, "export", "tflite", "m.tflite", "-o", "q")
    assert (code, "CONTRACT_VIOLATION" in err, Path("q").exists()) == (4, True, False)


def test_an_export_names_the_file_that_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    """Not the one that it would write. spec: FP6.16"""
    tensors = [stored(16, "x", signature=[-1]), stored(48, "a"), stored(16, "y")]
    graph = subgraph(tensors, [node(0, [0], [1]), node(0, [1], [2])], [0], [2])
    Path("m.tflite").write_bytes(model([graph], None, [3]))
    code, _, err = ran(capsys, "export", "tflite", "m.tflite", "-o", "p.tflite")
    assert (code, err.split(":")[:2], Path("p.tflite").exists()) == (4, ["error", " m.tflite"], False)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("net.pt", "tmmu trace torch"), ("net.pth", "tmmu trace torch"), ("net.jit", "tmmu trace torch"),
        ("net.ckpt", "tmmu trace torch"), ("net.safetensors", "weights"), ("net.h5", "tf2onnx"),
        ("net.keras", "tf2onnx"), ("net.pb", "tf2onnx"), ("net.gguf", "tmmu session plan"),
    ],
)  # fmt: skip
def test_a_file_of_another_framework_names_the_way_to_a_model(
    capsys: pytest.CaptureFixture[str], name: str, way: str
) -> None:
    """spec: C2.9"""
    Path(name).write_bytes(b"PK\x03\x04 not a model of ours")
    for command in (("plan", name, "-o", "p.cbor"), ("show", name), ("report", name, "-o", "p.html"), ("run", name)):
        code, _, err = ran(capsys, *command)
        assert (code, way in err) == (4, True), command
    code, _, err = verified(capsys, name)
    assert (code, way in err) == (4, True)
