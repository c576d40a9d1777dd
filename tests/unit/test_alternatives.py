"""What `tmmu plan` says of another order or layout: a tenth or more, found by planning it, and never beyond a limit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.commands import ran
from tmmu.cli import alternatives
from tmmu.planner import PlanOptions

BRANCHES = """tmmu-ir-text 1
tensor x f32 4 input
tensor a f32 {wide}
tensor a1 f32 4
tensor b f32 {wide}
tensor b1 f32 4
tensor y f32 4 output
node na Wide x -> a
node nb Wide x -> b
node ra Narrow a -> a1
node rb Narrow b -> b1
node out Both a1 b1 -> y
"""


def planned(folder: Path, capsys: pytest.CaptureFixture[str], text: str, *flags: str) -> tuple[str, int]:
    """What `tmmu plan` prints, and the footprint of the activations."""
    (folder / "m.ir.txt").write_text(text)
    code, out, err = ran(capsys, "plan", str(folder / "m.ir.txt"), "-o", str(folder / "p.plan.cbor"), *flags)
    assert (code, err) == (0, "")
    line = next(line for line in out.splitlines() if line.startswith("  activations: footprint"))
    return out, int(line.split()[2])


def test_an_order_that_saves_a_tenth_is_named_with_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures are those of a plan in that order. spec: C3.3"""
    text = BRANCHES.format(wide=4096)
    given, more = planned(tmp_path, capsys, text)
    memory, less = planned(tmp_path, capsys, text, "--order", "memory")
    assert f"--order memory would need {less} bytes" in given
    assert f"{(more - less) * 100 // more}% less" in given
    assert "would need" not in memory


def test_less_than_a_tenth_is_not_worth_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C3.3"""
    text = BRANCHES.format(wide=4)
    assert "order memory" not in planned(tmp_path, capsys, text)[0]


def test_pools_are_compared_with_packed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C3.3"""
    text = BRANCHES.format(wide=4096)
    _, packed = planned(tmp_path, capsys, text)
    out, pools = planned(tmp_path, capsys, text, "--layout", "pools")
    assert ("--layout packed would need" in out) == (packed * 10 <= pools * 9)


def test_beyond_the_limit_it_is_said_that_nothing_was_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C3.3"""
    monkeypatch.setattr(alternatives, "MOST_STEPS", 4)
    monkeypatch.setattr(alternatives, "plan_memory", lambda *_, **__: pytest.fail("it was tried"))
    out, _ = planned(tmp_path, capsys, BRANCHES.format(wide=4096))
    assert "not tried for 5 nodes: --order memory, which may need less" in out


def test_nothing_is_tried_where_one_step_needs_it_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C3.3"""
    monkeypatch.setattr(alternatives, "plan_memory", lambda *_, **__: pytest.fail("it was tried"))
    text = "tmmu-ir-text 1\ntensor x f32 4096 input\ntensor y f32 4 output\nnode n Narrow x -> y\n"
    planned(tmp_path, capsys, text)


@pytest.mark.parametrize(
    ("layout", "order", "flags"),
    [
        ("slots", "given", ["--order memory"]), ("slots", "memory", []), ("packed", "given", ["--order memory"]),
        ("pools", "given", ["--order memory", "--layout packed"]), ("pools", "memory", ["--layout packed"]),
        ("hashed", "given", []),
    ],
)  # fmt: skip
def test_another_order_and_packed_pools_are_what_is_tried(layout: str, order: str, flags: list[str]) -> None:
    """spec: C3.3"""
    found = dict(alternatives._others(PlanOptions(layout=layout, order=order)))
    assert list(found) == flags
    assert [(options.layout, options.order) for options in found.values()] == [
        ("packed", order) if flag == "--layout packed" else (layout, "memory") for flag in flags
    ]


@pytest.mark.parametrize(
    ("needed", "least", "found", "percent"),
    [(100, 0, 90, 10), (100, 0, 91, None), (1000, 0, 333, 66), (100, 89, 10, 90), (100, 90, 10, None)],
)
def test_a_tenth_is_where_it_begins(
    needed: int, least: int, found: int, percent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C3.3"""
    asked: Any = SimpleNamespace(
        budget=None, options=PlanOptions(), graph=SimpleNamespace(nodes=[None]), arenas=(), policy=None
    )
    monkeypatch.setattr(alternatives, "plan_memory", lambda *_, **__: SimpleNamespace(plan="another"))
    monkeypatch.setattr(alternatives, "_bytes", lambda plan: needed if plan == "ours" else found)
    monkeypatch.setattr(alternatives, "_widest", lambda plan: least)
    ours: Any = "ours"
    lines = list(alternatives.remarks(asked, ours))
    assert [line.rpartition(", ")[2] for line in lines] == ([] if percent is None else [f"{percent}% less"])
    asked.budget = 1
    assert list(alternatives.remarks(asked, ours)) == []
