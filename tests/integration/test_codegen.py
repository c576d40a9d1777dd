"""C of plans: it computes what the model computes, in just the plan's memory, and is written of proved plans alone.

spec: MC1.1 to MC1.8, MC2.1 to MC2.6, MC3.1 to MC3.8, MC4.4, MC4.5, MC4.11, MC5.1 to MC5.3
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.support.c_models import MODELS, saved
from tests.support.c_programs import (
    SANITIZED,
    WARNINGS,
    CProgram,
    accepted,
    assert_close,
    by_runtime,
    compilers,
    drawn_inputs,
    planned,
)
from tests.support.tools import require_program
from tmmu.cli.entry import run as tmmu
from tmmu.core.errors import TmmuError
from tmmu.examples import mico
from tmmu.examples.graph import OnnxGraph
from tmmu.mico import CodeOptions, PlanNotProved, generate
from tmmu.plans import file, metrics
from tmmu.plans.sections import Plan, amend_plan

LAYOUTS = ("packed", "slots", "pools")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the models and object files of all tests."""
    made = tmp_path_factory.mktemp("c")
    CProgram.objects = made
    yield made
    CProgram.objects = None


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MODELS)
def test_the_c_computes_what_the_model_computes(name: str, layout: str, folder: Path, tmp_path: Path) -> None:
    """spec: MC1.1, MC2.4, MC2.5, MC3.5, MC4.4"""
    path = saved(name, folder)
    plan, model = planned(path, layout), onnx.load(path)
    inputs = drawn_inputs(model)
    expected = by_runtime(model, inputs)
    slow = name == "resnet8"  # its convolutions take seconds under sanitizers, under which the nightly tests run them
    flags = (*WARNINGS, "-O2") if slow else SANITIZED
    kinds = [(False, compilers(flags)[0]), (True, compilers(flags)[-1])]
    if slow:
        kinds = kinds[LAYOUTS.index(layout) % 2 :][:1]
    for static, compiler in kinds:
        made = CProgram(plan, path, tmp_path / f"{static}", memory="static" if static else "malloc")
        found = made.outputs(made.build(compiler, flags), inputs, expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, 1e-5)


COUNTING = """\
#include <stdio.h>
#include <stdlib.h>
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    fprintf(stdout, "malloc %zu\\n", size);
    return __real_malloc(size);
}
"""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["mlp", "lenet", "block"])
def test_the_heap_is_the_footprint_and_what_aligns_it(name: str, layout: str, folder: Path, tmp_path: Path) -> None:
    """Each allocation of the generated files is counted at run time. spec: MC3.1, MC3.2"""
    path = saved(name, folder)
    plan = planned(path, layout)
    made = CProgram(plan, path, tmp_path / "c")
    wrap = tmp_path / "wrap.c"
    wrap.write_text(COUNTING)
    program = made.build(compilers(WARNINGS)[0], (*WARNINGS, "-O2"), [wrap], "-Wl,--wrap=malloc")
    done = made.execute(program, drawn_inputs(onnx.load(path)))
    found = [int(line.split()[1]) for line in done.stdout.splitlines()]
    arenas = {arena.name: n for n, arena in enumerate(plan.allocation.arenas)}
    needed = metrics.compute_footprints(plan.allocation)
    alignment = plan.allocation.arenas[arenas["activations"]].alignment
    if layout == "pools":
        s = plan.allocation.storages
        sizes: dict[int, int] = {}
        for arena, offset, size in zip(s.arena.tolist(), s.offset.tolist(), s.bytes.tolist(), strict=True):
            if arena == arenas["activations"]:
                sizes[offset] = max(sizes.get(offset, 0), size)
        assert len(sizes) > 1
        assert sum(sizes.values()) == needed[arenas["activations"]] - _gaps(sizes)
        assert sorted(found) == sorted(size + alignment - 1 for size in sizes.values())
    else:
        assert found == [needed[arenas["activations"]] + alignment - 1]


def _gaps(sizes: dict[int, int]) -> int:
    """The bytes between pools, each of which begins at an aligned address."""
    starts = sorted(sizes)
    return sum(b - (a + sizes[a]) for a, b in itertools.pairwise(starts))


@pytest.mark.parametrize(
    ("name", "total"), [("mlp", [1024, 256]), ("lenet", [18816, 18816, 4704]), ("resnet8", [262144] * 3)]
)
def test_static_arrays_have_the_sizes_of_micos_pools(name: str, total: list[int], folder: Path, tmp_path: Path) -> None:
    """The object file has what the document's table states, and nothing allocates. spec: MC3.2, MC3.7"""
    path = saved(name, folder)
    made = CProgram(planned(path, "pools"), path, tmp_path / "c", memory="static")
    for compiler in compilers(()):
        subprocess.run([compiler, "-O2", "-c", "model.c", "main.c"], cwd=made.folder, check=True)
        listed = subprocess.run(
            ["nm", "-S", "model.o", "main.o"], cwd=made.folder, check=True, capture_output=True, text=True
        ).stdout
        sizes = [int(line.split()[1], 16) for line in listed.splitlines() if "memory_pool_" in line]
        assert sorted(sizes, reverse=True) == total
        assert not re.search(r"\b(malloc|calloc|free)\b", listed)


def test_a_static_array_that_nobody_has_aligned_is_refused(folder: Path, tmp_path: Path) -> None:
    """The compiler is told to align nothing. spec: MC3.8"""
    path = saved("mlp", folder)
    plan = planned(path)
    arenas = tuple(replace(arena, alignment=1 << 40) for arena in plan.allocation.arenas)
    made = CProgram(amend_plan(plan, arenas=arenas), path, tmp_path / "c", memory="static")
    flags = ["-O1", "-Daligned(n)=aligned(1)"]
    for compiler in compilers(()):
        done = made.execute(made.build(compiler, flags), drawn_inputs(made.model))
        assert (done.returncode, "model_init" in done.stderr) == (1, True)


@pytest.mark.parametrize("layout", ["packed", "pools"])
def test_a_storage_that_is_put_over_a_live_one_shows(layout: str, folder: Path, tmp_path: Path) -> None:
    """A plan in which a result takes the bytes of what its step reads gives other outputs.

    A function that accepts everything lets it through. The last step is left out: a copy over itself is a copy.
    spec: MC3.4
    """
    path = saved("lenet", folder)
    plan, model = planned(path, layout), onnx.load(path)
    inputs = drawn_inputs(model)
    right = by_runtime(model, inputs)[0].ravel()
    t, s = plan.allocation.tensors, plan.allocation.storages
    offset = s.offset.tolist()
    tried = 0
    for name, reads, writes in list(
        zip(
            plan.allocation.steps.node, plan.allocation.steps.listed("reads"), plan.allocation.steps.listed("writes"),
            strict=True,
        )
    )[:-1]:  # fmt: skip
        one, other = int(t.storage[reads[0]]), int(t.storage[writes[0]])
        if (
            not name.startswith(("/Conv", "/Gemm")) or name == "/Gemm_2"
        ):  # one block of 10: all is read before it is written
            continue
        moved = list(offset)
        moved[other] = offset[one]
        made = CProgram(_with_offsets(plan, moved), path, tmp_path / str(tried))
        done = made.execute(made.build(compilers(WARNINGS)[0], (*WARNINGS, "-O2")), inputs)
        found = np.frombuffer((made.folder / "outputs").read_bytes(), np.float32)
        assert done.returncode != 0 or abs(found - right).max() > 1e-3, name
        tried += 1
    assert tried == 4


def test_sums_are_rounded_as_the_processor_does_it_or_twice(folder: Path, tmp_path: Path) -> None:
    """A processor whose library states that it multiplies and adds in one instruction is imitated. spec: MC4.11"""
    path = saved("mlp", folder)
    made = CProgram(planned(path), path, tmp_path / "c")
    inputs = drawn_inputs(onnx.load(path))
    found = []
    for flags in ([], ["-DFP_FAST_FMAF=1"], ["-DFP_FAST_FMAF=1", "-DTMMU_SEPARATE_ROUNDING"]):
        built = made.build(compilers(WARNINGS)[0], ("-std=c99", "-O2", "-ffp-contract=off", *flags))
        assert made.execute(built, inputs).returncode == 0
        found.append((made.folder / "outputs").read_bytes())
    assert found[0] == found[2] != found[1]


def _with_offsets(plan: Plan, offsets: list[int]) -> Plan:
    storages = replace(plan.allocation.storages, offset=np.array(offsets, np.uint64))
    return replace(plan, allocation=replace(plan.allocation, storages=storages))


def test_weights_as_literals_and_as_a_file_are_the_same(folder: Path, tmp_path: Path) -> None:
    """spec: MC5.1, MC5.2"""
    path = saved("lenet", folder)
    plan, inputs = planned(path), drawn_inputs(onnx.load(path))
    outputs = []
    for weights, compiler in (("embed", compilers()[0]), ("file", compilers()[0]), ("file", compilers()[-1])):
        made = CProgram(plan, path, tmp_path / f"{weights}-{compiler}-{len(outputs)}", weights=weights)
        assert (made.folder / "weights.bin").exists() == (weights == "file")
        assert (".incbin" in (made.folder / "weights.c").read_text()) == (weights == "file")
        made.execute(made.build(compiler), inputs)
        outputs.append((made.folder / "outputs").read_bytes())
    assert len(set(outputs)) == 1


def test_more_than_a_mebibyte_of_weights_is_a_file(folder: Path, tmp_path: Path) -> None:
    """spec: MC5.2"""
    path = saved("resnet8", folder)
    made = CProgram(planned(path), path, tmp_path / "c")
    assert (made.folder / "weights.bin").stat().st_size > 1 << 20


def test_the_same_plan_gives_the_same_files(folder: Path, tmp_path: Path) -> None:
    """spec: MC1.8"""
    path = saved("block", folder)
    one, other = (CProgram(planned(path), path, tmp_path / name).folder for name in "ab")
    names = sorted(each.name for each in one.iterdir())
    assert names == sorted(each.name for each in other.iterdir())
    assert all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


@pytest.mark.parametrize("tool", ["make", "cmake"])
@pytest.mark.parametrize("weights", ["embed", "file"])
def test_both_build_files_make_the_program(tool: str, weights: str, folder: Path, tmp_path: Path) -> None:
    """Make is run in the folder and CMake beside it, and the program elsewhere. spec: MC2.6"""
    require_program(tool)
    compilers(SANITIZED if tool == "make" else WARNINGS)
    path = saved("mlp", folder)
    made = CProgram(planned(path), path, tmp_path / "c", weights=weights)
    if tool == "make":
        flags = f"CFLAGS={' '.join(SANITIZED)}"
        done = subprocess.run(["make", "-C", "c", flags], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert "-fsanitize" in done.stdout
        program = made.folder / "model"
    else:
        build = tmp_path / "build"
        subprocess.run(["cmake", "-S", "c", "-B", build], cwd=tmp_path, check=True, capture_output=True)
        done = subprocess.run(["cmake", "--build", build], check=False, capture_output=True, text=True)
        program = build / "model"
    assert (done.returncode, done.stderr) == (0, "")
    model = onnx.load(path)
    inputs = drawn_inputs(model)
    expected = by_runtime(model, inputs)
    assert_close(made.outputs(program, inputs, expected)[0], expected[0], 1e-5)


def test_the_program_refuses_inputs_of_another_length(folder: Path, tmp_path: Path) -> None:
    """spec: MC2.4"""
    path = saved("mlp", folder)
    made = CProgram(planned(path), path, tmp_path / "c")
    program = made.build(compilers()[0])
    for count in (255, 257):
        done = made.execute(program, {"x": np.zeros(count, np.float32)})
        assert (done.returncode, done.stderr) == (1, "inputs: is not as long as the inputs are together\n")
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 2


def test_the_program_takes_a_file_for_each_input(tmp_path: Path) -> None:
    """spec: MC2.7"""
    graph = OnnxGraph("two")
    one, two = graph.input('a="1', (2,)), graph.input('a="1=b', (3,))
    graph.node("Concat", one, two, axis=0, result="y")
    graph.output("y", (5,))
    path = tmp_path / "two.onnx"
    onnx.save(graph.model(), path)
    made = CProgram(planned(path), path, tmp_path / "c")
    program = made.build(compilers()[0])
    np.arange(2, dtype=np.float32).tofile(tmp_path / "one")
    np.arange(2, 5, dtype=np.float32).tofile(tmp_path / "two")
    first, second = ("--input", 'a="1=one'), ("--input", 'a="1=b=two')

    def run(*arguments: str) -> int:
        return subprocess.run([program, *arguments], cwd=tmp_path, check=False, capture_output=True).returncode

    assert run(*second, *first, "y") == 0
    assert np.fromfile(tmp_path / "y", np.float32).tolist() == [0, 1, 2, 3, 4]
    assert run(*first, *first, "z") == run(*first, "--input", "c=two", "z") == 1
    assert run(*first, "--input", 'a="1=b=one', "z") == run(*first, "--input", 'a="1=b=absent', "z") == 1
    assert run(*first, "z") == run(*first, "--output", 'a="1=b=two', "z") == 2
    assert not (tmp_path / "z").exists()


def test_names_of_a_model_are_no_c(tmp_path: Path) -> None:
    """A name that ends a comment, one with a line break, the words of C, and two that become one. spec: MC2.3"""
    names = ['*/ #error "no"', "a\n#error", "int", "x.y", "x/y", "größe ??/", "memory_pool_0", "0", "\\", "stdout"]
    names += ["weight_weight_error", "EOF", "Tensor", "X", "weights", "model_init", "relu_f32"]
    nodes = [
        helper.make_node("Relu", [before], [after], name=f"*/ {after}") for before, after in itertools.pairwise(names)
    ]
    odd = ("*/ weight \\\n#error", "a", "a.data", "weight_a", "NAN")
    stored = [numpy_helper.from_array(np.float32([1, 0, np.inf]), name) for name in odd]
    nodes.append(helper.make_node("Max", [names[-1], *odd], ["end"], name="max"))
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in (names[0], "end")]
    graph = helper.make_graph(nodes, "*/", value[:1], value[1:], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "m.onnx")
    made = CProgram(planned(tmp_path / "m.onnx"), tmp_path / "m.onnx", tmp_path / "c", weights="embed")
    found = made.outputs(made.build(compilers()[-1]), {"x": np.float32([1, -1, 2])}, [np.zeros(3, np.float32)])
    assert found[0].tolist() == [1.0, 0.0, np.inf]


@pytest.mark.parametrize("name", ["a b", "../x", "", "0", "kernels", "String"])
def test_what_is_no_name_of_a_file_is_refused(name: str, folder: Path, tmp_path: Path) -> None:
    path = saved("mlp", folder)
    with pytest.raises(ValueError, match="cannot be a name"):
        generate(planned(path), str(path), str(tmp_path / "c"), prove=accepted, options=CodeOptions(name=name))


def test_a_model_that_changes_while_it_is_proved_is_refused(folder: Path, tmp_path: Path) -> None:
    """A plan without provenance states no digest, and what was proved is what is read. spec: MC1.2, MC1.4"""
    path = tmp_path / "m.onnx"
    shutil.copy(saved("mlp", folder), path)
    plan = replace(planned(path), provenance=None)

    def prove(_plan: Plan, model: str) -> Any:
        changed = onnx.load(model)
        changed.graph.initializer[1].raw_data = bytes(256)
        onnx.save(changed, model)
        return accepted(_plan, model)

    with pytest.raises(TmmuError, match="REPLAY_DIVERGENCE"):
        generate(plan, str(path), str(tmp_path / "c"), prove=prove)
    assert not (tmp_path / "c").exists()
    generate(plan, str(path), str(tmp_path / "made" / "c"), prove=accepted)
    assert (tmp_path / "made" / "c" / "model.h").exists()


def test_without_a_verifier_and_against_its_answer_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    """spec: MC1.2, MC1.6"""
    path = saved("mlp", folder)
    target = tmp_path / "c"
    with pytest.raises(TmmuError, match="CONTRACT_VIOLATION"):
        generate(planned(path), str(path), str(target))
    refuted = type("Refuted", (), {"verdict": "REFUTED", "line": "REFUTED"})()
    with pytest.raises(PlanNotProved, match="REFUTED"):
        generate(planned(path), str(path), str(target), prove=lambda *_: refuted)
    assert list(tmp_path.iterdir()) == []


def test_a_plan_of_another_model_is_refused_whatever_is_answered(folder: Path, tmp_path: Path) -> None:
    """spec: MC1.4"""
    plan, other = planned(saved("mlp", folder)), saved("lenet", folder)
    with pytest.raises(TmmuError, match=r"another model.*REPLAY_DIVERGENCE"):
        generate(plan, str(other), str(tmp_path / "c"), prove=accepted)
    assert list(tmp_path.iterdir()) == []


def refusal(path: Path, tmp_path: Path, plan: Plan | None = None, **options: Any) -> str:
    """The text of the refusal of a model; nothing is written."""
    with pytest.raises(TmmuError) as caught:
        generate(plan or planned(path), str(path), str(tmp_path / "c"), prove=accepted, **options)
    assert not (tmp_path / "c").exists()
    return str(caught.value)


def test_what_has_no_kernel_is_named_with_its_node(tmp_path: Path) -> None:
    """An operator, an element type, an attribute, a number that the model computes. spec: MC1.5, MC4.5"""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 4, 4])
    number = helper.make_tensor_value_info("n", TensorProto.INT64, [1])
    y = helper.make_value_info("y", onnx.TypeProto())
    stored = [numpy_helper.from_array(np.array([k], np.int64), f"c{k}") for k in range(5)]
    bound: dict[str, Any] = {}
    cases = {
        "operator has no kernel": helper.make_node("Det", ["x"], ["y"], name="it"),
        "3 spatial dimensions": helper.make_node("MaxPool", ["x"], ["y"], name="it", kernel_shape=[2, 2, 2]),
        "kernel for float8e4m3fn": helper.make_node("Cast", ["x"], ["y"], name="it", to=TensorProto.FLOAT8E4M3FN),
        "starts are computed": helper.make_node("Slice", ["x", "n", "c4", "c2"], ["y"], name="it"),
    }
    for words, node in cases.items():
        graph = helper.make_graph([node], "g", [x, number], [y], stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        onnx.save(model, tmp_path / "m.onnx")
        bound = {"values": {"n": "1"}} if "starts" in words else {}
        text = refusal(tmp_path / "m.onnx", tmp_path, planned(tmp_path / "m.onnx", **bound))
        assert "node 'it'" in text
        assert words in text


def test_what_is_no_inference_of_a_whole_model_is_refused(folder: Path, tmp_path: Path) -> None:
    """spec: MC1.3"""
    path = tmp_path / "open.onnx"
    model = mico.mlp()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, path)
    assert "sizes are open" in refusal(path, tmp_path, planned(path, ranges={"batch": (1, 4)}))
    whole = planned(saved("mlp", folder))
    assert whole.provenance is not None
    for changed, words in (({"mode": "forward"}, "mode is forward"), ({"world_size": 2}, "one rank")):
        plan = replace(whole, provenance=replace(whole.provenance, **changed))
        assert words in refusal(saved("mlp", folder), tmp_path, plan)


def test_what_graphs_may_have_besides_is_c_too(tmp_path: Path) -> None:
    """An input that no node reads, views of weights, results without elements; inputs and weights that are outputs.

    And a model without inputs. spec: MC1.1, MC3.3
    """
    numbers = [numpy_helper.from_array(np.array([k]), f"k{k}") for k in (0, 2, 3)]
    weight = numpy_helper.from_array(np.float32([1, -2, 3]), "w")
    nodes = [
        helper.make_node("Slice", ["x", "k3", "k3"], ["nothing"], name="slice"),
        helper.make_node("Relu", ["nothing"], ["none"], name="none"),
        helper.make_node("Concat", ["none", "x"], ["joined"], name="joined", axis=0),
        helper.make_node("Identity", ["w"], ["same"], name="same"),
        helper.make_node("Unsqueeze", ["same", "k0"], ["row"], name="row"),
        helper.make_node("Relu", ["row"], ["positive"], name="positive"),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "unread")]
    for given, outputs in (
        (inputs, ["joined", "none", "x", "w", "same", "row", "positive"]),
        ([], ["same", "row", "positive"]),
    ):
        typed = [onnx.ValueInfoProto(name=name) for name in outputs]
        for each in typed:
            each.type.tensor_type.elem_type = TensorProto.FLOAT
        graph = helper.make_graph(nodes if given else nodes[3:], "g", given, typed, [*numbers, weight])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        path = tmp_path / f"{len(given)}.onnx"
        onnx.save(model, path)
        arrays = drawn_inputs(model)
        expected = ReferenceEvaluator(model).run(None, arrays)
        made = CProgram(
            planned(path), path, tmp_path / f"c{len(given)}", weights="embed", memory="malloc" if given else "static"
        )
        for one, other in zip(made.outputs(made.build(compilers()[-1]), arrays, expected), expected, strict=True):
            assert_close(one, other, 1e-6)
        assert "weight_w, 3" in (made.folder / "model.c").read_text()


def test_weights_whose_bytes_hold_results_are_refused(folder: Path, tmp_path: Path) -> None:
    """spec: MC3.3"""
    path = saved("mlp", folder)
    plan = planned(path)
    tensors, names = plan.allocation.tensors, plan.allocation.tensors.name.list()
    storage = tensors.storage.copy()
    storage[names.index("layers_0.weight")] = storage[names.index("layers_1")]
    changed = replace(plan.allocation, tensors=replace(tensors, storage=storage))
    assert "weight 'layers_0.weight'" in refusal(path, tmp_path, replace(plan, allocation=changed))


def test_weights_that_are_not_there_are_named(tmp_path: Path) -> None:
    """spec: MC5.3"""
    path = tmp_path / "m.onnx"
    onnx.save(mico.mlp(), path)
    assert "'layers_0.weight': its weights are missing: mico-mlp.weights" in refusal(path, tmp_path)


def command(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = tmmu(["codegen", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command_proves_before_it_writes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proved: files whose header states it. Refuted, unreadable, in the way: nothing, and the exit code.

    spec: MC1.2, MC1.7, MC2.1, MC2.2
    """
    path, target = saved("mlp", folder), tmp_path / "c"
    plan = planned(path, "pools")
    file.save(plan, tmp_path / "p.cbor")
    code, out, _ = command(capsys, tmp_path / "p.cbor", "--model", path, "-o", target)
    assert code == 0
    assert out.splitlines()[0] == f"wrote {target}/model.h"
    text = (target / "model.h").read_text()
    assert f"PROVED {tmp_path}/p.cbor against {path}" in text
    assert file.plan_identity(plan).hex() in text
    fields = re.findall(r"^    Tensor (\w+);", text, re.MULTILINE)
    assert fields == ["x", "flatten", *(f"layers_{k}" for k in range(7)), "output"]
    code, _, err = command(capsys, tmp_path / "p.cbor", "--model", path, "-o", target)
    assert (code, "nothing in it is overwritten" in err) == (4, True)
    other = saved("lenet", folder)
    code, out, _ = command(capsys, tmp_path / "p.cbor", "--model", other, "-o", tmp_path / "d")
    assert (code, out.startswith("REFUTED"), "nothing was written" in out) == (1, True, True)
    code, _, _ = command(capsys, path, "--model", path, "-o", tmp_path / "d")
    assert code == 4
    code, _, _ = command(capsys, tmp_path / "p.cbor", "--model", path, "-o", tmp_path / "d", "--name", "a b")
    assert code == 2
    assert not (tmp_path / "d").exists()
