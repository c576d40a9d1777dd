"""Log a run whose steps overlap, for `tla/tmmu/Streams.tla`: when steps begin and end, and each access.

A *value* is what the caller or a step writes as one tensor, with its place. The first line of a run states the stream
of each step, its waits, all values, and which of them each step reads. A line of a read states the values whose bytes
were found. A view is logged as a part of its base, and tensors without bytes are not logged. spec: U5.24
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tmmu.runtime.events import EventLog
from tmmu.simulator.program import PlanProgram

Value = tuple[int | None, int]
"""The step that writes a value, None for the caller, and the tensor."""


class _Read(NamedTuple):
    """Bytes of a value that a step reads, or the caller after the last step."""

    step: int
    value: int
    address: int
    size: int


class OverlapLog:
    """The log of one run. `owners` maps what a step or the caller reads to the value that it must find."""

    def __init__(self, program: PlanProgram, owners: Mapping[Value, Value], events: EventLog) -> None:
        self.program, self.events = program, events
        steps = program.plan.allocation.steps
        self.number: dict[Value, int] = {}
        for value in _list_values(program):
            self.number[value] = len(self.number)
        self.reads: dict[Value, _Read] = {}
        known: set[_Read] = set()
        for (n, t), value in owners.items():
            step = len(program.steps) if n is None else n
            read = _Read(step, self.number.get(value, 0), program.address[t], program.sizes[t])
            if read.size and read not in known:
                known.add(read)
                self.reads[n, t] = read
        waits = [[n, other] for n, after in enumerate(steps.listed("after")) for other in after]
        values = [
            [0 if n is None else n + 1, program.arena[t], program.address[t], program.sizes[t]] for n, t in self.number
        ]
        self.events(
            "streams opened",
            stream=steps.stream.tolist(),
            waits=waits,
            values=values,
            reads=[list(read) for read in self.reads.values()],
        )

    def begin(self, n: int) -> None:
        """Log that a step begins."""
        self.events("step begun", step=n)

    def read(self, n: int | None, t: int, found: Iterable[Value | None]) -> None:
        """Log that a step, or the caller, has read a tensor and found bytes of these values."""
        if (n, t) in self.reads:
            read = self.reads[n, t]
            held = dict.fromkeys(-1 if value is None else self.number[value] for value in found)
            self.events(
                "value read",
                step=read.step,
                value=read.value,
                address=read.address,
                size=read.size,
                found=list(held),
            )

    def write(self, n: int, t: int) -> None:
        """Log that a step has written a tensor."""
        if (n, t) in self.number:
            self.events("value written", step=n, value=self.number[n, t])

    def end(self, n: int) -> None:
        """Log that a step has ended."""
        self.events("step ended", step=n)

    def close(self) -> None:
        """Log that all steps have ended, and that the caller has read what it reads."""
        self.events("streams closed")


def _list_values(program: PlanProgram) -> Iterator[Value]:
    """Yield what the caller writes, and then what each step writes. A view writes nothing."""
    for t in program.given:
        if t not in program.views and program.sizes[t]:
            yield None, t
    for n, step in enumerate(program.steps):
        for t in dict.fromkeys((*step.results, *step.scratch)):
            if t not in program.views and program.sizes[t]:
                yield n, t
