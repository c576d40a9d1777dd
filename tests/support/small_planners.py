"""Small planners with one fault each, such as people write: first fit over buffers, and over the tensors of a model.

`plan_buffers` and `plan_model` are right without a fault. A fault is a word that changes one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import networkx

from tmmu.core.alignment import align_up
from tmmu.core.vocabulary import MAIN, Model, Role
from tmmu.ir.graph import Graph
from tmmu.testing.buffer import Buffer

OF_BUFFERS = {
    "half-open": "ranges that touch count as apart",
    "sorted": "buffers are taken to come in the order of their first steps",
    "align-after": "offsets are rounded up after packing",
    "align-down": "offsets are rounded down",
    "zero": "a buffer of no bytes takes the place of the one at its offset",
    "32-bit": "ends are computed in 32 bits",
    "31-bit": "a negative 32-bit end counts as free",
    "double": "ends are floating-point numbers",
    "tie": "buffers of one size and range are one",
    "hole": "a hole that is one byte too small is taken",
    "neighbour": "a buffer is compared with the one placed last",
    "table": "of those placed, only two are remembered",
    "gaps": "a buffer with a gap is free after it",
    "fixed": "fixed offsets are ignored",
    "fixed-last": "fixed buffers are placed after the others have their place",
    "forgotten": "the last buffer has no offset",
    "one-step": "a buffer of one step is never live",
    "state": "a call begins where the one before ended",
    "stated": "the stated footprint leaves out the highest buffer",
    "unit": "offsets are in units of 64 bytes for large buffers",
}  # fmt: skip
OF_CAPACITY = {"capacity": "one byte more is accepted", "full": "a capacity that is filled is refused"}
OF_MODELS = {
    "first-reader": "a tensor is free after its first reader",
    "dead": "a result that nothing reads is never live",
    "output": "an output is free after its last reader",
    "in-place-output": "a result takes the bytes of an output",
    "in-place-read": "a result takes the bytes of an operand that is read later",
    "operand": "a result may have the bytes of any operand",
    "branch": "readers inside a branch do not count",
    "loop": "what a loop reads is free after the reader inside, though it runs again",
    "parameter": "a parameter is free after its last reader",
    "view": "a base is free after its own last reader, whatever reads its views",
    "input": "inputs are live from their first reader on",
}  # fmt: skip


def plan_buffers(buffers: Sequence[Buffer], fault: str = "", capacity: int | None = None) -> Any:
    """First fit by size, with a fault."""
    found: dict[str, int] = {}
    placed: dict[Any, tuple[int, int, Buffer]] = {
        b.name: (b.offset, b.offset + b.bytes, b)
        for b in buffers
        if b.offset is not None and not fault.startswith("fixed")
    }
    order = list(buffers) if fault == "sorted" else sorted(buffers, key=lambda b: -b.bytes)
    for b in order:
        if b.name in placed:
            found[b.name] = placed[b.name][0]
            continue
        found[b.name] = at = _lowest(b, list(placed.values()), fault)
        if fault == "fixed-last" and b.offset is not None:
            found[b.name] = at = b.offset
        key = at if fault == "zero" else (b.bytes, b.first, b.last) if fault == "tie" else b.name
        placed[key] = at, at + b.bytes, b
        if fault == "tie":
            found[b.name] = placed[key][0]
    if fault == "align-after":
        found = {b.name: align_up(found[b.name], b.alignment) for b in buffers}
    if fault == "forgotten" and buffers:
        del found[buffers[-1].name]
    if fault == "state":
        _calls.append(1)
        found = {name: at + (len(_calls) > 40) * 64 for name, at in found.items()}
    height = max((found[b.name] + b.bytes for b in buffers if b.name in found), default=0)
    limit = None if capacity is None else capacity + (fault == "capacity") - (fault == "full")
    if limit is not None and height > limit:
        raise MemoryError(f"{height} bytes, of {capacity}")
    if fault == "stated":
        heights = sorted(found[b.name] + b.bytes for b in buffers)
        return found, heights[-2] if len(heights) > 1 else height
    return found


_calls: list[int] = []


def _lowest(b: Buffer, placed: list[tuple[int, int, Buffer]], fault: str) -> int:
    at = 0
    around = placed[-1:] if fault == "neighbour" else placed[-2:] if fault == "table" else placed
    for low, end, other in sorted(around, key=lambda each: each[:2]):
        if fault == "sorted" and other.last < b.first:
            continue
        if fault == "sorted" and other.first > b.first:
            continue
        if not _are_live_together(b, other, fault):
            continue
        if fault == "32-bit":
            end &= 0xFFFF_FFFF
        end = int(float(end)) if fault == "double" else end
        if fault == "31-bit" and end >= 1 << 31:
            end = low
        if low + (fault == "hole") < at + b.bytes and at < end:
            at = end if fault == "align-after" else align_up(end, b.alignment)
            at -= end % b.alignment and b.alignment if fault == "align-down" else 0
            at = at // 64 * 64 if fault == "unit" and at >= 4096 else at
    return at


def _are_live_together(one: Buffer, other: Buffer, fault: str) -> bool:
    if fault == "half-open":
        return one.first < other.last and other.first < one.last
    if fault == "one-step" and one.first == one.last:
        return False
    pieces = [b.pieces()[:1] if fault == "gaps" else b.pieces() for b in (one, other)]
    return any(a <= d and c <= b for a, b in pieces[0] for c, d in pieces[1])


def plan_model(given: Any, fault: str = "") -> dict[str, int]:
    """First fit over the tensors of a model, a `tmmu.Graph` or a networkx graph, with a fault."""
    model = _model(given)
    names, views = [t.name for t in model.tensors], {k: t.view for k, t in enumerate(model.tensors) if t.view}

    def root(t: int) -> int:
        while t in views and fault != "view":
            t = views[t].base
        return t

    ends = _ends(model, fault)
    birth, death = _lives(model, fault, ends, root)
    found: dict[int, int] = {}
    over: dict[int, int] = {}
    for n, node in enumerate(model.nodes):
        for result, operand in node.in_place:
            keeps = operand in model.outputs and fault != "in-place-output"
            is_last = death.get(root(operand), -1) <= n or fault == "in-place-read"
            callers = model.tensors[root(operand)].role in (Role.INPUT, Role.PARAMETER) or operand in views
            if not keeps and (is_last or operand in model.outputs) and not callers and result not in views:
                over[result] = operand
                death[root(operand)] = max(death[root(operand)], death.get(result, n))
                break
    placed: list[tuple[int, int, int]] = []
    for t, tensor in enumerate(model.tensors):
        if t in views:
            continue
        if t in over and over[t] in found:
            found[t] = found[over[t]]
            continue
        at = 0
        for low, end, other in sorted(placed):
            if birth[t] <= death[other] and birth[other] <= death[t] and low < at + tensor.bytes and at < end:
                at = align_up(end, tensor.alignment)
        found[t] = at
        placed.append((at, at + tensor.bytes, t))
    return {names[t]: at for t, at in found.items()}


def _model(given: Any) -> Model:
    if isinstance(given, Graph):
        return given.model()
    if isinstance(given, networkx.DiGraph):
        from tmmu.testing.problems import DagProblem

        return DagProblem(given).model
    assert isinstance(given, Model)
    return given


def _ends(model: Model, fault: str) -> list[int]:
    """For each node, the step until which what it reads is needed: the end of the loops around it."""
    last = list(range(len(model.nodes)))
    for n in reversed(range(len(model.nodes))):
        body = model.nodes[n].body
        if body != MAIN:
            owner = model.bodies[body].owner
            last[owner] = max(last[owner], last[n])
    found = []
    for n, node in enumerate(model.nodes):
        end, body = last[n], node.body
        while body != MAIN:
            owner = model.bodies[body].owner
            if model.bodies[body].iterates and fault != "loop":
                end = max(end, last[owner])
            body = model.nodes[owner].body
        found.append(end)
    return found


def _lives(
    model: Model, fault: str, ends: Sequence[int], root: Callable[[int], int]
) -> tuple[dict[int, int], dict[int, int]]:
    """The steps between which each root is needed, steps counted in nodes."""
    last = len(model.nodes)
    birth = {root(t): (0 if fault != "input" else last) for t in range(len(model.tensors))}
    death = {root(t): -1 for t in range(len(model.tensors))}
    written = {
        root(t): n
        for n, node in reversed(list(enumerate(model.nodes)))
        for t in node.made
        if model.tensors[t].view is None
    }
    birth |= written
    for t, n in written.items():
        death[t] = -1 if fault == "dead" else n
    for n, t in _reads(model, fault):
        first = fault == "first-reader" and death[root(t)] > written.get(root(t), -1)
        death[root(t)] = death[root(t)] if first else max(death[root(t)], ends[n] - (fault == "operand"))
        if root(t) not in written:
            birth[root(t)] = min(birth[root(t)], n)
    kept = [t for t, tensor in enumerate(model.tensors) if tensor.role is Role.PARAMETER and fault != "parameter"]
    for t in (*kept, *(model.outputs if fault != "output" else ())):
        death[root(t)] = last
    for t in birth:
        death[t] = max(death[t], -1 if fault == "dead" else min(birth[t], last))
    return birth, death


def _reads(model: Model, fault: str) -> Iterator[tuple[int, int]]:
    for n, node in enumerate(model.nodes):
        if fault == "branch" and node.body != MAIN:
            continue
        for t in node.reads:
            yield n, t
    for body in model.bodies[1:]:
        for t in body.outputs:
            yield body.owner, t
