"""The functions that the theorem is about give the planner's slots and offsets, for golden graphs and random requests.

Coq evaluates them: nothing between them and the theorem is trusted. spec: V6.15, T6.1, T6.2, A1.1, A1.2
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
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.planner import DEFAULT, plan_memory
from tmmu.planner.layouts.slots import place
from tmmu.planner.options import PlanOptions
from tmmu.planner.slots import assign_slots
from tmmu.plans.sections import Plan

Request = tuple[int, int, int, int]
"""Of a storage: its first and last step, its bytes and its alignment."""
HEAD = """From Coq Require Import ZArith List.
From Tmmu Require Import Lists Columns Scan Planned.
Import ListNotations.
Open Scope Z_scope.
Definition base : arena :=
  {| capacity := 0; least_alignment := 128; scattered := false; footprint := 0; fullest := 0; peak := 0 |}.
Definition both (l : list request) : list Z * list Z :=
  (map Z.of_nat (linear_scan (map of_life l)),
   if Z.of_nat (length l) <=? SMALL
   then map (fun k => offset_of l 0 base (slot_of l k)) (run 0 (Z.of_nat (length l))) else []).
"""
SMALL = 8
"""Offsets are computed for at most so many requests: the time of their definition grows with the fourth power."""


def planned_in_coq(lists: list[list[Request]], folder: Path) -> list[tuple[list[int], list[int]]]:
    """What Coq computes of each list of requests: slots, and offsets if there are few."""
    rows = ";\n".join(
        f"[{'; '.join(f'Request (Life {b} {d}) {size} {to}' for b, d, size, to in asked)}]" for asked in lists
    )
    (folder / "Scan_of.v").write_text(f"{HEAD.replace('SMALL', str(SMALL))}Eval vm_compute in map both [{rows}].\n")
    whole = installed.folder()
    assert whole is not None  # these tests run if the kernel is built
    command = ["coqc", "-q", "-Q", str(whole / installed.THEORY), "Tmmu", "-w", "none", "Scan_of.v"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    text = re.sub(r":\s*list.*", "", done.stdout.strip().removeprefix("= "), flags=re.DOTALL)
    found = json.loads(text.translate({ord(";"): ",", ord("("): "[", ord(")"): "]"}))
    return [(slots, offsets) for slots, offsets in found]


def requests_and_answers(plan: Plan) -> list[tuple[list[Request], tuple[list[int], list[int]]]]:
    """Of each arena that reuses bytes: the requests by birth, and their slots and offsets.

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
        asked = [(int(s.birth[k]), int(s.death[k]), max(1, int(s.bytes[k])), int(s.alignment[k])) for k in rows]
        slots = [int(plan.slots.of[k]) - first for k in rows]
        found.append((asked, (slots, s.offset[rows].tolist() if len(rows) <= SMALL else [])))
    return found


def test_slots_and_offsets_are_those_of_the_functions_that_are_proved(tmp_path: Path) -> None:
    cases = [
        case
        for name in golden.NAMES
        if name not in golden.LARGE
        for _, mode, model, _ in golden.planned(name)
        for case in requests_and_answers(plan_memory(model, DEFAULT, PlanOptions(mode)).plan)
    ]
    assert len(cases) > 30
    assert max(len(asked) for asked, _ in cases) > 70
    assert sum(bool(offsets) for _, (_, offsets) in cases) > 3
    assert planned_in_coq([asked for asked, _ in cases], tmp_path) == [answer for _, answer in cases]


def test_so_are_those_of_random_requests(tmp_path: Path) -> None:
    rng = random.Random(0)
    lists, ours = [], []
    for _ in range(200):
        births = sorted(rng.randrange(12) for _ in range(rng.choice((5, SMALL, 30))))
        asked = [(b, b + rng.randrange(6), rng.choice((1, 64, 1000)), 1 << rng.randrange(10)) for b in births]
        asked.sort(key=lambda one: (one[0], -one[2]))
        lists.append(asked)
        arena = (ArenaConfiguration("activations", tuple(Role), alignment=128),)
        of = problem(
            *((b, d, size) for b, d, size, _ in asked), arenas=arena, names=[f"{k:03}" for k in range(len(asked))],
            alignment=[to for *_, to in asked],
        )  # fmt: skip
        slots = assign_slots(of, [0] * len(asked))
        ours.append((list(slots.slot), list(place(of, slots).offset) if len(asked) <= SMALL else []))
    assert planned_in_coq(lists, tmp_path) == ours
    assert max(len(set(slots)) for slots, _ in ours) > 5
