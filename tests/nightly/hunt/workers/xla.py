"""XLA by JAX: a program as a jitted function, the dump of its buffer assignment, and what it computes.

A scan is `lax.scan`, a while `lax.while_loop`; arguments are given up, and computations rematerialised, as the variant
says. With `gradient` the sums of the outputs are differentiated as well, and the derivatives returned.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])  # in place of this folder, whose files have the names of compilers
DUMPS = Path(tempfile.mkdtemp(prefix="hunt-xla-"))
os.environ["XLA_FLAGS"] = (
    f"--xla_dump_to={DUMPS} --xla_dump_hlo_as_text --xla_dump_disable_metadata --xla_dump_hlo_module_re=.*hunted.* "
    "--xla_backend_optimization_level=0"  # LLVM's, for kernels: it comes behind the plan
)
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import programs as p
import serving
from jax import lax

VARIANTS = ("default", "donate", "gradient", "checkpoint")
KEPT = ("after_optimizations.txt", "-buffer-assignment.txt")
"""The two files that are read."""
DTYPES = {"int4": jnp.int4, "uint4": jnp.uint4}


def choice(*what: object) -> float:
    """A number from 0 to 1 that follows from what is chosen, so that a smaller program chooses the same."""
    return zlib.crc32(repr(what).encode()) / 2**32


def dtype_of(value: p.Value) -> Any:
    return DTYPES.get(value.dtype, jnp.dtype(value.dtype))


BINARY: dict[str, Callable[..., Any]] = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "min": jnp.minimum, "max": jnp.maximum,
    "greater": jnp.greater, "and": jnp.logical_and, "where": jnp.where, "neg": jnp.negative, "abs": jnp.abs,
    "not": jnp.logical_not, "matmul": jnp.matmul,
}  # fmt: skip


def run(program: p.Program, given: Sequence[Any], variant: str) -> list[Any]:
    """The outputs of a program on traced arrays."""
    at = dict(zip((value.id for value in program.inputs), given, strict=True))
    for step in program.steps:
        made = several(step, [at[k] for k in step.operands], variant)
        for value, result in zip(step.results, made, strict=True):
            at[value.id] = jnp.asarray(result, dtype_of(value)).reshape(value.shape)
    return [at[k] for k in program.outputs]


def several(step: p.Step, given: Sequence[Any], variant: str) -> Sequence[Any]:
    """The results of a step."""
    a, inner = step.attributes, step.programs

    def function(program: p.Program) -> Callable[..., Any]:
        def called(*one: Any) -> tuple[Any, ...]:
            return tuple(run(program, one, variant))

        return (
            jax.checkpoint(called) if variant == "checkpoint" and choice("checkpoint", step.results) < 0.4 else called
        )

    match step.op:
        case "cond":
            # A cond with both arms given, or a switch that has a third one.
            if choice("switch", step.results) < 0.3:
                index = jnp.where(given[0], 0, 1)
                return lax.switch(index, [function(inner[0]), function(inner[1]), function(inner[1])], *given[1:])
            return lax.cond(given[0], function(inner[0]), function(inner[1]), *given[1:])
        case "call":
            return jax.jit(function(inner[0]), inline=False)(*given)
        case "while":
            if variant == "gradient":  # no derivative of a loop without bound
                for _ in range(5):
                    (going,) = run(inner[0], given, variant)
                    following = run(inner[1], given, variant)
                    given = [jnp.where(going, new, old) for new, old in zip(following, given, strict=True)]
                return given
            return lax.while_loop(lambda c: function(inner[0])(*c)[0], lambda c: function(inner[1])(*c), tuple(given))
        case "scan":
            count = a["carries"]

            def body(carried: Any, rows: Any) -> tuple[Any, Any]:
                made = function(inner[0])(*carried, *rows)
                return made[:count], made[count:]

            carried, rows = lax.scan(body, tuple(given[:count]), tuple(given[count:]), length=a["length"])
            return [*carried, *rows]
        case "split":
            ends = [sum(a["sizes"][: k + 1]) for k in range(len(a["sizes"]) - 1)]
            return jnp.split(given[0], ends, a["axis"])
    return [simple(step, given)]


def simple(step: p.Step, given: Sequence[Any]) -> Any:
    """The result of a step that has one."""
    a, value = step.attributes, step.results[0]
    x = given[0] if given else None
    if step.op in BINARY:
        return BINARY[step.op](*given)
    match step.op:
        case "relu":
            return jnp.maximum(x, 0)
        case "copy":
            return lax.optimization_barrier(x) if choice("copy", value) < 0.5 else jnp.copy(x)
        case "cast":
            return x.astype(dtype_of(value))
        case "add_value":
            return x + jnp.asarray(a["value"], x.dtype)
        case "mul_value":
            return x * jnp.asarray(a["value"], x.dtype)
        case "reshape":
            return x.reshape(value.shape)
        case "transpose":
            return x.transpose(a["axes"])
        case "slice":
            return lax.slice(x, a["starts"], a["stops"], a["strides"]) if value.shape else x
        case "broadcast":
            return jnp.broadcast_to(x, value.shape)
        case "concat":
            return jnp.concatenate(given, a["axis"])
        case "update":
            if choice("update", value) < 0.5:
                return lax.dynamic_update_slice(x, given[1], [jnp.int32(k) for k in a["starts"]])
            return x.at[p.windows(a["starts"], given[1].shape)].set(given[1])
        case "pad":
            return jnp.pad(x, list(zip(a["before"], a["after"], strict=True)))
        case "take":
            return jnp.take(x, jnp.array(a["indices"]), a["axis"])
        case "flip":
            return jnp.flip(x, a["axis"])
        case "sum":
            return x.sum(a["axis"], keepdims=a["keep"])
        case "amax":
            return x.max(a["axis"], keepdims=a["keep"])
        case "clip":
            return jnp.clip(x, a["low"], a["high"])
        case "full":
            return jnp.full(value.shape, a["value"], dtype_of(value))
        case "constant":
            return jnp.array(a["values"], dtype_of(value)).reshape(value.shape)
        case "positive":
            return x.astype(jnp.int32).sum() > a["value"]
    raise serving.Refused(f"no {step.op} is written")  # fmt: skip


def compile_and_run(
    program: p.Program, inputs: Sequence[Sequence[Any]], variant: str, folder: Path, runs: bool
) -> serving.Compiled:
    donated = [k for k, value in enumerate(program.inputs) if variant == "donate" and choice("donate", k, value) < 0.6]

    def hunted(*given: Any) -> Any:
        made = run(program, given, variant)
        if variant != "gradient":
            return made
        numbers = [k for k, value in enumerate(program.inputs) if value.dtype == "float32"]
        wanted = [k for k, number in enumerate(program.outputs) if program.values()[number].dtype == "float32"]

        def total(*some: Any) -> Any:
            full = list(given)
            for k, one in zip(numbers, some, strict=True):
                full[k] = one
            again = run(program, full, variant)
            return sum(again[k].sum() for k in wanted)

        if not numbers or not wanted:
            return made
        return made, jax.grad(total, tuple(range(len(numbers))))(*(given[k] for k in numbers))

    shapes = [jax.ShapeDtypeStruct(value.shape, dtype_of(value)) for value in program.inputs]
    for old in DUMPS.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    try:
        made = jax.jit(hunted, donate_argnums=donated).lower(*shapes).compile()
    except (TypeError, ValueError, NotImplementedError) as error:
        raise serving.Refused(f"{type(error).__name__}: {error}"[:300]) from error
    plans = []
    for path in sorted(DUMPS.iterdir()):
        if path.name.endswith(KEPT):
            shutil.copy(path, folder / path.name)
            plans += [folder / path.name] if path.name.endswith(KEPT[1]) else []
    outputs = []
    for one in inputs:
        # NumPy converts: jnp would compile a program for each shape.
        results = made(*(x.astype(dtype_of(value)) for x, value in zip(one, program.inputs, strict=True)))
        results = results[0] if isinstance(results, tuple) and variant == "gradient" else results
        outputs.append([p.np.asarray(each).astype(p.np.float32) for each in results])
    return serving.Compiled(plans, outputs)


if __name__ == "__main__":
    serving.serve("XLA", jax.__version__, compile_and_run, variants=VARIANTS)
