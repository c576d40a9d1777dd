"""Extract runs whose steps overlap, for Streams: one path for each run.

The module has one slot for each tensor, and its steps write one tensor each. So a step of the log is several of the
module. The first reads all operands. For each value that the step writes, and each range of addresses between the ends
of any two values, there is one that writes. They are asynchronous copies that begin together. One that writes what the
step reads too begins after the reads: the step works in place. What follows the step waits for all of them.

The caller is a stream of its own: a step for each range that it writes before the run, and a last one, which reads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from proofs.model_check.following.lines import Path, format_value
from proofs.model_check.following.log import Event, WrongLog

MODULE = "Streams"
Bytes = tuple[int, int, int]
"""A value, and an address and a size: the bytes of it that are read."""
KINDS = ("step begun", "value read", "value written", "step ended", "streams closed")


@dataclass
class _Group:
    """The steps of the module that are one step of the log.

    `reader` reads its operands, `parallel` writes beside it, `late` after it. `reads` has the module's tensors of each
    read, and `writes` those of each value.
    """

    reader: int = 0
    parallel: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    reads: dict[Bytes, list[int]] = field(default_factory=dict)
    writes: dict[int, list[int]] = field(default_factory=dict)
    is_done_reading: bool = False

    @property
    def members(self) -> list[int]:
        """All steps of the module in the group."""
        return [*self.parallel, self.reader, *self.late]

    @property
    def operands(self) -> list[int]:
        """All tensors of the module that the group reads."""
        return [t for tensors in self.reads.values() for t in tensors]


@dataclass
class _Program:
    """The steps of the module so far: the columns of its constants, by step."""

    stream: list[int] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    reads: list[list[int]] = field(default_factory=list)
    waits: list[list[int]] = field(default_factory=list)
    slot: list[int] = field(default_factory=list)
    _slots: dict[object, int] = field(default_factory=dict)

    def find_slot(self, place: object) -> int:
        """Return the slot of a place, a new one at first."""
        return self._slots.setdefault(place, len(self._slots) + 1)

    def add(
        self, stream: int, place: object, waits: Sequence[int], reads: Sequence[int] = (), *, is_copy: bool = False
    ) -> int:
        """Add a step that writes a place, and return its number, from 1."""
        number = len(self.stream) + 1
        if is_copy:
            self.copies.append(number)
        self.stream.append(stream)
        self.slot.append(self.find_slot(place))
        self.reads.append(sorted(set(reads)))
        self.waits.append(sorted(set(waits)))
        return number


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield a path from each `streams opened` to the next, or to the end of the log."""
    run: _Run | None = None
    for event in events:
        if event.kind == "streams opened":
            if run is not None:
                yield run.path
            run = _Run(event)
        elif event.kind in KINDS:
            if run is None:
                raise WrongLog(event.line, f"{event.kind!r} before 'streams opened'")
            run.take(event)
    if run is not None:
        yield run.path


class _Run:
    """One run: its path so far, and the steps of the module that each step of the log is."""

    def __init__(self, opened: Event) -> None:
        _check(opened)
        fields = opened.fields
        self.path = Path(MODULE, f"run of line {opened.line}", opened.line)
        self.values = fields["values"]
        ends: dict[int, set[int]] = {}
        for _, arena, first, size in self.values:
            ends.setdefault(arena, set()).update((first, first + size))
        for _, value, first, size in fields["reads"]:
            ends[self.values[value][1]].update((first, first + size))
        self.ends = {arena: sorted(found) for arena, found in ends.items()}
        self.pieces: dict[int, dict[int, int]] = {}
        """The step of the module that writes each range of a value, by the first address of the range."""
        self.program = _Program()
        self.groups: list[_Group] = []
        self._add_caller(opened.line)
        self._add_steps(fields)
        self.is_returning = False
        self._describe()

    def _ranges(self, value: int, first: int, size: int) -> list[int]:
        """Return the first address of each range within some bytes of a value."""
        ends = self.ends[self.values[value][1]]
        return ends[bisect_left(ends, first) : bisect_left(ends, first + size)]

    def _add_caller(self, line: int) -> None:
        for value, (writer, arena, first, size) in enumerate(self.values):
            if writer == 0:
                self.pieces[value] = {
                    at: self.program.add(1, (arena, at), ()) for at in self._ranges(value, first, size)
                }
        for number in range(1, len(self.program.stream) + 1):
            for action in ("Begin", "Write", "End"):
                self.path.add(line, action, step=number)

    def _add_steps(self, fields: dict[str, list[Any]]) -> None:
        """Add the steps of the module for those of the log, and the caller's last. Its first stream has number 1."""
        count = len(fields["stream"])
        given = list(range(1, len(self.program.stream) + 1))
        reads: list[list[Bytes]] = [[] for _ in range(count + 1)]
        for n, value, first, size in fields["reads"]:
            reads[n].append((value, first, size))
        written: list[list[int]] = [[] for _ in range(count + 1)]
        for value, row in enumerate(self.values):
            written[row[0]].append(value)
        earlier: list[set[int]] = [set() for _ in range(count)]
        for n, other in fields["waits"]:
            earlier[n].add(other)
        latest: dict[int, int] = {}
        for n, stream in enumerate(fields["stream"]):
            before = sorted({*earlier[n], *([latest[stream]] if stream in latest else [])})
            waits = [*given, *(member for k in before for member in self.groups[k].members)]
            self.groups.append(self._make_group(stream + 2, waits, reads[n], written[n + 1]))
            latest[stream] = n
        self.last = _Group(reads=self._find_tensors(reads[count]), is_done_reading=True)
        waits = [member for group in self.groups for member in group.members]
        self.last.reader = self.program.add(1, object(), waits, self.last.operands)

    def _find_tensors(self, reads: Sequence[Bytes]) -> dict[Bytes, list[int]]:
        """Return the tensors of the module that each read is of, each at its first read."""
        known: set[int] = set()
        found = {}
        for value, first, size in reads:
            tensors = [self.pieces[value][at] for at in self._ranges(value, first, size)]
            found[value, first, size] = [t for t in tensors if t not in known]
            known.update(tensors)
        return found

    def _make_group(self, stream: int, waits: list[int], reads: list[Bytes], written: list[int]) -> _Group:
        """Return the steps of the module that one step of the log is."""
        group = _Group(reads=self._find_tensors(reads))
        read = {self.program.slot[t - 1] for t in group.operands}
        ranges = [(value, self.values[value][1], at) for value in written
                  for at in self._ranges(value, *self.values[value][2:])]  # fmt: skip
        is_late = [self.program.find_slot((arena, at)) in read for _, arena, at in ranges]
        for late, members in ((False, group.parallel), (True, group.late)):
            if late:
                group.reader = self.program.add(stream, object(), waits, group.operands)
            for (value, arena, at), is_after in zip(ranges, is_late, strict=True):
                if is_after == late:
                    number = self.program.add(stream, (arena, at), waits, is_copy=True)
                    self.pieces.setdefault(value, {})[at] = number
                    group.writes.setdefault(value, []).append(number)
                    members.append(number)
        return group

    def _describe(self) -> None:
        """State the constants of the module, and its variables that stay as they are."""
        program, order = self.program, dict[int, int]()
        for stream in program.stream:
            order.setdefault(stream, len(order) + 1)
        self.path.constants = {
            "Count": str(len(program.stream)), "StreamCount": str(len(order)),
            "SlotCount": str(max(program.slot)),
        }  # fmt: skip
        self.path.given = {
            "stream": format_value([order[stream] for stream in program.stream]),
            "copies": _set(program.copies),
            "reads": _sets(program.reads),
            "waits": _sets(program.waits),
            "slot": format_value(program.slot),
        }

    def take(self, event: Event) -> None:
        """Add the steps of the module that an event is."""
        if event.kind == "streams closed":
            self._return(event.line)
            self._act(event.line, "Write", [self.last.reader])
            self._act(event.line, "End", [self.last.reader])
            self.path.ends(event.line)
            return
        step = event.fields["step"]
        if event.kind == "value read" and step == len(self.groups):
            self._return(event.line)
            self._read(event, self.last)
            return
        if step >= len(self.groups):
            raise WrongLog(event.line, f"there is no step {step}")
        group = self.groups[step]
        if event.kind == "step begun":
            self._act(event.line, "Begin", [*group.parallel, group.reader])
        elif event.kind == "value read":
            self._read(event, group)
        elif event.kind == "value written":
            if event.fields["value"] not in group.writes:
                raise WrongLog(event.line, "the step does not write this value")
            self._end_reading(event.line, group)
            self._act(event.line, "Write", group.writes[event.fields["value"]])
        else:
            self._end_reading(event.line, group)
            self._act(event.line, "End", [*group.parallel, *group.late])

    def _return(self, line: int) -> None:
        """Begin the caller's last step."""
        if not self.is_returning:
            self._act(line, "Begin", [self.last.reader])
            self.is_returning = True

    def _read(self, event: Event, group: _Group) -> None:
        value = event.fields["value"]
        key = value, event.fields["address"], event.fields["size"]
        if key not in group.reads:
            raise WrongLog(event.line, "the step does not read these bytes")
        for tensor in group.reads[key]:
            self.path.add(event.line, "Read", step=group.reader, tensor=tensor, is_own=event.fields["found"] == [value])

    def _end_reading(self, line: int, group: _Group) -> None:
        """End the part of a step that reads, and begin that which writes what was read."""
        if not group.is_done_reading:
            group.is_done_reading = True
            self._act(line, "Write", [group.reader])
            self._act(line, "End", [group.reader])
            self._act(line, "Begin", group.late)

    def _act(self, line: int, action: str, steps: Sequence[int]) -> None:
        for step in steps:
            self.path.add(line, action, step=step)


def _check(opened: Event) -> None:
    """Raise `WrongLog` if a row names a step or value that there is not, or is about bytes outside of its value."""
    steps, values = len(opened.fields["stream"]), opened.fields["values"]
    for step, other in opened.fields["waits"]:
        if not other < step < steps:
            raise WrongLog(opened.line, f"step {step} waits for step {other}, which is not an earlier one")
    if not values:
        raise WrongLog(opened.line, "no step accesses any bytes")
    if any(writer > steps for writer, *_ in values):
        raise WrongLog(opened.line, "a value is written by a step that there is not")
    for step, value, first, size in opened.fields["reads"]:
        if step > steps or value >= len(values) or values[value][0] > step:
            raise WrongLog(opened.line, f"step {step} reads value {value}, which no step before it writes")
        _, _, low, whole = values[value]
        if not low <= first <= first + size <= low + whole:
            raise WrongLog(opened.line, f"step {step} reads bytes outside of value {value}")


def _set(steps: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, steps)) + "}"


def _sets(rows: Sequence[Sequence[int]]) -> str:
    return "<<" + ", ".join(map(_set, rows)) + ">>"
