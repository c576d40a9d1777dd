"""Numbers of bytes as people read them."""

from __future__ import annotations


def size(count: int) -> str:
    """A number of bytes with its unit, to two decimals.

    >>> size(0), size(1536), size(3 << 30)
    ('0 B', '1.50 KiB', '3.00 GiB')
    """
    if count < 1024:
        return f"{count} B"
    units = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = min((count.bit_length() - 1) // 10, len(units))
    return f"{count / (1 << 10 * power):.2f} {units[power - 1]}"
