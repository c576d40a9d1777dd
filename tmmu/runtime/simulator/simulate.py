"""A plan's steps in its arenas beside the same steps in private memory: identical, or the first difference.

spec: SIM1.1, SIM1.3, SIM1.6, SIM1.7, SIM1.8, SIM3.1, SIM7.1, V1.10
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tmmu.runtime.memory import Memory
from tmmu.runtime.simulator.machine import Kernels, Look, run
from tmmu.runtime.simulator.memories import Private, Raw
from tmmu.runtime.simulator.placed import Placed
from tmmu.runtime.simulator.program import Program
from tmmu.runtime.simulator.witness import Corrupted, Corruption


@dataclass
class Report:
    """What a run showed. `looks` counts the compared reads and results, `touched` the bytes used of each arena.

    `outputs` are the bytes of what the caller reads, by row, as private memory has them.
    """

    corruption: Corruption | None
    looks: int
    touched: list[int]
    footprints: list[int]
    outputs: dict[int, Raw] = field(default_factory=dict)

    @property
    def identical(self) -> bool:
        """Was everything that was looked at the same, bit for bit?"""
        return self.corruption is None


def simulate(
    program: Program,
    kernels: Kernels,
    *,
    sanitize: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Run a program in its plan's arenas and in private memory, comparing as both go.

    Parameters
    ----------
    program
        The steps of a plan.
    kernels
        What its operators compute.
    sanitize
        Report a read of bytes that another tensor has written since even where they are equal.
    progress
        Is told the step that is run.

    Raises
    ------
    TmmuError
        Where the arenas cannot be mapped, private memory does not suffice, or a kernel refuses.

    Notes
    -----
    Each step is computed twice, in-place steps up to eleven times (twice for each element where there are few).
    """
    with Memory.map(program.plan) as memory:
        private, placed = Private(program), Placed(program, memory, sanitize=sanitize)
        looks, corruption = 0, None
        try:
            _bounds(program)
            # Both runs are generators of the same looks: neither goes on before the other has come as far.
            # The first has made the caller's writes by then, so that the second takes them from there.
            right, found = run(program, private, kernels), run(program, placed, kernels, private.hold)
            for look, other in zip(right, found, strict=True):
                assert look == other
                looks += 1
                if progress is not None:
                    progress(look.step if look.step is not None else len(program.steps))
                if look.tensor not in private.content or look.tensor in private.unwritten:
                    raise Corrupted(_unwritten(program, look))
                if sanitize:
                    placed.check(look.step, look.tensor)
                _compare(program, look, private.hold(look.tensor), placed.hold(look.tensor))
            _unchanged(program, private)
        except Corrupted as error:
            corruption = error.corruption
        touched = [memory.high_water(a) for a in range(len(program.plan.arenas))]
        outputs = {t: private.content[t] for t in program.returned if t in private.content}
    return Report(corruption, looks, touched, [usage.footprint for usage in program.plan.usage], outputs)


def _compare(program: Program, look: Look, right: Raw, found: Raw) -> None:
    """Raise `Corrupted` with the first byte that differs."""
    if np.array_equal(right, found):
        return
    k, name = int(np.argmax(right != found)), program.names[look.tensor]
    step = None if look.step is None else program.steps[look.step]
    written = step is not None and look.tensor in step.results and look.tensor not in step.operands
    what = "writes" if written else "reads"
    text = f"{program.at(look.step)} {what} {name}, whose byte {k} is {found[k]:#04x} where {right[k]:#04x} belongs"
    arena, first = program.plan.arenas[program.arena[look.tensor]].name, program.address[look.tensor] + k
    raise Corrupted(Corruption(text, (name,), look.step, arena, first, first))


def _unwritten(program: Program, look: Look) -> Corruption:
    name = program.names[look.tensor]
    return Corruption(f"{program.at(look.step)} reads {name}, which nothing has written", (name,), look.step)


def _bounds(program: Program) -> None:
    """Raise `Corrupted` where a tensor is larger than its whole arena, before anything of its size is made."""
    for t, size in enumerate(program.sizes):
        arena = program.arena[t]
        if size > program.plan.usage[arena].footprint:
            name, where = program.names[t], program.plan.arenas[arena].name
            last = program.address[t] + size - 1
            text = f"{name} lies outside of the arena {where}"
            raise Corrupted(Corruption(text, (name,), None, where, program.address[t], last))


def _unchanged(program: Program, private: Private) -> None:
    """Raise `Corrupted` where a step has written what the caller keeps. spec: V1.10"""
    for t in sorted(private.changed):
        name = program.names[t]
        raise Corrupted(Corruption(f"the caller finds {name} changed, which it has not donated", (name,)))
