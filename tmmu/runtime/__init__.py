"""Executing a plan: arenas in real memory, zeroing, batches and their commits, records, checkpoints."""
