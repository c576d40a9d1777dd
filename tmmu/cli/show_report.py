"""A plan for people and scripts: arenas with their ratios, the peak, tensors, steps; as text, JSON or CSV.

spec: C2.2, C2.3, C2.4, C2.8, R3.2
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from tmmu.cli import envelopes
from tmmu.cli.streams import describe_streams
from tmmu.cli.summary import summary
from tmmu.core.output import count_noun, escape_cell, format_json, format_size
from tmmu.plans import metrics, sharding
from tmmu.plans.sections import Plan
from tmmu.tasks import memory_pools


def render(plan: Plan, what: str | None, style: str) -> Iterator[str]:
    """The lines that `tmmu show` prints."""
    if what == "memory-stats":
        found = memory_pools.MemoryStatistics.of(plan)
        if style == "json":
            return iter(format_json(memory_pools.record(found)).split("\n"))
        return memory_pools.format_statistics(found)
    if style == "json":
        return iter(format_json(document(plan) if what is None else {what: _rows(plan, what)}).split("\n"))
    if what is None:
        return _text(plan)
    rows = _rows(plan, what)
    return iter(_csv(rows).split("\n")) if style == "csv" else (_line(what, row) for row in rows)


def _rows(plan: Plan, what: str) -> list[dict[str, Any]]:
    if what == "storages":
        from tmmu.cli import storages

        return storages.rows(plan)
    return metrics.tensor_records(plan) if what == "tensors" else metrics.step_records(plan)


def document(plan: Plan) -> dict[str, Any]:
    """A plan for programs: what its sections state, its arenas with their ratios, and its hashes."""
    from tmmu.core.bindings import bindings_object
    from tmmu.plans import file

    hashes, origin = file.compute_hashes(plan), plan.provenance
    stated: dict[str, Any] = {}
    if origin is not None:
        stated = {
            **{name: value.hex() if isinstance(value, bytes) else value for name, value in origin.__dict__.items()},
            "bindings": bindings_object(plan.bindings),
        }
        if origin.layout == "pools":
            stated |= memory_pools.document(memory_pools.MemoryStatistics.of(plan).pools)
    return {
        **stated, "steps": len(plan.allocation.steps), "tensors": len(plan.allocation.tensors),
        "storages": len(plan.allocation.storages), "arenas": metrics.arena_records(plan),
        "unproduced": list(plan.allocation.unproduced),
        **({"streams": list(plan.allocation.streams)} if plan.allocation.streams else {}),
        **(envelopes.encode_envelope(plan) if origin is not None else {}),
        **{name: value.hex() for name, value in hashes.items()},
    }  # fmt: skip


def _text(plan: Plan) -> Iterator[str]:
    allocation, origin = plan.allocation, plan.provenance
    tables = ((allocation.steps, "step"), (allocation.tensors, "tensor"), (allocation.storages, "storage"))
    counts = ", ".join(count_noun(len(table), noun) for table, noun in tables)
    if origin is None:
        yield f"a plan without provenance: {counts}"
    else:
        yield f"{origin.model}: {counts}; mode {origin.mode}, layout {origin.layout}, order {origin.order}"
        if origin.shard_spec:
            mesh = ", ".join(f"{axis}={size}" for axis, size in sharding.mesh_axes(origin.shard_spec))
            yield f"  rank {origin.rank} of {origin.world_size}: mesh {mesh}"
    yield from summary(plan)
    yield from describe_streams(plan)
    for a, usage in enumerate(() if plan.claims is None else plan.claims.usage):
        arena = allocation.arenas[a]
        if usage.slots and arena.reuse and usage.peak_step is not None:
            nodes = allocation.steps.node.list() or ["no step"]
            live = metrics.storages_at_peak(plan, a)
            shown, total = live[:LARGEST], sum(count for _, count, _, _ in live)
            share = metrics.ratio(sum(count for _, count, _, _ in shown), total)
            at = f"{arena.name} at its peak, step {usage.peak_step} ({nodes[usage.peak_step]})"
            yield f"  largest in {at}: {len(shown)} of {len(live)}, {share:.1%} of the live bytes"
            for name, count, birth, death in shown:
                of = f"{metrics.ratio(count, total):.1%}"
                end = nodes[death] if death < len(nodes) else "no step"  # of a wrong plan
                yield f"    {format_size(count):>12} {of:>6}  {name}  [{birth}, {death}], until {end}"


LARGEST = 10
"""As many storages are shown of those that are live at a peak."""


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: escape_cell(value) for key, value in row.items()})
    return out.getvalue().rstrip("\n")


def _line(what: str, row: dict[str, Any]) -> str:
    if what == "storages":
        from tmmu.cli import storages

        return storages.line(row)
    if what == "tensors":
        shared = f" {row['shares']} of {row['of']}" if row["of"] is not None else ""
        end = row["offset"] + row["bytes"]
        slot = "" if row["slot"] is None else f" slot {row['slot']}"
        where = f"{row['arena']}{slot} [{row['offset']}, {end})"
        return f"{row['name']}  {where}  steps [{row['birth']}, {row['death']}]{shared}"
    where = f" in {row['body']}" if row["body"] else ""
    accesses = f"{', '.join(row['reads'])} -> {', '.join(row['writes'])}"
    on = f" on {row['stream']}" if "stream" in row else ""
    after = f" after {', '.join(row['after'])}" if row.get("after") else ""
    return f"{row['step']} {row['node']} {row['op']} {row['part']}{where}: {accesses}{on}{after}"
