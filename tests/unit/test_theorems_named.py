"""The table of obligations and theorems in `soundness.md` names all of both. spec: V6.17, V6.18"""

from __future__ import annotations

import re

import pytest

from proofs.definition.violations import Obligation
from proofs.model_check.manifest import installed_folder, read_manifest
from proofs.proving.kernel.installed import SOURCES
from tests.integration.kernel.mutants import MUTANTS
from tests.nightly.sample import COUNT, larger_models, of_day
from tests.support.tutorials import ROOT

THEOREMS = set(re.findall(r"^Theorem (\w+)", (SOURCES / "Theorems.v").read_text(), re.MULTILINE))


def rows(text: str) -> list[list[str]]:
    """The rows of the table that begins with obligations."""
    table = text.partition("| obligation or feature |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


def objections(text: str) -> list[str]:
    """Return the errors of the table: an obligation or a theorem that is missing, or a name of neither."""
    found = rows(text)
    listed = {name for row in found for name in re.findall(r"`(\w+)`", row[0])}
    named = {name for row in found for name in re.findall(r"`(\w+)`", row[2])}
    paragraph = text.partition("| obligation or feature |")[0].rpartition("Each obligation of a verdict")[2]
    named |= {name for name in re.findall(r"`(\w+)`", paragraph) if "_" in name} - {"accepted_plans"}
    wrong = [f"{name} has no row" for name in {o.value for o in Obligation} - listed]
    wrong += [f"{name} is not a theorem" for name in named - THEOREMS]
    wrong += [f"the theorem {name} is not named" for name in THEOREMS - named]
    return wrong + [
        f"{row[0]} is inside, and no theorem is named" for row in found if row[1].startswith("yes") and not row[2]
    ]


@pytest.mark.checkout
def test_each_obligation_has_a_row_and_each_theorem_is_named() -> None:
    text = (ROOT / "spec" / "soundness.md").read_text()
    assert objections(text) == []
    assert objections(text.replace("| `peak` |", "| peak |")) == ["peak has no row"]
    assert objections(text.replace("no_fewer_slots", "no_slot")) != []
    row = "| `must_not_alias` | yes | "
    assert objections(text.replace(f"{row}`accepted_plans_run_as_private` |", f"{row}|")) == [
        "`must_not_alias` is inside, and no theorem is named"
    ]


@pytest.mark.checkout
def test_ci_runs_a_sample_and_each_part_comes_on_some_day() -> None:
    assert "make sample" in (ROOT / ".ci" / "run").read_text()
    days = range(1 + len(MUTANTS) // COUNT)
    assert {mutant for day in days for mutant in of_day(MUTANTS, day, COUNT)} == set(MUTANTS)
    larger = {run.name for module in read_manifest(installed_folder()) for run in module.runs if run.size == "full"}
    assert {name for day in range(len(larger)) for name in of_day(larger_models(), day)} == larger
