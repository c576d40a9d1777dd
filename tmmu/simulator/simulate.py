"""Compare a plan's steps in its arenas with the same steps in private memory: identical, or the first difference.

spec: SIM1.1, SIM1.3, SIM1.6, SIM1.7, SIM1.8, SIM3.1, SIM7.1, SIM7.2, SIM8.1 to SIM8.5, V1.10
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tmmu.plans import metrics
from tmmu.runtime.births import Births
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.execution import Execution
from tmmu.runtime.memory import MappedMemory
from tmmu.simulator.machine import Kernels, Look, run
from tmmu.simulator.memories import PrivateMemory, Raw
from tmmu.simulator.placed import Ownership, PlacedMemory, Shown
from tmmu.simulator.program import PlanProgram
from tmmu.simulator.witness import Corrupted, Corruption


@dataclass
class SimulationReport:
    """The result of a run. `looks` counts the compared reads and results, `touched` the bytes used of each arena.

    `outputs` are the bytes of the tensors that the caller reads, by row, from private memory.
    """

    corruption: Corruption | None
    looks: int
    touched: list[int]
    footprints: list[int]
    outputs: dict[int, Raw] = field(default_factory=dict)

    @property
    def identical(self) -> bool:
        """Whether every look was identical, bit for bit."""
        return self.corruption is None


class Batches:
    """Runs a program repeatedly in the same arenas, and compares each run with one in private memory.

    Parameters
    ----------
    program
        The steps of a plan; of a plan for an envelope at one of its shapes.
    where
        The plan's arenas, all zero; or an execution of the plan, whose batches the runs become.
    sanitize
        Report a read of bytes that another tensor has written since, even if they are equal.
    ownership
        The record of owners to continue, of a plan set whose programs run in one memory [a new one].
    """

    def __init__(
        self,
        program: PlanProgram,
        where: MappedMemory | Execution,
        *,
        sanitize: bool = False,
        ownership: Ownership | None = None,
    ) -> None:
        self.sanitize, self.count, self.ownership = sanitize, 0, ownership
        self.taken: dict[int, Shown] | None = None
        self._enter(program, where, {})

    def _enter(self, program: PlanProgram, where: MappedMemory | Execution, held: dict[int, Raw]) -> None:
        """Run `program` from now on. `held` are the contents of persistent tensors, in both memories."""
        self.program, self.where = program, where
        self.execution = where if isinstance(where, Execution) else None
        self.memory = where.memory if isinstance(where, Execution) else where
        self.births = self.execution.births if self.execution else Births(program.plan, self.memory)
        begun = self.execution.step if self.execution else self.births.step
        self.private = PrivateMemory(program)
        self.private.carry(held)
        self.placed = PlacedMemory(
            program, self.memory, sanitize=self.sanitize, births=self.births, begun=begun, held=held,
            ownership=self.ownership,
        )  # fmt: skip

    def take_over(self, held: Mapping[int, tuple[Raw, Shown]]) -> None:
        """Let the next run begin with tensors as an earlier run in the same memory left them. spec: SIM9.2

        `held` has the right content of each, and the value whose bytes the memory must hold. The caller does not write
        these tensors again, and their storages are not zeroed at their births. Without owners the values are unused.
        """
        self.taken = {t: shown for t, (_, shown) in held.items()}
        self.private.carry({t: content for t, (content, _) in held.items()})

    def switch_program(self, program: PlanProgram, where: MappedMemory | Execution) -> None:
        """Switch the next batches to `program`: the same model at another shape, or under the plan of a safepoint.

        Tensors that the caller keeps in persistent arenas are carried over by name: `where` holds them already. Raises
        `Corrupted` if the size of one differs.
        """
        names = {name: t for t, name in enumerate(program.names)}
        held = {names[self.program.names[t]]: self.private.content[t] for t in sorted(self.program.carried)}
        for t, content in held.items():
            if program.sizes[t] != len(content):
                name = program.names[t]
                raise Corrupted(Corruption(f"the caller keeps {name}, whose size differs at this shape", (name,)))
        self._enter(program, where, held)

    def run(
        self,
        kernels: Kernels,
        progress: Callable[[int], None] | None = None,
        observe: Callable[[Look], None] | None = None,
    ) -> SimulationReport:
        """Run the next batch. After a corruption there is no next one.

        Parameters
        ----------
        kernels
            What operators compute, and the caller's values. From the second batch on, the values that the caller keeps
            in persistent arenas are not written again: they must not have changed.
        progress
            Called with the number of the current step.
        observe
            Called with each look, after its comparison.

        Raises
        ------
        TmmuError
            If private memory does not suffice, a kernel refuses, or the batch cannot be sealed.

        Notes
        -----
        Each step is computed twice, in-place steps up to eleven times (twice for each element if there are few).
        """
        looks, corruption = 0, None
        try:
            _check_bounds(self.program)
            self._begin()
            for look in self._looks(kernels):
                looks += 1
                if progress is not None:
                    progress(look.step if look.step is not None else 0 if look.written else len(self.program.steps))
                self._check_look(look)
                if observe is not None:
                    observe(look)
            _check_unchanged(self.program, self.private)
        except Corrupted as error:
            corruption = error.corruption
        outputs = {t: self.private.content[t] for t in self.program.returned if t in self.private.content}
        if self.execution is not None and corruption is None:
            for t in sorted(outputs.keys() - self.program.kept):
                self.execution.record_value(self.program.names[t], "returned", outputs[t])
            commit_execution(self.execution)
        self.count += 1
        touched = [arena.high_water for arena in self.memory.arenas]
        return SimulationReport(corruption, looks, touched, metrics.needed_bytes(self.program.plan), outputs)

    def _begin(self) -> None:
        if self.execution is not None:
            self.execution.begin()
        else:
            storage = self.program.plan.allocation.tensors.storage
            kept = {int(storage[t]) for t in self.taken or ()}
            self.births.begin(is_fresh=self.count == 0 and self.taken is None, kept=kept)
        self.placed.disown_zeroed()
        self.placed.shown.update(self.taken or {})

    def _looks(self, kernels: Kernels) -> Iterator[Look]:
        """Yield the looks of both runs, two generators in lockstep.

        The first has made the caller's writes by then, so that the second takes them from there.
        """
        if self.taken is not None:
            carried = frozenset(self.taken)
        else:
            carried = self.program.carried if self.count else frozenset()
        self.private.restart(carried)

        def given(t: int) -> Raw:
            content = kernels.given(t)
            if self.execution is not None:
                self.execution.record_value(self.program.names[t], "given", content)
            return content

        right = run(self.program, self.private, kernels, given, carried)
        found = run(self.program, self.placed, kernels, self.private.hold, carried)
        for look, other in zip(right, found, strict=True):
            assert look == other
            yield look

    def _check_look(self, look: Look) -> None:
        private = self.private
        if look.tensor not in private.content or look.tensor in private.unwritten:
            raise Corrupted(unwritten_corruption(self.program, look))
        if self.sanitize:
            self.placed.check(look)
        _compare(self.program, look, private.hold(look.tensor), self.placed.hold(look.tensor))


def simulate(
    program: PlanProgram,
    kernels: Kernels,
    *,
    sanitize: bool = False,
    progress: Callable[[int], None] | None = None,
) -> SimulationReport:
    """Run a program once, in arenas that are mapped for it, as `Batches.run` does.

    Raises also the errors of `MappedMemory.map`.
    """
    with MappedMemory.map(program.plan) as memory:
        return Batches(program, memory, sanitize=sanitize).run(kernels, progress)


def _compare(program: PlanProgram, look: Look, right: Raw, found: Raw) -> None:
    """Raise `Corrupted` for the first byte that differs."""
    if np.array_equal(right, found):
        return
    k, name = int(np.argmax(right != found)), program.names[look.tensor]
    byte = f"byte {k} is {found[k]:#04x}, expected {right[k]:#04x}"
    text = f"{program.at(look.step)} {look.verb} {name}, whose {byte}"
    raise program.corruption_at(text, (name,), look.step, look.tensor, k, k)


def unwritten_corruption(program: PlanProgram, look: Look) -> Corruption:
    """Return the corruption of a read of a tensor that nothing has written."""
    name = program.names[look.tensor]
    return Corruption(f"{program.at(look.step)} reads {name}, which nothing has written", (name,), look.step)


def _check_bounds(program: PlanProgram) -> None:
    """Raise `Corrupted` if a tensor is larger than its whole arena, before memory of its size is allocated."""
    needed = metrics.needed_bytes(program.plan)
    for t, size in enumerate(program.sizes):
        if size > needed[program.arena[t]]:
            raise program.outside(t)


def _check_unchanged(program: PlanProgram, private: PrivateMemory) -> None:
    """Raise `Corrupted` if a step has written a tensor that the caller keeps. spec: V1.10"""
    for t in sorted(private.changed):
        name = program.names[t]
        raise Corrupted(Corruption(f"the caller finds {name} changed, but has not donated it", (name,)))
