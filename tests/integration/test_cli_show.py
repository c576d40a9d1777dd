"""`tmmu show`: what a plan says, for people and for scripts; also of plans that are wrong.

spec: C2.3, C2.4, C2.6, C1.7, R3.2
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.example_models import full
from tests.support.text_models import text_model
from tmmu.cli.entry import run
from tmmu.core.output import escape_line, format_size
from tmmu.examples.broken.editing import changed
from tmmu.planner import plan_memory
from tmmu.plans import file, metrics
from tmmu.plans.provenance import HASHES
from tmmu.plans.sections import Plan, amend_plan

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file.save(plan_memory(full()).plan, tmp_path / "p.cbor")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = run(["show", *arguments])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def plan() -> Plan:
    return plan_memory(full()).plan


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        ((1 << 20) - 1, "1024.00 KiB"),
        (1 << 20, "1.00 MiB"),
        ((1 << 64) - 1, "16.00 EiB"),
        (1 << 74, "16384.00 EiB"),
    ],
)
def test_sizes_have_units(count: int, text: str) -> None:
    assert format_size(count) == text


def test_a_plan_is_described_in_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "p.cbor").splitlines()
    assert lines[0].startswith(f"small: 6 steps, 11 tensors, {len(plan().allocation.storages)} storages; ")
    assert "  bindings: n=4, rate=16000, x=4x16" in lines
    assert "  defaults: k=3" in lines
    assert "  donated: s, x" in lines
    assert any(line.startswith("  trusted: ") for line in lines)
    for arena in metrics.arena_records(plan()):
        [line] = [line for line in lines if line.startswith(f"  {arena['name']}: footprint ")]
        for number in ("footprint_bytes", "peak_live_bytes", "slots", "max_live"):
            assert str(arena[number]) in line
        assert f"ratio {arena['footprint_per_peak']:.3f}" in line
    peak = plan().usage[2].peak_step
    live = metrics.storages_at_peak(plan(), 2)
    node = plan().allocation.steps.node
    share = f"{len(live)} of {len(live)}, 100.0% of the live bytes"
    at = lines.index(f"  largest in activations at its peak, step {peak} ({node[peak]}): {share}")
    rows = [line.split() for line in lines[at + 1 : at + 1 + len(live)]]
    assert [(row[3], row[-1]) for row in rows] == [(name, node[death]) for name, _, _, death in live]
    assert sum(float(row[2].rstrip("%")) for row in rows) == pytest.approx(100, abs=0.1 * len(live))
    assert not any("largest in parameters" in line for line in lines)  # nothing there dies


def test_a_plan_is_described_in_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown(capsys, "p.cbor", "--format", "json"))
    assert found["arenas"] == metrics.arena_records(plan())
    assert (found["steps"], found["tensors"], found["unproduced"]) == (6, 11, ["mask"])
    assert found["bindings"]["shapes"] == {"x": [4, 16]}
    hashes = file.compute_hashes(plan())
    assert {name: found[name] for name in HASHES} == {name: hashes[name].hex() for name in HASHES}
    assert (found["source_digest"], found["replay_token"]) == ("00" * 32, plan().origin.replay_token.hex())
    file.save(plan_memory(text_model("node relu Relu x -> y")).plan, folder / "p.cbor")
    assert json.loads(shown(capsys, "p.cbor", "--format", "json"))["source_digest"] is None


@pytest.mark.parametrize("what", ["tensors", "steps"])
def test_rows_are_given_as_json_and_as_csv(folder: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    rows: list[dict[str, Any]] = metrics.tensor_records(plan()) if what == "tensors" else metrics.step_records(plan())
    assert json.loads(shown(capsys, "p.cbor", f"--{what}", "--format", "json")) == {what: rows}
    read = list(csv.DictReader(io.StringIO(shown(capsys, "p.cbor", f"--{what}", "--format", "csv"))))
    assert list(read[0]) == list(rows[0])
    expected = [
        {k: " ".join(v) if isinstance(v, list) else "" if v is None else str(v) for k, v in r.items()} for r in rows
    ]
    assert read == expected


def test_tensors_and_steps_have_a_line_each(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = shown(capsys, "p.cbor", "--tensors").splitlines()
    assert len(tensors) == len(plan().allocation.tensors)
    assert next(line for line in tensors if line.startswith("square ")).endswith(" view of sum")
    steps = shown(capsys, "p.cbor", "--steps").splitlines()
    assert steps[1] == "1 reshape Reshape whole: sum -> square"
    assert steps[3] == "3 relu Relu whole in loop1/body: i -> o"
    assert [step.split()[3].rstrip(":") for step in steps] == ["whole", "whole", "enter", "whole", "leave", "whole"]


def test_a_plan_of_nothing_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: M3.6"""
    file.save(plan_memory(text_model(inputs="", outputs="")).plan, folder / "p.cbor")
    assert shown(capsys, "p.cbor").startswith("small: 0 steps, 0 tensors, 0 storages; ")
    for what in ("tensors", "steps"):
        assert shown(capsys, "p.cbor", f"--{what}", "--format", "csv") == "\n"
        assert json.loads(shown(capsys, "p.cbor", f"--{what}", "--format", "json")) == {what: []}
        assert shown(capsys, "p.cbor", f"--{what}") == ""
    file.save(plan_memory(text_model(outputs="x")).plan, folder / "p.cbor")
    assert " step 0 (no step): 1 of 1, 100.0% of the live bytes\n" in shown(capsys, "p.cbor")


def test_wrong_plans_are_shown_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever passes the gate: whether it is right is not asked here."""
    wrong = changed(plan(), "storages", 0, offset=(1 << 64) - 1, birth=5, death=0, slot=0)
    wrong = changed(wrong, "tensors", "y", storage=0, window=(1 << 64) - 1, birth=9)
    wrong = amend_plan(wrong, usage=tuple(used._replace(footprint=(1 << 64) - 1, slots=0) for used in wrong.usage))
    file.save(wrong, folder / "p.cbor")
    for arguments in ((), ("--format", "json"), ("--tensors",), ("--steps", "--format", "csv")):
        assert shown(capsys, "p.cbor", *arguments)


def test_a_hostile_name_begins_no_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\nPROVED p.cbor\x1b[2J"
    model = text_model("node relu Relu x -> y")
    model = replace(model, tensors=(model.tensors[0], replace(model.tensors[1], name=name)), name=name)
    file.save(plan_memory(model).plan, folder / "p.cbor")
    for arguments in ((), ("--tensors",), ("--steps",)):
        lines = shown(capsys, "p.cbor", *arguments).splitlines()
        assert all(line.isprintable() and not line.startswith("PROVED") for line in lines)
    for what in ("--tensors", "--steps", "--storages"):
        assert all(line.isprintable() for line in shown(capsys, "p.cbor", what, "--format", "csv").splitlines())
    rows = list(csv.DictReader(io.StringIO(shown(capsys, "p.cbor", "--tensors", "--format", "csv"))))
    assert [row["name"] for row in rows] == ["x", "a\\nPROVED p.cbor\\x1b[2J"]


@pytest.mark.parametrize("name", ["=HYPERLINK(A1)", "+1", "-1", "@SUM", "\t=1", "\r=1", " =1", "1=1"])
def test_no_name_is_a_formula_to_a_spreadsheet(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """In a column of names and in one of lists of names; JSON gives every name as it is. spec: C2.8"""
    model = text_model("node relu Relu x -> y")
    model = replace(model, tensors=(model.tensors[0], replace(model.tensors[1], name=name)))
    file.save(plan_memory(model).plan, folder / "p.cbor")
    for what, key in (("tensors", "name"), ("steps", "writes")):
        rows = list(csv.DictReader(io.StringIO(shown(capsys, "p.cbor", f"--{what}", "--format", "csv"))))
        assert rows[-1][key] == ("'" if name[0] in "=+-@" else "") + escape_line(name)
        assert name in json.loads(shown(capsys, "p.cbor", f"--{what}", "--format", "json"))[what][-1][key]


def test_a_reader_of_the_first_line_ends_the_command_quietly(folder: Path) -> None:
    """The plan is long enough for more than one buffer."""
    lines = [f"node add{k} Add a{k} -> a{k + 1}" for k in range(3000)]
    file.save(plan_memory(text_model(*lines, inputs="a0", outputs="a3000")).plan, folder / "p.cbor")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tmmu.cli.entry", "show", "p.cbor", "--tensors"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"a0  activations")
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), errors) == (0, b"")
