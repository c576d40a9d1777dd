"""A plan for people and scripts: arenas with their ratios, the peak, tensors, steps; as text, JSON or CSV.

spec: C2.2, C2.3, C2.4, C2.8, R3.2
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from tmmu.cli import envelopes
from tmmu.cli.units import size
from tmmu.core.errors import one_line
from tmmu.core.vocabulary import Shares
from tmmu.plan import metrics, sharding
from tmmu.plan.columns import SHARES, Plan
from tmmu.planner.aliasing import Refused


def few(items: Sequence[str], limit: int = 8) -> str:
    """The first of them, and how many more there are (models name their parameters by the hundred)."""
    listed = ", ".join(items[:limit])
    return listed if len(items) <= limit else f"{listed} and {len(items) - limit} more"


def summary(plan: Plan) -> Iterator[str]:
    """The bindings, and one line for each arena that holds anything."""
    bound = {**plan.bindings.dims, **plan.bindings.shapes, **plan.bindings.values}
    if bound:
        yield f"  bindings: {', '.join(f'{name}={_bound(value)}' for name, value in bound.items())}"
    yield from envelopes.lines(plan)
    if plan.bindings.defaults:
        yield f"  defaults: {few([f'{name}={value}' for name, value in plan.bindings.defaults.items()])}"
    if plan.bindings.donated:
        yield f"  donated: {few(plan.bindings.donated)}"
    if plan.bindings.trust_shapes:
        yield "  trusted: the shapes that the model file states"
    for arena in metrics.arenas(plan):
        if arena["tensors"]:
            yield (
                f"  {arena['name']}: footprint {arena['footprint_bytes']} ({size(arena['footprint_bytes'])}), "
                f"peak live {arena['peak_live_bytes']} at step {arena['peak_step']}, "
                f"ratio {arena['footprint_per_peak']:.3f}; "
                f"{arena['slots']} slots, max live {arena['max_live']}, reuse {arena['memory_reuse_ratio']:.1%} "
                f"of {arena['tensors']} tensors"
            )


def _bound(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def hints(plan: Plan, refused: Sequence[Refused]) -> str:
    """How many in-place hints were granted."""
    granted = int((plan.tensors.shares == SHARES.index(Shares.IN_PLACE)).sum())
    return f"  in place: {granted} results; {len(refused)} hints refused (--why lists them)"


def render(plan: Plan, what: str | None, style: str) -> Iterator[str]:
    """The whole output of `tmmu show`."""
    if what is None:
        if style == "json":
            yield json.dumps(_document(plan), indent=1, ensure_ascii=False)
        else:
            yield from map(one_line, _text(plan))
        return
    rows = _rows(plan, what)
    if style == "json":
        yield json.dumps({what: rows}, indent=1, ensure_ascii=False)
    elif style == "csv":
        yield _csv(rows)
    else:
        yield from (one_line(_line(what, row)) for row in rows)


def _rows(plan: Plan, what: str) -> list[dict[str, Any]]:
    if what == "storages":
        from tmmu.cli import storages

        return storages.rows(plan)
    return metrics.tensors(plan) if what == "tensors" else metrics.steps(plan)


def _document(plan: Plan) -> dict[str, Any]:
    from tmmu.core.bindings import bindings_object
    from tmmu.plan import file
    from tmmu.plan.gate import HASHES

    hashes = file.to_object(plan)
    return {
        "model": plan.model, "mode": plan.mode, "layout": plan.layout, "order": plan.order, "steps": len(plan.steps),
        "tensors": len(plan.tensors), "storages": len(plan.storages), "arenas": metrics.arenas(plan),
        "bindings": bindings_object(plan.bindings), "unproduced": list(plan.unproduced), "rank": plan.rank,
        **envelopes.document(plan), "world_size": plan.world_size,
        "replay_token": plan.replay_token.hex(), "ir_hash": plan.ir_hash.hex(),
        "source_digest": plan.source_digest and plan.source_digest.hex(),
        "address_token_digest": plan.address_token_digest and plan.address_token_digest.hex(),
        **{name: hashes[name].hex() for name in HASHES},
    }  # fmt: skip


def _text(plan: Plan) -> Iterator[str]:
    counts = f"{len(plan.steps)} steps, {len(plan.tensors)} tensors, {len(plan.storages)} storages"
    yield f"{plan.model}: {counts}; mode {plan.mode}, layout {plan.layout}, order {plan.order}"
    if plan.shard_spec:
        mesh = ", ".join(f"{axis}={size}" for axis, size in sharding.mesh(plan.shard_spec))
        yield f"  rank {plan.rank} of {plan.world_size}: mesh {mesh}"
    yield from summary(plan)
    for a, (arena, usage) in enumerate(zip(plan.arenas, plan.usage, strict=True)):
        if usage.slots and arena.reuse:
            node = plan.steps.node[usage.peak_step] if len(plan.steps) else "no step"
            yield f"  largest in {arena.name} at its peak, step {usage.peak_step} ({node}):"
            for name, count, birth, death in metrics.largest_at_peak(plan, a):
                yield f"    {size(count):>12}  {name}  [{birth}, {death}]"


FORMULA = ("=", "+", "-", "@")
"""What a text begins with that a spreadsheet would compute."""


def _cell(value: Any) -> Any:
    """An entry as CSV has it: no control character, and no text that a spreadsheet takes for a formula. spec: C2.8

    >>> _cell("a\\nb"), _cell("=A1"), _cell(["@x", "y"]), _cell(-1)
    ('a\\\\nb', "'=A1", "'@x y", -1)
    """
    text = " ".join(value) if isinstance(value, list) else value
    if not isinstance(text, str):
        return text
    return one_line(f"'{text}" if text.startswith(FORMULA) else text)


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: _cell(value) for key, value in row.items()})
    return out.getvalue().rstrip("\n")


def _line(what: str, row: dict[str, Any]) -> str:
    if what == "storages":
        from tmmu.cli import storages

        return storages.line(row)
    if what == "tensors":
        shared = f" {row['shares']} of {row['of']}" if row["of"] is not None else ""
        end = row["offset"] + row["bytes"]
        where = f"{row['arena']} slot {row['slot']} [{row['offset']}, {end})"
        return f"{row['name']}  {where}  steps [{row['birth']}, {row['death']}]{shared}"
    where = f" in {row['body']}" if row["body"] else ""
    accesses = f"{', '.join(row['reads'])} -> {', '.join(row['writes'])}"
    return f"{row['step']} {row['node']} {row['op']} {row['part']}{where}: {accesses}"
