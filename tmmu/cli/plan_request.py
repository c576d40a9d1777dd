"""What `tmmu plan` is asked for: how models are planned, how the result is printed, and how a search is ended.

spec: A8.10
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tmmu.cli.options import Arenas, ShardOptions
from tmmu.core.vocabulary import Bindings
from tmmu.tasks.training import TrainingOptions

if TYPE_CHECKING:
    from tmmu.planner import PlanOptions
    from tmmu.plans.workspace_file import Workspace


@dataclass(frozen=True)
class PlanRequest:
    """How each model is planned, and how many processes check and write the plans of its ranks. spec: M4.3"""

    bindings: Bindings
    training: TrainingOptions
    options: PlanOptions
    arenas: Arenas
    sharding: ShardOptions
    jobs: int | None
    workspace: Workspace | None

    def __post_init__(self) -> None:
        if self.workspace is not None and self.sharding.shard is not None:
            raise click.UsageError("--workspace does not go with --shard")
        if self.jobs is not None and (self.sharding.shard is None or self.sharding.rank is not None):
            raise click.UsageError("--jobs goes with --shard, for all ranks")


@dataclass(frozen=True)
class PlanPrinting:
    """How each model is reported. Raises UsageError for options that exclude each other."""

    style: str
    quiet: bool
    verbose: bool
    why: bool

    def __post_init__(self) -> None:
        if self.quiet and (self.verbose or self.why or self.style == "json"):
            raise click.UsageError("-q goes with neither -v nor --why nor --format json")


@contextmanager
def until_interrupted(effort: bool) -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, where effort is spent; pressed again, it ends the command. spec: A8.10"""
    pressed: list[int] = []
    if not effort:
        yield lambda: False
        return

    def press(number: int, _frame: object) -> None:
        pressed.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
