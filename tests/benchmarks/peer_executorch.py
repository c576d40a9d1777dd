"""ExecuTorch's verifier on the storages of a plan; run by a Python that has ExecuTorch, with a JSON file of rows
(arena, birth, death, offset, bytes). Prints its version, the CPU seconds, and how many pairs share bytes.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import metadata
from typing import Any

import torch
from executorch.exir import memory_planning
from executorch.exir.tensor import TensorSpec


def specs(rows: list[list[int]]) -> list[Any]:
    """A tensor of bytes for each row, placed as it is there."""
    found = []
    for arena, birth, death, offset, size in rows:
        spec = TensorSpec(torch.uint8, torch.Size([size]))
        spec.mem_id, spec.mem_obj_id, spec.mem_offset, spec.lifetime = arena + 1, None, offset, [birth, death]
        found.append(spec)
    return found


def main() -> None:
    """Verify, as its pass does where it is asked to."""
    with open(sys.argv[1]) as file:
        placed = specs(json.load(file))
    memory_planning.collect_specs_from_nodes = lambda *_, **__: placed
    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    verifier = memory_planning.Verifier(graph, True, True, True)
    begun = time.process_time()
    pairs = verifier.verify_storage_reuse()
    seconds = time.process_time() - begun
    print(json.dumps({"version": metadata.version("executorch"), "seconds": seconds, "pairs": pairs}))


if __name__ == "__main__":
    main()
