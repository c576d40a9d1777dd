"""Long runs of what the fast suite looks at for seconds; each prints its figures."""
