"""Build the joint graph of a forward one: one gradient step for each node that takes part, in reverse order (M2).

Gradients flow only from the graph outputs to the parameters. A gradient with contributions of several nodes is their
sum, added in the order of the consumers and their operands. The contributions may be made in any other order: the
numbers of a run depend on it. spec: M2.1 to M2.12, M2.14, M2.15
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, Model, Node, Phase, Role, Tensor, View
from tmmu.ir.validate import validate_model
from tmmu.operators import ONNX, row_of
from tmmu.planner.training import gradients

PERSISTENT = (Role.PARAMETER, Role.OPTIMIZER)


def expand_to_joint(model: Model) -> Model:
    """Build the joint forward and backward graph of `model`, whose nodes are in execution order.

    Parameters
    ----------
    model
        A valid model. If it has backward nodes, or no nodes, it is returned unchanged.

    Returns
    -------
    Model
        The forward nodes, their gradient steps in reverse order with the additions that they need, then the optimizer
        nodes. For each floating graph output `y` that depends on a parameter there is an input `y.seed`; the gradient
        of `w` is `w.grad`.

    Raises
    ------
    TmmuError
        MODE_VIOLATION if no parameter has a gradient, if a forward node has bodies or mutates a tensor, or if an alias
        group holds a tensor that backward reads; INVALID_IR if the model uses a name that is needed.

    Notes
    -----
    O(nodes + accesses). `spec/tmmu.md` M2.1 to M2.12.
    """
    if not model.nodes or any(node.phase is Phase.BACKWARD for node in model.nodes):
        return model
    _check_plain(model)
    joint = _Expansion(model).joint()
    validate_model(joint)
    return joint


def no_gradient_error(node: str, what: str) -> TmmuError:
    """Return MODE_VIOLATION for a node or tensor that cannot be differentiated."""
    return TmmuError("MODE_VIOLATION", what, place=node, fix="plan it with --mode inference", mode="backward")


def _check_plain(model: Model) -> None:
    for body in model.bodies[1:]:
        node = model.nodes[body.owner]
        raise no_gradient_error(
            f"node {node.name!r}", f"{node.op} has a body, and gradients of bodies are not supported"
        )
    for node in model.nodes:
        if node.phase is Phase.FORWARD and node.mutates:
            raise no_gradient_error(f"node {node.name!r}", "it mutates a tensor, which has no gradient")


@dataclass
class _Expansion:
    """A joint graph under construction: tensors and backward nodes are appended."""

    model: Model
    tensors: list[Tensor] = field(default_factory=list)
    backward: list[Node] = field(default_factory=list)
    gradient: dict[int, int] = field(default_factory=dict)
    parts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def joint(self) -> Model:
        model = self.model
        self.tensors = list(model.tensors)
        self.forward = [n for n, node in enumerate(model.nodes) if node.phase is Phase.FORWARD]
        self.sources = _sources(model)
        needs = self._find_dependent()
        self.edges = self._edges(needs)
        if not self.edges:
            raise no_gradient_error(
                f"model {model.name!r}", "no output depends on a parameter by operations that have gradients"
            )
        # The consumers of each tensor in the order in which their parts are added; edges are in reverse node order.
        self.consumers: dict[int, list[int]] = {}
        self.place: dict[tuple[int, int], int] = {}
        for n, edges in reversed(self.edges.items()):
            for p, t in edges:
                self.place[n, p] = len(self.consumers.setdefault(t, []))
                self.consumers[t].append(n)
        self.expected = self._optimizer_reads()
        seeds = self._add_seeds(needs)
        for n in reversed(self.forward):
            if n in self.edges:
                self._add_step(n)
                for t in dict.fromkeys(t for _, t in self.edges[n]):
                    if self.consumers[t][0] == n:
                        self._add_sum(t)
        return self._finish(seeds)

    def _find_dependent(self) -> set[int]:
        """Return the floating tensors that depend on a source by operations that have gradients."""
        found = set(self.sources)
        for n in self.forward:
            node = self.model.nodes[n]
            if any(t in found and gradients.gradient_reads(node, p) is not None for p, t in enumerate(node.reads)):
                found.update(t for t in node.writes if gradients.is_floating(self.tensors[t]))
        return found

    def _edges(self, needs: set[int]) -> dict[int, list[tuple[int, int]]]:
        """Return for each node with a gradient step the operands (position, tensor) that it contributes to."""
        wanted = needs.intersection(self.model.outputs)
        edges = {}
        for n in reversed(self.forward):
            node = self.model.nodes[n]
            if wanted.isdisjoint(node.writes):
                continue
            edges[n] = [
                (p, t) for p, t in enumerate(node.reads) if t in needs and gradients.gradient_reads(node, p) is not None
            ]
            wanted.update(t for _, t in edges[n])
        return edges

    def _optimizer_reads(self) -> dict[int, int]:
        """Return the gradients that an optimizer node reads: inputs of the model that are named after a parameter."""
        model = self.model
        named = {tensor.name: t for t, tensor in enumerate(model.tensors)}
        read = {t for node in model.nodes if node.phase is Phase.OPTIMIZER for t in node.reads}
        found = {}
        for w in self.sources:
            t = named.get(f"{model.tensors[w].name}.grad")
            if t is None or t not in read or t not in model.inputs or w not in self.consumers:
                continue
            like, of = model.tensors[t], model.tensors[w]
            if (like.shape, like.dtype) == (of.shape, of.dtype):
                found[w] = t
                self.tensors[t] = replace(like, role=Role.GRADIENT)
        return found

    def _add_seeds(self, needs: set[int]) -> list[int]:
        """Add an input for the gradient of each output; it is the last part, as the caller reads after all steps."""
        seeds = []
        for y in self.model.outputs:
            if y in needs:
                seed = self._add_like(y, f"{self.tensors[y].name}.seed", Role.INPUT)
                seeds.append(seed)
                if y in self.consumers:
                    self.parts[y] = [(len(self.consumers[y]), seed)]
                else:
                    self.gradient[y] = seed
        return seeds

    def _add_like(self, t: int, name: str, role: Role = Role.GRADIENT, view: View | None = None) -> int:
        like = self.tensors[t]
        self.tensors.append(Tensor(name, like.shape, like.dtype, role, like.bytes, like.alignment, view))
        return len(self.tensors) - 1

    def _add_whole(self, t: int, view: View | None = None) -> int:
        """Return the tensor `<t>.grad`, added unless the model has it because an optimizer node reads it."""
        if t not in self.expected:
            return self._add_like(t, f"{self.tensors[t].name}.grad", view=view)
        self.tensors[self.expected[t]] = replace(self.tensors[self.expected[t]], view=view)
        return self.expected[t]

    def _add_step(self, n: int) -> None:
        """Append the gradient step of node `n`: it reads gradients and saved tensors, and writes a part per operand."""
        node, edges = self.model.nodes[n], self.edges[n]
        given = [self.gradient[t] for t in node.writes if t in self.gradient]
        saved = {t for p, _ in edges for t in gradients.gradient_reads(node, p) or ()}
        read = dict.fromkeys([*given, *(t for t in (*node.reads, *node.writes) if t in saved)])
        first = self.tensors[given[0]]
        back = gradients.is_known(node) and self._is_view(node)
        passing = gradients.gradient_rule(node).passes
        if node.op == "Dropout" and node.domain in ONNX and not back and len(node.writes) == 1:
            raise no_gradient_error(
                f"node {node.name!r}", "it is a Dropout without mask, so that the dropped elements are unknown"
            )
        writes = []
        for p, t in edges:
            shown = back or (passing and math.prod(self.tensors[t].shape) == math.prod(first.shape))
            view = View(given[0], 0, first.bytes) if shown else None
            if len(self.consumers[t]) == 1 and t not in self.parts:
                part = self.gradient[t] = self._add_whole(t, view)
            else:
                place = self.place[n, p]
                part = self._add_like(t, f"{self.tensors[t].name}.grad.part{place}", view=view)
                self.parts.setdefault(t, []).append((place, part))
            writes.append(part)
        domain, op = ("", "Reshape") if back else gradients.gradient_operator(node)
        hints = self._hint(node, writes[0], given[0]) if not back else ()
        made = Node(f"{node.name}.grad", op, tuple(read), tuple(writes), domain, MAIN, hints, phase=Phase.BACKWARD)
        self.backward.append(made)

    def _is_view(self, node: Node) -> bool:
        """Return whether the gradient of a node is its result's gradient in another shape."""
        operand, result = self.tensors[node.reads[0]], self.tensors[node.writes[0]]
        whole = View(node.reads[0], 0, operand.bytes)
        if row_of("", node.op).only_at_inference:
            return result.view is not None and result.view._replace(strides=None) == whole
        same = operand.dtype == result.dtype and math.prod(operand.shape) == math.prod(result.shape)
        return gradients.gradient_rule(node).reshapes and same

    def _hint(self, node: Node, result: int, operand: int) -> tuple[tuple[int, int], ...]:
        """Return the in-place hint of an elementwise gradient: it may take the bytes of its result's gradient."""
        r, o = self.tensors[result], self.tensors[operand]
        fits = r.shape == o.shape and BITS[r.dtype] == BITS[o.dtype]
        return ((result, operand),) if fits and gradients.gradient_rule(node).in_place else ()

    def _add_sum(self, t: int) -> None:
        """Add the parts of a gradient, in the order of consumers and operands."""
        if t not in self.parts:
            return
        name = self.tensors[t].name
        total, *others = [part for _, part in sorted(self.parts[t])]
        for k, part in enumerate(others, 1):
            added = self._add_whole(t) if k == len(others) else self._add_like(t, f"{name}.grad.sum{k}")
            hints = tuple((added, operand) for operand in (total, part))
            node = Node(f"{name}.grad.add{k}", "Add", (total, part), (added,), "", MAIN, hints, phase=Phase.BACKWARD)
            self.backward.append(node)
            total = added
        self.gradient[t] = total

    def _finish(self, seeds: list[int]) -> Model:
        model = self.model
        later = [node for node in model.nodes if node.phase is Phase.OPTIMIZER]
        forward = [model.nodes[n] for n in self.forward]
        tensors = mark_saved(self.tensors, forward, self.backward)
        read = set(self.expected.values())
        results = [self.gradient[w] for w in self.sources if w in self.gradient and w not in self.expected]
        outputs = (*model.outputs, *results)
        inputs = (*(t for t in model.inputs if t not in read), *seeds)
        for tensor in tensors:
            if tensor.alias_group is not None and tensor.saved_for_backward:
                raise no_gradient_error(
                    f"tensor {tensor.name!r}", "backward reads it, and it shares bytes in an alias group"
                )
        main = replace(model.bodies[MAIN], inputs=inputs, outputs=outputs)
        return replace(model, tensors=tuple(tensors), nodes=(*forward, *self.backward, *later), bodies=(main,))


def mark_saved(tensors: list[Tensor], forward: list[Node], backward: list[Node]) -> list[Tensor]:
    """Return the tensors, with `saved_for_backward` set if backward reads what a forward node or the caller wrote.

    Parameters and optimizer state are live anyway, and gradients, seeds and recomputed tensors belong to backward. A
    tensor that backward mutates is read by it, and not made by it.
    """
    written = {t for node in backward for t in node.made}
    forward_reads = {t for node in forward for t in (*node.reads, *node.writes)}
    read = {t for node in backward for t in node.reads if t not in written and t in forward_reads}
    saved = {t for t in read if tensors[t].role not in PERSISTENT}
    return [
        tensor if tensor.saved_for_backward == (t in saved) else replace(tensor, saved_for_backward=t in saved)
        for t, tensor in enumerate(tensors)
    ]


class Gradients(NamedTuple):
    """What a model is differentiated by: its parameters, or if none has a gradient its inputs."""

    word: str
    of: tuple[str, ...]
    having: frozenset[str]
    """Those whose gradient a step computes."""


def list_gradients(model: Model, joint: Model) -> Gradients:
    """Return the names of parameters, and which of them have a gradient in the joint graph of `expand`. O(tensors)."""
    written = {joint.tensors[t].name for node in joint.nodes for t in node.writes}
    word, names = "parameter", [tensor.name for tensor in model.tensors if tensor.role is Role.PARAMETER]
    if not any(model.tensors[t].role is Role.PARAMETER for t in _sources(model)):
        word, names = "input", [model.tensors[t].name for t in model.inputs]
    return Gradients(word, tuple(names), frozenset(name for name in names if f"{name}.grad" in written))


def _sources(model: Model) -> list[int]:
    """Return the tensors to differentiate by: the floating parameters, or without any the floating graph inputs.

    A parameter without dimensions is a constant that an exporter wrote, and has no gradient.
    """
    parameters = [
        t
        for t, tensor in enumerate(model.tensors)
        if tensor.role is Role.PARAMETER and gradients.is_floating(tensor) and tensor.shape
    ]
    return parameters or [t for t in model.inputs if gradients.is_floating(model.tensors[t])]
