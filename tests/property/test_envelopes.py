"""A plan for an envelope against a plan for each of its shapes: sizes, sharing and proof, by looking at all shapes.

The oracle is the importer without an envelope: ONNX's own inference on numbers, which shares no rule with expressions.
spec: R6.1, R6.2, R6.5, R6.6
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from proofs.definition.checker import envelope
from proofs.definition.checker import execute as checker
from proofs.definition.checker.program import build_program
from proofs.proving import obligations
from proofs.readers.models.onnx import read_onnx
from proofs.readers.sharing import decide_permissions
from proofs.verify.judge import verify
from proofs.verify.options import Options
from proofs.verify.verdict import PROVED
from tests.support.envelopes import Dynamic, dynamic, shapes_of
from tmmu.core.columns import build_column
from tmmu.core.dims.expressions import evaluate
from tmmu.core.dtypes import nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings
from tmmu.importers.onnx import import_onnx
from tmmu.onnx import resolve
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import amend_plan
from tmmu.plans.shapes import at_shape


@given(dynamic())
def test_a_size_is_what_it_is_at_every_shape(case: Dynamic) -> None:
    """Where the envelope is accepted, every expression gives every concrete size, and the plan the largest of them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(case.model.SerializeToString())
        try:
            model = import_onnx(path, Bindings(ranges=case.ranges))
        except TmmuError as error:
            event(f"refused: {error.code_id}")
            assume(False)
        open_sizes = resolve(path, Bindings(ranges=case.ranges)).sizes
        largest: dict[str, int] = {}
        for shape in shapes_of(case.ranges):
            concrete = resolve(path, Bindings(dims=shape)).sizes
            assert concrete.keys() == open_sizes.keys()
            for name, (dims, dtype) in open_sizes.items():
                assert concrete[name] == (tuple(evaluate(dim, shape) for dim in dims), dtype), (name, shape, dims)
                largest[name] = max(largest.get(name, 0), nbytes(*concrete[name]))
        event("accepted")
        assert {tensor.name: tensor.bytes for tensor in model.tensors} == largest


@settings(max_examples=settings.default.max_examples // 4)
@given(dynamic(most=4), st.data())
def test_a_plan_of_an_envelope_is_proved_and_holds_at_each_of_its_shapes(case: Dynamic, data: st.DataObject) -> None:
    """The same plan with the sizes of one shape in the place of the largest is right for the model at that shape."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(case.model.SerializeToString())
        try:
            model = import_onnx(path, Bindings(ranges=case.ranges))
        except TmmuError:
            assume(False)
        plan = plan_memory(
            model, options=PlanOptions(layout=data.draw(st.sampled_from(("packed", "slots", "pools"))))
        ).plan
        file.save(plan, Path(folder, "plan.cbor"))
        assert verify(str(Path(folder, "plan.cbor")), Options(model=str(path))).verdict == PROVED
        shape = data.draw(st.sampled_from(list(shapes_of(case.ranges))))
        sizes = [evaluate(size, shape) for size in plan.sizes()]
        tensors = replace(plan.allocation.tensors, bytes=build_column(sizes, plan.allocation.tensors.bytes.dtype.type))
        small = amend_plan(plan, tensors=tensors, envelope=None, bindings=replace(plan.bindings, ranges={}, dims=shape))
        expected = read_onnx(path, small.bindings)
        assert {name: size for name, (size, _) in expected.sizes.items()} == dict(
            zip(small.allocation.tensors.name, sizes, strict=True)
        )
        permissions = decide_permissions(small, expected, frozenset())
        shared = decide_permissions(plan, read_onnx(path, plan.bindings), frozenset())
        assert (permissions.views, permissions.in_place) == (shared.views, shared.in_place)
        assert list(checker.violations(build_program(small, permissions, frozenset()))) == []


@settings(max_examples=settings.default.max_examples // 4)
@given(dynamic(most=4), st.data())
def test_a_symbolic_plan_is_proved_and_so_is_it_at_each_of_its_shapes(case: Dynamic, data: st.DataObject) -> None:
    """With the offsets and the claims that follow from the sizes there, against the model at that shape. spec: R6.15"""
    with tempfile.TemporaryDirectory() as folder:
        path, file_ = Path(folder, "model.onnx"), Path(folder, "plan.cbor")
        path.write_bytes(case.model.SerializeToString())
        try:
            model = import_onnx(path, Bindings(ranges=case.ranges))
        except TmmuError:
            assume(False)
        plan = plan_memory(model, options=PlanOptions(symbolic=True)).plan
        file.save(plan, file_)
        assert verify(str(file_), Options(model=str(path))).verdict == PROVED
        planned = plan.allocation.storages.offset
        for shape in data.draw(st.lists(st.sampled_from(list(shapes_of(case.ranges))), min_size=1, max_size=2)):
            small = at_shape(plan, shape)
            assert (small.allocation.storages.offset <= planned).all()
            file.save(small, file_)
            assert verify(str(file_), Options(model=str(path))).verdict == PROVED


@settings(max_examples=settings.default.max_examples // 4)
@given(dynamic(most=4), st.data())
def test_a_size_that_some_shape_exceeds_is_refuted_at_a_shape(case: Dynamic, data: st.DataObject) -> None:
    """One byte less than the largest: the naive side names a shape, and the solver does not prove it either."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(case.model.SerializeToString())
        try:
            model = import_onnx(path, Bindings(ranges=case.ranges))
        except TmmuError:
            assume(False)
    plan = plan_memory(model).plan
    row = data.draw(st.integers(0, len(plan.allocation.tensors) - 1))
    sizes = plan.allocation.tensors.bytes.tolist()
    assume(sizes[row] > 0)
    sizes[row] -= 1
    lied = amend_plan(
        plan,
        tensors=replace(plan.allocation.tensors, bytes=build_column(sizes, plan.allocation.tensors.bytes.dtype.type)),
    )
    found = next(envelope.violations(lied))
    assert found.tensors[0] in plan.allocation.tensors.name
    assert found.sizes[0] == sizes[row] + 1
    assert (
        evaluate(plan.sizes()[plan.allocation.tensors.name.list().index(found.tensors[0])], found.shape)
        == found.sizes[0]
    )
    assert obligations.prove_over_envelope(lied, 60.0).verdict == obligations.VIOLATED
