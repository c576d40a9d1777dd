"""The tmmu command: `example` writes models and wrong plans, `plan` plans and checks, `show` explains.

spec: C2.1, C2.2, C2.3, C2.4, C2.6
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from tmmu.cli import layouts, records, replanning, runtime, sharding, trace, tracing, training
from tmmu.cli.run import run
from tmmu.cli.survey import survey
from tmmu.core import kind
from tmmu.core.errors import TmmuError, one_line
from tmmu.core.flags import bound, dims, existing, shapes
from tmmu.core.vocabulary import ANYWHERE, LAYOUTS, ORDERS, Model


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tmmu")
def tmmu() -> None:
    """Plan the memory of machine-learning models. `verify-plan` proves the plans."""


@tmmu.command()
@click.argument("name", required=False)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where to write it.")
@click.option("--list", "listed", is_flag=True, help="Print the names, one a line.")
def example(name: str | None, output: str | None, listed: bool) -> int:
    """Write the example NAME: a real architecture without weights (ONNX, or IR if traced), or a wrong plan."""
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
@bound("--dim", "The size of a symbolic dimension, or a range: seq=1..4096.")
@bound("--shape", "The shape of an input, as in images=1x3x640x640.")
@bound("--value", "The value of an input that decides a shape or a branch.")
@click.option(
    "--donate",
    multiple=True,
    metavar="NAME",
    help="The caller gives this input up: a result may take its bytes; * is any text.",
)
@click.option("--trust-shapes", is_flag=True, help="Use the shapes that the file states where none can be inferred.")
@training.options
@layouts.options
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="given",
    show_default=True,
    help="The model's execution order, or one that lowers the peak of live bytes.",
)
@sharding.options
@click.option("--arenas", type=existing, help="An arena configuration (TOML).")
@click.option("--seed", type=click.IntRange(0, (1 << 64) - 1), help="The seed of the replay token [0].")
@click.option("--replay-token", metavar="HEX", help="The replay token itself, 32 bytes, in place of a seed.")
@click.option(
    "--replan-policy",
    type=click.Choice(["abort", "replan_at_safepoint"]),
    default="abort",
    show_default=True,
    help="What a run does with a shape outside the ranges given with --dim.",
)
@click.option("--why", is_flag=True, help="List the in-place hints that were refused, with reasons.")
@click.option("--events", type=click.Path(dir_okay=False), help="Add each move of the scan to this event log.")
def plan(
    model: str,
    output: str | None,
    dim: dict[str, str],
    shape: dict[str, str],
    value: dict[str, str],
    donate: tuple[str, ...],
    trust_shapes: bool,
    mode: str | None,
    preset: str | None,
    budget: int | None,
    layout: str,
    address_token: str | None,
    fallback: str | None,
    order: str,
    shard: str | None,
    rank: int | None,
    arenas: str | None,
    seed: int | None,
    replay_token: str | None,
    replan_policy: str,
    why: bool,
    events: str | None,
) -> int:
    """Plan the memory of MODEL (ONNX, or IR as .ir.cbor or .ir.txt), check the plan, and write it."""
    from tmmu import planner
    from tmmu.cli import show as shown
    from tmmu.cli import storages
    from tmmu.cli.checking import check
    from tmmu.cli.models import load
    from tmmu.plan import file
    from tmmu.planner.arenas import file as arena_file
    from tmmu.planner.modes import chosen, has_backward, prepare
    from tmmu.planner.remat import check_budget
    from tmmu.runtime.events import EventLog

    stem = Path(model).name.removesuffix(".cbor").removesuffix(".txt").removesuffix(".ir").removesuffix(".onnx")
    target = output or f"{stem}.plan.cbor"
    if os.path.realpath(target) == os.path.realpath(model):
        raise click.UsageError(f"{target} is the model itself; choose another file with -o")
    if events is not None and os.path.realpath(events) in (os.path.realpath(model), os.path.realpath(target)):
        raise click.UsageError(f"{events} is named twice; choose another file for --events")
    token = _token(seed, replay_token)
    sharding.check_flags(shard, rank, budget)
    spec = None if shard is None else sharding.load(shard, rank, order)
    known, ranges = dims(dim)
    config, policy = arena_file.load(arenas) if arenas is not None else (planner.DEFAULT, ANYWHERE)
    loaded = load(model, known, shapes("--shape", shape), value, donate, trust_shapes, ranges)
    try:
        run_mode, _ = chosen(mode, preset, budget)
        graph = prepare(loaded, run_mode, config, budget, policy)
        secret = layouts.read_token(address_token)

        log = None if events is None else EventLog(events)

        def planned_within_budget(graph: Model) -> planner.Planned:
            planned = planner.plan_memory(
                graph, config, mode=run_mode, layout=layout, order=order, token=token, address_token=secret,
                fallback=fallback, is_stage=spec is not None or has_backward(loaded), policy=policy,
                replan_policy=replan_policy.upper(), observer=log,
            )  # fmt: skip
            if budget is not None:
                check_budget(planned.plan, budget)
            return planned

        made = list(sharding.plans(graph, spec, rank, planned_within_budget))
        for _, _, plans in made:
            for one in plans:
                check(one, graph, is_ir=kind.is_ir(model))
    except TmmuError as error:
        error.in_file(model)
        raise
    for local, planned, plans in made:
        for one in plans:
            path = sharding.target(target, one)
            file.save(one, path)
            click.echo(f"wrote {path}")
        lines = [*shown.summary(planned.plan), *layouts.remarks(planned.plan), *storages.remarks(planned.plan)]
        lines += training.summary(loaded, graph)
        if spec is not None:
            lines += sharding.summary(spec, local, planned.plan)
        lines.append(shown.hints(planned.plan, planned.refused))
        if why:
            lines += [f"  {r.node}: {r.result} in place of {r.operand}: {r.reason}" for r in planned.refused]
        for line in lines:
            click.echo(one_line(line))
    return 0


@tmmu.command()
@click.argument("models", nargs=-1, required=True, type=existing, metavar="MODEL...")
@bound("--dim", "The size of a symbolic dimension, or a range: seq=1..4096.")
@bound("--shape", "The shape of an input, as in images=1x3x640x640.")
@bound("--value", "The value of an input that decides a shape or a branch.")
@click.option("--donate", multiple=True, metavar="NAME", help="The caller gives this input up; * is any text.")
@click.option("--trust-shapes", is_flag=True, help="Use the shapes that the file states.")
@training.options
@layouts.address_token
@click.option("--order", type=click.Choice(ORDERS), default="given", show_default=True)
@click.option("--arenas", type=existing, help="An arena configuration (TOML).")
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)
def compare(
    models: tuple[str, ...],
    dim: dict[str, str],
    shape: dict[str, str],
    value: dict[str, str],
    donate: tuple[str, ...],
    trust_shapes: bool,
    mode: str | None,
    preset: str | None,
    budget: int | None,
    address_token: str | None,
    order: str,
    arenas: str | None,
    style: str,
) -> int:
    """Plan each MODEL under every layout and print what each needs; hashed where an address token is given."""
    from tmmu import planner
    from tmmu.cli.checking import check
    from tmmu.cli.models import load
    from tmmu.planner.arenas import file as arena_file
    from tmmu.planner.modes import chosen, has_backward, prepare

    known, ranges = dims(dim)
    config, policy = arena_file.load(arenas) if arenas is not None else (planner.DEFAULT, ANYWHERE)
    secret = layouts.read_token(address_token)
    found: dict[str, list[layouts.ComparisonRow]] = {}
    for model in models:
        loaded = load(model, known, shapes("--shape", shape), value, donate, trust_shapes, ranges)
        try:
            run_mode, _ = chosen(mode, preset, budget)
            graph = prepare(loaded, run_mode, config, budget, policy)
            for layout in LAYOUTS:
                if layout == "hashed" and secret is None:
                    continue
                token = secret if layout == "hashed" else None
                made = planner.plan_memory(
                    graph, config, mode=run_mode, layout=layout, order=order, address_token=token, policy=policy,
                    is_stage=has_backward(loaded),
                )  # fmt: skip
                check(made.plan, graph, is_ir=kind.is_ir(model))
                found.setdefault(model, []).extend(layouts.rows(made.plan))
        except TmmuError as error:
            error.in_file(model)
            raise
    if style == "json":
        rows = [{"model": model, **row} for model, each in found.items() for row in layouts.document(each)]
        click.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    for model, each in found.items():
        heading = [model] if len(found) > 1 else []
        for line in (*heading, *layouts.table(each)):
            click.echo(one_line(line))
    return 0


def _token(seed: int | None, text: str | None) -> bytes:
    from tmmu.planner import replay_token

    if text is None:
        return replay_token(seed or 0)
    if seed is not None:
        raise click.UsageError("--seed and --replay-token both state the token; give one")
    try:
        token = bytes.fromhex(text)
    except ValueError:
        token = b""
    if len(token) != 32:
        raise click.BadParameter("a replay token is 64 hexadecimal digits", param_hint="--replay-token")
    return token


tmmu.add_command(replanning.replan)


@tmmu.command()
@click.argument("file", type=existing)
@click.option("--tensors", "what", flag_value="tensors", help="A row for each tensor.")
@click.option("--steps", "what", flag_value="steps", help="A row for each step.")
@click.option("--storages", "what", flag_value="storages", help="A row for each storage: why it lies where it does.")
@click.option("--format", "style", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True)
@click.option("--as", "form", type=click.Choice(["text"]), help="The file itself as a text plan or a text model.")
@bound("--dim", "With --as text, of an ONNX model: the size or the range of a symbolic dimension.")
@bound("--shape", "The same of the shape of an input.")
@bound("--value", "The same of the value of an input.")
def show(
    file: str,
    what: str | None,
    style: str,
    form: str | None,
    dim: dict[str, str],
    shape: dict[str, str],
    value: dict[str, str],
) -> int:
    """Explain the plan FILE: its arenas, what is live at the peak, its tensors, its storages, its steps.

    With --as text: print FILE, a plan or a model, as text that a person can edit and every command reads.
    """
    from tmmu.cli import show as shown
    from tmmu.cli import storages, texts
    from tmmu.plan import file as plans

    if style == "csv" and what is None:
        raise click.UsageError("--format csv goes with --tensors, --steps or --storages")
    if form is not None:
        if what is not None or style != "text":
            raise click.UsageError("--as text prints the whole file; leave out --tensors, --steps and --format")
        click.echo(texts.text_of(file, *dims(dim), shapes("--shape", shape), value), nl=False)
        return 0
    if dim or shape or value:
        raise click.UsageError("bindings go with --as text and an ONNX model")
    loaded = plans.load(file).plan
    for chunk in shown.render(loaded, what, style):
        click.echo(chunk)
    if what is None and style == "text":
        for line in (*layouts.remarks(loaded), *storages.remarks(loaded)):
            click.echo(one_line(line))
    return 0


for command in (records.show, records.diff, tracing.torch, tracing.jax):
    trace.trace.add_command(command)
for command in (runtime.apply, runtime.checkpoint, runtime.restore, trace.trace, run, survey):
    tmmu.add_command(command)
