"""The memory of an ExecuTorch program, planned by this project: an algorithm for ExecuTorch's `MemoryPlanningPass`.

    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
    from executorch.exir.passes import MemoryPlanningPass
    from tmmu.exporters.executorch import packed

    memory = MemoryPlanningPass(memory_planning_algo=MemoryPlanningAlgorithmSuite([packed]))
    program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=memory))

This module does not import torch, and imports ExecuTorch only when an algorithm is called. `verify-plan` judges the
addresses in the `.pte` that ExecuTorch's emitter writes. spec: FP12.1, FP12.2, FP12.3, FP12.4
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tmmu.planner.buffers import LiveBuffer, pack_buffers

FIRST_MEMORY = 1
"""The memory of a tensor for which none is chosen; memory 0 is that of constants."""
SIZES = "non_const_buffer_sizes"
"""The key under which ExecuTorch stores the bytes of each memory that a branch or a body needs."""
COND = "cond"
PASSES_ON = frozenset({"getitem", "view"})
"""The functions whose result has the bytes of their operand."""


def packed(
    alignment: int, specs: Iterable[Any], graph_module: Any, graph_signature: Any, extra_padding: int = 0
) -> Any:  # fmt: skip
    """Return ExecuTorch's `MemoryAlgoResult`: the place of each tensor, and the bytes of each memory.

    Bytes are reused as soon as a lifetime ends, and a tensor shares its bytes with its views. ExecuTorch plans the
    branches and bodies of control flow first. They are placed among the tensors of the graph that runs them, from the
    step that runs them to the last use of their results; the result contains the places of their tensors too. Raises
    ValueError for a view of a tensor that is not planned. O(n log n) for n tensors. spec: FP12.1 to FP12.4
    """
    return searched(0)(alignment, specs, graph_module, graph_signature, extra_padding)


def searched(effort: int) -> Callable[..., Any]:
    """Return `packed` with a search that may inspect this number of boxes in each memory of each graph. spec: FP12.1"""

    def algorithm(
        alignment: int, specs: Iterable[Any], graph_module: Any, graph_signature: Any, extra_padding: int = 0
    ) -> Any:  # fmt: skip
        from executorch.exir.memory_planning import MemoryAlgoResult, SpecAllocResult

        memories: dict[int, _Memory] = {}
        own, inside = _group_views(specs, alignment)
        for members in own:
            birth, death = members[0].lifetime
            size = max(spec.allocated_memory for spec in members)
            memory = FIRST_MEMORY if members[0].mem_id is None else members[0].mem_id
            held = [(spec, 0) for spec in members]
            memories.setdefault(memory, _Memory()).add(LiveBuffer(birth, death, size, alignment), held)
        known = {spec for members in own for spec in members} | set(inside)
        for birth, death, parts in _iterate_parts(graph_module):
            for memory in range(max(len(part.meta[SIZES]) for part in parts)):
                size = max(sum(part.meta[SIZES][memory : memory + 1]) for part in parts)
                inner = (spec for part in parts for spec in _iterate_placed(part, memory) if spec not in known)
                if size:
                    held = [(spec, spec.mem_offset) for spec in inner]
                    memories.setdefault(memory, _Memory()).add(LiveBuffer(birth, death, size, alignment), held)
        placed: dict[Any, Any] = {}
        sizes = [0] * (1 + max(memories, default=FIRST_MEMORY))
        for memory, found in memories.items():
            packing = pack_buffers(found.buffers, effort)
            sizes[memory] = packing.height + extra_padding
            for k, (held, at) in enumerate(zip(found.held, packing.offsets, strict=True)):
                placed |= {spec: SpecAllocResult(memory, k, at + first) for spec, first in held}
        for spec in inside:
            base, shift = spec, 0
            while base.storage_base is not None:
                base, shift = base.storage_base, shift + base.storage_base_offset
            if base not in placed:
                raise ValueError(f"{spec} is a view of a tensor that is not planned: {base}")
            of = placed[base]
            placed[spec] = SpecAllocResult(of.mem_id, of.mem_obj_id, of.mem_offset + shift)
        return MemoryAlgoResult(placed, sizes)

    return algorithm


class _Memory:
    """The buffers of a memory, and for each the tensors in it, with their distance from its first byte."""

    def __init__(self) -> None:
        self.buffers: list[LiveBuffer] = []
        self.held: list[list[tuple[Any, int]]] = []

    def add(self, buffer: LiveBuffer, held: list[tuple[Any, int]]) -> None:
        self.buffers.append(buffer)
        self.held.append(held)


def _group_views(specs: Iterable[Any], alignment: int) -> tuple[list[list[Any]], list[Any]]:
    """Return the tensors that have separate bytes, each with its views, and the tensors inside of another one.

    A view has the lifetime of its base: it is the same list object.
    """
    found: dict[int, list[Any]] = {}
    inside = []
    for spec in specs:
        spec.realign(alignment)
        if getattr(spec, "storage_base", None) is not None:
            inside.append(spec)
        else:
            found.setdefault(id(spec.lifetime), []).append(spec)
    return list(found.values()), inside


def _iterate_parts(graph_module: Any) -> Iterator[tuple[int, int, list[Any]]]:
    """Yield the branches and bodies that a graph runs, with the steps between which their bytes must be kept.

    The branches of one cond are in one group: they may share bytes, because only one of them runs.
    """
    nodes = list(graph_module.graph.nodes)
    step = {node: k for k, node in enumerate(nodes)}
    for k, node in enumerate(nodes):
        called = [each for each in node.all_input_nodes if each.op == "get_attr"]
        parts = [getattr(graph_module, each.target, None) for each in called]
        planned = [part for part in parts if SIZES in getattr(part, "meta", ())]
        is_cond = getattr(node.target, "__name__", "") == COND
        for group in [planned] if is_cond and planned else [[part] for part in planned]:
            yield k, _find_last_use(node, step), group


def _find_last_use(node: Any, step: dict[Any, int]) -> int:
    """Return the last step that uses the results of a node, or their bytes."""
    last, waiting = step[node], [node]
    while waiting:
        for user in waiting.pop().users:
            last = max(last, step[user])
            if getattr(user.target, "__name__", "") in PASSES_ON:
                waiting.append(user)
    return max([last, *(int(spec.lifetime[1]) for spec in _list_specs(node) if spec.lifetime[1] is not None)])


def _iterate_placed(part: Any, memory: int) -> Iterator[Any]:
    """Yield the tensors that have a place in a memory of a branch or body, and of those that it runs."""
    for node in part.graph.nodes:
        yield from (spec for spec in _list_specs(node) if spec.mem_id == memory and spec.mem_offset is not None)
    for _, _, parts in _iterate_parts(part):
        for inner in parts:
            yield from _iterate_placed(inner, memory)


def _list_specs(node: Any) -> Sequence[Any]:
    """Return ExecuTorch's records of the tensors that a node returns."""
    found, waiting = [], [node.meta.get("spec")]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | tuple):
            waiting.extend(each)
        elif hasattr(each, "mem_offset"):
            found.append(each)
    return found
