"""XLA's dumps: the assignment, and the flat program that is made of it and the module. spec: FP4.1 to FP4.11, FP4.16

The text of HLO is in `test_foreign_hlo`, what may be in place in `test_foreign_hlo_in_place`.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from proofs.readers.plans import formats, xla
from proofs.verify.checks import Subject, violations
from tests.support import hlo
from tmmu.core import source
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.core.streams import WAIT
from tmmu.plans.gate import StatedPlan

TITLE = "HloModule m, is_scheduled=true"
KINDS = {0: "parameter 0, shape |(u8[4], u8[])| at ShapeIndex {0,1}", 1: "maybe-live-out", 2: "preallocated-temp"}
CHAIN = "main: %p = u8[4]{0} parameter(0); %a = u8[4] negate(%p); %b = u8[4] sine(%a); ROOT %r = u8[4] add(%b, %p)"
PLACES = {"p": (0, 0, 4), "r": (1, 0, 4), "a": (2, 0, 4), "b": (2, 4, 4)}


def refuted(text: str, slices: hlo.Slices, kinds: dict[int, str] | None = None) -> str:
    """What is first found wrong with a dump; empty where nothing is."""
    stated = hlo.flat(text, hlo.assignment(text, slices, kinds or KINDS))
    assert stated.reading is not None
    subject = Subject(stated, None, frozenset(stated.reading.donated))
    return next((found.text for found in violations(subject)), "")


def steps(stated: StatedPlan) -> dict[str, tuple[list[str], list[str]]]:
    """What each step reads and writes, by name."""
    a = stated.plan.allocation
    names = a.tensors.name.list()
    lists = [[[names[t] for t in rows] for rows in a.steps.listed(which)] for which in ("reads", "writes")]
    return dict(zip(a.steps.node, zip(*lists, strict=True), strict=True))


def refusal(text: str, assigned: str = "") -> TmmuError:
    with pytest.raises(TmmuError) as error:
        hlo.flat(text, assigned or hlo.assignment(text, PLACES, KINDS))
    assert error.value.code_id == "INVALID_PLAN"
    return error.value


OTHER = "<0 a @0> (size=4,offset=0): u8[2]"


def test_files_that_are_no_dump_together_are_refused(tmp_path: Path) -> None:
    """spec: FP4.1"""
    text = hlo.module(CHAIN)
    assigned = hlo.assignment(text, PLACES, KINDS)
    assert not refuted(text, PLACES)
    refusal(text.replace("is_scheduled=true", "is_scheduled=false"))
    refusal(text.replace("is_scheduled=true", "num_partitions=1"))
    refusal(text.replace("HloModule", "Module"))
    stale = text.replace("%b =", "%b.1 =").replace("(%b,", "(%b.1,")
    assert "b{} is not in the module" in refusal(stale, assigned).what
    assert "a{} has another shape" in refusal(text, assigned.replace("<0 a @0> (size=4,offset=0): u8[4]", OTHER)).what
    missing = "\n".join(line for line in assigned.split("\n") if " b @0" not in line)
    assert "no slice is assigned to b" in refusal(text, missing).what
    refusal(text.replace("ROOT ", ""))
    refusal(text.removesuffix("}\n"))
    refusal(text + text.partition("\n")[2])
    path = hlo.dump(tmp_path, text, assigned)
    assert formats.load_any(path).plan == hlo.flat(text, assigned).plan
    (tmp_path / "module_0000.m.cpu_after_optimizations.txt").unlink()
    for read in (lambda: formats.load_any(path), lambda: xla.read(Source("-", assigned.encode()))):
        with pytest.raises(TmmuError, match="INVALID_PLAN"):
            read()


ARRAY = ": u8[4]{0}"
LATER = {"<0 b @0>": 1, "allocation 2: size 0": 1, "size 8, color 0, thread-local": 1}
LATER["Total bytes used: 0 (0B)\nUsed values:\n<0 p @0>\n a line"] = 3
"""Edits that are false only beside a line below."""


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("allocation 1", "allocation 0"), ("<0 a @0>", "<0 a @1>"), ("<0 a @0>", "<0 b @0>"), (" value", "value"),
        ("(size=4", "(size=99999999999999999999"), ("BufferAssignment:", "Buffers:"), ("allocation 0", "alloc 0"),
        ("allocation 2: size 8", "allocation 2: size 0"), ("preallocated-temp", "reserved"), (ARRAY, f"{ARRAY} u8[4]"),
        ("preallocated-temp:", "preallocated-temp: x"), ("Total bytes used: 0 (0B)", "Total: 0"),
        ("Total bytes used: 0 (0B)", "Total bytes used: 0 (0B)\nUsed values:\n<0 p @0>\n a line"),
        ("size 8, preallocated-temp", "size 8, color 0, thread-local"), (ARRAY, ":"), (ARRAY, ": u8[5]"),
        ("|(u8[4]", "|(u8[4] u8[4]"), ("|(u8[4], u8[])|", "|u8[4]"),
    ],
)  # fmt: skip
def test_what_is_no_assignment_is_refused_with_its_line(was: str, becomes: str) -> None:
    """spec: FP2.4, FP4.3"""
    module = hlo.module(CHAIN)
    text = hlo.assignment(module, PLACES, KINDS)
    line = text[: text.index(was)].count("\n") + 1
    error = refusal(module, text.replace(was, becomes, 1))
    assert (error.file, error.place) == ("m-buffers", f"line {line + LATER.get(becomes, 0)}")


def test_lists_behind_the_total_repeat_the_module_and_are_passed_over() -> None:
    """Versions 0.4 to 0.8 of jax write them. spec: FP4.12"""
    text = hlo.module(CHAIN)
    assigned = hlo.assignment(text, PLACES, KINDS).rstrip()
    lists = """

Used values:
<0 p @0>
 positions:
  p
  t {0,1}
 uses:
  negate.1, operand 0
  add.2, operand 1 {0}
 from instruction: %p = u8[4]{0} parameter(0)<1 a{0} (phi) @0>

HloLiveRange (max 4):
  InstructionSequence:
    0:p
  BufferLiveRange:
    p{}:0-4
  Live ranges at 1 (peak):
    p{}: 4 bytes (cumulative: 4 bytes)
  Stack trace breakdown for peak usage: 4 bytes
    main.1 (100.0%, total: 4 bytes, current: 0 bytes, remaining: 4 bytes)
"""
    assert hlo.flat(text, assigned + lists).plan == hlo.flat(text, assigned).plan
    large = lists.replace("usage: 4 bytes", "usage: 144 000 004 bytes").replace("total: 4 bytes", "total: 3 072 bytes")
    assert hlo.flat(text, assigned + large).plan == hlo.flat(text, assigned).plan
    refusal(text, f"{assigned}{lists}    q = p\n")
    refusal(text, assigned + lists.replace("usage: 4 bytes", "usage: 4 0 bytes"))


def test_each_allocation_is_an_arena_named_with_its_memory_space() -> None:
    """spec: FP4.3"""
    text = hlo.module(CHAIN)
    assigned = hlo.assignment(text, PLACES, KINDS, {2: 1}).replace("allocation 0: size", "allocation 0: 0x7f5a, size")
    arenas = hlo.flat(text, assigned).plan.allocation.arenas
    assert [(a.name, a.capacity) for a in arenas] == [
        ("allocation 0", 4), ("allocation 1", 4), ("allocation 2 in memory space 1", 8),
    ]  # fmt: skip


def test_a_value_has_the_bytes_of_its_shape_or_of_its_slice() -> None:
    """A slice of half of the bytes is refuted; padding is kept. spec: FP4.3"""
    text = hlo.module(CHAIN)
    assert "capacity" in refuted(text, PLACES | {"b": (2, 4, 2)})
    padded = hlo.flat(text, hlo.assignment(text, PLACES | {"b": (2, 4, 16)}, KINDS)).plan.allocation.tensors
    assert dict(zip(padded.name, padded.bytes.tolist(), strict=True))["b"] == 16


REDUCING = (
    "sum: %s0 = u8[] parameter(0); %s1 = u8[] parameter(1); %s2 = u8[] negate(%s1); ROOT %s3 = u8[] add(%s0, %s2)",
    "main: %p = u8[4]{0} parameter(0); %z = u8[] constant(0); %a = u8[] reduce(%p, %z), dimensions={0}, to_apply=%sum; "
    "ROOT %r = u8[] negate(%a)",
)
OF_THREADS = {"p": (0, 0, 4), "r": (1, 0, 1), "a": (2, 0, 1), "s2": (3, 0, 1), "s3": (3, 1, 1)}


def test_slices_of_threads_are_of_values_in_kernels_and_share_no_byte() -> None:
    """spec: FP4.9, FP4.16"""
    text, kinds = hlo.module(*REDUCING), KINDS | {3: "thread-local"}
    stated = hlo.flat(text, hlo.assignment(text, OF_THREADS, kinds))
    assert stated.reading is not None
    assert stated.reading.outside["thread-local allocations"].startswith("2 values")
    assert stated.reading.undecided == ()
    shared = hlo.flat(text, hlo.assignment(text, OF_THREADS | {"s3": (3, 0, 1)}, kinds)).reading
    assert shared is not None
    assert [each.kind for each in shared.undecided] == ["thread-local allocation"]
    moved = hlo.assignment(text, OF_THREADS | {"a": (3, 2, 1)}, kinds)
    assert "is not a value of a kernel" in refusal(text, moved).what
    beyond = hlo.assignment(text, OF_THREADS, kinds).replace("allocation 3: size 2", "allocation 3: size 1")
    assert "beyond its allocation" in refusal(text, beyond).what


@pytest.mark.parametrize(
    ("offset", "is_right"), [(0, True), (4, True), (1, False), (2, False), (3, False)]
)  # fmt: skip
def test_a_result_takes_the_identical_slice_of_an_operand_and_no_other(offset: int, is_right: bool) -> None:
    """spec: FP4.4"""
    found = refuted(hlo.module(CHAIN), PLACES | {"b": (2, offset, 4)})
    assert (found == "") == is_right
    late = hlo.module(CHAIN.replace("add(%b, %p)", "add(%b, %a)"))
    assert (refuted(late, PLACES | {"b": (2, offset, 4)}) == "") == (offset == 4)


def test_a_fusion_reads_what_is_used_in_it() -> None:
    """spec: FP4.4"""
    fused = "f: %f0 = u8[4] parameter(0); %f1 = u8[4] parameter(1); ROOT %fr = u8[4] {}({})"
    main = CHAIN.replace("sine(%a)", "fusion(%a, %p), kind=kLoop, calls=%f")
    for used, reads in (("%f0", ["a"]), ("%f1", ["p"]), ("%f1, %f0", ["a", "p"])):
        text = hlo.module(fused.format("add", used) if ", " in used else fused.format("negate", used), main)
        stated = hlo.flat(text, hlo.assignment(text, PLACES, KINDS))
        assert steps(stated)["b"] == (reads, ["b"])


def test_what_moves_no_bytes_is_passed_on_and_a_view_where_it_has_a_slice() -> None:
    """spec: FP4.4"""
    text = hlo.module(
        "callee: %q = u8[4] parameter(0); ROOT %n = u8[4] sine(%q)",
        "main: %p = u8[4] parameter(0); %a = u8[4] negate(%p); %t = (u8[4], u8[4]) tuple(%a, %p); "
        "%g = u8[4] get-tuple-element(%t), index=0; %c = u8[4] call(%g), to_apply=%callee; "
        "%u = (u8[4], u8[4]) copy(%t); %h = u8[4] get-tuple-element(%u), index=1; %z = u8[4] bitcast(%c); "
        "ROOT %r = u8[4] add(%z, %h)",
    )
    places = {**PLACES, "n": (2, 4, 4), "t{}": (2, 8, 16), "u{}": (2, 24, 16)}
    del places["b"]
    found = steps(hlo.flat(text, hlo.assignment(text, places, KINDS)))
    assert found["c/n"] == (["a"], ["c/n"])
    assert found["r"] == (["c/n", "p"], ["r"])
    assert (found["g"], found["u"]) == ((["t{}"], []), (["t{}"], ["u{}"]))
    assert refuted(text, places | {"c": (2, 4, 4)}) == ""
    assert "view" in refuted(text, places | {"c": (2, 40, 4)})
    larger = text.replace("%z = u8[4] bitcast", "%z = u8[5] bitcast").replace("add(%z", "add(%h")
    assert "more bytes" in refusal(larger, hlo.assignment(larger, places, KINDS)).what


def test_what_is_started_is_read_and_written_until_it_is_done() -> None:
    """spec: FP4.7"""
    text = hlo.module(
        "wrapped: %w = u8[4] parameter(0); ROOT %v = u8[4] sine(%w)",
        "main: %p = u8[4] parameter(0); %a = u8[4] negate(%p); "
        "%s = ((u8[4]), u8[4], u32[]) async-start(%a), calls=%wrapped; %u = ((u8[4]), u8[4], u32[]) async-update(%s); "
        "%b = u8[4] sine(%p); %d = u8[4] async-done(%u); ROOT %r = u8[4] add(%d, %b)",
    )
    places = {**PLACES, "v": (2, 8, 4), "s{}": (2, 16, 24), "s{0}": (2, 40, 8), "s{2}": (2, 48, 4)}
    stated = hlo.flat(text, hlo.assignment(text, places, KINDS))
    assert refuted(text, places) == ""
    a = stated.plan.allocation
    streams = {node: a.streams[k] for node, k in zip(a.steps.node, a.steps.stream.tolist(), strict=True)}
    assert {name for name, stream in streams.items() if stream == "async/0"} == {"s/v", "s"}
    assert a.ops[a.steps.op[list(a.steps.node).index("d")]] == WAIT
    race = refuted(text, places | {"b": (2, 0, 4)})  # over what is still read
    assert "(s) reads a" in race
    assert "(b) writes b" in race
    assert refuted(text, places | {"b": (2, 8, 4)})  # over what is still written
    before = text.replace("sine(%p)", "sine(%i)").replace("%b =", "%i = u8[4] get-tuple-element(%u), index=1\n  %b =")
    assert "(s) writes s{} and" in refuted(before, places)
    sequential = hlo.flat(hlo.module(CHAIN), hlo.assignment(hlo.module(CHAIN), PLACES, KINDS))
    assert sequential.plan.allocation.streams == ()


def test_operations_that_overlap_are_on_lanes_of_their_own() -> None:
    """A lane is used again once its operation is done. spec: FP4.7, X5.8"""
    started = "%s{0} = (u8[4], u8[4]) all-gather-start(%a), dimensions={{0}}; "
    overlapping = (
        "main: %p = u8[4] parameter(0); %a = u8[4] negate(%p); " + started.format(1) + started.format(2)
        + "%d1 = u8[4] all-gather-done(%s1); %d2 = u8[4] all-gather-done(%s2); " + started.format(3)
        + "%d3 = u8[4] all-gather-done(%s3); %b = u8[4] add(%d1, %d2); ROOT %r = u8[4] add(%d3, %b)"
    )  # fmt: skip
    text = hlo.module(overlapping)
    places = {**PLACES, "b": (2, 16, 4), "s1{1}": (2, 4, 4), "s2{1}": (2, 8, 4), "s3{1}": (2, 12, 4)}
    stated = hlo.flat(text, hlo.assignment(text, places, KINDS))
    assert set(stated.plan.allocation.streams) == {"compute", "async/0", "async/1"}
    assert refuted(text, places) == ""
    assert refuted(text, places | {"s2{1}": (2, 4, 4)})


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("%d = u8[4] all-gather-done(%s)", "%d = u8[4] bitcast(%p)", "s is started and never done"),
        ("(%d, %p)", "(%e, %p)", "e ends what does not start"),
        ("all-gather-done", "all-swap-done", "all-swap-done"),
    ],
)  # fmt: skip
def test_a_start_without_done_and_a_done_without_start_are_refused(old: str, new: str, why: str) -> None:
    """spec: FP4.7"""
    text = hlo.module(
        "main: %p = u8[4] parameter(0); %s = (u8[4], u8[4]) all-gather-start(%p), dimensions={0}; "
        "%d = u8[4] all-gather-done(%s); ROOT %r = u8[4] add(%d, %p)"
    )
    if "%e" in new:
        text = text.replace("  ROOT", "  %e = u8[4] all-gather-done(%s)\n  ROOT")
    wrong = text.replace(old, new)
    assert why in refusal(wrong, hlo.assignment(wrong, {"p": (0, 0, 4), "r": (1, 0, 4), "s{1}": (2, 4, 4)}, KINDS)).what


SUM = "sum: %s0 = u8[] parameter(0); %s1 = u8[] parameter(1); ROOT %s2 = u8[] add(%s0, %s1)"
STARTED = {
    "all-gather": ("(u8[4], u8[4]) all-gather-start(%a), dimensions={0}", {"s{1}": (2, 4, 4)}, "u8[4]"),
    "collective-permute": (
        "(u8[4], u8[4]) collective-permute-start(%a), source_target_pairs={{0,1},{1,0}}", {"s{1}": (2, 4, 4)}, "u8[4]",
    ),
    "all-reduce": ("u8[4] all-reduce-start(%a), to_apply=%sum", {"s": (2, 4, 4)}, "u8[4]"),
    "send": ("(u8[4], u32[], token[]) send(%a, %t), channel_id=1", {"s{1}": (2, 4, 4)}, "token[]"),
    "recv": (
        "(u8[4], u32[], token[]) recv(%t), channel_id=1", {"s{0}": (2, 4, 4), "s{1}": (2, 8, 4)}, "(u8[4], token[])",
    ),
    "dot": (
        "((u8[4], u8[4]), u8[4], u32[]) dot-start(%a, %a), lhs_batch_dims={0}, rhs_batch_dims={0}",
        {"s{0}": (2, 12, 16), "s{1}": (2, 4, 4), "s{2}": (2, 8, 4)}, "u8[4]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("start", STARTED)
def test_collectives_pass_on_what_they_are_given(start: str) -> None:
    """So does any operation that is started by its name. spec: FP4.7"""
    shape, made, done = STARTED[start]
    text = hlo.module(
        SUM, f"main: %p = u8[4] parameter(0); %t = token[] after-all(); %a = u8[4] negate(%p); %s = {shape}; "
        f"%d = {done} {start}-done(%s); ROOT %r = u8[4] negate(%p)",
    )  # fmt: skip
    places = {"p": (0, 0, 4), "r": (1, 0, 4), "a": (2, 0, 4), **made}
    stated = hlo.flat(text, hlo.assignment(text, places, KINDS))
    assert refuted(text, places) == ""
    a = stated.plan.allocation
    waits = dict(zip(a.steps.node, a.steps.listed("after"), strict=True))
    assert waits["d"] == (list(a.steps.node).index("s"),)
    assert ("a" in steps(stated)["s"][0]) == (start != "recv")


def test_what_is_started_in_place_of_its_operand_reads_it_no_more() -> None:
    """spec: FP4.7, FP4.13"""
    start, _, _ = STARTED["all-reduce"]
    text = hlo.module(
        SUM, f"main: %p = u8[4] parameter(0); %a = u8[4] negate(%p); %s = {start}; %d = u8[4] all-reduce-done(%s); "
        "ROOT %r = u8[4] negate(%d)",
    )  # fmt: skip
    places = {"p": (0, 0, 4), "r": (1, 0, 4), "a": (2, 0, 4), "s": (2, 0, 4)}
    assert refuted(text, places) == ""
    assert refuted(text.replace("negate(%d)", "add(%d, %a)"), places)


def test_loops_are_laid_out_with_two_iterations_and_all_that_is_carried_is_read() -> None:
    """spec: FP4.5"""
    text = hlo.module(
        "body: %x = (u8[4], u8[4]) parameter(0); %e = u8[4] get-tuple-element(%x), index=0; "
        "%f = u8[4] get-tuple-element(%x), index=1; %n = u8[4] sine(%e); ROOT %y = (u8[4], u8[4]) tuple(%n, %f)",
        "cond: %c = (u8[4], u8[4]) parameter(0); %i = u8[4] get-tuple-element(%c), index=0; "
        'ROOT %q = pred[] custom-call(%i), custom_call_target="any"',
        "main: %p = u8[4] parameter(0); %a = u8[4] negate(%p); %t = (u8[4], u8[4]) tuple(%a, %p); "
        "%w = (u8[4], u8[4]) while(%t), condition=%cond, body=%body; ROOT %r = u8[4] get-tuple-element(%w), index=0",
    )
    carried = (1, 0, 4)
    places = {
        "p": (0, 0, 4), **dict.fromkeys(("a", "x{0}", "c{0}", "n", "w{0}"), carried), "q": (2, 0, 1),
        **dict.fromkeys(("t{}", "x{}", "y{}", "c{}", "w{}"), (2, 8, 16)),
    }  # fmt: skip
    assert refuted(text, places) == ""
    stated = hlo.flat(text, hlo.assignment(text, places, KINDS))
    found = steps(stated)
    assert sum("sine" in str(stated.plan.allocation.ops[op]) for op in stated.plan.allocation.steps.op) == 2
    for k, was in enumerate(("a", "w[0]/n", "w[1]/n")):
        assert {was, "p", f"w[{k}]/condition/q"} <= set(found[f"w[{k}]/w"][0])
    for moved in ("n", "w{0}", "x{0}", "c{0}"):
        assert refuted(text, places | {moved: (1, 4, 4)}), moved
    changed = text.replace("tuple(%n, %f)", "tuple(%n, %e)")  # the second place has no slice, and is not passed on
    assert "changes in the loop" in refusal(changed, hlo.assignment(changed, places, KINDS)).what
    assert stated.reading is not None
    assert stated.reading.assumptions == (xla.TWO_ITERATIONS, xla.READS_FIRST)


def test_arms_begin_with_what_the_conditional_is_given() -> None:
    """Each arm overwrites its operand after it has read it; what is read after the conditional is in no arm's way.

    spec: FP4.6
    """
    arm = "arm{0}: %x{0} = u8[4] parameter(0); %n{0} = u8[4] sine(%x{0}); ROOT %m{0} = u8[4] sine(%n{0})"
    main = (
        "main: %p = u8[4] parameter(0); %a = u8[4] negate(%p); %b = u8[4] sine(%p); "
        "%k = u8[4] conditional(%b, %a, %a), branch_computations={%arm0, %arm1}; ROOT %r = u8[4] add(%k, %b)"
    )
    text = hlo.module(arm.format(0), arm.format(1), main)
    a, b, other = (2, 0, 4), (2, 4, 4), (2, 8, 4)
    places = {
        **PLACES, "a": a, "b": b, "n0": other, "n1": other, "m0": a, "m1": a, "k": a,
    }  # fmt: skip
    assert refuted(text, places) == ""
    assert refuted(text, places | {"m0": other})
    assert refuted(text, places | {"n0": b})  # b is read after the conditional
    assert refuted(text.replace("(%b, %a, %a)", "(%a, %a, %b)"), places | {"n0": b})  # also where an arm is given it
    assert refuted(text.replace("add(%k, %b)", "add(%k, %a)"), places)
    named = "conditional(%b, %a, %a), true_computation=%arm0, false_computation=%arm1"
    assert refuted(hlo.module(arm.format(0), arm.format(1), main.replace(
        "conditional(%b, %a, %a), branch_computations={%arm0, %arm1}", named)), places) == ""  # fmt: skip
    differ = {name: place for name, place in places.items() if name != "k"}
    assert "differ" in refusal(text, hlo.assignment(text, differ, KINDS)).what


def test_tables_that_hold_the_same_places_may_be_one() -> None:
    """XLA keeps the tables that two arms are given, and return, in the same bytes. spec: FP4.11"""
    arm = "arm{0}: ROOT %x{0} = (u8[4]) parameter(0)"
    main = (
        "main: %p = u8[4] parameter(0); %s = (u8[4]) tuple(%p); %a = u8[4] sine(%p); %t = (u8[4]) tuple({}); "
        "%k = (u8[4]) conditional(%a, %s, %t), branch_computations={{%arm0, %arm1}}; "
        "%g = u8[4] get-tuple-element(%k), index=0; ROOT %r = u8[4] sine(%g)"
    )
    table = (2, 8, 8)
    places = {"p": (0, 0, 4), "a": (2, 0, 4), "r": (1, 0, 4), "s{}": table, "t{}": table, "k{}": table}
    assert refuted(hlo.module(arm.format(0), arm.format(1), main.format("%p")), places) == ""
    differ = hlo.module(arm.format(0), arm.format(1), main.format("%a"))
    assert refuted(differ, places | {"k{0}": (0, 0, 4)})


EQUAL = "%u1 = u8[4] get-tuple-element(%x1), index=0; "


@pytest.mark.parametrize(
    ("makes", "is_right"),
    [
        pytest.param("", True, id="an-equal-one"),
        pytest.param(
            '%w = u8[8] custom-call(%u1), custom_call_target="f"; ', False, id="not-where-other-bytes-came-between"
        ),
        pytest.param("%v = u8[4] sine(%u1); ", False, id="not-one-of-another-place"),
    ],
)
def test_an_arm_may_write_a_table_over_an_equal_one_that_is_read_later(makes: str, is_right: bool) -> None:
    """Two conditionals take the table %s; an arm of the first one writes its bytes. spec: FP4.11"""
    held = "%v" if "%v" in makes else "%u1"
    arms = [f"arm{k}: ROOT %x{k} = (u8[4]) parameter(0)" for k in (0, 2, 3)]
    arms.insert(1, f"arm1: %x1 = (u8[4]) parameter(0); {EQUAL}{makes}ROOT %t = (u8[4]) tuple({held})")
    main = (
        "main: %p = u8[4] parameter(0); %s = (u8[4]) tuple(%p); %o = (u8[4]) tuple(%p); %a = u8[4] sine(%p); "
        "%k = (u8[4]) conditional(%a, %s, %o), branch_computations={%arm0, %arm1}; %g = u8[4] get-tuple-element(%k), "
        "index=0; %m = (u8[4]) conditional(%a, %s, %s), branch_computations={%arm2, %arm3}; "
        "%h = u8[4] get-tuple-element(%m), index=0; ROOT %r = u8[4] add(%g, %h)"
    )
    table = (2, 8, 8)
    places = {"p": (0, 0, 4), "a": (2, 0, 4), "r": (1, 0, 4), "o{}": (2, 16, 8), "w": table, "v": (2, 24, 4)}
    places |= dict.fromkeys(("s{}", "t{}", "k{}", "m{}"), table)
    places = {name: place for name, place in places.items() if name not in ("v", "w") or f"%{name} " in makes}
    if held == "%v":  # both arms return in one place
        arms[0] = "arm0: %x0 = (u8[4]) parameter(0); %u0 = u8[4] get-tuple-element(%x0), index=0; "
        arms[0] += "%c = u8[4] sine(%u0); ROOT %d = (u8[4]) tuple(%c)"
        places |= {"c": (2, 24, 4), "d{}": table, "k{0}": (2, 24, 4)}
        apart = places | dict.fromkeys(("t{}", "d{}", "k{}"), (2, 32, 8))
        assert not refuted(hlo.module(*arms, main), apart)
    assert bool(refuted(hlo.module(*arms, main), places)) is not is_right


def test_what_the_caller_gave_up_may_be_overwritten_and_nothing_else_of_it() -> None:
    """spec: FP4.8, FP1.10"""
    places = PLACES | {"a": (0, 0, 4)}
    chain = CHAIN.replace("add(%b, %p)", "sine(%b)")
    assert refuted(hlo.module(chain), places)
    donor = hlo.module(chain, title=", buffer_donor={ (0, {}) }")
    assert refuted(donor, places) == ""
    constant = chain.replace("negate(%p)", "negate(%k)").replace("%a =", "%k = u8[4] constant({1,2,3,4}); %a =")
    assert refuted(hlo.module(constant), PLACES | {"k": (3, 0, 4)}, KINDS | {3: "constant"}) == ""
    assert refuted(hlo.module(constant), PLACES | {"k": (3, 0, 4), "a": (3, 0, 4)}, KINDS | {3: "constant"})


def test_constants_that_a_kernel_reads_have_bytes_of_their_own() -> None:
    """spec: FP4.8"""
    kernel = (
        "f: %f0 = u8[4] parameter(0); %k = u8[4] constant({1, 1, 1, 1}); %l = u8[4] constant({...}); "
        "ROOT %f = u8[4] add(%k, %l)"
    )
    text = hlo.module(kernel, CHAIN.replace("sine(%a)", "fusion(%a), kind=kLoop, calls=%f"))
    constants = {"k": (3, 0, 4), "l": (3, 4, 4)}
    assert refuted(text, PLACES | constants, KINDS | {3: "constant"}) == ""
    assert refuted(text, PLACES | constants | {"l": (3, 2, 4)}, KINDS | {3: "constant"})


def test_a_constant_without_a_buffer_is_passed_on_and_never_returned() -> None:
    """spec: FP4.9"""
    chain = (
        "main: %p = u8[4]{0} parameter(0); %k = u8[4] constant({1, 2, 3, 4}); %a = u8[4] bitcast(%k); ROOT %r = u8[4] "
    )
    places = {"p": (0, 0, 4), "r": (1, 0, 4)}
    assert refuted(hlo.module(f"{chain}sine(%a)"), places) == ""
    text = hlo.module(f"{chain}bitcast(%a)")
    for slices in ({"p": (0, 0, 4)}, places):
        refusal(text, hlo.assignment(text, slices, KINDS))


def test_what_is_outside_of_the_plan_is_listed_with_its_number() -> None:
    """spec: FP4.9"""
    fused = "f: %f0 = u8[4] parameter(0); %f1 = u8[] parameter(1); ROOT %z = u8[4] broadcast(%f1), dimensions={}"
    main = CHAIN.replace("%a =", "%k = u8[] constant(1); %a =").replace(
        "add(%b, %p)", "fusion(%b, %k), calls=%f, kind=k"
    )
    text = hlo.module(fused, main)
    stated = hlo.flat(text, hlo.assignment(text, PLACES | {"z": (2, 0, 1)}, KINDS))
    assert stated.reading is not None
    assert stated.reading.outside["values that no step of the entry makes"] == "1 of them"
    assert "constants without a buffer" in stated.reading.outside


def test_results_are_read_at_the_end_where_the_caller_looks_for_them() -> None:
    """spec: FP4.10"""
    assert refuted(hlo.module(CHAIN), PLACES, KINDS | {1: "preallocated-temp"})
    alias = hlo.module(CHAIN, title=", input_output_alias={ {}: (0, {}, may-alias) }")
    assert refuted(alias, PLACES)
    in_place = alias.replace("add(%b, %p)", "sine(%b)")
    assert refuted(in_place, PLACES | {"r": (0, 0, 4)}) == ""
    unread = hlo.module(
        "main: %p = u8[4] parameter(0); ROOT %r = u8[4] iota(), iota_dimension=0", title=", buffer_donor={ (0, {}) }"
    )
    assert refuted(unread, {"p": (0, 0, 4), "r": (0, 0, 4)}, {0: "parameter 0, maybe-live-out"}) == ""
    for missing in ("{1}: (0, {})", "{}: (7, {})"):
        refusal(hlo.module(CHAIN, title=f", input_output_alias={{ {missing} }}"))


def test_an_alias_of_what_has_no_bytes_states_nothing() -> None:
    """An empty array is given up for an empty result. spec: FP4.10"""
    body = "main: %p = u8[4] parameter(0); %z = u8[0] parameter(1); %r = u8[4] sine(%p); "
    body += "ROOT %t = (u8[4], u8[0]) tuple(%r, %z)"
    places = {"p": (0, 0, 4), "r": (1, 0, 4), "t": (2, 0, 16)}
    kinds = {0: "parameter 0", 1: "maybe-live-out", 2: "maybe-live-out"}
    for index, is_right in (("{1}: (1, {})", True), ("{1}: (0, {})", False), ("{1}: (7, {})", False)):
        text = hlo.module(body, title=f", input_output_alias={{ {index} }}")
        if is_right:
            assert refuted(text, places, kinds) == ""
        else:
            refusal(text, hlo.assignment(text, places, kinds))


def test_what_nests_and_repeats_without_end_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty loops in each other would be laid out as 3^40 conditions. spec: FP2.1, FP2.2"""
    monkeypatch.setattr(source, "MAX_ROWS", 5_000)
    bodies = ["b0: %p0 = u8[4] parameter(0); ROOT %r0 = u8[4] bitcast(%p0)"] + [
        f"b{k}: %p{k} = u8[4] parameter(0); ROOT %w{k} = u8[4] while(%p{k}), condition=%c, body=%b{j}"
        for j, k in pairwise(range(40))
    ]
    condition = 'c: %pc = u8[4] parameter(0); ROOT %q = pred[] custom-call(%pc), custom_call_target="any"'
    main = "main: %p = u8[4] parameter(0); ROOT %w = u8[4] while(%p), condition=%c, body=%b39"
    text = hlo.module(condition, *bodies, main)
    assigned = hlo.assignment(text, {"p": (0, 0, 4), "q": (2, 0, 1)}, KINDS)
    assert "tensors and steps" in refusal(text, assigned).what
    monkeypatch.setattr(source, "MAX_WORK", 2_000)
    assert "visits" in refusal(text, assigned).what
