"""Execute a plan byte by byte, over plain data: the naive definition that all other checks are measured by."""
