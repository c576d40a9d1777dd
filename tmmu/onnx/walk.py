"""The size of every tensor of a model, in one walk in the order of execution.

When a node is reached, the sizes of all its operands are known. The sizes of its results follow from the operator, or,
if the value of an operand decides them, from that value, computed on demand. Therefore each size is established once,
no statement of the file about a result is used unchecked, and the first tensor that stays unknown is refused by name.
spec: T9.1, T10.1, T10.2, T10.5, T10.6, T10.14
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from tmmu.core.dims.expressions import Dim, Expression, Unwieldy, format_dim, upper_bound
from tmmu.core.errors import TmmuError
from tmmu.core.output import suggest_names
from tmmu.onnx import bodies as rules
from tmmu.onnx.binding import Bound
from tmmu.onnx.folding import is_folded
from tmmu.onnx.naming import domain_of
from tmmu.onnx.operators import Operators, names_of
from tmmu.onnx.rules import NodeFacts, Unfit
from tmmu.onnx.sizes import (
    UNKNOWN,
    Array,
    Size,
    Type,
    check_extent,
    is_open,
    numbers,
    refuse,
    stored_type,
    unshown,
)
from tmmu.onnx.stated import StatedShapes, StatedSize
from tmmu.onnx.structure import GIVEN, GraphScope, Structure
from tmmu.onnx.table import row_of
from tmmu.onnx.values import KnownValue, ScopedName, Values, locate

NO_VALUES: Mapping[str, Array] = {}
MOST_GIVEN = 64
"""The most elements of an input whose value the user is asked for."""


class Walk:
    """One execution of the model with sizes instead of tensors."""

    def __init__(
        self,
        operators: Operators,
        found: Structure,
        bound: Bound,
        stated: StatedShapes | None,
        others: Mapping[str, StatedSize] = {},
    ) -> None:
        self.operators, self.structure, self.stated, self.others = operators, found, stated, others
        self.given: set[str] = {name for name in others if name in bound.sizes}
        self.sizes: dict[str, Size] = dict(bound.sizes)
        self.values = Values(operators, self.sizes, bound.values)
        self.ruled_out: set[str] = set()
        self.unproduced: set[str] = set()
        self.defaults: dict[str, Array] = {}

    def run(self) -> None:
        """Walk through the main graph, and enter each body at its node."""
        main = self.structure.main
        self._open(main, [])
        work = [(main, position, False) for position in reversed(range(main.end))]
        while work:
            scope, position, leaving = work.pop()
            bodies = [body for body in scope.bodies.get(position, ()) if body.name not in self.ruled_out]
            try:
                if leaving:
                    self._record(scope, position, self._compute_results(scope, position, bodies))
                elif bodies:
                    work.append((scope, position, True))
                    for body in reversed(self._enter(scope, position, bodies)):
                        work.extend((body, inner, False) for inner in reversed(range(body.end)))
                else:
                    self._record(scope, position, self._infer(scope, position))
            except TmmuError as error:
                if flags := self._suggest_deciding_flags(scope):
                    error.fix = f"{error.fix}, or decide the branch with {flags}"
                raise

    def _open(self, scope: GraphScope, formals: Sequence[Size]) -> None:
        """Record the sizes of the inputs and initializers of a scope."""
        for name, size in zip(scope.inputs, formals, strict=False):
            self.sizes[scope.scoped(name)] = size
        for name, tensor in scope.initializers.items():
            place = f"initializer {scope.scoped(name)!r}"
            stored = stored_type(tensor, place).size()
            if stored is None:
                raise refuse("INVALID_IR_SHAPES", place, "it has no element type", "export the model again")
            self.sizes[scope.scoped(name)] = check_extent(stored, place)

    def _enter(self, scope: GraphScope, position: int, bodies: list[GraphScope]) -> list[GraphScope]:
        """Decide which bodies run, and record their inputs."""
        node, place = scope.nodes[position], _place(scope, position)
        if not row_of(domain_of(node), node.op_type).bodies:
            for body in bodies:
                self._open(body, [self._stated_input(body, value) for value in body.graph.input])
            return bodies
        rules.check_bodies(node, place, bodies, self.operators.version(node))
        if node.op_type == "If":
            bodies = self._choose_branches(scope, position, bodies)
            formals: Sequence[Size] = []
        elif node.op_type == "Loop":
            formals = rules.loop_inputs(bodies[0], self._list_operands(scope, position)[2:])
            if len(node.input) > 1 and node.input[1]:
                # The body runs only if its condition, which it is given, is true.
                condition = bodies[0].scoped(bodies[0].inputs[1])
                self.values.assume(condition, np.ones(numbers(formals[1][0]), np.bool_))
        else:
            formals, _ = rules.scan_inputs(place, rules.scan_attributes(node), self._list_operands(scope, position))
        for body in bodies:
            self._open(body, formals)
        return bodies

    def _choose_branches(self, scope: GraphScope, position: int, bodies: list[GraphScope]) -> list[GraphScope]:
        """Return the branches of an If that may run: one if the condition is known."""
        node = scope.nodes[position]
        condition = self.values.of(scope, position, node.input[0])
        holds = rules.truth(condition.array) if condition is not None else None
        if condition is None or holds is None:
            return bodies
        self._record_defaults(condition)
        taken = [body for body in bodies if (body.attribute == "then_branch") == holds]
        self.ruled_out.update(body.name for body in bodies if body not in taken)
        for output, result in zip(node.output, taken[0].outputs, strict=False):
            if output:
                self.values.equate(scope.scoped(output), locate(taken[0], taken[0].end, result))
        return taken

    def _compute_results(self, scope: GraphScope, position: int, bodies: list[GraphScope]) -> list[Type]:
        """Return the types of a node's outputs, once its bodies are done."""
        node, place = scope.nodes[position], _place(scope, position)
        given = [[self.sizes[locate(body, body.end, name).key] for name in body.outputs] for body in bodies]
        if not row_of(domain_of(node), node.op_type).bodies:
            return [UNKNOWN] * len(node.output)
        if node.op_type == "If":
            return rules.join_types(place, given, len(node.output))
        operands = self._list_operands(scope, position)
        if node.op_type == "Loop":
            (shape, dtype), *results = given[0]
            if dtype != "bool" or math.prod(shape) != 1:
                raise refuse(
                    "INVALID_IR", place, "the first output of its body is not a condition", "write the model again"
                )
            collects = len(results) > len(operands[2:])
            trips = self._count_trips(scope, position, bodies[0]) if collects else None
            return rules.loop_results(place, operands[2:], results, trips)
        scan = rules.scan_attributes(node)
        _, length = rules.scan_inputs(place, scan, operands)
        return rules.scan_results(place, scan, operands[: len(operands) - scan.inputs], given[0], length)

    def _count_trips(self, scope: GraphScope, position: int, body: GraphScope) -> Dim | None:
        """Return the number of trips of a Loop, None unless its limit and its conditions are known."""
        names = scope.nodes[position].input
        deciding = [self.values.of(scope, position, names[0])] if names and names[0] else [None]
        if len(names) > 1 and names[1]:
            deciding += [self.values.of(scope, position, names[1]), self.values.of(body, body.end, body.outputs[0])]
        known = [value for value in deciding if value is not None]
        if len(known) < len(deciding):
            return None
        for value in known:
            self._record_defaults(value)
        return rules.trips(*(value.array for value in known))

    def _list_operands(self, scope: GraphScope, position: int) -> list[Size]:
        """Return the sizes of a node's operands, that of a scalar for an absent one."""
        nothing: Size = ((), "bool")
        names = scope.nodes[position].input
        return [self.sizes[locate(scope, position, name).key] if name else nothing for name in names]

    def _infer(self, scope: GraphScope, position: int) -> list[Type]:
        """Return the types of a node's outputs from its operator, without the value of an operand if possible."""
        node, place = scope.nodes[position], _place(scope, position)
        places = {name: locate(scope, position, name) for name in names_of(node)}
        sizes = {name: self.sizes[where.key] for name, where in places.items()}
        types = self.operators.infer(node, place, sizes, {}, self._list_in_bytes(scope, node))
        types = self._apply_rules(node, place, sizes, types)
        if self._is_enough(scope, node, types):
            return types
        # The operand that decides a shape is a number or a list of numbers; larger operands are not computed.
        small = {name: self.values.at(where) for name, where in places.items() if len(sizes[name][0]) < 2}
        values = {name: value for name, value in small.items() if value is not None}
        if values:
            arrays = {name: value.array for name, value in values.items()}
            types = self.operators.infer(node, place, sizes, arrays, self._list_in_bytes(scope, node))
            types = self._apply_rules(node, place, sizes, types, arrays)
            if self._is_enough(scope, node, types):
                self._decide(scope, position, sizes, values)
        if row_of("", node.op_type).counting and is_folded(node):
            counted = self.values.of(scope, position + 1, node.output[0])
            if counted is not None:
                self._record_defaults(counted)
                return [Type(counted.array.shape, counted.array.dtype.name)]
        return types

    def _apply_rules(
        self,
        node: onnx.NodeProto,
        place: str,
        sizes: Mapping[str, Size],
        types: list[Type],
        values: Mapping[str, Array] = NO_VALUES,
    ) -> list[Type]:
        """Return the types, completed by the rule of this project for the operator, if it has one. spec: T10.15"""
        rule = row_of(domain_of(node), node.op_type).sizes
        if rule is None or all(type_.size() is not None for type_ in types):
            return types
        try:
            found = rule(NodeFacts(node, sizes, values, self.operators.version(node), self.operators.block))
        except (Unfit, Unwieldy, ValueError, IndexError, TypeError, KeyError) as error:
            raise refuse("INVALID_IR_SHAPES", place, f"{node.op_type}: {error}", "correct the model") from error
        return [
            type_ if type_.size() is not None or k >= len(found) or (own := found[k]) is None else Type(*own)
            for k, type_ in enumerate(types)
        ]

    def _list_in_bytes(self, scope: GraphScope, node: onnx.NodeProto) -> frozenset[str]:
        """Return the results whose bytes the user states: they may be of any kind."""
        keys = {name: self.others.get(scope.scoped(name)) for name in node.output if name}
        return frozenset(name for name, size in keys.items() if size is not None and size.is_bytes)

    def _is_enough(self, scope: GraphScope, node: onnx.NodeProto, types: Sequence[Type]) -> bool:
        """Return whether all required outputs are known."""
        return all(
            type_.size() is not None or not name or self._is_needless(scope, node, k)
            for k, (name, type_) in enumerate(zip(node.output, types, strict=True))
        )

    def _is_needless(self, scope: GraphScope, node: onnx.NodeProto, output: int) -> bool:
        """Return whether an output is one of T9: optional by the operator's definition, and read by no node."""
        unread = scope.scoped(node.output[output]) not in self.structure.read
        return unread and self.operators.may_be_left_out(node, output)

    def _decide(
        self, scope: GraphScope, position: int, sizes: Mapping[str, Size], values: Mapping[str, KnownValue]
    ) -> None:
        """Record the defaults among `values` without which the outputs of the node would not be known."""
        node, place = scope.nodes[position], _place(scope, position)
        for name, value in values.items():
            if not value.defaults <= self.defaults.keys():
                others = {other: values[other].array for other in values if other != name}
                if not self._is_enough(scope, node, self.operators.infer(node, place, sizes, others)):
                    self._record_defaults(value)

    def _record_defaults(self, value: KnownValue) -> None:
        for name in value.defaults:
            found = self.values.at(ScopedName(self.structure.main, name))
            assert found is not None  # a value that depends on it is known
            self.defaults[name] = found.array

    def _record(self, scope: GraphScope, position: int, types: Sequence[Type]) -> None:
        """Record the size of each output. Raises INVALID_IR_SHAPES for the first that is not known."""
        node, place = scope.nodes[position], _place(scope, position)
        for k, (name, type_) in enumerate(zip(node.output, types, strict=False)):
            if not name:
                continue
            tensor = f"tensor {scope.scoped(name)!r} of {place}"
            size = self._take_stated(scope.scoped(name), type_) or type_.size()
            if size is None and self.stated is not None:
                size = self.stated.fill(scope, name, type_, tensor)
            if size is not None:
                self.sizes[scope.scoped(name)] = check_extent(size, tensor)
            elif self._is_needless(scope, node, k):
                self.unproduced.add(scope.scoped(name))
            else:
                raise self._make_unknown(scope, position, tensor, scope.scoped(name), type_)

    def _take_stated(self, name: str, known: Type) -> Size | None:
        """Return the size that the user states for a tensor, if it is needed. spec: T10.14"""
        size = self.others[name].fill(name, known) if name in self.others else None
        if size is not None:
            self.given.add(name)
        return size

    def _make_unknown(self, scope: GraphScope, position: int, tensor: str, name: str, known: Type) -> TmmuError:
        """Make the refusal of a tensor of unknown shape, with the reason and the flag that would help."""
        node, schema = scope.nodes[position], self.operators.schema(scope.nodes[position])
        operator = f"{domain_of(node) or 'ai.onnx'}::{node.op_type}"
        if schema is None:
            has_rule = row_of(domain_of(node), node.op_type).sizes is not None
            what = f"no rule of {operator} gives its shape" if has_rule else f"the operator {operator} is not known"
            own = (each.name for each in onnx.defs.get_all_schemas() if each.domain == domain_of(node))
            near = suggest_names(node.op_type, own, "")
            return refuse("INVALID_IR_SHAPES", tensor, what, f"{near} {self._suggest_stating(name, known)}".strip())
        if node.op_type in ("If", "Loop"):
            asked = [locate(scope, position, name) for name in node.input[:2] if name]
            if len(node.input) > 1 and node.input[1]:
                body = scope.bodies[position][0]
                asked.append(locate(body, body.end, body.outputs[0]))
        else:
            # The operand that decides a shape is seldom the first, and seldom a floating-point number.
            asked = [locate(scope, position, name) for name in (*node.input[1:], *node.input[:1]) if name]
            asked.sort(key=lambda place: "float" in self.sizes[place.key][1])
        by_data = row_of("", node.op_type).by_data
        unknown = [place for place in asked if self.values.at(place) is None and not by_data]
        if node.input and any(is_open(self.sizes[place.key]) for place in asked):
            # Data of an open size decide no shape: then the rule is missing.
            unknown = [place for place in unknown if "float" not in self.sizes[place.key][1]]
            if not unknown:
                return unshown(tensor, f"no rule of {operator} gives its shape for every shape of the envelope")
        if not unknown:
            return refuse(
                "INVALID_IR_SHAPES",
                tensor,
                f"no rule of {operator} gives its shape",
                self._suggest_stating(name, known),
            )
        reasons = self.values.reasons(unknown[0])
        flags = self._suggest_flags(reasons)
        why = next((place for place in reasons if self._suggest_flag(place) is None), reasons[0])
        what, at = f"its shape depends on the value of {why.key!r}", why.home.defined[why.name]
        if at != GIVEN:
            what += f", a result of {why.home.nodes[at].op_type}"
        return refuse(
            "INVALID_IR_SHAPES", tensor, what, f"bind it with {flags}" if flags else self._suggest_stating(name, known)
        )

    def _suggest_flags(self, reasons: Sequence[ScopedName]) -> str:
        """Return the flags that would give all values of the `reasons`; "" if one of them cannot be given."""
        flags = [self._suggest_flag(why) for why in reasons]
        return "" if None in flags else " ".join(map(str, flags))

    def _suggest_flag(self, why: ScopedName) -> str | None:
        """Return the flag that would give the value at `why`; None unless it is a small graph input."""
        if why.home.parent is not None or why.name in why.home.initializers or why.name not in why.home.listed:
            return None
        shape = self.sizes[why.key][0]
        known = len(shape) < 2 and not any(isinstance(dim, Expression) for dim in shape)
        return f"--value {why.key}=..." if known and upper_bound(math.prod(shape)) <= MOST_GIVEN else None

    def _suggest_deciding_flags(self, scope: GraphScope) -> str:
        """Return the flags that would decide the innermost undecided If around `scope`; "" if there are none."""
        while scope.parent is not None:
            node, position, scope = scope.parent.nodes[scope.owner], scope.owner, scope.parent
            if node.op_type == "If" and domain_of(node) == "":
                flags = self._suggest_flags(self.values.reasons(locate(scope, position, node.input[0])))
                if flags:
                    return flags
        return ""

    def _suggest_stating(self, name: str, known: Type = UNKNOWN) -> str:
        dims = "1x10" if known.dims is None else "x".join("N" if dim is None else format_dim(dim) for dim in known.dims)
        flags = f"--shape {name}={known.dtype or 'float32'}:{dims or 'scalar'} or --bytes {name}=40"
        if self.stated is None:
            return f"use --trust-shapes for the shape that the file states, or state it: {flags}"
        return f"the file does not state it either; state it: {flags}"

    def _stated_input(self, body: GraphScope, value: onnx.ValueInfoProto) -> Size:
        """Return the size of a formal input of an unknown operator: the one that the file states, if it is trusted."""
        place = f"input {value.name!r} of body {body.name!r}"
        size = self._take_stated(body.scoped(value.name), UNKNOWN)
        if size is None and self.stated is not None:
            size = self.stated.fill(body, value.name, UNKNOWN, place)
        if size is None:
            what = "its shape is not known, because the operator of the body is not known"
            raise refuse("INVALID_IR_SHAPES", place, what, self._suggest_stating(body.scoped(value.name)))
        return check_extent(size, place)


def _place(scope: GraphScope, position: int) -> str:
    return f"node {scope.ids[position]!r}"
