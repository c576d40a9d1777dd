"""The static execution graph: a session makes all its buffers once, from a proved plan, and then only computes.

`ModelSession.forward` is the model of a pass, which the caller plans. `initialize_session` has the plan proved by the
caller's function before the first byte is asked for, makes every buffer or none, brings the weights to the device, and
binds each operation to its memory. From then on a token costs commands and no memory: only the cache grows, with the
text. spec: FD6.1 to FD6.15, FD9.5, FD9.7
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.foundry.compiled import CompiledModel
from tmmu.foundry.context import ContextConfig, KvBudget, KvShape, Layout
from tmmu.foundry.device import Buffer
from tmmu.foundry.drafts import Drafts
from tmmu.foundry.environment import Settings
from tmmu.foundry.failures import UseAfterFree
from tmmu.foundry.forward import Operation, PassSize, forward_model, operations, scratch_name
from tmmu.foundry.kernels import USES_CACHE, BufferRegion, Kernel, LayerCache, OperationMemory, PassBatch
from tmmu.foundry.kv_cache import KvCache
from tmmu.foundry.storage import STORAGE_MODES, StorageMode, TensorType, storage_mode
from tmmu.plan.sections import Plan
from tmmu.runtime.events import EventLog

Prove = Callable[[Plan, Model], None]
"""Return if the plan is proved against the model, raise otherwise."""

ARENA_TYPES = {
    "intermediates": TensorType.INTERMEDIATES, "inputs": TensorType.STAGING, "outputs": TensorType.OUTPUTS,
}  # fmt: skip
"""Which kind of tensors each arena of a session's plan holds."""


@dataclass
class Counts:
    """What a session has done: passes, rows in them, tokens drafted and how many of these were accepted."""

    passes: int = 0
    rows: int = 0
    drafted: int = 0
    accepted: int = 0


class ModelSession:
    """A sequence of tokens and the memory in which it is continued.

    Parameters
    ----------
    model
        What runs.
    context
        How long the sequence may become.
    settings
        The environment's variables.
    layout, dtype
        The layout of the cache, and the type of the activations ("float16" or "float32").
    budget
        What the caches of several sessions share; none: this session's own.
    number
        Its number in the event log.
    events
        A log of each action, for the models of `tla/foundry`.

    Notes
    -----
    A session is used by one thread at a time; sessions of one model and device may run in threads of their own.
    """

    def __init__(
        self,
        model: CompiledModel,
        context: ContextConfig,
        *,
        settings: Settings | None = None,
        layout: Layout = "compact",
        dtype: str = "float16",
        budget: KvBudget | None = None,
        number: int = 1,
        events: EventLog | None = None,
    ) -> None:
        self.model, self.context, self.settings = model, context, settings or Settings()
        self.number, self.events = number, events
        shape = model.shape
        self.kv_shape = KvShape(shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, layout)
        self.budget = budget or KvBudget(context.budget, context.strict)
        chunk, batch = self.settings.prefill_chunk_size, self.settings.decode_batch_size
        self.size = PassSize(max(chunk, batch), batch, context.limit, dtype)
        self.forward = forward_model(shape, self.size, model.file.output.name, model.file.tensors, model.kernels)
        self.counts = Counts()
        self._turn = 0
        self.is_closed = False
        self._buffers: dict[str, Buffer] = {}
        self._kernels: list[Kernel] = []
        self._cache: KvCache | None = None

    @property
    def is_initialized(self) -> bool:
        """Whether all buffers are made and it can run."""
        return self._cache is not None

    @property
    def cache(self) -> KvCache:
        """Its keys and values. `UseAfterFree` before it is initialized and after it is closed."""
        if self._cache is None:
            state = "closed" if self.is_closed else "not initialized"
            raise UseAfterFree(f"it is {state}", f"session {self.number}", "call initialize_session first")
        return self._cache

    @property
    def length(self) -> int:
        """Tokens whose keys and values are in the cache."""
        return self.cache.written

    @property
    def buffers(self) -> dict[str, Buffer]:
        """The buffers that live as long as the session, by name."""
        return dict(self._buffers)

    @property
    def output(self) -> np.ndarray[Any, Any]:
        """The logits of the last pass, [rows, vocab], in Shared memory; the next pass changes them."""
        assert self.cache.capacity  # `UseAfterFree` if there is none
        return self._output

    @property
    def kernels(self) -> list[tuple[Operation, Kernel]]:
        """Each operation of a pass with what computes it."""
        return list(zip(self._operations, self._kernels, strict=True))

    def _log(self, event: str, **fields: Any) -> None:
        if self.events is not None:
            self.events(event, session=self.number, **fields)

    # What initialize_session does.

    def _provision(self, plan: Plan) -> None:
        """Make every buffer, then bring the weights, or give back what was made."""
        device = self.model.device
        sizes = arena_sizes(plan, self.forward)
        names = [*sizes, "text", "cache"]
        self._log("session open", buffers=names)
        made: dict[str, Buffer] = {}
        cache: KvCache | None = None
        name = ""
        try:
            for name, size in sizes.items():
                mode = arena_mode(name, self.settings.forced)
                made[name] = device.new_buffer(size, mode, name, STORAGE_MODES[ARENA_TYPES[name]].forced_by)
                self._log("buffer made", buffer=name, made=len(made))
            name = "text"
            made[name] = device.new_buffer(4 * self.context.limit, storage_mode(TensorType.STAGING, {}), name)
            self._log("buffer made", buffer=name, made=len(made))
            name = "cache"
            cache = KvCache(
                device, self.kv_shape, self.context, self.budget, rope_base=self.model.shape.rope_base,
                settings=self.settings, session=self.number, events=self.events,
            )  # fmt: skip
            self._log("buffer made", buffer=name, made=len(made) + 1)
            name = ""
            weights = self.model.materialize(self.events, session=self.number)
            self._weights, self._plan, self._cache, self._buffers = weights, plan, cache, made
            self._bind()
            self._text = made["text"].contents().view(np.uint32).data
            self.drafts, self._end = Drafts(self.context.limit), 0
        except BaseException:
            self._cache, self._buffers = None, {}
            if name:
                self._log("buffer refused", buffer=name)
            given_back = [("cache", cache.close)] if cache is not None else []
            given_back += [(label, buffer.release) for label, buffer in reversed(made.items())]
            for left, (label, give_back) in zip(range(len(given_back) - 1, -1, -1), given_back, strict=True):
                give_back()
                self._log("buffer given back", buffer=label, made=left)
            self._log("session failed")
            raise
        self._log("session started", weights=len(weights))

    def _bind(self) -> None:
        """Bind every operation to its memory; after a growth of the cache, those again that use it."""
        plan, model = self._plan, self.model
        allocation = plan.allocation
        t = allocation.tensors
        arena = [found.name for found in allocation.arenas]
        where = allocation.storages.arena[t.storage].tolist()
        of = {
            name: BufferRegion(self._buffers[arena[home]], offset, size)
            for name, home, offset, size in zip(
                t.name.list(), where, allocation.addresses().tolist(), t.bytes.tolist(), strict=True
            )
        }
        ids = of["ids"]
        self._ids = self._buffers["inputs"].contents()[ids.offset : ids.offset + ids.size].view(np.uint32).data
        out = of["output"]
        lines, columns = self.size.output_rows, model.shape.vocab
        flat = self._buffers["outputs"].contents()[out.offset : out.offset + out.size]
        self._output = flat.view(np.dtype(self.size.dtype)).reshape(lines, columns)
        self._best, self._largest = np.zeros((), np.intp), np.zeros((), self._output.dtype)
        self._batch = PassBatch()
        self._operations = list(operations(model.shape, model.file.output.name))
        self._regions = of
        self._kernels = [self._bound(k) for k in range(len(self._operations))]
        self._epoch = self.cache.epoch
        self._run_pass: Callable[[], None] = self._pass
        self._run_logits: Callable[[], None] = self._logits

    def _bound(self, number: int) -> Kernel:
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

    # What a token costs.

    def _pass(self) -> None:
        """The command of a pass: every operation but the logits, in order."""
        with np.errstate(all="ignore"):  # what is not finite in the logits is an error of its own
            for number in range(len(self._kernels) - 1):
                self._kernels[number](self._batch)

    def _logits(self) -> None:
        """The command that computes logits in private memory and copies them to the output."""
        with np.errstate(all="ignore"):
            self._kernels[-1](self._batch)

    def _run(self, rows: int, outputs: int) -> None:
        """One pass over `rows` tokens, which stand in `ids`, after those in the cache."""
        device, batch, cache = self.model.device, self._batch, self.cache
        cache.ensure(cache.written + rows)
        if cache.epoch != self._epoch:
            for number, operation in enumerate(self._operations):
                if operation.kind in USES_CACHE:
                    self._kernels[number] = self._bound(number)
            self._epoch = cache.epoch
        batch.rows, batch.first, batch.outputs = rows, cache.written, outputs
        self.counts.passes += 1
        self.counts.rows += rows
        is_logged = self.events is not None
        device.wait(device.submit(self._run_pass, self._observe_pass if is_logged else None))
        if outputs:
            device.wait(device.submit(self._run_logits, self._observe_logits if is_logged else None))
        cache.advance(rows)

    def _observe_pass(self, what: str, number: int) -> None:
        step = self.counts.passes
        if what == "submitted":
            self._log("pass submitted", step=step, rows=self._batch.rows, submitted=number)
        else:
            self._log("pass completed", step=step, completed=number)

    def _observe_logits(self, what: str, number: int) -> None:
        step = self.counts.passes
        if what == "submitted":
            self._log("logits submitted", step=step, submitted=number)
        else:
            self._log("logits copied", step=step, completed=number)

    def _sampled(self, row: int, banned: int | None) -> int:
        """The greedy token of a row of the output; of equal logits the first."""
        logits = self._output[row]
        if banned is not None:
            logits[banned] = -np.inf
        np.argmax(logits, out=self._best)
        token = int(self._best)
        if not -np.inf < logits[token] < np.inf:
            raise self._not_finite()
        if self.events is not None:
            self._log("sampled", step=self.counts.passes, token=token)
        return token

    def _not_finite(self) -> TmmuError:
        fix = "run it with --activations f32" if self.size.dtype == "float16" else "check the file's weights"
        return TmmuError(
            "CONTRACT_VIOLATION", f"the logits at position {self.length} are not finite",
            place=f"session {self.number}", fix=fix, operator="Foundry", failure_operator="Foundry",
        )  # fmt: skip

    def _room(self, length: int) -> None:
        if length > self.context.usable:
            raise TmmuError(
                "CONTRACT_VIOLATION", f"{length} tokens do not fit into a context of {self.context.usable}",
                place=f"session {self.number}", fix="ask for a longer context, or for fewer tokens", operator="Foundry",
                failure_operator="Foundry",
            )  # fmt: skip

    def _append(self, token: int) -> None:
        """One more token of the text, whose keys and values are not in the cache yet."""
        self.drafts.record(self._text, self._end)
        self._text[self._end] = token
        self._end += 1

    def _begun(self) -> int:
        """Something is asked of the session, and what was asked before and is suspended may not go on.

        What was computed for drafts that nothing has checked yet is taken back.
        """
        self._turn += 1
        self.cache.truncate(min(self._end, self.cache.written))
        return self._turn

    def _check_turn(self, turn: int) -> None:
        if turn != self._turn:
            raise TmmuError(
                "CONTRACT_VIOLATION", "the session was used while this was suspended", place=f"session {self.number}",
                fix="end one generation before the next begins, or open a second session", operator="Foundry",
                failure_operator="Foundry",
            )  # fmt: skip

    def _taken(self, tokens: Sequence[int], most: int, every: bool) -> Iterator[int]:
        """Append tokens to the text and run what is not in the cache, `most` at a time; yields the rows of each pass.

        Logits are computed of every row, or of the last one of all. Where something fails, the text is as it was.
        """
        turn = self._begun()
        vocabulary, before, end = self.model.shape.vocab, self.cache.written, self._end
        wrong = next((t for t in tokens if not isinstance(t, Integral) or not 0 <= t < vocabulary), None)
        if wrong is not None or not (len(tokens) or before < end):
            what = "there is no token" if wrong is None else f"the token {wrong} is not in 0 to {vocabulary - 1}"
            raise TmmuError("INVALID_BINDING", what, place="the prompt", fix="give tokens of the model", binding="")
        self._room(end + len(tokens))
        try:
            for token in tokens:
                self._append(token)
            while self.cache.written < self._end:
                first = self.cache.written
                rows = min(most, self._end - first)
                for row in range(rows):
                    self._ids[row] = self._text[first + row]
                is_last = first + rows == self._end
                self._run(rows, rows if every else int(is_last))
                if every:
                    yield rows
                    self._check_turn(turn)
        except GeneratorExit:
            raise
        except BaseException:
            if turn == self._turn:
                self.cache.truncate(before)
                self._end = end
            raise

    def prefill(self, tokens: Sequence[int]) -> None:
        """Take tokens into the cache, a chunk at a time; the output then has the logits of the last one, in row 0.

        Raises INVALID_BINDING for a token that the vocabulary does not have and for none at all, CONTRACT_VIOLATION
        where they do not fit into the context, OUT_OF_MEMORY where the cache cannot grow; nothing is taken then.
        """
        for _ in self._taken(tokens, self.settings.prefill_chunk_size, every=False):
            pass

    def passes(self, tokens: Sequence[int]) -> Iterator[np.ndarray[Any, Any]]:
        """Take tokens into the cache; yields the logits after each of a pass, [rows, vocab], for every pass.

        They are a view of the output, which the next pass changes. Otherwise as `prefill`, and CONTRACT_VIOLATION for
        logits that are not finite.
        """
        for rows in self._taken(tokens, self.size.output_rows, every=True):
            logits = self._output[:rows]
            if not np.isfinite(logits).all():
                raise self._not_finite()
            yield logits

    def generate(
        self, prompt: Sequence[int], count: int, *, stop: int | None = None, banned: int | None = None
    ) -> Iterator[int]:
        """Continue the text greedily: yields `count` tokens, or up to and with `stop`; `banned` is never chosen.

        What n-grams of the text propose is checked in one pass with the last token, up to the decode batch; the
        tokens are those of a greedy run, because each row's logits are the same bits in every batch. Raises as
        `prefill` does, and CONTRACT_VIOLATION where the context is full, or the session was used for something else
        since the last token. spec: FD6.8, FD6.15
        """
        if banned is not None and not 0 <= banned < self.model.shape.vocab:
            raise TmmuError(
                "INVALID_BINDING", f"the token {banned} is not in 0 to {self.model.shape.vocab - 1}", place="banned",
                fix="give a token of the model", binding="",
            )  # fmt: skip
        self.prefill(prompt)
        turn = self._turn
        if count < 1:
            return
        token = self._sampled(0, banned)
        made = 0
        while True:
            self._room(self._end + 1)
            self._append(token)
            made += 1
            yield token
            if made == count or token == stop:
                return
            self._check_turn(turn)
            most = min(self.size.output_rows - 1, count - made - 1, self.context.usable - self._end)
            draft = self.drafts.proposed(self._text, self._end, most)
            self._ids[0] = token
            for row, at in enumerate(draft, 1):
                self._ids[row] = self._text[at]
            self._run(1 + len(draft), 1 + len(draft))
            self.counts.drafted += len(draft)
            try:
                token = self._sampled(0, banned)
                for row, at in enumerate(draft, 1):
                    if token != self._text[at]:
                        break
                    self.counts.accepted += 1
                    self._append(token)
                    made += 1
                    yield token
                    self._check_turn(turn)
                    if token == stop:
                        return
                    token = self._sampled(row, banned)
            finally:
                if turn == self._turn and self.is_initialized:
                    self.cache.truncate(min(self._end, self.cache.written))

    def clear(self) -> None:
        """Forget the text; the memory stays."""
        self._begun()
        self.cache.clear()
        self._end = 0
        self.drafts.clear()

    def close(self) -> None:
        """Give all memory of the session back, when what was submitted has ended. A second call does nothing."""
        if self._cache is not None:
            self._turn += 1
            self.model.device.wait()
            self._kernels, self._regions = [], {}
            self._cache.close()
            for buffer in self._buffers.values():
                buffer.release()
            self._cache, self._buffers = None, {}
            self._log("session closed", made=0)
        self.is_closed = True


def initialize_session(session: ModelSession, plan: Plan, prove: Prove) -> ModelSession:
    """Make all buffers of a session as `plan` has them; a session that has them is left as it is.

    Parameters
    ----------
    session
        A session of a `CompiledModel`.
    plan
        A plan of `session.forward` with the arenas of `forward.ARENAS`.
    prove
        It is called before anything is allocated, and raises unless the plan is proved against the model.

    Raises
    ------
    TmmuError
        What `prove` raises; INVALID_PLAN for a plan of another pass; OUT_OF_MEMORY where a buffer cannot be had: then
        those that were made are given back, and the call may be repeated. `UseAfterFree` for a closed session.

    Notes
    -----
    spec: FD6.1, FD6.2, FD6.3, FD6.14
    """
    if session.is_closed:
        raise UseAfterFree("it is closed", f"session {session.number}", "make a new session")
    if not session.is_initialized:
        prove(plan, session.forward)
        session._provision(plan)
    return session


def arena_sizes(plan: Plan, forward: Model) -> dict[str, int]:
    """The bytes of each arena of a session's plan. INVALID_PLAN where it is not a plan of this pass. O(tensors)."""
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


def arena_mode(name: str, forced: Mapping[str, bool]) -> StorageMode:
    """The storage mode of an arena of a session."""
    return storage_mode(ARENA_TYPES[name], forced)
