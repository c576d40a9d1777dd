"""The linear scan that the theorem is about gives the planner's slots, for each golden graph and for random lifetimes.

Coq evaluates its function: nothing between it and the theorem is trusted. spec: V6.15, T6.1, T6.2
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from pathlib import Path

import numpy as np

from proofs.proving.kernel import installed
from tests.support import golden
from tests.support.problems import problem
from tmmu.planner import DEFAULT, plan_memory
from tmmu.planner.options import PlanOptions
from tmmu.planner.slots import assign_slots
from tmmu.plans.sections import Plan

Lifetimes = list[tuple[int, int]]
HEAD = """From Coq Require Import ZArith List.
From Tmmu Require Import Scan.
Import ListNotations.
Open Scope Z_scope.
"""


def scanned(lists: list[Lifetimes], folder: Path) -> list[list[int]]:
    """What Coq computes of each list of lifetimes."""
    rows = ";\n".join(f"[{'; '.join(f'Life {b} {d}' for b, d in lives)}]" for lives in lists)
    (folder / "Scan_of.v").write_text(
        f"{HEAD}Eval vm_compute in map (fun l => map Z.of_nat (linear_scan l)) [{rows}].\n"
    )
    whole = installed.folder()
    assert whole is not None  # these tests run if the kernel is built
    theory = whole / installed.THEORY
    command = ["coqc", "-q", "-Q", str(theory), "Tmmu", "-w", "none", "Scan_of.v"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    found: list[list[int]] = json.loads(re.sub(r":\s*list.*", "", done.stdout.strip().removeprefix("= "), flags=re.S)
                                        .replace(";", ","))  # fmt: skip
    return found


def lifetimes_and_slots(plan: Plan) -> list[tuple[Lifetimes, list[int]]]:
    """Of each arena that reuses bytes: the lifetimes in the order in which slots are given out, and the slots.

    An arena with storages that must not alias is left out: those have conflicts beside their lifetimes (T5.2).
    """
    s, found = plan.allocation.storages, []
    names = plan.allocation.storage_names()
    for a, arena in enumerate(plan.allocation.arenas):
        rows = np.flatnonzero(s.arena == a).tolist()
        if not arena.reuse or not rows or not plan.usage[a].minimal:
            continue
        rows.sort(key=lambda k: (s.birth[k], -int(s.bytes[k]), names[k].encode()))
        first = min(plan.slots.of[rows].tolist())
        lives = [(int(s.birth[k]), int(s.death[k])) for k in rows]
        found.append((lives, [int(plan.slots.of[k]) - first for k in rows]))
    return found


def test_the_planners_slots_are_those_of_the_function_that_is_proved(tmp_path: Path) -> None:
    cases = [
        case
        for name in golden.NAMES
        if name not in golden.LARGE
        for _, mode, model, _ in golden.planned(name)
        for case in lifetimes_and_slots(plan_memory(model, DEFAULT, PlanOptions(mode)).plan)
    ]
    assert len(cases) > 30
    assert max(len(lives) for lives, _ in cases) > 70
    assert scanned([lives for lives, _ in cases], tmp_path) == [slots for _, slots in cases]


def test_so_are_those_of_random_lifetimes(tmp_path: Path) -> None:
    rng = random.Random(0)
    lists = []
    for _ in range(200):
        births = sorted(rng.randrange(12) for _ in range(rng.randrange(1, 30)))
        lists.append([(birth, birth + rng.randrange(6)) for birth in births])
    ours = []
    for lives in lists:
        sized = [(birth, death, 1) for birth, death in lives]
        asked = problem(*sized, names=[f"{k:03}" for k in range(len(sized))])
        ours.append(list(assign_slots(asked, [0] * len(sized)).slot))
    assert scanned(lists, tmp_path) == ours
    assert max(len(set(slots)) for slots in ours) > 5
