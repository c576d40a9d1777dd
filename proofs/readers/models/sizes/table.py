"""The rule of each operator, by domain, name and the version in which its text was last changed.

A version that no row names has no rule: its text was not read, and it may differ. spec: V3.7
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx

from proofs.readers.models.sizes import (
    classic,
    elementwise,
    generators,
    images,
    moving,
    normalization,
    products,
    reductions,
    runtimes,
    sequences,
    windows,
)
from proofs.readers.models.sizes.call import Rows, Rule
from proofs.readers.operators import plain

Key = tuple[str, str, int]
"""Domain, operator, version."""


def _keyed(domain: str, rows: Rows) -> dict[Key, Rule]:
    return {(domain, op, since): rule for op, rule, versions in rows for since in versions}


_FAMILIES = (elementwise, moving, reductions, products, windows, normalization, generators, sequences, images)

RULES: Mapping[Key, Rule] = {
    **{key: rule for family in _FAMILIES for key, rule in _keyed("", family.ROWS).items()},
    **_keyed("ai.onnx.ml", classic.ROWS),
    **{(*key, 1): rule for key, rule in runtimes.RULES.items()},
    **_keyed("ai.onnx.preview", sequences.PREVIEW),
    **_keyed("ai.onnx.preview.training", normalization.TRAINING),
}
"""Every rule that there is."""


def version_of(domain: str, op: str, opsets: Mapping[str, int]) -> int | None:
    """The version of an operator that a model of these operator sets uses; None where nothing states it."""
    domain = plain(domain)
    if domain not in opsets:
        return None
    if (domain, op) in runtimes.RULES:
        return 1 if opsets[domain] == 1 or not domain else None
    # Constants had no number types but floats at first; exporters wrote any, and the form is the same.
    return _since(domain, op, max(opsets[domain], 9 if (domain, op) == ("", "Constant") else 0))


@cache
def _since(domain: str, op: str, opset: int) -> int | None:
    try:
        return int(onnx.defs.get_schema(op, opset, domain).since_version)
    except onnx.defs.SchemaError:
        return None
