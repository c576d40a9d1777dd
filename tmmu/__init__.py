"""Plan the memory of machine-learning models: words, records, planner and commands."""
