"""What can be said of the kernel where it is not built: where it would be, how it is built, and what is left out.

spec: V6.2, V6.3, V6.4, V6.10, V6.11
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from proofs.proving.kernel import coq_file, install, installed, libraries
from proofs.proving.kernel.answer import NOT_ASKED, kernel_answer
from proofs.proving.kernel.evidence import columns, words
from proofs.proving.kernel.memory import VERSION
from proofs.proving.kernel.program import PARTS, KernelAnswer, PlanFile, ask_words
from proofs.proving.obligations.context import context_of
from proofs.readers.sharing import Permissions, decide_permissions
from proofs.verify import entry as verifier
from proofs.verify.command import command
from proofs.verify.judge import judge
from proofs.verify.options import Options, ProofFolders
from tests.support.synthetic import training_plan
from tests.support.text_models import text_model
from tests.support.written import Written
from tmmu.cli.entry import run
from tmmu.core.errors import TmmuError
from tmmu.core.reading import digest_file
from tmmu.core.vocabulary import Role
from tmmu.examples.broken import exclusive
from tmmu.examples.broken.editing import changed, row
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.columns import ROLES
from tmmu.plans.sections import Plan

ROOT = Path(__file__).resolve().parents[2]
NOBODY: frozenset[str] = frozenset()
DIGEST = bytes(range(32))
NO_WORDS = np.empty(0, np.uint64)


def record(program: Path) -> None:
    """Record of a program what `install` records as it builds one."""
    built = installed.KernelBuild(installed.digest(), digest_file(program), "ab" * 32)
    (program.parent / installed.STATED).write_text(json.dumps(built._asdict()))
    (program.parent / libraries.RECORD).write_text("[]")


def test_a_kernel_is_looked_for_under_the_digest_of_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert installed.folder() == tmp_path / "tmmu" / "kernel" / installed.digest()
    assert (installed.find_program(), installed.find_theory()) == (None, None)
    program, theory = installed.folder() / "kernel", installed.folder() / "theory"
    theory.mkdir(parents=True)
    program.touch(0o644)
    assert (installed.find_program(), installed.find_theory()) == (None, None)
    (theory / "Theorems.vo").touch()
    program.chmod(0o755)
    record(program)
    assert (installed.find_program(), installed.find_theory()) == (program, theory)
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert installed.folder().is_relative_to(tmp_path / ".local" / "share" / "tmmu" / "kernel")


def test_a_program_in_the_package_counts_where_it_is_what_is_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: V6.10"""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(installed, "PACKAGED", tmp_path)
    program, stated = tmp_path / installed.PROGRAM, tmp_path / installed.STATED
    assert run(["kernel", "status"]) == 1
    assert "not installed (tmmu kernel install)" in capsys.readouterr().out
    program.write_bytes(b"program")
    program.chmod(0o755)
    assert installed.find_program() is None  # nothing is stated of it
    right = installed.KernelBuild(installed.digest(), digest_file(program), "ab" * 32)._asdict()
    stated.write_text(json.dumps(right))
    assert installed.find_program() == program
    assert run(["kernel", "status"]) == 0
    said = capsys.readouterr().out
    assert "of the package" in said
    assert "Theorems.vo abababababababab" in said
    with pytest.raises(SystemExit):
        command.main(["--version"])
    assert f"sources {installed.digest()[:16]}" in capsys.readouterr().out
    for wrong in ({**right, "sources": "00" * 32}, {**right, "program": "00" * 32}, {"sources": "x"}, [right], "{"):
        stated.write_text(wrong if isinstance(wrong, str) else json.dumps(wrong))
        assert installed.find_program() is None
    stated.write_text(json.dumps(right))
    program.chmod(0o644)
    assert installed.find_program() is None
    program.chmod(0o755)
    own = installed.folder() / installed.PROGRAM
    own.parent.mkdir(parents=True)
    own.touch(0o755)
    record(own)
    assert installed.find_program() == own  # what was built here comes first
    assert "built here" in installed.description()


@pytest.mark.parametrize("damage", ["bytes", "record", "no record", "package"])
def test_a_program_that_is_not_what_is_recorded_counts_as_not_installed_and_the_verdict_says_why(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At each use: the program was in use before. The one of the package does not take its place. spec: V6.11"""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    packaged = installed.folder().parent / "of the package"
    monkeypatch.setattr(installed, "PACKAGED", packaged)
    for where in (packaged, installed.folder()):
        where.mkdir(parents=True)
        record(playing(where, "exit 3"))
    program = (packaged if damage == "package" else installed.folder()) / installed.PROGRAM
    if damage == "package":
        (installed.folder() / installed.PROGRAM).unlink()
    assert (installed.find_program(), installed.refusal()) == (program, None)
    plan = plan_memory(text_model("node relu Relu x -> y")).plan
    context = context_of(plan, decide_permissions(plan, None, NOBODY))
    of = PlanFile.of(plan)
    assert kernel_answer(context, of, 60)["answer"] == "no_answer"
    if damage == "record":
        (program.parent / installed.STATED).write_text("{}")
    elif damage == "no record":
        (program.parent / installed.STATED).unlink()
    else:
        with program.open("a") as script:
            script.write("# tampered\n")
    assert installed.find_program() is None
    answer = kernel_answer(context, of, 60)
    how = "install the package again" if damage == "package" else "run make kernel or tmmu kernel install"
    why = f"{program} is not the program that kernel.json beside it records: {how}"
    assert (answer["answer"], answer["reason"]) == ("not installed", f"not installed: {why}")
    assert run(["kernel", "status"]) == 1
    assert capsys.readouterr().out == f"kernel: not used, as {why}\n"
    file.save(plan, tmp_path / "p.plan.cbor")
    assert verifier.run([str(tmp_path / "p.plan.cbor"), "--require", "kernel"]) == 3
    said = capsys.readouterr().out
    assert f"kernel (not installed: {why})" in said
    assert "required but missing: kernel" in said


def test_a_wheel_has_the_program_where_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: V6.10, V6.12"""
    from proofs.proving.kernel import wheel

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    metadata = SimpleNamespace(version="1.0")
    hook = wheel.KernelHook(str(ROOT), {}, None, metadata, str(tmp_path), "wheel")
    licence = wheel.LicenceHook(str(ROOT), {})
    stated: dict[str, Any] = {}

    def built() -> dict[str, Any]:
        data: dict[str, Any] = {"force_include": {}, "sbom_files": [], "pure_python": True}
        hook.initialize("standard", data)
        licence.update(stated)
        return data

    assert built() == {"force_include": {}, "sbom_files": [], "pure_python": True}
    assert stated == {"license": "Apache-2.0"}
    monkeypatch.setenv(wheel.WANTED, "1")
    data: dict[str, Any] = {}
    hook.initialize("editable", data)
    assert data == {}
    with pytest.raises(SystemExit, match="make kernel"):
        built()
    program = installed.folder() / installed.PROGRAM
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    record(program)
    libraries.write_unknown(program.parent, "dpkg-query is missing")
    with pytest.raises(SystemExit, match=r"not known which libraries .* dpkg-query is missing"):
        built()
    (program.parent / libraries.RECORD).write_text(
        '[{"package": "libgmp-dev", "version": "1", "source": "gmp", "source_version": "1"}]'
    )
    data = built()
    names = ("kernel", "kernel.json", "libraries.json", "NOTICE", "licences")
    [sbom] = data.pop("sbom_files")
    assert [part["name"] for part in json.loads(Path(sbom).read_text())["components"]] == ["kernel", "gmp"]
    included = {str(program.parent / name): f"proofs/proving/kernel/built/{name}" for name in names}
    assert data == {"force_include": included, "pure_python": False, "tag": wheel.TAG}
    assert stated == {"license": "Apache-2.0 AND (LGPL-3.0-or-later OR GPL-2.0-or-later)"}
    hook.finalize("standard", data, "")
    assert not Path(sbom).exists()


@pytest.mark.parametrize("name", [*(f"{name}.v" for name in installed.ORDER), *installed.OF_PROGRAM])
def test_every_source_counts(name: str, tmp_path: Path) -> None:
    shutil.copytree(installed.SOURCES, tmp_path / "kernel")
    with (tmp_path / "kernel" / name).open("a") as file:
        file.write(" ")
    assert installed.digest(tmp_path / "kernel") != installed.digest()


def test_all_theory_files_are_listed_each_after_what_it_needs() -> None:
    assert {f"{name}.v" for name in installed.ORDER} | {"Extract.v"} == {p.name for p in installed.SOURCES.glob("*.v")}
    for place, name in enumerate(installed.ORDER):
        for line in (installed.SOURCES / f"{name}.v").read_text().splitlines():
            if line.startswith("From Tmmu Require Import"):
                assert set(line.removesuffix(".").split()[4:]) <= set(installed.ORDER[:place])


def test_without_coq_and_without_the_right_to_install_it_the_one_command_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(install.folders, "find_program", lambda _: None)
    assert install.main() == 1
    said = capsys.readouterr().err
    assert said.startswith("Coq and OCaml are needed: sudo apt-get install -y")
    assert said.count("\n") == 1
    assert not list(tmp_path.rglob("kernel*/*"))


def test_a_second_run_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(install, "build", lambda _: pytest.fail("it was built again"))
    installed.folder().mkdir(parents=True)
    (installed.folder() / installed.PROGRAM).touch(0o755)
    record(installed.folder() / installed.PROGRAM)
    assert install.main() == 0
    assert "is installed in" in capsys.readouterr().out


# The words.


def test_the_words_begin_with_the_version_the_digest_and_the_counts() -> None:
    plan = training_plan(20, seed=5, in_place=0.3, views=0.3)
    row = words(context_of(plan, decide_permissions(plan, None, NOBODY), NOBODY), DIGEST)
    assert row[0] == VERSION
    assert row[1:5].astype(">u8").tobytes() == DIGEST
    counts = [0, 7, 20, len(plan.allocation.storages), len(plan.slots), 1, 0, 0, 21]
    assert row[5:14].tolist() == counts
    named = columns(context_of(plan, decide_permissions(plan, None, NOBODY)), DIGEST)
    assert np.array_equal(np.concatenate([column for _, column in named]), row)
    assert f"Definition VERSION : Z := {VERSION}." in (installed.SOURCES / "Columns.v").read_text()


def test_a_plan_of_nothing_and_a_plan_that_dies_before_it_is_born_have_words() -> None:
    for plan in (
        plan_memory(text_model(inputs="", outputs="")).plan,
        changed(
            plan_memory(text_model("node relu Relu x -> y"), options=PlanOptions(layout="packed")).plan,
            "storages",
            0,
            birth=9,
        ),
    ):
        assert len(words(context_of(plan, decide_permissions(plan, None, NOBODY), NOBODY), DIGEST)) > 17


def named(plan: Plan, permissions: Permissions, donated: frozenset[str] = NOBODY) -> dict[str, list[int]]:
    """The columns of a plan that have a name of their own."""
    return {name: column.tolist() for name, column in columns(context_of(plan, permissions, donated), DIGEST)}


def test_what_the_caller_does_with_a_tensor_and_what_is_scratch_are_bits_of_one_word() -> None:
    """spec: V6.2"""
    plan = Written("s = MatMul x\ny = Relu s", given={"x": "input"}, outputs="y").plan()
    scratch = changed(plan, "tensors", 1, role=ROLES.index(Role.SCRATCH))
    for donated, word in ((NOBODY, 0), (frozenset("x"), 2)):
        assert named(scratch, Permissions(), donated)["returned 1, donated 2, scratch 4, handed 8"] == [word, 4, 1]


@pytest.mark.parametrize(
    ("text", "sizes", "takes"),
    [
        ("b:a = Relu a", {}, True),
        ("b = Relu a", {}, False),
        ("b@4:a = Relu a", {"b": 8}, False),
        ("b:a = Relu a", {"b": 4}, False),
        ("b:a = Relu a\nc = Relu a", {}, False),
    ],
)
def test_a_result_takes_the_place_of_its_operand_where_it_has_its_bytes_and_nobody_needs_them_later(
    text: str, sizes: dict[str, int], takes: bool
) -> None:
    """A permission that is not used is not among the words. spec: V6.2"""
    plan = Written(f"a = MatMul x\n{text}", given={"x": "input"}, outputs="b", **sizes).plan()
    a, b = map(plan.allocation.tensors.name.list().index, "ab")
    operands = named(plan, Permissions(in_place={b: a}))["operand + 1"]
    assert operands == [a + 1 if row == b and takes else 0 for row in range(len(plan.allocation.tensors))]


def test_what_a_loop_returns_takes_its_bytes_from_the_enter_on_and_no_operands_place_at_the_leave() -> None:
    """spec: V6.2"""
    plan = Written("f = enter/Loop a\nd = Relu f\nr:d = leave/Loop d", given={"a": "input"}, outputs="r").plan()
    d, r = map(plan.allocation.tensors.name.list().index, "dr")
    found = named(plan, Permissions(in_place={r: d}))
    assert (found["made + 1"][r], found["operand + 1"][r]) == (1, 0)


def test_what_the_leave_of_exclusive_arms_takes_is_among_the_words() -> None:
    """Arms by their first steps; results in the bytes of the outputs that become them; who else writes. spec: V6.2"""
    plan = exclusive.one_place()
    found = named(plan, Permissions())
    names = (exclusive.ONE, exclusive.TWO, exclusive.THREE, exclusive.FOUR, "left", "right")
    one, two, three, four, left, right = (row(plan, name) for name in names)
    assert (found["exclusive nodes: enter"], found["leave"], found["first step of each arm"]) == ([1], [6], [2, 4])
    assert found["innermost arm of each step: first"] == [0, 0, 2, 2, 4, 4, 0, 0]
    assert found["takes: results, then outputs"] == [left, right, one, four]
    flags = found["returned 1, donated 2, scratch 4, handed 8"]
    assert {t for t, flag in enumerate(flags) if flag & 8} == {one, two, three, four}
    found, left = named(exclusive.both_write(), Permissions()), row(exclusive.both_write(), "left")
    at = found["other writers of each tensor"]
    assert found["steps"][at[left] : at[left + 1]] == [4]
    at = found["joins of each tensor"]
    assert found["nodes"][at[left] : at[left + 1]] == [0]


def test_where_the_theorem_does_not_reach_the_kernel_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for a plan that does what the inner arms do in one arm alone: it is asked about. spec: V6.1, X4.5"""
    path = playing(tmp_path, "exit 3")
    monkeypatch.setattr(installed, "find_program", lambda: path)
    monkeypatch.setattr(installed, "find_theory", lambda: tmp_path)
    options = Options(folders=ProofFolders(coq=str(tmp_path / "coq")))
    verdict = judge("p", file.decode(file.encode(exclusive.inner_arms_write())), options)
    assert (verdict.verdict, verdict.kernel["answer"]) == ("PROVED", NOT_ASKED)
    assert exclusive.INNER in verdict.not_looked_at["kernel"]
    assert not (tmp_path / "coq").exists()
    for plan in (exclusive.RIGHT["nested"](), exclusive.inner_arms_write(last=f"{exclusive.INNER}/If/else_branch/two")):
        stated = file.decode(file.encode(plan))
        assert (
            kernel_answer(context_of(plan, decide_permissions(plan, None, NOBODY)), PlanFile.as_read(stated), 60)[
                "answer"
            ]
            == "no_answer"
        )


def test_a_slot_that_holds_nothing_is_in_no_arenas_order() -> None:
    plan = Written("a = MatMul x", given={"x": "input"}, outputs="a").plan()
    assert named(plan, Permissions())["slots of each arena"] == [0, 2]
    assert named(changed(plan, "storages", 0, slot=1), Permissions())["slots of each arena"] == [0, 1]


def test_only_plans_without_addresses_of_slots_have_edges() -> None:
    """One storage over another, each over the floor or under the roof for some steps."""
    model = text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y")
    for layout, has in (("packed", True), ("pools", True), ("slots", False)):
        plan = plan_memory(model, options=PlanOptions(layout=layout)).plan
        assert bool(named(plan, Permissions())["edges: below"]) is has, layout


def test_a_coq_file_names_the_theory_and_holds_every_word_once_and_in_order(tmp_path: Path) -> None:
    plan = training_plan(300)
    permissions = decide_permissions(plan, None, NOBODY)
    for _ in range(2):  # what is there already is written over
        coq_file.write_coq_file(
            tmp_path / "a" / "b", "x*)y", context_of(plan, permissions, NOBODY), DIGEST, Path("/th")
        )
    text = (tmp_path / "a/b/Plan.v").read_text()
    lists = re.findall(r"^Definition (w\d+) : list Z := \[(.*)\]\.$", text, re.MULTILINE)
    (joined,) = re.findall(
        r"^Definition words : list Z := concat \[\n([^.]*)\]\.\n\nDefinition plan ", text, re.MULTILINE
    )
    by_name = dict(lists)
    assert len(by_name) == len(lists)
    found = [int(word) for name in re.split(r";\s", joined) for word in by_name[name].split("; ")]
    assert found == words(context_of(plan, permissions, NOBODY), DIGEST).tolist()
    assert all(f"(* {name} *)\n" in text for name, _ in columns(context_of(plan, permissions), DIGEST))
    assert "x__y" in text
    assert (tmp_path / "a/b/_CoqProject").read_text() == "-Q /th Tmmu\nPlan.v\n"


def test_what_is_no_file_or_cannot_be_read_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe in its place is not waited for. spec: C4.4"""
    os.mkfifo(tmp_path / "Plan.v")
    project = tmp_path / "_CoqProject"
    project.write_text("-Q /th Tmmu\nPlan.v\n")

    def refused(*_: object) -> None:
        raise PermissionError("not yours")

    with monkeypatch.context() as patched:
        patched.setattr(coq_file, "read_head", refused)
        coq_file.remove_coq_file(tmp_path)
    assert project.exists()
    coq_file.remove_coq_file(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["Plan.v"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    plan = training_plan(1)
    (tmp_path / "file").touch()
    with pytest.raises(TmmuError, match="cannot be made"):
        coq_file.write_coq_file(
            tmp_path / "file" / "coq",
            "n",
            context_of(plan, decide_permissions(plan, None, NOBODY), NOBODY),
            DIGEST,
            Path("/th"),
        )


# The program, which others play.


def playing(folder: Path, script: str) -> Path:
    path = folder / "kernel"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


ACCEPTED = (
    f"echo accepted accesses {DIGEST.hex()}; echo slots true; echo footprints unclaimed; echo inputs false; "
    "echo symbolic unclaimed"
)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo accepted", "not understood"),
        (f"echo rejected accesses {DIGEST.hex()}", "not understood"),
        (f"echo rejected accesses {DIGEST.hex()} {len(PARTS)}", "not understood"),
        (f"echo accepted accesses {DIGEST.hex()} 1", "not understood"),
        (f"echo accepted accesses {bytes(32).hex()}", "another file"),
        (f"echo accepted lifetimes {DIGEST.hex()}", "another file"),
        (f"{ACCEPTED}; exit 3", "without an answer: exit code 3"),
        ("echo first >&2; echo last >&2; exit 3", "without an answer: last"),
        ("kill -9 $$", "exit code -9"),
        (r"printf '\377\n'", "not understood"),
        (f"echo accepted accesses {DIGEST.hex()}; echo slots true", "claims"),
        (f"echo accepted accesses {DIGEST.hex()}; echo slots true; echo footprints maybe; echo inputs true", "claims"),
        (f"echo accepted accesses {DIGEST.hex()}; echo slots true; echo footprints true", "claims"),
        (f"{ACCEPTED}; echo more", "claims"),
        (f"{ACCEPTED}; echo arena 0 fewest_slots true least_footprint true; echo more", "claims"),
        (f"{ACCEPTED}; echo arena 1 fewest_slots true least_footprint true", "claims"),
        (f"{ACCEPTED}; echo arena 0 fewest_slots true least_footprint maybe", "claims"),
    ],
)
def test_a_program_that_dies_or_is_not_understood_gives_no_answer(script: str, said: str, tmp_path: Path) -> None:
    """spec: V6.1, RE2.6"""
    answer = ask_words(playing(tmp_path, script), NO_WORDS, DIGEST, 60)
    assert (answer.accepted, answer.rejected) == (False, False)
    assert said in answer.failure


def test_a_program_that_is_late_or_not_there_gives_no_answer(tmp_path: Path) -> None:
    late = ask_words(playing(tmp_path, "exec sleep 100000"), NO_WORDS, DIGEST, 0.2)
    assert late == KernelAnswer(failure="no answer within 0.2 s")
    assert "cannot be run" in ask_words(tmp_path / "none", NO_WORDS, DIGEST, 1).failure


def test_what_is_understood_says_which_part_or_what_is_shown_of_which_arena(tmp_path: Path) -> None:
    for number, part in enumerate(PARTS):
        script = f"echo rejected accesses {DIGEST.hex()} {number}"
        assert ask_words(playing(tmp_path, script), NO_WORDS, DIGEST, 60) == KernelAnswer(rejected=True, part=part)
    script = f"{ACCEPTED}; echo arena 0 fewest_slots true least_footprint false"
    script += "; echo arena 1 fewest_slots false least_footprint unclaimed"
    answer = ask_words(playing(tmp_path, script), NO_WORDS, DIGEST, 60)
    assert answer == KernelAnswer(
        True, slots=True, inputs=False, fewest_slots=(True, False), least_footprint=(False, None)
    )


def said_of(plan: Plan, lines: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The kernel's answer on a plan where the program answers with some lines."""
    file.save(plan, folder / "plan.cbor")
    stated = file.load(folder / "plan.cbor")
    answer = lines.format(digest=stated.sha256.hex())
    path = playing(folder, "\n".join(f"echo {line}" for line in answer.splitlines()))
    monkeypatch.setattr(installed, "find_program", lambda: path)
    context = context_of(stated.plan, decide_permissions(stated.plan, None, NOBODY))
    return kernel_answer(context, PlanFile.as_read(stated), 60)


def test_the_answer_is_what_the_program_reports_of_arenas_that_hold_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: V6.1, V6.5"""
    plan = plan_memory(text_model("node relu Relu x -> y")).plan
    used = [i for i, usage in enumerate(plan.usage) if usage.slots]
    assert 0 < len(used) < len(plan.allocation.arenas)
    name, sources = plan.allocation.arenas[used[0]].name, {"sources": installed.digest()}
    first = "accepted accesses {digest}"

    def shown(
        slots: str, footprints: str, fewest: str, least: str, inputs: str = "true", symbolic: str = "unclaimed"
    ) -> str:
        lines = [first, f"slots {slots}", f"footprints {footprints}", f"inputs {inputs}", f"symbolic {symbolic}"]
        for i in range(len(plan.allocation.arenas)):
            claims = (fewest, least) if i in used else ("false", "false")
            lines.append(f"arena {i} fewest_slots {claims[0]} least_footprint {claims[1]}")
        return "\n".join(lines)

    both, none = ({"fewest_slots": names, "least_footprint": names, "inputs_kept": True} for names in ([name], []))
    rejected = {"answer": "rejected"}
    for lines, expected in (
        ("rejected accesses {digest} 6", rejected | {"reason": "sharing_is_sound"}),
        ("accepted", {"answer": "no_answer", "reason": "its answer is not understood"}),
        (
            shown("true", "true", "true", "true").rpartition("\n")[0],
            {"answer": "no_answer", "reason": "its claims are about other arenas"},
        ),
        (shown("true", "true", "true", "true"), {"answer": "accepted"} | both),
        (shown("unclaimed", "unclaimed", "unclaimed", "unclaimed"), {"answer": "accepted"} | none),
        (shown("true", "true", "true", "true", "false"), {"answer": "accepted"} | both | {"inputs_kept": False}),
        (shown("true", "true", "true", "true", symbolic="true"), {"answer": "accepted"} | both | {"symbolic": True}),
        (shown("true", "true", "true", "true", symbolic="false"), rejected | both | {"reason": "symbolic"}),
        (shown("false", "true", "true", "true"), rejected | both | {"reason": "slots"}),
        (shown("true", "false", "true", "true"), rejected | both | {"reason": "footprints"}),
        (shown("true", "true", "false", "unclaimed"), rejected | none | {"reason": f"fewest_slots of {name}"}),
        (shown("true", "true", "unclaimed", "false"), rejected | none | {"reason": f"least_footprint of {name}"}),
    ):
        assert said_of(plan, lines, tmp_path, monkeypatch) == sources | expected
    stated = file.load(tmp_path / "plan.cbor")
    monkeypatch.setattr(installed, "find_program", lambda: None)
    assert kernel_answer(context_of(stated.plan, Permissions()), PlanFile.as_read(stated), 60) == {
        "answer": "not installed",
        **sources,
    }
