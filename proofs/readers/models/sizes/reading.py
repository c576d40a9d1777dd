"""Compute the sizes of a model's tensors, node by node in order of execution, and compare them with shape inference.

If both are known and differ, the difference refutes a plan. If the rules cannot decide, the inferred size is assumed
and the operator is listed. If a rule refuses operands that inference accepts, that is a difference too.
spec: V3.7, V3.8, V3.9
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto

from proofs.readers.envelope import find_shape_apart
from proofs.readers.models.reference import SizeDifference
from proofs.readers.models.sizes.inputs import dimensions, input_size, input_value
from proofs.readers.models.sizes.table import RULES, version_of
from proofs.readers.models.sizes.values import Producer, TensorValues
from proofs.readers.operators import plain, qualify_name, row_of
from proofs.readers.operators.sizes.bodies import BodySizes, truth
from proofs.readers.operators.sizes.call import Call, Misfit, NotKnown, TensorSize, Value
from proofs.readers.operators.sizes.stored import size_of, sparse_size, value_of
from tmmu.core.dims.expressions import Dim, Unwieldy, evaluate, format_dim
from tmmu.core.dims.maxima import maximum, minimum
from tmmu.core.vocabulary import Bindings

Inferred = Mapping[str, tuple[tuple[Dim, ...], str]]


class Formal(NamedTuple):
    """A body of a node: its attribute, its graph, and the scoped names of its formal inputs."""

    attribute: str
    graph: GraphProto
    names: Sequence[str]


class SizeReading:
    """The sizes of one model as they are computed. A difference in `sizes` refutes a plan."""

    def __init__(self, inferred: Inferred, bindings: Bindings, opsets: Mapping[str, int], graph: GraphProto) -> None:
        self.inferred, self.bindings, self.opsets = inferred, bindings, opsets
        self.sizes: dict[str, TensorSize] = {}
        self.values = TensorValues(self.sizes, 0 if bindings.runtime is None else bindings.runtime.block)
        self.differences: list[SizeDifference] = []
        self.assumed: dict[str, str] = {}
        self._dims = dimensions(graph.input, bindings)

    def input(self, value: ValueInfoProto) -> None:
        """Add a graph input without a default."""
        try:
            found: TensorSize | NotKnown = input_size(value, self.bindings, self._dims)
        except NotKnown as reason:
            found = reason
        self._settle("the caller", "the graph's inputs", value.name, found)
        if isinstance(found, NotKnown):
            self.assumed.setdefault("the graph's inputs", str(found))
        self.values.assume(value.name, input_value(value, self.bindings))

    def stored(self, name: str, tensor: TensorProto | SparseTensorProto, has_value: bool) -> None:
        """Add an initializer. `has_value` is true unless the caller may replace its value."""
        try:
            dense = isinstance(tensor, TensorProto)
            found: TensorSize | NotKnown = size_of(tensor) if dense else sparse_size(tensor)
        except NotKnown as reason:
            found = reason
        self._settle("the caller", "initializers", name, found)
        if isinstance(found, NotKnown):
            self.assumed.setdefault("initializers", str(found))
        value = value_of(tensor) if has_value and isinstance(tensor, TensorProto) else None
        self.values.assume(name, value if value is not None and value.cells.shape == self.sizes[name].shape else None)

    def node(self, place: str, node: NodeProto, reads: Sequence[str | None], writes: Sequence[str | None]) -> None:
        """Add a node without bodies. `reads` and `writes` are scoped names, None for absent and unproduced ones."""
        made = self._made(node, reads, writes)
        rule = None if made is None else RULES.get((plain(node.domain), node.op_type, made.since))
        if made is None or rule is None:
            self._assume_all(place, node, writes, "it has no rule")
            return
        found = _attempt(lambda: rule(self.values.call(made)))
        if isinstance(found, list) and len(found) < len(writes):
            found = Misfit(f"it has {len(writes)} results, and {len(found)} at most")
        self._settle_all(place, node, writes, found)
        self.values.made_by(made)

    def enter(
        self, place: str, node: NodeProto, reads: Sequence[str | None], kept: Sequence[Formal], ruled_out: bool
    ) -> None:
        """Add the enter of a node with bodies; those in `kept` may run.

        If one is `ruled_out`, its condition must imply that.
        """
        made = self._made(node, reads, ())
        rules = None if made is None else _body_sizes(made)
        if made is None or rules is None:
            for body in kept:
                self._assume_all(place, node, body.names, "it has no rule")
            return
        call = self.values.call(made)
        if node.op_type == "If" and ruled_out:
            self._check_branch(place, call, kept[0].attribute)
        for body in kept:
            found = _attempt(partial(rules.formals, call, body.graph.input))
            self._settle_all(place, node, body.names, found)
            if node.op_type == "Loop" and call.has(1) and len(body.names) > 1:
                # The body runs only if its condition, which it receives, is true.
                shape = self.sizes[body.names[1]].shape
                self.values.assume(body.names[1], Value(np.ones([1] * len(shape), np.bool_), "bool"))

    def leave(
        self,
        place: str,
        node: NodeProto,
        reads: Sequence[str | None],
        handed: Sequence[Sequence[str]],
        writes: Sequence[str | None],
    ) -> None:
        """Add the leave of the node. `handed` are the scoped names of the outputs of each body."""
        made = self._made(node, reads, writes)
        rules = None if made is None else _body_sizes(made)
        if made is None or rules is None:
            self._assume_all(place, node, writes, "it has no rule")
            return
        call = self.values.call(made)
        is_loop = node.op_type == "Loop"
        begins = call.value(1) if is_loop and call.has(1) else None
        goes_on = self.values.of(handed[0][0]) if is_loop and call.has(1) and handed[0] else None
        given = [[self.sizes[name] for name in names] for names in handed]
        self._settle_all(place, node, writes, _attempt(lambda: rules.results(call, given, begins, goes_on)))
        if node.op_type == "If" and len(handed) == 1:
            for name, other in zip(writes, handed[0], strict=False):
                if name is not None:
                    self.values.equate(name, other)

    def _made(self, node: NodeProto, reads: Sequence[str | None], writes: Sequence[str | None]) -> Producer | None:
        since = version_of(node.domain, node.op_type, self.opsets)
        return None if since is None else Producer(node, since, reads, writes)

    def _check_branch(self, place: str, call: Call, kept: str) -> None:
        """Check that the branch that is left is the one that the condition takes."""
        try:
            taken = "then_branch" if truth(call.value(0)) else "else_branch"
        except NotKnown as reason:
            self._assume(call.node, str(reason))
            return
        if taken != kept:
            self.differences.append(SizeDifference("branch", place, "", f"{kept} runs", f"{taken} runs"))

    def _assume_all(self, place: str, node: NodeProto, names: Sequence[str | None], reason: str) -> None:
        self._settle_all(place, node, names, NotKnown(reason))

    def _settle_all(
        self, place: str, node: NodeProto, names: Sequence[str | None], found: list[TensorSize] | Misfit | NotKnown
    ) -> None:
        if isinstance(found, NotKnown):
            self._assume(node, str(found))
        for k, name in enumerate(names):
            if name is not None:
                own = found[k] if isinstance(found, list) and k < len(found) else found
                self._settle(place, _named(node), name, own if not isinstance(own, list) else NotKnown("no result"))

    def unproduced(self, node: NodeProto) -> None:
        """Record a named result without an inferred size, which is not a tensor (T9). A mask has none by its text."""
        if node.op_type != "Dropout":
            self._assume(node, "a named result has no size by inference, and no bytes")

    def _assume(self, node: NodeProto, reason: str) -> None:
        self.assumed.setdefault(_named(node), reason)

    def _settle(self, place: str, op: str, name: str, found: TensorSize | Misfit | NotKnown) -> None:
        """Compare a size with the inferred one.

        The reading continues with the inferred one, so each difference occurs once.
        """
        shape, dtype = self.inferred[name]
        inferred = TensorSize(shape, dtype)
        self.sizes[name] = inferred
        if isinstance(found, NotKnown) or found == inferred:
            return
        if isinstance(found, Misfit):
            self.differences.append(SizeDifference("size", place, name, str(inferred), f"no result: {found}"))
            return
        try:
            at = _differing(inferred, found, self.bindings.ranges)
        except NotKnown as reason:
            self.assumed.setdefault(op, str(reason))
            return
        if at is not None:
            self.differences.append(SizeDifference("size", place, name, f"{inferred}{at[0]}", f"{found}{at[1]}"))


def _body_sizes(made: Producer) -> BodySizes | None:
    """Return the rules for a node with bodies, None if its operator or its version has none."""
    row = row_of(made.node.domain, made.node.op_type)
    return row.bodies.sizes if row.bodies is not None and made.since in row.versions else None


def _named(node: NodeProto) -> str:
    """Return an operator's name in the list of assumed sizes."""
    return qualify_name(plain(node.domain) or "ai.onnx", node.op_type)


def _differing(one: TensorSize, other: TensorSize, ranges: Mapping[str, tuple[int, int]]) -> tuple[str, str] | None:
    """Return a suffix for each of two sizes that differ, with a shape of the envelope that makes them differ.

    Returns None if they never differ. Raises NotKnown if neither is shown.
    """
    if one.dtype != other.dtype or len(one.shape) != len(other.shape):
        return "", ""
    undecided = None
    for a, b in zip(one.shape, other.shape, strict=True):
        if a == b:
            continue
        if isinstance(a, int) and isinstance(b, int):
            return "", ""
        if (at := find_shape_apart(a, b, ranges)) is not None:
            where = ", ".join(f"{name}={size}" for name, size in at.items())
            return f" ({evaluate(a, at)} at {where})", f" ({evaluate(b, at)} at {where})"
        if not _always_equal(a, b):
            undecided = f"{format_dim(a)} and {format_dim(b)} are not shown to be equal for every shape"
    if undecided is not None:
        raise NotKnown(undecided)
    return None


def _always_equal(one: Dim, other: Dim) -> bool:
    try:
        least, most = minimum(one - other), maximum(one - other)
    except Unwieldy:
        return False
    return least is not None and most is not None and least.value == most.value == 0


def _attempt(rule: Callable[[], Sequence[TensorSize]]) -> list[TensorSize] | Misfit | NotKnown:
    """Return a rule's result, or why it has none. Attributes of an unexpected kind are a misfit."""
    try:
        return list(rule())
    except (Misfit, NotKnown) as reason:
        return reason
    except Unwieldy as reason:
        return NotKnown(str(reason))
    except (TypeError, ValueError, IndexError, ArithmeticError, AttributeError) as error:
        return Misfit(f"its operands or attributes do not fit it ({error})")
