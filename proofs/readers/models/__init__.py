"""Read a model independently of the planner, for the comparison of a plan with it."""
