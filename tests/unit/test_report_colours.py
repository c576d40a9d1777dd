"""The colours of a map, and what they stand for. spec: RP1.9, RP1.15"""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.synthetic import training_plan
from tmmu import Graph
from tmmu import plan as planned
from tmmu.plans.columns import ROLES
from tmmu.report.arena_map import ArenaMap, arena_maps
from tmmu.report.colours import (
    OTHER,
    PALETTE,
    ROLE_COLOURS,
    colour_storages,
    compute_live,
    compute_luminance,
    name_layer,
    write_over,
)

LIGHT, DARK = "#ffffff", "#16181c"


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG 2.1 computes it."""
    low, high = sorted((compute_luminance(one), compute_luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", sorted({*PALETTE, *ROLE_COLOURS.values(), OTHER}))
def test_a_colour_stands_out_from_both_pages_and_its_text_from_it(colour: str) -> None:
    assert min(contrast(colour, LIGHT), contrast(colour, DARK)) >= 3
    assert contrast(colour, write_over(colour)) >= 4.5


def test_the_contrast_of_yellow_on_white_is_too_small() -> None:
    """The check can say no; the figure is that of WCAG's own examples."""
    assert contrast("#ffff00", LIGHT) == pytest.approx(1.07, abs=0.01)
    assert contrast("#000000", LIGHT) == pytest.approx(21)


def test_each_role_has_a_colour_of_its_own() -> None:
    assert len({ROLE_COLOURS[str(role)] for role in ROLES}) == len(ROLES)


def chain(*names: str, op: str = "Make") -> ArenaMap:
    """The activations of a chain of tensors."""
    g = Graph("g")
    at = g.input("x", (8,))
    for k, name in enumerate(names):
        at = g.node(f"{op}{k % 2}" if op == "Op" else op, at, g.tensor(name, (8,)))
    g.output(at)
    return arena_maps(planned(g).sections)[0]


def test_operators_or_layers_are_coloured_where_roles_say_nothing() -> None:
    many = [f"h.{k // 4}.t{k}" for k in range(40)]
    assert colour_storages(chain(*many, op="Op"))[0].key == "operator"
    one = chain(*many)
    assert colour_storages(one)[0].key == "operator"  # the caller's input and the steps' results
    training = {one.name: one for one in arena_maps(training_plan(60, seed=1))}
    assert all(colour_storages(each)[0].words for each in training.values())


@pytest.mark.parametrize(
    ("tensor", "layer"),
    [("/h.3/attn/MatMul_0", "h.3"), ("blocks_2/conv/w", "blocks_2"), ("Add_12", ""), ("a/b/c", ""), ("", "")],
)
def test_a_layer_is_the_numbered_part_of_a_name(tensor: str, layer: str) -> None:
    assert name_layer(tensor) == layer


def test_the_categories_are_all_that_is_live_at_each_step() -> None:
    for one in arena_maps(training_plan(80, seed=2)):
        for each in colour_storages(one):
            assert set(each.words) <= set(each.table)
            live = compute_live(one, each, range(len(one.live)))
            assert np.array_equal(sum(live.values()), one.live)
            for word, found in live.items():
                rows = [k for k, of in enumerate(each.words) if of == word]
                step = one.peak_step
                assert found[step] == sum(one.bytes[k] for k in rows if one.birth[k] <= step <= one.death[k])
