"""Options that several commands share: each group is read by one decorator into one object.

Nothing here imports the planner or NumPy before an option of theirs is given. spec: C2.1, C2.7, T10.7
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tmmu.cli.effort import LookCount
from tmmu.cli.units import memory
from tmmu.core.flags import (
    FIX,
    RUNTIME_FLAGS,
    Decorator,
    Output,
    binding_option,
    bindings_of,
    existing,
    gather_options,
    parse_offsets,
    parse_sizes,
)
from tmmu.core.vocabulary import (
    ANYWHERE,
    EXECUTION_MODES,
    LAYOUTS,
    MODES,
    ORDERS,
    PRESETS,
    REPLAN_POLICIES,
    UINT64_END,
    ArenaConfiguration,
    ArenaPolicy,
    Bindings,
)
from tmmu.tasks.training import TrainingOptions

if TYPE_CHECKING:
    from tmmu.planner.options import PlanOptions

TOKEN_LIMIT = 1 << 20
"""The largest address token that is read, in bytes."""

output = Output(standard=True)
"""The file of -o."""

record = Output()
"""Another file that may be written."""

uint64 = click.IntRange(0, UINT64_END - 1)

replan_policy = click.Choice([policy.lower() for policy in REPLAN_POLICIES])

style = click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)


def bindings(
    *,
    ranges: bool = True,
    donates: bool = True,
    keeps: bool = False,
    batches: bool = False,
    runtimes: bool = False,
    **texts: str,
) -> Decorator:
    """Gather --dim, --shape, --bytes, --value, --donate and --trust-shapes into `Bindings`.

    `ranges` is whether --dim may leave a dimension open, `donates` whether the last two options are there, `keeps`
    whether --keep-inputs is, `runtimes` whether --as is. With `batches` --dim is not: the command has another one, for
    sizes that change from batch to batch. `texts` are help texts in place of the usual ones.
    """
    usual = {
        "dim": "The size of a symbolic dimension, or a range: seq=1..4096, h=320..640:32.",
        "shape": "The shape of an input, as in images=1x3x640x640, or one to assume of a tensor whose shape the model "
        "gives none: y=float32:1x10.",
        "bytes": "How many bytes to assume that such a tensor has.",
        "value": "The value of an input that decides a shape or a branch.",
        "donate": "The caller gives this input up: a result may take its bytes; * is any text.",
        "trust_shapes": "Use the shapes that the file states where none can be inferred.",
    } | texts

    def of_sizes(
        dim: dict[str, str],
        shape: dict[str, str],
        bytes: dict[str, str],
        value: dict[str, str],
        donate: tuple[str, ...] = (),
        trust_shapes: bool = False,
    ) -> Bindings:
        parse_sizes("--dim", dim)  # which refuses a range
        return bindings_of(dim, shape, bytes, value, donate, trust_shapes)

    def without_dim(
        shape: dict[str, str],
        bytes: dict[str, str],
        value: dict[str, str],
        donate: tuple[str, ...] = (),
        trust_shapes: bool = False,
    ) -> Bindings:
        return bindings_of({}, shape, bytes, value, donate, trust_shapes)

    names = ("shape", "bytes", "value") if batches else ("dim", "shape", "bytes", "value")
    given: list[Decorator] = [binding_option(f"--{name}", usual[name]) for name in names]
    if donates:
        given.append(click.option("--donate", multiple=True, metavar="NAME", help=usual["donate"]))
        given.append(click.option("--trust-shapes", is_flag=True, help=usual["trust_shapes"]))
    if keeps:
        text = "The caller finds its inputs unchanged after the last step, those of --donate apart."
        given.append(click.option("--keep-inputs", is_flag=True, help=text))
    if runtimes:
        given.append(RUNTIME_FLAGS)
    return gather_options("bindings", without_dim if batches else bindings_of if ranges else of_sizes, *given)


training = gather_options(
    "training",
    TrainingOptions,
    click.option(
        "--mode", type=click.Choice(MODES), help="The part of the model to plan [inference, or the preset's]."
    ),
    click.option(
        "--preset",
        type=click.Choice(list(PRESETS)),
        help="The training preset: what is kept for backward steps [by --mode].",
    ),
    click.option(
        "--budget",
        callback=memory,
        metavar="BYTES",
        help="With --preset remat_enabled, the most live bytes: 24GiB, or a number.",
    ),
)


def _arenas(_context: object, _parameter: object, path: str | None) -> Any:
    """Return the arenas of a configuration file, or the default arenas."""
    from tmmu.plans import configuration_file
    from tmmu.plans.configuration import DEFAULT

    return (DEFAULT, ANYWHERE) if path is None else configuration_file.load(path)


Arenas = tuple[tuple[ArenaConfiguration, ...], ArenaPolicy]
"""What --arenas gives to a command."""

arenas = click.option("--arenas", type=existing, callback=_arenas, help="An arena configuration (TOML).")


def _address_token(_context: object, _parameter: object, path: str | None) -> bytes | None:
    """Return the address token in a file. Raises MISSING_PACKAGE if it cannot be hashed."""
    from tmmu.core.canonical import read_bounded
    from tmmu.core.extras import require_package

    if path is None:
        return None
    require_package("blake3", "the layout hashed", "hashed")
    return read_bounded(path, TOKEN_LIMIT, "INVALID_BINDING")


address_token = click.option(
    "--address-token",
    type=existing,
    callback=_address_token,
    metavar="FILE",
    help="The secret token of --layout hashed, at least 64 bytes.",
)

order = click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="given",
    show_default=True,
    help="The model's execution order, or one that lowers the peak of live bytes.",
)


def _streams(_context: object, _parameter: object, path: str | None) -> Any:
    """Return the streams of nodes in a file."""
    from tmmu.planner.streams.assignment import load_streams

    return None if path is None else load_streams(path)


@dataclass(frozen=True)
class ExecutionOptions:
    """The order of the steps: the word for one that is computed, or the names of nodes; and the streams they run on."""

    order: str
    listed: tuple[str, ...]
    streams: Any
    late_seeds: bool


@dataclass(frozen=True)
class RangeOptions:
    """The options for models whose dimensions have ranges."""

    replan_policy: str
    symbolic: bool


ORDER_LIMIT = 1 << 28
"""The largest file of an execution order that is read, in bytes."""


def _read_order(_context: object, _parameter: object, path: str | None) -> tuple[str, ...]:
    """Return the names in a file of --execution-order, one a line. Raises INVALID_BINDING if it is not such a text."""
    from tmmu.core.canonical import read_bounded
    from tmmu.core.errors import TmmuError

    if path is None:
        return ()
    try:
        names = tuple(filter(None, read_bounded(path, ORDER_LIMIT, "INVALID_BINDING").decode().splitlines()))
    except UnicodeDecodeError:
        names = ()
    if not names:
        raise TmmuError(
            "INVALID_BINDING", "expected the names of nodes, one a line", file=path,
            fix="list each node once, as `tmmu show --steps` names it", binding="execution_order",
        )  # fmt: skip
    return names


def _plan_options(
    layout: str,
    address_token: bytes | None,
    fallback: str | None,
    execution: ExecutionOptions,
    token: bytes,
    effort: int | None,
    over_ranges: RangeOptions,
    fix: dict[str, str],
) -> PlanOptions:
    """Return what `plan_memory` takes. The mode is chosen with the preset."""
    from tmmu.planner.options import PlanOptions

    return PlanOptions(
        layout=layout, order=execution.order, replay_token=token, address_token=address_token, fallback=fallback,
        replan_policy=over_ranges.replan_policy.upper(), effort=effort, symbolic=over_ranges.symbolic,
        fixed=parse_offsets(fix), streams=execution.streams,
        listed=execution.listed, late_seeds=execution.late_seeds,
    )  # fmt: skip


def _token(seed: int | None, replay_token: str | None) -> bytes:
    """Return the replay token of a seed, or the one stated. Raises UsageError for both."""
    from tmmu.planner import replay_token as token_of

    if replay_token is None:
        return token_of(seed or 0)
    if seed is not None:
        raise click.UsageError("--seed and --replay-token both state the token; give one")
    try:
        token = bytes.fromhex(replay_token)
    except ValueError:
        token = b""
    if len(token) != 32:
        raise click.BadParameter("a replay token is 64 hexadecimal digits", param_hint="--replay-token")
    return token


planning = gather_options(
    "options",
    _plan_options,
    click.option(
        "--layout",
        type=click.Choice(LAYOUTS),
        default="packed",
        show_default=True,
        help="How addresses follow: tight byte offsets, slots one after the other (prefix sums), MiCo's pools, or "
        "addresses hashed from a token.",
    ),
    address_token,
    click.option(
        "--fallback",
        type=click.Choice(["packed"]),
        help="The layout to use where the layout slots does not fit and this one does.",
    ),
    gather_options(
        "execution",
        ExecutionOptions,
        order,
        click.option(
            "--streams",
            type=existing,
            callback=_streams,
            metavar="FILE",
            help="The streams of nodes, which may then overlap in time (TOML); waits that operands need are added.",
        ),
        click.option(
            "--execution-order",
            "listed",
            type=existing,
            callback=_read_order,
            metavar="FILE",
            help="Run the nodes in the order of this text file: the name of each node, one a line, as `tmmu show "
            "--steps` has them.",
        ),
        click.option(
            "--late-seeds",
            is_flag=True,
            help="The caller writes the seed of a gradient directly before the step that first reads it, in mode "
            "backward.",
        ),
    ),
    gather_options(
        "token",
        _token,
        click.option("--seed", type=uint64, help="The seed of the replay token [0]."),
        click.option("--replay-token", metavar="HEX", help="The replay token itself, 32 bytes, in place of a seed."),
    ),
    gather_options(
        "over_ranges",
        RangeOptions,
        click.option(
            "--replan-policy",
            type=replan_policy,
            default="abort",
            show_default=True,
            help="What a run does with a shape outside the ranges given with --dim.",
        ),
        click.option(
            "--symbolic",
            is_flag=True,
            help="With --layout slots and ranges of dimensions: at each shape, offsets follow from the sizes there.",
        ),
    ),
    click.option(
        "--effort",
        type=LookCount(),
        metavar="N",
        help="With --layout packed, search for lower footprints: N looks, such as 1e9 (some seconds with the extra "
        "fast), or those of N seconds on this machine, such as 10s. Ctrl-C keeps the best so far.",
    ),
    binding_option("--fix", FIX),
)
"""What `plan_memory` is asked for, as `PlanOptions`."""


@dataclass(frozen=True)
class ShardOptions:
    """The shard spec to plan by, and the one rank that is wanted, if not all."""

    shard: str | None
    rank: int | None


sharding = gather_options(
    "sharding",
    ShardOptions,
    click.option("--shard", type=existing, metavar="FILE", help="A shard spec (TOML): one plan for each rank."),
    click.option("--rank", type=click.IntRange(min=0), help="With --shard: plan this rank alone [every rank]."),
)


@dataclass(frozen=True)
class RecordOptions:
    """How a plan is applied, and the files for its records; None if a record is not wanted."""

    mode: str = "local"
    trace: str | None = None
    ledger: str | None = None
    events: str | None = None
    journal: str | None = None
    errors: str | None = None
    checkpoint: str | None = None
    contents: bool = False

    @property
    def paths(self) -> list[str | None]:
        """Every file that may be written."""
        return [self.trace, self.ledger, self.journal, self.errors, self.events, self.checkpoint]

    @property
    def is_recorded(self) -> bool:
        """Whether a run is to be one of the runtime's executions, with states that are sealed."""
        return self.contents or self.mode != "local" or any(self.paths)


def records(*, checkpoint: bool) -> Decorator:
    """The options of every command that applies a plan, with or without --checkpoint."""
    text = "Where to write a checkpoint with all arenas' bytes, after each replan and at the end."
    own = [click.option("--checkpoint", type=record, metavar="FILE", help=text)] if checkpoint else []
    return gather_options(
        "files",
        RecordOptions,
        click.option(
            "--mode",
            type=click.Choice(EXECUTION_MODES),
            default="local",
            show_default=True,
            help="The execution mode: confidential and regulated refuse a debug fill and a checkpoint with contents; "
            "local and managed allow them.",
        ),
        click.option("--trace", type=record, metavar="FILE", help="Where to write the trace."),
        click.option("--ledger", type=record, metavar="FILE", help="Where to write the resource counters."),
        click.option("--journal", type=record, metavar="FILE", help="Where commits are kept; made if it is not there."),
        click.option("--errors", type=record, metavar="FILE", help="Where to write the error record of a failure."),
        click.option("--events", type=record, metavar="FILE", help="Add what happens to this event log."),
        *own,
        click.option("--contents", is_flag=True, help="Include the bytes of all arenas in the hash of each commit."),
    )


most_memory = click.option(
    "--budget", callback=memory, metavar="BYTES", help="The most memory to take: 24GiB, or bytes."
)


def check_apart(*paths: str | None) -> None:
    """A UsageError for a file that one command would read and write, or write twice."""
    seen: set[str] = set()
    for path in filter(None, paths):
        if os.path.realpath(path) in seen:
            raise click.UsageError(f"{path} is named twice; choose another file")
        seen.add(os.path.realpath(path))
