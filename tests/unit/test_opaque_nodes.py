"""What the tables of operators are not about is unknown to planner and verifier alike, each by a reading of its own.

Versions, attributes, optional operands and optional results come from onnx's own definitions: one that is new there
and decided nowhere fails here.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, defs, helper, numpy_helper

from proofs.readers import operators as verifier
from proofs.readers.models import covered
from proofs.readers.models.ir import read_ir
from proofs.readers.models.onnx import read_onnx
from proofs.readers.models.training import reference_in_mode
from proofs.readers.operators.gradients import EVERYTHING, Uses
from proofs.sharding.rank_model import shard_model
from proofs.verify.judge import Options, verify
from proofs.verify.verdict import PROVED, REFUTED
from tests.support.operator_rows import with_row
from tests.support.sharded import spec
from tmmu import operators as planner
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, Model, Node
from tmmu.importers import onnx as importer
from tmmu.importers import opaque
from tmmu.importers.onnx import import_onnx
from tmmu.ir import text
from tmmu.onnx.operators import Operators
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.modes import prepare_graph
from tmmu.planner.sharding import build_local_models, build_shards
from tmmu.planner.training import gradients
from tmmu.plans import file, sharding
from tmmu.plans.sections import amend_plan

OLDEST = 7
OPTIONAL = defs.OpSchema.FormalParameterOption.Optional

TABLES = {
    "verifier": {op for (domain, op), row in verifier.OPERATORS.items() if not domain and row.permits_anything},
    "planner": {op for domain, op in planner.OPERATORS if not domain},
}
"""The operators of ai.onnx with a row that may not hold for all of their nodes."""


@cache
def every_version() -> dict[str, list[defs.OpSchema]]:
    """The definitions of each operator of ai.onnx, by version."""
    found: dict[str, list[defs.OpSchema]] = defaultdict(list)
    for each in sorted(defs.get_all_schemas_with_history(), key=lambda each: each.since_version):
        if not each.domain:
            found[each.name].append(each)
    return found


def history(op: str) -> list[defs.OpSchema]:
    """The versions of an operator that a model of opset 7 or later can use."""
    every = every_version()[op]
    first = max((k for k, each in enumerate(every) if each.since_version <= OLDEST), default=0)
    return every[first:]


def choices(schema: defs.OpSchema) -> Iterator[str]:
    """What a node of this version may have or not have."""
    yield from schema.attributes
    yield from (formal.name for formal in (*schema.inputs, *schema.outputs) if formal.option == OPTIONAL)


def decided(table: str, op: str) -> tuple[frozenset[int], set[str]]:
    """The versions that a row is about, and the names that it has decided."""
    if table == "verifier":
        row = verifier.row_of("", op)
        of_onnx = {each.since_version for each in every_version()[op]}
        versions = frozenset(row.versions) & of_onnx if row.of_older_runtime else frozenset(row.versions)
        return versions, {*row.names.split(), *row.only, *row.never.split()}
    own = planner.row_of("", op)
    return frozenset(own.versions), {*own.harmless.split(), *own.deciding}


def test_every_operator_of_a_table_is_decided() -> None:
    """Which files lack a row, `test_operator_tables` says. spec: V2.4, T3.11"""
    assert TABLES["verifier"] == TABLES["planner"]
    assert all(decided(table, op)[0] for table in TABLES for op in TABLES[table])


@pytest.mark.parametrize("table", TABLES)
def test_every_version_attribute_and_optional_operand_and_result_is_decided(table: str) -> None:
    """And nothing else: a name that no version has is a slip. spec: V2.4, T3.11"""
    open_, stale = [], []
    for op in TABLES[table]:
        versions, names = decided(table, op)
        schemas = history(op)
        open_ += [(op, each.since_version) for each in schemas if each.since_version not in versions]
        open_ += [(op, each.since_version, name) for each in schemas for name in choices(each) if name not in names]
        stale += [(op, version) for version in versions - {each.since_version for each in schemas}]
        stale += [(op, name) for name in names - {name for each in schemas for name in choices(each)}]
    assert open_ == []
    assert stale == []


def test_the_walk_over_the_definitions_sees_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above can fail."""
    without = replace(verifier.row_of("", "Cast"), versions=(13,), names="to")
    monkeypatch.setattr(verifier, "OPERATORS", with_row(verifier.OPERATORS, without))
    with pytest.raises(AssertionError, match="Cast"):
        test_every_version_attribute_and_optional_operand_and_result_is_decided("verifier")


def test_both_decide_alike() -> None:
    """What has one value or none for the one has it for the other. spec: V2.4, T3.11"""
    of_verifier = {
        (op, name): value for op in TABLES["verifier"] for row in [verifier.row_of("", op)]
        for name, value in (*row.only.items(), *((name, None) for name in row.never.split()))
    }  # fmt: skip
    of_planner = {(op, *each) for op in TABLES["planner"] for each in planner.row_of("", op).deciding.items()}
    assert {(*key, value) for key, value in of_verifier.items()} == of_planner
    assert len(of_planner) == 8


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A node; a point stands for an operand or result that is left out."""
    names = [["" if name == "." else name for name in side.split()] for side in (inputs, outputs)]
    return helper.make_node(op, names[0], names[1], **attributes)


def of_type(kind: Any, made: onnx.NodeProto) -> onnx.NodeProto:
    made.attribute[0].type = kind
    return made


def referring(made: onnx.NodeProto) -> onnx.NodeProto:
    made.attribute[0].ref_attr_name = "of_function"
    return made


BN = "x s b m v"
NODES: dict[str, tuple[onnx.NodeProto, int, bool]] = {
    "batch statistics": (node("BatchNormalization", BN, training_mode=1), 15, True),
    "batch statistics, left out": (node("BatchNormalization", BN, "y . .", training_mode=1), 15, True),
    "running statistics": (node("BatchNormalization", BN, training_mode=0, epsilon=0.1), 15, False),
    "results of training at inference": (node("BatchNormalization", BN, "y . .", training_mode=0), 14, True),
    "batch statistics by results": (node("BatchNormalization", BN, "y a b c d"), 9, True),
    "batch statistics by results that are left out": (node("BatchNormalization", BN, "y . . . ."), 7, True),
    "test mode": (node("BatchNormalization", BN), 9, False),
    "not spatial": (node("BatchNormalization", BN, spatial=0), 8, True),
    "spatial": (node("BatchNormalization", BN, spatial=1), 7, False),
    "an attribute that this version has not": (node("BatchNormalization", BN, spatial=1), 9, True),
    "an attribute of no version": (node("Relu", "x", slope=1), 21, True),
    "an attribute of another type": (of_type(AttributeProto.FLOAT, node("Softmax", "x", axis=1)), 15, True),
    "an attribute without type": (of_type(AttributeProto.UNDEFINED, node("Softmax", "x", axis=1)), 15, True),
    "an attribute of a function": (referring(node("BatchNormalization", BN, training_mode=0)), 15, True),
    "an overload": (node("Relu", "x", overload="other"), 21, True),
    "no axes": (node("Unsqueeze", "x"), 21, True),
    "no type": (node("Cast", "x"), 21, True),
    "no first operand": (node("Sub", ". x"), 21, True),
    "no operand among many": (node("Sum", "x . x"), 21, True),
    "many operands": (node("Sum", "a b c"), 21, False),
    "one operand too many": (node("Relu", "x x"), 21, True),
    "one result too many": (node("Relu", "x", "y z"), 21, True),
    "no first result": (node("MaxPool", "x", ". i", kernel_shape=[1]), 21, True),
    "no second result": (node("TopK", "x k", "y ."), 21, True),
    "no bounds": (node("Clip", "x . ."), 21, False),
    "an upper bound": (node("Clip", "x . b"), 21, False),
    "bounds by attributes": (node("Clip", "x", min=0.0), 10, False),
    "bounds by attributes of an older version": (node("Clip", "x", min=0.0), 11, True),
    "a version before the first": (node("HardSwish", "x"), 13, True),
    "one branch": (node("If", "c", then_branch=helper.make_graph([], "g", [], [])), 21, True),
    "of another domain": (node("Relu", "x", slope=1, domain="my"), 21, False),
    "of no table": (node("LSTM", "x w r", clip=1), 21, False),
}  # fmt: skip


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_a_node_is_opaque_where_the_rows_are_not_about_it(name: str, domain: str) -> None:
    """spec: V2.4, T3.11"""
    given, opset, expected = NODES[name]
    given.domain = given.domain or domain
    assert covered.is_opaque(given, {"": opset}) is expected
    graph = helper.make_graph([given], "g", [], [])
    schemas = Operators(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))
    assert opaque.is_opaque(given, schemas.schema(given)) is expected


def test_what_no_row_has_decided_is_opaque(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attribute and an optional operand and result, each taken out of its row. spec: V2.4, T3.11"""
    made = {"axis": node("Softmax", "x", axis=1), "max": node("Clip", "x . b"), "Indices": node("MaxPool", "x", "y i")}
    made["Indices"].attribute.append(helper.make_attribute("kernel_shape", [1]))
    for name, each in made.items():
        schema, op = defs.get_schema(each.op_type, 21, ""), each.op_type
        for expected in (False, True):
            assert covered.is_opaque(each, {"": 21}) is expected
            assert opaque.is_opaque(each, schema) is expected
            row = verifier.row_of("", op)
            row = replace(row, names=" ".join(set(row.names.split()) - {name}))
            monkeypatch.setattr(verifier, "OPERATORS", with_row(verifier.OPERATORS, row))
            own = planner.row_of("", op)
            own = replace(own, harmless=" ".join(set(own.harmless.split()) - {name}))
            monkeypatch.setattr(planner, "OPERATORS", with_row(planner.OPERATORS, own))


def test_a_version_that_is_newer_than_the_tables_is_opaque(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: V2.4, T3.11"""
    known = defs.get_schema("Relu", 21, "")
    newer = defs.OpSchema("Relu", "", 99, inputs=list(known.inputs), outputs=list(known.outputs),
                          type_constraints=[("T", ["tensor(float)"], "")])  # fmt: skip
    relu = node("Relu", "x")
    for schema, expected in ((known, False), (newer, True)):
        monkeypatch.setattr(covered, "_schema", lambda op, opset, found=schema: found)
        assert covered.is_opaque(relu, {"": 99}) is expected
        assert opaque.is_opaque(relu, schema) is expected


def stored(**shapes: tuple[int, ...]) -> list[TensorProto]:
    return [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in shapes.items()]


def written(folder: Path, nodes: list[onnx.NodeProto], opset: int, given: list[TensorProto], *shape: int) -> Path:
    """A model from `x` of this shape to `z`, every node named."""
    for k, each in enumerate(nodes):
        each.name = f"n{k}"
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    result = helper.make_value_info("z", onnx.TypeProto())
    result.type.tensor_type.elem_type = TensorProto.FLOAT
    graph = helper.make_graph(nodes, "g", [value], [result], given)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(made, folder / "m.onnx")
    return folder / "m.onnx"


CASES = {
    "training": ([node("BatchNormalization", BN, "y . .", training_mode=1)], 15, {"s": (4,)}, ["data"]),
    "training of old": ([node("BatchNormalization", BN, "y m1 v1 m2 v2")], 9, {"s": (4,)}, ["data"]),
    "not spatial": ([node("BatchNormalization", BN, spatial=0)], 7, {"s": (4, 2, 2)}, ["", "data"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_takes_the_whole_batch_is_not_divided(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a plan proved whose planner divides it: the verifier has a reading of its own. spec: V2.4, T3.11, R7.9"""
    nodes, opset, shapes, split = CASES[case]
    relu = node("Relu", "y", "z")
    parameters = stored(**dict.fromkeys("sbmv", shapes["s"]))
    path = written(tmp_path, [*nodes, relu], opset, parameters, 4, 4, 2, 2)
    divided = spec({"data": 2}, ("x", split))
    for blind, expected in ((False, PROVED), (True, REFUTED)):
        if blind:
            monkeypatch.setattr(importer, "is_opaque", lambda node, schema: False)
        model = import_onnx(path)
        (local,) = build_local_models(model, divided)
        collectives = [each.op for each in local.model.nodes if each.domain.startswith("tmmu.mesh")]
        assert collectives == ([] if blind else [f"AllGather.{split.index('data')}"])
        digest = hashlib.sha256(path.read_bytes()).digest()
        for rank in range(sharding.count_ranks(divided)):
            made = plan_memory(local.model, DEFAULT, PlanOptions(is_stage=True)).plan
            file.save(
                amend_plan(made, rank=rank, world_size=2, shard_spec=divided, shards=build_shards(local, divided, rank),
                        source_digest=digest), tmp_path / "p.cbor",
            )  # fmt: skip
            verdict = verify(str(tmp_path / "p.cbor"), Options(model=str(path)))
            assert verdict.verdict == expected, verdict.witness or verdict.notes


def test_a_user_may_still_say_how_it_works(tmp_path: Path) -> None:
    """And is believed, which is listed. spec: R7.9"""
    path = written(tmp_path, [node("BatchNormalization", BN, "z . .", training_mode=1)], 15,
                   stored(**dict.fromkeys("sbmv", (4,))), 4, 4, 2)  # fmt: skip
    divided = spec({"data": 2}, ("x", ["data"]), operators=[{"op": "BatchNormalization", "across": [-1]}])
    found = shard_model(read_onnx(path, Bindings()), divided)
    assert [step.op for step in found.reference.steps] == ["BatchNormalization"]
    assert found.assumed == {"BatchNormalization combines elements along dimension -1 only (shard spec)"}


def planned(model: Model, path: Path, mode: str, folder: Path) -> Any:
    file.save(plan_memory(prepare_graph(model, mode, DEFAULT), DEFAULT, PlanOptions(mode=mode)).plan, folder / "p.cbor")
    return verify(str(folder / "p.cbor"), Options(model=str(path)))


def test_an_opaque_node_shares_nothing_and_its_gradient_reads_everything(tmp_path: Path) -> None:
    """spec: V2.4, T3.11, M2.5"""
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "b", overload="o"), node("Flatten", "b", "z", overload="o")]
    path = written(tmp_path, nodes, 17, stored(w=(4, 4)), 4, 4)
    model = import_onnx(path, Bindings(trust_shapes=True))
    assert [each.opaque for each in model.nodes] == [False, True, True]
    assert [each.in_place for each in model.nodes] == [()] * 3
    assert all(tensor.view is None for tensor in model.tensors)
    names = [tensor.name for tensor in model.tensors]
    joint = prepare_graph(model, "backward", DEFAULT)
    back = {each.name: each for each in joint.nodes if each.name.endswith(".grad")}
    names = [tensor.name for tensor in joint.tensors]
    assert [names[t] for t in back["n1.grad"].reads] == ["b.grad", "a", "b"]
    assert [(each.domain, each.op) for each in back.values()] == [
        ("tmmu.grad/ai.onnx", "FlattenGrad"), ("tmmu.grad/ai.onnx", "ReluGrad"), ("tmmu.grad", "MatMulGrad"),
    ]  # fmt: skip
    for mode in ("inference", "backward"):
        verdict = planned(model, path, mode, tmp_path)
        assert verdict.verdict == PROVED, verdict.witness or verdict.notes


def test_a_gradient_that_lacks_a_result_it_is_computed_from_reads_everything() -> None:
    """spec: M2.5"""
    assert gradients.gradient_reads(Node("n", "TopK", (0, 1), (2, 3)), 0) == (3,)
    assert gradients.gradient_reads(Node("n", "TopK", (0, 1), (2,)), 0) == (0, 1, 2)
    assert gradients.gradient_reads(Node("n", "Relu", (0,), (1,)), 0) == (1,)
    assert gradients.gradient_reads(Node("n", "MaxPool", (0,), (1, 2)), 0) == (0, 1, 2), "a result and all after it"
    assert gradients.gradient_reads(Node("n", "MaxPool", (0,), (1,)), 0) == (0, 1), "of which there may be none"
    assert gradients.gradient_reads(Node("n", "Slice", (0, 1, 2, 3), (4,)), 0) == (1, 2, 3)
    assert gradients.gradient_reads(Node("n", "Relu", (0,), (1,), opaque=True), 0) == (0, 1)
    assert verifier.derivative("TopK", 0, 2) == Uses((), (1,))
    assert verifier.derivative("TopK", 0, 1) == EVERYTHING


TRAINS = [numpy_helper.from_array(np.array(0.5, np.float32), "r"), numpy_helper.from_array(np.array(True), "t")]


@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_a_dropout_without_a_mask_has_no_gradient(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing holds which elements it dropped. Both refuse, each by itself. spec: M2.15"""
    for results in ("y", "y .", "y k"):
        nodes = [node("MatMul", "x w", "a"), node("Dropout", "a r t", results), node("MatMul", "y w", "z")]
        path = written(tmp_path, nodes, 17, [*stored(w=(4, 4)), *TRAINS], 4, 4)
        model = import_onnx(path)
        if results == "y k":
            assert planned(model, path, mode, tmp_path).verdict == PROVED
            continue
        with pytest.raises(TmmuError, match="Dropout without mask") as by_the_planner:
            prepare_graph(model, mode, DEFAULT)
        assert by_the_planner.value.code_id == "MODE_VIOLATION"
        with pytest.raises(TmmuError, match="Dropout without mask") as by_the_verifier:
            reference_in_mode(read_onnx(path, Bindings()), mode)
        assert by_the_verifier.value.code_id == "MODE_VIOLATION"


@pytest.mark.parametrize(
    ("opset", "mode", "listed"),
    [(7, "inference", []), (10, "backward", ["Dropout in test mode"]), (11, "forward", ["Dropout in test mode"]),
     (12, "backward", []), (22, "inference", [])],
)  # fmt: skip
def test_that_an_old_dropout_does_not_train_is_listed(opset: int, mode: str, listed: list[str], tmp_path: Path) -> None:
    """Before version 12 the mode of the run decides, which in training is not known. spec: V2.5"""
    nodes = [node("MatMul", "x w", "a"), node("Dropout", "a", "b"), node("Sigmoid", "b", "z")]
    path = written(tmp_path, nodes, opset, stored(w=(4, 4)), 4, 4)
    verdict = planned(import_onnx(path), path, mode, tmp_path)
    assert verdict.verdict == PROVED
    assert verdict.assumptions["believed_operators"] == listed


DROPOUT = """tmmu-ir-text 1
tensor x f32 64 input
tensor ratio f32 1 input
tensor trains bool 1 input
tensor a f32 64
tensor y f32 64 view a 0
tensor z f32 64 output
node n0 Relu x -> a
node n1 Dropout a ratio trains -> y
node n2 Exp y -> z
"""


@pytest.mark.parametrize("mode", ["inference", "backward"])
@pytest.mark.parametrize("sharing", [True, False])
def test_a_dropout_that_a_model_declares_a_view_is_listed(mode: str, sharing: bool, tmp_path: Path) -> None:
    """In every mode, and also where the plan gives it bytes of its own. spec: V2.5"""
    path = tmp_path / "m.txt"
    path.write_text(DROPOUT if sharing else DROPOUT.replace("node n2 Exp y -> z", "node n2 Exp a -> z"))
    model = text.read(path.read_bytes(), "m.txt")
    verdict = planned(model, path, mode, tmp_path)
    assert verdict.verdict == PROVED, verdict.witness or verdict.notes
    assert verdict.assumptions["believed_operators"] == ["Dropout with training_mode false"]


IR = """tmmu-ir-text 1
tensor x f32 4x4 input
tensor s f32 4 input
tensor y f32 4x4 output
node n BatchNormalization x s s s s -> y
"""


def test_a_model_without_attributes_is_listed_where_they_decide() -> None:
    """Unless it says that nothing is to be assumed of the node. spec: R7.32"""
    divided = spec({"data": 2}, ("x", ["data"]))
    found = shard_model(read_ir(text.read(IR.encode(), "m")), divided)
    assert [step.op for step in found.reference.steps] == ["BatchNormalization"]
    assert found.assumed == {"BatchNormalization with spatial 1 and training_mode 0"}
    silent = text.read(IR.replace("-> y\n", "-> y opaque\n").encode(), "m")
    (local,) = build_local_models(silent, divided)
    found = shard_model(read_ir(silent), divided)
    assert [step.op for step in found.reference.steps] == ["AllGather.0", "BatchNormalization"]
    assert [each.op for each in local.model.nodes] == ["AllGather.0", "BatchNormalization"]
    assert found.assumed == set()


@pytest.mark.parametrize(
    ("split", "listed"), [(["data"], {"Size of what is divided is that of the whole"}), ([], set())]
)
def test_a_size_of_what_is_divided_is_listed(split: list[str], listed: set[str]) -> None:
    """A rank's runtime may give the size of its part: the mean is then another one. spec: R7.33"""
    lines = (
        "tensor x f32 8 input\ntensor n i64 scalar\ntensor y f32 8 output\nnode s Size x -> n\nnode o my::Op n x -> y\n"
    )
    found = shard_model(read_ir(text.read(f"tmmu-ir-text 1\n{lines}".encode(), "m")), spec({"data": 2}, ("x", split)))
    assert found.assumed == listed


def test_what_an_opaque_node_declares_is_listed(tmp_path: Path) -> None:
    """It is the model's word alone. spec: V2.2"""
    path = tmp_path / "m.txt"
    declared = "tmmu-ir-text 1\ntensor x f32 8 input\ntensor a f32 8\ntensor y f32 8 output\nnode n Neg x -> a\n"
    for more, listed in (("", []), (" opaque", ["Relu"])):
        path.write_text(f"{declared}node r Relu a -> y inplace y a{more}\n")
        verdict = planned(text.read(path.read_bytes(), "m.txt"), path, "inference", tmp_path)
        assert (verdict.verdict, verdict.assumptions["believed_operators"]) == (PROVED, listed)


DIFFERENTIABLE = defs.OpSchema.DifferentiationCategory.Differentiable
BUFFERS = {("BatchNormalization", 3), ("BatchNormalization", 4)}
"""Running statistics: no gradient step updates them, whatever the definition says."""


def test_what_onnx_calls_differentiable_has_a_gradient() -> None:
    """spec: M2.6"""
    without = {
        (op, position)
        for op in TABLES["verifier"]
        for schema in history(op)
        for position, formal in enumerate(schema.inputs)
        if formal.differentiation_category == DIFFERENTIABLE and verifier.derivative(op, position) is None
    }
    assert without == BUFFERS


def test_positions_hold_with_optional_operands_left_out() -> None:
    """Operands that are absent have no position: none may be absent before one that a formula names. spec: M2.5"""
    for op in TABLES["verifier"]:
        found = verifier.row_of("", op).gradient
        formulas = {} if found is None else found.formulas
        named = {p for uses in formulas.values() if isinstance(uses.operands, tuple) for p in uses.operands}
        for schema in history(op):
            options = [formal.option for formal in schema.inputs[: max(named | formulas.keys(), default=0)]]
            assert OPTIONAL not in options, (op, schema.since_version)


@pytest.mark.parametrize("op", ["DequantizeLinear", "DynamicQuantizeLinear", "Range"])
def test_steps_with_a_slope_are_not_constant(op: str) -> None:
    """A scale, and the ends of a range, are factors and summands of the result. spec: M2.6"""
    positions = {"DequantizeLinear": 1, "DynamicQuantizeLinear": 0, "Range": 2}
    assert verifier.derivative(op, positions[op]) is not None
