"""Handle a shape outside the envelope: abort, or plan again at the safepoint before the next iteration.

A plan holds for the shapes inside its envelope. A shape outside is refused before anything runs (`ABORT`), or a new
plan is made for the smallest envelope that holds both, at the safepoint that opens the iteration and before it runs
(`REPLAN_AT_SAFEPOINT`). The decision and the new plan depend only on their arguments: the same model, old plan and
shape give the same new plan. The record names the replaced plan and the new one. spec: R6.7, R6.8, R6.10
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import REPLAN_POLICIES, UINT64_END, Bindings, Model
from tmmu.planner.options import PlanOptions
from tmmu.planner.plan import plan_memory
from tmmu.plans.places import fixed_places
from tmmu.plans.replan import ReplanRecord, dimension_ranges
from tmmu.plans.sections import Plan, arena_configurations

OPERATOR = "UML_OS.TMMU.PrepareMemory_v2"


class ReplanPolicy(enum.StrEnum):
    """The reaction of a run to a shape outside the envelope (001 II.H)."""

    ABORT = REPLAN_POLICIES[0]
    REPLAN_AT_SAFEPOINT = REPLAN_POLICIES[1]


class Outside(NamedTuple):
    """A dimension of a shape that is outside of the envelope: its name, its size, and the permitted range."""

    name: str
    size: int
    low: int
    high: int


def find_outside(plan: Plan, shape: Mapping[str, int]) -> list[Outside]:
    """Return the dimensions of `shape` outside of the plan's envelope. An omitted dimension is as planned.

    Raises INVALID_BINDING for a dimension that the plan does not have and for a size that no dimension can have.
    """
    dims = dimension_ranges(plan.bindings)
    for name, size in shape.items():
        if name not in dims:
            known = ", ".join(map(repr, sorted(dims))) or "none"
            raise _invalid_binding(name, f"the plan has no dimension {name!r}", f"its dimensions are {known}")
        if not 0 <= size < UINT64_END:
            raise _invalid_binding(
                name, f"expected a size of 0 or more below 2^64, got {size}", "give a size below 2^64"
            )
    found = (Outside(name, size, *dims[name]) for name, size in sorted(shape.items()))
    return [dim for dim in found if not dim.low <= dim.size <= dim.high]


def widen_bindings(bindings: Bindings, shape: Mapping[str, int]) -> Bindings:
    """Return the bindings of a new plan: the smallest envelope that holds the old one and the shape. spec: R6.8

    >>> widen_bindings(Bindings({"batch": 4}, ranges={"seq": (1, 4096)}), {"seq": 5000, "batch": 4}).ranges
    {'seq': (1, 5000)}
    """
    ends = {
        name: (min(low, shape.get(name, low)), max(high, shape.get(name, high)))
        for name, (low, high) in dimension_ranges(bindings).items()
    }
    dims = {name: low for name, (low, high) in ends.items() if low == high}
    return replace(bindings, dims=dims, ranges={name: ends[name] for name in sorted(ends) if name not in dims})


def replan(
    plan: Plan,
    model: Model,
    shape: Mapping[str, int],
    policy: ReplanPolicy | str | None = None,
    *,
    t: int = 0,
    address_token: bytes | None = None,
) -> tuple[Plan, ReplanRecord | None]:
    """Return the plan for iteration `t` with `shape`: the old one if it holds, otherwise by the policy.

    Parameters
    ----------
    plan
        The plan in force before the safepoint.
    model
        The planned graph under `widened(plan.bindings, shape)`: expanded and recomputed for the plan's mode. It is
        ignored if the plan holds for the shape.
    shape
        Sizes of named dimensions.
    policy
        By default the plan's own; for a plan without an envelope, ABORT.
    t
        The iteration that the safepoint opens.
    address_token
        The token of a plan with hashed addresses.

    Returns
    -------
    Plan, ReplanRecord or None
        The old plan and None if it holds for the shape.

    Raises
    ------
    TmmuError
        CONTRACT_VIOLATION under ABORT, naming the dimension, its size and the envelope; INVALID_BINDING if the model or
        the token differs from the planned one; otherwise the errors of `plan_memory`. Nothing is changed then.

    Notes
    -----
    Pure. Costs one planning. spec: R6.7, R6.8, D1.2
    """
    beyond = find_outside(plan, shape)
    if not beyond:
        return plan, None
    if plan.membership is not None:
        what = f"{plan.membership.program} is a program of a plan set, whose other plans would no longer fit"
        raise _invalid_binding("shape", what, "plan the set again, with a range that holds this shape")
    chosen = ReplanPolicy(policy or (plan.envelope.policy if plan.envelope is not None else ReplanPolicy.ABORT))
    if chosen is ReplanPolicy.ABORT:
        raise abort_error(plan, beyond)
    wanted = widen_bindings(plan.bindings, shape)
    if (model.bindings.dims, dict(model.bindings.ranges)) != (wanted.dims, wanted.ranges):
        expected, got = (_format_ranges(dimension_ranges(bindings)) for bindings in (wanted, model.bindings))
        stated = f"expected the bindings {expected}, got {got}"
        raise _invalid_binding("model", stated, "read the model again under the widened envelope")
    if model.source_digest != plan.origin.source_digest or model.name != plan.origin.model:
        raise _invalid_binding(
            "model", "it is not the model that was planned", "give the file that the plan was made from"
        )
    if plan.origin.address_token_digest != (None if address_token is None else hashlib.sha256(address_token).digest()):
        raise _invalid_binding(
            "address_token", "it is not the token that the plan was made with", "give the same token"
        )
    origin = plan.origin
    options = PlanOptions(
        origin.mode,
        origin.layout,
        origin.order,
        origin.replay_token,
        address_token,
        replan_policy=chosen.value,
        effort=origin.effort,
        symbolic=plan.envelope is not None and plan.envelope.symbolic,
        fixed=fixed_places(plan),
        listed=_listed_order(plan, model),
    )
    made = plan_memory(model, arena_configurations(plan), options, policy=plan.configuration.policy).plan
    return made, ReplanRecord.between(plan, made, t, describe_outside(beyond), shape)


def _listed_order(plan: Plan, model: Model) -> tuple[str, ...]:
    """Return the nodes in the order of the plan if it was listed, thus is not that of the model; () if not."""
    if plan.origin.order != "given":
        return ()
    steps = plan.allocation.steps
    nodes = tuple(dict.fromkeys(steps.node))
    own, known = [node.name for node in model.nodes], set(nodes)
    both = known.intersection(own)
    same = [name for name in nodes if name in both] == [name for name in own if name in both]
    return () if same else nodes


def describe_outside(beyond: list[Outside]) -> str:
    """Describe why a plan does not hold for a shape: each dimension that is outside, its size and its range."""
    return "; ".join(f"{dim.name} is {dim.size}, the envelope holds {dim.low} to {dim.high}" for dim in beyond)


def abort_error(plan: Plan, beyond: list[Outside]) -> TmmuError:
    """Return the abort: CONTRACT_VIOLATION with each dimension, its size and its range. spec: R6.7"""
    first = beyond[0]
    low, high = min(first.low, first.size), max(first.high, first.size)
    return TmmuError(
        "CONTRACT_VIOLATION",
        f"{describe_outside(beyond)}; nothing was run with it",
        place=f"plan of {plan.origin.model!r}",
        fix=f"plan with --dim {first.name}={low}..{high}, or --replan-policy replan_at_safepoint",
        operator=OPERATOR,
        failure_operator=OPERATOR,
    )


def _format_ranges(dims: Mapping[str, tuple[int, int]]) -> str:
    return ", ".join(f"{name}={low}..{high}" for name, (low, high) in sorted(dims.items())) or "nothing"


def _invalid_binding(binding: str, what: str, fix: str) -> TmmuError:
    return TmmuError("INVALID_BINDING", what, place=binding, fix=fix, binding=binding)
