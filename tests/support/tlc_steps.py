"""The steps of a TLA+ module, as TLC takes them: all pairs of states under one configuration, with the action's name.

TLC dumps its graph of states; a sample of each action's steps is read, with every value as Python's: functions over
1..n and sequences are tuples, other functions are dictionaries, sets are frozensets, names are strings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

Value = Any
State = Mapping[str, Value]

TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|<<|>>|:>|@@|\|->|\.\.|-?\d+|\w+|[{}(),\[\]])')
NODE = re.compile(r'(-?\d+) \[label="((?:[^"\\]|\\.)*)"(,style = filled)?\]')
EDGE = re.compile(r'(-?\d+) -> (-?\d+) \[label="(\w+)"')


class Step(NamedTuple):
    """A step: the action that TLC names, the state before it and the one after."""

    action: str
    before: State
    after: State


class Steps(NamedTuple):
    """The first states of a module, and some steps of each of its actions."""

    first: list[State]
    taken: dict[str, list[Step]]


def at(function: Value, place: Value) -> Value:
    """The value of a function or sequence at one place."""
    return function[place - 1] if isinstance(function, tuple) else function[place]


def sample(dump: str, most: int) -> Steps:
    """Some steps of each action of TLC's dump of a graph."""
    labels: dict[str, str] = {}
    first: list[str] = []
    edges: dict[str, list[tuple[str, str]]] = {}
    for line in dump.splitlines():
        if edge := EDGE.match(line):
            edges.setdefault(edge[3], []).append((edge[1], edge[2]))
        elif node := NODE.match(line):
            labels[node[1]] = node[2]
            if node[3]:
                first.append(node[1])
    read: dict[str, State] = {}

    def state(node: str) -> State:
        return read.setdefault(node, state_of(labels[node]))

    taken = {
        action: [Step(action, state(a), state(b)) for a, b in spread(list(dict.fromkeys(pairs)), most)]
        for action, pairs in edges.items()
    }
    return Steps([state(node) for node in spread(first, most)], taken)


def spread(items: list[Any], most: int) -> list[Any]:
    """At most so many of the items, at even distances, the last one with them: a violation is what TLC ends with."""
    return items if len(items) <= most else [items[-1 - k * len(items) // most] for k in reversed(range(most))]


def state_of(label: str) -> State:
    r"""The variables of a state as TLC writes it.

    >>> state_of(r'/\\ a = <<1, {2}>>\n/\\ b = [x |-> TRUE, y |-> "z"]')
    {'a': (1, frozenset({2})), 'b': {'x': True, 'y': 'z'}}
    """
    text = label.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")
    parts = re.split(r"^/\\ ", f"\n{text}", flags=re.MULTILINE)[1:]
    return {name.strip(): value_of(rest) for name, rest in (part.split("=", 1) for part in parts)}


def value_of(text: str) -> Value:
    """A value of TLA+.

    >>> value_of("(<<0, 1>> :> 2 @@ <<1, 1>> :> {})")
    {(0, 1): 2, (1, 1): frozenset()}
    """
    tokens = TOKEN.findall(text)
    value, rest = _value(tokens, 0)
    if rest != len(tokens):
        raise ValueError(f"{text!r} goes on after its value")
    return value


def _value(tokens: list[str], k: int) -> tuple[Value, int]:
    token = tokens[k]
    if token.startswith('"'):
        return token[1:-1], k + 1
    if token.lstrip("-").isdecimal():
        if tokens[k + 1 : k + 2] == [".."]:
            return frozenset(range(int(token), int(tokens[k + 2]) + 1)), k + 3
        return int(token), k + 1
    if token in ("TRUE", "FALSE"):
        return token == "TRUE", k + 1
    if token in ("<<", "{"):
        items, k = _items(tokens, k + 1, {"<<": ">>", "{": "}"}[token])
        return (tuple(items) if token == "<<" else frozenset(items)), k
    if token == "[":
        record: dict[Value, Value] = {}
        k += 1
        while tokens[k] != "]":
            name = tokens[k]
            record[name], k = _value(tokens, k + 2)
            k += tokens[k] == ","
        return Record(record), k + 1
    if token == "(":
        function: dict[Value, Value] = {}
        k += 1
        while tokens[k] != ")":
            place, k = _value(tokens, k)
            function[place], k = _value(tokens, k + 1)
            k += tokens[k] == "@@"
        return Record(function), k + 1
    return token, k + 1


def _items(tokens: list[str], k: int, end: str) -> tuple[list[Value], int]:
    items = []
    while tokens[k] != end:
        value, k = _value(tokens, k)
        items.append(value)
        k += tokens[k] == ","
    return items, k + 1


class Record(dict[Any, Any]):
    """A function or a record, which may stand in a set."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))
