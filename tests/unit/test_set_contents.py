"""Two files that store different values of one shared tensor are no set, in whichever form they store them.

spec: PS1.12, PS3.2, PS4.10
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from proofs.readers.models.contents import digest_contents
from proofs.sets import contents
from proofs.sets.agreed import agree_by_names
from proofs.sets.members import SetMember
from proofs.verify import entry, sets
from proofs.verify.checks import Subject
from tmmu.cli.entry import run
from tmmu.core.vocabulary import Role, RuntimeGraph
from tmmu.plans import file
from tmmu.plans.columns import ROLES

Weights = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
PARAMETER = ROLES.index(Role.PARAMETER)
ONES, TWOS = np.ones((4, 4), np.float32), np.full((4, 4), 2, np.float32)
NOT_GIVEN = "not checked: contents of shared weights (no model is given)"
NOT_STORED = "not checked: contents of shared weights (the models do not store the only values of a:w, b:w)"


@pytest.fixture(autouse=True)
def _without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "ask_kernel", lambda *_: {"answer": "not installed"})


def model(nodes: list[onnx.NodeProto], stored: list[onnx.TensorProto]) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy")
    graph = helper.make_graph([*nodes, helper.make_node("MatMul", ["x", "w"], ["y"], name="m")], "m", [x], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def initializer(path: Path, values: Weights) -> None:
    onnx.save(model([], [numpy_helper.from_array(values, "w")]), path)


def floats(path: Path, values: Weights) -> None:
    """The elements in the field of their type, and not as raw bytes."""
    onnx.save(model([], [helper.make_tensor("w", TensorProto.FLOAT, values.shape, values.ravel())]), path)


def constant(path: Path, values: Weights) -> None:
    value = numpy_helper.from_array(values)
    onnx.save(model([helper.make_node("Constant", [], ["w"], name="c", value=value)], []), path)


def numbers(path: Path, values: Weights) -> None:
    """A vector of floats as the attribute of a Constant."""
    onnx.save(model([helper.make_node("Constant", [], ["w"], name="c", value_floats=values[0].tolist())], []), path)


def external(path: Path, values: Weights) -> None:
    made = model([], [numpy_helper.from_array(values, "w")])
    onnx.save(made, path, save_as_external_data=True, location=f"{path.stem}.data", size_threshold=0)


def missing(path: Path, values: Weights) -> None:
    external(path, values)
    path.with_suffix(".data").unlink()


def replaceable(path: Path, values: Weights) -> None:
    """An initializer that is an input too: the caller gives both programs the same value."""
    made = model([], [numpy_helper.from_array(values, "w")])
    made.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 4]))
    onnx.save(made, path)


def sparse(path: Path, values: Weights) -> None:
    made = model([], [])
    cells = numpy_helper.from_array(values.ravel()[:1], "w")
    at = numpy_helper.from_array(np.zeros(1, np.int64))
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(cells, at, [4, 4]))
    onnx.save(made, path)


def folded(path: Path, values: Weights) -> None:
    """What is computed from constants before a run is stored in no file."""
    ahead = helper.make_node("Constant", [], ["v"], name="c", value=numpy_helper.from_array(values))
    onnx.save(model([ahead, helper.make_node("Identity", ["v"], ["w"], name="i")], []), path)


Store = Callable[[Path, Weights], None]


def verify(
    folder: Path, store: Store, others: Store, values: Weights, capsys: pytest.CaptureFixture[str]
) -> tuple[set[int], str, str]:
    """Plan two models apart, and verify the plans as a set over `w` with and without the models; codes and outputs."""
    store(folder / "a.onnx", ONES)
    others(folder / "b.onnx", values)
    models = [str(folder / f"{name}.onnx") for name in "ab"]
    plans = [path.replace(".onnx", ".cbor") for path in models]
    for path, plan in zip(models, plans, strict=True):
        assert run(["plan", path, "-q", "-o", plan]) == 0
    capsys.readouterr()
    code = entry.run([*plans, "--shared", "w", *(f"--models={path}" for path in models)])
    given = capsys.readouterr().out
    without = entry.run([*plans, "--shared", "w"])
    return {code, without}, given, capsys.readouterr().out


STORES = (initializer, floats, constant, numbers, external)


@pytest.mark.parametrize("store", STORES)
def test_different_values_are_refuted_with_both_names_and_digests(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes, given, without = verify(tmp_path, store, store, TWOS, capsys)
    digests = [digest_contents(str(tmp_path / f"{name}.onnx"), ["w"])["w"].hex() for name in "ab"]
    assert digests[0] != digests[1]
    assert f"a:w and b:w have different values in their files (SHA-256 {digests[0]} and {digests[1]})" in given
    assert "REFUTED set of" in given
    assert (codes, NOT_GIVEN in without) == ({0, 1}, True)
    models = [str(tmp_path / f"{name}.onnx") for name in "ab"]
    assert run(["plan", *models, "--share", "w", "-q", "-o", str(tmp_path / "set")]) == 2
    assert "a:w and b:w have different values in their files" in capsys.readouterr().err
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(("store", "others"), [(initializer, external), (floats, constant), (numbers, numbers)])
def test_equal_values_are_compared_whatever_stores_them(
    store: Store, others: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes, given, without = verify(tmp_path, store, others, ONES.copy(), capsys)
    last = given[given.index("PROVED set of") :]
    assert (codes, "contents of shared weights" in last, "not checked: contents" in last) == ({0}, True, False)
    assert NOT_GIVEN in without


@pytest.mark.parametrize("store", [missing, replaceable, sparse, folded])
def test_a_value_that_is_not_stored_alone_is_listed_as_not_checked(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes, given, _ = verify(tmp_path, store, store, TWOS, capsys)
    assert codes == {0}
    assert NOT_STORED in given


def test_three_files_of_which_the_last_differs_and_one_has_no_value(tmp_path: Path) -> None:
    """One that is unknown does not hide a difference of the others."""
    initializer(tmp_path / "a.onnx", ONES)
    missing(tmp_path / "b.onnx", ONES)
    initializer(tmp_path / "c.onnx", TWOS)
    models = [str(tmp_path / f"{name}.onnx") for name in "abc"]
    assert run(["plan", *models, "--share", "w", "-q", "-o", str(tmp_path / "set")]) == 2


def test_a_set_that_is_extended_says_which_values_were_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The models of the programs that it has are not read again. The verifier compares all."""
    for name, values in (("a", ONES), ("b", ONES), ("c", TWOS)):
        initializer(tmp_path / f"{name}.onnx", values)
    models = [str(tmp_path / f"{name}.onnx") for name in "abc"]
    flags, folder = ["--share", "w"], str(tmp_path / "set")
    assert run(["plan", *models[:2], *flags, "-o", folder]) == 0
    assert "not compared" not in capsys.readouterr().out
    assert run(["plan", models[2], *flags, "--extend", folder]) == 0
    assert "not compared: contents of shared weights (no model of a, b is given)" in capsys.readouterr().out
    assert entry.run([folder, *(f"--models={path}" for path in models)]) == 1
    assert "w: a:w and c:w have different values in their files" in capsys.readouterr().out


def test_a_constant_of_a_function_is_one_of_the_model_that_calls_it(tmp_path: Path) -> None:
    """Names are those that the model has once its functions are inlined. spec: T10.8"""
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    value = numpy_helper.from_array(TWOS)
    inner = helper.make_node("Constant", [], ["v"], name="c", value=value)
    body = [inner, helper.make_node("MatMul", ["p", "v"], ["q"], name="n")]
    function = helper.make_function("own", "Twice", ["p"], ["q"], body, domains[:1])
    made = model(
        [helper.make_node("Twice", ["x"], ["u"], name="t", domain="own")], [numpy_helper.from_array(ONES, "w")]
    )
    made.opset_import.append(domains[1])
    made.functions.append(function)
    path = str(tmp_path / "m.onnx")
    onnx.save(made, path)
    assert run(["plan", path, "-q", "-o", str(tmp_path / "m.cbor")]) == 0
    t = file.load(tmp_path / "m.cbor").plan.allocation.tensors
    stored = [name for name, role in zip(t.name.list(), t.role.tolist(), strict=True) if role == PARAMETER]
    found = digest_contents(path, stored)
    assert (len(stored), set(found), len(set(found.values()))) == (2, set(stored), 2)


def test_stored_values_of_bodies_have_the_names_of_the_plan(tmp_path: Path) -> None:
    def arm(value: float) -> onnx.GraphProto:
        out = helper.make_tensor_value_info("z", TensorProto.FLOAT, [1])
        stored = [numpy_helper.from_array(np.array([value], np.float32), "k")]
        return helper.make_graph([helper.make_node("Identity", ["k"], ["z"], name="i")], "arm", [], [out], stored)

    node = helper.make_node("If", ["c"], ["y"], name="choose", then_branch=arm(1), else_branch=arm(2))
    ends = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1]),
    ]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    path = str(tmp_path / "m.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    names = ["choose/then_branch/k", "choose/else_branch/k"]
    assert run(["plan", path, "-q", "-o", str(tmp_path / "m.cbor")]) == 0
    planned = file.load(tmp_path / "m.cbor").plan.allocation.tensors.name.list()
    assert set(names) <= set(planned)
    found = digest_contents(path, names)
    assert found.keys() == set(names)
    assert len(set(found.values())) == 2


def test_what_the_graph_of_a_runtime_stores_is_not_what_the_file_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digests of the model's own file are not asked for."""
    initializer(tmp_path / "a.onnx", ONES)
    path = str(tmp_path / "a.onnx")
    assert run(["plan", path, "-q", "-o", str(tmp_path / "a.cbor")]) == 0
    stated = file.load(tmp_path / "a.cbor")
    members = [SetMember(name, path, stated.plan, Subject(stated).run) for name in "ab"]
    agreement = agree_by_names(members, ["w"], [])
    models = dict.fromkeys("ab", path)
    assert contents.compare_contents(members, agreement, models) == ([], 1, "")
    origin = stated.plan.provenance
    assert origin is not None
    runtime = RuntimeGraph("onnxruntime", "all")
    plan = replace(stated.plan, provenance=replace(origin, bindings=replace(origin.bindings, runtime=runtime)))
    found = contents.compare_contents([replace(each, plan=plan) for each in members], agreement, models)
    assert (found.agreeing, found.differing, "a:w, b:w" in found.unknown) == (0, [], True)
