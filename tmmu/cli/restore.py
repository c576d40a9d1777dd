"""`tmmu restore`: the arenas of a checkpoint in real memory, after its hashes were computed again.

spec: U6.11, U7.6, U7.7
"""

from __future__ import annotations

import click

from tmmu.cli import options
from tmmu.cli.options import RecordOptions
from tmmu.core.flags import OnceCommand, existing, format_examples
from tmmu.core.output import print_lines


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu restore unet.checkpoint",
        "tmmu restore unet.checkpoint --against unet.plan.cbor -o again.plan.cbor",
    ),
)
@click.argument("file", metavar="CHECKPOINT", type=existing)
@options.records(checkpoint=False)
@options.most_memory
@options.style
@click.option(
    "--against",
    type=existing,
    metavar="PLAN",
    help="The plan of today: the checkpoint must be of it, to the digest of its file.",
)
@click.option(
    "-o", "--output", "target", type=options.output, metavar="PLAN", help="Where to write the checkpoint's plan."
)
def restore(
    file: str, files: RecordOptions, budget: int | None, style: str, against: str | None, target: str | None
) -> int:
    """Map the arenas of a checkpoint into memory.

    Every hash of CHECKPOINT is recomputed first, and any difference aborts; a commit is sealed at the end.
    """
    from tmmu.cli import execution
    from tmmu.plans import file as plans
    from tmmu.runtime import checkpoint as checkpoints

    options.check_apart(file, target, *files.paths)
    with execution.record_failures(files.errors) as failure:
        log = execution.event_log(files.events)
        found = checkpoints.load(file, None if against is None else execution.load(against), log)
        failure.plan = found.plan
        with execution.open_execution(
            file, files, log,
            lambda records: checkpoints.resume(
                found, execution_mode=files.mode, memory_bytes_budget=budget, records=records
            ),
        ) as applied:  # fmt: skip
            if target is not None:
                plans.save(found.plan, target)
            execution.print_applied(file, applied, style)
            if not found.is_covered:
                print_lines("note: the sealed state does not cover these bytes: run with --contents", err=True)
    if target is not None:
        print_lines(f"wrote {target}", err=style == "json")
    return 0
