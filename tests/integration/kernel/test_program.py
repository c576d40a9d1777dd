"""The installed program accepts right plans and rejects wrong ones; whatever else happens is no answer.

spec: V6.2, V6.3, V6.6, V6.7
"""

from __future__ import annotations

import shutil
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from proofs.proving.kernel import installed
from proofs.proving.kernel.evidence import words
from proofs.proving.kernel.memory import ArenaRange, KernelMemory, join_columns, lifetime_columns
from proofs.proving.kernel.program import KernelAnswer, PlanFile, ask, ask_lifetimes, ask_words
from proofs.proving.obligations.context import context_of
from proofs.readers.sharing import Permissions, decide_permissions
from tests.support.synthetic import training_plan
from tests.support.text_models import text_model
from tests.support.written import Written
from tmmu.core.columns import Names
from tmmu.core.vocabulary import Bindings
from tmmu.examples.broken.editing import changed, in_layout, with_accesses
from tmmu.planner import plan_memory
from tmmu.plans.allocation import Arena, Buffers
from tmmu.plans.columns import Storages
from tmmu.plans.sections import BufferPlan, Plan, amend_plan

DIGEST = bytes(range(32))


def program() -> Path:
    path = installed.find_program()
    assert path is not None
    return path


def asked(plan: Plan, donated: frozenset[str] = frozenset()) -> KernelAnswer:
    """The answer about the plan's file, which is the same about the words that describe it whole."""
    context = context_of(plan, decide_permissions(plan, None, donated), donated)
    answer = ask(program(), context, PlanFile.of(plan), 60)
    assert answer == ask_words(program(), [words(context, DIGEST)], DIGEST, 60)
    return answer


@pytest.mark.parametrize("count", [0, 1, 2, 300])
@pytest.mark.parametrize("layout", ["slots", "hashed", "packed", "pools"])
def test_right_plans_are_accepted_in_every_layout(count: int, layout: str) -> None:
    plan = training_plan(count, seed=count, in_place=0.3, views=0.3, arenas=2)
    answer = asked(in_layout(plan, layout))
    assert answer == KernelAnswer(
        True, slots=True, footprints=True, inputs=answer.inputs, fewest_slots=(True, True),
        least_footprint=answer.least_footprint,
    )  # fmt: skip
    assert False not in answer.least_footprint


@pytest.mark.parametrize("count", [0, 40])
def test_a_plan_without_claims_is_accepted_and_none_is_shown(count: int) -> None:
    """spec: V6.7"""
    plan = training_plan(count, seed=7, in_place=0.3, views=0.3, arenas=2)
    unclaimed = (None,) * len(plan.allocation.arenas)
    answer = asked(Plan(plan.allocation))
    assert answer == KernelAnswer(True, inputs=answer.inputs, fewest_slots=unclaimed, least_footprint=unclaimed)


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("donated", ["", "x"])
def test_inputs_are_shown_to_be_kept_if_the_caller_reads_them_at_the_end(is_kept: bool, donated: str) -> None:
    """Parameters always are, and what is donated need not be. spec: Z1.2, Z1.3"""
    model = text_model("node add Add x w -> a", "node relu Relu a -> y", parameters="w")
    names = tuple(donated.split())
    plan = plan_memory(replace(model, bindings=Bindings(donated=names, keep_inputs=is_kept))).plan
    assert asked(plan, frozenset(names)).inputs == (is_kept or bool(donated))


def test_a_plan_of_nothing_is_accepted() -> None:
    assert asked(plan_memory(text_model(inputs="", outputs="")).plan).accepted


PLAN = training_plan(40, seed=7, in_place=0.3, views=0.3)
AT_ZERO = amend_plan(PLAN, storages=replace(PLAN.allocation.storages, offset=PLAN.allocation.storages.offset * 0))
WRONG = {
    "a storage beyond the capacity": (
        amend_plan(PLAN, arenas=(replace(PLAN.allocation.arenas[0], capacity=(PLAN.usage[0].footprint or 0) - 1),)),
        "placed",
    ),
    "a storage that dies before it is born": (changed(PLAN, "storages", 5, birth=30, death=3), "placed"),
    "a storage of 2**64 - 1 bytes": (changed(PLAN, "storages", 5, bytes=(1 << 64) - 1), "no_live_overlap"),
    "an alignment of 24": (changed(PLAN, "storages", 5, alignment=24), "placed"),
    "an alignment of 0": (changed(PLAN, "storages", 5, alignment=0), "placed"),
    "all storages in one slot": (
        amend_plan(AT_ZERO, slots=replace(PLAN.slots, of=PLAN.slots.of * 0)),
        "no_live_overlap",
    ),
    "slots that begin at one byte": (
        AT_ZERO, "no_live_overlap",
    ),
    "packed storages at one byte": (
        in_layout(AT_ZERO, "packed"),
        "no_live_overlap",
    ),
    "a tensor that reaches beyond its storage": (changed(PLAN, "tensors", 6, window=1 << 40), "tensor_ok"),
    "a tensor that dies before its last reader": (
        changed(PLAN, "tensors", 0, death=int(PLAN.allocation.tensors.birth[0])), "tensor_ok",
    ),
    "a writer that does not write": (changed(PLAN, "tensors", 6, writer=9), "tensor_ok"),
    "a read before the write": (with_accesses(PLAN, reads={3: (20,)}), "step_ok"),
    "a tensor that is written twice": (with_accesses(PLAN, writes={3: (4, 1)}), "step_ok"),
    "pairs that must not alias and do": (amend_plan(PLAN, must_not_alias=((0, 0),)), "kept_apart"),
}  # fmt: skip


@pytest.mark.parametrize(("plan", "part"), WRONG.values(), ids=WRONG)
def test_wrong_plans_are_refused_and_the_part_that_says_no_is_named(plan: Plan, part: str) -> None:
    assert asked(plan) == KernelAnswer(rejected=True, part=part)


@pytest.mark.parametrize("given", ["x u", "u x"])
def test_an_input_over_another_is_refused_also_where_no_step_reads_it(given: str) -> None:
    """The caller may write it last. spec: V1.13"""
    plan = Written("y = Relu x", given=dict.fromkeys(given.split(), "input"), outputs="y").plan()
    names = plan.allocation.tensors.name.list()
    assert asked(plan).accepted
    onto = int(plan.allocation.tensors.storage[names.index("x")])
    assert asked(changed(plan, "tensors", names.index("u"), storage=onto)) == KernelAnswer(
        rejected=True, part="sharing_is_sound"
    )


@pytest.mark.parametrize("given", ["x u w", "w u x"])
@pytest.mark.parametrize(("views", "part"), [({"u": "x", "w": "u"}, ""), ({"u": "w", "w": "u"}, "tensor_ok")])
def test_views_of_the_callers_tensors_end_at_a_tensor(given: str, views: dict[str, str], part: str) -> None:
    """A view of itself, through another, is refused. The order of the rows does not matter. spec: V1.6, V1.13"""
    plan = Written("y = Sum x u w", given=dict.fromkeys(given.split(), "input"), outputs="y").plan()
    row = plan.allocation.tensors.name.list().index
    for name in "uw":
        plan = changed(plan, "tensors", row(name), storage=int(plan.allocation.tensors.storage[row("x")]))
    permissions = Permissions(views={row(view): (row(base), 0) for view, base in views.items()})
    answer = ask(program(), context_of(plan, permissions, frozenset()), PlanFile.of(plan), 60)
    assert (answer.accepted, answer.part) == (not part, part)


# Claims, which are no part of being safe.

USAGE = PLAN.usage[0]
NEEDED = USAGE.footprint or 0


@pytest.mark.parametrize(
    ("plan", "claims"),
    [
        (changed(PLAN, "slots", 0, bytes=1), (False, True)),
        (amend_plan(PLAN, slots=replace(PLAN.slots, of=PLAN.slots.of * 0)), (False, True)),
        (amend_plan(PLAN, usage=(USAGE._replace(footprint=NEEDED - 1),)), (True, False)),
        (amend_plan(PLAN, usage=(USAGE._replace(footprint=1 << 63),)), (True, True)),
        (amend_plan(PLAN, usage=(USAGE._replace(footprint=(1 << 64) - 1),),
                 arenas=(replace(PLAN.allocation.arenas[0], capacity=1 << 63),)), (True, False)),
    ],
    ids=["a slot of one byte", "a slot for all", "footprint too small", "footprint large", "beyond capacity"],
)  # fmt: skip
def test_a_false_claim_leaves_a_plan_safe_and_is_named(plan: Plan, claims: tuple[bool, bool]) -> None:
    """spec: V6.7"""
    answer = asked(in_layout(plan, "packed"))
    assert (answer.accepted, answer.slots, answer.footprints) == (True, *claims)


# Lifetimes without accesses.

BUFFERS = KernelMemory(
    10, *(np.array(column, np.uint64) for column in (
        [0, 0, 0, 1, 1], [8, 8, 0, 16, 16], [8, 8, 8, 16, 16], [0, 3, 0, 0, 5], [3, 9, 9, 2, 9], [8, 0, 8, 0, 16],
    )), [ArenaRange(16, 8, True, False), ArenaRange(32, 16, False, False)],
)  # fmt: skip
APART = ((0, 1), (0, 4))


def moved(row: int, **columns: int) -> KernelMemory:
    changed = {name: getattr(BUFFERS, name).copy() for name in columns}
    for name, value in columns.items():
        changed[name][row] = value
    return replace(BUFFERS, **changed)


def buffers_of(memory: KernelMemory) -> BufferPlan:
    """The plan that states this memory."""
    arenas = tuple(Arena(f"arena{i}", *arena) for i, arena in enumerate(memory.arenas))
    narrow = {"arena", "birth", "death"}
    columns = {
        column.name: getattr(memory, column.name).astype(np.uint32 if column.name in narrow else np.uint64)
        for column in fields(Storages)
    }
    names = Names.of([f"buffer{k}" for k in range(len(memory))])
    return BufferPlan(Buffers(arenas, Storages(**columns), tuple(memory.pairs), names), None)


@pytest.mark.parametrize(
    ("memory", "part"),
    [
        (BUFFERS, ""),
        (replace(BUFFERS, pairs=APART), ""),
        (moved(0, offset=0), "no_live_overlap"),
        (moved(0, offset=0, death=2), ""),
        (replace(moved(0, offset=0, death=2), pairs=APART), "kept_apart"),
        (replace(BUFFERS, pairs=((0, 5),)), "kept_apart"),
        (moved(0, offset=4), "placed"),
        (moved(0, offset=16), "placed"),
        (moved(0, alignment=3), "placed"),
        (moved(1, death=10), "placed"),
        (moved(1, birth=9, death=3), "placed"),
        (moved(4, offset=0), "no_live_overlap"),
        (moved(0, arena=2), "placed"),
        (replace(BUFFERS, steps=1 << 40), ""),
    ],
)
def test_lifetimes_are_accepted_where_no_two_overlap(memory: KernelMemory, part: str) -> None:
    """In the second arena, which does not reuse, bytes are kept beyond the lifetime. spec: V6.6"""
    answer = ask_lifetimes(program(), memory, PlanFile.of(buffers_of(memory)), 60)
    assert (answer.accepted, answer.part, answer.failure) == (not part, part, "")
    row = join_columns(lifetime_columns(memory, DIGEST))
    assert answer == ask_words(program(), [row], DIGEST, 60, "lifetimes")


def test_lifetimes_are_no_plan_with_accesses() -> None:
    """spec: V6.6"""
    row = join_columns(lifetime_columns(BUFFERS, DIGEST))
    assert ask_words(program(), [row], DIGEST, 60).failure == "its answer is for another file"
    row[5] = 2
    assert not ask_words(program(), [row], DIGEST, 60).accepted


# What is no answer.


def test_an_answer_for_another_file_does_not_count() -> None:
    row = words(context_of(PLAN, decide_permissions(PLAN, None, frozenset()), frozenset()), bytes(32))
    assert ask_words(program(), [row], bytes(32), 60).accepted
    answer = ask_words(program(), [row], DIGEST, 60)
    assert (answer.accepted, answer.rejected) == (False, False)
    assert "another file" in answer.failure


@pytest.mark.parametrize("length", [0, 1, 4, 22, 23, 200])
def test_words_that_are_cut_short_give_no_acceptance(length: int) -> None:
    row = words(context_of(PLAN, decide_permissions(PLAN, None, frozenset()), frozenset()), DIGEST)
    answer = ask_words(program(), [row[:length]], DIGEST, 60)
    assert not answer.accepted
    assert answer.rejected or answer.failure


@pytest.mark.parametrize("position", [0, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18])
def test_a_count_or_version_that_is_not_true_gives_no_acceptance(position: int) -> None:
    packed = in_layout(PLAN, "packed")  # the edges count there
    row = words(context_of(packed, decide_permissions(packed, None, frozenset()), frozenset()), DIGEST)
    for value in (row[position] + 1, np.uint64((1 << 64) - 1)):
        changed = row.copy()
        changed[position] = value
        assert not ask_words(program(), [changed], DIGEST, 60).accepted


@pytest.mark.parametrize("position", [12, 14])
def test_counts_of_what_is_not_there_do_not_take_the_machines_memory(position: int) -> None:
    """Loops and pairs are listed before the first of them is looked at."""
    row = words(context_of(PLAN, decide_permissions(PLAN, None, frozenset()), frozenset()), DIGEST)
    row[position] = np.uint64((1 << 64) - 1)
    assert "more memory" in ask_words(program(), [row], DIGEST, 60).failure


def test_other_sources_have_another_folder(tmp_path: Path) -> None:
    shutil.copytree(installed.SOURCES, tmp_path / "kernel")
    assert installed.digest(tmp_path / "kernel") == installed.digest()
    with (tmp_path / "kernel" / "Check.v").open("a") as file:
        file.write(" ")
    assert installed.folder(tmp_path / "kernel") != installed.folder()
