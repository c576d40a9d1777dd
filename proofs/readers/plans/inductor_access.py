"""Decide whether a kernel may write bytes that it also reads.

A kernel is a sequence of loop nests. Inductor writes a nest for a computation whose elements do not depend on each
other, so that their order is free: vectors, threads and blocks of a GPU take several at once. An iteration reads and
writes in the order of the text, and a nest ends before the next one begins. So a nest may read and write the same bytes
if no iteration reads what another one writes. That follows if the index of an element determines the iteration, by the
strides and ranges of the loop counters, or if both index sets are disjoint.

Otherwise there are two cases. If an iteration of a loop in C++ reads an element that an earlier one has overwritten,
the pair is a witness and the buffer is not in place. If the indices are not known, nothing is decided.

spec: FP8.11, FP8.12
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.readers.plans.hlo_index import IndexVariable, Linear, Quotient, Start, as_linear, quotient, substitute

ANY = 1 << 62
"""More than any index of a kernel: the range of a counter whose end is not known."""
MAX_SPLITS = 16
"""The most counters that are taken apart into digits for one pair of accesses."""


@dataclass(frozen=True)
class KernelLoop:
    """A loop: each time that its head is run is another loop. A counter without a loop counts lanes of a block."""

    variable: IndexVariable


class KernelAccess(NamedTuple):
    """A read or a write, or both, of `lanes` elements from number `element` of a parameter on.

    `loops` enclose it, outermost first. `block` is the statement list that it is in, and `guards` are the ranges that
    conditions around it give to counters.
    """

    pointer: str
    element: Linear
    lanes: int
    is_read: bool
    is_write: bool
    loops: tuple[KernelLoop, ...]
    block: int
    guards: Mapping[IndexVariable, tuple[int, int]]
    line: int
    position: int = 0


@dataclass
class KernelText:
    """What the text of a kernel states: its accesses in the order of the text, and each construct that is not known.

    `is_in_order` is True if iterations run one after another unless a pragma says otherwise, as in C++.
    """

    accesses: list[KernelAccess] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    is_in_order: bool = True

    def add(self, access: KernelAccess) -> None:
        """Add the next access."""
        self.accesses.append(access._replace(position=len(self.accesses)))


class UnreadError(Exception):
    """A construct of a kernel that is not in the grammar, with its line in the kernel's text."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.what, self.line = what, line


class AccessDenial(NamedTuple):
    """Why a kernel may not read and write the same bytes: `is_certain` if two iterations show it."""

    is_certain: bool
    why: str


def unknown_number(key: object) -> Linear:
    """Return a number of which nothing is known, except that equal keys are equal numbers within one iteration."""
    return Linear(-ANY) + as_linear(Start(key, 2 * ANY))


def denial(
    text: KernelText, pairs: Sequence[tuple[KernelAccess, KernelAccess]], *, is_in_place: bool
) -> AccessDenial | None:
    """Return why one of some pairs of accesses to the same bytes is not in order; None if all are. O(pairs).

    The second access of each pair writes. `is_in_place` is True if the bytes hold the value of another buffer before,
    so that a kernel must read each element before it writes it.
    """
    found = None
    for one, write in pairs:
        why = _why_not(one, write, is_in_place=is_in_place)
        if why:
            where = f"lines {one.line} and {write.line} of it {'read' if one.is_read else 'write'} and write"
            if text.is_in_order and one.is_read and (witness := _witness(one, write)):
                return AccessDenial(True, f"{where} {write.pointer}: {witness}")
            found = found or AccessDenial(False, f"{where} {write.pointer} {why}")
    return found


def _why_not(one: KernelAccess, write: KernelAccess, *, is_in_place: bool) -> str:
    """Return why an iteration may access what another one writes, or in which order; "" if neither is the case."""
    common = [a for a, b in zip(one.loops, write.loops, strict=False) if a is b]
    if not common and one.block != write.block:
        return ""  # two statements that run one after another
    is_same = one.element == write.element and one.lanes == write.lanes
    counters = [loop.variable for loop in common]
    if not is_disjoint(one, write):
        # An update in place by one statement, such as an accumulation, may be repeated.
        is_update = is_same and one.block == write.block and one.pointer == write.pointer and not is_in_place
        if not is_update and not _determines(one, write, counters):
            return "at elements that are not shown to be those of one iteration"
        if is_in_place and one.is_read and one.block == write.block and one.position > write.position:
            return "in another order than in place"
    return ""


def _bounds(index: Linear, guards: Mapping[IndexVariable, tuple[int, int]]) -> tuple[int, int]:
    """Return a lower and an upper bound of an index under guards."""
    low = high = index.constant
    for atom, factor in index.terms:
        least, most = Linear(0, frozenset({(atom, 1)})).bounds()
        if isinstance(atom, IndexVariable) and atom in guards:
            least, most = max(least, guards[atom][0]), min(most, guards[atom][1])
        low += factor * (least if factor > 0 else most)
        high += factor * (most if factor > 0 else least)
    return low, high


def is_disjoint(one: KernelAccess, other: KernelAccess) -> bool:
    """Whether two accesses are of different elements in any iterations: by their ranges, or modulo a stride.

    >>> x = IndexVariable(0, 8)
    >>> even, odd = (KernelAccess("p", Linear(k) + as_linear(x).times(2), 1, True, True, (), 0, {}, 1) for k in (0, 1))
    >>> is_disjoint(even, odd), is_disjoint(even, even)
    (True, False)
    """
    indices, _ = _with_digits((one.element, other.element), [])
    one, other = one._replace(element=indices[0]), other._replace(element=indices[1])
    lows, highs = zip(_bounds(one.element, one.guards), _bounds(other.element, other.guards), strict=True)
    if lows[0] > highs[1] + other.lanes - 1 or lows[1] > highs[0] + one.lanes - 1:
        return True
    strides = {abs(factor) for each in (one, other) for _, factor in each.element.terms}
    for stride in strides - {1}:
        rests = [
            Linear(each.element.constant, frozenset(term for term in each.element.terms if term[1] % stride))
            for each in (one, other)
        ]
        first, second = (_bounds(rest, each.guards) for rest, each in zip(rests, (one, other), strict=True))
        low, high = first[0] - second[1] - (other.lanes - 1), first[1] + (one.lanes - 1) - second[0]
        if -(-low // stride) * stride > high:  # no multiple of the stride is between them
            return True
    return False


def _determines(one: KernelAccess, other: KernelAccess, counters: Sequence[IndexVariable]) -> bool:
    """Whether an element that both access is of the same values of counters: as digits of a number are unique."""
    indices, left = (one.element, other.element), list(counters)
    indices, left = _with_digits(indices, left)
    wide = [each for each in left if each.size > 1]
    factors = [dict(index.terms) for index in indices]
    if any(factors[0].get(each, 0) != factors[1].get(each, 0) or each not in factors[0] for each in wide):
        return False
    guards = (one.guards, other.guards)
    rests = [Linear(index.constant, frozenset(t for t in index.terms if t[0] not in wide)) for index in indices]
    (low, high), (least, most) = (_bounds(rest, guard) for rest, guard in zip(rests, guards, strict=True))
    gap = max(high + one.lanes, most + other.lanes) - 1 - min(low, least)
    for each in sorted(wide, key=lambda each: abs(factors[0][each])):
        factor = abs(factors[0][each])
        if factor <= gap:
            return False
        ranges = [guard.get(each, (0, each.size - 1)) for guard in guards]
        gap += factor * (max(most for _, most in ranges) - min(least for least, _ in ranges))
    return True


def _with_digits(
    indices: tuple[Linear, Linear], counters: list[IndexVariable]
) -> tuple[tuple[Linear, Linear], list[IndexVariable]]:
    """Take counters of which quotients occur apart: x is k·⌊x/k⌋ + x mod k, and both are counters."""
    for number in range(MAX_SPLITS):
        found = next((split for index in indices for split in _splits(index)), None)
        if found is None:
            break
        variable, by = found
        high, low = IndexVariable(-2 - 2 * number, variable.size // by), IndexVariable(-3 - 2 * number, by)
        value = as_linear(high).times(by) + as_linear(low)
        indices = substitute(indices[0], variable, value), substitute(indices[1], variable, value)
        if variable in counters:
            counters = [each for each in counters if each != variable] + [high, low]
    return indices, counters


def _splits(index: Linear) -> Iterator[tuple[IndexVariable, int]]:
    """Yield the counters of which a quotient occurs that comes out even over their range."""
    for atom, _ in index.terms:
        if isinstance(atom, Quotient):
            for variable, factor in atom.of.terms:
                if isinstance(variable, IndexVariable) and factor == 1 and variable.size % atom.by == 0:
                    if variable.size > atom.by > 1:
                        yield variable, atom.by
                elif isinstance(variable, Quotient):
                    yield from _splits(Linear(0, frozenset({(variable, 1)})))


def _witness(read: KernelAccess, write: KernelAccess) -> str:
    """Return a sentence on an iteration that reads what an earlier one has overwritten; "" if none is found."""
    common = [a.variable for a, b in zip(read.loops, write.loops, strict=False) if a is b]
    if not common or not (read.element.is_known and write.element.is_known):
        return ""
    variables = list(dict.fromkeys((*common, *read.element.variables(), *write.element.variables())))
    for values in _samples(variables):
        for each in common:
            for step in (1, 2, each.size - 1):
                earlier = {**values, each: values[each] - step}
                if earlier[each] < 0 or not (_holds(read, values) and _holds(write, earlier)):
                    continue
                of, made = read.element.at(values), write.element.at(earlier)
                if made <= of < made + write.lanes or of <= made < of + read.lanes:
                    element = max(of, made)
                    return f"element {element} is overwritten before a later iteration reads it"
    return ""


def _holds(access: KernelAccess, values: Mapping[IndexVariable, int]) -> bool:
    """Whether conditions around an access hold."""
    return all(low <= values.get(each, 0) <= high for each, (low, high) in access.guards.items())


def _samples(variables: Sequence[IndexVariable]) -> Iterator[dict[IndexVariable, int]]:
    """Yield values of counters: their ends, their middle, and each at 1 or its end with the others at 0."""
    low = dict.fromkeys(variables, 0)
    yield {each: each.size - 1 for each in variables}
    yield {each: each.size // 2 for each in variables}
    for each in variables:
        yield {**low, each: min(1, each.size - 1)}
        yield {**low, each: each.size - 1}


def floor_divided(index: Linear, by: Linear) -> Linear | None:
    """Return ⌊index / by⌋ for a number from 1 on, None for any other."""
    return quotient(index, by.constant) if not by.terms and by.constant > 0 else None


def multiply(one: Linear, other: Linear) -> Linear | None:
    """Return a product if a factor is a number, None for any other."""
    if not one.terms:
        return other.times(one.constant)
    return one.times(other.constant) if not other.terms else None
