"""`tmmu replan`: does a plan hold for a shape, and what to do where it does not. spec: R6.7, R6.8, R6.10, R6.12"""

from __future__ import annotations

import os

import click

from tmmu.cli import options
from tmmu.cli.units import memory
from tmmu.core import kind
from tmmu.core.errors import TmmuError
from tmmu.core.flags import bound, existing, sizes
from tmmu.core.output import print_lines


@click.command()
@click.argument("plan", type=existing)
@click.option("--model", type=existing, required=True, help="The model that the plan was made of.")
@bound("--dim", "The size of a dimension in the coming iteration; one that is not named is as planned.")
@click.option(
    "--policy",
    type=options.replan_policy,
    help="What to do with a shape outside the envelope [the plan's own].",
)
@click.option("--iteration", type=options.uint64, default=0, help="Which iteration comes next.")
@click.option("--budget", callback=memory, metavar="BYTES", help="That of a plan with remat_enabled.")
@options.address_token
@click.option("--record", type=options.output, help="Write the trace record of a replan (CBOR).")
@click.option("-o", "--output", type=options.output, required=True, help="Where to write a new plan.")
def replan(
    plan: str,
    model: str,
    dim: dict[str, str],
    policy: str | None,
    iteration: int,
    budget: int | None,
    address_token: bytes | None,
    record: str | None,
    output: str,
) -> int:
    """Plan again where a shape is outside the envelope.

    Where the envelope of PLAN holds the shape, nothing is done; else the command aborts or plans the wider envelope.
    """
    from tmmu.cli.checking import check
    from tmmu.cli.models import load
    from tmmu.cli.summary import summary
    from tmmu.core import canonical
    from tmmu.plan import file
    from tmmu.plan.sections import configured
    from tmmu.planner import replan as policies
    from tmmu.planner.modes import prepare
    from tmmu.planner.remat import check_budget

    for target in (output, record):
        if target is not None and os.path.realpath(target) in map(os.path.realpath, (plan, model)):
            raise click.UsageError(f"{target} is an input of this command; choose another file")
    old, shape = file.load(plan).plan, sizes("--dim", dim)
    if old.origin.world_size > 1:
        raise click.UsageError(f"{plan} is the plan of one rank; plan the ranks again with tmmu plan --shard")
    try:
        beyond = policies.outside(old, shape)
        if not beyond:
            print_lines(f"{plan} holds for this shape: nothing to do")
            return 0
        own = policies.ReplanPolicy.ABORT if old.envelope is None else old.envelope.policy
        chosen = own if policy is None else policy.upper()
        if chosen == policies.ReplanPolicy.ABORT:
            raise policies.refused(old, beyond)
        if budget is None and any(".recompute" in node for node in old.allocation.steps.node):
            what, fix = "the plan computes values again to fit a budget that it does not state", "give it with --budget"
            raise TmmuError("MODE_VIOLATION", what, place="budget", fix=fix, mode=old.origin.mode)
        bindings = policies.widened(old.bindings, shape)
    except TmmuError as error:
        error.in_file(plan)
        raise
    loaded = load(model, bindings)
    try:
        graph = prepare(loaded, old.origin.mode, configured(old), budget, old.configuration.policy)
        made, change = policies.replan(old, graph, shape, chosen, t=iteration, address_token=address_token)
        assert change is not None  # the shape is outside
        if budget is not None:
            check_budget(made, budget)
        check(made, graph, is_ir=kind.is_ir(model))
    except TmmuError as error:
        error.in_file(model)
        raise
    file.save(made, output)
    print_lines(f"wrote {output}")
    if record is not None:
        canonical.write_atomically(record, canonical.encode(change.to_object()))
        print_lines(f"wrote {record}")
    hashes = f"{change.old_plan_hash.hex()} -> {change.new_plan_hash.hex()}"
    print_lines(*summary(made), f"  replanned before iteration {change.t}: {hashes}")
    return 0
