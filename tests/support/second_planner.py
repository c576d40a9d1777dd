"""A second planner, from 001's text alone: liveness, storages, slots by linear scan, aligned prefix sums.

001's AnalyzeLiveness, AssignLogicalSlots and MapToVirtualAddresses as they are written, with the sentences of
`spec/tmmu.md` where 001 is silent. It was written without a look at `tmmu.planner` and imports nothing of it: what is
shared is the IR, the steps of a model included. Where the two disagreed, the text had a gap (findings 92, 93). 001
defines one rule for addresses, the aligned prefix sums of the layout `slots`, and that one is here, with arenas
by role (001 0.N). Short and quadratic, so that it can be read; `second_trace` makes records of its plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tmmu.core.alignment import align_up
from tmmu.core.columns import NONE
from tmmu.core.dtypes import BITS
from tmmu.core.vocabulary import MAIN, ArenaConfiguration, Lifetime, Model, NodePart, Role, Shares
from tmmu.ir.program import ModelProgram, Step, build_program, find_defining_bodies

PERSISTENT = (Role.PARAMETER, Role.OPTIMIZER)
CALLERS = (Role.INPUT, *PERSISTENT)
FOLDS = ("Max", "Mean", "Min", "ScatterElements", "ScatterND", "Sum", "TensorScatter")


@dataclass(eq=False)
class Storage:
    """The bytes that an alias class shares. `members` has the root first, `generation` counts earlier tenants."""

    members: list[int]
    arena: int = 0
    bytes: int = 0
    alignment: int = 1
    birth: int = 0
    death: int = 0
    slot: int = 0
    offset: int = 0
    generation: int = 0


@dataclass(frozen=True)
class Slot:
    """A logical slot of an arena: its storages in order of birth, and what they need."""

    tenants: list[Storage]
    bytes: int
    alignment: int
    offset: int


class SecondPlan:
    """The plan of a model whose nodes stand in execution order, made when it is constructed."""

    def __init__(self, model: Model, mode: str, arenas: Sequence[ArenaConfiguration]) -> None:
        self.model, self.mode, self.arenas = model, mode, arenas
        self.program = build_program(model)
        self.tensors, self.steps = self.program.tensors, self.program.steps
        self.lives = lifetimes(self.program, mode)
        self.arena = [self._arena(t) for t in range(len(self.tensors))]
        self.storage = [Storage([t]) for t in range(len(self.tensors))]
        self.window = [0] * len(self.tensors)
        self.shares = [(Shares.NONE, NONE)] * len(self.tensors)
        self.home, self.outputs = find_defining_bodies(model), frozenset(model.outputs)
        self.formal = {t for body in model.bodies[1:] for t in body.inputs}
        self.conflicts = {frozenset(pair) for pair in model.must_not_alias}
        self._share()
        self.storages = list(dict.fromkeys(self.storage))
        self._measure()
        self.slots = [self._slots(a) for a in range(len(arenas))]

    def _arena(self, t: int) -> int:
        """The arena of the tensor's role, or that which a scratch request names. spec: M3.7"""
        asked, role = self.program.scratch_arena.get(t), self.tensors[t].role
        return next(a for a, x in enumerate(self.arenas) if (x.name == asked if asked else role in x.roles))

    def _share(self) -> None:
        """Views, declared groups, and then in the order of the steps what is accepted in place. spec: T2.4, T3.8"""
        leader: dict[str, int] = {}
        for t, tensor in enumerate(self.tensors):
            if tensor.view is not None:
                self._join(t, tensor.view.base, tensor.view.offset, Shares.VIEW)
            elif tensor.alias_group is not None and leader.setdefault(tensor.alias_group, t) != t:
                self._join(t, leader[tensor.alias_group], 0, Shares.ALIAS)
        for s, step in enumerate(self.steps):
            taken: set[int] = set()
            for result in step.writes:
                hints = [operand for made, operand in self.model.nodes[step.node].in_place if made == result]
                for operand in hints:
                    if operand not in taken and self._may_take(s, step, result, operand):
                        self._join(result, operand, 0, Shares.IN_PLACE)
                        taken.add(operand)
                        break

    def _join(self, t: int, onto: int, at: int, why: Shares) -> None:
        """`t`, with all that lies with it, comes to lie from byte `at` of `onto` on."""
        joined = self.storage[t].members
        for member in joined:
            self.window[member] += self.window[onto] + at
            self.storage[member] = self.storage[onto]
        self.storage[onto].members += joined
        self.shares[t] = (why, onto)

    def _may_take(self, s: int, step: Step, result: int, operand: int) -> bool:
        """May `result` take the bytes of `operand` at step `s`? spec: T3.2 to T3.8, T3.10, T8.6, T8.7"""
        node, mine, theirs = self.model.nodes[step.node], self.tensors[result], self.tensors[operand]
        members, joined = self.storage[operand].members, self.storage[result].members
        folds = node.op in FOLDS and not node.domain
        return not (
            step.part != NodePart.WHOLE
            or self.shares[result][0] != Shares.NONE
            or any(self.shares[m][0] == Shares.ALIAS for m in joined)
            or (mine.shape, BITS[mine.dtype]) != (theirs.shape, BITS[theirs.dtype])
            or self.arena[result] != self.arena[members[0]]
            or not self.home[result] == self.home[operand] == step.body
            or operand in self.formal
            or any((self.window[operand] + self.window[m]) % self.tensors[m].alignment for m in joined)
            or any(self.lives[m].death > s or self._is_kept(m) for m in members)
            or any(self._touch(operand, other) for other in step.reads if other != operand)
            or any(self._touch(operand, other) or other == operand for other in step.writes)
            or any(frozenset((a, b)) in self.conflicts for a in members for b in joined)
            or (folds and (operand != step.reads[0] or step.reads.count(operand) > 1))
        )

    def _is_kept(self, t: int) -> bool:
        """Is `t` the caller's, before the run or after it, or saved for backward? spec: T3.5, T3.6, M1.2"""
        tensor = self.tensors[t]
        given = tensor.role in CALLERS and tensor.name not in self.model.bindings.donated
        return given or t in self.outputs or (tensor.saved_for_backward and self.mode != "inference")

    def _touch(self, a: int, b: int) -> bool:
        """Do two tensors share a byte, both in one storage?"""
        ends = (self.window[t] + self.tensors[t].bytes for t in (a, b))
        return self.storage[a] is self.storage[b] and max(self.window[a], self.window[b]) < min(ends)

    def _measure(self) -> None:
        """Lifetime, size, alignment and arena of each storage. spec: T2.1 to T2.3, T2.9, T7.1"""
        for storage in self.storages:
            members = storage.members
            storage.birth = min(self.lives[t].birth for t in members)
            storage.death = max(self.lives[t].death for t in members)
            storage.bytes = max(self.window[t] + self.tensors[t].bytes for t in members)
            storage.alignment = max(self.tensors[t].alignment for t in members)
            storage.arena = self.arena[members[0]]

    def _slots(self, arena: int) -> list[Slot]:
        """001's linear scan over an arena, and its aligned prefix sums. spec: T6.1 to T6.3, M3.1, A1.1, A1.2"""
        mine = [storage for storage in self.storages if storage.arena == arena]
        rows: list[list[Storage]] = []
        for storage in sorted(mine, key=self._order):
            free = (k for k, row in enumerate(rows) if self.arenas[arena].reuse and self._is_free(row, storage))
            storage.slot = next(free, len(rows))
            if storage.slot == len(rows):
                rows.append([])
            storage.generation = len(rows[storage.slot])
            rows[storage.slot].append(storage)
        slots, end = [], 0
        for row in rows:
            size = max(max(1, storage.bytes) for storage in row)
            alignment = max(self.arenas[arena].alignment, *(storage.alignment for storage in row))
            slots.append(Slot(row, size, alignment, align_up(end, alignment)))
            end = slots[-1].offset + size
            for storage in row:
                storage.offset = slots[-1].offset
        return slots

    def _order(self, storage: Storage) -> tuple[int, int, bytes]:
        """Birth ascending, size descending, name of the root ascending. spec: T6.1"""
        return storage.birth, -storage.bytes, self.tensors[storage.members[0]].name.encode()

    def _is_free(self, row: list[Storage], storage: Storage) -> bool:
        """Is the last tenant dead, and is none declared never to share bytes with `storage`? spec: T5.1"""
        if row[-1].death >= storage.birth:
            return False
        pairs = (frozenset((a, b)) for other in row for a in other.members for b in storage.members)
        return not self.conflicts or self.conflicts.isdisjoint(pairs)


def lifetimes(p: ModelProgram, mode: str) -> list[Lifetime]:
    """From the first to the last step at which each tensor is needed. spec: T1.1 to T1.6, T8.2 to T8.5, M1.1, M1.2"""
    model, last, home, outputs = p.model, max(0, len(p.steps) - 1), find_defining_bodies(p.model), set(p.model.outputs)
    touched: list[list[int]] = [[] for _ in p.tensors]
    for t, tensor in enumerate(p.tensors):
        kept = tensor.role in PERSISTENT or t in outputs or (tensor.saved_for_backward and mode == "forward")
        touched[t] += [0] * (tensor.role in CALLERS) + [last] * kept
    for s, step in enumerate(p.steps):
        around = list(enclosing(p, step.body))
        for t in (*step.reads, *step.writes):
            touched[t].append(s)
            if t < len(home) and home[t] in around:
                for b in around[: around.index(home[t])]:  # the bodies that capture it
                    touched[t] += p.ranges[b] if model.bodies[b].iterates else ()
    for b, body in enumerate(model.bodies):
        if body.iterates:
            owner = model.nodes[body.owner]
            for t in (*owner.reads, *body.inputs, *owner.writes):
                touched[t] += p.ranges[b]
    return [Lifetime(min(steps), max(steps)) for steps in touched]


def enclosing(p: ModelProgram, body: int) -> Iterator[int]:
    """A body and those around it, the main graph last."""
    while body != MAIN:
        yield body
        body = p.parents[body]
    yield MAIN
