"""Check that a model's tables are consistent: indices are rows, names are used once. Name the bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, Body, Model


def inner_bodies(model: Model) -> Iterator[tuple[int, Body]]:
    """Yield the bodies except the main graph, with their indices."""
    return ((index, body) for index, body in enumerate(model.bodies) if index != MAIN)


def body_names(model: Model) -> list[str]:
    """Return the name of each body, `owner/attribute`; empty for the main graph."""
    return ["", *(f"{model.nodes[body.owner].name}/{body.attribute}" for _, body in inner_bodies(model))]


def check_indices(model: Model) -> None:
    """Refuse an index that is not a row: Python would read a negative one from the end."""
    if not model.bodies or model.bodies[MAIN].owner != -1:
        raise invalid("body 0 is not the main graph", model.name)
    tensors, nodes, bodies = (range(len(rows)) for rows in (model.tensors, model.nodes, model.bodies))
    for node in model.nodes:
        rows = chain(node.reads, node.writes, node.mutates, chain.from_iterable(node.in_place))
        if node.body not in bodies or any(row not in tensors for row in rows):
            raise invalid("the node names a tensor or body that does not exist", node.name)
    for index, body in enumerate(model.bodies):
        if any(row not in tensors for row in chain(body.inputs, body.outputs)):
            raise invalid("the body names a tensor that does not exist", f"body {index}")
        if index != MAIN and body.owner not in nodes:
            raise invalid("the owner of the body does not exist", f"body {index}")
    for tensor in model.tensors:
        if tensor.view is not None and tensor.view.base not in tensors:
            raise invalid("the base of the view does not exist", tensor.name)
    if any(row not in tensors for row in chain.from_iterable(model.must_not_alias)):
        raise invalid("must_not_alias names a tensor that does not exist", model.name)


def check_names(model: Model) -> None:
    """Refuse names that are empty or used twice: plan and model identify tensors and nodes by them."""
    for what, names in (("node", [node.name for node in model.nodes]), ("body", body_names(model))):
        for name, count in Counter(names).items():
            if count > 1 or (what == "node" and not name):
                raise invalid(f"the name of a {what} is empty or used twice", name)


def invalid(what: str, place: str, fix: str | None = None) -> TmmuError:
    """Return the refusal of a model, by the node or tensor at fault."""
    return TmmuError("INVALID_IR", what, place=place, fix=fix, node_id=place)
