"""Planners of other projects on buffers, a line of JSON each, in the form of `tmmu check-planner --batch`:

    PYTHON tests/support/other_planners.py tinygrad-tlsf|tinygrad-arena

The Python is one of an environment that has the project. Nothing of this project is imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

Buffers = list[dict[str, Any]]


def tinygrad_rewrite() -> Callable[[Buffers], Any]:
    """tinygrad's `memory_plan_rewrite`: each buffer is used by calls in its first and in its last step."""
    from tinygrad.dtype import dtypes
    from tinygrad.schedule.memory import memory_plan_rewrite
    from tinygrad.uop.ops import Ops, UOp

    def plan(buffers: Buffers) -> Any:
        made = {b["name"]: UOp.new_buffer("CPU", max(1, b["bytes"]), dtypes.uint8) for b in buffers}
        program = UOp(Ops.NOOP)
        steps = sorted({step for b in buffers for step in (b["first"], b["last"])})
        calls = []
        for step in steps:
            used = [made[b["name"]] for b in buffers if step in (b["first"], b["last"])]
            calls.append(UOp(Ops.CALL, dtypes.void, (program, *used)))
        planned = memory_plan_rewrite(UOp(Ops.LINEAR, dtypes.void, tuple(calls)), set())
        offsets: dict[str, int] = {}
        for before, after in zip(calls, planned.src, strict=True):
            for buffer, placed in zip(before.src[1:], after.src[1:], strict=True):
                [name] = (name for name, one in made.items() if one is buffer)
                offsets[name] = place(placed)
        return offsets

    def place(placed: Any) -> int:
        """The byte of the arena at which a view of it begins."""
        found = 0
        while placed.op is not Ops.BUFFER:
            found += int(placed.marg[0][0]) if placed.op is Ops.SHRINK else 0
            placed = placed.src[0]
        return found

    return plan


def tinygrad_tlsf() -> Callable[[Buffers], Any]:
    """tinygrad's TLSF allocator, asked and freed in the order of the steps."""
    from tinygrad.runtime.support.memory import TLSFAllocator

    def plan(buffers: Buffers) -> Any:
        allocator, offsets = TLSFAllocator(1 << 40), {}
        events = [(b["first"], 1, b) for b in buffers] + [(b["last"] + 1, 0, b) for b in buffers]
        for _, begins, b in sorted(events, key=lambda event: event[:2]):
            if begins:
                offsets[b["name"]] = allocator.alloc(max(1, b["bytes"]))
            else:
                allocator.free(offsets[b["name"]])
        return offsets

    return plan


PLANNERS = {"tinygrad-rewrite": tinygrad_rewrite, "tinygrad-tlsf": tinygrad_tlsf}


def main(name: str) -> None:
    """Answer each line."""
    plan = PLANNERS[name]()
    for line in sys.stdin:
        try:
            print(json.dumps(plan(json.loads(line)["buffers"])), flush=True)
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
