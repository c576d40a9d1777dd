"""The operations of a forward pass by ggml, on planned memory: the package ggml-python (extra `ggml`).

Consecutive operations are one graph of ggml, which computes them without Python between them. Each tensor of a graph is
at the address of the plan: operands, results and scratch of its operation, the weights and the cache. ggml allocates
none of them: its contexts hold the descriptions of tensors only, in memory that is made when kernels are bound. The
work buffer of a graph, the positions and the mask of attention are in `WORK`, the tensor of the plan that is kept for a
whole pass. The size of the work buffer depends on the number of threads, which the plan binds.

A graph is built once for each shape: the rows of a batch, the blocks of positions, the rows of logits. Every product
multiplies one row of a weight with one row of the batch, and attention goes over the positions of a row one after the
other. Therefore neither the size of a chunk nor that of a batch changes a bit of the logits, as on the device `numpy`.
Weights that ggml multiplies faster in another order are stored so, if the results of a row do not depend on the batch.
spec: FD10.1 to FD10.8
"""

from __future__ import annotations

import ctypes
import math
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmmu.core.extras import require_import
from tmmu.foundry.context import BLOCK
from tmmu.foundry.device import Command, Device
from tmmu.foundry.forward import Matrix, Operation, PassSize, widths
from tmmu.foundry.kernels import (
    USES_CACHE,
    BoundOperation,
    BufferRegion,
    DeviceKernels,
    DeviceWeight,
    Kernel,
    OperationMemory,
    PassBatch,
)
from tmmu.foundry.shapes import LlamaShape
from tmmu.foundry.weights import WeightType

PACKED = "repacked"
"""The form of a weight whose rows ggml has stored in groups."""

GROUP = 8
"""The rows of such a group."""

PACKED_TYPES = ("Q4_0",)
"""The types that are stored so. Repacked K types give other bits in batches of four rows and more."""

OF_ALL_ROWS = ("embed", "norm", "project_k", "project_v", "norm_k", "rotate_k")
"""The operations up to the cache of the last layer: later ones are computed for the rows of logits only."""

SLOTS = 3
"""The graphs of different shapes that a kernel keeps."""

TENSORS, TENSORS_OF_ATTENTION = 8, 12
"""The most descriptions of tensors that an operation needs, and those of attention for each head that repeats one."""

ALIGNED = 64
"""Each part of `WORK` begins at a multiple of this number of bytes."""


_log: list[Any] = []
"""The function that ggml calls with each line of its log, as long as the process runs."""


@cache
def load_ggml() -> Any:
    """Return the module with the functions of ggml, whose log is silent. Raises MISSING_PACKAGE."""
    with require_import("ggml", "the device ggml", "ggml"):
        from ggml import ggml
    quiet = ggml.ggml_log_callback(lambda level, text, data: None)
    ggml.ggml_log_set(quiet, None)
    _log.append(quiet)
    return ggml


@cache
def _packed_buffer() -> int | None:
    """Return a buffer of ggml whose tensors are repacked, or None if this build has none. Its own bytes are not used.

    A tensor that names this buffer is stored, and multiplied, in the order that ggml chooses for the processor.
    """
    ggml = load_ggml()
    registry = ggml.ggml_backend_cpu_reg()
    found = ggml.ggml_backend_reg_get_proc_address(registry, b"ggml_backend_dev_get_extra_bufts")
    address = ctypes.cast(found, ctypes.c_void_p).value if found else None
    if address is None:
        return None
    list_types = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)(address)
    types = list_types(ggml.ggml_backend_reg_dev_get(registry, 0))
    for number in range(16):
        kind = types[number]
        if not kind:
            return None
        if ggml.ggml_backend_buft_name(kind) == b"CPU_REPACK":
            buffer: int = ggml.ggml_backend_buft_alloc_buffer(kind, ALIGNED)
            return buffer
    return None


def count_threads() -> int:
    """Return the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Places(NamedTuple):
    """The addresses of the memory of an operation. All are 0 while a graph is only measured."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    scratch: int
    weights: tuple[tuple[Matrix, int, str], ...]
    keys: int
    values: int
    heads: int
    capacity: int

    @classmethod
    def of(cls, bound: OperationMemory) -> _Places:
        """Return the addresses of memory that exists."""
        held = bound.cache
        return cls(
            tuple(map(_address, bound.reads)), tuple(map(_address, bound.writes)),
            0 if bound.scratch is None else _address(bound.scratch),
            tuple((weight, _address(weight.region), weight.form) for weight in bound.weights),
            *((_address(held.keys), _address(held.values), held.heads, held.capacity) if held else (0, 0, 0, 0)),
        )  # fmt: skip


def _address(region: BufferRegion) -> int:
    return region.buffer.address + region.offset


class _WorkParts(NamedTuple):
    """The parts of `WORK`: where the rows of the cache, the masks of attention and the work buffer of ggml begin.

    The positions of the rows are at byte 0. `window` is the mask of layers with a window, of no byte if there are none.
    """

    cells: int
    mask: int
    window: int
    buffer: int

    @classmethod
    def of(cls, size: PassSize, shape: LlamaShape) -> _WorkParts:
        """Return the parts for the largest batch."""
        cells, masked = _align(4 * size.rows), _align(2 * size.rows * size.context)
        mask = cells + _align(8 * size.rows)
        window = mask + masked
        return cls(cells, mask, window, window + (masked if shape.window else 0))


def _align(size: int) -> int:
    return size + -size % ALIGNED


class GraphShape(NamedTuple):
    """What a graph is built for: rows of the batch, positions of attention (a multiple of 128), rows of logits.

    The last layer is computed for the rows of logits, and at least for one row.
    """

    rows: int
    positions: int
    outputs: int


class TensorPlace(NamedTuple):
    """A tensor of a graph: its operator, its first byte, and the number of bytes from its first to its last."""

    op: str
    address: int
    bytes: int


class _Graph:
    """The descriptions of the tensors of one shape, in memory that is made once and used again for another shape."""

    def __init__(self, ggml: Any, most: int) -> None:
        self.ggml, self.most = ggml, most
        size = most * ggml.ggml_tensor_overhead() + ggml.ggml_graph_overhead_custom(most, False)
        self.memory = np.zeros(size + ALIGNED, np.uint8)
        start = int(self.memory.ctypes.data)
        start += -start % ALIGNED
        self.context = ggml.ggml_init(ggml.ggml_init_params(mem_size=size, mem_buffer=start, no_alloc=True))
        weakref.finalize(self, _free_context, ggml, self.context, self.memory)
        self.shape: GraphShape | None = None

    def begin(self, shape: GraphShape) -> None:
        """Forget the tensors, and begin a graph of another shape."""
        self.ggml.ggml_reset(self.context)
        self.shape = shape
        self.nodes = self.ggml.ggml_new_graph_custom(self.context, self.most, False)

    def add(self, result: Any, address: int | None = None) -> Any:
        """Append a node to the graph, whose result is at the address; None: it is a view, and has its address."""
        if address is not None:
            result.contents.data = address or None
        self.ggml.ggml_build_forward_expand(self.nodes, result)
        return result

    def plan(self, threads: int, pool: Any) -> Any:
        """Return ggml's own plan: the threads, and the size of the work buffer."""
        plan = self.ggml.ggml_graph_plan(self.nodes, threads, pool)
        plan.use_ref = True  # attention over one position after the other, whatever the rows and threads
        return plan


def _free_context(ggml: Any, context: Any, memory: NDArray[np.uint8]) -> None:
    """Free a context before the memory of its descriptions, which this call keeps."""
    ggml.ggml_free(context)
    del memory


class _Builder:
    """It writes the nodes of operations into a graph of one shape."""

    def __init__(self, graph: _Graph, shape: LlamaShape, work: int, parts: _WorkParts) -> None:
        self.graph, self.ggml, self.context = graph, graph.ggml, graph.context
        self.shape, self.work, self.parts = shape, work, parts
        assert graph.shape is not None
        self.rows, self.positions, self.outputs = graph.shape
        self.wide = widths(shape)
        self.start = 0

    def build(self, operation: Operation, places: _Places) -> None:
        """Append the nodes of an operation.

        What only rows of logits need is computed from row `start` on, the first of them.
        """
        is_last = operation.layer == self.shape.n_layers - 1 or operation.name in ("final_norm", "logits")
        part = operation.name.rsplit(".", 1)[-1]
        self.start = self.rows - self.outputs if is_last and part not in OF_ALL_ROWS else 0
        WRITERS[operation.kind](self, operation, places)

    def leaf(self, kind: int, address: int, *dims: int) -> Any:
        """Describe memory: elements of a type, the innermost dimension first."""
        ne = (ctypes.c_int64 * len(dims))(*dims)
        made = self.ggml.ggml_new_tensor(self.context, kind, len(dims), ne)
        made.contents.data = address or None
        return made

    def floats(self, address: int, *dims: int) -> Any:
        """Describe float32 memory."""
        return self.leaf(self.ggml.GGML_TYPE_F32, address, *dims)

    def from_start(self, address: int, width: int) -> int:
        """Return the address of row `start` of float32 rows; 0 for no memory."""
        return address + 4 * width * self.start if address else 0

    def operand(self, address: int, *dims: int) -> Any:
        """Describe the rows of an operand from row `start` on."""
        return self.floats(self.from_start(address, math.prod(dims)), *dims, self.rows - self.start)

    def weight(self, places: _Places, number: int = 0) -> Any:
        """Describe a weight."""
        weight, address, form = places.weights[number]
        return describe_weight(self.ggml, self.context, weight, address, form)

    def width(self, tensor: str) -> int:
        """Return the elements of a row of a tensor of the plan."""
        return self.wide[tensor.rsplit(".", 1)[-1]]

    def embed(self, operation: Operation, places: _Places) -> None:
        """Look up the row of the embedding for each token, and scale it."""
        ids = self.leaf(self.ggml.GGML_TYPE_I32, places.reads[0], self.rows)
        rows = self.graph.add(self.ggml.ggml_get_rows(self.context, self.weight(places), ids), places.writes[0])
        if self.shape.embedding_scale != 1:
            self.graph.add(self.ggml.ggml_scale(self.context, rows, self.shape.embedding_scale), places.writes[0])

    def rms_norm(self, operation: Operation, places: _Places) -> None:
        """Divide each row, or head of it, by the root of the mean of its squares, and multiply it with the weight."""
        ggml, weight = self.ggml, self.weight(places)
        width, row = places.weights[0][0].columns, self.width(operation.reads[0])
        if weight.contents.type != ggml.GGML_TYPE_F32:
            weight = self.graph.add(ggml.ggml_cast(self.context, weight, ggml.GGML_TYPE_F32), places.scratch)
        result = self.from_start(places.writes[0], row)
        x = self.operand(places.reads[0], width, row // width)
        normed = self.graph.add(ggml.ggml_rms_norm(self.context, x, self.shape.rms_eps), result)
        self.graph.add(ggml.ggml_mul(self.context, normed, weight), result)

    def project(self, operation: Operation, places: _Places) -> None:
        """Multiply rows with a transposed weight, and add the bias."""
        x = self.operand(places.reads[0], self.width(operation.reads[0]))
        result = self.from_start(places.writes[0], self.width(operation.writes[0]))
        product = self.graph.add(self.ggml.ggml_mul_mat(self.context, self.weight(places), x), result)
        if len(places.weights) > 1:
            self.graph.add(self.ggml.ggml_add(self.context, product, self.weight(places, 1)), result)

    def rope(self, operation: Operation, places: _Places) -> None:
        """Rotate pairs of each head by the angle of the position of the row."""
        ggml, wide, shape = self.ggml, self.shape.head_dim, self.shape
        width = self.width(operation.reads[0])
        x = self.operand(places.reads[0], wide, width // wide)
        at = self.work + 4 * self.start if self.work else 0
        positions = self.leaf(ggml.GGML_TYPE_I32, at, self.rows - self.start)
        by = shape.rotations[shape.rotation_of(operation.layer)]
        factors = self.floats(places.weights[0][1], wide // 2) if places.weights else None
        kind = ggml.GGML_ROPE_TYPE_NEOX if shape.kind.halves else ggml.GGML_ROPE_TYPE_NORMAL
        turned = ggml.ggml_rope_ext(
            self.context, x, positions, factors, wide, kind, by.original, by.base, by.scale, by.mixing, by.magnitude,
            by.FAST, by.SLOW,
        )  # fmt: skip
        self.graph.add(turned, self.from_start(places.writes[0], width))

    def attention(self, operation: Operation, places: _Places) -> None:
        """Store keys and values of the batch in the cache; then let each row attend to the positions up to its own."""
        ggml, context, wide = self.ggml, self.context, self.shape.head_dim
        shared, row = self.shape.n_kv_heads, 2 * wide
        head = places.capacity * row
        part = self.parts.window if self.shape.window_of(operation.layer) else self.parts.mask
        mask_at = self.work + part + 2 * self.positions * self.start if self.work else 0
        cells = self.leaf(ggml.GGML_TYPE_I64, self.work + self.parts.cells if self.work else 0, self.rows)
        held = []
        for address, operand in ((places.keys, places.reads[1]), (places.values, places.reads[2])):
            whole = self.leaf(ggml.GGML_TYPE_F16, address, wide, places.capacity, places.heads)
            rows = ggml.ggml_permute(context, self.floats(operand, wide, shared, self.rows), 0, 2, 1, 3)
            times = places.heads // shared
            for number in range(times):
                heads = ggml.ggml_view_3d(
                    context, whole, wide, places.capacity, shared, row, times * head, number * head
                )
                self.graph.add(ggml.ggml_set_rows(context, heads, rows, cells))
            held.append(ggml.ggml_view_3d(context, whole, wide, self.positions, places.heads, row, head, 0))
        query = self.operand(places.reads[0], wide, self.shape.n_heads)
        mask = self.leaf(ggml.GGML_TYPE_F16, mask_at, self.positions, self.rows - self.start)
        attended = ggml.ggml_flash_attn_ext(
            context, ggml.ggml_permute(context, query, 0, 2, 1, 3), *held, mask, self.shape.attention_scale, 0.0,
            self.shape.score_limit,
        )  # fmt: skip
        self.graph.add(attended, self.from_start(places.writes[0], wide * self.shape.n_heads))

    def add(self, operation: Operation, places: _Places) -> None:
        """Add two rows. The result may have the address of the first operand."""
        x, y = (self.operand(address, self.shape.d_model) for address in places.reads)
        self.graph.add(self.ggml.ggml_add(self.context, x, y), self.from_start(places.writes[0], self.shape.d_model))

    def gate(self, operation: Operation, places: _Places) -> None:
        """Multiply the activation of a gate with its operand."""
        gate, up = (self.operand(address, self.shape.d_ff) for address in places.reads)
        result = self.from_start(places.writes[0], self.shape.d_ff)
        multiply = self.ggml.ggml_swiglu_split if operation.kind == "SwiGlu" else self.ggml.ggml_geglu_split
        self.graph.add(multiply(self.context, gate, up), result)

    def logits(self, operation: Operation, places: _Places) -> None:
        """Multiply the last rows with the output matrix, in private scratch; then copy the products to the output."""
        x = self.operand(places.reads[0], self.shape.d_model)
        private = self.graph.add(self.ggml.ggml_mul_mat(self.context, self.weight(places), x), places.scratch)
        if limit := self.shape.logit_limit:
            private = self.graph.add(self.ggml.ggml_scale(self.context, private, 1 / limit), places.scratch)
            private = self.graph.add(self.ggml.ggml_tanh(self.context, private), places.scratch)
            private = self.graph.add(self.ggml.ggml_scale(self.context, private, limit), places.scratch)
        output = self.floats(places.writes[0], self.shape.vocab, self.outputs)
        self.graph.add(self.ggml.ggml_cpy(self.context, private, output))


WRITERS: dict[str, Callable[[_Builder, Operation, _Places], None]] = {
    "Embed": _Builder.embed, "RmsNorm": _Builder.rms_norm, "Project": _Builder.project, "Rope": _Builder.rope,
    "Attention": _Builder.attention, "Add": _Builder.add, "SwiGlu": _Builder.gate, "GeGlu": _Builder.gate,
    "Logits": _Builder.logits,
}  # fmt: skip
"""The function that writes the nodes of each kind of operation in `forward`."""


def describe_weight(ggml: Any, context: Any, weight: Matrix, address: int, form: str) -> Any:
    """Describe a weight of a form at an address, in a context of ggml."""
    kind = getattr(ggml, f"GGML_TYPE_{weight.type}")
    made = ggml.ggml_new_tensor_2d(context, kind, weight.columns, weight.rows)
    made.contents.data = address or None
    if form:
        made.contents.buffer = _packed_buffer()
        ggml.ggml_backend_buffer_init_tensor(made.contents.buffer, made)
    return made


class GgmlKernel:
    """Consecutive operations as graphs of ggml, on the memory of a session."""

    def __init__(
        self, kernels: GgmlKernels, steps: Sequence[BoundOperation], shape: LlamaShape, size: PassSize
    ) -> None:
        self.kernels, self.ggml, self.shape = kernels, kernels.ggml, shape
        self.steps = [(step.operation, _Places.of(step.memory)) for step in steps]
        self.uses_cache = any(step.operation.kind in USES_CACHE for step in steps)
        work = steps[0].memory.work
        assert work is not None
        self.parts = parts = _WorkParts.of(size, shape)
        self.work, self.spare = _address(work), work.size - parts.buffer
        content: NDArray[np.uint8] = kernels.device.view(work.buffer, work.offset, np.uint8, (work.size,))
        self.positions = content[: 4 * size.rows].view(np.int32)
        self.cells = content[parts.cells : parts.cells + 8 * size.rows].view(np.int64)
        self.mask = content[parts.mask : parts.mask + 2 * size.rows * size.context].view(np.float16)
        self.window_mask = content[parts.window : parts.buffer].view(np.float16)
        self.numbers = np.arange(size.rows, dtype=np.int64)
        most = count_tensors([step.operation for step in steps], shape, max(places.heads for _, places in self.steps))
        self.slots = [(_Graph(self.ggml, most), ctypes.pointer(self.ggml.ggml_cplan())) for _ in range(SLOTS)]

    def __call__(self, batch: PassBatch) -> None:
        """Compute a batch."""
        if self.uses_cache:
            end = (batch.first + batch.rows - 1) // BLOCK * BLOCK + BLOCK
            self._write_positions(batch.rows, batch.first, end)
            shape = GraphShape(batch.rows, end, max(batch.outputs, 1))
        else:
            shape = GraphShape(batch.rows, 0, batch.outputs)
        graph, plan = self.prepare(shape)
        status = self.ggml.ggml_graph_compute(graph.nodes, plan)
        if status != self.ggml.GGML_STATUS_SUCCESS:
            raise RuntimeError(f"ggml computed with the status {status}")

    def _write_positions(self, rows: int, first: int, end: int) -> None:
        """Write the positions of the rows, and minus infinity where a row does not attend to a position."""
        np.add(self.numbers[:rows], first, out=self.cells[:rows])
        np.copyto(self.positions[:rows], self.cells[:rows], casting="same_kind")
        mask = self.mask[: rows * end].reshape(rows, end)
        for row in range(rows):
            mask[row, : first + row + 1] = 0
            mask[row, first + row + 1 :] = -np.inf
        if window := self.shape.window:
            windowed = self.window_mask[: rows * end].reshape(rows, end)
            np.copyto(windowed, mask)
            for row in range(rows):
                windowed[row, : max(first + row + 1 - window, 0)] = -np.inf

    def prepare(self, shape: GraphShape) -> tuple[_Graph, Any]:
        """Return the graph of a shape with its plan; build it if it is none of the last ones."""
        for number, (graph, plan) in enumerate(self.slots):
            if graph.shape == shape:
                if number:
                    self.slots.insert(0, self.slots.pop(number))
                return graph, plan
        graph, plan = self.slots.pop()
        self.slots.insert(0, (graph, plan))
        graph.begin(shape)
        builder = _Builder(graph, self.shape, self.work, self.parts)
        for operation, places in self.steps:
            builder.build(operation, places)
        made = graph.plan(self.kernels.threads, self.kernels.pool)
        if made.work_size > self.spare:
            graph.shape = None
            raise RuntimeError(f"ggml needs a work buffer of {made.work_size} bytes, the plan has {self.spare}")
        made.work_data = ctypes.cast(self.work + self.parts.buffer, ctypes.POINTER(ctypes.c_uint8))
        plan[0] = made
        return graph, plan

    def tensors(self) -> Iterator[TensorPlace]:
        """Yield every tensor of the graph that was computed last, operands and views included, and the work buffer."""
        ggml, (graph, plan) = self.ggml, self.slots[0]
        if graph.shape is None:
            return
        for number in range(ggml.ggml_graph_n_nodes(graph.nodes)):
            node = ggml.ggml_graph_node(graph.nodes, number)
            for each in (node, *(source for source in node.contents.src if source)):
                op = ggml.ggml_op_name(each.contents.op).decode()
                yield TensorPlace(op, each.contents.data or 0, ggml.ggml_nbytes(each))
        if plan[0].work_size:
            yield TensorPlace("WORK", ctypes.addressof(plan[0].work_data.contents), plan[0].work_size)


def count_tensors(operations: Sequence[Operation], shape: LlamaShape, cache_heads: int) -> int:
    """Return a number of tensors that a graph of the operations does not exceed. O(operations)."""
    times = 1 + cache_heads // shape.n_kv_heads
    return sum(TENSORS_OF_ATTENTION * times if each.kind == "Attention" else TENSORS for each in operations)


class GgmlKernels(DeviceKernels):
    """The operations of a forward pass by ggml, for a device whose buffers this process can address.

    Parameters
    ----------
    device
        The device that makes the buffers, and executes commands in one thread.
    threads
        The threads that compute a graph; None: the processors that the process may use.

    Raises
    ------
    TmmuError
        MISSING_PACKAGE if ggml-python is not installed.
    """

    weight_types: tuple[WeightType, ...] = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K")
    activations = ("float32",)

    def __init__(self, device: Device, threads: int | None = None) -> None:
        self.ggml, self.device = load_ggml(), device
        self.threads: int = threads or count_threads()
        settings = self.ggml.ggml_threadpool_params_default(self.threads)
        self.pool = self.ggml.ggml_threadpool_new(ctypes.byref(settings))
        weakref.finalize(self, self.ggml.ggml_threadpool_free, self.pool)
        self._forms: dict[tuple[int, int], str] = {}

    def workspace(self, operation: Operation, weights: Sequence[Matrix], shape: LlamaShape, size: PassSize) -> int:
        """Return the bytes of scratch of an operation: the private logits, and a norm that is not float32."""
        if operation.kind == "Logits":
            return 4 * size.output_rows * shape.vocab
        if operation.kind == "RmsNorm" and weights[0].type != "F32":
            return 4 * weights[0].columns
        return 0

    def pass_workspace(
        self, operations: Sequence[Operation], weights: Mapping[str, Matrix], shape: LlamaShape, size: PassSize,
        cache_heads: int,
    ) -> int:  # fmt: skip
        """Return the bytes of `WORK`: positions, mask, and the work buffer that ggml's own plan of a pass states."""
        parts, needed = _WorkParts.of(size, shape), 0
        graph = _Graph(self.ggml, count_tensors(operations, shape, cache_heads))
        for first, end, pass_shape in (
            (0, -1, GraphShape(size.rows, size.context, size.output_rows)),
            (-1, None, GraphShape(size.rows, 0, size.output_rows)),
        ):
            graph.begin(pass_shape)
            builder = _Builder(graph, shape, 0, parts)
            for operation in operations[first:end]:
                forms = [(weights[name], 0, self.choose_form(operation, weights[name])) for name in operation.weights]
                reads = (0,) * len(operation.reads)
                builder.build(operation, _Places(reads, (0,), 0, tuple(forms), 0, 0, cache_heads, size.context))
            needed = max(needed, graph.plan(self.threads, self.pool).work_size)
        return parts.buffer + _align(needed)

    def choose_form(self, operation: Operation, weight: Matrix) -> str:
        """Return `PACKED` for a product with a weight that ggml repacks for this processor."""
        if operation.kind not in ("Project", "Logits") or weight.type not in PACKED_TYPES or weight.rows % GROUP:
            return ""
        key = weight.rows, weight.columns
        if key not in self._forms:
            self._forms[key] = ""
            if _packed_buffer() is not None:
                graph = _Graph(self.ggml, 1)
                made = describe_weight(self.ggml, graph.context, weight, 0, PACKED)
                self._forms[key] = PACKED if made.contents.extra else ""
        return self._forms[key]

    def group_rows(self, form: str) -> int:
        """Return the rows that are repacked together."""
        return GROUP if form else 1

    def store(self, weight: Matrix, form: str, source: BufferRegion, target: BufferRegion) -> Command:
        """Build the command that repacks whole groups of rows from `source` to `target`."""
        rows = target.size // self._row_bytes(weight)
        part = DeviceWeight(weight.type, rows, weight.columns, target)

        def repack() -> None:
            graph = _Graph(self.ggml, 1)
            made = describe_weight(self.ggml, graph.context, part, _address(target), form)
            self.ggml.ggml_backend_tensor_set(made, ctypes.c_void_p(_address(source)), 0, target.size)

        return repack

    def _row_bytes(self, weight: Matrix) -> int:
        size: int = self.ggml.ggml_row_size(getattr(self.ggml, f"GGML_TYPE_{weight.type}"), weight.columns)
        return size

    def bind(self, operation: Operation, bound: OperationMemory, shape: LlamaShape, size: PassSize) -> Kernel:
        """Return the kernel of one operation."""
        return GgmlKernel(self, [BoundOperation(operation, bound)], shape, size)

    def bind_all(self, steps: Sequence[BoundOperation], shape: LlamaShape, size: PassSize) -> list[Kernel]:
        """Return one kernel that computes all operations."""
        return [GgmlKernel(self, steps, shape, size)]
