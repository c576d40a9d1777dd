"""`tmmu apply`: the arenas of a plan in real memory. spec: U7.1, U7.2"""

from __future__ import annotations

import click

from tmmu.cli import options
from tmmu.cli.options import RecordOptions
from tmmu.core.flags import OnceCommand, format_examples, plan_file


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu apply unet.plan.cbor --budget 4GiB",
        "tmmu apply unet.plan.cbor --trace run.trace --journal run.journal",
    ),
)
@click.argument("plan", type=plan_file)
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
    nothing else is checked, `verify-plan` does that.
    """
    from tmmu.cli import execution
    from tmmu.runtime.apply import apply_plan

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
