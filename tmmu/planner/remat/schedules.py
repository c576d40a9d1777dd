"""The cheapest recomputation of a graph of moderate size, by searching its schedules: what Checkmate's program finds.

A state is the node that comes next and which values are in memory; a move drops a value, computes one again, or runs
the next node, where all that it reads must be there and all that is live must fit. Moves are lazy: nothing is dropped
before something does not fit, and nothing is made while the next node can run. States are taken in the order of their
operations so far and of those that are at least to come: what is missing and will be read, with all that is missing to
make it, has to be computed again once. A state with more values in memory than another, for no more operations, can do
whatever that one can, since it may drop them: after each node the other is dropped. The states that are looked at are
bounded; where the bound is not met, no schedule of these moves repeats fewer operations (Jain and others, "Checkmate",
2020, state the optimum as an integer program). Bytes are counted without in-place results, so what is found fits; the
plan may need less. spec: M1.10
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, ArenaPolicy, Phase, Role
from tmmu.ir.program import program
from tmmu.planner import aliasing, liveness
from tmmu.planner.remat.rewrite import Joint, Script

NODES, VALUES = 120, 48
"""The largest graph that is searched, and the most values that may be dropped in it."""

EFFORT, TOTAL, ROUNDS = 100_000, 200_000, 6
"""How many states are looked at in one search at most, and in all of them, and how many searches there are."""

COMPARED = 512
"""With how many others, the cheapest, a state is compared to see whether it can do no more than one of them."""

Path = tuple["Path", int, int] | None
"""What was computed again to come to a state: the path before, the node that came next, and the node that ran again."""


@dataclass(frozen=True)
class _Space:
    """For each node the values (as bits) that it reads and writes, and the other bytes live at it and before it.

    `made_by` is the node that makes each value again (-1 for one that only the caller gives), `needed` the values that
    a node or one after it reads, and `useful` these with all that they can be made of.
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
        """The values that have to be made again before all of `wanted` is there, what they are made of included."""
        found, open_ = 0, wanted & ~values
        while open_:
            bit = open_ & -open_
            found |= bit
            n = self.made_by[bit.bit_length() - 1]
            open_ = (open_ | (self.reads[n] if n >= 0 else 0)) & ~values & ~found
        return found

    def least(self, position: int, values: int) -> int | None:
        """The operations that are at least to come; None where a value is lost that only the caller gives."""
        key = self.needed[position], values
        if key not in self.known:
            makers = {self.made_by[bit] for bit in _bits(self.missing(values, key[0]))}
            self.known[key] = None if -1 in makers else sum(self.cost[n] for n in makers)
        return self.known[key]

    def weight(self, values: int) -> int:
        """The bytes of a set of values."""
        return sum(self.size[bit] for bit in _bits(values))


def _bits(values: int) -> Iterator[int]:
    while values:
        bit = values & -values
        yield bit.bit_length() - 1
        values ^= bit


def cheapest(
    joint: Joint,
    arenas: tuple[ArenaConfiguration, ...],
    budget: int,
    known: int | None = None,
    policy: ArenaPolicy = ANYWHERE,
) -> Script | None:
    """The cheapest script that is found whose live bytes fit `budget` and that repeats less than `known` operations.

    None where none is found, or the graph is too large. Each search keeps to a bound on the operations: first what
    is known, or each node once more. Where it has to leave out states, the next has a lower bound and so fewer states;
    where it has not and finds nothing, a higher one. At most `TOTAL` states, O(values) each.
    """
    space = _space(joint, arenas, policy)
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
            high = bound - 1  # too much to look at: a lower bound leaves less
        if low > high or (found is not None and complete) or left <= 0:
            break
        bound = (low + high) // 2
    return None if best is None else _script(best[1])


def _script(path: Path) -> Script:
    script: dict[int, list[int]] = {}
    while path is not None:
        path, position, n = path
        script.setdefault(position, []).insert(0, n)
    return script


def _search(space: _Space, budget: int, bound: int, effort: int) -> tuple[tuple[int, Path] | None, bool, int]:
    """The operations and the path of the best schedule within the bound, whether no state was left out, and how many
    states were looked at.
    """
    given = sum(1 << bit for bit, n in enumerate(space.made_by) if n < 0)
    # By the values in memory: the operations so far, and how the state was reached.
    states: dict[int, tuple[int, Path]] = {given: (0, None)}
    left, count, complete = effort, len(space.reads), True
    for position in range(count):
        here = _Position(space, position, budget, bound)
        states, seen, all_seen = here.run(states, max(1, left // min(8, count - position)), left)
        left, complete = left - seen, complete and all_seen
        if not states:
            return None, complete, effort - left
    [found] = states.values()  # after the last node no value is of use
    return found, complete, effort - left


def _undominated(states: dict[int, tuple[int, Path]]) -> dict[int, tuple[int, Path]]:
    """The states without those that hold no value which a state of no more operations lacks."""
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
        """The states after the node: those before it, the most promising first; how many were seen, and if all were.

        No more than `limit` are looked at, but up to `most` where none of these gets past the node.
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
            if self._runs(values):
                # What differs and leads here is of no use: as much is still to come, so the first was the cheapest.
                after.setdefault((values | space.writes[position]) & space.useful[position + 1], (cost, path))
                continue
            for n, there in self._moves(values):
                price = cost if n < 0 else cost + space.cost[n]
                if there not in best or price < best[there][0]:
                    best[there] = price, path if n < 0 else (path, position, n)
                    if (entry := self._entry(price, there)) is not None:
                        heapq.heappush(queue, entry)
        return _undominated(after), seen, not queue

    def _entry(self, cost: int, values: int) -> tuple[int, int, int] | None:
        """A state as it is queued: by the operations that it leads to at least, then the most bytes in memory."""
        least = self.space.least(self.position, values)
        if least is None or cost + least > self.bound:
            return None
        return cost + least, -self.space.weight(values), values

    def _runs(self, values: int) -> bool:
        """Whether the node can run: what it reads is there, and what it writes fits."""
        space, reads = self.space, self.space.reads[self.position]
        if values & reads != reads:
            return False
        written = space.writes[self.position] & ~values
        return space.at[self.position] + space.weight(values) + space.weight(written) <= self.budget

    def _moves(self, values: int) -> Iterator[tuple[int, int]]:
        """What a state leads to where the node cannot run: a value made again by a node, or (-1) one dropped."""
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


def _space(joint: Joint, arenas: tuple[ArenaConfiguration, ...], policy: ArenaPolicy) -> _Space | None:
    """The search space of a graph, or None where it is too large."""
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
    run = program(model)
    alias = aliasing.form(run, liveness.analyze(run, "backward"), arenas, "backward", False, policy)
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
        # What a node makes is not missing before it ran.
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
    """What the nodes that make these values again read."""
    found = 0
    for bit in _bits(values):
        found |= reads[made_by[bit]] if made_by[bit] >= 0 else 0
    return found


def _values(joint: Joint, bit: dict[int, int], rows: tuple[int, ...]) -> int:
    values = 0
    for t in rows:
        values |= bit.get(joint.root[t], 0)
    return values
