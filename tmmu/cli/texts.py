"""`tmmu show --as text`: a plan or a model as text, read back before it is printed. spec: C2.10"""

from __future__ import annotations

from collections.abc import Mapping

from tmmu.core import kind


def text_of(
    path: str,
    dims: Mapping[str, int],
    ranges: Mapping[str, tuple[int, int]],
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, str],
) -> str:
    """The file at `path` as text: a model as what its bindings make of it, all else as a plan.

    Raises TmmuError where it is neither, or where a text cannot state it.
    """
    if kind.kind_of(path) in (kind.IR, kind.ONNX) or path.endswith((".ir.txt", ".ir.cbor", ".onnx")):
        from tmmu.cli.models import load
        from tmmu.ir import text_writer as models

        return models.write(load(path, dims, shapes, values, (), False, ranges))
    from tmmu.plan import file
    from tmmu.plan import text_writer as plans

    return plans.write(file.load_any(path).plan)
