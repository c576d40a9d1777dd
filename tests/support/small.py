"""Small models written as text, a line a node: for tests that need one example.

Every tensor has 64 bytes unless a test says otherwise, and every name stands where a reader looks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tmmu.core.dtypes import most_bytes
from tmmu.core.vocabulary import MAIN, Bindings, Body, Model, Node, Role, Tensor, View


def small(
    *lines: str,
    inputs: str = "x",
    outputs: str = "y",
    parameters: str = "",
    sizes: Mapping[str, int] | None = None,
    views: Mapping[str, tuple[str, int]] | None = None,
    like: Mapping[str, Mapping[str, Any]] | None = None,
    nodes: Mapping[str, Mapping[str, Any]] | None = None,
    must_not_alias: Sequence[tuple[str, str]] = (),
    donated: Sequence[str] = (),
) -> Model:
    """The model of `lines`, each `name: reads -> writes`, whose operator is the name without digits, capitalized.

    A write `y(x)` is a hint that `y` may take the bytes of `x`, `!x` a mutation of `x`. A line
    `owner/attribute: formals => results` begins a body, with `*` after the attribute where it iterates; the lines of
    a body are indented by two spaces more than its owner. `like` and `nodes` give further fields of single tensors
    and nodes, `views` the base and the first byte of a window.

    >>> model = small("relu: x -> a", "add: a x -> y(a)")
    >>> [t.name for t in model.tensors], model.nodes[1].in_place
    (['x', 'a', 'y'], ((2, 1),))
    """
    rows = {name: row for row, name in enumerate(dict.fromkeys((inputs + " " + parameters).split()))}
    made: list[Node] = []
    bodies = [Body(-1, "", (), ())]
    open_bodies = [MAIN]

    def tensors_of(text: str) -> tuple[int, ...]:
        return tuple(rows.setdefault(name, len(rows)) for name in text.split())

    results: dict[int, str] = {}
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        head, _, accesses = line.strip().partition(": ")
        if "=>" in accesses:
            owner, _, attribute = head.rpartition("/")
            formals, _, results[len(bodies)] = accesses.partition("=>")
            rank = next(i for i, node in enumerate(made) if node.name == owner)
            del open_bodies[depth + 1 :]
            open_bodies.append(len(bodies))
            bodies.append(Body(rank, attribute.rstrip("*"), tensors_of(formals), (), attribute.endswith("*")))
            continue
        reads, _, writes = accesses.partition("->")
        read = tensors_of(reads)
        written: list[int] = []
        hints: list[tuple[int, int]] = []
        mutated: list[int] = []
        for word in writes.split():
            name, _, operand = word.rstrip(")").partition("(")
            written += tensors_of(name.lstrip("!"))
            if operand:
                hints.append((written[-1], tensors_of(operand)[0]))
            if name.startswith("!"):
                mutated.append(written[-1])
        op = head.rstrip("0123456789").capitalize()
        node = Node(head, op, read, tuple(written), "", open_bodies[depth], tuple(hints), tuple(mutated))
        made.append(replace(node, **(nodes or {}).get(head, {})))
    bodies = [replace(body, outputs=tensors_of(results.get(b, ""))) for b, body in enumerate(bodies)]
    bodies[MAIN] = Body(-1, "", tensors_of(inputs), tensors_of(outputs))
    roles = dict.fromkeys(parameters.split(), Role.PARAMETER) | dict.fromkeys(inputs.split(), Role.INPUT)
    tensors = []
    for name in rows:
        role = roles.get(name, Role.ACTIVATION)
        fields: dict[str, Any] = {"shape": ((sizes or {}).get(name, 64),), "dtype": "uint8", "role": role}
        fields |= (like or {}).get(name, {})
        if "bytes" not in fields:
            fields["bytes"] = most_bytes(fields["shape"], fields["dtype"])
        tensors.append(Tensor(name, **fields))
    for name, (base, offset) in (views or {}).items():
        t = rows[name]
        tensors[t] = replace(tensors[t], view=View(rows[base], offset, tensors[t].bytes))
    return Model(
        "small", tuple(tensors), tuple(made), tuple(bodies), tuple((rows[a], rows[b]) for a, b in must_not_alias),
        bindings=Bindings(donated=tuple(donated)),
    )  # fmt: skip
