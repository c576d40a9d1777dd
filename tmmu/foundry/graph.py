"""The static execution graph of a session: its buffers, made once as a plan places them, and the operations on them.

A pass costs commands and no memory. When the cache of keys and values has grown, the operations that use it are bound
again. spec: FD6.1 to FD6.4, FD6.10, FD6.12, FD9.5, FD9.7
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.foundry.compiled import CompiledModel
from tmmu.foundry.context import ContextConfig, KvBudget, KvShape
from tmmu.foundry.device import Buffer
from tmmu.foundry.environment import Settings
from tmmu.foundry.forward import Operation, PassSize, iterate_operations, scratch_name
from tmmu.foundry.kernels import USES_CACHE, BufferRegion, Kernel, LayerCache, OperationMemory, PassBatch
from tmmu.foundry.kv_cache import KvCache
from tmmu.foundry.storage import STORAGE_MODES, StorageMode, TensorType, storage_mode
from tmmu.plans.allocation import Allocation
from tmmu.plans.sections import Plan
from tmmu.runtime.events import EventLog

ARENA_TYPES = {
    "intermediates": TensorType.INTERMEDIATES, "inputs": TensorType.STAGING, "outputs": TensorType.OUTPUTS,
}  # fmt: skip
"""The kind of tensors that each arena of the plan of a session holds."""


@dataclass(frozen=True)
class CacheSetup:
    """The sizes of the cache of a session: its shape for each token, its limits in tokens, and its budget of bytes."""

    shape: KvShape
    context: ContextConfig
    budget: KvBudget


class ExecutionGraph:
    """The memory of one session, and the kernels that compute a pass in it.

    Parameters
    ----------
    model
        The source of the weights and the kernels.
    forward, plan
        The model of a pass, and a plan of it that was proved.
    size
        The limits of a pass.
    cache, settings
        The sizes from which the cache is made, and the variables of the environment.
    number, events
        The number of the session in the event log, and the log.

    Attributes
    ----------
    buffers
        The buffers that live as long as the session, by name.
    cache
        The keys and values.
    ids, text
        The token ids of a pass, and those of the whole text: Shared memory.
    output
        The logits of the last pass, [rows, vocab], in Shared memory; the next pass overwrites them.

    Raises
    ------
    TmmuError
        INVALID_PLAN for a plan of another pass; OUT_OF_MEMORY if a buffer cannot be allocated; ALIGNMENT_VIOLATION for
        a buffer that is less aligned than the plan requires. The buffers that were made are then released.
    """

    def __init__(
        self, model: CompiledModel, forward: Model, plan: Plan, *, size: PassSize, cache: CacheSetup,
        settings: Settings, number: int, events: EventLog | None,
    ) -> None:  # fmt: skip
        self.model, self.size, self.kv_shape, self.number, self.events = model, size, cache.shape, number, events
        self.passes = 0
        self._batch = PassBatch()
        self._provision(plan, arena_sizes(plan, forward), cache, settings)

    def _log(self, event: str, **fields: Any) -> None:
        if self.events is not None:
            self.events(event, session=self.number, **fields)

    def _provision(self, plan: Plan, sizes: dict[str, int], setup: CacheSetup, settings: Settings) -> None:
        """Make every buffer, then stage the weights; release what was made if a step fails."""
        device = self.model.device
        names = [*sizes, "text", "cache"]
        self._log("session open", buffers=names)
        made: dict[str, Buffer] = {}
        cache: KvCache | None = None
        name = ""
        try:
            for name, size in sizes.items():
                mode = arena_mode(name, settings.forced)
                made[name] = device.new_buffer(size, mode, name, STORAGE_MODES[ARENA_TYPES[name]].forced_by)
                self._log("buffer made", buffer=name, made=len(made))
            name = "text"
            made[name] = device.new_buffer(4 * setup.context.limit, storage_mode(TensorType.STAGING, {}), name)
            self._log("buffer made", buffer=name, made=len(made))
            name = "cache"
            cache = KvCache(
                device, setup.shape, setup.context, setup.budget, rope_base=self.model.shape.rope_base,
                settings=settings, session=self.number, events=self.events,
            )  # fmt: skip
            self._log("buffer made", buffer=name, made=len(made) + 1)
            name = ""
            check_bases(plan.allocation, made)
            self._weights = self.model.materialize(self.events, session=self.number)
            self.buffers, self.cache = made, cache
            self._bind(plan)
        except BaseException:
            if name:
                self._log("buffer refused", buffer=name)
            given_back = [("cache", cache.close)] if cache is not None else []
            given_back += [(label, buffer.release) for label, buffer in reversed(made.items())]
            for left, (label, give_back) in zip(range(len(given_back) - 1, -1, -1), given_back, strict=True):
                give_back()
                self._log("buffer given back", buffer=label, made=left)
            self._log("session failed")
            raise
        self._log("session started", weights=len(self._weights))

    def _bind(self, plan: Plan) -> None:
        """Bind every operation to its memory."""
        model = self.model
        allocation = plan.allocation
        t = allocation.tensors
        arena = [found.name for found in allocation.arenas]
        where = allocation.storages.arena[t.storage].tolist()
        of = {
            name: BufferRegion(self.buffers[arena[home]], offset, size)
            for name, home, offset, size in zip(
                t.name.list(), where, allocation.addresses().tolist(), t.bytes.tolist(), strict=True
            )
        }
        ids = of["ids"]
        self.ids = self.buffers["inputs"].contents()[ids.offset : ids.offset + ids.size].view(np.uint32).data
        out = of["output"]
        lines, columns = self.size.output_rows, model.shape.vocab
        flat = self.buffers["outputs"].contents()[out.offset : out.offset + out.size]
        self.output = flat.view(np.dtype(self.size.dtype)).reshape(lines, columns)
        self.text = self.buffers["text"].contents().view(np.uint32).data
        self._operations = list(iterate_operations(model.shape, model.file.output.name))
        self._regions = of
        self._kernels = [self._bind_kernel(k) for k in range(len(self._operations))]
        self._epoch = self.cache.epoch

    def _bind_kernel(self, number: int) -> Kernel:
        operation, of = self._operations[number], self._regions
        cache = None
        if operation.kind in USES_CACHE:
            held = self.cache
            keys, values, cos, sin = (
                BufferRegion(buffer, 0, buffer.size)
                for buffer in (held.keys(operation.layer), held.values(operation.layer), held.cos, held.sin)
            )
            cache = LayerCache(keys, values, cos, sin, self.kv_shape.cache_heads, held.capacity)
        bound = OperationMemory(
            tuple(of[name] for name in operation.reads),
            tuple(of[name] for name in operation.writes),
            of.get(scratch_name(operation)),
            tuple(self._weights[name] for name in operation.weights),
            cache,
        )
        return self.model.kernels.bind(operation, bound, self.model.shape, self.size)

    def _compute_pass(self) -> None:
        """Run every operation of a pass except the logits, in order. This is a command."""
        with np.errstate(all="ignore"):  # logits that are not finite are a separate error
            for number in range(len(self._kernels) - 1):
                self._kernels[number](self._batch)

    def _compute_logits(self) -> None:
        """Compute logits in private memory and copy them to the output. This is a command."""
        with np.errstate(all="ignore"):
            self._kernels[-1](self._batch)

    def run(self, rows: int, outputs: int) -> None:
        """Run one pass over the first `rows` tokens of `ids`; compute the logits of the last `outputs` of them.

        The tokens follow those in the cache. Raises the exceptions of growing the cache and of commands; the cache is
        then unchanged.
        """
        device, batch, cache = self.model.device, self._batch, self.cache
        cache.ensure(cache.written + rows)
        if cache.epoch != self._epoch:
            for number, operation in enumerate(self._operations):
                if operation.kind in USES_CACHE:
                    self._kernels[number] = self._bind_kernel(number)
            self._epoch = cache.epoch
        batch.rows, batch.first, batch.outputs = rows, cache.written, outputs
        self.passes += 1
        is_logged = self.events is not None
        device.wait(device.submit(self._compute_pass, self._observe_pass if is_logged else None))
        if outputs:
            device.wait(device.submit(self._compute_logits, self._observe_logits if is_logged else None))
        cache.count_written(rows)

    def _observe_pass(self, what: str, number: int) -> None:
        step = self.passes
        if what == "submitted":
            self._log("pass submitted", step=step, rows=self._batch.rows, submitted=number)
        else:
            self._log("pass completed", step=step, completed=number)

    def _observe_logits(self, what: str, number: int) -> None:
        step = self.passes
        if what == "submitted":
            self._log("logits submitted", step=step, submitted=number)
        else:
            self._log("logits copied", step=step, completed=number)

    @property
    def kernels(self) -> list[tuple[Operation, Kernel]]:
        """Each operation of a pass with its kernel."""
        return list(zip(self._operations, self._kernels, strict=True))

    def close(self) -> None:
        """Release all memory, once all submitted commands have ended."""
        self.model.device.wait()
        self._kernels, self._regions = [], {}
        self.cache.close()
        for buffer in self.buffers.values():
            buffer.release()
        self._log("session closed", made=0)


def arena_sizes(plan: Plan, forward: Model) -> dict[str, int]:
    """Return the bytes of each arena of a session's plan. O(tensors).

    Raises INVALID_PLAN if it is not a plan of this pass: a tensor is missing or has another size, or an arena is
    missing.
    """
    allocation = plan.allocation
    t, s = allocation.tensors, allocation.storages
    stated = dict(zip(t.name.list(), t.bytes.tolist(), strict=True))
    missing = next((found.name for found in forward.tensors if stated.get(found.name) != found.bytes), None)
    names = [arena.name for arena in allocation.arenas]
    if missing is not None or not set(ARENA_TYPES) <= set(names):
        what = f"the plan has no tensor {missing!r} of its size" if missing else f"its arenas are {', '.join(names)}"
        raise TmmuError("INVALID_PLAN", what, place="the plan", fix="plan the session's own forward model")
    ends = dict.fromkeys(ARENA_TYPES, 0)
    for arena, offset, size in zip(s.arena.tolist(), s.offset.tolist(), s.bytes.tolist(), strict=True):
        ends[names[arena]] = max(ends.get(names[arena], 0), offset + size)
    return ends


def check_bases(allocation: Allocation, buffers: Mapping[str, Buffer]) -> None:
    """Raise ALIGNMENT_VIOLATION for a buffer that is less aligned than the plan requires of its arena. spec: FD6.16"""
    needed = allocation.needed_base_alignments()
    for arena in allocation.arenas:
        least, buffer = max(needed[arena.name], arena.base_alignment), buffers.get(arena.name)
        if buffer is not None and buffer.address % least:
            raise TmmuError(
                "ALIGNMENT_VIOLATION",
                f"its buffer at {buffer.address:#x} is not at a multiple of {least}, which the plan requires",
                place=f"arena {arena.name!r}",
                fix="plan the session's own forward model",
                arena=arena.name,
                logical_slot=0,
            )


def arena_mode(name: str, forced: Mapping[str, bool]) -> StorageMode:
    """Return the storage mode of an arena of a session."""
    return storage_mode(ARENA_TYPES[name], forced)
