"""`tmmu trace torch|jax`: what is wrong is one clear line, with the framework and without. spec: C2.6, I2.8"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.traced import step
from tmmu.cli.entry import run
from tmmu.core.errors import TmmuError
from tmmu.importers import torch as tracer
from tmmu.importers.traced import TrainingTrace
from tmmu.ir import files

MODULE = """
def step():
    return "a step"

def boom():
    raise ValueError("two\\nlines")

def silent():
    raise RuntimeError

def lost():
    import nothing_of_that_name

answer = 42
"""


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for torch, and a module that describes steps; the importer makes the trace of a hand-written step."""
    (tmp_path / "steps.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", type(sys)("torch"))

    def trace(make: Callable[[], object], name: str) -> TrainingTrace:
        assert make() == "a step"
        trace = step()
        trace.name = name
        return trace

    monkeypatch.setattr(tracer, "trace", trace)
    monkeypatch.delitem(sys.modules, "steps", raising=False)
    return tmp_path


@pytest.mark.parametrize("named", ["steps:step", "steps.py:step", "./steps.py:step"])
def test_a_step_is_written_as_a_model(framework: Path, capsys: pytest.CaptureFixture[str], named: str) -> None:
    path = list(sys.path)
    assert run(["trace", "torch", named]) == 0
    first, _, counts = capsys.readouterr().out.splitlines()
    assert (first, re.findall("[0-9]+", counts)) == ("wrote step.ir.cbor", ["7", "4", "3", "0", "10", "256"])
    assert files.load(framework / "step.ir.cbor").name == "step"
    assert sys.path == path


BAD = [
    (("steps:step", "-o", "missing/m.ir.cbor"), 4, "missing/m.ir.cbor: "),
    (("absent:step",), 4, "absent:step: "),
    (("absent.py:step",), 4, "FileNotFoundError"),
    (("steps:absent",), 4, "steps:absent: "),
    (("steps:answer",), 4, "steps:answer: "),
    (("steps:boom",), 4, "ValueError: two; "),
    (("steps:silent",), 4, "RuntimeError;"),
    (("steps:lost",), 4, "'nothing_of_that_name'"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), BAD, ids=[" ".join(a) for a, _, _ in BAD])
def test_bad_input_is_one_clear_line_and_nothing_is_written(
    framework: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, message: str
) -> None:
    before = sorted(framework.iterdir())
    assert run(["trace", "torch", *arguments]) == code
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert message in err
    assert [p for p in sorted(framework.iterdir()) if p.name != "__pycache__"] == before


def test_the_traceback_is_shown_where_it_is_asked_for(framework: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", "torch", "steps:boom", "--traceback"]) == 4
    assert 'steps.py", line' in capsys.readouterr().err


def test_a_refusal_of_the_importer_names_the_callable(
    framework: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> TrainingTrace:
        raise TmmuError("INVALID_IR", "no", place="parameter 'w'")

    monkeypatch.setattr(tracer, "trace", refuses)
    assert run(["trace", "torch", "steps:step"]) == 4
    assert "steps:step: parameter 'w': " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_framework_that_is_not_there_is_named_with_the_command_that_installs_it(
    framework: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [str(framework)])
    assert run(["trace", name, "steps:step"]) == 2
    assert f"tracing needs the package {name}; pip install" in capsys.readouterr().err
