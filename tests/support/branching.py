"""Random programs with exclusive arms, nested and in loops, each under a random plan; and every way to run one.

Lifetimes follow from the accesses, without a planner, or are a little off; tensors of eight bytes lie in any slot.
`ways` runs a program byte for byte in the slots beside private memory, for every choice of arms, loops twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.support.assembled import BodyRow, StepRow, StorageRow, TensorRow, assembled, own_slots, tables
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import ArenaConfiguration, NodePart, Role
from tmmu.examples.broken.editing import counted
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED
from tmmu.plans.sections import Plan, Usage

SIZE = 8


@dataclass
class Node:
    """A node with bodies: exclusive arms, or the one body of a loop. `outputs` are what each body returns."""

    enter: int
    leave: int = 0
    bodies: list[list[int | Node]] = field(default_factory=list)
    formals: tuple[int, ...] = ()
    outputs: list[list[int]] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    is_loop: bool = False


@dataclass
class Program:
    """Steps with what they read and write, as a list and as a tree; tensor 0 is the caller's, `output` it reads."""

    reads: list[list[int]] = field(default_factory=list)
    writes: list[list[int]] = field(default_factory=list)
    rows: list[tuple[str, str, NodePart, int]] = field(default_factory=list)  # node, operator, part, body
    bodies: list[tuple[str, int, Node | None]] = field(default_factory=lambda: [("", NONE, None)])
    tree: list[int | Node] = field(default_factory=list)
    tensors: int = 1
    output: int = 0

    def step(
        self, op: str, part: NodePart, body: int, reads: Sequence[int], writes: Sequence[int], node: str = ""
    ) -> int:
        """Add a step."""
        n = len(self.reads)
        self.reads.append(list(dict.fromkeys(reads)))
        self.writes.append(list(writes))
        self.rows.append((node or f"n{n}", op, part, body))
        return n

    def tensor(self) -> int:
        """A new tensor."""
        self.tensors += 1
        return self.tensors - 1


def program(chance: random.Random) -> Program:
    """A random program, sometimes with a read or a missing write that is wrong."""
    made = Program()
    seen = [0]
    made.tree = _sequence(made, chance, 0, "", seen, 0)
    made.output = made.tensor()
    made.tree.append(made.step("MatMul", NodePart.WHOLE, 0, chance.sample(seen, min(len(seen), 2)), [made.output]))
    return made


def _sequence(
    made: Program, chance: random.Random, body: int, scope: str, seen: list[int], depth: int
) -> list[int | Node]:
    items: list[int | Node] = []
    for _ in range(chance.randrange(1, 4)):
        kind = chance.random()
        if kind < 0.35 and depth < 3:
            items.append(_branches(made, chance, body, scope, seen, depth))
        elif kind < 0.5 and depth < 2:
            items.append(_loop(made, chance, body, scope, seen, depth))
        else:
            items.append(_whole(made, chance, body, seen))
    return items


def _whole(made: Program, chance: random.Random, body: int, seen: list[int], into: int | None = None) -> int:
    pool = list(range(made.tensors)) if chance.random() < 0.02 else seen
    reads = chance.sample(pool, min(len(pool), chance.randrange(1, 3)))
    wrote = made.tensor() if into is None else into
    n = made.step("MatMul", NodePart.WHOLE, body, [t for t in reads if t != wrote], [wrote])
    seen.append(wrote)
    return n


def _branches(made: Program, chance: random.Random, body: int, scope: str, seen: list[int], depth: int) -> Node:
    name = f"{scope}if{len(made.reads)}"
    node = Node(made.step("If", NodePart.ENTER, body, [chance.choice(seen)], [], name))
    shared = [made.tensor() for _ in range(chance.choice((0, 1, 1, 2)))]
    count = chance.choice((0, 1, 2))
    for arm in range(2):
        row = len(made.bodies)
        made.bodies.append((f"{name}/arm{arm}", body, node))
        inside = list(seen)
        items = _sequence(made, chance, row, f"{name}/arm{arm}/", inside, depth + 1) if chance.random() < 0.7 else []
        for t in shared:
            if chance.random() < 0.96:
                items.append(_whole(made, chance, row, inside, t))
        own = [made.tensor() for _ in range(count)]
        items += [_whole(made, chance, row, inside, t) for t in own]
        node.bodies.append(items)
        node.outputs.append(own)
    node.results = [made.tensor() for _ in range(count)]
    taken = [t for outputs in node.outputs for t in outputs]
    node.leave = made.step("If", NodePart.LEAVE, body, taken, node.results, name)
    seen += [*shared, *node.results]
    return node


def _loop(made: Program, chance: random.Random, body: int, scope: str, seen: list[int], depth: int) -> Node:
    name, formal = f"{scope}loop{len(made.reads)}", made.tensor()
    node = Node(made.step("Loop", NodePart.ENTER, body, [chance.choice(seen)], [formal], name), formals=(formal,))
    node.is_loop, row = True, len(made.bodies)
    made.bodies.append((f"{name}/body", body, node))
    inside = [*seen, formal]
    items = _sequence(made, chance, row, f"{name}/body/", inside, depth + 1)
    own = made.tensor()
    items.append(_whole(made, chance, row, inside, own))
    node.bodies, node.outputs, node.results = [items], [[own]], [made.tensor()]
    node.leave = made.step("Loop", NodePart.LEAVE, body, [own], node.results, name)
    seen += node.results
    return node


def lifetimes(made: Program) -> tuple[list[int], list[int]]:
    """Births and deaths as T1, T8 and X4 ask for them."""
    last = len(made.reads) - 1
    births, deaths = [last] * made.tensors, [0] * made.tensors
    births[0] = 0
    deaths[made.output] = last
    arm_ends = {t: _ends(node, k)[1] for _, _, node in made.bodies if node and not node.is_loop
                for k, outputs in enumerate(node.outputs) for t in outputs}  # fmt: skip
    for n, (reads, writes) in enumerate(zip(made.reads, made.writes, strict=True)):
        for t in writes:
            births[t], deaths[t] = min(births[t], n), max(deaths[t], n)
        for t in reads:
            part = made.rows[n][2]
            deaths[t] = max(deaths[t], arm_ends[t] if part is NodePart.LEAVE and t in arm_ends else n)
    loops = [node for _, _, node in made.bodies if node and node.is_loop]
    for node in reversed(loops):  # inner ones first
        inside = range(node.enter, node.leave + 1)
        touched = {t for n in inside for t in (*made.reads[n], *made.writes[n])}
        for t in touched:
            if births[t] <= node.enter or t in node.results:
                births[t], deaths[t] = min(births[t], node.enter), max(deaths[t], node.leave)
    return births, deaths


def _ends(node: Node, k: int) -> tuple[int, int]:
    """The first and the last step of a body."""
    flat = [item if isinstance(item, int) else item.leave for item in node.bodies[k]]
    first = [item if isinstance(item, int) else item.enter for item in node.bodies[k]]
    return first[0] if first else node.enter + 1, flat[-1] if flat else node.enter


def plan(made: Program, chance: random.Random) -> Plan:
    """A random plan of a program: mostly slots that are free, now and then another one, or another lifetime."""
    births, deaths = lifetimes(made)
    if chance.random() < 0.2:
        t = chance.randrange(made.tensors)
        deaths[t] = max(births[t], deaths[t] - chance.randrange(1, 4))
    home = list(range(made.tensors))
    for t in range(1, made.tensors):
        if chance.random() < 0.08:
            home[t] = home[chance.randrange(t)]
    storages = sorted(set(home))
    first = {k: min(births[t] for t in range(made.tensors) if home[t] == k) for k in storages}
    final = {k: max(deaths[t] for t in range(made.tensors) if home[t] == k) for k in storages}
    slot: dict[int, int] = {}
    for k in sorted(storages, key=lambda k: chance.random()):
        taken = {slot[o] for o in slot if first[o] <= final[k] and first[k] <= final[o]}
        free = [s for s in range(made.tensors) if s not in taken]
        slot[k] = chance.choice(free[:3]) if chance.random() < 0.99 else chance.randrange(made.tensors)
    number = {s: i for i, s in enumerate(sorted(set(slot.values())))}
    return _columns(made, births, deaths, [storages.index(k) for k in home], [number[slot[k]] for k in storages],
                    [first[k] for k in storages], [final[k] for k in storages])  # fmt: skip


def _columns(
    made: Program, births: list[int], deaths: list[int], home: list[int], slot: list[int], first: list[int],
    final: list[int],
) -> Plan:  # fmt: skip
    writer = [NONE] * made.tensors
    for n in reversed(range(len(made.writes))):
        for t in made.writes[n]:
            writer[t] = n
    tensors = [
        TensorRow(
            f"t{t}", SIZE, births[t], deaths[t], home[t], Role.ACTIVATION if t else Role.INPUT,
            (not t) * IS_INPUT + (t == made.output) * (IS_OUTPUT + IS_RETURNED), 0, writer[t],
        )
        for t in range(made.tensors)
    ]  # fmt: skip
    steps = [
        StepRow(name, ("", op), made.reads[n], made.writes[n], (), part, body)
        for n, (name, op, part, body) in enumerate(made.rows)
    ]
    bodies = [
        BodyRow(name, parent) if node is None
        else BodyRow(name, parent, node.enter, node.leave, node.is_loop, not node.is_loop)
        for name, parent, node in made.bodies
    ]  # fmt: skip
    storages = [StorageRow(SIZE, *lives, SIZE * s) for *lives, s in zip(first, final, slot, strict=True)]
    arena = ArenaConfiguration("memory", tuple(Role), alignment=1)
    slots = own_slots([SIZE] * (max(slot) + 1), of=slot)
    return counted(assembled((arena,), (Usage(),), slots, **tables(tensors, storages, steps, bodies)))


class Wrong(Exception):
    """A read finds something else than private memory has."""


def ways(made: Program, plan: Plan) -> Iterator[None]:
    """Run a program once for each way to choose arms, loops twice; raises `Wrong` at the first difference."""
    slot = plan.slots.of[plan.allocation.tensors.storage].tolist()
    waiting: list[list[int]] = [[]]
    while waiting:
        run = _Run(made, slot, waiting.pop())
        run.all()
        yield
        waiting += [[*run.chosen[:k], 1] for k in range(run.given, len(run.chosen))]


class _Run:
    """One run: the first choices of arms are given, the others are the first arm."""

    def __init__(self, made: Program, slot: list[int], choices: list[int]) -> None:
        self.made, self.slot, self.chosen, self.given = made, slot, list(choices), len(choices)
        self.used = self.clock = 0
        self.private: dict[int, object] = {}
        self.bytes: dict[int, object] = {}

    def all(self) -> None:
        self.write(0)
        self.items(self.made.tree)
        self.read(self.made.output)

    def read(self, t: int) -> None:
        if t not in self.private or self.bytes.get(self.slot[t]) != self.private[t]:
            raise Wrong(t)

    def write(self, t: int) -> None:
        self.clock += 1
        self.private[t] = self.bytes[self.slot[t]] = self.clock

    def items(self, items: list[int | Node]) -> None:
        for item in items:
            if isinstance(item, Node):
                self.loop(item) if item.is_loop else self.branch(item)
            else:
                self.step(self.made.reads[item], self.made.writes[item])

    def step(self, reads: Sequence[int], writes: Sequence[int]) -> None:
        """Results are written while operands are still read: none of them may lie on one."""
        for t in reads:
            self.read(t)
        for t in writes:
            self.write(t)
        for t in reads:
            if t not in writes:
                self.read(t)

    def branch(self, node: Node) -> None:
        self.step(self.made.reads[node.enter], ())
        if self.used == len(self.chosen):
            self.chosen.append(0)
        arm = self.chosen[self.used]
        self.used += 1
        # What the arms write is of this visit.
        for n in range(node.enter + 1, node.leave):
            for t in self.made.writes[n]:
                self.private.pop(t, None)
        self.items(node.bodies[arm])
        pairs = list(zip(node.results, node.outputs[arm], strict=True))
        for order in (pairs, pairs[::-1]):  # in whichever order results are copied, each finds its output
            kept = dict(self.bytes)
            for result, output in order:
                self.read(output)
                self.write(result)
            if order is pairs:
                self.bytes = kept
        for result in node.results:
            self.read(result)

    def loop(self, node: Node) -> None:
        reads = self.made.reads[node.enter]
        self.step(reads, [*node.formals, *node.results])
        for trip in range(2):
            for n in range(node.enter + 1, node.leave):
                for t in self.made.writes[n]:
                    self.private.pop(t, None)
            self.items(node.bodies[0])
            self.step([*node.outputs[0], *reads], node.results)  # a part of each result after each trip
            if trip == 0:
                self.step(node.outputs[0], node.formals)
