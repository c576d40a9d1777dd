"""The memory of an ExecuTorch program, planned by this project: an algorithm for ExecuTorch's `MemoryPlanningPass`.

    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
    from executorch.exir.passes import MemoryPlanningPass
    from tmmu.exporters.executorch import packed

    memory = MemoryPlanningPass(memory_planning_algo=MemoryPlanningAlgorithmSuite([packed]))
    program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=memory))

Nothing here imports torch, and ExecuTorch only when an algorithm is called. What its emitter makes of the addresses is
judged by `verify-plan` in the `.pte`. spec: FP12.1, FP12.2, FP12.3, FP12.4
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tmmu.planner.buffers import LiveBuffer, pack_buffers

FIRST_MEMORY = 1
"""The memory of a tensor for which none is chosen; memory 0 is that of constants."""
SIZES = "non_const_buffer_sizes"
"""Where ExecuTorch keeps how many bytes of each memory an arm or a body needs."""
COND = "cond"
PASSES_ON = frozenset({"getitem", "view"})
"""The functions whose result lies where their operand does."""


def packed(
    alignment: int, specs: Iterable[Any], graph_module: Any, graph_signature: Any, extra_padding: int = 0
) -> Any:  # fmt: skip
    """ExecuTorch's `MemoryAlgoResult`: the place of each tensor, and the bytes of each memory.

    Bytes are used again as soon as a lifetime ends, and a tensor shares those of its views. The arms and bodies of
    control flow, which ExecuTorch plans first, are placed among the tensors of the graph that runs them, from the step
    that does to the last use of what they return; the result has the places of their tensors as well. Raises
    ValueError for a tensor in the bytes of one that is not planned. O(n log n) for n tensors. spec: FP12.1 to FP12.4
    """
    return searched(0)(alignment, specs, graph_module, graph_signature, extra_padding)


def searched(effort: int) -> Callable[..., Any]:
    """`packed`, with looks at boxes that a search may spend in each memory of each graph. spec: FP12.1"""

    def algorithm(
        alignment: int, specs: Iterable[Any], graph_module: Any, graph_signature: Any, extra_padding: int = 0
    ) -> Any:  # fmt: skip
        from executorch.exir.memory_planning import MemoryAlgoResult, SpecAllocResult

        memories: dict[int, _Memory] = {}
        own, inside = _shared(specs, alignment)
        for members in own:
            birth, death = members[0].lifetime
            size = max(spec.allocated_memory for spec in members)
            memory = FIRST_MEMORY if members[0].mem_id is None else members[0].mem_id
            held = [(spec, 0) for spec in members]
            memories.setdefault(memory, _Memory()).add(LiveBuffer(birth, death, size, alignment), held)
        known = {spec for members in own for spec in members} | set(inside)
        for birth, death, parts in _parts(graph_module):
            for memory in range(max(len(part.meta[SIZES]) for part in parts)):
                size = max(sum(part.meta[SIZES][memory : memory + 1]) for part in parts)
                inner = (spec for part in parts for spec in _placed_in(part, memory) if spec not in known)
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
                raise ValueError(f"{spec} lies in the bytes of a tensor that is not planned: {base}")
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


def _shared(specs: Iterable[Any], alignment: int) -> tuple[list[list[Any]], list[Any]]:
    """The tensors with bytes of their own, each beside its views, and those that lie in another's.

    A view has the lifetime of its base: the one list, which either changes.
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


def _parts(graph_module: Any) -> Iterator[tuple[int, int, list[Any]]]:
    """The arms and bodies that a graph runs, from which step to which their bytes must be kept.

    The arms of one cond come together, since they may lie in the same bytes: one of them runs.
    """
    nodes = list(graph_module.graph.nodes)
    step = {node: k for k, node in enumerate(nodes)}
    for k, node in enumerate(nodes):
        called = [each for each in node.all_input_nodes if each.op == "get_attr"]
        parts = [getattr(graph_module, each.target, None) for each in called]
        planned = [part for part in parts if SIZES in getattr(part, "meta", ())]
        is_cond = getattr(node.target, "__name__", "") == COND
        for group in [planned] if is_cond and planned else [[part] for part in planned]:
            yield k, _last_use(node, step), group


def _last_use(node: Any, step: dict[Any, int]) -> int:
    """The last step that uses what a node returns, or what lies there."""
    last, waiting = step[node], [node]
    while waiting:
        for user in waiting.pop().users:
            last = max(last, step[user])
            if getattr(user.target, "__name__", "") in PASSES_ON:
                waiting.append(user)
    return max([last, *(int(spec.lifetime[1]) for spec in _specs(node) if spec.lifetime[1] is not None)])


def _placed_in(part: Any, memory: int) -> Iterator[Any]:
    """The tensors that have a place in a memory of an arm or body, and in those that it runs."""
    for node in part.graph.nodes:
        yield from (spec for spec in _specs(node) if spec.mem_id == memory and spec.mem_offset is not None)
    for _, _, parts in _parts(part):
        for inner in parts:
            yield from _placed_in(inner, memory)


def _specs(node: Any) -> Sequence[Any]:
    """ExecuTorch's records of the tensors that a node returns."""
    found, waiting = [], [node.meta.get("spec")]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | tuple):
            waiting.extend(each)
        elif hasattr(each, "mem_offset"):
            found.append(each)
    return found
