"""Read plans' models independently of the planner: what must be run, and what may share bytes."""
