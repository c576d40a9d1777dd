"""The example models have the shapes, parameters and tensors that their descriptions promise, and can be planned."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, checker, helper

from proofs.verify.judge import verify
from proofs.verify.options import Options
from tmmu import examples
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, NodePart, Role, Shares
from tmmu.examples import gpt2, llama_block, resnet50, transformer_block, unet
from tmmu.examples.graph import OPSET, OnnxGraph
from tmmu.importers.onnx import import_onnx
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.columns import PARTS, ROLES, SHARES
from tmmu.plans.sections import Plan

BINDINGS: dict[str, dict[str, Any]] = {
    "gpt2": {"dims": {"batch": 1, "seq": 512}},
    "resnet50": {"dims": {"batch": 2}},
    "unet": {"dims": {"batch": 2}},
    "llama-block": {"dims": {"batch": 1, "seq": 512}},
    "detector": {"shapes": {"images": (1, 3, 640, 640)}, "values": {"rate": "16000"}},
}
"""What has to be bound so that every shape is known; the other models need nothing."""

MICO = {
    "mico-mlp": (2640, 1280, {"flatten"}),
    "mico-lenet": (60_720, 37_632, {"layers_6"}),
    "mico-vgg": (1_241_168, 524_288, {"layers_15", "layers_18", "layers_21"}),
    "mico-resnet8": (3_225_680, 786_432, {"flatten"}),
}
"""Bytes of all tensors but the views, bytes with as few slots as can be, and the views."""

LISTS = {
    "mico-mlp": """x 1024 0 1, flatten 1024 1 2, layers_0 256 2 3, layers_1 256 3 4, layers_2 256 4 5, layers_3 256 5 6,
        layers_4 256 6 7, layers_5 256 7 8, layers_6 40 8 9, output 40 9 9""",
    "mico-lenet": """x 3136 0 1, layers_0 18816 1 2, layers_1 18816 2 3, layers_2 4704 3 4, layers_3 6400 4 5,
        layers_4 6400 5 6, layers_5 1600 6 7, layers_6 1600 7 8, layers_7 256 8 9, layers_8 256 9 10,
        layers_9 128 10 11, layers_10 128 11 12, layers_11 40 12 13, output 40 13 13""",
    "mico-vgg": """x 12288 0 1, layers_0 262144 1 2, layers_2 262144 2 3, layers_3 65536 3 4, layers_4 131072 4 5,
        layers_6 131072 5 6, layers_7 32768 6 7, layers_8 65536 7 8, layers_10 65536 8 9, layers_11 65536 9 10,
        layers_13 65536 10 11, layers_14 16384 11 12, layers_15 16384 12 13, layers_16 16384 13 14,
        layers_17 16384 14 15, layers_18 16384 15 16, layers_19 16384 16 17, layers_20 16384 17 18,
        layers_21 16384 18 19, layers_22 40 19 20, output 40 20 20""",
    "mico-resnet8": """x 12288 0 1, conv1_2 262144 2 6, conv2_relu 262144 7 11, conv3_relu 131072 13 17,
        conv4_relu 65536 19 23""",
}
"""MiCo's lists of tensors: name, bytes, first and last position; position 0 is the input, step k position k + 1."""


def planned(name: str, folder: Path, **more: Any) -> Plan:
    path = folder / f"{name}.onnx"
    examples.write(name, path)
    model = import_onnx(path, Bindings(**BINDINGS.get(name, {}), **more))
    return plan_memory(model, options=PlanOptions(layout="slots")).plan


def rows(plan: Plan) -> dict[str, tuple[int, int, int]]:
    """Bytes, birth and death of each tensor of a plan."""
    t = plan.allocation.tensors
    return dict(zip(t.name, zip(t.bytes.tolist(), t.birth.tolist(), t.death.tolist(), strict=True), strict=True))


@pytest.mark.parametrize("name", examples.MODELS)
def test_a_model_is_small_valid_and_the_same_every_time(name: str) -> None:
    model = examples.model(name)
    data = model.SerializeToString(deterministic=True)
    assert len(data) < 200_000
    assert examples.model(name).SerializeToString(deterministic=True) == data
    assert model.opset_import[0].version == OPSET >= 17
    # Absent weights are declared; as graph inputs they satisfy the checker, which asks for their file otherwise.
    absent = [t for t in model.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    inline = [t for t in model.graph.initializer if t.data_location != TensorProto.EXTERNAL]
    assert all(math.prod(t.dims) <= 64 for t in inline)
    del model.graph.initializer[:]
    model.graph.initializer.extend(inline)
    model.graph.input.extend(helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in absent)
    checker.check_model(model)


@pytest.mark.parametrize("name", examples.MODELS)
def test_the_plan_of_a_model_is_proved_against_it(name: str, tmp_path: Path) -> None:
    """spec: V3.1"""
    plan = planned(name, tmp_path)
    file.save(plan, tmp_path / "plan.cbor")
    verdict = verify(
        str(tmp_path / "plan.cbor"), Options(model=str(tmp_path / f"{name}.onnx"), require=("model", "slot-count"))
    )
    assert verdict.verdict == "PROVED", (verdict.witness, verdict.notes)


@pytest.mark.parametrize(
    ("module", "parameters"),
    # ResNet-50 has 25,557,032 with its 26,560 normalized channels' two parameters each, of which folding leaves one.
    [
        (gpt2, 124_439_808), (resnet50, 25_557_032 - 26_560), (unet, 31_030_658), (llama_block, 218_112_000),
        (transformer_block, 12 * 192**2 + 13 * 192),
    ],
)  # fmt: skip
def test_an_architecture_has_its_published_number_of_parameters(module: object, parameters: int) -> None:
    graph: OnnxGraph = module.network()  # type: ignore[attr-defined]
    assert graph.parameters == parameters
    weights = [t for t in graph.model().graph.initializer if t.data_location == TensorProto.EXTERNAL]
    assert sum(math.prod(t.dims) for t in weights if t.data_type != TensorProto.BOOL) == parameters


def test_gpt2_is_written_as_exporters_write_it() -> None:
    nodes = examples.model("gpt2").graph.node
    ops = Counter(node.op_type for node in nodes)
    assert len(nodes) > 300
    assert ops["LayerNormalization"] == 25
    assert ops["Softmax"] == ops["Split"] == ops["Tanh"] == 12
    assert ops["Shape"] > 100
    embedding = [node.op_type for node in nodes if "transformer.wte.weight" in node.input]
    assert embedding == ["Gather", "Gemm"]


def test_the_weights_of_a_model_lie_one_behind_the_other_in_a_file_that_is_not_there(tmp_path: Path) -> None:
    examples.write("mico-lenet", tmp_path / "m.onnx")
    end = 0
    for tensor in onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.initializer:
        entry = {pair.key: pair.value for pair in tensor.external_data}
        assert (entry["location"], int(entry["offset"])) == ("mico-lenet.weights", end)
        end += int(entry["length"])
    assert end == 4 * sum((6 * 25 + 6, 16 * 6 * 25 + 16, 400 * 64 + 64, 64 * 32 + 32, 32 * 10 + 10))
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("name", MICO)
def test_a_network_of_mico_has_the_tensors_of_its_list(name: str, tmp_path: Path) -> None:
    """spec: T1.2"""
    plan = planned(name, tmp_path)
    found = rows(plan)
    for line in LISTS[name].split(","):
        tensor, *numbers = line.split()
        size, first, last = map(int, numbers)
        # At position 0 nothing is executed, and the caller writes its input before step 0.
        assert found[tensor] == (size, max(0, first - 1), last - 1)
    before, fewest, views = MICO[name]
    activations = {
        tensor: size
        for (tensor, (size, _, _)), role in zip(found.items(), plan.allocation.tensors.role.tolist(), strict=True)
        if ROLES[role] in (Role.INPUT, Role.ACTIVATION)
    }
    words = zip(found, plan.allocation.tensors.shares.tolist(), strict=True)
    assert {tensor for tensor, word in words if SHARES[word] is Shares.VIEW} == views
    assert sum(size for tensor, size in activations.items() if tensor not in views) == before
    usage = {arena.name: used for arena, used in zip(plan.allocation.arenas, plan.usage, strict=True)}
    assert usage["activations"].peak_live_bytes <= usage["activations"].footprint <= fewest


def test_a_chain_takes_two_slots_and_one_if_its_input_is_donated(tmp_path: Path) -> None:
    """spec: T4.1, T4.2"""
    plans = planned("chain", tmp_path), planned("chain", tmp_path, donated=("input",))
    assert [plan.usage[2].slots for plan in plans] == [2, 1]
    assert [plan.usage[2].footprint for plan in plans] == [2 * 256 * 256 * 4, 256 * 256 * 4]


def test_the_detector_needs_its_shape_and_its_rate(tmp_path: Path) -> None:
    """spec: T10.5, T10.6"""
    examples.write("detector", tmp_path / "d.onnx")
    shape, value = BINDINGS["detector"]["shapes"], BINDINGS["detector"]["values"]
    for bindings in ({}, {"values": value}, {"shapes": shape}):
        with pytest.raises(TmmuError) as refused:
            import_onnx(tmp_path / "d.onnx", Bindings(**bindings))
        assert refused.value.fix
    plan = planned("detector", tmp_path)
    assert not any("half" in node for node in plan.allocation.steps.node)
    assert rows(plan)["boxes"][0] == 300 * 4 * 4


def test_the_loop_keeps_what_it_captures_for_its_next_iteration(tmp_path: Path) -> None:
    """spec: T8.5"""
    plan = planned("loop", tmp_path)
    leaves = [step for step, part in enumerate(plan.allocation.steps.part.tolist()) if PARTS[part] is NodePart.LEAVE]
    assert len(leaves) == 2
    assert rows(plan)["bias"][2] == leaves[1]
    assert any(name.endswith(".copy1") for name in plan.allocation.tensors.name)


def test_names_are_models_traced_graphs_and_specs_and_then_wrong_plans_in_order() -> None:
    names = examples.names()
    wrong = [name for name in names if name.startswith("broken/")]
    assert names == [*examples.MODELS, *examples.LLAMAS, *examples.traced.DIGESTS, *examples.TEXTS, *sorted(wrong)]
    assert len(set(names)) == len(names)


def test_an_unknown_name_is_refused_with_the_closest_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no example 'gpt-2'; did you mean gpt2"):
        examples.write("gpt-2", tmp_path / "m.onnx")
    with pytest.raises(ValueError, match=r"did you mean .*broken/in-place-read-later"):
        examples.write("broken/in-place-read-late", tmp_path / "m.cbor")
    with pytest.raises(ValueError, match=r"'zzzzzzzz'; `tmmu example --list`"):
        examples.write("zzzzzzzz", tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="no example 'in-place-read-later'"):
        examples.write("in-place-read-later", tmp_path / "m.cbor")
    assert not list(tmp_path.iterdir())


def test_a_wrong_plan_never_overwrites_its_own_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="both the plan and its model"):
        examples.write("broken/step-left-out", tmp_path / "b.onnx")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    """spec: C2.6"""
    for name in ("chain", "broken/peak-understated", "broken/step-left-out"):
        with pytest.raises(TmmuError, match="choose a folder"):
            examples.write(name, tmp_path / "absent" / "file")


def test_equal_constants_are_stored_once() -> None:
    graph = OnnxGraph("g")
    assert graph.constant([1, 2]) == graph.constant((1, 2))
    assert (
        len({graph.constant(1), graph.constant([1]), graph.constant(1, "float32"), graph.constant([1], shape=(1, 1))})
        == 4
    )
    assert not graph.model().graph.node


def test_constants_may_be_nodes() -> None:
    graph = OnnxGraph("g", constants_as_nodes=True)
    graph.node("Neg", graph.constant(1))
    model = graph.model().graph
    assert [node.op_type for node in model.node] == ["Constant", "Neg"]
    assert not model.initializer


def test_nodes_are_named_by_scope_and_counted() -> None:
    graph = OnnxGraph("g")
    with graph.scope("outer"), graph.scope("inner"):
        first, second = (graph.node("Relu", "x") for _ in range(2))
    body = graph.inner("branch")
    assert (first, second) == ("/outer/inner/Relu_output_0", "/outer/inner/Relu_1_output_0")
    assert graph.node("Relu", "x") == "/Relu_output_0"
    assert body.node("Relu", "x") == "/branch/Relu_output_0"
