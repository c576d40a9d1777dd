"""Sharding (R7): from a model and a shard spec to the model of one rank, with its collectives as steps.

`spec` reads what the user writes, `splits` finds which axis splits each dimension of a tensor, `relations` which
dimensions of an operation's tensors are one loop, `rewrite` puts collectives where an operand or a result does not fit,
`stages` cuts the graph into pipeline stages, and `local` gives what one rank plans.
"""

from __future__ import annotations

from tmmu.planner.sharding.local import Local, local_models, shards_of
from tmmu.planner.sharding.spec import load

__all__ = ["Local", "load", "local_models", "shards_of"]
