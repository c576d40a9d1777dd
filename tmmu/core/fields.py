"""Read single fields of a decoded plan: check type and range, or raise INVALID_PLAN naming the place.

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


def plan_error(place: str, what: str) -> TmmuError:
    """Return the error about `place`."""
    return TmmuError("INVALID_PLAN", what, place=place, fix="write the plan again with the tool that made it")


def unexpected_error(place: str, wanted: str, value: Any) -> TmmuError:
    """Return the error for a value of the wrong kind in a plan."""
    return plan_error(place, f"expected {wanted}, got {format_value(value)}")


def format_value(value: Any) -> str:
    """Format a value for a message, always short.

    >>> format_value(b"ab"), format_value([1, 2]), format_value("x" * 100)
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


def check_integer(value: Any, place: str, end: int = UINT64_END, least: int = 0) -> int:
    """Check and return an integer from `least` up to, but excluding, `end`; a boolean is refused."""
    if type(value) is not int or not least <= value < end:
        raise unexpected_error(place, f"an integer from {least} to {end - 1}", value)
    return value


def check_size(value: Any, place: str) -> int:
    """Check and return an integer from 1."""
    return check_integer(value, place, least=1)


def check_boolean(value: Any, place: str) -> bool:
    """Check and return a boolean."""
    if type(value) is not bool:
        raise unexpected_error(place, "a boolean", value)
    return value


def check_text(value: Any, place: str) -> str:
    """Check and return a text."""
    if type(value) is not str:
        raise unexpected_error(place, "a text", value)
    return value


def check_one_of(value: Any, allowed: Sequence[str], place: str) -> str:
    """Check and return one of some texts."""
    if check_text(value, place) not in allowed:
        raise unexpected_error(place, " or ".join(repr(str(word)) for word in allowed), value)
    return str(value)


def check_distinct(names: Sequence[str], place: str) -> None:
    """Check that no name occurs twice."""
    if len(set(names)) != len(names):
        raise plan_error(
            place, f"expected distinct names, got {format_value(Counter(names).most_common(1)[0][0])} twice"
        )


def check_keys(value: Any, known: Sequence[str], place: str, optional: Sequence[str] = ()) -> dict[str, Any]:
    """Check and return a map with exactly these keys; `optional` ones may be absent."""
    if not isinstance(value, dict):
        raise unexpected_error(place, "a map", value)
    for key in known:
        if key not in value:
            raise plan_error(place, f"the key {key!r} is missing")
    for key in value:
        if key not in known and key not in optional:
            raise plan_error(place, f"the key {key!r} is unknown")
    return value


def check_array(value: Any, place: str, length: int | None = None) -> list[Any]:
    """Check and return an array, of `length` entries if given."""
    if not isinstance(value, list) or length not in (None, len(value)):
        raise unexpected_error(place, "an array" if length is None else f"an array of {length} entries", value)
    return value


def check_texts(value: Any, place: str) -> tuple[str, ...]:
    """Check and return an array of texts."""
    return tuple(check_text(item, place) for item in check_array(value, place))


def read_entries(value: Any, place: str, read: Callable[[Any, str], Value]) -> tuple[Value, ...]:
    """Read an array, each entry by `read`, which is also passed its place."""
    return tuple(read(item, f"{place}[{i}]") for i, item in enumerate(check_array(value, place)))


def read_record(readers: Mapping[str, Reader], value: Any, place: str, optional: Sequence[str] = ()) -> dict[str, Any]:
    """Read a map of exactly these fields, each by its own reader; an absent `optional` field is omitted."""
    value = check_keys(value, [name for name in readers if name not in optional], place, optional)
    return {name: read(value[name], f"{place}.{name}") for name, read in readers.items() if name in value}
