"""Training steps of JAX functions, traced on shapes alone: jaxprs as plain traces.

A jaxpr is functional and has no storages: every result has bytes of its own, but for those that show an operand's
bytes in row-major order (reshape, squeeze, an expansion by dimensions of one). XLA fuses and lays out anew, so what is
planned from a jaxpr is above what XLA needs. Calls (pjit, custom_vjp, checkpoint) are inlined; scan, while and cond
keep their bodies, what these are given as constants becomes a capture. jax is imported when a trace is asked for.
spec: T8.2, T8.3, T8.6, T8.9, M2.2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tmmu.importers.conversion import bad
from tmmu.importers.jax_reader import JaxprReader
from tmmu.importers.traced import TrainingTrace


class JaxUpdate(NamedTuple):
    """An optimizer: `state(parameters)` is any tree of arrays, `step(parameters, gradients, state)` new parameters and
    a new state, trees of the same shapes. The initializer and the update of a library's optimizer fit here.
    """

    state: Callable[[Any], Any]
    step: Callable[[Any, Any, Any], tuple[Any, Any]]


class JaxTraining(NamedTuple):
    """What a callable that is traced returns; a plain tuple will do as well.

    `loss(parameters, *arguments)` is a scalar. `parameters` is any tree of arrays or `jax.ShapeDtypeStruct`, as is
    each of `arguments`. `note` is kept in the model's name.
    """

    loss: Callable[..., Any]
    parameters: Any
    arguments: Sequence[Any] = ()
    note: str = ""
    update: JaxUpdate | None = None


def adam() -> JaxUpdate:
    """Adam with two states for each parameter and the number of the step."""
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
    """The forward and backward graph of one training step, and the update of the parameters if there is one.

    Forward and backward are the jaxpr of the loss and its pull-back. An update is a function that returns new arrays:
    each is computed, and at the end copied into the parameter or state that it replaces, which is donated.

    Parameters
    ----------
    make
        Called once. It returns `JaxTraining`, or a tuple of its fields.
    name
        The model's name.

    Raises
    ------
    TmmuError
        INVALID_IR where `make` returns something else, a parameter is not floating, a primitive has a body that is not
        understood, or an update returns other trees than it is given; INVALID_IR_SHAPES for an element type without
        bytes.

    Notes
    -----
    `spec/tmmu.md` M2.2, T8.2, I2.11. The gradient that backward begins with is the input `loss.seed`.
    """
    import jax

    training = _training(make())
    parameters = _leaves(jax, training.parameters, "parameter")
    for place, leaf in parameters:
        if not jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact):
            what = f"its elements are {leaf.dtype}, which has no gradient"
            raise bad(f"parameter {place!r}", what, "pass it as an argument")
    arguments = _leaves(jax, tuple(training.arguments), "input")

    def step(parameters: Any, arguments: Any, seed: Any) -> Any:
        value, pull = jax.vjp(lambda p: training.loss(p, *arguments), parameters)
        return value, pull(seed)[0]

    result = jax.eval_shape(training.loss, training.parameters, *training.arguments)
    if getattr(result, "shape", None) != ():
        raise bad(
            "the callable", "its loss is not one number", "return (loss, parameters, arguments) with a scalar loss"
        )
    closed = jax.make_jaxpr(step)(training.parameters, tuple(training.arguments), result)
    note = f"{training.note}; " if training.note else ""
    reader = JaxprReader(TrainingTrace(name=f"{name} ({note}jax {jax.__version__})"))
    reader.main(closed, [place for place, _ in parameters], [f"input{place}" for place, _ in arguments])
    if training.update is not None:
        _updated(jax, reader, training.update, training.parameters, [place for place, _ in parameters])
    return reader.trace


def _updated(jax: Any, reader: JaxprReader, update: JaxUpdate, parameters: Any, places: list[str]) -> None:
    """Read the update of all parameters, and of the optimizer's state."""
    state = jax.eval_shape(update.state, parameters)
    kept = [f"state.{place}" for place, _ in _leaves(jax, state, "state")]
    returned = jax.eval_shape(update.step, parameters, parameters, state)
    given, made = (
        [(jax.tree.structure(tree), [(x.shape, x.dtype) for x in jax.tree.leaves(tree)]) for tree in trees]
        for trees in ((parameters, state), returned if isinstance(returned, tuple) else (returned,))
    )
    if given != made:
        what = "it does not return parameters and a state of the shapes that it is given"
        raise bad("the update", what, "return (parameters, state), each a tree like the one before")
    reader.update(jax.make_jaxpr(update.step)(parameters, parameters, state), places, kept)


def _leaves(jax: Any, tree: Any, what: str) -> list[tuple[str, Any]]:
    """The arrays of a tree by name: the keys that lead to each, joined by points."""
    found = []
    for k, (path, leaf) in enumerate(jax.tree_util.tree_flatten_with_path(tree)[0]):
        place = jax.tree_util.keystr(path, simple=True, separator=".") or f"{what}{k}"
        if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
            raise bad(f"{what} {place!r}", f"it is {type(leaf).__name__}, not an array", "give a jax.ShapeDtypeStruct")
        found.append((place, leaf))
    return found


def _training(made: Any) -> JaxTraining:
    if isinstance(made, (tuple, list)) and 2 <= len(made) <= 5 and callable(made[0]):
        training = JaxTraining(*made)
        if isinstance(training.arguments, (tuple, list)):
            return training
    what = f"it returned {type(made).__name__}, not a loss with its parameters"
    raise bad(
        "the callable", what, "return (loss, parameters, (argument, ...)), where loss(parameters, ...) is a scalar"
    )
