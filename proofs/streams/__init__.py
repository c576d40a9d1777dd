"""Check plans whose steps overlap in time: happens-before, races, and runs of random interleavings (X5)."""
