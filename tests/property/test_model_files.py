"""A model survives being written and read, and the default order of its nodes is what its definition says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.definition.model.compare import differences
from proofs.readers.models.ir import read_ir
from tmmu.core import canonical
from tmmu.core.dims.expressions import Dim, Unwieldy, bounds_of, symbol
from tmmu.core.dims.operations import maximum_of, minimum_of, quotient
from tmmu.core.dims.text import Shapes, format_shape
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, Model
from tmmu.ir import columns, files, text, text_writer
from tmmu.ir.order import sort_topologically
from tmmu.planner import plan_memory
from tmmu.testing.strategies.models import models
from tmmu.testing.strategies.recipes import KINDS

WITHOUT_CHANGES = [kind for kind in KINDS if kind != "update"]


@given(models())
def test_a_model_that_is_written_and_read_is_the_same(model: Model) -> None:
    """spec: I1.2, R2.3"""
    data = canonical.encode(columns.to_object(model))
    again = columns.from_object(canonical.decode(data))
    assert again == model
    assert canonical.encode(columns.to_object(again)) == data
    assert columns.model_digest(again) == columns.model_digest(model)


@given(models())
def test_a_model_that_is_written_as_text_and_read_is_the_same(model: Model) -> None:
    """spec: X3.10, X3.3"""
    assert text.read(text_writer.write(model).encode(), "text") == model


RANGES = {"n": (1, 9), "max": (2, 5), "a x": (0, 3)}


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 99), st.integers(0, 99)), max_size=12))
def test_a_shape_that_is_written_as_text_and_read_is_the_same(parts: list[tuple[int, int, int]]) -> None:
    """Sums, products, quotients, minima and maxima of dimensions, whatever their names. spec: X3.3"""
    found: list[Dim] = [symbol(name, *ends) for name, ends in RANGES.items()]
    for kind, a, b in parts:
        left, right = found[a % len(found)], found[b % len(found)]
        with suppress(Unwieldy):
            found.append(
                (left + right, left - right, left * right, left + b, 3 * left - b, quotient(left, right),
                 minimum_of(left, right),
                 maximum_of(left, right))[kind] if kind != 5 or bounds_of(right).low > 0 else left
            )  # fmt: skip
    shape = tuple(dim for dim in found if bounds_of(dim).high < 1 << 64 and not (isinstance(dim, int) and dim < 0))
    assert Shapes(RANGES).read(format_shape(shape), len(shape)) == shape


@given(model=models())
def test_a_model_file_holds_the_model(model: Model, tmp_path_factory: pytest.TempPathFactory) -> None:
    """spec: I1.1, I1.2, I1.7"""
    path = tmp_path_factory.mktemp("models") / "random.ir.cbor"
    files.save(model, path)
    assert files.load(path) == model


def shuffled(model: Model, seed: int) -> Model:
    """The same nodes, listed in another order."""
    order = list(range(len(model.nodes)))
    random.Random(seed).shuffle(order)
    place = {n: k for k, n in enumerate(order)}
    bodies = tuple(replace(body, owner=place.get(body.owner, -1)) for body in model.bodies)
    return replace(model, nodes=tuple(model.nodes[n] for n in order), bodies=bodies)


seeds = st.integers(0, 1 << 16)


@given(models())
def test_nodes_in_order_stay_where_they_are(model: Model) -> None:
    """spec: I1.7"""
    assert sort_topologically(model) is model


@given(models(kinds=WITHOUT_CHANGES), seeds)
def test_ordering_is_idempotent(model: Model, seed: int) -> None:
    """spec: I1.7"""
    once = sort_topologically(shuffled(model, seed))
    assert sort_topologically(once) is once


@given(models(kinds=WITHOUT_CHANGES), seeds)
def test_the_order_is_that_of_the_first_node_listed_whose_operands_are_made(model: Model, seed: int) -> None:
    """spec: I1.7"""
    listed = shuffled(model, seed)
    names = [node.name for node in sort_topologically(listed).nodes]
    assert names == [listed.nodes[n].name for n in by_definition(listed, MAIN)]


def by_definition(model: Model, body: int) -> Iterator[int]:
    """The nodes of a body and of those inside it: again and again the first listed one that needs nothing unmade."""
    waiting = [n for n, node in enumerate(model.nodes) if node.body == body]
    while waiting:
        unmade = {t for n in waiting for t in model.nodes[n].writes}
        n = next(n for n in waiting if unmade.isdisjoint(needs(model, n)))
        waiting.remove(n)
        yield n
        for b, inner in enumerate(model.bodies):
            if inner.owner == n:
                yield from by_definition(model, b)


def needs(model: Model, n: int) -> Iterator[int]:
    """What a node reads, or anything inside it, or what its bodies return."""
    yield from model.nodes[n].reads
    for b, body in enumerate(model.bodies):
        if body.owner == n:
            yield from body.outputs
            for k, node in enumerate(model.nodes):
                if node.body == b:
                    yield from needs(model, k)


@given(models(kinds=WITHOUT_CHANGES), seeds)
def test_the_plan_of_a_model_in_its_default_order_is_the_models(model: Model, seed: int) -> None:
    """The checker reads the order for itself. spec: I1.7, V3.1"""
    ordered = sort_topologically(shuffled(model, seed))
    assert list(differences(plan_memory(ordered).plan, read_ir(ordered), frozenset())) == []


@given(models(), seeds)
def test_accesses_to_what_is_changed_keep_their_order(model: Model, seed: int) -> None:
    """A node that reads a tensor stays on its side of one that changes it, bodies and all. spec: I1.6, I1.8"""
    listed = shuffled(model, seed)
    try:
        ordered = sort_topologically(listed)
    except TmmuError as refused:
        if refused.code_id != "LIVENESS_CYCLE":
            raise
        return
    place = {node.name: n for n, node in enumerate(ordered.nodes)}
    for t in {t for node in model.nodes for t in node.mutates}:
        for (earlier, changes), (later, changes_too) in combinations(accesses(listed, t), 2):
            assert earlier == later or not (changes or changes_too) or place[earlier] < place[later]


def accesses(model: Model, t: int) -> Iterator[tuple[str, bool]]:
    """The nodes of a tensor's own body that read it, or inside which it is read, and whether it is changed there."""
    homes = [node.body for node in model.nodes if t in node.writes and t not in node.mutates]
    homes += [b for b, body in enumerate(model.bodies) if t in body.inputs and b != MAIN]
    home = homes[0] if homes else MAIN
    for node in model.nodes:
        if t in node.reads:
            unit = node
            while unit.body != home:
                unit = model.nodes[model.bodies[unit.body].owner]
            yield unit.name, t in node.mutates
