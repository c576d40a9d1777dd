"""Our planner in the suite that it ships: four layouts over models, and `packed` over buffers."""

from __future__ import annotations

from typing import Any

import pytest

from tmmu import testing
from tmmu.core.source import Source
from tmmu.core.vocabulary import Model
from tmmu.exporters.minimalloc import place_buffers
from tmmu.ir.graph import Graph
from tmmu.planner import PlanOptions, plan_memory
from tmmu.testing.programs import write_csv

LAYOUTS = ("slots", "packed", "pools", "hashed")


def plan_model(given: Model | Graph, layout: str) -> Any:
    model = given.model() if isinstance(given, Graph) else given
    token = bytes(range(64)) if layout == "hashed" else None
    return plan_memory(model, options=PlanOptions(layout=layout, address_token=token)).plan


def plan_buffers(buffers: list[testing.TimedBuffer], capacity: int | None = None) -> str:
    return place_buffers(Source("buffers", write_csv(buffers).encode()), capacity=capacity).data.decode()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_our_planner_has_all_properties_of_models(layout: str) -> None:
    figures = testing.check_planner(
        lambda model: plan_model(model, layout), testing.models(envelopes=True), granularity=128, examples=40, folder=""
    )
    assert figures.held["safe"] == figures.held["deterministic"] == figures.examples


def test_our_planner_has_all_properties_of_buffers() -> None:
    given = testing.buffers(alignments=True, gaps=True, fixed=True).filter(bool)
    figures = testing.check_planner(plan_buffers, given, examples=40, folder="")
    assert figures.held["safe"] == figures.held["refuses"] == figures.examples
