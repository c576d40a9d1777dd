"""`tmmu codegen`: C of a plan and its model, written where the plan is PROVED. spec: MC1.1, MC1.2"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tmmu.cli import options
from tmmu.core.errors import TmmuError
from tmmu.core.flags import Folder, OnceCommand, format_examples, gather_options, model_file, plan_file
from tmmu.core.output import escape_line, print_lines
from tmmu.core.progress import progress
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
    ),
)
@click.argument("plan", type=plan_file)
@click.option("--model", type=model_file, required=True, help="The model (ONNX) that the plan was made of.")
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
@options.bindings(
    ranges=False,
    dim="A binding that the plan was made with, if the plan does not state it.",
    shape="The same for the shape of an input.",
    value="The same for the value of an input.",
    donate="An input that the plan may overwrite: it does not count unless it is named here again.",
    trust_shapes="Use the shapes that the model file states.",
)
def codegen(plan: str, model: str, output: str, chosen: CodeOptions, bindings: Bindings) -> int:
    """Write C99 that runs a model in the memory of its plan.

    PLAN, of any layout, is proved against the model first, as verify-plan does. The folder has a struct of the model,
    model_init, model_forward and model_free, the kernels that the model needs, its weights, a program
    (make; ./model INPUTS OUTPUTS: raw tensors in the order of the graph), a Makefile and a CMakeLists.txt.
    model_init_in takes memory of the caller, and model_reset sets state to its initial value.

    With --prefix NAME the functions are NAME_init, NAME_forward and so on, the files NAME.h and NAME_kernels.c.

    Of a symbolic plan a header alone is written: functions that compute sizes and offsets from a shape.

    \b
    Exit codes: 0 written, 1 REFUTED, 3 UNKNOWN, 4 no plan, no model, or what has no kernel or weights,
    2 command line, 70 internal error.
    """
    from proofs.verify import judge
    from proofs.verify import text as verdict_text
    from proofs.verify.options import Disagreement, Options
    from tmmu.mico import PlanNotProved, generate
    from tmmu.plans.gate import StatedPlan

    asked = Options(model=model, bindings=bindings)
    stated = judge.open_plan(plan, asked)
    if not isinstance(stated, StatedPlan):
        what = "it states lifetimes and no steps, and C is made of steps"
        raise TmmuError("INVALID_PLAN", what, file=plan, place="the plan", fix="make one with tmmu plan")
    answers: list[Verdict] = []

    def prove(_plan: Plan, path: str) -> Verdict:
        answers.append(judge.judge(plan, stated, replace(asked, model=path), doing))
        return answers[-1]

    own = stated.plan.bindings if stated.plan.provenance is not None else bindings
    try:
        with progress(plan) as doing:
            written = generate(stated.plan, model, output, prove=prove, options=chosen, bindings=own)
    except PlanNotProved:
        print_lines(*verdict_text.lines(answers[-1]), f"nothing was written to {output}")
        return answers[-1].exit
    except Disagreement as error:
        raise click.UsageError(escape_line(f"{plan}: {error}")) from error
    except TmmuError as error:
        error.in_file(plan)
        raise
    print_lines(*(f"wrote {path}" for path in written))
    return 0
