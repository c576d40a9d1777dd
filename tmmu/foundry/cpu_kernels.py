"""The operations of a forward pass on the CPU, in NumPy: every result is written to memory that was planned.

Activations are read as float32, sums are float32, and each result is rounded once to the type of the activations. A
kernel decompresses a tile of rows of a weight at a time, and multiplies each row of the batch with the tile by a
separate call. Attention reads whole blocks of 128 positions: the cache is zero beyond the positions that were written,
and their scores are minus infinity. Therefore the shapes of all calls follow from the position of a row.

Two rules keep NumPy from allocating. Constants are arrays of no dimension, because NumPy makes an array of a Python
number at each call. Arithmetic does not broadcast other operands, and each operand is contiguous except in its last
axis, because NumPy would allocate buffers.
spec: FD6.4 to FD6.7
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.foundry.context import BLOCK
from tmmu.foundry.dequantize import dequantize, scratch_bytes, widen
from tmmu.foundry.device import Command, Device
from tmmu.foundry.forward import Matrix, Operation, PassSize
from tmmu.foundry.kernels import (
    BufferRegion,
    DeviceKernels,
    DeviceWeight,
    FormedMatrix,
    Kernel,
    LayerCache,
    OperationMemory,
    PassBatch,
)
from tmmu.foundry.packed_rows import PACKED, PACKED_TYPES, WIDTH, compile_product, pack_rows
from tmmu.foundry.shapes import LlamaShape
from tmmu.foundry.weights import BLOCKS

TILE = 256
"""The rows of a weight that are decompressed at a time."""

LOGIT_ROWS = 8
"""The rows of logits that are computed in private memory before they are copied to the output."""

ZERO, ONE = np.array(0, np.float32), np.array(1, np.float32)
HALF, CUBIC = np.array(0.5, np.float32), np.array(0.044715, np.float32)
ROOT = np.array(math.sqrt(2 / math.pi), np.float32)
MINUS_INFINITY = np.array(-np.inf, np.float32)

Formed = FormedMatrix | DeviceWeight
Floats = NDArray[np.float32]
Array = NDArray[Any]


class ScratchParts:
    """Consecutive parts of the scratch of an operation, each at a multiple of 64 bytes.

    Without memory, it only measures.
    """

    def __init__(self, content: NDArray[np.uint8] | None = None) -> None:
        self.content, self.used = content, 0

    def take(self, kind: Any, *shape: int) -> Array:
        """Return the next part as an array; without memory, the array is read-only."""
        size = math.prod(shape) * np.dtype(kind).itemsize
        first, self.used = self.used, self.used + size + -size % 64
        if self.content is None:
            return np.broadcast_to(np.zeros((), kind), shape)
        part: Array = self.content[first : first + size].view(kind).reshape(shape)
        return part


class Views:
    """The memory of an operation, as arrays."""

    def __init__(self, device: Device, bound: OperationMemory, size: PassSize) -> None:
        self.device, self.bound, self.dtype = device, bound, np.dtype(size.dtype)

    def of(self, region: BufferRegion, kind: Any, *shape: int) -> Array:
        """Return a region as an array of a type and a shape; one dimension may be -1, for the rest."""
        flat: Array = self.device.view(region.buffer, region.offset, np.uint8, (region.size,))
        shaped: Array = flat.view(kind).reshape(shape)
        return shaped

    def read(self, number: int, *shape: int) -> Array:
        """Return an operand, in the type of the activations."""
        return self.of(self.bound.reads[number], self.dtype, *shape)

    def written(self, *shape: int) -> Array:
        """Return the result, in the type of the activations."""
        return self.of(self.bound.writes[0], self.dtype, *shape)

    def blocks(self, number: int = 0) -> NDArray[np.uint8]:
        """Return the rows of a weight as bytes, uint8 [rows, bytes of a row]."""
        weight = self.bound.weights[number]
        return self.of(weight.region, np.uint8, weight.rows, -1)

    def cache(self) -> LayerCache:
        """Return the cache of the layer of the operation."""
        assert self.bound.cache is not None
        return self.bound.cache


class CpuOperation:
    """An operation. It takes its scratch when it is made, its other memory from `bind`, and then is a kernel."""

    def __init__(self, scratch: ScratchParts, weights: Sequence[Formed], shape: LlamaShape, size: PassSize) -> None:
        raise NotImplementedError

    def bind(self, views: Views) -> None:
        """Take the operands, results, weights and cache of the operation."""
        raise NotImplementedError

    def __call__(self, batch: PassBatch) -> None:
        """Compute a batch."""
        raise NotImplementedError


def limit_size(values: Floats, limit: Array) -> None:
    """Replace each x by limit · tanh(x / limit)."""
    np.divide(values, limit, out=values)
    np.tanh(values, out=values)
    np.multiply(values, limit, out=values)


class Product:
    """The product of rows of float32 with a transposed weight.

    A bias, float32, is added to it, and `limit` limits its size; both are done in float32.
    """

    def __init__(self, scratch: ScratchParts, weights: Sequence[Formed], limit: float = 0.0) -> None:
        weight = weights[0]
        self.has_bias = len(weights) > 1
        self.limit = np.array(limit, np.float32) if limit else None
        self.type, self.rows, self.columns = weight.type, weight.rows, weight.columns
        self.height = min(TILE, self.rows)
        self.is_stored_so = self.type == "F32"
        self.multiply_packed = compile_product(self.type) if weight.form else None
        if self.multiply_packed is not None:
            self.scales: Floats = scratch.take(np.float32, WIDTH)
            self.part: Floats = scratch.take(np.float32, WIDTH)
        elif not self.is_stored_so:
            self.tile = scratch.take(np.float32, self.height, self.columns)
            self.extra = scratch.take(np.uint8, scratch_bytes(self.type, self.height, self.columns))
        self.sums: Floats = scratch.take(np.float32, self.height)

    def bind(self, views: Views) -> None:
        """Take the rows of the weight, and the bias."""
        blocks = views.blocks()
        self.blocks: Array = blocks.view(np.float32) if self.is_stored_so else blocks
        if self.multiply_packed is not None:
            count = self.columns // BLOCKS[self.type][0]
            self.groups = blocks.view(np.int8).reshape(self.rows // WIDTH, count, -1)
            self.bits = self.scales.view(np.int32)
        if self.has_bias:
            self.bias: Floats = views.blocks(1).view(np.float32)[0]

    def multiply(self, operands: Floats, results: Array, count: int) -> None:
        """Write `operands[r] @ weight.T` to `results[r]` for the first `count` rows."""
        for first in range(0, self.rows, TILE):
            end = min(first + TILE, self.rows)
            sums = self.sums[: end - first]
            tile = self._read_tile(first, end)
            for row in range(count):
                if self.multiply_packed is None:
                    np.dot(tile, operands[row], out=sums)
                else:
                    self.multiply_packed(tile, operands[row], sums, self.bits, self.scales, self.part)
                if self.has_bias:
                    np.add(sums, self.bias[first:end], out=sums)
                if self.limit is not None:
                    limit_size(sums, self.limit)
                np.copyto(results[row, first:end], sums, casting="same_kind")

    def _read_tile(self, first: int, end: int) -> Array:
        """Return rows of the weight: float32, or as they are stored in groups."""
        if self.multiply_packed is not None:
            return self.groups[first // WIDTH : end // WIDTH]
        if self.is_stored_so:
            return self.blocks[first:end]
        tile = self.tile[: end - first]
        dequantize(self.type, self.blocks[first:end], tile, self.extra)
        return tile


class Embed(CpuOperation):
    """Look up the row of the embedding for each token, and scale it."""

    def __init__(self, scratch: ScratchParts, weights: Sequence[Formed], shape: LlamaShape, size: PassSize) -> None:
        self.scale = np.array(shape.embedding_scale, np.float32) if shape.embedding_scale != 1 else None
        self.weight = weights[0]
        self.row: Floats = scratch.take(np.float32, 1, self.weight.columns)
        self.extra = scratch.take(np.uint8, scratch_bytes(self.weight.type, 1, self.weight.columns))

    def bind(self, views: Views) -> None:
        """Take the memory."""
        self.blocks, self.out = views.blocks(), views.written(-1, self.weight.columns)
        self.ids = views.of(views.bound.reads[0], np.uint32, -1).data

    def __call__(self, batch: PassBatch) -> None:
        """Compute a batch."""
        for row in range(batch.rows):
            token = self.ids[row]
            dequantize(self.weight.type, self.blocks[token : token + 1], self.row, self.extra)
            if self.scale is not None:
                np.multiply(self.row, self.scale, out=self.row)
            np.copyto(self.out[row], self.row[0], casting="same_kind")


class RmsNorm(CpuOperation):
    """Divide each row, or each head of it, by the root of the mean of its squares, and multiply it with the weight."""

    def __init__(self, scratch: ScratchParts, weights: Sequence[Formed], shape: LlamaShape, size: PassSize) -> None:
        self.weight = weights[0]
        self.width, self.rows = self.weight.columns, size.rows
        self.row: Floats = scratch.take(np.float32, self.width)
        self.squares: Floats = scratch.take(np.float32, self.width)
        self.factors: Floats = scratch.take(np.float32, 1, self.width)
        self.scale: Floats = scratch.take(np.float32, 1)
        self.extra = scratch.take(np.uint8, scratch_bytes(self.weight.type, 1, self.width))
        self.count, self.epsilon = np.array(self.width, np.float32), np.array(shape.rms_eps, np.float32)

    def bind(self, views: Views) -> None:
        """Take the memory."""
        self.x, self.out, self.blocks = views.read(0, -1, self.width), views.written(-1, self.width), views.blocks()
        self.times = len(self.x) // self.rows

    def __call__(self, batch: PassBatch) -> None:
        """Compute a batch."""
        row, squares, scale = self.row, self.squares, self.scale
        dequantize(self.weight.type, self.blocks, self.factors, self.extra)
        for r in range(batch.rows * self.times):
            np.copyto(row, self.x[r])
            np.multiply(row, row, out=squares)
            np.add.reduce(squares, keepdims=True, out=scale)
            np.divide(scale, self.count, out=scale)
            np.add(scale, self.epsilon, out=scale)
            np.sqrt(scale, out=scale)
            np.divide(ONE, scale, out=scale)
            np.multiply(row, scale, out=row)
            np.multiply(row, self.factors[0], out=row)
            np.copyto(self.out[r], row, casting="same_kind")


class Project(CpuOperation):
    """Multiply rows with a transposed weight."""

    def __init__(self, scratch: ScratchParts, weights: Sequence[Formed], shape: LlamaShape, size: PassSize) -> None:
        self.product = Product(scratch, weights)
        self.operands: Floats = scratch.take(np.float32, size.rows, self.product.columns)

    def bind(self, views: Views) -> None:
        """Take the memory."""
        self.product.bind(views)
        self.x, self.out = views.read(0, -1, self.product.columns), views.written(-1, self.product.rows)

    def __call__(self, batch: PassBatch) -> None:
        """Compute a batch."""
        rows = batch.rows
        np.copyto(self.operands[:rows], self.x[:rows])
        self.product.multiply(self.operands, self.out, rows)


class Rope(CpuOperation):
    """Rotate pairs of each head by the angle of the position of the row: adjacent elements, or those of the halves.

    The first elements of all pairs are copied to one array and the second ones to another: arithmetic on parts of an
    array that are not consecutive would allocate.
    """

    def __init__(self, scratch: ScratchParts, weights: Sequence[Formed], shape: LlamaShape, size: PassSize) -> None:
        self.pairs, self.rows, self.halves = shape.head_dim // 2, size.rows, shape.kind.halves
        self.cosine: Floats = scratch.take(np.float32, shape.n_heads, self.pairs)
        self.sine: Floats = scratch.take(np.float32, shape.n_heads, self.pairs)
        self.elements: Floats = scratch.take(np.float32, 2, shape.n_heads, self.pairs)
        self.turned: Floats = scratch.take(np.float32, 2, shape.n_heads, self.pairs)
        self.product: Floats = scratch.take(np.float32, shape.n_heads, self.pairs)

    def bind(self, views: Views) -> None:
        """Take the memory."""
        pair, axes = ((2, self.pairs), (0, 2, 1, 3)) if self.halves else ((self.pairs, 2), (0, 3, 1, 2))
        self.x = views.read(0, self.rows, -1, *pair).transpose(axes)
        self.out = views.written(self.rows, -1, *pair).transpose(axes)
        heads = self.x.shape[2]
        self.row, self.result, self.term = self.elements[:, :heads], self.turned[:, :heads], self.product[:heads]
        self.cosine, self.sine = self.cosine[:heads], self.sine[:heads]
        cache = views.cache()
        self.cosines = views.of(cache.cosines, np.float16, -1, self.pairs)
        self.sines = views.of(cache.sines, np.float16, -1, self.pairs)

    def __call__(self, batch: PassBatch) -> None:
        """Compute a batch."""
        cosine, sine, term = self.cosine, self.sine, self.term
        (first, second), (first_result, second_result) = self.row, self.result
        for r in range(batch.rows):
            np.copyto(cosine, self.cosines[batch.first + r])
            np.copyto(sine, self.sines[batch.first + r])
            np.copyto(self.row, self.x[r])
            np.multiply(first, cosine, out=first_result)
            np.multiply(second, sine, out=term)
            np.subtract(first_result, term, out=first_result)
            np.multiply(first, sine, out=second_result)
            np.multiply(second, cosine, out=term)
            np.add(second_result, term, out=second_result)
            np.copyto(self.out[r], self.result, casting="same_kind")


class Attention(CpuOperation):
    """Store keys and values of the batch in the cache; then let each row attend to the positions up to its own.

    With a window only the last positions count, and blocks before them are not read.

    A query head reads the key head that it shares. In the expanded layout the cache repeats a key head for each query
    head that shares it. In both layouts every product multiplies one block of one head with one row.
    """

    def __init__(self, scratch: ScratchParts, weights: Sequence[Formed], shape: LlamaShape, size: PassSize) -> None:
        self.shared, self.width, self.size = shape.n_kv_heads, shape.head_dim, size
        self.group = shape.n_heads // self.shared
        heads, block = (self.shared, self.group), (BLOCK, self.width)
        self.tile: Floats = scratch.take(np.float32, shape.n_heads, *block)
        self.extra = scratch.take(np.uint8, 64)
        self.query: Floats = scratch.take(np.float32, *heads, self.width, 1)
        self.scores: Floats = scratch.take(np.float32, *heads, size.context, 1)
        self.largest: Floats = scratch.take(np.float32, shape.n_heads)
        self.sums: Floats = scratch.take(np.float32, *heads, 1, self.width)
        self.part: Floats = scratch.take(np.float32, *heads, 1, self.width)
        self.scale = np.array(shape.attention_scale, np.float32)
        self.limit = np.array(shape.score_limit, np.float32) if shape.score_limit else None

    def bind(self, views: Views) -> None:
        """Take the memory."""
        rows, cache = self.size.rows, views.cache()
        self.window = cache.window
        self.q = views.read(0, rows, self.shared, self.group, self.width, 1)
        self.k = views.read(1, rows, self.shared, 1, self.width)
        self.v = views.read(2, rows, self.shared, 1, self.width)
        self.out = views.written(rows, self.shared, self.group, 1, self.width)
        times = cache.heads // self.shared
        shape = (self.shared, times, cache.capacity, self.width)
        self.keys, self.values = (views.of(at, np.float16, *shape) for at in (cache.keys, cache.values))
        self.block = self.tile.reshape(-1)[: cache.heads * BLOCK * self.width].reshape(
            self.shared, times, BLOCK, self.width
        )
        heads = self.shared * self.group
        self.row_scores = self.scores.reshape(self.shared, self.group, 1, self.size.context)
        self.head_scores = self.scores.reshape(heads, self.size.context)
        self.head_sums, self.head_results = self.sums.reshape(heads, self.width), self.out.reshape(rows, heads, -1)
        self.scalars = [self.largest[h : h + 1].reshape(()) for h in range(heads)]

    def __call__(self, batch: PassBatch) -> None:
        """Compute a batch."""
        rows, first = batch.rows, batch.first
        for r in range(rows):
            np.copyto(self.keys[:, :, first + r], self.k[r], casting="same_kind")
            np.copyto(self.values[:, :, first + r], self.v[r], casting="same_kind")
        for r in range(rows):
            self._attend(r, first + r)

    def _attend(self, row: int, position: int) -> None:
        end = position // BLOCK * BLOCK + BLOCK
        least = max(position + 1 - self.window, 0) if self.window else 0
        begin = least // BLOCK * BLOCK
        np.copyto(self.query, self.q[row])
        for at in range(begin, end, BLOCK):
            widen(self.keys[:, :, at : at + BLOCK], self.block, self.extra)
            np.matmul(self.block, self.query, out=self.scores[:, :, at : at + BLOCK])
        for head, scalar in enumerate(self.scalars):
            scores = self.head_scores[head, begin:end]
            np.multiply(scores, self.scale, out=scores)
            if self.limit is not None:
                limit_size(scores, self.limit)
            np.copyto(scores[: least - begin], MINUS_INFINITY)
            np.copyto(scores[position + 1 - begin :], MINUS_INFINITY)
            np.maximum.reduce(scores, out=scalar)
            np.subtract(scores, scalar, out=scores)
            np.exp(scores, out=scores)
        np.copyto(self.sums, ZERO)
        for at in range(begin, end, BLOCK):
            widen(self.values[:, :, at : at + BLOCK], self.block, self.extra)
            np.matmul(self.row_scores[:, :, :, at : at + BLOCK], self.block, out=self.part)
            np.add(self.sums, self.part, out=self.sums)
        for head, scalar in enumerate(self.scalars):
            np.add.reduce(self.head_scores[head, begin:end], out=scalar)
            sums = self.head_sums[head]
            np.divide(sums, scalar, out=sums)
            np.copyto(self.head_results[row, head], sums, casting="same_kind")


class Add(CpuOperation):
    """Add two rows. The result may have the address of the first operand."""

    def __init__(self, scratch: ScratchParts, weights: Sequence[Formed], shape: LlamaShape, size: PassSize) -> None:
        self.width = shape.d_model
        self.left: Floats = scratch.take(np.float32, self.width)
        self.right: Floats = scratch.take(np.float32, self.width)

    def bind(self, views: Views) -> None:
        """Take the memory."""
        self.x, self.y, self.out = (*(views.read(n, -1, self.width) for n in (0, 1)), views.written(-1, self.width))

    def __call__(self, batch: PassBatch) -> None:
        """Compute a batch."""
        for r in range(batch.rows):
            np.copyto(self.left, self.x[r])
            np.copyto(self.right, self.y[r])
            np.add(self.left, self.right, out=self.left)
            np.copyto(self.out[r], self.left, casting="same_kind")


class SwiGlu(CpuOperation):
    """Compute gate / (1 + exp(-gate)) * up."""

    def __init__(self, scratch: ScratchParts, weights: Sequence[Formed], shape: LlamaShape, size: PassSize) -> None:
        self.width = shape.d_ff
        self.gate: Floats = scratch.take(np.float32, self.width)
        self.up: Floats = scratch.take(np.float32, self.width)
        self.part: Floats = scratch.take(np.float32, self.width)

    def bind(self, views: Views) -> None:
        """Take the memory."""
        self.x, self.y, self.out = (*(views.read(n, -1, self.width) for n in (0, 1)), views.written(-1, self.width))

    def __call__(self, batch: PassBatch) -> None:
        """Compute a batch."""
        gate, up, part = self.gate, self.up, self.part
        for r in range(batch.rows):
            np.copyto(gate, self.x[r])
            np.copyto(up, self.y[r])
            np.negative(gate, out=part)
            np.exp(part, out=part)
            np.add(part, ONE, out=part)
            np.divide(gate, part, out=gate)
            np.multiply(gate, up, out=gate)
            np.copyto(self.out[r], gate, casting="same_kind")


class GeGlu(SwiGlu):
    """Compute gate / 2 * (1 + tanh(√(2/π) * (gate + 0.044715 * gate³))) * up."""

    def __call__(self, batch: PassBatch) -> None:
        """Compute a batch."""
        gate, up, part = self.gate, self.up, self.part
        for r in range(batch.rows):
            np.copyto(gate, self.x[r])
            np.copyto(up, self.y[r])
            np.multiply(gate, gate, out=part)
            np.multiply(part, CUBIC, out=part)
            np.add(part, ONE, out=part)
            np.multiply(part, gate, out=part)
            np.multiply(part, ROOT, out=part)
            np.tanh(part, out=part)
            np.add(part, ONE, out=part)
            np.multiply(part, HALF, out=part)
            np.multiply(gate, part, out=gate)
            np.multiply(gate, up, out=gate)
            np.copyto(self.out[r], gate, casting="same_kind")


class Logits(CpuOperation):
    """Multiply the last rows with the output matrix, in private scratch; then copy the products to the output."""

    def __init__(self, scratch: ScratchParts, weights: Sequence[Formed], shape: LlamaShape, size: PassSize) -> None:
        self.product = Product(scratch, weights, shape.logit_limit)
        self.group = min(LOGIT_ROWS, size.output_rows)
        self.operands: Floats = scratch.take(np.float32, self.group, self.product.columns)
        self.private = scratch.take(np.dtype(size.dtype), self.group, self.product.rows)

    def bind(self, views: Views) -> None:
        """Take the memory."""
        self.product.bind(views)
        self.x, self.out = views.read(0, -1, self.product.columns), views.written(-1, self.product.rows)

    def __call__(self, batch: PassBatch) -> None:
        """Compute a batch."""
        start = batch.rows - batch.outputs
        for first in range(0, batch.outputs, self.group):
            count = min(self.group, batch.outputs - first)
            np.copyto(self.operands[:count], self.x[start + first : start + first + count])
            self.product.multiply(self.operands, self.private, count)
            np.copyto(self.out[first : first + count], self.private[:count])


OPERATIONS: dict[str, type[CpuOperation]] = {
    made.__name__: made for made in (Embed, RmsNorm, Project, Rope, Attention, Add, SwiGlu, GeGlu, Logits)
}
"""The class of each kind of operation in `forward`."""


class CpuKernels(DeviceKernels):
    """The operations of a forward pass, for a device whose views are NumPy arrays.

    If `is_fast` is true, products with weights that can be stored in groups of rows are compiled (`packed_rows`). Then
    it raises MISSING_PACKAGE without numba.
    """

    def __init__(self, device: Device, *, is_fast: bool = False) -> None:
        self.device, self.is_fast = device, is_fast
        if is_fast:
            for weight_type in PACKED_TYPES:
                compile_product(weight_type)

    def workspace(self, operation: Operation, weights: Sequence[Matrix], shape: LlamaShape, size: PassSize) -> int:
        """Return the bytes of scratch of an operation: see `DeviceKernels.workspace`.

        It measures by making the operation.
        """
        scratch = ScratchParts()
        formed = [FormedMatrix(one.type, one.rows, one.columns, self.choose_form(operation, one)) for one in weights]
        OPERATIONS[operation.kind](scratch, formed, shape, size)
        return scratch.used

    def choose_form(self, operation: Operation, weight: Matrix) -> str:
        """Return `PACKED` for a product with a weight that has whole groups of rows, if `is_fast`."""
        is_packed = self.is_fast and operation.kind in ("Project", "Logits") and weight.type in PACKED_TYPES
        return PACKED if is_packed and weight.rows % WIDTH == 0 else ""

    def group_rows(self, form: str) -> int:
        """Return the rows that are stored together."""
        return WIDTH if form else 1

    def store(self, weight: Matrix, form: str, source: BufferRegion, target: BufferRegion) -> Command:
        """Build the command that stores whole groups of rows: see `DeviceKernels.store`."""
        elements, size = BLOCKS[weight.type]
        row = weight.columns // elements * size
        read, written = (
            self.device.view(region.buffer, region.offset, np.uint8, (target.size // row, row))
            for region in (source, target)
        )
        return partial(pack_rows, weight.type, read, written)

    def bind(self, operation: Operation, bound: OperationMemory, shape: LlamaShape, size: PassSize) -> Kernel:
        """Return the kernel of an operation on its memory: see `DeviceKernels.bind`."""
        views = Views(self.device, bound, size)
        memory = None if bound.scratch is None else views.of(bound.scratch, np.uint8, -1)
        made = OPERATIONS[operation.kind](ScratchParts(memory), bound.weights, shape, size)
        made.bind(views)
        return made
