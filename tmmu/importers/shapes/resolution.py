"""What the shapes of a model rest on: a file, the user's bindings, and the defaults that decided something.

The same file under the same bindings gives the same sizes, whoever asks: the importer, which makes a model of them,
and the checker, which compares a plan with them. spec: T10.1, T10.2
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from tmmu.errors import TmmuError
from tmmu.importers.shapes.binding import bind
from tmmu.importers.shapes.operators import Array, Operators
from tmmu.importers.shapes.reading import read
from tmmu.importers.shapes.sizes import Size
from tmmu.importers.shapes.stated import StatedShapes
from tmmu.importers.shapes.structure import structure
from tmmu.importers.shapes.walk import Walk
from tmmu.vocabulary import Bindings


@dataclass(frozen=True)
class Resolved:
    """A model file with the size of every tensor that a run of it makes.

    `graph` is the user's own model with its local functions inlined (and without the data of large weights);
    `source_digest` the SHA-256 of the file. `sizes` gives shape and element type by scoped name; `ruled_out` the bodies
    that a folded condition rules out, which have no steps; `unproduced` the outputs of T9 by scoped name; `bindings`
    what the user and the defaults fixed, where `trust_shapes` says whether a stated shape was indeed needed.
    """

    path: str
    graph: onnx.ModelProto
    source_digest: bytes
    sizes: Mapping[str, Size]
    ruled_out: frozenset[str]
    unproduced: frozenset[str]
    bindings: Bindings


def resolve(
    path: str | os.PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Mapping[str, str] | None = None,
    trust_shapes: bool = False,
) -> Resolved:
    """The size of every tensor of the ONNX model at `path` under the given bindings (`spec/tmmu.md` T10).

    Parameters
    ----------
    path
        The model; weight files beside it are never opened.
    dims, shapes, values
        Named dimensions, shapes of graph inputs, and values of small graph inputs as text (numbers with commas between
        them).
    trust_shapes
        Believe a shape that the file states where nothing else tells it.

    Raises
    ------
    TmmuError
        INVALID_IR, LIVENESS_CYCLE, INVALID_IR_SHAPES, ALLOCATION_OVERFLOW or INVALID_BINDING: what is wrong, where,
        and the flag or change that mends it.

    Notes
    -----
    O(nodes + accesses), and at most `folding.TOTAL_LIMIT` bytes of arithmetic.
    """
    try:
        model, digest = read(path)
        found = structure(model.graph)
        further = StatedShapes.names(found) if trust_shapes else ()
        bound = bind(found.main, dims or {}, shapes or {}, values or {}, further)
        believed = StatedShapes(bound.dims) if trust_shapes else None
        walk = Walk(Operators(model), found, bound, believed)
        walk.run()
    except TmmuError as error:
        raise error.in_file(os.fspath(path)) from error.__cause__
    defaults = {name: _text(walk.defaults[name]) for name in sorted(walk.defaults)}
    used = believed is not None and believed.used
    bindings = Bindings(dict(dims or {}), dict(shapes or {}), dict(values or {}), defaults, (), used)
    return Resolved(
        os.fspath(path), model, digest, walk.sizes, frozenset(walk.ruled_out), frozenset(walk.unproduced), bindings
    )


def _text(array: Array) -> str:
    """A default's value as text, shortened where it is long."""
    text = json.dumps(array.tolist(), separators=(",", ":"))
    return text if len(text) <= 1000 else f"{text[:1000]}... ({array.size} elements)"
