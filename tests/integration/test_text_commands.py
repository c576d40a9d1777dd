"""Text plans and text models in every command, and the examples of their pages. spec: C2.10, X1.6, X3.1"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from proofs.verify import entry as verifier
from tests.support.commands import ran
from tmmu import examples
from tmmu.core.kind import IR, PLAN, kind_of
from tmmu.ir import columns, files
from tmmu.plans import file

SPEC = Path(__file__).resolve().parents[2] / "spec"
PLANS, MODELS = (
    re.findall(r"^```\n(tmmu-.+?)^```$", (SPEC / name).read_text(), re.MULTILINE | re.DOTALL)
    for name in ("text-plan.md", "text-ir.md")
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def judged(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The verdict on one file as JSON."""
    verifier.run([*arguments, "--format", "json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["files"][0]
    return found


def test_the_plans_of_the_page_have_the_verdicts_that_it_states(capsys: pytest.CaptureFixture[str]) -> None:
    """A line that is marked wrong is why a plan is refuted; without the mark's tensor it is proved. spec: X1.6, X2.6"""
    assert len(PLANS) == 4
    for text in PLANS:
        Path("p.plan.txt").write_text(text)
        wrong = re.search(r"^tensor (\w+).*# wrong", text, re.MULTILINE)
        verdict = judged(capsys, "p.plan.txt")
        assert verdict["verdict"] == ("REFUTED" if wrong else "PROVED"), verdict
        assert wrong is None or wrong[1] in verdict["witness"]["tensors"]


def test_the_model_of_the_page_is_planned_and_proved(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: X3.1, X3.5, X3.7"""
    (text,) = MODELS
    Path("g.ir.txt").write_text(text)
    assert ran(capsys, "plan", "g.ir.txt")[0] == 0
    assert judged(capsys, "g.plan.cbor", "--model", "g.ir.txt")["verdict"] == "PROVED"
    plan = file.load("g.plan.cbor").plan
    assert list(plan.allocation.steps.node) == re.findall(r"^order (.+)$", text, re.MULTILINE)[0].split()
    assert plan.origin.ir_hash == columns.model_digest(files.load("g.ir.txt"))


def test_a_text_has_the_verdict_of_the_binary_plan_that_states_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the hashes, which a text does not state, are not compared. spec: X1.6"""
    examples.write("text-plan", "right.plan.txt")
    right = Path("right.plan.txt").read_text()
    Path("wrong.plan.txt").write_text(right.replace("tensor y 256 act   0", "tensor y 256 act 512"))
    Path("odd.plan.txt").write_text(right.replace("tensor w 256 act 256", "tensor w 256 act 264"))
    for name, expected in (("right", "PROVED"), ("wrong", "REFUTED"), ("odd", "REFUTED")):
        file.save(file.load(f"{name}.plan.txt").plan, f"{name}.cbor")
        text, binary = judged(capsys, f"{name}.plan.txt"), judged(capsys, f"{name}.cbor")
        assert (text["verdict"], text["witness"]) == (expected, binary["witness"])
        assert (text["scope"], text["proved"]) == ("for the steps it states", binary["proved"])
        if expected == "PROVED":
            assert {*binary["compared"]} - {*text["compared"]} == {"hashes"}
            assert "hashes" in text["not_looked_at"]
            assert any("computed from the steps" in note for note in text["notes"])


def test_claims_of_a_text_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: X2.7"""
    examples.write("text-plan", "p.plan.txt")
    right = Path("p.plan.txt").read_text()
    for claim, verdict in (
        ("slots act 3", "PROVED"), ("slots act 2", "REFUTED"), ("peak act 768", "PROVED"), ("peak act 767", "REFUTED"),
        ("footprint act 768", "PROVED"), ("footprint act 769", "REFUTED"),
    ):  # fmt: skip
        Path("p.plan.txt").write_text(f"{right}claim {claim}\n")
        assert judged(capsys, "p.plan.txt")["verdict"] == verdict, claim


def test_a_file_is_shown_as_text_that_states_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C2.10, X2.8, X3.10, C2.9"""
    examples.write("text-model", "g")
    examples.write("chain", "c.onnx")
    for model in ("g", "c.onnx"):
        code, out, _ = ran(capsys, "show", model, "--as", "text")
        Path("again").write_text(out)
        assert (code, kind_of("again")) == (0, IR)
        assert ran(capsys, "plan", model, "-o", "p")[0] == ran(capsys, "plan", "again", "-o", "q")[0] == 0
        assert file.load("p").plan.origin.ir_hash == file.load("q").plan.origin.ir_hash
        code, out, _ = ran(capsys, "show", "p", "--as", "text")
        Path("p.txt").write_text(out)
        assert (code, kind_of("p.txt")) == (0, PLAN)
        assert file.load("p.txt").plan.allocation == file.load("p").plan.allocation
        assert judged(capsys, "p.txt")["verdict"] == "PROVED"
    Path("b.plan.txt").write_text(PLANS[1])
    assert ran(capsys, "show", "b.plan.txt", "--as", "text")[0] == 0
    examples.write("gpt2", "gpt2.onnx")
    code, out, _ = ran(capsys, "show", "gpt2.onnx", "--as", "text", "--dim", "batch=1", "--dim", "seq=1..64")
    assert (code, "\ndim seq 1 64\n" in out, " 1xseqx768 " in out) == (0, True, True)


BUFFERS = "tmmu-plan-text 1\narena a 64\nbuffer x 16 a 0 live 0 2\nbuffer y 16 a 16 live 1 3\n"


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ("", "PROVED"), ("claim slots a 2", "PROVED"), ("claim slots a 9", "REFUTED"), ("claim slots a 1", "REFUTED"),
        ("claim footprint a 32", "PROVED"), ("claim footprint a 48", "REFUTED"), ("claim peak a 32", "PROVED"),
        ("claim peak a 48", "REFUTED"),
    ],
)  # fmt: skip
def test_what_is_claimed_of_lifetimes_is_compared(claim: str, verdict: str, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: P2.6, V5.1"""
    Path("p.plan.txt").write_text(f"{BUFFERS}{claim}\n")
    assert judged(capsys, "p.plan.txt")["verdict"] == verdict
    assert judged(capsys, "p.plan.txt", "--require", "slot-count")["exit"] == {"REFUTED": 1}.get(verdict, 3)


@pytest.mark.parametrize(("capacity", "verdict"), [(64, "PROVED"), (128, "REFUTED")])
def test_the_arenas_of_lifetimes_are_compared(capacity: int, verdict: str, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: V3.11, P2.6"""
    Path("p.plan.txt").write_text(BUFFERS)
    Path("a.toml").write_text(f"[arenas.a]\nroles = ['activation']\ncapacity = {capacity}\nalignment = 1\n")
    assert judged(capsys, "p.plan.txt", "--arenas", "a.toml")["verdict"] == verdict


def test_what_a_text_plan_leaves_out_is_not_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: P2.5, V3.12"""
    lines = "arena a 64\ntensor x 8 a 0 input\ntensor y 8 a 8 output\nstep r Relu x -> y\n"
    Path("p.plan.txt").write_text(f"tmmu-plan-text 1\n{lines}unproduced mask\nclaim peak a 16\n")
    found = judged(capsys, "p.plan.txt")["not_looked_at"]
    assert (found["unproduced"], found["roles_have_arenas"]) == ("no model is given", "no configuration is claimed")
    assert ("slot_count" in found, "peak" in found) == (True, False)


def test_what_cannot_be_required_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.plan.txt").write_text(BUFFERS)
    assert verifier.run(["p.plan.txt", "--require", "model,nonsense"]) == 2
    assert "'nonsense' is not one of" in capsys.readouterr().err
