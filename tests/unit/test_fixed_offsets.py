"""Tensors that must begin at a byte of their arena: in every plan they do, or it is refused with the reason.

spec: A10.1 to A10.8, A7.2, A8.5, A8.9, A8.11, X3.4
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from proofs.readers.models.ir import read_ir
from proofs.sharding.stages import RankModel
from proofs.verify.checks import BufferSubject, Subject, buffer_violations, violations
from proofs.verify.options import Disagreement, Options, check_agreement, check_buffers
from tests.support.buffers import hard, least, model_of, right
from tests.support.effort import share
from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, FixedByte, Model, Role, Rule
from tmmu.examples.broken.editing import counted, edit
from tmmu.ir import columns, text, text_writer, validate
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.layouts import around, packed
from tmmu.planner.layouts.boxes import Boxes, Packing
from tmmu.planner.layouts.search import Effort, Search, run_searches
from tmmu.planner.problem import Fixed, problem_of_plan
from tmmu.planner.replan import replan
from tmmu.plans import file, provenance
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.gate import StatedBuffers
from tmmu.plans.sections import Plan

PACKED = PlanOptions(layout="packed")
CHAIN = ("node a MatMul x -> a", "node b MatMul a -> b", "node y MatMul a b -> y")
"""Step 0 makes `a` of `x`, 1 `b` of `a`, 2 the output `y` of both; each has 64 bytes."""


def boxes(seed: int) -> Boxes:
    """A few boxes in few steps, one or more of them fixed, and those apart from each other; some bound to be apart."""
    rng = random.Random(seed)
    n = 5
    births = [rng.randrange(5) for _ in range(n)]
    deaths = [b + rng.randrange(4) for b in births]
    sizes = [rng.choice((1, 2, 3, 4, 6, 9)) for _ in range(n)]
    i, j = rng.sample(range(n), 2)
    made = Boxes(births, deaths, sizes, [rng.choice((1, 2, 4)) for _ in range(n)], {i: [j], j: [i]} if seed % 3 else {})
    fixed: dict[int, int] = {}
    for i in rng.sample(range(n), rng.randrange(1, n)):
        chosen = {**fixed, i: 4 * rng.randrange(6)}
        some = replace(made, fixed=chosen).part(sorted(chosen))
        if right(some, [chosen[k] for k in sorted(chosen)]):
            fixed = chosen
    return replace(made, fixed=fixed)


def stacked(given: Boxes) -> Packing:
    """Nothing shares a byte, and nothing is where it is fixed."""
    offsets = [128 * i for i in range(len(given))]
    return Packing(offsets, max(at + size for at, size in zip(offsets, given.size, strict=True)))


def test_what_is_placed_around_fixed_boxes_is_right_and_a_search_ends_at_the_proved_optimum() -> None:
    for seed in range(share(40)):
        given = boxes(seed)
        found = packed.pack(given, stacked(given))
        best = least(given)
        assert best is not None
        assert right(given, found.offsets), seed
        assert found.height >= best >= given.least()
        search = Search(given, found, 0, lambda _: None)
        run_searches([search], Effort(1 << 22), lambda: False)
        assert right(given, search.best.offsets), seed
        assert search.best.height == best == search.bound, seed


@pytest.mark.parametrize("looks", [around.LOOKS, 0])
def test_an_allocator_keeps_clear_of_what_is_fixed(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many fixed boxes their bytes are kept free at all steps."""
    monkeypatch.setattr(around, "LOOKS", looks)
    for seed in range(share(200)):
        given = replace(boxes(seed), apart={})
        found = around.place_best_fit(given)
        assert right(given, found.offsets), seed
        assert found.height == max(at + size for at, size in zip(found.offsets, given.size, strict=True))


def test_many_boxes_are_placed_around_fixed_ones() -> None:
    """Too many meet for lists of neighbours; the fixed ones stay where a placement without them had them."""
    rng, n = random.Random(5), 1100
    births = [rng.randrange(900) for _ in range(n)]
    given = Boxes(births, [b + 900 for b in births], [rng.randrange(1, 99) for _ in births], [1] * n, {})
    assert given.meetings > packed.FEW
    free = packed.pack(given, stacked(given))
    fixed = {i: free.offsets[i] for i in range(0, n, 100)}
    found = packed.pack(replace(given, fixed=fixed), stacked(given))
    assert all(found.offsets[i] == at for i, at in fixed.items())
    low, born = np.array(found.offsets), np.array(births)
    end, dead = low + np.array(given.size), born + 900
    for i in range(n):
        met = (low < end[i]) & (low[i] < end) & (born <= dead[i]) & (born[i] <= dead)
        assert np.flatnonzero(met).tolist() == [i]
    assert found.height < free.height * 1.2


def plan(model: Model, options: PlanOptions = PACKED, arenas: tuple[ArenaConfiguration, ...] = DEFAULT) -> Plan:
    return plan_memory(model, arenas, options).plan


def at(made: Plan) -> dict[str, int]:
    """The byte of its arena at which each tensor begins."""
    return dict(zip(made.allocation.tensors.name, made.allocation.addresses().tolist(), strict=True))


def found_wrong(
    made: Plan, model: Model | None = None, asked: Mapping[str, FixedByte] | None = None
) -> tuple[str, str] | None:
    """The obligation and the field of the first thing that is wrong with a plan."""
    against = None if model is None else RankModel(read_ir(model), {})
    found = next(violations(Subject(file.decode(file.encode(made)), against, asked=asked or {})), None)
    return None if found is None else (str(found.obligation), found.field)


def test_a_model_fixes_a_tensor_and_a_plan_in_which_it_moved_is_refused() -> None:
    model = text_model("tensor a u8 64 at 1024", *CHAIN)
    made = plan(model)
    assert at(made)["a"] == 1024
    assert file.decode(file.encode(made)).plan.origin.fixed == {"a": 1024}
    assert found_wrong(made, model, {"a": 1024, "y": at(made)["y"]}) is None
    moved = counted(edit(made, storages={"a": {"offset": 2048}}))
    assert found_wrong(moved) == ("offsets_are_fixed", "provenance.fixed")
    silent = edit(moved, fixed={})
    assert found_wrong(silent) is None, "nothing is known then of what was asked for"
    assert found_wrong(silent, model) == ("steps_are_the_model", "offset")
    assert found_wrong(silent, asked={"a": 1024}) == ("offsets_are_fixed", "--fix")
    assert found_wrong(edit(made, fixed={"a": 1024, "zz": 0})) == ("offsets_are_fixed", "provenance.fixed")
    with pytest.raises(Disagreement, match="--fix c: the plan has no tensor of this name"):
        check_agreement(made, Options(fixed={"a": 0, "c": 0}))


def test_buffers_of_which_only_lifetimes_are_known_may_be_fixed_by_the_user() -> None:
    """A plan of another producer: the partner's buffer is where it must be, or the plan is refused."""
    stated = file.read_any(
        b"tmmu-plan-text 1\narena m 100\nbuffer p 60 m 0 live 0 3\nbuffer q 40 m 60 live 2 4\n", "b.plan.txt"
    )
    assert isinstance(stated, StatedBuffers)
    assert list(buffer_violations(BufferSubject(stated, asked={"q": 60}))) == []
    (found,) = buffer_violations(BufferSubject(stated, asked={"p": 0, "q": 64}))
    assert found.text == "--fix asks for 'q' at byte 64 of arena 'm'; it is at 60 of arena 'm'"
    assert (found.stated, found.recomputed) == ("m:60", "m:64")
    two = file.read_any(
        b"tmmu-plan-text 1\narena m 100\narena o 100\nbuffer p 60 m 0 live 0 3\nbuffer q 40 o 0 live 2 4\n",
        "b.plan.txt",
    )
    assert isinstance(two, StatedBuffers)
    assert list(buffer_violations(BufferSubject(two, asked={"q": ("o", 0)}))) == []
    (found,) = buffer_violations(BufferSubject(two, asked={"q": ("m", 0)}))
    assert found.text == "--fix asks for 'q' at byte 0 of arena 'm'; it is at 0 of arena 'o'"
    with pytest.raises(Disagreement, match=r"--fix q=0: m, o may hold it; name one, as in q=m:0"):
        check_buffers(two.plan, Options(fixed={"q": 0}))
    with pytest.raises(Disagreement, match="--fix r"):
        check_buffers(stated.plan, Options(fixed={"r": 0}))


def test_a_user_fixes_what_the_model_does_not_and_what_shares_bytes_follows() -> None:
    """A view is fixed at byte 16 of its base, which so begins at 1,024; the user's word may be the model's again."""
    lines = ("tensor v u8 32 view a 16", "node a MatMul x -> a", "node v my::Cut a -> v", "node y MatMul a v -> y")
    model = text_model(*lines)
    made = plan(
        model, replace(PACKED, fixed={"v": 1040}), (replace(DEFAULT[2], alignment=16), *DEFAULT[:2], DEFAULT[3])
    )
    assert (at(made)["v"], at(made)["a"]) == (1040, 1024)
    both = replace(model, tensors=tuple(replace(t, fixed_offset=512) if t.name == "a" else t for t in model.tensors))
    assert plan(both, replace(PACKED, fixed={"a": 512, "v": 528})).origin.fixed == {"a": 512, "v": 528}


REFUSED = {
    "INVALID_BINDING no tensor has this name": {"q": 0},
    "INVALID_BINDING byte 128 is requested, the model fixes it at 0": {"x": 128},
    "ALIGNMENT_VIOLATION its fixed byte 64 of arena 'activations' is not aligned to 128": {"a": 64},
    "ARENA_TOO_SMALL fixed at byte 3968 of arena 'activations', it ends at 4032, its capacity is 4000": {"a": 3968},
    "ALLOCATION_OVERFLOW fixed at byte 18446744073709551488 of arena": {"b": (1 << 64) - 128},
    "ADDRESS_COLLISION 'a' is fixed at bytes 128 to 191 and live from step 0 to 2, 'b' is fixed at bytes 128 to 255": {
        "a": 128, "b": 128,
    },
    "ADDRESS_COLLISION 'x' is fixed at bytes 0 to 63 and live from step 0 to 0, 'y' is fixed at byte": {"y": 0},
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("effort", [None, 1000])
def test_what_no_placement_can_keep_is_refused_with_the_names(why: str, effort: int | None) -> None:
    model = text_model("tensor x u8 64 at 0", "tensor b u8 128", *CHAIN, "apart x y")
    limited = tuple(replace(arena, capacity=4000 if "SMALL" in why else arena.capacity) for arena in DEFAULT)
    with pytest.raises(TmmuError) as caught:
        plan(model, replace(PACKED, fixed=REFUSED[why], effort=effort), limited)
    code, _, what = why.partition(" ")
    assert (caught.value.code_id, what in str(caught.value)) == (code, True), str(caught.value)


def test_two_tensors_that_share_bytes_and_are_fixed_apart_are_refused_with_both_names() -> None:
    model = text_model("node a MatMul x -> a", "node b MatMul a -> b", "node y MatMul b -> y", "alias g a y")
    with pytest.raises(
        TmmuError, match=r"'y': byte 128 is requested, but it shares bytes with 'a', which puts it at 0"
    ):
        plan(model, replace(PACKED, fixed={"a": 0, "y": 128}))
    shown = text_model(
        "tensor v u8 32 view a 16", "node a MatMul x -> a", "node v my::Cut a -> v", "node y Add a v -> y"
    )
    with pytest.raises(TmmuError, match=r"'v': byte 0 is requested, but it begins at byte 16 of its storage"):
        plan(shown, replace(PACKED, fixed={"v": 0}))


def test_tensors_that_take_turns_may_be_fixed_at_one_byte() -> None:
    """A buffer that is free for a while is two storages at one offset."""
    made = plan(text_model(*CHAIN), replace(PACKED, fixed={"x": 256, "b": 256}))
    assert (at(made)["x"], at(made)["b"]) == (256, 256)
    with pytest.raises(TmmuError, match=r"ADDRESS_COLLISION"):
        plan(text_model(*CHAIN, "apart x b"), replace(PACKED, fixed={"x": 256, "b": 256}))


@pytest.mark.parametrize("layout", ["slots", "pools"])
def test_a_layout_with_a_rule_keeps_an_offset_that_follows_and_refuses_every_other(layout: str) -> None:
    model, options = text_model(*CHAIN), replace(PACKED, layout=layout)
    follows = at(plan(model, options))["y"]
    assert plan(model, replace(options, fixed={"y": follows})).origin.fixed == {"y": follows}
    with pytest.raises(TmmuError, match=rf"byte 1280 .* the layout {layout} puts it at {follows}; --layout packed"):
        plan(model, replace(options, fixed={"y": 1280}))


def test_where_slots_lie_elsewhere_the_fallback_is_packed() -> None:
    made = plan(text_model(*CHAIN), replace(PACKED, layout="slots", fallback="packed", fixed={"y": 1280}))
    assert (made.origin.layout, at(made)["y"]) == ("packed", 1280)
    with pytest.raises(TmmuError, match="MODE_VIOLATION"):  # another refusal is not taken for this one
        plan(text_model(*CHAIN), replace(PACKED, layout="slots", fallback="packed", mode="backward", fixed={"y": 0}))


@pytest.mark.parametrize(
    ("fixed", "granted"), [({}, True), ({"y": 0}, False), ({"a": 0, "y": 0}, True), ({"a": 0}, False)]
)
def test_a_result_is_in_place_where_both_are_fixed_alike_or_neither_is(fixed: dict[str, int], granted: bool) -> None:
    model = text_model("node a MatMul x -> a", "node y Relu a -> y inplace y a")
    found = plan_memory(model, options=replace(PACKED, fixed=fixed))
    assert (found.refused == []) == granted
    assert all(at(found.plan)[name] == byte for name, byte in fixed.items())
    if not granted:
        assert found.refused[0].reason == "one of the two has a fixed offset, and the other does not have the same"


def test_what_is_kept_lies_in_sequence_past_what_is_fixed() -> None:
    model = text_model(
        "tensor v u8 200 parameter",
        "tensor w u8 100 parameter",
        "tensor z u8 300 parameter",
        "node n MatMul x v w z -> y",
    )
    assert [at(plan(model, replace(PACKED, fixed={"z": 256})))[name] for name in "vwz"] == [0, 640, 256]
    found = plan(model, replace(PACKED, fixed={"z": 256}, effort=100))
    assert found.origin.bounds[0] == (600, "live"), "what is lost around a fixed one may be less in another order"
    assert plan(model, replace(PACKED, fixed={"z": 1024}, effort=100)).origin.bounds[0] == (1324, "fixed")
    assert plan(model, replace(PACKED, effort=100)).origin.bounds[0][1] == "sequence"
    equal = text_model("tensor v u8 256 parameter", "tensor w u8 256 parameter", "node n MatMul x v w -> y")
    assert plan(equal, replace(PACKED, fixed={"w": 256}, effort=100)).origin.bounds[0] == (512, "live")
    with pytest.raises(TmmuError, match=r"ADDRESS_COLLISION"):
        plan(model, replace(PACKED, fixed={"z": 128, "v": 0}))
    small = replace(DEFAULT[0], capacity=700)
    with pytest.raises(TmmuError, match="whether a placement fits is unknown"):
        plan(model, replace(PACKED, fixed={"z": 256}, effort=100), (small, *DEFAULT[1:]))


def test_a_bound_counts_where_the_highest_fixed_one_ends_and_a_search_proves_what_does_not_fit() -> None:
    """Between 0 and 128, and above 192, there is no room for the 192 bytes of `b` below byte 384."""
    lines = ("tensor b u8 192", *CHAIN)
    arenas = tuple(replace(arena, alignment=64) for arena in DEFAULT)
    high = plan(text_model(*lines), replace(PACKED, fixed={"a": 4096}, effort=10), arenas)
    assert high.origin.bounds[2] == (4160, "fixed")
    tight = replace(PACKED, fixed={"a": 128}, effort=100_000)
    assert plan(text_model(*lines), tight, arenas).usage[2].footprint == 384
    short = tuple(replace(arena, capacity=383) for arena in arenas)
    with pytest.raises(TmmuError, match=r"no placement fits: none is below 384 \(a complete search found none\)"):
        plan(text_model(*lines), tight, short)


def test_the_effort_that_a_plan_with_fixed_offsets_records_gives_it_again() -> None:
    model, asked = model_of(hard(0)), replace(PACKED, fixed={"b3": 1024})
    plain, made = plan(model, asked), plan(model, replace(asked, effort=30_000))
    assert made.origin.effort
    assert made.usage[2].footprint < plain.usage[2].footprint
    assert file.encode(plan(model, replace(asked, effort=made.origin.effort))) == file.encode(made)
    assert [at(one)["b3"] for one in (plain, made)] == [1024, 1024]
    asked = {
        key: problem_of_plan(one).fixed for key, one in (("stated", made), ("unstated", replace(made, provenance=None)))
    }
    storage = int(made.allocation.tensors.storage[list(made.allocation.tensors.name).index("b3")])
    assert asked == {"stated": {storage: Fixed(1024, "b3")}, "unstated": {}}


def test_a_fixed_tensor_lies_in_the_first_arena_that_it_may_use() -> None:
    both = (ArenaConfiguration("near", (Role.INPUT, Role.ACTIVATION), 256), ArenaConfiguration("far", (Role.SCRATCH,)))
    policy = ArenaPolicy((), (Rule(("near", "far"), names=("*",)),))
    model = text_model("tensor b u8 64 at 0", *CHAIN)
    made = plan_memory(model, both, PACKED, policy=policy).plan
    assert [made.allocation.arenas[a].name for a in made.allocation.storages.arena.tolist()].count("near") == 3
    assert (at(made)["b"], home(made, "b")) == (0, "near")


NEAR_OR_FAR = (ArenaConfiguration("near", (Role.INPUT, Role.ACTIVATION)), ArenaConfiguration("far", (Role.SCRATCH,)))
ANY = ArenaPolicy((), (Rule(("near", "far"), names=("*",)),))


def home(made: Plan, name: str) -> str:
    """The arena of a tensor."""
    row = list(made.allocation.tensors.name).index(name)
    return made.allocation.arenas[made.allocation.storages.arena[made.allocation.tensors.storage[row]]].name


def test_an_arena_is_named_where_several_may_hold_the_tensor() -> None:
    """The byte alone would be met in any of them. spec: A10.8"""
    model = text_model(*CHAIN)
    for arena in ("near", "far"):
        made = plan_memory(model, NEAR_OR_FAR, replace(PACKED, fixed={"b": (arena, 256)}), policy=ANY).plan
        assert (home(made, "b"), at(made)["b"], made.origin.fixed) == (arena, 256, {"b": 256})
        assert found_wrong(made, asked={"b": (arena, 256)}) is None
        check_agreement(made, Options(fixed={"b": (arena, 256)}))
        other = "near" if arena == "far" else "far"
        assert found_wrong(made, asked={"b": (other, 256)}) == ("offsets_are_fixed", "--fix")
        with pytest.raises(Disagreement, match=r"--fix b=256: near, far may hold it; name one, as in b=near:256"):
            check_agreement(made, Options(fixed={"b": 256}))
    with pytest.raises(
        TmmuError, match=r"'b': byte 256 is requested without an arena; it may be in near, far; name one, as in"
    ):
        plan_memory(model, NEAR_OR_FAR, replace(PACKED, fixed={"b": 256}), policy=ANY)


def test_a_byte_alone_is_one_of_the_arena_that_the_role_decides() -> None:
    """By the configuration that is given, else the plan's: a plan that has the tensor elsewhere is refuted."""
    made = plan(
        text_model("tensor v u8 64 view a 0", "node a MatMul x -> a", "node v Flatten a -> v", "node y Add v x -> y")
    )
    y = at(made)["y"]
    for name in ("y", "v"):
        byte = at(made)[name]
        assert found_wrong(made, asked={name: byte}) is None
        assert found_wrong(made, asked={name: ("activations", byte)}) is None
        assert found_wrong(made, asked={name: ("gradients", byte)}) == ("offsets_are_fixed", "--fix")
    row = list(made.allocation.tensors.name).index("y")
    storages = made.allocation.storages
    arena = storages.arena.copy()
    arena[made.allocation.tensors.storage[row]] = 3
    moved = replace(made, allocation=replace(made.allocation, storages=replace(storages, arena=arena)))
    assert (home(moved, "y"), at(moved)["y"]) == ("gradients", y)
    texts = [found.text for found in violations(Subject(file.decode(file.encode(moved)), asked={"y": y}))]
    assert f"--fix asks for 'y' at byte {y} of arena 'activations'; it is at {y} of arena 'gradients'" in texts
    unclaimed = Plan(made.allocation)
    with pytest.raises(Disagreement, match=rf"--fix y={y}: parameters, optimizer, activations, gradients may hold it"):
        check_agreement(unclaimed, Options(fixed={"y": y}))
    given = Configuration(DEFAULT, ArenaPolicy())
    check_agreement(unclaimed, Options(fixed={"y": y}, arenas=given))
    elsewhere = Configuration(DEFAULT, ArenaPolicy((), (Rule(("gradients",), names=("y",)),)))
    subject = Subject(file.decode(file.encode(unclaimed)), arenas=elsewhere, asked={"y": y})
    texts = [found.text for found in violations(subject)]
    assert f"--fix asks for 'y' at byte {y} of arena 'gradients'; it is at {y} of arena 'activations'" in texts
    with pytest.raises(Disagreement, match=r"--fix y=activation:0: .* no arena 'activation'; did you mean act"):
        check_agreement(made, Options(fixed={"y": ("activation", 0)}))


def test_an_arena_that_may_not_hold_the_tensor_is_refused_with_those_that_may() -> None:
    model = text_model(*CHAIN, "alias g a y")
    for fixed, what in (
        (
            {"x": ("gradients", 0)},
            "'x': the arena 'gradients' is requested; it may be in activations; name activations",
        ),
        ({"x": ("act", 0)}, "'x': the arena 'act' is requested; it may be in activations"),
    ):
        with pytest.raises(TmmuError, match=f"{what}.*INVALID_BINDING"):
            plan(model, replace(PACKED, fixed=fixed))
    apart = {"a": ("near", 0), "y": ("far", 0)}
    with pytest.raises(TmmuError, match=r"'y': the arena 'far' is requested; it shares bytes .* fixed in near"):
        plan_memory(model, NEAR_OR_FAR, replace(PACKED, fixed=apart), policy=ANY)
    one = {"a": ("far", 0), "y": 0}
    assert home(plan_memory(model, NEAR_OR_FAR, replace(PACKED, fixed=one), policy=ANY).plan, "y") == "far"


def test_a_result_is_in_place_only_where_both_are_fixed_in_one_arena() -> None:
    """spec: A10.2"""
    model = text_model("node a MatMul x -> a", "node y Relu a -> y inplace y a")
    for home_of_y, granted in (("near", True), ("far", False)):
        fixed = {"a": ("near", 0), "y": (home_of_y, 0)}
        found = plan_memory(model, NEAR_OR_FAR, replace(PACKED, fixed=fixed), policy=ANY)
        assert (found.refused == []) == granted
        assert (home(found.plan, "a"), home(found.plan, "y")) == ("near", home_of_y)
        assert found_wrong(found.plan, asked=fixed) is None


def test_a_plan_that_is_made_again_has_the_same_fixed_offsets() -> None:
    lines = "tmmu-ir-text 1\ndim n 1 {}\ntensor x u8 n input\ntensor y u8 n output\nnode y MatMul x -> y\n"
    model, again = (text.read(lines.format(most).encode(), "g.ir.txt") for most in (64, 128))
    made = plan(model, replace(PACKED, fixed={"y": 1024}, replan_policy="REPLAN_AT_SAFEPOINT"))
    new, record = replan(made, again, {"n": 128})
    assert record is not None
    assert (at(new)["y"], new.origin.fixed) == (1024, {"y": 1024})
    options = replace(PACKED, fixed={"y": ("far", 1024)}, replan_policy="REPLAN_AT_SAFEPOINT")
    new, _ = replan(plan_memory(model, NEAR_OR_FAR, options, policy=ANY).plan, again, {"n": 128})
    assert (home(new, "y"), at(new)["y"]) == ("far", 1024)


def test_files_and_texts_of_models_hold_fixed_offsets_and_refuse_wrong_ones() -> None:
    model = text_model("tensor a u8 64 at 1024", *CHAIN)
    assert columns.from_object(columns.to_object(model)) == model == text.read(text_writer.write(model).encode(), "m")
    assert columns.model_digest(model) != columns.model_digest(text_model("tensor a u8 64", *CHAIN))
    assert "fixed" not in columns.to_object(text_model(*CHAIN))
    whole = columns.to_object(model)
    rows = whole["fixed"]
    nothing, beyond = {key: rows[key][:0] for key in rows}, {**rows, "tensor": rows["tensor"] + 9}
    for wrong in ({}, nothing, beyond):
        with pytest.raises(TmmuError, match="INVALID_IR"):
            columns.from_object({**whole, "fixed": wrong})
    for byte, kind, code in ((-1, "u8", "ALLOCATION"), ((1 << 64) - 64, "u8", "ALLOCATION"), (2, "f32", "ALIGNMENT")):
        fixed = text_model(f"tensor a {kind} 64 at 0", *CHAIN)
        tensors = tuple(replace(t, fixed_offset=byte) if t.name == "a" else t for t in fixed.tensors)
        with pytest.raises(TmmuError, match=code):
            validate.validate_model(replace(fixed, tensors=tensors))


@pytest.mark.parametrize("wrong", [{}, {"a": -1}, {"a": 1 << 64}, {"a": True}, {0: 0}, ["a"]])
def test_provenance_with_no_or_wrong_fixed_offsets_is_no_plan(wrong: object) -> None:
    made = plan(text_model(*CHAIN), replace(PACKED, fixed={"a": 0}))
    stated = {**provenance.provenance_object(made.origin), **dict.fromkeys(provenance.HASHES, bytes(32))}
    assert provenance.read(stated)[0] == made.origin
    with pytest.raises(TmmuError, match=r"provenance\.fixed.*INVALID_PLAN"):
        provenance.read({**stated, "fixed": wrong})
