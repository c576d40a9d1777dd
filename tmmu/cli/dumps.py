"""Plans of other producers for the commands that look at plans: which file a folder means, and what is printed.

spec: RP3.8, RP3.9, RP3.10
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from tmmu.core.kind import MANIFEST, is_set
from tmmu.core.output import count_noun, format_size

if TYPE_CHECKING:
    from tmmu.plans.gate import StatedBuffers, StatedPlan
    from tmmu.plans.sections import BufferPlan, Plan
    from tmmu.report.arena_map import ArenaMap

SHOWN = 10
"""As many storages are named."""


def find_dump(path: str) -> str:
    """Return the file that is meant: of a folder that is no plan set the only plan in it. spec: RP3.10

    Raises UsageError for a folder with none, or with several.
    """
    if not os.path.isdir(path) or is_set(path):
        return path
    from proofs.readers.plans.formats import is_plan

    found = [each for each in sorted(os.listdir(path)) if os.path.isfile(os.path.join(path, each))]
    found = [each for each in found if is_plan(os.path.join(path, each))]
    if len(found) != 1:
        what = f"{count_noun(len(found), 'plan')} in it" if found else f"no {MANIFEST} and no plan in it"
        raise click.UsageError(f"{path} is a folder with {what}: name a file, or the folder of a plan set")
    return os.path.join(path, found[0])


def load(path: str) -> StatedPlan | StatedBuffers:
    """Return a plan, ours or another producer's. Raises `TmmuError` if the file is none, or cannot be read."""
    from proofs.readers.plans import formats

    return formats.load_any(path)


def is_foreign(stated: StatedPlan | StatedBuffers) -> bool:
    """Return whether a plan is another producer's, whose allocations are described as a whole."""
    return stated.reading is not None


def describe_whole(maps: Sequence[ArenaMap], steps: Sequence[str]) -> Iterator[str]:
    """Yield the bytes of all arenas, the most that are live at once, where, and the largest of them. spec: RP3.8"""
    from tmmu.report.overview import sum_up

    whole = sum_up(maps)
    at = f"step {whole.peak_step}" + (f" ({steps[whole.peak_step]})" if whole.peak_step < len(steps) else "")
    yield f"{count_noun(whole.arenas, 'arena')}: {format_size(whole.footprint)} in all"
    over = whole.footprint - whole.peak
    part = f" ({over / whole.peak:.1%})" if whole.peak else ""
    yield f"  at most {format_size(whole.peak)} are live at once, at {at}: {format_size(over)}{part} less than in all"
    yield f"  live there: {count_noun(len(whole.live), 'storage')}, the largest of them"
    for one in whole.live[:SHOWN]:
        first, _, others = one.names.partition("\n")
        more = f" and {count_noun(others.count(chr(10)) + 1, 'other tensor')}" if others else ""
        yield f"    {format_size(one.bytes):>12}  {first}{more} in {one.arena}, steps {one.birth} to {one.death}"


def describe(plan: Plan | BufferPlan) -> Iterator[str]:
    """Yield the whole plan, and the footprint and the most live bytes of the arenas that several storages share."""
    from tmmu.report.arena_map import arena_maps, step_names

    maps = arena_maps(plan, with_released=False)
    yield from describe_whole(maps, step_names(plan))
    for one in choose_detailed(maps):
        over = f"{(one.footprint - one.peak) / max(one.peak, 1):.1%} above"
        peak = f"at most {format_size(one.peak)} live at step {one.peak_step}, {over}"
        yield f"  {one.name}: footprint {format_size(one.footprint)} of {count_noun(len(one.names), 'storage')}, {peak}"


def choose_detailed(maps: Sequence[ArenaMap]) -> list[ArenaMap]:
    """Return the arenas that are worth a description, the largest first.

    Several storages are in such an arena, and it is a tenth of all bytes, or the largest of its kind.
    """
    several = [one for one in maps if len(one.names) > 1 and not one.is_constant]
    several.sort(key=lambda one: -one.footprint)
    least = sum(one.footprint for one in maps) / 10
    return [one for k, one in enumerate(several) if k == 0 or one.footprint >= least]


def describe_repacking(plan: Plan | BufferPlan) -> Iterator[str]:
    """Yield what another packing of the same lifetimes would need, in bytes. spec: RP3.9"""
    from tmmu.report.overview import find_obstacle, repack

    if (why := find_obstacle(plan)) is not None:
        yield f"another packing: not tried, as {why}"
        return
    found = repack(plan)
    yield "another packing of the same lifetimes, sizes and alignments:"
    for one in found:
        saved = f"saves {one.now - one.then} bytes" if one.then < one.now else "saves nothing"
        bound = "which is the least" if one.then == one.bound else f"and none is below {one.bound}"
        of = f" of {one.arenas} arenas" if one.arenas > 1 else ""
        yield f"  {one.what}{of}: {one.now} -> {one.then} bytes, {saved}, {bound}"
    if not any(one.arenas == 1 for one in found):
        yield "  no arena by itself: each needs no more than is live in it at once"
