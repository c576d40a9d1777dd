"""The rules of the lemmas on zeroing, run beside the runtime: what they say a birth zeroes is what it zeroes.

Whatever was born is written over after every step, so that a birth that zeroes too little shows, and one that zeroes
bytes of others too. Steps run again, as in loops, and the plan is executed twice.
spec: U2.8, U2.9, U2.10, V4.11
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from proofs.proving.lemmas.planner import zeroing
from tests.support import ties
from tests.support.ground import Ground
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.runtime import apply, births, commit, execution
from tmmu.testing.strategies.models import models

UNALIGNED = tuple(replace(arena, alignment=1) for arena in DEFAULT)
TEXTS = {"STALE": zeroing.STALE, "ZEROED": zeroing.ZEROED}
examples = st.tuples(
    st.builds(
        lambda model, layout: plan_memory(model, UNALIGNED, PlanOptions(layout=layout)).plan,
        models(size=8), st.sampled_from(("packed", "slots")),
    ),
    st.integers(0, 255),
)  # fmt: skip


def disagreement(texts: ties.Texts, code: ModuleType, example: tuple[Plan, int]) -> str | None:
    """A byte that a birth left otherwise than the lemmas say."""
    plan, again = example
    kept, execution.Births = execution.Births, code.Births
    try:
        running = apply.apply_plan(plan)
    finally:
        execution.Births = kept
    with running:
        reused = [_Reused(texts, plan, a) for a, arena in enumerate(plan.allocation.arenas) if arena.reuse]
        for batch in range(2):
            last = -1
            for step in _walk(len(plan.allocation.steps), again):
                before = [arena.content(running) for arena in reused]
                if last < 0:
                    running.begin()
                if len(plan.allocation.steps):
                    running.step(step)
                for arena, held in zip(reused, before, strict=True):
                    if wrong := arena.stepped(running, held, step, again=batch > 0 or step <= last):
                        return f"batch {batch}, step {step}: {wrong}"
                last = step
            commit.commit_execution(running)
    return None


def _walk(steps: int, again: int) -> Iterator[int]:
    """The steps in order; where a bit of `again` is set, the last few run again. Step 0 begins a batch but once."""
    for step in range(max(1, steps)):
        yield step
        if again >> (step % 8) & 1:
            yield from range(max(1, step - 2), step + 1)


class _Reused:
    """One arena by the lemmas' rules: what was born in it so far, and whether it is fresh."""

    def __init__(self, texts: ties.Texts, plan: Plan, arena: int) -> None:
        self.texts, self.arena, self.storages = texts, arena, plan.allocation.storages
        self.size = plan.usage[arena].footprint
        self.members = [k for k, a in enumerate(plan.allocation.storages.arena.tolist()) if a == arena]
        self.born: set[int] = set()
        self.fresh = True

    def content(self, running: execution.Execution) -> list[int]:
        return [int(value) for value in running.memory.bytes(self.arena, 0, self.size)] if self.size else []

    def stepped(self, running: execution.Execution, held: list[int], step: int, *, again: bool) -> str | None:
        s = self.storages
        given = {
            "now": step, "again": again, "birth": lambda x: int(s.birth[x]), "death": lambda x: int(s.death[x]),
            "offset": lambda x: int(s.offset[x]), "bytes": lambda x: int(s.bytes[x]),
        }  # fmt: skip
        if any(Ground("", {**given, "x": x}).value(self.texts["STALE"]) for x in self.born):
            self.fresh = False
        expected = list(held)
        for x in (k for k in self.members if s.birth[k] == step):
            self.born.add(x)
            for byte in range(self.size):
                if Ground("", {**given, "x": x, "byte": byte, "fresh": self.fresh}).value(self.texts["ZEROED"]):
                    expected[byte] = 0
        found = self.content(running)
        for x in self.born:
            if s.birth[x] <= step <= s.death[x]:
                running.memory.bytes(self.arena, int(s.offset[x]), int(s.bytes[x]))[:] = 1 + x % 255
        return None if found == expected else f"arena {self.arena} holds {found}, by the lemmas {expected}"


@given(examples)
def test_a_birth_zeroes_what_the_lemmas_say(example: tuple[Plan, int]) -> None:
    """spec: U2.8, U2.9, V4.11"""
    assert disagreement(TEXTS, births, example) is None


@pytest.mark.parametrize(
    ("side", "old", "new"),
    [
        ("code", "int(s.offset[k])), int(s.bytes[k]))", "int(s.offset[k])), max(0, int(s.bytes[k]) - 1))"),
        ("code", "if step <= self._last or death < step:", "if step <= self._last:"),
        ("code", "if step <= self._last or death < step:", "if death < step:"),
        ("code", "if not is_fresh:", "if False:"),
        ("STALE", "(or again (< (death x) now))", "again"),
        ("STALE", "(or again (< (death x) now))", "(< (death x) now)"),
        ("ZEROED", "(< byte (+ (offset x) (bytes x)))", "(<= byte (+ (offset x) (bytes x)))"),
        ("ZEROED", "(and (not fresh)", "(and fresh"),
    ],
)
def test_a_change_of_one_side_alone_is_noticed(side: str, old: str, new: str) -> None:
    """spec: V4.11"""
    texts, code = dict(TEXTS), births
    if side == "code":
        code = ties.copied(births, old, new)
    else:
        texts[side] = texts[side].replace(old, new)
        assert texts != TEXTS
    quick = settings(max_examples=2000, database=None, derandomize=True, phases=[Phase.generate])
    shown = find(examples, lambda example: disagreement(texts, code, example) is not None, settings=quick)
    assert disagreement(TEXTS, births, shown) is None


def test_an_arena_in_which_something_was_written_may_still_be_fresh() -> None:
    """The lemmas once called an arena stale after any write, which is another rule than the runtime's: it leaves a
    storage alone that is born where nothing has died. They are of this rule now. spec: V4.11, U2.9
    """
    from tests.support.text_models import text_model

    plan = plan_memory(
        text_model("node matmul Matmul x -> a", "node add Add a x -> y"), options=PlanOptions(layout="slots")
    ).plan
    shown = zeroing.STALE
    with apply.apply_plan(plan) as running:
        running.begin()
        running.step(0)
        written = [k for k in range(len(plan.allocation.storages)) if plan.allocation.storages.birth[k] == 0]
        for k in written:
            running.memory.bytes(int(plan.allocation.storages.arena[k]), int(plan.allocation.storages.offset[k]), 1)[
                :
            ] = 1
        deaths = {"death": lambda x: int(plan.allocation.storages.death[x]), "again": False, "now": 1}
        assert not any(Ground("", {**deaths, "x": k}).value(shown) for k in written)
        spare = next(k for k in range(len(plan.allocation.storages)) if plan.allocation.storages.birth[k] == 1)
        where = (
            int(plan.allocation.storages.arena[spare]),
            int(plan.allocation.storages.offset[spare]),
            int(plan.allocation.storages.bytes[spare]),
        )
        running.memory.bytes(*where)[:] = 7  # what nothing but a write out of bounds could do
        running.step(1)
        assert np.all(running.memory.bytes(*where) == 7), "a birth in a fresh arena touches nothing"
