"""A plan at work: arenas in real memory, zeroing, batches and their commits, records, checkpoints."""
