"""The memory of a graph of ggml, planned by this project: the address of each tensor, and the work buffer.

    from tmmu.exporters.ggml import plan_graph

    planned = plan_graph(graph, threads=2)       # a ggml_cgraph of ggml-python, made in a context with no_alloc
    memory = numpy.zeros(planned.size + ALIGNMENT, numpy.uint8)
    planned.place(align(memory.ctypes.data))     # sets `data` of each tensor; then write the inputs
    planned.compute()

A view has its base's bytes. An operator that writes into a view (`ggml_cpy`, `ggml_set_rows`, those that end in
`_inplace`) changes the base. A result may take the bytes of an operand for the operators for which ggml's allocator
does that. As with that allocator, the bytes of an input may be overwritten: write inputs before each computation, and
verify with `--donate 'input.*'`. Tensors that have an address before, such as weights, stay where they are.
`describe_placement` states as a text plan where the tensors of a graph are, also if another allocator placed them, such
as ggml's `gallocr`; `verify-plan` judges it. spec: FP13.1 to FP13.5
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tmmu.core.extras import require_import
from tmmu.core.vocabulary import ArenaConfiguration, Bindings, Body, Model, Node, Role, Tensor
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan

ALIGNMENT = 64
"""The arena, and each tensor in it, begin at a multiple of this number of bytes."""
ARENA, WORK, THREADS = "memory", "work", "threads"
"""The names of the arena, of the tensor that is ggml's work buffer, and of the binding on which its size depends."""
INPUT = "input"
"""The names of the tensors that the caller writes begin with this word and a point."""
OUTPUT_FLAG = 2
VIEWS = ("NONE", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE")
"""The operators that compute nothing."""
IN_PLACE = frozenset({
    "FILL", "SCALE", "DIAG_MASK_ZERO", "DIAG_MASK_INF", "ADD", "ADD_ID", "ADD1", "SUB", "MUL", "DIV", "SQR", "SQRT",
    "LOG", "UNARY", "ROPE", "ROPE_BACK", "SILU_BACK", "RMS_NORM", "RMS_NORM_BACK", "SOFT_MAX", "SOFT_MAX_BACK",
})  # fmt: skip
"""The operators whose result may have the bytes of an operand of the same layout."""


class GraphNode(NamedTuple):
    """A node that computes: the tensors that it reads, the one that it writes, and whether that existed before.

    `in_place` are the operands whose bytes the result may take.
    """

    op: str
    reads: tuple[int, ...]
    result: int | None
    changed: int | None
    in_place: tuple[int, ...]


@dataclass
class GraphMemory:
    """The tensors of a graph that need memory, and the nodes that use them.

    Attributes
    ----------
    names, bytes
        Of each tensor that is no view and had no address.
    inputs, outputs
        The tensors that the caller writes before the first node, and reads after the last.
    nodes
        The nodes that compute, in order.
    outside
        The names of the tensors that had an address.
    """

    names: list[str] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    nodes: list[GraphNode] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    _roots: list[Any] = field(default_factory=list)
    _views: list[tuple[Any, int]] = field(default_factory=list)

    def place(self, addresses: list[int]) -> None:
        """Set the address of each tensor, and of its views. spec: FP13.1, FP13.2"""
        for root, address in zip(self._roots, addresses, strict=True):
            root.contents.data = address
        for view, base in self._views:
            view.contents.data = addresses[base] + view.contents.view_offs

    def addresses(self) -> list[int]:
        """Return the address that each tensor has now, 0 for none."""
        return [root.contents.data or 0 for root in self._roots]

    def last_uses(self) -> dict[int, int]:
        """Return the last node that uses each tensor; outputs are used after all of them. O(nodes)."""
        found: dict[int, int] = {}
        for step, node in enumerate(self.nodes):
            found |= dict.fromkeys((*node.reads, *(t for t in (node.result, node.changed) if t is not None)), step)
        return found | dict.fromkeys(self.outputs, len(self.nodes))


def load_ggml() -> Any:
    """Return the module with the functions of ggml. Raises MISSING_PACKAGE."""
    with require_import("ggml", "a graph of ggml", "ggml"):
        from ggml import ggml
    return ggml


def read_graph(graph: Any) -> GraphMemory:
    """Read the tensors and nodes of a graph, before it is placed. O(nodes). spec: FP13.1, FP13.3"""
    ggml, memory = load_ggml(), GraphMemory()
    rows: dict[int, int | None] = {}
    seen: set[int] = set()

    def row_of(tensor: Any) -> int | None:
        """Return the row of the tensor that has the bytes of this one, None if it is outside."""
        root = tensor.contents.view_src or tensor
        key = ctypes.addressof(root.contents)
        if key not in rows:
            if root.contents.data:
                rows[key] = None
                memory.outside.append(root.contents.name.decode())
            else:
                rows[key] = len(memory.names)
                is_input = ggml.ggml_op_name(root.contents.op) == b"NONE"
                memory.inputs += [len(memory.names)] if is_input else []
                kind = INPUT if is_input else "node"
                memory.names.append(f"{kind}.{len(rows)} {root.contents.name.decode()}".rstrip())
                memory.bytes.append(ggml.ggml_nbytes(root))
                memory._roots.append(root)
        row, own = rows[key], ctypes.addressof(tensor.contents)
        if row is not None and own != key and own not in seen:
            seen.add(own)
            memory._views.append((tensor, row))
        if row is not None and tensor.contents.flags & OUTPUT_FLAG and row not in memory.outputs:
            memory.outputs.append(row)
        return row

    last: int | None = None
    for number in range(ggml.ggml_graph_n_nodes(graph)):
        node = ggml.ggml_graph_node(graph, number)
        op = ggml.ggml_op_name(node.contents.op).decode()
        sources = [source for source in node.contents.src if source]
        read = [row_of(source) for source in sources]
        last = row_of(node)
        if op in VIEWS:
            continue
        is_change = bool(node.contents.view_src)
        operands = dict.fromkeys(row for row in (*read, last if is_change else None) if row is not None)
        candidates = dict.fromkeys(
            row
            for row, source in zip(read, sources, strict=True)
            if row is not None and op in IN_PLACE and not is_change and _is_whole(ggml, node, source)
        )
        memory.nodes.append(
            GraphNode(op, tuple(operands), None if is_change else last, last if is_change else None, tuple(candidates))
        )
    if not memory.outputs and last is not None:
        memory.outputs.append(last)
    return memory


def _is_whole(ggml: Any, node: Any, source: Any) -> bool:
    """Whether an operand has the layout of the result, and all bytes of its base."""
    base, (result, operand) = source.contents.view_src or source, (node.contents, source.contents)
    is_same = result.type == operand.type and [*result.ne, *result.nb] == [*operand.ne, *operand.nb]
    return is_same and ggml.ggml_nbytes(base) == ggml.ggml_nbytes(source) and not operand.view_offs


def build_model(memory: GraphMemory, work: int = 0, threads: int | None = None) -> Model:
    """Build the model of a graph, with a work buffer of `work` bytes, which every node changes.

    Inputs are donated. O(nodes).
    """
    made = {node.result for node in memory.nodes}
    assert made.isdisjoint(memory.inputs)
    tensors = [
        Tensor(name, (size,), "uint8", Role.INPUT if row in memory.inputs else Role.ACTIVATION, size, ALIGNMENT)
        for row, (name, size) in enumerate(zip(memory.names, memory.bytes, strict=True))
    ]
    if work:
        tensors.append(Tensor(WORK, (work,), "uint8", Role.ACTIVATION, work, ALIGNMENT))
    nodes, scratch = list[Node](), len(memory.names)
    for step, node in enumerate(memory.nodes):
        changed = tuple(t for t in (node.changed, scratch if work and step else None) if t is not None)
        reads = (*node.reads, *(t for t in changed if t not in node.reads))
        results = tuple(t for t in (node.result, scratch if work and not step else None) if t is not None)
        hints = () if node.result is None else tuple((node.result, operand) for operand in node.in_place)
        nodes.append(
            Node(str(step), node.op, reads, (*results, *changed), domain="ggml", in_place=hints, mutates=changed)
        )
    donated = [memory.names[t] for t in memory.inputs]
    dims = {} if threads is None else {THREADS: threads}
    body = Body(-1, "", tuple(memory.inputs), tuple(memory.outputs))
    return Model("ggml", tuple(tensors), tuple(nodes), (body,), bindings=Bindings(dims=dims, donated=tuple(donated)))


@dataclass
class PlannedGraph:
    """A graph with its plan: `size` bytes hold all tensors that had no address, and the work buffer.

    `base` is the address of the arena, 0 before the graph is placed.
    """

    graph: Any
    memory: GraphMemory
    model: Model
    plan: Plan
    threads: int
    work: int
    base: int = 0

    @property
    def size(self) -> int:
        """The bytes of the arena."""
        storages = self.plan.allocation.storages
        return int((storages.offset + storages.bytes).max(initial=0))

    @property
    def offsets(self) -> Mapping[str, int]:
        """The first byte of each tensor of the plan in the arena."""
        allocation = self.plan.allocation
        return dict(zip(allocation.tensors.name.list(), allocation.addresses().tolist(), strict=True))

    def place(self, address: int) -> None:
        """Set the address of each tensor, in an arena that begins at a multiple of `ALIGNMENT`. spec: FP13.2

        Raises ValueError for another address.
        """
        if not address or address % ALIGNMENT:
            raise ValueError(f"expected the address of an arena, a multiple of {ALIGNMENT}, got {address:#x}")
        offsets = self.offsets
        self.memory.place([address + offsets[name] for name in self.memory.names])
        self.base = address

    def compute(self) -> None:
        """Compute the graph in the arena where it was placed.

        Raises RuntimeError if it was not placed, if ggml needs a larger work buffer, or if it fails.
        """
        if not self.base:
            raise RuntimeError("the graph is not placed: call place first")
        ggml = load_ggml()
        plan = ggml.ggml_graph_plan(self.graph, self.threads, None)
        if plan.work_size > self.work:
            raise RuntimeError(f"ggml needs a work buffer of {plan.work_size} bytes, the plan has {self.work}")
        if plan.work_size:
            plan.work_data = ctypes.cast(self.base + self.offsets[WORK], ctypes.POINTER(ctypes.c_uint8))
        status = ggml.ggml_graph_compute(self.graph, ctypes.byref(plan))
        if status != ggml.GGML_STATUS_SUCCESS:
            raise RuntimeError(f"ggml computed with the status {status}")


def plan_graph(graph: Any, threads: int = 1, effort: int | None = None) -> PlannedGraph:
    """Plan the memory of a graph whose tensors are not placed, except those that have an address.

    Parameters
    ----------
    graph
        A `ggml_cgraph` of ggml-python.
    threads
        The threads that compute it. The plan binds them, because the size of the work buffer depends on them.
    effort
        The looks that a search for a lower footprint may spend.

    Raises
    ------
    TmmuError
        MISSING_PACKAGE without ggml-python.

    Notes
    -----
    The cost is that of `plan_memory`. spec: FP13.1, FP13.2
    """
    memory = read_graph(graph)
    work = int(load_ggml().ggml_graph_plan(graph, threads, None).work_size)
    model = build_model(memory, work, threads)
    arena = ArenaConfiguration(ARENA, (Role.INPUT, Role.ACTIVATION, Role.SCRATCH), alignment=ALIGNMENT)
    plan = plan_memory(model, (arena,), PlanOptions(layout="packed", effort=effort)).plan
    return PlannedGraph(graph, memory, model, plan, threads, work)


def make_allocator() -> Any:
    """Return an allocator of ggml, a `gallocr`, for the memory of this processor. The caller frees it."""
    ggml = load_ggml()
    device = ggml.ggml_backend_reg_dev_get(ggml.ggml_backend_cpu_reg(), 0)
    return ggml.ggml_gallocr_new(ggml.ggml_backend_dev_buffer_type(device))


def measure_gallocr(graph: Any) -> int:
    """Return the bytes that ggml's own allocator needs for a graph that is not placed; it allocates nothing.

    It has no work buffer in them. spec: FP13.5
    """
    ggml, allocator, size = load_ggml(), make_allocator(), (ctypes.c_size_t * 1)()
    ggml.ggml_gallocr_reserve_n_size(allocator, graph, None, None, size)
    ggml.ggml_gallocr_free(allocator)
    return int(size[0])


def describe_placement(memory: GraphMemory, base: int, size: int, alignment: int = 32) -> str:
    """Return a text plan of where the tensors of a graph are now, in `size` bytes from the address `base` on.

    A result that has the address of an operand, which no later node uses, is stated as in place if ggml may place it
    so. spec: FP13.4
    """
    return "\n".join(_lines(memory, base, size, alignment)) + "\n"


def _lines(memory: GraphMemory, base: int, size: int, alignment: int) -> Iterator[str]:
    yield "tmmu-plan-text 1"
    yield f"arena {ARENA} {size} align {alignment}"
    at, names, last = memory.addresses(), [json.dumps(name) for name in memory.names], memory.last_uses()
    taken = {
        node.result: operand
        for step, node in enumerate(memory.nodes)
        for operand in node.in_place
        if node.result is not None and at[operand] == at[node.result] and last[operand] == step
    }
    for row, name in enumerate(names):
        words = ["input", "donated"] if row in memory.inputs else []
        words += ["output"] if row in memory.outputs else []
        words += [f"inplace {names[taken[row]]}"] if row in taken else []
        yield " ".join(("tensor", name, str(memory.bytes[row]), ARENA, str(at[row] - base), *words))
    for step, node in enumerate(memory.nodes):
        written = [names[t] for t in (node.result, node.changed) if t is not None]
        changes = [] if node.changed is None else ["changes", names[node.changed]]
        reads = [names[t] for t in node.reads]
        yield " ".join(("step", str(step), f"ggml::{node.op}", *reads, "->", *written, *changes))
