"""Decide whether an instruction may write a result over an operand.

A kernel computes the elements of its results in an order that HLO does not state, and several at once. It reads the
operands of an element before it writes the element. So a result may take the bytes of an operand if the kernel reads of
them only the element at the place that it then writes. A few operations are defined to update an operand as a whole,
and a custom call states the operands that it updates.

Otherwise there are two cases. If an element of the result is computed from another element of the operand, and that one
is overwritten, the pair is a witness and the plan is refuted. If the indices are known only at run time, or no rule
gives them, the reader cannot decide, and the plan is neither proved nor refuted.

spec: FP4.13, FP4.14, FP4.15
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from proofs.readers.plans.hlo_follow import Follower, HloScope, NeededElement, integers, leaf_at
from proofs.readers.plans.hlo_index import IndexVariable, Linear, as_linear, indices_of, is_large, place
from proofs.readers.plans.hlo_module import Computation, HloModule, Instruction
from proofs.readers.plans.hlo_opcodes import ALIASING, UPDATES, Reads
from proofs.readers.plans.hlo_rules import follow
from proofs.readers.plans.hlo_text import Index, Leaf
from tmmu.core.source import Source

MAX_STATES = 4096
"""The most elements, with their indices, that are followed for one result: then any element counts as read."""
ALIAS = re.compile(r"\{([\d,\s]*)\}:\s*\((\d+),\s*\{([\d,\s]*)\}\)", re.ASCII)
MOVES = (
    Reads.BYTES, Reads.ROW_MAJOR, Reads.BROADCAST, Reads.TRANSPOSED, Reads.SLICED, Reads.REVERSED, Reads.TUPLED,
    Reads.ELEMENT, Reads.WHOLE, Reads.FUSED,
)  # fmt: skip
"""Operations whose every element is an element of operand 0."""

Operand = tuple[int, Index]
"""An operand's number, and the place of an array in it."""
Element = tuple[Operand, int]
"""An element of an operand, by its number in memory."""


class OperandRead(NamedTuple):
    """An element of an operand, at the number `read` of the array `leaf`, while number `written` of `result` is made.

    Numbers are those of `place`. `inside` are the indices, which must be in range. The rest is as in `NeededElement`.
    """

    result: Leaf
    written: Linear
    operand: Operand
    leaf: Leaf
    read: Linear
    inside: tuple[Linear, ...]
    is_exact: bool
    is_summed: bool
    via: Instruction


class Denial(NamedTuple):
    """Why a result may not take an operand's bytes: `is_certain` if two elements show it.

    `kind` is the operation that reads, for the counts of what stops a verdict.
    """

    is_certain: bool
    kind: str
    why: str


class InPlace:
    """Decides which results of a module's instructions may be in place; follows each instruction once."""

    def __init__(self, source: Source, module: HloModule) -> None:
        self.source, self.module = source, module
        self._followed: dict[str, FollowedInstruction] = {}

    def follow(self, within: Computation, each: Instruction) -> FollowedInstruction:
        """Return an instruction of a computation with all that it reads, which is worked out once."""
        if each.name not in self._followed:
            self._followed[each.name] = FollowedInstruction(self.source, self.module, within, each)
        return self._followed[each.name]

    def denial(
        self, within: Computation, each: Instruction, result: Leaf, operands: Collection[Operand]
    ) -> Denial | None:
        """Return why a result may not take the bytes that some operands of its instruction are in; None if it may.

        All of `operands` are in those bytes. O(elements that are followed), once for each instruction.
        """
        if len(operands) == 1 and any((result.at, of) in find_updated_operands(each) for of in operands):
            return None
        for k, index in operands:
            if leaf_at(within.by_name[each.operands[k]].shape, index) is None:
                return Denial(False, "table of a tuple", f"{each.operands[k]} has the table of a tuple there")
        followed = self.follow(within, each)
        found = None
        for read in followed.reads:
            if read.operand in operands and (why := _why_elsewhere(each, read, result)):
                kind = each.op if read.via is each else f"{read.via.op} in {each.op}"
                if witness := followed.witness(read, result, operands):
                    return Denial(True, kind, witness)
                found = found or Denial(False, kind, why)
        return found


def find_updated_operands(each: Instruction) -> frozenset[tuple[Index, Operand]]:
    """Return pairs of a result, by its place, and the operand that it updates, by definition or as the call states.

    spec: FP4.13
    """
    if each.op == "sort":
        count = len(each.operands)
        return frozenset(((k,) if count > 1 else (), (k, ())) for k in range(count))
    if each.row.reads is not Reads.FUSED and ALIASING in each.attributes:
        pairs = (found.groups() for found in ALIAS.finditer(each.attributes[ALIASING]))
        return frozenset((integers(out), (int(number), integers(at))) for out, number, at in pairs)
    return frozenset(((), (k, ())) for k in UPDATES.get(each.op, ()))


def _why_elsewhere(each: Instruction, read: OperandRead, result: Leaf) -> str:
    """Return why the element that is read is not known to be the one that is written; "" if it is that one.

    A fused kernel of several results computes their elements at one index together.
    """
    where = f"%{read.via.name} (line {read.via.line}) reads {each.operands[read.operand[0]]}"
    if read.leaf.bits != result.bits:
        return f"{where} as elements of {read.leaf.bits} bits, and {result.bits} are written"
    if (read.leaf.tiling or result.tiling) and read.leaf[3:] != result[3:]:
        return f"{where} in another layout than is written over it"
    if read.result.at != result.at and (each.row.reads is not Reads.FUSED or read.result[3:] != result[3:]):
        return f"{where} for another result than the one that is written over it"
    if read.read != read.written:
        return f"{where} at elements that are not shown to be the ones that are written then"
    if read.is_summed:
        return f"{where} for a sum, which a kernel may accumulate in the result"
    return ""


class FollowedInstruction(Follower):
    """An instruction that is followed from its results to its operands; `reads` are the reads of these."""

    def __init__(self, source: Source, module: HloModule, within: Computation, each: Instruction) -> None:
        super().__init__(source, module)
        self.computation, self.each = within, each
        if each.row.reads is Reads.FUSED:
            self.top = HloScope(module.computations[each.called["calls"][0]], each)
            self.root = self.top.computation.result
        else:
            self.top, self.root = HloScope(within, each, is_plain=True), each
        self.reads = [read for leaf in each.shape if leaf.dtype and leaf.bytes for read in self._of(leaf)]

    def _of(self, leaf: Leaf) -> list[OperandRead]:
        """Follow one result. O(states), at most `MAX_STATES` of them."""
        indices = tuple(as_linear(self.variable(size)) for size in leaf.dims)
        written = place(leaf, indices)
        first = NeededElement(self.top, self.root, leaf.at, indices, written)
        self.source.count_work(len(self.root.shape))
        if leaf_at(self.root.shape, leaf.at) != leaf:  # the layouts of root and result differ
            return self._any(leaf, written)
        found: list[OperandRead] = []
        seen: set[tuple[object, ...]] = set()
        todo = [first]
        while todo:
            state = todo.pop()
            if any(is_large(index) for index in (state.written, *state.indices)):
                state = state._replace(indices=self.any_of(len(state.indices)), is_exact=False)
            key = id(state.scope), state.each.name, *state[2:7]
            if key in seen:
                continue
            seen.add(key)
            self.source.count_work(8 + 8 * len(state.indices), f"line {state.each.line}")
            if len(seen) > MAX_STATES:
                return self._any(leaf, written)
            operand = self._outermost(state)
            if operand is None:
                todo += follow(self, state)
            else:
                found.append(self._read(leaf, state, operand))
        return found

    def _outermost(self, state: NeededElement) -> int | None:
        """Return the number of the operand that a value is, None if it is computed within.

        Operands of a plain instruction are distinguished by name: several of one name are the first of them.
        """
        if state.scope.outer is not None:
            return None
        if not state.scope.is_plain:
            return state.each.number if state.each.op == "parameter" else None
        return None if state.each is self.each else self.each.operands.index(state.each.name)

    def _read(self, result: Leaf, state: NeededElement, operand: int) -> OperandRead:
        """Return the read of an element of an operand, which has the operand's layout wherever it is."""
        leaf = leaf_at(state.each.shape, state.part)
        assert leaf is not None  # only arrays have elements
        of = leaf_at(self.computation.by_name[self.each.operands[operand]].shape, state.part)
        inside, is_exact = state.indices, state.is_exact
        if leaf != of:
            inside, is_exact = self.any_of(len(inside)), False
        via, number = self.root if state.via is None else state.via, place(leaf, inside)
        of_part = operand, state.part
        return OperandRead(result, state.written, of_part, leaf, number, inside, is_exact, state.is_summed, via)

    def _any(self, result: Leaf, written: Linear) -> list[OperandRead]:
        """Return reads of any element of any operand."""
        found = []
        for k, name in enumerate(self.each.operands):
            for leaf in self.computation.by_name[name].shape:
                if leaf.dtype and leaf.bytes:
                    inside = self.any_of(len(leaf.dims))
                    number = place(leaf, inside)
                    found.append(
                        OperandRead(result, written, (k, leaf.at), leaf, number, inside, False, False, self.root)
                    )
        return found

    # Witnesses

    def witness(self, read: OperandRead, result: Leaf, operands: Collection[Operand]) -> str:
        """Return a sentence on two elements: one is computed from the other, which is overwritten with something else.

        Return "" if no such pair is found. O(variables × rank).
        """
        numbers = (read.read, read.written, *read.inside)
        if not read.is_exact or not all(number.is_known for number in numbers) or read.leaf.bits != result.bits:
            return ""
        if read.leaf.tiling or result.tiling or read.result[3:] != result[3:]:
            return ""
        variables = list(dict.fromkeys(variable for number in numbers for variable in number.variables()))
        for values in _samples(variables):
            self.source.count_work(2 + 2 * len(variables))
            of, made = read.read.at(values), read.written.at(values)
            in_range = all(0 <= n.at(values) < size for n, size in zip(read.inside, read.leaf.dims, strict=True))
            if of != made and in_range and self._is_overwritten(result, of, operands):
                operand = self.each.operands[read.operand[0]]
                by = "" if read.via is self.each else f", by %{read.via.name} (line {read.via.line})"
                return (
                    f"element {made} of {self.each.name} is computed from element {of} of {operand}{by}, and element "
                    f"{of} of {self.each.name} is written over that"
                )
        return ""

    def _is_overwritten(self, result: Leaf, number: int, operands: Collection[Operand]) -> bool:
        """Decide whether an element of a result is known to differ from the operands' element at that place."""
        indices = indices_of(Linear(number), result.dims, result.minor)
        state = NeededElement(self.top, self.root, result.at, indices, Linear(number))
        for _ in range(MAX_STATES):
            self.source.count_work(8 + 8 * len(state.indices))
            operand = self._outermost(state)
            if operand is not None:
                leaf = leaf_at(state.each.shape, state.part)
                is_there = leaf is not None and place(leaf, state.indices) == Linear(number)
                return not ((operand, state.part) in operands and is_there)
            following = list(follow(self, state))
            reads = state.each.row.reads
            if reads in MOVES or state.each.op in ("copy", "call", "parameter"):
                state = following[0]
            elif reads in (Reads.UPDATED, Reads.PADDED):
                if not _is_number(following[1]):
                    return False  # it is not known where the window is
                state = following[1] if _is_inside(following[1]) else following[0]
            elif reads is Reads.JOINED:
                state = next((each for each in following if _is_inside(each)), following[0])
            else:
                return reads is not Reads.SCATTERED
            if not _is_number(state):
                return False
        return False


def _is_number(state: NeededElement) -> bool:
    """Decide whether all indices are numbers."""
    return all(not index.terms for index in state.indices)


def _is_inside(state: NeededElement) -> bool:
    """Decide whether all indices are numbers within the array."""
    leaf = leaf_at(state.each.shape, state.part)
    pairs = zip(state.indices, () if leaf is None else leaf.dims, strict=True)
    return all(not index.terms and 0 <= index.constant < size for index, size in pairs)


def _samples(variables: Sequence[IndexVariable]) -> Iterator[dict[IndexVariable, int]]:
    """Yield values of counters: their ends, their middle, and each at 1 or an end with the others at an end."""
    low, high = dict.fromkeys(variables, 0), {each: each.size - 1 for each in variables}
    yield from (low, high, {each: each.size // 2 for each in variables})
    for each in variables:
        yield from ({**low, each: min(1, each.size - 1)}, {**low, each: each.size - 1}, {**high, each: 0})
