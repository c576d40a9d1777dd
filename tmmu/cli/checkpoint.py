"""`tmmu checkpoint`: a plan and the state that its journal sealed, as one file. spec: U7.6"""

from __future__ import annotations

import click

from tmmu.cli import options
from tmmu.core.flags import OnceCommand, existing, format_examples, plan_file
from tmmu.core.output import count_noun, print_lines


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu checkpoint unet.plan.cbor -o unet.checkpoint",
        "tmmu checkpoint unet.plan.cbor --journal run.journal -o unet.checkpoint",
    ),
)
@click.argument("plan", type=plan_file)
@click.option("-o", "--output", "target", type=options.output, required=True, help="Where to write the checkpoint.")
@click.option("--journal", type=existing, help="The journal whose last sealed state the checkpoint has.")
def checkpoint(plan: str, target: str, journal: str | None) -> int:
    """Write the checkpoint of a plan.

    It holds the slots, live ranges and metrics of PLAN, and the state that the journal has sealed last.
    """
    from tmmu.cli.execution import load
    from tmmu.core import canonical
    from tmmu.plans import file
    from tmmu.runtime import checkpoint as checkpoints
    from tmmu.runtime import journal as journals

    options.check_apart(plan, target, journal)
    loaded = load(plan)
    plan_hash = file.plan_identity(loaded)
    state = journals.genesis(plan_hash) if journal is None else journals.load(journal, plan_hash)
    canonical.write_atomically(target, checkpoints.encode(loaded, state))
    print_lines(f"wrote {target}")
    print_lines(
        f"  plan {plan_hash.hex()}, {count_noun(state.batches, 'batch', 'batches')}, state {state.state_hash.hex()}"
    )
    return 0
