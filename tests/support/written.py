"""Plans without a planner: each line is a step, and everything else follows or is stated beside it.

    a = MatMul x
    b:a = Relu a
    !a = Update a x

A step is "results = op operands"; the result `b:a` lies in the storage of `a`, `b@4:a` at its byte 4, `!a` is mutated;
`f = enter/Loop a` and `r = leave/Loop d` enclose a body. Every storage has a slot of its own, one behind the other, and
lives from its first to its last access, so that what is wrong with a plan stands in its lines.

A text plan (`spec/text-plan.md`) does not state these: it has no slots, its lifetimes are worked out, and tensors of
one storage share it for a stated reason. Here a tensor lies where it is put, and what permits that is given apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from proofs.readers.sharing import Permissions
from tests.support.assembled import BodyRow, StepRow, StorageRow, TensorRow, assembled, own_slots, tables
from tmmu.core.columns import NONE, index_of
from tmmu.core.vocabulary import ArenaConfiguration, NodePart, Role
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED
from tmmu.plans.sections import Plan, Usage

CALLER = {"input": Role.INPUT, "param": Role.PARAMETER, "state": Role.OPTIMIZER}


Lives = Mapping[str, tuple[int, int]]
"""Births and deaths by name."""


class Written:
    """A plan from a few lines of text, with every storage in a slot of its own and the lifetimes that follow from it.

    A step is "results = op operands"; a result may be written "c:a" to lie in the storage of `a`, "c@4" at byte 4
    of it, "!c" where it is mutated. `given` names what the caller writes, with its role; `outputs` what it reads.
    """

    def __init__(self, text: str, *, given: dict[str, str], outputs: str = "", size: int = 8, **sizes: int) -> None:
        self.row = {name: row for row, name in enumerate(given)}
        self.home = {name: name for name in given}
        self.window: dict[str, int] = {}
        self.writer: dict[str, int] = {}
        self.ops: list[tuple[str, str]] = []
        self.lists: dict[str, list[tuple[int, ...]]] = {"reads": [], "writes": [], "mutates": []}
        self.parts: list[str] = []
        self.size = {name: sizes.get(name, size) for name in given}
        for number, line in enumerate(filter(None, map(str.strip, text.splitlines()))):
            left, right = line.split("=")
            part, _, right = right.strip().partition("/") if "/" in right else ("whole", "", right.strip())
            op, *operands = right.split()
            self.parts.append(part)
            self.ops.append(("", op))
            wrote, changed = [], []
            for word in left.split():
                name, _, home = word.lstrip("!").partition(":")
                name, _, window = name.partition("@")
                if name not in self.row:
                    self.row[name] = len(self.row)
                    self.home[name] = self.home[home] if home else name
                    self.window[name] = int(window or 0)
                    self.writer[name] = number
                    self.size[name] = sizes.get(name, size)
                wrote.append(self.row[name])
                if word.startswith("!"):
                    changed.append(self.row[name])
            self.lists["writes"].append(tuple(wrote))
            self.lists["mutates"].append(tuple(changed))
            self.lists["reads"].append(tuple(self.row[name] for name in operands))
        self.given, self.outputs, self.names = given, outputs.split(), list(self.row)

    def plan(self, lives: Lives | None = None) -> Plan:
        """The plan; `lives` are lifetimes other than those that follow from the accesses."""
        steps = len(self.ops)
        last = max(0, steps - 1)
        birth = {name: self.writer.get(name, 0) for name in self.names}
        death = dict(birth)
        for which in ("reads", "writes"):
            for step, listed in enumerate(self.lists[which]):
                for tensor in listed:
                    death[self.names[tensor]] = max(death[self.names[tensor]], step)
        for name in self.names:
            if name in self.outputs or self.given.get(name) in ("param", "state"):
                death[name] = last
            birth[name], death[name] = (lives or {}).get(name, (birth[name], death[name]))
        count, rows = index_of([self.home[name] for name in self.names])
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
                self.window.get(name, 0), self.writer.get(name, NONE),
            )
            for k, name in enumerate(self.names)
        ]  # fmt: skip
        lists = zip(self.lists["reads"], self.lists["writes"], self.lists["mutates"], strict=True)
        made = tables(
            tensors, [StorageRow(*row) for row in zip(size, first, final, at, strict=True)],
            [StepRow(f"n{n}", self.ops[n], *row, NodePart(self.parts[n])) for n, row in enumerate(lists)],
            _bodies(self.parts),
        )  # fmt: skip
        slots = own_slots([max(1, z) for z in size], 16)
        arena = ArenaConfiguration("arena", tuple(Role), alignment=16)
        return assembled((arena,), (usage,), slots, model="written", **made | {"dtypes": ("uint8",)})

    def sharing(self, views: str = "", in_place: str = "") -> Permissions:
        """Permissions: "v:base+4" is a view at byte 4, "result:operand" a result in place."""
        result = Permissions()
        for word in views.split():
            name, _, base = word.partition(":")
            base, _, offset = base.partition("+")
            result.views[self.row[name]] = self.row[base], int(offset or 0)
        for word in in_place.split():
            name, _, operand = word.partition(":")
            result.in_place[self.row[name]] = self.row[operand]
        return result


def running(first: list[int], final: list[int], amount: list[int], steps: int) -> list[int]:
    """The total amount that is live at each step."""
    change = [0] * (max(1, steps) + 1)
    for b, d, x in zip(first, final, amount, strict=True):
        change[b] += x
        change[d + 1] -= x
    return list(accumulate(change))[:-1]


def _bodies(parts: list[str]) -> list[BodyRow]:
    """The main graph, and a body for each enter and leave that enclose it."""
    opened: list[int] = []
    bodies = [BodyRow()]
    for step, part in enumerate(parts):
        if part == "enter":
            opened.append(step)
        elif part == "leave" and opened:
            bodies.append(BodyRow(f"body{len(bodies)}", 0, opened.pop(), step))
    return bodies
