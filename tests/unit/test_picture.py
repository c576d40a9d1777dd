"""A refutation as a picture: rulers in a terminal, rectangles on a page. spec: C1.11, C1.12"""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from proofs.verify import picture
from proofs.verify.command import command
from proofs.verify.judge import verify
from tests.support.screenshots import RACE
from tmmu import Graph
from tmmu import plan as planned
from tmmu.examples.broken.editing import changed
from tmmu.plans import file

HOSTILE = "<script>alert(1)</script>"


def wrong(path: Path, name: str = "b") -> Path:
    """A plan in which two tensors that are live together have the same bytes."""
    g = Graph("g")
    x = g.input("x", (64,))
    a = g.node("Make", x, g.tensor("a", (64,)))
    b = g.node("Make", a, g.tensor(name, (64,)))
    g.output(g.node("Add", [a, b], g.tensor("y", (64,))))
    plan = planned(g).sections
    rows = {tensor: int(plan.allocation.tensors.storage[k]) for k, tensor in enumerate(plan.allocation.tensors.name)}
    offset = int(plan.allocation.storages.offset[rows["a"]])
    file.save(changed(plan, "storages", rows[name], offset=offset), path)
    return path


def test_rulers_show_when_and_where_the_tensors_of_a_witness_lie(tmp_path: Path) -> None:
    path = wrong(tmp_path / "w.plan.cbor")
    witness = verify(str(path)).witness
    assert witness is not None
    plan = file.load(path).plan
    tensors, addresses = plan.allocation.tensors, plan.allocation.addresses()
    rows = {name: row for row, name in enumerate(tensors.name)}
    assert {box["tensor"] for box in witness["boxes"]} == set(witness["tensors"]) == {"a", "b"}
    for box in witness["boxes"]:
        row = rows[box["tensor"]]
        assert (box["birth"], box["death"]) == (tensors.birth[row], tensors.death[row])
        assert (box["first_byte"], box["last_byte"]) == (addresses[row], addresses[row] + tensors.bytes[row] - 1)
    steps, *whens, mark, where, first, second = picture.in_text(witness)
    assert steps.split() == ["0", "steps", "2"]
    assert where.split()[1:-1] == ["bytes", "of", "activations"]
    assert mark.strip() == f"^ step {witness['steps'][0]}"
    # Both are live where the mark stands, and have the same bytes.
    at = mark.index("^")
    assert [line[at] for line in whens] == ["=", "="]
    assert first.split()[1] == second.split()[1] == "=" * picture.WIDTH


def test_rulers_keep_to_their_width_and_show_every_tensor() -> None:
    """However long the names, and however small a part of the ruler."""
    name = "n" * 99
    boxes = [
        {"tensor": name, "arena": "a", "birth": 0, "death": 10**9, "first_byte": 0, "last_byte": 2**63},
        {"tensor": "b", "arena": "a", "birth": 5, "death": 5, "first_byte": 9, "last_byte": 9},
    ]
    witness = {"boxes": boxes, "steps": [10**9], "arena": "a", "tensors": [name, "b"]}
    lines = list(picture.in_text(witness))
    assert all(len(line) <= picture.NAME + picture.WIDTH + 20 for line in lines)
    assert [line.count("=") for line in lines] == [0, picture.WIDTH, 1, 0, 0, picture.WIDTH, 1]
    assert list(picture.in_text({**witness, "boxes": []})) == []
    apart = [{**box, "arena": str(k)} for k, box in enumerate(boxes)]
    assert list(picture.in_text({**witness, "boxes": apart})) == []


def test_a_page_has_the_rectangles_and_loads_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = wrong(tmp_path / "w.plan.cbor", HOSTILE), tmp_path / "w.html"
    assert command.main([str(path), "--report", str(page)], standalone_mode=False) == 1
    text = page.read_text()
    assert "REFUTED" in text
    assert "<script" not in text
    assert html.escape(HOSTILE) in text
    assert not re.search("https?:|url\\(|src=", text)
    titles = re.findall("<title>([^<]+)</title>", text)
    assert [title.partition(":")[0] for title in titles[1:]] == ["a", html.escape(HOSTILE), "what the witness names"]
    drawn = re.findall(r"x='([0-9.]+)' y='([0-9.]+)' width='([0-9.]+)' height='([0-9.]+)'[^>]*><title>", text)
    (ax, ay, aw, ah), (_, by, _, bh), (wx, wy, ww, wh) = [tuple(map(float, one)) for one in drawn]
    assert (ay, ah) == (by, bh) == (wy, wh)  # the same bytes, which are the witness's
    assert ax <= wx
    assert wx + ww <= ax + aw + 0.2
    capsys.readouterr()


def test_a_race_is_marked_at_both_steps_with_axes_and_counts(tmp_path: Path) -> None:
    """Each axis has its name and whole ticks; what is grey is counted. spec: C1.12"""
    path = tmp_path / "r.plan.txt"
    path.write_text(RACE)
    verdict = verify(str(path))
    text = picture.page([(verdict, ["REFUTED"], file.load_any(path).plan)])
    marked = re.findall(r"x='([0-9.]+)'[^>]*><title>what the witness names", text)
    assert verdict.witness is not None
    assert len(marked) == len(set(marked)) == len(verdict.witness["steps"]) == 2
    words = re.findall(r"<text [^>]*>([^<]*)</text>", text)
    assert [word for word in words if not word.isdecimal()] == ["step", "bytes of act"]
    assert {"0", "1", "2", "3", "256", "512"} <= set(words)
    assert "in grey the 4 storages in view" in text
    assert text.count("stroke='#888888'></rect>") == 4


def test_a_life_that_ends_before_it_begins_is_drawn_too(tmp_path: Path) -> None:
    """The verifier prints the witness of any wrong plan, this one too."""
    box = {"tensor": "a", "arena": "a", "birth": 5, "death": 2, "first_byte": 0, "last_byte": 9}
    witness = {"boxes": [box], "steps": [], "arena": "a", "tensors": ["a"]}
    steps, line, *_ = picture.in_text(witness)
    assert (steps.split()[0], steps.split()[-1], line.count("=")) == ("2", "5", picture.WIDTH)


def test_a_page_has_every_file_that_was_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    g = Graph("g")
    g.output(g.node("Relu", g.input("x", (4,)), g.tensor("y", (4,))))
    planned(g).save(tmp_path / "right.plan.cbor")
    (tmp_path / "none").write_bytes(b"none")
    names = [str(tmp_path / "right.plan.cbor"), str(tmp_path / "none"), str(wrong(tmp_path / "w.plan.cbor"))]
    page = tmp_path / "all.html"
    assert command.main([*names, "--report", str(page)], standalone_mode=False) == 1
    text = page.read_text()
    assert [word in text for word in ("PROVED", "INVALID_PLAN", "REFUTED")] == [True] * 3
    assert text.count("<svg viewBox") == 1
    capsys.readouterr()


def test_a_page_does_not_take_the_place_of_what_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = wrong(tmp_path / "w.plan.cbor")
    before = path.read_bytes()
    from proofs.verify.entry import run

    code = run([str(path), "--report", str(path)])
    assert (code, "is read too" in capsys.readouterr().err) == (2, True)
    assert path.read_bytes() == before
