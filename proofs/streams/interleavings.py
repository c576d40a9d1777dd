"""Run a plan with streams byte by byte in a random order that respects happens-before, and find a wrong read.

Steps that may overlap load and store single bytes in turns. Each stored byte is named by its tensor, its place in it,
and how often the tensor was written in the order of the list. Each load, and each byte that the caller reads at the
end, must find what it finds if the steps run one after another in private memory. A plan that is safe in that order and
has no race passes every run; the run shares no code with the search for races. A step that begins must also find made
each tensor that it reads and another step makes, so that views and tensors without bytes count.
spec: X5.3, X5.4, X5.13
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from proofs.definition.checker.program import Program, RunStep
from proofs.streams.happens_before import list_direct_predecessors
from tmmu.plans.allocation import Allocation

CALLER_READS = -1
"""The step of what the caller reads after the last step."""


class StoredByte(NamedTuple):
    """The content of a byte: a byte of a tensor, as of its n-th write."""

    tensor: int
    byte: int
    version: int


class Misread(NamedTuple):
    """A load that finds something else than in private memory: the step, the tensor that it reads, and the byte."""

    step: int
    tensor: int
    byte: int
    found: StoredByte | None


class _Action(NamedTuple):
    """A load or a store of one byte at a place (arena and address)."""

    stores: bool
    tensor: int
    byte: int
    place: tuple[int, int]
    content: StoredByte


def run_interleaving(allocation: Allocation, run: Program, seed: int) -> Misread | None:
    """Run one interleaving and return its first wrong read, or None.

    Raises ValueError for exclusive branches, of which one run takes only one. O(bytes accessed).
    """
    if run.branches:
        raise ValueError("a plan with exclusive branches has no run of all its steps")
    chance = random.Random(seed)
    threads, versions = _list_actions(run, chance)
    memory: dict[tuple[int, int], StoredByte] = {}
    for t, tensor in enumerate(run.tensors):
        if tensor.writer is None:
            memory.update((action.place, action.content) for action in _touch(run, t, 0, stores=True))
    predecessors = list_direct_predecessors(allocation)
    waiting = [len(direct) for direct in predecessors]
    followers: list[list[int]] = [[] for _ in waiting]
    for s, direct in enumerate(predecessors):
        for p in direct:
            followers[p].append(s)
    running = [s for s, count in enumerate(waiting) if not count]
    begun, ended = set[int](), set[int]()
    speed = [chance.random() for _ in waiting]
    while running:
        # Mostly the fastest step runs, so that a slow one is overtaken by many; at times any other.
        any_of_them = chance.random() < 0.2
        at = (
            chance.randrange(len(running)) if any_of_them else max(range(len(running)), key=lambda i: speed[running[i]])
        )
        s = running[at]
        if s not in begun:
            begun.add(s)
            for t in run.steps[s].reads:
                maker = run.tensors[t].writer
                if maker not in (None, s) and maker not in ended:
                    return Misread(s, t, 0, None)
        action = next(threads[s], None)
        if action is None:
            ended.add(s)
            running[at] = running[-1]
            running.pop()
            for later in followers[s]:
                waiting[later] -= 1
                if not waiting[later]:
                    running.append(later)
        elif action.stores:
            memory[action.place] = action.content
        elif memory.get(action.place) != action.content:
            return Misread(s, action.tensor, action.byte, memory.get(action.place))
    for t in run.returned:
        for action in _touch(run, t, versions[_find_root(run, t)[0]], stores=False):
            if memory.get(action.place) != action.content:
                return Misread(CALLER_READS, t, action.byte, memory.get(action.place))
    return None


def _list_actions(run: Program, chance: random.Random) -> tuple[list[Iterator[_Action]], Counter[int]]:
    """Return the loads and stores of each step in a random order, and how often each tensor is written in all."""
    versions: Counter[int] = Counter()
    found = []
    for step in run.steps:
        actions = [
            action
            for t in dict.fromkeys(step.reads)
            for action in _touch(run, t, versions[_find_root(run, t)[0]], stores=False)
        ]
        written = [w for w in dict.fromkeys(step.writes) if w not in run.views]
        versions.update(w for w in written if run.tensors[w].writer is None or w in step.mutates)
        actions += [action for w in written for action in _touch(run, w, versions[w], stores=True)]
        found.append(iter(_shuffle(actions, step, chance)))
    return found, versions


def _shuffle(actions: list[_Action], step: RunStep, chance: random.Random) -> list[_Action]:
    """Put actions into a random order, with loads of bytes that the step itself stores first: it works in place."""
    chance.shuffle(actions)
    stored = {action.place for action in actions if action.stores}
    return sorted(actions, key=lambda action: action.stores or action.place not in stored)


def _touch(run: Program, t: int, version: int, *, stores: bool) -> Iterator[_Action]:
    """Yield an action for each byte of a tensor."""
    tensor, (root, shift) = run.tensors[t], _find_root(run, t)
    for byte in range(tensor.bytes):
        place = tensor.arena, tensor.address + byte
        yield _Action(stores, t, byte, place, StoredByte(root, shift + byte, version))


def _find_root(run: Program, t: int) -> tuple[int, int]:
    """Return the tensor whose bytes a tensor shows, and the byte of it where it begins."""
    shift = 0
    while t in run.views:
        t, offset = run.views[t]
        shift += offset
    return t, shift
