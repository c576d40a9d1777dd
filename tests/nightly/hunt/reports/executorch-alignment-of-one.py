"""ExecuTorch: MemoryPlanningPass(alignment=1) places float32 elements at odd addresses, as the caller asks."""

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.passes import MemoryPlanningPass


class TwoTypes(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, y + 1


def misaligned(alignment: int) -> int:
    given = (torch.arange(3, dtype=torch.int8), torch.arange(4.0))
    planning = MemoryPlanningPass(alignment=alignment)
    config = ExecutorchBackendConfig(memory_planning_pass=planning)
    program = to_edge(torch.export.export(TwoTypes(), given)).to_executorch(config)
    tensors = [value.val for value in program.executorch_program.execution_plan[0].values]
    planned = [each for each in tensors if getattr(each, "allocation_info", None) and each.scalar_type.name == "FLOAT"]
    return sum(each.allocation_info.memory_offset_low % 4 != 0 for each in planned)


print("expected: float32 tensors at addresses that are not a multiple of four:", 0)
print("counter-test (alignment=16): float32 tensors at addresses that are not a multiple of four:", misaligned(16))
print("actual: float32 tensors at addresses that are not a multiple of four:", misaligned(1), flush=True)
