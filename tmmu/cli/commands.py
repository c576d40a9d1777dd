"""The tmmu command: `example` writes models and wrong plans, `plan` plans and checks, `show` explains.

spec: C2.1, C2.2, C2.3, C2.4, C2.6
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from proofs.flags import bound, existing, shapes, sizes
from tmmu.errors import TmmuError, one_line


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tmmu")
def tmmu() -> None:
    """Plan the memory of machine-learning models. `verify-plan` proves the plans."""


@tmmu.command()
@click.argument("name", required=False)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where to write it.")
@click.option("--list", "listed", is_flag=True, help="Print the names, one a line.")
def example(name: str | None, output: str | None, listed: bool) -> int:
    """Write the example NAME: a real architecture without weights (ONNX), or a wrong plan of the corpus."""
    from tmmu import examples

    if listed:
        click.echo("\n".join(examples.names()))
        return 0
    if name is None or output is None:
        raise click.UsageError("name an example and give -o FILE; `tmmu example --list` prints the names")
    try:
        for written in examples.write(name, output):
            click.echo(f"wrote {written}")
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return 0


@tmmu.command()
@click.argument("model", type=existing)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where to write the plan [MODEL.plan.cbor].")
@bound("--dim", "The size of a symbolic dimension.")
@bound("--shape", "The shape of an input, as in images=1x3x640x640.")
@bound("--value", "The value of an input that decides a shape or a branch.")
@click.option(
    "--donate", multiple=True, metavar="NAME", help="The caller gives this input up: a result may take its bytes."
)
@click.option(
    "--trust-shapes", is_flag=True, help="Believe the shapes that the file states where none can be inferred."
)
@click.option("--mode", type=click.Choice(["inference", "forward"]), default="inference", show_default=True)
@click.option("--layout", type=click.Choice(["slots"]), default="slots", show_default=True)
@click.option("--arenas", type=existing, help="An arena configuration (TOML).")
@click.option("--seed", type=click.IntRange(0, (1 << 64) - 1), default=0, help="The seed of the replay token.")
@click.option("--replay-token", metavar="HEX", help="The replay token itself, 32 bytes.")
@click.option("--why", is_flag=True, help="List the in-place hints that were refused, with reasons.")
def plan(
    model: str,
    output: str | None,
    dim: dict[str, str],
    shape: dict[str, str],
    value: dict[str, str],
    donate: tuple[str, ...],
    trust_shapes: bool,
    mode: str,
    layout: str,
    arenas: str | None,
    seed: int,
    replay_token: str | None,
    why: bool,
) -> int:
    """Plan the memory of MODEL (ONNX, or IR as .ir.cbor), check the plan, and write it."""
    from tmmu import planner
    from tmmu.cli import show as shown
    from tmmu.cli.checking import check
    from tmmu.cli.models import load
    from tmmu.plan import file
    from tmmu.planner import arenas as configuration

    target = output or f"{Path(model).name.removesuffix('.cbor').removesuffix('.ir').removesuffix('.onnx')}.plan.cbor"
    if os.path.realpath(target) == os.path.realpath(model):
        raise click.UsageError(f"{target} is the model itself; choose another file with -o")
    token = _token(seed, replay_token)
    config = planner.DEFAULT if arenas is None else configuration.load(arenas)
    loaded = load(model, sizes("--dim", dim), shapes("--shape", shape), value, donate, trust_shapes)
    try:
        planned = planner.plan_memory(loaded, config, mode=mode, layout=layout, token=token)
        check(planned.plan, loaded, is_ir=model.endswith(".cbor"))
    except TmmuError as error:
        error.in_file(model)
        raise
    file.save(planned.plan, target)
    click.echo(f"wrote {target}")
    for line in shown.summary(planned.plan):
        click.echo(one_line(line))
    click.echo(shown.hints(planned.plan, planned.refused))
    if why:
        for refused in planned.refused:
            click.echo(one_line(f"  {refused.node}: {refused.result} in place of {refused.operand}: {refused.reason}"))
    return 0


def _token(seed: int, text: str | None) -> bytes:
    from tmmu.planner import replay_token

    if text is None:
        return replay_token(seed)
    try:
        token = bytes.fromhex(text)
    except ValueError:
        token = b""
    if len(token) != 32:
        raise click.BadParameter("a replay token is 64 hexadecimal digits", param_hint="--replay-token")
    return token


@tmmu.command()
@click.argument("plan", type=existing)
@click.option("--tensors", "what", flag_value="tensors", help="A row for each tensor.")
@click.option("--steps", "what", flag_value="steps", help="A row for each step.")
@click.option("--format", "style", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True)
def show(plan: str, what: str | None, style: str) -> int:
    """Explain PLAN: its arenas, what is live at the peak, its tensors, its steps."""
    from tmmu.cli import show as shown
    from tmmu.plan import file

    if style == "csv" and what is None:
        raise click.UsageError("--format csv goes with --tensors or --steps")
    for chunk in shown.render(file.load(plan).plan, what, style):
        click.echo(chunk)
    return 0
