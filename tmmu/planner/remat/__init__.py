"""Rematerialisation: recompute values of the forward half instead of keeping them (M1, `remat_enabled`)."""

from tmmu.planner.remat.choose import check_budget, rematerialise

__all__ = ["check_budget", "rematerialise"]
