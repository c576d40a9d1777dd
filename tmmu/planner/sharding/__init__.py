"""Sharding (R7): from a model and a shard spec to the model of one rank, with its collectives as steps.

`spec` reads the user's spec. `splits` finds the axis that splits each dimension of a tensor. `relations` finds the
dimensions of an operation's tensors that form one loop. `rewrite` inserts collectives for operands and results that do
not fit. `stages` cuts the graph into pipeline stages, and `local` returns the model that one rank plans.
"""

from __future__ import annotations

from tmmu.planner.sharding.local import Local, build_local_models, build_shards
from tmmu.planner.sharding.spec import load

__all__ = ["Local", "build_local_models", "build_shards", "load"]
