"""Numbers of bytes as people read and write them, and values of records as JSON has them. spec: C2.7"""

from __future__ import annotations

from typing import Any

import click

from tmmu.core.output import parse_size


def memory(_context: object, parameter: click.Parameter | None, text: str | None) -> int | None:
    """A number of bytes from text such as 24GiB. `click.BadParameter` for anything else.

    >>> memory(None, None, "24GiB"), memory(None, None, "1048576"), memory(None, None, None)
    (25769803776, 1048576, None)
    """
    if text is None:
        return None
    size = parse_size(text)
    if size is None:
        raise click.BadParameter(f"expected a number of bytes such as 24GiB, got {text!r}", param=parameter)
    return size


def seconds(nanoseconds: int) -> str:
    """A time that was measured, to microseconds.

    >>> seconds(1_234_567)
    '0.001235 s'
    """
    return f"{nanoseconds / 1e9:.6f} s"


def plain(value: Any) -> Any:
    """A value for JSON: bytes as hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value
