"""`tmmu codegen`: C of a plan and its model, written where the plan is PROVED. spec: MC1.1, MC1.2"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import click

from tmmu.cli import options
from tmmu.core.errors import TmmuError
from tmmu.core.flags import PLAN_SUFFIXES, File, Folder, OnceCommand, format_examples, gather_options, model_file
from tmmu.core.output import escape_line, print_lines
from tmmu.core.progress import Doing, progress
from tmmu.core.vocabulary import Bindings

if TYPE_CHECKING:
    from proofs.verify.verdict import Verdict
    from tmmu.mico import CodeOptions
    from tmmu.plans.sections import Plan


def _choose(weights: str, static: bool, caller_memory: bool, name: str, prefix: str) -> CodeOptions:
    """Return the options of the C. Raises UsageError for a name that C cannot have, and for two kinds of memory."""
    from tmmu.mico import CodeOptions
    from tmmu.mico.names import check_name, check_prefix

    if static and caller_memory:
        raise click.UsageError("--static and --caller-memory exclude each other")
    for flag, text, check in (("--name", name, check_name), ("--prefix", prefix, check_prefix)):
        try:
            if text:
                check(text)
        except ValueError as error:
            raise click.BadParameter(escape_line(str(error)), param_hint=flag) from error
    if prefix and name != "model":
        raise click.UsageError("--prefix names the files too: leave out --name")
    return CodeOptions(weights, "static" if static else "caller" if caller_memory else "malloc", name, prefix)


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu codegen mlp.plan.cbor --model mlp.onnx -o c",
        "tmmu codegen mlp.plan.cbor --model mlp.onnx --static --name mlp -o c-static",
        "tmmu codegen mlp.plan.cbor --model mlp.onnx --caller-memory --prefix mlp -o c-mlp",
        "tmmu codegen both --model digits.onnx --model mlp.onnx --prefix both -o both-c",
    ),
)
@click.argument("plan", type=File(PLAN_SUFFIXES, folder=True))
@click.option(
    "--model", "models", type=model_file, required=True, multiple=True,
    help="The model (ONNX) that the plan was made of; of a plan set, each model.",
)  # fmt: skip
@click.option("-o", "--output", type=Folder(), required=True, help="The folder to write: not there yet, or empty.")
@gather_options(
    "chosen",
    _choose,
    click.option(
        "--weights",
        type=click.Choice(["embed", "file"]),
        default="embed",
        show_default=True,
        help="As C literals up to 1 MiB in all (more: as file), or as weights.bin, which the assembler takes in.",
    ),
    click.option("--static", is_flag=True, help="Static arrays in place of malloc."),
    click.option("--caller-memory", is_flag=True, help="Neither: only model_init_in, which takes the caller's memory."),
    click.option("--name", default="model", show_default=True, help="What header, source and program are called."),
    click.option("--prefix", default="", help="Begins every name in the C and of its files: models link together."),
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
@options.bindings(
    ranges=False,
    dim="A binding that the plan was made with, if the plan does not state it.",
    shape="The same for the shape of an input.",
    value="The same for the value of an input.",
    donate="An input that the plan may overwrite: it does not count unless it is named here again.",
    trust_shapes="Use the shapes that the model file states.",
)
def codegen(
    plan: str, models: tuple[str, ...], output: str, chosen: CodeOptions, quiet: bool, bindings: Bindings
) -> int:
    """Write C99 that runs a model in the memory of its plan.

    PLAN, of any layout, is proved against the model first, as verify-plan does. The folder has a struct of the model,
    model_init, model_forward and model_free, the kernels that the model needs, its weights, a program
    (make; ./model INPUTS OUTPUTS, a file each with the raw tensors one after the other in the order of the graph; or
    ./model --input NAME=FILE OUTPUTS, with a file for each input), a Makefile and a CMakeLists.txt.
    model_init_in takes memory of the caller, and model_reset sets state to its initial value.

    With --prefix NAME the functions are NAME_init, NAME_forward and so on, the files NAME.h and NAME_kernels.c.

    Of a plan set, the folder that tmmu plan --share writes, the C has all programs in one memory, with kernels and
    equal weights once: NAME_init, and NAME_PROGRAM_forward of each.

    Of a symbolic plan a header alone is written: functions that compute sizes and offsets from a shape.

    \b
    Exit codes: 0 written, 1 REFUTED, 3 UNKNOWN, 4 no plan, no model, or what has no kernel or weights,
    2 command line, 70 internal error.
    """
    from proofs.verify import text as verdict_text
    from proofs.verify.options import Disagreement
    from tmmu.mico import PlanNotProved

    if not os.path.isdir(plan) and len(models) > 1:
        raise click.UsageError("one plan has one --model: give several with the folder of a plan set")
    write = _write_set if os.path.isdir(plan) else _write_plan
    try:
        with progress(plan) as doing:
            written = write(plan, models, output, chosen, bindings, doing)
    except PlanNotProved as error:
        answer = cast("Verdict", error.answer)
        print_lines(*verdict_text.lines(answer), f"nothing was written to {output}")
        return answer.exit
    except Disagreement as error:
        raise click.UsageError(escape_line(f"{plan}: {error}")) from error
    except TmmuError as error:
        error.in_file(plan)
        raise
    if not quiet:
        print_lines(*(f"wrote {path}" for path in written))
    return 0


def _write_plan(
    plan: str, models: Sequence[str], output: str, chosen: CodeOptions, bindings: Bindings, doing: Doing
) -> list[str]:
    """Prove one plan and write its C."""
    from proofs.verify import judge
    from proofs.verify.options import Options
    from tmmu.mico import generate
    from tmmu.plans.gate import StatedPlan

    asked = Options(model=models[0], bindings=bindings)
    stated = judge.open_plan(plan, asked)
    if not isinstance(stated, StatedPlan):
        what = "it states lifetimes and no steps, and C is made of steps"
        raise TmmuError("INVALID_PLAN", what, file=plan, place="the plan", fix="make one with tmmu plan")

    def prove(_plan: Plan, path: str) -> Verdict:
        return judge.judge(plan, stated, replace(asked, model=path), doing)

    own = stated.plan.bindings if stated.plan.provenance is not None else bindings
    return generate(stated.plan, models[0], output, prove=prove, options=chosen, bindings=own)


def _write_set(
    plan: str, models: Sequence[str], output: str, chosen: CodeOptions, bindings: Bindings, doing: Doing
) -> list[str]:
    """Prove a plan set and write its C."""
    from tmmu.tasks.set_codegen import pair_models, write_set

    return write_set(pair_models(plan, models), output, chosen, bindings, doing)
