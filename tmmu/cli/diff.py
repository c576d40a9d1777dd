"""`tmmu diff`: what changed from one plan to another. spec: RP4.1 to RP4.3"""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from tmmu.cli import options
from tmmu.core.flags import OnceCommand, format_examples, plan_or_dump
from tmmu.core.output import count_noun, format_json, format_size, print_lines, print_text

if TYPE_CHECKING:
    from tmmu.report.difference import ArenaChange, TensorChange

SHOWN = 10
"""As many tensors are named of each kind of change."""
KINDS = ("new", "gone", "resized", "moved", "lives otherwise")


def _part(_context: object, _parameter: object, text: str | None) -> Fraction | None:
    """A part from text such as 5%, 0.05 or 1/20."""
    if text is None:
        return None
    try:
        found = Fraction(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except (ValueError, ZeroDivisionError) as error:
        raise click.BadParameter(f"{text!r} is not a proportion; write 5%", param_hint="--max-growth") from error
    if found < 0:
        raise click.BadParameter(f"{text!r} is below 0", param_hint="--max-growth")
    return found


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu diff old.plan.cbor new.plan.cbor",
        "tmmu diff old.plan.cbor new.plan.cbor --max-growth 5%",
    ),
)
@click.argument("before", type=plan_or_dump)
@click.argument("after", type=plan_or_dump)
@click.option(
    "--max-growth", callback=_part, metavar="PART",
    help="Exit with 1 where the footprint of an arena has grown by more than this, as in 5%.",
)  # fmt: skip
@options.style
def diff(before: str, after: str, max_growth: Fraction | None, style: str) -> int:
    """Compare two plans: what each arena needs, and which tensors are new, gone, resized, moved, or live otherwise.

    Of two plan sets, the programs of one name are compared; arenas are those of each program. The plans may be those of
    another compiler, such as dumps of XLA or Inductor.
    """
    from tmmu.cli import dumps
    from tmmu.report.difference import arena_changes, growth, tensor_changes

    before, after = map(dumps.find_dump, (before, after))
    if os.path.isdir(before) != os.path.isdir(after):
        raise click.UsageError("a plan set is compared with a plan set, and a plan with a plan")
    if os.path.isdir(before):
        arenas, tensors = _set_changes(before, after)
    else:
        plans = [dumps.load(path).plan for path in (before, after)]
        arenas, tensors = arena_changes(*plans), tensor_changes(*plans)
    grown = growth(arenas)
    too_much = max_growth is not None and (grown is None or grown > max_growth)
    if style == "json":
        print_text(
            format_json(
                {
                    "arenas": [change.__dict__ for change in arenas],
                    "tensors": [{**change.__dict__, "kind": change.kind} for change in tensors],
                    "growth": None if grown is None else float(grown), "is_too_much": too_much,
                }
            )
        )  # fmt: skip
        return int(too_much)
    print_lines(*map(_arena, (change for change in arenas if change.footprint != (0, 0))))
    for kind in KINDS:
        listed = [change for change in tensors if change.kind == kind]
        if listed:
            more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
            print_lines(f"  {kind}: {count_noun(len(listed), 'tensor')}")
            print_lines(*(f"    {_tensor(change)}" for change in listed[:SHOWN]))
            if more:
                print_lines(f"   {more}")
    if not tensors:
        print_lines("  no tensor is other than before")
    if too_much and max_growth is not None:
        by = "from nothing" if grown is None else f"by {float(grown):.2%}"
        print_lines(
            f"error: the footprint of an arena has grown {by}, and {float(max_growth):.2%} is permitted", err=True
        )
    return int(too_much)


def _set_changes(before: str, after: str) -> tuple[list[ArenaChange], list[TensorChange]]:
    """Return the changes of the programs that two sets have, each name with its program's before it."""
    from tmmu.plans import sets
    from tmmu.report.difference import ArenaChange, TensorChange, arena_changes, tensor_changes

    old, new = (sets.load_plans(folder, sets.load(folder)) for folder in (before, after))
    if old.keys() != new.keys():
        other = sorted(old.keys() ^ new.keys())[0]
        raise click.UsageError(f"the program {other} is only in one of the sets")
    arenas, tensors = list[ArenaChange](), list[TensorChange]()
    for name in old:
        arenas += (replace(one, name=f"{name}: {one.name}") for one in arena_changes(old[name], new[name]))
        tensors += (replace(one, name=f"{name}: {one.name}") for one in tensor_changes(old[name], new[name]))
    return arenas, tensors


def _arena(change: ArenaChange) -> str:
    (f0, f1), (p0, p1) = change.footprint, change.peak
    by = "" if not f0 else f" ({(f1 - f0) / f0:+.2%})"
    return (
        f"{change.name}: footprint {format_size(f0)} -> {format_size(f1)}{by}, peak live "
        f"{format_size(p0)} -> {format_size(p1)}"
    )


def _tensor(change: TensorChange) -> str:
    def at(place: tuple[str, int, int, int, int] | None) -> str:
        if place is None:
            return "nothing"
        arena, offset, count, birth, death = place
        return f"{format_size(count)} at {offset} of {arena}, steps {birth} to {death}"

    return f"{change.name}: {at(change.before)} -> {at(change.after)}"
