"""The plan as data: columns, the gate, the file with its hashes, and metrics for people."""
