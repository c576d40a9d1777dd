"""Reading a model for planning: ONNX through the importer, IR files as they are. spec: C2.6, T10.7"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tmmu.errors import TmmuError
from tmmu.ir import files, order, validate
from tmmu.vocabulary import Bindings, Model


def load(
    path: str,
    dims: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, str],
    donate: Sequence[str],
    trust_shapes: bool,
    ranges: Mapping[str, tuple[int, int]] = {},
) -> Model:
    """The model at `path`, valid and in execution order, with every binding applied."""
    if path.endswith(".cbor"):
        return _ir(path, {**dims, **ranges}, shapes, values, donate, trust_shapes)
    try:
        from tmmu.importers.onnx import import_onnx
    except ImportError as error:
        raise TmmuError("INVALID_IR", "reading ONNX needs the package onnx", fix="pip install 'tmmu[onnx]'") from error
    try:
        model = import_onnx(
            path, dims=dims, shapes=shapes, values=values, ranges=ranges, donate=donate, trust_shapes=trust_shapes
        )
        return order.stable_topological(model)
    except TmmuError as error:
        error.in_file(path)
        raise


def _ir(
    path: str,
    dims: Mapping[str, object],
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, str],
    donate: Sequence[str],
    trust_shapes: bool,
) -> Model:
    """An IR file states every shape: only donation can still be bound."""
    model = files.load(path)
    given = [*dims, *shapes, *values, *(["--trust-shapes"] if trust_shapes else [])]
    if given:
        raise TmmuError(
            "INVALID_BINDING",
            f"{given[0]!r} binds nothing: an IR file states every shape",
            file=path,
            fix="drop the flag",
        )
    return replace(model, bindings=donated(model, donate, path)) if donate else model


def donated(model: Model, names: Sequence[str], path: str) -> Bindings:
    """The model's bindings with `names` donated; each must be a tensor that the caller writes."""
    callers = {model.tensors[t].name for t in model.inputs} | {
        tensor.name for tensor in model.tensors if tensor.role in validate.CALLERS
    }
    for name in names:
        if name not in callers:
            raise TmmuError(
                "INVALID_BINDING",
                f"--donate {name}: no graph input or parameter has this name",
                file=path,
                fix=f"donate one of {', '.join(sorted(callers)[:8])}",
                binding=name,
            )
    return replace(model.bindings, donated=tuple(sorted(set(model.bindings.donated) | set(names))))
