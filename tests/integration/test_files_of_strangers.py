"""Every file that a command reads may be a pipe, a folder, or the bytes of a stranger: an error, at once, and no crash.

The command lines are the examples of the help texts, so that a new command or a new option that reads a file is tried
without a word here. Each file of a line is replaced in turn, and each further option that takes a file is added.
spec: RE3.1, RE3.3, RE3.7, RE3.8, RE6.1
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

from proofs.proving.lemmas.engine.record import is_on_record as on_record
from proofs.verify import judge
from proofs.verify.fleet.results import Results
from proofs.verify.options import Options
from proofs.verify.verdict import Verdict
from tests.support.every_command import every_command, examples_of
from tests.support.small_llama import file_of
from tests.support.time_limit import time_limit
from tmmu import examples
from tmmu.cli.entry import run
from tmmu.core import process
from tmmu.core.errors import TmmuError
from tmmu.core.flags import Folder, Output
from tmmu.core.process import run_command
from tmmu.core.source import Source

CORPUS = Path(__file__).parents[1] / "corpus" / "foreign" / "proved"
Captured = pytest.CaptureFixture[str]
COMMANDS = every_command()
MODULES = {
    "verify-plan": "proofs.verify.command", "prove-lemmas": "proofs.proving.lemmas.command",
    "check-models": "proofs.model_check.command",
}  # fmt: skip
MADE_BY = (
    "plan mlp.onnx -o unet.plan.cbor", "plan mlp.onnx -o unet.plan.txt", "apply unet.plan.cbor --trace run.trace",
    "apply unet.plan.cbor --journal run.journal", "checkpoint unet.plan.cbor -o unet.checkpoint",
    "mnemosyne put store v.npy --key key",
)  # fmt: skip
SECONDS = 10
"""A refusal that takes longer has waited for something."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working folder with a right file for each name in the examples, and hostile files in `hostile`."""
    path = tmp_path_factory.mktemp("strangers")
    with contextlib.chdir(path):
        examples.write("mico-mlp", "mlp.onnx", 1)
        np.save("v.npy", np.random.default_rng(1).standard_normal((16, 32)).astype("f2"))
        np.savez("x.npz", x=np.zeros((1, 256), "f4"))
        for name in ("key", "next"):
            Path(name).write_bytes(bytes(range(32)))
            Path(name).chmod(0o600)
        for name, given in (("buffers.csv", "minimalloc-touching.csv"), ("model.tflite", "tflite-cnn.tflite")):
            Path(name).write_bytes((CORPUS / given).read_bytes())
        Path("m.gguf").write_bytes(file_of().read_bytes())
        for line in MADE_BY:
            assert run(shlex.split(line)) == 0, line
        Path("hostile").mkdir()
        os.mkfifo("hostile/pipe")
        Path("hostile/folder").mkdir()
        Path("hostile/brackets").write_bytes(b"[" * 100_000)
        Path("hostile/nothing").write_bytes(b"")
        Path("hostile/bytes").write_bytes(bytes(range(255, -1, -1)) * 4)
        yield path


def reads_files(parameter: click.Parameter) -> bool:
    """Whether the parameter names a file that is read, or a store or record that is read first."""
    return isinstance(parameter.type, click.Path) and not isinstance(parameter.type, (Output, Folder))


RIGHT = {
    ".onnx": "mlp.onnx", ".cbor": "unet.plan.cbor", ".txt": "unet.plan.txt", ".trace": "run.trace", ".npy": "v.npy",
    ".gguf": "m.gguf", ".csv": "buffers.csv", ".tflite": "model.tflite", ".npz": "x.npz",
    ".checkpoint": "unet.checkpoint", ".journal": "run.journal",
}  # fmt: skip
"""The right file for a name of an example, by its suffix."""
LEFT_OUT = ("tmmu kernel", "prove-lemmas", "tmmu check-planner", "tmmu trace torch", "tmmu trace jax", "tmmu survey",
            "tmmu explain --list")  # fmt: skip
"""Commands that read no file of a format, or run what the user names."""


def lines(hostile: str) -> Iterator[tuple[str, list[str]]]:
    """The command lines with one hostile file each: the name of the command, and its arguments."""
    for words, command in COMMANDS.items():
        if words.startswith(LEFT_OUT):
            continue
        name, *sub = words.split()
        line = next(line for line in examples_of(command) if "|" not in line)
        given = shlex.split(line.partition(" > ")[0])[len(words.split()) :]
        given = [right_name(word) for word in given]
        for at, word in enumerate(given):
            written = at > 0 and given[at - 1] in ("-o", "--output", "--trace", "--journal", "--ledger", "--events")
            if os.path.exists(word) and not written:
                yield name, [*sub, *given[:at], hostile, *given[at + 1 :]]
        for parameter in command.params:
            if isinstance(parameter, click.Option) and reads_files(parameter) and parameter.opts[-1] not in given:
                yield name, [*sub, *given, parameter.opts[-1], hostile]


def right_name(word: str) -> str:
    """A file that is there, in place of a name in an example."""
    suffix = os.path.splitext(word)[1]
    return word if os.path.exists(word) or suffix not in RIGHT or "*" in word else RIGHT[suffix]


def answer(name: str, arguments: list[str]) -> int:
    with time_limit(SECONDS, TimeoutError(f"no end within {SECONDS} s")):
        return run(arguments) if name == "tmmu" else run_command(MODULES[name], arguments)


@pytest.mark.parametrize("hostile", ["pipe", "folder", "brackets", "nothing", "bytes"])
def test_a_hostile_file_is_an_error_of_every_command_that_reads_it(
    hostile: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(folder)
    unexpected: list[BaseException] = []
    monkeypatch.setattr(process, "OBSERVERS", [unexpected.append])
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    tried = 0
    for name, arguments in lines(f"hostile/{hostile}"):
        code = answer(name, arguments)
        said = capsys.readouterr()
        assert code in (0, 1, 2, 3, 4), (name, arguments, said)
        assert unexpected == [], (name, arguments)
        tried += 1
    assert tried > 50


def changed(record: Path, **fields: object) -> str:
    """The text of a kept verdict with other fields, under its right digest."""
    found = json.loads(record.read_bytes())
    verdict = found["verdict"] | fields
    text = json.dumps(verdict, sort_keys=True)
    return json.dumps(found | {"verdict": verdict, "digest": hashlib.sha256(text.encode()).hexdigest()})


WRONG: tuple[dict[str, object], ...] = (
    {"notes": 5}, {"notes": [["a"]]}, {"verdict": ["PROVED"]}, {"exit": "0"}, {"exit": 1}, {"assumptions": {}},
    {"more": 1}, {"obligations": [5]}, {"not_looked_at": {"a": 1}}, {"witness": {"tensors": 4}}, {"proved": "ab"},
    {"reading": {"a": 1}}, {"obligations": [{"name": 1, "verdict": "PROVED"}]},
)  # fmt: skip


def test_a_record_of_an_earlier_run_that_is_damaged_does_not_count(folder: Path, tmp_path: Path) -> None:
    """A kept verdict is used if every field has its type. A pipe in its place is not waited for. spec: RE3.1, RE3.6"""
    kept, record = Results(str(tmp_path)), tmp_path / "key.json"
    plan = str(folder / "unet.plan.cbor")
    kept.keep("key", judge.judge(plan, judge.open_plan(plan, Options()), Options()))
    whole = record.read_bytes()

    def take() -> Verdict | None:
        with time_limit(SECONDS, TimeoutError(f"no end within {SECONDS} s")):
            return kept.taken("key", plan, None)

    assert take() is not None
    texts = [changed(record, **fields) for fields in WRONG]
    for text in (*texts, "[" * 100_000, "", "[]", '{"verdict": []}', "\xff"):
        record.write_bytes(text.encode("latin-1"))
        assert take() is None, text[:300]
    record.write_bytes(whole)
    assert take() is not None
    record.unlink()
    os.mkfifo(record)
    assert take() is None
    assert not on_record(record, "key")


@pytest.mark.parametrize("name", ["manifest.json", "f/M.cfg"])
def test_a_manifest_that_is_a_pipe_or_nests_is_an_error(name: str, tmp_path: Path, capsys: Captured) -> None:
    module = {"module": "M", "folder": "f", "statement": "", "models": [{"name": "M", "root": "M"}], "twins": []}
    (tmp_path / "manifest.json").write_text(json.dumps({"modules": [module]}))
    (tmp_path / "f").mkdir()
    for content in (None, b"[" * 100_000, b"\xff", b""):
        (tmp_path / name).unlink(missing_ok=True)
        if content is None:
            os.mkfifo(tmp_path / name)
        else:
            (tmp_path / name).write_bytes(content)
        assert answer("check-models", ["--directory", str(tmp_path), "--list"]) == 1
        assert str(tmp_path / name) in capsys.readouterr().err or content == b""


def test_names_that_are_not_utf_8_are_printed_and_written_with_escapes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: RE3.8"""
    monkeypatch.chdir(folder)
    odd = os.fsdecode(b"p\xff\n.plan.cbor")
    Path(odd).write_bytes(Path("unet.plan.cbor").read_bytes())
    page = str(tmp_path / os.fsdecode(b"\xff.html"))
    for name, arguments in (
        ("verify-plan", [odd, "--report", page, "--definition-limit", "0"]), ("tmmu", ["show", odd]),
        ("tmmu", ["report", odd, "-o", str(tmp_path / os.fsdecode(b"x\xff.svg"))]), ("tmmu", ["explain", odd]),
        *(("verify-plan", [odd, "--format", style, "--definition-limit", "0"]) for style in ("json", "junit")),
    ):  # fmt: skip
        assert answer(name, arguments) == 0, (name, arguments)
    assert "p\\udcff\\n.plan.cbor" in Path(page).read_text()


def test_a_closed_standard_input_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Python has no stream then; one that was opened for writing raises an error when it is read. spec: RE3.1"""
    monkeypatch.setattr(sys, "stdin", None)
    assert answer("verify-plan", ["-"]) == 4
    with open(tmp_path / "written", "w") as written:
        monkeypatch.setattr(sys, "stdin", written)
        with pytest.raises(TmmuError, match="the standard input cannot be read"):
            Source.opened("-")
