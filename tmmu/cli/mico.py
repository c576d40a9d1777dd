"""`tmmu mico`: where the modules lie that the usage of MiCo's document imports. spec: MC8.9"""

from __future__ import annotations

from pathlib import Path

import click

from tmmu.core.flags import OnceGroup, format_examples
from tmmu.core.output import print_lines


@click.group(cls=OnceGroup)
def mico() -> None:
    """MiCo's own API."""


@mico.command(
    epilog=format_examples(
        "tmmu mico path",
    )
)
def path() -> int:
    """Print the folder for PYTHONPATH.

    It holds MiCoCodeGen, MiCoUtils and models, as in: PYTHONPATH=$(tmmu mico path) python script.py
    """
    print_lines(str(Path(__file__).parents[1] / "mico" / "modules"))
    return 0
