"""Arenas: their configuration, the arenas that each tensor may use, and the arena assigned to each storage (M3).

`permitted` matches rules with tensors, and `assignment` solves an allocation problem, with `filling` and `levels`.
Validation of a configuration and its TOML reader are beside the format of plans (`tmmu.plans`).
"""

from tmmu.plans.configuration import DEFAULT, check_configuration

__all__ = ["DEFAULT", "check_configuration"]
