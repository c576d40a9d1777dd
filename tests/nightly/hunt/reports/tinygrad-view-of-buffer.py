"""tinygrad: TinyJit's memory planner gives a buffer away while a kernel still has to read a view of it."""

import os

os.environ.setdefault("DEV", "PYTHON")  # needs no compiler; DEV=CPU shows the same
import numpy as np
from tinygrad import Tensor, TinyJit
from tinygrad.helpers import Context


def third_call() -> list[float]:
    @TinyJit
    def f(x: Tensor) -> Tensor:
        a = (x + 1).contiguous().realize()
        window = a[2:4].contiguous()  # a view of a's buffer: no kernel copies it
        (x * 2).contiguous().realize()  # may take the bytes of a, whose last use the planner saw where a was made
        return (window + 0).realize()

    return [f(Tensor(np.arange(4, dtype=np.float32)).realize()).tolist() for _ in range(3)][2]


print("expected:", [3.0, 4.0])
with Context(NO_MEMORY_PLANNER=1):
    print("counter-test (NO_MEMORY_PLANNER=1):", third_call())
print("actual:", third_call(), flush=True)
