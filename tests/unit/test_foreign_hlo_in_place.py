"""Which results of HLO may be written over an operand: by the elements that each reads. spec: FP4.13, FP4.14, FP4.15"""

from __future__ import annotations

import pytest

from proofs.readers.plans import hlo_in_place, xla
from proofs.readers.plans.hlo_in_place import InPlace
from proofs.readers.plans.hlo_index import MAX_NESTED, MAX_TERMS, IndexVariable, Linear, as_linear, is_large, quotient
from proofs.verify.checks import Subject, violations
from tests.support import hlo
from tmmu.core.source import Source

SUM = "sum: %s.a = f32[] parameter(0); %s.b = f32[] parameter(1); ROOT %s.c = f32[] add(%s.a, %s.b)"
LESS = (
    "less: %l.a = f32[] parameter(0); %l.b = f32[] parameter(1); ROOT %l.c = pred[] compare(%l.a, %l.b), direction=LT"
)
NEG = "neg: %g.a = f32[] parameter(0); ROOT %g.b = f32[] negate(%g.a)"
NOTHING = "nothing: ROOT %n.a = f32[] constant(0)"
TWICE = "twice: %t.a = f32[4,4] parameter(0); ROOT %t.b = f32[4,4] add(%t.a, %t.a)"
TURNED = "turned: %u.a = f32[4,4] parameter(0); ROOT %u.b = f32[4,4] reverse(%u.a), dimensions={0}"
MATRIX = "f32[4,4]"
ALLOWED, DENIED, UNDECIDED = "in place", "denied", "undecided"
PLACED = {"p": (0, 0, 64), "i": (3, 0, 4), "j": (4, 0, 4), "v": (5, 0, 8), "a": (2, 0, 64), "r": (1, 0, 64)}
KINDS = {
    **{k: f"parameter {n}, shape |f32[]| at ShapeIndex {{}}" for n, k in enumerate((0, 3, 4, 5))},
    1: "maybe-live-out", 2: "preallocated-temp", 6: "maybe-live-out",
}  # fmt: skip
GIVEN = "%p = f32[4,4] parameter(0); %i = s32[] parameter(1); %j = s32[] parameter(2); %v = s32[2] parameter(3)"


def decided(text: str, slices: hlo.Slices) -> tuple[str, str]:
    """What is decided of the result in the bytes of %a, and why."""
    stated = hlo.flat(text, hlo.assignment(text, slices, KINDS))
    reading = stated.reading
    assert reading is not None
    false = [found.text for found in violations(Subject(stated))]
    assert (false != []) == (reading.denied != {}), false
    if reading.denied:
        (why,) = reading.denied.values()
        return DENIED, next(text for text in false if text.endswith(why))
    assert (xla.READS_FIRST in reading.assumptions) or reading.undecided or "custom-call" in text or "sort" in text
    return (UNDECIDED, reading.undecided[0].text) if reading.undecided else (ALLOWED, "")


def fused(body: str, result: str = MATRIX, of: str = MATRIX) -> tuple[str, str]:
    """What is decided of a fusion of %a, two numbers and two in a vector, in place of %a."""
    parameters = f"%x = {of} parameter(0); %n = s32[] parameter(1); %m = s32[] parameter(2); %w = s32[2] parameter(3); "
    inner = f"f: {parameters}{body}"
    main = (
        f"main: {GIVEN}; %a = {of} custom-call(%p), custom_call_target=\"f\"; "
        f"%b = {result} fusion(%a, %i, %j, %v), kind=kLoop, calls=%f; ROOT %r = f32[4,4] custom-call(%b), "
        "custom_call_target=\"f\""
    )  # fmt: skip
    text = hlo.module(SUM, LESS, NEG, TWICE, TURNED, NOTHING, inner, main)
    return decided(text, PLACED | {"b": (2, 0, 64)})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # By element.
        ("ROOT %y = f32[4,4] exponential(%x)", ALLOWED),
        ("%k = f32[4,4] add(%x, %x); ROOT %y = f32[4,4] multiply(%k, %x)", ALLOWED),
        ("%z = f32[] constant(1); ROOT %y = f32[4,4] clamp(%z, %x, %z)", ALLOWED),
        ("%c = pred[4,4] compare(%x, %x), direction=LT; ROOT %y = f32[4,4] select(%c, %x, %x)", ALLOWED),
        ("%c = f16[4,4] convert(%x); ROOT %y = f32[4,4] convert(%c)", ALLOWED),
        ("%c = s32[4,4] bitcast-convert(%x); ROOT %y = f32[4,4] bitcast-convert(%c)", ALLOWED),
        ("ROOT %y = f32[4,4] iota(), iota_dimension=0", ALLOWED),
        ("ROOT %y = f32[4,4] map(%x), dimensions={0,1}, to_apply=%neg", ALLOWED),
        ("ROOT %y = f32[4,4] opt-barrier(%x)", ALLOWED),
        ("%t = (f32[4,4], s32[]) tuple(%x, %n); ROOT %y = f32[4,4] get-tuple-element(%t), index=0", ALLOWED),
        ("%q = f32[4,4] multiply(%x, %x); ROOT %y = f32[4,4] reduce-precision(%q), exponent_bits=5, mantissa_bits=3",
         ALLOWED),
        # Moved and moved back.
        ("%q = f32[16] reshape(%x); %h = f32[16] negate(%q); ROOT %y = f32[4,4] reshape(%h)", ALLOWED),
        ("%q = f32[2,8] reshape(%x); %h = f32[8,2] reshape(%q); ROOT %y = f32[4,4] reshape(%h)", ALLOWED),
        ("%q = f32[1,4,2,2] bitcast(%x); ROOT %y = f32[4,4] bitcast(%q)", ALLOWED),
        ("%q = f32[4,4]{0,1} bitcast(%x); %h = f32[4,4]{0,1} negate(%q); ROOT %y = f32[4,4] bitcast(%h)", ALLOWED),
        ("%q = f32[4,4]{0,1} copy(%x); %h = f32[4,4]{0,1} negate(%q); ROOT %y = f32[4,4] copy(%h)", ALLOWED),
        ("%q = f32[4,4] transpose(%x), dimensions={1,0}; ROOT %y = f32[4,4] transpose(%q), dimensions={1,0}", ALLOWED),
        ("%q = f32[4,4] reverse(%x), dimensions={1}; ROOT %y = f32[4,4] reverse(%q), dimensions={1}", ALLOWED),
        ("%q = f32[4,1,4] reshape(%x); %h = f32[4,4,4] broadcast(%x), dimensions={0,2}; "
         "%g = f32[4,1,4] slice(%h), slice={[0:4], [2:3], [0:4]}; ROOT %y = f32[4,4] reshape(%g)", ALLOWED),
        ("%q = f32[2,4] slice(%x), slice={[0:2], [0:4]}; %h = f32[2,4] slice(%x), slice={[2:4], [0:4]}; "
         "ROOT %y = f32[4,4] concatenate(%q, %h), dimensions={0}", ALLOWED),
        ("%z = f32[] constant(0); %q = f32[3,4] slice(%x), slice={[1:4], [0:4]}; "
         "ROOT %y = f32[4,4] pad(%q, %z), padding=1_0x0_0", ALLOWED),
        ("%z = f32[] constant(0); %q = f32[2,4] slice(%x), slice={[0:4:2], [0:4]}; "
         "ROOT %y = f32[4,4] pad(%q, %z), padding=0_1_1x0_0", ALLOWED),
        ("%z = f32[] constant(0); %q = f32[5,4] pad(%x, %z), padding=1_0x0_0; "
         "ROOT %y = f32[4,4] pad(%q, %z), padding=-1_0x0_0", ALLOWED),
        ("%z = f32[] constant(0); %q = f32[4,4,1] reshape(%x); "
         "ROOT %y = f32[4,4] reduce(%q, %z), dimensions={2}, to_apply=%sum", ALLOWED),
        ("%z = f32[] constant(0); ROOT %y = f32[4,4] reduce-window(%x, %z), window={size=1x1}, to_apply=%sum", ALLOWED),
        # Of another operand, anything.
        ("%q = f32[2,2] broadcast(%n), dimensions={}; %h = f32[4] reshape(%q); "
         "%g = f32[4,4] broadcast(%h), dimensions={0}; ROOT %y = f32[4,4] add(%x, %g)", ALLOWED),
        # Moved elsewhere.
        ("ROOT %y = f32[4,4] reverse(%x), dimensions={0}", DENIED),
        ("ROOT %y = f32[4,4] transpose(%x), dimensions={1,0}", DENIED),
        ("%q = f32[4,4]{0,1} copy(%x); ROOT %y = f32[4,4] bitcast(%q)", DENIED),
        ("%q = f32[4,4]{0,1} bitcast(%x); ROOT %y = f32[4,4] add(%x, %q)", DENIED),
        ("%q = f32[3,4] slice(%x), slice={[1:4], [0:4]}; %h = f32[1,4] slice(%x), slice={[0:1], [0:4]}; "
         "ROOT %y = f32[4,4] concatenate(%q, %h), dimensions={0}", DENIED),
        ("%z = f32[] constant(0); %q = f32[3,4] slice(%x), slice={[0:3], [0:4]}; "
         "ROOT %y = f32[4,4] pad(%q, %z), padding=1_0x0_0", DENIED),
        ("%h = f32[16] reshape(%x); %q = f32[4] slice(%h), slice={[0:4]}; "
         "ROOT %y = f32[4,4] broadcast(%q), dimensions={0}", DENIED),
        ("%z = f32[] constant(0); %q = f32[4] reduce(%x, %z), dimensions={0}, to_apply=%sum; "
         "ROOT %y = f32[4,4] broadcast(%q), dimensions={1}", DENIED),
        ("%z = f32[] constant(0); "
         "ROOT %y = f32[4,4] reduce-window(%x, %z), window={size=4x1 pad=3_0x0_0}, to_apply=%sum", UNDECIDED),
        ("%z = f32[] constant(0); %q = f32[7,4] pad(%x, %z), padding=3_0x0_0; "
         "ROOT %y = f32[4,4] reduce-window(%q, %z), window={size=4x1}, to_apply=%sum", UNDECIDED),
        ("ROOT %y = f32[4,4] dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}", DENIED),
        ("%h = f32[4,4,4] dot(%x, %x), lhs_batch_dims={0}, rhs_batch_dims={0}; %g = f32[16,4] reshape(%h); "
         "ROOT %y = f32[4,4] slice(%g), slice={[0:4], [0:4]}", DENIED),
        # At the place that is written, for a sum that may be there already.
        ("%z = f32[] constant(0); %q = f32[4,4,2] broadcast(%x), dimensions={0,1}; "
         "ROOT %y = f32[4,4] reduce(%q, %z), dimensions={2}, to_apply=%sum", UNDECIDED),
        ("%q = f32[4,4,2] broadcast(%x), dimensions={0,1}; %h = f32[2] iota(), iota_dimension=0; "
         "ROOT %y = f32[4,4] dot(%q, %h), lhs_contracting_dims={2}, rhs_contracting_dims={0}", UNDECIDED),
        ("%z = f32[] constant(0); %q = f32[4,4,2] broadcast(%x), dimensions={0,1}; %h = f32[4,8] reshape(%q); "
         "ROOT %y = f32[4,4] reduce-window(%h, %z), window={size=1x2 stride=1x2}, to_apply=%sum", UNDECIDED),
        ("%q = f32[2,8] reshape(%x); %h = f32[2,8] reverse(%q), dimensions={1}; "
         "ROOT %y = f32[4,4] reshape(%h)", DENIED),
        # Windows.
        ("%k = s32[] constant(1); %z = s32[] constant(0); %q = f32[2,4] slice(%x), slice={[1:3], [0:4]}; "
         "ROOT %y = f32[4,4] dynamic-update-slice(%x, %q, %k, %z)", ALLOWED),
        ("%k = s32[] constant(9); %z = s32[] constant(-5); %q = f32[2,4] slice(%x), slice={[2:4], [0:4]}; "
         "ROOT %y = f32[4,4] dynamic-update-slice(%x, %q, %k, %z)", ALLOWED),
        ("%k = s32[] constant(1); %z = s32[] constant(0); %q = f32[3,4] slice(%x), slice={[0:3], [0:4]}; "
         "ROOT %y = f32[4,4] dynamic-update-slice(%x, %q, %k, %z)", DENIED),
        ("%k = s32[] constant(0); %q = f32[1,4] slice(%x), slice={[2:3], [0:4]}; "
         "ROOT %y = f32[4,4] dynamic-update-slice(%x, %q, %k, %k)", UNDECIDED),  # it reads what nothing changes
        ("%q = f32[1,4] dynamic-slice(%x, %n, %m), dynamic_slice_sizes={1,4}; %h = f32[1,4] negate(%q); "
         "ROOT %y = f32[4,4] dynamic-update-slice(%x, %h, %n, %m)", ALLOWED),
        ("%q = f32[1,4] dynamic-slice(%x, %n, %m), dynamic_slice_sizes={1,4}; %h = f32[4] bitcast(%q); "
         "%e = f32[4] negate(%h); %g = f32[1,4] bitcast(%e); "
         "ROOT %y = f32[4,4] dynamic-update-slice(%x, %g, %n, %m)", ALLOWED),
        ("%q = f32[2,2] dynamic-slice(%x, %n, %m), dynamic_slice_sizes={2,2}; %h = f32[4] reshape(%q); "
         "%e = f32[2,2] reshape(%h); ROOT %y = f32[4,4] dynamic-update-slice(%x, %e, %n, %m)", ALLOWED),
        ("%q = f32[2,2] dynamic-slice(%x, %m, %n), dynamic_slice_sizes={2,2}; "
         "ROOT %y = f32[4,4] dynamic-update-slice(%x, %q, %n, %m)", UNDECIDED),
        ("%q = f32[1,4] dynamic-slice(%x, %m, %n), dynamic_slice_sizes={1,4}; "
         "ROOT %y = f32[4,4] dynamic-update-slice(%x, %q, %n, %m)", UNDECIDED),
        ("%o = s32[] constant(1); %k = s32[] add(%n, %o); %l = s32[] constant(1); %e = s32[] add(%n, %l); "
         "%q = f32[1,4] dynamic-slice(%x, %k, %m), dynamic_slice_sizes={1,4}; "
         "ROOT %y = f32[4,4] dynamic-update-slice(%x, %q, %e, %m)", ALLOWED),  # the same numbers, worked out twice
        ("%o = s32[] constant(1); %k = s32[] add(%n, %o); "
         "%q = f32[1,4] dynamic-slice(%x, %k, %m), dynamic_slice_sizes={1,4}; "
         "ROOT %y = f32[4,4] dynamic-update-slice(%x, %q, %n, %m)", UNDECIDED),
        ("%o = s32[] constant(1); %k = s32[] add(%n, %o); %e = s32[] subtract(%n, %o); "
         "%q = f32[1,4] dynamic-slice(%x, %k, %m), dynamic_slice_sizes={1,4}; "
         "ROOT %y = f32[4,4] dynamic-update-slice(%x, %q, %e, %m)", UNDECIDED),
        ("%q = f32[2,4] dynamic-slice(%x, %n, %m), dynamic_slice_sizes={2,4}; %h = f32[1,4] slice(%q), "
         "slice={[0:1], [0:4]}; ROOT %y = f32[4,4] dynamic-update-slice(%x, %h, %n, %m)", UNDECIDED),  # clamps differ
        ("%q = f32[2,2] dynamic-slice(%x, %w), dynamic_slice_sizes={2,2}; "
         "ROOT %y = f32[4,4] dynamic-update-slice(%x, %q, %w)", ALLOWED),
        ("%q = f32[1,1] slice(%x), slice={[0:1], [0:1]}; %h = f32[] reshape(%q); %e = s32[] convert(%h); "
         "%g = f32[1,4] iota(), iota_dimension=0; ROOT %y = f32[4,4] dynamic-update-slice(%x, %g, %e, %n)",
         UNDECIDED),  # where the window is, is in it
        ("%q = f32[4,4] dynamic-slice(%x, %n, %m), dynamic_slice_sizes={4,4}; ROOT %y = f32[4,4] negate(%q)", ALLOWED),
        # What the data choose.
        ("%q = s32[4,1] iota(), iota_dimension=0; ROOT %y = f32[4,4] gather(%x, %q), offset_dims={1}, "
         "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}", UNDECIDED),
        ("%q = s32[4,1] iota(), iota_dimension=0; %u = f32[4,4] iota(), iota_dimension=0; "
         "ROOT %y = f32[4,4] scatter(%x, %q, %u), update_window_dims={1}, inserted_window_dims={0}, "
         "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum", ALLOWED),
        ("%q = s32[4,1] iota(), iota_dimension=0; ROOT %y = f32[4,4] scatter(%x, %q, %x), update_window_dims={1}, "
         "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum", UNDECIDED),
        ("%t = f32[4,4] transpose(%x), dimensions={1,0}; %c = pred[4,4] compare(%x, %x), direction=LT; "
         "ROOT %y = f32[4,4] select(%c, %t, %x)", UNDECIDED),
        # Of what no rule says enough.
        ("%z = f32[] constant(0); %h = f32[2,4] slice(%x), slice={[0:2], [0:4]}; "
         "%q = f32[2,4] sort(%h), dimensions={0}, to_apply=%less; "
         "ROOT %y = f32[4,4] pad(%q, %z), padding=0_2x0_0", UNDECIDED),
        ("ROOT %y = f32[4,4] cholesky(%x), lower=true", UNDECIDED),
        ('ROOT %y = f32[4,4] custom-call(%x), custom_call_target="f"', UNDECIDED),
        ("%c = f16[8,4] bitcast(%x); ROOT %y = f32[4,4] bitcast(%c)", UNDECIDED),
        ("%c = f16[4,4,2] bitcast-convert(%x); ROOT %y = f32[4,4] bitcast-convert(%c)", UNDECIDED),
        ("ROOT %y = f32[4,4] broadcast(%x), dimensions={0}", UNDECIDED),  # shapes that do not fit
        ("ROOT %y = f32[4,4] add(%x, %w)", UNDECIDED),
        # Computations in computations.
        ("ROOT %y = f32[4,4] fusion(%x), kind=kLoop, calls=%twice", ALLOWED),
        ("ROOT %y = f32[4,4] fusion(%x), kind=kLoop, calls=%turned", DENIED),
        ("ROOT %y = f32[4,4] call(%x), to_apply=%twice", ALLOWED),
        ("ROOT %y = f32[4,4] call(%x), to_apply=%turned", DENIED),
        ("%q = f32[4,4] fusion(%x), kind=kLoop, calls=%turned; "
         "ROOT %y = f32[4,4] fusion(%q), kind=kLoop, calls=%turned", ALLOWED),
    ],
)  # fmt: skip
def test_a_fusion_may_write_over_an_operand_that_it_reads_at_that_element(body: str, expected: str) -> None:
    """spec: FP4.13, FP4.14, FP4.15"""
    found, why = fused(body)
    assert found == expected, why


def test_a_witness_is_two_elements_and_the_instruction_between_them() -> None:
    """spec: FP4.15"""
    body = "%k = s32[] constant(1); %z = s32[] constant(0); %q = f32[3,4] slice(%x), slice={[0:3], [0:4]}; "
    _, why = fused(f"{body}ROOT %y = f32[4,4] dynamic-update-slice(%x, %q, %k, %z)")
    assert "writes b over a, which it reads" in why
    assert "element 15 of b is computed from element 11 of a, by %q (line" in why
    assert "element 11 of b is written over that" in why
    _, why = fused("%q = f32[1,4] dynamic-slice(%x, %m, %n), dynamic_slice_sizes={1,4}; "
                   "ROOT %y = f32[4,4] dynamic-update-slice(%x, %q, %n, %m)")  # fmt: skip
    assert why.startswith("b is in the bytes of a, and %q (line")
    assert why.endswith("reads a at elements that are not shown to be the ones that are written then")


def plain(line: str, places: hlo.Slices | None = None, given: str = "") -> tuple[str, str]:
    """What is decided of an instruction %b by itself, in place of %a unless it is elsewhere."""
    main = (
        f'main: {GIVEN}; %a = f32[4,4] custom-call(%p), custom_call_target="f"; {given}%b = {line}; '
        'ROOT %r = f32[4,4] custom-call(%b), custom_call_target="f"'
    )
    return decided(hlo.module(SUM, LESS, NEG, TWICE, TURNED, main), PLACED | {"b": (2, 0, 64)} | (places or {}))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("f32[4,4] negate(%a)", ALLOWED), ("f32[4,4] add(%a, %a)", ALLOWED), ("f32[4,4] copy(%a)", ALLOWED),
        ("f32[4,4]{0,1} copy(%a)", DENIED), ("f32[4,4] transpose(%a), dimensions={1,0}", DENIED),
        ("f32[4,4] dot(%a, %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}", DENIED),
        ("f32[4,4] dynamic-update-slice(%a, %p, %i, %j)", ALLOWED),
        ("f32[4,4] dynamic-update-slice(%p, %a, %i, %j)", ALLOWED),  # an update of the whole is the whole
        ("f32[4,4] dynamic-update-slice(%a, %a, %i, %j)", ALLOWED),
        ("f32[4,4] dynamic-slice(%a, %i, %j), dynamic_slice_sizes={4,4}", ALLOWED),
        ("f32[4,4] sort(%a), dimensions={0}, to_apply=%less", ALLOWED),
        ("f32[4,4] cholesky(%a), lower=true", UNDECIDED),
        ("f32[4,4] triangular-solve(%p, %a), left_side=true, lower=true, unit_diagonal=false, "
         "transpose_a=NO_TRANSPOSE", ALLOWED),
        ("f32[4,4] triangular-solve(%a, %a), left_side=true, lower=true, unit_diagonal=false, "
         "transpose_a=NO_TRANSPOSE", UNDECIDED),
        ("f32[4,4] triangular-solve(%a, %p), left_side=true, lower=true, unit_diagonal=false, "
         "transpose_a=NO_TRANSPOSE", UNDECIDED),
        ("f32[4,4] all-reduce(%a), to_apply=%sum", ALLOWED),
        ("f32[4,4] all-to-all(%a), dimensions={0}", UNDECIDED),
        ("f32[4,4] collective-permute(%a), source_target_pairs={{0,1}}", UNDECIDED),
        ("f32[4,4] collective-permute(%p, %a, %i, %i), source_target_pairs={{0,1}}", ALLOWED),
        ("f32[4,4] collective-permute(%a, %p, %i, %i), source_target_pairs={{0,1}}", UNDECIDED),
        ('f32[4,4] custom-call(%a), custom_call_target="f"', UNDECIDED),
        ('f32[4,4] custom-call(%a), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}', ALLOWED),
        ('f32[4,4] custom-call(%p, %a), custom_call_target="f", output_to_operand_aliasing={{}: (1, {})}', ALLOWED),
        ('f32[4,4] custom-call(%p, %a), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}', UNDECIDED),
        ('f32[4,4] custom-call(%a, %a), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}', UNDECIDED),
        ('f32[4,4] fusion(%a), kind=kLoop, calls=%turned, output_to_operand_aliasing={{}: (0, {})}', DENIED),
    ],
)  # fmt: skip
def test_an_instruction_may_write_over_an_operand_by_its_row_or_its_word(line: str, expected: str) -> None:
    """A custom call states what it updates; a fusion is followed, whatever it states. spec: FP4.13, FP4.15"""
    found, why = plain(line)
    assert found == expected, why


def test_what_is_taken_in_two_ways_is_read_in_both() -> None:
    """A view in the operand's bytes, or the operand twice, is the operand too. spec: FP4.13"""
    view = "%w = f32[4,4]{0,1} bitcast(%a); "
    pair = "pair: %e = f32[4,4] parameter(0); %h = {} parameter(1); ROOT %y = f32[4,4] add(%e, %h)"
    for second, shape, expected in (("%a", MATRIX, ALLOWED), ("%w", "f32[4,4]{0,1}", DENIED)):
        main = (
            f'main: {GIVEN}; %a = f32[4,4] custom-call(%p), custom_call_target="f"; {view}'
            f"%b = f32[4,4] fusion(%a, {second}), kind=kLoop, calls=%pair; "
            'ROOT %r = f32[4,4] custom-call(%b), custom_call_target="f"'
        )
        text = hlo.module(pair.format(shape), main)
        assert decided(text, PLACED | {"b": (2, 0, 64)})[0] == expected


TWO = "{}: %x = f32[4,4] parameter(0); {}; ROOT %t = (f32[4,4], {}) tuple(%y, %h)"


@pytest.mark.parametrize(
    ("body", "second", "expected"),
    [
        ("%y = f32[4,4] negate(%x); %h = f32[4,4] add(%x, %y)", MATRIX, ALLOWED),
        ("%y = f32[4,4] negate(%x); %h = f32[4,4] reverse(%x), dimensions={0}", MATRIX, DENIED),
        ("%y = f32[4,4] negate(%x); %h = f32[4,4]{0,1} copy(%x)", "f32[4,4]{0,1}", UNDECIDED),
        ("%y = f32[4,4] negate(%x); %h = f32[16] reshape(%x)", "f32[16]", UNDECIDED),
        ("%y = f32[4,4] negate(%x); %z = f32[] constant(0); %h = f32[4] reduce(%x, %z), dimensions={0}, to_apply=%sum",
         "f32[4]", UNDECIDED),
        ("%y = f32[4,4] negate(%x); %h = f32[4] iota(), iota_dimension=0", "f32[4]", ALLOWED),
        ("%y = f32[4,4] iota(), iota_dimension=0; %h = f32[4,4] reverse(%x), dimensions={0}", MATRIX, DENIED),
        ("%y = f32[4,4] copy(%x); %h = f32[4,4] reverse(%x), dimensions={0}", MATRIX, UNDECIDED),  # nothing changes
    ],
)  # fmt: skip
def test_other_results_of_a_kernel_read_the_operand_at_the_same_index(body: str, second: str, expected: str) -> None:
    """spec: FP4.13, FP4.14"""
    main = (
        f'main: {GIVEN}; %a = f32[4,4] custom-call(%p), custom_call_target="f"; '
        f"%b = (f32[4,4], {second}) fusion(%a), kind=kLoop, calls=%two; %g = f32[4,4] get-tuple-element(%b), index=0; "
        'ROOT %r = f32[4,4] custom-call(%g), custom_call_target="f"'
    )
    text = hlo.module(SUM, TWO.format("two", body, second), main)
    found, why = decided(text, PLACED | {"b{}": (2, 64, 16), "b{0}": (2, 0, 64), "b{1}": (2, 128, 64)})
    assert found == expected, why


@pytest.mark.parametrize(
    ("of", "body", "expected"),
    [
        ("f32[4,4]{1,0:T(2,2)}", "ROOT %y = f32[4,4]{1,0:T(2,2)} negate(%x)", ALLOWED),
        ("f32[4,4]{1,0:T(2,2)}", "ROOT %y = f32[4,4]{1,0} negate(%x)", UNDECIDED),
        ("f32[4,4]{1,0:T(2,2)}", "ROOT %y = f32[4,4]{1,0:T(4,4)} negate(%x)", UNDECIDED),
        ("f32[4,4]{1,0:T(2,2)}", "%q = f32[16]{0:T(4)} bitcast(%x); ROOT %y = f32[4,4]{1,0:T(2,2)} bitcast(%q)",
         UNDECIDED),
        ("f32[4,4]{1,0:T(2,2)}", "%q = f32[16]{0} bitcast(%x); ROOT %y = f32[4,4]{1,0:T(2,2)} bitcast(%q)", UNDECIDED),
        ("f32[4,4]{1,0}", "ROOT %y = f32[4,4]{1,0:T(2,2)} negate(%x)", UNDECIDED),
        ("f32[4,4]{1,0}", "%q = f32[16]{0:T(4)} bitcast(%x); ROOT %y = f32[4,4] bitcast(%q)", UNDECIDED),
        ("f32[4,4]{1,0}", "ROOT %y = f32[2,8] reshape(%x)", ALLOWED),
        ("f32[4,4]{1,0}", "ROOT %y = f32[16] bitcast(%x)", ALLOWED),
        ("f32[4,4]{0,1}", "ROOT %y = f32[4,4]{0,1} reverse(%x), dimensions={0}", DENIED),
        ("f32[4,4]{0,1}", "ROOT %y = f32[4,4]{1,0} negate(%x)", DENIED),
        ("f32[4,4]{1,0:T(2,2)}", "ROOT %y = f32[4,4]{1,0:T(2,2)} reverse(%x), dimensions={0}", UNDECIDED),
    ],
)  # fmt: skip
def test_places_in_memory_are_those_of_the_layout(of: str, body: str, expected: str) -> None:
    """In tiles an element is at its place only if nothing of the shape differs. spec: FP4.14"""
    result = body.partition("ROOT %y = ")[2].partition(" ")[0]
    found, why = fused(body, result, of)
    assert found == expected, why


def test_elements_of_another_width_are_elsewhere() -> None:
    """Padding may give two arrays one size. spec: FP4.13"""
    text = hlo.module(
        f"main: {GIVEN}; %a = f32[4,4] negate(%p); %b = f16[4,4] convert(%a); "
        'ROOT %r = f32[4,4] custom-call(%b), custom_call_target="f"'
    )
    stated = hlo.flat(text, hlo.assignment(text, PLACED | {"b": (2, 0, 64)}, KINDS))
    assert stated.reading is not None
    assert "32 bits, and 16 are written" in stated.reading.undecided[0].text
    assert "differ in width" in next(iter(violations(Subject(stated)))).text


def test_a_kernel_makes_the_layout_that_its_result_has() -> None:
    """A fusion whose root has another layout than it is not followed. spec: FP4.14"""
    found, _ = fused("ROOT %y = f32[4,4]{0,1} negate(%x)", "f32[4,4]{1,0}")
    assert found == UNDECIDED
    given = "given: %x = f32[4,4]{0,1} parameter(0); ROOT %y = f32[4,4] negate(%x)"
    main = (
        f'main: {GIVEN}; %a = f32[4,4] custom-call(%p), custom_call_target="f"; '
        '%b = f32[4,4] fusion(%a), kind=kLoop, calls=%given; ROOT %r = f32[4,4] custom-call(%b), custom_call_target="f"'
    )
    assert decided(hlo.module(given, main), PLACED | {"b": (2, 0, 64)})[0] == UNDECIDED


def test_parts_of_a_tuple_are_operands_by_their_place_in_it() -> None:
    """spec: FP4.13"""
    inner = (
        "f: %x = (f32[4,4], f32[4,4]) parameter(0); %e = f32[4,4] get-tuple-element(%x), index=0; "
        "%h = f32[4,4] get-tuple-element(%x), index={}; %g = f32[4,4] reverse(%h), dimensions={{0}}; "
        "ROOT %y = f32[4,4] add(%e, %g)"
    )
    for k, expected in ((1, ALLOWED), (0, DENIED)):
        main = (
            f'main: {GIVEN}; %a = f32[4,4] custom-call(%p), custom_call_target="f"; '
            '%c = f32[4,4] custom-call(%p), custom_call_target="f"; %t = (f32[4,4], f32[4,4]) tuple(%a, %c); '
            "%b = f32[4,4] fusion(%t), kind=kLoop, calls=%f; "
            'ROOT %r = f32[4,4] custom-call(%b), custom_call_target="f"'
        )
        text = hlo.module(inner.format(k), main)
        assert decided(text, PLACED | {"b": (2, 0, 64), "c": (2, 64, 64), "t{}": (2, 128, 16)})[0] == expected


def test_a_result_in_the_bytes_of_a_table_of_pointers_is_not_decided() -> None:
    """A kernel may read the table of a tuple at any time. spec: FP4.13"""
    inner = (
        "f: %x = (u8[8], u8[8]) parameter(0); %e = u8[8] get-tuple-element(%x), index=0; "
        "%h = u8[8] get-tuple-element(%x), index=1; ROOT %y = u8[16] concatenate(%e, %h), dimensions={0}"
    )
    main = (
        f'main: {GIVEN}; %a = u8[8] custom-call(%p), custom_call_target="f"; '
        '%c = u8[8] custom-call(%p), custom_call_target="f"; %t = (u8[8], u8[8]) tuple(%a, %c); '
        '%b = u8[16] fusion(%t), kind=kLoop, calls=%f; ROOT %r = f32[4,4] custom-call(%b), custom_call_target="f"'
    )
    slices = PLACED | {"b": (2, 0, 16), "t{}": (2, 0, 16), "a": (2, 64, 8), "c": (2, 128, 8)}
    found, why = decided(hlo.module(inner, main), slices)
    assert (found, "the table of a tuple" in why) == (UNDECIDED, True)


def test_what_is_followed_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of windows double the states; beyond the bound any element counts as read. spec: FP2.2, FP4.14"""
    body = "%n0 = f32[4,4] negate(%x)"
    for k in range(30):
        body += f"; %c{k} = f32[8,4] concatenate(%n{k}, %n{k}), dimensions={{0}}"
        body += f"; %n{k + 1} = f32[4,4] slice(%c{k}), slice={{[2:6], [0:4]}}"
    found, _ = fused(f"{body}; ROOT %y = f32[4,4] negate(%n30)")
    assert found != ALLOWED
    monkeypatch.setattr(hlo_in_place, "MAX_STATES", 3)
    assert fused("%c = f32[4,4] negate(%x); ROOT %y = f32[4,4] negate(%c)")[0] == ALLOWED
    assert fused("%c = f32[4,4] negate(%x); %e = f32[4,4] negate(%c); ROOT %y = f32[4,4] add(%c, %e)")[0] == UNDECIDED


def test_indices_that_nest_without_end_are_given_up() -> None:
    """spec: FP4.14"""
    body, last = "", "%x"
    for k in range(MAX_NESTED + 4):
        body += f"%q{k} = f32[2,8] reshape({last}); %h{k} = f32[2,8] reverse(%q{k}), dimensions={{1}}; "
        body += f"%g{k} = f32[4,4] reshape(%h{k}); %e{k} = f32[4,4] reverse(%g{k}), dimensions={{1}}; "
        last = f"%e{k}"
    found, why = fused(f"{body}ROOT %y = f32[4,4] negate({last})")
    assert found == UNDECIDED, why


def test_each_instruction_is_followed_once() -> None:
    """A body that runs again is not read again. spec: FP2.2"""
    text = hlo.module(
        TURNED, "main: %p = f32[4,4] parameter(0); ROOT %b = f32[4,4] fusion(%p), kind=kLoop, calls=%turned"
    )
    module = hlo.parsed(text)
    source = Source("m", b"")
    rules, main = InPlace(source, module), module.computations["main"]
    first = rules.denial(main, main.result, main.result.shape[0], [(0, ())])
    spent = source.work
    assert rules.denial(main, main.result, main.result.shape[0], [(0, ())]) == first
    assert first is not None
    assert (first.is_certain, first.kind) == (True, "reverse in fusion")
    assert source.work - spent < spent


def test_quotients_cancel_and_large_expressions_are_given_up() -> None:
    """spec: FP4.14"""
    i, j = as_linear(IndexVariable(1, 12)), as_linear(IndexVariable(2, 5))
    whole, rest = quotient(i, 4), i - quotient(i, 4).times(4)
    assert whole.times(4) + rest == i
    assert quotient(i.times(5) + j, 5) == i
    assert quotient(Linear(7), 2) == Linear(3)
    assert quotient(i + Linear(12), 12) == Linear(1)
    assert whole.at({IndexVariable(1, 12): 11}) == 2
    assert rest.bounds() == (-8, 11)
    deep = as_linear(IndexVariable(3, 1 << 60))
    for _ in range(MAX_NESTED + 1):
        deep = quotient(deep.times(3) + Linear(1), 5)
    assert is_large(deep)
    many = Linear(0)
    for k in range(MAX_TERMS + 1):
        many = many + as_linear(IndexVariable(k, 2))
    assert is_large(many)
    assert not is_large(whole)


@pytest.mark.parametrize(
    "body",
    [
        "%q = f32[3,4] transpose(%x), dimensions={0,1}; ROOT %y = f32[4,4] broadcast(%q), dimensions={0,1}",
        "%q = f32[4,4] transpose(%x), dimensions={0}; ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[4,4] transpose(%x), dimensions={0,0}; ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[4,4] slice(%x), slice={[0:4]}; ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[4,4] slice(%x), slice={[0:5], [0:4]}; ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[4,4] slice(%x), slice={[0:3], [0:4]}; ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[4,4] slice(%x), slice={[4:0], [0:4]}; ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[4,4] slice(%x), slice={[0:4:0], [0:4]}; ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[4,4,1] slice(%x), slice={[0:4], [0:4], [0:1]}; ROOT %y = f32[4,4] reshape(%q)",
        "%q = f32[4,5] reverse(%x), dimensions={1}; ROOT %y = f32[4,4] slice(%q), slice={[0:4], [0:4]}",
        "%q = f32[4,4] reverse(%x), dimensions={2}; ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[3,4] reshape(%x); %h = f32[3,4] negate(%q); ROOT %y = f32[4,4] reshape(%h)",
        "%q = f32[3,4] bitcast(%x); ROOT %y = f32[4,4] bitcast(%q)",
        "%q = f16[4,4] bitcast(%x); ROOT %y = f32[4,4] bitcast(%q)",
        "%z = f32[] constant(0); %q = f32[3,4] transpose(%x), dimensions={0,1}; "
        "ROOT %y = f32[4,4] pad(%q, %z), padding=0_1x0_0",
        "%q = f32[5,4] slice(%x), slice={[0:5], [0:4]}; ROOT %y = f32[4,4] slice(%q), slice={[0:4], [0:4]}",
        "%q = f32[4,4] reverse(%x), dimensions={0,2}; ROOT %y = f32[4,4] reverse(%q), dimensions={0}",
        "%q = f32[9,4] concatenate(%x, %x), dimensions={0}; ROOT %y = f32[4,4] slice(%q), slice={[0:4], [0:4]}",
        "%t = (f32[4,4], s32[]) tuple(%x, %n); ROOT %y = f32[4,4] add(%x, %t)",
        '%t = (f32[4,4], s32[]) tuple(%x, %n); ROOT %y = f32[4,4] custom-call(%t), custom_call_target="f"',
        '%k = token[] after-all(); ROOT %y = f32[4,4] custom-call(%k, %x), custom_call_target="f"',
        "%q = f32[5,4] concatenate(%x, %x), dimensions={0}; ROOT %y = f32[4,4] slice(%q), slice={[0:4], [0:4]}",
        "%q = f32[8,4] concatenate(%x, %x), dimensions={1}; ROOT %y = f32[4,4] slice(%q), slice={[0:4], [0:4]}",
        "%q = f32[8,4] concatenate(%x, %x), dimensions={2}; ROOT %y = f32[4,4] slice(%q), slice={[0:4], [0:4]}",
        "%q = f32[8,4] concatenate(%x, %x), dimensions={0,1}; ROOT %y = f32[4,4] slice(%q), slice={[0:4], [0:4]}",
        "%z = f32[] constant(0); %q = f32[4,4] pad(%x, %z), padding=1_0x0_0; ROOT %y = f32[4,4] negate(%q)",
        "%z = f32[] constant(0); %q = f32[4,4] pad(%x, %z), padding=0_0; ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[4,4] pad(%x, %x), padding=0_0x0_0; ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[4,4,1] dynamic-slice(%x, %n, %n), dynamic_slice_sizes={4,4,1}; ROOT %y = f32[4,4] reshape(%q)",
        "%q = f32[5,4] dynamic-slice(%x, %n, %n), dynamic_slice_sizes={5,4}; "
        "ROOT %y = f32[4,4] slice(%q), slice={[0:4], [0:4]}",
        "%q = f32[4,4] dynamic-slice(%x), dynamic_slice_sizes={4,4}; ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[5,4] dynamic-update-slice(%x, %x, %n, %n); ROOT %y = f32[4,4] slice(%q), slice={[0:4], [0:4]}",
        "%u = f32[5,4] iota(), iota_dimension=0; %q = f32[4,4] dynamic-update-slice(%x, %u, %n, %n); "
        "ROOT %y = f32[4,4] negate(%q)",
        "%u = f32[4] iota(), iota_dimension=0; %q = f32[4,4] dynamic-update-slice(%x, %u, %n, %n); "
        "ROOT %y = f32[4,4] negate(%q)",
        "%z = f32[] constant(0); %q = f32[4,3] reduce(%x, %z), dimensions={}, to_apply=%sum; "
        "ROOT %y = f32[4,4] broadcast(%q), dimensions={0,1}",
        "%z = f32[4] iota(), iota_dimension=0; %q = f32[4,4] reduce(%x, %z), dimensions={}, to_apply=%sum; "
        "ROOT %y = f32[4,4] negate(%q)",
        "%z = f32[] constant(0); %q = f32[4,4] reduce-window(%x, %z), window={size=1x1 lhs_dilate=2x1}, to_apply=%sum; "
        "ROOT %y = f32[4,4] negate(%q)",
        "%z = f32[] constant(0); %q = f32[4,4] reduce-window(%x, %z), window={size=1}, to_apply=%sum; "
        "ROOT %y = f32[4,4] negate(%q)",
        "%z = f32[] constant(0); %q = f32[4,4] reduce-window(%x, %z), window={stride=1x1}, to_apply=%sum; "
        "ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[4,4] dot(%x, %x), lhs_contracting_dims={0}, rhs_contracting_dims={0}; %h = f32[4,5] negate(%q); "
        "ROOT %y = f32[4,4] slice(%h), slice={[0:4], [0:4]}",
        "%q = f32[4,4] dot(%x, %x); ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[4,4] dot(%x, %x), lhs_contracting_dims={0,1}, rhs_contracting_dims={0}; "
        "ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[4,4] scatter(%x), update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, "
        "index_vector_dim=0, to_apply=%nothing; ROOT %y = f32[4,4] negate(%q)",
        "%q = f32[5,4] convert(%x); ROOT %y = f32[4,4] slice(%q), slice={[0:4], [0:4]}",
        "%q = f16[4,4] bitcast-convert(%x); ROOT %y = f32[4,4] convert(%q)",
    ],
)  # fmt: skip
def test_an_instruction_that_does_not_fit_its_rule_reads_any_element(body: str) -> None:
    """XLA's verifier refuses these. spec: FP4.14"""
    found, why = fused(body)
    assert found == UNDECIDED, why


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ROOT %y = f32[<=4,4] negate(%x)", ALLOWED),
        ("%q = f32[<=4,4] reshape(%x); ROOT %y = f32[<=4,4] negate(%q)", UNDECIDED),
        ("%q = f32[16] reshape(%x); ROOT %y = f32[<=4,4] reshape(%q)", UNDECIDED),
        ("%q = f32[4,4] slice(%x), slice={[0:4], [0:4]}; ROOT %y = f32[<=4,4] broadcast(%q), dimensions={0,1}",
         UNDECIDED),
    ],
)  # fmt: skip
def test_arrays_of_a_bounded_size_are_followed_element_by_element_alone(body: str, expected: str) -> None:
    """Where their elements are is known at run time. spec: FP4.14"""
    found, why = fused(body, "f32[<=4,4]", "f32[<=4,4]")
    assert found == expected, why


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%q = f32[4,4] reverse(%x), dimensions={0}; ROOT %y = f32[4,4] opt-barrier(%q)", DENIED),
        ("%q = f32[4,4] reverse(%x), dimensions={0}; %u = (f32[4,4], f32[4,4]) tuple(%x, %q); "
         "%t = (s32[], (f32[4,4], f32[4,4])) tuple(%n, %u); %e = (s32[], (f32[4,4], f32[4,4])) opt-barrier(%t); "
         "%g = (f32[4,4], f32[4,4]) get-tuple-element(%e), index=1; "
         "ROOT %y = f32[4,4] get-tuple-element(%g), index=1", DENIED),
        ("%q = f32[4,4] reverse(%x), dimensions={0}; %u = (f32[4,4], f32[4,4]) tuple(%x, %q); "
         "ROOT %y = f32[4,4] get-tuple-element(%u), index=0", ALLOWED),
        ("%q = f32[4,4] reverse(%x), dimensions={0}; %k = s32[] constant(1); %z = s32[] constant(0); "
         "%u = f32[2,4] iota(), iota_dimension=0; %h = f32[4,4] dynamic-update-slice(%q, %u, %k, %z); "
         "ROOT %y = f32[4,4] negate(%h)", UNDECIDED),  # the window may be all that is read elsewhere
        ("%q = f32[2,4] slice(%x), slice={[2:4], [0:4]}; %h = f32[2,4] slice(%x), slice={[0:2], [0:4]}; "
         "%t = (f32[2,4], f32[2,4]) tuple(%q, %h); %e = f32[2,4] get-tuple-element(%t), index=1; "
         "%g = f32[2,4] get-tuple-element(%t), index=0; ROOT %y = f32[4,4] concatenate(%e, %g), dimensions={0}",
         ALLOWED),
    ],
)  # fmt: skip
def test_values_are_followed_through_tuples_and_barriers(body: str, expected: str) -> None:
    """spec: FP4.14"""
    found, why = fused(body)
    assert found == expected, why


CALL = 'custom-call(%a, %c), custom_call_target="f", output_to_operand_aliasing='


@pytest.mark.parametrize(
    ("operation", "places", "expected"),
    [
        ("all-reduce(%a, %c), to_apply=%sum", (0, 64), ALLOWED),
        ("all-reduce(%a, %c), to_apply=%sum", (64, 0), UNDECIDED),
        ("sort(%a, %c), dimensions={0}, to_apply=%less2", (0, 64), ALLOWED),
        ("sort(%a, %c), dimensions={0}, to_apply=%less2", (64, 0), UNDECIDED),
        (f"{CALL}{{ {{1}}: (1, {{}}), {{0}}: (0, {{}}) }}", (0, 64), ALLOWED),
        (f"{CALL}{{ {{0}}: (1, {{}}), {{1}}: (0, {{}}) }}", (64, 0), ALLOWED),
        (f"{CALL}{{ {{0}}: (1, {{}}), {{1}}: (0, {{}}) }}", (0, 64), UNDECIDED),
    ],
)  # fmt: skip
def test_each_result_of_several_takes_the_operand_that_is_its_own(
    operation: str, places: tuple[int, int], expected: str
) -> None:
    """spec: FP4.13"""
    less = (
        "less2: %l.a = f32[] parameter(0); %l.b = f32[] parameter(1); %l.c = f32[] parameter(2); "
        "%l.d = f32[] parameter(3); ROOT %l.e = pred[] compare(%l.a, %l.b), direction=LT"
    )
    main = (
        f'main: {GIVEN}; %a = f32[4,4] custom-call(%p), custom_call_target="f"; '
        f'%c = f32[4,4] custom-call(%p), custom_call_target="f"; %b = (f32[4,4], f32[4,4]) {operation}; '
        '%g = f32[4,4] get-tuple-element(%b), index=0; ROOT %r = f32[4,4] custom-call(%g), custom_call_target="f"'
    )
    slices = PLACED | {"c": (2, 64, 64), "b{}": (2, 128, 16), "b{0}": (2, places[0], 64), "b{1}": (2, places[1], 64)}
    found, why = decided(hlo.module(SUM, less, main), slices)
    assert found == expected, why
