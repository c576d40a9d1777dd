"""What a planner of buffers is given: named bytes with the steps between which they are needed. spec: TP1.2"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class TimedBuffer:
    """Bytes that are needed from step `first` to step `last`, both included.

    `alignment` is a power of two. During `gaps`, each (first, last) with both included, the bytes are free for others:
    the buffer comes back at the same offset. `offset` is where it must begin, None if the planner is free.

    >>> TimedBuffer("b0", 0, 3, 64)
    TimedBuffer('b0', 0, 3, 64)
    """

    name: str
    first: int
    last: int
    bytes: int
    alignment: int = 1
    gaps: tuple[tuple[int, int], ...] = ()
    offset: int | None = None

    def __repr__(self) -> str:
        stated = [repr(value) for value in (self.name, self.first, self.last, self.bytes)]
        stated += [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)[4:]
            if getattr(self, field.name) != field.default
        ]
        return f"TimedBuffer({', '.join(stated)})"

    def pieces(self) -> list[tuple[int, int]]:
        """Return the steps at which it is needed, as (first, last) around its gaps."""
        found, first = [], self.first
        for low, high in self.gaps:
            found.append((first, low - 1))
            first = high + 1
        return [*found, (first, self.last)]
