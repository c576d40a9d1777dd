"""VeriPB itself on windows of twenty storages: it accepts the proofs that are found, and no others.

VeriPB is taken from the path, or built by cargo (two minutes), kept beside the other tools. spec: V5.7, V5.8, V5.10
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from proofs.proving.optimum import veripb
from proofs.proving.optimum.formula import LiveStorage, build_lower_placement
from proofs.proving.optimum.refutation import refute
from proofs.verify.judge import verify
from proofs.verify.options import Options, ProofFolders
from tests.support.buffers import model_of
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.layouts.boxes import Boxes, Packing
from tmmu.planner.layouts.search import Effort, Group
from tmmu.plans import file
from tmmu.plans.sections import Plan

VERSION = "3.0.2"
WINDOW = 20


@pytest.fixture(scope="session", autouse=True)
def _veripb() -> None:
    """VeriPB on the path."""
    if shutil.which("veripb"):
        return
    kept = Path.home() / ".cache" / "tmmu" / f"veripb-{VERSION}"
    if not (kept / "bin" / "veripb").exists():
        if shutil.which("cargo") is None:
            pytest.skip("no cargo")  # nothing else builds VeriPB, and where cargo is, it is built
        subprocess.run(["cargo", "install", "veripb", "--version", VERSION, "--root", str(kept)], check=True)
    os.environ["PATH"] += f"{os.pathsep}{kept / 'bin'}"


def window(seed: int) -> Plan:
    """Twenty storages of odd sizes at multiples of two or four, placed as low as a search finds."""
    rng = random.Random(seed)
    births = [rng.randrange(10) for _ in range(WINDOW)]
    sizes = [rng.choice((1, 2, 3, 4, 5, 6, 7, 9, 11, 13)) for _ in births]
    boxes = Boxes(births, [b + rng.randrange(5) for b in births], sizes, [1] * WINDOW, {})
    arenas = (ArenaConfiguration("buffers", (Role.ACTIVATION,), alignment=rng.choice((2, 4))),)
    return plan_memory(model_of(boxes), arenas, PlanOptions(layout="packed", effort=1 << 23)).plan


def test_plans_of_windows_whose_optimum_is_above_the_peak_are_proved(tmp_path: Path) -> None:
    for seed in range(4):
        plan = window(seed)
        assert plan.usage[0].footprint > plan.usage[0].peak_live_bytes
        file.save(plan, tmp_path / f"{seed}.plan.cbor")
        found = verify(
            str(tmp_path / f"{seed}.plan.cbor"), Options(folders=ProofFolders(optimum=str(tmp_path / "proofs")))
        )
        assert found.verdict == "PROVED"
        assert found.claims["buffers"]["footprint_is_optimal"] == "proved"
        assert f"VeriPB {VERSION} has checked" in "".join(found.notes)


def apart(seed: int) -> tuple[LiveStorage, ...]:
    """Twenty storages of several alignments, of which what is live leaves bytes that no placement can use."""
    rng = random.Random(seed)
    sizes = (1, 2, 3, 4, 5, 6, 7, 9, 11, 13)
    rows = [(rng.randrange(10), rng.randrange(5), rng.choice(sizes), rng.choice((1, 1, 2, 4)))
            for _ in range(WINDOW)]  # fmt: skip
    return tuple(
        LiveStorage(row, birth, birth + length, size, step) for row, (birth, length, size, step) in enumerate(rows)
    )


FRAGMENTED = (20, 22, 184)
"""Windows whose optimum is above what is live and what alignment alone costs."""


def test_proofs_that_are_cut_or_changed_or_of_another_formula_are_refused(tmp_path: Path) -> None:
    kept: list[tuple[Path, str]] = []
    for seed in FRAGMENTED:
        spans = apart(seed)
        boxes = Boxes(*([getattr(s, name) for s in spans] for name in ("birth", "death", "bytes", "alignment")), {})
        search, effort = Group(boxes, Packing([0] * WINDOW, 1 << 20)), Effort(1 << 27)
        for _ in search.steps(effort):
            if effort.left <= 0:
                break
        assert search.best.height > boxes.least()
        lower = build_lower_placement(spans, set(), search.best.height - 1)
        assert lower is not None
        text = refute(lower)
        assert text is not None
        stated, proof = tmp_path / f"{seed}.opb", tmp_path / f"{seed}.pbp"
        stated.write_text("".join(f"{line}\n" for line in lower.opb_lines()))
        proof.write_text(text)
        assert veripb.check_proof(stated.read_bytes(), proof, 60.0).proved
        kept.append((stated, text))
    wrong_proof = tmp_path / "wrong.pbp"
    for k, (stated, text) in enumerate(kept):
        lines = text.splitlines()
        learned = [n for n, line in enumerate(lines) if line.startswith("rup ")]
        given = int(lines[1].split()[1])
        for wrong in (
            kept[k - 1][1],
            "\n".join([*lines[:2], "rup >= 1 ;", lines[-3], f"conclusion UNSAT : {given + 1} ;", lines[-1], ""]),
            "\n".join([*lines[: learned[-1]], *lines[learned[-1] + 1 :], ""]),
            text.replace("UNSAT", "NONE"),
            text[: len(text) // 2],
            "",
        ):
            wrong_proof.write_text(wrong)
            assert not veripb.check_proof(stated.read_bytes(), wrong_proof, 60.0).proved, (stated, wrong[:80])


OPB = b"* #variable= 2 #constraint= 2\n1 x1 1 x2 >= 2 ;\n1 ~x1 1 ~x2 >= 2 ;\n"
HEAD, END = "pseudo-Boolean proof version 3.0\n", "output NONE;\nconclusion UNSAT : -1;\nend pseudo-Boolean proof;\n"
GOAL = "red 1 yy >= 1 : yy -> {} : subproof\nproofgoal #1 {} >= 1; qed #1 : -1;\nqed red;\nrup >= 1;"


@pytest.mark.parametrize(
    "body",
    [
        "rup >= 1;", "pbc >= 1 : subproof rup >= 1; qed pbc : -1;", "red 1 yy >= 1 : yy -> 1;\nrup >= 1;",
        GOAL.format(1, "rup"), "@sum pol 1 2 + ;\ndel id @sum;\nrup >= 1;",
        "setlvl 2;\nrup 1 x1 >= 1;\nwiplvl 2;\nrup >= 1;",
        "i 1 x1 >= 0;\nia 1 x1 >= 1 : 1;\ncore id -1;\ne 1 x1 1 x2 >= 2;\nis_deleted 1 x1 1 x2 >= 1;\nrup >= 1;",
    ],
)  # fmt: skip
def test_a_proof_of_the_rules_that_are_known_is_accepted(body: str, tmp_path: Path) -> None:
    """Each of these rules is one of VeriPB's, in the form that is known here. spec: V5.10"""
    (tmp_path / "p.pbp").write_text(f"{HEAD}{body}\n{END}")
    checked = veripb.check_proof(OPB, tmp_path / "p.pbp", 60.0)
    assert checked == (True, f"VeriPB {VERSION} has checked {tmp_path / 'p.pbp'}")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("a >= 1;", "'a'"), ("@one a >= 1;", "'a'"), ("% ;\na >= 1;", "'a'"), ("rup 1 x1 >= 1;a >= 1;", "'a'"),
        ("pbc >= 1 : subproof a >= 1; qed pbc : -1;", "'a'"), (GOAL.format(0, "a"), "'a'"),
        ("red 1 x1 >= 1;\nrup >= 1;", "Warning: A witness must be specified"),
    ],
)  # fmt: skip
def test_a_proof_that_assumes_and_one_with_a_warning_are_refused_although_veripb_ends_with_0(
    body: str, reason: str, tmp_path: Path
) -> None:
    """spec: V5.10"""
    stated, proof = tmp_path / "f.opb", tmp_path / "p.pbp"
    stated.write_bytes(OPB)
    proof.write_text(f"{HEAD}{body}\n{END}")
    done = subprocess.run(["veripb", "--opb", stated, proof], capture_output=True, text=True, check=False)
    assert (done.returncode, veripb.UNSATISFIABLE in done.stdout.splitlines()) == (0, True)
    assert "Warning: " in done.stdout
    checked = veripb.check_proof(OPB, proof, 60.0)
    assert not checked.proved
    assert reason in checked.reason
