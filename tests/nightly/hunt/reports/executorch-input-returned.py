"""ExecuTorch: an input that is also returned comes back as zeros if inputs and outputs are not planned."""

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.passes import MemoryPlanningPass
from executorch.runtime import Runtime


class Returned(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, x


def results(plans: bool) -> list[list[float]]:
    given = (torch.arange(4.0),)
    planning = MemoryPlanningPass(alloc_graph_input=plans, alloc_graph_output=plans)
    config = ExecutorchBackendConfig(memory_planning_pass=planning)
    program = to_edge(torch.export.export(Returned(), given)).to_executorch(config)
    made = Runtime.get().load_program(program.buffer).load_method("forward").execute(given)
    return [each.tolist() for each in made]


print("expected:", [each.tolist() for each in Returned()(torch.arange(4.0))])
print("counter-test (alloc_graph_input=True, alloc_graph_output=True):", results(True))
print("actual:", results(False), flush=True)
