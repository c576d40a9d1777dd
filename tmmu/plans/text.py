"""A plan as text, a statement a line (`spec/text-plan.md`): what `.plan.txt` files hold, read here and written by
`tmmu.plans.text_writer`.

A text states what a person decides: where each tensor lies, what it shares, and the steps. Storages and lifetimes
follow from that (T1, T2) and are worked out here; what they come to is a plan like any other and goes through the
gate. spec: X2.1, X2.2, X2.3, X2.4, X2.5, X2.6, X2.7
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tmmu.core.columns import NONE, U32, Names, column, index_of, ragged
from tmmu.core.dtypes import TYPES, element_alignment
from tmmu.core.statements import ARROW, Format, TextLine, operator, statements
from tmmu.core.vocabulary import MAIN, UINT64_END, NodePart, Role, Shares
from tmmu.plans.allocation import Allocation, Arena, Buffers
from tmmu.plans.columns import (
    IS_INPUT,
    IS_OUTPUT,
    IS_RETURNED,
    IS_SAVED,
    PARTS,
    ROLES,
    SHARES,
    Bodies,
    Steps,
    Storages,
    Tensors,
)  # fmt: skip
from tmmu.plans.lifetimes import NO_STEP, Access, BodySpan, Lives, lives
from tmmu.plans.sections import BufferPlan, Claims, Plan, Usage

FORMAT = Format("tmmu-plan-text", 1, "INVALID_PLAN", frozenset(
    ("input", "output", "parameter", "optimizer", "gradient", "scratch", "saved", "stash", "donated", "align", "type",
     "view", "inplace", "alias", "changes", "live", "loop", "exclusive", "body", "persistent", "scattered"),
))  # fmt: skip
"""The first line of a text plan, and the words that a name must be quoted to be."""

GRAPH = ("step", "begin", "arm", "end")
STATEMENTS = ("arena", "tensor", "buffer", *GRAPH, "apart", "claim", "unproduced")
ROLE_WORDS = {str(role): role for role in Role if role is not Role.ACTIVATION}
FLAGS = {"input": IS_INPUT, "output": IS_OUTPUT | IS_RETURNED, "saved": IS_SAVED | IS_RETURNED, "stash": IS_SAVED}
"""What a word makes of a tensor's flags: `stash` is what backward steps of the plan itself read, `saved` the caller."""
LINKS = {"view": Shares.VIEW, "inplace": Shares.IN_PLACE, "alias": Shares.ALIAS}
MARKS = frozenset((*ROLE_WORDS, *FLAGS, *LINKS, "donated", "align", "type"))
CLAIMS = {"slots": "slots", "footprint": "footprint", "peak": "peak_live_bytes"}
CALLERS = (Role.INPUT, Role.PARAMETER, Role.OPTIMIZER)
KEPT = (Role.PARAMETER, Role.OPTIMIZER)


class TextTensor(NamedTuple):
    """A tensor as it is stated; `of` is the row that it shares with, `shift` the byte of it at which it begins."""

    name: str
    bytes: int
    arena: int
    offset: int
    role: Role
    flags: int
    dtype: str
    alignment: int
    shares: Shares
    of: int
    shift: int


class Location(NamedTuple):
    """Where a tensor lies: the row whose storage it is in, and the byte there."""

    root: int
    window: int


def read(data: bytes, file: str) -> Plan | BufferPlan:
    """The plan that a text states, lifetimes and storages worked out. O(bytes).

    Raises INVALID_PLAN with FILE:LINE:COLUMN as the file.
    """
    found: dict[str, list[TextLine]] = {word: [] for word in STATEMENTS}
    for statement in statements(data, file, FORMAT):
        word = statement.take("a statement")
        if word not in found:
            raise statement.refuse(f"unknown statement {word}", f"use one of {', '.join(STATEMENTS)}")
        # What makes up the steps is one list: the order of its lines is the execution order.
        found["step" if word in GRAPH else word].append(statement)
    return _Reading(found).plan()


class _Reading:
    """A plan in the making; `found` are the statements by their first word, in the order of the lines."""

    def __init__(self, found: dict[str, list[TextLine]]) -> None:
        self.found = found
        self.arenas: list[Arena] = []
        self.arena_rows: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        self.steps: list[tuple[str, tuple[str, str], NodePart]] = []
        self.accesses: list[Access] = []
        self.mutates: list[tuple[int, ...]] = []
        self.arms = [BodySpan(MAIN, NO_STEP, NO_STEP, 0, 0, False, False)]
        self.body_rows = {"": MAIN}
        self.nodes: set[str] = set()

    def plan(self) -> Plan | BufferPlan:
        for statement in self.found["arena"]:
            name = statement.new(self.arena_rows, "arena")
            self.arena_rows[name] = len(self.arenas)
            capacity, alignment = statement.integer("a capacity in bytes", 1), 1
            words = set()
            for word in statement.words(("align", "persistent", "scattered")):
                words.add(word)
                if word == "align":
                    alignment = statement.alignment()
            self.arenas.append(Arena(name, capacity, alignment, "persistent" not in words, "scattered" in words))
        if self.found["buffer"]:
            for word in ("tensor", "step", "unproduced"):
                for statement in self.found[word]:
                    raise statement.refuse(f"{word} beside buffer: a plan has steps or lifetimes, not both")
            return BufferPlan(self.buffers(), self.claims())
        for row, statement in enumerate(self.found["tensor"]):
            self.rows[statement.new(self.rows, "tensor")] = row
        tensors = [self.tensor(*item) for item in zip(self.rows, self.found["tensor"], strict=True)]
        self.graph()
        return Plan(self.allocation(tensors), self.claims())

    def placed(self, statement: TextLine) -> tuple[int, int, int]:
        """`BYTES ARENA OFFSET`."""
        return statement.integer("bytes"), statement.row(self.arena_rows, "arena"), statement.integer("an offset")

    def tensor(self, name: str, statement: TextLine) -> TextTensor:
        """One line. spec: X2.2"""
        size, arena, offset = self.placed(statement)
        role: Role | None = None
        flags, dtype, alignment, link, donated = 0, "uint8", None, (Shares.NONE, NONE, 0), False
        for word in statement.words(MARKS):
            donated |= word == "donated"
            if word in ROLE_WORDS:
                role = statement.role(role, ROLE_WORDS[word])
            flags |= FLAGS.get(word, 0)
            if word == "align":
                alignment = statement.alignment()
            elif word == "type":
                dtype = statement.choice(TYPES, "an element type")
            elif word in LINKS:
                if link[1] != NONE:
                    raise statement.refuse("it shares with two tensors", "write one of view, inplace and alias")
                of = statement.row(self.rows, "tensor")
                link = LINKS[word], of, statement.integer("a byte of the base") if word == "view" else 0
        # What the caller keeps it reads again at the end, unless it gives it up, which only the caller can state.
        flags |= IS_RETURNED if role in KEPT and not donated else 0
        alignment = element_alignment(dtype) if alignment is None else alignment
        return TextTensor(name, size, arena, offset, role or Role.ACTIVATION, flags, dtype, alignment, *link)

    def buffers(self) -> Buffers:
        """Lifetimes without accesses. spec: X2.6"""
        rows: list[tuple[int, ...]] = []
        for statement in self.found["buffer"]:
            self.rows[statement.new(self.rows, "buffer")] = len(rows)
            size, arena, offset = self.placed(statement)
            statement.expect("live")
            birth = statement.integer("a step", 0, NONE)
            death = statement.integer("a step", birth, NONE)
            alignment = statement.alignment() if statement.taken("align") else 1
            statement.end()
            rows.append((arena, size, alignment, birth, death, offset))
        return Buffers(tuple(self.arenas), _storages(rows), self.apart(), Names.of(list(self.rows)))

    def apart(self) -> tuple[tuple[int, int], ...]:
        what = "buffer" if self.found["buffer"] else "tensor"
        return tuple(statement.pair(self.rows, what) for statement in self.found["apart"])

    def claims(self) -> Claims | None:
        """What is claimed of each arena, absent where nothing is. spec: X2.7"""
        usage = [Usage()] * len(self.arenas)
        for statement in self.found["claim"]:
            field = statement.choice(CLAIMS, "a claim")
            arena = statement.row(self.arena_rows, "arena")
            if getattr(usage[arena], field) is not None:
                raise statement.refuse("it is claimed twice", "claim it once")
            claimed: dict[str, Any] = {field: statement.integer("a number")}
            usage[arena] = usage[arena]._replace(**claimed)
            statement.end()
        return Claims(tuple(usage)) if self.found["claim"] else None

    def graph(self) -> None:
        """Steps and bodies, by a stack of the nodes that are open. spec: X2.3, X2.4"""
        opened: list[tuple[TextLine, int, list[int]]] = []
        body = MAIN
        for statement in self.found["step"]:
            word = statement.first
            if word in ("step", "begin"):
                self.nodes.add(name := statement.new(self.nodes, "step"))
                op = operator(statement.name("an operator"))
                self.step(statement, name, op, NodePart.WHOLE if word == "step" else NodePart.ENTER, body)
                if word == "begin":
                    opened.append((statement, body, []))
                    words = {"loop": False, "exclusive": False}
                    given = None
                    for option in statement.words((*words, "body")):
                        words |= {option: True} if option in words else {}
                        given = statement.new(self.body_rows, "body") if option == "body" else given
                    if all(words.values()):
                        raise statement.refuse("arms of a node that iterates are not exclusive", "drop one of the two")
                    body = self.arm(statement, opened[-1], name, given, words["loop"], words["exclusive"])
                else:
                    statement.end()
                continue
            if not opened:
                raise statement.refuse(f"{word} without begin", "write begin before it")
            _, outer, mine = opened[-1]
            arm = self.arms[mine[-1]]
            self.arms[mine[-1]] = arm._replace(end=len(self.steps))
            name, op, _ = self.steps[arm.enter]
            if word == "arm":
                given = None if statement.peek() is None else statement.new(self.body_rows, "body")
                statement.end()
                body = self.arm(statement, opened[-1], name, given, arm.iterates, arm.exclusive)
                continue
            if (ended := statement.name("a step")) != name:
                raise statement.refuse(f"{ended!r} is ended, {name!r} is open")
            for b in mine:
                self.arms[b] = self.arms[b]._replace(leave=len(self.steps))
            self.step(statement, name, op, NodePart.LEAVE, outer)
            statement.end()
            opened.pop()
            body = outer
        if opened:
            raise opened[-1][0].refuse("it has no end", "write end NAME", 0)

    def arm(
        self, statement: TextLine, opened: tuple[TextLine, int, list[int]], node: str, given: str | None,
        iterates: bool, exclusive: bool,
    ) -> int:  # fmt: skip
        """Begin a body, named `NODE/K` where no name is given."""
        _, outer, mine = opened
        enter = self.arms[mine[0]].enter if mine else len(self.steps) - 1
        name = f"{node}/{len(mine)}" if given is None else given
        if name in self.body_rows:
            raise statement.refuse(f"body {name!r} twice", "give each one a name of its own")
        self.body_rows[name] = len(self.arms)
        mine.append(len(self.arms))
        self.arms.append(BodySpan(outer, enter, NO_STEP, len(self.steps), NO_STEP, iterates, exclusive))
        return mine[-1]

    def step(self, statement: TextLine, name: str, op: tuple[str, str], part: NodePart, body: int) -> None:
        """`READS -> WRITES [changes NAMES]`, the name and the operator apart."""
        reads = statement.rows(self.rows, "tensor")
        statement.expect(ARROW)
        writes = statement.rows(self.rows, "tensor")
        changed: tuple[int, ...] = ()
        if statement.taken("changes"):
            changed = statement.rows(self.rows, "tensor")
            if not changed or not set(changed) <= set(writes):
                raise statement.refuse("a step changes tensors that it writes", "list each among the writes as well")
        self.steps.append((name, op, part))
        self.accesses.append(Access(body, reads, writes))
        self.mutates.append(changed)

    def allocation(self, tensors: list[TextTensor]) -> Allocation:
        """The tables. spec: X2.5"""
        callers = [row.role in CALLERS for row in tensors]
        kept = [row.role in KEPT or bool(row.flags & IS_RETURNED) for row in tensors]
        live = lives(self.accesses, self.arms, callers, kept)
        locations = _locations(tensors, self.found["tensor"])
        ops, op = index_of([op for _, op, _ in self.steps])
        types, dtype = index_of([row.dtype for row in tensors])
        storages, storage = _formed(tensors, locations, live)
        lists = [[getattr(a, name) for a in self.accesses] for name in ("reads", "writes")]
        u8, u32, u64 = np.uint8, np.uint32, np.uint64
        return Allocation(
            tuple(self.arenas), storages, self.apart(), tuple(ops), tuple(types),
            Tensors(
                Names.of([row.name for row in tensors]), column(dtype, u8),
                column([ROLES.index(row.role) for row in tensors], u8), column([row.flags for row in tensors], u8),
                column([row.bytes for row in tensors], u64), column([row.alignment for row in tensors], u64),
                column(live.birth, u32), column(live.death, u32), column(storage, u32),
                column([location.window for location in locations], u64), _or_none(live.writer),
                column([SHARES.index(row.shares) for row in tensors], u8), column([row.of for row in tensors], u32),
            ),
            Steps(
                Names.of([name for name, _, _ in self.steps]), column(op, u32),
                column([PARTS.index(part) for _, _, part in self.steps], u8),
                column([a.body for a in self.accesses], u32),
                *(table for rows in (*lists, self.mutates) for table in ragged(rows)),
            ),
            self.bodies(),
            tuple(statement.last("a name") for statement in self.found["unproduced"]),
        )  # fmt: skip

    def bodies(self) -> Bodies:
        arms = self.arms
        return Bodies(
            Names.of(list(self.body_rows)), column([NONE, *(a.parent for a in arms[1:])], np.uint32),
            _or_none([a.enter for a in arms]), _or_none([a.leave for a in arms]),
            column([a.iterates for a in arms], np.uint8), column([a.exclusive for a in arms], np.uint8),
        )  # fmt: skip


def _locations(tensors: list[TextTensor], lines: list[TextLine]) -> list[Location]:
    """Where each tensor lies: in the storage of its base, if its address is that of base and window, else in its own.

    A tensor elsewhere than its base is a storage of its own with the sharing that it states, as it would be in a
    binary plan; the checker reports what is wrong with it. O(tensors).
    """
    locations: list[Location | None] = [None] * len(tensors)
    for start in range(len(tensors)):
        chain, t = [], start
        while locations[t] is None and tensors[t].of != NONE:
            chain.append(t)
            if len(chain) > len(tensors):
                raise lines[start].refuse("it shares with itself, by way of others", "share with what is not shared", 1)
            t = tensors[t].of
        locations[t] = locations[t] or Location(t, 0)
        for t in reversed(chain):
            row = tensors[t]
            base = locations[row.of]
            assert base is not None  # the chain ends where an address is known
            window = base.window + row.shift
            root = tensors[base.root]
            if window + row.bytes >= UINT64_END:
                raise lines[t].refuse("it ends beyond 64 bits", "correct its shift")
            fits = (row.arena, row.offset) == (root.arena, root.offset + window)
            locations[t] = Location(base.root, window) if fits else Location(t, 0)
    return [location for location in locations if location is not None]


def _formed(tensors: list[TextTensor], locations: list[Location], live: Lives) -> tuple[Storages, list[int]]:
    """The storages in the order of their first members, and the one of each tensor. spec: T2.1"""
    number: dict[int, int] = {}
    storage = [number.setdefault(location.root, len(number)) for location in locations]
    rows = [[tensors[t].arena, 0, 1, live.birth[t], 0, tensors[t].offset] for t in number]
    for t, (k, location) in enumerate(zip(storage, locations, strict=True)):
        row = rows[k]
        row[1], row[2] = max(row[1], location.window + tensors[t].bytes), max(row[2], tensors[t].alignment)
        row[3], row[4] = min(row[3], live.birth[t]), max(row[4], live.death[t])
    return _storages([tuple(row) for row in rows]), storage


def _storages(rows: list[tuple[int, ...]]) -> Storages:
    """The table of rows (arena, bytes, alignment, birth, death, offset)."""
    u32, u64 = np.uint32, np.uint64
    arena, size, alignment, birth, death, offset = ([row[k] for row in rows] for k in range(6))
    return Storages(
        column(arena, u32), column(size, u64), column(alignment, u64), column(birth, u32), column(death, u32),
        column(offset, u64),
    )  # fmt: skip


def _or_none(values: list[int]) -> U32:
    return column([NONE if x == NO_STEP else x for x in values], np.uint32)
