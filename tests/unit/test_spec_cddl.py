"""The published schemas say what the code writes and refuses: on examples and on mutants of them.

The schemas are no gate: validators of CDDL accept wrong files. The mutants are such as a validator judges rightly.
spec: I1.1, P1.2, R1.7
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pycddl
import pytest

from tmmu.core import canonical
from tmmu.core.dims.expressions import symbol
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, Body, Model, Node, Role, Scratch, Tensor, View
from tmmu.ir import columns as ir_columns
from tmmu.planner.plan import plan_memory
from tmmu.plans import file as plan_file
from tmmu.plans import gate
from tmmu.plans.columns import Bodies, Shards, Slots, Steps, Storages, Tensors, Terms

ROOT = Path(__file__).resolve().parents[2]
Mutation = Callable[[dict[str, Any]], None]


def model() -> Model:
    """A small model in which every table of the schema has a row."""
    tensors = (
        Tensor("x", (4,), "float32", Role.INPUT, 16),
        Tensor("w", (4,), "float32", Role.PARAMETER, 16, alias_group="tied"),
        Tensor("sum", (symbol("m", 1, 4),), "float32", Role.ACTIVATION, 16, saved_for_backward=True),
        Tensor("square", (symbol("m", 1, 4),), "float32", Role.ACTIVATION, 16, view=View(2, 0, 16, (1,))),
        Tensor("y", (2, 2), "float32", Role.ACTIVATION, 16),
    )
    nodes = (
        Node("add", "Add", (0, 1), (2,), in_place=((2, 0),), scratch=(Scratch(8, 8), Scratch(8, 8, "activations"))),
        Node("reshape", "Reshape", (2,), (3,)),
        Node("relu", "Relu", (3,), (4,)),
    )
    bindings = Bindings({"n": 4}, {"x": (4,)}, {"rate": "16000"}, {"k": "3"}, ("x",), False, {"m": (1, 4)})
    return Model("small", tensors, nodes, (Body(-1, "", (0,), (4,)),), ((0, 4),), ("mask",), bindings, bytes(32))


def schema(name: str) -> pycddl.Schema:
    return pycddl.Schema((ROOT / "spec" / name).read_text())


def accepts(judge: pycddl.Schema, value: dict[str, Any]) -> bool:
    try:
        judge.validate_cbor(canonical.encode(value))
    except pycddl.ValidationError:
        return False
    return True


def reads(read: Callable[[Any], object], value: dict[str, Any]) -> bool:
    try:
        read(canonical.decode(canonical.encode(value)))
    except TmmuError:
        return False
    return True


def put(*path: str, value: Any) -> Mutation:
    """A mutation that sets the entry at `path`."""

    def apply(root: dict[str, Any]) -> None:
        for key in path[:-1]:
            root = root[key]
        root[path[-1]] = value

    return apply


def drop(*path: str) -> Mutation:
    """A mutation that removes the entry at `path`."""

    def apply(root: dict[str, Any]) -> None:
        for key in path[:-1]:
            root = root[key]
        del root[path[-1]]

    return apply


PLAN_MUTANTS: dict[str, Mutation] = {
    "another format": put("format", value="tmmu-ir"),
    "another version": put("spec_version", value="0.9"),
    "an unknown mode": put("provenance", "mode", value="training"),
    "an unknown layout": put("provenance", "layout", value="heap"),
    "an unknown key": put("comment", value="hello"),
    "an unknown key in a table": put("claims", "slots", "generation", value=np.zeros(1, np.uint32)),
    "a key left out": drop("allocation", "bodies"),
    "a column left out": drop("allocation", "tensors", "window"),
    "a column of another width": put("allocation", "storages", "offset", value=np.zeros(1, np.uint32)),
    "a list for a column": put("allocation", "storages", "offset", value=[0]),
    "a short hash": put("provenance", "ir_hash", value=bytes(31)),
    "no source digest but a text": put("provenance", "source_digest", value="none"),
    "a negative rank": put("provenance", "rank", value=-1),
    "a world of no ranks": put("provenance", "world_size", value=0),
    "a binding that is no size": put("provenance", "bindings", "dims", value={"n": -4}),
    "a value that is a number": put("provenance", "bindings", "values", value={"rate": 16000}),
    "names as a list": put("allocation", "tensors", "name", value=["x"]),
    "steps and lifetimes alone": put("buffers", value={}),
}

GATE_ALONE: dict[str, Mutation] = {
    "a sharding": put("provenance", "shard_spec", value={"mesh": 1}),
    "columns of unequal length": put("claims", "slots", "bytes", value=np.zeros(1, np.uint64)),
    "an arena that does not exist": put("claims", "slots", "arena", value=np.full(4, 9, np.uint32)),
    "a name twice": put("allocation", "tensors", "name", value=b"x\0x\0sum\0square\0y\0add.scratch0\0add.scratch1"),
    "an element type that nobody knows": put("allocation", "dtypes", value=["float31", "uint8"]),
    "provenance without claims": drop("claims"),
    "bounds that do not close": put("allocation", "steps", "reads_at", value=np.zeros(4, np.uint32)),
}
"""What a schema cannot say, or its validator does not see."""

IR_MUTANTS: dict[str, Mutation] = {
    "another format": put("format", value="tmmu-plan"),
    "another version": put("version", value=2),
    "an unknown key": put("comment", value="hello"),
    "an unknown key in a table": put("nodes", "cost", value=np.zeros(3, np.uint32)),
    "a key left out": drop("bodies"),
    "a column left out": drop("tensors", "dtype"),
    "a column of another width": put("tensors", "shape", value=np.zeros(6, np.uint32)),
    "a list for a column": put("in_place", "node", value=[0]),
    "a short digest": put("source_digest", value=bytes(20)),
    "a binding that is no size": put("bindings", "dims", value={"n": -4}),
    "an operator without domain": put("ops", value=[["Add"]]),
    "an alias group without a name": put("groups", value=[7]),
}


def test_a_written_plan_and_a_written_model_fit_their_schemas() -> None:
    assert accepts(schema("plan.cddl"), plan_file.to_object(plan_memory(model()).plan))
    assert accepts(schema("ir.cddl"), ir_columns.to_object(model()))


def test_what_fits_the_schema_is_read_back_as_it_was() -> None:
    plan = plan_memory(model()).plan
    assert plan_file.decode(plan_file.encode(plan)).plan == plan
    assert ir_columns.from_object(canonical.decode(canonical.encode(ir_columns.to_object(model())))) == model()


@pytest.mark.parametrize("what", PLAN_MUTANTS)
def test_a_plan_that_is_wrong_is_refused_by_schema_and_gate(what: str) -> None:
    value = plan_file.to_object(plan_memory(model()).plan)
    PLAN_MUTANTS[what](value)
    assert not accepts(schema("plan.cddl"), value)
    assert not reads(gate.from_object, value)


@pytest.mark.parametrize("what", IR_MUTANTS)
def test_a_model_that_is_wrong_is_refused_by_schema_and_reader(what: str) -> None:
    value = copy.deepcopy(ir_columns.to_object(model()))
    IR_MUTANTS[what](value)
    assert not accepts(schema("ir.cddl"), value)
    assert not reads(ir_columns.from_object, value)


@pytest.mark.parametrize("what", GATE_ALONE)
def test_what_a_schema_cannot_say_is_refused_by_the_gate(what: str) -> None:
    value = plan_file.to_object(plan_memory(model()).plan)
    GATE_ALONE[what](value)
    assert accepts(schema("plan.cddl"), value)
    assert not reads(gate.from_object, value)


def test_the_tables_of_the_schema_are_the_columns_of_the_code() -> None:
    text = (ROOT / "spec/plan.cddl").read_text()
    for kind in (Tensors, Storages, Slots, Steps, Bodies, Shards, Terms):
        columns = {f.name: gate.DTYPES[str(f.type)] for f in fields(kind)}
        name = kind.__name__.lower()
        body = text.split(f"\n{name} = {{\n", 1)[1].split("\n}", 1)[0]
        stated = {line.split('"')[1]: line.split(": ")[1].split(",")[0] for line in body.splitlines()}
        stated.pop("count", None)
        widths = {"names": "Names", "u8": "uint8", "u32": "uint32", "u64": "uint64"}
        assert {key: widths[value] for key, value in stated.items()} == {k: v.__name__ for k, v in columns.items()}
