"""ExecuTorch: a view of a value that cond or scan hand on by pointer shows bytes that nothing writes."""

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.runtime import Runtime
from torch._higher_order_ops.scan import scan


class ViewOfCond(torch.nn.Module):
    def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        a = torch.cond(flag, lambda v: v + 1, lambda v: v + 2, (x,))
        return a.view(2, 2) * 3


class ViewOfCarry(torch.nn.Module):
    def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        def step(carry: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            w = carry.view(2, 2) + 1
            return w.reshape(4) + y, w.clone()

        return scan(step, x, torch.stack([x, x, x]))[0]


class ViewFromOutside(torch.nn.Module):
    def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        k = x * 3
        return scan(lambda c, y: (c + y, (k.view(2, 2) + 1).clone()), x, torch.stack([x, x, x]))[1]


def results(removes: bool) -> list[object]:
    found = []
    for module in (ViewOfCond(), ViewOfCarry(), ViewFromOutside()):
        exported = to_edge(torch.export.export(module, GIVEN))
        program = exported.to_executorch(ExecutorchBackendConfig(remove_view_copy=removes))
        found.append(Runtime.get().load_program(program.buffer).load_method("forward").execute(GIVEN)[0].tolist())
    return found


GIVEN = (torch.tensor(True), torch.arange(4.0))
print("expected:", [module()(*GIVEN).tolist() for module in (ViewOfCond, ViewOfCarry, ViewFromOutside)])
print("counter-test (remove_view_copy=False):", results(False))
print("actual:", results(True), flush=True)
