"""What Inductor's kernels do in place, by their text, and the calls of a wrapper that are accounted for.

Other statements of wrappers are in `test_foreign_scripts`. spec: FP8.11 to FP8.16
"""

from __future__ import annotations

import pytest

from proofs.readers.plans import formats
from proofs.readers.plans.hlo_index import IndexVariable, Linear, as_linear, quotient
from proofs.readers.plans.inductor_access import KernelAccess, is_disjoint
from proofs.verify.checks import Subject, violations
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source

HEAD = """# AOT ID: ['0_inference']
import torch
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.select_algorithm import extern_kernels
aten = torch.ops.aten
empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor
alloc_from_pool = torch.ops.inductor._alloc_from_pool
async_compile = AsyncCompile()
"""
COPY = """copies = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
extern "C"  void  kernel(const float* in_ptr0, float* out_ptr0)
{ for(int64_t x0=0; x0<64L; x0+=1L) out_ptr0[x0] = in_ptr0[x0]; }
''')
"""
POOL = """    pool0 = empty_strided_cpu((256, ), (1, ), torch.float32)
    buf0 = alloc_from_pool(pool0, 0, torch.float32, (64, ), (1, ))
    copies(arg0_1, buf0)
"""
END = """
def get_args():
    arg0_1 = rand_strided((64, ), (1, ), device='cpu', dtype=torch.float32)
    return [arg0_1]
"""
CPP = """k = async_compile.cpp_pybinding([], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel({})
{{
{}
}}
''')
"""
TRITON = """k = async_compile.triton('k', '''
import triton
import triton.language as tl
{}
@triton_heuristics.pointwise(size_hints={{'x': 64}}, inductor_meta={{'mutated_arg_names': [{}]}})
@triton.jit
def k({}, xnumel, XBLOCK : tl.constexpr):
    xnumel = 64
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = (xindex % 8)
    x1 = xindex // 8
    x2 = xindex
{}
''', device_str='cuda')
"""
LOOP = (
    "    for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>({}L); x0+=static_cast<int64_t>({}L))\n"
    "    {{{}}}"
)


def judged(kernel: str, body: str, returned: str = "buf1") -> tuple[str, str]:
    """The verdict on a wrapper, with the reasons why it is undecided or refused."""
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    text = f"{HEAD}{COPY}{kernel}\ndef call(args):\n    arg0_1, = args\n{POOL}{lines}\n    return ({returned}, )\n{END}"
    try:
        stated = formats.read_through_gate(formats.BY_KIND["inductor"], Source("m.inductor", text.encode()))
    except TmmuError as error:
        return "refused" if error.code_id == "INVALID_PLAN" and error.place else error.code_id, str(error)
    assert stated.reading is not None
    reasons = [*stated.reading.denied.values(), *(each.text for each in stated.reading.undecided)]
    if next(iter(violations(Subject(stated, None, frozenset(stated.reading.donated)))), None) is not None:
        return "REFUTED", " ".join(reasons)
    return "UNKNOWN" if reasons else "PROVED", " ".join(reasons)


def loop(body: str, end: int = 64, step: int = 1) -> str:
    return LOOP.format(end, step, body)


LOAD = (
    "auto tmp0 = at::vec::Vectorized<float>::loadu(in_out_ptr0 + static_cast<int64_t>({}), static_cast<int64_t>(16));"
)
STORE = "tmp0.store(in_out_ptr0 + static_cast<int64_t>({}));"
ONE = "in_out_ptr0[static_cast<int64_t>({})] = in_out_ptr0[static_cast<int64_t>({})];"
TURNED = (
    "(static_cast<int64_t>(x0) % static_cast<int64_t>(8L)) + 8L*(c10::div_floor_integer(static_cast<int64_t>(x0), 8L))"
)
ROWS = "for(int64_t x1=0; x1<8L; x1++)"


@pytest.mark.parametrize(
    ("body", "verdict", "why"),
    [
        (loop(ONE.format("x0", "x0")), "PROVED", ""),
        (loop(LOAD.format("x0") + STORE.format("x0"), step=16), "PROVED", ""),
        # The same element in other words, over another order, and two halves that do not overlap.
        (loop(ONE.format("x0", TURNED)), "PROVED", ""),
        (loop(ROWS + "{" + ONE.format("x1 + 8L*x0", "x1 + 8L*x0") + "}", 8), "PROVED", ""),
        (loop(ONE.format("x0", "32L + x0"), 32), "PROVED", ""),
        (loop(ONE.format("2L*x0", "1L + 2L*x0"), 32), "PROVED", ""),
        # A tail in vectors beside the main loop, in a branch that never overlaps it.
        (
            loop(
                "if(C10_LIKELY(x0 >= 0 && x0 < 48L)) {" + LOAD.format("x0") + STORE.format("x0") + "} if(C10_UNLIKELY("
                "x0 >= 48L && x0 < 50L)) {" + LOAD.format("x0").replace("(16)", "(2)")
                + STORE.format("x0").replace("))", "), static_cast<int64_t>(2))") + "}", 50, 16,
            ),
            "PROVED", "",
        ),
        # A second nest reads what the first has written, by another name.
        ("    auto out_ptr0 = in_out_ptr0;\n" + loop(ONE.format("x0", "x0")) * 2
         + loop("in_out_ptr0[x0] = out_ptr0[63L + ((-1L)*x0)];", 1), "PROVED", ""),
        # A later iteration reads what an earlier one has overwritten.
        (loop(ONE.format("1L + x0", "x0"), 63), "REFUTED", "is overwritten before a later iteration reads it"),
        (loop(ONE.format("x0", "63L + ((-1L)*x0)")), "REFUTED", "is overwritten before"),
        (loop(LOAD.format("(-16L) + x0 + 16L") + STORE.format("8L + x0"), 48, 16), "REFUTED", "is overwritten before"),
        # An earlier one does, or it is not known.
        (loop(ONE.format("x0", "1L + x0"), 63), "UNKNOWN", "not shown to be those of one iteration"),
        ("    #pragma omp parallel num_threads(2)\n    #pragma omp for\n" + loop(ONE.format("1L + x0", "x0"), 63),
         "UNKNOWN", "not shown"),
        ("    #pragma omp parallel num_threads(2)\n" + loop(ONE.format("x0", "x0")), "UNKNOWN", "share no loop"),
        (loop("auto tmp9 = in_out_ptr0[x0]; " + ONE.format("x0", "static_cast<int64_t>(tmp9)")), "UNKNOWN",
         "not shown"),
        (loop(ONE.format("x0", "x0*x0")), "UNKNOWN", "not shown"),
        (loop("in_out_ptr0[0L] = in_out_ptr0[0L];"), "REFUTED", "element 0 is overwritten before"),
        (loop("in_out_ptr0[x0] = 1.0; auto tmp1 = in_out_ptr0[x0];"), "UNKNOWN", "in another order than in place"),
        # What is not in the grammar.
        (loop("novel(1);"), "UNKNOWN", "the name novel"),
        (loop("auto& a = in_out_ptr0[x0];"), "UNKNOWN", "the name a"),
        (loop("std::memcpy(in_out_ptr0, in_out_ptr0 + 1, 4);"), "UNKNOWN", "std::memcpy"),
        (loop("auto p = in_out_ptr0 + 1;"), "UNKNOWN", "in a form that is not known"),
        (loop("x0 += 3;"), "UNKNOWN", "a counter x0 that changes in its loop"),
        (loop("auto tmp1 = atomic_add(&x0, 3);"), "UNKNOWN", "the address of x0"),
        ("    #define loadu novel\n" + loop(ONE.format("x0", "x0")), "UNKNOWN", "the directive"),
        ("    for(;;) {}", "UNKNOWN", "a loop without a counter of its own"),
        ("    for(int64_t x0=0; x0<8L; x0+=x0) {}", "UNKNOWN", "the name x0"),
        ("    " + "{" * 300 + "}" * 300, "UNKNOWN", "nest too deeply"),
        ("    while(1) {}", "UNKNOWN", ""),
        ("    } void f() {", "UNKNOWN", "behind the kernel"),
        ("    {", "UNKNOWN", "an end within the kernel"),
        ("    float a = `1`;", "UNKNOWN", "the sign `"),
        # Another language of parts.
        ("    transpose_mxn<float,static_cast<int64_t>(8),static_cast<int64_t>(8),false>(in_out_ptr0 + 0L, "
         "static_cast<int64_t>(8L), tmp0, static_cast<int64_t>(8));", "UNKNOWN", "the name tmp0"),
    ],
)  # fmt: skip
def test_a_kernel_in_cpp_is_in_place_if_its_text_shows_it(body: str, verdict: str, why: str) -> None:
    """spec: FP8.11, FP8.12, FP8.13"""
    found = judged(CPP.format("float* in_out_ptr0", body), "buf1 = buf0  # reuse\nk(buf1)")
    assert found[0] == verdict, found
    assert why in found[1]


def triton(body: str, parameters: str = "in_out_ptr0", changed: str = "", before: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    return TRITON.format(before, changed, parameters, lines)


HELPER = "@triton.jit\ndef _helper(a, b):\n    {}\n    return b"
KEEP = "tmp0 = tl.load(in_out_ptr0 + ({}), xmask)\ntl.store(in_out_ptr0 + ({}), tmp0 + 1.0, xmask)"
ROWS_OF = (
    "r0_base = tl.arange(0, R0_BLOCK)[None, :]\nfor r0_offset in tl.range(0, 16, R0_BLOCK):\n"
    "    r0_index = r0_offset + r0_base\n    r0_1 = r0_index\n    tmp1 = tl.load(in_out_ptr0 + ({}), xmask)\n"
    "    tl.store(in_out_ptr0 + ({}), tmp1, xmask)"
)


@pytest.mark.parametrize(
    ("kernel", "verdict", "why"),
    [
        (triton(KEEP.format("x2", "x2")), "PROVED", ""),
        (triton(KEEP.format("x0 + 8*x1", "x2")), "PROVED", ""),
        (triton(KEEP.format("x2", "x2"), before=HELPER.format("c = a + b")), "PROVED", ""),
        (triton(ROWS_OF.format("r0_1 + 16*x2", "r0_1 + 16*x2"), "in_out_ptr0, R0_BLOCK : tl.constexpr"), "PROVED", ""),
        (triton("tl.atomic_add(in_out_ptr0 + (x2), 1.0, xmask)"), "PROVED", ""),
        (triton(KEEP.format("x2 + 1", "x2")), "UNKNOWN", "not shown to be those of one iteration"),
        (triton(KEEP.format("x1 + 8*x0", "x2")), "UNKNOWN", "not shown to be those of one iteration"),
        (triton(ROWS_OF.format("r0_1 + 15*x2", "r0_1 + 15*x2"), "in_out_ptr0, R0_BLOCK : tl.constexpr"), "UNKNOWN", ""),
        (triton("tl.store(in_out_ptr0 + (x2), 1.0)\ntmp0 = tl.load(in_out_ptr0 + (x2))"), "UNKNOWN", "another order"),
        (triton("tmp0 = novel(x2)"), "UNKNOWN", "a call of novel"),
        (triton("tmp0 = tl.load(tl.make_block_ptr(in_out_ptr0))"), "UNKNOWN",
         "in_out_ptr0 in a form that is not known"),
        (triton("tmp0 = in_out_ptr0.to(tl.int64)"), "UNKNOWN", "in_out_ptr0 in a form that is not known"),
        (triton("tmp0 = tl.load(x2)"), "UNKNOWN", "tl.load of something other than a parameter"),
        (triton("tmp0 = unknown"), "UNKNOWN", "the name unknown"),
        (triton("if x2:\n    pass"), "UNKNOWN", "the statement If"),
        (triton("tmp0, x[0] = x2"), "UNKNOWN", "an assignment to something other than a name"),
        (triton("tmp0 = lambda: 1"), "UNKNOWN", "the expression Lambda"),
        (triton("for i in x2():\n    pass"), "UNKNOWN", "a loop over no range"),
        (triton("pass", before="import novel"), "UNKNOWN", "an import of novel"),
        (triton("pass", before="novel()"), "UNKNOWN", "Expr outside of the kernel"),
        (triton("pass", before="@novel\ndef f(a):\n    return a"), "UNKNOWN", "the decorator novel"),
        (triton("pass", before=HELPER.format("c = d")), "UNKNOWN", "the name d in _helper"),
        (triton("pass", before=HELPER.format("c = tl.load(a)")), "UNKNOWN", "an access in _helper"),
        # No block of a program: programs may do the same.
        (triton("pid = tl.program_id(0)\n" + KEEP.format("pid", "pid")), "UNKNOWN", "not shown"),
    ],
)  # fmt: skip
def test_a_kernel_in_triton_is_in_place_if_its_text_shows_it(kernel: str, verdict: str, why: str) -> None:
    """spec: FP8.11, FP8.13"""
    found = judged(kernel, "buf1 = buf0  # reuse\nk.run(buf1, 64, stream=0)")
    assert found[0] == verdict, found
    assert why in found[1]


NEW = "buf1 = alloc_from_pool(pool0, 256, torch.float32, (64, ), (1, ))\n"
TWO = "const float* in_ptr0, float* out_ptr0"
USERS = triton("pass", "x_ptr, y_ptr", "'y_ptr'").replace("pointwise", "user_autotune")


@pytest.mark.parametrize(
    ("kernel", "body", "verdict", "why"),
    [
        # One buffer by two parameters: the same element, another one, another part of it, elements of two sizes.
        (CPP.format(TWO, loop("out_ptr0[x0] = in_ptr0[x0];")), "k(buf0, buf0)\n" + NEW + "copies(buf0, buf1)",
         "PROVED", ""),
        (CPP.format(TWO, loop("out_ptr0[x0] = in_ptr0[1L + x0];", 63)), "k(buf0, buf0)\n" + NEW + "copies(buf0, buf1)",
         "UNKNOWN", "buf0 in place"),
        (CPP.format(TWO, loop("out_ptr0[x0] = in_ptr0[x0];", 32)),
         "k(buf0, reinterpret_tensor(buf0, (32, ), (1, ), 32))\n" + NEW + "copies(buf0, buf1)", "PROVED", ""),
        (CPP.format(TWO, loop("out_ptr0[x0] = in_ptr0[x0];", 33)),
         "k(buf0, reinterpret_tensor(buf0, (32, ), (1, ), 32))\n" + NEW + "copies(buf0, buf1)", "UNKNOWN",
          "buf0 in place"),
        (CPP.format("const double* in_ptr0, float* out_ptr0", loop("out_ptr0[x0] = in_ptr0[x0];", 32)),
         "k(buf0, buf0)\n" + NEW + "copies(buf0, buf1)", "UNKNOWN", "elements of different sizes"),
        # What the text stores is written, and what it reads first must be there.
        (triton("tl.store(in_ptr0 + (x2), 1.0, xmask)", "in_ptr0"), NEW + "k.run(buf1, 64, stream=0)", "PROVED", ""),
        (CPP.format("float* out_ptr0", loop("auto tmp0 = out_ptr0[x0]; out_ptr0[x0] = tmp0;")), NEW + "k(buf1)",
         "REFUTED", ""),
        (CPP.format("float* out_ptr0", loop("atomic_add(&out_ptr0[0L], 1);")), "k(buf0)\n" + NEW + "copies(buf0, buf1)",
         "PROVED", ""),
        # Kernels of the user, and what is passed to a kernel.
        (USERS, NEW + "k.run(buf0, buf1, 64, stream=0)", "PROVED", ""),
        (USERS.replace("'mutated_arg_names': ['y_ptr']", ""), NEW + "k.run(buf0, buf1, 64, stream=0)", "REFUTED",
         "no mutated_arg_names is stated"),
        (USERS, NEW + "k.run(buf0, buf1, 64, buf0, stream=0)", "refused", "takes 3 operands"),
        (USERS, NEW + "k.run(buf0, buf1, stream=0)", "refused", "xnumel is not given"),
        (USERS, NEW + "k.run(buf0, buf1, 64, stream=buf0)", "refused", "is given a buffer as stream"),
        (USERS, NEW + "k.run(buf0, buf1, 64, novel=0)", "refused", "has no operand novel"),
        (USERS, NEW + "k.run(buf0, 64, 64)", "refused", "writes y_ptr, which is not a buffer"),
        ("", NEW + "copies(arg0_1, buf1, buf0)", "refused", "takes 2 operands, got 3"),
        ("", NEW + "copies(arg0_1, in_ptr0=buf1)", "refused", "or has it twice"),
        ("", NEW + "copies(out_ptr0=buf1, in_ptr0=buf0)", "PROVED", ""),
        # How kernels are compiled.
        ("k = async_compile.cpp_pybinding([], 'int x;', novel='1')\n", NEW, "refused", "compiled with novel"),
        ("k = async_compile.novel('extern \"C\" void kernel(){ }')\n", NEW, "refused", "without a signature"),
        ("k = async_compile.cpp_pybinding(['float*', 'int'], 'extern \"C\" void kernel(float* a){ }')\n",
         NEW, "refused",
         "as many types"),
        ("k = async_compile.triton('other', 'def k(a): pass')\n", NEW, "refused", "with one kernel other"),
        ("k = async_compile.triton('k', 'def k(*a): pass')\n", NEW, "refused", "parameters in a form"),
    ],
)  # fmt: skip
def test_what_is_passed_to_a_kernel_is_accounted_for(kernel: str, body: str, verdict: str, why: str) -> None:
    """spec: FP8.4, FP8.11, FP8.14"""
    if verdict == "PROVED" and body.startswith(NEW) and not body.endswith(")"):
        body += "copies(buf0, buf1)"
    found = judged(kernel, body)
    assert found[0] == verdict, found
    assert why in found[1]


GATHER = "buf2 = torch.ops._c10d_functional.all_gather_into_tensor.default(buf0, 2, '0')\n"
WAIT = "buf3 = torch.ops._c10d_functional.wait_tensor.default(buf2)\n"
IN_PLACE = "torch.ops._c10d_functional.all_reduce_.default(buf0, 'sum', '0')\n"
OVER = "buf4 = alloc_from_pool(pool0, 0, torch.float32, (64, ), (1, ))\ncopies(arg0_1, buf4)\n"

BRANCHES = "if arg0_1.item():\n    copies(arg0_1, buf0)\nelse:\n    copies(arg0_1, buf0)\n"


@pytest.mark.parametrize(
    ("body", "verdict", "why"),
    [
        (GATHER + WAIT + OVER + NEW + "copies(buf3, buf1)", "PROVED", ""),
        (GATHER + OVER + WAIT + NEW + "copies(buf3, buf1)", "REFUTED", ""),
        (GATHER + "copies(arg0_1, buf0)\n" + WAIT + NEW + "copies(buf3, buf1)", "REFUTED", ""),
        (GATHER + NEW + "copies(buf2, buf1)\n" + WAIT, "REFUTED", ""),
        (GATHER + NEW + "copies(arg0_1, buf1)", "UNKNOWN", "is not waited for"),
        (IN_PLACE + WAIT.replace("buf2", "buf0") + NEW + "copies(buf3, buf1)", "PROVED", ""),
        (IN_PLACE + NEW + "copies(buf0, buf1)\n" + WAIT.replace("buf2", "buf0"), "REFUTED", ""),
        # Two at once, which both read what they are given.
        (GATHER + GATHER.replace("buf2", "buf5") + WAIT + WAIT.replace("2", "5") + NEW + "copies(buf3, buf1)",
         "PROVED", ""),
        # Branches are barriers in the plan, and not in the program.
        (GATHER + BRANCHES + WAIT + NEW + "copies(buf3, buf1)", "UNKNOWN", "that still runs"),
        (GATHER.replace("'0')", "'0', out=buf0)").replace("(buf0, 2", "(arg0_1, 2") + WAIT + NEW + "copies(buf3, buf1)",
         "PROVED", ""),
    ],
)  # fmt: skip
def test_a_collective_runs_until_its_result_is_waited_for(body: str, verdict: str, why: str) -> None:
    """spec: FP8.15, X5.8"""
    found = judged("", body)
    assert found[0] == verdict, found
    assert why in found[1]


@pytest.mark.parametrize(
    ("body", "verdict", "why"),
    [
        # Receivers are written, and overloads do not hide what an operator does.
        (OVER.replace("copies(arg0_1, buf4)", "buf4[0] = arg0_1") + "copies(buf0, buf1)", "REFUTED", ""),
        *((OVER.replace("copies(arg0_1, buf4)", line) + "copies(buf0, buf1)", "REFUTED", "") for line in (
            "buf4.copy_(arg0_1)", "buf4.data.copy_(arg0_1)", "[buf4][0].copy_(arg0_1)", "buf4.view(8, 8).copy_(arg0_1)",
            "torch.ops.aten.bernoulli_.float(buf4, 0.5)", "aten.copy_.default(buf4, arg0_1)", "buf4.as_strided((1, ), "
            "(1, ), 0).zero_()", "torch._foreach_zero_([buf4])", "buf4[0].copy_(arg0_1)",
            "aten.copy_.default(self=buf4, src=arg0_1)",
        )),
        # A view in elements of another type has their width.
        ("buf2 = aten.view.dtype(buf0, torch.float64)\nbuf3 = reinterpret_tensor(buf2, (64, ), (1, ), 0)\n"
         "copies(buf3, buf1)", "REFUTED", ""),
        ("buf2 = buf0.view(torch.int32)\nbuf3 = reinterpret_tensor(buf2, (64, ), (1, ), 0)\ncopies(buf3, buf1)",
         "PROVED", ""),
        # What reads, and what says nothing.
        ("u0 = buf0.item()\nu1 = 1 if u0 else -u0\nu2 = int(u0) + 1\nn = buf0.size()\ncopies(buf0.contiguous(), buf1)",
         "PROVED", ""),
        ("event = torch.Event()\nevent.record()\nevent.synchronize()\ns = buf0.shape\ncopies(buf0, buf1)", "PROVED",
         ""),
        # Other libraries, and operators of which more is changed than they say.
        ("torch.ops.novel.op.default(buf0)\ncopies(buf0, buf1)", "UNKNOWN", "torch.ops.novel.op.default"),
        ("buf2 = aten.native_batch_norm.default(buf0)\ncopies(buf0, buf1)", "UNKNOWN", "native_batch_norm"),
        *((f"{line}\ncopies(buf0, buf1)", "refused", what) for line, what in (
            ("novel(buf0)", "a call of novel"), ("buf0(1)", "a call of buf0"), ("buf0.novel()", "the method novel"),
            ("[buf0][-1].copy_(arg0_1)", "counted from the end"),
            ("buf0.set_(buf1)", "the method set_"), ("x = buf0.novel", "the attribute novel"), ("copies(*[buf0])",
             "with *"),
            ("copies(**buf0)", "with *"), ("buf0[novel(1)] = buf0", "a call of novel"),
             ("x = [buf0 for a in arg0_1]", "an expression"),
            ("x = y = buf0", "an assignment"), ("raise buf0", "an assignment"), ("global x", "an assignment"),
            ("x = buf0; y = buf0", "two statements on a line"), ("return (buf0, )", "behind a return"),
            ("x = alloc_from_pool(pool0, 0, torch.float32, (1, ), (1, ), novel=buf0)", "a pool"),
            ("x = empty_strided_cpu((1, ), (1, ), torch.float32, novel=buf0)", "a shape"),
            ("x = reinterpret_tensor(buf0, (1, ), (1, ), 0, novel=buf0)", "a buffer"), ("l = []\nl[buf0] = buf0",
             "an item"),
            ("with torch.cuda.stream(1):\n        pass", "an assignment"),
            ("x = self.partitions[0]([buf0])", "partition_0"),
        )),
    ],
)  # fmt: skip
def test_a_call_is_known_refused_or_undecided(body: str, verdict: str, why: str) -> None:
    """spec: FP8.6, FP8.15, FP8.16"""
    found = judged("", NEW + body)
    assert found[0] == verdict, found
    assert why in found[1]


@pytest.mark.parametrize(
    "statement",
    [
        "import novel", "from torch import *", "novel()", "class Runner:\n    x = 1", "class Novel:\n    pass",
        "def novel(a, b):\n    return a", "@novel\ndef f(args):\n    return ()", "def f(args=()):\n    return ()",
        "class Runner:\n    def __init__(self, partitions):\n        novel()", "alloc_from_pool = torch.novel",
        "reinterpret_tensor = None", "copies = None", "x = novel.y", "x = lambda: 1", "x = torch.zeros(1)", "del torch",
        "for a in ():\n    pass", "def get_raw_stream(_):\n    return novel()", "runner = Runner(partitions=[1])",
        "def align(args):\n    return ()",
    ],
)  # fmt: skip
def test_a_statement_outside_of_functions_is_known_or_refused(statement: str) -> None:
    """spec: FP8.16"""
    assert judged(f"{statement}\n", f"{NEW}copies(buf0, buf1)")[0] == "refused"
    assert judged("x = None\ny = {'a': [1, -2]}\nz = torch.float32\n", f"{NEW}copies(buf0, buf1)")[0] == "PROVED"


def test_partitions_that_are_called_are_steps_of_the_call() -> None:
    """spec: FP8.8"""
    part = "def partition_0(args):\n    x, = args\n    args.clear()\n    return (x, )\n"
    runner = (
        "class Runner:\n    def __init__(self, partitions):\n        self.partitions = partitions\n"
        "runner = Runner(partitions=[partition_0,])\n"
    )
    body = NEW + "copies(buf0, buf1)\npartition0_args = [buf1]\n(buf2,) = self.partitions[0](partition0_args)"
    assert judged(part + runner, body, "buf2")[0] == "PROVED"


def test_elements_are_compared_by_range_and_by_stride() -> None:
    """spec: FP8.12"""
    x = IndexVariable(0, 64)
    row = quotient(as_linear(x), 8)

    def at(index: Linear, lanes: int = 1) -> KernelAccess:
        return KernelAccess("p", index, lanes, True, True, (), 0, {}, 1)

    columns = as_linear(x) + row.times(8)  # x mod 8 + 16·⌊x / 8⌋
    assert is_disjoint(at(columns), at(columns + Linear(8)))
    assert not is_disjoint(at(columns), at(columns + Linear(7)))
    assert not is_disjoint(at(columns), at(columns + Linear(8), 9))
    assert is_disjoint(at(as_linear(x)), at(as_linear(x) + Linear(64)))
