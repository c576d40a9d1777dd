"""Write the `.pte` files of the corpus, where executorch 1.5.1 and torch are installed:
`python tests/corpus/foreign/make/executorch_programs.py`. Each program is run by ExecuTorch's runtime and eagerly, and
the two are compared: what is refuted differs (pytorch/executorch#21490), what is proved does not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.passes import MemoryPlanningPass
from executorch.runtime import Runtime
from torch import Tensor, nn

CORPUS = Path(__file__).resolve().parents[1]
Example = tuple[nn.Module, list[tuple[Tensor, ...]]]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        steps, width = x.shape[1], x.shape[2]
        parts = self.qkv(self.first(x)).split(width, dim=2)
        q, k, v = (part.view(1, steps, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        weights = torch.softmax(q @ k.transpose(2, 3) / (width // self.heads) ** 0.5, dim=3)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(1, steps, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))


class Transformer(nn.Module):
    """Two blocks: views that are left out, lists of operands and of results."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.blocks = nn.Embedding(64, 32), nn.ModuleList([Block(32, 4), Block(32, 4)])
        self.head = nn.Linear(32, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class TwoConds(nn.Module):
    """Two in sequence: release 1.5.1 plans the arms of the second over the result of the first."""

    def forward(self, p: Tensor, q: Tensor, x: Tensor) -> Tensor:
        a = torch.cond(p, lambda x: (x + 1) * 2 - x, lambda x: x * 3 + 1, (x,))
        b = torch.cond(q, lambda x: x * 5 + 100, lambda x: (x - 1) * 7, (x,))
        return a + b


class OneCond(nn.Module):
    def forward(self, p: Tensor, x: Tensor) -> Tensor:
        a = torch.cond(p, lambda x: (x + 1) * 2 - x, lambda x: x * 3 + 1, (x * 2,))
        return a * a


class NestedConds(nn.Module):
    def forward(self, p: Tensor, q: Tensor, x: Tensor) -> Tensor:
        def outer(x: Tensor, q: Tensor) -> Tensor:
            return torch.cond(q, lambda x: x + 1, lambda x: (x - 1) * 3, (x * 5,))

        return torch.cond(p, outer, lambda x, q: x * 3 + 1, (x, q)) + 1


class CondInCond(nn.Module):
    """What an outer arm made is read again behind the cond inside of it."""

    def forward(self, p: Tensor, q: Tensor, x: Tensor) -> Tensor:
        def outer(x: Tensor, q: Tensor) -> Tensor:
            y = x * 5
            return torch.cond(q, lambda x: x + 1, lambda x: (x - 1) * 3, (x,)) + y

        return torch.cond(p, outer, lambda x, q: x * 3 + 1, (x, q)) + 1


class ViewOfCond(nn.Module):
    """Release 1.5.1 leaves the view out and gives it the bytes of the cond's result, which nothing writes."""

    def forward(self, p: Tensor, x: Tensor) -> Tensor:
        a = torch.cond(p, lambda x: (x + 1) * 2 - x, lambda x: x * 3 + 1, (x,))
        return a.view(2, 4) + 1


class Scan(nn.Module):
    def forward(self, init: Tensor, xs: Tensor) -> tuple[Tensor, Tensor]:
        from torch._higher_order_ops.scan import scan

        carry, ys = scan(lambda c, x: (c + x, (c * x).sin()), init, xs)
        return carry * 2, ys + 1


class ViewOfCarry(nn.Module):
    """Release 1.5.1 gives the view of a scan's carry bytes of its own, which nothing writes."""

    def forward(self, init: Tensor, xs: Tensor) -> tuple[Tensor, Tensor]:
        from torch._higher_order_ops.scan import scan

        return scan(lambda c, x: (c * x + 1, c.view(2, 4).sum(0)), init, xs)


class ScanFromOutside(nn.Module):
    """Release 1.5.1 gives the view of what the body uses from outside bytes of its own, which nothing writes."""

    def forward(self, init: Tensor, xs: Tensor) -> tuple[Tensor, Tensor]:
        from torch._higher_order_ops.scan import scan

        more = init * 2
        return scan(lambda c, x: (c + more.view(2, 4).sum(0).repeat(2), x + 1), init, xs)


class Map(nn.Module):
    def forward(self, xs: Tensor, y: Tensor) -> Tensor:
        from torch._higher_order_ops.map import map as map_

        return map_(lambda x, y: (x + y) * y, xs * 2, y + 1) + 1


class Cache(nn.Module):
    """State that is changed, and read by the next call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(8, 4))

    def forward(self, at: Tensor, x: Tensor) -> Tensor:
        self.cache[at] = x * 2
        return self.cache.sum(0) + x


class Methods(nn.Module):
    """Methods over one cache: prefill changes four rows of it, decode one, and reset writes it whole."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(8, 4))
        self.up = nn.Linear(4, 4)

    def prefill(self, at: Tensor, x: Tensor) -> Tensor:
        self.cache[at] = self.up(x) * 2
        return (self.cache @ x.transpose(0, 1)).sum(0)

    def decode(self, at: Tensor, x: Tensor) -> Tensor:
        self.cache[at] = self.up(x) * 2
        return self.cache.sum(0) + x

    def reset(self, rows: Tensor) -> Tensor:
        self.cache.copy_(rows)
        return rows + 1


@contextmanager
def exported_as(module: nn.Module, method: str) -> Iterator[None]:
    """Let torch.export see a method."""
    module.forward = getattr(module, method)
    yield
    del module.forward


X = torch.arange(8, dtype=torch.float32)
FLAGS = [torch.tensor(value) for value in (True, False)]


def flags() -> list[tuple[Tensor, Tensor]]:
    """Both values of two flags, each a tensor of its own: torch.export takes one tensor twice for one input."""
    return [(p.clone(), q.clone()) for p in FLAGS for q in FLAGS]


PROGRAMS: dict[str, Example] = {
    "transformer": (Transformer(), [(torch.arange(16).view(1, 16),)]),
    "one-cond": (OneCond(), [(p, X) for p in FLAGS]),
    "nested-conds": (NestedConds(), [(*pq, X) for pq in flags()]),
    "two-conds": (TwoConds(), [(*pq, X) for pq in flags()]),
    "view-of-cond": (ViewOfCond(), [(p, X) for p in FLAGS]),
    "cond-in-cond": (CondInCond(), [(*pq, X) for pq in flags()]),
    "scan": (Scan(), [(X, torch.randn(5, 8))]),
    "view-of-carry": (ViewOfCarry(), [(X, torch.randn(5, 8))]),
    "scan-from-outside": (ScanFromOutside(), [(X, torch.randn(5, 8))]),
    "map": (Map(), [(torch.randn(5, 8), X)]),
    "cache": (Cache(), [(torch.tensor([3]), torch.ones(1, 4))]),
}


def make(name: str) -> None:
    """Export one program, run it both ways, and store it where it belongs."""
    torch.manual_seed(0)
    module, examples = PROGRAMS[name]
    module.eval()
    found = to_edge(torch.export.export(module, examples[0], strict=True)).to_executorch().buffer
    path = Path(f"/tmp/{name}.pte") if "--keep" in sys.argv else CORPUS / "new.pte"
    path.write_bytes(found)
    method = Runtime.get().load_program(str(path)).load_method("forward")
    wrong = []
    for example in examples:
        expected = module(*example)
        expected = expected if isinstance(expected, tuple) else (expected,)
        got = method.execute(example)
        if not all(torch.allclose(a, b, atol=1e-4) for a, b in zip(got, expected, strict=True)):
            wrong.append(example)
            print(name, "got", got, "expected", expected)
    folder = "refuted" if wrong else "proved"
    path.rename(CORPUS / folder / f"executorch-{name}.pte")
    print(f"{folder} {name}: {len(found)} bytes, wrong for {len(wrong)} of {len(examples)}")


def make_methods(name: str, *, is_shared: bool) -> None:
    """Export a program of three methods, whose cache is at one place in all of them, or not (the default)."""
    torch.manual_seed(0)
    module, found = Methods().eval().requires_grad_(False), {}
    examples = {
        "prefill": (torch.arange(4), torch.ones(4, 4)), "decode": (torch.tensor([4]), torch.ones(1, 4)),
        "reset": (torch.zeros(8, 4),),
    }  # fmt: skip
    for method, example in examples.items():
        with exported_as(module, method):
            found[method] = torch.export.export(module, example, strict=False)
    planning = MemoryPlanningPass(share_mutable_buffers=is_shared)
    config = ExecutorchBackendConfig(memory_planning_pass=planning, emit_mutable_buffer_names=True)
    (CORPUS / "proved" / name).write_bytes(to_edge(found).to_executorch(config).buffer)


if __name__ == "__main__":
    if not sys.argv[1:] or "methods" in sys.argv:
        make_methods("executorch-methods.pte", is_shared=True)
        make_methods("executorch-methods-apart.pte", is_shared=False)  # right by itself, and wrong as a set
    names = [each for each in sys.argv[1:] if each in PROGRAMS]
    for chosen in names if sys.argv[1:] else PROGRAMS:
        make(chosen)
