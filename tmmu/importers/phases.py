"""The phases of the operations of a traced training step: forward, backward and optimizer (M1, M2).

A trace is one list: forward, then backward, then the update. An operation is backward if it depends on a seed (the
gradient of an output, which the caller gives), or if it is after the first such operation and no forward output needs
it. spec: M2.1, M2.2, I2.5
"""

from __future__ import annotations

from tmmu.core.vocabulary import MAIN, Phase
from tmmu.importers.traced import Op, TrainingTrace


def phases(trace: TrainingTrace) -> tuple[dict[str, Phase], set[str]]:
    """Return the phase of each operation, and the names of those whose results depend on a seed. O(accesses).

    The operations of a region have the phase of its owner.
    """
    inside = _group_by_owner(trace)
    late, dependent = set[str](), set(trace.seeds)
    main = [op for op in trace.ops if op.region == MAIN]
    groups = [[op, *inside.get(op.name, ())] for op in main]
    storages = {trace.values[name].storage for name in dependent} - {None}
    for group in groups:
        accessed = {name for op in group for name in (*op.reads, *op.changes)}
        if not accessed.isdisjoint(dependent) or any(trace.values[name].storage in storages for name in accessed):
            late.update(op.name for op in group)
            dependent.update(name for op in group for name in op.results)
            storages |= {trace.values[name].storage for op in group for name in (*op.results, *op.changes)} - {None}
    needed = _find_needed(trace, groups, late)
    found: dict[str, Phase] = {}
    begun = False
    for group in groups:
        op = group[0]
        begun |= op.name in late
        phase = Phase.BACKWARD if op.name in late or (begun and op.name not in needed) else Phase.FORWARD
        found |= {inner.name: Phase.OPTIMIZER if op.optimizer else phase for inner in group}
    return found, late


def _group_by_owner(trace: TrainingTrace) -> dict[str, list[Op]]:
    """Return all operations in the regions of each operation of the main graph, at any depth."""
    holder = {op.name: op for op in trace.ops}
    found: dict[str, list[Op]] = {}
    for op in trace.ops:
        if op.region != MAIN:
            owner = op
            while owner.region != MAIN:
                owner = holder[trace.regions[owner.region - 1].owner]
            found.setdefault(owner.name, []).append(op)
    return found


def _find_needed(trace: TrainingTrace, groups: list[list[Op]], late: set[str]) -> set[str]:
    """Return the operations on which outputs without a seed depend, and those that change a value of the caller."""
    wanted = set(trace.outputs)
    needed = set[str]()
    returned: dict[str, list[str]] = {}
    for region in trace.regions:
        returned.setdefault(region.owner, []).extend(region.outputs)
    for group in reversed(groups):
        op = group[0]
        if op.name in late or op.optimizer:
            continue
        if op.changes or not wanted.isdisjoint(op.results):
            needed.add(op.name)
            for inner in group:
                wanted.update((*inner.reads, *inner.changes, *returned.get(inner.name, ())))
    return needed
