"""A session: a text that a language model continues, in memory that is made once, from a plan that was proved.

`ModelSession.forward` has the models of its two passes, prefill and decode, which the caller plans as one set.
`initialize_session` calls the function that proves the set before it allocates the first byte, and makes the execution
graph (`graph`) from its plans. From then on, a token costs commands and no memory; only the cache grows, with the text.
spec: FD6.1 to FD6.15, FD6.17, FD9.5, FD9.7
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
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
from tmmu.foundry.forward import DECODE, PREFILL, ForwardPass, PassSize, build_forward_model
from tmmu.foundry.graph import CacheSetup, ExecutionGraph, SessionPlans
from tmmu.foundry.kv_cache import KvCache
from tmmu.foundry.sampling import Sampler
from tmmu.runtime.events import EventLog

Prove = Callable[[SessionPlans, Mapping[str, Model]], None]
"""A function that returns if it proved the plans against the models, and as a set; it raises otherwise."""


@dataclass
class Counts:
    """The work of a session: its passes, the rows in them, and the tokens that were drafted and accepted."""

    passes: int = 0
    rows: int = 0
    drafted: int = 0
    accepted: int = 0


class ModelSession:
    """A sequence of tokens, and the memory in which it is continued.

    Parameters
    ----------
    model
        The model that the session runs.
    context
        The limits on the length of the sequence.
    settings
        The variables of the environment.
    layout, dtype
        The layout of the cache, and the type of the activations ("float16" or "float32").
    budget
        The bytes that the caches of several sessions share; None: a separate budget for this session.
    number
        The number of the session in the event log.
    events
        A log of each action, for the models of `tla/foundry`.

    Notes
    -----
    Only one thread uses a session at a time; sessions of one model and device may run in different threads.
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
        sizes = {
            PREFILL: PassSize(chunk, 1, context.limit, dtype), DECODE: PassSize(batch, batch, context.limit, dtype),
        }  # fmt: skip
        self.passes_of = {
            name: ForwardPass(
                size,
                build_forward_model(
                    name, shape, size, model.file.output.name, cache_heads=self.kv_shape.cache_heads,
                    weights=model.file.tensors, device=model.kernels,
                ),
            )
            for name, size in sizes.items()
        }  # fmt: skip
        self._dtype = dtype
        self.counts = Counts()
        self._turn = 0
        self.is_closed = False
        self._end = 0
        self._graph: ExecutionGraph | None = None

    @property
    def forward(self) -> dict[str, Model]:
        """The models of its passes, by name."""
        return {name: one.model for name, one in self.passes_of.items()}

    @property
    def is_initialized(self) -> bool:
        """Whether all buffers are made, so that it can run."""
        return self._graph is not None

    @property
    def graph(self) -> ExecutionGraph:
        """The memory of the session. Raises `UseAfterFree` before it is initialized and after it is closed."""
        if self._graph is None:
            state = "closed" if self.is_closed else "not initialized"
            raise UseAfterFree(f"it is {state}", f"session {self.number}", "call initialize_session first")
        return self._graph

    @property
    def cache(self) -> KvCache:
        """The keys and values of the session."""
        return self.graph.cache

    @property
    def length(self) -> int:
        """The tokens whose keys and values are in the cache."""
        return self.cache.written

    @property
    def buffers(self) -> dict[str, Buffer]:
        """The buffers that live as long as the session, by name."""
        return self.graph.buffers

    @property
    def output(self) -> np.ndarray[Any, Any]:
        """The logits of the last pass, [rows, vocab], in Shared memory; the next pass overwrites them."""
        return self.graph.output

    def make_memory(self, plans: SessionPlans) -> None:
        """Make the memory of the session from plans of `forward` that were proved: see `initialize_session`."""
        self._graph = ExecutionGraph(
            self.model, self.passes_of, plans,
            cache=CacheSetup(self.kv_shape, self.context, self.budget), settings=self.settings, number=self.number,
            events=self.events,
        )  # fmt: skip
        self.drafts = Drafts(self.context.limit)

    def _run(self, name: str, rows: int, outputs: int) -> None:
        self.graph.run(name, rows, outputs)
        self.counts.passes += 1
        self.counts.rows += rows

    def _log(self, event: str, **fields: Any) -> None:
        if self.events is not None:
            self.events(event, session=self.number, **fields)

    def _sample(self, row: int, sampler: Sampler, banned: Collection[int]) -> int:
        """Choose a token from a row of the output. Raises CONTRACT_VIOLATION if its logits are not finite."""
        token = sampler.choose(self.graph.output[row], banned)
        if token is None:
            raise self._make_not_finite()
        if self.events is not None:
            self._log("sampled", step=self.graph.passes, token=token)
        return token

    def _make_violation(self, what: str, fix: str) -> TmmuError:
        place = f"session {self.number}"
        return TmmuError(
            "CONTRACT_VIOLATION", what, place=place, fix=fix, operator="Foundry", failure_operator="Foundry"
        )

    def _make_not_finite(self) -> TmmuError:
        fix = "run it with --activations f32" if self._dtype == "float16" else "check the file's weights"
        return self._make_violation(f"the logits at position {self.length} are not finite", fix)

    def _check_room(self, length: int) -> None:
        if length > self.context.usable:
            what = f"{length} tokens do not fit into a context of {self.context.usable}"
            raise self._make_violation(what, "ask for a longer context, or for fewer tokens")

    def _check_tokens(self, tokens: Iterable[int], place: str) -> None:
        vocabulary = self.model.shape.vocab
        for token in tokens:
            if not isinstance(token, Integral) or not 0 <= token < vocabulary:
                what = f"the token {token} is not in 0 to {vocabulary - 1}"
                raise TmmuError("INVALID_BINDING", what, place=place, fix="give tokens of the model", binding="")

    def _append(self, token: int) -> None:
        """Append one token to the text; its keys and values are not in the cache yet."""
        self.drafts.record(self.graph.text, self._end)
        self.graph.text[self._end] = token
        self._end += 1

    def _begin(self) -> int:
        """Begin a use of the session, after which suspended earlier ones must not continue; return its number."""
        self._turn += 1
        self._drop_unchecked()
        return self._turn

    def _drop_unchecked(self) -> None:
        """Remove from the cache all tokens after the text: drafts that were rejected, or not checked."""
        if self.cache.written > self._end:
            self.cache.truncate(self._end)

    def _check_turn(self, turn: int) -> None:
        if turn != self._turn:
            fix = "end one generation before the next begins, or open a second session"
            raise self._make_violation("the session was used for something else while this iterator was suspended", fix)

    def _take(self, tokens: Sequence[int], name: str) -> Iterator[int]:
        """Append tokens to the text and run all that are not in the cache; yield the rows of each pass of decode.

        Decode computes the logits of every row, prefill those of the last row. After a failure, the text is unchanged.
        """
        most, every = self.passes_of[name].size.rows, name == DECODE
        turn = self._begin()
        before, end = self.cache.written, self._end
        self._check_tokens(tokens, "the prompt")
        if not len(tokens) and before == end:
            what, fix = "there is no token", "give tokens of the model"
            raise TmmuError("INVALID_BINDING", what, place="the prompt", fix=fix, binding="")
        self._check_room(end + len(tokens))
        try:
            for token in tokens:
                self._append(token)
            while self.cache.written < self._end:
                first = self.cache.written
                rows = min(most, self._end - first)
                for row in range(rows):
                    self.graph.ids(name)[row] = self.graph.text[first + row]
                is_last = first + rows == self._end
                self._run(name, rows, rows if every else int(is_last))
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
        """Take tokens into the cache, a chunk at a time; row 0 of the output then has the logits of the last token.

        Raises INVALID_BINDING for no tokens and for a token that is not in the vocabulary, CONTRACT_VIOLATION if they
        do not fit into the context, and OUT_OF_MEMORY if the cache cannot grow; the session is then unchanged.
        """
        for _ in self._take(tokens, PREFILL):
            pass

    def passes(self, tokens: Sequence[int]) -> Iterator[np.ndarray[Any, Any]]:
        """Take tokens into the cache, and yield the logits after each token, [rows, vocab], for every pass.

        They are a view of the output, which the next pass overwrites. Raises as `prefill` does, and CONTRACT_VIOLATION
        for logits that are not finite.
        """
        for rows in self._take(tokens, DECODE):
            logits = self.graph.output[:rows]
            if not np.isfinite(logits).all():
                raise self._make_not_finite()
            yield logits

    def generate(
        self, prompt: Sequence[int], count: int, *, stop: Collection[int] = (), banned: Collection[int] = (),
        sampler: Sampler | None = None,
    ) -> Generator[int]:  # fmt: skip
        """Continue the text: yield `count` tokens, or up to and including one of `stop`; never one of `banned`.

        `sampler` chooses each token, by default the best one. N-grams of the text propose a draft, which one pass
        checks together with the last token, up to the decode batch. The tokens are those of a run without drafts,
        because the logits of a row have the same bits in every batch. If the iterator is closed or interrupted, the
        session has the tokens up to the last one that was yielded. Raises as `prefill` does, and CONTRACT_VIOLATION if
        the context is full, or if the session was used for something else since the last token.
        spec: FD6.8, FD6.15, FD11.3, FD11.9
        """
        self._check_tokens(banned, "banned")
        sampler = sampler or Sampler(self.model.shape.vocab)
        self.prefill(prompt)
        turn = self._turn
        if count < 1:
            return
        token = self._sample(0, sampler, banned)
        made = 0
        while True:
            self._check_room(self._end + 1)
            self._append(token)
            made += 1
            yield token
            if made == count or token in stop:
                return
            self._check_turn(turn)
            most = min(self.passes_of[DECODE].size.rows - 1, count - made - 1, self.context.usable - self._end)
            draft = self.drafts.propose(self.graph.text, self._end, most)
            ids = self.graph.ids(DECODE)
            ids[0] = token
            for row, at in enumerate(draft, 1):
                ids[row] = self.graph.text[at]
            self._run(DECODE, 1 + len(draft), 1 + len(draft))
            self.counts.drafted += len(draft)
            try:
                token = self._sample(0, sampler, banned)
                for row, at in enumerate(draft, 1):
                    if token != self.graph.text[at]:
                        break
                    self.counts.accepted += 1
                    self._append(token)
                    made += 1
                    yield token
                    self._check_turn(turn)
                    if token in stop:
                        return
                    token = self._sample(row, sampler, banned)
            finally:
                if turn == self._turn and self.is_initialized:
                    self._drop_unchecked()

    @property
    def text(self) -> list[int]:
        """The tokens of the text."""
        return self.graph.text[: self._end].tolist()

    def rewind(self, length: int) -> None:
        """Remove the tokens of the text after the first `length`; the memory stays. spec: FD11.10

        Raises ValueError if the text is shorter.
        """
        if not 0 <= length <= self._end:
            raise ValueError(f"cannot rewind a text of {self._end} tokens to {length}")
        self._begin()
        self._end = length
        self._drop_unchecked()

    def clear(self) -> None:
        """Remove the text; the memory stays."""
        self.rewind(0)
        self.drafts.clear()

    def close(self) -> None:
        """Release all memory of the session, once all submitted commands have ended. A second call does nothing."""
        if self._graph is not None:
            self._turn += 1
            graph, self._graph = self._graph, None
            graph.close()
        self.is_closed = True


def initialize_session(session: ModelSession, plans: SessionPlans, prove: Prove) -> ModelSession:
    """Make all buffers of a session from `plans`; if it has them already, do nothing. Return the session.

    Parameters
    ----------
    session
        A session of a `CompiledModel`.
    plans
        A plan set of `session.forward` with the arenas of `session_arenas`.
    prove
        It is called before anything is allocated, and raises unless each plan is proved against its model and the set
        as a set.

    Raises
    ------
    TmmuError
        The exceptions of `prove`; INVALID_PLAN for plans of other passes; OUT_OF_MEMORY if a buffer cannot be
        allocated: then the buffers that were made are released, and the call may be repeated. `UseAfterFree` for a
        closed session.

    Notes
    -----
    spec: FD6.1, FD6.2, FD6.3, FD6.14, FD6.17
    """
    if session.is_closed:
        raise UseAfterFree("it is closed", f"session {session.number}", "make a new session")
    if not session.is_initialized:
        prove(plans, session.forward)
        session.make_memory(plans)
    return session
