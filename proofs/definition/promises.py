"""Define the three promises of a memory plan, each as a solver formula taken directly from its definition.

1. *No live overlap*: if two storages of one arena are live at one step, they have no byte in common.
2. *Alignment*: the address of every storage and tensor is a multiple of its alignment, which is a power of two, and so
   is the alignment that the base of its arena is stated to have.
3. *Slot count == max live*: if a plan claims it for an arena, the number of the arena's slots equals the largest number
   of its storages that are live at one step. (Interval lifetimes need no more:
   `proofs.proving.lemmas.plan.clique_bound`. The solver searches no colouring.)

Each promise is asked as a question: is there a pair, an address or a step that breaks it? The unknowns `i`, `j` and
`step` are bit-vectors, and the plan's columns are tables over them. No certificate, chain or lemma is used. Each
question has a vacuity check, a second question that must have an answer. It detects a context that refutes everything,
because there an unsatisfiable question would prove nothing.

    python -m proofs.proving.promises PLAN      # asks Z3

spec: V4.7, V1.1, V1.2, V5.1, T7.2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from proofs.definition.tables import declare_unknown, define_table, name_rows, width
from tmmu.plans.allocation import Allocation, Placement
from tmmu.plans.sections import Claims

NAME = "definition"
SENTENCE = "Asked directly of the definitions: no live overlap, alignment and, if claimed, slot count == max live."


class Finding(NamedTuple):
    """A case that breaks a promise: a sentence with the plan's names, and the storages that it is about."""

    text: str
    storages: tuple[int, ...] = ()


class Question(NamedTuple):
    """A promise as SMT-LIB: its tables over unknowns, the assertion that breaks it, and how to read a model.

    `canary` is the vacuity check, an assertion that must be satisfiable. `rows` is the size of the largest table.
    """

    promise: str
    tables: str
    breaks: str
    canary: str
    unknowns: tuple[str, ...]
    rows: int
    read: Callable[[Sequence[int]], Finding]


def no_live_overlap(placement: Placement) -> Iterator[Question]:
    """Ask for two rows i < j of one arena that are live at one step and have a byte in common.

    The vacuity check asks for i = j: a row collides with itself.
    """
    s, names = placement.storages, placement.storage_names()
    rows = [k for k, size in enumerate(s.bytes.tolist()) if size]  # a storage of zero bytes overlaps none
    rows.sort(key=lambda k: (int(s.arena[k]), int(s.offset[k])))
    if len(rows) < 2:
        return
    columns = {
        "arena": s.arena[rows].tolist(), "birth": s.birth[rows].tolist(), "death": s.death[rows].tolist(),
        "first": s.offset[rows].tolist(),
        "end": [o + z for o, z in zip(s.offset[rows].tolist(), s.bytes[rows].tolist(), strict=True)],
    }  # fmt: skip
    widths = {"birth": columns["death"], "death": columns["birth"], "first": columns["end"], "end": columns["first"]}
    both = [define_table(f"{name}_{row}", row, columns[name], widths.get(name, ())) for name in columns for row in "ij"]
    tables = "\n".join(
        [name_rows([names[k] for k in rows]), declare_unknown("i", len(rows)), declare_unknown("j", len(rows)), *both]
    )
    live = "(and (bvule birth_i death_j) (bvule birth_j death_i))"
    common = "(and (bvult first_i end_j) (bvult first_j end_i))"
    collide = f"(assert (and rows_i rows_j (= arena_i arena_j) {live} {common}))"

    def read(at: Sequence[int]) -> Finding:
        a, b = (rows[k] for k in at)
        step, byte = (int(max(column[a], column[b])) for column in (s.birth, s.offset))
        return Finding(f"{names[a]} and {names[b]} are both live at step {step} and have byte {byte} in common", (a, b))

    breaks, canary = f"{collide}(assert (bvult i j))", f"{collide}(assert (= i j))"
    yield Question("no live overlap", tables, breaks, canary, ("i", "j"), len(rows), read)


def alignment(placement: Placement) -> Iterator[Question]:
    """Ask for a row i whose address is not a multiple of its alignment, or whose alignment is not a power of two.

    A base is asked about as the least address that its stated alignment permits; 0 if the plan states none.
    """
    s = placement.storages
    of_arena = [placement.arenas[a].alignment for a in s.arena.tolist()]
    rows = list(zip(placement.storage_names(), s.offset.tolist(), s.alignment.tolist(), range(len(s)), strict=True))
    rows += [(name, at, least, k) for (name, at, _, k), least in zip(rows, of_arena, strict=True)]
    if isinstance(placement, Allocation):
        t = placement.tensors
        of_tensors = zip(t.name.list(), t.storage.tolist(), t.window.tolist(), t.alignment.tolist(), strict=True)
        rows += [(name, int(s.offset[k]) + window, least, k) for name, k, window, least in of_tensors]
    first: dict[tuple[int, int], int] = {}
    for k, needed in enumerate(zip(s.arena.tolist(), s.alignment.tolist(), strict=True)):
        first.setdefault(needed, k)
    bases = [arena.stated_base for arena in placement.arenas]
    rows += [(f"a base of {placement.arenas[a].name}", bases[a], least, k) for (a, least), k in first.items()]
    rows = list(dict.fromkeys(rows))
    if not rows:
        return
    address, least = [at for _, at, _, _ in rows], [a for _, _, a, _ in rows]
    columns = define_table("address", "i", address, least), define_table("alignment", "i", least, address)
    tables = "\n".join([name_rows([name for name, *_ in rows]), declare_unknown("i", len(rows)), *columns])
    mask = f"(bvsub alignment (_ bv1 {width([*address, *least])}))"
    zero = f"(_ bv0 {width([*address, *least])})"
    multiple = f"(= (bvand address {mask}) {zero})"
    power = f"(and (distinct alignment {zero}) (= (bvand alignment {mask}) {zero}))"

    def read(at: Sequence[int]) -> Finding:
        name, start, asked, k = rows[at[0]]
        return Finding(f"{name} at address {start} is not aligned to {asked}", (k,))

    breaks = f"(assert (and rows_i (not (and {power} {multiple}))))"
    yield Question("alignment", tables, breaks, "(assert rows_i)", ("i",), len(rows), read)


def slot_count_is_max_live(placement: Placement, claims: Claims | None) -> Iterator[Question]:
    """Ask, for each arena, for a step that has more live storages than the arena has slots.

    Of a plan with streams, whose slots are as many as an antichain has storages, the stated most live are asked about.
    The vacuity check asks for a step that has exactly that many.
    """
    s, names = placement.storages, placement.storage_names()
    for a, usage in enumerate(() if claims is None else claims.usage):
        slots = usage.slots if usage.minimal and usage.antichain is None else usage.max_live
        rows = [k for k, arena in enumerate(s.arena.tolist()) if arena == a]
        if slots is None or not rows:
            continue
        last = placement.last_step
        steps, counts = max(1, last.bit_length()), max(1, len(rows).bit_length(), slots.bit_length())
        spans = [(min(int(s.birth[k]), last), min(int(s.death[k]), last)) for k in rows]
        lives = (f"(and (bvule (_ bv{b} {steps}) step) (bvule step (_ bv{d} {steps})))" for b, d in spans)
        ones = " ".join(f"(ite {live} (_ bv1 {counts}) (_ bv0 {counts}))" for live in lives)
        live = f"(define-fun live () (_ BitVec {counts}) (bvadd (_ bv0 {counts}) {ones}))"
        tables = "\n".join([name_rows([names[k] for k in rows]), declare_unknown("step", last + 1), live])

        def read(found: Sequence[int], rows: list[int] = rows, slots: int = slots) -> Finding:
            here = [k for k in rows if s.birth[k] <= found[0] <= s.death[k]]
            shown = ", ".join(names[k] for k in here[:8])
            text = f"{len(here)} storages are live at step {found[0]}, for {slots} slots: {shown}"
            return Finding(text, tuple(here))

        more, as_many = (f"(assert (and rows_step ({op} live (_ bv{slots} {counts}))))" for op in ("bvugt", "="))
        yield Question("slot count == max live", tables, more, as_many, ("step",), len(rows), read)


def questions(placement: Placement, claims: Claims | None) -> Iterator[Question]:
    """Yield every question that the three promises ask about a plan."""
    yield from no_live_overlap(placement)
    yield from alignment(placement)
    yield from slot_count_is_max_live(placement, claims)
