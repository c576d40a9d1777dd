"""`tmmu replan`: does a plan hold for a shape, and what to do if it does not. spec: R6.7, R6.8, R6.10, R6.12"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tmmu.cli import options
from tmmu.cli.units import memory
from tmmu.core import kind
from tmmu.core.errors import TmmuError
from tmmu.core.flags import (
    OnceCommand,
    binding_option,
    format_examples,
    gather_options,
    model_file,
    parse_sizes,
    plan_file,
)
from tmmu.core.output import print_lines
from tmmu.core.progress import Doing, progress, report_nothing

if TYPE_CHECKING:
    from tmmu.plans.replan import ReplanRecord
    from tmmu.plans.sections import Plan


@dataclass(frozen=True)
class ReplanOptions:
    """How a plan is exchanged: the policy (None is the plan's), the iteration after it, and the inputs that it needs.

    `budget` is that of a plan that computes values again, `address_token` the secret token of the layout `hashed`.
    """

    policy: str | None = None
    iteration: int = 0
    budget: int | None = None
    address_token: bytes | None = None


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu replan wide.plan.cbor --model unet.onnx --dim batch=4 -o new.plan.cbor",
        "tmmu replan wide.plan.cbor --model unet.onnx --dim batch=16 --policy replan_at_safepoint -o new.plan.cbor",
    ),
)
@click.argument("plan", type=plan_file)
@click.option("--model", type=model_file, required=True, help="The model that the plan was made of.")
@binding_option("--dim", "The size of a dimension in the coming iteration; one that is not named is as planned.")
@click.option(
    "--policy",
    type=options.replan_policy,
    help="What to do with a shape outside the envelope [the plan's own].",
)
@click.option("--iteration", type=options.uint64, default=0, help="Which iteration comes next.")
@click.option("--budget", callback=memory, metavar="BYTES", help="That of a plan with remat_enabled.")
@options.address_token
@click.option("--record", type=options.record, help="Write a trace: PLAN, the replan, and the plan in its place.")
@click.option("-o", "--output", type=options.output, required=True, help="Where to write a new plan.")
@gather_options("asked", ReplanOptions)
def replan(
    plan: str, model: str, dim: dict[str, str], asked: ReplanOptions, record: str | None, output: str
) -> int:  # fmt: skip
    """Plan again where a shape is outside the envelope.

    Where the envelope of PLAN holds the shape, nothing is done; else the command aborts or plans the wider envelope.
    """
    from tmmu.cli.summary import summary
    from tmmu.plans import file
    from tmmu.runtime.records.trace import Trace

    for target in (output, record):
        if target is not None and os.path.realpath(target) in map(os.path.realpath, (plan, model)):
            raise click.UsageError(f"{target} is an input of this command; choose another file")
    from tmmu.plans.replan import convert_to_units

    old = file.load(plan).plan
    shape = convert_to_units(old, parse_sizes("--dim", dim))
    if old.origin.world_size > 1:
        raise click.UsageError(f"{plan} is the plan of one rank; plan the ranks again with tmmu plan --shard")
    with progress(model) as doing:
        made, change = replan_for(plan, old, model, shape, asked, doing)
    if change is None:
        print_lines(f"{plan} holds for this shape: nothing to do")
        return 0
    file.save(made, output)
    print_lines(f"wrote {output}")
    if record is not None:
        trace = Trace()
        trace.allocated(old)
        trace.append_replan(change)
        trace.allocated(made)
        trace.save(record)
        print_lines(f"wrote {record}")
    hashes = f"{change.old_tmmu_plan_hash.hex()} -> {change.new_tmmu_plan_hash.hex()}"
    print_lines(*summary(made), f"  replanned before iteration {change.t}: {hashes}")
    return 0


def replan_for(
    name: str,
    old: Plan,
    model: str,
    shape: Mapping[str, int],
    asked: ReplanOptions,
    doing: Doing = report_nothing,
) -> tuple[Plan, ReplanRecord | None]:
    """Return the plan for an iteration with `shape`, checked, and the record of the change.

    If the old plan holds for the shape, these are `old` and None. `name` is the file of the old plan, `model` that of
    its model.

    Raises
    ------
    TmmuError
        What `tmmu.planner.replan.replan` raises, MODE_VIOLATION for a plan that computes values again where no budget
        is given, what reading, planning and checking the model raise.
    """
    from tmmu.planner import replan as policies
    from tmmu.planner.modes import prepare_graph
    from tmmu.planner.remat import check_budget
    from tmmu.plans.sections import arena_configurations
    from tmmu.tasks.checking import check, check_sizes
    from tmmu.tasks.models import load_resolved

    try:
        beyond = policies.find_outside(old, shape)
        if not beyond:
            return old, None
        own = policies.ReplanPolicy.ABORT if old.envelope is None else old.envelope.policy
        chosen = own if asked.policy is None else asked.policy.upper()
        if chosen == policies.ReplanPolicy.ABORT:
            raise policies.abort_error(old, beyond)
        if asked.budget is None and any(".recompute" in node for node in old.allocation.steps.node):
            what = "the plan computes values again to fit a budget that it does not state"
            fix = "give it to tmmu replan with --budget"
            raise TmmuError("MODE_VIOLATION", what, place="budget", fix=fix, mode=old.origin.mode)
        bindings = policies.widen_bindings(old.bindings, shape)
    except TmmuError as error:
        error.in_file(name)
        raise
    doing("reading")
    loaded, resolved = load_resolved(model, bindings)
    try:
        check_sizes(resolved)
        graph = prepare_graph(
            loaded, old.origin.mode, arena_configurations(old), asked.budget, old.configuration.policy
        )
        doing("planning")
        made, change = policies.replan(
            old, graph, shape, chosen, t=asked.iteration, address_token=asked.address_token
        )  # fmt: skip
        if asked.budget is not None:
            check_budget(made, asked.budget)
        doing("checking")
        check(made, graph, is_ir=kind.is_ir(model))
    except TmmuError as error:
        error.in_file(model)
        raise
    return made, change
