"""Arenas: their configuration, which of them each tensor may use, and which one each storage is assigned to (M3).

`permitted` matches rules with tensors, and `assignment` solves an allocation problem, with `filling` and `levels`.
What makes a configuration wrong, and how it is read from TOML, is beside the format of plans (`tmmu.plans`).
"""

from tmmu.plans.configuration import DEFAULT, check

__all__ = ["DEFAULT", "check"]
