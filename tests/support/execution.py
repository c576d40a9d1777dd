"""An execution oracle: does running a plan in its arenas compute what private memory for every tensor computes?

The steps are run twice (`tests.support.machine`), once in the arenas and once with bytes of its own for every tensor
but for views, which show their bases. Whatever is read on the way or returned in the end must be the same.

The operators are those of `tmmu.testing.strategies.recipes`. Nothing of the planner or of the checker is used here.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from tests.support.machine import Meaning, NotRunnable, Seen, Step, observe, steps_of
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import NodePart, Role, Shares
from tmmu.plans.columns import IS_OUTPUT, IS_RETURNED, ROLES, SHARES
from tmmu.plans.sections import Plan
from tmmu.testing.strategies.recipes import DECLARED, WHOLE_VIEWS

__all__ = ["NotRunnable", "difference", "in_any_order", "mean", "observe", "stated", "unlike"]

ELEMENTWISE = {"Relu": 1, "Cast": 1, "Add": 2}
"""How many operands, from the first, an operator of ai.onnx may overwrite; declared ones may overwrite any."""


def difference(plan: Plan, seed: int, donated: Iterable[str] = (), meaning: Meaning | None = None) -> str | None:
    """What goes wrong when the plan is run in its arenas, or None.

    Parameters
    ----------
    plan
        A plan whose indices are in range.
    seed
        Chooses contents, orders, branches and numbers of iterations.
    donated
        What the caller gave up.
    meaning
        What the steps mean, where it is not what the plan declares; by default it is.

    Raises
    ------
    NotRunnable
        Where the steps make no program, or a tensor is too large to be run.
    """
    own = meaning if meaning is not None else mean(plan, donated)
    private, placed = observe(plan, own, seed, private=True), observe(plan, own, seed, private=False)
    return unlike(private, placed)


def in_any_order(plan: Plan, seed: int, meaning: Meaning) -> str | None:
    """What goes wrong in one of four runs, between which the caller writes in other orders; None for nothing."""
    chance, given = random.Random(seed), list(meaning.given)
    for number in range(4):
        try:
            found = difference(plan, seed + number, meaning=replace(meaning, given=tuple(given)))
        except NotRunnable:
            return None
        if found is not None:
            return found
        given.reverse()
        if number:
            chance.shuffle(given)
    return None


def unlike(private: Seen, placed: Seen) -> str | None:
    """The first thing in which a run in arenas differs from one in private memory, or that was wrong in either."""
    for wrong in (*private.wrong, *placed.wrong):
        return wrong
    for (what, right), (other, found) in zip(private.reads, placed.reads, strict=False):
        if (what, right) != (other, found):
            return f"{what}: {found.hex()} where {right.hex()} belongs"
    return None if len(private.reads) == len(placed.reads) else "another number of reads"


def mean(plan: Plan, donated: Iterable[str] = ()) -> Meaning:
    """What the steps of a plan mean as it declares them, as far as its operators can mean that."""
    t = plan.allocation.tensors
    names = t.name.list()
    views: dict[str, tuple[str, int]] = {}
    overwritten: dict[str, set[str]] = {}
    for step in steps_of(plan):
        for w in step.writes if step.part is NodePart.WHOLE else ():
            of, word = int(t.of[w]), SHARES[int(t.shares[w])]
            if of not in step.reads or w in step.mutates:
                continue
            domain, op = step.op
            position = step.reads.index(of)
            if word is Shares.VIEW and _shows(plan, step, w, of):
                views[names[w]] = (names[of], int(t.window[w]) - int(t.window[of]))
            elif word is Shares.IN_PLACE and (domain == DECLARED or position < ELEMENTWISE.get(op, 0)):
                overwritten.setdefault(step.node, set()).add(names[of])
    return _with_caller(plan, views, overwritten, donated)


def stated(plan: Plan) -> Meaning:
    """What the steps of a right plan mean by its columns, whatever its operators are: of real ones none is known here.

    spec: V2.1
    """
    t = plan.allocation.tensors
    names, of = t.name.list(), t.of.tolist()
    views: dict[str, tuple[str, int]] = {}
    overwritten: dict[str, set[str]] = {}
    for step in steps_of(plan):
        for w in step.writes:
            if of[w] in step.reads and SHARES[int(t.shares[w])] is Shares.VIEW:
                views[names[w]] = names[of[w]], int(t.window[w]) - int(t.window[of[w]])
            elif of[w] in step.reads and SHARES[int(t.shares[w])] is Shares.IN_PLACE:
                overwritten.setdefault(step.node, set()).add(names[of[w]])
    return _with_caller(plan, views, overwritten, ())


def _with_caller(
    plan: Plan, views: dict[str, tuple[str, int]], overwritten: dict[str, set[str]], donated: Iterable[str]
) -> Meaning:
    """What the caller writes, reads and keeps, besides."""
    t = plan.allocation.tensors
    names, roles = t.name.list(), [ROLES[k] for k in t.role.tolist()]
    given = tuple(name for name, writer in zip(names, t.writer.tolist(), strict=True) if writer == NONE)
    kept = frozenset(given).difference(donated)
    taken = tuple(
        name
        for name, flags, role in zip(names, t.flags.tolist(), roles, strict=True)
        if flags & (IS_OUTPUT | IS_RETURNED) or (role in (Role.PARAMETER, Role.OPTIMIZER) and name in kept)
    )
    return Meaning(views, overwritten, given, taken, kept)


def _shows(plan: Plan, step: Step, w: int, of: int) -> bool:
    """Can a result be a view of an operand: the whole of the first, or where the operator is declared a window?"""
    t = plan.allocation.tensors
    first, size, base_size = int(t.window[w]) - int(t.window[of]), int(t.bytes[w]), int(t.bytes[of])
    if step.op[0] == DECLARED:
        return bool(t.storage[w] == t.storage[of]) and 0 <= first <= base_size - size
    return step.op[1] in WHOLE_VIEWS and (step.writes[0], step.reads[0], first, size) == (w, of, 0, base_size)
