"""Smaller problems than a given one: a buffer or a node less, a shorter live range, fewer bytes.

What is smaller is a problem of the same kind: a model that validates, and sizes with a divisor of all that were drawn.
The most useful ones come first. spec: TP2.12, TP3.6
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from proofs.readers.models.ir import read_ir
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, Body, Model, Node, Tensor
from tmmu.ir.validate import validate_model
from tmmu.testing.buffer import TimedBuffer

if TYPE_CHECKING:
    import networkx


def smaller_buffers(buffers: Sequence[TimedBuffer], unit: int) -> Iterator[list[TimedBuffer]]:
    """Yield buffers without one, then with fewer marks, shorter ranges and fewer bytes of one. One is left at least.

    Sizes become multiples of `unit`.
    """
    listed = list(buffers)
    for k in range(len(listed)) if len(listed) > 1 else ():
        fewer = listed[:k] + listed[k + 1 :]
        new = _renumber([b.name for b in fewer], "b")
        yield from ([replace(b, name=new[b.name]) for b in fewer], fewer)
    steps = sorted({step for b in listed for step in (b.first, b.last, *(s for gap in b.gaps for s in gap))})
    if steps != list(range(len(steps))) and not any(b.gaps for b in listed):
        rank = {step: k for k, step in enumerate(steps)}
        yield [replace(b, first=rank[b.first], last=rank[b.last]) for b in listed]
    for k, b in enumerate(listed):
        simpler = [replace(b, gaps=())] if b.gaps else []
        simpler += [replace(b, offset=None)] if b.offset is not None else []
        simpler += [replace(b, alignment=1)] if b.alignment > 1 and b.offset is None else []
        if b.first < b.last and not b.gaps:
            shorter = dict.fromkeys(
                ((b.first, b.first), (b.last, b.last), (b.first, b.last - 1), (b.first + 1, b.last))
            )
            simpler += [replace(b, first=first, last=last) for first, last in shorter]
        if b.offset is None:
            simpler += [replace(b, bytes=size) for size in smaller_sizes(b.bytes, unit)]
        yield from ([*listed[:k], each, *listed[k + 1 :]] for each in simpler)
    if {*_renumber([b.name for b in listed], "b").values()} == {f"b{k}" for k in range(len(listed))}:
        yield [replace(b, name=f"b{k}") for k, b in enumerate(listed)]


def _renumber(names: Sequence[str], letter: str) -> dict[str, str]:
    """Return a new name for each: as the strategies name them, in the order of their numbers; others stay.

    >>> _renumber(["b7", "b2"], "b")
    {'b2': 'b0', 'b7': 'b1'}
    """
    if not all(name[:1] == letter and name[1:].isdecimal() for name in names):
        return {name: name for name in names}
    return {name: f"{letter}{k}" for k, name in enumerate(sorted(names, key=lambda name: int(name[1:])))}


def smaller_sizes(size: int, unit: int) -> Iterator[int]:
    """Yield multiples of a unit below a size: the unit, half of the way to it, three quarters, and so on.

    >>> list(smaller_sizes(64, 8))
    [8, 40, 56]
    """
    if unit and size > unit:
        rest = (size - unit) // unit
        yield from dict.fromkeys(size - (rest >> k or 1) * unit for k in range(rest.bit_length()))


def smaller_dags(dag: networkx.DiGraph, unit: int) -> Iterator[networkx.DiGraph]:
    """Yield a graph without a node, without an edge, with a result that is no output, and with fewer bytes of one."""
    import networkx

    if len(dag) > 1:
        for node in reversed(list(dag)):
            yield _copy_without(dag, nodes=[node])
    for edge in dag.edges:
        yield _copy_without(dag, edges=[edge])
    for node, stated in dag.nodes(data=True):
        simpler: list[dict[str, int]] = [{"output": False}] if stated.get("output") else []
        simpler += [{"alignment": 1}] if stated.get("alignment", 1) > 1 else []
        simpler += [{"bytes": size} for size in smaller_sizes(stated["bytes"], unit)]
        for changed in simpler:
            smaller = dag.copy()
            smaller.nodes[node].update(changed)
            yield smaller
    yield networkx.relabel_nodes(dag, _renumber(list(dag), "t"))


def _copy_without(
    dag: networkx.DiGraph, nodes: Collection[str] = (), edges: Collection[tuple[str, str]] = ()
) -> networkx.DiGraph:
    smaller = dag.copy()
    smaller.remove_nodes_from(nodes)
    smaller.remove_edges_from(edges)
    return smaller


def models_without_an_end(model: Model) -> Iterator[Model]:
    """Yield a model without one of its last nodes: one whose results no other node reads. Bodies go with their node.

    What is left runs the same steps but one, so that no tensor is needed for longer. The first node stays: what the
    caller writes and no node reads is live in the first step, whichever that is.
    """
    for n in reversed(range(1, len(model.nodes))):
        gone = _nodes_within(model, n)
        made = {t for k in gone for t in model.nodes[k].made}
        made |= {t for body in model.bodies if body.owner in gone for t in body.inputs}
        used = {t for k, node in enumerate(model.nodes) if k not in gone for t in (*node.reads, *node.writes)}
        used |= {t for body in model.bodies[1:] if body.owner not in gone for t in body.outputs}
        used |= {each.view.base for t, each in enumerate(model.tensors) if each.view is not None and t not in made}
        if not made & used:
            yield from _valid(_without(model, gone, made))


def smaller_models(model: Model) -> Iterator[Model]:
    """Yield models without a node and what depends on it, a read, an output, an unused tensor, or without a body.

    A body that is left out leaves its nodes behind, in the body around it.
    """
    for n in reversed(range(len(model.nodes))):
        gone, made = _dependents(model, _nodes_within(model, n))
        if len(gone) < len(model.nodes):
            yield from _valid(_without(model, gone, made))
    for n, node in enumerate(model.nodes):
        bases = {each.view.base for t in node.made if (each := model.tensors[t]).view is not None}
        for t in dict.fromkeys(node.reads):
            if t not in bases and t not in node.mutates:
                reads = tuple(read for read in node.reads if read != t)
                hints = tuple(pair for pair in node.in_place if pair[1] != t)
                yield from _valid(_with_node(model, n, replace(node, reads=reads, in_place=hints)))
        if node.in_place:
            yield from _valid(_with_node(model, n, replace(node, in_place=())))
    for b, body in enumerate(model.bodies):
        for t in dict.fromkeys(body.outputs):
            changed = replace(body, outputs=tuple(output for output in body.outputs if output != t))
            yield from _valid(replace(model, bodies=(*model.bodies[:b], changed, *model.bodies[b + 1 :])))
    used = {t for node in model.nodes for t in (*node.reads, *node.mutates)} | {
        t for b in model.bodies for t in b.outputs
    }
    used |= {each.view.base for each in model.tensors if each.view is not None}
    alone = {node.made[0] for node in model.nodes if len(node.made) == 1}
    for t in range(len(model.tensors)):
        if t not in used | alone:
            yield from _valid(_without(model, set(), {t}))
    for n in dict.fromkeys(body.owner for body in model.bodies[1:]):
        inside = {*model.nodes[n].made, *(t for body in model.bodies if body.owner == n for t in body.inputs)}
        read = {t for k, node in enumerate(model.nodes) if k != n for t in (*node.reads, *node.mutates)}
        read |= {t for body in model.bodies if body.owner != n for t in body.outputs}
        if not inside & read:
            yield from _valid(_without(_opened(model, n), {n}, inside))


def _nodes_within(model: Model, n: int) -> set[int]:
    """Return a node and all nodes in its bodies, which follow it."""
    found = {n}
    for k, node in enumerate(model.nodes):
        if node.body != MAIN and model.bodies[node.body].owner in found:
            found.add(k)
    return found


def _dependents(model: Model, gone: set[int]) -> tuple[set[int], set[int]]:
    """Return nodes with those that change or show what they make, and the tensors that all of them make."""
    made: set[int] = set()
    for _ in model.nodes:
        made = {t for k in gone for t in model.nodes[k].made}
        made |= {t for body in model.bodies if body.owner in gone for t in body.inputs}
        more = {
            k for k, node in enumerate(model.nodes)
            if k not in gone
            and (made & {*node.mutates} or any((v := model.tensors[t].view) and v.base in made for t in node.made))
        }  # fmt: skip
        if not more:
            break
        gone = gone.union(*(_nodes_within(model, k) for k in more))
    return gone, made


def _with_node(model: Model, n: int, node: Node) -> Model:
    return replace(model, nodes=(*model.nodes[:n], node, *model.nodes[n + 1 :]))


def _opened(model: Model, n: int) -> Model:
    """Return a model whose nodes in the bodies of a node are in the body around it."""
    within = {b for b, body in enumerate(model.bodies) if body.owner == n}
    around = model.nodes[n].body
    return replace(
        model, nodes=tuple(replace(node, body=around) if node.body in within else node for node in model.nodes)
    )


def _without(model: Model, gone: Collection[int], lost: Collection[int]) -> Model:
    """Return a model without some nodes, their bodies and some tensors, and all that refers to them."""
    tensors = [t for t in range(len(model.tensors)) if t not in lost]
    nodes = [n for n in range(len(model.nodes)) if n not in gone]
    bodies = [b for b, body in enumerate(model.bodies) if body.owner not in gone]
    row, place, number = ({old: new for new, old in enumerate(kept)} for kept in (tensors, nodes, bodies))

    def kept(listed: Sequence[int]) -> tuple[int, ...]:
        return tuple(row[t] for t in listed if t in row)

    def pairs(listed: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        return tuple((row[a], row[b]) for a, b in listed if a in row and b in row)

    def body(b: int) -> Body:
        found = model.bodies[b]
        owner = place.get(found.owner, -1)
        return replace(found, owner=owner, inputs=kept(found.inputs), outputs=kept(found.outputs))

    def tensor(t: int) -> Tensor:
        found = model.tensors[t]
        view = None if found.view is None else found.view._replace(base=row.get(found.view.base, -1))
        return replace(found, view=view, alias_group=found.alias_group if groups[found.alias_group] > 1 else None)

    names = {model.tensors[t].name for t in tensors}
    groups = Counter(model.tensors[t].alias_group for t in tensors)
    return replace(
        model,
        tensors=tuple(map(tensor, tensors)),
        nodes=tuple(
            replace(
                node, reads=kept(node.reads), writes=kept(node.writes), mutates=kept(node.mutates),
                in_place=pairs(node.in_place), body=number[node.body],
            ) for node in (model.nodes[n] for n in nodes)
        ),
        bodies=tuple(map(body, bodies)),
        must_not_alias=pairs(model.must_not_alias),
        bindings=replace(model.bindings, donated=tuple(name for name in model.bindings.donated if name in names)),
    )  # fmt: skip


def _valid(model: Model) -> Iterator[Model]:
    """Yield a model if it is one that the verifier reads."""
    if any(each.view is not None and each.view.base < 0 for each in model.tensors):
        return
    try:
        validate_model(model)
        read_ir(model)
    except TmmuError:
        return
    yield model
