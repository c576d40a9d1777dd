"""Define the lists that a solver walks on the data of a plan, and what each must satisfy from one cell to the next.

Each function takes a state, the state that it must end with, constants, and a list. It carries the first state from the
front of the list to its end. It holds if every cell fits and the end is the stated one. A long list can therefore be
checked in parts, each beginning where the part before it ended, and a lemma joins the parts. The same text is evaluated
on the plan's rows and used in the lemmas' proofs, so that the two cannot drift apart.

A row has one cell, two, or `WIDE`. For these the text is unfolded once, here, into functions without recursion
(`level_of_4`), which cost a solver a third. `unfold_calls` proves that they mean the same.
spec: T1.1, V1.1, V1.5, V5.1, T6.4
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from proofs.proving.smt import descent
from proofs.proving.smt.expressions import Expression, text_of
from proofs.proving.smt.unfold import read_unfolding, unfold_calls

_RECURSIVE = """
; The storages of one slot, by birth: each is born after the one before it died, starts where the slot starts, and fits.
(declare-datatypes ((Tenants 0)) (((vacant) (tenant
  (birth Int) (death Int) (offset Int) (bytes Int) (alignment Int) (next_tenants Tenants)))))
(define-fun-rec tenancy ((since Int) (until Int) (start Int) (size Int) (tenants Tenants)) Bool
  (ite ((_ is vacant) tenants) (= since until)
    (and (< since (birth tenants)) (<= (birth tenants) (death tenants))
         (= start (offset tenants)) (<= 1 (bytes tenants)) (<= (bytes tenants) size)
         (<= 1 (alignment tenants)) (= 0 (mod start (alignment tenants)))
         (tenancy (death tenants) until start size (next_tenants tenants)))))

; The slots of one arena, by offset: each starts, aligned, at or after the end of the one before it.
(declare-datatypes ((Slots 0)) (((no_slots) (slot
  (slot_offset Int) (slot_bytes Int) (slot_alignment Int) (next_slots Slots)))))
(define-fun-rec layout ((cursor Int) (end Int) (slots Slots)) Bool
  (ite ((_ is no_slots) slots) (= cursor end)
    (and (<= cursor (slot_offset slots)) (<= 1 (slot_bytes slots))
         (<= 1 (slot_alignment slots)) (= 0 (mod (slot_offset slots) (slot_alignment slots)))
         (layout (+ (slot_offset slots) (slot_bytes slots)) end (next_slots slots)))))

; What is allocated and freed in one arena, by step: the running total never exceeds the ceiling.
(declare-datatypes ((Changes 0)) (((no_changes) (change (at Int) (amount Int) (next_changes Changes)))))
(define-fun-rec level ((since Int) (before Int) (until Int) (after Int) (ceiling Int) (changes Changes)) Bool
  (ite ((_ is no_changes) changes) (and (<= since until) (= before after))
    (and (<= since (at changes)) (<= (+ before (amount changes)) ceiling)
         (level (at changes) (+ before (amount changes)) until after ceiling (next_changes changes)))))

; What the same bytes hold, one content after the other: none is written while the one before it is still to be read.
; A content may replace one that its own step reads last, where it may work in place.
(declare-datatypes ((Contents 0)) (((no_contents) (content
  (written Int) (first_read Int) (last_read Int) (replaces Bool) (next_contents Contents)))))
(define-fun-rec holding ((made Int) (busy Int) (made_last Int) (busy_last Int) (contents Contents)) Bool
  (ite ((_ is no_contents) contents) (and (= made made_last) (= busy busy_last))
    (and (< made (written contents))
         (or (< busy (written contents)) (and (replaces contents) (= busy (written contents))))
         (< (written contents) (first_read contents)) (<= (written contents) (last_read contents))
         (holding (written contents) (last_read contents) made_last busy_last (next_contents contents)))))

; The edges on one side of a storage, by step: at each of its steps there is one, and no edge at any other step.
(declare-datatypes ((Edges 0)) (((no_edges) (edge (first_step Int) (last_step Int) (next_edges Edges)))))
(define-fun-rec tiling ((since Int) (until Int) (edges Edges)) Bool
  (ite ((_ is no_edges) edges) (= since until)
    (and (= (first_step edges) (+ since 1)) (<= (first_step edges) (last_step edges))
         (tiling (last_step edges) until (next_edges edges)))))

; The edges above a storage, by step, as `tiling` has them, each with the byte at which begins what lies above: none
; begins before the end of the storage.
(declare-datatypes ((Above 0)) (((nothing_above) (over
  (from_step Int) (to_step Int) (begins_at Int) (next_above Above)))))
(define-fun-rec stacking ((since Int) (until Int) (end Int) (above Above)) Bool
  (ite ((_ is nothing_above) above) (and (= since until) (<= 0 end))
    (and (= (from_step above) (+ since 1)) (<= (from_step above) (to_step above)) (<= end (begins_at above))
         (stacking (to_step above) until end (next_above above)))))
(define-fun has_bytes ((bytes_of_storage Int)) Bool (< 0 bytes_of_storage))

; An edge leads up: what lies above begins at or after the end of what lies below, and has a byte.
(define-fun stacked ((end_below Int) (offset_above Int) (end_above Int)) Bool
  (and (<= 0 end_below) (<= end_below offset_above) (< offset_above end_above)))
"""

WIDE = 4
"""Cells of a wide row. More cells make little difference to a solver."""
WIDTHS = (1, 2, WIDE)
"""Cells of a row, powers of two. Narrower rows are the rest of a list."""


class Unfolded(NamedTuple):
    """A chain applied to lists of `width` cells: its name, its parameters, the call of the chain, and its text."""

    chain: str
    width: int
    name: str
    parameters: Sequence[tuple[str, str]]
    call: Expression
    text: str


def _unfold() -> list[Unfolded]:
    known = descent.check_definitions(_RECURSIVE)
    by = read_unfolding(known)
    found = []
    for function in known.functions.values():
        *state, (_, sort) = function.parameters
        if sort not in known.lists:
            continue  # it does not take a list
        made = known.lists[sort]
        for width in WIDTHS:
            cells = [[(f"{name}_{k + 1}", sort) for name, sort in made.fields] for k in range(width)]
            rest: Expression = made.empty
            for cell in reversed(cells):
                rest = [made.cell, *(name for name, _ in cell), rest]
            call: Expression = [function.name, *(name for name, _ in state), rest]
            parameters = [*state, *(field for cell in cells for field in cell)]
            name = f"{function.name}_of_{width}"
            declared = " ".join(f"({name} {sort})" for name, sort in parameters)
            text = f"(define-fun {name} ({declared}) Bool\n  {text_of(unfold_calls(call, by))})\n"
            found.append(Unfolded(function.name, width, name, parameters, call, text))
    return found


def _numbered(name: str, sort: str = "") -> str:
    """Return `name_1`, `name_2` and so on, one for each cell of a block, each declared if a sort is given."""
    found = [f"{name}_{k + 1}" for k in range(BLOCK)]
    return " ".join(f"({each} {sort})" for each in found) if sort else " ".join(found)


BLOCK = 16
"""Cells of `level` that `level_in_block` combines."""
_LEVEL_IN_BLOCK = f"""
; As `level` of a list of {BLOCK} changes: the total would not exceed the ceiling if all births came first but for what
; the first change frees.
(define-fun level_in_block ((since Int) (before Int) (until Int) (after Int) (ceiling Int)
    {_numbered("at", "Int")}
    {_numbered("born", "Int")}
    {_numbered("freed", "Int")}) Bool
  (and (<= since {_numbered("at")} until)
       (<= (+ before {_numbered("born")}) (+ ceiling freed_1))
       (= (+ before {_numbered("born")}) (+ after {_numbered("freed")}))))
"""
UNFOLDED = _unfold()
DEFINITIONS = _RECURSIVE + "".join(each.text for each in UNFOLDED) + _LEVEL_IN_BLOCK
"""The definitions as SMT-LIB, accepted by `proofs.proving.smt.descent`."""


def lemmas_of(chain: str) -> tuple[str, ...]:
    """Return the names of the lemmas that give the rows of a chain the meaning of the chain."""
    return tuple(f"{each.name}_is_{chain}" for each in UNFOLDED if each.chain == chain)
