"""The planner: liveness, aliasing, arenas, slots, layout, plan; pure functions over plain data.

What is named here is imported at its first use, so that a command which shows a plan does not load what makes one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tmmu.planner.arenas import DEFAULT
    from tmmu.planner.options import PlanOptions
    from tmmu.planner.plan import Planned, plan_memory, replay_token

_MODULES = {
    "DEFAULT": "arenas",
    "PlanOptions": "options",
    "Planned": "plan",
    "plan_memory": "plan",
    "replay_token": "plan",
}

__all__ = ["DEFAULT", "PlanOptions", "Planned", "plan_memory", "replay_token"]


def __getattr__(name: str) -> Any:
    """Import a name of this package from its module. Raises AttributeError for any other name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
