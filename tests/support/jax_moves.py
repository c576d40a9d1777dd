"""Random JAX programs that move parts of an array within it, compiled, dumped and run, with jax installed.

`python tests/support/jax_moves.py SEED COUNT DIR` writes the two files of each module to DIR, and `right.json`: whether
each program computes compiled what it computes operation by operation. A fusion of XLA for CPUs that writes over rows
that it still reads does not (openxla/xla#49176).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from pathlib import Path

SIZES = ((8, 16), (16, 16), (5, 7), (64, 1), (12, 4))
KEPT = ("after_optimizations.txt", "-buffer-assignment.txt")


def moved(jax, rng, b, i, other):
    """An array with some of its parts moved, or changed."""
    jnp, lax, (n, m) = jax.numpy, jax.lax, b.shape
    r = rng.randint(1, n - 1)
    start = i if rng.random() < 0.5 else i + 1
    moves = (
        lambda: b.at[r:].set(b[:-r]), lambda: b.at[:-r].set(b[r:]), lambda: b.at[:, 1:].set(b[:, :-1]),
        lambda: jnp.roll(b, r, rng.randrange(2)), lambda: b[::-1] if rng.random() < 0.5 else b[:, ::-1],
        lambda: lax.dynamic_update_slice(b, lax.dynamic_slice(b, (i, 0), (r, m)) * 2, (start, 0)),
        lambda: b.at[rng.randrange(n)].set(b[rng.randrange(n)] + 1), lambda: jnp.where(b > 0, b, jnp.roll(b, 1, 0)),
        lambda: b.at[jnp.array([rng.randrange(n) for _ in range(3)])].add(b[:3]),
        lambda: b.T.reshape(n, m), lambda: jnp.tanh(b) * other, lambda: jnp.concatenate([b[r:], b[:r]]),
        lambda: lax.pad(b[1:], jnp.array(0, b.dtype), ((1, 0, 0), (0, 0, 0))),
        lambda: lax.dynamic_update_slice(b, jnp.exp(b[r : r + 1]), (jnp.int32(rng.choice((r, 0))), 0)),
    )  # fmt: skip
    return rng.choice(moves)()


def program(jax, seed):
    """A function of two matrices and a number."""

    def moving(x, y, i):
        jnp, rng = jax.numpy, random.Random(seed)
        b, results = jnp.exp(x) if rng.random() < 0.5 else x + 1, []
        if rng.random() < 0.25:
            inner = rng.random()

            def body(c, _):
                c = moved(jax, random.Random(inner), jnp.tanh(c), i, y)
                return c, c.sum()

            b, sums = jax.lax.scan(body, b, None, length=4)
            results.append(sums)
        for _ in range(rng.randint(1, 3)):
            b = moved(jax, rng, b, i, y)
        b = b.reshape(1, *b.shape) if rng.random() < 0.5 else b
        return (b, *results, *([b.sum(0)] if rng.random() < 0.3 else []))

    moving.__name__ = f"moving{seed}"
    return moving


def main(seed: int, count: int, folder: str) -> None:
    """Compile and run programs."""
    os.environ["XLA_FLAGS"] = (
        f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_disable_metadata --xla_dump_hlo_module_re=.*moving.*"
    )
    import jax
    import numpy as np

    right = {}
    for k in range(seed, seed + count):
        rng, values = random.Random(-k - 1), np.random.default_rng(k)
        size = rng.choice(SIZES)
        given = [*(values.standard_normal(size).astype("f4") for _ in "xy"), np.int32(k % 3)]
        call = jax.jit(program(jax, k), donate_argnums=(0,) if rng.random() < 0.4 else ())
        got = [np.asarray(one) for one in call(*map(jax.numpy.array, given))]
        with jax.disable_jit():
            wanted = [np.asarray(one) for one in program(jax, k)(*map(jax.numpy.array, given))]
        right[f"moving{k}"] = all(map(lambda a, b: np.allclose(a, b, 1e-3, 1e-3, equal_nan=True), got, wanted))
    for path in Path(folder).iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif not path.name.endswith(KEPT):
            path.unlink()
    (Path(folder) / "right.json").write_text(json.dumps(right))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
