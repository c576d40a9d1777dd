"""What `tmmu plan`, `tmmu show` and `tmmu replan` print of a plan: bindings, arenas, remarks, in-place hints.

spec: A2.5, A2.6, A8.7, A8.13, C2.2, C2.3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tmmu.cli import envelopes
from tmmu.core.bindings import describe_runtime
from tmmu.core.columns import find_distinct
from tmmu.core.output import count_noun, format_size, list_names
from tmmu.core.vocabulary import Shares
from tmmu.plans import metrics
from tmmu.plans.columns import SHARES
from tmmu.plans.places import fixed_places
from tmmu.plans.sections import BOUNDS, Plan

if TYPE_CHECKING:
    from tmmu.planner.aliasing import RefusedHint


def summary(plan: Plan) -> Iterator[str]:
    """The bindings, and one line for each arena that holds anything."""
    bound = {**plan.bindings.dims, **plan.bindings.shapes, **plan.bindings.values}
    if bound:
        yield f"  bindings: {', '.join(f'{name}={_bound(bound[name])}' for name in sorted(bound))}"
    yield from envelopes.describe_envelope(plan)
    if plan.bindings.defaults:
        yield f"  defaults: {list_names([f'{name}={value}' for name, value in plan.bindings.defaults.items()])}"
    if plan.bindings.donated:
        yield f"  donated: {list_names(plan.bindings.donated)}"
    if plan.bindings.runtime is not None:
        yield f"  graph: {describe_runtime(plan.bindings.runtime)}"
    if plan.bindings.keep_inputs:
        yield "  inputs: kept to the end"
    if plan.bindings.stated:
        yield f"  stated sizes: {list_names([f'{name}={size}' for name, size in plan.bindings.stated.items()])}"
    if plan.bindings.trust_shapes:
        yield "  trusted: the shapes that the model file states"
    if fixed := fixed_places(plan):
        places = [f"{name}={f'{at[0]}:{at[1]}' if isinstance(at, tuple) else at}" for name, at in fixed.items()]
        yield f"  fixed: {list_names(places)}"
    for arena in metrics.arena_records(plan):
        if arena["tensors"]:
            yield _arena(arena)
    if plan.provenance is not None and plan.origin.effort is not None:
        yield f"  effort: found after {count_noun(plan.origin.effort, 'look')}"
        for a, (least, by) in enumerate(plan.origin.bounds):
            if plan.allocation.arenas[a].reuse and least:
                over = metrics.ratio((plan.usage[a].footprint or 0) - least, least)
                name = plan.allocation.arenas[a].name
                yield f"  {name}: no placement is below {least} ({BOUNDS[by]}), this one is {over:.1%} above"


def _arena(arena: dict[str, Any]) -> str:
    """Yield the bytes that an arena needs, and the claims about it."""
    peak = slots = ""
    if arena["peak_live_bytes"] is not None:
        at = "" if arena["peak_step"] is None else f" at step {arena['peak_step']}"
        peak = f", peak live {arena['peak_live_bytes']}{at}, ratio {arena['footprint_per_peak']:.3f}"
    if arena["slots"] is not None:
        live = "" if arena["max_live"] is None else f", max live {arena['max_live']}"
        reuse = f"reuse {arena['memory_reuse_ratio']:.1%} of {count_noun(arena['tensors'], 'tensor')}"
        slots = f"; {count_noun(arena['slots'], 'slot')}{live}, {reuse}"
    return (
        f"  {arena['name']}: footprint {arena['footprint_bytes']} "
        f"({format_size(arena['footprint_bytes'])}){peak}{slots}"
    )


def _bound(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def hints(plan: Plan, refused: Sequence[RefusedHint]) -> str:
    """How many in-place hints were granted."""
    granted = int((plan.allocation.tensors.shares == SHARES.index(Shares.IN_PLACE)).sum())
    return f"  in place: {count_noun(granted, 'result')}; {count_noun(len(refused), 'hint')} refused (--why lists them)"


def pools(plan: Plan, arena: int) -> int:
    """How many pools an arena of a plan with pools has: its storages begin at that many offsets."""
    s = plan.allocation.storages
    return len(find_distinct(s.offset[s.arena == arena])[0])


def remarks(plan: Plan) -> Iterator[str]:
    """Yield remarks on arenas that could need less, in the layouts slots, packed and pools; and on conformance."""
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
        from tmmu.planner.problem import problem_of_plan
        from tmmu.planner.slots import claimed_slots

        needed = packed.place(problem_of_plan(plan), claimed_slots(plan)).footprint
        for a in loose:
            yield (
                f"  {plan.allocation.arenas[a].name}: packed would need {needed[a]} ({format_size(needed[a])}), "
                f"ratio {metrics.ratio(needed[a], plan.usage[a].peak_live_bytes or 0):.3f}"
            )
    if plan.origin.layout == "packed" and plan.origin.effort is None and loose and not plan.allocation.streams:
        from tmmu.planner.layouts.packed import bound_arena

        for a in loose:
            name, least = plan.allocation.arenas[a].name, bound_arena(plan.allocation, a)
            more = (plan.usage[a].footprint or 0) - least
            if more * 1000 >= least:
                yield (
                    f"  {name}: {metrics.ratio(more, least):.1%} above the bytes that any plan needs; "
                    f"--effort 1e9 searches for up to {more} bytes less"
                )
    if plan.origin.layout == "pools" and not plan.allocation.streams:
        for a, usage in enumerate(plan.usage):
            if plan.allocation.arenas[a].reuse and (count := pools(plan, a)) > (usage.max_live or 0):
                name = plan.allocation.arenas[a].name
                yield f"  {name}: {count_noun(count, 'pool')}, where {usage.max_live} are live at most"
