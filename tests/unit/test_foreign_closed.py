"""What a reader does not know is refused with its place, or makes the verdict UNKNOWN: a case for each rule.

`tests/property/test_foreign_account.py` puts such constructs into stored plans at random.
spec: FP1.15, FP1.16, FP3.12, FP5.14, FP5.15, FP6.17 to FP6.19, FP7.13, FP7.14, FP9.13
"""

from __future__ import annotations

from typing import Any

import pytest

from proofs.readers.plans import executorch, iree, minimalloc, relax, tflite, vela
from proofs.readers.plans.foreign_plan import ForeignPlan
from tests.support import flatbuffer_files as fb
from tests.support.three_checks import by_the_checker
from tests.unit.test_foreign_iree import AFTER, BEFORE, CHAIN, DEALLOCA, function, plan_names
from tests.unit.test_foreign_scripts import COPY, KERNEL, module
from tests.unit.test_foreign_tflite import END, TABLE
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.plans.sections import Plan


def refused(read: Any, data: bytes | str) -> TmmuError:
    """The error of a file, which has a place."""
    with pytest.raises(TmmuError) as error:
        read(Source("m", data if isinstance(data, bytes) else data.encode()))
    assert (error.value.code_id, error.value.file) == ("INVALID_PLAN", "m")
    assert error.value.place
    return error.value


def read_relax(text: str) -> ForeignPlan:
    return relax.read(Source("m.relax", text.encode()))


CALLED = "cls.copy(x, a)"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("a.copy_(x)", "a.copy_ is no call that Relax has"),
        ("novel(a)", "novel is no call that Relax has"),
        ("x[0].novel(a)", "a call of an expression is no call"),
        ("t[0](a)", "a call of an expression is no call"),
        ("cls.copy(x, a, b)", "copy has 2 parameters, and is given 3"),
        ("cls.copy(x)", "copy has 2 parameters, and is given 1"),
        ("cls = cls.copy(x, b)", "a statement of Relax was expected"),
        ("y = a + x", "a is used in an expression that is not read"),
        ("y = a.novel", "a.novel is no type and no size"),
        ("y = t[cls.copy(x, b)]", "expected the number of an item"),
        ("y = a[0]", "expected the number of an item"),
        ("y: R.Tensor((4,), dtype='float32') = (a,)", "is said to be a tensor, and bound to a tuple"),
        ("y: novel() = a", "an expression of Relax was expected, got a call of novel"),
        ("y: R.Tensor((4,), dtype='novel') = a", "'novel' is no type of an element"),
        ("R.func_attr({'k': cls.copy(x, b)})", "got a call of cls.copy"),
        ("y = R.shape([cls.copy(x, b)])", "got a call of cls.copy"),
        ("y = R.reshape(a, b)", "R.reshape has a further operand"),
        ("y = R.call_packed(a, b)", "R.call_packed is no call that Relax has"),
        ("y = R.memory.alloc_storage(R.shape([16], a), 0)", "expected the bytes of a storage"),
        ("y = R.memory.alloc_storage(R.novel([16]), 0)", "got a call of R.novel"),
        ("y = R.memory.alloc_tensor(other, 0, R.shape([4]), R.dtype('float32'), 0, b)", "more than 5 operands"),
        ("y = R.memory.alloc_tensor(other, T.novel(3), R.shape([4]), R.dtype('float32'))", "got a call of T.novel"),
        ("y = R.call_tir(cls.nowhere, (x,))", "cls.nowhere is no function of this module"),
        ("y = R.memory.novel", "R.memory.novel is no type and no size"),
        ("with R.dataflow(a):\n    pass", r"expected a block of R.dataflow\(\)"),
        ("return a", "a statement of Relax was expected, got Return"),
        ("assert x", "a statement of Relax was expected, got Assert"),
        ("def inner(y): pass", "a statement of Relax was expected, got FunctionDef"),
    ],
)
def test_a_line_of_relax_that_is_not_known_is_refused(line: str, what: str) -> None:
    """spec: FP7.14"""
    with pytest.raises(TmmuError, match=what) as error:
        read_relax(module(f"{CALLED}\n{line}\nreturn a"))
    assert str(error.value.place).startswith("line ")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    @R.function", "    @novel\n    def other(x): pass\n    @R.function"),
        ("    @R.function", "    @R.function(novel=True)"),
        ("    @R.function", "    @novel\n    @R.function"),
        ("    @R.function", "    class Inner: pass\n    @R.function"),
        ("@I.ir_module", "import os\n@I.ir_module"),
        ("@I.ir_module", "novel()\n@I.ir_module"),
        ("class Module", "class Module(novel())"),
        ("def main(x: R.Tensor", "def main(*x: R.Tensor"),
        ("def main(x: R.Tensor((4,), dtype=\"float32\")", "def main(x"),
        ("R.Object)):", "R.Object) = 1):"),
        ("R.Object)):", "R.Object)) -> novel():"),
    ],
)  # fmt: skip
def test_a_module_of_other_parts_is_refused(old: str, new: str) -> None:
    """spec: FP7.14"""
    text = module(f"{CALLED}\nreturn a")
    assert old in text
    read_relax(text)
    refused(relax.read, text.replace(old, new))


@pytest.mark.parametrize(
    "body",
    [
        "C = A\nC.novel(B)", "A.novel(B[i])", "B[i][0] = A[i]", "novel(B)[i] = A[i]", "T.novel(B)", "novel(B, A[i])",
        "(B if A[i] else A)[i] = 1", "B[i] = (A[i],)", "B += 1", "del B[i]", "exec('B')", "lambda: (yield)",
        "B, C = A, B", "T = A", "B[i] = A[i].novel", "B[i] = T.exp(A[i], novel=1)", "C = T.Buffer((4,), novel=B.data)",
        "B[i] = novel", "T.exp", "B[i] = T.exp(A[i])[0]", "B[i] = A", "for j in A: pass", "def f(): pass", "return A",
        "C = T.f(A, B)",
    ],
)  # fmt: skip
def test_a_kernel_of_other_parts_is_refused(body: str) -> None:
    """spec: FP7.13"""
    refused(relax.read, module(f"{CALLED}\nreturn a", KERNEL.format(name="copy", n=4, body=body)))


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("C = B\n                C[i] = A[i]", "b"), ("C[i] = A[i]", None),
        ("B[i], A[i] = T.f(1)", None), ("C = T.Buffer((4,), data=B.data)\n                C[i] = A[i]", "b"),
    ],
)  # fmt: skip
def test_other_names_of_a_buffer_are_followed_or_refused(body: str, written: str | None) -> None:
    """spec: FP7.13"""
    text = module("cls.copy(x, a)\ncls.copy(a, b)\nreturn b", KERNEL.format(name="copy", n=4, body=body))
    if written is None:
        refused(relax.read, text)
    else:
        found = read_relax(text)
        assert isinstance(found.plan, Plan)
        assert by_the_checker(found.plan, None, frozenset()) == set()


def test_what_is_printed_is_read_and_an_operator_of_relax_is_undecided() -> None:
    """What is printed must be there. spec: FP7.14, FP1.16"""
    over = "cls.copy(x, a)\ncls.copy(x, c)\nR.print(a, format='{}')\nreturn c"
    found = read_relax(module(over))
    assert isinstance(found.plan, Plan)
    assert by_the_checker(found.plan, None, frozenset()) == {"no_live_overlap", "sharing_is_sound"}
    assert not found.reading.undecided
    (undecided,) = read_relax(module(f"{CALLED}\ny = R.novel(a)\nreturn a", COPY)).reading.undecided
    assert undecided.text.startswith("R.novel is no call of a kernel")


# IREE


@pytest.mark.parametrize(
    "line",
    [
        "novel", "%n = novel.op", "util.novel %0 : !hal.buffer_view", "hal.buffer_view.novel<%0 : !hal.buffer_view>",
        "%n = arith.addi %c0, %c64 : index novel", "%n = arith.constant 1 : index {novel}", "^bb1 novel:", "} novel",
        "%n = stream.timepoint.immediate => !stream.timepoint // novel", "loc(novel)", "\"novel\"", "stream.cmd.novel",
        "%n = stream.timepoint.join max(%e, %t) novel => !stream.timepoint", "%n, = arith.addi %c0, %c64 : index",
        "%n = util.global.load @w {novel} : index", "util.global.store.novel %c0, @w : index",
        "%n = stream.timepoint.await %e => %r, %0 : !stream.resource<transient>{%s}",
    ],
)  # fmt: skip
def test_a_line_of_iree_that_is_not_known_is_refused(line: str) -> None:
    """spec: FP9.13"""
    assert str(refused(iree.read, function(*CHAIN, close=line)).place).startswith("line ")


def test_what_is_around_functions_is_accounted_for() -> None:
    """Comments and dumps of other passes are ignored; functions without commands are listed. spec: FP9.13"""
    text = function(*CHAIN)
    plain = plan_names(iree.read(Source("m", text.encode())))
    other = text.replace(AFTER, AFTER.replace("LayoutSlicesPass: iree-stream-layout-slices", "CSEPass: cse"))
    comment = text.replace("  %c0 =", "// novel {\n\n  // } stream.cmd.fill\n  %c0 =")
    for right in (
        comment,
        f"// novel\n#map = 1\n{text}\n// }}\n",
        text + other[other.index("// -----// IR Dump After") :],
    ):
        assert plan_names(iree.read(Source("m", right.encode()))) == plain
    idle = AFTER + "util.func public @idle(%0: index) {\n  novel\n}\n"
    outside = iree.read(Source("m", (text + idle).encode())).reading.outside
    assert outside["functions without commands"].endswith("idle")
    half = text.replace("stream.cmd.execute", "stream.cmd.other", 1)
    for wrong in (
        f"novel\n{text}", f"{text}novel\n", text.replace(AFTER, f"novel\n{AFTER}"), half,
        text.replace("slices //----- //", "slices novel //----- //"), text.replace("@main(", "@main novel("),
        text.replace("[0, 1] = %c64,", "[0, 1] = %c64, novel"), text.replace("}) : index", "}) : index novel"),
        text.replace(BEFORE, BEFORE + "novel\n", 1),
    ):  # fmt: skip
        refused(iree.read, wrong)


def test_a_dealloca_that_awaits_nothing_gives_its_memory_back() -> None:
    """spec: FP9.7"""
    found = iree.read(Source("m", function(*CHAIN, close=DEALLOCA.replace(" await(%e) =>", "")).encode()))
    assert isinstance(found.plan, Plan)
    assert any("dealloca" in name for name in found.plan.allocation.tensors.name)
    assert by_the_checker(found.plan, None, frozenset(found.reading.donated))


# MiniMalloc and Vela


@pytest.mark.parametrize("cells", ['"a",0,1,4,,0', "a\v,0,1,4,,0", "a,0,1,4,novel,0", "a,0,\u00a01,4,,0"])
def test_cells_of_other_characters_are_refused(cells: str) -> None:
    """spec: FP3.12"""
    head = "id,lower,upper,size,hint,offset\n"
    minimalloc.read(Source("m", f"{head}a,0, 1,4\t,-1,0\r\n".encode()))
    assert refused(minimalloc.read, f"{head}{cells}\nb,0,1,4,,4\n").place == "line 2"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (": a:0\n", ": a:0\nnovel\n", 5), (": a:0\n", ": a:0\n\n", 6), ("Staging\n", "Staging novel,\n", 1),
        (": Format  ", ": Novel   ", 2), ("KiB\n", "KiB novel\n", 6), ("KiB\n", "KiB\nnovel\n", 7),
        ("Allocation, ", "Novel\n", 1),
        ("32: NHWC           : x", "novel: NHWC           : x", 3), (": NHWC           : x", ": N HWC: x", 3),
        ("KiB\n", "KiB\n 0 - 3: 0x0 - 0x10: 16: 32: NHWC: y\n", 7), ("for m\n", "for m\nnovel: 1\n", 8),
    ],
)  # fmt: skip
def test_a_line_of_vela_that_is_not_known_is_refused(old: str, new: str, line: int) -> None:
    """spec: FP6.19"""
    text = TABLE + END
    assert old in text
    vela.read(Source("v", (f"Warning: x\n{text}\nCPU operators = 0 (0.0%)\n").encode()))
    assert refused(vela.read, text.replace(old, new, 1)).place == f"line {line}"


# Flatbuffers


def model(code: int = 0, tensor: Any = None, more: Any = None, **fields: Any) -> bytes:
    """A model of one operator, with further fields of its tables."""
    tensors = [fb.stored(16, "x"), fb.stored(16, "y") | (tensor or {})]
    node = fb.node(0, [0], [1]) | (more or {})
    return fb.model([fb.subgraph(tensors, [node], [0], [1])], fields.get("offsets", [0, 16]), [code])


@pytest.mark.parametrize(
    "data",
    [
        model(tensor={10: ("u32", 1)}), model(more={14: ("u32", 1)}), model(tensor={6: {}}), model(tensor={9: [{}]}),
        model(more={7: ("u8", [1])}), model(code=118, more={3: ("u8", 1), 4: {}}),
        model(code=118, more={3: ("u8", 92), 4: {2: ("i32", 0)}}),
        model(offsets=b"\2\0\0\0\1\0\0\0\2\0\0\0\0\0\0\0\x10\0\0\0"),
    ],
)  # fmt: skip
def test_a_model_with_more_than_its_schema_is_refused(data: bytes) -> None:
    """spec: FP6.17, FP6.18"""
    refused(tflite.read, data)


@pytest.mark.parametrize(("code", "count"), [(0, 0), (208, 0), (209, 1), (31, 1), (51, 1), (32, 0)])
def test_an_operator_that_is_not_known_is_undecided(code: int, count: int) -> None:
    """spec: FP6.17"""
    assert len(tflite.read(Source("m", model(code=code))).reading.undecided) == count


def program(value: Any = None, call: Any = None, table: Any = None) -> bytes:
    """A program of one call, with further fields of its tables."""
    method = dict(fb.method([fb.planned(0), fb.planned(16)], [("aten::k.out", 0, 1, 1)], [0], [1]))
    method[2] = [method[2][0], {**method[2][1], **(value or {}), 1: {**method[2][1][1], **(table or {})}}]
    method[5] = [{2: [{**method[5][0][2][0], **(call or {})}]}]
    return fb.program(method)


@pytest.mark.parametrize(
    "data",
    [
        program(value={2: ("u32", 1)}), program(table={10: ("u32", 1)}), program(table={7: ("i8", 1)}),
        program(table={8: ("i8", 2)}), program(table={3: ("u8", [0, 1])}), program(table={9: {3: ("u8", 1)}}),
        program(call={2: ("u32", 1)}), program(call={0: ("u8", 6)}), program(value={0: ("u8", 12)}),
    ],
)  # fmt: skip
def test_a_program_with_more_than_its_schema_is_refused(data: bytes) -> None:
    """spec: FP5.14"""
    executorch.read(Source("m", program(table={3: ("u8", [0])})))
    refused(executorch.read, data)


def test_a_jump_leads_to_an_instruction_of_its_own_chain() -> None:
    """spec: FP5.14"""
    condition = {0: ("u8", 3), 1: {0: ("u8", 1)}}
    method = dict(
        fb.method([fb.planned(0), condition, fb.planned(16)], [("my::k.out", 0, 2), ("jump", 1, 2)], [0], [2])
    )
    first, jump = method[5][0][2]
    method[5] = [{2: [first]}, {2: [jump, first]}]
    found = executorch.read(Source("m", fb.program(method)))
    assert isinstance(found.plan, Plan)
    assert any("JumpFalseCall" in name for name in found.plan.allocation.steps.node)
    method[5] = [{2: [first, first]}, {2: [{**jump, 1: {0: ("i32", 1), 1: ("i32", 3)}}, first]}]
    assert "out of its chain" in str(refused(executorch.read, fb.program(method)))


@pytest.mark.parametrize(
    ("args", "count"),
    [((0, 1, 1), 0), ((0, 1, 1, 2), 1), ((0, 1), 1), ((0, 1, 3), 0), ((0, 3, 3), 0), ((0, 1, 1, 3), 0)],
)
def test_a_kernel_whose_last_argument_is_none_of_its_results_is_undecided(args: tuple[int, ...], count: int) -> None:
    """spec: FP5.15"""
    values = [fb.planned(0), fb.planned(16), fb.planned(32), fb.listed(1)]
    found = executorch.read(Source("m", fb.program(fb.method(values, [("aten::k.out", *args)], [0], [1]))))
    assert len(found.reading.undecided) == count
