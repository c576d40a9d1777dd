"""`tmmu verify` in the list of commands: `tmmu.cli.entry` runs verify-plan, which has its options. spec: C1.1"""

from __future__ import annotations

import click

from tmmu.core.flags import format_examples


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
    epilog=format_examples("tmmu verify unet.plan.cbor --model unet.onnx", "tmmu verify plans --require slot-count"),
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def verify(arguments: tuple[str, ...]) -> int:
    """Prove plans, or show why they are wrong: verify-plan, with its options."""
    from tmmu.cli.entry import run

    return run(["verify", *arguments])
