"""Each obligation accepts a right plan and has plans to which it says no, for every way in which it can be broken.

spec: T1.1, T1.3, T1.4, T1.6, T2.1, T2.2, T2.3, T2.10, T2.11, T5.1, T6.3, T6.4, T7.1, T7.2, V1.1, V1.2, V1.3, V1.4
spec: V1.5, V1.6, V1.7, V1.9, V1.10, V1.11, V1.13, V2.3, V5.1, A1.2, A1.3, A3.1, M1.1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import numpy as np
import pytest

from proofs.proving.obligations import MODULES, OF_STORAGES, PRELUDE, rows, sharing_is_sound
from proofs.proving.obligations import context as contexts
from proofs.proving.obligations.contents import Content
from proofs.proving.obligations.context import context_of, storage_context
from proofs.proving.obligations.discharge import Result, discharge
from proofs.proving.obligations.rows import Place
from proofs.proving.solvers.process import Z3
from proofs.readers.sharing import Permissions, permitted
from tests.support.synthetic import training_plan
from tests.support.written import Lives, Written
from tmmu.core.columns import NONE, column
from tmmu.core.vocabulary import ArenaPolicy, DeviceConfiguration, Memory, Role
from tmmu.examples.broken.editing import changed, claiming, in_layout, listed, with_accesses
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED, IS_SAVED, ROLES, Slots, Storages, Tensors
from tmmu.plans.sections import BufferPlan, Claims, Plan, Usage, amended
from tmmu.plans.text import read as plan_text

SOLVER = Z3(PRELUDE)


@pytest.fixture(scope="module", autouse=True)
def _closing() -> Iterator[None]:
    yield
    SOLVER.close()


def results(
    plan: Plan, permissions: Permissions | None = None, donated: frozenset[str] = frozenset()
) -> dict[str, Result]:
    """What the solver says of each obligation."""
    allowed = permitted(plan, None, donated) if permissions is None else permissions
    view = context_of(plan, allowed, donated)
    found = discharge([obligation.rows(view) for obligation in MODULES.values()], [SOLVER], 60)
    return dict(zip(MODULES, found, strict=True))


def violated(plan: Plan, permissions: Permissions | None = None, donated: frozenset[str] = frozenset()) -> set[str]:
    """The obligations of which some row is false. Nothing may be left open."""
    found = results(plan, permissions, donated)
    assert [name for name, result in found.items() if result.failure] == []
    return {name for name, result in found.items() if result.refuted}


def shared(
    text: str,
    views: str = "",
    in_place: str = "",
    given: str = "x=input",
    outputs: str = "",
    donated: str = "",
    **sizes: int,
) -> set[str]:
    """What is violated in a plan of words."""
    made = Written(text, given=dict(word.split("=") for word in given.split()), outputs=outputs, **sizes)
    return violated(made.plan(), made.sharing(views, in_place), frozenset(donated.split()))


PLAN = training_plan(24, seed=5, in_place=0.3, views=0.2, arenas=2)


def test_what_the_caller_writes_over_another_input_is_refused_also_where_no_step_reads_it() -> None:
    """In the order of the file and against it. spec: V1.13"""
    for given in ("x=input u=input", "u=input x=input"):
        made = Written("y = Relu x", given=dict(word.split("=") for word in given.split()), outputs="y")
        plan, names = made.plan(), made.plan().allocation.tensors.name.list()
        x, u = names.index("x"), names.index("u")
        assert violated(plan) == set()
        assert violated(changed(plan, "tensors", u, storage=int(plan.allocation.tensors.storage[x]))) == {
            "sharing_is_sound"
        }


def test_a_right_plan_violates_nothing() -> None:
    assert violated(PLAN) == set()
    assert violated(amended(PLAN, mode="forward")) == set()


def test_slots_that_nobody_has_or_two_share_for_good_are_not_discharged() -> None:
    """spec: V5.1, M3.1"""
    kept = tuple(replace(arena, reuse=False) if a == A else arena for a, arena in enumerate(PLAN.allocation.arenas))
    found = results(amended(PLAN, arenas=kept))
    assert {name for name, result in found.items() if not result.proved} == {"slot_count", "no_live_overlap"}
    refuted = found["slot_count"].refuted
    assert refuted is not None
    assert refuted[1] == Place(storages=np.flatnonzero(S.arena == A)[:2].tolist())
    more = {
        name: np.append(getattr(PLAN.slots, name), getattr(PLAN.slots, name)[-1:])
        for name in ("arena", "bytes", "alignment")
    }
    last = int(PLAN.slots.arena[-1])
    idle = claiming(
        amended(PLAN, slots=Slots(**more, of=PLAN.slots.of)), last, slots=PLAN.usage[last].slots + 1, minimal=False
    )
    assert violated(idle) == {"slot_count"}


def _tenant(plan: Plan) -> int:
    """A storage with bytes that lives for some steps, after another one in its slot."""
    s = plan.allocation.storages
    fit = (s.bytes > 8) & (s.death < plan.allocation.last_step) & (s.death > s.birth)
    slot = plan.slots.of
    return next(k for k in np.flatnonzero(fit).tolist() if ((slot == slot[k]) & (s.death < s.birth[k])).any())


K = _tenant(PLAN)
T = int(np.flatnonzero(PLAN.allocation.tensors.storage == K)[0])
S, SLOT = PLAN.allocation.storages, PLAN.slots.of
LAST = PLAN.allocation.last_step
OTHER = int(np.flatnonzero((SLOT[K] != SLOT) & (S.arena == S.arena[K]) & (S.bytes > 0))[0])
ELSEWHERE = int(np.flatnonzero(S.arena != S.arena[K])[0])
A = int(S.arena[K])


LIVES, WITHIN = "lifetimes_cover_accesses", "tensors_within_storages"
USAGE = PLAN.usage[A]


def _tensor(plan: Plan, **values: int) -> Plan:
    return changed(plan, "tensors", T, **values)


def _storage(plan: Plan, **values: int) -> Plan:
    return changed(plan, "storages", K, **values)


def _arenas(plan: Plan, **values: int) -> Plan:
    return amended(plan, arenas=tuple(replace(arena, **values) for arena in plan.allocation.arenas))  # type: ignore[arg-type]


def _unclaimed(plan: Plan, **values: int) -> Plan:
    return claiming(plan, A, minimal=False, **values)


def _role(role: Role) -> int:
    return ROLES.index(role)


def _late(plan: Plan) -> int:
    return int(plan.allocation.storages.death.argmax())


def _early(plan: Plan) -> int:
    """A storage whose slot is taken by another one later."""
    s = plan.allocation.storages
    slot = plan.slots.of
    return next(k for k in range(len(s)) if ((slot == slot[k]) & (s.birth > s.death[k])).any())


def _lowest(plan: Plan) -> int:
    """The slot of an arena at its start, where there are others behind it."""
    return int(plan.slots.of[np.flatnonzero((S.arena == A) & (S.offset == 0))[0]])


def _at_peak(plan: Plan) -> int:
    s, step = plan.allocation.storages, plan.usage[A].peak_step
    return int(np.flatnonzero((s.arena == A) & (s.birth <= step) & (step <= s.death))[0])


def _off_peak(plan: Plan) -> int:
    """A step at which fewer bytes are live than at the peak."""
    s = plan.allocation.storages
    live = [int(s.bytes[(s.arena == A) & (s.birth <= n) & (n <= s.death)].sum()) for n in range(LAST + 1)]
    return live.index(min(live))


def _mutating_unread(plan: Plan) -> Plan:
    tensor = LAST - 1
    lists = {"writes": (LAST + 1, tensor), "mutates": (tensor,), "reads": (LAST,)}
    return with_accesses(plan, **{name: {LAST: listed} for name, listed in lists.items()})


def _neighbours(plan: Plan) -> tuple[int, int]:
    """Tensors of two storages that take turns in a slot, both of some bytes."""
    s, home = plan.allocation.storages, plan.allocation.tensors.storage.tolist()
    pairs = (
        (k, o)
        for k in range(len(s))
        for o in range(k)
        if plan.slots.of[k] == plan.slots.of[o] and s.bytes[k] and s.bytes[o]
    )
    k, other = next(pairs)
    return home.index(k), home.index(other)


EDITS: dict[str, tuple[str, Callable[[Plan], Plan]]] = {
    # no_live_overlap
    "born before its slot is free": ("no_live_overlap", lambda p: _storage(p, birth=0)),
    "dies after its slot is taken": ("no_live_overlap", lambda p: changed(p, "storages", _early(p), death=LAST)),
    "at another offset than its slot": ("no_live_overlap", lambda p: _storage(p, offset=1 << 40)),
    "in a slot of another arena": ("no_live_overlap", lambda p: _storage(p, slot=int(SLOT[ELSEWHERE]))),
    "in an arena that its slot is not in": ("no_live_overlap", lambda p: _storage(p, arena=int(S.arena[ELSEWHERE]))),
    "larger than its slot": ("no_live_overlap", lambda p: changed(p, "slots", int(SLOT[K]), bytes=1)),
    "a slot of no bytes": ("no_live_overlap", lambda p: changed(p, "slots", int(SLOT[K]), bytes=0)),
    "a slot that reaches into the next": ("no_live_overlap", lambda p: changed(p, "slots", _lowest(p), bytes=1 << 30)),
    # alignment
    "a storage's alignment of 3": ("alignment", lambda p: _storage(p, alignment=3)),
    "a storage's alignment of 0": ("alignment", lambda p: _storage(p, alignment=0)),
    "a storage stricter than its slot": ("alignment", lambda p: _storage(p, alignment=1 << 20)),
    "a tensor stricter than its storage": ("alignment", lambda p: _tensor(p, alignment=8)),
    "a tensor at an odd byte": ("alignment", lambda p: _tensor(p, window=1)),
    "a slot laxer than its arena": ("alignment", lambda p: changed(p, "slots", int(SLOT[K]), alignment=64)),
    "a slot's alignment of 0": ("alignment", lambda p: changed(p, "slots", int(SLOT[K]), alignment=0)),
    "an arena's alignment of 3": ("alignment", lambda p: _arenas(p, alignment=3)),
    # capacity
    "an end beyond the footprint": ("capacity", lambda p: claiming(p, A, footprint=USAGE.footprint - 1)),
    "a footprint beyond the end": ("capacity", lambda p: claiming(p, A, footprint=USAGE.footprint + 1)),
    "a capacity below the footprint": ("capacity", lambda p: _arenas(p, capacity=9)),
    "an end beyond 64 bits": ("capacity", lambda p: _storage(p, offset=2**64 - 8, bytes=2**63)),
    # tensors_within_storages
    "a tensor larger than its storage": (WITHIN, lambda p: _tensor(p, bytes=1 << 40)),
    "a window beyond its storage": (WITHIN, lambda p: _tensor(p, window=1 << 40)),
    "a window and size that wrap": (WITHIN, lambda p: _tensor(p, window=2**64 - 4, bytes=8)),
    "born before its storage": (WITHIN, lambda p: _tensor(p, birth=0)),
    "dies after its storage": (WITHIN, lambda p: _tensor(p, death=LAST)),
    "dies before it is born": (WITHIN, lambda p: _tensor(p, death=0)),
    "a storage beyond the last step": (WITHIN, lambda p: changed(p, "storages", _late(p), death=LAST + 1)),
    # lifetimes_cover_accesses
    "dies before its last reader": (LIVES, lambda p: _tensor(p, death=int(p.allocation.tensors.birth[T]))),
    "an input that dies before its last reader": (LIVES, lambda p: changed(p, "tensors", 0, death=0)),
    "born after its writer": (LIVES, lambda p: _tensor(p, birth=int(p.allocation.tensors.birth[T]) + 1)),
    "an input born later": (LIVES, lambda p: changed(p, "tensors", 0, birth=1)),
    "an output that dies before the end": (LIVES, lambda p: _tensor(p, flags=IS_OUTPUT)),
    "a parameter that a step writes": (LIVES, lambda p: _tensor(p, role=_role(Role.PARAMETER))),
    "an input that a step writes": (LIVES, lambda p: _tensor(p, flags=IS_INPUT)),
    "an activation that the caller writes": (LIVES, lambda p: changed(p, "tensors", 0, role=_role(Role.ACTIVATION))),
    "a result that nobody writes": (LIVES, lambda p: changed(p, "tensors", 0, role=_role(Role.ACTIVATION), flags=0)),
    "what its role gives to the caller, written by a step": (LIVES, lambda p: _tensor(p, role=_role(Role.INPUT))),
    "another writer": (LIVES, lambda p: _tensor(p, writer=int(p.allocation.tensors.writer[T]) - 1)),
    "no writer": (LIVES, lambda p: _tensor(p, writer=NONE)),
    "written by no step": (LIVES, lambda p: with_accesses(p, writes={int(p.allocation.tensors.writer[T]): ()})),
    "written by two steps": (LIVES, lambda p: with_accesses(p, writes={LAST: (LAST + 1, T)})),
    "an input that a step writes too": (LIVES, lambda p: with_accesses(p, writes={0: (1, 0)})),
    "read before it is written": (LIVES, lambda p: with_accesses(p, reads={0: (T,)})),
    "read by its own writer": (LIVES, lambda p: with_accesses(p, reads={T - 1: (T - 1, T)})),
    "mutated without being written": (LIVES, lambda p: with_accesses(p, mutates={LAST: (LAST,)})),
    "mutated without being read": (LIVES, _mutating_unread),
    "mutated before it is written": (LIVES, lambda p: with_accesses(p, mutates={3: (4,)}, reads={3: (3, 4)})),
    # slot_count
    "more slots stated": ("slot_count", lambda p: claiming(p, A, slots=USAGE.slots + 1)),
    "fewer slots stated": ("slot_count", lambda p: claiming(p, A, slots=USAGE.slots - 1)),
    "more live stated than slots": ("slot_count", lambda p: claiming(p, A, max_live=USAGE.max_live + 1)),
    "fewer live stated": ("slot_count", lambda p: claiming(p, A, max_live=USAGE.max_live - 1)),
    "fewer live stated without the claim": ("slot_count", lambda p: _unclaimed(p, max_live=USAGE.max_live - 1)),
    "most live at another step": ("slot_count", lambda p: claiming(p, A, max_live_step=LAST)),
    "more slots stated without the claim": ("slot_count", lambda p: _unclaimed(p, slots=USAGE.slots + 1)),
    "fewer slots stated without the claim": ("slot_count", lambda p: _unclaimed(p, slots=USAGE.slots - 1)),
    "most live at no step": ("slot_count", lambda p: claiming(p, A, max_live_step=2**63)),
    "most live at another step without the claim": ("slot_count", lambda p: _unclaimed(p, max_live_step=LAST)),
    "a slot with bytes to spare": ("slot_count", lambda p: changed(p, "slots", int(SLOT[K]), bytes=1 << 12)),
    "a slot stricter than what it holds": ("slot_count", lambda p: changed(p, "slots", int(SLOT[K]), alignment=4096)),
    # peak
    "a lower peak": ("peak", lambda p: claiming(p, A, peak_live_bytes=USAGE.peak_live_bytes - 1)),
    "a higher peak": ("peak", lambda p: claiming(p, A, peak_live_bytes=USAGE.peak_live_bytes + 1)),
    "a peak at another step": ("peak", lambda p: claiming(p, A, peak_step=_off_peak(p))),
    "a peak at no step": ("peak", lambda p: claiming(p, A, peak_step=LAST + 9)),
    "a storage that is larger at the peak": ("peak", lambda p: changed(p, "storages", _at_peak(p), bytes=1 << 20)),
    # must_not_alias
    "a pair in one slot": ("must_not_alias", lambda p: amended(p, must_not_alias=(_neighbours(p),))),
    "a pair in one storage": ("must_not_alias", lambda p: amended(p, must_not_alias=((T, T),))),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_a_plan_that_is_wrong_in_one_place_is_refuted(name: str) -> None:
    """And the false row speaks of the tensor or storage that was changed."""
    obligation, edit = EDITS[name]
    plan = edit(PLAN)
    found = results(plan)
    assert [name for name, result in found.items() if result.failure] == []
    refuted = found[obligation].refuted
    assert refuted is not None
    _, place = refuted
    tensors, storages = (
        _changed_rows(plan.allocation.tensors, PLAN.allocation.tensors),
        _changed_rows(plan.allocation.storages, PLAN.allocation.storages),
    )
    home = plan.allocation.tensors.storage
    assert storages <= {*place.storages, *home[list(place.tensors)].tolist()}, place
    assert tensors <= {*place.tensors, *np.flatnonzero(np.isin(home, place.storages)).tolist()}, place


def test_what_the_caller_may_not_write_is_named_with_the_first_step() -> None:
    """spec: V1.4"""
    refuted = results(changed(PLAN, "tensors", 0, role=_role(Role.ACTIVATION)))[LIVES].refuted
    assert refuted == ("(given 0 0)", Place((0,), step=0))


def _changed_rows(table: Tensors | Storages, before: Tensors | Storages) -> set[int]:
    """The rows of a table of which some number is another one."""
    pairs = ((getattr(table, f.name), getattr(before, f.name)) for f in fields(table) if f.name != "name")
    return {row for new, old in pairs for row in np.flatnonzero(new != old).tolist()}


def test_alignments_that_agree_with_each_other_are_powers_of_two_all_the_same() -> None:
    """Each is a multiple of the others, and every address of each. The first that asks for it is named."""
    plan = claiming(Written("a = MatMul x", given={"x": "input"}).plan(), footprint=26)
    odd = changed(
        amended(plan, arenas=tuple(replace(arena, alignment=3) for arena in plan.allocation.arenas)),
        "storages",
        1,
        offset=18,
    )
    for table in ("tensors", "storages", "slots"):
        for row in (0, 1):
            odd = changed(odd, table, row, alignment=3)
    found = results(odd, Permissions())
    assert {name for name, result in found.items() if not result.proved} == {"alignment"}
    assert found["alignment"].refuted == ("(power_of_two 3)", Place([0], [0]))


def test_a_packed_storage_begins_where_its_arena_asks_even_if_it_needs_less() -> None:
    """The storages ask for 1, the arena for 16. spec: V1.2"""
    plan = amended(Written("a = MatMul x", given={"x": "input"}).plan(), layout="packed")
    assert violated(plan, Permissions()) == set()
    odd = claiming(changed(plan, "storages", 1, offset=24), footprint=32)
    found = results(odd, Permissions())
    assert {name for name, result in found.items() if not result.proved} == {"alignment"}
    assert found["alignment"].refuted == ("(aligned_in_arena 24 16)", Place(storages=(1,)))


def test_a_slot_begins_where_its_alignment_asks_even_if_what_lies_in_it_needs_less() -> None:
    """The storages ask for 1, the slots for 16. spec: V1.2"""
    plan = Written("a = MatMul x", given={"x": "input"}).plan()
    odd = claiming(changed(plan, "storages", 1, offset=24), footprint=32)
    assert "alignment" in violated(odd, Permissions())


def test_every_obligation_has_plans_to_which_it_says_no() -> None:
    refuted = {obligation for obligation, _ in EDITS.values()} | {"sharing_is_sound"}
    assert refuted == set(MODULES)


def test_pairs_apart_in_bytes_or_arenas_or_without_bytes_do_not_alias() -> None:
    home = PLAN.allocation.tensors.storage.tolist()
    pairs = ((T, home.index(OTHER)), (home.index(OTHER), T), (T, home.index(ELSEWHERE)))
    assert violated(amended(PLAN, must_not_alias=pairs)) == set()
    empty = changed(PLAN, "storages", K, bytes=0)
    assert "must_not_alias" not in violated(amended(empty, must_not_alias=((T, T),)))


def test_what_is_returned_lives_to_the_end() -> None:
    """What is returned lives to the end; that something is saved does not say that it is returned. spec: P2.3"""
    assert violated(changed(PLAN, "tensors", T, flags=IS_SAVED)) == set()
    assert "lifetimes_cover_accesses" in violated(changed(PLAN, "tensors", T, flags=IS_SAVED + IS_RETURNED))


def test_a_plan_of_nothing_is_proved() -> None:
    nothing = Written("", given={}).plan()
    assert violated(nothing, Permissions()) == set()
    assert violated(claiming(nothing, footprint=1), Permissions()) == {"capacity"}


def test_a_storage_of_no_bytes_has_a_slot_and_counts_as_one_byte_there() -> None:
    assert shared("a = MatMul x\nb = MatMul a", a=0) == set()
    made = Written("a = MatMul x\nb = MatMul a", given={"x": "input"}, a=0).plan()
    assert "no_live_overlap" in violated(changed(made, "storages", 1, offset=0), Permissions())


def test_a_packed_storage_of_no_bytes_ends_a_byte_later() -> None:
    """spec: T7.1"""
    packed = amended(Written("a = MatMul x", given={"x": "input"}, a=0).plan(), layout="packed")
    assert (packed.usage[0].footprint, int(packed.allocation.storages.offset[1])) == (17, 16)
    assert "capacity" not in violated(packed, Permissions())
    assert "capacity" in violated(claiming(packed, footprint=16), Permissions())


def test_a_footprint_is_the_end_of_the_last_storage_or_the_sum_of_all_addresses() -> None:
    """Where addresses are scattered their sum; the highest end is not the highest beginning."""
    plan = Written("a = MatMul x", given={"x": "input"}).plan()
    assert plan.usage[0].footprint == 24
    for layout, right in (("slots", 24), ("packed", 24), ("hashed", 16)):
        for footprint in (16, 17, 23, 24, 25, 26):
            found = violated(claiming(in_layout(plan, layout), footprint=footprint), Permissions())
            assert ("capacity" in found) == (footprint != right), (layout, footprint)
    within = changed(in_layout(plan, "packed"), "storages", 0, bytes=64)
    assert "capacity" not in violated(claiming(within, footprint=64), Permissions())
    assert "capacity" in violated(claiming(within, footprint=24), Permissions())


def test_a_slot_that_nobody_has_takes_no_room() -> None:
    """Alone in its arena, and beside others. spec: V1.3"""
    for text in ("", "a = MatMul x"):
        plan = Written(text, given={"x": "input"} if text else {}).plan()
        slots = {"arena": (0, np.uint32), "bytes": (64, np.uint64), "alignment": (16, np.uint64)}
        idle = Slots(
            **{name: np.append(getattr(plan.slots, name), kind(value)) for name, (value, kind) in slots.items()},
            of=plan.slots.of,
        )
        plan = claiming(amended(plan, slots=idle), slots=plan.usage[0].slots + 1)
        for layout, footprint in (("slots", plan.usage[0].footprint), ("hashed", 16 if text else 0)):
            right = claiming(in_layout(plan, layout), footprint=footprint)
            assert violated(right, Permissions()) == {"slot_count"}, layout


def test_the_arenas_of_a_memory_end_within_it_to_the_byte() -> None:
    """If they do not, a storage of the one that lies beyond is named. spec: M3.10"""
    first, last = (usage.footprint for usage in PLAN.usage)
    end = -(-first // PLAN.allocation.arenas[1].alignment) * PLAN.allocation.arenas[1].alignment + last
    used = tuple(use._replace(device="npu", memory="dram") for use in PLAN.configuration.uses)
    divided = amended(PLAN, configuration=PLAN.configuration._replace(uses=used))
    for capacity, right in ((end, True), (end - 1, False)):
        plan = amended(divided, policy=ArenaPolicy((DeviceConfiguration("npu", (Memory("dram", capacity),)),)))
        refuted = results(plan)["capacity"].refuted
        named = None if refuted is None else refuted[1]
        assert named == (None if right else Place(storages=[int(np.flatnonzero(S.arena == 1)[0])]))


def test_an_arena_begins_where_the_strictest_of_its_storages_asks() -> None:
    """Behind what the arena before it needs, as is claimed or as its storages say. spec: M3.10, A2.4"""
    first, last = (usage.footprint for usage in PLAN.usage)
    assert first is not None
    assert last is not None
    step = 1 << (first.bit_length() - 3)
    begin = -(-first // step) * step
    assert step > max(arena.alignment for arena in PLAN.allocation.arenas)
    assert begin > first
    plan = changed(PLAN, "storages", int(np.flatnonzero(S.arena == 1)[0]), alignment=step)
    uses = tuple(use._replace(device="npu", memory="dram") for use in plan.configuration.uses)
    plan = amended(plan, configuration=plan.configuration._replace(uses=uses))
    for claimed in (first, None):
        for capacity, right in ((begin + last, True), (begin + last - 1, False), (first + last, False)):
            memories = (DeviceConfiguration("npu", (Memory("dram", capacity),)),)
            asked = claiming(amended(plan, policy=ArenaPolicy(memories)), footprint=claimed)
            assert ("capacity" in violated(asked)) is not right, (claimed, capacity)


def test_what_is_not_claimed_is_the_end_of_what_lies_in_an_arena() -> None:
    """Not a sum of what lies at one address and another; and nothing where nothing lies. spec: A2.4, T7.1"""
    made = Written("a = MatMul x\nb = MatMul a\nc = MatMul b", given={"x": "input"}).plan()
    lower = changed(changed(made, "storages", 2, offset=4), "storages", 3, offset=20)
    for capacity, right in ((28, True), (27, False)):
        arenas = tuple(replace(arena, capacity=capacity, alignment=1) for arena in lower.allocation.arenas)
        bare = replace(amended(lower, arenas=arenas), claims=None, provenance=None)
        assert ("capacity" in violated(bare, Permissions())) is not right
    empty = replace(PLAN.allocation.arenas[0], name="empty", capacity=0)
    bare = replace(amended(PLAN, arenas=(*PLAN.allocation.arenas, empty)), claims=None, provenance=None)
    assert violated(bare) == set()


def test_a_storage_may_end_with_the_last_address() -> None:
    """The highest end is found where ends fill 64 bits. spec: V1.2"""
    most = (1 << 64) - 1
    made = Written("a = MatMul x", given={"x": "input"}).plan()
    high = in_layout(
        changed(changed(made, "storages", 1, offset=most - 8, alignment=1), "tensors", 1, alignment=1), "packed"
    )
    arenas = tuple(replace(arena, capacity=most, alignment=1) for arena in high.allocation.arenas)
    assert "capacity" not in violated(claiming(amended(high, arenas=arenas), footprint=most), Permissions())


def test_a_tensor_is_written_by_the_step_that_it_names_alone() -> None:
    """Not before it, wherever its lifetime begins. spec: V1.2, T5.1"""
    made = Written("a = MatMul x\nb = MatMul a\nc = MatMul a\nd = MatMul b c", given={"x": "input"}).plan()
    late = changed(made, "tensors", "b", writer=2, birth=2)
    assert LIVES in violated(late, Permissions())


def test_a_storage_without_tensors_lives_within_the_steps() -> None:
    """spec: T2.10"""
    made = Written("a = MatMul x\nb = MatMul a", given={"x": "input"}).plan()
    alone = changed(made, "tensors", 2, storage=1)
    assert WITHIN not in violated(alone, Permissions())
    for life in ({"death": 2}, {"birth": 1, "death": 0}):
        assert WITHIN in violated(changed(alone, "storages", 2, **life), Permissions())


@pytest.mark.parametrize(
    ("offset", "wrong"), [(8, set()), (7, {"no_live_overlap"}), (57, {"capacity", "no_live_overlap"})]
)
def test_buffers_with_lifetimes_are_asked_about_as_storages_are(offset: int, wrong: set[str]) -> None:
    """Where no slots are claimed, nothing is asked of slots. spec: P1.1, V1.1"""
    lines = f"tmmu-plan-text 1\narena a 64\nbuffer p 8 a 0 live 0 3\nbuffer q 8 a {offset} live 2 4\n"
    buffers = plan_text(lines.encode(), "p.plan.txt")
    assert isinstance(buffers, BufferPlan)
    asked = [obligation.rows(storage_context(buffers)) for obligation in OF_STORAGES.values()]
    found = dict(zip(OF_STORAGES, discharge(asked, [SOLVER], 60), strict=True))
    assert {str(name) for name, result in found.items() if not result.proved} == wrong


def test_many_slots_are_added_up() -> None:
    """More than one row adds up. spec: A2.4"""
    text = "\n".join(f"t{n + 1} = MatMul t{n}" for n in range(119))
    plan = in_layout(Written(text, given={"t0": "input"}).plan(), "hashed")
    for footprint, right in ((120 * 8, True), (120 * 8 - 1, False), (20 * 8, False), (50 * 8, False)):
        found = violated(claiming(plan, footprint=footprint), Permissions())
        assert ("capacity" in found) != right


def test_slots_are_not_as_few_as_can_be_where_fewer_would_do() -> None:
    """Two storages take turns, each in a slot of its own. spec: V5.1"""
    plan = Written("a = MatMul x\nb = MatMul a", given={"x": "input"}).plan()
    assert plan.usage[0].slots > plan.usage[0].max_live
    assert violated(plan, Permissions()) == set()
    assert violated(claiming(plan, minimal=True), Permissions()) == {"slot_count"}


@pytest.mark.parametrize("minimal", [False, True])
def test_a_number_of_slots_without_their_table_is_one_that_the_storages_can_have(minimal: bool) -> None:
    """Two storages that take turns: one slot, or two. spec: V5.1, P2.5"""
    plan = Written("a = MatMul x\nb = MatMul a", given={"x": "input"}).plan()
    storages, most = plan.usage[0].slots, plan.usage[0].max_live
    for slots in range(storages + 3):
        stated = replace(plan, provenance=None, claims=Claims((Usage(slots=slots, minimal=minimal),)))
        right = slots == most if minimal else most <= slots <= storages
        assert (violated(stated, Permissions()) == set()) == right, slots
        for live in (most - 1, most, most + 1):
            both = replace(stated, claims=Claims((Usage(slots=slots, minimal=minimal, max_live=live),)))
            assert (violated(both, Permissions()) == set()) == (right and live == most), (slots, live)


def test_the_first_slot_in_which_nothing_lives_at_the_fullest_step_is_named() -> None:
    """By the first storage that has it, of several. spec: V5.1"""
    step = 18
    live = SLOT[(S.birth <= step) & (S.death >= step)]
    empty, *others = np.setdiff1d(np.flatnonzero(PLAN.slots.arena == A), live).tolist()
    first, *later = np.flatnonzero(empty == SLOT).tolist()
    assert others
    assert later
    refuted = results(claiming(PLAN, A, max_live_step=step))["slot_count"].refuted
    assert refuted == ("false", Place(storages=[first], step=step))


def test_a_plan_without_storages_has_no_slots() -> None:
    """spec: V5.1"""
    plan = Written("", given={}).plan()
    one = Slots(column([0], np.uint32), column([1], np.uint64), column([16], np.uint64), column([], np.uint32))
    for minimal in (False, True):
        assert violated(claiming(amended(plan, slots=one), slots=1, minimal=minimal), Permissions()) == {"slot_count"}


def test_packed_storages_that_live_at_one_step_are_in_two_slots() -> None:
    """They have no byte in common; two slots for three are claimed, each of which holds a storage. spec: V5.1"""
    plan = in_layout(Written("y = MatMul a b", given={"a": "input", "b": "input"}).plan(), "packed")
    two = Slots(plan.slots.arena[:2], plan.slots.bytes[:2], plan.slots.alignment[:2], plan.slots.of % 2)
    plan = changed(changed(amended(plan, slots=two), "storages", 1, slot=0), "storages", 2, slot=1)
    assert violated(claiming(plan, slots=2, max_live=2, minimal=True), Permissions()) == {"slot_count"}


def test_a_peak_is_at_no_step_at_which_nothing_lives() -> None:
    """Before the first birth, after the last death, and beyond the last step. spec: V5.1"""
    plan = Written("= Wait\na = Make\nb = MatMul a\n= Wait", given={}).plan()
    assert plan.usage[0].peak_step == plan.usage[0].max_live_step == 2
    assert violated(plan, Permissions()) == set()
    for step in (0, 3, 4):
        assert violated(claiming(plan, peak_step=step, max_live_step=step), Permissions()) == {"peak", "slot_count"}


def test_totals_go_on_from_batch_to_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four cells each."""
    monkeypatch.setattr(rows, "BATCH", 4)
    assert violated(PLAN) == set()
    assert violated(claiming(PLAN, A, peak_live_bytes=USAGE.peak_live_bytes - 1)) == {"peak"}


def test_many_storages_that_change_at_one_step_are_added_up() -> None:
    text = "\n".join(
        [" ".join(f"t{i}" for i in range(130)) + " = Split x", "y = Concat " + " ".join(f"t{i}" for i in range(130))]
    )
    made = Written(text, given={"x": "input"}).plan()
    assert violated(made, Permissions()) == set()
    assert violated(claiming(made, peak_live_bytes=made.usage[0].peak_live_bytes - 1), Permissions()) == {"peak"}


# Sharing


@pytest.mark.parametrize("views", ["v:x", "v:x w:v"])
def test_a_view_shows_the_bytes_of_its_base(views: str) -> None:
    text = "v:x = Reshape x\nw:v = Reshape v\ny = MatMul w x"
    permitted_ = "v:x w:v"
    assert shared(text, permitted_) == set()
    if views != permitted_:  # a view that is not permitted is a write over what its step reads
        assert "sharing_is_sound" in shared(text, views)


@pytest.mark.parametrize(
    ("text", "views"),
    [
        ("v = Reshape x\ny = MatMul v", "v:x"),
        ("v@4:x = Reshape x\ny = MatMul v", "v:x"),
        ("v:x = Reshape x\ny = MatMul v", "v:x+4"),
        ("v@4:x = Reshape x\ny = MatMul v", "v:x+4"),
        ("v:x = Reshape x\nw:x = Reshape v\ny = MatMul w", "v:w w:v"),
        ("v:x = Reshape x\nw:x = Reshape v\ny = MatMul w", "v:v"),
    ],
    ids=["beside", "at another window", "not where it is", "beyond its base", "in a circle", "of itself"],
)
def test_a_view_that_does_not_show_its_base_is_refuted(text: str, views: str) -> None:
    assert "sharing_is_sound" in shared(text, views)


def test_a_window_of_a_base_is_a_view_too() -> None:
    assert shared("v@4:x = Slice x\nw:x = Slice x\ny = MatMul v w", "v:x+4 w:x", v=4, w=4) == set()


@pytest.mark.parametrize(
    ("text", "in_place", "right"),
    [
        ("a = MatMul x\nb:a = Relu a\ny = MatMul b", "b:a", True),
        ("a = MatMul x\nb:a = Relu a\nc:a = Relu b\ny = MatMul c", "b:a c:b", True),
        ("a = MatMul x\nb:a = Add a x\ny = MatMul b x", "b:a", True),
        ("a = MatMul x\nb:a = Add a a\ny = MatMul b", "b:a", True),
        ("a = MatMul x\nb:a = Relu a\ny = MatMul b", "", False),
        ("a = MatMul x\nb:a = Relu a\ny = MatMul b", "b:x", False),
        ("a = MatMul x\nb:a = Relu a\ny = MatMul a b", "b:a", False),
        ("a = MatMul x\nb:a = Relu a\nc:a = Relu a\ny = MatMul b c", "b:a c:a", False),
        ("a = MatMul x\nb:a c:a = Split a\ny = MatMul b c", "b:a c:a", False),
        ("a = MatMul x\nb:a = MatMul x\ny = MatMul a b", "", False),
        ("a = MatMul x\nc = MatMul a\nb:a = MatMul x\ny = MatMul b", "", True),
    ],
    ids=[
        "in place", "in place of in place", "beside another operand", "of both operands", "without permission",
        "with permission for another", "read later", "twice, one after the other", "twice at once",
        "over what is read later",
        "reused when nobody reads it any more",
    ],
)  # fmt: skip
def test_a_result_takes_bytes_only_in_place_and_when_nobody_needs_them(text: str, in_place: str, right: bool) -> None:
    assert shared(text, in_place=in_place) == (set() if right else {"sharing_is_sound"})


def test_in_place_needs_the_identical_slice_and_no_other_operand_there() -> None:
    text = "a = MatMul x\nb@4:a = Relu a\ny = MatMul b"
    assert shared(text, in_place="b:a") == {"sharing_is_sound"}
    text = "a = MatMul x\nb:a = Relu a\ny = MatMul b"
    assert shared(text, in_place="b:a", b=4) == {"sharing_is_sound"}
    text = "a = MatMul x\nv:a = Reshape a\nb:a = Add v {other}\ny = MatMul b"
    assert shared(text.format(other="x"), "v:a", "b:v") == set()
    assert shared(text.format(other="a"), "v:a", "b:v") == {"sharing_is_sound"}
    assert shared(text.format(other="v"), "v:a", "b:v") == set()


def test_a_view_of_an_overwritten_base_is_refuted() -> None:
    text = "a = MatMul x\nv:a = Reshape a\nb:a = Relu a\ny = MatMul b {last}"
    assert shared(text.format(last="x"), "v:a", "b:a") == set()
    assert shared(text.format(last="v"), "v:a", "b:a") == {"sharing_is_sound"}


def test_what_the_caller_reads_is_not_overwritten() -> None:
    text = "a = MatMul x\nb:a = Relu a\ny = MatMul b"
    assert shared(text, in_place="b:a", outputs="y") == set()
    assert "sharing_is_sound" in shared(text, in_place="b:a", outputs="a y")
    text = "b:w = Relu w\ny = MatMul b"
    for role in ("param", "state"):
        assert "sharing_is_sound" in shared(text, in_place="b:w", given=f"w={role}")
        assert shared(text, in_place="b:w", given=f"w={role}", donated="w") == set()
    assert shared(text, in_place="b:w", given="w=input") == set()


def test_slices_of_a_storage_that_do_not_touch_are_independent() -> None:
    text = "a = MatMul x\nb@8:a = MatMul x\nc@16:a = MatMul x\ny = MatMul a b c"
    assert shared(text) == set()
    assert "sharing_is_sound" in shared(text, a=9)
    assert "sharing_is_sound" in shared(text, b=9)


def test_many_slices_of_many_storages_are_asked_about_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three rows each: what is wrong in the first batch is found, and in the last, which is not full."""
    monkeypatch.setattr(sharing_is_sound, "BATCH", 3)
    storages = "\n".join(f"s{i} = MatMul x\nt{i}@8:s{i} = MatMul s{i}" for i in range(8))
    assert shared(storages) == set()
    for wrong in ("s1", "s7"):
        assert shared(storages, **{wrong: 9}) == {"sharing_is_sound"}


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("a = MatMul x\nc = MatMul a\nb@4:a = MatMul x\ny = MatMul b c", True),
        ("a = MatMul x\nc = MatMul x\nb@4:a = MatMul x\ny = MatMul a b c", False),
        ("a = MatMul x\nv:a = Slice a\nb@4:a = MatMul x\ny = MatMul v b", True),
        ("a = MatMul x\nv@4:a = Slice a\nb@4:a = MatMul x\ny = MatMul v b", False),
        ("a = MatMul x\nv@4:a = Slice a\nb@4:a = Relu v\ny = MatMul b", True),
        ("a = MatMul x\nv@4:a = Slice a\nb@4:a = Relu v\nw:a = Slice a\ny = MatMul b w", False),
        ("a = MatMul x\nb@4:a = MatMul x\nd@12:a = MatMul x\nc = MatMul d\ny = MatMul b", True),
        ("a = MatMul x\nb@4:a d@8:a = Split x\ny = MatMul b d", False),
        ("a = MatMul x\nd@8:a = MatMul x\nc = MatMul a d\nb@4:a = MatMul x\ny = MatMul b", True),
        ("a d@8:a = Split x\nc = MatMul a d\nb@4:a = MatMul x\ny = MatMul b", True),
        ("a = MatMul x\nv:a = Slice a\nb@4:a = MatMul v\ny = MatMul b", True),
        ("a = MatMul x\nv:a = Slice a\nb@4:a = Relu v\ny = MatMul b", True),
        ("a = MatMul x\nc = MatMul x\nv:a = Slice a\nb@4:a = MatMul x\ny = MatMul v b c", True),
    ],
    ids=[
        "one after the other", "needed later", "the other half needed later", "this half needed later",
        "in place of a half", "read again after a half was taken", "apart within a cluster", "two results in part",
        "over the ends of two", "over the ends of two results of one step", "made of the half that stays",
        "beside its operand, though it may take its bytes", "as large as what another storage keeps",
    ],
)  # fmt: skip
def test_slices_that_overlap_in_part_are_asked_about_in_pairs(text: str, right: bool) -> None:
    views = "".join(
        f" {v}:a+{o}"
        for v, o in (("v", 4 if "v@4" in text else 0), ("w", 0))
        if f"{v}" in text.split("=")[0] or f"\n{v}" in text
    )
    made = shared(
        text, views, "b:v" if "Relu v" in text else "", v=4, w=4, b=4 if "Relu" in text or "Slice" in text else 8
    )
    assert made == (set() if right else {"sharing_is_sound"})


def test_too_many_overlaps_in_part_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing_is_sound, "EFFORT_LIMIT", 3)
    made = Written("a = MatMul x\nc = MatMul x\nb@4:a = MatMul x\ny = MatMul a b c", given={"x": "input"})
    found = results(made.plan(), Permissions())["sharing_is_sound"]
    assert "too many" in (found.failure or "")
    monkeypatch.setattr(sharing_is_sound, "EFFORT_LIMIT", 4)  # two contents, each shown by one tensor
    assert violated(made.plan(), Permissions()) == {"sharing_is_sound"}


def test_contents_of_one_slice_and_contents_that_follow_one_another_cost_no_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Results in place have one slice; in the second plan slices differ, and none is needed when the next is made."""
    monkeypatch.setattr(sharing_is_sound, "EFFORT_LIMIT", 0)
    assert shared("a = MatMul x\nb:a = Relu a\nc:a = Relu b\ny = MatMul c", in_place="b:a c:b") == set()
    assert shared("a = MatMul x\nc = MatMul a\nb@4:a = MatMul x\ny = MatMul b c") == set()


def test_contents_that_are_said_to_lie_apart_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which contents touch is evidence: where it takes apart what overlaps, a row is false."""
    monkeypatch.setattr(sharing_is_sound, "clusters", lambda contents: ([content] for content in contents))
    assert shared("a = MatMul x\nb@8:a = MatMul x\ny = MatMul a b") == set()
    assert shared("a = MatMul x\nb@4:a = MatMul x\ny = MatMul a b") == {"sharing_is_sound"}
    for written, step in ((-1, 0), (0, 0), (3, 3)):
        before, behind = Content(0, 0, 8, -1, 4, 1, 2), Content(0, 8, 8, written, 5, 4, 5)
        assert sharing_is_sound._ends_before(before, behind) == ("(ends_before 0 8 8)", Place((4, 5), step=step))


def test_contents_of_several_storages_are_told_apart_whatever_the_order_of_their_tensors() -> None:
    text = "a = MatMul x\nc = MatMul x\nb:a = {}\nd:c = {}\ny = MatMul a b c d"
    assert shared(text.format("MatMul x", "MatMul x")) == {"sharing_is_sound"}
    assert shared("a = MatMul x\nc = MatMul a\nb:a = MatMul c\nd:c = MatMul b\ny = MatMul d") == set()


def test_bytes_that_are_needed_by_the_first_step_alone_are_needed() -> None:
    assert shared("b:x = MatMul x\ny = MatMul b") == {"sharing_is_sound"}
    assert shared("b = MatMul x\nc:x = MatMul b\ny = MatMul c") == set()


def test_one_byte_is_content_and_none_is_not() -> None:
    text = "a = MatMul x\nb:a = MatMul x\ny = MatMul a b"
    assert shared(text, b=0) == set()
    assert shared(text.replace("b:a", "b@4:a"), b=0) == set()
    assert shared(text, size=1) == {"sharing_is_sound"}


def test_a_half_is_overwritten_while_a_view_of_the_other_half_is_needed() -> None:
    text = "a = MatMul x\nv@8:a = Slice a\nb:a = MatMul x\ny = MatMul v b"
    assert shared(text, "v:a+8", a=16) == set()
    assert shared(text, "v:a+8", a=16, b=9) == {"sharing_is_sound"}


def test_a_content_that_reaches_over_two_others_is_looked_at_with_both() -> None:
    text = "a = MatMul x\nc = MatMul {first}\nb@4:a = MatMul x\nd@8:a = MatMul x\ny = MatMul b c d{last}"
    assert shared(text.format(first="a", last=""), a=16, b=4) == set()
    assert shared(text.format(first="x", last=" a"), a=16, b=4) == {"sharing_is_sound"}


def test_a_value_that_is_read_before_it_is_written_finds_another_in_its_bytes() -> None:
    plan = Written("a = MatMul x\nc = MatMul a\nb:a = MatMul c\ny = MatMul b", given={"x": "input"}).plan()
    assert "sharing_is_sound" in violated(listed(plan, "reads", 1, "a", "b"), Permissions())


def test_scratch_in_bytes_that_were_needed_before_is_no_read_of_them() -> None:
    plan = Written("a = MatMul x\nb = MatMul a\nc s:a = MatMul b s\ny = MatMul c", given={"x": "input"}).plan()
    scratch = plan.allocation.tensors.name.list().index("s")
    assert violated(changed(plan, "tensors", scratch, role=_role(Role.SCRATCH)), Permissions()) == set()


def test_a_result_that_may_take_bytes_of_another_storage_need_not() -> None:
    text = "a = MatMul x\nb:a = Relu a\nc = Relu b\nd:c = Relu c\ny = MatMul d"
    assert shared(text, in_place="b:a c:b d:c") == set()


def test_a_row_of_shared_bytes_speaks_of_its_tensors_and_of_the_step_that_writes() -> None:
    """x is row 0. Of two contents of the caller's the step is the first."""
    made = Written("a = MatMul x\nb:a = Relu a\ny = MatMul a b", given={"x": "input"})
    refuted = results(made.plan(), made.sharing(in_place="b:a"))["sharing_is_sound"].refuted
    assert refuted is not None
    assert refuted[1] == Place([1, 2], step=1)
    made = Written("y = MatMul a b", given={"a": "input", "b": "input"})
    same = results(changed(made.plan(), "tensors", 1, storage=0), Permissions())["sharing_is_sound"].refuted
    assert same is not None
    assert same[1] == Place([0, 1], step=0)
    halves = changed(changed(made.plan(), "tensors", 1, storage=0, window=4), "storages", 0, bytes=12)
    refuted = results(halves, Permissions())["sharing_is_sound"].refuted
    assert refuted is not None
    assert refuted[1] == Place((0, 1), step=0)


def test_views_that_show_each_other_show_nothing() -> None:
    """The caller is said to have made both, so that neither was made after the other."""
    made = Written("y = MatMul a b", given={"a": "input", "b": "input"})
    plan = changed(made.plan(), "tensors", 1, storage=0)
    assert "sharing_is_sound" in violated(plan, made.sharing("a:b b:a"))
    assert "sharing_is_sound" in violated(made.plan(), made.sharing("a:a"))  # alone in its storage


def test_a_view_is_made_after_its_base() -> None:
    assert "sharing_is_sound" in shared("a v:a = Split x\ny = MatMul a v", "v:a")
    assert shared("a = MatMul x\nv:a = Reshape a\ny = MatMul a v", "v:a") == set()


def test_a_long_chain_in_place_is_one_storage() -> None:
    steps = "\n".join(f"t{i + 1}:t0 = Relu t{i}" for i in range(120))
    permits = " ".join(f"t{i + 1}:t{i}" for i in range(120))
    assert shared(f"t0 = MatMul x\n{steps}", in_place=permits) == set()
    assert shared(f"t0 = MatMul x\n{steps}\ny = MatMul t60", in_place=permits) == {"sharing_is_sound"}
    made = Written(f"t0 = MatMul x\n{steps}\ny = MatMul t60", given={"x": "input"})
    refuted = results(made.plan(), made.sharing(in_place=permits))["sharing_is_sound"].refuted
    assert refuted is not None
    assert refuted[1] == Place([60, 61, 62, 63, 64], step=63)  # t60 is read last by y, and its bytes are written before


# Mutation


def test_the_writes_that_a_step_lists_as_mutations_are_those_and_no_others() -> None:
    made = Written("a = MatMul x\nb = MatMul a\n!a = Update a\ny = MatMul a b", given={"x": "input"})
    assert context_of(made.plan(), Permissions()).changes.tolist() == [False, False, True, False]


def test_what_a_step_mutates_it_reads() -> None:
    assert shared("a = MatMul x\n!a = Update x\ny = MatMul a") == {LIVES}
    assert shared("a = MatMul x\n!a = Update x a\ny = MatMul a") == set()


def test_a_step_may_mutate_what_a_step_made_or_the_caller_donated() -> None:
    assert shared("a = MatMul x\n!a = Update a x\ny = MatMul a") == set()
    text = "!w = Update w x\ny = MatMul w"
    assert shared(text, given="x=input w=param", donated="w") == set()
    assert shared(text, given="x=input w=param") == {"sharing_is_sound"}
    assert shared(text, given="x=input w=input") == {"sharing_is_sound"}


def test_a_mutation_over_other_contents_is_refuted() -> None:
    text = "a = MatMul x\nb:a = Relu a\n!a = Update a x\ny = MatMul a b"
    assert "sharing_is_sound" in shared(text, in_place="b:a")
    text = "a = MatMul x\nb:a !a = Relu a\ny = MatMul b"
    assert "sharing_is_sound" in shared(text, in_place="b:a")


def test_an_older_view_of_what_is_mutated_is_stale() -> None:
    text = "a = MatMul x\nv:a = Reshape a\n{before}\n!a = Update a x\n{after}"
    assert shared(text.format(before="y = MatMul v", after="z = MatMul a"), "v:a") == set()
    assert shared(text.format(before="y = MatMul a", after="z = MatMul v"), "v:a") == {"sharing_is_sound"}
    text = "a = MatMul x\nv:a = Reshape a\n!a = Update a v\ny = MatMul a"
    assert shared(text, "v:a") == {"sharing_is_sound"}  # read by the very step that changes what it shows
    text = "a = MatMul x\nv:a !a = Update a x\ny = MatMul a"
    assert shared(text, "v:a") == set()  # nobody reads it
    assert shared(f"{text} v", "v:a") == {"sharing_is_sound"}
    text = "a = MatMul x\n!a = Update a x\nv:a = Reshape a\ny = MatMul v"
    assert shared(text, "v:a") == set()
    text = "a = MatMul x\nv:a = Reshape a\n!v = Update v x\ny = MatMul v"
    assert shared(text, "v:a") == {"sharing_is_sound"}


# Bodies

LOOP = """
    a = MatMul x
    f = enter/{op} a
    b = MatMul f c
    d = Relu b
    r = leave/{op} d
    y = MatMul r
"""


def loop(op: str = "Loop", changed: Lives | None = None, given: str = "x=input c=input") -> Plan:
    lives: dict[str, tuple[int, int]] = {} if op == "If" else {"a": (0, 4), "f": (1, 4), "c": (0, 4), "r": (1, 5)}
    return Written(LOOP.format(op=op), given=dict(word.split("=") for word in given.split())).plan(
        lives=lives | dict(changed or {})
    )


def test_a_loop_keeps_what_any_iteration_may_touch() -> None:
    assert violated(loop(), Permissions()) == set()
    for name, life in (("a", (0, 1)), ("f", (1, 2)), ("c", (0, 2)), ("c", (0, 3)), ("r", (4, 5)), ("r", (2, 5))):
        assert violated(loop(changed={name: life}), Permissions()) == {"lifetimes_cover_accesses"}
    shorter = loop(changed={"c": (0, 3)})
    refuted = results(shorter, Permissions())[LIVES].refuted
    assert refuted is not None
    assert refuted[1] == Place(
        (shorter.allocation.tensors.name.list().index("c"),), step=1
    )  # the step that enters the loop


def test_what_the_leave_of_a_loop_writes_and_reads_lives_there_alone() -> None:
    """A copy of what the body hands on, and scratch: neither is a result. spec: T8.3, T8.8, T8.9"""
    text = LOOP.format(op="Loop").replace("r = leave/Loop d", "r k = leave/Loop d k")
    lives = {"a": (0, 4), "f": (1, 4), "c": (0, 4), "r": (1, 5), "k": (4, 4)}
    plan = Written(text, given={"x": "input", "c": "input"}).plan(lives=lives)
    copy = plan.allocation.tensors.name.list().index("k")
    assert violated(changed(plan, "tensors", copy, role=_role(Role.SCRATCH)), Permissions()) == set()


def test_a_branch_keeps_nothing_that_is_not_read_again() -> None:
    assert violated(loop("If"), Permissions()) == set()


def test_a_scratch_is_used_by_the_step_that_writes_it_and_nothing_else_is() -> None:
    plan = Written("a s = MatMul x s\nb = MatMul a", given={"x": "input"}).plan()
    assert violated(plan, Permissions()) == {"lifetimes_cover_accesses"}
    scratch = plan.allocation.tensors.name.list().index("s")
    assert violated(changed(plan, "tensors", scratch, role=_role(Role.SCRATCH)), Permissions()) == set()
    later = Written("a s = MatMul x s\nb = MatMul a s", given={"x": "input"}).plan(lives={"s": (0, 0)})
    assert violated(changed(later, "tensors", scratch, role=_role(Role.SCRATCH)), Permissions()) == {LIVES}
    over = Written("a s:x = MatMul x s\nb = MatMul a", given={"x": "input"}).plan()
    over = changed(over, "tensors", over.allocation.tensors.name.list().index("s"), role=_role(Role.SCRATCH))
    assert violated(over, Permissions()) == {"sharing_is_sound"}


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("a = MatMul x\nf = enter/Loop a\nb = MatMul f x\nd:b = Relu b\nr = leave/Loop d", True),
        ("a = MatMul x\nf = enter/Loop a\nb = MatMul f c\nd:c = Relu b\nr = leave/Loop d", False),
        ("a = MatMul x\nf = enter/Loop a\nb = MatMul f\nd:f = Relu b\nr = leave/Loop d", False),
        ("a = MatMul x\nf = enter/Loop a\nb = MatMul f\nd:a = Relu b\nr = leave/Loop d", False),
        ("a = MatMul x\nf = enter/Loop a\nb = MatMul f\nd = Relu b\nr:b = leave/Loop d", False),
        ("a = MatMul x\nf = enter/If a\nb = MatMul f\nd = Relu b\nr:b = leave/If d", True),
        ("a = MatMul x\nf = enter/If a\nb = MatMul f\nd:a = Relu b\nr = leave/If d", True),
        ("f = enter/Loop x\ng = enter/Loop f\nb = Add g c\nd:c = Relu b\ns = leave/Loop d\nr = leave/Loop s", False),
    ],
    ids=[
        "its own bytes", "over what it captures", "over its formal input", "over its input", "result over its body",
        "a branch's result", "over a branch's input", "a capture through two bodies",
    ],
)  # fmt: skip
def test_a_loop_reads_again_what_it_captures_or_is_given(text: str, right: bool) -> None:
    made = Written(text, given={"x": "input", "c": "input"})
    last = text.count("\n")
    loops: Lives = (
        {} if "If" in text else {"a": (0, last), "f": (1, last), "c": (0, last), "x": (0, last), "r": (1, last)}
    )
    lives = {name: life for name, life in loops.items() if name in made.names}
    if "s" in made.names:
        lives |= {"f": (0, last), "g": (1, last), "s": (1, last), "r": (0, last)}
    in_place = made.sharing(in_place="d:b") if "d:b" in text else Permissions()
    assert violated(made.plan(lives=lives), in_place) == (set() if right else {"sharing_is_sound"})


@pytest.mark.parametrize(
    "text",
    ["f = enter/Loop x\nb = MatMul f", "b = MatMul x\nr = leave/Loop b", "f = enter/Loop x\nr = leave/Scan f"],
    ids=["never left", "never entered", "left by another"],
)
def test_brackets_that_do_not_match_are_refuted(text: str) -> None:
    made = Written(text, given={"x": "input"}).plan(lives=dict.fromkeys("xfr", (0, 1)))
    assert "lifetimes_cover_accesses" in violated(made, Permissions())


def test_a_body_that_is_no_bracket_of_the_steps_is_refuted() -> None:
    """At its enter; where that is no step, at the last."""
    plan = loop()
    for enter, leave, step in ((1, 5, 1), (NONE, NONE, 5)):
        found = results(changed(plan, "bodies", 1, enter=enter, leave=leave), Permissions())
        assert found[LIVES].refuted == ("false", Place(step=step))


def test_bodies_nest_only_so_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, refused in ((1, set[str]()), (0, {LIVES})):
        monkeypatch.setattr(contexts, "MAX_BODY_DEPTH", limit)
        assert violated(loop(), Permissions()) == refused
