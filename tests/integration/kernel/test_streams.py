"""The installed program on plans whose steps run on streams: it accepts just those without a race.

spec: V6.25, V6.26, V6.27
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

from proofs.proving.kernel import installed, program, streams
from proofs.proving.kernel.answer import NOT_ASKED, WITH_STREAMS, kernel_answer
from proofs.proving.kernel.program import KernelAnswer, PlanFile, ask_streams
from proofs.proving.kernel.streams import StepStreams, stream_columns
from proofs.proving.obligations.context import CALLER, Context, context_of
from proofs.readers.sharing import decide_permissions
from tests.support.synthetic import training_plan
from tests.support.text_models import text_model
from tests.support.written import Written
from tmmu.examples.broken.editing import in_layout
from tmmu.planner import plan_memory
from tmmu.plans import text
from tmmu.plans.sections import Plan

FOUR_STEPS = """tmmu-plan-text 1
arena act 1280 align 64
tensor x 256 act 0 input
tensor a 256 act 256
tensor b 256 act 512
tensor c 256 act {c}
tensor y 256 act 768 output
step s1 Gemm x -> a
step s2 Gemm a -> b
step s3 Gemm x -> c
step s4 Add b c -> y
"""
"""Step s3 runs on another stream than the rest; `c` shares the bytes of `a` at 256."""


def read(plan: Plan) -> Context:
    return context_of(plan, decide_permissions(plan, None, frozenset()), frozenset())


def asked(plan: Plan, on: StepStreams) -> KernelAnswer:
    path = installed.find_program()
    assert path is not None
    return ask_streams(path, read(plan), on, PlanFile.of(plan), 60)


@pytest.mark.parametrize(
    ("c", "s3", "s4", "part"),
    [
        pytest.param(256, (), (2,), "version_ok", id="race"),
        pytest.param(1024, (), (2,), "", id="apart"),
        pytest.param(256, (1,), (2,), "", id="ordered"),
        pytest.param(256, (0,), (2,), "version_ok", id="early"),
        pytest.param(1024, (), (), "accesses_ordered", id="unjoined"),
    ],
)
def test_five_plans(c: int, s3: tuple[int, ...], s4: tuple[int, ...], part: str) -> None:
    plan = text.read(FOUR_STEPS.format(c=c).encode(), "p")
    assert isinstance(plan, Plan)
    answer = asked(plan, StepStreams(np.array([0, 0, 1, 0]), [(), (), s3, s4]))
    assert (answer.accepted, answer.part, answer.failure, answer.slots) == (not part, part, "", None)


def accesses(context: Context, step: int) -> Iterator[tuple[int, int, int, bool]]:
    """Each access of a step: arena, first byte, the byte behind the last, and whether it stores.

    Making a view stores nothing.
    """
    allocation = context.plan.allocation
    t, address = allocation.tensors, allocation.addresses()
    for which in ("reads", "writes"):
        for i in allocation.steps.listed(which)[step]:
            start = int(address[i])
            stores = which == "writes" and i not in context.permissions.views
            yield int(allocation.storages.arena[t.storage[i]]), start, start + int(t.bytes[i]), stores


def reachable(on: StepStreams) -> list[set[int]]:
    """The steps that happen before each step, by explicit reachability."""
    before: list[set[int]] = []
    for step, waits in enumerate(on.after):
        direct = {*waits, *(n for n in range(step) if on.stream[n] == on.stream[step])}
        before.append(direct.union(*(before[n] for n in direct)))
    return before


def is_ordered(context: Context, on: StepStreams) -> bool:
    """Whether no two steps race, and each read comes after the first write of its tensor, pair by pair."""
    before, count = reachable(on), len(on.after)
    touched = [[*accesses(context, step)] for step in range(count)]
    for n, m in combinations(range(count), 2):
        meet = any(
            a == b and max(lo, low) < min(hi, high) and (stores or also)
            for a, lo, hi, stores in touched[n] for b, low, high, also in touched[m]
        )  # fmt: skip
        if meet and n not in before[m]:
            return False
    first = [(int(context.writer[r]), step) for step, r in zip(context.reads.step, context.reads.tensor, strict=True)]
    return all(w in (CALLER, step) or w in before[step] for w, step in first)


def on_some(context: Context, seed: int) -> StepStreams:
    """Random streams and events: most reads wait for what they need, and some steps for everything before them."""
    choose = random.Random(seed)
    count, streams_, all_ = len(context.plan.allocation.steps), choose.choice([1, 2, 3]), choose.choice([0.0, 0.5, 0.9])
    needed: list[set[int]] = [set() for _ in range(count)]
    for step, r in zip(context.reads.step.tolist(), context.reads.tensor.tolist(), strict=True):
        if context.writer[r] not in (CALLER, step) and choose.random() < 0.99:
            needed[step].add(int(context.writer[r]))
    after = [sorted(needed[n] | (set(range(n)) if choose.random() < all_ else set())) for n in range(count)]
    return StepStreams(np.array([choose.randrange(streams_) for _ in range(count)]), after)


def random_plan(seed: int) -> Plan:
    """A plan of a small random graph, with views and results in place."""
    choose, lines = random.Random(seed), list[str]()
    names = ["x"]
    for row in range(choose.randint(5, 10)):
        operands = choose.sample(names, min(len(names), choose.randint(1, 2)))
        node, of = f"node n{row} my::Op {' '.join(operands)} -> t{row}", operands[0]
        lines += choose.choice([[node], [f"{node} inplace t{row} {of}"], [f"tensor t{row} u8 64 view {of} 0", node]])
        names.append(f"t{row}")
    return plan_memory(text_model(*lines, outputs=" ".join(names[-2:]))).plan


@pytest.mark.parametrize("layout", ["packed", "slots"])
def test_it_accepts_just_the_plans_without_a_race(layout: str) -> None:
    """The definition, pair by pair, agrees on random plans, and both answers occur."""
    answers = []
    for seed in range(6, 14):
        plan = in_layout(random_plan(seed), layout)
        context = read(plan)
        on = on_some(context, seed)
        answers.append(is_ordered(context, on))
        assert asked(plan, on).accepted == answers[-1], seed
    assert len({*answers}) == 2


def test_one_stream_is_what_a_plan_without_streams_is() -> None:
    plan = training_plan(300, seed=5, in_place=0.4, views=0.3, arenas=2)
    count = len(plan.allocation.steps)
    assert asked(plan, StepStreams(np.zeros(count, np.int64), [()] * count)).accepted


@pytest.mark.parametrize("lines", ["a = enter/Loop x; b = Relu a; y = leave/Loop b"])
def test_loops_are_refused(lines: str) -> None:
    """The program refuses them. For a verdict it is not asked, because such a plan may be right. spec: V6.27"""
    plan, on = Written(lines, outputs="y").plan(), StepStreams(np.zeros(3, np.int64), [()] * 3)
    assert asked(plan, on).part == "straight"
    answer = kernel_answer(read(plan), PlanFile.of(plan), 60, on)
    assert (answer["answer"], answer["reason"]) == (NOT_ASKED, WITH_STREAMS)


def test_an_answer_about_streams_has_the_fields_of_any_other() -> None:
    """Nothing is said about slots."""
    plan = training_plan(6, seed=2)
    answer = kernel_answer(read(plan), PlanFile.of(plan), 60, StepStreams(np.zeros(6, np.int64), [()] * 6))
    assert (answer["answer"], answer["fewest_slots"], answer["inputs_kept"]) == ("accepted", [], False)


@pytest.mark.parametrize(("waits", "message"), [([(), (1,)], "step 1 waits for step 1"), ([()], "each of 2 steps")])
def test_events_lead_from_earlier_rows(waits: list[tuple[int, ...]], message: str) -> None:
    context = read(Written("a = Relu x; y = Relu a", outputs="y").plan())
    with pytest.raises(ValueError, match=message):
        stream_columns(context, StepStreams(np.zeros(2, np.int64), waits))


RACE = text.read(FOUR_STEPS.format(c=256).encode(), "race")
RACING = StepStreams(np.array([0, 0, 1, 0]), [(), (), (), (2,)])


@pytest.mark.parametrize(
    "edit",
    [
        {"clocks": [0, 0, 1, 0, 2, 0, 2, 3]},
        {"previous step of the stream + 1": [0, 1, 2, 2], "clocks": [0, 0, 1, 0, 2, 0, 2, 3]},
        {"last accesses: rows": [0, 2, 0, 3, 2, 3, 3]},
        {"edges: below": [5, 5, 5, 5, 5]},
        {"made by + 1": [0, 1, 2, 0, 4]},
    ],
    ids=["a clock", "a previous step of another stream", "last accesses", "edges from the floor", "a maker"],
)
def test_no_evidence_makes_a_race_accepted(edit: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: V6.26"""
    assert isinstance(RACE, Plan)
    assert asked(RACE, RACING).part == "version_ok"
    named = [(name, np.array(edit.get(name, column))) for name, column in stream_columns(read(RACE), RACING)]
    assert set(edit) <= {name for name, _ in named}
    monkeypatch.setattr(program, "stream_columns", lambda *_: named)
    assert not asked(RACE, RACING).accepted


def test_the_program_reads_the_version_that_is_written() -> None:
    assert f"STREAMS_VERSION : Z := {streams.VERSION}." in (installed.SOURCES / "Races.v").read_text()
