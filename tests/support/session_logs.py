"""Logs of two sessions on one device: used in turns by one thread, and at one time by two."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.failing_device import FailingDevice, Injected
from tests.support.small_llama import model_of, session_of
from tmmu.core.errors import TmmuError
from tmmu.foundry.compiled import CompiledModel
from tmmu.foundry.session import ModelSession
from tmmu.runtime.events import EventLog

CHUNKS = {"METALLIC_PREFILL_CHUNK_SIZE": "32"}
PROMPTS = {1: [7 + k % 5 for k in range(140)], 2: [5, 6, 7]}
"""The first takes five passes, and a cache of 128 tokens grows; the second takes one."""


def opened(model: CompiledModel, number: int, events: EventLog) -> ModelSession:
    """A session that logs."""
    return session_of(model, environment=CHUNKS, number=number, events=events)


def in_turns(folder: Path) -> Path:
    """A session is refused a buffer, fails while weights are staged, and is opened again; then two take turns.

    The second is opened when the first has run, so that their steps differ.
    """
    path = folder / "turns.events"
    events, device = EventLog(path), FailingDevice()
    model = model_of(device=device)
    for place, at, failure in (("buffer", 3, TmmuError), ("submission", 4, Injected)):
        device.arm(place, at)
        with pytest.raises(failure):
            opened(model, 1, events)
    first = opened(model, 1, events)
    tokens = first.generate(PROMPTS[1], 5)
    next(tokens)
    second = opened(model, 2, events)
    for _ in zip(second.generate(PROMPTS[2], 4), tokens, strict=False):
        pass
    list(first.passes([3, 4, 5]))  # scored, and not sampled
    first.close()
    second.close()
    device.close()
    return path


def in_threads(folder: Path) -> Path:
    """Two sessions that run at one time, in whatever order it comes."""
    path = folder / "threads.events"
    events, device = EventLog(path), FailingDevice()
    model = model_of(device=device)

    def run(session: ModelSession) -> None:
        list(session.generate(PROMPTS[session.number], 6))
        session.close()

    threads = [threading.Thread(target=run, args=(opened(model, number, events),)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device.close()
    return path
