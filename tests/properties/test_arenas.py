"""Rules, arenas and memories: what is planned is proved, and whoever chooses, the choice is one that the rules allow.

spec: M3.7, M3.8, M3.10, M3.11, M3.12
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from proofs import checker, claims, homes, obligations, structure
from proofs.program import program
from proofs.readers.ir_model import read_ir
from proofs.readers.sharing import permitted
from tests.strategies.models import models
from tmmu.errors import TmmuError
from tmmu.plan.columns import ROLES, Plan
from tmmu.planner import permitted as by_planner
from tmmu.planner import plan_memory
from tmmu.planner.permitted import matches
from tmmu.vocabulary import Arena, ArenaPolicy, Device, Memory, Model, Role, Rule

TOKEN = bytes(range(64))
LAYOUTS = ("slots", "packed", "pools", "hashed")
NAMES = ("gradients", "optimizer", "activations")
"""The reused arenas; a scratch request of a random model may name one of the default ones."""
LARGE = 1 << 20

pieces = st.sampled_from(("*", "t", "0", "1", "n", "*0", "x*", "*1*", "", "a"))
patterns = st.lists(st.builds("".join, st.lists(pieces, min_size=1, max_size=3)).filter(bool), max_size=2)
operators = st.lists(st.sampled_from(("Relu", "Add", "*", "R*", "MatMul", "Split")), max_size=2)


@st.composite
def configurations(draw: st.DrawFn) -> tuple[tuple[Arena, ...], ArenaPolicy]:
    """Three arenas that reuse and one that does not, some in memories, small or large; and up to four rules."""
    sizes = st.sampled_from((16, 24, 32, 48, 64, 128, LARGE))
    memories = tuple(Memory(name, draw(sizes)) for name in ("sram", "dram"))
    devices = (
        Device("npu", memories, tuple(draw(patterns)), tuple(draw(operators))),
        Device("dsp", (), tuple(draw(patterns)), tuple(draw(operators))),
    )
    alignments = st.sampled_from((1, 2, 8, 16))
    arenas = [
        Arena(name, (), draw(sizes), draw(alignments), device="npu", memory=draw(st.sampled_from(("", "sram", "dram"))))
        for name in NAMES
    ]
    arenas[-1] = replace(arenas[-1], roles=tuple(role for role in Role if role is not Role.PARAMETER))
    arenas.append(Arena("parameters", (Role.PARAMETER,), LARGE, reuse=False, alignment=draw(alignments)))
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
    model: Model, config: tuple[tuple[Arena, ...], ArenaPolicy], layout: str, fallback: str | None = None
) -> Plan | None:
    """The plan, or None where it does not fit or an alias group has different rules."""
    token = TOKEN if layout == "hashed" else None
    try:
        return plan_memory(
            model, config[0], layout=layout, address_token=token, policy=config[1], fallback=fallback
        ).plan
    except TmmuError as error:
        assert error.code_id in {"ARENA_TOO_SMALL", "INVALID_IR"}
        return None


def refused(plan: Plan, model: Model) -> list[object]:
    """What the naive checker finds wrong with a plan."""
    donated = frozenset(plan.bindings.donated)
    run = program(plan, permitted(plan, read_ir(model), donated), donated)
    return [*checker.problems(run), *structure.problems(plan, run), *claims.false_claims(plan, run)]


@given(models(), configurations(), st.sampled_from(LAYOUTS), st.sampled_from((None, "packed")))
def test_what_fits_by_rules_and_memories_passes_the_checker(
    model: Model, config: tuple[tuple[Arena, ...], ArenaPolicy], layout: str, fallback: str | None
) -> None:
    plan = planned(model, config, layout, fallback)
    if plan is None:
        return
    assert plan.layout == layout or (layout, plan.layout) == ("slots", "packed")
    assert refused(plan, model) == []
    assert planned(model, config, layout, fallback) == plan


@settings(max_examples=25, phases=(Phase.explicit, Phase.generate))  # a solver is started for each example
@given(models(size=6), configurations(), st.sampled_from(LAYOUTS))
def test_what_fits_by_rules_and_memories_is_proved(
    model: Model, config: tuple[tuple[Arena, ...], ArenaPolicy], layout: str
) -> None:
    plan = planned(model, config, layout)
    if plan is not None:
        donated = frozenset(plan.bindings.donated)
        outcomes = obligations.prove(plan, permitted(plan, read_ir(model), donated), workers=1, donated=donated)
        assert [(o.name, o.verdict) for o in outcomes if o.verdict != "PROVED"] == []


@given(models(), configurations())
def test_planner_and_checker_read_the_rules_alike(model: Model, config: tuple[tuple[Arena, ...], ArenaPolicy]) -> None:
    arenas = tuple(replace(arena, capacity=LARGE << 20, memory="") for arena in config[0])
    plan = planned(model, (arenas, config[1]), "slots")
    if plan is not None:
        assert [found.rule for found in by_planner.of_plan(plan)] == homes.rule_of(plan).tolist()


@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_both_readings_of_a_pattern_agree_with_its_definition(pattern: str, text: str) -> None:
    def means(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "*":
            return any(means(pattern[1:], text[i:]) for i in range(len(text) + 1))
        return bool(text) and text[0] == pattern[0] and means(pattern[1:], text[1:])

    assert matches(pattern, text) == homes.fits(pattern, text) == means(pattern, text)


def solutions(model: Model, config: tuple[tuple[Arena, ...], ArenaPolicy], plan: Plan) -> list[Plan]:
    """Every plan that fits, of all ways to pin each tensor to one arena that its rule lists. `plan` has room for all."""
    number = {arena.name: a for a, arena in enumerate(config[0])}
    rules = homes.rule_of(plan).tolist()
    lists = [
        config[1].rules[rule].arenas if rule >= 0 else tuple(a.name for a in config[0] if ROLES[role] in a.roles)
        for rule, role in zip(rules, plan.tensors.role.tolist(), strict=True)
    ]
    storage, roots = plan.tensors.storage.tolist(), {}
    for t, k in enumerate(storage):
        roots.setdefault(k, t)
    found = []
    for chosen in product(*(lists[t] for t in roots.values())):
        home = dict(zip(roots, chosen, strict=True))
        pins = tuple(
            Rule((home[k],), names=(name,)) for name, k in zip(plan.tensors.name, storage, strict=True)
        )  # fmt: skip
        assert set(home.values()) <= set(number)
        pinned = planned(model, (config[0], config[1]._replace(rules=pins)), plan.layout)
        if pinned is not None:
            found.append(pinned)
    return found
