"""tinygrad's planner on the buffers of a plan; run by a Python that has tinygrad, with a JSON file: the bytes of each
buffer, and the buffers of each step. Prints its version, the CPU seconds, and the bytes that it needs.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import metadata

from tinygrad.dtype import dtypes
from tinygrad.schedule.memory import memory_plan_rewrite
from tinygrad.uop.ops import Ops, UOp


def main() -> None:
    """Plan, as its scheduler does."""
    with open(sys.argv[1]) as file:
        given = json.load(file)
    buffers = [UOp.new_buffer("CPU", size, dtypes.uint8) for size in given["bytes"]]
    program = UOp(Ops.NOOP)
    steps = [UOp(Ops.CALL, dtypes.void, (program, *(buffers[b] for b in step))) for step in given["steps"] if step]
    linear = UOp(Ops.LINEAR, dtypes.void, tuple(steps))
    begun = time.process_time()
    planned = memory_plan_rewrite(linear, set())
    seconds = time.process_time() - begun
    arenas = {u for u in planned.toposort() if u.op is Ops.BUFFER}
    assert len(arenas) == 1, len(arenas)
    (arena,) = arenas
    print(json.dumps({"version": metadata.version("tinygrad"), "seconds": seconds, "bytes": arena.nbytes()}))


if __name__ == "__main__":
    main()
