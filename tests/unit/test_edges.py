"""Edges between neighbours are evidence: whatever they say, a plan whose storages collide is not proved by them.

spec: V1.1, V1.12
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.proving.certificate.edges import Edges, _Column, edges
from proofs.proving.obligations import PRELUDE, by_edges
from proofs.proving.obligations.context import context_of
from proofs.proving.obligations.discharge import Result, discharge
from proofs.proving.obligations.rows import Place
from proofs.proving.solvers.process import Z3
from proofs.readers.sharing import Permissions
from tests.support.synthetic import training_plan
from tests.support.written import Lives, Written
from tmmu.examples.broken.editing import in_layout
from tmmu.plans.sections import Plan, amend_plan

SOLVER = Z3(PRELUDE)


@pytest.fixture(scope="module", autouse=True)
def _closing() -> Iterator[None]:
    yield
    SOLVER.close()


TEXT = "a = MatMul x\nb = MatMul a\nc = MatMul b\nd = MatMul a c\n"
"""Steps 0 to 3. x lives at 0, a from 0 to 3, b from 1 to 2, c from 2 to 3, d at 3, each at a multiple of 16."""


def plan(lives: Lives | None = None, **sizes: int) -> Plan:
    return Written(TEXT, given={"x": "input"}, **sizes).plan(lives)


def asked(of: Plan, found: Edges) -> Result:
    """What the solver says of the arena with these edges."""
    [result] = discharge([by_edges.of_arena(context_of(of, Permissions()), found, 0)], [SOLVER], 60)
    assert result.failure is None
    return result


def without(found: Edges, k: int) -> Edges:
    return found._replace(**{name: np.delete(getattr(found, name), k) for name in ("below", "above", "first", "last")})


def with_one(found: Edges, k: int, **entries: int) -> Edges:
    """Edges of which one has other numbers."""
    columns = {name: getattr(found, name).copy() for name in entries}
    for name, value in entries.items():
        columns[name][k] = value
    return found._replace(**columns)


def test_the_edges_of_a_plan_are_who_lies_next_above_whom_and_when() -> None:
    """0 to 4 are x, a, b, c and d; 5 is the floor and 6 the roof."""
    found = edges(plan().allocation, 0)
    assert sorted(zip(*(column.tolist() for column in found[1:]), strict=True)) == [
        (0, 1, 0, 0), (1, 2, 1, 2), (1, 3, 3, 3), (1, 6, 0, 0), (2, 3, 2, 2), (2, 6, 1, 1), (3, 4, 3, 3), (3, 6, 2, 2),
        (4, 6, 3, 3), (5, 0, 0, 0), (5, 1, 1, 3),
    ]  # fmt: skip
    assert asked(plan(), found).proved


def test_a_storage_without_bytes_has_no_edges() -> None:
    empty = plan(b=0)
    found = edges(empty.allocation, 0)
    assert found.storages.tolist() == [0, 1, 3, 4]
    assert asked(empty, found).proved
    assert asked(empty, edges(plan().allocation, 0)).refuted == ("false", Place())
    one = plan(b=1)
    assert edges(one.allocation, 0).storages.tolist() == [0, 1, 2, 3, 4]
    assert asked(one, edges(one.allocation, 0)).proved
    assert asked(one, found).refuted == ("false", Place())


def test_that_each_storage_of_edges_has_bytes_is_asked_once_a_size() -> None:
    """A column is made of such (`what_begins_above_is_stacked`); the storages are chosen by it, so that it holds."""
    found = edges(plan(b=32).allocation, 0)
    batches = by_edges.of_arena(context_of(plan(b=32), Permissions()), found, 0)
    rows = [row for batch in batches for row in batch.rows if row.startswith("(has_bytes ")]
    assert rows == ["(has_bytes 8)", "(has_bytes 32)"]


def test_bytes_that_are_taken_again_at_once_and_those_that_never_are_have_edges_too() -> None:
    """What dies makes room for what is born a step later; in an arena that does not reuse, nothing dies."""
    again = in_layout(training_plan(60, seed=3, in_place=0.2), "packed")
    assert len(again.allocation.storages) > len(set(again.allocation.storages.offset.tolist()))
    assert asked(again, edges(again.allocation, 0)).proved
    kept = amend_plan(plan(), arenas=tuple(replace(arena, reuse=False) for arena in plan().allocation.arenas))
    assert asked(kept, edges(kept.allocation, 0, always=True)).proved
    assert asked(kept, edges(kept.allocation, 0)).refuted is not None


def test_scattered_addresses_may_lie_beyond_the_capacity() -> None:
    """What ends within 64 bits is asked by `capacity`. spec: A8.6"""
    few = replace(plan().allocation.arenas[0], capacity=16)
    usage = (plan().usage[0]._replace(footprint=16),)
    scattered = amend_plan(plan(), arenas=(replace(few, scattered=True),), usage=usage)
    assert asked(scattered, edges(scattered.allocation, 0)).proved
    short = amend_plan(plan(), arenas=(few,), usage=usage)
    assert asked(short, edges(short.allocation, 0)).refuted is not None


LIES: dict[str, Callable[[Edges], Edges]] = {
    "a storage left out": lambda e: e._replace(storages=e.storages[1:]),
    "storages in another order": lambda e: e._replace(storages=e.storages[::-1]),
    "below everything": lambda e: with_one(e, 0, below=-1),
    "the roof below": lambda e: with_one(e, 0, below=6),
    "beyond the roof": lambda e: with_one(e, 0, above=7),
    "the floor above": lambda e: with_one(e, 0, above=5),
    "a step too late": lambda e: with_one(e, 0, first=int(e.first[0]) + 1),
    "a step too long": lambda e: with_one(e, 0, last=int(e.last[0]) + 1),
    "an edge twice": lambda e: e._replace(
        **{n: np.append(c, c[:1]) for n, c in zip(e._fields[1:], e[1:], strict=True)}
    ),
    "no edges": lambda e: e._replace(**dict.fromkeys(e._fields[1:], e.below[:0])),
    "upside down": lambda e: e._replace(below=e.above, above=e.below),
    "floor to roof at all steps": lambda e: e._replace(
        **{n: np.append(c, v) for n, c, v in zip(e._fields[1:], e[1:], (5, 6, 0, 3), strict=True)}
    ),
    **{f"edge {k} left out": lambda e, k=k: without(e, k) for k in range(11)},  # type: ignore[misc]  # a default binds k
}


@pytest.mark.parametrize("lie", LIES)
def test_edges_that_are_not_those_of_the_plan_prove_nothing(lie: str) -> None:
    assert asked(plan(), LIES[lie](edges(plan().allocation, 0))).refuted is not None


def test_the_first_storage_that_has_no_edges_is_named() -> None:
    assert asked(plan(), LIES["no edges"](edges(plan().allocation, 0))).refuted == ("false", Place(storages=[0]))


@pytest.mark.parametrize("names", [(0, 1), (1, 2), (3, 4)])
def test_storages_that_reach_into_the_next_by_one_byte_are_named(names: tuple[int, int]) -> None:
    """Their edges are found as if they did not; the row of the edge is false."""
    closer = plan()
    size = closer.allocation.storages.bytes.copy()
    size[names[0]] = 17
    closer = amend_plan(closer, storages=replace(closer.allocation.storages, bytes=size))
    refuted = asked(closer, edges(closer.allocation, 0)).refuted
    assert refuted is not None
    assert refuted[1] == Place(storages=list(names))


def test_what_lies_on_the_floor_and_under_the_roof_is_within_the_arena() -> None:
    """An end beyond the footprint is no place below the roof."""
    low = plan()
    short = low.usage[0]._replace(footprint=low.usage[0].footprint - 1)
    refuted = asked(amend_plan(low, usage=(short,)), edges(low.allocation, 0)).refuted
    assert refuted is not None
    assert refuted[1] == Place(storages=[4])


class Narrow(_Column):
    """Two ranks in a bucket, so that few ranks need many."""

    WIDTH = 1


@given(st.lists(st.integers(0, 12), max_size=30))
def test_the_next_below_is_the_highest_that_lives_wherever_it_is_kept(ranks: list[int]) -> None:
    """A rank that comes again dies."""
    for column in (Narrow(13), _Column(13)):
        live: set[int] = set()
        for rank in ranks:
            found = column.remove(rank) if rank in live else column.insert(rank)
            live ^= {rank}
            assert found == max((other for other in live if other < rank), default=-1)


@pytest.mark.parametrize(("name", "row", "life"), [("x", 0, (0, 1)), ("b", 2, (1, 3)), ("d", 4, (2, 3))])
def test_a_storage_that_lives_longer_than_its_edges_is_named(name: str, row: int, life: tuple[int, int]) -> None:
    """The edges of a plan in which it lives a step less."""
    refuted = asked(plan({name: life}), edges(plan().allocation, 0)).refuted
    assert refuted is not None
    assert row in refuted[1].storages


def test_empty_buckets_are_passed_over() -> None:
    """A million ranks of which one is live: what lies below the last is found at a few looks. spec: V1.12"""
    looks = []

    class Counted(list[list[int]]):
        def __getitem__(self, number: Any) -> Any:
            looks.append(number)
            return super().__getitem__(number)

    column = _Column(1 << 20)
    column.buckets = Counted(column.buckets)
    assert column.insert(3) == -1
    assert (column.insert(1 << 20), column.remove(1 << 20)) == (3, 3)
    assert column.remove(3) == -1
    assert column.insert(1 << 20) == -1
    assert len(looks) <= 10
