"""The rows of the table of wrong plans: how a row states a plan, and what each checker must answer.

A plan is stated in one of three ways: as lines of `tests.support.written`, as statements of the text format
(`spec/text-plan.md`), or as changes to a right plan. Semicolons divide lines and statements.

A place has the names that a checker gives: tensors, `@` and the step, and on request the bytes. `a b @2; c @3` are two
places. A place of another obligation than that of the group begins with its name, or with its short name in `SHORT`:
`lifetimes: a @1`. Behind a slash are the places of the solver's false rows, if they are not the same: `a b @2 / a b @1`
means that the checker finds a stale read at step 2, and the solver the write at step 1 that made it stale.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from proofs.definition.violations import Obligation, Violation
from tests.support.written import Written
from tmmu.core.vocabulary import ArenaConfiguration, Model
from tmmu.examples.broken import editing
from tmmu.planner import DEFAULT, plan_memory
from tmmu.plans import text
from tmmu.plans.sections import BufferPlan, Plan, amend_plan

AnyPlan = Plan | BufferPlan
Source = str | Written | Callable[[], AnyPlan]
Change = Callable[[Plan], Plan]
STATEMENTS = ("arena", "tensor", "buffer", "apart", "claim")
SHORT = {
    Obligation.NO_LIVE_OVERLAP: "overlap", Obligation.TENSORS_WITHIN_STORAGES: "within",
    Obligation.LIFETIMES_COVER_ACCESSES: "lifetimes", Obligation.SHARING_IS_SOUND: "sharing",
    Obligation.BODIES_NEST: "bodies", Obligation.INPUTS_KEPT: "inputs", Obligation.SLOT_COUNT: "slots",
}  # fmt: skip
"""The names of obligations in places."""


@dataclass(frozen=True)
class Row:
    """A plan and the answers of the checkers.

    Parameters
    ----------
    name
        The fault of the plan, or the feature of a right one that could look like a fault.
    source, changes
        How the plan is made.
    places
        All that the naive checker finds, in its order; empty for a right plan. Behind a slash, the first false row of
        each obligation. Without a slash, rows of the same obligations are false, and they name the same tensors.
    kernel
        Why the kernel's program accepts a wrong plan, or rejects a right one; empty if it does not.
    obligation
        The obligation of the row's group, which enters it.
    """

    name: str
    source: Source
    changes: tuple[Change, ...] = ()
    places: str = ""
    kernel: str = ""
    obligation: Obligation = Obligation.HASHES

    def plan(self) -> AnyPlan:
        """Make the plan. A `Written` has no claims; its method `plan`, as the source, has them."""
        if isinstance(self.source, Written):
            made: AnyPlan = Plan(self.source.plan().allocation)
        elif isinstance(self.source, str):
            made = of_text(self.source) if self.is_text else Plan(Written(self.source).plan().allocation)
        else:
            made = self.source()
        for change in self.changes:
            assert isinstance(made, Plan)
            made = change(made)
        return made

    @property
    def is_text(self) -> bool:
        """Return whether the plan is stated in the text format."""
        return isinstance(self.source, str) and self.source.partition(" ")[0] in STATEMENTS

    @property
    def donated(self) -> frozenset[str]:
        """Return the names of the caller's tensors that the user donates."""
        if isinstance(self.source, Written):
            return self.source.donated
        lines = self.source.split(";") if isinstance(self.source, str) else []
        return frozenset(line.split()[1] for line in lines if "donated" in line.split())

    def __str__(self) -> str:
        return f"{self.obligation}: {self.name}"


def group(obligation: Obligation, *rows: tuple[Row, ...], kernel: str = "") -> list[Row]:
    """Return the rows of one obligation. `kernel` is why its program accepts the wrong plans among them."""
    return [
        replace(row, obligation=obligation, kernel=row.kernel or kernel * bool(row.places))
        for one in rows for row in one
    ]  # fmt: skip


def wrong(
    name: str, source: Source, places: str, *changes: Change, kernel: str = "",
    right: Source | None = None, but: Change | None = None,
) -> tuple[Row, ...]:  # fmt: skip
    """Return a wrong plan. A right one comes with it: of another source (`right`), or with another change (`but`)."""
    row = Row(name, source, changes, places, kernel)
    if right is None and but is None:
        return (row,)
    return row, Row(f"{name}, but right", source if right is None else right, () if but is None else (but,))


def right(name: str, source: Source, *changes: Change, kernel: str = "") -> tuple[Row, ...]:
    """Return a right plan that is close to wrong ones."""
    return (Row(name, source, changes, kernel=kernel),)


def of_text(lines: str) -> AnyPlan:
    """Read a plan in the text format. If it states no arena, there is one, `m`, of 1,024 bytes."""
    stated = [line.strip() for line in lines.split(";")]
    head = ["tmmu-plan-text 1", *["arena m 1024"] * ("arena " not in lines)]
    return text.read("\n".join([*head, *stated, ""]).encode(), "row.plan.txt")


def planned(model: Model, *arenas: ArenaConfiguration) -> Callable[[], Plan]:
    """Return a source: the planner's plan of a model."""
    return lambda: plan_memory(model, arenas or DEFAULT).plan


# Changes


def tensor(name: str, **entries: int) -> Change:
    """Change entries of a tensor's row."""
    return lambda plan: editing.edit(plan, tensors={name: entries})


def storage(name: str, **entries: int) -> Change:
    """Change entries of the storage that holds a tensor."""
    return lambda plan: editing.edit(plan, storages={name: entries})


def slot(name: str, **entries: int) -> Change:
    """Change entries of the slot that a tensor is in."""
    return lambda plan: editing.edit(plan, slots={name: entries})


def into(name: str, of: str, window: int = 0) -> Change:
    """Put a tensor into the storage of another, at this byte. Its own storage remains and holds none."""

    def change(plan: Plan) -> Plan:
        home, row = editing.storage_of(plan, of), editing.row(plan, name)
        size = int(plan.allocation.storages.bytes[home])
        end = max(size, window + int(plan.allocation.tensors.bytes[row]))
        return editing.changed(
            editing.changed(plan, "tensors", row, storage=home, window=window), "storages", home, bytes=end
        )

    return change


def arena(which: int = 0, **entries: Any) -> Change:
    """Change fields of an arena."""
    return lambda plan: amend_plan(
        plan,
        arenas=tuple(replace(a, **entries) if k == which else a for k, a in enumerate(plan.allocation.arenas)),
    )


def claim(**claims: Any) -> Change:
    """Change claims of the first arena."""
    return lambda plan: editing.claiming(plan, **claims)


def listed(which: str, step: int, *names: str) -> Change:
    """Let a step list these tensors as its `which`: reads, writes or mutates."""
    return lambda plan: editing.listed(plan, which, step, *names)


def step(number: int, **entries: int) -> Change:
    """Change entries of a step's row."""
    return lambda plan: editing.changed(plan, "steps", number, **entries)


def body(number: int, **entries: int) -> Change:
    """Change entries of a body's row."""
    return lambda plan: editing.changed(plan, "bodies", number, **entries)


# Places


def prefix(obligation: Obligation, group: Obligation) -> list[str]:
    """Return the first words of a place: none for the obligation of the group."""
    return [] if obligation is group else [f"{SHORT.get(obligation, obligation)}:"]


def place_of(violation: Violation, group: Obligation) -> str:
    """Return the place of a violation as a row states it, with its bytes."""
    words = [*violation.tensors]
    words += [f"@{violation.step}"] * (violation.step is not None)
    if violation.field:
        field = re.sub(r"^usage\[\w+\]\.", "", violation.field)
        words.append(f"{field} {violation.stated} for {violation.recomputed.partition(':')[0]}")
    if violation.first_byte is not None:
        words = [*(words or ["the plan"]), f"bytes {violation.first_byte}-{violation.last_byte}"]
    return " ".join([*prefix(violation.obligation, group), *(words or ["the plan"])])
