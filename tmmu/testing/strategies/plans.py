"""Right plans, and right plans made wrong: what a checker must accept, and what it must refuse. spec: TP1.7, TP1.8"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import assume
from hypothesis import strategies as st

from proofs.definition.violations import Obligation, Violation
from proofs.verify.checks import BufferSubject, Subject, buffer_violations, violations
from tmmu.core.columns import build_column
from tmmu.core.errors import TmmuError
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import text_writer
from tmmu.plans.columns import Storages
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.testing.catalogue import FAULTS
from tmmu.testing.catalogue.fault import NoPlace, in_plan, require, some
from tmmu.testing.problems import BufferProblem
from tmmu.testing.strategies.buffers import buffers, first_fit
from tmmu.testing.strategies.programs import models

Edit = Callable[[Any, random.Random], Any]
"""What makes a right plan wrong. Raises `NoPlace` if the plan has no place for it."""
LAYOUTS = ("packed", "slots")


class WrongPlan(NamedTuple):
    """A plan that is wrong, the obligation that must name the fault, and what was done to a right plan."""

    plan: Plan | BufferPlan
    obligation: str
    fault: str

    @property
    def text(self) -> str:
        """The plan as text."""
        return text_writer.write(self.plan)


def plans(*, of_buffers: bool = True, of_models: bool = True) -> st.SearchStrategy[Plan | BufferPlan]:
    """Return a strategy for right plans: of models, with steps, and of buffers, which state lifetimes alone.

    A plan of buffers places them in any order at the lowest free offset, sometimes with a hole below. Each plan can be
    written as text, and `verify-plan` proves it.
    """
    if not of_buffers and not of_models:
        raise ValueError("plans(): of_buffers or of_models must be True")
    return _plans(of_buffers, of_models)


@st.composite
def _plans(draw: st.DrawFn, of_buffers: bool, of_models: bool) -> Plan | BufferPlan:
    if of_models and (not of_buffers or draw(st.booleans())):
        return _plan_of_model(draw)
    drawn = draw(buffers(most=8, alignments=True).filter(bool))  # a text states one buffer at least
    order = draw(st.permutations(range(len(drawn)))) if len(drawn) < 8 else None
    shift = draw(st.sampled_from((0, 0, 4096)))
    problem = BufferProblem(drawn)
    return problem.place({name: offset + shift for name, offset in first_fit(drawn, order).items()})


def _plan_of_model(draw: st.DrawFn) -> Plan:
    """Plan a model with the planner of this package, and drop what only its own files state."""
    model = draw(models(most=8))
    try:
        made = plan_memory(model, options=PlanOptions(layout=draw(st.sampled_from(LAYOUTS)))).plan
        plan = Plan(made.allocation)
        text_writer.write(plan)
    except TmmuError:
        plan = None
    assume(plan is not None and next(violations_of(plan), None) is None)
    assert plan is not None
    return plan


def violations_of(plan: Plan | BufferPlan) -> Iterator[Violation]:
    """Yield everything that the verifier finds without a solver and without a model."""
    if isinstance(plan, BufferPlan):
        yield from buffer_violations(BufferSubject(StatedBuffers(plan, {})))
    else:
        yield from violations(Subject(StatedPlan(plan, {})))


def faults(plan: Plan | BufferPlan, only: Collection[str] | None = None) -> st.SearchStrategy[WrongPlan]:
    """Return a strategy for a right plan made wrong in one place, each as a `WrongPlan`.

    The edits are those of the catalogue of faults; each result is refuted by the verifier under its obligation, and can
    be written as text. `only` are the obligations to choose from. A plan without a place for any fault has no example.
    """

    @st.composite
    def spoiled(draw: st.DrawFn) -> WrongPlan:
        made = spoil(plan, draw(st.integers(0, 10_000)), only)
        assume(made is not None)
        assert made is not None
        return made

    return spoiled()


def spoil(plan: Plan | BufferPlan, number: int, only: Collection[str] | None = None) -> WrongPlan | None:
    """Return the plan with a fault, the same one for the same number; None if there is no place for any."""
    chance = random.Random(number)
    edits = list(_edits(plan, only))
    codes = sorted({code for _, code, _ in edits})
    chance.shuffle(codes)  # an obligation with few faults is as frequent as one with many
    chance.shuffle(edits)
    for title, code, edit in sorted(edits, key=lambda each: codes.index(each[1])):
        try:
            made = WrongPlan(edit(plan, chance), code, title)
            text_writer.write(made.plan)
        except (NoPlace, TmmuError):
            continue
        if any(found.obligation == code for found in violations_of(made.plan)):
            return made
    return None


def _edits(plan: Plan | BufferPlan, only: Collection[str] | None) -> Iterator[tuple[str, str, Edit]]:
    """Yield title, obligation and edit of the faults that a plan may have."""
    if isinstance(plan, BufferPlan):
        found = [(f"{code}/{edit.__name__}", str(code), edit) for code, edit in BUFFER_FAULTS]
    else:
        found = [
            (fault.title, fault.code, fault.edit)
            for fault in FAULTS.values()
            if fault.into is in_plan and not fault.with_model and fault.code in list(Obligation)
        ]
    yield from (each for each in found if only is None or each[1] in only)


def put_together(plan: BufferPlan, chance: random.Random) -> BufferPlan:
    """Put a storage onto another that is live at one of its steps."""
    s = plan.buffers.storages
    rows = range(len(s))
    a, b = some(chance, [
        (a, b) for a in rows for b in rows
        if a != b and s.bytes[a] and s.bytes[b] and s.birth[a] <= s.death[b] and s.birth[b] <= s.death[a]
        and s.offset[b] % s.alignment[a] == 0 and int(s.offset[b]) + int(s.bytes[a]) < 1 << 64
    ])  # fmt: skip
    return _moved(plan, a, int(s.offset[b]))


def shift_off(plan: BufferPlan, chance: random.Random) -> BufferPlan:
    """Move a storage by less than its alignment."""
    s = plan.buffers.storages
    k = some(chance, [k for k in range(len(s)) if s.alignment[k] > 1])
    return _moved(plan, k, int(s.offset[k]) + chance.randrange(1, int(s.alignment[k])))


def lower_capacity(plan: BufferPlan, chance: random.Random) -> BufferPlan:
    """State a capacity that ends within a storage."""
    s = plan.buffers.storages
    k = some(chance, [k for k in range(len(s)) if int(s.offset[k]) + int(s.bytes[k]) > 1 and s.bytes[k]])
    low = max(1, int(s.offset[k]))
    capacity = chance.choice((low, int(s.offset[k]) + int(s.bytes[k]) - 1))
    require(1 <= capacity < int(s.offset[k]) + int(s.bytes[k]))
    (arena,) = plan.buffers.arenas
    return BufferPlan(replace(plan.buffers, arenas=(replace(arena, capacity=capacity),)))


def _moved(plan: BufferPlan, row: int, offset: int) -> BufferPlan:
    storages: Storages = plan.buffers.storages
    column = storages.offset.tolist()
    column[row] = offset
    changed = replace(storages, offset=build_column(column, storages.offset.dtype.type))
    return BufferPlan(replace(plan.buffers, storages=changed))


BUFFER_FAULTS = (
    (Obligation.NO_LIVE_OVERLAP, put_together),
    (Obligation.ALIGNMENT, shift_off),
    (Obligation.CAPACITY, lower_capacity),
)
"""The faults of plans that state lifetimes alone."""
