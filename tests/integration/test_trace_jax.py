"""Jaxprs as traces: by stand-ins for equations, and by JAX itself where it is installed.

Without JAX the tests below the line are left out: pip install '.[jax]' brings them in.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace as Thing
from typing import Any

import pytest

from tests.support.traced import lines, proved, runs, sharded
from tmmu.cli.entry import run
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Phase, Role
from tmmu.importers import jax as tracer
from tmmu.importers.conversion import convert
from tmmu.importers.jax_reader import JaxprReader
from tmmu.importers.traced import TrainingTrace
from tmmu.ir import files


class Dtype(str):
    """An element type by its name."""

    @property
    def itemsize(self) -> int:
        return int(self.lstrip("abcdefghijklmnopqrstuvwxyz") or 8) // 8


class Var:
    """A variable of a jaxpr."""

    def __init__(self, *shape: int, dtype: str = "float32") -> None:
        size = 1
        for dim in shape:
            size *= dim if isinstance(dim, int) else 1
        self.aval = Thing(shape=shape, dtype=Dtype(dtype), size=size)


class Literal(Var):
    """A literal of a jaxpr."""

    val = 0.0


def eqn(kind: str, invars: list[Any], *outvars: Var, **params: Any) -> Thing:
    return Thing(primitive=Thing(name=kind), invars=invars, outvars=list(outvars), params=params)


def closed(invars: list[Var], outvars: list[Any], *eqns: Thing, consts: tuple[Var, ...] = ()) -> Thing:
    inner = Thing(invars=invars, outvars=outvars, eqns=list(eqns), constvars=list(consts))
    return Thing(jaxpr=inner)


W, X, SEED, LOSS, GRADIENT = Var(4, 4), Var(4, 4), Var(), Var(), Var(4, 4)
ENDS = (eqn("reduce_sum", [X], LOSS, jaxpr=closed([], [])), eqn("broadcast_in_dim", [SEED], GRADIENT))


def read(*eqns: Thing, consts: tuple[Var, ...] = (), outvars: list[Any] | None = None) -> TrainingTrace:
    reader = JaxprReader(TrainingTrace("hand"))
    outvars = [LOSS, GRADIENT] if outvars is None else outvars
    reader.main(closed([W, X, SEED], outvars, *ENDS, *eqns, consts=consts), ["w"], ["input0"])
    return reader.trace


def views(model: Model) -> set[str]:
    return {tensor.name for tensor in model.tensors if tensor.view is not None}


def test_a_step_is_read_with_its_parameters_seed_and_gradients() -> None:
    trace = read(eqn("add", [X, Literal()], Var(4, 4)), consts=(Var(2),))
    assert trace.given == {
        "w": Role.PARAMETER, "input0": Role.INPUT, "loss.seed": Role.INPUT, "constant": Role.PARAMETER,
    }  # fmt: skip
    model = convert(trace)
    assert lines(model) == [
        "f reduce_sum: input0 -> reduce_sum", "b broadcast_in_dim: loss.seed -> w.grad", "b add: input0 -> add",
    ]  # fmt: skip
    assert len(model.nodes[2].in_place) == 1


def test_what_shows_its_operand_in_row_major_order_is_a_view() -> None:
    a, b, c, d, e, f, g, h = Var(16), Var(1, 16), Var(16), Var(16, dtype="int32"), Var(16), Var(16), Var(16), Var(16)
    model = convert(
        read(
            eqn("reshape", [X], a, dimensions=None),
            eqn("expand_dims", [a], b),
            eqn("squeeze", [b], c),
            eqn("bitcast_convert_type", [c], d),
            eqn("name", [c], e),
            eqn("reshape", [X], f, dimensions=(1, 0)),
            eqn("broadcast_in_dim", [SEED], g),
            eqn("bitcast_convert_type", [g], Var(16, dtype="float64")),
            eqn("optimization_barrier", [f, g], h, Var(16)),
            eqn("transpose", [X], Var(4, 4)),
            eqn("reshape", [Literal()], Var(1), dimensions=None),
        )
    )
    assert views(model) == {
        "reshape", "expand_dims", "squeeze", "bitcast_convert_type", "name", "optimization_barrier.0",
        "optimization_barrier.1",
    }  # fmt: skip


def test_calls_are_inlined_and_literals_that_are_returned_are_written() -> None:
    a, r, k, p, q = Var(4, 4), Var(4, 4), Var(3), Var(4, 4), Var()
    inner = closed([a, k], [r, Literal()], eqn("mul", [a, k], r), consts=(Var(2),))
    call = eqn("pjit", [X, Literal(3)], p, q, jaxpr=inner)
    again = eqn("checkpoint", [p, q], Var(4, 4), Var(), jaxpr=inner.jaxpr)
    trace = read(call, again, outvars=[q, GRADIENT])
    assert [op.name for op in trace.ops[2:]] == ["mul", "literal", "mul_1", "literal_1"]
    assert trace.ops[2].reads == ("input0",)
    assert trace.ops[4].reads == ("mul", "literal")
    assert trace.outputs[0] == "literal"


def test_loops_and_branches_keep_their_bodies_and_capture_what_is_constant(tmp_path: Path) -> None:
    """spec: T8.2, T8.3, T8.9"""
    c, x, h, y = Var(4, 4), Var(4), Var(4, 4), Var(4)
    scan = closed([c, h, x], [h, y], eqn("dot", [c, x], y), eqn("reshape", [h], Var(16), dimensions=None))
    carried = Var(4, 4)
    n, m, going = Var(), Var(), Var(dtype="bool")
    test = closed([n], [going], eqn("lt", [n, Literal()], going))
    b, o, more = Var(4, 4), Var(), Var()
    body = closed([b, o], [more], eqn("add", [o, b], more))
    index, picked, operand, other = Var(dtype="int32"), Var(4, 4), Var(4, 4), Var(4, 4)
    branches = (closed([operand], [operand]), closed([other], [Literal(4, 4)]))
    rows = Var(7, 4)
    trace = read(
        eqn("iota", [], rows),
        eqn("scan", [W, X, rows], carried, Var(7, 4), jaxpr=scan, num_consts=1, num_carry=1, length=7),
        eqn("while", [carried, Literal()], m, cond_jaxpr=test, body_jaxpr=body, cond_nconsts=0, body_nconsts=1),
        eqn("convert_element_type", [m], index),
        eqn("cond", [index, carried], picked, branches=branches),
    )
    assert [(r.owner, r.attribute, len(r.inputs), r.iterates) for r in trace.regions] == [
        ("scan", "body", 2, True), ("while", "cond", 1, True), ("while", "body", 1, True),
        ("cond", "branch0", 0, False), ("cond", "branch1", 0, False),
    ]  # fmt: skip
    model = convert(trace)
    assert "b scan/body/dot: w scan/body/given_1 -> scan/body/dot" in lines(model)
    assert views(model) == set(), "what a body is given is not viewed"
    assert [model.tensors[t].name for t in model.bodies[4].outputs] == ["scan.0"]
    proved(model, tmp_path)


def test_keys_of_random_numbers_have_their_words() -> None:
    key = Var(3)
    key.aval.dtype = type("Key", (), {"__str__": lambda _: "key<fry>", "_impl": Thing(key_shape=(2,))})()
    value = read(eqn("random_seed", [Literal()], key)).values["random_seed"]
    assert (value.shape, value.dtype) == ((3, 2), "uint32")


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        (eqn("shard_map", [X], Var(4), jaxpr=closed([], [])), "primitive 'shard_map': it contains a jaxpr"),
        (eqn("strange", [X], Var(4), inner=(closed([], []), 3)), "the number of its runs is not known"),
        (eqn("f", [X], Var(4, dtype="float8_e4m3b11fnuz")), "unknown dtype float8_e4m3b11fnuz"),
        (eqn("f", [X], Var("n")), "value 'f': its size is symbolic"),  # type: ignore[arg-type]  # a symbolic size
    ],
)
def test_what_is_not_understood_is_refused_by_name(equation: Thing, message: str) -> None:
    with pytest.raises(TmmuError, match=message):
        read(equation)


def test_new_arrays_are_copied_to_where_the_old_ones_were() -> None:
    """After all else; what lies where another copy goes is first copied to bytes of its own. spec: I2.11"""
    reader = JaxprReader(TrainingTrace("hand"))
    reader.main(closed([W, X, SEED], [LOSS, GRADIENT], *ENDS), ["w"], ["input0"])
    w, g, s, t, u, new = (Var(4, 4) for _ in range(6))
    reader.update(closed([w, g, s, t, u], [new, t, s, u], eqn("sub", [w, g], new)), ["w"], ["s", "t", "u"])
    steps = [(op.op, *op.reads, "->", *op.results, *op.changes) for op in reader.trace.ops if op.optimizer]
    assert [" ".join(step) for step in steps] == [
        "sub w broadcast_in_dim -> sub", "copy t -> copy", "copy s -> copy_1",
        "copy sub -> w", "copy copy -> s", "copy copy_1 -> t",
    ]  # fmt: skip
    assert reader.trace.outputs == ["reduce_sum"]
    model = convert(reader.trace)
    assert model.bindings.donated == ("s", "t", "w")
    assert {x.name: x.role for x in model.tensors if x.role is Role.OPTIMIZER}.keys() == {"s", "t", "u"}


def test_names_that_meet_are_refused() -> None:
    reader = JaxprReader(TrainingTrace("hand"))
    with pytest.raises(TmmuError, match="two leaves have this name"):
        reader.main(closed([W, X, SEED], [LOSS, GRADIENT]), ["w"], ["w"])
    reader = JaxprReader(TrainingTrace("hand"))
    result = closed([W, X, SEED], [], eqn("scan", [X], Var(1), num_consts=0, jaxpr=closed([Var()], [])))
    with pytest.raises(TmmuError, match=r"value 'scan.0': "):
        reader.main(result, ["scan.0"], ["x"])


@pytest.mark.parametrize("made", [3, None, (1, 2), (len,), (len, 1, 2)])
def test_a_callable_that_returns_no_training_step_is_refused(made: Any) -> None:
    with pytest.raises(TmmuError, match=r"expected a loss with its parameters"):
        tracer._check_training(made)


# Below: with JAX alone.

HERE = importlib.util.find_spec("jax") is not None
with_jax = pytest.mark.skipif(not HERE, reason="jax is not installed")  # an extra of 600 MB, which CI does without


def network() -> Any:
    import jax
    from jax import numpy as jnp

    shape = jax.ShapeDtypeStruct

    def loss(p: Any, tokens: Any, n: Any) -> Any:
        @jax.checkpoint
        def layer(h: Any, w: Any) -> Any:
            return jax.nn.gelu(h @ w) + h, jnp.sum(h)

        h, sums = jax.lax.scan(layer, p["embedding"][tokens], p["layers"])
        h = jax.lax.cond(n > 2, lambda a: a @ p["layers"][0], lambda a: a, h)
        k = jax.lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[2], c[1]), (0, jax.lax.stop_gradient(h), h * 0)
        )
        kept = h * jax.random.bernoulli(jax.random.key(0), 0.5, h.shape)
        return jnp.mean(jax.nn.log_softmax(kept)) + sums.sum() + jax.lax.stop_gradient(k[1]).sum()

    parameters = {"embedding": shape((10, 8), "float32"), "layers": shape((6, 8, 8), "float32")}
    return loss, parameters, (shape((4, 5), "int32"), shape((), "int32")), "a scan of six layers"


def counts() -> Any:
    import jax

    return (lambda p: p.sum() * 1.0), jax.ShapeDtypeStruct((3,), "int32")


def vector() -> Any:
    import jax

    return (lambda p: p), jax.ShapeDtypeStruct((3,), "float32")


def number() -> Any:
    return (lambda p: p), 3.0


@with_jax
def test_a_function_is_traced_planned_and_proved(tmp_path: Path) -> None:
    model = convert(tracer.trace(network, "network"))
    assert model == convert(tracer.trace(network, "network"))
    assert {"embedding", "embedding.grad", "layers.grad", "input0", "loss.seed"} <= {t.name for t in model.tensors}
    assert {node.phase for node in model.nodes} == {Phase.FORWARD, Phase.BACKWARD}
    assert {node.op for node in model.nodes} >= {"scan", "cond", "while"}
    for mode in ("backward", "forward", "inference"):
        proved(model, tmp_path, mode)


def layers(update: Any) -> Any:
    """A training step of two layers with an update."""
    import jax
    from jax import numpy as jnp

    def loss(p: Any, x: Any, y: Any) -> Any:
        return jnp.mean((jax.nn.relu(x @ p["w"] + p["b"]) @ p["v"] - y) ** 2)

    sizes = {"w": (8, 16), "b": (16,), "v": (16, 4)}
    parameters = {name: jax.ShapeDtypeStruct(size, "float32") for name, size in sizes.items()}
    arguments = tuple(jax.ShapeDtypeStruct(size, "float32") for size in ((32, 8), (32, 4)))
    return tracer.JaxTraining(loss, parameters, arguments, update=update)


def with_adam() -> Any:
    return layers(tracer.adam())


def with_sgd() -> Any:
    import jax

    def step(p: Any, g: Any, _: Any) -> Any:
        return jax.tree.map(lambda w, d: w - 0.1 * d, p, g), ()

    return layers(tracer.JaxUpdate(lambda _: (), step))


def with_turns() -> Any:
    """Each of two states becomes what the other was, one of them as a view; a third stays as it is."""
    import jax

    def state(p: Any) -> Any:
        return (p["v"], p["v"].reshape(4, 16), p["b"])

    def step(p: Any, g: Any, s: Any) -> Any:
        moved = jax.tree.map(lambda w, d: w - d, p, g)
        return moved, (s[1].reshape(16, 4), s[0].reshape(4, 16), s[2])

    return layers(tracer.JaxUpdate(state, step))


@with_jax
@pytest.mark.parametrize(("make", "changed"), [(with_adam, 3 * 3 + 1), (with_sgd, 3), (with_turns, 3 + 2)])
def test_an_update_changes_parameters_and_states_at_its_end(make: Any, changed: int, tmp_path: Path) -> None:
    """spec: I2.11"""
    model = convert(tracer.trace(make, "layers"))
    update = [node for node in model.nodes if node.phase is Phase.OPTIMIZER]
    assert sum(len(node.mutates) for node in update) == len(model.bindings.donated) == changed
    assert all(node.mutates for node in update[-changed:])
    assert {model.tensors[t].role for node in update for t in node.mutates} <= {Role.PARAMETER, Role.OPTIMIZER}
    assert [model.tensors[t].bytes for t in model.outputs] == [4], "the loss; gradients are the update's"
    proved(model, tmp_path)
    runs(model, tmp_path)
    if make is with_adam:
        sharded(model, tmp_path)


def other_trees() -> Any:
    return layers(tracer.JaxUpdate(lambda p: p, lambda p, _, s: (p, s["w"])))


def no_pair() -> Any:
    return layers(tracer.JaxUpdate(lambda p: p, lambda p, _, s: p))


@with_jax
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (counts, "parameter 'parameter0': expected floating-point elements, which have a gradient, got int32"),
        (vector, "its loss is not a scalar"),
        (number, "parameter 'parameter0': expected an array, got float"),
        (other_trees, "the update: it does not return parameters and a state of the shapes of its arguments"),
        (no_pair, "the update: it does not return parameters and a state"),
    ],
)
def test_a_step_without_gradients_is_refused(make: Any, message: str) -> None:
    with pytest.raises(TmmuError, match=message):
        tracer.trace(make, "m")


@with_jax
def test_the_command_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "m.ir.cbor")
    assert run(["trace", "jax", f"{__file__}:network", "-o", target]) == 0
    assert "a scan of six layers; jax " in capsys.readouterr().out
    assert files.load(target).name.startswith("network (")
