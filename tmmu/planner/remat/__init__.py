"""Rematerialisation: values of the forward half that are computed again instead of being kept (M1, `remat_enabled`)."""

from tmmu.planner.remat.choose import check_budget, rematerialise

__all__ = ["check_budget", "rematerialise"]
