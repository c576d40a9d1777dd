"""Each word that the kernel reads of a plan, worked out here from what `Columns.v` says it is, without NumPy.

The kernel trusts no order and no witness, so that a wrong one turns a right plan into an unknown one; and of lifetimes
it looks at no word behind the pairs. Both are held here. spec: V6.2, V6.6, X4.1, X4.6
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

from proofs.definition.checker.layouts import by_slots
from proofs.proving.kernel.arms import NotExpressed
from proofs.proving.kernel.evidence import file_columns, memory_of, words
from proofs.proving.kernel.memory import join_columns, lifetime_columns, lifetime_evidence
from proofs.proving.obligations.contents import value_live_ranges
from proofs.proving.obligations.context import CALLER, Context, context_of
from proofs.readers.arms import BranchingNode
from proofs.readers.sharing import decide_permissions
from tests.support import branching
from tests.support.synthetic import training_plan
from tests.support.text_models import text_model
from tests.support.written import Written
from tmmu.core.vocabulary import Role
from tmmu.examples.broken import exclusive
from tmmu.examples.broken.editing import changed
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import text
from tmmu.plans.columns import ROLES
from tmmu.plans.sections import BufferPlan, Plan, amend_plan

DIGEST = bytes(range(32))
OF_DIGEST = [int.from_bytes(DIGEST[at : at + 8], "big") for at in range(0, 32, 8)]


class Placed(NamedTuple):
    """A storage: what the plan says, and the slot it is claimed to be in."""

    arena: int
    bytes: int
    alignment: int
    birth: int
    death: int
    offset: int
    slot: int = 0


def bounds(groups: Iterable[int], count: int) -> list[int]:
    """Where each of `count` groups begins in rows that are sorted by group, and where the last ends."""
    rows = list(groups)
    return [sum(group < k for group in rows) for k in range(count + 1)]


def positions(order: Sequence[int]) -> list[int]:
    return [order.index(row) for row in range(len(order))]


def edges(storages: list[Placed], reuse: list[bool], steps: int) -> list[tuple[int, int, int, int]]:
    """Who lies next above whom in an arena, and from which step to which; floors are numbered behind the storages."""
    above_at: dict[tuple[int, int], list[int]] = {}
    for step in range(max(1, steps)):
        for arena, reused in enumerate(reuse):
            living = [k for k, s in enumerate(storages) if s.arena == arena and s.bytes]
            living = [k for k in living if not reused or storages[k].birth <= step <= storages[k].death]
            chain = [len(storages) + arena, *sorted(living, key=lambda k: storages[k].offset)]
            for pair in pairwise(chain):
                above_at.setdefault(pair, []).append(step)
    found = []
    for (below, above), at in above_at.items():
        firsts = [step for step in at if step - 1 not in at]
        lasts = [step for step in at if step + 1 not in at]
        found += [(below, above, first, last) for first, last in zip(firsts, lasts, strict=True)]
    return sorted(found, key=lambda edge: (edge[0], edge[2]))


def of_memory(
    storages: list[Placed], slots: list[tuple[int, int, int, int]], arenas: list[list[int]],
    table: list[tuple[int, int, int, int]],
) -> Iterator[list[int]]:  # fmt: skip
    """The columns of storages, slots, arenas and edges. Slots are arena, bytes, alignment, offset."""
    tenants = sorted(range(len(storages)), key=lambda k: (storages[k].slot, storages[k].birth, storages[k].death))
    yield from ([s[column] for s in storages] for column in range(7))
    yield positions(tenants)
    held = {s.slot for s in storages}
    ordered = sorted((k for k in range(len(slots)) if k in held), key=lambda k: (slots[k][0], slots[k][3]))
    yield from ([slot[column] for slot in slots] for column in range(4))
    yield [ordered.index(k) if k in ordered else 0 for k in range(len(slots))]
    yield from ([arena[column] for arena in arenas] for column in range(7))
    yield from (bounds((s.slot for s in storages), len(slots)), tenants)
    yield bounds((slots[k][0] for k in ordered), len(arenas))
    yield ordered + [0] * (len(slots) - len(ordered))
    yield from ([edge[column] for edge in table] for column in range(4))
    yield bounds((edge[0] for edge in table), len(storages) + len(arenas))
    yield bounds((edge[1] for edge in table), len(storages))
    yield sorted(range(len(table)), key=lambda e: (table[e][1], table[e][2]))


def flat(columns: Iterable[Iterable[int]]) -> list[int]:
    return [int(word) for column in columns for word in column]


BESIDE = (7, 11, 12, *range(20, 31))
"""Those columns of a memory that its plan file has not: places in slots, where slots begin, orders, and edges."""


def of_plan(context: Context, donated: frozenset[str]) -> tuple[list[int], list[int]]:
    """The whole row, and the row beside the plan's file."""
    a, claims = context.plan.allocation, context.plan.claims
    of = [0] * len(a.storages) if claims is None or claims.slots is None else claims.slots.of.tolist()
    s, t = a.storages, a.tensors
    columns = (s.arena, s.bytes, s.alignment, s.birth, s.death, s.offset)
    storages = [Placed(*row, slot) for *row, slot in zip(*(c.tolist() for c in columns), of, strict=True)]
    slots, ranges, flags = [], False, 0
    if claims is not None and claims.slots is not None:
        ranges, flags = by_slots(context.plan), 2
        first = {k: min((x for x in storages if x.slot == k), key=lambda x: (x.birth, x.death), default=None)
                 for k in range(len(claims.slots))}  # fmt: skip
        table = zip(claims.slots.arena.tolist(), claims.slots.bytes.tolist(), claims.slots.alignment.tolist(),
                    strict=True)  # fmt: skip
        slots = [(*row, 0 if (tenant := first[k]) is None else tenant.offset) for k, row in enumerate(table)]
    usage = () if claims is None else claims.usage
    sized = claims is not None and all(u.footprint is not None for u in usage)
    arenas = [[x.capacity, x.alignment, x.scattered, 0, 0, 0, x.reuse] for x in a.arenas]
    for row, u in zip(arenas, usage if sized else (), strict=False):
        row[3] = u.footprint or 0
        row[4] = (u.max_live_step or 0) + 1 if u.minimal and u.max_live_step is not None else 0
        row[5] = (u.peak_step or 0) + 1 if u.footprint == u.peak_live_bytes and u.peak_step is not None else 0
    found = [] if ranges else edges(storages, [x.reuse for x in a.arenas], len(a.steps))
    needed, handed, arms, of_them = of_arms(context)
    when = value_live_ranges(context).written.tolist()
    members = sorted(range(len(t)), key=lambda k: (int(t.storage[k]), when[k]))
    given = [name in donated for name in t.name.list()]
    counts = [len(t), len(context.loops), *(len(getattr(a.steps, name)) for name in a.steps.LISTS), *of_them]
    header = [2, *OF_DIGEST, 0, flags + ranges + 4 * sized, len(a.steps), len(storages), len(slots), len(arenas),
              len(found), len(a.must_not_alias), *counts]  # fmt: skip
    views, places = context.permissions.views, (t.storage, t.window, t.bytes)
    operand = [
        of + 1 if of is not None and all(c[of] == c[k] for c in places)
        and needed[of] == context.writer[k] == when[k] else 0
        for k, of in enumerate(map(context.permissions.in_place.get, range(len(t))))
    ]  # fmt: skip
    scratch = ROLES.index(Role.SCRATCH)
    shown = [[views[k][0] + 1 if k in views else 0 for k in range(len(t))],
             [views[k][1] if k in views else 0 for k in range(len(t))], operand]  # fmt: skip
    seen = [[step + 1 for step in when], [step + 1 for step in needed], context.root, positions(members)]
    loops = [[loop.enter for loop in context.loops], [loop.leave for loop in context.loops]]
    order, memory = [bounds(t.storage.tolist(), len(storages)), members], [*of_memory(storages, slots, arenas, found)]
    whole = flat([
        header, *memory, [one for one, _ in a.must_not_alias], [other for _, other in a.must_not_alias],
        t.storage, t.window, t.bytes, t.alignment, t.birth, t.death, [writer + 1 for writer in context.writer], *shown,
        [context.returned[k] + 2 * given[k] + 4 * (t.role[k] == scratch) + 8 * (k in handed) for k in range(len(t))],
        *seen, a.steps.reads_at, a.steps.reads, a.steps.writes_at, a.steps.writes, a.steps.mutates_at, a.steps.mutates,
        *loops, *order, *arms,
    ])  # fmt: skip
    nodes, branches, others, joins, takes = of_them
    readers = flat([[1, len(t), len(loops[0]), nodes, branches, takes], *shown, given, *loops, *arms[:4], *arms[10:]])
    evidence = flat([[ranges, len(found), others, joins, len(a.steps)], *(memory[i] for i in BESIDE),
                     [k in handed for k in range(len(t))], *seen, *order, *arms[4:10]])  # fmt: skip
    return whole, [len(readers), *readers, *evidence]


def last_needed(context: Context) -> list[int]:
    return [min(step, context.last) for step in value_live_ranges(context).last_needed.tolist()]


def takes_of(context: Context) -> Iterator[tuple[BranchingNode, int]]:
    """What leaves take of arms, each of which has written it, after the step at which it is last needed."""
    needed = last_needed(context)
    missing, read = (
        {(int(step), int(k)) for step, k in zip(*accesses, strict=True)}
        for accesses in (context.ways.missing, context.reads)
    )
    for node in context.branches:
        for k in node.taken:
            in_each = not any((arm.last, k) in missing for arm in node.arms)
            if needed[k] < node.leave and (node.leave, k) not in read and in_each:
                yield node, k


def innermost(context: Context) -> list[tuple[int, int]]:
    """The innermost arm of each step, or a range that holds all steps."""
    steps, arms = len(context.plan.allocation.steps), [arm for node in context.branches for arm in node.arms]
    around = [[arm for arm in arms if arm.first <= step <= arm.last] for step in range(steps)]
    return [min(of, key=lambda arm: arm.last - arm.first, default=(0, steps)) for of in around]


def is_expressed(context: Context) -> bool:
    """Is each thing that a leave takes written by a step of one of its arms, and not by an inner node's alone?"""
    writes, inner = [(int(k), int(step)) for step, k in zip(*context.writes, strict=True)], innermost(context)
    return all(any(k == taken and inner[step] in node.arms for k, step in writes) for node, taken in takes_of(context))


def of_arms(context: Context) -> tuple[list[int], set[int], list[list[int]], list[int]]:
    """When each tensor is last needed, which of them leaves take later, and columns and counts of exclusive arms."""
    a, tensors, needed = context.plan.allocation, len(context.plan.allocation.tensors), last_needed(context)
    nodes = sorted(context.branches, key=lambda node: node.leave)
    taken = {(node.leave, k) for node, k in takes_of(context)}
    if not nodes:
        return needed, set(), [[0]], [0] * 5
    arms = [arm for node in nodes for arm in node.arms]
    writes = [(int(k), int(step), bool(again))
              for step, k, again in zip(*context.writes, context.changes, strict=True)]  # fmt: skip
    other = sorted((k, step) for k, step, again in writes
                   if not again and context.writer[k] not in (CALLER, step))  # fmt: skip
    joins = sorted((int(k), int(leave)) for leave, k in zip(*context.ways.joined, strict=True))
    leaves, address = [node.leave for node in nodes], a.addresses().tolist()
    place = [(int(a.storages.arena[a.tensors.storage[k]]), address[k], int(a.tensors.bytes[k])) for k in range(tensors)]
    takes = [
        (result, k) for node in nodes for result, outputs in node.become.items() for k in sorted(outputs)
        if (node.leave, k) in taken and place[result] == place[k]
    ]  # fmt: skip
    columns = [
        [node.enter for node in nodes], leaves,
        [sum(len(node.arms) for node in nodes[:n]) for n in range(len(nodes) + 1)], [arm.first for arm in arms],
        [first for first, _ in innermost(context)], [last for _, last in innermost(context)],
        bounds((k for k, _ in other), tensors), [step for _, step in other],
        bounds((k for k, _ in joins), tensors), [leaves.index(leave) for _, leave in joins],
        [result for result, _ in takes], [k for _, k in takes],
    ]  # fmt: skip
    return needed, {k for _, k in taken}, columns, [len(nodes), len(arms), len(other), len(joins), len(takes)]


CHAIN = text_model(
    "tensor w f32 64 parameter", "tensor v f32 4 parameter", "node a MatMul x w -> a", "node b MatMul a v -> b",
    "node c Relu b -> y",
)  # fmt: skip


def chain(layout: str) -> Plan:
    token = bytes(64) if layout == "hashed" else None
    return plan_memory(CHAIN, options=PlanOptions(layout=layout, address_token=token)).plan


def without_slots() -> Plan:
    plan = training_plan(9)
    assert plan.claims is not None
    return replace(plan, claims=replace(plan.claims, slots=None))


def sized(**claimed: Any) -> Plan:
    """Slots in ranges, with other claims of the one arena's size."""
    plan = training_plan(9, seed=3, in_place=0.3)
    return amend_plan(plan, usage=(plan.usage[0]._replace(**claimed),))


def arms_at_random(number: int) -> Plan:
    chance = random.Random(number)
    return branching.plan(branching.program(chance), chance)


def of_text(body: str) -> Plan:
    plan = text.read(f"tmmu-plan-text 1\n{body}".encode(), "p.plan.txt")
    assert isinstance(plan, Plan)
    return plan


HANDED_ON = """
arena m 64
tensor c 8 m 0 input
tensor x 8 m 8 input
tensor a 1 m 16
tensor b 8 m 24
tensor y 8 m 8 output
begin n If c -> exclusive
step 1 A c -> a
step 2 A a -> a changes a
arm
step 3 A c -> b
end n x b -> y
"""
"""The first arm returns what was there before it, where the result lies; it changes what a step has written."""
ONE_STEP = """
arena m 16 persistent
arena k 8
tensor p 8 m 0 parameter
tensor q 8 m 8 parameter
tensor y 8 k 0 output
step s A p q -> y
"""
LOOP = "f = enter/Loop a\nd = Relu f\nr:d = leave/Loop d"
PLANS: dict[str, Callable[[], Plan]] = {
    "nothing": lambda: plan_memory(text_model(inputs="", outputs="")).plan,
    **{layout: partial(chain, layout) for layout in ("slots", "packed", "pools", "hashed")},
    "views and results in place": lambda: training_plan(20, seed=5, in_place=0.3, views=0.3),
    "two arenas": lambda: training_plan(20, seed=6, arenas=2),
    "no claims": lambda: replace(training_plan(9, arenas=2), claims=None),
    "no slots": without_slots,
    "more slots than needed": lambda: sized(minimal=False),
    "a footprint that is not the peak": lambda: sized(peak_live_bytes=1),
    "no footprint": lambda: sized(footprint=None),
    "a slot that holds nothing": lambda: changed(training_plan(9), "storages", 8, slot=0),
    "pairs apart": lambda: amend_plan(training_plan(9), must_not_alias=((0, 1), (2, 5))),
    "nothing in the first storage": lambda: changed(chain("packed"), "storages", 0, bytes=0),
    "a loop": lambda: Written(LOOP, given={"a": "input"}, outputs="r").plan(),
    "a mutation": lambda: Written("!s = Update s\ny = Relu s", given={"s": "state"}, outputs="y").plan(),
    "a value handed on and a change": lambda: of_text(HANDED_ON),
    "one step": lambda: of_text(ONE_STEP),
    **exclusive.RIGHT,
    **{f"random arms {number}": partial(arms_at_random, number) for number in range(12)},
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_every_word_is_what_the_columns_of_the_kernel_say(name: str) -> None:
    plan = PLANS[name]()
    donated = frozenset(plan.allocation.tensors.name.list()[:1])
    context = context_of(plan, decide_permissions(plan, None, donated), donated)
    if is_expressed(context):
        found = words(context, DIGEST)
        assert found.dtype == np.uint64
        whole, beside = of_plan(context, donated)
        assert found.tolist() == whole
        assert join_columns(file_columns(context)).tolist() == beside
    else:
        with pytest.raises(NotExpressed, match="is written only by nodes inside of branches"):
            words(context, DIGEST)


BUFFERS = b"""tmmu-plan-text 1
arena a 64 align 8
arena b 64 align 16 persistent
buffer p 16 a 0 live 0 2
buffer q 8 a 8 live 3 3
buffer r 8 a 16 live 1 3
buffer s 16 b 0 live 0 1
buffer t 32 b 16 live 2 3
apart p r
"""


def test_of_lifetimes_there_are_no_words_behind_the_pairs() -> None:
    plan = text.read(BUFFERS, "b.plan.txt")
    assert isinstance(plan, BufferPlan)
    found = memory_of(plan.buffers, plan.buffers.must_not_alias)
    s = plan.buffers.storages
    rows = zip(*(c.tolist() for c in (s.arena, s.bytes, s.alignment, s.birth, s.death, s.offset)), strict=True)
    storages = [Placed(*row) for row in rows]
    arenas = [[a.capacity, a.alignment, a.scattered, 0, 0, 0, a.reuse] for a in plan.buffers.arenas]
    table = edges(storages, [a.reuse for a in plan.buffers.arenas], 4)
    header = [2, *OF_DIGEST, 1, 0, 4, 5, 0, 2, len(table), 1, *[0] * 10]
    expected = flat([header, *of_memory(storages, [], arenas, table), [0], [2]])
    assert join_columns(lifetime_columns(found, DIGEST)).tolist() == expected
    memory = [*of_memory(storages, [], arenas, table)]
    assert join_columns(lifetime_evidence(found)).tolist() == flat(
        [[0], [0, len(table), 0, 0, 4], *(memory[i] for i in BESIDE)]
    )
