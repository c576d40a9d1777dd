"""Folders of plans: paired with their models, with the models that failed, and nothing passed over silently.

spec: C1.13, C1.15 to C1.18, C2.12, C2.13, FP1.17, FP1.18
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from proofs.verify.entry import run as verify_run
from proofs.verify.fleet import pools, worker
from proofs.verify.fleet.worker import Judged, Task
from tests.support.commands import ran
from tests.support.sharded import LAYERS
from tests.support.sharded import plans as rank_plans
from tests.support.text_models import text_model
from tmmu.cli import plan as plan_command
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.ir import files, text_writer
from tmmu.planner import plan_memory
from tmmu.plans import failed_models, file
from tmmu.plans.sections import amend_plan

FIRST = text_model("node relu Relu x -> y")
SECOND = text_model("node relu Relu x -> a", "node relu2 Relu a -> y")
CSV = "id,lower,upper,size,offset\na,0,3,4,0\nb,3,5,4,0\n"
RECORD = f"{failed_models.TITLE}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code of verify-plan, its output and its errors."""
    code = verify_run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def judged(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code of verify-plan, and each file's verdict in its JSON output."""
    code, out, _ = verified(capsys, *arguments, "--format", "json")
    return code, {found["file"]: found for found in json.loads(out)["files"]}


def signed(model: Model, name: str) -> Model:
    """The model as read from a source of this name, so that its plan states a digest."""
    return replace(model, source_digest=hashlib.sha256(name.encode()).digest())


def save(path: str, made: Model, planned: str | None = None) -> None:
    """Write a model, and its plan under another path."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if path.endswith(".txt"):
        Path(path).write_text(text_writer.write(made))
    else:
        files.save(made, path)
    if planned is not None:
        Path(planned).parent.mkdir(parents=True, exist_ok=True)
        file.save(plan_memory(made).plan, planned)


# Pairs of plans and models.


def test_a_plan_is_verified_against_the_model_of_its_digest_whatever_its_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """spec: C1.15"""
    save("models/a.ir.cbor", signed(FIRST, "a"), "plans/b.plan.cbor")
    save("models/b.ir.cbor", signed(SECOND, "b"), "plans/deep/a.plan.cbor")
    code, found = judged(capsys, "plans", "--models", "models")
    pairs = {name: (each["verdict"], each["model"]) for name, each in found.items()}
    assert (code, pairs) == (
        0,
        {
            "plans/b.plan.cbor": ("PROVED", "models/a.ir.cbor"),
            "plans/deep/a.plan.cbor": ("PROVED", "models/b.ir.cbor"),
        },
    )
    both = ("--models", "models/a.ir.cbor", "--models", "models/b.ir.cbor", "--models", "models")
    assert verified(capsys, "plans", *both, "-q", "--require", "model")[0] == 0


def test_without_a_digest_the_name_decides_without_suffix_and_rank(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.15"""
    save("models/a.ir.txt", FIRST, "plans/a.plan.cbor")
    save("models/b.IR.CBOR", SECOND, "plans/b.rank7.plan.cbor")
    save("models/c.rank1.ir.cbor", SECOND, "plans/c.rank1.plan.cbor")
    code, found = judged(capsys, "plans", "--models", "models")
    assert (code, {name: each["model"] for name, each in found.items()}) == (
        0,
        {
            "plans/a.plan.cbor": "models/a.ir.txt", "plans/b.rank7.plan.cbor": "models/b.IR.CBOR",
            "plans/c.rank1.plan.cbor": "models/c.rank1.ir.cbor",
        },
    )  # fmt: skip


def test_a_plan_of_an_earlier_model_of_its_name_is_refuted(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.15"""
    save("models/a.ir.cbor", signed(FIRST, "old"), "plans/a.plan.cbor")
    save("models/a.ir.cbor", signed(FIRST, "new"))
    code, found = judged(capsys, "plans", "--models", "models")
    assert (code, found["plans/a.plan.cbor"]["witness"]["field"]) == (1, "source-digest")


def test_of_equal_models_the_name_decides_or_both_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.15, C1.16"""
    for name in ("a", "b"):
        save(f"models/{name}.ir.cbor", signed(FIRST, "same"), f"plans/{name}.plan.cbor")
    assert verified(capsys, "plans", "--models", "models", "-q")[0] == 0
    os.rename("plans/b.plan.cbor", "plans/c.plan.cbor")
    code, out, err = verified(capsys, "plans", "--models", "models", "-q")
    assert (code, out) == (4, "PROVED plans/a.plan.cbor against models/a.ir.cbor\n")
    [line] = err.splitlines()
    assert line.startswith("error: plans/c.plan.cbor: it may be of several models: models/a.ir.cbor, models/b.ir.cbor ")


def test_of_models_of_one_name_without_a_digest_both_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.16"""
    save("models/one/a.ir.cbor", FIRST, "plans/a.plan.cbor")
    save("models/two/a.ir.txt", SECOND)
    os.symlink("two/a.ir.txt", "models/again.ir.txt")  # the same file as one that is listed
    code, found = judged(capsys, "plans", "--models", "models")
    assert (code, list(found)) == (4, ["plans/a.plan.cbor"])
    assert "models/one/a.ir.cbor, models/" in found["plans/a.plan.cbor"]["notes"][0]


@pytest.mark.parametrize("style", ["text", "json", "junit", "sarif"])
@pytest.mark.parametrize("fleet", [(), ("--resume", "kept")])
def test_a_plan_and_a_model_without_the_other_are_named_and_fail(
    style: str, fleet: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The other plans have their verdicts. spec: C1.16"""
    save("models/a.ir.cbor", FIRST, "plans/a.plan.cbor")
    save("models/lone.ir.cbor", signed(SECOND, "lone"))
    save("stray.ir.cbor", signed(SECOND, "stray"), "plans/stray.plan.cbor")
    Path("models/none.onnx").write_bytes(b"no model")
    code, out, err = verified(capsys, "plans", "--models", "models", "--format", style, *fleet)
    assert code == 4
    lost = ["plans/stray.plan.cbor", "models/lone.ir.cbor", "models/none.onnx"]
    if style == "text":
        assert "PROVED plans/a.plan.cbor against models/a.ir.cbor" in out
        assert [line.split(": ")[:2] for line in err.splitlines()] == [["error", name] for name in lost]
    elif style == "json":
        assert [(f["file"], f["verdict"], f["exit"]) for f in json.loads(out)["files"]] == [
            ("plans/a.plan.cbor", "PROVED", 0), *((name, "ERROR", 4) for name in lost),
        ]  # fmt: skip
    elif style == "junit":
        suites = Xml.fromstring(out).findall("testsuite")
        assert [suite.get("name") for suite in suites if suite.get("errors") == "1"] == lost
    else:
        results = json.loads(out)["runs"][0]["results"]
        assert [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in results] == lost


def test_what_cannot_be_paired_is_an_error_of_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C1.15"""
    save("models/a.ir.cbor", FIRST, "plans/a.plan.cbor")
    Path("models/b.onnx").write_bytes(b"no model")
    Path("empty").mkdir()
    for line, said in (
        (("plans", "--models", "models", "--model", "models/a.ir.cbor"), "--model and --models exclude each other"),
        (("-", "--models", "models"), "--models goes with files"),
        (("plans", "--models", "empty"), "'empty' has no file that ends with .onnx or .ir.cbor or .ir.txt"),
        (("plans", "--models", "models", "--report", "models/a.ir.cbor"), "models/a.ir.cbor is read too"),
    ):
        code, out, err = verified(capsys, *line)
        assert (code, out, said in err) == (2, "", True), err
    monkeypatch.setattr("proofs.verify.pairing.digest_file", refuse_to_open)
    assert verified(capsys, "plans", "--models", "models") == (
        2, "", "error: models/b.onnx: Permission denied (--help lists the options)\n",
    )  # fmt: skip


def refuse_to_open(path: str, *_: object) -> Any:
    raise PermissionError(13, "Permission denied", path)


def test_a_model_that_is_no_file_waits_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A named pipe is not opened, and a link that leads nowhere is a model without a plan. spec: C1.16"""
    save("models/a.ir.cbor", FIRST, "plans/a.plan.cbor")
    os.mkfifo("models/pipe.onnx")
    os.symlink("absent", "models/gone.onnx")
    code, found = judged(capsys, "plans", "--models", "models")
    assert (code, list(found)) == (4, ["plans/a.plan.cbor", "models/gone.onnx", "models/pipe.onnx"])


@pytest.mark.parametrize("content", [b"", b"no plan", b"\xa1fclaims", b"\xa1fclaims\xa0"])
def test_bytes_that_are_no_plan_are_paired_by_name_and_refused(
    content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: C1.15"""
    save("models/a.ir.cbor", FIRST)
    Path("a.plan.cbor").write_bytes(content)
    code, _, err = verified(capsys, "a.plan.cbor", "--models", "models")
    assert (code, "[INVALID_PLAN]" in err) == (4, True)


class Here:
    """A pool of this process."""

    size = 2

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.models: list[tuple[str, str | None]] = []

    def located(self, path: str) -> str:
        return os.path.abspath(path)

    def submit(self, task: Task) -> None:
        self.tasks.append(task)
        self.models.append((task.name, task.options.model))

    def ended(self) -> Iterator[tuple[Task, Judged]]:
        task = self.tasks.pop(0)
        yield task, worker.work(task)

    def close(self) -> None:
        self.tasks = []


def test_each_worker_has_the_model_of_its_plan_and_what_is_kept_is_of_that(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C1.15, V7.1, V7.5"""
    pool = Here()
    monkeypatch.setattr(pools, "Processes", lambda _: pool)
    save("models/a.ir.cbor", FIRST, "plans/a.plan.cbor")
    save("models/b.ir.cbor", SECOND, "plans/b.plan.cbor")
    line = ("plans", "--models", "models", "--jobs", "2", "--resume", "kept", "-q")
    code, out, _ = verified(capsys, *line)
    assert (code, out.splitlines()[:2]) == (
        0,
        [f"PROVED plans/{name}.plan.cbor against models/{name}.ir.cbor" for name in ("a", "b")],
    )
    assert {name: str(folder / f"models/{name[6]}.ir.cbor") for name, _ in pool.models} == dict(pool.models)
    code, out, _ = verified(capsys, *line)
    assert (code, out.count("(taken from kept)"), ", 2 taken from kept" in out) == (0, 2, True)
    os.rename("models/b.ir.cbor", "models/c.ir.cbor")  # no plan has this name
    assert verified(capsys, *line)[0] == 4
    save("models/b.ir.cbor", FIRST)  # another model of this name
    code, out, _ = verified(capsys, *line, "--models", "models/b.ir.cbor")
    assert (code, "REFUTED plans/b.plan.cbor against models/b.ir.cbor\n" in out) == (1, True)
    os.remove("models/c.ir.cbor")
    code, out, _ = verified(capsys, *line)
    assert (code, ", 2 taken from kept" in out) == (1, True)


def test_the_ranks_of_a_model_are_paired_and_verified_together(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.15"""
    save("models/net.ir.cbor", LAYERS)
    Path("plans").mkdir()
    for rank, one in enumerate(rank_plans()):
        file.save(amend_plan(one, source_digest=LAYERS.source_digest), f"plans/net.rank{rank}.plan.cbor")
    code, out, _ = verified(capsys, "plans", "--models", "models", "--require", "ranks", "-q")
    assert (code, out.splitlines()[-1]) == (0, "PROVED ranks of small against models/net.ir.cbor")


# Models that could not be planned.


def models(*names: str, broken: tuple[str, ...] = (), at: str = "models") -> None:
    """Write models that can be planned, and some that are none."""
    for name in names:
        save(f"{at}/{name}.ir.cbor", FIRST)
    for name in broken:
        Path(f"{at}/{name}.onnx").write_bytes(b"no model")


def test_a_model_that_fails_is_noted_until_all_are_planned(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C2.12, C1.18"""
    models("a", "b", broken=("bad", "worse"))
    code, _, err = ran(capsys, "plan", "models", "-o", "plans")
    assert (code, err.splitlines()[-1]) == (4, "plans/failed.txt names 2 models without a plan")
    title, *lines = Path("plans/failed.txt").read_text().splitlines()
    assert (title, [line.split("\t")[0] for line in lines]) == (
        failed_models.TITLE, ["models/bad.onnx", "models/worse.onnx"],
    )  # fmt: skip
    assert all(line.endswith("[INVALID_IR]") for line in lines)
    code, found = judged(capsys, "plans")
    assert (code, {name: each["verdict"] for name, each in found.items()}) == (
        4, {"plans/a.plan.cbor": "PROVED", "plans/b.plan.cbor": "PROVED", "plans/failed.txt": "ERROR"},
    )  # fmt: skip
    assert "2 models: models/bad.onnx, models/worse.onnx" in found["plans/failed.txt"]["notes"][0]
    assert sorted(os.listdir("plans")) == ["a.plan.cbor", "b.plan.cbor", "failed.txt"]
    os.remove("models/bad.onnx")
    os.remove("models/worse.onnx")
    assert ran(capsys, "plan", "models", "-o", "plans")[0] == 0
    assert sorted(os.listdir("plans")) == ["a.plan.cbor", "b.plan.cbor"]
    assert verified(capsys, "plans")[0] == 0


def test_a_folder_where_every_model_failed_is_no_empty_one(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.18, C2.12"""
    Path("models").mkdir()
    models(broken=("a", "b"))
    assert ran(capsys, "plan", "models", "-o", "plans")[0] == 4
    code, out, err = verified(capsys, "plans")
    assert (code, out, "plans/failed.txt: tmmu plan failed for 2 models" in err) == (4, "", True)
    assert verified(capsys, "plans/failed.txt")[0] == 4
    assert verified(capsys, "plans", "--resume", "kept", "--models", "models")[0] == 4


def test_a_model_planned_by_itself_loses_its_own_line(capsys: pytest.CaptureFixture[str]) -> None:
    """And one that fails by itself adds none: its error is the command's. spec: C2.12"""
    models("a", broken=("bad", "worse"))
    ran(capsys, "plan", "models", "-o", "plans")
    os.rename("models/bad.onnx", "elsewhere.onnx")
    files.save(FIRST, "models/bad.onnx")
    assert ran(capsys, "plan", "models/bad.onnx", "-o", "plans")[0] == 0
    assert list(failed_models.load("plans/failed.txt")) == ["models/worse.onnx"]
    assert ran(capsys, "plan", "elsewhere.onnx", "-o", "plans")[0] == 4
    assert list(failed_models.load("plans/failed.txt")) == ["models/worse.onnx"]
    files.save(FIRST, "models/worse.onnx")
    assert ran(capsys, "plan", "models/worse.onnx", "-o", "plans")[0] == 0
    assert not Path("plans/failed.txt").exists()
    assert ran(capsys, "plan", "elsewhere.onnx", "-o", "plans")[0] == 4
    assert not Path("plans/failed.txt").exists()


def test_a_later_failure_keeps_the_lines_of_models_that_it_is_not_about(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C2.12"""
    models("a", broken=("bad",))
    models("c", broken=("worse",), at="others")
    ran(capsys, "plan", "models", "-o", "plans")
    ran(capsys, "plan", "others", "-o", "plans")
    assert list(failed_models.load("plans/failed.txt")) == ["models/bad.onnx", "others/worse.onnx"]


def test_a_folder_of_one_model_is_noted_too(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C2.12"""
    Path("models").mkdir()
    Path("plans").mkdir()
    models(broken=("bad",))
    assert ran(capsys, "plan", "models", "-o", "plans")[0] == 4
    assert list(failed_models.load("plans/failed.txt")) == ["models/bad.onnx"]
    files.save(FIRST, "models/bad.onnx")
    assert ran(capsys, "plan", "models", "-o", "plans")[0] == 0
    assert not Path("plans/failed.txt").exists()


def test_without_a_folder_of_plans_the_note_is_beside_each_model(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C2.12"""
    models("a", broken=("bad",), at="models/one")
    models("b", at="models/two")
    Path("models/two/failed.txt").write_text(f"{RECORD}models/two/b.ir.cbor\told\n")
    assert ran(capsys, "plan", "models")[0] == 4
    assert list(failed_models.load("models/one/failed.txt")) == ["models/one/bad.onnx"]
    assert not Path("models/two/failed.txt").exists()
    code, out, err = verified(capsys, "models", "-q")
    assert (code, out.count("PROVED"), "models/one/failed.txt" in err) == (4, 2, True)


def test_a_users_own_file_is_kept_and_not_believed(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C2.13"""
    models("a", "b")
    Path("plans").mkdir()
    for own in ("", "mine\n", f"{failed_models.TITLE}", f" {RECORD}"):
        Path("plans/failed.txt").write_text(own)
        assert ran(capsys, "plan", "models", "-o", "plans")[0] == 0
        assert verified(capsys, "plans", "-q")[0] == 0
        assert Path("plans/failed.txt").read_text() == own
    models(broken=("bad",))
    code, _, err = ran(capsys, "plan", "models", "-o", "plans")
    assert code == 4
    assert "error: plans/failed.txt: a file that tmmu plan did not write is kept; not noted is models/bad.onnx" in err
    assert Path("plans/failed.txt").read_text() == f" {RECORD}"
    os.remove("plans/failed.txt")
    Path("plans/failed.txt").mkdir()
    code, _, err = ran(capsys, "plan", "models", "-o", "plans")
    assert (code, "plans/failed.txt: a file that tmmu plan did not write" in err) == (4, True)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a bug")])
def test_models_that_an_ended_run_did_not_reach_count_as_failed(
    error: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C2.12"""
    models("a", "b", "c")
    real = plan_command._plan_model

    def planned(model: str, *rest: Any) -> Any:
        if model == "models/b.ir.cbor":
            raise error
        return real(model, *rest)

    monkeypatch.setattr(plan_command, "_plan_model", planned)
    assert ran(capsys, "plan", "models", "-o", "plans")[0] in (70, 130)
    assert list(failed_models.load("plans/failed.txt")) == ["models/b.ir.cbor", "models/c.ir.cbor"]
    monkeypatch.setattr(plan_command, "_plan_model", real)
    assert ran(capsys, "plan", "models", "-o", "plans")[0] == 0
    assert not Path("plans/failed.txt").exists()


def test_a_binding_that_no_model_has_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C2.12"""
    models("a", "b")
    Path("plans").mkdir()
    Path("plans/failed.txt").write_text(f"{RECORD}gone.onnx\told\n")
    assert ran(capsys, "plan", "models", "-o", "plans", "--dim", "nothing=3")[0] == 2
    assert list(failed_models.load("plans/failed.txt")) == ["gone.onnx"]


def test_a_note_is_whole_or_not_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: C2.12"""
    models("a", broken=("bad",))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    ran(capsys, "plan", "models/a.ir.cbor", "-o", "plans/a.plan.cbor")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            failed_models.update(".", {"bad.onnx": "why"}, is_whole=True)
    assert sorted(os.listdir(".")) == ["models"]


def test_hostile_names_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.9, C1.18, C2.12"""
    models("a", broken=("x\nPROVED y", "t\tab"))
    ran(capsys, "plan", "models", "-o", "plans")
    assert list(failed_models.load("plans/failed.txt")) == ["models/t\\tab.onnx", "models/x\\nPROVED y.onnx"]
    _, out, err = verified(capsys, "plans")
    assert not any(line.startswith("PROVED y") for line in (out + err).splitlines())
    files.save(FIRST, "models/x\nPROVED y.onnx")
    assert ran(capsys, "plan", "models/x\nPROVED y.onnx", "-o", "plans")[0] == 0
    assert list(failed_models.load("plans/failed.txt")) == ["models/t\\tab.onnx"]


def test_a_record_that_cannot_be_read_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C1.18"""
    save("models/a.ir.cbor", FIRST, "plans/a.plan.cbor")
    Path("plans/failed.txt").write_text(RECORD)
    code, _, err = verified(capsys, "plans", "-q")
    assert (code, "tmmu plan failed for 0 models" in err) == (4, True)
    monkeypatch.setattr(failed_models, "LIMIT", 3)
    code, _, err = verified(capsys, "plans", "-q")
    assert (code, "plans/failed.txt: it cannot be read (" in err) == (4, True)
    monkeypatch.setattr(failed_models, "read_head", refuse_to_open)
    assert failed_models.is_record("plans/failed.txt")
    monkeypatch.setattr(failed_models, "load", refuse_to_open)
    code, _, err = verified(capsys, "plans", "-q")
    assert (code, "plans/failed.txt: it cannot be read (Permission denied)" in err) == (4, True)
    assert not failed_models.is_record("absent/failed.txt")


# What a folder skips.


def test_files_that_are_no_plans_are_counted_and_with_v_named(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.17"""
    save("plans/a.ir.cbor", FIRST, "plans/a.plan.cbor")
    for name in ("b.json", "c.json", "deep/d.JSON", "notes", "e.py"):
        Path("plans/deep").mkdir(exist_ok=True)
        Path("plans", name).write_text("no plan")
    code, out, err = verified(capsys, "plans", "-q")
    assert (code, err) == (
        0, "skipped 6 files that are not plans (3 .json, 1 .cbor, 1 .py, 1 without an end); -v names them\n",
    )  # fmt: skip
    names = ["a.ir.cbor", "b.json", "c.json", "deep/d.JSON", "e.py", "notes"]
    assert verified(capsys, "plans", "-v")[2].splitlines()[1:] == [f"  plans/{name}" for name in names]
    _, out, _ = verified(capsys, "plans", "--format", "json")
    skipped = [{"path": f"plans/{name}", "reason": "another kind of file"} for name in names]
    assert json.loads(out)["skipped"] == skipped
    _, out, _ = verified(capsys, "plans", "--format", "sarif")
    assert json.loads(out)["runs"][0]["properties"] == {"skipped": skipped, "unknown_constructs": {}}
    for model in ("--model", "--models"):  # it is read, so it is not skipped
        assert "skipped 5 files" in verified(capsys, "plans", "-q", model, "plans/a.ir.cbor")[2]
    assert verified(capsys, "plans/a.plan.cbor")[2] == ""


def test_linked_folders_are_named_and_not_entered(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.17"""
    save("models/a.ir.cbor", FIRST, "plans/a.plan.cbor")
    save("models/a.ir.cbor", FIRST, "elsewhere/b.plan.cbor")
    os.symlink(".", "plans/loop")
    os.symlink("../elsewhere", "plans/linked\nPROVED x")
    os.symlink("../elsewhere/b.plan.cbor", "plans/c.plan.cbor")  # a linked file is the file
    code, out, err = verified(capsys, "plans", "-q")
    assert (code, out.count("PROVED plans/")) == (0, 2)
    assert err == "skipped linked folders (give each by itself): plans/linked\\nPROVED x, plans/loop\n"
    assert verified(capsys, "plans/loop", "-q")[1].splitlines() == out.replace("plans/", "plans/loop/").splitlines()
    Path("only").mkdir()
    os.symlink("../elsewhere", "only/linked")
    code, _, err = verified(capsys, "only")
    assert (code, "not entered are the linked folders only/linked" in err) == (2, True)


def test_what_cannot_be_read_is_named_or_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C1.17"""
    save("models/a.ir.cbor", FIRST, "plans/a.plan.cbor")
    Path("plans/secret.csv").write_text(CSV)
    os.symlink("absent", "plans/gone.csv")
    with monkeypatch.context() as patched:
        patched.setattr("proofs.readers.plans.formats.read_head", refuse_to_open)
        patched.setattr(os, "access", lambda path, mode: not path.endswith(".csv"))
        _, _, err = verified(capsys, "plans", "-q")
    assert err.splitlines()[0] == "skipped files that cannot be read: plans/gone.csv, plans/secret.csv"
    code, _, err = verified(capsys, "plans", "-q")
    assert (code, err) == (0, "skipped files that cannot be read: plans/gone.csv\n")
    Path("plans/inner").mkdir()
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: refuse_to_open(path) if str(path).endswith("inner") else real(path))
    code, out, err = verified(capsys, "plans", "-q")
    assert (code, out, "'plans/inner' cannot be read (Permission denied)" in err) == (2, "", True)


@pytest.mark.parametrize(
    "name",
    ["m.rank0.cbor", "M.PLAN.CBOR", "plan", "m.plan", "plan.bin", "m.json", "m.Plan.Txt", "m.txt", ".m.plan.cbor"],
)
def test_a_plan_of_any_name_is_taken(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP1.17"""
    save("models/a.ir.cbor", FIRST, "plans/binary.plan.cbor")
    os.rename("plans/binary.plan.cbor", f"plans/{name}")
    if name.lower().endswith(".txt"):
        Path(f"plans/{name}").write_text("tmmu-plan-text 1\narena a 512\nbuffer x 256 a 0 live 0 1\n")
    code, out, err = verified(capsys, "plans", "-q")
    assert (code, err, out.split()[:2]) == (0, "", ["PROVED", f"plans/{name}"])


@pytest.mark.parametrize("name", [".m.rank0.plan.cbor.tmmu", ".tmmu.x.tmp"])
def test_an_unfinished_file_is_skipped(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP1.17"""
    save("models/a.ir.cbor", FIRST, f"plans/{name}")
    Path("plans/a.csv").write_text(CSV)
    code, out, err = verified(capsys, "plans", "-q")
    assert (code, out.count("\n"), "skipped 1 file that is not a plan" in err) == (0, 1, True)


@pytest.mark.parametrize("name", ["A.CSV", "a.Csv"])
def test_the_case_of_a_suffix_of_another_format_does_not_count(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP1.17"""
    Path("plans").mkdir()
    Path("plans", name).write_text(CSV)
    assert verified(capsys, "plans", "-q") == (0, f"PROVED plans/{name} for the lifetimes it states\n", "")


def test_a_file_that_is_read_beside_a_plan_is_not_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.17"""
    dump = Path(__file__).parents[1] / "corpus" / "foreign" / "proved" / "xla-train-step"
    code, _, err = verified(capsys, str(dump), "-q")
    assert (code, err) == (0, "")


def test_a_folder_that_is_imported_is_searched_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP1.13, FP1.17"""
    Path("plans").mkdir()
    Path("plans/A.CSV").write_text(CSV)
    Path("plans/notes.json").write_text("{}")
    assert ran(capsys, "import", "minimalloc", "plans", "-o", "p.plan.txt")[0] == 0


# Unknown constructs.


def test_unknown_constructs_are_counted_by_the_files_that_they_stop(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP1.18"""
    Path("plans").mkdir()
    for name, column in (("a", "colour"), ("b", "colour"), ("c", "weight"), ("d", "")):
        head, *rows = CSV.splitlines()
        lines = [f"{head},{column}", *(f"{row},0" for row in rows)] if column else [head, *rows]
        Path(f"plans/{name}.csv").write_text("\n".join(lines))
    code, out, _ = verified(capsys, "plans")
    line = "unknown constructs: 2 x minimalloc column colour, 1 x minimalloc column weight"
    assert (code, out.splitlines()[-1]) == (4, line)
    assert "unknown constructs" not in verified(capsys, "plans", "-q")[1]
    assert "unknown constructs" not in verified(capsys, "plans/a.csv")[1]
    assert "unknown constructs: 1 x" in verified(capsys, "plans/a.csv", "plans/d.csv", "--resume", "kept")[1]
    _, out, _ = verified(capsys, "plans", "--format", "json")
    found = json.loads(out)
    counts = {"minimalloc column colour": 2, "minimalloc column weight": 1}
    assert list(found["unknown_constructs"].items()) == list(counts.items())
    assert [each["constructs"] for each in found["files"]] == [
        ["minimalloc column colour"], ["minimalloc column colour"], ["minimalloc column weight"], [],
    ]  # fmt: skip
    _, out, _ = verified(capsys, "plans", "--format", "sarif")
    assert json.loads(out)["runs"][0]["properties"]["unknown_constructs"] == counts


def test_of_many_constructs_the_text_has_the_most_frequent(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP1.18"""
    Path("plans").mkdir()
    for k in range(12):
        Path(f"plans/{k:02}.csv").write_text(CSV.replace("offset", f"offset,k{k:02}"))
    assert verified(capsys, "plans")[1].splitlines()[-1].endswith("minimalloc column k09 and 2 more (-v)")
    assert verified(capsys, "plans", "-v")[1].splitlines()[-1].endswith("minimalloc column k11")


def test_an_error_of_a_reader_without_a_construct_counts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP1.18"""
    Path("plans").mkdir()
    Path("plans/a.csv").write_text(CSV.replace("0,3,4", "0,3"))
    Path("plans/b.csv").write_text(CSV.replace("offset", "offset,offset"))
    code, out, _ = verified(capsys, "plans", "--format", "json")
    assert (code, json.loads(out)["unknown_constructs"]) == (4, {})


def test_an_error_that_is_none_of_a_reader_has_no_construct() -> None:
    assert TmmuError("INVALID_PLAN", "wrong").construct == ""
