"""Wrong plans of training: the model that they are handed out with has only a forward half.

The verifier makes the backward half itself, so the model alone refutes each of these, except the one whose saved tensor
dies too early: its own steps refute it.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tmmu.core import folders
from tmmu.core.vocabulary import Model, Node
from tmmu.examples.broken.editing import edit, laid_out, right, step_of
from tmmu.examples.broken.kinds import Wrong, wrong
from tmmu.plans.sections import Plan

WIDTH = 64


def _network(draw: bool = False) -> bytes:
    """Build `a` = x·w, `b` = tanh a, `c` = b·a (or b times a random mask), `d` = c + a, and the output `y` = d·w."""
    from tmmu.examples.graph import OnnxGraph

    graph = OnnxGraph("residual")
    weight = graph.weight("w", (WIDTH, WIDTH))
    a = graph.node("MatMul", graph.input("x", (1, WIDTH)), weight, result="a")
    b = graph.node("Tanh", a, result="b")
    c = graph.node("Mul", b, graph.node("RandomNormalLike", b, result="mask") if draw else a, result="c")
    graph.node("MatMul", graph.node("Add", c, a, result="d"), weight, result="y")
    graph.output("y", (1, WIDTH))
    model = graph.model()
    for node in model.graph.node:
        node.name = f"make_{node.output[0]}"
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _build_joint(data: bytes) -> Model:
    from tmmu.importers.onnx import import_onnx
    from tmmu.planner.training.expand import expand_to_joint

    with tempfile.TemporaryDirectory(dir=folders.temporary_folder()) as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(data)
        return expand_to_joint(import_onnx(path))


def _plan_changed(change: Callable[[Model], Model], draw: bool = False) -> Wrong:
    """Return the plan of the joint graph with something changed, handed out with the right model."""
    data = _network(draw)
    plan = right(change(_build_joint(data)), mode="backward")
    return Wrong(edit(plan, source_digest=hashlib.sha256(data).digest()), model=data)


def _with_node(model: Model, name: str, change: Callable[[Node], Node]) -> Model:
    return replace(model, nodes=tuple(change(node) if node.name == name else node for node in model.nodes))


def _tensor(model: Model, name: str) -> int:
    return next(t for t, tensor in enumerate(model.tensors) if tensor.name == name)


def _repeat(model: Model, node: str, reader: str, change: Callable[[Node, Model], Node]) -> Model:
    """Run `node` again before `reader`, which then reads the new result; `change` makes the step that runs again."""
    position = next(n for n, other in enumerate(model.nodes) if other.name == node)
    original = model.nodes[position]
    first = original.writes[0]
    copy = replace(model.tensors[first], name=f"{model.tensors[first].name}.recompute0", saved_for_backward=False)
    row_of_copy = len(model.tensors)
    phase = next(other.phase for other in model.nodes if other.name == reader)
    clone = replace(original, name=f"{node}.recompute0", writes=(row_of_copy,), in_place=(), phase=phase)
    nodes = []
    for other in model.nodes:
        if other.name == reader:
            nodes.append(change(clone, model))
            other = replace(other, reads=tuple(row_of_copy if t == first else t for t in other.reads))
        nodes.append(other)
    return replace(model, tensors=(*model.tensors, copy), nodes=tuple(nodes))


@wrong("steps_are_the_model", field="reads")
def gradients_added_in_another_order() -> Wrong:
    """The two contributions to the gradient of a weight are added in the other order, which rounds differently."""
    return _plan_changed(lambda m: _with_node(m, "w.grad.add1", lambda node: replace(node, reads=node.reads[::-1])))


@wrong("steps_are_the_model", field="reads")
def gradient_without_what_it_is_computed_from() -> Wrong:
    """The gradient step of a product does not read the other factor, whose bytes are reused before."""
    return _plan_changed(
        lambda m: _with_node(m, "make_c.grad", lambda node: replace(node, reads=(node.reads[0], _tensor(m, "b"))))
    )


@wrong("steps_are_the_model", field="missing-step")
def weight_without_its_last_contribution() -> Wrong:
    """The gradient of a weight is that of its second reader; the addition of the first reader's part is left out."""

    def change(model: Model) -> Model:
        nodes = tuple(node for node in model.nodes if node.name != "w.grad.add1")
        whole, part = _tensor(model, "w.grad"), _tensor(model, "w.grad.part1")
        tensors = list(model.tensors)
        tensors[whole], tensors[part] = (
            replace(tensors[whole], name="w.grad.part1"),
            replace(tensors[part], name="w.grad"),
        )
        main = replace(model.bodies[0], outputs=tuple(part if t == whole else t for t in model.outputs))
        joint = replace(model, tensors=tuple(tensors), nodes=nodes, bodies=(main,))
        # The name that remains has no writer: it is stated to be an input.
        tensors[whole] = replace(tensors[whole], role=model.tensors[model.inputs[0]].role)
        return replace(joint, tensors=tuple(tensors), bodies=(replace(main, inputs=(*main.inputs, whole)),))

    return _plan_changed(change)


@wrong("steps_are_the_model", field="operator")
def another_operator_run_again() -> Wrong:
    """A value that is stated to be recomputed is computed by another operator, and backward reads it."""
    return _plan_changed(lambda m: _repeat(m, "make_b", "make_c.grad", lambda clone, _: replace(clone, op="Sigmoid")))


@wrong("steps_are_the_model", field="extra-step")
def other_values_run_again() -> Wrong:
    """A value that is stated to be recomputed is computed from another tensor of the same size."""
    return _plan_changed(
        lambda m: _repeat(m, "make_b", "make_c.grad", lambda clone, m: replace(clone, reads=(_tensor(m, "c"),)))
    )


@wrong("steps_are_the_model", field="extra-step")
def random_numbers_drawn_again() -> Wrong:
    """A random mask is drawn a second time for backward: it is not the mask that forward applied."""
    return _plan_changed(lambda m: _repeat(m, "make_mask", "make_c.grad", lambda clone, _: clone), draw=True)


@wrong("lifetimes_cover_accesses", "a")
def saved_tensor_dies_at_its_last_forward_reader() -> Plan:
    """A tensor that backward reads lives only to the last step that reads it in the forward half."""
    plan = right(_build_joint(_network()), mode="backward")
    return laid_out(edit(plan, tensors={"a": {"death": step_of(plan, "make_d")}}))


@wrong("steps_are_the_model", field="saved")
def saved_tensor_not_kept_for_backward() -> Wrong:
    """In mode `forward`, a tensor that the gradients need does not live to the end, and is not stated to be saved."""
    from tmmu.planner.arenas import DEFAULT
    from tmmu.planner.modes import prepare_graph

    data = _network()
    half = prepare_graph(_build_joint(data), "forward", DEFAULT)
    forgotten = tuple(replace(tensor, saved_for_backward=False) for tensor in half.tensors)
    return Wrong(right(replace(half, tensors=forgotten), mode="forward"), model=data)
