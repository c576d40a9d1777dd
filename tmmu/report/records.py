"""A plan in the formats of other viewers: Perfetto's trace, PyTorch's memory snapshot, JSON, CSV, a C header.

Each function returns the bytes of a file. spec: RP2.2 to RP2.6
"""

from __future__ import annotations

import csv
import heapq
import io
import json
import pickle
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tmmu.core.output import escape_cell
from tmmu.plans import metrics
from tmmu.plans.places import tensor_places
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.report.arena_map import ArenaMap

FIELDS = ("arena", "offset", "bytes", "birth", "death", "slot", "role", "operator", "tensors")
"""The columns of JSON and CSV, whose rows are storages."""


def rows(maps: Sequence[ArenaMap]) -> Iterator[dict[str, Any]]:
    """Yield one record for each storage: bytes and steps as integers, its tensors as a list."""
    for one in maps:
        columns = (one.offset, one.bytes, one.birth, one.death, one.slot)
        for k, values in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            numbers = [int(value) for value in values]
            yield dict(
                zip(FIELDS, (one.name, *numbers, one.role[k], one.operator[k], one.names[k].split("\n")), strict=True)
            )


def flat_json(maps: Sequence[ArenaMap]) -> bytes:
    """Write one list of records, one per line."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows(maps))
    return f"[\n{lines}\n]\n".encode()


def as_csv(maps: Sequence[ArenaMap]) -> bytes:
    """Write the same records as CSV; no text begins a formula."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    for row in rows(maps):
        writer.writerow({key: escape_cell(value) for key, value in row.items()})
    return out.getvalue().encode()


def perfetto(maps: Sequence[ArenaMap], steps: Sequence[str]) -> bytes:
    """Write a trace for Perfetto and chrome://tracing: arenas are processes, slots threads, and a step a microsecond.

    Storages without slots take the first free thread. Live bytes are a counter. O(n log n).
    """
    events: list[dict[str, Any]] = []
    for pid, one in enumerate(maps, 1):
        events.append({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": one.name}})
        threads = one.slot.tolist() if (one.slot >= 0).all() else _assign_threads(one)
        for k, tid in enumerate(threads):
            at = {"birth": int(one.birth[k]), "death": int(one.death[k])}
            events.append(
                {
                    "ph": "X", "pid": pid, "tid": int(tid), "ts": at["birth"], "dur": at["death"] - at["birth"] + 1,
                    "name": one.names[k].partition("\n")[0], "cat": one.role[k] or "buffer",
                    "args": {
                        "offset": int(one.offset[k]), "bytes": int(one.bytes[k]), "tensors": one.names[k].split("\n"),
                    },
                }
            )  # fmt: skip
        events += [
            {"ph": "C", "pid": pid, "ts": step, "name": "live bytes", "args": {"bytes": int(one.live[step])}}
            for step in one.changes.tolist()
        ]
    if steps:
        events.append({"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "steps"}})
        events += [{"ph": "X", "pid": 0, "tid": 0, "ts": n, "dur": 1, "name": name} for n, name in enumerate(steps)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}).encode()


def _assign_threads(one: ArenaMap) -> list[int]:
    """Return a thread for each storage, so that no two of one thread are live at one step."""
    found, free, busy, count = [0] * len(one.names), list[int](), list[tuple[int, int]](), 0
    for k in np.lexsort((one.death, one.birth)).tolist():
        while busy and busy[0][0] < one.birth[k]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            found[k] = heapq.heappop(free)
        else:
            found[k], count = count, count + 1
        heapq.heappush(busy, (int(one.death[k]), found[k]))
    return found


def memory_snapshot(maps: Sequence[ArenaMap]) -> bytes:
    """Write a snapshot for PyTorch's memory viewer: an arena is a device with one segment of its footprint.

    The timeline has an allocation at the birth of a storage and a release after its last live step.
    """
    segments, traces = [], []
    for device, one in enumerate(maps):
        base = (device + 1) << 44
        order = sorted(
            [(int(step), 1, k) for k, step in enumerate(one.birth)]
            + [(int(step) + 1, 0, k) for k, step in enumerate(one.death)]
        )
        trace: list[dict[str, Any]] = [
            {"action": "segment_alloc", "addr": base, "size": one.footprint, "stream": 0, "frames": [], "time_us": 0}
        ]
        for time, is_birth, k in order:
            of = {"addr": base + int(one.offset[k]), "size": int(one.bytes[k]), "stream": 0, "time_us": time}
            frame = {"name": one.names[k].partition("\n")[0], "filename": one.operator[k], "line": int(one.birth[k])}
            actions = ("alloc",) if is_birth else ("free_requested", "free_completed")
            trace += [{"action": action, "frames": [frame], **of} for action in actions]
        left = one.death >= one.last_step
        blocks = [
            {
                "address": base + int(one.offset[k]), "size": int(one.bytes[k]), "requested_size": int(one.bytes[k]),
                "state": "active_allocated", "frames": [],
            }
            for k in sorted(np.flatnonzero(left).tolist(), key=lambda k: one.offset[k])
        ]  # fmt: skip
        used = int(one.bytes[left].sum())
        segments.append(
            {
                "device": device, "address": base, "total_size": one.footprint, "allocated_size": used,
                "active_size": used, "requested_size": used, "stream": 0, "segment_type": "large", "frames": [],
                "is_expandable": False, "segment_pool_id": (0, 0), "blocks": blocks,
            }
        )  # fmt: skip
        traces.append(trace)
    return pickle.dumps({"segments": segments, "device_traces": traces, "allocator_settings": {}}, protocol=4)


def c_header(name: str, plan: Plan | BufferPlan) -> bytes:
    """Write a C header: bytes and base of each arena, and the arena (by number), offset and size of each tensor.

    `NAME_IS_BASE(pointer)` is whether a pointer has the alignment that the base of an arena must have. spec: RP2.7
    """
    placement, found_at = plan.placement, tensor_places(plan)
    taken: set[str] = set()
    prefix = _make_identifier(name, taken)
    lines = [
        "/* Where each tensor lies, in bytes of its arena; written by tmmu report. */", f"#ifndef {prefix}_H",
        f"#define {prefix}_H", "", "#include <stdint.h>", "",
    ]  # fmt: skip
    bases = placement.needed_base_alignments()
    for a, (one, footprint) in enumerate(zip(placement.arenas, metrics.compute_footprints(placement), strict=True)):
        found = _make_identifier(f"{name}_arena_{one.name}", taken)
        base = max(bases[one.name], one.base_alignment)
        lines += [
            f"#define {found} {a}",
            f"#define {found}_BYTES {footprint}ull",
            f"#define {found}_ALIGNMENT {base}ull",
        ]
        lines.append(f"#define {found}_IS_BASE(pointer) ((uintptr_t)(pointer) % {found}_ALIGNMENT == 0)")
    columns = (column.tolist() for column in (found_at.arena, found_at.offset, found_at.bytes))
    for tensor, a, offset, size in zip(found_at.name, *columns, strict=True):
        found = _make_identifier(f"{name}_{tensor}", taken)
        lines += [f"#define {found}_{what}" for what in (f"ARENA {a}", f"OFFSET {offset}ull", f"BYTES {size}ull")]
    return "\n".join([*lines, "", "#endif", ""]).encode()


def _make_identifier(text: str, taken: set[str]) -> str:
    """Return a unique name of a macro; its names with the suffixes of `_list_macros` are unique too."""
    made = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_").upper() or "TENSOR"
    made = f"T_{made}" if made[0].isdigit() else made
    found, number = made, 1
    while any(one in taken for one in _list_macros(found)):
        number += 1
        found = f"{made}_{number}"
    taken.update(_list_macros(found))
    return found


def _list_macros(name: str) -> tuple[str, ...]:
    return (name, *(f"{name}_{what}" for what in ("ARENA", "OFFSET", "BYTES", "H", "ALIGNMENT", "IS_BASE")))
