"""`tmmu report`: a plan to look at, as a page, an image, or a file for another viewer. spec: RP1.1, RP2.1 to RP2.6"""

from __future__ import annotations

import os
from pathlib import Path

import click

from tmmu.cli import options
from tmmu.core.extras import require_package
from tmmu.core.flags import OnceCommand, format_examples, model_file, plan_file
from tmmu.core.output import STANDARD, escape_line, print_lines
from tmmu.core.vocabulary import Bindings

KINDS = {
    "html": ".html", "png": ".png", "svg": ".svg", "pdf": ".pdf", "perfetto": ".perfetto.json", "memory-viz": ".pickle",
    "json": ".json", "csv": ".csv", "c": ".h",
}  # fmt: skip
"""The kinds of reports that can be written, each with its suffix."""

DRAWN_BY = {"html": "bokeh", **dict.fromkeys(("png", "svg", "pdf"), "matplotlib")}
"""The package that draws a kind; the others need none."""


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu report unet.plan.cbor --model unet.onnx -o map.html",
        "tmmu report unet.plan.cbor -o map.svg",
        "tmmu report old.plan.cbor --compare new.plan.cbor --no-verdict",
    ),
)
@click.argument("plan", type=plan_file)
@click.option("-o", "--output", type=options.output, help="Where to write it; its suffix says what [PLAN.html].")
@click.option("--as", "kind", type=click.Choice(list(KINDS)), help="What to write, whatever the suffix.")
@click.option("--compare", type=plan_file, metavar="PLAN", help="Another plan beside it, in a page.")
@click.option("--model", type=model_file, help="The model that the plan must be of, for the verdict.")
@click.option(
    "--donate", multiple=True, metavar="NAME", help="The caller gives this input up, for the verdict; * is any text."
)
@click.option("--verdict/--no-verdict", default=True, show_default=True, help="Prove the plan, for the top of a page.")
def report(
    plan: str, output: str | None, kind: str | None, compare: str | None, model: str | None, donate: tuple[str, ...],
    verdict: bool,
) -> int:  # fmt: skip
    """Draw the memory of a plan: steps to the right, bytes upwards, each tensor where it lies.

    A page (.html) loads nothing from the network: hover, zoom, search by name, the peak and its live tensors. Images:
    .png, .svg, .pdf. For other viewers: .perfetto.json (ui.perfetto.dev), .pickle (PyTorch's memory_viz), .json, .csv,
    and .h, the addresses as C macros.
    """
    from proofs.readers.plans import formats as plan_formats
    from tmmu.core import canonical
    from tmmu.report import records
    from tmmu.report.arena_map import arena_maps, step_names

    target = output or f"{Path(plan).name.removesuffix('.cbor').removesuffix('.txt').removesuffix('.plan')}.html"
    options.check_apart(plan, target, compare)
    kind = kind or _of_suffix(target)
    if compare is not None and kind != "html":
        raise click.UsageError("--compare goes with a page (.html)")
    if kind in DRAWN_BY:
        require_package(DRAWN_BY[kind], "a map as a page" if kind == "html" else "a map as an image", "report")
    stated, lines = plan_formats.load_any(plan), list[str]()
    maps, title = arena_maps(stated.plan), escape_line(os.path.basename(plan))
    if kind == "html":
        from proofs.verify import text as verdict_text
        from proofs.verify.judge import judge
        from proofs.verify.options import Disagreement, Options
        from tmmu.report.page import page

        if verdict:
            try:
                asked = Options(model=model, bindings=Bindings(donated=donate))
                lines = [escape_line(line) for line in verdict_text.lines(judge(plan, stated, asked))]
            except Disagreement as error:
                raise click.UsageError(escape_line(str(error))) from error
        drawn = [(title, maps, step_names(stated.plan))]
        if compare is not None:
            other = plan_formats.load_any(compare).plan
            drawn.append((escape_line(os.path.basename(compare)), arena_maps(other), step_names(other)))
        data = page(title, lines, drawn).encode()
    elif kind in ("png", "svg", "pdf"):
        from tmmu.report.image import image

        data = image(title, maps, kind)
    elif kind == "perfetto":
        data = records.perfetto(maps, step_names(stated.plan))
    elif kind == "c":
        data = records.c_header(title.split(".")[0], stated.plan)
    else:
        write = {"memory-viz": records.memory_snapshot, "json": records.flat_json, "csv": records.as_csv}[kind]
        data = write(maps)
    canonical.write_atomically(target, data)
    print_lines(f"wrote {target}", *lines[:1])
    return 0


def _of_suffix(target: str) -> str:
    """Return the kind that a file's name states. Raises UsageError if it does not state one."""
    if target == STANDARD:
        return "html"
    for kind, suffix in sorted(KINDS.items(), key=lambda item: -len(item[1])):
        if target.endswith(suffix):
            return kind
    known = ", ".join(KINDS.values())
    raise click.UsageError(f"{target}: the suffix is of no kind; use one of {known}, or --as")
