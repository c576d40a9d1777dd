"""What a foreign reader returns, and the names, lists and sizes that all of them make. spec: FP2.1, FP2.2"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tmmu.core.output import list_names
from tmmu.core.vocabulary import UINT64_END
from tmmu.plans.reading import Reading
from tmmu.plans.sections import BufferPlan, Plan


class ForeignPlan(NamedTuple):
    """What a reader returns: the plan, with what the file states and nothing else, and what the reading rests on."""

    plan: Plan | BufferPlan
    reading: Reading


class FreshNames:
    """Gives each thing a name that no other has: the file's own, numbered where it repeats; never empty, and without a
    NUL. All in linear time, however often a name repeats.

    >>> names = FreshNames()
    >>> names("add"), names("add"), names("add #2"), names("add"), names("")
    ('add', 'add #2', 'add #2 #2', 'add #3', 'unnamed')
    """

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, name: str) -> str:
        """A name that was not given before."""
        plain = name.replace("\0", "_") or "unnamed"
        found, k = plain, self._next.get(plain, 1)
        while found in self._next:
            k += 1
            found = f"{plain} #{k}"
        self._next[plain] = k
        self._next.setdefault(found, 1)
        return found


def kept_of_arms(names: Sequence[str]) -> str:
    """The approximation of what a name stands for that either of two arms has made."""
    return f"bytes of either arm are kept while a result is read: {list_names(names)}"


def elements_of(shape: Iterable[int]) -> int:
    """The elements of a shape of integers from 0 on; 2^67 for more than that, so that no size of 64 bits follows from
    it whatever an element has, even a single bit. Linear in the dimensions, however large they are. spec: FP2.2

    >>> elements_of((2, 3)), elements_of((1 << 70, 0)), elements_of(()), elements_of((1 << 70, 3)) == 1 << 67
    (6, 0, 1, True)
    """
    count = 1
    for dim in shape:
        count = min(count * dim, 8 * UINT64_END)
    return count
