"""Random models, arenas and changes of plans: graphs as exporters and compilers write them, and odder ones.

Every model is valid, and what it declares is true: members of an alias group are never needed at one time, views lie
within their bases, and nothing changes what the caller keeps. In-place hints alone are right and wrong ones.
`tests/nightly/test_strategies_reach.py` shows what is reached.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from tmmu.core.vocabulary import ArenaConfiguration, Model, Role
from tmmu.planner.arenas import DEFAULT
from tmmu.testing.catalogue.entries import COLUMNS, WAYS, Change
from tmmu.testing.strategies.recipes import KINDS, TRAITS, Ending, Given, Recipe, build

REACH = (0, 1, 2, 6)
"""How far back operands are: near ones make chains, far ones skip over them."""


def _fields(packed: int, *widths: int) -> Iterator[int]:
    """The bit fields of an integer, lowest first. One integer is quick to draw, and shrinks field by field."""
    for width in widths:
        yield packed & (1 << width) - 1
        packed >>= width


def _places(packed: int) -> tuple[int, ...]:
    """Up to three distances, from eight bits: how many, and how far back each reaches."""
    count, *reach = _fields(packed, 2, 2, 2, 2)
    return tuple(REACH[k] for k in reach[:count])


def _recipe(kind: str, packed: int, operands: int, trait: str) -> Recipe:
    hints, like = _fields(packed, 3, 4)
    return Recipe(kind, hints, like, _places(operands), trait)


def _given(packed: int, like: int) -> Given:
    role, donated, listed, saved = _fields(packed, 2, 1, 1, 2)
    return Given(
        (Role.INPUT, Role.PARAMETER, Role.OPTIMIZER, Role.INPUT)[role], donated == 1, listed == 1, saved == 3, like
    )


# Hypothesis draws integers evenly up to some eight bits, and nearly always small ones beyond.
_byte = st.integers(0, 255)
_givens = st.lists(st.builds(_given, st.integers(0, 63), st.integers(0, 15)), max_size=4)
_endings = st.builds(
    Ending,
    _byte.map(_places), _byte.map(_places), st.lists(st.integers(0, 31), max_size=3).map(tuple), st.booleans(),
)  # fmt: skip


def _recipes(kinds: Sequence[str], traits: Sequence[str]) -> st.SearchStrategy[Recipe]:
    chosen = st.sampled_from(("",) * len(traits) + (*traits,))
    return st.builds(_recipe, st.sampled_from(kinds), st.integers(0, 127), _byte, chosen)


@st.composite
def models(
    draw: st.DrawFn,
    *,
    kinds: Sequence[str] = KINDS,
    size: int = 14,
    truthful: bool = True,
    traits: Sequence[str] = TRAITS,
) -> Model:
    """Valid models of up to `size` nodes of some `kinds`, bodies included.

    Nodes stand in execution order. No tensor is larger than 16 bytes, so that every byte can be looked at. A model that
    need not be `truthful` may declare alias groups that are needed at one time and MatMul in place, and change what the
    caller keeps or what the same node reads.
    """
    givens, recipes = draw(_givens), _recipes(kinds, traits)
    wanted = draw(st.one_of(st.lists(recipes, max_size=size // 2), st.lists(recipes, min_size=5, max_size=size)))
    return build(givens, wanted, draw(_endings), truthful=truthful)


def numbered(number: int, kinds: Sequence[str] = KINDS, traits: Sequence[str] = ("",) * len(TRAITS) + TRAITS) -> Model:
    """The model of a number, the same on every machine: for tests that need a fixed list of models."""
    chance = random.Random(number)
    givens = [_given(chance.randrange(64), chance.randrange(16)) for _ in range(chance.randrange(5))]
    recipes = [
        _recipe(chance.choice(kinds), chance.randrange(128), chance.randrange(256), chance.choice(traits))
        for _ in range(chance.randrange(24))
    ]
    outputs, groups = (_places(chance.randrange(256)) for _ in range(2))
    conflicts = tuple(chance.randrange(32) for _ in range(chance.randrange(4)))
    return build(givens, recipes, Ending(outputs, groups, conflicts, recorded=number % 2 == 1))


def changes(columns: tuple[tuple[str, str], ...] = COLUMNS) -> st.SearchStrategy[list[Change]]:
    """One change of a plan's entries, seldom two or three."""
    change = st.builds(
        lambda place, row, how, by: Change(place[0], place[1], row, how, by),
        st.sampled_from(columns), st.integers(0, 63), st.sampled_from(WAYS), st.integers(1, 31),
    )  # fmt: skip
    return st.one_of(st.lists(change, min_size=1, max_size=1), st.lists(change, min_size=1, max_size=3))


@st.composite
def arenas(draw: st.DrawFn) -> tuple[ArenaConfiguration, ...]:
    """The default arenas in any order, with other alignments, others kept for good, and all or some roles moved."""
    names, roles = [arena.name for arena in DEFAULT], tuple(Role)
    home = {role: arena.name for arena in DEFAULT for role in arena.roles}
    if draw(st.booleans()):
        home = dict.fromkeys(roles, "activations")
    home |= draw(st.dictionaries(st.sampled_from(roles), st.sampled_from(names), max_size=2))
    made = [
        replace(
            arena,
            roles=tuple(role for role in roles if home[role] == arena.name),
            alignment=draw(st.sampled_from((128, 1, 2, 8, 512))),
            reuse=draw(st.sampled_from((arena.reuse, arena.reuse, not arena.reuse))),
            capacity=draw(st.sampled_from((arena.capacity, 1 << 32))),
        )
        for arena in DEFAULT
    ]
    return tuple(draw(st.permutations(made)))
