"""tinygrad, CPU: a kernel that reads a view of a buffer at a byte that is not a multiple of 16 ends the process."""

import os

os.environ["DEV"] = "CPU"  # with DEV=PYTHON all starts are right
import numpy as np
from tinygrad import Tensor

x = np.arange(108, dtype=np.float32)


def copied(start: int) -> list[float]:
    window = Tensor(x).realize()[start : start + 52].contiguous()  # a view of the buffer
    return [value - start for value in window.clone().realize().tolist()][:4]


print("expected:", [0.0, 1.0, 2.0, 3.0])
print("counter-test (the window starts at 44, a multiple of four floats):", copied(44), flush=True)
print("actual:", copied(46), flush=True)
