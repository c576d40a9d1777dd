"""The options of `tmmu plan` for training: --mode, --preset and --budget. spec: C2.7, M1.5, M1.7"""

from __future__ import annotations

import re
from typing import Any

import click

from tmmu.core.vocabulary import MODES, PRESETS, UINT64_END, Model

UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


def memory(_context: object, _parameter: object, text: str | None) -> int | None:
    """A number of bytes from text such as 24GiB. `click.BadParameter` for anything else.

    >>> memory(None, None, "24GiB"), memory(None, None, "1048576"), memory(None, None, None)
    (25769803776, 1048576, None)
    """
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,20})([KMGT]iB|B|)", text, re.IGNORECASE)
    size = int(found[1]) * UNITS[found[2].upper()] if found else UINT64_END
    if not size < UINT64_END:
        raise click.BadParameter(f"{text!r} is not a number of bytes; write it as in 24GiB", param_hint="--budget")
    return size


def options(command: Any) -> Any:
    """Add --mode, --preset and --budget to a command."""
    for option in (
        click.option("--budget", callback=memory, metavar="BYTES", help="With remat_enabled: 24GiB, or bytes."),
        click.option("--preset", type=click.Choice(list(PRESETS)), help="How training is planned [by the mode]."),
        click.option("--mode", type=click.Choice(MODES), help="What is run [inference, or the preset's]."),
    ):
        command = option(command)
    return command


def summary(given: Model, planned: Model) -> list[str]:
    """A line for what was added to a model's nodes, if anything was."""
    own = {node.name for node in given.nodes}
    added = [node.name for node in planned.nodes if node.name not in own]
    again = sum(".recompute" in name for name in added)
    return [f"  backward: {len(added) - again} steps added, {again} computed again"] if added else []
