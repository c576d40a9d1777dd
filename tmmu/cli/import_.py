"""`tmmu import`: the plan of another producer as one of ours. spec: FP1.8, FP1.9, FP1.13, FP1.16"""

from __future__ import annotations

import shlex

import click

from tmmu.cli import options
from tmmu.core.errors import TmmuError
from tmmu.core.flags import Files, Listing, MemorySize, OnceCommand, format_examples
from tmmu.core.output import print_lines, suggest_names
from tmmu.core.progress import progress


@click.command(
    "import",
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu import minimalloc buffers.csv -o buffers.plan.txt",
        "tmmu import minimalloc buffers.csv -o - > b.plan.cbor",
    ),
)
@click.argument("kind")
@click.argument("source", type=Files(("",), lambda path: True), metavar="SRC")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="PLAN",
    type=options.output,
    help="The file to write: text if its name ends with .txt, else binary.",
)
@click.option("--capacity", type=MemorySize(), metavar="BYTES", help="The memory, of formats that state none.")
def import_(kind: str, source: Listing, output: str, capacity: int | None) -> int:
    """Write the plan in SRC as a plan of ours.

    KIND is one of those of spec/foreign.md, and SRC a file of it, or a folder with one such file. The plan has what
    the file states and nothing else. It is not judged: verify-plan does that, of either file.
    """
    from proofs.readers.plans.formats import BY_KIND, of_format, read_through_gate
    from tmmu.core import canonical
    from tmmu.core.output import list_names
    from tmmu.core.source import Source
    from tmmu.plans import file, text_writer

    if kind not in BY_KIND:
        hint = suggest_names(kind, BY_KIND, f"the kinds are {', '.join(BY_KIND)}")
        raise click.BadParameter(f"{kind!r} is not a kind of plan; {hint}", param_hint="KIND")
    form = BY_KIND[kind]
    found = source.files if len(source.files) == 1 else of_format(form, source.files)
    if len(found) != 1:
        which = f"{len(found)} files of {form.title}, {list_names(found)}" if found else f"no file of {form.title}"
        raise click.UsageError(f"SRC has {which}: name one file")
    try:
        with progress(found[0]) as doing:
            doing("reading")
            stated = read_through_gate(form, Source.opened(found[0], capacity))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise TmmuError("INVALID_PLAN", f"it cannot be read ({error.strerror})", file=found[0]) from error
    assert stated.reading is not None  # a reader gives one with each plan
    if undecided := stated.reading.undecided:
        raise TmmuError(
            "INVALID_PLAN", f"a plan cannot say that it is not decided: {undecided[0].text}", file=found[0],
            fix=f"verify-plan {shlex.quote(found[0])} gives the verdict",
        )  # fmt: skip
    if output.endswith(".txt"):
        canonical.write_atomically(output, text_writer.write(stated.plan).encode())
    else:
        file.save(stated.plan, output)
    donated = "".join(f" --donate {shlex.quote(name)}" for name in stated.reading.donated)
    print_lines(
        f"wrote {output}: {stated.reading.format}, {stated.reading.extent}", f"verify it: verify-plan {output}{donated}"
    )
    return 0
