"""Decide which results of a plan may share bytes with operands of their step: the plan claims it, the tables decide.

A plan's columns `shares` and `of` are its claims. A claim counts if the checker's own tables list the step's operator
as a view or as in-place, if a model declares it, or if no table has the operator (the verdict then lists it). A claim
that does not count is left out here: the tensor is checked as an ordinary write over bytes that its step may still be
reading, and the claim refutes the plan (`proofs.definition.checker.sharing`). Nothing here examines addresses or
lifetimes of storages. That no step reads an in-place operand later depends on bytes and steps, and is part of the
obligation `sharing_is_sound`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from proofs.readers.operators import (
    DROPOUT_ASSUMED,
    DROPOUTS_ASSUMED,
    ViewTime,
    is_covered,
    is_view,
    overwritable,
    qualify_name,
    row_of,
    shows_in_every_result,
)
from tmmu.core.columns import NONE
from tmmu.core.dims.maxima import is_negative
from tmmu.core.dtypes import BITS
from tmmu.core.statements import format_operator
from tmmu.core.vocabulary import MAIN, NodePart, Role, Shares
from tmmu.plans.columns import PARTS, ROLES, SHARES
from tmmu.plans.sections import Plan

if TYPE_CHECKING:  # a plan that is judged without a model needs no reader of models
    from proofs.readers.models.reference import ReferenceProgram

_VIEW, _IN_PLACE = SHARES.index(Shares.VIEW), SHARES.index(Shares.IN_PLACE)
_SCRATCH = ROLES.index(Role.SCRATCH)
_WHOLE, _ENTER = PARTS.index(NodePart.WHOLE), PARTS.index(NodePart.ENTER)


@dataclass
class Permissions:
    """The sharing that counts. `views` maps a row to (base row, byte offset), `in_place` a result to its operand.

    A view's base is written before it, so that following `views` from row to row ends at a root. `assumed` lists what
    rests only on the plan's or the model's claim. `refused` maps a result to the reason why its in-place claim does not
    count.
    """

    views: dict[int, tuple[int, int]] = field(default_factory=dict)
    in_place: dict[int, int] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)


class SharingClaim(NamedTuple):
    """A plan's claim about one tensor, with the step that writes it (NONE: the caller)."""

    row: int
    of: int
    view: bool
    step: int


def decide_permissions(plan: Plan, reference: ReferenceProgram | None, donated: frozenset[str]) -> Permissions:
    """Decide which of the plan's claims of sharing count.

    Parameters
    ----------
    plan
        A plan that passed the gate: indices in range, columns of equal length, names unique.
    reference
        The program of the model, or None. Without it only the tables decide, by the operator and the operand's
        position.
    donated
        Names of the caller's tensors that the *user* donated. A step may take the bytes of only these. The plan's own
        statement of donation does not count.

    Returns
    -------
    Permissions
        Rows of tensors. A view step writes no byte; an in-place result takes the operand's identical slice.

    Notes
    -----
    Implements spec: T3.1 to T3.3, T3.5, T3.7, T8.6, T8.7, V1.6, V1.14, V2.1, V2.2, V2.5 and V5.5. O(steps + tensors),
    with Python objects for little more than the tensors whose sharing is claimed.
    """
    claims = _claims(plan)
    judge = _Judge(plan, reference, donated)
    if reference is not None:  # steps rest on these even if the plan does not share their bytes
        judge.permissions.assumed += [what for what in reference.assumed if what in DROPOUTS_ASSUMED]
    for claim in claims:
        if claim.view:
            judge.view(claim)
    # In-place claims come second: they need the roots of operands, which depend on all views.
    for claim in claims:
        if not claim.view:
            judge.in_place(claim)
    judge.permissions.assumed.sort()
    return judge.permissions


def _claims(plan: Plan) -> list[SharingClaim]:
    """Return the tensors that the plan claims to be a view or a result in place, in row order.

    A claim is about one step. Tensors that several exclusive branches write have none: each write is an ordinary one.
    """
    t, s = plan.allocation.tensors, plan.allocation.steps
    count = [np.bincount(rows, minlength=len(t)) for rows in (s.writes, s.mutates)]
    once = count[0] - count[1] <= 1
    rows = np.flatnonzero(((t.shares == _VIEW) | (t.shares == _IN_PLACE)) & (t.of != NONE) & once)
    columns = (rows, t.of[rows], t.shares[rows] == _VIEW, t.writer[rows])
    return [SharingClaim(*values) for values in zip(*(c.tolist() for c in columns), strict=True)]


class _Accesses(NamedTuple):
    """The reads and writes of a step, in order, and as sets. `made` are the writes without mutations."""

    reads: list[int]
    writes: list[int]
    read: frozenset[int]
    made: frozenset[int]


class _Judge:
    """The plan's columns as Python lists, and the conditions that a claim must meet to be a permission."""

    def __init__(self, plan: Plan, reference: ReferenceProgram | None, donated: frozenset[str]) -> None:
        t, s = plan.allocation.tensors, plan.allocation.steps
        self.plan, self.reference, self.donated, self.permissions = plan, reference, donated, Permissions()
        self.name, self.writer, self.bytes = t.name.list(), t.writer.tolist(), t.bytes.tolist()
        self.size = plan.sizes()
        self.dtype: list[str] = [plan.allocation.dtypes[index] for index in t.dtype.tolist()]
        self.part, self.body, self.op = s.part.tolist(), s.body.tolist(), s.op.tolist()
        self.rows, self.bounds = (s.reads, s.writes, s.mutates), (s.reads_at, s.writes_at, s.mutates_at)
        self.accesses: dict[int, _Accesses] = {}
        self.by_root: dict[int, dict[int, list[int]]] = {}
        self.shown: dict[int, tuple[int, int]] = {}

    def view(self, claim: SharingClaim) -> None:
        """Permit the tensor to show its base, if it does."""
        offset = self._view_by_caller(claim) if claim.step == NONE else self._view_by_step(claim)
        if offset is not None:
            self.permissions.views[claim.row] = (claim.of, offset)

    def in_place(self, claim: SharingClaim) -> None:
        """Permit the result to take its operand's bytes, if operator, types, body and caller allow it."""
        if why := self._why_not(claim):
            result, operand = self.name[claim.row], self.name[claim.of]
            self.permissions.refused[claim.row] = f"{result} cannot take the bytes of {operand}: {why}"
        else:
            self.permissions.in_place[claim.row] = claim.of

    def _why_not(self, claim: SharingClaim) -> str:
        """Return why a result may not take its operand's bytes: the first condition that is not met, or ""."""
        result, operand, root = self.name[claim.row], self.name[claim.of], self._shown(claim.of)[0]
        if claim.step == NONE or claim.of not in self._accesses(claim.step).read:
            return f"{operand} is not an operand of the step that writes {result}"
        if not self._within_step(claim):
            return f"{operand} is not made by an earlier step of the same body"
        if self.bytes[claim.row] != self.bytes[claim.of]:
            return f"{result} has {self.bytes[claim.row]} bytes, {operand} {self.bytes[claim.of]}"
        if not self._alike(claim.row, claim.of):
            return f"{result} and {operand} differ in size at some shape"
        if BITS[self.dtype[claim.row]] != BITS[self.dtype[claim.of]]:
            return f"elements of {self.dtype[claim.row]} and {self.dtype[claim.of]} differ in width"
        if self.writer[root] == NONE and self.name[root] not in self.donated:
            return f"the caller has not donated {self.name[root]} (--donate {self.name[root]} states that it has)"
        # A body's initializer is written once and needed whenever the body runs again: it is never overwritten.
        if self.writer[root] == NONE and self.body[claim.step] != MAIN:
            return f"bytes of {operand} are needed when the body runs again"
        if any(row != claim.of and self._touch(row, claim.of) for row in self._reads_by_root(claim.step)[root]):
            return f"bytes of {operand} are needed by another operand"
        if not self._works_in_place(claim):
            op = format_operator(*self.plan.allocation.ops[self.op[claim.step]])
            return f"{op} is not known to compute {result} from {operand} element by element"
        return ""

    def _view_by_step(self, claim: SharingClaim) -> int | None:
        """Return the byte offset of a step's result in its base, or None if it is not a view."""
        if not self._within_step(claim):
            return None
        domain, op = self.plan.allocation.ops[self.op[claim.step]]
        reads, writes, *_ = self._accesses(claim.step)
        whole = self._alike(claim.row, claim.of) and self.dtype[claim.row] == self.dtype[claim.of]
        result = writes[0] == claim.row or shows_in_every_result(domain, op)
        by_table = is_view(domain, op) and whole and result and reads[0] == claim.of
        if self.reference is not None:
            stated = self._stated_view(claim)
            return stated if stated is not None and (self._assume_declared(domain, op) or by_table) else None
        if by_table:
            return 0 if row_of(domain, op).view is not ViewTime.AT_INFERENCE or self._at_inference(reads) else None
        offset = None if is_covered(domain) else self._window_offset(claim)
        if offset is not None:
            self._assume(qualify_name(domain, op))
        return offset

    def _view_by_caller(self, claim: SharingClaim) -> int | None:
        """Return the offset of a window in the caller's bytes (tied weights, a flat buffer), if a model declares it."""
        if self.reference is None or self.writer[claim.of] != NONE:
            return None
        return self._stated_view(claim)

    def _stated_view(self, claim: SharingClaim) -> int | None:
        """Return the offset that the model states, if it states this base."""
        assert self.reference is not None  # both callers have a model
        base, offset = self.reference.views.get(self.name[claim.row], (None, 0))
        return offset if base == self.name[claim.of] else None

    def _works_in_place(self, claim: SharingClaim) -> bool:
        """Whether the operator may overwrite this operand, by the tables, the model or, without them, the plan."""
        domain, op = self.plan.allocation.ops[self.op[claim.step]]
        reads, writes, *_ = self._accesses(claim.step)
        result, own = writes.index(claim.row), row_of(domain, op)
        # A step does not list absent operands, so that an operand may be at an earlier place than in the table, unless
        # it is the last of the operator.
        is_whole = result == 0 and any(p < len(reads) for p in own.in_place)
        absences = (0,) if is_whole else (0, own.optional)
        of_table = [overwritable(domain, op, reads, result, absent) for absent in absences]
        by_table = any(claim.of in operands for operands in of_table)
        if self.reference is not None:  # a model has the absent operands
            stated = (self.name[claim.row], self.name[claim.of]) in self.reference.in_place
            return stated and (self._assume_declared(domain, op) or by_table)
        if result == 0 and claim.of in of_table[0]:
            # If elements are narrower than a byte, equal bytes do not imply equal shapes; a sole operand does.
            return BITS[self.dtype[claim.row]] >= 8 or len(self._operands(claim.step)) == 1
        return (by_table or not is_covered(domain)) and self._assume(qualify_name(domain, op))

    def _operands(self, step: int) -> list[int]:
        """Return the reads of a step without its scratch, which it makes itself."""
        role, (reads, writes, *_) = self.plan.allocation.tensors.role, self._accesses(step)
        return [row for row in reads if role[row] != _SCRATCH or row not in writes]

    def _within_step(self, claim: SharingClaim) -> bool:
        """Whether a whole step makes the tensor from its reads, and both belong to the step's own body (T8.6)."""
        step = self._accesses(claim.step)
        if self.part[claim.step] != _WHOLE or claim.of not in step.read or claim.row not in step.made:
            return False
        body, writer = self.body[claim.step], self.writer[claim.of]
        if writer != NONE:
            # An enter writes formal inputs. An operand that was written earlier also keeps chains of views finite.
            return bool(writer < claim.step and self.part[writer] != _ENTER and self.body[writer] == body)
        # The caller's tensors belong to the main graph, except a body's own initializers, which carry its name.
        return bool(body == MAIN or self.name[claim.of].startswith(f"{self.plan.allocation.bodies.name[body]}/"))

    def _touch(self, row: int, other: int) -> bool:
        """Whether two tensors that show one root share a byte of it (T3.7)."""
        first, second = self._shown(row)[1], self._shown(other)[1]
        return bool(first < second + self.bytes[other] and second < first + self.bytes[row])

    def _alike(self, row: int, other: int) -> bool:
        """Whether two tensors have the same size, for every shape of the envelope. spec: R6.6"""
        return self.bytes[row] == self.bytes[other] and self.size[row] == self.size[other]

    def _at_inference(self, reads: list[int]) -> bool:
        """Whether a Dropout passes its operand on: without training_mode (its only operand of bools), or as assumed."""
        if all(self.dtype[row] != "bool" for row in reads[1:]):
            return True
        origin = self.plan.provenance
        return origin is not None and origin.mode == "inference" and self._assume(DROPOUT_ASSUMED)

    def _window_offset(self, claim: SharingClaim) -> int | None:
        """Return where the plan itself puts the tensor in its base, if it is inside."""
        t = self.plan.allocation.tensors
        offset = int(t.window[claim.row]) - int(t.window[claim.of])
        inside = offset >= 0 and not is_negative(self.size[claim.of] - self.size[claim.row] - offset)
        return offset if inside and t.storage[claim.row] == t.storage[claim.of] else None

    def _assume_declared(self, domain: str, op: str) -> bool:
        """Whether the model declares sharing of an operator beyond the tables. If so, it is listed."""
        assert self.reference is not None  # both callers have a model
        return qualify_name(domain, op) in self.reference.assumed and self._assume(qualify_name(domain, op))

    def _assume(self, what: str) -> bool:
        if what not in self.permissions.assumed:
            self.permissions.assumed.append(what)
        return True

    def _accesses(self, step: int) -> _Accesses:
        if step not in self.accesses:
            here = (slice(int(at[step]), int(at[step + 1])) for at in self.bounds)
            reads, writes, mutates = (rows[of].tolist() for rows, of in zip(self.rows, here, strict=True))
            self.accesses[step] = _Accesses(reads, writes, frozenset(reads), frozenset(writes).difference(mutates))
        return self.accesses[step]

    def _reads_by_root(self, step: int) -> dict[int, list[int]]:
        """Return the reads of a step, by root. It must be called after all views are known."""
        if step not in self.by_root:
            self.by_root[step] = {}
            for row in self._accesses(step).read:
                self.by_root[step].setdefault(self._shown(row)[0], []).append(row)
        return self.by_root[step]

    def _shown(self, row: int) -> tuple[int, int]:
        """Return the tensor at the end of a chain of views and the byte of it that `row` begins with.

        That is the tensor itself if it is not a view. It must be called after all views are known. O(chain) for the
        first of a chain.
        """
        chain = []
        while row in self.permissions.views and row not in self.shown:
            chain.append(row)
            row = self.permissions.views[row][0]
        found = self.shown.get(row, (row, 0))
        for view in reversed(chain):
            found = self.shown[view] = found[0], found[1] + self.permissions.views[view][1]
        return found
