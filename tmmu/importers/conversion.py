"""Conversion of a traced graph to a model: storages become views, operations nodes, and nodes get phases (T2, M2).

A value whose storage is new is a separate tensor. A value that shows an older storage is a view of the operand from
which it came: the same bytes if it is dense, else the flat window that it spans (a slice of columns, an expansion). If
any operation changes a storage, there are no views of it: an operation that reads one reads the changed tensor itself,
because an older view would be stale. An operation that then does nothing (a view that is left out) has no node.
spec: T2.4, T2.5, T8.6, M2.2, M2.14, I1.6, I1.8, I1.11, I2.1, I2.2, I2.3, I2.6, I2.12, I2.13
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import NamedTuple

from tmmu.core.dtypes import BITS, element_alignment, nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, Bindings, Body, Model, Node, Phase, Role, Tensor, View
from tmmu.importers.phases import phases
from tmmu.importers.traced import Op, TracedValue, TrainingTrace
from tmmu.importers.windows import Window, row_major, window
from tmmu.ir import order
from tmmu.ir.validate import validate_model


def convert(trace: TrainingTrace) -> Model:
    """Convert a traced graph to a model.

    Parameters
    ----------
    trace
        Every value that an operation names is in `values`; operations are in order of execution, the owner of a region
        before the operations in it.

    Returns
    -------
    Model
        A valid model, with its nodes in the order of the trace. A result that depends on a seed has the role gradient.
        The gradient of the parameter `w` has the name `w.grad`, unless another tensor has it. Parameters and optimizer
        state that an operation changes are donated.

    Raises
    ------
    TmmuError
        INVALID_IR if a trainable parameter has no gradient, an operation names an unknown value, or a seed is not of
        one number; LIVENESS_CYCLE if operations depend on each other; INVALID_IR_SHAPES if strides fit no storage; and
        the exceptions of `tmmu.ir.validate`.

    Notes
    -----
    O(values + accesses). `spec/tmmu.md` T2.4, T2.5, M2.2, M2.14, I2.1, I2.2, I2.3, I2.6.
    """
    _check_described(trace)
    for parameter, gradient in trace.gradients.items():
        if gradient is None:
            what = "it has no gradient: no output depends on it, or the trace lost its backward part"
            raise bad(f"parameter {parameter!r}", what, "use it in the loss, or freeze it")
    for seed in sorted(trace.seeds):
        shape = trace.values[seed].shape
        if math.prod(shape) != 1:
            what = (
                f"expected a loss of one number, got an output of the shape {list(shape)}, "
                "whose gradient would begin here"
            )
            raise bad(f"input {seed!r}", what, "return the sum or the mean of it, and other outputs detached")
    converting = _Conversion(trace)
    converting.run()
    model = converting.model()
    validate_model(model)
    order.sort_topologically(model)  # refuses the orders that planners refuse
    return model


def bad(place: str, what: str, fix: str) -> TmmuError:
    """Make the refusal of a trace, with the operation or value at fault."""
    return TmmuError(
        "INVALID_IR", what, place=place, fix=fix, operator="UML_OS.Model.AnalyzeLiveness_v1", node_id=place
    )


def _check_described(trace: TrainingTrace) -> None:
    """Check that every name in the trace is one of its values. Raises INVALID_IR."""
    listed = [*trace.given, *trace.seeds, *trace.outputs, *trace.gradients, *filter(None, trace.gradients.values())]
    for op in trace.ops:
        listed += (*op.reads, *op.results, *op.changes)
    for region in trace.regions:
        listed += (*region.inputs, *region.outputs)
    for name in listed:
        if name not in trace.values:
            raise bad(f"value {name!r}", "the trace does not describe it", "report the graph")


class _Placed(NamedTuple):
    """The placement of a tensor: the bytes of its storage that it shows, its region, whether it is a formal input."""

    shown: Window
    region: int
    formal: bool


class _Conversion:
    """A model in the making: rows of tensors in execution order."""

    def __init__(self, trace: TrainingTrace) -> None:
        self.trace = trace
        self.tensors: list[Tensor] = []
        self.facts: list[_Placed] = []
        self.row: dict[str, int] = {}
        self.root: dict[Hashable, int] = {}
        self.nodes: list[Node] = []
        self.place: dict[str, int] = {}
        self.phase, self.late = phases(trace)
        self.changed = {self._storage(name) for op in trace.ops for name in op.changes}
        self.formal = {name for region in trace.regions for name in region.inputs}
        owned: dict[str, list[int]] = {}
        for number, region in enumerate(trace.regions, 1):
            owned.setdefault(region.owner, []).append(number)
        self.owned = owned
        self.names: set[str] = set()

    def run(self) -> None:
        """Walk through the operations."""
        for name, role in self.trace.given.items():
            storage = self._storage(name)
            if storage in self.root:  # tied weights: one tensor under two names
                self.row[name] = self.root[storage]
            else:
                self._add_own(name, role, MAIN)
        for op in self.trace.ops:
            self._add_op(op)

    def model(self) -> Model:
        """Return the model that the walk has made."""
        trace = self.trace
        bodies = [Body(-1, "", self._list_inputs(), tuple(dict.fromkeys(self._list_rows(trace.outputs, "the caller"))))]
        for region in trace.regions:
            inputs, outputs = (self._list_rows(names, region.owner) for names in (region.inputs, region.outputs))
            bodies.append(Body(self.place[region.owner], region.attribute, inputs, outputs, region.iterates))
        changed = {self.tensors[t].name for node in self.nodes for t in node.mutates}
        donated = tuple(sorted(changed & {self.tensors[self.row[name]].name for name in trace.given}))
        self._name_gradients()
        return Model(
            trace.name, tuple(self._mark_saved()), tuple(self.nodes), tuple(bodies),
            bindings=Bindings(dims=trace.dims, donated=donated),
        )  # fmt: skip

    def _list_rows(self, names: Iterable[str], place: str) -> tuple[int, ...]:
        """Return the current tensors of values. Raises INVALID_IR for a value that is not written yet."""
        for name in names:
            if name not in self.row:
                raise bad(place, f"it reads {name!r} before it is written", "report the graph")
        return tuple(self.row[name] for name in names)

    def _get_value(self, name: str) -> TracedValue:
        return self.trace.values[name]

    def _storage(self, name: str) -> Hashable:
        """Return the identity of a value's storage: the name of the value if it shares it with no other."""
        storage = self._get_value(name).storage
        return ("own", name) if storage is None else ("shared", storage)

    def _window_of(self, name: str) -> Window:
        value = self._get_value(name)
        strides = row_major(value.shape) if value.strides is None else value.strides
        return window(value.shape, strides, value.offset, value.dtype)

    def _append(self, name: str, tensor: Tensor, shown: Window, region: int) -> int:
        self.row[name] = len(self.tensors)
        self.tensors.append(tensor)
        self.facts.append(_Placed(shown, region, name in self.formal))
        self.names.add(tensor.name)
        return self.row[name]

    def _add_own(self, name: str, role: Role, region: int) -> int:
        """Add a tensor with separate bytes: those of the whole storage, flat if the value does not fill it."""
        value, shown = self._get_value(name), self._window_of(name)
        bits = BITS[value.dtype]
        size = value.storage_bytes if value.storage_bytes is not None else shown.end
        if size < shown.end:
            what = f"it shows bytes up to {shown.end}, but its storage has {size}"
            raise TmmuError("INVALID_IR_SHAPES", what, place=f"value {name!r}", fix="report the graph", node_id=name)
        shape, dtype = value.shape, value.dtype
        if not shown.dense or nbytes(shape, dtype) != size:
            shape, dtype = ((size * 8 // bits,), dtype) if not size * 8 % bits else ((size,), "uint8")
            shown = Window(0, size, True)
        tensor = Tensor(
            self._name_tensor(name, region), shape, dtype, role, nbytes(shape, dtype), element_alignment(dtype)
        )
        self.root[self._storage(name)] = len(self.tensors)
        return self._append(name, tensor, shown, region)

    def _name_tensor(self, name: str, region: int) -> str:
        """Return the name of a tensor; inside of a body, the name of the body is its prefix (T8.12)."""
        if region == MAIN:
            return name
        inside = self.trace.regions[region - 1]
        prefix = f"{self._name_tensor(inside.owner, self._region_of(inside.owner))}/{inside.attribute}/"
        return f"{prefix}{name}"

    def _region_of(self, owner: str) -> int:
        return self.nodes[self.place[owner]].body

    def _add_op(self, op: Op) -> None:
        place = f"operation {op.name!r}"
        reads, writes, hints = list(self._list_rows(op.reads, place)), list[int](), list[tuple[int, int]]()
        mutates = list(dict.fromkeys(self._list_rows(op.changes, place)))
        extra = [t for t in mutates if t not in reads]
        role = Role.GRADIENT if op.name in self.late else Role.ACTIVATION
        for result in op.results:
            root = self.root.get(self._storage(result))
            if root in writes:  # it returns one storage twice: there is one tensor, and no view of it in its own step
                self.row[result] = root
            elif root is None:
                writes.append(self._add_own(result, role, op.region))
                hints += self._find_in_place(op, result)
            elif self._storage(result) in self.changed:
                self.row[result] = root
            elif not self._may_view(root, op):
                self._add_copy(result, role, op.region)
                writes.append(self.row[result])
            else:
                base = self._find_base(op, result, root)
                if base not in reads:
                    extra.append(base)
                writes.append(self._add_view(result, base, role, op.region))
        if op.results and not writes and not mutates and op.name not in self.owned:
            return
        self.place[op.name] = len(self.nodes)
        self.nodes.append(
            Node(
                self._name_tensor(op.name, op.region), op.op, (*reads, *dict.fromkeys(extra)), (*writes, *mutates),
                op.domain, op.region, tuple(hints), tuple(mutates), (), self.phase[op.name],
            )
        )  # fmt: skip
        for number in self.owned.get(op.name, ()):
            for name in self.trace.regions[number - 1].inputs:
                self._add_own(name, role, number)

    def _may_view(self, root: int, op: Op) -> bool:
        """Return whether a view is allowed here: the storage was made in this body and is not a formal input (T8.6)."""
        return self.facts[root].region == op.region and not self.facts[root].formal

    def _add_copy(self, name: str, role: Role, region: int) -> None:
        """Add a copy with separate bytes for a result that would be a view of a tensor outside of its body."""
        self.trace.values[name] = replace(
            self._get_value(name), storage=None, storage_bytes=None, strides=None, offset=0
        )
        self._add_own(name, role, region)

    def _find_base(self, op: Op, result: str, root: int) -> int:
        """Return the operand that a view shows: the first of its storage whose window contains it, else the root."""
        storage, shown = self._storage(result), self._window_of(result)
        for name in op.reads:
            operand = self.facts[self.row[name]].shown
            if self._storage(name) == storage and operand.start <= shown.start and shown.end <= operand.end:
                return self.row[name]
        return root

    def _add_view(self, name: str, base: int, role: Role, region: int) -> int:
        value, shown = self._get_value(name), self._window_of(name)
        shape = value.shape
        if not shown.dense:
            shape = (shown.bytes * 8 // BITS[value.dtype],)
        view = View(base, shown.start - self.facts[base].shown.start, shown.bytes, value.strides)
        made = Tensor(
            self._name_tensor(name, region), shape, value.dtype, role, shown.bytes, element_alignment(value.dtype)
        )
        return self._append(name, replace(made, view=view), shown._replace(dense=True), region)

    def _find_in_place(self, op: Op, result: str) -> Iterable[tuple[int, int]]:
        """Yield the operands whose bytes the result may take: those with its elements at the same places (T3.3)."""
        value, row = self._get_value(result), self.row[result]
        strides = value.strides or row_major(value.shape)
        for name in dict.fromkeys(op.takeable):
            other, t = self._get_value(name), self.row[name]
            fact = self.facts[t]
            if (
                other.shape == value.shape == self.tensors[t].shape == self.tensors[row].shape
                and BITS[other.dtype] == BITS[value.dtype]
                and (other.strides or row_major(other.shape)) == strides
                and fact.shown == self._window_of(name)
                and fact.region == op.region
                and not fact.formal
                and self.trace.given.get(name, Role.INPUT) is Role.INPUT
            ):
                yield row, t

    def _list_inputs(self) -> tuple[int, ...]:
        given = self.trace.given.items()
        return tuple(dict.fromkeys(self.row[name] for name, role in given if role is Role.INPUT))

    def _name_gradients(self) -> None:
        """Rename the gradient of `w` to `w.grad`, if it is a separate tensor and the name is free."""
        for parameter, gradient in self.trace.gradients.items():
            (t,), wanted = self._list_rows((gradient or "",), f"parameter {parameter!r}"), f"{parameter}.grad"
            if wanted not in self.names and self.tensors[t].name == gradient:
                self.tensors[t] = replace(self.tensors[t], name=wanted)
                self.names.add(wanted)

    def _mark_saved(self) -> list[Tensor]:
        """Return the tensors, with a mark on those of the forward part that backward nodes read (M2.7)."""
        backward = [node for node in self.nodes if node.phase is Phase.BACKWARD]
        written = {t for node in backward for t in node.writes}
        written.update(self.row[name] for region in self.trace.regions for name in region.inputs)
        forward = [node for node in self.nodes if node.phase is Phase.FORWARD]
        known = {t for node in forward for t in (*node.reads, *node.writes)}
        read = {t for node in backward for t in node.reads}
        read.update(
            self.row[name]
            for region in self.trace.regions
            if self.nodes[self.place[region.owner]].phase is Phase.BACKWARD
            for name in region.outputs
        )
        saved = {t for t in (read - written) & known if self.tensors[t].role not in (Role.PARAMETER, Role.OPTIMIZER)}
        return [replace(x, saved_for_backward=True) if t in saved else x for t, x in enumerate(self.tensors)]
