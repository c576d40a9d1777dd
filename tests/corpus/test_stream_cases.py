"""Plans and models of reported cases, stated with their streams: buffers that are used again too early, and not.

`tests/corpus/streams` has, under the name of each case, the plan that is refuted and right ones beside it. Reported are
a freed buffer that another stream takes (pytorch/pytorch#178549, ggml-org/llama.cpp#2757), a tensor that is still
copied to the host (pytorch/pytorch#167880, deepspeedai/DeepSpeed#8255), and weights that are gathered one layer ahead
(facebookresearch/fairscale#858, AI-Hypercomputer/maxtext#4493). spec: X5.3, X5.8, X6.2
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tmmu
from proofs.verify.judge import verify
from tmmu.simulator import HashKernels, PlanProgram
from tmmu.simulator.schedules import Schedules

FOLDER = Path(__file__).parent / "streams"
EXPECTED = {
    "two-streams": {"a", "c"},
    "two-streams-ordered": set[str](),
    "two-streams-apart": set[str](),
    "async-copy": {"a", "b"},
    "async-copy-awaited": set[str](),
    "gathered-ahead": {"w1", "w2"},
    "gathered-ahead-two-buffers": set[str](),
}
"""The tensors of the race that the verifier finds in each plan, none if it is right."""


def test_each_file_has_an_expectation() -> None:
    assert {path.name.removesuffix(".plan.txt") for path in FOLDER.glob("*.plan.txt")} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_case_is_refuted_with_its_tensors_or_proved(name: str) -> None:
    path = FOLDER / f"{name}.plan.txt"
    verdict = verify(str(path))
    assert verdict.verdict == ("REFUTED" if EXPECTED[name] else "PROVED")
    assert set(verdict.witness["tensors"] if verdict.witness else ()) == EXPECTED[name]
    program = PlanProgram(tmmu.load(path).sections)
    schedules, kernels = Schedules(program, sanitize=True), HashKernels(program)
    found = [corruption for seed in range(20) if (corruption := schedules.run(kernels, seed).report.corruption)]
    assert bool(found) == bool(EXPECTED[name])


def test_a_model_that_gathers_ahead_has_two_layers_at_a_time() -> None:
    path = FOLDER / "gathered-ahead.ir.txt"
    plan = tmmu.plan(path)
    assert tmmu.verify(plan, model=path).proved
    places = {name: (plan[name].offset, plan[name].bytes) for name in ("w1", "w2", "w3")}
    assert places["w1"][0] != places["w2"][0] != places["w3"][0]
