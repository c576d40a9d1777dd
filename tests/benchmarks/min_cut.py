"""The planner's recomputation beside torch's min-cut partitioner, on the joint graph of GPT-2 that torch traced.

torch cuts a joint graph into a forward and a backward one: what crosses the cut is saved, what is missing behind it is
computed again. Both halves are read back as one trace, so that the same planner measures the same things of each: the
bytes saved, the most bytes live at a step (no kernel is fused) and the operations repeated. Then the planner is given
the peak that torch's cut needs as its budget. Needs torch and transformers.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import Any

from tmmu.core.vocabulary import Model, Phase
from tmmu.examples.traced import recipes
from tmmu.importers.conversion import convert
from tmmu.importers.torch import _set_flags
from tmmu.importers.torch_reader import Template, TorchReader
from tmmu.importers.traced import TrainingTrace
from tmmu.planner import DEFAULT
from tmmu.planner.remat import rematerialise
from tmmu.planner.remat.choose import measure_peak
from tmmu.planner.remat.rewrite import build_joint


def compare() -> None:
    """Print a line for each partitioner and one for the planner."""
    import torch
    from torch._functorch import partitioners
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
    from torch._subclasses.fake_tensor import FakeTensorMode

    with _set_flags(torch), FakeTensorMode(allow_non_fake_inputs=True), contextlib.ExitStack() as stack:
        training = recipes.gpt2_124m()
        joint = aot_export_joint_with_descriptors(stack, training.module, training.arguments).graph_module
        whole = TorchReader(TrainingTrace("joint"))
        whole.joint(joint.graph, {})
        print(f"{training.note}\n{'':14} {'saved GiB':>10} {'peak GiB':>9} {'repeated':>9} {'seconds':>8}")
        base = convert(whole.trace)
        cost = dict(zip((node.name for node in base.nodes), build_joint(base).cost, strict=True))
        forward = sum(cost[node.name] for node in base.nodes if node.phase is Phase.FORWARD)
        _print("as traced", saved(base), measure_peak(base, DEFAULT), 0, 0.0)
        found = 0
        for name in ("default_partition", "min_cut_rematerialization_partition"):
            start = time.perf_counter()
            halves = getattr(partitioners, name)(joint, (), num_fwd_outputs=1)
            seconds = time.perf_counter() - start
            model, across, again = _together(*(half.graph for half in halves))
            found = measure_peak(model, DEFAULT)
            repeated = sum(cost.get(name, 0) for name in again) / forward
            _print(name.partition("_")[0], across, found, repeated, seconds)
        start = time.perf_counter()
        ours = rematerialise(base, DEFAULT, found)
        repeated = sum(cost[n.name.partition(".recompute")[0]] for n in ours.nodes if ".recompute" in n.name) / forward
        _print("ours", saved(ours), measure_peak(ours, DEFAULT), repeated, time.perf_counter() - start)


def _print(name: str, across: int, most: int, repeated: float, seconds: float) -> None:
    print(f"{name:14} {across / 2**30:>10.2f} {most / 2**30:>9.2f} {repeated:>9.2%} {seconds:>8.1f}", flush=True)


def saved(model: Model) -> int:
    """The bytes of what is saved for backward, each storage once."""
    roots = set()
    for t, tensor in enumerate(model.tensors):
        if tensor.saved_for_backward:
            while (view := model.tensors[t].view) is not None:
                t = view.base
            roots.add(t)
    return sum(model.tensors[t].bytes for t in roots if model.tensors[t].role != "parameter")


def _together(forward: Any, backward: Any) -> tuple[Model, int, list[str]]:
    """Both halves as one model, the bytes that cross the cut, and the names of what is computed again."""
    reader, known = TorchReader(TrainingTrace("halves")), dict[str, str]()
    for node in forward.nodes:
        if node.op == "placeholder":
            known[node.name] = reader._add_given(node)
        elif node.op != "output":
            reader.operation(node, known)
    placeholders = [node for node in backward.nodes if node.op == "placeholder"]
    for node in placeholders:
        if node.name not in known:
            known[node.name] = reader._add_given(node)
    crossing = [(node, reader.trace.values[known[node.name]]) for node in placeholders]
    storages: dict[int, object] = {node.meta["val"].untyped_storage()._cdata: value.storage for node, value in crossing}
    given = {reader.trace.values[name].storage for name in reader.trace.given}
    sizes = {value.storage: value.storage_bytes or 0 for _, value in crossing}
    across = sum(size for storage, size in sizes.items() if storage not in given)
    template, again = Template("backward/", storages), list[str]()
    first = {node.name: _signature(node) for node in forward.nodes}
    inner = {node.name: known[node.name] for node in placeholders}
    for node in backward.nodes:
        if node.op == "output":
            reader.trace.outputs = [known[forward.output_node().args[0][0].name]]
            reader.trace.outputs += [inner[n.name] for n in node.args[0] if n is not None]
        elif node.op != "placeholder":
            # torch numbers the nodes of each half anew: the same one is that of the same name, operator and operands.
            again += [node.name] if first.get(node.name) == _signature(node) else []
            reader.operation(node, inner, template)
    reader.trace.ops = [replace(op, optimizer=False) for op in reader.trace.ops]
    return convert(reader.trace), across, again


def _signature(node: Any) -> tuple[object, tuple[str, ...]]:
    return node.target, tuple(other.name for other in node.all_input_nodes)
