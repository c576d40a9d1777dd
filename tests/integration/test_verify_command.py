"""verify-plan: exit codes, formats, one clear line for each bad input, and no crash that looks like a verdict.

spec: C1.1, C1.2, C1.3, C1.4, C1.6, C1.7, C1.8, C2.6, R5.2, V4.6
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import io
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import click
import pytest

import proofs.proving.lemmas.entry
import proofs.verify.entry
import tmmu.cli.entry
from proofs.proving.kernel import installed
from proofs.proving.solvers import kept
from proofs.verify import judge as verify_plan
from proofs.verify.entry import run
from proofs.verify.options import Disagreement, Options, Solving
from proofs.verify.verdict import EXECUTION, Verdict
from tests.support.sharded import plans as ranks
from tests.support.terminal import Terminal
from tests.support.text_models import text_model
from tmmu import examples
from tmmu.core import process as entry
from tmmu.core import progress
from tmmu.core.errors import TmmuError
from tmmu.core.process import WORST_FIRST, explain
from tmmu.core.vocabulary import Bindings, Model
from tmmu.examples.broken.editing import changed
from tmmu.ir import files
from tmmu.planner import plan_memory
from tmmu.plans import file
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import amend_plan

ROOT = Path(__file__).resolve().parents[2]
CHAIN = text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y")


def bound() -> Model:
    return replace(CHAIN, bindings=Bindings({"n": 4}, {"x": (64,)}, {"rate": "16"}))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a right plan, a wrong one, bytes that are none, and the model; it is where the command runs."""
    plan = plan_memory(bound()).plan
    file.save(plan, tmp_path / "right.cbor")
    file.save(changed(plan, "tensors", "y", birth=1), tmp_path / "wrong.cbor")
    (tmp_path / "none.cbor").write_bytes(b"no plan")
    files.save(bound(), tmp_path / "m.ir.cbor")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code of a command line, and what it printed."""
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_every_file_is_answered_and_the_first_code_of_the_order_counts(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {0: "right.cbor", 1: "wrong.cbor", 4: "none.cbor", 3: "open.cbor"}
    (folder / "open.cbor").write_bytes((folder / "right.cbor").read_bytes())
    assert WORST_FIRST == (70, 1, 2, 4, 3, 0)

    def judge(path: str, *_: object) -> Verdict:
        code = next(code for code, name in names.items() if name == path)
        word = {0: "PROVED", 1: "REFUTED", 3: "UNKNOWN"}[code]
        keys = (
            "dims",
            "ranges",
            "shapes",
            "values",
            "defaults",
            "donated",
            "believed_operators",
            "assumed_sizes",
            "stated_sizes",
            "steps",
            "arenas",
            "devices",
            "rules",
            "overwritten_inputs",
            "bases",
        )
        assumed: dict[str, Any] = {key: {} for key in (*keys, "trusted_shapes")} | {"execution": EXECUTION}
        return Verdict(path, word, code, "for the steps it states", assumptions=assumed)

    monkeypatch.setattr(verify_plan, "judge", judge)
    for count in (1, 2, 3):
        for codes in product(names, repeat=count):
            code, out, err = ran(capsys, *(names[code] for code in codes))
            assert code == next(first for first in WORST_FIRST if first in codes)
            lines = [line for line in (out + err).splitlines() if not line.startswith("  ")]
            assert len(lines) == count


def test_an_exception_for_one_file_counts_before_every_verdict(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = verify_plan.judge

    def judge(path: str, *rest: Any) -> Verdict:
        if path == "right.cbor":
            raise RuntimeError("boom")
        return real(path, *rest)

    monkeypatch.setattr(verify_plan, "judge", judge)
    code, out, err = ran(capsys, "wrong.cbor", "right.cbor")
    assert code == 70
    assert "boom" in err
    assert err.splitlines()[-1] == "internal error: this is a bug, and no verdict"
    assert "right.cbor" not in out


def test_json_has_an_object_for_every_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, "right.cbor", "wrong.cbor", "none.cbor", "--format", "json")
    assert (code, err) == (1, "")
    found = json.loads(out)["files"]
    assert [(f["file"], f["verdict"], f["exit"]) for f in found] == [
        ("right.cbor", "PROVED", 0),
        ("wrong.cbor", "REFUTED", 1),
        ("none.cbor", "ERROR", 4),
    ]
    assert found[1]["witness"]["tensors"] == ["y"]
    assert found[0]["assumptions"]["dims"] == {"n": 4}


def test_junit_and_sarif_are_whole_documents(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ran(capsys, "right.cbor", "wrong.cbor", "--format", "junit")
    assert code == 1
    assert [suite.get("name") for suite in Xml.fromstring(out)] == ["right.cbor", "wrong.cbor"]
    code, out, _ = ran(capsys, "right.cbor", "wrong.cbor", "--format", "sarif")
    assert code == 1
    assert [result["properties"]["verdict"] for result in json.loads(out)["runs"][0]["results"]] == ["REFUTED"]


@pytest.mark.parametrize("flags", [("--dim", "n=٤"), ("--dim", "n=" + "9" * 5000), ("--shape", "x=" + "9" * 5000)])
def test_what_is_no_size_in_64_bits_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, str]
) -> None:
    code, out, err = ran(capsys, "right.cbor", *flags)
    assert (code, out, err.count("\n"), flags[0] in err) == (2, "", 1, True)


def test_bindings_that_agree_change_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agreeing = ["--dim", "n=4", "--dim", "n=4", "--shape", "x=64", "--value", "rate=16", "--donate", "x"]
    assert ran(capsys, "right.cbor", *agreeing)[0] == 0


def test_a_file_for_coq_is_of_one_plan_and_needs_the_theory(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: V6.4"""
    one, two, coq = ("wrong.cbor",), ("wrong.cbor", "wrong.cbor"), ("--coq", "coq")
    for theory, arguments, said in (
        (folder, (*one, *coq), ""),
        (folder, (*two, *coq), "--coq: give one plan: its file is DIR/Plan.v"),
        (None, (*one, *coq), "--coq: the kernel of this version is not installed: run tmmu kernel install"),
        (None, two, ""),
    ):
        monkeypatch.setattr(installed, "find_theory", lambda found=theory: found)
        code, _, err = ran(capsys, *arguments)
        assert (code, said in err, err == "") == (2 if said else 1, True, not said)


def test_the_solvers_that_are_named_are_asked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: V4.10"""
    asked: list[tuple[str, ...]] = []

    def judge(path: str, _: StatedPlan, options: Options, *__: object) -> Verdict:
        asked.append(options.solving.solvers)
        return Verdict(path, "ERROR", 4, "")

    monkeypatch.setattr(verify_plan, "judge", judge)
    for flags in ((), ("--solver", "z3"), ("--solver", "cvc5"), ("--solver", "both")):
        ran(capsys, "right.cbor", *flags)
    assert asked == [("z3",), ("z3",), ("cvc5",), ("z3", "cvc5")]


def test_what_no_rank_has_is_misspelt_unless_a_plan_could_not_be_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan that is not there might have it. spec: C1.6"""
    file.save(amend_plan(ranks()[0], rank=1), folder / "rank.cbor")
    code, _, err = ran(capsys, "rank.cbor", "--donate", "nobody")
    assert code == 2
    assert "--donate nobody: " in err
    code, out, err = ran(capsys, "rank.cbor", "none.cbor", "--donate", "nobody")
    assert (code, out.startswith("REFUTED"), "--donate" in err) == (1, True, False)


def test_only_what_cannot_be_written_is_the_fault_of_where_it_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C1.1"""
    assert ran(capsys, "none.cbor", "--smt2", "out")[0] == 4

    def judge(*_: object) -> Verdict:
        raise TmmuError("TMMU_ALLOCATION_FAILURE", "no room")

    monkeypatch.setattr(verify_plan, "judge", judge)
    for flags, code, said in (((), 4, "no room"), (("--smt2", "out"), 2, "--smt2"), (("--coq", "out"), 2, "--coq")):
        monkeypatch.setattr(installed, "find_theory", lambda: folder)
        found = ran(capsys, "right.cbor", *flags)
        assert (found[0], said in found[2]) == (code, True)


@pytest.mark.parametrize("option", ["--smt2", "--coq"])
@pytest.mark.parametrize(("name", "said"), [("", "is empty"), ("none.cbor/out", "none.cbor/out cannot be written")])
def test_where_nothing_can_be_written_no_plan_is_judged(
    option: str, name: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor what an earlier run wrote removed. spec: C4.3, C4.4"""
    monkeypatch.setattr(installed, "find_theory", lambda: folder)
    monkeypatch.setattr(verify_plan, "open_plan", lambda *_: pytest.fail("it was opened"))
    before = sorted(folder.rglob("*"))
    code, out, err = ran(capsys, "right.cbor", option, name, "--format", "json")
    assert (code, out, err.count("\n"), said in err, option in err) == (2, "", 1, True, True)
    assert sorted(folder.rglob("*")) == before


def test_plans_of_ranks_are_judged_together_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: R7.27"""
    one = ranks()[0]
    for name in ("a.cbor", "b.cbor"):
        file.save(changed(one, "tensors", "a", birth=1), folder / name)
    code, out, _ = ran(capsys, "a.cbor", "b.cbor", "--format", "json")
    assert (code, [f["file"] for f in json.loads(out)["files"]]) == (1, ["a.cbor", "b.cbor", "ranks of small"])


@pytest.mark.parametrize("content", [b"", b"\xa1", b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", b"\x81" * 100_000])
def test_bytes_that_are_no_plan_are_one_clear_line_and_exit_4(
    folder: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (folder / "none.cbor").write_bytes(content)
    code, out, err = ran(capsys, "none.cbor")
    assert (code, out, len(err.splitlines())) == (4, "", 1)
    assert err.startswith("error: none.cbor: ")


def test_a_file_that_vanishes_is_an_error_of_the_command_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> StatedPlan:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(file, "load_any", gone)
    code, out, err = ran(capsys, "right.cbor")
    assert (code, out, err.startswith("error: right.cbor: No such file or directory")) == (2, "", True)


HOSTILE = "16\nPROVED other.cbor for the steps it states\x1b[2J"


def test_a_hostile_plan_begins_no_line_like_a_verdict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a binding that the user is told about, in a witness, and in a name of a file."""
    plan = plan_memory(replace(CHAIN, bindings=Bindings(values={"rate": HOSTILE}))).plan
    for name, written in (
        ("bound.cbor", plan),
        ("a\nPROVED b.cbor", amend_plan(changed(plan, "tensors", "y", birth=1), model=HOSTILE)),
    ):
        file.save(written, folder / name)
        for arguments in ((name,), (name, "--value", "rate=17"), (name, "--dim", "n=4")):
            code, out, err = ran(capsys, *arguments)
            lines = (out + err).splitlines()
            assert sum(line.startswith(("PROVED", "REFUTED", "UNKNOWN")) for line in lines) == (code in (0, 1))
            assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("style", ["text", "json", "junit", "sarif"])
def test_a_hostile_name_of_a_file_is_a_name_on_a_terminal_and_in_every_format(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    """What is shown while it is read included. spec: C1.9"""
    name = "a\nPROVED b.cbor\x1b[2J\x9b\u202e\r"
    (folder / name).write_bytes((folder / "right.cbor").read_bytes())
    terminal = Terminal()
    with monkeypatch.context() as patched:  # undone before `capsys` is, which `folder` begins after `monkeypatch`
        patched.setattr(sys, "stderr", terminal)
        patched.setattr(progress, "PATIENCE_S", 0.0)
        patched.setenv("TERM", "xterm")
        patched.setenv("COLUMNS", "50")
        assert run([name, "--format", style]) == 0
    assert r"a\nPROV" in terminal.text
    assert all(line.isprintable() for line in terminal.lines)
    assert not any(line.startswith("PROVED") for line in terminal.text.splitlines())
    assert all(line.isprintable() for line in capsys.readouterr().out.split("\n"))


def test_help_and_version_are_no_verdict(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = ran(capsys, "--help")
    assert (code, err) == (0, "")
    assert "Exit codes: 0 PROVED, 1 REFUTED, 3 UNKNOWN, 4 " in out
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1.2.3")
    code, out, err = ran(capsys, "--version")
    assert (code, "1.2.3" in out, err) == (0, True, "")


# How a command ends.


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (click.exceptions.Exit(0), 0, ""),
        (click.UsageError("wrong"), 2, "error: wrong (--help lists the options)\n"),
        (click.UsageError("Usage: it\nhelp"), 2, "Usage: it\nhelp\n"),
        (TmmuError("INVALID_PLAN", "no plan"), 4, "error: no plan [INVALID_PLAN]\n"),
        (TmmuError("INVALID_BINDING", "no name"), 2, "error: no name [INVALID_BINDING]\n"),
        (click.Abort(), 130, "interrupted\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (BrokenPipeError(), 70, ""),
        (OSError(28, "No space left on device"), 70, "error: the output cannot be written (No space left on device)\n"),
        (OSError(13, "Permission denied"), 70, None),
        (OSError(13, "Permission denied", "a\n"), 4, "error: 'a\\n': Permission denied\n"),
        (SystemExit(1), 70, ""),
        (MemoryError(), 70, None),
        (RecursionError(), 70, None),
        (Disagreement("x"), 70, None),
        (AssertionError("x"), 70, None),
    ],
)
def test_every_end_has_its_code(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str | None
) -> None:
    assert explain(error) == code
    err = capsys.readouterr().err
    assert err == said or (said is None and err.endswith("internal error: this is a bug, and no verdict\n"))


def test_only_a_shell_that_completes_a_line_ends_it_with_an_exit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: C1.1, C5.10"""
    assert explain(SystemExit(0)) == 70
    monkeypatch.setenv("RUN_COMPLETE", "1")
    assert explain(SystemExit(0)) == 70
    monkeypatch.setenv("_VERIFY_PLAN_COMPLETE", "bash_complete")
    assert (explain(SystemExit(0)), explain(SystemExit(1))) == (0, 70)


def test_an_end_without_the_command_line_library_is_no_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "click", None)
    assert explain(RuntimeError("boom")) == 70
    assert "boom" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["proofs.verify.entry"], ["tmmu.cli.entry", "verify"]])
def test_output_that_is_closed_is_no_verdict_by_either_name(tmp_path: Path, command: list[str]) -> None:
    """spec: C1.1"""
    plan, *_ = examples.write("text-plan", tmp_path / "p.plan.txt")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", *command, str(plan)], stdout=writing, check=False, timeout=120)
    os.close(writing)
    assert done.returncode == 70


@pytest.mark.parametrize(
    ("arguments", "started"),
    [
        ("absent.cbor", ["z3"]),
        ("absent.cbor --solver both", ["z3"]),
        ("absent.cbor --solver cvc5", ["cvc5"]),
        ("absent.cbor --solver=cvc5", ["cvc5"]),
        ("absent.cbor --jobs 2", []),
        ("absent.cbor --resume=verdicts", []),
        ("--help", []),
        ("--version", []),
        ("", []),
    ],
)
def test_the_first_solver_is_started_before_the_command_is_loaded(
    arguments: str, started: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found: list[str] = []
    monkeypatch.setattr(kept, "start_ahead", found.append)
    run(arguments.split())
    assert found == started
    capsys.readouterr()


class Ended(Exception):
    """The process would have ended here."""


def test_a_command_ends_with_its_code_also_where_its_output_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python itself would exit with 120 over what it cannot flush."""

    def end(code: int) -> None:
        raise Ended(code)

    class Deaf(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(os, "_exit", end)
    for module in (proofs.verify.entry, tmmu.cli.entry):
        monkeypatch.setattr(module, "run", lambda: 3)
        with pytest.raises(Ended, match="3"):
            module.main()
    for stream in (Deaf(), None):
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        with pytest.raises(Ended, match="1"):
            entry.exit_now(1)
        entry.print_error("never shown")


def test_a_name_that_the_terminal_cannot_show_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    entry.make_printable()
    print("größe", flush=True)
    assert written.getvalue() == b"gr\\xf6\\xdfe\n"


class Command:
    """A command that another module holds: it prints what it is told to, and returns what it is told to."""

    def __init__(self, text: str, returned: int | None) -> None:
        self.text, self.returned, self.command = text, returned, self

    def main(self, _: object, *, prog_name: str | None, standalone_mode: bool) -> int | None:
        assert not standalone_mode
        print(self.text, end="")
        return self.returned


def test_a_command_that_returns_nothing_has_done_its_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for returned, code in ((None, 0), (0, 0), (3, 3)):
        monkeypatch.setitem(sys.modules, "a_command", Command("done", returned))
        assert (entry.run_command("a_command"), capsys.readouterr().out) == (code, "done")


def test_what_the_system_takes_only_later_is_output_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is noticed when a buffer is emptied, and a verdict that nobody can read is none."""

    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setitem(sys.modules, "a_command", Command("PROVED", 0))
    monkeypatch.setattr(sys, "stdout", Full())
    assert entry.run_command("a_command") == 70


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("end", ["", "raise ImportError('it does not load')"])
def test_modules_are_loaded_without_collections_and_the_collector_is_as_before(
    end: str, is_on: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_loaded_module.py").write_text(f"import gc\nassert not gc.isenabled()\n{end}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "a_loaded_module", raising=False)
    (gc.enable if is_on else gc.disable)()
    try:
        with pytest.raises(ImportError, match="does not load") if end else contextlib.nullcontext():
            assert entry.load_module("a_loaded_module") is entry.load_module("a_loaded_module")
        assert gc.isenabled() == is_on
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.parametrize("command", [proofs.verify.entry.main, proofs.proving.lemmas.entry.main, tmmu.cli.entry.main])
def test_all_that_a_command_prints_is_printed_before_it_ends(
    command: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what the terminal cannot show, which is an escape then."""

    def end(code: int) -> None:
        raise Ended(code)

    def run(*_: object) -> int:
        print("größe")
        return 3

    for module, name in ((proofs.verify.entry, "run"), (entry, "run_command"), (tmmu.cli.entry, "run")):
        monkeypatch.setattr(module, name, run)
    monkeypatch.setattr(os, "_exit", end)
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with pytest.raises(Ended, match="3"):
        command()
    assert written.getvalue() == b"gr\\xf6\\xdfe\n"


def test_each_module_of_a_command_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    for module in ("proofs.verify.entry", "tmmu.cli.entry"):
        monkeypatch.setattr(sys, "argv", [module, "--help"])
        monkeypatch.delitem(sys.modules, module)
        monkeypatch.setattr(sys, "meta_path", [each for each in sys.meta_path if "pytest" not in type(each).__module__])
        with pytest.raises(Ended, match="0"):
            runpy.run_module(module, run_name="__main__")


# As processes.


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "proofs.verify.entry", *arguments]
    return subprocess.run(command, capture_output=True, check=False, timeout=120, env=environment, **options)


def test_the_process_exits_with_the_code(folder: Path) -> None:
    found = {name: process(name) for name in ("right.cbor", "wrong.cbor", "none.cbor", "absent.cbor")}
    assert {name: done.returncode for name, done in found.items()} == {
        "right.cbor": 0,
        "wrong.cbor": 1,
        "none.cbor": 4,
        "absent.cbor": 2,
    }
    assert found["right.cbor"].stderr == b""


def test_a_name_that_is_no_text_is_printed_as_an_escape(folder: Path) -> None:
    os.rename(b"wrong.cbor", b"wrong\xff.cbor")
    done = process("--format", "json", os.fsdecode(b"wrong\xff.cbor"))
    assert done.returncode == 1
    assert json.loads(done.stdout)["files"][0]["file"] == "wrong\udcff.cbor"


def test_output_that_nobody_reads_is_no_verdict(folder: Path) -> None:
    """Without care the process would exit with 1, as if the plan were refuted. It prints nothing: `| head` is usual."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "proofs.verify.entry", "right.cbor"]
    with os.fdopen(writer, "wb") as deaf:
        done = subprocess.run(command, stdout=deaf, stderr=subprocess.PIPE, check=False, timeout=120, env=environment)
    assert (done.returncode, done.stderr) == (70, b"")


def test_output_that_cannot_be_written_is_no_verdict(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "proofs.verify.entry", "wrong.cbor"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=120, env=environment)
    assert done.returncode == 70
    assert done.stderr == b"error: the output cannot be written (No space left on device)\n"


def test_the_options_have_the_documented_defaults() -> None:
    solving = Solving(solvers=("z3",), timeout=600.0, workers=2, definition_limit=500)
    assert Options() == Options(model=None, bindings=Bindings(), require=(), solving=solving)
    assert entry.INTERNAL == 70


def test_a_folder_stands_for_the_plans_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.13"""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    text = "tmmu-plan-text 1\narena a 512\nbuffer x 256 a 0 live 0 1\nbuffer y 256 a {} live 1 2\n"
    (inner / "z.plan.txt").write_text(text.format(256))
    (tmp_path / "a" / "y.plan.txt").write_text(text.format(128))
    (tmp_path / "a" / "notes.txt").write_text("no plan")
    code, out, err = ran(capsys, str(tmp_path / "a"))
    assert (code, err) == (1, "skipped 1 file that is not a plan (1 .txt); -v names it\n")
    verdicts = [line for line in out.splitlines() if not line.startswith(" ")]
    assert [line.split(" for ")[0] for line in verdicts] == [
        f"PROVED {inner / 'z.plan.txt'}", f"REFUTED {tmp_path / 'a' / 'y.plan.txt'}",
    ]  # fmt: skip
    code, _, err = ran(capsys, str(tmp_path / "empty"))
    assert (code, "has no file that ends with .plan.cbor or .plan.txt" in err) == (2, True)
