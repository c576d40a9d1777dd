"""HLO as text: what is read of it, and that nothing in it is passed over. spec: FP4.1, FP4.2, FP4.3, FP4.12"""

from __future__ import annotations

import pytest

from proofs.readers.plans.hlo_opcodes import IGNORED, OPCODES, Reads, opcode
from proofs.readers.plans.hlo_text import PIECE, HloLine, Leaf
from tests.support import hlo
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source

CHAIN = "main: %p = u8[4]{0} parameter(0); %a = u8[4] negate(%p); ROOT %r = u8[4] negate(%a)"


def refusal(text: str) -> TmmuError:
    with pytest.raises(TmmuError) as error:
        hlo.parsed(text)
    assert error.value.code_id == "INVALID_PLAN"
    return error.value


@pytest.mark.parametrize(
    ("shape", "leaves"),
    [
        ("f32[]", [Leaf((), "f32", 4, (), (), "", 32)]),
        ("f32[2,3]{1,0}", [Leaf((), "f32", 24, (2, 3), (1, 0), "", 32)]),
        ("f32[2,3]{0,1:S(5)}", [Leaf((), "f32", 24, (2, 3), (0, 1), "", 32)]),
        ("pred[0,7]", [Leaf((), "pred", 0, (0, 7), (1, 0), "", 8)]),
        ("s4[5]{0:E(4)}", [Leaf((), "s4", 3, (5,), (0,), "", 4)]), ("s4[5]{0}", [Leaf((), "s4", 5, (5,), (0,), "", 8)]),
        (
            "bf16[<=8,4]{1,0:T(8,128)(2,1)S(1)}",
            [Leaf((), "bf16", 64, (8, 4), (1, 0), "T(8,128)(2,1)bounded", 16)],
        ),
        ("()", [Leaf((), "", 0)]), ("opaque[]", [Leaf((), "opaque", 0)]),
        ("(f32[2], /*index=1*/(token[], u8[3]), ())", [
            Leaf((), "", 0), Leaf((0,), "f32", 8, (2,), (0,), "", 32), Leaf((1,), "", 0), Leaf((1, 0), "token", 0),
            Leaf((1, 1), "u8", 3, (3,), (0,), "", 8), Leaf((2,), "", 0),
        ]),
    ],
)  # fmt: skip
def test_a_shape_is_its_arrays_and_tables_with_their_bytes(shape: str, leaves: list[Leaf]) -> None:
    """spec: FP4.2, FP4.3"""
    line = HloLine(Source("m", b""), f"{shape} ", 1)
    assert list(line.shape()) == leaves
    line.end()


@pytest.mark.parametrize(
    "shape",
    [
        "u9[4]", "u8[x]", "u8[9999999999,9999999999999]", f"u8[{'9' * 5000}]", "(u8[4]", "(u8[4] u8[4])", "/* u8[4]",
        "", "u8[?]", "u8[4]{1}", "u8[4,4]{0,0}", "u8[4]{0:Q(1)}", "u8[4]{0:D(S)}", "u8[4]{0:T(4,x)}", "u8", "token[4]",
        f"{'(' * 70}u8[4]{')' * 70}", "b(u8[4])",
    ],
)  # fmt: skip
def test_what_is_no_shape_is_refused(shape: str) -> None:
    """spec: FP2.3, FP4.3, FP4.12"""
    with pytest.raises(TmmuError, match="INVALID_PLAN"):
        HloLine(Source("m", b""), shape, 1).shape()


@pytest.mark.parametrize(
    ("shape", "literal", "value"),
    [
        ("s32[]", "7", "7"), ("s32[]", "-7", "-7"), ("pred[]", "true", "true"), ("f32[]", "-inf", "-inf"),
        ("f32[]", "nan", "nan"), ("f32[]", "-nan(0x400000)", "-nan(0x400000)"), ("f32[]", "1.5e-07", "1.5e-07"),
        ("c64[]", "(1, -2)", ""), ("s32[2]", "{1, 2}", ""), ("s32[2,1]", "{ /*i0=0*/ {1}, {2} }", ""),
        ("s32[2]", "{...}", ""), ("s32[0]", "{}", ""), ("s32[2,0]", "{ {}, {} }", ""),
    ],
)  # fmt: skip
def test_a_literal_has_the_elements_of_its_shape(shape: str, literal: str, value: str) -> None:
    """spec: FP4.2"""
    module = hlo.parsed(hlo.module(f"main: ROOT %k = {shape} constant({literal}), metadata={{}}"))
    assert module.computations["main"].instructions[0].literal == value


@pytest.mark.parametrize(
    ("shape", "literal"),
    [
        ("s32[]", ""), ("s32[]", "1 2"), ("s32[]", "1, 2"), ("s32[]", "{1}"), ("s32[2]", "{1}"), ("s32[2]", "{1 2}"),
        ("s32[2]", "{1, 2"), ("s32[2]", "{1, 2}}"), ("s32[2]", "{1,, 2}"), ("s32[2]", "{1, 2,}"), ("s32[2]", "1"),
        ("s32[2,1]", "{1, 2}"), ("s32[2]", "{{1}, {2}}"), ("s32[2]", "{1, x}"), ("s32[]", "1) negate(%p"),
        ("(s32[])", "{1}"), ("token[]", "1"), ("s32[2]", "{1}{2}"),
    ],
)  # fmt: skip
def test_what_is_no_literal_of_its_shape_is_refused(shape: str, literal: str) -> None:
    """spec: FP4.2, FP4.12"""
    text = hlo.module(f"main: %k = {shape} constant({literal}); ROOT %r = s32[] parameter(0)")
    assert refusal(text).place == "line 4"


def test_of_an_instruction_what_names_things_is_read_and_no_text() -> None:
    """spec: FP4.2"""
    line = (
        'ROOT %w = u8[4] while(u8[4]{0} %p), condition=%c, metadata={op_name="a{, body=%x" n={1,{2}}}, body=%b.1-2, '
        'backend_config="body=%y, condition=%z", control-predecessors={%p}'
    )
    inner = ("b.1-2: ROOT %x = u8[4] parameter(0)", "c: %y = u8[4] parameter(0); ROOT %q = pred[] constant(true)")
    module = hlo.parsed(hlo.module(*inner, f"main: %p = u8[4] parameter(0); {line}"))
    each = module.computations["main"].instructions[1]
    assert (each.operands, each.called) == (("p",), {"condition": ("c",), "body": ("b.1-2",)})
    assert each.attributes == {"condition": "%c", "body": "%b.1-2"}
    text = hlo.module("main: t = (u8[1], u8[1]) parameter(0); ROOT %g = u8[1] get-tuple-element(t), index=1 // one")
    each = hlo.parsed(text).computations["main"].instructions[1]
    assert (each.operands, each.number) == (("t",), 1)


MANY = (
    "main: %p = u8[4] parameter(0); %q = (u8[4], (u8[4], u8[4])) parameter(1); "
    "ROOT %r = (u8[4], (u8[4], u8[4], u8[4])) parameter(2)"
)


def test_of_the_title_the_parameters_are_read_that_the_caller_donates() -> None:
    """spec: FP4.8, FP4.10, FP4.12"""
    title = ", input_output_alias={ {0}: (0, {}, may-alias), {1,2}: (1, {1}) }, buffer_donor={ (2, {}) }"
    module = hlo.parsed(hlo.module(MANY, title=title))
    assert module.aliased == {(0,): (0, ()), (1, 2): (1, (1,))}
    assert module.donated == [(0, ()), (1, (1,)), (2, ())]
    behind = ", buffer_donor={ (0, {}) }, entry_computation_layout={(u8[4])->u8[4]}, input_output_alias={ }"
    module = hlo.parsed(hlo.module(MANY, title=behind).replace("\n}", "\n\n}"))  # and a blank line
    assert (module.donated, module.aliased) == ([(0, ())], {})
    for was, becomes in (("(0, {}", "(3, {}"), ("(1, {1}", "(1, {2}"), ("{1,2}:", "{1,3}:"), ("(2, {})", "(2, {1,3})")):
        assert refusal(hlo.module(MANY, title=title.replace(was, becomes))).place == "line 1"


@pytest.mark.parametrize(
    "title",
    [
        "m, is_scheduled=true, other=1", "m, is_scheduled=true x", "m is_scheduled=true", "m, is_scheduled=yes",
        "m, is_scheduled=true, is_scheduled=true", "m, is_scheduled=true, buffer_donor={ (0, {}) x }",
        "m, is_scheduled=true, buffer_donor={ (0, {}) (0, {}) }", "m, is_scheduled=true, buffer_donor={ {}: (0, {}) }",
        "m, is_scheduled=true, input_output_alias={ {}: (0, {}, will-alias) }", "m, is_scheduled=true, replica_count=",
        "m, is_scheduled=true, buffer_donor={ (0, {}) } }", "m", ", is_scheduled=true",
        "m, is_scheduled=true, buffer_donor={ (0, {}), }",
    ],
)  # fmt: skip
def test_a_title_with_anything_else_is_refused(title: str) -> None:
    """spec: FP4.1, FP4.12"""
    assert refusal(hlo.module(CHAIN).replace("m, is_scheduled=true", title, 1)).place == "line 1"


NEGATED = "%a = u8[4] negate(%p)"


@pytest.mark.parametrize(
    ("line", "at"),
    [
        ("%a = u8[4] negate(%p", 5), ("%a u8[4] negate(%p)", 5), ("%a = u9[4] negate(%p)", 5),
        ("%a = (u8[4] f(%p)", 5), ("%a = negate(%p)", 5), ("%p = u8[4] negate(%p)", 5),
        ("ROOT %a = u8[4] negate(%p)", 6), ("%a = u8[4] 9(%p)", 5), ("%a = u8[4] negate(%q)", 5),
        ("%a = u8[4] call(%p), to_apply=%none", 5), ("%a = u8[4] call(%p)", 5), ("%a = u8[4] parameter(0)", 5),
        ("%a = u8[4] parameter(x)", 5), ("%a = u8[4] parameter(2)", 7), ("%a = u8[4] negate(%p) ROOT", 5),
        ("%a = u8[4] get-tuple-element(%p), index=0", 5),
        ("%a = u8[4] conditional(%p, %p), branch_computations={%main, %main}", 5),
        # More on a line than an instruction.
        (f"{NEGATED} %z = u8[4] cosine(%p)", 5), (f"{NEGATED} negate(%p)", 5), (f"{NEGATED}, metadata={{}} x", 5),
        (f"{NEGATED},", 5), (f"{NEGATED}, metadata={{}}, metadata={{}}", 5), (f"{NEGATED} }}", 5), (f"{NEGATED}\\", 5),
        (f"{NEGATED}, metadata={{}}{{}}", 5), (f"{NEGATED}, metadata=%z", 5), (f"{NEGATED}, metadata", 5),
        (f'{NEGATED}, backend_config="x', 5), (f"{NEGATED}, backend_config={{)", 5), (f"{NEGATED}, backend_config=", 5),
        # Other operands, attributes and operations than there are.
        ("%a = u8[4] negate(%p, %p)", 5), ("%a = u8[4] negate()", 5), ("%a = u8[4] negate(%p %p)", 5),
        ("%a = u8[4] negate(u8[5] %p)", 5), ("%a = u8[4] negate(%p, )", 5),
        ("%a = u8[4] negate(%p,)", 5), ("%é = u8[4] negate(%p)", 5), ("%a = u8[4]\u2003negate(%p)", 5),
        ("%a = u8[\uff14] negate(%p)", 5), ("%a = u8[4] negate(,%p)", 5), ("%a = u8[4] negate(7)", 5),
        (f"{NEGATED}, dimensions={{0}}", 5), (f"{NEGATED}, novel=1", 5), ("%a = u8[4] negative(%p)", 5),
        ("%a = u8[4] reverse(%p)", 5), ("%a = u8[4] reverse(%p), dimensions=0", 5),
        ("%a = u8[4] reverse(%p), dimensions={-1}", 5), ("%a = u8[4] slice(%p), slice={[0:4] [0:4]}", 5),
        ("%a = u8[4] madd-start(%p)", 5), (f"{NEGATED}, control-predecessors={{%r}}", 5),
        ("%a = (u8[4], u8[4]) tuple(%p)", 5), ("%a = (u8[4]) tuple(%p, %p)", 5), ("%a = (u8[5]) tuple(%p)", 5),
        ("%a = (u8[4]) opt-barrier(%p)", 5), ("%a = u8[5] copy(%p)", 5),
        ("%a = u8[] reduce(%p, %p), dimensions={0}, to_apply=%main", 5), (f"% {NEGATED}", 5),
        ("%a = u8[5] call(%p), to_apply=%main", 5), ("%a = u8[4] call(%p, %p), to_apply=%main", 5),
        ("%a = u8[4] fusion(%p, %p), kind=kLoop, calls=%main", 5),
    ],
)  # fmt: skip
def test_what_is_no_module_is_refused_with_its_line(line: str, at: int) -> None:
    """spec: FP2.4, FP4.2, FP4.12"""
    text = hlo.module(f"main: %p = u8[4] parameter(0); {line}; ROOT %r = u8[4] negate(%p)")
    text = text.replace("ENTRY %main (p: u8[4], a: u8[4])", "ENTRY %main (p: u8[4])")
    error = refusal(text)
    assert (error.file, error.place) == ("m.txt", f"line {at}"), error


@pytest.mark.parametrize("op", [*OPCODES, "dot-start", "dot-update", "dot-done"])
def test_each_operation_has_the_attributes_of_its_row_and_those_of_all(op: str) -> None:
    """An attribute that no row has is refused at each, a known one only where its row has it. spec: FP4.12"""
    row = opcode(op)
    assert row is not None
    assert set(row.required) <= set(row.attributes)
    assert not set(row.attributes) & set(IGNORED)
    operands = ", ".join(["%p"] * (row.arity or 0))
    inside = {"parameter": "0", "constant": "1"}.get(op, operands)
    for name in ("novel", "iota_dimension", "custom_call_target"):
        error = refusal(hlo.module(f"main: %p = u8[] parameter(1); ROOT %r = u8[] {op}({inside}), {name}=0"))
        assert (f"unknown attribute of {op} '{name}'" in error.what) == (name not in row.attributes), error


def test_the_rows_of_the_table_cover_the_ways_of_reading() -> None:
    assert {row.reads for row in OPCODES.values()} == set(Reads)


def test_tables_of_positions_are_passed_over_and_have_rows_of_their_kind() -> None:
    """spec: FP4.12"""
    text = hlo.module(CHAIN)
    tables = (
        '\nFileNames\n1 "a.py"\n\nFunctionNames\n1 "<module>"\n\nFileLocations\n1 {file_name_id=1 line=2 column=3}\n\n'
        "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n\n"
    )
    whole = text.replace("\n\nENTRY", f"\n{tables}ENTRY")
    assert hlo.parsed(whole).computations.keys() == {"main"}
    for was, becomes in (
        ('1 "a.py"', '1 "a.py" x'), ("column=3}", "column=3} %z = u8[4] negate(%p)"), ("StackFrames", "Frames"),
        ("FileNames\n", ""), ("1 {file_location", "x {file_location"),
    ):  # fmt: skip
        refusal(whole.replace(was, becomes))
    refusal(text + tables)  # behind the computations


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("(p: u8[4]{0})", "(q: u8[4]{0})"), ("(p: u8[4]{0})", "(p: u8[5])"), ("(p: u8[4]{0})", "()"),
        ("(p: u8[4]{0})", "(p: u8[4], q: u8[4])"), ("-> u8[4]", "-> u8[5]"), (" {\n", " { x\n"), ("-> u8[4]", ""),
        ("ENTRY %main", "ENTRY main x"), ("}\n", "} x\n"), ("}\n", "}, other=1\n"), ("ENTRY %main", "%main"),
        ("(p: u8[4]{0})", "(p: u8[4]{0}"), ("(p: u8[4]{0})", "(p u8[4]{0})"), ("(p: u8[4]{0})", "(p: u8[4]{0},)"),
    ],
)  # fmt: skip
def test_a_head_repeats_the_parameters_and_the_result(was: str, becomes: str) -> None:
    """spec: FP4.12"""
    text = hlo.module(CHAIN)
    assert was in text
    refusal(text.replace(was, becomes))


def test_short_heads_and_threads_are_read() -> None:
    """As versions before 0.5 print them. spec: FP4.2"""
    text = hlo.module(CHAIN)
    short = text.replace(" (p: u8[4]{0}) -> u8[4]", "").replace("}\n", '}, execution_thread="main" // main\n')
    assert hlo.parsed(short).computations == hlo.parsed(text).computations
    text = hlo.module("other: ROOT %o = u8[4] parameter(0)", CHAIN)
    refusal(text.replace("%other", "ENTRY %other"))  # two entries
    refusal(text.replace("%other", "%main"))


def test_the_text_of_a_module_ends_with_its_last_computation() -> None:
    """spec: FP4.1, FP4.12"""
    text = hlo.module(CHAIN)
    for behind in ("x", "%z = u8[4] negate(%p)", "}", "HloModule n, is_scheduled=true", "1"):
        assert refusal(f"{text}{behind}\n").place == f"line {text.count(chr(10)) + 1}"
    refusal("")


def test_a_quote_that_does_not_end_is_read_once() -> None:
    """Not from each quote in it anew. spec: FP2.2"""
    assert [piece[0] for piece in PIECE.finditer('a="b\\"c\nd" {"e')] == ["a=", '"b\\"c\nd"', " ", "{", '"e']
    assert len(list(PIECE.finditer('"' + '\\"' * 50_000))) == 1
