"""Plans and models are known by their content, whatever they are called. spec: C2.9"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from proofs.verify import entry as verifier
from tests.support.commands import ran
from tests.support.text_models import text_model
from tmmu.core import canonical
from tmmu.core.kind import HEAD, IR, ONNX, PLAN, is_ir, kind_of, kind_of_head
from tmmu.ir import columns, files
from tmmu.planner import plan_memory
from tmmu.plans import file
from tmmu.runtime import checkpoint
from tmmu.testing.strategies.models import numbered

CHAIN = text_model("node relu Relu x -> a", "node relu2 Relu a -> y")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plan, an IR file, an ONNX file and a checkpoint, none of which has a suffix."""
    file.save(plan_memory(CHAIN).plan, tmp_path / "plan")
    files.save(CHAIN, tmp_path / "ir")
    vectors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="r")], "g", vectors[:1], vectors[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "onnx")
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(plan_memory(CHAIN).plan))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("number", range(20))
def test_what_we_write_is_known_again(number: int) -> None:
    model = numbered(number)
    assert kind_of_head(canonical.encode(columns.to_object(model))[:HEAD]) == IR
    assert kind_of_head(file.encode(plan_memory(model).plan)[:HEAD]) == PLAN


@pytest.mark.parametrize(
    "head",
    [b"", b"\x08", b"\x08\x00", b"\x08\x80", b"\xb8\x20copt", b"\xb8", b"\xa0cops", b"\xb1copt", b"ops", b"\0" * 6],
)
def test_what_is_neither_is_not_guessed(head: bytes) -> None:
    assert kind_of_head(head) is None


def test_what_cannot_be_read_is_left_to_its_reader(folder: Path) -> None:
    os.mkfifo("pipe")
    found: list[str | None] = []
    asking = threading.Thread(target=lambda: found.append(kind_of("pipe")), daemon=True)
    asking.start()
    asking.join(10)
    assert found == [None]
    assert (kind_of("absent"), kind_of("."), kind_of("onnx")) == (None, None, ONNX)
    (folder / "torn.ir.cbor").write_bytes(b"no")
    assert (is_ir("torn.ir.cbor"), is_ir("ir"), is_ir("onnx")) == (True, True, False)


def test_every_command_takes_a_file_for_what_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for model in ("ir", "onnx"):
        assert ran(capsys, "plan", model, "-o", f"of-{model}")[0] == 0
        assert verifier.run([f"of-{model}", "--model", model]) == 0
        assert capsys.readouterr().out.startswith(f"PROVED of-{model} against {model}\n")
        assert ran(capsys, "compare", model)[0] == 0
    assert ran(capsys, "restore", "checkpoint")[0] == 0
    assert ran(capsys, "run", "plan")[1].startswith("IDENTICAL plan: 2 steps")
    assert ran(capsys, "run", "onnx", "--plan", "of-onnx")[1].startswith("IDENTICAL of-onnx: 1 step")
    for command in ("show", "apply"):
        assert ran(capsys, command, "plan")[0] == 0
