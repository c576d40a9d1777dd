"""`tmmu show --as text`: a plan or a model as text, read back before it is printed. spec: C2.10"""

from __future__ import annotations

from collections.abc import Mapping


def text_of(
    path: str,
    dims: Mapping[str, int],
    ranges: Mapping[str, tuple[int, int]],
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, str],
) -> str:
    """The file at `path` as text. Raises TmmuError where it is neither plan nor model, or a text cannot state it."""
    from tmmu.cli.models import load
    from tmmu.ir import text_writer

    return text_writer.write(load(path, dims, shapes, values, (), False, ranges))
