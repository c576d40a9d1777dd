"""Find the cheapest recomputation of a graph of moderate size by searching its schedules, as Checkmate's program does.

A state is the next node and the set of values in memory. A move drops a value, recomputes one, or runs the next node,
which needs its reads in memory and room for all that is live. Moves are lazy: nothing is dropped before something does
not fit, and nothing is recomputed while the next node can run. States are visited in the order of their operations so
far plus a lower bound of those to come: missing values that will be read, with the missing values needed to make them,
must be recomputed once. A state with more values than another, for no more operations, can do whatever the other can,
since it may drop values: after each node the other is dropped.

The number of states visited is bounded. If the bound is not reached, no schedule of these moves repeats fewer
operations (Jain and others, "Checkmate", 2020, state the optimum as an integer program). Bytes are counted without
in-place results, so that a found schedule fits; its plan may need less. spec: M1.10
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, ArenaPolicy, Phase, Role
from tmmu.ir.program import build_program
from tmmu.planner import aliasing, liveness
from tmmu.planner.remat.rewrite import Joint, Script

NODES, VALUES = 120, 48
"""The largest graph that is searched, and the most values that may be dropped in it."""

EFFORT, TOTAL, ROUNDS = 100_000, 200_000, 6
"""The most states visited in one search, and in all of them, and the most searches."""

COMPARED = 512
"""A state is compared with at most this many others, the cheapest, to see whether one of them dominates it."""

Path = tuple["Path", int, int] | None
"""The recomputations that lead to a state: the path before, the node that came next, and the node that ran again."""


@dataclass(frozen=True)
class _Space:
    """For each node the values (as bits) that it reads and writes, and the other bytes live at it and before it.

    `made_by` is the node that recomputes each value (-1 if only the caller can provide it). `needed` are the values
    that a node or a later one reads; `useful` adds all values that they can be made of.
    """

    reads: list[int]
    writes: list[int]
    at: list[int]
    before: list[int]
    size: list[int]
    made_by: list[int]
    cost: list[int]
    later: list[bool]
    needed: list[int]
    useful: list[int]
    known: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def missing(self, values: int, wanted: int) -> int:
        """Return the values to recompute before all of `wanted` is there, including those that they are made of."""
        found, open_ = 0, wanted & ~values
        while open_:
            bit = open_ & -open_
            found |= bit
            n = self.made_by[bit.bit_length() - 1]
            open_ = (open_ | (self.reads[n] if n >= 0 else 0)) & ~values & ~found
        return found

    def least(self, position: int, values: int) -> int | None:
        """Return a lower bound of the operations to come; None if a value is lost that only the caller can provide."""
        key = self.needed[position], values
        if key not in self.known:
            makers = {self.made_by[bit] for bit in _bits(self.missing(values, key[0]))}
            self.known[key] = None if -1 in makers else sum(self.cost[n] for n in makers)
        return self.known[key]

    def weight(self, values: int) -> int:
        """Return the bytes of a set of values."""
        return sum(self.size[bit] for bit in _bits(values))


def _bits(values: int) -> Iterator[int]:
    while values:
        bit = values & -values
        yield bit.bit_length() - 1
        values ^= bit


def find_cheapest(
    joint: Joint,
    arenas: tuple[ArenaConfiguration, ...],
    budget: int,
    known: int | None = None,
    policy: ArenaPolicy = ANYWHERE,
) -> Script | None:
    """Return the cheapest script found whose live bytes fit `budget` and that repeats fewer than `known` operations.

    Returns None if none is found, or if the graph is too large. Each search is bounded in operations: first by `known`,
    or by one repetition of each node. If a search has to omit states, the next has a lower bound and so fewer states.
    If it omits none and finds nothing, the next has a higher bound. At most `TOTAL` states, O(values) each.
    """
    space = _build_space(joint, arenas, policy)
    if space is None:
        return None
    best: tuple[int, Path] | None = None
    low, high = 0, sum(joint.cost[n] for n in joint.order) if known is None else known - 1
    bound, left = high, TOTAL
    for _ in range(ROUNDS):
        found, complete, seen = _search(space, budget, bound, min(EFFORT, left))
        left -= seen
        if found is not None:
            best, high = found, found[0] - 1
        elif complete:
            low = bound + 1
        else:
            high = bound - 1  # too many states: a lower bound leaves fewer
        if low > high or (found is not None and complete) or left <= 0:
            break
        bound = (low + high) // 2
    return None if best is None else _build_script(best[1])


def _build_script(path: Path) -> Script:
    script: dict[int, list[int]] = {}
    while path is not None:
        path, position, n = path
        script.setdefault(position, []).insert(0, n)
    return script


def _search(space: _Space, budget: int, bound: int, effort: int) -> tuple[tuple[int, Path] | None, bool, int]:
    """Search for the best schedule within the bound.

    Returns its operations and path (or None), whether no state was omitted, and how many states were visited.
    """
    given = sum(1 << bit for bit, n in enumerate(space.made_by) if n < 0)
    # By the values in memory: the operations so far, and the path to the state.
    states: dict[int, tuple[int, Path]] = {given: (0, None)}
    left, count, complete = effort, len(space.reads), True
    for position in range(count):
        here = _Position(space, position, budget, bound)
        states, seen, all_seen = here.run(states, max(1, left // min(8, count - position)), left)
        left, complete = left - seen, complete and all_seen
        if not states:
            return None, complete, effort - left
    [found] = states.values()  # after the last node no value is useful
    return found, complete, effort - left


def _drop_dominated(states: dict[int, tuple[int, Path]]) -> dict[int, tuple[int, Path]]:
    """Return the states without those whose values are a subset of a state of no more operations."""
    kept: dict[int, tuple[int, Path]] = {}
    cheapest: list[int] = []
    for values, state in sorted(states.items(), key=lambda item: (item[1][0], -item[0].bit_count(), item[0])):
        if not any(values & other == values for other in cheapest):
            kept[values] = state
            if len(cheapest) < COMPARED:
                cheapest.append(values)
    return kept


@dataclass(frozen=True)
class _Position:
    """The moves before one node, and the node itself."""

    space: _Space
    position: int
    budget: int
    bound: int

    def run(
        self, states: dict[int, tuple[int, Path]], limit: int, most: int
    ) -> tuple[dict[int, tuple[int, Path]], int, bool]:
        """Return the states after the node, the number of states visited, and whether none was omitted.

        The most promising states come first. At most `limit` are visited, but up to `most` if none of these gets past
        the node.
        """
        space, position = self.space, self.position
        best, after = dict(states), dict[int, tuple[int, Path]]()
        queue = [entry for values, (cost, _) in states.items() if (entry := self._entry(cost, values)) is not None]
        heapq.heapify(queue)
        seen = 0
        while queue and seen < (limit if after else most):
            expected, _, values = heapq.heappop(queue)
            cost, path = best[values]
            if cost + (space.least(position, values) or 0) < expected:
                continue
            seen += 1
            if self._can_run(values):
                # A later state that leads here is useless: it has the same operations to come, so the first was the
                # cheapest.
                after.setdefault((values | space.writes[position]) & space.useful[position + 1], (cost, path))
                continue
            for n, there in self._moves(values):
                price = cost if n < 0 else cost + space.cost[n]
                if there not in best or price < best[there][0]:
                    best[there] = price, path if n < 0 else (path, position, n)
                    if (entry := self._entry(price, there)) is not None:
                        heapq.heappush(queue, entry)
        return _drop_dominated(after), seen, not queue

    def _entry(self, cost: int, values: int) -> tuple[int, int, int] | None:
        """Return a state as queued: by the lower bound of its operations, then the most bytes in memory.

        None if above the bound.
        """
        least = self.space.least(self.position, values)
        if least is None or cost + least > self.bound:
            return None
        return cost + least, -self.space.weight(values), values

    def _can_run(self, values: int) -> bool:
        """Return whether the node can run: its reads are in memory, and its writes fit."""
        space, reads = self.space, self.space.reads[self.position]
        if values & reads != reads:
            return False
        written = space.writes[self.position] & ~values
        return space.at[self.position] + space.weight(values) + space.weight(written) <= self.budget

    def _moves(self, values: int) -> Iterator[tuple[int, int]]:
        """Yield the moves if the node cannot run: the recomputing node (-1 for a drop), and the values in memory
        then.
        """
        space, position = self.space, self.position
        room = self.budget - space.before[position] - space.weight(values)
        reads = space.reads[position]
        full = values & reads == reads
        for bit in _bits(space.missing(values, space.needed[position])) if space.later[position] else ():
            n = space.made_by[bit]
            if values & space.reads[n] != space.reads[n]:
                continue
            made = space.writes[n] & ~values
            if space.weight(made) <= room:
                yield n, values | made
            else:
                full = True
        if full:
            yield from ((-1, values & ~(1 << bit)) for bit in _bits(values))


def _build_space(joint: Joint, arenas: tuple[ArenaConfiguration, ...], policy: ArenaPolicy) -> _Space | None:
    """Build the search space of a graph, or return None if it is too large."""
    model = joint.model
    if len(model.nodes) > NODES or len(model.bodies) > 1:
        return None
    again = set(joint.order)
    outputs = {joint.root[t] for t in model.outputs}
    free = {joint.root[t] for n in joint.order for t in model.nodes[n].writes if joint.free[joint.root[t]]}
    read_again = {joint.root[t] for n in joint.order for t in model.nodes[n].reads}
    inputs = {t for t in model.inputs if t in read_again and t not in outputs and model.tensors[t].role is Role.INPUT}
    roots = sorted(free | inputs)
    if len(roots) > VALUES:
        return None
    bit = {root: 1 << k for k, root in enumerate(roots)}
    run = build_program(model)
    live = liveness.analyze(run, "backward")
    alias = aliasing.form_storages(run, live, arenas, "backward", aliasing.NONE_IN_PLACE, policy)
    storages, arena = alias.storages, alias.storages.preferred
    ours = {alias.storage[root] for root in roots}
    at, before = [0] * len(model.nodes), [0] * len(model.nodes)
    for storage, (birth, death) in enumerate(zip(storages.birth, storages.death, strict=True)):
        if arenas[arena[storage]].reuse and storage not in ours:
            for position in range(birth, death + 1):
                at[position] += storages.bytes[storage]
                before[position] += storages.bytes[storage] if position > birth else 0
    reads, writes = ([_values(joint, bit, rows) for rows in (getattr(node, which) for node in model.nodes)]
                     for which in ("reads", "writes"))  # fmt: skip
    made_by = [joint.writer[root] if joint.writer[root] in again else -1 for root in roots]
    needed, useful = [0] * (len(reads) + 1), [0] * (len(reads) + 1)
    for position in reversed(range(len(reads))):
        # A value that a node makes is not missing before the node has run.
        needed[position] = (needed[position + 1] | reads[position]) & ~(writes[position] & ~reads[position])
        useful[position] = needed[position] | useful[position + 1]
        while (more := _ingredients(useful[position], reads, made_by) & ~useful[position]) != 0:
            useful[position] |= more
    return _Space(
        reads,
        writes,
        at,
        before,
        [storages.bytes[alias.storage[root]] for root in roots],
        made_by,
        joint.cost,
        [node.phase is not Phase.FORWARD for node in model.nodes],
        needed,
        useful,
    )


def _ingredients(values: int, reads: list[int], made_by: list[int]) -> int:
    """Return the values read by the nodes that make these values."""
    found = 0
    for bit in _bits(values):
        found |= reads[made_by[bit]] if made_by[bit] >= 0 else 0
    return found


def _values(joint: Joint, bit: dict[int, int], rows: tuple[int, ...]) -> int:
    values = 0
    for t in rows:
        values |= bit.get(joint.root[t], 0)
    return values
