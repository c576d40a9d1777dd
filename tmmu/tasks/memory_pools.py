"""Memory pools for people: what `tmmu show` adds for the layout `pools`, and MiCo's memory statistics.

The statistics are those that the document's `test_memory_stats.py` and `test_memory_optimization.py` print: what the
tensors take without pools and with them, the members of each pool, and whether two of them live at once.
spec: MC9.1 to MC9.4
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tmmu.core.output import count_noun, format_kib, list_names
from tmmu.plans.pools import StoragePool, find_pools, tensor_to_pool
from tmmu.plans.sections import Plan

SHOWN = 64
"""As many members of a pool, and entries of `tensor_to_pool`, are printed as text."""


@dataclass(frozen=True)
class MemoryStatistics:
    """The pools of a plan, and the bytes of all their members."""

    model: str
    pools: list[StoragePool]

    @classmethod
    def of(cls, plan: Plan) -> MemoryStatistics:
        """Those of a plan of the layout `pools`; INVALID_PLAN for another."""
        return cls(plan.origin.model, find_pools(plan))

    @property
    def tensors(self) -> int:
        """Return how many tensors have separate bytes."""
        return sum(len(pool.members) for pool in self.pools)

    @property
    def before(self) -> int:
        """The bytes of all members, each by itself."""
        return sum(member.bytes for pool in self.pools for member in pool.members)

    @property
    def after(self) -> int:
        """The bytes of the pools."""
        return sum(pool.bytes for pool in self.pools)

    @property
    def share(self) -> float:
        """The part that is saved."""
        return (self.before - self.after) / self.before if self.before else 0.0

    def overlaps(self) -> Iterator[tuple[int, str, str]]:
        """Return members of one pool that live at once, which a right plan does not have. O(members²) of a pool."""
        for k, pool in enumerate(self.pools):
            for one, other in combinations(pool.members, 2):
                if one.lifetime[0] <= other.lifetime[1] and other.lifetime[0] <= one.lifetime[1]:
                    yield k, one.name, other.name


def remarks(plan: Plan) -> Iterator[str]:
    """What `tmmu show` adds for the layout `pools`: each with its members, and the pool of each tensor."""
    pools = find_pools(plan) if plan.provenance is not None and plan.origin.layout == "pools" else []
    if pools:
        yield "  memory pools; time 0 is when the caller writes the inputs, and step s is time s + 1"
    for k, pool in enumerate(pools):
        yield f"  pool {k}: {_title(pool)}, at {pool.offset} of {pool.arena}"
        for member in pool.members[:SHOWN]:
            yield f"    {member.bytes:>12} {member.name}  [{member.lifetime[0]}, {member.lifetime[1]}]"
        if len(pool.members) > SHOWN:
            yield f"    and {len(pool.members) - SHOWN} more; --format json has all"
    if pools:
        pairs = [f"{name} ({pool}, {offset})" for name, (pool, offset) in tensor_to_pool(pools).items()]
        yield f"  tensor_to_pool: {list_names(pairs, SHOWN)}"


def document(pools: list[StoragePool]) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "memory_pools": [pool.record() for pool in pools],
        "tensor_to_pool": {name: list(found) for name, found in tensor_to_pool(pools).items()},
    }


def record(found: MemoryStatistics) -> dict[str, Any]:
    """The statistics as JSON."""
    return {
        "model": found.model, "tensors": found.tensors, "before_bytes": found.before, "after_bytes": found.after,
        "saved_bytes": found.before - found.after, "saved_share": found.share,
        "overlaps": [list(each) for each in found.overlaps()], **document(found.pools),
    }  # fmt: skip


def format_statistics(found: MemoryStatistics) -> Iterator[str]:
    """What MiCo's scripts print of one model."""
    yield f"{found.model}"
    yield "  Memory Statistics:"
    yield f"    Uninitialized tensors: {found.tensors}"
    for what, count in (
        ("Memory without pooling", found.before), ("Memory with pooling", found.after),
        ("Memory saved", found.before - found.after),
    ):  # fmt: skip
        yield f"    {what}: {count:,} bytes ({format_kib(count)})"
    yield f"    Percentage saved: {found.share:.1%}"
    yield f"    Number of memory pools: {len(found.pools)}"
    yield "  Memory Pool Details:"
    for k, pool in enumerate(found.pools):
        yield f"    Pool {k}: {_title(pool)}"
        yield f"      Tensors: {', '.join(member.name for member in pool.members)}"
    clashes = list(found.overlaps())
    for k, one, other in clashes:
        yield f"  WARNING: Overlap detected between {one} and {other} in pool {k}!"
    if not clashes:
        yield "  All memory pools verified: No overlapping lifetimes!"


def summary(found: list[MemoryStatistics]) -> Iterator[str]:
    """The table of several models, as the document has it."""
    width = max(len(each.model) for each in found)
    yield f"{'Model':{width}} {'Before':>12} {'After':>12} {'Saved':>12} {'Saved %':>8}"
    for each in found:
        amounts = " ".join(f"{format_kib(count):>12}" for count in (each.before, each.after, each.before - each.after))
        yield f"{each.model:{width}} {amounts} {each.share:>8.1%}"


def _title(pool: StoragePool) -> str:
    return f"{pool.bytes:,} bytes ({format_kib(pool.bytes)}), {count_noun(len(pool.members), 'tensor')}"
