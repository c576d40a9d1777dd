"""The soak says no: to a checker that overlooks something or refuses everything, to a witness that shows nothing.

spec: V4.4, V1.8
"""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs import checker
from proofs.checker import Problem
from proofs.verdict import OBLIGATIONS
from tests.soak.lies import LIES
from tests.soak.plans import Soak
from tests.soak.witness import confirmed
from tests.strategies.models import numbered
from tmmu.plan import file
from tmmu.planner import plan_memory


def soaked(folder: Path, plans: range, sample: int = 7) -> Soak:
    soak = Soak(folder, sample)
    try:
        for number in plans:
            soak.plan(number)
    finally:
        soak.close()
    return soak


def test_every_obligation_is_lied_about_and_every_lie_is_caught(tmp_path: Path) -> None:
    """spec: V4.4, C2.5"""
    figures = soaked(tmp_path, range(12)).figures
    assert figures.wrong == []
    assert set(LIES) | {"hashes"} == set(OBLIGATIONS)
    assert all(figures.refuted[name] for name in OBLIGATIONS)
    assert all(figures.by_command[name] for name in LIES)
    assert figures.told == figures.refuted + figures.no_plan
    assert "0 not caught" in figures.table()


def test_a_checker_that_overlooks_overlaps_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "overlapping", lambda run: iter(()))
    wrong = soaked(tmp_path, range(3)).figures.wrong
    assert any("no_live_overlap" in line for line in wrong)


def test_a_checker_that_refuses_everything_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem("alignment", (), None, "", None, None, "it is wrong")
    monkeypatch.setattr(checker, "placed", lambda run: iter([problem]))
    assert any("right, and refuted" in line for line in soaked(tmp_path, range(2)).figures.wrong)


def test_a_file_whose_hashes_are_not_looked_at_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: V1.8"""
    monkeypatch.setattr(file, "false_hashes", lambda stated: [])
    assert any("bit" in line for line in soaked(tmp_path, range(3)).figures.wrong)


def test_a_witness_that_shows_nothing_is_not_confirmed() -> None:
    """spec: V4.4"""
    plan = plan_memory(numbered(7)).plan
    names = plan.tensors.name.list()
    homes = dict(zip(names, plan.tensors.storage.tolist(), strict=True))
    one, other = next((a, b) for a in names for b in names if homes[a] != homes[b])
    arena = plan.arenas[int(plan.storages.arena[homes[one]])].name
    for obligation, tensors in (
        ("no_live_overlap", (one, other)), ("alignment", (one,)), ("capacity", (one,)),
        ("tensors_within_storages", (one,)), ("must_not_alias", (one, other)),
    ):  # fmt: skip
        assert not confirmed(plan, Problem(obligation, tensors, 0, arena, 0, 0, "no"))
