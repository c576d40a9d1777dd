"""XLA, CPU: a fusion writes in place over an operand of which it still reads other elements."""

import jax
import numpy as np
from jax import lax


def moved(x: jax.Array) -> jax.Array:
    base = x + np.int32(1)
    return lax.dynamic_update_slice(base, base[:-1], (1, 0, 0)).reshape((1, *base.shape[:2]))


x = np.arange(8, dtype=np.int32).reshape(8, 1, 1)
print("expected:", [1, 1, 2, 3, 4, 5, 6, 7])
print("counter-test (jax.disable_jit):", end=" ")
with jax.disable_jit():
    print(np.asarray(moved(x)).ravel().tolist())
print("actual:", np.asarray(jax.jit(moved)(x)).ravel().tolist(), flush=True)
