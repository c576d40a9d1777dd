"""The traced graphs that are shipped: to the byte, by their sizes against their architectures, and by their plans."""

from __future__ import annotations

import hashlib
import lzma
from importlib import resources
from pathlib import Path

import pytest

from proofs.verify.judge import verify
from proofs.verify.options import Options
from tmmu import examples
from tmmu.cli.entry import run
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Phase, Role
from tmmu.examples import traced
from tmmu.ir import files
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file

GOLDEN = {
    "llama-8b": "fe86d4e64fe802c009964e458e39cf11873a4f6cbcce2a1d6ff6ddf7ae6976c1",
    "llama-70b": "eff3616ff76334bf56238ba5e6fdac4100af52afbf9137e8b1de985c88f59b91",
    "llama-405b": "224d679d0e82f7fc90006909434a84be68d7115d64317efcaa19d8d0d2dfa419",
    "gpt3-175b": "ba58825d8a0bb38a35db9c986c8da5dc50c03c17a4540a798fe829e33f4d7773",
}
"""The SHA-256 of each IR file. A graph changes only with a new version of what traced it, which its name states."""

LLAMAS = {"llama-8b": (4096, 14336, 32, 32), "llama-70b": (8192, 28672, 80, 64), "llama-405b": (16384, 53248, 126, 128)}
"""Hidden and intermediate size, layers and heads of each Llama 3.1, with 8 heads of keys and 128256 words."""


def written(name: str, folder: Path) -> Model:
    examples.write(name, folder / "m.ir.cbor")
    return files.load(folder / "m.ir.cbor")


def parameters(model: Model) -> int:
    """The trainable elements: those of bfloat16, which buffers are not."""
    return sum(t.bytes // 2 for t in model.tensors if t.role is Role.PARAMETER and t.dtype == "bfloat16")


def test_the_graphs_are_those_that_were_traced_and_take_little_room() -> None:
    """spec: D1.1, I1.2"""
    assert {name: hashlib.sha256(traced.read(name)).hexdigest() for name in traced.DIGESTS} == GOLDEN == traced.DIGESTS
    stored = [p for p in resources.files(traced).iterdir() if p.name.endswith(".xz")]
    assert len(stored) == len(GOLDEN)
    assert sum(len(p.read_bytes()) for p in stored) < 2_000_000


@pytest.mark.parametrize("name", GOLDEN)
def test_a_graph_has_the_parameters_of_its_architecture_each_with_a_gradient(name: str, tmp_path: Path) -> None:
    model = written(name, tmp_path)
    if name in LLAMAS:
        hidden, inner, layers, heads = LLAMAS[name]
        keys = 2 * hidden * 8 * (hidden // heads)
        layer = 2 * hidden * hidden + keys + 3 * hidden * inner + 2 * hidden
        expected, one = 2 * 128256 * hidden + layers * layer + hidden, 9
    else:
        hidden, layers = 12288, 96
        expected = (50257 + 2048) * hidden + layers * (12 * hidden * hidden + 13 * hidden) + 2 * hidden
        one = 12
    assert parameters(model) == expected
    gradients = [t for t in model.outputs if model.tensors[t].name.endswith(".grad")]
    trainable = [t for t in model.tensors if t.role is Role.PARAMETER and f"{t.name}.grad" in
                 {model.tensors[g].name for g in gradients}]  # fmt: skip
    assert len(trainable) == len(gradients) == len(model.outputs) - 1
    assert len(gradients) > layers * one
    assert sum(t.bytes for t in trainable) == 2 * expected
    assert {node.phase for node in model.nodes} == {Phase.FORWARD, Phase.BACKWARD}
    for word in (f"{layers} layers", "bfloat16", "batch 1", "transformers 5.23.0", "torch 2.15.0"):
        assert word in model.name


@pytest.mark.parametrize("mode", ["backward", "inference"])
def test_the_plan_of_a_traced_graph_is_proved_against_it(mode: str, tmp_path: Path) -> None:
    """spec: T6.4, V3.1"""
    from tmmu.planner import DEFAULT
    from tmmu.planner.modes import prepare_graph

    graph = prepare_graph(written("llama-8b", tmp_path), mode, DEFAULT)
    plan = plan_memory(graph, options=PlanOptions(mode=mode, layout="packed")).plan
    assert all(usage.minimal and usage.slots == usage.max_live for usage in plan.usage if usage.slots)
    file.save(plan, tmp_path / "p.cbor")
    options = Options(model=str(tmp_path / "m.ir.cbor"), require=("model", "slot-count"))
    assert verify(str(tmp_path / "p.cbor"), options).verdict == "PROVED"


def test_the_command_writes_a_graph_where_its_name_says_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "m.ir.cbor"
    assert run(["example", "llama-8b", "-o", str(target)]) == 0
    assert target.read_bytes() == traced.read("llama-8b")
    capsys.readouterr()
    assert run(["example", "llama-8b", "-o", str(tmp_path / "m.onnx")]) == 2
    assert ".ir.cbor" in capsys.readouterr().err
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (lambda good: b"no xz" * 9, "Input format not supported by decoder"),
        (lambda good: good[:-100], "its SHA-256 is not"),
        (lambda good: good[:1000] + b"\0" * 8 + good[1008:], "stored graph llama-8b"),
        (lambda good: traced.pack(b"another graph"), "its SHA-256 is not"),
        (lambda good: traced.pack(b"\0" * (1 << 26)), f"it unpacks to more than {1 << 24} bytes"),
        (
            lambda good: lzma.compress(b"x", lzma.FORMAT_XZ, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]),
            "Memory usage limit",
        ),
    ],
)
def test_a_stored_graph_that_is_another_is_refused(  # spec: I2.9
    stored: object, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = resources.files(traced).joinpath("llama-8b.ir.cbor.xz").read_bytes()
    (tmp_path / "llama-8b.ir.cbor.xz").write_bytes(stored(good))  # type: ignore[operator]  # a function, by the table
    monkeypatch.setattr(resources, "files", lambda _: tmp_path)
    with pytest.raises(TmmuError, match=message):
        traced.read("llama-8b")
    assert run(["example", "llama-8b", "-o", str(tmp_path / "m.ir.cbor")]) == 4
    assert "install tmmu again [INVALID_IR]" in capsys.readouterr().err
    assert not (tmp_path / "m.ir.cbor").exists()
