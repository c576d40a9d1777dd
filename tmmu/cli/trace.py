"""The group `tmmu trace`; `tmmu.cli.commands` puts the commands into it that stand in the modules they are of."""

from __future__ import annotations

import click


@click.group()
def trace() -> None:
    """Trace training steps of torch and JAX; show and compare the traces of runs."""
