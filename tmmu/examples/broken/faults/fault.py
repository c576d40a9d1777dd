"""What a fault is: a way to make a right plan wrong at numbered places, with the code under which it must be refused.

What makes an edit a fault is worked out from the plan's columns; nothing of the verifier is asked. Many plans have no
place for a fault, and then it is not injected.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from tmmu.core import canonical
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Model
from tmmu.ir import columns
from tmmu.plans import file
from tmmu.plans.sections import Plan

Item = TypeVar("Item")


@dataclass(frozen=True)
class Case:
    """Right plans and the model that they are of: one plan, or of several ranks that of each."""

    name: str
    model: Model
    plans: tuple[Plan, ...]

    @property
    def plan(self) -> Plan:
        """The plan, or that of the first rank."""
        return self.plans[0]

    @cached_property
    def plan_files(self) -> tuple[bytes, ...]:
        """The plans as files."""
        return tuple(map(file.encode, self.plans))

    @cached_property
    def model_file(self) -> bytes:
        """The model as a file."""
        return encoded(self.model)

    @cached_property
    def donated(self) -> frozenset[str]:
        """What the caller gives up, of what the plans have."""
        return frozenset(self.model.bindings.donated) & callers(self.plan)


class Injected(NamedTuple):
    """What is given to the verifier: plan files, and the number of the faulty one.

    `codes` are all codes that may be answered where what a damaged byte means follows from its place; `model` is the
    file to compare with, `donated` what the caller gives up, where they are not those of the case.
    """

    data: tuple[bytes, ...]
    faulty: int = 0
    codes: tuple[str, ...] = ()
    model: bytes | None = None
    donated: frozenset[str] | None = None


Inject = Callable[[Case, random.Random], Injected]


@dataclass(frozen=True)
class Fault:
    """A fault: the code that it must be refused with, its name, and whether the model is given as well.

    `edit` makes what `into` puts into the files of a case; `by_rows` states whether the solver's rows must not
    discharge it either, where the code has rows.
    """

    code: str
    name: str
    edit: Callable[..., Any]
    into: Callable[[Callable[..., Any]], Inject]
    with_model: bool = False
    by_rows: bool = True

    @property
    def title(self) -> str:
        """Code and name."""
        return f"{self.code}/{self.name}"

    def at(self, case: Case, number: int) -> Injected | None:
        """The files with the fault at one of its places in a case, by number; None where there is no place for it."""
        try:
            return self.into(self.edit)(case, random.Random(f"{case.name}/{self.title}/{number}"))
        except NoPlace:
            return None


class NoPlace(Exception):
    """There is no place for the fault in the plan."""


def some(chance: random.Random, places: Sequence[Item]) -> Item:
    """One of the places, or `NoPlace` where there is none."""
    if not places:
        raise NoPlace
    return chance.choice(places)


def require(holds: Any) -> None:
    """`NoPlace` unless it holds."""
    if not holds:
        raise NoPlace


def in_case(edit: Inject) -> Inject:
    """A fault that is injected into a whole case."""
    return edit


def in_plan(edit: Callable[[Plan, random.Random], Plan]) -> Inject:
    """A fault that needs no more than the plan."""
    return lambda case, chance: Injected((file.encode(edit(case.plan, chance)),))


def fault(
    code: str,
    into: Callable[[Any], Inject] = in_plan,
    *,
    name: str = "",
    with_model: bool = False,
    by_rows: bool = True,
) -> Callable[[Callable[..., Any]], Fault]:
    """Make a function, whose docstring describes it, a fault of this code."""
    return lambda edit: Fault(code, name or edit.__name__, edit, into, with_model, by_rows)


def encoded(model: Model) -> bytes:
    """A model as a file."""
    return canonical.encode(columns.to_object(model))


def callers(plan: Plan) -> frozenset[str]:
    """The names of what the caller writes."""
    t = plan.allocation.tensors
    return frozenset(name for name, step in zip(t.name.list(), t.writer.tolist(), strict=True) if step == NONE)
