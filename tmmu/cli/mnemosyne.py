"""`tmmu mnemosyne`: vectors in sealed files, and the figures of document 002.

Commands that open no store stand in `mnemosyne_figures`, and are added at the end of this module.
"""

from __future__ import annotations

import click

from tmmu.cli import mnemosyne_figures
from tmmu.cli.logged import print_warnings


@click.group()
def mnemosyne() -> None:
    """Keep vectors in sealed files, and compute the figures of document 002."""
    print_warnings("tmmu.mnemosyne")


for command in mnemosyne_figures.COMMANDS:
    mnemosyne.add_command(command)
