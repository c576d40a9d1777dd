"""`verify-plan --version`: which package and which kernel this is. It loads neither solvers nor NumPy. spec: V6.10"""

from __future__ import annotations

import click

from proofs.proving.kernel import installed
from tmmu.core.output import print_lines


def print_version(context: click.Context, _parameter: object, is_asked: bool) -> None:
    """Print it and exit, if the option is given."""
    if is_asked and not context.resilient_parsing:
        from importlib import metadata  # it takes as long to import as a small plan to check

        print_lines(f"verify-plan {metadata.version('tmmu')}", installed.description())
        context.exit()


version_option = click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show the version of the package, and which kernel it has, and exit.",
)


@click.command(name="verify-plan")
@version_option
def command() -> None:
    """Print the version: `verify-plan` runs this if `--version` is its only argument."""
