"""Plans that are right for some model, but not for the model that they are handed out with.

Each states the digest of that model, except the plan whose digest is wrong. Only `--model` can refute them.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tmmu.core import folders
from tmmu.core.columns import NONE, Names, build_column
from tmmu.core.vocabulary import UNBOUND, Bindings
from tmmu.examples.broken.editing import edit, laid_out, reordered, right, row, without
from tmmu.examples.broken.kinds import Wrong, wrong
from tmmu.plans.columns import IS_RETURNED, Tensors
from tmmu.plans.sections import Plan, amend_plan

if TYPE_CHECKING:
    import onnx


def _bytes(model: onnx.ModelProto) -> bytes:
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def plan_of(model: onnx.ModelProto, bindings: Bindings = UNBOUND) -> Plan:
    """Make the right plan of an ONNX model, which the importer reads from a file."""
    from tmmu.importers.onnx import import_onnx

    with tempfile.TemporaryDirectory(dir=folders.temporary_folder()) as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(_bytes(model))
        return right(import_onnx(path, bindings))


def handed_out_with(model: onnx.ModelProto, plan: Plan) -> Wrong:
    """Return `plan` as if it had been made from `model`."""
    data = _bytes(model)
    return Wrong(edit(plan, source_digest=hashlib.sha256(data).digest()), model=data)


def _layers(**variant: Any) -> onnx.ModelProto:
    from tmmu.examples.broken import networks

    return networks.layers(**variant)


@wrong("steps_are_the_model")
def plan_of_another_model() -> Wrong:
    """The plan of an elementwise chain is handed out with a network of dense layers."""
    from tmmu.examples import chain

    return handed_out_with(_layers(), plan_of(chain.build()))


@wrong("steps_are_the_model", field="type")
def other_element_types() -> Wrong:
    """Every tensor of float32 in the model is one of int32 in the plan, which has the same size."""
    network = _layers()
    plan = plan_of(network)
    return handed_out_with(network, edit(plan, dtypes=("int32",)))


@wrong("steps_are_the_model", field="source-digest")
def source_digest_of_another_model() -> Wrong:
    """A right plan states the digest of another file."""
    model = _layers()
    return Wrong(edit(plan_of(model), source_digest=hashlib.sha256(b"another").digest()), model=_bytes(model))


@wrong("steps_are_the_model", "y", field="size")
def size_of_inference_alone() -> Wrong:
    """The bytes of the result of an Einsum are those of shape inference, which does not stretch a dimension of 1."""
    from tmmu.examples.broken import networks

    return handed_out_with(networks.stretched(), plan_of(networks.stretched()))


@wrong("steps_are_the_model", field="missing-step")
def step_left_out() -> Wrong:
    """The plan has no step for the Softmax of the model, whose reader reads its operand instead."""
    return handed_out_with(_layers(), plan_of(_layers(activation=None)))


@wrong("steps_are_the_model", field="extra-step")
def step_made_up() -> Wrong:
    """The plan has a Softmax that the model does not have."""
    return handed_out_with(_layers(activation=None), plan_of(_layers()))


@wrong("steps_are_the_model")
def table_cut_short() -> Wrong:
    """The last step and the last tensor are missing from all columns, and the rest is consistent with that."""
    model = _layers()
    plan = plan_of(model)
    steps = reordered(plan, range(len(plan.allocation.steps) - 1)).allocation.steps
    columns = {f.name: getattr(plan.allocation.tensors, f.name)[:-1] for f in fields(Tensors)}
    columns["name"] = Names.of(columns["name"])
    columns["death"] = build_column(
        [min(int(death), len(steps) - 1) for death in columns["death"]], columns["death"].dtype.type
    )
    return handed_out_with(model, laid_out(amend_plan(plan, steps=steps, tensors=Tensors(**columns))))


@wrong("steps_are_the_model", "second.bias")
def tensor_left_out() -> Wrong:
    """The plan does not place the bias that the model's Gemm reads."""
    return handed_out_with(_layers(), plan_of(_layers(bias=False)))


@wrong("steps_are_the_model", field="returned")
def result_stated_to_be_returned() -> Wrong:
    """The plan states that the caller reads a result at the end, and keeps it; the model does not."""
    plan = plan_of(_layers())
    t = plan.allocation.tensors
    name = t.name[int((t.writer != NONE).argmax())]
    flags, last = int(t.flags[row(plan, name)]) + IS_RETURNED, plan.allocation.last_step
    return handed_out_with(_layers(), laid_out(edit(plan, tensors={name: {"flags": flags, "death": last}})))


@wrong("steps_are_the_model")
def operator_renamed() -> Wrong:
    """The plan calls the Softmax of the model a Relu, which may work in place, and does so."""
    return handed_out_with(_layers(), plan_of(_layers(activation="Relu")))


@wrong("steps_are_the_model")
def operands_exchanged() -> Wrong:
    """The plan subtracts the product from the input; the model subtracts the input from the product."""
    return handed_out_with(_layers(), plan_of(_layers(subtract_input=False)))


@wrong("steps_are_the_model")
def zero_sizes() -> Wrong:
    """Every activation is stated to have no bytes, so that none overlaps another."""
    empty = plan_of(_layers(batch="batch"), Bindings(dims={"batch": 0}))
    return handed_out_with(_layers(), edit(empty, bindings=Bindings()))


@wrong("steps_are_the_model")
def sizes_of_another_batch() -> Wrong:
    """The plan is for one input at a time; the model takes four."""
    return handed_out_with(_layers(batch=4), plan_of(_layers(batch=1)))


@wrong("steps_are_the_model")
def binding_of_another_batch() -> Wrong:
    """The plan was made with the batch bound to 1, but states that it was bound to 4."""
    model = _layers(batch="batch")
    plan = plan_of(model, Bindings(dims={"batch": 1}))
    return handed_out_with(model, edit(plan, bindings=replace(plan.bindings, dims={"batch": 4})))


@wrong("steps_are_the_model")
def sizes_of_another_element_type() -> Wrong:
    """The plan is for float16, the model computes in float32."""
    return handed_out_with(_layers(), plan_of(_layers(dtype="float16")))


@wrong("steps_are_the_model", "first")
def output_forgotten() -> Wrong:
    """The plan does not state that the caller reads `first`, and reuses its bytes."""
    return handed_out_with(_layers(first_is_output=True), plan_of(_layers()))


@wrong("steps_are_the_model", "first.weight")
def parameter_called_an_input() -> Wrong:
    """The plan calls a parameter an input, whose bytes may be reused after its last reader."""
    return handed_out_with(_layers(), plan_of(_layers(weight_is_input=True)))


@wrong("steps_are_the_model")
def branch_left_out() -> Wrong:
    """The plan has no steps for a branch that no binding rules out."""
    from tmmu.examples.broken import networks

    model = networks.choice()
    return handed_out_with(model, edit(plan_of(model, Bindings(values={"flag": "true"})), bindings=Bindings()))


@wrong("bodies_nest")
def loop_hands_on_without_copies() -> Plan:
    """The two values of a loop are exchanged without a copy of either, so both end up as one of them."""
    from tmmu.examples.broken import networks

    model = networks.swap()
    plan = plan_of(model)
    copies = [name for name in plan.allocation.tensors.name if ".copy" in name]
    return without(plan, *copies)


@wrong("steps_are_the_model", "first")
def alignment_understated() -> Wrong:
    """A tensor of float32 is stated to need no alignment, so a later layout may put it at any byte."""
    model = _layers()
    return handed_out_with(model, edit(plan_of(model), tensors={"first": {"alignment": 1}}))
