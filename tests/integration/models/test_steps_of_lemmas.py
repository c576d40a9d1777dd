"""The lemmas about machines are about the steps of their modules: TLC takes them, the lemma's own text is evaluated.

spec: V4.9, V4.11
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from proofs.model_check import manifest
from proofs.model_check.manifest import Run
from proofs.tools import java, tlatools
from tests.support import machines_of_memory as memory
from tests.support import machines_of_plans as plans
from tests.support import tied_machines
from tests.support.effort import share
from tests.support.tied_machines import Tie, actions_of
from tests.support.tlc_steps import Steps, sample, steps_of, value_of

MODULES = {module.name: module for module in manifest.read(manifest.installed())}
TIES = {
    "LinearScan": plans.LINEAR_SCAN, "AliasReferences": plans.ALIAS_REFERENCES, "Quota": plans.QUOTA,
    "PlanLifecycle": plans.PLAN_LIFECYCLE, "Sharding": plans.RANKS, "Bodies": plans.BODIES, "Pools": memory.POOLS,
    "PoolGenerations": memory.POOL_GENERATIONS, "CacheGrowth": memory.CACHE_GROWTH, "Sessions": memory.SESSIONS,
    "MappedRegions": memory.MAPPED_REGIONS, "Eviction": memory.EVICTION, "WriteLocks": memory.WRITE_LOCKS,
    "DeltaEncoding": memory.DELTA_ENCODING, "SealedRecords": memory.SEALED_RECORDS, "SealedLog": memory.SEALED_LOG,
}  # fmt: skip
MOST = share(40)
"""How many steps of each action are looked at."""


@pytest.fixture(scope="module")
def tools() -> tuple[str, Path]:
    return java.find(), tlatools.archive()


def runs_of(module: str) -> list[Run]:
    return [run for run in MODULES[module].runs if run.kind == "model" and run.size == "ci"]


def constants_of(run: Run) -> dict[str, object]:
    """The constants of a configuration, as values; what it defines elsewhere is left out."""
    pairs = (line.split(" = ", 1) for line in run.config.constants if " = " in line)
    return {name: value_of(value) for name, value in pairs}


def wrong_steps(tie: Tie, run: Run, steps: Steps) -> Iterator[str]:
    """What is wrong, one after the other: who wants one needs not wait for all."""
    constants = constants_of(run)
    found = chain(
        (tied_machines.beginning(tie, constants, first) for first in steps.first),
        (tied_machines.disagreement(tie, constants, step) for taken in steps.taken.values() for step in taken),
    )
    return (wrong for wrong in found if wrong is not None)


@pytest.mark.parametrize("module", TIES)
def test_every_step_of_a_module_is_one_of_its_lemma(module: str, tools: tuple[str, Path]) -> None:
    tie, taken = TIES[module], set()
    for run in runs_of(module):
        steps = steps_of(run, *tools, MOST)
        assert list(wrong_steps(tie, run, steps)) == []
        taken |= set(steps.taken)
    assert taken == set(tie.actions)


@pytest.mark.parametrize("module", list(TIES)[: share(len(TIES))])
def test_a_module_in_which_one_place_says_something_else_takes_a_step_that_is_none(
    module: str, tools: tuple[str, Path]
) -> None:
    tie = TIES[module]
    (twin,) = [run for run in MODULES[module].runs if run.name == tie.twin]
    assert next(wrong_steps(tie, twin, steps_of(twin, *tools, 10 * MOST)), None) is not None


def test_every_action_of_a_machine_is_one_of_its_module() -> None:
    for module, tie in TIES.items():
        text = (MODULES[module].folder / f"{module}.tla").read_text()
        named = {action for rule in tie.machine.actions for action in actions_of(rule)}
        assert not named & set(tie.silent)
        for action in (*named, *tie.silent):
            assert re.search(rf"^{action}(\(.*\))? ==", text, re.MULTILINE), (module, action)


def test_a_dump_is_read_with_all_kinds_of_values() -> None:
    dump = (
        '7 [label="/\\\\ a = 1..3\\n/\\\\ b = [x |-> {}, y |-> <<\\"z\\", TRUE>>]",style = filled]\n'
        '-8 [label="/\\\\ a = {}\\n/\\\\ b = (r1 :> -1 @@ <<0>> :> 2)"]\n'
        '7 -> -8 [label="Go",color="black",fontcolor="black"];\n'
    )
    steps = sample(dump, 5)
    (step,) = steps.taken["Go"]
    assert steps.first == [step.before]
    assert step.before == {"a": {1, 2, 3}, "b": {"x": frozenset(), "y": ("z", True)}}
    assert step.after == {"a": frozenset(), "b": {"r1": -1, (0,): 2}}
    with pytest.raises(ValueError, match="goes on"):
        value_of("1 2")
