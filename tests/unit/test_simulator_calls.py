"""Programs that take turns in one memory keep what they share; a set that does not keep it is shown by a run.

spec: SIM9.1, SIM9.2, SIM9.3
"""

from __future__ import annotations

import pytest

from tests.support import set_programs
from tests.support.set_programs import CALLS, run_set
from tmmu.core.errors import TmmuError
from tmmu.runtime.sets import SetMemory
from tmmu.simulator import Corrupted, HashKernels, PlanProgram
from tmmu.simulator.calls import SetCalls, find_state

FAULTS = {
    "cache moved": ({"prefill": ("256 act   0", "256 act 640")}, "the caller has kept past", ("past", "nothing")),
    "activation over another's cache": (
        {"classify": ("c   64 act 320", "c   64 act 128")}, "the caller has kept past", ("past", "c"),
    ),
    "scratch over another's weight": (
        {"classify": ("weights 0 parameter", "act 512 parameter"), "decode": ("weights 0 para", "act 512 para")},
        "the caller has kept w", ("w", "s"),
    ),
    "weight written": (
        {"prefill": ("step write my::Fill a -> kv", "step write my::Fill a w -> kv w changes w")},
        "the caller finds w changed", ("w",),
    ),
}  # fmt: skip


def test_every_call_finds_what_the_calls_before_it_left() -> None:
    """Private memory hands it on; the arenas are compared with that at each access."""
    reports = run_set()
    assert [report.corruption for report in reports] == [None] * len(CALLS)
    assert all(report.looks for report in reports)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_set_that_loses_what_it_keeps_is_corrupted(fault: str) -> None:
    faults, text, tensors = FAULTS[fault]
    found = run_set(faults)[-1].corruption
    assert found is not None
    assert (found.text.split(",")[0], found.tensors) == (text, tensors)


def test_the_caller_writes_initial_state_and_no_other() -> None:
    """spec: PS1.8, SIM9.4"""
    assert [report.identical for report in run_set(calls=("decode", "decode"))] == [True, True]
    calls = ("classify", "prefill", "decode")
    assert [report.identical for report in run_set(calls=calls, cache_is_initial=False)] == [True] * 3
    with pytest.raises(
        TmmuError, match=r"decode takes cache, which neither .* written; call prefill before it"
    ) as found:
        run_set(calls=("classify", "decode"), cache_is_initial=False)
    assert found.value.code_id == "CONTRACT_VIOLATION"


def test_what_is_kept_depends_on_every_call_before() -> None:
    """Otherwise a run that loses state would look the same. A program without the cache changes nothing of it."""
    made = set_programs.plans()
    programs = set_programs.set_programs(made)
    left = []
    for calls in (("decode",), ("decode", "decode"), ("prefill", "decode"), ("decode", "classify", "decode")):
        with SetMemory.map(made) as memory:
            running = SetCalls(programs, ("w", "cache"), memory.of)
            for name in calls:
                assert running.call(name, HashKernels(programs[name].program)).identical
            left.append(running.kept["cache"].content.tobytes())
    assert left[1] == left[3]
    assert len(set(left)) == 3


def test_a_plan_without_a_tensor_of_the_agreement_is_not_run() -> None:
    plan = set_programs.plans()["classify"]
    with pytest.raises(Corrupted, match="the plan of decode has no tensor past"):
        find_state("decode", PlanProgram(plan), set_programs.agreement())


def test_one_memory_is_mapped_for_all_programs() -> None:
    """spec: U9.1, U9.2"""
    plans = set_programs.plans()
    with SetMemory.map(plans) as memory:
        memory.of["prefill"].bytes("act", 100, 1)[:] = 7
        assert [each.bytes("act", 100, 1).tolist() for each in memory.of.values()] == [[7]] * 3
        assert {each.name: each.size for each in memory.mappings} == {"act": 576, "weights": 64}
        assert memory.bytes_allocated == 2 * 4096
    with pytest.raises(TmmuError, match="closed"):
        memory.of["decode"].bytes("act", 0, 1)


def test_programs_whose_addresses_cannot_be_those_of_one_memory_are_refused() -> None:
    """spec: U9.2"""
    plans = set_programs.plans({"decode": ("arena act 1024 align 64", "arena act 1024 align 64 scattered")})
    with pytest.raises(TmmuError, match="arena 'act' of the program 'decode': the arena has hashed addresses"):
        SetMemory.map(plans)
