"""`tmmu apply`: the arenas of a plan in real memory. spec: U7.1, U7.2"""

from __future__ import annotations

import os

import click

from tmmu.cli import options
from tmmu.cli.options import RecordOptions
from tmmu.core.flags import OnceCommand, format_examples, plan_or_set
from tmmu.core.output import count_noun, format_json, format_size, print_lines, print_text


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu apply unet.plan.cbor --budget 4GiB",
        "tmmu apply unet.plan.cbor --trace run.trace --journal run.journal",
        "tmmu apply session/",
    ),
)
@click.argument("plan", type=plan_or_set, metavar="PLAN|SET")
@options.records(checkpoint=False)
@options.most_memory
@options.style
@click.option("--huge-pages", is_flag=True, help="Ask the system for huge pages.")
@click.option(
    "--debug-fill",
    type=click.IntRange(0, (1 << 128) - 1),
    metavar="SEED",
    help="Fill with a pattern, not with zeros (local and managed).",
)
def apply(
    plan: str, files: RecordOptions, budget: int | None, style: str, huge_pages: bool, debug_fill: int | None
) -> int:
    """Map the arenas of a plan into memory.

    All arenas of PLAN are mapped and zeroed, or none, and a commit is sealed. The plan's hashes are recomputed first;
    nothing else is checked, `verify-plan` does that. Of a plan set, each arena is mapped once for all programs.
    """
    from tmmu.cli import execution
    from tmmu.runtime.apply import apply_plan

    if os.path.isdir(plan):
        if files.is_recorded or debug_fill is not None:
            raise click.UsageError("records, modes and fills are for one plan, not a set")
        return _apply_set(plan, budget, style, huge_pages=huge_pages)
    options.check_apart(plan, *files.paths)
    with execution.record_failures(files.errors) as failure:
        failure.plan = loaded = execution.load(plan)
        with execution.open_execution(
            plan, files, execution.event_log(files.events),
            lambda records: apply_plan(
                loaded, execution_mode=files.mode, memory_bytes_budget=budget, huge_pages=huge_pages,
                debug_seed=debug_fill, records=records,
            ),
        ) as applied:  # fmt: skip
            execution.print_applied(plan, applied, style)
    return 0


def _apply_set(folder: str, budget: int | None, style: str, *, huge_pages: bool) -> int:
    """Map the one memory of a plan set, and print its ranges beside what the programs would take by themselves."""
    from tmmu.runtime.sets import SetMemory
    from tmmu.tasks.opened_sets import open_set

    opened = open_set(folder)
    with SetMemory.map(opened.plans, memory_bytes_budget=budget, huge_pages=huge_pages) as memory:
        apart = {name: sum(each.reserved for each in of.mappings) for name, of in memory.of.items()}
        if style == "json":
            ranges = [{"name": each.name, "bytes": each.size, "reserved": each.reserved} for each in memory.mappings]
            found = {"set": folder, "bytes_allocated": memory.bytes_allocated, "mappings": ranges, "programs": apart}
            print_text(format_json(found))
            return 0
        programs = count_noun(len(apart), "program")
        print_lines(
            f"applied {folder}: {format_size(memory.bytes_allocated)} for {programs}; "
            f"each by itself {format_size(sum(apart.values()))}",
            *(f"  {each.name}: {each.size} bytes, {each.reserved} mapped" for each in memory.mappings if each.size),
        )
    return 0
