"""Read the streams of an ONNX model, which its metadata state: `tmmu.streams`, `tmmu.stream`, `tmmu.after` and so on.

The nodes keep the order of the file: each precedes the nodes that wait for it.
spec: X7.1, X7.2, X7.3, X7.4, X7.5, X7.6, X7.7
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable

import onnx

from tmmu.core.errors import TmmuError
from tmmu.core.output import suggest_names
from tmmu.core.streams import LANE, Lanes, StreamOrder
from tmmu.onnx.sizes import refuse
from tmmu.onnx.structure import GraphScope, Structure

PREFIX = "tmmu."
STREAMS, STREAM, AFTER, START, WAIT = (PREFIX + word for word in ("streams", "stream", "after", "start", "wait"))
OF_MODEL, OF_NODE = (STREAMS, WAIT), (STREAM, AFTER, START, WAIT)
MODEL = "the model"


def read_streams(model: onnx.ModelProto, found: Structure, constant: Container[str]) -> dict[str, StreamOrder]:
    """Return the stream of each node of the main graph that has a step, and its waits; empty if none are stated.

    Parameters
    ----------
    model, found
        The model and the scopes of its graph.
    constant
        The nodes that have no step.

    Raises
    ------
    TmmuError
        INVALID_IR, or LIVENESS_CYCLE for a wait for a node that is not earlier.

    Notes
    -----
    O(nodes + waits).
    """
    stated = _take_entries(model.metadata_props, MODEL, OF_MODEL)
    for scope in found.scopes[1:]:
        for name, node in zip(scope.ids, scope.nodes, strict=True):
            if _take_entries(node.metadata_props, f"node {name!r}", OF_NODE):
                what = "it is inside of a body, and states a stream or waits"
                raise _refuse(f"node {name!r}", what, "state them at the node that has the body")
    reader = _Reader(stated, found.main, constant)
    for name, node in zip(found.main.ids, found.main.nodes, strict=True):
        reader.add(name, node)
    return reader.end()


class _Reader:
    """The streams of the nodes so far: `started` has the lane of each operation, `open` those that nothing ended."""

    def __init__(self, stated: dict[str, str], main: GraphScope, constant: Container[str]) -> None:
        self.row = {name: n for n, name in enumerate(main.ids)}
        self.with_bodies, self.constant = main.bodies.keys(), constant
        self.streams = _read_list(stated, STREAMS, MODEL)
        self.ended_by_caller = _read_list(stated, WAIT, MODEL)
        if STREAMS in stated and not self.streams:
            raise _refuse(MODEL, f"{STREAMS} lists no stream", 'list one: ["main"]')
        for name in self.streams:
            if not name or "\0" in name or name.startswith(f"{LANE}/"):
                raise _refuse(MODEL, f"a stream cannot be named {name!r}", "rename the stream")
        if WAIT in stated and not self.streams:
            raise _refuse(MODEL, f"it states {WAIT} without {STREAMS}", f"list the streams in {STREAMS}")
        self.found: dict[str, StreamOrder] = {}
        self.last: dict[str, str] = {}
        self.lanes = Lanes()
        self.open: dict[str, str] = {}

    def add(self, name: str, node: onnx.NodeProto) -> None:
        """Add the next node of the main graph."""
        place = f"node {name!r}"
        stated = _take_entries(node.metadata_props, place, OF_NODE)
        if not self.streams:
            if stated:
                raise _refuse(place, f"it states {min(stated)}, and the model has no {STREAMS}", f"add {STREAMS}")
            return
        stream = stated.get(STREAM, self.streams[0])
        if stream not in self.streams:
            raise _refuse(
                place, f"unknown stream {stream!r}", suggest_names(stream, self.streams, f"add it to {STREAMS}")
            )
        after, ended = (_read_list(stated, key, place) for key in (AFTER, WAIT))
        for other in (*after, *ended):
            self.check_earlier(name, other)
        if stated.get(START, "true") != "true":
            raise _refuse(place, f"expected true as {START}, got {stated[START]!r}", "write true, or drop the entry")
        if START in stated and self.row[name] in self.with_bodies:
            raise _refuse(place, "a node with bodies is not asynchronous: nothing overlaps with it", f"drop {START}")
        if START in stated and ended:
            raise _refuse(place, f"it states {START} and {WAIT}", f"list {ended[0]!r} in {AFTER}")
        self.take_ended(place, ended, "" if name in self.constant else stream)
        waits = tuple(dict.fromkeys(other for other in (*after, *ended) if other not in self.constant))
        if START in stated:
            self.start(name, stream, waits)
        elif name not in self.constant:
            self.found[name], self.last[stream] = StreamOrder(stream, waits), name

    def check_earlier(self, name: str, other: str) -> None:
        """Check that a node which another one waits for is an earlier one of the main graph."""
        if other not in self.row:
            fix = suggest_names(other, list(self.row), "name nodes of the main graph")
            raise _refuse(f"node {name!r}", f"it waits for {other!r}, which is not a node of the main graph", fix)
        if self.row[other] >= self.row[name]:
            what = f"it waits for {other!r}, which is not earlier: waits must not form a cycle"
            raise refuse("LIVENESS_CYCLE", f"node {name!r}", what, "wait for an earlier node")

    def take_ended(self, place: str, ended: Iterable[str], stream: str) -> None:
        """End operations. Their lanes are free for a stream whose node waits for them, "" if none does."""
        for other in ended:
            if other not in self.open:
                what = f"it waits for {other!r}, which no {START} begins, or which was waited for before"
                raise _refuse(place, what, f"write {START} there, or list it in {AFTER}")
            lane = self.open.pop(other)
            if stream and lane:
                self.lanes.give_back(lane, stream)

    def start(self, name: str, stream: str, waits: tuple[str, ...]) -> None:
        """Begin an operation that a stream issues, on a lane if it has a step."""
        if name in self.constant:
            self.open[name] = ""
            return
        self.open[name] = self.lanes.take(stream)
        if stream in self.last and self.last[stream] not in waits:
            waits = (*waits, self.last[stream])
        self.found[name] = StreamOrder(self.open[name], waits)

    def end(self) -> dict[str, StreamOrder]:
        """Check that each operation is waited for, and return what was found."""
        for other in self.ended_by_caller:
            if other not in self.row:
                fix = suggest_names(other, list(self.row), "name nodes of the main graph")
                raise _refuse(MODEL, f"it waits for {other!r}, which is not a node of the main graph", fix)
        self.take_ended(MODEL, self.ended_by_caller, "")
        for name in self.open:
            what = f"it states {START}, and nothing waits for it"
            raise _refuse(f"node {name!r}", what, f"list it in {WAIT} of a later node or of the model")
        return self.found


def _take_entries(entries: Iterable[onnx.StringStringEntryProto], place: str, known: tuple[str, ...]) -> dict[str, str]:
    """Return the entries whose keys begin with the prefix, each known and there once."""
    found: dict[str, str] = {}
    for entry in entries:
        key = entry.key
        if not isinstance(key, str) or not isinstance(entry.value, str):
            raise _refuse(place, "its metadata are not UTF-8", "write them again")
        if not key.startswith(PREFIX):
            continue
        if key not in known:
            raise _refuse(place, f"unknown metadata {key!r}", suggest_names(key, known, f"use {', '.join(known)}"))
        if key in found:
            raise _refuse(place, f"its metadata state {key} twice", "state it once")
        found[key] = entry.value
    return found


def _read_list(stated: dict[str, str], key: str, place: str) -> tuple[str, ...]:
    """Return the names that an entry lists, each once; none if there is no such entry."""
    try:
        names = json.loads(stated.get(key, "[]"))
        "".join(names).encode()
    except (ValueError, TypeError, RecursionError):
        names = None
    if not isinstance(names, list) or len(set(names)) != len(names):
        what = f"expected a JSON list of different names as {key}, got {stated[key][:100]!r}"
        raise _refuse(place, what, 'write for example ["first", "second"]')
    return tuple(names)


def _refuse(place: str, what: str, fix: str) -> TmmuError:
    return refuse("INVALID_IR", place, what, fix)
