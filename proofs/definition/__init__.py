"""What a safe plan is: the promises in English, the naive checker, and the violations that it finds."""
