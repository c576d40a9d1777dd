"""Reading single fields of a decoded plan: each has its type and its range, or INVALID_PLAN names its place.

spec: P1.2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import UINT64_END

Value = TypeVar("Value")
Reader = Callable[[Any, str], Any]


def refuse(place: str, what: str) -> TmmuError:
    """The refusal of what stands at `place`."""
    return TmmuError("INVALID_PLAN", what, place=place, fix="write the plan again with the tool that made it")


def unexpected(place: str, wanted: str, value: Any) -> TmmuError:
    """The refusal of a value of the wrong kind in a plan."""
    return refuse(place, f"expected {wanted}, got {shown(value)}")


def shown(value: Any) -> str:
    """A value in a message: short whatever it is.

    >>> shown(b"ab"), shown([1, 2]), shown("x" * 100)
    ('a byte string of 2 bytes', 'an array of 2 entries', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'...")
    """
    if isinstance(value, bytes):
        return f"a byte string of {len(value)} bytes"
    if isinstance(value, np.ndarray):
        return f"a column of {value.dtype}"
    if isinstance(value, dict):
        return f"a map of {len(value)} keys"
    if isinstance(value, list):
        return f"an array of {len(value)} entries"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}{text[0]}..." if isinstance(value, str) else f"{text[:40]}..."


def integer(value: Any, place: str, end: int = UINT64_END, least: int = 0) -> int:
    """An integer from `least` up to, but without, `end`; a boolean is refused."""
    if type(value) is not int or not least <= value < end:
        raise unexpected(place, f"an integer from {least} to {end - 1}", value)
    return value


def size(value: Any, place: str) -> int:
    """An integer from 1."""
    return integer(value, place, least=1)


def boolean(value: Any, place: str) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise unexpected(place, "a boolean", value)
    return value


def text(value: Any, place: str) -> str:
    """A text."""
    if type(value) is not str:
        raise unexpected(place, "a text", value)
    return value


def one_of(value: Any, allowed: Sequence[str], place: str) -> str:
    """One of some texts."""
    if text(value, place) not in allowed:
        raise unexpected(place, " or ".join(repr(str(word)) for word in allowed), value)
    return str(value)


def distinct(names: Sequence[str], place: str) -> None:
    """Refuse a name that is there twice."""
    if len(set(names)) != len(names):
        raise refuse(place, f"expected distinct names, got {shown(Counter(names).most_common(1)[0][0])} twice")


def keys(value: Any, known: Sequence[str], place: str, optional: Sequence[str] = ()) -> dict[str, Any]:
    """A map with just these keys; those that are `optional` may be absent."""
    if not isinstance(value, dict):
        raise unexpected(place, "a map", value)
    for key in known:
        if key not in value:
            raise refuse(place, f"the key {key!r} is missing")
    for key in value:
        if key not in known and key not in optional:
            raise refuse(place, f"the key {key!r} is unknown")
    return value


def array(value: Any, place: str, length: int | None = None) -> list[Any]:
    """An array, of `length` entries where that is given."""
    if not isinstance(value, list) or length not in (None, len(value)):
        raise unexpected(place, "an array" if length is None else f"an array of {length} entries", value)
    return value


def texts(value: Any, place: str) -> tuple[str, ...]:
    """An array of texts."""
    return tuple(text(item, place) for item in array(value, place))


def entries(value: Any, place: str, read: Callable[[Any, str], Value]) -> tuple[Value, ...]:
    """An array, each entry read by `read`, which gets its place too."""
    return tuple(read(item, f"{place}[{i}]") for i, item in enumerate(array(value, place)))


def record(readers: Mapping[str, Reader], value: Any, place: str, optional: Sequence[str] = ()) -> dict[str, Any]:
    """A map of just these fields, each read by its own reader; an `optional` one that is absent is left out."""
    value = keys(value, [name for name in readers if name not in optional], place, optional)
    return {name: read(value[name], f"{place}.{name}") for name, read in readers.items() if name in value}
