"""Write the plan of a TinyJit that computes something else than its own first call, with tinygrad 0.14.0 and clang.

`python tinygrad.py FOLDER` writes it to FOLDER, and prints by how much each call is wrong. With NO_MEMORY_PLANNER=1
none is. The corpus has the file in `refuted`.

A view of a buffer that was realized is an operand of a kernel of its own kind, which the planner's lifetimes leave out:
the buffer is taken for another one before the view is read. spec: X2.5
"""

from __future__ import annotations

import sys
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[1]
sys.path[0] = str(CORPUS.parents[1] / "nightly" / "hunt")
from importlib.util import module_from_spec, spec_from_file_location

found = spec_from_file_location("worker", CORPUS.parents[1] / "nightly" / "hunt" / "workers" / "tinygrad.py")
assert found is not None
assert found.loader is not None
worker = module_from_spec(found)
here, sys.path[0] = sys.path[0], ""
found.loader.exec_module(worker)
sys.path[0] = here
import numpy as np
import tinygrad.engine.jit as jit
from tinygrad import Tensor, TinyJit

X, Y = np.arange(256, dtype=np.float32).reshape(16, 16) / 100, np.eye(16, dtype=np.float32)
results: list[Tensor] = []


@TinyJit
def function(x: Tensor, y: Tensor) -> Tensor:
    d = (x @ y).contiguous().realize()
    window = d[4:8].contiguous()  # shows d, whose last use for the planner is where it is made
    g = (x.sin() @ y).contiguous()
    h = (g.cos() @ y).contiguous()
    results[:] = [((h @ g).contiguous()[:4] + window).realize()]
    return results[0]


if __name__ == "__main__":
    capture = worker.Capture()
    jit.memory_plan_rewrite = capture.plan
    x, y = Tensor(X).realize(), Tensor(Y).realize()
    wanted = (np.cos(np.sin(X)) @ np.sin(X))[:4] + X[4:8]
    for call in range(4):
        print(f"call {call}: wrong by {np.abs(function(x, y).numpy() - wanted).max():.6f}")
    Path(sys.argv[1], "tinygrad-view.plan.txt").write_text(worker.plan_text(capture, results))
