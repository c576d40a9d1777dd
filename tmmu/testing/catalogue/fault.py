"""A fault: an edit that makes a right plan wrong at numbered places, with the code under which it must be refused.

The places of a fault are computed from the columns of the plan, without the verifier. Many plans have no place for a
fault, which is then not injected.
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
    """The right plan of a model, or its right plans of several ranks, with the model."""

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
        """The tensors of the plans that the caller donates."""
        return frozenset(self.model.bindings.donated) & callers(self.plan)


class Injected(NamedTuple):
    """The input of the verifier: plan files, and the number of the faulty one.

    `codes` are all codes that are accepted if the place of a damaged byte determines the code. `model` is the file to
    compare with and `donated` are the donated tensors, if they differ from those of the case.
    """

    data: tuple[bytes, ...]
    faulty: int = 0
    codes: tuple[str, ...] = ()
    model: bytes | None = None
    donated: frozenset[str] | None = None


Inject = Callable[[Case, random.Random], Injected]


@dataclass(frozen=True)
class Fault:
    """A fault: the code with which it must be refused, its name, and whether the verifier gets the model too.

    `into` turns the edit into files of a case. `by_rows` states whether the rows of the solver must also fail to
    discharge the fault, if the code has rows.
    """

    code: str
    name: str
    edit: Callable[..., Any]
    into: Callable[[Callable[..., Any]], Inject]
    with_model: bool = False
    by_rows: bool = True

    @property
    def title(self) -> str:
        """The code and the name."""
        return f"{self.code}/{self.name}"

    def at(self, case: Case, number: int) -> Injected | None:
        """Return the files with the fault at one of its places, by number; None if the case has no place for it."""
        try:
            return self.into(self.edit)(case, random.Random(f"{case.name}/{self.title}/{number}"))
        except NoPlace:
            return None


class NoPlace(Exception):
    """The plan has no place for the fault."""


def some(chance: random.Random, places: Sequence[Item]) -> Item:
    """Return one of the places. Raises `NoPlace` if there is none."""
    if not places:
        raise NoPlace
    return chance.choice(places)


def require(holds: Any) -> None:
    """Raise `NoPlace` unless the condition holds."""
    if not holds:
        raise NoPlace


def in_case(edit: Inject) -> Inject:
    """Return the edit of a whole case unchanged."""
    return edit


def in_plan(edit: Callable[[Plan, random.Random], Plan]) -> Inject:
    """Turn an edit of the plan into an edit of a case."""
    return lambda case, chance: Injected((file.encode(edit(case.plan, chance)),))


def fault(
    code: str,
    into: Callable[[Any], Inject] = in_plan,
    *,
    name: str = "",
    with_model: bool = False,
    by_rows: bool = True,
) -> Callable[[Callable[..., Any]], Fault]:
    """Make a function, whose docstring describes it, a fault with this code."""
    return lambda edit: Fault(code, name or edit.__name__, edit, into, with_model, by_rows)


def encoded(model: Model) -> bytes:
    """Encode a model as a file."""
    return canonical.encode(columns.to_object(model))


def callers(plan: Plan) -> frozenset[str]:
    """Return the names of the tensors that the caller writes."""
    t = plan.allocation.tensors
    return frozenset(name for name, step in zip(t.name.list(), t.writer.tolist(), strict=True) if step == NONE)
