"""Draw evidence of linear size from a plan, for obligations and kernel. They check it and do not trust it."""
