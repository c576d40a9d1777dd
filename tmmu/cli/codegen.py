"""`tmmu codegen`: C of a plan and its model, written where the plan is PROVED. spec: MC1.1, MC1.2"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tmmu.cli import options
from tmmu.core.errors import TmmuError
from tmmu.core.flags import Folder, OnceCommand, format_examples, model_file, plan_file
from tmmu.core.output import escape_line, print_lines
from tmmu.core.progress import progress
from tmmu.core.vocabulary import Bindings

if TYPE_CHECKING:
    from proofs.verify.verdict import Verdict
    from tmmu.plans.sections import Plan


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu codegen mlp.plan.cbor --model mlp.onnx -o c",
        "tmmu codegen mlp.plan.cbor --model mlp.onnx --static --name mlp -o c-static",
    ),
)
@click.argument("plan", type=plan_file)
@click.option("--model", type=model_file, required=True, help="The model (ONNX) that the plan was made of.")
@click.option("-o", "--output", type=Folder(), required=True, help="The folder to write: not there yet, or empty.")
@click.option(
    "--weights",
    type=click.Choice(["embed", "file"]),
    default="embed",
    show_default=True,
    help="As C literals up to 1 MiB in all (more: as file), or as weights.bin, which the assembler takes in.",
)
@click.option("--static", is_flag=True, help="Static arrays in place of malloc.")
@click.option("--name", default="model", show_default=True, help="What header, source and program are called.")
@options.bindings(
    ranges=False,
    dim="A binding that the plan was made with, if the plan does not state it.",
    shape="The same for the shape of an input.",
    value="The same for the value of an input.",
    donate="An input that the plan may overwrite: it does not count unless it is named here again.",
    trust_shapes="Use the shapes that the model file states.",
)
def codegen(plan: str, model: str, output: str, weights: str, static: bool, name: str, bindings: Bindings) -> int:
    """Write C99 that runs a model in the memory of its plan.

    PLAN, of any layout, is proved against the model first, as verify-plan does. The folder has a struct of the model,
    model_init, model_forward and model_free, the kernels that the model needs, its weights, a program
    (make; ./model INPUTS OUTPUTS: raw tensors in the order of the graph), a Makefile and a CMakeLists.txt.

    Of a symbolic plan a header alone is written: functions that compute sizes and offsets from a shape.

    \b
    Exit codes: 0 written, 1 REFUTED, 3 UNKNOWN, 4 no plan, no model, or what has no kernel or weights,
    2 command line, 70 internal error.
    """
    from proofs.verify import judge
    from proofs.verify import text as verdict_text
    from proofs.verify.options import Disagreement, Options
    from tmmu.mico import PlanNotProved, generate
    from tmmu.mico.generate import check_name
    from tmmu.plans.gate import StatedPlan

    try:
        check_name(name)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--name") from error
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
            written = generate(
                stated.plan, model, output, prove=prove, weights=weights, static=static, name=name, bindings=own
            )
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
