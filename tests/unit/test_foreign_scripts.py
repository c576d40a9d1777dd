"""Plans in Python text: Relax scripts and Inductor's wrappers, what is read of them, and what is refused.

spec: FP7.1 to FP7.9, FP8.1 to FP8.10
"""

from __future__ import annotations

import pytest

from proofs.readers.plans import inductor, relax, script
from proofs.readers.plans.foreign_plan import ForeignPlan
from tests.support.three_checks import by_the_checker
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.plans.sections import Plan

KERNEL = """
    @T.prim_func
    def {name}(A: T.Buffer((T.int64({n}),), "float32"), var_B: T.handle):
        B = T.match_buffer(var_B, (T.int64({n}),))
        for i in range({n}):
            with T.sblock("b"):
                {body}
"""
COPY = KERNEL.format(name="copy", n=4, body="B[i] = A[i]")
FOUR = 'R.shape([4]), R.dtype("float32"), 0)'
HEAD = f"""
        storage = R.memory.alloc_storage(R.shape([16]), 0, R.str("global"), R.dtype("uint8"))
        other = R.memory.alloc_storage(R.shape([32]), 0, R.str("global"), R.dtype("uint8"))
        a = R.memory.alloc_tensor(storage, 0, {FOUR}
        b = R.memory.alloc_tensor(other, 0, {FOUR}
        c = R.memory.alloc_tensor(storage, 0, {FOUR}
        d = R.memory.alloc_tensor(other, 16, {FOUR}
"""


def module(body: str, kernels: str = COPY, more: str = "", head: str = HEAD) -> str:
    """A script of one function whose lines are `body`."""
    lines = "\n".join(f"        {line}" for line in body.strip().split("\n"))
    return (
        "# from tvm.script import ir as I\n@I.ir_module\nclass Module:"
        + kernels
        + '    @R.function\n    def main(x: R.Tensor((4,), dtype="float32"), '
        't: R.Tuple(R.Tensor((2, 2), dtype="float16"), '
        f"R.Object)):\n        cls = Module{head}{lines}\n{more}"
    )


def read(text: str) -> ForeignPlan:
    return relax.read(Source("m.relax", text.encode()))


def plan_of(found: ForeignPlan) -> Plan:
    assert isinstance(found.plan, Plan)
    return found.plan


def judged(found: ForeignPlan) -> set[str]:
    """The obligations that the naive checker sees broken."""
    return by_the_checker(plan_of(found), None, frozenset(found.reading.donated))


def steps(found: ForeignPlan) -> list[tuple[str, list[str], list[str], list[str]]]:
    """Each step with the names that it reads, writes and changes."""
    allocation = plan_of(found).allocation
    names = allocation.tensors.name
    lists = [allocation.steps.listed(which) for which in ("reads", "writes", "mutates")]
    rows = [[sorted(names[t] for t in row) for row in listed] for listed in lists]
    return list(zip(allocation.steps.node, *rows, strict=True))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("cls.copy(a, B=b)", "cls.copy has the keyword B, which is not read"),
        ("cls.copy(**t)", r"cls.copy has operands by \*\*"),
        ('v: R.Tensor((4,), dtype="float32") = R.call_packed("f", a, out=b)', "R.call_packed has the keyword out"),
        (
            'v: R.Tensor((4,), dtype="float32") = R.call_packed("f", a, ty_args=(b,))',
            "R.call_packed has the keyword ty_args",
        ),
        ("with T.attr(a, 1):\n    cls.copy(a, b)", r"expected a block of R.dataflow\(\)"),
        ("a[0] = b", "a statement of Relax was expected, got Assign"),
        ("del a", "a statement of Relax was expected, got Delete"),
        ("cls.copy(a, *t)", "an expression of Relax was expected, got Starred"),
    ],
)
def test_what_is_not_accounted_for_in_a_line_is_refused(line: str, what: str) -> None:
    """spec: FP1.15"""
    with pytest.raises(TmmuError, match=what) as refused:
        read(module(f"cls.copy(x, a)\n{line}\nreturn a"))
    assert str(refused.value.place).startswith("line ")


def test_a_buffer_that_a_kernel_hands_to_any_call_may_be_written() -> None:
    """Also by keyword. spec: FP1.15, FP7.4"""
    for call in ("T.evaluate(T.call_extern(B))", "T.store(A, buffer=B)"):
        kernel = KERNEL.format(name="copy", n=4, body=call)
        assert "copy" in str(read(module("cls.copy(x, a)\nreturn a", kernel)).reading.assumptions)


CHANGED = {"sharing_is_sound", "inputs_kept"}
META = 'metadata["ir.GenericConst"][0]'
CHAIN = "cls.copy(x, a)\ncls.copy(a, b)\ncls.copy(b, c)\ncls.copy(c, d)\nreturn d"


@pytest.mark.parametrize(
    ("body", "kernels", "broken"),
    [
        (CHAIN, COPY, set()),
        # a is read when c is in its storage.
        (CHAIN.replace("copy(c, d)", "copy(a, d)"), COPY, {"no_live_overlap", "sharing_is_sound"}),
        # Names of a: a binding, a cast, a tuple, a call that reshapes, one that may hand it on.
        *(
            (
                "cls.copy(x, a)\n" + f"y = {value}\ncls.copy(a, b)\ncls.copy(b, c)\ncls.copy({use}, d)\nreturn d",
                COPY,
                {"no_live_overlap", "sharing_is_sound"},
            )
            for value, use in (
                ("a", "y"),
                ('R.match_cast(a, R.Tensor((4,), dtype="float32"))', "y"),
                ("(x, (a, b))", "y[1][0]"),
                ('R.call_packed("vm.builtin.reshape", a, R.shape([2, 2]))', "y"),
                ("R.reshape(a, R.shape([4]))", "y"),
                ('R.call_packed("someones.identity", a)', "y"),
                ("cls.other(a)", "y"),
                ("R.tuple(x, a)", "y[1]"),
            )
        ),
        # The kernel's buffers are of 8 elements: it is another program's plan.
        (CHAIN, KERNEL.format(name="copy", n=8, body="B[i] = A[i]"), {"capacity"}),
        # A cast states more bytes than there are.
        ('cls.copy(x, a)\ny = R.match_cast(a, R.Tensor((5,), dtype="float32"))\nreturn a', COPY, {"capacity"}),
        # Nothing writes a.
        ("cls.copy(a, b)\nreturn b", COPY, {"lifetimes_cover_accesses"}),
        # The kernel stores into its first buffer, or into both, by what T.writes states.
        (CHAIN, KERNEL.format(name="copy", n=4, body="A[i] = B[i]"), {"lifetimes_cover_accesses", *CHANGED}),
        # A view of an argument is written: the caller finds it changed.
        ("cls.copy(x, a)\ny = R.reshape(x, R.shape([4]))\ncls.copy(a, y)\nreturn a", COPY, CHANGED),
        # A constant is read by all, and written by none, whatever it is called.
        (f"k = {META}\n" + CHAIN.replace("(x, a)", "(k, a)"), COPY, set()),
        (f"k = {META}\nt = (k, x)\ncls.copy(x, a)\ncls.copy(a, t[0])\nreturn a", COPY, CHANGED),
        ("cls.copy(x, a)\nk = R.const([1.0])\ncls.copy(a, k)\nreturn a", COPY, CHANGED),
        (CHAIN, KERNEL.format(name="copy", n=4, body="T.writes(B[i])"), set()),
        # Some sources print predicated stores as calls.
        (
            CHAIN,
            KERNEL.format(name="copy", n=4, body="B.vstore([T.Ramp(0, 1, 4)], A.vload([0]), predicate=True)"),
            set(),
        ),
        (
            CHAIN,
            KERNEL.format(name="copy", n=4, body="A.vstore([T.Ramp(0, 1, 4)], B[i], predicate=True)"),
            {"lifetimes_cover_accesses", *CHANGED},
        ),
        # Other code is handed b's address, and writes what nothing has written.
        (CHAIN, KERNEL.format(name="copy", n=4, body="T.call_extern(T.address_of(B[0]), A[i])"), set()),
        (CHAIN, KERNEL.format(name="copy", n=4, body="T.call_extern(B.data, A[i])"), set()),
    ],
)
def test_a_script_has_the_faults_of_its_pointers_and_kernels(body: str, kernels: str, broken: set[str]) -> None:
    """spec: FP7.2, FP7.3, FP7.4, FP7.5, FP7.6, FP7.11, FP7.12, Z1.4"""
    other = '    @R.function\n    def other(z: R.Tensor((4,), dtype="float32")):\n        return z\n'
    text = module(body, kernels, other if "cls.other" in body else "")
    assert judged(read(text)) == broken


LIVE = {"no_live_overlap", "sharing_is_sound"}
UNWRITTEN = "lifetimes_cover_accesses"


def branch(first: str, second: str, behind: str, before: str = "") -> str:
    """An If of two arms of a few lines each, and what stands around it."""
    inner = ("\n".join(f"    {line}" for line in arm.split("\n")) for arm in (first, second))
    return before + "if x:\n{}\nelse:\n{}\n".format(*inner) + behind


AT_8 = f"R.memory.alloc_tensor(other, 8, {FOUR}"
KILL = "\nR.memory.kill_tensor(a)"
THEN, ELSE = "cls.copy(x, a)\ne = a", "cls.copy(x, c)\ne = c"
RIGHT = [
    # The results of both arms in one storage, in another one each, in tuples, of one arm alone.
    branch(THEN, ELSE, "cls.copy(e, d)\nreturn d"),
    branch(THEN, ELSE, "cls.copy(e, d)\nreturn (d, e)"),
    branch(THEN, "cls.copy(x, b)\ne = b", "cls.copy(e, d)\nreturn d"),
    branch("cls.copy(x, a)\ne = (a, x)", "cls.copy(x, c)\ne = (c, t[0])", "cls.copy(e[0], d)\nreturn d"),
    branch("cls.copy(x, a)\ne = (a, x)", "e = x", "cls.copy(e[0], d)\nreturn d"),
    # Each overlaps with the other in part, and is kept with it.
    branch("cls.copy(x, b)\ne = b", f"f = {AT_8}\ncls.copy(x, f)\ne = f", "cls.copy(e, a)\nreturn a"),
    # A name of either arm that is not used behind both keeps nothing, nor one that is bound anew.
    branch("cls.copy(x, a)\ne = a\ncls.copy(x, c)", ELSE, "e = x\nreturn x"),
    branch("cls.copy(x, a)\ne = a\ncls.copy(e, b)\ncls.copy(x, c)", ELSE, "return x"),
    branch(THEN, ELSE, "cls.copy(x, a)\nreturn a"),
    # A tensor of before that both arms write, or one alone before it is written anew.
    branch("cls.copy(x, a)", "cls.copy(x, a)", "cls.copy(a, d)\nreturn d"),
    branch("cls.copy(x, a)\ncls.copy(a, d)", "pass", "cls.copy(x, a)\nreturn a"),
    # Bytes that nothing behind reads; a tensor that either arm kills.
    branch("cls.copy(x, c)", "cls.copy(x, c)", "return x", "cls.copy(x, a)\n"),
    branch("cls.copy(a, b)" + KILL, "cls.copy(a, d)" + KILL, "return x", "cls.copy(x, a)\n"),
    # A name that was killed and is bound anew.
    "R.memory.kill_tensor(x)\nx = t\nR.memory.kill_tensor(t)\nt: R.Object = x\nreturn (x, t)",
    # Ifs in an arm.
    branch(branch(THEN, ELSE, "pass"), ELSE, "cls.copy(e, d)\nreturn d"),
    branch(branch("cls.copy(x, a)", "cls.copy(x, a)", "pass"), "cls.copy(x, a)", "return a"),
]
OVER = [
    # Over what either arm has made, and what both find and is read behind.
    *(
        branch(THEN, ELSE, f"{taken}cls.copy(e, d)\nreturn d")
        for taken in (f"f = R.memory.alloc_tensor(storage, 0, {FOUR}\ncls.copy(x, f)\n",)
    ),
    branch(THEN, "cls.copy(x, b)\ne = b", "cls.copy(x, c)\ncls.copy(e, d)\nreturn d"),
    branch("cls.copy(x, c)", "pass", "cls.copy(a, d)\nreturn d", "cls.copy(x, a)\n"),
    branch("pass", "cls.copy(x, c)", "cls.copy(a, d)\nreturn d", "cls.copy(x, a)\n"),
    # At the end of its own arm a result is not there any more.
    branch("cls.copy(x, a)\ncls.copy(x, c)\ne = a", ELSE, "cls.copy(e, d)\nreturn d"),
]
IN_ONE_ARM = [
    branch("cls.copy(x, a)", "pass", "cls.copy(a, d)\nreturn d"),
    branch("pass", "cls.copy(x, a)", "cls.copy(a, d)\nreturn d"),
    branch("cls.copy(x, a)", "cls.copy(a, d)", "return x"),
    branch(THEN, "e = a", "cls.copy(e, d)\nreturn d"),
    branch(branch("cls.copy(x, a)", "pass", "pass"), "cls.copy(x, a)", "return a"),
]


@pytest.mark.parametrize(
    ("body", "broken"), [(body, k) for k, bodies in enumerate((RIGHT, OVER, IN_ONE_ARM)) for body in bodies]
)
def test_arms_of_an_if_are_exclusive(body: str, broken: int) -> None:
    """spec: FP7.5, FP7.10"""
    found = judged(read(module(body)))
    assert found - LIVE == ({UNWRITTEN} if broken == 2 else set())
    assert bool(found) == bool(broken)


def test_bytes_of_either_arm_are_one_cell_where_they_meet() -> None:
    """spec: FP7.10"""
    found = read(module(branch(THEN, ELSE, "cls.copy(e, d)\nreturn d")))
    assert steps(found) == [
        ("if", ["x"], [], []), ("copy", ["x"], ["a"], []), ("if, end of arm 0", ["a"], [], []),
        ("copy #2", ["x"], ["c"], []), ("if, end of arm 1", ["c"], [], []), ("if", [], [], []),
        ("if, results", [], ["a of either arm"], []), ("copy #3", ["a of either arm"], ["d"], []),
    ]  # fmt: skip
    assert found.reading.approximations == ("bytes of either arm are kept while a result is read: a of either arm",)


@pytest.mark.parametrize("is_behind", [True, False])
def test_what_one_arm_binds_is_not_there_where_it_did_not_run(is_behind: bool) -> None:
    """A storage of an arm that is used behind the If, as TVM plans it, and in the other arm. spec: FP7.9"""
    use = f"R.memory.alloc_tensor(inner, 0, {FOUR}"
    first = f"if x:\n    e = {use}\n    cls.copy(x, e)\n    f = e\nelse:\n    "
    then = f"f = x\nc = {use}\ncls.copy(f, c)\n" if is_behind else f"e = {use}\n    cls.copy(x, e)\n    f = e\nc = f\n"
    text = f"inner: R.Any\n{first}{then}return c"
    inside = text.replace("if x:", f"if x:\n    inner = {STORAGE}", 1)
    assert "lifetimes_cover_accesses" in judged(read(module(inside)))
    outside = text.replace("if x:", f"inner = {STORAGE}\nif x:", 1)
    assert "lifetimes_cover_accesses" not in judged(read(module(outside)))


def test_what_one_of_two_names_may_write_is_not_written_in_either() -> None:
    """Nothing says which; what both held before stays in part. spec: FP1.14"""
    one = branch("e = a", "e = b", "cls.copy(x, e)\ncls.copy(a, c)\nreturn c")
    assert UNWRITTEN in judged(read(module(one)))
    assert judged(read(module("cls.copy(x, a)\ncls.copy(x, b)\n" + one.replace("return c", "return b")))) <= LIVE
    both = "cls.copy(x, a)\ncls.copy(x, b)\n" + branch("e = a", "e = b", "cls.copy(x, e)\nreturn b")
    assert judged(read(module(both))) == set()


def test_functions_and_parameters_are_runs_and_memory_of_their_own() -> None:
    """spec: FP7.1, FP7.2"""
    given = "x: R.Tensor((n,), dtype='float32'), y: R.Tuple([R.Object])"
    second = f"    @R.function\n    def second({given}):\n        return x\n"
    found = read(module("cls.copy(x, a)\ncls.copy(t[0], b)\nreturn (a, b, t[1])", more=second))
    allocation = plan_of(found).allocation
    assert list(allocation.tensors.name) == [
        "main.x",
        "main.t[0]",
        "main.t[1]",
        "main.a",
        "main.b",
        "second.x",
        "second.y[0]",
    ]
    assert allocation.tensors.bytes.tolist() == [16, 16, 0, 16, 16, 0, 0]
    assert {"sizes of parameters", "calls between functions"} == set(found.reading.outside)


def test_a_symbolic_shape_takes_the_rest_of_its_storage() -> None:
    """spec: FP7.7"""
    found = read(
        module(
            "n = T.int64()\ne = R.memory.alloc_tensor(other, 8, R.shape([n]), R.dtype('float32'))\n"
            "cls.copy(x, e)\nreturn e"
        )
    )
    assert plan_of(found).allocation.tensors.bytes.tolist()[-1] == 24
    assert len(found.reading.approximations) == 1
    for size, args in ((0, "32, R.shape([n])"), (32, "0, R.shape([n, 4])")):
        text = (
            f"n = T.int64()\ne = R.memory.alloc_tensor(other, {args}, R.dtype('int8'))\nR.call_packed('f', e)\nreturn x"
        )
        names = plan_of(read(module(text))).allocation.tensors
        assert dict(zip(names.name, names.bytes.tolist(), strict=True))["e"] == size


def test_what_is_allocated_outside_of_storages_has_its_size_where_it_is_stated() -> None:
    """spec: FP7.2"""
    for args, size in (("R.shape([3]), R.dtype('int8')", 3), ("R.shape([n]), R.dtype('int8')", 0), ("R.shape([3])", 0)):
        found = read(module(f"e = R.builtin.alloc_tensor({args})\nR.call_packed('f', x, e)\nreturn e"))
        tensors = plan_of(found).allocation.tensors
        assert dict(zip(tensors.name, tensors.bytes.tolist(), strict=True))["e"] == size
        assert ("sizes of tensors in memory of their own" in found.reading.outside) == (size == 0)


@pytest.mark.parametrize(
    ("lines", "is_written"),
    [
        (("C = T.decl_buffer((4,), data=B.data)", "C[i] = A[i]"), True),
        (("C = T.Buffer((4,), data=B.data, strides=A.strides)", "C[i] = A[i]"), True),
        (("C = T.match_buffer(B[0], (4,))", "C[i] = A[i]"), True),
        (("C_1: T.handle = B.data", "C = T.Buffer((4,), data=C_1)", "C[i] = A[i]"), True),
        (("C = T.alloc_buffer((4,))", "C[i] = A[i]", "T.call_extern(B.data, C[i])"), False),
        (("D = T.allocate((4,))", "C = T.Buffer((4,), data=D)", "C[i] = A[i]", "T.call_extern(B.data)"), False),
        (("T.call_extern(B.data, A[i])",), False),
    ],
)
def test_other_names_of_a_buffer_are_the_buffer(lines: tuple[str, ...], is_written: bool) -> None:
    """A second call changes what the kernel stores into; what it hands on is then read. spec: FP7.3"""
    kernel = KERNEL.format(name="copy", n=4, body=("\n" + " " * 16).join(lines))
    found = steps(read(module("R.call_packed('f', x, a)\ncls.copy(x, a)\nreturn a", kernel)))
    assert found[1][3] == (["a"] if is_written else [])


def test_other_code_writes_what_nothing_has_written() -> None:
    """spec: FP7.6"""
    found = read(
        module(
            'R.call_packed("f", x, a)\nR.call_packed("f", a, b)\ny = R.call_tir(cls.g, (b,))\nreturn y', "\n"
        ).replace("R.call_tir(cls.g, ", "R.call_tir(")
    )
    assert steps(found) == [("f", ["x"], ["a"], []), ("f #2", ["a"], ["b"], []), ("R.call_tir", ["b"], ["y"], [])]
    assert any("f writes no operand" in what for what in found.reading.assumptions)
    assert found.reading.approximations == ()
    plain = "cls.copy(x, a)\nwith R.dataflow():\n    y = R.tuple(x, R.match_cast(a))\n    R.print(y)\nreturn y[1]"
    assert [name for name, *_ in steps(read(module(plain)))] == ["copy", "R.print"]


STORAGE = 'R.memory.alloc_storage(R.shape([16]), 0, R.str("global"), R.dtype("uint8"))'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("x = (", "line 1"),
        ("x = 1", None),
        ("\0", None),
        ("x = " + "(" * 300, "line 1"),
        ("-" * 100_000 + "1", None),
        ("a" + ".a" * 100_000, None),
        ("9" * 5000, "line 1"),
        ("\xff", None),
        (module("return x", head="\n"), None),
        (module("return y"), "line 19"),
        (module("del x"), "line 19"),
        (module("for i in x:\n    pass"), "line 19"),
        (module("y = lambda: x"), "line 19"),
        (module("cls.nowhere(x, a)"), "line 19"),
        (module("R.memory.kill_tensor(x)\nreturn x"), "line 20"),
        (module("R.memory.kill_tensor(x)\nR.memory.kill_storage(x)"), "line 20"),
        (module("R.vm.kill_object(1)"), "line 19"),
        (module(branch("R.memory.kill_tensor(x)", "pass", "return x")), "line 23"),
        (module(branch("pass", "R.memory.kill_tensor(x)", "return x")), "line 23"),
        (module("e = R.memory.alloc_tensor(other, 0)"), "line 19"),
        (module("with R.dataflow():\n" + "".join(f"{' ' * k}if x:\n" for k in range(1, 65)) + " " * 65 + "pass"), None),
        (module("e = R.memory.alloc_storage(R.shape([n]))"), "line 19"),
        (module("e = R.memory.alloc_storage()"), "line 19"),
        (module("e = R.memory.alloc_storage(R.shape([16, 2]))"), "line 19"),
        (module("e = R.memory.alloc_storage(R.shape([-16]))"), "line 19"),
        (module(f"e = R.memory.alloc_tensor(x, 0, {FOUR}"), "line 19"),
        (module(f"e = R.memory.alloc_tensor(other, n, {FOUR}"), "line 19"),
        (module(f"e = R.memory.alloc_tensor(other, -1, {FOUR}"), "line 19"),
        (module("e = R.memory.alloc_tensor()"), "line 19"),
        (module("e = R.memory.alloc_tensor(other, 0, R.shape([4]), R.dtype('x'))"), "line 19"),
        (module("e = R.memory.alloc_tensor(other, 0, R.shape([-4]), R.dtype('int8'))"), "line 19"),
        (module(f"e = R.memory.alloc_tensor(other, {2**64 - 4}, {FOUR}"), "line 19"),
        (module(f"e = R.memory.alloc_tensor(other, 0, R.shape([{2**63}, {2**63}]), R.dtype('int8'))"), "line 19"),
        (module("R.reshape()"), "line 19"),
        (module("return x", COPY + COPY), "line 12"),
        (module("if x:\n" + "".join(f"{' ' * k}if x:\n" for k in range(1, 70)) + " " * 70 + "pass"), None),
    ],
)
def test_what_is_no_script_is_refused_with_its_line(text: str, line: str | None) -> None:
    """spec: FP2.3, FP2.4, FP7.8"""
    with pytest.raises(TmmuError) as error:
        read(text)
    assert (error.value.code_id, error.value.file) == ("INVALID_PLAN", "m.relax")
    assert line is None or error.value.place == line


def test_a_script_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: FP2.2"""
    for limit, what in (("MAX_SCRIPT", "more than 100 bytes"), ("MAX_TOKENS", "more than 100 words")):
        monkeypatch.setattr(script, limit, 100)
        with pytest.raises(TmmuError, match=what):
            read(module(CHAIN))
        monkeypatch.undo()


def test_arms_of_nested_tuples_are_merged_in_linear_time() -> None:
    """spec: FP2.2, FP7.5"""
    doubled = [f"a{k} = (a{k - 1}, a{k - 1})\nb{k} = (b{k - 1}, b{k - 1})" for k in range(1, 60)]
    body = "\n".join(("cls.copy(x, a)\ncls.copy(x, b)\na0 = (a, b)\nb0 = (b, a)", *doubled))
    found = read(module(body + "\nif x:\n    y = a59\nelse:\n    y = b59\nreturn y"))
    assert judged(found) == set()


def test_a_memory_of_no_bytes_holds_nothing() -> None:
    """spec: FP7.2, FP2.4"""
    empty = f"e = {STORAGE.replace('16', '0')}\n"
    empty += "f = R.memory.alloc_tensor(e, 0, R.shape([0, 4]), R.dtype('int8'))\n{}return x"
    assert judged(read(module(empty.format("R.call_packed('g', x, f)\n")))) == set()
    for wrong in ("f = R.memory.alloc_tensor(e, 0, R.shape([1]), R.dtype('int8'))\n", "cls.copy(x, f)\n"):
        with pytest.raises(TmmuError, match="a memory of no bytes"):
            read(module(empty.format(wrong)))


C = "async_compile.cpp_pybinding([], r'''extern \"C\"  void  kernel({})\n{{ }}''')"
T = "async_compile.triton('t', '''\ndef t({}, xnumel, XBLOCK : tl.constexpr):\n    pass\n''')"
POOL = """
    pool0 = empty_strided_cpu((64, ), (1, ), torch.uint8)
    buf0 = alloc_from_pool(pool0, 0, torch.float32, (2, 4), (4, 1))
    buf1 = alloc_from_pool(pool0, 32, torch.float32, (8, ), (1, ))
"""


UNKNOWN = "copies(arg0_1, buf0)\nu0 = arg1_1.item()\nbuf2 = reinterpret_tensor(buf0, (1, ), (1, ), u0)\n"


def wrapper(body: str, pool: str = POOL, more: str = "") -> str:
    """A wrapper of one function whose lines are `body`."""
    lines, end = "\n".join(f"    {line}" for line in body.strip().split("\n")), "    return []\n"
    return (
        "# AOT ID: ['0_inference']\nimport torch\nfrom torch._inductor.select_algorithm import extern_kernels\n"
        "aten = torch.ops.aten\nalloc_from_pool = torch.ops.inductor._alloc_from_pool\n"
        f"copies = {C.format('const float* in_ptr0, float* out_ptr0')}\n"
        f"adds = {C.format('float* in_out_ptr0, const float* in_ptr0')}\n"
        f"tri = {T.format('in_ptr0, out_ptr0')}\n"
        f"def call(args):\n    arg0_1, arg1_1 = args\n    args.clear()\n    # 1\n{pool}{lines}\n"
        "def get_args():\n    arg0_1 = rand_strided((8, ), (1, ), device='cpu', dtype=torch.float32)\n"
        + (more + end if more.startswith(" ") else end + more)
    )


def wrapped(text: str) -> ForeignPlan:
    return inductor.read(Source("m.inductor", text.encode()))


@pytest.mark.parametrize(
    ("body", "broken"),
    [
        ("copies(arg0_1, buf0)\ncopies(buf0, buf1)\nreturn (buf1, )", set()),
        (
            "tri.run(arg0_1, buf0, 8, stream=stream0)\ntri.run(buf0, buf1, 8, stream=stream0)\nreturn (buf1, )".replace(
                ", stream=stream0", ""
            ),
            set(),
        ),
        # A kernel in place, and the same bytes without it.
        ("copies(arg0_1, buf0)\nbuf2 = buf0; del buf0  # reuse\nadds(buf2, arg0_1)\nreturn (buf2, )", set()),
        ("copies(arg0_1, buf0)\nbuf2 = buf0  # alloc\ncopies(buf0, buf2)\nreturn (buf2, )", LIVE),
        # In place of an operand that the kernel reads by another pointer, too.
        ("copies(arg0_1, buf0)\nbuf2 = buf0  # reuse\nadds(buf2, buf0)\nreturn (buf2, )", LIVE),
        # An operand that a reuse has overwritten.
        ("copies(arg0_1, buf0)\nbuf2 = buf0  # alloc\ncopies(arg0_1, buf2)\ncopies(buf0, buf1)\nreturn (buf1, )", LIVE),
        # What is reused and not yet written holds what it is made from; what is allocated holds nothing.
        ("copies(arg0_1, buf0)\nbuf2 = buf0  # reuse\ncopies(buf2, buf1)\nreturn (buf1, )", set()),
        (
            "copies(arg0_1, buf0)\nbuf2 = buf0  # alloc\ncopies(buf2, buf1)\nreturn (buf1, )",
            {*LIVE, "lifetimes_cover_accesses"},
        ),
        # A buffer of partial sums: the kernel that has it in place is its first writer.
        ("buf2 = buf0  # alloc\nbuf3 = buf2;  # reuse\nadds(buf3, arg0_1)\nreturn (buf3, )", set()),
        # Views are the buffer, up to their ends.
        ("buf2 = reinterpret_tensor(buf0, (4, ), (1, ), 4)  # alias\ncopies(arg0_1, buf2)\nreturn (buf0, )", set()),
        (
            "buf2 = reinterpret_tensor(buf1, (4, ), (1, ), 5)  # alias\ncopies(arg0_1, buf2)\nreturn (buf1, )",
            {"capacity"},
        ),
        (
            "copies(arg0_1, buf0)\nbuf2 = reinterpret_tensor(buf0, (4, ), (1, ), 4)  # reuse\nadds(buf2, arg0_1)\n"
            "copies(buf0, buf1)\nreturn (buf1, )",
            LIVE,
        ),
        # Other code: out=, in place by name, memory of its own, its items and its size.
        ("extern_kernels.mm(arg0_1, arg0_1, out=buf0)\naten.relu_(buf0)\nreturn (buf0, )", set()),
        ("extern_kernels.mm(arg0_1, buf0, out=buf1)\nreturn (buf1, )", {"lifetimes_cover_accesses"}),
        (
            "copies(arg0_1, buf0)\nbuf2 = aten.sort.stable(buf0)\nbuf3 = buf2[0]\n"
            "assert_tensor_metadata(buf3, (8, ), (1, ), "
            "torch.float32)\nbuf4 = buf2[1]\ndel buf2\nadds(buf3, arg0_1)\ncopies(buf4, buf1)\nreturn (buf1, buf3)",
            set(),
        ),
        # A view by other code keeps its operand.
        (
            "copies(arg0_1, buf0)\nbuf2 = aten.view.dtype(buf0, torch.int32)\n"
            "buf3 = buf0  # alloc\ncopies(arg0_1, buf3)\n"
            "copies(buf2, buf1)\nreturn (buf1, )",
            LIVE,
        ),
        # At an offset that the program computes: all of the buffer.
        (f"{UNKNOWN}return (buf2, )", set()),
        (
            f"{UNKNOWN}buf3 = buf0  # alloc\ncopies(arg0_1, buf3)\nreturn (buf2, )",
            LIVE,
        ),
        # What the program changes of its arguments.
        (
            "adds(arg0_1, arg1_1)\ncopies(arg0_1, buf0)\n"
            "with torch.cuda._DeviceGuard(0):\n    copies(buf0, buf1)\nreturn buf1",
            set(),
        ),
        ("with torch.cuda._DeviceGuard(0):\n    return buf1", {UNWRITTEN}),
        ("with torch.cuda._DeviceGuard(0):\n    with record_function('a'):\n        return buf1", {UNWRITTEN}),
    ],
)
def test_a_wrapper_has_the_faults_of_its_buffers(body: str, broken: set[str]) -> None:
    """spec: FP8.1, FP8.2, FP8.3, FP8.4, FP8.5, FP8.6"""
    assert judged(wrapped(wrapper(body))) == broken


ARM = "def true_graph_0(args):\n    x, = args\n    args.clear()\n    {}\n"
COND = (
    "copies(arg0_1, buf0)\nif sel == 0:\n    buf2 = true_graph_0([buf0])\nelse:\n    buf2 = [buf0]\nbuf3 = buf2[0]\n{}"
)
LOOP = (
    "copies(arg0_1, buf0)\nbuf2 = [None] * 1\nbuf2[0] = buf0\ngoing = arg0_1.item()\nif not going:\n    {}\n"
    "while going:\n    (buf2[0],) = true_graph_0([buf2[0]])\n    going = arg0_1.item()\nbuf3 = buf2[0]\n{}"
)


@pytest.mark.parametrize(
    ("body", "arm", "broken"),
    [
        # The arm makes memory of its own, or returns what it is given: either is read behind the cond.
        (COND.format("copies(buf3, buf1)\nreturn (buf1, )"), "y = x.clone()\n    return (y, )", set()),
        (COND.format("buf4 = buf0  # alloc\ncopies(arg0_1, buf4)\nreturn (buf3, )"), "return (x.clone(), )", LIVE),
        # An arm that overwrites what it is given, which is read later.
        (
            COND.format("copies(buf0, buf1)\nreturn (buf1, )"),
            "y = x; del x  # alloc\n    copies(y, y)\n    return (y, )",
            LIVE,
        ),
        # A loop that copies, with a copy in its stead; one that hands on its operand, which is overwritten behind it.
        (LOOP.format("buf2[0] = buf0.clone()", "return (buf3, )"), "return (x.clone(), )", set()),
        (
            LOOP.format("buf2[0] = buf0.clone()", "buf4 = buf0  # alloc\ncopies(arg0_1, buf4)\nreturn (buf3, )"),
            "return (x.clone(), )",
            set(),
        ),
        (
            LOOP.format("pass", "buf4 = buf0  # alloc\ncopies(arg0_1, buf4)\nreturn (buf3, )"),
            "return (x.clone(), )",
            LIVE,
        ),
        (
            LOOP.format("buf2[0] = buf0.clone()", "buf4 = buf0  # alloc\ncopies(arg0_1, buf4)\nreturn (buf3, )"),
            "return (x, )",
            LIVE,
        ),
    ],
)
def test_subgraphs_of_conds_and_loops_are_steps_of_the_wrapper(body: str, arm: str, broken: set[str]) -> None:
    """spec: FP8.8, FP8.9"""
    text = wrapper(body).replace("def call(", ARM.format(arm) + "def call(", 1)
    text = text.replace("aten =", "sel = None\naten =", 1)
    assert judged(wrapped(text)) == broken


@pytest.mark.parametrize(
    ("body", "broken"),
    [
        # What both arms make in one place; what one arm makes, or a loop, and the other way does not.
        ("if sel:\n    copies(arg0_1, buf0)\nelse:\n    copies(arg0_1, buf0)\nreturn (buf0, )", set()),
        ("if sel:\n    copies(arg0_1, buf0)\nreturn (buf0, )", {UNWRITTEN}),
        ("if not sel:\n    copies(arg0_1, buf0)\nwhile sel:\n    copies(arg0_1, buf0)\nreturn (buf0, )", set()),
        ("while sel:\n    copies(arg0_1, buf0)\nreturn (buf0, )", {UNWRITTEN}),
        # One of two is written, and nothing says which (FP1.14).
        ("if sel:\n    buf2 = buf0\nelse:\n    buf2 = buf1\ncopies(arg0_1, buf2)\nreturn (buf0, )", {UNWRITTEN}),
        ("while sel:\n    copies(arg0_1, buf0)\n    copies(buf0, buf1)\nreturn (arg0_1, )", set()),
        # An iteration uses what the one before has made; a condition is read again.
        # What is given in a loop's stead holds no bytes; memory that a loop is given to fill: it runs.
        (
            "buf2 = alloc_from_pool(pool0, 64, torch.float32, (0, ), (1, ))\nif not sel:\n    buf2.clone()\n"
            "while sel:\n    copies(arg0_1, buf0)\nreturn (buf0, buf2)",
            {UNWRITTEN},
        ),
        (
            "if not sel:\n    buf2 = buf0.clone()\nwhile sel:\n    buf2 = buf0\n    copies(arg0_1, buf2)\n"
            "return (buf2, )",
            set(),
        ),
        ("buf2 = arg0_1\nwhile sel:\n    copies(buf2, buf0)\n    buf2 = buf0\nreturn (arg0_1, )", set()),
        ("copies(arg0_1, buf0)\nwhile buf0:\n    copies(buf0, buf1)\nreturn (buf0, )", set()),
        (
            "copies(arg0_1, buf0)\nwhile buf0:\n    buf2 = buf0  # alloc\n    copies(arg0_1, buf2)\nreturn (arg0_1, )",
            LIVE,
        ),
        # A cond in a loop; what it binds is used in the next iteration alone.
        (
            "copies(arg0_1, buf0)\nbuf2 = buf0\nwhile sel:\n    copies(buf2, buf1)\n    if sel:\n"
            "        buf2 = arg0_1.clone()\n    else:\n        buf2 = arg1_1.clone()\nreturn (arg0_1, )",
            set(),
        ),
    ],
)
def test_arms_of_conds_and_loops_are_exclusive(body: str, broken: set[str]) -> None:
    """spec: FP8.8, FP8.9"""
    found = judged(wrapped(wrapper(body).replace("aten =", "sel = None\naten =", 1)))
    assert found if broken == LIVE else found - LIVE == broken


def test_a_kernel_may_read_what_it_writes_itself_and_a_buffer_without_bytes_lies_nowhere() -> None:
    """spec: FP8.1, FP8.4"""
    right = "tri.run(buf0, buf0, 8)\nbuf2 = alloc_from_pool(pool0, 64, torch.float32, (0, 4), (4, 1))\n"
    assert judged(wrapped(wrapper(right + "copies(arg0_1, buf2)\nreturn (buf0, buf2)"))) == set()
    assert judged(wrapped(wrapper("tri.run(buf0, buf1, 8)\nreturn (buf1, )"))) == {"lifetimes_cover_accesses"}
    empty = "buf2 = alloc_from_pool(pool0, 64, torch.float32, (0, 4), (4, 1))\n{}return (buf2, )"
    for use in ("", "copies(buf2, buf0)\n", "if buf2:\n    buf2 = buf2.view(4, 0)\n"):
        assert judged(wrapped(wrapper(empty.format(use)))) == set()


SIZES = "    arg2_1 = 8\n    arg3_1 = 3\n"


@pytest.mark.parametrize(
    ("offset", "shape", "broken"),
    [
        ("s0*4", "s0", set()),
        ("4*s0 - 4", "s0", LIVE),
        ("align(s0)", "s0", {"capacity"}),
        ("align(s0) // 2", "(2*s1 + 2)", set()),
        ("max(s0, 32)", "s0 + 0", set()),
        ("min(s0*9, 8*s0, 32)", "s0", set()),
        ("s0*4", "s0 + 1", {"capacity"}),
        ("2**5", "s0 % 10", set()),
        ("2**5", "9 // s1 % 2 * s0", set()),
    ],
)
def test_a_symbol_is_the_number_that_the_file_states(offset: str, shape: str, broken: set[str]) -> None:
    """spec: FP8.10"""
    pool = POOL.replace("pool0, 32, torch.float32, (8, )", f"pool0, {offset}, torch.float32, ({shape}, )")
    body = "copies(arg0_1, buf0)\ncopies(buf0, buf1)\nreturn (buf0, buf1)"
    text = wrapper(body, "    s0 = arg2_1\n    s1 = arg3_1\n" + pool, SIZES)
    found = wrapped(text.replace("arg1_1 = args", "arg1_1, arg2_1, arg3_1 = args"))
    assert judged(found) == broken
    assert "sizes are those that get_args states: s0 = 8, s1 = 3" in found.reading.assumptions


@pytest.mark.parametrize(
    "size",
    ["s1", "s0 / 2", "s0 // 0", "s0 % 0", "s0**65", "s0**-1", "s0**63", "align()", "max(s0, s1)", "min(x=s0)", "f(s0)"],
)
def test_a_size_that_follows_from_no_number_is_refused(size: str) -> None:
    """spec: FP8.7, FP8.10"""
    body = f"s0 = arg2_1\nbuf2 = empty_strided_cpu(({size}, ), (1, ), torch.uint8)"
    with pytest.raises(TmmuError, match="get_args") as error:
        wrapped(wrapper(body, more=SIZES).replace("arg1_1 = args", "arg1_1, arg2_1 = args"))
    assert error.value.place == "line 23"


def test_a_wrapper_states_what_was_assumed() -> None:
    """spec: FP8.6"""
    found = wrapped(wrapper("adds(arg0_1, arg1_1)\nextern_kernels.mm(arg0_1, arg1_1, out=buf0)\nreturn (buf0, )"))
    assert found.reading.donated == ("arg0_1",)
    assert list(found.reading.outside) == ["sizes of arguments"]
    assert sum("extern_kernels.mm" in what for what in found.reading.assumptions) == 1
    other = steps(wrapped(wrapper("buf2 = tri.run(arg0_1, buf0, 8)\naten.add_(buf0, buf1)\nreturn (buf2, buf0)")))
    assert [changed for *_, changed in other] == [[], ["buf0"]]
    two = wrapped(
        wrapper("return (buf0, )", more="def partition_0(args):\n    arg0_1, = args\n    return (arg0_1, )\n")
    )
    assert "partition_0.arg0_1" in list(plan_of(two).allocation.tensors.name)
    assert "calls between partitions" in two.reading.outside


@pytest.mark.parametrize(
    ("arms", "behind", "broken"),
    [
        # A view of what either arm has made is of its bytes, in elements of its width, where both are known.
        (("copies(arg0_1, buf0)\nbuf2 = buf0", "copies(arg0_1, buf1)\nbuf2 = buf1"), "(4, ), (1, ), 4", set()),
        (("copies(arg0_1, buf0)\nbuf2 = buf0", "copies(arg0_1, buf1)\nbuf2 = buf1"), "(4, ), (1, ), 5", {"capacity"}),
        (("buf2 = arg0_1.clone()", "copies(arg0_1, buf1)\nbuf2 = buf1"), "(4, ), (1, ), 5", {"capacity"}),
        (("buf2 = arg0_1.clone()", "buf2 = arg1_1.clone()"), "(4, ), (1, ), 5", set()),
    ],
)
def test_what_arms_make_has_their_width_and_size(arms: tuple[str, str], behind: str, broken: set[str]) -> None:
    """spec: FP8.5, FP8.8"""
    body = branch(*arms, f"buf3 = reinterpret_tensor(buf2, {behind})\nreturn (buf3, )").replace("if x", "if arg1_1")
    assert judged(wrapped(wrapper(body))) - LIVE == broken


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("import torch", None),
        (wrapper("return (arg0_1, )", "\n"), None),
        (wrapper("copies(arg0_1, buf9)"), "line 22"),
        (wrapper("del buf0\ncopies(arg0_1, buf0)"), "line 23"),
        (wrapper("del buf9"), "line 22"),
        (wrapper("del buf0[0]"), "line 22"),
        (wrapper("copies(arg0_1)"), "line 22"),
        (wrapper("for x in arg0_1:\n    pass"), "line 22"),
        (wrapper("while arg0_1:\n    break"), "line 23"),
        (wrapper("if arg0_1:\n    return (arg0_1, )\nreturn (arg1_1, )"), "line 23"),
        (wrapper("buf2 = empty_strided_cpu((s0, ), (1, ), torch.uint8)"), "line 22"),
        (wrapper("buf2 = empty_strided_cpu((4, ), (1, 1), torch.uint8)"), "line 22"),
        (wrapper("buf2 = empty_strided_cpu((4, ), (-1, ), torch.uint8)"), "line 22"),
        (wrapper("buf2 = empty_strided_cpu((4, ), (1, ), torch.nonsense)"), "line 22"),
        (wrapper("empty_strided_cpu()"), "line 22"),
        (wrapper("empty_strided_cpu((4, ), (1, ))"), "line 22"),
        (wrapper("reinterpret_tensor(buf0, (1, ), (1, 1), 0)"), "line 22"),
        *((wrapper(f"{place} = arg0_1"), "line 22") for place in ("buf0[s]", "f(buf0)[0]", "buf9[0]")),
        (wrapper("".join(f"{' ' * k}if arg0_1:\n" for k in range(70)) + " " * 70 + "pass"), None),
        (wrapper("if arg0_1:\n    return\nreturn (arg1_1, )"), "line 23"),
        (wrapper("return (arg0_1, )", "\n", "    a[0] = rand_strided((8, ), (1, ), dtype=torch.int8)\n"), None),
        (wrapper("buf2 = alloc_from_pool(pool0, s0, torch.uint8, (1, ), (1, ))"), "line 22"),
        (wrapper("buf2 = alloc_from_pool(pool0, -8, torch.uint8, (1, ), (1, ))"), "line 22"),
        (wrapper("buf2 = alloc_from_pool(torch, 0, torch.uint8, (1, ), (1, ))"), "line 22"),
        (wrapper("buf2 = alloc_from_pool(pool0)"), "line 22"),
        (wrapper("reinterpret_tensor(buf0, (s0, ), (1, ), 0)"), "line 22"),
        (wrapper("reinterpret_tensor(buf0, (1, ), (1, ), -1)"), "line 22"),
        (wrapper("reinterpret_tensor(buf0, (1, ), (1, ), u0)"), "line 22"),
        (wrapper("u0 = arg0_1.item()\nbuf2 = reinterpret_tensor(buf0, (1, ), (1, ), u0)  # reuse"), "line 23"),
        (wrapper("reinterpret_tensor(buf0)"), "line 22"),
        (wrapper(f"reinterpret_tensor(buf0, (1, ), (1, ), {2**63})"), "line 22"),
        (wrapper("arg0_1, arg1_1[0] = args"), "line 22"),
        (wrapper("return (arg0_1, )", more="def call(args):\n    pass\n"), "line 26"),
        (wrapper("return (arg0_1, )").replace("def call(", "def partition_0("), None),
        (wrapper("", more="k = async_compile.cpp_pybinding([], 'int x;')\n"), "line 26"),
    ],
)
def test_what_is_no_wrapper_is_refused_with_its_line(text: str, line: str | None) -> None:
    """spec: FP2.4, FP8.7"""
    with pytest.raises(TmmuError) as error:
        wrapped(text)
    assert (error.value.code_id, error.value.file) == ("INVALID_PLAN", "m.inductor")
    assert line is None or error.value.place == line


def refused(text: str) -> None:
    """Check that a script is refused with its line."""
    with pytest.raises(TmmuError) as error:
        read(text)
    assert str(error.value.place).startswith("line ")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("a.copy_(x)", "a.copy_ is not a call of Relax"),
        ("novel(a)", "novel is not a call of Relax"),
        ("x[0].novel(a)", "a call of an expression is not a call"),
        ("t[0](a)", "a call of an expression is not a call"),
        ("cls.copy(x, a, b)", "copy has 2 parameters, and is given 3"),
        ("cls.copy(x)", "copy has 2 parameters, and is given 1"),
        ("cls = cls.copy(x, b)", "a statement of Relax was expected"),
        ("y = a + x", "a is used in an expression that is not read"),
        ("y = a.novel", "a.novel is neither a type nor a size"),
        ("y = t[cls.copy(x, b)]", "expected the number of an item"),
        ("y = a[0]", "expected the number of an item"),
        ("y: R.Tensor((4,), dtype='float32') = (a,)", "has the type of a tensor, and is bound to a tuple"),
        ("y: novel() = a", "an expression of Relax was expected, got a call of novel"),
        ("y: R.Tensor((4,), dtype='novel') = a", "'novel' is not an element type"),
        ("R.func_attr({'k': cls.copy(x, b)})", "got a call of cls.copy"),
        ("y = R.shape([cls.copy(x, b)])", "got a call of cls.copy"),
        ("y = R.reshape(a, b)", "R.reshape has a further operand"),
        ("y = R.call_packed(a, b)", "R.call_packed is not a call of Relax"),
        ("y = R.memory.alloc_storage(R.shape([16], a), 0)", "expected the bytes of a storage"),
        ("y = R.memory.alloc_storage(R.novel([16]), 0)", "got a call of R.novel"),
        ("y = R.memory.alloc_tensor(other, 0, R.shape([4]), R.dtype('float32'), 0, b)", "more than 5 operands"),
        ("y = R.memory.alloc_tensor(other, T.novel(3), R.shape([4]), R.dtype('float32'))", "got a call of T.novel"),
        ("y = R.call_tir(cls.nowhere, (x,))", "cls.nowhere is not a function of this module"),
        ("y = R.memory.novel", "R.memory.novel is neither a type nor a size"),
        ("with R.dataflow(a):\n    pass", r"expected a block of R.dataflow\(\)"),
        ("return a", "a statement of Relax was expected, got Return"),
        ("assert x", "a statement of Relax was expected, got Assert"),
        ("def inner(y): pass", "a statement of Relax was expected, got FunctionDef"),
    ],
)
def test_a_line_of_relax_that_is_not_known_is_refused(line: str, what: str) -> None:
    """spec: FP7.14"""
    with pytest.raises(TmmuError, match=what) as error:
        read(module(f"cls.copy(x, a)\n{line}\nreturn a"))
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
    text = module("cls.copy(x, a)\nreturn a")
    assert old in text
    read(text)
    refused(text.replace(old, new))


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
    refused(module("cls.copy(x, a)\nreturn a", KERNEL.format(name="copy", n=4, body=body)))


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
        refused(text)
    else:
        found = read(text)
        assert isinstance(found.plan, Plan)
        assert by_the_checker(found.plan, None, frozenset()) == set()


@pytest.mark.parametrize(("offset", "broken"), [("0", set()), ("R.null_value()", set()), ("8", {"capacity"})])
def test_a_view_at_an_offset_shows_the_bytes_there(offset: str, broken: set[str]) -> None:
    """spec: FP7.5"""
    view = f"y = R.memory.view(a, R.shape([4]), R.dtype('float32'), {offset})"
    assert judged(read(module(f"cls.copy(x, a)\n{view}\ncls.copy(y, b)\nreturn b"))) == broken
    refused(module(f"cls.copy(x, a)\n{view.removesuffix(offset + ')')}n)\nreturn a"))


def test_what_is_printed_is_read_and_an_operator_of_relax_is_undecided() -> None:
    """What is printed must be there. spec: FP7.14, FP1.16"""
    over = "cls.copy(x, a)\ncls.copy(x, c)\nR.print(a, format='{}')\nreturn c"
    found = read(module(over))
    assert isinstance(found.plan, Plan)
    assert by_the_checker(found.plan, None, frozenset()) == {"no_live_overlap", "sharing_is_sound"}
    assert not found.reading.undecided
    (undecided,) = read(module("cls.copy(x, a)\ny = R.novel(a)\nreturn a", COPY)).reading.undecided
    assert undecided.text.startswith("R.novel is not a call of a kernel")
