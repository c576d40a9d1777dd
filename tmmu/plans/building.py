"""Build an allocation from declared arenas, tensors at addresses, and steps in their order.

Text plans and the plans of other compilers declare the address of each tensor, its sharing, and the steps that use it.
Storages and lifetimes follow from these (T1, T2) and are computed here, for both alike. Nothing else is added.
spec: X2.4, X2.5, FP1.3
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tmmu.core.columns import NONE, U32, Names, build_column, flatten_rows, number_values
from tmmu.core.vocabulary import ARRIVAL, MAIN, UINT64_END, NodePart, Role, Shares
from tmmu.plans.allocation import Allocation, Arena
from tmmu.plans.columns import IS_RETURNED, PARTS, ROLES, SHARES, Bodies, Steps, Storages, Tensors
from tmmu.plans.lifetimes import NO_STEP, Access, BodySpan, Lives, compute_lifetimes

CALLERS = (Role.INPUT, Role.PARAMETER, Role.OPTIMIZER)
KEPT = (Role.PARAMETER, Role.OPTIMIZER)


class StatedTensor(NamedTuple):
    """A tensor as declared; `of` is the row that it shares with, `shift` the byte of that row at which it begins."""

    name: str
    bytes: int
    arena: int
    offset: int
    role: Role = Role.ACTIVATION
    flags: int = 0
    dtype: str = "uint8"
    alignment: int = 1
    shares: Shares = Shares.NONE
    of: int = NONE
    shift: int = 0


class StatedStep(NamedTuple):
    """A step as declared, with the rows of the tensors that it accesses; `changes` are among the writes.

    `stream` is "" without streams, and `after` are the steps that it waits for directly.
    """

    name: str
    op: tuple[str, str]
    part: NodePart
    access: Access
    changes: tuple[int, ...]
    stream: str = ""
    after: tuple[int, ...] = ()


class Location(NamedTuple):
    """The place of a tensor: the row whose storage it is in, and the byte there."""

    root: int
    window: int


class MisplacedTensor(ValueError):
    """The tensor of a row has no storage: it shares with itself (`is_circular`), or its shift is out of range."""

    def __init__(self, row: int, what: str, fix: str, *, is_circular: bool) -> None:
        super().__init__(what)
        self.row, self.what, self.fix, self.is_circular = row, what, fix, is_circular


class _OpenNode(NamedTuple):
    """An open node with bodies: its name, operator and enter, the body around it, and its own bodies."""

    name: str
    op: tuple[str, str]
    enter: int
    outer: int
    mine: list[int]
    stream: str


class AllocationBuilder:
    """An allocation under construction. Rows are those of `tensors`, in the order in which they are appended.

    Steps are added in execution order by `step`. A node with bodies is added by `begin`, then the steps of its first
    body, for each further body `arm` and its steps, then `end`. Names of steps, tensors and bodies must be unique: the
    caller ensures it, and the gate refuses a plan with duplicate names. `place_on_stream` gives the step that was added
    last a stream.
    """

    def __init__(self) -> None:
        self.arenas: list[Arena] = []
        self.tensors: list[StatedTensor] = []
        self.steps: list[StatedStep] = []
        self.apart: list[tuple[int, int]] = []
        self.unproduced: list[str] = []
        self.bodies = {"": MAIN}
        self._arms = [BodySpan(MAIN, NO_STEP, NO_STEP, 0, 0, False, False)]
        self._open: list[_OpenNode] = []
        self._body = MAIN

    @property
    def opened(self) -> str | None:
        """The name of the innermost open node, or None."""
        return self._open[-1].name if self._open else None

    @property
    def depth(self) -> int:
        """The number of open nodes."""
        return len(self._open)

    @property
    def next_body(self) -> str:
        """The default name of the next body of the innermost open node: `NODE/K`."""
        return f"{self._open[-1].name}/{len(self._open[-1].mine)}"

    def step(
        self, name: str, op: tuple[str, str], reads: Sequence[int], writes: Sequence[int],
        changes: Sequence[int] = (), part: NodePart = NodePart.WHOLE,
    ) -> None:  # fmt: skip
        """Add the next step."""
        access = Access(self._body, tuple(reads), tuple(writes))
        stream = self._open[-1].stream if self._open else ""
        self.steps.append(StatedStep(name, op, part, access, tuple(changes), stream))

    def place_on_stream(self, stream: str, after: Sequence[int] = ()) -> None:
        """Put the step that was added last on a stream, to begin when the steps `after` have ended.

        A node with bodies is put there as a whole. spec: X5.1, X5.5
        """
        last = self.steps[-1]
        self.steps[-1] = last._replace(stream=stream, after=tuple(sorted(after)))
        if last.part is NodePart.ENTER:
            self._open[-1] = self._open[-1]._replace(stream=stream)

    def begin(
        self, name: str, op: tuple[str, str], reads: Sequence[int], formals: Sequence[int], *,
        iterates: bool = False, exclusive: bool = False, body: str | None = None, changes: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Enter a node, which writes `formals`, and its first body. spec: T8.1, X4.1"""
        self.step(name, op, reads, formals, changes, NodePart.ENTER)
        self._open.append(_OpenNode(name, op, len(self.steps) - 1, self._body, [], self.steps[-1].stream))
        self._add_body(body, iterates, exclusive)

    def arm(self, body: str | None = None) -> None:
        """End a body of the innermost open node and begin its next one."""
        last = self._arms[self._close()]
        self._add_body(body, last.iterates, last.exclusive)

    def end(self, reads: Sequence[int], writes: Sequence[int], changes: Sequence[int] = ()) -> None:
        """Leave the innermost open node."""
        self._close()
        node = self._open.pop()
        for b in node.mine:
            self._arms[b] = self._arms[b]._replace(leave=len(self.steps))
        self._body = node.outer
        self.step(node.name, node.op, reads, writes, changes, NodePart.LEAVE)
        self.steps[-1] = self.steps[-1]._replace(stream=node.stream)

    def _add_body(self, given: str | None, iterates: bool, exclusive: bool) -> None:
        node = self._open[-1]
        name = self.next_body if given is None else given
        self._body = self.bodies[name] = len(self._arms)
        node.mine.append(self._body)
        start = len(self.steps)
        self._arms.append(BodySpan(node.outer, node.enter, NO_STEP, start, NO_STEP, iterates, exclusive))

    def _close(self) -> int:
        body = self._open[-1].mine[-1]
        self._arms[body] = self._arms[body]._replace(end=len(self.steps))
        return body

    def allocation(self) -> Allocation:
        """Build the tables. Raises `MisplacedTensor`. O(steps + accesses x depth of loops + tensors). spec: X2.5"""
        tensors, steps, arms = self.tensors, self.steps, self._arms
        late = {t for step in steps if step.op == ARRIVAL for t in step.access.writes}
        callers = [row.role in CALLERS and t not in late for t, row in enumerate(tensors)]
        kept = [row.role in KEPT or bool(row.flags & IS_RETURNED) for row in tensors]
        live = compute_lifetimes([step.access for step in steps], arms, callers, kept)
        locations = _locations(tensors)
        ops, op = number_values([step.op for step in steps])
        types, dtype = number_values([row.dtype for row in tensors])
        table, storage = _form_storages(tensors, locations, live)
        lists = ([s.access.reads for s in steps], [s.access.writes for s in steps], [s.changes for s in steps])
        u8, u32, u64 = np.uint8, np.uint32, np.uint64
        streams, on = number_values([s.stream for s in steps if s.stream])
        ordered = (build_column(on, u32), *flatten_rows([s.after for s in steps])) if streams else ()
        return Allocation(
            tuple(self.arenas), table, tuple(self.apart), tuple(ops), tuple(types),
            Tensors(
                Names.of([row.name for row in tensors]), build_column(dtype, u8),
                build_column([ROLES.index(row.role) for row in tensors], u8),
                build_column([row.flags for row in tensors], u8),
                build_column([row.bytes for row in tensors], u64),
                build_column([row.alignment for row in tensors], u64),
                build_column(live.birth, u32), build_column(live.death, u32), build_column(storage, u32),
                build_column([location.window for location in locations], u64), _or_none(live.writer),
                build_column([SHARES.index(row.shares) for row in tensors], u8),
                build_column([row.of for row in tensors], u32),
            ),
            Steps(
                Names.of([s.name for s in steps]), build_column(op, u32),
                build_column([PARTS.index(s.part) for s in steps], u8),
                build_column([s.access.body for s in steps], u32),
                *(rows for listed in lists for rows in flatten_rows(listed)), *ordered,
            ),
            Bodies(
                Names.of(list(self.bodies)), build_column([NONE, *(a.parent for a in arms[1:])], u32),
                _or_none([a.enter for a in arms]), _or_none([a.leave for a in arms]),
                build_column([a.iterates for a in arms], u8), build_column([a.exclusive for a in arms], u8),
            ),
            tuple(self.unproduced), tuple(streams),
        )  # fmt: skip


def build_storages(rows: Sequence[tuple[int, ...]]) -> Storages:
    """Build the table from rows (arena, bytes, alignment, birth, death, offset)."""
    u32, u64 = np.uint32, np.uint64
    arena, size, alignment, birth, death, offset = ([row[k] for row in rows] for k in range(6))
    return Storages(
        build_column(arena, u32), build_column(size, u64), build_column(alignment, u64), build_column(birth, u32),
        build_column(death, u32),
        build_column(offset, u64),
    )  # fmt: skip


def _locations(tensors: list[StatedTensor]) -> list[Location]:
    """Locate each tensor: in the storage of its base, if its address is that of base plus window, otherwise in its own.

    A tensor whose address differs from its base's gets a separate storage and keeps the sharing that it declares, as in
    a binary plan; the checker reports the error. O(tensors).
    """
    locations: list[Location | None] = [None] * len(tensors)
    for start in range(len(tensors)):
        chain, t = [], start
        while locations[t] is None and tensors[t].of != NONE:
            chain.append(t)
            if len(chain) > len(tensors):
                what = "it shares with itself, through other tensors"
                raise MisplacedTensor(start, what, "share with a tensor that does not share", is_circular=True)
            t = tensors[t].of
        locations[t] = locations[t] or Location(t, 0)
        for t in reversed(chain):
            row = tensors[t]
            base = locations[row.of]
            assert base is not None  # the chain ends where an address is known
            window = base.window + row.shift
            root = tensors[base.root]
            if window + row.bytes >= UINT64_END:
                raise MisplacedTensor(t, "it ends beyond 64 bits", "correct its shift", is_circular=False)
            fits = (row.arena, row.offset) == (root.arena, root.offset + window)
            locations[t] = Location(base.root, window) if fits else Location(t, 0)
    return [location for location in locations if location is not None]


def _form_storages(tensors: list[StatedTensor], locations: list[Location], live: Lives) -> tuple[Storages, list[int]]:
    """Form the storages in the order of their first members, and the storage of each tensor. spec: T2.1"""
    number: dict[int, int] = {}
    storage = [number.setdefault(location.root, len(number)) for location in locations]
    rows = [[tensors[t].arena, 0, 1, live.birth[t], 0, tensors[t].offset] for t in number]
    for t, (k, location) in enumerate(zip(storage, locations, strict=True)):
        row = rows[k]
        row[1], row[2] = max(row[1], location.window + tensors[t].bytes), max(row[2], tensors[t].alignment)
        row[3], row[4] = min(row[3], live.birth[t]), max(row[4], live.death[t])
    return build_storages([tuple(row) for row in rows]), storage


def _or_none(values: list[int]) -> U32:
    return build_column([NONE if x == NO_STEP else x for x in values], np.uint32)
