"""Read the streams of steps from text: `on STREAM`, `after STEPS`, and asynchronous operations with `start` and `wait`.

Text plans and text models state them in the same words. An asynchronous operation becomes a step on a stream of its
own, a *lane*, which waits for the last step before it on the stream that issues it. A lane is used again when an
operation is issued after the wait for its last one on the same stream: this adds no order that is not there already.
spec: X2.10, X2.12, X2.13, X3.11, X5.8
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from tmmu.core.statements import TextLine

WAIT = "tmmu.streams", "Wait"
"""The operator of a step that accesses nothing and waits for an asynchronous operation."""
ORDER_WORDS = ("on", "after")
LANE = "async"
"""Lanes are named `async/0`, `async/1` and so on."""


class StreamOrder(NamedTuple):
    """The stream of a step, or "" if none is stated, and the names of the steps that it waits for directly."""

    stream: str = ""
    after: tuple[str, ...] = ()


class Lanes:
    """Streams for one operation at a time, such as asynchronous ones: `async/0` and so on. spec: X5.8"""

    def __init__(self, kind: str = LANE) -> None:
        self.kind = kind
        self.names: set[str] = set()
        self._free: dict[str, list[str]] = {}

    def take(self, stream: str, others: Container[str] = ()) -> str:
        """Return a lane for an operation that a stream issues, other than the streams of the names `others`."""
        free = self._free.get(stream)
        lane = free.pop() if free else next(
            name for name in (f"{self.kind}/{k}" for k in count(len(self.names))) if name not in others
        )  # fmt: skip
        self.names.add(lane)
        return lane

    def give_back(self, lane: str, stream: str) -> None:
        """State that a stream has waited for the operation of a lane, so that it may issue the next one there."""
        self._free.setdefault(stream, []).append(lane)


class _Operation(NamedTuple):
    """An asynchronous operation that no step has waited for yet: its lane and its line."""

    lane: str
    line: TextLine


class StreamReader:
    """The streams of a text so far; each method reads what follows the accesses on a line and checks it.

    `step` is the word that begins lines of steps, for messages.
    """

    def __init__(self, step: str) -> None:
        self._step = step
        self._is_stated: bool | None = None
        self._last: dict[str, str] = {}
        self._open: dict[str, _Operation] = {}
        self._ended: dict[str, str] = {}
        self._lanes = Lanes()

    def take_word(self, statement: TextLine, word: str, found: StreamOrder) -> StreamOrder:
        """Take what follows the word `on` or `after`."""
        if word == "on":
            return found._replace(stream=self._take_stream(statement))
        return found._replace(after=_take_steps(statement, self._step))

    def add(self, statement: TextLine, name: str, found: StreamOrder) -> StreamOrder:
        """Add the next step outside of bodies, and return its stream and waits. spec: X2.10"""
        if found.after and not found.stream:
            raise statement.refuse("expected on STREAM beside after, got no stream", "write on STREAM before after")
        is_stated = bool(found.stream)
        if self._is_stated not in (None, is_stated):
            what = f"this {self._step} states {'a' if is_stated else 'no'} stream, and others do {'not' * is_stated}"
            raise statement.refuse(what.rstrip(), f"write on STREAM for each {self._step}, or for none")
        self._is_stated = is_stated
        if is_stated:
            self._last[found.stream] = name
        return found

    def refuse_inside(self, statement: TextLine, found: StreamOrder) -> None:
        """Refuse streams inside of a body. spec: X5.5"""
        if found != StreamOrder():
            what = "streams inside of a body are not supported: its steps run on the stream of its node"
            raise statement.refuse(what, "drop on and after here")

    def start(self, statement: TextLine, name: str, found: StreamOrder) -> StreamOrder:
        """Add an asynchronous operation that a stream issues: it has a lane, and waits for that stream's last step."""
        if not found.stream:
            raise statement.refuse("expected on STREAM, the stream that issues the operation", "write on STREAM")
        if self._is_stated is False:
            raise statement.refuse("other lines state no stream", f"write on STREAM for each {self._step}")
        self._is_stated = True
        lane = self._lanes.take(found.stream, self._last)
        self._open[name] = _Operation(lane, statement)
        last = self._last.get(found.stream)
        after = found.after if last is None or last in found.after else (*found.after, last)
        return StreamOrder(lane, after)

    def take_started(self, statement: TextLine) -> str:
        """Take the name of the operation that a `wait` ends. spec: X2.12"""
        name = statement.name("a started operation")
        if name in self._ended:
            raise statement.refuse(
                f"{self._ended[name]!r} waits for {name!r} already", f"write after {name} on the {self._step}"
            )
        if name not in self._open:
            raise statement.refuse(f"wait for {name!r}, which no start before it begins", f"write start {name} …")
        return name

    def wait(self, statement: TextLine, name: str, started: str, found: StreamOrder) -> StreamOrder:
        """Add the step that waits for an operation."""
        if not found.stream:
            raise statement.refuse("expected on STREAM, the stream that waits", "write on STREAM")
        lane = self._open.pop(started).lane
        self._ended[started] = name
        self._lanes.give_back(lane, found.stream)
        return self.add(statement, name, StreamOrder(found.stream, (*found.after, started)))

    def end(self) -> None:
        """Check that a step waits for each asynchronous operation. spec: X2.12"""
        for name, operation in self._open.items():
            raise operation.line.refuse(
                f"{name!r} is started, and no step waits for it", f"write wait NAME {name} on STREAM", 0
            )

    def _take_stream(self, statement: TextLine) -> str:
        stream = statement.name("a stream")
        if stream in self._lanes.names:
            raise statement.refuse(f"{stream!r} is the stream of an asynchronous operation", "rename the stream")
        return stream


def _take_steps(statement: TextLine, step: str) -> tuple[str, ...]:
    """Take one name or several, each once."""
    found: dict[str, None] = {}
    while statement.peek() is not None and not statement.at_word():
        name = statement.name(f"a {step}")
        if name in found:
            raise statement.refuse(f"{name!r} is listed twice", "list it once")
        found[name] = None
    if not found:
        raise statement.refuse(f"expected a {step} after after, got none", None, statement.mark)
    return tuple(found)


def find_rows(
    statement: TextLine, names: tuple[str, ...], rows: Mapping[str, int], lines: Sequence[TextLine]
) -> list[int]:  # fmt: skip
    """Return the rows of `names`; `rows` has the steps that end on earlier lines, and `lines` are those of all steps.

    spec: X2.11
    """
    for name in names:
        if name not in rows and any(line.declared == name for line in lines):
            what = f"it waits for {name!r}, which is not earlier: events must not form a cycle"
            raise statement.refuse(what, "wait for an earlier step, or state that step before this one")
        if name not in rows:
            raise statement.refuse(f"no line declares the step {name!r}", f"add one: step {name} …")
    return [rows[name] for name in names]
