"""One allocation problem of all programs of a set, and the part of its solution that each program has.

The programs follow one another on one line of steps. Storages of a program live within its steps. State lives over all
of them: a shared tensor is one storage for all its entries and exits, and parameters and optimizer state of one program
may be touched by no other. So a placement of the joint problem is one of each program that leaves the state alone, and
activations of different programs overlap freely. spec: PS1.3, PS1.4, PS1.5, PS3.2, PS3.4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from tmmu.planner.arenas.assignment import Solution
from tmmu.planner.fixed import check_fixed
from tmmu.planner.problem import AllocationProblem, Choices, Fixed
from tmmu.planner.sets.programs import SetProgram
from tmmu.planner.sets.shares import set_error, share_error
from tmmu.planner.slots import assign_slots


class SharedMember(NamedTuple):
    """An entry or exit of a shared tensor: its program, as a number, and its row there."""

    program: int
    row: int


@dataclass(frozen=True)
class JointProblem:
    """The problem of all programs. `rows` maps each storage of each program to one of the problem.

    `shared` are the storages of the shared tensors, by name.
    """

    problem: AllocationProblem
    rows: list[list[int]]
    shared: dict[str, int]

    def parts(self, programs: Sequence[SetProgram], found: Solution) -> list[Solution]:
        """Return the solution of each program: its own slots, with the offsets of the joint one. O(n log n)."""
        parts = []
        for program, rows in zip(programs, self.rows, strict=True):
            arena, offset = [found.arena[k] for k in rows], [found.offset[k] for k in rows]
            footprint = [0] * len(self.problem.arenas)
            for k, (a, at) in enumerate(zip(arena, offset, strict=True)):
                footprint[a] = max(footprint[a], at + max(1, program.problem.bytes[k]))
            parts.append(Solution(arena, assign_slots(program.problem, arena), offset, footprint, [], []))
        return parts

    def peaks(self, found: Solution) -> list[int]:
        """Return the most bytes of each arena that are live at one step, with all state. O(storages + steps)."""
        members = self.problem.members(found.arena)
        return [max(self.problem.live_bytes(of)) if len(of) else 0 for of in members]


def join_programs(programs: Sequence[SetProgram]) -> JointProblem:
    """Return the joint problem. Raises INVALID_BINDING for programs that cannot share, and as `check_fixed`."""
    first = programs[0]
    for other in programs[1:]:
        if other.arenas != first.arenas or other.problem.policy != first.problem.policy:
            names = [one.name for one in other.arenas] or ["none"]
            raise set_error(f"{first.name} and {other.name} have different arenas ({', '.join(names)})",
                "plan all programs of a set with one --arenas",
            )  # fmt: skip
    starts = [0, *accumulate(program.steps for program in programs)]
    last = starts[-1] - 1
    into = AllocationProblem(first.arenas, [], [], [], [], [], [], [], [], {}, first.problem.policy)
    name, birth, death, made = list[str](), list[int](), list[int](), list[int]()
    fixed: dict[int, Fixed] = {}
    rows = [[-1] * len(program.problem) for program in programs]
    shared: dict[str, int] = {}
    for which in dict.fromkeys(which for program in programs for which in program.uses):
        members = _members(programs, which)
        k = shared[which] = len(into.bytes)
        storages = dict.fromkeys(
            (p, int(programs[p].tensors.storage[row])) for p, row in members
        )  # fmt: skip
        problems = [(programs[p].problem, s) for p, s in storages]
        into.bytes.append(max(problem.bytes[s] for problem, s in problems))
        into.alignment.append(max(problem.alignment[s] for problem, s in problems))
        into.choices.append(_choices(programs, which, list(storages)))
        _check_turns(programs, which)
        name.append(which)
        birth.append(0)
        death.append(last)
        made.append(-1)
        into.uses.append(sum(problem.uses[s] for problem, s in problems if problem.uses))
        _fix(fixed, programs, which, members, k)
        for p, s in storages:
            if rows[p][s] not in (-1, k):
                raise share_error(which, f"in {programs[p].name} it shares bytes with another one", "share one of them")
            rows[p][s] = k
    for p, program in enumerate(programs):
        problem, state = program.problem, program.own_state()
        for s in range(len(problem)):
            if rows[p][s] >= 0:
                continue
            k = rows[p][s] = len(into.bytes)
            into.bytes.append(problem.bytes[s])
            into.alignment.append(problem.alignment[s])
            into.choices.append(problem.choices[s])
            into.uses.append(problem.uses[s] if problem.uses else 0)
            name.append(f"{program.name}:{problem.name[s]}")
            birth.append(0 if s in state else starts[p] + problem.birth[s])
            death.append(last if s in state else starts[p] + problem.death[s])
            made.append(-1 if problem.made[s] < 0 else starts[p] + problem.made[s])
            if s in problem.fixed:
                fixed[k] = problem.fixed[s]._replace(tensor=f"{program.name}:{problem.fixed[s].tensor}")
                into.choices[k] = into.choices[k][:1]
        for s, others in problem.conflicts.items():
            into.conflicts.setdefault(rows[p][s], set()).update(rows[p][o] for o in others)
    found = AllocationProblem(
        into.arenas, name, into.bytes, into.alignment, birth, death, into.choices, made,
        into.uses if any(into.uses) else [], into.conflicts, into.policy, fixed=fixed,
    )  # fmt: skip
    check_fixed(found)
    return JointProblem(found, rows, shared)


def _members(programs: Sequence[SetProgram], which: str) -> list[SharedMember]:
    """Return the entries and exits of a shared tensor, which agree on bytes, type and alignment. spec: PS1.3, PS3.2"""
    found: list[SharedMember] = []
    for p, program in enumerate(programs):
        use = program.uses.get(which)
        for tensor in () if use is None else use.names:
            found.append(SharedMember(p, program.rows[tensor]))
    facts = []
    for p, row in found:
        program, t = programs[p], programs[p].tensors
        label = f"{program.name}:{t.name[row]}"
        if int(t.window[row]):
            what = f"{label} begins within the bytes of another tensor"
            raise share_error(which, what, "share the tensor that it shows")
        kind = program.dtypes[int(t.dtype[row])]
        facts.append((label, {"bytes": int(t.bytes[row]), "type": kind, "alignment": int(t.alignment[row])}))
    label, wanted = facts[0]
    for other, got in facts[1:]:
        for key, value in wanted.items():
            if got[key] != value:
                what = f"{label} has {key} {value}, {other} has {key} {got[key]}"
                raise share_error(which, what, "give it one size and type in all programs: shapes may differ")
    return found


def _check_turns(programs: Sequence[SetProgram], which: str) -> None:
    """Check that each exit is in its entry's storage, or is written after the entry is last used. spec: PS1.7"""
    for program in programs:
        use = program.uses.get(which)
        if use is None or use.entry is None or use.exit in (None, use.entry):
            continue
        t, lives = program.tensors, program.problem
        old, new = (int(t.storage[program.rows[name]]) for name in use.names)
        if old != new and lives.death[old] >= lives.birth[new]:
            what = (
                f"in {program.name} step {lives.birth[new]} writes {use.exit!r} while the bytes of {use.entry!r} "
                f"are in use until step {lives.death[old]}"
            )
            raise share_error(which, what, f"donate {use.entry} and compute it in place, or copy the result last")


def _choices(programs: Sequence[SetProgram], which: str, storages: Sequence[tuple[int, int]]) -> Choices:
    """Return the arenas that all programs permit for a shared tensor, in the order of the first."""
    of_all = [programs[p].problem.choices[s] for p, s in storages]
    found = tuple(a for a in of_all[0] if all(a in others for others in of_all))
    if not found:
        named = [
            f"{programs[p].name} in {programs[p].arenas[programs[p].problem.choices[s][0]].name}" for p, s in storages
        ]
        what = f"its programs put it into different arenas: {', '.join(dict.fromkeys(named))}"
        raise share_error(which, what, "allow one arena for it with a rule of --arenas")
    return found


def _fix(
    fixed: dict[int, Fixed], programs: Sequence[SetProgram], which: str, members: Sequence[SharedMember], k: int
) -> None:  # fmt: skip
    """Note the offset that a model, a user or a finished plan states for a shared tensor."""
    for p, row in members:
        program, name = programs[p], programs[p].tensors.name[row]
        placed = program.problem.fixed.get(int(program.tensors.storage[row])) if program.prepared is None else None
        at = program.fixed_at.get(name) if placed is None else placed.offset
        if at is None:
            continue
        one = fixed.setdefault(k, Fixed(at, f"{program.name}:{name}"))
        if one.offset != at:
            what = f"{one.tensor} is fixed at byte {one.offset}, {program.name}:{name} at byte {at}"
            raise share_error(which, what, "fix it at one byte, or in one program")
