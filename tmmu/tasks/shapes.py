"""A plan at a shape that a user asks for. spec: R6.16"""

from __future__ import annotations

from collections.abc import Mapping

from tmmu.core.errors import TmmuError
from tmmu.planner.replan import abort_error, find_outside
from tmmu.plans.replan import convert_to_units
from tmmu.plans.sections import Plan
from tmmu.plans.shapes import at_shape, shape_of


def at_asked_shape(plan: Plan, asked: Mapping[str, int]) -> Plan:
    """Return the plan at a shape; a dimension that is not stated has its largest size.

    Raises INVALID_BINDING if the plan has no ranges or no such dimension, and CONTRACT_VIOLATION for a size outside.
    """
    if plan.envelope is None:
        raise TmmuError(
            "INVALID_BINDING", "the plan has no ranges, and so one shape", place="the shape", fix="leave --dim out"
        )
    shape = convert_to_units(plan, asked)
    beyond = find_outside(plan, shape)
    if beyond:
        raise abort_error(plan, beyond)
    return at_shape(plan, shape_of(plan, shape))
