"""Follow an element of a result back through the program to the elements of operands that it is computed from.

A `NeededElement` is one element of one value. Its indices are expressions (`hlo_index`), and it has the place in the
result that needs it. `Follower` makes new ones from old ones; the rule of each operation is in `hlo_rules`.

spec: FP4.14
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.readers.plans.hlo_index import (
    ZERO,
    IndexVariable,
    Indices,
    Linear,
    Start,
    Unknown,
    as_linear,
    sole_variable,
    substitute,
)
from proofs.readers.plans.hlo_module import Computation, HloModule, Instruction
from proofs.readers.plans.hlo_opcodes import Reads
from proofs.readers.plans.hlo_text import Index, Leaf, Shape
from tmmu.core.source import Source

DIGITS = re.compile(r"-?\d+", re.ASCII)
ANY_SIZE = 1 << 63


def integers(text: str) -> tuple[int, ...]:
    """Return the integers in the value of an attribute.

    >>> integers("{1, 0}"), integers("{[0:64:2]}")
    ((1, 0), (0, 64, 2))
    """
    return tuple(int(digits) for digits in DIGITS.findall(text))


def leaf_at(shape: Shape, part: Index) -> Leaf | None:
    """Return the array of a shape at a place, None if there is none. O(leaves)."""
    return next((leaf for leaf in shape if leaf.at == part and leaf.dtype), None)


@dataclass(eq=False)
class HloScope:
    """A computation that is followed, and the instruction that calls it, which is in the `outer` scope.

    The outermost scope has the instruction in question as its caller. If `is_plain`, that instruction is in the
    computation itself and calls nothing: its operands are the operands in question.
    """

    computation: Computation
    caller: Instruction
    outer: HloScope | None = None
    is_plain: bool = False
    keys: dict[str, object] = field(default_factory=dict)
    inner: dict[str, HloScope] = field(default_factory=dict)


class NeededElement(NamedTuple):
    """An element of `part` of a value, and the place `written` in the result that needs it.

    `is_exact` is whether it is needed at all values of the variables, and `is_summed` whether it is one of several that
    are summed up. `via` is the instruction that last moved elements on the way, if any did.
    """

    scope: HloScope
    each: Instruction
    part: Index
    indices: Indices
    written: Linear
    is_exact: bool = True
    is_summed: bool = False
    via: Instruction | None = None

    def named(self, k: int) -> Instruction:
        """Return operand k of its instruction."""
        return self.scope.computation.by_name[self.each.operands[k]]

    def array(self, k: int) -> Leaf:
        """Return the shape of operand k; for a tuple, a leaf without a type and dimensions."""
        return self.named(k).shape[0]

    def operand(self, k: int, indices: Indices, part: Index = ()) -> NeededElement:
        """Return the element of operand k at some indices."""
        return self._replace(each=self.named(k), part=part, indices=indices)

    def moved(self, k: int, indices: Indices) -> NeededElement:
        """Return the element of operand k at some indices, for an operation that moves elements."""
        return self.operand(k, indices)._replace(via=self.each)


class Follower:
    """Makes needed elements, counters for their indices, and keys of equal values."""

    def __init__(self, source: Source, module: HloModule) -> None:
        self.source, self.module = source, module
        self._count = 0
        self._numbers: dict[tuple[object, ...], int] = {}

    def variable(self, size: int) -> IndexVariable:
        """Return a counter that nothing else counts."""
        self._count += 1
        return IndexVariable(self._count, max(1, size))

    def any_of(self, rank: int) -> Indices:
        """Return indices that are not known."""
        self._count += rank
        return tuple(as_linear(Unknown(self._count - d, ANY_SIZE)) for d in range(rank))

    def any_operand(self, state: NeededElement, which: Sequence[int]) -> Iterator[NeededElement]:
        """Yield any element of some operands, and of all parts of these. The result need not depend on it."""
        for k in which:
            for leaf in state.named(k).shape:
                if leaf.dtype and leaf.bytes:
                    found = state.operand(k, self.any_of(len(leaf.dims)), leaf.at)
                    yield found._replace(via=state.each, is_exact=False)

    def enter(self, state: NeededElement, key: str) -> NeededElement:
        """Return the same element of the root of a computation that an instruction calls."""
        scope, each = state.scope, state.each
        if each.name not in scope.inner:
            scope.inner[each.name] = HloScope(self.module.computations[each.called[key][0]], each, scope)
        inner = scope.inner[each.name]
        return state._replace(scope=inner, each=inner.computation.result)

    def narrow(self, state: NeededElement, d: int, size: int, at: Linear, step: int = 1) -> NeededElement:
        """Return the element, counted within a part of dimension d: each `step`-th element from `at` on.

        A counter of the dimension becomes one of the part, in the place that is written too. Any other index is moved
        to begin at the part, and may be outside of it.
        """
        indices, leaf = state.indices, leaf_at(state.each.shape, state.part)
        variable = sole_variable(indices[d])
        assert leaf is not None  # only arrays have elements
        if variable is not None and variable.size == leaf.dims[d]:
            counter = as_linear(self.variable(size))
            by = at.plus(counter, step)
            found = [substitute(index, variable, by) for index in indices]
            found[d] = counter
            return state._replace(indices=tuple(found), written=substitute(state.written, variable, by))
        inside = indices[d] - at if step == 1 else self.any_of(1)[0]
        return state._replace(indices=(*indices[:d], inside, *indices[d + 1 :]), is_exact=False)

    def starts(self, state: NeededElement, k: int, sizes: Sequence[int]) -> list[Linear]:
        """Return where a dynamic slice of some sizes begins in operand 0: by operands from k on, or by the vector k."""
        dims, count = state.array(0).dims, len(state.each.operands) - k
        is_vector = count == 1 and len(state.array(k).dims) == 1
        found = []
        for d, (dim, size) in enumerate(zip(dims, sizes, strict=True)):
            of = state.named(k if is_vector else k + d)
            if dim <= size:
                found.append(ZERO)
            elif of.op == "constant" and of.literal.lstrip("-").isdigit():
                found.append(Linear(min(max(int(of.literal), 0), dim - size)))
            else:
                key = self.key(state.scope, of.name)
                found.append(as_linear(Start((key, d) if is_vector else key, dim - size)))
        return found

    def key(self, scope: HloScope, name: str) -> object:
        """Return a key for the value of an instruction: equal keys have equal values. O(instructions), once.

        Scalars that are computed alike from equal scalars have equal keys. Any other value has a key that no other has.
        """
        if scope.is_plain:
            return name
        if not scope.keys:
            self.source.count_work(2 * len(scope.computation.instructions))
            for each in scope.computation.instructions:
                scope.keys[each.name] = self._key_of(scope, each)
        return scope.keys[name]

    def _key_of(self, scope: HloScope, each: Instruction) -> object:
        if each.op == "parameter":
            of = scope.caller.operands[each.number]
            return of if scope.outer is None else self.key(scope.outer, of)
        parts: tuple[object, ...] = ()
        if each.op == "constant" and each.literal:
            parts = (each.op, each.shape[0].dtype, each.literal)
        elif each.row.reads is Reads.SAME and not each.shape[0].dims and not each.called:
            stated = tuple(sorted(each.attributes.items()))
            parts = (each.op, each.shape[0].dtype, stated, *(scope.keys[operand] for operand in each.operands))
        return self._numbers.setdefault(parts, len(self._numbers)) if parts else (id(scope), each.name)
