"""The nine networks that the onnx wheel carries: resolved, imported, read by the verifier, planned and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path

import onnx
import pytest
from onnx import shape_inference

from proofs.definition.model.compare import differences
from proofs.readers.models import onnx as reader
from proofs.readers.models.ir import read_ir
from proofs.readers.models.reference import ReferenceProgram
from proofs.readers.models.training import reference_in_mode
from proofs.readers.operators import DROPOUT_ASSUMED, OLD_DROPOUT_ASSUMED
from proofs.readers.sharing import decide_permissions
from tests.support.onnx_files import IF, LIGHT, NESTED, model_of, written
from tmmu import onnx as shapes
from tmmu.core.vocabulary import Bindings, Model, NodePart, Role, Shares
from tmmu.importers import onnx as importer
from tmmu.ir.order import sort_topologically
from tmmu.ir.validate import validate_model
from tmmu.onnx.sizes import DTYPES
from tmmu.planner.plan import plan_memory
from tmmu.plans.columns import SHARES

resolve = lru_cache(shapes.resolve)
import_onnx = lru_cache(importer.import_onnx)
load = lru_cache(onnx.load)


@lru_cache
def read_onnx(path: Path) -> ReferenceProgram:
    return reader.read_onnx(path, Bindings())


def names(model: Model, tensors: Sequence[int]) -> list[str]:
    return [model.tensors[t].name for t in tensors]


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_real_networks_have_the_sizes_that_inference_of_the_whole_graph_gives(path: Path) -> None:
    """spec: T10.1"""
    found = resolve(path)
    model = onnx.load(path)
    del model.graph.value_info[:]
    inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    compared = 0
    for value in inferred.graph.value_info:
        tensor = value.type.tensor_type
        dims = [dim.dim_value for dim in tensor.shape.dim if dim.HasField("dim_value")]
        if tensor.HasField("shape") and len(dims) == len(tensor.shape.dim):
            assert found.sizes[value.name] == (tuple(dims), DTYPES[tensor.elem_type])
            compared += 1
    written_by_nodes = sum(len([name for name in node.output if name]) for node in model.graph.node)
    assert compared + len(found.unproduced) >= written_by_nodes - len(model.graph.output)
    assert not found.bindings.trust_shapes


def test_the_nine_networks_are_there() -> None:
    assert len(LIGHT) == 9


def test_four_of_them_leave_an_output_unproduced() -> None:
    """spec: T9.1"""
    unproduced = {path.stem.removeprefix("light_"): sorted(resolve(path).unproduced) for path in LIGHT}
    assert {name: masks for name, masks in unproduced.items() if masks} == {
        "bvlc_alexnet": ["r19", "r23"], "inception_v1": ["r140"], "squeezenet": ["r62"], "vgg19": ["r41", "r45"],
    }  # fmt: skip


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_real_networks_are_imported_node_by_node(path: Path) -> None:
    """spec: T10.1, T9.1"""
    model, graph = import_onnx(path), load(path).graph
    validate_model(model)
    assert sort_topologically(model) is model
    assert [node.op for node in model.nodes] == [node.op_type for node in graph.node]
    unproduced = set(model.unproduced)
    for node, theirs in zip(model.nodes, graph.node, strict=True):
        assert names(model, node.reads) == [name for name in theirs.input if name]
        assert names(model, node.writes) == [name for name in theirs.output if name and name not in unproduced]
    stored = {tensor.name for tensor in graph.initializer}
    assert {t.name for t in model.tensors if t.role is Role.PARAMETER} == stored
    assert names(model, model.inputs) == [value.name for value in graph.input if value.name not in stored]
    assert names(model, model.outputs) == [value.name for value in graph.output]


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_real_networks_are_read_whole(path: Path) -> None:
    """Every node of the list is one step, every view is whole, and what is unproduced is an optional mask."""
    expected, graph = read_onnx(path), load(path).graph
    assert [(s.op, s.part) for s in expected.steps] == [(node.op_type, NodePart.WHOLE) for node in graph.node]
    kinds = {"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}
    assert expected.views == {n.output[0]: (n.input[0], 0) for n in graph.node if n.op_type in kinds}
    masks = {n.output[1] for n in graph.node if n.op_type == "Dropout" and len(n.output) > 1}
    assert expected.unproduced == masks


def same(one: ReferenceProgram, other: ReferenceProgram) -> None:
    """Two readings agree; of hints the reader of the file may know more (a Dropout is elementwise as well).

    Both list a Dropout of old: in training the one, which reads its version, and always the other, which does not.
    """
    for field in fields(ReferenceProgram):
        if field.name not in ("in_place", "has_attributes", "assumed", "assumed_sizes"):
            assert getattr(one, field.name) == getattr(other, field.name), field.name
    assert (one.has_attributes, other.has_attributes) == (True, False)
    listed = any(step.op == "Dropout" for step in one.steps)
    assert one.assumed == [OLD_DROPOUT_ASSUMED] * listed
    assert other.assumed == [DROPOUT_ASSUMED] * listed
    assert other.in_place <= one.in_place
    assert {result for result, _ in one.in_place - other.in_place} <= set(one.views)


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_a_real_network_says_the_same_read_from_the_file_and_after_import(path: Path) -> None:
    """Two readings of one file by two people's reasoning. spec: V3.1, V3.2"""
    same(read_onnx(path), read_ir(import_onnx(path)))


SIZED_LOOP = """g (bool c, float[2] a, float[2] b) => (float[2] x, float[2] y) <int64 n = {4}> {
  [pre] k = Relu(a)
  [loop] x, y = Loop (n, c, a, b) <body = body (int64 i, bool go, float[2] u, float[2] v)
    => (bool go, float[2] v, float[2] u) { [add] q = Add(u, k) [id] r = Identity(q) }>
}"""


@pytest.mark.parametrize("text", [IF, NESTED, SIZED_LOOP], ids=["if", "nested", "loop"])
def test_bodies_say_the_same_read_from_the_file_and_after_import(text: str, tmp_path: Path) -> None:
    """spec: V3.1, V3.2"""
    path = Path(written(tmp_path, model_of(text)))
    same(read_onnx(path), read_ir(import_onnx(path)))


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_a_plan_of_a_real_network_differs_in_nothing_and_its_every_word_counts(path: Path) -> None:
    """With the model and without, what the planner shares is permitted. spec: V2.1, V3.1, V3.2"""
    expected = reference_in_mode(read_onnx(path), "inference")
    plan = plan_memory(import_onnx(path)).plan
    assert list(differences(plan, expected, frozenset())) == []
    against, alone = decide_permissions(plan, expected, frozenset()), decide_permissions(plan, None, frozenset())
    assert against == alone
    assert against.assumed == []
    words = plan.allocation.tensors.shares.tolist()
    assert len(against.views) == words.count(SHARES.index(Shares.VIEW)) > 0
    assert len(against.in_place) == words.count(SHARES.index(Shares.IN_PLACE)) > 0


def test_a_plan_of_another_network_differs() -> None:
    plan = plan_memory(import_onnx(LIGHT[1])).plan
    kinds = {difference.field for difference in differences(plan, read_onnx(LIGHT[0]), frozenset())}
    assert {"extra-step", "operator", "reads", "extra-tensor", "source-digest"} <= kinds
