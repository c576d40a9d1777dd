"""A session against a run that allocates at will: whatever is asked of it, the tokens and the bits are those."""

from __future__ import annotations

import threading
from contextlib import closing
from itertools import islice

import hypothesis.strategies as st
import numpy as np
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.effort import share
from tests.support.plain_llama import PlainLlama
from tests.support.small_llama import file_of, model_of, session_of
from tmmu.core.errors import TmmuError
from tmmu.foundry.session import ModelSession
from tmmu.foundry.shapes import open_llama
from tmmu.tasks.language_session import SessionOptions

FILE = open_llama(file_of())
MODEL = model_of()
CONTEXT = 384

tokens = st.integers(0, FILE.shape.vocab - 1)


class Sessions(RuleBasedStateMachine):
    """Two sessions of one model, each beside a plain run of its own."""

    sessions: dict[int, ModelSession]

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.sessions, self.plain, self.text = {}, {}, {}
        for number in (1, 2):
            self.open(number, data)

    def open(self, number: int, data: st.DataObject) -> None:
        environment = {
            "METALLIC_PREFILL_CHUNK_SIZE": str(data.draw(st.sampled_from([1, 3, 32, 200]))),
            "METALLIC_FOUNDRY_DECODE_BATCH_SIZE": str(data.draw(st.sampled_from([1, 2, 9, 64]))),
            "METALLIC_KV_CACHE_SHARED": data.draw(st.sampled_from(["", "1"])),
        }
        options = SessionOptions(
            layout=data.draw(st.sampled_from(["compact", "expanded"])), context=CONTEXT,
            initial=data.draw(st.sampled_from([1, 200, 384])),
        )  # fmt: skip
        self.sessions[number] = session_of(MODEL, options, environment, number=number)
        self.forget(number)

    def forget(self, number: int) -> None:
        self.plain[number], self.text[number] = PlainLlama(FILE, capacity=CONTEXT), []

    def catch_up(self, number: int) -> None:
        """Let the plain run take what it has not taken of the text."""
        plain = self.plain[number]
        for token in self.text[number][plain.position :]:
            self.logits = plain.step(token)

    @rule(number=st.sampled_from([1, 2]), prompt=st.lists(tokens, min_size=1, max_size=40))
    def prefill(self, number: int, prompt: list[int]) -> None:
        session, text = self.sessions[number], self.text[number]
        if len(text) + len(prompt) > CONTEXT:
            try:
                session.prefill(prompt)
            except TmmuError as error:
                self.refused = error.code_id
            assert self.refused == "CONTRACT_VIOLATION"
            return
        session.prefill(prompt)
        text += prompt
        self.catch_up(number)
        assert session.output[0].tobytes() == self.logits.tobytes()

    @rule(
        number=st.sampled_from([1, 2]), again=st.integers(0, 60), prompt=st.lists(tokens, max_size=5),
        count=st.integers(1, 40), taken=st.integers(1, 40),
    )  # fmt: skip
    def generate(self, number: int, again: int, prompt: list[int], count: int, taken: int) -> None:
        """A prompt that begins with a part of the text, so that n-grams propose something; a run may be given up."""
        session, text = self.sessions[number], self.text[number]
        prompt = [*text[:again], *prompt] or [1]
        if len(text) + len(prompt) + count > CONTEXT:
            return
        with closing(session.generate(prompt, count)) as going:
            found = list(islice(going, taken))
        text += prompt
        for token in found:
            self.catch_up(number)
            assert token == int(np.argmax(self.logits))
            text.append(token)
        assert len(found) == min(count, taken)

    @rule(number=st.sampled_from([1, 2]))
    def clear(self, number: int) -> None:
        self.sessions[number].clear()
        self.forget(number)

    @rule(number=st.sampled_from([1, 2]), data=st.data())
    def open_again(self, number: int, data: st.DataObject) -> None:
        self.sessions[number].close()
        self.open(number, data)

    @invariant()
    def counts_hold(self) -> None:
        for number, session in getattr(self, "sessions", {}).items():
            assert session.length <= len(self.text[number]) <= CONTEXT
            assert session.length <= session.cache.capacity <= session.context.limit
            assert session.budget.reserved == session.cache.size <= session.budget.total

    def teardown(self) -> None:
        for session in getattr(self, "sessions", {}).values():
            session.close()


Sessions.TestCase.settings = settings(max_examples=share(60), stateful_step_count=12, deadline=None)
TestSessions = Sessions.TestCase


def test_sessions_of_one_device_run_in_threads_of_their_own() -> None:
    """Eight at once, growing meanwhile, give the tokens of each alone. spec: FD6.5, FD6.12"""
    prompts = [[n, 3 * n, 7] for n in range(8)]
    alone = [PlainLlama(FILE, capacity=256).greedy(prompt, 150) for prompt in prompts]
    found: dict[int, list[int]] = {}

    def run(number: int) -> None:
        session = session_of(MODEL, SessionOptions(initial=1, context=256), number=number)
        found[number] = list(session.generate(prompts[number], 150))
        session.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found.get(number) for number in range(8)] == alone
