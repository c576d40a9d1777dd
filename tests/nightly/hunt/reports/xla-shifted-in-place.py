"""XLA, CPU: a fusion writes in place over an operand of which it still reads other elements."""

import jax
import numpy as np
from jax import lax


def moved(x: jax.Array) -> jax.Array:
    base = x + np.int32(1)
    return lax.dynamic_update_slice(base, base[:-1], (1, 0, 0)).reshape((1, *base.shape[:2]))


def result(**options: str) -> list[int]:
    x = np.arange(8, dtype=np.int32).reshape(8, 1, 1)
    return np.asarray(jax.jit(moved).lower(x).compile(options)(x)).ravel().tolist()


print("expected:", [1, 1, 2, 3, 4, 5, 6, 7])
print("counter-test (without AlgebraicSimplifier):", result(xla_disable_hlo_passes="algsimp"))
print("actual:", result(), flush=True)
