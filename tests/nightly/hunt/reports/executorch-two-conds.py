"""ExecuTorch: the branches of a torch.cond are planned over the result of an earlier cond that is still read."""

import torch
from executorch.exir import to_edge
from executorch.runtime import Runtime


class TwoConds(torch.nn.Module):
    def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        a = torch.cond(flag, lambda v: v + 1, lambda v: v + 2, (x,))
        b = torch.cond(flag, lambda v: v * 10, lambda v: v * 20, (x,))
        return a + b


class OneCond(torch.nn.Module):
    def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(flag, lambda v: (v + 1) + v * 10, lambda v: (v + 2) + v * 20, (x,))


def result(module: torch.nn.Module) -> list[float]:
    given = (torch.tensor(True), torch.arange(4.0))
    program = to_edge(torch.export.export(module, given)).to_executorch()
    return Runtime.get().load_program(program.buffer).load_method("forward").execute(given)[0].tolist()


print("expected:", TwoConds()(torch.tensor(True), torch.arange(4.0)).tolist())
print("counter-test (both in one cond):", result(OneCond()))
print("actual:", result(TwoConds()), flush=True)
