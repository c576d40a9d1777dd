"""Which results of a plan may share bytes with what their own step reads: the plan proposes, the tables dispose.

A plan's columns `shares` and `of` are its word. The word counts where the checker's own tables know the step's
operator for a view or as one that works in place, where a model says so, or where nobody knows the operator (then
the verdict lists it). A word that does not count is left out here, and the tensor is checked as an ordinary write
over bytes that its step may still be reading. Nothing here looks at addresses or lifetimes of storages: that an
in-place operand is read by nobody later is a matter of bytes and steps, for the obligation `sharing_is_sound`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from proofs.readers.models.reference import Expected
from proofs.readers.operators import is_view, known, overwritable, qualified, shows_in_every_result
from tmmu.core.columns import NONE, U32
from tmmu.core.dims.maxima import is_negative
from tmmu.core.dtypes import BITS
from tmmu.core.vocabulary import MAIN, Part, Role, Shares
from tmmu.plan.columns import PARTS, ROLES, SHARES
from tmmu.plan.sections import Plan

DROPOUT_BELIEVED = "::Dropout with training_mode false"
"""The assumption that stands for a Dropout whose training_mode operand a plan without a model cannot show."""

_VIEW, _IN_PLACE = SHARES.index(Shares.VIEW), SHARES.index(Shares.IN_PLACE)
_SCRATCH = ROLES.index(Role.SCRATCH)
_WHOLE, _ENTER = PARTS.index(Part.WHOLE), PARTS.index(Part.ENTER)


@dataclass
class Permissions:
    """The sharing that counts: `views` maps a row to (base row, byte offset), `in_place` a result to its operand.

    A view's base is written before it, so that following `views` from row to row ends at a root. `believed` lists
    what was taken at the plan's or the model's word.
    """

    views: dict[int, tuple[int, int]] = field(default_factory=dict)
    in_place: dict[int, int] = field(default_factory=dict)
    believed: list[str] = field(default_factory=list)

    def root(self, row: int) -> int:
        """The tensor whose bytes a tensor shows: itself, or the end of its chain of views."""
        while row in self.views:
            row = self.views[row][0]
        return row


class _Word(NamedTuple):
    """The plan's word on one tensor, with the step that writes it (NONE: the caller)."""

    row: int
    of: int
    view: bool
    step: int


def permitted(plan: Plan, expected: Expected | None, donated: frozenset[str]) -> Permissions:
    """Decide which of the plan's words on sharing count.

    Parameters
    ----------
    plan
        A plan that passed the gate: indices in range, columns of equal length, names unique.
    expected
        What the model says, or None: then the tables alone decide, by the operator and the operand's position.
    donated
        Names of caller-written tensors that the *user* donated: of these alone may a step take the bytes. What the
        plan says of donation does not count.

    Returns
    -------
    Permissions
        Rows of tensors. A view step writes no byte; an in-place result takes the operand's identical slice.

    Notes
    -----
    Implements spec: T3.1 to T3.3, T3.5, T3.7, T8.6, T8.7, V1.6, V2.1, V2.2 and V5.5. O(steps + tensors), with Python
    objects for little but the tensors that have a word.
    """
    words = _words(plan)
    judge = _Judge(plan, expected, donated)
    for word in words:
        if word.view:
            judge.view(word)
    # In place comes second: it asks for the roots of operands, which all views together give.
    for word in words:
        if not word.view:
            judge.in_place(word)
    judge.permissions.believed.sort()
    return judge.permissions


def _words(plan: Plan) -> list[_Word]:
    """The tensors of which the plan says that they are a view or a result in place, in row order.

    The word is about one step. Of what several exclusive arms write there is none: each write is an ordinary one.
    """
    t, s = plan.allocation.tensors, plan.allocation.steps
    count = [np.bincount(rows, minlength=len(t)) for rows in (s.writes, s.mutates)]
    once = count[0] - count[1] <= 1
    rows = np.flatnonzero(((t.shares == _VIEW) | (t.shares == _IN_PLACE)) & (t.of != NONE) & once)
    columns = (rows, t.of[rows], t.shares[rows] == _VIEW, t.writer[rows])
    return [_Word(*values) for values in zip(*(c.tolist() for c in columns), strict=True)]


class _Judge:
    """The plan's columns as Python lists, and the conditions that a word must meet to be a permission."""

    def __init__(self, plan: Plan, expected: Expected | None, donated: frozenset[str]) -> None:
        t, s = plan.allocation.tensors, plan.allocation.steps
        self.plan, self.expected, self.donated, self.permissions = plan, expected, donated, Permissions()
        self.name, self.writer, self.bytes = t.name.list(), t.writer.tolist(), t.bytes.tolist()
        self.size = plan.sizes()
        self.dtype: list[str] = [plan.allocation.dtypes[index] for index in t.dtype.tolist()]
        self.part, self.body, self.op = s.part.tolist(), s.body.tolist(), s.op.tolist()
        self.reads_at, self.writes_at, self.mutates_at = (
            s.reads_at.tolist(),
            s.writes_at.tolist(),
            s.mutates_at.tolist(),
        )

    def view(self, word: _Word) -> None:
        """Permit the tensor to show its base, where it does."""
        offset = self._view_by_caller(word) if word.step == NONE else self._view_by_step(word)
        if offset is not None:
            self.permissions.views[word.row] = (word.of, offset)

    def in_place(self, word: _Word) -> None:
        """Permit the result to take its operand's bytes, as far as operator, types, body and caller allow."""
        if word.step != NONE and self._within_step(word) and self._takeable(word) and self._works_in_place(word):
            self.permissions.in_place[word.row] = word.of

    def _view_by_step(self, word: _Word) -> int | None:
        """The byte offset at which a step's result shows its base, or None where it is no view."""
        if not self._within_step(word):
            return None
        domain, op = self.plan.allocation.ops[self.op[word.step]]
        reads, writes = self._reads(word.step), self._writes(word.step)
        whole = self._alike(word.row, word.of) and self.dtype[word.row] == self.dtype[word.of]
        result = writes[0] == word.row or shows_in_every_result(domain, op)
        by_table = is_view(domain, op) and whole and result and reads[0] == word.of
        if self.expected is not None:
            stated = self._stated_view(word)
            return stated if stated is not None and (by_table or self._believe_model(domain, op)) else None
        if by_table:
            return 0 if op != "Dropout" or self._at_inference(reads) else None
        offset = None if known(domain) else self._window_offset(word)
        if offset is not None:
            self._believe(qualified(domain, op))
        return offset

    def _view_by_caller(self, word: _Word) -> int | None:
        """The offset of a window in bytes that the caller writes (tied weights, a flat buffer): a model must say so."""
        if self.expected is None or self.writer[word.of] != NONE:
            return None
        return self._stated_view(word)

    def _stated_view(self, word: _Word) -> int | None:
        """The offset that the model states, if it states this base."""
        assert self.expected is not None  # both callers ask only where there is a model
        base, offset = self.expected.views.get(self.name[word.row], (None, 0))
        return offset if base == self.name[word.of] else None

    def _works_in_place(self, word: _Word) -> bool:
        """Whether the operator may overwrite this operand, by the tables, the model or, for want of both, the plan."""
        domain, op = self.plan.allocation.ops[self.op[word.step]]
        reads, writes = self._reads(word.step), self._writes(word.step)
        by_table = writes[0] == word.row and word.of in overwritable(domain, op, reads)
        if self.expected is not None:
            stated = (self.name[word.row], self.name[word.of]) in self.expected.in_place
            return stated and (by_table or self._believe_model(domain, op))
        if by_table:
            # Where elements are narrower than a byte, equal bytes do not show equal shapes; a sole operand does.
            return BITS[self.dtype[word.row]] >= 8 or len(self._operands(word.step)) == 1
        return not known(domain) and self._believe(qualified(domain, op))

    def _operands(self, step: int) -> list[int]:
        """What a step reads, but for its scratch, which it makes itself."""
        made, role = self._writes(step), self.plan.allocation.tensors.role
        return [row for row in self._reads(step) if role[row] != _SCRATCH or row not in made]

    def _within_step(self, word: _Word) -> bool:
        """Whether a whole step makes the tensor from what it reads, and both belong to the step's own body (T8.6)."""
        if self.part[word.step] != _WHOLE or word.of not in self._reads(word.step):
            return False
        if word.row not in self._writes(word.step) or word.row in self._mutates(word.step):
            return False
        body, writer = self.body[word.step], self.writer[word.of]
        if writer != NONE:
            # What an enter writes is a formal input. An operand written earlier also keeps chains of views finite.
            return bool(writer < word.step and self.part[writer] != _ENTER and self.body[writer] == body)
        # What the caller writes belongs to the main graph, but for a body's own initializers, which carry its name.
        return bool(body == MAIN or self.name[word.of].startswith(f"{self.plan.allocation.bodies.name[body]}/"))

    def _takeable(self, word: _Word) -> bool:
        """Whether the operand has the result's size, its bytes are free to take, and no other operand shows them."""
        if not self._alike(word.row, word.of) or BITS[self.dtype[word.row]] != BITS[self.dtype[word.of]]:
            return False
        root = self.permissions.root(word.of)
        # A body's initializer is written once and needed again whenever the body runs again: donated or not, never.
        if self.writer[root] == NONE and (self.name[root] not in self.donated or self.body[word.step] != MAIN):
            return False
        return not any(
            row != word.of and self.permissions.root(row) == root and self._touch(row, word.of)
            for row in self._reads(word.step)
        )

    def _touch(self, row: int, other: int) -> bool:
        """Whether two tensors that show one root have a byte of it in common (T3.7)."""
        first, second = self._first_byte(row), self._first_byte(other)
        return bool(first < second + self.bytes[other] and second < first + self.bytes[row])

    def _alike(self, row: int, other: int) -> bool:
        """Whether two tensors have the same size, for every shape of the envelope. spec: R6.6"""
        return self.bytes[row] == self.bytes[other] and self.size[row] == self.size[other]

    def _first_byte(self, row: int) -> int:
        """The byte of its root with which a tensor begins."""
        offset = 0
        while row in self.permissions.views:
            row, step = self.permissions.views[row]
            offset += step
        return offset

    def _at_inference(self, reads: list[int]) -> bool:
        """Whether a Dropout passes its operand on: without training_mode (its one operand of bools) or believed."""
        if all(self.dtype[row] != "bool" for row in reads[1:]):
            return True
        origin = self.plan.provenance
        return origin is not None and origin.mode == "inference" and self._believe(DROPOUT_BELIEVED)

    def _window_offset(self, word: _Word) -> int | None:
        """Where the plan itself puts the tensor in its base, if it lies inside."""
        t = self.plan.allocation.tensors
        offset = int(t.window[word.row]) - int(t.window[word.of])
        inside = offset >= 0 and not is_negative(self.size[word.of] - self.size[word.row] - offset)
        return offset if inside and t.storage[word.row] == t.storage[word.of] else None

    def _believe_model(self, domain: str, op: str) -> bool:
        """Whether the model declares sharing of an operator beyond the tables; if so, it is listed."""
        assert self.expected is not None  # both callers ask only where there is a model
        return qualified(domain, op) in self.expected.believed and self._believe(qualified(domain, op))

    def _believe(self, what: str) -> bool:
        if what not in self.permissions.believed:
            self.permissions.believed.append(what)
        return True

    def _reads(self, step: int) -> list[int]:
        return _rows(self.plan.allocation.steps.reads[self.reads_at[step] : self.reads_at[step + 1]])

    def _writes(self, step: int) -> list[int]:
        return _rows(self.plan.allocation.steps.writes[self.writes_at[step] : self.writes_at[step + 1]])

    def _mutates(self, step: int) -> list[int]:
        return _rows(self.plan.allocation.steps.mutates[self.mutates_at[step] : self.mutates_at[step + 1]])


def _rows(column: U32) -> list[int]:
    rows: list[int] = column.tolist()
    return rows
