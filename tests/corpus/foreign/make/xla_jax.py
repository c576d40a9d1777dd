"""Write XLA's dumps of the corpus, with jax installed: `python tests/corpus/foreign/make/xla_jax.py`.

Made with jax 0.10.2 on a CPU. Each program is compiled in a process of its own, since a flag names the folder; nothing
is allocated or run. Only the two files of a module that a reader needs are kept, without metadata.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[1]
LAYERS, WIDTH, VOCABULARY, BATCH, LENGTH, HEADS = 2, 64, 256, 2, 32, 2


def block(p, x):
    """A layer of a transformer."""
    import jax
    import jax.numpy as jnp

    def normal(x, gain, bias):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * gain + bias

    def heads(t):
        return t.reshape(BATCH, LENGTH, HEADS, -1).transpose(0, 2, 1, 3)

    q, k, v = map(heads, jnp.split(normal(x, p["g1"], p["b1"]) @ p["qkv"], 3, -1))
    mask = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    a = jax.nn.softmax(jnp.where(mask, q @ k.transpose(0, 1, 3, 2) / 8, -1e9), -1) @ v
    x = x + a.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH) @ p["o"]
    return x + jax.nn.gelu(normal(x, p["g2"], p["b2"]) @ p["up"]) @ p["down"]


def train(name):
    """A training step with Adam, its state donated; layers one after the other, recomputed, or in a scan."""
    import jax
    import jax.numpy as jnp

    def of(*dims):
        return jax.ShapeDtypeStruct(dims, jnp.float32)

    def layer(*outer):
        w = WIDTH
        return {
            **{n: of(*outer, w) for n in ("g1", "b1", "g2", "b2")}, "qkv": of(*outer, w, 3 * w),
            "o": of(*outer, w, w), "up": of(*outer, w, 4 * w), "down": of(*outer, 4 * w, w),
        }  # fmt: skip

    def loss(p, t):
        x = p["e"][t] + p["pos"]
        one = jax.checkpoint(block) if "remat" in name else block
        if "scan" in name:
            x = jax.lax.scan(lambda x, b: (one(b, x), None), x, p["blocks"])[0]
        else:
            for b in p["blocks"]:
                x = one(b, x)
        scores = jax.nn.log_softmax((x @ p["e"].T)[:, :-1])
        return -jnp.take_along_axis(scores, t[:, 1:, None], -1).mean()

    def step(p, m, v, t):
        value, g = jax.value_and_grad(loss)(p, t)
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b * b, v, g)
        p = jax.tree.map(lambda a, b, c: a - 1e-3 * b / (jnp.sqrt(c) + 1e-8), p, m, v)
        return p, m, v, value

    blocks = layer(LAYERS) if "scan" in name else [layer() for _ in range(LAYERS)]
    p = {"e": of(VOCABULARY, WIDTH), "pos": of(LENGTH, WIDTH), "blocks": blocks}
    tokens = jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32)
    jax.jit(step, donate_argnums=(0, 1, 2)).lower(p, p, p, tokens).compile()


def control():
    """Conditionals and loops in each other, swapped and passed on, an argument donated."""
    import jax
    import jax.numpy as jnp

    def step(p, x):
        y = x @ x
        z = jax.lax.cond(p, lambda a, b: (jnp.sin(a) @ b, a), lambda a, b: (a, jnp.cos(b) + a), y, x)

        def body(s):
            i, a, b = s
            return i + 1, b @ a, jax.lax.cond(i > 3, lambda: a, lambda: b)

        _, a, b = jax.lax.while_loop(lambda s: s[0] < 5, body, (0, z[0], z[1]))
        return a, b.sum(), z[1], x

    of = jax.ShapeDtypeStruct
    jax.jit(step, donate_argnums=(1,)).lower(of((), jnp.bool_), of((16, 16), jnp.float32)).compile()


def switch():
    """An arm passes its operand on, whose bytes another arm overwrites after it has read them."""
    import jax
    import jax.numpy as jnp

    def step(i, a):
        b = jax.lax.switch(i, (jnp.tanh, lambda x: x @ x, lambda x: x[::-1]), a)
        return jax.lax.switch(i + 1, (lambda x: x, lambda x: x[::-1], lambda x: jnp.sin(x) * x + x.sum()), b)

    of = jax.ShapeDtypeStruct
    jax.jit(step).lower(of((), jnp.int32), of((16, 16), jnp.float32)).compile()


def scan():
    """The gradient of a scan: two loops, one after the other."""
    import jax
    import jax.numpy as jnp

    def step(w, x):
        return jax.lax.scan(lambda c, a: (jnp.tanh(c @ a) + c, c.sum()), x, w)[0].sum()

    of = jax.ShapeDtypeStruct
    jax.jit(jax.value_and_grad(step)).lower(of((4, 64, 64), jnp.float32), of((8, 64), jnp.float32)).compile()


def shifted():
    """Rows are moved down by one by a fusion that writes over them: openxla/xla#49176, wrong in jax 0.10.2."""
    import jax
    import jax.numpy as jnp

    def step(x):
        base = x + 1
        return jax.lax.dynamic_update_slice(base, base[:-1], (1, 0, 0)).reshape((1, *base.shape[:2]))

    jax.jit(step).lower(jax.ShapeDtypeStruct((64, 1, 1), jnp.int32)).compile()


PROGRAMS = {
    "proved/xla-train-step": lambda: train(""), "proved/xla-train-remat": lambda: train("remat"),
    "proved/xla-train-scan-remat": lambda: train("scan remat"), "proved/xla-cond-while": control,
    "proved/xla-switch": switch, "proved/xla-scan": scan, "refuted/xla-shifted-in-place": shifted,
}  # fmt: skip


def main() -> None:
    """Compile each program in a child and keep what is read."""
    for name in PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_disable_metadata"
            environment = {**os.environ, "XLA_FLAGS": f"{flags} --xla_dump_hlo_module_re=.*step.*"}
            subprocess.run([sys.executable, __file__, name], env=environment, check=True)
            target = CORPUS / name
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            (assigned,) = Path(folder).glob("*-buffer-assignment.txt")
            for path in (assigned, assigned.with_name(assigned.name.replace("-buffer-assignment", ""))):
                shutil.copy(path, target / f"step{path.name.partition('step')[2]}")


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]() if len(sys.argv) > 1 else main()
