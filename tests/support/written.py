"""Plans without a planner: each line is a step, and everything else follows or is stated beside it.

    a = MatMul x
    b:a = Relu a
    !a = Update a x

A step is "results = op operands"; a semicolon ends a line as well. The result `b:a` is in the storage of `a`, `b@4:a`
at its byte 4, `!a` is mutated; `f = enter/Loop a` and `r = leave/Loop d` enclose a body. Every storage has a slot of
its own, one behind the other, and lives from its first to its last access, so that what is wrong with a plan is in its
lines.

A text plan (`spec/text-plan.md`) states neither slots nor lifetimes, and tensors of one storage share it for a stated
reason. Here a tensor may be anywhere, and the sharing that it states is given apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from tests.support.assembled import BodyRow, StepRow, StorageRow, TensorRow, assembled, own_slots, tables
from tmmu.core.columns import NONE, number_values
from tmmu.core.vocabulary import ArenaConfiguration, NodePart, Role, Shares
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED
from tmmu.plans.sections import Plan, Usage

CALLER = {"input": Role.INPUT, "param": Role.PARAMETER, "state": Role.OPTIMIZER}
ITERATE = ("Loop", "Scan")


Lives = Mapping[str, tuple[int, int]]
"""Births and deaths by name."""


class Written:
    """A plan from a few lines of text. Each storage has its own slot, and lifetimes follow from the steps.

    Parameters
    ----------
    text
        The steps. An operator is `Relu`, or `my::Cut` of the domain `my`.
    given
        The tensors that the caller writes, with their roles; by default all that are read and not written, as inputs.
    outputs
        The tensors that the caller reads after the last step.
    views, in_place
        The sharing that the plan states: "v:a" for a view of `a`, or a result in place of it.
    donated
        The tensors that the user donates. A plan does not state them.
    size, sizes
        The bytes of a tensor, and of those that have others.
    """

    def __init__(
        self, text: str, *, given: Mapping[str, str] | None = None, outputs: str = "", views: str = "",
        in_place: str = "", donated: str = "", size: int = 8, **sizes: int,
    ) -> None:  # fmt: skip
        lines = [line.split("=") for line in map(str.strip, text.replace(";", "\n").splitlines()) if line]
        written = {name for name, *_ in (_result(word) for left, _ in lines for word in left.split())}
        read = [name for _, right in lines for name in right.split()[1:]]
        self.given = dict.fromkeys((n for n in read if n not in written), "input") if given is None else dict(given)
        self.row = {name: row for row, name in enumerate(self.given)}
        self.home = {name: name for name in self.given}
        self.window: dict[str, int] = {}
        self.writer: dict[str, int] = {}
        self.ops: list[tuple[str, str]] = []
        self.parts: list[str] = []
        self.lists: dict[str, list[tuple[int, ...]]] = {"writes": [], "mutates": [], "reads": []}
        for number, (left, right) in enumerate(lines):
            part, bracket, rest = right.strip().partition("/")
            domain, _, op = (rest if bracket else part).split()[0].rpartition("::")
            self.parts.append(part if bracket else "whole")
            self.ops.append((domain, op))
            wrote, changed = [], []
            for word in left.split():
                name, window, home = _result(word)
                if name not in self.row:
                    self.row[name] = len(self.row)
                    self.home[name] = self.home[home] if home else name
                    self.window[name] = window
                    self.writer[name] = number
                wrote.append(self.row[name])
                if word.startswith("!"):
                    changed.append(self.row[name])
            self.lists["writes"].append(tuple(wrote))
            self.lists["mutates"].append(tuple(changed))
        self.lists["reads"] = [tuple(self.row[name] for name in right.split()[1:]) for _, right in lines]
        self.size = {name: sizes.get(name, size) for name in self.row}
        self.outputs, self.names, self.donated = outputs.split(), list(self.row), frozenset(donated.split())
        self.shares = {
            name: (kind, self.row[of])
            for kind, words in ((Shares.VIEW, views), (Shares.IN_PLACE, in_place))
            for name, _, of in (word.partition(":") for word in words.split())
        }

    def plan(self, lives: Lives | None = None) -> Plan:
        """The plan; `lives` are lifetimes other than those that follow from the accesses."""
        steps = len(self.ops)
        bodies, body_of, node_of = self._bodies()
        birth, death = self._lifetimes(bodies)
        for name, life in (lives or {}).items():
            birth[name], death[name] = life
        count, rows = number_values([self.home[name] for name in self.names])
        size = [0] * len(count)
        first, final = [10**9] * len(count), [0] * len(count)
        for name, k in zip(self.names, rows, strict=True):
            size[k] = max(size[k], self.window.get(name, 0) + self.size[name])
            first[k], final[k] = min(first[k], birth[name]), max(final[k], death[name])
        at = [16 * blocks for blocks in accumulate((-(-max(1, z) // 16) for z in size), initial=0)][: len(size)]
        live = running(first, final, size, steps)
        most = running(first, final, [1] * len(size), steps)
        end = at[-1] + max(1, size[-1]) if size else 0
        usage = Usage(end, max(live), live.index(max(live)), len(size), max(most), most.index(max(most)), False)
        tensors = [
            TensorRow(
                name, self.size[name], birth[name], death[name], rows[k],
                CALLER.get(self.given.get(name, ""), Role.ACTIVATION),
                (self.given.get(name) == "input") * IS_INPUT + (name in self.outputs) * (IS_OUTPUT + IS_RETURNED),
                self.window.get(name, 0), self.writer.get(name, NONE), "uint8", 1,
                *self.shares.get(name, (Shares.NONE, NONE)),
            )
            for k, name in enumerate(self.names)
        ]  # fmt: skip
        lists = zip(self.lists["reads"], self.lists["writes"], self.lists["mutates"], strict=True)
        made = tables(
            tensors, [StorageRow(*row) for row in zip(size, first, final, at, strict=True)],
            [StepRow(f"n{node_of[n]}", self.ops[n], *row, NodePart(self.parts[n]), body_of[n])
             for n, row in enumerate(lists)],
            bodies,
        )  # fmt: skip
        slots = own_slots([max(1, z) for z in size], 16)
        arena = ArenaConfiguration("arena", tuple(Role), alignment=16)
        return assembled((arena,), (usage,), slots, model="written", **made | {"dtypes": ("uint8",)})

    def _bodies(self) -> tuple[list[BodyRow], list[int], list[int]]:
        """Return the main graph with a body for each enter and leave, and the body and first step of node of each step.

        An enter that no step leaves has no body.
        """
        bodies, body_of, node_of = [BodyRow()], [0] * len(self.ops), list(range(len(self.ops)))
        brackets: dict[int, int] = {}
        opened: list[int] = []
        for step, part in enumerate(self.parts):
            if part == "enter":
                opened.append(step)
            elif part == "leave" and opened:
                brackets[opened.pop()] = step
        for enter, leave in sorted(brackets.items()):
            node_of[leave] = enter
            name, iterates = f"n{enter}/body", self.ops[enter][1] in ITERATE
            inner = range(enter + 1, leave)
            bodies.append(BodyRow(name, body_of[enter], enter, leave, iterates))
            for step in inner:
                body_of[step] = len(bodies) - 1
        return bodies, body_of, node_of

    def _lifetimes(self, bodies: list[BodyRow]) -> tuple[dict[str, int], dict[str, int]]:
        """Return births and deaths: of all accesses, and of those that the next iteration of a loop may make (T8)."""
        birth = {name: self.writer.get(name, 0) for name in self.names}
        death = dict(birth)
        reads, writes = ([[self.names[t] for t in step] for step in self.lists[which]] for which in ("reads", "writes"))
        for lists in (reads, writes):
            for step, listed in enumerate(lists):
                death |= {name: max(death[name], step) for name in listed}
        for _, _, enter, leave, iterates, _ in bodies:
            if iterates:
                inside = {name for step in range(enter + 1, leave) for name in reads[step]}
                again = {name for name in inside if self.writer.get(name, 0) <= enter} | {*reads[enter], *writes[enter]}
                death |= {name: max(death[name], leave) for name in again}
                birth |= dict.fromkeys((name for name in writes[leave] if name not in reads[leave]), enter)
        kept = [name for name in self.names if name in self.outputs or self.given.get(name) in ("param", "state")]
        return birth, death | dict.fromkeys(kept, max(0, len(self.ops) - 1))


def _result(word: str) -> tuple[str, int, str]:
    """Split a result into its name, its byte in a storage, and the tensor that has this storage."""
    name, _, home = word.lstrip("!").partition(":")
    name, _, window = name.partition("@")
    return name, int(window or 0), home


def running(first: list[int], final: list[int], amount: list[int], steps: int) -> list[int]:
    """The total amount that is live at each step."""
    change = [0] * (max(1, steps) + 1)
    for b, d, x in zip(first, final, amount, strict=True):
        change[b] += x
        change[d + 1] -= x
    return list(accumulate(change))[:-1]
