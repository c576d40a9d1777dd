"""The result of a foreign reader, and the names, lists and sizes that all readers make. spec: FP2.1, FP2.2"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tmmu.core.output import list_names
from tmmu.core.vocabulary import UINT64_END
from tmmu.plans.reading import Reading
from tmmu.plans.sections import BufferPlan, Plan


class ForeignPlan(NamedTuple):
    """The result of a reader: the plan, with only the facts of the file, and the assumptions of the reading."""

    plan: Plan | BufferPlan
    reading: Reading


def name_program(name: str) -> str:
    """Return a name of a program that can be written in `--shared PROGRAM:NAME=PROGRAM:NAME`.

    >>> name_program("decode/a:b=c")
    'decode_a_b_c'
    """
    return re.sub("[/:=]", "_", name)


class FreshNames:
    """Makes names unique: a name of the file, numbered if it repeats; never empty, and without a NUL.

    Takes linear time in total, however often a name repeats.

    >>> names = FreshNames()
    >>> names("add"), names("add"), names("add #2"), names("add"), names("")
    ('add', 'add #2', 'add #2 #2', 'add #3', 'unnamed')
    """

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, name: str) -> str:
        """Return a name that was not returned before."""
        plain = name.replace("\0", "_") or "unnamed"
        found, k = plain, self._next.get(plain, 1)
        while found in self._next:
            k += 1
            found = f"{plain} #{k}"
        self._next[plain] = k
        self._next.setdefault(found, 1)
        return found


def describe_branch_names(names: Sequence[str]) -> str:
    """Return the approximation for names whose value either of two branches has made."""
    return f"bytes of either arm are kept while a result is read: {list_names(names)}"


def elements_of(shape: Iterable[int]) -> int:
    """Return the number of elements of a shape of integers from 0 on, at most 2^67.

    At 2^67 elements, even of a single bit, no size fits into 64 bits. Linear in the number of dimensions, however large
    they are. spec: FP2.2

    >>> elements_of((2, 3)), elements_of((1 << 70, 0)), elements_of(()), elements_of((1 << 70, 3)) == 1 << 67
    (6, 0, 1, True)
    """
    count = 1
    for dim in shape:
        count = min(count * dim, 8 * UINT64_END)
    return count
