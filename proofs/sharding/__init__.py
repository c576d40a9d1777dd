"""Check sharding (R7) without the planner: what each rank must run and hold, and whether all ranks fit together.

`mesh` places ranks and cuts dimensions, `partitions` decides how tensors are partitioned over it, and `loops` decides
which dimensions an operation walks together. `rank_model` and `stages` compute what a rank must run. `parts` compares
it with the parts that a plan states, and `ranks` checks all plans together.
"""
