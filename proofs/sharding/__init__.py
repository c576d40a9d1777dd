"""The verifier's own account of sharding (R7): what each rank must run and hold, and whether all ranks fit together.

`mesh` places ranks and cuts dimensions, `lies` says how tensors lie on it, `loops` which dimensions an operation walks
together; `rank_model` and `stages` work out what a rank must run, `parts` compares what a plan says that it holds,
and `ranks` looks at all plans together. The planner is not asked.
"""
