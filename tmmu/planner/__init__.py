"""The planner: liveness, storages, slots, addresses, plan; pure functions over plain data."""

from tmmu.planner.arenas import DEFAULT
from tmmu.planner.placing import LAYOUTS
from tmmu.planner.plan import MODES, Planned, plan_memory, replay_token

__all__ = ["DEFAULT", "LAYOUTS", "MODES", "Planned", "plan_memory", "replay_token"]
