"""ONNX models in the simulator: bodies, element types, weights, inputs, and plans that are not the model's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.onnx_files import model_of
from tests.support.simulations import Simulated, evaluated, same
from tmmu import examples
from tmmu.core.dtypes import BITS, nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Shares
from tmmu.examples.broken.editing import changed
from tmmu.examples.broken.networks import choice, layers, swap
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.columns import SHARES
from tmmu.plans.sections import Plan
from tmmu.simulator import Corrupted
from tmmu.simulator.elements import decode, encode, numpy_type
from tmmu.simulator.onnx_node import KernelFailed, NodeKernel
from tmmu.simulator.values import draw, read_inputs


def identical(model: onnx.ModelProto, folder: Path, **options: object) -> Simulated:
    run = Simulated(model, folder, **options)  # type: ignore[arg-type]  # options of two functions
    assert run.report.corruption is None
    return run


@pytest.mark.parametrize("name", ["chain", "loop", "mico-mlp", "mico-lenet"])
def test_small_examples_are_what_onnx_makes_of_them(name: str, tmp_path: Path) -> None:
    """And use their footprints to the byte. spec: SIM1.7, SIM5.1"""
    model = examples.model(name)
    run = identical(model, tmp_path)
    assert run.report.touched == run.report.footprints
    assert same(run.outputs, evaluated(model, run.written))


def test_gpt2_with_a_short_sequence_is_identical_and_uses_its_footprint(tmp_path: Path) -> None:
    """One of its twelve layers, from the tokens to the logits. spec: SIM1.7, SIM5.3, SIM5.4"""
    from tmmu.examples import gpt2

    layers_before = gpt2.LAYERS, gpt2.VOCABULARY
    try:
        gpt2.LAYERS, gpt2.VOCABULARY = 1, 100
        model = gpt2.build()
    finally:
        gpt2.LAYERS, gpt2.VOCABULARY = layers_before
    run = identical(model, tmp_path, bindings={"dims": {"batch": 1, "seq": 8}})
    assert run.report.touched == run.report.footprints
    assert np.isfinite(run.outputs["logits"]).all()
    assert same(run.outputs, evaluated(model, run.written))


@pytest.mark.parametrize("flag", [True, False])
def test_the_branch_that_the_condition_chooses_is_run(flag: bool, tmp_path: Path) -> None:
    run = identical(choice(), tmp_path, inputs={"flag": np.array(flag)})
    assert same(run.outputs, evaluated(choice(), run.written))
    assert (run.outputs["y"] == -run.written["x"]).all() == flag


def test_a_condition_that_the_bindings_rule_out_is_refused(tmp_path: Path) -> None:
    """spec: T10.5"""
    bound = {"values": {"flag": "true"}}
    assert identical(choice(), tmp_path, bindings=bound).outputs["y"].shape == (1, 64)
    with pytest.raises(KernelFailed, match="else_branch"):
        Simulated(choice(), tmp_path, bindings=bound, inputs={"flag": np.array(False)})


def test_a_loop_swaps_its_values(tmp_path: Path) -> None:
    """Three rounds: an odd number of exchanges. spec: T8.8"""
    run = identical(swap(), tmp_path)
    assert run.outputs["left_out"].tolist() == run.written["right"].tolist()
    assert run.outputs["right_out"].tolist() == run.written["left"].tolist()


LOOP = """main (float[3] x) => (float[3] y, float[N, 3] rows) <int64 rounds = {ROUNDS}, bool go = {1}> {
  y, rows = Loop (rounds, go, x) <body = body (int64 round, bool more, float[3] state)
    => (bool goes, float[3] next, float[3] row) {
    GOES
    next = Add (state, state)
    row = Identity (state)
  }>
}"""


def looping(rounds: int, goes: str) -> onnx.ModelProto:
    return model_of(LOOP.replace("ROUNDS", str(rounds)).replace("GOES", goes))


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_a_loop_makes_its_rounds_and_stacks_their_results(rounds: int, tmp_path: Path) -> None:
    """spec: T8.3, T8.9"""
    run = identical(looping(rounds, "goes = Identity (more)"), tmp_path, inputs={"x": np.float32([1, 2, 3])})
    assert run.outputs["y"].tolist() == [2**rounds, 2 * 2**rounds, 3 * 2**rounds]
    assert run.outputs["rows"].tolist() == [[2**k, 2 * 2**k, 3 * 2**k] for k in range(rounds)]


@pytest.mark.parametrize(("stop", "said"), [(2, "expected 5 rounds, got 3"), (9, "at most 5 rounds, got more")])
def test_a_loop_that_makes_other_rounds_than_planned_is_refused(stop: int, said: str, tmp_path: Path) -> None:
    """The condition ends it, and the file, which is believed, states five rows."""
    goes = f"limit = Constant <value = int64 {{{stop}}}> ()\n goes = Less (round, limit)"
    model = looping(7, goes)
    model.graph.output[1].type.tensor_type.shape.dim[0].dim_value = 5
    with pytest.raises(KernelFailed, match=said):
        Simulated(model, tmp_path, bindings={"trust_shapes": True})


def scan(attributes: str, shape: str, result: str) -> onnx.ModelProto:
    return model_of(f"""main (float[2] s, float{shape} x) => (float[2] last, float{result} rows) {{
      last, rows = Scan <num_scan_inputs = 1, {attributes} body = body (float[2] state, float[2] element)
        => (float[2] next, float[2] row) {{ next = Add (state, element)
          row = Mul (state, element) }}> (s, x)
    }}""")


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("backward", [0, 1])
def test_a_scan_goes_along_any_axis_in_either_direction(axis: int, backward: int, tmp_path: Path) -> None:
    """Against a few lines of NumPy: the reference evaluator knows the first axis alone."""
    words = f"scan_input_axes = [{axis}], scan_input_directions = [{backward}], "
    words += f"scan_output_axes = [{axis}], scan_output_directions = [{backward}],"
    shape = "[3, 2]" if axis == 0 else "[2, 3]"
    run = identical(scan(words, shape, shape), tmp_path)
    state, rows = run.written["s"], []
    slices = np.moveaxis(run.written["x"], axis, 0)
    for element in slices[::-1] if backward else slices:
        rows.append(state * element)
        state = state + element
    stacked = np.stack(rows[::-1] if backward else rows, axis=axis)
    assert run.outputs["last"].tolist() == state.tolist()
    assert run.outputs["rows"].tolist() == stacked.tolist()


def test_a_scan_over_nothing_returns_its_state(tmp_path: Path) -> None:
    run = identical(scan("", "[N, 2]", "[N, 2]"), tmp_path, bindings={"shapes": {"x": (0, 2)}})
    assert run.outputs["last"].tolist() == run.written["s"].tolist()
    assert run.outputs["rows"].shape == (0, 2)


def test_functions_of_the_model_are_run(tmp_path: Path) -> None:
    text = """main (float[4] x) => (float[4] y) { y = local.twice (x) }
    <domain: "local", opset_import: ["" : 18]> twice (a) => (c) { b = Relu (a)
      c = Add (b, b) }"""
    model = model_of(text, more=', "local" : 1')
    run = identical(model, tmp_path)
    assert run.outputs["y"].tolist() == (2 * np.maximum(run.written["x"], 0)).tolist()


@pytest.mark.parametrize(
    ("function", "call", "expected"),
    [
        ("f (a) => (a) { }", "y = local.f (x)", 1),
        ("f (a) => (c, a) { c = Neg (a) }", "c, d = local.f (x)\n y = Sum (c, d, d)", 1),
        ("f (a) => (c, c, a, a) { c = Neg (a) }", "c, d, e, g = local.f (x)\n y = Sum (c, d, e, g, g)", 1),
        ("f (a, b) => (b, a) { }", "c, d = local.f (x, x)\n e, g = local.f (c, d)\n y = Add (e, g)", 2),
    ],
)
def test_a_function_may_hand_on_its_inputs(function: str, call: str, expected: int, tmp_path: Path) -> None:
    """Nor need its outputs be different values. What is inlined is run as what is written."""
    text = f"""main (float[4] x) => (float[4] y) {{ {call} }}
    <domain: "local", opset_import: ["" : 18]> {function}"""
    run = identical(model_of(text, more=', "local" : 1'), tmp_path)
    assert run.outputs["y"].tolist() == (expected * run.written["x"]).tolist()


@pytest.mark.parametrize("dtype", sorted(BITS))
def test_elements_of_every_type_survive_being_bytes(dtype: str) -> None:
    """spec: SIM5.2"""
    for shape in ((), (0,), (1,), (5,), (3, 3)):
        raw = np.frombuffer(bytes(range(1, 1 + nbytes(shape, dtype))), np.uint8) & (1 if dtype == "bool" else 255)
        array = decode(raw, (shape, dtype))
        assert (array.shape, array.dtype) == (shape, numpy_type(dtype))
        again = encode(array, dtype)
        assert len(again) == len(raw)
        assert encode(decode(again, (shape, dtype)), dtype).tolist() == again.tolist()
        if BITS[dtype] >= 8:
            assert again.tolist() == raw.tolist()
        assert not array.flags.writeable


def test_narrow_elements_lie_as_onnx_packs_them() -> None:
    """spec: SIM5.2"""
    for dtype, kind in (("int4", TensorProto.INT4), ("uint4", TensorProto.UINT4)):
        tensor = helper.make_tensor("t", kind, (5,), [1, 2, 3, 4, 5])
        packed = numpy_helper.from_array(numpy_helper.to_array(tensor), "t").raw_data
        assert encode(numpy_helper.to_array(tensor), dtype).tobytes() == packed


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int4"])
def test_models_of_narrow_types_are_run(kind: str, tmp_path: Path) -> None:
    """Seven elements of four bits: the last byte is half empty. spec: SIM5.2"""
    text = f"main ({kind}[7] x) => ({kind}[7] y) {{ a = Cast <to = 1> (x)\n b = Relu (a)\n y = Cast <to = TO> (b) }}"
    number = {"float16": 10, "bfloat16": 16, "int4": 22}[kind]
    run = identical(model_of(text.replace("TO", str(number)), opset=21, ir_version=10), tmp_path)
    x = run.written["x"].astype(np.float32)
    assert run.outputs["y"].astype(np.float32).tolist() == np.maximum(x, 0).tolist()


def test_nan_payloads_are_compared_as_bits(tmp_path: Path) -> None:
    """spec: SIM1.3"""
    odd = np.array([0x7FC00123, 0xFFC00456, 0x3F800000], np.uint32).view(np.float32)
    run = identical(model_of("main (float[3] x) => (float[3] y) { y = Transpose (x) }"), tmp_path, inputs={"x": odd})
    assert run.outputs["y"].tobytes() == odd.tobytes()


def test_random_operators_draw_the_same_in_both_memories(tmp_path: Path) -> None:
    """spec: SIM5.5"""
    text = """main (float[64] x) => (float[64] y, float[8] z) <bool train = {1}, float ratio = {0.5}> {
      y = Dropout (x, ratio, train)
      z = RandomNormal <shape = [8]> () }"""
    run = identical(model_of(text), tmp_path)
    assert 0 < (run.outputs["y"] == 0).sum() < 64
    assert identical(model_of(text), tmp_path).outputs["z"].tolist() == run.outputs["z"].tolist()


def test_an_unproduced_output_is_not_asked_for(tmp_path: Path) -> None:
    """spec: T9.1"""
    text = "main (float[4] x) => (float[4] y) { y, mask = Dropout (x) }"
    assert identical(model_of(text), tmp_path).outputs["y"].shape == (4,)


def test_weights_come_from_the_file_or_its_weight_file_or_the_seed(tmp_path: Path) -> None:
    """spec: SIM5.3"""
    model = layers()
    assert all(t.data_location == TensorProto.EXTERNAL for t in model.graph.initializer)
    drawn_once = identical(model, tmp_path)
    assert identical(model, tmp_path, seed=1).outputs["y"].tolist() != drawn_once.outputs["y"].tolist()
    size = max(int(e.value) for t in model.graph.initializer for e in t.external_data if e.key == "offset") + 256
    (tmp_path / "layers.weights").write_bytes(np.arange(size // 4, dtype=np.float32).tobytes())
    stored = identical(model, tmp_path)
    assert stored.written["first.weight"].reshape(-1)[:3].tolist() == [0, 1, 2]
    (tmp_path / "layers.weights").write_bytes(b"short")
    with pytest.raises(TmmuError, match="its data cannot be read"):
        Simulated(model, tmp_path)


def test_sparse_weights_are_spread_out(tmp_path: Path) -> None:
    """spec: SIM5.3"""
    for index in ([1, 4], [[0, 1], [1, 1]]):
        model = model_of("main (float[2, 3] x) => (float[2, 3] y) { y = Add (x, w) }")
        indices = numpy_helper.from_array(np.array(index, np.int64), "w_indices")
        values = numpy_helper.from_array(np.float32([5, 7]), "w")
        sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=[2, 3])
        model.graph.sparse_initializer.append(sparse)
        run = identical(model, tmp_path)
        assert run.written["w"].tolist() == [[0, 5, 0], [0, 7, 0]]


def test_what_is_drawn_follows_from_seed_and_name() -> None:
    """spec: SIM5.4"""
    for dtype in sorted(BITS):
        size = ((3, 5), dtype)
        one = draw(7, "w", size)
        assert len(one) == nbytes(*size)
        assert one.tolist() == draw(7, "w", size).tolist()
    assert draw(7, "w", ((99,), "int64")).view(np.int64).max() < 8
    assert draw(7, "w", ((99,), "bool")).max() == 1
    assert draw(7, "v", ((3, 5), "float32")).tolist() != draw(7, "w", ((3, 5), "float32")).tolist()
    assert draw(7, "var", ((99,), "float32")).view(np.float32).min() > 0


BAD_INPUTS: Mapping[str, Mapping[str, object]] = {
    "the model has no input of this name": {"w": np.zeros(3, np.float32)},
    r"expected float32 \[3\], got float64 \[3\]": {"x": np.zeros(3)},
    r"got float32 \[4\]": {"x": np.zeros(4, np.float32)},
    "bytes, which are more": {"x": np.zeros(1 << 16, np.float32)},
}


@pytest.mark.parametrize("message", BAD_INPUTS)
def test_inputs_that_do_not_fit_are_refused(message: str, tmp_path: Path) -> None:
    """spec: SIM5.3"""
    path = tmp_path / "x.npz"
    np.savez(path, **BAD_INPUTS[message])
    with pytest.raises(TmmuError, match=message) as caught:
        read_inputs(str(path), {"x": ((3,), "float32")})
    assert caught.value.code_id == "INVALID_BINDING"


def test_inputs_of_types_that_numpy_does_not_have_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.array([1.5, 2], ml_dtypes.bfloat16))
    assert read_inputs(str(path), {"x": ((2,), "bfloat16")})["x"].tolist() == [1.5, 2]
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(TmmuError, match=r"is not an \.npz file"):
        read_inputs(str(path), {})
    np.savez(path, x=np.array([object()], object))
    with pytest.raises(TmmuError, match=r"is not an \.npz file"):
        read_inputs(str(path), {"x": ((1,), "float32")})


@pytest.mark.parametrize("shape", [(1, 8400), (40, 3), (5, 40, 2), (7, 2)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_are_gathered_along_axes_of_every_length(shape: tuple[int, ...], axis: int) -> None:
    """onnx's own kernel fails beyond 32 elements. spec: SIM5.1"""
    random = np.random.Generator(np.random.Philox(1))
    data = random.random(shape, np.float32)
    wanted = tuple(4 if k == axis % len(shape) else max(1, size - 1) for k, size in enumerate(shape))
    indices = random.integers(-shape[axis], shape[axis], wanted)
    node = helper.make_node("GatherElements", ["d", "i"], ["y"], axis=axis)
    sizes = [(shape, "float32"), (wanted, "int64")]
    [made] = NodeKernel("g", node, [helper.make_opsetid("", 18)], sizes, [(wanted, "float32")]).run([data, indices])
    for at in np.ndindex(*wanted):
        source = list(at)
        source[axis] = indices[at]
        assert made[at] == data[tuple(source)]


@pytest.mark.parametrize("axes", [(5,), (2, 3), (2, 3, 4)])
@pytest.mark.parametrize("op", ["GlobalMaxPool", "GlobalAveragePool"])
def test_a_global_pool_takes_every_axis_but_two(op: str, axes: tuple[int, ...]) -> None:
    """onnx's own kernel of the maximum takes two axes, and the mean is right. spec: SIM5.1"""
    data = np.random.Generator(np.random.Philox(1)).random((2, 3, *axes), np.float32)
    result = ((2, 3, *(1 for _ in axes)), "float32")
    node, opset = helper.make_node(op, ["x"], ["y"]), helper.make_opsetid("", 18)
    [made] = NodeKernel("g", node, [opset], [(data.shape, "float32")], [result]).run([data])
    for at in np.ndindex(2, 3):
        wanted = max(data[at].flat) if op == "GlobalMaxPool" else sum(map(float, data[at].flat)) / data[at].size
        assert float(made[at].item()) == pytest.approx(float(wanted))


def test_a_kernel_that_fails_or_is_missing_names_its_node(tmp_path: Path) -> None:
    """spec: SIM6.1"""
    gather = model_of("main (float[4] x, int64[1] i) => (float[1] y) { y = Gather (x, i) }")
    with pytest.raises(KernelFailed, match=r"CONTRACT_VIOLATION|kernel fails"):
        Simulated(gather, tmp_path, inputs={"i": np.array([9])})
    custom = model_of("main (float[4] x) => (float[4] y) { y = com.example.Op (x) }", more=', "com.example" : 1')
    with pytest.raises(TmmuError, match="no kernel for Op"):
        Simulated(custom, tmp_path, bindings={"trust_shapes": True})


def test_a_result_of_another_shape_than_planned_is_refused(tmp_path: Path) -> None:
    """The file states how many elements are not zero, and is believed; the input says otherwise."""
    model = model_of("main (float[4] x) => (int64[1, 3] y) { y = NonZero (x) }")
    bound = {"trust_shapes": True}
    with pytest.raises(KernelFailed, match=r"at most \[1, 3\], got \[1, 4\]"):
        Simulated(model, tmp_path, bindings=bound, inputs={"x": np.ones(4, np.float32)})
    identical(model, tmp_path, bindings=bound, inputs={"x": np.float32([1, 0, 1, 1])})


def test_a_result_smaller_than_its_bound_is_run_at_its_own_shape(tmp_path: Path) -> None:
    """Views and results in place of an operand follow; a value that a body takes or returns ends it. spec: SIM5.11"""
    x: dict[str, Any] = {"x": np.array([0, 1, 0, 2, 0, 3], np.float32)}
    bound = {"trust_shapes": True}
    after = "n = Shape (i)  f = Cast <to = 1> (i)  r = Relu (f)  s = Reshape (r, n)  y = Concat <axis = 1> (s, s)"
    model = model_of(f"main (float[6] x) => (float[1, 12] y) <int64[1, 6] i> {{ i = NonZero (x)  {after} }}")
    run = identical(model, tmp_path, bindings=bound, inputs=x)
    assert run.outputs["y"].tolist() == [[1, 3, 5, 1, 3, 5]]
    for text, why in (
        ("y = If (c) <then_branch = t () => (int64[1, 6] a) { a = Identity (i) }, "
         "else_branch = e () => (int64[1, 6] b) { b = Neg (i) }>", "a body returns"),
        ("m = Constant <value_int = 1> ()  y = Loop (m, , i) <body = l (int64 k, bool go, int64[1, 6] v) => "
         "(bool on, int64[1, 6] w) { on = Identity (go)  w = Neg (v) }>", "has bodies"),
    ):  # fmt: skip
        graph = f"main (float[6] x, bool c) => (int64[1, 6] y) <int64[1, 6] i> {{ i = NonZero (x)  {text} }}"
        with pytest.raises(KernelFailed, match=why):
            Simulated(model_of(graph), tmp_path, bindings=bound, inputs=x | {"c": np.array(True)})


def test_a_dimension_that_only_results_have_is_bound_with_trust(tmp_path: Path) -> None:
    """Without it the message names the option; a name that is nowhere has no such message. spec: T10.7"""
    model = model_of("main (float[6] x) => (int64[1, k] y) { y = NonZero (x) }")
    for name, why in (("k", "add --trust-shapes"), ("j", "the model has none")):
        with pytest.raises(TmmuError, match=why):
            Simulated(model, tmp_path, bindings={"dims": {name: 6}})
    identical(model, tmp_path, bindings={"dims": {"k": 6}, "trust_shapes": True})


def plan_of(model: onnx.ModelProto, folder: Path) -> Plan:
    return Simulated(model, folder).plan


def test_a_plan_of_another_model_is_not_run(tmp_path: Path) -> None:
    """spec: SIM5.6"""
    others = {
        "the plan has no tensor second.bias": layers(bias=False),
        "the plan has no step for the node|has no tensor|reads": layers(activation=None),
        "64 bytes|128 bytes": layers(dtype="float16"),
        "differ on whether the caller writes|no tensor": layers(weight_is_input=True),
        "make_y reads x, second, the model's node reads second, x": layers(subtract_input=False),
    }
    for text, other in others.items():
        plan = plan_of(other, tmp_path)
        if "differ" in text:
            # Both are written by the caller: what differs is who reads it in the end.
            assert Simulated(layers(), tmp_path, plan=plan).report.corruption is not None
            continue
        with pytest.raises(Corrupted, match=text):
            Simulated(layers(), tmp_path, plan=plan)


def test_the_model_says_what_its_caller_writes_and_reads(tmp_path: Path) -> None:
    """The plan does not know that `first` is an output, or states that a weight shows another. spec: SIM5.7"""
    run = Simulated(layers(first_is_output=True), tmp_path, plan=plan_of(layers(), tmp_path))
    assert run.report.corruption is not None
    assert run.report.corruption.tensors == ("first", "y")
    two = model_of(
        "main (float[4] x) => (float[4] z) <float[4] a = {1, 2, 3, 4}, float[4] b = {5, 6, 7, 8}>"
        " { y = Add (x, a) z = Mul (y, b) }"
    )
    plan = plan_of(two, tmp_path)
    names, t = plan.allocation.tensors.name.list(), plan.allocation.tensors
    tied = {"storage": int(t.storage[names.index("a")]), "of": names.index("a"), "shares": SHARES.index(Shares.VIEW)}
    corruption = Simulated(two, tmp_path, plan=changed(plan, "tensors", "b", **tied)).report.corruption
    assert corruption is not None
    assert (set(corruption.tensors), corruption.step) == ({"a", "b"}, None)


def test_gradient_steps_have_no_kernels(tmp_path: Path) -> None:
    """spec: SIM6.3"""
    from tmmu.planner import DEFAULT
    from tmmu.planner.modes import prepare_graph
    from tmmu.tasks.models import load

    path = tmp_path / "m.onnx"
    path.write_bytes(layers().SerializeToString())
    joint = prepare_graph(load(str(path)), "backward", DEFAULT)
    plan = plan_memory(joint, options=PlanOptions(mode="backward")).plan
    with pytest.raises(TmmuError, match="gradient steps have no ONNX kernels") as caught:
        Simulated(layers(), tmp_path, plan=plan)
    assert caught.value.code_id == "MODE_VIOLATION"
