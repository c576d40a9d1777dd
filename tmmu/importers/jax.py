"""Training steps of JAX functions, traced on shapes only: jaxprs as plain traces.

A jaxpr is functional and has no storages: every result has separate bytes, except results that show the bytes of an
operand in row-major order (reshape, squeeze, an expansion by dimensions of one). XLA fuses and lays out anew, so the
plan of a jaxpr needs more than XLA does. Calls (pjit, custom_vjp, checkpoint) are inlined; scan, while and cond keep
their bodies, and their constants become captures. jax is imported when a trace is requested.
spec: T8.2, T8.3, T8.6, T8.9, M2.2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tmmu.importers.conversion import bad
from tmmu.importers.jax_reader import JaxprReader
from tmmu.importers.traced import TrainingTrace


class JaxUpdate(NamedTuple):
    """An optimizer: `state(parameters)` returns any tree of arrays.

    `step(parameters, gradients, state)` returns new parameters and a new state, trees of the same shapes. The
    initializer and the update of a library's optimizer fit here.
    """

    state: Callable[[Any], Any]
    step: Callable[[Any, Any, Any], tuple[Any, Any]]


class JaxTraining(NamedTuple):
    """The result of a callable that is traced; a plain tuple works too.

    `loss(parameters, *arguments)` is a scalar. `parameters` is any tree of arrays or `jax.ShapeDtypeStruct`, as is each
    of `arguments`. `note` is added to the name of the model.
    """

    loss: Callable[..., Any]
    parameters: Any
    arguments: Sequence[Any] = ()
    note: str = ""
    update: JaxUpdate | None = None


def adam() -> JaxUpdate:
    """Build Adam, with two states for each parameter and the number of the step."""
    import jax
    from jax import numpy as jnp

    def state(parameters: Any) -> Any:
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return {"mean": zeros, "square": zeros, "count": jnp.zeros((), jnp.int32)}

    def step(parameters: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        count = state["count"] + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradients)
        square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state["square"], gradients)
        rate = 1e-3 * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        moved = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), parameters, mean, square)
        return moved, {"mean": mean, "square": square, "count": count}

    return JaxUpdate(state, step)


def trace(make: Callable[[], JaxTraining | Sequence[Any]], name: str) -> TrainingTrace:
    """Trace the forward and backward graph of one training step, and the update of the parameters if there is one.

    Forward and backward are the jaxpr of the loss and its pull-back. An update is a function that returns new arrays:
    each is computed, and at the end copied into the parameter or state that it replaces, which is donated.

    Parameters
    ----------
    make
        A function that is called once. It returns `JaxTraining`, or a tuple of its fields.
    name
        The name of the model.

    Raises
    ------
    TmmuError
        INVALID_IR if `make` returns something else, a parameter is not floating-point, a primitive has an unsupported
        body, or an update returns other trees than it is given; INVALID_IR_SHAPES for an element type without bytes.

    Notes
    -----
    `spec/tmmu.md` M2.2, T8.2, I2.11. The gradient with which backward begins is the input `loss.seed`.
    """
    import jax

    training = _check_training(make())
    parameters = _list_leaves(jax, training.parameters, "parameter")
    for place, leaf in parameters:
        if not jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact):
            what = f"expected floating-point elements, which have a gradient, got {leaf.dtype}"
            raise bad(f"parameter {place!r}", what, "pass it as an argument")
    arguments = _list_leaves(jax, tuple(training.arguments), "input")

    def step(parameters: Any, arguments: Any, seed: Any) -> Any:
        value, pull = jax.vjp(lambda p: training.loss(p, *arguments), parameters)
        return value, pull(seed)[0]

    result = jax.eval_shape(training.loss, training.parameters, *training.arguments)
    if getattr(result, "shape", None) != ():
        raise bad("the callable", "its loss is not a scalar", "return (loss, parameters, arguments) with a scalar loss")
    closed = jax.make_jaxpr(step)(training.parameters, tuple(training.arguments), result)
    note = f"{training.note}; " if training.note else ""
    reader = JaxprReader(TrainingTrace(name=f"{name} ({note}jax {jax.__version__})"))
    reader.main(closed, [place for place, _ in parameters], [f"input{place}" for place, _ in arguments])
    if training.update is not None:
        _read_update(jax, reader, training.update, training.parameters, [place for place, _ in parameters])
    return reader.trace


def _read_update(jax: Any, reader: JaxprReader, update: JaxUpdate, parameters: Any, places: list[str]) -> None:
    """Read the update of all parameters, and of the state of the optimizer."""
    state = jax.eval_shape(update.state, parameters)
    kept = [f"state.{place}" for place, _ in _list_leaves(jax, state, "state")]
    returned = jax.eval_shape(update.step, parameters, parameters, state)
    given, made = (
        [(jax.tree.structure(tree), [(x.shape, x.dtype) for x in jax.tree.leaves(tree)]) for tree in trees]
        for trees in ((parameters, state), returned if isinstance(returned, tuple) else (returned,))
    )
    if given != made:
        what = "it does not return parameters and a state of the shapes of its arguments"
        raise bad("the update", what, "return (parameters, state), each a tree like the one before")
    reader.update(jax.make_jaxpr(update.step)(parameters, parameters, state), places, kept)


def _list_leaves(jax: Any, tree: Any, what: str) -> list[tuple[str, Any]]:
    """Return the arrays of a tree by name: the keys that lead to each, joined by points."""
    found = []
    for k, (path, leaf) in enumerate(jax.tree_util.tree_flatten_with_path(tree)[0]):
        place = jax.tree_util.keystr(path, simple=True, separator=".") or f"{what}{k}"
        if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
            raise bad(
                f"{what} {place!r}", f"expected an array, got {type(leaf).__name__}", "give a jax.ShapeDtypeStruct"
            )
        found.append((place, leaf))
    return found


def _check_training(made: Any) -> JaxTraining:
    if isinstance(made, (tuple, list)) and 2 <= len(made) <= 5 and callable(made[0]):
        training = JaxTraining(*made)
        if isinstance(training.arguments, (tuple, list)):
            return training
    what = f"expected a loss with its parameters, got {type(made).__name__}"
    raise bad(
        "the callable", what, "return (loss, parameters, (argument, ...)), where loss(parameters, ...) is a scalar"
    )
