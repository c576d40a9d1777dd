"""IR files: a model as one canonical CBOR object (`spec/ir.cddl`) or as text (`spec/text-ir.md`), read strictly."""

from __future__ import annotations

import os

from tmmu.core import canonical, kind
from tmmu.core.columns import disable_collector
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.ir import columns, order, text, validate

LIMIT = 1 << 32
"""The largest IR file that is read, in bytes."""


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write `model` to `path` atomically."""
    canonical.write_atomically(path, canonical.encode(columns.to_object(model)))


def load(path: str | os.PathLike[str]) -> Model:
    """Read and validate the model at `path`, with its nodes in the stable topological order. spec: I1.1, I1.7

    Raises INVALID_IR, INVALID_IR_SHAPES or LIVENESS_CYCLE with the file and the place named.
    """
    name = os.fspath(path)
    try:
        data = canonical.read_bounded(path, LIMIT, "INVALID_IR")
        is_text = name.endswith(".ir.txt") or kind.text_kind(data[: kind.HEAD]) == kind.IR
        with disable_collector():
            model = text.read(data, name) if is_text else _decode(data)
            validate.validate_model(model)
            return order.sort_topologically(model)
    except TmmuError as error:
        error.in_file(name)
        raise


def _decode(data: bytes) -> Model:
    try:
        value = canonical.decode(data, "IR")
    except TmmuError as error:
        raise TmmuError("INVALID_IR", error.what, fix=error.fix) from error
    return columns.from_object(value)
