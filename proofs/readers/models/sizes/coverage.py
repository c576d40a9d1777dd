"""Count how many of onnx's operators have a rule, for opset 7 to the newest: `python -m` this module.

The versions of each operator that a model of one of these opsets can use are counted. Operators whose operands or
results are never tensors of numbers (sequences, maps, optionals, only strings) are counted separately, because no plan
holds them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from onnx import defs

from proofs.readers.operators import row_of
from tmmu.core.output import print_text

OLDEST = 7
NO_TENSORS = ("seq(", "map(", "optional(", "tensor(string)")


class Coverage(NamedTuple):
    """The operators of a domain: how many there are, how many have a rule for every version, and which have not."""

    domain: str
    operators: int
    versions: int
    covered: int
    without_tensors: list[str]
    missing: list[str]


def coverage() -> Iterator[Coverage]:
    """Yield each domain that onnx defines. O(schemas)."""
    found: dict[str, dict[str, list[defs.OpSchema]]] = defaultdict(lambda: defaultdict(list))
    for schema in defs.get_all_schemas_with_history():
        found[schema.domain][schema.name].append(schema)
    for domain in sorted(found):
        covered, versions = [], 0
        apart, missing = [], []
        for op, history in sorted(found[domain].items()):
            used = _used(history)
            versions += len(used)
            if all(_has_rule(schema) for schema in used):
                covered.append(op)
            elif not any(map(_has_tensors, used)):
                apart.append(op)
            else:
                missing.append(op)
        yield Coverage(domain or "ai.onnx", len(found[domain]), versions, len(covered), apart, missing)


def _used(history: list[defs.OpSchema]) -> list[defs.OpSchema]:
    """Return the versions that a model of opset 7 or later can use: the newest up to 7, and those after it."""
    ordered = sorted(history, key=lambda schema: schema.since_version)
    first = max((k for k, schema in enumerate(ordered) if schema.since_version <= OLDEST), default=0)
    return [schema for schema in ordered[first:] if not schema.deprecated] or ordered[-1:]


def _has_rule(schema: defs.OpSchema) -> bool:
    row = row_of(schema.domain, schema.name)
    of_bodies = None if row.bodies is None else row.bodies.sizes
    return schema.since_version in row.versions and (row.size or of_bodies) is not None


def _has_tensors(schema: defs.OpSchema) -> bool:
    """Whether every operand and result may be a tensor of numbers."""
    kinds = [formal.types for formal in (*schema.inputs, *schema.outputs)]
    return all(any(not kind.startswith(NO_TENSORS) for kind in types) for types in kinds)


def table() -> str:
    """Return the table for `spec/operators.md`."""
    lines = [
        "| domain | operators | versions | with a rule | no tensors of numbers | without a rule |",
        "|---|---|---|---|---|---|",
    ]
    for each in coverage():
        apart, missing = (", ".join(names) or "none" for names in (each.without_tensors, each.missing))
        lines.append(f"| `{each.domain}` | {each.operators} | {each.versions} | {each.covered} | {apart} | {missing} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print_text(table())
