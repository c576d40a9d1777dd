"""Plans of the graph that ONNX Runtime makes of a model: one form, digests, versions, and the verdict.

A stand-in makes the graph, so that these tests run without the package. `tests/nightly/test_onnxruntime_graphs.py` has
ONNX Runtime make it.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from proofs.readers.models.onnx import reference_of
from proofs.readers.operators import overwritable
from proofs.readers.sharing import decide_permissions
from tests.support.commands import ran
from tests.support.onnx_files import model_of, written
from tmmu.cli.entry import run
from tmmu.core.bindings import bindings_object, read_bindings
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, RuntimeGraph
from tmmu.onnx import optimized, resolve
from tmmu.onnx.canonical_graph import canonicalize
from tmmu.plans import file, sets
from tmmu.plans.sections import amend_plan
from tmmu.plans.sets import SharedUse
from tmmu.tasks import runtime_figures as figures


def stored_model(text: str, opset: int = 18) -> onnx.ModelProto:
    """The model that a text describes, in which each value that no node makes is stored."""
    model = model_of(text, opset=opset, more=', "com.microsoft" : 1, "com.microsoft.nchwc" : 1')
    for value in model.graph.value_info:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), value.name))
    return model


MODEL = stored_model("main (float[n,4,5,5] x) => (float[n,7,5,5] y) <float[7,4,1,1] w> { y = Conv (x, w) }")
MADE = stored_model(
    """main (float[n,4,5,5] x) => (float[n,7,5,5] y) <float[8,8,1,1] re, float[8] b> {
      [R] r0 = com.microsoft.nchwc.ReorderInput (x)
      [c_nchwc] r1 = com.microsoft.nchwc.Conv (r0, re, b)
      [d_nchwc] r2 = com.microsoft.nchwc.Conv <activation = "Relu"> (r1, re, b, r0)
      [R_token_1] y = com.microsoft.nchwc.ReorderOutput <channels = 7> (r2)
    }"""
)
ASKED = RuntimeGraph("onnxruntime", "")


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The stand-in: its version, its channels of a block, and the graph that it makes of any model."""
    found = SimpleNamespace(__version__="1.99.0", block=8, made=MADE, levels=[])

    def rewrite(_runtime: object, _path: str, level: str) -> onnx.ModelProto:
        found.levels.append(level)
        copy = onnx.ModelProto()
        copy.CopyFrom(found.made)
        return copy

    monkeypatch.setitem(sys.modules, "onnxruntime", found)
    monkeypatch.setattr(optimized, "find_block", lambda of: of.block)
    monkeypatch.setattr(optimized, "_rewrite", rewrite)
    return found


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """A model and the plan of the graph that is made of it."""
    monkeypatch.chdir(tmp_path)
    model, plan = written(tmp_path, MODEL), "p.plan.cbor"
    code, out, err = ran(capsys, "plan", model, "--as", "onnxruntime", "--dim", "n=1..3", "-o", plan)
    assert (code, "graph: of onnxruntime 1.99.0, level all, blocks of 8 channels (SHA-256 " in out) == (0, True), err
    return model, plan


def test_the_plan_is_of_the_graph_that_runs_and_the_verdict_names_both_files(
    planned: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: T10.16, V3.13, T3.13"""
    model, plan = planned
    code, out, _ = ran(capsys, "show", plan, "--steps", "--format", "json")
    steps = json.loads(out)["steps"]
    assert [step["op"] for step in steps] == ["ReorderInput", "Conv", "Conv", "ReorderOutput"]
    code, out, _ = ran(capsys, "verify", plan, "--model", model, "--as", "onnxruntime", "--format", "json")
    found = json.loads(out)["files"][0]
    stated = found["assumptions"]["runtime"]
    provenance = file.load(plan).plan.provenance
    assert (code, found["verdict"], found["assumptions"]["assumed_sizes"]) == (0, "PROVED", {})
    assert stated["source_digest"] == optimized.hashlib.sha256(Path(model).read_bytes()).hexdigest()
    assert (stated["version"], stated["level"], stated["block"]) == ("1.99.0", "all", 8)
    assert provenance is not None
    assert provenance.bindings.runtime is not None
    assert stated["digest"] == provenance.bindings.runtime.digest
    _, out, _ = ran(capsys, "verify", plan, "--model", model, "--as", "onnxruntime")
    assert stated["digest"] in out
    assert stated["source_digest"] in out


def test_the_fourth_operand_of_a_convolution_gives_its_bytes_unless_it_is_read_elsewhere(tmp_path: Path) -> None:
    """By the model, also where the bias is left out. spec: T3.13, T3.14"""
    from tmmu.importers.onnx import import_resolved

    for operands, takes in (("x0, w, b, z", True), ("x0, w, , z", True), ("z, w, b, z", False)):
        text = f"""main (float[2,4,3,3] x) => (float[2,4,3,3] y) <float[4,4,1,1] w, float[4] b> {{
          x0 = Relu (x) z = Neg (x0) u = com.microsoft.FusedConv ({operands}) y = Neg (u)
        }}"""
        found = resolve(written(tmp_path, stored_model(text)), Bindings())
        reference, model = reference_of(found), import_resolved(found)
        pairs = {(model.tensors[a].name, model.tensors[b].name) for node in model.nodes for a, b in node.in_place}
        assert (("u", "z") in reference.in_place, ("u", "z") in pairs) == (takes, takes)


def test_a_convolution_without_a_bias_is_planned_and_proved_in_place(tmp_path: Path) -> None:
    """A step does not list the absent operand: without the model its operator is believed. spec: T3.13, V2.1"""
    path = written(
        tmp_path,
        stored_model("""main (float[2,4,3,3] x) => (float[2,4,3,3] y) <float[4,4,1,1] w> {
      x0 = Relu (x) z = Neg (x0) u = com.microsoft.FusedConv (x0, w, , z) y = Neg (u)
    }"""),
    )
    plan = str(tmp_path / "plan.cbor")
    assert run(["plan", str(path), "-o", plan, "-q"]) == 0
    made = file.load(plan).plan
    assert decide_permissions(made, None, frozenset()).assumed == ["com.microsoft::FusedConv"]
    assert overwritable("com.microsoft", "FusedConv", "xwz", absent=1) == ("z",)
    for model in ([], ["--model", str(path)]):
        assert run(["verify", plan, "-q", *model]) == 0


GROUPED = """main (float[1,{n},64] q, float[1,{n},32] k, float[1,{n},32] v, float[1,4,{rows},8] past_k,
  float[1,4,32,8] past_v, int32[1] lengths) => (float[1,{n},64] y, float[1,4,32,8] present_k, float[1,4,32,8] present_v)
  <int32 total = {{ {total} }}> {{
  y, present_k, present_v = com.microsoft.GroupQueryAttention <num_heads = 8, kv_num_heads = 4> ({operands})
}}"""


@pytest.mark.parametrize(
    ("operands", "total", "rows", "pairs"),
    [
        ("q, k, v, past_k, past_v, lengths, total", 9, 32, {("present_k", "past_k"), ("present_v", "past_v")}),
        ("q, k, v, past_k, past_v, lengths, total", 20, 16, {("present_v", "past_v")}),
        ("q, k, v, past_k, past_v, lengths, total", 40, 32, set()),
        ("q, k, v, past_k, past_k, lengths, total", 9, 32, set()),
        ("q, k, v, past_k, past_v, lengths, total, past_k", 9, 32, {("present_v", "past_v")}),
    ],
)
def test_caches_of_grouped_attention_are_in_the_bytes_of_the_past_ones(
    operands: str, total: int, rows: int, pairs: set[tuple[str, str]], tmp_path: Path
) -> None:
    """If they have as many rows, and the operator reads them at no other place. spec: T3.15, T10.15"""
    from tmmu.importers.onnx import import_resolved

    text = GROUPED.format(n=1, total=total, rows=rows, operands=operands)
    found = resolve(written(tmp_path, stored_model(text)), Bindings())
    reference, model = reference_of(found), import_resolved(found)
    hints = {(model.tensors[a].name, model.tensors[b].name) for node in model.nodes for a, b in node.in_place}
    assert (reference.in_place, hints) == (pairs, pairs)
    assert (reference.shapes["y"], reference.size_differences) == ((1, 1, 64), ())


def test_prefill_and_decode_of_grouped_attention_are_a_set_with_its_caches_in_place(tmp_path: Path) -> None:
    """Queries of the second hold keys and values too, so that two operands are absent. spec: T3.15, PS1.2"""
    texts = {
        "prefill": GROUPED.format(n=4, total=9, rows=32, operands="q, k, v, past_k, past_v, lengths, total"),
        "decode": GROUPED.format(n=1, total=9, rows=32, operands="q, , , past_k, past_v, lengths, total").replace(
            "float[1,1,64] q, float[1,1,32] k, float[1,1,32] v", "float[1,1,128] q"
        ),
    }
    paths = []
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        paths.append(tmp_path / f"{name}.onnx")
        Path(written(tmp_path / name, stored_model(text))).rename(paths[-1])
    folder, donated = str(tmp_path / "set"), ["--donate", "past_*"]
    assert run(["plan", *map(str, paths), "--share", "past_*", *donated, "-o", folder, "-q"]) == 0
    uses = {one.name: one.uses for one in sets.load(folder).agreement.shared}
    assert uses["past_k"] == dict.fromkeys(texts, SharedUse("past_k", "present_k"))
    assert uses["past_v"] == dict.fromkeys(texts, SharedUse("past_v", "present_v"))
    models = [word for path in paths for word in ("--models", str(path))]
    assert run(["verify", folder, *donated, *models, "-q"]) == 0
    assert run(["verify", folder, *donated, "-q"]) == 0
    assert run(["verify", folder, "-q"]) == 1
    assert run(["run", folder, "--calls", "prefill,decode*2", "--sanitize"]) == 0


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"__version__": "2.0"}, 4, "1.99.0, but 2.0 is installed; pip install onnxruntime==1.99.0"),
        ({"block": 16}, 4, "blocks of 8 channels, but this CPU has blocks of 16"),
        ({"made": MODEL}, 1, "REFUTED"),
    ],
)  # fmt: skip
def test_another_version_layout_or_graph_is_named(
    planned: tuple[str, str], runtime: SimpleNamespace, change: dict[str, Any], code: int, says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """spec: T10.18, V3.13"""
    model, plan = planned
    runtime.__dict__.update(change)
    found, out, err = ran(capsys, "verify", plan, "--model", model, "--as", "onnxruntime")
    assert (found, says in out + err) == (code, True), out + err


def test_a_digest_that_is_not_the_graphs_is_refuted(
    planned: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: V3.13"""
    model, plan = planned
    loaded = file.load(plan).plan
    made = loaded.bindings.runtime
    assert made is not None
    other = amend_plan(loaded, bindings=replace(loaded.origin.bindings, runtime=replace(made, digest="0" * 64)))
    file.save(other, plan)
    code, out, _ = ran(capsys, "verify", plan, "--model", model, "--as", "onnxruntime")
    assert (code, "runtime" in out.splitlines()[1]) == (1, True), out


def test_the_flag_is_repeated_to_the_verifier(planned: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.19"""
    model, plan = planned
    assert ran(capsys, "verify", plan)[0] == 0
    for flags, says in (
        ([], "add --as onnxruntime"),
        (["--as", "onnxruntime", "--ort-level", "basic"], "--ort-level=basic: the plan was made with all"),
        (["--ort-level", "basic"], "--ort-level goes with --as"),
    ):
        code, _, err = ran(capsys, "verify", plan, "--model", model, *flags)
        assert (code, says in err) == (2, True), err
    assert run(["plan", model, "--dim", "n=1", "-o", "own.plan.cbor"]) == 0
    code, _, err = ran(capsys, "verify", "own.plan.cbor", "--model", model, "--as", "onnxruntime")
    assert (code, "--as=onnxruntime: the plan was made with nothing" in err) == (2, True)


def test_a_level_is_passed_on_and_an_ir_file_has_no_graph_of_a_runtime(
    tmp_path: Path, runtime: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: T10.16"""
    found = resolve(written(tmp_path, MODEL), Bindings(dims={"n": 1}, runtime=replace(ASKED, level="basic")))
    assert (runtime.levels, found.bindings.runtime and found.bindings.runtime.level) == (["basic"], "basic")
    path = str(tmp_path / "m.ir.txt")
    assert run(["example", "text-model", "-o", path]) == 0
    code, _, err = ran(capsys, "plan", path, "--as", "onnxruntime")
    assert (code, "--as onnxruntime goes with an ONNX file" in err) == (2, True), err


def test_what_it_has_no_rule_for_is_one_error_that_names_it(tmp_path: Path, runtime: SimpleNamespace) -> None:
    """spec: T10.6"""
    runtime.made = stored_model("main (float[n,4] x) => (float[n,4] y) { y = com.microsoft.Unheard (x) }")
    with pytest.raises(TmmuError, match="Unheard") as caught:
        resolve(written(tmp_path, MODEL), Bindings(dims={"n": 1}, runtime=ASKED))
    assert caught.value.code_id == "INVALID_IR_SHAPES"


def test_blocks_are_known_to_both_sides_and_an_old_normalization_has_a_rule(
    tmp_path: Path, runtime: SimpleNamespace
) -> None:
    """spec: T10.15, T10.16"""
    runtime.made = stored_model(
        """main (float[n,5,6,13] x) => (float[n,16,5,6] y, float[n,5,6,13] z) <float[13] s> {
          y = com.microsoft.nchwc.ReorderInput <channels_last = 1> (x) z = LayerNormalization (x, s)
        }""",
        opset=12,
    )
    found = resolve(written(tmp_path, MODEL), Bindings(dims={"n": 2}, runtime=ASKED))
    shapes = [found.sizes[value.name][0] for value in found.graph.graph.output]
    assert shapes == [(2, 16, 5, 6), (2, 5, 6, 13)]
    reference = reference_of(found)
    assert (reference.size_differences, reference.assumed_sizes) == ((), {})
    runtime.block = 0  # a CPU without such a layout has none of its operators
    with pytest.raises(TmmuError, match="ReorderInput"):
        resolve(written(tmp_path, MODEL), Bindings(dims={"n": 2}, runtime=ASKED))


ORIGINAL = stored_model(
    "main (float[4] a, bool c) => (float[4] y, float[4] z) <float[4] k> { [n] y = Add (a, k) z = Neg (y) }"
)
BODY = """main (float[4] a, bool c) => (float[4] y, float[4] z) <float[4] g1, float[4] g2, float[4] g3> {
  [N1] t1 = Mul (a, g1) [N2] t2 = Add (a, g2)
  z = If (c) <then_branch = then () => (float[4] u) { [N3] u = Add (t1, t2) },
              else_branch = other () => (float[4] v) { [N4] v = Sub (g3, t2) }>
  [n] y = Max (t2, t1)
}"""


def shuffled(seed: int) -> onnx.ModelProto:
    """The same graph with other made-up names, independent nodes, weights and attributes in another order."""
    random, model = Random(seed), stored_model(BODY)
    graph = model.graph
    if random.random() < 0.5:
        nodes = [graph.node[k] for k in (1, 0, 2, 3)]
        del graph.node[:]
        graph.node.extend(nodes)
    stored = list(graph.initializer)
    random.shuffle(stored)
    del graph.initializer[:]
    graph.initializer.extend(stored)
    for node in graph.node:
        attributes = list(node.attribute)
        random.shuffle(attributes)
        del node.attribute[:]
        node.attribute.extend(attributes)
    graph.value_info.append(helper.make_tensor_value_info("t1", TensorProto.FLOAT, [seed]))
    rename(graph, {f"{kind}{k}": f"{kind}_token_{seed}_{k}" for kind in "tgN" for k in range(1, 5)})
    return model


def rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.name = names.get(node.name, node.name)
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            rename(attribute.g, names)


def test_what_a_rewriter_chooses_anew_makes_no_other_graph() -> None:
    """spec: T10.17"""
    found = set()
    for seed in range(6):
        model = shuffled(seed)
        canonicalize(model, ORIGINAL.graph)
        onnx.checker.check_model(model)
        found.add(optimized.digest_graph(model))
        assert [node.name for node in model.graph.node][-1] in ("n", "")
        assert {"a", "c", "y", "z"} <= {v.name for v in (*model.graph.input, *model.graph.output)}
    assert len(found) == 1
    other = shuffled(0)
    other.graph.node[3].op_type = "Min"
    canonicalize(other, ORIGINAL.graph)
    assert optimized.digest_graph(other) not in found


def test_floats_do_not_count_in_the_digest_and_integers_do() -> None:
    """spec: T10.17"""

    def digest(kind: int, value: int) -> str:
        model = onnx.ModelProto()
        model.CopyFrom(MADE)
        model.graph.initializer.append(helper.make_tensor("k", kind, [1], [value]))
        return optimized.digest_graph(model)

    assert digest(TensorProto.FLOAT, 1) == digest(TensorProto.FLOAT, 2)
    assert digest(TensorProto.INT64, 1) != digest(TensorProto.INT64, 2)


def test_bindings_with_the_graph_of_a_runtime_are_read_as_written() -> None:
    """spec: T10.7, T10.16"""
    bound = Bindings(runtime=RuntimeGraph("onnxruntime", "all", "1.99.0", 8, "ab" * 32))
    assert read_bindings(bindings_object(bound)) == bound
    assert "runtime" not in bindings_object(Bindings())
    for name, wrong in (("name", "other"), ("level", "most"), ("version", 1), ("block", -1), ("block", True),
                        ("digest", "AB" * 32), ("digest", "ab"), ("more", 1)):  # fmt: skip
        stated = bindings_object(bound)
        stated["runtime"][name] = wrong
        with pytest.raises(ValueError, match=r"runtime"):
            read_bindings(stated)


def event(ts: int, name: str, *numbers: int) -> dict[str, Any]:
    stated = zip((figures.PEAK, figures.HELD, figures.IN_USE, figures.DELTA), map(str, numbers), strict=False)
    return {"cat": "Node" if numbers else "Session", "name": name, "ts": ts, "dur": 1, "args": dict(stated)}


def test_the_figures_of_a_profile_are_of_each_run_and_of_what_was_there_before() -> None:
    """Whatever the order of its events. spec: C3.4"""
    graph = RuntimeGraph("onnxruntime", "all", "1.99.0")
    events = [
        event(9, "model_run"), event(0, "session_initialization"), event(1, "a", 70, 128, 60, 20),
        event(2, "b", 90, 256, 90, 30), event(3, "c", 90, 256, 50, 0), event(10, "a", 95, 512, 95, 5),
        event(20, "model_run"),
    ]  # fmt: skip
    found = figures.read_profile(events, graph)
    assert found == figures.RuntimeFigures(graph, 40, (figures.RunFigures(90, 256), figures.RunFigures(95, 512)))
    assert figures.read_profile([event(1, "model_run"), event(0, "a")], graph) is None


def test_the_figures_of_the_runtime_are_printed_beside_the_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And that a version has none. spec: C3.4"""
    path = written(tmp_path, MODEL)
    found = figures.RuntimeFigures(RuntimeGraph("onnxruntime", "all", "1.99.0"), 40, (figures.RunFigures(90, 256),))
    monkeypatch.setattr(figures, "measure", lambda *_: found)
    code, out, _ = ran(capsys, "compare", path, "--as", "onnxruntime", "--dim", "n=1")
    assert (code, re.search(r"first run +90 +256", out) is not None) == (0, True), out
    assert figures.EXPLANATION[0] in out
    code, out, _ = ran(capsys, "compare", path, "--as", "onnxruntime", "--dim", "n=1", "--format", "json")
    assert [row["mem_in_use_peak"] for row in json.loads(out) if "run" in row] == [90]
    monkeypatch.setattr(figures, "measure", lambda *_: None)
    code, out, _ = ran(capsys, "compare", path, "--as", "onnxruntime", "--dim", "n=1")
    assert (code, "states nothing of memory" in out) == (0, True)
    assert "onnxruntime" not in ran(capsys, "compare", path, "--dim", "n=1")[1]
