"""Random JAX programs, compiled and dumped: `python tests/support/jax_programs.py SEED COUNT DIR`, with jax installed.

Nothing is run: the programs are lowered for shapes, with conditionals, switches, loops and scans in each other, what
they pass on unchanged, updates in place, gradients, and arguments given up at random. DIR gets the two files of each
module that the reader of XLA's plans needs.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path

SIDE = 4
KEPT = ("after_optimizations.txt", "-buffer-assignment.txt")


def operations(jax):
    """Functions of two matrices."""
    jnp, lax = jax.numpy, jax.lax
    return [
        lambda a, b: a + b, lambda a, b: a @ b, lambda a, b: jnp.sin(a) * b, lambda a, b: jnp.where(a > b, a, b),
        lambda a, b: jnp.concatenate([a[:2], b[2:]]), lambda a, b: jnp.sort(a, 0) + b.T, lambda a, b: a[::-1],
        lambda a, b: lax.dynamic_update_slice(a, b[:2, :2], (1, 1)), lambda a, b: jnp.cumsum(a, 1) - b,
        lambda a, b: lax.dynamic_slice(a, (b[0, 0].astype(int) % 2, 0), (2, SIDE)).repeat(2, 0),
        lambda a, b: a.at[1].set(b[0]), lambda a, b: a.at[jnp.array([0, 2])].add(b[:2]),
        lambda a, b: jnp.fft.fft(a).real + b, lambda a, b: jnp.take(a, jnp.argsort(b[:, 0]), 0),
        lambda a, b: lax.top_k(a, SIDE)[0] + b, lambda a, b: a.reshape(2, 8).reshape(SIDE, SIDE) * b,
        lambda a, b: jnp.pad(a[1:3], ((1, 1), (0, 0))) + b, lambda a, b: a.astype(jnp.float16).astype(a.dtype) + b,
        lambda a, b: jnp.linalg.inv(a @ a.T + jnp.eye(SIDE)) + b, lambda a, b: jax.nn.softmax(a @ b),
        lambda a, b: lax.reduce_window(a, 0.0, lax.add, (2, 2), (1, 1), "SAME") + b,
        lambda a, b: lax.optimization_barrier((a, b))[0], lambda a, b: jax.checkpoint(lambda x: jnp.tanh(x) * x)(a) + b,
        lambda a, b: lax.conv(a[None, None], b[None, None, :2, :2], (1, 1), "SAME")[0, 0],
        lambda a, b: jax.random.normal(jax.random.key(0), (SIDE, SIDE)).astype(a.dtype) + a,
    ]  # fmt: skip


def block(jax, values, depth, rng):
    """`values` and what is made of them."""
    jnp, lax, values = jax.numpy, jax.lax, list(values)

    def one(seed, *given):
        inner = random.Random(seed)
        return inner.choice(block(jax, given, depth - 1, inner))

    def several(seed, count, given):
        inner = random.Random(seed)
        made = block(jax, given, depth - 1, inner)
        return tuple(inner.choice(made + list(given)) for _ in range(count))

    for _ in range(rng.randint(1, 4)):
        kind, seeds = rng.random(), [rng.random() for _ in range(3)]
        given = [rng.choice(values) for _ in range(rng.randint(1, 3))]
        count = len(given)
        if depth and kind < 0.2:
            arms = [lambda *a, seed=seed, count=count: several(seed, count, a) for seed in seeds[:2]]
            values += lax.cond(rng.choice(values)[0, 0] > 0, *arms, *given)
        elif depth and kind < 0.28:
            arms = [lambda a, seed=seed: one(seed, a) for seed in seeds]
            values.append(lax.switch(given[0][0, 0].astype(int) % 3, arms, given[0]))
        elif depth and kind < 0.42:
            trip, counted = rng.randint(0, 4), rng.random() < 0.5
            values += lax.while_loop(
                lambda c, trip=trip, counted=counted: (c[0] < trip) & (counted | (jnp.sum(c[1]) < 1e6)),
                lambda c, seed=seeds[0], count=count: (c[0] + 1, *several(seed, count, c[1:])),
                (0, *given),
            )[1:]
        elif depth and kind < 0.52:
            values += lax.scan(
                lambda c, x, seed=seeds[0]: (
                    one(seed, c, jnp.broadcast_to(x, (SIDE, SIDE))), one(seed, c, jnp.broadcast_to(x, (SIDE, SIDE)))[0]
                ),
                given[0], given[-1],
            )  # fmt: skip
        elif depth and kind < 0.56:
            values.append(jax.jit(lambda a, seed=seeds[0]: one(seed, a))(given[0]))
        elif depth == 1 and kind < 0.62:
            values.append(jax.grad(lambda a, seed=seeds[0]: one(seed, a).sum())(given[0]))
        else:
            values.append(rng.choice(operations(jax))(given[0], given[-1]))
    return values


def main(seed: int, count: int, folder: str) -> None:
    """Compile programs; those that JAX refuses are counted."""
    os.environ["XLA_FLAGS"] = (
        f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_disable_metadata --xla_dump_hlo_module_re=.*random.*"
    )
    import jax

    refused = 0
    for k in range(seed, seed + count):
        rng = random.Random(k)

        def program(*given, k=k):
            inner = random.Random(-k - 1)
            made = block(jax, given, inner.randint(0, 3), inner)
            return tuple(inner.choice(made) for _ in range(inner.randint(1, 4)))

        program.__name__ = f"random{k}"
        given = [jax.ShapeDtypeStruct((SIDE, SIDE), jax.numpy.float32)] * rng.randint(1, 4)
        donated = tuple(i for i in range(len(given)) if rng.random() < 0.4)
        try:
            jax.jit(program, donate_argnums=donated).lower(*given).compile()
        except (TypeError, ValueError, NotImplementedError):
            refused += 1
        for path in Path(folder).iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif not path.name.endswith(KEPT):
                path.unlink()
    print(f"{count - refused} compiled, {refused} refused")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
