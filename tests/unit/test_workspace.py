"""Workspaces of kernels that the user states: planned as scratch, proved against the same file, and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proofs.readers.models.workspace import add_workspace as add_to_reference
from tests.support.commands import ran
from tests.support.onnx_files import IF, model_of, written
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Role
from tmmu.plans import file, workspace_file
from tmmu.plans.workspace_file import Need, Workspace

MODEL = model_of(
    """main (float[n,4,6,6] x) => (float[n,4,6,6] y) <float[4,4,1,1] w = {ONES}> {
      [one] a = Conv (x, w) [r] b = Relu (a) [two] c = Conv (b, w) [three] y = Conv (c, w)
    }""".replace("ONES", ", ".join("1" * 16))
)
STATED = """
[[operator]]
op = "Conv"
bytes = "1KiB"
alignment = 64
[[node]]
name = "two"
bytes = 4096
[[node]]
name = "three"
bytes = 0
"""


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model, with a file of workspaces in the folder."""
    monkeypatch.chdir(tmp_path)
    Path("w.toml").write_text(STATED)
    return written(tmp_path, MODEL)


def test_the_bytes_are_planned_for_their_step_and_proved(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Over a range too; the verdict lists them, and a run has room for them. spec: M4.1, V3.14"""
    flags = ("--workspace", "w.toml")
    code, _, err = ran(capsys, "plan", given, "--dim", "n=1..3", *flags, "-o", "p.plan.cbor")
    assert code == 0, err
    t = file.load("p.plan.cbor").plan.allocation.tensors
    rows = {
        name: (bytes_, alignment, birth, death)
        for name, bytes_, alignment, birth, death, role in zip(
            t.name.list(), *(c.tolist() for c in (t.bytes, t.alignment, t.birth, t.death)), t.role.tolist(), strict=True
        )
        if str(list(Role)[role]) == "scratch" or name.endswith(".scratch0")
    }
    assert rows == {"one.scratch0": (1024, 64, 0, 0), "two.scratch0": (4096, 1, 2, 2)}
    code, out, _ = ran(capsys, "verify", "p.plan.cbor", "--model", given, *flags, "--format", "json")
    found = json.loads(out)["files"][0]
    assert (code, found["verdict"]) == (0, "PROVED")
    assert found["assumptions"]["workspace"] == {"Conv": [1024, 64], "two": [4096, 1], "three": [0, 1]}
    assert (
        "workspace as given here: Conv=1024 bytes" in ran(capsys, "verify", "p.plan.cbor", "--model", given, *flags)[1]
    )
    assert ran(capsys, "run", given, "--plan", "p.plan.cbor", "--dim", "n=2", "--sanitize")[0] == 0


@pytest.mark.parametrize(
    "other",
    [
        "",
        STATED.replace("1KiB", "2KiB"),
        STATED.replace("64", "128"),
        STATED.replace('"three"\nbytes = 0', '"three"\nbytes = 8'),
    ],
)
def test_less_than_what_is_stated_to_the_verifier_is_refuted(
    given: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing, other bytes, another alignment, another node. spec: V3.14"""
    assert ran(capsys, "plan", given, "--dim", "n=1", "--workspace", "w.toml", "-o", "p.plan.cbor")[0] == 0
    Path("other.toml").write_text(other)
    flags = ("--workspace", "other.toml") if other else ()
    code, out, _ = ran(capsys, "verify", "p.plan.cbor", "--model", given, *flags)
    assert (code, "scratch0" in out) == (1, True), out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[kernel]]\nop = "Conv"', "unknown table 'kernel'"),
        ('[[operator]]\nop = "Conv"\nsize = 3', "unknown key 'size'"),
        ('[operator]\nop = "Conv"', "expected [[operator]]"), ("[[node]]\nbytes = 4", "stated once, got None"),
        ('[[operator]]\nop = "Conv"\nbytes = 1\n[[operator]]\nop = "ai.onnx::Conv"\nbytes = 1', "stated once"),
        ('[[operator]]\nop = "Conv"', "expected bytes"), ('[[operator]]\nop = "Conv"\nbytes = -1', "expected bytes"),
        ('[[operator]]\nop = "Conv"\nbytes = "much"', "expected bytes"),
        ('[[operator]]\nop = "Conv"\nbytes = true', "expected bytes"),
        ('[[operator]]\nop = "Conv"\nbytes = 1\nalignment = 3', "power of two"),
        ('[[operator]]\nop = "Conv"\nbytes = 1\nalignment = 0', "power of two"), ("=", "w.toml"),
        ('[[operator]]\nop = "MatMul"\nbytes = 1', "of the operator 'MatMul'"),
        ('[[node]]\nname = "four"\nbytes = 1', "of the node 'four'"),
    ],
)  # fmt: skip
def test_a_file_that_states_something_else_is_refused(
    given: str, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: M4.2"""
    Path("w.toml").write_text(text)
    code, _, err = ran(capsys, "plan", given, "--dim", "n=1", "--workspace", "w.toml")
    assert (code in (2, 4), says in err, err.count("\n")) == (True, True, 1), err


def test_what_it_does_not_go_with_is_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: M4.3"""
    for more in (("--mode", "backward"), ("--one-memory", "-o", "set"), ("--shard", "w.toml")):
        code, _, err = ran(capsys, "plan", given, "--dim", "n=1", "--workspace", "w.toml", *more)
        assert (code in (2, 4), "--workspace" in err) == (True, True), err
    assert ran(capsys, "plan", given, "--dim", "n=1", "-o", "p.plan.cbor")[0] == 0
    code, _, err = ran(capsys, "verify", "p.plan.cbor", "--workspace", "w.toml")
    assert (code, "--workspace goes with --model" in err) == (2, True)


def test_nodes_with_bodies_have_none_on_either_side(tmp_path: Path) -> None:
    """spec: M4.1, M4.2"""
    from proofs.readers.models.onnx import reference_of
    from tmmu.importers.onnx import import_resolved
    from tmmu.onnx import resolve
    from tmmu.tasks.planning import add_workspace

    found = resolve(written(tmp_path, model_of(IF)))
    stated = Workspace((("Add", Need(8, 4)),), (("pre", Need(16, 1)),))
    reference, model = add_to_reference(reference_of(found), stated), add_workspace(import_resolved(found), stated)
    theirs = {step.node for step in reference.steps if any(name.endswith(".scratch0") for name in step.reads)}
    ours = {node.name for node in model.nodes if node.scratch}
    assert theirs == ours == {"pre", *(node.name for node in model.nodes if node.op == "Add")}
    for wrong in (Workspace((("If", Need(1, 1)),)), Workspace((), (("pick", Need(1, 1)),))):
        for adds, what in ((add_to_reference, reference), (add_workspace, model)):
            with pytest.raises(TmmuError) as caught:
                adds(what, wrong)
            assert caught.value.code_id == "INVALID_BINDING"
    assert workspace_file.read({}) == Workspace()
