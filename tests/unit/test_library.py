"""The library: what the commands do, by calls; a graph of one's own, refused where it is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import tmmu
from proofs.verify.judge import judge_against
from proofs.verify.options import Options
from tmmu.cli.entry import run
from tmmu.core import canonical
from tmmu.ir import files
from tmmu.plans import file
from tmmu.report.notebook import MOST

PAGE = Path(__file__).resolve().parents[2] / "spec/library.md"


def layer() -> tmmu.Graph:
    g = tmmu.Graph("layer")
    x, w = g.input("x", (8, 64)), g.parameter("w", (64, 64))
    h = g.node("MatMul", [x, w], g.tensor("h", (8, 64)))
    g.output(g.node("Relu", h, g.tensor("y", (8, 64)), in_place={"y": "h"}))
    return g


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "gpt2.onnx"
    assert run(["example", "llama-block", "-o", str(path)]) == 0
    return path


def test_the_library_and_the_command_make_the_same_bytes(model: Path, tmp_path: Path) -> None:
    """spec: LIB1.1, LIB1.3"""
    bound = {"batch": 1, "seq": 16}
    flags = [part for name, size in bound.items() for part in ("--dim", f"{name}={size}")]
    of_planner = tmmu.PlannerOptions
    arenas = tmp_path / "arenas.toml"
    roles = ["input", "parameter", "activation", "gradient", "optimizer", "scratch"]
    arenas.write_text(f"[arenas.all]\nroles = {roles}\nalignment = 512\n")
    extras: list[tuple[list[str], dict[str, Any]]] = [
        ([], {}),
        (["--layout", "slots", "--seed", "7", "--order", "memory"],
         {"options": of_planner(layout="slots", seed=7, order="memory")}),
        (["--mode", "backward", "--preset", "remat_enabled", "--budget", "1GiB"],
         {"mode": "backward", "options": of_planner(preset="remat_enabled", budget=1 << 30)}),
        (["--arenas", str(arenas), "--replan-policy", "replan_at_safepoint", "--effort", "1000"],
         {"options": of_planner(arenas=arenas, replan_policy="replan_at_safepoint", effort=1000)}),
    ]  # fmt: skip
    for extra, given in extras:
        assert run(["plan", str(model), *flags, *extra, "-o", str(tmp_path / "a.cbor")]) == 0
        tmmu.plan(model, bound, **given).save(tmp_path / "b.cbor")
        assert (tmp_path / "a.cbor").read_bytes() == (tmp_path / "b.cbor").read_bytes()
    flags[-1] = "seq=4..16"
    assert run(["plan", str(model), *flags, "-o", str(tmp_path / "a.cbor")]) == 0
    tmmu.save(tmmu.plan(str(model), {"batch": 1, "seq": (4, 16)}), tmp_path / "b.cbor")
    assert (tmp_path / "a.cbor").read_bytes() == (tmp_path / "b.cbor").read_bytes()


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["example", "gpt2", "-o", "gpt2.onnx"]) == 0
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "spec/library.md", "exec"), names)
    assert Path("gpt2.plan.cbor").exists()


def test_each_tensor_is_where_the_command_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: LIB1.2"""
    g = layer()
    g.tensor("v", (512,), view_of="h")
    g.node("Reshape", "h", "v")
    g.output("v")
    plan = tmmu.plan(g)
    plan.save(tmp_path / "p.cbor")
    capsys.readouterr()
    assert run(["show", str(tmp_path / "p.cbor"), "--tensors", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)["tensors"]
    assert [row["name"] for row in shown] == list(plan)
    assert len(plan) == len(shown)
    for row in shown:
        found = plan[row["name"]]
        assert {key: row[key] for key in ("arena", "offset", "bytes", "birth", "death", "of")} == {
            key: getattr(found, key) for key in ("arena", "offset", "bytes", "birth", "death", "of")
        }
    assert plan["v"].shares == "view"
    assert plan["v"].end == plan["h"].end
    assert {arena.name: arena.footprint for arena in plan.arenas if arena.footprint}["parameters"] == 64 * 64 * 4
    assert plan.footprint == sum(arena.footprint for arena in plan.arenas)
    assert "z" not in plan
    with pytest.raises(KeyError, match="z"):
        plan["z"]


def test_lifetimes_alone_are_loaded_and_verified(tmp_path: Path) -> None:
    """spec: LIB1.4, LIB2.1"""
    path = tmp_path / "buffers.plan.txt"
    path.write_text("tmmu-plan-text 1\narena a 512\nbuffer x 256 a 0 live 0 1\nbuffer y 256 a 256 live 1 2\n")
    plan = tmmu.load(path)
    assert (plan["y"].arena, plan["y"].offset, plan["y"].birth, plan["y"].death) == ("a", 256, 1, 2)
    assert plan["y"].of is None
    assert tmmu.verify(plan).proved
    assert [(arena.footprint, arena.peak) for arena in plan.arenas] == [(512, None)]
    path.write_text(path.read_text().replace("a 256 live", "a 128 live"))
    assert tmmu.verify(path).refuted


def test_a_wrong_plan_has_a_witness_and_raises(tmp_path: Path) -> None:
    """spec: LIB1.3, LIB2.1, LIB2.2, LIB2.4"""
    path = tmp_path / "broken.cbor"
    assert run(["example", "broken/in-place-read-later", "-o", str(path)]) == 0
    result = tmmu.verify(path)
    assert result.refuted
    assert not result.proved
    assert result.witness is not None
    assert result.witness["tensors"] == ["a", "r"]
    with pytest.raises(tmmu.NotProved, match="REFUTED") as raised:
        result.raise_unless_proved()
    assert raised.value.result is result
    # UNKNOWN is not PROVED either.
    unknown = tmmu.verify(tmmu.plan(layer()), require=["model"])
    assert (unknown.proved, unknown.refuted) == (False, False)
    with pytest.raises(tmmu.NotProved, match="UNKNOWN"):
        unknown.raise_unless_proved()
    assert [bool(tmmu.verify(tmmu.plan(layer()))), bool(result), bool(unknown)] == [True, False, False]
    # A hash that a file states falsely stays in a copy.
    stated = file.decode(tmmu.plan(layer()).encoded())
    forged = tmmu.MemoryPlan(type(stated)(stated.plan, {**stated.hashes, "file_digest": bytes(32)}))
    forged.save(tmp_path / "copy.cbor")
    copied = tmmu.verify(tmp_path / "copy.cbor").witness
    assert copied is not None
    assert copied["obligation"] == "hashes"


def test_a_plan_is_compared_with_its_graph(tmp_path: Path) -> None:
    """spec: LIB2.1, LIB3.2"""
    g = layer()
    plan = tmmu.plan(g)
    tmmu.verify(plan, model=g, require=["model"]).raise_unless_proved()
    other = tmmu.Graph("layer")
    x, w = other.input("x", (8, 64)), other.parameter("w", (64, 64))
    h = other.node("MatMul", [x, w], other.tensor("h", (8, 64)))
    other.output(other.node("Gelu", h, other.tensor("y", (8, 64))), h)
    assert tmmu.verify(plan, model=other).refuted


def test_a_model_in_memory_is_judged_as_its_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: LIB2.1, LIB3.2"""
    monkeypatch.chdir(tmp_path)
    g, other = layer(), tmmu.Graph("other")
    other.output(other.node("Relu", other.input("x", (8, 64)), other.tensor("y", (8, 64))))
    for graph in (g, other):
        files.save(graph.model(), f"{graph.name}.ir.cbor")
    plan = tmmu.plan(g)
    with monkeypatch.context() as patched:
        for of, name in ((tempfile, "TemporaryDirectory"), (canonical, "write_atomically"), (files, "save")):
            patched.delattr(of, name)  # nothing is written for the meanwhile
        in_memory = [tmmu.verify(plan, model=graph).verdict for graph in (g, other)]
    in_files = [tmmu.verify(plan, model=f"{graph.name}.ir.cbor").verdict for graph in (g, other)]
    assert [verdict.verdict for verdict in in_memory] == ["PROVED", "REFUTED"]
    assert in_memory == in_files
    assert in_memory[0].line == "PROVED plan.cbor against layer.ir.cbor"


def test_a_model_in_memory_that_is_none_is_refused_as_its_file_is(tmp_path: Path) -> None:
    """What the verifier is given in memory it reads as strictly as a file, and names as one. spec: I1.1"""
    model, stated = layer().model(), file.decode(tmmu.plan(layer()).encoded())
    backwards = replace(model, nodes=model.nodes[::-1])
    for code, false in (
        ("INVALID_IR_SHAPES", replace(model, tensors=(replace(model.tensors[0], bytes=4), *model.tensors[1:]))),
        ("INVALID_IR", replace(model, nodes=(replace(model.nodes[0], reads=(0, 99)), *model.nodes[1:]))),
        ("INVALID_IR", replace(model, nodes=(replace(model.nodes[0], reads=(0, -1)), *model.nodes[1:]))),
    ):
        with pytest.raises(tmmu.TmmuError, match=r"layer\.ir\.cbor") as caught:
            judge_against("p.cbor", stated, false, Options())
        assert caught.value.code_id == code
    assert judge_against("p.cbor", stated, backwards, Options()).verdict == "PROVED"


def test_what_cannot_be_planned_or_verified_is_one_clear_error(model: Path, tmp_path: Path) -> None:
    """spec: LIB2.3"""
    with pytest.raises(tmmu.TmmuError, match="seq") as raised:
        tmmu.plan(model, {"batch": 1})
    assert str(model) in str(raised.value)
    (tmp_path / "no").write_bytes(b"no")
    with pytest.raises(tmmu.TmmuError, match="INVALID_PLAN"):
        tmmu.load(tmp_path / "no")
    with pytest.raises(tmmu.TmmuError, match="INVALID_IR"):
        tmmu.verify(tmmu.plan(layer()), model=(tmp_path / "no").rename(tmp_path / "no.ir.cbor"))
    for missing in (tmmu.plan, lambda path: tmmu.verify(tmmu.plan(layer()), model=path)):
        with pytest.raises(tmmu.TmmuError, match=r"missing\.onnx.*cannot be read.*INVALID_IR"):
            missing(tmp_path / "missing.onnx")
    with pytest.raises(tmmu.TmmuError, match=r"nothing.*INVALID_BINDING"):
        tmmu.verify(tmmu.plan(layer()), donate=["nothing"])
    with pytest.raises(tmmu.TmmuError, match="unknown layout 'tight'"):
        tmmu.plan(layer(), options=tmmu.PlannerOptions(layout="tight"))


WRONG: list[tuple[str, Callable[[tmmu.Graph], object]]] = [
    ("there is no tensor 'q'", lambda g: g.node("Relu", "q", [], name="n")),
    ("there is no tensor 'q'", lambda g: g.output("q")),
    ("there is no tensor 'q'", lambda g: g.keep_apart("x", "q")),
    ("there is no tensor 'q'", lambda g: g.alias("group", "h", "q")),
    ("there is no tensor 'q'", lambda g: g.tensor("v", (4,), view_of="q")),
    ("there is no tensor 'q'", lambda g: g.tensor("v", (4,), view_of=("q", 4))),
    ("the name is used twice", lambda g: g.input("x", (1,))),
    ("the name is used twice", lambda g: g.node("Relu", "x", "h")),
    ("is listed twice", lambda g: g.output("y")),
    ("expected a shape of sizes", lambda g: g.input("z", (1, -1))),
    ("expected a shape of sizes", lambda g: g.input("z", ("n",))),  # type: ignore[arg-type]
    ("do not fit 64 bits", lambda g: g.input("z", (1 << 62, 4))),
    ("unknown element type 'real'", lambda g: g.input("z", (1,), "real")),
    ("unknown role 'guest'", lambda g: g.tensor("z", (1,), role="guest")),
    ("expected an alignment that is a power of two, got 3", lambda g: g.tensor("z", (1,), alignment=3)),
    ("which has 2048", lambda g: g.tensor("z", (8, 64), view_of=("h", 4))),
    ("which has 2048", lambda g: g.tensor("z", (1,), view_of=("h", -4))),
    ("it writes nothing and has no name", lambda g: g.node("Print", "x", [])),
    ("in place of", lambda g: g.node("Relu", "x", [], name="n", in_place={"y": "x"})),
    ("is changed but not written", lambda g: g.node("Relu", "x", [], name="n", changes="w")),
    ("it has fewer than two members", lambda g: g.alias("group", "x")),
    ("expected a non-empty text", lambda g: g.input("", (1,))),
]


@pytest.mark.parametrize(("what", "call"), WRONG, ids=[str(k) for k in range(len(WRONG))])
def test_a_wrong_call_is_refused_and_changes_nothing(what: str, call: Callable[[tmmu.Graph], object]) -> None:
    """spec: LIB3.1"""
    g, same = layer(), layer().model()
    with pytest.raises(tmmu.TmmuError, match=what):
        call(g)
    assert g.model() == same


def test_a_graph_that_is_no_program_is_refused() -> None:
    """spec: LIB3.2"""
    g = tmmu.Graph()
    a, b = g.tensor("a", (4,)), g.tensor("b", (4,))
    g.node("Relu", b, a)
    g.node("Relu", a, b)
    g.output(a)
    with pytest.raises(tmmu.TmmuError, match="LIVENESS_CYCLE"):
        g.model()
    g = layer()
    g.node("Relu", "x", "h", name="again")
    with pytest.raises(tmmu.TmmuError, match="INVALID_IR"):
        tmmu.plan(g)


def test_nodes_may_be_declared_in_any_order() -> None:
    """spec: LIB3.2"""
    g = tmmu.Graph()
    x, a, b = g.input("x", (4,)), g.tensor("a", (4,)), g.tensor("b", (4,))
    g.node("Relu", a, b)
    g.node("Relu", x, a)
    g.output(b)
    assert [node.name for node in g.model().nodes] == ["a", "b"]


def test_an_import_loads_little_and_every_name_is_there() -> None:
    """spec: LIB4.1, LIB4.2"""
    code = (
        "import sys, tmmu; "
        "print(sorted({'numpy', 'z3', 'onnx', 'click', 'cbor2'} & {m.split('.')[0] for m in sys.modules})); "
        "print(all(getattr(tmmu, name) is not None for name in tmmu.__all__)); "
        "print(set(tmmu.__all__) <= set(dir(tmmu)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "True", "True"]
    assert all(resources.files(name).joinpath("py.typed").is_file() for name in ("tmmu", "proofs"))
    assert tmmu.__version__
    with pytest.raises(AttributeError, match="no attribute 'planned'"):
        _ = tmmu.planned


def test_a_notebook_shows_a_plan_as_a_table_and_a_map(tmp_path: Path) -> None:
    """Names are names in it too, and it does not grow with the plan. spec: LIB5.1"""
    g = tmmu.Graph("<b>&g")
    last = g.input("x", (16,))
    for k in range(400):
        last = g.node("Make", last, g.tensor(f"<script>t{k}", (16 + k % 3,)))
    g.output(last)
    plan = tmmu.plan(g)
    shown = plan._repr_html_()
    assert shown.count("<rect") == MOST
    assert f"{len(plan) - MOST} smaller ones are not drawn" in shown
    assert "<td>activations</td>" in shown
    assert not any(word in shown for word in ("<script", "http", "src=", "href="))
    (tensor,) = (name for name in plan if name.endswith("t399"))
    few = tmmu.Graph("few")
    few.output(few.node("Make", few.node("Make", few.input("x", (8,)), few.tensor("y", (8,))), few.tensor("z", (4,))))
    small = tmmu.plan(few)._repr_html_()
    assert small.count("<rect") == 3
    assert "y: 32 B, steps 0 to 1" in small
    with pytest.raises(KeyError, match=r"did you mean .*t399"):
        plan[tensor.replace("script", "scrpit")]


def test_a_notebook_shows_a_verdict_with_the_picture_of_a_refutation(tmp_path: Path) -> None:
    """spec: LIB5.2"""
    proved = tmmu.verify(tmmu.plan(layer()))._repr_html_()
    assert "PROVED plan.cbor" in proved
    assert "<svg" not in proved
    assert run(["example", "broken/in-place-read-later", "-o", str(tmp_path / "b.plan.cbor")]) == 0
    refuted = tmmu.verify(tmmu.load(tmp_path / "b.plan.cbor"))._repr_html_()
    assert "REFUTED " in refuted
    assert refuted.count("<rect") >= 2
    assert "the step and the bytes of the witness" in refuted


@pytest.mark.parametrize("size", [[320], (1, 2, 3, 4), "1", 1.5, None, (4, 1, 7)])
def test_what_is_no_size_of_a_dimension_is_refused_with_its_name(size: Any, model: Path) -> None:
    """spec: LIB2.3"""
    with pytest.raises(tmmu.TmmuError) as caught:
        tmmu.plan(model, {"batch": size})
    assert (caught.value.code_id, caught.value.place) == ("INVALID_BINDING", "dims['batch']")


@pytest.mark.parametrize(
    ("given", "place"),
    [({"require": ["foo"]}, "require"), ({"require": "foo"}, "require"),
     ({"options": tmmu.VerifierOptions(solver="foo")}, "solver"),
     ({"options": tmmu.VerifierOptions(timeout=-1)}, "timeout"),
     ({"options": tmmu.VerifierOptions(workers=0)}, "workers")],
)  # fmt: skip
def test_an_option_that_there_is_not_is_refused(given: dict[str, Any], place: str) -> None:
    """spec: LIB2.3"""
    graph = layer()
    with pytest.raises(tmmu.TmmuError) as caught:
        tmmu.verify(tmmu.plan(graph), model=graph, **given)
    assert (caught.value.code_id, caught.value.place) == ("INVALID_SETTING", place)
    assert tmmu.verify(tmmu.plan(graph), model=graph, require="model").proved


def test_what_is_no_file_is_refused() -> None:
    """spec: LIB2.3"""
    with pytest.raises(tmmu.TmmuError, match="INVALID_PLAN"):
        tmmu.load("nowhere.cbor")
    for wrong in (None, 7):
        with pytest.raises(tmmu.TmmuError, match="INVALID_IR"):
            tmmu.plan(cast(Any, wrong))


def test_integers_of_numpy_are_sizes_and_what_cannot_be_written_is_no_name() -> None:
    """spec: LIB3.1"""
    g = tmmu.Graph()
    g.input("x", np.array([3, 4]))
    assert g.model().tensors[0].shape == (3, 4)
    for name, shape in (("\ud800", (4,)), ("y", (4.0,)), ("y", (True,)), ("y", 4)):
        with pytest.raises(tmmu.TmmuError, match=r"\[INVALID_IR"):
            g.input(name, cast(Any, shape))
    assert [tensor.name for tensor in g.model().tensors] == ["x"]
