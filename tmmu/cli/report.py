"""`tmmu report`: a plan or a plan set to look at, as a page, an image, or a file for another viewer.

spec: RP1.1, RP1.8, RP2.1 to RP2.6
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from tmmu.cli import options
from tmmu.core.extras import require_package
from tmmu.core.flags import OnceCommand, format_examples, model_file, plan_file, plan_or_dump
from tmmu.core.output import STANDARD, escape_line, print_lines
from tmmu.core.progress import progress
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
        "tmmu report session/ -o session.html",
    ),
)
@click.argument("plan", type=plan_or_dump, metavar="PLAN|SET")
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

    Of a plan set, the programs are side by side on one address axis, and what they share is across all of them.
    """
    from proofs.readers.plans import formats as plan_formats
    from tmmu.cli import dumps
    from tmmu.core import canonical
    from tmmu.report import records
    from tmmu.report.arena_map import arena_maps, step_names

    plan = dumps.find_dump(plan)
    if os.path.isdir(plan):
        if compare is not None or model is not None or donate:
            raise click.UsageError("--compare, --model and --donate are for one plan, not a set")
        return _report_set(plan, output or f"{Path(os.path.abspath(plan)).name}.html", kind)
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
        from tmmu.report.lanes import find_lanes
        from tmmu.report.page import page

        if verdict:
            try:
                asked = Options(model=model, bindings=Bindings(donated=donate))
                with progress(plan) as doing:
                    judged = judge(plan, stated, asked, doing)
                lines = [escape_line(line) for line in verdict_text.lines(judged)]
            except Disagreement as error:
                raise click.UsageError(escape_line(str(error))) from error
        sources = _list_sources(model)
        named = [f"{name} ({sources[name]})" if name in sources else name for name in step_names(stated.plan)]
        drawn, lanes = [(title, maps, named)], [find_lanes(stated.plan)]
        if compare is not None:
            other = plan_formats.load_any(compare).plan
            drawn.append((escape_line(os.path.basename(compare)), arena_maps(other), step_names(other)))
            lanes.append(find_lanes(other))
        with progress(plan) as doing:
            doing("drawing")
            data = page(title, lines, drawn, lanes=lanes).encode()
    elif kind in ("png", "svg", "pdf"):
        from tmmu.report.image import image

        with progress(plan) as doing:
            doing("drawing")
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


def _list_sources(model: str | None) -> dict[str, str]:
    """Return the lines of source code that made the nodes of an ONNX model; none of another model, or without one."""
    from tmmu.core import kind

    if model is None or kind.is_ir(model):
        return {}
    from tmmu.onnx.sources import list_sources

    return list_sources(model)


OF_SETS = ("html", "png", "svg", "pdf", "json", "csv")
"""The kinds of reports on plan sets."""


def _report_set(folder: str, target: str, kind: str | None) -> int:
    """Write the report on a plan set: nothing of it is proved here."""
    from tmmu.cli import set_report
    from tmmu.core import canonical
    from tmmu.plans import sets
    from tmmu.report import records
    from tmmu.report.arena_map import step_names
    from tmmu.report.set_map import set_maps

    kind = kind or _of_suffix(target)
    if kind not in OF_SETS:
        raise click.UsageError(f"a set is drawn as {', '.join(OF_SETS)}; or report on one of its plans")
    if kind in DRAWN_BY:
        require_package(DRAWN_BY[kind], "a map as a page" if kind == "html" else "a map as an image", "report")
    plan_set = sets.load(folder)
    plans = sets.load_plans(folder, plan_set)
    options.check_apart(*(sets.plan_path(folder, name) for name in plans), target)
    title, maps = escape_line(os.path.basename(os.path.abspath(folder))), set_maps(plan_set, plans)
    if kind == "html":
        from tmmu.report.lanes import find_lanes
        from tmmu.report.page import page

        head = [escape_line(line) for line in set_report.lines(plan_set, plans)]
        steps = {name: step_names(plan) for name, plan in plans.items()}
        drawn = [(escape_line(name), maps[name], steps[name]) for name in maps]
        lanes = [find_lanes(plans[name]) for name in maps]
        data = page(title, [f"{len(plans)} programs in one memory", *head], drawn, is_set=True, lanes=lanes).encode()
    else:
        every = [replace(one, name=f"{name}: {one.name}") for name, of in maps.items() for one in of]
        if kind in ("json", "csv"):
            data = records.flat_json(every) if kind == "json" else records.as_csv(every)
        else:
            from tmmu.report.image import image

            data = image(title, every, kind)
    canonical.write_atomically(target, data)
    print_lines(f"wrote {target}")
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
