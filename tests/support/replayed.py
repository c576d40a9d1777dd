"""Replaying traces in a process of its own: torch exports no model where libCacheSim is loaded too (finding 267)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

P, R = ParamSpec("P"), TypeVar("R")


def apart(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What a function returns in a copy of this process, which may load libCacheSim."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as other:
        return other.submit(function, *args, **kwargs).result()
