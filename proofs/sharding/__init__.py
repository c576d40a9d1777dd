"""The verifier's own account of sharding (R7): what each rank must run and hold, and whether all ranks fit together.

`mesh` places ranks and cuts dimensions, `partitions` decides how tensors are partitioned over it, `loops` which
dimensions an operation walks together; `rank_model` and `stages` work out what a rank must run, `parts` compares the
parts that a plan states with it, and `ranks` checks all plans together. The planner is not asked.
"""
