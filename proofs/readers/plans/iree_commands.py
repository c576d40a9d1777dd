"""The commands of an execute in IREE's dumps, and the other uses of slices: files that are read, and the host.

Each child of a concurrent region is on a separate stream. It begins after all commands before the region, and the
commands behind the region wait for it. In branches, and if commands at once use different parts of a slice that one of
them writes, a region is one step. If two of its commands touch the same bytes at once and one writes, that step writes
over the bytes that it uses, which is refuted. spec: FP9.4, FP9.5, FP9.8, FP9.14
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.readers.plans.iree_slices import DOMAIN, DumpState, FunctionMemory
from proofs.readers.plans.iree_text import SSA
from proofs.readers.plans.iree_values import NEVER, EndedExecutes, RegionPath, SliceAccess, at_once, in_order

OPERAND = re.compile(
    r"\s*+(ro|wo|rw) (%[\w$.#-]++)\[(%[\w$.#-]++) for (%[\w$.#-]++)\]"
    r"(?: : !stream\.resource<[^>]*+>(?:\{%[\w$.#-]++\})?)?,?", re.ASCII,
)  # fmt: skip
"""A whole line of a dispatch."""
WINDOW = re.compile(r"(%[\w$.#-]++)\[(%[\w$.#-]++)(?: for (%[\w$.#-]++))?\]", re.ASCII)
BOUND = re.compile(r"(%[\w$.#-]++) as (%[\w$.#-]++): !stream\.resource<[^>]*+>(?:\{(%[\w$.#-]++)\})?", re.ASCII)
ELEMENT = re.compile(r": (?:i|f|bf|u|si|ui)(\d{1,3})\b|-> (?:i|f|bf|u|si|ui)(\d{1,3})\b", re.ASCII)
UNKNOWN = "a window at an offset that is not a constant counts as all of its slice or resource, part of which stays"
REGIONS = "a concurrent region in a branch, or with commands in parts of a slice, counts as one step"


@dataclass
class _Region:
    """An open brace of an execute: its kind and number, the number of its next child, and the names that it defines."""

    kind: str
    number: int = 0
    child: int = 0
    results: list[str] = field(default_factory=list)


class _Command(NamedTuple):
    """A command of a concurrent region: its label, line and accesses, and the concurrent regions around it."""

    label: str
    line: int
    accesses: list[SliceAccess]

    @property
    def path(self) -> RegionPath:
        """The concurrent regions around it, which are those of its accesses."""
        return self.accesses[0].path


@dataclass
class _Thread:
    """Commands in their order: their lane, and for each lane the last step that has ended before the next command."""

    lane: str
    ended: dict[str, int]


class FunctionCommands(FunctionMemory):
    """A function's executes: the regions that are open, and the accesses of the step at hand."""

    def __init__(self, dump: DumpState, after: tuple[int, str], before: tuple[int, str] | None) -> None:
        super().__init__(dump, after, before)
        self.open: list[_Region] = []
        self.regions = 0
        self.current = NEVER
        self.accesses: list[SliceAccess] = []
        self.commands: list[_Command] = []
        """The commands so far of the outermost concurrent region that is open."""
        self.unordered: set[int] = set()
        self.either: set[int] = set()
        """The cells that may be written, since the name that is written may be one of several."""
        self.made_by: dict[int, int] = {}
        """The line that wrote a slice first, and all of it. If the line runs again, it writes all of it again."""
        self.touched: dict[int, tuple[int, int]] = {}
        """For each memory, the executes that touch it and those that write it, as bits."""

    def execute(self, body: str, results: list[str]) -> None:
        """Begin `stream.cmd.execute … await(%t) => with(%r as %arg: …) {`. spec: FP9.4"""
        if not body.endswith("{"):
            raise self.refuse("expected the commands of an execute")
        head, _, bound = body.partition("with(")
        self.current = self.now.host | self.find_ended_executes(SSA.findall(head))
        for value, name, size in BOUND.findall(bound):
            if value not in self.references and size in self.constants:
                self.external_resource(value, self.constants[size], self.constants[size])
            self.references[name] = self.known(value)
        self.open.append(_Region("execute", results=results))

    def file(self, body: str, old: str, results: list[str]) -> None:
        """Run `stream.file.read … await(%t) => %file[…], %r[%offset], %length : …`, a read of constants. spec: FP9.4"""
        head, _, what = body.partition("=>")
        windows, earlier = WINDOW.findall(what), WINDOW.findall(old.partition("=>")[2])
        if len(windows) != 2 or len(earlier) != 2:
            raise self.refuse("expected a file and the window of a resource")
        self.current = self.now.host | self.find_ended_executes(SSA.findall(head))
        self.label = "stream.file.read"
        length = self.number(SSA.findall(what.partition(" : ")[0])[-1])
        self.access(windows[1][0], windows[1][1], earlier[1][1], length, reads=False, writes=True)
        self.step()
        self.executed(results)

    def by_the_host(self, op: str, body: str, old: str) -> None:
        """Run `stream.resource.load %r[%offset] : …` or `store %value, %r[%offset] : …`; no other access may be open.

        spec: FP9.8
        """
        window, earlier = WINDOW.search(body), WINDOW.search(old)
        bits = ELEMENT.search(body)
        if window is None or earlier is None or bits is None:
            raise self.refuse("expected the place of a number")
        self.current, self.label = self.now.host, op
        writes = op.endswith("store")
        self.access(
            window[1], window[2], earlier[2], max(1, int(bits[1] or bits[2]) // 8), reads=not writes, writes=writes
        )
        self.step()
        self.now.host |= EndedExecutes(1 << self.executes)
        self.executes += 1

    def command(self, text: str, old: str) -> None:
        """Run a line of an execute."""
        access = OPERAND.fullmatch(text)
        earlier = OPERAND.fullmatch(old)
        region = self.open[-1]
        if access is not None and earlier is not None:
            if region.kind != "dispatch":
                raise self.refuse("an operand without its dispatch")
            how, name, offset, length = access.groups()
            self.access(name, offset, earlier[3], self.number(length), how[0] == "r", how[1] == "w" or how == "wo")
            return
        if region.kind == "dispatch":
            raise self.refuse("an operand of a dispatch was expected")
        words = text.split(None, 2)
        op = words[0] if words else ""
        if op in ("stream.cmd.concurrent", "stream.cmd.serial") and text.endswith("{"):
            self.source.check_depth(len(self.open))
            self.enter(op.rpartition(".")[2])
            return
        if op in ("stream.cmd.dispatch", "stream.cmd.collective") or op.startswith("stream.cmd.collective<"):
            if not text.endswith("{"):
                raise self.refuse("expected the operands of a dispatch")
            self.enter("dispatch")
            symbol = words[1] if len(words) > 1 else ""
            self.label = symbol.rpartition("@")[2].partition("[")[0].partition("(")[0].rstrip("{") or op
            return
        windows, earlier_windows = WINDOW.findall(text), WINDOW.findall(old)
        if op == "stream.cmd.copy" and len(windows) == 2:
            length = self.number(SSA.findall(text.partition(" : ")[0])[-1])
            ways = [(True, False, length), (False, True, length)]
        elif op in ("stream.cmd.fill", "stream.cmd.discard") and len(windows) == 1:
            ways = [(False, True, self.number(windows[0][2]))]
        elif op in ("stream.cmd.flush", "stream.cmd.invalidate"):
            self.dump.assumed["flush and invalidate move no bytes"] = None
            return
        else:
            raise self.refuse(f"the command {op} is not read", construct=f"command {op[:60]}")
        self.enter("dispatch")
        self.label = op
        for (name, offset, _), (_, before, _), (reads, writes, length) in zip(
            windows, earlier_windows, ways, strict=True
        ):
            self.access(name, offset, before, length, reads, writes)
        self.open.pop()
        self.leave()

    def close(self) -> None:
        """Close a brace: of a region or command, of the execute, or of the function itself."""
        if not self.open:
            return
        region = self.open.pop()
        if region.kind in ("concurrent", "serial", "dispatch"):
            self.leave()
        elif region.kind == "execute":
            self.executed(region.results)

    def enter(self, kind: str) -> None:
        """Begin a region or a command, which is the next child of the region around it."""
        self.open[-1].child += 1
        self.regions += 1
        self.open.append(_Region(kind, number=self.regions))

    def leave(self) -> None:
        """End a region or command. If no open region is concurrent, its accesses are a step, or several."""
        if any(region.kind == "concurrent" for region in self.open):
            if self.accesses:
                self.commands.append(_Command(self.label, self.line, self.accesses))
                self.accesses = []
        elif self.commands:
            self.region_ended()
        else:
            self.step()

    def region_ended(self) -> None:
        """State the steps of the outermost concurrent region. spec: FP9.5, FP9.14"""
        commands, self.commands = self.commands, []
        if self.memory.is_branching or self.is_in_parts(commands):
            self.dump.approximations[REGIONS] = None
            self.accesses = [access for command in commands for access in command.accesses]
            self.step()
            return
        memory = self.memory
        last, line, unordered, either = memory.last_on_main, self.line, self.unordered, self.either
        ended = {memory.steps[number].lane: number for number in memory.after}
        ended |= {} if last is None else {"": last}
        main = _Thread("", ended)

        def state(command: _Command, thread: _Thread) -> None:
            cells = {access.cell for access in command.accesses}
            self.label, self.line, self.accesses = command.label, command.line, command.accesses
            self.unordered, self.either = unordered & cells, either & cells
            count = len(memory.steps)
            memory.lane, memory.after = thread.lane, _steps_on_others(thread)
            self.step()
            if len(memory.steps) > count:
                thread.ended = {thread.lane: len(memory.steps) - 1}

        self.run_commands(commands, 0, main, state)
        self.line, memory.lane, memory.after = line, "", _steps_on_others(main)

    def run_commands(
        self, commands: list[_Command], depth: int, thread: _Thread, state: Callable[[_Command, _Thread], None]
    ) -> None:
        """Run commands that have `depth` concurrent regions around them in common. spec: FP9.14"""
        k = 0
        while k < len(commands):
            path = commands[k].path
            if len(path) == depth:
                state(commands[k], thread)
                k += 1
                continue
            children: dict[int, list[_Command]] = {}
            while k < len(commands) and commands[k].path[depth : depth + 1] and (
                commands[k].path[depth][0] == path[depth][0]
            ):  # fmt: skip
                children.setdefault(commands[k].path[depth][1], []).append(commands[k])
                k += 1
            threads: list[_Thread] = []
            for group in children.values():
                lane = self.take_lane() if threads else thread.lane
                threads.append(_Thread(lane, dict(thread.ended)))
                self.run_commands(group, depth + 1, threads[-1], state)
            for each in threads[:0:-1]:
                self.dump.lanes.give_back(each.lane, "")
            merged: dict[str, int] = {}
            for each in threads:
                for lane, number in each.ended.items():
                    merged[lane] = max(number, merged.get(lane, number))
            thread.ended = merged

    def take_lane(self) -> str:
        """Return a lane for a child of a concurrent region."""
        lane = self.dump.lanes.take("")
        self.source.count_work(len(self.dump.lanes.names))
        return lane

    def is_in_parts(self, commands: list[_Command]) -> bool:
        """Decide whether commands that may run at once use different parts of a slice that one of them writes."""
        of: dict[int, list[SliceAccess]] = {}
        for access in (access for command in commands for access in command.accesses if access.start < access.end):
            of.setdefault(access.cell, []).append(access)
        return any(
            len({access.path for access in found}) > 1
            and any(access.writes for access in found)
            and len({(access.start, access.end) for access in found}) > 1
            for found in of.values()
        )

    def executed(self, results: list[str]) -> None:
        """End an execute, at a point in time after the executes that it awaits."""
        self.times |= dict.fromkeys(results, self.current | EndedExecutes(1 << self.executes))
        self.executes += 1
        self.source.count_work(self.executes // 64)

    def access(self, name: str, offset: str, before: str, length: int, reads: bool, writes: bool) -> None:
        """Note that a command reads bytes of a slice, writes them, or both. spec: FP9.4, FP9.8, FP1.14"""
        path = tuple((r.number, r.child) for r in self.open if r.kind == "concurrent")
        found = [(ref, length) for ref in in_order(self.at(name, offset, before))] if offset in self.constants else []
        if offset not in self.constants:
            found = [self.whole(ref, offset) for ref in in_order(self.known(name))]
            if path and writes:
                raise self.refuse(f"{offset} is not a constant, in a concurrent region")
            reads = True  # a part of the old value stays
            self.dump.approximations[UNKNOWN] = None
        cells = [self.cell(ref, length) for ref, length in found]
        # One of them is written, and it is not known which.
        is_choice = len(found) > 1 and writes
        is_first = is_choice and not reads and all(self.memory.held(cell) is None for cell in cells)
        for cell, (ref, length) in zip(cells, found, strict=True):
            start = ref.offset - self.memory.cells[cell].offset
            self.accesses.append(SliceAccess(cell, start, start + length, reads, writes, path))
            if is_choice and not is_first:
                self.either.add(cell)
            if not is_first:
                self.seen(ref, cell)
            elif ref.choice:
                self.perhaps[cell] = ref.choice
            if ref.resource in self.now.freed:
                self.late(cell, "after its dealloca")
            bit = 1 << self.executes
            all_of, written = self.touched.get(self.memory.cells[cell].arena, (0, 0))
            unordered = ~(self.current.where(ref.ways) | bit)
            if (all_of if writes else written) & unordered:
                self.dump.assumed["executes that do not await each other run in the order of the file"] = None
            self.touched[self.memory.cells[cell].arena] = all_of | bit, written | (bit if writes else 0)
            all_of, written = self.uses.get(cell, (0, 0))
            if ((all_of if writes else written) & ~self.apart | self.needs.get(ref.resource, 0)) & unordered:
                self.unordered.add(cell)
            self.uses[cell] = all_of | bit, written | (bit if writes else 0)

    def step(self) -> None:
        """State the accesses since the last step as one step. spec: FP9.4, FP9.5"""
        accesses, self.accesses = self.accesses, []
        unordered, self.unordered = self.unordered, set()
        either, self.either = self.either, set()
        reads: list[int] = []
        writes: list[int] = []
        of: dict[int, list[SliceAccess]] = {}
        for access in accesses:
            of.setdefault(access.cell, []).append(access)
        for cell, found in of.items():
            is_race = len(found) > 1 and any(a.writes for a in found) and at_once(found, self.source)
            is_race = is_race or cell in unordered
            own: set[RegionPath] = set()
            is_fresh = self.memory.held(cell) is None
            if cell in either:
                reads.append(cell)
            elif is_fresh:
                self.made_by[cell] = self.line
            elif self.made_by.get(cell) == self.line and not is_race and not any(a.reads for a in found):
                self.memory.renew(cell)
            for access in found:
                if access.reads and access.writes and is_fresh:
                    self.dump.assumed["what a command changes and nothing has written is written by it"] = None
                elif access.reads and access.path not in own:
                    reads.append(cell)
                if access.writes:
                    own.add(access.path)
            if is_race:
                reads.append(cell)
                writes.append(self.at_once_with(cell))
            elif any(a.writes for a in found):
                writes.append(cell)
        if reads or writes:
            self.memory.step(self.label, (DOMAIN, self.label), reads, writes)


def _steps_on_others(thread: _Thread) -> tuple[int, ...]:
    """Return the steps of other lanes that the next command of a thread waits for."""
    return tuple(number for lane, number in thread.ended.items() if lane != thread.lane)
