"""Several programs planned for one memory: what is shared, where it is, and what is refused.

spec: PS1.2, PS3.1, PS3.2, PS3.4, PS3.6, PS3.8, PS3.9, PS3.10
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofs.definition.checker import execute
from proofs.sets.violations import find_violations
from tests.support.set_models import cache_program, members_of, prepared, read_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.planner.plan import plan_memory, prepare_model
from tmmu.planner.sets.plan import PlannedSet, SetOptions, plan_programs
from tmmu.planner.sets.shares import TensorOfProgram, group_shared
from tmmu.plans.sets import SharedUse

SHARED = SetOptions(("cache", "w"))
PREFILL, DECODE = cache_program([128, 128, 128]), cache_program([16, 16, 16])


def checked(made: PlannedSet) -> PlannedSet:
    """The set, in which neither the plans alone nor the definition of sets find anything wrong."""
    members = members_of(made)
    for member in members:
        assert list(execute.violations(member.run)) == []
    assert list(find_violations(members, made.plan_set.agreement, made.plan_set)) == []
    return made


@pytest.mark.parametrize("layout", ["packed", "slots"])
def test_shared_tensors_are_at_one_place_and_activations_overlap(layout: str) -> None:
    made = checked(plan_programs(prepared(layout, prefill=PREFILL, decode=DECODE), SHARED, layout))
    cache, w = made.plan_set.agreement.shared
    assert cache.uses == dict.fromkeys(("prefill", "decode"), SharedUse("cache", "new"))
    assert w.uses == dict.fromkeys(("prefill", "decode"), SharedUse("w", None))
    assert (cache.is_initial, w.is_initial, made.plan_set.layout) == (True, True, layout)
    arenas = {arena.name: arena.bytes for arena in made.plan_set.agreement.arenas}
    alone = plan_programs(prepared(layout, prefill=PREFILL, other=PREFILL), SHARED, layout)
    assert arenas == {arena.name: arena.bytes for arena in alone.plan_set.agreement.arenas}  # decode takes no byte more
    assert all(arenas[name] >= peak for name, peak in made.peaks.items())


def test_a_program_that_only_reads_keeps_what_it_reads() -> None:
    """The caller donates the cache, but nothing is returned in its place: so no result may take its bytes."""
    reader = cache_program([16, 64, 64], changes=False)
    made = checked(plan_programs(prepared(writer=DECODE, reader=reader), SHARED, "packed"))
    assert made.plan_set.agreement.shared[0].uses["reader"] == SharedUse("cache", None)
    assert made.plans["reader"].bindings.donated == ()


def test_a_pair_joins_an_output_and_an_input() -> None:
    encoder = read_model("tensor x u8 8 input\ntensor code u8 32 output\nnode e my::E x -> code")
    decoder = read_model("tensor past u8 32 input\ntensor y u8 40 output\nnode d my::D past -> y")
    wanted = SetOptions(("decoder:past=encoder:code",))
    made = checked(plan_programs(prepared(encoder=encoder, decoder=decoder), wanted, "packed"))
    (code,) = made.plan_set.agreement.shared
    assert (code.is_initial, code.uses) == (
        False, {"encoder": SharedUse(None, "code"), "decoder": SharedUse("past", None)},
    )  # fmt: skip
    initial = plan_programs(prepared(encoder=encoder, decoder=decoder), replace(wanted, initial=("code",)), "packed")
    assert initial.plan_set.agreement.shared[0].is_initial


def test_state_that_is_copied_back_is_an_exit_beside_its_entry() -> None:
    lines = "tensor x u8 8 input\ntensor h u8 16 input donated\ntensor t u8 16\ntensor n u8 16 output\n"
    model = read_model(f"{lines}node a my::F x h -> t\nnode b my::Copy t -> n")
    made = checked(plan_programs(prepared(lstm=model), SetOptions(("lstm:n=lstm:h",)), "packed"))
    (state,) = made.plan_set.agreement.shared
    assert state.uses == {"lstm": SharedUse("h", "n")}
    early = read_model(f"{lines}node a my::F x h -> n\nnode b my::G h -> t")
    with pytest.raises(TmmuError, match="while the bytes of 'h' are in use"):
        plan_programs(prepared(lstm=early), SetOptions(("lstm:n=lstm:h",)), "packed")


def test_state_is_changed_in_place_although_another_operand_could_give_its_bytes() -> None:
    """Of the two operands of a node, that whose hint is later. spec: PS3.10"""
    model = read_model("""tensor x u8 64 input
tensor cache u8 64 input donated
tensor n u8 64
tensor next u8 64 output
node n my::F x -> n
node put my::Put n cache -> next inplace next n inplace next cache""")
    made = checked(plan_programs(prepared(a=model, b=model), SetOptions(("cache",)), "packed"))
    assert made.plan_set.agreement.shared[0].uses["a"] == SharedUse("cache", "next")
    [refused] = made.refused["a"]
    assert (refused.operand, refused.reason) == ("n", "the result shares other bytes already")


def test_the_next_value_of_state_takes_no_bytes_that_are_written_while_the_old_one_is_read() -> None:
    """As of an LSTM, which reads its state while it writes another tensor. spec: PS3.10, PS1.7"""
    model = read_model("""tensor x u8 64 input
tensor h u8 64 input
tensor made u8 64
tensor y u8 16 output
tensor next u8 64 output
node cell my::Cell x h -> made y
node last my::Mask made -> next inplace next made""")
    made = checked(plan_programs(prepared(a=model), SetOptions(("a:h=a:next",)), "packed"))
    [h] = made.plan_set.agreement.shared
    assert (h.uses["a"], h.bytes) == (SharedUse("h", "next"), 64)
    [refused] = made.refused["a"]
    assert (refused.result, "old value is read" in refused.reason) == ("next", True)


def test_a_fixed_offset_in_one_program_holds_in_all() -> None:
    fixed = read_model(
        "tensor x u8 16 input\ntensor w u8 32 parameter\ntensor cache u8 64 input donated at 256\n"
        "tensor new u8 64 output\n"
        "node put my::Put x w cache -> new inplace new cache"
    )
    made = checked(plan_programs(prepared(decode=DECODE, fixed=fixed), SHARED, "packed"))
    assert made.plan_set.agreement.shared[0].offset == 256
    other = read_model("tensor cache u8 64 input at 0\ntensor y u8 8 output\nnode n my::F cache -> y")
    with pytest.raises(TmmuError, match="fixed:cache is fixed at byte 256, other:cache at byte 0"):
        plan_programs(prepared(fixed=fixed, other=other), SetOptions(("cache",)), "packed")


def test_a_program_can_be_added_without_moving_anything() -> None:
    first = plan_programs(prepared(prefill=PREFILL, decode=DECODE), SHARED, "slots")
    more = read_model(
        "tensor cache u8 64 input donated\ntensor v u8 48 parameter\ntensor new u8 64 output\ntensor y u8 300 output\n"
        "node put my::Put cache v -> new inplace new cache\nnode n my::F new -> y"
    )
    made = checked(
        plan_programs(prepared(more=more), SetOptions(("cache",)), "packed", planned=first.plans, known=first.plan_set)
    )
    assert list(made.plans) == ["prefill", "decode", "more"]
    for name, plan in first.plans.items():
        assert replace(made.plans[name], membership=plan.membership) == plan
    assert [one.name for one in made.plan_set.agreement.shared] == ["cache", "w"]
    assert made.plan_set.agreement.digest != first.plan_set.agreement.digest
    with pytest.raises(TmmuError, match="two programs are named 'decode'"):
        plan_programs(prepared(decode=more), SHARED, "packed", planned=first.plans, known=first.plan_set)


OTHER_SIZE = cache_program([16, 16], cache=32)
INPUT_W = read_model("tensor w u8 32 input\ntensor y u8 8 output\nnode n my::F w -> y")


@pytest.mark.parametrize(
    ("share", "other", "words"),
    [
        (("cache",), OTHER_SIZE, "prefill:cache has bytes 64, other:cache has bytes 32"),
        (("kache",), DECODE, "no program has an input, parameter or output of this name"),
        (("new", "cach", "c*h"), OTHER_SIZE, "no program has an input"),
        (("cache",), INPUT_W, "only prefill has it, other lacks it"),
        (("w",), INPUT_W, "different arenas"),
        (("cache", "prefill:cache=other:cache"), DECODE, "one shared tensor already"),
        (("prefill:cache=other:cache", "prefill:x=other:cache"), DECODE, "two entries"),
        (("prefill=other:cache",), DECODE, "expected PROGRAM:NAME"),
        (("prefill:cache=other:cash",), DECODE, "other has no input, parameter or output 'cash'"),
    ],
)
def test_what_cannot_be_shared_is_refused_with_names(share: tuple[str, ...], other: object, words: str) -> None:
    with pytest.raises(TmmuError, match=words):
        plan_programs(prepared(prefill=PREFILL, other=other), SetOptions(share), "packed")  # type: ignore[arg-type]


def test_a_pattern_that_fits_entries_and_exits_shares_each_with_its_own() -> None:
    made = checked(plan_programs(prepared(prefill=PREFILL, decode=DECODE), SetOptions(("cache", "new", "w")), "packed"))
    assert [one.name for one in made.plan_set.agreement.shared] == ["cache", "w"]


def test_unknown_initial_names_layouts_and_arenas_are_refused() -> None:
    both = prepared(prefill=PREFILL, decode=DECODE)
    with pytest.raises(TmmuError, match="--initial kache"):
        plan_programs(both, replace(SHARED, initial=("kache",)), "packed")
    with pytest.raises(TmmuError, match="a set has no layout pools"):
        plan_programs(both, SHARED, "pools")
    arenas = (ArenaConfiguration("all", tuple(Role), 4096, 64),)
    one = both["prefill"]
    other = prepare_model(DECODE, arenas, one.options, one.policy)
    with pytest.raises(TmmuError, match="different arenas"):
        plan_programs({"prefill": one, "decode": other}, SHARED, "packed")


def test_groups_keep_the_names_of_a_set_that_is_extended() -> None:
    ends = [TensorOfProgram(program, "k") for program in "ab"]
    candidates = {"a": ["k", "l"], "b": ["k"], "c": ["k"]}
    assert group_shared(["k"], candidates) == {"k": [*ends, TensorOfProgram("c", "k")]}
    assert list(group_shared(["k"], candidates, known={ends[0]: "keys"})) == ["keys"]
    assert group_shared(["*"], candidates) == group_shared(["k"], candidates)
    assert group_shared([], candidates, [(ends[0], ends[1]), (ends[1], ends[0])]) == {"k": ends}


def test_programs_whose_steps_overlap_are_not_planned_together() -> None:
    """Neither as models nor beside the plans of a set. spec: PS3.9"""
    on_streams = read_model("tensor x u8 8 input\ntensor y u8 8 output\nnode n my::F x -> y on 1")
    with pytest.raises(TmmuError, match="the steps of q run on streams"):
        plan_programs(prepared(p=DECODE, q=on_streams), SetOptions(), "packed")
    made = plan_programs(prepared(p=DECODE, q=PREFILL), SHARED, "packed")
    plans = {"p": made.plans["p"], "q": plan_memory(on_streams).plan}
    with pytest.raises(TmmuError, match="the steps of q run on streams"):
        plan_programs(prepared(r=DECODE), SHARED, "packed", planned=plans, known=made.plan_set)
