"""What every layout is asked: the storages of a model, their logical slots, and the arenas to place them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Arena
from tmmu.plan.columns import SHARES, Plan
from tmmu.planner.fitting import Boxes
from tmmu.planner.slots import Assignment
from tmmu.planner.storages import Sharing


@dataclass(frozen=True)
class Request:
    """Storages with their slots, arenas, the storages that may never share a byte with a given one (T5), and a token.

    `made` is the step that makes each storage, negative for what the caller writes. `address_token` is what the layout
    `hashed` derives addresses from; the others do not look at it.
    """

    sharing: Sharing
    slots: Assignment
    arenas: tuple[Arena, ...]
    apart: Mapping[int, set[int]]
    made: list[int]
    address_token: bytes | None = None

    def members(self) -> list[list[int]]:
        """The storages of each arena, in the order of their first tensor."""
        found: list[list[int]] = [[] for _ in self.arenas]
        for k, arena in enumerate(self.sharing.arena):
            found[arena].append(k)
        return found

    def boxes(self, members: list[int]) -> Boxes:
        """Some storages as boxes; one of zero bytes counts as one byte. spec: T7.1"""
        s = self.sharing
        number = {k: i for i, k in enumerate(members)} if self.apart else {}
        return Boxes(
            [s.birth[k] for k in members],
            [s.death[k] for k in members],
            [max(1, s.bytes[k]) for k in members],
            [max(self.arenas[s.arena[k]].alignment, s.alignment[k]) for k in members],
            {
                number[k]: sorted(number[o] for o in self.apart[k] if o in number)
                for k in members
                if k in self.apart
            },
        )  # fmt: skip


def of_plan(plan: Plan) -> Request:
    """What the layouts would be asked for a plan's own storages."""
    t, s = plan.tensors, plan.storages
    storage = t.storage.tolist()
    root = [0] * len(s)
    for tensor, k in reversed(list(enumerate(storage))):
        root[k] = tensor
    writer = t.writer.tolist()
    apart: dict[int, set[int]] = {}
    for a, b in plan.must_not_alias:
        apart.setdefault(storage[a], set()).add(storage[b])
        apart.setdefault(storage[b], set()).add(storage[a])
    sharing = Sharing(
        storage, t.window.tolist(), [SHARES[word] for word in t.shares.tolist()], t.of.tolist(), root,
        s.arena.tolist(), s.bytes.tolist(), s.alignment.tolist(), s.birth.tolist(), s.death.tolist(), [],
    )  # fmt: skip
    slots = Assignment(
        s.slot.tolist(), plan.slots.arena.tolist(), plan.slots.bytes.tolist(), plan.slots.alignment.tolist()
    )
    made = [-1 if writer[tensor] == NONE else writer[tensor] for tensor in root]
    return Request(sharing, slots, plan.arenas, apart, made)
