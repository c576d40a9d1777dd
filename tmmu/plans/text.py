"""Read a plan as text, a statement a line (`spec/text-plan.md`): the contents of `.plan.txt` files.

A text states what a person decides: the address of each tensor, its sharing, and the steps. Storages and lifetimes
follow from these (T1, T2) and are computed here. The result is a plan like any other and goes through the gate.
`tmmu.plans.text_writer` writes this format; the writer in C is `spec/plan_text.h`.
spec: FP10.1 to FP10.4, X2.1, X2.2, X2.3, X2.4, X2.5, X2.6, X2.7, X2.9, X2.10, X2.11, X2.12, X2.13, X2.14
"""

from __future__ import annotations

from typing import Any

from tmmu.core.columns import NONE, Names
from tmmu.core.dtypes import TYPES, element_alignment
from tmmu.core.statements import ARROW, Format, TextLine, format_operator, parse_operator, statements
from tmmu.core.streams import ORDER_WORDS, WAIT, StreamOrder, StreamReader, find_rows
from tmmu.core.vocabulary import ARRIVAL, MAX_BODY_DEPTH, Role, Shares
from tmmu.plans.allocation import Arena, Buffers
from tmmu.plans.building import KEPT, AllocationBuilder, MisplacedTensor, StatedTensor, build_storages
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED, IS_SAVED
from tmmu.plans.sections import BufferPlan, Claims, Plan, Usage

FORMAT = Format("tmmu-plan-text", 1, "INVALID_PLAN", frozenset(
    ("input", "output", "parameter", "optimizer", "gradient", "scratch", "saved", "stash", "donated", "align", "type",
     "view", "inplace", "alias", "changes", "live", "loop", "exclusive", "body", "persistent", "scattered",
     *ORDER_WORDS),
), frozenset(ORDER_WORDS))  # fmt: skip
"""The first line of a text plan, and the words that must be quoted if they are names."""

GRAPH = ("step", "start", "wait", "begin", "arm", "end")
STATEMENTS = ("arena", "tensor", "buffer", *GRAPH, "apart", "claim", "unproduced")
ROLE_WORDS = {str(role): role for role in Role if role is not Role.ACTIVATION}
FLAGS = {
    "input": IS_INPUT, "output": IS_OUTPUT | IS_RETURNED, "saved": IS_SAVED | IS_RETURNED, "stash": IS_SAVED,
    "kept": IS_RETURNED,
}  # fmt: skip
"""The flags that a word sets: backward steps of the plan itself read `stash` tensors, the caller reads `saved` ones
and `kept` inputs once more at the end.
"""
LINKS = {"view": Shares.VIEW, "inplace": Shares.IN_PLACE, "alias": Shares.ALIAS}
MARKS = frozenset((*ROLE_WORDS, *FLAGS, *LINKS, "donated", "align", "type", "from"))
CLAIMS = {"slots": "slots", "footprint": "footprint", "peak": "peak_live_bytes"}


def read(data: bytes, file: str) -> Plan | BufferPlan:
    """Read the plan that a text states, and compute lifetimes and storages. O(bytes).

    Raises INVALID_PLAN with FILE:LINE:COLUMN as the file.
    """
    found: dict[str, list[TextLine]] = {word: [] for word in STATEMENTS}
    for statement in statements(data, file, FORMAT):
        word = statement.take("a statement")
        if word not in found:
            raise statement.refuse(f"unknown statement {word}", f"use one of {', '.join(STATEMENTS)}")
        # The statements of steps form one list: the order of its lines is the execution order.
        found["step" if word in GRAPH else word].append(statement)
    return _Builder(found).plan()


class _Builder:
    """A plan under construction; `found` are the statements by their first word, in the order of the lines."""

    def __init__(self, found: dict[str, list[TextLine]]) -> None:
        self.found = found
        self.building = AllocationBuilder()
        self.arenas = self.building.arenas
        self.arena_rows: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        self.nodes: set[str] = set()
        self.streams = StreamReader("step")
        self.late: dict[str, list[int]] = {}  # the inputs that arrive directly before each step
        self.ended: dict[str, int] = {}  # the step at which each node ends

    def plan(self) -> Plan | BufferPlan:
        for statement in self.found["arena"]:
            name = statement.new(self.arena_rows, "arena")
            self.arena_rows[name] = len(self.arenas)
            capacity, alignments = statement.integer("a capacity in bytes", 1), dict[str, int]()
            words = set()
            for word in statement.words(("align", "base", "persistent", "scattered")):
                words.add(word)
                if word in ("align", "base"):
                    alignments[word] = statement.alignment()
            alignment = alignments.get("align", 1)
            # `align 1` states that any base will do; an arena without `align` and `base` states nothing of its base.
            base = alignments.get("base", 1 if alignments == {"align": 1} else 0)
            self.arenas.append(Arena(name, capacity, alignment, "persistent" not in words, "scattered" in words, base))
        if self.found["buffer"]:
            for word in ("tensor", "step", "unproduced"):
                for statement in self.found[word]:
                    raise statement.refuse(f"{word} beside buffer: a plan has steps or lifetimes, not both")
            return BufferPlan(self.buffers(), self.claims())
        for row, statement in enumerate(self.found["tensor"]):
            self.rows[statement.new(self.rows, "tensor")] = row
        self.building.tensors += [self.tensor(*item) for item in zip(self.rows, self.found["tensor"], strict=True)]
        self.graph()
        self.building.apart += self.apart()
        self.building.unproduced += [statement.last("a name") for statement in self.found["unproduced"]]
        try:
            return Plan(self.building.allocation(), self.claims())
        except MisplacedTensor as error:
            mark = 1 if error.is_circular else None
            raise self.found["tensor"][error.row].refuse(error.what, error.fix, mark) from error

    def _take_place(self, statement: TextLine) -> tuple[int, int, int]:
        """Take `BYTES ARENA OFFSET`."""
        return statement.integer("bytes"), statement.row(self.arena_rows, "arena"), statement.integer("an offset")

    def tensor(self, name: str, statement: TextLine) -> StatedTensor:
        """Read the line of a tensor. spec: X2.2"""
        size, arena, offset = self._take_place(statement)
        role: Role | None = None
        flags, dtype, alignment, link, donated, kept = 0, "uint8", None, (Shares.NONE, NONE, 0), False, False
        for word in statement.words(MARKS):
            donated |= word == "donated"
            kept |= word == "kept"
            if word in ROLE_WORDS:
                role = statement.role(role, ROLE_WORDS[word])
            flags |= FLAGS.get(word, 0)
            if word == "from":
                if role is not Role.INPUT:
                    raise statement.refuse("only an input arrives late", "write input from STEP")
                self.late.setdefault(statement.name("a step"), []).append(self.rows[name])
            if word == "align":
                alignment = statement.alignment()
            elif word == "type":
                dtype = statement.choice(TYPES, "an element type")
            elif word in LINKS:
                if link[1] != NONE:
                    raise statement.refuse("it shares with two tensors", "write one of view, inplace and alias")
                of = statement.row(self.rows, "tensor")
                link = LINKS[word], of, statement.integer("a byte of the base") if word == "view" else 0
        if kept and (role is not Role.INPUT or donated):
            raise statement.refuse("kept is about inputs that the caller does not donate", "drop one of the words")
        # The caller reads the tensors that it keeps again at the end, unless it donates them, which only the caller can
        # state.
        flags |= IS_RETURNED if role in KEPT and not donated else 0
        alignment = element_alignment(dtype) if alignment is None else alignment
        return StatedTensor(name, size, arena, offset, role or Role.ACTIVATION, flags, dtype, alignment, *link)

    def buffers(self) -> Buffers:
        """Read lifetimes without accesses. spec: X2.6"""
        rows: list[tuple[int, ...]] = []
        for statement in self.found["buffer"]:
            self.rows[statement.new(self.rows, "buffer")] = len(rows)
            size, arena, offset = self._take_place(statement)
            statement.expect("live")
            birth = statement.integer("a step", 0, NONE)
            death = statement.integer("a step", birth, NONE)
            alignment = statement.alignment() if statement.taken("align") else 1
            statement.end()
            rows.append((arena, size, alignment, birth, death, offset))
        return Buffers(tuple(self.arenas), build_storages(rows), self.apart(), Names.of(list(self.rows)))

    def apart(self) -> tuple[tuple[int, int], ...]:
        what = "buffer" if self.found["buffer"] else "tensor"
        return tuple(statement.pair(self.rows, what) for statement in self.found["apart"])

    def claims(self) -> Claims | None:
        """Read the claims about each arena; None without any. spec: X2.7"""
        usage = [Usage()] * len(self.arenas)
        for statement in self.found["claim"]:
            field = statement.choice(CLAIMS, "a claim")
            arena = statement.row(self.arena_rows, "arena")
            if getattr(usage[arena], field) is not None:
                raise statement.refuse("the claim occurs twice", "claim it once")
            claimed: dict[str, Any] = {field: statement.integer("a number")}
            usage[arena] = usage[arena]._replace(**claimed)
            statement.end()
        return Claims(tuple(usage)) if self.found["claim"] else None

    def graph(self) -> None:
        """Read steps and bodies, in the order of the lines. spec: X2.3, X2.4"""
        begun: list[TextLine] = []
        for statement in self.found["step"]:
            word = statement.first
            if word == "arm":
                self._arm(statement, begun)
            elif word == "end":
                self._end(statement, begun)
            else:
                if word in ("start", "wait") and begun:
                    raise statement.refuse(f"{word} inside of a body is not supported", "write step", 0)
                self.nodes.add(name := statement.new(self.nodes, "step"))
                late = self._add_arrivals(statement, name, bool(begun) or word in ("start", "wait"))
                order = {"step": self._step, "start": self._start, "wait": self._wait, "begin": self._begin}[word](
                    statement, name
                )
                if word == "begin":
                    begun.append(statement)
                if order.stream:
                    if late:
                        what = f"{self.building.tensors[late[0]].name!r} cannot arrive with a step on a stream"
                        fix = f"write step NAME {format_operator(*ARRIVAL)} -> INPUTS on a stream before it"
                        raise statement.refuse(what, fix, 0)
                    after = find_rows(statement, order.after, self.ended, self.found["step"])
                    self.building.place_on_stream(order.stream, after)
                if word != "begin" and not begun:
                    self.ended[name] = len(self.building.steps) - 1
        if begun:
            raise begun[-1].refuse("begin without end", "write end NAME", 0)
        for name, (row, *_) in self.late.items():
            raise self.found["tensor"][row].refuse(f"no line declares the step {name!r}", f"add one: step {name} …")
        self.streams.end()

    def _add_arrivals(self, statement: TextLine, name: str, is_apart: bool) -> list[int]:
        """Add the arrivals of the inputs that come with a step, before it; return these inputs. spec: X2.14"""
        late = self.late.pop(name, [])
        if late and is_apart:
            what = f"{self.building.tensors[late[0]].name!r} cannot arrive inside of a body or on a stream"
            fix = f"write step NAME {format_operator(*ARRIVAL)} -> INPUTS before it, or name another step"
            raise statement.refuse(what, fix, 0)
        for t in late:
            arrival = f"{self.building.tensors[t].name}.arrival"
            if arrival in self.nodes:
                raise statement.refuse(f"step {arrival!r} is declared twice", "rename that step", 0)
            self.nodes.add(arrival)
            self.building.step(arrival, ARRIVAL, (), (t,))
            self.ended[arrival] = len(self.building.steps) - 1
        return late

    def _step(self, statement: TextLine, name: str) -> StreamOrder:
        """Read a step and what it waits for."""
        op = parse_operator(statement.name("an operator"))
        self.building.step(name, op, *self._take_accesses(statement))
        return self._add_order(statement, name, self._take_order(statement))

    def _start(self, statement: TextLine, name: str) -> StreamOrder:
        """Read an asynchronous operation. spec: X5.8"""
        op = parse_operator(statement.name("an operator"))
        self.building.step(name, op, *self._take_accesses(statement))
        return self.streams.start(statement, name, self._take_order(statement))

    def _wait(self, statement: TextLine, name: str) -> StreamOrder:
        """Read the step that waits for an asynchronous operation. spec: X5.8"""
        started = self.streams.take_started(statement)
        self.building.step(name, WAIT, (), ())
        return self.streams.wait(statement, name, started, self._take_order(statement))

    def _begin(self, statement: TextLine, name: str) -> StreamOrder:
        """Read the beginning of a node with bodies."""
        if self.building.depth == MAX_BODY_DEPTH:  # the gate refuses it too, after work for all pairs of open nodes
            raise statement.refuse(f"nodes with bodies nest deeper than {MAX_BODY_DEPTH}", "write a flatter plan")
        op = parse_operator(statement.name("an operator"))
        reads, writes, changes = self._take_accesses(statement)
        words, order = {"loop": False, "exclusive": False}, StreamOrder()
        given, is_inside = f"{name}/0", bool(self.building.depth)
        for option in statement.words((*words, "body", *ORDER_WORDS)):
            words |= {option: True} if option in words else {}
            given = statement.new(self.building.bodies, "body") if option == "body" else given
            order = self.streams.take_word(statement, option, order) if option in ORDER_WORDS else order
        if all(words.values()):
            raise statement.refuse("branches of a node that iterates cannot be exclusive", "drop one of the two")
        self.building.begin(
            name, op, reads, writes, iterates=words["loop"], exclusive=words["exclusive"],
            body=self._check_new_body(statement, given), changes=changes,
        )  # fmt: skip
        return self._add_order(statement, name, order, is_inside)

    def _arm(self, statement: TextLine, begun: list[TextLine]) -> None:
        """Read the beginning of a further body."""
        if not begun:
            raise statement.refuse("arm without begin", "write begin before it")
        given = self.building.next_body
        given = given if statement.peek() is None else statement.new(self.building.bodies, "body")
        statement.end()
        self.building.arm(self._check_new_body(statement, given))

    def _end(self, statement: TextLine, begun: list[TextLine]) -> None:
        """Read the end of a node with bodies."""
        if not begun:
            raise statement.refuse("end without begin", "write begin before it")
        if (ended := statement.name("a step")) != self.building.opened:
            raise statement.refuse(f"expected the end of {self.building.opened!r}, got the end of {ended!r}")
        self.building.end(*self._take_accesses(statement))
        statement.end()
        begun.pop()
        if not begun:
            self.ended[ended] = len(self.building.steps) - 1

    def _take_order(self, statement: TextLine) -> StreamOrder:
        """Take `[on STREAM] [after STEPS]`, which end the line."""
        found = StreamOrder()
        for word in statement.words(ORDER_WORDS):
            found = self.streams.take_word(statement, word, found)
        return found

    def _add_order(
        self, statement: TextLine, name: str, order: StreamOrder, is_inside: bool | None = None
    ) -> StreamOrder:  # fmt: skip
        """Check the stream of a step, or that a step inside of a body states none; return what it states."""
        if self.building.depth if is_inside is None else is_inside:
            self.streams.refuse_inside(statement, order)
            return order
        return self.streams.add(statement, name, order)

    def _check_new_body(self, statement: TextLine, body: str) -> str:
        """Check that no other body has this name, and return it."""
        if body in self.building.bodies:
            raise statement.refuse(f"body {body!r} is declared twice", "give each a different name")
        return body

    def _take_accesses(self, statement: TextLine) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Take `READS -> WRITES [changes NAMES]`."""
        reads = statement.rows(self.rows, "tensor")
        statement.expect(ARROW)
        writes = statement.rows(self.rows, "tensor")
        changed: tuple[int, ...] = ()
        if statement.taken("changes"):
            changed = statement.rows(self.rows, "tensor")
            if not changed or not set(changed) <= set(writes):
                raise statement.refuse(
                    "the changes of a step must be among its writes", "list each of them among the writes as well"
                )
        return reads, writes, changed
