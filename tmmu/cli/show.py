"""`tmmu show`: a plan explained, or a plan or a model as text. spec: C2.2, C2.8, C2.10, MC9.3"""

from __future__ import annotations

import os

import click

from tmmu.cli import options
from tmmu.core import kind
from tmmu.core.flags import DUMP_SUFFIXES, MODEL_SUFFIXES, PLAN_SUFFIXES, File, OnceCommand, format_examples
from tmmu.core.output import count_noun, format_json, print_lines, print_text
from tmmu.core.vocabulary import Bindings


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu show unet.plan.cbor",
        "tmmu show unet.plan.cbor --tensors --format csv",
        "tmmu show unet.onnx --dim batch=1 --as text",
    ),
)
@click.argument("file", type=File((*PLAN_SUFFIXES, *MODEL_SUFFIXES, *DUMP_SUFFIXES), folder=True))
@click.option("--tensors", "what", flag_value="tensors", help="A row for each tensor.")
@click.option("--steps", "what", flag_value="steps", help="A row for each step.")
@click.option("--storages", "what", flag_value="storages", help="A row for each storage: its offset, with reasons.")
@click.option(
    "--memory-stats", "what", flag_value="memory-stats", help="Of the layout pools: what MiCo's scripts print."
)
@click.option("--format", "style", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True)
@click.option(
    "--as",
    "form",
    type=click.Choice(["text", "minimalloc"]),
    help="The file itself as a text plan or model; or the storages of an arena as MiniMalloc's CSV.",
)
@click.option("--arena", metavar="NAME", help="With --as minimalloc, the arena.")
@options.bindings(
    donates=False,
    dim="Of a plan for ranges: the size of a dimension, to show the plan at it [its largest]. With --as text, of an "
    "ONNX model: the size or the range of a symbolic dimension.",
    shape="The same of the shape of an input.",
    value="The same of the value of an input.",
)
def show(file: str, what: str | None, style: str, form: str | None, arena: str | None, bindings: Bindings) -> int:
    """Print a plan, or a plan or model as text.

    Of the plan FILE: its arenas and the live tensors at the peak, or tensors, storages or steps; of the layout pools
    its memory pools too. With --dim, a plan for ranges is shown at one of its shapes. Of the folder of a plan set: what
    its programs share, and what they need together. Of a plan of another compiler, such as a dump of XLA or Inductor:
    the most bytes that are live at once, and the largest of them.

    With --as text: print FILE, a plan or a model, as text that a person can edit and every command reads. With --as
    minimalloc: print buffers, lifetimes and offsets of one arena as CSV that MiniMalloc and idealloc read.
    """
    from tmmu.cli import dumps, show_report, storages, summary
    from tmmu.plans import file as plans
    from tmmu.plans.sections import Plan
    from tmmu.tasks import memory_pools

    file = dumps.find_dump(file)
    if os.path.isdir(file):
        if what is not None or form is not None or style == "csv" or bindings != Bindings():
            raise click.UsageError("a plan set is shown as a whole, as text or as JSON; or show one of its plans")
        return _show_set(file, style)
    if style == "csv" and what in (None, "memory-stats"):
        raise click.UsageError("--format csv goes with --tensors, --steps or --storages")
    if arena is not None and form != "minimalloc":
        raise click.UsageError("--arena goes with --as minimalloc")
    if form is not None and (what is not None or style != "text"):
        raise click.UsageError(f"--as {form} prints the whole file; leave out --format and what chooses rows")
    if form == "minimalloc":
        from tmmu.report import minimalloc

        print_text(minimalloc.write(plans.load_any(file).plan.placement, arena).removesuffix("\n"))
        return 0
    if form is not None:
        print_text(as_text(file, bindings).removesuffix("\n"))
        return 0
    if bindings != Bindings(dims=bindings.dims):
        raise click.UsageError("bindings go with --as text and an ONNX model; a plan for ranges takes --dim NAME=SIZE")
    stated = dumps.load(file)
    if not isinstance(loaded := stated.plan, Plan):
        if what is not None or style != "text" or bindings.dims:
            raise click.UsageError(
                "the plan states lifetimes and no steps: tmmu report writes its buffers as .csv or .json"
            )
        print_lines(*dumps.describe(loaded))
        return 0
    if dumps.is_foreign(stated) and what is None and style == "text":
        print_lines(*dumps.describe(loaded))
        return 0
    if bindings.dims:
        from tmmu.tasks import shapes

        loaded = shapes.at_asked_shape(loaded, bindings.dims)
    print_lines(*show_report.render(loaded, what, style))
    if what is None and style == "text":
        print_lines(*summary.remarks(loaded), *storages.remarks(loaded), *memory_pools.remarks(loaded))
    return 0


def _show_set(folder: str, style: str) -> int:
    """Print the plan set in a folder."""
    from tmmu.cli import set_report
    from tmmu.plans import sets

    if not sets.is_set(folder):
        raise click.UsageError(f"{folder} has no {sets.MANIFEST}: name a file, or the folder of a plan set")
    plan_set = sets.load(folder)
    plans = sets.load_plans(folder, plan_set)
    if style == "json":
        print_text(format_json({"set": folder, **set_report.document(plan_set, plans)}))
    else:
        print_lines(f"{folder}: {count_noun(len(plans), 'program')}", *set_report.lines(plan_set, plans))
    return 0


def as_text(path: str, bindings: Bindings) -> str:
    """Return the file at `path` as text, read back: a model under its bindings, everything else as a plan.

    Raises TmmuError if it is neither, or if a text cannot state it.
    """
    if kind.kind_of(path) in (kind.IR, kind.ONNX) or path.endswith((".ir.txt", ".ir.cbor", ".onnx")):
        from tmmu.ir import text_writer as models
        from tmmu.tasks.models import load

        return models.write(load(path, bindings))
    from tmmu.plans import file
    from tmmu.plans import text_writer as plans

    return plans.write(file.load_any(path).plan)
