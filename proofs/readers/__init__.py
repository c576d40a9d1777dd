"""The checker's own reading of plans' models: what must be run, and what may share bytes, worked out a second time."""
