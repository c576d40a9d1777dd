"""The state of a set: the tensors that must survive the calls, with their places and their names in each program.

Shared tensors are those of the agreement. To them belong, of each program, the parameters and the optimizer state that
it has for itself, unless the caller gives them up: donates them and does not read them after the last step.
spec: PS1.4, PS1.8
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proofs.sets.members import SetMember
from tmmu.plans.sets import Agreement, SharedUse


@dataclass(frozen=True)
class StateTensor:
    """A tensor of the state. `label` is its name for messages; `uses` are its tensors in the programs that have it."""

    label: str
    arena: str
    address: int
    bytes: int
    is_initial: bool
    uses: Mapping[str, SharedUse]

    @property
    def end(self) -> int:
        """The byte behind its last one."""
        return self.address + self.bytes

    def is_left_alone_by(self, program: str) -> bool:
        """Whether a program may not write a byte of it: it has no exit there."""
        return program not in self.uses or self.uses[program].exit is None


def find_state(members: Sequence[SetMember], agreement: Agreement) -> list[StateTensor]:
    """Return the state of a set: shared tensors, then the parameters of single programs. O(tensors)."""
    found = [
        StateTensor(one.name, one.arena, one.offset, one.bytes, one.is_initial, one.uses) for one in agreement.shared
    ]
    for member in members:
        shared = {name for one in agreement.shared if member.name in one.uses for name in one.uses[member.name].names}
        for row in member.callers:
            t = member.tensor(row)
            given_up = row in member.run.donated and row not in member.returned
            if member.is_persistent(row) and not given_up and t.name not in shared:
                use = SharedUse(t.name, t.name if row in member.mutated else None)
                label = f"{member.name}:{t.name}"
                found.append(StateTensor(label, member.arena_of(row), t.address, t.bytes, True, {member.name: use}))
    return found


def list_ends(member: SetMember, state: Sequence[StateTensor]) -> list[tuple[StateTensor, int]]:
    """Return the rows of the entries and exits of a program, each with its tensor of the state."""
    mine = [one for one in state if member.name in one.uses]
    return [(one, member.rows[name]) for one in mine for name in one.uses[member.name].names]


def find_never_ready(state: Sequence[StateTensor], programs: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the programs that no sequence of calls makes ready, and the programs to call before each other one.

    The second maps each program that is not ready at first to programs that have been called before, in the order in
    which they become ready. O(programs x state). spec: PS1.8
    """
    held = {one.label for one in state if one.is_initial}
    ready: dict[str, list[str]] = {}
    order: list[str] = []
    open_ = list(programs)
    while open_:
        able = [program for program in open_ if not _missing(state, program, held)]
        if not able:
            break
        for program in able:
            ready[program] = list(order)
        order += able
        open_ = [program for program in open_ if program not in able]
        held |= {one.label for one in state for program in able if _gives(one, program)}
    first = {one.label for one in state if one.is_initial}
    return open_, {
        program: _needed(state, program, before) for program, before in ready.items() if _missing(state, program, first)
    }


def _needed(state: Sequence[StateTensor], program: str, before: Sequence[str]) -> list[str]:
    """Return the programs among `before` that a program depends on, directly or not, in their order."""
    needed, asked = set[str](), [program]
    while asked:
        for one in state:
            use = one.uses.get(asked[0])
            if use is not None and use.entry is not None and not one.is_initial:
                giver = next((other for other in before if _gives(one, other)), None)
                if giver is not None and giver not in needed:
                    needed.add(giver)
                    asked.append(giver)
        asked = asked[1:]
    return [other for other in before if other in needed]


def _gives(one: StateTensor, program: str) -> bool:
    return program in one.uses and one.uses[program].exit is not None


def _missing(state: Sequence[StateTensor], program: str, held: set[str]) -> list[StateTensor]:
    """Return the state that a program reads and that holds nothing."""
    return [
        one
        for one in state
        if program in one.uses and one.uses[program].entry is not None and one.label not in held
    ]  # fmt: skip


def missing_at_first(state: Sequence[StateTensor], program: str) -> list[StateTensor]:
    """Return the state that a program reads and that the caller does not write before the first call."""
    return _missing(state, program, {one.label for one in state if one.is_initial})
