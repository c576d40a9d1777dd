"""Lemma and code, side by side: each function here evaluates a lemma's own text beside the code that it is about.

Each takes the lemma's text, the module with the code, and an example, and says what they disagree in, or None. Both
come as arguments, so that a test can hold a changed copy of either against the other. spec: V4.11
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from proofs.proving.lemmas.engine.family import AnyLemma, statements_of
from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.machine import NEXT
from proofs.proving.smt.expressions import parse, text_of, walk
from tests.support import scan
from tests.support.ground import Ground, Value, cells, rows_of
from tests.support.scan import Storage
from tmmu.core.vocabulary import Model, Shares
from tmmu.ir.program import build_program
from tmmu.ir.validate import CALLERS
from tmmu.planner.arenas import DEFAULT
from tmmu.planner.liveness import analyze
from tmmu.planner.problem import problem_of_plan
from tmmu.planner.slots import claimed_slots
from tmmu.plans.sections import Plan

Texts = Mapping[str, str]
"""What is taken of a lemma, by name: the text of a statement or of definitions."""


def copied(module: ModuleType, old: str = "", new: str = "") -> ModuleType:
    """A module made of the source of another, with one place of it changed; the original stays as it is."""
    source = Path(str(module.__file__)).read_text()
    if old and source.count(old) != 1:
        raise ValueError(f"{old!r} occurs {source.count(old)} times in {module.__name__}")
    made = ModuleType(f"{module.__name__}_copied")
    made.__package__ = module.__package__
    sys.modules[made.__name__] = made  # dataclasses look their module up
    try:
        exec(compile(source.replace(old, new) if old else source, str(module.__file__), "exec"), made.__dict__)
    finally:
        del sys.modules[made.__name__]
    return made


def texts_of(*lemmas: AnyLemma) -> dict[str, str]:
    """The texts of statements by name, of an inductive invariant each obligation by its action's."""
    plain = [lemma for lemma in lemmas if not isinstance(lemma, Lemma)]
    return {statement.name: statement.text for lemma in plain for statement in statements_of(lemma)}


@lru_cache(maxsize=256)
def split(text: str) -> tuple[list[str], str]:
    """The hypotheses and the goal of a statement's text."""
    forms = [form for form in parse(text) if isinstance(form, list)]
    hypotheses = [text_of(form[1]) for form in forms if form[0] == "assume"]
    (goal,) = [text_of(form[1]) for form in forms if form[0] == "prove"]
    return hypotheses, goal


def failing(text: str, given: Mapping[str, Value], ranges: Mapping[str, Any]) -> str | None:
    """The first hypothesis of a statement that does not hold of what is given, or else its goal if that does not."""
    ground = Ground("", given, ranges)
    hypotheses, goal = split(text)
    return next((formula for formula in (*hypotheses, goal) if not ground.value(formula)), None)


# ---- align_up, prefix_sums


def rounds_up(texts: Texts, code: ModuleType, example: tuple[int, int]) -> str | None:
    """`align_up` over the integers, and in words of 64 bits wherever nothing is carried out."""
    offset, alignment = example
    found = code.align_up(offset, alignment)
    stated = Ground(texts["ALIGN_UP"]).value(f"(align_up {offset} {alignment})")
    if stated != found:
        return f"the lemma gives {stated}, the code {found}"
    if offset < 1 << 64:
        words = Ground(texts["words_round_up_as_integers_do"], {"offset": offset, "alignment": alignment})
        if words.value("carry") != (offset + alignment > 1 << 64):
            return f"a carry is not noticed or made up at {offset}"
        if not words.value("carry") and words.value("rounded") != found:
            return f"in words {words.value('rounded')}, the code {found}"
    return None


def places_slots(texts: Texts, code: ModuleType, example: Sequence[tuple[int, int, int]]) -> str | None:
    """`placed` and `footprint` for each arena; slots are (arena, size, alignment)."""
    arenas = [a for a, _, _ in example]
    offsets, footprints = code.prefix_sums(
        arenas, [size for _, size, _ in example], [alignment for _, _, alignment in example], 3
    )
    for a in range(3):
        mine = [k for k, arena in enumerate(arenas) if arena == a]
        requests = cells("request", "no_requests", [example[k][1:] for k in mine])
        lemma = Ground(texts["DEFINITIONS"], {"requests": requests})
        slots = [(offsets[k], *example[k][1:]) for k in mine]
        if rows_of(lemma.value("(placed 0 requests)")) != slots:
            return f"arena {a}: the lemma places {rows_of(lemma.value('(placed 0 requests)'))}, the code {slots}"
        if lemma.value("(footprint 0 requests)") != footprints[a]:
            return f"arena {a}: another footprint than {footprints[a]}"
    return None


# ---- linear_scan, clique_bound


def scans(texts: Texts, code: ModuleType, example: Sequence[Storage]) -> str | None:
    """Every move of the planner is one of the lemmas': guard and effect hold of it, and the invariant after it."""
    storages = scan.in_order(example)
    state = _State(storages)
    ranges = {"Storage": range(len(storages)), "Int": range(-1, len(storages) + 2)}
    slot, opened, record = scan.assigned(code, storages)

    def step(name: str, before: _State, after: _State, **named: int) -> str | None:
        wrong = failing(texts[name], {**before.suffixed(""), **after.suffixed(NEXT), **after.fixed(), **named}, ranges)
        return None if wrong is None else f"{name}: {wrong} does not hold of {after}"

    if not storages:
        return None if (slot, opened) == ([], 0) else "slots for nothing"
    if wrong := step("Init", state, state):
        return wrong
    try:
        for what, k, at in scan.moves(record):
            now = storages[len(state.done)].birth
            if now != state.now:
                before, state = state, state.going_on(now)
                if wrong := step("Advance", before, state):
                    return wrong
            before = state
            if what == "expire":
                state = state.expired(k, at)
                wrong = step("Expire", before, state, x=k)
            else:
                state = state.given(k, at, opens=what == "open")
                wrong = step("Open" if what == "open" else "Reuse", before, state, x=k, k=at)
            if wrong:
                return wrong
    except scan.Unreadable as error:
        return str(error)
    if (slot, opened) != ([state.slot[k] for k in range(len(storages))], state.opened):
        return f"the moves give {state.slot}, the result {slot}"
    return None


class _State:
    """A state of the scan as the lemmas have it, made from the planner's moves, with their two witnesses beside it."""

    def __init__(self, storages: Sequence[Storage]) -> None:
        self.storages = storages
        self.active: frozenset[int] = frozenset()
        self.done: frozenset[int] = frozenset()
        self.slot: dict[int, int] = {}
        self.free: frozenset[int] = frozenset()
        self.tenant: dict[int, int] = {}
        self.clique: dict[int, int] = {}
        self.opened, self.now, self.crowded = 0, storages[0].birth if storages else 0, 0

    def __repr__(self) -> str:
        return f"step {self.now} of {self.storages}: active {sorted(self.active)}, slots {self.slot}"

    def _but(self, **changed: Any) -> _State:
        after = _State(self.storages)
        after.__dict__.update(self.__dict__ | changed)
        return after

    def going_on(self, now: int) -> _State:
        return self._but(now=now)

    def expired(self, storage: int, slot: int) -> _State:
        return self._but(active=self.active - {storage}, free=self.free | {slot})

    def given(self, storage: int, slot: int, *, opens: bool) -> _State:
        after = self._but(
            active=self.active | {storage}, done=self.done | {storage}, slot={**self.slot, storage: slot},
            free=self.free - {slot}, tenant={**self.tenant, slot: storage},
        )  # fmt: skip
        if not opens:
            return after
        return after._but(opened=self.opened + 1, clique={**self.tenant, slot: storage}, crowded=self.now)

    def suffixed(self, suffix: str) -> dict[str, Value]:
        """The functions and constants of a state, by the lemmas' names."""
        functions = {
            "active": lambda x: x in self.active,
            "done": lambda x: x in self.done,
            "free": lambda k: k in self.free,
            "slot": lambda x: self.slot.get(x, 0),
            "tenant": lambda k: self.tenant.get(k, 0),
            "clique": lambda k: self.clique.get(k, 0),
            "opened": self.opened,
            "now": self.now,
            "crowded": self.crowded,
        }
        return {f"{name}{suffix}": value for name, value in functions.items()}

    def fixed(self) -> dict[str, Value]:
        """What no move changes."""
        return {"birth": lambda x: self.storages[x].birth, "death": lambda x: self.storages[x].death}


def bounds_slots(texts: Texts, code: ModuleType, example: Sequence[Storage]) -> str | None:
    """What the planner assigns is well assigned, as many as are live need as many slots, and pairs meet alike."""
    storages = scan.in_order(example)
    slot, opened, _ = scan.assigned(code, storages)
    rows = [(s.birth, s.death, k) for s, k in zip(storages, slot, strict=True)]
    lemma = Ground(texts["DEFINITIONS"], {"all": cells("storage", "no_storages", rows)})
    if not lemma.value("(well_assigned all)"):
        return f"{rows} is not well assigned"
    most = 0
    for step in {s.birth for s in storages}:
        live = cells("storage", "no_storages", [row for row in rows if row[0] <= step <= row[1]])
        here = Ground(texts["DEFINITIONS"], {"live": live})
        most = max(most, here.value("(how_many (slots_of live))"))
        if not here.value(f"(all_live_at {step} live)") or not here.value(f"(all_below {opened} (slots_of live))"):
            return f"at step {step} slots beyond the {opened} that were opened"
    if most != opened:
        return f"{opened} slots where {most} are live"
    for one, other in pairwise(storages):
        pair = cells("storage", "no_storages", [(one.birth, one.death, 0), (other.birth, other.death, 0)])
        shares = scan.assigned(code, [one, other])[1] == 1
        if Ground(texts["DEFINITIONS"], {"pair": pair}).value("(well_assigned pair)") is not shares:
            return f"{one} and {other} share a slot by one and not by the other"
    return None


# ---- execution


def keeps_apart(texts: Texts, code: ModuleType, example: Plan) -> str | None:
    """What the lemma assumes of storages and tensors holds where `place` of a layout puts them."""
    plan, placed = example, code.place(problem_of_plan(example), claimed_slots(example))
    s, t = plan.allocation.storages, plan.allocation.tensors
    for a in range(len(plan.allocation.arenas)):
        mine = [k for k, arena in enumerate(s.arena.tolist()) if arena == a]
        given = {
            "birth": lambda x: int(s.birth[x]), "death": lambda x: int(s.death[x]),
            "offset": lambda x: placed.offset[x], "bytes": lambda x: int(s.bytes[x]),
            "storage": lambda r: int(t.storage[r]), "born": lambda r: int(t.birth[r]),
            "dies": lambda r: int(t.death[r]), "window": lambda r: int(t.window[r]),
            "length": lambda r: int(t.bytes[r]),
        }  # fmt: skip
        tensors = [r for r, k in enumerate(t.storage.tolist()) if k in mine]
        ground = Ground("", given, {"Storage": mine, "Tensor": tensors})
        hypotheses, _ = split(texts["tensors_of_storages_that_are_apart_are_apart"])
        if wrong := next((h for h in hypotheses if "forall" in h and not ground.value(h)), None):
            return f"{wrong} does not hold in arena {a}"
    return None


def takes_in_place(texts: Texts, code: ModuleType, example: Model) -> str | None:
    """What the lemma assumes of an operand and the result in its place holds of each pair that is granted.

    Of tensors that a model declares to share bytes (views, alias groups) the lemma states nothing.
    """
    run = build_program(example)
    live = analyze(run, "inference")
    found = code.form_storages(run, live, DEFAULT, "inference")
    own = [t for t, shares in enumerate(found.shares) if shares in (Shares.NONE, Shares.IN_PLACE)]
    given = {
        "born": lambda x: -1 if run.tensors[x].role in CALLERS else live.birth[x], "dies": live.death.__getitem__,
        "length": lambda x: run.tensors[x].bytes,
    }  # fmt: skip
    name = "an_in_place_result_spoils_nothing_but_its_operand"
    hypotheses = [text for text in split(texts[name])[0] if "before" not in text]
    for result in own:
        operand = found.of[result]
        if found.shares[result] is not Shares.IN_PLACE or operand not in own:
            continue
        together = [t for t in own if found.storage[t] == found.storage[operand]]
        pair = {"operand": operand, "result": result, "now": live.birth[result], "start": found.window.__getitem__}
        ground = Ground("", {**given, **pair}, {"Tensor": together})
        if wrong := next((text for text in hypotheses if not ground.value(text)), None):
            return f"{run.tensors[result].name} in place of {run.tensors[operand].name}: {wrong} does not hold"
    return None


# ---- unions


def joins(texts: Texts, code: ModuleType, example: Model) -> str | None:
    """Each storage is what the lemma's rule makes of its members, in whatever order they join; its strictest aligns."""
    run = build_program(example)
    live = analyze(run, "inference")
    alias = code.form_storages(run, live, DEFAULT, "inference")
    found = alias.storages
    for k in range(len(found)):
        first, *others = [t for t, of in enumerate(alias.storage) if of == k]
        lengths = [tensor.bytes for tensor in run.tensors]
        facts = {
            "born": live.birth.__getitem__, "dies": live.death.__getitem__, "window": alias.window.__getitem__,
            "length": lengths.__getitem__,
        }  # fmt: skip
        state = [live.birth[first], live.death[first], alias.window[first] + lengths[first]]
        for x in reversed(others):
            given = {**facts, "x": x, "birth": state[0], "death": state[1], "bytes": state[2]}
            state = [Ground("", given).value(texts[name]) for name in ("BIRTH", "DEATH", "BYTES")]
        if state != [found.birth[k], found.death[k], found.bytes[k]]:
            return f"storage {k} is {(found.birth[k], found.death[k], found.bytes[k])}, by the lemma {state}"
        hypotheses, _ = split(texts["what_is_aligned_to_the_strictest_is_aligned_to_all"])
        for t in (first, *others):
            given = {
                "strictest": found.alignment[k], "alignment": run.tensors[t].alignment, "window": alias.window[t],
                "offset": 3 * found.alignment[k],
            }  # fmt: skip
            ground = Ground(texts["what_is_aligned_to_the_strictest_is_aligned_to_all"], given)
            if wrong := next((h for h in hypotheses if not ground.value(h)), None):
                return f"{run.tensors[t].name}: {wrong} does not hold of {given}"
    return None


# ---- sharding_cover


def divides(texts: Texts, code: ModuleType, example: tuple[int, int]) -> str | None:
    """What each rank holds of one dimension is what its part by the lemmas has: the same size, the same indices."""
    size, ranks = example
    spec = {"mesh": [["axis", ranks]]}
    local = code.Local(None, [(0, (size,), ("axis",))])
    width = Ground(texts["PART"]).value(f"(part {size} {ranks})")
    holds = split(texts["no_index_has_two_ranks"])[1]
    (both,) = (form[1] for form in parse(holds) if isinstance(form, list))
    mine = text_of(both[1])
    for rank in range(ranks):
        shards = code.build_shards(local, spec, rank)
        start, held, chunk = (int(column[0]) for column in (shards.start, shards.held, shards.chunk))
        if chunk != width:
            return f"rank {rank} has room for {chunk}, by the lemma {width}"
        for index in range(size):
            stated = Ground("", {"rank": rank, "index": index, "width": width}).value(mine)
            if stated is not (start <= index < start + held):
                return f"rank {rank} holds {held} from {start} on, and index {index} only by one of the two"
    return None


# ---- size_maxima

OPERATIONS = {
    "a_sum_is_largest_where_both_parts_are": ("(+ a b)",),
    "a_difference_is_largest_where_what_is_taken_is_least": ("(- a b)",),
    "a_product_of_sizes_is_largest_where_both_are": ("(* a b)",),
    "a_quotient_is_largest_where_what_is_divided_is": ("(div a by)",),
    "the_lesser_and_the_greater_are_largest_where_both_parts_are": ("(lesser a b)", "(greater a b)"),
}
"""What each statement bounds."""


def bounds_sizes(texts: Texts, code: ModuleType, example: tuple[int, int, int, int, int]) -> str | None:
    """The bounds that the code gives an operation on two dimensions are those of the lemma's goal."""
    low_a, wide_a, low_b, wide_b, by = example
    a, b = code.symbol("a", low_a, low_a + wide_a), code.symbol("b", low_b, low_b + wide_b)
    given = {"low_a": low_a, "high_a": low_a + wide_a, "low_b": low_b, "high_b": low_b + wide_b, "by": by}
    made = {
        "(+ a b)": a + b, "(- a b)": a - b, "(* a b)": a * b,
        "(div a by)": _composed(code, "div", a, by), "(lesser a b)": _composed(code, "min", a, b),
        "(greater a b)": _composed(code, "max", a, b),
    }  # fmt: skip
    for name, terms in OPERATIONS.items():
        ground, (_, goal) = Ground(texts[name], given), split(texts[name])
        for term in terms:
            found = code.bounds_in(made[term], {})
            stated = [form for form in walk(parse(goal)[0]) if isinstance(form, list) and form[0] == "<="]
            low = [text_of(form[1]) for form in stated if text_of(form[2]) == term]
            high = [text_of(form[2]) for form in stated if text_of(form[1]) == term]
            if [ground.value(text) for text in (*low, *high)] != list(found):
                return f"{term} lies in {found} by the code, and from {low} to {high} by the lemma, where {given}"
    return None


def _composed(code: ModuleType, op: str, left: Value, right: Value) -> Value:
    return code.sum_terms({((code.ComposedAtom(op, left, right), 1),): 1})
