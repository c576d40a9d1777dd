"""Models as data: schema, checks, execution order, steps, digest."""
