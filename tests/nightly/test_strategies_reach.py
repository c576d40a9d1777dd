"""The strategies have the power that the properties count on: each feature occurs, not once but again and again.

A property holds of what its strategy reaches. So a fixed sample of models is planned and counted: every feature has a
predicate here, and so has every reason for which a hint is refused. That a model with a feature shrinks to a few
nodes is tested as well, for what fails must be readable.
"""

from __future__ import annotations

import inspect
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache
from itertools import combinations, pairwise

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from tests.support.execution import NotRunnable, difference
from tmmu.core.dims.maxima import Maximum, maximum
from tmmu.core.dtypes import nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, ArenaConfiguration, Body, Model, Node, Role, Shares, Tensor
from tmmu.planner import DEFAULT, PlanOptions, aliasing, plan_memory
from tmmu.plans.columns import SHARES, Bodies, Slots, Steps, Storages, Tensors
from tmmu.plans.sections import Plan, arena_configurations
from tmmu.testing.catalogue.entries import COLUMNS, Change, corrupted
from tmmu.testing.strategies.models import arenas, changes, models, numbered
from tmmu.testing.strategies.recipes import DECLARED, HOLDERS, LEAVES

FIXED = settings(
    derandomize=True, database=None, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck)
)
"""The same examples in every run."""

SAMPLE = 1200
"""How many models are counted."""

OFTEN = 5
"""In how many of them a feature must occur at least."""


# What a model has.


def readers(model: Model) -> dict[int, list[int]]:
    """The nodes that read each tensor."""
    found: dict[int, list[int]] = {}
    for n, node in enumerate(model.nodes):
        for t in dict.fromkeys(node.reads):
            found.setdefault(t, []).append(n)
    return found


def home(model: Model) -> dict[int, int]:
    """The body in which each tensor is made, for those that a node makes or that are formal inputs."""
    found = {t: node.body for node in model.nodes for t in node.writes if t not in node.mutates}
    return found | {t: b for b, body in inner(model) for t in body.inputs}


def inner(model: Model) -> list[tuple[int, Body]]:
    return [(b, body) for b, body in enumerate(model.bodies) if b != MAIN]


def depth(model: Model, b: int) -> int:
    return 0 if b == MAIN else 1 + depth(model, model.nodes[model.bodies[b].owner].body)


def hinted(model: Model) -> Iterator[tuple[Tensor, Tensor]]:
    """The result and the operand of each hint."""
    for node in model.nodes:
        for result, operand in node.in_place:
            yield model.tensors[result], model.tensors[operand]


def captures(model: Model) -> Iterator[int]:
    """How deep a node stands that reads a value from outside its body."""
    made = home(model)
    for node in model.nodes:
        if any(made.get(t, MAIN) != node.body for t in node.reads):
            yield depth(model, node.body)


def has_diamond(model: Model) -> bool:
    """Does a node join two values that were made of one?"""
    made_of = {t: set(node.reads) for node in model.nodes for t in node.writes}
    pairs = (pair for node in model.nodes for pair in combinations(set(node.reads), 2))
    return any(made_of.get(a, set()) & made_of.get(b, set()) for a, b in pairs)


def has_dead_result(model: Model) -> bool:
    returned = {t for body in model.bodies for t in body.outputs}
    return any(t not in readers(model) and t not in returned for node in model.nodes for t in node.writes)


def has_tie(model: Model) -> bool:
    """Does a node make two tensors of one size, so that the name decides?"""
    made = ([model.tensors[t].bytes for t in node.writes if t not in node.mutates] for node in model.nodes)
    return any(len(set(sizes)) < len(sizes) for sizes in made)


def views_deep(model: Model) -> int:
    """The length of the longest chain of views."""
    deep: list[int] = []
    for tensor in model.tensors:
        deep.append(0 if tensor.view is None else 1 + deep[tensor.view.base])
    return max(deep, default=0)


def outlives_its_base(model: Model) -> bool:
    """Is a view read after all that reads its base?"""
    last = {t: max(nodes) for t, nodes in readers(model).items()}
    return any(x.view is not None and last.get(t, 0) > last[x.view.base] for t, x in enumerate(model.tensors))


def windows(model: Model) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Each view, its base, and where it begins."""
    for tensor in model.tensors:
        if tensor.view is not None:
            yield tensor, model.tensors[tensor.view.base], tensor.view.offset


def largest_group(model: Model) -> int:
    return max(Counter(x.alias_group for x in model.tensors if x.alias_group).values(), default=0)


def changes_of(model: Model) -> Iterator[tuple[Node, int]]:
    return ((node, t) for node in model.nodes for t in node.mutates)


def swaps(model: Model) -> bool:
    """Does a body return two of its formal inputs the other way round?"""
    returned = [[body.inputs.index(t) for t in body.outputs if t in body.inputs] for _, body in inner(model)]
    return any(b < a for places in returned for a, b in pairwise(places))


def returns_captured(model: Model) -> bool:
    return any(home(model).get(t, MAIN) != b for b, body in inner(model) for t in body.outputs)


def roles(model: Model) -> set[Role]:
    return {tensor.role for tensor in model.tensors}


def is_donated(model: Model, role: Role) -> bool:
    return any(x.role is role and x.name in model.bindings.donated for x in model.tensors)


def attributes(model: Model, least: int) -> set[str]:
    """The attribute names of the bodies that are `least` deep."""
    return {body.attribute for b, body in inner(model) if depth(model, b) >= least}


def largest(model: Model) -> list[Maximum]:
    """Where the tensors whose size is open are largest."""
    found = [maximum(nbytes(x.shape, x.dtype)) for x in model.tensors]
    return [at for at in found if at is not None and at.point]


FEATURES: dict[str, Callable[[Model], object]] = {
    "no tensor": lambda m: not m.tensors,
    "tensors and no node": lambda m: m.tensors and not m.nodes,
    "one step": lambda m: len(m.nodes) == 1 and len(m.bodies) == 1,
    "ten nodes": lambda m: len(m.nodes) >= 10,
    "nodes and no output": lambda m: m.nodes and not m.outputs,
    "fan-out": lambda m: any(len(nodes) > 2 for nodes in readers(m).values()),
    "a diamond": has_diamond,
    "a dead result": has_dead_result,
    "an operand read twice by one node": lambda m: any(len(set(n.reads)) < len(n.reads) for n in m.nodes),
    "an unused input": lambda m: any(t not in readers(m) for t in m.inputs),
    "an input that is an output": lambda m: set(m.inputs) & set(m.outputs),
    "a parameter": lambda m: Role.PARAMETER in roles(m),
    "a parameter that is a graph input": lambda m: any(m.tensors[t].role is Role.PARAMETER for t in m.inputs),
    "optimizer state": lambda m: Role.OPTIMIZER in roles(m),
    "a gradient": lambda m: Role.GRADIENT in roles(m),
    "a donated input": lambda m: is_donated(m, Role.INPUT),
    "a donated parameter": lambda m: is_donated(m, Role.PARAMETER),
    "something saved": lambda m: any(x.saved_for_backward for x in m.tensors),
    "zero bytes": lambda m: any(x.bytes == 0 for x in m.tensors),
    "packed elements": lambda m: any(x.dtype == "int4" for x in m.tensors),
    "an envelope": lambda m: m.bindings.ranges,
    "sizes that are largest at different shapes": lambda m: len({x.point["m"] for x in largest(m)}) > 1,
    "a tensor stricter than its arena": lambda m: any(x.alignment > DEFAULT[0].alignment for x in m.tensors),
    "a name beyond ASCII": lambda m: any(not x.name.isascii() for x in m.tensors),
    "equal births and sizes": has_tie,
    "a view": lambda m: views_deep(m) >= 1,
    "a view of a view": lambda m: views_deep(m) >= 2,
    "a view of a view of a view": lambda m: views_deep(m) >= 3,
    "a window that is not the whole": lambda m: any(view.bytes < base.bytes for view, base, _ in windows(m)),
    "a window that starts within the base": lambda m: any(offset for *_, offset in windows(m)),
    "a view of what the caller wrote": lambda m: any(base.role is Role.INPUT for _, base, _ in windows(m)),
    "a view that is an output": lambda m: any(m.tensors[t].view for t in m.outputs),
    "a view that outlives its base": outlives_its_base,
    "two views made by one node": lambda m: any(
        sum(m.tensors[t].view is not None for t in n.writes) > 1 for n in m.nodes
    ),
    "an alias group": lambda m: largest_group(m) >= 2,
    "an alias group of three": lambda m: largest_group(m) >= 3,
    "an alias group in a body": lambda m: any(m.tensors[t].alias_group and b != MAIN for t, b in home(m).items()),
    "tensors that must not alias": lambda m: m.must_not_alias,
    "a hint": lambda m: any(hinted(m)),
    "a hint for an operand of another shape": lambda m: any(a.shape != b.shape for a, b in hinted(m)),
    "a hint for an operand of other bytes": lambda m: any(a.bytes != b.bytes for a, b in hinted(m)),
    "a hint for a graph input": lambda m: any(b.role is Role.INPUT for _, b in hinted(m)),
    "a hint for a graph output": lambda m: any(b in [m.tensors[t] for t in m.outputs] for _, b in hinted(m)),
    "two hints for one result": lambda m: any(len({a for a, _ in n.in_place}) < len(n.in_place) for n in m.nodes),
    "two hints for one operand": lambda m: any(len({b for _, b in n.in_place}) < len(n.in_place) for n in m.nodes),
    "hints for two results": lambda m: any(len({a for a, _ in n.in_place}) > 1 for n in m.nodes),
    "a change": lambda m: any(changes_of(m)),
    "a change of what is donated": lambda m: any(m.tensors[t].role is Role.INPUT for _, t in changes_of(m)),
    "a change from inside a body": lambda m: any(home(m).get(t, MAIN) != n.body for n, t in changes_of(m)),
    "a tensor changed twice": lambda m: max(Counter(t for _, t in changes_of(m)).values(), default=0) > 1,
    "a tensor viewed and changed": lambda m: {x.view.base for x in m.tensors if x.view} & {t for _, t in changes_of(m)},
    "scratch": lambda m: any(n.scratch for n in m.nodes),
    "scratch in another arena": lambda m: any(request.arena for n in m.nodes for request in n.scratch),
    "scratch of a node with bodies": lambda m: any(m.nodes[body.owner].scratch for _, body in inner(m)),
    "an If": lambda m: "then_branch" in attributes(m, 1),
    "an If with both branches": lambda m: "else_branch" in attributes(m, 1),
    "a Loop": lambda m: any(n.op == "Loop" for n in m.nodes),
    "a Scan": lambda m: any(n.op == "Scan" for n in m.nodes),
    "an empty body": lambda m: any(all(n.body != b for n in m.nodes) for b, _ in inner(m)),
    "a body in a body": lambda m: attributes(m, 2),
    "a body in a body in a body": lambda m: attributes(m, 3),
    "an If in a body": lambda m: "then_branch" in attributes(m, 2),
    "a loop in a body": lambda m: "body" in attributes(m, 2),
    "a captured value": lambda m: any(captures(m)),
    "a value captured two bodies deep": lambda m: max(captures(m), default=0) > 1,
    "a body output that is a formal input": lambda m: any(set(body.outputs) & set(body.inputs) for _, body in inner(m)),
    "a swap": swaps,
    "a body output that is captured": returns_captured,
    "a body output that is repeated": lambda m: any(len(set(body.outputs)) < len(body.outputs) for _, body in inner(m)),
    "a body output that is a view": lambda m: any(m.tensors[t].view for _, body in inner(m) for t in body.outputs),
    "a node with bodies and results": lambda m: any(m.nodes[body.owner].writes for _, body in inner(m)),
    "a declaring domain": lambda m: any(n.domain == DECLARED for n in m.nodes),
    "records": lambda m: m.unproduced and m.source_digest and m.bindings.dims,
}


# What a plan has.


def words(plan: Plan) -> list[Shares]:
    return [SHARES[shares] for shares in plan.allocation.tensors.shares.tolist()]


def longest_chain(plan: Plan) -> int:
    """The most results in place in one storage."""
    pairs = zip(plan.allocation.tensors.storage.tolist(), words(plan), strict=True)
    return max(Counter(storage for storage, word in pairs if word is Shares.IN_PLACE).values(), default=0)


def has_tie_at_most_live(plan: Plan) -> bool:
    """Are the most storages of an arena live at two steps that do not follow each other?"""
    s = plan.allocation.storages
    for a, usage in enumerate(plan.usage):
        mine = [k for k, b in enumerate(s.arena.tolist()) if b == a]
        live = [sum(bool(s.birth[k] <= n <= s.death[k]) for k in mine) for n in range(plan.allocation.last_step + 1)]
        most = [n for n, count in enumerate(live) if count == usage.max_live > 1]
        if any(later - earlier > 1 for earlier, later in pairwise(most)):
            return True
    return False


PLANNED: dict[str, Callable[[Plan], object]] = {
    "a granted hint": lambda p: longest_chain(p) >= 1,
    "a chain of granted hints": lambda p: longest_chain(p) >= 2,
    "a granted view and a granted hint": lambda p: {Shares.VIEW, Shares.IN_PLACE} <= set(words(p)),
    "a slot that is used again": lambda p: len(p.slots) < len(p.allocation.storages),
    "a tie at the most live": has_tie_at_most_live,
    "a reused arena without the claim": lambda p: any(
        arena.reuse and not usage.minimal for arena, usage in zip(p.allocation.arenas, p.usage, strict=True)
    ),
    "an arena that nobody needs": lambda p: any(not usage.slots for usage in p.usage),
    "arenas in another order": lambda p: (
        [arena.name for arena in p.allocation.arenas] != [arena.name for arena in DEFAULT]
    ),
    "an arena with another alignment": lambda p: any(arena.alignment != 128 for arena in p.allocation.arenas),
    "activations that are kept apart": lambda p: any(
        Role.ACTIVATION in a.roles and not a.reuse for a in arena_configurations(p)
    ),
    "parameters beside activations": lambda p: any(
        {Role.PARAMETER, Role.ACTIVATION} <= set(a.roles) for a in arena_configurations(p)
    ),
}

KEPT = (
    "it is a graph input that is not donated", "it is a graph parameter that is not donated",
    "it is a graph optimizer that is not donated", "it is saved for backward", "it is a graph output",
)  # fmt: skip
REFUSALS = (
    "the node has bodies", "the result shares other bytes already", "the operand has another shape",
    "the operand has another element width", "the operand is in another arena",
    "the operand comes from outside the body", *(f"the operand is kept: {reason}" for reason in KEPT),
    "the operand's bytes are still needed", "another result of the step has the operand's bytes",
    "another operand shares bytes with it", "the operand's bytes are not aligned for the result",
    "the two must not alias",
)  # fmt: skip
"""Why a hint is refused, but for a layout that grants none, and for fixed offsets, which are not drawn here."""


IN_ONE = tuple(replace(arena, roles=tuple(Role) if arena.name == "activations" else ()) for arena in DEFAULT)
ARENAS = (DEFAULT, IN_ONE, tuple(replace(arena, alignment=1, reuse=not arena.reuse) for arena in reversed(IN_ONE)))
"""The arenas that the models of the sample are planned for, in turn."""


def counted(model: Model, where: tuple[ArenaConfiguration, ...], mode: str) -> set[str]:
    """Everything that a model and its plan have."""
    planned = plan_memory(model, where, PlanOptions(mode=mode))
    found = {name for name, has in FEATURES.items() if has(model)}
    found |= {name for name, has in PLANNED.items() if has(planned.plan)}
    return found | {refused.reason for refused in planned.refused}


@cache
def sample() -> Counter[str]:
    """How many of the numbered models have each feature."""
    found: Counter[str] = Counter()
    for number in range(SAMPLE):
        mode = ("inference", "forward")[number // len(ARENAS) % 2]
        found.update(counted(numbered(number), ARENAS[number % len(ARENAS)], mode))
    return found


@pytest.mark.parametrize("feature", [*FEATURES, *PLANNED, *REFUSALS])
def test_the_models_have_it_again_and_again(feature: str) -> None:
    assert sample()[feature] >= OFTEN


def test_hypothesis_finds_nearly_all_of_it_in_few_examples() -> None:
    """The numbered models are made of the same recipes, evenly chosen; Hypothesis chooses as it likes, and otherwise
    for each set of modules that are loaded, whose constants it draws.
    """
    found: Counter[str] = Counter()

    @settings(FIXED, max_examples=800)
    @given(models(), arenas(), st.sampled_from(("inference", "forward")))
    def count(model: Model, where: tuple[ArenaConfiguration, ...], mode: str) -> None:
        found.update(counted(model, where, mode))

    count()
    wanted = [*FEATURES, *PLANNED, *REFUSALS]
    assert sum(found[feature] > 0 for feature in wanted) >= len(wanted) * 0.85
    assert min(found[feature] for feature in PLANNED) > 0


def test_every_reason_of_the_planner_is_counted() -> None:
    """A reason that is added there must be added here."""
    stated = re.findall(r'reason = f?"([^"{]*)', inspect.getsource(aliasing))
    missing = [reason for reason in stated if not any(known.startswith(reason) for known in REFUSALS)]
    elsewhere = ("layout", "one of the two has a fixed offset")  # `tests/property/test_fixed_offsets.py` draws these
    assert [reason for reason in missing if not reason.startswith(elsewhere)] == []
    assert len(stated) > 10


def test_a_feature_that_does_not_occur_would_be_noticed() -> None:
    assert sample()["a tensor of a gigabyte"] < OFTEN


@pytest.mark.parametrize(
    ("feature", "nodes"),
    [
        ("a diamond", 4), ("a view of a view of a view", 6), ("a swap", 1), ("a value captured two bodies deep", 4),
        ("an alias group", 3),
    ],
)  # fmt: skip
def test_a_model_with_a_feature_shrinks_to_a_few_nodes(feature: str, nodes: int) -> None:
    smallest = find(
        models(),
        lambda model: bool(FEATURES[feature](model)),
        settings=settings(FIXED, max_examples=2000, phases=[Phase.generate, Phase.shrink]),
        random=random.Random(0),
    )
    assert len(smallest.nodes) <= nodes
    assert len(smallest.tensors) <= nodes + 2


def test_models_of_some_kinds_have_no_others() -> None:
    only_leaves: list[int] = []

    @settings(FIXED, max_examples=50)
    @given(models(kinds=LEAVES))
    def count(model: Model) -> None:
        only_leaves.append(len(model.bodies))

    count()
    assert set(only_leaves) == {1}
    assert not set(LEAVES) & set(HOLDERS)


def test_changed_plans_go_wrong_often_enough_and_not_always() -> None:
    """The properties of wrong plans speak of those that running shows to be wrong."""
    kinds: Counter[str] = Counter()

    @settings(FIXED, max_examples=250)
    @given(models(), changes(), st.integers(0, 99))
    def count(model: Model, wanted: list[Change], seed: int) -> None:
        plan = corrupted(plan_memory(model).plan, wanted)
        if plan is None:
            kinds["no plan"] += 1
            return
        try:
            kinds["right" if difference(plan, seed, model.bindings.donated) is None else "wrong"] += 1
        except NotRunnable:
            kinds["not runnable"] += 1

    count()
    assert kinds["wrong"] >= 8
    assert kinds["right"] >= 8


def test_every_column_is_changed() -> None:
    columns: set[tuple[str, str]] = set()

    @settings(FIXED, max_examples=1000)
    @given(changes())
    def count(wanted: list[Change]) -> None:
        columns.update((change.table, change.column) for change in wanted)

    count()
    assert columns == set(COLUMNS)
    tables = (Tensors, Storages, Slots, Steps, Bodies)
    entries = {(table.__name__.lower(), column.name) for table in tables for column in fields(table)}
    unchanged = entries - set(COLUMNS) - {("slots", "of")}  # that is the column `slot` of a storage
    assert {name for _, name in unchanged} == {"name", "node", "reads_at", "writes_at", "mutates_at"}


def test_models_that_are_not_truthful_go_wrong_often_enough() -> None:
    outcomes: Counter[str] = Counter()

    @settings(FIXED, max_examples=250)
    @given(models(truthful=False), st.integers(0, 99))
    def count(model: Model, seed: int) -> None:
        try:
            plan = plan_memory(model).plan
        except TmmuError as refused:
            outcomes[refused.code_id] += 1
            return
        outcomes["right" if difference(plan, seed, model.bindings.donated) is None else "wrong"] += 1

    count()
    assert outcomes["right"] >= 8
    assert outcomes["wrong"] >= 8
    assert set(outcomes) <= {"right", "wrong", "INVALID_IR", "INVALID_BINDING"}
