"""Read the streams that the metadata of an ONNX model state, independently of the importer.

First all entries are collected and the operations paired with what waits for them. Then the streams follow from the
nodes that have a step, in the order of the file. spec: X7.1, X7.2, X7.3, X7.4, X7.5, X7.6, X7.7
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto, StringStringEntryProto

from proofs.readers.models.onnx_graph import bodies_of, node_names
from tmmu.core.errors import TmmuError
from tmmu.core.streams import StreamOrder

KEYS = {"model": ("tmmu.streams", "tmmu.wait"), "node": ("tmmu.stream", "tmmu.after", "tmmu.start", "tmmu.wait")}


@dataclass(frozen=True)
class _Stated:
    """The stream of a node, the nodes that it waits for, and the operations among them that it ends."""

    stream: str
    waits: tuple[str, ...]
    ends: tuple[str, ...]
    is_asynchronous: bool


def read_stream_orders(model: ModelProto, run: Collection[str]) -> dict[str, StreamOrder]:
    """Return the stream and the waits of each node of the main graph that is in `run`, in the order of the file.

    It is empty if the model states no streams. Raises INVALID_IR, or LIVENESS_CYCLE for a wait for a node that is not
    earlier. O(nodes + waits).
    """
    names = node_names(model.graph, "")
    of_model = _entries(model.metadata_props, "model", "the model")
    for inner, name in _inner_nodes(model.graph, names):
        if _entries(inner.metadata_props, "node", name):
            raise _invalid("streams inside of a body are not supported", name)
    streams = _names_of(of_model, "tmmu.streams", "the model")
    for stream in streams:
        if stream == "" or "\0" in stream or stream.startswith("async/"):
            raise _invalid(f"{stream!r} cannot be the name of a stream", "the model")
    if not streams and of_model:
        raise _invalid("the list of streams is empty or absent", "the model")
    stated: dict[str, _Stated] = {}
    for name, node in zip(names, model.graph.node, strict=True):
        entries = _entries(node.metadata_props, "node", name)
        if entries and not streams:
            raise _invalid("the node states a stream or waits, and the model lists no streams", name)
        if streams:
            stated[name] = _read_node(entries, name, streams)
            if stated[name].is_asynchronous and bodies_of(node):
                raise _invalid("an asynchronous operation has bodies", name)
    returned = _names_of(of_model, "tmmu.wait", "the model")
    _check_waits(stated, returned)
    return dict(_orders({name: node for name, node in stated.items() if name in run}))


def _read_node(entries: dict[str, str], name: str, streams: tuple[str, ...]) -> _Stated:
    stream = entries.get("tmmu.stream", streams[0])
    if stream not in streams:
        raise _invalid(f"its stream {stream!r} is not listed", name)
    if entries.get("tmmu.start") not in (None, "true"):
        raise _invalid("tmmu.start has a value other than true", name)
    ends = _names_of(entries, "tmmu.wait", name)
    if ends and "tmmu.start" in entries:
        raise _invalid("an asynchronous operation cannot end another one", name)
    waits = dict.fromkeys((*_names_of(entries, "tmmu.after", name), *ends))
    return _Stated(stream, tuple(waits), ends, "tmmu.start" in entries)


def _check_waits(stated: dict[str, _Stated], returned: tuple[str, ...]) -> None:
    """Check that each wait is for an earlier node, and that each operation is ended once, by a node or the caller."""
    earlier: set[str] = set()
    running: set[str] = set()
    for name, node in stated.items():
        for other in node.waits:
            if other not in stated:
                raise _invalid(f"it waits for {other!r}, which is not a node of the main graph", name)
            if other not in earlier:
                what = f"it waits for {other!r}, which does not precede it"
                raise TmmuError("LIVENESS_CYCLE", what, place=name, node_id=name)
        _end(running, node.ends, name)
        earlier.add(name)
        if node.is_asynchronous:
            running.add(name)
    _end(running, returned, "the model")
    for name in stated:
        if name in running:
            raise _invalid("nothing waits for the end of this operation", name)


def _end(running: set[str], ends: Iterable[str], place: str) -> None:
    for other in ends:
        if other not in running:
            raise _invalid(f"it ends {other!r}, which is not an operation that runs then", place)
        running.remove(other)


def _orders(stated: dict[str, _Stated]) -> Iterator[tuple[str, StreamOrder]]:
    """Yield the stream of each node, and its waits. Lanes are numbered in the order of their first operations."""
    lanes = 0
    lane: dict[str, str] = {}
    idle: dict[str, list[str]] = {}
    latest: dict[str, str] = {}
    for name, node in stated.items():
        waits = [other for other in node.waits if other in stated]
        idle.setdefault(node.stream, []).extend(lane[other] for other in node.ends if other in lane)
        if not node.is_asynchronous:
            latest[node.stream] = name
            yield name, StreamOrder(node.stream, tuple(waits))
            continue
        if idle[node.stream]:
            lane[name] = idle[node.stream].pop()
        else:
            lane[name], lanes = f"async/{lanes}", lanes + 1
        before = [latest[node.stream]] if node.stream in latest else []
        yield name, StreamOrder(lane[name], tuple(dict.fromkeys((*waits, *before))))


def _inner_nodes(graph: GraphProto, names: list[str]) -> Iterator[tuple[NodeProto, str]]:
    """Yield the nodes inside of bodies, each with the name of the node of the main graph that has it."""
    work = [(body, name) for node, name in zip(graph.node, names, strict=True) for _, body in bodies_of(node)]
    while work:
        body, name = work.pop()
        for node in body.node:
            yield node, name
            work.extend((inner, name) for _, inner in bodies_of(node))


def _entries(metadata: Iterable[StringStringEntryProto], kind: str, place: str) -> dict[str, str]:
    """Return the entries whose keys begin with `tmmu.`: of the known ones, each at most once."""
    found: dict[str, str] = {}
    for entry in metadata:
        if not isinstance(entry.key, str) or not isinstance(entry.value, str):
            raise _invalid("a key or value of its metadata is not UTF-8", place)
        if entry.key.startswith("tmmu."):
            if entry.key not in KEYS[kind] or entry.key in found:
                raise _invalid(f"the metadata {entry.key!r} are unknown, or there twice", place)
            found[entry.key] = entry.value
    return found


def _names_of(entries: dict[str, str], key: str, place: str) -> tuple[str, ...]:
    """Return the list of different names that an entry states in JSON."""
    if key not in entries:
        return ()
    wrong = _invalid(f"{key} is not a JSON list of different names", place)
    try:
        names = json.loads(entries[key])
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise wrong
    if len(set(names)) < len(names) or any("\ud800" <= letter <= "\udfff" for name in names for letter in name):
        raise wrong
    return tuple(names)


def _invalid(what: str, place: str) -> TmmuError:
    return TmmuError("INVALID_IR", what, place=place, node_id=place)
