"""Replaying traces in a process of its own: torch exports no model where libCacheSim is loaded too (finding 267)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from proofs.verify.forked import Forked

P, R = ParamSpec("P"), TypeVar("R")


def apart(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What a function returns in a copy of this process, which may load libCacheSim."""
    with Forked(partial(function, *args, **kwargs), is_forked=True) as other:
        return other.result()
