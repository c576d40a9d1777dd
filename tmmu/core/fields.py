"""Reading single fields of a decoded plan: each has its type and its range, or INVALID_PLAN names its place.

spec: P1.2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import UINT64_END


def refuse(place: str, what: str) -> TmmuError:
    """The refusal of what stands at `place`."""
    return TmmuError("INVALID_PLAN", what, place=place, fix="write the plan again with the tool that made it")


def integer(value: Any, place: str, end: int = UINT64_END, least: int = 0) -> int:
    """An integer from `least` up to, but without, `end`; a boolean is none."""
    if type(value) is not int or not least <= value < end:
        raise refuse(place, f"{value!r} is no integer from {least} to {end - 1}")
    return value


def text(value: Any, place: str) -> str:
    """A text."""
    if type(value) is not str:
        raise refuse(place, f"{value!r} is no text")
    return value


def keys(value: Any, known: Sequence[str], place: str, optional: Sequence[str] = ()) -> dict[str, Any]:
    """A map with just these keys; those that are `optional` may be absent."""
    if not isinstance(value, dict):
        raise refuse(place, "no map")
    for key in known:
        if key not in value:
            raise refuse(place, f"the key {key!r} is missing")
    for key in value:
        if key not in known and key not in optional:
            raise refuse(place, f"the key {key!r} is unknown")
    return value


def array(value: Any, place: str) -> list[Any]:
    """An array."""
    if not isinstance(value, list):
        raise refuse(place, "no array")
    return value


def texts(value: Any, place: str) -> tuple[str, ...]:
    """An array of texts."""
    return tuple(text(item, place) for item in array(value, place))
