"""Write the Inductor wrappers of the corpus: `python tests/corpus/foreign/make/inductor.py` where torch 2.15 is.

Wrong plans are made from right ones by one change of their text. spec: FP8.1 to FP8.10
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torch._inductor import config
from torch._inductor.utils import run_and_get_code
from torch.nn import functional as F  # noqa: N812

from tests.support import torch_models

CORPUS = Path(__file__).resolve().parents[1]


class Block(nn.Module):
    """A transformer's block of one head, and a concatenation, which is written through two views."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(64), nn.LayerNorm(64)
        self.query, self.key, self.value, self.out = (nn.Linear(64, 64) for _ in range(4))
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.before(x)
        weights = torch.softmax(self.query(y) @ self.key(y).transpose(-1, -2) / 8, -1)
        x = x + self.out(weights @ self.value(y))
        return x + self.down(F.gelu(self.up(self.after(x)))), torch.cat([x, torch.sin(x)], -1)


class Convolutions(nn.Module):
    """Convolutions, whose results are memory of their own, and state that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.last = nn.BatchNorm2d(8), nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.first(x)))
        return self.last(F.relu(self.second(x)).mean((2, 3)))


def sorts(x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Results of other code in tuples, and an operator that changes its operand."""
    values, order = torch.sort(x @ x)
    y = (values @ x).index_put((index,), torch.ones(64), accumulate=True)
    return y @ x, order, torch.tanh(y @ values)


def conds(x: torch.Tensor, y: torch.Tensor, flag: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A cond whose results are used, a loop that carries two tensors, and memory that is taken again behind both."""

    def products(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (a @ b.T) @ a, b.sum(0)

    def others(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a * 2, b[0].clone()

    a = torch.cat([x, y @ x], 0)
    p, q = torch.cond(flag, products, others, (a, (a @ y).sin()))
    count, r = while_loop(
        lambda k, c: k < 3, lambda k, c: (k + 1, (c @ y).cos()), (torch.tensor(0), (p @ y).contiguous())
    )
    return (r @ y).sin() @ y + q, count


def symbols(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Of any number of rows and columns."""
    a = x @ y
    return (torch.cat([a, x], 0) @ y).sin() @ y, (a * 2) @ y


def wrapper(function: object, *inputs: torch.Tensor, dynamic: bool | None = None) -> str:
    torch.manual_seed(0)
    with torch.no_grad():
        _, code = run_and_get_code(torch.compile(function, dynamic=dynamic), *inputs)
    (text,) = code
    return str(text)


def changed(text: str, old: str, new: str) -> str:
    """A text with one change; the place must be there once."""
    assert text.count(old) == 1, (text.count(old), old)
    return text.replace(old, new)


def in_one_pool(text: str) -> str:
    """The first results of both arms of a cond in one pool, where Inductor gives each arm pools of its own."""
    pool = "pool{} = empty_strided_cpu((8, 4), (4, 1), torch.float32)\n"
    text = changed(text, "        buf5_selector =", "        " + pool.format(2) + "        buf5_selector =")
    for arm, buffer in (("false_graph_0", "buf0"), ("true_graph_0", "buf1")):
        text = changed(text, f"{arm}_arg1_1 = args", f"{arm}_arg1_1, {arm}_arg2_1 = args")
        text = changed(text, f"{arm}_args = [buf2, buf4]", f"{arm}_args = [buf2, buf4, pool2]")
        place = f"{arm}_{buffer} = alloc_from_pool("
        text = changed(text, "    " + pool.format(1) + f"    {place}pool1,", f"    {place}{arm}_arg2_1,")
    return text


if __name__ == "__main__":
    config.memory_planning, config.fx_graph_cache, config.cpp.threads = True, False, 1
    block = wrapper(Block().eval(), torch.randn(32, 64))
    proved = {
        "block": block,
        "convolutions": wrapper(Convolutions(), torch.randn(2, 3, 16, 16)),
        "conds": wrapper(conds, torch.randn(4, 4), torch.randn(4, 4), torch.tensor(True)),
        "symbols": wrapper(symbols, torch.randn(6, 64), torch.randn(64, 64), dynamic=True),
        "sorts": wrapper(sorts, torch.randn(64, 64), torch.arange(8)),
    }
    sort = proved["sorts"]
    torch_models.need_no_gpu()
    (proved["triton"],) = torch_models.wrappers(157, "triton")
    proved["arms"] = arms = in_one_pool(proved["conds"])
    refuted = {
        "overlap": changed(block, "buf5 = alloc_from_pool(pool1, 8192,", "buf5 = alloc_from_pool(pool1, 4096,"),
        "small-pool": changed(block, "pool2 = empty_strided_cpu((40960, )", "pool2 = empty_strided_cpu((40832, )"),
        "view-beyond": changed(
            block, "tensor(buf26, (32, 64), (128, 1), 64)", "tensor(buf26, (32, 64), (128, 1), 96)"
        ),
        # A product over what either arm has made, its operand.
        "over-arms": changed(
            arms, "buf8 = buf2  # alloc", "buf8 = alloc_from_pool(pool2, 0, torch.float32, (8, 4), (4, 1))"
        ),
        # The offset of a buffer is half of what is in use of the pool, in symbols.
        "symbols-overlap": changed(
            proved["symbols"],
            "buf3 = alloc_from_pool(pool2, align(8*s27*s77)",
            "buf3 = alloc_from_pool(pool2, align(4*s27*s77)",
        ),
        # A product over its own operand.
        "over-operand": changed(sort, "buf7 = buf0  # alloc", "buf7 = buf4  # alloc"),
        # Nothing makes what is sorted.
        "unwritten": changed(sort, "        extern_kernels.mm(arg0_1, arg0_1, out=buf0)\n", ""),
        # Elements that a kernel in place has overwritten before it reads them.
        "shifted": changed(
            sort,
            "loadu(in_out_ptr0 + static_cast<int64_t>(x0)",
            "loadu(in_out_ptr0 + static_cast<int64_t>(4080L + ((-1L)*x0))",
        ),
        # A product in place, which the kernel cannot.
        "no-longer-in-place": changed(sort, "cpp_fused_tanh_1(buf8)", "extern_kernels.mm(buf7, buf6, out=buf8)"),
    }  # fmt: skip
    for folder, files in (("proved", proved), ("refuted", refuted)):
        for name, text in files.items():
            (CORPUS / folder / f"inductor-{name}.inductor").write_text(text.rstrip("\n") + "\n")
