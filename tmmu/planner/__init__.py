"""The planner: liveness, aliasing, arenas, slots, layout, plan; pure functions over plain data."""

from tmmu.planner.arenas import DEFAULT
from tmmu.planner.options import PlanOptions
from tmmu.planner.plan import Planned, plan_memory, replay_token

__all__ = ["DEFAULT", "PlanOptions", "Planned", "plan_memory", "replay_token"]
