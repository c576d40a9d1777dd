"""The kernel's word is part of the verdict, and a plan can be proved inside Coq itself. spec: V6.1, V6.4, C1.1"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proofs.proving.kernel import coq_file, installed
from proofs.proving.obligations.context import context_of
from proofs.readers.sharing import decide_permissions
from proofs.verify import conclusion
from proofs.verify.command import command
from tests.support.synthetic import training_plan
from tests.support.text_models import text_model
from tmmu.examples.broken.editing import changed
from tmmu.ir import files
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan

CHAIN = plan_memory(
    text_model("node relu Relu x -> a", "node matmul Matmul a -> b", "node relu2 Relu b -> y"),
    options=PlanOptions(layout="slots"),
).plan
DIGEST = bytes(32)


def verified(path: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(command, [str(path), *flags, "--format", "json"], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, json.loads(result.stdout)["files"][0]


def saved(plan: Plan, folder: Path) -> Path:
    path = folder / "plan.cbor"
    file.save(plan, path)
    return path


def pretend(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Another program in the place of the kernel's."""
    path = folder / "pretended"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(installed, "find_program", lambda: path)


def test_the_verdict_says_what_the_kernel_said(tmp_path: Path) -> None:
    code, answer = verified(saved(CHAIN, tmp_path), "--require", "kernel")
    assert (code, answer["verdict"]) == (0, "PROVED")
    assert answer["obligations"][-1] == {"name": "kernel", "verdict": "PROVED", "detail": ""}
    assert answer["kernel"]["answer"] == "accepted"
    assert answer["kernel"]["sources"] == installed.digest()
    assert answer["kernel"]["fewest_slots"] == [name for name, c in answer["claims"].items() if c["slots"]]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("window", "size", "against"), [("", "9", False), ("view x 8", "9", False), ("view x 8", "m", True)]
)
def test_the_theorem_is_stated_of_every_shape_unless_a_view_may_begin_elsewhere(
    tmp_path: Path, window: str, size: str, against: bool, symbolic: bool
) -> None:
    """spec: V6.13, V6.14, V6.21"""
    model = text_model(
        "dim m 1 64", "tensor x u8 (m+16)", f"tensor v u8 {size} {window}", "node window own::Window x -> v",
        "node relu Relu v -> y", f"tensor y u8 {size}",
    )  # fmt: skip
    files.save(model, tmp_path / "m.ir.cbor")
    path = saved(plan_memory(model, options=PlanOptions(symbolic=symbolic)).plan, tmp_path)
    flags = ["--model", str(tmp_path / "m.ir.cbor")] if against else []
    code, answer = verified(path, "--require", "kernel", *flags)
    every = against or not window
    assert (code, answer["verdict"], answer["kernel"]["every_shape"]) == (0, "PROVED", every)
    assert answer["kernel"].get("symbolic", False) == symbolic
    assert ("kernel.every_shape" in answer["not_looked_at"]) != every
    text = CliRunner().invoke(command, [str(path), *flags]).output
    assert ("by the Coq kernel at every shape" in text) == every
    assert ("first byte may depend on the shape" in text) != every


def test_of_steps_on_streams_the_theorem_is_stated_at_the_planned_sizes_only(tmp_path: Path) -> None:
    """spec: V6.14"""
    model = text_model(
        "dim m 1 64", "tensor x u8 m", "tensor a u8 m", "tensor y u8 m",
        "node n1 Relu x -> a on 1", "node n2 Relu a -> y on 1",
    )  # fmt: skip
    path = saved(plan_memory(model).plan, tmp_path)
    code, answer = verified(path, "--require", "kernel")
    assert (code, answer["verdict"], answer["kernel"]["every_shape"]) == (0, "PROVED", False)
    assert answer["not_looked_at"]["kernel.every_shape"] == conclusion.OVERLAPPED
    assert "at every shape" not in CliRunner().invoke(command, [str(path)]).output.partition("again: ")[2]


@pytest.mark.parametrize(
    ("word", "proved", "says"),
    [("", True, "by the Coq kernel except inputs kept"), (" kept", True, "by the Coq kernel"),
     (" donated", False, "by the Coq kernel")],
)  # fmt: skip
def test_inputs_are_kept_by_the_kernel_only_if_the_plan_states_it(
    word: str, proved: bool, says: str, tmp_path: Path
) -> None:
    """Those that no step happens to overwrite are proved by rows. spec: Z1.1, V6.18"""
    (tmp_path / "p.plan.txt").write_text(
        f"tmmu-plan-text 1\narena m 64\ntensor x 8 m 0 input{word}\ntensor y 8 m 8 output\nstep f my::F x -> y\n"
    )
    flags = ["--donate", "x"] * (word == " donated")
    text = CliRunner().invoke(command, [str(tmp_path / "p.plan.txt"), *flags]).output
    line = next(line for line in text.splitlines() if "again: " in line)
    assert ("inputs kept;" in line.replace(says, "")) == proved
    assert line.partition("again: ")[2].partition(";")[0].split(", ")[-1] == says


def test_a_no_where_all_others_agree_is_unknown_and_loud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(CHAIN, tmp_path)
    pretend(monkeypatch, tmp_path, f"echo rejected accesses {file.load(path).sha256.hex()} 6")
    code, answer = verified(path)
    assert (code, answer["verdict"], answer["kernel"]["answer"]) == (3, "UNKNOWN", "rejected")
    [note] = answer["notes"]
    assert (note.split(":")[0], "(sharing_is_sound)" in note) == ("CHECKERS DISAGREE", True)


def test_no_answer_is_unknown_and_the_reason_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(CHAIN, tmp_path)
    pretend(monkeypatch, tmp_path, "kill -9 $$")
    code, answer = verified(path)
    assert (code, answer["verdict"], answer["kernel"]["answer"]) == (3, "UNKNOWN", "no_answer")
    assert answer["notes"][0].startswith("the kernel gave no answer: it ended")


def test_a_claim_that_the_kernel_cannot_show_is_a_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(CHAIN, tmp_path)
    lines = ["slots true", "footprints true", "inputs true", "symbolic unclaimed"]
    lines += [f"arena {i} fewest_slots false least_footprint unclaimed" for i in range(len(CHAIN.allocation.arenas))]
    lines = [f"accepted accesses {file.load(path).sha256.hex()}", *lines]
    pretend(monkeypatch, tmp_path, "\n".join(f"echo {line}" for line in lines))
    code, answer = verified(path)
    assert (code, answer["kernel"]["answer"], answer["kernel"]["reason"]) == (
        3, "rejected", "fewest_slots of activations",
    )  # fmt: skip


@pytest.mark.checkout
def test_a_kernel_that_is_required_and_not_installed_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: V5.4"""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
    path = saved(CHAIN, tmp_path)
    assert verified(path)[0] == 0
    code, answer = verified(path, "--require", "kernel")
    assert (code, answer["notes"]) == (3, ["required but missing: kernel"])
    assert answer["kernel"]["answer"] == "not installed"
    result = CliRunner().invoke(command, [str(path), "--coq", str(tmp_path / "coq")])
    assert result.exit_code == 2
    assert "tmmu kernel install" in result.output


# Inside Coq.


def compiled(folder: Path) -> subprocess.CompletedProcess[str]:
    flags = [
        word
        for line in (folder / "_CoqProject").read_text().splitlines()
        if line.startswith("-")
        for word in line.split()
    ]
    return subprocess.run(["coqc", *flags, "Plan.v"], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.checkout
def test_a_plan_is_proved_inside_coq(tmp_path: Path) -> None:
    assert verified(saved(CHAIN, tmp_path), "--coq", str(tmp_path / "coq"))[0] == 0
    done = compiled(tmp_path / "coq")
    assert (done.returncode, done.stdout.count("Closed under the global context")) == (0, 2), done.stderr


@pytest.mark.checkout
def test_the_file_of_a_wrong_plan_does_not_compile(tmp_path: Path) -> None:
    plan = changed(training_plan(6, seed=3), "storages", 2, offset=0)
    theory = installed.find_theory()
    assert theory is not None
    name = 'a*) Ad(*"\nb'  # nothing in a name ends the comment that it stands in
    coq_file.write_coq_file(
        tmp_path, name, context_of(plan, decide_permissions(plan, None, frozenset()), frozenset()), DIGEST, theory
    )
    done = compiled(tmp_path)
    assert done.returncode != 0
    assert "The term" in done.stderr or "Unable to unify" in done.stderr, done.stderr


@pytest.mark.checkout
def test_nothing_is_written_for_a_refuted_plan_and_one_plan_is_written_at_a_time(tmp_path: Path) -> None:
    wrong = saved(changed(CHAIN, "storages", 0, offset=1), tmp_path)
    assert verified(wrong, "--coq", str(tmp_path / "coq"))[0] == 1
    assert not (tmp_path / "coq").exists()
    assert verified(saved(CHAIN, tmp_path), "--coq", str(tmp_path / "coq"))[0] == 0
    assert len(list((tmp_path / "coq").iterdir())) == 2
    wrong = saved(changed(CHAIN, "storages", 0, offset=1), tmp_path)
    assert verified(wrong, "--coq", str(tmp_path / "coq"))[0] == 1
    assert list((tmp_path / "coq").iterdir()) == []  # spec: C4.4
    result = CliRunner().invoke(command, [str(wrong), str(wrong), "--coq", str(tmp_path / "coq")])
    assert result.exit_code == 2
    result = CliRunner().invoke(command, [str(saved(CHAIN, tmp_path)), "--coq", str(wrong / "coq")])
    assert result.exit_code == 2
    assert "(Not a directory)" in result.output
