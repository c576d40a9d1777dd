"""The static execution graph of a session: its buffers, made once as its plan set states, and the operations on them.

The passes of a session run in the same buffers. A pass costs commands and no memory. When the cache of keys and values
has grown, the operations that use it are bound again. spec: FD6.1 to FD6.4, FD6.10, FD6.12, FD6.17, FD9.5, FD9.7
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tmmu.core.errors import TmmuError
from tmmu.core.interrupts import defer_interrupts
from tmmu.core.vocabulary import Model
from tmmu.foundry.compiled import CompiledModel
from tmmu.foundry.context import ContextConfig, KvBudget, KvShape
from tmmu.foundry.device import Buffer
from tmmu.foundry.environment import Settings
from tmmu.foundry.forward import WORK, ForwardPass, Operation, iterate_operations, scratch_name
from tmmu.foundry.kernels import (
    USES_CACHE,
    BoundOperation,
    BufferRegion,
    Kernel,
    LayerCache,
    OperationMemory,
    PassBatch,
)
from tmmu.foundry.kv_cache import KvCache
from tmmu.foundry.storage import STORAGE_MODES, StorageMode, TensorType, storage_mode
from tmmu.plans.allocation import Allocation
from tmmu.plans.sections import Plan
from tmmu.plans.sets import PlanSet
from tmmu.runtime.events import EventLog

ARENA_TYPES = {
    "intermediates": TensorType.INTERMEDIATES, "inputs": TensorType.STAGING, "outputs": TensorType.OUTPUTS,
}  # fmt: skip
"""The kind of tensors that each arena of the plans of a session holds, except those of keys and values."""


class SessionPlans(NamedTuple):
    """The plan set of the passes of a session, and the plan of each pass."""

    plan_set: PlanSet
    plans: Mapping[str, Plan]


@dataclass(frozen=True)
class CacheSetup:
    """The sizes of the cache of a session: its shape for each token, its limits in tokens, and its budget of bytes."""

    shape: KvShape
    context: ContextConfig
    budget: KvBudget


@dataclass
class BoundPass:
    """A pass in the memory of a session: the kernels of its operations, the token ids, and the logits.

    `kernels` compute all operations except the logits, and `logits` those. `output` is [rows, vocab]; `ids` and
    `output` are in Shared memory.
    """

    limits: ForwardPass
    regions: Mapping[str, BufferRegion]
    ids: memoryview[int]
    output: np.ndarray[Any, Any]
    kernels: list[Kernel]
    logits: list[Kernel]


class ExecutionGraph:
    """The memory of one session, and the kernels that compute its passes in it.

    Parameters
    ----------
    model
        The source of the weights and the kernels.
    passes, plans
        The passes by name, and their plan set, which was proved.
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
    text
        The token ids of the whole text: Shared memory.

    Raises
    ------
    TmmuError
        INVALID_PLAN for plans of other passes; OUT_OF_MEMORY if a buffer cannot be allocated; ALIGNMENT_VIOLATION for
        a buffer that is less aligned than a plan requires. The buffers that were made are then released.
    """

    def __init__(
        self, model: CompiledModel, passes: Mapping[str, ForwardPass], plans: SessionPlans, *, cache: CacheSetup,
        settings: Settings, number: int, events: EventLog | None,
    ) -> None:  # fmt: skip
        self.model, self.kv_shape, self.number, self.events = model, cache.shape, number, events
        self.passes = 0
        self._batch = PassBatch()
        self._provision(plans, passes, cache, settings)

    def _log(self, event: str, **fields: Any) -> None:
        if self.events is not None:
            self.events(event, session=self.number, **fields)

    def _provision(
        self, plans: SessionPlans, passes: Mapping[str, ForwardPass], setup: CacheSetup, settings: Settings
    ) -> None:
        """Make every buffer, then stage the weights; release what was made if a step fails."""
        device = self.model.device
        sizes = arena_sizes(plans, {name: one.model for name, one in passes.items()})
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
                device, setup.shape, setup.context, setup.budget, rotations=self.model.shape.rotations,
                settings=settings, session=self.number, events=self.events,
            )  # fmt: skip
            self._log("buffer made", buffer=name, made=len(made) + 1)
            name = ""
            held = {
                name: buffer for layer in range(setup.shape.layers) for name, buffer in cache.of_layer(layer).items()
            }
            for plan in plans.plans.values():
                check_bases(plan.allocation, made | held)
            self._weights = self.model.materialize(self.events, session=self.number)
            self.buffers, self.cache = made, cache
            self._bind(plans, passes)
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

    def _bind(self, plans: SessionPlans, passes: Mapping[str, ForwardPass]) -> None:
        """Bind every operation of each pass to its memory."""
        self.text = self.buffers["text"].contents().view(np.uint32).data
        self._operations = list(iterate_operations(self.model.shape, self.model.file.output.name))
        self._bound = {name: self._bind_pass(plans.plans[name], limits) for name, limits in passes.items()}
        self._current = next(iter(self._bound.values()))
        self._epoch = self.cache.epoch

    def _bind_pass(self, plan: Plan, limits: ForwardPass) -> BoundPass:
        allocation, size = plan.allocation, limits.size
        t = allocation.tensors
        arena = [found.name for found in allocation.arenas]
        where = allocation.storages.arena[t.storage].tolist()
        of = {
            name: BufferRegion(self.buffers[arena[home]], offset, bytes_)
            for name, home, offset, bytes_ in zip(
                t.name.list(), where, allocation.addresses().tolist(), t.bytes.tolist(), strict=True
            )
            if arena[home] in self.buffers  # keys and values are at the first byte of the cache's own buffers
        }
        ids, out = of["ids"], of["output"]
        flat = self.buffers["outputs"].contents()[out.offset : out.offset + out.size]
        bound = BoundPass(
            limits, of, self.buffers["inputs"].contents()[ids.offset : ids.offset + ids.size].view(np.uint32).data,
            flat.view(np.dtype(size.dtype)).reshape(size.output_rows, self.model.shape.vocab), [], [],
        )  # fmt: skip
        self._bind_kernels(bound)
        return bound

    def _bind_kernels(self, bound: BoundPass) -> None:
        """Bind the operations of a pass to its memory, and to the cache as it is now."""
        steps = [BoundOperation(operation, self._memory_of(operation, bound)) for operation in self._operations]
        kernels, shape, size = self.model.kernels, self.model.shape, bound.limits.size
        bound.kernels, bound.logits = (
            kernels.bind_all(steps[:-1], shape, size),
            kernels.bind_all(steps[-1:], shape, size),
        )

    def _memory_of(self, operation: Operation, bound: BoundPass) -> OperationMemory:
        of, cache = bound.regions, None
        if operation.kind in USES_CACHE:
            held = self.cache
            tables = held.tables_of(self.model.shape.rotation_of(operation.layer))
            buffers = (*held.of_layer(operation.layer).values(), *tables)
            keys, values, cos, sin = (BufferRegion(buffer, 0, buffer.size) for buffer in buffers)
            window = self.model.shape.window_of(operation.layer)
            cache = LayerCache(keys, values, cos, sin, self.kv_shape.cache_heads, held.capacity, window)
        return OperationMemory(
            tuple(of[name] for name in operation.reads),
            tuple(of[name] for name in operation.writes),
            of.get(scratch_name(operation)),
            tuple(self._weights[self.model.stored_name(operation, name)] for name in operation.weights),
            cache,
            of.get(WORK),
        )

    def ids(self, name: str) -> memoryview[int]:
        """Return the token ids of a pass, in Shared memory, which the caller writes before it runs."""
        return self._bound[name].ids

    @property
    def output(self) -> np.ndarray[Any, Any]:
        """The logits of the last pass, [rows, vocab], in Shared memory; the next pass overwrites them."""
        return self._current.output

    def _compute_pass(self) -> None:
        """Run every operation of a pass except the logits, in order. This is a command."""
        with np.errstate(all="ignore"):  # logits that are not finite are a separate error
            for kernel in self._current.kernels:
                kernel(self._batch)

    def _compute_logits(self) -> None:
        """Compute logits in private memory and copy them to the output. This is a command."""
        with np.errstate(all="ignore"):
            for kernel in self._current.logits:
                kernel(self._batch)

    def run(self, name: str, rows: int, outputs: int) -> None:
        """Run a pass over the first `rows` tokens of its `ids`; compute the logits of the last `outputs` of them.

        The tokens follow those in the cache. Raises the exceptions of growing the cache and of commands; the cache is
        then unchanged. Ctrl-C is raised when the pass is complete and
        counted. spec: FD11.9
        """
        with defer_interrupts():
            self._run(name, rows, outputs)

    def _run(self, name: str, rows: int, outputs: int) -> None:
        device, batch, cache = self.model.device, self._batch, self.cache
        cache.ensure(cache.written + rows)
        if cache.epoch != self._epoch:
            for bound in self._bound.values():
                self._bind_kernels(bound)
            self._epoch = cache.epoch
        self._current = self._bound[name]
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

    def kernels(self, name: str) -> list[Kernel]:
        """Return the kernels of a pass, in order."""
        bound = self._bound[name]
        return [*bound.kernels, *bound.logits]

    @property
    def operations(self) -> list[Operation]:
        """The operations of every pass, in order."""
        return self._operations

    def close(self) -> None:
        """Release all memory, once all submitted commands have ended."""
        self.model.device.wait()
        self._bound = {}
        self.cache.close()
        for buffer in self.buffers.values():
            buffer.release()
        self._log("session closed", made=0)


def arena_sizes(plans: SessionPlans, models: Mapping[str, Model]) -> dict[str, int]:
    """Return the bytes of each arena of a session, of all passes the most. O(tensors).

    The arenas of keys and values, whose buffers grow, are left out. Raises INVALID_PLAN if a plan is not of its pass: a
    tensor is missing or has another size, an arena is missing, or keys or values are not alone in their arena.
    """
    ends = dict.fromkeys(ARENA_TYPES, 0)
    for pass_name, model in models.items():
        plan = plans.plans.get(pass_name)
        if plan is None:
            raise _not_of_session(f"there is no plan of the pass {pass_name!r}")
        for name, end in _ends(plan.allocation, model).items():
            ends[name] = max(ends.get(name, 0), end)
    return {name: ends[name] for name in ARENA_TYPES}


def _ends(allocation: Allocation, model: Model) -> dict[str, int]:
    """Return the end of the last storage of each arena of a plan. Raises as `arena_sizes`."""
    t, s = allocation.tensors, allocation.storages
    stated = dict(zip(t.name.list(), t.bytes.tolist(), strict=True))
    missing = next((found.name for found in model.tensors if stated.get(found.name) != found.bytes), None)
    if missing is not None:
        raise _not_of_session(f"the plan has no tensor {missing!r} of its size")
    names = [arena.name for arena in allocation.arenas]
    if not set(ARENA_TYPES) <= set(names):
        raise _not_of_session(f"its arenas are {', '.join(names)}")
    ends = dict.fromkeys(names, 0)
    for arena, offset, size in zip(s.arena.tolist(), s.offset.tolist(), s.bytes.tolist(), strict=True):
        ends[names[arena]] = max(ends[names[arena]], offset + size)
    home = dict(zip(t.name.list(), s.arena[t.storage].tolist(), strict=True))
    for cache in model.bindings.donated:
        if names[home[cache]] != cache or ends[cache] != stated[cache]:
            raise _not_of_session(f"the tensor {cache!r} is not alone in an arena of its name")
    return ends


def _not_of_session(what: str) -> TmmuError:
    return TmmuError("INVALID_PLAN", what, place="the plan", fix="plan the session's own passes")


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
                fix="plan the session's own passes",
                arena=arena.name,
                logical_slot=0,
            )


def arena_mode(name: str, forced: Mapping[str, bool]) -> StorageMode:
    """Return the storage mode of an arena of a session."""
    return storage_mode(ARENA_TYPES[name], forced)
