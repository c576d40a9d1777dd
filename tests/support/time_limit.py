"""A limit for the time of a block, in the main thread."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def time_limit(seconds: int, error: Exception) -> Iterator[None]:
    """Raise `error` in the block if it takes more than this number of seconds."""

    def give_up(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
