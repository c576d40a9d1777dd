"""`tmmu export`: a plan of ours in the file of another producer, whose runtime uses it. spec: FP11.6, FP11.7"""

from __future__ import annotations

import click

from tmmu.cli import options
from tmmu.core.errors import TmmuError
from tmmu.core.flags import File, examples
from tmmu.core.output import did_you_mean, print_lines
from tmmu.core.vocabulary import EFFORT_END

KINDS = ("tflite",)


@click.command(
    epilog=examples(
        "tmmu export tflite model.tflite -o planned.tflite",
        "tmmu export tflite model.tflite -o planned.tflite --effort 100000000",
    )
)
@click.argument("kind")
@click.argument("source", type=File((".tflite",)), metavar="SRC")
@click.option("-o", "--output", required=True, metavar="OUT", type=options.output, help="The file to write.")
@click.option(
    "--alignment",
    type=click.IntRange(1, 1 << 16),
    default=16,
    show_default=True,
    metavar="BYTES",
    help="Where tensors begin: at a multiple of this power of two.",
)
@click.option(
    "--effort",
    type=click.IntRange(0, EFFORT_END - 1),
    default=0,
    metavar="N",
    help="Search for a lower footprint: N looks, a thousand million are some seconds with the extra fast.",
)
def export(kind: str, source: str, output: str, alignment: int, effort: int) -> int:
    """Plan the memory of the model SRC, and write the model with the plan in it.

    KIND is tflite: a TensorFlow Lite model, which gets the metadata OfflineMemoryAllocation. TensorFlow Lite Micro
    places its tensors as that says, and the memory that kernels ask for around them. A plan that SRC has is replaced.
    What is written is proved as verify-plan does it, but for solver and kernel.
    """
    from proofs.readers.plans.formats import BY_KIND, gated
    from proofs.readers.plans.source import Source
    from proofs.verify.checks import Subject, violations
    from tmmu import tflite
    from tmmu.core import canonical
    from tmmu.plans.gate import Stated

    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS, f"the kinds are {', '.join(KINDS)}")
        raise click.BadParameter(f"{kind!r} is no kind of file that is written; {hint}", param_hint="KIND")
    if alignment & (alignment - 1):
        raise click.BadParameter(f"{alignment} is no power of two", param_hint="--alignment")
    try:
        opened = Source.opened(source)
    except OSError as error:
        raise TmmuError("INVALID_PLAN", f"it cannot be read ({error.strerror})", file=source) from error
    found = tflite.planned(opened, alignment, effort)
    stated = gated(BY_KIND[kind], Source(output, found.data, capacity=found.footprint))
    assert isinstance(stated, Stated)  # the reader works accesses out
    assert stated.reading is not None
    for violation in violations(Subject(stated, None, frozenset(stated.reading.donated))):
        fix = "this is a bug in tmmu: report it with the model"
        raise TmmuError("CONTRACT_VIOLATION", f"the plan is wrong ({violation.text}); nothing was written", fix=fix)
    canonical.write_atomically(output, found.data)
    print_lines(
        f"wrote {output}: {found.placed} of {found.tensors} tensors in {found.footprint} bytes, "
        f"{found.peak} of them live at the peak",
        f"verify it: verify-plan {output} --capacity {found.footprint}",
    )
    return 0
