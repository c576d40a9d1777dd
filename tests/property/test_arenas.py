"""Rules, arenas and memories: what is planned is proved, and whoever chooses, the choice is one that the rules allow.

spec: M3.7, M3.8, M3.10, M3.11, M3.12
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from proofs.definition.checker import arenas as homes
from proofs.definition.checker import claims, structure
from proofs.definition.checker import execute as checker
from proofs.definition.checker.program import build_program
from proofs.proving import obligations
from proofs.proving.obligations.context import context_of
from proofs.readers.models.ir import read_ir
from proofs.readers.patterns import fits
from proofs.readers.sharing import decide_permissions
from tests.benchmarks.arenas import missed
from tests.support.effort import share
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, DeviceConfiguration, Memory, Model, Role, Rule, Shares
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.arenas import permitted as by_planner
from tmmu.planner.patterns import match_pattern
from tmmu.plans.columns import SHARES
from tmmu.plans.sections import Plan
from tmmu.testing.strategies.models import models

TOKEN = bytes(range(64))
LAYOUTS = ("slots", "packed", "pools", "hashed")
NAMES = ("gradients", "optimizer", "activations")
"""The reused arenas; a scratch request of a random model may name one of the default ones."""
LARGE = 1 << 20

pieces = st.sampled_from(("*", "t", "0", "1", "n", "*0", "x*", "*1*", "", "a"))
patterns = st.lists(st.builds("".join, st.lists(pieces, min_size=1, max_size=3)).filter(bool), max_size=2)
operators = st.lists(st.sampled_from(("Relu", "Add", "*", "R*", "MatMul", "Split")), max_size=2)


@st.composite
def configurations(draw: st.DrawFn) -> tuple[tuple[ArenaConfiguration, ...], ArenaPolicy]:
    """Three arenas that reuse and one that does not, some in memories, small or large; and up to four rules."""
    sizes = st.sampled_from((16, 24, 32, 48, 64, 128, LARGE))
    memories = tuple(Memory(name, draw(sizes)) for name in ("sram", "dram"))
    devices = (
        DeviceConfiguration("npu", memories, tuple(draw(patterns)), tuple(draw(operators))),
        DeviceConfiguration("dsp", (), tuple(draw(patterns)), tuple(draw(operators))),
    )
    alignments = st.sampled_from((1, 2, 8, 16))
    arenas = [
        ArenaConfiguration(
            name, (), draw(sizes), draw(alignments), device="npu", memory=draw(st.sampled_from(("", "sram", "dram")))
        )
        for name in NAMES
    ]
    arenas[-1] = replace(arenas[-1], roles=tuple(role for role in Role if role is not Role.PARAMETER))
    arenas.append(ArenaConfiguration("parameters", (Role.PARAMETER,), LARGE, reuse=False, alignment=draw(alignments)))
    lists = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)
    roles = st.lists(st.sampled_from(tuple(Role)), max_size=3, unique=True)
    asked = st.lists(st.sampled_from(("npu", "dsp")), max_size=1)
    rules = draw(
        st.lists(
            st.builds(
                lambda *parts: Rule(*map(tuple, parts)), lists, roles, patterns, operators, asked  # type: ignore[arg-type]  # five tuples
            ),
            max_size=4,
        )
    )  # fmt: skip
    return tuple(arenas), ArenaPolicy(devices, tuple(rules))


def planned(
    model: Model, config: tuple[tuple[ArenaConfiguration, ...], ArenaPolicy], layout: str, fallback: str | None = None
) -> Plan | None:
    """The plan, or None where it does not fit or an alias group has different rules."""
    token = TOKEN if layout == "hashed" else None
    try:
        return plan_memory(
            model, config[0], PlanOptions(layout=layout, address_token=token, fallback=fallback), policy=config[1]
        ).plan
    except TmmuError as error:
        if error.code_id not in {"ARENA_TOO_SMALL", "INVALID_IR"}:
            raise
        return None


def refused(plan: Plan, model: Model) -> list[object]:
    """What the naive checker finds wrong with a plan."""
    donated = frozenset(plan.bindings.donated)
    run = build_program(plan, decide_permissions(plan, read_ir(model), donated), donated)
    assert plan.claims is not None
    return [*checker.violations(run), *structure.violations(plan, run), *claims.find_false_claims(plan.claims, run)]


@given(models(), configurations(), st.sampled_from(LAYOUTS), st.sampled_from((None, "packed")))
def test_what_fits_by_rules_and_memories_passes_the_checker(
    model: Model, config: tuple[tuple[ArenaConfiguration, ...], ArenaPolicy], layout: str, fallback: str | None
) -> None:
    plan = planned(model, config, layout, fallback)
    if plan is None:
        return
    assert plan.origin.layout == layout or (layout, plan.origin.layout) == ("slots", "packed")
    assert refused(plan, model) == []
    assert planned(model, config, layout, fallback) == plan


@settings(max_examples=share(60), phases=(Phase.explicit, Phase.generate))
@given(models(size=6), configurations(), st.sampled_from(LAYOUTS))
def test_what_fits_by_rules_and_memories_is_proved(
    model: Model, config: tuple[tuple[ArenaConfiguration, ...], ArenaPolicy], layout: str
) -> None:
    plan = planned(model, config, layout)
    if plan is not None:
        donated = frozenset(plan.bindings.donated)
        outcomes = obligations.prove(
            context_of(plan, decide_permissions(plan, read_ir(model), donated), donated), workers=1
        )
        assert [(o.name, o.verdict) for o in outcomes if o.verdict != "PROVED"] == []


@given(models(), configurations())
def test_planner_and_checker_read_the_rules_alike(
    model: Model, config: tuple[tuple[ArenaConfiguration, ...], ArenaPolicy]
) -> None:
    arenas = tuple(replace(arena, capacity=LARGE << 20, memory="") for arena in config[0])
    plan = planned(model, (arenas, config[1]), "slots")
    if plan is not None:
        rules = [-1 if found.rule is None else found.rule for found in by_planner.permitted_arenas_of_plan(plan)]
        assert rules == homes.rule_of(plan, plan.configuration.policy).tolist()


@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_both_readings_of_a_pattern_agree_with_its_definition(pattern: str, text: str) -> None:
    def means(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "*":
            return any(means(pattern[1:], text[i:]) for i in range(len(text) + 1))
        return bool(text) and text[0] == pattern[0] and means(pattern[1:], text[1:])

    assert match_pattern(pattern, text) == fits(pattern, text) == means(pattern, text)


BRUTE = share(50)
"""Models of the benchmark that are divided in all ways here."""


@pytest.mark.parametrize("layout", ["packed", "slots"])
def test_the_choice_misses_few_divisions_that_fit(layout: str) -> None:
    """It is a heuristic, and the models are made tight: one in ten may be missed. spec: M3.12"""
    fit, miss, none = missed(layout, BRUTE)
    assert fit + none == BRUTE
    assert none > 0
    assert miss * 10 <= fit


def simple_greedy(plan: Plan, arenas: tuple[ArenaConfiguration, ...], policy: ArenaPolicy) -> dict[int, int] | None:
    """The arena of each storage of `plan` by the simple greedy, or None where one has no room.

    Storages with one choice come first, then the others by birth, size and name; each takes the first arena that has
    room for what is live.
    """
    number = {arena.name: a for a, arena in enumerate(arenas)}
    lists = [
        list(found.choices) if found.rule is None else [number[name] for name in policy.rules[found.rule].arenas]
        for found in by_planner.permitted_arenas_of_plan(plan)
    ]
    s, names = plan.allocation.storages, plan.allocation.tensors.name.list()
    root: dict[int, int] = {}
    for t, (k, word) in enumerate(
        zip(plan.allocation.tensors.storage.tolist(), plan.allocation.tensors.shares.tolist(), strict=True)
    ):
        if word != SHARES.index(Shares.VIEW):
            root.setdefault(k, t)
    if any(int(s.arena[k]) not in lists[t] for k, t in root.items()):
        return None  # scratch that asks for an arena of its own
    rank = {k: (len(lists[t]) > 1, int(s.birth[k]), -int(s.bytes[k]), names[t]) for k, t in root.items()}
    live = [[0] * (plan.allocation.last_step + 1) for _ in arenas]
    home: dict[int, int] = {}
    for k in sorted(root, key=rank.__getitem__):
        choices, count = lists[root[k]], max(1, int(s.bytes[k]))
        span = (
            range(int(s.birth[k]), int(s.death[k]) + 1)
            if arenas[choices[0]].reuse
            else range(plan.allocation.last_step + 1)
        )
        found = next((a for a in choices if all(live[a][n] + count <= arenas[a].capacity for n in span)), None)
        if found is None:
            return None
        home[k] = found
        for n in span:
            live[found][n] += count
    return home


@given(models(size=8), configurations())
def test_where_the_simple_greedy_fits_planning_does_not_fail(
    model: Model, config: tuple[tuple[ArenaConfiguration, ...], ArenaPolicy]
) -> None:
    arenas = tuple(replace(arena, memory="") for arena in config[0])
    large = tuple(replace(arena, capacity=LARGE << 20) for arena in arenas)
    plan = planned(model, (large, config[1]), "slots")
    home = None if plan is None else simple_greedy(plan, arenas, config[1])
    if plan is None or home is None:
        return
    storage = plan.allocation.tensors.storage.tolist()
    pins = tuple(
        Rule((arenas[home[k]].name,), names=(name,))
        for name, k in zip(plan.allocation.tensors.name, storage, strict=True)
    )
    greedy = planned(model, (arenas, config[1]._replace(rules=pins)), "slots")
    if greedy is not None and greedy.allocation.tensors.storage.tolist() == storage:
        assert planned(model, (arenas, config[1]), "slots") is not None
