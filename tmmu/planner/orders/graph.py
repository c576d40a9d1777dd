"""The properties of a body that matter for its order: dependent units, and the buffers that they keep live.

A *unit* is a node of the body with everything inside it. A *buffer* is a storage, live from the first to the last unit
that touches it. The buffers that are live after some units have run depend on the set of these units and not on their
order. So a search over sets of units suffices, instead of one over orders. An `OrderGraph` is a body or a contiguous
part of one; both are searched by the same functions. spec: O1.5, O1.6
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tmmu.core.dtypes import BITS
from tmmu.core.vocabulary import MAIN, NodePart, Role
from tmmu.ir.order import find_dependencies
from tmmu.ir.program import ModelProgram
from tmmu.planner.aliasing import Aliasing
from tmmu.planner.liveness import NO_STEP, Liveness
from tmmu.planner.problem import AllocationProblem


@dataclass
class OrderGraph:
    """Units 0 … n - 1, in an order that their edges permit, and the buffers that they touch.

    `after` and `before` are the edges by unit. `touches` are the buffers of each unit, `inner` the bytes that it also
    needs while it runs, `hints` its in-place pairs (result buffer, operand buffer). Each buffer has its bytes, the
    units that touch it, whether it is `opened` (live before the first unit) and `kept` (live after the last). `live`
    bytes are live before the first unit, and `unread` more while it runs.
    """

    before: list[list[int]]
    after: list[list[int]]
    touches: list[list[int]]
    inner: list[int]
    hints: list[list[tuple[int, int]]]
    bytes: list[int]
    users: list[list[int]]
    opened: list[bool]
    kept: list[bool]
    live: int = 0
    unread: int = 0

    def __len__(self) -> int:
        return len(self.before)


def compute_loads(graph: OrderGraph, order: Sequence[int]) -> list[int]:
    """Return the bytes that are live while each unit of `order` runs. O(units + touches)."""
    left, seen, live, result = [len(users) for users in graph.users], list(graph.opened), graph.live, []
    for at, n in enumerate(order):
        for k in graph.touches[n]:
            if not seen[k]:
                seen[k] = True
                live += graph.bytes[k]
            left[k] -= 1
        load = live + graph.inner[n] + (0 if at else graph.unread)
        taken = set[int]()
        for result_buffer, operand in graph.hints[n]:
            if not left[operand] and operand not in taken:
                taken.add(operand)
                load -= graph.bytes[result_buffer]
        result.append(load)
        live -= sum(graph.bytes[k] for k in graph.touches[n] if not left[k] and not graph.kept[k])
    return result


def unavoidable_load(graph: OrderGraph, n: int) -> int:
    """Return the bytes that are live while `n` runs, whatever the order."""
    least = graph.inner[n] + sum(graph.bytes[k] for k in graph.touches[n])
    return least - sum(graph.bytes[result] for result, _ in graph.hints[n])


@dataclass
class Order:
    """An order of a graph's units: `units` in order, the place of each, and the first and last place of each buffer.

    An opened buffer has its first place before the first unit, a kept one its last after the last.
    """

    units: list[int]
    place: list[int]
    first: list[int]
    last: list[int]

    @staticmethod
    def of(graph: OrderGraph, units: list[int]) -> Order:
        """Compute the places that follow from `units`. O(units + touches)."""
        place = [0] * len(units)
        for p, n in enumerate(units):
            place[n] = p
        first = [-1 if graph.opened[k] else min(place[n] for n in users) for k, users in enumerate(graph.users)]
        last = [len(units) if graph.kept[k] else max(place[n] for n in users) for k, users in enumerate(graph.users)]
        return Order(units, place, first, last)


def cut_part(graph: OrderGraph, order: Order, start: int, end: int) -> OrderGraph:
    """Return the units at places `start` to `end` - 1 as a separate graph, with unit i at place `start` + i.

    An operand that is read after them cannot give its bytes to a result. The caller sets `live`, the bytes live before
    them. O(touches of these units).
    """
    chosen, place = order.units[start:end], order.place
    number: dict[int, int] = {}
    touches = [[number.setdefault(k, len(number)) for k in graph.touches[n]] for n in chosen]
    users: list[list[int]] = [[] for _ in number]
    for i, buffers in enumerate(touches):
        for k in buffers:
            users[k].append(i)
    opened = [order.first[k] < start for k in number]
    return OrderGraph(
        [[place[m] - start for m in graph.before[n] if place[m] >= start] for n in chosen],
        [[place[m] - start for m in graph.after[n] if place[m] < end] for n in chosen],
        touches,
        [graph.inner[n] for n in chosen],
        [[(number[r], number[o]) for r, o in graph.hints[n] if order.last[o] < end] for n in chosen],
        [graph.bytes[k] for k in number],
        users,
        opened,
        [order.last[k] >= end for k in number],
        unread=0 if start else graph.unread,
    )


def build_graphs(
    run: ModelProgram, live: Liveness, alias: Aliasing, weighed: frozenset[int], mode: str, in_place: bool
) -> list[tuple[list[int], OrderGraph]]:
    """Return for each body its nodes in order, and their graph, with buffers only of the arenas `weighed`.

    `alias` has the storages without in-place results. O(accesses x depth).
    """
    model, storages = run.model, alias.storages
    arena = storages.preferred
    units: list[list[int]] = [[] for _ in model.bodies]
    for n, node in enumerate(model.nodes):
        units[node.body].append(n)
    rank = {n: i for nodes in units for i, n in enumerate(nodes)}
    start, end, holders = _spans(run)
    # For each body, the buffers touched in it: by which units, from the first step of the first to the last of the
    # last.
    touched: list[dict[int, _Use]] = [{} for _ in model.bodies]
    for step in run.steps:
        buffers = [
            k
            for k in dict.fromkeys(alias.storage[t] for t in (*step.reads, *step.writes))
            if arena[k] in weighed and storages.bytes[k]
        ]
        n, b = step.node, step.body
        while True:
            for k in buffers:
                use = touched[b].setdefault(k, _Use(start[n], end[n], {}))
                use.units[rank[n]], use.last = None, max(use.last, end[n])
            if b == MAIN:
                break
            n = model.bodies[b].owner
            b = model.nodes[n].body
    edges: list[dict[tuple[int, int], None]] = [{} for _ in model.bodies]
    for earlier, later in find_dependencies(model, grouped=True):
        edges[model.nodes[later].body][rank[earlier], rank[later]] = None
    opened = {alias.storage[t] for t, writer in enumerate(live.writer) if writer == NO_STEP}
    kept = {alias.storage[t] for t in (*model.outputs, *model.kept_inputs)} | {
        alias.storage[t]
        for t, tensor in enumerate(run.tensors)
        if tensor.role in (Role.PARAMETER, Role.OPTIMIZER) or (mode == "forward" and tensor.saved_for_backward)
    }
    made = []
    for b, nodes in enumerate(units):
        before, after, touches = ([list[int]() for _ in nodes] for _ in range(3))
        hints = [list[tuple[int, int]]() for _ in nodes]
        graph = OrderGraph(before, after, touches, [0] * len(nodes), hints, [], [], [], [])
        for earlier, later in edges[b]:
            graph.before[later].append(earlier)
            graph.after[earlier].append(later)
        number = _add_buffers(graph, touched[b], storages, opened, kept)
        if b == MAIN:
            used = {k for use in touched for k in use} | kept
            graph.unread = sum(size for k, size in enumerate(storages.bytes) if arena[k] in weighed and k not in used)
        for n in nodes if in_place else ():
            if n not in holders:
                graph.hints[rank[n]] = _granted_pairs(run, n, alias, arena, number, graph, mode)
        made.append((nodes, graph))
    return made


def _spans(run: ModelProgram) -> tuple[list[int], list[int], set[int]]:
    """Return the first and the last step of each node, and the nodes with bodies."""
    start, end, holders = [0] * len(run.model.nodes), [0] * len(run.model.nodes), set[int]()
    for s, step in enumerate(run.steps):
        end[step.node] = s
        if step.part is NodePart.LEAVE:
            holders.add(step.node)
        else:
            start[step.node] = s
    return start, end, holders


@dataclass
class _Use:
    """A buffer's use in a body: the first step, the units and the last step that touch it."""

    first: int
    last: int
    units: dict[int, None]


def _add_buffers(
    graph: OrderGraph, touched: dict[int, _Use], storages: AllocationProblem, opened: set[int], kept: set[int]
) -> dict[int, int]:
    """Add the buffers of a body to the graph, and return the number of each storage that is one.

    Buffers that are live throughout are omitted, such as all that a loop receives. Buffers that only one unit touches
    count as its inner bytes: their most at one step.
    """
    number: dict[int, int] = {}
    inside: dict[int, list[tuple[int, int]]] = {}
    for k, use in touched.items():
        is_opened = k in opened or storages.birth[k] < use.first
        is_kept = k in kept or storages.death[k] > use.last
        if is_opened and is_kept:
            continue
        if len(use.units) == 1 and not is_opened and not is_kept:
            changes = inside.setdefault(next(iter(use.units)), [])
            changes += [(storages.birth[k], storages.bytes[k]), (storages.death[k] + 1, -storages.bytes[k])]
            continue
        number[k] = len(graph.bytes)
        for n in use.units:
            graph.touches[n].append(number[k])
        graph.bytes.append(storages.bytes[k])
        graph.users.append(list(use.units))
        graph.opened.append(is_opened)
        graph.kept.append(is_kept)
        graph.live += storages.bytes[k] * is_opened
    for n, changes in inside.items():
        now = 0
        for _, change in sorted(changes):
            now += change
            graph.inner[n] = max(graph.inner[n], now)
    return number


def _granted_pairs(
    run: ModelProgram, n: int, alias: Aliasing, arena: list[int], number: dict[int, int], graph: OrderGraph, mode: str
) -> list[tuple[int, int]]:
    """Return a node's in-place pairs that are granted if the operand is not needed later, at most one for each result.

    Rarer cases that `tmmu.planner.aliasing` would grant are ignored here: it decides in the end.
    """
    model, tensors, node = run.model, run.tensors, run.model.nodes[n]
    storages = alias.storages
    place = {t: k for k, t in enumerate(node.writes)}
    pairs: dict[int, int] = {}
    reads, written = Counter(alias.storage[t] for t in node.reads), {alias.storage[t] for t in node.writes}
    times = Counter(node.reads)
    for result, operand in sorted(node.in_place, key=lambda pair: place[pair[0]]):
        r, o = alias.storage[result], alias.storage[operand]
        made, taken = tensors[result], tensors[operand]
        if (
            r in number
            and o in number
            and number[r] not in pairs
            and not graph.kept[number[o]]
            and not (mode != "inference" and taken.saved_for_backward)
            and (not graph.opened[number[o]] or storages.name[o] in model.bindings.donated)
            and storages.name[r] == made.name
            and made.alias_group is None
            and made.shape == taken.shape
            and BITS[made.dtype] == BITS[taken.dtype]
            and arena[r] == arena[o]
            and storages.bytes[r] == storages.bytes[o]
            and reads[o] == times[operand]
            and o not in written
        ):
            pairs[number[r]] = number[o]
    return list(pairs.items())
