"""The size rule of each operator, by domain, name and version: the one that last changed the operator's text.

A version that no row lists has no rule: its text was not read, and it may differ. spec: V3.7
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx

from proofs.readers.operators import OPERATORS, plain, row_of
from proofs.readers.operators.runtimes import LAST
from proofs.readers.operators.sizes.call import Rule

Key = tuple[str, str, int]
"""Domain, operator, version."""

RULES: Mapping[Key, Rule] = {
    (domain, op, since): row.size
    for (domain, op), row in OPERATORS.items()
    if row.size is not None
    for since in row.versions
}
"""Every rule that there is."""


def version_of(domain: str, op: str, opsets: Mapping[str, int]) -> int | None:
    """Return the version of an operator that a model of these operator sets uses, or None if no set states it."""
    domain = plain(domain)
    if domain not in opsets:
        return None
    if row_of(domain, op).of_runtime:
        return 1 if opsets[domain] == 1 or domain in ("", LAST) else None
    # Constants had no number types but floats at first; exporters wrote any, and the form is the same.
    since = _since(domain, op, max(opsets[domain], 9 if (domain, op) == ("", "Constant") else 0))
    return 1 if since is None and row_of(domain, op).of_older_runtime else since


@cache
def _since(domain: str, op: str, opset: int) -> int | None:
    try:
        return int(onnx.defs.get_schema(op, opset, domain).since_version)
    except onnx.defs.SchemaError:
        return None
