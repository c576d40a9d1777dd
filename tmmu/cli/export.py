"""`tmmu export`: a plan of ours in the file of another producer, whose runtime uses it. spec: FP11.6, FP11.7"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from tmmu.cli import options
from tmmu.cli.effort import LookCount
from tmmu.core.errors import TmmuError
from tmmu.core.flags import File, MemorySize, OnceCommand, binding_option, format_examples, parse_sizes
from tmmu.core.output import print_lines, suggest_names
from tmmu.core.progress import progress

if TYPE_CHECKING:
    from proofs.definition.violations import Violation
    from tmmu.core.source import Source

KINDS = ("tflite", "minimalloc")


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu export tflite model.tflite -o planned.tflite",
        "tmmu export tflite model.tflite -o planned.tflite --effort 1e8",
        "tmmu export minimalloc buffers.csv -o placed.csv --capacity 1MiB --effort 1e9",
    ),
)
@click.argument("kind")
@click.argument("source", type=File((".tflite", ".csv")), metavar="SRC")
@click.option("-o", "--output", required=True, metavar="OUT", type=options.output, help="The file to write.")
@click.option(
    "--alignment",
    type=click.IntRange(1, 1 << 16),
    metavar="BYTES",
    help="Where tensors begin: at a multiple of this power of two [16, of buffers 1].",
)
@click.option(
    "--effort",
    type=LookCount(),
    metavar="N",
    help="Search for a lower footprint: N looks, such as 1e9 (some seconds with the extra fast), or those of N seconds "
    "on this machine, such as 10s.",
)
@click.option("--capacity", type=MemorySize(), metavar="BYTES", help="Of buffers: the bytes that they must fit.")
@binding_option(
    "--dim", "The size of an open dimension of a TensorFlow Lite model's input, as the file has it: input:0=1."
)
def export(
    kind: str, source: str, output: str, alignment: int | None, effort: int | None, capacity: int | None,
    dim: dict[str, str],
) -> int:  # fmt: skip
    """Plan the memory of SRC, and write SRC with the plan in it.

    KIND is tflite: a TensorFlow Lite model, which gets the metadata OfflineMemoryAllocation. TensorFlow Lite Micro
    places its tensors as that says, and the memory that kernels ask for around them. A plan that SRC has is replaced.
    Or minimalloc: buffers in CSV, which get the column offset; an offset that is there is kept, and in its gaps a
    buffer makes room for others. What is written is proved as verify-plan does it, but for solver and kernel.
    """
    from proofs.readers.plans.formats import BY_KIND, read_through_gate
    from proofs.verify.checks import Subject, violations
    from tmmu.core import canonical
    from tmmu.core.source import Source
    from tmmu.exporters import tflite
    from tmmu.plans.gate import StatedPlan

    if kind not in KINDS:
        hint = suggest_names(kind, KINDS, f"the kinds are {', '.join(KINDS)}")
        raise click.BadParameter(f"{kind!r} is not a kind of file that is written; {hint}", param_hint="KIND")
    if alignment is not None and alignment & (alignment - 1):
        raise click.BadParameter(f"{alignment} is not a power of two", param_hint="--alignment")
    try:
        opened = Source.opened(source, dims=parse_sizes("--dim", dim))
    except OSError as error:
        raise TmmuError("INVALID_PLAN", f"it cannot be read ({error.strerror})", file=source) from error
    if kind == "minimalloc":
        if dim:
            raise click.UsageError("--dim goes with the kind tflite")
        return _buffers(opened, output, alignment or 1, effort, capacity)
    if capacity is not None:
        raise click.UsageError("--capacity goes with the kind minimalloc")
    with progress(source) as doing:
        doing("planning")
        found = tflite.plan_offline(opened, alignment or 16, effort or 0)
        doing("proving")
        written = Source(source, found.data, capacity=found.footprint, dims=opened.dims)
        stated = read_through_gate(BY_KIND[kind], written)
        assert isinstance(stated, StatedPlan)  # the reader works accesses out
        assert stated.reading is not None
        _refuse_any(violations(Subject(stated, None, frozenset(stated.reading.donated))))
    canonical.write_atomically(output, found.data)
    print_lines(
        f"wrote {output}: {found.placed} of {found.tensors} tensors in {found.footprint} bytes, "
        f"{found.peak} of them live at the peak",
        f"verify it: verify-plan {output} --capacity {found.footprint}",
    )
    return 0


def _buffers(opened: Source, output: str, alignment: int, effort: int | None, capacity: int | None) -> int:
    """Give buffers their offsets. spec: FP3.8, FP3.11"""
    from proofs.readers.plans.formats import BY_KIND, read_through_gate
    from proofs.verify.checks import BufferSubject, buffer_violations
    from tmmu.cli.plan_request import until_interrupted
    from tmmu.core import canonical
    from tmmu.core.source import Source
    from tmmu.exporters import minimalloc
    from tmmu.plans.gate import StatedBuffers

    try:
        with progress(opened.name) as doing, until_interrupted(effort is not None) as stopped:
            doing("planning")
            found = minimalloc.place_buffers(opened, alignment, effort, capacity, stopped)
    except TmmuError as error:
        error.in_file(opened.name)
        raise
    stated = read_through_gate(BY_KIND["minimalloc"], Source(opened.name, found.data, capacity=found.footprint))
    assert isinstance(stated, StatedBuffers)
    _refuse_any(buffer_violations(BufferSubject(stated, asked=found.fixed)))
    canonical.write_atomically(output, found.data)
    print_lines(f"wrote {output}: {found.shown}", f"verify it: verify-plan {output} --capacity {found.footprint}")
    return 0


def _refuse_any(found: Iterable[Violation]) -> None:
    """Raise CONTRACT_VIOLATION if the content to be written is wrong."""
    for violation in found:
        fix = "this is a bug in tmmu: report it with the model"
        raise TmmuError("CONTRACT_VIOLATION", f"the plan is wrong ({violation.text}); nothing was written", fix=fix)
