"""Small random torch models, and the wrappers that Inductor writes of them, with kernels in C++ or in Triton.

`python -m tests.support.torch_models FOLDER COUNT [SEED]` writes COUNT wrappers in each language where torch 2.15 and
Triton are; no kernel is compiled. Triton's text is Inductor's for CPUs, which takes no GPU.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")  # or g++ is asked for each model what this processor has
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
import torch
from torch import Tensor
from torch._inductor import config
from torch._inductor.graph import GraphLowering
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F  # noqa: N812

LANGUAGES = ("cpp", "triton")
Operation = Callable[[random.Random, list[Tensor]], Tensor]


def _rows(rng: random.Random, values: list[Tensor]) -> Tensor:
    """A value of two dimensions."""
    found = rng.choice(values)
    return found.reshape(-1, found.shape[-1]) if found.dim() != 2 else found


def _alike(rng: random.Random, values: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Two values of one shape."""
    one = rng.choice(values)
    return one, rng.choice([each for each in values if each.shape == one.shape])


def _product(rng: random.Random, values: list[Tensor]) -> Tensor:
    one = _rows(rng, values)
    others = [each for each in values if each.dim() == 2 and each.shape[0] == one.shape[1]] or [one.T]
    return one @ rng.choice(others)


def _joined(rng: random.Random, values: list[Tensor]) -> Tensor:
    return torch.cat([*_alike(rng, values)], -1)


def _indexed(rng: random.Random, values: list[Tensor]) -> Tensor:
    one = _rows(rng, values)
    return one[torch.arange(one.shape[0] - 1, -1, -1)]


def _updated(rng: random.Random, values: list[Tensor]) -> Tensor:
    one = _rows(rng, values).clone()
    one[: one.shape[0] // 2] += one[one.shape[0] - one.shape[0] // 2 :]
    return one


def _put(rng: random.Random, values: list[Tensor]) -> Tensor:
    one = _rows(rng, values)
    return one.index_put((torch.zeros(2, dtype=torch.int64),), one[:1].expand(2, -1), accumulate=rng.random() < 0.5)


def _shifted(rng: random.Random, values: list[Tensor]) -> Tensor:
    one = _rows(rng, values)
    return torch.cat([one[1:], one[:1]]) + one


def _convolved(rng: random.Random, values: list[Tensor]) -> Tensor:
    one = _rows(rng, values)
    made = F.conv1d(one[None, None].flatten(2), torch.full((2, 1, 3), 0.25), padding=1)
    return made[0, 0].reshape(one.shape)


def _pooled(rng: random.Random, values: list[Tensor]) -> Tensor:
    one = _rows(rng, values)
    return F.max_pool1d(one[None], 3, 1, 1)[0]


OPERATIONS: dict[str, Operation] = {
    "tanh": lambda rng, v: torch.tanh(rng.choice(v)),
    "gelu": lambda rng, v: F.gelu(rng.choice(v)),
    "silu": lambda rng, v: F.silu(rng.choice(v)) * 1.5,
    "add": lambda rng, v: torch.add(*_alike(rng, v)),
    "multiply": lambda rng, v: torch.mul(*_alike(rng, v)),
    "where": lambda rng, v: torch.where(rng.choice(v) > 0, *_alike(rng, v)[:1], 0.5),
    "softmax": lambda rng, v: torch.softmax(rng.choice(v), rng.choice((0, -1))),
    "norm": lambda rng, v: F.layer_norm(x := rng.choice(v), x.shape[-1:]),
    "mean": lambda rng, v: (x := rng.choice(v)) - x.mean(rng.choice((0, -1)), keepdim=True),
    "most": lambda rng, v: (x := rng.choice(v)) / (x.abs().amax(-1, keepdim=True) + 1),
    "variance": lambda rng, v: (x := _rows(rng, v)) * x.var(0, keepdim=True, correction=0),
    "cumulated": lambda rng, v: torch.cumsum(_rows(rng, v), rng.choice((0, 1))),
    "sorted": lambda rng, v: torch.sort(_rows(rng, v), -1)[0],
    "argmax": lambda rng, v: (x := _rows(rng, v)) + x.argmax(-1, keepdim=True).float(),
    "turned": lambda rng, v: _rows(rng, v).T.contiguous(),
    "viewed": lambda rng, v: _rows(rng, v).T,
    "flipped": lambda rng, v: rng.choice(v).flip(0) + 1,
    "rolled": lambda rng, v: torch.roll(rng.choice(v), 1, 0),
    "half": lambda rng, v: rng.choice(v).to(rng.choice((torch.float16, torch.bfloat16))).sin().float(),
    "bits": lambda rng, v: rng.choice(v).view(torch.int32).bitwise_and(-2).view(torch.float32).sin(),
    "integers": lambda rng, v: rng.choice(v).to(torch.int64).clamp(0, 3).float(),
    "padded": lambda rng, v: F.pad(_rows(rng, v), (1, 0))[:, :-1],
    "dropped": lambda rng, v: F.dropout(rng.choice(v), 0.5, training=True),
    "product": _product, "joined": _joined, "indexed": _indexed, "updated": _updated, "put": _put,
    "shifted": _shifted, "convolved": _convolved, "pooled": _pooled,
}  # fmt: skip


class Model:
    """A random program over values of at most two dimensions, the same for one seed, and its inputs."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = random.Random(seed)
        self.rows, self.columns = rng.choice((1, 4, 8, 12, 32)), rng.choice((1, 6, 16, 32, 48, 64, 100))
        self.names = [rng.choice(list(OPERATIONS)) for _ in range(rng.randrange(3, 14))]
        self.changes = rng.random() < 0.25
        torch.manual_seed(seed)
        shapes = [(self.rows, self.columns)] * 3 + [(self.columns, self.columns)]
        self.inputs = [torch.randn(shape) for shape in shapes]

    def __call__(self, x: Tensor, y: Tensor, state: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        rng = random.Random(self.seed + 1)
        values = [x, y, torch.addmm(x[0], y, weight)]
        for name in self.names:
            made = OPERATIONS[name](rng, values[-6:])
            if made.numel() <= 1 << 14:
                values.append(made)
        if self.changes:
            state.add_(values[2])
        return tuple(values[-rng.randrange(1, 4) :])


class WrittenError(Exception):
    """The wrapper is there, and nothing is to be compiled."""


def wrappers(seed: int, language: str) -> list[str]:
    """Return the wrappers of a model that have memory in common; none where Inductor refuses it."""
    found: list[str] = []

    def save(code: str) -> None:
        found.append(code.rstrip("\n") + "\n")
        raise WrittenError

    GraphLowering.save_output_code = staticmethod(save)
    torch._dynamo.reset()
    model = Model(seed)
    settings = {"memory_planning": True, "force_disable_caches": True, "cpp.threads": 1, "cpu_backend": language}
    try:
        with torch.no_grad(), config.patch(settings):
            graph = make_fx(model)(*(each.clone() for each in model.inputs))
            torch.compile(graph, fullgraph=True, dynamic=seed % 5 == 0)(*model.inputs)
    except Exception as error:  # torch raises errors of many kinds
        if not found:
            print(seed, language, type(error).__name__, str(error).split("\n", 1)[0][:200], file=sys.stderr)
    return [text for text in found if any(word in text for word in ("alloc_from_pool(", "# reuse", "# alloc"))]


def need_no_gpu() -> None:
    """Let Inductor write Triton's text for CPUs, whose driver is not there."""
    for module in list(sys.modules.values()):
        for name in ("has_triton", "has_triton_package"):
            if module.__name__.startswith("torch") and hasattr(module, name):
                setattr(module, name, lambda *_, **__: True)
    torch.utils._triton.triton_hash_with_backend = lambda: "none"


def main(folder: str, count: str, first: str = "0") -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    for language in LANGUAGES:
        if language == "triton":
            need_no_gpu()
        made, seed = 0, int(first)
        while made < int(count) and seed < int(first) + 2 * int(count):
            for text in wrappers(seed, language)[:1]:
                (Path(folder) / f"{language}-{seed}.inductor").write_text(text)
                made += 1
            seed += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
