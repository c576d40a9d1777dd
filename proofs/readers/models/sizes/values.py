"""Compute the value of a tensor when a rule asks for it, and each value once.

Tensors that the caller or a body's owner writes have no value unless it is assumed here. spec: V3.7
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from onnx import NodeProto

from proofs.readers.models.sizes.evaluator import evaluate
from proofs.readers.operators import plain, row_of
from proofs.readers.operators.sizes.call import Call, TensorSize, Value

TOTAL = 1 << 24
"""The maximum number of elements of all values of a model together."""


class Producer(NamedTuple):
    """A node with its operator's version and the scoped names of its operands and results, None for absent ones."""

    node: NodeProto
    since: int
    reads: Sequence[str | None]
    writes: Sequence[str | None]


class TensorValues:
    """Values by scoped name. `sizes` is shared with the reading that fills it; `block` is as in `Call`."""

    def __init__(self, sizes: Mapping[str, TensorSize], block: int = 0) -> None:
        self._sizes, self._block = sizes, block
        self._makers: dict[str, Producer] = {}
        self._same: dict[str, str] = {}
        self._known: dict[str, Value | None] = {}
        self._left = TOTAL

    def assume(self, name: str, value: Value | None) -> None:
        """State the value of a tensor that no node writes."""
        self._known[name] = value

    def equate(self, name: str, other: str) -> None:
        """State that a tensor has the value of another."""
        self._same[name] = other

    def made_by(self, made: Producer) -> None:
        """State which node writes the tensors that it names."""
        if row_of("", made.node.op_type).value is not None and not plain(made.node.domain):
            self._makers.update((name, made) for name in made.writes if name is not None)

    def call(self, made: Producer) -> Call:
        """Return a node as its rule reads it."""
        operands = [None if name is None else self._sizes[name] for name in made.reads]

        def value(k: int) -> Value | None:
            return self.of(name) if (name := made.reads[k]) else None

        return Call(made.node, made.since, operands, value, self._block)

    def of(self, name: str) -> Value | None:
        """Return the value of a tensor, or None if it is not known. O(nodes) over all calls."""
        work = [name]
        while work:
            here = work[-1]
            needed = self._needed(here)
            waiting = [other for other in needed if other not in self._known]
            if here in self._known or not waiting:
                if here not in self._known:
                    self._settle(here, needed)
                work.pop()
            elif any(self._known.get(other, here) is None for other in needed):
                self._known[here] = None
                work.pop()
            else:
                work.extend(waiting)
        return self._known[name]

    def _needed(self, name: str) -> list[str]:
        if name in self._same:
            return [self._same[name]]
        made = self._makers.get(name)
        if made is None or row_of("", made.node.op_type).by_shape:
            return []
        return [operand for operand in made.reads if operand is not None]

    def _settle(self, name: str, needed: list[str]) -> None:
        made = self._makers.get(name)
        if name in self._same or made is None or None in (found := [self._known[other] for other in needed]):
            self._known[name] = self._known[needed[0]] if name in self._same else None
            return
        self._left -= sum(value.cells.size for value in found if value is not None)
        self._known.update((other, None) for other in made.writes if other is not None)
        sizes = [None if other is None else self._sizes.get(other) for other in made.writes]
        if self._left < 0 or None in sizes:
            return
        operands = [None if other is None else self._known.get(other) for other in made.reads]
        results = evaluate(self.call(made), operands, [size for size in sizes if size is not None])
        for other, value in zip(made.writes, results or (), strict=False):
            if other is not None:
                self._known[other] = value
