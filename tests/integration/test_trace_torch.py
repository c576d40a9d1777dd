"""Graphs of torch.fx as traces: by stand-ins for nodes and tensors, and by torch itself where it is installed.

Without torch the tests below the line are left out: pip install '.[torch]' brings them in.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace as Thing
from typing import Any

import pytest

from proofs.verify.judge import verify
from proofs.verify.options import Options
from tests.support.traced import lines, proved, runs, sharded
from tmmu.cli.entry import run
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Phase, Role
from tmmu.importers import torch as tracer
from tmmu.importers.conversion import convert
from tmmu.importers.torch_reader import TorchReader
from tmmu.importers.traced import TrainingTrace
from tmmu.ir import files
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file


def tensor(storage: int, *shape: int, dtype: str = "float32", layout: str = "torch.strided", bytes_: int = 64) -> Thing:
    strides = [1] * len(shape)
    for k in reversed(range(len(shape) - 1)):
        strides[k] = strides[k + 1] * shape[k + 1]
    made: Any = Thing(shape=shape, dtype=f"torch.{dtype}", layout=layout)
    made.stride, made.storage_offset = lambda: tuple(strides), lambda: 0
    made.untyped_storage = lambda: Thing(_cdata=storage, nbytes=lambda: bytes_)
    return made  # type: ignore[no-any-return]  # a stand-in for a tensor


def given(name: str, kind: str, value: Thing, **fields: Any) -> Thing:
    desc = type(kind, (Thing,), {})(**fields)
    return Thing(op="placeholder", name=name, target=name, args=(), kwargs={}, meta={"val": value, "desc": desc})


def called(name: str, op: str, value: Any, *args: Any, tags: tuple[str, ...] = (), writes: int | None = None,
           overload: str = "", **kwargs: Any) -> Thing:  # fmt: skip
    arguments = [
        Thing(name=f"a{k}", alias_info=Thing(is_write=True) if k == writes else None)
        for k in range(len(args) + len(kwargs))
    ]
    schema = Thing(name=f"aten::{op}", overload_name=overload, arguments=arguments)
    target = Thing(_schema=schema, tags=[Thing(name=tag) for tag in tags], __name__=op)
    return Thing(op="call_function", name=name, target=target, args=args, kwargs=kwargs, meta={"val": value})


def joint(*nodes: Thing, out: list[tuple[Thing | None, Thing]], trainable: dict[str, int]) -> TrainingTrace:
    results, descs = zip(*out, strict=True)
    output = Thing(op="output", name="output", args=(results,), kwargs={}, meta={"desc": descs})
    reader = TorchReader(TrainingTrace("hand"))
    reader.joint(Thing(graph=Thing(nodes=[*nodes, output]), c=tensor(99, 3)), trainable)
    return reader.trace


def desc(kind: str, **fields: Any) -> Thing:
    return type(kind, (Thing,), {})(**fields)  # type: ignore[no-any-return]  # a stand-in for a descriptor


W = given("primals_1", "ParamAOTInput", tensor(1, 4, 4), target="layer.w")
X = given("primals_2", "PlainAOTInput", tensor(2, 4, 4), idx=0)
B = given("primals_3", "BufferAOTInput", tensor(3, 4, 4), target="layer.b")
SEED = given("tangents_1", "TangentAOTInput", tensor(4, bytes_=4), output=desc("PlainAOTOutput", idx=0))
LOSS, GRADIENT = desc("PlainAOTOutput"), desc("GradAOTOutput", grad_of=desc("ParamAOTInput", target="layer.w"))


def test_placeholders_operations_and_outputs_are_read_by_what_they_say() -> None:
    split = called("split", "split", [tensor(2, 2, 4), tensor(2, 2, 4)], X, 2)
    first = Thing(
        op="call_function", name="getitem", target=Thing(__name__="getitem"), args=(split, 0), kwargs={}, meta={}
    )
    add = called(
        "add", "add", tensor(5, 4, 4), W, [B, None], alpha=first, tags=("core", "pointwise"), overload="Tensor"
    )
    total = called("total", "sum", tensor(6, bytes_=4), add)
    grad = called("grad", "expand", tensor(7, 4, 4), SEED)
    trace = joint(
        W, X, B, SEED, split, first, add, total, grad, out=[(total, LOSS), (grad, GRADIENT)], trainable={"layer.w": 1}
    )
    assert trace.given == {
        "layer.w": Role.PARAMETER, "input0": Role.INPUT, "layer.b": Role.PARAMETER, "output0.seed": Role.INPUT,
    }  # fmt: skip
    assert [(o.op, o.reads, o.results, o.elementwise) for o in trace.ops] == [
        ("split", ("input0",), ("split.0", "split.1"), False),
        ("add.Tensor", ("layer.w", "layer.b", "split.0"), ("add",), True),
        ("sum", ("add",), ("total",), False),
        ("expand", ("output0.seed",), ("grad",), False),
    ]
    assert (trace.seeds, trace.outputs, trace.gradients) == ({"output0.seed"}, ["total", "grad"], {"layer.w": "grad"})
    assert lines(convert(trace))[0] == "f split: input0 -> split.0 split.1"


def test_what_an_operation_changes_is_said_by_its_schema() -> None:
    mul = called("mul_", "mul_", tensor(3, 4, 4), B, X, writes=0, tags=("pointwise",))
    copy = called("copy_", "copy_", tensor(3, 4, 4), a0=B, a1=mul, writes=0)
    trace = joint(W, X, B, SEED, mul, copy, out=[(copy, LOSS), (None, GRADIENT)], trainable={"layer.w": 1})
    assert [o.changes for o in trace.ops] == [("layer.b",), ("layer.b",)]
    with pytest.raises(TmmuError, match=r"parameter 'layer.w': it has no gradient"):
        convert(trace)
    trace.gradients = {}
    model = convert(trace)
    assert [model.tensors[t].name for t in model.outputs] == ["layer.b"]
    assert model.bindings.donated == ("layer.b",)


def test_tied_weights_need_one_gradient_and_frozen_ones_none() -> None:
    tied = given("primals_5", "ParamAOTInput", tensor(1, 4, 4), target="head.w")
    loss = called("loss", "sum", tensor(6, bytes_=4), W)
    grad = called("grad", "expand", tensor(7, 4, 4), SEED)
    other = desc("GradAOTOutput", grad_of=desc("ParamAOTInput", target="head.w"))
    out = [(loss, LOSS), (grad, GRADIENT), (None, other)]
    trace = joint(W, tied, X, SEED, loss, grad, out=out, trainable={"layer.w": 77, "head.w": 77})
    assert trace.gradients == {"layer.w": "grad"}
    apart = joint(W, tied, X, SEED, loss, grad, out=out, trainable={"layer.w": 1, "head.w": 2})
    assert apart.gradients == {"layer.w": "grad", "head.w": None}
    assert joint(W, tied, X, SEED, loss, grad, out=out, trainable={}).gradients == {}


def test_the_gradients_of_tied_weights_are_added() -> None:
    """AOTAutograd returns one gradient for each name; a step of training has their sum. spec: I2.4"""
    tied = given("primals_5", "ParamAOTInput", tensor(1, 4, 4), target="head.w")
    loss = called("loss", "sum", tensor(6, bytes_=4), W)
    first, second = (called(name, "expand", tensor(k, 4, 4), SEED) for k, name in ((7, "first"), (8, "second")))
    other = desc("GradAOTOutput", grad_of=desc("ParamAOTInput", target="head.w"))
    out = [(loss, LOSS), (first, GRADIENT), (second, other)]
    trace = joint(W, tied, SEED, loss, first, second, out=out, trainable={"layer.w": 77, "head.w": 77})
    assert trace.outputs == ["loss", "layer.w.accumulate0"]
    model = convert(trace)
    assert lines(model)[-1] == "b layer.w.accumulate0: first second -> layer.w.grad"
    assert len(model.nodes[-1].in_place) == 2


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            Thing(op="get_attr", name="g", target="graph", args=(), kwargs={}, meta={}),
            "get_attr of graph is not supported: it is a constant",
        ),
        (Thing(op="call_function", name="c", target=max, args=(), kwargs={}, meta={}), "or computes with sizes"),
        (given("c", "SubclassAOTInput", tensor(9, 4)), r"input 'c': its kind SubclassAOTInput is not supported"),
        (called("c", "f", tensor(9, "s0")), "value 'c': its size is symbolic"),  # type: ignore[arg-type]  # symbolic size
        (called("c", "f", tensor(9, 4, layout="torch.sparse_coo")), "dense tensors"),
        (called("c", "f", tensor(9, 4, dtype="quint8")), "unknown dtype 'quint8'"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(node: Thing, message: str) -> None:
    """spec: I2.7"""
    with pytest.raises(TmmuError, match=message):
        joint(W, X, SEED, node, out=[(W, LOSS)], trainable={})


def test_a_tensor_of_numbers_is_a_parameter_without_a_gradient() -> None:
    """spec: I2.14"""
    held = Thing(op="get_attr", name="two", target="c", args=(), kwargs={}, meta={})
    product = called("product", "mul", tensor(5, 4, 4), X, held)
    trace = joint(X, held, product, out=[(product, LOSS)], trainable={})
    assert trace.given["two"] is Role.PARAMETER
    assert not trace.gradients
    model = convert(trace)
    assert [model.tensors[t].name for t in model.nodes[0].reads] == ["input0", "two"]


@pytest.mark.parametrize("made", [3, None, (1, 2), (Thing(named_parameters=list), 3), ()])
def test_a_callable_that_returns_no_training_step_is_refused(made: Any) -> None:
    with pytest.raises(TmmuError, match=r"expected a module with its arguments, got .*; return \(module"):
        tracer._check_training(made)


# Below: with torch alone.

HERE = importlib.util.find_spec("torch") is not None
with_torch = pytest.mark.skipif(not HERE, reason="torch is not installed")  # an extra of 5 GB, which CI does without


def mlp() -> Any:
    import torch

    class Loss(torch.nn.Module):  # type: ignore[misc]  # torch may be absent
        def __init__(self) -> None:
            super().__init__()
            self.a, self.norm, self.b = torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)

        def forward(self, x: Any, y: Any) -> Any:
            return torch.nn.functional.cross_entropy(self.b(torch.relu(self.norm(self.a(x)))), y)

    return Loss(), (torch.zeros(5, 4), torch.zeros(5, dtype=torch.long))


def unused() -> Any:
    import torch

    module, arguments = mlp()
    module.spare = torch.nn.Linear(2, 2)
    return module, arguments


def frozen() -> Any:
    module, arguments = unused()
    module.spare.requires_grad_(False)
    return module, arguments


def on_meta() -> Any:
    import torch

    with torch.device("meta"):
        return mlp()


def with_adamw() -> Any:
    return (*mlp(), tracer.adamw())


@with_torch
def test_a_module_is_traced_planned_and_proved(tmp_path: Path) -> None:
    import torch

    model = convert(tracer.trace(mlp, "mlp"))
    assert model == convert(tracer.trace(mlp, "mlp"))
    names = {t.name for t in model.tensors}
    assert {"a.weight", "a.weight.grad", "norm.running_mean", "input0", "output0.seed"} <= names
    assert {node.phase for node in model.nodes} == {Phase.FORWARD, Phase.BACKWARD}
    assert sum(
        t.bytes for t in model.tensors if t.role is Role.PARAMETER and t.name in dict(mlp()[0].named_parameters())
    ) == (4 * sum(p.numel() for p in mlp()[0].parameters()))
    assert torch.get_default_dtype() is torch.float32
    for mode in ("backward", "forward", "inference"):
        proved(model, tmp_path, mode)


def with_sgd() -> Any:
    return (*mlp(), tracer.sgd())


@with_torch
@pytest.mark.parametrize(("make", "tensors", "steps"), [(with_adamw, 3, 8), (with_sgd, 2, 3)])
def test_an_update_changes_parameters_and_states_in_place(make: Any, tensors: int, steps: int, tmp_path: Path) -> None:
    model = convert(tracer.trace(make, "mlp"))
    assert len(model.bindings.donated) == tensors * 6
    assert {model.tensors[t].name for node in model.nodes for t in node.mutates} >= set(model.bindings.donated)
    assert sum(node.phase is Phase.OPTIMIZER for node in model.nodes) == steps * 6
    proved(model, tmp_path)
    runs(model, tmp_path)
    sharded(model, tmp_path)
    files.save(model, tmp_path / "m.ir.cbor")
    file.save(plan_memory(model, options=PlanOptions(mode="backward")).plan, tmp_path / "p.cbor")
    assert verify(str(tmp_path / "p.cbor"), Options(model=str(tmp_path / "m.ir.cbor"))).verdict == "REFUTED"


def network(kind: str) -> Any:
    """A step of a module whose backward kernels, constants or shapes are unlike those of `mlp`."""
    import torch
    from torch import nn
    from torch.nn import functional as f

    made: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
        "lstm": (nn.LSTM(4, 8, 2), lambda m, x: m(x)[0].sum(), (5, 3, 4)),
        "bilstm": (nn.LSTM(4, 8, bidirectional=True), lambda m, x: m(x)[1][0].mean(), (5, 3, 4)),
        "lstm_bare": (nn.LSTM(4, 8, bias=False), lambda m, x: m(x)[0].sum(), (5, 3, 4)),
        "gru": (nn.GRU(4, 8), lambda m, x: m(x)[0].sum(), (3, 2, 4)),
        "conv": (
            nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2)),
            lambda m, x: m(x).sum(), (2, 3, 8, 8),
        ),
        "upwards": (nn.ConvTranspose1d(3, 2, 3), lambda m, x: m(x).mean(), (2, 3, 8)),
        "attention": (nn.MultiheadAttention(8, 2, batch_first=True), lambda m, x: m(x, x, x)[0].sum(), (2, 5, 8)),
        "causal": (
            nn.Linear(8, 24),
            lambda m, x: f.scaled_dot_product_attention(*m(x).chunk(3, -1), is_causal=True).sum(), (2, 5, 8),
        ),
        "number": (nn.Linear(4, 4), lambda m, x: (m(x) * torch.tensor(2.0)).sum(), (3, 4)),
        "numbers": (nn.Linear(4, 2), lambda m, x: (m(x) * torch.tensor([2.0, 3.0])).sum(), (3, 4)),
        "rows": (nn.Linear(4, 2), lambda m, x: m(x), (3, 4)),
        "pair": (nn.Linear(4, 2), lambda m, x: (m(x).sum(), m(x)), (3, 4)),
    }  # fmt: skip
    module, loss, shape = made[kind]

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.ones = module, torch.ones(1)

        def forward(self, x: Any) -> Any:
            return loss(self.inner, x * self.ones)

    return Step(), (torch.zeros(shape),)


@with_torch
@pytest.mark.parametrize(
    "kind",
    ["lstm", "bilstm", "lstm_bare", "gru", "conv", "upwards", "attention", "causal", "number", "numbers"],
)
def test_recurrent_convolving_and_attending_modules_are_traced_planned_and_proved(kind: str, tmp_path: Path) -> None:
    """spec: I2.1, I2.13, I2.14"""
    proved(convert(tracer.trace(lambda: network(kind), kind)), tmp_path)


@with_torch
@pytest.mark.parametrize("kind", ["rows", "pair"])
def test_a_loss_that_is_no_number_is_refused(kind: str) -> None:
    """spec: I2.12"""
    with pytest.raises(TmmuError, match="expected a loss of one number"):
        convert(tracer.trace(lambda: network(kind), kind))


@with_torch
def test_a_parameter_without_gradient_is_named_unless_it_is_frozen() -> None:
    with pytest.raises(TmmuError, match=r"parameter 'spare.weight': "):
        convert(tracer.trace(unused, "m"))
    convert(tracer.trace(frozen, "m"))
    with pytest.raises(TmmuError, match=r"parameter 'a.weight': .* meta"):
        tracer.trace(on_meta, "m")


@with_torch
def test_the_command_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "m.ir.cbor")
    assert run(["trace", "torch", f"{__file__}:mlp", "-o", target]) == 0
    assert "(11 forward, 20 backward, 0 optimizer)" in capsys.readouterr().out
    assert files.load(target).name.startswith("mlp (torch ")
