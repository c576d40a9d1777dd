"""Reading a model for planning: ONNX through the importer, IR files as they are. spec: C2.6, T10.7"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tmmu.core import kind
from tmmu.core.errors import NotOfModel, TmmuError
from tmmu.core.output import suggest_names
from tmmu.core.vocabulary import UNBOUND, Bindings, Model
from tmmu.ir import files, order, validate
from tmmu.planner.patterns import match_pattern

if TYPE_CHECKING:
    from tmmu.onnx import Resolved


def load(path: str, bindings: Bindings = UNBOUND) -> Model:
    """The model at `path`, valid and in execution order, with every binding applied; `donated` may be patterns."""
    return load_resolved(path, bindings)[0]


def load_resolved(path: str, bindings: Bindings = UNBOUND) -> tuple[Model, Resolved | None]:
    """The same, and what shape inference gives for an ONNX file."""
    if kind.is_ir(path):
        model = _ir(path, bindings)
        return replace(model, bindings=_caller_bindings(model, bindings, path)), None
    from tmmu.importers.onnx import import_resolved
    from tmmu.onnx import resolve

    try:
        resolved = resolve(path, bindings)
        model = import_resolved(resolved)
        model = replace(model, bindings=_caller_bindings(model, bindings, path))
        return order.sort_topologically(model), resolved
    except TmmuError as error:
        error.in_file(path)
        raise


def _ir(path: str, bindings: Bindings) -> Model:
    """An IR file states every shape: only what becomes of the inputs can still be bound."""
    model = files.load(path)
    what, fix = "binds nothing: an IR file states every shape", "drop the flag"
    if bindings.runtime is not None:
        raise TmmuError("INVALID_BINDING", f"--as {bindings.runtime.name} goes with an ONNX file", file=path, fix=fix)
    given = [*bindings.dims, *bindings.ranges, *bindings.shapes, *bindings.values, *bindings.stated]
    if given:
        raise NotOfModel(f"{given[0]!r} {what}", given[0], file=path, fix=fix)
    if bindings.trust_shapes:
        raise TmmuError("INVALID_BINDING", f"'--trust-shapes' {what}", file=path, fix=fix)
    return model


def _caller_bindings(model: Model, asked: Bindings, path: str) -> Bindings:
    """Return the model's bindings with what the caller gives up or keeps. Raises as `donate_matching`."""
    found = donate_matching(model, asked.donated, path)
    return replace(found, keep_inputs=found.keep_inputs or asked.keep_inputs)


def donate_matching(model: Model, patterns: Sequence[str], path: str) -> Bindings:
    """Return the model's bindings with everything donated that a pattern fits; `*` is any text.

    Raises INVALID_BINDING for a pattern that does not fit an input that the caller writes. O(tensors x patterns).
    """
    if not patterns:
        return model.bindings
    callers = {model.tensors[t].name for t in model.inputs} | {
        tensor.name for tensor in model.tensors if tensor.role in validate.CALLERS
    }
    found = {*model.bindings.donated, *fitting(patterns, callers, path)}
    return replace(model.bindings, donated=tuple(sorted(found)))


def fitting(patterns: Iterable[str], callers: Collection[str], path: str) -> set[str]:
    """Return the inputs that patterns of --donate fit. Raises INVALID_BINDING for a pattern that fits none."""
    found = set[str]()
    for pattern in patterns:
        names = expand_pattern(pattern, callers)
        if not names:
            raise TmmuError(
                "INVALID_BINDING",
                f"--donate {pattern}: no graph input or parameter has this name",
                file=path,
                fix=suggest_names(pattern, sorted(callers), f"donate one of {', '.join(sorted(callers)[:8])}"),
                binding=pattern,
            )
        found |= names
    return found


def expand_pattern(pattern: str, names: Collection[str]) -> set[str]:
    """The names that a pattern fits; one without a star is a name."""
    if "*" not in pattern:
        return {pattern} if pattern in names else set()
    return {name for name in names if match_pattern(pattern, name)}
