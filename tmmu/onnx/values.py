"""The value of a tensor, computed only when a shape or a branch needs it.

A value is known if it follows from stored data, from bindings of the user, or from known shapes, by operators of the
closed list. Each value carries the defaults that it depends on: initializers that the caller may replace, which become
bindings once they decide something. spec: T10.2, T10.3, T10.4
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import onnx
from onnx import numpy_helper

from tmmu.onnx.calculation import calculate
from tmmu.onnx.folding import (
    TOTAL_LIMIT,
    compute,
    dimensions,
    fits,
    has_open,
    is_folded,
)
from tmmu.onnx.operators import Operators
from tmmu.onnx.sizes import Array, Size, stored_type
from tmmu.onnx.structure import GIVEN, GraphScope
from tmmu.onnx.table import row_of


class KnownValue(NamedTuple):
    """A known value, and the names of the defaults that it depends on."""

    array: Array
    defaults: frozenset[str] = frozenset()


class ScopedName(NamedTuple):
    """A value, with the scope that defines it."""

    home: GraphScope
    name: str

    @property
    def key(self) -> str:
        """Its model-wide name."""
        return self.home.scoped(self.name)


class Values:
    """Values on demand, by place; `sizes` is shared with the walk that fills it, `bound` are the values of the user."""

    def __init__(self, operators: Operators, sizes: Mapping[str, Size], bound: Mapping[str, Array]) -> None:
        self._operators, self._sizes = operators, sizes
        self._known: dict[str, KnownValue | None] = {name: KnownValue(array) for name, array in bound.items()}
        self._same: dict[str, ScopedName] = {}
        self._left = TOTAL_LIMIT

    def assume(self, key: str, array: Array) -> None:
        """Record the value of a formal input."""
        self._known[key] = KnownValue(array)

    def equate(self, key: str, place: ScopedName) -> None:
        """Record that the output `key` of an If is the value at `place` of the branch that is taken."""
        self._same[key] = place

    def of(self, scope: GraphScope, position: int, name: str) -> KnownValue | None:
        """Return the value that the node at `position` of `scope` reads as `name`, None if it is not known."""
        return self.at(locate(scope, position, name))

    def at(self, place: ScopedName) -> KnownValue | None:
        """Return the value at `place`. Amortised over all calls: O(nodes), and at most `TOTAL_LIMIT` bytes of data."""
        work = [place]
        while work:
            here = work[-1]
            if here.key in self._known:
                work.pop()
                continue
            needed = self._list_needed(here)
            if needed is None:
                self._known[here.key] = None
                continue
            waiting = [other for other in needed if other.key not in self._known]
            if waiting and not any(self._known.get(other.key, here) is None for other in needed):
                work.extend(waiting)
                continue
            self._settle(here, needed)
        return self._known[place.key]

    def reasons(self, place: ScopedName) -> list[ScopedName]:
        """Return the unknown places from which the value at `place` follows; [] if it is known."""
        work, seen, found = [place], set[str](), []
        while work:
            here = work.pop()
            if here.key in seen or self.at(here) is not None:
                continue
            seen.add(here.key)
            needed = [other for other in self._list_needed(here) or () if self.at(other) is None]
            work.extend(reversed(needed))
            if not needed:
                found.append(here)
        return found

    def _list_needed(self, here: ScopedName) -> list[ScopedName] | None:
        """Return the places whose values decide the value here; None if nothing can decide it."""
        if here.key in self._same:
            return [self._same[here.key]]
        position = here.home.defined[here.name]
        if position == GIVEN:
            return [] if here.name in here.home.initializers else None
        node = here.home.nodes[position]
        if not is_folded(node):
            return None
        if row_of("", node.op_type).by_shape:
            return []
        return [locate(here.home, position, name) for name in node.input if name]

    def _settle(self, here: ScopedName, needed: list[ScopedName]) -> None:
        """Compute the value here from the values that it needs; they are computed already unless one is unknown."""
        found = [self._known.get(other.key) for other in needed]
        operands = [value for value in found if value is not None]
        position = here.home.defined[here.name]
        if len(operands) < len(found):
            self._known[here.key] = None
        elif here.key in self._same:
            self._known[here.key] = operands[0]
        elif position == GIVEN:
            tensor = here.home.initializers[here.name]
            is_default = here.home.parent is None and here.name in here.home.listed
            array, defaults = stored_value(tensor), frozenset([here.name] if is_default else [])
            self._known[here.key] = KnownValue(array, defaults) if array is not None else None
        else:
            self._fold(here, position, operands)

    def _fold(self, here: ScopedName, position: int, operands: list[KnownValue]) -> None:
        node, home = here.home.nodes[position], here.home
        outputs = [home.scoped(name) for name in node.output if name]
        self._known.update(dict.fromkeys(outputs))
        sizes = [self._sizes.get(key) for key in outputs]
        if row_of("", node.op_type).counting and operands and not has_open(operands[0].array):
            array = operands[0].array
            sizes = [((array.ndim, array.size), "int64")]
        if not all(size is not None and fits(size) for size in sizes):
            return
        if row_of("", node.op_type).by_shape:
            operand = locate(home, position, node.input[0])
            results: list[Array] | None = [dimensions(node, self._sizes[operand.key][0])]
        else:
            self._left -= sum(operand.array.nbytes for operand in operands)
            remaining = iter(operands)
            arrays = [next(remaining).array if name else None for name in node.input]
            types = [size[1] for size in sizes if size is not None]
            results = self._compute(node, arrays, types) if self._left >= 0 else None
        defaults = frozenset[str]().union(*(operand.defaults for operand in operands))
        for key, size, result in zip(outputs, sizes, results or (), strict=False):
            dtype = size[1] if size is not None and has_open(result) else result.dtype.name
            if row_of("", node.op_type).counting or size == (result.shape, dtype):
                self._left -= result.nbytes
                self._known[key] = KnownValue(result, defaults)

    def _compute(self, node: onnx.NodeProto, arrays: list[Array | None], types: list[str]) -> list[Array] | None:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            data = stored_value(node.attribute[0].t)
            return None if data is None else [data]
        if any(map(has_open, arrays)):
            return calculate(node, arrays, types, self._operators.versions[""])
        return compute(node, arrays, self._operators.versions[""])


def locate(scope: GraphScope, position: int, name: str) -> ScopedName:
    """Return the place of the value that the node at `position` of `scope` reads as `name`."""
    home = scope.find(name, position)
    assert home is not None  # `structure` resolved every name that is read
    return ScopedName(home, name)


def stored_value(tensor: onnx.TensorProto) -> Array | None:
    """Return the elements of a stored tensor, None if they are not in the file, too many or of an unsupported type."""
    size = stored_type(tensor, f"tensor {tensor.name!r}").size()
    if size is None or not fits(size) or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError):  # no data, or another number than the shape requires
        return None
    return array if size == (array.shape, array.dtype.name) else None
