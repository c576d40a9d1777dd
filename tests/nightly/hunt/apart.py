"""A call in a process of its own, for programs that may end the process that runs them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any


def apart(run: Callable[[], Any]) -> Any:
    """What a function returns in a process of its own; None where that dies. Raises RuntimeError where it raises."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                made = True, run()
            except Exception as error:  # a compiler raises what it likes
                made = False, f"{type(error).__name__}: {error}"
            with os.fdopen(writable, "wb") as stream:
                pickle.dump(made, stream)
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    if not answer:
        return None
    is_right, made = pickle.loads(answer)
    if not is_right:
        raise RuntimeError(made)
    return made
