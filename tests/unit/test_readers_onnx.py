"""ONNX models read by the checker: small ones written as text, with every step, name, view and in-place pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, parser

from proofs.readers.models.onnx import read_onnx, reference_of
from proofs.readers.models.reference import ReferenceBody, ReferenceProgram
from tests.support.onnx_files import IF, NESTED, model_of
from tests.support.reader_plans import lines
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, Role
from tmmu.onnx import Resolved, resolve

UNBOUND = Bindings()


def read(text: str | onnx.ModelProto, tmp_path: Path, bindings: Bindings = UNBOUND) -> ReferenceProgram:
    """What a model says, its sizes worked out by the real resolution."""
    path = tmp_path / "m.onnx"
    onnx.save(model_of(text) if isinstance(text, str) else text, path)
    return read_onnx(path, bindings)


def guessed(text: str | onnx.ModelProto, *, unknown: str = "", ruled_out: str = "") -> ReferenceProgram:
    """What a model says where every value but the `unknown` has two floats: for graphs that resolution refuses."""
    model = model_of(text) if isinstance(text, str) else text
    sizes = AnySize(frozenset(unknown.split()))
    return reference_of(
        Resolved("m.onnx", model, bytes(32), sizes, frozenset(ruled_out.split()), frozenset(), Bindings())
    )


class AnySize(Mapping[str, tuple[tuple[int, ...], str]]):
    """A size for every name but some."""

    def __init__(self, unknown: frozenset[str]) -> None:
        self.unknown = unknown

    def __getitem__(self, name: str) -> tuple[tuple[int, ...], str]:
        if name in self.unknown:
            raise KeyError(name)
        return (2,), "float32"

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(())

    def __len__(self) -> int:
        return 0


def refused(text: str | onnx.ModelProto, **fields: str) -> str:
    with pytest.raises(TmmuError) as error:
        guessed(text, **fields)
    assert str(error.value).startswith("m.onnx: ")
    return str(error.value)


def test_a_graph_is_read_step_by_step_with_sizes_and_roles(tmp_path: Path) -> None:
    """spec: V3.1, V3.2, M3.2"""
    expected = read(
        """g (float16[2,3] x, float16[3,1] w) => (float16[2,1] y, float16[2,3] x) <float16[3,1] w = {0,0,0}> {
             [mm] a = MatMul(x, w)
             y = Add(a, a)
           }""",
        tmp_path,
    )
    assert lines(expected) == ["mm MatMul [] x w -> a", "Add#1 Add [] a a -> y"]
    assert expected.sizes == {"x": (12, "float16"), "w": (6, "float16"), "a": (4, "float16"), "y": (4, "float16")}
    assert expected.shapes["a"] == (2, 1)
    assert set(expected.alignments.values()) == {2}
    assert expected.roles == {"x": Role.INPUT, "w": Role.PARAMETER, "a": Role.ACTIVATION, "y": Role.ACTIVATION}
    assert (expected.inputs, expected.outputs) == (("x",), ("y", "x"))
    assert (expected.views, expected.in_place) == ({}, {("y", "a")})
    assert expected.source_digest == resolve(tmp_path / "m.onnx").source_digest
    assert (expected.saved, expected.assumed, expected.must_not_alias) == (frozenset(), [], frozenset())


def test_the_dims_shapes_and_values_of_the_plan_bind_the_model(tmp_path: Path) -> None:
    text = "g (float[N] x, float[M] z) => (float[N] y, float[M] u) { y = Relu(x) u = Relu(z) }"
    bindings = Bindings(dims={"N": 3}, shapes={"z": (5,)}, donated=("x",))
    expected = read(text, tmp_path, bindings)
    assert (expected.shapes["y"], expected.shapes["u"]) == ((3,), (5,))
    assert (expected.bindings.dims, expected.bindings.shapes) == ({"N": 3}, {"z": (5,)})
    with pytest.raises(TmmuError, match="INVALID_BINDING"):
        read(text, tmp_path, replace(bindings, dims={"batch": 3}))


def test_shapes_are_trusted_only_where_the_bindings_say_so(tmp_path: Path) -> None:
    model = model_of("g (float[2] x) => (float[2] y) { y = my.domain.Fuse(x) }", more=', "my.domain" : 1')
    with pytest.raises(TmmuError):
        read(model, tmp_path)
    expected = read(model, tmp_path, Bindings(trust_shapes=True))
    assert [(s.domain, s.op) for s in expected.steps] == [("my.domain", "Fuse")]
    assert (expected.views, expected.in_place, expected.assumed) == ({}, set(), [])


def test_a_nodes_own_name_counts_where_it_is_unique_in_its_graph() -> None:
    model = model_of("g (float[2] x) => (float[2] d) { [n] a = Relu(x) [n] b = Relu(a) [m] c = Relu(b) d = Relu(c) }")
    model.graph.node[2].name = "with\0nul"
    assert [s.node for s in guessed(model).steps] == ["Relu#0", "Relu#1", "Relu#2", "Relu#3"]
    model.graph.node[3].name = "Relu#1"
    assert "Relu#1: two nodes have this name" in refused(model)


def test_an_operand_that_is_folded_in_a_second_time_is_not_overwritten() -> None:
    """spec: T3.10"""
    for reads, taken in (("a, x", {("y", "a")}), ("a, x, a", set()), ("a, x, x", {("y", "a")})):
        model = f"g (float[2] x) => (float[2] y) {{ a = MatMul(x, x) y = Sum({reads}) }}"
        assert guessed(model).in_place == taken


def test_the_long_name_of_ai_onnx_is_the_short_one() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    model.graph.node[0].domain = "ai.onnx"
    expected = guessed(model)
    assert (expected.steps[0].domain, expected.in_place) == ("", {("y", "x")})


def test_functions_are_inlined_before_nodes_are_named(tmp_path: Path) -> None:
    model = parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18, "my" : 1]>
        g (float[2] x) => (float[2] y) { y = my.twice(x) }
        <domain: "my", opset_import: ["" : 18]>
        twice (u) => (v) { t = Add(u, u) v = Relu(t) }"""
    )
    expected = read(model, tmp_path)
    assert [s.op for s in expected.steps] == ["Add", "Relu"]
    assert expected.steps[1].writes == ("y",)


def test_the_branches_of_an_if_stand_between_enter_and_leave_then_before_else(tmp_path: Path) -> None:
    """Captured values are read by the nodes that use them, and copied where a branch returns them. spec: T8.8, T8.10"""
    expected = read(IF, tmp_path)
    then, other = "pick/then_branch", "pick/else_branch"
    assert lines(expected) == [
        "pre Relu [] x -> p",
        "pick If enter [] c -> ",
        f"{then}/n Add [{then}] p w -> {then}/a",
        f"{then}/m Relu [{then}] {then}/a -> {then}/b",
        f"{other}/n Add [{other}] p {other}/k -> {other}/u",
        f"pick If leave [] {then}/b p {other}/p.copy0 -> {other}/p.copy0 y",
        "Relu#2 Relu [] y -> z",
    ]
    assert expected.bodies == {then: ReferenceBody("pick", "", False), other: ReferenceBody("pick", "", False)}
    assert list(expected.bodies) == [then, other]
    assert (expected.roles[f"{other}/k"], expected.roles[f"{other}/p.copy0"]) == (Role.PARAMETER, Role.SCRATCH)
    assert expected.sizes[f"{other}/p.copy0"] == expected.sizes["p"] == (8, "float32")
    # Within a branch only what the branch itself makes is taken: neither `p` nor `w` nor the initializer `k`.
    assert expected.in_place == {("p", "x"), (f"{then}/b", f"{then}/a"), ("z", "y")}


LOOP = """g (int64 n, bool c, float[2] a, float[2] b) => (float[2] x, float[2] y, float[N,2] s) {
  [pre] k = Relu(a)
  [loop] x, y, s = Loop (n, c, a, b) <body = body (int64 i, bool go, float[2] u, float[2] v)
    => (bool go, float[2] v, float[2] u, float[2] r) { [add] q = Add(u, k) [id] r = Identity(q) [f] t = Identity(v) }>
}"""


def test_a_loop_copies_what_it_hands_on_and_shares_nothing_over_its_boundary() -> None:
    """A swap: both values are formal inputs, so both are copied. spec: T8.2, T8.6, T8.8, T8.9"""
    expected = guessed(LOOP)
    f = "loop/body/"
    assert lines(expected) == [
        "pre Relu [] a -> k",
        f"loop Loop enter [] n c a b -> {f}i {f}go {f}u {f}v",
        f"{f}add Add [loop/body] {f}u k -> {f}q",
        f"{f}id Identity [loop/body] {f}q -> {f}r",
        f"{f}f Identity [loop/body] {f}v -> {f}t",
        f"loop Loop leave [] {f}go {f}go.copy0 {f}v {f}v.copy1 {f}u {f}u.copy2 {f}r"
        f" -> {f}go.copy0 {f}v.copy1 {f}u.copy2 x y s",
    ]
    assert expected.bodies == {"loop/body": ReferenceBody("loop", "", True)}
    assert expected.views == {f"{f}r": (f"{f}q", 0)}
    assert expected.in_place == {("k", "a"), (f"{f}r", f"{f}q")}


def test_a_value_handed_out_twice_is_copied_the_second_time() -> None:
    """spec: T8.8"""
    expected = guessed("""g (bool c, float[2] x) => (float[2] y, float[2] z) {
      [n] y, z = If (c) <then_branch = t () => (float[2] a, float[2] a) { a = Relu(x) },
                         else_branch = e () => (float[2] w, float[2] b) <float[2] w = {1,2}> { b = Relu(x) }> }""")
    assert expected.steps[-1].reads == (
        "n/then_branch/a", "n/then_branch/a", "n/then_branch/a.copy1",
        "n/else_branch/w", "n/else_branch/w.copy0", "n/else_branch/b",
    )  # fmt: skip
    assert expected.steps[-1].writes == ("n/then_branch/a.copy1", "n/else_branch/w.copy0", "y", "z")


def test_a_scan_is_entered_with_its_states_and_inputs(tmp_path: Path) -> None:
    expected = read(
        """g (float[2] s, float[5,2] xs) => (float[2] f, float[5,2] ys) {
             [scan] f, ys = Scan <num_scan_inputs = 1, body = body (float[2] a, float[2] x) => (float[2] b, float[2] o)
               { b = Add(a, x) o = Relu(b) }> (s, xs)
           }""",
        tmp_path,
    )
    assert lines(expected) == [
        "scan Scan enter [] s xs -> scan/body/a scan/body/x",
        "scan/body/Add#0 Add [scan/body] scan/body/a scan/body/x -> scan/body/b",
        "scan/body/Relu#1 Relu [scan/body] scan/body/b -> scan/body/o",
        "scan Scan leave [] scan/body/b scan/body/o -> f ys",
    ]
    assert expected.sizes["scan/body/o"] == (8, "float32")
    assert expected.bodies["scan/body"].iterates


def test_bodies_nest_and_capture_through_one_another(tmp_path: Path) -> None:
    """spec: T8.12"""
    expected = read(NESTED, tmp_path)
    then, inner = "out/then_branch", "out/then_branch/in"
    assert lines(expected) == [
        "out If enter [] c -> ",
        f"{then}/Relu#0 Relu [{then}] x -> {then}/a",
        f"{inner} If enter [{then}] c -> ",
        f"{inner}/then_branch/Add#0 Add [{inner}/then_branch] {then}/a x -> {inner}/then_branch/d",
        f"{inner}/then_branch/Add#1 Add [{inner}/then_branch] {inner}/then_branch/d {inner}/then_branch/d"
        f" -> {inner}/then_branch/e",
        f"{inner} If leave [{then}] {inner}/then_branch/d {then}/a {inner}/else_branch/{then}/a.copy0"
        f" -> {inner}/else_branch/{then}/a.copy0 {then}/b",
        "out/else_branch/Neg#0 Neg [out/else_branch] x -> out/else_branch/f",
        f"out If leave [] {then}/b out/else_branch/f -> y",
    ]
    assert expected.bodies[f"{inner}/else_branch"] == ReferenceBody(inner, then, False)
    assert expected.in_place == {(f"{inner}/then_branch/e", f"{inner}/then_branch/d")}


def test_a_deep_nest_is_read_without_recursion() -> None:
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], [output("y")])
    for _ in range(25):
        node = helper.make_node("Call", [], ["y"], domain="my", inside=graph)
        graph = helper.make_graph([node], "g", [], [output("y")])
    graph.input.append(output("x"))
    expected = guessed(helper.make_model(graph))
    assert len(expected.steps) == 2 * 25 + 1
    assert expected.steps[25].reads == ("x",)
    assert all(body.iterates for body in expected.bodies.values())


def output(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])


def test_several_bodies_under_one_attribute_are_numbered() -> None:
    graphs = [helper.make_graph([helper.make_node("Relu", ["x"], [v])], "g", [], [output(v)]) for v in ("a", "b")]
    node = helper.make_node("Switch", ["x"], ["y"], name="s", domain="my", cases=graphs)
    expected = guessed(helper.make_model(helper.make_graph([node], "g", [output("x")], [output("y")])))
    assert list(expected.bodies) == ["s/cases[0]", "s/cases[1]"]
    assert expected.steps[-1].reads == ("s/cases[0]/a", "s/cases[1]/b")


def test_only_the_branches_of_an_if_change_places() -> None:
    """spec: T8.10"""
    text = """g (float[2] x) => (float[2] y) { [n] y = OP(x) <else_branch = b () => (float[2] a) { a = Relu(x) },
                                                               then_branch = c () => (float[2] a) { a = Relu(x) }> }"""
    stored = ["n/else_branch", "n/then_branch"]
    assert list(guessed(text.replace("OP", "If")).bodies) == stored[::-1]
    assert (
        list(guessed(text.replace("OP", "Call")).bodies) == list(guessed(text.replace("OP", "my.If")).bodies) == stored
    )


def test_a_branch_that_is_ruled_out_has_no_steps_and_no_tensors(tmp_path: Path) -> None:
    """spec: T10.5, V3.3"""
    text = """g (float[2] x, bool c) => (float[2] y) {
      [n] y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) },
                      else_branch = e () => (float[2] b) <float[2] w = {1, 2}> { b = Add(x, w) }> }"""
    both, one = read(text, tmp_path), read(text, tmp_path, Bindings(values={"c": "true"}))
    assert (len(both.bodies), len(both.steps)) == (2, 4)
    assert lines(one) == [
        "n If enter [] c -> ", "n/then_branch/Relu#0 Relu [n/then_branch] x -> n/then_branch/a",
        "n If leave [] n/then_branch/a -> y",
    ]  # fmt: skip
    assert list(one.bodies) == ["n/then_branch"]
    assert not [name for name in one.sizes if name.startswith("n/else_branch")]


def test_only_a_branch_of_an_if_is_ruled_out_and_never_both() -> None:
    """spec: V3.3"""
    assert len(guessed(IF, ruled_out="pick/then_branch").bodies) == 1
    assert "only one branch" in refused(IF, ruled_out="pick/then_branch pick/else_branch")
    assert "only one branch" in refused(LOOP, ruled_out="loop/body")
    two = """g (float[2] x) => (float[2] y) { [n] y = Call(x) <b = b () => (float[2] a) { a = Relu(x) },
                                                              c = c () => (float[2] a) { a = Relu(x) }> }"""
    assert "only one branch" in refused(two, ruled_out="n/b")


def test_a_body_without_nodes_is_a_body_all_the_same() -> None:
    expected = guessed("""g (bool c, float[2] x) => (float[2] y) {
      [n] y = If (c) <then_branch = t () => (float[2] x) { }, else_branch = e () => (float[2] x) { }> }""")
    assert lines(expected) == [
        "n If enter [] c -> ",
        "n If leave [] x n/then_branch/x.copy0 x n/else_branch/x.copy0"
        " -> n/then_branch/x.copy0 n/else_branch/x.copy0 y",
    ]


def test_an_optional_output_that_nobody_reads_and_that_has_no_shape_is_unproduced() -> None:
    """spec: T9.1"""
    text = "g (float[2] x) => (float[2] z) { y, mask = Dropout(x) z = Relu(y) }"
    expected = guessed(text, unknown="mask")
    assert expected.unproduced == {"mask"}
    assert lines(expected)[0] == "Dropout#0 Dropout [] x -> y"
    assert "mask" not in expected.sizes
    sized = guessed(text)
    assert (sized.unproduced, sized.steps[0].writes) == (frozenset(), ("y", "mask"))


def test_an_absent_output_or_operand_is_no_access() -> None:
    """The result of a Dropout whose own output is absent is its mask, which is no view."""
    model = model_of("g (float[2] x) => (float[2] y) { y = Clip(x, x, x) m, n = Dropout(x) }")
    model.graph.node[0].input[1] = ""
    model.graph.node[1].output[0] = ""
    expected = guessed(model)
    assert lines(expected) == ["Clip#0 Clip [] x x -> y", "Dropout#1 Dropout [] x -> n"]
    assert (expected.views, expected.in_place) == ({}, {("y", "x")})


@pytest.mark.parametrize(
    ("text", "unknown", "what"),
    [
        ("g (float[2] x) => (float[2] z) { y, m = Dropout(x) z = Relu(m) }", "m", "'m' has no known shape and is read"),
        ("g (float[2] x) => (float[2] y, bool[2] m) { y, m = Dropout(x) }", "m", "'m' has no known shape and is read"),
        ("g (float[2] x) => (float[2] y) { y = Relu(x) }", "y", "y: the value has no known shape"),
        ("g (float[2] x) => (float[2] y) { y, m = Strange(x) }", "m", "m: the value has no known shape"),
        ("g (float[2] x) => (float[2] y) { y, a, b = Dropout(x) }", "b", "b: the value has no known shape"),
        ("g (float[2] x) => (float[2] y) { y = Relu(x) }", "x", "x: the value has no known shape"),
    ],
)
def test_any_other_value_without_shape_is_refused_by_name(text: str, unknown: str, what: str) -> None:
    """spec: T9.1, T10.6"""
    assert what in refused(text, unknown=unknown)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("(float[2] x) => (float[2] y) { y = Relu(a) a = Relu(x) }", "Relu#0: value 'a' is read before it is written"),
        ("(float[2] x) => (float[2] y) { y = Add(x, y) }", "Add#0: value 'y' is read before it is written"),
        ("(float[2] x) => (float[2] y) { y = Relu(a) }", "value 'a' is read but nothing defines it"),
        ("(float[2] x) => (float[2] a) { y = Relu(x) }", "value 'a' is read but nothing defines it"),
        ("(float[2] x) => (float[2] y) { y = Relu(x) y = Relu(x) }", "Relu#1: value 'y' is defined twice"),
        ("(float[2] x) => (float[2] y) { x = Relu(x) y = Relu(x) }", "value 'x' is defined twice"),
        ("(float[2] x, float[2] x) => (float[2] y) { y = Relu(x) }", "m.onnx: x: value 'x' is defined twice"),
        ("(float[2] x) => (float[2] y, float[2] y) { y = Relu(x) }", "graph output 'y' is listed 2 times"),
        # A body that captures what its owner makes, what stands after its owner, or what it defines later itself.
        ("(bool c) => (float[2] y) { y = Call(c) <b = b () => (float[2] a) { a = Relu(y) }> }", "'y' is read before"),
        (
            "(bool c) => (float[2] y) { y = Call(c) <b = b () => (float[2] a) { a = Relu(z) }> z = Relu(y) }",
            "'z' is read before it is written",
        ),
        (
            "(float[2] x) => (float[2] y) { y = Call(x) <b = b () => (float[2] a) { a = Relu(x) x = Relu(a) }> }",
            "'x' is read before it is written",
        ),
        ("(float[2] x) => (float[2] a) { y = Call(x) <b = b () => (float[2] a) { a = Relu(x) }> }", "nothing defines"),
        ("(float[2] x) => (float[2] y) { y = Call(x) <b = b () => (float[2] z) { a = Relu(x) }> }", "nothing defines"),
    ],
)
def test_a_graph_that_is_none_is_refused_by_name(text: str, what: str) -> None:
    assert what in refused(f"g {text}")


def test_a_value_named_like_one_of_a_body_is_refused() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { [n] y = Call(x) <body = b () => (float[2] a) { a = Relu(x) }> }")
    model.graph.input.append(output("n/body/a"))
    assert "n/body/a: " in refused(model)


DROPOUT = "g (float[2] x, float r, bool on) => (float[2] y) { y = Dropout(x, r, on) }"


def test_a_dropout_is_a_view_where_it_certainly_does_not_train() -> None:
    """spec: V1.6"""
    off, on = (helper.make_tensor("on", TensorProto.BOOL, [], [value]) for value in (False, True))

    def views(model: onnx.ModelProto, bound: str | None = None) -> bool:
        bindings = Bindings() if bound is None else Bindings(values={"on": bound})
        resolved = Resolved("m", model, bytes(32), AnySize(frozenset()), frozenset(), frozenset(), bindings)
        return reference_of(resolved).views == {"y": ("x", 0)}

    def given(*initializers: TensorProto, as_input: bool = False, nodes: tuple[onnx.NodeProto, ...] = ()) -> bool:
        model = model_of(DROPOUT)
        if not as_input:
            del model.graph.input[2]
        model.graph.initializer.extend(initializers)
        model.graph.node.extend([model.graph.node.pop(), *nodes][::-1])
        return views(model)

    assert views(model_of("g (float[2] x) => (float[2] y) { y = Dropout(x) }"))
    assert views(model_of("g (float[2] x, float r) => (float[2] y) { y = Dropout(x, r) }"))
    assert not views(model_of(DROPOUT))
    assert views(model_of(DROPOUT), "false")
    assert not views(model_of(DROPOUT), "true")
    assert given(off)
    assert not given(on)
    assert given(helper.make_tensor("on", TensorProto.BOOL, [1], b"\0", raw=True))
    assert not given(helper.make_tensor("on", TensorProto.BOOL, [1], b"\1", raw=True))
    # What is a default, elsewhere, of another type or of several elements may be true.
    assert not given(off, as_input=True)
    outside = TensorProto(name="on", data_type=TensorProto.BOOL, data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="data")
    assert not given(outside)
    assert not given(helper.make_tensor("on", TensorProto.INT32, [], [0]))
    assert not given(helper.make_tensor("on", TensorProto.BOOL, [2], [False, False]))
    assert given(nodes=(helper.make_node("Constant", [], ["on"], value=off),))
    assert not given(nodes=(helper.make_node("Constant", [], ["on"], value=on),))
    assert not given(nodes=(helper.make_node("Constant", [], ["on"], value_int=0),))
    assert not given(nodes=(helper.make_node("Constant", [], ["on"], domain="my", value=off),))
    assert not given(nodes=(helper.make_node("ConstantOfShape", [], ["on"], value=off),))


def test_a_dropout_of_old_is_no_view() -> None:
    """Before opset 7 an attribute said whether it trains, and by default it did."""
    text = "g (float[2] x) => (float[2] y) { y = Dropout(x) }"
    for version, is_view in ((6, False), (7, True)):
        assert bool(guessed(model_of(text, version, 3)).views) is is_view
        assert guessed(model_of(text.replace("Dropout", "Identity"), version, 3)).views == {"y": ("x", 0)}


def test_a_view_of_a_view_is_one_and_of_what_a_body_did_not_make_is_none() -> None:
    """spec: T8.6"""
    expected = guessed("g (float[2] x) => (float[2] z) { y = Identity(x) z = Flatten(y) }")
    assert expected.views == {"y": ("x", 0), "z": ("y", 0)}
    inside = guessed("""g (float[2] x) => (float[2] y) { [n] y = Loop() <body = b (float[2] f) => (float[2] d)
        <float[2] w = {1, 2}> { a = Identity(x) b = Identity(f) c = Identity(w) d = Relu(w) }> }""")
    assert inside.views == {"n/body/c": ("n/body/w", 0)}
    assert inside.in_place == set()


def test_a_result_of_another_size_is_neither_view_nor_in_place(tmp_path: Path) -> None:
    """spec: T3.3"""
    expected = read("g (float[2,1] x, float[1,2] z) => (float[2,2] y) { y = Add(x, z) }", tmp_path)
    assert expected.in_place == set()
    cast = read(
        "g (float[2] x) => (int32[2] i, float16[2] h) { i = Cast <to = 6> (x) h = Cast <to = 10> (x) }", tmp_path
    )
    assert cast.in_place == {("i", "x")}
    # A file whose sizes are wrong: Reshape does not make bytes.
    model = model_of("g (float[2] x) => (float[4] y) { y = Reshape(x) }")
    sizes = {"x": ((2,), "float32"), "y": ((4,), "float32")}
    grown = reference_of(Resolved("m", model, bytes(32), sizes, frozenset(), frozenset(), Bindings()))
    assert grown.views == {}
    shaped = read("g (float[1,4] x, float[4] z) => (float[1,4] y) { y = Add(x, z) }", tmp_path)
    assert shaped.in_place == {("y", "x")}


def test_nodes_without_operands_share_nothing() -> None:
    expected = guessed("g (float[2] x) => (float[2] y) { y = Reshape() z = Relu() }")
    assert (expected.views, expected.in_place) == ({}, set())


def test_sparse_initializers_are_parameters() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { y = Add(x, w) }")
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))
    assert guessed(model).roles["w"] is Role.PARAMETER


def test_a_constant_without_output_has_no_step_either() -> None:
    """spec: T10.12"""
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    value = helper.make_tensor("v", TensorProto.BOOL, [], [False])
    model.graph.node.append(helper.make_node("Constant", [], [], value=value))
    assert [step.op for step in guessed(model).steps] == ["Relu"]
