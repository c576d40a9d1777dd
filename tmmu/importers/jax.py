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


class JaxTraining(NamedTuple):
    """What a callable that is traced returns; a plain tuple will do as well.

    `loss(parameters, *arguments)` is a scalar. `parameters` is any tree of arrays or `jax.ShapeDtypeStruct`, as is
    each of `arguments`. `note` is kept in the model's name.
    """

    loss: Callable[..., Any]
    parameters: Any
    arguments: Sequence[Any] = ()
    note: str = ""


def trace(make: Callable[[], JaxTraining | Sequence[Any]], name: str) -> TrainingTrace:
    """The forward and backward graph of one training step, from the jaxpr of the loss and its pull-back.

    Parameters
    ----------
    make
        Called once. It returns `JaxTraining`, or a tuple of its fields.
    name
        The model's name.

    Raises
    ------
    TmmuError
        INVALID_IR where `make` returns something else, a parameter is not floating, or a primitive has a body that is
        not understood; INVALID_IR_SHAPES for an element type without bytes.

    Notes
    -----
    `spec/tmmu.md` M2.2, T8.2. The gradient that backward begins with is the input `loss.seed`.
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
    return reader.trace


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
    if isinstance(made, (tuple, list)) and 2 <= len(made) <= 4 and callable(made[0]):
        training = JaxTraining(*made)
        if isinstance(training.arguments, (tuple, list)):
            return training
    what = f"it returned {type(made).__name__}, not a loss with its parameters"
    raise bad(
        "the callable", what, "return (loss, parameters, (argument, ...)), where loss(parameters, ...) is a scalar"
    )
