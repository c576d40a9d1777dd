"""What the commands print of layouts: their flags, what another layout would need, and `tmmu compare`.

spec: A2.5, A2.6, A8.7, A9.4, C3.1, C3.2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import click
import numpy as np

from tmmu.cli.units import size
from tmmu.core.canonical import read_bounded
from tmmu.core.flags import existing
from tmmu.core.vocabulary import LAYOUTS
from tmmu.plan import metrics
from tmmu.plan.sections import Plan

Command = TypeVar("Command", bound=Callable[..., Any])

address_token = click.option(
    "--address-token", type=existing, metavar="FILE", help="For hashed: the secret of at least 64 bytes."
)
TOKEN_LIMIT = 1 << 20
"""The largest address token that is read, in bytes."""


def options(command: Command) -> Command:
    """The flags that choose a layout."""
    for option in (
        click.option(
            "--fallback", type=click.Choice(["packed"]), help="What to use where slots do not fit and it does."
        ),
        address_token,
        click.option(
            "--layout",
            type=click.Choice(LAYOUTS),
            default="packed",
            show_default=True,
            help="How addresses follow: tight byte offsets, 001's slots, MiCo's pools, or 000's hashed addresses.",
        ),
    ):
        command = option(command)
    return command


def read_token(path: str | None) -> bytes | None:
    """The address token in a file, as it is."""
    return None if path is None else read_bounded(path, TOKEN_LIMIT, "INVALID_BINDING")


def pools(plan: Plan, arena: int) -> int:
    """How many pools an arena of a plan with pools has: its storages begin at that many offsets."""
    s = plan.allocation.storages
    return len(np.unique(s.offset[s.arena == arena]))


def remarks(plan: Plan) -> Iterator[str]:
    """What packed would need where slots need more than is live; where pools are more than need be; conformance."""
    if plan.provenance is None or plan.claims is None:
        return
    if plan.origin.layout == "hashed":
        digest = (plan.origin.address_token_digest or b"").hex()
        yield "  hashed addresses do not conform to 001 II.F, which requires offsets; footprint is the sum of all slots"
        yield f"  address token: SHA-256 {digest}"
    loose = [
        a
        for a, u in enumerate(plan.usage)
        if plan.allocation.arenas[a].reuse and (u.footprint or 0) > (u.peak_live_bytes or 0)
    ]
    if plan.origin.layout == "slots" and loose:
        from tmmu.planner.layouts import packed
        from tmmu.planner.problem import of_plan
        from tmmu.planner.slots import slots_of

        needed = packed.place(of_plan(plan), slots_of(plan)).footprint
        for a in loose:
            yield (
                f"  {plan.allocation.arenas[a].name}: packed would need {needed[a]} ({size(needed[a])}), "
                f"ratio {metrics.ratio(needed[a], plan.usage[a].peak_live_bytes or 0):.3f}"
            )
    if plan.origin.layout == "pools":
        for a, usage in enumerate(plan.usage):
            if plan.allocation.arenas[a].reuse and (count := pools(plan, a)) > (usage.max_live or 0):
                yield f"  {plan.allocation.arenas[a].name}: {count} pools, where {usage.max_live} are live at most"


@dataclass(frozen=True)
class ComparisonRow:
    """One arena under one layout; `places` are its slots, or its pools, and `before` the bytes of all its storages."""

    layout: str
    arena: str
    places: int
    footprint: int
    peak: int
    before: int

    @property
    def ratio(self) -> float:
        """Footprint ÷ peak live bytes of the layout's own storages."""
        return metrics.ratio(self.footprint, self.peak)


def rows(plan: Plan) -> list[ComparisonRow]:
    """A row for each reused arena that holds anything."""
    s = plan.allocation.storages
    return [
        ComparisonRow(
            plan.origin.layout, arena.name, pools(plan, a) if plan.origin.layout == "pools" else usage.slots or 0,
            usage.footprint or 0, usage.peak_live_bytes or 0, sum(s.bytes[s.arena == a].tolist()),
        )
        for a, (arena, usage) in enumerate(zip(plan.allocation.arenas, plan.usage, strict=True))
        if usage.slots and arena.reuse
    ]  # fmt: skip


def kib(count: int) -> str:
    """Bytes in KiB with two decimals, as MiCo's table has them.

    >>> kib(2640), kib(0)
    ('2.58 KiB', '0.00 KiB')
    """
    return f"{count / 1024:.2f} KiB"


def table(found: list[ComparisonRow]) -> Iterator[str]:
    """All layouts side by side, then MiCo's own table: before, after, saved."""
    width = max((len(row.arena) for row in found), default=0)
    yield f"{'layout':8} {'arena':{width}} {'slots or pools':>14} {'footprint':>14} {'peak live':>14} {'ratio':>7}"
    for row in found:
        yield (
            f"{row.layout:8} {row.arena:{width}} {row.places:>14} {row.footprint:>14} {row.peak:>14} {row.ratio:>7.3f}"
        )
    for row in found:
        if row.layout == "pools":
            saved = row.before - row.footprint
            share = saved / row.before if row.before else 0.0
            yield (
                f"pools in {row.arena}: before {kib(row.before)}, after {kib(row.footprint)}, saved {kib(saved)}, "
                f"{share:.1%}"
            )


def document(found: list[ComparisonRow]) -> list[dict[str, Any]]:
    """The same as JSON."""
    return [
        {
            "layout": row.layout, "arena": row.arena, "pools" if row.layout == "pools" else "slots": row.places,
            "footprint_bytes": row.footprint, "peak_live_bytes": row.peak, "footprint_per_peak": row.ratio,
            "before_bytes": row.before,
        }
        for row in found
    ]  # fmt: skip
