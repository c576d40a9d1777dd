"""ExecuTorch programs read as plans: what each instruction touches, and what is refused. spec: FP5.1 to FP5.11"""

from __future__ import annotations

from typing import Any

import pytest

from proofs.readers.plans import executorch
from proofs.readers.plans.foreign_plan import ForeignPlan
from tests.support.flatbuffer_files import FALSE, NUMBER, listed, method, planned, program, unplanned
from tests.support.objections import objections
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.plans import file
from tmmu.plans.columns import PARTS
from tmmu.plans.sections import Plan

RELU, ADD = "aten::relu.out", "aten::add.out"
Call = tuple[Any, ...]


def read(*args: Any, **more: Any) -> ForeignPlan:
    """What is read of a program with one method; it passes the gate."""
    found = executorch.read(Source("p.pte", program(method(*args, **more))))
    file.pass_gate(found.plan, found.reading)
    return found


def wrong(found: ForeignPlan) -> set[str]:
    """What is false in it."""
    assert isinstance(found.plan, Plan)
    return {str(each.obligation) for each in objections(found.plan, None, found.reading.donated)}


def steps(found: ForeignPlan) -> list[tuple[str, list[str], list[str]]]:
    """Operator, reads and writes of each whole step."""
    assert isinstance(found.plan, Plan)
    a = found.plan.allocation
    names = a.tensors.name.list()
    rows = zip(
        a.steps.op.tolist(), a.steps.part.tolist(), a.steps.listed("reads"), a.steps.listed("writes"), strict=True
    )
    return [
        (a.ops[op][1], [names[r] for r in reads], [names[w] for w in writes])
        for op, part, reads, writes in rows
        if PARTS[part].name == "WHOLE"
    ]


def at(*offsets: int) -> list[Any]:
    return [planned(offset) for offset in offsets]


def test_kernels_write_their_last_argument_and_read_the_others() -> None:
    """Lists item by item; numbers, constants and what is left out of them are not in the plan. spec: FP5.3, FP5.11"""
    values = [*at(0, 16, 32, 48), listed(1, 2), NUMBER, unplanned(3)]
    calls = [("aten::split_copy.Tensor_out", 0, 5, 4, 4), ("aten::cat.out", 4, 5, 3, 3), (ADD, 3, 6, 1, 1)]
    found = read(values, calls, [0], [3])
    assert steps(found)[:2] == [
        ("aten::split_copy.Tensor_out", ["value 0"], ["value 1", "value 2"]),
        ("aten::cat.out", ["value 1", "value 2"], ["value 3"]),
    ]
    assert found.reading.outside == {"constants": "they are in the file"}
    assert steps(found)[2] == ("aten::add.out", ["value 3", "value 1"], ["value 1"])


def test_what_is_written_over_what_is_still_read_is_refuted() -> None:
    """spec: FP5.1, FP5.3"""
    calls = [(RELU, 0, 1, 1), (RELU, 1, 2, 2), (ADD, 1, 2, 3, 3)]
    assert wrong(read(at(0, 16, 32, 0), calls, [0], [3])) == set()
    assert "no_live_overlap" in wrong(read(at(0, 16, 24, 0), calls, [0], [3]))
    assert "capacity" in wrong(read(at(0, 16, 32, 0), calls, [0], [3], memories=(0, 40)))
    apart = [planned(0), planned(16), planned(16, memory=2), planned(0)]
    assert wrong(read(apart, calls, [0], [3], memories=(0, 64, 64))) == set()


def test_an_input_that_nothing_reads_is_whole_when_the_method_begins() -> None:
    """The first instruction may write over it, another input may not. spec: FP5.12"""
    calls = [(RELU, 0, 2, 2)]
    assert wrong(read(at(0, 16, 16), calls, [0, 1], [2])) == set()
    assert "no_live_overlap" in wrong(read(at(0, 8, 32), calls, [0, 1], [2]))
    assert "sharing_is_sound" in wrong(read(at(0, 16, 16), calls, [0, 1], [2, 1]))


def test_a_moved_value_is_what_was_moved_to_it() -> None:
    """The bytes that it has itself hold nothing. spec: FP5.4"""
    calls = [(RELU, 0, 1, 1), ("move", 1, 2), (RELU, 0, 3, 3), (ADD, 2, 3, 4, 4)]
    found = read(at(0, 16, 32, 48, 64), calls, [0], [4])
    assert steps(found)[2][1] == ["value 1", "value 3"]
    assert wrong(found) == set()
    assert "no_live_overlap" in wrong(read(at(0, 16, 32, 16, 64), calls, [0], [4]))
    viewed = [(RELU, 0, 1, 1), ("executorch_prim::et_view.default", 1, 0, 2), *calls[2:]]
    assert steps(read(at(0, 16, 32, 48, 64), viewed, [0], [4]))[2][1] == ["value 1", "value 3"]


# Values: 0 flag, 1 x, 2 left, 3 right, 4 result, 5 later, 6 out, 7 the constant False.
COND: list[Call] = [
    ("jump", 0, 4), (RELU, 1, 2, 2), ("move", 2, 4), ("jump", 7, 6), (RELU, 1, 3, 3), ("move", 3, 4),
    (RELU, 1, 5, 5), (ADD, 4, 5, 6, 6),
]  # fmt: skip


def cond(left: int, right: int, later: int) -> ForeignPlan:
    """A cond whose arms make their results at these addresses, and a step behind it that writes at `later`."""
    return read([*at(0, 16, left, right, 144, later, 160), FALSE], COND, [0, 1], [6])


@pytest.mark.parametrize(
    ("left", "right", "later", "is_right"),
    [(32, 32, 64, True), (32, 48, 64, True), (32, 40, 64, True), (32, 96, 64, True), (32, 32, 144, True),
     (32, 32, 32, False), (32, 64, 32, False), (32, 64, 64, False), (32, 64, 72, False), (16, 32, 64, False)],
)  # fmt: skip
def test_the_bytes_of_either_arm_are_kept_while_the_result_is_read(
    left: int, right: int, later: int, is_right: bool
) -> None:
    """Arms use one another's bytes; what comes later uses those of neither. spec: FP5.5, FP5.6"""
    found = cond(left, right, later)
    assert (wrong(found) == set()) is is_right
    assert found.reading.approximations


@pytest.mark.parametrize(("second", "is_right"), [(64, True), (32, False)])
def test_what_an_arm_writes_itself_is_held_to_its_end(second: int, is_right: bool) -> None:
    """Values: 0 False, 1 condition, 2 x, 3 made by the first arm, 4 and 5 results, 6 sum. The second arm writes both
    results without a move. spec: FP5.6
    """
    flag = {0: ("u8", 3), 1: {0: ("u8", 1)}}
    values = [FALSE, flag, planned(0), planned(16), planned(32), planned(second), planned(96)]
    calls: list[Call] = [
        ("jump", 1, 5), (RELU, 2, 3, 3), ("move", 3, 4), ("move", 3, 5), ("jump", 0, 7), (RELU, 2, 4, 4),
        (RELU, 2, 5, 5), (ADD, 4, 5, 6, 6),
    ]  # fmt: skip
    assert (wrong(read(values, calls, [2], [6])) == set()) is is_right


def test_what_was_made_outside_of_the_arms_is_used_as_itself() -> None:
    """spec: FP5.6"""
    calls = [*COND]
    calls[4] = ("free", 3)
    calls[5] = ("move", 1, 4)
    values = [*at(0, 16, 32, 48, 144, 64, 160), FALSE]
    found = read(values, calls, [0, 1], [6])
    assert wrong(found) == set()
    assert steps(found)[-1][1] == ["value 1", "results of 0", "value 5"]
    values[5] = planned(16)
    assert "no_live_overlap" in wrong(read(values, calls, [0, 1], [6]))


def test_the_result_of_a_cond_that_is_not_read_keeps_nothing() -> None:
    """spec: FP5.6"""
    calls = [*COND[:6], (RELU, 1, 5, 5), (ADD, 1, 5, 6, 6)]
    found = read([*at(0, 16, 32, 48, 144, 32, 160), FALSE], calls, [0, 1], [6])
    assert wrong(found) == set()
    assert found.reading.approximations == ()


@pytest.mark.parametrize("before", [[], [(RELU, 1, 8, 8)]])
def test_a_view_of_what_arms_moved_shows_bytes_that_nothing_wrote(before: list[Call]) -> None:
    """ExecuTorch 1.5.1 so compiles a view of a cond's result; what lay there before is not shown. spec: FP5.4, FP5.8"""
    n = len(before)
    moved = [(word, args[0], args[1] + n) if word == "jump" else (word, *args) for word, *args in COND]
    values = [*at(0, 16, 32, 48, 144, 64, 160), FALSE, planned(144), planned(144)]
    calls = [*before, *moved[:6], (ADD, 9, 1, 6, 6)]
    assert "lifetimes_cover_accesses" in wrong(read(values, calls, [0, 1], [6]))


def test_a_cond_in_an_arm_and_an_arm_that_moves_what_it_made() -> None:
    """Values: 0 and 1 flags, 2 x, 3 and 4 of the inner arms, 5 its result, 6 of the outer arm, 7 result. spec: FP5.5"""
    calls = [
        ("jump", 0, 9), ("jump", 1, 5), (RELU, 2, 3, 3), ("move", 3, 5), ("jump", 10, 7), (RELU, 2, 4, 4),
        ("move", 4, 5), ("move", 5, 7), ("jump", 10, 11), (RELU, 2, 6, 6), ("move", 6, 7), (RELU, 2, 8, 8),
        (ADD, 7, 8, 9, 9),
    ]  # fmt: skip
    for offset, is_right in ((128, True), (48, False), (64, False), (80, False)):
        found = read([*at(0, 16, 32, 48, 64, 200, 80, 220, offset, 240), FALSE], calls, [0, 1, 2], [9])
        assert (wrong(found) == set()) is is_right


# Values: 0 xs, 1 out, 2 slice, 3 body, 4 the condition, 5 an index, 6 after.
MAP: list[Call] = [
    ("aten::select_copy.int_out", 0, 5, 5, 2, 2), (RELU, 2, 3, 3), ("executorch_prim::et_copy_index.tensor", 1, 3, 5),
    ("executorch_prim::eq.Scalar", 5, 5, 4), ("jump", 4, 0), (RELU, 1, 6, 6),
]  # fmt: skip


@pytest.mark.parametrize(
    ("out", "piece", "is_right"),
    [(16, 32, True), (16, 0, False), (0, 32, False), (16, 24, False)],
)
def test_a_loop_keeps_what_it_reads_and_fills_over_its_iterations(out: int, piece: int, is_right: bool) -> None:
    """spec: FP5.7"""
    values = [*at(0, out, piece, 48), FALSE, NUMBER, planned(64)]
    found = read(values, MAP, [0], [6])
    assert (wrong(found) == set()) is is_right
    assert "value 1" in found.reading.approximations[0]


def test_a_view_that_was_left_out_shows_what_is_there_where_it_stands() -> None:
    """Value 2 shows value 1; what is written there behind its place is not what it shows. spec: FP5.8"""
    calls = [(RELU, 0, 1, 1), (RELU, 2, 3, 3)]
    found = read(at(0, 16, 16, 32), calls, [0], [3])
    assert steps(found)[1][1] == ["value 1"]
    assert wrong(found) == set()
    assert "value 2" in found.reading.assumptions[1]
    over = [(RELU, 0, 1, 1), (RELU, 0, 3, 3), (ADD, 2, 3, 4, 4)]
    assert "no_live_overlap" in wrong(read(at(0, 16, 16, 16, 48), over, [0], [4]))
    part = [planned(0), planned(16), planned(20, 8), planned(32)]
    assert steps(read(part, calls, [0], [3]))[1][1] == ["value 1"]
    assert "lifetimes_cover_accesses" in wrong(read(at(0, 16, 48, 32), [(RELU, 0, 1, 1), (ADD, 1, 2, 3, 3)], [0], [3]))


def test_a_delegate_writes_what_is_new_among_its_last_arguments() -> None:
    """A view before them is none of these. spec: FP5.3, FP5.11"""
    calls = [(RELU, 0, 1, 1), ("delegate", 0, 2, 3, 4), (ADD, 3, 4, 5, 5)]
    found = read(at(0, 16, 16, 32, 48, 64), calls, [0], [5])
    assert steps(found)[1][1:] == (["value 0", "value 1"], ["value 3", "value 4"])
    assert "delegate Backend" in found.reading.outside
    assert wrong(found) == set()


def test_state_is_the_callers_and_may_be_changed() -> None:
    """By its name, by its content, or as it is read before all results. spec: FP5.10"""
    calls = [("aten::copy_", 1, 0, 5, 1), (ADD, 2, 3, 4, 4), ("aten::copy_", 3, 4, 5, 3)]
    values = [planned(0), planned(16, name="cache"), planned(32, data=1), *at(48, 64), FALSE]
    found = read(values, calls, [0], [4])
    assert found.reading.donated == ("value 1 (cache)", "value 3")
    assert wrong(found) == set()
    values[4] = planned(16)
    assert wrong(read(values, calls, [0], [4]))
    cache = [("llama::update_cache.out", 0, 1, 5, 4, 4)]
    found = read([*values[:4], planned(64), NUMBER], cache, [0], [4])
    assert steps(found)[0][1:] == (["value 0", "value 1 (cache)"], ["value 4", "value 1 (cache)"])


def test_methods_follow_one_another_in_memories_of_their_own() -> None:
    """spec: FP5.1"""
    one = [at(0, 16), [(RELU, 0, 1, 1)], [0], [1]]
    data = program(method(*one, name="prefill"), method(*one, name="decode"))
    found = executorch.read(Source("p.pte", data))
    assert isinstance(found.plan, Plan)
    assert [arena.name for arena in found.plan.allocation.arenas] == ["prefill/memory 1", "decode/memory 1"]
    assert wrong(found) == set()
    assert "each method has separate memory" in found.reading.assumptions


def refused(data: bytes) -> str | None:
    with pytest.raises(TmmuError) as error:
        executorch.read(Source("p.pte", data))
    assert (error.value.code_id, error.value.file) == ("INVALID_PLAN", "p.pte")
    return error.value.place


DEEP: list[Call] = [("jump", 0, 100)] * 100


@pytest.mark.parametrize(
    ("values", "calls", "inputs", "place"),
    [
        (at(0, 16), [(RELU, 0, 2, 2)], [0], "instruction 0"), (at(0, 16), [(RELU, -1, 1, 1)], [0], "instruction 0"),
        (at(0, 16), [("move", 0, 5)], [0], "instruction 0"), (at(0, 16), [], [7], "forward"),
        ([*at(0, 16), listed(9)], [], [0], "value 2"), ([planned(0, kind=9)], [], [0], "value 0"),
        ([planned(0, sizes=[4, -1])], [], [0], "value 0"), ([planned(0, memory=2)], [], [0], "value 0"),
        ([planned(0, memory=0)], [], [0], "value 0"), ([planned(2**64 - 8)], [], [0], "value 0"),
        ([planned(0, sizes=[2**31 - 1] * 9)], [], [0], "value 0"), (at(0), [("jump", 0, 5)], [0], "instruction 0"),
        (at(0, 16), [("jump", 0, 3), ("jump", 0, 4), (RELU, 0, 1, 1), (RELU, 0, 1, 1)], [0], "instruction 1"),
        (at(0, 16), [("jump", 0, 2), (RELU, 0, 1, 1), (RELU, 0, 1, 1), ("jump", 0, 1)], [0], "instruction 3"),
        (at(0), DEEP, [0], "instruction 64"), ([*at(0, 16), listed(0)], [("move", 2, 1)], [0], "value 2"),
        (at(0, 16, 32), [(RELU, 2, 1, 1), ("move", 1, 2), ("jump", 0, 0)], [0], "value 2"),
        ([unplanned(1)], [(RELU, 0, 0)], [], None),
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused_with_its_place(
    values: list[Any], calls: list[Call], inputs: list[int], place: str | None
) -> None:
    """spec: FP2.3, FP5.2, FP5.9"""
    assert refused(program(method(values, calls, inputs, []))) == place


def test_other_bytes_are_refused() -> None:
    """spec: FP2.4, FP5.2"""
    good = program(method(at(0, 16), [(RELU, 0, 1, 1)], [0], [1]))
    assert refused(b"") == "byte 4"
    assert refused(good[:4] + b"ET11" + good[8:]) == "byte 4"
    assert refused(good[:40]) is not None
    assert refused(b"\xff\xff\xff\xff" + good[4:]) is not None
    assert refused(program(method(at(0), [], [0], [], memories=(0, -1)))) == "forward"


def changed(value: Any = None, call: Any = None, table: Any = None) -> bytes:
    """A program of one call, with further fields of its tables."""
    made = dict(method([planned(0), planned(16)], [("aten::k.out", 0, 1, 1)], [0], [1]))
    made[2] = [made[2][0], {**made[2][1], **(value or {}), 1: {**made[2][1][1], **(table or {})}}]
    made[5] = [{2: [{**made[5][0][2][0], **(call or {})}]}]
    return program(made)


@pytest.mark.parametrize(
    "data",
    [
        changed(value={2: ("u32", 1)}), changed(table={10: ("u32", 1)}), changed(table={7: ("i8", 1)}),
        changed(table={8: ("i8", 2)}), changed(table={3: ("u8", [0, 1])}), changed(table={9: {3: ("u8", 1)}}),
        changed(call={2: ("u32", 1)}), changed(call={0: ("u8", 6)}), changed(value={0: ("u8", 12)}),
    ],
)  # fmt: skip
def test_a_program_with_more_than_its_schema_is_refused(data: bytes) -> None:
    """spec: FP5.14"""
    executorch.read(Source("m", changed(table={3: ("u8", [0])})))
    with pytest.raises(TmmuError) as error:
        executorch.read(Source("m", data))
    assert error.value.place


def test_a_jump_leads_to_an_instruction_of_its_own_chain() -> None:
    """spec: FP5.14"""
    condition = {0: ("u8", 3), 1: {0: ("u8", 1)}}
    made = dict(method([planned(0), condition, planned(16)], [("my::k.out", 0, 2), ("jump", 1, 2)], [0], [2]))
    first, jump = made[5][0][2]
    made[5] = [{2: [first]}, {2: [jump, first]}]
    found = executorch.read(Source("m", program(made)))
    assert isinstance(found.plan, Plan)
    assert any("JumpFalseCall" in name for name in found.plan.allocation.steps.node)
    made[5] = [{2: [first, first]}, {2: [{**jump, 1: {0: ("i32", 1), 1: ("i32", 3)}}, first]}]
    with pytest.raises(TmmuError, match="out of its chain"):
        executorch.read(Source("m", program(made)))


@pytest.mark.parametrize(
    ("args", "count"),
    [((0, 1, 1), 0), ((), 1), ((0, 1, 1, 2), 1), ((0, 1), 1), ((0, 1, 3), 0), ((0, 3, 3), 0), ((0, 1, 1, 3), 0)],
)
def test_a_kernel_whose_last_argument_is_none_of_its_results_is_undecided(args: tuple[int, ...], count: int) -> None:
    """spec: FP5.15"""
    values = [planned(0), planned(16), planned(32), listed(1)]
    found = executorch.read(Source("m", program(method(values, [("aten::k.out", *args)], [0], [1]))))
    assert len(found.reading.undecided) == count
