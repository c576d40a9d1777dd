"""Run the programs of a plan set one after the other in one memory, each call compared with private memory.

The state of a set has names: those of shared tensors, and `PROGRAM: TENSOR` for what one program keeps for itself.
Private memory hands the contents of state from call to call; the arenas keep them where the plans place them.
spec: PS1.8, SIM9.1 to SIM9.4
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tmmu.core.errors import TmmuError
from tmmu.plans.sets import Agreement
from tmmu.runtime.memory import MappedMemory
from tmmu.simulator.machine import Kernels, Look
from tmmu.simulator.memories import Raw
from tmmu.simulator.owners import Owners
from tmmu.simulator.placed import Ownership, Shown
from tmmu.simulator.program import PlanProgram
from tmmu.simulator.simulate import Batches, SimulationReport
from tmmu.simulator.witness import Corrupted, Corruption


@dataclass(frozen=True)
class CalledProgram:
    """A program of a set, with the rows of its tensors that have the values of state.

    `takes` are its entries: the caller writes them if they are initial and hold no value. `leaves` are the exits, and
    the entries that it leaves unchanged: they have the values after the last step.
    """

    name: str
    program: PlanProgram
    takes: Mapping[str, int]
    leaves: Mapping[str, int]


def find_state(name: str, program: PlanProgram, agreement: Agreement) -> CalledProgram:
    """Return a program with its tensors of the state of a set. Raises `Corrupted` if it lacks a shared tensor."""
    rows = {tensor: t for t, tensor in enumerate(program.names)}
    takes, leaves = dict[str, int](), dict[str, int]()
    for shared in agreement.shared:
        use = shared.uses.get(name)
        if use is None:
            continue
        for tensor in use.names:
            if tensor not in rows:
                raise Corrupted(Corruption(f"the plan of {name} has no tensor {tensor}", (tensor,)))
        if use.entry is not None:
            takes[shared.name] = rows[use.entry]
        leaves[shared.name] = rows[use.exit or use.entry or ""]
    taken = {*takes.values(), *leaves.values()}
    read = program.kept | program.persistent.intersection(
        program.returned
    )  # the others are donated, and not read again
    own = {f"{name}: {program.names[t]}": t for t in sorted(read - taken) if t not in program.views}
    return CalledProgram(name, program, takes | own, leaves | own)


def find_initial(agreement: Agreement, programs: Iterable[CalledProgram]) -> frozenset[str]:
    """Return the state that the caller writes before it is taken for the first time."""
    shared = {each.name for each in agreement.shared}
    own = {kept for each in programs for kept in each.takes if kept not in shared}
    return frozenset({each.name for each in agreement.shared if each.is_initial} | own)


@dataclass(frozen=True)
class KeptBytes:
    """A tensor that is kept between calls: its right content, and the value whose bytes the memory must hold."""

    content: Raw
    shown: Shown


class SetCalls:
    """The calls of a set, in the memory that `memories` view for each program.

    Parameters
    ----------
    programs
        The programs by name.
    initial
        The state that the caller writes before it is taken for the first time.
    memories
        The arenas of each program, mapped over each other (`tmmu.runtime.sets`).
    sanitize
        Report a read of bytes that another tensor has written since, of whichever program and call.

    Attributes
    ----------
    kept
        The state that holds a value, by name.
    values
        The tensor of each value that was written to an arena, with the sanitizer.
    """

    def __init__(
        self,
        programs: Mapping[str, CalledProgram],
        initial: Collection[str],
        memories: Mapping[str, MappedMemory],
        *,
        sanitize: bool = False,
    ) -> None:
        self.programs, self.initial, self.kept = programs, frozenset(initial), dict[str, KeptBytes]()
        owners: dict[str, Owners] = {}
        self.values: list[str | None] = []
        self.batches: dict[str, Batches] = {}
        for name, each in programs.items():
            own = [owners.setdefault(arena.name, Owners()) for arena in each.program.plan.allocation.arenas]
            self.batches[name] = Batches(
                each.program, memories[name], sanitize=sanitize, ownership=Ownership(own, self.values)
            )

    def find_missing(self, name: str) -> list[str]:
        """Return the state that a program takes and that holds no value, in the order of its tensors."""
        takes = self.programs[name].takes
        return [kept for kept in sorted(takes, key=lambda kept: takes[kept]) if kept not in self.kept]

    def check_ready(self, name: str) -> None:
        """Raise CONTRACT_VIOLATION if a program takes what neither the caller writes nor a call has left."""
        for kept in self.find_missing(name):
            if kept not in self.initial:
                writers = [other for other, each in self.programs.items() if kept in each.leaves]
                raise _make_refusal(name, kept, writers)

    def call(
        self,
        name: str,
        kernels: Kernels,
        progress: Callable[[int], None] | None = None,
        observe: Callable[[Look], None] | None = None,
    ) -> SimulationReport:
        """Call a program. After a corruption there is no next call.

        Raises CONTRACT_VIOLATION for a program that is not ready, and as `Batches.run` does.
        """
        self.check_ready(name)
        found, batches = self.programs[name], self.batches[name]
        batches.take_over(
            {
                t: (self.kept[kept].content, self.kept[kept].shown)
                for kept, t in found.takes.items()
                if kept in self.kept
            }
        )
        report = batches.run(kernels, progress, observe)
        if report.identical:
            for kept, t in found.leaves.items():
                content = np.array(batches.private.hold(t))
                self.kept[kept] = KeptBytes(content, batches.placed.shown.get(t, (0, 0)))
        return report


def _make_refusal(name: str, kept: str, writers: Collection[str]) -> TmmuError:
    """Return the refusal of a call: nothing has written what the program takes."""
    first = next((writer for writer in writers if writer != name), None)
    return TmmuError(
        "CONTRACT_VIOLATION", f"{name} takes {kept}, which neither the caller nor an earlier call has written",
        place=f"call of {name!r}",
        fix=f"call {first} before it" if first else f"plan the set with --initial {kept}",
        operator="UML_OS.TMMU.ApplyPlan_v1", failure_operator="UML_OS.TMMU.ApplyPlan_v1",
    )  # fmt: skip
