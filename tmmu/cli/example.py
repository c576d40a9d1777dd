"""`tmmu example`: real architectures and wrong plans as files to begin with. spec: C2.4, MC7.5, FD5.11"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click
from click.shell_completion import CompletionItem

from tmmu.cli import options
from tmmu.core.flags import OnceCommand, format_examples
from tmmu.core.output import print_lines
from tmmu.core.progress import progress


def _completed(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The names of examples that have begun so."""
    from tmmu import examples

    return [CompletionItem(name) for name in examples.names() if name.startswith(begun)]


def _conversion(name: str, seed: int | None, bits: str) -> Callable[[Any], Any] | None:
    """Return the function that quantizes the example; None for float32. Raises UsageError for other examples."""
    if bits == "32":
        return None
    if not name.startswith("mico-") or seed is None:
        raise click.UsageError("--bits 8 is for a MiCo network with weights: give mico-NAME --weights SEED")
    from tmmu.mico.integers import quantize_example

    return partial(quantize_example, seed=seed)


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu example --list",
        "tmmu example gpt2 -o gpt2.onnx",
        "tmmu example mico-lenet --weights 1 --bits 8 -o lenet.onnx",
        "tmmu example broken/in-place-read-later -o wrong.plan.cbor",
    ),
)
@click.argument("name", required=False, shell_complete=_completed)
@click.option("-o", "--output", type=options.output, help="Where to write it.")
@click.option(
    "--weights", "seed", type=int, metavar="SEED",
    help="Of an ONNX model or a Llama: write weights too, drawn from this integer, the same on every machine. "
    "Up to 1 MiB they are in the model's file, else beside it in FILE.data.",
)  # fmt: skip
@click.option(
    "--type", "file_type", type=click.Choice(["f32", "f16", "q8_0", "q4_0"]),
    help="Of a Llama: how its matrices are stored in the GGUF file; f32 if not given.",
)  # fmt: skip
@click.option(
    "--bits", type=click.Choice(["8", "32"]), default="32", show_default=True,
    help="Of a MiCo network with weights: 8 for int8 from layer to layer, 32 for float32.",
)  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="Print the names, one a line.")
def example(
    name: str | None, output: str | None, seed: int | None, file_type: str | None, bits: str, listed: bool
) -> int:
    """Write an example model or plan.

    NAME is a real architecture (ONNX, IR if traced, or GGUF with its weights), a text to begin with, or a wrong plan.
    """
    from tmmu import examples

    if listed:
        print_lines(*examples.names())
        return 0
    if name is None or output is None:
        raise click.UsageError("name an example and give -o FILE; `tmmu example --list` prints the names")
    try:
        with progress(name) as doing:
            doing("writing")
            for written in examples.write(name, output, seed, file_type, _conversion(name, seed, bits)):
                print_lines(f"wrote {written}")
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return 0
