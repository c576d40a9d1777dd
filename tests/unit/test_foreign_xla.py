"""XLA's dumps: HLO as text, the assignment, and the flat program that is made of both. spec: FP4.1 to FP4.10"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from proofs.readers.plans import formats, xla
from proofs.readers.plans.hlo import PIECE, Leaf
from proofs.verify.checks import Subject, violations
from tests.support import hlo
from tmmu.core import source
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.plans.gate import Stated

TITLE = "HloModule m, is_scheduled=true"
KINDS = {0: "parameter 0, shape |u8[4], u8| at ShapeIndex {}", 1: "maybe-live-out", 2: "preallocated-temp"}
CHAIN = "main: %p = u8[4]{0} parameter(0); %a = u8[4] negate(%p); %b = u8[4] sine(%a); ROOT %r = u8[4] add(%b, %p)"
PLACES = {"p": (0, 0, 4), "r": (1, 0, 4), "a": (2, 0, 4), "b": (2, 4, 4)}


def refuted(text: str, slices: hlo.Slices, kinds: dict[int, str] | None = None) -> str:
    """What is first found wrong with a dump; empty where nothing is."""
    stated = hlo.flat(text, hlo.assignment(slices, kinds or KINDS))
    assert stated.reading is not None
    subject = Subject(stated, None, frozenset(stated.reading.donated))
    return next((found.text for found in violations(subject)), "")


def steps(stated: Stated) -> dict[str, tuple[list[str], list[str]]]:
    """What each step reads and writes, by name."""
    a = stated.plan.allocation
    names = a.tensors.name.list()
    lists = [[[names[t] for t in rows] for rows in a.steps.listed(which)] for which in ("reads", "writes")]
    return dict(zip(a.steps.node, zip(*lists, strict=True), strict=True))


def refusal(text: str, assigned: str = "") -> TmmuError:
    with pytest.raises(TmmuError) as error:
        hlo.flat(text, assigned or hlo.assignment(PLACES, KINDS))
    assert error.value.code_id == "INVALID_PLAN"
    return error.value


@pytest.mark.parametrize(
    ("shape", "leaves"),
    [
        ("f32[]", [Leaf((), "f32", 4)]), ("f32[2,3]{1,0}", [Leaf((), "f32", 24)]), ("pred[0,7]", [Leaf((), "pred", 0)]),
        ("s4[5]{0:E(4)}", [Leaf((), "s4", 3)]), ("s4[5]{0}", [Leaf((), "s4", 5)]),
        ("bf16[<=8,4]{1,0:T(8,128)(2,1)S(1)}", [Leaf((), "bf16", 64)]), ("()", [Leaf((), "", 0)]),
        ("(f32[2], /*index=1*/(token[], u8[3]))", [
            Leaf((), "", 0), Leaf((0,), "f32", 8), Leaf((1,), "", 0), Leaf((1, 0), "token", 0), Leaf((1, 1), "u8", 3),
        ]),
    ],
)  # fmt: skip
def test_a_shape_is_its_arrays_and_tables_with_their_bytes(shape: str, leaves: list[Leaf]) -> None:
    """spec: FP4.2, FP4.3"""
    (module,) = hlo.parsed(hlo.module(f"main: ROOT %x = {shape} op()")).computations.values()
    assert list(module.instructions[0].shape) == leaves


def test_of_an_instruction_what_names_things_is_read_and_no_text() -> None:
    """spec: FP4.2"""
    line = (
        'ROOT %w = u8[4] while(u8[4]{0} %p), condition=%c, metadata={op_name="a{, body=%x" n={1,{2}}}, body=%b.1-2, '
        'backend_config="body=%y, condition=%z"'
    )
    module = hlo.parsed(hlo.module(f"main: %p = u8[4] parameter(0); {line}"))
    each = module.computations["main"].instructions[1]
    assert (each.operands, each.called) == (("p",), {"condition": ("c",), "body": ("b.1-2",)})
    text = hlo.module("main: %t = (u8[1], u8[1]) parameter(0); ROOT %g = u8[1] get-tuple-element(t), index=1")
    each = hlo.parsed(text).computations["main"].instructions[1]
    assert (each.operands, each.number) == (("t",), 1)
    title = ", input_output_alias={ {}: (0, {}, may-alias), {1,2}: (3, {4}) }, buffer_donor={ (5, {}) }"
    module = hlo.parsed(hlo.module(CHAIN, title=title))
    expected = {(): (0, ()), (1, 2): (3, (4,))}
    assert (module.donated, module.aliased) == ([(0, ()), (3, (4,)), (5, ())], expected)
    behind = ", buffer_donor={ (5, {}) }, other={ (6, {}) }, input_output_alias={ {}: (0, {}) }, { {7}: (7, {}) }"
    module = hlo.parsed(hlo.module(CHAIN, title=behind).replace("\n}", "\n\n}"))  # and a blank line
    assert (module.donated, module.aliased) == ([(0, ()), (5, ())], {(): (0, ())})


@pytest.mark.parametrize(
    ("line", "at"),
    [
        ("%a = u8[4] negate(%p", 5), ("%a u8[4] negate(%p)", 5), ("%a = u9[4] negate(%p)", 5),
        ("%a = u8[x] negate(%p)", 5), ("%a = u8[9999999999,9999999999999] negate(%p)", 5),
        (f"%a = u8[{'9' * 5000}] negate(%p)", 5), ("%a = (u8[4] f(%p)", 5),
        ("%a = /* u8[4] negate(%p)", 5), ("%a = negate(%p)", 5), ("%p = u8[4] negate(%p)", 5),
        ("ROOT %a = u8[4] negate(%p)", 6), ("%a = u8[4] 9(%p)", 5), ("%a = u8[4] negate(%q)", 5),
        ("%a = u8[4] call(%p), to_apply=%none", 5), ("%a = u8[4] call(%p)", 5), ("%a = u8[4] copy-done(%p)", 5),
        ("%a = u8[4] copy-start(%p)", 6), ("%a = u8[4] get-tuple-element(%p, %p), index=0", 5),
        ("%a = u8[4] conditional(%p, %p), branch_computations={%main, %main}", 5),
        (f"%a = {'(' * 70}u8[4]{')' * 70} negate(%p)", 5), ("%a = u8[4] call(%p), to_apply=%main", None),
    ],
)  # fmt: skip
def test_what_is_no_module_is_refused_with_its_line(line: str, at: int | None) -> None:
    """spec: FP2.3, FP2.4"""
    text = hlo.module(f"main: %p = u8[4] parameter(0); {line}; ROOT %r = u8[4] negate(%p)")
    error = refusal(text)
    assert (error.file, error.place) == ("m.txt", error.place if at is None else f"line {at}"), error


def test_files_that_are_no_dump_together_are_refused(tmp_path: Path) -> None:
    """spec: FP4.1"""
    text, assigned = hlo.module(CHAIN), hlo.assignment(PLACES, KINDS)
    assert not refuted(text, PLACES)
    refusal(text.replace("is_scheduled=true", "is_scheduled=false"))
    refusal(text.replace("HloModule", "Module"))
    refusal(text.replace("%b =", "%b.1 =").replace("(%b,", "(%b.1,"))  # stale: b.1 has no slice
    refusal(text.replace("ROOT ", ""))
    refusal(text.removesuffix("}\n"))
    refusal(text + text.partition("\n")[2])
    path = hlo.dump(tmp_path, text, assigned)
    assert formats.load_any(path).plan == hlo.flat(text, assigned).plan
    (tmp_path / "module_0000.m.cpu_after_optimizations.txt").unlink()
    for read in (lambda: formats.load_any(path), lambda: xla.read(Source("-", assigned.encode()))):
        with pytest.raises(TmmuError, match="INVALID_PLAN"):
            read()


LATER = ("<0 b @0>", "allocation 2: size 0")
"""Edits that are false only beside the next line."""


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("allocation 1", "allocation 0"), ("<0 a @0>", "<0 a @1>"), ("<0 a @0>", "<0 b @0>"), (" value", "value"),
        ("(size=4", "(size=99999999999999999999"), ("BufferAssignment:", "Buffers:"), ("allocation 0", "alloc 0"),
        ("allocation 2: size 8", "allocation 2: size 0"),
    ],
)  # fmt: skip
def test_what_is_no_assignment_is_refused_with_its_line(was: str, becomes: str) -> None:
    """spec: FP2.4, FP4.3"""
    text = hlo.assignment(PLACES, KINDS)
    line = text[: text.index(was)].count("\n") + 1
    error = refusal(hlo.module(CHAIN), text.replace(was, becomes, 1))
    assert (error.file, error.place) == ("m-buffers", f"line {line + (becomes in LATER)}")


def test_each_allocation_is_an_arena_named_with_its_memory_space() -> None:
    """spec: FP4.3"""
    assigned = hlo.assignment(PLACES | {"a": (3, 0, 4)}, KINDS | {3: "thread-local"}, {2: 1})
    error = refusal(hlo.module(CHAIN), assigned)  # what a kernel owns is no slice of the module's
    assert "no slice is assigned to a" in error.what
    assigned = hlo.assignment(PLACES, KINDS, {2: 1}).replace("allocation 0: size", "allocation 0: 0x7f5a, size")
    arenas = hlo.flat(hlo.module(CHAIN), assigned).plan.allocation.arenas
    assert [(a.name, a.capacity) for a in arenas] == [
        ("allocation 0", 4), ("allocation 1", 4), ("allocation 2 in memory space 1", 8),
    ]  # fmt: skip


def test_a_value_has_the_bytes_of_its_shape_or_of_its_slice() -> None:
    """A slice of half of the bytes is refuted; padding is kept. spec: FP4.3"""
    assert "capacity" in refuted(hlo.module(CHAIN), PLACES | {"b": (2, 4, 2)})
    padded = hlo.flat(hlo.module(CHAIN), hlo.assignment(PLACES | {"b": (2, 4, 16)}, KINDS)).plan.allocation.tensors
    assert dict(zip(padded.name, padded.bytes.tolist(), strict=True))["b"] == 16


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
    fused = "f: %f0 = u8[4] parameter(0); %f1 = u8[4] parameter(1); ROOT %fr = u8[4] negate({})"
    main = CHAIN.replace("sine(%a)", "fusion(%a, %p), kind=kLoop, calls=%f")
    for used, reads in (("%f0", ["a"]), ("%f1", ["p"]), ("%f1, %f0", ["a", "p"])):
        stated = hlo.flat(hlo.module(fused.format(used), main), hlo.assignment(PLACES, KINDS))
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
    places = PLACES | {"n": (2, 4, 4), "t{}": (2, 8, 16), "u{}": (2, 24, 16)}
    found = steps(hlo.flat(text, hlo.assignment(places, KINDS)))
    assert found["c/n"] == (["a"], ["c/n"])
    assert found["r"] == (["c/n", "p"], ["r"])
    assert (found["g"], found["u"]) == ((["t{}"], []), (["t{}"], ["u{}"]))
    assert refuted(text, places | {"c": (2, 4, 4)}) == ""
    assert "view" in refuted(text, places | {"c": (2, 40, 4)})


def test_what_is_started_is_read_and_written_until_it_is_done() -> None:
    """spec: FP4.7"""
    text = hlo.module(
        "wrapped: %w = u8[4] parameter(0); ROOT %v = u8[4] sine(%w)",
        "main: %p = u8[4] parameter(0); %a = u8[4] negate(%p); "
        "%s = ((u8[4]), u8[4], u32[]) async-start(%a), calls=%wrapped; %u = ((u8[4]), u8[4], u32[]) async-update(%s); "
        "%b = u8[4] sine(%p); %d = u8[4] async-done(%u); ROOT %r = u8[4] add(%d, %b)",
    )
    places = {**PLACES, "v": (2, 8, 4), "s{}": (2, 16, 24), "s{0}": (2, 40, 8), "s{2}": (2, 48, 4)}
    stated = hlo.flat(text, hlo.assignment(places, KINDS))
    assert refuted(text, places) == ""
    reads, writes = steps(stated)["d"]
    assert {"a", "s/v"} <= set(reads)
    assert "s/v" in writes
    assert stated.reading is not None
    assert len(stated.reading.approximations) == 1
    assert refuted(text, places | {"b": (2, 0, 4)})  # over what is still read
    assert refuted(text, places | {"b": (2, 8, 4)})  # over what is still written


@pytest.mark.parametrize("start", ["all-gather", "collective-permute", "all-reduce", "send", "recv"])
def test_collectives_pass_on_what_they_are_given(start: str) -> None:
    """spec: FP4.7"""
    both = f"(u8[4], u8[4]) {start}-start(%a)"
    shape, made, done = {
        "all-reduce": (f"u8[4] {start}-start(%a)", {"s": (2, 4, 4)}, "u8[4]"),
        "send": ("(u8[4], u32[], token[]) send(%a)", {"s{1}": (2, 4, 4)}, "token[]"),
        "recv": ("(u8[4], u32[], token[]) recv(%a)", {"s{0}": (2, 4, 4), "s{1}": (2, 8, 4)}, "(u8[4], token[])"),
    }.get(start, (both, {"s{1}": (2, 4, 4)}, "u8[4]"))
    name = start if start in xla.STARTS else f"{start}"
    text = hlo.module(
        f"main: %p = u8[4] parameter(0); %a = u8[4] negate(%p); %s = {shape}; %d = {done} {name}-done(%s); "
        "ROOT %r = u8[4] negate(%p)"
    )
    places = {"p": (0, 0, 4), "r": (1, 0, 4), "a": (2, 0, 4), **made}
    stated = hlo.flat(text, hlo.assignment(places, KINDS))
    assert refuted(text, places) == ""
    assert "a" in steps(stated)["d"][0]


def test_loops_are_laid_out_with_two_iterations_and_all_that_is_carried_is_read() -> None:
    """spec: FP4.5"""
    text = hlo.module(
        "body: %x = (u8[4], u8[4]) parameter(0); %e = u8[4] get-tuple-element(%x), index=0; "
        "%f = u8[4] get-tuple-element(%x), index=1; %n = u8[4] sine(%e); ROOT %y = (u8[4], u8[4]) tuple(%n, %f)",
        "cond: %c = (u8[4], u8[4]) parameter(0); %i = u8[4] get-tuple-element(%c), index=0; ROOT %q = pred[] any(%i)",
        "main: %p = u8[4] parameter(0); %a = u8[4] negate(%p); %t = (u8[4], u8[4]) tuple(%a, %p); "
        "%w = (u8[4], u8[4]) while(%t), condition=%cond, body=%body; ROOT %r = u8[4] get-tuple-element(%w), index=0",
    )
    carried = (1, 0, 4)
    places = {
        "p": (0, 0, 4), **dict.fromkeys(("a", "x{0}", "c{0}", "n", "w{0}"), carried), "q": (2, 0, 1),
        **dict.fromkeys(("t{}", "x{}", "y{}", "c{}", "w{}"), (2, 8, 16)),
    }  # fmt: skip
    assert refuted(text, places) == ""
    stated = hlo.flat(text, hlo.assignment(places, KINDS))
    found = steps(stated)
    assert sum("sine" in str(stated.plan.allocation.ops[op]) for op in stated.plan.allocation.steps.op) == 2
    for k, was in enumerate(("a", "w[0]/n", "w[1]/n")):
        assert {was, "p", f"w[{k}]/condition/q"} <= set(found[f"w[{k}]/w"][0])
    for moved in ("n", "w{0}", "x{0}", "c{0}"):
        assert refuted(text, places | {moved: (1, 4, 4)}), moved
    changed = text.replace("tuple(%n, %f)", "tuple(%n, %e)")  # the second place has no slice, and is not passed on
    assert "changes in the loop" in refusal(changed, hlo.assignment(places, KINDS)).what
    assert stated.reading is not None
    assert len(stated.reading.assumptions) == 1


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
    assert "differ" in refusal(text, hlo.assignment(differ, KINDS)).what


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
        pytest.param("%w = u8[8] sine(%u1); ", False, id="not-where-other-bytes-came-between"),
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
    constant = chain.replace("negate(%p)", "negate(%k)").replace("%a =", "%k = u8[4] constant({1,2}); %a =")
    assert refuted(hlo.module(constant), PLACES | {"k": (3, 0, 4)}, KINDS | {3: "constant"}) == ""
    assert refuted(hlo.module(constant), PLACES | {"k": (3, 0, 4), "a": (3, 0, 4)}, KINDS | {3: "constant"})


def test_constants_that_a_kernel_reads_have_bytes_of_their_own() -> None:
    """spec: FP4.8"""
    kernel = (
        "f: %f0 = u8[4] parameter(0); %k = u8[4] constant({1}); %l = u8[4] constant({2}); ROOT %f = u8[4] g(%k, %l)"
    )
    text = hlo.module(kernel, CHAIN.replace("sine(%a)", "fusion(%a), kind=kLoop, calls=%f"))
    constants = {"k": (3, 0, 4), "l": (3, 4, 4)}
    assert refuted(text, PLACES | constants, KINDS | {3: "constant"}) == ""
    assert refuted(text, PLACES | constants | {"l": (3, 2, 4)}, KINDS | {3: "constant"})


def test_a_constant_without_a_buffer_is_passed_on_and_never_returned() -> None:
    """spec: FP4.9"""
    chain = "main: %p = u8[4]{0} parameter(0); %k = u8[4] constant({1}); %a = u8[4] bitcast(%k); ROOT %r = u8[4] "
    places = {"p": (0, 0, 4), "r": (1, 0, 4)}
    assert refuted(hlo.module(f"{chain}sine(%a)"), places) == ""
    for root, slices in (("bitcast(%a)", {"p": (0, 0, 4)}), ("bitcast(%a)", places)):
        refusal(hlo.module(chain + root), hlo.assignment(slices, KINDS))


def test_what_is_outside_of_the_plan_is_listed_with_its_number() -> None:
    """spec: FP4.9"""
    text = hlo.module(CHAIN.replace("%a =", "%k = u8[] constant(1); %a =").replace("(%b, %p)", "(%b, %p, %k)"))
    places = PLACES | {"x": (3, 0, 4), "y": (3, 4, 4), "z": (2, 0, 1)}
    stated = hlo.flat(text, hlo.assignment(places, KINDS | {3: "thread-local"}))
    assert stated.reading is not None
    outside = stated.reading.outside
    assert outside["thread-local allocations"].startswith("2 values")
    assert outside["values that no step of the entry makes"] == "1 of them"
    assert "constants without a buffer" in outside


def test_results_are_read_at_the_end_where_the_caller_looks_for_them() -> None:
    """spec: FP4.10"""
    assert refuted(hlo.module(CHAIN), PLACES, KINDS | {1: "preallocated-temp"})
    alias = hlo.module(CHAIN, title=", input_output_alias={ {}: (0, {}, may-alias) }")
    assert refuted(alias, PLACES)
    in_place = alias.replace("add(%b, %p)", "sine(%b)")
    assert refuted(in_place, PLACES | {"r": (0, 0, 4)}) == ""
    unread = hlo.module("main: %p = u8[4] parameter(0); ROOT %r = u8[4] iota()", title=", buffer_donor={ (0, {}) }")
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
            refusal(text, hlo.assignment(places, kinds))


def test_what_nests_and_repeats_without_end_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty loops in each other would be laid out as 3^40 conditions. spec: FP2.1, FP2.2"""
    monkeypatch.setattr(source, "MAX_ROWS", 5_000)
    bodies = ["b0: %p0 = u8[4] parameter(0); ROOT %r0 = u8[4] bitcast(%p0)"] + [
        f"b{k}: %p{k} = u8[4] parameter(0); ROOT %w{k} = u8[4] while(%p{k}), condition=%c, body=%b{j}"
        for j, k in pairwise(range(40))
    ]
    condition = "c: %pc = u8[4] parameter(0); ROOT %q = pred[] any(%pc)"
    main = "main: %p = u8[4] parameter(0); ROOT %w = u8[4] while(%p), condition=%c, body=%b39"
    assigned = hlo.assignment({"p": (0, 0, 4), "q": (2, 0, 1)}, KINDS)
    assert "tensors and steps" in refusal(hlo.module(condition, *bodies, main), assigned).what
    monkeypatch.setattr(source, "MAX_WORK", 2_000)
    assert "visits" in refusal(hlo.module(condition, *bodies, main), assigned).what


def test_a_quote_that_does_not_end_is_read_once() -> None:
    """Not from each quote in it anew. spec: FP2.2"""
    assert [piece[0] for piece in PIECE.finditer('a="b\\"c\nd" {"e')] == ["a=", '"b\\"c\nd"', " ", "{", '"e']
    assert len(list(PIECE.finditer('"' + '\\"' * 50_000))) == 1
