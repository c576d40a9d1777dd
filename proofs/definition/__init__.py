"""Define what a safe plan is: the promises, the naive checker, and the violations that it finds."""
