"""Arenas: their configuration, which of them each tensor may use, and which one each storage is assigned to (M3).

`configuration` has the default arenas and what makes a configuration wrong, `file` reads one from TOML, `permitted`
matches rules with tensors, and `assignment` solves an allocation problem, with `filling` and `levels`.
"""

from tmmu.planner.arenas.configuration import DEFAULT, check

__all__ = ["DEFAULT", "check"]
