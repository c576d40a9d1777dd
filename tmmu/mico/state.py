"""The state of a model: inputs whose bytes hold a result after the last step, so that the next call reads it there.

spec: MC10.6
"""

from __future__ import annotations

from tmmu.mico.network import OnnxNetwork
from tmmu.plans.sections import Plan


def find_state(plan: Plan, network: OnnxNetwork) -> dict[str, str]:
    """Return the output of the same shape and type that has the bytes of each donated input. O(tensors + outputs).

    The outputs of a plan are live to its last step, so nothing else is written there.
    """
    allocation = plan.allocation
    names = allocation.tensors.name.list()
    storages = allocation.storages
    arenas = storages.arena[allocation.tensors.storage].tolist()
    at = dict(zip(names, zip(arenas, allocation.addresses().tolist(), strict=True), strict=True))
    results = {(at[name], network.sizes[name]): name for name in network.outputs if not network.is_weight(name)}
    found = {}
    for name in plan.bindings.donated:
        if name not in at or name not in network.inputs:
            continue
        written = results.get((at[name], network.sizes[name]), name)
        if written != name:
            found[name] = written
    return found
