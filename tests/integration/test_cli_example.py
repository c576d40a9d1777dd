"""`tmmu example` and the command itself: names, help, and one clear line for what is wrong. spec: C2.6, C2.5"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tmmu.cli.commands
from proofs.verify import entry as verify_entry
from tmmu import examples
from tmmu.cli.entry import run

ROOT = Path(__file__).resolve().parents[2]


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_every_name_is_listed_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, "example", "--list")
    assert (code, out.splitlines(), err) == (0, examples.names(), "")


def test_an_example_is_written_where_it_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "c.onnx"
    assert ran(capsys, "example", "chain", "-o", str(target)) == (0, f"wrote {target}\n", "")
    assert target.stat().st_size > 0
    plan = tmp_path / "b.cbor"
    code, out, _ = ran(capsys, "example", "broken/in-place-read-later", "-o", str(plan))
    assert (code, out.splitlines()[0]) == (0, f"wrote {plan}")
    assert verify_entry.run([str(plan)]) == 1


def test_the_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["-h"], ["plan", "--help"], ["show", "-h"], ["example", "-h"]):
        code, out, err = ran(capsys, *arguments)
        assert (code, err) == (0, "")
        assert out.startswith("Usage: ")
    assert ran(capsys)[0] == 2  # the help, as what to do is not said
    assert ran(capsys, "prove")[0] == 2


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("boom"), 70, "internal error"),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_every_end_has_its_code(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    said: str,
) -> None:
    def ends(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr(tmmu.cli.commands.tmmu, "main", ends)
    found, out, err = ran(capsys, "example", "--list")
    assert (found, out) == (code, "")
    assert said in err


def test_the_process_exits_with_the_code(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for arguments, code in ((["example", "--list"], 0), (["plan", "absent"], 2), (["show", __file__], 4)):
        command = [sys.executable, "-m", "tmmu.cli.entry", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
        assert done.returncode == code
        assert len(done.stderr.splitlines()) == (code != 0)
